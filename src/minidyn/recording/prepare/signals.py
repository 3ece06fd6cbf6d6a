"""Signals: zero-phase low-pass, power spectrum, derivatives, spikes, standstill.

Arrays in, arrays out. The low-pass gives what scipy.signal.sosfiltfilt gives and the spectrum what
scipy.signal.welch gives, to rounding. They are our own because large logs need it
(`benchmarks/filters.py`, seven joints at 1 kHz, processor time): an hour is filtered in 0.2 s where
SciPy takes 1.1 s, its spectrum takes 1.1 s where SciPy takes 3.2 s, and importing scipy.signal
takes 0.7 s, half of what a first identification may take. A recursive filter waits for its own
result at every sample, so one column at a time leaves a processor mostly idle; here all columns
pass side by side in vector registers.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import ShapeError
from minidyn.graph.targets.native import host as ir

_PASS = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
_FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
_SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
_CHUNK = 2048  # samples
_GRID = 4096  # frequencies at which a response is summed
_SHARE = 0.999  # the band holds this share of the power of the speeds
_CORE_SHARE = 0.99  # the same of its core: a little noise or vibration does not widen that
_MOVING = 0.05  # of the largest speed: slower joints do not count
_SHORT = 0.25  # of the longest run: shorter ones do not count


class FitCutoff(float):
    """A cut-off that nobody gave: that of an earlier preparation."""


@dataclass(frozen=True)
class Band:
    """What the spectra of the positions say.

    Of the moving joints the largest `motion` and `core`, and the median `noise`.
    """

    motion: float  # frequency below which 99.9 % of the power of the speeds lies, Hz
    core: float  # the same of 99 %
    # frequency at which the positions sink into their noise floor, Hz; infinite where they do not
    noise: float
    floor: Array  # white noise of the positions (n,), standard deviation, rad or m


_LOWEST_ORDER, _FEWEST_WAVES = (
    10.0,
    3,
)  # waves over 2 pi, fewer are no gear's; and that positions must hold
_CONTRAST = (
    25.0  # of slow noise, the largest of some hundred waves is up to twenty times the median
)
_LEAST_SHARE = 0.02  # of the squares
_MOST_WAVES = 1e6  # times 2 pi: positions that reach further are not in radians or metres


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


def power_spectrum(values: Array, rate: float, size: int) -> tuple[Array, Array]:
    """Return frequencies (K,), Hz, and the one-sided power density (K, n), unit² / Hz, of signals
    without their drift.

    A straight line is taken out of each signal (N, n). Stretches of `size` samples (at most N) that
    overlap by half, each less its mean and under a Hann window, are averaged (Welch 1967).
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
    if not 0.0 < span * highest < _MOST_WAVES:
        return 0.0
    orders, share = position_spectrum(position, values, highest)
    lowest = max(_LOWEST_ORDER, 2 * np.pi * _FEWEST_WAVES / span)
    octave = np.floor(np.log2(np.maximum(orders, 1e-9) / lowest)).astype(int)
    contrast = np.zeros(len(orders))
    for number in range(int(octave.max(initial=-1)) + 1):
        own, around = octave == number, (octave >= 0) & (np.abs(octave - number) <= 1)
        contrast[own] = (
            share[own] / max(float(np.median(share[around])), 1e-300) * (share[own] > _LEAST_SHARE)
        )
    if not contrast.max(initial=0.0) > _CONTRAST:
        return 0.0
    best = int(np.argmax(contrast))
    for part in (4, 2):  # the strongest wave may be a multiple
        near = np.flatnonzero(np.abs(orders - orders[best] / part) < 2 * np.pi / span / part)
        if contrast[near].max(initial=0.0) > _CONTRAST:
            best = int(near[np.argmax(contrast[near])])
            break
    left, peak, right = np.log(
        np.maximum(share[np.clip([best - 1, best, best + 1], 0, len(share) - 1)], 1e-300)
    )
    bend = left - 2 * peak + right
    return float(orders[best] + (orders[1] * 0.5 * (left - right) / bend if bend < 0 else 0.0))


def derivatives(
    values: Array, step: float, periodic: bool = False, rows: slice = slice(None)
) -> tuple[Array, Array]:
    """Return the first and second derivative (N, ...) by central differences of eighth order.

    Up to a quarter of the sample rate the first is exact to 3 %, up to a tenth to 3e-5; plain
    differences lose 6 % there. The four samples at either end see a mirrored signal and are to be
    trimmed, unless they are one period whose ends meet. `rows` are the samples that are wanted,
    `step` s apart.
    """
    if periodic:
        ends = np.concatenate([values[-4:], values, values[:4]])
    else:
        before, after = 2 * values[:1] - values[4:0:-1], 2 * values[-1:] - values[-2:-6:-1]
        ends = np.concatenate([before, values, after])
    wanted = range(len(values))[rows]
    first, second = (np.empty((len(wanted), *values.shape[1:])) for _ in range(2))
    for low in range(0, len(wanted), _CHUNK):  # a chunk's sums stay in the cache
        part = wanted[low : low + _CHUNK]
        near = [ends[part[0] + by : part[-1] + by + 1 : part.step] for by in range(9)]
        one, two = np.zeros_like(near[4]), _SECOND[4] * near[4]
        for by in range(1, 5):  # the first weighs neighbours against each other, the second alike
            one += _FIRST[4 + by] * (near[4 + by] - near[4 - by])
            two += _SECOND[4 + by] * (near[4 + by] + near[4 - by])
        first[low : low + _CHUNK], second[low : low + _CHUNK] = one / step, two / step**2
    return first, second


def noise_gain(rate: float, cutoff: float, order: int) -> Array:
    """Return what white noise of positions becomes.

    The covariance (3, 3) of q, dq and ddq for a variance of one. For positions that pass `lowpass`
    and then `derivatives`. Speeds are independent of the other two, at one instant.
    """
    sections, _ = butterworth(order, float(cutoff), float(rate))
    angle = np.pi * (np.arange(_GRID) + 0.5) / _GRID
    powers = np.exp(-1j * np.outer([0, 1, 2], angle))
    kept = np.prod(
        np.abs((sections[:, :3] @ powers) / (sections[:, 3:] @ powers)) ** 2, axis=0
    )  # of both passes
    steps = np.arange(-4, 5)
    first, second = (
        _FIRST @ np.sin(np.outer(steps, angle)) * rate,
        _SECOND @ np.cos(np.outer(steps, angle)) * rate**2,
    )
    C = np.diag([np.mean(kept**2), np.mean((kept * first) ** 2), np.mean((kept * second) ** 2)])
    C[0, 2] = C[2, 0] = np.mean(kept**2 * second)
    return C


def position_bands(runs: Sequence[Array], rates: Sequence[float]) -> Band:
    """Return where the positions (N, n) of runs hold motion, where noise, and how much."""
    bands, sinking, floors = np.zeros(2), [math.inf], []
    longest = max(len(q) / rate for q, rate in zip(runs, rates))
    for q, rate in zip(runs, rates):
        if len(q) / rate < _SHORT * longest:
            continue  # a short piece shows its ends
        size = _stretch(len(q), 8 * rate)
        f, power = power_spectrum(q, rate, size)
        floor = np.median(power[f > 0.25 * rate], axis=0)
        averaged = 1 + (len(q) - size) // (size - size // 2)
        floors.append(
            np.sqrt(floor * rate / 2 / (1 - 1 / (3 * averaged)))
        )  # a median of squares is below their mean
        speed = np.sqrt(np.sum((f[:, None] ** 2) * np.maximum(power - 2 * floor, 0), axis=0))
        for joint in np.flatnonzero(speed > _MOVING * speed.max()):
            ends = _sinks(power[:, joint], float(floor[joint]))
            inside = slice(0, ends)
            share = np.cumsum(f[inside] ** 2 * np.maximum(power[inside, joint] - floor[joint], 0))
            if share[-1] > 0:
                parts = np.array([_SHARE, _CORE_SHARE]) * share[-1]
                bands = np.maximum(bands, f[np.searchsorted(share, parts)])
                sinking.append(float(f[ends]) if ends < len(f) else math.inf)
    motion, core = bands.tolist()
    noise = float(np.median(sinking[1:])) if motion else 0.0
    return Band(motion, core, noise, np.max(floors, axis=0))


def _stretch(count: int, wanted: float) -> int:
    """Return the samples of a stretch for a spectrum: a power of two, at most all of them."""
    wanted = min(max(wanted, 64), count)  # times that are nearly equal give endless rates
    return min(count, 1 << math.ceil(math.log2(wanted)))


def acceleration_noise(position: Array, rate: float, cutoff: float) -> Array:
    """Return the noise of accelerations below a cut-off, Hz, over their size, of joints that move.

    Of positions (N, n). What they hold from the cut-off to three times that is taken for white
    noise: few motions reach so far, and rounding, jitter of stamps and vibrations do.
    """
    size = _stretch(len(position), 4 * rate)
    f, power = power_spectrum(position, rate, size)
    low, high = min(cutoff, 0.3 * rate), min(3 * cutoff, 0.45 * rate)
    beyond = (f >= low) & (f <= high)
    if not beyond.any():  # a stretch too short to have a frequency there
        return np.zeros(0)
    density = np.median(power[beyond], axis=0)
    motion, below = np.maximum(power - density, 0.0), f[:, None] <= cutoff
    speed = np.sqrt(np.sum(f[:, None] ** 2 * motion, axis=0))
    moves = speed > _MOVING * speed.max()
    signal = np.sqrt(np.sum(f[:, None] ** 4 * motion * below, axis=0) * f[1])[moves]
    noise = np.sqrt(density * cutoff**5 / 5)[moves]  # ∫ f⁴ df
    return np.asarray(noise / np.maximum(signal, 1e-300))


def _sinks(power: Array, floor: float) -> int:
    """Return the index at which a smoothed spectrum first sinks to its floor after its peak."""
    width = max(3, len(power) // 200) | 1
    smooth = np.convolve(np.pad(power, width // 2, mode="edge"), np.full(width, 1 / width), "valid")
    peak = int(np.argmax(power))
    low = np.flatnonzero(smooth[peak:] < 3 * floor)
    return max(peak + int(low[0]), 2) if len(low) else len(power)


def spikes(values: Array, threshold: float) -> NDArray[np.bool_]:
    """Return where single samples stand out (N, n).

    From the median of seven neighbours, and from a cubic through four. The median alone would call
    every sharp turn of a slowly sampled signal a spike, the cubic alone every step; a spike is
    both. Deviations are measured in robust standard deviations of the cubic's over the run.
    """
    found = np.zeros(values.shape, dtype=bool)
    if len(values) < 9:
        return found
    for joint, series in enumerate(np.ascontiguousarray(values.T)):
        cubic = np.zeros_like(series)
        bent = series[1:-3] + series[3:-1]
        bent *= 4
        bent -= series[:-4]
        bent -= series[4:]
        bent /= 6
        np.abs(np.subtract(series[2:-2], bent, out=bent), out=cubic[2:-2])
        largest, least = float(cubic.max()), 1e-4 * float(np.ptp(series))
        common = np.count_nonzero(cubic > largest / (1.4826 * threshold))
        if largest <= threshold * least or 2 * common > len(cubic):
            continue  # the median is so large, or the largest so small, that nothing stands out
        limit = threshold * max(1.4826 * float(np.median(cubic)), least)
        for row in np.flatnonzero(cubic > limit).tolist():  # few: the median is only taken there
            side = min(
                3, row, len(series) - 1 - row
            )  # near an end fewer, on both sides: a step there is no spike
            around = series[row - side : row + side + 1]
            near = cubic[
                max(row - 2, 0) : row + 3
            ].max()  # a spike bends the cubics of its neighbours, too
            apart = abs(series[row] - np.median(around)) > limit
            found[row, joint] = apart and cubic[row] >= 0.999 * near
    return found


def moving_part(dq: Array, rate: float) -> tuple[int, int]:
    """Return the first and last sample (exclusive) of the motion.

    Standstill before and after is left out. A joint moves where its speed is over 1 % of its peak;
    joints that hardly move, compared with the fastest, do not count.
    """
    peak = np.abs(dq).max(axis=0)
    counts = peak > 0.02 * peak.max()
    moves = np.flatnonzero(np.any(np.abs(dq[:, counts]) > 0.01 * peak[counts], axis=1))
    if not len(moves):
        return 0, len(dq)
    least = 0.2 * rate  # a shorter standstill is a turn
    begin, end = int(moves[0]), int(moves[-1]) + 1
    return begin if begin > least else 0, end if len(dq) - end > least else len(dq)


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

        for step in (1, -1):
            long = sosfilt(sections, long[::step], axis=0, zi=states[:, :, None] * long[::step][0])[
                0
            ][::step]
        return np.ascontiguousarray(long[pad : pad + count, :columns])
    run, _ = _compiled(len(sections))
    factors = np.ascontiguousarray(sections[:, [0, 1, 2, 4, 5]])
    row = 8 * padded
    for first, stride in ((0, row), (len(long) - 1, -row)):
        for group in range(0, padded, width):
            state = np.ascontiguousarray(states[:, :, None] * long[first, group : group + width])
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
