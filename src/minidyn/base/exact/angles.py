"""Constant angles of a robot in exact arithmetic.

Every relation between them is kept, hidden right angles are found. Exact arithmetic replaces a
constant angle by a random point of the circle. Two axes that are parallel because one link turns by
0.3 rad and the next by -0.3 rad must stay parallel, so angles that are sums of others become sums
of their points: same, opposite, supplement, complement, halves, doubles, sums. What is left
independent is general.

A file may give a frame by roll, pitch and yaw although one of its axes is exactly perpendicular to
one of its parent's. Three angles that stand for themselves in exact arithmetic would lose that.
With an entry R_ij = 0 the rotation is a turn about axis i, a right angle and a turn about axis j,
and there the right angle is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from minidyn.base.exact.prime import UNITS
from minidyn.model.geometry import AXES, Step, Steps, inverse_steps, matrix_of
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot

TOLERANCE = 1e-9  # rad: angles that agree to this are the same
PARTS = 6  # a basis angle can be halved and divided by three
_UNIT = 2 * math.pi / UNITS
_FIFTEEN = math.pi / 12
_ACCIDENT = 1e-5  # accepted probability that a kind of relation holds by accident
_SEARCH = 20_000  # sums tried for one angle and kind of relation
# (number of terms, largest multiple, common divisor): the simplest relations first
_KINDS = ((1, 3, 1), (2, 2, 1), (3, 1, 1), (1, 3, 2), (1, 3, 3), (2, 2, 2), (2, 1, 3))


@dataclass(frozen=True, slots=True)
class AngleSum:
    """An angle as units · half a degree + Σ sixths · (basis angle)/6."""

    units: int  # whole half degrees, 0 ... 719
    terms: tuple[tuple[int, int], ...] = ()  # (index of the basis angle, how many sixths of it)


class AngleBasis:
    """Independent angles, and every angle seen so far as a sum of them.

    A relation is accepted only where it can hardly be an accident: with many angles there are many
    sums, and the tolerance shrinks from 1e-9 rad so that an accidental one has a probability below
    1e-5 for each angle. Where it happens, only a robot whose structure hangs on that very sum is
    misjudged.
    """

    def __init__(self, angles: Iterable[float] = ()) -> None:
        self.basis: list[float] = []
        self._known: dict[float, AngleSum] = {}
        for angle in angles:
            self.express(angle)

    def express(self, angle: float) -> AngleSum:
        """Return the angle as a sum; one that is independent of all before joins the basis."""
        found = self._known.get(angle)
        if found is None:
            found = self._known[angle] = self._search(angle)
        return found

    def _search(self, angle: float) -> AngleSum:
        units = round(angle / _UNIT)
        if abs(angle - units * _UNIT) < TOLERANCE:
            return AngleSum(units % UNITS)
        for terms, multiple, divisor in _KINDS:
            indices, factors = _sums(len(self.basis), terms, multiple, divisor)
            if len(indices) == 0:
                continue
            step = _FIFTEEN / divisor
            tolerance = min(TOLERANCE, _ACCIDENT * step / (2 * len(indices) * len(factors)))
            rest = angle - (np.array(self.basis)[indices] @ factors.T) / divisor
            off = np.abs(rest - np.round(rest / step) * step)
            best = np.unravel_index(int(np.argmin(off)), off.shape)
            if off[best] < tolerance:
                units = round(float(rest[best]) / step) * round(step / _UNIT)
                own = zip(indices[best[0]], factors[best[1]])
                return AngleSum(
                    units % UNITS, tuple((int(i), int(k) * PARTS // divisor) for i, k in own)
                )
        self.basis.append(angle)
        return AngleSum(0, ((len(self.basis) - 1, PARTS),))


@lru_cache(maxsize=64)
def _sums(
    size: int, terms: int, multiple: int, divisor: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return (basis indices (s, terms), factors (f, terms)) of the sums of one kind.

    None where there are too many.
    """
    choices = [k for k in range(-multiple, multiple + 1) if k]
    factors = [
        f
        for f in itertools.product(choices, repeat=terms)
        if divisor == 1 or math.gcd(divisor, *f) == 1
    ]
    if math.comb(size, terms) * len(factors) > _SEARCH:
        return np.zeros((0, terms), dtype=np.intp), np.array(factors, dtype=float)
    indices = list(itertools.combinations(range(size), terms))
    return np.array(indices, dtype=np.intp).reshape(-1, terms), np.array(factors, dtype=float)


def constant_angles(robot: Robot) -> list[float]:
    """Return every constant angle of a robot.

    Placements, joint offsets, offsets of followers that turn.
    """
    found = [step.value for step in robot.base if step.is_turn]
    for joint in robot.joints:
        found += [step.value for step in (*joint.before, *joint.after) if step.is_turn]
        if joint.turns and joint.follows is not None:
            found.append(joint.follows.offset)
    return found


ZERO = 1e-9
_RIGHT = math.pi / 2


def with_right_angles(robot: Robot) -> Robot:
    """Return the same robot with hidden right angles of its constant placements written out."""
    joints = tuple(_joint(joint) for joint in robot.joints)
    base = _steps(robot.base)
    same = base == robot.base and joints == robot.joints
    return robot if same else replace(robot, joints=joints, base=base)


def _joint(joint: Joint) -> Joint:
    # turns that `after` takes back belong together with it and are left as they are
    own = len(joint.after)
    shared = own if own and joint.before[-own:] == inverse_steps(joint.after) else 0
    split = len(joint.before) - shared
    before = (*_steps(joint.before[:split]), *joint.before[split:])
    after = joint.after if shared else _steps(joint.after)
    return (
        joint
        if (before, after) == (joint.before, joint.after)
        else replace(joint, before=before, after=after)
    )


def _steps(steps: Sequence[Step]) -> Steps:
    found: list[Step] = []
    for turning, group in groupby(steps, key=lambda step: step.is_turn):
        run = tuple(group)
        found += _run(run) if turning and _oblique(run) > 2 else run
    return tuple(found)


def _run(run: Steps) -> Steps:
    """Return successive turns as two turns and a right angle where their product allows it, else
    unchanged.
    """
    R = matrix_of(run)[:3, :3]
    best = run
    for i, j in zip(*np.nonzero(np.abs(R) < ZERO)):
        found = _through_right_angle(R, int(i), int(j))
        if _oblique(found) < _oblique(best):
            best = found
    return best


def _through_right_angle(R: NDArray[np.float64], i: int, j: int) -> Steps:
    """Return R = T_i(a) C T_j(b) for a rotation with R_ij = 0.

    C takes axis j to the one after i by right angles.
    """
    k, m = (i + 1) % 3, (i + 2) % 3
    first = Step("r" + AXES[i], _snapped(math.atan2(R[m, j], R[k, j])))
    middle: Steps = ()
    if j == i:  # C takes axis i to axis k by a turn about m
        middle = (Step("r" + AXES[m], _RIGHT),)
    elif j == m:  # ... and axis m to axis k by a turn back about i
        middle = (Step("r" + AXES[i], -_RIGHT),)
    rest = matrix_of((first, *middle))[:3, :3].T @ R
    p, q = (j + 1) % 3, (j + 2) % 3
    return (first, *middle, Step("r" + AXES[j], _snapped(math.atan2(rest[q, p], rest[p, p]))))


def _snapped(angle: float) -> float:
    nearest = round(angle / _RIGHT) * _RIGHT
    return nearest if abs(angle - nearest) < ZERO else angle


def _oblique(run: Sequence[Step]) -> int:
    """Number of turns that are no multiples of a right angle."""
    return sum(_snapped(step.value) != round(step.value / _RIGHT) * _RIGHT for step in run)
