"""Recordings that stay on disk: the same names as a recording, and tiles of it read when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from minidyn.errors import MinidynError
from minidyn.experiment.recording import Recording, concatenate
from minidyn.experiment.source import Source

__all__ = ["LazyRecording", "RunOnDisk", "SourceRun"]


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


@dataclass(frozen=True, eq=False)
class LazyRecording:
    """A recording left on disk: `joint_names`, `n`, `len`, `runs`, `notices`, slices; samples come as `tiles`.

    Attributes:
        joint_names: Names of the columns.
        signals: Which of q, dq, ddq, tau there are.
        notices: What was found when it was opened; values are not inspected before they are read.
        parts: For each run, where its samples are and which of them belong here.
    """

    joint_names: tuple[str, ...]
    signals: tuple[str, ...]
    notices: tuple[str, ...]
    parts: tuple[tuple[RunOnDisk, int, int], ...]

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
        return tuple(LazyRecording(self.joint_names, self.signals, self.notices, (part,)) for part in self.parts)

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
        return LazyRecording(self.joint_names, self.signals, self.notices, tuple(kept))

    def tiles(self, samples: int = 1 << 16) -> Iterator[Recording]:
        """Yield recordings of at most `samples` samples, in order; none spans two runs, none holds the whole."""
        if samples < 1:
            raise MinidynError(f"tiles: expected at least one sample a tile, got {samples}")
        for run, begin, end in self.parts:
            yield from run.tiles(samples, begin, end)

    def load(self) -> Recording:
        """Return everything in memory."""
        pieces = [concatenate(list(run.tiles())) for run in self.runs]
        return joined_runs(pieces, self.notices)

    def __repr__(self) -> str:
        return (
            f"LazyRecording({len(self)} samples of {self.n} joints, {len(self.parts)} runs, {' '.join(self.signals)})"
        )


def joined_runs(runs: Sequence[Recording], notices: Sequence[str]) -> Recording:
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
        )
        for run in runs
    ]
    return whole[0] if len(whole) == 1 else concatenate(whole)
