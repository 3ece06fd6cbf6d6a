"""Geometry of a robot with some lengths changed, to vary a case study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minidyn.model.robot import Robot


def with_lengths(robot: Robot, lengths: Mapping[tuple[int, str], float]) -> Robot:
    """Return the robot with other values of steps, named by (joint from 0, kind of step such as
    "tx").
    """
    joints = tuple(
        replace(
            joint,
            before=tuple(
                replace(step, value=lengths.get((k, step.kind), step.value))
                for step in joint.before
            ),
        )
        for k, joint in enumerate(robot.joints)
    )
    named = {step.symbol: step.value for joint in joints for step in joint.before if step.symbol}
    symbols = tuple((name, named.get(name, value)) for name, value in robot.symbols)
    return replace(robot, joints=joints, symbols=symbols)
