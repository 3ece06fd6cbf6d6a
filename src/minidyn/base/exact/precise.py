"""Base parameters of robots whose loops or formulas exact arithmetic cannot follow, in sixty
digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from minidyn.base.base_map import RANK_UNCLEAR, BaseMap, Question
from minidyn.base.exact.angles import with_right_angles
from minidyn.base.exact.digits import Digits, sixty_digits
from minidyn.base.exact.precise_state import NotInSixtyDigits, PreciseRobot, PreciseShapes
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.base.rows import MODELS, Arithmetic
from minidyn.notices import info, warning

SIXTY_DIGITS = info(
    "base.sixty_digits",
    "Loops or formulas are not linear, so base parameters were computed with sixty digits instead "
    "of exact arithmetic.",
)

DOUBLE_ONLY = warning(
    "base.double_precision_only",
    "The placements of a robot with loops close them to double precision only, as frames written "
    "as xyz and rpy do; base parameters were found by QR instead of in sixty digits.",
    "Look at the gap; placements in right angles and named lengths close exactly.",
)

METHOD = "exact (high precision)"
DEPENDENT = Decimal("1e-20")
"""What is left of a column after those before it are taken out, against its own size.

Less than this is rounding.
"""
UNCLEAR = (1e-30, 1e-13)  # what is left lies on either side of this range where nothing is in doubt
_NEGLIGIBLE = Decimal("1e-12")  # of an entry of K, columns scaled to one size
_SPARE = 2
_TRIES = 5

Objects = NDArray[np.object_]


def precise_base(question: Question, seed: int = 0) -> BaseMap:
    """Return base parameters by elimination in sixty digits at random states.

    Columns are taken in order of preference, as in exact arithmetic; a column whose remainder is
    below 1e-20 of its size depends on those before it. The map's `gap` is the smallest remainder
    kept over the largest dropped, some forty orders of magnitude where constants are exact, and a
    remainder in between is reported.

    Implements: Gautier1991 eq. (13), (17), closed loops with q̈_p = G q̈_a + Ġ q̇_a.
    """
    robot = question.robot
    per_sample = question.rows_of_sample
    samples = math.ceil(len(question.asked) / per_sample) + 3
    rng = np.random.default_rng((seed, 2))
    with sixty_digits():
        for _ in range(_TRIES):
            W = precise_rows(question, samples + _SPARE, rng)
            per = len(W) // (samples + _SPARE - MODELS[question.model].differences)
            used = [k for k in range(W.shape[1]) if any(W[:, k])]
            scale = np.array([max(abs(value) for value in W[:, k]) for k in used], dtype=object)
            scaled = W[:, used] / scale if used else W[:, used]
            split = len(W) - _SPARE * per
            found = _eliminate(scaled[:split])
            if found.explains(scaled[split:]):
                break
            samples *= 2
        else:
            raise NotInSixtyDigits(
                f"robot {robot.name!r}: no stable rank found; please report this robot"
            )
        one, two = [used[k] for k in found.pivots], [used[k] for k in found.others]
        K = found.K * scale[found.others][None, :] / scale[found.pivots][:, None]
        K[np.abs(found.K) < _NEGLIGIBLE] = Decimal(0)
    kept, regrouped = [question.asked[k] for k in one], [question.asked[k] for k in two]
    rows, columns = np.argsort(kept), np.argsort(regrouped)
    text = (
        "loops or formulas that are not linear: computed with sixty digits at random states "
        "instead of exact arithmetic"
    )
    notices = [SIXTY_DIGITS(text)]
    unclear = [r for r in found.remainders if UNCLEAR[0] < r < UNCLEAR[1]]
    if unclear:
        text = (
            f"the number of base parameters, {len(kept)}, is not clear: {len(unclear)} columns "
            f"differ from a combination of others by about {max(unclear):.1e} of their size; a "
            "formula that closes its loop only to rounding does this"
        )
        data = {"rank": len(kept), "columns": len(unclear), "largest": float(max(unclear))}
        notices.append(RANK_UNCLEAR(text, **data))
    return question.answer(
        METHOD,
        sorted(kept),
        sorted(regrouped),
        K.astype(float)[rows][:, columns],
        found.gap,
        notices,
    )


def precise_or_numeric_base(question: Question, seed: int = 0) -> BaseMap:
    """Return base parameters in sixty digits where they can tell, else by QR, with a notice and
    QR's own gap.
    """
    first: BaseMap | None = None
    try:
        first = precise_base(question, seed)
        why = "sixty digits leave the number in doubt"
    except NotInSixtyDigits as error:
        why = str(error)
    if first is not None and not any(notice.code == RANK_UNCLEAR.code for notice in first.notices):
        return first
    from minidyn.base.numeric.numeric import CLEAR_GAP, numeric_base  # seldom needed

    other = numeric_base(question, "qr", seed)
    if first is not None and other.gap < CLEAR_GAP:
        return first
    counted = None if first is None else first.rank
    text = (
        f"{why}; QR finds {other.rank} base parameters (gap {other.gap:.1e}), which is the answer"
    )
    notice = DOUBLE_ONLY(text, rank=other.rank, gap=float(other.gap), rank_in_sixty_digits=counted)
    return replace(other, notices=(*other.notices, notice))


def precise_rows(question: Question, samples: int, rng: np.random.Generator) -> Objects:
    """Return rows of the model (rows, asked columns) as decimals, sample by sample.

    Inside `sixty_digits` only.
    """
    robot = with_right_angles(question.robot)
    units = units_of(robot)
    states = random_states(robot, units, samples, rng, question.moving)
    model = MODELS[question.model]
    if not model.speeds:
        states = replace(states, dq=np.zeros_like(states.dq))
    precise = PreciseRobot(robot, states)
    tree, c = precise.state()
    kind = Arithmetic(
        (samples,),
        object,
        raw=lambda x: x.value if isinstance(x, Digits) else Digits.constant(x).value,
    )
    W = model.rows(robot, tree, c, kind, PreciseShapes(robot, tree, c))
    if model.differences:
        W = W[1:] - W[:1]
    if model.each_joint:
        W = W[:, list(question.observed)]
    return _without_noise(W.reshape(-1, W.shape[-1])[:, list(question.asked)] + Decimal(0))


def _without_noise(W: Objects) -> Objects:
    """Set columns to zero that are rounding against the largest entry."""
    if not W.size:
        return W
    largest = np.abs(W).max()
    for k in range(W.shape[1]):
        if np.abs(W[:, k]).max() <= DEPENDENT * largest:
            W[:, k] = Decimal(0)
    return W


def solve_precisely(
    question: Question, kept: Sequence[int], targets: Mapping[int, NDArray[np.intp]], seed: int = 0
) -> dict[int, NDArray[np.float64]]:
    """Return for each target column what it is made of, correct to the last digit of a double,
    where that can be told.

    Targets are {place of a column: which of `kept` (places) it depends on, and on all of those}.
    """
    from scipy.linalg import qr

    friction = {column.index for column in question.robot.layout.columns if column.is_friction}
    involved = {*targets, *(kept[k] for support in targets.values() for k in support)}
    if question.model in ("torque", "energy") and friction.isdisjoint(involved):
        question = replace(
            question, model="zero_speed"
        )  # the same relations (Gautier1991 eq. (8)), quicker
    place = {column: k for k, column in enumerate(question.asked)}
    most = max(len(support) for support in targets.values())
    per_sample = question.rows_of_sample
    found = {}
    with sixty_digits():
        W = precise_rows(
            question, math.ceil((2 * most + 10) / per_sample) + 12, np.random.default_rng((seed, 3))
        )
        for target, support in targets.items():
            system = W[:, [*(place[kept[k]] for k in support), place[target]]]
            scale = np.array([max(map(abs, column)) for column in system.T], dtype=object)
            if not scale.all():  # too small to be told from rounding
                continue
            system = system / scale
            # the rows that tell these columns apart best; the others follow from them
            _, _, order = qr(system[:, :-1].astype(float).T, mode="economic", pivoting=True)
            solved = _eliminate(system[order[: len(support)]])
            if len(solved.pivots) < len(
                support
            ):  # special geometry that frames hide: `by_twin` finds it
                continue
            found[target] = (solved.K[:, 0] * scale[-1] / scale[:-1]).astype(float)
    return found


class _Elimination:
    """Pivots, other columns, K between them, and what was left of each column when its turn
    came.
    """

    def __init__(
        self,
        pivots: list[int],
        others: list[int],
        K: Objects,
        kept: list[float],
        dropped: list[float],
    ):
        self.pivots, self.others, self.K = pivots, others, K
        self.remainders = [*kept, *dropped]
        # sixty digits leave no less than this of a column that depends on others
        self.gap = min(kept, default=math.inf) / max([*dropped, 1e-60]) if dropped else math.inf

    def explains(self, rows: Objects) -> bool:
        """Whether further rows obey the relations found."""
        if not self.others or not len(rows):
            return True
        left = (
            rows[:, self.others] - rows[:, self.pivots].dot(self.K)
            if self.pivots
            else rows[:, self.others]
        )
        return bool(np.abs(left).max() < DEPENDENT * max(Decimal(1), *np.abs(self.K).flat))


def _eliminate(matrix: Objects) -> _Elimination:
    """Reduce (rows, columns), columns of size 1, from left to right with the largest entry of each
    column as pivot.
    """
    A = matrix.copy()
    pivots: list[int] = []
    others: list[int] = []
    kept: list[float] = []
    dropped: list[float] = []
    for column in range(A.shape[1]):
        rank = len(pivots)
        sizes = np.abs(A[rank:, column])
        best = int(np.argmax(sizes)) if len(sizes) else 0
        left = sizes[best] if len(sizes) else Decimal(0)
        if left < DEPENDENT:
            others.append(column)
            dropped.append(float(left))
            continue
        kept.append(float(left))
        A[[rank, rank + best]] = A[[rank + best, rank]]
        A[rank, column:] = A[rank, column:] / A[rank, column]
        rest = rank + 1 + np.flatnonzero(A[rank + 1 :, column])
        A[rest, column:] = A[rest, column:] - A[rest, column][:, None] * A[rank, column:]
        pivots.append(column)
    K = A[: len(pivots)][:, others]
    U = A[: len(pivots)][:, pivots]
    for k in range(len(pivots) - 1, 0, -1):
        K[:k] = K[:k] - U[:k, k][:, None] * K[k]
    return _Elimination(pivots, others, K, kept, dropped)
