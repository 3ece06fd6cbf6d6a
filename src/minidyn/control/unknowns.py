"""Which parameters a controller estimates, and how the model depends on them.

The standard (or base) vector is phi = known + directions θ. A name makes a unit direction; a direction of one's own
describes a quantity that moves several standard parameters at once, as the mass of a load with a known centre does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.kernel import require_own
from minidyn.errors import MinidynError, ShapeError, UnknownName, UnknownParameters
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot


@dataclass(frozen=True)
class Unknowns:
    """The estimated quantities of a controller."""

    names: tuple[str, ...]  # their names (k)
    known: Array  # the vector with the unknown part put to zero (p,)
    directions: Array  # how the vector grows with them (p, k)
    start: Array  # initial values (k,)

    def nearest(self, own: Array) -> Array:
        """The values (k,) that come closest to a full vector (p,)."""
        return _nearest(self.directions, own)


def point_mass(robot: Robot, com: ArrayLike, link: str | None = None) -> Array:
    """Return the direction (p,) of a point mass at com (3,) of a link's frame (None: the last link).

    Use it as unknown={"load": point_mass(robot, com)}.
    """
    index, steps = robot.find_frame(link)
    if index < 0:
        raise MinidynError(f"point_mass: {link!r} is fixed to the base; name a moving link")
    place = np.asarray(com, dtype=float)
    if place.shape != (3,) or not np.all(np.isfinite(place)):
        raise ShapeError(f"point_mass: expected com of shape (3,), got {com!r}")
    direction = np.zeros(len(robot.layout))
    at_link = (matrix_of(steps) @ [*place, 1.0])[:3]
    direction[robot.layout.links[index]] = from_body(1.0, at_link, np.zeros((3, 3)))
    return direction


def unknowns_of(
    robot: Robot,
    unknown: Sequence[str] | Mapping[str, ArrayLike] | None,
    initial: ArrayLike | None,
    base: BaseMap | None,
) -> Unknowns:
    """Return the estimated quantities of a model, whose own values are the known ones and the default initial ones.

    A parameter that a direction (p,) touches is given by the directions alone.
    """
    if base is not None:
        require_own(robot, base, "base")
    every = robot.layout.names if base is None else base.names
    if unknown is None:
        names, directions = tuple(every), np.eye(len(every))
    elif isinstance(unknown, Mapping):
        names = tuple(unknown)
        columns = [np.asarray(direction, dtype=float) for direction in unknown.values()]
        for name, column in zip(names, columns):
            if column.shape != (len(every),):
                raise ShapeError(f"unknown {name!r}: expected a direction of shape ({len(every)},), got {column.shape}")
        directions = np.stack(columns, axis=1) if columns else np.zeros((len(every), 0))
    else:
        names = (unknown,) if isinstance(unknown, str) else tuple(unknown)
        for place, name in enumerate(names):
            if name not in every:
                raise UnknownName("parameter", name, every)
            if name in names[:place]:
                raise MinidynError(f"unknown: {name!r} is named twice")
        directions = np.zeros((len(every), len(names)))
        directions[[every.index(name) for name in names], range(len(names))] = 1.0
    if not names:
        raise MinidynError("unknown: expected at least one parameter to estimate")
    touched = np.any(directions != 0.0, axis=1)
    own = _own_values(robot, base, touched, initial is None, every)
    start = _nearest(directions, own) if initial is None else np.asarray(initial, dtype=float)
    if start.shape not in ((), (len(names),)) or not np.all(np.isfinite(start)):
        raise ShapeError(f"initial: expected {len(names)} finite values ({', '.join(names[:4])}), got {initial!r}")
    return Unknowns(names, np.where(touched, 0.0, own), directions, np.broadcast_to(start, (len(names),)).copy())


def _own_values(robot: Robot, base: BaseMap | None, touched: Array, needed: bool, every: Sequence[str]) -> Array:
    try:
        own = robot.parameters if base is None else base.values(robot.parameters)
    except UnknownParameters:
        if needed or not touched.all():
            raise
        return np.zeros(len(every))
    missing = [name for name, value, free in zip(every, own, touched) if np.isnan(value) and (needed or not free)]
    if missing:
        shown = ", ".join(missing[:6])
        raise UnknownParameters(f"values of {shown} are unknown (NaN); estimate them with initial=..., or give values")
    return np.nan_to_num(own)


def _nearest(directions: Array, own: Array) -> Array:
    touched = np.any(directions != 0.0, axis=1)
    return np.asarray(np.linalg.lstsq(directions, np.where(touched, own, 0.0), rcond=None)[0], dtype=float)
