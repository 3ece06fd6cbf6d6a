"""A model simulated in the robot's place.

Same controller, same reference, run by run, on the controller's clock. Simulating and fitting take
turns: the states of the current model give the next fit, that fit the next model. The simulated
states are free of measurement noise, and with the true model they are the true ones. Without a
controller the model is led along the smoothed motion by computed torque. That law cancels the model
it is made of, so the simulated robot follows its reference exactly whatever the parameters are:
nothing needs to be integrated.

Direct and inverse dynamic identification compares the torque that the simulated model needs with
the measured one: Gautier, Janot and Vandanjon, "A new closed-loop output error method for parameter
identification of robot dynamics" (IEEE Trans. Control Systems Technology 21, 2013). Because the
loop holds simulated states near the true ones whatever the parameters, the torque depends on them
nearly as the inverse model along those states does, and each Gauss-Newton step is a linear
least-squares fit along them. Measured speeds and accelerations are not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.controller import Controller
from minidyn.dynamics.functions import inertia_matrix
from minidyn.errors import MinidynError
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.estimators.linear_system import SystemFit, fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import (
    PIECE,
    States,
    best_states,
    motion_band,
    states_of,
    torque_rows,
)
from minidyn.identification.rows.base_rows import signals_of, steady_regressor
from minidyn.identification.rows.pieces import Piece, Pieces
from minidyn.identification.rows.triangles import STRETCHES
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, info
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.recording import Recording
from minidyn.simulation.simulate import simulate_batch
from minidyn.simulation.trajectory import sampled

UNSETTLED = error(
    "identify.unsettled",
    "Simulating the model and fitting it anew did not come to rest.",
    'Check the controller and its gains, or use "wls" or "iv" without a controller.',
)
NO_CONTROLLER = info(
    "identify.no_controller",
    'Method "didim" had no controller to simulate; it is weighted least squares along smoothed '
    "states then.",
    "Give the controller that drove the robot, and its reference as telemetry q_d.",
)

_PASSES = 15  # size: simulations at most
_LEAST_STEP = 0.1  # of a full step, which swings where a soft loop answers with other states
_SETTLED = 0.01  # standard deviations by which a base parameter may still move
_FORGOTTEN = 0.01  # share of a difference at the start that may be left where a simulation counts


@dataclass(frozen=True)
class SimulatedRun:
    """One run on the controller's clock, from the run's first sample on."""

    q: Array  # (M, n)
    dq: Array  # (M, n)
    ddq: Array  # (M, n)
    period: float  # between steps, s
    settled: int  # steps after which the state it started from is forgotten

    def steps(self, t: Array) -> NDArray[np.intp]:
        """Return the steps nearest to times (N,) since the run's first sample."""
        return np.clip(np.rint(t / self.period).astype(np.intp), 0, len(self.q) - 1)


@dataclass(frozen=True)
class Simulation:
    """All runs of a recording, simulated."""

    runs: tuple[SimulatedRun, ...]  # one for each run
    law: str  # name of the controller

    def states(self, recording: Recording) -> States:
        """Return the states at the samples of the recording."""
        parts = []
        for run, made in zip(recording.runs, self.runs):
            t = run.t - run.t[0]
            near = made.steps(t)
            late = (t - made.period * near)[
                :, None
            ]  # samples need not lie on the controller's clock
            q, dq, ddq = made.q[near], made.dq[near], made.ddq[near]
            parts.append(
                (q + late * dq + 0.5 * late**2 * ddq, dq + late * ddq, ddq, near >= made.settled)
            )
        return states_of(recording, parts, f"simulated under {self.law}")


def simulated(model: Robot, controller: Controller, recording: Recording) -> Simulation:
    """Simulate a model under the controller along the recorded reference (telemetry "q_d").

    Each run is simulated twice, from its own first state, as a cubic through its first samples sees
    it, and from the reference: where the two agree, the start is forgotten.
    """
    motion, _ = motion_band(recording)
    return Simulation(
        tuple(_run(model, controller, run, motion) for run in recording.runs), controller.name
    )


def _run(model: Robot, controller: Controller, run: Recording, motion: float) -> SimulatedRun:
    if len(run) < 20:
        raise MinidynError(
            f"a run of {len(run)} samples is too short to be simulated; at least 20 are needed"
        )
    t = np.asarray(run.t - run.t[0], dtype=float)
    wanted = np.asarray(run.telemetry["q_d"], dtype=float)
    trajectory = sampled(t, wanted)
    q_d, dq_d, _ = trajectory(0.0)
    error, rate = _start(t, run.q - wanted, motion)
    period = controller.period
    duration = math.ceil(t[-1] / period - 1e-6) * period
    q0, dq0 = np.stack([q_d + error, q_d]), np.stack([dq_d + rate, dq_d])
    logs = simulate_batch(model, controller, trajectory, duration, dt=period, q0=q0, dq0=dq0)
    q, dq, ddq = logs[0].telemetry["q_true"], logs[0].telemetry["dq_true"], np.asarray(logs[0].ddq)
    apart = np.abs(dq - logs[1].telemetry["dq_true"])
    far = np.flatnonzero(np.any(apart > _FORGOTTEN * np.maximum(apart.max(axis=0), 1e-300), axis=1))
    settled = int(far[-1]) + 1 if len(far) else 0
    # a loop that keeps differences alive (friction that sticks at other places) forgets slowly:
    # half a run is the most
    return SimulatedRun(q, dq, ddq, period, min(settled, len(q) // 2))


def _start(t: Array, error: Array, motion: float) -> tuple[Array, Array]:
    """Return the deviation from the reference and its rate at the first sample, from a cubic
    through the beginning.
    """
    length = 1.0 / (10.0 * motion) if motion > 0 else t[-1]
    count = int(np.clip(np.searchsorted(t, length), 12, len(t)))
    s = t[:count] / t[count - 1]
    coefficients, *_ = np.linalg.lstsq(s[:, None] ** np.arange(4), error[:count], rcond=None)
    return coefficients[0], coefficients[1] / t[count - 1]


def simulated_rows(
    robot: Robot, base: BaseMap, recording: Recording, simulation: Simulation
) -> Pieces:
    """Return rows of torque along a simulation.

    Where the measured torque was low-passed, so are the columns. Torque jumps where friction
    reverses, and simulated states show that jump: both sides must see the same filter.
    """
    return partial(_rows, robot, base, recording, simulation)


def _rows(
    robot: Robot, base: BaseMap, recording: Recording, simulation: Simulation
) -> Iterator[Piece]:
    cutoff, order = recording.info.get("cutoff"), recording.info.get("order", 4)
    if not isinstance(cutoff, float) or not isinstance(order, int):
        cutoff, order = math.inf, 4
    for run, made, start in zip(recording.runs, simulation.runs, recording.starts):
        (tau,) = signals_of(run, "tau")
        t = run.t - run.t[0]
        near = made.steps(t)
        rate = 1.0 / made.period
        filtered = cutoff < 0.45 * rate
        # the run's ends, where the filter sees no more motion
        margin = math.ceil(rate / cutoff) if filtered else 0
        overlap = 6 * margin
        inside = np.flatnonzero((near >= made.settled + margin) & (near < len(made.q) - margin))
        length = max(1, min(PIECE, -(-len(run) // STRETCHES)))
        for begin in range(0, len(inside), length):
            rows = inside[begin : begin + length]
            at = steps = near[rows]
            if filtered:
                at = np.arange(
                    max(0, steps[0] - overlap), min(len(made.q), steps[-1] + overlap + 1)
                )
            W = steady_regressor(robot, base, made.q[at], made.dq[at], made.ddq[at])
            if filtered:
                W = lowpass(W, rate, cutoff, order)[steps - at[0]]
            yield Piece(W, tau[rows], run.t[rows], (start + int(rows[0])) / len(recording))


@dataclass(frozen=True)
class Settled:
    """Where simulating and fitting in turns ended."""

    found: SystemFit  # the last fit
    simulation: Simulation  # the last simulation
    first: Simulation  # the first one, with the model of the first fit
    passes: int  # how many there were
    change: float  # largest change of a base parameter in the last one, in standard deviations

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A warning where the fits still change by more than their uncertainty."""
        if self.change <= 1.0:
            return ()
        text = (
            f"simulation and fit did not settle within {self.passes} passes: parameters still "
            f"change by {self.change:.2g} standard deviations"
        )
        return (UNSETTLED(text, passes=self.passes, change=self.change),)


def settled(
    start: SystemFit,
    simulate: Callable[[SystemFit], Simulation],
    refit: Callable[[Simulation], SystemFit],
) -> Settled:
    """Simulate the model in the robot's place and fit it anew along the simulated states, until
    nothing changes.
    """
    # found.beta is what a simulation with tried.beta leads to; the two agree where all is settled
    first = simulation = simulate(start)
    tried, found = start, refit(simulation)
    change, passes, step = _change(tried, found), 1, 1.0
    while change > _SETTLED and passes < _PASSES:
        tried = replace(found, beta=tried.beta + step * (found.beta - tried.beta))
        simulation = simulate(tried)
        before, change, found = change, _change(tried, after := refit(simulation)), after
        # a soft loop answers to parameters with other states, and full steps swing
        step = max(0.5 * step, _LEAST_STEP) if change > 0.7 * before else min(1.0, 1.5 * step)
        passes += 1
    return Settled(found, simulation, first, passes, change)


def simulator(
    robot: Robot, base: BaseMap, recording: Recording, controller: Controller
) -> Callable[[SystemFit], Simulation]:
    """Return what simulates fits of a recording (with its reference as telemetry "q_d") under its
    controller.

    The robot's own values serve for what base parameters leave open.

    Raises:
        MinidynError: There is no reference, or the controller is for another robot.
    """
    reference = recording.telemetry.get("q_d")
    if reference is None or reference.shape != recording.q.shape:
        raise MinidynError(
            "controller: to simulate the loop the recording must hold the reference as telemetry "
            "q_d, one column for each joint; leave controller out to be led along the recorded "
            "motion"
        )
    if controller.robot.n != recording.n:
        raise MinidynError(
            f"controller: made for {controller.robot.n} joints, the recording has {recording.n}"
        )
    return lambda tried: simulated(
        _model_of(robot, base, tried, recording.q), controller, recording
    )


def _change(before: SystemFit, after: SystemFit) -> float:
    """Largest change of a base parameter, in standard deviations."""
    deviation = np.sqrt(np.maximum(np.diag(after.covariance), 1e-300))
    return float(np.abs((after.beta - before.beta) / deviation).max(initial=0.0))


def _model_of(robot: Robot, base: BaseMap, found: SystemFit, positions: Array) -> Robot:
    """Return a robot with the fitted base parameters that can be simulated.

    Where they make an inertia matrix that is not positive somewhere along positions (N, n), the
    consistent robot nearest to the data replaces it.
    """
    regrouped = robot.parameters[list(robot.layout.indices(base.regrouped))]
    model = robot.with_parameters(
        np.asarray(base.lift(found.beta, np.nan_to_num(regrouped)), dtype=float)
    )
    thinned = positions[:: max(1, len(positions) // 200)]
    M = inertia_matrix(model, thinned)
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    if np.all(diagonal > 0):
        root = np.sqrt(diagonal)
        if np.linalg.eigvalsh(M / (root[:, :, None] * root[:, None, :]))[:, 0].min() > 1e-6:
            return model
    return robot.with_parameters(make_consistent(robot, base, found.R, found.z).phi)


def didim(robot: Robot, base: BaseMap, recording: AnyRecording, options: Options) -> Solution:
    """Estimate base parameters by the torques of a simulation in closed loop."""
    whole = recording.load()
    states = best_states(robot, base, whole)
    found = fit_system(base, torque_rows(robot, base, states), options.allow_open)
    origin, passes = states.origin, 0
    if options.controller is not None:

        def along(simulation: Simulation) -> SystemFit:
            return fit_system(
                base, simulated_rows(robot, base, whole, simulation), options.allow_open
            )

        end = settled(found, simulator(robot, base, whole, options.controller), along)
        found, origin, passes, notices = (
            end.found,
            f"simulated under {end.simulation.law}",
            end.passes,
            end.notices,
        )
    else:
        text = f"no controller was given: torques are compared along states {origin}"
        notices = (NO_CONTROLLER(text, states=origin),)
    return found.solution(notices, {"states": origin, "passes": passes}, options, len(whole))


DIDIM = Method("didim", didim, takes_controller=True, simulates_torque=True, needs_all_torques=True)
