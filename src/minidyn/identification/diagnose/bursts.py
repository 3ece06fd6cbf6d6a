"""Where a few samples make most of an error: a contact, a stop, a jump of an encoder.

Least squares follow such a moment, and an error over a whole log says little where most of its
square comes from half a second. The stretch of half a second that holds most of a joint's squared
residual is looked for, and reported where that is most of it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from minidyn.arrays import Array, rms
from minidyn.base.base_map import BaseMap
from minidyn.identification.diagnose.thresholds import HALF
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.base_rows import FEW, Samples, base_functions, has_motion
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording
from minidyn.text import percent

SECONDS = 0.5  # of a burst: what lasts longer is a part of the motion
MIN_POWER = 64.0  # of that in the rest of the log: 43 is the most of healthy logs of real robots

BURST = warning(
    "signals.burst",
    "A moment of the log makes most of a joint's squared error.",
    "Look at the log from {begin:.5g} to {end:.5g} s: a contact, a stop, a jump of the encoder, "
    "lost samples? Where the robot did not move freely, leave that time out: "
    "md.concatenate([log[:first], log[last:]]).",
)

CONCENTRATED = info(
    "signals.concentrated",
    "Half a second of the log makes most of a joint's squared error, small against its torque.",
    "A slow reversal looks so where friction is not modelled well. Read the joint's error as that "
    "of {begin:.5g} to {end:.5g} s.",
)


class Burst(NamedTuple):
    """Where a few samples make most of an error.

    Attributes:
        joint: Number of the joint.
        begin: First time, s.
        end: Last time, s.
        share: Of the joint's squared residual.
        size: Root mean square of the residual there.
    """

    joint: int
    begin: float
    end: float
    share: float
    size: float


def bursts(t: Array, residual: Array, starts: Sequence[int] = (0,)) -> list[Burst]:
    """Return where at most half a second makes most of the squares of residuals (N, n), joint by
    joint.

    Example:
        >>> t = np.arange(1000) / 100.0
        >>> residual = np.where((t > 3.0) & (t < 3.4), 5.0, 0.1)[:, None]
        >>> [(burst.begin, burst.end) for burst in bursts(t, residual)]
        [(3.01, 3.39)]
    """
    runs = [slice(begin, end) for begin, end in pairwise([*starts, len(t)]) if end > begin]
    seconds = sum(float(t[run][-1] - t[run][0]) for run in runs)
    if seconds < 2.0 * SECONDS:
        return []
    found = []
    for joint, squares in enumerate(residual.T**2):
        best = max(_densest(t[run], squares[run]) for run in runs)
        rest = float(np.sum(squares)) - best[0]
        share = best[0] / max(best[0] + rest, 1e-300)
        power = best[0] / SECONDS / max(rest / (seconds - SECONDS), 1e-300)
        if share > HALF and power > MIN_POWER:
            inside = (t >= best[1]) & (t <= best[2])
            size = float(np.sqrt(np.mean(squares[inside])))
            found.append(Burst(joint, best[1], best[2], share, size))
    return found


def _densest(t: Array, squares: Array) -> tuple[float, float, float]:
    """Return the largest sum of squares within SECONDS, and its first and last time."""
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    ends = np.searchsorted(t, t + SECONDS, side="right")
    first = int(np.argmax(sums[ends] - sums[:-1]))
    inside = slice(first, int(ends[first]))
    large = np.flatnonzero(squares[inside] >= 0.05 * squares[inside].max())
    begin, end = t[inside][large[0]], t[inside][large[-1]]
    return float(sums[inside.stop] - sums[first]), float(begin), float(end)


def burst_notices(
    names: Sequence[str], t: Array, torque: Array, residual: Array, starts: Sequence[int] = (0,)
) -> list[Notice]:
    """Return a notice for each joint of which a burst makes most of the squares of residuals.

    Torques and residuals are (N, n).
    """
    found, typical = [], rms(torque)
    for burst in bursts(t, residual, starts):
        # friction that is not modelled leaves less than half of the typical torque
        kind = BURST if burst.size > HALF * typical[burst.joint] else CONCENTRATED
        text = (
            f"{names[burst.joint]}: {percent(burst.share)} of the squared error lies between "
            f"{burst.begin:.5g} and {burst.end:.5g} s"
        )
        about = {"begin": burst.begin, "end": burst.end, "share": burst.share}
        found.append(kind(text, joint=names[burst.joint], **about))
    return found


def fit_burst_notices(
    robot: Robot, base: BaseMap, data: AnyRecording, solution: Solution
) -> list[Notice]:
    """Return the same of a fit's own residual, for recordings in memory."""
    if not (has_motion(data) and isinstance(data, Recording)) or robot.implicit_loops:
        return []
    log = Samples.all_of(data)
    predicted = base_functions(robot, base).torque(log.motion, solution.beta, len(log) <= FEW)
    known = np.array(robot.torques_measured)
    residual = np.where(known, log.tau - predicted, 0.0)
    return burst_notices(robot.joint_names, log.t, log.tau, residual, data.starts)
