"""Rows of the three models over any numbers: joint torques, torques at rest, differences of energy.

A base parameter is a combination of columns that these rows can tell from others; how many rows and which numbers is
the caller's choice.
"""

from __future__ import annotations

from minidyn.dynamics.drives import RealShapes, Shapes, drive_columns, drive_loads, some_parameters
from minidyn.dynamics.energy import kinetic_columns, potential_columns
from minidyn.dynamics.regressor import rigid_regressor
from minidyn.dynamics.tree import Coordinates, Tree
from minidyn.dynamics.vectors import Scalar
from minidyn.model.robot import Robot

Entries = dict[tuple[int, int], Scalar]


def torque_entries(
    robot: Robot, tree: Tree, c: Coordinates, friction: bool = True, shapes: Shapes | None = None
) -> Entries:
    """Return {(independent joint, standard column): entry} of the regressor; what is left out is 0.

    Args:
        robot: The robot.
        tree: Its geometry.
        c: Its coordinates.
        friction: Whether friction takes part.
        shapes: What is no polynomial where the caller knows better than real arithmetic (exact numbers).

    Implements: Gautier1991 eq. (5)-(8) and, through G, the closed loops' d_c = d_a + Gᵀ d_p.
    """
    found: Entries = {}

    def put(joint: int, column: int, value: Scalar) -> None:
        for row, factor in c.G[joint].items():
            place = (row, column)
            found[place] = found[place] + factor * value if place in found else factor * value

    for part, block in zip(robot.layout.links, rigid_regressor(tree, c.dq, c.ddq)):
        for joint, ten in block.items():
            for offset, value in enumerate(ten):
                put(joint, part.start + offset, value)
    if friction and shapes is None:
        phi = some_parameters(robot)
        shapes = RealShapes(robot, c.q, drive_loads(robot, tree, c, [list(phi[part]) for part in robot.layout.links]))
    for column in drive_columns(robot, c.dq, c.ddq, shapes if friction else None):
        for joint, ratio in column.ratios.items():
            put(joint, column.index, ratio * column.value)
    return found


def energy_entries(robot: Robot, tree: Tree, c: Coordinates) -> Entries:
    """Return {(0, standard column): energy of a unit parameter}, kinetic and potential, rotors included.

    Implements: Gautier1991 eq. (10).
    """
    found: Entries = {}
    for part, moving, resting in zip(robot.layout.links, kinetic_columns(tree, c.dq), potential_columns(tree)):
        for offset, (kinetic, potential) in enumerate(zip(moving, resting)):
            found[0, part.start + offset] = kinetic + potential
    # with speeds for accelerations Ia's column is the speed; friction takes no part
    for column in drive_columns(robot, c.dq, c.dq, None):
        found[0, column.index] = 0.5 * (column.value * column.value)
    return found
