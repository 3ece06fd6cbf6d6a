"""The robot's functions as recorded programs: each recursion run once on graph nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from minidyn.dynamics.coordinates import Coordinates, coordinates
from minidyn.dynamics.coriolis import christoffel_matrix
from minidyn.dynamics.drives import drive_columns, rotor_inertia_matrix
from minidyn.dynamics.energy import kinetic_columns, potential_columns
from minidyn.dynamics.forward import solve_symmetric
from minidyn.dynamics.inertia_matrix import composite_inertia_matrix
from minidyn.dynamics.kinematics import link_jacobian, link_placement
from minidyn.dynamics.newton_euler import joint_torques
from minidyn.dynamics.regressor import rigid_regressor
from minidyn.dynamics.tree import REAL, Tree, constant_placement, place
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import UnknownName, UnknownParameters
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot

__all__ = ["WHAT", "record", "used_parameters"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Recording:
    """What a builder reads: the graph's scalars of one request."""

    robot: Robot
    inputs: dict[str, list[Scalar]]
    phi: Sequence[Scalar]
    link: str | int | None
    columns: Sequence[int] | None

    def state(self, dq: bool = True, ddq: bool = True) -> tuple[Tree, Coordinates]:
        """Geometry and coordinates; speeds or accelerations zero where they are not wanted."""
        still = [0.0] * self.robot.n
        moving = self.inputs["dq"] if dq else still
        c = coordinates(self.robot, self.inputs["q"], moving, self.inputs["ddq"] if ddq else still)
        return place(self.robot, c.q, REAL), c

    @property
    def ten(self) -> list[Sequence[Scalar]]:
        """Ten parameters of each link."""
        return [self.phi[part] for part in self.robot.layout.links]


Results = dict[str, object]


def _inverse_dynamics(r: _Recording, ddq: bool = True) -> list[Scalar]:
    tree, c = r.state(ddq=ddq)
    tau = joint_torques(tree, c.dq, c.ddq, r.ten)
    for column in drive_columns(r.robot, c.dq, c.ddq):
        for joint, ratio in column.ratios.items():
            tau[joint] = tau[joint] + ratio * (r.phi[column.index] * column.value)
    return c.project(tau)


def _gravity_torque(r: _Recording) -> list[Scalar]:
    tree, c = r.state(dq=False, ddq=False)
    return c.project(joint_torques(tree, c.dq, c.ddq, r.ten))


def _inertia_matrix(r: _Recording) -> list[list[Scalar]]:
    tree, c = r.state(dq=False, ddq=False)
    M = composite_inertia_matrix(tree, r.ten)
    rotors = rotor_inertia_matrix(r.robot, r.phi)
    return c.project_matrix([[a + b for a, b in zip(row, extra)] for row, extra in zip(M, rotors)])


def _coriolis_matrix(r: _Recording) -> list[list[Scalar]]:
    return christoffel_matrix(_inertia_matrix(r), r.inputs["q"], r.inputs["dq"])


def _forward_dynamics(r: _Recording) -> list[Scalar]:
    bias = _inverse_dynamics(r, ddq=False)
    return solve_symmetric(_inertia_matrix(r), [t - b for t, b in zip(r.inputs["tau"], bias)])


def _regressor(r: _Recording) -> list[list[Scalar]]:
    tree, c = r.state()
    size, width = len(r.robot.joints), len(r.robot.layout)
    every: list[list[Scalar]] = [[0.0] * width for _ in range(size)]
    for part, block in zip(r.robot.layout.links, rigid_regressor(tree, c.dq, c.ddq)):
        for joint, ten in block.items():
            every[joint][part] = ten
    for column in drive_columns(r.robot, c.dq, c.ddq):
        for joint, ratio in column.ratios.items():
            every[joint][column.index] = ratio * column.value
    chosen = range(width) if r.columns is None else r.columns
    projected = [c.project([row[k] for row in every]) for k in chosen]
    return [[column[row] for column in projected] for row in range(r.robot.n)]


def _energy_parts(r: _Recording) -> tuple[list[Scalar], list[Scalar]]:
    tree, c = r.state(ddq=False)
    kinetic: list[Scalar] = [0.0] * len(r.robot.layout)
    potential: list[Scalar] = [0.0] * len(r.robot.layout)
    for part, moving, resting in zip(r.robot.layout.links, kinetic_columns(tree, c.dq), potential_columns(tree)):
        kinetic[part], potential[part] = moving, resting
    for column in drive_columns(r.robot, c.dq, c.dq):  # with speeds for accelerations Ia's column is the speed
        if column.symbol == "Ia":
            kinetic[column.index] = 0.5 * (column.value * column.value)
    return kinetic, potential


def _energy(r: _Recording) -> Results:
    kinetic, potential = _energy_parts(r)

    def total(columns: list[Scalar]) -> Scalar:
        value: Scalar = 0.0
        for parameter, column in zip(r.phi, columns):
            value = value + parameter * column
        return value

    return {"kinetic": total(kinetic), "potential": total(potential)}


def _energy_regressor(r: _Recording) -> list[Scalar]:
    kinetic, potential = _energy_parts(r)
    columns = [a + b for a, b in zip(kinetic, potential)]
    return columns if r.columns is None else [columns[k] for k in r.columns]


def _forward_kinematics(r: _Recording) -> list[list[Scalar]]:
    tree, _ = r.state(dq=False, ddq=False)
    link, steps = r.robot.find_frame(r.link)
    turns, shift = constant_placement(steps, REAL)
    return link_placement(tree, link, turns, shift)


def _jacobian(r: _Recording) -> list[list[Scalar]]:
    tree, c = r.state(dq=False, ddq=False)
    link, steps = r.robot.find_frame(r.link)
    _, shift = constant_placement(steps, REAL)
    return [c.project(row) for row in link_jacobian(tree, link, shift if steps else None)]


@dataclass(frozen=True)
class What:
    """One function a robot offers: its arguments, its result, how it is recorded, what it depends on."""

    arguments: tuple[str, ...]
    result: str
    build: Callable[[_Recording], object]
    parameters: bool = True
    columns: bool = False
    link: bool = False


WHAT: dict[str, What] = {
    "inverse_dynamics": What(("q", "dq", "ddq"), "tau", _inverse_dynamics),
    "gravity_torque": What(("q",), "tau", _gravity_torque),
    "coriolis_matrix": What(("q", "dq"), "C", _coriolis_matrix),
    "inertia_matrix": What(("q",), "M", _inertia_matrix),
    "forward_dynamics": What(("q", "dq", "tau"), "ddq", _forward_dynamics),
    "regressor": What(("q", "dq", "ddq"), "Y", _regressor, parameters=False),
    "base_regressor": What(("q", "dq", "ddq"), "Y", _regressor, parameters=False, columns=True),
    "energy": What(("q", "dq"), "energy", _energy),
    "energy_regressor": What(("q", "dq"), "h", _energy_regressor, parameters=False),
    "forward_kinematics": What(("q",), "T", _forward_kinematics, parameters=False, link=True),
    "jacobian": What(("q",), "J", _jacobian, parameters=False, link=True),
}
"""All functions of a robot, by name."""


def record(
    robot: Robot,
    what: str,
    *,
    parameters: Array | str | None = None,
    columns: Sequence[int] | None = None,
    link: str | int | None = None,
) -> Function:
    """Return one of the robot's functions as a recorded program.

    Args:
        robot: The robot; its loops, if any, are given as functions.
        what: A name of WHAT.
        parameters: None bakes the robot's values in, an array (p,) bakes that in, "argument" makes the vector the
            function's last argument.
        columns: For "base_regressor", the standard columns that are kept.
        link: For kinematics, the link or frame.

    Raises:
        UnknownName: For a function that does not exist.
        UnknownParameters: If the result depends on a parameter whose value is unknown.
    """
    try:
        wanted = WHAT[what]
    except (KeyError, TypeError):
        raise UnknownName("function", what, WHAT) from None
    graph = Graph()
    inputs = {name: list(graph.inputs(name, robot.n)) for name in wanted.arguments}
    unknown: list[int] = []
    phi: list[Scalar] = []
    if not wanted.parameters:
        pass
    elif isinstance(parameters, str):
        phi = list(graph.inputs("parameters", len(robot.layout), uniform=True))
    else:
        values = robot.values if parameters is None else parameters
        unknown = [int(k) for k in np.flatnonzero(np.isnan(values))]
        # an unknown value becomes an input; it does no harm where the result turns out not to read it
        places = dict(zip(unknown, graph.inputs("unknown", len(unknown)))) if unknown else {}
        phi = [places.get(k, float(values[k])) for k in range(len(values))]
    result = wanted.build(_Recording(robot, inputs, phi, link, columns))
    function = graph.function(what, result if isinstance(result, dict) else {wanted.result: result})
    if not unknown:
        return function
    missing = [robot.layout.names[unknown[k]] for k in _used(function, len(function.arguments) - 1)]
    if missing:
        raise unknown_parameters(robot, what, missing)
    return replace(function, arguments=function.arguments[:-1])


def used_parameters(robot: Robot, function: Function) -> list[str]:
    """Return the names of the parameters a function recorded with parameters="argument" reads."""
    return [robot.layout.names[k] for k in _used(function, len(function.arguments) - 1)]


def unknown_parameters(robot: Robot, what: str, missing: Sequence[str]) -> UnknownParameters:
    """Return the error for parameters whose values are needed and not known."""
    shown = ", ".join(missing[:8]) + (f", ... ({len(missing)} in all)" if len(missing) > 8 else "")
    return UnknownParameters(
        f"{what} of robot {robot.name!r} needs parameters that are unknown (NaN): {shown}; give values with "
        "parameters=..., or robot.with_parameters(...)"
    )


def _used(function: Function, argument: int) -> list[int]:
    return sorted(
        step.value[1]
        for step in function.tape
        if step.op == "input" and isinstance(step.value, tuple) and step.value[0] == argument
    )
