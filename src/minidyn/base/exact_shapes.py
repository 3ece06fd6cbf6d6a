"""Friction and springs over finite fields: functions that are no polynomials, as fresh random values.

A sign jumps where its speed passes zero; √|v|, the Stribeck curve and an angle (against its sine and cosine) are not
algebraic in what else appears; a size |load| bends. So each is an independent function, and a random value that is
drawn once for everything that shares it stands for it. Speeds that are proportional share their functions: s(k v) is
±s(v), √|k v| is a constant times √|v|; Stribeck curves are the same where their speeds are in the same proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from minidyn.base.prime import Field, Residues, exact_fraction
from minidyn.dynamics.coordinates import Coordinates
from minidyn.dynamics.drive_loads import drive_loads
from minidyn.dynamics.drives import drive_ratios
from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import Scalar
from minidyn.model.drives import STRIBECK_SPEED
from minidyn.model.robot import Robot

__all__ = ["ExactShapes"]

Form = tuple[tuple[int, Fraction], ...]


class ExactShapes:
    """See `minidyn.dynamics.drives.Shapes`.

    Args:
        robot: The robot.
        field: The numbers.
        moving: Columns of q that move.
        tree: Geometry at the random states.
        c: Coordinates there.
        shifts: Positions of the independent joints as numbers, whether they slide or turn.
        turn: (cos, sin) of the position of a joint.
    """

    def __init__(
        self,
        robot: Robot,
        field: Field,
        moving: frozenset[int],
        tree: Tree,
        c: Coordinates,
        shifts: Sequence[Scalar],
        turn: Callable[[Scalar], tuple[Scalar, Scalar]],
    ) -> None:
        self._robot, self._field, self._moving = robot, field, moving
        self._tree, self._c, self._shifts, self._turn = tree, c, shifts, turn
        self._drawn: dict[tuple[object, ...], Residues] = {}
        self._loads: list[Scalar] | None = None

    def sign(self, joint: int, speed: Scalar, own: bool) -> Scalar:
        """A random ±1; 0 for a drive that stands still."""
        found = self._form(joint, own)
        if found is None:
            return 0
        form, lead = found
        sign = self._draw(("sign", form), self._field.signs)
        return sign if lead > 0 else -sign

    def root(self, joint: int, speed: Scalar) -> Scalar:
        """The sign times a random value and the constant √|k|."""
        found = self._form(joint, False)
        if found is None:
            return 0
        form, lead = found
        root = self._draw(("root", form), self._field.random)
        if abs(lead) != 1:
            root = root * self._draw(("scale", abs(lead)), lambda: self._field.random(constant=True))
        return self.sign(joint, speed, False) * root

    def stribeck(self, joint: int, speed: Scalar) -> Scalar:
        """The sign times a random value for each Stribeck speed."""
        found = self._form(joint, False)
        if found is None:
            return 0
        form, lead = found
        fall = (self._robot.joints[joint].drive.stribeck_speed or STRIBECK_SPEED) / abs(float(lead))
        return self.sign(joint, speed, False) * self._draw(("stribeck", form, f"{fall:.9g}"), self._field.random)

    def angle(self, joint: int) -> Scalar:
        """A joint's position as a number, which is no function of the point on the circle that its turn is."""
        robot = self._robot
        follows = robot.joints[joint].follows
        if follows is None:
            return self._shifts[robot.joint_names.index(robot.joints[joint].name)]
        total: Scalar = self._field.number(follows.offset)
        for name, ratio in follows.terms:
            total = total + self._field.number(ratio) * self._shifts[robot.joint_names.index(name)]
        return total

    def cos_sin(self, joint: int) -> tuple[Scalar, Scalar]:
        """The point of the circle that the geometry has."""
        return self._turn(self._c.q[joint])

    def load(self, joint: int) -> Scalar:
        """0 where gravity never loads the drive, a constant where it always does alike, a random value elsewhere."""
        if self._loads is None:
            ten = [[self._field.random(constant=True) for _ in range(10)] for _ in self._robot.joints]
            self._loads = drive_loads(self._robot, self._tree, self._c, ten)
        load = 0 if self._loads is None else self._loads[joint]
        if load.__class__ is not Residues:
            return load
        if not load.value.any():
            return 0
        if load.value.shape[1] == 1 or np.all(load.value == load.value[:, :1]):
            return self._draw(("constant load", joint), partial(self._field.random, constant=True))
        # loads that are proportional at every state have proportional sizes
        first = Residues(load.value[:, :1], self._field)
        kind = (load * first.power(-1)).value.tobytes()
        size = self._draw(("load", kind), self._field.random)
        return size * self._draw(("share", joint), partial(self._field.random, constant=True))

    def _form(self, joint: int, own: bool) -> tuple[Form, Fraction] | None:
        """Return (which combination of independent speeds, at what factor); None where the joint stands still."""
        speed: dict[int, Fraction] = {}
        ratios = {joint: 1.0} if own else drive_ratios(self._robot, joint)
        for other, ratio in ratios.items():
            for column, factor in self._c.G[other].items():
                if column in self._moving:
                    speed[column] = speed.get(column, Fraction(0)) + exact_fraction(ratio) * exact_fraction(factor)
        form = sorted((column, value) for column, value in speed.items() if value)
        if not form:
            return None
        lead = form[0][1]
        return tuple((column, value / lead) for column, value in form), lead

    def _draw(self, key: tuple[object, ...], draw: Callable[[], Residues]) -> Residues:
        if key not in self._drawn:
            self._drawn[key] = draw()
        return self._drawn[key]
