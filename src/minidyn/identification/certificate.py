"""Proof that a model is physically possible: the numbers that must be positive, each named."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.base.samples import random_states, units_of
from minidyn.dynamics.functions import inertia_matrix
from minidyn.errors import ShapeError, UnknownParameters
from minidyn.model.inertia import to_pseudo_inertia
from minidyn.model.robot import Robot

__all__ = ["Certificate", "certify", "is_consistent"]

Array = NDArray[np.float64]

_SAMPLES = 100
_SIGNED = "Fo"  # the one drive term that may have either sign


@dataclass(frozen=True, eq=False)
class Certificate:
    """What shows that a model can exist; all figures are free of units.

    Attributes:
        links: Names of the links.
        eigenvalues: Smallest eigenvalue of each link's pseudo-inertia (links,), lengths measured by the body's own
            radius of gyration and masses by its own: 1/3 for a ball, 0 for a sheet or rod, negative for no body.
        drives: Names of the rotor inertias and friction terms that cannot be negative.
        drive_values: Their values, SI units.
        inertia_matrix: Smallest eigenvalue of the inertia matrix with rotors, scaled to a unit diagonal, over sampled
            positions in the joint range; 0 where a joint moves no mass.
    """

    links: tuple[str, ...]
    eigenvalues: Array
    drives: tuple[str, ...]
    drive_values: Array
    inertia_matrix: float

    @property
    def consistent(self) -> bool:
        """Every link strictly possible, no drive term negative, inertia matrix positive definite."""
        return bool(np.all(self.eigenvalues > 0) and np.all(self.drive_values >= 0) and self.inertia_matrix > 0)

    @property
    def smallest(self) -> float:
        """The smallest of the links' eigenvalues."""
        return float(self.eigenvalues.min())

    def reasons(self) -> tuple[str, ...]:
        """Return in words what is not possible; empty where all is."""
        found = [
            f"link {name!r}: smallest eigenvalue {value:.3g}"
            for name, value in zip(self.links, self.eigenvalues)
            if not value > 0
        ]
        found += [f"{name} = {value:.3g} < 0" for name, value in zip(self.drives, self.drive_values) if not value >= 0]
        if not self.inertia_matrix > 0:
            found.append(f"inertia matrix: smallest scaled eigenvalue {self.inertia_matrix:.3g}")
        return tuple(found)

    def __repr__(self) -> str:
        word = "possible" if self.consistent else "impossible"
        return f"Certificate({word}: links >= {self.smallest:.3g}, inertia matrix >= {self.inertia_matrix:.3g})"


def certify(robot: Robot, phi: ArrayLike | None = None, samples: int = _SAMPLES) -> Certificate:
    """Return the certificate of standard parameters (p,); None: the robot's own.

    Raises:
        UnknownParameters: A parameter is NaN.
    """
    values = robot.values if phi is None else np.asarray(phi, dtype=float)
    layout = robot.layout
    if values.shape != (len(layout),):
        raise ShapeError(f"parameters: expected shape ({len(layout)},), got {values.shape}")
    unknown = [name for name, value in zip(layout.names, values) if not np.isfinite(value)]
    if unknown:
        shown = ", ".join(unknown[:8]) + (" ..." if len(unknown) > 8 else "")
        raise UnknownParameters(f"no certificate for robot {robot.name!r}: unknown parameters {shown}")
    eigenvalues = np.array([_smallest(values[part]) for part in layout.links])
    drives = [column for columns in layout.drives for column in columns if column.symbol != _SIGNED]
    drive_values = values[[column.index for column in drives]]
    for array in (eigenvalues, drive_values):
        array.setflags(write=False)
    return Certificate(
        robot.link_names,
        eigenvalues,
        tuple(column.name for column in drives),
        drive_values,
        _inertia_matrix(robot, values, samples),
    )


def is_consistent(robot: Robot) -> bool:
    """Say whether a robot's own parameters are known and physically possible."""
    return bool(np.isfinite(robot.values).all()) and certify(robot).consistent


def _smallest(phi: Array) -> float:
    """Return the smallest eigenvalue about the centre of mass, or about the origin where there is no such centre."""
    P = to_pseudo_inertia(phi)
    mass = P[3, 3]
    if mass > 0:
        about_com = P[:3, :3] - np.outer(P[:3, 3], P[:3, 3]) / mass
        size = float(np.trace(about_com))
        moments = np.linalg.eigvalsh(about_com)
        # a trace that is not positive gives no scale: only the sign matters then
        return float(moments[0] / size) if size > 0 else min(-1.0, float(moments[0]))
    return -1.0 if np.any(P) else 0.0


def _inertia_matrix(robot: Robot, phi: Array, samples: int) -> float:
    M = inertia_matrix(robot, _positions(robot, samples), phi)
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    if np.any(diagonal <= 0):
        return min(-1.0, float(diagonal.min())) if np.any(diagonal < 0) else 0.0
    root = np.sqrt(diagonal)
    return float(np.linalg.eigvalsh(M / (root[:, :, None] * root[:, None, :]))[:, 0].min())


def _positions(robot: Robot, samples: int) -> Array:
    """Return positions (samples, n) over the joint limits; where there are none over a full turn or ±2 lengths."""
    rng = np.random.default_rng(0)
    units = units_of(robot)
    q = random_states(robot, units, samples, rng).q
    if robot.implicit_loops or robot.formulas:
        return q
    for place, index in enumerate(robot.independent):
        limits = robot.joints[index].limits
        if math.isfinite(limits.lower) and math.isfinite(limits.upper):
            q[:, place] = rng.uniform(limits.lower, limits.upper, size=samples)
    return q
