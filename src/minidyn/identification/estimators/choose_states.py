"""Which states to believe: as recorded, or smoothed, and how strongly.

Torques are asked, because they are measured by other sensors. Of the smoothed states those are best along which the
model leaves the least torque within the band of the motion. Beyond it a controller answers noise with torque, and the
robot with acceleration: that shaking is no sign of a cut-off that is too low.

For the same reason the torque they leave does not judge the states as recorded: noisy accelerations that show shaking
explain much torque, however biased the parameters they lead to. Recorded states are believed where what they have more
than smoothed ones is unrelated to the torque they leave (Durbin-Wu-Hausman), or where they leave hardly any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import base_regressor
from minidyn.identification.diagnostics.exogeneity import exogeneity_test
from minidyn.identification.estimators.linear_system import fit_system, signals_of
from minidyn.identification.estimators.smooth_states import States, as_recorded, motion_band, smoothed
from minidyn.identification.rows.state_rows import torque_rows
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

_STEPS = (2.0, 3.0, 4.5, 7.0, 10.0, 15.0, 22.0)  # cut-offs that are tried, over the band of the motion
_HIGHEST = 0.35  # of the sample rate
_SAMPLES = 4000  # enough to choose
_IN_WINDOW = 16  # samples of a window of time over which residuals are averaged
_EXACT = 0.01  # ratio of squared residuals below which recorded states have no noise to speak of
_EQUAL = 1.05  # ratio up to which they are kept unless they are found to be biased


def best_states(robot: Robot, base: BaseMap, recording: Recording) -> States:
    """Return the states, as recorded or smoothed, that lead to the least biased base parameters."""
    recorded = as_recorded(recording)
    if len(recording) < 100:
        return recorded
    band, rate = motion_band(recording)
    cutoffs = [step * band for step in _STEPS if 0 < step * band < _HIGHEST * rate]
    candidates = [recorded, *(smoothed(recording, cutoff) for cutoff in cutoffs)]
    usable = np.logical_and.reduce([states.usable for states in candidates])
    enough = 4 * base.rank / robot.n
    if not cutoffs or usable.sum() < enough:
        return recorded
    # a quarter of the shortest period keeps the band of the motion; parameters must not outnumber windows
    length = max(1, int(min(rate / (4.0 * band), usable.sum() / enough)))
    rows = _windows(usable, [*recording.starts, len(recording)], length)
    if rows.size < enough:
        return recorded
    errors = _errors(robot, base, candidates, rows, recording)
    best = 1 + int(np.argmin(errors[1:]))
    if errors[0] < _EXACT * errors[best]:
        return recorded
    if errors[0] > _EQUAL * errors[best] or _biased(robot, base, recording, recorded, candidates[best]):
        return candidates[best]
    return recorded


def _windows(usable: NDArray[np.bool_], edges: Sequence[int], length: int) -> NDArray[np.intp]:
    """Return samples (windows, samples of each) of windows of so many samples in a row, thinned to what is enough."""
    found = []
    for begin, end in pairwise(edges):
        own = np.flatnonzero(usable[begin:end]) + begin
        found.append(own[: len(own) // length * length].reshape(-1, length)[:, :: -(-length // _IN_WINDOW)])
    rows = np.concatenate(found)
    return np.asarray(rows[:: max(1, rows.size // _SAMPLES)], dtype=np.intp)


def _errors(
    robot: Robot, base: BaseMap, candidates: Sequence[States], rows: NDArray[np.intp], recording: Recording
) -> list[float]:
    """Return what states leave of the torque, averaged over each window of rows (w, k), joints by their residuals."""
    residuals: list[Array] = []
    (tau,) = signals_of(recording, "tau")
    chosen, torque = rows.ravel(), tau[rows.ravel()]
    with single_thread():
        scale = np.maximum(np.sqrt(np.mean(torque**2, axis=0)), 1e-300)
        for _ in range(2):  # the second time, joints are weighed by what the first leaves at best
            residuals = []
            for states in candidates:
                Y = base_regressor(robot, states.q[chosen], states.dq[chosen], states.ddq[chosen], base=base)
                weighted = (Y / scale[:, None]).reshape(-1, base.rank)
                beta, *_ = np.linalg.lstsq(weighted, (torque / scale).ravel(), rcond=None)
                left = (torque - Y @ beta).reshape(*rows.shape, robot.n).mean(axis=1)
                residuals.append(np.mean(left**2, axis=0))
            floor = 1e-18 * np.mean(torque**2, axis=0)
            scale = np.sqrt(np.maximum(np.min(residuals, axis=0), np.maximum(floor, 1e-300)))
    return [float(np.sum(residual / scale**2)) for residual in residuals]


def _biased(robot: Robot, base: BaseMap, recording: Recording, recorded: States, smooth: States) -> bool:
    """Say whether least squares along recorded states is measurably biased, with smoothed ones as instruments."""
    inside = replace(recorded, usable=smooth.usable)
    plain = fit_system(base, torque_rows(robot, base, recording, inside), allow_open=True)
    rows = torque_rows(robot, base, recording, inside, smooth)
    return exogeneity_test(rows, plain.beta, plain.sigma, plain.block).biased
