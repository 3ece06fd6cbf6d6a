"""How many columns of an observation matrix are independent, and which: the values that decide it.

Drop the columns that are zero, count the independent ones by a decomposition that orders them,
choose them by one that does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.numeric.samples import Observation

EPS = float(np.finfo(float).eps)
# kept values this small are looked at again: some robots have them, and so has bad arithmetic
_SUSPECT = 1e-4
_ZERO = (
    1e-12  # columns shorter than this, against the longest and in the robot's own units, are zero
)
# a column much shorter than the others is a difference of larger terms and carries their rounding:
# making it longer than this share of the longest would only make noise loud
SHORTEST = 1e-3
# what is left of a column that is kept, of the longest: the largest that gives enough
_LARGE = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
LARGE = _LARGE[0]

Rival = tuple[int, float] | None
"""Another rank that may be meant, and the fall of the values after it."""


@dataclass(frozen=True)
class Rank:
    """How many columns are independent, and the values that say so."""

    rank: int  # b
    gap: float  # smallest kept over largest dropped value, columns taken as zero included
    largest_fall: float  # largest ratio of one kept value to the next that is suspiciously small
    values: Array  # diagonal of the pivoted triangle, or singular values (c,), largest first
    columns: tuple[int, ...]  # places of the c columns that are not zero, in storage order
    scales: Array  # (c,) what each column was divided by
    triangle: Array  # R (c, c) with the inner products of the scaled columns
    null: Array | None  # V2 (c, c - b), by singular values only
    threshold: float  # values up to this one count as zero
    pivots: tuple[
        int, ...
    ] = ()  # places among the c columns in the order of the values, by QR only
    rival: Rival = None  # where columns may be rounding of longer ones: the next clearest


def rank_of(
    observation: Observation, asked: NDArray[np.bool_], method: str, equal_columns: bool = True
) -> Rank:
    """Drop the zero columns of an observation matrix and count the independent ones.

    Implements: Gautier1991 eq. (13), (14), (21)-(23).
    """
    from scipy.linalg import lapack, svd

    W = observation.W
    rows = max(1, len(W))
    norms = np.where(asked, np.sqrt((W * W).sum(axis=0) / rows), 0.0)
    longest = float(norms.max(initial=0.0))
    zero = max(_ZERO, _ZERO * longest)
    columns = (norms > zero).nonzero()[0]
    if not columns.size:
        return Rank(0, np.inf, 1.0, np.zeros(0), (), np.zeros(0), np.zeros((0, 0)), None, 0.0)
    dropped = float(norms[norms <= zero].max(initial=0.0))
    gap = float(norms[columns].min()) / max(dropped, EPS * longest)
    scales = (
        np.maximum(norms[columns], SHORTEST * longest)
        if equal_columns
        else np.full(len(columns), longest)
    )
    triangle = triangle_of(W[:, columns] / (scales * math.sqrt(rows)))
    null, pivots = None, ()
    if method == "svd":
        _, values, Vt = svd(triangle)
    else:
        factored, order, *_ = lapack.dgeqp3(triangle)
        values, pivots = np.abs(factored.diagonal()), tuple((order - 1).tolist())
    threshold = 32 * rows * EPS * float(values[0])
    rank = int(np.count_nonzero(values > threshold))
    least = int(
        np.count_nonzero(values > min(threshold * observation.spread, _SUSPECT * float(values[0])))
    )
    rival: Rival = None
    if least < rank:
        rank, threshold, rival = _clearest(values, least, rank)
    if method == "svd":
        null = Vt[rank:].T
    # where nothing was dropped, what would have been is the measure
    largest = max(float(values[rank]), EPS * float(values[0])) if rank < len(values) else threshold
    gap = min(gap, float(values[rank - 1]) / largest)
    falls = values[: rank - 1] / values[1:rank]
    fall = float(falls[values[1:rank] < _SUSPECT * values[0]].max(initial=1.0))
    return Rank(
        rank,
        gap,
        fall,
        values,
        tuple(columns.tolist()),
        scales,
        triangle,
        null,
        threshold,
        pivots,
        rival,
    )


def _clearest(values: Array, least: int, most: int) -> tuple[int, float, Rival]:
    """Return the rank between two after which values (c,) fall farthest, a threshold in that fall,
    and the next rank.

    A short column of rows of unknown origin may have a small unit, and is as accurate as the others
    then; or it is a difference of larger terms, and what it differs by from a multiple of others is
    their rounding. Its length does not tell, but rounding is far from the values that were there
    before.
    """
    kept = values[least - 1 : most]
    dropped = np.maximum(np.append(values, 0.0)[least : most + 1], EPS * values[0])
    farthest, second = np.argsort(-kept / dropped, kind="stable")[:2].tolist()
    threshold = float(dropped[farthest] * min(32.0, math.sqrt(kept[farthest] / dropped[farthest])))
    return least + farthest, threshold, (least + second, float(kept[second] / dropped[second]))


def triangle_of(A: Array) -> Array:
    """Return the triangular factor, as many rows as columns where there are enough."""
    from scipy.linalg import lapack

    factored: Array = lapack.dgeqrf(A)[0][: A.shape[1]]
    return factored * (np.arange(len(factored))[:, None] <= np.arange(A.shape[1]))


def independent_columns(
    A: Array, count: int, threshold: float, sizes: Array | None = None
) -> tuple[list[int], bool]:
    """Return `count` columns of A; where columns were given one length, sizes are what they had.

    Each independent of those chosen before it, first come first served. A column is judged by what
    is left of it after the chosen ones are taken out (twice, so that rounding does not bring them
    back). Where sizes are given, a column of which hardly anything is left is passed over as long
    as there are enough others: it may be rounding, of the file or of the arithmetic. A threshold
    that does not give the known count is moved, and where none does, the columns with the largest
    remainders are taken and the answer is not clear.
    """
    factors = (1.0, 10.0, 0.1, 1e2, 1e-2, 1e3, 1e4, 1e5)
    tries = [(A, threshold * factor) for factor in factors]
    if sizes is not None and len(sizes):
        long = A * (sizes / sizes.max())
        tries = [*((long, share) for share in _LARGE if share > threshold), *tries]
    for columns, least in tries:
        chosen = _pass(columns, least)
        if len(chosen) == count:
            return chosen, True
    from scipy import linalg

    _, pivots = linalg.qr(A, mode="r", pivoting=True)
    return [int(k) for k in pivots[:count]], False


def _pass(A: Array, threshold: float) -> list[int]:
    Q = np.empty((A.shape[0], min(A.shape)))
    chosen: list[int] = []
    for k in range(A.shape[1]):
        if len(chosen) == Q.shape[1]:
            break
        basis = Q[:, : len(chosen)]
        v = A[:, k] - basis @ (basis.T @ A[:, k])
        v -= basis @ (basis.T @ v)
        left = float(np.linalg.norm(v))
        if left > threshold:
            Q[:, len(chosen)] = v / left
            chosen.append(k)
    return chosen
