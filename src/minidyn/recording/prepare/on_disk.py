"""Preparation of recordings that stay on disk: windows overlap by what the filter needs and are cropped.

What is prepared may be kept in a temporary file, so that several passes over a large log prepare it once. The file has
no name (where the system allows): it is gone when nobody reads it any more, whatever ends the program. It lies where
TMPDIR says.
"""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from threading import Lock

import numpy as np

from minidyn.errors import DescriptionError, Unsupported
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info
from minidyn.recording.lazy import LazyRecording, RunOnDisk, glued
from minidyn.recording.prepare import segments
from minidyn.recording.prepare.times import COUNTED, HELD_OUT, RESAMPLED, logged_rate
from minidyn.recording.recording import SIGNALS, Recording

FROM_STRETCHES = info(
    "prepare.cutoff_from_stretches",
    "The cut-off of a long recording on disk was chosen from a few stretches of each run.",
    "Give cutoff=... where the motion changes much along the recording.",
)

_UNEVEN = (RESAMPLED.code, COUNTED.code, HELD_OUT.code)
_WRITE = 1 << 15  # samples asked for at once
_LOOKS = 4  # stretches of a long run that settle rate and cut-off: its beginning may be a standstill
_MOVES = 0.05  # of the largest reach: a stretch that moves less stands still
_THREADS = min(2, os.cpu_count() or 1)  # windows filtered side by side: filters run without the interpreter's lock


def prepare_on_disk(
    recording: LazyRecording,
    wish: segments.Settings,
    robot: Robot | None = None,
    *,
    look: int = 1 << 16,
    window: int = 1 << 14,
) -> LazyRecording | None:
    """Return the recording prepared as it is read; None where its samples are uneven, which needs them all.

    `look` samples of each run settle rate and cut-off, with torques where the robot is known; `window` raw samples are
    filtered at once, and what overlaps.
    """
    if wish.period is not None or wish.resample is not None:
        raise Unsupported("period= and resample= need the whole recording: prepare(robot, recording.load(), ...)")
    notices: list[Notice] = []
    looks: list[list[segments.Segment]] = []
    for run in recording.runs:
        found = [part for piece in _looks(run, look) for part in segments.even_stretches(piece, wish, notices)]
        looks.append([part for part in found if len(part.q) >= segments.SHORTEST])
    if any(notice.code in _UNEVEN for notice in notices):
        return None
    time, wish = wish.time, replace(wish, time="even")
    heads = [part for found in looks for part in found]
    if not heads:
        raise DescriptionError(f"no run has {segments.SHORTEST} samples in a row; {len(recording)} samples in all")
    if not wish.cutoff and any(len(run) > look for run in recording.runs):
        text = f"the cut-off is settled by {_LOOKS} stretches of {look // _LOOKS} samples of each long run"
        notices.append(FROM_STRETCHES(text, stretches=_LOOKS, samples=look // _LOOKS))
    settings, band = segments.settled(_moving(heads), wish, notices, robot)
    runs = [PreparedRun(*part, settings, found[0].rate, window) for part, found in zip(recording.parts, looks) if found]
    parts = tuple((run, 0, run.length) for run in runs if run.end - run.begin - 2 * run.margin >= segments.SHORTEST)
    if not parts:
        raise DescriptionError(f"no run is longer than the ends that a filter of {settings.cutoff:.4g} Hz spoils")
    kept = sum(end - begin for _, begin, end in parts)
    text = f"prepared as it is read: {kept} of {len(recording)} samples are kept, standstill included"
    notices.append(segments.KEPT(text, samples=kept, of=len(recording)))
    signals = tuple(name for name in SIGNALS if name != "tau" or "tau" in recording.signals)
    known = (*recording.notices, *dict.fromkeys(notices))
    logged = logged_rate(next(recording.tiles(look)))
    done = segments.facts(replace(settings, time=time), band, heads, kept, logged)
    return LazyRecording(recording.joint_names, signals, known, parts, done, prepared=True)


def _looks(run: LazyRecording, look: int) -> Iterator[Recording]:
    """Yield what settles rate and cut-off: all of a short run, stretches spread over a long one."""
    size = look if len(run) <= look else look // _LOOKS
    for number in range(1 if len(run) <= look else _LOOKS):
        begin = number * (len(run) - size) // (_LOOKS - 1) if number else 0
        pieces = list(run[begin : begin + size].tiles(size))
        if pieces:
            yield glued(pieces)


def _moving(parts: Sequence[segments.Segment]) -> list[segments.Segment]:
    """Return the segments in which something moves: the noise of a standstill must not pass for motion."""
    reach = np.array([np.ptp(part.q, axis=0) for part in parts])
    whole = np.where(reach.max(axis=0) > 0, reach.max(axis=0), 1.0)
    return [part for part, share in zip(parts, (reach / whole).max(axis=1)) if share > _MOVES or not reach.any()]


@dataclass(frozen=True)
class PreparedRun:
    """A run on disk, prepared when it is read."""

    run: RunOnDisk  # raw
    begin: int  # first raw sample
    end: int  # last raw sample, exclusive
    settings: segments.Settings  # cut-off and the rest, settled
    rate: float  # samples per second of the raw run
    window: int  # raw samples filtered at once, besides what overlaps

    @property
    def every(self) -> int:
        """How many raw samples become one."""
        return self.settings.every(self.rate)

    @property
    def margin(self) -> int:
        """Raw samples left out at either end."""
        return self.settings.margin(self.rate) if self.settings.trim else 0

    @property
    def length(self) -> int:
        """Samples once prepared; fewer come where the run has gaps."""
        return math.ceil((self.end - self.begin - 2 * self.margin) / self.every)

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the prepared samples from `begin` to `end`, at most `samples` at a time."""
        under_way: deque[Future[list[Recording]]] = deque()
        pool = ThreadPoolExecutor(_THREADS)
        try:
            for window in self._windows(begin, end):
                under_way.append(pool.submit(self._middle, *window))
                if len(under_way) > _THREADS:
                    yield from chain.from_iterable(piece.tiles(samples) for piece in under_way.popleft().result())
            for ready in under_way:
                yield from chain.from_iterable(piece.tiles(samples) for piece in ready.result())
        finally:  # who stops early does not wait for windows that nobody reads
            pool.shutdown(cancel_futures=True)

    def _windows(self, begin: int, end: int) -> Iterator[tuple[Recording, int, int, int]]:
        """Yield raw windows, the raw samples they begin at, and the raw samples to be handed out of them."""
        every, overlap = self.every, self.overlap
        low = self.begin + self.margin + begin * every
        high = min(self.begin + self.margin + end * every, self.end - self.margin)
        size = -(-max(self.window, 8 * overlap) // every) * every
        reach = (max(low - overlap, self.begin), min(high + overlap, self.end))
        held: list[Recording] = []
        row, length = reach[0], 0  # raw sample at which `held` begins, and how many it has
        middle = low  # first raw sample that is not handed out yet
        for piece in self.run.tiles(self.window, *reach):
            held.append(piece)
            length += len(piece)
            while middle < high and (row + length >= middle + size + overlap):
                window = glued(held)
                stop = min(middle + size, high)
                yield window, row, middle, stop
                middle = stop
                drop = max(0, middle - overlap - row)
                held, row, length = [window[drop:]], row + drop, length - drop
        if middle < high and held:
            yield glued(held), row, middle, high

    @property
    def overlap(self) -> int:
        """Raw samples on either side after which a filter has forgotten where it began.

        The slowest pole of a Butterworth low-pass of order k dies as exp(-2π f sin(π / 2k) t): to 1e-11 here.
        """
        periods = 25.3 / (2 * math.pi * math.sin(math.pi / (2 * self.settings.order)))
        return math.ceil(periods * self.rate / self.settings.cutoff) + 8

    def _middle(self, window: Recording, row: int, begin: int, end: int) -> list[Recording]:
        made = []
        for part in segments.even_stretches(window, self.settings, []):
            if len(part.q) < segments.SHORTEST:
                continue
            first = row + int(np.searchsorted(window.t, part.t[0]))
            last = first + len(part.q)
            low = max(begin, first + (self.margin if first > row else 0))
            high = min(end, last - (self.margin if last < row + len(window) else 0))
            low += -(low - begin) % self.every  # keep step with the tiles before
            if low < high:
                arrays = segments.process(part, self.settings, slice(low - first, high - first, self.every))
                made.append(segments.recording_of(arrays, window.joint_names))
        return made


def spooled(recording: LazyRecording, progress: Callable[[int], None] | None = None) -> LazyRecording:
    """Return the same samples (t, q, dq, ddq and tau; no telemetry) in a temporary file.

    Where a run had gaps, so that what is prepared is in pieces, each piece is a run. Each sample is read once, and
    `progress` called with the number of samples done.
    """
    width = 1 + len(SIGNALS) * recording.n
    store = _Store()
    bounds, rows = [0], 0
    for run, begin, end in recording.parts:  # pieces as they come: gaps lie between them
        before: float | None = None
        step = 0.0
        for tile in run.tiles(_WRITE, begin, end):
            step = float(np.median(np.diff(tile.t))) if len(tile) > 2 else step
            if before is not None and step > 0 and float(tile.t[0]) - before > segments.GAP * step:
                bounds.append(rows)
            table = np.ascontiguousarray(np.column_stack([tile.t, *(getattr(tile, name) for name in SIGNALS)]))
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
    return replace(recording, signals=SIGNALS, parts=parts)


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
        width = 1 + len(SIGNALS) * len(self.joint_names)
        for low in range(begin, end, samples):
            count = min(samples, end - low)
            with self.store.lock:
                self.store.file.seek(8 * width * (self.first + low))
                raw = self.store.file.read(8 * width * count)
            if len(raw) < 8 * width * count:
                raise DescriptionError("the temporary file of prepared samples was cut off")
            table = np.frombuffer(raw).reshape(count, width)
            q, dq, ddq, tau = np.split(table[:, 1:], len(SIGNALS), axis=1)
            yield Recording(table[:, 0], q, tau, dq, ddq, self.joint_names)
