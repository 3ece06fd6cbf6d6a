"""Results for the eye.

Tables in notebooks and as pandas frames, figures by matplotlib, a bar for long calls. Names come
from files and are not trusted: all markup is made by :func:`tag`, which escapes what it is given;
only :class:`Html`, which `tag` returns, passes unchanged. matplotlib, pandas and rich are imported
when they are needed.
"""

from __future__ import annotations

import functools
import html
import inspect
import io
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import optional
from minidyn.files import write_atomically
from minidyn.notices import Notice, most_serious_first
from minidyn.text import count, number, percent, plain, plot_label, short, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

COLOURS = ("#2a6fbb", "#c8553d", "#3d8c57", "#8a5fb5", "#b8860b", "#4f6d7a", "#a23b72", "#5b5b5b")
MEASURED, MODEL, RESIDUAL, PRIOR = "#b4bec8", "#1b62b0", "#b8500b", "#7a4fa3"
"""Colours of what was measured, the model, their difference and the prior.

As in the report (pages/style.css).
"""
MEASURED_LINE: dict[str, Any] = {"color": MEASURED, "linewidth": 3.0, "zorder": 1.5}
PRIOR_LINE: dict[str, Any] = {
    "color": PRIOR,
    "linewidth": 1.0,
    "linestyle": (0, (5, 3)),
    "zorder": 1.7,
}
MODEL_LINE: dict[str, Any] = {"color": MODEL, "linewidth": 1.1, "zorder": 2.0}
RESIDUAL_LINE: dict[str, Any] = {"color": RESIDUAL, "linewidth": 0.9, "zorder": 1.6}
"""Lines of figures: measured thick and pale, model thin, prior dashed."""

_VOID = {"meta", "br", "hr", "col"}
_ROWS = 200  # of a table in a notebook; the rest is counted
_LONGEST = 120  # letters of a cell in a notebook
_GAP = 20.0  # a pause longer than so many samples is a break in the line
_POINTS = 4000  # of a line in a figure

Progress = Callable[[int], None]
"""Called with the number done so far."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_T = TypeVar("_T")


# -------------------------------------------------------------------- markup


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element.

    Children that are Html as they are, None not at all, everything else escaped. In names of
    attributes underscores become hyphens, one at the end is dropped (`class_`). None and False
    leave an attribute out, True gives it without a value. Numbers are written short.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        parts.append(word if value is True else f'{word}="{html.escape(_text(value))}"')
    opened = f"<{' '.join(parts)}>"
    return Html(opened if name in _VOID else f"{opened}{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Return children one after the other, escaped as by `tag`."""
    shown = [
        child if isinstance(child, Html) else html.escape(_text(child))
        for child in children
        if child is not None
    ]
    return Html("".join(shown))


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value if isinstance(value, Html) else visible(value)


# -------------------------------------------------------------------- tables


@dataclass(frozen=True)
class DisplayTable:
    """A result as a table: what a notebook shows, and a pandas frame."""

    title: str  # of the table; may hold foreign names
    # values by heading, all of one length: texts, numbers, truth values, None where there is none
    columns: Mapping[str, Sequence[Any]]
    shares: tuple[str, ...] = ()  # headings of columns that are shares and shown as percent
    # shown below the table, most serious first; plain information is left out
    notices: Sequence[Notice] = field(default=())

    def to_html(self) -> str:
        """Return the table as HTML for notebooks, names escaped."""
        names = list(self.columns)
        right = [all(_is_number(value) for value in values) for values in self.columns.values()]
        sides = [
            f"padding: 2px 8px; text-align: {'right' if number_ else 'left'}" for number_ in right
        ]
        rows = list(zip(*self.columns.values()))
        head = tag("tr", *(tag("th", name, style=side) for name, side in zip(names, sides)))
        body = [
            tag(
                "tr",
                *(
                    tag("td", self._cell(name, value), style=side)
                    for name, value, side in zip(names, row, sides)
                ),
            )
            for row in rows[:_ROWS]
        ]
        more = tag("p", f"… and {len(rows) - _ROWS} rows more") if len(rows) > _ROWS else None
        found = [notice for notice in most_serious_first(self.notices) if notice.level != "info"]
        items = [
            tag(
                "li",
                tag("b", "Error: ") if notice.level == "error" else None,
                f"{notice} {notice.advice}".strip(),
            )
            for notice in found
        ]
        table = tag("table", tag("thead", head), tag("tbody", *body))
        listed = tag("ul", *items) if items else None
        return str(
            tag(
                "div", tag("p", tag("b", self.title)), table, more, listed, style="overflow-x: auto"
            )
        )

    def _cell(self, name: str, value: object) -> str:
        if value is None:
            return "–"
        if isinstance(value, bool | np.bool_):
            return "yes" if value else "no"
        if isinstance(value, int | np.integer):
            return count(int(value))
        if isinstance(value, float | np.floating):
            return percent(float(value), 3) if name in self.shares else number(float(value), 4)
        return short(value, _LONGEST)

    def to_pandas(self) -> DataFrame:
        """Return the table as a pandas frame, numbers as they are."""
        return to_frame(self.columns)


def _is_number(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
    )


def to_frame(columns: Mapping[str, Any]) -> DataFrame:
    """Return columns as a pandas frame, where pandas is installed."""
    return optional("pandas").DataFrame(
        {name: np.asarray(values) for name, values in columns.items()}
    )


# -------------------------------------------------------------------- figures


def new_figure(
    title: str, rows: int, height: float, width: float = 9.0
) -> tuple[Figure, list[Axes]]:
    """Return a matplotlib figure of panels one below the other that share their horizontal axis,
    and the panels.

    The height is that of a panel, inches.
    """
    figure = optional("matplotlib.figure").Figure(
        figsize=(width, height * rows + 0.7), layout="constrained"
    )
    axes = list(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
    figure.suptitle(plot_label(title, int(10 * width)), x=0.01, ha="left", fontsize=12)
    for axis in axes:
        axis.grid(color="#e2e2e2", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_lines(axis: Axes, t: Array, values: Array, names: Sequence[str], **style: Any) -> None:
    """Draw signals (N, k) over time with a legend entry each.

    Long ones keep their peaks, runs are not joined.
    """
    if not len(t):
        return
    shown, breaks = shown_time(t)
    found = envelope(shown, values, _POINTS, breaks)
    times = found.t if found.exact else np.repeat(found.t, 2)
    for k, name in enumerate(names):
        series = (
            found.low[:, k]
            if found.exact
            else np.stack([found.low[:, k], found.high[:, k]], axis=1).ravel()
        )
        label = plot_label(name, 24)
        label = (
            f" {label}" if label.startswith("_") else label
        )  # which matplotlib leaves out of legends
        look: dict[str, Any] = {"color": COLOURS[k % 8], "linewidth": 1.2, "label": label} | style
        axis.plot(times, series, **look)


def outside_legend(axis: Axes) -> None:
    """Put the legend to the right of a panel, where it has lines."""
    if axis.lines:
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)


def legend_above(axis: Axes, columns: int = 2) -> None:
    """Put the legend above a panel, at its right end."""
    axis.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=columns, fontsize=8
    )


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all; the ending (.png, .svg, .pdf) chooses the format."""
    buffer = io.BytesIO()
    form = path.suffix[1:] or "png"
    figure.savefig(
        buffer, format=form, dpi=130, metadata={"Software": "minidyn"} if form == "png" else None
    )
    write_atomically(path, buffer.getvalue())


# -------------------------------------------------------------------- long signals


def shown_time(t: Array) -> tuple[Array, list[int]]:
    """Return times from 0 that only grow, s, and the indices of samples that begin a run, where
    lines must break.

    Runs whose clocks start anew are put one after another.
    """
    if len(t) < 2:
        return np.zeros(len(t)), []
    steps = np.diff(t)
    usual = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 1.0
    backwards = steps <= 0
    breaks = (np.flatnonzero(backwards | (steps > _GAP * usual)) + 1).tolist()
    steps = np.where(backwards, _GAP * usual, steps)
    return np.concatenate([[0.0], np.cumsum(steps)]), breaks


@dataclass(frozen=True)
class Envelope:
    """Smallest and largest value of consecutive groups of samples."""

    t: Array  # middle time of each group (m,)
    low: Array  # smallest values (m, k) of k signals; NaN where a line must break
    high: Array  # largest values (m, k)
    exact: bool  # whether each group is one sample


def envelope(t: Array, signals: Array, groups: int, breaks: list[int]) -> Envelope:
    """Return the envelope of signals (N, k) in at most `groups` groups.

    Groups do not reach across breaks.
    """
    edges = [0, *breaks, len(t)]
    times: list[Array] = []
    lows: list[Array] = []
    highs: list[Array] = []
    size = max(1, int(np.ceil(len(t) / max(groups - len(breaks), 1))))
    for begin, end in itertools.pairwise(edges):
        starts = np.arange(begin, end, size)
        last = np.minimum(starts + size, end) - 1
        times.append((t[starts] + t[last]) / 2)
        part = signals[begin:end]
        lows.append(np.minimum.reduceat(part, starts - begin, axis=0))
        highs.append(np.maximum.reduceat(part, starts - begin, axis=0))
        if end < len(t):
            times.append(np.array([(t[end - 1] + t[end]) / 2]))
            for parts in (lows, highs):
                parts.append(np.full((1, signals.shape[1]), np.nan))
    return Envelope(np.concatenate(times), np.concatenate(lows), np.concatenate(highs), size == 1)


# -------------------------------------------------------------------- long calls


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Progress]:
    """Show on stderr what takes time: a bar on a terminal or in a notebook, one line elsewhere.

    Gives a function to be called with the number of parts done so far, of `total`; None: not known.
    """
    from rich.console import Console
    from rich.markup import escape

    words = escape(visible(what))
    screen = Console(stderr=True, highlight=False)
    if not (screen.is_terminal or screen.is_jupyter):
        sys.stderr.write(f"{plain(what)} ...\n")
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    begin = time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=screen, transient=True) as bar:
        task = bar.add_task(words, total=total, done="")
        of = "" if total is None else f" of {count(total)}"
        yield lambda done: bar.update(task, completed=done, done=f"{count(done)}{of}")
    screen.print(f"{words} [dim]{time.monotonic() - begin:.1f} s[/dim]")


def shows_progress(
    what: str, total: Callable[[Mapping[str, Any]], int | None] = lambda arguments: None
) -> Callable[[_Function], _Function]:
    """Let a function's `progress=True` mean a bar on stderr, shown until the function returns.

    `total` gives the number of parts from the function's arguments by name; None: not known.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if options.get("progress") is not True:
                return function(*args, **options)
            given = inspect.signature(function).bind(*args, **options)
            given.apply_defaults()
            with progress_bar(what, total(given.arguments)) as counted:
                return function(*args, **{**options, "progress": counted})

        return cast("_Function", call)

    return decorate


_LISTENER: ContextVar[Callable[[str, object], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[str, object], None]) -> Iterator[None]:
    """Hear what long calls announce inside: "phase" with its name, "decision" with what it is."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def announce(what: str, content: object) -> None:
    """Say where a long call is, to whoever listens; it changes nothing."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, content)


class Announced(list[_T]):
    """A list whose new entries are announced."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def append(self, entry: _T) -> None:
        """Add an entry and announce it."""
        super().append(entry)
        announce(self._what, entry)


def counted(progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Return a progress function for several passes, each counting from zero.

    It goes on counting.
    """
    if progress is None:
        return None
    before, latest = 0, 0

    def called(done: int) -> None:
        nonlocal before, latest
        if done <= latest:
            before += latest
        latest = done
        progress(before + done)

    return called
