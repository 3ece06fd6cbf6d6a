"""Recordings that stay on disk.

The same names as a recording, and tiles of it read when they are needed. What both kinds share, so
that nobody needs to ask which one it is: `len`, `n`, `joint_names`, `signals`, `runs`, `starts`,
`notices`, `info`, slices of samples, `part`, `tiles`, `thinned`, `reordered`, `load` and `each`.

A pass over a long recording is cut into chunks (`chunks`), and what a function makes of each comes
back in their order (`each`), one after the other in this process or by the workers of an engine
(`engine.py`). Where chunks begin depends on the data alone, so results do not depend on who
computed them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from minidyn.arrays import given_away
from minidyn.errors import MinidynError
from minidyn.notices import Notice, warning
from minidyn.recording.recording import SIGNALS, Recording, between, without_sketch
from minidyn.recording.sketch import collecting, joined_info, sketch_of

if TYPE_CHECKING:
    from minidyn.recording.engine import Engine

ON_ERROR = ("stop", "skip")
"""What becomes of the work where a part of the logs cannot be read."""

LEFT_OUT = warning(
    "recording.left_out",
    "Files, or parts of them, could not be read and were left out, as asked: the result is that "
    "of the rest.",
    "Mend or remove {files}, and run it again: the result lacks them.",
)

CHUNK = 1 << 18
"""Samples, as they were logged, that are read as one task."""

Progress = Callable[[int], None]
T = TypeVar("T")


class RunOnDisk(Protocol):
    """One run whose samples can be fetched again and again."""

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        ...

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return samples between `begin` and `end`, rising, at which reading may begin without
        loss.
        """
        ...

    def narrowed(self, begin: int, end: int) -> tuple[RunOnDisk, int, int]:
        """Return a run that holds at least these samples, and between which of its own they are:
        little to send.
        """
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """Where its samples come from, for messages."""
        ...


@dataclass(frozen=True)
class ChangedRun:
    """A run on disk, each of its pieces changed or checked as it is read."""

    run: RunOnDisk
    change: Callable[[Recording], Recording]

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        yield from map(self.change, self.run.tiles(samples, begin, end))

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return where reading may begin: as for the run."""
        return self.run.cuts(begin, end)

    def narrowed(self, begin: int, end: int) -> tuple[RunOnDisk, int, int]:
        """Return a run that holds at least these samples."""
        run, first, last = self.run.narrowed(begin, end)
        return ChangedRun(run, self.change), first, last

    @property
    def files(self) -> tuple[str, ...]:
        """Where its samples come from."""
        return self.run.files


@dataclass(frozen=True)
class HeldRun:
    """A run in memory among runs on disk."""

    run: Recording

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        return self.run[begin:end].tiles(samples)

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return where reading may begin: everywhere."""
        return range(begin + CHUNK, end, CHUNK)

    def narrowed(self, begin: int, end: int) -> tuple[RunOnDisk, int, int]:
        """Return a run of these samples."""
        return HeldRun(self.run[begin:end]), 0, end - begin

    @property
    def files(self) -> tuple[str, ...]:
        """Return nothing: it is in memory."""
        return ()


@dataclass(frozen=True, eq=False)
class LazyRecording:
    """A recording left on disk: `joint_names`, `n`, `len`, `runs`, `notices`, slices.

    Samples come as `tiles`.

    Attributes:
        joint_names: Names of the columns.
        signals: Which of q, dq, ddq, tau there are.
        notices: What was found when it was opened; values are not inspected before they are read.
        parts: For each run, where its samples are and which of them belong here.
        info: How it was prepared, as numbers; empty for a raw recording.
        prepared: Whether `md.prepare` made it, as for a recording in memory.
        engine: Who reads it, chunk by chunk; None: this process.
    """

    joint_names: tuple[str, ...]
    signals: tuple[str, ...]
    notices: tuple[Notice, ...]
    parts: tuple[tuple[RunOnDisk, int, int], ...]
    info: Mapping[str, object] = field(default_factory=dict)
    prepared: bool = False
    engine: Engine | None = None

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
    def files(self) -> tuple[str, ...]:
        """Where its samples come from, in the order of names; none where they are in memory."""
        return tuple(sorted({file for run, _, _ in self.parts for file in run.files}))

    @property
    def runs(self) -> tuple[LazyRecording, ...]:
        """The runs, each a lazy recording of its own."""
        return tuple(replace(self, parts=(part,)) for part in self.parts)

    def __getitem__(self, part: slice) -> LazyRecording:
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise MinidynError(
                "a lazy recording is sliced by consecutive samples, as in recording[:1000]"
            )
        low, high, _ = part.indices(len(self))
        kept, row = [], 0
        for run, begin, end in self.parts:
            first, last = max(low - row, 0), min(high - row, end - begin)
            if first < last:
                kept.append((run, begin + first, begin + last))
            row += end - begin
        info = (
            self.info if high - low == len(self) else without_sketch(self.info)
        )  # it is of the whole
        return replace(self, parts=tuple(kept), info=info)

    def part(self, begin: float, end: float = 1.0) -> LazyRecording:
        """Return the samples between two shares of the whole.

        `part(0.0, 0.7)` the first 70 %, `part(0.7)` the rest.
        """
        return self[between(begin, end, len(self))]

    def tiles(self, samples: int = 1 << 16) -> Iterator[Recording]:
        """Yield recordings of `samples` samples, in order.

        None spans two runs, only the last of a run is shorter.
        """
        if samples < 1:
            raise MinidynError(f"tiles: expected at least one sample a tile, got {samples}")
        for run, begin, end in self.parts:
            yield from _even(run.tiles(samples, begin, end), samples)

    def chunks(self, size: int | None = None) -> Iterator[LazyRecording]:
        """Yield the recording in tasks of about `CHUNK` samples as they were logged.

        Short runs are put together. Long ones are cut where their files can be read from: large
        chunks are those of formats that are read from the start. With `size` tasks are whole runs,
        of about so many samples together.
        """
        about = replace(self, parts=(), notices=(), info=without_sketch(self.info), engine=None)
        every = self.info.get("decimate", 1)
        most = CHUNK // (every if isinstance(every, int) else 1) if size is None else size
        held: list[tuple[RunOnDisk, int, int]] = []
        samples = 0
        for run, begin, end in self.parts:
            for low, high in pairwise(
                (begin, *(run.cuts(begin, end) if size is None else ()), end)
            ):
                if held and samples + high - low > most:
                    yield about._holding(held)
                    held, samples = [], 0
                samples += high - low
                first = held.pop()[1] if held and low > begin else low  # the piece before goes on
                held.append((run, first, high))
        if held:
            yield about._holding(held)

    def _holding(self, parts: Iterable[tuple[RunOnDisk, int, int]]) -> LazyRecording:
        return replace(self, parts=tuple(run.narrowed(begin, end) for run, begin, end in parts))

    def each(
        self,
        function: Callable[..., T],
        *,
        progress: Progress | None = None,
        left_out: bool = False,
        size: int | None = None,
    ) -> Iterator[T]:
        """Yield what a function makes of each chunk, in their order; `size` as for `chunks`.

        It is called with the chunk, the number of samples before it, and a function that it tells
        how many samples it has read, or None. With an engine it runs in another process, so it must
        be one that can be sent there. Where the only pass may do so (`left_out`), chunks that
        cannot be read are left out, if the engine was asked to.
        """
        row, sketch = 0, sketch_of(self)
        if self.engine is None:
            for chunk in self.chunks(size):
                with collecting(sketch):
                    found: T = function(chunk, row, _further(progress, row))
                yield found
                row += len(chunk)
        else:
            empty = sketch.like() if sketch is not None and sketch.left > 0 else None
            for found, samples, part in self.engine.map(
                function, self.chunks(size), empty, left_out
            ):
                if sketch is not None and part is not None:
                    sketch.merge(part)
                row += samples
                if progress is not None:
                    progress(row)
                yield found
        if sketch is not None:
            sketch.close()

    def thinned(self, step: int, *, size: int | None = None, left_out: bool = False) -> Recording:
        """Return every so many samples in memory, as `recording[::step]` does of one in memory.

        The rest as `each`.
        """
        made: list[list[Recording]] = [[] for _ in self.parts]
        starts = self.starts
        for chunk in self.each(partial(_thinned, step), size=size, left_out=left_out):
            for first, some in chunk:
                made[bisect_right(starts, first) - 1].append(some)
        return self._in_memory(made)

    def reordered(self, joint_names: Sequence[str]) -> LazyRecording:
        """Return the recording with the same joints in another order."""
        names = tuple(joint_names)
        return replace(self.changed(methodcaller("reordered", names)), joint_names=names)

    def changed(self, change: Callable[[Recording], Recording]) -> LazyRecording:
        """Return the recording with a function applied to each piece of a run as it is read."""
        return replace(
            self,
            parts=tuple((ChangedRun(run, change), begin, end) for run, begin, end in self.parts),
        )

    def load(self) -> Recording:
        """Return everything in memory."""
        if self.engine is not None and len(self):
            known = len(self.engine.notices)
            whole = self.thinned(1, left_out=True)
            return replace(whole, notices=(*whole.notices, *self.engine.notices[known:]))
        return self._in_memory([list(run.tiles()) for run in self.runs])

    def spread(self, count: int, samples: int, *, quick: bool = False) -> LazyRecording:
        """Return so many pieces of so many samples each, from the beginning to the end, as runs.

        With `quick` they begin where files can be read from, if that is near: what is before is not
        unpacked.
        """
        begins = np.linspace(0, max(0, len(self) - samples), count).astype(int).tolist()
        if quick:
            runs = zip(self.starts, self.parts)
            cuts = np.array(
                [row + cut - a for row, (run, a, b) in runs for cut in (a, *run.cuts(a, b))]
            )
            nearest = cuts[np.abs(cuts[:, None] - begins).argmin(axis=0)].tolist()
            near = len(self) / (2 * count)
            begins = [
                cut if abs(cut - begin) < near else begin for cut, begin in zip(nearest, begins)
            ]
        parts = tuple(part for begin in begins for part in self[begin : begin + samples].parts)
        return replace(self, parts=parts, info=without_sketch(self.info))

    def _in_memory(self, runs: Iterable[Sequence[Recording]]) -> Recording:
        """Return runs, each given by its pieces, as one recording."""
        kept = [[piece for piece in pieces if len(piece)] for pieces in runs]
        about: dict[str, Any] = {
            "notices": self.notices,
            "info": self.info,
            "prepared": self.prepared,
        }
        return concatenate([replace(glued(run), **about) for run in kept if run])

    def __repr__(self) -> str:
        return (
            f"LazyRecording({len(self)} samples of {self.n} joints, {len(self.parts)} runs, "
            f"{' '.join(self.signals)})"
        )


AnyRecording: TypeAlias = Recording | LazyRecording
"""A recording in memory or on disk."""


def _further(progress: Progress | None, row: int) -> Progress | None:
    """Return a progress function that counts on from a row."""
    return None if progress is None else lambda done: progress(row + done)


def _thinned(
    step: int, chunk: LazyRecording, row: int, progress: Progress | None
) -> list[tuple[int, Recording]]:
    """Return every so many samples of each part of a chunk, with the number of the part's first
    sample.
    """
    made: list[tuple[int, Recording]] = []
    for run in chunk.runs:
        place, pieces = row, list[Recording]()
        for tile in run.tiles(1 << 13):
            pieces.append(tile[-place % step :: step])
            place += len(tile)
        kept = [piece for piece in pieces if len(piece)]
        if kept:
            made.append((row, glued(kept)))
        row += len(run)  # where there are gaps fewer samples came
    return made


def held(recording: Recording) -> LazyRecording:
    """Return a recording in memory as one on disk, for what must be whole to be prepared."""
    parts = tuple((HeldRun(run), 0, len(run)) for run in recording.runs)
    names, signals = recording.joint_names, recording.signals
    return LazyRecording(
        names, signals, recording.notices, parts, recording.info, recording.prepared
    )


@overload
def concatenate(recordings: Iterable[Recording]) -> Recording: ...


@overload
def concatenate(recordings: Iterable[AnyRecording]) -> AnyRecording: ...


def concatenate(recordings: Iterable[AnyRecording]) -> AnyRecording:
    """Return all recordings as one; runs stay separate.

    A signal that one of them lacks is missing in all. Where one of them is on disk the whole is,
    too: a lazy recording.
    """
    given = list(recordings)
    if not given:
        raise MinidynError("concatenate: expected at least one recording, got none")
    first = given[0]
    for number, other in enumerate(given):
        if other.joint_names != first.joint_names:
            raise MinidynError(
                f"concatenate: recording {number + 1} has joints {list(other.joint_names)}, the "
                f"first {list(first.joint_names)}"
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
        name: given_away(np.concatenate([getattr(part, name) for part in parts]))
        if all(name in part.signals for part in parts)
        else None
        for name in SIGNALS
    }
    shared = set(parts[0].telemetry).intersection(*(part.telemetry for part in parts))
    return Recording(
        given_away(np.concatenate([part.t for part in parts])),
        **whole,
        joint_names=first.joint_names,
        starts=starts,
        telemetry={
            name: np.concatenate([part.telemetry[name] for part in parts])
            for name in sorted(shared)
        },
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
                f"{' '.join(first.signals)}; read them alike (dq=False leaves speeds out), or "
                "prepare them first"
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
