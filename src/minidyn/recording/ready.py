"""A recording made ready for a computation: columns in the robot's order, numbers checked, prepared where it is raw.

The one way to do it, for recordings in memory and on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np

from minidyn.errors import DescriptionError, MinidynError, UnknownName, UnknownParameters
from minidyn.model.robot import Robot
from minidyn.notices import kind
from minidyn.recording.lazy import AnyRecording, LazyRecording, ReorderedRun, RunOnDisk
from minidyn.recording.prepare.on_disk import PreparedRun
from minidyn.recording.prepare.prepare import prepare
from minidyn.recording.read.read import read_recording
from minidyn.recording.recording import SIGNALS, Recording
from minidyn.recording.spool import spooled

DEFAULTS = kind(
    "prepare.defaults",
    "info",
    "A raw recording was filtered and differentiated with the settings that `prepare` chooses by itself.",
)

_Kind = TypeVar("_Kind", bound=AnyRecording)
_HEAD = 1 << 12  # samples that tell the rate


class _Needs(TypedDict, total=False):
    ddq: bool
    tau: bool
    preparation: Mapping[str, Any] | None
    every_sample: bool
    once: bool
    name: str
    progress: Callable[[int], None] | None


@overload
def ready(
    robot: Robot, recording: Recording, *, purpose: str, in_memory: bool = ..., **needs: Unpack[_Needs]
) -> Recording: ...
@overload
def ready(
    robot: Robot, recording: AnyRecording, *, purpose: str, in_memory: Literal[True], **needs: Unpack[_Needs]
) -> Recording: ...
@overload
def ready(
    robot: Robot, recording: AnyRecording, *, purpose: str, in_memory: bool = ..., **needs: Unpack[_Needs]
) -> AnyRecording: ...
def ready(
    robot: Robot,
    recording: AnyRecording,
    *,
    purpose: str,
    ddq: bool = True,
    tau: bool = True,
    in_memory: bool = False,
    preparation: Mapping[str, Any] | None = None,
    every_sample: bool = False,
    once: bool = False,
    name: str = "the recording",
    progress: Callable[[int], None] | None = None,
) -> AnyRecording:
    """Return the recording in the robot's joint order with q, dq, ddq and tau, every value a number.

    Args:
        robot: Whose recording it is.
        recording: Raw (it is prepared) or prepared, in memory or on disk.
        purpose: What it is for, for messages: "identification", "validation".
        ddq: Whether accelerations are needed; speeds always are.
        tau: Whether torques are needed.
        in_memory: Read a recording on disk into memory first: the result is that of the same recording in memory.
            Otherwise it stays on disk and its values are checked as they are read.
        preparation: `info` of an earlier preparation: a raw recording of the same sample rate gets the same cut-off,
            and the same delay is removed from its torques. None: as `prepare` does by default.
        every_sample: Keep every sample of a raw recording: nothing is trimmed or thinned.
        once: A recording on disk is read once only. Otherwise what is prepared as it is read is kept in a temporary
            file (q, dq, ddq and tau, no telemetry), so that several passes prepare it once.
        name: What messages call it: "recording 2".
        progress: Called with the number of samples written to the temporary file so far.

    Returns:
        A recording of the same kind, in memory where asked; its notices say what was done.

    Raises:
        MinidynError: It has another number of joints, or no torques.
        UnknownName: Some joints have the robot's names, one has not.
        UnknownParameters: A value is not a number; the message says which and when.
    """
    ordered = in_robot_order(robot, recording.load() if in_memory else recording, name=name)
    if tau and "tau" not in ordered.signals:
        raise MinidynError(f"{purpose} needs measured torques; {name} has none")
    made = ordered
    if "dq" not in ordered.signals or (ddq and "ddq" not in ordered.signals):
        made = _prepared(robot, ordered, preparation, every_sample)
    needed = [signal for signal in made.signals if signal in ("q", "dq") or (ddq if signal == "ddq" else tau)]
    if isinstance(made, Recording):
        _require_numbers(made, needed, "" if name == "the recording" else f"{name}: ")
        return made
    if not once and len(made.signals) == len(SIGNALS) and any(_as_it_is_read(run) for run, _, _ in made.parts):
        made = spooled(made, progress)
    return replace(made, parts=tuple((_CheckedRun(run, tuple(needed)), low, high) for run, low, high in made.parts))


def _as_it_is_read(run: RunOnDisk) -> bool:
    """Whether a run is prepared anew whenever it is read."""
    while isinstance(run, _CheckedRun | ReorderedRun):
        run = run.run
    return isinstance(run, PreparedRun)


def _prepared(
    robot: Robot, recording: AnyRecording, preparation: Mapping[str, Any] | None, every_sample: bool
) -> AnyRecording:
    wish: dict[str, Any] = {"decimate": 1, "trim": False} if every_sample else {}
    if preparation:
        cutoff, rate, delay = (float(preparation.get(key) or 0.0) for key in ("cutoff", "rate", "delay"))
        if delay:
            recording = recording.load()  # torques are moved in memory alone, as they were for the fit
        head = next(recording.tiles(_HEAD), None)
        step = float(np.median(np.diff(head.t))) if head is not None and len(head) > 1 else 0.0
        wish |= {"cutoff": cutoff if cutoff and abs(step * rate - 1) < 0.1 else None, "delay": delay}
    made = prepare(robot, recording, **wish)
    if wish:
        return made
    return replace(made, notices=(DEFAULTS("the recording was prepared with default settings"), *made.notices))


def in_robot_order(robot: Robot, recording: _Kind, *, name: str = "the recording") -> _Kind:
    """Return the recording with its columns in the robot's order; names of another kind are taken by position.

    Raises:
        MinidynError: It has another number of joints.
        UnknownName: Some joints have the robot's names, one has not.
    """
    names = recording.joint_names
    if recording.n != robot.n:
        raise MinidynError(
            f"{name} has {recording.n} joints ({', '.join(names[:8])}), robot {robot.name!r} has {robot.n} "
            f"({', '.join(robot.joint_names[:8])})"
        )
    if names == robot.joint_names or not set(names) & set(robot.joint_names):
        return recording
    wrong = [joint for joint in names if joint not in robot.joint_names]
    if wrong:  # some names fit, so the others are mistakes
        raise UnknownName(f"joint of robot {robot.name!r} in {name}:", wrong[0], robot.joint_names)
    return cast(_Kind, recording.reordered(robot.joint_names))


def _require_numbers(recording: Recording, signals: Sequence[str], where: str = "") -> None:
    for signal in signals:
        values = getattr(recording, signal)
        if np.isfinite(values.sum()) or np.all(np.isfinite(values)):  # a sum is quick; the rest where it is odd
            continue
        sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
        raise UnknownParameters(
            f"{where}{signal} of joint {recording.joint_names[joint]!r} is not a number at t = "
            f"{recording.t[sample]:.6g} s; cut the samples out (recording[a:b]) or mend the log"
        )


@dataclass(frozen=True)
class _CheckedRun:
    """A run on disk whose values are checked as they are read."""

    run: RunOnDisk
    signals: tuple[str, ...]

    @property
    def length(self) -> int:
        return self.run.length

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        for tile in self.run.tiles(samples, begin, end):
            _require_numbers(tile, self.signals)
            yield tile


def as_recording(value: object, robot: Robot | None = None) -> AnyRecording:
    """Return a recording, in memory or on disk, or the one that a path leads to.

    Args:
        value: A recording, or the path of a log (or several), which `read_recording` reads.
        robot: Whose joints the log should have.

    Raises:
        DescriptionError: Anything else; or the log cannot be read.
    """
    if isinstance(value, Recording | LazyRecording):
        return value
    if isinstance(value, str | os.PathLike):
        return read_recording(value, robot)
    if isinstance(value, list | tuple) and value and all(isinstance(part, str | os.PathLike) for part in value):
        return read_recording(value, robot)
    swapped = "; are robot and recording in the wrong order?" if isinstance(value, Robot) else ""
    raise DescriptionError(
        f"expected a recording (md.Recording, md.read_recording(...)) or the path of a log, got {_described(value)}"
        + swapped
    )


def _described(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 60 else f"a value of type {type(value).__name__}"
