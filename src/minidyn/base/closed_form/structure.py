"""Which constants of composite bodies a robot's motion can show.

r, s, δ and σ, each with its reason. r is the first rotational joint, s the first one after it whose
axis is not parallel to r's. Before r nothing turns; from r to s everything turns about one
direction; from s on, bodies turn every way. Along a tree the same holds on the path from the base
to each joint, so r and s belong to a path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minidyn.arrays import Array
from minidyn.model.canonical import ROUNDING
from minidyn.model.joint import largest_length
from minidyn.model.placements import joints_to, tree_pose
from minidyn.model.robot import Robot

_Number = Callable[[int], int]  # of a joint, for people

FOR = ("torque", "gravity", "inertia")
"""What the set must determine: all torques, the gravity load alone, the inertia matrix alone."""


@dataclass(frozen=True)
class Role:
    """What a joint may contribute to the set.

    Attributes:
        number: The joint's number (from 1).
        joint: Its name.
        turning: Rotational or translational.
        r: Number of the first rotational joint on the path from the base up to it; None: there is
            none.
        s: Number of the first rotational joint on that path that is not parallel to r; None: there
            is none.
        delta: For a rotational joint: 1 where its first moments kx, ky count; None from s on, where
            they always do.
        sigma: For a translational joint between r and s: 1 where κ1, κ2 count; in the gravity set
            for every translational joint: 1 where its mass counts. None elsewhere.
        centre: Where nothing but rotation about one point moves the joint and gravity does not act:
            the distance from that point to the frame's origin along the axis; None elsewhere.
        alone: Whether its own U33 (rotational) or m̂ (translational) acts on its own drive alone, as
            a rotor does.
        pull: Gravity along the axis of a translational joint that is `alone`, m/s².
        reason: Why, in words.
        rotor_reason: Why `alone`, in words.
    """

    number: int
    joint: str
    turning: bool
    r: int | None
    s: int | None
    delta: int | None
    sigma: int | None
    centre: float | None
    alone: bool
    pull: float
    reason: str
    rotor_reason: str

    @property
    def key(self) -> str:
        """What the reason is of: "delta", "sigma" or "centre"; "": there is none."""
        return next(
            (key for key in ("delta", "sigma", "centre") if getattr(self, key) is not None), ""
        )


@dataclass(frozen=True)
class Structure:
    """r, s, δ and σ of a robot, and why.

    Attributes:
        what: "torque", "gravity" or "inertia".
        roles: One for each joint that moves, in order.
        version: Of the inertia constants: "1992" or "1999".
    """

    what: str
    roles: tuple[Role, ...]
    version: str = "1999"

    @cached_property
    def r(self) -> int | tuple[int, ...] | None:
        """Number of the first rotational joint.

        A tuple where branches differ, None where nothing turns.
        """
        return _one({role.r for role in self.roles})

    @cached_property
    def s(self) -> int | tuple[int, ...] | None:
        """Number of the first rotational joint not parallel to r.

        A tuple where branches differ, None: none.
        """
        return _one({role.s for role in self.roles})

    @cached_property
    def delta(self) -> dict[int, int]:
        """δ of the rotational joints it is defined for, by number."""
        return {role.number: role.delta for role in self.roles if role.delta is not None}

    @cached_property
    def sigma(self) -> dict[int, int]:
        """σ of the translational joints it is defined for, by number."""
        return {role.number: role.sigma for role in self.roles if role.sigma is not None}

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why, in words: keys "r", "s", "delta_1", "sigma_3", "centre_4", "rotor_2"."""
        first = why = "no joint turns"
        if self.r is not None:
            first = f"joint {self.r} is the first rotational joint"
            why = (
                "no rotational joint has an axis that is not parallel to that of joint "
                f"{_shown(self.r)}"
            )
        if isinstance(self.r, tuple):
            first = "the first rotational joints on the paths from the base"
        if isinstance(self.s, tuple):
            why = "on each path, the first rotational joint not parallel to the first one"
        elif self.s is not None:
            why = (
                f"joint {self.s} is the first rotational joint not parallel to joint "
                f"{_shown(self.r)}"
            )
        found = {"r": first, "s": why}
        for role in self.roles:
            if role.key:
                found[f"{role.key}_{role.number}"] = role.reason
            found[f"rotor_{role.number}"] = role.rotor_reason
        return found

    def describe(self) -> str:
        """Return r, s, δ and σ with their reasons, one a line."""
        lines = [
            f"r = {_shown(self.r)}: {self.reasons['r']}",
            f"s = {_shown(self.s)}: {self.reasons['s']}",
        ]
        for role in self.roles:
            if role.key == "centre":
                lines.append(f"joint {role.number}: {role.reason}")
            elif role.key:
                lines.append(f"{role.key}_{role.number} = {getattr(role, role.key)}: {role.reason}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Return r, s, δ, σ and the reasons as plain values for `json.dump`."""
        return {
            "version": self.version,
            "r": list(self.r) if isinstance(self.r, tuple) else self.r,
            "s": list(self.s) if isinstance(self.s, tuple) else self.s,
            "delta": {str(number): value for number, value in self.delta.items()},
            "sigma": {str(number): value for number, value in self.sigma.items()},
            "reasons": self.reasons,
        }


def structure_of(
    robot: Robot, what: str = "torque", numbers: Sequence[int] | None = None, version: str = "1999"
) -> Structure:
    """Return r, s, δ and σ of a chain or tree of rotational and translational joints.

    Parallel, perpendicular, coaxial and concurrent are decided at a general position, where only
    what holds for every position holds; opposite directions count as parallel. Frames have z on the
    joint's axis (for `centre`; any frames do for the rest). `numbers` are the joints' numbers for
    people; None: from 1. Nothing depends on the version.

    Implements: Lin1994 Theorem 4 and Theorem 5, LinFang1999 Theorem 1, corrected as in ERRATA A.
    Differs: Trees, path by path; the zero-gravity exception; which rotor inertias merge.
    """
    scene, known = Scene(robot, what), numbers or range(1, len(robot.joints) + 1)
    roles = tuple(role_of(scene, index, known.__getitem__) for index in range(len(robot.joints)))
    return Structure(what, roles, version)


class Scene:
    """Directions and points of all axes at a general position."""

    def __init__(self, robot: Robot, what: str) -> None:
        self.robot = robot
        self.what = what
        self.size = largest_length(robot.joints)
        general = np.random.default_rng(20240229).uniform(0.4, 1.2, len(robot.joints))
        slides = np.array([joint.slides for joint in robot.joints])
        pose = tree_pose(robot, np.where(slides, general * self.size, general))
        self.u = pose.axes
        self.origin = pose.points  # of the link's frame where that has z on the axis
        self.links = pose.links[:, :3, :3]
        norm = float(np.linalg.norm(robot.gravity))
        self.weightless = what == "inertia" or norm == 0.0
        self.gravity = robot.gravity
        self.down = np.zeros(3) if self.weightless else robot.gravity / norm

    def parallel(self, a: int, b: int) -> bool:
        """Return whether two axes are parallel, opposite directions included."""
        return bool(np.linalg.norm(np.cross(self.u[a], self.u[b])) < ROUNDING)

    def perpendicular(self, a: int, b: int) -> bool:
        """Return whether two axes are perpendicular."""
        return bool(abs(self.u[a] @ self.u[b]) < ROUNDING)

    def along_gravity(self, a: int) -> bool:
        """Return whether an axis is along gravity."""
        return bool(np.linalg.norm(np.cross(self.u[a], self.down)) < ROUNDING)

    def across_gravity(self, a: int) -> bool:
        """Return whether an axis is across gravity."""
        return bool(abs(self.u[a] @ self.down) < ROUNDING)

    def on_axis(self, point: Array, a: int) -> bool:
        """Return whether a point is on an axis."""
        reach = np.cross(point - self.origin[a], self.u[a])
        return bool(np.linalg.norm(reach) < ROUNDING * self.size)

    def turning(self, index: int) -> bool:
        """Return whether a joint turns."""
        return self.robot.joints[index].turns


def role_of(scene: Scene, index: int, number: _Number) -> Role:
    """Return what a joint that moves may contribute, and why; `number` names joints for people."""
    path = [i for i in joints_to(scene.robot, index) if scene.robot.joints[i].kind != "fixed"]
    turning = [i for i in path if scene.turning(i)]
    r = turning[0] if turning else None
    s = next((i for i in turning if not scene.parallel(i, turning[0])), None)
    delta = sigma = None
    centre = None
    reason = ""
    if scene.what == "gravity":
        if not scene.turning(index):
            sigma, reason = _sigma_gravity(scene, path, r, s, number)
        elif scene.weightless:
            delta, reason = 0, "gravity is zero"
        elif s is None:
            delta = 0 if scene.along_gravity(index) else 1
            reason = (
                f"the axis of joint {number(index)} is {'' if delta == 0 else 'not '}along gravity"
            )
    elif scene.turning(index) and s is None:
        delta, reason = _delta(scene, path, turning[0], number)
    elif not scene.turning(index) and r is not None and s is None:
        sigma = 0 if scene.parallel(index, r) else 1
        relation = "parallel" if sigma == 0 else "not parallel"
        reason = f"joint {number(index)} slides {relation} to the axis of joint {number(r)}"
    elif scene.turning(index) and r is not None and s is not None and scene.weightless:
        centre = _centre(scene, path, r, s)
        if centre is not None:
            reason = (
                f"gravity does not act and the axes of all joints up to {number(index)} meet in "
                "one point, so that its first moments act only through its inertia about that "
                "point"
            )
    alone, why = _alone(scene, path, number)
    pull = 0.0 if scene.weightless else float(scene.gravity @ scene.u[index])
    if abs(pull) < ROUNDING * float(np.linalg.norm(scene.gravity)):
        pull = 0.0
    return Role(
        number=number(index),
        joint=scene.robot.joints[index].name,
        turning=scene.turning(index),
        r=None if r is None else number(r),
        s=None if s is None else number(s),
        delta=delta,
        sigma=sigma,
        centre=centre,
        alone=alone,
        pull=pull,
        reason=reason,
        rotor_reason=why,
    )


def _delta(scene: Scene, path: Sequence[int], r: int, number: _Number) -> tuple[int, str]:
    """δ of a rotational joint before s: 0 iff nothing ever accelerates its axis sideways."""
    j = path[-1]
    if not scene.weightless and not scene.along_gravity(r):
        return 1, f"gravity is not along the axis of joint {number(r)}"
    for k in path[:-1]:
        if not scene.turning(k) and not scene.parallel(k, r):
            return 1, f"joint {number(k)} slides across the axis of joint {number(r)}"
    for k in path[:-1]:
        if scene.turning(k) and not scene.on_axis(scene.origin[j], k):
            return 1, f"joint {number(k)} turns about another axis than joint {number(j)}"
    weight = (
        "gravity does not act"
        if scene.weightless
        else f"gravity is along the axis of joint {number(r)}"
    )
    return 0, f"{weight}, and no joint before joint {number(j)} moves its axis sideways"


def _sigma_gravity(
    scene: Scene, path: Sequence[int], r: int | None, s: int | None, number: _Number
) -> tuple[int, str]:
    """σ of a translational joint for the gravity load.

    0 iff it is across gravity in every position.
    """
    i = path[-1]
    if scene.weightless:
        return 0, "gravity is zero"
    if r is None:
        across = scene.across_gravity(i)
        return int(
            not across
        ), f"joint {number(i)} slides {'across' if across else 'not across'} gravity"
    if s is None:
        if scene.along_gravity(r) and scene.perpendicular(i, r):
            return (
                0,
                f"joint {number(i)} slides across joint {number(r)}, whose axis is along gravity",
            )
        if scene.across_gravity(r) and scene.parallel(i, r):
            return (
                0,
                f"joint {number(i)} slides along joint {number(r)}, whose axis is across gravity",
            )
    elif (
        scene.along_gravity(r)
        and scene.perpendicular(s, r)
        and scene.parallel(i, s)
        and all(scene.parallel(m, s) for m in path[path.index(s) :] if scene.turning(m))
    ):
        return 0, (
            f"joint {number(i)} slides along joint {number(s)}, which is across joint "
            f"{number(r)}, whose axis is along gravity"
        )
    return 1, f"joint {number(i)} slides along gravity in some position"


def _centre(scene: Scene, path: Sequence[int], r: int, s: int) -> float | None:
    """Distance from the common point of all axes to the frame's origin, along the axis.

    None: no such point.
    """
    if not all(scene.turning(i) for i in path):
        return None
    normal = np.cross(scene.u[r], scene.u[s])
    reach = scene.origin[s] - scene.origin[r]
    along = float(np.linalg.det(np.array([reach, scene.u[s], normal]))) / float(normal @ normal)
    point = scene.origin[r] + along * scene.u[r]
    if not all(scene.on_axis(point, i) for i in path):
        return None
    j = path[-1]
    return float((scene.origin[j] - point) @ scene.u[j])


def _alone(scene: Scene, path: Sequence[int], number: _Number) -> tuple[bool, str]:
    """Whether U33 or m̂ of the last joint acts on its own drive alone.

    Then a rotor cannot be separated from it.
    """
    j = path[-1]
    what = (
        f"U33 of joint {number(j)}"
        if scene.turning(j)
        else f"the mass that joint {number(j)} moves"
    )
    for m in path[:-1]:
        if scene.turning(j):
            if scene.turning(m) and not scene.perpendicular(m, j):
                return False, f"joint {number(m)} feels {what}, but not its rotor"
        elif scene.turning(m) and not scene.parallel(m, j):
            return False, f"joint {number(m)} turns {what}, but not its rotor"
        elif not scene.turning(m) and not scene.perpendicular(m, j):
            return False, f"joint {number(m)} feels {what}, but not its rotor"
    return True, f"no joint before it feels {what}"


def _one(found: set[int | None]) -> int | tuple[int, ...] | None:
    known = sorted(value for value in found if value is not None)
    if len(known) > 1:
        return tuple(known)
    return known[0] if known else None


def _shown(value: int | tuple[int, ...] | None) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else ", ".join(str(v) for v in value)
