"""Constant angles of a robot as sums of a few independent ones, so that every relation between them is kept.

Exact arithmetic replaces a constant angle by a random point of the circle. Two axes that are parallel because one link
turns by 0.3 rad and the next by -0.3 rad must stay parallel, so angles that are sums of others become sums of their
points: same, opposite, supplement, complement, halves, doubles, sums. What is left independent is general.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from minidyn.base.exact.prime import UNITS
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
    """An angle as units · half a degree + Σ sixths · (basis angle)/6.

    Attributes:
        units: Whole half degrees, 0 ... 719.
        terms: (index of the basis angle, how many sixths of it).
    """

    units: int
    terms: tuple[tuple[int, int], ...] = ()


class AngleBasis:
    """Independent angles, and every angle seen so far as a sum of them.

    A relation is only believed where it can hardly be an accident: with many angles there are many sums, and the
    tolerance shrinks from 1e-9 rad so that an accidental one has a probability below 1e-5 for each angle. Where it
    happens, only a robot whose structure hangs on that very sum is misjudged.
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
                return AngleSum(units % UNITS, tuple((int(i), int(k) * PARTS // divisor) for i, k in own))
        self.basis.append(angle)
        return AngleSum(0, ((len(self.basis) - 1, PARTS),))


@lru_cache(maxsize=64)
def _sums(size: int, terms: int, multiple: int, divisor: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return (basis indices (s, terms), factors (f, terms)) of the sums of one kind; none where there are too many."""
    choices = [k for k in range(-multiple, multiple + 1) if k]
    factors = [f for f in itertools.product(choices, repeat=terms) if divisor == 1 or math.gcd(divisor, *f) == 1]
    if math.comb(size, terms) * len(factors) > _SEARCH:
        return np.zeros((0, terms), dtype=np.intp), np.array(factors, dtype=float)
    indices = list(itertools.combinations(range(size), terms))
    return np.array(indices, dtype=np.intp).reshape(-1, terms), np.array(factors, dtype=float)


def constant_angles(robot: Robot) -> list[float]:
    """Return every constant angle of a robot: placements, joint offsets, offsets of followers that turn."""
    found = [step.value for step in robot.base if step.is_turn]
    for joint in robot.joints:
        found += [step.value for step in (*joint.before, *joint.after) if step.is_turn]
        if joint.turns and joint.follows is not None:
            found.append(joint.follows.offset)
    return found
