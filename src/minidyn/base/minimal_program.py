"""Programs that read base parameters alone.

What is counted, compiled, called and printed is one and the same function. A serial chain runs the
cheapest recursion found for it. Its virtual links carry the values of a closed-form set, which are
a linear map of base parameters beta of any map; drives add their own terms. Other robots run the
standard recursion on the parameters that lead the set, all others zero. Passes then make the
program cheap, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.numeric.samples import units_of
from minidyn.base.virtual_links import Carrier, carrier_of, rigid_chain
from minidyn.dynamics.drives import Shapes, drive_columns, has_load, rotor_inertia_matrix
from minidyn.dynamics.kernel import function_of
from minidyn.dynamics.papers.formulations import FORMULATIONS
from minidyn.dynamics.papers.minimal import (
    BIAS,
    MEETING,
    MINIMAL_WHAT,
    VirtualLinks,
    cheapest_inertia_matrix,
    motion_inputs,
    record_minimal,
)
from minidyn.dynamics.record import WHAT, require_formulas
from minidyn.dynamics.tree import coordinates
from minidyn.dynamics.vectors import Scalar, solve_symmetric
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.graph.derivative import OPERATIONS, close_graph, shaped
from minidyn.graph.function import Function, run_tape
from minidyn.graph.passes import cheapest, optimise
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native.kernel import Recent
from minidyn.model.canonical import as_understood
from minidyn.model.drives import Drive
from minidyn.model.geometry import TOLERANCE
from minidyn.model.robot import Robot

_ROUNDING = (
    1e-13  # share of a row's largest entry, in the robot's own units, below which an entry is zero
)
_LONG = 1200  # steps of a recorded tree from which passes would take many seconds
BY_FORMULATION = ("inertia_matrix", "forward_dynamics")
"""Functions that a formulation of the inertia matrix may be chosen for."""
_PROGRAMS: Recent[tuple[object, ...], Function] = Recent(256)


def check_formulation(formulation: int | None, what: str = "inertia_matrix") -> None:
    """Refuse a formulation that does not exist, or of another function; None is the cheapest."""
    known = (*FORMULATIONS, MEETING)
    if formulation is None:
        return
    if isinstance(formulation, bool) or formulation not in known:
        raise UnknownName("formulation", str(formulation), [str(k) for k in known])
    if what not in BY_FORMULATION:
        raise MinidynError(
            f"formulation={formulation}: formulations are of the inertia matrix, which "
            f"{' and '.join(BY_FORMULATION)} compute, not of {what}"
        )


def is_chain(robot: Robot, tolerance: float) -> bool:
    """Say whether a robot is an open serial chain with a recursion of its own.

    Loads of friction need the standard.
    """
    is_plain = not (has_load(robot) or robot.free_base)
    return is_plain and rigid_chain(robot, tolerance) is not None


def no_formulation(robot: Robot, formulation: int) -> Unsupported:
    """Return the error of a formulation of a robot that is no such chain."""
    return Unsupported(
        f"formulation={formulation}: robot {robot.name!r} is not an open serial chain, or its axes "
        "are so nearly parallel that modified Denavit-Hartenberg frames are far away"
    )


def minimal_program(
    robot: Robot,
    what: str,
    base: BaseMap,
    formulation: int | None = None,
    beta: Array | None = None,
) -> Function:
    """Return a function of a robot, its drives included, that reads base parameters of a map alone.

    Args:
        robot: The robot, without loops that must be solved for.
        what: A function of MINIMAL_WHAT.
        base: A map that determines it.
        formulation: Of the inertia matrix of a serial chain, also as a part of its forward
            dynamics; None: the cheapest.
        beta: Base parameters (b,) to bake in; None: they are the last argument, "beta".

    Raises:
        Unsupported: A formulation for a robot that is not an open serial chain, or whose friction
            grows with the load.
    """
    key = (
        robot.structure_fingerprint,
        what,
        base.fingerprint,
        formulation,
        None if beta is None else beta.tobytes(),
    )
    if key not in _PROGRAMS:
        _PROGRAMS[key] = _program(robot, what, base, formulation, beta)
    return _PROGRAMS[key]


def _program(
    robot: Robot, what: str, base: BaseMap, formulation: int | None, beta: Array | None
) -> Function:
    chain = rigid_chain(robot, base.tolerance) if is_chain(robot, base.tolerance) else None
    if chain is None:
        if formulation is not None:
            raise no_formulation(robot, formulation)
        understood = as_understood(robot, base.tolerance)
        recorded = function_of(
            understood, what, parameters="argument" if beta is None else beta, base=base
        )
        return optimise(recorded) if len(recorded.tape) < _LONG else recorded
    lift = base.lift(np.eye(base.rank)).T if base.rank else np.zeros((len(robot.layout), 0))
    units = units_of(robot).parameters[[robot.layout.indices([name])[0] for name in base.kept]]
    graph = Graph()
    q, dq, ddq = motion_inputs(graph, what, robot.n)
    tau = list(graph.inputs("tau", robot.n)) if what == "forward_dynamics" else []
    given: list[Scalar] = (
        list(graph.inputs("beta", base.rank, uniform=True)) if beta is None else beta.tolist()
    )
    part = _ChainProgram(robot, *chain, lift, units, given, {"q": q, "dq": dq, "ddq": ddq})
    if what == "inertia_matrix":
        result: object = part.inertia_matrix(formulation)
    elif what == "inverse_dynamics":
        result = part.torques(what)
    elif what == "forward_dynamics":
        bias = part.torques(BIAS)
        M = part.inertia_matrix(formulation)
        result = solve_symmetric(M, [t - b for t, b in zip(tau, bias)], robot.joint_names)
    else:
        result = part.of_links(what, formulation)
    return graph.function(what, {WHAT[what].result: result})


@dataclass(frozen=True)
class _ChainProgram:
    """What functions of a serial chain are recorded from: its links, its drives and a motion."""

    robot: Robot
    rigid: Robot  # its links in mDH frames
    to_rigid: Array  # standard parameters of the rigid chain from those of the robot
    lift: Array  # standard parameters (p, b) that have the base parameters
    units: Array  # (b,) of the base parameters
    beta: list[Scalar]
    motion: dict[str, list[Scalar]]

    def of_links(self, what: str, formulation: int | None = None) -> NDArray[np.object_]:
        """Return a function's result without drives."""
        carrier = _carrier(self.rigid, what, formulation)
        matrix = carrier.matrix @ (carrier.base.matrix @ (self.to_rigid @ self.lift))
        values = _mapped(_without_rounding(matrix, self.units), self.beta)
        function = minimal_function(self.rigid, what, formulation)
        inputs = self.motion | {"values": values}
        columns = [list(inputs[argument.name]) for argument in function.arguments]
        return shaped(run_tape(function, columns, OPERATIONS)[0], function.results[0].shape)

    def inertia_matrix(self, formulation: int | None) -> list[list[Scalar]]:
        """Return the inertia matrix, rotors included."""
        robot = self.robot
        rotors = rotor_inertia_matrix(robot, _mapped(self.lift, self.beta))
        M = self.of_links("inertia_matrix", formulation)
        joints = robot.independent
        return [
            [M[a, b] + rotors[i][j] for b, j in enumerate(joints)] for a, i in enumerate(joints)
        ]

    def torques(self, what: str) -> list[Scalar]:
        """Return inverse dynamics or BIAS, drives included."""
        robot, phi = self.robot, _mapped(self.lift, self.beta)
        result = list(self.of_links(what))
        still = [0.0] * robot.n
        ddq = still if what == BIAS else self.motion["ddq"]
        c = coordinates(robot, self.motion["q"], self.motion["dq"], ddq)
        for drive in drive_columns(robot, c.dq, c.ddq, Shapes(robot, c.q)):
            for joint, ratio in drive.ratios.items():
                for k in c.G[joint]:
                    result[k] = result[k] + ratio * (phi[drive.index] * drive.value)
        return result


def _without_rounding(matrix: Array, units: Array) -> Array:
    """Return a matrix (m, b) with zeros for what is rounding beside the largest entry of its row.

    Units (b,).
    """
    sizes = np.abs(matrix) * units
    return np.where(sizes > _ROUNDING * sizes.max(axis=1, keepdims=True, initial=0.0), matrix, 0.0)


def _mapped(matrix: Array, given: Sequence[Scalar]) -> list[Scalar]:
    """Return matrix @ given, over scalars."""
    return [
        sum((float(factor) * value for factor, value in zip(row, given) if factor), 0.0)
        for row in matrix
    ]


def counted_program(
    robot: Robot, what: str, formulation: int | None = None, tolerance: float = TOLERANCE
) -> Function:
    """Return a function of a robot's rigid links from their base parameters.

    What operations are counted of.
    """
    chain = rigid_chain(robot, tolerance)
    if chain is not None and what == "forward_dynamics":
        whole = mlc_base(chain[0], "1999", "torque", 0.0)
        return minimal_program(chain[0], what, whole, formulation)
    if chain is not None:
        return minimal_function(chain[0], what, formulation)
    if formulation is not None:
        raise no_formulation(robot, formulation)
    require_formulas(
        robot, "operations are counted for open robots and for loops given by formulas"
    )
    inertial = [k for k, column in enumerate(robot.layout.columns) if column.is_inertial]
    joints = tuple(replace(joint, drive=Drive()) for joint in robot.joints)
    rigid = replace(robot, joints=joints, parameters=np.full(len(inertial), np.nan))
    base = base_parameters(rigid, tolerance=tolerance)
    if what != "velocity_torque":
        return minimal_program(rigid, what, base)
    floating = replace(as_understood(rigid, tolerance), gravity=np.zeros(3))
    return optimise(
        _still(function_of(floating, "inverse_dynamics", parameters="argument", base=base))
    )


def _still(function: Function) -> Function:
    """Return a function of q, dq, ddq, beta for accelerations of zero, as one of q, dq, beta."""
    graph = Graph()
    columns: list[list[Scalar]] = [
        [0.0] * each.size
        if each.name == "ddq"
        else list(graph.inputs(each.name, each.size, uniform=each.uniform))
        for each in function.arguments
    ]
    return close_graph(graph, function, run_tape(function, columns, OPERATIONS))


def minimal_function(rigid: Robot, what: str, formulation: int | None = None) -> Function:
    """Return the cheapest function known of a rigid chain in mDH frames: of q, ...

    and of its carrier's values.
    """
    if what not in (*MINIMAL_WHAT, BIAS):
        raise UnknownName("function", what, MINIMAL_WHAT)
    return _best(_carrier(rigid, what, formulation).virtual, what, formulation)


def _carrier(rigid: Robot, what: str, formulation: int | None) -> Carrier:
    """Return what carries a function's values: by second moments but for formulations 1 to 5."""
    for_ = "inertia" if what in ("inertia_matrix", "coriolis_matrix") else "torque"
    return carrier_of(rigid, for_, moments=formulation in (None, MEETING))


@lru_cache(maxsize=256)
def _best(virtual: VirtualLinks, what: str, formulation: int | None) -> Function:
    if what not in ("inertia_matrix", "coriolis_matrix"):
        return cheapest(
            [
                optimise(record_minimal(virtual, what, composed=composed))
                for composed in (False, True)
            ]
        )
    if formulation is not None and formulation != MEETING:
        return optimise(record_minimal(virtual, what, formulation))
    function, levels = cheapest_inertia_matrix(virtual)
    return (
        function
        if what == "inertia_matrix"
        else optimise(record_minimal(virtual, what, MEETING, levels))
    )


def recorded_function(rigid: Robot, formulation: int) -> Function:
    """Return a formulation of the inertia matrix as it is recorded for a rigid chain in mDH frames,
    before passes.
    """
    virtual = _carrier(rigid, "inertia_matrix", formulation).virtual
    levels = cheapest_inertia_matrix(virtual)[1] if formulation == MEETING else None
    return record_minimal(virtual, "inertia_matrix", formulation, levels)
