"""ROS bags as tables.

sensor_msgs/JointState, or the points of trajectory_msgs/JointTrajectory, from rosbag2 (sqlite3,
MCAP, with or without metadata) and ROS 1 bags. A topic of geometry_msgs/WrenchStamped beside it is
interpolated to the times of the samples.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, UnknownName, optional
from minidyn.notices import Notice, info, warning
from minidyn.recording.read.guess import same_word
from minidyn.recording.read.places import other_logs, pattern_of
from minidyn.recording.read.tables import TIME_ORIGIN, TIME_SORTED, Columns, LogTable

OTHER_MESSAGES = info(
    "recording.other_messages",
    "Messages of the bag name other joints than most do; they were left out.",
    "Check whether joints dropped out, or whether several devices share the topic.",
)
ARRIVAL_TIMES = warning(
    "recording.arrival_times",
    "The headers of the messages have no stamps, so times are those at which messages arrived.",
    "Stamp messages where they are measured: times of arrival jitter.",
)
PARTLY_MISSING = info(
    "recording.partly_missing", "Some messages lack a signal; its values are NaN there."
)
TOPIC_CHOSEN = info(
    "recording.topic_chosen",
    "The bag has several topics of joint states; the one that suits the robot best was read.",
    "To read another: --topic in the shell, topic=... in Python.",
)
TRAJECTORY_POINTS = info(
    "recording.trajectory_points",
    "The samples are the points of JointTrajectory messages; each message is a run.",
    "Check that the points are measured values: many bags hold commands in such messages.",
)

_STATE = "sensor_msgs/msg/JointState"
_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
_FIELDS = {
    _STATE: {"q": "position", "dq": "velocity", "tau": "effort"},
    _TRAJECTORY: {
        "q": "positions",
        "dq": "velocities",
        "ddq": "accelerations",
        "tau": "effort",
    },
}
"""Types of messages that hold samples, and their field of each signal."""
_WRENCH = "geometry_msgs/msg/WrenchStamped"
_WRENCH_COLUMNS = tuple(f"telemetry.wrench.{k}" for k in range(6))
_CHUNK = (
    256 * 2**20
)  # bytes that a compressed chunk or message may hold; writers make chunks of about a megabyte
_DEFINITION = 100_000  # characters of a message definition in IDL; 15,000 take a second
_RATIO = 100  # a compressed file may hold this many times its size, and a chunk more


@dataclass(frozen=True, slots=True)
class _Sample:
    """One sample of a topic: a message of joint states, or a point of a trajectory."""

    stamp: int  # of the header, ns
    arrival: int  # ns
    message: int  # number of the message that holds it
    names: tuple[str, ...]  # of the joints
    signals: dict[str, Any]  # values of all joints by signal, without those that are empty

    def row(self, signals: Sequence[str]) -> Array:
        """Return the values of all signals in a row, NaN where the sample lacks one."""
        row = np.full((len(signals), len(self.names)), np.nan)
        for part, signal in zip(row, signals):
            if signal in self.signals:
                part[:] = self.signals[signal]
        return row.ravel()


class BagTable(LogTable):
    """One topic as a table with the columns t, q.JOINT, dq.JOINT, tau.JOINT.

    Messages that name other joints than most do (a gripper on the same topic, joints that dropped
    out) are left out and counted in a notice. Times are the headers' where they run, else those of
    arrival, from the first message on. Points of trajectories are at the time of their message
    plus time_from_start; each message is a run.
    """

    own = True  # exact names, seconds

    def __init__(self, path: Path, topic: str | None, joints: Sequence[str], keep: bool) -> None:
        self.path = path
        notices: list[Notice] = []
        self._topic, self._kind = self._choose(topic, joints, notices)
        self._signals = tuple(_FIELDS[self._kind])
        self.row = "point" if self._kind == _TRAJECTORY else "message"
        kept: dict[tuple[str, ...], list[Array]] = defaultdict(list)
        stamps: dict[tuple[str, ...], list[tuple[int, int, int]]] = defaultdict(list)
        present: dict[tuple[str, ...], set[frozenset[str]]] = defaultdict(set)
        for sample in self._samples():
            stamps[sample.names].append((sample.stamp, sample.arrival, sample.message))
            present[sample.names].add(frozenset(sample.signals))
            if keep:
                kept[sample.names].append(sample.row(self._signals))
        if not stamps:
            raise DescriptionError(f"{path}: no messages on topic {self._topic!r}")
        self.joint_names = self._main_group(
            {names: len(times) for names, times in stamps.items()}, joints, notices
        )
        times = np.array(stamps[self.joint_names], dtype=np.int64)
        by_arrival, clock = self._clock(times, notices)
        order = self._order(clock, keep, notices)
        clock = clock[order]
        origin = 0
        if clock[0] > 10**17:
            origin = int(clock[0])
            seconds = float(origin) * 1e-9
            notices.append(
                TIME_ORIGIN(
                    f"{path.name}: times count from {seconds:.6f} s", file=path.name, origin=seconds
                )
            )
        self._times, self._rows = (clock - origin).astype(float) * 1e-9, len(clock)
        self._name_columns(present[self.joint_names], by_arrival, notices)
        self._values = np.array(kept[self.joint_names])[order] if keep else None
        wrench = self._wrench(by_arrival, clock.astype(float) * 1e-9) if keep else None
        self._beside = {} if wrench is None else dict(zip(_WRENCH_COLUMNS, wrench.T))
        if np.ptp(times[:, 2]) > 0 and self._kind == _TRAJECTORY:
            self._beside["run"] = times[:, 2].astype(float)
        self.names = (*self.names, *self._beside)
        self.notices = tuple(notices)

    def _main_group(
        self,
        counts: dict[tuple[str, ...], int],
        joints: Sequence[str],
        notices: list[Notice],
    ) -> tuple[str, ...]:
        """Return the names of the samples that are read: most of the robot's joints, most samples.

        Others are counted in notices.
        """
        wanted, total = {same_word(joint) for joint in joints}, sum(counts.values())
        covers = {names: len(wanted & {same_word(name) for name in names}) for names in counts}
        main = max(counts, key=lambda names: (covers[names], counts[names], len(names)))
        for names, number in counts.items():
            if names == main:
                continue
            lost = [name for name in main if name not in names]
            what = f"lack {', '.join(lost)}" if lost else f"name {', '.join(names)}"
            text = f"{self.path.name}: {number} of {total} messages {what}; they are left out"
            about = {"file": self.path.name, "count": number, "of": total, "joints": list(names)}
            notices.append(OTHER_MESSAGES(text, **about))
        return main

    def _clock(self, times: Any, notices: list[Notice]) -> tuple[bool, Any]:
        """Return whether times (ns) are those of arrival, and the times."""
        stamps, arrivals = times[:, 0], times[:, 1]
        if self._kind == _TRAJECTORY:
            return False, stamps  # a header without a stamp means: from now on
        by_arrival = len(times) > 1 and (np.ptp(stamps) == 0 or bool(np.any(stamps == 0)))
        if by_arrival:
            name = self.path.name
            notices.append(
                ARRIVAL_TIMES(f"{name}: headers have no stamps; times are those of arrival")
            )
        return by_arrival, arrivals if by_arrival else stamps

    def _order(self, clock: Any, keep: bool, notices: list[Notice]) -> Any:
        """Return the order of the samples by time.

        Points keep the order of their messages, which are runs.
        """
        number = int(np.sum(np.diff(clock) < 0))
        if not number or self._kind == _TRAJECTORY:
            return slice(None)
        if not keep:
            raise DescriptionError(
                f"{self.path}: messages are not in the order of their stamps; read it with "
                "lazy=False"
            )
        name = self.path.name
        text = f"{name}: {number} messages are not in the order of their stamps; they are sorted"
        notices.append(TIME_SORTED(text, file=name, count=number))
        return np.argsort(clock, kind="stable")

    def _name_columns(
        self, present: set[frozenset[str]], by_arrival: bool, notices: list[Notice]
    ) -> None:
        """Name the columns of the signals that any sample has, as the fields are called."""
        name, fields = self.path.name, _FIELDS[self._kind]
        every = frozenset().union(*present)
        for signal in sorted(every - frozenset.intersection(*present)):
            text = f"{name}: some messages have no {fields[signal]}; NaN there"
            notices.append(PARTLY_MISSING(text, file=name, signal=signal))
        columns = {
            f"{signal}.{joint}": f"{field}[{joint}]"
            for signal, field in fields.items()
            if signal in every
            for joint in self.joint_names
        }
        self.names = ("t", *columns)
        clock = "arrival" if by_arrival else "header.stamp"
        if self._kind == _TRAJECTORY:
            clock += " + time_from_start"
            text = f"{name}: samples are the points of JointTrajectory messages ({self._topic})"
            notices.append(TRAJECTORY_POINTS(text, file=name, topic=self._topic))
        self.labels = {"topic": self._topic, "time": clock} | columns

    def _wrench(self, by_arrival: bool, times: Array) -> Array | None:
        """Return the forces and moments (N, 6) of the bag's first force sensor at given times.

        None: it has none.
        """
        with self._open() as reader:
            sensors = [item for item in reader.connections if item.msgtype == _WRENCH]
            stamps, values = [], []
            for connection, arrival, data in (
                reader.messages(connections=sensors[:1]) if sensors else ()
            ):
                message = reader.deserialize(data, connection.msgtype)
                stamp = message.header.stamp
                stamps.append(float(arrival if by_arrival else _nanoseconds(stamp)) * 1e-9)
                force, torque = message.wrench.force, message.wrench.torque
                values.append((force.x, force.y, force.z, torque.x, torque.y, torque.z))
        if len(stamps) < 2:
            return None
        place, rows = np.argsort(stamps, kind="stable"), np.array(values)
        t = np.array(stamps)[place]
        return np.column_stack(
            [np.interp(times, t, rows[place, k], left=np.nan, right=np.nan) for k in range(6)]
        )

    @contextmanager
    def _open(self) -> Iterator[Any]:
        optional("rosbags.highlevel")
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.rosbag1 import ReaderError as ReaderError1
        from rosbags.rosbag2 import ReaderError as ReaderError2
        from rosbags.serde import SerdeError
        from rosbags.typesys import Stores, get_typestore

        _bound_rosbags()
        path = self.path
        if path.is_dir() and not (path / "metadata.yaml").exists():
            inside = sorted([*path.glob("*.db3"), *path.glob("*.mcap"), *path.glob("*.bag")])
            if len(inside) != 1:
                found = ", ".join(file.name for file in inside) or "none"
                raise DescriptionError(
                    f"{path}: a folder is a bag (metadata.yaml, or one .db3, .mcap or .bag file; "
                    f"found {found}), a data set of LeRobot, or all Parquet files below it; give "
                    f"other logs by a pattern: '{pattern_of(path, other_logs(path))}'"
                )
            path = inside[0]
        stored = Stores.ROS1_NOETIC if path.suffix == ".bag" else Stores.LATEST
        try:
            with AnyReader([path], default_typestore=get_typestore(stored)) as reader:
                if not all(isinstance(item.topic, str) for item in reader.connections):
                    raise DescriptionError(
                        f"{self.path}: not a whole bag (a topic whose name is no text)"
                    )
                yield reader
        except (DescriptionError, UnknownName):
            raise
        except (
            *(
                AnyReaderError,
                ReaderError1,
                ReaderError2,
                SerdeError,
                sqlite3.Error,
                OSError,
                EOFError,
            ),
            *(
                ValueError,
                KeyError,
                IndexError,
                AssertionError,
                TypeError,
                struct.error,
                StopIteration,
                RuntimeError,
            ),
            *(
                MemoryError,
                OverflowError,
                AttributeError,
            ),  # a length that no file has, a message of other fields
            *(
                SyntaxError,
                NameError,
            ),  # of classes that rosbags writes from definitions: names of letters, quoted values
        ) as error:
            raise DescriptionError(
                f"{self.path}: not a whole bag ({error or type(error).__name__})"
            ) from None
        except Exception as error:  # decompressors and the sqlite binding have roots of their own
            if type(error).__module__.split(".")[0] not in (
                "apsw",
                "lz4",
                "zstd",
                "backports",
                "compression",
            ):
                raise
            raise DescriptionError(f"{self.path}: not a whole bag ({error})") from None

    def _choose(
        self, topic: str | None, joints: Sequence[str], notices: list[Notice]
    ) -> tuple[str, str]:
        """Return the topic that is read, and the type of its messages.

        Trajectories only where there are no joint states, or where they are asked for.
        """
        with self._open() as reader:
            kinds: dict[str, str] = {item.topic: item.msgtype for item in reader.connections}
            by_kind = {
                kind: [name for name, of_name in kinds.items() if of_name == kind]
                for kind in _FIELDS
            }
            fitting = [name for names in by_kind.values() for name in names]
            if topic is not None:
                if topic not in fitting:
                    what = " or ".join(_FIELDS)
                    raise UnknownName(
                        f"topic of {what} in {self.path.name}:", topic, fitting or kinds
                    )
                return topic, kinds[topic]
            if not fitting:
                present = [f"{name} ({kind})" for name, kind in list(kinds.items())[:6]]
                raise DescriptionError(
                    f"{self.path}: no topic of type {' or '.join(_FIELDS)}; found "
                    f"{', '.join(present) or 'none'}"
                )
            fitting = by_kind[_STATE] or by_kind[_TRAJECTORY]
            if len(fitting) == 1:
                return fitting[0], kinds[fitting[0]]
            wanted = {same_word(joint) for joint in joints}

            def suits(name: str) -> tuple[int, int, bool]:
                items = [item for item in reader.connections if item.topic == name]
                first = next(iter(reader.messages(connections=items)), None)
                if first is None:
                    return 0, 0, False
                message = reader.deserialize(first[2], first[0].msgtype)
                named = {same_word(joint) for joint in _joints_of(message, kinds[name])}
                return len(wanted & named), len(named), name.endswith("joint_states")

            fit = {name: suits(name) for name in fitting}
            best = max(fit, key=lambda name: fit[name])
            # a gripper's topic is no choice for an arm, and one that has all of its joints none for
            # anybody
            others = [
                name for name in fitting if name != best and (fit[name][0] or not fit[best][0])
            ]
            if others:
                text = f"{self.path.name}: topic {best} is read; also there: {', '.join(others)}"
                notices.append(TOPIC_CHOSEN(text, file=self.path.name, topic=best, others=others))
            return best, kinds[best]

    def _samples(self) -> Iterator[_Sample]:
        """Yield the samples of the topic in the order of the bag."""
        fields = _FIELDS[self._kind]
        with self._open() as reader:
            connections = [item for item in reader.connections if item.topic == self._topic]
            messages = enumerate(reader.messages(connections=connections))
            for number, (connection, arrival, data) in messages:
                message = reader.deserialize(data, connection.msgtype)
                names = _joints_of(message, self._kind)
                stamp = _nanoseconds(message.header.stamp)
                if self._kind == _STATE:
                    points = [(0, message)]
                else:
                    stamp = stamp or int(arrival)
                    points = [(_nanoseconds(item.time_from_start), item) for item in message.points]
                for later, point in points:
                    every = {signal: getattr(point, field) for signal, field in fields.items()}
                    signals = {
                        signal: values
                        for signal, values in every.items()
                        if len(values) == len(names)
                    }
                    times = stamp + later, int(arrival) + later
                    if max(map(abs, times)) >= 2**63:
                        raise DescriptionError(
                            f"{self.path}: not a whole bag (a message of {max(times)} ns)"
                        )
                    yield _Sample(*times, number, names, signals)

    def batches(
        self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[Columns]:
        """Yield the columns."""
        columns = [f"{signal}.{joint}" for signal in self._signals for joint in self.joint_names]
        where = {column: k for k, column in enumerate(columns)}
        low = begin
        for block in self._blocks(samples, begin, min(end, self._rows)):
            times = self._times[low : low + len(block)]
            beside = {name: values[low : low + len(block)] for name, values in self._beside.items()}
            yield {
                name: times
                if name == "t"
                else beside[name]
                if name in beside
                else block[:, where[name]]
                for name in names
            }
            low += len(block)

    def _blocks(self, samples: int, begin: int, stop: int) -> Iterator[Array]:
        if self._values is not None:
            for low in range(begin, stop, samples):
                yield self._values[low : min(low + samples, stop)]
            return
        fitting = (sample for sample in self._samples() if sample.names == self.joint_names)
        wanted = (sample.row(self._signals) for sample in islice(fitting, begin, stop))
        while held := list(islice(wanted, samples)):
            yield np.array(held)


def _joints_of(message: Any, kind: str) -> tuple[str, ...]:
    names = message.name if kind == _STATE else message.joint_names
    return tuple(str(name) for name in names)


def _nanoseconds(stamp: Any) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


@functools.cache
def _bound_rosbags() -> None:
    """Let rosbags take only so much.

    Few kilobytes may claim to hold gigabytes, and a short definition take days.
    """
    import bz2

    from lz4.frame import LZ4FrameDecompressor
    from rosbags.highlevel import anyreader
    from rosbags.rosbag1 import reader as first
    from rosbags.rosbag2 import reader, storage_mcap

    second: Any = reader
    zstd = second.zstd  # of Python or its backport, as the reader has it
    kinds: dict[str, Any] = {
        "bz2": bz2.BZ2Decompressor,
        "lz4": LZ4FrameDecompressor,
        "zstd": zstd.ZstdDecompressor,
    }
    opener: Any = anyreader
    opener.get_types_from_idl = functools.partial(_types_from_idl, opener.get_types_from_idl)
    for table in (first.decompressors, storage_mcap.DECOMPRESSORS):
        for name in kinds.keys() & table.keys():
            table[name] = functools.partial(_decompressed, kinds[name])
    second.zstd = SimpleNamespace(
        decompress=functools.partial(_decompressed, kinds["zstd"]),
        open=functools.partial(_BoundedFile, zstd.open),
    )


def _types_from_idl(parsed: Callable[[str], Any], text: str) -> Any:
    """Return the types of an IDL definition.

    Refuse where the parser takes a hundred times as long for each level.
    """
    bare = re.sub(
        r'"(?:\\.|[^"\\])*"|//[^\n]*|/[*](?:[^*]|[*](?!/))*[*]/', " ", text[: _DEFINITION + 1]
    )
    bare = re.sub(r"@\w+\s*\(", " ", bare)  # of annotations
    if len(text) > _DEFINITION or "(" in bare or re.search(r"sequence\s*<\s*sequence", bare):
        what = f"longer than {_DEFINITION} characters, with parentheses or sequences of sequences"
        raise ValueError(
            f"a message definition in IDL is {what}; write the bag with MSG definitions"
        )
    return parsed(text)


def _decompressed(kind: Callable[[], Any], data: bytes, claimed: int = 0) -> bytes:
    """Return all frames of compressed data, in all at most _CHUNK bytes.

    What a header claims decides nothing.
    """
    whole = b""
    while data:
        frame = kind()
        whole += frame.decompress(data, max_length=_CHUNK + 1 - len(whole))
        if len(whole) > _CHUNK:
            raise ValueError(
                f"a chunk holds more than {_CHUNK} bytes; write the bag with smaller chunks"
            )
        if not frame.eof:
            raise ValueError("a chunk ends too early")
        data = frame.unused_data or b""
    return whole


class _BoundedFile:
    """A compressed file that may hold _RATIO times its size and one chunk more."""

    def __init__(self, opened: Callable[[Any, str], Any], stream: Any, mode: str) -> None:
        self._left = _CHUNK + _RATIO * stream.seek(0, 2)
        stream.seek(0)
        self._file = opened(stream, mode)

    def __enter__(self) -> _BoundedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data: bytes = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(
                f"a compressed file holds more than {_RATIO} times its size; decompress it first"
            )
        return data
