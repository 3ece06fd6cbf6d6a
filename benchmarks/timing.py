"""Honest minutes: contestants take turns, the least time of each counts."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def race(
    work: Mapping[str, Callable[[], object]],
    seconds: float,
    rounds: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the least time in seconds of one call of each, all measured in turns.

    Taking turns puts every contestant into the same weather: a busy neighbour or a slower clock
    hits all of them. The least time is what the machine does when nobody else wants it.

    Args:
        work: What to call, by name.
        seconds: About how long all of it may take.
        rounds: Turns that everyone gets even if that takes longer.
        clock: What measures a call; `time.process_time` where the machine is busy and calls are
            long.
    """
    least = {}
    for name, call in work.items():  # the first call is warm-up: code is loaded, pages are there
        call()
        start = clock()
        call()
        least[name] = clock() - start
    end = time.perf_counter() + seconds
    turn = 0
    while turn < rounds or time.perf_counter() < end:
        for name, call in work.items():
            start = clock()
            call()
            least[name] = min(least[name], clock() - start)
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


def c_result(text: str) -> float:
    """Return the first number that a C program prints."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "step.c").write_text(text, encoding="utf-8")
        subprocess.run(
            ["gcc", "-O2", "-o", str(path / "step"), str(path / "step.c"), "-lm"], check=True
        )
        done = subprocess.run([str(path / "step")], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def c_seconds(
    source: str, functions: Mapping[str, str], variables: str, n: int, step: str, steps: int
) -> float:
    """Return the least time in seconds of a step in C, called so many times in a row, a thousand
    rows.

    Arrays q and dq (n,) are among the variables and begin at moderate values; k counts the steps.
    The step calls functions of the source by other names, {name: function}, that the compiler
    cannot see through: else it leaves out what nobody reads.
    """
    called = "\n".join(
        f"static __typeof__({own}) *volatile {name} = {own};" for name, own in functions.items()
    )
    text = f"""
#include <stdio.h>
#include <time.h>
{source}
{called}
{variables}
int main(void)
{{
    double least = 1e9;
    for (int k = 0; k < {n}; k++) {{ q[k] = 0.3 * k; dq[k] = 0.1 + 0.1 * k; }}
    for (int run = 0; run < 1000; run++) {{
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (long k = 0; k < {steps}; k++) {{
            {step}
        }}
        clock_gettime(CLOCK_MONOTONIC, &b);
        double taken = ((b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec)) / {steps};
        if (taken < least) least = taken;
    }}
    printf("%.6g %.6g\\n", least, state[0]);
    return 0;
}}
"""
    return c_result(text)
