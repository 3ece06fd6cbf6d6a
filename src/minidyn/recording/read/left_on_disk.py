"""Logs left on disk: a pass over the times of each finds length, runs and gaps.

Samples are read when asked for. A hash of how they are read, and of what they hold, is the name of
what was made of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol

import numpy as np

from minidyn import __version__
from minidyn.arrays import Array, side_by_side
from minidyn.errors import DescriptionError
from minidyn.notices import Notice, info
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.prepare.unwrap import unwrapped
from minidyn.recording.read.bind import Binding
from minidyn.recording.read.inspect_signals import StepCheck
from minidyn.recording.read.mapping import Conversion
from minidyn.recording.read.places import content_of
from minidyn.recording.read.tables import Columns, LogTable
from minidyn.recording.recording import SIGNALS, Recording
from minidyn.recording.sketch import Sketch, info_of

PRUNED = info(
    "recording.pruned", "Of logs on disk only the columns that are needed are read: how many bytes."
)

_MOST = 0.9  # of the bytes: where more are read, nobody need know


class Source(Protocol):
    """A table with its columns understood."""

    @property
    def table(self) -> LogTable:
        """The log."""
        ...

    @property
    def binding(self) -> Binding:
        """Which column is what."""
        ...

    @property
    def convert(self) -> Conversion:
        """To SI and to the joint side."""
        ...

    @property
    def rate(self) -> float:
        """Samples per second where time is not a column, else 0."""
        ...

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was found."""
        ...

    def recording(self, columns: Columns, row: int = 0) -> Recording:
        """Return the samples of columns that begin at a row of the table."""
        ...

    def times(self, columns: Columns, row: int, rows: int) -> Array:
        """Return the times (N,) of a batch that begins at a row, s."""
        ...


Scan = tuple[list[int], int, list[Notice]]
"""First row of each run of a log, how many rows there are, and what was found in the times."""


def on_disk(scanned: Sequence[tuple[Source, Scan]], notices: Sequence[Notice]) -> LazyRecording:
    """Return logs whose times were read as runs on disk."""
    parts: list[tuple[_SourceRun, int, int]] = []
    found, sources = list(notices), [source for source, _ in scanned]
    for source, (starts, rows, texts) in scanned:
        found += [*source.notices, *texts]
        for begin, end in zip(starts, (*starts[1:], rows)):
            parts.append((_SourceRun(source, begin), 0, end - begin))
    sizes = [source.table.size_of(source.binding.columns) for source in sources]
    needed, held = (sum(size) for size in zip(*sizes))
    if needed < _MOST * held:
        text = (
            f"{needed / 1e6:.4g} of {held / 1e6:.4g} MB are read: columns that nobody asks for "
            "stay where they are"
        )
        found.append(PRUNED(text, needed=needed, held=held))
    signals = [
        name for name in SIGNALS if all(name in source.binding.signals for source in sources)
    ]
    prepared = all(source.table.prepared for source in sources)
    known, about = tuple(dict.fromkeys(found)), info_of(source.table.sketch for source in sources)
    return LazyRecording(
        sources[0].binding.joints, tuple(signals), known, tuple(parts), about, prepared
    )


def scan(source: Source) -> Scan:
    """Read the times of a log.

    Motor angles that wrap are refused: what is read of it begins anywhere.
    """
    binding, path = source.binding, source.table.path
    if source.convert.motion is not None and "q" in source.convert.on_motor:
        angles = binding.signals["q"]
        head = next(source.table.batches(angles, 1 << 16, 0, 1 << 16))
        if unwrapped(side_by_side([head[name] for name in angles]) * source.convert.scale["q"])[1]:
            raise DescriptionError(
                f"{path}: motor angles jump by 2π; lazy=False (--no-lazy) unwraps them"
            )
    names = [*binding.time, *([binding.run] if binding.run else [])]
    if not names:
        return [0], source.table.count(), []
    check, starts, rows = StepCheck(), [0], 0
    first, last, last_run = 0.0, 0.0, 0.0
    for columns in source.table.batches(names, 1 << 16):
        size = len(columns[names[0]])
        times = source.times(columns, rows, size)
        run = columns[binding.run] if binding.run else np.full(size, last_run)
        if not rows:
            first, last, last_run = float(times[0]), float(times[0]), float(run[0])
        ahead = np.diff(times, prepend=last) < 0
        new = np.diff(run, prepend=last_run) != 0
        cuts = []
        for row in np.flatnonzero(ahead | new).tolist():
            before = float(times[row - 1]) if row else last
            if not new[row] and times[row] > first + 0.1 * (before - first):
                raise DescriptionError(
                    f"{path}: {source.table.place(rows + row)}: time runs backwards; lazy=False "
                    "sorts it"
                )
            cuts.append(row)
            first = float(times[row])
        for low, high in zip((0, *cuts), (*cuts, size)):
            if low in cuts:
                check.new_run()
            check.add(times[low:high])
        starts += [rows + row for row in cuts]
        rows, last, last_run = rows + size, float(times[-1]), float(run[-1])
    return starts, rows, [] if source.rate else check.notices(path.name)


@dataclass(frozen=True)
class _SourceRun:
    """The rows of a log from `first` on."""

    source: Source
    first: int

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        row, stop = self.first + begin, self.first + end
        for columns in self.source.table.batches(self.source.binding.columns, samples, row, stop):
            tile = self.source.recording(columns, row)
            row += len(tile)
            yield tile

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return where reading may begin."""
        return [
            cut - self.first for cut in self.source.table.cuts() if begin < cut - self.first < end
        ]

    def narrowed(self, begin: int, end: int) -> tuple[_SourceRun, int, int]:
        """Return all of it: it is a name and how to read it."""
        return self, begin, end

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (str(self.source.table.path),)


def hash_of(notes: Path, *values: Any) -> str:
    """Return a hash of all that values hold, the same in every process.

    Of files names and contents, noted there.
    """
    digest = hashlib.sha256(__version__.encode())
    _add(digest.update, values, notes)
    return digest.hexdigest()


def _add(
    update: Callable[[bytes], object], value: Any, notes: Path, above: tuple[object, ...] = ()
) -> None:
    """Add a value, and what it holds, to a hash; `above` are the objects that hold it."""
    update(f"<{type(value).__qualname__}>".encode())
    if isinstance(value, str | bytes | int | float | complex | None):
        update(repr(value).encode())
    elif isinstance(value, np.ndarray | np.generic):
        update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, Mapping):
        _add(update, tuple(value.items()), notes, above)
    elif isinstance(value, tuple | list | range | set | frozenset):
        for one in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
            _add(update, one, notes, above)
    elif isinstance(value, os.PathLike):
        update(f"{value} {content_of(value, notes)}".encode())
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        update(f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, Sketch) or any(value is one for one in above):
        return  # what grows, and changes no sample; a table that holds a method of its own
    elif any(
        "__reduce__" in vars(kind) for kind in type(value).__mro__[:-1]
    ):  # it says what it is made of
        _add(update, value.__reduce__(), notes, (*above, value))
    else:
        _add(update, vars(value), notes, (*above, value))
