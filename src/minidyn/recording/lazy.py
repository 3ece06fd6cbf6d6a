"""Recordings that stay on disk: the same names as a recording, and tiles of it read when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from minidyn.errors import MinidynError
from minidyn.recording.read.source import Source
from minidyn.recording.recording import Recording, concatenate


class RunOnDisk(Protocol):
    """One run whose samples can be fetched again and again."""

    @property
    def length(self) -> int:
        """Number of samples."""
        ...

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        ...


@dataclass(frozen=True)
class SourceRun:
    """The rows `first` to `first + length` of a log."""

    source: Source
    first: int
    length: int

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        for piece in self.source.pieces(samples, self.first + begin, self.first + end):
            yield Recording(
                piece.t,
                piece.signals["q"],
                piece.signals.get("tau"),
                dq=piece.signals.get("dq"),
                ddq=piece.signals.get("ddq"),
                joint_names=self.source.binding.joints,
                telemetry=piece.telemetry,
            )


@dataclass(frozen=True)
class ReorderedRun:
    """A run on disk with its joints in another order."""

    run: RunOnDisk
    order: tuple[int, ...]

    @property
    def length(self) -> int:
        """Number of samples."""
        return self.run.length

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        for tile in self.run.tiles(samples, begin, end):
            yield reordered(tile, self.order)


@dataclass(frozen=True)
class HeldRun:
    """A run in memory among runs on disk."""

    run: Recording

    @property
    def length(self) -> int:
        """Number of samples."""
        return len(self.run)

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        for first in range(begin, end, samples):
            yield self.run[first : min(first + samples, end)]


def reordered(recording: Recording, order: Sequence[int]) -> Recording:
    """Return a recording with its columns in another order; telemetry of one column per joint follows."""
    places = list(order)

    def columns(values: Any) -> Any:
        return None if values is None else values[:, places]

    width = (recording.n,)
    return Recording(
        recording.t,
        columns(recording.q),
        columns(recording.tau),
        dq=columns(recording.dq),
        ddq=columns(recording.ddq),
        joint_names=[recording.joint_names[place] for place in places],
        starts=recording.starts or (0,),
        telemetry={k: columns(v) if v.shape[1:] == width else v for k, v in recording.telemetry.items()},
        notices=recording.notices,
        info=recording.info,
    )


@dataclass(frozen=True, eq=False)
class LazyRecording:
    """A recording left on disk: `joint_names`, `n`, `len`, `runs`, `notices`, slices; samples come as `tiles`.

    Attributes:
        joint_names: Names of the columns.
        signals: Which of q, dq, ddq, tau there are.
        notices: What was found when it was opened; values are not inspected before they are read.
        parts: For each run, where its samples are and which of them belong here.
        info: How it was prepared, as numbers; empty for a raw recording.
    """

    joint_names: tuple[str, ...]
    signals: tuple[str, ...]
    notices: tuple[str, ...]
    parts: tuple[tuple[RunOnDisk, int, int], ...]
    info: Mapping[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(end - begin for _, begin, end in self.parts)

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    @property
    def starts(self) -> tuple[int, ...]:
        """Index of the first sample of each run."""
        made, row = [], 0
        for _, begin, end in self.parts:
            made.append(row)
            row += end - begin
        return tuple(made)

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
        return replace(self, parts=tuple(kept))

    def tiles(self, samples: int = 1 << 16) -> Iterator[Recording]:
        """Yield recordings of at most `samples` samples, in order; none spans two runs, none holds the whole."""
        if samples < 1:
            raise MinidynError(f"tiles: expected at least one sample a tile, got {samples}")
        for run, begin, end in self.parts:
            yield from run.tiles(samples, begin, end)

    def thinned(self, step: int) -> Recording:
        """Return every so many samples in memory, as `recording[::step]` does of one in memory."""
        made: list[list[Recording]] = []
        row = 0
        for run in self.runs:
            made.append([])
            for tile in run.tiles(1 << 13):
                kept = tile[-row % step :: step]
                if len(kept):
                    made[-1].append(kept)
                row += len(tile)
        return joined_runs([concatenate(pieces) for pieces in made if pieces], self.notices, self.info)

    def reordered(self, joint_names: Sequence[str]) -> LazyRecording:
        """Return the recording with the same joints in another order."""
        order = tuple(self.joint_names.index(name) for name in joint_names)
        parts = tuple((ReorderedRun(run, order), begin, end) for run, begin, end in self.parts)
        return replace(self, joint_names=tuple(joint_names), parts=parts)

    def load(self) -> Recording:
        """Return everything in memory."""
        pieces = [concatenate(list(run.tiles())) for run in self.runs]
        return joined_runs(pieces, self.notices, self.info)

    def __repr__(self) -> str:
        return (
            f"LazyRecording({len(self)} samples of {self.n} joints, {len(self.parts)} runs, {' '.join(self.signals)})"
        )


def joined_lazily(recordings: Sequence[Recording | LazyRecording]) -> LazyRecording:
    """Return recordings, some of them on disk, as one whose samples stay where they are; runs stay separate.

    Raises:
        MinidynError: They have other signals; what one lacks cannot be left out of files unread.
    """
    parts: list[tuple[RunOnDisk, int, int]] = []
    signals: list[tuple[str, ...]] = []
    for recording in recordings:
        if isinstance(recording, LazyRecording):
            parts += recording.parts
            signals.append(recording.signals)
        else:
            parts += [(HeldRun(run), 0, len(run)) for run in recording.runs]
            signals.append(tuple(name for name in ("q", "dq", "ddq", "tau") if getattr(recording, name) is not None))
        if set(signals[-1]) != set(signals[0]):
            raise MinidynError(
                f"concatenate: recording {len(signals)} has {' '.join(signals[-1])}, the first {' '.join(signals[0])}; "
                "read them alike (dq=False leaves speeds out), or prepare them first"
            )
    first = recordings[0]
    alike = all(dict(recording.info) == dict(first.info) for recording in recordings)
    notices = tuple(dict.fromkeys(notice for recording in recordings for notice in recording.notices))
    return LazyRecording(first.joint_names, signals[0], notices, tuple(parts), first.info if alike else {})


def joined_runs(runs: Sequence[Recording], notices: Sequence[str], info: Mapping[str, object]) -> Recording:
    """Return recordings, each one run whatever it was pieced together from, as one."""
    whole = [
        Recording(
            run.t,
            run.q,
            run.tau,
            dq=run.dq,
            ddq=run.ddq,
            joint_names=run.joint_names,
            telemetry=run.telemetry,
            notices=notices,
            info=info,
        )
        for run in runs
    ]
    return whole[0] if len(whole) == 1 else concatenate(whole)
