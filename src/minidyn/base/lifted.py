"""Dynamics of any open robot from base parameters by the standard recursions, all other parameters being zero.

Every base map can be lifted: its kept parameters take the base parameters' values, the others are zero. This covers
trees and coupled joints, where the recursions for serial chains do not apply.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.base.base_parameters import base_parameters
from minidyn.dynamics.coordinates import coordinates
from minidyn.dynamics.coriolis import christoffel_matrix
from minidyn.dynamics.inertia_matrix import composite_inertia_matrix
from minidyn.dynamics.newton_euler import joint_torques
from minidyn.dynamics.tree import place
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import Unsupported
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.model.drives import Drive
from minidyn.model.robot import Robot

__all__ = ["lifted_function"]


def lifted_function(robot: Robot, what: str) -> Function:
    """Return a function of q (and dq, ddq) and of the kept parameters, rigid links only.

    Raises:
        Unsupported: The robot's loops must be solved for.
    """
    if robot.implicit_loops:
        raise Unsupported(
            f"robot {robot.name!r}: the passive joints of loop {robot.implicit_loops[0].name!r} must be solved for; "
            "operations are counted for open robots and for loops given by formulas"
        )
    inertial = [k for k, column in enumerate(robot.layout.columns) if column.is_inertial]
    joints = tuple(replace(joint, drive=Drive()) for joint in robot.joints)
    rigid = replace(robot, joints=joints, values=np.full(len(inertial), np.nan))
    base = base_parameters(rigid)
    graph = Graph()
    n = rigid.n
    still: list[Scalar] = [0.0] * n
    q = list(graph.inputs("q", n))
    dq = still if what in ("inertia_matrix", "gravity_torque") else list(graph.inputs("dq", n))
    ddq = list(graph.inputs("ddq", n)) if what == "inverse_dynamics" else still
    phi: list[Scalar] = [0.0] * len(rigid.layout)
    for index, value in zip(rigid.layout.indices(base.kept), graph.inputs("values", base.rank, uniform=True)):
        phi[index] = value
    ten = [phi[part] for part in rigid.layout.links]
    c = coordinates(rigid, q, dq if what != "coriolis_matrix" else still, ddq)
    tree = place(rigid, c.q)
    if what in ("inertia_matrix", "coriolis_matrix"):
        M = c.project_matrix(composite_inertia_matrix(tree, ten))
        if what == "inertia_matrix":
            return graph.function(what, {"M": M})
        return graph.function(what, {"C": christoffel_matrix(M, q, dq)})
    tau = joint_torques(tree, c.dq, c.ddq, ten, gravity=what != "velocity_torque")
    return graph.function(what, {"tau": c.project(tau)})
