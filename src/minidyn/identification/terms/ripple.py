"""Ripple: waves over the position of a drive, which gears and magnets leave in the torque."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.drives import drive_ratios
from minidyn.identification.data import Data
from minidyn.identification.terms.effect import Effect
from minidyn.model.drives import ALIASES, HARMONICS, Drive
from minidyn.recording.prepare.waves import standing_wave

MAX_ORDER = 500.0  # waves over 2 pi rad or m: the finest that is looked for
MIN_SEEN = 0.5
"""Share of a wave that the low-pass must leave: what it hides would be guessed."""


class Ripple(Effect):
    """Waves of the order that the residual shows."""

    def shapes(self, data: Data, joint: int, drive: Drive, residual: Array) -> Sequence[float]:
        """Return the order of the strongest wave, where the low-pass lets it through."""
        if joint not in data.robot.independent:
            return ()
        row = data.robot.independent.index(joint)
        ratios = drive_ratios(data.robot, joint)
        path = sum(ratio * data.coordinates.q[other] for other, ratio in ratios.items())
        torque = residual[:, row] + data.removed[:, row]  # a low-pass hides waves of fast joints
        order = standing_wave(np.asarray(path), torque, MAX_ORDER)
        if not order:
            return ()
        wave = data.column(joint, self.added(drive, order), self.terms[0]).get(row)
        seen = 0.0 if wave is None else float(np.sqrt(2.0 * np.mean(wave**2)))
        return (order,) if seen >= MIN_SEEN else ()


class Harmonic(Effect):
    """A multiple of the order, where the ripple itself is in the model."""

    def shapes(self, data: Data, joint: int, drive: Drive, residual: Array) -> Sequence[float]:
        """Return the order that the drive has."""
        return (drive.ripple_order,) if drive.ripple_order and RIPPLE.is_in(drive) else ()


RIPPLE = Ripple("ripple", ALIASES["ripple1"][:2], "the gear leaves ripple", shape="ripple_order")
RIPPLES = (
    RIPPLE,
    *(
        Harmonic(
            f"ripple{harmonic}",
            ALIASES[f"ripple{harmonic}"][:2],
            f"the ripple has its harmonic {harmonic}",
            shape="ripple_order",
        )
        for harmonic in HARMONICS[1:]
    ),
)
