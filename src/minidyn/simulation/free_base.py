"""A robot with a free base in motion: Runge-Kutta on the group of its positions.

A base turns: its positions cannot be added to. Over a step they are start ⊕ u, with u a screw of
the base and what joints travel. Its rate follows from the velocities by the series of the
exponential's derivative, u' = v + ½ [u, v] + 1/12 [u, [u, v]], whose rest does not matter to
fourth order (Munthe-Kaas). Joints alone move as by the classical Runge-Kutta method.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, real_array, refuse_beyond_memory
from minidyn.dynamics.group import check_quaternions, integrate
from minidyn.dynamics.kernel import compile_kernel
from minidyn.errors import MinidynError, ShapeError
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.plants import Plant, Push

Torque = Callable[[float, Array, Array], ArrayLike]
"""(t, q, dq) -> tau."""


def free_motion(
    robot: Robot,
    torque: Torque | None,
    duration: float,
    dt: float,
    start: tuple[ArrayLike | None, ArrayLike | None],
    push: Push | None,
    limit: Array,
) -> Recording:
    """Return the true motion of a robot with a free base.

    Args:
        robot: The robot.
        torque: Torques (n,) by time, positions (nq,) and rates (n,), held for dt; the first six are
            a wrench on the base, in its frame. None: zero.
        duration: Seconds.
        dt: Step of integration, control and recording, s.
        start: Positions (nq,) and rates (n,) at the beginning; None: all zero, the base upright.
        push: A force that acts for a while.
        limit: Largest torque, a number or (n,).
    """
    for name, value in (("duration", duration), ("dt", dt)):
        if not 0 < value < np.inf:
            raise MinidynError(f"simulate: {name} must be positive, got {value!r}")
    count = round(duration / dt) + 1
    refuse_beyond_memory(4.0 * count * robot.nq, "simulate", "simulate less at a time")
    q, dq = _start(robot, *start)
    plant = compile_kernel(robot, "forward_dynamics")
    log = {name: np.empty((count, robot.n)) for name in ("dq", "ddq", "tau")}
    positions, times = np.empty((count, robot.nq)), dt * np.arange(count)
    for k, t in enumerate(times.tolist()):
        acting = plant if push is None else push.on(robot, plant, t)
        tau = np.zeros(robot.n) if torque is None else real_array(torque(t, q, dq), "torque")
        if tau.shape != (robot.n,):
            raise ShapeError(f"simulate: torque: expected shape ({robot.n},), got {tau.shape}")
        tau = np.clip(tau, -limit, limit)
        ddq = acting(q, dq, tau)
        if not np.isfinite(ddq).all():
            raise MinidynError(
                f"simulate: accelerations became infinite at t = {t:.4g} s; try a smaller dt or "
                "lower gains, and check the robot's parameters"
            )
        positions[k], log["dq"][k], log["ddq"][k], log["tau"][k] = q, dq, ddq, tau
        q, dq = step_on_group(robot, acting, (q, dq), tau, dt, ddq)
    signals = (log["tau"], log["dq"], log["ddq"])
    return Recording(times, positions, *signals, robot.joint_names)


def step_on_group(
    robot: Robot, plant: Plant, state: tuple[Array, Array], tau: Array, dt: float, a1: Array
) -> tuple[Array, Array]:
    """Return (q, dq) after dt under a constant torque; a1 is the acceleration now."""
    q, v1 = state
    half = dt / 2
    u = half * v1
    v2 = v1 + half * a1
    a2, k2 = plant(integrate(robot, q, u), v2, tau), _rate(u, v2)
    u = half * k2
    v3 = v1 + half * a2
    a3, k3 = plant(integrate(robot, q, u), v3, tau), _rate(u, v3)
    u = dt * k3
    v4 = v1 + dt * a3
    a4, k4 = plant(integrate(robot, q, u), v4, tau), _rate(u, v4)
    moved = dt / 6 * (v1 + 2 * (k2 + k3) + k4)
    return integrate(robot, q, moved), v1 + dt / 6 * (a1 + 2 * (a2 + a3) + a4)


def _rate(u: Array, v: Array) -> Array:
    """Return the rate of u at velocities v (n,)."""
    rate = v.copy()
    first = _bracket(u, v[:6])
    rate[:6] += first / 2 + _bracket(u, first) / 12
    return rate


def _bracket(u: Array, v: Array) -> Array:
    """Return [u, v] of screws, linear before angular."""
    linear = np.cross(u[3:6], v[:3]) + np.cross(u[:3], v[3:6])
    return np.concatenate([linear, np.cross(u[3:6], v[3:6])])


def _start(robot: Robot, q0: ArrayLike | None, dq0: ArrayLike | None) -> tuple[Array, Array]:
    upright = np.zeros(robot.nq)
    upright[6] = 1.0
    q = upright if q0 is None else real_array(q0, "q0")
    dq = np.zeros(robot.n) if dq0 is None else real_array(dq0, "dq0")
    for name, value, size in (("q0", q, robot.nq), ("dq0", dq, robot.n)):
        if value.shape != (size,):
            raise ShapeError(f"simulate: {name}: expected shape ({size},), got {value.shape}")
    check_quaternions(robot, "simulate", q)
    return q, dq
