"""Placements as products of elementary steps: turns about, and shifts along, one coordinate axis.

A constant placement is kept as the steps it was described by, not as sixteen numbers. So a right
angle stays exactly a right angle, a length keeps the symbol the robot's file gave it, and the same
steps can be evaluated in floating point, in an expression graph, with symbols, or in exact
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.errors import DescriptionError
from minidyn.model.parameters import shaped_array
from minidyn.notices import Notice, info

AXES = "xyz"
TOLERANCE = 1e-5
"""Axes that are special within this, rad and share of the robot's size, are meant to be so: what
rounding to six digits leaves.
"""
ROUGH_DIGITS = 5  # of angles such as 1.5707 or 3.14158
ROUGH_TOLERANCE = 1e-4  # rad: an angle of so few digits that is closer to a right angle is one
SILENT_TOLERANCE = 1e-9  # rad: closer than this is rounding and needs no notice
LENGTH_TOLERANCE = 1e-12  # m: shorter than this is zero
_RIGHT = math.pi / 2

SNAPPED_ANGLE = info(
    "robot.snapped_angle",
    "An angle within 1e-5 rad of a multiple of 90 degrees, or within 1e-4 rad where it has no more "
    "than five digits, is taken as exactly that.",
    "Write the angle with more digits, or in degrees, if the robot file is yours.",
)
SNAPPED_AXIS = info(
    "robot.snapped_axis", "An axis within 1e-5 rad of x, y or z is taken as exactly along it."
)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn or shift along one coordinate axis."""

    kind: str  # "rx", "ry" or "rz" (rad), "tx", "ty" or "tz" (m)
    value: float
    symbol: str = ""  # name the robot file gives the quantity, "" if it has none
    factor: float = 1.0  # value = factor * (value of the symbol); meaningless without a symbol

    @property
    def is_turn(self) -> bool:
        """Whether the step turns (and does not shift)."""
        return self.kind[0] == "r"

    @property
    def axis(self) -> int:
        """0, 1, 2 for x, y, z."""
        return AXES.index(self.kind[1])


Steps = tuple[Step, ...]


def cos_sin(angle: float) -> tuple[float, float]:
    """Return (cos, sin) of a constant angle, exact at multiples of a right angle."""
    quarter = angle / _RIGHT
    nearest = round(quarter)
    if abs(quarter - nearest) < 1e-12:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[nearest % 4]
    return math.cos(angle), math.sin(angle)


def is_right(angle: float) -> bool:
    """Return whether an angle is a multiple of a right angle."""
    quarter = angle / _RIGHT
    return abs(quarter - round(quarter)) < 1e-12


def snap_angle(angle: float, where: str, notices: list[Notice] | None = None) -> float:
    """Return the multiple of a right angle within 1e-5 rad of `angle`, or itself.

    An angle of at most five digits, such as 1.5707, may be off by 1e-4 rad. More than 1e-9 rad is
    reported. More digits are meant: snapping them would bend frames that are turned freely.
    """
    _require_finite(angle, where)
    nearest = round(angle / _RIGHT) * _RIGHT
    error = abs(angle - nearest)
    is_rough = round(angle, ROUGH_DIGITS) == angle
    if error >= (ROUGH_TOLERANCE if is_rough else TOLERANCE):
        return float(angle)
    if error > SILENT_TOLERANCE and notices is not None:
        degrees = round(math.degrees(nearest))
        text = (
            f"{where}: angle {angle:.9g} rad taken as exactly {degrees} degrees (off by "
            f"{error:.1e} rad)"
        )
        notices.append(SNAPPED_ANGLE(text, where=where, angle=float(angle), degrees=degrees))
    return nearest


def snap_length(length: float, where: str) -> float:
    """Return 0.0 for lengths below 1e-12 m, else the length."""
    _require_finite(length, where)
    return 0.0 if abs(length) < LENGTH_TOLERANCE else float(length)


def snapped_step(
    kind: str,
    value: float,
    where: str,
    notices: list[Notice] | None = None,
    symbol: str = "",
    factor: float = 1.0,
) -> Step:
    """Return a step whose angle or length is snapped.

    See :func:`snap_angle` and :func:`snap_length`.
    """
    snapped = snap_angle(value, where, notices) if kind[0] == "r" else snap_length(value, where)
    return Step(kind, snapped, symbol, factor)


def snap_axis(
    axis: ArrayLike, where: str, notices: list[Notice] | None = None
) -> NDArray[np.float64]:
    """Return the axis as a unit vector, exactly along ±x, ±y, ±z where it is within 1e-5 rad of
    one.
    """
    vector = shaped_array(axis, (3,), f"{where}, axis")
    norm = float(np.linalg.norm(vector))
    if norm < LENGTH_TOLERANCE:
        raise DescriptionError(
            f"{where}: the axis has length zero; give the direction the joint turns or slides along"
        )
    unit: NDArray[np.float64] = vector / norm
    main = int(np.argmax(np.abs(unit)))
    error = float(np.linalg.norm(np.delete(unit, main)))
    if error >= TOLERANCE:
        return unit
    snapped = np.zeros(3)
    snapped[main] = math.copysign(1.0, unit[main])
    if error > SILENT_TOLERANCE and notices is not None:
        text = (
            f"{where}: axis {_numbers(vector)} taken as exactly {_numbers(snapped)} (off by "
            f"{error:.1e} rad)"
        )
        notices.append(
            SNAPPED_AXIS(text, where=where, axis=vector.tolist(), taken=snapped.tolist())
        )
    return snapped


def tidy_steps(steps: Iterable[Step]) -> Steps:
    """Drop steps that do nothing (value 0 and no symbol)."""
    return tuple(step for step in steps if step.value != 0.0 or step.symbol)


def inverse_steps(steps: Sequence[Step]) -> Steps:
    """Return the steps of the inverse placement."""
    return tuple(
        Step(s.kind, 0.0 - s.value, s.symbol, -s.factor if s.symbol else 1.0)
        for s in reversed(steps)
    )


def matrix_of(steps: Iterable[Step]) -> NDArray[np.float64]:
    """Return the 4x4 homogeneous matrix of the steps, right angles exact."""
    T = np.eye(4)
    for step in steps:
        S = np.eye(4)
        if step.is_turn:
            c, s = cos_sin(step.value)
            i, j = (step.axis + 1) % 3, (step.axis + 2) % 3
            S[i, i] = S[j, j] = c
            S[i, j], S[j, i] = -s, s
        else:
            S[step.axis, 3] = step.value
        T = T @ S
    return T


def steps_from_rpy(
    xyz: ArrayLike, rpy: ArrayLike, where: str, notices: list[Notice] | None = None
) -> Steps:
    """Return the steps of a placement given as URDF gives it.

    Shift xyz, then Rz(yaw) Ry(pitch) Rx(roll).
    """
    shift, turn = np.asarray(xyz, dtype=float).tolist(), np.asarray(rpy, dtype=float).tolist()
    values = [("t" + AXES[i], shift[i]) for i in range(3)] + [
        ("r" + AXES[i], turn[i]) for i in (2, 1, 0)
    ]
    return tidy_steps(snapped_step(kind, value, where, notices) for kind, value in values)


def steps_from_matrix(T: ArrayLike, where: str, notices: list[Notice] | None = None) -> Steps:
    """Return steps (shift, then yaw, pitch, roll) of a homogeneous 4x4 matrix, which must be a
    rigid placement.
    """
    matrix = shaped_array(T, (4, 4), where)
    R = matrix[:3, :3]
    if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0:
        raise DescriptionError(f"{where}: the upper left 3x3 block is not a rotation matrix")
    if np.abs(matrix[3] - (0, 0, 0, 1)).max() > 1e-12:
        raise DescriptionError(
            f"{where}: the last row of a placement is 0 0 0 1, got {_numbers(matrix[3])}"
        )
    return steps_from_rpy(matrix[:3, 3], rpy_of(R), where, notices)


def rpy_of(R: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return (roll, pitch, yaw) with R = Rz(yaw) Ry(pitch) Rx(roll).

    roll = 0 where pitch is ±90 degrees.
    """
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if math.hypot(R[0, 0], R[1, 0]) < TOLERANCE:
        return 0.0, math.copysign(_RIGHT, -R[2, 0]), math.atan2(-R[0, 1], R[1, 1])
    return math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])


def align_z(axis: NDArray[np.float64]) -> Steps:
    """Return turns A with A e_z = axis: Rz(azimuth) Ry(inclination)."""
    azimuth = math.atan2(axis[1], axis[0])
    inclination = math.atan2(math.hypot(axis[0], axis[1]), axis[2])
    return tidy_steps((Step("rz", azimuth), Step("ry", inclination)))


def _require_finite(value: float, where: str) -> None:
    if not math.isfinite(value):
        raise DescriptionError(f"{where}: expected a finite number, got {value}")


def _numbers(values: NDArray[np.float64]) -> str:
    return " ".join(f"{value:.9g}" for value in values)
