"""How sharply Coulomb friction turns round with the speed: chosen from the data, because drives differ.

A measured speed near zero has a random sign, and real friction turns round over a range of speeds. A hard sign then
spoils the fit around every reversal. The width that predicts held-out stretches of the recording best is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.experiment.lazy import LazyRecording
from minidyn.experiment.recording import Recording
from minidyn.identification.least_squares import solve
from minidyn.identification.problem import STRETCHES, Problem, assemble
from minidyn.model.robot import Robot

__all__ = ["with_best_sign_width"]

Array = NDArray[np.float64]
_WIDTHS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)  # over the root mean square of each joint's speed
_SAMPLES = 20_000  # enough to choose; a longer recording is thinned


def with_best_sign_width(
    robot: Robot, base: BaseMap, recording: Recording | LazyRecording, settings: dict[str, Any]
) -> Robot:
    """Return the robot with the sign widths that predict best; unchanged where it has some, or no Coulomb friction."""
    drives = [joint.drive for joint in robot.joints]
    if not any("coulomb" in drive.friction for drive in drives) or any(drive.sign_width for drive in drives):
        return robot
    step = max(1, len(recording) // _SAMPLES)
    thinned = recording[::step] if isinstance(recording, Recording) else recording.thinned(step)
    if thinned.dq is None or len(thinned) < 4 * STRETCHES * base.rank / robot.n:
        return robot
    speeds = np.ones(len(robot.joints))
    speeds[list(robot.independent)] = np.sqrt(np.mean(thinned.dq**2, axis=0))
    errors: list[float] = []
    for width in _WIDTHS:
        candidate = robot.with_drives(sign_width=width * speeds)
        try:
            errors.append(_held_out_error(candidate, base, thinned))
        except MinidynError:  # a stretch that leaves something open cannot judge
            return robot
    best = int(np.argmin(errors))
    settings["sign_width"] = (_WIDTHS[best] * speeds).tolist()
    settings["sign_width_curve"] = [[width, error] for width, error in zip(_WIDTHS, errors)]
    return robot.with_drives(sign_width=_WIDTHS[best] * speeds)


def _held_out_error(robot: Robot, base: BaseMap, recording: Recording) -> float:
    """Return the mean over joints of relative squared error on stretches that were left out of the fit."""
    parts = assemble(robot, base, recording).stretches
    torque = np.sum([part.torque_squares for part in parts], axis=0)
    scale = np.where(torque > 0, np.sqrt(torque / len(recording)), 1.0)
    error = np.zeros(robot.n)
    for held in range(len(parts)):
        R, z = _together([part for number, part in enumerate(parts) if number != held], scale)
        error += parts[held].residual_squares(solve(R, z, base))
    return float(np.mean(error / np.maximum(torque, 1e-300)))


def _together(parts: list[Problem], scale: Array) -> tuple[Array, Array]:
    stacked = []
    for part in parts:
        R, z, _ = part.weighted(scale)
        stacked.append(np.column_stack([R, z]))
    factor = np.asarray(np.linalg.qr(np.concatenate(stacked), mode="r"), dtype=float)
    size = factor.shape[1] - 1
    return factor[:size, :size], factor[:size, size]
