"""Signals: zero-phase low-pass, derivatives, cut-off from the spectrum, spikes, standstill. Arrays in, arrays out.

Power spectra of signals by Welch's method: what scipy.signal.welch gives, without its half second of imports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.recording.prepare.zero_phase import butterworth, zero_phase


def power_spectrum(values: Array, rate: float, size: int) -> tuple[Array, Array]:
    """Return frequencies (K,), Hz, and the one-sided power density (K, n), unit² / Hz, of signals without their drift.

    A straight line is taken out of each signal. Stretches of `size` samples that overlap by half, each less its mean
    and under a Hann window, are averaged (Welch 1967).

    Args:
        values: Signals (N, n), samples first.
        rate: Samples per second.
        size: Samples of a stretch, at most N.
    """
    count = len(values)
    steps = np.arange(count) - (count - 1) / 2
    flat = values - values.mean(axis=0)
    flat -= np.outer(steps, steps @ flat / max(float(steps @ steps), 1.0))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    starts = range(0, count - size + 1, size - size // 2)
    power = np.zeros((size // 2 + 1, values.shape[1]))
    for start in starts:
        part = flat[start : start + size]
        power += np.abs(np.fft.rfft(window[:, None] * (part - part.mean(axis=0)), axis=0)) ** 2
    power *= 2.0 / (rate * float(window @ window) * len(starts))
    power[0] /= 2.0
    if size % 2 == 0:
        power[-1] /= 2.0  # the highest frequency, too, has no mirror image
    return np.asarray(np.arange(size // 2 + 1) * (rate / size), dtype=float), power


_FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
_SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
_CHUNK = 2048  # samples
_TIMES_BAND = 6.0  # the cut-off is so many times the band of the motion: nothing of the motion is bent (1e-6)
_SHARE = 0.999  # the band holds this share of the power of the speeds
_LEAST = 20.0  # Hz: friction that turns makes torques faster than a slow motion
_LEAST_NOISY = 5.0  # Hz: the same, where noise asks for less
_NOISE_SHARE = 0.0025  # of the acceleration: noise that does no harm
_HIGHEST = 0.35  # of the sample rate: above, the derivative's stencils are no longer exact


@dataclass(frozen=True)
class Band:
    """What the spectra of the positions say.

    Attributes:
        cutoff: Suggested cut-off, Hz.
        motion: Frequency below which 99.9 % of the power of the speeds lies, Hz, largest of the moving joints.
        noise: Frequency at which the positions sink into their noise floor, Hz, median of the moving joints; infinite
            where they do not.
        floor: White noise of the positions (n,), standard deviation, rad or m.
        reason: Which of the bounds set the cut-off.
    """

    cutoff: float
    motion: float
    noise: float
    floor: Array
    reason: str


def lowpass(values: Array, rate: float, cutoff: float, order: int = 4, periodic: bool = False) -> Array:
    """Return a signal (N, ...) filtered forwards and backwards with a Butterworth low-pass: no delay.

    Args:
        values: Signal, samples first.
        rate: Samples per second.
        cutoff: Hz; the two passes together halve the amplitude there.
        order: Of one pass.
        periodic: The samples are one period: the ends meet.
    """
    sections, states = butterworth(order, float(cutoff), float(rate))
    pad = math.ceil(3 * rate / cutoff - 1e-6)  # a rate computed from times is a whole number but for rounding
    columns = values.reshape(len(values), -1)
    if periodic:
        copies = math.ceil(pad / len(values))
        long = zero_phase(sections, states, np.concatenate([columns] * (2 * copies + 1)), 0)
        filtered = long[copies * len(values) : (copies + 1) * len(values)]
    else:
        filtered = zero_phase(sections, states, columns, min(pad, len(values) - 1))
    return filtered.reshape(values.shape)


def derivatives(values: Array, step: float, periodic: bool = False, rows: slice = slice(None)) -> tuple[Array, Array]:
    """Return the first and second derivative (N, ...) by central differences of eighth order.

    Up to a quarter of the sample rate the first is exact to 3 %, up to a tenth to 3e-5; plain differences lose 6 %
    there. The four samples at either end see a mirrored signal and are to be trimmed.

    Args:
        values: Signal, samples first.
        step: Seconds between samples.
        periodic: The samples are one period: the ends meet.
        rows: The samples that are wanted.
    """
    if periodic:
        ends = np.concatenate([values[-4:], values, values[:4]])
    else:
        before, after = 2 * values[:1] - values[4:0:-1], 2 * values[-1:] - values[-2:-6:-1]
        ends = np.concatenate([before, values, after])
    wanted = range(len(values))[rows]
    first, second = (np.empty((len(wanted), *values.shape[1:])) for _ in range(2))
    for low in range(0, len(wanted), _CHUNK):  # a chunk's sums stay in the cache
        part = wanted[low : low + _CHUNK]
        near = [ends[part[0] + by : part[-1] + by + 1 : part.step] for by in range(9)]
        one, two = np.zeros_like(near[4]), _SECOND[4] * near[4]
        for by in range(1, 5):  # the first weighs neighbours against each other, the second alike
            one += _FIRST[4 + by] * (near[4 + by] - near[4 - by])
            two += _SECOND[4 + by] * (near[4 + by] + near[4 - by])
        first[low : low + _CHUNK], second[low : low + _CHUNK] = one / step, two / step**2
    return first, second


def choose_cutoff(runs: Sequence[Array], rates: Sequence[float]) -> Band:
    """Return the cut-off the positions (N, n) of the runs call for.

    Six times the band of the motion, and at least 20 Hz, leaves the motion as it is. Where the positions sink into
    their noise before that, the cut-off is there: that frequency makes the error of the acceleration least, since below
    it motion outweighs noise and above it noise outweighs motion; or higher, up to where noise is 0.25 % of the
    acceleration, since friction makes torques that are faster than the motion. It is never under twice the band or
    5 Hz, nor over 0.35 of the sample rate.
    """
    motion, sinking, bearable, floors, slowest = 0.0, [math.inf], [math.inf], [], math.inf
    for q, rate in zip(runs, rates):
        slowest = min(slowest, rate)
        size = min(len(q), 1 << math.ceil(math.log2(max(8 * rate, 64))))
        f, power = power_spectrum(q, rate, size)
        floor = np.median(power[f > 0.25 * rate], axis=0)
        floors.append(np.sqrt(floor * rate / 2))
        speed = np.sqrt(np.sum((f[:, None] ** 2) * np.maximum(power - 2 * floor, 0), axis=0))
        for joint in np.flatnonzero(speed > 0.05 * speed.max()):
            ends = _sinks(power[:, joint], float(floor[joint]))
            inside = slice(0, ends)
            share = np.cumsum(f[inside] ** 2 * np.maximum(power[inside, joint] - floor[joint], 0))
            if share[-1] > 0:
                motion = max(motion, float(f[int(np.searchsorted(share, _SHARE * share[-1]))]))
                sinking.append(float(f[ends]) if ends < len(f) else math.inf)
                acceleration = math.sqrt(float(np.sum(f[inside] ** 4 * (power[inside, joint] - floor[joint]))) * f[1])
                bearable.append(_bearable(acceleration, float(floor[joint])))
    highest = _HIGHEST * slowest
    floor_all = np.max(floors, axis=0)
    if motion == 0:
        return Band(highest, 0.0, 0.0, floor_all, "nothing moves")
    noise = float(np.median(sinking[1:]))
    wish, reason = _TIMES_BAND * motion, "six times the band of the motion"
    if wish < _LEAST:
        wish, reason = _LEAST, "the least for slow motions"
    quiet = float(np.median(bearable[1:]))
    if noise < wish:
        reason = reason if quiet > wish else "where positions sink into noise"
        if noise < quiet < wish:
            reason = "where noise is 0.25 % of the acceleration"
        wish = max(noise, min(wish, quiet))
    if wish < max(2 * motion, _LEAST_NOISY):
        wish = max(2 * motion, _LEAST_NOISY)
        reason = "twice the band of the motion" if wish > _LEAST_NOISY else "the least where positions are noisy"
    if wish > highest:
        wish, reason = highest, "0.35 of the sample rate"
    return Band(wish, motion, noise, floor_all, reason)


def _bearable(acceleration: float, floor: float) -> float:
    """Return the cut-off, Hz, up to which white noise of density `floor` adds its share to an acceleration / (2π)²."""
    if floor <= 0:
        return math.inf
    # the noise of the second derivative below f has the variance floor ∫ f⁴ df = floor f⁵ / 5
    return float((5 * (_NOISE_SHARE * acceleration) ** 2 / floor) ** 0.2)


def _sinks(power: Array, floor: float) -> int:
    """Return the index at which a smoothed spectrum first sinks to its floor after its peak."""
    width = max(3, len(power) // 200) | 1
    smooth = np.convolve(np.pad(power, width // 2, mode="edge"), np.full(width, 1 / width), "valid")
    peak = int(np.argmax(power))
    low = np.flatnonzero(smooth[peak:] < 3 * floor)
    return max(peak + int(low[0]), 2) if len(low) else len(power)


def spikes(values: Array, threshold: float) -> NDArray[np.bool_]:
    """Return where single samples stand out (N, n): from the median of seven neighbours, and from a cubic through four.

    The median alone would call every sharp turn of a slowly sampled signal a spike, the cubic alone every step; a
    spike is both. Deviations are measured in robust standard deviations of the cubic's over the run.
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
        for row in np.flatnonzero(cubic > limit):  # few: the median is only taken there
            around = series[max(row - 3, 0) : row + 4]
            near = cubic[max(row - 2, 0) : row + 3].max()  # a spike bends the cubics of its neighbours, too
            apart = abs(series[row] - np.median(around)) > limit
            found[row, joint] = apart and cubic[row] >= 0.999 * near
    return found


def moving_part(dq: Array, rate: float) -> tuple[int, int]:
    """Return the first and last sample (exclusive) of the motion: standstill before and after is left out.

    A joint moves where its speed is over 1 % of its peak; joints that hardly move, compared with the fastest, do not
    count.
    """
    peak = np.abs(dq).max(axis=0)
    counts = peak > 0.02 * peak.max()
    moves = np.flatnonzero(np.any(np.abs(dq[:, counts]) > 0.01 * peak[counts], axis=1))
    if not len(moves):
        return 0, len(dq)
    least = 0.2 * rate  # a shorter standstill is a turn
    begin, end = int(moves[0]), int(moves[-1]) + 1
    return begin if begin > least else 0, end if len(dq) - end > least else len(dq)
