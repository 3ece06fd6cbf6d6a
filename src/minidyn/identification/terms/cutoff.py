"""The cut-off of the low-pass: 10 Hz, and twice that where the log predicts itself better with it.

Most robots move below 10 Hz, and a fixed cut-off is as good as one that is chosen log by log. Small
fast arms have torques above it: with motion and friction seen through a higher low-pass their raw
torque is predicted better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.anchor import anchor_of
from minidyn.identification.data import Data
from minidyn.identification.held_out import HeldOut
from minidyn.identification.score import MIN_GAIN, Gain
from minidyn.identification.search import width_of
from minidyn.identification.selection import FORCED, Decision
from minidyn.identification.settings import CUTOFF, Settings
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

HIGHER = 20.0
"""Hz, the one other cut-off that is tried: on real logs more costs 6 to 14 % of the error."""


def with_cutoff(
    model: Robot,
    base: BaseMap,
    data: Recording,
    settings: Settings,
    prepared: Callable[[float], Recording],
) -> tuple[Recording, tuple[Decision, ...]]:
    """Return the log with the better cut-off, and the row of the table of decisions.

    Args:
        model: The robot with plain terms.
        base: Its base parameters.
        data: The log at the cut-off of the preparation.
        settings: Whose prior holds the rigid part.
        prepared: Returns the log at another cut-off, Hz.
    """
    low = _raw_data(model, base, data)
    if low is None:
        return data, ()
    other = prepared(HIGHER)
    high = _raw_data(model, base, other)
    if high is None or high.cutoff <= low.cutoff:
        return data, ()
    anchor, noise_std = anchor_of(model, base, low, settings.prior)
    scores = list[Array]()
    for part in (low, high):
        drives = {
            joint: replace(one.drive, sign_width=width_of(part, joint))
            for joint, one in enumerate(model.joints)
            if one.kind != "fixed"
        }
        scores.append(HeldOut(part, anchor, noise_std).scores(drives))
    gain = Gain.of(*scores)
    is_forced = CUTOFF in settings.force_terms
    # none is simpler: the better score is enough
    is_taken = is_forced or gain.mean >= MIN_GAIN * model.n
    reason = FORCED if is_forced else ""
    row = Decision.of(f"{CUTOFF} {HIGHER:g} Hz", (), gain, is_taken, reason)
    return other if is_taken else data, (row,)


def _raw_data(model: Robot, base: BaseMap, recording: Recording) -> Data | None:
    """Return a log's blocks with its raw torque; None where it is not known."""
    raw = recording.telemetry.get("tau_raw")
    data = Data.of(model, base, recording)
    if raw is None or data is None:
        return None
    return data.with_torques(np.asarray(raw, dtype=float)[:: data.step])
