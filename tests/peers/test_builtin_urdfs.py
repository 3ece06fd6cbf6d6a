"""Built-in robots that come from a URDF of example-robot-data have the torques that Pinocchio
computes from it.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest

import minidyn as md

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")

FILES = {"so101": "so101.urdf", "xarm7": "xarm7.urdf", "z1": "z1.urdf", "panda_hand": "panda.urdf"}


@pytest.mark.parametrize("name", FILES)
def test_torques_are_those_of_the_published_urdf(name: str) -> None:
    try:
        files = importlib.metadata.files("example-robot-data") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package example-robot-data is not installed")
    path = next(Path(str(file.locate())) for file in files if file.name == FILES[name])
    robot = md.load(name)
    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    rng = np.random.default_rng(0)
    follows = {"panda_finger_joint2": "panda_finger_joint1"}
    for _ in range(20):
        state = {joint: rng.uniform(-1, 1, 3) for joint in robot.joint_names}
        theirs = [state[follows.get(joint, joint)] for joint in model.names[1:]]
        q, dq, ddq = (np.array(values) for values in zip(*theirs))
        torque = dict.fromkeys(robot.joint_names, 0.0)
        position = pin.neutral(model)
        for joint, value in zip(model.joints[1:], q):
            if joint.nq == 2:
                position[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
            else:
                position[joint.idx_q] = value
        for joint, value in zip(model.names[1:], pin.rnea(model, data, position, dq, ddq)):
            torque[follows.get(joint, joint)] += value
        ours = md.inverse_dynamics(
            robot, *np.array([state[joint] for joint in robot.joint_names]).T
        )
        wanted = np.array([torque[joint] for joint in robot.joint_names])
        np.testing.assert_allclose(
            ours, wanted, atol=2e-5 * np.abs(wanted).max()
        )  # right angles are exact here
