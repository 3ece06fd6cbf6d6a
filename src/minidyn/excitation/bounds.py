"""What a motion must stay within: the limits of the robot's file, narrowed by what the user gives.

Positions, speeds, accelerations and jerks of all joints, followers included, and torques of the independent ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array, real_array
from minidyn.dynamics.record import without_unknowns
from minidyn.errors import DescriptionError, MinidynError, ShapeError, UnknownName, UnknownParameters, Unsupported
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, look

LIMITS = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")
"""Limits that may be given, each for all joints or joint by joint."""

KINDS = ("position", "velocity", "acceleration", "jerk")
"""What the coefficients of a motion give linearly, in the order of its derivatives."""

NO_RANGE = look(
    "excite.no_range",
    "Joints have no limits of position; they move within a half turn or half a metre each way.",
    "Give limits={{'lower': ..., 'upper': ...}} or write them into the robot's file.",
)
NO_SPEED = look(
    "excite.no_speed",
    "Joints have no speed limit; a cautious one is used.",
    "Give limits={{'velocity': ...}} or write it into the robot's file.",
)
NO_EFFORT = look(
    "excite.no_effort",
    "Joints have no effort limit; their torques are not limited.",
    "Give limits={{'effort': ...}} or write it into the robot's file.",
)

_RANGE = {True: np.pi, False: 0.5}  # of joints without limits, turning (rad) and sliding (m)
_SPEED = {True: 1.0, False: 0.25}  # of joints without a speed limit, rad/s and m/s

Given = Mapping[str, ArrayLike | Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits of a motion. Joints are the independent ones, then those that follow them linearly.

    Attributes:
        joints: Names (m,).
        follow: Matrix (m, n) from independent joints to all of them.
        offset: Their constant part (m,), rad or m.
        middle: Middle of the ranges (m,).
        reach: {kind: largest deviation (m,)}: half the range, speed, acceleration, jerk; infinite where there is none.
        effort: Largest torques (n,) of the independent joints, N m or N, share included; infinite where there is none.
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
        """Return the motion (N, m) of all joints from that of the independent ones (N, n), or of a derivative."""
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


def bounds_of(robot: Robot, given: Given | None, share: float) -> Bounds:
    """Return the limits of a robot's motions: of its file and those given, the narrower ones.

    Args:
        robot: The robot.
        given: {"velocity": 1.0, "acceleration": [2, 2, 5], "upper": {"elbow": 1.5}}: for all joints, one for each
            independent joint, or by joint name.
        share: Of the effort limits that may be used.

    Raises:
        Unsupported: A joint follows others by a formula, or a loop moves it.
    """
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise MinidynError(f"excite: torque_share: expected a number above 0 and at most 1, got {share!r}")
    moved = _moved(robot)
    follow, offset = np.zeros((len(moved), robot.n)), np.zeros(len(moved))
    for row, joint in enumerate(moved):
        if joint.follows is None:
            follow[row, robot.joint_names.index(joint.name)] = 1.0
            continue
        offset[row] = joint.follows.offset
        for leader, ratio in joint.follows.terms:
            follow[row, robot.joint_names.index(leader)] += ratio
    narrow = {name: _narrowed(robot, moved, name, (given or {}).get(name)) for name in LIMITS}
    _require_known(given)
    lower, upper, no_range = _ranges(moved, narrow["lower"], narrow["upper"])
    wrong = np.flatnonzero(~(lower < upper))
    if len(wrong):
        k = int(wrong[0])
        raise DescriptionError(
            f"excite: joint {moved[k].name!r}: its lower limit {lower[k]:.6g} is not below its upper one {upper[k]:.6g}"
        )
    speed, leads = narrow["velocity"], np.array([joint.follows is None for joint in moved])
    cautious = np.array([_SPEED[joint.turns] for joint in moved])
    no_speed = leads & ~np.isfinite(speed)
    reach = {
        "position": (upper - lower) / 2,
        "velocity": np.where(no_speed, cautious, speed),
        "acceleration": narrow["acceleration"],
        "jerk": narrow["jerk"],
    }
    for limit in ("velocity", "acceleration", "jerk", "effort"):
        values = narrow[limit] if limit == "effort" else reach[limit]
        if not np.all(values > 0):
            name = moved[int(np.argmax(~(values > 0)))].name
            raise DescriptionError(f"excite: joint {name!r}: its limit of {limit} must be positive")
    notices = []
    for open_, kind, what in (
        (no_range, NO_RANGE, "position limits: it moves within ±π rad or ±0.5 m"),
        (no_speed, NO_SPEED, "speed limit: 1 rad/s or 0.25 m/s is used"),
        (leads & ~np.isfinite(narrow["effort"]), NO_EFFORT, "effort limit: its torque is not limited"),
    ):
        names = [joint.name for joint, is_open in zip(moved, open_) if is_open]
        if names:
            one = repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
            notices.append(kind(f"joint {one}: no {what}", joints=names))
    effort = share * narrow["effort"][: robot.n]
    middle = (lower + upper) / 2
    return Bounds(tuple(joint.name for joint in moved), follow, offset, middle, reach, effort, tuple(notices))


def narrowed_speed(robot: Robot, given: Given | None) -> Array:
    """Return the speed limits (n,) of the robot's file or those given, the narrower ones; infinite where none is."""
    return _narrowed(robot, _moved(robot), "velocity", (given or {}).get("velocity"))[: robot.n]


def work_poses(bounds: Bounds, n: int) -> Array:
    """Return poses (M, n) spread over the ranges."""
    spread = np.random.default_rng(2).uniform(-1.0, 1.0, (300, n))
    return np.asarray(bounds.middle[:n] + bounds.reach["position"][:n] * spread)


def _moved(robot: Robot) -> list[Joint]:
    """The independent joints in the order of q, then those that follow them."""
    own = [robot.joints[index] for index in robot.independent]
    others = [joint for joint in robot.joints if joint.kind != "fixed" and joint.name not in robot.joint_names]
    for joint in others:
        if joint.follows is None or joint.follows.formula or robot.implicit_loops:
            raise Unsupported(
                f"excite: joint {joint.name!r} of robot {robot.name!r} moves by a loop or a formula: motions are "
                "designed for robots whose joints are independent or follow others linearly"
            )
    return own + others


def _require_known(given: Given | None) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise DescriptionError(f"excite: limits: expected a mapping with {', '.join(LIMITS)}, got {given!r}")
    for name in given or {}:
        if name not in LIMITS:
            raise UnknownName("limit", name, LIMITS)


def _narrowed(robot: Robot, moved: list[Joint], name: str, value: Any) -> Array:
    """One limit of all joints: the file's or the given one, whichever is narrower."""
    top = np.full(len(moved), np.inf)
    own = np.array([getattr(joint.limits, name, np.inf) for joint in moved], dtype=float)
    own = np.where(np.isnan(own), -np.inf if name == "lower" else np.inf, own)
    if value is None:
        return own
    if isinstance(value, Mapping):
        more = -top if name == "lower" else top
        names = [joint.name for joint in moved]
        for joint, number in value.items():
            if joint not in names:
                raise UnknownName(f"joint in the limit {name!r}:", joint, names)
            more[names.index(joint)] = float(real_array(number, f"excite: limits: {name} of joint {joint!r}"))
    else:
        numbers = real_array(value, f"excite: limits: {name}")
        if numbers.shape not in ((), (robot.n,)):
            raise ShapeError(
                f"excite: limits: {name}: expected a number, {robot.n} numbers or joints by name, got shape "
                f"{numbers.shape}"
            )
        more = -top if name == "lower" else top
        more[: robot.n] = numbers
    if np.isnan(more).any():
        raise DescriptionError(f"excite: limits: {name} is not a number")
    return np.asarray(np.maximum(own, more) if name == "lower" else np.minimum(own, more))


def _ranges(moved: list[Joint], lower: Array, upper: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Ends of the ranges, and which of the independent joints had none on a side."""
    reach = np.array([_RANGE[joint.turns] for joint in moved])
    leads = np.array([joint.follows is None for joint in moved])
    below, above = np.isfinite(lower), np.isfinite(upper)
    bottom = np.where(below, lower, np.where(above, upper - 2 * reach, -reach))
    top = np.where(above, upper, np.where(below, lower + 2 * reach, reach))
    free = ~leads & ~(below & above)  # a follower without limits goes where its leaders take it
    return np.where(free, -1e9, bottom), np.where(free, 1e9, top), leads & ~(below & above)
