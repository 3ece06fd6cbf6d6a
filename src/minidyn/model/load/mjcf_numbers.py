"""Numbers as MJCF takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["numbers_text", "quaternion_of"]

Array = NDArray[np.float64]


def quaternion_of(R: Array) -> Array:
    """Return the unit quaternion (w, x, y, z) of a rotation matrix: the best conditioned of four formulas."""
    squares = np.array([1 + R[0, 0] + R[1, 1] + R[2, 2], *(1 + 2 * R[k, k] - np.trace(R) for k in range(3))])
    first = int(np.argmax(squares))
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    rows = ((squares[0], x, y, z), (x, squares[1], xy, xz), (y, xy, squares[2], yz), (z, xz, yz, squares[3]))
    quaternion = np.array(rows[first])
    return np.asarray(quaternion / np.linalg.norm(quaternion), dtype=float)


def numbers_text(values: ArrayLike) -> str:
    """Return numbers so that reading them gives the same value."""
    return " ".join(_number(float(value)) for value in np.asarray(values, dtype=float))


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
