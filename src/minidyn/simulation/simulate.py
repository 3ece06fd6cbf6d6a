"""Closed-loop simulation: a robot, a controller, a trajectory, and what stands between them in reality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.model.robot import Robot
from minidyn.notices import Notice, kind
from minidyn.recording.recording import Recording
from minidyn.simulation.integrate import Flow, Plant, adaptive_step, rk4, rk4_with_estimate
from minidyn.simulation.payload import Payload
from minidyn.simulation.plants import plants_of
from minidyn.simulation.trajectory import Trajectory, along, hold

if TYPE_CHECKING:
    from minidyn.control.controller import Controller

LYAPUNOV_RISES = kind(
    "simulate.lyapunov_rises",
    "look",
    "The Lyapunov function of the control law, which must fall in continuous time, rises at some samples.",
    "Use a shorter period or a smaller step. Where it rises in continuous time, too, the model or the gains are wrong.",
)
UNSTABLE = kind(
    "simulate.stability_violated",
    "act",
    "The condition that guarantees stability of the control law does not hold along the motion.",
    "Raise the bandwidth or the gain.",
)


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
    plant: str = "minidyn",
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
        plant: Who computes the robot's accelerations: "minidyn", "regressor" (slower, from the regressor alone) or,
            independently, "mujoco".
        check: Also record the Lyapunov function and the stability margin; a violated condition is a notice.
        seed: Of the noise.

    Returns:
        A recording with t, q, dq, ddq, tau as measured; telemetry: true "q_true", "dq_true", reference "q_d", "dq_d",
        "error", "estimate" for adaptive laws, and with `check` "lyapunov" and "margin".
    """
    setup = _Setup.of(robot, controller, trajectory, duration, dt, q0, dq0, control, solver, delay)
    rng = np.random.default_rng(seed)
    limit = _limit(torque_limit, robot.n)
    _not_negative(resolution=resolution, noise=noise, velocity_noise=velocity_noise, torque_noise=torque_noise)
    forward = plants_of(robot, plant, payload)
    log = _run(
        setup, rng, resolution, noise, velocity_noise, limit, forward, np.inf if payload is None else payload.time
    )
    measured_q = _quantised(log["q_true"] + noise * rng.normal(size=log["q_true"].shape), resolution)
    measured_dq = log["dq_true"] + velocity_noise * rng.normal(size=log["dq_true"].shape)
    measured_tau = log["tau"] + torque_noise * rng.normal(size=log["tau"].shape)
    q_d, dq_d, _ = along(setup.trajectory, log["t"], robot.n)
    telemetry = {"q_true": log["q_true"], "dq_true": log["dq_true"], "q_d": q_d, "dq_d": dq_d}
    telemetry["error"] = log["q_true"] - q_d
    notices: list[Notice] = []
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


def simulate_batch(
    robot: Robot,
    controller: Controller | None,
    trajectory: Trajectory | None,
    duration: float,
    *,
    q0: ArrayLike,
    dq0: ArrayLike | None = None,
    dt: float = 1e-3,
    control: str = "sampled",
    noise: float = 0.0,
    velocity_noise: float = 0.0,
    torque_noise: float = 0.0,
    torque_limit: ArrayLike | None = None,
    estimates: bool = False,
    seed: int = 0,
    threads: int = 1,
) -> tuple[Recording, ...]:
    """Simulate many runs at once, side by side in vector registers: one for each row of q0 (B, n).

    Options are those of :func:`simulate`; noise is drawn for each run of its own. With `estimates` the telemetry holds
    the estimate of adaptive laws at every sample, which is large: runs times samples times parameters.
    """
    setup = _Setup.of(robot, controller, trajectory, duration, dt, q0, dq0, control, "rk4", 0.0, True, estimates)
    rng = np.random.default_rng(seed)
    limit = _limit(torque_limit, robot.n)
    _not_negative(noise=noise, velocity_noise=velocity_noise, torque_noise=torque_noise)
    forward = plants_of(robot, "minidyn", None, threads)
    log = _run(setup, rng, 0.0, noise, velocity_noise, limit, forward, np.inf)
    q_d, dq_d, _ = along(setup.trajectory, log["t"], robot.n)
    recordings = []
    for run in range(len(setup.q0)):
        q, dq, tau = (log[name][:, run] for name in ("q_true", "dq_true", "tau"))
        telemetry = {"q_true": q, "dq_true": dq, "q_d": q_d, "dq_d": dq_d, "error": q - q_d}
        if controller is not None and controller.estimated and estimates:
            telemetry["estimate"] = log["estimate"][:, run]
        recordings.append(
            Recording(
                log["t"],
                q + noise * rng.normal(size=q.shape),
                tau + torque_noise * rng.normal(size=q.shape),
                dq=dq + velocity_noise * rng.normal(size=q.shape),
                ddq=log["ddq"][:, run],
                joint_names=robot.joint_names,
                telemetry=telemetry,
            )
        )
    return tuple(recordings)


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
    log_estimates: bool = True

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
        batches: bool = False,
        log_estimates: bool = True,
    ) -> _Setup:
        if control not in ("sampled", "continuous"):
            raise UnknownName("control", control, ("sampled", "continuous"))
        if solver not in ("rk4", "adaptive"):
            raise UnknownName("solver", solver, ("rk4", "adaptive"))
        for name, value in (("duration", duration), ("dt", dt)):
            if not 0 < value < np.inf:
                raise MinidynError(f"simulate: {name} must be positive, got {value!r}")
        if not isinstance(robot, Robot):
            raise MinidynError(f"simulate: expected a Robot first, got {robot!r}; load one with md.load(...)")
        if controller is not None and not hasattr(controller, "torque"):
            raise MinidynError(f"simulate: expected a controller of md.control, got {controller!r}")
        if trajectory is not None and not callable(trajectory):
            raise MinidynError(f"simulate: expected a trajectory t -> (q, dq, ddq), got {trajectory!r}")
        if controller is not None and controller.robot.n != robot.n:
            raise MinidynError(f"simulate: the controller is for {controller.robot.n} joints, the robot has {robot.n}")
        if trajectory is None:
            trajectory = hold(np.zeros(robot.n) if q0 is None else q0)
        q_d, dq_d, _ = trajectory(0.0)
        start = np.array(q_d if q0 is None else q0, dtype=float)
        speed = np.array(dq_d if dq0 is None else dq0, dtype=float)
        if batches:
            start, speed = (part.copy() for part in np.broadcast_arrays(np.atleast_2d(start), np.atleast_2d(speed)))
        for name, given in (("q0", start), ("dq0", speed)):
            if given.shape != start.shape or given.shape[-1:] != (robot.n,) or given.ndim > 1 + batches:
                expected = f"(runs, {robot.n})" if batches else f"({robot.n},)"
                raise ShapeError(f"{name}: expected shape {expected}, got {given.shape}")
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
            log_estimates,
        )


def _run(
    setup: _Setup,
    rng: np.random.Generator,
    resolution: float,
    noise: float,
    velocity_noise: float,
    limit: Any,
    forward: tuple[Plant, Plant],
    pick_up: float,
) -> dict[str, Array]:
    """Run the loop; initial positions (n,) give signals (N, n), a batch (B, n) gives (N, B, n)."""
    controller, dt = setup.controller, setup.dt
    q, dq = setup.q0, setup.dq0
    shape, batch = q.shape, q.shape[:-1]
    plant, loaded = forward
    count = setup.steps + 1
    start = np.zeros(0) if controller is None else controller.start
    estimate = np.broadcast_to(start, (*batch, len(start))).copy()
    log: dict[str, Array] = {name: np.empty((count, *shape)) for name in ("q_true", "dq_true", "ddq", "tau")}
    log["estimate"] = np.empty((count if setup.log_estimates else 1, *estimate.shape))
    times = np.asarray(dt * np.arange(count), dtype=float)
    log["t"] = times
    between = (count, *(1,) * len(batch), shape[-1])  # every run of a batch follows the same reference
    q_d, dq_d, ddq_d = (
        np.broadcast_to(part.reshape(between), (count, *shape)) for part in along(setup.trajectory, times, shape[-1])
    )
    limited = bool(np.any(np.isfinite(limit)))
    tau, ddq = np.zeros(shape), np.zeros(shape)
    for k in range(count):
        t = float(times[k])
        if t >= pick_up:
            plant = loaded
        log["q_true"][k], log["dq_true"][k] = q, dq
        if setup.log_estimates:
            log["estimate"][k] = estimate
        if setup.continuous and controller is not None:
            flow = _continuous_flow(setup, plant, limit)
            ddq, tau, rate = flow(t, q, dq, estimate)
        elif controller is not None and k % setup.every == 0:
            from minidyn.control.controller import Measurement

            past = max(0, k - setup.lag)
            seen = Measurement(
                t,
                _quantised(_blurred(log["q_true"][past], noise, rng), resolution),
                _blurred(log["dq_true"][past], velocity_noise, rng),
                log["ddq"][past - 1] if past else np.zeros(shape),
            )
            estimate, tau, _ = controller(estimate, seen, (q_d[k], dq_d[k], ddq_d[k]))
            if limited:
                tau = np.clip(tau, -limit, limit)
            ddq = plant(q, dq, tau)
        else:
            ddq = plant(q, dq, tau)
        log["ddq"][k], log["tau"][k] = ddq, tau
        if not np.isfinite(ddq).all():
            raise MinidynError(f"simulate: accelerations became infinite at t = {t:.4g} s; {_likely_cause(setup)}")
        if k == count - 1:
            break
        if setup.continuous and controller is not None:
            q, dq, estimate = rk4_with_estimate(flow, t, q, dq, estimate, dt, ddq, rate)
        elif setup.adaptive:
            q, dq = adaptive_step(plant, q, dq, tau, dt)
        else:
            q, dq = rk4(plant, q, dq, tau, dt, ddq)
    return log


def _continuous_flow(setup: _Setup, plant: Any, limit: Any) -> Flow:
    controller = setup.controller

    def flow(t: float, q: Array, dq: Array, estimate: Array) -> tuple[Array, Array, Array]:
        """Return (acceleration, torque, rate of the estimate)."""
        if controller is None:
            tau = np.zeros(q.shape)
            return plant(q, dq, tau), tau, estimate
        q_d, dq_d, ddq_d = setup.trajectory(t)
        reference = (np.broadcast_to(q_d, q.shape), np.broadcast_to(dq_d, q.shape), np.broadcast_to(ddq_d, q.shape))
        tau, signals = controller.torque(estimate, q, dq, reference)
        tau = np.clip(tau, -limit, limit)
        ddq = plant(q, dq, tau)
        if controller.rate is None:
            return ddq, tau, np.zeros_like(estimate)
        rate = controller.rate(estimate, q, dq, ddq, reference, signals)
        return ddq, tau, controller.rate_within(estimate, rate)

    return flow


def _limit(given: ArrayLike | None, n: int) -> Array:
    limit = np.asarray(np.inf if given is None else given, dtype=float)
    if limit.shape not in ((), (n,)) or not np.all(limit > 0):
        raise MinidynError(f"simulate: torque_limit: expected a positive number or {n} of them, got {given!r}")
    return limit


def _not_negative(**given: float) -> None:
    for name, value in given.items():
        if not 0 <= value < np.inf:
            raise MinidynError(f"simulate: {name}: expected a number from 0 on, got {value!r}")


def _blurred(values: Array, deviation: float, rng: np.random.Generator) -> Array:
    return values if deviation == 0 else values + deviation * rng.normal(size=values.shape)


def _quantised(values: Array, resolution: float) -> Array:
    return values if resolution == 0 else np.round(values / resolution) * resolution


def _likely_cause(setup: _Setup) -> str:
    """Say what most likely made a run diverge: damping that is too strong for its sampling period, or something else.

    A torque that is held for T and answers a speed v with -D v leaves (1 - T M⁻¹ D) v after one period, which grows
    where an eigenvalue of T M⁻¹ D is above 2.
    """
    controller = setup.controller
    general = (
        "the loop is unstable or the inertia matrix singular: try a smaller dt or lower gains, and check the robot's "
        "parameters"
    )
    if controller is None or setup.continuous:
        return general
    from minidyn.dynamics.functions import inertia_matrix

    q, dq = (np.atleast_2d(part)[0] for part in (setup.q0, setup.dq0))
    reference = tuple(np.broadcast_to(np.asarray(part, dtype=float), q.shape) for part in setup.trajectory(0.0))
    step, n = 1e-4, len(q)
    speeds = np.concatenate([dq[None], dq + step * np.eye(n)])
    held = [np.asarray(controller.torque(controller.start, q, speed, reference)[0]) for speed in speeds]  # type: ignore[arg-type]
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
        f"the controller damps joint {joint!r} too strongly for its period of {controller.period:g} s: it takes away "
        f"{abs(values[worst]):.3g} times the speed in one period, and more than 2 times grows without end. Give gains "
        "in proportion to each joint's inertia (md.inertia_matrix), or a shorter period"
    )


def _check(setup: _Setup, log: dict[str, Array], telemetry: dict[str, Array], payload: Payload | None) -> list[Notice]:
    controller, robot = setup.controller, setup.robot
    notices: list[Notice] = []
    if controller is None:
        return notices
    times, estimate, q, dq = (log[name] for name in ("t", "estimate", "q_true", "dq_true"))
    parts = [(robot, times < np.inf if payload is None else times < payload.time)]
    if payload is not None:
        parts.append((payload.on(robot), times >= payload.time))
    if controller.lyapunov is not None:
        reference = along(setup.trajectory, times, robot.n)
        value, rises = np.empty(len(times)), np.zeros(0, dtype=int)
        for true, part in parts:
            there = tuple(np.broadcast_to(signal, q.shape)[part] for signal in reference)
            value[part] = controller.lyapunov(true, estimate[part], q[part], dq[part], there)  # type: ignore[arg-type]
        scale = float(np.abs(value).max())
        for _, part in parts:  # a load that is picked up makes a step, which is no rise
            own = np.flatnonzero(part)
            rises = np.append(rises, own[:-1][np.diff(value[part]) > 1e-9 * scale])
        telemetry["lyapunov"] = value
        if len(rises):
            most = float(np.diff(value).max()) / scale
            sampled = "" if setup.continuous else "; it must fall in continuous time, and this run is sampled"
            text = (
                f"{controller.name}: the Lyapunov function rises at t = {times[rises[0]]:.4g} s and at {len(rises)} of "
                f"{len(value)} samples, at most by {most:.1e} of its largest value{sampled}"
            )
            notices.append(LYAPUNOV_RISES(text, first=float(times[rises[0]]), count=len(rises), most=most))
    if controller.stability is not None:
        margin = np.empty(len(times))
        for true, part in parts:
            margin[part] = controller.stability(true, q[part], dq[part])
        telemetry["margin"] = margin
        below = np.flatnonzero(margin <= 0)
        if len(below):
            text = (
                f"{controller.name}: the stability condition is violated at t = {times[below[0]]:.4g} s and at "
                f"{len(below)} of {len(margin)} samples (smallest eigenvalue {margin.min():.3g})"
            )
            data = {"first": float(times[below[0]]), "count": len(below), "smallest": float(margin.min())}
            notices.append(UNSTABLE(text, **data))
    return notices
