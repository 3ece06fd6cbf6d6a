"""A table whose columns are understood: pieces of a recording in SI units, joint side, as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.model.robot import Robot
from minidyn.notices import Notice, kind
from minidyn.recording.read.bind import Binding, bind
from minidyn.recording.read.mapping import Conversion, SignalMap, conversion
from minidyn.recording.read.table import TIME_ORIGIN, Columns, Table
from minidyn.recording.recording import SIGNALS, Recording

TIME_COLUMN = kind("recording.time_column", "info", "Which column was read as time, and in which unit.")
TIME_UNIT_GUESSED = kind(
    "recording.time_unit_guessed",
    "look",
    "The name of the time column states no unit; it was guessed from the spacing of the times.",
    "Where {unit} is wrong, give time_unit.",
)
RATE_GIVEN = kind("recording.rate_given", "info", "Times were made from the given rate.")

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Piece:
    """Consecutive samples: times (N,), run numbers (N,) or None, signals (N, n), telemetry (N, k)."""

    t: Array
    run: Array | None
    signals: Mapping[str, Array]
    telemetry: Mapping[str, Array]


@dataclass(frozen=True)
class Source:
    """A table with its binding and conversion.

    Attributes:
        table: The log.
        binding: Which column is what.
        convert: To SI and to the joint side.
        rate: Samples per second where time is not a column; 0 where it is.
        factor: Seconds per unit of the time column.
        origin: Subtracted from the time column, in its unit.
        notices: What was guessed and found so far.
    """

    table: Table
    binding: Binding
    convert: Conversion
    rate: float
    factor: float
    origin: float
    notices: tuple[Notice, ...]

    def pieces(self, samples: int, begin: int = 0, end: int | None = None) -> Iterator[Piece]:
        """Yield the samples from `begin` to `end`, at most so many at a time."""
        row = begin
        for columns in self.table.batches(self.binding.columns, samples, begin, end):
            rows = len(columns[self.binding.signals["q"][0]])
            yield Piece(
                self.times(columns, row, rows),
                columns[self.binding.run] if self.binding.run else None,
                {
                    signal: self.convert.apply(signal, np.column_stack([columns[name] for name in names]))
                    for signal, names in self.binding.signals.items()
                },
                {
                    label: np.column_stack([columns[name] for name in names])
                    for label, names in self.binding.telemetry.items()
                },
            )
            row += rows

    def times(self, columns: Columns, row: int, rows: int) -> Array:
        """Return the times (N,) of a batch that begins at a row, s.

        Raises:
            DescriptionError: A time that is no number.
        """
        if self.rate:
            return (row + np.arange(rows)) / self.rate
        first = columns[self.binding.time[0]]
        values = (first - self.origin) * self.factor
        if len(self.binding.time) == 2:
            values = values + columns[self.binding.time[1]] * 1e-9
        if not np.all(np.isfinite(values)):
            bad = row + int(np.argmin(np.isfinite(values)))
            raise DescriptionError(f"{self.table.path}: {self.table.place(bad)}: the time is no number")
        return values


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


def bound(table: Table, given: SignalMap, robot: Robot | None) -> Source:
    """Return a table with its columns understood; the first rows settle the unit of time."""
    binding = bind(table, given, robot)
    notices, name = [*table.notices, *binding.notices], table.path.name
    stated = replace(given, units=dict(binding.units)) if binding.units else given
    convert = conversion(stated, binding.joints, robot)
    made = Source(table, binding, convert, given.rate or 0.0, 1.0, 0.0, ())
    if given.rate is None:
        first = next(table.batches(binding.time, 1 << 16, 0, 1 << 16), None)
        if first is None:
            raise DescriptionError(f"{table.path}: no samples; the file has no rows")
        values = first[binding.time[0]]
        unit = binding.time_unit or ("s" if len(binding.time) == 2 else _unit_of(values))
        if not binding.time_unit:
            text = f"{name}: time = {binding.time[0]}, taken as {unit} from its spacing"
            notices.append(TIME_UNIT_GUESSED(text, file=name, column=binding.time[0], unit=unit))
        elif not table.own:
            text = f"{name}: time = {', '.join(binding.time)} ({unit})"
            notices.append(TIME_COLUMN(text, file=name, columns=list(binding.time), unit=unit))
        origin = float(values[0]) if abs(values[0]) * _SECONDS[unit] > 1e8 else 0.0
        if origin:
            start = origin * _SECONDS[unit]
            notices.append(TIME_ORIGIN(f"{name}: times count from {start:.6f} s", file=name, origin=start))
        made = replace(made, factor=_SECONDS[unit], origin=origin)
    else:
        notices.append(RATE_GIVEN(f"{name}: {given.rate:g} samples a second, as given", file=name, rate=given.rate))
    signals = {name: binding.signals[name] for name in SIGNALS if name in binding.signals}
    return replace(made, notices=tuple(notices), binding=replace(binding, signals=signals))


def _unit_of(values: Array) -> str:
    """Return the unit in which these times make sense: of an epoch by size, else of a rate from 10 Hz to 20 kHz."""
    steps = np.diff(values)
    steps = steps[steps > 0]
    if not len(steps):
        return "s"
    for limit, unit in ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, "s")):
        if abs(values[0]) > limit:
            return unit
    step = float(np.median(steps))
    return "s" if step <= 0.1 else "ms" if step <= 100 else "us" if step <= 1e5 else "ns"
