"""A recorded function on intervals.

What its results can be at most while its inputs stay within bounds. Each step of the tape is done
on lower and upper ends, so that the result encloses every value that the function takes anywhere in
the box of its inputs. The enclosure is wider than the truth where one input enters in several
places; it shrinks with the box. Rounding is not directed: ends are good to about 1e-13 of the
largest number on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.graph.function import Function, run_tape


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper ends, arrays of one shape or numbers."""

    low: Any
    high: Any


def enclose(function: Function, boxes: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """Return lower and upper ends (N, size) of each result, from those of each argument, (N, size)
    each.
    """
    columns = [
        [Interval(low[:, k], high[:, k]) for k in range(low.shape[1])] for low, high in boxes
    ]
    count = len(boxes[0][0])
    with np.errstate(all="ignore"):
        scalars = run_tape(function, columns, _TABLE)
    found = []
    for values in scalars:
        ends = np.empty((2, count, len(values)))
        for k, value in enumerate(values):
            ends[0, :, k], ends[1, :, k] = _ends(value)
        found.append((ends[0], ends[1]))
    return found


def _ends(x: Any) -> tuple[Any, Any]:
    return (x.low, x.high) if isinstance(x, Interval) else (x, x)


def _add(x: Any, y: Any) -> Interval:
    (a, b), (c, d) = _ends(x), _ends(y)
    return Interval(a + c, b + d)


def _sub(x: Any, y: Any) -> Interval:
    (a, b), (c, d) = _ends(x), _ends(y)
    return Interval(a - d, b - c)


def _neg(x: Any) -> Interval:
    a, b = _ends(x)
    return Interval(-b, -a)


def _mul(x: Any, y: Any) -> Interval:
    (a, b), (c, d) = _ends(x), _ends(y)
    products = (a * c, a * d, b * c, b * d)
    return Interval(
        np.minimum(np.minimum(products[0], products[1]), np.minimum(products[2], products[3])),
        np.maximum(np.maximum(products[0], products[1]), np.maximum(products[2], products[3])),
    )


def _div(x: Any, y: Any) -> Interval:
    c, d = _ends(y)
    through_zero = (np.asarray(c) <= 0) & (np.asarray(d) >= 0)
    found = _mul(x, Interval(np.divide(1.0, d), np.divide(1.0, c)))
    return Interval(
        np.where(through_zero, -np.inf, found.low), np.where(through_zero, np.inf, found.high)
    )


def _monotonous(function: Callable[..., Any]) -> Callable[[Any], Interval]:
    def apply(x: Any) -> Interval:
        a, b = _ends(x)
        return Interval(function(a), function(b))

    return apply


def _cos(x: Any) -> Interval:
    a, b = (np.asarray(end) for end in _ends(x))
    first, last = np.cos(a), np.cos(b)
    turn = 2 * np.pi
    peak = np.floor(b / turn) >= np.ceil(a / turn)  # a multiple of a whole turn lies inside
    valley = np.floor((b - np.pi) / turn) >= np.ceil((a - np.pi) / turn)
    return Interval(
        np.where(valley, -1.0, np.minimum(first, last)),
        np.where(peak, 1.0, np.maximum(first, last)),
    )


def _sin(x: Any) -> Interval:
    return _cos(_sub(x, np.pi / 2))


def _atan2(x: Any, y: Any) -> Interval:
    (a, b), (c, d) = _ends(x), _ends(y)
    corners = [np.arctan2(u, v) for u in (a, b) for v in (c, d)]
    whole = (
        (np.asarray(a) <= 0) & (np.asarray(b) >= 0) & (np.asarray(c) <= 0)
    )  # the cut, or the origin, lies inside
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    return Interval(np.where(whole, -np.pi, low), np.where(whole, np.pi, high))


_TABLE: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "sqrt": _monotonous(lambda end: np.sqrt(np.maximum(end, 0.0))),
    "sign": _monotonous(np.sign),
    "sin": _sin,
    "cos": _cos,
    "atan2": _atan2,
}
