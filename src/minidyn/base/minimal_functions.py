"""Dynamics as plain functions of arrays, from standard parameters or from base parameters alone.

The public names `inertia_matrix`, `inverse_dynamics`, `gravity_torque` and `coriolis_matrix` live here because they
take any base map. Without one they are the functions of :mod:`minidyn.dynamics.functions`. With one, base parameters
are all that is known: parameters outside the set are never needed, and a serial chain runs the cheapest recursion found
for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.dynamics import functions
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap

__all__ = ["coriolis_matrix", "gravity_torque", "inertia_matrix", "inverse_dynamics"]

Array = NDArray[np.float64]


def inertia_matrix(
    robot: Robot,
    q: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseMap | None = None,
    beta: ArrayLike | None = None,
    formulation: int | None = None,
    out: Array | None = None,
) -> Array:
    """Return the inertia matrix M (..., n, n), rotors included.

    Args:
        robot: The robot.
        q: Positions (..., n).
        parameters: Standard parameters (p,); None: the robot's own.
        base: A base map of the robot; M is then computed from base parameters alone.
        beta: Their values (b,); None: those that `parameters` give.
        formulation: 1 to 5 as in LinFang1999, 6 meets half-way; None: the cheapest. For serial chains.
        out: Array (..., n, n) to write into.

    Raises:
        NotEquivalent: The map does not determine the inertia matrix.
        Unsupported: A formulation for a robot that is not a serial chain.

    Implements: LinFang1999 Tables I-V.
    """
    if base is None and formulation is None and beta is None:
        return functions.inertia_matrix(robot, q, parameters, out=out)
    result: Array = _from_base(robot, "inertia_matrix", (q,), base, beta, parameters, out, formulation)
    return result


def inverse_dynamics(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseMap | None = None,
    beta: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return the joint torques (..., n) of a motion: links, rotors and friction.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        ddq: Accelerations (..., n).
        parameters: Standard parameters (p,); None: the robot's own.
        base: A base map of the robot; torques are then computed from base parameters alone.
        beta: Their values (b,); None: those that `parameters` give.
        out: Array (..., n) to write into.

    Raises:
        NotEquivalent: The map does not determine the torques.

    Implements: LuMeng1993 eq. (66)-(71).
    """
    if base is None and beta is None:
        return functions.inverse_dynamics(robot, q, dq, ddq, parameters, out=out)
    result: Array = _from_base(robot, "inverse_dynamics", (q, dq, ddq), base, beta, parameters, out)
    return result


def gravity_torque(
    robot: Robot,
    q: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseMap | None = None,
    beta: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return the torques (..., n) that hold the robot still against gravity, without friction.

    Arguments are those of `inverse_dynamics`.
    """
    if base is None and beta is None:
        return functions.gravity_torque(robot, q, parameters, out=out)
    result: Array = _from_base(robot, "gravity_torque", (q,), base, beta, parameters, out)
    return result


def coriolis_matrix(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseMap | None = None,
    beta: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return C (..., n, n) from Christoffel symbols: C dq are the velocity torques and Ṁ - 2C is skew-symmetric.

    Arguments are those of `inverse_dynamics`.
    """
    if base is None and beta is None:
        return functions.coriolis_matrix(robot, q, dq, parameters, out=out)
    result: Array = _from_base(robot, "coriolis_matrix", (q, dq), base, beta, parameters, out)
    return result


def _from_base(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    base: BaseMap | None,
    beta: ArrayLike | None,
    parameters: ArrayLike | None,
    out: Array | None,
    formulation: int | None = None,
) -> Any:
    from minidyn.base.minimal_request import MinimalRequest  # fetched only by those who give a base map

    return MinimalRequest(robot, what, base, beta, parameters, formulation)(arrays, out)
