"""A batch split over a few threads: machine code runs without the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["run_split"]

_POOL: dict[int, ThreadPoolExecutor] = {}  # by process: threads do not survive a fork
_MOST = 64


def _pool() -> ThreadPoolExecutor:
    process = os.getpid()
    pool = _POOL.get(process)
    if pool is None:
        _POOL.clear()
        pool = _POOL.setdefault(process, ThreadPoolExecutor(_MOST, thread_name_prefix="minidyn"))
    return pool


def run_split(work: Callable[[int, int], None], count: int, threads: int, pieces: int, grain: int) -> None:
    """Call `work(begin, end)` over 0..count in `pieces`, each a multiple of `grain` but the last.

    Whoever is free takes the next piece, so a core that is also busy elsewhere does not hold up the rest. The
    calling thread works too. Threads are started when first needed and then kept.
    """
    size = -(-count // (pieces * grain)) * grain
    begins = iter(range(0, count, size))  # taking the next one is atomic

    def take() -> None:
        for begin in begins:
            work(begin, min(count, begin + size))

    pool = _pool()
    helpers: list[Future[None]] = [pool.submit(take) for _ in range(min(threads, _MOST, pieces) - 1)]
    take()
    for helper in helpers:
        helper.result()
