"""Controllers that trust their model: computed torque, and PD with gravity compensation."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.control.controller import (
    Controller,
    Reference,
    Signals,
    gain_matrix,
    gain_vector,
    plain_gain,
    positive,
    remembered,
)
from minidyn.control.recorded import weighted
from minidyn.dynamics.functions import gravity_torque, inverse_dynamics
from minidyn.dynamics.kernel import compile_kernel
from minidyn.dynamics.record import build, without_unknowns
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import renamed
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot


@remembered
@renamed(rate="bandwidth")
def computed_torque(robot: RobotLike, *, bandwidth: ArrayLike, period: float = 1e-3) -> Controller:
    """Return computed-torque control.

    Errors decay as a double pole at `bandwidth` if the model is right.

    Args:
        robot: The model.
        bandwidth: Λ, 1/s: a positive number, one for each joint, or a matrix (n, n): Kp = Λ², Kv =
            2Λ.
        period: Sampling period, s.
    """
    robot = as_robot(robot)
    pole, length = gain_matrix("bandwidth", bandwidth, robot.n), positive("period", period)
    square = pole @ pole
    solved = bool(robot.implicit_loops)  # at every state: no kernel and no program, but a function
    inverse = (
        partial(inverse_dynamics, robot) if solved else compile_kernel(robot, "inverse_dynamics")
    )

    def torque(estimate: Array, q: Array, dq: Array, reference: Reference) -> tuple[Array, Signals]:
        q_d, dq_d, ddq_d = reference
        demanded = ddq_d - 2 * (dq - dq_d) @ pole - (q - q_d) @ square
        return inverse(q, dq, demanded), {}

    def program() -> Function:
        graph = Graph()
        q, dq, q_d, dq_d, ddq_d = _inputs(graph, robot)
        e, de = ([a - b for a, b in zip(x, y)] for x, y in ((q, q_d), (dq, dq_d)))
        demanded = [
            a - weighted(2 * row, de) - weighted(other, e)
            for a, row, other in zip(ddq_d, pole, square)
        ]
        values = [
            float(value) for value in without_unknowns(robot, "inverse_dynamics", robot.parameters)
        ]
        tau = build(robot, "inverse_dynamics", {"q": q, "dq": dq, "ddq": demanded}, values)
        return graph.function("control_step", {"tau": tau})

    made = None if solved else program
    return Controller(
        "computed torque",
        robot,
        torque,
        period=length,
        settings={"bandwidth": plain_gain(pole)},
        program=made,
    )


@remembered
@renamed(rate="bandwidth")
def pd_gravity(
    robot: RobotLike, *, gain: ArrayLike, bandwidth: ArrayLike, period: float = 1e-3
) -> Controller:
    """Return PD control with gravity compensation: tau = g(q) - gain (e + de / bandwidth).

    Args:
        robot: The model; only its gravity torque is used.
        gain: Stiffness, N m/rad or N/m: a number or one for each joint.
        bandwidth: 1/s, a number or one for each joint: damping is gain / bandwidth.
        period: Sampling period, s.
    """
    robot = as_robot(robot)
    stiffness = gain_vector("gain", gain, robot.n)
    rate = gain_vector("bandwidth", bandwidth, robot.n)
    damping = stiffness / rate
    length = positive("period", period)
    solved = bool(robot.implicit_loops)
    gravity = partial(gravity_torque, robot) if solved else compile_kernel(robot, "gravity_torque")

    def torque(estimate: Array, q: Array, dq: Array, reference: Reference) -> tuple[Array, Signals]:
        q_d, dq_d, _ = reference
        return gravity(q) - stiffness * (q - q_d) - damping * (dq - dq_d), {}

    def program() -> Function:
        graph = Graph()
        q, dq, q_d, dq_d, _ = _inputs(graph, robot)
        values = [
            float(value) for value in without_unknowns(robot, "gravity_torque", robot.parameters)
        ]
        hold = build(robot, "gravity_torque", {"q": q}, values)
        errors = zip(hold, q, dq, q_d, dq_d, stiffness.tolist(), damping.tolist())
        tau = [g - k * (x - y) - b * (v - w) for g, x, v, y, w, k, b in errors]
        return graph.function("control_step", {"tau": tau})

    settings = {"gain": stiffness.tolist(), "bandwidth": plain_gain(np.diag(rate))}
    made = None if solved else program
    return Controller(
        "PD with gravity", robot, torque, period=length, settings=settings, program=made
    )


def _inputs(graph: Graph, robot: Robot) -> list[list[Scalar]]:
    """Return q, dq and the reference as inputs of a recorded step."""
    return [list(graph.inputs(name, robot.n)) for name in ("q", "dq", "q_d", "dq_d", "ddq_d")]
