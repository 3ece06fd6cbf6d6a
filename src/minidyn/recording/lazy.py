"""Recordings that stay on disk: the same names as a recording, and tiles of it read when they are needed.

What both kinds share, so that nobody needs to ask which one it is: `len`, `n`, `joint_names`, `signals`, `runs`,
`starts`, `notices`, `info`, slices of samples, `tiles`, `thinned`, `reordered` and `load`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Protocol, TypeAlias, overload

import numpy as np

from minidyn.errors import MinidynError
from minidyn.notices import Notice
from minidyn.recording.recording import SIGNALS, Recording, without_sketch
from minidyn.recording.sketch import joined_info


class RunOnDisk(Protocol):
    """One run whose samples can be fetched again and again."""

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        ...


@dataclass(frozen=True)
class ChangedRun:
    """A run on disk, each of its pieces changed or checked as it is read."""

    run: RunOnDisk
    change: Callable[[Recording], Recording]

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        yield from map(self.change, self.run.tiles(samples, begin, end))


@dataclass(frozen=True)
class HeldRun:
    """A run in memory among runs on disk."""

    run: Recording

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        return self.run[begin:end].tiles(samples)


@dataclass(frozen=True, eq=False)
class LazyRecording:
    """A recording left on disk: `joint_names`, `n`, `len`, `runs`, `notices`, slices; samples come as `tiles`.

    Attributes:
        joint_names: Names of the columns.
        signals: Which of q, dq, ddq, tau there are.
        notices: What was found when it was opened; values are not inspected before they are read.
        parts: For each run, where its samples are and which of them belong here.
        info: How it was prepared, as numbers; empty for a raw recording.
        prepared: Whether `md.prepare` made it, as for a recording in memory.
    """

    joint_names: tuple[str, ...]
    signals: tuple[str, ...]
    notices: tuple[Notice, ...]
    parts: tuple[tuple[RunOnDisk, int, int], ...]
    info: Mapping[str, object] = field(default_factory=dict)
    prepared: bool = False

    def __len__(self) -> int:
        return sum(end - begin for _, begin, end in self.parts)

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    @property
    def starts(self) -> tuple[int, ...]:
        """Index of the first sample of each run."""
        return tuple(accumulate((end - begin for _, begin, end in self.parts[:-1]), initial=0))

    @property
    def runs(self) -> tuple[LazyRecording, ...]:
        """The runs, each a lazy recording of its own."""
        return tuple(replace(self, parts=(part,)) for part in self.parts)

    def __getitem__(self, part: slice) -> LazyRecording:
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise MinidynError("a lazy recording is sliced by consecutive samples, as in recording[:1000]")
        low, high, _ = part.indices(len(self))
        kept, row = [], 0
        for run, begin, end in self.parts:
            first, last = max(low - row, 0), min(high - row, end - begin)
            if first < last:
                kept.append((run, begin + first, begin + last))
            row += end - begin
        info = self.info if high - low == len(self) else without_sketch(self.info)  # it is of the whole
        return replace(self, parts=tuple(kept), info=info)

    def tiles(self, samples: int = 1 << 16) -> Iterator[Recording]:
        """Yield recordings of `samples` samples, in order; none spans two runs, only the last of a run is shorter."""
        if samples < 1:
            raise MinidynError(f"tiles: expected at least one sample a tile, got {samples}")
        for run, begin, end in self.parts:
            yield from _even(run.tiles(samples, begin, end), samples)

    def thinned(self, step: int) -> Recording:
        """Return every so many samples in memory, as `recording[::step]` does of one in memory."""
        made: list[list[Recording]] = []
        row = 0
        for run in self.runs:
            made.append([])
            for tile in run.tiles(1 << 13):
                made[-1].append(tile[-row % step :: step])
                row += len(tile)
        return self._in_memory(made)

    def reordered(self, joint_names: Sequence[str]) -> LazyRecording:
        """Return the recording with the same joints in another order."""
        names = tuple(joint_names)
        return replace(self.changed(lambda tile: tile.reordered(names)), joint_names=names)

    def changed(self, change: Callable[[Recording], Recording]) -> LazyRecording:
        """Return the recording with a function applied to each piece of a run as it is read."""
        return replace(self, parts=tuple((ChangedRun(run, change), begin, end) for run, begin, end in self.parts))

    def load(self) -> Recording:
        """Return everything in memory."""
        return self._in_memory([list(run.tiles()) for run in self.runs])

    def _in_memory(self, runs: Iterable[Sequence[Recording]]) -> Recording:
        """Return runs, each given by its pieces, as one recording."""
        kept = [[piece for piece in pieces if len(piece)] for pieces in runs]
        about: dict[str, Any] = {"notices": self.notices, "info": self.info, "prepared": self.prepared}
        return concatenate([replace(glued(run), **about) for run in kept if run])

    def __repr__(self) -> str:
        return (
            f"LazyRecording({len(self)} samples of {self.n} joints, {len(self.parts)} runs, {' '.join(self.signals)})"
        )


AnyRecording: TypeAlias = Recording | LazyRecording
"""A recording in memory or on disk."""


def held(recording: Recording) -> LazyRecording:
    """Return a recording in memory as one on disk, for what must be whole to be prepared."""
    parts = tuple((HeldRun(run), 0, len(run)) for run in recording.runs)
    names, signals = recording.joint_names, recording.signals
    return LazyRecording(names, signals, recording.notices, parts, recording.info, recording.prepared)


@overload
def concatenate(recordings: Iterable[Recording]) -> Recording: ...


@overload
def concatenate(recordings: Iterable[AnyRecording]) -> AnyRecording: ...


def concatenate(recordings: Iterable[AnyRecording]) -> AnyRecording:
    """Return all recordings as one; runs stay separate. A signal that one of them lacks is missing in all.

    Where one of them is on disk the whole is, too: a lazy recording.
    """
    given = list(recordings)
    if not given:
        raise MinidynError("concatenate: expected at least one recording, got none")
    first = given[0]
    for number, other in enumerate(given):
        if other.joint_names != first.joint_names:
            raise MinidynError(
                f"concatenate: recording {number + 1} has joints {list(other.joint_names)}, the first "
                f"{list(first.joint_names)}"
            )
    notices = tuple(dict.fromkeys(notice for part in given for notice in part.notices))
    info = joined_info(given)
    parts = [part for part in given if isinstance(part, Recording)]
    prepared = all(part.prepared for part in given)
    if len(parts) < len(given):
        return replace(_joined_lazily(given), notices=notices, info=info, prepared=prepared)
    offsets = accumulate(map(len, parts), initial=0)
    starts = [offset + start for offset, part in zip(offsets, parts) for start in part.starts]
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        if all(name in part.signals for part in parts)
        else None
        for name in SIGNALS
    }
    shared = set(parts[0].telemetry).intersection(*(part.telemetry for part in parts))
    return Recording(
        np.concatenate([part.t for part in parts]),
        **whole,
        joint_names=first.joint_names,
        starts=starts,
        telemetry={name: np.concatenate([part.telemetry[name] for part in parts]) for name in sorted(shared)},
        notices=notices,
        info=info,
        prepared=prepared,
    )


def _joined_lazily(recordings: Sequence[AnyRecording]) -> LazyRecording:
    """Return recordings, some of them on disk, as one whose samples stay where they are.

    They must have the same signals: what one lacks cannot be left out of files unread.
    """
    parts: list[tuple[RunOnDisk, int, int]] = []
    first = recordings[0]
    for number, recording in enumerate(recordings):
        if isinstance(recording, LazyRecording):
            parts += recording.parts
        else:
            parts += held(recording).parts
        if set(recording.signals) != set(first.signals):
            raise MinidynError(
                f"concatenate: recording {number + 1} has {' '.join(recording.signals)}, the first "
                f"{' '.join(first.signals)}; read them alike (dq=False leaves speeds out), or prepare them first"
            )
    return LazyRecording(first.joint_names, first.signals, (), tuple(parts))


def glued(pieces: Sequence[Recording]) -> Recording:
    """Return consecutive pieces of one run as one."""
    return pieces[0] if len(pieces) == 1 else replace(concatenate(pieces), starts=(0,))


def _even(pieces: Iterable[Recording], samples: int) -> Iterator[Recording]:
    """Yield pieces of one run again as pieces of so many samples, the last one apart."""
    held: list[Recording] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size >= samples:
            whole = glued(held)
            yield whole[:samples]
            held, size = [whole[samples:]] if size > samples else [], size - samples
    if size:
        yield glued(held)
