"""The robot's functions as recorded programs: each recursion run once on graph nodes.

Unknown parameters (NaN) do no harm where the function does not depend on them. A parameter matters
where its column of the regressor is not zero. Columns are judged by their values at generic states,
so that terms which cancel count as zero too, however the function was written down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.derivatives import (
    independent_slopes,
    inverse_matrix,
    negative_product,
    torque_slopes,
)
from minidyn.dynamics.drives import (
    Block,
    DriveColumn,
    Shapes,
    all_columns,
    behind_gears,
    drive_columns,
    has_load,
    memory_columns,
    rotor_inertia_matrix,
    some_parameters,
)
from minidyn.dynamics.energy import kinetic_columns, potential_columns
from minidyn.dynamics.kinematics import link_jacobian, link_placement
from minidyn.dynamics.loads import drive_loads, loads_move, rubbing_accelerations
from minidyn.dynamics.newton_euler import (
    centroidal_matrix,
    composite_inertia_matrix,
    joint_torques,
    reference_motions,
    regressor_blocks,
    regrouped,
    rigid_regressor,
    torques_of_motions,
)
from minidyn.dynamics.papers.lagrangian import lagrange_regressor, link_lagrangians
from minidyn.dynamics.papers.sixteen import sixteen_regressor, standard_entries
from minidyn.dynamics.tree import (
    REAL,
    Coordinates,
    Numbers,
    Tree,
    chosen_columns,
    constant_placement,
    coordinates,
    drifting,
    measured_rows,
    place,
)
from minidyn.dynamics.vectors import Scalar, christoffel_matrix, plus, solve_symmetric
from minidyn.errors import UnknownName, UnknownParameters, Unsupported, first_of
from minidyn.graph.derivative import derivatives
from minidyn.graph.function import Function, evaluate
from minidyn.graph.scalar import Graph
from minidyn.model.drives import INERTIAS
from minidyn.model.robot import Robot, require_fixed_base

STATES = "memory"
"""Argument with the states (..., m) of drives that remember, for functions that are recorded with
it.
"""


@dataclass(frozen=True)
class _Recording:
    """What a builder reads: the graph's scalars of one request."""

    robot: Robot
    inputs: dict[str, list[Scalar]]
    phi: Sequence[Scalar]
    link: str | int | None
    columns: Sequence[int] | None
    combine: Array | None
    numbers: Numbers = REAL

    def state(self, dq: bool = True, ddq: bool = True) -> tuple[Tree, Coordinates]:
        """Geometry and coordinates; rates or accelerations zero where they are not wanted."""
        still = [0.0] * self.robot.n
        moving = self.inputs["dq"] if dq else still
        c = coordinates(self.robot, self.inputs["q"], moving, self.inputs["ddq"] if ddq else still)
        return place(self.robot, c.q, self.numbers), c

    def motion(
        self, dq: bool = True, ddq: bool = True
    ) -> tuple[Tree, Coordinates, list[list[Scalar]]]:
        """As `state`, with ten parameters of each link.

        Fewer and other ones that give the same torques. With symbols for numbers they stay as they
        are: formulas are to be read.
        """
        if self.numbers is not REAL:
            return *self.state(dq, ddq), [list(body) for body in self.ten]
        robot, ten = regrouped(self.robot, self.ten)
        _, c = self.state(dq, ddq)
        return place(robot, c.q, REAL), c, ten

    def columns_of(
        self, c: Coordinates, blocks: Sequence[Block], sixteen: bool = False
    ) -> list[list[Scalar]]:
        """Return the wanted columns of a regressor given by its blocks, drives included."""
        every = all_columns(self.robot, blocks, self.drives(c), sixteen)
        return self.chosen(c, every)

    def chosen(self, c: Coordinates, every: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Return the wanted columns of a regressor given by that of all joints."""
        rows = chosen_columns(c, every, self.columns, self.combine)
        return measured_rows(self.robot, rows, [0.0] * len(rows[0]))

    def drives(self, c: Coordinates, at_rest: bool = False) -> list[DriveColumn]:
        """Return the drive columns.

        Loads that friction grows with are those of the motion, or the weight alone.
        """
        loads = None
        if has_load(self.robot):
            tree, _, ten = self.motion(dq=False, ddq=False)
            loads = drive_loads(self.robot, tree, c, ten, self.phi, at_rest)
        shapes = Shapes(self.robot, c.q, loads, self.inputs.get(STATES))
        return drive_columns(self.robot, c.dq, c.ddq, shapes)

    @property
    def ten(self) -> list[Sequence[Scalar]]:
        """Ten parameters of each link."""
        return [self.phi[part] for part in self.robot.layout.links]


Results = dict[str, object]


def _inverse_dynamics(r: _Recording) -> list[Scalar]:
    return measured_rows(r.robot, _all_torques(r))


def _all_torques(r: _Recording, ddq: bool = True) -> list[Scalar]:
    tree, c, ten = r.motion(ddq=ddq)
    return c.project(plus(joint_torques(tree, c.dq, c.ddq, ten), _torques_of_drives(r, c)))


def _torques_of_drives(r: _Recording, c: Coordinates) -> list[Scalar]:
    """Return what drives add to the torques of all joints."""
    tau: list[Scalar] = [0.0] * len(c.G)
    for column in r.drives(c):
        for joint, ratio in column.ratios.items():
            tau[joint] = tau[joint] + ratio * (r.phi[column.index] * column.value)
    return tau


def _gravity_torque(r: _Recording) -> list[Scalar]:
    tree, c, ten = r.motion(dq=False, ddq=False)
    return measured_rows(r.robot, c.project(joint_torques(tree, c.dq, c.ddq, ten)))


def _inertia_matrix(r: _Recording, drives: Collection[int] | None = None) -> list[list[Scalar]]:
    """Return the inertia matrix, with all inertias of drives or those at some places."""
    tree, c, ten = r.motion(dq=False, ddq=False)
    M = composite_inertia_matrix(tree, ten)
    phi = (
        r.phi
        if drives is None
        else [value if k in drives else 0.0 for k, value in enumerate(r.phi)]
    )
    rotors = rotor_inertia_matrix(r.robot, phi)
    return c.project_matrix([plus(row, extra) for row, extra in zip(M, rotors)])


def _coriolis_matrix(r: _Recording) -> list[list[Scalar]]:
    if r.robot.free_base:
        return _coriolis_columns(r)
    return christoffel_matrix(_inertia_matrix(r), r.inputs["q"], r.inputs["dq"])


def _coriolis_columns(r: _Recording) -> list[list[Scalar]]:
    """Return C column by column: the torques of unit reference rates, without gravity.

    Rates of a free base are no derivatives of coordinates: the entries of M have no Christoffel
    symbols.
    """
    robot, q, dq = r.robot, r.inputs["q"], r.inputs["dq"]
    still = [0.0] * robot.n
    regular, ten = regrouped(robot, r.ten)
    columns = []
    for k in range(robot.n):
        unit = [1.0 if row == k else 0.0 for row in range(robot.n)]
        c = coordinates(robot, q, dq, still)
        reference = coordinates(robot, q, unit, still, along=dq)
        tree = place(regular, c.q, REAL)
        tree = replace(tree, gravity=tree.zeros)
        motions = reference_motions(tree, c.dq, reference.dq, reference.ddq)
        columns.append(c.project(torques_of_motions(tree, motions, ten)))
    return [list(row) for row in zip(*columns)]


def _forward_dynamics(r: _Recording) -> list[Scalar]:
    if has_load(r.robot) and loads_move(r.robot):
        tree, c, ten = r.motion(ddq=False)
        inertia = _inertia_matrix(r, behind_gears(r.robot))
        return rubbing_accelerations(
            r.robot, tree, c, ten, r.phi, inertia, r.inputs["tau"], r.inputs.get(STATES)
        )
    bias = _all_torques(r, ddq=False)
    return solve_symmetric(
        _inertia_matrix(r), [t - b for t, b in zip(r.inputs["tau"], bias)], r.robot.joint_names
    )


def _slopes_of_links(r: _Recording) -> tuple[list[list[Scalar]], ...]:
    """Return the derivatives by q, dq and ddq of the torques that links need."""
    tree, c, ten = r.motion()
    q, dq, ddq = (r.inputs[name] for name in ("q", "dq", "ddq"))
    return independent_slopes(c, torque_slopes(tree, c.dq, c.ddq, ten), q, dq, ddq)


def _with_drives(
    r: _Recording, slopes: Sequence[list[list[Scalar]]], ddq: bool = True
) -> list[list[list[Scalar]]]:
    """Return derivatives of torques by q, dq (and ddq) with those of the torques of drives added.

    Drives without accelerations have the same derivatives by q and dq, as long as their friction
    does not depend on them and no joint follows a formula.
    """
    _, c = r.state(ddq=ddq)
    names = ("q", "dq", "ddq") if ddq else ("q", "dq")
    rates = derivatives(
        c.project(_torques_of_drives(r, c)), [node for name in names for node in r.inputs[name]]
    )
    n = r.robot.n
    return [
        [plus(row, rate[k * n : (k + 1) * n]) for row, rate in zip(part, rates)]
        for k, part in enumerate(slopes[: len(names)])
    ]


def _inverse_dynamics_derivatives(r: _Recording) -> Results:
    names, still = ("dtau_dq", "dtau_ddq", "M"), [0.0] * r.robot.n
    parts = _with_drives(r, _slopes_of_links(r))
    return {name: measured_rows(r.robot, part, still) for name, part in zip(names, parts)}


def _forward_dynamics_derivatives(r: _Recording) -> Results:
    names, n = ("dddq_dq", "dddq_ddq", "dddq_dtau"), r.robot.n
    ddq, inputs = _forward_dynamics(r), [r.inputs[name] for name in ("q", "dq", "tau")]
    rubs = has_load(r.robot) and loads_move(r.robot)
    if rubs or r.robot.formulas or any(joint.drive.cutoff for joint in r.robot.joints):
        # drives depend on the acceleration: what was recorded is differentiated as it is
        rates = derivatives(ddq, [node for part in inputs for node in part])
        parts = [[row[k * n : (k + 1) * n] for row in rates] for k in range(3)]
        return dict(zip(names, parts))
    links = _slopes_of_links(replace(r, inputs={**r.inputs, "ddq": ddq}))
    by_q, by_dq = _with_drives(r, links, ddq=False)
    inverse = inverse_matrix(_inertia_matrix(r), r.robot.joint_names)
    parts = [negative_product(inverse, by_q), negative_product(inverse, by_dq), inverse]
    return dict(zip(names, parts))


def _standard(blocks: Sequence[Block]) -> list[Block]:
    return [
        {joint: standard_entries(entries) for joint, entries in block.items()} for block in blocks
    ]


REGRESSORS: dict[str, Callable[[Tree, Sequence[Scalar], Sequence[Scalar]], Sequence[Block]]] = {
    "regressor": rigid_regressor,
    "lagrange_regressor": lambda tree, dq, ddq: _standard(lagrange_regressor(tree, dq, ddq)),
    "lumeng16_regressor": sixteen_regressor,
    "lumeng16_lagrange_regressor": lagrange_regressor,
}
"""The blocks of each form of the regressor, from geometry, speeds and accelerations of all
joints.
"""


def _regressor(r: _Recording, form: str = "regressor", sixteen: bool = False) -> list[list[Scalar]]:
    tree, c = r.state()
    return r.columns_of(c, REGRESSORS[form](tree, c.dq, c.ddq), sixteen)


def _slotine_li_regressor(r: _Recording) -> list[list[Scalar]]:
    q, dq, dqr, ddqr = (r.inputs[name] for name in ("q", "dq", "dqr", "ddqr"))
    c = coordinates(r.robot, q, dq, [0.0] * r.robot.n)
    reference = coordinates(r.robot, q, dqr, ddqr, along=dq)
    tree = place(r.robot, c.q, r.numbers)
    # friction at the reference speed: what it differs by from the true one only dissipates
    return r.columns_of(
        reference,
        regressor_blocks(tree, reference_motions(tree, c.dq, reference.dq, reference.ddq)),
    )


def _momentum_regressor(r: _Recording) -> Results:
    tree, c = r.state(ddq=False)
    links = link_lagrangians(tree, c.dq)
    # with speeds for accelerations Ia's column is the speed; what loads drives in motion is not
    # known
    drives = r.drives(replace(c, ddq=c.dq), at_rest=True)
    rotors, friction = (
        [d for d in drives if (d.symbol in INERTIAS) is kind] for kind in (True, False)
    )
    W_all = all_columns(r.robot, _standard([link.momentum for link in links]), rotors)
    rest_all = all_columns(r.robot, _standard([link.rest for link in links]), friction)
    rest = r.chosen(c, rest_all)
    drift = drifting(c, r.inputs["q"], r.inputs["dq"])
    if drift is not None:
        lost = r.chosen(drift, W_all)
        rest = [[a - b for a, b in zip(row, other)] for row, other in zip(rest, lost)]
    return {"W": r.chosen(c, W_all), "rest": rest}


def _energy_parts(r: _Recording) -> tuple[list[Scalar], list[Scalar]]:
    tree, c = r.state(ddq=False)
    kinetic: list[Scalar] = [0.0] * len(r.robot.layout)
    potential: list[Scalar] = [0.0] * len(r.robot.layout)
    for part, moving, resting in zip(
        r.robot.layout.links, kinetic_columns(tree, c.dq), potential_columns(tree)
    ):
        kinetic[part], potential[part] = moving, resting
    for column in drive_columns(
        r.robot, c.dq, c.dq, None
    ):  # with speeds for accelerations Ia's column is the speed
        kinetic[column.index] = 0.5 * (column.value * column.value)
    return kinetic, potential


def _energy(r: _Recording) -> Results:
    parts = zip(("kinetic", "potential"), _energy_parts(r))
    return {
        name: sum(parameter * column for parameter, column in zip(r.phi, columns))
        for name, columns in parts
    }


def _energy_regressor(r: _Recording) -> list[Scalar]:
    columns = plus(*_energy_parts(r))
    return columns if r.columns is None else [columns[k] for k in r.columns]


def _centroidal_momentum_matrix(r: _Recording) -> list[list[Scalar]]:
    tree, c = r.state(dq=False, ddq=False)
    return [c.project(row) for row in centroidal_matrix(tree, r.ten)]


def _forward_kinematics(r: _Recording) -> list[list[Scalar]]:
    tree, _ = r.state(dq=False, ddq=False)
    link, steps = r.robot.find_frame(r.link)
    turns, shift = constant_placement(steps, r.numbers)
    return link_placement(tree, link, turns, shift)


def _jacobian(r: _Recording) -> list[list[Scalar]]:
    tree, c = r.state(dq=False, ddq=False)
    link, steps = r.robot.find_frame(r.link)
    _, shift = constant_placement(steps, r.numbers)
    return [c.project(row) for row in link_jacobian(tree, link, shift if steps else None)]


@dataclass(frozen=True)
class What:
    """One function a robot offers."""

    arguments: tuple[str, ...]  # what it takes, each (..., n)
    result: str  # name of what it returns
    build: Callable[[_Recording], object]  # how it is recorded
    parameters: bool = True  # whether it reads parameter values
    columns: bool = False  # whether it needs a base map, whose kept columns it returns
    subset: bool = False  # whether it takes a base map and returns all columns without one
    sixteen: bool = False  # whether its columns are those of sixteen parameters a link
    link: bool = False  # whether it needs a link
    free_base: bool = False  # whether it knows robots with a free base

    def reads(self, robot: Robot) -> bool:
        """Whether it reads parameter values of this robot.

        Regressors do for loads that friction grows with.
        """
        return self.parameters or ((self.columns or self.subset) and has_load(robot))


def _form(name: str, sixteen: bool = False) -> What:
    build = partial(_regressor, form=name, sixteen=sixteen)
    return What(
        ("q", "dq", "ddq"),
        "Y",
        build,
        parameters=False,
        subset=True,
        sixteen=sixteen,
        free_base=name == "regressor",
    )


WHAT: dict[str, What] = {
    "inverse_dynamics": What(("q", "dq", "ddq"), "tau", _inverse_dynamics, free_base=True),
    "gravity_torque": What(("q",), "tau", _gravity_torque, free_base=True),
    "coriolis_matrix": What(("q", "dq"), "C", _coriolis_matrix, free_base=True),
    "inertia_matrix": What(("q",), "M", _inertia_matrix, free_base=True),
    "forward_dynamics": What(("q", "dq", "tau"), "ddq", _forward_dynamics, free_base=True),
    "inverse_dynamics_derivatives": What(
        ("q", "dq", "ddq"), "dtau_dq", _inverse_dynamics_derivatives
    ),
    "forward_dynamics_derivatives": What(
        ("q", "dq", "tau"), "dddq_dq", _forward_dynamics_derivatives
    ),
    "regressor": _form("regressor"),
    "base_regressor": What(
        ("q", "dq", "ddq"), "Y", _regressor, parameters=False, columns=True, free_base=True
    ),
    "lagrange_regressor": _form("lagrange_regressor"),
    "lumeng16_regressor": _form("lumeng16_regressor", sixteen=True),
    "lumeng16_lagrange_regressor": _form("lumeng16_lagrange_regressor", sixteen=True),
    "slotine_li_regressor": What(
        ("q", "dq", "dqr", "ddqr"),
        "Y",
        _slotine_li_regressor,
        parameters=False,
        subset=True,
        free_base=True,
    ),
    "momentum_regressor": What(
        ("q", "dq"), "W", _momentum_regressor, parameters=False, subset=True
    ),
    "energy": What(("q", "dq"), "energy", _energy, free_base=True),
    "energy_regressor": What(("q", "dq"), "h", _energy_regressor, parameters=False, free_base=True),
    "centroidal_momentum_matrix": What(("q",), "A", _centroidal_momentum_matrix, free_base=True),
    "forward_kinematics": What(
        ("q",), "T", _forward_kinematics, parameters=False, link=True, free_base=True
    ),
    "jacobian": What(("q",), "J", _jacobian, parameters=False, link=True, free_base=True),
}
"""All functions of a robot, by name."""


def require_supported(robot: Robot, what: str) -> None:
    """Refuse what does not know robots with a free base, and drives that do not fit one."""
    if not robot.free_base:
        return
    if not WHAT[what].free_base:
        require_fixed_base(robot, what)
    if has_load(robot):
        raise Unsupported(
            f"{what}: robot {robot.name!r} has a free base and friction that grows with the load, "
            "which do not go together yet; leave the term out: robot.with_drives(friction=...)"
        )


def require_formulas(robot: Robot, hint: str) -> None:
    """Refuse a robot with loops that are solved for: its passive joints are no formulas of the
    inputs.
    """
    if robot.implicit_loops:
        loop = robot.implicit_loops[0].name
        raise Unsupported(
            f"robot {robot.name!r}: the passive joints of loop {loop!r} must be solved for; {hint}"
        )


def build(
    robot: Robot,
    what: str,
    inputs: Mapping[str, Sequence[Scalar]],
    phi: Sequence[Scalar] = (),
    columns: Sequence[int] | None = None,
    combine: Array | None = None,
    link: str | int | None = None,
    numbers: Numbers = REAL,
) -> Any:
    """Record one of the robot's functions (WHAT) into a graph of the caller's own, a part of
    something larger.

    Inputs are scalars for each of its arguments, the result nested lists of scalars. Standard
    parameters phi are read where it reads them (regressors do for loads that friction grows with)
    and are the robot's own where none are given. For regressors, `columns` are the standard columns
    that are kept, `combine` combinations of these; for kinematics, `link` is the link or frame.
    Constants are made by `numbers`: symbols for lengths give formulas. An input STATES holds the
    states of drives that remember; without it they slide steadily.
    """
    require_formulas(
        robot,
        "a recorded program needs them as functions of the active joints: give formulas in the "
        "robot's file",
    )
    require_supported(robot, what)
    if not len(phi) and WHAT[what].reads(robot):
        phi = _known(robot, what, robot.parameters)
    given = {name: list(scalars) for name, scalars in inputs.items()}
    return WHAT[what].build(_Recording(robot, given, phi, link, columns, combine, numbers))


def _known(robot: Robot, what: str, values: Array) -> list[Scalar]:
    """Return parameters without unknown ones that matter; a regressor needs those of the loads."""
    return list(
        without_unknowns(robot, what if WHAT[what].parameters else "regressor", values).tolist()
    )


def record(
    robot: Robot,
    what: str,
    *,
    parameters: Array | str | None = None,
    columns: Sequence[int] | None = None,
    combine: Array | None = None,
    link: str | int | None = None,
    memory: bool = False,
) -> Function:
    """Return one of the robot's functions (WHAT) as a recorded program.

    Its loops, if any, are given as functions. Parameters None bakes the robot's values in, an array
    (p,) bakes that in, "argument" makes the vector the function's last argument; of base parameters
    where `columns` are given. For regressors, `columns` are the standard columns that are kept,
    `combine` combinations (kept, b) of these that are wanted instead; for kinematics, `link` is the
    link or frame. With `memory` the states of drives that remember are one more argument, before
    the parameters.
    """
    try:
        wanted = WHAT[what]
    except (KeyError, TypeError):
        raise UnknownName("function", what, WHAT) from None
    require_supported(robot, what)
    graph = Graph()
    sizes = {"q": robot.nq}
    inputs = {name: list(graph.inputs(name, sizes.get(name, robot.n))) for name in wanted.arguments}
    if memory:
        inputs[STATES] = list(graph.inputs(STATES, len(memory_columns(robot))))
    phi: list[Scalar] = []
    if wanted.reads(robot) and isinstance(parameters, str):
        kept = columns if wanted.parameters else None
        name, size = ("parameters", len(robot.layout)) if kept is None else ("beta", len(kept))
        phi = list(graph.inputs(name, size, uniform=True))
        phi = phi if kept is None else lifted(robot, kept, combine, phi)
    elif wanted.reads(robot):
        phi = _known(
            robot, what, np.asarray(robot.parameters if parameters is None else parameters)
        )
    result = wanted.build(_Recording(robot, inputs, phi, link, columns, combine))
    return graph.function(what, result if isinstance(result, dict) else {wanted.result: result})


def lifted(
    robot: Robot, columns: Sequence[int], combine: Array | None, beta: Sequence[Scalar]
) -> list[Scalar]:
    """Return standard parameters (p,) that have base parameters beta.

    Those that lead them, all others zero.
    """
    phi: list[Scalar] = [0.0] * len(robot.layout)
    for row, column in enumerate(columns):
        if combine is None:
            phi[column] = beta[row]
        else:
            phi[column] = sum(
                float(factor) * value for factor, value in zip(combine[row], beta) if factor
            )
    return phi


_ZERO = 1e-12  # of the regressor's largest entry: a column below this is zero
_STATES = 16
_KNOWN: dict[tuple[str, str], NDArray[np.bool_]] = {}


def without_unknowns(robot: Robot, what: str, values: Array) -> Array:
    """Return parameters (p,) with zeros for unknown values that do not matter.

    Those that do are refused by name.
    """
    unknown = np.isnan(values)
    if not unknown.any():
        return values
    missing = np.flatnonzero(unknown & needed_columns(robot, what))
    if len(missing):
        shown = first_of([robot.layout.names[index] for index in missing])
        raise UnknownParameters(
            f"{what} of robot {robot.name!r} needs parameters that are unknown (NaN): {shown}; "
            "give values with parameters=..., or robot.with_parameters(...)"
        )
    return np.where(unknown, 0.0, values)


def needed_columns(robot: Robot, what: str) -> NDArray[np.bool_]:
    """Return which standard parameters (p,) the result of a function depends on."""
    key = robot.structure_fingerprint, what
    if key not in _KNOWN:
        _KNOWN[key] = _find(robot, what)
    return _KNOWN[key]


def _find(robot: Robot, what: str) -> NDArray[np.bool_]:
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (3, _STATES, robot.nq))
    q, dq, ddq = states[0], *states[1:, :, : robot.n]
    if what == "energy":
        return _nonzero(evaluate(record(robot, "energy_regressor"), q, dq))
    if what == "centroidal_momentum_matrix":  # all masses: they say where the centre is
        return _columns(robot, drives=())
    # what a load is does not matter here: its parameters are those of links and inertias, which are
    # needed anyhow
    regressor: Function = record(robot, "regressor", parameters=some_parameters(robot))
    Y = np.asarray(evaluate(regressor, q, dq, ddq))
    if what.startswith(("inverse_dynamics", "forward_dynamics")):
        return _nonzero(Y)
    if (
        what == "regressor"
    ):  # of friction that grows with the load; rotors that files do not tell count as none
        return _nonzero(Y) & _columns(robot, drives=())
    rest = evaluate(regressor, q, 0.0 * dq, 0.0 * ddq)
    if what == "gravity_torque":
        return _nonzero(rest, Y) & _columns(robot, drives=())
    if what == "inertia_matrix":
        return _nonzero(evaluate(regressor, q, 0.0 * dq, ddq) - rest, Y) & _columns(
            robot, drives=tuple(INERTIAS)
        )
    return _nonzero(evaluate(regressor, q, dq, 0.0 * ddq) - rest, Y) & _columns(robot, drives=())


def _nonzero(columns: Array, against: Array | None = None) -> NDArray[np.bool_]:
    axes = tuple(range(columns.ndim - 1))
    size = float(np.abs(columns if against is None else against).max(initial=0.0))
    # where a formula has no value anything may matter: NaN is not below any bound
    return np.asarray(~(np.abs(columns).max(axis=axes, initial=0.0) <= _ZERO * size))


def _columns(robot: Robot, drives: Sequence[str]) -> NDArray[np.bool_]:
    return np.array(
        [column.is_inertial or column.symbol in drives for column in robot.layout.columns]
    )
