"""Every function against Pinocchio on random trees.

Joints of all kinds, drives, followers, loads, any gravity.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.dynamics.record import record
from minidyn.graph.function import evaluate
from minidyn.model.robot import Robot
from robot_cases import random_state, relative_error, robot_of_seed

pytest.importorskip("pinocchio")

from pinocchio_model import PinocchioRobot

SEEDS = range(count(40, 400))
COMPILED = range(1000, 1000 + count(4, 40))
PRECISE = 1e-12


@cache
def cases(
    seed: int,
) -> tuple[Robot, PinocchioRobot, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    robot = robot_of_seed(seed)
    q, dq, ddq = random_state(robot, np.random.default_rng(seed), 3)
    return robot, PinocchioRobot(robot), list(zip(q, dq, ddq))


def compute(robot: Robot, what: str, *arrays: np.ndarray, link: int | None = None) -> np.ndarray:
    return evaluate(record(robot, what, link=link), *arrays)


@pytest.mark.parametrize("seed", SEEDS)
def test_inverse_dynamics(seed: int) -> None:
    robot, peer, states = cases(seed)
    for q, dq, ddq in states:
        tau = compute(robot, "inverse_dynamics", q, dq, ddq)
        assert relative_error(tau, peer.inverse_dynamics(q, dq, ddq)) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_gravity_torque_and_inertia_matrix(seed: int) -> None:
    robot, peer, states = cases(seed)
    weight = sum(link.mass for link in robot.links) * float(np.linalg.norm(robot.gravity))
    for q, _, _ in states:
        tau = compute(
            robot, "gravity_torque", q
        )  # may cancel to little: rounding is that of the weights at 0.1 m
        assert relative_error(tau, peer.gravity_torque(q), scale=max(0.1 * weight, 1e-3)) < PRECISE
        assert relative_error(compute(robot, "inertia_matrix", q), peer.inertia_matrix(q)) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_coriolis_matrix(seed: int) -> None:
    robot, peer, states = cases(seed)
    function = record(robot, "coriolis_matrix")
    for q, dq, _ in states:
        C = evaluate(function, q, dq)
        size = float(
            np.abs(peer.inertia_matrix(q)).max()
        )  # C vanishes for sliding joints, rounding does not
        assert relative_error(C, peer.coriolis_matrix(q, dq), scale=size) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_dynamics(seed: int) -> None:
    robot, peer, states = cases(seed)
    for q, dq, tau in states:
        ddq = compute(robot, "forward_dynamics", q, dq, tau)
        tolerance = PRECISE * np.linalg.cond(peer.inertia_matrix(q))
        assert relative_error(ddq, peer.forward_dynamics(q, dq, tau)) < tolerance
        if robot.n == len(peer.moving) and not peer.coupled.any():
            assert relative_error(ddq, peer.articulated_body(q, dq, tau)) < tolerance


@pytest.mark.parametrize("seed", SEEDS)
def test_derivatives(seed: int) -> None:
    robot, peer, states = cases(seed)
    for q, dq, ddq in states:
        found = compute(robot, "inverse_dynamics_derivatives", q, dq, ddq)
        expected = peer.inverse_dynamics_derivatives(q, dq, ddq)
        for part, wanted in zip(found, expected):
            assert relative_error(part, wanted, scale=1e-2) < 1e-10
        if peer.coupled.any() or robot.n < sum(joint.kind != "fixed" for joint in robot.joints):
            continue
        tau = peer.inverse_dynamics(q, dq, ddq)
        found = compute(robot, "forward_dynamics_derivatives", q, dq, tau)
        expected = peer.forward_dynamics_derivatives(q, dq, tau)
        for part, wanted in zip(found, expected):
            assert relative_error(part, wanted, scale=1e-2) < 1e-10


@pytest.mark.parametrize("seed", SEEDS)
def test_energy(seed: int) -> None:
    robot, peer, states = cases(seed)
    for q, dq, _ in states:
        assert relative_error(compute(robot, "energy", q, dq), peer.energy(q, dq)) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_regressor(seed: int) -> None:
    robot, peer, states = cases(seed)
    function = record(robot, "regressor")
    for q, dq, ddq in states:
        Y = evaluate(function, q, dq, ddq)
        ours = np.stack([Y[:, part] for part in robot.layout.links])
        assert relative_error(ours, peer.regressor(q, dq, ddq)) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_kinematics(seed: int) -> None:
    robot, peer, states = cases(seed)
    q = states[0][0]
    for link in {0, len(robot.joints) // 2, len(robot.joints) - 1}:
        assert (
            relative_error(
                compute(robot, "forward_kinematics", q, link=link), peer.placement(q, link)
            )
            < PRECISE
        )
        assert (
            relative_error(compute(robot, "jacobian", q, link=link), peer.jacobian(q, link))
            < PRECISE
        )


@pytest.mark.parametrize("seed", COMPILED)
def test_machine_code_through_the_public_functions(seed: int) -> None:
    robot, peer, _ = cases(seed)
    q, dq, ddq = random_state(robot, np.random.default_rng(seed), 300)
    pairs = [
        (
            md.inverse_dynamics(robot, q, dq, ddq),
            [peer.inverse_dynamics(*state) for state in zip(q, dq, ddq)],
        ),
        (md.gravity_torque(robot, q), [peer.gravity_torque(one) for one in q]),
        (md.inertia_matrix(robot, q), [peer.inertia_matrix(one) for one in q]),
        (md.energy(robot, q, dq)[0], [peer.energy(*state)[0] for state in zip(q, dq)]),
        (md.energy(robot, q, dq)[1], [peer.energy(*state)[1] for state in zip(q, dq)]),
        (md.jacobian(robot, q), [peer.jacobian(one, len(robot.joints) - 1) for one in q]),
    ]
    for ours, theirs in pairs:
        assert relative_error(ours, np.array(theirs)) < PRECISE


@pytest.mark.parametrize("seed", range(2000, 2000 + count(3, 80)))
def test_generated_code_of_the_minimal_model(seed: int) -> None:
    robot, peer, states = cases(seed)
    base = md.base_parameters(robot)
    wanted = {
        "inertia_matrix": lambda q, dq, ddq: (peer.inertia_matrix(q), (q,)),
        "inverse_dynamics": lambda q, dq, ddq: (peer.inverse_dynamics(q, dq, ddq), (q, dq, ddq)),
    }
    for what, expect in wanted.items():
        scope: dict[str, Any] = {}
        exec(md.compile(robot, what, base=base, parameters="argument").source("python"), scope)  # noqa: S102 (our text)
        for state in states:
            expected, arrays = expect(*state)
            assert relative_error(scope[what](*arrays, base.values()), expected) < 1e-9
