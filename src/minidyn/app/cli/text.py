"""Text for terminals: names come from files and are not trusted.

Colours only where they are seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from minidyn.notices import BY_GRADE, Notice, about_robot_file, most_serious_first, notices_json
from minidyn.text import visible

if TYPE_CHECKING:
    from rich.console import Console

    from minidyn.identification.estimate import Estimate
    from minidyn.model.robot import Robot

_About = TypeVar("_About", bound="Robot | Estimate")
_ABOUT = "minidyn.robot_notices"  # of the verb that runs
_NAME = 32  # characters of names in a table's first column that are never broken
_WIDEST = 400  # columns a table may take where its numbers need them


def safe(text: object) -> str:
    """Return foreign text for rich: no control characters, no line ends, markup escaped."""
    from rich.markup import escape

    return escape(visible(text))


@cache
def console() -> Console:
    """Return the console of the process.

    Colours on terminals only, 120 columns where there is none.
    """
    from rich.console import Console

    made = Console(highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 120
    return made


def print_table(
    title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], right: Iterable[int] = ()
) -> None:
    """Print a table below its title, which may be wider.

    Columns of numbers, `right`, may pass the console's width.
    """
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    made, numeric = (
        Table(box=box.SIMPLE_HEAD, header_style="bold", collapse_padding=True),
        set(right),
    )
    lines = [list(row) for row in rows]
    named = max((len(line[0]) for line in lines if line), default=0) <= _NAME
    for index, name in enumerate(
        columns
    ):  # a number or a name broken over two lines would read as two
        justify: Literal["right", "left"] = "right" if index in numeric else "left"
        made.add_column(
            name,
            justify=justify,
            overflow="fold",
            no_wrap=index in numeric or (index == 0 and named),
        )
    for line in lines:
        made.add_row(*line)
    out = console()
    out.print(f"[bold]{title}[/bold]")
    needed = Measurement.get(out, out.options.update(max_width=_WIDEST), made).minimum
    if needed > out.width:
        made.width = needed
    out.print(made, crop=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Print plain values as one JSON document.

    What is to be known of the robot stands under `robot_notices`.
    """
    context = click.get_current_context(silent=True)
    about = notices_json(context.meta.get(_ABOUT, ())) if context is not None else []
    if about and isinstance(data, dict) and "robot_notices" not in data:
        data = {**data, "robot_notices": about}
    click.echo(json.dumps(data, indent=1, allow_nan=False))


def told(about: _About) -> _About:
    """Return the robot of a verb, or its model.

    What is to be known of the robot's file is printed on stderr. It is added to JSON, too.
    """
    notices = about_robot_file(about.notices)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_ABOUT] = notices
    print_notices(notices, err=True)
    return about


def print_notices(notices: Iterable[Notice], of: str = "", *, err: bool = False) -> None:
    """Print notices `of` something, each once, most serious first.

    Level, the fact, and below it what to do.
    """
    ordered = list(most_serious_first(notices))
    for place, notice in enumerate(ordered):
        click.echo(visible(f"{notice.level}: {f'{of}: ' if of else ''}{notice.text}"), err=err)
        following = ordered[place + 1].advice if place + 1 < len(ordered) else ""
        if notice.advice and notice.advice != following:  # said once below notices that share it
            click.echo(visible(f"      {notice.advice}"), err=err)


def print_verdict(verdict: Mapping[str, Any]) -> None:
    """Print a verdict, as plain values, and the rules that are not met."""
    click.echo(f"verdict: {verdict['headline']}")
    for rule in verdict["rules"]:
        if not rule["ok"]:
            click.echo(visible(f"      {rule['name']}: {rule['text']}"))
    for words in verdict.get("verified", ()):
        click.echo(visible(f"      {words}"))


def finish(
    verdict: Mapping[str, Any] | None, require: str | None, notices: Iterable[Notice] = ()
) -> None:
    """End the verb: exit code 3 where a verdict is required and is not good, or there is none.

    4 where files are left out.
    """
    from minidyn.app.cli.main import Exit

    code = Exit.RULE_NOT_MET if verdict is None else BY_GRADE[verdict["level"]].exit_code
    if require is not None and code:
        click.get_current_context().exit(code)
    if any(notice.code == "recording.left_out" for notice in notices):
        click.get_current_context().exit(Exit.SKIPPED)


def print_ways(formats: Iterable[str]) -> None:
    """Say which programs for the robot drive to the first point themselves, unchecked."""
    from minidyn.excitation.robot_files import WAY_TO_FIRST_POINT

    for name in formats:
        if name in WAY_TO_FIRST_POINT:
            click.echo(f"{name}: {WAY_TO_FIRST_POINT[name]}")


def progress(what: str, total: int | None = None) -> AbstractContextManager[Callable[[int], None]]:
    """Report on stderr what takes time, as `progress_bar` does; nothing with --quiet."""
    from minidyn.display import progress_bar

    context = click.get_current_context(silent=True)
    quiet = context is not None and context.find_root().params.get("quiet")
    return nullcontext(lambda done: None) if quiet else progress_bar(what, total)
