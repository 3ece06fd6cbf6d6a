"""Least squares on the reduced problem: ordinary, weighted by joint, robust; covariances that believe the data.

Residuals of a real robot are not white: friction and vibration correlate neighbouring samples, and the textbook
covariance is too small by the number of samples that repeat each other. Here scores are summed over blocks longer than
that memory, and the spread of the block sums gives the covariance (a cluster-robust, or batch-means, estimate).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.identification.diagnostics.open_directions import pseudo_inverse
from minidyn.identification.estimators.blocks import block_length, few_blocks
from minidyn.identification.rows.base_functions import base_functions
from minidyn.identification.rows.problem import Problem, assemble
from minidyn.identification.rows.samples import Progress, Samples, samples_of
from minidyn.model.robot import Robot

_HUBER = 1.345  # standard deviations beyond which a residual counts linearly: 95 % efficient for normal noise
_SCORES = 1024  # samples whose scores are held at once


@dataclass(frozen=True)
class Fit:
    """A solution of the reduced problem.

    Attributes:
        problem: The (re)weighted problem it solves.
        beta: Base parameters (b,).
        sigma: Noise of each joint's torque (n,), as standard deviation.
        scale: What each joint's rows were divided by (n,): the noise, or ones for ordinary least squares.
        R: Triangular factor (b, b) of the weighted problem.
        z: Right-hand side (b,).
        weight: The robust weighting of rows, None where there is none.
    """

    problem: Problem
    beta: Array
    sigma: Array
    scale: Array
    R: Array
    z: Array
    weight: Huber | None = None


@dataclass(frozen=True)
class Huber:
    """Robust weights: rows whose residual is far beyond the noise count less.

    Attributes:
        robot: The robot.
        base: Its base parameters.
        beta: Their values (b,).
        sigma: Noise of each joint (n,).
    """

    robot: Robot
    base: BaseMap
    beta: Array
    sigma: Array

    def __call__(self, arrays: Sequence[Array]) -> Array:
        """Return what rows of q, dq, ddq and tau are multiplied by (N, n), at most 1."""
        q, dq, ddq, tau = arrays
        residual = tau - base_functions(self.robot, self.base).torque(q, dq, ddq, self.beta)
        return np.sqrt(_HUBER / np.maximum(np.abs(residual) / self.sigma, _HUBER))


def fit(
    robot: Robot,
    base: BaseMap,
    recording: Any,
    method: str,
    threads: int = 1,
    progress: Progress | None = None,
    allow_open: bool = False,
) -> Fit:
    """Fit base parameters by "ols", "wls" or "irls"; with `allow_open`, what no sample shows is left at zero."""
    problem = assemble(robot, base, recording, threads=threads, progress=progress)
    ones = np.ones(robot.n)
    R, z, _ = problem.weighted(ones)
    beta = solve(R, z, base, allow_open)
    found = Fit(problem, beta, _noise(problem, beta), ones, R, z)
    if method == "ols":
        return found
    for _ in range(10):
        sigma = _noise(problem, found.beta)
        R, z, _ = problem.weighted(sigma)
        beta = solve(R, z, base, allow_open)
        moved = np.abs(R @ (beta - found.beta)).max() if len(beta) else 0.0
        found = Fit(problem, beta, sigma, sigma, R, z)
        if moved < 1e-3:  # a thousandth of a standard deviation
            break
    return _reweighted(found, recording, threads, progress, allow_open) if method == "irls" else found


def solve(R: Array, z: Array, base: BaseMap, allow_open: bool = False) -> Array:
    """Solve R beta = z, or name the parameters that the motion does not show; with `allow_open` these are zero."""
    if not len(z):
        return np.zeros(0)
    if allow_open:
        return np.asarray(pseudo_inverse(R)[0] @ z, dtype=float)
    scale = np.linalg.norm(R, axis=0)
    if np.any(scale == 0):
        silent = [name for name, value in zip(base.names, scale) if value == 0]
        raise MinidynError(f"the recording does not excite {', '.join(silent[:6])}: every joint must move")
    singular = np.linalg.svd(R / scale, compute_uv=False)
    if singular[-1] < 1e-12 * singular[0]:
        _, _, V = np.linalg.svd(R / scale)
        worst = np.argsort(-np.abs(V[-1]))[:4]
        names = ", ".join(base.names[k] for k in worst)
        raise MinidynError(
            f"the recording does not determine all {base.rank} base parameters: a combination of {names} stays open; "
            "record a motion in which more joints move, faster and further"
        )
    return np.asarray(solve_triangular(R, z), dtype=float)


def condition_of(R: Array) -> float:
    """Condition number of the problem with columns scaled to unit length."""
    scale = np.linalg.norm(R, axis=0)
    if not len(scale) or np.any(scale == 0):
        return float("inf") if len(scale) else 1.0
    singular = np.linalg.svd(R / scale, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > 0 else float("inf")


def block_covariance(found: Fit, recording: Any, progress: Progress | None = None) -> tuple[Array, float]:
    """Return (covariance of beta (b, b), seconds that a block lasts).

    A second pass over the recording: residual scores are summed over blocks whose length is several times the memory
    of the residuals. Blocks end with their run.
    """
    robot, base = found.problem.robot, found.problem.base
    length, seconds = _block_length(found, recording)
    sums: list[Array] = []
    current, filled = np.zeros(base.rank), 0
    pull, slope = 0.0, 0.0  # sums of the robust weights and of the slopes of the robust residual
    for piece in samples_of(recording, robot.n, progress):
        scaled = _residual(found, piece) / found.scale**2
        if found.weight is not None:
            squared = found.weight(piece.arrays) ** 2
            pull, slope = pull + float(np.sum(squared)), slope + float(np.sum(squared >= 1.0))
            scaled *= squared
        if piece.first and filled:
            sums.append(current)
            current, filled = np.zeros(base.rank), 0
        begin = 0
        while begin < len(piece):  # scores of few samples at a time stay in the cache
            end = min(begin + max(_SCORES // length, 1) * length, len(piece))
            part = slice(begin, end)
            scores = base_functions(robot, base).scores(piece.q[part], piece.dq[part], piece.ddq[part], scaled[part])
            cuts = [0, *range(length - filled, len(scores), length)]
            added = np.add.reduceat(scores, cuts, axis=0)
            added[0] += current
            filled = (filled + len(scores)) % length
            whole = len(added) if filled == 0 else len(added) - 1
            sums.extend(added[:whole])
            current = added[-1] if filled else np.zeros(base.rank)
            begin = end
    if filled > length // 2 or not sums:
        sums.append(current)
    G = np.stack(sums)
    count, size = len(G), base.rank
    inverse, open_ = pseudo_inverse(found.R)
    spread = inverse @ (inverse.T @ G.T)  # one column for each block: its pull on beta
    # few blocks understate the spread of what was fitted to them
    rows = found.problem.samples * robot.n
    correction = count / max(1, count - 1) * rows / max(1, rows - size)
    if found.weight is not None:
        # a residual beyond the bend keeps its weight but adds nothing to the slope of the scores
        correction *= (pull / max(slope, 1.0)) ** 2
    lost = few_blocks(spread)
    clustered = correction * np.outer(lost, lost) * (spread @ spread.T)
    white = inverse @ inverse.T * _white_variance(found)
    # never less than the textbook value: blocks cannot show more information than there are samples
    excess = np.maximum(np.diag(white) / np.maximum(np.diag(clustered), 1e-300), 1.0)
    factor = np.sqrt(excess)
    covariance = clustered * np.outer(factor, factor)
    covariance[open_, open_] = np.inf  # nothing is known of these
    return covariance, seconds


def _noise(problem: Problem, beta: Array) -> Array:
    """Standard deviation of each joint's residual, with the parameters it shows taken off its samples."""
    free = np.array([max(1, problem.samples - len(own)) for own in problem.columns])
    noise = np.sqrt(problem.residual_squares(beta) / free)
    # where parameters can follow every sample the residual tells nothing: no model is better than a few percent
    few = np.array([problem.samples < 2 * len(own) for own in problem.columns])
    floor = np.where(few, 0.03, 1e-9) * np.sqrt(problem.torque_squares / max(1, problem.samples))
    return np.where(np.maximum(noise, floor) > 0, np.maximum(noise, floor), 1.0)


def _white_variance(found: Fit) -> float:
    """Variance that the scaled residuals have left; 1 where they were divided by their noise."""
    squares = found.problem.residual_squares(found.beta)
    free = max(1, found.problem.samples * len(squares) - len(found.beta))
    return float(np.sum(squares / found.scale**2) / free)


def _residual(found: Fit, piece: Samples) -> Array:
    """Measured minus predicted torque (N, n)."""
    functions = base_functions(found.problem.robot, found.problem.base)
    return np.asarray(piece.tau - functions.torque(*piece.motion, found.beta), dtype=float)


def _reweighted(found: Fit, recording: Any, threads: int, progress: Progress | None, allow_open: bool = False) -> Fit:
    """Iterate Huber weights: rows whose residual is far beyond the noise count less."""
    robot, base = found.problem.robot, found.problem.base
    for _ in range(20):
        weight = Huber(robot, base, found.beta, found.sigma)
        problem = assemble(robot, base, recording, weight=weight, threads=threads, progress=progress)
        sigma = np.minimum(found.sigma, _noise(problem, found.beta))
        R, z, _ = problem.weighted(sigma)
        moved = solve(R, z, base, allow_open)
        change = np.abs(R @ (moved - found.beta)).max()
        found = Fit(problem, moved, sigma, sigma, R, z, weight)
        if change < 1e-2:
            break
    return found


def _block_length(found: Fit, recording: Any) -> tuple[int, float]:
    """Return (samples, seconds) of a block: ten times the memory of the residuals, at least twenty samples."""
    pieces = islice(samples_of(recording, found.problem.robot.n), 3)
    piece = max(pieces, key=len)
    residual = _residual(found, piece)
    return block_length(residual, piece.t, found.problem.samples)
