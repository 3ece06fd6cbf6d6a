"""Poses at rest identify the parameters of gravity, and say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from base_robots import looped_arm, special_robot

import minidyn as md
from conftest import count
from minidyn.errors import MinidynError, NotEquivalent, Unsupported
from minidyn.model.joint import Follow
from minidyn.model.robot import Robot
from minidyn.recording import ready
from minidyn.recording.ready import resting_poses


def held(
    robot: Robot, poses: int, seed: int, noise: float = 0.05, samples: int = 20, known: bool = False
) -> md.Recording:
    """Return a log of poses, each held for some samples."""
    rng = np.random.default_rng(seed)
    q = np.repeat(rng.uniform(-0.6, 0.6, (poses, robot.n)), samples, axis=0)
    still = np.zeros_like(q)
    free = robot.with_drives(friction=())
    tau = md.inverse_dynamics(free, q, still, still) + noise * rng.normal(size=q.shape)
    speeds = {"dq": still, "ddq": still} if known else {}
    noisy = q if known else q + 1e-5 * rng.normal(size=q.shape)
    return md.Recording(
        0.01 * np.arange(len(q)), noisy, tau, joint_names=robot.joint_names, **speeds
    )


@pytest.mark.parametrize("known", [False, True])
def test_poses_identify_gravity(known: bool) -> None:
    robot = md.load("puma560")
    found = md.identify(robot.with_parameters(None), held(robot, 60, 1, known=known))
    assert found.base.model == "gravity"
    assert found.base.rank == 10
    notice = next(n for n in found.notices if n.code == "identify.at_rest")
    assert (notice.data["poses"], notice.data["rank"]) == (60, 10)
    truth = found.base.values(
        robot.parameters[list(robot.layout.indices(found.base.robot.parameter_names))]
    )
    assert np.abs((found.beta - truth) / found.std).max() < 4.5
    q = np.random.default_rng(5).uniform(-1.0, 1.0, (20, robot.n))
    torque = md.base_regressor(found.robot, q, 0 * q, 0 * q, base=found.base) @ found.beta
    expected = md.gravity_torque(robot, q)
    assert np.linalg.norm(torque - expected) < 0.01 * np.linalg.norm(expected)
    # inertia is not known, and is not made up
    with pytest.raises(MinidynError):
        md.inverse_dynamics(found.robot, q, q, q)


def test_standard_deviations_of_poses_are_right() -> None:
    robot = md.load("puma560", rotor_inertia=False)
    scores = []
    for seed in range(count(12, 200)):
        found = md.identify(robot, held(robot, 80, seed, noise=0.2, samples=8))
        truth = found.base.values(robot.parameters)
        scores.append((found.beta - truth) / found.std)
    assert np.mean(np.abs(np.array(scores)) < 2.0) > 0.85
    assert 0.6 < np.std(scores) < 1.6


@pytest.mark.parametrize("method", ["exact", "qr", "svd", "mlc", "rules+qr"])
def test_every_method_of_base_parameters_serves(method: str) -> None:
    robot = md.load("puma560", rotor_inertia=False)
    base = md.base_parameters(robot, method, "gravity")
    found = md.identify(robot, held(robot, 60, 3, noise=1e-6), base=base)
    np.testing.assert_allclose(found.beta, base.values(robot.parameters), atol=1e-4)


@pytest.mark.long
def test_loops_mimic_joints_and_random_robots() -> None:
    robots = [looped_arm(seed, solved) for seed in range(count(2, 8)) for solved in (False, True)]
    robots += [special_robot(seed) for seed in range(count(10, 200))]
    tried = 0
    for number, robot in enumerate(robots):
        rng = np.random.default_rng(number)
        robot = robot.with_parameters(rng.normal(size=len(robot.layout))).with_drives(False, ())
        base = md.base_parameters(robot, model="gravity")
        if not base.rank:
            continue
        found = md.identify(robot, held(robot, 3 * base.rank + 10, number, noise=1e-7, known=True))
        assert found.base.rank == base.rank
        np.testing.assert_allclose(found.beta, found.base.values(robot.parameters), atol=1e-3)
        tried += 1
    assert tried > 8


def mimic_arm(seed: int, ratio: float) -> Robot:
    """Return an arm whose third joint follows the second; all axes across gravity."""
    rng = np.random.default_rng(seed)
    robot = Robot.from_mdh(
        "RRRR", [1.2, 0.4, 0.9, -1.1], [0.1, 0.3, 0.2, 0.1], [0.0, 0.2, 0.1, 0.3]
    )
    first, second, third, last = robot.joints
    third = replace(third, follows=Follow(((second.name, ratio),), 0.3))
    robot = replace(robot, joints=(first, second, third, last))
    return robot.with_parameters(rng.normal(size=len(robot.layout)))


def test_mimic_joints_take_part_in_gravity() -> None:
    """Against gravity torques of all four joints, moved by hand.

    A follower's torque acts on its leader.
    """
    for seed in range(count(3, 30)):
        ratio = (-1.0, 0.5, 2.0)[seed % 3]
        robot = mimic_arm(seed, ratio)
        assert robot.n == 3
        log = held(robot, 60, seed, noise=1e-6, known=True)
        found = md.identify(robot.with_parameters(None), log)
        assert found.base.model == "gravity"
        q = np.random.default_rng(seed + 1).uniform(-1.0, 1.0, (30, 3))
        free = replace(robot, joints=tuple(replace(joint, follows=None) for joint in robot.joints))
        every = md.gravity_torque(
            free, np.column_stack([q[:, 0], q[:, 1], ratio * q[:, 1] + 0.3, q[:, 2]])
        )
        expected = np.column_stack([every[:, 0], every[:, 1] + ratio * every[:, 2], every[:, 3]])
        torque = md.base_regressor(found.robot, q, 0 * q, 0 * q, base=found.base) @ found.beta
        np.testing.assert_allclose(torque, expected, atol=1e-4)


def test_poses_on_disk_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held poses are found in recordings on disk, also where a pose spans two tiles.

    Motions are given up early.
    """
    robot = md.load("puma560", rotor_inertia=False)
    log = held(robot, 60, 1)
    path = tmp_path / "poses.csv"
    log.save(path)
    there = md.identify(robot, md.read_recording(path, robot, lazy=True))
    here = md.identify(robot, md.read_recording(path, robot))
    assert "identify.at_rest" in [notice.code for notice in there.notices]
    np.testing.assert_allclose(there.beta, here.beta, rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(ready, "_TILE", 7)  # poses have 20 samples
    small = resting_poses(robot, md.read_recording(path, robot, lazy=True))
    assert small is not None
    assert len(small) == 60
    np.testing.assert_allclose(
        md.identify(robot, md.read_recording(path, robot)).beta, here.beta, rtol=1e-9
    )
    two = md.concatenate(
        [log, log]
    )  # the last pose of the first run and the first of the second are apart
    found = resting_poses(robot, two)
    assert found is not None
    assert len(found) == 120


def test_motion_is_no_pose() -> None:
    robot = md.load("two_link")
    t = np.linspace(0.0, 5.0, 2000)
    for speed in (0.02, 0.5, 5.0):
        q = np.sin(speed * t[:, None] * np.arange(1.0, robot.n + 1))
        assert resting_poses(robot, md.Recording(t, q, q, joint_names=robot.joint_names)) is None
    log = md.Recording(t, q, q, dq=q, ddq=q, joint_names=robot.joint_names)
    base = md.base_parameters(robot, model="gravity")
    with pytest.raises(NotEquivalent, match="gravity"):
        md.identify(robot, log, base=base)


def test_what_poses_cannot_do_is_said() -> None:
    robot = md.load("puma560")
    with pytest.raises(MinidynError, match="2 poses at rest are too few for 10"):
        md.identify(robot, held(robot, 2, 0))
    with pytest.raises(Unsupported, match="needs motion"):
        md.identify(robot, held(robot, 40, 0), "momentum")
    weightless = replace(robot, gravity=np.zeros(3))
    with pytest.raises(MinidynError, match="gravity loads no joint"):
        md.identify(weightless, held(weightless, 40, 0))


def test_estimates_of_gravity_are_saved_and_validated_on_poses(tmp_path: Path) -> None:
    robot = md.load("puma560")
    found = md.identify(robot, held(robot, 60, 1))
    found.save(tmp_path / "found.json")
    again = md.load_estimate(tmp_path / "found.json")
    assert again.base.model == "gravity"
    np.testing.assert_allclose(again.beta, found.beta)
    result = md.validate(again, held(robot, 30, 2))
    assert result.relative_error < 0.05


def test_a_first_position_that_is_not_a_number_is_no_pose() -> None:
    robot = md.load("two_link")
    q = np.full((40, 2), 0.3)
    q[0] = np.nan
    log = md.Recording(np.arange(40.0), q, np.ones((40, 2)), joint_names=robot.joint_names)
    assert resting_poses(robot, log) is None  # one pose alone
