"""Dynamics against MuJoCo on random trees.

Rotor inertia and damping included, other drive terms left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from mujoco_model import MujocoRobot

from conftest import count
from minidyn.dynamics.record import record
from minidyn.graph.function import evaluate
from minidyn.model.robot import Robot
from robot_cases import random_state, relative_error, robot_of_seed

SEEDS = range(5000, 5000 + count(16, 100))
PRECISE = 1e-12


@cache
def cases(seed: int) -> tuple[Robot, MujocoRobot, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    robot = robot_of_seed(seed)
    joints = [
        replace(
            joint,
            drive=replace(
                joint.drive,
                friction=("viscous",) * ("viscous" in joint.drive.friction),
                coupling=(),
            ),
        )
        for joint in robot.joints
    ]  # what MuJoCo has, too
    robot = robot.with_joints(dict(zip(robot.joints, joints)).__getitem__)
    q, dq, ddq = random_state(robot, np.random.default_rng(seed), 3)
    return robot, MujocoRobot(robot), list(zip(q, dq, ddq))


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamics(seed: int) -> None:
    robot, peer, states = cases(seed)
    functions = {
        what: record(robot, what) for what in ("inverse_dynamics", "inertia_matrix", "energy")
    }
    for q, dq, ddq in states:
        tau = evaluate(functions["inverse_dynamics"], q, dq, ddq)
        assert relative_error(tau, peer.inverse_dynamics(q, dq, ddq)) < PRECISE
        assert (
            relative_error(evaluate(functions["inertia_matrix"], q), peer.inertia_matrix(q))
            < PRECISE
        )
        assert relative_error(evaluate(functions["energy"], q, dq), peer.energy(q, dq)) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_dynamics(seed: int) -> None:
    robot, peer, states = cases(seed)
    function = record(robot, "forward_dynamics")
    for q, dq, tau in states:
        M = peer.inertia_matrix(q)
        ddq = evaluate(function, q, dq, tau)
        if robot.n == len(peer.moving):
            expected = peer.forward_dynamics(q, dq, tau)
        else:
            expected = np.linalg.solve(M, tau - peer.inverse_dynamics(q, dq, 0 * dq))
        assert relative_error(ddq, expected) < PRECISE * np.linalg.cond(M)


@pytest.mark.parametrize("seed", SEEDS)
def test_kinematics(seed: int) -> None:
    robot, peer, states = cases(seed)
    q = states[0][0]
    for link in {0, len(robot.joints) - 1}:
        T = evaluate(record(robot, "forward_kinematics", link=link), q)
        J = evaluate(record(robot, "jacobian", link=link), q)
        assert relative_error(T, peer.placement(q, link)) < PRECISE
        assert relative_error(J, peer.jacobian(q, link)) < PRECISE
