"""Laws that any robot's dynamics obeys, on random robots.

Exact derivatives come from the recorded functions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from conftest import count
from minidyn.dynamics.record import record
from minidyn.graph.derivative import jacobian, jvp
from minidyn.graph.function import Function, evaluate
from minidyn.model.geometry import Step, Steps, inverse_steps, matrix_of
from minidyn.model.parameters import transform
from minidyn.model.robot import Robot
from robot_cases import (
    formula_robot,
    random_body,
    random_placement,
    random_state,
    relative_error,
    robot_of_seed,
)

SEEDS = range(2000, 2000 + count(30, 300))
PRECISE = 1e-12


@cache
def robot_at(seed: int) -> Robot:
    return formula_robot() if seed == SEEDS[0] else robot_of_seed(seed)


@cache
def frictionless(seed: int) -> Robot:
    return robot_at(seed).with_drives(friction=())


def states(robot: Robot, seed: int) -> tuple[np.ndarray, ...]:
    return random_state(robot, np.random.default_rng(seed), 5)


def product(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", matrix, vector)


@cache
def recorded(robot: Robot, what: str) -> Function:
    return record(robot, what)


def compute(robot: Robot, what: str, *arrays: np.ndarray) -> np.ndarray:
    return evaluate(recorded(robot, what), *arrays)


# ---------------------------------------------------------------- linear in the parameters


@pytest.mark.parametrize("seed", SEEDS)
def test_regressor_times_parameters_is_inverse_dynamics_with_drives(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, ddq = states(robot, seed)
    Y = compute(robot, "regressor", q, dq, ddq)
    assert Y.shape == (5, robot.n, len(robot.layout))
    tau = compute(robot, "inverse_dynamics", q, dq, ddq)
    assert relative_error(Y @ robot.parameters, tau) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_regressor_times_parameters_is_energy(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, _ = states(robot, seed)
    kinetic, potential = compute(robot, "energy", q, dq)
    h = compute(robot, "energy_regressor", q, dq)
    assert relative_error(h @ robot.parameters, kinetic + potential) < PRECISE
    friction = [column.index for column in robot.layout.columns if column.is_friction]
    assert not h[:, friction].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_parameters_at_call_time_equal_those_baked_in(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, ddq = states(robot, seed)
    other = np.random.default_rng(seed).normal(size=len(robot.layout))
    for what, arrays in (
        ("inverse_dynamics", (q, dq, ddq)),
        ("inertia_matrix", (q,)),
        ("gravity_torque", (q,)),
    ):
        at_call = evaluate(record(robot, what, parameters="argument"), *arrays, other)
        assert (
            relative_error(at_call, compute(robot.with_parameters(other), what, *arrays)) < PRECISE
        )


# ---------------------------------------------------------------- mechanics


@pytest.mark.parametrize("seed", SEEDS)
def test_torque_is_inertia_coriolis_gravity_and_friction(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, ddq = states(robot, seed)
    M, C = compute(robot, "inertia_matrix", q), compute(robot, "coriolis_matrix", q, dq)
    no_friction = compute(frictionless(seed), "inverse_dynamics", q, dq, ddq)
    parts = product(M, ddq) + product(C, dq) + compute(robot, "gravity_torque", q)
    assert relative_error(parts, no_friction) < PRECISE
    friction = [column.index for column in robot.layout.columns if column.is_friction]
    Y = compute(robot, "regressor", q, dq, ddq)
    tau = compute(robot, "inverse_dynamics", q, dq, ddq)
    assert (
        relative_error(no_friction + Y[..., friction] @ robot.parameters[friction], tau) < PRECISE
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_inertia_matrix_is_the_hessian_of_kinetic_energy(seed: int) -> None:
    robot = robot_at(seed)
    q = states(robot, seed)[0][0]
    unit = np.eye(robot.n)
    pairs = (
        unit[:, None] + unit[None]
    )  # T is quadratic in dq: its Hessian by polarisation, without differences
    both, each = (compute(robot, "energy", q, dq)[0] for dq in (pairs, unit))
    M = compute(robot, "inertia_matrix", q)
    assert relative_error(both - each[:, None] - each[None], M) < PRECISE
    assert np.array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] > -1e-12 * np.abs(M).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_rate_of_inertia_minus_twice_coriolis_is_skew(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, _ = states(robot, seed)
    rate = evaluate(jvp(recorded(robot, "inertia_matrix"), ["q"]), q, dq)
    C = compute(robot, "coriolis_matrix", q, dq)
    size = np.abs(compute(robot, "inertia_matrix", q)).max()
    assert relative_error(rate, C + np.swapaxes(C, -1, -2), scale=size) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_gravity_torque_is_the_gradient_of_potential_energy(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, _ = states(robot, seed)
    _, gradient = evaluate(jacobian(recorded(robot, "energy"), "q"), q, dq)
    weight = sum(link.mass for link in robot.links) * float(np.linalg.norm(robot.gravity))
    assert (
        relative_error(compute(robot, "gravity_torque", q), gradient, scale=max(weight, 1e-3))
        < PRECISE
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_grows_by_the_power_of_the_torques(seed: int) -> None:
    robot = frictionless(seed)
    q, dq, ddq = states(robot, seed)
    kinetic, potential = evaluate(jvp(recorded(robot, "energy"), ["q", "dq"]), q, dq, dq, ddq)
    tau = compute(robot, "inverse_dynamics", q, dq, ddq)
    power = (tau * dq).sum(axis=-1)
    size = float(np.abs(tau * dq).max() + np.abs(potential).max())
    assert relative_error(kinetic + potential, power, scale=size) < PRECISE


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_after_inverse_is_the_identity(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, ddq = states(robot, seed)
    tau = compute(robot, "inverse_dynamics", q, dq, ddq)
    worst = np.linalg.cond(compute(robot, "inertia_matrix", q)).max()
    assert relative_error(compute(robot, "forward_dynamics", q, dq, tau), ddq) < PRECISE * max(
        worst, 1.0
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_jacobian_is_the_derivative_of_kinematics(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, _ = states(robot, seed)
    T = compute(robot, "forward_kinematics", q)
    rate = evaluate(jvp(recorded(robot, "forward_kinematics"), ["q"]), q, dq)
    twist = product(compute(robot, "jacobian", q), dq)
    spin = rate[..., :3, :3] @ np.swapaxes(T[..., :3, :3], -1, -2)
    angular = np.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)
    assert relative_error(twist, np.concatenate([angular, rate[..., :3, 3]], axis=-1)) < PRECISE


# ---------------------------------------------------------------- invariance


def reframed(robot: Robot, link: int, move: Steps) -> Robot:
    """Return the same mechanism with one link's frame moved by constant steps."""
    back = inverse_steps(move)
    joints = []
    for index, joint in enumerate(robot.joints):
        if index == link:
            joint = replace(joint, after=(*joint.after, *move))
        elif joint.parent == link:
            joint = replace(joint, before=(*back, *joint.before))
        joints.append(joint)
    values = robot.parameters.copy()
    part = robot.layout.links[link]
    values[part] = transform(values[part], matrix_of(back))
    return replace(robot, joints=tuple(joints), parameters=values)


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamics_does_not_depend_on_where_link_frames_are(seed: int) -> None:
    robot = robot_at(seed)
    rng = np.random.default_rng(seed)
    other = robot
    for link in range(len(robot.joints)):
        other = reframed(other, link, random_placement(rng))
    q, dq, ddq = states(robot, seed)
    for what, arrays in (
        ("inverse_dynamics", (q, dq, ddq)),
        ("inertia_matrix", (q,)),
        ("coriolis_matrix", (q, dq)),
        ("energy", (q, dq)),
    ):
        expected = compute(robot, what, *arrays)
        size = 1.0 + float(np.abs(compute(robot, "inertia_matrix", q)).max())
        assert relative_error(record_and_run(other, what, *arrays), expected, scale=size) < PRECISE


def record_and_run(robot: Robot, what: str, *arrays: np.ndarray) -> np.ndarray:
    return evaluate(record(robot, what), *arrays)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_load_is_ten_columns_and_equals_its_body_merged_into_the_link(seed: int) -> None:
    robot = robot_at(seed)
    rng = np.random.default_rng(seed)
    link = int(rng.integers(len(robot.links)))
    placement, body = matrix_of(random_placement(rng)), random_body(rng)
    loaded = robot.with_load(placement, body, link=robot.link_names[link], name="tool")
    assert len(loaded.layout) == len(robot.layout) + 10
    assert loaded.n == robot.n
    merged = robot.parameters.copy()
    merged[robot.layout.links[link]] += transform(body, placement)
    q, dq, ddq = states(robot, seed)
    expected = record_and_run(robot.with_parameters(merged), "inverse_dynamics", q, dq, ddq)
    assert (
        relative_error(record_and_run(loaded, "inverse_dynamics", q, dq, ddq), expected) < PRECISE
    )
    Y = record_and_run(loaded, "regressor", q, dq, ddq)
    assert relative_error(Y @ loaded.parameters, expected) < PRECISE
    assert (
        relative_error(Y[..., : len(robot.layout)], compute(robot, "regressor", q, dq, ddq))
        < PRECISE
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_gravity_turns_with_the_base(seed: int) -> None:
    robot = robot_at(seed)
    turn = (Step("rx", 0.4), Step("rz", -1.1))
    tilted = replace(robot, base=(*turn, Step("ty", 0.7), *robot.base))
    level = replace(robot, gravity=matrix_of(turn)[:3, :3].T @ robot.gravity)
    q, dq, ddq = states(robot, seed)
    expected = record_and_run(level, "inverse_dynamics", q, dq, ddq)
    assert (
        relative_error(record_and_run(tilted, "inverse_dynamics", q, dq, ddq), expected) < PRECISE
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_parameter_without_a_column_may_be_unknown(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, ddq = random_state(robot, np.random.default_rng(seed), 20)
    Y = compute(robot, "regressor", q, dq, ddq)
    idle = np.abs(Y).max(axis=(0, 1)) == 0.0
    unknown = robot.with_parameters(np.where(idle, np.nan, robot.parameters))
    for what, arrays in (
        ("inverse_dynamics", (q, dq, ddq)),
        ("inertia_matrix", (q,)),
        ("forward_dynamics", (q, dq, ddq)),
    ):
        assert np.isfinite(record_and_run(unknown, what, *arrays)).all()
