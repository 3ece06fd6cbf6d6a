"""Zero-phase Butterworth low-pass of many columns at once.

It gives what scipy.signal.sosfiltfilt gives, to rounding. It is our own because large logs need it
(`benchmarks/filters.py`, seven joints at 1 kHz, processor time): an hour is filtered in 0.2 s where
SciPy takes 1.1 s, and importing scipy.signal takes 0.7 s, half of what a first identification may
take. A recursive filter waits for its own result at every sample, so one column at a time leaves a
processor mostly idle; here all columns pass side by side in vector registers.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import ShapeError
from minidyn.graph.targets.native import host as ir

MEMORY = 0.56  # formula: periods of the cut-off, where filtered white noise is uncorrelated first

_PASS = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def lowpass(
    values: Array, rate: float, cutoff: float, order: int = 4, periodic: bool = False
) -> Array:
    """Return a signal (N, ...) filtered forwards and backwards with a Butterworth low-pass.

    No delay. The two passes, each of `order`, together halve the amplitude at `cutoff`, Hz.
    `periodic`: the samples are one period, the ends meet.
    """
    sections, states = butterworth(order, float(cutoff), float(rate))
    pad = math.ceil(
        3 * rate / cutoff - 1e-6
    )  # a rate computed from times is a whole number but for rounding
    columns = values.reshape(len(values), -1)
    if periodic:
        copies = math.ceil(pad / len(values))
        long = zero_phase(sections, states, np.concatenate([columns] * (2 * copies + 1)), 0)
        filtered = long[copies * len(values) : (copies + 1) * len(values)]
    else:
        filtered = zero_phase(sections, states, columns, min(pad, len(values) - 1))
    return filtered.reshape(values.shape)


@lru_cache(maxsize=64)
def butterworth(order: int, cutoff: float, rate: float) -> tuple[Array, Array]:
    """Return the sections (S, 6) of a Butterworth low-pass and their states (S, 2) after a long
    time at one.

    The poles of the analogue filter lie evenly on a half circle; the bilinear transform, its
    frequency warped so that the cut-off stays where it is, takes s to k (z - 1) / (z + 1). Each
    section passes a constant as it is, and the whole leaves 1/√2 of the amplitude at the cut-off,
    Hz.
    """
    if not 0.0 < cutoff < rate / 2:
        raise ShapeError(
            f"cutoff: expected more than 0 and less than half the sample rate, {rate / 2:.6g} Hz, "
            f"got {cutoff:.6g}"
        )
    k = 1.0 / math.tan(math.pi * cutoff / rate)
    sections = []
    if order % 2:
        sections.append((1.0, 1.0, 0.0, k + 1.0, 1.0 - k, 0.0))  # 1 / (s + 1)
    for pair in range(order // 2):
        damping = 2.0 * math.sin(math.pi * (2 * pair + 1) / (2 * order))  # 1 / (s² + damping s + 1)
        sections.append(
            (1.0, 2.0, 1.0, k * k + damping * k + 1.0, 2.0 - 2.0 * k * k, k * k - damping * k + 1.0)
        )
    made = np.array(sections)
    made /= made[:, 3:4]
    # input and output are one: what the transposed form holds then is 1 - b0 and b2 - a2
    return made, np.stack([1.0 - made[:, 0], made[:, 2] - made[:, 5]], axis=1)


def zero_phase(sections: Array, states: Array, values: Array, pad: int) -> Array:
    """Return a signal (N, n) filtered forwards and backwards, its ends continued oddly by `pad` < N
    samples.

    `sections` (S, 6) are of second order, b0 b1 b2 1 a1 a2; `states` (S, 2) theirs after a long
    time at one.
    """
    count, columns = values.shape
    width = ir.host().width
    padded = -(-columns // width) * width
    raw = np.zeros((count + 2 * pad) * padded + 8)
    start = (-raw.ctypes.data // 8) % 8  # on a cache line: a vector across two would cost two
    long = raw[start : start + (count + 2 * pad) * padded].reshape(-1, padded)
    long[pad : pad + count, :columns] = values
    if pad:
        long[:pad, :columns] = 2 * values[0] - values[pad:0:-1]
        long[pad + count :, :columns] = 2 * values[-1] - values[-2 : -2 - pad : -1]
    if not ir.has_compiler():
        from scipy.signal import sosfilt

        for _ in range(2):  # backwards after forwards
            long = sosfilt(sections, long, axis=0, zi=states[:, :, None] * long[0])[0][::-1]
    else:
        run, _ = _compiled(len(sections))
        factors = np.ascontiguousarray(sections[:, [0, 1, 2, 4, 5]])
        row = 8 * padded
        for first, stride in ((0, row), (len(long) - 1, -row)):
            for group in range(0, padded, width):
                start_values = long[first, group : group + width]
                state = np.ascontiguousarray(states[:, :, None] * start_values)
                address = long.ctypes.data + first * row + 8 * group
                run(address, stride, len(long), factors.ctypes.data, state.ctypes.data)
    return np.ascontiguousarray(long[pad : pad + count, :columns])


@lru_cache(maxsize=8)
def _compiled(sections: int) -> tuple[Callable[[int, int, int, int, int], None], ir.Code]:
    """Return a pass through so many sections, and the machine code that must live as long."""
    code = ir.compile_text(_text(sections, ir.host().width), ("pass",))
    return _PASS(code.addresses["pass"]), code


def _text(sections: int, width: int) -> str:
    """Return `@pass(rows, stride, count, factors, state)`.

    `width` columns of `count` rows, filtered in place. `stride` is in bytes and may be negative;
    `factors` holds b0 b1 b2 a1 a2 of each section, `state` two vectors of it. Each section is in
    transposed direct form: y = b0 x + z0, z0 = b1 x - a1 y + z1, z1 = b2 x - a2 y.
    """
    real = ir.vector(width)
    lines = [
        "define void @pass(ptr %rows, i64 %stride, i64 %count, ptr %factors, ptr %state) #0 {",
        "entry:",
    ]
    for s in range(sections):
        for place, name in enumerate(("b0", "b1", "b2", "a1", "a2")):
            lines += ir.spread(f"{name}.{s}", "factors", 5 * s + place, width)
        for k in range(2):
            lines += [
                f"  %z{k}.{s}.p = getelementptr double, ptr %state, i64 {(2 * s + k) * width}",
                f"  %z{k}.{s}.0 = load {real}, ptr %z{k}.{s}.p, align 8",
            ]
    lines += ["  br label %row", "row:", "  %i = phi i64 [ 0, %entry ], [ %i.next, %row ]"]
    lines.append("  %p = phi ptr [ %rows, %entry ], [ %p.next, %row ]")
    for s in range(sections):
        lines += [
            f"  %z{k}.{s} = phi {real} [ %z{k}.{s}.0, %entry ], [ %z{k}.{s}.n, %row ]"
            for k in range(2)
        ]
    lines.append(f"  %x.0 = load {real}, ptr %p, align 8")
    for s in range(sections):
        x, y = f"%x.{s}", f"%x.{s + 1}"
        lines += [
            f"  %bx0.{s} = fmul {ir.FLAGS} {real} %b0.{s}, {x}",
            f"  {y} = fadd {ir.FLAGS} {real} %bx0.{s}, %z0.{s}",
            f"  %bx1.{s} = fmul {ir.FLAGS} {real} %b1.{s}, {x}",
            f"  %in1.{s} = fadd {ir.FLAGS} {real} %bx1.{s}, %z1.{s}",
            f"  %ay1.{s} = fmul {ir.FLAGS} {real} %a1.{s}, {y}",
            f"  %z0.{s}.n = fsub {ir.FLAGS} {real} %in1.{s}, %ay1.{s}",
            f"  %bx2.{s} = fmul {ir.FLAGS} {real} %b2.{s}, {x}",
            f"  %ay2.{s} = fmul {ir.FLAGS} {real} %a2.{s}, {y}",
            f"  %z1.{s}.n = fsub {ir.FLAGS} {real} %bx2.{s}, %ay2.{s}",
        ]
    lines += [
        f"  store {real} %x.{sections}, ptr %p, align 8",
        "  %p.next = getelementptr i8, ptr %p, i64 %stride",
    ]
    lines += [ir.loop_end("i", 1, "%count", "row", "done"), "done:", "  ret void", "}", ir.FOOTER]
    return "\n".join(lines)
