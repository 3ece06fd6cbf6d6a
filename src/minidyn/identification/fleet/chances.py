"""Chances: a robot's values against those of the others.

All its values together, and slopes over days. Values x_i of robots i, of variances V_i up to a
common factor, are compared with those of the other robots alone: with their mean m, weighted by 1 /
V, and the factor φ by which they scatter about it,

    t² = (x_i - m)² / (V_i + 1 / Σ 1/V) / φ

the square of Student's t with N - 2 degrees of freedom for a robot like the others, N robots in
all, whatever the common factor of V is. Few robots say little of a scatter. Values of one kind at
other joints (friction, offsets, gains) scatter alike in part, each in its own unit (`scale`:
shares, or a joint's friction torque): together they count for a quarter of the robots more, two at
most, so that joints which are not alike after all do little harm. They enter by their scatter
alone, never by V: V comes from a fit in which robot i has its part, and would hide how it differs.

A robot's tests are dependent: its values are correlated, and scatters that are joined are shared by
several tests. The chance that the least of its chances is so small, for a robot like the others, is
counted in draws of values with these correlations and of scatters (Wishart's distribution),
compared by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from minidyn.arrays import Array
from minidyn.identification.friction.shared import alike

ALIKE_SHARE, MAX_ALIKE = 0.25, 2.0
"""Robots that the scatter of the same kind at other joints counts for: a share, and at most."""
DRAWS = 20_000  # size: of a robot like the others
RARE_DRAWS = 200  # size: less likely chances are in proportion to these
DRAWN_FREEDOM = 12  # size: degrees of freedom up to which scatters are drawn as sums of squares


@dataclass(frozen=True, eq=False)
class Others:
    """What the other robots that count say of each one, by value (k, N).

    Attributes:
        mean: Their mean.
        variance: That of the mean.
        factor: By which variances are larger than given ones.
        free: Degrees of freedom of the factor.
    """

    mean: Array
    variance: Array
    factor: Array
    free: Array

    def chance(self, place: Any, number: Any, x: Array, V: Array) -> Array:
        """Return the probabilities of values x of variances V, or of ones further off, were robots
        like the others.
        """
        off = (
            (x - self.mean[place, number]) ** 2
            / (V + self.variance[place, number])
            / self.factor[place, number]
        )
        return np.asarray(fdtrc(1, self.free[place, number], off))


def others(
    x: Array, V: Array, counts: NDArray[np.bool_], kinds: Sequence[str], scale: Array
) -> Others:
    """Return what others that count (N,) say of each robot, of values x and their variances V (k,
    N).

    Values of one of the kinds (k,) scatter alike in units of their scale (k,).
    """
    W = 1.0 / V
    y = x - x[:, counts].mean(axis=1, keepdims=True)
    total = [np.sum(part[:, counts], axis=1, keepdims=True) for part in (W, W * y, W * y**2)]
    weights, pulls, squares = (
        all_ - counts * part for all_, part in zip(total, (W, W * y, W * y**2))
    )
    free = np.maximum(
        np.sum(counts) - counts - 1.0, 1.0
    )  # others that count, beside their mean (N,)
    own = np.maximum(squares - pulls**2 / weights, 1e-12) / free
    usual = (
        np.sum(counts) / total[0] / scale[:, None] ** 2
    )  # variances in units of the scale (k, 1)
    scatter, degrees = _joined(own * usual, kinds, np.broadcast_to(free, own.shape))
    return Others(x - y + pulls / weights, 1.0 / weights, scatter / usual, degrees)


def _joined(scatter: Array, kinds: Sequence[str], free: Array) -> tuple[Array, Array]:
    """Return scatters (k, ...), those of one kind joined in part, and degrees of freedom where they
    are alike.
    """
    made, degrees = np.empty_like(scatter), np.empty_like(scatter)
    for same in alike(kinds).values():
        f = free[same]
        more = np.minimum(ALIKE_SHARE * f, MAX_ALIKE)
        made[same] = (f * scatter[same] + more * scatter[same].mean(axis=0)) / (f + more)
        mine, rest = ((f * one + more / len(same)) / (f + more) for one in (1.0, 0.0))
        degrees[same] = f / (mine**2 + (len(same) - 1) * rest**2)  # Satterthwaite's
    return made, degrees


class Together:
    """All chances of a robot as one.

    Args:
        correlation: Of its values (k, k).
        kinds: Of them (k,).
        free: Degrees of freedom of the scatter of each.
    """

    def __init__(self, correlation: Array, kinds: Sequence[str], free: int) -> None:
        rng = np.random.default_rng(0)

        def draws(correlation: Array) -> Array:
            values, vectors = np.linalg.eigh(correlation)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            return np.asarray(root @ rng.standard_normal((len(root), DRAWS)))

        x = draws(correlation)
        if free <= DRAWN_FREEDOM:
            scatter = sum((draws(correlation) ** 2 for _ in range(free)), np.zeros_like(x)) / free
        else:  # Wilson and Hilferty's; two such sums are correlated by the square
            scatter = (
                np.maximum(
                    1 - 2 / (9 * free) + np.sqrt(2 / (9 * free)) * draws(correlation**2), 1e-4
                )
                ** 3
            )
        scatter, degrees = _joined(scatter, kinds, np.full_like(x, free))
        # of one kind degrees of freedom are the same: the largest is the least likely
        each = [
            fdtrc(1, degrees[same[0]], (x[same] ** 2 / scatter[same]).max(axis=0))
            for same in alike(kinds).values()
        ]
        self.least = np.sort(np.min(each, axis=0))  # of each draw, in order
        self.rare, self.limit = RARE_DRAWS / DRAWS, float(self.least[RARE_DRAWS - 1])

    def chance(self, least: Array) -> Array:
        """Return the probability that the least chance of a robot like the others is as small as
        these.
        """
        seen = np.searchsorted(self.least, least, side="right") / DRAWS
        return np.asarray(np.where(least < self.limit, self.rare * least / self.limit, seen))

    def each(self, level: float) -> float:
        """Return the chance of a single test that makes so large a chance of all."""
        return (
            float(np.quantile(self.least, level))
            if level >= self.rare
            else level / self.rare * self.limit
        )


def trend(dates: Sequence[Any], values: Array) -> tuple[Array, Array, Array]:
    """Return slopes (joints,) of values (days, joints) by day, their standard deviations, and
    chances of as much.
    """
    days = np.array([date.toordinal() for date in dates], dtype=float)
    x = days - days.mean()
    slope = x @ values / float(x @ x)
    left = values - values.mean(axis=0) - np.outer(x, slope)
    free = len(days) - 2
    std = np.sqrt(np.sum(left**2, axis=0) / free / float(x @ x))
    F = (slope / np.maximum(std, 1e-300)) ** 2
    return slope, std, np.asarray(fdtrc(1, free, F))
