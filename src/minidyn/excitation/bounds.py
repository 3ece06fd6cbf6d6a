"""What a motion must stay within: the limits of the robot's file, narrowed by what the user gives.

Positions, speeds, accelerations and jerks of all joints, followers included, and torques of the
independent ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array, real_array
from minidyn.dynamics.record import without_unknowns
from minidyn.errors import (
    DescriptionError,
    MinidynError,
    ShapeError,
    UnknownName,
    UnknownParameters,
    Unsupported,
)
from minidyn.files import AnyPath
from minidyn.formats.toml.table import read_tables
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

LIMITS = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")
"""Limits that may be given, each for all joints or joint by joint."""

KINDS = ("position", "velocity", "acceleration", "jerk")
"""What the coefficients of a motion give linearly, in the order of its derivatives."""

NO_RANGE = warning(
    "excite.no_range",
    "Joints have no limits of position; they move within a half turn or half a metre each way.",
    "Give limits={{'lower': ..., 'upper': ...}}, in the shell --limits FILE, or write them into "
    "the robot's file.",
)
NO_SPEED = warning(
    "excite.no_speed",
    "Joints have no speed limit; a cautious one is assumed.",
    "Give limits={{'velocity': ...}}, in the shell --limits FILE, or write it into the robot's "
    "file.",
)
NO_ACCELERATION = warning(
    "excite.no_acceleration",
    "Joints have no acceleration limit; torque limits alone, where they are known, bound "
    "accelerations.",
    "Give limits={{'acceleration': ...}} from the manual, in the shell --limits FILE.",
)
NO_EFFORT = warning(
    "excite.no_effort",
    "Joints have no effort limit; their torques are not limited.",
    "Give limits={{'effort': ...}}, in the shell --limits FILE, or write it into the robot's file.",
)
NO_TORQUES = warning(
    "plan.torques_not_checked",
    "The robot's parameters are not known, so that torques were not checked.",
    "Give a robot with a model (an earlier estimate, a CAD file), and run every step at 10 % "
    "speed first.",
)

_RANGE = {True: np.pi, False: 0.5}  # of joints without limits, turning (rad) and sliding (m)
_LARGEST = 1e12  # of a limit in a file
CAUTIOUS = {True: 1.0, False: 0.25}
"""Speed limits that are assumed for joints without one, turning (rad/s) and sliding (m/s)."""

LimitTable = Mapping[str, ArrayLike | Mapping[str, float]]
Given = LimitTable | AnyPath | Sequence[LimitTable | AnyPath]
"""Limits as a user gives them: a table, a TOML file, or several of these."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits of a motion. Joints are the independent ones, then those that follow them linearly.

    Attributes:
        joints: Names (m,).
        follow: Matrix (m, n) from independent joints to all of them.
        offset: Their constant part (m,), rad or m.
        middle: Middle of the ranges (m,).
        reach: {kind: largest deviation (m,)}: half the range, speed, acceleration, jerk; infinite
            where there is none.
        effort: Largest torques (n,) of the independent joints, N m or N, share included; infinite
            where there is none.
        notices: What the robot's file left open.
    """

    joints: tuple[str, ...]
    follow: Array
    offset: Array
    middle: Array
    reach: Mapping[str, Array]
    effort: Array
    notices: tuple[Notice, ...] = ()

    def all_joints(self, q: Array, order: int = 0) -> Array:
        """Return the motion (N, m) of all joints from that of the independent ones (N, n), or of a
        derivative.
        """
        return np.asarray(q @ self.follow.T + (self.offset if order == 0 else 0.0))

    def centred(self, q: Array, order: int = 0) -> Array:
        """As `all_joints`, positions counted from the middle of the ranges."""
        return self.all_joints(q, order) - (self.middle if order == 0 else 0.0)

    @property
    def active(self) -> list[int]:
        """Orders of derivatives that are limited at all."""
        return [order for order, kind in enumerate(KINDS) if np.isfinite(self.reach[kind]).any()]


def predicting_parameters(robot: Robot) -> tuple[Array | None, list[str]]:
    """Return standard parameters (p,) that predict torques, None where they are not known.

    Also the names of drive terms that have no value and count as zero.
    """
    drives = np.array([not column.is_inertial for column in robot.layout.columns])
    unknown = drives & np.isnan(robot.parameters)
    try:
        phi = without_unknowns(robot, "inverse_dynamics", np.where(unknown, 0.0, robot.parameters))
    except UnknownParameters:
        return None, []
    return phi, [robot.layout.names[k] for k in np.flatnonzero(unknown)]


def bounds_of(
    robot: Robot,
    given: Given | None,
    share: float,
    cautious: Mapping[bool, float] = MappingProxyType(CAUTIOUS),
) -> Bounds:
    """Return the limits of a robot's motions: of its file and those given, the narrower ones.

    Args:
        robot: The robot.
        given: {"velocity": 1.0, "acceleration": [2, 2, 5], "upper": {"elbow": 1.5}}: for all
            joints, one for each independent joint, or by joint name; a TOML file with the same
            (:func:`read_limits`), or several of these.
        share: Of the effort limits that may be used.
        cautious: Speeds that are assumed for joints without a limit, turning and sliding.

    Raises:
        Unsupported: A joint follows others by a formula, or a loop moves it.
    """
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise MinidynError(
            f"excite: torque_share: expected a number above 0 and at most 1, got {share!r}"
        )
    moved = _moved(robot)
    follow, offset = np.zeros((len(moved), robot.n)), np.zeros(len(moved))
    for row, joint in enumerate(moved):
        if joint.follows is None:
            follow[row, robot.joint_names.index(joint.name)] = 1.0
            continue
        offset[row] = joint.follows.offset
        for leader, ratio in joint.follows.terms:
            follow[row, robot.joint_names.index(leader)] += ratio
    tables = _tables(given)
    narrow = {
        name: _narrowed(robot, moved, name, [table[name] for table in tables if name in table])
        for name in LIMITS
    }
    lower, upper, no_range = _ranges(moved, narrow["lower"], narrow["upper"])
    wrong = np.flatnonzero(~(lower < upper))
    if len(wrong):
        k = int(wrong[0])
        raise DescriptionError(
            f"excite: joint {moved[k].name!r}: its lower limit {lower[k]:.6g} is not below its "
            f"upper one {upper[k]:.6g}"
        )
    leads = np.array([joint.follows is None for joint in moved])
    missing = {name: leads & ~np.isfinite(narrow[name]) for name in LIMITS}
    assumed = np.array([cautious[joint.turns] for joint in moved])
    reach = {
        "position": (upper - lower) / 2,
        "velocity": np.where(missing["velocity"], assumed, narrow["velocity"]),
        "acceleration": narrow["acceleration"],
        "jerk": narrow["jerk"],
    }
    for limit in ("velocity", "acceleration", "jerk", "effort"):
        values = narrow[limit] if limit == "effort" else reach[limit]
        if not np.all(values > 0):
            name = moved[int(np.argmax(~(values > 0)))].name
            raise DescriptionError(f"excite: joint {name!r}: its limit of {limit} must be positive")
    effort = share * narrow["effort"][: robot.n]
    middle = (lower + upper) / 2
    return Bounds(
        tuple(joint.name for joint in moved),
        follow,
        offset,
        middle,
        reach,
        effort,
        _assumed_limits(robot, moved, no_range, missing, cautious),
    )


def _assumed_limits(
    robot: Robot,
    moved: list[Joint],
    no_range: NDArray[np.bool_],
    missing: Mapping[str, NDArray[np.bool_]],
    cautious: Mapping[bool, float],
) -> tuple[Notice, ...]:
    """Which limits the robot's file leaves open, each with what is assumed instead."""
    speeds = f"{cautious[True]:.3g} rad/s or {cautious[False]:.3g} m/s"
    notices = []
    for is_missing, kind, what in (
        (no_range, NO_RANGE, "position limits are assumed (half a turn or half a metre each way)"),
        (missing["velocity"], NO_SPEED, f"velocity limits are assumed ({speeds})"),
        (missing["acceleration"], NO_ACCELERATION, "acceleration limits are missing"),
        (missing["effort"], NO_EFFORT, "effort limits are missing, torques are not limited"),
    ):
        names = [joint.name for joint, is_open in zip(moved, is_missing) if is_open]
        if names:
            which = ", ".join(map(repr, names)) if len(names) < robot.n else "all joints"
            notices.append(kind(f"{what}: {which}", joints=names))
    return tuple(notices)


def read_limits(path: AnyPath) -> dict[str, Any]:
    """Return the limits of a TOML file.

    Keys and values are those of `md.excite`'s limits: a number for all joints, a list with one for
    each independent joint, or a table by joint name.
    """
    top = read_tables(Path(path))
    top.finish(LIMITS)
    if not top.data:
        raise DescriptionError(
            f"{path}: no limits; expected some of {', '.join(LIMITS)}, such as velocity = 1.0"
        )
    for name, value in top.data.items():
        one_each = [*value.values()] if isinstance(value, Mapping) else value
        numbers = one_each if isinstance(one_each, list) else [one_each]
        if not all(type(number) in (int, float) and abs(number) < _LARGEST for number in numbers):
            what = "a number, a list of numbers, or a table of numbers by joint name"
            raise top.error(name, f"expected {what}, found {value!r}")
    return dict(top.data)


def _tables(given: Given | None) -> list[LimitTable]:
    """Limits as tables, files read; only limits that are known."""
    several = given if isinstance(given, list | tuple) else [] if given is None else [given]
    tables = []
    for one in several:
        table = read_limits(one) if isinstance(one, str | PathLike) else one
        if not isinstance(table, Mapping):
            raise DescriptionError(
                f"excite: limits: expected a file or a mapping with {', '.join(LIMITS)}, got "
                f"{one!r}"
            )
        for name in table:
            if name not in LIMITS:
                raise UnknownName("limit", name, LIMITS)
        tables.append(table)
    return tables


def work_poses(bounds: Bounds, n: int) -> Array:
    """Return poses (M, n) spread over the ranges."""
    spread = np.random.default_rng(2).uniform(-1.0, 1.0, (300, n))
    return np.asarray(bounds.middle[:n] + bounds.reach["position"][:n] * spread)


def _moved(robot: Robot) -> list[Joint]:
    """The independent joints in the order of q, then those that follow them."""
    own = [robot.joints[index] for index in robot.independent]
    others = [
        joint
        for joint in robot.joints
        if joint.kind != "fixed" and joint.name not in robot.joint_names
    ]
    for joint in others:
        if joint.follows is None or joint.follows.formula or robot.implicit_loops:
            raise Unsupported(
                f"excite: joint {joint.name!r} of robot {robot.name!r} moves by a loop or a "
                "formula: motions are designed for robots whose joints are independent or follow "
                "others linearly"
            )
    return own + others


def _narrowed(robot: Robot, moved: list[Joint], name: str, values: list[Any]) -> Array:
    """One limit of all joints: the narrowest of the file's and the given ones."""
    narrower = np.maximum if name == "lower" else np.minimum
    top = -np.inf if name == "lower" else np.inf
    limit = np.array([getattr(joint.limits, name, np.inf) for joint in moved], dtype=float)
    limit = np.where(np.isnan(limit), top, limit)
    names = [joint.name for joint in moved]
    for value in values:
        more = np.full(len(moved), top)
        if isinstance(value, Mapping):
            for joint, number in value.items():
                if joint not in names:
                    raise UnknownName(f"joint in the limit {name!r}:", joint, names)
                more[names.index(joint)] = float(
                    real_array(number, f"excite: limits: {name} of joint {joint!r}")
                )
        else:
            numbers = real_array(value, f"excite: limits: {name}")
            if numbers.shape not in ((), (robot.n,)):
                raise ShapeError(
                    f"excite: limits: {name}: expected a number, {robot.n} numbers or joints by "
                    f"name, got shape {numbers.shape}"
                )
            more[: robot.n] = numbers
        if np.isnan(more).any():
            raise DescriptionError(f"excite: limits: {name} is not a number")
        limit = np.asarray(narrower(limit, more))
    return limit


def _ranges(
    moved: list[Joint], lower: Array, upper: Array
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Ends of the ranges, and which of the independent joints had none on a side."""
    reach = np.array([_RANGE[joint.turns] for joint in moved])
    leads = np.array([joint.follows is None for joint in moved])
    below, above = np.isfinite(lower), np.isfinite(upper)
    bottom = np.where(below, lower, np.where(above, upper - 2 * reach, -reach))
    top = np.where(above, upper, np.where(below, lower + 2 * reach, reach))
    free = ~leads & ~(below & above)  # a follower without limits goes where its leaders take it
    return np.where(free, -1e9, bottom), np.where(free, 1e9, top), leads & ~(below & above)
