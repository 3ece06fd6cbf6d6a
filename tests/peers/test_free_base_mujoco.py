"""A robot with a free base agrees with MuJoCo, its state converted as docs/free-base.md says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from free_base_cases import some_state, walker

mujoco = pytest.importorskip("mujoco")


@pytest.mark.parametrize("seed", range(20))
def test_inverse_dynamics_agree(seed: int, tmp_path: Path) -> None:
    robot = walker(seed, drives=False)
    md.save(robot, tmp_path / "robot.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(model)
    (q,), (dq,), (ddq,) = some_state(robot, 1, seed)
    R = md.forward_kinematics(robot, q, robot.link_names[0])[:3, :3]
    # joints by name: MuJoCo has them depth first
    places = [model.joint(name).dofadr[0] for name in robot.joint_names[6:]]
    data.qpos[:7] = [*q[:3], q[6], *q[3:6]]
    data.qvel[:6] = [*R @ dq[:3], *dq[3:6]]
    data.qacc[:6] = [*R @ (ddq[:3] + np.cross(dq[3:6], dq[:3])), *ddq[3:6]]
    for place, position, speed, acceleration in zip(places, q[7:], dq[6:], ddq[6:]):
        data.qpos[place + 1] = position
        data.qvel[place], data.qacc[place] = speed, acceleration
    mujoco.mj_inverse(model, data)
    found = data.qfrc_inverse
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    expected = np.concatenate([R.T @ found[:3], found[3:6], found[places]])
    assert np.abs(tau - expected).max() < 1e-10 * np.abs(expected).max()
