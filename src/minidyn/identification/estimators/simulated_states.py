"""Simulating and fitting in turns: the states of the current model give the next fit, that fit the next model.

With the controller that drove the robot, and the reference it followed, the loop is closed around the current model:
the simulated states are free of measurement noise, and with the true model they are the true ones. Without a controller
the model is led along the smoothed motion by computed torque. That law cancels the model it is made of, so the
simulated robot follows its reference exactly whatever the parameters are: nothing needs to be integrated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.controller import Controller
from minidyn.dynamics.functions import inertia_matrix
from minidyn.errors import MinidynError
from minidyn.identification.estimators.closed_loop import Simulation, simulated
from minidyn.identification.estimators.linear_system import SystemFit
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

_PASSES = 15
_LEAST_STEP = 0.1
_SETTLED = 0.01  # standard deviations


@dataclass(frozen=True)
class Settled:
    """Where simulating and fitting in turns ended.

    Attributes:
        found: The last fit.
        simulation: The last simulation.
        first: The first one, with the model of the first fit.
        passes: How many there were.
        change: Largest change of a base parameter in the last one, in standard deviations.
    """

    found: SystemFit
    simulation: Simulation
    first: Simulation
    passes: int
    change: float

    @property
    def notices(self) -> tuple[str, ...]:
        """A warning where the fits still change by more than their uncertainty."""
        if self.change <= 1.0:
            return ()
        return (f"the simulated model did not settle within {self.passes} passes: take the result with care",)


def settled(
    robot: Robot,
    base: BaseMap,
    recording: Recording,
    controller: Controller,
    start: SystemFit,
    refit: Callable[[Simulation], SystemFit],
) -> Settled:
    """Simulate the model in the robot's place and fit it anew along the simulated states, until nothing changes.

    Args:
        robot: The robot; its values serve for what base parameters leave open.
        base: Its base parameters.
        recording: With its reference as telemetry "q_d".
        controller: What drove the robot.
        start: A first fit.
        refit: From a simulation to the next fit.
    """
    # found.beta is what a simulation with tried.beta leads to; the two agree where all is settled
    first = simulation = simulated(_model_of(robot, base, start, recording.q), controller, recording)
    tried, found = start, refit(simulation)
    change, passes, step = _change(tried, found), 1, 1.0
    while change > _SETTLED and passes < _PASSES:
        tried = replace(found, beta=tried.beta + step * (found.beta - tried.beta))
        simulation = simulated(_model_of(robot, base, tried, recording.q), controller, recording)
        before, change, found = change, _change(tried, after := refit(simulation)), after
        # a soft loop answers to parameters with other states, and full steps swing
        step = max(0.5 * step, _LEAST_STEP) if change > 0.7 * before else min(1.0, 1.5 * step)
        passes += 1
    return Settled(found, simulation, first, passes, change)


def _change(before: SystemFit, after: SystemFit) -> float:
    """Largest change of a base parameter, in standard deviations."""
    deviation = np.sqrt(np.maximum(np.diag(after.covariance), 1e-300))
    return float(np.abs((after.beta - before.beta) / deviation).max(initial=0.0))


def can_simulate(recording: Recording, controller: Controller | None) -> bool:
    """Say whether the loop can be closed: the controller is known, and the recording has its reference.

    Raises:
        MinidynError: A controller is given, but no reference, or it is for another robot.
    """
    if controller is None:
        return False
    reference = recording.telemetry.get("q_d")
    if reference is None or reference.shape != recording.q.shape:
        raise MinidynError(
            "controller: to simulate the loop the recording must hold the reference as telemetry q_d, one column for "
            "each joint; leave controller out to be led along the recorded motion"
        )
    if controller.robot.n != recording.n:
        raise MinidynError(f"controller: made for {controller.robot.n} joints, the recording has {recording.n}")
    return True


def _model_of(robot: Robot, base: BaseMap, found: SystemFit, positions: Array) -> Robot:
    """Return a robot with the fitted base parameters that can be simulated.

    Where they make an inertia matrix that is not positive somewhere along positions (N, n), the possible robot nearest
    to the data stands in.
    """
    regrouped = robot.parameters[list(robot.layout.indices(base.regrouped))]
    model = robot.with_parameters(np.asarray(base.lift(found.beta, np.nan_to_num(regrouped)), dtype=float))
    thinned = positions[:: max(1, len(positions) // 200)]
    M = inertia_matrix(model, thinned)
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    if np.all(diagonal > 0):
        root = np.sqrt(diagonal)
        if np.linalg.eigvalsh(M / (root[:, :, None] * root[:, None, :]))[:, 0].min() > 1e-6:
            return model
    from minidyn.identification.consistency.consistency import make_consistent

    return robot.with_parameters(make_consistent(robot, base, found.R, found.z).phi)
