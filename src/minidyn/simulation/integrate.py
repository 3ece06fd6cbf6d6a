"""One step of time: classical fourth-order Runge-Kutta, or SciPy's adaptive solver between two samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Plant: TypeAlias = Callable[[Array, Array, Array], Array]
"""(q, dq, tau) -> ddq."""
Flow: TypeAlias = Callable[[float, Array, Array, Array], tuple[Array, Array, Array]]
"""(t, q, dq, estimate) -> (ddq, tau, rate of the estimate)."""


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
    """Return (q, dq, estimate) after dt; a1 and e1 are acceleration and rate of the estimate now."""
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
