"""A small sketch of the data a model was fitted to, by which the same data are recognised later.

Each sample's positions and torques, without time, fall into a cell of a grid whose steps grow with
the value (1.6 % of it, and finer near zero). A cell has a hash of 64 bits; the sketch keeps the
`SIZE` smallest hashes, a fair choice of cells that depends on the contents alone, and for each
where in its cell the first sample lay. So a copy is recognised however it is named, cut, shifted in
time, its columns ordered, or written anew: as CSV with four significant digits or four decimals, as
float32, in other units. A new run of the same motion is not: its torques have noise of their own,
and samples must agree within half a unit of the fourth digit in all joints.

Its size does not grow with the recording, 8 + 2 n bytes for each of at most 2048 cells of n joints:
60 kB of text for seven joints. Data that were resampled, filtered or scaled have other cells:
pieces of their motion and noise are compared (`motion_sketch`), for recordings in memory. Limits:
torques whose noise is below 0.05 % of their value look the same in every run; a copy of less than
about one thousandth of a long log may go unseen.
"""

from __future__ import annotations

import base64
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.recording.motion_sketch import MotionSketch
from minidyn.recording.recording import SKETCH, Recording, without_sketch

if TYPE_CHECKING:
    from minidyn.recording.lazy import AnyRecording

SIZE = 2048
"""Cells that a sketch keeps."""

_Kind = TypeVar("_Kind", bound="AnyRecording")
_Hashes = NDArray[np.uint64]
_Places = NDArray[np.uint8]

_STEPS = 64.0  # cells for each factor e of a value
_SMALL = 0.1  # values below are divided evenly: rad, m, N m, N
_LEVELS = 256  # places in a cell that are told apart
# of a cell: what four digits (5e-4 of a value) or four decimals change at most, and half as much
# again
_NEAR = 0.053
_TORQUES = (
    6  # torques that must agree: of robots with fewer joints, those of the following samples, too
)
_CHUNK = 1 << 11  # samples at once: they stay in the cache
_HELD = 4 * SIZE  # cells of which the smallest are taken now and then
_FEWEST = 3  # cells: fewer are found by chance
_POSITIVE = (
    "cutoff",
    "rate",
    "logged_rate",
    "decimate",
    "order",
    "motion_band",
)  # in the info of a recording


class Sketch:
    """The cells of a recording with the smallest hashes.

    Samples are added in pieces, in any order, and twice at will.

    Args:
        joints: Number of joints of the recording.
        prepared: Whether the samples were prepared: those are other numbers than the ones in the
            log.
        parts: Sketches of its parts, filled already or later.
    """

    def __init__(self, joints: int, prepared: bool = False, parts: Iterable[Sketch] = ()) -> None:
        self.joints, self.prepared = joints, prepared
        self._parts = tuple(parts)
        self._hashes: _Hashes = np.zeros(0, dtype=np.uint64)  # rising
        self._places: _Places = np.zeros(
            (0, _width(joints)), dtype=np.uint8
        )  # of the first sample in its cell
        self.left = math.inf  # samples that are still to be added as they are read
        self.motion: MotionSketch | None = None  # pieces of a recording in memory
        self.info: dict[str, object] = {}  # how what a file holds was prepared (`Recording.info`)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self._cells_json() == other._cells_json()

    __hash__ = None  # type: ignore[assignment] # it grows

    def add(self, recording: Recording) -> None:
        """Add samples whose joints are in the robot's order."""
        limit, found = _limit(self._hashes), [(self._hashes, self._places)]
        for values in _rows(recording):
            u = np.divide(values, _SMALL, out=values)
            u = np.arcsinh(u, out=u)
            u *= _STEPS  # measured in cells
            cells = np.floor(u)
            hashes = _hashes(cells)
            kept = np.flatnonzero(hashes <= limit)
            found.append((hashes[kept], ((u[kept] - cells[kept]) * _LEVELS).astype(np.uint8)))
            if sum(len(one) for one, _ in found) > _HELD:
                found = [_smallest(found)]
                limit = _limit(found[0][0])
        self._hashes, self._places = _smallest(found)

    def merge(self, other: Sketch) -> None:
        """Add what another sketch holds: the same as to add its samples now."""
        self._hashes, self._places = _smallest([(self._hashes, self._places), other.cells])

    def like(self) -> Sketch:
        """Return an empty sketch of the same kind."""
        return Sketch(self.joints, self.prepared)

    def close(self) -> None:
        """Say that every sample was added: what is read again is not."""
        for one in (self, *self._parts):
            one.left = 0

    @property
    def cells(self) -> tuple[_Hashes, _Places]:
        """Hashes of the cells (k,), rising, and where in each the first sample lay (k, values of a
        row).
        """
        if not self._parts:
            return self._hashes, self._places
        return _smallest([(self._hashes, self._places), *(part.cells for part in self._parts)])

    def share_of(self, tested: Sketch) -> float | None:
        """Return the share of another recording's samples that are in this one, 0 to 1.

        None where it cannot be said: there is none, or one is known as it was logged and the other
        only as prepared.
        """
        (hashes, places), (other, others) = self.cells, tested.cells
        if tested.joints != self.joints or not len(other):
            return None
        limit = min(_limit(hashes), _limit(other))
        shared, here, there = np.intersect1d(hashes, other, assume_unique=True, return_indices=True)
        apart = np.abs(places[here].astype(int) - others[there]) / _LEVELS
        same = int(np.sum(np.all(apart <= _NEAR, axis=1) & (shared <= limit)))
        if same < _FEWEST:
            return 0.0 if self.prepared == tested.prepared else None
        return same / int(np.sum(other <= limit))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        motion = self.pieces
        return self._cells_json() | ({} if motion is None else {"motion": motion.to_json()})

    @property
    def pieces(self) -> MotionSketch | None:
        """Pieces of the recording, or of its parts; None where it is on disk."""
        if self.motion is not None or not self._parts:
            return self.motion
        return MotionSketch.joined(part.pieces for part in self._parts)

    def _cells_json(self) -> dict[str, Any]:
        hashes, places = self.cells
        texts = {"hashes": hashes.astype("<u8"), "places": places}
        about = {"joints": self.joints, "prepared": self.prepared}
        return about | {k: base64.b64encode(x.tobytes()).decode() for k, x in texts.items()}

    @staticmethod
    def about(info: object) -> dict[str, object]:
        """Return what a file may say of how it was prepared.

        Words, and numbers that can be; the rest is left out.
        """
        known: dict[str, object] = {}
        for key, value in info.items() if isinstance(info, Mapping) else ():
            numbers = value if isinstance(value, list | tuple) else [value]
            sound = all(isinstance(x, int | float) and math.isfinite(x) and x >= 0 for x in numbers)
            if (sound and (value or key not in _POSITIVE)) or (
                isinstance(value, str) and key not in _POSITIVE
            ):
                known[str(key)] = tuple(value) if isinstance(value, list) else value
        return known

    @classmethod
    def from_json(cls, content: object) -> Sketch | None:
        """Return the sketch of plain values.

        None where there is none, or one that cannot be read.
        """
        if not isinstance(content, Mapping):
            return None
        try:
            made = cls(int(content["joints"]), bool(content["prepared"]))
            made._hashes = np.frombuffer(base64.b64decode(content["hashes"]), dtype="<u8").astype(
                np.uint64
            )
            places = np.frombuffer(base64.b64decode(content["places"]), dtype=np.uint8)
            made._places = places.reshape(len(made._hashes), _width(made.joints))
            made.info = cls.about(content.get("info", {}))
            made.motion = MotionSketch.from_json(content.get("motion"))
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return None
        return made


def sketch_of(recording: AnyRecording) -> Sketch | None:
    """Return the sketch that `sketched` put into a recording's info; None where there is none."""
    found = recording.info.get(SKETCH)
    return found if isinstance(found, Sketch) else None


def sketched(recording: _Kind, joint_names: tuple[str, ...]) -> _Kind:
    """Return the recording with a sketch in its info: the one it has, or one of its samples.

    One on disk is sketched while it is read. `joint_names` is the robot's order, where the columns
    have those names.
    """
    if sketch_of(recording) is not None or "tau" not in recording.signals:
        return recording
    made = Sketch(recording.n, recording.prepared)
    ordered = (
        set(joint_names) == set(recording.joint_names) and recording.joint_names != joint_names
    )
    tap = Tap(made, joint_names if ordered else None)
    if isinstance(recording, Recording):
        for run in recording.runs:
            tap(run)
        made.motion = MotionSketch.of(recording.reordered(joint_names) if ordered else recording)
        return replace(recording, info={**recording.info, SKETCH: made})
    made.left = 2 * len(recording)  # one on disk may be read several times, parts of it first
    tapped: Any = replace(recording.changed(tap), info={**recording.info, SKETCH: made})
    return cast("_Kind", tapped)


class Tap:
    """Adds samples to a sketch as they are read, and hands them on.

    Where `collecting` goes on they are added to what it collects. Sent to another process it has a
    sketch of its own.
    """

    def __init__(self, sketch: Sketch, joint_names: tuple[str, ...] | None) -> None:
        self.sketch, self.joint_names = sketch, joint_names

    def __call__(self, tile: Recording) -> Recording:
        """Return the samples as they are."""
        others = collected()
        if others is not None or self.sketch.left > 0:
            target = self.sketch if others is None else others
            target.add(tile if self.joint_names is None else tile.reordered(self.joint_names))
            self.sketch.left -= len(tile)
        return tile

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent_tap, (self.sketch.joints, self.joint_names)


def _sent_tap(joints: int, joint_names: tuple[str, ...] | None) -> Tap:
    """Return a tap in another process: what it adds where nothing is collected is lost."""
    sketch = Sketch(joints)
    sketch.left = 0
    return Tap(sketch, joint_names)


_COLLECTED = threading.local()


@contextmanager
def collecting(sketch: Sketch | None) -> Iterator[None]:
    """Have taps of this thread add to a sketch of what is read meanwhile, which is added to this
    one at the end.

    Processes that read parts of a recording do the same; so the result does not depend on who reads
    what.
    """
    if sketch is None or sketch.left <= 0:
        yield
        return
    before = collected()
    _COLLECTED.sketch = sketch.like()
    try:
        yield
        sketch.merge(_COLLECTED.sketch)
    finally:
        _COLLECTED.sketch = before


def collected() -> Sketch | None:
    """Return the sketch that taps of this thread add to; None where nothing is collected."""
    found: Sketch | None = getattr(_COLLECTED, "sketch", None)
    return found


def joined_info(recordings: Sequence[AnyRecording]) -> Mapping[str, object]:
    """Return the info of recordings that become one.

    What all of them share, and the sketch of all.
    """
    plain = [without_sketch(part.info) for part in recordings]
    info = plain[0] if all(one == plain[0] for one in plain) else {}
    return info | info_of(sketch_of(part) for part in recordings)


def info_of(sketches: Iterable[Sketch | None]) -> dict[str, object]:
    """Return the info of a recording whose parts have these sketches: the one of all.

    None where a part has none.
    """
    parts = list(sketches)
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return {}
    whole = (
        known[0]
        if len(known) == 1
        else Sketch(known[0].joints, any(part.prepared for part in known), known)
    )
    shared = known[0].info if all(part.info == known[0].info for part in known) else {}
    return {**shared, SKETCH: whole}


def _smallest(parts: Iterable[tuple[_Hashes, _Places]]) -> tuple[_Hashes, _Places]:
    """Return the cells with the smallest hashes; of those in several parts, the first."""
    hashes, places = (np.concatenate(arrays) for arrays in zip(*parts))
    every, first = np.unique(hashes, return_index=True)
    return every[:SIZE], places[first[:SIZE]]


def _limit(hashes: _Hashes) -> int:
    """Return the hash above which none is kept."""
    return int(hashes[-1]) if len(hashes) == SIZE else int(np.iinfo(np.uint64).max)


def _width(joints: int) -> int:
    """Values of a row: positions, and torques of as many samples as make it telling."""
    return joints + joints * -(-_TORQUES // joints)


def _rows(recording: Recording) -> Iterator[Array]:
    """Yield rows of positions and torques (N, width), those that are numbers."""
    q, tau = recording.q, recording.tau
    following = _width(recording.n) // recording.n - 1
    if tau is None or len(q) < following:
        return
    for begin in range(0, len(q) - following + 1, _CHUNK):
        end = min(begin + _CHUNK, len(q) - following + 1)
        rows = np.hstack([q[begin:end], *(tau[begin + k : end + k] for k in range(following))])
        if not np.isfinite(rows.sum()):  # a sum is quick; the rest where it is odd
            rows = rows[np.isfinite(rows.sum(axis=1))]
        yield rows


def _hashes(cells: Array) -> _Hashes:
    """Return a hash of each row of cells (N,)."""
    odd = _mixed(np.arange(1, cells.shape[1] + 1, dtype=np.uint64)) | np.uint64(
        1
    )  # always the same
    return _mixed(np.asarray(cells.astype(np.int64).view(np.uint64) @ odd, dtype=np.uint64))


def _mixed(values: _Hashes) -> _Hashes:
    """Return well mixed bits (the finish of splitmix64)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
