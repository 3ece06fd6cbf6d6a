"""Derivatives of the dynamics equal differences of 60 digits, on random trees with drives.

Joints of all kinds and directions, branches, followers, formulas, turned frames, any gravity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest
from random_robots import random_tree
from test_implicit_loops import parallelogram, slider_crank

import minidyn as md
from conftest import count
from minidyn.dynamics.derivatives import torque_slopes
from minidyn.dynamics.record import record
from minidyn.dynamics.tree import REAL, coordinates, place
from minidyn.errors import MinidynError, Unsupported
from minidyn.graph.derivative import jacobian
from minidyn.graph.function import Function, evaluate
from minidyn.model.robot import Robot
from robot_cases import formula_robot, random_state, relative_error, robot_of_seed

SEEDS = range(count(30, 300))
STEP = mpmath.mpf(10) ** -20
FUNCTIONS = {"inverse_dynamics": ("q", "dq", "ddq"), "forward_dynamics": ("q", "dq", "tau")}
ACTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "sqrt": mpmath.sqrt,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "atan2": mpmath.atan2,
    "sign": mpmath.sign,
}


def precisely(function: Function, arrays: Sequence[Sequence[object]]) -> list[mpmath.mpf]:
    """The results of a tape in numbers of 60 digits."""
    values: list[mpmath.mpf] = []
    for step in function.tape:
        if step.op == "const":
            values.append(mpmath.mpf(step.value))
        elif step.op == "input":
            argument, element = step.value
            values.append(mpmath.mpf(arrays[argument][element]))
        else:
            values.append(ACTIONS[step.op](*(values[k] for k in step.args)))
    return [values[k] for outputs in function.outputs for k in outputs]


def differences(function: Function, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The derivative of a tape's first result by each argument, by central differences."""
    found = []
    with mpmath.workdps(60):
        for place_, array in enumerate(arrays):
            columns = []
            for k in range(len(array)):
                ends = []
                for side in (1, -1):
                    moved = [list(map(mpmath.mpf, part)) for part in arrays]
                    moved[place_][k] += side * STEP
                    ends.append(precisely(function, moved))
                columns.append([float((a - b) / (2 * STEP)) for a, b in zip(*ends)])
            found.append(np.array(columns).T)
    return found


@cache
def robots() -> dict[str, Robot]:
    panda, arm = md.load("panda"), md.load("ur5e")
    friction = ["viscous", "coulomb", "offset", "stribeck", "load", "ripple"]
    drives = arm.with_drives(friction=friction, sign_width=0.05, rotor_inertia=True)
    values = np.where(np.isnan(drives.parameters), 0.2, drives.parameters)
    return {
        "panda": panda,
        "ur10e": md.load("ur10e"),
        "scara": md.load("scara"),
        "tree": random_tree(np.random.default_rng(3)),
        "formula": formula_robot(),
        "slider": slider_crank(False),
        "drives": drives.with_parameters(values),
    }


def check(robot: Robot, seed: int, tolerance: float = 1e-10) -> None:
    states = random_state(robot, np.random.default_rng(seed))
    for what in FUNCTIONS:
        found = evaluate(record(robot, f"{what}_derivatives"), *states)
        expected = differences(record(robot, what), states)
        for part, wanted in zip(found, expected):
            assert relative_error(part, wanted, scale=1e-2) < tolerance


@pytest.mark.parametrize("seed", SEEDS)
def test_random_trees(seed: int) -> None:
    check(robot_of_seed(seed), seed)


@pytest.mark.parametrize("name", ["tree", "formula", "slider", "drives"])
def test_kinds_of_robots(name: str) -> None:
    check(robots()[name], 5)


@pytest.mark.parametrize("seed", range(500, 500 + count(60, 600)))
def test_every_derivative_of_the_recorded_program(seed: int) -> None:
    """Forward mode over the recursion is another way to the same numbers."""
    robot = robot_of_seed(seed)
    states = random_state(robot, np.random.default_rng(seed), 4)
    for what, names in FUNCTIONS.items():
        found = evaluate(record(robot, f"{what}_derivatives"), *states)
        for part, name in zip(found, names):
            wanted = evaluate(jacobian(record(robot, what), name), *states)
            assert relative_error(part, wanted, scale=1e-2) < 1e-10


def test_frames_with_levers() -> None:
    """Formulas keep the frames of the file: the recursion is right there, too."""
    robot = robot_of_seed(11)
    robot = replace(robot, gravity=np.array([1.0, -2.0, 3.0]))
    q, dq, ddq = random_state(robot, np.random.default_rng(0))
    c = coordinates(robot, q.tolist(), dq.tolist(), ddq.tolist())
    ten = [robot.parameters[part].tolist() for part in robot.layout.links]
    slopes = torque_slopes(place(robot, c.q, REAL), c.dq, c.ddq, ten)

    def torques(k: int, kind: int, side: float) -> np.ndarray:
        rates = [np.array(c.q), np.array(c.dq), np.array(c.ddq)]
        rates[kind][k] += side * 1e-6
        lists = [part.tolist() for part in rates]
        return np.array(torque_slopes(place(robot, lists[0], REAL), *lists[1:], ten).tau)

    for kind, matrix in enumerate((slopes.by_q, slopes.by_dq, slopes.by_ddq)):
        for k, joint in enumerate(robot.joints):
            if joint.kind != "fixed":
                slope = (torques(k, kind, 1.0) - torques(k, kind, -1.0)) / 2e-6
                np.testing.assert_allclose([row[k] for row in matrix], slope, atol=2e-7)


@pytest.mark.parametrize(
    ("name", "inverse", "forward"), [("panda", 2910, 4940), ("ur10e", 1640, 2815)]
)
def test_operations(name: str, inverse: int, forward: int) -> None:
    for what, most in (("inverse_dynamics", inverse), ("forward_dynamics", forward)):
        counts = md.compile(md.load(name), f"{what}_derivatives").counts
        assert counts["mul"] + counts["add"] <= most


def test_public_functions() -> None:
    robot = robots()["panda"]
    q, dq, ddq = random_state(robot, np.random.default_rng(1), 6)
    by_q, by_dq, M = md.inverse_dynamics_derivatives(robot, q, dq, ddq)
    np.testing.assert_allclose(M, md.inertia_matrix(robot, q), atol=1e-13)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    slopes = md.forward_dynamics_derivatives(robot, q, dq, tau)
    for part, wanted in zip(slopes, (-by_q, -by_dq, np.broadcast_to(np.eye(7), M.shape))):
        np.testing.assert_allclose(M @ part, wanted, atol=1e-9)
    out = tuple(np.empty_like(M) for _ in range(3))
    given = md.forward_dynamics_derivatives(robot, q, dq, tau, out=out)
    assert all(a is b for a, b in zip(given, out))
    for a, b in zip(out, slopes):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)  # machine code, then NumPy
    A, B = md.linearize(robot, q, dq, tau)
    assert A.shape == (6, 14, 14)
    np.testing.assert_array_equal(A[:, :7, 7:], np.broadcast_to(np.eye(7), (6, 7, 7)))
    assert not A[:, :7, :7].any()
    assert not B[:, :7].any()
    for part, wanted in zip((A[:, 7:, :7], A[:, 7:, 7:], B[:, 7:]), slopes):
        np.testing.assert_allclose(part, wanted, rtol=1e-9, atol=1e-9)
    single = md.linearize(robot, q[0], dq[0], tau[0])
    np.testing.assert_allclose(single[0], A[0], rtol=1e-9, atol=1e-9)
    other = 1.1 * robot.parameters
    scaled = md.inverse_dynamics_derivatives(robot, q, dq, ddq, other)
    np.testing.assert_allclose(scaled[2], 1.1 * M, rtol=1e-12)


def test_dry_friction() -> None:
    """Friction that reverses at once has no slope; smoothed it has that of its smooth shape."""
    robot = md.load("two_link").with_drives(friction=["viscous", "coulomb"])
    values = np.where(np.isnan(robot.parameters), 0.0, robot.parameters)
    values[[robot.layout.index(name) for name in ("Fv1", "Fc1")]] = 0.3, 2.0
    hard = robot.with_parameters(values)
    rigid = hard.with_drives(friction=["viscous"])
    state = [0.3, -0.4], [0.2, 0.0], [1.0, 2.0]
    for part, wanted in zip(
        md.inverse_dynamics_derivatives(hard, *state),
        md.inverse_dynamics_derivatives(rigid, *state),
    ):
        np.testing.assert_allclose(part, wanted, atol=1e-14)
    soft = hard.with_drives(friction=["viscous", "coulomb"], sign_width=0.1)
    _, by_dq, _ = md.inverse_dynamics_derivatives(soft, *state)
    _, before, _ = md.inverse_dynamics_derivatives(rigid, *state)
    slope = 2.0 * 0.1**2 / (0.2**2 + 0.1**2) ** 1.5
    assert by_dq[0, 0] - before[0, 0] == pytest.approx(slope, rel=1e-12)


def test_what_drives_remember_is_held_still() -> None:
    robot = md.load("two_link").with_drives(friction=["viscous", "presliding"])
    values = np.where(np.isnan(robot.parameters), 0.4, robot.parameters)
    robot = robot.with_parameters(values)
    q, dq, ddq = random_state(robot, np.random.default_rng(1), 3)
    memory = np.array([[0.2, -0.5]] * 3)
    by_q, _, _ = md.inverse_dynamics_derivatives(robot, q, dq, ddq, memory=memory)
    step = 1e-6 * np.array([1.0, 0.0])
    ends = [md.inverse_dynamics(robot, q + side * step, dq, ddq, memory=memory) for side in (1, -1)]
    np.testing.assert_allclose(by_q[..., 0], (ends[0] - ends[1]) / 2e-6, atol=1e-6)


def test_loops_that_are_solved_are_refused() -> None:
    robot = parallelogram(True)
    still = np.zeros(robot.n)
    with pytest.raises(Unsupported, match="solved numerically"):
        md.inverse_dynamics_derivatives(robot, still, still, still)


def test_free_bases_are_refused() -> None:
    robot = md.load("two_arm").with_free_base()
    still = np.zeros(robot.n)
    with pytest.raises(MinidynError, match="free base"):
        md.linearize(robot, np.eye(robot.nq)[6], still, still)
