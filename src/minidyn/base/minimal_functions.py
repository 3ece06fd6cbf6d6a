"""Dynamics as plain functions of arrays, from standard parameters or from base parameters alone.

The public names `inertia_matrix`, `inverse_dynamics`, `forward_dynamics`, `gravity_torque` and
`coriolis_matrix` live here because they take any base map. Without one they are the functions of
:mod:`minidyn.dynamics.functions`. With one, base parameters are all that is known: parameters
outside the set are never needed, and a serial chain runs the cheapest recursion found for it.

`compile` is here for the same reason: with a base map it compiles the program that these functions
run.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.minimal_program import (
    check_formulation,
    is_chain,
    minimal_program,
    no_formulation,
)
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import call
from minidyn.dynamics.kernel import (
    NEEDED,
    BaseColumns,
    Kernel,
    compile_kernel,
    kernel_of,
    require_own,
    require_robot,
)
from minidyn.dynamics.papers.minimal import MINIMAL_WHAT
from minidyn.dynamics.record import WHAT
from minidyn.errors import MinidynError, NotEquivalent, ShapeError, UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.canonical import as_understood
from minidyn.model.robot import Robot, require_fixed_base

_FOREIGN = 1e-7  # share of a combination that a map may miss by rounding, in the robot's own units


@lru_cache(maxsize=64)
def _determined(structure: str, what: str, base: BaseMap) -> str:
    """Return "" where a map determines a function, else the combination that it misses."""
    if base.check.relations <= _FOREIGN:
        return ""
    robot = base.robot
    need = NEEDED.get(what, "torque")
    try:
        return _missing(mlc_base(robot, "1999", need, base.tolerance), base)
    except Unsupported:
        return _missing(base_parameters(robot, model=need, tolerance=base.tolerance), base)


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
        formulation: 1 to 5 as in LinFang1999, 6 meets half-way; None: the cheapest. For serial
            chains.
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
    memory: ArrayLike | None = None,
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
        memory: States (..., m) of drives that remember, as `md.drive_states` computes them along a
            motion; None: they slide steadily, as long after a reversal.
        out: Array (..., n) to write into.

    Raises:
        NotEquivalent: The map does not determine the torques.

    Implements: LuMeng1993 eq. (66)-(71).
    """
    if base is None and beta is None:
        return call(robot, "inverse_dynamics", (q, dq, ddq), parameters, out, memory=memory)
    if memory is not None:
        raise Unsupported(
            "inverse_dynamics: memory= goes with standard parameters; leave out base and beta"
        )
    return _from_base(robot, "inverse_dynamics", (q, dq, ddq), base, beta, parameters, out)


def forward_dynamics(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    tau: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    base: BaseMap | None = None,
    beta: ArrayLike | None = None,
    formulation: int | None = None,
    memory: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return the accelerations (..., n) that torques cause: links, rotors and friction.

    With a base map everything is computed from base parameters: the inertia matrix by a formulation
    of LinFang1999, the other torques by the cheapest recursion, and the accelerations from both.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        tau: Torques (..., n).
        parameters: Standard parameters (p,); None: the robot's own.
        base: A base map of the robot; accelerations are then computed from base parameters alone.
        beta: Their values (b,); None: those that `parameters` give.
        formulation: Of the inertia matrix: 1 to 5 as in LinFang1999, 6 meets half-way; None: the
            cheapest. For serial chains.
        memory: States of drives that remember, as for `inverse_dynamics`.
        out: Array (..., n) to write into.

    Example:
        base = md.base_parameters(robot)
        ddq = md.forward_dynamics(robot, q, dq, tau, base=base, beta=base.values())

    Raises:
        NotEquivalent: The map does not determine the torques.
        NotRealizable: The inertia matrix of these parameters is singular.

    Implements: LinFang1999 section 1, forward dynamics in terms of a minimal set.
    """
    if base is None and beta is None and formulation is None:
        return call(robot, "forward_dynamics", (q, dq, tau), parameters, out, memory=memory)
    if memory is not None:
        raise Unsupported(
            "forward_dynamics: memory= goes with standard parameters; leave out base, beta and "
            "formulation"
        )
    arrays = (q, dq, tau)
    return _from_base(robot, "forward_dynamics", arrays, base, beta, parameters, out, formulation)


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
    """Return C (..., n, n) from Christoffel symbols.

    C dq are the velocity torques and Ṁ - 2C is skew-symmetric. Arguments are those of
    `inverse_dynamics`.
    """
    if base is None and beta is None:
        return call(robot, "coriolis_matrix", (q, dq), parameters, out)
    return _from_base(robot, "coriolis_matrix", (q, dq), base, beta, parameters, out)


def compile(
    robot: Robot,
    what: str,
    *,
    parameters: ArrayLike | str | None = None,
    base: BaseColumns | None = None,
    formulation: int | None = None,
    threads: int = 1,
    link: str | int | None = None,
    target: str = "native",
    dtype: str = "float64",
    layout: str = "rows",
    packed: bool = False,
    memory: bool = False,
) -> Kernel:
    """Compile one of the robot's functions for this machine, or for its GPU.

    Args:
        robot: The robot.
        what: "inverse_dynamics", "gravity_torque", "coriolis_matrix", "inertia_matrix",
            "forward_dynamics", "regressor", "base_regressor", "lagrange_regressor",
            "lumeng16_regressor", "lumeng16_lagrange_regressor", "slotine_li_regressor",
            "momentum_regressor", "energy", "energy_regressor", "centroidal_momentum_matrix",
            "forward_kinematics", "jacobian".
        parameters: None bakes in the robot's values, an array (p,) bakes that in, "argument" makes
            the parameter vector the kernel's last argument.
        base: A base-parameter map, so that base parameters are all that is read: for dynamics,
            where `parameters` are base parameters (b,), and for regressors, whose columns they are;
            "base_regressor" needs it. Inverse and forward dynamics, gravity torques, inertia and
            Coriolis matrix are then the cheapest program known, the one that
            `md.papers.operation_count` counts; finding it takes a few seconds.
        formulation: Of the inertia matrix from base parameters of a serial chain, also as a part
            of forward dynamics: 1 to 5 as in LinFang1999, 6 meets half-way; None: the cheapest.
            Without `base` a minimal set of its own is read.
        threads: Threads that large batches are split over.
        link: For kinematics, the link or frame; None: the last link.
        target: "native": this machine's processor; "cuda": an NVIDIA GPU, which takes and returns
            arrays that live there (docs/gpu.md).
        dtype: Of the GPU: "float64" or "float32".
        layout: Of arrays on the GPU: "rows" (..., n), or "components" (n, ...), which is faster.
        packed: Whether a symmetric result, as the inertia matrix, is given by its upper triangle,
            row by row (n (n + 1) / 2,): `np.triu_indices(n)` says where each number stands.
        memory: Make the states of drives that remember an argument behind the motion
            (`md.drive_states`); False: they slide steadily. Not together with `base` but for
            regressors.

    Returns:
        A callable Kernel; equal requests share machine code.

    Implements: LinFang1999 Tables I-V as code.
    """
    require_robot(robot, str(what), free_base=True)
    check_formulation(formulation, what)
    if formulation is not None:
        require_fixed_base(robot, f"formulation={formulation}")
    if formulation is not None and base is None:
        if parameters is not None:
            raise MinidynError(
                f"{what}: parameters= with formulation= are base parameters; give base=, their map"
            )
        base = _set_for(robot, what)
    if (
        what not in MINIMAL_WHAT
        or what not in WHAT
        or not isinstance(base, BaseMap)
        or robot.implicit_loops
        or robot.free_base
    ):
        return compile_kernel(
            robot,
            what,
            parameters=parameters,
            base=base,
            threads=threads,
            link=link,
            target=target,
            dtype=dtype,
            layout=layout,
            packed=packed,
            memory=memory,
        )
    if memory:
        raise Unsupported(f"{what}: memory= goes with standard parameters; leave out base")
    if link is not None:
        raise MinidynError(f"{what} is of the whole robot; it takes no link, got {link!r}")
    function = program_for(robot, what, base, formulation, parameters)
    return kernel_of(robot, what, function, base, threads, target, dtype, layout, packed)


def program_for(
    robot: Robot,
    what: str,
    base: BaseMap,
    formulation: int | None,
    parameters: ArrayLike | str | None,
) -> Function:
    """Return the program of a function that reads base parameters.

    An argument, given values, or the robot's own.
    """
    check_formulation(formulation, what)
    _check_map(robot, what, base)
    if not isinstance(parameters, str):
        values = base.values(robot.parameters) if parameters is None else _beta(base, parameters)
        return minimal_program(robot, what, base, formulation, values)
    if parameters != "argument":
        raise UnknownName("way to give parameters", parameters, ("argument",))
    return minimal_program(robot, what, base, formulation)


def _check_map(robot: Robot, what: str, base: BaseMap) -> None:
    """Refuse a map of another robot, or one that does not determine a function."""
    require_robot(robot, what, free_base=True)
    if not isinstance(base, BaseMap):
        raise MinidynError(f"{what}: base: expected a result of md.base_parameters, got {base!r}")
    require_own(robot, base, what, NEEDED.get(what, "torque"))
    missing = _determined(robot.structure_fingerprint, what, base)
    if missing:
        raise NotEquivalent(
            f"{what} of robot {robot.name!r}: the base map ({base.model} model, {base.rank} "
            f"parameters) does not determine {missing}, which it needs; use "
            "md.base_parameters(robot)"
        )


def _set_for(robot: Robot, what: str) -> BaseMap:
    """Return the closed-form minimal set that a formulation of a function reads."""
    if what == "inertia_matrix":
        return mlc_base(robot, "1999", "inertia")
    return base_parameters(robot)  # with the drives


def _beta(base: BaseMap, values: ArrayLike) -> Array:
    found = np.asarray(values, dtype=float)
    if found.shape != (base.rank,):
        raise ShapeError(f"beta: expected shape ({base.rank},), got {found.shape}")
    return found


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
    """Run the chain's own recursion, or the standard one on a full vector that has the base
    parameters asked for.
    """
    if formulation is not None:
        require_fixed_base(robot, f"formulation={formulation}")
    if base is None:
        if beta is not None:
            raise MinidynError(f"{what}: beta= needs base=, the map whose parameters they are")
        base = _set_for(robot, what)
    if beta is not None and parameters is not None:
        raise MinidynError(f"{what}: give beta= or parameters=, not both")
    # of this robot, not of the one the map was made from
    own = robot.parameters if parameters is None else parameters
    check_formulation(formulation, what)
    _check_map(robot, what, base)
    values = base.values(own) if beta is None else _beta(base, beta)
    if not is_chain(
        robot, base.tolerance
    ):  # passes on the program of a tree would take longer than most batches
        if formulation is not None:
            raise no_formulation(robot, formulation)
        understood = as_understood(robot, base.tolerance)
        return call(understood, what, arrays, base.lift(values), out)
    result: Array = compile_function(minimal_program(robot, what, base, formulation))(
        *arrays, values, out=out
    )
    return result
