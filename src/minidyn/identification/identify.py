"""From a recording to a trusted model, in one call.

A log of poses at rest holds nothing of speeds and accelerations: it identifies the parameters of
gravity alone (Lin1994 Theorem 4), each pose as one sample, the means of its positions and torques.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

import numpy as np

from minidyn.arrays import Array, single_thread, solvable
from minidyn.base.base_map import BaseMap
from minidyn.display import counted, shows_progress
from minidyn.dynamics.kernel import require_whole
from minidyn.errors import MinidynError, Unsupported, shows_options
from minidyn.formats.load import as_robot
from minidyn.graph.targets.cuda.kernel import require_device
from minidyn.identification.consistency.consistency import ConsistentModel, consistent_model
from minidyn.identification.consistency.prior import (
    as_prior,
    knows_a_body,
    prior_parameters,
    require_values,
)
from minidyn.identification.diagnose.diagnose import diagnose
from minidyn.identification.diagnose.excitation import with_shown_condition
from minidyn.identification.diagnose.meaningless import has_enough, require_meaning
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.held_out import held_out_variance, model_error
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.estimators.torque_scatter import torque_scatter
from minidyn.identification.flexibility import Bending, require_flexibility
from minidyn.identification.friction.choose import (
    FrictionChoice,
    choose_friction,
    seen,
    starting_model,
)
from minidyn.identification.friction.loads import Step, instead_of_load, settle
from minidyn.identification.friction.per_log import LogsSolution, solve_per_log
from minidyn.identification.known_torque import KnownTorqueLike, without_known
from minidyn.identification.rows.base_rows import Progress, Samples, fitted_base, observing
from minidyn.identification.selection import Decision, Selection
from minidyn.identification.settings import Settings, SettingsOptions, settings_of
from minidyn.identification.terms.gravity_direction import Mounting, mounted_as_logged
from minidyn.model.drives import AUTO
from minidyn.model.robot import Robot
from minidyn.notices import Notice, about_robot_file, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.measured import silenced, torques_measured, with_measured_torques
from minidyn.recording.ready import (
    as_asked,
    as_recording,
    in_robot_order,
    ready,
    resting_poses,
    with_logged_joints,
    with_mapped_coupling,
)
from minidyn.recording.recording import KNOWN_TORQUE, SKETCH, Recording, leaving_out, without_sketch
from minidyn.recording.sketch import sketch_of, sketched

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from minidyn.control.controller import Controller

PathLike: TypeAlias = str | os.PathLike[str]

IN_MEMORY = info(
    "identify.in_memory", "The method needs the whole recording: it was read into memory."
)
PIECEWISE = info(
    "identify.piecewise",
    "A very long recording was read piece by piece; the method's filters start anew with each "
    "piece.",
    'Methods "ols", "wls" and "irls" read long recordings without loss.',
)


@leaving_out
@shows_progress("identifying")
@single_thread()
@solvable()
@shows_options(Settings)
def identify(
    robot: Robot | PathLike,
    recording: AnyRecording | PathLike | Sequence[PathLike],
    method: str | None = None,
    *,
    settings: Settings | None = None,
    base: BaseMap | None = None,
    controller: Controller | None = None,
    known_torque: KnownTorqueLike = None,
    threads: int = 1,
    device: str | None = None,
    executor: Executor | None = None,
    on_error: str = "stop",
    keep: PathLike | None = None,
    force: bool = False,
    anyway: bool = False,
    progress: Callable[[int], None] | bool | None = None,
    **options: Unpack[SettingsOptions],
) -> Estimate:
    """Identify a robot's base parameters from a recording, and a physically consistent model that
    has them.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path; its own values, where
            known, are the prior.
        recording: Raw (q and tau; it is prepared) or prepared (with dq and ddq), or the path of a
            log; one on disk is read piece by piece. Poses at rest identify the parameters of
            gravity alone (docs/identification.md).
        method: As in `settings`.
        settings: Every option of the fit with its meaning and default; None: the defaults.
        base: Base parameters to estimate, whose robot says which drive terms there are; None: found
            exactly.
        controller: What drove the robot along the reference in the recording's telemetry (q_d), for
            the methods that simulate it ("iv", "didim"); None: unknown, and the simulation is led
            along the recorded motion.
        known_torque: What is known before the fit, subtracted there and added to predictions: a
            function of q and dq, a `Payload`, a `Balancer`, a telemetry's name, or {name: part} of
            these (docs/known-torque.md).
        threads: For the reduction of large recordings.
        device: "cuda": an NVIDIA GPU reduces the recording for "ols", "wls" and "irls"
            (docs/gpu.md); None: none does.
        executor: Any of concurrent.futures, whose workers read logs on disk, to the same bits
            (docs/clusters.md).
        on_error: "stop", or "skip": files that cannot be read are left out, and a notice names
            them.
        keep: Folder for what is prepared of logs on disk: who was killed goes on there
            (docs/clusters.md).
        force: Fit although a quick check finds that meaningless (limits, no torque, no motion;
            :func:`minidyn.check`).
        anyway: Old name of `force`.
        progress: Called with the number of samples read so far, all passes together; True: a bar on
            stderr.
        **options: Single options of :class:`minidyn.Settings`, which count before `settings`:
            `md.identify(robot, log, friction="own", cutoff=20.0)`.

    Returns:
        The estimate; its notices say what is weak and what was chosen.

    Raises:
        Meaningless: The quick check found something; its notices say what.
    """
    settings = settings_of(settings, {"method": method, **options}, base)  # before logs are read
    method, friction, flexibility = settings.method, settings.terms, settings.flexibility
    friction_per, consistent = settings.friction_per, settings.consistent
    if device is not None:
        require_device(device)
    estimator, prior, robot = METHODS[method], as_prior(settings.prior), as_robot(robot)
    log = as_recording(recording, robot, executor=executor, on_error=on_error, keep=keep)
    robot = with_logged_joints(robot, log) if base is None else robot
    notices = require_meaning(robot, log, force or anyway)
    log = as_asked(robot, log, settings)
    log = with_measured_torques(robot, in_robot_order(robot, log))
    measured = torques_measured(log)
    if not all(measured):
        require_partial_torques(estimator, flexibility, log)
    log, own = sketched(log, robot.joint_names), None
    if known_torque not in (None, {}) or KNOWN_TORQUE in getattr(log, "telemetry", ()):
        log, own = without_known(known_torque, robot, log)
        log = silenced(log)
    poses = resting_poses(robot, log) if base is None or base.model == "gravity" else None
    if flexibility is not None:
        require_flexibility(robot, estimator, friction_per, poses is not None)
    if poses is not None:
        at_rest = identify_poses(
            robot.with_measured_torques(measured),
            poses,
            estimator,
            base,
            Options(threads, None, controller),
            notices,
        )
        return replace(at_rest, known_torque=own, settings=settings)
    robot = with_mapped_coupling(robot, log.notices, log.joint_names) if base is None else robot
    model = starting_model(robot, settings, base)
    model = model.with_measured_torques(measured)
    require_whole(base, "identify")
    running = Options(
        threads, counted(progress if callable(progress) else None), controller, device=device
    )
    data, more = ready_for(estimator, model, log, running.progress)
    mounting = Mounting(model) if base is not None else mounted_as_logged(model, data, settings)
    model = mounting.robot
    start = fitted_base(model) if base is None else observing(base, measured)
    # a prior decides what a weak recording leaves open; without one, or without any motion, it is
    # refused
    known = prior_parameters(model, prior, (robot,))
    require_values(prior, known)
    sure = consistent and knows_a_body(model, known)
    filled = has_enough(model, start, data, sure)
    running = replace(running, allow_open=filled or not all(measured))
    # a simulated loop passes through the filter of the torque: a width that replaces that filter
    # would be wrong there
    simulated = estimator.simulates_torque and controller is not None
    wish: dict[str, Any] = {
        "widths": settings.auto and settings.sign_width is None and not simulated,
        "forbid": settings.forbid_terms,
        "fixed": base is not None,
        "memory": estimator.remembers,
    }
    wish["at_rest"] = not estimator.needs_acceleration
    wish["filtered"] = simulated or estimator.filters_columns or wish["at_rest"]
    solve = estimator.solve if friction_per is None else partial(solve_per_log, estimator.solve)

    def estimated(loaded: Robot, choice: FrictionChoice, data: AnyRecording) -> Solution:
        found = solve(loaded, choice.base, choice.ready(loaded, data), running)
        return with_shown_condition(loaded, choice.base, found)

    def solved(data: AnyRecording, load: bool = True) -> _Fit:
        choice = choose_friction(model, start, data, friction, load=load, **wish)
        settled = choice.fit(lambda loaded: estimated(loaded, choice, data))
        found = widened(choice, settled.made)
        return _Fit(choice, found, settled.doubts)

    def widened(choice: FrictionChoice, found: Solution) -> Solution:
        return choice.with_width_uncertainty(
            found, data.info.get("cutoff"), simulated or estimator.filters_columns
        )

    def finished(fit: _Fit) -> _Model:
        choice, found = fit.choice, fit.found
        parameters = lifted(choice.base, found.beta, choice.robot)
        if not consistent:
            return _Model(
                found, found.beta, parameters, found.covariance, found.of_log, list(fit.doubts), {}
            )
        own, models = prior_parameters(choice.robot, prior, (robot, model)), list[ConsistentModel]()

        def step(found: Solution) -> Step[_Model]:
            # the prior's scale is settled before the loads are
            chosen = models[-1].record if len(models) > 1 else None
            made = consistent_model(
                choice.robot, choice.base, found, data, own, settings.prior_kind, chosen
            )
            decisions = made.decisions if chosen is None else models[-1].decisions
            models.append(made._replace(decisions=decisions))
            fit = made.fit
            both = np.asarray(fit.covariance), np.asarray(fit.own_covariance)
            model = _Model(found, fit.beta, fit.phi, *both, made.notices, made.record, decisions)
            return Step(model, fit.phi, found.sigma)

        if choice.columns is None or choice.parameters is None:
            return step(found).made
        first = None if fit.doubts else step(found)
        known = choice.robot, choice.columns.motion, parameters
        settled = settle(
            *known, lambda loaded: step(widened(choice, estimated(loaded, choice, data))), first
        )
        return settled.made._replace(notices=[*settled.made.notices, *settled.doubts])

    fit = solved(data)
    made, doubts = finished(fit), tuple[Notice, ...]()
    bending = None if flexibility is None else Bending(flexibility, data, filled)
    while bending is not None and bending.again(
        fit.choice.robot.with_parameters(made.parameters), fit.choice.base
    ):
        data = bending.data  # without the torque of joints that give way
        made = finished(fit := solved(data))
    if fit.choice.parameters is not None and fit.choice.columns is not None:
        motion = fit.choice.columns.motion

        def without() -> tuple[tuple[_Fit, _Model], Robot, Samples, Array]:
            other = solved(data, load=False)
            model, columns = finished(other), other.choice.columns
            return (
                (other, model),
                other.choice.robot,
                motion if columns is None else columns.motion,
                model.parameters,
            )

        loaded = fit.choice.robot, fit.choice.base, made.found, made.parameters, motion
        is_asked = friction != AUTO or "load" in settings.force_terms
        instead, doubts = instead_of_load(*loaded, is_asked, without)
        fit, made = instead or (fit, made)
    if bending is not None:
        made = made._replace(
            found=bending.told(made.found), covariance=bending.widened(made.covariance)
        )
    choice = fit.choice
    found, beta, parameters, covariance, of_log, bounds, weight, decisions = made
    fitted = choice.robot.with_parameters(lifted(choice.base, found.beta, choice.robot))
    shown = choice.ready(fitted, data)
    notices += [
        *more,
        *about_robot_file(robot.notices),
        *mounting.notices,
        *choice.notices,
        *doubts,
        *found.notices,
    ]
    notices += bounds
    known = prior_parameters(choice.robot, prior, (robot, model))
    notices += diagnose(
        fitted, choice.base, found, shown, known, parameters if consistent else None
    )
    record: dict[str, Any] = {"method": method, "samples": len(data)}
    if preparation := without_sketch(data.info):
        record["preparation"] = preparation  # validation prepares raw recordings alike
    record |= {} if (sketch := sketch_of(data)) is None else {SKETCH: sketch.to_json()}
    record |= {**choice.record, **found.record, **weight}
    record["selection"] = Selection((*mounting.decisions, *decisions)).to_json()
    record |= found.record_of(beta, consistent) if isinstance(found, LogsSolution) else {}
    sigma = found.sigma if found.left is None else np.maximum(found.sigma, found.left(beta))
    low, choice = choice.robot.with_parameters(parameters), seen(choice, 0.0)
    whole = replace(
        choice.robot.with_measured_torques(None).with_parameters(parameters), notices=()
    )
    held_out = held_out_variance(found, beta, covariance)
    record |= model_error(found, beta, held_out)
    record |= torque_scatter(data, low, whole, sigma, len(beta), friction_per is not None, held_out)
    sigma = np.where(measured, sigma, np.inf)
    numbers = beta, covariance, sigma, method, consistent, found.condition, len(data)
    parts = found.covariance if consistent else None, of_log
    every = observing(choice.base, None)
    estimate = Estimate(whole, every, *numbers, tuple(notices), record, *parts, known_torque=own)
    return replace(estimate, settings=settings)


class _Fit(NamedTuple):
    """Friction terms, and what an estimator made of the data with them."""

    choice: FrictionChoice
    found: Solution
    doubts: tuple[Notice, ...]  # whether loads that friction grows with have settled


class _Model(NamedTuple):
    """What became of a fit."""

    found: Solution
    beta: Array
    parameters: Array
    covariance: Array  # of beta
    of_log: Array  # the part of it that another log does not share
    notices: list[Notice]
    record: dict[str, Any]
    decisions: tuple[Decision, ...] = ()


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


AT_REST = warning(
    "identify.at_rest",
    "The log holds poses at rest only: they identify the parameters of gravity, nothing of "
    "inertia and friction.",
    "The estimate predicts torques at rest. Record motions to identify the rest. Approach each "
    "pose from both sides, so that friction cancels in the mean.",
)

_METHODS = ("wls", "ols", "irls")


def identify_poses(
    robot: Robot,
    poses: Recording,
    method: Method,
    base: BaseMap | None,
    options: Options,
    before: Sequence[Notice] = (),
) -> Estimate:
    """Return the parameters of gravity from poses at rest.

    Standard parameters that poses do not show are those of the robot; NaN where it does not know
    them.

    Implements: Lin1994 Theorem 4, identification of the gravity load.
    """
    if method.name not in _METHODS:
        raise Unsupported(
            f'the log holds poses at rest only; method {method.name!r} needs motion: use "wls"'
        )
    model = (
        robot.with_drives(False, ())
        if base is None
        else base.robot.with_parameters(robot.parameters)
    )
    model = model.with_measured_torques(robot.torques_measured)
    base = (
        fitted_base(model, "gravity") if base is None else observing(base, robot.torques_measured)
    )
    if base.rank == 0:
        raise MinidynError(
            f"the log holds poses at rest only, and gravity loads no joint of robot {robot.name!r}"
        )
    if len(poses) * robot.n < 2 * base.rank:
        raise MinidynError(
            f"{len(poses)} poses at rest are too few for {base.rank} parameters of gravity; "
            f"record at least {2 * base.rank // robot.n + 1}, better ten times as many"
        )
    found = method.solve(model, base, poses, options)
    text = (
        f"the log holds {len(poses)} poses at rest: they identify the {base.rank} parameters of "
        "gravity; inertia and friction are not identified"
    )
    notices: list[Notice] = [
        *before,
        *poses.notices,
        AT_REST(text, poses=len(poses), rank=base.rank),
        *found.notices,
    ]
    fitted = replace(model.with_parameters(_own(base, found.beta, model)), notices=())
    fitted = fitted.with_measured_torques(None)
    base = observing(base, None)
    record = {"method": method.name, "model": "gravity", "samples": len(poses), **found.record}
    numbers = found.beta, found.covariance, found.sigma
    return Estimate(
        fitted,
        base,
        *numbers,
        method.name,
        False,
        found.condition,
        len(poses),
        tuple(notices),
        record,
    )


def _own(base: BaseMap, beta: Array, robot: Robot) -> Array:
    """Return standard parameters with these base values, all others as the robot has them."""
    phi = np.array(robot.parameters)
    regrouped, kept = (list(robot.layout.indices(names)) for names in (base.regrouped, base.kept))
    phi[[*kept, *regrouped]] = base.lift(beta, np.nan_to_num(phi[regrouped]))[[*kept, *regrouped]]
    return phi
