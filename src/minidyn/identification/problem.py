"""The identification problem in triangular form: rows are reduced as they are read, so memory does not grow with them.

For each joint, [Y_j | tau_j] over all samples is replaced by its triangular factor: what least squares, any weighting
of joints, residual norms and covariances need, in a few kilobytes. A joint's rows only see the base parameters of what
it carries, so later joints have small factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from minidyn.base.base_map import BaseMap
from minidyn.blas import single_thread
from minidyn.dynamics.record import build
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.experiment.recording import Recording
from minidyn.graph.function import Function
from minidyn.graph.native import compile_function
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot

__all__ = ["Problem", "Tile", "assemble", "tiles_of"]

Array = NDArray[np.float64]
TILE = 1024
"""Samples reduced at once: a tile's regressor stays in the second-level cache."""


class Tiled(Protocol):
    """A recording that gives itself in pieces."""

    def tiles(self, samples: int) -> Iterator[Recording]:
        """Iterate over pieces of at most so many samples, each inside one run."""


@dataclass(frozen=True)
class Tile:
    """One piece of a recording.

    Attributes:
        blocks: For each joint, its base regressor on the columns it sees (N, c).
        columns: For each joint, these columns.
        tau: Torques (N, n).
        t: Times (N,).
        first: Whether a run begins here.
    """

    blocks: list[Array]
    columns: tuple[tuple[int, ...], ...]
    tau: Array
    t: Array
    first: bool

    def residual(self, beta: Array) -> Array:
        """Measured minus predicted torque (N, n)."""
        predicted = [block @ beta[list(own)] for block, own in zip(self.blocks, self.columns)]
        return np.asarray(self.tau - np.stack(predicted, axis=1), dtype=float)

    def scores(self, residual: Array, size: int) -> Array:
        """Yᵀ residual sample by sample (N, b)."""
        scores = np.zeros((len(self.tau), size))
        for joint, (block, own) in enumerate(zip(self.blocks, self.columns)):
            scores[:, list(own)] += block * residual[:, joint, None]
        return scores


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
    """

    robot: Robot
    base: BaseMap
    columns: tuple[tuple[int, ...], ...]
    factors: tuple[Array, ...]
    samples: int
    torque_squares: Array

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
        R = _triangle(np.concatenate(rows))
        R = np.pad(R, ((0, max(0, size + 1 - len(R))), (0, 0)))
        return R[:size, :size], R[:size, size], float(R[size, size] ** 2)


def assemble(
    robot: Robot,
    base: BaseMap,
    recording: Recording | Tiled,
    *,
    weight: Callable[[Tile], Array] | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Problem:
    """Reduce a recording to triangular form; the observation matrix never exists.

    Args:
        robot: With the drive terms that are identified.
        base: Its base parameters.
        recording: With q, dq, ddq and tau; anything with `tiles` may be larger than memory.
        weight: For each tile, weights (N, n) of its rows (square roots of what squares are multiplied by).
        threads: Tiles are reduced by so many threads.
        progress: Called with the number of samples done.
    """
    _, columns = block_regressor(robot, base)
    workers = [_Reducer(columns) for _ in range(threads)]
    done = 0
    with single_thread(), ThreadPoolExecutor(threads) as pool:
        pending: list[Any] = []
        for number, tile in enumerate(tiles_of(robot, base, recording)):
            if len(pending) >= threads:
                pending.pop(0).result()
            weights = None if weight is None else weight(tile)
            pending.append(pool.submit(workers[number % threads].add, tile, weights))
            done += len(tile.tau)
            if progress is not None:
                progress(done)
        for job in pending:
            job.result()
    total = workers[0]
    for other in workers[1:]:
        total.merge(other)
    if total.samples == 0:
        raise MinidynError("identification needs samples; the recording has none")
    return Problem(robot, base, columns, tuple(total.factors), total.samples, total.torque_squares)


def tiles_of(robot: Robot, base: BaseMap, recording: Recording | Tiled) -> Iterator[Tile]:
    """Iterate over the recording's tiles with their base regressors, structural zeros left out."""
    function, columns = block_regressor(robot, base)
    native = compile_function(function)
    for number, (piece, first) in enumerate(_pieces(recording)):
        for name in ("q", "dq", "ddq", "tau"):
            values = getattr(piece, name)
            if values is None:
                raise MinidynError(f"identification needs {name}; prepare the recording first: md.prepare(robot, ...)")
            _require_finite(name, values, piece)
        q, dq, ddq, tau = (np.ascontiguousarray(getattr(piece, name)) for name in ("q", "dq", "ddq", "tau"))
        if number == 0 and q.shape[1] != robot.n:
            raise MinidynError(f"the recording has {q.shape[1]} joints, robot {robot.name!r} has {robot.n}")
        found = native(q, dq, ddq)
        yield Tile(list(found) if robot.n > 1 else [found], columns, tau, np.asarray(piece.t), first)


def block_regressor(robot: Robot, base: BaseMap) -> tuple[Function, tuple[tuple[int, ...], ...]]:
    """Return the base regressor with one result per joint, and the base columns each joint sees."""
    graph = Graph()
    inputs = {name: graph.inputs(name, robot.n) for name in ("q", "dq", "ddq")}
    Y = build(robot, "regressor", inputs, columns=robot.layout.indices(base.kept), combine=base.unmixing)
    zero = graph.zero
    columns = tuple(tuple(k for k, entry in enumerate(row) if entry is not zero and entry != 0.0) for row in Y)
    results = {f"Y{joint}": [Y[joint][k] for k in own] for joint, own in enumerate(columns)}
    return graph.function("base_blocks", results), columns


def _pieces(recording: Recording | Tiled) -> Iterator[tuple[Recording, bool]]:
    if not isinstance(recording, Recording):
        seen: float | None = None
        for piece in recording.tiles(TILE):
            yield piece, seen is None or piece.t[0] <= seen
            seen = float(piece.t[-1])
        return
    for run in recording.runs:
        for begin in range(0, len(run), TILE):
            yield run[begin : begin + TILE], begin == 0


def _require_finite(name: str, values: Array, piece: Recording) -> None:
    if np.all(np.isfinite(values)):
        return
    sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
    raise UnknownParameters(
        f"{name} of joint {piece.joint_names[joint]!r} is not a number at t = {piece.t[sample]:.6g} s; cut the samples "
        "out (recording[a:b]) or mend the log"
    )


class _Reducer:
    """Triangular factors that grow by tiles."""

    def __init__(self, columns: tuple[tuple[int, ...], ...]) -> None:
        self.columns = columns
        self.factors: list[Array] = [np.zeros((0, len(own) + 1)) for own in columns]
        self.samples = 0
        self.torque_squares = np.zeros(len(columns))

    def add(self, tile: Tile, weights: Array | None) -> None:
        for joint, own in enumerate(self.columns):
            rows = np.empty((len(self.factors[joint]) + len(tile.tau), len(own) + 1))
            top = len(self.factors[joint])
            rows[:top] = self.factors[joint]
            rows[top:, :-1] = tile.blocks[joint]
            rows[top:, -1] = tile.tau[:, joint]
            if weights is not None:
                rows[top:] *= weights[:, joint, None]
            self.factors[joint] = _triangle(rows)
        self.samples += len(tile.tau)
        self.torque_squares += np.sum(tile.tau**2, axis=0)

    def merge(self, other: _Reducer) -> None:
        for joint, factor in enumerate(other.factors):
            self.factors[joint] = _triangle(np.concatenate([self.factors[joint], factor]))
        self.samples += other.samples
        self.torque_squares += other.torque_squares


def _triangle(rows: Array) -> Array:
    """Return the triangular factor of rows (N, c), with as many rows as columns where there are enough."""
    return np.asarray(np.linalg.qr(rows, mode="r"), dtype=float)
