"""Exact base parameters of robots whose frames hide special geometry, or whose geometry is nearly
special.

The canonical twin (`minidyn.model.canonical`) shows every relation between axes to exact
arithmetic. Its base parameters span the same rows as those of the robot's own parameters, so that
with the linear map T between the two the rank is known and the choice among the robot's own
parameters is a matter of well-conditioned elimination.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap, Question
from minidyn.base.check import relation_error
from minidyn.base.exact.exact import (
    CLEAR,
    RESIDUAL,
    exact_base,
    observed_rows,
    spread_of,
)
from minidyn.base.numeric.rank import SHORTEST, independent_columns, triangle_of
from minidyn.base.numeric.row_space import in_leaders, leaders
from minidyn.base.numeric.samples import Units, units_of
from minidyn.base.tolerance import COUNTS_DIFFER, Answer
from minidyn.model.canonical import ROUNDING, Canonical, canonical

_SOUND = (
    1e-7  # of kept columns of the robot's own frames: less is not told from zero by eigenvalues
)
_EXACT = 1e-13  # of a column: relations that hold to this need no refinement
_TOLD = 1e-11  # of kept columns by singular values
_ROUNDING = 1e-12  # of what is left of a column, of columns of one length
_NOISE = 1e-12  # entries of rows without units that are rounding of zeros


def exact_answer(question: Question, twin: Canonical | None, seed: int) -> Answer:
    """Return base parameters in exact arithmetic.

    Of the robot's own steps where floating point confirms what they show; else, and where the twin
    has geometry snapped that the robot has not, by the twin.
    """
    if twin is not None and twin.understood is not question.robot:
        return Answer(_by_twin(question, seed, twin))
    plain = exact_base(question, seed)
    # with an order of one's own, columns that are hard to tell apart are what was asked for
    holds = plain.apart <= RESIDUAL and (plain.error <= RESIDUAL or question.order is not None)
    if holds and plain.spread <= CLEAR and any(joint.follows for joint in question.robot.joints):
        W = observed_rows(question, seed, many=True)[1]
        plain = replace(
            plain, spread=spread_of(W[:, list(question.robot.layout.indices(plain.base.kept))])
        )
    if holds and plain.spread > CLEAR:
        return Answer(plain.base, is_clear=True)
    if (holds and plain.spread > _SOUND) or question.robot.free_base:
        return Answer(plain.base)
    hidden = _by_twin(question, seed, twin or canonical(question.robot, ROUNDING))
    return Answer(plain.base if holds and hidden.rank == plain.base.rank else hidden)


def _by_twin(question: Question, seed: int, found: Canonical) -> BaseMap:
    """Return base parameters of the robot with what its twin has snapped exactly so."""
    robot = question.robot
    units = units_of(robot)
    twin = exact_base(replace(question, robot=found.twin, columns=None, order=None), seed, units)
    rows = twin.base.matrix @ found.T
    sizes = np.abs(rows * units.parameters)
    rows = np.where(sizes < _NOISE * sizes.max(axis=1, keepdims=True, initial=0.0), 0.0, rows)
    asked = list(question.asked)
    count = len(leaders(rows[:, asked], units.parameters[asked], whole=question.columns is None)[0])
    W = observed_rows(replace(question, robot=found.in_own_frames()), seed, units, many=True)[1]
    chosen = _chosen(W[:, asked], count)
    matrix = np.zeros((len(chosen), len(robot.layout)))
    matrix[:, asked] = in_leaders(rows[:, asked], chosen, units.parameters[asked], _NOISE)
    places = [asked[k] for k in chosen]
    order = np.argsort(places)
    matrix, kept = matrix[order], sorted(places)
    regrouped = [int(k) for k in np.flatnonzero(matrix.any(axis=0)) if k not in set(kept)]
    base = question.answer("exact", kept, regrouped, matrix[:, regrouped])
    return _confirmed(base, question, found, seed, W, units)


def _chosen(W: Array, count: int) -> list[int]:
    """Return which columns (r, c) to keep, as many as exact arithmetic counts."""
    if not count:
        return []
    triangle = triangle_of(W)
    lengths = np.linalg.norm(triangle, axis=0)
    sizes = np.maximum(lengths, SHORTEST * lengths.max())
    return independent_columns(triangle / sizes, count, _ROUNDING, sizes)[0]


def _confirmed(
    base: BaseMap, question: Question, found: Canonical, seed: int, W: Array, units: Units
) -> BaseMap:
    """Return the map where floating point confirms it at random states, else that of QR where that
    is clear, with a notice where the numbers differ.

    Relations must hold and kept columns must be told apart in rows W (r, p): then the numeric rank
    is the same.
    """
    base = _refined(base, W, units)
    error = relation_error(W, base, units.parameters)
    kept = W[:, list(question.robot.layout.indices(base.kept))]
    values = (
        np.linalg.svd(kept / np.linalg.norm(kept, axis=0), compute_uv=False)
        if base.rank
        else np.ones(1)
    )
    if error <= RESIDUAL and values[-1] > _TOLD * values[0]:
        return base
    from minidyn.base.numeric.numeric import CLEAR_GAP, numeric_base  # seldom needed

    other = numeric_base(replace(question, robot=found.in_own_frames()), "qr", seed)
    clear = other.gap >= CLEAR_GAP and relation_error(W, other, units.parameters) <= max(
        error, RESIDUAL
    )
    if other.rank == base.rank and error <= RESIDUAL:
        return base
    notices = base.notices
    if other.rank != base.rank:
        text = (
            f"exact arithmetic finds {base.rank} base parameters, QR {other.rank} (gap "
            f"{other.gap:.1e}); the answer is that of {'QR' if clear else 'exact arithmetic'}"
        )
        notice = COUNTS_DIFFER(text, exact=base.rank, qr=other.rank, gap=float(other.gap))
        notices = (*notices, notice)
    if clear:
        base = replace(other, robot=question.robot, method="exact")
    return replace(base, notices=notices)


def _refined(base: BaseMap, W: Array, units: Units) -> BaseMap:
    """Return the map with what rounding left of its relations taken out, zeros kept.

    Exact arithmetic takes angles that agree to 1e-9 rad as the same. Rows (r, p) are without units.
    """
    layout = base.robot.layout
    kept, regrouped = (list(layout.indices(names)) for names in (base.kept, base.regrouped))
    scale = units.parameters[regrouped] / units.parameters[kept][:, None]
    one, K = W[:, kept], base.K * scale
    rest = W[:, regrouped] - one @ K
    lengths = np.linalg.norm(one, axis=0) + np.finfo(float).tiny
    wrong = np.linalg.norm(rest, axis=0) > _EXACT * np.linalg.norm(W[:, regrouped], axis=0)
    for column in np.flatnonzero(wrong):
        support = np.flatnonzero(K[:, column])
        A = one[:, support] / lengths[support]
        K[support, column] += np.linalg.lstsq(A, rest[:, column], rcond=None)[0] / lengths[support]
    return replace(base, K=K / scale) if wrong.any() else base
