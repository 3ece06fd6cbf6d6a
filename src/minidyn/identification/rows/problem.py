"""The identification problem in triangular form: rows are reduced as they are read, so memory does not grow with them.

For each joint, [Y_j | tau_j] over all samples is replaced by its triangular factor: what least squares, any weighting
of joints, residual norms and covariances need, in a few kilobytes. A joint's rows only see the base parameters of what
it carries, so later joints have small factors. The same is kept for stretches of equal length, for cross-validation.

Triangular factors that grow by rows, or by products of columns where that is as good.

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

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import lapack, solve_triangular

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.graph.targets.native.reduce import Reduction
from minidyn.identification.rows.base_functions import base_functions
from minidyn.identification.rows.samples import PIECE, Progress, Samples, Tiled, samples_of
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

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


Weight = Callable[[Sequence[Array]], Array]
"""From q, dq, ddq and tau, each (N, n), to what each row is multiplied by (N, n)."""

STRETCHES = 5
"""Stretches of equal length that are reduced each on its own."""

_FEW = 2048  # samples that are taken in row by row
_LIKE = 512  # samples of a piece that say how its columns lie
_AHEAD = 2  # pieces that may be under way; results depend on it, so it does not depend on the number of threads


@dataclass(frozen=True)
class Problem:
    """A reduced problem.

    Attributes:
        robot: With the drive terms that are identified.
        base: Its base parameters.
        columns: For each joint, the base parameters its torque can show.
        factors: For each joint, the triangular factor (c + 1, c + 1) of [Y_j | tau_j] on those columns.
        samples: Number of samples.
        torque_squares: For each joint, the sum of squared torques (n,).
        stretches: The same for stretches of equal length, in the order of time.
    """

    robot: Robot
    base: BaseMap
    columns: tuple[tuple[int, ...], ...]
    factors: tuple[Array, ...]
    samples: int
    torque_squares: Array
    stretches: tuple[Problem, ...] = ()

    def residual_squares(self, beta: Array) -> Array:
        """For each joint, the sum of squared residuals (n,) of base parameters beta (b,)."""
        squares = []
        for columns, factor in zip(self.columns, self.factors):
            misfit = factor @ np.append(beta[list(columns)], -1.0)
            squares.append(float(misfit @ misfit))
        return np.array(squares)

    def weighted(self, sigma: Array) -> tuple[Array, Array, float]:
        """Return (R (b, b), z (b,), rest) of all joints together, each divided by its noise.

        ‖R beta - z‖² + rest is the weighted sum of squared residuals.
        """
        size = self.base.rank
        rows = []
        for columns, factor, noise in zip(self.columns, self.factors, sigma):
            block = np.zeros((len(factor), size + 1))
            block[:, [*columns, size]] = factor / noise
            rows.append(block)
        R = triangle_of(np.concatenate(rows))
        R = np.pad(R, ((0, max(0, size + 1 - len(R))), (0, 0)))
        return R[:size, :size], R[:size, size], float(R[size, size] ** 2)


def assemble(
    robot: Robot,
    base: BaseMap,
    recording: Recording | Tiled,
    *,
    weight: Weight | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Problem:
    """Reduce a recording to triangular form; the observation matrix never exists.

    Args:
        robot: With the drive terms that are identified.
        base: Its base parameters.
        recording: With q, dq, ddq and tau; anything with `tiles` may be larger than memory.
        weight: What rows are multiplied by (square roots of what squares are multiplied by); None: nothing.
        threads: Pieces are reduced by so many threads; the result is the same to the last bit.
        progress: Called with the number of samples done.
    """
    functions = base_functions(robot, base)
    reduction = functions.rows if weight is None else functions.weighted_rows
    edges = np.linspace(0, len(recording), STRETCHES + 1).astype(int).tolist()
    rows = _Rows(reduction, weight, [len(own) + 1 for own in functions.columns])
    parts = [_Part(rows) for _ in range(STRETCHES)]
    under_way: deque[tuple[_Part, _Piece]] = deque()
    with single_thread():
        pool = ThreadPoolExecutor(threads)
        try:
            for number, arrays in _batches(samples_of(recording, robot.n, progress), edges):
                piece = parts[number].begin(arrays, pool)
                if piece is not None:
                    under_way.append((parts[number], piece))
                if len(under_way) > _AHEAD:
                    part, piece = under_way.popleft()
                    part.finish(piece)
            for part, piece in under_way:
                part.finish(piece)
        finally:  # an interrupt does not wait for what nobody will read
            pool.shutdown(cancel_futures=True)
    filled = [part for part in parts if part.samples]
    if not filled:
        raise MinidynError("identification needs samples; the recording has none")

    def problem(some: Sequence[_Part], stretches: tuple[Problem, ...] = ()) -> Problem:
        stacked = [np.concatenate([part.triangles[joint].factor for part in some]) for joint in range(robot.n)]
        factors = tuple(triangle_of(rows) for rows in stacked) if len(some) > 1 else tuple(stacked)
        torque = np.sum([part.torque_squares for part in some], axis=0)
        return Problem(robot, base, functions.columns, factors, sum(p.samples for p in some), torque, stretches)

    return problem(filled, tuple(problem([part]) for part in filled))


def _batches(pieces: Iterator[Samples], edges: Sequence[int]) -> Iterator[tuple[int, list[Array]]]:
    """Yield (number of the stretch, q, dq, ddq and tau) in batches of up to PIECE samples, whatever the runs are."""
    bounds = list(pairwise(edges))
    number, row, held, size = 0, 0, list[Sequence[Array]](), 0
    for piece in pieces:
        begin = 0
        while begin < len(piece):
            while number < len(bounds) - 1 and row >= bounds[number][1]:
                number += 1
            last = number == len(bounds) - 1
            take = min(len(piece) - begin, PIECE - size, len(piece) if last else bounds[number][1] - row)
            held.append([array[begin : begin + take] for array in piece.arrays])
            begin, row, size = begin + take, row + take, size + take
            if size == PIECE or (not last and row == bounds[number][1]):
                yield number, _joined(held)
                held, size = [], 0
    if held:
        yield number, _joined(held)


def _joined(parts: Sequence[Sequence[Array]]) -> list[Array]:
    if len(parts) == 1:
        return list(parts[0])
    return [np.concatenate(arrays) for arrays in zip(*parts)]


class _Rows:
    """How rows are computed, and for each joint what they are divided by before products are taken.

    Attributes:
        sizes: For each joint, the length of its rows [Y_j | tau_j].
        metrics: For each joint; empty before the first piece.
    """

    def __init__(self, reduction: Reduction, weight: Weight | None, sizes: Sequence[int]) -> None:
        self.reduction = reduction
        self.weight = weight
        self.sizes = sizes
        self.metrics: list[Array | None] = []

    def of(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the rows of q, dq, ddq and tau, for each joint (N, size)."""
        found = self.reduction.rows(self._weighted(arrays))
        return [rows[:, :size] for rows, size in zip(found, self.sizes)]

    def products(self, arrays: Sequence[Array], metrics: Sequence[Array | None], joints: Sequence[int]) -> list[Array]:
        """Return the products of the columns for some joints (size, size), rows divided by the metrics first."""
        factors = [None if metric is None else _whole(metric, n) for metric, n in zip(metrics, self.reduction.sizes)]
        found = self.reduction.grams(self._weighted(arrays), factors, joints)
        return [products[: self.sizes[joint], : self.sizes[joint]] for joint, products in zip(joints, found)]

    def some(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the rows of a few samples spread over a piece, as long together as all of it."""
        every = -(-len(arrays[0]) // _LIKE)
        return [np.sqrt(every) * rows for rows in self.of([np.ascontiguousarray(array[::every]) for array in arrays])]

    def _weighted(self, arrays: Sequence[Array]) -> Sequence[Array]:
        return arrays if self.weight is None else [*arrays, self.weight(arrays)]


@dataclass(frozen=True)
class _Piece:
    """Samples under way: their arrays, what their rows are divided by, and the products when they are there."""

    arrays: list[Array]
    metrics: list[Array | None]
    products: Future[list[Array]]


class _Part:
    """The triangles of one stretch."""

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        self.triangles = [Triangle(size) for size in rows.sizes]
        self.samples = 0
        self.torque_squares = np.zeros(len(rows.sizes))

    def begin(self, arrays: list[Array], pool: ThreadPoolExecutor) -> _Piece | None:
        """Have the products of a piece computed; a short one is taken in at once, by rows."""
        self.samples += len(arrays[0])
        self.torque_squares += np.einsum("ij,ij->j", arrays[3], arrays[3])
        joints = range(len(self.triangles))
        if len(arrays[0]) <= _FEW:
            self._by_rows(arrays, joints)
            return None
        if not self.rows.metrics:
            self.rows.metrics = [metric_of(rows) for rows in self.rows.some(arrays)]
        metrics = list(self.rows.metrics)
        return _Piece(arrays, metrics, pool.submit(self.rows.products, arrays, metrics, joints))

    def finish(self, piece: _Piece) -> None:
        """Take the products of a piece in; where they are not good enough with a better metric, at last by rows."""
        poor = self._add(piece.products.result(), piece.metrics, range(len(self.triangles)))
        if not poor:
            return
        like = self.rows.some(piece.arrays)
        for joint in poor:
            rows = np.concatenate([self.triangles[joint].factor, like[joint]])
            self.rows.metrics[joint] = metric_of(rows)
        products = self.rows.products(piece.arrays, self.rows.metrics, poor)
        self._by_rows(piece.arrays, self._add(products, self.rows.metrics, poor))

    def _add(self, products: list[Array], metrics: list[Array | None], joints: Sequence[int]) -> list[int]:
        """Take products in; return the joints for which they are not good enough."""
        taken = [self.triangles[joint].add_products(found, metrics[joint]) for joint, found in zip(joints, products)]
        return [joint for joint, good in zip(joints, taken) if not good]

    def _by_rows(self, arrays: list[Array], joints: Sequence[int]) -> None:
        if not joints:
            return
        for begin in range(0, len(arrays[0]), _FEW):
            rows = self.rows.of([array[begin : begin + _FEW] for array in arrays])
            for joint in joints:
                self.triangles[joint].add_rows(rows[joint])


def _whole(metric: Array, size: int) -> Array:
    """Return the triangle with ones on the diagonal of the columns that fill up the last group."""
    made = np.eye(size)
    made[: len(metric), : len(metric)] = metric
    return made
