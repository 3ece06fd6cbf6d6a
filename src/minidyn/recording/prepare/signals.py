"""Signals: derivatives and the noise that they let through, spikes, standstill."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.recording.prepare.lowpass import butterworth

_STENCILS = np.array(
    [[0, 4 / 5, -1 / 5, 4 / 105, -1 / 280], [-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]]
)
"""Formula: weights of the middle and of the samples after it, first and second derivative."""
CACHED = 2048
"""Size: samples that stay in the cache."""


def derivatives(
    values: Array, step: float, periodic: bool = False, rows: slice = slice(None)
) -> tuple[Array, Array]:
    """Return the first and second derivative (N, ...) by central differences of eighth order.

    Up to a quarter of the sample rate the first is exact to 3 %, up to a tenth to 3e-5; plain
    differences lose 6 % there. The four samples at either end see a mirrored signal and are to be
    trimmed, unless they are one period whose ends meet. `rows` are the samples that are wanted,
    `step` s apart.
    """
    if periodic:
        ends = np.concatenate([values[-4:], values, values[:4]])
    else:
        before, after = 2 * values[:1] - values[4:0:-1], 2 * values[-1:] - values[-2:-6:-1]
        ends = np.concatenate([before, values, after])
    wanted = range(len(values))[rows]
    first, second = (np.empty((len(wanted), *values.shape[1:])) for _ in range(2))
    for low in range(0, len(wanted), CACHED):  # a chunk's sums stay in the cache
        part = wanted[low : low + CACHED]
        near = [ends[part[0] + by : part[-1] + by + 1 : part.step] for by in range(9)]
        one, two = np.zeros_like(near[4]), _STENCILS[1, 0] * near[4]
        for by in range(1, 5):  # the first weighs neighbours against each other, the second alike
            one += _STENCILS[0, by] * (near[4 + by] - near[4 - by])
            two += _STENCILS[1, by] * (near[4 + by] + near[4 - by])
        first[low : low + CACHED], second[low : low + CACHED] = one / step, two / step**2
    return first, second


def noise_gain(rate: float, cutoff: float, order: int) -> Array:
    """Return what white noise of positions becomes.

    The covariance (3, 3) of q, dq and ddq for a variance of one. For positions that pass `lowpass`
    and then `derivatives`. Speeds are independent of the other two, at one instant.
    """
    sections, _ = butterworth(order, float(cutoff), float(rate))
    angle = np.pi * (np.arange(2 * CACHED) + 0.5) / (2 * CACHED)
    powers = np.exp(-1j * np.outer([0, 1, 2], angle))
    kept = np.prod(
        np.abs((sections[:, :3] @ powers) / (sections[:, 3:] @ powers)) ** 2, axis=0
    )  # of both passes
    waves = np.outer(np.arange(5), angle)
    first = 2 * _STENCILS[0] @ np.sin(waves) * rate
    second = (2 * _STENCILS[1] @ np.cos(waves) - _STENCILS[1, 0]) * rate**2
    C = np.diag([np.mean(kept**2), np.mean((kept * first) ** 2), np.mean((kept * second) ** 2)])
    C[0, 2] = C[2, 0] = np.mean(kept**2 * second)
    return C


def spikes(values: Array, threshold: float) -> NDArray[np.bool_]:
    """Return where single samples stand out (N, n).

    From the median of seven neighbours, and from a cubic through four. The median alone would call
    every sharp turn of a slowly sampled signal a spike, the cubic alone every step; a spike is
    both. Deviations are measured in robust standard deviations of the cubic's over the run.
    """
    found = np.zeros(values.shape, dtype=bool)
    if len(values) < 9:
        return found
    for joint, series in enumerate(np.ascontiguousarray(values.T)):
        cubic = np.zeros_like(series)
        bent = series[1:-3] + series[3:-1]
        bent *= 4
        bent -= series[:-4]
        bent -= series[4:]
        bent /= 6
        np.abs(np.subtract(series[2:-2], bent, out=bent), out=cubic[2:-2])
        largest, least = float(cubic.max()), 1e-4 * float(np.ptp(series))
        common = np.count_nonzero(cubic > largest / (1.4826 * threshold))
        if largest <= threshold * least or 2 * common > len(cubic):
            continue  # the median is so large, or the largest so small, that nothing stands out
        limit = threshold * max(1.4826 * float(np.median(cubic)), least)
        for row in np.flatnonzero(cubic > limit).tolist():  # few: the median is only taken there
            side = min(
                3, row, len(series) - 1 - row
            )  # near an end fewer, on both sides: a step there is no spike
            around = series[row - side : row + side + 1]
            near = cubic[
                max(row - 2, 0) : row + 3
            ].max()  # a spike bends the cubics of its neighbours, too
            apart = abs(series[row] - np.median(around)) > limit
            found[row, joint] = apart and cubic[row] >= 0.999 * near
    return found


def moving_part(dq: Array, rate: float) -> tuple[int, int]:
    """Return the first and last sample (exclusive) of the motion.

    Standstill before and after is left out. A joint moves where its speed is over 1 % of its peak;
    joints that hardly move, compared with the fastest, do not count.
    """
    peak = np.abs(dq).max(axis=0)
    counts = peak > 0.02 * peak.max()
    moves = np.flatnonzero(np.any(np.abs(dq[:, counts]) > 0.01 * peak[counts], axis=1))
    if not len(moves):
        return 0, len(dq)
    least = 0.2 * rate  # a shorter standstill is a turn
    begin, end = int(moves[0]), int(moves[-1]) + 1
    return begin if begin > least else 0, end if len(dq) - end > least else len(dq)
