"""Rows reduced to triangles as they are read, so that memory does not grow with them.

What every fit begins with. For each kind of rows (those of one joint), [X | y] over all samples is
replaced by its triangular factor: what least squares, any weighting of kinds, residual norms and
covariances need, in a few kilobytes. The same is kept for stretches of equal length, for
cross-validation. Rows are those of base parameters, by compiled kernels (`assemble`; a joint's rows
only see the base parameters of what it carries, so later joints have small factors), or whatever a
function of a piece of recording returns (`pieces.py`).

A triangle R with Rᵀ R = Wᵀ W is what least squares needs of rows W. Householder reflections give it
with an error of rounding times the condition number κ of W. Products of columns, G = Wᵀ W, cost
half the arithmetic and none of the order of steps, but lose κ squared. They lose nothing worth
naming where κ is small; and where it is not, the columns are first divided by the triangle R₀ of a
sample of like rows, after which they are nearly orthonormal:

    V = W R₀⁻¹,   R = chol(Vᵀ V) R₀.

Most columns are told apart well enough as they are, so they stay: the triangle has a one on the
diagonal there, and only those that are nearly combinations of columns before them are divided.

Each time it is checked, after the fact, that what was factored is well conditioned; otherwise the
rows themselves are taken, by Householder. The error stays of the size of Householder's.
(Cholesky-QR with a preconditioner; Yamamoto and others, Roundoff error analysis of the CholeskyQR2
algorithm, 2015, analyse the repair.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.graph.targets.cuda.reduce import CudaReduction
from minidyn.graph.targets.native.reduce import GROUP, Reduction
from minidyn.identification.rows.base_rows import (
    PIECE,
    Progress,
    Samples,
    base_functions,
    samples_of,
)
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording

_LOSS = 1e6
"""Rounding: largest sum of squares of the inverse of a factor with unit columns.

Rounding grows by no more, to 1e-10.
"""

_FLOOR = 1e-15  # rounding: of a column's length: less on the diagonal is rounding
_GROUPS = 6  # size: groups of columns that are divided alone; where it takes more all are


class Triangle:
    """The upper triangular factor (at most c, c) of rows (N, c) that come in pieces."""

    def __init__(self, size: int) -> None:
        self.factor: Array = np.zeros((0, size))

    def add_rows(self, rows: Array) -> None:
        """Take rows (N, c) in by Householder reflections: always right."""
        self.factor = triangle_of(np.concatenate([self.factor, rows]))

    def add_products(self, products: Array, metric: Array | None) -> bool:
        """Take rows in by the products of their columns (c, c), divided by the metric.

        False: do it by rows. Nothing changes where the answer is False.
        """
        above = self.factor if metric is None else _divided(self.factor, metric)
        total = above.T @ above + products if len(above) else products.copy()
        squares = total.diagonal().copy()
        if not np.isfinite(squares.sum()):
            return False
        silent, lengths = squares == 0, np.sqrt(squares)
        lengths[silent] = 1.0
        total /= lengths
        total /= lengths[:, None]
        total[silent, silent] = 1.0
        found, failed = lapack.dpotrf(total.T, lower=0, clean=1, overwrite_a=1)
        if failed:
            return False
        inverse, failed = lapack.dtrtri(found)
        if failed or not float(np.vdot(inverse, inverse)) <= _LOSS:
            return False
        found *= lengths
        found[silent] = 0.0
        self.factor = found if metric is None else found @ metric
        return True


def metric_of(rows: Array) -> Array | None:
    """Return the triangle (c, c) that rows like these (N, c) are to be divided by before their
    products are taken.

    None: plain products are good enough.
    """
    size = rows.shape[1]
    factor = np.zeros((size, size))
    known = triangle_of(rows)
    factor[: len(known)] = known
    lengths = np.sqrt(np.einsum("ij,ij->j", factor, factor))
    lengths[lengths == 0] = 1.0
    diagonal = np.diagonal(factor).copy()
    floor = (
        _FLOOR * lengths
    )  # columns that depend on others leave rounding: divided by it they stay of order one
    np.fill_diagonal(factor, np.where(np.abs(diagonal) < floor, floor, diagonal))
    alone, divided = np.eye(size), _to_divide(factor / lengths)
    solved, _ = lapack.dtrtrs(np.where(divided, alone, factor), factor)
    return np.where(divided, solved, alone) if divided.any() else None


def _to_divide(triangle: Array) -> NDArray[np.bool_]:
    """Return which columns (c,) of a triangle, of length one, to make orthogonal to those before.

    None where all do. Whole groups, as machine code divides them. Each time it is that of the
    column which takes most off the sum of squares of the inverse X: without it X loses (x_j - e_j)
    X_j / X_jj, where x_j is its column j and X_j its row j.
    """
    alone, divided = np.eye(len(triangle)), np.zeros(len(triangle), dtype=bool)
    for number in range(_GROUPS + 1):
        inverse, failed = lapack.dtrtri(np.where(divided, alone, triangle))
        squares = np.inf if failed else float(np.vdot(inverse, inverse))
        if squares < (0.02 if number else 0.25) * _LOSS:
            return divided
        if np.isfinite(squares):
            away, row = inverse - alone, inverse / inverse.diagonal()[:, None]
            change = (away * away).sum(0) * (row * row).sum(1) - 2 * (
                (inverse.T @ away) * row.T
            ).sum(0)
            first = int(np.argmin(change)) // GROUP * GROUP
            divided[first : first + GROUP] = True
    return np.ones_like(divided)


def triangle_of(rows: Array) -> Array:
    """Return the triangular factor of rows (N, c), with as many rows as columns where there are
    enough.
    """
    return np.asarray(np.linalg.qr(rows, mode="r"), dtype=float)


def square(triangle: Array) -> Array:
    """Return a triangle (r, c) with rows of zeros where there are fewer than c."""
    return np.pad(triangle, ((0, max(0, triangle.shape[1] - len(triangle))), (0, 0)))


def _divided(rows: Array, factor: Array) -> Array:
    """Return rows (N, c) divided by an upper triangle (c, c) without zeros on its diagonal."""
    return np.asarray(lapack.dtrtrs(factor.T, rows.T, lower=1)[0].T, dtype=float)


Weight = Callable[[Sequence[Array]], Array]
"""From q, dq, ddq and tau, each (N, n), to what each row is multiplied by (N, n)."""

STRETCHES = 5
"""Size: stretches of equal length that are reduced each on its own."""

FEW = 2048
"""Size: samples that are taken in row by row."""

_LIKE = 256  # size: samples of a piece that say how its columns lie, or six for each column
# size: pieces under way; results depend on it, so it is the same for any number of threads
_AHEAD = 2


@dataclass(frozen=True)
class Triangles:
    """Rows of several kinds, each reduced to a triangle."""

    columns: tuple[tuple[int, ...], ...]  # for each kind of rows, the unknowns that it can show
    unknowns: int  # how many there are in all, b
    # for each kind the triangular factor of [X | y] on its columns, or of [Z | X | y] with
    # instruments Z
    factors: tuple[Array, ...]
    samples: int  # rows of each kind
    stretches: tuple[
        Triangles, ...
    ] = ()  # the same for stretches of equal length, in the order of time

    @property
    def sizes(self) -> Array:
        """Root mean square of each kind's right side (kinds,)."""
        lengths = np.array([float(np.linalg.norm(factor[:, -1])) for factor in self.factors])
        return np.asarray(lengths / np.sqrt(self.samples))

    def squares(self, x: Array) -> Array:
        """For each kind, the sum of squared residuals (kinds,) of unknowns x (b,)."""
        found = []
        for own, factor in zip(self.columns, self.factors):
            misfit = factor[:, -len(own) - 1 :] @ np.append(x[list(own)], -1.0)
            found.append(float(misfit @ misfit))
        return np.array(found)

    def noise(self, x: Array, spent: Array) -> Array:
        """Standard deviation of each kind's residual (kinds,), with the parameters spent on it
        taken off its rows.
        """
        noise = np.sqrt(self.squares(x) / np.maximum(1.0, self.samples - spent))
        # where parameters can follow every row the residual says nothing: no model is better than a
        # few percent
        noise = np.maximum(noise, np.where(self.samples < 2 * spent, 0.03, 1e-9) * self.sizes)
        return np.where(noise > 0, noise, 1.0)

    def together(self, scale: Array) -> Array:
        """Return the square triangle of all kinds' rows, [X | y] or [Z | X | y].

        Each kind divided by its scale.
        """
        rows = []
        for own, factor, divisor in zip(self.columns, self.factors, scale):
            width = factor.shape[1] + self.unknowns - len(own)
            places = [*own, self.unknowns] if len(own) < self.unknowns else range(width)
            block = np.zeros((len(factor), width))
            block[:, places] = factor / divisor
            rows.append(block)
        return square(triangle_of(np.concatenate(rows)))

    def weighted(self, scale: Array) -> tuple[Array, Array, float]:
        """Return (R (b, b), z (b,), rest) with ‖R x - z‖² + rest the sum of squares.

        Each kind divided by its scale.
        """
        return parts_of(self.together(scale))


def parts_of(triangle: Array) -> tuple[Array, Array, float]:
    """Return (R (b, b), z (b,), rest) of the triangle of rows [X | y].

    ‖R x - z‖² + rest is their sum of squares.
    """
    size, triangle = triangle.shape[1] - 1, square(triangle)
    return triangle[:size, :size], triangle[:size, size], float(triangle[size, size] ** 2)


def joined(parts: Sequence[Triangles], stretches: tuple[Triangles, ...] = ()) -> Triangles:
    """Return the rows of several stretches or runs as one."""
    first = parts[0]
    factors = [
        triangle_of(np.concatenate(factors)) for factors in zip(*(part.factors for part in parts))
    ]
    own = first.factors if len(parts) == 1 else tuple(factors)
    return Triangles(
        first.columns, first.unknowns, own, sum(part.samples for part in parts), stretches
    )


def assemble(
    robot: Robot,
    base: BaseMap,
    recording: AnyRecording,
    *,
    weight: Weight | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    piece: int = PIECE,
    by_rows: int = FEW,
    device: str | None = None,
) -> Triangles:
    """Reduce a recording to triangles, one a joint; the observation matrix never exists.

    A recording on disk may be larger than memory; its chunks are reduced each on its own, by
    workers where it has an engine, and joined as a tree. Rows are multiplied by `weight`: square
    roots of what squares are multiplied by. So many samples are a `piece`, which is reduced at
    once, row by row up to `by_rows` samples. The result is the same to the last bit for any number
    of threads and workers. With device "cuda" a GPU reduces one piece while the next is read.
    """
    edges = np.linspace(0, len(recording), STRETCHES + 1).astype(int).tolist()
    sizes = {"threads": threads, "piece": piece, "by_rows": by_rows, "device": device}
    trees = [_Tree() for _ in range(STRETCHES)]
    for found in recording.each(
        partial(_triangles, robot, base, edges, weight, sizes), progress=progress
    ):
        for number, part in found:
            trees[number].add(part)
    filled = [tree.joined() for tree in trees if tree.parts]
    if not filled:
        raise MinidynError("identification needs samples; the recording has none")
    with single_thread():
        return joined(filled, tuple(filled))


class _Tree:
    """Triangles joined two by two as they come, neighbours first; few are held at a time."""

    def __init__(self) -> None:
        self.parts: list[
            tuple[int, Triangles]
        ] = []  # how many each was made of, a falling power of two

    def add(self, part: Triangles, count: int = 1) -> None:
        """Take the next one in."""
        while self.parts and self.parts[-1][0] == count:
            part, count = joined([self.parts.pop()[1], part]), 2 * count
        self.parts.append((count, part))

    def joined(self) -> Triangles:
        """Return all as one."""
        whole = self.parts[-1][1]
        for _, part in reversed(self.parts[:-1]):
            whole = joined([part, whole])
        return whole


def _triangles(
    robot: Robot,
    base: BaseMap,
    edges: Sequence[int],
    weight: Weight | None,
    sizes: Mapping[str, Any],
    chunk: AnyRecording,
    row: int,
    progress: Progress | None,
) -> list[tuple[int, Triangles]]:
    """Reduce a chunk that begins at a row of the recording.

    (number of the stretch, its triangles) of each it is in.
    """
    functions, piece = base_functions(robot, base), sizes["piece"]
    reduction = functions.reduction(weight is not None, sizes["device"])
    rows = _Rows(reduction, weight, [len(own) + 1 for own in functions.columns])
    parts = [_Part(rows, sizes["by_rows"]) for _ in range(STRETCHES)]
    under_way: deque[tuple[_Part, _Ahead]] = deque()
    with single_thread():
        pool = ThreadPoolExecutor(sizes["threads"])
        try:
            for number, arrays in _batches(samples_of(chunk, progress, piece), edges, piece, row):
                ahead = parts[number].begin(arrays, pool)
                if ahead is not None:
                    under_way.append((parts[number], ahead))
                if len(under_way) > _AHEAD:
                    part, ahead = under_way.popleft()
                    part.finish(ahead)
            for part, ahead in under_way:
                part.finish(ahead)
        finally:  # an interrupt does not wait for what nobody will read
            pool.shutdown(cancel_futures=True)
        filled = ((number, part) for number, part in enumerate(parts) if part.samples)
        return [
            (number, part.triangles_of(functions.columns, base.rank)) for number, part in filled
        ]


def _batches(
    pieces: Iterator[Samples], edges: Sequence[int], most: int, row: int
) -> Iterator[tuple[int, list[Array]]]:
    """Yield (number of the stretch, q, dq, ddq and tau) in batches of up to so many samples.

    Whatever the runs are. The pieces begin at a row of the recording.
    """
    bounds = list(pairwise(edges))
    number, held, size = 0, list[Sequence[Array]](), 0
    for piece in pieces:
        begin = 0
        while begin < len(piece):
            while number < len(bounds) - 1 and row >= bounds[number][1]:
                number += 1
            last = number == len(bounds) - 1
            take = min(
                len(piece) - begin, most - size, len(piece) if last else bounds[number][1] - row
            )
            held.append([array[begin : begin + take] for array in piece.arrays])
            begin, row, size = begin + take, row + take, size + take
            if 4 * size >= most or (
                not last and row == bounds[number][1]
            ):  # to join large ones is to copy them
                yield number, _joined(held)
                held, size = [], 0
    if held:
        yield number, _joined(held)


def _joined(parts: Sequence[Sequence[Array]]) -> list[Array]:
    if len(parts) == 1:
        return list(parts[0])
    return [np.concatenate(arrays) for arrays in zip(*parts)]


class _Rows:
    """How rows are computed, and for each joint what they are divided by before products are
    taken.
    """

    def __init__(
        self, reduction: Reduction | CudaReduction, weight: Weight | None, sizes: Sequence[int]
    ) -> None:
        self.reduction = reduction
        self.weight = weight
        self.sizes = sizes  # for each joint, the length of its rows [Y_j | tau_j]
        self.metrics: list[Array | None] = []  # for each joint; empty before the first piece

    def of(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the rows of q, dq, ddq and tau, for each joint (N, size)."""
        found = self.reduction.rows(self._weighted(arrays))
        return [rows[:, :size] for rows, size in zip(found, self.sizes)]

    def products(
        self, arrays: Sequence[Array], metrics: Sequence[Array | None], joints: Sequence[int]
    ) -> list[Array]:
        """Return the products of the columns for some joints (size, size), rows divided by the
        metrics first.
        """
        factors = [
            None if metric is None else _whole(metric, n)
            for metric, n in zip(metrics, self.reduction.sizes)
        ]
        found = self.reduction.grams(self._weighted(arrays), factors, joints)
        return [
            products[: self.sizes[joint], : self.sizes[joint]]
            for joint, products in zip(joints, found)
        ]

    def some(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the rows of a few samples spread over a piece, as long together as all of it."""
        every = -(-len(arrays[0]) // max(_LIKE, 6 * max(self.sizes)))
        return [
            np.sqrt(every) * rows
            for rows in self.of([np.ascontiguousarray(array[::every]) for array in arrays])
        ]

    def _weighted(self, arrays: Sequence[Array]) -> Sequence[Array]:
        return arrays if self.weight is None else [*arrays, self.weight(arrays)]


@dataclass(frozen=True)
class _Ahead:
    """Samples under way.

    Their arrays, what their rows are divided by, and the products when they are there.
    """

    arrays: list[Array]
    metrics: list[Array | None]
    products: Future[list[Array]]


class _Part:
    """The triangles of one stretch."""

    def __init__(self, rows: _Rows, by_rows: int) -> None:
        self.rows, self.few = rows, by_rows
        self.triangles = [Triangle(size) for size in rows.sizes]
        self.samples = 0

    def triangles_of(self, columns: tuple[tuple[int, ...], ...], unknowns: int) -> Triangles:
        """Return what was taken in."""
        return Triangles(
            columns, unknowns, tuple(triangle.factor for triangle in self.triangles), self.samples
        )

    def begin(self, arrays: list[Array], pool: ThreadPoolExecutor) -> _Ahead | None:
        """Have the products of a piece computed; a short one is taken in at once, by rows."""
        self.samples += len(arrays[0])
        joints = range(len(self.triangles))
        if len(arrays[0]) <= self.few:
            self._by_rows(arrays, joints)
            return None
        if not self.rows.metrics:
            self.rows.metrics = [metric_of(rows) for rows in self.rows.some(arrays)]
        metrics = list(self.rows.metrics)
        return _Ahead(arrays, metrics, pool.submit(self.rows.products, arrays, metrics, joints))

    def finish(self, piece: _Ahead) -> None:
        """Take the products of a piece in; where they are not good enough with a better metric, at
        last by rows.
        """
        poor = self._add(piece.products.result(), piece.metrics, range(len(self.triangles)))
        if not poor:
            return
        like = self.rows.some(piece.arrays)
        for joint in poor:
            rows = np.concatenate([self.triangles[joint].factor, like[joint]])
            self.rows.metrics[joint] = metric_of(rows)
        products = self.rows.products(piece.arrays, self.rows.metrics, poor)
        self._by_rows(piece.arrays, self._add(products, self.rows.metrics, poor))

    def _add(
        self, products: list[Array], metrics: list[Array | None], joints: Sequence[int]
    ) -> list[int]:
        """Take products in; return the joints for which they are not good enough."""
        taken = [
            self.triangles[joint].add_products(found, metrics[joint])
            for joint, found in zip(joints, products)
        ]
        return [joint for joint, good in zip(joints, taken) if not good]

    def _by_rows(self, arrays: list[Array], joints: Sequence[int]) -> None:
        if not joints:
            return
        for begin in range(0, len(arrays[0]), self.few):
            rows = self.rows.of([array[begin : begin + self.few] for array in arrays])
            for joint in joints:
                self.triangles[joint].add_rows(rows[joint])


def _whole(metric: Array, size: int) -> Array:
    """Return the triangle with ones on the diagonal of the columns that fill up the last group."""
    made = np.eye(size)
    made[: len(metric), : len(metric)] = metric
    return made
