"""Least squares on a recording of any length: ordinary, weighted by joint, robust.

Two passes, or a few more. Parallel filtering: the columns of the regressor pass the same low-pass
as the torque, then both are thinned. A torque that was filtered, by a sensor or by preparation, no
longer equals the regressor at the same instants: friction that reverses has lost its edges, and the
columns have not. Filtered alike, by a low-pass below whatever filter was there before, both sides
of tau = Y beta are the same again, and noise above the motion is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from minidyn.arrays import Array, left_open
from minidyn.base.base_map import BaseMap
from minidyn.errors import Unsupported
from minidyn.identification.estimators import solve
from minidyn.identification.estimators.block_covariance import (
    block_covariance,
    block_length,
    block_sums,
)
from minidyn.identification.estimators.held_out import folds_of
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import as_recorded, cutoff_of, torque_rows
from minidyn.identification.rows.base_rows import (
    FEW,
    PIECE,
    Progress,
    Samples,
    base_functions,
    samples_of,
    steady_regressor,
)
from minidyn.identification.rows.pieces import TILE, Columns, Piece
from minidyn.identification.rows.triangles import STRETCHES, Triangles, assemble
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.recording import Recording

# formula: deviations beyond which a residual counts linearly, 95 % efficient for normal noise
_HUBER = 1.345
_MAX_PASSES = 20  # size: over the recording, for robust weights
_MAX_AHEAD = 2.0  # formula: r / (1 - r) for steps that shrink by r = 2/3
_SETTLED = 0.05  # rounding: of a standard deviation of white noise; that of a log is larger
# size: samples, about, that are read for scores: whole blocks, so that sums are always the same
_TILE = 8192
_MOST_BLOCKS = 50_000  # size: more say nothing more: those of a long recording are longer


@dataclass(frozen=True)
class Fit:
    """A solution of the reduced problem."""

    robot: Robot
    base: BaseMap
    triangles: Triangles  # the (re)weighted rows
    beta: Array  # base parameters (b,)
    sigma: Array  # noise of each joint's torque (n,), as standard deviation
    # what each joint's rows were divided by (n,): the noise, or ones for ordinary least squares
    scale: Array
    R: Array  # triangular factor (b, b) of the weighted problem
    weight: Huber | None = None  # the robust weighting of rows, None where there is none

    def residual(self, piece: Samples) -> Array:
        """Measured minus predicted torque (N, n)."""
        torque = base_functions(self.robot, self.base).torque(piece.motion, self.beta, self.few)
        return np.asarray(piece.tau - torque)

    def without_triangles(self) -> Fit:
        """Return what residuals need: little to send to other processes."""
        weight = None if self.weight is None else Huber(self.weight.before.without_triangles())
        empty = replace(self.triangles, factors=(), stretches=())
        return replace(self, triangles=empty, weight=weight)

    @property
    def few(self) -> bool:
        """Whether the machine code that reduced the samples serves to go through them again."""
        return self.triangles.samples <= FEW

    @property
    def noise(self) -> Array:
        """Standard deviation of each joint's residual (n,), with the parameters it shows taken off
        its samples.
        """
        return self.noise_of(self.beta)

    def noise_of(self, beta: Array) -> Array:
        """The same with other base parameters (b,)."""
        return self.triangles.noise(beta, np.array([len(own) for own in self.triangles.columns]))


@dataclass(frozen=True)
class Huber:
    """Robust weights: rows whose residual is far beyond the noise of the fit before count less."""

    before: Fit

    def __call__(self, arrays: Sequence[Array]) -> Array:
        """Return what rows of the samples' arrays are multiplied by (N, n), at most 1."""
        residual = self.before.residual(Samples.of(arrays[0], arrays))
        return np.sqrt(_HUBER / np.maximum(np.abs(residual) / self.before.sigma, _HUBER))


def fit(
    robot: Robot,
    base: BaseMap,
    recording: Any,
    method: str,
    threads: int = 1,
    progress: Progress | None = None,
    allow_open: bool = False,
    device: str | None = None,
) -> Fit:
    """Fit base parameters by "ols", "wls" or "irls".

    With `allow_open`, what no sample shows is left at zero.
    """

    def weighted(triangles: Triangles, scale: Array) -> Fit:
        R, z, _ = triangles.weighted(scale)
        return Fit(robot, base, triangles, solve.solve(R, z, base, allow_open), scale, scale, R)

    reduced = partial(
        assemble, robot, base, recording, threads=threads, progress=progress, device=device
    )
    found = weighted(reduced(), np.ones(robot.n))
    if method == "ols":
        return replace(found, sigma=found.noise)
    for _ in range(10):
        before, found = found, weighted(found.triangles, found.noise)
        if (
            np.abs(found.R @ (found.beta - before.beta)).max(initial=0.0) < 1e-3
        ):  # of a standard deviation
            break
    return robust(found, reduced, weighted) if method == "irls" else found


def robust(
    found: Fit, reduced: Callable[..., Triangles], weighted: Callable[[Triangles, Array], Fit]
) -> Fit:
    """Weigh rows anew until the parameters settle.

    Steps shrink by about half each; two in a row say where they lead (Anderson's mixing).

    Args:
        found: The fit without robust weights.
        reduced: Returns the triangles of rows with weights.
        weighted: Returns the fit to triangles, rows divided by a scale.
    """
    start, earlier = found.beta, found.beta  # weights are those of residuals of `start`
    for step in range(_MAX_PASSES):
        weight = Huber(replace(found, beta=start).without_triangles())
        triangles = reduced(weight=weight)
        noise_std = np.minimum(found.sigma, replace(found, triangles=triangles).noise)
        before, found = found, replace(weighted(triangles, noise_std), weight=weight)
        change = found.beta - start
        if np.abs(found.R @ change).max(initial=0.0) < _SETTLED:
            break
        ahead = 0.0
        if step:
            bend = found.R @ (change - earlier)
            ahead = -float(bend @ (found.R @ change)) / max(float(bend @ bend), 1e-300)
        start = found.beta + np.clip(ahead, 0.0, _MAX_AHEAD) * (found.beta - before.beta)
        earlier = change
    return found


def covariance_of(
    found: Fit, recording: Any, progress: Progress | None = None, device: str | None = None
) -> tuple[Array, int, float]:
    """Return (covariance of beta (b, b), samples of a block, seconds that it lasts).

    A second pass over the recording. Residual scores are summed over blocks whose length is several
    times the memory of the residuals. Blocks end with their run.
    """
    head = recording if len(recording) <= PIECE else recording[:PIECE]
    sent = found.without_triangles()
    _, length, seconds = max(head.each(partial(_block, sent)), key=itemgetter(0))
    least = -(-found.triangles.samples // _MOST_BLOCKS)
    length, seconds = max(length, least), seconds * max(1.0, least / length)
    weights = np.zeros(2)
    if device is not None and found.weight is None:
        G = _sums_on_gpu(found, recording, length, progress)
    else:
        sums = list(
            recording.each(partial(_block_sums, sent, length, len(recording)), progress=progress)
        )
        G = np.concatenate([some for some, _ in sums])
        weights = np.sum([some for _, some in sums], axis=0)
    inflation = 1.0 if found.weight is None else (weights[0] / max(weights[1], 1.0)) ** 2
    inverse, open_ = solve.pseudo_inverse(found.R)
    rows = found.triangles.samples * len(found.sigma)
    misfit = float(np.sum(found.triangles.squares(found.beta) / found.scale**2))
    white = inverse @ inverse.T * misfit / max(1, rows - len(found.beta))
    covariance, _ = block_covariance(
        inverse @ inverse.T, G, white, rows, inflation=inflation, longer=False
    )
    return left_open(covariance, open_), length, seconds


def _block(
    found: Fit, chunk: AnyRecording, row: int, progress: Progress | None
) -> tuple[int, int, float]:
    """Return how many samples said it, the samples of a block, and how many seconds it lasts."""
    first = max(islice(samples_of(chunk), 3), key=len)
    return len(first), *block_length(found.residual(first), first.t, found.triangles.samples)


def _block_sums(
    found: Fit, length: int, samples: int, chunk: AnyRecording, row: int, progress: Progress | None
) -> tuple[Array, Array]:
    """Return the sums of a chunk's scores over blocks, and those of weights and slopes (2,).

    Blocks end with it.
    """
    weights, last = np.zeros(2), row + len(chunk) >= samples
    return block_sums(
        _scores(found, chunk, length, progress, weights), length, join=False, last=last
    ), weights


def _scores(
    found: Fit, recording: Any, length: int, progress: Progress | None, weights: Array
) -> Iterator[tuple[Array, bool]]:
    """Yield the scores of all samples, few at a time, so that they stay in the cache.

    The sums of robust weights and of slopes of the robust residual are added to `weights` (2,): a
    residual beyond the bend keeps its weight but adds nothing to the slope.
    """
    functions = base_functions(found.robot, found.base)
    for piece in samples_of(recording, progress, max(_TILE // length, 1) * length):
        scaled = found.residual(piece) / found.scale**2
        if found.weight is not None:
            squared = found.weight(piece.arrays) ** 2
            weights += np.sum(squared), np.sum(squared >= 1.0)
            scaled *= squared
        step = max(TILE // length, 1) * length
        for begin in range(0, len(piece), step):
            some, follows = piece[begin : begin + step], begin > 0 or not piece.first
            yield functions.scores(some.motion, scaled[begin : begin + step], found.few), follows


def _sums_on_gpu(found: Fit, recording: Any, length: int, progress: Progress | None) -> Array:
    """Return what `block_sums` of `_scores` gives, computed and summed on a GPU while the next
    samples are read.
    """
    sums = base_functions(found.robot, found.base).block_scores
    uniform = (found.beta, 1.0 / found.scale**2)
    work: list[Future[Array]] = []
    with ThreadPoolExecutor(1) as pool:
        for piece in samples_of(recording, progress, max(PIECE // length, 1) * length):
            work.append(pool.submit(sums, length, *piece.arrays, *uniform))
            if len(work) > 1:
                work[-2].result()  # no more than two pieces are held
        made = np.concatenate([each.result() for each in work])
    # each run ends with a block of its own, but for the last one, which is left out where it is
    # short
    short = 0 < len(piece) % length <= length // 2
    return made[:-1] if short and len(made) > 1 else made


def least_squares(
    method: str, robot: Robot, base: BaseMap, recording: Any, options: Options
) -> Solution:
    """Estimate base parameters by "ols", "wls" or "irls"."""
    if robot.implicit_loops:
        return _by_rows(method, robot, base, recording, options)
    found = fit(
        robot,
        base,
        recording,
        method,
        options.threads,
        options.progress,
        options.allow_open,
        options.device,
    )
    covariance, length, seconds = covariance_of(found, recording, options.progress, options.device)
    # what follows takes rows for independent: squares are divided by the memory of the residuals, a
    # tenth of a block
    scale = found.sigma * np.sqrt(max(1.0, length / 10))
    quadratic = (
        *found.triangles.weighted(scale),
        cache(partial(folds_of, found.triangles, scale)),
    )
    condition, record = solve.condition_of(found.R), {"block_seconds": seconds}
    numbers = found.beta, covariance, found.sigma, condition
    made = Solution(*numbers, *quadratic, record=record, left=found.noise_of)
    return replace(made, stretches=found.triangles.stretches)


def _by_rows(
    method: str, robot: Robot, base: BaseMap, recording: Any, options: Options
) -> Solution:
    """Weighted least squares where loops are solved sample by sample.

    Compiled tiles cannot do that.
    """
    if method != "wls":
        loop = robot.implicit_loops[0].name
        raise Unsupported(
            f"method {method!r}: loop {loop!r} of robot {robot.name!r} is solved sample by "
            'sample; use "wls" or '
            "another method, or give its passive joints as formulas in the robot's file"
        )
    whole = recording.load()
    found = fit_system(base, torque_rows(robot, base, as_recorded(whole)), options.allow_open)
    return found.solution((), {}, options, len(whole))


# size: read piece by piece from the first sample on
OLS, WLS, IRLS = (
    Method(name, partial(least_squares, name), streams_from=0, remembers=True)
    for name in ("ols", "wls", "irls")
)


_TIMES_BAND = 4.0  # the cut-off over the band of the motion
_PER_PERIOD = 5  # size: samples of a period of the cut-off that are kept


def parallel(robot: Robot, base: BaseMap, recording: AnyRecording, options: Options) -> Solution:
    """Estimate base parameters by weighted least squares on regressor and torque after one
    low-pass.
    """
    whole = recording.load()
    cutoff = cutoff_of(whole, _TIMES_BAND, 0.2)

    def columns(run: Recording) -> tuple[Array, Array]:
        log = Samples.all_of(run)
        return steady_regressor(robot, base, *log.motion), log.tau

    found = fit_system(base, partial(filtered_pieces, whole, columns, cutoff), options.allow_open)
    record = {"parallel_cutoff": cutoff, "rows": found.rows * robot.n}
    return found.solution((), record, options, len(whole))


def filtered_pieces(recording: Recording, columns: Columns, cutoff: float) -> Iterator[Piece]:
    """Yield rows run by run.

    Filtered whole, the ends that the filter spoils cut off, thinned, cut into stretches.
    """
    for run, start in zip(recording.runs, recording.starts):
        rate = 1.0 / max(float(np.median(np.diff(run.t))), 1e-12) if len(run) > 1 else 1.0
        spoiled = int(np.ceil(rate / cutoff))
        if len(run) < 3 * spoiled + 10:
            continue
        W, tau = columns(run)
        W = lowpass(W, rate, cutoff)
        keep = np.arange(spoiled, len(run) - spoiled, max(1, int(rate / (_PER_PERIOD * cutoff))))
        y = lowpass(tau, rate, cutoff)
        for rows in np.array_split(keep, STRETCHES):
            if len(rows):
                yield Piece(W[rows], y[rows], run.t[rows], (start + int(rows[0])) / len(recording))


PARALLEL = Method("parallel", parallel, filters_columns=True, remembers=True)
