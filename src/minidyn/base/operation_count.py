"""How many multiplications and additions one evaluation takes: executed by this package, or as a paper counts."""

from __future__ import annotations

from functools import lru_cache

from minidyn.base.lifted import lifted_function
from minidyn.base.paper_counts import paper_count
from minidyn.base.virtual_links import carrier_of, generic_chain, rigid_chain
from minidyn.dynamics.formulations import FORMULATIONS
from minidyn.dynamics.mdh_chain import check_open
from minidyn.dynamics.mdh_frames import to_mdh
from minidyn.dynamics.minimal import MEETING, MINIMAL_WHAT, VirtualLinks, cheapest_inertia_matrix, record_minimal
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.passes import cheapest, optimise
from minidyn.model.robot import Robot

__all__ = ["COUNTINGS", "check_formulation", "minimal_function", "operation_count"]

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


def check_formulation(formulation: int | None) -> None:
    """Refuse a formulation that does not exist; None is the cheapest.

    Raises:
        UnknownName: There is no such formulation.
    """
    known = (*FORMULATIONS, MEETING)
    if formulation is not None and (isinstance(formulation, bool) or formulation not in known):
        raise UnknownName("formulation", str(formulation), [str(k) for k in known])


def _counted(robot: Robot, what: str, formulation: int | None) -> Function:
    chain = None if robot.loops else rigid_chain(robot)
    if chain is None:
        if formulation is not None:
            raise Unsupported(f"formulation={formulation}: robot {robot.name!r} is not an open serial chain")
        return optimise(lifted_function(robot, what))
    return minimal_function(chain[0], what, formulation)


def minimal_function(rigid: Robot, what: str, formulation: int | None = None) -> Function:
    """Return the cheapest function known of a rigid serial chain: of q, ... and of the carrier's values.

    Args:
        rigid: The chain in mDH frames, without drives.
        what: A function of `minidyn.dynamics.minimal`.
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
