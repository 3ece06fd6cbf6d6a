"""One joint whose torques contradict those of the others, without any prior.

Joints share masses and inertias: what a link weighs shows at every joint that carries it. So the
scale of one joint's torque against the others can be fitted together with the base parameters,

    tau_k = Y_k beta   for all other joints k,      c tau_j = Y_j beta,

and a joint j with a wrong gain 1 / c is found where that lowers the residuals clearly. A factor
that all joints have in common cannot be seen from torques alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.record import STATES
from minidyn.identification.diagnose.thresholds import LARGE, SAMPLES
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.base_rows import signals_of, steady_regressor
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error
from minidyn.recording.lazy import AnyRecording

JOINT_SCALE = error(
    "signals.joint_scale",
    "The torques of one joint contradict those of the others by a factor: its drive gain or gear "
    "ratio is wrong.",
    "Check drive gain and gear ratio of joint {joint!r} (drive_gain and gear_ratio of a mapping "
    "file, --mapping).",
)

MIN_LOG_GAIN = 0.5
"""Of the residuals' variances, sum over joints. On measured logs it is at most 0.26, with the gain
of one joint 30 % off at least 1.8 in simulation."""
ROUNDS = 6  # size: in which weights settle
RANK = 1e-12  # rounding: of normal equations


@dataclass(frozen=True)
class _Sums:
    """Products over samples: of the regressor's rows and torques, joint by joint."""

    squares: Array  # Y_kᵀ Y_k (n, b, b)
    pulls: Array  # Y_kᵀ tau_k (n, b)
    torques: Array  # tau_kᵀ tau_k (n,)
    samples: int

    def variances(self, beta: Array, joint: int = -1, c: float = 1.0) -> Array:
        """Return the variance of each joint's residual (n,), that of `joint` with its scale c."""
        fitted = np.einsum("b,kbc,c->k", beta, self.squares, beta)
        scale = np.where(np.arange(len(self.torques)) == joint, c, 1.0)
        sums = scale**2 * self.torques - 2 * scale * (self.pulls @ beta) + fitted
        return np.asarray(np.maximum(sums / scale**2, 1e-12 * self.torques) / self.samples)

    def solve(self, weights: Array, joint: int = -1) -> tuple[Array, float]:
        """Return base parameters and the scale c of a joint's torque, or 1 for none."""
        G = np.einsum("k,kbc->bc", weights, self.squares)
        h = weights @ self.pulls
        if joint >= 0:
            w = weights[joint]
            side = -w * self.pulls[joint]
            G = np.block([[G, side[:, None]], [side, np.array([[w * self.torques[joint]]])]])
            h = np.append(h - w * self.pulls[joint], 0.0)
        size = np.sqrt(np.maximum(np.diag(G), 1e-300))
        x = np.linalg.lstsq(G / np.outer(size, size), h / size, rcond=RANK)[0] / size
        return (x[:-1], float(x[-1])) if joint >= 0 else (x, 1.0)


def joint_scale_notices(
    robot: Robot, base: BaseMap, data: AnyRecording, found: Solution
) -> list[Notice]:
    """Return a notice where one joint's torques contradict those of the others."""
    if base.rows is not None or base.model == "gravity" or robot.n < 2:
        return []
    if not {"dq", "ddq", "tau"} <= set(data.signals):
        return []
    sums = _sums(robot, base, data)
    if sums.samples * robot.n < 4 * base.rank or not np.all(sums.torques > 0):
        return []
    plain, _ = _settled(sums, found.sigma, -1)
    tried = [_settled(sums, found.sigma, joint) for joint in range(robot.n)]
    gains = np.array([float(np.sum(np.log(plain / variances))) for variances, _ in tried])
    factors = np.array([1.0 / c if c > 0 else math.nan for _, c in tried])
    is_off = np.abs(np.log(factors)) > LARGE  # nearer to one it may be friction the model lacks
    gains = np.where(is_off, gains, -math.inf)
    best = int(np.argmax(gains))
    if not gains[best] > MIN_LOG_GAIN:
        return []
    names = robot.joint_names
    alike = [k for k in np.argsort(-gains).tolist() if gains[k] > (1 - LARGE) * gains[best]]
    words = ", or ".join(f"those of {names[k]} are {factors[k]:.3g} times" for k in alike)
    text = f"torques of single joints contradict each other: {words} what the other joints say"
    data_ = {"joint": names[best], "factor": float(factors[best]), "gain": float(gains[best])}
    return [JOINT_SCALE(text, **data_, joints=[names[k] for k in alike])]


def _sums(robot: Robot, base: BaseMap, data: AnyRecording) -> _Sums:
    tile = next(iter(data.tiles()))
    rows = slice(None, None, max(1, len(tile) // SAMPLES))
    q, dq, ddq, tau = (signal[rows] for signal in signals_of(tile, "q", "dq", "ddq", "tau"))
    states = tile.telemetry.get(STATES)
    Y = steady_regressor(robot, base, q, dq, ddq, None if states is None else states[rows])
    squares = np.einsum("nkb,nkc->kbc", Y, Y, optimize=True)
    pulls = np.einsum("nkb,nk->kb", Y, tau)
    return _Sums(squares, pulls, np.sum(tau**2, axis=0), len(tau))


def _settled(sums: _Sums, sigma: Array, joint: int) -> tuple[Array, float]:
    """Return the variances of residuals and the scale c, with weights that fit the residuals."""
    weights, c = 1.0 / np.maximum(sigma, 1e-300) ** 2, 1.0
    variances = 1.0 / weights
    for _ in range(ROUNDS):
        beta, c = sums.solve(1.0 / np.maximum(variances, 1e-300), joint)
        if not c > 0:
            break
        variances = sums.variances(beta, joint, c)
    return variances, c
