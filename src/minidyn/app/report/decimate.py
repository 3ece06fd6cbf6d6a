"""Long signals made short without losing their peaks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array

_GAP = 20.0  # a pause longer than so many samples is a break in the line


def shown_time(t: Array) -> tuple[Array, list[int]]:
    """Return times that only grow, and where lines must break: runs whose clocks start anew are put one after another.

    Args:
        t: Times (N,), s.

    Returns:
        Times from 0 (N,), and the indices of samples that begin a run.
    """
    if len(t) < 2:
        return np.zeros(len(t)), []
    steps = np.diff(t)
    usual = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 1.0
    backwards = steps <= 0
    breaks = (np.flatnonzero(backwards | (steps > _GAP * usual)) + 1).tolist()
    steps = np.where(backwards, _GAP * usual, steps)
    return np.concatenate([[0.0], np.cumsum(steps)]), breaks


@dataclass(frozen=True)
class Envelope:
    """Smallest and largest value of consecutive groups of samples.

    Attributes:
        t: Middle time of each group (m,).
        low: Smallest values (m, k) of k signals; NaN where a line must break.
        high: Largest values (m, k).
        exact: Whether each group is one sample.
    """

    t: Array
    low: Array
    high: Array
    exact: bool


def envelope(t: Array, signals: Array, groups: int, breaks: list[int]) -> Envelope:
    """Return the envelope of signals (N, k) in at most `groups` groups; groups do not reach across breaks."""
    edges = [0, *breaks, len(t)]
    times: list[Array] = []
    lows: list[Array] = []
    highs: list[Array] = []
    size = max(1, int(np.ceil(len(t) / max(groups - len(breaks), 1))))
    for begin, end in itertools.pairwise(edges):
        starts = np.arange(begin, end, size)
        last = np.minimum(starts + size, end) - 1
        times.append((t[starts] + t[last]) / 2)
        part = signals[begin:end]
        lows.append(np.minimum.reduceat(part, starts - begin, axis=0))
        highs.append(np.maximum.reduceat(part, starts - begin, axis=0))
        if end < len(t):
            times.append(np.array([(t[end - 1] + t[end]) / 2]))
            for parts in (lows, highs):
                parts.append(np.full((1, signals.shape[1]), np.nan))
    return Envelope(np.concatenate(times), np.concatenate(lows), np.concatenate(highs), size == 1)
