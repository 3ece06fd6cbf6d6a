"""Base parameters without a tolerance: rank and choice of columns modulo large primes, K in floating point.

The regressor's entries are polynomials in the coordinates, in cosines and sines, and in constants. At random points of
a finite field a combination of columns that is zero stays zero, and one that is not is zero by accident only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.base.base_map import BaseMap
from minidyn.base.exact.angles import AngleBasis, constant_angles
from minidyn.base.exact.constant_turns import with_right_angles
from minidyn.base.exact.prime import PRIMES, Field, Residues
from minidyn.base.exact.rank import Echelon, echelon
from minidyn.base.exact.regrouping import regrouping_matrix
from minidyn.base.exact.residue_state import ExactRobot
from minidyn.base.question import Question
from minidyn.base.rows import Entries, energy_entries, torque_entries
from minidyn.errors import MinidynError
from minidyn.model.robot import Robot

FAILURE = 1e-9
"""Accepted probability of a wrong answer."""

_SPARE = 2  # samples that take no part in the elimination and test its result
_TRIES = 8

Words = NDArray[np.uint64]


def exact_base(question: Question, seed: int = 0) -> BaseMap:
    """Return base parameters whose number and choice depend on no tolerance.

    The answer is that of a robot in general position: lengths, gravity, ratios and right angles are what they are,
    multiples of half a degree too; other constant angles are arbitrary but for the relations between them
    (`minidyn.base.exact.angles`).

    It can only be wrong by counting too few, when the largest independent minor vanishes at the random points. A minor
    of b columns has degree at most D = b (8 h + 8) m, with h joints between base and farthest link and m the largest
    multiple at which a follower turns, so that this happens with probability at most D / p for one prime p (the
    Schwartz-Zippel lemma) and (D / p)^k for k primes with points of their own, all of which must agree. k is chosen
    so that this is below 1e-9: two primes for arms, three for trees of thirty joints.

    Samples are enough when further ones obey all relations found: what a sample adds to the rank never grows with the
    number of samples before it.

    Args:
        question: Robot, model, joints that move, columns and their order.
        seed: Of the random points.

    Implements: Gautier1991 eq. (8)-(17), (20) over finite fields.
    """
    robot = question.robot
    found = _structure(question, seed)
    order, first = found.columns, found.forms[0]
    kept, regrouped = [order[k] for k in first.pivots], [order[k] for k in first.others]
    rows, columns = np.argsort(kept), np.argsort(regrouped)
    residues = np.array([form.K for form in found.forms])[:, rows][:, :, columns]
    kept, regrouped = sorted(kept), sorted(regrouped)
    K, notices = regrouping_matrix(question, kept, regrouped, residues, found.primes, seed)
    names = robot.layout.names
    used = {*kept, *regrouped}
    return BaseMap(
        robot=robot,
        method="exact",
        model=question.model,
        kept=tuple(names[k] for k in kept),
        regrouped=tuple(names[k] for k in regrouped),
        eliminated=tuple(name for k, name in enumerate(names) if k not in used),
        K=K,
        joints=question.joints,
        columns=question.columns,
        notices=(*question.notices, *notices),
    )


@dataclass(frozen=True)
class _Structure:
    """Columns that are not zero in order of preference, and the echelon form of each prime."""

    columns: list[int]
    forms: list[Echelon]
    primes: tuple[int, ...]


def _structure(question: Question, seed: int) -> _Structure:
    robot = with_right_angles(question.robot)
    angles = AngleBasis(constant_angles(robot))
    rng = np.random.default_rng(seed)
    per_sample = 1 if question.model == "energy" else max(len(question.moving), 1)
    samples = math.ceil(len(question.asked) / per_sample) + 2
    count = 2
    for _ in range(_TRIES):
        primes = tuple(int(p) for p in rng.permutation(PRIMES)[:count])
        field = Field(primes, samples + _SPARE, rng)
        exact = ExactRobot(robot, field, question.moving, angles)
        count = max(2, _primes_needed(robot, len(question.asked), exact.multiple))
        if count > len(primes):
            continue
        W = _rows(question, exact)  # (primes, samples + spare, rows of a sample, asked)
        used = [k for k in range(W.shape[-1]) if W[..., k].any()]
        forms = []
        rows = samples * W.shape[2]
        for part, prime in zip(W[..., used].reshape(len(primes), W.shape[1] * W.shape[2], len(used)), primes):
            form = echelon(part[:rows], prime)
            if not form.explains(part[rows:]):
                break
            forms.append(form)
        else:
            if all(form.pivots == forms[0].pivots for form in forms):
                return _Structure([question.asked[k] for k in used], forms, primes)
        samples *= 2
    raise MinidynError(f"robot {robot.name!r}: the exact method found no stable rank; please report this robot")


def _primes_needed(robot: Robot, columns: int, multiple: int) -> int:
    """Return how many primes make the probability of a wrong answer small enough."""
    depth = [0] * len(robot.joints)
    for index, joint in enumerate(robot.joints):
        depth[index] = 1 + (depth[joint.parent] if joint.parent >= 0 else 0)
    accident = min(0.1, max(columns, 1) * (8 * max(depth) + 8) * multiple / min(PRIMES))
    return min(len(PRIMES), math.ceil(math.log(FAILURE) / math.log(accident)))


def _rows(question: Question, exact: ExactRobot) -> Words:
    """Return the model's rows at random states (primes, samples, rows of a sample, asked columns)."""
    robot, field = exact.robot, exact.field
    entries: Entries
    if question.model == "energy":
        tree, c = exact.state()
        W = _filled(energy_entries(robot, tree, c), [0], question.asked, field)
        # differences: the height that potential energy is counted from is arbitrary (ERRATA E)
        modulus = field.modulus[..., None, None]
        return (W[:, 1:] + (modulus - W[:, :1])) % modulus
    tree, c = exact.state(dq=question.model == "torque")
    friction = question.model == "torque"
    entries = torque_entries(robot, tree, c, friction, exact.shapes(tree, c) if friction else None)
    return _filled(entries, question.moving, question.asked, field)


def _filled(entries: Entries, rows: Sequence[int], columns: Sequence[int], field: Field) -> Words:
    row_of = {row: k for k, row in enumerate(rows)}
    column_of = {column: k for k, column in enumerate(columns)}
    W = np.zeros((len(field.primes), field.samples, len(rows), len(columns)), dtype=np.uint64)
    for (row, column), value in entries.items():
        if row not in row_of or column not in column_of or (value.__class__ is not Residues and value == 0):
            continue
        residues = value if isinstance(value, Residues) else field.lift(value)
        W[:, :, row_of[row], column_of[column]] = residues.value
    return W
