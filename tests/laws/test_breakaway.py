"""Breakaway, a state of drives: friction that rests raise and travel lets decay.

Along logs, in simulation and in C.
"""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from random_robots import random_tree
from scipy.integrate import solve_ivp

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import count
from minidyn.dynamics.drives import breakaway, memory_columns
from minidyn.identification.rows.base_rows import departures, remembering
from minidyn.model.drives import REST_SPEED, REST_TIME
from minidyn.recording.lazy import held

PLAIN = ("viscous", "coulomb", "offset")
SIZES = {"Ia": 0.05, "Fv": 0.5, "Fc": 0.6, "Fo": 0.1, "Fp": 0.5, "Fb": 0.8}
RATE = 200.0


def with_sizes(robot: md.Robot) -> md.Robot:
    values = np.nan_to_num(robot.parameters.copy())
    for column in robot.layout.columns:
        values[column.index] = SIZES.get(column.symbol, values[column.index])
    return robot.with_parameters(values)


def motion(robot: md.Robot, seconds: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Times and a motion with a rest in every three seconds.

    Its own time runs, slows down, stands and runs again.
    """
    t = np.arange(0.0, seconds, 1 / RATE)
    rate, change = (
        np.clip(0.5 - np.cos(2 * np.pi * t / 3), 0.0, 1.0),
        2 * np.pi / 3 * np.sin(2 * np.pi * t / 3),
    )
    change = change * ((rate > 0) & (rate < 1))
    own = np.append(0.0, np.cumsum(0.5 * (rate[1:] + rate[:-1]) / RATE))
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=1.5)(own)
    return t, q, dq * rate[:, None], ddq * rate[:, None] ** 2 + dq * change[:, None]


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_the_state_solves_its_differential_equation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    travel, start, size = rng.uniform(0.002, 0.05), rng.uniform(), rng.uniform(0.05, 0.5)

    def speed(t: float) -> float:
        return size * max(0.0, float(np.sin(2.0 * t)))

    def slope(t: float, w: np.ndarray) -> np.ndarray:
        rests = speed(t) < REST_SPEED
        return (1.0 - w) / REST_TIME if rests else -w * speed(t) / travel

    t = np.arange(0.0, 5.0, 1e-3)
    path = np.append(0.0, np.cumsum([speed(at + 5e-4) * 1e-3 for at in t[:-1]]))
    exact = solve_ivp(
        slope, (0.0, t[-1]), [start], t_eval=t, rtol=1e-8, atol=1e-10, max_step=2e-3
    ).y[0]
    found = breakaway(path, np.diff(t), travel, REST_SPEED, start)
    np.testing.assert_allclose(found, exact, atol=0.02)  # a rest begins between two samples
    # pieces go on where the last one ended, and it does not matter how often a motion is looked at
    parts = [breakaway(path[:2000], np.diff(t[:2000]), travel, REST_SPEED, start)]
    parts.append(breakaway(path[1999:], np.diff(t[1999:]), travel, REST_SPEED, parts[0][-1])[1:])
    np.testing.assert_allclose(np.concatenate(parts), found, atol=1e-12)


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_functions_and_base_parameters_of_a_robot_with_breakaway(seed: int) -> None:
    tree = random_tree(np.random.default_rng(seed), joints=4)
    tree = tree.with_drives(
        True, ("viscous", "presliding", "breakaway"), 0.05, breakaway_travel=0.01
    )
    assert md.base_parameters(tree).rank == md.base_parameters(tree, "qr").rank
    robot = with_sizes(
        tree.with_joints(lambda joint: replace(joint, follows=None))
    )  # no drive follows another
    t, q, dq, ddq = motion(robot, 4.0, seed)
    states, columns = md.drive_states(robot, q, step=1 / RATE), memory_columns(robot)
    tau = md.inverse_dynamics(robot, q, dq, ddq, memory=states)
    steady = md.inverse_dynamics(robot, q, dq, ddq)
    apart = np.array([column.symbol == "Fb" for column in columns])
    assert apart.sum() == robot.n == len(columns) // 2
    signs = dq / np.sqrt(dq**2 + 0.05**2)
    wanted = SIZES["Fb"] * states[:, apart] * signs + SIZES["Fp"] * (states[:, ~apart] - signs)
    np.testing.assert_allclose(tau - steady, wanted, atol=1e-9)
    np.testing.assert_allclose(
        md.forward_dynamics(robot, q, dq, tau, memory=states), ddq, rtol=1e-5, atol=1e-5
    )
    exact = md.base_parameters(robot)
    Y = md.base_regressor(robot, q, dq, ddq, base=exact, memory=states)
    np.testing.assert_allclose(Y @ exact.values(robot.parameters), tau, atol=1e-9)
    with pytest.raises(md.MinidynError, match="step"):
        md.drive_states(robot, q)
    log = md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    whole = remembering(robot, log).telemetry["memory"]
    np.testing.assert_allclose(whole, states, atol=1e-9)
    pieces = [tile.telemetry["memory"] for tile in remembering(robot, held(log)).tiles(64)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-12)


@cache
def logs(planted: bool) -> tuple[md.Recording, md.Recording]:
    """A log to fit and one to test, with rests, torques with noise."""
    terms = (*PLAIN, "breakaway") if planted else PLAIN
    robot = with_sizes(md.load("two_link").with_drives(True, terms, 0.02, breakaway_travel=0.006))
    rng, made = np.random.default_rng(5), []
    for seed in (3, 4):
        t, q, dq, ddq = motion(robot, 24.0, seed)
        states = md.drive_states(robot, q, step=1 / RATE) if planted else None
        tau = md.inverse_dynamics(robot, q, dq, ddq, memory=states)
        tau += 0.02 * rng.normal(size=tau.shape)
        made.append(md.Recording(t, q, tau, dq, ddq, robot.joint_names))
    return made[0], made[1]


def test_breakaway_that_is_there_is_found() -> None:
    robot, (log, test) = md.load("two_link"), logs(True)
    assert np.all(departures(robot, log) >= 5)
    estimate = md.identify(robot, log, consistent=False)
    assert "breakaway" in estimate.record["friction"]
    np.testing.assert_allclose(estimate.record["breakaway_travel"], 0.006, rtol=0.35)
    np.testing.assert_allclose(
        [estimate.values[name] for name in ("Fb1", "Fb2")], SIZES["Fb"], rtol=0.15
    )
    plain = md.identify(robot, log, friction=PLAIN, consistent=False)
    error = md.validate(estimate, test).relative_error
    assert error < 0.7 * md.validate(plain, test).relative_error
    taken = [row for row in estimate.selection.taken if row.candidate == "breakaway"]
    assert {name for row in taken for name in row.joints} == set(robot.joint_names)
    assert all(row.gain > 2.0 * row.standard_error > 0.0 for row in taken)


def test_breakaway_that_is_not_there_is_not_chosen_and_needs_rests() -> None:
    robot, (log, _) = md.load("two_link"), logs(False)
    estimate = md.identify(robot, log, consistent=False)
    assert "breakaway" not in estimate.record["friction"]
    t = np.arange(0.0, 10.0, 1 / RATE)
    q, dq, ddq = md.trajectory.fourier(robot, seed=1, speed=1.5)(t)
    assert not departures(robot, md.Recording(t, q, q, dq, ddq, robot.joint_names)).any()


def test_named_breakaway_keeps_a_given_travel(tmp_path) -> None:
    robot = md.load("two_link").with_drives(True, breakaway_travel=0.006)
    log, test = logs(True)
    estimate = md.identify(robot, log, friction=(*PLAIN, "breakaway"), consistent=False)
    assert {joint.drive.breakaway_travel for joint in estimate.robot.joints} == {0.006}
    md.save(estimate.robot, tmp_path / "two.toml")
    assert (
        md.load(tmp_path / "two.toml").structure_fingerprint == estimate.robot.structure_fingerprint
    )
    log.save(tmp_path / "log.parquet")
    lazy = md.read_recording(tmp_path / "log.parquet", robot, lazy=True, use_ddq=True)
    on_disk = md.identify(robot, lazy, friction=(*PLAIN, "breakaway"), consistent=False)
    np.testing.assert_allclose(on_disk.beta, estimate.beta, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(on_disk.predict(test), estimate.predict(test), atol=1e-6)


def test_simulation_carries_the_state_along() -> None:
    robot = with_sizes(
        md.load("two_link").with_drives(True, ("viscous", "breakaway"), breakaway_travel=0.02)
    )
    path = md.trajectory.fourier(robot, seed=2, speed=0.5)
    run = md.simulate(robot, md.control.computed_torque(robot, bandwidth=10.0), path, 0.5, dt=1e-3)
    q, dq = run.telemetry["q_true"], run.telemetry["dq_true"]
    states = md.drive_states(robot, q, step=1e-3)
    assert states.max() > 0.01
    along = md.inverse_dynamics(robot, q, dq, run.ddq, memory=states)
    np.testing.assert_allclose(along, run.tau, rtol=1e-6, atol=1e-6)


@needs_gcc
def test_c_code_carries_the_state_on(tmp_path) -> None:
    robot = with_sizes(
        md.load("two_link").with_drives(True, ("viscous", "presliding", "breakaway"))
    )
    md.save(robot, tmp_path / "model.c")
    command = ["gcc", *STRICT, "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    _, q, _, _ = motion(robot, 2.0)
    states, now = md.drive_states(robot, q, step=1 / RATE), np.zeros(4)

    def pointer(values: np.ndarray) -> ctypes._Pointer[ctypes.c_double]:
        return values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    for row in range(1, len(q)):
        ends = pointer(q[row - 1].copy()), pointer(q[row].copy())
        library.two_link_drive_states(*ends, ctypes.c_double(1 / RATE), pointer(now))
        np.testing.assert_allclose(now, states[row], atol=1e-9)


def test_a_slide_at_a_millimetre_a_second_moves() -> None:
    robot = md.load("scara").with_drives(friction=("coulomb", "breakaway"), breakaway_travel=0.005)
    slides = [joint.slides for joint in robot.joints]
    t = np.arange(0.0, 20.0, 0.01)
    q = np.where(t < 2.0, 0.0, 0.001 * (t - 2.0))[:, None] * np.ones(robot.n)
    w = md.drive_states(robot, q, step=0.01)
    np.testing.assert_allclose(w[-1, slides], np.exp(-0.018 / 0.005), rtol=0.02)
    assert np.all(w[-1, ~np.array(slides)] > 0.99)  # a milliradian a second is a rest
