"""Signals of a log on disk, with their smallest and largest values by ever larger groups.

A picture of any stretch of time then needs a few thousand numbers, whatever the log's length. A
group never reaches across a gap, and one that holds a value that is no number says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.display import shown_time

FACTOR = 8  # size: samples of a level that make up one group of the next
_LEAST = 1024  # size: groups of the last level

Single = NDArray[np.float32]


def write_pyramid(folder: Path, t: Array, values: Single) -> None:
    """Write times (N,), s, and signals (N, k) with all levels into a folder that exists."""
    times, breaks = shown_time(t)
    edges = [0, *breaks, len(times)]
    size, level = 1, 0
    while True:
        starts = np.concatenate(
            [np.arange(begin, end, size) for begin, end in itertools.pairwise(edges)]
        ).astype(int)
        ends = np.append(starts[1:], len(times))
        with np.errstate(invalid="ignore"):
            low, high = (one.reduceat(values, starts, axis=0) for one in (np.fmin, np.fmax))
        holes = np.add.reduceat(np.isnan(values).astype(np.int32), starts, axis=0) > 0
        gap = np.isin(ends, breaks)[:, None] | (holes & (size > 1))
        middle = (times[starts] + times[ends - 1]) / 2
        for name, array in zip(("t", "low", "high", "gap"), (middle, low, high, gap)):
            np.save(folder / f"{name}-{level}.npy", array)
        if len(starts) <= _LEAST:
            break
        size, level = size * FACTOR, level + 1


@dataclass(frozen=True, eq=False)
class Stretch:
    """What a chart draws of a stretch of time."""

    t: Array  # middle times of the groups (m,), s
    low: Single  # smallest values (m, c)
    high: Single  # largest values (m, c)
    gap: NDArray[np.bool_]  # (m, c): the line breaks behind a group
    size: int  # samples in a group


class Pyramid:
    """The levels of one log, read where they are needed."""

    def __init__(self, folder: Path) -> None:
        count = len(list(folder.glob("t-*.npy")))
        self._levels = [
            tuple(
                np.load(folder / f"{name}-{k}.npy", mmap_mode="r")
                for name in ("t", "low", "high", "gap")
            )
            for k in range(count)
        ]

    @property
    def t(self) -> Array:
        """Times of the samples (N,), s."""
        return np.asarray(self._levels[0][0])

    def samples(self, times: Array, columns: Sequence[int]) -> Array:
        """Return the samples (m, c) nearest below times (m,)."""
        rows = np.clip(np.searchsorted(self.t, times, side="right") - 1, 0, len(self.t) - 1)
        return np.asarray(self._levels[0][1][rows][:, list(columns)], dtype=float)

    def stretch(self, begin: float, end: float, groups: int, columns: Iterable[int]) -> Stretch:
        """Return columns between two times, at most about `groups` groups of samples."""
        wanted = list(columns)
        level = 0
        while True:
            t, *signals = self._levels[level]
            first, last = np.searchsorted(t, [begin, end])
            rows = slice(max(0, int(first) - 1), int(last) + 1)
            if rows.stop - rows.start <= groups or level == len(self._levels) - 1:
                break
            level += 1
        low, high, gap = (np.asarray(one[rows][:, wanted]) for one in signals)
        return Stretch(np.asarray(t[rows]), low, high, gap, FACTOR**level)
