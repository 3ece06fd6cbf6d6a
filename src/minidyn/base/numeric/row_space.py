"""From a matrix whose rows span the base parameters to a choice of standard parameters that lead
them.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from minidyn.arrays import Array
from minidyn.base.numeric.rank import SHORTEST, independent_columns

ROUNDING = 64 * float(np.finfo(float).eps)
_ZERO = 1e-12  # shares of a column that are rounding
_COUNT = 1e-10  # smallest share that counts where only some parameters are asked about


def leaders(rows: Array, units: Array, whole: bool) -> tuple[list[int], bool]:
    """Return columns of the rule's map that make it up.

    Each independent of those before, and whether that is clear. Rows are the columns (b0, c) that
    were asked about, the most wanted first; where that is the `whole` map, as many are independent
    as it has rows. Units make lengths in millimetres give the same answer.
    """
    if not rows.size:
        return [], True
    scaled = without_units(rows, units)
    count = len(rows) if whole else int(np.linalg.matrix_rank(scaled, tol=_COUNT))
    lengths = np.linalg.norm(scaled, axis=0)
    sizes = np.maximum(lengths, SHORTEST * lengths.max()) + np.finfo(float).tiny
    return independent_columns(scaled / sizes, count, _ZERO, sizes)


def in_leaders(rows: Array, left: list[int], units: Array, rounding: float = ROUNDING) -> Array:
    """Return the map (b0', c) with the leaders' columns as unit vectors, zeros exact.

    Entries below `rounding` of the terms they are the sum of are zero.
    """
    if not rows.size:
        return rows
    scaled = without_units(rows, units)
    first = scaled[:, left]
    inverse = np.linalg.pinv(first)
    back = units[left][:, None] / units
    found = inverse @ scaled * back
    if len(left) == len(rows):  # unscaled, so that simple entries stay exact
        with suppress(np.linalg.LinAlgError):  # leaders that are hardly independent
            found = np.linalg.inv(rows[:, left]) @ rows
    # rounding of the solution, and of entries of the map itself, which are of size one
    terms = np.abs(inverse) @ (
        np.abs(first) @ np.abs(inverse) @ np.abs(scaled) + np.abs(scaled).max(axis=0)
    )
    found = np.where(np.abs(found / back) <= rounding * terms, 0.0, found)
    found[:, left] = np.eye(len(left))
    return np.asarray(found)


def without_units(rows: Array, units: Array) -> Array:
    """Return rows in the robot's own units, the largest entry of each 1."""
    scaled = rows * units
    size = np.abs(scaled).max(axis=1, keepdims=True)
    return np.asarray(scaled / np.where(size > 0.0, size, 1.0))
