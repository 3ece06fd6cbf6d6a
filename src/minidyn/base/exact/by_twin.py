"""Exact base parameters of robots whose frames hide special geometry, or whose geometry is nearly special.

The canonical twin (`minidyn.base.canonical`) shows every relation between axes to exact arithmetic. Its base parameters
span the same rows as those of the robot's own parameters, so that with the linear map T between the two the rank is
known and the choice among the robot's own parameters is a matter of well-conditioned elimination.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.base.base_map import BaseMap, Question
from minidyn.base.canonical import ROUNDING, Canonical, canonical
from minidyn.base.exact.exact import (
    CLEAR,
    INEXACT_RELATIONS,
    RESIDUAL,
    Solved,
    exact_base,
    observed_rows,
    sizes_of,
    spread_of,
)
from minidyn.base.numeric.row_space import in_leaders, leaders
from minidyn.base.numeric.samples import units_of
from minidyn.base.tolerance import COUNTS_DIFFER, Answer, decided, nearly_special

_SOUND = 1e-7  # of kept columns of the robot's own frames: less is not told from zero by eigenvalues
_SHORTEST = 1e-3  # share of the longest column that errors of shorter ones are compared with
_TOLD = 1e-11  # of kept columns by singular values
_NOISE = 1e-12  # entries of rows without units that are rounding of zeros


def hidden_base(question: Question, plain: Solved, seed: int, tolerance: float) -> BaseMap:
    """Return base parameters where the answer `plain` of the robot's own frames is not confirmed by floating point.

    Relations between axes that hold within the tolerance (rad, and share of the robot's size) hold exactly.
    """
    holds = plain.apart <= RESIDUAL
    if holds and any(joint.follows for joint in question.robot.joints):
        W = observed_rows(question, seed, many=True)[1]
        plain = replace(plain, spread=spread_of(W[:, list(question.robot.layout.indices(plain.base.kept))]))
    if holds and plain.spread > CLEAR:
        return plain.base
    sound = holds and plain.spread > _SOUND
    near = nearly_special(question.robot, tolerance)
    if sound and not near:
        return plain.base
    written = plain.base if sound else _by_twin(question, seed, ROUNDING).base
    if holds and written.rank == plain.base.rank:
        written = plain.base
    return decided(question, tolerance, near, written, lambda t: _by_twin(question, seed, t))


def _by_twin(question: Question, seed: int, tolerance: float) -> Answer:
    """Return base parameters of the robot with what is special within a tolerance exactly so."""
    robot = question.robot
    found = canonical(robot, tolerance)
    units = units_of(robot)
    twin = exact_base(replace(question, robot=found.twin, columns=None, order=None), seed, units)
    rows = twin.base.matrix @ found.T
    sizes = np.abs(rows * units.parameters)
    rows = np.where(sizes < _NOISE * sizes.max(axis=1, keepdims=True, initial=0.0), 0.0, rows)
    asked = list(question.asked)
    chosen, _ = leaders(rows[:, asked], units.parameters[asked], whole=question.columns is None)
    matrix = np.zeros((len(chosen), len(robot.layout)))
    matrix[:, asked] = in_leaders(rows[:, asked], chosen, units.parameters[asked], _NOISE)
    places = [asked[k] for k in chosen]
    order = np.argsort(places)
    matrix, kept = matrix[order], sorted(places)
    regrouped = [int(k) for k in np.flatnonzero(matrix.any(axis=0)) if k not in set(kept)]
    base = question.answer("exact", kept, regrouped, matrix[:, regrouped])
    return Answer(_confirmed(base, question, found, seed), found.relations)


def _confirmed(base: BaseMap, question: Question, found: Canonical, seed: int) -> BaseMap:
    """Return the map where floating point confirms it at random states; else with a notice, by QR where that is clear.

    Relations must hold and kept columns must be told apart: then the numeric rank is the same.
    """
    own = replace(question, robot=found.in_own_frames())
    units, W = observed_rows(own, seed, units_of(question.robot), many=True)
    layout = question.robot.layout
    kept, regrouped = (list(layout.indices(names)) for names in (base.kept, base.regrouped))
    longest = float(np.linalg.norm(W[:, list(question.asked)], axis=0).max(initial=0.0)) or 1.0
    one, two = W[:, kept], W[:, regrouped]
    K = base.K * units.parameters[regrouped] / units.parameters[kept][:, None]
    # against the longest column, too: one that is hardly there need not be right to its last digit
    apart = np.linalg.norm(two - one @ K, axis=0) / (sizes_of(one, two, K) + _SHORTEST * longest)
    others = sorted({*question.asked} - {*kept, *regrouped})
    rest = float(np.linalg.norm(W[:, others], axis=0).max(initial=0.0)) / longest
    values = np.linalg.svd(one / np.linalg.norm(one, axis=0), compute_uv=False) if kept else np.ones(1)
    error = max(float(apart.max(initial=0.0)), rest)
    if error <= RESIDUAL and values[-1] > _TOLD * values[0]:
        return base
    from minidyn.base.numeric.numeric import CLEAR_GAP, numeric_base  # seldom needed

    other = numeric_base(own, "qr", seed)
    clear = other.gap >= CLEAR_GAP
    if other.rank == base.rank:
        if error <= RESIDUAL:
            return base
        text = f"the relations of exact arithmetic hold in floating point only to {error:.1e}"
        notice = INEXACT_RELATIONS(f"{text}; those of QR are taken" if clear else text, error=error)
    else:
        text = f"exact arithmetic finds {base.rank} base parameters, QR {other.rank} (gap {other.gap:.1e})"
        text += f"; the answer is that of {'QR' if clear else 'exact arithmetic'}"
        notice = COUNTS_DIFFER(text, exact=base.rank, qr=other.rank, gap=float(other.gap))
    if clear:
        base = replace(other, robot=question.robot, method="exact")
    return replace(base, notices=(*base.notices, notice))
