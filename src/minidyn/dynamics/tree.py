"""The robot's geometry at one configuration, in the number system of the caller.

`place` turns the constant steps of a robot's joints and its coordinates into `Move`s: for each joint, the turns and the
shift from parent link to child link. Recursions read moves only, so that they run on floats, on arrays, on graph nodes
and on integers modulo a prime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from minidyn.dynamics.vectors import Scalar, Turn, Vector, add, cross, to_child, to_parent
from minidyn.graph import scalar
from minidyn.model.geometry import Step, cos_sin
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot


class Numbers(Protocol):
    """A number system: how constants and coordinates of a robot become its scalars."""

    def length(self, step: Step) -> Scalar:
        """A constant length."""

    def turn(self, step: Step) -> tuple[Scalar, Scalar]:
        """(cos, sin) of a constant angle."""

    def number(self, value: float) -> Scalar:
        """A constant that is neither a length nor an angle: gravity, an axis component, a ratio."""

    def joint_turn(self, q: Scalar, direction: int, offset: Step | None) -> tuple[Scalar, Scalar]:
        """(cos, sin) of direction · q + offset."""

    def joint_shift(self, q: Scalar, direction: int) -> Scalar:
        """Direction · q."""


class RealNumbers:
    """Floats, NumPy arrays (one value per sample) and graph nodes."""

    def length(self, step: Step) -> Scalar:
        """A constant length."""
        return step.value

    def turn(self, step: Step) -> tuple[Scalar, Scalar]:
        """(cos, sin) of a constant angle, exact at right angles."""
        return cos_sin(step.value)

    def number(self, value: float) -> Scalar:
        """The constant itself."""
        return value

    def joint_turn(self, q: Scalar, direction: int, offset: Step | None) -> tuple[Scalar, Scalar]:
        """(cos, sin) of direction · q + offset; whole quarter turns are taken out exactly."""
        constant = 0.0 if offset is None else offset.value
        quarters = round(constant / (math.pi / 2))
        if abs(constant - quarters * (math.pi / 2)) > 1e-12:
            return scalar.cos_sin(q * float(direction) + constant)
        c, s = scalar.cos_sin(q)
        s = s if direction > 0 else -s
        return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]

    def joint_shift(self, q: Scalar, direction: int) -> Scalar:
        """Direction · q."""
        return q if direction > 0 else -q


REAL = RealNumbers()


@dataclass(frozen=True, slots=True)
class Move:
    """From a link's parent to the link.

    Attributes:
        parent: Index of the parent link, -1 for the base.
        turns: R = product of these turns takes the link's coordinates to the parent's.
        shift: From the parent's origin to the joint's, in the parent's frame; a sliding joint's travel included.
        lever: From the joint's origin to the link's, in the link's frame; None where they coincide.
        axis: Of the joint, in the link's frame.
        turning: True for a rotational joint.
        fixed: True for a load that is bolted on.
    """

    parent: int
    turns: tuple[Turn, ...]
    shift: Vector
    lever: Vector | None
    axis: Vector
    turning: bool
    fixed: bool

    def vector_to_parent(self, v: Vector) -> Vector:
        """Coordinates in the parent's frame."""
        return to_parent(self.turns, v)

    def vector_to_child(self, v: Vector) -> Vector:
        """Coordinates in the link's frame of a vector given in the parent's."""
        return to_child(self.turns, v)

    def wrench_to_parent(self, force: Vector, moment: Vector) -> tuple[Vector, Vector]:
        """A wrench about the link's origin, about the parent's origin and in its frame."""
        if self.lever is not None:
            moment = add(moment, cross(self.lever, force))
        f = self.vector_to_parent(force)
        return f, add(self.vector_to_parent(moment), cross(self.shift, f))

    def twist_to_child(self, angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
        """A twist at the parent's origin, at the link's origin and in its frame."""
        v = self.vector_to_child(add(linear, cross(angular, self.shift)))
        w = self.vector_to_child(angular)
        return (w, v) if self.lever is None else (w, add(v, cross(w, self.lever)))

    @property
    def unit_twist(self) -> tuple[Vector, Vector]:
        """(angular, linear at the link's origin) that unit joint speed adds, in the link's frame."""
        zero = [0 * component for component in self.axis]
        if self.fixed:
            return zero, zero
        if not self.turning:
            return zero, self.axis
        return self.axis, zero if self.lever is None else cross(self.axis, self.lever)


@dataclass(frozen=True, slots=True)
class Tree:
    """All moves of a robot at one configuration, with gravity in the base frame.

    Attributes:
        moves: One for each joint, parents first.
        gravity: Acceleration of gravity in the base frame.
        base_turns: Base to world.
        base_shift: Base origin in the world.
        zero: The number 0 of the number system.
        one: The number 1.
    """

    moves: tuple[Move, ...]
    gravity: Vector
    base_turns: tuple[Turn, ...]
    base_shift: Vector
    zero: Scalar
    one: Scalar

    def path(self, link: int) -> list[int]:
        """Indices of the joints from `link` down to the base."""
        found = []
        while link >= 0:
            found.append(link)
            link = self.moves[link].parent
        return found

    @property
    def zeros(self) -> Vector:
        """The vector 0."""
        return [self.zero] * 3


def place(robot: Robot, q_all: Sequence[Scalar], numbers: Numbers = REAL) -> Tree:
    """Return the robot's tree at coordinates q_all, one for each joint in `robot.joints`."""
    moves = tuple(_move(joint, q, numbers) for joint, q in zip(robot.joints, q_all))
    turns, shift, _ = _constant(robot.base, numbers)
    gravity = to_child(turns, [numbers.number(float(component)) for component in robot.gravity])
    return Tree(moves, gravity, turns, shift, numbers.number(0.0), numbers.number(1.0))


def constant_placement(steps: Sequence[Step], numbers: Numbers) -> tuple[tuple[Turn, ...], Vector]:
    """Return (turns, shift in the first frame) of constant steps."""
    turns, shift, _ = _constant(steps, numbers)
    return turns, shift


def _move(joint: Joint, q: Scalar, numbers: Numbers) -> Move:
    before, offset = list(joint.before), None
    motion = "xyz".index(joint.motion[1])
    if joint.turns and before and before[-1].kind == joint.motion:
        offset = before.pop()
    turns, shift, _ = _constant(before, numbers)
    if joint.turns:
        turns = (*turns, (motion, *numbers.joint_turn(q, joint.direction, offset)))
    elif joint.slides:
        travel = [numbers.number(0.0)] * 3
        travel[motion] = numbers.joint_shift(q, joint.direction)
        shift = add(shift, to_parent(turns, travel))
    axis = [numbers.number(0.0)] * 3
    axis[motion] = numbers.number(float(joint.direction))
    lever = None
    if joint.after:
        after, _, lever = _constant(joint.after, numbers)
        turns = (*turns, *after)
        axis = to_child(after, axis)
        if all(step.is_turn for step in joint.after):
            lever = None
    return Move(joint.parent, turns, shift, lever, axis, joint.turns, joint.kind == "fixed")


def _constant(steps: Sequence[Step], numbers: Numbers) -> tuple[tuple[Turn, ...], Vector, Vector]:
    """Return (turns, shift in the first frame, shift in the last frame) of constant steps."""
    turns: list[Turn] = []
    last: Vector = [numbers.number(0.0)] * 3
    for step in steps:
        if step.is_turn:
            turn = (step.axis, *numbers.turn(step))
            turns.append(turn)
            last = to_child([turn], last)
        else:
            last[step.axis] = last[step.axis] + numbers.length(step)
    return tuple(turns), to_parent(turns, last), last
