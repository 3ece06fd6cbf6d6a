"""The wrench that a body needs on a moving sensor: the motion of the sensor, and columns of ten parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.kernel import run_function
from minidyn.dynamics.record import build
from minidyn.graph.derivative import tangents
from minidyn.graph.scalar import Graph
from minidyn.model.parameters import tensor
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

_SIX = np.array([tensor(unit) for unit in np.eye(6)])  # the tensors of unit XX ... ZZ (6, 3, 3)


def sensor_motion(robot: Robot, motion: Recording, link: str | None, position: Array) -> tuple[Array, Array, Array]:
    """Return acceleration less gravity, angular speed and acceleration (N, 3) of a point of a link, in its own axes."""
    graph = Graph()
    q, dq, ddq = (list(graph.inputs(name, robot.n)) for name in ("q", "dq", "ddq"))
    T = build(robot, "forward_kinematics", {"q": q}, link=link)
    R = [T[i][k] for i in range(3) for k in range(3)]
    point = [T[i][3] + sum((T[i][k] * float(position[k]) for k in range(3)), 0.0) for i in range(3)]
    first = tangents([*R, *point], dict(zip(q, dq)))
    second = tangents(first, dict(zip([*q, *dq], [*dq, *ddq])))

    def own(values: Any, i: int, k: int) -> Any:  # entry of Rᵀ times the derivative of R
        return sum((T[row][i] * values[3 * row + k] for row in range(3)), 0.0)

    omega = [own(first, 2, 1), own(first, 0, 2), own(first, 1, 0)]
    alpha = [0.5 * (own(second, i, k) - own(second, k, i)) for i, k in ((2, 1), (0, 2), (1, 0))]
    rise = [second[9 + row] - float(robot.gravity[row]) for row in range(3)]
    a = [sum((T[row][k] * rise[row] for row in range(3)), 0.0) for k in range(3)]
    function = graph.function("sensor_motion", {"a": a, "omega": omega, "alpha": alpha})
    found = run_function(function, (motion.q, np.asarray(motion.dq), np.asarray(motion.ddq)), None)
    return tuple(np.asarray(part) for part in found)  # type: ignore[return-value]


def wrench_columns(a: Array, w: Array, alpha: Array) -> Array:
    """Return the columns (N, 6, 10) of the wrench that moves a body, by its ten parameters."""
    X = np.zeros((len(a), 6, 10))
    W = _crossing(w)
    X[:, :3, 9] = a
    X[:, :3, 6:9] = _crossing(alpha) + W @ W
    X[:, 3:, 6:9] = -_crossing(a)
    X[:, 3:, :6] = np.einsum("cij,kj->kic", _SIX, alpha) + W @ np.einsum("cij,kj->kic", _SIX, w)
    return X


def _crossing(v: Array) -> Array:
    """Return the matrices (N, 3, 3) of cross products with vectors (N, 3)."""
    found = np.zeros((len(v), 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        found[:, i, j], found[:, j, i] = -v[:, k], v[:, k]
    return found


def turned_wrench(a: Array, w: Array, alpha: Array, ten: Array) -> Array:
    """Return the derivative (N, 6, 3) of the wrench by small turns of the sensor about its own axes.

    A turn by d takes v to v + v × d. The wrench is linear in a and alpha and quadratic in w.
    """
    h, inertia = ten[6:9], tensor(ten)
    A, W, V, H = _crossing(a), _crossing(w), _crossing(alpha), _crossing(h[None])[0]
    found = np.empty((len(a), 6, 3))
    # d(w × (w × h)) = (dw × (w × h)) + w × (dw × h), with dw = W d
    found[:, :3] = ten[9] * A - H @ V - (_crossing(np.cross(w, h)) + W @ H) @ W
    found[:, 3:] = inertia @ V + (W @ inertia - _crossing(w @ inertia)) @ W + H @ A
    return found
