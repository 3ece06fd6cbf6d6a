"""Which parameters a controller estimates, and how the model depends on them.

The standard (or base) vector is phi = known + directions θ. A name makes a unit direction; a
direction of one's own describes a quantity that moves several standard parameters at once, as the
mass of a load with a known centre does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.kernel import require_own
from minidyn.dynamics.papers.sixteen import SIXTEEN
from minidyn.dynamics.regressor_forms import lumeng16
from minidyn.errors import MinidynError, ShapeError, UnknownName, UnknownParameters
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import from_body, from_lumeng16, transform
from minidyn.model.robot import Robot


@dataclass(frozen=True)
class Unknowns:
    """The estimated quantities of a controller."""

    names: tuple[str, ...]  # their names (k)
    known: Array  # the vector with the unknown part put to zero (p,)
    directions: Array  # how the vector grows with them (p, k)
    start: Array  # initial values (k,)
    # which come on top of the robot's own values: products of mass and centre of a load (k,)
    added: Array

    @property
    def scale(self) -> Array:
        """Typical sizes (k,), for gains: those of the initial values.

        Of a load those of 1 kg at 0.1 m.
        """
        load = [
            0.1 ** (name.count("p")) if new else 0.0 for name, new in zip(self.names, self.added)
        ]
        return np.where(self.added, load, np.maximum(np.abs(self.start), 1e-3))

    def nearest(self, own: Array) -> Array:
        """The values (k,) that come closest to a full vector (p,)."""
        touched = np.any(self.directions != 0.0, axis=1)
        return _nearest(self.directions, np.where(touched, own - self.known, 0.0))


def point_mass(robot: Robot, com: ArrayLike, link: str | None = None) -> Array:
    """Return the direction (p,) of a point mass at com (3,) of a link's frame (None: the last
    link).

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
    """Return the estimated quantities of a model, whose own values are the known ones and the
    default initial ones.

    A name is one of a standard parameter (with a base map, of a base parameter), one of the sixteen
    a link of LuMeng1993, or "load" ("load:FRAME"): ten products of mass and centre of a load on top
    of what the robot is, zero at first. A parameter that a direction (p,) of one's own touches is
    given by the directions alone.
    """
    if base is not None:
        require_own(robot, base, "base")
    every = robot.layout.names if base is None else base.names
    if unknown is None:
        unknown = tuple(every)
    if isinstance(unknown, Mapping):
        names = tuple(unknown)
        columns = [np.asarray(direction, dtype=float) for direction in unknown.values()]
        for name, column in zip(names, columns):
            if column.shape != (len(every),):
                raise ShapeError(
                    f"unknown {name!r}: expected a direction of shape ({len(every)},), got "
                    f"{column.shape}"
                )
        added = np.zeros(len(names), dtype=bool)
    else:
        asked = (unknown,) if isinstance(unknown, str) else tuple(unknown)
        for place, name in enumerate(asked):
            if name in asked[:place]:
                raise MinidynError(f"unknown: {name!r} is named twice")
        found = [entry for name in asked for entry in _named(robot, name, base, every)]
        names, columns = tuple(name for name, _, _ in found), [column for _, column, _ in found]
        added = np.array([on_top for _, _, on_top in found], dtype=bool)
    if not names:
        raise MinidynError("unknown: expected at least one parameter to estimate")
    directions = np.stack(columns, axis=1)
    touched = np.any(directions[:, ~added] != 0.0, axis=1)
    own = _own_values(robot, base, touched, initial is None, every)
    present = np.zeros(len(names))  # what the robot's own values say of each
    if isinstance(unknown, Mapping) or set(names) <= set(every):
        present, known = (
            _nearest(directions, np.where(touched, own, 0.0)),
            np.where(touched, 0.0, own),
        )
    else:
        sixteen = lumeng16(robot)
        values = dict(zip((*sixteen.names, *every), (*sixteen.parameters, *own)))
        present = np.array([0.0 if on_top else values[name] for name, on_top in zip(names, added)])
        known = own - directions @ present
    start = present if initial is None else np.asarray(initial, dtype=float)
    if start.shape not in ((), (len(names),)) or not np.all(np.isfinite(start)):
        raise ShapeError(
            f"initial: expected {len(names)} finite values ({', '.join(names[:4])}), got "
            f"{initial!r}"
        )
    return Unknowns(names, known, directions, np.broadcast_to(start, (len(names),)).copy(), added)


def _named(
    robot: Robot, name: str, base: BaseMap | None, every: Sequence[str]
) -> list[tuple[str, Array, bool]]:
    """Return (name, direction, whether it comes on top of the robot's own values) for each quantity
    a name means.
    """
    if name in every:
        return [(name, np.eye(len(every))[every.index(name)], False)]
    sixteen = lumeng16(robot)
    word, _, frame = name.partition(":")
    if name in sixteen.names:
        found = [(name, sixteen.matrix[:, sixteen.names.index(name)], False)]
    elif word == "load":
        found = [
            (f"{symbol}_load", column, True)
            for symbol, column in _load(robot, frame or None).items()
        ]
    else:
        raise UnknownName("parameter", name, [*every, "load", *sixteen.names])
    return (
        found
        if base is None
        else [(own, base.values(column), on_top) for own, column, on_top in found]
    )


def _load(robot: Robot, link: str | None) -> dict[str, Array]:
    """Return directions (p,) of m, m p and m p pᵀ of a point mass in a link's frame (None: the last
    link).
    """
    index, steps = robot.find_frame(link)
    if index < 0:
        raise MinidynError(
            f"unknown 'load:{link}': {link!r} is fixed to the base; name a moving link"
        )
    found = {}
    for place, symbol in enumerate(SIXTEEN[:10]):
        direction = np.zeros(len(robot.layout))
        direction[robot.layout.links[index]] = transform(
            from_lumeng16(np.eye(16)[place]), matrix_of(steps)
        )
        found[symbol] = direction
    return found


def load_of(values: Mapping[str, float]) -> tuple[float, Array]:
    """Return mass, kg, and centre (3,), m, of estimated values by name as unknown="load" names
    them.
    """
    mass = values["m_load"]
    return mass, np.array([values[f"mp{axis}_load"] for axis in "xyz"]) / mass


def _own_values(
    robot: Robot, base: BaseMap | None, touched: Array, needed: bool, every: Sequence[str]
) -> Array:
    try:
        own = robot.parameters if base is None else base.values(robot.parameters)
    except UnknownParameters:
        if needed or not touched.all():
            raise
        return np.zeros(len(every))
    missing = [
        name
        for name, value, free in zip(every, own, touched)
        if np.isnan(value) and (needed or not free)
    ]
    if missing:
        shown = ", ".join(missing[:6])
        raise UnknownParameters(
            f"values of {shown} are unknown (NaN); estimate them with initial=..., or give values"
        )
    return np.nan_to_num(own)


def _nearest(directions: Array, own: Array) -> Array:
    return np.asarray(np.linalg.lstsq(directions, own, rcond=None)[0], dtype=float)
