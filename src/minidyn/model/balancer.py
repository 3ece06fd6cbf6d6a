"""Springs and gas cylinders that balance a joint, by the points they are fixed to.

A balancer pulls on two points: one fixed beside the joint, one that turns with it. With C and S the
dot and the cross product of both, seen from the axis in the plane across it at q = 0, and D the sum
of the squares of their distances from the axis and of their distance along it, its length is

    l² = D - 2 X,    X = C cos q - S sin q,    l dl/dq = Y = C sin q + S cos q

and a tension F(l) loads the joint with F dl/dq = F Y / l, the derivative of the energy that it
stores. The laws are linear in the constants that are to be found:

    spring           F = Kb l + Pb      Kb: its rate, N/m; Pb: preload minus rate times free length, N
    gas cylinder     F = Gb (g / (g + l0 - l))^n

with the length g = volume / piston area of the gas at length l0, where the force is Gb; n is 1 for
slow and 1.4 for quick changes of nitrogen. A negative g is a gas that expands as the cylinder gets
longer.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.errors import DescriptionError

if TYPE_CHECKING:
    from minidyn.model.robot import Robot

# of the exponent behind the point: powers are products of square roots, which every target computes
_BITS = 12
LENGTHS = ("offset", "gas_length", "length", "exponent")
"""Attributes, beside the points, that say where a balancer is and what law it has."""
_TERMS = {"rate": "balancer_rate", "force": "balancer_force", "gas": "balancer_gas"}
_SYMBOLS = {"rate": "Kb", "force": "Pb", "gas": "Gb"}


@dataclass(frozen=True, slots=True)
class Balancer:
    """A spring or gas cylinder between a point beside a joint and one that turns with it.

    Points are seen from the joint's axis, in the plane across it at q = 0: (x, y) of any axes with
    z along the joint's, those of the link's frame where the link turns about its z.

    Attributes:
        joint: Name of the joint that it balances.
        fixed: The point that does not turn with the joint (2,), m.
        moving: The point that does (2,), m.
        offset: Distance of the two points along the axis, m.
        gas_length: Gas volume over piston area at `length`, m; 0: a mechanical spring. Negative:
            the gas expands as the cylinder gets longer.
        length: Of the cylinder where the gas has that volume, m.
        exponent: Of the gas law p V^n, rounded to 1/4096.
        rate: Of the spring, N/m; None: not known, to be found.
        force: Tension that does not depend on the length: preload minus rate times free length, N;
            None: to be found.
        gas: Force of the gas at `length`, N; None: to be found.
    """

    joint: str
    fixed: Sequence[float]
    moving: Sequence[float]
    offset: float = 0.0
    gas_length: float = 0.0
    length: float = 0.0
    exponent: float = 1.0
    rate: float | None = None
    force: float | None = None
    gas: float | None = None

    def __post_init__(self) -> None:
        for name in ("fixed", "moving"):
            point = np.asarray(getattr(self, name), dtype=float)
            if point.shape != (2,) or not np.all(np.isfinite(point)) or not np.any(point):
                raise DescriptionError(
                    f"balancer: {name}: expected two numbers beside the axis, m, got "
                    f"{point.tolist()}"
                )
            object.__setattr__(self, name, tuple(point.tolist()))
        numbers = [float(getattr(self, name)) for name in LENGTHS]
        if not all(map(math.isfinite, numbers)) or not 0.0 < self.exponent <= 4.0:
            raise DescriptionError(
                "balancer: expected finite lengths and an exponent above 0 and up to 4"
            )
        object.__setattr__(self, "exponent", round(self.exponent * 2**_BITS) / 2**_BITS)
        *_, low, high = self._shape()
        last = high if self.gas_length > 0 else low
        if self.gas_length and (self.gas_length + self.length - last) * self.gas_length <= 0:
            raise DescriptionError(
                f"balancer: no gas is left at a length of {last:.4g} m, which the points reach: "
                f"gas_length {self.gas_length:.4g} m at length {self.length:.4g} m is too short"
            )
        if not self.gas_length and self.gas is not None:
            raise DescriptionError("balancer: gas is the force of a cylinder with gas_length")
        if self.gas_length and not (self.rate is None and self.force is None):
            raise DescriptionError(
                "balancer: rate and force belong to a spring, a cylinder with gas_length has gas"
            )

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of its drive terms."""
        return (_TERMS["gas"],) if self.gas_length else (_TERMS["rate"], _TERMS["force"])

    @property
    def geometry(self) -> Balancer:
        """The balancer without joint and constants.

        What a drive knows, and the robot's parameters do not.
        """
        return replace(self, joint="", rate=None, force=None, gas=None)

    def on(self, robot: Robot) -> Robot:
        """Return the robot with the balancer on its joint.

        Constants that are None are unknown parameters.
        """
        if self.joint not in [joint.name for joint in robot.joints if joint.turns]:
            turning = ", ".join(joint.name for joint in robot.joints if joint.turns)
            raise DescriptionError(
                f"balancer: no joint {self.joint!r} that turns; there are: {turning}"
            )

        def change(joint: Any) -> Any:
            if joint.name != self.joint:
                return joint
            return replace(joint, drive=joint.drive.balanced(self.geometry))

        made = robot.with_joints(change)
        values = made.parameters.copy()
        for column in made.layout.drives[made.joint_index(self.joint)]:
            for name, symbol in _SYMBOLS.items():
                if column.symbol == symbol:
                    given = getattr(self, name)
                    values[column.index] = math.nan if given is None else float(given)
        return made.with_parameters(values)

    def column(
        self,
        symbol: str,
        cosine: Any,
        sine: Any,
        sqrt: Callable[[Any], Any],
        number: Callable[[float], Any] = float,
    ) -> Any:
        """Return the torque of a constant of 1, at cos q and sin q, in any numbers."""
        C, S, D, *_ = self._shape()
        Y = number(C) * sine + number(S) * cosine
        if symbol == _SYMBOLS["rate"]:
            return Y
        length = sqrt(number(D) - number(2.0) * (number(C) * cosine - number(S) * sine))
        if symbol == _SYMBOLS["force"]:
            return Y / length
        ratio = number(self.gas_length) / (number(self.gas_length + self.length) - length)
        whole, rest = divmod(round(self.exponent * 2**_BITS), 2**_BITS)
        power, root = None, ratio
        for bit in reversed(range(_BITS)):
            root = sqrt(root)
            if rest >> bit & 1:
                power = root if power is None else power * root
        for _ in range(whole):
            power = ratio if power is None else power * ratio
        return Y / length if power is None else power * Y / length

    def size(self, symbol: str) -> float:
        """Return how large the column of a constant gets, about: m² or m."""
        C, S, _, low, high = self._shape()
        levers = math.hypot(C, S)
        return levers if symbol == _SYMBOLS["rate"] else 2.0 * levers / (low + high)

    def _shape(self) -> tuple[float, float, float, float, float]:
        """Return C, S, D, and the shortest and longest length, m."""
        (x, y), (u, v) = self.fixed, self.moving
        a, b, along = math.hypot(x, y), math.hypot(u, v), self.offset**2
        return (
            x * u + y * v,
            x * v - y * u,
            a * a + b * b + along,
            math.hypot(a - b, self.offset),
            math.hypot(a + b, self.offset),
        )
