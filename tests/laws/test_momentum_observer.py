"""The momentum observer.

Momentum against Newton-Euler, exact steps, thresholds that hold, pushes that are found.
"""

from __future__ import annotations

import ctypes
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_robots import looped_robot

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import OWN, count
from minidyn.control.momentum_observer import momentum_parts
from minidyn.control.watch import passage_level
from minidyn.errors import ShapeError, Unsupported
from minidyn.graph.function import evaluate
from minidyn.graph.scalar import Graph
from robot_cases import formula_robot, random_state, robot_of_seed


def parts(robot: Any, q: Any, dq: Any) -> Any:
    """Momentum, rest of the torque and friction by the recorded program, run step by step."""
    graph = Graph()
    inputs = [list(graph.inputs(name, robot.n)) for name in ("q", "dq")]
    p, rest, friction = momentum_parts(robot, *inputs)
    return evaluate(graph.function("parts", {"p": p, "rest": rest, "friction": friction}), q, dq)


@pytest.mark.parametrize("seed", range(count(12, 400)))
def test_momentum_is_that_of_newton_and_euler(seed: int) -> None:
    """Momentum is M dq, and tau = dp/dt + rest with dM/dt = C + Cᵀ.

    Followers, drives, slides and turns.
    """
    robot = robot_of_seed(seed) if seed else formula_robot()
    rng = np.random.default_rng(seed)
    if np.isnan(robot.parameters).any():
        robot = robot.with_parameters(rng.uniform(0.1, 1.0, len(robot.parameters)))
    q, dq, _ = random_state(robot, rng, 5)
    p, rest, _ = parts(robot, q, dq)
    M, C = md.inertia_matrix(robot, q), md.coriolis_matrix(robot, q, dq)
    scale = np.abs(md.inverse_dynamics(robot, q, dq, 0 * dq)).max() + np.abs(M).max()
    assert np.abs(p - (M @ dq[..., None])[..., 0]).max() < 1e-11 * scale
    expected = (
        md.inverse_dynamics(robot, q, dq, 0 * dq)
        - ((C + np.swapaxes(C, -1, -2)) @ dq[..., None])[..., 0]
    )
    assert np.abs(rest - expected).max() < 1e-10 * scale


def test_friction_is_what_opposes_motion_loads_included() -> None:
    terms = ("viscous", "coulomb", "load", "spring")
    robot = md.load("puma560").with_drives(True, terms)
    rng = np.random.default_rng(0)
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters) + 0.1)
    q, dq, _ = random_state(robot, rng, 6)
    without = np.array(
        [
            0.0 if c.symbol in ("Fv", "Fc", "Fl") else v
            for c, v in zip(robot.layout.columns, robot.parameters)
        ]
    )
    opposing = md.inverse_dynamics(robot, q, dq, 0 * dq) - md.inverse_dynamics(
        robot, q, dq, 0 * dq, without
    )
    assert np.abs(opposing).max() > 0.1
    np.testing.assert_allclose(parts(robot, q, dq)[2], opposing, atol=1e-12)


@pytest.mark.parametrize("gain", [5.0, 40.0, 3000.0])
def test_a_held_external_torque_is_followed_exactly(gain: float) -> None:
    """The residual is external (1 - exp(-K t)) at any gain, but for the trapezoid over the rest of
    the torque.
    """
    robot = md.load("two_link")
    force = np.array([3.0, -2.0, 0.0])
    law = md.control.computed_torque(robot, bandwidth=10)
    motion = md.trajectory.fourier(robot, seed=2, speed=1.0)
    log = md.simulate(robot, law, motion, 0.3, dt=1e-4, push=md.Push(0.0, 1.0, force))
    fine = log.thinned(10)  # the controller holds its torque for a millisecond
    observer = md.control.momentum_observer(robot, gain=gain, standstill=1e-9)
    watched = observer.watch(fine)
    external = force @ md.jacobian(robot, log.q)[:, 3:, :]
    expected, r, share = [np.zeros(2)], np.zeros(2), -np.expm1(-gain * 1e-4)
    for held in external[1:]:
        r = r + share * (held - r)
        expected.append(r)
    assert np.abs(external).max() > 1.0
    assert np.abs(watched.torque - np.array(expected)[::10]).max() < 2e-3 * np.abs(external).max()


def test_steps_are_what_watch_computes_and_what_c_computes(tmp_path: Path) -> None:
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.5, robot.parameters))
    rng = np.random.default_rng(1)
    t = np.arange(60) * 2e-3
    q, dq, tau = rng.normal(size=(3, 60, 2))
    log = md.Recording(t, q, tau, dq, joint_names=robot.joint_names, starts=(0, 30))
    for held in (True, False):
        observer = md.control.momentum_observer(
            robot,
            gain=[30, 60],
            period=2e-3,
            threshold=0.5,
            held=held,
            bounds={"speed": 1e4},
        )
        watched = observer.watch(log)
        source = observer.source("c")
        for begin, end in pairwise((0, 30, 60)):
            state = observer.begin(q[begin], dq[begin], tau[begin])
            assert not watched.torque[begin].any()
            np.testing.assert_allclose(
                watched.threshold[begin], observer.threshold(q[begin], dq[begin]), rtol=1e-12
            )
            for k in range(begin + 1, end):
                before = state
                state, torque, threshold, status = observer(state, q[k], dq[k], tau[k])
                assert status == 0
                np.testing.assert_allclose(watched.torque[k], torque, rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(watched.threshold[k], threshold, rtol=1e-12)
    _compare_with_c(source, tmp_path, (before, q[-1], dq[-1], tau[-1]), (torque, threshold, state))


@needs_gcc
def _compare_with_c(source: str, folder: Path, given: Any, expected: Any) -> None:
    (folder / "step.c").write_text(source)
    library = folder / "step.so"
    subprocess.run(
        ["gcc", *STRICT, "-shared", "-fPIC", str(folder / "step.c"), "-o", str(library), "-lm"],
        check=True,
    )
    found = [np.zeros_like(value) for value in expected]
    place = ctypes.c_void_p
    before, after = (
        [a.ctypes.data_as(place) for a in arrays]
        for arrays in ([np.ascontiguousarray(value) for value in given], found)
    )
    step = ctypes.CDLL(str(library)).two_link_observer_step
    assert step(*before, ctypes.c_double(2e-3), *after) == 0
    for value, wanted in zip(found, expected):
        np.testing.assert_allclose(value, wanted, rtol=1e-12)


def test_noise_passes_its_level_about_as_often_as_stated() -> None:
    """A lag of white noise, sampled finely.

    The rate of first passage of ±z is 2 K z φ(z) a second.
    """
    K, period, rng = 30.0, 1e-3, np.random.default_rng(0)
    rate = 4000.0  # an hour; rare enough for the formula, often enough to be counted
    level = float(passage_level(1, np.array([K]), rate)[0])
    seconds = count(900, 9000)
    from scipy.signal import lfilter

    share = -np.expm1(-K * period)
    noise = lfilter([share], [1.0, share - 1.0], rng.normal(size=int(seconds / period)))
    over = np.abs(noise / np.sqrt(share / (2.0 - share))) > level
    times = np.flatnonzero(over) * period
    passages = 1 + np.count_nonzero(np.diff(times) > 3.0 / K)
    assert 0.4 * rate < 3600.0 * passages / seconds < 1.2 * rate
    assert passage_level(7, np.full(7, K), 1.0)[0] > passage_level(7, np.full(7, K), 10.0)[0] > 4.5


@pytest.fixture(scope="module")
def arm() -> Any:
    """A small arm with friction, its estimate from a noisy log, and the arm with 10 % more
    friction.
    """
    robot = md.load("scara").with_drives(friction=("viscous", "coulomb"))
    friction = {"Fv": 0.4, "Fc": 0.6}
    values = [friction.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)]
    robot = robot.with_parameters(np.where(np.isnan(values), 0.2, values))
    warm = robot.with_parameters(
        [
            v * (1.1 if c.symbol in friction else 1.0)
            for c, v in zip(robot.layout.columns, robot.parameters)
        ]
    )
    t = np.arange(4000) * 2.5e-3
    motion = md.trajectory.fourier(robot, seed=1)(t)
    noise = np.random.default_rng(0).normal(scale=0.2, size=motion[0].shape)
    log = md.Recording(
        t, motion[0], md.inverse_dynamics(robot, *motion) + noise, *motion[1:], robot.joint_names
    )
    return warm, md.identify(robot.with_parameters(None), log, prior=False, consistent=False, **OWN)


def run_of(robot: Any, push: Any = None, seed: int = 3, seconds: float = 4.0) -> Any:
    law = md.control.computed_torque(robot, bandwidth=10)
    return md.simulate(
        robot,
        law,
        md.trajectory.fourier(robot, seed=seed),
        seconds,
        torque_noise=0.2,
        push=push,
        seed=seed,
    )


def test_a_push_is_found_within_50_ms_and_nothing_else_is(arm: Any) -> None:
    warm, estimate = arm
    observer = md.control.momentum_observer(estimate)
    assert not observer.watch(run_of(warm)).events
    force = np.array([9.0, 12.0, 0.0])
    found = observer.watch(run_of(warm, md.Push(2.0, 0.3, force)))
    first, *others = found.events
    assert 2.0 < first.start < 2.05
    assert 2.3 <= first.end < 2.6
    assert all(event.start < 2.6 for event in others)  # the residual falls behind the push
    seen = found.force(first)
    assert np.linalg.norm(seen[:2] - force[:2]) < 0.25 * np.linalg.norm(force)
    assert found.to_json()["events"][0]["joints"][0] in warm.joint_names
    assert found.seconds == pytest.approx(4.0)


def test_the_least_force_is_where_a_joint_passes_its_threshold(arm: Any) -> None:
    _, estimate = arm
    observer = md.control.momentum_observer(estimate)
    rng = np.random.default_rng(0)
    q, dq = rng.uniform(-1, 1, (2, 8, estimate.robot.n))
    least = observer.least_force(q, dq)
    J = md.jacobian(estimate.robot, q)[:, 3:, :]
    for way, unit in enumerate(np.eye(3)):
        felt = np.isfinite(least[:, way])
        for share, passes in ((1.01, True), (0.99, False)):
            torque = share * least[felt, way, None] * (unit @ J)[felt]
            found = (np.abs(torque) / observer.threshold(q, dq)[felt]).max(axis=1) > 1.0
            assert np.all(found == passes)
    assert np.all(
        observer.least_force(q) > 0.99 * observer.least_force(q, 0.5 + 0 * dq)
    )  # friction hides at rest
    wrench = rng.normal(size=(8, 6))
    torque = np.einsum("kij,ki->kj", md.jacobian(estimate.robot, q), wrench)
    explained = np.einsum("kij,ki->kj", md.jacobian(estimate.robot, q), observer.wrench(q, torque))
    np.testing.assert_allclose(explained, torque, atol=1e-8)


def test_thresholds_grow_with_what_is_not_known(arm: Any) -> None:
    _, estimate = arm
    q, dq = np.zeros(estimate.robot.n), np.full(estimate.robot.n, 0.5)

    def level(**options: Any) -> Any:
        return md.control.momentum_observer(estimate, **options).threshold(q, dq)

    usual = level()
    assert np.all(level(friction_error=0.3) > usual)
    assert np.all(level(false_alarms=1e-3) > usual)
    assert np.all(level(gain=100.0) > usual)
    assert np.all(level(speed_noise=0.01) > usual)
    assert np.all(
        md.control.momentum_observer(estimate).threshold(q, 0 * dq) > usual
    )  # static friction
    assert np.all(
        md.control.momentum_observer(estimate.robot).threshold(q, dq) > 1e100
    )  # nothing is known


def test_what_it_refuses(arm: Any) -> None:
    _, estimate = arm
    with pytest.raises(Unsupported):
        md.control.momentum_observer(looped_robot())
    with pytest.raises(md.MinidynError, match="gain"):
        md.control.momentum_observer(estimate, gain=-1.0)
    log = run_of(estimate.robot, seconds=0.1)
    with pytest.raises(md.MinidynError, match="torques"):
        md.control.momentum_observer(estimate).watch(md.Recording(log.t, log.q, None, log.dq))
    with pytest.raises(ShapeError):
        md.control.momentum_observer(estimate).least_force(
            np.zeros(estimate.robot.n), directions=[1.0, 0.0]
        )
    with pytest.raises(ShapeError):
        run_of(estimate.robot, md.Push(0.0, 1.0, [1.0]), seconds=0.1)
