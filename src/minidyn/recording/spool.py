"""Prepared samples kept in a temporary file, so that several passes over a large log prepare it once.

The file has no name (where the system allows): it is gone when nobody reads it any more, whatever ends the program. It
lies where TMPDIR says.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, MinidynError
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.prepare.segments import GAP
from minidyn.recording.recording import SIGNALS, Recording

_WRITE = 1 << 15  # samples asked for at once


def spooled(recording: LazyRecording, progress: Callable[[int], None] | None = None) -> LazyRecording:
    """Return the same samples (t, q, dq, ddq and tau; no telemetry) in a temporary file.

    Where a run had gaps, so that what is prepared is in pieces, each piece is a run.

    Args:
        recording: As `prepare` returns it; each of its samples is read once.
        progress: Called with the number of samples done.

    Raises:
        DescriptionError: The disk is full.
    """
    missing = [name for name in SIGNALS if name not in recording.signals]
    if missing:
        raise MinidynError(f"the recording has no {', '.join(missing)}; prepare it first: md.prepare(robot, recording)")
    width = 1 + len(SIGNALS) * recording.n
    store = _Store()
    bounds, rows = [0], 0
    for run, begin, end in recording.parts:  # pieces as they come: gaps lie between them
        before: float | None = None
        step = 0.0
        for tile in run.tiles(_WRITE, begin, end):
            step = float(np.median(np.diff(tile.t))) if len(tile) > 2 else step
            if before is not None and step > 0 and float(tile.t[0]) - before > GAP * step:
                bounds.append(rows)
            table = np.ascontiguousarray(np.column_stack([tile.t, *(_values(tile, name) for name in SIGNALS)]))
            try:
                store.file.write(table.data)
                store.file.flush()
            except OSError as error:
                store.file.close()
                raise DescriptionError(
                    f"{tempfile.gettempdir()}: no room for {8 * width * len(recording) >> 20} MB of prepared samples "
                    f"({error.strerror}); set TMPDIR to a folder on a larger disk"
                ) from None
            rows += len(tile)
            before = float(tile.t[-1]) if len(tile) else before
            if progress is not None:
                progress(rows)
        if rows > bounds[-1]:
            bounds.append(rows)
    parts = tuple((SpooledRun(store, recording.joint_names, begin), 0, end - begin) for begin, end in pairwise(bounds))
    return LazyRecording(recording.joint_names, SIGNALS, recording.notices, parts, recording.info)


def _values(tile: Recording, name: str) -> Array:
    values: Array | None = getattr(tile, name)
    if values is None:
        raise MinidynError(f"{name} is missing in a part of the recording")
    return values


class _Store:
    """The temporary file, closed when nobody holds it any more."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(prefix="minidyn-")  # noqa: SIM115 - closed below
        self.lock = Lock()
        weakref.finalize(self, self.file.close)


@dataclass(frozen=True)
class SpooledRun:
    """Rows of the temporary file: t, q, dq, ddq, tau of one sample after the other."""

    store: _Store
    joint_names: tuple[str, ...]
    first: int

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        n = len(self.joint_names)
        width = 1 + len(SIGNALS) * n
        for low in range(begin, end, samples):
            count = min(samples, end - low)
            with self.store.lock:
                self.store.file.seek(8 * width * (self.first + low))
                raw = self.store.file.read(8 * width * count)
            if len(raw) < 8 * width * count:
                raise DescriptionError("the temporary file of prepared samples was cut off")
            table = np.frombuffer(raw).reshape(count, width)
            q, dq, ddq, tau = (table[:, 1 + k * n : 1 + (k + 1) * n] for k in range(len(SIGNALS)))
            yield Recording(table[:, 0], q, tau, dq=dq, ddq=ddq, joint_names=self.joint_names)
