"""Recordings as passes over data read them: arrays of consecutive samples, whether they lie in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.recording.lazy import concatenate
from minidyn.recording.recording import Recording

Progress = Callable[[int], None]
_SIGNALS = ("q", "dq", "ddq", "tau")
PIECE = 1 << 16
"""Samples handled at once: their arrays fit the caches' last level, and what is done once per piece does not count."""


class Tiled(Protocol):
    """A recording that gives itself in pieces."""

    def __len__(self) -> int: ...

    def tiles(self, samples: int) -> Iterator[Recording]:
        """Iterate over pieces of at most so many samples, each inside one run."""
        ...

    @property
    def runs(self) -> Sequence[Tiled]:
        """The runs, each a recording of its own."""
        ...


@dataclass(frozen=True)
class Samples:
    """Consecutive samples of one run.

    Attributes:
        t: Times (N,).
        q: Positions (N, n).
        dq: Speeds (N, n).
        ddq: Accelerations (N, n).
        tau: Torques (N, n).
        first: Whether a run begins here.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    first: bool

    def __len__(self) -> int:
        return len(self.t)

    @property
    def motion(self) -> tuple[Array, Array, Array]:
        """q, dq and ddq."""
        return self.q, self.dq, self.ddq

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """q, dq, ddq and tau."""
        return self.q, self.dq, self.ddq, self.tau


def samples_of(recording: Recording | Tiled, n: int, progress: Progress | None = None) -> Iterator[Samples]:
    """Iterate over a recording in pieces of at most PIECE samples, each inside one run.

    Args:
        recording: With q, dq, ddq and tau; anything with `tiles` may be larger than memory.
        n: Number of joints that are expected.
        progress: Called with the number of samples read so far.

    Raises:
        MinidynError: A signal is missing.
        UnknownParameters: A value is not a number; the message says where.
    """
    done = 0
    for t, signals, names, first in _raw(recording):
        for name, values in signals.items():
            if values is None:
                raise MinidynError(f"identification needs {name}; prepare the recording first: md.prepare(robot, ...)")
            if values.shape[1] != n:
                raise MinidynError(f"the recording has {values.shape[1]} joints, the robot has {n}")
            if not np.isfinite(values.sum()):  # a sum tells for less; only where it is odd every value is looked at
                _require_finite(name, values, t, names)
        yield Samples(t, signals["q"], signals["dq"], signals["ddq"], signals["tau"], first)
        done += len(t)
        if progress is not None:
            progress(done)


def time_step(recording: Recording | Tiled) -> float:
    """Return the seconds between two samples, the median over the first PIECE of them; 0: unknown."""
    first = next(_raw(recording), None)
    return float(np.median(np.diff(first[0]))) if first is not None and len(first[0]) > 1 else 0.0


def typical_sizes(recording: Recording | Tiled) -> tuple[Array, Array] | None:
    """Return the root mean squares of torques and of speeds, each (n,); None where there are none.

    A recording on disk is read for it, once.
    """
    if isinstance(recording, Recording):
        return _root_mean_squares([(recording.tau, recording.dq)])
    found = _SIZES.get(recording, _UNKNOWN)
    if found is _UNKNOWN:
        found = _SIZES[recording] = _root_mean_squares(
            (signals["tau"], signals["dq"]) for _, signals, _, _ in _raw(recording)
        )
    return found  # type: ignore[return-value]


_UNKNOWN = object()
_SIZES: WeakKeyDictionary[Any, object] = WeakKeyDictionary()


def _root_mean_squares(pieces: Iterable[tuple[Array | None, Array | None]]) -> tuple[Array, Array] | None:
    count, tau_squares, dq_squares = 0, np.zeros(0), np.zeros(0)
    for tau, dq in pieces:
        if tau is None or dq is None:
            return None
        tau_squares = np.sum(tau**2, axis=0) + (tau_squares if count else 0.0)
        dq_squares = np.sum(dq**2, axis=0) + (dq_squares if count else 0.0)
        count += len(tau)
    return (np.sqrt(tau_squares / count), np.sqrt(dq_squares / count)) if count else None


def counted(progress: Progress | None) -> Progress | None:
    """Return a progress function for several passes, each counting from zero: it goes on counting."""
    if progress is None:
        return None
    before, latest = 0, 0

    def called(done: int) -> None:
        nonlocal before, latest
        if done <= latest:
            before += latest
        latest = done
        progress(before + done)

    return called


def _raw(recording: Recording | Tiled) -> Iterator[tuple[Array, dict[str, Any], tuple[str, ...], bool]]:
    if isinstance(recording, Recording):
        for begin, end in zip(recording.starts, (*recording.starts[1:], len(recording))):
            for low in range(begin, end, PIECE):
                yield *_cut(recording, slice(low, min(low + PIECE, end))), low == begin
        return
    for run in recording.runs:
        held: list[Recording] = []
        size, first = 0, True
        for tile in run.tiles(PIECE):  # pieces of the same length as in memory, whatever the file's own are
            held.append(tile)
            size += len(tile)
            while size >= PIECE:
                whole = _glued(held)
                yield *_cut(whole, slice(0, PIECE)), first
                held, size, first = [whole[PIECE:]] if size > PIECE else [], size - PIECE, False
        if size:
            yield *_cut(_glued(held), slice(0, size)), first


def _glued(pieces: list[Recording]) -> Recording:
    return pieces[0] if len(pieces) == 1 else concatenate(pieces)


def _cut(recording: Recording, part: slice) -> tuple[Array, dict[str, Any], tuple[str, ...]]:
    signals = {name: getattr(recording, name) for name in _SIGNALS}
    cut = {name: None if values is None else values[part] for name, values in signals.items()}
    return recording.t[part], cut, recording.joint_names


def _require_finite(name: str, values: Array, t: Array, joints: tuple[str, ...]) -> None:
    if np.all(np.isfinite(values)):
        return
    sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
    raise UnknownParameters(
        f"{name} of joint {joints[joint]!r} is not a number at t = {t[sample]:.6g} s; cut the samples out "
        "(recording[a:b]) or mend the log"
    )
