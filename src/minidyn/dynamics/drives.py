"""What drives add to the dynamics: rotor inertia and friction, each a column that is linear in its parameter.

The speed of drive j, reduced to the joint side, is v = dq_j + Σ c_k dq_k with the coupling c of the robot's
description; its torque acts on joint j and, through c, on the coupled joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minidyn.dynamics.vectors import Scalar
from minidyn.graph import scalar
from minidyn.model.robot import Robot

__all__ = ["DriveColumn", "drive_columns", "rotor_inertia_matrix"]


@dataclass(frozen=True)
class DriveColumn:
    """One drive term.

    Attributes:
        index: Its place among the standard parameters.
        symbol: "Ia", "Fv", "Fc", "Fo".
        value: Its torque for a parameter of 1, on the drive's own axis.
        ratios: {joint index: share of that torque the joint feels}.
    """

    index: int
    symbol: str
    value: Scalar
    ratios: dict[int, float]


def drive_columns(
    robot: Robot, dq: Sequence[Scalar], ddq: Sequence[Scalar], signs: Sequence[Scalar] | None = None
) -> list[DriveColumn]:
    """Return all drive columns for speeds and accelerations of all joints.

    Args:
        robot: The robot.
        dq: Speeds of all joints.
        ddq: Accelerations of all joints.
        signs: sign(v) of each drive where the caller knows better than `scalar.sign` (exact arithmetic).
    """
    found = []
    for joint, columns in enumerate(robot.layout.drives):
        if not columns:
            continue
        ratios = drive_ratios(robot, joint)
        speed = _combine(ratios, dq)
        for column in columns:
            if column.symbol == "Ia":
                value = _combine(ratios, ddq)
            elif column.symbol == "Fv":
                value = speed
            elif column.symbol == "Fc":
                value = _sign(speed, robot.joints[joint].drive.sign_width) if signs is None else signs[joint]
            else:
                value = 1.0
            found.append(DriveColumn(column.index, column.symbol, value, ratios))
    return found


def _sign(speed: Scalar, width: float) -> Scalar:
    """sign(speed), turned round over a width of speeds."""
    return scalar.sign(speed) if width == 0.0 else speed / scalar.sqrt(speed * speed + width * width)


def drive_ratios(robot: Robot, joint: int) -> dict[int, float]:
    """Return {joint index: how much that joint turns the drive of `joint`}."""
    ratios = {joint: 1.0}
    for name, coefficient in robot.joints[joint].drive.coupling:
        other = robot.joint_index(name)
        ratios[other] = ratios.get(other, 0.0) + coefficient
    return ratios


def rotor_inertia_matrix(robot: Robot, phi: Sequence[Scalar]) -> list[list[Scalar]]:
    """Return what rotors add to the inertia matrix of all joints: Σ_j Ia_j c_j c_jᵀ."""
    size = len(robot.joints)
    M: list[list[Scalar]] = [[0.0] * size for _ in range(size)]
    for joint, columns in enumerate(robot.layout.drives):
        for column in columns:
            if column.symbol != "Ia":
                continue
            ratios = drive_ratios(robot, joint)
            for i, ci in ratios.items():
                for k, ck in ratios.items():
                    M[i][k] = M[i][k] + (ci * ck) * phi[column.index]
    return M


def _combine(ratios: dict[int, float], values: Sequence[Scalar]) -> Scalar:
    total: Scalar = None
    for joint, ratio in ratios.items():
        term = values[joint] if ratio == 1.0 else ratio * values[joint]
        total = term if total is None else total + term
    return total
