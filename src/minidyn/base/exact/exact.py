"""Base parameters without a tolerance: rank and choice of columns modulo large primes, K in floating point.

The regressor's entries are polynomials in the coordinates, in cosines and sines, and in constants. At random points of
a finite field a combination of columns that is zero stays zero, and one that is not is zero by accident only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap, Question
from minidyn.base.exact.angles import AngleBasis, constant_angles
from minidyn.base.exact.constant_turns import with_right_angles
from minidyn.base.exact.prime import PRIMES, Echelon, Field, echelon
from minidyn.base.exact.regrouping import regrouping_matrix
from minidyn.base.exact.residue_state import ExactRobot
from minidyn.base.rows import Kind, energy_rows, torque_rows
from minidyn.errors import MinidynError
from minidyn.model.robot import Robot

FAILURE = 1e-9
"""Accepted probability of a wrong answer."""

_SPARE = 2  # samples that take no part in the elimination and test its result
_TRIES = 8


def exact_base(question: Question, seed: int = 0) -> BaseMap:
    """Return base parameters whose number and choice depend on no tolerance.

    The answer is that of a robot in general position: lengths, gravity, ratios and right angles are what they are,
    multiples of half a degree too; other constant angles are arbitrary but for the relations between them
    (`minidyn.base.exact.angles`).

    It can only be wrong by counting too few, when the largest independent minor vanishes at the random points. A minor
    of b columns has degree at most D = b (8 h + 8) m, with h joints between base and farthest link and m the largest
    multiple at which a follower turns, so that this happens with probability at most D / p for one prime p (the
    Schwartz-Zippel lemma) and (D / p)^k for k primes with points of their own, all of which must agree. k is chosen
    so that this is below 1e-9: three primes for arms, four for trees of thirty joints.

    Samples are enough when further ones obey all relations found: what a sample adds to the rank never grows with the
    number of samples before it.

    Args:
        question: Robot, model, joints that move, columns and their order.
        seed: Of the random points.

    Implements: Gautier1991 eq. (8)-(17), (20) over finite fields.
    """
    found = _structure(question, seed)
    kept, regrouped = ([found.columns[k] for k in part] for part in (found.form.pivots, found.form.others))
    residues = found.form.K[:, np.argsort(kept)][:, :, np.argsort(regrouped)]
    kept, regrouped = sorted(kept), sorted(regrouped)
    K, notices = regrouping_matrix(question, kept, regrouped, residues, found.primes, seed)
    return question.answer("exact", kept, regrouped, K, notices=notices)


@dataclass(frozen=True)
class _Structure:
    """Columns that are not zero in order of preference, and their echelon form modulo primes."""

    columns: list[int]
    form: Echelon
    primes: tuple[int, ...]


def _structure(question: Question, seed: int) -> _Structure:
    robot = with_right_angles(question.robot)
    angles = AngleBasis(constant_angles(robot))
    rng = np.random.default_rng(seed)
    per_sample = 1 if question.model == "energy" else max(len(question.moving), 1)
    samples = math.ceil(len(question.asked) / per_sample) + 2
    count = 3
    for _ in range(_TRIES):
        primes = tuple(int(p) for p in rng.permutation(PRIMES)[:count])
        field = Field(primes, samples + _SPARE, rng)
        exact = ExactRobot(robot, field, question.moving, angles)
        count = _primes_needed(robot, len(question.asked), exact.multiple)
        if count > len(primes):
            continue
        W = _rows(question, exact)[..., list(question.asked)]  # (primes, spare + samples, rows of a sample, asked)
        used = np.flatnonzero(W.any(axis=(0, 1, 2)))
        spare, rest = W[:, :_SPARE, :, used], W[:, _SPARE:, :, used]
        # joint by joint: rows of a joint that does not feel a link stand together
        parts = [
            part.reshape(len(primes), part.shape[1] * part.shape[2], len(used)) for part in (spare, rest.swapaxes(1, 2))
        ]
        form = echelon(np.concatenate(parts, axis=1), field, parts[0].shape[1])
        if form is not None:
            return _Structure([question.asked[k] for k in used], form, primes)
        samples *= 2
    raise MinidynError(f"robot {robot.name!r}: the exact method found no stable rank; please report this robot")


def _primes_needed(robot: Robot, columns: int, multiple: int) -> int:
    """Return how many primes make the probability of a wrong answer small enough."""
    depth = [0] * len(robot.joints)
    for index, joint in enumerate(robot.joints):
        depth[index] = 1 + (depth[joint.parent] if joint.parent >= 0 else 0)
    accident = min(0.1, max(columns, 1) * (8 * max(depth) + 8) * multiple / min(PRIMES))
    return min(len(PRIMES), math.ceil(math.log(FAILURE) / math.log(accident)))


def _rows(question: Question, exact: ExactRobot) -> Array:
    """Return the model's rows at random states (primes, samples, rows of a sample, columns)."""
    robot, field = exact.robot, exact.field
    kind = Kind((len(field.primes), field.samples), float, field.reduced, field.raw)
    if question.model == "energy":
        tree, c = exact.state()
        W = energy_rows(robot, tree, c, kind)
        # differences: the height that potential energy is counted from is arbitrary (ERRATA E)
        return field.reduced(W[:, 1:] - W[:, :1])[:, :, None]
    tree, c = exact.state(dq=question.model == "torque")
    friction = question.model == "torque"
    W = torque_rows(robot, tree, c, kind, friction, exact.shapes(tree, c) if friction else None)
    return W[:, :, list(question.moving)]
