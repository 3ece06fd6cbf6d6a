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


def run_split(work: Callable[[int, int], None], count: int, parts: int, grain: int) -> None:
    """Call `work(begin, end)` over 0..count in `parts` pieces, each a multiple of `grain` but the last.

    The calling thread takes the last piece itself. Threads are started when first needed and then kept.
    """
    parts = min(parts, _MOST)
    size = -(-count // (parts * grain)) * grain
    begins = list(range(0, count, size))
    pool = _pool()
    futures: list[Future[None]] = [pool.submit(work, begin, begin + size) for begin in begins[:-1]]
    work(begins[-1], count)
    for future in futures:
        future.result()
