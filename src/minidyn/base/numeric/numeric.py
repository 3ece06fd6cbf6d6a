"""Base parameters from random states in floating point, by QR or singular value decomposition.

The paper's three steps: drop the columns that are zero, count the independent ones by a
decomposition that orders them, choose them by one that does not. Here columns and rows are first
freed of units (see `samples`), the values that decide are kept at hand, and a decision that is not
clear says so.

The paper's row-wise scaling: states at which the entries of a row are of like size.

A row computed to full relative accuracy has errors in proportion to its entries, so that a matrix
whose entries are of one size has the smallest errors for its size. The paper minimises the scaling
S = max |W_ij| / min |W_ij| of one row at a time, from as many random starts as rows are wanted.
Here all rows are improved side by side by small random steps that are kept where they help: S has
no useful derivative and an acceptable value is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import CHOICE_UNCLEAR, RANK_UNCLEAR, BaseMap, Question
from minidyn.base.numeric.rank import EPS, LARGE, Rank, independent_columns, rank_of, triangle_of
from minidyn.base.numeric.samples import (
    JointStates,
    Observation,
    observe,
    random_states,
    unitless_rows,
    units_of,
)
from minidyn.base.rows import MODELS
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info

ROW_SCALING = info(
    "base.row_scaling",
    "What the paper's row-wise scaling search did to the scaling S and to the gap.",
)

_CUTOFF = 1e-13  # entries this small against the largest are zeros of the structure
_ROUNDS = 400
_FARTHEST = 4.0  # speeds and accelerations stay within this many of the robot's own units


def scaling_of(W: Array) -> float:
    """Return S = max |W_ij| / min |W_ij| over the entries that are not zero.

    1.0 where there are none.
    """
    sizes = np.abs(W)
    sizes = sizes[sizes > _CUTOFF * sizes.max(initial=0.0)]
    return float(sizes.max() / sizes.min()) if sizes.size else 1.0


def scaled_rows(
    robot: Robot,
    model: str,
    rng: np.random.Generator,
    moving: Sequence[int] | None,
    asked: NDArray[np.bool_],
    weights: tuple[float, float] = (0.0, 1.0),
) -> tuple[Observation, Notice]:
    """Search states whose rows are well scaled.

    One (two for a difference of energy) for each block of rows. Returns the observation matrix
    found, and a notice of what the search did to S and to the gap. Asked are the columns (p,) that
    count; weights are λ1 and λ2 of J = λ1 ||W|| + λ2 S, of rows without units.

    Implements: Gautier1991, section "Scaling of W".
    Differs: random descent for all rows at once, instead of Powell's method; S alone unless weights
    are given.
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
    limit = np.tile(
        np.concatenate([np.where(turning, np.inf, 2.0), np.full(2 * robot.n, _FARTHEST)]), width
    )
    best = _criterion(blocks, counted, weights)
    for step in range(_ROUNDS):
        size = 10.0 ** (0.3 - 2.3 * step / _ROUNDS)
        some = rng.random(x.shape) < rng.choice((0.1, 0.3, 1.0))
        trial = np.clip(x + size * rng.normal(size=x.shape) * (some & free), -limit, limit)
        trial_blocks = blocks_of(trial)
        value = _criterion(trial_blocks, counted, weights)
        better = value < best
        x[better], best[better], blocks[better] = trial[better], value[better], trial_blocks[better]
    last = Observation(blocks.reshape(-1, blocks.shape[-1]), units)
    gaps = [
        rank_of(observation, asked, "qr", equal_columns=False).gap for observation in (first, last)
    ]
    before, after = (scaling_of(observation.W[:, asked]) for observation in (first, last))
    notice = ROW_SCALING(
        f"row-wise scaling search over {len(last.W)} rows: S = max/min of the entries went from "
        f"{before:.1e} to {after:.1e}, the gap from {gaps[0]:.1e} to {gaps[1]:.1e}",
        rows=len(last.W),
        scaling_before=before,
        scaling_after=after,
        gap_before=gaps[0],
        gap_after=gaps[1],
    )
    return last, notice


def _criterion(blocks: Array, counted: NDArray[np.bool_], weights: tuple[float, float]) -> Array:
    """Return log10 of J = λ1 ||W|| + λ2 S of each block over the entries that count.

    No entry may vanish.
    """
    sizes = np.abs(blocks[:, counted])
    if not sizes.size:
        return np.zeros(len(blocks))
    tiny = np.finfo(float).tiny
    log_S = np.asarray(np.log10(sizes.max(axis=1) + tiny) - np.log10(sizes.min(axis=1) + tiny))
    if weights[0] == 0.0:
        return log_S
    J = weights[0] * np.linalg.norm(sizes, axis=1) + weights[1] * 10.0 ** np.minimum(log_S, 300.0)
    return np.asarray(np.log10(J))


Scaling = str | tuple[float, float] | None
"""How rows and columns are scaled.

A name of `SCALINGS`, or weights (λ1, λ2) of the paper's criterion.
"""


def weights_of(scaling: Scaling) -> tuple[float, float] | None:
    """Return λ1, λ2 of the row-wise search; None: no search.

    "paper" is (0, 1), "0.1,1" is (0.1, 1).
    """
    if scaling is None or scaling == "columns":
        return None
    if scaling == "paper":
        return 0.0, 1.0
    parts = scaling.split(",") if isinstance(scaling, str) else scaling
    if isinstance(scaling, str) and len(parts) != 2:
        raise UnknownName("scaling", scaling, SCALINGS)
    try:
        norm, S = (float(part) for part in parts)
    except (TypeError, ValueError):
        norm = S = math.nan
    if not (norm >= 0.0 and S >= 0.0 and 0.0 < norm + S < math.inf):
        raise MinidynError(
            'scaling: expected "columns", "paper" or two weights from 0 on, not both 0, got '
            f"{scaling!r}"
        )
    return norm, S


SCALINGS = ("columns", "paper")
_REGULAR = 1e7  # condition of V22 up to which it is solved with
_AS_GOOD = 1e-2  # of the smallest singular value of the columns that QR keeps
_SHARES = (
    1.0,
    1e-2,
    1e-4,
    1e-6,
)  # of the bound of an entry's error, below which it is taken as zero
CLEAR_GAP = 1e3  # a smaller ratio of smallest kept to largest dropped value is worth a notice


def numeric_base(
    question: Question, method: str = "qr", seed: int = 0, scaling: Scaling = None
) -> BaseMap:
    """Return base parameters found from random states in floating point.

    "qr" and "svd" give the same answer; the singular values are the surer sign of a rank in doubt.
    Scaling None or "columns": columns scaled to one length. "paper": the row-wise search of the
    paper for states whose rows have entries of like size, instead; its effect on the gap is a
    notice. Weights (λ1, λ2): that search on λ1 ||W|| + λ2 S.

    Implements: Gautier1991 eq. (5)-(28).
    Differs: scaled columns and a threshold from their rounding, instead of r |T11| eps; energies as
    differences.
    """
    weights = weights_of(scaling)
    robot, model = question.robot, question.model
    moving = None if question.joints is None else question.moving
    asked = np.zeros(len(robot.layout), dtype=bool)
    asked[list(question.asked)] = True
    notices: list[Notice] = []
    if weights is not None:
        if question.measured is not None:
            raise Unsupported("scaling: the search of rows is for all torques; leave measured out")
        observation, notice = scaled_rows(
            robot, model, np.random.default_rng(seed), moving, asked, weights
        )
        notices.append(notice)
    else:
        observation = observe(robot, model, seed, moving, question.observed)
    kept, regrouped, K, found = decide(
        observation, question.asked, method, notices, weights is None
    )
    return question.answer(method, kept, regrouped, K, found.gap, notices)


def decide(
    observation: Observation,
    wanted: Sequence[int],
    method: str,
    notices: list[Notice],
    equal_columns: bool = True,
) -> tuple[list[int], list[int], Array, Rank]:
    """Return kept and regrouped columns of an observation matrix, K between them in SI units, and
    what decided.

    Wanted are the places of the columns asked about, the most wanted first. What is not clear is
    added to `notices`.
    """
    asked = np.zeros(observation.W.shape[1], dtype=bool)
    asked[list(wanted)] = True
    found = rank_of(observation, asked, method, equal_columns)
    if found.gap < CLEAR_GAP:
        text = (
            f"the number of base parameters, {found.rank}, is not clear: the smallest value that "
            f"was kept is only {found.gap:.1f} times the largest that was dropped"
        )
        notices.append(RANK_UNCLEAR(text, rank=found.rank, gap=found.gap))
    elif found.largest_fall > found.gap:
        text = (
            f"the number of base parameters, {found.rank}, is not clear: among the values that "
            f"were kept there is a larger fall (by {found.largest_fall:.0e}) than from them to "
            f"rounding (by {found.gap:.0e})"
        )
        notices.append(
            RANK_UNCLEAR(text, rank=found.rank, gap=found.gap, largest_fall=found.largest_fall)
        )
    elif found.rival is not None and found.rival[1] * CLEAR_GAP > found.gap:
        other, fall = found.rival
        text = (
            f"the number of base parameters, {found.rank}, is not clear: the values fall by "
            f"{found.gap:.0e} after it and by {fall:.0e} after {other}; short columns may be "
            "rounding of longer ones"
        )
        notices.append(
            RANK_UNCLEAR(text, rank=found.rank, gap=found.gap, other=other, other_fall=fall)
        )
    kept, clear = _choose(found, wanted)
    if not clear:
        text = (
            f"which {found.rank} parameters are independent is not clear in floating point; the "
            "choice made is numerically sound"
        )
        notices.append(CHOICE_UNCLEAR(text, rank=found.rank))
    led = set(kept)
    regrouped = [k for k in found.columns if k not in led]
    K = _regrouping(found, kept, regrouped, observation)
    return kept, regrouped, K, found


def _choose(found: Rank, wanted: Sequence[int]) -> tuple[list[int], bool]:
    """Return the places of the columns to keep, in storage order, and whether the choice was clear.

    Wanted are the places of all columns asked about, the most wanted first. By QR: a column is kept
    if it is independent of the preferred ones before it. By singular values: rows of V2 are taken
    from the last one up as long as they are independent; the columns left over are kept.

    Implements: Gautier1991 eq. (15), (16), (26).
    """
    if found.null is None and list(wanted) == sorted(wanted):
        # in storage order the diagonal of the triangle is what is left of each column after those
        # before it
        diagonal = found.triangle.diagonal()
        remainders = np.abs(diagonal) * found.scales[: len(diagonal)]
        clear_at_once = (remainders > LARGE * found.scales.max(initial=0.0)).nonzero()[0].tolist()
        if len(clear_at_once) == found.rank:
            return [found.columns[k] for k in clear_at_once], True
    place = {column: k for k, column in enumerate(found.columns)}
    order = np.array([place[column] for column in wanted if column in place], dtype=int)
    chosen, clear = independent_columns(
        found.triangle[:, order], found.rank, found.threshold, found.scales[order]
    )
    kept = order[chosen]
    if found.null is not None:
        other, other_clear = _choose_by_null(found, found.null, order)
        # rows of V2 that are hardly independent leave columns that are hardly so
        if other_clear and _least(found, other) >= _AS_GOOD * _least(found, kept):
            kept, clear = other, other_clear
    return [found.columns[k] for k in np.sort(kept)], clear


def _choose_by_null(
    found: Rank, null: Array, order: NDArray[np.intp]
) -> tuple[NDArray[np.intp], bool]:
    """Return the columns to keep by rows of V2, taken from the last one up, and whether the choice
    was clear.
    """
    # rows of V2 are known to about eps over the smallest singular value that was kept
    noise = found.threshold / max(float(found.values[found.rank - 1]), EPS) if found.rank else 0.0
    order = order[::-1]
    chosen, clear = independent_columns(null[order].T, len(found.columns) - found.rank, noise)
    return np.setdiff1d(np.arange(len(found.columns)), order[chosen]), clear


def _least(found: Rank, kept: NDArray[np.intp]) -> float:
    """Return the smallest singular value of columns that may be kept."""
    if not len(kept):
        return 1.0
    return float(np.linalg.svd(found.triangle[:, kept], compute_uv=False)[-1])


def _regrouping(
    found: Rank, kept: Sequence[int], regrouped: Sequence[int], observation: Observation
) -> Array:
    """Return K (b, d) in SI units, with exact zeros where an entry is rounding.

    An entry's error is at most the rounding of the columns times the length of its row of R1⁻¹;
    entries within that may be zero. Each column of K is then solved for once more on the entries
    that remain, which makes them as accurate as the few columns they belong to. Where kept columns
    are nearly dependent that bound is far above the error of most entries: a column of K that no
    longer explains its parameter gets back the entries that are largest for their bound.

    Implements: Gautier1991 eq. (17), (27).
    """
    from scipy.linalg import lapack, solve

    place = {column: k for k, column in enumerate(found.columns)}
    one, two = [place[k] for k in kept], [place[k] for k in regrouped]
    if not one or not two:
        return np.zeros((len(one), len(two)))
    W1, W2 = found.triangle[:, one], found.triangle[:, two]
    R = triangle_of(found.triangle[:, one + two])
    inverse = lapack.dtrtri(R[: len(one), : len(one)])[0]
    K: Array = inverse @ R[: len(one), len(one) :]
    # of geometry that is special but for rounding V22 may be singular to double precision: R1
    # serves as well
    if found.null is not None and np.linalg.cond(found.null[two]) < _REGULAR:
        K = -solve(found.null[two].T, found.null[one].T).T
    # an ill-conditioned V22 or R1 must not pass for noise
    K += inverse @ (inverse.T @ (W1.T @ (W2 - W1 @ K)))
    noise = np.linalg.norm(W2 - W1 @ K, axis=0).max() + 4 * EPS
    error = 4.0 * noise * np.linalg.norm(inverse, axis=1)[:, None] * (1.0 + np.abs(K).sum(axis=0))
    for share in _SHARES:
        sparse = np.where(np.abs(K) <= share * error, 0.0, K)
        sparse += _corrections(W1, W2 - W1 @ sparse, sparse != 0.0)
        explained = np.linalg.norm(W2 - W1 @ sparse, axis=0) <= 4.0 * noise
        K, error = np.where(explained, sparse, K), np.where(explained, 0.0, error)
        if explained.all():
            break
    units = observation.units.parameters
    to_one, to_two = (
        units[list(kept)] / found.scales[one],
        units[list(regrouped)] / found.scales[two],
    )
    result: Array = K * to_one[:, None] / to_two
    return result


def _corrections(W1: Array, left: Array, support: NDArray[np.bool_]) -> Array:
    """Return what least squares adds to each column on its own support (b, d) to explain what is
    left (c, d).

    What is left is of the size of rounding, so that normal equations are accurate enough; all
    columns are solved for side by side, those with fewer entries padded.
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
    except (
        np.linalg.LinAlgError
    ):  # kept columns that are hardly independent: leave the first solution
        return np.zeros(support.shape)
    return found.T
