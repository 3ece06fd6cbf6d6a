"""How many multiplications and additions one evaluation takes: executed by this package, or as a paper counts."""

from __future__ import annotations

from minidyn.base.minimal_programs import check_formulation, lifted_function, minimal_function
from minidyn.base.virtual_links import generic_chain, rigid_chain
from minidyn.dynamics.mdh_chain import check_open
from minidyn.dynamics.mdh_frames import to_mdh
from minidyn.dynamics.papers.minimal import MEETING, MINIMAL_WHAT
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.passes import optimise
from minidyn.model.robot import Robot
from minidyn.papers.paper_counts import paper_count

COUNTINGS = ("executed", "paper")


def operation_count(
    robot: Robot,
    what: str = "inertia_matrix",
    formulation: int | None = None,
    counting: str = "executed",
    customised: bool = True,
) -> tuple[int, int]:
    """Return (multiplications, additions) of one evaluation on the robot's base parameters.

    Sines and cosines are given, geometry is numeric, and base parameters are general: no zero, equality or sign of a
    particular value is used. What depends on parameters alone is computed once and not counted. Rotor inertia, friction
    and drives are left out.

    Args:
        robot: The robot. Formulations and counts of papers need a serial chain.
        what: "inertia_matrix", "inverse_dynamics", "gravity_torque", "velocity_torque" (Coriolis and centrifugal) or
            "coriolis_matrix".
        formulation: Of the inertia matrix: 1 to 5 as in LinFang1999, 6 meets half-way; None: the cheapest.
        counting: "executed": operations of the recorded program after its passes. "paper": the sum of the lines of
            LinFang1999's tables, which are for general geometry and the inertia matrix.
        customised: Whether the robot's own geometry folds; False: general alpha, a and d with the same joints.

    Raises:
        UnknownName: No such function, formulation or counting.
        Unsupported: A robot that the question does not cover.
    """
    _check(what, formulation, counting)
    if counting == "paper":
        if what != "inertia_matrix":
            raise Unsupported(f'counting "paper" is for the inertia matrix; LinFang1999 does not count {what}')
        check_open(robot, "operation counts of LinFang1999")
        joints = "".join("R" if joint.turns else "P" for joint in to_mdh(robot)[0].joints)
        return paper_count(joints, formulation)
    counts = _counted(generic_chain(robot) if not customised else robot, what, formulation).counts
    return counts["mul"], counts["add"]


def _check(what: str, formulation: int | None, counting: str) -> None:
    if counting not in COUNTINGS:
        raise UnknownName("counting", counting, COUNTINGS)
    if what not in MINIMAL_WHAT:
        raise UnknownName("function", what, MINIMAL_WHAT)
    check_formulation(formulation)
    if formulation is None:
        return
    if what != "inertia_matrix":
        raise MinidynError(f"formulation={formulation}: formulations are of the inertia matrix, not of {what}")
    if counting == "paper" and formulation == MEETING:
        raise Unsupported(f'counting "paper": formulation {MEETING} is not in LinFang1999; give 1 to 5')


def _counted(robot: Robot, what: str, formulation: int | None) -> Function:
    chain = None if robot.loops else rigid_chain(robot)
    if chain is None:
        if formulation is not None:
            raise Unsupported(f"formulation={formulation}: robot {robot.name!r} is not an open serial chain")
        return optimise(lifted_function(robot, what))
    return minimal_function(chain[0], what, formulation)
