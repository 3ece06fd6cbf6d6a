"""What was prepared of a log on disk, kept so that several passes over it prepare it once.

This process keeps it in one temporary file without a name (where the system allows): it is gone
when nobody reads it any more, whatever ends the program. Workers of an engine keep each chunk in a
file of its own, in a folder that goes with the driver, or, where that is killed, at the next start
of another; a worker that does not find one, on another machine, say, makes it again. Both lie where
TMPDIR says.

Where a folder is given to keep it (`Engine.keep`), chunks lie there under a hash of all that
decides what they hold: how they are read and prepared, and names and contents of their files, which
workers hash once (`content_of`). Who runs the same again, after the first driver was killed, finds
what was done. Rows are plain numbers, and what is known of them JSON: none of it is run.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np

from minidyn.arrays import Array, given_away
from minidyn.errors import DescriptionError
from minidyn.files import made_folder, write_atomically
from minidyn.recording.lazy import CHUNK, LazyRecording, RunOnDisk
from minidyn.recording.prepare.signals import CACHED
from minidyn.recording.prepare.times import GAP
from minidyn.recording.read.left_on_disk import hash_of
from minidyn.recording.read.places import scratch_folder
from minidyn.recording.recording import SIGNALS, Recording
from minidyn.recording.sketch import Sketch, collected, collecting, sketch_of

_WRITE = 1 << 15  # size: samples asked for at once
_ABOUT = ".json"  # ending of what is to be known of a chunk


class _Rows(Protocol):
    """Rows t, q, dq, ddq, tau of one sample after the other."""

    def rows(self, first: int, count: int) -> Array:
        """Return some of them (count, width)."""
        ...

    def narrowed(self, first: int, last: int) -> _Rows:
        """Return what holds at least these, with the same numbers."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """Where they come from."""
        ...


@dataclass(frozen=True)
class SpooledRun:
    """One run among the rows that were kept."""

    store: _Rows
    joint_names: tuple[str, ...]
    first: int  # row of its first sample
    starts: tuple[int, ...] = ()  # rows at which chunks begin

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        width = len(self.joint_names)
        for low in range(begin, end, samples):
            count = min(samples, end - low)
            t, signals = np.empty(count), [np.empty((count, width)) for _ in SIGNALS]
            for row in range(0, count, CACHED):
                table = self.store.rows(self.first + low + row, min(CACHED, count - row))
                t[row : row + CACHED] = table[:, 0]
                for number, values in enumerate(signals):
                    values[row : row + CACHED] = table[
                        :, 1 + number * width : 1 + (number + 1) * width
                    ]
            q, dq, ddq, tau = map(given_away, signals)
            yield Recording(given_away(t), q, tau, dq, ddq, self.joint_names)

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return where chunks begin."""
        return [start - self.first for start in self.starts if begin < start - self.first < end]

    def narrowed(self, begin: int, end: int) -> tuple[RunOnDisk, int, int]:
        """Return a run that holds at least these samples."""
        store = self.store.narrowed(self.first + begin, self.first + end)
        return replace(self, store=store, starts=()), begin, end

    @property
    def files(self) -> tuple[str, ...]:
        """Where its samples come from."""
        return self.store.files


@dataclass(frozen=True)
class _Piece:
    """Samples without a hole between: what is needed to see the gaps of a run."""

    rows: int
    first: float  # time
    last: float
    step: float  # median, 0 where there are too few samples


def spooled(
    recording: LazyRecording, progress: Callable[[int], None] | None = None
) -> LazyRecording:
    """Return the same samples (t, q, dq, ddq and tau; no telemetry), kept.

    Where a run had gaps, so that what is prepared is in pieces, each piece is a run. Each sample is
    read once, and `progress` called with the number of samples done.
    """
    store, runs = (_here if recording.engine is None else _by_workers)(recording, progress)
    if (sketch := sketch_of(recording)) is not None:
        sketch.close()
    parts: list[tuple[RunOnDisk, int, int]] = []
    row = 0
    for (run, begin, end), pieces in zip(recording.parts, runs):
        starts = tuple(row + cut - begin for cut in run.cuts(begin, end))
        for size in _runs_of(pieces):
            parts.append((SpooledRun(store, recording.joint_names, row, starts), 0, size))
            row += size
    if recording.engine is not None:
        recording = replace(recording, notices=(*recording.notices, *recording.engine.notices))
    return replace(recording, signals=SIGNALS, parts=tuple(parts))


def _runs_of(pieces: Iterable[_Piece]) -> Iterator[int]:
    """Yield the lengths of the stretches without gaps that pieces of a run are."""
    size, step, last = 0, 0.0, 0.0
    for piece in pieces:
        step = piece.step or step
        if size and step > 0 and piece.first - last > GAP * step:
            yield size
            size = 0
        size, last = size + piece.rows, piece.last
    if size:
        yield size


def _written(tiles: Iterable[Recording], write: Callable[[memoryview], object]) -> Iterator[_Piece]:
    """Write rows t, q, dq, ddq, tau of tiles; yield what is to be known of each."""
    for tile in tiles:
        if len(tile):
            table = np.ascontiguousarray(
                np.column_stack([tile.t, *(getattr(tile, name) for name in SIGNALS)])
            )
            write(table.data)
            step = float(np.median(np.diff(tile.t))) if len(tile) > 2 else 0.0
            yield _Piece(len(tile), float(tile.t[0]), float(tile.t[-1]), step)


def _no_room(recording: LazyRecording, error: OSError) -> DescriptionError:
    size = 8 * _width(recording.n) * len(recording) >> 20
    return DescriptionError(
        f"{tempfile.gettempdir()}: no room for {size} MB of prepared samples ({error.strerror}); "
        "set TMPDIR to a folder on a larger disk"
    )


def _width(joints: int) -> int:
    return 1 + len(SIGNALS) * joints


def _here(
    recording: LazyRecording, progress: Callable[[int], None] | None
) -> tuple[_Rows, list[list[_Piece]]]:
    """Keep everything in one file of this process."""
    store, rows = _File(_width(recording.n)), 0
    runs: list[list[_Piece]] = []

    def write(table: memoryview) -> None:
        try:
            store.file.write(table)
            store.file.flush()
        except OSError as error:
            store.file.close()
            raise _no_room(recording, error) from None

    with collecting(sketch_of(recording)):
        for run, begin, end in recording.parts:  # pieces as they come: gaps lie between them
            runs.append([])
            for piece in _written(run.tiles(_WRITE, begin, end), write):
                runs[-1].append(piece)
                rows += piece.rows
                if progress is not None:
                    progress(rows)
    return store, runs


class _File:
    """The temporary file, closed when nobody holds it any more."""

    files = ()

    def __init__(self, width: int) -> None:
        self.width = width
        self.file = tempfile.TemporaryFile(prefix="minidyn-")  # noqa: SIM115 - closed below
        self.lock = Lock()
        weakref.finalize(self, self.file.close)

    def rows(self, first: int, count: int) -> Array:
        """Return rows (count, width)."""
        with self.lock:
            self.file.seek(8 * self.width * first)
            raw = self.file.read(8 * self.width * count)
        return _table(raw, count, self.width)

    def narrowed(self, first: int, last: int) -> _File:
        """Return all of it: it stays in this process."""
        return self


def _table(raw: bytes, count: int, width: int) -> Array:
    if len(raw) < 8 * width * count:
        raise DescriptionError("the temporary file of prepared samples was cut off")
    return np.frombuffer(raw).reshape(count, width)


class _Folder:
    """Where workers keep chunks: the driver makes and removes it.

    On other machines those who keep something there.
    """

    def __init__(self, keep: Path | None = None) -> None:
        if keep is not None:
            made_folder(keep)
        self.name = scratch_folder().name if keep is None else str(keep)
        if not self.kept:
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[object, ...]:
        return _folder_of, (self.name,)

    @property
    def path(self) -> Path:
        """Its place on this machine."""
        return Path(tempfile.gettempdir()) / self.name

    @property
    def kept(self) -> bool:
        """Whether it stays when the driver ends."""
        return Path(self.name).is_absolute()


def _folder_of(name: str) -> _Folder:
    """Return the folder in another process."""
    made = object.__new__(_Folder)
    made.name = name
    if not made.path.exists():
        made.path.mkdir(parents=True, exist_ok=True)
        if not made.kept:
            atexit.register(shutil.rmtree, made.path, ignore_errors=True)
    return made


@dataclass(frozen=True)
class _Packed:
    """A run on its way.

    To open its files takes longer than to read what was kept of it, and it is rarely needed.
    """

    run: bytes
    files: tuple[str, ...]

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        run: RunOnDisk = pickle.loads(self.run)  # noqa: S301 - it came with the task
        yield from run.tiles(samples, begin, end)


@dataclass(frozen=True)
class _Chunk:
    """Samples of one run that a worker prepared, and its file."""

    folder: _Folder
    name: str
    joints: int
    run: RunOnDisk | _Packed
    begin: int
    end: int
    count: int = 0  # rows of the file; known when it was written

    def __reduce__(self) -> tuple[Any, ...]:
        run = self.run
        with suppress(
            pickle.PicklingError, AttributeError, TypeError
        ):  # some engines can send what pickle cannot
            run = run if isinstance(run, _Packed) else _Packed(pickle.dumps(run), run.files)
        return _Chunk, (self.folder, self.name, self.joints, run, self.begin, self.end, self.count)

    def write(self) -> list[_Piece]:
        """Prepare the samples and keep them; return what is to be known of them."""
        path = self.folder.path / self.name
        number, beside = tempfile.mkstemp(dir=path.parent, prefix=self.name)
        try:
            with os.fdopen(number, "wb") as file:
                pieces = list(_written(self.run.tiles(_WRITE, self.begin, self.end), file.write))
            Path(beside).replace(path)  # whole or not at all: two workers may write the same
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        return pieces

    def found(self) -> list[_Piece] | None:
        """Return what is to be known of samples that were kept before, and sketch them.

        None where there are none.
        """
        path = self.folder.path / self.name
        try:
            about = json.loads(path.with_suffix(_ABOUT).read_text(encoding="utf-8"))
            pieces = [_Piece(int(rows), *map(float, times)) for rows, *times in about["pieces"]]
            sketch = Sketch.from_json(about["sketch"])
            if path.stat().st_size != 8 * _width(self.joints) * sum(piece.rows for piece in pieces):
                return None
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if (others := collected()) is not None:
            if sketch is None or sketch.joints != others.joints:
                return None
            others.merge(sketch)
        return pieces

    def keep(self) -> list[_Piece]:
        """Prepare the samples and keep them, with what is to be known of them."""
        sketch, others = Sketch(self.joints), collected()
        with collecting(sketch):
            pieces = self.write()
        about = {
            "pieces": [[*vars(piece).values()] for piece in pieces],
            "sketch": sketch.to_json(),
        }
        path = (self.folder.path / self.name).with_suffix(_ABOUT)
        write_atomically(path, json.dumps(about).encode())
        if others is not None:
            others.merge(sketch)
        return pieces

    def rows(self, first: int, count: int) -> Array:
        """Return rows (count, width), prepared again where the file is not there."""
        path, width = self.folder.path / self.name, _width(self.joints)
        if not path.exists() or path.stat().st_size != 8 * width * self.count:
            self.write()
        with path.open("rb") as file:
            file.seek(8 * width * first)
            return _table(file.read(8 * width * count), count, width)


@dataclass(frozen=True)
class _Chunks:
    """Chunks that workers keep, one after the other."""

    chunks: tuple[_Chunk, ...]
    firsts: tuple[int, ...]  # row of the first sample of each
    folder: _Folder | None = None  # it is removed when the driver holds it no more

    def rows(self, first: int, count: int) -> Array:
        """Return rows (count, width)."""
        found, row, last = list[Array](), first, first + count
        for number in range(bisect_right(self.firsts, first) - 1, len(self.chunks)):
            chunk, begin = self.chunks[number], self.firsts[number]
            if row >= last:
                break
            take = min(last, begin + chunk.count) - row
            found.append(chunk.rows(row - begin, take))
            row += take
        return found[0] if len(found) == 1 else np.concatenate(found)

    def narrowed(self, first: int, last: int) -> _Chunks:
        """Return the chunks of these rows."""
        low, high = bisect_right(self.firsts, first) - 1, bisect_right(self.firsts, last - 1)
        return _Chunks(self.chunks[low:high], self.firsts[low:high])

    @property
    def files(self) -> tuple[str, ...]:
        """Where they come from."""
        return tuple(dict.fromkeys(file for chunk in self.chunks for file in chunk.run.files))


def _by_workers(
    recording: LazyRecording, progress: Callable[[int], None] | None
) -> tuple[_Rows, list[list[_Piece]]]:
    """Have workers keep each chunk in a file of its own."""
    sketch, engine = sketch_of(recording), recording.engine
    assert engine is not None  # noqa: S101 - asked before
    folder = _Folder(engine.keep)
    empty = sketch.like() if sketch is not None and sketch.left > 0 else None
    runs: list[list[_Piece]] = [[] for _ in recording.parts]
    chunks: list[_Chunk] = []
    starts, row = recording.starts, 0
    if (
        folder.kept
    ):  # each file is hashed once, however many chunks it has; what fails here fails below
        list(engine.tried(partial(_hash_files, folder), recording.chunks(CHUNK)))
    for found, chunk, part in engine.tried(
        partial(_prepare_chunk, folder), recording.chunks(), empty
    ):
        if sketch is not None and part is not None:
            sketch.merge(part)
        if not isinstance(found, list):
            engine.leave_out(found, chunk)
            row += len(chunk)
            continue
        for made, pieces in found:
            runs[bisect_right(starts, row) - 1] += pieces
            chunks.append(made)
            row += made.end - made.begin
        if progress is not None:
            progress(row)
    kept = tuple(chunk for chunk in chunks if chunk.count)
    if not kept:
        raise DescriptionError("no sample of the recording could be read")
    return _Chunks(
        kept, tuple(accumulate((chunk.count for chunk in kept[:-1]), initial=0)), folder
    ), runs


def _hash_files(folder: _Folder, chunk: LazyRecording, row: int, progress: object) -> None:
    """Note the hashes of a chunk's files in the folder."""
    hash_of(folder.path, chunk.parts)


def _prepare_chunk(
    folder: _Folder, chunk: LazyRecording, row: int, progress: object
) -> list[tuple[_Chunk, list[_Piece]]]:
    """Prepare the samples of a chunk and keep them on this machine.

    Return where, and what is to be known of them.
    """
    made = []
    for number, (run, begin, end) in enumerate(chunk.parts):
        name = (
            hash_of(folder.path, chunk.joint_names, run, begin, end)
            if folder.kept
            else f"{row}-{number}"
        )
        one = _Chunk(folder, name, chunk.n, run, begin, end)
        try:
            pieces = one.write() if not folder.kept else one.found() or one.keep()
        except OSError as error:
            raise _no_room(chunk, error) from None
        made.append((replace(one, count=sum(piece.rows for piece in pieces)), pieces))
    return made
