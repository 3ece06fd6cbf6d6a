"""The entries of a small robot's regressor as formulas in its lengths, angles, speeds and accelerations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minidyn.dynamics.drives import Shapes, all_columns, chosen_columns, drive_columns
from minidyn.dynamics.kernel import regressor_form, require_robot
from minidyn.dynamics.papers.sixteen import sixteen_layout
from minidyn.dynamics.record import REGRESSORS
from minidyn.dynamics.tree import NamedLengths, coordinates, place
from minidyn.errors import Unsupported
from minidyn.graph.polynomial import Polynomial, expand
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot


def regressor_formulas(
    robot: Robot, *, parametrization: str = "standard", form: str = "newton_euler", columns: Sequence[str] | None = None
) -> list[list[Polynomial]]:
    """Return the regressor as formulas: a row for each joint, a column for each parameter.

    `str` writes one, as in "l1² ddq1 + l1 g c1": s1, c1 and c12 are sines and cosines of q1 and of q1 + q2, g is the
    strength of gravity, lengths have the symbols of the robot's file. Formulas are brought to one shape, so that
    those of both forms can be compared exactly (`equals`).

    Args:
        robot: The robot.
        parametrization: "standard" or "lumeng16".
        form: "newton_euler" or "lagrange".
        columns: Names of the columns that are wanted; None: all.

    Raises:
        Unsupported: For a robot with loops that must be solved for, or whose formulas are too long to be read.
    """
    require_robot(robot, "regressor_formulas")
    what = regressor_form(parametrization, form)
    if robot.implicit_loops:
        raise Unsupported(f"robot {robot.name!r}: its loops are solved numerically; take robot.open_loops()")
    sixteen = parametrization == "lumeng16"
    n = robot.n
    graph = Graph()
    q, dq, ddq = (list(graph.inputs(name, n)) for name in ("q", "dq", "ddq"))
    strength = float(np.linalg.norm(robot.gravity))
    (g,) = graph.inputs("g", 1)
    steps = [step for joint in robot.joints for step in (*joint.before, *joint.after) if not step.is_turn]
    used = sorted({step.symbol for step in steps} - {""})
    lengths = dict(zip(used, graph.inputs("lengths", len(used))))
    c = coordinates(robot, q, dq, ddq)
    tree = place(robot, c.q, NamedLengths(lengths))
    if strength:
        tree = replace(tree, gravity=[component * (1.0 / strength) * g for component in tree.gravity])
    blocks = REGRESSORS[what](tree, c.dq, c.ddq)
    layout = sixteen_layout(robot) if sixteen else robot.layout
    chosen = None if columns is None else layout.indices(columns)
    every = all_columns(robot, blocks, drive_columns(robot, c.dq, c.ddq, Shapes(robot, c.q)), sixteen)
    function = graph.function(what, {"Y": chosen_columns(c, every, chosen, None)})
    names = {"lengths": used, "g": ["g"]} | {key: [f"{key}{k + 1}" for k in range(n)] for key in ("q", "dq", "ddq")}
    flat = expand(function, names)[0]
    width = len(flat) // n
    return [flat[row * width : (row + 1) * width] for row in range(n)]
