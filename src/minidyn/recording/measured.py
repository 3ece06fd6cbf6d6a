"""Which joints' torques are measured.

A column of torques that holds no number, or the same number throughout although the joint's torque
must vary, is no measurement. Fits and validations leave such a joint's row out: its torque is put
to zero here, `info` names it, and a robot whose joint says so has zeros in that row of torques and
regressors (`Robot.with_measured_torques`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.functions import links_alone, regressor
from minidyn.errors import DescriptionError, MinidynError
from minidyn.model.robot import Robot, measured_joints
from minidyn.notices import warning
from minidyn.recording.lazy import AnyRecording, ChangedRun, LazyRecording
from minidyn.recording.recording import LARGEST, Recording

NOT_MEASURED = warning(
    "recording.torque_not_measured",
    "Torques of some joints are not measured: no numbers, or the same number throughout. They are "
    "left out; what these joints' torques alone show is not determined by the log.",
    "Name the right column of {joints[0]}: tau=... in Python, in a mapping file (--mapping) in the "
    "shell.",
)

UNMEASURED = "unmeasured"
"""Where `info` of a recording has the names of joints whose torques are not measured."""

_FEWEST = 20  # samples that show that a torque does not change
_TILE = 1 << 16  # samples that are looked at at once
_LOOKED = 100  # samples of a tile at which the regressor is computed
_ROUNDING = 1e-12  # of the largest torque: torques that change by less are constant
_SAME = 1e-9  # of the regressor's largest entry: a column that changes less is constant

_Kind = TypeVar("_Kind", bound=AnyRecording)


def torques_measured(recording: AnyRecording) -> tuple[bool, ...]:
    """Return of which joints of a recording, in its order, torques are measured (n,)."""
    unmeasured = recording.info.get(UNMEASURED, ())
    names = unmeasured if isinstance(unmeasured, list | tuple) else ()
    return tuple(name not in names for name in recording.joint_names)


def with_measured_torques(
    robot: Robot, recording: _Kind, measured: Iterable[str] | None = None
) -> _Kind:
    """Return a recording, in the robot's order, that says which torques are measured.

    Those that are not are zero. All are where `info` says so already, where no torque is one, and
    in a recording of few samples. `measured` names joints, or patterns of them: the others are
    not, whatever their columns hold.
    """
    recording = within_bounds(recording)
    before: Any = recording.info.get(UNMEASURED)
    if "tau" not in recording.signals or (before is not None and measured is None):
        return recording
    notices, names = recording.notices, recording.joint_names
    unmeasured = set(names) - set(measured_joints(robot, names if measured is None else measured))
    if before is None:
        lacking = _lacking(robot, recording)
        silent = [] if all(lacking) else [name for name, lacks in zip(names, lacking) if lacks]
        if set(silent) - unmeasured:
            every = ", ".join(map(repr, silent))
            text = f"the torque of {every} is not measured; it is left out"
            notices = (*notices, NOT_MEASURED(text, joints=silent))
        unmeasured |= set(silent)
    unmeasured |= set(before or ())
    if not unmeasured or unmeasured == set(before or ()):
        return recording
    if unmeasured == set(names):
        raise DescriptionError(
            f"measured: no torque of {', '.join(measured or ())} has numbers that change"
        )
    about = {**recording.info, UNMEASURED: tuple(name for name in names if name in unmeasured)}
    return silenced(replace(recording, info=about, notices=notices))


def within_bounds(recording: _Kind) -> _Kind:
    """Return a recording with NaN for values that no robot has, as for other lost values."""
    if isinstance(recording, LazyRecording):
        known = all(
            isinstance(run, ChangedRun) and run.change is _bounded for run, _, _ in recording.parts
        )
        return recording if known else cast(_Kind, recording.changed(_bounded))
    return cast(_Kind, _bounded(recording))


def _bounded(tile: Recording) -> Recording:
    """Return samples with NaN for values beyond LARGEST."""
    changed: dict[str, Any] = {}
    for name in tile.signals:
        values = np.asarray(getattr(tile, name))
        if not float(np.abs(values).max(initial=0.0)) <= LARGEST[name]:  # NaN is not either
            changed[name] = np.where(np.abs(values) <= LARGEST[name], values, np.nan)
    return replace(tile, **changed) if changed else tile


def silenced(recording: _Kind) -> _Kind:
    """Return a recording with torques that are not measured put to zero."""
    measured = torques_measured(recording)
    if all(measured) or "tau" not in recording.signals:
        return recording
    change = partial(_silenced, tuple(not known for known in measured))
    if isinstance(recording, LazyRecording):
        return cast(_Kind, recording.changed(change))
    return cast(_Kind, change(recording))


def _silenced(lacking: Iterable[bool], tile: Recording) -> Recording:
    """Return samples with some joints' torques put to zero."""
    return replace(tile, tau=np.where(np.array(lacking), 0.0, np.asarray(tile.tau)))


def _lacking(robot: Robot, recording: AnyRecording) -> list[bool]:
    """Return which joints' torques (n,) have no numbers, or never change although they must.

    A recording on disk is read until every torque has changed.
    """
    lowest, highest = np.full(robot.n, np.inf), np.full(robot.n, -np.inf)
    samples, changes = 0, np.zeros(robot.n, dtype=bool)
    for tile in recording.tiles(_TILE):
        tau = np.where(np.isfinite(tau := np.asarray(tile.tau)), tau, np.nan)
        lowest, highest = (
            np.fmin(lowest, np.fmin.reduce(tau)),
            np.fmax(highest, np.fmax.reduce(tau)),
        )
        samples += len(tile)
        sizes = np.fmax(np.abs(lowest), np.abs(highest))
        least = _ROUNDING * float(sizes[np.isfinite(sizes)].max(initial=0.0))
        if np.all(highest - lowest > least):
            return [False] * robot.n
        changes |= _changing_rows(robot, tile)
    if not samples:
        return [False] * robot.n
    constant = (highest - lowest <= least) & changes & (samples >= _FEWEST)
    return [bool(lacks) for lacks in constant | (highest < lowest)]


def _changing_rows(robot: Robot, tile: Recording) -> Any:
    """Return of which joints the links' torque must change along some samples (n,)."""
    motion = _motion(tile)
    if not len(motion[0]):
        return np.zeros(robot.n, dtype=bool)
    try:
        Y = np.asarray(regressor(links_alone(robot), *motion))
    except MinidynError:  # a loop does not close there
        return np.zeros(robot.n, dtype=bool)
    with np.errstate(all="ignore"):
        return np.any(np.ptp(Y, axis=0) > _SAME * np.abs(Y).max(axis=(0, 1)), axis=1)


def _motion(tile: Recording) -> tuple[Array, Array, Array]:
    """Return positions, speeds and accelerations of some samples (k, n), those that are numbers."""
    q, t = tile.q, tile.t
    if len(q) < 3:
        return q[:0], q[:0], q[:0]
    with np.errstate(all="ignore"):
        dq = np.gradient(q, axis=0) / np.gradient(t)[:, None] if tile.dq is None else tile.dq
        ddq = np.gradient(dq, axis=0) / np.gradient(t)[:, None] if tile.ddq is None else tile.ddq
    good = np.flatnonzero(np.all(np.isfinite(np.hstack([q, dq, ddq])), axis=1))
    some = good[:: max(1, len(good) // _LOOKED)]
    return q[some], dq[some], ddq[some]
