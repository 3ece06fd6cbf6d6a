"""Base parameters without a tolerance.

Rank and choice of columns modulo large primes, K in floating point. The regressor's entries are
polynomials in the coordinates, in cosines and sines, and in constants. At random points of a finite
field a combination of columns that is zero stays zero, and one that is not is zero by accident
only. The regrouping matrix K follows from its structure: exact zeros, exact rationals, and the rest
by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap, Question
from minidyn.base.check import relation_error
from minidyn.base.exact.angles import AngleBasis, constant_angles, with_right_angles
from minidyn.base.exact.prime import PRIMES, Echelon, Field, chinese_remainder, echelon, rational
from minidyn.base.exact.residue_state import ExactRobot, ExactShapes
from minidyn.base.numeric.samples import Units, random_states, stretch_of, unitless_rows, units_of
from minidyn.base.rows import MODELS, Arithmetic
from minidyn.errors import MinidynError
from minidyn.model.robot import Robot

FAILURE = 1e-9
"""Accepted probability of a wrong answer."""

_SPARE = 2  # samples that take no part in the elimination and test its result
_TRIES = 8
_BASE_DEPTH = 6  # joints that a free base counts as in degrees of polynomials


@dataclass(frozen=True)
class Solved:
    """Base parameters by exact arithmetic, and what floating point says to them at random
    states.
    """

    base: BaseMap
    apart: float  # largest error of a relation, against the size of its terms
    error: float  # the same against the size of its column
    # smallest over largest singular value of the kept columns, of one length; seen down to about
    # 1e-8
    spread: float


def exact_base(question: Question, seed: int = 0, units: Units | None = None) -> Solved:
    """Return base parameters whose number and choice depend on no tolerance, on geometry as its
    steps show it.

    The answer is that of a robot in general position: lengths, gravity, ratios and right angles are
    what they are, multiples of half a degree too; other constant angles are arbitrary but for the
    relations between them (`minidyn.base.exact.angles`).

    It can only be wrong by counting too few, when the largest independent minor vanishes at the
    random points. A minor of b columns has degree at most D = b (8 h + 8) m, with h joints between
    base and farthest link and m the largest multiple at which a follower turns, so that this
    happens with probability at most D / p for one prime p (the Schwartz-Zippel lemma) and (D / p)^k
    for k primes with points of their own, all of which must agree. k is chosen so that this is
    below 1e-9: three primes for arms, four for trees of thirty joints.

    Samples are enough when further ones obey all relations found: what a sample adds to the rank
    never grows with the number of samples before it.

    Floating point confirms both halves of the answer: relations hold at random states, and kept
    columns can be told apart there. Frames that hide special geometry fail the second test (see
    `by_twin`).

    Implements: Gautier1991 eq. (8)-(17), (20) over finite fields.
    """
    columns, form = _structure(question, seed)
    kept, regrouped = ([columns[k] for k in part] for part in (form.pivots, form.others))
    residues = form.K[:, np.argsort(kept)][:, :, np.argsort(regrouped)]
    kept, regrouped = sorted(kept), sorted(regrouped)
    units, W = observed_rows(question, seed, units)
    K, apart = regrouping_matrix(
        question, kept, regrouped, residues, form.field.primes, units, W, seed
    )
    base = question.answer("exact", kept, regrouped, K)
    return Solved(
        base,
        float(apart.max(initial=0.0)),
        relation_error(W, base, units.parameters),
        spread_of(W[:, kept]),
    )


def spread_of(A: Array) -> float:
    """Return the smallest over the largest singular value of columns made of one length.

    1.0 for none. Columns much shorter than others stay short: they may be zero but for geometry
    that is nearly special. From the eigenvalues of their inner products, which is quick and enough
    to see values down to about 1e-8.
    """
    if not A.size:
        return 1.0
    lengths = np.linalg.norm(A, axis=0)
    if not np.isfinite(lengths).all():
        return 0.0
    A = A / np.maximum(lengths, 0.1 * lengths.max() + np.finfo(float).tiny)
    values = np.linalg.eigvalsh(A.T @ A)
    return math.sqrt(max(float(values[0]), 0.0) / float(values[-1]))


def _structure(question: Question, seed: int) -> tuple[list[int], Echelon]:
    """Return the columns that are not zero in order of preference, and their echelon form modulo
    primes.
    """
    robot = with_right_angles(question.robot)
    angles = AngleBasis(constant_angles(robot))
    rng = np.random.default_rng(seed)
    per_sample = question.rows_of_sample
    samples = math.ceil(len(question.asked) / per_sample) + 2
    count = 3
    for _ in range(_TRIES):
        primes = tuple(int(p) for p in rng.permutation(PRIMES)[:count])
        field = Field(primes, samples + _SPARE, rng)
        exact = ExactRobot(robot, field, question.moving, angles)
        count = _primes_needed(robot, len(question.asked), exact.multiple)
        if count > len(primes):
            continue
        W = _rows(question, exact)[
            ..., list(question.asked)
        ]  # (primes, spare + samples, rows of a sample, asked)
        used = np.flatnonzero(W.any(axis=(0, 1, 2)))
        # joint by joint: rows of joints that do not feel a link stand together
        parts = W[:, _SPARE:, :, used].swapaxes(1, 2), W[:, :_SPARE, :, used]
        rows, spare = (
            part.reshape(len(primes), part.shape[1] * part.shape[2], len(used)) for part in parts
        )
        form = echelon(rows, field)
        if form is not None and form.explains(spare):
            return [question.asked[k] for k in used], form
        samples *= 2
    raise MinidynError(
        f"robot {robot.name!r}: the exact method found no stable rank; please report this robot"
    )


def _primes_needed(robot: Robot, columns: int, multiple: int) -> int:
    """Return how many primes make the probability of a wrong answer small enough."""
    depth = [0] * len(robot.joints)
    for index, joint in enumerate(robot.joints):
        depth[index] = 1 + (depth[joint.parent] if joint.parent >= 0 else 0)
    depth = [steps + _BASE_DEPTH * robot.free_base for steps in depth]
    accident = min(0.1, max(columns, 1) * (8 * max(depth) + 8) * multiple / min(PRIMES))
    return min(len(PRIMES), math.ceil(math.log(FAILURE) / math.log(accident)))


def _rows(question: Question, exact: ExactRobot) -> Array:
    """Return the model's rows at random states (primes, samples, rows of a sample, columns)."""
    robot, field = exact.robot, exact.field
    kind = Arithmetic((len(field.primes), field.samples), float, field.reduced, field.raw)
    model = MODELS[question.model]
    tree, c = exact.state(dq=model.speeds)
    W = model.rows(robot, tree, c, kind, ExactShapes(exact, tree, c) if model.friction else None)
    if model.differences:
        W = field.reduced(W[:, 1:] - W[:, :1])
    return W[:, :, list(question.observed)] if model.each_joint else W


RESIDUAL = 1e-9
"""Relations must hold to this, relative to the size of the columns, at random states in floating
point.
"""

CONDITION = 1e5
"""Columns that are harder to tell apart than this are solved for in sixty digits."""

CLEAR = 1e-2
"""Kept columns that are told apart this well hide nothing.

Geometry that is special within 1e-3 leaves less.
"""


def regrouping_matrix(
    question: Question,
    kept: Sequence[int],
    regrouped: Sequence[int],
    residues: Array,
    primes: tuple[int, ...],
    units: Units,
    W: Array,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Return K (b, d) with column[regrouped] = column[kept] K, and the error of each column (d,)
    against its size.

    An entry that is zero modulo every prime is zero. One that is the same simple fraction modulo
    all of them, such as 29/100, is that fraction. The others depend on constant angles and are
    solved for in floating point, column by column on the few kept columns that the structure leaves
    (in sixty digits where those are hard to tell apart), and everything is tested at random states,
    whose rows (r, p) in the given units are W. Residues are K modulo each prime (primes, b, d).

    Implements: Gautier1991 eq. (17).
    """
    shape = (len(kept), len(regrouped))
    if 0 in shape:
        return np.zeros(shape), np.zeros(0)
    nonzero: NDArray[np.bool_] = np.asarray(residues.any(axis=0))
    K, known = _rationals(residues, nonzero, primes)
    one, two = W[:, kept], W[:, regrouped]
    scale = (
        units.parameters[list(kept)][:, None] / units.parameters[list(regrouped)]
    )  # K in SI over K of the matrix W
    apart = np.linalg.norm(two - one @ (K / scale), axis=0) / sizes_of(one, two, K / scale)
    doubtful = {}
    for k in np.flatnonzero(~((apart < RESIDUAL) & known.all(axis=0))):
        solved = K[:, k] / scale[:, k]
        for free in (nonzero[:, k] & ~known[:, k], nonzero[:, k]):
            solved, condition = _solve(one, two[:, k], solved, np.flatnonzero(free))
            apart[k] = np.linalg.norm(two[:, k] - one @ solved) / sizes_of(one, two[:, k], solved)
            if apart[k] <= RESIDUAL:  # else a fraction was an accident: solve for all entries
                break
        K[:, k] = solved * scale[:, k]
        if condition > CONDITION:
            doubtful[int(k)] = np.flatnonzero(nonzero[:, k])
    if doubtful and apart.max() < RESIDUAL:
        from minidyn.base.exact.precise import (
            solve_precisely,
        )  # seldom needed, and sixty digits start slowly

        better = solve_precisely(
            question, kept, {regrouped[k]: rows for k, rows in doubtful.items()}, seed
        )
        for column, support in doubtful.items():
            K[support, column] = better.get(regrouped[column], K[support, column])
    return K, apart


def _rationals(
    residues: Array, nonzero: NDArray[np.bool_], primes: tuple[int, ...]
) -> tuple[Array, NDArray[np.bool_]]:
    """Return K where its entries are simple fractions, and which entries are known (zeros
    included).
    """
    K = np.zeros(nonzero.shape)
    known = ~nonzero
    seen: dict[tuple[int, ...], float | None] = {}
    where = np.nonzero(nonzero)
    for i, j, key in zip(
        *where, map(tuple, residues[:, where[0], where[1]].T.astype(int).tolist())
    ):
        if key not in seen:
            fraction = rational(*chinese_remainder(list(key), primes))
            seen[key] = None if fraction is None else fraction[0] / fraction[1]
        value = seen[key]
        if value is not None:
            K[i, j], known[i, j] = value, True
    return K, known


def observed_rows(
    question: Question, seed: int, units: Units | None = None, many: bool = False
) -> tuple[Units, Array]:
    """Return units (None: the robot's own) and rows of the model in them, (rows, p).

    There are more rows than columns; with `many` so many of each joint, for leaders that move most
    of a robot.
    """
    robot = question.robot
    units = units_of(robot) if units is None else units
    count = math.ceil((len(robot.layout) + 16) / (1 if many else question.rows_of_sample))
    count *= 2 if MODELS[question.model].differences else 1
    states = random_states(robot, units, count, (seed, 1), question.moving, stretch_of(robot))
    W = unitless_rows(robot, question.model, states, units, question.observed)
    return units, W.reshape(-1, W.shape[-1])


def sizes_of(one: Array, two: Array, K: Array) -> Array:
    """Length of each column and of the terms it is the sum of: what a difference must be compared
    with.
    """
    sizes: Array = (
        np.linalg.norm(np.abs(two) + np.abs(one) @ np.abs(K), axis=0) + np.finfo(float).tiny
    )
    return sizes


def _solve(one: Array, target: Array, start: Array, free: NDArray[np.intp]) -> tuple[Array, float]:
    """Solve one x = target for the entries `free` of x, the others as in `start`.

    Also return their condition.
    """
    x = start.copy()
    x[free] = 0.0
    A = one[:, free]
    length = (
        np.linalg.norm(A, axis=0) + np.finfo(float).tiny
    )  # a column that only frames hide the zeros of
    rest = target - one @ x
    condition = 1.0
    for _ in range(2):  # the second pass solves for what rounding left of the first
        change, _, _, sigma = np.linalg.lstsq(A / length, rest, rcond=None)
        change /= length
        x[free] += change
        rest -= A @ change
        condition = float(sigma[0] / max(sigma[-1], np.finfo(float).tiny)) if len(sigma) else 1.0
    return x, condition
