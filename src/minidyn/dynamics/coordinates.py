"""From the independent coordinates q to all joints, and from all joint torques back to tau.

With q_all = f(q): dq_all = G dq, ddq_all = G ddq + Ġ dq, tau = Gᵀ tau_all (Gautier1991, closed loops). Mimic joints and
passive joints given as functions are the same thing here. G is constant unless a formula is not linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minidyn.dynamics.vectors import Scalar
from minidyn.graph.derivative import derivatives, tangents
from minidyn.graph.node import Node
from minidyn.model.robot import Robot

Row = dict[int, Scalar]


@dataclass(frozen=True)
class Coordinates:
    """State of all joints.

    Attributes:
        q: Position of each joint of `robot.joints`.
        dq: Speeds.
        ddq: Accelerations.
        G: For each joint, {independent coordinate: d q_joint / d q}.
        n: Number of independent coordinates.
    """

    q: list[Scalar]
    dq: list[Scalar]
    ddq: list[Scalar]
    G: list[Row]
    n: int

    def project(self, tau_all: Sequence[Scalar]) -> list[Scalar]:
        """Gᵀ tau_all."""
        tau: list[Scalar] = [0.0] * self.n
        for value, row in zip(tau_all, self.G):
            for column, factor in row.items():
                tau[column] = tau[column] + factor * value
        return tau

    def project_matrix(self, M_all: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Gᵀ M_all G for a symmetric M_all; one triangle is computed, so that the result is exactly symmetric."""
        half = [self.project(row) for row in M_all]
        M: list[list[Scalar]] = [[0.0] * self.n for _ in range(self.n)]
        for j in range(self.n):
            column = self.project([row[j] for row in half])
            for i in range(j, self.n):
                M[i][j] = M[j][i] = column[i]
        return M


def coordinates(
    robot: Robot,
    q: Sequence[Scalar],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    zero: Any = 0.0,
    along: Sequence[Scalar] | None = None,
) -> Coordinates:
    """Return the state of all joints for independent q, dq, ddq (n scalars each).

    A formula that is not linear needs graph nodes: its derivatives are recorded. Zero is the number system's 0.

    Args:
        robot: The robot.
        q: Positions.
        dq: Speeds.
        ddq: Accelerations.
        zero: The number system's 0.
        along: Speeds at which q really moves, where dq is a reference: accelerations are then G ddq + Ġ(along) dq.
    """
    place = {robot.joints[index].name: column for column, index in enumerate(robot.independent)}
    all_q: list[Scalar] = []
    all_dq: list[Scalar] = []
    all_ddq: list[Scalar] = []
    G: list[Row] = []
    for joint in robot.joints:
        if joint.name in place:
            column = place[joint.name]
            state = q[column], dq[column], ddq[column]
            row: Row = {column: 1.0}
        elif joint.kind == "fixed":
            state, row = (zero, zero, zero), {}
        elif joint.follows is not None and joint.follows.formula:
            state, row = _formula(robot, joint.name, place, q, dq, ddq, dq if along is None else along)
        else:
            follows = joint.follows
            terms = [(place[name], ratio) for name, ratio in follows.terms] if follows else []
            row = dict(terms)
            offset = follows.offset if follows else 0.0
            state = (
                _linear(q, terms, zero + offset if offset else zero),
                _linear(dq, terms, zero),
                _linear(ddq, terms, zero),
            )
        for values, value in zip((all_q, all_dq, all_ddq), state):
            values.append(value)
        G.append(row)
    return Coordinates(all_q, all_dq, all_ddq, G, robot.n)


def _linear(values: Sequence[Scalar], terms: Sequence[tuple[int, float]], start: Scalar) -> Scalar:
    total = start
    for column, ratio in terms:
        total = total + ratio * values[column]
    return total


def _formula(
    robot: Robot,
    name: str,
    place: dict[str, int],
    q: Sequence[Scalar],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    along: Sequence[Scalar],
) -> tuple[tuple[Scalar, Scalar, Scalar], Row]:
    formula = robot.formulas[name]
    names = robot_formula_names(robot)
    columns = [place[names[variable]] for variable in formula.variables]
    value = formula.evaluate({variable: q[column] for variable, column in zip(formula.variables, columns)})
    first = {q[column]: dq[column] for column in columns}
    speed = tangents([value], first)[0]
    second = {q[column]: along[column] for column in columns} | {
        dq[column]: ddq[column] for column in columns if isinstance(dq[column], Node)
    }
    acceleration = tangents([speed], second)[0]
    rates = derivatives([value], [q[column] for column in columns])[0]
    row: Row = {}
    for column, rate in zip(columns, rates):
        row[column] = row.get(column, 0.0) + rate
    return (value, speed, acceleration), row


def robot_formula_names(robot: Robot) -> dict[str, str]:
    """Return what the robot's formulas call joints."""
    from minidyn.model.robot import formula_names

    return formula_names(robot.joints, robot.joint_names)
