"""Base parameters from random states in floating point, by QR or singular value decomposition.

The paper's three steps: drop the columns that are zero, count the independent ones by a decomposition that orders
them, choose them by one that does not. Here columns and rows are first freed of units (see `samples`), the values that
decide are kept at hand, and a decision that is not clear says so.

The paper's row-wise scaling: states at which the entries of a row are of like size.

A row computed to full relative accuracy has errors in proportion to its entries, so that a matrix whose entries are of
one size has the smallest errors for its size. The paper minimises the scaling S = max |W_ij| / min |W_ij| of one row at
a time, from as many random starts as rows are wanted. Here all rows are improved side by side by small random steps
that are kept where they help: S has no useful derivative and an acceptable value is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import CHOICE_UNCLEAR, RANK_UNCLEAR, BaseMap, Question
from minidyn.base.numeric.samples import (
    JointStates,
    Observation,
    observe,
    random_states,
    unitless_rows,
    units_of,
)
from minidyn.base.rows import MODELS
from minidyn.errors import UnknownName
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info

ROW_SCALING = info("base.row_scaling", "What the paper's row-wise scaling search did to the scaling S and to the gap.")

_CUTOFF = 1e-13  # entries this small against the largest are zeros of the structure
_ROUNDS = 400
_FARTHEST = 4.0  # speeds and accelerations stay within this many of the robot's own units


def scaling_of(W: Array) -> float:
    """Return S = max |W_ij| / min |W_ij| over the entries that are not zero; 1.0 where there are none."""
    sizes = np.abs(W)
    sizes = sizes[sizes > _CUTOFF * sizes.max(initial=0.0)]
    return float(sizes.max() / sizes.min()) if sizes.size else 1.0


def scaled_rows(
    robot: Robot, model: str, rng: np.random.Generator, moving: Sequence[int] | None, asked: NDArray[np.bool_]
) -> tuple[Observation, Notice]:
    """Search states whose rows are well scaled: one (two for a difference of energy) for each block of rows.

    Returns the observation matrix found, and a notice of what the search did to S and to the gap. Asked are the columns
    (p,) that count.

    Implements: Gautier1991, section "Scaling of W".
    Differs: random descent on S alone for all rows at once, instead of Powell's method on λ1 ||W|| + λ2 S.
    """
    units = units_of(robot)
    rows = list(range(robot.n)) if moving is None else list(moving)
    width = 2 if MODELS[model].differences else 1  # states in a block
    grounded = replace(robot, base=tuple(step for step in robot.base if step.is_turn))

    scale = np.concatenate([units.speeds * units.time, units.speeds, units.speeds / units.time])

    def blocks_of(x: Array) -> Array:
        states = JointStates(*np.split(x.reshape(-1, 3 * robot.n) * scale, 3, axis=1))
        return unitless_rows(grounded, model, states, units, rows)

    count = 2 * int(np.count_nonzero(asked)) // MODELS[model].rows_of(len(rows)) + 8
    start = random_states(robot, units, count * width, rng, moving)
    # the states of each block as one row, without units
    x = (np.concatenate([start.q, start.dq, start.ddq], axis=1) / scale).reshape(count, -1)
    blocks = blocks_of(x)
    first = Observation(blocks.reshape(-1, blocks.shape[-1]).copy(), units)
    counted = (np.abs(blocks).max(axis=0) > _CUTOFF * np.abs(blocks).max(initial=0.0)) & asked
    free = np.tile(np.isin(np.arange(robot.n), rows), 3 * width)
    turning = np.array([robot.joints[k].turns for k in robot.independent])
    limit = np.tile(np.concatenate([np.where(turning, np.inf, 2.0), np.full(2 * robot.n, _FARTHEST)]), width)
    best = _log_scaling(blocks, counted)
    for step in range(_ROUNDS):
        size = 10.0 ** (0.3 - 2.3 * step / _ROUNDS)
        some = rng.random(x.shape) < rng.choice((0.1, 0.3, 1.0))
        trial = np.clip(x + size * rng.normal(size=x.shape) * (some & free), -limit, limit)
        trial_blocks = blocks_of(trial)
        value = _log_scaling(trial_blocks, counted)
        better = value < best
        x[better], best[better], blocks[better] = trial[better], value[better], trial_blocks[better]
    last = Observation(blocks.reshape(-1, blocks.shape[-1]), units)
    gaps = [rank_of(observation, asked, "qr", equal_columns=False).gap for observation in (first, last)]
    before, after = (scaling_of(observation.W[:, asked]) for observation in (first, last))
    notice = ROW_SCALING(
        f"row-wise scaling search over {len(last.W)} rows: S = max/min of the entries went from {before:.1e} to "
        f"{after:.1e}, the gap from {gaps[0]:.1e} to {gaps[1]:.1e}",
        rows=len(last.W),
        scaling_before=before,
        scaling_after=after,
        gap_before=gaps[0],
        gap_after=gaps[1],
    )
    return last, notice


def _log_scaling(blocks: Array, counted: NDArray[np.bool_]) -> Array:
    """Return log10 S of each block over the entries that count; no entry may vanish."""
    sizes = np.abs(blocks[:, counted])
    if not sizes.size:
        return np.zeros(len(blocks))
    tiny = np.finfo(float).tiny
    return np.asarray(np.log10(sizes.max(axis=1) + tiny) - np.log10(sizes.min(axis=1) + tiny))


SCALINGS = ("columns", "paper")
CLEAR_GAP = 1e3  # a smaller ratio of smallest kept to largest dropped value is worth a notice
_EPS = float(np.finfo(float).eps)
_SUSPECT = 1e-4  # kept values this small are looked at again: some robots have them, and so has bad arithmetic
_ZERO = 1e-12  # columns shorter than this, against the longest and in the robot's own units, are zero
# a column much shorter than the others is a difference of larger terms and carries their rounding: making it longer
# than this share of the longest would only make noise loud
_SHORTEST = 1e-3


def numeric_base(question: Question, method: str = "qr", seed: int = 0, scaling: str | None = None) -> BaseMap:
    """Return base parameters found from random states in floating point.

    "qr" and "svd" give the same answer; the singular values are the surer sign of a rank in doubt. Scaling None or
    "columns": columns scaled to one length. "paper": the row-wise search of the paper for states whose rows have
    entries of like size, instead; its effect on the gap is a notice.

    Implements: Gautier1991 eq. (5)-(28).
    Differs: scaled columns and a threshold from their rounding, instead of r |T11| eps; energies as differences.
    """
    if scaling is not None and scaling not in SCALINGS:
        raise UnknownName("scaling", scaling, SCALINGS)
    robot, model = question.robot, question.model
    moving = None if question.joints is None else question.moving
    asked = np.zeros(len(robot.layout), dtype=bool)
    asked[list(question.asked)] = True
    notices: list[Notice] = []
    if scaling == "paper":
        observation, notice = scaled_rows(robot, model, np.random.default_rng(seed), moving, asked)
        notices.append(notice)
    else:
        observation = observe(robot, model, seed, moving)
    found = rank_of(observation, asked, method, equal_columns=scaling != "paper")
    if found.gap < CLEAR_GAP:
        text = (
            f"the number of base parameters, {found.rank}, is not clear: the smallest value that was kept is only "
            f"{found.gap:.1f} times the largest that was dropped"
        )
        notices.append(RANK_UNCLEAR(text, rank=found.rank, gap=found.gap))
    elif found.largest_fall > found.gap:
        text = (
            f"the number of base parameters, {found.rank}, is not clear: among the values that were kept there is a "
            f"larger fall (by {found.largest_fall:.0e}) than from them to rounding (by {found.gap:.0e})"
        )
        notices.append(RANK_UNCLEAR(text, rank=found.rank, gap=found.gap, largest_fall=found.largest_fall))
    kept, clear = _choose(found, question.asked)
    if not clear:
        text = (
            f"which {found.rank} parameters are independent is not clear in floating point; the choice "
            "made is numerically sound"
        )
        notices.append(CHOICE_UNCLEAR(text, rank=found.rank))
    led = set(kept)
    regrouped = [k for k in found.columns if k not in led]
    K = _regrouping(found, kept, regrouped, observation)
    return question.answer(method, kept, regrouped, K, found.gap, notices)


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


def rank_of(observation: Observation, asked: NDArray[np.bool_], method: str, equal_columns: bool = True) -> Rank:
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
    gap = float(norms[columns].min()) / max(dropped, _EPS * longest)
    scales = np.maximum(norms[columns], _SHORTEST * longest) if equal_columns else np.full(len(columns), longest)
    triangle = _triangle(W[:, columns] / (scales * math.sqrt(rows)))
    null = None
    if method == "svd":
        _, values, Vt = svd(triangle)
    else:
        values = np.abs(lapack.dgeqp3(triangle)[0].diagonal())
    threshold = 32 * rows * _EPS * float(values[0])
    rank = int(np.count_nonzero(values > threshold))
    if method == "svd":
        null = Vt[rank:].T
    # where nothing was dropped, what would have been is the measure
    largest = max(float(values[rank]), _EPS * float(values[0])) if rank < len(values) else threshold
    gap = min(gap, float(values[rank - 1]) / largest)
    falls = values[: rank - 1] / values[1:rank]
    fall = float(falls[values[1:rank] < _SUSPECT * values[0]].max(initial=1.0))
    return Rank(rank, gap, fall, values, tuple(columns.tolist()), scales, triangle, null, threshold)


def _triangle(A: Array) -> Array:
    """Return the triangular factor, as many rows as columns where there are enough."""
    from scipy.linalg import lapack

    factored: Array = lapack.dgeqrf(A)[0][: A.shape[1]]
    return factored * (np.arange(len(factored))[:, None] <= np.arange(A.shape[1]))


def _choose(found: Rank, wanted: Sequence[int]) -> tuple[list[int], bool]:
    """Return the places of the columns to keep, in storage order, and whether the choice was clear.

    Wanted are the places of all columns asked about, the most wanted first. By QR: a column is kept if it is
    independent of the preferred ones before it. By singular values: rows of V2 are taken from the last one up as long
    as they are independent; the columns left over are kept.

    Implements: Gautier1991 eq. (15), (16), (26).
    """
    if found.null is None and list(wanted) == sorted(wanted):
        # in storage order the diagonal of the triangle is what is left of each column after those before it
        clear_at_once = (np.abs(found.triangle.diagonal()) > found.threshold).nonzero()[0].tolist()
        if len(clear_at_once) == found.rank:
            return [found.columns[k] for k in clear_at_once], True
    place = {column: k for k, column in enumerate(found.columns)}
    order = np.array([place[column] for column in wanted if column in place], dtype=int)
    if found.null is None:
        chosen, clear = independent_columns(found.triangle[:, order], found.rank, found.threshold)
        kept = order[chosen]
    else:
        order = order[::-1]
        # rows of V2 are known to about eps over the smallest singular value that was kept
        noise = found.threshold / max(float(found.values[found.rank - 1]), _EPS) if found.rank else 0.0
        chosen, clear = independent_columns(found.null[order].T, len(found.columns) - found.rank, noise)
        kept = np.setdiff1d(np.arange(len(found.columns)), order[chosen])
    return [found.columns[k] for k in np.sort(kept)], clear


def independent_columns(A: Array, count: int, threshold: float) -> tuple[list[int], bool]:
    """Return `count` columns of A, each independent of those chosen before it, first come first served.

    A column is judged by what is left of it after the chosen ones are taken out (twice, so that rounding does not
    bring them back). A threshold that does not give the known count is moved, and where none does, the columns with
    the largest remainders are taken and the answer is not clear.
    """
    for factor in (1.0, 10.0, 0.1, 1e2, 1e-2, 1e3, 1e4, 1e5):
        chosen = _pass(A, threshold * factor)
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


def _regrouping(found: Rank, kept: Sequence[int], regrouped: Sequence[int], observation: Observation) -> Array:
    """Return K (b, d) in SI units, with exact zeros where an entry is rounding.

    An entry's error is at most the rounding of the columns times the length of its row of R1⁻¹; entries within that
    are zero. Each column of K is then solved for once more on the entries that remain, which makes them as accurate
    as the few columns they belong to.

    Implements: Gautier1991 eq. (17), (27).
    """
    from scipy.linalg import lapack, solve

    place = {column: k for k, column in enumerate(found.columns)}
    one, two = [place[k] for k in kept], [place[k] for k in regrouped]
    if not one or not two:
        return np.zeros((len(one), len(two)))
    W1, W2 = found.triangle[:, one], found.triangle[:, two]
    R = _triangle(found.triangle[:, one + two])
    inverse = lapack.dtrtri(R[: len(one), : len(one)])[0]
    K: Array = inverse @ R[: len(one), len(one) :]
    if found.null is not None:
        K = -solve(found.null[two].T, found.null[one].T).T
    # an ill-conditioned V22 or R1 must not pass for noise
    K += inverse @ (inverse.T @ (W1.T @ (W2 - W1 @ K)))
    noise = np.linalg.norm(W2 - W1 @ K, axis=0).max() + 4 * _EPS
    error = 4.0 * noise * np.linalg.norm(inverse, axis=1)[:, None] * (1.0 + np.abs(K).sum(axis=0))
    K[np.abs(K) <= error] = 0.0
    again = K + _corrections(W1, W2 - W1 @ K, K != 0.0)
    better = np.linalg.norm(W2 - W1 @ again, axis=0) <= 4.0 * noise
    K = np.where(better, again, K)
    units = observation.units.parameters
    to_one, to_two = units[list(kept)] / found.scales[one], units[list(regrouped)] / found.scales[two]
    result: Array = K * to_one[:, None] / to_two
    return result


def _corrections(W1: Array, left: Array, support: NDArray[np.bool_]) -> Array:
    """Return what least squares adds to each column on its own support (b, d) to explain what is left (c, d).

    What is left is of the size of rounding, so that normal equations are accurate enough; all columns are solved for
    side by side, those with fewer entries padded.
    """
    most = int(support.sum(axis=0).max())
    places = np.argsort(~support, axis=0, kind="stable")[:most].T  # (d, most)
    rows = np.arange(len(places))[:, None]
    used = support.T[rows, places]
    A = (W1.T @ W1)[places[:, :, None], places[:, None, :]] * (used[:, :, None] & used[:, None, :])
    A.reshape(len(A), -1)[:, :: most + 1] += ~used
    b = (left.T @ W1)[rows, places] * used
    found = np.zeros(support.T.shape)
    try:
        found[rows, places] = np.linalg.solve(A, b[..., None])[..., 0] * used
    except np.linalg.LinAlgError:  # kept columns that are hardly independent: leave the first solution
        return np.zeros(support.shape)
    return found.T
