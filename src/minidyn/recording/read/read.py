"""Reading logs: `read_recording`, the one door to every format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.model.robot import Robot
from minidyn.notices import Notice, kind
from minidyn.recording.lazy import LazyRecording, concatenate
from minidyn.recording.read.bind import guessed_signals
from minidyn.recording.read.inspect_signals import StepCheck, inspect_values
from minidyn.recording.read.mapping import SignalMap
from minidyn.recording.read.source import Source, SourceRun, bound
from minidyn.recording.read.table import TIME_SORTED, JoinedTable, Table
from minidyn.recording.read.tables import open_table
from minidyn.recording.recording import SIGNALS, Recording

ONE_RUN = kind(
    "recording.one_run",
    "info",
    "Files that hold different signals of the same samples were read as one run.",
    "Give together=False where they are runs of their own.",
)
SIGNAL_MISSING = kind(
    "recording.signal_missing",
    "look",
    "One of several files lacks a signal, so it was left out of all of them.",
    "Read the files apart, or name the columns of {signal}.",
)
TIME_RESTARTS = kind("recording.time_restarts", "look", "Time begins anew within a file; a new run begins there.")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@overload
def read_recording(
    paths: Paths,
    robot: Robot | None = ...,
    lazy: Literal[False] = ...,
    *,
    mapping: str | os.PathLike[str] | None = ...,
    **options: Any,
) -> Recording: ...
@overload
def read_recording(
    paths: Paths,
    robot: Robot | None = ...,
    *,
    lazy: Literal[True],
    mapping: str | os.PathLike[str] | None = ...,
    **options: Any,
) -> LazyRecording: ...
def read_recording(
    paths: Paths,
    robot: Robot | None = None,
    lazy: bool = False,
    *,
    mapping: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Recording | LazyRecording:
    """Read logs: CSV, Parquet, NPZ, rosbag2 (folder, .db3, .mcap) or ROS 1 bags of sensor_msgs/JointState.

    Several files are several runs; where each holds other signals of the same samples they are one run. Columns are
    guessed from their names; every guess, and everything odd in the data, stands in the recording's `notices`. Values
    are never resampled, mended or converted unless an option says so.

    Args:
        paths: One file or several.
        robot: Gives names and order of the joints, and limits that units are checked against; joints of the file that
            it does not have are left out.
        lazy: Leave the samples on disk; the result hands them out as `tiles`.
        mapping: A TOML file with options.
        **options: See `SignalMap`: time, time_unit, rate, q, dq, ddq, tau, joints,
            units, offset, sign, gear_ratio, coupling, torque_coupling, drive_gain, motor_side, header, delimiter,
            topic, run, together.

    Returns:
        Recording, or LazyRecording where `lazy`.

    Raises:
        DescriptionError: A file is missing, empty, broken or cut off; there is neither time nor rate; a joint has no
            columns. The message names the file and what to do.
    """
    given = SignalMap.of(options, None if mapping is None else Path(mapping))
    files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    if not files:
        raise DescriptionError("read_recording: expected at least one file, got none")
    joints = robot.joint_names if robot else ()
    tables: list[Table] = [open_table(file, given, joints, keep=not lazy) for file in files]
    notices: list[Notice] = []
    if len(tables) > 1 and _belong_together(tables, given, robot):
        names = [table.path.name for table in tables]
        notices.append(ONE_RUN(f"{', '.join(names)}: read as one run, side by side", files=names))
        tables = [JoinedTable(tables)]
    sources = [bound(table, given, robot) for table in tables]
    for source in sources[1:]:
        if source.binding.joints != sources[0].binding.joints:
            raise DescriptionError(
                f"{source.table.path}: joints {', '.join(source.binding.joints)}; {sources[0].table.path.name} has "
                f"{', '.join(sources[0].binding.joints)}"
            )
    if lazy:
        return _on_disk(sources, notices)
    read = [_in_memory(source, robot) for source in sources]
    for signal in SIGNALS:
        without = [source.table.path.name for source, part in zip(sources, read) if getattr(part, signal) is None]
        if without and len(without) < len(read):
            text = f"{signal} is missing in {', '.join(without)}, so it is left out of all runs"
            notices.append(SIGNAL_MISSING(text, signal=signal, files=without))
    whole = read[0] if len(read) == 1 else concatenate(read)
    return replace(whole, notices=tuple(dict.fromkeys((*notices, *whole.notices))))


def are_one_run(paths: Sequence[str | os.PathLike[str]], robot: Robot, mapping: str | None = None) -> bool:
    """Return whether files hold different signals of the same samples: `read_recording` makes one run of them."""
    if len(paths) < 2:
        return False
    given = SignalMap.of({}, mapping)
    return _belong_together(
        [open_table(Path(path), given, robot.joint_names, keep=False) for path in paths], given, robot
    )


def _belong_together(tables: Sequence[Table], given: SignalMap, robot: Robot | None) -> bool:
    if given.together is not None:
        return given.together
    if given.q is not None and given.tau is not None:
        return False
    held = [guessed_signals(table, given, robot) for table in tables]
    if not all(held) or sum(len(signals) for signals in held) != len(set().union(*held)):
        return False
    return "q" in set().union(*held)


def _in_memory(source: Source, robot: Robot | None) -> Recording:
    pieces = list(source.pieces(1 << 30))
    path = source.table.path
    if not pieces:
        raise DescriptionError(f"{path}: no samples; the file has no rows")
    times = np.concatenate([piece.t for piece in pieces])
    runs = [piece.run for piece in pieces if piece.run is not None]
    starts, order, found = _runs(times, np.concatenate(runs) if runs else None, path.name)

    def whole(parts: Sequence[Array]) -> Array:
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return joined if order is None else joined[order]

    signals: dict[str, Any] = {
        signal: whole([piece.signals[signal] for piece in pieces]) if signal in pieces[0].signals else None
        for signal in SIGNALS
    }
    recording = Recording(
        whole([piece.t for piece in pieces]),
        **signals,
        joint_names=source.binding.joints,
        starts=starts,
        telemetry={name: whole([piece.telemetry[name] for piece in pieces]) for name in pieces[0].telemetry},
    )
    if not source.rate:
        check = StepCheck()
        for run in recording.runs:
            check.add(run.t)
            check.new_run()
        found += check.notices(path.name)
    found += inspect_values(recording, robot, source.table.place, path.name)
    return replace(recording, notices=tuple(dict.fromkeys((*source.notices, *found))))


def _runs(times: Array, run: Array | None, name: str) -> tuple[list[int], NDArray[np.intp] | None, list[Notice]]:
    """Return where runs begin, the order of the samples (None: as they are), and notices.

    Time that falls back to its beginning starts a run; samples that are merely out of order are sorted.
    """
    starts = [0] if run is None else [0, *(np.flatnonzero(np.diff(run)) + 1).tolist()]
    notices = []
    restarts = [
        int(row) + 1
        for row in np.flatnonzero(np.diff(times) < 0)
        if int(row) + 1 not in starts and _restarts(times, starts, int(row) + 1)
    ]
    if restarts:
        text = f"{name}: time begins anew {len(restarts)} times; each time a new run begins"
        notices.append(TIME_RESTARTS(text, file=name, count=len(restarts)))
        starts = sorted({*starts, *restarts})
    order = np.arange(len(times))
    moved = 0
    for begin, end in zip(starts, (*starts[1:], len(times))):
        back = int(np.sum(np.diff(times[begin:end]) < 0))
        if back:
            moved += back
            order[begin:end] = begin + np.argsort(times[begin:end], kind="stable")
    if moved:
        text = f"{name}: time runs backwards {moved} times; these samples are sorted by time"
        notices.append(TIME_SORTED(text, file=name, count=moved))
    return starts, order if moved else None, notices


def _restarts(times: Array, starts: Sequence[int], row: int) -> bool:
    begin = max(start for start in starts if start < row)
    return bool(times[row] <= times[begin] + 0.1 * (times[row - 1] - times[begin]))


def _on_disk(sources: Sequence[Source], notices: Sequence[Notice]) -> LazyRecording:
    """Return the logs as runs on disk: one pass over their times finds lengths, runs and gaps."""
    parts: list[tuple[SourceRun, int, int]] = []
    found = list(notices)
    for source in sources:
        starts, rows, texts = _scan(source)
        found += [*source.notices, *texts]
        for begin, end in zip(starts, (*starts[1:], rows)):
            parts.append((SourceRun(source, begin, end - begin), 0, end - begin))
    signals = [name for name in SIGNALS if all(name in source.binding.signals for source in sources)]
    return LazyRecording(sources[0].binding.joints, tuple(signals), tuple(dict.fromkeys(found)), tuple(parts))


def _scan(source: Source) -> tuple[list[int], int, list[Notice]]:
    binding, path = source.binding, source.table.path
    names = [*binding.time, *([binding.run] if binding.run else [])]
    if not names:
        rows = source.table.count()
        if not rows:
            raise DescriptionError(f"{path}: no samples; the file has no rows")
        return [0], rows, []
    check, starts, rows = StepCheck(), [0], 0
    first, last, last_run = 0.0, 0.0, 0.0
    for columns in source.table.batches(names, 1 << 16, 0, None):
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
                    f"{path}: {source.table.place(rows + row)}: time runs backwards; lazy=False sorts it"
                )
            cuts.append(row)
            first = float(times[row])
        for low, high in zip((0, *cuts), (*cuts, size)):
            if low in cuts:
                check.new_run()
            check.add(times[low:high])
        starts += [rows + row for row in cuts]
        rows, last, last_run = rows + size, float(times[-1]), float(run[-1])
    if not rows:
        raise DescriptionError(f"{path}: no samples; the file has no rows")
    return starts, rows, [] if source.rate else check.notices(path.name)
