"""The same torques from fewer numbers: what a joint cannot show is moved to the link below it.

A rod along the axis of a rotational joint does not notice that the joint turns: its mass, its first moment along the
axis and its transverse inertia act as if it were fixed to the parent. The inertia tensor of a link that slides acts as
if it were the parent's. So each link hands these down, towards the base, where they vanish. Torques, inertia and
Coriolis matrices stay as they are; several of a link's ten parameters become zero and the recursions shrink. Link
frames are put on the joint axes first. Parameters may be floats or graph nodes: only + - * by constants are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minidyn.dynamics.tree import REAL, constant_placement
from minidyn.dynamics.vectors import Scalar, Turn, shift_tensor, to_parent, turn_tensor
from minidyn.model.geometry import Steps
from minidyn.model.robot import Robot

_DIAGONAL = (0, 3, 5)  # places of XX, YY, ZZ


def regrouped(robot: Robot, ten: Sequence[Sequence[Scalar]]) -> tuple[Robot, list[list[Scalar]]]:
    """Return (robot, ten parameters of each link) with equal torques, link frames on the joints, and fewer parameters.

    The robot returned is for recursions over moving joints: its frames and parameter values mean nothing. Energies and
    placements are not those of the robot given.

    Args:
        robot: The robot.
        ten: Parameters XX ... M of each link.

    Implements: Gautier1991 eq. (19)-(21) in closed form: YY, MZ, M of a rotational link (axis z) and the tensor of a
    sliding one regrouped with the parent's.
    """
    own = [_seen(body, joint.after) for body, joint in zip(ten, robot.joints)]
    joints = []
    for joint in robot.joints:
        before = joint.before if joint.parent < 0 else (*robot.joints[joint.parent].after, *joint.before)
        joints.append(replace(joint, before=before, after=()))
    for index in reversed(range(len(joints))):
        joint = joints[index]
        own[index], handed = _split(own[index], "xyz".index(joint.motion[1]), joint.turns, joint.slides)
        if joint.parent >= 0:
            below = _seen(handed, joint.before)
            own[joint.parent] = [a + b for a, b in zip(own[joint.parent], below)]
    return replace(robot, joints=tuple(joints)), own


def _split(ten: list[Scalar], axis: int, turning: bool, sliding: bool) -> tuple[list[Scalar], list[Scalar]]:
    """Return (what the joint shows, what it hands down)."""
    kept, handed = list(ten), [0.0] * 10
    if turning:
        first, second = _DIAGONAL[(axis + 1) % 3], _DIAGONAL[(axis + 2) % 3]
        transverse = ten[second]
        handed[first] = handed[second] = transverse
        kept[first], kept[second] = ten[first] - transverse, 0.0
        places = [6 + axis, 9]
    else:
        places = list(range(6)) if sliding else list(range(10))
    for place in places:
        handed[place], kept[place] = ten[place], 0.0
    return kept, handed


def _seen(ten: Sequence[Scalar], steps: Steps) -> list[Scalar]:
    """Return the parameters of a body about and along a frame it is placed on by constant steps."""
    if not steps:
        return list(ten)
    turns: tuple[Turn, ...]
    turns, shift = constant_placement(steps, REAL)
    J, h, mass = turn_tensor(turns, ten[:6]), to_parent(turns, list(ten[6:9])), ten[9]
    J, h = shift_tensor(J, h, mass, shift)
    return [*J, *h, mass]
