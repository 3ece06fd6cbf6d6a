"""Dynamics of robots with loops that are not given as functions: passive joints are solved for outside the kernel.

The tree's own kernels run on all joints; G and Ġ of the solved loop carry the results to the active joints:
dq_all = G dq, ddq_all = G ddq + Ġ dq, tau = Gᵀ tau_all, Y = Gᵀ Y_all, M = Gᵀ M_all G (Gautier1991, closed loops).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.errors import ShapeError, Unsupported
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.dynamics.kernel import BaseColumns

__all__ = ["REGRESSORS", "implicit_call"]

REGRESSORS = (
    *("regressor", "base_regressor"),
    *("lagrange_regressor", "lumeng16_regressor", "lumeng16_lagrange_regressor"),
)
"""Functions that return Y(q, dq, ddq)."""


def implicit_call(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    parameters: ArrayLike | None,
    out: Any,
    base: BaseColumns | None,
    link: str | int | None,
) -> Any:
    """Compute a function of a robot with implicit loops; same shapes as without them."""
    from minidyn.dynamics import functions as tree_functions
    from minidyn.model.loops import loop_motion

    tree = robot.open_loops()
    states = [np.asarray(array, dtype=float) for array in arrays]
    for array in states:
        if array.ndim == 0 or array.shape[-1] != robot.n:
            raise ShapeError(f"{what}: got shape {array.shape}, expected (..., {robot.n})")
    states = [np.ascontiguousarray(array) for array in np.broadcast_arrays(*states)]
    q = states[0]
    dq = states[1] if len(states) > 1 else np.zeros_like(q)
    q_all, G, drift = loop_motion(robot, q, dq)
    dq_all = np.einsum("...ij,...j->...i", G, dq)

    def project(tau_all: Any) -> Any:
        return np.einsum("...ij,...i->...j", G, tau_all)

    def project_columns(matrix: Any, Y_all: Any) -> Any:
        return np.einsum("...ki,...kp->...ip", matrix, Y_all)

    own = robot.values if parameters is None else parameters
    result: Any
    if what == "inverse_dynamics":
        ddq_all = np.einsum("...ij,...j->...i", G, states[2]) + drift
        result = project(tree_functions.inverse_dynamics(tree, q_all, dq_all, ddq_all, own))
    elif what == "gravity_torque":
        result = project(tree_functions.gravity_torque(tree, q_all, own))
    elif what == "inertia_matrix":
        M_all = tree_functions.inertia_matrix(tree, q_all, own)
        result = np.einsum("...ki,...kl,...lj->...ij", G, M_all, G)
    elif what == "forward_dynamics":
        M_all = tree_functions.inertia_matrix(tree, q_all, own)
        M = np.einsum("...ki,...kl,...lj->...ij", G, M_all, G)
        bias = project(tree_functions.inverse_dynamics(tree, q_all, dq_all, drift, own))
        result = np.linalg.solve(M, (states[2] - bias)[..., None])[..., 0]
    elif what == "momentum_regressor":
        W_all, rest_all = tree_functions._call(tree, what, (q_all, dq_all), None, None, base)
        rates = np.stack([_drift_along(robot, q, dq, axis) for axis in np.eye(robot.n)], axis=-1)  # dG/dt
        rest = project_columns(G, rest_all) - project_columns(rates, W_all)
        result = project_columns(G, W_all), rest
    elif what == "slotine_li_regressor":
        dqr_all = np.einsum("...ij,...j->...i", G, states[2])
        ddqr_all = np.einsum("...ij,...j->...i", G, states[3]) + _drift_along(robot, q, dq, states[2])
        Y_all = tree_functions._call(tree, what, (q_all, dq_all, dqr_all, ddqr_all), None, None, base)
        result = project_columns(G, Y_all)
    elif what in REGRESSORS:
        ddq_all = np.einsum("...ij,...j->...i", G, states[2]) + drift
        result = project_columns(G, tree_functions._call(tree, what, (q_all, dq_all, ddq_all), None, None, base))
    elif what == "energy":
        result = tree_functions.energy(tree, q_all, dq_all, own)
    elif what == "energy_regressor":
        result = tree_functions.energy_regressor(tree, q_all, dq_all)
    elif what == "forward_kinematics":
        result = tree_functions.forward_kinematics(tree, q_all, link)
    elif what == "jacobian":
        result = tree_functions.jacobian(tree, q_all, link) @ G
    else:
        raise Unsupported(
            f"{what} of robot {robot.name!r}: its loops are solved numerically; give the passive joints as functions "
            "of the active ones in the robot's file"
        )
    if out is None:
        return result
    for target, value in zip(out, result) if isinstance(result, tuple) else ((out, result),):
        if target.shape != np.shape(value):
            raise ShapeError(f"{what}: out has shape {target.shape}, expected {np.shape(value)}")
        target[...] = value
    return out


def _drift_along(robot: Robot, q: Any, dq: Any, other: Any) -> Any:
    """Return dG/dt times `other` for speeds dq: the polar form of the drift dG/dt dq, which is quadratic in dq."""
    from minidyn.model.loops import loop_motion

    other = np.broadcast_to(other, np.shape(dq))
    return 0.25 * (loop_motion(robot, q, dq + other)[2] - loop_motion(robot, q, dq - other)[2])
