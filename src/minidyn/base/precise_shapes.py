"""Friction and springs in sixty digits; signs change at once, because widths do not change the structure."""

from __future__ import annotations

from decimal import Decimal

from minidyn.base.digits import Digits, cos_sin, formula_operations
from minidyn.dynamics.coordinates import Coordinates
from minidyn.dynamics.drive_loads import drive_loads, some_parameters
from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import Scalar
from minidyn.model.drives import STRIBECK_SPEED
from minidyn.model.robot import Robot

__all__ = ["PreciseShapes"]


class PreciseShapes:
    """See `minidyn.dynamics.drives.Shapes`.

    Args:
        robot: The robot.
        tree: Geometry at the states.
        c: Coordinates there.
    """

    def __init__(self, robot: Robot, tree: Tree, c: Coordinates) -> None:
        self._robot, self._tree, self._c = robot, tree, c
        self._operations = formula_operations()
        self._loads: list[Scalar] | None = None

    def sign(self, joint: int, speed: Scalar, own: bool) -> Scalar:
        """-1, 0 or +1."""
        return self._operations["sign"](speed) if isinstance(speed, Digits) else 0

    def root(self, joint: int, speed: Scalar) -> Scalar:
        """s(v) √|v|."""
        sign = self.sign(joint, speed, False)
        return sign * self._operations["sqrt"](speed * sign) if isinstance(sign, Digits) else 0

    def stribeck(self, joint: int, speed: Scalar) -> Scalar:
        """s(v) / (1 + (v / v_s)²)."""
        sign = self.sign(joint, speed, False)
        if not isinstance(sign, Digits):
            return 0
        ratio = speed / Decimal(self._robot.joints[joint].drive.stribeck_speed or STRIBECK_SPEED)
        return sign / (ratio * ratio + 1)

    def angle(self, joint: int) -> Scalar:
        """The position."""
        return self._c.q[joint]

    def cos_sin(self, joint: int) -> tuple[Scalar, Scalar]:
        """Cosine and sine of the position."""
        return cos_sin(self._c.q[joint])

    def load(self, joint: int) -> Scalar:
        """|load|."""
        if self._loads is None:
            phi = some_parameters(self._robot)
            ten = [[Digits.constant(value) for value in phi[part]] for part in self._robot.layout.links]
            self._loads = drive_loads(self._robot, self._tree, self._c, ten)
        load = 0 if self._loads is None else self._loads[joint]
        return load * self._operations["sign"](load) if isinstance(load, Digits) else abs(load)
