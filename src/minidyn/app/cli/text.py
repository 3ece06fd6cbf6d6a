"""Text for terminals: names come from files and are not trusted; colours only where they are seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from minidyn.notices import Notice, most_serious_first
from minidyn.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_WIDEST = 400  # columns a table may take where its numbers need them


def safe(text: object) -> str:
    """Return foreign text for rich: no control characters, no line ends, markup escaped."""
    from rich.markup import escape

    return escape(visible(text))


@cache
def console() -> Console:
    """Return the console of the process: colours on terminals only, 120 columns where there is none."""
    from rich.console import Console

    made = Console(highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 120
    return made


def table(title: str, *columns: str, right: tuple[int, ...] = ()) -> Table:
    """Return an empty table in the house style; columns of numbers, `right`, are aligned right."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, box=box.SIMPLE_HEAD, header_style="bold", collapse_padding=True)
    for index, name in enumerate(columns):
        numeric = index in right  # a number broken over two lines would read as two
        made.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    return made


def print_table(made: Table) -> None:
    """Print a table below its title, which may be wider than the table; numbers may make it wider than the console."""
    from rich.measure import Measurement

    out, title = console(), made.title
    made.title = None
    out.print(f"[bold]{title}[/bold]")
    needed = Measurement.get(out, out.options.update(max_width=_WIDEST), made).minimum
    if needed > out.width:
        made.width = needed
    out.print(made, crop=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Print plain values as one JSON document."""
    click.echo(json.dumps(data, indent=1, allow_nan=False))


def print_notices(notices: Iterable[Notice], of: str = "") -> None:
    """Print notices `of` something, each once, most serious first: level, the fact, and below it what to do."""
    for notice in most_serious_first(notices):
        for line in (f"{notice.level}: {f'{of}: ' if of else ''}{notice.text}", f"      {notice.advice}"):
            if line.strip():
                click.echo(visible(line))


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Report on stderr what takes time, as `progress_bar` does; nothing with --quiet."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("quiet"):
        yield lambda done: None
        return
    from minidyn.display import progress_bar

    with progress_bar(what, total) as done:
        yield done
