"""Power spectra: how fast joints move, and how noisy positions are.

The spectrum is that of scipy.signal.welch, to rounding; of an hour of seven joints at 1 kHz it
takes 1.1 s of processor time where SciPy takes 3.2 s (`benchmarks/filters.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array

BAND_SHARES = (0.999, 0.99)
"""Of the power of the speeds: what the band holds, and its core, which vibration does not widen."""
MIN_MOTION = 0.05  # of the largest speed: slower joints do not count
SHORT = 0.25  # of the longest run: shorter ones show their ends and do not count


@dataclass(frozen=True)
class Band:
    """What the spectra of the positions say.

    Of the moving joints the largest `motion` and `core`.
    """

    motion: float  # frequency below which 99.9 % of the power of the speeds lies, Hz
    core: float  # the same of 99 %
    floor: Array  # white noise of the positions (n,), standard deviation, rad or m


def power_spectrum(values: Array, rate: float, size: int) -> tuple[Array, Array]:
    """Return frequencies (K,), Hz, and the one-sided power density (K, n), unit² / Hz, of signals
    without their drift.

    A straight line is taken out of each signal (N, n). Stretches of `size` samples (at most N) that
    overlap by half, each less its mean and under a Hann window, are averaged (Welch 1967).
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


def position_bands(runs: Sequence[Array], rates: Sequence[float]) -> Band:
    """Return where the positions (N, n) of runs hold motion, where noise, and how much."""
    bands, floors = np.zeros(2), []
    longest = max(len(q) / rate for q, rate in zip(runs, rates))
    for q, rate in zip(runs, rates):
        if len(q) / rate < SHORT * longest:
            continue  # a short piece shows its ends
        size = _stretch(len(q), 8 * rate)
        f, power = power_spectrum(q, rate, size)
        floor = np.median(power[f > 0.25 * rate], axis=0)
        averaged = 1 + (len(q) - size) // (size - size // 2)
        floors.append(
            np.sqrt(floor * rate / 2 / (1 - 1 / (3 * averaged)))
        )  # a median of squares is below their mean
        speed = np.sqrt(np.sum((f[:, None] ** 2) * np.maximum(power - 2 * floor, 0), axis=0))
        for joint in np.flatnonzero(speed > MIN_MOTION * speed.max()):
            ends = _sinks(power[:, joint], float(floor[joint]))
            inside = slice(0, ends)
            share = np.cumsum(f[inside] ** 2 * np.maximum(power[inside, joint] - floor[joint], 0))
            if share[-1] > 0:
                parts = np.array(BAND_SHARES) * share[-1]
                bands = np.maximum(bands, f[np.searchsorted(share, parts)])
    motion, core = bands.tolist()
    return Band(motion, core, np.max(floors, axis=0))


def _stretch(count: int, wanted: float) -> int:
    """Return the samples of a stretch for a spectrum: a power of two, at most all of them."""
    wanted = min(max(wanted, 64), count)  # times that are nearly equal give endless rates
    return min(count, 1 << math.ceil(math.log2(wanted)))


def acceleration_noise(values: Array, rate: float, cutoff: float, order: int) -> Array:
    """Return the noise of accelerations below a cut-off, Hz, over their size, of joints that move.

    Of positions (N, n), whose derivatives of order 2 they are, or of speeds, 1. What these hold
    from the cut-off to three times that is taken for white noise: few motions reach so far, and
    rounding, jitter of stamps and vibrations do.
    """
    size = _stretch(len(values), 4 * rate)
    f, power = power_spectrum(values, rate, size)
    low, high = min(cutoff, 0.3 * rate), min(3 * cutoff, 0.45 * rate)
    beyond = (f >= low) & (f <= high)
    if not beyond.any():  # a stretch too short to have a frequency there
        return np.zeros(0)
    density = np.median(power[beyond], axis=0)
    motion, below = np.maximum(power - density, 0.0), f[:, None] <= cutoff
    speed = np.sqrt(np.sum(f[:, None] ** (2 * order - 2) * motion, axis=0))
    moves = speed > MIN_MOTION * speed.max()
    signal = np.sqrt(np.sum(f[:, None] ** (2 * order) * motion * below, axis=0) * f[1])[moves]
    over = 2 * order + 1
    noise = np.sqrt(density * cutoff**over / over)[moves]  # of f to the power of twice the order
    return np.asarray(noise / np.maximum(signal, 1e-300))


def _sinks(power: Array, floor: float) -> int:
    """Return the index at which a smoothed spectrum first sinks to its floor after its peak."""
    width = max(3, len(power) // 200) | 1
    smooth = np.convolve(np.pad(power, width // 2, mode="edge"), np.full(width, 1 / width), "valid")
    peak = int(np.argmax(power))
    low = np.flatnonzero(smooth[peak:] < 3 * floor)
    return max(peak + int(low[0]), 2) if len(low) else len(power)
