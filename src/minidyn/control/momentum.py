"""Momentum, and the torque that changes it, without accelerations: recorded from the robot's energies.

With the Lagrangian L = T - V the torque of drives and contacts is dp/dt - ∂L/∂q + friction, p = ∂L/∂dq. One sweep
backwards through the recorded energies gives p and ∂L/∂q, which is Cᵀ dq - g, for the cost of a few energies.
"""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.drives import friction_columns, has_load
from minidyn.dynamics.newton_euler import regrouped
from minidyn.dynamics.record import build, without_unknowns
from minidyn.dynamics.vectors import Scalar
from minidyn.graph.derivative import OPERATIONS, vjp
from minidyn.graph.function import run_tape
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot


def momentum_parts(robot: Robot, q: list[Scalar], dq: list[Scalar]) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Record (p, rest, friction), each of n scalars, with tau = dp/dt + rest; friction is a part of rest."""
    phi = without_unknowns(robot, "inverse_dynamics", robot.parameters)
    simpler, ten = regrouped(robot, [phi[part].tolist() for part in robot.layout.links])
    fewer = phi.tolist()
    for part, body in zip(robot.layout.links, ten):
        fewer[part] = body
    energies = Graph()
    inputs = {name: energies.inputs(name, robot.n) for name in ("q", "dq")}
    function = energies.function("energy", build(simpler, "energy", inputs, fewer))
    pull, p = run_tape(vjp(function, ("q", "dq")), [q, dq, [1.0], [-1.0]], OPERATIONS)
    drives = _drive_torque(robot, phi, [c.index for c in robot.layout.columns if c.is_friction], q, dq)
    friction = _drive_torque(robot, phi, friction_columns(robot), q, dq)
    return p, [torque - force for torque, force in zip(drives, pull)], friction


def _drive_torque(robot: Robot, phi: Array, columns: list[int], q: list[Scalar], dq: list[Scalar]) -> list[Scalar]:
    """Return the torques of some drive terms alone."""
    still: list[Scalar] = [0.0] * robot.n
    states = {"q": q, "dq": dq, "ddq": still}
    loaded = has_load(robot)  # then friction reads the links' parameters, too
    own = np.zeros(len(phi))
    own[columns] = phi[columns]
    if not loaded:
        return list(build(robot, "inverse_dynamics", states, own.tolist()))
    without = phi.copy()
    without[[c.index for c in robot.layout.columns if c.is_friction]] = 0.0
    bodies = build(robot, "inverse_dynamics", states, without.tolist())
    every = build(robot, "inverse_dynamics", states, (without + own).tolist())
    return [a - b for a, b in zip(every, bodies)]
