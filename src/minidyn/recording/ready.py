"""A recording made ready for a computation.

Columns in the robot's order, numbers checked, prepared where it is raw. The one way to do it, for
recordings in memory and on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from minidyn import errors
from minidyn.arrays import Array
from minidyn.base.numeric.samples import units_of
from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.model.lock import not_logged, says_locked, with_locked
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info
from minidyn.recording.lazy import AnyRecording, LazyRecording, held
from minidyn.recording.measured import UNMEASURED, with_measured_torques
from minidyn.recording.prepare.cutoff import as_fitted, settled
from minidyn.recording.prepare.late import late, moved_torques
from minidyn.recording.prepare.on_disk import as_it_is_read, mostly_held, prepare_on_disk
from minidyn.recording.prepare.periods import averaged
from minidyn.recording.prepare.preparation import Preparation, PreparationOptions, Processing
from minidyn.recording.prepare.process import facts, process, recording_of
from minidyn.recording.prepare.segments import SHORTEST, Segment, even_stretches
from minidyn.recording.prepare.signals import moving_part
from minidyn.recording.prepare.spool import spooled
from minidyn.recording.prepare.times import logged_rate, nothing_left, samples_left, told_as_asked
from minidyn.recording.read.mapping import COUPLED
from minidyn.recording.read.read import read_recording
from minidyn.recording.recording import SIGNALS, Recording
from minidyn.recording.sketch import info_of, sketch_of, sketched

if TYPE_CHECKING:
    from concurrent.futures import Executor

_SAME = 1e-3  # rad, or share of the robot's size: positions of one pose differ by less
_HELD = 5  # samples: what is held for fewer is a motion, where speeds are not recorded
_MOST = 0.95  # share of a log that must be held
_TILE = 1 << 14  # samples that are searched for poses at once

RecordingLike = AnyRecording | str | os.PathLike[str]
"""A recording, in memory or on disk, or the path of a log: what every door function takes."""

DELAY = info("prepare.delay", "Torques were moved in time by the delay that was given.")
TOO_SHORT = info(
    "prepare.too_short",
    "Pieces of the recording are too short to be filtered and were left out.",
    "Record longer runs, or check why the log is in pieces.",
)
SPIKES = info(
    "prepare.spikes",
    "Single wild values, and short holes, were replaced by the line between their neighbours.",
    "Many of them point to a loose cable or a broken sensor.",
)
DEFAULTS = info(
    "prepare.defaults",
    "A raw recording was filtered and differentiated with the settings that `prepare` chooses by "
    "itself.",
)

_Kind = TypeVar("_Kind", bound=AnyRecording)


@errors.shows_options(Preparation)
def prepare(
    robot: RobotLike,
    recording: _Kind | str | os.PathLike[str],
    cutoff: float | None = Preparation.cutoff,
    *,
    executor: Executor | None = None,
    on_error: str = "stop",
    **options: Unpack[PreparationOptions],
) -> _Kind:
    """Return a recording with q, dq and ddq filtered and differentiated without delay, and tau
    filtered alike.

    Run by run: spikes and short holes are bridged, gaps cut a run in two, positions and torques
    pass the same zero-phase low-pass, speeds and accelerations are differences of the filtered
    positions (where these are clearly noisier, speeds are those of the log), the ends that the
    filter spoils and standstill before and after the motion are cut off, and the rest is thinned to
    ten samples per period of the cut-off. What was done stands in `notices`, and as numbers in
    `info`.

    Args:
        robot: Whose recording it is: a robot, its name or path.
        recording: As read, or its path; a lazy one stays on disk and is prepared tile by tile (its
            standstill is kept).
        cutoff: Cut-off of the low-pass, Hz; None: 10 Hz, lower where accelerations are noisy.
        executor: As for `md.identify`; its workers read what is prepared later, too.
        on_error: As for `md.identify`.
        **options: Those of preparation in :class:`minidyn.Settings`, `order` to `delay`.

    Returns:
        A recording; telemetry "tau_raw" is the measured torque at the same instants, "outlier"
        marks bridged samples (N,), and with `period` "tau_std" is the spread of the torque over the
        periods.

    Raises:
        DescriptionError: Times are too uneven, or no run is long enough.
        ShapeError: An option that makes no sense.
    """
    errors.require_options(Preparation, options)
    asked = Preparation(cutoff=cutoff, **options)
    robot = as_robot(robot)
    raw = as_recording(recording, robot, executor=executor, on_error=on_error)
    robot = with_logged_joints(robot, raw)
    if not set(robot.joint_names) <= set(raw.joint_names) and raw.n != robot.n:
        raise ShapeError(f"the recording has {raw.n} joints, robot {robot.name!r} has {robot.n}")
    same = raw.joint_names == robot.joint_names or not set(raw.joint_names) & set(robot.joint_names)
    raw = with_measured_torques(robot, raw) if same else raw
    wish = Processing.of(asked)
    raw = told_as_asked(sketched(raw, robot.joint_names), asked.time)
    made: AnyRecording
    if isinstance(raw, LazyRecording):
        if asked.delay:
            raise errors.Unsupported(
                "delay= needs the whole recording: prepare(robot, recording.load(), delay=...)"
            )
        on_disk = prepare_on_disk(raw, wish)
        made = on_disk if on_disk is not None else held(_in_memory(raw.load(), wish, asked.delay))
    else:
        made = _in_memory(raw, wish, asked.delay)
    about = {name: raw.info[name] for name in (UNMEASURED,) if name in raw.info}
    return cast(_Kind, replace(made, info={**made.info, **about, **info_of([sketch_of(raw)])}))


def _in_memory(recording: Recording, wish: Processing, delay: float | None) -> Recording:
    notices = [DELAY(f"torques are moved by {1e3 * delay:.4g} ms", delay=delay)] if delay else []
    parts = [part for run in recording.runs for part in even_stretches(run, wish, notices)]
    whole = [part for part in parts if len(part.q) >= SHORTEST]
    if len(whole) < len(parts):
        short = [len(part.q) for part in parts if len(part.q) < SHORTEST]
        text = (
            f"{len(short)} pieces shorter than {SHORTEST} samples are left out "
            f"({sum(short)} samples)"
        )
        notices.append(TOO_SHORT(text, count=len(short), samples=sum(short)))
    if not whole:
        raise nothing_left(len(recording), SHORTEST)
    if wish.period is not None:
        whole = [averaged(part, wish.period, notices) for part in whole]
    settings, band = settled(whole, wish, notices)
    made, marked = [], 0
    for part in whole:
        arrays = process(part, settings)
        begin, end = _kept(arrays["dq"], part, settings)
        if delay and "tau" in arrays:
            arrays, first, last = late(arrays, delay, part.periodic)
            begin, end = max(begin, first), min(end, last)
        if end - begin >= SHORTEST:
            keep = slice(begin, end, settings.every(part.rate))
            marked += int(arrays["outlier"].sum())
            made.append({name: values[keep] for name, values in arrays.items()})
    dropped = len(whole) - len(made)
    if dropped:
        text = (
            f"{dropped} pieces are too short for a filter of {settings.cutoff:.4g} Hz and are "
            "left out"
        )
        notices.append(TOO_SHORT(text, count=dropped, cutoff=settings.cutoff))
    if not made:
        raise DescriptionError(
            f"no run is longer than the ends that a filter of {settings.cutoff:.4g} Hz spoils; "
            "give a higher cutoff or trim=False"
        )
    used = sum(len(arrays["t"]) for arrays in made)
    notices.append(samples_left(used, len(recording), settings.every(whole[0].rate), notices))
    if marked:
        text = (
            f"spikes or holes (telemetry outliers) are bridged: {marked} "
            f"sample{'s' if marked > 1 else ''}"
        )
        notices.append(SPIKES(text, count=marked))
    logged = logged_rate(recording)
    info = facts(settings, band, whole, used, logged) | (
        {} if delay is None else {"delay": float(delay)}
    )
    joined = {name: np.concatenate([arrays[name] for arrays in made]) for name in made[0]}
    starts = np.cumsum([0, *(len(arrays["t"]) for arrays in made[:-1])]).tolist()
    known = tuple(dict.fromkeys((*recording.notices, *notices)))
    return recording_of(joined, recording.joint_names, starts=starts, notices=known, info=info)


def _kept(dq: Array, part: Segment, settings: Processing) -> tuple[int, int]:
    if not settings.trim or part.periodic:
        return 0, len(dq)
    margin = settings.margin(part.rate)
    begin, end = moving_part(dq, part.rate)
    return max(begin, margin), min(end, len(dq) - margin)


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
    robot: Robot,
    recording: Recording,
    *,
    purpose: str,
    in_memory: bool = ...,
    **needs: Unpack[_Needs],
) -> Recording: ...
@overload
def ready(
    robot: Robot,
    recording: AnyRecording,
    *,
    purpose: str,
    in_memory: Literal[True],
    **needs: Unpack[_Needs],
) -> Recording: ...
@overload
def ready(
    robot: Robot,
    recording: AnyRecording,
    *,
    purpose: str,
    in_memory: bool = ...,
    **needs: Unpack[_Needs],
) -> AnyRecording: ...
def ready(  # noqa: PLR0913 - what a computation needs, each by its name
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
    """Return the recording in the robot's joint order with q, dq, ddq and tau.

    Every value a number. It may be raw or prepared, in memory or on disk, and stays where it is:
    values on disk are checked as they are read. A recording that is not prepared is, unless it has
    dq and ddq (it was built with them, or read with `use_ddq`): then they are used as they are. Its
    notices say what was done.

    Args:
        robot: Whose recording it is.
        recording: The recording.
        purpose: What it is for, for messages: "identification", "validation".
        ddq: Whether accelerations are needed; speeds always are.
        tau: Whether torques are needed.
        in_memory: Read a recording on disk into memory first: the result is that of the same
            recording in memory.
        preparation: `info` of an earlier preparation: a raw recording of the same sample rate gets
            the same cut-off, and the same delay is removed from its torques. None: as `prepare`
            does by default.
        every_sample: Keep every sample of a raw recording: nothing is trimmed or thinned.
        once: A recording on disk is read once only. Otherwise what is prepared as it is read is
            kept in a temporary file (q, dq, ddq and tau, no telemetry), so that several passes
            prepare it once.
        name: What messages call it: "recording 2".
        progress: Called with the number of samples written to the temporary file so far.
    """
    ordered = in_robot_order(robot, recording.load() if in_memory else recording, name=name)
    if tau and "tau" not in ordered.signals:
        told = [
            one
            for one in ordered.notices
            if one.code == "recording.no_torques" and one.data["columns"]
        ]
        why = "".join(f" ({one.text}. {one.advice})" for one in told)
        raise MinidynError(f"{purpose} needs measured torques; {name} has none{why}")
    made = ordered = with_measured_torques(robot, ordered) if tau else ordered
    delay = float((preparation or {}).get("delay") or 0.0)
    if delay and tau and isinstance(made, Recording) and made.prepared and "delay" not in made.info:
        made = moved_torques(made, delay)
    lacking = {"dq", "ddq"} - set(ordered.signals)
    if lacking if ddq or not ordered.prepared else "dq" in lacking:
        made = _prepared(robot, ordered, preparation, every_sample)
    needed = [
        signal
        for signal in made.signals
        if signal in ("q", "dq") or (ddq if signal == "ddq" else tau)
    ]
    where = "" if name == "the recording" else f"{name}: "
    if isinstance(made, Recording):
        return made.with_numbers(needed, where)
    if (
        not once
        and len(made.signals) == len(SIGNALS)
        and any(as_it_is_read(run) for run, _, _ in made.parts)
    ):
        return spooled(
            made.changed(methodcaller("with_numbers", needed, where)), progress
        )  # looked at once
    return made.changed(methodcaller("with_numbers", needed, where))


def _prepared(
    robot: Robot, recording: AnyRecording, preparation: Mapping[str, Any] | None, every_sample: bool
) -> AnyRecording:
    wish: dict[str, Any] = {"decimate": 1, "trim": False} if every_sample else {}
    if preparation:
        delay = float(preparation.get("delay") or 0.0)
        recording = (
            recording.load() if delay else recording
        )  # torques are moved in memory alone, as for the fit
        wish |= {**as_fitted(recording, preparation), "delay": delay or None}
        wish |= {name: preparation[name] for name in ("time", "order") if name in preparation}
    made = prepare(robot, recording, **wish)
    if wish:
        return made
    return replace(
        made, notices=(DEFAULTS("the recording was prepared with default settings"), *made.notices)
    )


def as_asked(robot: Robot, recording: AnyRecording, asked: Preparation) -> AnyRecording:
    """Return a recording prepared with the options that were asked for; as it is where none were.

    Raises:
        WrongArgument: It is prepared already, in another way.
    """
    options = asked.preparation
    if not options:
        return recording
    if recording.prepared:
        known = {**recording.info, "differentiate": recording.info.get("differentiated", True)}
        for name, value in options.items():
            if name != "rate" and name in known and known[name] != value:
                raise errors.WrongArgument(
                    f"{name}: the recording is prepared already, with {name}={known[name]!r}, "
                    f"and {value!r} is asked for; give the log as it was recorded, or leave {name} "
                    "out"
                )
        return recording
    if asked.delay or asked.resample:  # done in memory alone
        recording = recording.load()
    return prepare(robot, recording, **options)


def in_robot_order(robot: Robot, recording: _Kind, *, name: str = "the recording") -> _Kind:
    """Return the recording with its columns in the robot's order.

    Names of another kind are taken by position; columns of locked joints are left out.
    """
    names = recording.joint_names
    others = set(names) - set(robot.joint_names)
    if others and others <= set(robot.locked_joints) and len(names) - len(others) == robot.n:
        return cast(_Kind, recording.reordered(robot.joint_names))
    if recording.n != robot.n:
        raise MinidynError(
            f"{name} has {recording.n} joints ({', '.join(names[:8])}), robot {robot.name!r} has "
            f"{robot.n} ({', '.join(robot.joint_names[:8])}); joints that are not "
            "logged are locked by robot.reduced(keep=[...]) (--keep-joints)"
        )
    if names == robot.joint_names or not set(names) & set(robot.joint_names):
        return recording
    wrong = [joint for joint in names if joint not in robot.joint_names]
    if wrong:  # some names fit, so the others are mistakes
        raise errors.UnknownName(
            f"joint of robot {robot.name!r} in {name}:", wrong[0], robot.joint_names
        )
    return cast(_Kind, recording.reordered(robot.joint_names))


def with_logged_joints(robot: Robot, recording: AnyRecording) -> Robot:
    """Return the robot with the joints locked that a log did not have, as reading it said.

    The recording's notices say which, and where.
    """
    names, every = set(recording.joint_names), set(robot.joint_names)
    if not names < every:
        return robot
    missing = every - names
    for notice in filter(says_locked, recording.notices):
        positions = {
            name: value for name, value in notice.data["joints"].items() if name in missing
        }
        robot, missing = with_locked(robot, positions, notice), missing - set(positions)
    return robot


def with_mapped_coupling(
    robot: Robot, notices: Sequence[Notice], joint_names: Sequence[str]
) -> Robot:
    """Return the robot with drives coupled as a recording's notices say; couplings of its own stay.

    The rotor and the friction of a motor turn with the motor: where the log says that joint 5 turns
    motor 6, the drive of joint 6 must know it.
    """
    if any(joint.drive.coupling for joint in robot.joints):
        return robot
    if not set(joint_names) & set(robot.joint_names):  # names of another kind are taken by position
        here = dict(zip(joint_names, robot.joint_names))
    else:
        here = {name: name for name in robot.joint_names}
    coupling: dict[str, dict[str, Any]] = {}
    for notice in notices:
        if notice.code == COUPLED.code:
            others = {here[name]: value for name, value in notice.data["coupling"].items()}
            coupling.setdefault(here[notice.data["joint"]], others)
    return robot.with_drives(coupling=coupling) if coupling else robot


def as_recording(
    value: object,
    robot: Robot | None = None,
    *,
    argument: str = "recording",
    executor: Any = None,
    keep: str | os.PathLike[str] | None = None,
    **reading: Any,
) -> AnyRecording:
    """Return a recording, in memory or on disk, as it is, or read from its path.

    What every door function does. Paths are read for the robot's joints. Anything else is an error
    that says what was expected and names swapped arguments; `argument` is what the caller calls it,
    `reading` options for a path. With an `executor`, for which logs stay on disk, its workers read
    them (`engine.py`); what they prepare may be kept (`spool.py`).
    """
    paths = [value] if isinstance(value, str | os.PathLike) else value
    if (
        isinstance(paths, list | tuple)
        and paths
        and all(isinstance(path, str | os.PathLike) for path in paths)
    ):
        value = read_recording(
            paths, robot, executor=executor, **{"lazy": executor is not None, **reading}
        )
    if isinstance(value, Recording | LazyRecording):
        value = _with_missing_joints(value, robot)
        if executor is None and keep is None:
            return value
        from minidyn.recording.engine import led_by  # only where it is asked for

        return led_by(value, executor, keep=keep, **reading)
    swapped = f"; robot and {argument} seem to be swapped" if isinstance(value, Robot) else ""
    raise errors.WrongArgument(
        f"{argument}: expected a Recording or the path of a log, got "
        f"{'None' if value is None else f'a value of type {type(value).__name__}'}{swapped}"
    )


def _with_missing_joints(recording: _Kind, robot: Robot | None) -> _Kind:
    """Return a recording with the notice that some of the robot's joints were not logged.

    As reading a file gives it; joint names that are not the robot's stay as they are.
    """
    names = set(recording.joint_names)
    if robot is None or not names < set(robot.joint_names):
        return recording
    if any(says_locked(notice) for notice in recording.notices):
        return recording
    missing = [name for name in robot.joint_names if name not in names]
    return replace(recording, notices=(*recording.notices, not_logged(robot, missing)))


def resting_poses(robot: Robot, recording: AnyRecording) -> Recording | None:
    """Return the poses of a log in which nothing moves, one sample each, speeds zero.

    None where there are none. With speeds and accelerations, both are zero throughout. Without,
    positions are held for a while and then jump from one sample to the next: a log of a motion
    passes through what is between. A recording on disk is read piece by piece, a long one if some
    of its pieces are held.
    """
    known = {"dq", "ddq"} <= set(recording.signals)
    log, units, sums = in_robot_order(robot, recording), units_of(robot), 1 + 2 * robot.n
    reach = _SAME * units.speeds * units.time
    if not known and isinstance(log, LazyRecording) and not mostly_held(log, reach, _HELD):
        return None
    # of each pose: samples, sums of positions and torques, highest positions, and lowest ones with
    # the sign changed
    poses = np.zeros((0, sums + 2 * robot.n))

    def held(some: Array) -> NDArray[np.bool_]:
        still = np.all(
            some[:, sums : sums + robot.n] + some[:, sums + robot.n :] <= 2.0 * reach, axis=1
        )
        return np.asarray(still & (known | (some[:, 0] >= _HELD)))

    for run in log.runs if "tau" in log.signals else ():
        before = np.full((1, robot.n), np.inf)
        for tile in run.tiles(_TILE):
            if known and (np.any(np.asarray(tile.dq)) or np.any(np.asarray(tile.ddq))):
                return None
            steps = np.abs(np.diff(tile.q, axis=0, prepend=before))
            jumps = ~np.all(steps <= reach, axis=1)  # to and from what is not a number, too
            begins, before = np.union1d([0], np.flatnonzero(jumps)), tile.q[-1:]
            counted = np.column_stack([np.ones(len(tile)), tile.q, np.asarray(tile.tau)])
            limits = np.maximum.reduceat(np.hstack([tile.q, -tile.q]), begins)
            found = np.hstack([np.add.reduceat(counted, begins), limits])
            if not jumps[0]:  # the pose before goes on
                found[0, :sums] += poses[-1, :sums]
                found[0, sums:] = np.maximum(found[0, sums:], poses[-1, sums:])
                poses = poses[:-1]
            poses = np.concatenate([poses, found])
            if poses[:-1][~held(poses[:-1]), 0].sum() > (1.0 - _MOST) * len(log):
                return None
    poses = poses[held(poses)]
    if len(poses) < 2 or poses[:, 0].sum() < _MOST * len(log):
        return None
    q, tau = np.split(poses[:, 1:sums] / poses[:, :1], 2, axis=1)
    rest = np.zeros_like(q)
    return Recording(
        np.arange(float(len(q))),
        q,
        tau,
        dq=rest,
        ddq=rest,
        joint_names=log.joint_names,
        notices=log.notices,
    )
