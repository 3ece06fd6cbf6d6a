"""Bags of joint states for tests, written by `rosbags`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

Message = tuple[float, Sequence[str], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Stamp, names, position, velocity, effort."""


def messages(t, names, q, dq, tau) -> list[Message]:
    return [(float(t[k]), list(names), q[k], dq[k], tau[k]) for k in range(len(t))]


@dataclass(frozen=True)
class Trajectory:
    """A JointTrajectory message; stamp 0: the header has none."""

    arrival: float
    names: Sequence[str]
    t: NDArray[np.float64]
    q: NDArray[np.float64]
    dq: NDArray[np.float64]
    ddq: NDArray[np.float64]
    tau: NDArray[np.float64]
    stamp: float = 0.0


def write_bag(
    path: Path,
    kind: str,
    topics: Mapping[str, Sequence[Message | Trajectory]],
    compressed: str = "",
) -> Path:
    """Write a bag ("db3", "mcap" or "bag") and return its folder, or its file for ROS 1.

    compressed: "bz2" or "lz4" in ROS 1; "file", "message" or, in MCAP, "storage" in ROS 2.
    """
    store = get_typestore(Stores.ROS1_NOETIC if kind == "bag" else Stores.LATEST)
    types = store.types
    State, Header = types["sensor_msgs/msg/JointState"], types["std_msgs/msg/Header"]
    Paths, Point = (types[f"trajectory_msgs/msg/JointTrajectory{end}"] for end in ("", "Point"))
    Time, Duration = (types[f"builtin_interfaces/msg/{name}"] for name in ("Time", "Duration"))

    def time(kind: Any, seconds: float) -> Any:
        nanoseconds = round(seconds * 1e9)
        return kind(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)

    def state(header: Any, row: Message) -> Any:
        values = (np.array(part, dtype=float, order="C") for part in row[2:])
        return State(header, list(row[1]), *values)

    def trajectory(header: Any, row: Trajectory) -> Any:
        signals = (row.q, row.dq, row.ddq, row.tau)
        points = [
            Point(*(np.array(part[k]) for part in signals), time(Duration, row.t[k]))
            for k in range(len(row.t))
        ]
        return Paths(header, list(row.names), points)

    plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
    writer = Writer1(path) if kind == "bag" else Writer2(path, version=9, storage_plugin=plugin)
    if compressed and isinstance(writer, Writer1):
        writer.set_compression(Writer1.CompressionFormat[compressed.upper()])
    elif compressed:
        writer.set_compression(CompressionMode[compressed.upper()], CompressionFormat.ZSTD)
    with writer:
        for topic, rows in topics.items():
            of_points = bool(rows) and isinstance(rows[0], Trajectory)
            msgtype = (Paths if of_points else State).__msgtype__
            connection = writer.add_connection(topic, msgtype, typestore=store)
            for number, row in enumerate(rows):
                extra = {"seq": number} if kind == "bag" else {}
                whole = isinstance(row, Trajectory)
                stamp = row.stamp if whole else row[0]
                header = Header(stamp=time(Time, stamp), frame_id="", **extra)
                value = trajectory(header, row) if whole else state(header, row)
                data = (
                    store.serialize_ros1(value, msgtype)
                    if kind == "bag"
                    else store.serialize_cdr(value, msgtype)
                )
                arrival = row.arrival if whole else row[0]
                writer.write(connection, round(arrival * 1e9) + 1000, data)
    return path
