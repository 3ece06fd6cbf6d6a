"""Reading logs: `read_recording`, the one door to every format, in memory or left on disk."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import numpy as np

from minidyn.arrays import Array, given_away, side_by_side
from minidyn.errors import (
    DescriptionError,
    MinidynError,
    MissingFile,
    UnknownName,
    WorkerFailed,
    reading,
)
from minidyn.formats.load import RobotLike, as_robot
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import (
    LEFT_OUT,
    ON_ERROR,
    AnyRecording,
    LazyRecording,
    concatenate,
)
from minidyn.recording.prepare.unwrap import UNWRAPPED, continuous
from minidyn.recording.read.bag import BagTable
from minidyn.recording.read.bind import Binding, bind, guessed_signals
from minidyn.recording.read.csv import CsvTable
from minidyn.recording.read.inspect_signals import StepCheck, inspect_values, runs_of
from minidyn.recording.read.left_on_disk import Scan, on_disk, scan
from minidyn.recording.read.lerobot import LeRobotTable, is_lerobot
from minidyn.recording.read.mapping import (
    SECONDS,
    Conversion,
    SignalMap,
    SignalOptions,
    conversion,
    mapped_coupling,
    mapped_gains,
    mapped_locks,
    with_own_mapping,
)
from minidyn.recording.read.mat import mat_table
from minidyn.recording.read.parquet import ParquetTable, alike
from minidyn.recording.read.places import files_of, is_remote, unreached, unread
from minidyn.recording.read.tables import (
    TIME_ORIGIN,
    Columns,
    JoinedTable,
    LogTable,
    NpzTable,
    StoredTable,
)
from minidyn.recording.recording import LARGEST, SIGNALS, Recording
from minidyn.recording.sketch import info_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

ONE_RUN = info(
    "recording.one_run",
    "Files that hold different signals of the same samples were read as one run.",
    "Give together=False where they are runs of their own.",
)
SIGNAL_MISSING = info(
    "recording.signal_missing",
    "One of several files lacks a signal, so it was left out of all of them.",
    "Read the files apart, or name the columns of {signal}.",
)
TIME_COLUMN = info("recording.time_column", "Which column was read as time, and in which unit.")
TIME_UNIT_GUESSED = info(
    "recording.time_unit_guessed",
    "The name of the time column states no unit; it was guessed from the spacing of the times.",
    "Where {unit} is wrong, give the unit: --time-unit in the shell, time_unit in Python.",
)
RATE_GIVEN = info("recording.rate_given", "Times were made from the given rate.")
LOCKED_MOVES = warning(
    "recording.locked_moves",
    "A joint is locked, and the log has it at other positions.",
    "Identify with the joint locked where it stood (--lock NAME=VALUE), or leave the lock away "
    "where it moved.",
)

_AWAY = (
    0.05  # rad or m that a joint may be from where it is locked: a little bends the model little
)

T = TypeVar("T")
_BAGS = (".bag", ".db3", ".mcap")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class _Reading(SignalOptions, total=False):
    mapping: str | os.PathLike[str] | None
    on_error: str
    executor: Executor | None


@overload
def read_recording(
    paths: Paths,
    robot: RobotLike | None = ...,
    lazy: Literal[False] = ...,
    **options: Unpack[_Reading],
) -> Recording: ...
@overload
def read_recording(
    paths: Paths, robot: RobotLike | None = ..., *, lazy: Literal[True], **options: Unpack[_Reading]
) -> LazyRecording: ...
def read_recording(
    paths: Paths,
    robot: RobotLike | None = None,
    lazy: bool = False,
    *,
    mapping: str | os.PathLike[str] | None = None,
    on_error: str = "stop",
    executor: Executor | None = None,
    **options: Unpack[SignalOptions],
) -> Recording | LazyRecording:
    """Read logs: CSV, Parquet, NPZ, HDF5, Zarr, MATLAB files (.mat), ROS bags (JointState,
    JointTrajectory), data sets of LeRobot.

    Several files are several runs; where each holds other signals of the same samples they are one
    run. Columns are guessed from their names; every guess, and everything odd in the data, stands
    in the recording's `notices`. Values are never resampled, mended or converted unless an option
    says so.

    Args:
        paths: One or several: files, patterns (runs/*.csv), folders of Parquet files, addresses
            (s3://, https://). A log may name a mapping of its own, "B.csv:map.toml", whose options
            count before `mapping`.
        robot: A robot, its name or path: gives names and order of the joints, and limits that units
            are checked against; joints of the file that it does not have are left out, and joints
            of the robot that the file does not have are locked (a notice says where).
        lazy: Leave the samples on disk; the result hands them out as `tiles`.
        mapping: A TOML file with options.
        on_error: "stop", or "skip": of several files, those that cannot be read are left out, and a
            notice names them.
        executor: Any of concurrent.futures, whose workers open logs that stay on disk
            (docs/clusters.md).
        **options: How columns are understood, by keyword; each is explained at `SignalOptions`:
            time, time_unit, rate, q, dq, ddq, use_ddq, tau, joints, units, offset, sign,
            gear_ratio, coupling, torque_coupling, drive_gain, drive_gain_covariance,
            currents_as_torque, known_torque, wrench, command, motor_side, header, delimiter, topic,
            run, together, lock, keep_joints.

    Returns:
        Recording, or LazyRecording where `lazy`.

    Raises:
        DescriptionError: A file is missing, empty, broken or cut off; there is neither time nor
            rate; a joint has no columns. The message names the file and what to do.
    """
    robot = None if robot is None else as_robot(robot)
    groups = by_mapping([paths] if isinstance(paths, str | os.PathLike) else paths, mapping)
    if len(groups) > 1 or (groups and groups[0][1] != mapping):
        more: Any = {**options, "on_error": on_error, "executor": executor, "lazy": lazy}
        read: list[AnyRecording] = [
            read_recording(logs, robot, mapping=own, **more) for logs, own in groups
        ]
        return concatenate(read)
    given = SignalMap.of(options, None if mapping is None else Path(mapping))
    files = log_files(paths, on_error)
    # telemetry stays with recordings in memory alone
    lazy = lazy and given.known_torque is None and given.wrench is None and given.command is None
    if on_error not in ON_ERROR:
        raise UnknownName("on_error", on_error, ON_ERROR)
    if not files:
        raise DescriptionError("read_recording: expected at least one file, got none")
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    told = unread(listed) if any(map(os.path.isdir, listed)) else ()
    if robot is not None:
        before, robot = robot, mapped_locks(given, robot)
        told = (*told, *robot.notices[len(before.notices) :])
    with reading(", ".join(map(str, files))):
        found = _read(files, robot, given, lazy, on_error, executor)
    return replace(found, notices=(*found.notices, *told)) if told else found


def by_mapping(
    paths: Iterable[str | os.PathLike[str]], mapping: str | os.PathLike[str] | None = None
) -> list[tuple[list[str | os.PathLike[str]], str | os.PathLike[str] | None]]:
    """Return logs that follow each other by the mapping file that they have in common.

    Theirs is the one that they name ("B.csv:map.toml"), else `mapping`.
    """
    groups: list[tuple[list[str | os.PathLike[str]], str | os.PathLike[str] | None]] = []
    for path in paths:
        log, own = with_own_mapping(path) if isinstance(path, str) else (path, None)
        used = mapping if own is None else own
        if groups and groups[-1][1] == used:
            groups[-1][0].append(log)
        else:
            groups.append(([log], used))
    return groups


def log_files(paths: Paths, on_error: str = "stop") -> list[Path]:
    """Return the files of paths, of which some may be patterns, folders or addresses.

    With on_error "skip" a pattern of no file, or an address that does not answer, stays to be left
    out by who opens it.
    """
    found: list[Path] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        text = os.fspath(path)
        plain = "://" not in text and {"*", "?", "["}.isdisjoint(text) and not os.path.isdir(text)
        try:
            found += [Path(path)] if plain else files_of(path)
        except DescriptionError as error:
            if on_error == "stop" or not (is_remote(text) or isinstance(error, MissingFile)):
                raise
            found.append(unreached(text))
    return found


def tried(
    paths: Iterable[object], act: Callable[[int], T], on_error: str, notices: list[Notice]
) -> list[T]:
    """Return what is made of each file.

    With on_error "skip" those that cannot be read are left out.
    """
    made, failures = [], list[MinidynError]()
    for number, path in enumerate(paths):
        try:
            with reading(path):
                made.append(act(number))
        except (DescriptionError, WorkerFailed) as error:
            if on_error == "stop":
                raise
            failures.append(error)
            notices.append(LEFT_OUT(f"left out: {error}", files=str(path)))
    if failures and not made:
        raise failures[0]
    return made


def _read(
    files: list[Path],
    robot: Robot | None,
    given: SignalMap,
    lazy: bool,
    on_error: str,
    executor: Executor | None,
) -> Recording | LazyRecording:
    notices: list[Notice] = []
    scanned: dict[Path, tuple[_Source, Scan]] = {}
    if lazy and executor is not None and len(files) > 1:
        from minidyn.recording.engine import of_each  # only where it is asked for

        made = of_each(executor, partial(_scanned, given, robot), files)
        scanned = {file: found for file, found in zip(files, made) if found is not None}

    def table_of(number: int) -> LogTable:
        file = files[number]
        return (
            scanned[file][0].table
            if file in scanned
            else _open_table(file, given, robot, keep=not lazy)
        )

    tables = tried(files, table_of, on_error, notices)
    if len(tables) > 1 and _belong_together(tables, given, robot):
        names = [table.path.name for table in tables]
        notices.append(ONE_RUN(f"{', '.join(names)}: read as one run, side by side", files=names))
        tables, scanned = [JoinedTable(tables)], {}
    opened = [table.path for table in tables]

    def source_of(number: int) -> _Source:
        file = opened[number]
        return scanned[file][0] if file in scanned else _bound(tables[number], given, robot)

    sources = tried(opened, source_of, on_error, notices)
    opened = [source.table.path for source in sources]
    for source in sources[1:]:
        if source.binding.joints != sources[0].binding.joints:
            raise DescriptionError(
                f"{source.table.path}: joints {', '.join(source.binding.joints)}; "
                f"{sources[0].table.path.name} has {', '.join(sources[0].binding.joints)}"
            )
    notices += mapped_coupling(given, sources[0].binding.joints)
    notices += mapped_gains(given, sources[0].binding.joints)
    if lazy:

        def scan_of(number: int) -> tuple[_Source, Scan]:
            file = opened[number]
            return scanned[file] if file in scanned else (sources[number], scan(sources[number]))

        return on_disk(tried(opened, scan_of, on_error, notices), notices)
    read = tried(opened, lambda k: _in_memory(sources[k], robot), on_error, notices)
    for signal in SIGNALS:
        without = [
            source.table.path.name
            for source, part in zip(sources, read)
            if getattr(part, signal) is None
        ]
        if without and len(without) < len(read):
            text = f"{signal} is missing in {', '.join(without)}, so it is left out of all runs"
            notices.append(SIGNAL_MISSING(text, signal=signal, files=without))
    whole = read[0] if len(read) == 1 else concatenate(read)
    return replace(whole, notices=tuple(dict.fromkeys((*notices, *whole.notices))))


def _scanned(given: SignalMap, robot: Robot | None, file: Path) -> tuple[_Source, Scan]:
    """Open a log that stays on disk, understand its columns and read its times.

    What a worker does.
    """
    source = _bound(_open_table(file, given, robot, keep=False), given, robot)
    return replace(source, binding=alike(source.binding), convert=alike(source.convert)), scan(
        source
    )


@dataclass(frozen=True)
class ReadColumns:
    """The columns of one log, and what is read from them.

    Attributes:
        names: Of the columns that can hold numbers.
        time: The time column, or (seconds, nanoseconds); () where there is none.
        signals: For each signal that is there, the column of each joint; "" where it has none.
        problem: Why the log cannot be read so; "" where it can.
    """

    names: tuple[str, ...]
    time: tuple[str, ...] = ()
    signals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problem: str = ""


def read_columns(
    path: str | os.PathLike[str], robot: Robot | None, given: SignalMap
) -> ReadColumns:
    """Return what the columns of a log would be read as, without reading it whole.

    A log whose columns are not understood is no error: `problem` says what is missing.
    """
    table = _open_table(Path(path), given, robot, keep=False)
    try:
        binding = _bound(table, given, robot).binding
    except MinidynError as error:
        return ReadColumns(tuple(table.names), problem=str(error))
    signals = {
        name: dict(zip(binding.joints, columns)) for name, columns in binding.signals.items()
    }
    return ReadColumns(tuple(table.names), binding.time, signals)


def are_one_run(
    paths: Sequence[str | os.PathLike[str]],
    robot: Robot,
    reading: Mapping[str, Any] = MappingProxyType({}),
    on_error: str = "stop",
) -> bool:
    """Return whether `read_recording` with these options makes one run of files.

    Each holds other signals.
    """
    if len(paths) < 2:
        return False
    options = dict(reading)
    given = SignalMap.of(options, options.pop("mapping", None))
    robot = mapped_locks(given, robot)
    files = log_files(paths, on_error)
    tables = tried(
        files, lambda number: _open_table(files[number], given, robot, keep=False), on_error, []
    )
    return len(tables) > 1 and _belong_together(tables, given, robot)


def _belong_together(tables: Sequence[LogTable], given: SignalMap, robot: Robot | None) -> bool:
    if given.together is not None:
        return bool(given.together)
    if given.q is not None and given.tau is not None:
        return False
    every: set[str] = set()
    for table in tables:
        held = guessed_signals(table, given, robot)
        if not held or held & every:
            return False
        every |= held
    return "q" in every


def _in_memory(source: _Source, robot: Robot | None) -> Recording:
    path, binding = source.table.path, source.binding
    columns = source.table.whole(binding.columns)
    times = source.times(columns, 0, len(columns[binding.signals["q"][0]]))
    starts, order, found = runs_of(times, columns.get(binding.run), path.name)
    if order is not None:
        columns = {name: values[order] for name, values in columns.items()}
    found += _unwrap(columns, source, starts, robot)
    recording = source.recording(columns, starts=starts)
    if not source.rate:
        check = StepCheck()
        for run in recording.runs:
            check.add(run.t)
            check.new_run()
        found += check.notices(path.name)
    found += inspect_values(recording, robot, source.table.place, path.name)
    notices = tuple(dict.fromkeys((*source.notices, *found)))
    return replace(recording, notices=notices, info=info_of([source.table.sketch]))


def _unwrap(
    columns: Columns, source: _Source, starts: Sequence[int], robot: Robot | None
) -> list[Notice]:
    """Make positions continuous where they are measured, on the motor side where it is there.

    Say which.
    """
    names, joints, convert = source.binding.signals["q"], source.binding.joints, source.convert
    scaled = side_by_side([columns[name] for name in names]) * convert.scale["q"]
    made, jumping, turned = continuous(scaled, starts, convert.turn_bounds(joints, robot))
    columns.update({names[k]: made[:, k] / convert.scale["q"][k] for k in {*jumping, *turned}})
    path, found = source.table.path.name, [joints[k] for k in jumping]
    text = f"{path}: positions of {', '.join(found)} jump by 2π: they are unwrapped"
    back = [joints[k] for k in turned]
    text += (
        f", and {', '.join(back)} turned back by whole turns, to within the limits" if back else ""
    )
    return [UNWRAPPED(text, file=path, joints=found, turned=back)] if found else []


def _open_table(path: Path, given: SignalMap, robot: Robot | None, keep: bool) -> LogTable:
    """Open a log; the ending chooses the format, a folder is a rosbag2, whose messages stay in
    memory where `keep`.
    """
    if not path.exists():
        raise MissingFile(f"{path}: no such file")
    suffix = _BAGS[0] if path.is_dir() and path.suffix != ".zarr" else path.suffix.lower()
    if suffix not in READERS:
        known = ", ".join(READERS)
        raise DescriptionError(
            f"{path}: the name ends with {suffix!r}; a recording ends with one of {known}"
        )
    if suffix not in (".npz", ".zarr", *_BAGS) and not path.stat().st_size:
        raise DescriptionError(f"{path}: no samples; the file is empty")
    return READERS[suffix](path, given, robot.joint_names if robot else (), keep)


def _parquet(path: Path) -> LogTable:
    table = ParquetTable(path)
    return LeRobotTable(path) if is_lerobot(table.names) else table


READERS: Mapping[str, Callable[[Path, SignalMap, Sequence[str], bool], LogTable]] = (
    MappingProxyType(
        dict.fromkeys(
            (".csv", ".txt", ".tsv", ".dat", ".log"),
            lambda path, given, *_: CsvTable(path, given.header, given.delimiter),
        )
        | dict.fromkeys((".parquet", ".pq"), lambda path, *_: _parquet(path))
        | dict.fromkeys((".h5", ".hdf5", ".zarr"), lambda path, *_: StoredTable(path))
        | {".npz": lambda path, *_: NpzTable(path), ".mat": lambda path, *_: mat_table(path)}
        | dict.fromkeys(
            _BAGS, lambda path, given, joints, keep: BagTable(path, given.topic, joints, keep)
        )
    )
)
"""What opens a log, by the ending of its name.

A new format is a class like CsvTable in a file of its own, and a line here."""


@dataclass(frozen=True)
class _Source:
    """A table with its binding and conversion."""

    table: LogTable
    binding: Binding
    convert: Conversion  # to SI and to the joint side
    rate: float  # samples per second where time is not a column; 0 where it is
    factor: float = 1.0  # seconds per unit of the time column
    origin: float = 0.0  # subtracted from the time column, in its unit
    notices: tuple[Notice, ...] = ()  # what was guessed and found so far

    def recording(self, columns: Columns, row: int = 0, starts: Sequence[int] = (0,)) -> Recording:
        """Return the samples of columns that begin at a row of the table."""

        def gathered(groups: Mapping[str, Sequence[str]], instead: float) -> dict[str, Array]:
            missing = np.full(len(next(iter(columns.values()))), instead)
            return {
                key: side_by_side([columns[name] if name else missing for name in names])
                for key, names in groups.items()
            }

        raw = gathered(self.binding.signals, math.nan)
        values: dict[str, Any] = {"tau": None} | {
            name: self.convert.apply(name, raw[name]) for name in raw
        }
        t, more = self.times(columns, row, len(values["q"])), gathered(self.binding.telemetry, 0.0)
        about: dict[str, Any] = {
            "starts": starts,
            "telemetry": more,
            "prepared": self.table.prepared,
        }
        fresh: dict[str, Any] = {
            name: None if array is None else given_away(array) for name, array in values.items()
        }
        return Recording(t, **fresh, joint_names=self.binding.joints, **about)

    def times(self, columns: Columns, row: int, rows: int) -> Array:
        """Return the times (N,) of a batch that begins at a row, s.

        One that is no number, or that no clock has, is an error.
        """
        if self.rate:
            return (row + np.arange(rows)) / self.rate
        values = (columns[self.binding.time[0]] - self.origin) * self.factor
        if len(self.binding.time) == 2:
            values = values + columns[self.binding.time[1]] * 1e-9
        possible = np.abs(values) <= LARGEST["t"]
        if not np.all(possible):
            bad = int(np.argmin(possible))
            fault = (
                f"a time of {values[bad]:.6g} s, which no clock has; correct or remove the row"
                if np.isfinite(values[bad])
                else "the time is no number"
            )
            raise DescriptionError(
                f"{self.table.path}: {self.table.place(row + bad)}: {fault}, or give rate=HZ "
                "(--rate)"
            )
        return values


def opened(path: Path, given: SignalMap, robot: Robot | None = None) -> LogTable:
    """Return a log as a table, its columns not understood yet."""
    return _open_table(path, given, robot, keep=False)


def understood(
    table: LogTable, given: SignalMap, robot: Robot | None = None
) -> tuple[Binding, str]:
    """Return how a log's columns are understood, and the unit of its time; "": it has none."""
    source = _bound(table, given, robot)
    units = {factor: unit for unit, factor in SECONDS.items()}
    return source.binding, units[source.factor] if source.binding.time else ""


def _bound(table: LogTable, given: SignalMap, robot: Robot | None) -> _Source:
    """Return a table with its columns understood; the first rows settle the unit of time."""
    binding = bind(table, given, robot)
    notices, name = [*table.notices, *binding.notices], table.path.name
    in_units = SignalMap(**vars(given) | {"units": binding.units}) if binding.units else given
    convert = conversion(in_units, binding.joints, robot)
    made = _Source(table, binding, convert, given.rate or 0.0)
    if robot is not None:
        notices += _locked_elsewhere(made, robot)
    first = next(table.batches(binding.time or binding.signals["q"][:1], 1 << 16, 0, 1 << 16), None)
    if first is None:
        raise DescriptionError(f"{table.path}: no samples; the file has no rows")
    if given.rate is None and not binding.time:
        raise DescriptionError(
            f"{table.path}: no time column; name it (time=COLUMN), or give rate=HZ (--rate)"
        )
    if given.rate is None:
        values = first[binding.time[0]]
        values = values[np.isfinite(values)]
        if not len(values):
            raise DescriptionError(
                f"{table.path}: column {binding.time[0]!r}: no time is a number; name the time "
                "column (time=COLUMN), or give rate=HZ (--rate)"
            )
        stated = (
            "" if table.own and not given.time_unit and _not_seconds(values) else binding.time_unit
        )
        unit = stated or ("s" if len(binding.time) == 2 else _unit_of(values))
        if not stated:
            text = f"{name}: time = {binding.time[0]}, taken as {unit} from its spacing"
            notices.append(TIME_UNIT_GUESSED(text, file=name, column=binding.time[0], unit=unit))
        elif not table.own:
            text = f"{name}: time = {', '.join(binding.time)} ({unit})"
            notices.append(TIME_COLUMN(text, file=name, columns=list(binding.time), unit=unit))
        origin = float(values[0]) if abs(values[0]) * SECONDS[unit] > 1e8 else 0.0
        if origin:
            start = origin * SECONDS[unit]
            notices.append(
                TIME_ORIGIN(f"{name}: times count from {start:.6f} s", file=name, origin=start)
            )
        made = replace(made, factor=SECONDS[unit], origin=origin)
    else:
        notices.append(
            RATE_GIVEN(
                f"{name}: {given.rate:g} samples a second, as given", file=name, rate=given.rate
            )
        )
    return replace(made, notices=tuple(notices))


def _locked_elsewhere(source: _Source, robot: Robot) -> list[Notice]:
    """Return a notice for each locked joint that the first rows have at other positions.

    Nothing where joints have units or gears of their own: those of a locked one are not known.
    """
    scale, columns = source.convert.scale["q"], source.binding.locked
    if not columns or np.any(scale != scale[0]) or source.convert.motion is not None:
        return []
    first = next(source.table.batches(tuple(columns.values()), 1 << 16, 0, 1 << 16), None)
    if first is None:
        return []
    found = []
    for joint, column in columns.items():
        values, place = scale[0] * first[column], robot.locked_joints[joint]
        values = values[np.isfinite(values)]
        if not len(values) or float(np.abs(values - place).max()) <= _AWAY:
            continue
        low, high = float(values.min()), float(values.max())
        text = (
            f"{source.table.path.name}: joint {joint!r} is locked at {place:.4g}, and the log has "
            f"it from {low:.4g} to {high:.4g} (rad or m)"
        )
        found.append(LOCKED_MOVES(text, joint=joint, position=place, lowest=low, highest=high))
    return found


def _not_seconds(values: Array) -> bool:
    """Return whether times cannot be the seconds that a column named like ours would have.

    An epoch beyond the year 5000, or samples further apart than those of any motion; single poses
    may be seconds apart.
    """
    if abs(values[0]) > 1e11:
        return True
    steps = np.diff(values)
    step = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 0.0
    return step > 100 or (step > 0.5 and len(values) >= 1000)


def _unit_of(values: Array) -> str:
    """Return the unit in which these times make sense.

    Of an epoch by size, else of a rate from 10 Hz to 20 kHz.
    """
    steps = np.diff(values)
    steps = steps[steps > 0]
    if not len(steps):
        return "s"
    for size, limits in (
        (abs(values[0]), (1e17, 1e14, 1e11, 1e8)),
        (np.median(steps), (1e5, 100, 0.1, 0)),
    ):
        for limit, unit in zip(limits, ("ns", "us", "ms", "s")):
            if size > limit:
                return unit
    return "s"
