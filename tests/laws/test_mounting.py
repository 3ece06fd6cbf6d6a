"""A base turned in the world.

Torques are those of gravity turned the other way, poses are turned.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn.errors import DescriptionError

ROBOTS = ("puma560", "stanford", "scara", "ur10e", "two_link")


def turn(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Rz(yaw) Ry(pitch) Rx(roll), as URDF's rpy."""
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("mount", [(math.pi, 0, 0), (0, math.pi / 2, 0), (0.3, -0.2, 1.1)])
def test_a_mounted_robot_feels_gravity_turned(
    name: str, mount: tuple[float, float, float], tmp_path: Path
) -> None:
    gravity, R = np.array([0.1, -0.4, -9.7]), turn(*mount)
    robot = md.load(name)
    robot = robot if robot.parameters_known else robot.with_parameters(_values(robot))
    mounted = robot.with_gravity(gravity).mounted(mount)
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, 5, robot.n))
    felt = robot.with_gravity(R.T @ gravity)
    tau = md.inverse_dynamics(mounted, q, dq, ddq)
    np.testing.assert_allclose(tau, md.inverse_dynamics(felt, q, dq, ddq), rtol=0, atol=1e-9)
    T, plain = (md.forward_kinematics(one, q) for one in (mounted, robot))
    np.testing.assert_allclose(T[..., :3, :], R @ plain[..., :3, :], rtol=0, atol=1e-12)
    assert md.load(name, gravity=gravity, mount=mount).base == mounted.base
    md.save(mounted, tmp_path / "robot.toml")
    again = md.load(tmp_path / "robot.toml")
    np.testing.assert_array_equal(md.inverse_dynamics(again, q, dq, ddq), tau)


def _values(robot: md.Robot) -> np.ndarray:
    return np.random.default_rng(1).normal(size=len(robot.layout))


def test_mounts_add_up_and_are_three_numbers() -> None:
    robot = md.load("two_link")
    twice = robot.mounted((0.2, 0, 0)).mounted((0.3, 0, 0))
    np.testing.assert_allclose(
        twice.base_placement, robot.mounted((0.5, 0, 0)).base_placement, atol=1e-15
    )
    with pytest.raises(DescriptionError, match="mount"):
        robot.mounted((0.1, 0.2))
    with pytest.raises(DescriptionError, match="mount"):
        robot.mounted((0.1, 0.2, math.nan))
