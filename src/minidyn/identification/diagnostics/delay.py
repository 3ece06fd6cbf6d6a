"""How late torques are against positions: filters and buses delay one of them, and a fit cannot say so by itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import base_regressor
from minidyn.errors import MinidynError
from minidyn.identification.estimators.method import Solution
from minidyn.identification.estimators.solve import block_length, block_sums
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

_SAMPLES = 4000  # enough to see a delay; a longer recording is thinned
_SURE = 5.0  # standard deviations beyond which a delay is told
_OPEN = 1e-14  # squares of singular values below this part of the largest are rounding
_MATTERS = 0.05  # of the residual's power that goes away: less is not worth a word


def torque_delay(
    robot: Robot, base: BaseMap, recording: Recording, beta: Array, sigma: Array
) -> tuple[float, float, float]:
    """Return (delay, its standard deviation, share of the residual's power it explains) of torques, s.

    To first order tau(t - delay) = tau - delay dtau/dt: the slope of the model's torque is one more column beside those
    of the base parameters.

    Args:
        robot: The robot.
        base: Its base parameters.
        recording: Prepared, with q, dq, ddq and tau.
        beta: Base parameters (b,) that the slope is computed from.
        sigma: Noise of each joint (n,).
    """
    if recording.dq is None or recording.ddq is None or recording.tau is None:
        raise MinidynError("torque_delay needs dq, ddq and tau; prepare the recording first: md.prepare(robot, ...)")
    begins = [*recording.starts, len(recording)]
    slopes, thin = np.zeros_like(recording.q), max(1, len(recording) // _SAMPLES)
    Y = base_regressor(robot, recording.q, recording.dq, recording.ddq, base=base)
    predicted = Y @ beta
    for begin, end in pairwise(begins):
        if end - begin > 2:
            slopes[begin:end] = np.gradient(predicted[begin:end], recording.t[begin:end], axis=0)
    rows = slice(None, None, thin)
    W = (np.concatenate([Y, -slopes[:, :, None]], axis=2)[rows] / sigma[:, None]).reshape(-1, base.rank + 1)
    y = ((recording.tau - predicted)[rows] / sigma).ravel()
    products = W.T @ W
    sizes = np.sqrt(np.diag(products))
    if sizes[-1] == 0:
        return 0.0, np.inf, 0.0
    scale = np.where(sizes > 0, sizes, 1.0)
    values, vectors = np.linalg.eigh(products / np.outer(scale, scale))
    known = values > _OPEN * values[-1]
    weights = vectors[:, known] @ (vectors[-1, known] / values[known])
    pull = W @ (weights / scale) / scale[-1]  # of each row on the delay: the last row of the pseudo-inverse of W
    delay = float(pull @ y)
    residual = (y - W[:, -1] * delay).reshape(-1, robot.n)
    length, _ = block_length(residual, np.asarray(recording.t)[rows], len(residual))
    sums = block_sums([((pull.reshape(-1, robot.n) * residual).sum(axis=1, keepdims=True), False)], length)
    across = float(pull @ pull)  # the column's part that base parameters do not explain has the size 1 / across
    explained = delay**2 / across / max(float(y @ y), 1e-300) if across > 0 else 0.0
    return delay, float(np.sqrt(np.sum(sums**2))), min(explained, 1.0)


def delay_notices(robot: Robot, base: BaseMap, recording: Any, found: Solution) -> list[str]:
    """Return a notice where torques are clearly late or early, and it matters."""
    if not isinstance(recording, Recording) or recording.ddq is None or recording.dq is None or len(recording) < 50:
        return []
    if recording.tau is None or robot.implicit_loops:
        return []
    delay, std, share = torque_delay(robot, base, recording, found.beta, found.sigma)
    if not (abs(delay) > _SURE * std and share > _MATTERS):
        return []
    word = "late" if delay > 0 else "early"
    return [
        f"torques seem {1e3 * abs(delay):.2g} ms {word} against positions (± {1e3 * std:.1g} ms; {100 * share:.0f} % "
        f"of the residual's power): md.prepare(robot, recording, delay={delay:.2g}) shifts them"
    ]
