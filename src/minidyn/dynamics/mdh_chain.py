"""How the joints of a robot in modified Denavit-Hartenberg frames stand on each other.

The closed-form rules of the Lin papers ask that every joint turns about, or slides along, z of its
link's frame and through its origin (`minidyn.model.mdh_frames`).
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.papers.composite import Pose, Stand
from minidyn.dynamics.tree import REAL, Numbers, constant_placement
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import Unsupported
from minidyn.model.geometry import Step
from minidyn.model.joint import Joint
from minidyn.model.mdh_rows import along_z
from minidyn.model.robot import Robot


def stands(robot: Robot, numbers: Numbers = REAL) -> list[Stand]:
    """Return how the joints stand on their parents, in a number system.

    Axes must be z of the links' frames.
    """
    found = []
    for joint in robot.joints:
        _check_z(joint, robot)
        turns, shift = constant_placement(_constant_steps(joint), numbers)
        found.append(Stand(joint.parent, joint.turns, turns, shift))
    return found


def poses(robot: Robot, q: Sequence[Scalar]) -> list[Pose]:
    """Return where the joints are at coordinates q of all joints."""
    found = []
    for joint, value in zip(robot.joints, q):
        _check_z(joint, robot)
        constant = _constant_steps(joint)
        offset = joint.before[-1] if len(constant) < len(joint.before) else None
        turns, _ = constant_placement(constant, REAL)
        if joint.turns:
            found.append(Pose((*turns, (2, *REAL.joint_turn(value, 1, offset))), 0.0))
        else:
            found.append(Pose(turns, value if offset is None else value + offset.value))
    return found


def _constant_steps(joint: Joint) -> tuple[Step, ...]:
    """The steps before the joint's own variable.

    Its constant part (theta or d) belongs to the variable.
    """
    if joint.before and joint.before[-1].kind == joint.motion:
        return joint.before[:-1]
    return joint.before


def _check_z(joint: Joint, robot: Robot) -> None:
    if not along_z(joint):
        raise Unsupported(
            f"joint {joint.name!r} of robot {robot.name!r}: its axis is not z of its link's frame; "
            "robot.mdh().robot has frames where it is"
        )
