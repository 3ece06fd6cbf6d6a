"""How late torques are against positions.

Filters and buses delay one of them, and a fit does not say so by itself. Friction that a model
lacks may look like a delay: what builds up over some travel after a reversal lags behind, and what
grows with the load changes as gravity does. So delays are looked for where drives slide, beside
columns of such friction, and joints must agree on them: a bus makes all joints late alike.

A delay is reported, not removed: on real robots, the delay that one log suggests is seldom that of
another, and without it other recordings are predicted no better (docs/real-logs.md).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, rms
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import drive_paths, drive_ratios
from minidyn.dynamics.functions import loads_of_motion
from minidyn.identification.data import BLOCKS
from minidyn.identification.diagnose.excitation import SAMPLES
from minidyn.identification.diagnose.thresholds import HALF, LARGE
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.base_rows import (
    Samples,
    base_functions,
    has_motion,
    steady_regressor,
)
from minidyn.identification.search import DEFAULT_WIDTH
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.late import moved_torques
from minidyn.recording.prepare.lowpass import MEMORY
from minidyn.recording.recording import Recording

MIN_STDS = 5.0
"""Of blocks of time: fewer standard deviations are not reported; of joints, half of it."""
MIN_SHARE = 0.05
"""Of the residual's power that a delay explains: what explains less does not matter."""
BUILD_UP = 0.02
"""Rad or m: travel after a reversal in which friction builds up; less in short motions."""

DELAY = warning(
    "identify.torque_delay",
    "Torques and positions seem not to be from the same instant: one of them is late.",
    "Where other logs of the robot show the same delay, shift the torques: --delay {delay:.2g} in "
    "the shell, md.prepare(robot, recording, delay={delay:.2g}) in Python.",
)


class Delay(NamedTuple):
    """How late torques are, s."""

    delay: float
    std: float
    share: float  # of the residual's power that it explains


def torque_delay(robot: Robot, base: BaseMap, recording: Recording, solution: Solution) -> Delay:
    """Return how late torques are, to first order.

    tau(t - delay) = tau - delay dtau/dt: the slope of the model's torque is one more column beside
    those of the base parameters and of friction that the model lacks. Noise of accelerations is
    large in that slope and would make delays look smaller: the slope of the measured torque, whose
    noise is another, is its instrument. The standard deviation is what blocks of time show by their
    differences, or half of what joints show, of which there are few.
    """
    log, rows = Samples.all_of(recording), slice(None, None, max(1, len(recording) // SAMPLES))
    slopes, some = np.zeros((2, *log.q.shape)), log[rows]
    Y = steady_regressor(robot, base, *some.motion)
    predicted = (
        Y @ solution.beta
        if rows.step == 1  # the whole regressor of a long recording would be gigabytes
        else base_functions(robot, base).torque(log.motion, solution.beta)
    )
    for begin, end in pairwise([*recording.starts, len(recording)]):
        if end - begin > 2:
            torques = np.stack([predicted[begin:end], log.tau[begin:end]])
            slopes[:, begin:end] = np.gradient(torques, log.t[begin:end], axis=1)
    columns = np.concatenate([Y, _friction_lacking(robot, some)], axis=2)
    weights = _slides(robot, recording)[rows] / solution.sigma
    W = (columns * weights[..., None]).reshape(-1, columns.shape[-1])
    parts = (log.tau - predicted)[rows], -slopes[0][rows], -slopes[1][rows]
    values = np.stack([(part * weights).ravel() for part in parts], axis=1)
    residual, slope, instrument = _residual_of(W, values).T
    strength = float(instrument @ slope)
    if not strength > 0 or np.count_nonzero(weights) <= W.shape[1]:
        return Delay(0.0, np.inf, 0.0)
    delay = float(instrument @ residual) / strength
    residual -= delay * slope
    scores = (instrument / strength * residual).reshape(-1, robot.n)
    blocks = np.add.reduceat(scores, range(0, len(scores), -(-len(scores) // BLOCKS)), axis=0)
    std = max(_std_of_sum(blocks.sum(axis=1)), _std_of_sum(scores.sum(axis=0)) / 2)
    power = delay**2 * strength  # of both slopes, whose noise has nothing in common
    return Delay(delay, std, power / max(power + float(residual @ residual), 1e-300))


def _std_of_sum(parts: Array) -> float:
    """Return the standard deviation of a sum of parts that vary about zero."""
    count = len(parts)
    return float(np.sqrt(count / max(1, count - 1) * np.sum(parts**2)))


def _residual_of(W: Array, values: Array) -> Array:
    """Return what columns W (rows, c) leave of values (rows, k) by least squares."""
    W = W / np.maximum(np.linalg.norm(W, axis=0), 1e-300)
    return np.asarray(
        values - W @ (np.linalg.pinv(W.T @ W, 1e-14, hermitian=True) @ (W.T @ values))
    )


def _friction_lacking(robot: Robot, some: Samples) -> Array:
    """Return columns (N, n, k) of friction that the model may lack.

    Of each joint its loads in motion and at rest, and what bends over its speed. Where it has no
    friction terms, viscous and Coulomb friction and offset are among them.
    """
    own, dq = list(robot.independent), some.dq
    speed = dq / np.maximum(rms(dq), 1e-300)
    sign = np.tanh(speed / DEFAULT_WIDTH)
    shapes = [np.tanh(speed / HALF), speed * np.abs(speed)]
    if not robot.formulas and not np.isnan(robot.parameters).any():
        for k in (1.0, 0.0):
            loads = loads_of_motion(robot, some.q, k * dq, k * some.ddq, robot.parameters)
            shapes.append(np.abs(loads[:, own]) * sign)
    plain = [dq, sign, np.ones(dq.shape)]
    columns = []
    for place, joint in enumerate(own):
        for shape in shapes if robot.joints[joint].drive.friction else shapes + plain:
            columns.append(np.zeros(dq.shape))
            columns[-1][:, place] = shape[:, place]
    return np.stack(columns, axis=-1)


def _slides(robot: Robot, recording: Recording) -> NDArray[np.bool_]:
    """Return whether all drives that act on a joint slide, sample by sample (N, n).

    Near a reversal friction takes some travel to be what it was, and a low-pass spreads it.
    """
    drives, cutoff = range(len(robot.joints)), recording.info.get("cutoff")
    spread = MEMORY / cutoff if isinstance(cutoff, float) and cutoff > 0 else 0.0
    near = np.zeros((len(recording), len(drives)), dtype=bool)
    for begin, end in pairwise([*recording.starts, len(recording)]):
        t = np.asarray(recording.t[begin:end])
        for drive, path in enumerate(drive_paths(robot, recording.q[begin:end], drives).T):
            turns = np.flatnonzero(np.diff(np.sign(np.diff(path)))) + 1
            travel = min(BUILD_UP, LARGE * float(np.ptp(path)))
            place = np.searchsorted(turns, np.arange(len(path)), side="right")
            for turn in np.append(0, turns)[place], np.append(turns, len(path) - 1)[place]:
                near[begin:end, drive] |= np.abs(path - path[turn]) < travel
                near[begin:end, drive] |= np.abs(t - t[turn]) < spread
    acting = [[k for k in drives if joint in drive_ratios(robot, k)] for joint in robot.independent]
    return np.stack([~near[:, own].any(axis=1) for own in acting], axis=1)


def delay_notices(
    robot: Robot, base: BaseMap, recording: AnyRecording, solution: Solution
) -> list[Notice]:
    """Return a notice where torques are clearly late or early, and it matters."""
    is_long = has_motion(recording) and len(recording) >= 50
    if not (is_long and isinstance(recording, Recording)) or robot.implicit_loops:
        return []
    delay, std, share = torque_delay(robot, base, recording, solution)
    if not (abs(delay) > MIN_STDS * std and share > MIN_SHARE):
        return []
    delay += torque_delay(robot, base, moved_torques(recording, delay), solution).delay
    word = "late" if delay > 0 else "early"
    text = (
        f"torques seem {1e3 * abs(delay):.2g} ms {word} against positions (± {1e3 * std:.1g} ms; "
        f"{100 * share:.0f} % of the residual's power)"
    )
    return [DELAY(text, delay=delay, std=std, share=share)]
