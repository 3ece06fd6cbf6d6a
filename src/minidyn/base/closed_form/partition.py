"""The set of the inertia matrix and the set of the gravity load, and how the one is made of the
other: P1 and P2.

Torques are those of the inertia matrix (with what follows from it) and those of gravity. Each has a
set of minimal linear combinations of its own, and they share some. What the first set has beyond
the second, with the second set, determines all torques.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from minidyn.arrays import Array, frozen
from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.numeric.row_space import without_units
from minidyn.base.numeric.samples import units_of
from minidyn.base.printing.relations import RelationTerm, sum_text
from minidyn.display import DisplayTable
from minidyn.errors import MinidynError
from minidyn.model.geometry import TOLERANCE
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from pandas import DataFrame

_SMALL = 1e-9  # share of a combination, in the robot's own units, that is rounding


@dataclass(frozen=True, eq=False)
class Partition:
    """The set w_I of the inertia matrix, the set w_S of gravity, and w_I = [rest; 0] + [P1; P2]
    w_S.

    Attributes:
        inertia: The set w_I, as a base map; rotor inertia takes part.
        gravity: The set w_S, as a base map.
        first: Indices of the elements of w_I that have a part of their own (m,): those of P1.
        second: Indices of the elements of w_I that are made of w_S alone: those of P2.
        rest: Their own parts (m, p), as combinations of the standard parameters. With w_S they
            determine all torques but friction, and no element is superfluous.
        rest_names: Names or formulas of the own parts, in constants of composite bodies.
        P1: Constant matrix (m, number of w_S).
        P2: Constant matrix (number of w_I - m, number of w_S).
    """

    inertia: BaseMap
    gravity: BaseMap
    first: tuple[int, ...]
    second: tuple[int, ...]
    rest: Array
    rest_names: tuple[str, ...]
    P1: Array
    P2: Array

    def to_pandas(self) -> DataFrame:
        """Return the elements of w_I as a pandas frame: name, own part, part of gravity's set."""
        return self.table.to_pandas()

    @property
    def table(self) -> DisplayTable:
        """The elements of w_I: name, own part, part of gravity's set."""
        shares = [*self.P1, *self.P2]
        own = [*self.rest_names, *("" for _ in self.second)]
        names = [self.inertia.names[k] for k in (*self.first, *self.second)]
        made = [_formula(self.gravity.names, row) for row in shares]
        return DisplayTable(
            repr(self), {"of the inertia matrix": names, "own part": own, "of gravity's set": made}
        )

    def _repr_html_(self) -> str:
        return self.table.to_html()

    def __repr__(self) -> str:
        return (
            f"Partition({self.inertia.robot.name!r}: {self.inertia.rank} of the inertia matrix, "
            f"{self.gravity.rank} of gravity, {len(self.second)} of the first are made of the "
            "second)"
        )


def inertia_and_gravity(
    robot: Robot, version: str = "1999", tolerance: float = TOLERANCE
) -> Partition:
    """Return the sets of the inertia matrix and of gravity, and the constant matrices P1, P2
    between them.

    Args:
        robot: A chain or tree of rotational and translational joints.
        version: Of the inertia constants, as in `inertia_constants`.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Raises:
        Unsupported: Loops, joints that follow others, coupled drives.

    Implements: Lin1994 eq. (9), Theorem 2, Theorem 3.
    Differs: The own parts are elements of the set of torques (Theorem 5) that complete the set of
    gravity.
    """
    inertia, gravity = (
        mlc_base(robot, version, for_, tolerance) for for_ in ("inertia", "gravity")
    )
    torque = mlc_base(robot, version, "torque", tolerance)
    units = units_of(robot).parameters
    own = _completing(torque.matrix, gravity.matrix, units)
    rows = np.concatenate([torque.matrix[own], gravity.matrix])
    shares = _shares(inertia.matrix, rows, units)
    mine, common = shares[:, : len(own)], shares[:, len(own) :]
    first = tuple(int(k) for k in np.flatnonzero(mine.any(axis=1)))
    second = tuple(int(k) for k in np.flatnonzero(~mine.any(axis=1)))
    names = [torque.names[k] for k in own]
    return Partition(
        inertia,
        gravity,
        first,
        second,
        frozen(mine[list(first)] @ torque.matrix[own]),
        tuple(_formula(names, mine[k]) for k in first),
        frozen(common[list(first)]),
        frozen(common[list(second)]),
    )


def _completing(rows: Array, given: Array, units: Array) -> list[int]:
    """Return which rows (m, p) complete the given ones to the space of all, early ones
    preferred.
    """
    basis: list[Array] = []

    def left_of(row: Array) -> Array:
        for _ in range(2):  # twice: rounding of the first time is taken out by the second
            for direction in basis:
                row = row - (row @ direction) * direction
        return row

    def grows(row: Array) -> bool:
        left = left_of(row)
        size = float(np.linalg.norm(left))
        if size <= _SMALL * float(np.linalg.norm(row)):
            return False
        basis.append(left / size)
        return True

    for row in without_units(given, units) if len(given) else given:
        grows(row)
    return [
        k for k, row in enumerate(without_units(rows, units) if len(rows) else rows) if grows(row)
    ]


def _shares(rows: Array, basis: Array, units: Array) -> Array:
    """Return X with rows = X basis, zeros exact, for independent rows of a basis."""
    if not len(rows) or not len(basis):
        return np.zeros((len(rows), len(basis)))
    scaled = without_units(basis, units)
    sizes = np.abs(basis * units).max(axis=1)
    wanted = rows * units
    found = np.linalg.lstsq(scaled.T, wanted.T, rcond=None)[0].T
    largest = np.abs(wanted).max(axis=1, keepdims=True)
    if (np.abs(found @ scaled - wanted) > _SMALL * largest).any():
        raise MinidynError("the set of torques does not span that of the inertia matrix")
    found = np.where(np.abs(found) > _SMALL * largest, found, 0.0) / sizes
    whole = np.round(found)
    return np.asarray(np.where(np.abs(found - whole) < 1e-12, whole, found))


def _formula(names: tuple[str, ...] | list[str], row: Array) -> str:
    return (
        sum_text([RelationTerm(names[k], float(row[k])) for k in np.flatnonzero(row)])
        if row.any()
        else ""
    )
