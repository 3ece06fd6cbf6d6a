"""Breakaway: a rest raises friction, and motion lets it decay over a travel."""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.arrays import Array
from minidyn.identification.data import Data
from minidyn.identification.rows.base_rows import DEPARTURES, departures
from minidyn.identification.terms.effect import Effect
from minidyn.model.drives import Drive
from minidyn.recording.recording import Recording

TRAVELS = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
"""Grid of travels, rad or m, over which breakaway decays."""


class Breakaway(Effect):
    """Friction after rests."""

    def shapes(self, data: Data, joint: int, drive: Drive, residual: Array) -> Sequence[float]:
        """Return travels where the drive leaves several rests; logs on disk are not asked."""
        log = data.log
        if not isinstance(log, Recording) or departures(data.robot, log)[joint] < DEPARTURES:
            return ()
        return TRAVELS


BREAKAWAY = Breakaway(
    "breakaway",
    ("breakaway",),
    "friction is larger after a rest and decays over a travel",
    shape="breakaway_travel",
)
