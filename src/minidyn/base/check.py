"""Every answer is checked: W = W_b times the map, at random states in floating point.

Two figures. The first is of the robot as it was understood, with axes that are special within the
tolerance exactly so: there the relations hold to rounding, or the answer is wrong. The second is
how far that robot is from the one in the file, whose digits are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from minidyn.arrays import Array
from minidyn.base.numeric.own_rows import OwnRegressor, parameter_units
from minidyn.base.numeric.samples import (
    JointStates,
    random_states,
    stretch_of,
    unitless_rows,
    units_of,
)
from minidyn.base.rows import MODELS
from minidyn.model.canonical import ROUNDING
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, info, warning

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap

MAX_RELATION_ERROR = 1e-9
MAX_GEOMETRY_ERROR = 1e-3
SHORT = 1e-3  # of the longest column: shorter ones are differences of terms of its length

_STATES = 6
_SEED = (20240302, 7)

WRONG_RELATIONS = error(
    "base.wrong_relations",
    "The relations between standard and base parameters do not hold at random states.",
    'Compare with another method, "exact" or "qr", and check the geometry of the robot file: '
    "lengths of very different size, or axes that are nearly but not exactly special.",
)
GEOMETRY_UNDERSTOOD = info(
    "base.geometry_understood",
    "Axes that are special but for the rounding of the file are taken as exactly so; the notice "
    "says what this changes at the torques.",
)
GEOMETRY_DIFFERS = warning(
    "base.geometry_differs",
    "Axes that are nearly special are taken as exactly so, and this changes the torques visibly.",
    "Pass a smaller tolerance, or correct the robot file.",
)


@dataclass(frozen=True)
class Check:
    """What random states say to a base map.

    Attributes:
        relations: Largest error of the relations on the robot as it was understood, as a share of
            each column: rounding, up to 1e-9.
        geometry: Difference of that robot's regressor from that of the file as written, as a share;
            0 where nothing was taken as special.
    """

    relations: float
    geometry: float

    def __str__(self) -> str:
        return (
            f"relations hold to {self.relations:.0e} on the robot as understood, which differs "
            f"from the file by {self.geometry:.0e}"
        )


def check_of(base: BaseMap) -> Check:
    """Return how well the relations of a map hold, and how far its robot is from the file."""
    robot, units = base.robot, parameter_units(base.robot)
    if isinstance(robot, OwnRegressor):
        return Check(relation_error(robot.observation.W, base, units), 0.0)
    understood = base.understood
    W = _rows(understood, base)
    if understood is robot:
        return Check(relation_error(W, base, units), 0.0)
    written = _rows(robot, base)
    size = max(float(np.linalg.norm(written)), np.finfo(float).tiny)
    return Check(relation_error(W, base, units), float(np.linalg.norm(W - written)) / size)


def _rows(robot: Robot, base: BaseMap) -> Array:
    """Return rows (r, p) of the robot as understood or as written at random states, in the units of
    the latter.
    """
    units, model = units_of(base.robot), MODELS[base.model]
    moving, observed = places_of(base)
    count = _STATES * (2 if model.differences else 1)
    if base.motion is None:
        states = random_states(base.robot, units, count, _SEED, moving, stretch_of(robot))
    else:
        states = JointStates(*base.motion)
    if model.differences:  # where the base stands costs differences of energy digits alone
        robot = replace(robot, base=tuple(step for step in robot.base if step.is_turn))
    W = unitless_rows(robot, base.model, states, units, observed)
    return W.reshape(-1, W.shape[-1])


def places_of(base: BaseMap) -> tuple[list[int], list[int]]:
    """Return the places in q of the joints that moved for a map, and of those that it observes."""
    names = base.robot.joint_names
    moving = [k for k, name in enumerate(names) if base.joints is None or name in base.joints]
    return moving, [k for k in moving if base.measured is None or names[k] in base.measured]


def relation_error(W: Array, base: BaseMap, units: Array) -> float:
    """Return the largest error of columns of W (r, p) in the given units that a map explains.

    Against the length of each, and a small share of that of the longest: a column that is hardly
    there need not be right to its last digit.
    """
    layout = base.robot.layout
    asked = list(range(len(layout)) if base.columns is None else layout.indices(base.columns))
    kept = list(layout.indices(base.kept))
    mixing = np.eye(base.rank) if base.unmixing is None else base.unmixing
    map_ = (mixing @ base.matrix)[:, asked] * units[asked] / units[kept][:, None]
    sizes = np.linalg.norm(W[:, asked], axis=0)
    sizes += SHORT * sizes.max(initial=0.0) + np.finfo(float).tiny
    error = np.linalg.norm(W[:, asked] - W[:, kept] @ map_, axis=0) / sizes
    return float(error.max(initial=0.0))


def checked(base: BaseMap) -> BaseMap:
    """Return a map with the notices that its check gives."""
    check = base.check
    notices: list[Notice] = []
    if not check.relations <= MAX_RELATION_ERROR:
        text = (
            f"relations of the base parameters are wrong by {check.relations:.0e} at random states"
        )
        notices.append(WRONG_RELATIONS(text, error=check.relations))
    if check.geometry > MAX_GEOMETRY_ERROR:
        text = (
            "axes that are nearly special are taken as exactly so, which changes the torques by "
            f"{100 * check.geometry:.1g} %"
        )
        notices.append(GEOMETRY_DIFFERS(text, difference=check.geometry))
    elif check.geometry > ROUNDING:
        text = (
            "axes that are special but for the rounding of the file are taken as exactly so, which "
            f"changes the torques by {check.geometry:.0e} of their size"
        )
        notices.append(GEOMETRY_UNDERSTOOD(text, difference=check.geometry))
    return replace(base, notices=(*base.notices, *notices)) if notices else base
