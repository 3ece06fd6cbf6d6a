"""Time one compiled function: compiling, blocks in cache, row-major batches, threads, one sample.

`measure` takes any function; run as a script it takes a synthetic one of the size of a 7-joint inverse dynamics.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from minidyn.graph.function import Function
from minidyn.graph.native import NativeFunction
from minidyn.graph.native.host import host
from minidyn.graph.scalar import Graph, cos, sin


def best(work: Callable[[], object], repeat: int = 15) -> float:
    """Return the least time of several runs: what the machine does when nobody else wants it."""
    least = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - start)
    return least


def aligned(*shape: int) -> np.ndarray:
    """Return zeros that start on a cache line."""
    size = int(np.prod(shape))
    raw = np.zeros(size + 8)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + size].reshape(shape)


def in_cache(native: NativeFunction) -> float:
    """Seconds per sample for packed blocks that stay in the first-level cache, without any transposing."""
    function, width, rng = native.function, native.width, np.random.default_rng(0)
    per_sample = sum(a.size for a in function.arguments) + sum(r.size for r in function.results)
    blocks = max(1, min(64, 32768 // (8 * width * per_sample)))
    ins = [rng.normal(size=a.size) if a.uniform else aligned(blocks, a.size, width) for a in function.arguments]
    for array in ins:
        array[...] = rng.normal(size=array.shape)
    outs = [aligned(blocks, r.size, width) for r in function.results]
    native.tile(ins, outs)
    tables = [(ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]) for arrays in (ins, outs)]
    work = (ctypes.c_double * max(1, native.slots))()
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    tile = ctypes.CFUNCTYPE(None, *kinds)(native.code.addresses["tile"])
    call = best(lambda: [tile(*tables, work, 0, 0) for _ in range(50)])
    full = best(lambda: [tile(*tables, work, blocks, 0) for _ in range(50)])
    return (full - call) / (50 * blocks * width)


def measure(function: Function, *, result_bytes: float = 14e6) -> dict[str, float]:
    """Return timings in seconds: compile, and per sample tile, rows, threads2, single."""
    start = time.perf_counter()
    native = NativeFunction(function, host().width)
    native.code  # noqa: B018  (compiles)
    compile_time = time.perf_counter() - start
    rng = np.random.default_rng(1)
    count = max(64, int(result_bytes / 8 / sum(result.size for result in function.results)))
    arrays = [rng.normal(size=(a.size,) if a.uniform else (count, a.size)) for a in function.arguments]
    out = native(*arrays)
    sample = [a if arg.uniform else a[0].copy() for a, arg in zip(arrays, function.arguments)]
    native(*sample)
    return {
        "compile": compile_time,
        "tile": in_cache(native),
        "rows": best(lambda: native(*arrays, out=out)) / count,
        "threads2": best(lambda: native(*arrays, out=out, threads=2)) / count,
        "single": best(lambda: [native(*sample) for _ in range(1000)]) / 1000,
    }


def synthetic(joints: int = 7, rounds: int = 9) -> Function:
    """A chain of plane rotations and products: about 64 products per joint, as inverse dynamics has."""
    graph = Graph()
    q, dq, ddq = (graph.inputs(name, joints) for name in ("q", "dq", "ddq"))
    v = [dq[0], ddq[0], dq[1]]
    results = []
    for joint in range(joints):
        c, s = cos(q[joint]), sin(q[joint])
        for k in range(rounds):
            x, y, z = v
            v = [c * x - s * y + 0.1 * k * z, s * x + c * y + ddq[joint], z * 0.3 + dq[joint] * x]
        results.append(v[0] + v[2])
    return graph.function("synthetic", {"y": results})


if __name__ == "__main__":
    function = synthetic()
    times = measure(function)
    print(function, "on", host().cpu, "width", host().width)
    print(f"compile {times.pop('compile'):.3f} s")
    for name, seconds in times.items():
        print(f"{name:10s} {seconds * 1e9:8.1f} ns per sample")
