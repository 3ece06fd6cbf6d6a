"""Power spectra of signals by Welch's method: what scipy.signal.welch gives, without its half second of imports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["power_spectrum"]

Array = NDArray[np.float64]


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
