"""Friction that grows with the load.

What a drive carries, and the accelerations of a robot whose gears rub by it. The load of a drive is
the torque that it passes on to what is behind its gear: links in motion, and their weight. With L =
M q̈ + h the torque behind the gears, Ia the rotors before them and s the sign of the speed,

    torque = L + Fl |L| s + Ia q̈ + other friction.

The acceleration stands in L, too, but nothing has to be repeated until it settles. With σ the sign
of L, a gear is one of efficiency e = 1 / (1 + Fl s σ), and

    (M + e Ia) q̈ = e (torque - other friction) - h

is linear. L has the sign of torque - other friction - Ia q̈. So signs are guessed without rotors and
corrected by the accelerations that they give; where Fl < 1 the solution is unique, because M + e Ia
is positive definite for all signs. Drives that several joints turn have v = C q̇; then L is C⁻ᵀ M
q̈ + ..., and the rest is alike.

Two loads are those at rest, the weight alone: where no acceleration is given (momentum), and that
of a joint which follows others, or turns a drive with one that does: how much of a motion such a
drive carries does not follow from the torques of the joints that lead it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidyn.dynamics.drives import (
    Shapes,
    behind_gears,
    coupling_matrix,
    drive_columns,
    drive_ratios,
    on_drives,
    with_inertias,
)
from minidyn.dynamics.newton_euler import joint_torques
from minidyn.dynamics.tree import Coordinates, Tree
from minidyn.dynamics.vectors import Scalar, plus, solve_symmetric, weighted_sum
from minidyn.graph import scalar
from minidyn.model.drives import FRICTION, INERTIAS, ROTOR
from minidyn.model.robot import Robot

# of signs: no state of random robots with rotors of any size needs more
# (tests/laws/test_load_friction.py)
_PASSES = 3
LOAD = FRICTION["load"]


def loads_move(robot: Robot) -> bool:
    """Whether loads of independent joints hold what motion adds.

    Where no drive is coupled with a follower.
    """
    turned = [set(drive_ratios(robot, joint)) for joint in range(len(robot.joints))]
    return all(joints <= set(robot.independent) for joints in turned if len(joints) > 1)


def drive_loads(
    robot: Robot,
    tree: Tree,
    c: Coordinates,
    ten: Sequence[Sequence[Scalar]],
    phi: Sequence[Scalar] | None = None,
    at_rest: bool = False,
) -> list[Scalar]:
    """Return what the drive of each joint carries in a motion, N m or N.

    An independent joint carries its followers too; a follower's own drive what hangs on its joint,
    at rest. With v = C dq the speeds of coupled drives, torques of joints are Cᵀ times those of
    drives, so that loads are C⁻ᵀ times what joints carry. Each link has ten parameters XX ... M;
    inertias behind gears are those of phi (p,), None: of none.
    """
    still = [tree.zero] * len(robot.joints)
    moving = not at_rest and loads_move(robot)
    follow = len(robot.independent) < len(robot.joints)
    found = joint_torques(tree, still, still, ten) if follow or not moving else still
    carried = joint_torques(tree, c.dq, c.ddq, ten) if moving else found
    if moving and phi is not None:
        carried = with_inertias(robot, c, carried, phi)
    found = list(found)
    for column, value in enumerate(c.project(carried)):
        found[robot.independent[column]] = value
    return on_drives(robot, found)


def rubbing_accelerations(
    robot: Robot,
    tree: Tree,
    c: Coordinates,
    ten: Sequence[Sequence[Scalar]],
    phi: Sequence[Scalar],
    inertia: Sequence[Sequence[Scalar]],
    tau: Sequence[Scalar],
    states: Sequence[Scalar] | None,
) -> list[Scalar]:
    """Return the accelerations of a robot whose loads move (`loads_move`), for torques (n,).

    Coordinates are those of a motion without acceleration, and `inertia` (n, n) is that of all but
    the rotors of independent joints; states are those of drives that remember.
    """
    torque, friction = joint_torques(tree, c.dq, c.ddq, ten), [tree.zero] * len(robot.joints)
    at_rest = drive_loads(robot, tree, c, ten, phi, at_rest=True)
    loads = [1.0 if joint in robot.independent else load for joint, load in enumerate(at_rest)]
    shares: dict[int, Scalar] = {}  # Fl s(v) of each drive
    for column in drive_columns(robot, c.dq, c.ddq, Shapes(robot, c.q, loads, states)):
        own = robot.layout.columns[column.index]
        value = phi[column.index] * column.value
        if own.symbol == LOAD and own.joint in robot.independent:
            shares[own.joint] = value
            continue
        for joint, ratio in column.ratios.items():
            part = torque if own.symbol in INERTIAS else friction
            part[joint] = part[joint] + ratio * value
    every = list(robot.independent)
    C = coupling_matrix(robot)[np.ix_(every, every)]
    rest, bias = c.project(friction), c.project(torque)
    drives = [
        weighted_sum(row.tolist(), [t - f for t, f in zip(tau, rest)]) for row in np.linalg.inv(C).T
    ]
    behind = behind_gears(robot)
    before = [
        column
        for column in robot.layout.columns
        if column.symbol == ROTOR and column.index not in behind
    ]
    rotors: dict[int, Scalar] = dict.fromkeys(every, tree.zero) | {
        c.joint: phi[c.index] for c in before
    }
    signs, found = [scalar.sign(torque) for torque in drives], list[Scalar]()
    for _ in range(_PASSES):
        passed = [
            1.0 / (1.0 + shares[k] * sign) if k in shares else 1.0 for k, sign in zip(every, signs)
        ]
        turned = [e * rotors[k] for e, k in zip(passed, every)]
        M = [list(row) for row in inertia]
        for row, rotor in zip(C.tolist(), turned):
            M = [
                plus(line, [(a * b) * rotor if a * b else 0.0 for b in row])
                for line, a in zip(M, row)
            ]
        given = [e * torque for e, torque in zip(passed, drives)]
        right = [weighted_sum(column.tolist(), given) - h for column, h in zip(C.T, bias)]
        found = solve_symmetric(M, right, robot.joint_names)
        used = [rotors[k] * weighted_sum(row.tolist(), found) for k, row in zip(every, C)]
        signs = [scalar.sign(torque - part) for torque, part in zip(drives, used)]
    return found
