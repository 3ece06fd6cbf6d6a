"""Studies over many robots, and robots of many joints.

Memory stays bounded, nobody waits for a compiler in vain.
"""

from __future__ import annotations

import copy
import gc
import pickle
import time

import numpy as np
import pytest

import minidyn as md
from minidyn.dynamics.kernel import LARGE, READY, function_of, run_function
from minidyn.errors import ShapeError, WrongArgument
from minidyn.graph.targets.native import kernel as native
from minidyn.graph.targets.native.kernel import compile_function, is_compiled


def arm(length: float, joints: int = 2) -> md.Robot:
    rng = np.random.default_rng(joints)
    table = {key: rng.normal(size=joints) for key in ("alpha", "d", "theta")}
    bodies = [{"mass": 1.0, "com": rng.normal(size=3), "inertia": np.eye(3)} for _ in range(joints)]
    return md.Robot.from_mdh("R" * joints, a=np.full(joints, length), parameters=bodies, **table)


def test_machine_code_of_many_robots_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.COMPILED, "most", 3)
    monkeypatch.setattr(READY, "most", 2)
    first = arm(0.1)
    kernel = md.compile(first, "gravity_torque")
    q = np.random.default_rng(0).normal(size=(300, 2))
    expected = kernel(q)
    robots = [arm(0.2 + 0.01 * k) for k in range(8)]
    for robot in robots:
        md.gravity_torque(robot, q)
        assert len(native.COMPILED) <= 3
        assert len(READY) <= 2
    assert not is_compiled(kernel.function)  # forgotten, but whoever holds it can use it
    gc.collect()
    assert np.array_equal(kernel(q), expected)
    assert np.array_equal(md.compile(first, "gravity_torque")(q), expected)
    for robot in robots:
        assert np.isfinite(md.gravity_torque(robot, q)).all()


def test_what_is_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.COMPILED, "most", 3)
    used = function_of(arm(0.1), "gravity_torque")
    held = compile_function(used)
    for k in range(9):
        compile_function(function_of(arm(0.4 + 0.01 * k), "gravity_torque"))
        assert compile_function(used) is held


def test_a_large_function_does_not_wait_for_a_compiler() -> None:
    robot = arm(0.2, joints=16)
    function = function_of(robot, "coriolis_matrix")
    assert len(function.tape) > LARGE
    q, dq = np.random.default_rng(0).normal(size=(2, 5, 60, 16))
    start = time.process_time()
    C = md.coriolis_matrix(robot, q, dq)
    out = np.empty_like(C)
    assert md.coriolis_matrix(robot, q, dq, out=out) is out
    assert time.process_time() - start < 2.0  # compiling takes longer
    assert not is_compiled(function)
    assert np.array_equal(out, C)
    assert np.array_equal(md.coriolis_matrix(robot, q[1, 2], dq[1, 2]), C[1, 2])
    with pytest.raises(ShapeError, match="out for C"):
        md.coriolis_matrix(robot, q, dq, out=out[0])
    torques = md.inverse_dynamics(robot, q, dq, 0 * q) - md.gravity_torque(robot, q)
    assert np.abs(np.einsum("...ij,...j", C, dq) - torques).max() < 1e-10 * np.abs(torques).max()


def test_a_large_function_is_compiled_when_it_pays() -> None:
    robot = arm(0.7, joints=2)
    function = function_of(robot, "inertia_matrix")
    q = np.random.default_rng(0).normal(size=(300, 2))
    first = run_function(function, (q,), None, steps=10, patience=400)
    assert not is_compiled(function)
    for _ in range(2):
        later = run_function(function, (q,), None, steps=10, patience=400)
    assert is_compiled(function)
    assert np.abs(later - first).max() < 1e-14


def test_kernels_are_copied_and_sent() -> None:
    robot = md.load("two_link")
    q = np.random.default_rng(0).normal(size=(4, 2))
    for threads in (1, 2):
        kernel = md.compile(robot, "inertia_matrix", threads=threads)
        for other in (copy.copy(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
            assert np.array_equal(other(q), kernel(q))
            assert (other.what, other.threads, other.robot) == (kernel.what, threads, robot)


def test_mistakes_in_requests_are_named() -> None:
    q = np.zeros(7)
    with pytest.raises(
        WrongArgument, match=r"expected a Robot, got 'panda'; md.load\('panda'\) loads one"
    ):
        md.inverse_dynamics("panda", q, q, q)  # type: ignore[arg-type]
    with pytest.raises(WrongArgument, match="expected a Robot, got None"):
        md.compile(None, "inertia_matrix")  # type: ignore[arg-type]
    robot = md.load("panda")
    with pytest.raises(
        WrongArgument, match="got a value of type ndarray; the robot comes before the arrays"
    ):
        md.gravity_torque(q, robot)  # type: ignore[arg-type]
    base = md.base_parameters(robot)
    with pytest.raises(WrongArgument, match="base_regressor: expected a Robot"):
        md.base_regressor("panda", q, q, q, base=base)  # type: ignore[arg-type]
    with pytest.raises(WrongArgument, match="split_regressor: expected a Robot"):
        md.split_regressor(q, robot, "m1")  # type: ignore[arg-type]
    with pytest.raises(md.MinidynError, match="takes no link"):
        md.compile(robot, "inertia_matrix", link="panda_link3")
    with pytest.raises(md.MinidynError, match="base is int"):
        md.compile(robot, "base_regressor", base=5)  # type: ignore[arg-type]
