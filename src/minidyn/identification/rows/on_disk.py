"""Recordings that stay on disk, made ready for identification and validation."""

from __future__ import annotations

from typing import Any

from minidyn.errors import MinidynError, UnknownName
from minidyn.identification.estimators.method import Method
from minidyn.identification.rows.samples import Progress
from minidyn.model.robot import Robot
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.prepare.prepare import prepare
from minidyn.recording.recording import Recording
from minidyn.recording.spool import SpooledRun, spooled


def ready_on_disk(
    robot: Robot, recording: LazyRecording, method: Method, notices: list[Any], progress: Progress | None
) -> LazyRecording | Recording:
    """Return a lazy recording in the robot's joint order with q, dq, ddq and tau.

    A raw one is prepared, and what is prepared as it is read is kept in a temporary file; a method that cannot read
    piece by piece gets it in memory.
    """
    ordered = in_robot_order(robot, recording)
    if "tau" not in ordered.signals:
        raise MinidynError("identification needs measured torques; the recording has none")
    raw = "dq" not in ordered.signals or ("ddq" not in ordered.signals and method.needs_acceleration)
    if raw:
        ordered = prepare(robot, ordered)
        notices.append("the recording was prepared with default settings, as told below")
    notices += list(ordered.notices)
    if len(ordered) <= method.streams_from and method.streams_from > 0:
        notices.append(f'method "{method.name}" reads the whole recording into memory ({len(ordered)} samples)')
        return ordered.load()
    if method.streams_from > 0:
        notices.append(
            f'method "{method.name}" reads {len(ordered)} samples piece by piece, filters start anew with each'
        )
        return ordered
    # what is prepared as it is read would be prepared again in every pass
    as_read = bool(ordered.info) and not all(isinstance(run, SpooledRun) for run, _, _ in ordered.parts)
    return spooled(ordered, progress) if as_read else ordered


def in_robot_order(robot: Robot, recording: LazyRecording) -> LazyRecording:
    """Return the recording with its joints in the robot's order, where its names allow."""
    names = recording.joint_names
    if recording.n != robot.n:
        raise MinidynError(
            f"the recording has {recording.n} joints ({', '.join(names[:8])}), robot {robot.name!r} has {robot.n} "
            f"({', '.join(robot.joint_names[:8])})"
        )
    if names == robot.joint_names or not set(names) & set(robot.joint_names):
        return recording  # names of another kind: taken by position
    wrong = [name for name in names if name not in robot.joint_names]
    if wrong:  # some names fit, so the others are mistakes
        raise UnknownName(f"joint of robot {robot.name!r} in the recording:", wrong[0], robot.joint_names)
    return recording.reordered(robot.joint_names)
