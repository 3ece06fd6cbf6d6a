"""Least squares of several problems at once in which some unknowns may not be negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array

_ROUNDING = 1e-11  # rounding: of the longest column, a shorter one vanishes


def scaled(products: Array) -> tuple[Array, Array, Array]:
    """Return (A (f, k, k), b (f, k), scale (f, k)) of least squares with unit columns, a little
    regular.

    Products (f, k + 1, k + 1) are those of columns and, last, the right side. Columns that vanish
    are left out.
    """
    length = np.sqrt(np.maximum(np.einsum("fkk->fk", products)[:, :-1], 0.0))
    used = length > _ROUNDING * length.max(axis=1, initial=0.0)[:, None]
    scale = np.where(used, length, 1.0)
    b = products[:, :-1, -1] / scale * used
    A = (
        products[:, :-1, :-1]
        / (scale[:, :, None] * scale[:, None, :])
        * (used[:, :, None] & used[:, None, :])
    )
    places = np.arange(A.shape[1])
    A[:, places, places] += np.where(used, _ROUNDING, 1.0)
    return A, b, scale


def non_negative(A: Array, b: Array, bounded: NDArray[np.bool_]) -> Array:
    """Solve A x = b for several right sides (f, k).

    Each with its own A (f, k, k), bounded unknowns not negative. Block principal pivoting: unknowns
    that are negative leave, those whose gradient asks for it come back, all at once as long as
    their number falls, else one at a time, which cannot go round in circles.
    """
    count, size = b.shape
    x, active = np.zeros(b.shape), np.ones(b.shape, dtype=bool)
    fewest, patience = np.full(count, size + 1), np.full(count, 3)
    left = np.arange(count)
    places = np.arange(size)
    for _ in range(10 * size + 10):
        on = active[left]
        reduced = A[left] * (on[:, :, None] & on[:, None, :])
        reduced[:, places, places] += ~on
        x[left] = np.linalg.solve(reduced, (b[left] * on)[..., None])[..., 0]
        gradient = b[left] - (A[left] @ x[left][..., None])[..., 0]
        tolerance = 1e-10 * np.abs(b[left]).max(axis=1, initial=0.0)[:, None]
        wrong = bounded & np.where(on, x[left] < 0.0, gradient > tolerance)
        number = wrong.sum(axis=1)
        better = number < fewest[left]
        fewest[left] = np.where(better, number, fewest[left])
        patience[left] = np.where(better, 3, patience[left] - 1)
        for one in np.flatnonzero((patience[left] < 0) & (number > 0)):
            wrong[one, : np.flatnonzero(wrong[one])[-1]] = False
        active[left] ^= wrong
        left = left[number > 0]
        if not len(left):
            break
    return np.where(bounded, np.maximum(x, 0.0), x)
