"""A moving body of a robot, as people ask about it."""

from __future__ import annotations

from dataclasses import dataclass

from minidyn.arrays import Array
from minidyn.model import inertia as _inertia
from minidyn.model.inertia import Realizability


@dataclass(frozen=True)
class Link:
    """A moving body: its name and ten inertial parameters (NaN where unknown).

    Attributes:
        name: Link name.
        joint: Name of the joint that carries it.
        frames: Names of the links that fixed joints merged into it.
        parameters: XX XY XZ YY YZ ZZ MX MY MZ M (10,), in the link's frame, inertia about its origin.
    """

    name: str
    joint: str
    frames: tuple[str, ...]
    parameters: Array

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.parameters[9])

    @property
    def com(self) -> Array:
        """Centre of mass in the link's frame (3,), m."""
        return _inertia.to_body(self.parameters)[1]

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, axes parallel to the link's frame (3, 3), kg m²."""
        return _inertia.to_body(self.parameters)[2]

    @property
    def pseudo_inertia(self) -> Array:
        """Pseudo-inertia (4, 4): positive semidefinite exactly where some body has these parameters."""
        return _inertia.to_pseudo_inertia(self.parameters)

    @property
    def realizability(self) -> Realizability:
        """Whether some rigid body can have these parameters, and why not."""
        return _inertia.realizability(self.parameters)

    def __repr__(self) -> str:
        return f"Link({self.name!r}, mass={self.mass:.6g})"
