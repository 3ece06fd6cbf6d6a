"""ROS bags as tables: sensor_msgs/JointState from rosbag2 (sqlite3, MCAP, with or without metadata) and ROS 1 bags.

A topic of geometry_msgs/WrenchStamped beside it is interpolated to the times of the joint states.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, UnknownName, optional
from minidyn.notices import Notice, look
from minidyn.recording.read.guess import same_word
from minidyn.recording.read.places import other_logs, pattern_of
from minidyn.recording.read.tables import TIME_ORIGIN, TIME_SORTED, Columns, LogTable

OTHER_MESSAGES = look(
    "recording.other_messages",
    "Messages of the bag name other joints than most do; they were left out.",
    "Check whether joints dropped out, or whether several devices share the topic.",
)
ARRIVAL_TIMES = look(
    "recording.arrival_times",
    "The headers of the messages have no stamps, so times are those at which messages arrived.",
    "Stamp messages where they are measured: times of arrival jitter.",
)
PARTLY_MISSING = look("recording.partly_missing", "Some messages lack a signal; its values are NaN there.")
TOPIC_CHOSEN = look(
    "recording.topic_chosen",
    "The bag has several topics of joint states; the one that suits the robot best was read.",
    "To read another: --topic in the shell, topic=... in Python.",
)

_TYPE = "sensor_msgs/msg/JointState"
_WRENCH = "geometry_msgs/msg/WrenchStamped"
_WRENCH_COLUMNS = tuple(f"telemetry.wrench.{k}" for k in range(6))
_FIELDS = (("q", "position"), ("dq", "velocity"), ("tau", "effort"))
_CHUNK = 256 * 2**20  # bytes that a compressed chunk or message may hold; writers make chunks of about a megabyte
_DEFINITION = 100_000  # characters of a message definition in IDL; 15,000 take a second
_RATIO = 100  # a compressed file may hold this many times its size, and a chunk more


class BagTable(LogTable):
    """One topic of joint states as a table with the columns t, q.JOINT, dq.JOINT, tau.JOINT.

    Messages that name other joints than most do (a gripper on the same topic, joints that dropped out) are left out
    and counted in a notice. Times are the headers' where they run, else those of arrival, from the first message on.
    """

    own = True  # exact names, seconds
    row = "message"

    def __init__(self, path: Path, topic: str | None, joints: Sequence[str], keep: bool) -> None:
        self.path = path
        notices: list[Notice] = []
        self._topic = self._choose(topic, joints, notices)
        groups: Counter[tuple[str, ...]] = Counter()
        stamps: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
        kept: dict[tuple[str, ...], list[Array]] = defaultdict(list)
        fields: dict[tuple[str, ...], list[set[str]]] = defaultdict(list)
        for stamp, arrival, message in self._messages():
            names = tuple(str(name) for name in message.name)
            present = {signal for signal, field in _FIELDS if len(getattr(message, field)) == len(names)}
            groups[names] += 1
            stamps[names].append((stamp, arrival))
            if present not in fields[names]:
                fields[names].append(present)
            if keep:
                kept[names].append(_row(message, len(names)))
        if not groups:
            raise DescriptionError(f"{path}: no messages on topic {self._topic!r}")
        wanted = {same_word(joint) for joint in joints}
        covers = {names: len(wanted & {same_word(name) for name in names}) for names in groups}
        self.joint_names = max(groups, key=lambda names: (covers[names], groups[names], len(names)))
        for names, number in groups.items():
            if names != self.joint_names:
                lost = [name for name in self.joint_names if name not in names]
                what = f"lack {', '.join(lost)}" if lost else f"name {', '.join(names)}"
                text = f"{path.name}: {number} of {groups.total()} messages {what}; they are left out"
                notices.append(
                    OTHER_MESSAGES(text, file=path.name, count=number, of=groups.total(), joints=list(names))
                )
        times = np.array(stamps[self.joint_names], dtype=np.int64)
        use = 0 if len(times) < 2 or (np.ptp(times[:, 0]) > 0 and not np.any(times[:, 0] == 0)) else 1
        if use:
            notices.append(ARRIVAL_TIMES(f"{path.name}: headers have no stamps; times are those of arrival"))
        chosen = times[:, use]
        order: Any = slice(None)
        if np.any(np.diff(chosen) < 0):
            if not keep:
                raise DescriptionError(
                    f"{path}: messages are not in the order of their stamps; read it with lazy=False"
                )
            order = np.argsort(chosen, kind="stable")
            number = int(np.sum(np.diff(chosen) < 0))
            text = f"{path.name}: {number} messages are not in the order of their stamps; they are sorted"
            notices.append(TIME_SORTED(text, file=path.name, count=number))
            chosen = chosen[order]
        if chosen[0] > 10**17:
            origin = float(chosen[0]) * 1e-9
            notices.append(TIME_ORIGIN(f"{path.name}: times count from {origin:.6f} s", file=path.name, origin=origin))
            chosen = chosen - chosen[0]
        self._times, self._rows = chosen.astype(float) * 1e-9, len(chosen)
        several = fields[self.joint_names]
        found = several[0].union(*several)
        for signal in sorted(found - several[0].intersection(*several)):
            text = f"{path.name}: some messages have no {dict(_FIELDS)[signal]}; NaN there"
            notices.append(PARTLY_MISSING(text, file=path.name, signal=signal))
        here = [(signal, field) for signal, field in _FIELDS if signal in found]
        columns = {f"{signal}.{name}": f"{field}[{name}]" for signal, field in here for name in self.joint_names}
        self.names = ("t", *columns)
        self.labels = {"topic": self._topic, "time": "arrival" if use else "header.stamp"} | columns
        self.notices = tuple(notices)
        self._values = np.array(kept[self.joint_names])[order] if keep else None
        wrench = self._wrench(use, times[:, use][order].astype(float) * 1e-9) if keep else None
        self._beside = {} if wrench is None else dict(zip(_WRENCH_COLUMNS, wrench.T))
        self.names = (*self.names, *self._beside)

    def _wrench(self, use: int, times: Array) -> Array | None:
        """Return the forces and moments (N, 6) of the bag's first force sensor at given times; None: it has none."""
        with self._open() as reader:
            sensors = [item for item in reader.connections if item.msgtype == _WRENCH]
            stamps, values = [], []
            for connection, arrival, data in reader.messages(connections=sensors[:1]) if sensors else ():
                message = reader.deserialize(data, connection.msgtype)
                stamp = message.header.stamp
                stamps.append(float(arrival if use else int(stamp.sec) * 10**9 + int(stamp.nanosec)) * 1e-9)
                force, torque = message.wrench.force, message.wrench.torque
                values.append((force.x, force.y, force.z, torque.x, torque.y, torque.z))
        if len(stamps) < 2:
            return None
        place, rows = np.argsort(stamps, kind="stable"), np.array(values)
        t = np.array(stamps)[place]
        return np.column_stack([np.interp(times, t, rows[place, k], left=np.nan, right=np.nan) for k in range(6)])

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
                    f"{path}: a folder is a bag (metadata.yaml, or one .db3, .mcap or .bag file; found {found}), a "
                    "data set of LeRobot, or all Parquet files below it; give other logs by a pattern: "
                    f"'{pattern_of(path, other_logs(path))}'"
                )
            path = inside[0]
        stored = Stores.ROS1_NOETIC if path.suffix == ".bag" else Stores.LATEST
        try:
            with AnyReader([path], default_typestore=get_typestore(stored)) as reader:
                if not all(isinstance(item.topic, str) for item in reader.connections):
                    raise DescriptionError(f"{self.path}: not a whole bag (a topic whose name is no text)")
                yield reader
        except (DescriptionError, UnknownName):
            raise
        except (
            *(AnyReaderError, ReaderError1, ReaderError2, SerdeError, sqlite3.Error, OSError, EOFError),
            *(ValueError, KeyError, IndexError, AssertionError, TypeError, struct.error, StopIteration, RuntimeError),
            *(MemoryError, OverflowError, AttributeError),  # a length that no file has, a message of other fields
            *(
                SyntaxError,
                NameError,
            ),  # of classes that rosbags writes from definitions: names of letters, quoted values
        ) as error:
            raise DescriptionError(f"{self.path}: not a whole bag ({error or type(error).__name__})") from None
        except Exception as error:  # decompressors and the sqlite binding have roots of their own
            if type(error).__module__.split(".")[0] not in ("apsw", "lz4", "zstd", "backports", "compression"):
                raise
            raise DescriptionError(f"{self.path}: not a whole bag ({error})") from None

    def _choose(self, topic: str | None, joints: Sequence[str], notices: list[Notice]) -> str:
        with self._open() as reader:
            topics: dict[str, str] = {item.topic: item.msgtype for item in reader.connections}
            fitting = [name for name, kind in topics.items() if kind == _TYPE]
            if topic is not None:
                if topic not in fitting:
                    raise UnknownName(f"topic of {_TYPE} in {self.path.name}:", topic, fitting or topics)
                return topic
            if not fitting:
                found = ", ".join(f"{name} ({kind})" for name, kind in list(topics.items())[:6]) or "none"
                raise DescriptionError(f"{self.path}: no topic of type {_TYPE}; found {found}")
            if len(fitting) == 1:
                return fitting[0]
            wanted = {same_word(joint) for joint in joints}

            def suits(name: str) -> tuple[int, int, bool]:
                items = [item for item in reader.connections if item.topic == name]
                first = next(iter(reader.messages(connections=items)), None)
                if first is None:
                    return 0, 0, False
                message = reader.deserialize(first[2], first[0].msgtype)
                named = {same_word(str(joint)) for joint in message.name}
                return len(wanted & named), len(named), name.endswith("joint_states")

            fit = {name: suits(name) for name in fitting}
            best = max(fit, key=lambda name: fit[name])
            # a gripper's topic is no choice for an arm, and one that has all of its joints none for anybody
            others = [name for name in fitting if name != best and (fit[name][0] or not fit[best][0])]
            if not others:
                return best
            text = f"{self.path.name}: topic {best} is read; also there: {', '.join(others)}"
            notices.append(TOPIC_CHOSEN(text, file=self.path.name, topic=best, others=others))
            return best

    def _messages(self) -> Iterator[tuple[int, int, Any]]:
        """Yield stamp of the header (ns), stamp of arrival (ns), message."""
        with self._open() as reader:
            connections = [item for item in reader.connections if item.topic == self._topic]
            for connection, arrival, data in reader.messages(connections=connections):
                message = reader.deserialize(data, connection.msgtype)
                stamp = message.header.stamp
                _ = (
                    tuple(message.name),
                    [len(getattr(message, field)) for _, field in _FIELDS],
                )  # bags may differ
                stamps = int(stamp.sec) * 10**9 + int(stamp.nanosec), int(arrival)
                if max(map(abs, stamps)) >= 2**63:
                    raise DescriptionError(f"{self.path}: not a whole bag (a message of {max(stamps)} ns)")
                yield *stamps, message

    def batches(self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize) -> Iterator[Columns]:
        """Yield the columns."""
        columns = [f"{signal}.{joint}" for signal, _ in _FIELDS for joint in self.joint_names]
        where = {column: k for k, column in enumerate(columns)}
        low = begin
        for block in self._blocks(samples, begin, min(end, self._rows)):
            times = self._times[low : low + len(block)]
            beside = {name: values[low : low + len(block)] for name, values in self._beside.items()}
            yield {
                name: times if name == "t" else beside[name] if name in beside else block[:, where[name]]
                for name in names
            }
            low += len(block)

    def _blocks(self, samples: int, begin: int, stop: int) -> Iterator[Array]:
        if self._values is not None:
            for low in range(begin, stop, samples):
                yield self._values[low : min(low + samples, stop)]
            return
        fitting = (message for _, _, message in self._messages() if tuple(message.name) == self.joint_names)
        wanted = (_row(message, len(self.joint_names)) for message in islice(fitting, begin, stop))
        while held := list(islice(wanted, samples)):
            yield np.array(held)


def _row(message: Any, n: int) -> Array:
    row = np.full((len(_FIELDS), n), np.nan)
    for part, (_, field) in zip(row, _FIELDS):
        if len(getattr(message, field)) == n:
            part[:] = getattr(message, field)
    return row.ravel()


@functools.cache
def _bound_rosbags() -> None:
    """Let rosbags take only so much: few kilobytes may claim to hold gigabytes, and a short definition take days."""
    import bz2

    from lz4.frame import LZ4FrameDecompressor
    from rosbags.highlevel import anyreader
    from rosbags.rosbag1 import reader as first
    from rosbags.rosbag2 import reader, storage_mcap

    second: Any = reader
    zstd = second.zstd  # of Python or its backport, as the reader has it
    kinds: dict[str, Any] = {"bz2": bz2.BZ2Decompressor, "lz4": LZ4FrameDecompressor, "zstd": zstd.ZstdDecompressor}
    opener: Any = anyreader
    opener.get_types_from_idl = functools.partial(_types_from_idl, opener.get_types_from_idl)
    for table in (first.decompressors, storage_mcap.DECOMPRESSORS):
        for name in kinds.keys() & table.keys():
            table[name] = functools.partial(_decompressed, kinds[name])
    second.zstd = SimpleNamespace(
        decompress=functools.partial(_decompressed, kinds["zstd"]), open=functools.partial(_BoundedFile, zstd.open)
    )


def _types_from_idl(parsed: Callable[[str], Any], text: str) -> Any:
    """Return the types of an IDL definition; refuse where the parser takes a hundred times as long for each level."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*|/[*](?:[^*]|[*](?!/))*[*]/', " ", text[: _DEFINITION + 1])
    bare = re.sub(r"@\w+\s*\(", " ", bare)  # of annotations
    if len(text) > _DEFINITION or "(" in bare or re.search(r"sequence\s*<\s*sequence", bare):
        what = f"longer than {_DEFINITION} characters, with parentheses or sequences of sequences"
        raise ValueError(f"a message definition in IDL is {what}; write the bag with MSG definitions")
    return parsed(text)


def _decompressed(kind: Callable[[], Any], data: bytes, claimed: int = 0) -> bytes:
    """Return all frames of compressed data, in all at most _CHUNK bytes; what a header claims decides nothing."""
    whole = b""
    while data:
        frame = kind()
        whole += frame.decompress(data, max_length=_CHUNK + 1 - len(whole))
        if len(whole) > _CHUNK:
            raise ValueError(f"a chunk holds more than {_CHUNK} bytes; write the bag with smaller chunks")
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
            raise ValueError(f"a compressed file holds more than {_RATIO} times its size; decompress it first")
        return data
