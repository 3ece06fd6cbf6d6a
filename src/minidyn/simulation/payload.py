"""A load on a robot: given to a simulation, or found by `identify_payload` with its uncertainty."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.codegen.consumers.tool import write_tool
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import (
    STANDARD,
    Realizability,
    realizability,
    ten_parameters,
    to_body,
    transform,
)
from minidyn.model.robot import Robot
from minidyn.notices import Notice


@dataclass(frozen=True, eq=False)
class Payload:
    """A rigid load: ten inertial parameters in the load's frame, which is fixed to a link.

    Attributes:
        time: When it is picked up, s; 0: it is there from the start.
        parameters: Ten values XX ... M in the load's frame, or a dict mass, com, inertia as for
            `robot.with_load`.
        placement: The load's frame on the link or frame that carries it (4, 4); None: that frame
            itself.
        link: Link or frame that carries it; None: the last link.
        covariance: Of the ten parameters (10, 10); None where the load was given, not identified.
        notices: What a reader of an identified load should know.
        settings: How it was found, for records.
    """

    time: float
    parameters: ArrayLike | Mapping[str, Any]
    placement: ArrayLike | None = None
    link: str | None = None
    covariance: Array | None = None
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ten(self) -> Array:
        """The ten parameters XX XY XZ YY YZ ZZ MX MY MZ M (10,) in the load's frame."""
        return ten_parameters(self.parameters, "load 'payload'")

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.ten[9])

    @property
    def com(self) -> Array:
        """Centre of mass in the load's frame (3,), m."""
        return to_body(self.ten)[1]

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, axes of the load's frame (3, 3), kg m²."""
        return to_body(self.ten)[2]

    @property
    def realizable(self) -> bool:
        """Whether a body can have these parameters."""
        return bool(self.realizability.realizable)

    @property
    def realizability(self) -> Realizability:
        """Whether a body can have these parameters, and why not."""
        return realizability(self.ten)

    @property
    def std(self) -> dict[str, Any] | None:
        """Standard deviations {"mass": kg, "com": (3,) m, "inertia": (3, 3) kg m²}.

        None where the load was given. To first order in the errors of the ten parameters, as data
        alone give them: where they are large, the value follows the prior that bodies are compact.
        """
        if self.covariance is None:
            return None
        com, inertia = _derivatives(self.ten)
        spread_com, spread_inertia = (
            np.einsum("...a,ab,...b->...", J, self.covariance, J) for J in (com, inertia)
        )
        return {
            "mass": float(np.sqrt(self.covariance[9, 9])),
            "com": np.sqrt(spread_com),
            "inertia": np.sqrt(spread_inertia),
        }

    def on(self, robot: Robot) -> Robot:
        """Return the robot with the load as part of the link that carries it."""
        checked = robot.with_load(
            self.placement, self.ten, self.link
        )  # which finds the link and checks the rest
        carrier = checked.joints[-1]
        values = robot.parameters.copy()
        values[robot.layout.links[carrier.parent]] += transform(self.ten, matrix_of(carrier.before))
        return robot.with_parameters(values)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the load for a robot's controller, in the frame that carries it, which is to be the
        flange.

        Args:
            path: .json: Franka's endeffector-config.json; .script: a payload script of Universal
                Robots.
        """
        ten = (
            self.ten
            if self.placement is None
            else transform(self.ten, np.asarray(self.placement, dtype=float))
        )
        write_tool(Path(path), ten)

    def table(self) -> str:
        """Return a Markdown table of mass, centre and inertia with their standard deviations."""
        rows = [("mass", "kg", self.mass)]
        rows += [(f"com {axis}", "m", float(value)) for axis, value in zip("xyz", self.com)]
        places = [(i, j) for i in range(3) for j in range(i, 3)]
        rows += [
            (f"inertia {'xyz'[i]}{'xyz'[j]}", "kg m²", float(self.inertia[i, j])) for i, j in places
        ]
        std = self.std
        spread = (
            [np.nan] * 10
            if std is None
            else [std["mass"], *std["com"], *(std["inertia"][p] for p in places)]
        )
        lines = ["| quantity | value | std | unit |", "|---|---:|---:|---|"]
        for (name, unit, value), deviation in zip(rows, spread):
            lines.append(
                f"| {name} | {value:.6g} | {'-' if np.isnan(deviation) else f'{deviation:.3g}'} | "
                f"{unit} |"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        std = self.std
        spread = "" if std is None else f" ± {std['mass']:.2g}"
        place = " ".join(f"{value:.4g}" for value in self.com)
        return f"Payload(mass {self.mass:.4g}{spread} kg, com [{place}] m)"


def _derivatives(ten: Array) -> tuple[Array, Array]:
    """Return the derivatives of com (3, 10) and of the inertia about it (3, 3, 10) by the ten
    parameters.
    """
    mass = ten[9] if ten[9] != 0 else np.nan
    s, one = ten[6:9], np.eye(3)
    com = np.zeros((3, 10))
    com[:, 6:9] = one / mass
    com[:, 9] = -s / mass**2
    inertia = np.zeros((3, 3, 10))
    for place, symbol in enumerate(STANDARD[:6]):
        i, j = ("XYZ".index(letter) for letter in symbol)
        inertia[i, j, place] = inertia[j, i, place] = 1.0
    for k in range(3):  # I about com = I about origin - (s·s 1 - s sᵀ) / m
        inertia[:, :, 6 + k] = -(2 * s[k] * one - np.outer(one[k], s) - np.outer(s, one[k])) / mass
    inertia[:, :, 9] = (s @ s * one - np.outer(s, s)) / mass**2
    return com, inertia
