"""Stribeck friction: it falls from its value at rest as the speed grows."""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.arrays import Array
from minidyn.identification.data import Data
from minidyn.identification.terms.effect import Effect
from minidyn.model.drives import Drive

SPEEDS = (0.05, 0.15, 0.4)
"""Grid of Stribeck speeds, over the root mean square of the drive's speed."""


class Stribeck(Effect):
    """Friction that falls with the speed."""

    def shapes(self, data: Data, joint: int, drive: Drive, residual: Array) -> Sequence[float]:
        """Return Stribeck speeds."""
        return [share * float(data.speeds[joint]) for share in SPEEDS]


STRIBECK = Stribeck(
    "stribeck", ("stribeck",), "friction falls as the speed grows", shape="stribeck_speed"
)
