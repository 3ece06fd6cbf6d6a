"""What each drive carries at rest: the load that load-dependent friction grows with.

The load is the torque that holds the robot still against gravity, as the drive feels it. It is a function of the
position and of the robot's own parameters, so that forward dynamics stays explicit: with the whole torque as load the
acceleration would stand on both sides. On the log of a UR10 both predict equally well (docs/friction.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.coordinates import Coordinates, coordinates
from minidyn.dynamics.drives import drive_ratios
from minidyn.dynamics.newton_euler import joint_torques
from minidyn.dynamics.tree import REAL, Tree, place
from minidyn.dynamics.vectors import Scalar
from minidyn.model.robot import Robot


def has_load(robot: Robot) -> bool:
    """Whether a drive of the robot has friction that grows with its load."""
    return any("load" in joint.drive.friction for joint in robot.joints)


def drive_loads(robot: Robot, tree: Tree, c: Coordinates, ten: Sequence[Sequence[Scalar]]) -> list[Scalar] | None:
    """Return what the drive of each joint carries at rest, N m or N; None where no drive asks.

    An independent joint carries its followers too; a follower's own drive what hangs on its joint. With v = C dq the
    speeds of coupled drives, torques of joints are Cᵀ times those of drives, so that loads are C⁻ᵀ times gravity.

    Args:
        robot: The robot.
        tree: Geometry at q.
        c: Coordinates, of which the positions are read.
        ten: Ten parameters XX ... M of each link.
    """
    if not has_load(robot):
        return None
    still = [tree.zero] * len(robot.joints)
    gravity = joint_torques(tree, still, still, ten)
    for column, value in enumerate(c.project(gravity)):
        gravity[robot.independent[column]] = value
    C = np.eye(len(robot.joints))
    for joint in range(len(robot.joints)):
        for other, ratio in drive_ratios(robot, joint).items():
            C[joint, other] = ratio
    if np.array_equal(C, np.eye(len(C))):
        return gravity
    return [_weighted(row, gravity) for row in np.linalg.inv(C).T]


def loads_of_motion(robot: Robot, q: Array, ten: Sequence[Sequence[Scalar]]) -> Array:
    """Return what each drive carries at rest at many positions (N, joints), N m or N.

    Args:
        robot: With friction that grows with the load; its joints follow no formulas.
        q: Positions (N, n).
        ten: Ten parameters XX ... M of each link.
    """
    still = [np.zeros(len(q))] * robot.n
    c = coordinates(robot, list(np.asarray(q, dtype=float).T), still, still)
    loads = drive_loads(robot, place(robot, c.q, REAL), c, ten)
    every = [0.0] * len(robot.joints) if loads is None else loads
    return np.stack([np.broadcast_to(load, len(q)) for load in every], axis=1)


def some_parameters(robot: Robot) -> Array:
    """Return the robot's parameters (p,) with arbitrary numbers for unknown ones.

    For questions on the structure of the model, to which it does not matter how large a load is.
    """
    arbitrary = np.random.default_rng(0).uniform(0.5, 1.5, len(robot.parameters))
    return np.where(np.isnan(robot.parameters), arbitrary, robot.parameters)


def _weighted(weights: Array, values: Sequence[Scalar]) -> Scalar:
    total: Scalar = None
    for weight, value in zip(weights, values):
        if weight != 0.0:
            term = value if weight == 1.0 else float(weight) * value
            total = term if total is None else total + term
    return total
