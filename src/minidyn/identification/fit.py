"""From a ready log to a model: select, solve, make physically consistent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.display import announce
from minidyn.identification.consistency.consistency import ConsistentModel, consistent_model
from minidyn.identification.consistency.knowledge import knowledge_of
from minidyn.identification.diagnose.excitation import with_shown_condition
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.held_out import held_out_variance, model_error
from minidyn.identification.estimators.method import Solution
from minidyn.identification.estimators.torque_scatter import torque_scatter
from minidyn.identification.flexibility import Bending
from minidyn.identification.friction.loads import Step, settle
from minidyn.identification.friction.per_log import LogsSolution, solve_per_log
from minidyn.identification.inputs import Inputs, lifted
from minidyn.identification.rows.base_rows import observing, remembering
from minidyn.identification.select import Choice, seen, select
from minidyn.identification.selection import Decision, Selection
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import SKETCH, without_sketch
from minidyn.recording.sketch import sketch_of


@dataclass(frozen=True, eq=False)
class Model:
    """What became of a fit.

    Attributes:
        data: What was fitted to.
        choice: Terms and shapes, and all that was tried.
        solution: What the estimator made of the data.
        beta: Base parameters (b,).
        parameters: Standard parameters (p,).
        covariance: Of beta (b, b).
        log_covariance: The part of it that another log does not share.
        notices: What a reader should know.
        record: What was chosen beside the terms.
        decisions: Scales of the prior that were tried.
    """

    data: AnyRecording
    choice: Choice
    solution: Solution
    beta: Array
    parameters: Array
    covariance: Array
    log_covariance: Array
    notices: tuple[Notice, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()


def fit_flexible(inputs: Inputs) -> Model:
    """Return the model of the data; of flexible joints until their compliances settle."""
    model = fit(inputs, inputs.data)
    if inputs.settings.flexibility is None:
        return model
    bending = Bending(inputs.settings.flexibility, inputs.data, inputs.options.allow_open)
    while bending.again(model.choice.robot.with_parameters(model.parameters), model.choice.base):
        model = fit(inputs, bending.data)  # without the torque of flexible joints
    return replace(
        model,
        solution=bending.told(model.solution),
        covariance=bending.widened(model.covariance),
    )


def fit(inputs: Inputs, data: AnyRecording) -> Model:
    """Return the model of data: terms chosen, base parameters solved, bodies that can exist."""
    owners = inputs.robot, inputs.model
    announce("phase", "choosing terms")
    choice = select(inputs.model, inputs.base, data, inputs.settings, inputs.limits, owners)
    announce("phase", "solving")
    settled = choice.solution(partial(_solved, inputs, choice, data))
    solution = choice.with_shape_uncertainty(settled.made, inputs.limits.is_filtered)
    if not inputs.settings.consistent:
        parameters = lifted(choice.base, solution.beta, choice.robot)
        both = solution.covariance, solution.of_log
        return Model(data, choice, solution, solution.beta, parameters, *both, settled.doubts)
    announce("phase", "making the model consistent")
    return _physical(inputs, choice, data, solution, is_settled=not settled.doubts)


def _solved(inputs: Inputs, choice: Choice, data: AnyRecording, robot: Robot) -> Solution:
    """Return the solution of the estimator, for a robot whose loads are known."""
    method, options = inputs.method, inputs.options
    ready = remembering(robot, choice.ready(data))
    if inputs.settings.friction_per is None:
        solution = method.solve(robot, choice.base, ready, options)
    else:
        solution = solve_per_log(method.solve, robot, choice.base, ready, options)
    return with_shown_condition(robot, choice.base, solution)


def _physical(
    inputs: Inputs, choice: Choice, data: AnyRecording, solution: Solution, is_settled: bool
) -> Model:
    """Return the consistent model nearest to a solution; with load friction until loads settle."""
    physical = _Physical(inputs, choice, data)
    motion = choice.motion
    if not choice.has_load or motion is None:
        return physical.step(solution).made
    first = physical.step(solution) if is_settled else None
    parameters = lifted(choice.base, solution.beta, choice.robot)
    settled = settle(choice.robot, motion, parameters, physical.refit, first)
    return replace(settled.made, notices=(*settled.made.notices, *settled.doubts))


@dataclass(eq=False)
class _Physical:
    """Consistent models of one choice; the prior's scale is that of the second fit."""

    inputs: Inputs
    choice: Choice
    data: AnyRecording
    models: list[ConsistentModel] = field(default_factory=list)

    def refit(self, robot: Robot) -> Step[Model]:
        """Fit with the loads of a robot's parameters."""
        solution = _solved(self.inputs, self.choice, self.data, robot)
        return self.step(
            self.choice.with_shape_uncertainty(solution, self.inputs.limits.is_filtered)
        )

    def step(self, solution: Solution) -> Step[Model]:
        """Return the consistent model of a solution."""
        chosen = self.models[-1].record if len(self.models) > 1 else None
        choice = self.choice
        made = consistent_model(
            choice.robot,
            choice.base,
            solution,
            self.data,
            self.inputs.prior(choice.robot),
            self.inputs.settings.prior_kind,
            chosen,
            knowledge_of(choice.robot, self.inputs.settings),
        )
        decisions = made.decisions if chosen is None else self.models[-1].decisions
        self.models.append(made._replace(decisions=decisions))
        fit = made.fit
        model = Model(
            data=self.data,
            choice=choice,
            solution=solution,
            beta=fit.beta,
            parameters=fit.phi,
            covariance=np.asarray(fit.covariance),
            log_covariance=np.asarray(fit.own_covariance),
            notices=tuple(made.notices),
            record=made.record,
            decisions=tuple(decisions),
        )
        return Step(model, fit.phi, solution.sigma)


def estimate_of(
    inputs: Inputs, model: Model, notices: Sequence[Notice], measured: Sequence[bool]
) -> Estimate:
    """Return the estimate of a model, with the record of what was chosen."""
    choice, solution, data = model.choice, model.solution, model.data
    settings, beta = inputs.settings, model.beta
    record: dict[str, Any] = {"method": inputs.method.name, "samples": len(data)}
    if preparation := without_sketch(data.info):
        record["preparation"] = preparation  # validation prepares raw recordings alike
    if (sketch := sketch_of(data)) is not None:
        record[SKETCH] = sketch.to_json()
    record |= {**choice.record, **solution.record, **model.record}
    rows = (*inputs.decisions, *choice.selection, *model.decisions)
    record["selection"] = Selection(rows).to_json()
    if isinstance(solution, LogsSolution):
        record |= solution.record_of(beta, settings.consistent)
    noise_std = solution.sigma
    if solution.left is not None:
        noise_std = np.maximum(noise_std, solution.left(beta))
    low_passed, as_it_is = choice.robot.with_parameters(model.parameters), seen(choice, 0.0)
    whole = as_it_is.robot.with_measured_torques(None).with_parameters(model.parameters)
    whole = replace(whole, notices=())
    held_out = held_out_variance(solution, beta, model.covariance)
    record |= model_error(solution, beta, held_out)
    has_own = settings.friction_per is not None
    record |= torque_scatter(data, low_passed, whole, noise_std, len(beta), has_own, held_out)
    return Estimate(
        robot=whole,
        base=observing(as_it_is.base, None),
        beta=beta,
        covariance=model.covariance,
        sigma=np.where(measured, noise_std, np.inf),
        method=inputs.method.name,
        consistent=settings.consistent,
        condition=solution.condition,
        samples=len(data),
        notices=tuple(notices),
        record=record,
        data_covariance=solution.covariance if settings.consistent else None,
        log_covariance=model.log_covariance,
    )
