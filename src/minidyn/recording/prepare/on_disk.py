"""Preparation of recordings that stay on disk.

Windows overlap by what the filter needs and are cropped. Windows lie on a grid that begins with the
run, and what one holds depends on its own raw samples alone. So samples are the same to the last
bit wherever reading begins, and whoever reads.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, Unsupported
from minidyn.notices import Notice
from minidyn.recording.lazy import ChangedRun, LazyRecording, RunOnDisk, glued
from minidyn.recording.prepare.cutoff import settled
from minidyn.recording.prepare.preparation import Processing
from minidyn.recording.prepare.process import facts, process, recording_of
from minidyn.recording.prepare.segments import SHORTEST, Segment, even_stretches
from minidyn.recording.prepare.spectra import MIN_MOTION
from minidyn.recording.prepare.times import (
    BURSTS,
    COUNTED,
    HEAD,
    HELD_OUT,
    KEPT,
    RESAMPLED,
    logged_rate,
    nothing_left,
)
from minidyn.recording.recording import SIGNALS, Recording
from minidyn.recording.sketch import Tap

_UNEVEN = (RESAMPLED.code, COUNTED.code, HELD_OUT.code, BURSTS.code)
_LOOKS = 4  # size: stretches of a long run that show rate and bands, which may begin at rest
_RUNS = 32  # size: runs that show the bands; more are alike
_MANY = 8  # size: runs of which one stretch each shows them, if it moves
_LONG = 1 << 18  # size: samples of a recording of which some show whether it moves
_THREADS = min(2, os.cpu_count() or 1)  # size: windows side by side; filters release the lock


def prepare_on_disk(
    recording: LazyRecording,
    wish: Processing,
    *,
    look: int = 1 << 16,
    window: int = 1 << 14,
) -> LazyRecording | None:
    """Return the recording prepared as it is read.

    None where its samples are uneven, which needs them all. `look` samples of each run show its
    rate and the bands of motion and noise; of many runs some show the bands, with fewer samples of
    each, and the beginning of each its rate. Workers, where there are some, read them. `window` raw
    samples are filtered at once, and what overlaps.
    """
    if wish.period is not None or wish.resample is not None:
        raise Unsupported(
            "period= and resample= need the whole recording: prepare(robot, recording.load(), ...)"
        )
    first: list[Notice] = []
    every, quiet = -(-len(recording.parts) // _RUNS), _unseen(recording)
    rates = _rates(quiet, wish, first) if every > 1 else [0.0] * len(recording.parts)
    looked, time = quiet.runs[::every], wish.time
    for few in (True, False) if len(looked) >= _MANY else (False,):
        spans = [_spans(run, look, few) for run in looked]
        found, told = _looked(looked, spans, wish, look // _LOOKS)
        notices, heads = first + told, list(chain.from_iterable(found))
        if any(notice.code in _UNEVEN for notice in notices):
            return None
        if not heads:
            raise nothing_left(len(recording), SHORTEST)
        settings, band = settled(_moving(heads), replace(wish, time="even"), notices)
        if band.motion:
            break
    for number, own in enumerate(found):
        rates[number * every] = own[0].rate if own else 0.0
    sources = [_untapped(run) for run, _, _ in recording.parts]
    runs = [
        PreparedRun(run, begin, end, settings, rate, window, tap)
        for (run, tap), (_, begin, end), rate in zip(sources, recording.parts, rates)
        if rate
    ]
    parts = tuple(
        (run, 0, run.length) for run in runs if run.end - run.begin - 2 * run.margin >= SHORTEST
    )
    if not parts:
        raise DescriptionError(
            f"no run is longer than the ends that a filter of {settings.cutoff:.4g} Hz spoils"
        )
    kept = sum(end - begin for _, begin, end in parts)
    text = (
        f"prepared as it is read: {kept} of {len(recording)} samples are kept, standstill included"
    )
    notices.append(KEPT(text, samples=kept, of=len(recording)))
    signals = tuple(name for name in SIGNALS if name != "tau" or "tau" in recording.signals)
    known = (*recording.notices, *dict.fromkeys(notices))
    logged = logged_rate(next(quiet.tiles(look)))
    done = facts(replace(settings, time=time), band, heads, kept, logged)
    done |= {"torque_noise": _torque_noise(heads, settings)} if "tau" in signals else {}
    return LazyRecording(recording.joint_names, signals, known, parts, done, True, recording.engine)


def _torque_noise(heads: Sequence[Segment], settings: Processing) -> tuple[float, ...]:
    """Return what the low-pass takes off the torques of some stretches (n,), root mean squares, N m
    or N.
    """
    squares, count = np.float64(0.0), 0
    for part in heads:
        made = process(part, settings, slice(None, None, settings.every(part.rate)))
        good = made["outlier"] == 0.0
        squares = squares + np.sum((made["tau_raw"] - made["tau"])[good] ** 2, axis=0)
        count += int(np.sum(good))
    return tuple(np.sqrt(squares / max(count, 1)).tolist())


def _rates(recording: LazyRecording, wish: Processing, notices: list[Notice]) -> list[float]:
    """Return the rate of each run as its beginning shows it; 0 where it is too short."""
    parts = tuple((run, begin, min(end, begin + HEAD)) for run, begin, end in recording.parts)
    heads = replace(recording, parts=parts)
    rates = []
    for chunk in heads.each(partial(_rates_of, wish), size=_MANY * HEAD):
        for rate, told in chunk:
            rates.append(rate)
            notices += told
    return rates


def _rates_of(
    wish: Processing, chunk: LazyRecording, row: int, progress: object
) -> list[tuple[float, list[Notice]]]:
    """Return the rate of each run of a chunk, and what was found there."""
    made = _stretches_of(wish, chunk, row, progress)
    return [(found[0].rate if found else 0.0, notices) for found, notices in made]


def _stretches_of(
    wish: Processing, chunk: LazyRecording, row: int, progress: object
) -> list[tuple[list[Segment], list[Notice]]]:
    """Return the even stretches of each run of a chunk, but for short ones, and what was found
    there.
    """
    made = []
    for run in chunk.runs:
        notices: list[Notice] = []
        pieces = [piece for piece in run.tiles(len(run)) if len(piece)]
        found = even_stretches(glued(pieces), wish, notices) if pieces else []
        long = [replace(part, telemetry={}) for part in found if len(part.q) >= SHORTEST]
        made.append((long, notices))
    return made


def _unseen(recording: LazyRecording) -> LazyRecording:
    """Return a recording without a sketch of what is read of it.

    What is looked at first is read again in its turn.
    """
    parts = tuple((_untapped(run)[0], begin, end) for run, begin, end in recording.parts)
    return replace(recording, parts=parts, info={})


def _untapped(run: RunOnDisk) -> tuple[RunOnDisk, Tap | None]:
    """Return a run without the tap that sketches what is read of it, and the tap.

    Windows overlap.
    """
    if not isinstance(run, ChangedRun):
        return run, None
    if isinstance(run.change, Tap):
        return run.run, run.change
    inner, tap = _untapped(run.run)
    return ChangedRun(inner, run.change), tap


def _spans(run: LazyRecording, look: int, few: bool) -> list[tuple[int, int]]:
    """Return the samples of a run that show its rate and bands.

    All of a short one, stretches spread over a long one. Of many runs (`few`) one stretch, soon
    after a place that can be read from: what is before it is unpacked, too.
    """
    length, size = len(run), look // _LOOKS
    if length <= (size if few else look):
        return [(0, length)]
    if few:  # the beginning may be a standstill
        (source, begin, end), middle = run.parts[0], length // 2
        cut = min(
            (0, *(cut - begin for cut in source.cuts(begin, end))),
            key=lambda cut: abs(cut - middle),
        )
        low = min(cut + size, length - size)
        return [(low, low + size)]
    begins = [number * (length - size) // (_LOOKS - 1) for number in range(_LOOKS)]
    return [(begin, begin + size) for begin in begins]


def _looked(
    runs: Sequence[LazyRecording],
    spans: Sequence[Sequence[tuple[int, int]]],
    wish: Processing,
    size: int,
) -> tuple[list[list[Segment]], list[Notice]]:
    """Return the even stretches of some samples of each run, and what was found there."""
    parts = [
        part for run, own in zip(runs, spans) for low, high in own for part in run[low:high].parts
    ]
    some = replace(runs[0], parts=tuple(parts))
    stretches = chain.from_iterable(some.each(partial(_stretches_of, wish), size=size))
    made, notices = list[list[Segment]](), list[Notice]()
    for own in spans:
        made.append([])
        for found, told in islice(stretches, len(own)):
            made[-1] += found
            notices += told
    return made, notices


def _moving(parts: Sequence[Segment]) -> list[Segment]:
    """Return the segments in which something moves.

    The noise of a standstill must not pass for motion.
    """
    reach = np.array([np.ptp(part.q, axis=0) for part in parts])
    whole = np.where(reach.max(axis=0) > 0, reach.max(axis=0), 1.0)
    return [
        part
        for part, share in zip(parts, (reach / whole).max(axis=1))
        if share > MIN_MOTION or not reach.any()
    ]


@dataclass(frozen=True)
class PreparedRun:
    """A run on disk, prepared when it is read."""

    run: RunOnDisk  # raw
    begin: int  # first raw sample
    end: int  # last raw sample, exclusive
    settings: Processing  # cut-off and the rest, settled
    rate: float  # samples per second of the raw run
    window: int  # raw samples filtered at once, besides what overlaps
    tap: Tap | None = None  # sketches raw samples as they are read
    threads: int = _THREADS  # windows filtered side by side

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
        if self.threads == 1:  # a worker takes one processor: reading and filtering take turns
            for window in self._windows(begin, end):
                yield from chain.from_iterable(
                    piece.tiles(samples) for piece in self._middle(*window)
                )
            return
        under_way: deque[Future[list[Recording]]] = deque()
        pool = ThreadPoolExecutor(self.threads)
        try:
            for window in self._windows(begin, end):
                under_way.append(pool.submit(self._middle, *window))
                if len(under_way) > self.threads:
                    yield from chain.from_iterable(
                        piece.tiles(samples) for piece in under_way.popleft().result()
                    )
            for ready in under_way:
                yield from chain.from_iterable(piece.tiles(samples) for piece in ready.result())
        finally:  # who stops early does not wait for windows that nobody reads
            pool.shutdown(cancel_futures=True)

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return where reading may begin.

        With the first window that needs nothing from before a cut of the log.
        """
        low, found = self.begin + self.margin, list[int]()
        for cut in self.run.cuts(self.begin, self.end):
            window = -(-(cut + self.overlap - low) // self.size)
            found.append(window * self.size // self.every)
        return [cut for cut in dict.fromkeys(found) if begin < cut < end]

    def narrowed(self, begin: int, end: int) -> tuple[RunOnDisk, int, int]:
        """Return all of it: it is small."""
        return self, begin, end

    def __reduce__(self) -> tuple[Any, ...]:  # another process has one processor
        about = (self.run, self.begin, self.end, self.settings, self.rate, self.window, self.tap)
        return PreparedRun, (*about, 1)

    @property
    def files(self) -> tuple[str, ...]:
        """Where its samples come from."""
        return self.run.files

    @property
    def size(self) -> int:
        """Raw samples from one window to the next."""
        return -(-max(self.window, 8 * self.overlap) // self.every) * self.every

    def _windows(self, begin: int, end: int) -> Iterator[tuple[Recording, int, int, int, int]]:
        """Yield raw windows, the raw samples they begin at, and between which raw samples they
        count; then `_middle`.

        Those are: the first raw sample of the window proper, and the first and last that are to be
        handed out.
        """
        first, last = self.begin + self.margin, self.end - self.margin
        low, high = first + begin * self.every, min(first + end * self.every, last)
        if low >= high:
            return
        middle = first + (low - first) // self.size * self.size
        held: list[Recording] = []
        row = max(middle - self.overlap, self.begin)  # raw sample at which `held` begins
        length = 0
        final = first + -(-(high - first) // self.size) * self.size
        pieces = self.run.tiles(self.window, row, min(min(final, last) + self.overlap, self.end))
        while middle < high:
            stop = min(middle + self.size, last)
            reach = min(stop + self.overlap, self.end)
            while row + length < reach and (piece := next(pieces, None)) is not None:
                held.append(piece)
                length += len(piece)
            if not length:
                return
            whole = glued(held)
            if self.tap is not None:
                self.tap(whole[middle - row : stop - row])
            yield whole[: reach - row], row, middle, max(middle, low), min(stop, high)
            drop = max(0, stop - self.overlap - row)
            held, row, length, middle = [whole[drop:]], row + drop, length - drop, stop

    @property
    def overlap(self) -> int:
        """Raw samples on either side after which a filter has forgotten where it began.

        The slowest pole of a Butterworth low-pass of order k dies as exp(-2π f sin(π / 2k) t): to
        1e-11 here.
        """
        periods = 25.3 / (2 * math.pi * math.sin(math.pi / (2 * self.settings.order)))
        return math.ceil(periods * self.rate / self.settings.cutoff) + 8

    def _middle(
        self, window: Recording, row: int, middle: int, begin: int, end: int
    ) -> list[Recording]:
        made = []
        for part in even_stretches(window, self.settings, []):
            if len(part.q) < SHORTEST:
                continue
            first = row + int(np.searchsorted(window.t, part.t[0]))
            last = first + len(part.q)
            low = max(begin, first + (self.margin if first > row else 0))
            high = min(end, last - (self.margin if last < row + len(window) else 0))
            low += -(low - middle) % self.every  # keep step with the windows before
            if low < high:
                arrays = process(part, self.settings, slice(low - first, high - first, self.every))
                made.append(recording_of(arrays, window.joint_names))
        return made


def as_it_is_read(run: RunOnDisk) -> bool:
    """Whether a run is prepared anew whenever it is read."""
    while isinstance(run, ChangedRun):
        run = run.run
    return isinstance(run, PreparedRun)


def mostly_held(recording: LazyRecording, reach: Array, fewest: int) -> bool:
    """Whether positions of a recording may be held within a reach (n,) in most samples.

    Stretches of a long one say it. So many samples, at the least, are a pose. A short recording is
    not looked at: it may be.
    """
    if len(recording) <= _LONG:
        return True
    some = _unseen(recording).spread(_LOOKS, HEAD, quick=True)
    counts = some.each(partial(_held_samples, reach, fewest), size=HEAD)
    return 2 * sum(counts) > _LOOKS * HEAD


def _held_samples(
    reach: Array, fewest: int, chunk: LazyRecording, row: int, progress: object
) -> int:
    """Return the samples of a chunk in poses that are held.

    Positions stay within the reach until they jump.
    """
    count = 0
    for tile in chunk.tiles(HEAD):
        jumps = np.any(np.abs(np.diff(tile.q, axis=0)) > reach, axis=1)
        begins = np.concatenate([[0], 1 + np.flatnonzero(jumps)])
        spans = np.maximum.reduceat(tile.q, begins) - np.minimum.reduceat(tile.q, begins)
        sizes = np.diff(begins, append=len(tile))
        count += int(sizes[(sizes >= fewest) & np.all(spans <= 2.0 * reach, axis=1)].sum())
    return count
