"""The same mechanism with other link frames.

Turned freely, about a coordinate axis or the joint's own; as URDFs do.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from minidyn.model.assemble import motion_along
from minidyn.model.geometry import Step, Steps, inverse_steps, matrix_of, rpy_of, tidy_steps
from minidyn.model.joint import Joint
from minidyn.model.parameters import transform
from minidyn.model.robot import Robot

HOW = ("freely", "about a coordinate axis", "about its own axis")


def turned(robot: Robot, rng: np.random.Generator, how: str = "freely") -> Robot:
    """Return the robot with all link frames turned and, but for one coordinate axis, shifted.

    Same torques. Placements are written anew as xyz and rpy, as a file has them, so that their
    steps show nothing of how it was made.
    """
    changes = [_change(joint, rng, how) for joint in robot.joints]
    joints = []
    for joint, change in zip(robot.joints, changes):
        first = inverse_steps(changes[joint.parent]) if joint.parent >= 0 else ()
        before, after = ((*first, *joint.before), (*joint.after, *change))
        joints.append(replace(joint, before=_written(before), after=_written(after)))
    phi = robot.parameters.copy()
    for part, change in zip(robot.layout.links, changes):
        phi[part] = transform(phi[part], matrix_of(inverse_steps(change)))
    return replace(robot, joints=tuple(joints), parameters=phi, symbols=())


def _written(steps: Steps) -> Steps:
    T = matrix_of(steps)
    roll, pitch, yaw = rpy_of(T[:3, :3])
    kinds, values = ("tx", "ty", "tz", "rz", "ry", "rx"), (*T[:3, 3], yaw, pitch, roll)
    made = tidy_steps(Step(kind, float(value)) for kind, value in zip(kinds, values))
    # near a pitch of 90 degrees three angles lose digits
    return made if np.abs(matrix_of(made) - T).max() < 1e-14 else steps


def _change(joint: Joint, rng: np.random.Generator, how: str) -> Steps:
    angle, shift = (float(x) for x in rng.uniform((-math.pi, -0.4), (math.pi, 0.4)))
    if how == "about its own axis":
        along = motion_along("revolute", joint.axis, "test")[1][1] if not joint.after else "z"
        return (Step(f"r{along}", angle), Step(f"t{along}", shift))
    if how == "about a coordinate axis":
        return (Step(f"r{rng.choice(list('xyz'))}", angle),)
    shifts = (Step(f"t{axis}", float(x)) for axis, x in zip("xyz", rng.uniform(-0.3, 0.3, 3)))
    turns = (
        Step(f"r{axis}", float(x)) for axis, x in zip("zyx", rng.uniform(-math.pi, math.pi, 3))
    )
    return (*shifts, *turns)


def as_urdf(robot: Robot, rng: np.random.Generator, digits: int | None = 6) -> Robot:
    """Return the robot as a URDF writes it.

    Free orientations, origins on the axes, numbers with six digits. Joints may follow each other
    and be prismatic; loads and drives stay. None: all digits.
    """
    frames = []  # of the new links, seen from the old ones
    for joint in robot.joints:
        free = (
            Step(f"r{axis}", float(x)) for axis, x in zip("zyx", rng.uniform(-math.pi, math.pi, 3))
        )
        frames.append(
            matrix_of(
                (
                    *inverse_steps(joint.after),
                    Step("t" + joint.motion[1], rng.uniform(-0.4, 0.4)),
                    *free,
                )
            )
        )
    joints, phi = [], robot.parameters.copy()
    for index, joint in enumerate(robot.joints):
        parent = np.eye(4) if joint.parent < 0 else np.linalg.inv(frames[joint.parent])
        T = parent @ matrix_of((*joint.before, *joint.after)) @ frames[index]
        values = [
            *T[:3, 3],
            *rpy_of(T[:3, :3])[::-1],
            *(np.linalg.inv(frames[index])[:3, :3] @ joint.axis),
        ]
        if digits is not None:
            values = [round(float(value), digits) for value in values]
        kinds = ("tx", "ty", "tz", "rz", "ry", "rx")
        steps = tuple(Step(kind, float(value)) for kind, value in zip(kinds, values))
        kind = "revolute" if joint.kind == "fixed" else joint.kind
        before, motion, sign, after = motion_along(kind, np.array(values[6:]), "test")
        joints.append(
            replace(joint, before=(*steps, *before), motion=motion, direction=sign, after=after)
        )
        part = robot.layout.links[index]
        phi[part] = transform(phi[part], np.linalg.inv(frames[index]))
    return replace(robot, joints=tuple(joints), parameters=phi, symbols=())
