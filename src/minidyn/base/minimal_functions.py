"""Dynamics as plain functions of arrays, from standard parameters or from base parameters alone.

The public names `inertia_matrix`, `inverse_dynamics`, `gravity_torque` and `coriolis_matrix` live here because they
take any base map. Without one they are the functions of :mod:`minidyn.dynamics.functions`. With one, base parameters
are all that is known: parameters outside the set are never needed, and a serial chain runs the cheapest recursion found
for it.

A call of a robot's dynamics from base parameters: checks, the linear map to virtual links, the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.numeric.samples import units_of
from minidyn.base.virtual_links import Carrier, carrier_of, rigid_chain
from minidyn.dynamics.drives import Shapes, drive_columns, has_load, rotor_inertia_matrix
from minidyn.dynamics.functions import call
from minidyn.dynamics.newton_euler import composite_inertia_matrix, joint_torques
from minidyn.dynamics.papers.formulations import FORMULATIONS
from minidyn.dynamics.papers.minimal import (
    MEETING,
    VirtualLinks,
    cheapest_inertia_matrix,
    motion_inputs,
    record_minimal,
)
from minidyn.dynamics.record import require_formulas
from minidyn.dynamics.tree import coordinates, place
from minidyn.dynamics.vectors import Scalar, christoffel_matrix
from minidyn.errors import MinidynError, NotEquivalent, ShapeError, UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.passes import cheapest, optimise
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.drives import Drive
from minidyn.model.robot import Robot

_FOREIGN = 1e-7  # share of a combination that a map may miss by rounding, in the robot's own units
_NEEDS = {"inertia_matrix": "inertia", "coriolis_matrix": "inertia", "gravity_torque": "gravity"}


@lru_cache(maxsize=64)
def _determined(structure: str, what: str, base: BaseMap) -> str:
    """Return "" where a map determines a function, else the combination that it misses."""
    robot = base.robot
    need = _NEEDS.get(what, "torque")
    try:
        missing = _missing(mlc_base(robot, "1999", need), base)
        # geometry that is nearly special: as written, or as it is meant
        return missing and _missing(base_parameters(robot, "mlc", need), base)
    except Unsupported:
        return _missing(base_parameters(robot), base)


def _missing(wanted: BaseMap, base: BaseMap) -> str:
    robot = base.robot
    lift = base.lift(np.eye(base.rank)).T if base.rank else np.zeros((len(robot.layout), 0))
    left = wanted.matrix - (wanted.matrix @ lift) @ base.matrix
    units = units_of(robot).parameters
    largest = (np.abs(wanted.matrix) * units).max(axis=1, keepdims=True, initial=0.0)
    foreign = (np.abs(left) * units > _FOREIGN * largest).any(axis=1)
    return "" if not foreign.any() else wanted.names[int(np.argmax(foreign))]


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
        return call(robot, "inertia_matrix", (q,), parameters, out)
    return _from_base(robot, "inertia_matrix", (q,), base, beta, parameters, out, formulation)


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
        return call(robot, "inverse_dynamics", (q, dq, ddq), parameters, out)
    return _from_base(robot, "inverse_dynamics", (q, dq, ddq), base, beta, parameters, out)


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
        return call(robot, "gravity_torque", (q,), parameters, out)
    return _from_base(robot, "gravity_torque", (q,), base, beta, parameters, out)


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
        return call(robot, "coriolis_matrix", (q, dq), parameters, out)
    return _from_base(robot, "coriolis_matrix", (q, dq), base, beta, parameters, out)


def _from_base(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    base: BaseMap | None,
    beta: ArrayLike | None,
    parameters: ArrayLike | None,
    out: Array | None,
    formulation: int | None = None,
) -> Array:
    """Run the chain's own recursion, or the standard one on a full vector that has the base parameters asked for."""
    if base is None:
        if beta is not None:
            raise MinidynError(f"{what}: beta= needs base=, the map whose parameters they are")
        base = mlc_base(robot, "1999", "inertia")
    if not isinstance(base, BaseMap):
        raise MinidynError(f"{what}: base: expected a result of md.base_parameters, got {base!r}")
    if base.robot.structure_fingerprint != robot.structure_fingerprint:
        raise MinidynError(f"{what}: base is of robot {base.robot.name!r}, which is not built like {robot.name!r}")
    if beta is not None and parameters is not None:
        raise MinidynError(f"{what}: give beta= or parameters=, not both")
    # of this robot, not of the one the map was made from
    own = robot.parameters if parameters is None else parameters
    values = base.values(own) if beta is None else np.asarray(beta, dtype=float)
    if values.shape != (base.rank,):
        raise ShapeError(f"beta: expected shape ({base.rank},), got {values.shape}")
    check_formulation(formulation)
    missing = _determined(robot.structure_fingerprint, what, base)
    if missing:
        raise NotEquivalent(
            f"{what} of robot {robot.name!r}: the base map ({base.model} model, {base.rank} parameters) does not "
            f"determine {missing}, which it needs; use md.base_parameters(robot)"
        )
    phi = base.lift(values)
    chain = None if has_load(robot) else rigid_chain(robot)  # loads need the standard recursion
    if chain is None:
        if formulation is not None:
            raise Unsupported(f"formulation={formulation}: robot {robot.name!r} is not an open serial chain")
        return call(robot, what, arrays, phi, out)
    rigid, T = chain
    carrier = _carrier(rigid, what, formulation)
    carried = carrier.matrix @ (carrier.base.matrix @ (T @ phi))
    result: Array = compile_function(minimal_function(rigid, what, formulation))(*arrays, carried, out=out)
    if what == "inertia_matrix":
        rotors = np.array(rotor_inertia_matrix(robot, list(phi)), dtype=float)
        result += rotors[np.ix_(robot.independent, robot.independent)]
    elif what == "inverse_dynamics":
        c = coordinates(robot, *(list(np.moveaxis(np.asarray(array, dtype=float), -1, 0)) for array in arrays))
        for column in drive_columns(robot, c.dq, c.ddq, Shapes(robot, c.q)):
            for joint, ratio in column.ratios.items():
                for k in c.G[joint]:
                    result[..., k] += ratio * (phi[column.index] * column.value)
    return result


def lifted_function(robot: Robot, what: str) -> Function:
    """Return a function of q (and dq, ddq) and of the kept parameters, rigid links only."""
    require_formulas(robot, "operations are counted for open robots and for loops given by formulas")
    inertial = [k for k, column in enumerate(robot.layout.columns) if column.is_inertial]
    joints = tuple(replace(joint, drive=Drive()) for joint in robot.joints)
    rigid = replace(robot, joints=joints, parameters=np.full(len(inertial), np.nan))
    base = base_parameters(rigid)
    graph = Graph()
    q, dq, ddq = motion_inputs(graph, what, rigid.n)
    phi: list[Scalar] = [0.0] * len(rigid.layout)
    for index, value in zip(rigid.layout.indices(base.kept), graph.inputs("values", base.rank, uniform=True)):
        phi[index] = value
    ten = [phi[part] for part in rigid.layout.links]
    c = coordinates(rigid, q, dq if what != "coriolis_matrix" else ddq, ddq)
    tree = place(rigid, c.q)
    if what in ("inertia_matrix", "coriolis_matrix"):
        M = c.project_matrix(composite_inertia_matrix(tree, ten))
        if what == "inertia_matrix":
            return graph.function(what, {"M": M})
        return graph.function(what, {"C": christoffel_matrix(M, q, dq)})
    tau = joint_torques(tree, c.dq, c.ddq, ten, gravity=what != "velocity_torque")
    return graph.function(what, {"tau": c.project(tau)})


def check_formulation(formulation: int | None) -> None:
    """Refuse a formulation that does not exist; None is the cheapest."""
    known = (*FORMULATIONS, MEETING)
    if formulation is not None and (isinstance(formulation, bool) or formulation not in known):
        raise UnknownName("formulation", str(formulation), [str(k) for k in known])


def minimal_function(rigid: Robot, what: str, formulation: int | None = None) -> Function:
    """Return the cheapest function known of a rigid chain in mDH frames: of q, ... and of its carrier's values."""
    return _best(_carrier(rigid, what, formulation).virtual, what, formulation)


def _carrier(rigid: Robot, what: str, formulation: int | None) -> Carrier:
    """Return what carries a function's values: by second moments but for formulations 1 to 5."""
    for_ = "inertia" if what in ("inertia_matrix", "coriolis_matrix") else "torque"
    return carrier_of(rigid, for_, moments=formulation in (None, MEETING))


@lru_cache(maxsize=256)
def _best(virtual: VirtualLinks, what: str, formulation: int | None) -> Function:
    if what not in ("inertia_matrix", "coriolis_matrix"):
        return cheapest([optimise(record_minimal(virtual, what, composed=composed)) for composed in (False, True)])
    if formulation is not None and formulation != MEETING:
        return optimise(record_minimal(virtual, what, formulation))
    function, levels = cheapest_inertia_matrix(virtual)
    return function if what == "inertia_matrix" else optimise(record_minimal(virtual, what, MEETING, levels))
