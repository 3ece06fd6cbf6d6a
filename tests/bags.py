"""Bags of joint states for tests, written by `rosbags`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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


def write_bag(path: Path, kind: str, topics: dict[str, list[Message]], compressed: str = "") -> Path:
    """Write a bag ("db3", "mcap" or "bag") and return its folder, or its file for ROS 1.

    compressed: "bz2" or "lz4" in ROS 1; "file", "message" or, in MCAP, "storage" in ROS 2.
    """
    store = get_typestore(Stores.ROS1_NOETIC if kind == "bag" else Stores.LATEST)
    types = store.types
    State, Header = types["sensor_msgs/msg/JointState"], types["std_msgs/msg/Header"]
    Time = types["builtin_interfaces/msg/Time"]
    plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
    writer = Writer1(path) if kind == "bag" else Writer2(path, version=9, storage_plugin=plugin)
    if compressed and isinstance(writer, Writer1):
        writer.set_compression(Writer1.CompressionFormat[compressed.upper()])
    elif compressed:
        writer.set_compression(CompressionMode[compressed.upper()], CompressionFormat.ZSTD)
    with writer:
        for topic, rows in topics.items():
            connection = writer.add_connection(topic, State.__msgtype__, typestore=store)
            for number, (t, names, q, dq, tau) in enumerate(rows):
                nanoseconds = round(t * 1e9)
                stamp = Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
                extra = {"seq": number} if kind == "bag" else {}
                header = Header(stamp=stamp, frame_id="", **extra)
                value = State(header, list(names), *(np.array(part, dtype=float, order="C") for part in (q, dq, tau)))
                data = (
                    store.serialize_ros1(value, State.__msgtype__)
                    if kind == "bag"
                    else store.serialize_cdr(value, State.__msgtype__)
                )
                writer.write(connection, nanoseconds + 1000, data)
    return path
