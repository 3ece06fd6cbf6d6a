"""Rows of any columns, reduced joint by joint in pieces; the noise of what they leave, and how long it remembers.

The reduction of `problem.py` knows base parameters only. Loads, changed friction and drive
gains add columns of their own; here columns are whatever a function of a piece of recording returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array, single_thread
from minidyn.errors import MinidynError
from minidyn.identification.identify import in_joint_order
from minidyn.model.robot import Robot
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.recording import Recording

Columns = Callable[[Recording], tuple[Array, Array]]
"""From a piece of recording to its columns (N, n, k) and its right side (N, n)."""

TILE = 1024


@dataclass(frozen=True)
class Reduced:
    """Rows of each joint as a triangle.

    Attributes:
        factors: For each joint the triangular factor (k + 1, k + 1) of its columns and right side.
        samples: Number of samples.
    """

    factors: tuple[Array, ...]
    samples: int

    def squares(self, x: Array) -> Array:
        """For each joint, the sum of squared residuals (n,) of unknowns x (k,)."""
        return np.array([float(np.sum((factor @ np.append(x, -1.0)) ** 2)) for factor in self.factors])


def ready_for(robot: Robot, recording: Recording | LazyRecording, purpose: str, notices: list[str]) -> Recording:
    """Return the recording in the robot's joint order with q, dq, ddq and tau, prepared where it is raw."""
    if isinstance(recording, LazyRecording):
        recording = recording.load()
    ordered = in_joint_order(robot, recording)
    if ordered.tau is None:
        raise MinidynError(f"{purpose} needs measured torques; the recording has none")
    if ordered.dq is None or ordered.ddq is None:
        from minidyn.recording.prepare.prepare import prepare

        ordered = prepare(robot, ordered)
        notices.append("a recording was prepared with default settings, as told below")
    if ordered.n != robot.n:
        raise MinidynError(f"the recording has {ordered.n} joints, robot {robot.name!r} has {robot.n}")
    for name in ("q", "dq", "ddq", "tau"):
        values = getattr(ordered, name)
        if not np.all(np.isfinite(values)):
            sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
            raise MinidynError(
                f"{name} of joint {ordered.joint_names[joint]!r} is not a number at t = {ordered.t[sample]:.6g} s; cut "
                "the samples out (recording[a:b]) or mend the log"
            )
    return ordered


def pieces_of(recording: Recording) -> Iterator[tuple[Recording, bool]]:
    """Iterate over pieces of at most TILE samples, and whether a run begins with them."""
    for run in recording.runs:
        for begin in range(0, len(run), TILE):
            yield run[begin : begin + TILE], begin == 0


def reduced(recording: Recording, columns: Columns) -> Reduced:
    """Return the rows of a recording as one triangle for each joint."""
    factors: list[Array] = [np.zeros((0, 0))] * recording.n
    samples = 0
    with single_thread():
        for piece, _ in pieces_of(recording):
            X, y = columns(piece)
            samples += len(y)
            for joint in range(recording.n):
                rows = np.column_stack([X[:, joint], y[:, joint]])
                above = factors[joint]
                rows = np.vstack([above, rows]) if above.size else rows
                factors[joint] = np.asarray(np.linalg.qr(rows, mode="r"), dtype=float)
    return Reduced(tuple(factors), samples)


def stacked(parts: Sequence[Array]) -> tuple[Array, Array, float]:
    """Return (R (k, k), z (k,), rest) of rows [X | y]: ‖R x - z‖² + rest is their sum of squares."""
    factor = np.asarray(np.linalg.qr(np.vstack(parts), mode="r"), dtype=float)
    size = factor.shape[1] - 1
    factor = np.pad(factor, ((0, max(0, size + 1 - len(factor))), (0, 0)))
    return factor[:size, :size], factor[:size, size], float(factor[size, size] ** 2)


def residuals(recording: Recording, columns: Columns, x: Array) -> Array:
    """Return right side minus columns times x (N, n)."""
    found = []
    for piece, _ in pieces_of(recording):
        X, y = columns(piece)
        found.append(y - X @ x)
    return np.concatenate(found)


def memory_of(residual: Array, starts: Sequence[int]) -> Array:
    """Return for each joint how many neighbouring samples repeat each other (n,), at least 1: the longest run tells.

    The memory is 1 + 2 Σ of the autocorrelation up to where it falls below 0.05.
    """
    edges = [*starts, len(residual)]
    longest = int(np.argmax(np.diff(edges)))
    part = residual[edges[longest] : edges[longest + 1]]
    memory = np.ones(residual.shape[1])
    for joint, series in enumerate(part.T):
        centred = series - series.mean()
        power = float(centred @ centred)
        if power <= 0 or len(centred) < 8:
            continue
        lags = len(centred) // 4
        spectrum = np.abs(np.fft.rfft(centred, 2 * len(centred))) ** 2
        correlation = np.fft.irfft(spectrum)[: lags + 1] / power
        below = np.flatnonzero(correlation < 0.05)
        until = int(below[0]) if len(below) else lags
        memory[joint] = max(1.0, 1.0 + 2.0 * float(np.sum(correlation[1 : until + 1])))
    return memory


def block_sums(recording: Recording, columns: Columns, x: Array, scale: Array, length: int) -> Array:
    """Return the scores Xᵀ (y - X x) / scale² of each joint's rows, summed over blocks of `length` samples (B, k).

    Blocks end with their run; a last one of less than half the length is added to the one before.
    """
    sums: list[Array] = []
    current, filled = np.zeros(len(x)), 0

    def close() -> None:
        nonlocal current, filled
        if filled > length // 2 or not sums:
            sums.append(current)
        else:
            sums[-1] = sums[-1] + current
        current, filled = np.zeros(len(x)), 0

    for piece, first in pieces_of(recording):
        if first and filled:
            close()
        X, y = columns(piece)
        scores = np.einsum("snk,sn->sk", X, (y - X @ x) / scale**2)
        begin = 0
        while begin < len(scores):
            take = min(length - filled, len(scores) - begin)
            current = current + scores[begin : begin + take].sum(axis=0)
            filled += take
            begin += take
            if filled == length:
                close()
    if filled:
        close()
    return np.stack(sums)
