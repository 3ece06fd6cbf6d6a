"""Triangular factors that grow by rows, or by products of columns where that is as good.

A triangle R with Rᵀ R = Wᵀ W is what least squares needs of rows W. Householder reflections give it with an error of
rounding times the condition number κ of W. Products of columns, G = Wᵀ W, cost half the arithmetic and none of the
order of steps, but lose κ squared. They lose nothing worth naming where κ is small; and where it is not, the columns
are first divided by the triangle R₀ of a sample of like rows, after which they are nearly orthonormal:

    V = W R₀⁻¹,   R = chol(Vᵀ V) R₀.

Each time it is checked, after the fact, that what was factored is well conditioned; otherwise the rows themselves are
taken, by Householder. The error stays of the size of Householder's. (Cholesky-QR with a preconditioner; Yamamoto and
others, Roundoff error analysis of the CholeskyQR2 algorithm, 2015, analyse the repair.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

__all__ = ["Triangle", "metric_of", "triangle_of"]

Array = NDArray[np.float64]
_LOSS = 1e6
"""Largest sum of squares of the inverse of a factor with unit columns: rounding grows by no more, to 1e-10."""

_FLOOR = 1e-15  # of a column's length: less on the diagonal is rounding


class Triangle:
    """The triangular factor of rows (N, c) that come in pieces.

    Attributes:
        factor: (at most c, c), upper triangular.
    """

    def __init__(self, size: int) -> None:
        self.factor: Array = np.zeros((0, size))

    def add_rows(self, rows: Array) -> None:
        """Take rows (N, c) in by Householder reflections: always right."""
        self.factor = triangle_of(np.concatenate([self.factor, rows]))

    def add_products(self, products: Array, metric: Array | None) -> bool:
        """Take rows in by the products of their columns (c, c), divided by the metric; False: do it by rows.

        Nothing changes where the answer is False.
        """
        above = self.factor if metric is None else _divided(self.factor, metric)
        total = above.T @ above
        total += products
        squares = np.diagonal(total).copy()
        if not np.isfinite(squares.sum()):
            return False
        silent = squares == 0
        lengths = np.sqrt(np.where(silent, 1.0, squares))
        total /= lengths
        total /= lengths[:, None]
        total[silent, silent] = 1.0
        found, failed = lapack.dpotrf(total.T, lower=0, clean=1, overwrite_a=1)
        if failed:
            return False
        inverse, failed = lapack.dtrtri(found)
        if failed or not float(np.vdot(inverse, inverse)) <= _LOSS:
            return False
        made = found * lengths
        made[silent] = 0.0
        self.factor = made if metric is None else np.triu(made @ metric)
        return True


def metric_of(rows: Array) -> Array | None:
    """Return the triangle (c, c) that rows like these (N, c) are to be divided by before their products are taken.

    None: plain products are good enough.
    """
    size = rows.shape[1]
    factor = np.zeros((size, size))
    known = triangle_of(rows)
    factor[: len(known)] = known
    lengths = np.sqrt(np.einsum("ij,ij->j", factor, factor))
    lengths[lengths == 0] = 1.0
    diagonal = np.diagonal(factor).copy()
    floor = _FLOOR * lengths  # columns that depend on others leave rounding: divided by it they stay of order one
    np.fill_diagonal(factor, np.where(np.abs(diagonal) < floor, floor, diagonal))
    inverse, failed = lapack.dtrtri(factor / lengths)
    return None if not failed and float(np.vdot(inverse, inverse)) < 0.25 * _LOSS else factor


def triangle_of(rows: Array) -> Array:
    """Return the triangular factor of rows (N, c), with as many rows as columns where there are enough."""
    return np.asarray(np.linalg.qr(rows, mode="r"), dtype=float)


def _divided(rows: Array, factor: Array) -> Array:
    return np.asarray(solve_triangular(factor, rows.T, trans="T").T, dtype=float)
