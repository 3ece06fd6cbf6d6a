"""From a recording to a trusted model, in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.display import shows_progress
from minidyn.errors import MinidynError, UnknownName
from minidyn.formats.load import as_robot
from minidyn.identification.consistency.consistency import consistent_model, something_moves
from minidyn.identification.consistency.prior import Prior, as_prior, knows_a_body, prior_parameters
from minidyn.identification.diagnostics.delay import delay_notices
from minidyn.identification.diagnostics.excitation import excitation_notices
from minidyn.identification.diagnostics.reversals import reversal_covariance
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.method import Options
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.friction.choose import AUTO, OWN, choose_friction, starting_model
from minidyn.identification.rows.on_disk import ready_on_disk
from minidyn.identification.rows.samples import counted
from minidyn.model.robot import Robot
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.recording import Recording

if TYPE_CHECKING:
    from minidyn.control.controller import Controller


_FEWEST = 20  # samples that a prior can do with


class _Unsaid(str):
    """A keyword's value that was left out: equal to what it means, but another object."""


DEFAULT_FRICTION = _Unsaid(AUTO)
"""With base= the default gives way to the terms of that map, where "auto" said aloud is refused."""


@shows_progress("identifying")
def identify(
    robot: Robot | str | os.PathLike[str],
    recording: Recording | LazyRecording,
    method: str = "wls",
    *,
    base: BaseMap | None = None,
    friction: Iterable[str] | str | None = DEFAULT_FRICTION,
    rotor_inertia: bool | None = True,
    sign_width: ArrayLike | None = None,
    prior: Prior = None,
    prior_kind: str = "entropic",
    consistent: bool = True,
    controller: Controller | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | bool | None = None,
) -> Estimate:
    """Identify a robot's base parameters from a recording, and a physically consistent model that has them.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path; its own values, where known, are the prior.
        recording: Raw (q and tau; it is prepared) or prepared (with dq and ddq); a lazy one is read piece by piece.
        method: "wls" (least squares, each joint weighted by its own noise), "ols", "irls" (outliers count less),
            "parallel" (regressor and torque after one low-pass), "tls" (noise in the regressor, too), "iv" (instruments
            from simulated states, and a test whether least squares is biased), "didim" (torque of a simulation in
            closed loop), or without accelerations "filtered", "momentum", "energy"; see docs/estimators.md.
        base: Base parameters to estimate, whose robot says which drive terms there are; None: found exactly.
        friction: "auto": viscous, Coulomb, offset, and those terms that predict held-out data better
            (docs/friction.md); "own": the terms of the robot's file; or names of minidyn.model.drives.TERMS, () for
            none.
        rotor_inertia: Whether rotor inertias are identified; None: as the robot's file has them.
        sign_width: Smoothing width: speed over which Coulomb friction reverses, one for all joints or one for each;
            None: chosen by cross-validation over time blocks, zero allowed ("didim" with a controller: the robot's
            own).
        prior: What the physical model stays near, with a weight chosen by cross-validation over time blocks, zero
            allowed: the same robot with prior values, its name or path, or standard parameters (p,); None: the robot's
            own values; False: none.
        prior_kind: How the distance from the prior is measured: "entropic", "euclidean" or "geodesic"
            (docs/consistency.md).
        consistent: Whether to make the model physically consistent.
        controller: What drove the robot along the reference in the recording's telemetry (q_d), for the methods that
            simulate it ("iv", "didim"); None: unknown, and the simulation is led along the recorded motion.
        threads: For the reduction of large recordings.
        progress: Called with the number of samples read so far, all passes over the recording together; True: a bar on
            stderr.

    Returns:
        The estimate; its notices say what is weak and what was chosen.
    """
    if method not in METHODS:
        raise UnknownName("method", method, tuple(METHODS))
    estimator, robot = METHODS[method], as_robot(robot)
    if friction is None:
        warnings.warn('friction=None is deprecated; say friction="own"', DeprecationWarning, stacklevel=2)
        friction = OWN
    if base is not None and friction == AUTO:
        if friction is not DEFAULT_FRICTION:
            raise MinidynError('base: with friction="auto" the parameters are chosen from the data; leave base out')
        friction = OWN
    model = starting_model(robot, friction, rotor_inertia, sign_width, base)
    notices: list[Any] = []
    progress = counted(progress if callable(progress) else None)
    if isinstance(recording, LazyRecording):
        ready = ready_on_disk(model, recording, estimator, notices, progress)
    else:
        ready = _prepared(model, recording, notices, estimator.needs_acceleration)
    chosen = base_parameters(model) if base is None else base
    # a prior decides what a weak recording leaves open; without one, or without any motion, it is refused
    prior = as_prior(prior)
    known = prior_parameters(model, prior, (robot,))
    moves = something_moves(model, ready)
    if moves and isinstance(ready, Recording) and not np.any(ready.tau):
        raise MinidynError("the measured torques are zero throughout; is that the right column of the log?")
    filled = consistent and knows_a_body(model, known) and moves
    if len(ready) * model.n < 2 * chosen.rank and not (filled and len(ready) >= _FEWEST):
        raise MinidynError(
            f"{len(ready)} samples of {model.n} joints are too few for {chosen.rank} base parameters; record at least "
            f"{2 * chosen.rank // model.n + 1}, better a hundred times as many"
        )
    settings: dict[str, Any] = {"method": method, "samples": len(ready)}
    if ready.info:
        settings["preparation"] = dict(ready.info)  # validation prepares raw recordings alike
    # a simulated loop passes through the filter of the torque: a width that replaces that filter would be wrong there
    simulated = estimator.simulates_torque and controller is not None
    open_width = sign_width is None and not simulated
    choice = choose_friction(model, chosen, ready, friction, widths=open_width, fixed=base is not None)
    before, model, chosen = model, choice.robot, choice.base
    settings |= choice.settings
    notices += choice.notices
    options = Options(threads, progress, controller, allow_open=filled)
    found = choice.fit(lambda loaded: estimator.solve(loaded, chosen, ready, options))
    if choice.motion is not None:
        widths_chosen = "sign_width" in choice.settings
        # where the columns are filtered, too, a width that was given is right
        filtered = simulated or estimator.filters_columns
        cutoff = ready.info.get("cutoff") if widths_chosen or not filtered else None
        smear_at = float(cutoff) if isinstance(cutoff, int | float) else None
        smeared = reversal_covariance(model, chosen, choice.motion, found.sigma, smear_at, widths_chosen)
        found = replace(found, covariance=found.covariance + smeared)
    beta, parameters = found.beta, _lifted(chosen, found.beta, model)
    fitted = model.with_parameters(parameters)  # loads that friction grows with are those of the fit
    notices += [
        *found.notices,
        *delay_notices(fitted, chosen, ready, found),
        *excitation_notices(fitted, chosen, found),
    ]
    settings |= found.settings
    if consistent:
        known = prior_parameters(model, prior, (robot, before))
        beta, parameters, more, chosen_weight = consistent_model(model, chosen, found, ready, known, prior_kind)
        notices += more
        settings |= chosen_weight
    return Estimate(
        replace(model.with_parameters(parameters), notices=()),
        chosen,
        beta,
        found.covariance,
        found.sigma,
        method,
        consistent,
        found.condition,
        len(ready),
        tuple(notices),
        settings,
    )


def _prepared(robot: Robot, recording: Recording, notices: list[Any], needs_ddq: bool) -> Recording:
    ready = in_joint_order(robot, recording)
    if ready.tau is None:
        raise MinidynError("identification needs measured torques; the recording has none")
    if ready.dq is None or (ready.ddq is None and needs_ddq):
        from minidyn.recording.prepare.prepare import prepare

        ready = prepare(robot, ready)
        notices.append("the recording was prepared with default settings, as told below")
    notices += list(ready.notices)
    return ready


def in_joint_order(robot: Robot, recording: Recording) -> Recording:
    """Return the recording with its columns in the robot's order, where its names allow."""
    names = recording.joint_names
    if names == robot.joint_names:
        return recording
    if recording.n != robot.n:
        raise MinidynError(
            f"the recording has {recording.n} joints ({', '.join(names[:8])}), robot {robot.name!r} has {robot.n} "
            f"({', '.join(robot.joint_names[:8])})"
        )
    if set(names) != set(robot.joint_names):
        for name in robot.joint_names:
            if name in names:  # some names fit, so the others are mistakes
                wrong = next(other for other in names if other not in robot.joint_names)
                raise UnknownName(f"joint of robot {robot.name!r} in the recording:", wrong, robot.joint_names)
        return recording  # names of another kind: taken by position
    order = [names.index(name) for name in robot.joint_names]
    signals: dict[str, Any] = {}
    for name in ("q", "tau", "dq", "ddq"):
        array = getattr(recording, name)
        signals[name] = None if array is None else array[:, order]
    return Recording(
        recording.t,
        **signals,
        joint_names=robot.joint_names,
        starts=recording.starts,
        telemetry={k: v[:, order] if v.shape[1:] == (robot.n,) else v for k, v in recording.telemetry.items()},
        notices=recording.notices,
        info=recording.info,
    )


def _lifted(base: BaseMap, beta: Array, robot: Robot) -> Array:
    """Return standard parameters with these base values, the regrouped ones as the robot knows them."""
    regrouped = robot.parameters[list(robot.layout.indices(base.regrouped))]
    return np.asarray(base.lift(beta, np.nan_to_num(regrouped)), dtype=float)
