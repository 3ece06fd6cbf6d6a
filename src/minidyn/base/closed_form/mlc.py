"""Minimal linear combinations in closed form: the identifiable set by rule, without numerics.

The rule reads the robot's geometry (see `structure`), takes the constants of composite bodies that
it names (see `combinations`), and gives them as a linear map from the robot's own standard
parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen, known_product
from minidyn.base.base_map import BaseMap, map_of_places
from minidyn.base.closed_form.combinations import Combination, combinations
from minidyn.base.closed_form.free_base import behind_free_base
from minidyn.base.closed_form.structure import FOR, Structure, structure_of
from minidyn.dynamics.mdh_chain import poses, stands
from minidyn.dynamics.papers.composite import (
    VERSIONS,
    Constants,
    inertia_constants_of,
    varying_parts,
)
from minidyn.errors import ShapeError, UnknownName, Unsupported
from minidyn.model.drives import POSITION_TERMS
from minidyn.model.geometry import TOLERANCE
from minidyn.model.joint import largest_length
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import Robot

_NOISE = 1e-12  # entries of the map without units that are smaller are rounding of zeros


@dataclass(frozen=True)
class InertiaConstants:
    """The constants of one composite body, about and in the frame of its joint.

    Attributes:
        mass: m̂, kg.
        k: Constant part of the first moment (3,), kg m.
        U: Constant part of the inertia (3, 3), kg m².
    """

    mass: float
    k: Array
    U: Array

    def __repr__(self) -> str:
        k = ", ".join(f"{component:.6g}" for component in self.k)
        return f"InertiaConstants(mass={self.mass:.6g}, k=({k}), U33={self.U[2, 2]:.6g})"


def inertia_constants(
    robot: Robot, version: str = "1999", tolerance: float = TOLERANCE
) -> tuple[InertiaConstants, ...]:
    """Return m̂, k and U of every composite body, NaN where a parameter that enters is unknown.

    Args:
        robot: A chain or tree of rotational and translational joints. Where its frames are not
            modified Denavit-Hartenberg, the constants are those in the frames that
            :func:`minidyn.model.mdh_frames.to_mdh` gives it.
        version: "1999" (LinFang1999), or "1992" (Lin1992, Lin1994), which pass U33 of a rotational
            child on.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Raises:
        Unsupported: Loops, or joints that follow others.

    Implements: Lin1992 eq. (18)-(28), Lin1994 eq. (21), (23), (25), LinFang1999 eq. (C1)-(C3).
    """
    changed, T = to_mdh(robot, "inertia_constants", tolerance)
    ten = [list(np.eye(len(changed.layout))[part]) for part in changed.layout.links]
    found = []
    for c in inertia_constants_of(stands(changed), ten, version):
        XX, XY, XZ, YY, YZ, ZZ, kx, ky, kz, mass = known_product(
            np.array([*c.U, *c.k, c.mass]) @ T, robot.parameters
        )
        U = frozen([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]])
        found.append(InertiaConstants(float(mass), frozen([kx, ky, kz]), U))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class CompositeBody:
    """A composite body at one configuration or a batch (...).

    Link i with all it carries, about and in frame i.

    Attributes:
        constants: m̂, k and U.
        l: Varying part of the first moment (..., 3), kg m.
        V: Varying part of the inertia (..., 3, 3), kg m².
    """

    constants: InertiaConstants
    l: Array  # noqa: E741 (the papers' letter)
    V: Array

    @property
    def mass(self) -> float:
        """m̂, kg."""
        return self.constants.mass

    @property
    def c(self) -> Array:
        """First moment ĉ = k + l (..., 3), kg m."""
        return np.asarray(self.constants.k + self.l)

    @property
    def J(self) -> Array:
        """Inertia Ĵ = U + V about the frame's origin (..., 3, 3), kg m²."""
        return np.asarray(self.constants.U + self.V)


def composite_bodies_at(
    robot: Robot, q: ArrayLike, version: str = "1999", tolerance: float = TOLERANCE
) -> tuple[CompositeBody, ...]:
    """Return m̂, ĉ = k + l and Ĵ = U + V of every composite body at positions q, NaN where a
    parameter is unknown.

    Args:
        robot: A chain or tree of rotational and translational joints. Where its frames are not
            modified Denavit-Hartenberg, the bodies are those in the frames that
            :func:`minidyn.model.mdh_frames.to_mdh` gives it.
        q: Positions (..., n).
        version: Of the split into constant and varying parts: "1999" (LinFang1999), or "1992"
            (Lin1992, Lin1994). ĉ and Ĵ do not depend on it.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Raises:
        Unsupported: Loops, or joints that follow others.
        ShapeError: q does not have n columns.

    Implements: Lin1994 eq. (16), (18), (22), (24), (26), LinFang1999 eq. (3)-(5), (24)-(26),
    (34)-(35).
    """
    constants = inertia_constants(robot, version, tolerance)
    place = np.asarray(q, dtype=float)
    if place.ndim == 0 or place.shape[-1] != robot.n:
        raise ShapeError(f"q: expected shape (..., {robot.n}), got {place.shape}")
    changed, _ = to_mdh(robot, "composite_bodies_at", tolerance)
    own = [Constants(each.mass, each.k.tolist(), each.U[_UPPER].tolist()) for each in constants]
    varying = varying_parts(
        stands(changed), poses(changed, list(np.moveaxis(place, -1, 0))), own, version
    )
    found = []
    for body, parts in zip(constants, varying):
        l = np.stack([np.broadcast_to(value, place.shape[:-1]) for value in parts.l], axis=-1)  # noqa: E741
        six = [np.broadcast_to(value, place.shape[:-1]) for value in parts.V]
        V = np.stack([six[k] for k in (0, 1, 2, 1, 3, 4, 2, 4, 5)], axis=-1).reshape(
            *place.shape[:-1], 3, 3
        )
        found.append(CompositeBody(body, frozen(l), frozen(V)))
    return tuple(found)


_UPPER = np.triu_indices(3)


def mlc_base(
    robot: Robot, version: str = "1999", for_: str = "torque", tolerance: float = TOLERANCE
) -> BaseMap:
    """Return a set of minimal linear combinations of the standard parameters, found by rule.

    Axes that are special within the tolerance are exactly so (see `minidyn.model.canonical`).

    Base parameters are constants of composite bodies: U33_1 (inertia about the axis), U11_22_4,
    U12_4, U13_4, U23_4, k2x, k2y (first moments), m3 (mass that a translational joint moves),
    kappa1_3, kappa2_3 (first moments of a translational joint between r and s), and drive terms.
    U13h_3, U23h_3 are taken about the point where all axes meet, where nothing else can be known.
    `structure` of the result says why. Sets of both versions determine each other.

    A free base moves every link every way: r, s, δ and σ have nothing to decide, and the set is
    that of :func:`minidyn.base.closed_form.free_base.behind_free_base`.

    Implements: Lin1994 Theorem 4, Theorem 5, LinFang1999 Theorem 1.
    Differs: Corrected as in ERRATA A; trees, any frames, rotor inertia and friction.
    """
    for kind, value, known in (("version", version, VERSIONS), ("for_", for_, FOR)):
        if value not in known:
            raise UnknownName(kind, value, known)
    for joint in robot.joints:
        if joint.drive.coupling and joint.drive.columns:
            raise Unsupported(
                f"minimal linear combinations: the drive of joint {joint.name!r} of robot "
                f"{robot.name!r} is coupled to "
                'other joints; the closed-form rule knows single drives only: use method="exact"'
            )
        # such terms may share their columns with gravity, or have none
        position = [
            term for term in joint.drive.friction if term in POSITION_TERMS and for_ == "torque"
        ]
        if position:
            raise Unsupported(
                f"minimal linear combinations: the drive term {position[0]!r} of joint "
                f"{joint.name!r} of robot {robot.name!r} depends on the position; the closed-form "
                "rule knows terms of the speed only: "
                'use method="exact"'
            )
    moving = [index for index, joint in enumerate(robot.joints) if joint.kind != "fixed"]
    structure: Structure | None = None
    if robot.free_base:
        T = np.eye(len(robot.layout))
        found = behind_free_base(robot, for_)
    else:
        changed, T = to_mdh(robot, "minimal linear combinations", tolerance)
        structure = structure_of(changed, for_, [index + 1 for index in moving], version)
        found = combinations(changed, structure, list(np.eye(len(changed.layout))))
    rows = (
        np.array([combination.value for combination in found]).reshape(len(found), T.shape[0]) @ T
    )
    units = _units(found, robot)
    inertial = np.array([column.is_inertial for column in robot.layout.columns])
    # what is rounding becomes exact zero; compared without units, so that the length scale plays no
    # part
    rows = np.where(inertial & (np.abs(rows) * units[1] < _NOISE * units[0]), 0.0, rows)
    kept = _kept(rows, units, found, robot, moving)
    regrouped = [int(k) for k in np.flatnonzero(rows.any(axis=0)) if k not in kept]
    K = _regrouping(rows[:, kept], rows[:, regrouped])
    labels = tuple(combination.name for combination in found)
    return map_of_places(
        robot,
        "mlc",
        for_,
        kept,
        regrouped,
        K,
        rows=rows,
        labels=labels,
        structure=structure,
        tolerance=tolerance,
    )


def _units(found: list[Combination], robot: Robot) -> tuple[Array, Array]:
    """Powers of the robot's own length.

    Units of the combinations (b, 1) and of the standard parameters (p,).
    """
    size = largest_length(robot.joints)
    columns = np.ones(len(robot.layout))
    for part in robot.layout.links:
        columns[part] = [size**2] * 6 + [size] * 3 + [1.0]
    rows = np.array([size ** max(combination.unit, 0) for combination in found]).reshape(-1, 1)
    return rows, columns


def _kept(
    rows: Array,
    units: tuple[Array, Array],
    found: list[Combination],
    robot: Robot,
    moving: list[int],
) -> list[int]:
    """Choose the standard parameters that lead the set.

    Of each joint's link, as many as it has combinations. A combination reads its own link and those
    further out, so the choice is made link by link and is always regular. In modified
    Denavit-Hartenberg frames it is the one the numeric methods make.
    """
    layout = robot.layout
    kept: list[int] = []
    for index, link in enumerate(moving):
        own = [k for k, combination in enumerate(found) if combination.joint == index]
        inertial = [k for k in own if found[k].unit >= 0]
        for k in own:
            if found[k].unit < 0:
                symbol = found[k].leaders[0]
                kept.append(
                    next(column.index for column in layout.drives[link] if column.symbol == symbol)
                )
        start = layout.links[link].start
        natural = [start + STANDARD.index(found[k].leaders[0]) for k in inertial]
        block = rows[inertial]
        if len(set(natural)) == len(natural) and np.array_equal(
            block[:, natural], np.eye(len(natural))
        ):
            kept += natural
            continue
        block = block * units[1] / units[0][inertial]
        kept += _pivots(block, [start + STANDARD.index(s) for s in _ORDER])
    return sorted(kept)


_ORDER = ("ZZ", "XX", "XY", "XZ", "YZ", "MX", "MY", "M", "MZ", "YY")


def _pivots(block: Array, order: list[int]) -> list[int]:
    """Columns of a block of full row rank that make it regular.

    The largest by elimination, early ones preferred.
    """
    left = block[:, order].copy()
    chosen = []
    for _ in range(len(block)):
        sizes = np.abs(left)
        best = sizes.max()
        row, column = min(
            ((int(i), int(j)) for i, j in np.argwhere(sizes > 0.5 * best)),
            key=lambda pair: (pair[1], pair[0]),
        )
        chosen.append(order[column])
        left = left - np.outer(left[:, column] / left[row, column], left[row])
        left[row] = 0.0
        left[:, column] = 0.0
    return chosen


def _regrouping(mixing: Array, rest: Array) -> Array:
    """K = mixing⁻¹ rest, zeros exact: an entry below its own rounding is zero."""
    if not mixing.size:
        return np.zeros((len(mixing), rest.shape[1]))
    inverse = np.linalg.inv(mixing)
    K: Array = inverse @ rest
    K[np.abs(K) < _NOISE * (np.abs(inverse) @ np.abs(rest))] = 0.0
    return K
