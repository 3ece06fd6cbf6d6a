"""The closed loop, step by step.

What is measured, what the controller answers, how the robot moves on. Time goes on by classical
fourth-order Runge-Kutta, or by SciPy's adaptive solver between two samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, refuse_beyond_memory
from minidyn.control.controller import UNSTABLE, Controller, Measurement
from minidyn.dynamics.functions import inertia_matrix
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.model.drives import FRICTION
from minidyn.model.robot import Robot
from minidyn.simulation.plants import Plant, Push, RememberingPlant
from minidyn.simulation.trajectory import Trajectory, along, hold

REFERENCE = ("q_d", "dq_d", "ddq_d")

Flow: TypeAlias = Callable[[float, Array, Array, Array], tuple[Array, Array, Array]]
"""(t, q, dq, estimate) -> (ddq, tau, time derivative of the estimate)."""


class Setup:
    """A checked request."""

    def __init__(
        self,
        robot: Robot,
        controller: Controller | None,
        trajectory: Trajectory | None,
        duration: float,
        dt: float,
        q0: ArrayLike | None,
        dq0: ArrayLike | None,
        control: str,
        solver: str,
        delay: float,
        batches: bool = False,
        log_estimates: bool = True,
        here: bool = True,
    ) -> None:
        if control not in ("sampled", "continuous"):
            raise UnknownName("control", control, ("sampled", "continuous"))
        if solver not in ("rk4", "adaptive"):
            raise UnknownName("solver", solver, ("rk4", "adaptive"))
        for name, value in (("duration", duration), ("dt", dt)):
            if not 0 < value < np.inf:
                raise MinidynError(f"simulate: {name} must be positive, got {value!r}")
        runs = 1 if q0 is None or not batches else max(1, np.size(q0) // max(robot.n, 1))
        what = f"simulate: {runs} run(s) of {duration:g} s in steps of {dt:g} s"
        logs = 4.0 * runs if here else 0.0  # those on a GPU it counts itself
        refuse_beyond_memory(
            duration / dt * robot.n * (logs + 6.0), what, "simulate less at a time"
        )
        for column, value in zip(robot.layout.columns, robot.parameters):
            if column.symbol == FRICTION["load"] and value >= 1.0:
                raise MinidynError(
                    f"simulate: joint {robot.joints[column.joint].name!r}: load friction "
                    f"{column.name} is {value:.3g}, a gear that locks itself, whose motion is not "
                    "unique; expected less than 1"
                )
        if controller is not None and not hasattr(controller, "torque"):
            raise MinidynError(f"simulate: expected a controller of md.control, got {controller!r}")
        if trajectory is not None and not callable(trajectory):
            raise MinidynError(
                f"simulate: expected a trajectory t -> (q, dq, ddq), got {trajectory!r}"
            )
        if controller is not None and controller.robot.n != robot.n:
            raise MinidynError(
                f"simulate: the controller is for {controller.robot.n} joints, the robot has "
                f"{robot.n}"
            )
        self.robot, self.controller, self.dt, self.steps = (
            robot,
            controller,
            dt,
            round(duration / dt),
        )
        self.trajectory = (
            hold(np.zeros(robot.n) if q0 is None else q0) if trajectory is None else trajectory
        )
        self.continuous, self.adaptive = control == "continuous", solver == "adaptive"
        self.log_estimates = log_estimates
        q_d, dq_d, _ = self.trajectory(0.0)
        start = np.array(q_d if q0 is None else q0, dtype=float)
        speed = np.array(dq_d if dq0 is None else dq0, dtype=float)
        if batches:
            start, speed = (
                part.copy()
                for part in np.broadcast_arrays(np.atleast_2d(start), np.atleast_2d(speed))
            )
        for name, given in (("q0", start), ("dq0", speed)):
            if (
                given.shape != start.shape
                or given.shape[-1:] != (robot.n,)
                or given.ndim > 1 + batches
            ):
                expected = f"(runs, {robot.n})" if batches else f"({robot.n},)"
                raise ShapeError(f"{name}: expected shape {expected}, got {given.shape}")
        every = 1 if controller is None else round(controller.period / dt)
        if (
            controller is not None
            and not self.continuous
            and abs(every * dt - controller.period) > 1e-9 * dt
        ):
            raise MinidynError(
                f"simulate: the controller's period {controller.period:g} s is no multiple of dt "
                f"{dt:g} s"
            )
        self.q0, self.dq0, self.every, self.lag = start, speed, max(1, every), round(delay / dt)
        if delay < 0 or abs(self.lag * dt - delay) > 1e-9 * dt:
            raise MinidynError(
                f"simulate: delay {delay:g} s is no whole number of steps of {dt:g} s"
            )


def run(
    setup: Setup,
    rng: np.random.Generator,
    resolution: float,
    noise: float,
    velocity_noise: float,
    limit: Any,
    forward: tuple[Plant, Plant],
    pick_up: float,
    push: Push | None = None,
) -> dict[str, Array]:
    """Run the loop; initial positions (n,) give signals (N, n), a batch (B, n) gives (N, B, n).

    REFERENCE is (N, n).
    """
    controller, dt = setup.controller, setup.dt
    q, dq = setup.q0, setup.dq0
    shape, batch = q.shape, q.shape[:-1]
    plant, loaded = forward
    count = setup.steps + 1
    start = np.zeros(0) if controller is None else controller.start
    if controller is not None and controller.begin is not None:
        start = controller.begin(q, dq)
    estimate = np.broadcast_to(start, (*batch, start.shape[-1])).copy()
    log: dict[str, Array] = {
        name: np.empty((count, *shape)) for name in ("q_true", "dq_true", "ddq", "tau")
    }
    log["estimate"] = np.empty((count if setup.log_estimates else 1, *estimate.shape))
    times = np.asarray(dt * np.arange(count), dtype=float)
    log["t"] = times
    log |= dict(zip(REFERENCE, along(setup.trajectory, times, shape[-1])))
    between = (
        count,
        *(1,) * len(batch),
        shape[-1],
    )  # every run of a batch follows the same reference
    q_d, dq_d, ddq_d = (
        np.broadcast_to(log[name].reshape(between), (count, *shape)) for name in REFERENCE
    )
    limited = bool(np.any(np.isfinite(limit)))
    tau, ddq = np.zeros(shape), np.zeros(shape)
    for k in range(count):
        t = float(times[k])
        if t >= pick_up:
            plant = loaded
        acting = plant if push is None else push.on(setup.robot, plant, t)
        log["q_true"][k], log["dq_true"][k] = q, dq
        if setup.log_estimates:
            log["estimate"][k] = estimate
        if setup.continuous and controller is not None:
            flow = _continuous_flow(controller, setup.trajectory, acting, limit)
            ddq, tau, change = flow(t, q, dq, estimate)
        elif controller is not None and k % setup.every == 0:
            past = max(0, k - setup.lag)
            seen = Measurement(
                t,
                quantised(_blurred(log["q_true"][past], noise, rng), resolution),
                _blurred(log["dq_true"][past], velocity_noise, rng),
                log["ddq"][past - 1] if past else np.zeros(shape),
            )
            estimate, tau, answer = controller(estimate, seen, (q_d[k], dq_d[k], ddq_d[k]))
            if answer["status"].any():
                raise diverged(setup, t, log, k + 1)
            if limited:
                tau = np.clip(tau, -limit, limit)
            ddq = acting(q, dq, tau)
        else:
            ddq = acting(q, dq, tau)
        log["ddq"][k], log["tau"][k] = ddq, tau
        if not np.isfinite(ddq).all():
            raise diverged(setup, t, log, k + 1)
        if k == count - 1:
            break
        before = q
        if setup.continuous and controller is not None:
            q, dq, estimate = rk4_with_estimate(flow, t, q, dq, estimate, dt, ddq, change)
        elif setup.adaptive:
            q, dq = adaptive_step(acting, q, dq, tau, dt)
        else:
            q, dq = rk4(acting, q, dq, tau, dt, ddq)
        if isinstance(plant, RememberingPlant):
            plant.moved(before, q, dt)
    return log


def _continuous_flow(
    controller: Controller, trajectory: Trajectory, plant: Plant, limit: Any
) -> Flow:
    def flow(t: float, q: Array, dq: Array, estimate: Array) -> tuple[Array, Array, Array]:
        """Return (acceleration, torque, time derivative of the estimate)."""
        q_d, dq_d, ddq_d = trajectory(t)
        reference = (
            np.broadcast_to(q_d, q.shape),
            np.broadcast_to(dq_d, q.shape),
            np.broadcast_to(ddq_d, q.shape),
        )
        tau, signals = controller.torque(estimate, q, dq, reference)
        tau = np.clip(tau, -limit, limit)
        ddq = plant(q, dq, tau)
        if controller.adapt is None:
            return ddq, tau, np.zeros_like(estimate)
        change = controller.adapt(estimate, q, dq, ddq, reference, signals)
        return ddq, tau, controller.change_within(estimate, change)

    return flow


def _blurred(values: Array, deviation: float, rng: np.random.Generator) -> Array:
    return values if deviation == 0 else values + deviation * rng.normal(size=values.shape)


def quantised(values: Array, resolution: float) -> Array:
    """Return values as encoders of a resolution (0: perfect) give them."""
    return values if resolution == 0 else np.round(values / resolution) * resolution


def diverged(
    setup: Setup, t: float, log: Mapping[str, Array] | None = None, count: int = 0
) -> MinidynError:
    """Return the error of a run whose accelerations are no numbers from a time on.

    With the signals so far, `count` samples, the law's own condition is looked at first.
    """
    lost = "" if log is None else _lost_condition(setup, log, count)
    return MinidynError(
        f"simulate: accelerations became infinite at t = {t:.4g} s; {lost or _likely_cause(setup)}"
    )


def _lost_condition(setup: Setup, log: Mapping[str, Array], count: int) -> str:
    """Say since when a law that inverts its estimate does not have a matrix to invert."""
    controller = setup.controller
    if (
        controller is None
        or controller.stability is None
        or controller.violated is UNSTABLE
        or not setup.log_estimates
        or not count
    ):
        return ""
    states = [log[name][:count] for name in ("estimate", "q_true", "dq_true")]
    margin = np.asarray(controller.stability(setup.robot, *states)).reshape(count, -1).min(axis=1)
    below = np.flatnonzero(~(margin > 0))
    if not len(below):
        return ""
    first = int(below[0])
    kind = controller.violated
    return (
        f"the estimated inertia matrix lost its definiteness at t = {log['t'][first]:.4g} s "
        f"(smallest eigenvalue {margin[first]:.3g}). {kind.meaning} {kind.advice}"
    )


def _likely_cause(setup: Setup) -> str:
    """Say what most likely made a run diverge.

    Damping that is too strong for its sampling period, or something else. A torque that is held for
    T and answers a speed v with -D v leaves (1 - T M⁻¹ D) v after one period, which grows where an
    eigenvalue of T M⁻¹ D is above 2.
    """
    controller = setup.controller
    general = (
        "the loop is unstable or the inertia matrix singular: try a smaller dt or lower gains, "
        "and check the robot's parameters"
    )
    if controller is None or setup.continuous:
        return general
    q, dq = (np.atleast_2d(part)[0] for part in (setup.q0, setup.dq0))
    reference = tuple(
        np.broadcast_to(np.asarray(part, dtype=float), q.shape) for part in setup.trajectory(0.0)
    )
    step, n = 1e-4, len(q)
    speeds = np.concatenate([dq[None], dq + step * np.eye(n)])
    law = controller.torque
    held = [
        np.asarray(law(controller.start, q, speed, reference)[0])  # type: ignore[arg-type]
        for speed in speeds
    ]
    damping = np.stack([(held[0] - torque) / step for torque in held[1:]], axis=1)
    M = inertia_matrix(setup.robot, q)
    if not np.all(np.isfinite(damping)) or np.linalg.matrix_rank(M) < n:
        return general
    values, directions = np.linalg.eig(controller.period * np.linalg.solve(M, damping))
    worst = int(np.argmax(np.abs(values)))
    if abs(values[worst]) <= 2.0:
        return general
    joint = setup.robot.joint_names[int(np.argmax(np.abs(directions[:, worst])))]
    return (
        f"the controller damps joint {joint!r} too strongly for its period of "
        f"{controller.period:g} s: it takes away {abs(values[worst]):.3g} times the speed in one "
        "period, and more than 2 times grows without end. Give gains in proportion to each "
        "joint's inertia (md.inertia_matrix), or a shorter period"
    )


def rk4(plant: Plant, q: Array, dq: Array, tau: Array, dt: float, a1: Array) -> tuple[Array, Array]:
    """Return (q, dq) after dt under a constant torque; a1 is the acceleration now."""
    half = dt / 2
    v2 = dq + half * a1
    a2 = plant(q + half * dq, v2, tau)
    v3 = dq + half * a2
    a3 = plant(q + half * v2, v3, tau)
    v4 = dq + dt * a3
    a4 = plant(q + dt * v3, v4, tau)
    return q + dt / 6 * (dq + 2 * (v2 + v3) + v4), dq + dt / 6 * (a1 + 2 * (a2 + a3) + a4)


def rk4_with_estimate(
    flow: Flow, t: float, q: Array, dq: Array, estimate: Array, dt: float, a1: Array, e1: Array
) -> tuple[Array, Array, Array]:
    """Return (q, dq, estimate) after dt.

    a1 and e1 are the derivatives of speed and estimate now.
    """
    half = dt / 2
    v2 = dq + half * a1
    a2, _, e2 = flow(t + half, q + half * dq, v2, estimate + half * e1)
    v3 = dq + half * a2
    a3, _, e3 = flow(t + half, q + half * v2, v3, estimate + half * e2)
    v4 = dq + dt * a3
    a4, _, e4 = flow(t + dt, q + dt * v3, v4, estimate + dt * e3)
    return (
        q + dt / 6 * (dq + 2 * (v2 + v3) + v4),
        dq + dt / 6 * (a1 + 2 * (a2 + a3) + a4),
        estimate + dt / 6 * (e1 + 2 * (e2 + e3) + e4),
    )


def adaptive_step(plant: Plant, q: Array, dq: Array, tau: Array, dt: float) -> tuple[Array, Array]:
    """Return (q, dq) after dt under a constant torque, to a tolerance of 1e-10."""
    from scipy.integrate import solve_ivp

    n = len(q)
    result = solve_ivp(
        lambda t, x: np.concatenate([x[n:], plant(x[:n].copy(), x[n:].copy(), tau)]),
        (0.0, dt),
        np.concatenate([q, dq]),
        method="DOP853",
        rtol=1e-10,
        atol=1e-12,
    )
    end = result.y[:, -1]
    return end[:n].copy(), end[n:].copy()
