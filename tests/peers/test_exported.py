"""Exported models in other programs.

The URDF in Pinocchio, the MJCF in MuJoCo, with meshes and comments kept.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from test_example_robot_data import ARMS, FILES, needs_data

import minidyn as md
from conftest import count
from export_cases import filled
from minidyn.identification.estimate import Estimate
from minidyn.identification.export import file_name
from minidyn.model.robot import Robot

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed")
ARM_FILES = {path.name: path for path in FILES if path.name in ARMS}


def estimate_from(path: Path, rng: np.random.Generator) -> Estimate:
    """Return an estimate with other bodies than the file has, and rotor inertia and friction of its
    own.
    """
    robot = md.load(path).with_drives(
        rotor_inertia=True, friction=("viscous", "coulomb", "offset"), sign_width=0.1
    )
    robot = filled(robot, rng)
    base = md.base_parameters(robot)
    size = base.rank
    return Estimate(
        robot, base, base.values(), np.eye(size), np.ones(robot.n), "wls", True, 1.0, 100
    )


def without(robot: Robot, *symbols: str) -> Robot:
    """Return the robot with some drive terms set to zero."""
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if column.symbol in symbols:
            values[column.index] = 0.0
    return robot.with_parameters(values)


@needs_data
@pytest.mark.parametrize("name", sorted(ARM_FILES)[: count(4, 100)])
def test_exported_arms_in_pinocchio_and_mujoco(name, tmp_path) -> None:
    rng = np.random.default_rng(len(name))
    estimate = estimate_from(ARM_FILES[name], rng)
    robot = estimate.robot
    exported = estimate.export(tmp_path / "out", ["urdf", "mjcf"])
    codes = {notice.code for notice in exported.notices}
    assert codes <= {"mjcf.lost_meshes", "export.cannot_say", "robot.divided_rigid"}
    old = ARM_FILES[name].read_text()
    if "mjcf.lost_meshes" not in codes and "<visual" in old:
        assert (
            mujoco.MjModel.from_xml_path(
                str(tmp_path / "out" / file_name("mjcf", robot.name))
            ).ngeom
            >= robot.n
        )
    motion = tuple(rng.normal(size=(5, robot.n)) for _ in range(3))
    for file in (file_name("urdf", robot.name), file_name("mjcf", robot.name)):
        back = md.load(tmp_path / "out" / file)
        order = [back.joint_names.index(joint) for joint in robot.joint_names]
        turned = [np.empty_like(part) for part in motion]
        for part, other in zip(motion, turned):
            other[:, order] = part
        wanted = md.inverse_dynamics(robot, *motion)
        found = md.inverse_dynamics(back, *turned)[:, order]
        np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())
    new = (tmp_path / "out" / file_name("urdf", robot.name)).read_text()
    for tag in ("<visual", "<collision", "<mesh", "<!--", "<gazebo"):
        assert old.count(tag) == new.count(tag)
    assert re.findall(r'filename="(package://[^"]*)"', old) == re.findall(
        r'filename="(package://[^"]*)"', new
    )
    if any(joint.follows for joint in robot.joints):
        return  # Pinocchio and MuJoCo treat followers in ways of their own
    if not any(
        notice.code.startswith("robot.snapped") for notice in md.load(ARM_FILES[name]).notices
    ):  # rounded right angles
        _compare_with_pinocchio(
            tmp_path / "out" / file_name("urdf", robot.name),
            without(robot, "Ia", "Fv", "Fc", "Fo"),
            motion,
        )
    _compare_with_mujoco(
        tmp_path / "out" / file_name("mjcf", robot.name), without(robot, "Fc", "Fo"), motion
    )


def _compare_with_pinocchio(path: Path, robot: Robot, motion: tuple[np.ndarray, ...]) -> None:
    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    joints = [model.joints[model.getJointId(name)] for name in robot.joint_names]
    for q, dq, ddq in zip(*motion):
        position, speed, acceleration = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for joint, angle, v, a in zip(joints, q, dq, ddq):
            value = (np.cos(angle), np.sin(angle)) if joint.nq == 2 else (angle,)
            position[joint.idx_q : joint.idx_q + joint.nq] = value
            speed[joint.idx_v], acceleration[joint.idx_v] = v, a
        found = pin.rnea(model, data, position, speed, acceleration)
        wanted = md.inverse_dynamics(robot, q, dq, ddq)
        np.testing.assert_allclose(
            [found[joint.idx_v] for joint in joints],
            wanted,
            atol=1e-7 * np.abs(wanted).max(),
            rtol=1e-6,
        )


def _compare_with_mujoco(path: Path, robot: Robot, motion: tuple[np.ndarray, ...]) -> None:
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS | mujoco.mjtDisableBit.mjDSBL_LIMIT
    )
    data = mujoco.MjData(model)
    places = [model.joint(name).dofadr[0] for name in robot.joint_names]
    for q, dq, ddq in zip(*motion):
        data.qpos[places], data.qvel[places], data.qacc[places] = q, dq, ddq
        mujoco.mj_inverse(model, data)
        wanted = md.inverse_dynamics(robot, q, dq, ddq)
        np.testing.assert_allclose(
            data.qfrc_inverse[places], wanted, atol=1e-8 * np.abs(wanted).max()
        )
