"""Honest minutes: contestants take turns, the least time of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def race(work: Mapping[str, Callable[[], object]], seconds: float, rounds: int = 5) -> dict[str, float]:
    """Return the least time in seconds of one call of each, all measured in turns.

    Taking turns puts every contestant into the same weather: a busy neighbour or a slower clock hits all of them. The
    least time is what the machine does when nobody else wants it.

    Args:
        work: What to call, by name.
        seconds: About how long all of it may take.
        rounds: Turns that everyone gets even if that takes longer.
    """
    least = {}
    for name, call in work.items():  # the first call is warm-up: code is loaded, pages are there
        call()
        start = time.perf_counter()
        call()
        least[name] = time.perf_counter() - start
    end = time.perf_counter() + seconds
    turn = 0
    while turn < rounds or time.perf_counter() < end:
        for name, call in work.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
        turn += 1
    return least


def aligned(*shape: int) -> Array:
    """Return an array of NaN that starts on a cache line: what is not computed shows."""
    size = int(np.prod(shape))
    raw = np.full(size + 8, np.nan)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + size].reshape(shape)


def to_blocks(rows: Array, width: int) -> Array:
    """Return samples (count, size) as packed blocks (count / width, size, width)."""
    count, size = rows.shape
    blocks = aligned(count // width, size, width)
    blocks[...] = rows.reshape(count // width, width, size).transpose(0, 2, 1)
    return blocks


def from_blocks(blocks: Array) -> Array:
    """Return packed blocks (blocks, size, width) as samples (count, size)."""
    count, size, width = blocks.shape
    return np.ascontiguousarray(blocks.transpose(0, 2, 1)).reshape(count * width, size)
