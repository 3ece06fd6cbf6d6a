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

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import drive_paths, drive_ratios
from minidyn.dynamics.functions import loads_of_motion
from minidyn.dynamics.record import STATES
from minidyn.identification.estimators.block_covariance import (
    block_covariance,
    block_length,
    block_sums,
)
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.base_rows import base_functions, signals_of, steady_regressor
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.late import moved_torques
from minidyn.recording.recording import Recording

MAX_SAMPLES = 4000  # size: that show a delay; a longer recording is thinned
MIN_SAMPLES = 4  # for each unknown: fewer do not show a delay
MIN_STD_OVER_TIME = 5.0  # standard deviations, of blocks of time, beyond which it is reported
MIN_STD_OVER_JOINTS = 2.5  # the same, of joints
MIN_SHARE = 0.05  # of the residual's power that goes away: less is not reported
MAX_ROUNDS = 4  # size: in which a delay is found, each to first order
REVERSAL_SPEED = 0.05  # of a joint's speed, over which friction that the model lacks reverses
BEND_SPEED = 0.5  # the same, over which it bends
REVERSAL_TRAVEL = 0.02  # rad or m, in which friction is as before its last reversal
REVERSAL_RANGE = 0.1  # the same as a part of a drive's range
FILTER_SPREAD = 0.6  # over its cut-off: the time by which a low-pass spreads a reversal
ROUNDING = 1e-14  # rounding: of the largest square of singular values: smaller ones are rounding

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
    is_sure: bool  # blocks of time and joints agree


def torque_delay(
    robot: Robot, base: BaseMap, recording: Recording, beta: Array, sigma: Array
) -> Delay:
    """Return how late torques are.

    To first order tau(t - delay) = tau - delay dtau/dt: the slope of the model's torque is one more
    column beside those of the base parameters beta (b,), which the slope is computed from; sigma
    (n,) is the noise of each joint. Friction that the model lacks has columns here, too. What is
    near reversals is not asked. Noise of accelerations is large in the slope of the model's torque
    and would make delays look smaller: the slope of the measured torque, whose noise is another, is
    its instrument. The standard deviation holds how much blocks of time differ, and joints.
    """
    q, dq, ddq, tau = signals_of(recording, "q", "dq", "ddq", "tau")
    slopes, rows = np.zeros((2, *q.shape)), slice(None, None, max(1, len(recording) // MAX_SAMPLES))
    states, motion = recording.telemetry.get(STATES), (q[rows], dq[rows], ddq[rows])
    Y = steady_regressor(robot, base, *motion, None if states is None else states[rows])
    moved = (q, dq, ddq) if states is None else (q, dq, ddq, states)
    # the whole regressor of a long recording would be gigabytes
    predicted = Y @ beta if rows.step == 1 else base_functions(robot, base).torque(moved, beta)
    for begin, end in pairwise([*recording.starts, len(recording)]):
        if end - begin > 2:
            both = np.stack([predicted[begin:end], tau[begin:end]])
            slopes[:, begin:end] = np.gradient(both, recording.t[begin:end], axis=1)
    rubs, sliding = _friction_lacking(robot, *motion), ~_near_reversals(robot, recording)[rows]
    columns = np.concatenate([Y, rubs], axis=2)
    W = (columns / sigma[:, None] * sliding[..., None]).reshape(-1, columns.shape[-1])
    parts = (tau - predicted)[rows], -slopes[0][rows], -slopes[1][rows]
    left, slope, other = _left_of(
        W, np.stack([(part / sigma * sliding).ravel() for part in parts], axis=1)
    ).T
    strength, count = float(other @ slope), int(np.sum(sliding))
    if not strength > 0 or count < MIN_SAMPLES * (W.shape[1] + 1):
        return Delay(0.0, np.inf, 0.0, False)
    pull = other / strength  # of each row on the delay
    delay = float(pull @ left)
    residual = (left - delay * slope).reshape(
        -1, robot.n
    )  # neither delay nor lacking friction is noise
    length, _ = block_length(residual, np.asarray(recording.t)[rows], len(residual))
    scores = pull.reshape(-1, robot.n) * residual
    sums = block_sums([(scores.sum(axis=1, keepdims=True), False)], length)
    white = np.array([[float(pull @ pull) * float(np.sum(residual**2)) / count]])
    variance, _ = block_covariance(np.eye(1), sums, white, count - W.shape[1])
    # a bus or a filter makes all joints late alike: joints that disagree show that something else
    # stands behind it
    apart = float(np.sqrt(robot.n / max(1, robot.n - 1) * np.sum(scores.sum(axis=0) ** 2)))
    over_time = float(np.sqrt(variance[0, 0]))
    is_sure = abs(delay) > max(MIN_STD_OVER_TIME * over_time, MIN_STD_OVER_JOINTS * apart)
    power = delay**2 * strength  # of both slopes, whose noise has nothing in common
    explained = power / max(power + float(np.sum(residual**2)), 1e-300)
    return Delay(delay, max(over_time, apart), min(explained, 1.0), is_sure)


def _left_of(W: Array, values: Array) -> Array:
    """Return what columns W (rows, c) leave of values (rows, k) by least squares."""
    products = W.T @ W
    scale = np.where((sizes := np.sqrt(np.diag(products))) > 0, sizes, 1.0)
    squares, vectors = np.linalg.eigh(products / np.outer(scale, scale))
    known = squares > ROUNDING * squares[-1]
    vectors = (vectors / scale[:, None])[:, known] / np.sqrt(squares[known])
    return np.asarray(values - W @ (vectors @ (vectors.T @ (W.T @ values))))


def _friction_lacking(robot: Robot, q: Array, dq: Array, ddq: Array) -> Array:
    """Return columns (N, n, k) of friction that the model may lack.

    Smooth functions of a joint's speed, and its load. Where it has no friction terms, viscous and
    Coulomb friction and offset are among them.
    """
    loads = np.zeros((2, *q.shape))  # in motion, and at rest
    if not robot.formulas and not np.isnan(robot.parameters).any():
        own, phi = list(robot.independent), robot.parameters
        loads = np.abs(
            [loads_of_motion(robot, q, k * dq, k * ddq, phi)[:, own] for k in (1.0, 0.0)]
        )
    found = []
    for place, joint in enumerate(robot.independent):
        speed = dq[:, place]
        over = speed / max(float(np.sqrt(np.mean(speed**2))), 1e-300)
        sign = np.tanh(over / REVERSAL_SPEED)
        rubs = [np.tanh(over / BEND_SPEED), over * np.abs(over), *(loads[..., place] * sign)]
        rubs += [] if robot.joints[joint].drive.friction else [speed, sign, np.ones(len(dq))]
        for column in rubs:
            found.append(np.zeros(dq.shape))
            found[-1][:, place] = column
    return np.stack(found, axis=-1)


def _near_reversals(robot: Robot, recording: Recording) -> NDArray[np.bool_]:
    """Return whether a drive that acts on a joint is near a reversal or a rest, sample by sample
    (N, n).

    After it friction takes some travel to be what it was; what a low-pass spreads on one side alone
    looks like a delay.
    """
    cutoff, joints = recording.info.get("cutoff"), range(len(robot.joints))
    spread = FILTER_SPREAD / cutoff if isinstance(cutoff, int | float) and cutoff > 0 else 0.0
    near = np.zeros((len(recording), len(joints)), dtype=bool)
    for begin, end in pairwise([*recording.starts, len(recording)]):
        t = np.asarray(recording.t[begin:end])
        for joint, path in enumerate(drive_paths(robot, recording.q[begin:end], joints).T):
            turns = np.flatnonzero(np.diff(np.sign(np.diff(path)))) + 1
            passed = np.searchsorted(turns, np.arange(len(path)), side="right")
            short = min(REVERSAL_TRAVEL, REVERSAL_RANGE * float(np.ptp(path)))
            for turn in np.append(0, turns)[passed], np.append(turns, len(path) - 1)[passed]:
                near[begin:end, joint] |= (np.abs(path - path[turn]) < short) | (
                    np.abs(t - t[turn]) < spread
                )
    acting = [
        [own for own in joints if joint in drive_ratios(robot, own)] for joint in robot.independent
    ]
    return np.stack([near[:, own].any(axis=1) for own in acting], axis=1)


def whole_delay(
    robot: Robot, base: BaseMap, recording: Recording, found: Solution, first: float
) -> tuple[float, float]:
    """Return a delay and its standard deviation, s.

    `torque_delay` finds it to first order, and then what is left.
    """
    delay, std = first, 0.0
    for _ in range(MAX_ROUNDS):
        moved = moved_torques(recording, delay)
        rest, std, *_ = torque_delay(robot, base, moved, found.beta, found.sigma)
        delay += rest
        if not abs(rest) > std:
            break
    return delay, std


def delay_notices(
    robot: Robot, base: BaseMap, recording: AnyRecording, found: Solution
) -> list[Notice]:
    """Return a notice where torques are clearly late or early, and it matters."""
    has_signals = {"dq", "ddq", "tau"} <= set(recording.signals) and len(recording) >= 50
    if not (has_signals and isinstance(recording, Recording)) or robot.implicit_loops:
        return []
    delay, std, share, is_sure = torque_delay(robot, base, recording, found.beta, found.sigma)
    if not (is_sure and share > MIN_SHARE):
        return []
    delay, std = whole_delay(robot, base, recording, found, delay)
    word = "late" if delay > 0 else "early"
    text = (
        f"torques seem {1e3 * abs(delay):.2g} ms {word} against positions (± {1e3 * std:.1g} ms; "
        f"{100 * share:.0f} % of the residual's power)"
    )
    return [DELAY(text, delay=delay, std=std, share=share)]
