"""Closed-loop simulation: a robot, a controller, a trajectory, and what stands between them in
reality.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.control.controller import Controller
from minidyn.dynamics.group import integrate
from minidyn.errors import MinidynError, Unsupported
from minidyn.formats.load import RobotLike, as_robot
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.recording import Recording
from minidyn.simulation.free_base import Torque, free_motion
from minidyn.simulation.loop import REFERENCE, Setup, quantised, run
from minidyn.simulation.payload import Payload
from minidyn.simulation.plants import Push, plants_of
from minidyn.simulation.rollouts import rollouts
from minidyn.simulation.trajectory import Trajectory

LYAPUNOV_RISES = warning(
    "simulate.lyapunov_rises",
    "The Lyapunov function of the control law, which must fall in continuous time, rises at some "
    "samples.",
    "Use a shorter period or a smaller step. Where it rises in continuous time, too, the model or "
    "the gains are wrong.",
)


def simulate(
    robot: RobotLike,
    controller: Controller | Torque | None,
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
    torque_noise: ArrayLike = 0.0,
    torque_limit: ArrayLike | None = None,
    payload: Payload | None = None,
    push: Push | None = None,
    plant: str = "minidyn",
    check: bool = False,
    seed: int = 0,
) -> Recording:
    """Simulate a robot under a controller and return what was measured.

    Args:
        robot: The true robot (or its name or path), drives and friction included; the controller
            has its own model.
        controller: From `md.control`; None: no torque. With a free base a function (t, q, dq) ->
            tau (n,), whose first six are a wrench on the base; it is held for dt.
        trajectory: A callable t -> (q, dq, ddq); None: hold the initial position.
        duration: Seconds.
        dt: Integration and recording step, s; the controller's period must be a multiple of it.
        q0: Initial positions (n,); None: the trajectory's.
        dq0: Initial speeds (n,); None: the trajectory's.
        control: "sampled": the controller acts once per period and its torque is held;
            "continuous": it acts at every stage of the integration, and its estimate is integrated
            with the robot.
        solver: "rk4" (fixed step dt) or "adaptive" (SciPy's DOP853 within each step of dt,
            tolerance 1e-10).
        delay: Age of measurements when the controller reads them, s; a whole number of steps.
        resolution: Of the encoders, rad or m; 0: perfect.
        noise: Standard deviation of measured positions.
        velocity_noise: Standard deviation of measured speeds.
        torque_noise: Standard deviation of measured torques, one for all joints or one for each
            (n,).
        torque_limit: Largest torque (n,) or a number; None: no limit.
        payload: A load picked up during the run.
        push: A force that acts for a while; it is no part of the measured torques.
        plant: Who computes the robot's accelerations: "minidyn", "regressor" (slower, from the
            regressor alone) or, independently, "mujoco".
        check: Also record the Lyapunov function and the stability margin; a violated condition is a
            notice.
        seed: Of the noise.

    Returns:
        A recording with t, q, dq, ddq, tau as measured; telemetry: true "q_true", "dq_true",
        reference "q_d", "dq_d", "error", "estimate" for adaptive laws, and with `check` "lyapunov"
        and "margin".
    """
    robot = as_robot(robot, free_base=True)
    rng = np.random.default_rng(seed)
    limit, spread = _limit(torque_limit, robot.n), _spread(torque_noise, robot.n)
    _not_negative(resolution=resolution, noise=noise, velocity_noise=velocity_noise)
    if robot.free_base:
        fixed_only = {
            "controller (a law of md.control)": hasattr(controller, "torque"),
            "trajectory": trajectory is not None,
            "control": control != "sampled",
            "solver": solver != "rk4",
            "delay": delay != 0.0,
            "resolution": resolution != 0.0,
            "payload": payload is not None,
            "plant": plant != "minidyn",
            "check": check,
        }
        _refuse_with_free_base(robot, fixed_only)
        true = free_motion(
            robot, cast("Torque | None", controller), duration, dt, (q0, dq0), push, limit
        )
        return _measured_freely(robot, true, (noise, velocity_noise, spread), rng)
    if controller is not None and not isinstance(controller, Controller):
        raise MinidynError(f"simulate: expected a controller of md.control, got {controller!r}")
    setup = Setup(robot, controller, trajectory, duration, dt, q0, dq0, control, solver, delay)
    forward = plants_of(robot, plant, payload)
    pick_up = np.inf if payload is None else payload.time
    log = run(setup, rng, resolution, noise, velocity_noise, limit, forward, pick_up, push)
    shape = log["tau"].shape
    q = quantised(log["q_true"] + noise * rng.normal(size=shape), resolution)
    dq = log["dq_true"] + velocity_noise * rng.normal(size=shape)
    tau = log["tau"] + spread * rng.normal(size=shape)
    telemetry, notices = _telemetry(setup, log), list[Notice]()
    if check and controller is not None:
        notices += _check(controller, setup, log, telemetry, payload)
    names = robot.joint_names
    return Recording(log["t"], q, tau, dq, log["ddq"], names, telemetry=telemetry, notices=notices)


def simulate_batch(
    robot: RobotLike,
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
    torque_noise: ArrayLike = 0.0,
    torque_limit: ArrayLike | None = None,
    estimates: bool = False,
    seed: int = 0,
    threads: int = 1,
    device: str | None = None,
) -> Sequence[Recording]:
    """Simulate many runs at once, side by side in vector registers: one for each row of q0 (B, n).

    Options are those of :func:`simulate`; noise is drawn for each run of its own. With `estimates`
    the telemetry holds the estimate of adaptive laws at every sample, which is large: runs times
    samples times parameters.

    With `device="cuda"` an NVIDIA GPU computes them, one thread a run (docs/gpu.md). Control is
    sampled then, and the logs stay on the GPU: a run is copied when it is asked for, and `.arrays`
    has all of them for other libraries.
    """
    robot = as_robot(robot)
    here = device is None
    setup = Setup(
        robot,
        controller,
        trajectory,
        duration,
        dt,
        q0,
        dq0,
        control,
        "rk4",
        0.0,
        True,
        estimates,
        here,
    )
    rng = np.random.default_rng(seed)
    limit, spread = _limit(torque_limit, robot.n), _spread(torque_noise, robot.n)
    _not_negative(noise=noise, velocity_noise=velocity_noise)

    def measured(own: dict[str, Array], rng: np.random.Generator) -> Recording:
        shape = own["tau"].shape
        q = own["q_true"] + noise * rng.normal(size=shape)
        tau = own["tau"] + spread * rng.normal(size=shape)
        dq = own["dq_true"] + velocity_noise * rng.normal(size=shape)
        return Recording(
            own["t"], q, tau, dq, own["ddq"], robot.joint_names, telemetry=_telemetry(setup, own)
        )

    if device is not None:

        def made(own: dict[str, Array], row: int) -> Recording:
            return measured(own, np.random.default_rng([seed, row]))

        return rollouts(setup, limit, noise, velocity_noise, seed, made, device)
    log = run(
        setup,
        rng,
        0.0,
        noise,
        velocity_noise,
        limit,
        plants_of(robot, "minidyn", None, threads),
        np.inf,
    )
    shared = ("t", *REFERENCE)
    rows = (
        {name: log[name] if name in shared else log[name][:, row] for name in log}
        for row in range(len(setup.q0))
    )
    return tuple(measured(own, rng) for own in rows)


def _refuse_with_free_base(robot: Robot, given: Mapping[str, bool]) -> None:
    """Refuse options that a robot with a free base does not have yet, by name."""
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong:
        raise Unsupported(
            f"simulate: robot {robot.name!r} has a free base, for which these are not supported "
            f"yet: {', '.join(wrong)}; docs/free-base.md lists what is"
        )


def _measured_freely(
    robot: Robot, true: Recording, noise: tuple[float, float, Array], rng: np.random.Generator
) -> Recording:
    """Return what is measured of the motion of a robot with a free base."""
    assert true.dq is not None  # noqa: S101
    assert true.tau is not None  # noqa: S101
    of_q, of_dq, of_tau = noise
    shape = true.dq.shape
    return replace(
        true,
        q=integrate(robot, true.q, of_q * rng.normal(size=shape)) if of_q else true.q,
        dq=true.dq + of_dq * rng.normal(size=shape),
        tau=true.tau + of_tau * rng.normal(size=shape),
        telemetry={"q_true": true.q, "dq_true": true.dq},
    )


def _telemetry(setup: Setup, log: dict[str, Array]) -> dict[str, Array]:
    found = {name: log[name] for name in ("q_true", "dq_true", "q_d", "dq_d")}
    found["error"] = log["q_true"] - log["q_d"]
    if setup.controller is not None and setup.controller.estimated and setup.log_estimates:
        found["estimate"] = log["estimate"][..., : len(setup.controller.estimated)]
    return found


def _limit(given: ArrayLike | None, n: int) -> Array:
    limit = np.asarray(np.inf if given is None else given, dtype=float)
    if limit.shape not in ((), (n,)) or not np.all(limit > 0):
        raise MinidynError(
            f"simulate: torque_limit: expected a positive number or {n} of them, got {given!r}"
        )
    return limit


def _spread(given: ArrayLike, n: int) -> Array:
    spread = np.asarray(given, dtype=float)
    if spread.shape not in ((), (n,)) or not np.all((spread >= 0) & (spread < np.inf)):
        raise MinidynError(
            f"simulate: torque_noise: expected a number from 0 on, or {n} of them, got {given!r}"
        )
    return spread


def _not_negative(**given: float) -> None:
    for name, value in given.items():
        if not 0 <= value < np.inf:
            raise MinidynError(f"simulate: {name}: expected a number from 0 on, got {value!r}")


def _check(
    controller: Controller,
    setup: Setup,
    log: dict[str, Array],
    telemetry: dict[str, Array],
    payload: Payload | None,
) -> list[Notice]:
    robot, notices = setup.robot, list[Notice]()
    times, estimate, q, dq = (log[name] for name in ("t", "estimate", "q_true", "dq_true"))
    parts = [(robot, times < np.inf if payload is None else times < payload.time)]
    if payload is not None:
        parts.append((payload.on(robot), times >= payload.time))
    if controller.lyapunov is not None:
        value, rises = np.empty(len(times)), np.zeros(0, dtype=int)
        for true, part in parts:
            there = log["q_d"][part], log["dq_d"][part], log["ddq_d"][part]
            value[part] = controller.lyapunov(true, estimate[part], q[part], dq[part], there)
        scale = float(np.abs(value).max())
        for _, part in parts:  # a load that is picked up makes a step, which is no rise
            own = np.flatnonzero(part)
            rises = np.append(rises, own[:-1][np.diff(value[part]) > 1e-9 * scale])
        telemetry["lyapunov"] = value
        if len(rises):
            most = float(np.diff(value).max()) / scale
            sampled = (
                ""
                if setup.continuous
                else "; it must fall in continuous time, and this run is sampled"
            )
            text = (
                f"{controller.name}: the Lyapunov function rises at t = {times[rises[0]]:.4g} s "
                f"and at {len(rises)} of {len(value)} samples, at most by {most:.1e} of its "
                f"largest value{sampled}"
            )
            notices.append(
                LYAPUNOV_RISES(text, first=float(times[rises[0]]), count=len(rises), most=most)
            )
    if controller.stability is not None:
        margin = np.empty(len(times))
        for true, part in parts:
            margin[part] = controller.stability(true, estimate[part], q[part], dq[part])
        telemetry["margin"] = margin
        below = np.flatnonzero(margin <= 0)
        if len(below):
            text = (
                f"{controller.name}: the stability condition is violated at t = "
                f"{times[below[0]]:.4g} s and at {len(below)} of {len(margin)} samples (smallest "
                f"eigenvalue {margin.min():.3g})"
            )
            data = {
                "first": float(times[below[0]]),
                "count": len(below),
                "smallest": float(margin.min()),
            }
            notices.append(controller.violated(text, **data))
    return notices
