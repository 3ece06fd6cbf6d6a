"""Regressors of one's own: rows that are linear in some parameters, without a robot behind them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen
from minidyn.base.numeric.samples import Observation, Units, units_of
from minidyn.errors import MinidynError, ShapeError, Unsupported
from minidyn.model.parameters import Column, Layout
from minidyn.model.robot import Robot
from minidyn.text import short

OWN = "linear"
"""What `BaseMap.model` says of such a regressor."""

_ZERO = 1e-13  # columns this small against the largest are zero
_CALLS = 16  # at least, of a function that gives rows
_NUMBERED = re.compile(r"([^\W\d_]+)([1-9]\d*)\Z")


@dataclass(frozen=True, slots=True)
class OwnColumn(Column):
    """A parameter by its own name."""

    label: str = ""

    @property
    def name(self) -> str:
        """As given."""
        return self.label

    @property
    def joined(self) -> str:
        """With an R before the number, or at the end."""
        match = _NUMBERED.match(self.label)
        return f"{match[1]}R{match[2]}" if match else f"{self.label}R"

    @property
    def is_friction(self) -> bool:
        """Nothing is known of it."""
        return False


class OwnRegressor:
    """Takes the place of a robot in a base map.

    The names of the columns, and the rows W (r, p) that were given.
    """

    name = "own regressor"
    symbols: tuple[tuple[str, float], ...] = ()
    joints: tuple[Any, ...] = ()
    loops: tuple[Any, ...] = ()
    formulas: tuple[Any, ...] = ()

    def __init__(self, W: Array, names: Sequence[str]) -> None:
        self.W = frozen(W)
        self.layout = Layout(
            tuple(OwnColumn(name, -1, index, name) for index, name in enumerate(names))
        )
        self.parameters = frozen(np.full(len(names), np.nan))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Unsupported(
            "these base parameters are of a regressor of your own, and this needs a robot (its "
            f"{name!r}); pass md.base_parameters(robot)"
        )

    @cached_property
    def observation(self) -> Observation:
        """The rows with columns of one length; columns that are zero stay so."""
        sizes = np.sqrt((self.W**2).sum(axis=0) / max(1, len(self.W)))
        sizes[sizes <= _ZERO * sizes.max(initial=0.0)] = np.inf
        units = 1.0 / sizes
        some = units[units > 0.0]
        spread = float(some.max() / some.min()) if some.size else 1.0
        return Observation(self.W * units, Units(1.0, 1.0, units, np.ones(1), np.ones(1)), spread)

    @cached_property
    def structure_fingerprint(self) -> str:
        """A hash of names and rows."""
        return hashlib.sha256(repr(self.layout.names).encode() + self.W.tobytes()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """The same: there is nothing else."""
        return self.structure_fingerprint


def parameter_units(robot: Robot | OwnRegressor) -> Array:
    """Return the SI value (p,) of one unit of each parameter, of the robot's or the rows' own
    making.
    """
    if isinstance(robot, Robot):
        return units_of(robot).parameters
    units = robot.observation.units.parameters
    return np.where(units > 0.0, units, 1.0)


def own_regressor(
    given: ArrayLike | Callable[..., ArrayLike], names: Sequence[str] | None, seed: int
) -> OwnRegressor:
    """Return the rows of a matrix (r, p), or of a function of a random generator that is called
    until they suffice.

    The function gives one row (p,) or several (k, p) for each call, at a random state of its own
    choice. Rows are enough when there are half as many again as columns and some more.
    """
    rng = np.random.default_rng(seed)
    rows = _rows(given(rng), "the function") if callable(given) else _rows(given, "W")
    if callable(given):
        needed = max(_CALLS, math.ceil((3 * rows.shape[1] // 2 + 16) / max(1, len(rows))))
        parts = [rows, *(_rows(given(rng), "the function") for _ in range(needed - 1))]
        for part in parts:
            if part.shape[1] != rows.shape[1]:
                raise ShapeError(
                    f"the function gave rows of {rows.shape[1]} and of {part.shape[1]} columns"
                )
        rows = np.concatenate(parts)
    width = rows.shape[1]
    labels = (
        [f"p{k}" for k in range(1, width + 1)] if names is None else [str(name) for name in names]
    )
    if len(labels) != width:
        raise ShapeError(f"names: expected one for each of {width} columns, got {len(labels)}")
    if len(set(labels)) < width or not all(labels):
        twice = next((label for label in labels if labels.count(label) > 1), "")
        raise MinidynError(
            f"names: expected different ones for all columns, got {short(twice)!r} more than once "
            "or none"
        )
    return OwnRegressor(rows, labels)


def _rows(value: ArrayLike, what: str) -> Array:
    try:
        rows = np.atleast_2d(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        raise ShapeError(
            f"{what}: expected rows of numbers (r, p), got {type(value).__name__}"
        ) from None
    if rows.size:
        rows = rows.reshape(-1, rows.shape[-1])  # samples first: (e, n, p)
    if not rows.size or not np.all(np.isfinite(rows)):
        raise ShapeError(
            f"{what}: expected finite rows (r, p), got "
            f"{'none' if not rows.size else 'NaN or infinity'}"
        )
    return rows
