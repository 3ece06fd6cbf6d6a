"""Closed-loop simulation: a robot, a controller, a trajectory, and what stands between them in reality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.dynamics.kernel import compile_kernel
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.experiment.recording import Recording
from minidyn.experiment.trajectory import Trajectory, hold
from minidyn.model.inertia import transform
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.control.controller import Controller

__all__ = ["Payload", "simulate"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Payload:
    """A load the robot picks up during a run.

    Attributes:
        time: When, s.
        parameters: Ten values XX ... M in the load's frame.
        placement: The load's frame on the last link (4, 4); None: the link's own.
    """

    time: float
    parameters: ArrayLike
    placement: ArrayLike | None = None

    def on(self, robot: Robot) -> Robot:
        """Return the robot with the load on its last link."""
        placement = np.eye(4) if self.placement is None else np.asarray(self.placement, dtype=float)
        values = robot.values.copy()
        values[robot.layout.links[-1]] += transform(self.parameters, placement)
        return robot.with_parameters(values)


def simulate(
    robot: Robot,
    controller: Controller | None,
    trajectory: Trajectory | None,
    duration: float,
    *,
    dt: float = 1e-3,
    q0: ArrayLike | None = None,
    dq0: ArrayLike | None = None,
    control: str = "sampled",
    solver: str = "rk4",
    delay: float = 0.0,
    resolution: float = 0.0,
    noise: float = 0.0,
    velocity_noise: float = 0.0,
    torque_noise: float = 0.0,
    torque_limit: ArrayLike | None = None,
    payload: Payload | None = None,
    check: bool = False,
    seed: int = 0,
) -> Recording:
    """Simulate a robot under a controller and return what was measured.

    Args:
        robot: The true robot, drives and friction included; the controller has a model of its own.
        controller: From `md.control`; None: no torque.
        trajectory: A callable t -> (q, dq, ddq); None: hold the initial position.
        duration: Seconds.
        dt: Integration and recording step, s; the controller's period must be a multiple of it.
        q0: Initial positions (n,); None: the trajectory's.
        dq0: Initial speeds (n,); None: the trajectory's.
        control: "sampled": the controller acts once per period and its torque is held; "continuous": it acts at every
            stage of the integration, and its estimate is integrated with the robot.
        solver: "rk4" (fixed step dt) or "adaptive" (SciPy's DOP853 within each step of dt, tolerance 1e-10).
        delay: Age of measurements when the controller reads them, s; a whole number of steps.
        resolution: Of the encoders, rad or m; 0: perfect.
        noise: Standard deviation of measured positions.
        velocity_noise: Standard deviation of measured speeds.
        torque_noise: Standard deviation of measured torques.
        torque_limit: Largest torque (n,) or a number; None: no limit.
        payload: A load picked up during the run.
        check: Also record the Lyapunov function and the stability margin; a violated condition is a notice.
        seed: Of the noise.

    Returns:
        A recording with t, q, dq, ddq, tau as measured; telemetry: true "q_true", "dq_true", reference "q_d", "dq_d",
        "error", "estimate" for adaptive laws, and with `check` "lyapunov" and "margin".
    """
    setup = _Setup.of(robot, controller, trajectory, duration, dt, q0, dq0, control, solver, delay)
    rng = np.random.default_rng(seed)
    limit = np.inf if torque_limit is None else np.asarray(torque_limit, dtype=float)
    log = _run(setup, rng, resolution, noise, velocity_noise, limit, payload)
    measured_q = _quantised(log["q_true"] + noise * rng.normal(size=log["q_true"].shape), resolution)
    measured_dq = log["dq_true"] + velocity_noise * rng.normal(size=log["dq_true"].shape)
    measured_tau = log["tau"] + torque_noise * rng.normal(size=log["tau"].shape)
    q_d, dq_d, _ = setup.trajectory(log["t"])
    telemetry = {"q_true": log["q_true"], "dq_true": log["dq_true"], "q_d": q_d, "dq_d": dq_d}
    telemetry["error"] = log["q_true"] - q_d
    notices: list[str] = []
    if controller is not None and controller.estimated:
        telemetry["estimate"] = log["estimate"]
    if check and controller is not None:
        notices += _check(setup, log, telemetry, payload)
    return Recording(
        log["t"],
        measured_q,
        measured_tau,
        dq=measured_dq,
        ddq=log["ddq"],
        joint_names=robot.joint_names,
        telemetry=telemetry,
        notices=notices,
    )


@dataclass(frozen=True)
class _Setup:
    """A checked request."""

    robot: Robot
    controller: Controller | None
    trajectory: Trajectory
    steps: int
    dt: float
    q0: Array
    dq0: Array
    continuous: bool
    adaptive: bool
    every: int
    lag: int

    @classmethod
    def of(
        cls,
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
    ) -> _Setup:
        if control not in ("sampled", "continuous"):
            raise UnknownName("control", control, ("sampled", "continuous"))
        if solver not in ("rk4", "adaptive"):
            raise UnknownName("solver", solver, ("rk4", "adaptive"))
        for name, value in (("duration", duration), ("dt", dt)):
            if not 0 < value < np.inf:
                raise MinidynError(f"simulate: {name} must be positive, got {value!r}")
        if controller is not None and controller.robot.n != robot.n:
            raise MinidynError(f"simulate: the controller is for {controller.robot.n} joints, the robot has {robot.n}")
        if trajectory is None:
            trajectory = hold(np.zeros(robot.n) if q0 is None else q0)
        q_d, dq_d, _ = trajectory(0.0)
        start = np.array(q_d if q0 is None else q0, dtype=float)
        speed = np.array(dq_d if dq0 is None else dq0, dtype=float)
        for name, given in (("q0", start), ("dq0", speed)):
            if given.shape != (robot.n,):
                raise ShapeError(f"{name}: expected shape ({robot.n},), got {given.shape}")
        every = 1 if controller is None else round(controller.period / dt)
        if controller is not None and control == "sampled" and abs(every * dt - controller.period) > 1e-9 * dt:
            raise MinidynError(
                f"simulate: the controller's period {controller.period:g} s is no multiple of dt {dt:g} s"
            )
        lag = round(delay / dt)
        if delay < 0 or abs(lag * dt - delay) > 1e-9 * dt:
            raise MinidynError(f"simulate: delay {delay:g} s is no whole number of steps of {dt:g} s")
        return cls(
            robot,
            controller,
            trajectory,
            round(duration / dt),
            dt,
            start,
            speed,
            control == "continuous",
            solver == "adaptive",
            max(1, every),
            lag,
        )


def _run(
    setup: _Setup,
    rng: np.random.Generator,
    resolution: float,
    noise: float,
    velocity_noise: float,
    limit: Any,
    payload: Payload | None,
) -> dict[str, Array]:
    robot, controller, dt, n = setup.robot, setup.controller, setup.dt, setup.robot.n
    plant = compile_kernel(robot, "forward_dynamics")
    picked = None if payload is None else compile_kernel(payload.on(robot), "forward_dynamics")
    count = setup.steps + 1
    estimate = np.zeros(0) if controller is None else controller.start.copy()
    log: dict[str, Array] = {name: np.empty((count, n)) for name in ("q_true", "dq_true", "ddq", "tau")}
    log["estimate"] = np.empty((count, len(estimate)))
    times = np.asarray(dt * np.arange(count), dtype=float)
    log["t"] = times
    references = tuple(np.asarray(part) for part in setup.trajectory(times))
    q, dq, tau = setup.q0, setup.dq0, np.zeros(n)
    ddq = np.zeros(n)
    for k in range(count):
        t = float(times[k])
        if payload is not None and picked is not None and t >= payload.time:
            plant, picked = picked, None
        log["q_true"][k], log["dq_true"][k], log["estimate"][k] = q, dq, estimate
        if setup.continuous and controller is not None:
            flow = _continuous_flow(setup, plant, limit)
            ddq, tau, rate = flow(t, q, dq, estimate)
        elif controller is not None and k % setup.every == 0:
            from minidyn.control.controller import Measurement

            past = max(0, k - setup.lag)
            seen = Measurement(
                t,
                _quantised(log["q_true"][past] + noise * rng.normal(size=n), resolution),
                log["dq_true"][past] + velocity_noise * rng.normal(size=n),
                log["ddq"][past - 1] if past else np.zeros(n),
            )
            now = (references[0][k], references[1][k], references[2][k])
            estimate, tau, _ = controller(estimate, seen, now)
            tau = np.clip(tau, -limit, limit)
            ddq = plant(q, dq, tau)
        else:
            ddq = plant(q, dq, tau)
        log["ddq"][k], log["tau"][k] = ddq, tau
        if not np.all(np.isfinite(ddq)):
            raise MinidynError(
                f"simulate: accelerations became infinite at t = {t:.4g} s; the loop is unstable or the inertia matrix "
                "singular: try a smaller dt or lower gains, and check the robot's parameters"
            )
        if k == count - 1:
            break
        if setup.continuous and controller is not None:
            q, dq, estimate = _rk4_with_estimate(flow, t, q, dq, estimate, dt, ddq, rate)
        elif setup.adaptive:
            q, dq = _adaptive_step(plant, q, dq, tau, dt)
        else:
            q, dq = _rk4(plant, q, dq, tau, dt, ddq)
    return log


Flow = Callable[[float, Array, Array, Array], tuple[Array, Array, Array]]


def _continuous_flow(setup: _Setup, plant: Any, limit: Any) -> Flow:
    controller = setup.controller

    def flow(t: float, q: Array, dq: Array, estimate: Array) -> tuple[Array, Array, Array]:
        """Return (acceleration, torque, rate of the estimate)."""
        if controller is None:
            tau = np.zeros(len(q))
            return plant(q, dq, tau), tau, estimate
        reference = setup.trajectory(t)
        tau, signals = controller.torque(estimate, q, dq, reference)
        tau = np.clip(tau, -limit, limit)
        ddq = plant(q, dq, tau)
        if controller.rate is None:
            return ddq, tau, np.zeros_like(estimate)
        rate = controller.rate(estimate, q, dq, ddq, reference, signals)
        return ddq, tau, controller.rate_within(estimate, rate)

    return flow


def _rk4(plant: Any, q: Array, dq: Array, tau: Array, dt: float, a1: Array) -> tuple[Array, Array]:
    half = dt / 2
    v2 = dq + half * a1
    a2 = plant(q + half * dq, v2, tau)
    v3 = dq + half * a2
    a3 = plant(q + half * v2, v3, tau)
    v4 = dq + dt * a3
    a4 = plant(q + dt * v3, v4, tau)
    return q + dt / 6 * (dq + 2 * (v2 + v3) + v4), dq + dt / 6 * (a1 + 2 * (a2 + a3) + a4)


def _rk4_with_estimate(
    flow: Flow, t: float, q: Array, dq: Array, estimate: Array, dt: float, a1: Array, e1: Array
) -> tuple[Array, Array, Array]:
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


def _adaptive_step(plant: Any, q: Array, dq: Array, tau: Array, dt: float) -> tuple[Array, Array]:
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


def _quantised(values: Array, resolution: float) -> Array:
    return values if resolution == 0 else np.round(values / resolution) * resolution


def _check(setup: _Setup, log: dict[str, Array], telemetry: dict[str, Array], payload: Payload | None) -> list[str]:
    controller, robot = setup.controller, setup.robot
    notices: list[str] = []
    if controller is None or payload is not None:
        return notices
    if controller.lyapunov is not None:
        reference = setup.trajectory(log["t"])
        value = controller.lyapunov(robot, log["estimate"], log["q_true"], log["dq_true"], reference)
        telemetry["lyapunov"] = value
        rise = np.flatnonzero(np.diff(value) > 1e-9 * value.max())
        if len(rise):
            notices.append(
                f"{controller.name}: the Lyapunov function rises at t = {log['t'][rise[0]]:.4g} s "
                f"and at {len(rise)} of {len(value)} samples"
            )
    if controller.stability is not None:
        margin = controller.stability(robot, log["q_true"], log["dq_true"])
        telemetry["margin"] = margin
        below = np.flatnonzero(margin <= 0)
        if len(below):
            notices.append(
                f"{controller.name}: the stability condition is violated at t = {log['t'][below[0]]:.4g} s and at "
                f"{len(below)} of {len(margin)} samples (smallest eigenvalue {margin.min():.3g}); raise rate or gain"
            )
    return notices
