"""Waves over the positions of a joint: ripple of a gear or a motor has a fixed order."""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array

MIN_ORDER = 10.0  # waves over 2 pi: fewer are no gear's
MIN_WAVES = 3  # that positions must hold
MIN_CONTRAST = 25.0
"""Over the median: of slow noise, the largest of some hundred waves is up to twenty times that."""
MIN_POWER_SHARE = 0.02  # of the squares that the wave explains
MAX_WAVES = 1e6  # size: times 2 pi; positions that reach further are not in radians or metres


def position_spectrum(position: Array, values: Array, highest: float) -> tuple[Array, Array]:
    """Return orders (K,) up to a highest one, and which share of the squares of values (N,) a wave
    of each explains.

    A wave of order N is one of cos(N p + phase) over the positions p (N,), which need not be even.
    """
    step = 2 * np.pi / (8.0 * highest)
    places = np.round((position - position.min()) / step).astype(np.intp)
    sums = np.bincount(places, weights=values)
    size = 1 << int(4 * len(sums) - 1).bit_length()
    found = np.abs(np.fft.rfft(sums, size)) ** 2
    orders = np.asarray(2 * np.pi / (size * step) * np.arange(len(found)), dtype=float)
    share = 2.0 / (len(values) * max(float(values @ values), 1e-300)) * found
    return orders[orders <= highest], share[orders <= highest]


def standing_wave(position: Array, values: Array, highest: float) -> float:
    """Return the order of the wave over positions (N,) that stands out most among others of values
    (N,); 0: none does.

    It is compared with the median wave of its octave and the next ones: noise has waves of all
    orders alike.
    """
    span = float(np.ptp(position))
    if not 0.0 < span * highest < MAX_WAVES:
        return 0.0
    orders, share = position_spectrum(position, values, highest)
    lowest = max(MIN_ORDER, 2 * np.pi * MIN_WAVES / span)
    octave = np.floor(np.log2(np.maximum(orders, 1e-9) / lowest)).astype(int)
    contrast = np.zeros(len(orders))
    for number in range(int(octave.max(initial=-1)) + 1):
        own, around = octave == number, (octave >= 0) & (np.abs(octave - number) <= 1)
        contrast[own] = (
            share[own]
            / max(float(np.median(share[around])), 1e-300)
            * (share[own] > MIN_POWER_SHARE)
        )
    if not contrast.max(initial=0.0) > MIN_CONTRAST:
        return 0.0
    best = int(np.argmax(contrast))
    for part in (4, 2):  # the strongest wave may be a multiple
        near = np.flatnonzero(np.abs(orders - orders[best] / part) < 2 * np.pi / span / part)
        if contrast[near].max(initial=0.0) > MIN_CONTRAST:
            best = int(near[np.argmax(contrast[near])])
            break
    left, peak, right = np.log(
        np.maximum(share[np.clip([best - 1, best, best + 1], 0, len(share) - 1)], 1e-300)
    )
    bend = left - 2 * peak + right
    return float(orders[best] + (orders[1] * 0.5 * (left - right) / bend if bend < 0 else 0.0))
