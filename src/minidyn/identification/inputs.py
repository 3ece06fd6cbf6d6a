"""What a fit begins with: a robot, a ready log, and what an estimator can use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.kernel import require_whole
from minidyn.errors import Unsupported
from minidyn.identification.consistency.prior import (
    as_prior,
    knows_a_body,
    prior_parameters,
    require_values,
)
from minidyn.identification.diagnose.meaningless import has_enough, require_meaning
from minidyn.identification.estimators.method import Method, Options
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.flexibility import require_flexibility
from minidyn.identification.known_torque import KnownTorqueLike, without_known
from minidyn.identification.rows.base_rows import Progress, fitted_base, observing
from minidyn.identification.select import Limits, starting_model
from minidyn.identification.selection import Decision, Selection
from minidyn.identification.settings import CUTOFF, Settings
from minidyn.identification.terms.cutoff import HIGHER, with_cutoff
from minidyn.identification.terms.gravity_direction import Mounting, mounted_as_logged
from minidyn.model.drives import AUTO
from minidyn.model.robot import Robot
from minidyn.notices import Notice, about_robot_file, info
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.measured import silenced, torques_measured, with_measured_torques
from minidyn.recording.prepare.cutoff import MAX_CUTOFF_SHARE
from minidyn.recording.ready import (
    as_asked,
    in_robot_order,
    ready,
    resting_poses,
    with_logged_joints,
    with_mapped_coupling,
)
from minidyn.recording.recording import KNOWN_TORQUE, Recording
from minidyn.recording.sketch import sketched

IN_MEMORY = info(
    "identify.in_memory", "The method needs the whole recording: it was read into memory."
)
NO_WEIGHTS = info(
    "identify.no_robust_weights",
    'Rows of robots whose loops are solved sample by sample take no robust weights: "wls" replaces '
    '"irls".',
)
PIECEWISE = info(
    "identify.piecewise",
    "A very long recording was read piece by piece; the method's filters start anew with each "
    "piece.",
    'Methods "ols", "wls" and "irls" read long recordings without loss.',
)


@dataclass(frozen=True, eq=False)
class Log:
    """A log as it was read, before it is prepared.

    Attributes:
        robot: The robot with the joints that the log has.
        recording: In the robot's order, known torque subtracted.
        poses: Its poses at rest, where it holds nothing else.
        known_torque: What was subtracted.
        notices: What a reader should know.
    """

    robot: Robot
    recording: AnyRecording
    poses: Recording | None
    known_torque: Any
    notices: tuple[Notice, ...]

    @property
    def measured(self) -> tuple[bool, ...]:
        """Whether the torque of each joint is measured."""
        return tuple(torques_measured(self.recording))


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a fit begins with.

    Attributes:
        robot: The robot as it is known.
        model: The robot with the drive terms to begin with.
        base: Its base parameters.
        data: The ready log.
        settings: What was asked.
        method: The estimator.
        options: What it may use.
        limits: What it can use.
        decisions: What was decided before terms are chosen.
        notices: What a reader should know.
    """

    robot: Robot
    model: Robot
    base: BaseMap
    data: AnyRecording
    settings: Settings
    method: Method
    options: Options
    limits: Limits
    notices: tuple[Notice, ...]
    decisions: Selection

    def prior(self, robot: Robot) -> Array | None:
        """Return standard parameters (p,) of a robot that were known before, NaN where unknown."""
        owners = self.robot, self.model
        return prior_parameters(robot, as_prior(self.settings.prior), owners)


def read_log(
    robot: Robot,
    recording: AnyRecording,
    settings: Settings,
    base: BaseMap | None,
    known_torque: KnownTorqueLike,
    force: bool,
) -> Log:
    """Return a log that fits the robot, with what is known of its torque subtracted."""
    robot = with_logged_joints(robot, recording) if base is None else robot
    notices = require_meaning(robot, recording, force)
    log = as_asked(robot, recording, settings)
    log = with_measured_torques(robot, in_robot_order(robot, log), settings.measured)
    method = METHODS[settings.method]
    if not all(torques_measured(log)):
        require_partial_torques(method, settings.flexibility, log)
    log, known = sketched(log, robot.joint_names), None
    if known_torque not in (None, {}) or KNOWN_TORQUE in getattr(log, "telemetry", ()):
        log, known = without_known(known_torque, robot, log)
        log = silenced(log)
    poses = resting_poses(robot, log) if base is None or base.model == "gravity" else None
    if settings.flexibility is not None:
        require_flexibility(robot, method, settings.friction_per, poses is not None)
    return Log(robot, log, poses, known, tuple(notices))


def inputs_of(log: Log, settings: Settings, base: BaseMap | None, options: Options) -> Inputs:
    """Return what a fit begins with: the log is prepared, and it is known what may stay open."""
    method, robot, recording = METHODS[settings.method], log.robot, log.recording
    method, loop_notices = usable_method(method, robot)
    if base is None:
        robot = with_mapped_coupling(robot, recording.notices, recording.joint_names)
    model = starting_model(robot, settings, base).with_measured_torques(log.measured)
    require_whole(base, "identify")
    data, notices = ready_for(method, model, recording, options.progress)
    mounting = Mounting(model) if base is not None else mounted_as_logged(model, data, settings)
    model = mounting.robot
    start = fitted_base(model) if base is None else observing(base, log.measured)
    rows: tuple[Decision, ...] = ()
    if base is None:
        data, rows = with_chosen_cutoff(model, start, recording, data, settings)
    # a prior decides what a weak recording leaves open; without one, or without any motion, it is
    # refused
    known = prior_parameters(model, as_prior(settings.prior), (robot,))
    require_values(as_prior(settings.prior), known)
    is_filled = has_enough(model, start, data, settings.consistent and knows_a_body(model, known))
    is_open = is_filled or not all(log.measured)
    # a simulated loop passes through the filter of the torque: a width that replaces that filter
    # would be wrong there
    is_simulated = method.simulates_torque and options.controller is not None
    limits = Limits(
        has_memory=method.remembers,
        has_accelerations=method.needs_acceleration,
        is_width_free=settings.auto and settings.sign_width is None and not is_simulated,
        is_filtered=is_simulated or method.filters_columns,
        is_fixed=base is not None,
    )
    options = replace(options, allow_open=is_open)
    return Inputs(
        robot=robot,
        model=model,
        base=start,
        data=data,
        settings=settings,
        method=method,
        options=options,
        limits=limits,
        notices=(
            *log.notices,
            *loop_notices,
            *notices,
            *about_robot_file(robot.notices),
            *mounting.notices,
        ),
        decisions=Selection((*mounting.decisions, *rows)),
    )


def usable_method(method: Method, robot: Robot) -> tuple[Method, tuple[Notice, ...]]:
    """Return the method that a robot can be identified with, and what a reader should know.

    Loops that are solved sample by sample take no robust weights.
    """
    if not robot.implicit_loops or method.name != "irls":
        return method, ()
    text = (
        f'method "wls" instead of "irls": loop {robot.implicit_loops[0].name!r} is solved sample '
        "by sample"
    )
    return METHODS["wls"], (NO_WEIGHTS(text, method="wls", asked=method.name),)


def with_chosen_cutoff(
    model: Robot, base: BaseMap, recording: AnyRecording, data: AnyRecording, settings: Settings
) -> tuple[AnyRecording, tuple[Decision, ...]]:
    """Return a ready log, low-passed at a higher cut-off where that is better or forced.

    Of raw logs in memory, where nobody said a cut-off.
    """
    is_raw = isinstance(recording, Recording) and not recording.prepared and recording.ddq is None
    is_free = settings.cutoff is None and CUTOFF not in settings.forbid_terms
    rate = data.info.get("logged_rate")
    has_room = isinstance(rate, float) and MAX_CUTOFF_SHARE * rate > HIGHER
    is_asked = settings.terms == AUTO or CUTOFF in settings.force_terms
    if not (is_raw and is_free and is_asked and data.prepared and has_room):
        return data, ()
    prepared = partial(_at_cutoff, METHODS[settings.method], model, recording, settings)
    return with_cutoff(model, base, data.load(), settings, prepared)


def _at_cutoff(
    method: Method, model: Robot, recording: AnyRecording, settings: Settings, cutoff: float
) -> Recording:
    """Return a log as it is prepared at another cut-off, Hz."""
    asked = as_asked(model, recording, settings.replace(cutoff=cutoff, force_terms=()))
    return ready_for(method, model, asked)[0].load()


def require_partial_torques(
    method: Method, flexibility: str | None, recording: AnyRecording
) -> None:
    """Raise where a fit needs the torques of all joints: the recording lacks some."""
    if method.needs_all_torques or flexibility is not None:
        names = [
            repr(name)
            for name, known in zip(recording.joint_names, torques_measured(recording))
            if not known
        ]
        what = f"method {method.name!r}" if flexibility is None else "flexibility"
        raise Unsupported(
            f"{what} needs the torques of all joints; those of {', '.join(names)} are not "
            'measured: use method "wls" for a stiff robot'
        )


def ready_for(
    method: Method, robot: Robot, recording: AnyRecording, progress: Progress | None = None
) -> tuple[AnyRecording, list[Notice]]:
    """Return a recording as a method reads it, in memory or piece by piece, and what a reader
    should know of that.
    """
    if method.make_ready is not None:
        made = method.make_ready(robot, recording)
        return made, list(made.notices)
    on_disk, count = not isinstance(recording, Recording), len(recording)
    whole = on_disk and count <= method.streams_from and method.streams_from > 0
    found = ready(
        robot,
        recording,
        purpose="identification",
        ddq=method.needs_acceleration,
        in_memory=whole,
        progress=progress,
    )
    notices = list(found.notices)
    if whole:
        text = f'method "{method.name}" reads the whole recording into memory ({count} samples)'
        notices.append(IN_MEMORY(text, method=method.name, samples=count))
    elif on_disk and method.streams_from > 0:
        text = (
            f'method "{method.name}" reads {count} samples piece by piece, filters start anew '
            "with each"
        )
        notices.append(PIECEWISE(text, method=method.name, samples=count))
    return found, notices


def lifted(base: BaseMap, beta: Array, robot: Robot) -> Array:
    """Return standard parameters with these base values, the regrouped ones as the robot knows
    them.
    """
    regrouped = robot.parameters[list(robot.layout.indices(base.regrouped))]
    return np.asarray(base.lift(beta, np.nan_to_num(regrouped)), dtype=float)
