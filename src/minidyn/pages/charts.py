"""Charts as SVG text: axes, grid lines, paths.

Colours come from the page's style sheet through classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.display import Html, join, tag
from minidyn.text import number


@dataclass(frozen=True)
class Axis:
    """A range of values; logarithmic where asked."""

    low: float
    high: float
    log: bool = False

    def place(self, values: Array | float) -> Array:
        """Return where values are, 0 at the low end and 1 at the high end."""
        x, low, high = np.asarray(values, dtype=float), self.low, self.high
        if self.log:
            x, low, high = np.log10(np.maximum(x, 1e-300)), math.log10(low), math.log10(high)
        return np.asarray((x - low) / ((high - low) or 1.0))

    def ticks(self, wanted: int = 5) -> list[float]:
        """Return round values inside the range, about as many as wanted."""
        if self.log:
            low, high = (
                math.ceil(math.log10(self.low) - 1e-9),
                math.floor(math.log10(self.high) + 1e-9),
            )
            stride = max(1, math.ceil((high - low + 1) / wanted))
            return [10.0**power for power in range(low, high + 1, stride)]
        step = _step(self.high - self.low, wanted)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [step * k for k in range(first, last + 1)]


def _step(span: float, wanted: int) -> float:
    if not span > 0:
        return 1.0
    raw = span / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return float(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999))


def nice_range(values: Array, floor: float = 0.0) -> Axis:
    """Return a linear axis that holds all finite values, with some air, and is not narrower than
    `floor`.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 1.0)
    span = max(high - low, floor, 1e-12 * max(abs(low), abs(high)), 1e-300)
    middle = (low + high) / 2
    return Axis(middle - 0.54 * span, middle + 0.54 * span)


@dataclass(frozen=True)
class Plot:
    """A rectangle of a picture, pixels, with its horizontal and vertical axis."""

    left: float
    top: float
    width: float
    height: float
    x: Axis
    y: Axis

    def px(self, values: Array | float) -> Array:
        """Return horizontal places, pixels."""
        return np.asarray(self.left + self.width * self.x.place(values))

    def py(self, values: Array | float) -> Array:
        """Return vertical places, pixels; larger values are higher."""
        return np.asarray(self.top + self.height * (1.0 - self.y.place(values)))

    def axes(
        self,
        x_label: str = "",
        y_label: str = "",
        ticks: tuple[int, int] = (6, 3),
        labels: bool = True,
    ) -> Html:
        """Return grid lines, tick labels and axis labels.

        Without `labels` the horizontal axis is bare.
        """
        bottom = self.top + self.height
        marks: list[Html] = []
        for value in self.y.ticks(ticks[1]) if ticks[1] else ():
            y = float(self.py(value))
            zero = " zero" if value == 0 and not self.y.log else ""
            marks.append(
                tag(
                    "line",
                    class_=f"grid{zero}",
                    x1=self.left,
                    x2=self.left + self.width,
                    y1=y,
                    y2=y,
                )
            )
            marks.append(
                tag("text", _tick(value, self.y), class_="tick end", x=self.left - 6, y=y + 3.5)
            )
        for value in self.x.ticks(ticks[0]):
            x = float(self.px(value))
            marks.append(tag("line", class_="grid", x1=x, x2=x, y1=self.top, y2=bottom))
            if labels:
                marks.append(
                    tag("text", _tick(value, self.x), class_="tick middle", x=x, y=bottom + 15)
                )
        if x_label:
            marks.append(
                tag("text", x_label, class_="label end", x=self.left + self.width, y=bottom + 30)
            )
        if y_label:
            marks.append(tag("text", y_label, class_="label", x=self.left, y=self.top - 7))
        return join(marks)

    def path(self, x: Array, y: Array, class_: str) -> Html:
        """Return a line through points; it breaks where a value is not finite."""
        return tag("path", class_=class_, d=runs_path(self.px(x), self.py(y)))

    def level(self, value: float, class_: str, text: str = "", left: bool = False) -> Html:
        """Return a horizontal line at a value, with words at its right or left end."""
        y = float(self.py(value))
        line = tag("line", class_=class_, x1=self.left, x2=self.left + self.width, y1=y, y2=y)
        x = self.left + (4 if left else self.width - 4)
        return join([line, tag("text", text, y=y - 4, class_="tick" if left else "tick end", x=x)])


def _tick(value: float, axis: Axis) -> str:
    if axis.log:
        return (
            f"{value:g}"
            if -3 <= round(math.log10(value)) <= 3
            else number(value, 1).removeprefix("1 · ")
        )
    step = _step(axis.high - axis.low, 5)
    places = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return f"{value:.{min(places, 6)}f}".replace("-", "−") if abs(value) < 1e5 else number(value, 2)


def runs_path(x: Array, y: Array) -> str:
    """Return the `d` of a path through points, in tenths of pixels, lifted where a value is not
    finite.
    """
    finite = np.isfinite(x) & np.isfinite(y)
    letters = np.where(np.r_[False, finite[:-1]], "L", "M")[finite].tolist()
    points = zip(letters, x[finite].tolist(), y[finite].tolist())
    return "".join(f"{letter}{a:.1f},{b:.1f}" for letter, a, b in points)


def picture(
    width: float, height: float, marks: Iterable[Html], label: str, class_: str = "chart"
) -> Html:
    """Return an SVG with a description for those who do not see it."""
    box = {"viewbox": f"0 0 {width:g} {height:g}", "role": "img"}
    return tag(
        "svg", *marks, class_=class_, **box, aria_label=label, preserveaspectratio="xMidYMid meet"
    )


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Return a legend: (class of the line, words)."""
    keys = (tag("i", class_=f"key {class_}", aria_hidden="true") for class_, _ in entries)
    return tag(
        "p", *(tag("span", key, text) for key, (_, text) in zip(keys, entries)), class_="legend"
    )
