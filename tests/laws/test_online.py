"""Estimation while the robot runs.

The batch solution sample by sample, and loads that are picked up.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_robots import looped_robot
from scipy.signal import lfilter

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import OWN, count
from minidyn.dynamics.functions import call
from minidyn.errors import ShapeError, Unsupported
from robot_cases import robot_of_seed

PERIOD, NOISE = 1e-3, 0.1


def arm(seed: int = 0) -> Any:
    """A planar arm with friction and rotors."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    drives = {"Ia": 0.05, "Fv": 0.3, "Fc": 0.4}
    return robot.with_parameters(
        [drives.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)]
    )


@pytest.fixture(scope="module")
def estimate() -> Any:
    robot = arm()
    t = np.arange(3000) * 2e-3
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + NOISE * np.random.default_rng(0).normal(
        size=q.shape
    )
    log = md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    return md.identify(robot.with_parameters(None), log, prior=False, consistent=False, **OWN)


def run_of(robot: Any, seconds: float = 3.0, seed: int = 4, **more: Any) -> Any:
    law = md.control.computed_torque(robot, bandwidth=10)
    return md.simulate(
        robot,
        law,
        md.trajectory.fourier(robot, seed=seed),
        seconds,
        torque_noise=NOISE,
        seed=seed,
        **more,
    )


def rows_of(robot: Any, base: Any, log: Any, gain: float) -> tuple[Any, Any]:
    """Lagged rows (N - 1, n, b) and torques (N - 1, n), by NumPy and SciPy."""
    W, rest = call(robot, "momentum_regressor", (log.q, log.dq), None, None, base)
    D = np.diff(W, axis=0) / PERIOD + 0.5 * (rest[1:] + rest[:-1])
    share = -np.expm1(-gain * PERIOD)
    return tuple(lfilter([share], [1.0, share - 1.0], part, axis=0) for part in (D, log.tau[:-1]))


@pytest.mark.parametrize("memory", [None, 0.7])
def test_it_is_the_batch_solution(estimate: Any, memory: float | None) -> None:
    """Least squares of all rows at once, weighted by noise and age, to 1e-9."""
    log = run_of(arm())
    running = md.online(estimate, memory=memory, prior=False, gain=20.0)
    running.add(log.q, log.dq, log.tau)
    X, y = rows_of(estimate.robot, estimate.base, log, 20.0)
    age = np.arange(len(X) - 1, -1, -1.0)
    weight = np.exp(-0.5 * PERIOD * age / (memory or np.inf))[:, None] / estimate.sigma
    X, y = (X * weight[..., None]).reshape(-1, X.shape[2]), (y * weight).ravel()
    scale = np.linalg.norm(X, axis=0)
    expected = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
    np.testing.assert_allclose(
        running.beta, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
    )
    if memory is None:
        spread = np.linalg.inv(X.T @ X) * np.mean((running._scale / estimate.sigma) ** 2)
        np.testing.assert_allclose(running.covariance, spread, rtol=1e-6, atol=1e-9 * spread.max())


@pytest.mark.parametrize("seed", range(count(2, 100)))
def test_rows_hold_for_every_robot(seed: int) -> None:
    """Rows times the true base parameters are the torques.

    Trees, slides, followers, without noise.
    """
    robot = robot_of_seed(seed + 1)
    if np.isnan(robot.parameters).any():
        robot = robot.with_parameters(
            np.random.default_rng(seed).uniform(0.2, 1.0, len(robot.parameters))
        )
    rng = np.random.default_rng(seed)
    amplitude, phase = rng.uniform(0.2, 0.4, (2, robot.n))
    t = np.arange(60) * 1e-4
    angle = 40.0 * t[:, None] + phase  # no joint reverses: Coulomb friction does not jump
    q, dq, ddq = (
        amplitude * np.sin(angle),
        40.0 * amplitude * np.cos(angle),
        -1600.0 * amplitude * np.sin(angle),
    )
    running = md.online(robot, sigma=1.0, prior=0.5, period=1e-4, gain=1e5)  # nearly no lag
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    running.add(q, dq, 0.5 * (tau + np.roll(tau, -1, axis=0)))  # the mean of each period
    rows, _ = running._recent()
    beta = running.model.beta
    for joint, (part, columns) in enumerate(zip(running._parts, running._columns)):
        left = rows[20:, running._entries + joint] - rows[20:, part] @ beta[list(columns)]
        assert np.abs(left).max() < 2e-3 * np.abs(tau).max() + 1e-9


def test_it_learns_what_changes_and_forgets_what_was(estimate: Any) -> None:
    """Friction that doubles is followed with a memory, and the model stays consistent on demand."""
    robot = arm()
    worn = robot.with_parameters(
        [
            v * (2.0 if c.symbol == "Fv" else 1.0)
            for c, v in zip(robot.layout.columns, robot.parameters)
        ]
    )
    running = md.online(estimate, memory=0.8, prior=False)
    log = run_of(worn, 5.0)
    running.add(log.q, log.dq, log.tau)
    made = running.estimate()
    places = [k for k, name in enumerate(made.names) if name.startswith("Fv")]
    true = made.base.values(worn.parameters)
    assert np.all(np.abs(made.beta - true)[places] < 4 * made.std[places])
    assert np.all(np.abs(estimate.beta - true)[places] > 4 * made.std[places])
    sound = running.estimate(consistent=True)
    assert sound.certificate.consistent
    assert md.validate(sound, run_of(worn, 1.0, seed=9)).relative_error < 0.1
    assert sound.record["online_samples"] == len(log)


def test_a_load_that_is_picked_up_is_weighed_within_a_second() -> None:
    """Within a second of motion: its mass within three stated deviations, in every run.

    None where there is none.
    """
    robot = md.load("puma4").with_drives(friction=("viscous", "coulomb"))
    drives = {"Fv": 0.5, "Fc": 0.5}
    robot = robot.with_parameters(
        [drives.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)]
    )
    fit = run_of(robot, 6.0, seed=1)
    known = md.identify(robot, fit, prior=False, consistent=False, **OWN)
    warm = robot.with_parameters(
        [
            v * (0.92 if c.symbol in drives else 1.0)
            for c, v in zip(robot.layout.columns, robot.parameters)
        ]
    )
    apart = []
    for seed in range(count(3, 60)):
        for mass in (0.0, 1.2):
            held = (
                {"mass": mass, "com": [0.02, 0.0, 0.08], "inertia": 0.003 * np.eye(3)}
                if mass
                else None
            )
            log = run_of(warm, 2.0, 20 + seed, payload=md.Payload(1.0, held) if held else None)
            running = md.online(known)
            running.add(log.q, log.dq, log.tau)
            found = running.change
            if not mass:
                assert found is None
                continue
            assert found is not None
            assert 1.0 < found.time < 1.1
            apart.append((found.load.settings["unconstrained"][9] - mass) / found.load.std["mass"])
            assert found.load.std["mass"] < 0.2 * mass
            assert found.joints
            assert found.probability > 1e-3
    assert np.sqrt(np.mean(np.square(apart))) < 1.6
    assert np.abs(apart).max() < 4


@needs_gcc
def test_generated_c_gives_the_same_factors(estimate: Any, tmp_path: Path) -> None:
    log = run_of(arm(), 0.2)
    running = md.online(estimate, memory=0.5)
    running.add(log.q, log.dq, log.tau)
    source = running.source()
    (tmp_path / "step.c").write_text(source)
    library = tmp_path / "step.so"
    command = [
        "gcc",
        *STRICT,
        "-shared",
        "-fPIC",
        str(tmp_path / "step.c"),
        "-o",
        str(library),
        "-lm",
    ]
    subprocess.run(command, check=True)
    code = ctypes.CDLL(str(library))
    place = ctypes.c_void_p
    factors = running.triangles.factors
    size = re.findall(r"int two_link_online_step.const double state.(\d+)", source)[0]
    state = np.zeros(int(size))
    flat = np.zeros(sum(len(factor) ** 2 for factor in factors))
    for k in range(len(log)):
        given = [np.ascontiguousarray(array[k]) for array in (log.q, log.dq, log.tau)]
        pointers = [a.ctypes.data_as(place) for a in (state, *given)]
        status = code.two_link_online_step(
            *pointers, ctypes.c_double(PERIOD), state.ctypes.data_as(place)
        )
        assert status == (16 if k == 0 else 0)
        forget = ctypes.c_double(np.exp(-0.5 * PERIOD / 0.5))
        code.two_link_online_step_update(
            state.ctypes.data_as(place), forget, flat.ctypes.data_as(place)
        )
    begin = 0
    for factor in factors:
        size = factor.shape[1]
        found = flat[begin : begin + size**2].reshape(size, size)
        begin += size**2
        np.testing.assert_allclose(
            found.T @ found, factor.T @ factor, rtol=1e-9, atol=1e-12 * np.abs(factor).max() ** 2
        )


def test_what_it_refuses(estimate: Any) -> None:
    with pytest.raises(md.MinidynError, match="sigma"):
        md.online("two_link")
    with pytest.raises(md.MinidynError, match="memory"):
        md.online(estimate, memory=-1.0)
    with pytest.raises(Unsupported):
        md.online(looped_robot(), sigma=1.0)
    with pytest.raises(ShapeError):
        md.online(estimate).add([0.0], [0.0], [0.0])
    with pytest.raises(md.MinidynError, match="prior"):
        md.online(estimate, prior=False).beta  # noqa: B018
    assert md.online(estimate).change is None
    np.testing.assert_allclose(
        md.online(estimate).beta, estimate.beta, rtol=1e-6
    )  # the prior alone
