"""A quadruped walks on a floor in MuJoCo: its feet's forces identify it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from conftest import count
from free_base_cases import quadruped
from minidyn.model.robot import Robot

mujoco = pytest.importorskip("mujoco")
Array = NDArray[np.float64]

FORCE_NOISE, MOMENT_NOISE, TORQUE_NOISE = 1.0, 0.2, 0.1  # N, N m, N m
STANCE = np.tile([0.0, 0.7, -1.4], 4)


def simulated(robot: Robot, folder: Path, seed: int, seconds: float = 12.0) -> md.Recording:
    """Return a log without noise: the trunk is shaken on its legs, which push against the floor.

    Forces of contact, at the base and at the joints, are those of MuJoCo's solver.
    """
    md.save(robot, folder / "robot.xml")
    spec = mujoco.MjSpec.from_file(str(folder / "robot.xml"))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    for leg in ("fl", "fr", "hl", "hr"):
        shank = next(body for body in spec.bodies if body.name == f"{leg}_shank")
        shank.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.02, 0, 0], pos=[0, 0, -0.2], mass=0
        )
    model = spec.compile()
    model.opt.timestep, data = 1e-3, mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    rates = 2 * np.pi * rng.uniform(0.3, 2.0, size=(12, 3))
    phases, sizes = rng.uniform(0, 2 * np.pi, size=(12, 3)), rng.uniform(0.05, 0.25, size=(12, 3))
    data.qpos[:7] = 0, 0, 0.33, 1, 0, 0, 0
    data.qpos[7:] = STANCE
    rows: list[tuple[Array, ...]] = []
    for k in range(round(seconds / model.opt.timestep)):
        wanted = STANCE + (sizes * np.sin(rates * data.time + phases)).sum(axis=1)
        data.qfrc_applied[6:] = 80.0 * (wanted - data.qpos[7:]) - 2.0 * data.qvel[6:]
        mujoco.mj_step1(model, data)
        mujoco.mj_step2(model, data)
        if k % 5 == 4:
            mujoco.mj_forward(model, data)
            R = data.xmat[1].reshape(3, 3)
            v, a = data.qvel.copy(), data.qacc.copy()
            velocity, outside = R.T @ v[:3], data.qfrc_constraint.copy()
            acceleration = R.T @ a[:3] - np.cross(v[3:6], velocity)
            position = np.concatenate([data.qpos[:3], data.qpos[[4, 5, 6, 3]], data.qpos[7:]])
            torque = data.qfrc_applied[6:] + outside[6:]
            rows.append(
                (
                    np.array([data.time]),
                    position,
                    np.concatenate([R.T @ outside[:3], outside[3:6], torque]),
                    np.concatenate([velocity, v[3:]]),
                    np.concatenate([acceleration, a[3:]]),
                )
            )
    t, q, tau, dq, ddq = (np.array(part) for part in zip(*rows))
    return md.Recording(t[:, 0], q, tau, dq, ddq, robot.joint_names)


@pytest.mark.parametrize("base_alone", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_quadruped_on_its_feet(base_alone: bool, tmp_path: Path) -> None:
    robot = quadruped()
    log, test = (simulated(robot, tmp_path, seed) for seed in (1, 2))
    assert log.tau is not None
    assert test.tau is not None
    assert np.abs(md.inverse_dynamics(robot, log.q, log.dq, log.ddq) - log.tau).max() < 1e-8
    size = np.concatenate([[FORCE_NOISE] * 3, [MOMENT_NOISE] * 3, [TORQUE_NOISE] * 12])
    exact = md.base_parameters(robot)
    assert exact.rank == 94
    true, inside, total = exact.values(robot.parameters), 0, 0
    rough = robot.with_parameters(1.15 * robot.parameters)
    for seed in range(count(3, 12)):
        tau = log.tau + size * np.random.default_rng(seed).normal(size=log.tau.shape)
        if base_alone:
            tau[:, 6:] = np.nan
        noisy = md.Recording(log.t, log.q, tau, log.dq, log.ddq, log.joint_names)
        of_data = md.identify(
            rough, noisy, "wls", friction=(), rotor_inertia=False, consistent=False
        )
        inside += int(np.sum(np.abs(of_data.beta - true) < 1.96 * of_data.std))
        total += 94
        if seed:
            continue
        est = md.identify(rough, noisy, friction=(), rotor_inertia=False)
        assert est.certificate.consistent
        mass = sum(link.mass for link in est.robot.links)
        assert mass == pytest.approx(sum(link.mass for link in robot.links), rel=0.01)
        error = est.predict(test) - test.tau
        before = md.inverse_dynamics(rough, test.q, test.dq, test.ddq) - test.tau
        assert np.linalg.norm(error) < 0.02 * np.linalg.norm(test.tau)
        assert np.linalg.norm(error) < 0.2 * np.linalg.norm(before)
    assert 0.90 <= inside / total <= 0.97
