"""The cheapest programs known of a robot's dynamics from base parameters alone.

Serial chains have recursions of their own (LinFang1999). Every other base map can be lifted: its kept parameters take
the base parameters' values, the others are zero. This covers trees and coupled joints.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from minidyn.base.base_parameters import base_parameters
from minidyn.base.virtual_links import carrier_of
from minidyn.dynamics.inertia_matrix import christoffel_matrix, composite_inertia_matrix
from minidyn.dynamics.newton_euler import joint_torques
from minidyn.dynamics.papers.formulations import FORMULATIONS
from minidyn.dynamics.papers.minimal import MEETING, VirtualLinks, cheapest_inertia_matrix, record_minimal
from minidyn.dynamics.tree import coordinates, place
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.passes import cheapest, optimise
from minidyn.graph.scalar import Graph
from minidyn.model.drives import Drive
from minidyn.model.robot import Robot


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
    rigid = replace(robot, joints=joints, parameters=np.full(len(inertial), np.nan))
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


def check_formulation(formulation: int | None) -> None:
    """Refuse a formulation that does not exist; None is the cheapest.

    Raises:
        UnknownName: There is no such formulation.
    """
    known = (*FORMULATIONS, MEETING)
    if formulation is not None and (isinstance(formulation, bool) or formulation not in known):
        raise UnknownName("formulation", str(formulation), [str(k) for k in known])


def minimal_function(rigid: Robot, what: str, formulation: int | None = None) -> Function:
    """Return the cheapest function known of a rigid serial chain: of q, ... and of the carrier's values.

    Args:
        rigid: The chain in mDH frames, without drives.
        what: A function of `minidyn.dynamics.papers.minimal`.
        formulation: As for `operation_count`.

    Returns:
        The function; its values are those of `carrier_of(rigid, for_, moments)` with `for_` "inertia" for inertia and
        Coriolis matrices, "torque" for all else, and with `moments` but for formulations 1 to 5.
    """
    for_ = "inertia" if what in ("inertia_matrix", "coriolis_matrix") else "torque"
    tensors = carrier_of(rigid, for_, moments=False).virtual
    moments = carrier_of(rigid, for_, moments=True).virtual
    return _best(tensors, moments, what, formulation)


@lru_cache(maxsize=256)
def _best(tensors: VirtualLinks, moments: VirtualLinks, what: str, formulation: int | None) -> Function:
    if what in ("inertia_matrix", "coriolis_matrix"):
        if formulation is not None and formulation != MEETING:
            return optimise(record_minimal(tensors, what, formulation))
        function, levels = cheapest_inertia_matrix(moments)
        if what == "inertia_matrix":
            return function
        return optimise(record_minimal(moments, what, MEETING, levels))
    made = [optimise(record_minimal(moments, what, composed=composed)) for composed in (False, True)]
    return cheapest(made)
