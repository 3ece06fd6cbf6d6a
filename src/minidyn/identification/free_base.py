"""Identification of a robot with a free base, from what such robots measure.

The six rows of the base say what moves the whole robot: the sum of all forces from outside, which
force plates, wrist or foot sensors measure. Their rank is that of all rows, so that torques of
joints are not needed; where they are measured, too, both count. Rotors and friction show in the
torques of joints alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import memory_columns
from minidyn.dynamics.group import check_quaternions
from minidyn.errors import MinidynError, ShapeError, UnknownParameters, Unsupported
from minidyn.identification.consistency.consistency import consistent_model
from minidyn.identification.consistency.prior import as_prior, knows_a_body, prior_parameters
from minidyn.identification.diagnose.meaningless import has_enough
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.method import Options
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.estimators.torque_scatter import SCATTER, torque_scatter
from minidyn.identification.inputs import lifted
from minidyn.identification.rows.base_rows import fitted_base, observing
from minidyn.identification.select import starting_model
from minidyn.identification.settings import Settings
from minidyn.model.robot import BASE_ROWS, Robot
from minidyn.notices import Notice, info
from minidyn.recording.measured import UNMEASURED, silenced, torques_measured
from minidyn.recording.recording import Recording

_METHODS = ("ols", "wls", "irls")
_KNOWN = ("method", "friction", "auto", "rotor_inertia", "prior", "prior_kind", "consistent")

BASE_ALONE = info(
    "identify.base_rows_alone",
    "Torques of joints are not measured: the six rows of the base identify the links. Drives do "
    "not show in these rows, and are left out of the model.",
)
PLAIN_TERMS = info(
    "identify.plain_terms",
    "With a free base drive terms are not chosen from the data: plain ones were fitted.",
    "Name others with friction=[...].",
)


def identify_free_base(
    robot: Robot, recording: object, base: BaseMap | None, settings: Settings, options: Options
) -> Estimate:
    """Return the estimate of a robot with a free base.

    Args:
        robot: The robot.
        recording: A Recording in memory with q (N, nq), dq and ddq. The first six columns of tau
            are the sum of all wrenches from outside, about the origin of the base and in its frame;
            the others torques of joints, those of contacts included, NaN where not measured.
        base: Base parameters to estimate; None: found exactly.
        settings: Methods "ols", "wls" and "irls", drive terms by name, priors and consistency.
        options: What an estimator may use.

    Raises:
        Unsupported: An option, or a kind of recording, that does not know a free base yet.
    """
    _check_settings(robot, settings)
    log = _checked_log(robot, recording)
    measured, notices = torques_measured(log), list[Notice]()
    if base is not None:
        model = base.robot.with_parameters(robot.parameters)
    elif any(measured[len(BASE_ROWS) :]):
        model = starting_model(robot, settings.replace(auto=False))
        if settings.terms != settings.replace(auto=False).terms:
            notices.append(PLAIN_TERMS("drive terms are not chosen with a free base: plain ones"))
    else:
        model = robot.with_drives(False, ())
        text = "torques of joints are not measured: the rows of the base identify the links"
        notices.append(BASE_ALONE(text))
    if memory_columns(model):
        raise Unsupported(
            "drive terms that remember (presliding, breakaway) do not go together with a free base "
            "yet: name others, friction=[...]"
        )
    model = model.with_measured_torques(measured)
    start = fitted_base(model) if base is None else observing(base, measured)
    known = prior_parameters(model, as_prior(settings.prior), (robot,))
    is_filled = has_enough(model, start, log, settings.consistent and knows_a_body(model, known))
    is_open = is_filled or not all(measured)
    method = METHODS[settings.method]
    solution = method.solve(model, start, log, replace(options, allow_open=is_open))
    record: dict[str, Any] = {"method": method.name, "samples": len(log), **solution.record}
    beta, parameters = solution.beta, lifted(start, solution.beta, model)
    covariance, own = solution.covariance, solution.of_log
    notices += solution.notices
    if settings.consistent:
        physical = consistent_model(model, start, solution, log, known, settings.prior_kind)
        notices += physical.notices
        record |= physical.record
        beta, parameters = physical.fit.beta, physical.fit.phi
        covariance = np.asarray(physical.fit.covariance)
        own = np.asarray(physical.fit.own_covariance)
    whole = replace(model.with_measured_torques(None).with_parameters(parameters), notices=())
    noise = solution.sigma
    scatter = torque_scatter(log, whole, whole, noise, len(beta))[SCATTER]
    record[SCATTER] = {kind: np.where(measured, std, np.inf) for kind, std in scatter.items()}
    return Estimate(
        robot=whole,
        base=observing(start, None),
        beta=beta,
        covariance=covariance,
        sigma=np.where(measured, noise, np.inf),
        method=method.name,
        consistent=settings.consistent,
        condition=solution.condition,
        samples=len(log),
        notices=tuple(notices),
        record=record,
        data_covariance=solution.covariance if settings.consistent else None,
        log_covariance=own,
        settings=settings,
    )


def _check_settings(robot: Robot, settings: Settings) -> None:
    """Refuse options that a free base does not know yet."""
    if settings.method not in _METHODS:
        raise Unsupported(
            f"method {settings.method!r} does not know a free base yet; expected one of "
            f"{', '.join(_METHODS)}"
        )
    usual = Settings(method=settings.method)
    other = [
        name
        for name in vars(usual)
        if name not in _KNOWN and getattr(settings, name) != getattr(usual, name)
    ]
    if other:
        raise Unsupported(
            f"robot {robot.name!r} has a free base, for which these options are not supported yet: "
            f"{', '.join(other)}"
        )


def _checked_log(robot: Robot, recording: object) -> Recording:
    """Return a log of numbers, which says the torques of which joints are not measured."""
    if not isinstance(recording, Recording) or recording.dq is None or recording.ddq is None:
        raise Unsupported(
            f"robot {robot.name!r} has a free base: give a Recording in memory with q, dq and ddq; "
            "logs on disk and raw ones, which must be prepared, are not supported yet"
        )
    if recording.joint_names != robot.joint_names or recording.q.shape[1] != robot.nq:
        raise ShapeError(
            f"the recording has {recording.q.shape[1]} positions and the rows "
            f"{', '.join(recording.joint_names[:7])} ...; expected {robot.nq} positions and, as "
            f"joint_names, robot.joint_names: {', '.join(robot.joint_names[:7])} ..."
        )
    recording = recording.with_numbers(("q", "dq", "ddq"))
    check_quaternions(robot, "identify", recording.q)
    if recording.tau is None or not np.isfinite(recording.tau[:, : len(BASE_ROWS)]).all():
        raise UnknownParameters(
            "the first six columns of tau must be numbers: the sum of all wrenches from outside on "
            "the base, about its origin and in its frame"
        )
    lost = ~np.isfinite(recording.tau)
    partly = lost.any(axis=0) & ~lost.all(axis=0)
    if partly.any():
        name = recording.joint_names[int(np.argmax(partly))]
        raise UnknownParameters(
            f"some torques of joint {name!r} are no numbers; cut these samples out, or make all of "
            "them NaN, which says that they are not measured"
        )
    if not np.any(np.nan_to_num(recording.tau)):
        raise MinidynError(
            "all wrenches and torques are zero: motion alone shows how masses are distributed, not "
            "how large they are; measure a force or the torque of a joint"
        )
    never = np.flatnonzero(lost.all(axis=0)).tolist()
    names = tuple(recording.joint_names[k] for k in never)
    return silenced(replace(recording, info={**recording.info, UNMEASURED: names}))
