"""Inertia matrix and accelerations from the regressor alone.

A second route, and the one that takes an estimate. A regressor knows how torques depend on
accelerations. Evaluated at zero and at unit accelerations it gives the columns of the inertia
matrix, for whatever parameters it is multiplied with: standard ones, sixteen a link, or base
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.dynamics.drives import has_load
from minidyn.dynamics.functions import call, regressor
from minidyn.dynamics.kernel import BaseColumns, require_own
from minidyn.dynamics.regressor_forms import lumeng16
from minidyn.errors import MinidynError, ShapeError, UnknownParameters, first_of
from minidyn.model.robot import Robot, require_fixed_base

_SINGULAR = 1e-13  # smallest eigenvalue of the inertia matrix against its largest
_REPEATS, _SETTLED, _NEAR = (
    30,
    1e-10,
    1e-3,
)  # of Newton's steps: how many, how small, and over what slopes are taken


def inertia_matrix_by_regressor(
    robot: Robot,
    q: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseColumns | None = None,
    parametrization: str = "standard",
    form: str = "newton_euler",
) -> Array:
    """Return the inertia matrix (..., n, n), rotors included, as differences of regressors times
    the parameters.

    Args:
        robot: The robot.
        q: Positions (..., n).
        parameters: What the regressor's columns stand for, an estimate for instance; None: the
            robot's own.
        base: Base-parameter map, where `parameters` are base parameters (b,).
        parametrization: "standard", or "lumeng16" for sixteen parameters a link.
        form: "newton_euler" or "lagrange".

    Implements: LuMeng1993, evaluation of accelerations in simulations, steps 1-3.
    """
    positions = _of_joints("q", q, robot)
    require_own(robot, base, "inertia_matrix_by_regressor", "inertia")
    _, M = _bias_and_inertia(
        robot, positions, np.zeros_like(positions), parameters, base, parametrization, form
    )
    return M


def forward_dynamics_by_regressor(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    tau: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseColumns | None = None,
    parametrization: str = "standard",
    form: str = "newton_euler",
) -> Array:
    """Return the accelerations (..., n) that torques cause.

    ddq = M⁻¹ (tau - Y(q, dq, 0) θ), M from unit accelerations. Friction that grows with the load
    depends on the acceleration: Newton's steps are then repeated.

    `minidyn.forward_dynamics` gives the same in a fraction of the time. This route shares with it
    only the robot's geometry, and it takes an estimate of base parameters or of sixteen parameters
    a link as it is.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        tau: Torques (..., n).
        parameters: What the regressor's columns stand for; None: the robot's own.
        base: Base-parameter map, where `parameters` are base parameters (b,).
        parametrization: "standard", or "lumeng16" for sixteen parameters a link.
        form: "newton_euler" or "lagrange".

    Raises:
        MinidynError: The inertia matrix of these parameters is singular; the message names the
            joint.

    Implements: LuMeng1993, evaluation of accelerations in simulations, steps 1-4.
    """
    states = [
        _of_joints(name, array, robot) for name, array in (("q", q), ("dq", dq), ("tau", tau))
    ]
    positions, speeds, torques = np.broadcast_arrays(*states)
    require_own(robot, base, "forward_dynamics_by_regressor")
    given = parameters, base, parametrization, form
    bias, M = _bias_and_inertia(robot, positions, speeds, *given)
    values, directions = np.linalg.eigh((M + np.swapaxes(M, -1, -2)) / 2)
    smallest, largest = values[..., 0], np.abs(values).max(axis=-1)
    bad = np.abs(smallest) <= _SINGULAR * largest
    if np.any(bad):
        state = np.unravel_index(int(np.argmax(bad)), bad.shape)
        joint = robot.joint_names[int(np.argmax(np.abs(directions[state][:, 0])))]
        raise MinidynError(
            f"forward_dynamics_by_regressor of robot {robot.name!r}: the inertia matrix is "
            f"singular at joint {joint!r}; its links carry no inertia about its axis"
        )
    if not has_load(robot):
        return np.asarray(np.linalg.solve(M, (torques - bias)[..., None])[..., 0], dtype=float)
    found = np.zeros(torques.shape)
    for _ in range(_REPEATS):
        tau, slope = _bias_and_inertia(robot, positions, speeds, *given, found, _NEAR)
        step = np.linalg.solve(slope, (torques - tau)[..., None])[..., 0]
        found = found + step
        if np.all(np.abs(step) <= _SETTLED * (1.0 + np.abs(found))):
            return found
    raise MinidynError(
        f"forward_dynamics_by_regressor of robot {robot.name!r}: accelerations did not settle in "
        f"{_REPEATS} steps; friction that grows with the load takes all of it: give Fl < 1, or "
        "use md.forward_dynamics"
    )


def _bias_and_inertia(
    robot: Robot,
    q: Array,
    dq: Array,
    parameters: ArrayLike | None,
    base: BaseColumns | None,
    parametrization: str,
    form: str,
    ddq: Array | float = 0.0,
    unit: float = 1.0,
) -> tuple[Array, Array]:
    """Return Y(q, dq, ddq) θ (..., n) and the matrix (..., n, n) with the columns Y(q, dq, ddq +
    e_i) θ less that.
    """
    n = robot.n
    steps = np.concatenate([np.zeros((1, n)), unit * np.eye(n)]).reshape(
        n + 1, *(1,) * (q.ndim - 1), n
    )
    tau = _torques(
        robot, np.broadcast_arrays(q, dq, ddq + steps), parameters, base, parametrization, form
    )
    return tau[0], np.moveaxis(tau[1:] - tau[0], 0, -1) / unit


def _torques(
    robot: Robot,
    states: Sequence[Array],
    parameters: ArrayLike | None,
    base: BaseColumns | None,
    parametrization: str,
    form: str,
) -> Array:
    """Return Y(q, dq, ddq) θ (..., n)."""
    if base is not None:
        if parametrization != "standard" or form != "newton_euler":
            raise MinidynError(
                "base= stands for combinations of standard parameters: leave parametrization and "
                "form"
            )
        Y = call(robot, "base_regressor", tuple(states), None, None, base=base)
    else:
        Y = regressor(robot, *states, parametrization=parametrization, form=form)
    if parameters is not None:
        theta = np.asarray(parameters, dtype=float)
    elif base is not None:
        raise MinidynError(
            "base= needs parameters=, the values of the base parameters: base.values()"
        )
    else:
        theta = robot.parameters if parametrization == "standard" else lumeng16(robot).parameters
    if theta.shape != (Y.shape[-1],):
        raise ShapeError(f"parameters: expected shape ({Y.shape[-1]},), got {theta.shape}")
    unknown = np.isnan(theta)
    if np.any(unknown):
        felt = unknown & np.any(Y.reshape(-1, len(theta)) != 0.0, axis=0)
        if np.any(felt):
            names = robot.layout.names if parametrization == "standard" else lumeng16(robot).names
            shown = first_of([names[k] for k in np.flatnonzero(felt)])
            raise UnknownParameters(
                f"robot {robot.name!r}: parameters that are unknown (NaN) are needed: {shown}"
            )
        theta = np.where(unknown, 0.0, theta)
    return np.asarray(Y @ theta)


def _of_joints(name: str, array: ArrayLike, robot: Robot) -> Array:
    require_fixed_base(robot, "dynamics by the regressor")
    given = np.asarray(array, dtype=float)
    if given.shape[-1:] != (robot.n,):
        raise ShapeError(f"{name}: expected shape (..., {robot.n}), got {given.shape}")
    return given
