"""From a recording to a trusted model, in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, Unpack

from minidyn.arrays import single_thread, solvable
from minidyn.base.base_map import BaseMap
from minidyn.display import announce, counted, shows_progress
from minidyn.errors import Unsupported, shows_options
from minidyn.formats.load import as_robot
from minidyn.graph.targets.cuda.kernel import require_device
from minidyn.identification.consistency.prior import as_prior
from minidyn.identification.diagnose.diagnose import diagnose
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.method import Options
from minidyn.identification.fit import estimate_of, fit_flexible
from minidyn.identification.free_base import identify_free_base
from minidyn.identification.inputs import inputs_of, lifted, read_log
from minidyn.identification.known_torque import KnownTorqueLike
from minidyn.identification.poses import identify_poses
from minidyn.identification.settings import Settings, SettingsOptions, settings_of
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import as_recording
from minidyn.recording.recording import leaving_out

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from minidyn.control.controller import Controller

PathLike: TypeAlias = str | os.PathLike[str]


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
        The estimate; its notices say what is weak and what was chosen. Of robots with a free base
        see docs/free-base.md.

    Raises:
        Meaningless: The quick check found something; its notices say what.
    """
    settings = settings_of(settings, {"method": method, **options}, base)  # before logs are read
    as_prior(settings.prior)  # one that is not there is found before logs are read, too
    if device is not None:
        require_device(device)
    robot = as_robot(robot, free_base=True)
    if robot.free_base:
        _refuse_with_free_base(
            robot, controller=controller, known_torque=known_torque, device=device, keep=keep
        )
        return identify_free_base(robot, recording, base, settings, Options(threads))
    announce("phase", "reading")
    read = as_recording(recording, robot, executor=executor, on_error=on_error, keep=keep)
    log = read_log(robot, read, settings, base, known_torque, force or anyway)
    reads = counted(progress if callable(progress) else None)
    running = Options(threads, reads, controller, device=device)
    if log.poses is not None:
        estimate = identify_poses(log, base, settings, running)
    else:
        announce("phase", "preparing")
        inputs = inputs_of(log, settings, base, running)
        model = fit_flexible(inputs)
        choice, solution = model.choice, model.solution
        fitted = choice.robot.with_parameters(lifted(choice.base, solution.beta, choice.robot))
        announce("phase", "diagnosing")
        notices = [
            *inputs.notices,
            *choice.notices,
            *solution.notices,
            *model.notices,
            *diagnose(
                fitted,
                choice.base,
                solution,
                choice.ready(model.data),
                inputs.prior(choice.robot),
                model.parameters if settings.consistent else None,
            ),
        ]
        estimate = estimate_of(inputs, model, notices, log.measured)
    return replace(estimate, known_torque=log.known_torque, settings=settings)


def _refuse_with_free_base(robot: Robot, **given: object) -> None:
    """Refuse arguments that a free base does not know yet, where they are given."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise Unsupported(
            f"robot {robot.name!r} has a free base, for which these are not supported yet: "
            f"{', '.join(wrong)}"
        )
