"""Recordings: what was measured, sample by sample, with the names of the joints and the boundaries between runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, MinidynError, ShapeError

if TYPE_CHECKING:
    from minidyn.recording.lazy import LazyRecording


_SIGNALS = ("q", "tau", "dq", "ddq")


@dataclass(frozen=True, eq=False, init=False)
class Recording:
    """Measured motion: one row per sample, one column per independent joint. Missing signals are None, not zeros.

    Attributes:
        t: Times (N,), s; they increase within each run.
        q: Positions (N, n), rad or m.
        tau: Torques (N, n), N m or N, joint side; None where not measured.
        dq: Speeds (N, n); None where not measured.
        ddq: Accelerations (N, n); None where not measured.
        joint_names: Names of the columns.
        starts: Index of the first sample of each run; the first is 0.
        telemetry: Further signals by name, each (N, ...): references, estimates, errors.
        notices: What a reader should know about how it was made or read.
        info: How it was prepared, as numbers: cut-off, rate, ...; empty for a raw recording. Not written to files.
    """

    t: Array
    q: Array
    tau: Array | None
    dq: Array | None
    ddq: Array | None
    joint_names: tuple[str, ...]
    starts: tuple[int, ...]
    telemetry: Mapping[str, Array] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    info: Mapping[str, object] = field(default_factory=dict)

    def __init__(
        self,
        t: ArrayLike,
        q: ArrayLike,
        tau: ArrayLike | None,
        dq: ArrayLike | None = None,
        ddq: ArrayLike | None = None,
        joint_names: Sequence[str] | None = None,
        *,
        starts: Sequence[int] = (0,),
        telemetry: Mapping[str, ArrayLike] | None = None,
        notices: Sequence[str] = (),
        info: Mapping[str, object] | None = None,
    ) -> None:
        times = _frozen("t", t)
        if times.ndim != 1:
            raise ShapeError(f"t: expected shape (N,), got {times.shape}")
        signals = {
            name: None if value is None else _frozen(name, value) for name, value in zip(_SIGNALS, (q, tau, dq, ddq))
        }
        positions = signals["q"]
        if positions is None or positions.ndim != 2:
            raise ShapeError(f"q: expected shape (N, n), got {None if positions is None else positions.shape}")
        for name, array in signals.items():
            if array is not None and array.shape != (len(times), positions.shape[1]):
                expected = (len(times), positions.shape[1])
                raise ShapeError(f"{name}: expected shape {expected} (samples of t, joints of q), got {array.shape}")
        names = tuple(joint_names) if joint_names is not None else _numbered(positions.shape[1])
        if len(names) != positions.shape[1] or len(set(names)) != len(names):
            raise ShapeError(f"joint_names: expected {positions.shape[1]} different names, got {list(names)}")
        first = tuple(int(start) for start in starts)
        if len(times) and (not first or first[0] != 0 or list(first) != sorted(set(first)) or first[-1] >= len(times)):
            raise ShapeError(f"starts: expected increasing indices from 0 below {len(times)}, got {list(first)}")
        extra = {name: _frozen(name, value) for name, value in (telemetry or {}).items()}
        for name, array in extra.items():
            if array.shape[:1] != times.shape:
                raise ShapeError(f"telemetry {name!r}: expected {len(times)} samples, got shape {array.shape}")
        for attribute, value in (
            ("t", times),
            *signals.items(),
            ("joint_names", names),
            ("starts", first if len(times) else ()),
            ("telemetry", MappingProxyType(extra)),
            ("notices", tuple(notices)),
            ("info", MappingProxyType(dict(info or {}))),
        ):
            object.__setattr__(self, attribute, value)
        self._check_times()

    def _check_times(self) -> None:
        for number, (begin, end) in enumerate(self._bounds):
            steps = np.diff(self.t[begin:end])
            if np.any(steps < 0):
                at = begin + int(np.argmax(steps < 0)) + 1
                raise DescriptionError(
                    f"t: time runs backwards at sample {at} of run {number + 1} ({self.t[at - 1]:.6g} s, then "
                    f"{self.t[at]:.6g} s); a new run begins with a new start"
                )

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        return list(zip(self.starts, (*self.starts[1:], len(self.t))))

    def __len__(self) -> int:
        return len(self.t)

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.q.shape[1])

    @property
    def runs(self) -> tuple[Recording, ...]:
        """The runs, each a recording of its own."""
        return tuple(self[begin:end] for begin, end in self._bounds)

    def __getitem__(self, part: slice) -> Recording:
        if not isinstance(part, slice):
            raise MinidynError("a recording is sliced by samples, as in recording[:1000]")
        begin, end, stride = part.indices(len(self))
        if stride < 1:
            raise MinidynError(f"a recording cannot run backwards: slice step {stride}")
        starts = []
        for first, last in self._bounds:
            inside = max(0, -((begin - first) // stride))  # the first chosen sample that is not before this run
            if begin + inside * stride < min(last, end):
                starts.append(inside)
        arrays: dict[str, Any] = {name: getattr(self, name) for name in _SIGNALS}
        arrays = {name: None if array is None else array[part] for name, array in arrays.items()}
        return Recording(
            self.t[part],
            **arrays,
            joint_names=self.joint_names,
            starts=starts or (0,),
            telemetry={name: array[part] for name, array in self.telemetry.items()},
            notices=self.notices,
            info=self.info,
        )

    def save(self, path: str | Path) -> None:
        """Write the recording; the ending chooses the format: .npz, .parquet or .csv.

        See :mod:`minidyn.recording.files` for keys and columns.
        """
        from minidyn.recording.files import write_recording

        write_recording(self, Path(path))

    def __repr__(self) -> str:
        present = " ".join(name for name in _SIGNALS if getattr(self, name) is not None)
        span = f"{self.t[-1] - self.t[0]:.4g} s" if len(self) else "empty"
        return f"Recording({len(self)} samples of {self.n} joints, {len(self.starts)} runs, {span}, {present})"


@overload
def concatenate(recordings: Iterable[Recording]) -> Recording: ...


@overload
def concatenate(recordings: Iterable[Recording | LazyRecording]) -> Recording | LazyRecording: ...


def concatenate(recordings: Iterable[Recording | LazyRecording]) -> Recording | LazyRecording:
    """Return all recordings as one; runs stay separate. A signal that one of them lacks is missing in all.

    Where one of them is on disk the whole is, too: a lazy recording.
    """
    given = list(recordings)
    parts = [part for part in given if isinstance(part, Recording)]
    if not given:
        raise MinidynError("concatenate: expected at least one recording, got none")
    names = given[0].joint_names
    for number, other in enumerate(given):
        if other.joint_names != names:
            raise MinidynError(
                f"concatenate: recording {number + 1} has joints {list(other.joint_names)}, the first {list(names)}"
            )
    if len(parts) < len(given):
        from minidyn.recording.lazy import joined_lazily

        return joined_lazily(given)
    starts: list[int] = []
    offset = 0
    for part in parts:
        starts += [offset + start for start in part.starts]
        offset += len(part)
    whole: dict[str, Any] = {
        name: None
        if any(getattr(part, name) is None for part in parts)
        else np.concatenate([getattr(part, name) for part in parts])
        for name in _SIGNALS
    }
    shared = set(parts[0].telemetry).intersection(*(part.telemetry for part in parts))
    telemetry = {name: np.concatenate([part.telemetry[name] for part in parts]) for name in sorted(shared)}
    notices = tuple(dict.fromkeys(notice for part in parts for notice in part.notices))
    times = np.concatenate([part.t for part in parts])
    info = parts[0].info if all(dict(part.info) == dict(parts[0].info) for part in parts) else None
    return Recording(times, **whole, joint_names=names, starts=starts, telemetry=telemetry, notices=notices, info=info)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"joint{index + 1}" for index in range(count))


def _frozen(name: str, values: ArrayLike) -> Array:
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise ShapeError(f"{name}: expected an array of numbers") from None
    array.setflags(write=False)
    return array
