"""The canonical twin of a robot.

The same joints, link frames put where the joint axes stand as lines in space. How many base
parameters a robot has is a property of its axes and of gravity: which are parallel, perpendicular,
intersecting, coaxial. Frames that a file turns or shifts freely hide this from arithmetic that
reads angles and lengths one by one. Here the relations are decided once, on the lines themselves
and within a tolerance, and written into frames in which each of them is a right angle or a length
that is zero.

A revolute link's frame has z on its axis, and x and origin on the common normal with its first
child's axis (Khalil-Kleinfinger), unless the two are so nearly parallel that their normal is far
from the robot. Links that only slide keep the orientation of the nearest revolute link above, so
that relations across prismatic joints are single angles, too. In the base z is along gravity. Joint
coordinates stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minidyn.arrays import Array
from minidyn.model.geometry import (
    AXES,
    TOLERANCE,
    Step,
    Steps,
    inverse_steps,
    matrix_of,
    tidy_steps,
)
from minidyn.model.joint import Joint, typical_length
from minidyn.model.parameters import transform

if TYPE_CHECKING:
    from minidyn.model.robot import Robot

ROUNDING = 1e-9
"""Angles (rad) and lengths (of the robot's size) up to this are rounding of double precision.

Snapped silently.
"""

# of angles and of the robot's size: a twin in own frames that near is the robot itself, as lengths
# of twins have 13 digits
_SAME = 1e-12

_RIGHT = math.pi / 2
_HALF_DEGREE = math.pi / 360
FAR = 100.0
"""Of the robot's size: farther normals of nearly parallel axes would cost the digits of all that is
near.
"""
_DIGITS = (
    13  # of a length against the robot's size: what frames add to the last digits is taken away
)


class Relation(NamedTuple):
    """Two axes (or an axis and gravity) that are nearly in a special position."""

    one: str  # name of a joint, or "gravity"
    two: str
    kind: str  # "parallel", "perpendicular", "intersecting", "coaxial" or "meeting in one point"
    off: float  # by how much: rad, or m
    unit: str  # "rad" or "m"

    def __str__(self) -> str:
        amount = f"{self.off:.2g} {self.unit}"
        return f"{_shown(self.one)} and {_shown(self.two)} are {self.kind} but for {amount}"


def _shown(name: str) -> str:
    return "gravity" if name == GRAVITY else f"the axis of {name!r}"


GRAVITY = "gravity"


@dataclass(frozen=True)
class Canonical:
    """A robot's canonical twin.

    Attributes:
        robot: The robot.
        twin: The same mechanism in canonical frames, special relations exact; loops and symbols
            left out, values of parameters not to be read.
        base: The twin's base frame seen from the robot's own (4, 4).
        frames: The twin's link frames seen from the robot's own (joints, 4, 4).
        relations: What was snapped by more than rounding.
    """

    robot: Robot
    twin: Robot
    base: Array
    frames: Array
    relations: tuple[Relation, ...]

    @cached_property
    def T(self) -> Array:
        """The map (p, p) of standard parameters with phi_twin = T phi."""
        layout = self.robot.layout
        T = np.eye(len(layout))
        for part, frame in zip(layout.links, self.frames):
            T[part, part] = transform(np.eye(10), _inverse(frame)).T
        return T

    @cached_property
    def understood(self) -> Robot:
        """The twin with the robot's own link frames; the robot itself where nothing was snapped."""
        found = self.in_own_frames()
        size = typical_length(self.robot.joints)
        pairs = zip(found.joints, self.robot.joints)
        change = max((_change(one, two, size) for one, two in pairs), default=0.0)
        return self.robot if change <= _SAME else found

    def in_own_frames(self) -> Robot:
        """Return the twin with the robot's own link frames.

        The robot itself, but for what was snapped.
        """
        joints = []
        for index, joint in enumerate(self.twin.joints):
            first = free_steps(self.base if joint.parent < 0 else self.frames[joint.parent])
            back = free_steps(_inverse(self.frames[index]))
            joints.append(
                replace(joint, before=(*first, *joint.before), after=(*joint.after, *back))
            )
        return replace(self.robot, joints=tuple(joints), symbols=())


def canonical(robot: Robot, tolerance: float) -> Canonical:
    """Return the twin of a robot, with relations between axes snapped that hold within a tolerance.

    The tolerance is of angles, rad, and of distances against the robot's size (root mean square of
    its lengths); at least `ROUNDING` is taken.
    """
    return _Builder(robot, max(tolerance, ROUNDING)).built()


def as_understood(robot: Robot, tolerance: float = TOLERANCE) -> Robot:
    """Return a robot with axes that are special within a tolerance exactly so.

    The robot itself where nothing changes. Everything that asks which axes are parallel,
    perpendicular, coaxial or meet asks it of this robot. Loops that are solved for and formulas
    close for the geometry as written only.
    """
    if is_as_written(robot):
        return robot
    return _understood(robot, tolerance)


@lru_cache(maxsize=32)
def _understood(robot: Robot, tolerance: float) -> Robot:
    return canonical(robot, tolerance).understood


def is_as_written(robot: Robot) -> bool:
    """Say whether a robot's geometry is taken as it is: it must be, or shows everything.

    Behind a free base every axis moves every way: none is special.
    """
    is_open = robot.implicit_loops or robot.formulas or robot.free_base
    return bool(is_open or shows_everything(robot))


def shows_everything(robot: Robot) -> bool:
    """Say at once whether nothing can be nearly special.

    Right angles, and one length along each direction. False says nothing: `canonical` looks.
    """
    least = 0.01 * typical_length(robot.joints)
    for joint in robot.joints:
        kinds = [step.kind for step in joint.before if not step.is_turn and step.value != 0.0]
        if joint.after or len(set(kinds)) < len(kinds):
            return False
        for step in joint.before:
            if step.is_turn:
                if abs(step.value - round(step.value / _RIGHT) * _RIGHT) > 1e-12:
                    return False
            elif 0.0 < abs(step.value) < least:
                return False
    down = np.abs(robot.base_placement[:3, :3].T @ robot.gravity)
    return bool(np.count_nonzero(down > 1e-12 * down.max(initial=0.0)) <= 1)


@dataclass
class _Group:
    """A revolute link (or the base) and all that slides on it.

    Axes that keep constant angles to each other.
    """

    name: str  # of the direction along z
    frame: (
        Array  # the canonical frame in the coordinates of the revolute link, or of the base (4, 4)
    )
    placed: list[tuple[str, Array, Steps]] = field(
        default_factory=list
    )  # name, direction, turns from z to it


@dataclass(frozen=True)
class _Member:
    """A joint that a group carries."""

    index: int
    turns: bool
    point: Array  # of its axis, in the coordinates of the group's link at q = 0
    direction: Array


class _Builder:
    def __init__(self, robot: Robot, tolerance: float) -> None:
        self.robot = robot
        self.tolerance = tolerance
        self.size = typical_length(robot.joints)
        self._decimals = _DIGITS - math.ceil(math.log10(self.size))
        self.relations: dict[tuple[str, str, str], Relation] = {}
        self.root: dict[int, int] = {
            -1: -1
        }  # of each link, the revolute link or base that it slides on
        self.place: dict[int, Array] = {
            -1: np.eye(4)
        }  # its frame at q = 0 in that link's coordinates
        self.members: dict[int, list[_Member]] = {-1: []}
        for index, joint in enumerate(robot.joints):
            root = self.root[joint.parent]
            before = self.place[joint.parent] @ matrix_of(joint.before)
            if joint.kind != "fixed":
                axis = joint.direction * before[:3, AXES.index(joint.motion[1])]
                self.members[root].append(_Member(index, joint.turns, before[:3, 3], axis))
            if joint.turns:
                self.root[index], self.place[index], self.members[index] = index, np.eye(4), []
            else:
                self.root[index], self.place[index] = root, before @ matrix_of(joint.after)

    def built(self) -> Canonical:
        robot = self.robot
        groups = {-1: self._base()}
        frames = np.empty((len(robot.joints), 4, 4))
        joints: list[Joint] = []
        for index, joint in enumerate(robot.joints):
            root = self.root[joint.parent]
            group = groups[root]
            if joint.kind == "fixed":
                frames[index] = _inverse(self.place[index]) @ group.frame
                joints.append(replace(joint, before=(), after=()))
                continue
            member = next(m for m in self.members[root] if m.index == index)
            axis = group.frame[:3, :3].T @ member.direction
            turns = self._direction(group, joint.name, axis)
            if joint.slides:
                frames[index] = _inverse(self.place[index]) @ group.frame
                before, after, motion = turns, inverse_steps(turns), "tz"
            else:
                before, frames[index] = self._turning(group, root, joint, member, axis, turns)
                after, motion = (), "rz"
                groups[index] = _Group(joint.name, frames[index])
            joints.append(
                replace(joint, before=tidy_steps(before), motion=motion, direction=1, after=after)
            )
        weight = float(np.linalg.norm(robot.gravity))
        twin = replace(
            robot,
            joints=tuple(joints),
            gravity=np.array([0.0, 0.0, -weight]),
            base=(),
            frames=(),
            symbols=(),
            loops=(),
        )
        return Canonical(robot, twin, groups[-1].frame, frames, tuple(self.relations.values()))

    # ---------------------------------------------------------------- frames

    def _base(self) -> _Group:
        """Return the group of the base.

        z against gravity, or along the first axis where gravity is zero.
        """
        gravity = self.robot.base_placement[:3, :3].T @ self.robot.gravity
        weight, members = float(np.linalg.norm(gravity)), self.members[-1]
        name = (
            GRAVITY
            if weight > 0.0
            else self.robot.joints[members[0].index].name
            if members
            else GRAVITY
        )
        z = (
            -gravity / weight
            if weight > 0.0
            else members[0].direction
            if members
            else np.array([0.0, 0.0, 1.0])
        )
        frame = np.eye(4)
        x = self._normal(z, members)
        frame[:3, :3] = _axes(z, _across(z) if x is None else x)
        return _Group(name, frame)

    def _normal(self, z: Array, members: Sequence[_Member]) -> Array | None:
        """Return the common normal of z and the first axis that is not parallel to it."""
        for member in members:
            normal = np.cross(z, member.direction)
            sine = float(np.linalg.norm(normal))
            if sine > self.tolerance:
                return np.asarray(normal / sine)
        return None

    def _turning(
        self, group: _Group, root: int, joint: Joint, member: _Member, axis: Array, turns: Steps
    ) -> tuple[Steps, Array]:
        """Return the steps of a revolute joint in its group's frame, and its canonical frame seen
        from its link's.
        """
        point = group.frame[:3, :3].T @ (member.point - group.frame[:3, 3])
        sine = math.hypot(axis[0], axis[1])
        if sine <= self.tolerance:
            b, foot = 0.0, np.array([point[0], point[1], 0.0])
            a = math.hypot(point[0], point[1])
            azimuth = self._azimuth(group, math.atan2(point[1], point[0])) if a > 0.0 else 0.0
        else:
            azimuth = turns[0].value if turns and turns[0].kind == "rz" else 0.0
            normal = np.array([-axis[1], axis[0], 0.0]) / sine
            back = np.array([-normal[1], normal[0], 0.0])
            foot = point - (back @ point) / (back @ axis) * axis
            a, b = float(normal @ foot), float(foot[2])
            if (
                abs(b) > FAR * self.size
            ):  # nearly parallel: where the axis meets the plane of the group's origin
                foot = point - point[2] / axis[2] * axis
                a, b = math.hypot(foot[0], foot[1]), 0.0
                azimuth = math.atan2(foot[1], foot[0])
            elif len(turns) != 2:
                azimuth = self._azimuth(group, math.atan2(normal[1], normal[0]))
        if root >= 0:
            name = "coaxial" if sine <= self.tolerance else "intersecting"
            a = self._length(a, group.name, joint.name, name)
            b = self._length(b, group.name, joint.name, "meeting in one point")
        a, b = self._rounded(a), self._rounded(b)
        # the link's own frame: on its axis, x and origin by what it carries
        seen = group.frame
        link = (
            _inverse(self.place[joint.parent] @ matrix_of(joint.before + joint.after)) @ seen
        )  # at q = 0
        D = matrix_of(turns)[:3, :3]
        z = joint.axis
        own = matrix_of(inverse_steps(joint.after))[:3, 3]
        x, origin = self._own(z, own, self.members[member.index])
        if origin is None:
            origin = link[:3, :3] @ foot + link[:3, 3]
            origin = own + ((origin - own) @ z) * z  # on the axis, which may have been turned
        if x is None:
            x = link[:3, :3] @ D[:, 0]
            x = x - (x @ z) * z
            x = x / np.linalg.norm(x)
        frame = np.eye(4)
        frame[:3, :3] = _axes(z, x)
        frame[:3, 3] = origin
        theta_x = D.T @ (link[:3, :3].T @ x)
        theta = math.atan2(theta_x[1], theta_x[0])
        d = float((link[:3, :3].T @ (origin - link[:3, 3]) - foot) @ axis)
        if root >= 0:
            d = self._length(d, group.name, joint.name, "meeting in one point")
        shift: tuple[Step, ...] = (Step("tz", b),)
        if a:
            shift += (Step("rz", azimuth), Step("tx", a))
            if turns and turns[0].kind == "rz" and turns[0].value == azimuth:
                turns = turns[1:]
            else:
                shift += (Step("rz", -azimuth),)
        return (*shift, *turns, Step("tz", self._rounded(d)), Step("rz", self._angle(theta))), frame

    def _own(
        self, z: Array, point: Array, members: Sequence[_Member]
    ) -> tuple[Array | None, Array | None]:
        """Return x and origin of a revolute link's frame by the axes it carries.

        None where they leave it open.
        """
        x, origin = self._normal(z, members), None
        for member in members:
            if not member.turns:
                continue
            normal = np.cross(z, member.direction)
            sine = float(np.linalg.norm(normal))
            reach = member.point - point
            if sine > self.tolerance:
                along = float(np.linalg.det(np.array([reach, member.direction, normal]))) / sine**2
                if abs(along) <= FAR * self.size:
                    origin = point + along * z
                    break
        if x is None:
            for member in members:
                across = member.point - point
                across = across - (across @ z) * z
                length = float(np.linalg.norm(across))
                if member.turns and length > self.tolerance * self.size:
                    x = across / length
                    break
        return x, origin

    # ---------------------------------------------------------------- relations

    def _direction(self, group: _Group, name: str, w: Array) -> Steps:
        """Return the turns that take z of a group to the direction w (3,), relations to those
        before it exact.
        """
        found = self._related(group, name, w)
        group.placed.append((name, matrix_of(found)[:3, 2], found))
        return found

    def _related(self, group: _Group, name: str, w: Array) -> Steps:
        sine = math.hypot(w[0], w[1])
        if sine <= self.tolerance:
            self._say(group.name, name, "parallel", sine, "rad")
            return () if w[2] > 0.0 else (Step("rx", math.pi),)
        for other, u, turns in group.placed:
            off = float(np.linalg.norm(np.cross(u, w)))
            if off <= self.tolerance:
                self._say(other, name, "parallel", off, "rad")
                return turns if u @ w > 0.0 else (*turns, Step("rx", math.pi))
        azimuth = self._azimuth(group, math.atan2(w[0], -w[1]))
        if abs(w[2]) <= self.tolerance:
            self._say(group.name, name, "perpendicular", abs(float(w[2])), "rad")
            for other, u, _ in group.placed:
                if abs(u[2]) <= ROUNDING and abs(u @ w) <= self.tolerance:
                    self._say(other, name, "perpendicular", abs(float(u @ w)), "rad")
            return Step("rz", azimuth), Step("rx", _RIGHT)
        for other, u, turns in group.placed:
            off = abs(float(u @ w))
            if off <= self.tolerance and abs(u[2]) < 1.0 - ROUNDING:
                self._say(other, name, "perpendicular", off, "rad")
                v = matrix_of(turns)[:3, :3].T @ w
                return (
                    *turns,
                    Step("rz", self._angle(math.atan2(v[0], -v[1]))),
                    Step("rx", _RIGHT),
                )
        return Step("rz", azimuth), Step("rx", self._angle(math.atan2(sine, w[2])))

    def _azimuth(self, group: _Group, angle: float) -> float:
        """Return an angle about z, a whole number of right angles from x or a placed direction
        where it is near.
        """
        known = [
            0.0,
            *(turns[0].value for _, _, turns in group.placed if turns and turns[0].kind == "rz"),
        ]
        for reference in known:
            quarters = round((angle - reference) / _RIGHT)
            if abs(angle - reference - quarters * _RIGHT) <= self.tolerance:
                return reference + quarters * _RIGHT
        return self._angle(angle)

    def _angle(self, angle: float) -> float:
        """Return an angle, a whole number of half degrees where it is one but for rounding."""
        nearest = round(angle / _HALF_DEGREE) * _HALF_DEGREE
        return nearest if abs(angle - nearest) <= ROUNDING else angle

    def _length(self, value: float, one: str, two: str, kind: str) -> float:
        if abs(value) > self.tolerance * self.size:
            return value
        self._say(one, two, kind, abs(value), "m")
        return 0.0

    def _rounded(self, value: float) -> float:
        return round(value, self._decimals) + 0.0

    def _say(self, one: str, two: str, kind: str, off: float, unit: str) -> None:
        if off > ROUNDING * (self.size if unit == "m" else 1.0):
            self.relations.setdefault((one, two, kind), Relation(one, two, kind, off, unit))


def _change(one: Joint, two: Joint, size: float) -> float:
    """Return how far two joints of the same link frame stand apart, rad and share of a size."""
    here, there = (matrix_of(joint.before + joint.after) for joint in (one, two))
    shift = np.abs(here[:3, 3] - there[:3, 3]).max() / size
    turn = np.abs(here[:3, :3] - there[:3, :3]).max()
    axis = 0.0 if one.kind == "fixed" else np.abs(one.axis - two.axis).max()
    return float(max(shift, turn, axis))


def _axes(z: Array, x: Array) -> Array:
    """Return the orthonormal axes of a frame; a short normal is perpendicular to few digits."""
    x = x - (x @ z) * z
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _across(z: Array) -> Array:
    """A direction perpendicular to z."""
    seed = np.zeros(3)
    seed[(int(np.argmax(np.abs(z))) + 1) % 3] = 1.0
    x = seed - (seed @ z) * z
    return np.asarray(x / np.linalg.norm(x))


def _inverse(T: Array) -> Array:
    found = np.eye(4)
    found[:3, :3] = T[:3, :3].T
    found[:3, 3] = -T[:3, :3].T @ T[:3, 3]
    return found


def free_steps(T: Array) -> Steps:
    """Return a placement as steps, nothing snapped."""
    R = T[:3, :3]
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    shift = (Step("t" + AXES[k], float(T[k, 3])) for k in range(3))
    return tidy_steps((*shift, Step("rz", yaw), Step("ry", pitch), Step("rx", roll)))
