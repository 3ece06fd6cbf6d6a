"""One linear-Gaussian problem with unknowns in named blocks.

Rows say A x = y + e with errors e of variance one: they are divided by their noise. What is known
of a block beforehand, and what pulls one block to another, are rows, too: (x_a - T x_b - mean) /
spread = e. A group of rows (a log, a robot, a day) may have unknowns u of its own, which no other
rows have. Least squares of its rows [U | A | y] gives u = a + B x, and leaves rows of x alone, so
that a thousand groups take a thousand small factorizations.

With R the triangle of all these rows, x = R⁺ z, and scores s = Aᵀ e move x by P s, P = R⁺ R⁺ᵀ. So

    cov x = Σ_g P S_g S_gᵀ P

with S_g a root of the covariance of the scores of group g: Aᵀ where errors are independent (then
cov x = P), and where they are not, sums of scores over blocks of time, or Aᵀ E with E a root of the
covariance of the errors. Directions that no row shows are zero in x and have infinite variance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from minidyn.arrays import Array, left_open, of_roots
from minidyn.identification.estimators.non_negative import non_negative, scaled
from minidyn.identification.estimators.solve import pseudo_inverse
from minidyn.identification.rows.triangles import parts_of, square, triangle_of


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in units of their noise: columns (r, k) of each of their blocks, right side (r,)."""

    columns: Mapping[str, Array]
    right: Array

    @classmethod
    def split(cls, columns: Array, right: Array, places: Mapping[str, slice]) -> Rows:
        """Return rows of columns (r, k) of all blocks."""
        return cls({name: columns[:, place] for name, place in places.items()}, right)

    @classmethod
    def known(cls, block: str, mean: ArrayLike, spread: Array) -> Rows:
        """Return what is known of a block: mean, and spread (k,) or a root (k, k) of its
        covariance.
        """
        root = np.diag(spread) if spread.ndim == 1 else spread
        weight = np.asarray(np.linalg.inv(root), dtype=float)
        return cls({block: weight}, weight @ np.broadcast_to(mean, len(weight)))

    def matrix(self, places: Mapping[str, slice]) -> Array:
        """Return columns and right side (r, size + 1)."""
        size = max((place.stop for place in places.values()), default=0)
        made = np.zeros((len(self.right), size + 1))
        for name, columns in self.columns.items():
            made[:, places[name]] = columns
        made[:, -1] = self.right
        return made


@dataclass(frozen=True, eq=False)
class BlockSolution:
    """The solution of all blocks.

    Attributes:
        places: Where blocks are.
        x: Values (k,).
        inverse: R⁺ (k, k).
        is_open: Which unknowns no row shows (k,).
        rest: Squares that are left.
    """

    places: Mapping[str, slice]
    x: Array
    inverse: Array
    is_open: NDArray[np.bool_]
    rest: float

    def __getitem__(self, block: str) -> Array:
        return self.x[self.places[block]]

    def moved_by(self, scores: Array) -> Array:
        """Return by what scores (k, s) move the unknowns (k, s)."""
        return np.asarray(self.inverse @ (self.inverse.T @ scores))

    @cached_property
    def covariance(self) -> Array:
        """Of all unknowns (k, k), for independent errors."""
        return left_open(of_roots(self.inverse), self.is_open)

    def spread(self, block: str) -> Array:
        """Return the covariance of a block, for independent errors."""
        return self.covariance[self.places[block], self.places[block]]

    def std(self, block: str) -> Array:
        """Return the standard deviations of a block, for independent errors."""
        return np.asarray(np.sqrt(np.diag(self.spread(block))))


class BlockProblem:
    """Rows of groups, each with its own unknowns, about unknowns of all.

    Args:
        blocks: Names and sizes of the unknowns of all (k in all).
        groups: Rows of each group; the first ones are data, the others are independent.
        own: Names and sizes of the unknowns that each group has for itself.

    Attributes:
        triangle: Of the rows that are left of all groups (k + 1, k + 1), right side last.
        own: The unknowns of each group are a + B x: (a (m,), B (m, k)).
    """

    def __init__(
        self,
        blocks: Mapping[str, int],
        groups: Iterable[Sequence[Rows]],
        own: Mapping[str, int] | None = None,
    ) -> None:
        count = sum((own or {}).values())
        self.places, self._groups = places_of(blocks), list(groups)
        self._all = places_of({**(own or {}), **blocks})
        whole = (np.vstack([rows.matrix(self._all) for rows in group]) for group in self._groups)
        made = [_eliminated(rows, count) for rows in whole]
        self.own = [(solved[:, -1], -solved[:, :-1]) for solved, _ in made]
        self.triangle = _square(np.vstack([left for _, left in made]))

    @staticmethod
    def of(*rows: Rows) -> BlockProblem:
        """Return the problem of one group of rows, blocks in the order in which they come."""
        sizes = {name: columns.shape[1] for part in rows for name, columns in part.columns.items()}
        return BlockProblem(sizes, [rows])

    @property
    def rows(self) -> Rows:
        """All that is left of the groups, as rows."""
        return Rows.split(self.triangle, self.triangle[:, -1], self.places)

    def only(self, *names: str) -> BlockProblem:
        """Return the problem in which all other blocks are zero."""
        places = {name: self.places[name] for name in names}
        return BlockProblem.of(Rows.split(self.triangle, self.triangle[:, -1], places))

    def left_to(self, first: str) -> tuple[Array, Array, float]:
        """Return (R, z, rest) of the blocks from `first` on, those before eliminated."""
        return parts_of(_eliminated(self.triangle, self.places[first].start)[1])

    def before(self, first: str) -> tuple[Array, Array]:
        """Return (a, B): the blocks before `first` are a + B times those from it on."""
        solved = _eliminated(self.triangle, self.places[first].start)[0]
        return solved[:, -1], -solved[:, :-1]

    def solved(self, allow_open: bool = False) -> BlockSolution:
        """Return the solution; without `allow_open` rows or what is known show all unknowns."""
        R, z, rest = parts_of(self.triangle)
        if allow_open:
            inverse, is_open = pseudo_inverse(R)
            x = inverse @ z
            rest += float(np.sum((R @ x - z) ** 2))
            return BlockSolution(self.places, x, inverse, is_open, rest)
        inverse, is_open = solve_triangular(R, np.eye(len(R))), np.zeros(len(R), dtype=bool)
        return BlockSolution(self.places, solve_triangular(R, z), inverse, is_open, rest)

    def bounded(self, bounded: NDArray[np.bool_]) -> Array:
        """Return the best unknowns (k,) of which bounded ones (k,) are not negative."""
        A, b, scale = scaled((self.triangle.T @ self.triangle)[None])
        return np.asarray(non_negative(A, b, bounded)[0] / scale[0])

    def covariance(self, errors: Sequence[Array]) -> Array:
        """Return the covariance (k, k) where errors of data are not independent.

        Roots (r, s) of their covariance are given for the first rows of each group.
        """
        solution, roots = self.solved(allow_open=True), list[Array]()
        for (data, *known), (_, B), root in zip(self._groups, self.own, errors, strict=True):
            follows = np.vstack([B, np.eye(len(solution.x))])
            moved = [rows.matrix(self._all)[:, :-1] @ follows for rows in (data, *known)]
            roots += [solution.moved_by(part.T) for part in (root.T @ moved[0], *moved[1:])]
        return left_open(of_roots(*roots), solution.is_open)


def places_of(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Return where blocks of these sizes are, one after the other."""
    edges = pairwise(accumulate(sizes.values(), initial=0))
    return {name: slice(*edge) for name, edge in zip(sizes, edges)}


def _square(rows: Array) -> Array:
    """Return the triangle of rows (N, c), with zeros where there are fewer than c."""
    return square(triangle_of(rows))


def _eliminated(rows: Array, count: int) -> tuple[Array, Array]:
    """Return (solved (count, k + 1), rows that are left) of rows [U | A | y].

    The first unknowns are y' - A' x with solved = [A' | y'].
    """
    if not count:
        return np.zeros((0, rows.shape[1])), rows
    found = _square(rows)
    top, left = found[:count], found[count:, count:]
    inverse, is_open = pseudo_inverse(top[:, :count])
    solved = inverse @ top[:, count:]
    if is_open.any():  # what these rows do not show of the first they show of the others
        left = _square(np.vstack([left, top[:, count:] - top[:, :count] @ solved]))
    return solved, left
