"""What the smoothing widths of reversals leave open in base parameters.

Preparation low-passes the torque, and friction loses its edges at reversals. Around a reversal with
acceleration a, a low-pass at the cut-off f spreads the step over speeds of about a / (2πf), which
columns of the regressor have from each sample's own speed and acceleration: nearly, not exactly.
Nor are widths that were chosen from the data exact. So the fit is repeated with a width (or a
travel of presliding) that the data cannot tell from this one, joint by joint, and a share of the
change counts as uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.drives import drive_rates
from minidyn.identification.data import Data
from minidyn.identification.held_out import Drives
from minidyn.model.drives import Drive

CHANGE_SHARE = 0.6
"""Standard deviation over the change: simulated robots, sharp friction and soft, lie within two."""

FINEST = 1.1  # factor between shapes that a log cannot tell apart; searches end at steps of 1.25


def reversal_covariance(
    data: Data,
    drives: Drives,
    values_of: Callable[[Drives], Array],
    cutoff: float,
    is_chosen: bool,
) -> Array:
    """Return what shapes add to the covariance (b, b) of base parameters.

    Args:
        data: The log.
        drives: The model.
        values_of: Base parameters (b,) of a model's fit.
        cutoff: Low-pass that reversals were seen through, Hz; 0: none, or columns pass it, too.
        is_chosen: Whether widths and travels come from the data.
    """
    before = values_of(drives)
    covariance = np.zeros((len(before), len(before)))
    smear = smeared_speeds(data, cutoff)
    for joint, drive in drives.items():
        for option in _options(drive, float(smear[joint]), is_chosen):
            change = CHANGE_SHARE * (values_of({**drives, joint: option}) - before)
            covariance += np.outer(change, change)
    return covariance


def _options(drive: Drive, smear: float, is_chosen: bool) -> Iterator[Drive]:
    """Yield drives that a log cannot tell from this one."""
    if not drive.friction:
        return
    width = drive.sign_width
    other = np.sqrt(width**2 + (FINEST**2 - 1.0) * (smear**2 + is_chosen * width**2))
    if other > width:
        yield replace(drive, sign_width=float(other))
    if is_chosen and "presliding" in drive.friction:
        yield replace(drive, presliding_travel=drive.presliding_travel / FINEST)


def smeared_speeds(data: Data, cutoff: float) -> Array:
    """Return the speed (joints,) of each drive over which a low-pass spreads a reversal."""
    speeds, accelerations = drive_rates(data.robot, data.motion.dq, data.motion.ddq)
    spread = np.zeros(len(data.robot.joints))
    for index, speed in enumerate(speeds.T):
        turning = np.flatnonzero(np.diff(np.sign(speed)) != 0)
        if len(turning) and cutoff:
            size = np.sqrt(np.mean(accelerations[turning, index] ** 2))
            spread[index] = float(size) / (2 * np.pi * cutoff)
    return spread
