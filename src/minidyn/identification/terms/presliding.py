"""Presliding: after a reversal friction builds up over a travel, like a spring that slips."""

from __future__ import annotations

import math
from collections.abc import Sequence

from minidyn.arrays import Array
from minidyn.identification.data import Data
from minidyn.identification.terms.effect import Effect
from minidyn.model.drives import Drive

TRAVELS = (2e-4, 5e-4, 1.2e-3, 3e-3, 8e-3, 2e-2, 5e-2)
"""Grid of travels, rad or m: from stiff bearings to soft gears of large robots."""

MIN_SMEAR = 3.0
"""Times the travel over which the low-pass spreads a reversal: less cannot be told from it."""


class Presliding(Effect):
    """Friction that builds up after a reversal."""

    def shapes(self, data: Data, joint: int, drive: Drive, residual: Array) -> Sequence[float]:
        """Return travels that the low-pass does not hide."""
        least = min_travel(data, joint)
        return [travel for travel in TRAVELS if travel >= least] or [least]

    def narrower(self) -> Sequence[float]:
        """Return shares of the smoothing width: presliding explains some of what it had to."""
        return (1.0, 0.3, 0.0)


def min_travel(data: Data, joint: int) -> float:
    """Return the travel, rad or m, over which the low-pass of the torques spreads a reversal."""
    if not data.cutoff:
        return 0.0
    spread = float(data.accelerations[joint]) / (2.0 * math.pi * data.cutoff) ** 2
    return MIN_SMEAR * spread


PRESLIDING = Presliding(
    "presliding",
    ("presliding",),
    "friction builds up over a travel after each reversal",
    shape="presliding_travel",
)
