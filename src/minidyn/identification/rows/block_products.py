"""Products of columns, for each joint and block of time: small fits that hold blocks out.

Products of all columns that a question needs are summed once. An answer is a view of them: which
columns, or which combinations, its model has. Its fit, the noise of each joint and its errors on
blocks of time that were held out then need the products alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.identification.data import BLOCKS
from minidyn.identification.score import log_density

RIDGE = 1e-7  # rounding: of each column's square, for columns that no block shows
_ROUNDS = 3  # size: in which weights and noise agree


class View(NamedTuple):
    """A model among all columns.

    Attributes:
        reduced: Makes products (..., k + 1, k + 1) of the model's columns and the torque from those
            of all columns (..., c, c).
        whole: Makes factors (c,) of all columns, -1 for the torque, from the model's values (k,).
    """

    reduced: Callable[[Array], Array]
    whole: Callable[[Array], Array]


@dataclass(frozen=True)
class BlockProducts:
    """Products of columns and the torque, which is the last column.

    Attributes:
        size: Number of columns c, the torque among them.
        seen: For each joint, the columns that its torque sees, the last one among them.
        products: For each joint those of its columns, block by block (blocks, s, s).
        samples: Number of samples in each block (blocks,).
    """

    size: int
    seen: tuple[NDArray[np.intp], ...]
    products: tuple[Array, ...]
    samples: Array

    @classmethod
    def of(cls, joints: Iterable[Array]) -> BlockProducts:
        """Sum the products of rows (N, c) of each joint, the torque last."""
        seen, products, edges, size = [], [], np.zeros(BLOCKS + 1, dtype=int), 0
        for rows in joints:
            size, edges = rows.shape[1], np.linspace(0, len(rows), BLOCKS + 1).astype(int)
            own = np.flatnonzero(np.append(rows[:, :-1].any(axis=0), True))
            blocks = [np.ascontiguousarray(rows[a:b, own]) for a, b in pairwise(edges)]
            seen.append(own)
            products.append(np.stack([block.T @ block for block in blocks]))
        return cls(size, tuple(seen), tuple(products), np.diff(edges).astype(float))

    def fitted(self, view: View, noise: Array | None = None) -> tuple[Array, Array]:
        """Return (values (k,), noise of each joint (n,)), weights and noise in agreement."""
        noise, values = self.sizes if noise is None else noise, np.zeros(0)
        for _ in range(_ROUNDS):
            values = solved(view.reduced(self.weighted(noise)))[0]
            left = self._squares(self._sums, view.whole(values))
            noise = np.maximum(np.sqrt(left / self.samples.sum()), 1e-6 * self.sizes)
        return values, noise

    def densities(self, view: View, noise: Array) -> Array:
        """Return the mean log density of a sample in each block that was held out (blocks,)."""
        values = solved(view.reduced(self.without_each(noise)))[0]
        squares = [
            self._squares([part[block] for part in self.products], view.whole(own))
            for block, own in enumerate(values)
        ]
        return log_density(np.array(squares), self.samples, noise)

    def weighted(self, noise: Array) -> Array:
        """Return the products (c, c) of all joints and blocks, joints in units of their noise."""
        return self._weighted(self._sums, noise)

    def without_each(self, noise: Array) -> Array:
        """Return the same without each block in turn (blocks, c, c)."""
        return self._weighted([part.sum(axis=0) - part for part in self.products], noise)

    @cached_property
    def sizes(self) -> Array:
        """Root mean square of each joint's torque (n,), 1 where it is zero."""
        sizes = np.sqrt([part[-1, -1] / self.samples.sum() for part in self._sums])
        return np.where(sizes > 0.0, sizes, 1.0)

    @cached_property
    def _sums(self) -> list[Array]:
        """Products over all blocks, for each joint (s, s)."""
        return [part.sum(axis=0) for part in self.products]

    def _weighted(self, parts: Sequence[Array], noise: Array) -> Array:
        W = np.zeros((*parts[0].shape[:-2], self.size, self.size))
        for own, part, std in zip(self.seen, parts, noise):
            W[..., own[:, None], own] += part / std**2
        return W

    def _squares(self, parts: Sequence[Array], whole: Array) -> Array:
        """Return the squares that factors of all columns leave of each joint's torque (n,)."""
        left = [float(whole[own] @ part @ whole[own]) for own, part in zip(self.seen, parts)]
        return np.maximum(left, 0.0)


def solved(products: Array) -> tuple[Array, Array]:
    """Return (values (..., k), squares that are left (...)) of products, the torque last."""
    squares = np.diagonal(products, axis1=-2, axis2=-1)[..., :-1]
    scale = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    A = products[..., :-1, :-1] / (scale[..., None] * scale[..., None, :])
    A[..., range(A.shape[-1]), range(A.shape[-1])] += RIDGE
    right = products[..., :-1, -1] / scale
    values = np.linalg.solve(A, right[..., None])[..., 0]
    return values / scale, products[..., -1, -1] - np.sum(right * values, axis=-1)


def chosen_columns(places: NDArray[np.intp], size: int) -> View:
    """Return the model that has some of the columns, c of them the torque included."""
    own = np.append(places, size - 1)

    def whole(values: Array) -> Array:
        factors = np.zeros(size)
        factors[places], factors[-1] = values, -1.0
        return factors

    return View(lambda products: products[..., own[:, None], own], whole)
