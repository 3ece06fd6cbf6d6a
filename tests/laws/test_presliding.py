"""Presliding, a state of drives.

Against an integrated differential equation, along logs, in simulation and in C.
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
from minidyn.dynamics.drives import drive_paths, memory_columns, presliding
from minidyn.dynamics.functions import (
    gravity_of_links,
    inertias_of_links,
    regressor_by_parts,
    torques_by_parts,
)
from minidyn.errors import Unsupported
from minidyn.identification.rows.base_rows import Path, paths_of, remembering
from minidyn.recording.lazy import held

PLAIN = ("viscous", "coulomb", "offset")


def remembering_tree(seed: int) -> md.Robot:
    """A random tree, followers among its joints, two drives coupled, presliding on each."""
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints=5, fixed=1)
    names = [joint.name for joint in robot.joints if joint.kind != "fixed"]
    travels = rng.uniform(0.02, 0.3, len(robot.joints))
    coupling = {names[2]: {names[1]: 0.5}, names[3]: {names[2]: -1.0}}
    robot = robot.with_drives(
        True, (*PLAIN, "presliding"), 0.05, coupling, presliding_travel=travels
    )
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = rng.uniform(0.2, 1.0)
    return robot.with_parameters(values)


def motion(
    robot: md.Robot, samples: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return md.trajectory.fourier(robot, seed=seed, speed=1.5)(np.linspace(0.0, 12.0, samples))


@pytest.mark.parametrize("seed", range(count(3, 30)))
def test_the_state_solves_its_differential_equation(seed) -> None:
    rng = np.random.default_rng(seed)
    travel, start = rng.uniform(0.02, 0.3), rng.uniform(-1.0, 1.0)
    size, rate, phase = rng.uniform(0.2, 1.0, 3), rng.uniform(1.0, 5.0, 3), rng.uniform(0.0, 6.0, 3)

    def speed(t: float) -> float:
        return float(np.sum(size * rate * np.cos(rate * t + phase)))

    t = np.linspace(0.0, 4.0, 4001)
    path = np.sum(size * np.sin(rate * t[:, None] + phase), axis=1)
    z = presliding(path, travel, start)
    exact = solve_ivp(
        lambda at, now: speed(at) / travel * (1.0 - np.sign(speed(at)) * now),
        (0.0, 4.0),
        [start],
        t_eval=t,
        rtol=1e-9,
        atol=1e-11,
        max_step=0.01,
    ).y[0]
    np.testing.assert_allclose(
        z, exact, atol=1e-4
    )  # turns between two samples are missed by so much
    assert np.all(np.abs(z) <= 1.0)
    # rest changes nothing, and further samples on the way do not either
    slow = np.repeat(path, 2)
    np.testing.assert_allclose(presliding(slow, travel, start)[::2], z, atol=1e-12)


@pytest.mark.parametrize("seed", range(count(3, 20)))
def test_links_and_drives_apart_give_the_same(seed) -> None:
    """Drives by NumPy beside links by machine code.

    Coupled and following joints, loads, curves, memory.
    """
    robot = remembering_tree(seed)
    terms = (*PLAIN, "presliding", "load", "stribeck", "cubic", "spring")
    sharp = robot.with_drives(friction=terms, sign_width=0.0)
    values = np.nan_to_num(sharp.parameters, nan=0.4)
    both = sharp.with_parameters(values), sharp.with_drives(sign_width=0.2).with_parameters(values)
    q, dq, ddq = motion(robot, 60, seed)
    states = md.drive_states(robot, q)
    for own, tau in zip(both, torques_by_parts(both, q, dq, ddq, states)):
        np.testing.assert_allclose(
            tau, md.inverse_dynamics(own, q, dq, ddq, memory=states), rtol=1e-9, atol=1e-9
        )
        Y = md.regressor(own, q, dq, ddq)
        np.testing.assert_allclose(regressor_by_parts(own, q, dq, ddq), Y, rtol=1e-9, atol=1e-9)
    bare = robot.with_drives(False, ())
    np.testing.assert_allclose(
        gravity_of_links(both[0], q, values), md.gravity_torque(bare, q), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        inertias_of_links(both[0], q, values), md.inertia_matrix(bare, q), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("seed", range(count(3, 20)))
def test_functions_of_a_robot_with_memory(seed) -> None:
    robot = remembering_tree(seed)
    q, dq, ddq = motion(robot, 60, seed)
    states = md.drive_states(robot, q)
    columns = memory_columns(robot)
    assert states.shape == (60, len(columns))
    assert len(columns) == len([joint for joint in robot.joints if joint.kind != "fixed"])
    tau = md.inverse_dynamics(robot, q, dq, ddq, memory=states)
    # what memory adds is Fp (z - s), on the axes that the drive turns with: virtual work by
    # differences of its path
    steady = md.inverse_dynamics(robot, q, dq, ddq)
    paths = [
        drive_paths(robot, q + 1e-6 * unit, range(len(robot.joints))) for unit in np.eye(robot.n)
    ]
    turned = (
        np.stack(paths) - drive_paths(robot, q, range(len(robot.joints)))
    ) / 1e-6  # (n, N, joints)
    wanted = steady.copy()
    for k, column in enumerate(columns):
        share = turned[..., column.joint].T
        v = np.sum(share * dq, axis=1)
        extra = robot.parameters[column.index] * (states[:, k] - v / np.sqrt(v**2 + 0.05**2))
        wanted += share * extra[:, None]
    np.testing.assert_allclose(tau, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        md.forward_dynamics(robot, q, dq, tau, memory=states), ddq, rtol=1e-6, atol=1e-6
    )
    Y = md.regressor(robot, q, dq, ddq, memory=states)
    np.testing.assert_allclose(Y @ robot.parameters, tau, rtol=1e-9, atol=1e-9)
    kernel = md.compile(robot, "inverse_dynamics", memory=True)
    assert kernel.arguments == ("q", "dq", "ddq", "memory")
    np.testing.assert_allclose(kernel(q, dq, ddq, states), tau, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(count(3, 20)))
def test_base_parameters_by_exact_and_numeric_methods_agree(seed) -> None:
    robot = remembering_tree(seed)
    exact, numeric = md.base_parameters(robot), md.base_parameters(robot, "qr")
    assert exact.rank == numeric.rank
    q, dq, ddq = motion(robot, 400, seed)
    Y = md.base_regressor(robot, q, dq, ddq, base=exact, memory=md.drive_states(robot, q))
    np.testing.assert_allclose(
        Y @ exact.values(robot.parameters),
        md.inverse_dynamics(robot, q, dq, ddq, memory=md.drive_states(robot, q)),
    )
    assert any(name.startswith("Fp") for name in exact.names)


def test_drives_that_move_in_proportion_share_their_state(tmp_path) -> None:
    """Two drives on one motion.

    Told apart where their travels are not in the proportion of their motions.
    """
    text = (
        '[[joint]]\nname = "a"\ndrive = { coulomb = 1.0, presliding = 1.0, presliding_travel = '
        "0.01 }\n"
    )
    text += '[[joint]]\nname = "b"\nmimic = { leader = "a", ratio = 2.0 }\n'
    ranks = []
    for travel in (0.02, 0.01):
        drive = f"drive = {{ coulomb = 1.0, presliding = 1.0, presliding_travel = {travel} }}\n"
        (tmp_path / "two.toml").write_text(text + drive)
        robot = md.load(tmp_path / "two.toml")
        ranks.append([md.base_parameters(robot, method).rank for method in ("exact", "qr")])
    assert ranks[0][0] == ranks[0][1] == ranks[1][0] - 1 == ranks[1][1] - 1


def test_states_go_on_from_piece_to_piece() -> None:
    robot = remembering_tree(0)
    q, dq, ddq = motion(robot, 700)
    log = md.Recording(np.linspace(0, 12, 700), q, q, dq, ddq, robot.joint_names, starts=(0, 300))
    whole = remembering(robot, log).telemetry["memory"]
    np.testing.assert_array_equal(
        whole, np.concatenate([md.drive_states(robot, part) for part in (q[:300], q[300:])])
    )
    on_disk = remembering(robot, held(log))
    for size in (64, 1000):
        pieces = np.concatenate([tile.telemetry["memory"] for tile in on_disk.tiles(size)])
        np.testing.assert_allclose(pieces, whole, atol=1e-14)
    # thinned samples have the states of the whole motion, turning points between them included
    for joint, path in enumerate(paths_of(robot, held(log), 37)):
        for recording in (log, held(log)):
            assert isinstance(path, Path)
            thin = paths_of(robot, recording, 37)[joint].presliding(0.07)
            runs = [drive_paths(robot, part, [joint])[:, 0] for part in (q[:300], q[300:])]
            every = np.concatenate([presliding(run, 0.07) for run in runs])
            np.testing.assert_allclose(thin, every[::37], atol=1e-12)


SIZES = {"Ia": 0.4, "Fv": 3.0, "Fc": 2.0, "Fo": 0.3, "Fp": 4.0}


def planted(travel: float | None, width: float = 0.03) -> md.Robot:
    terms = PLAIN if travel is None else (*PLAIN, "presliding")
    robot = md.load("ur10e").with_drives(True, terms, width, presliding_travel=travel)
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        values[column.index] = SIZES.get(column.symbol, values[column.index])
    return robot.with_parameters(values)


@cache
def logs(travel: float | None, noise: float = 0.01) -> tuple[md.Recording, md.Recording]:
    """A log to fit and one to test, torques with noise in the first."""
    robot, rng, made = planted(travel), np.random.default_rng(5), []
    t = np.linspace(0.0, 20.0, 2500)
    for seed in (3, 4):
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=1.5)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq, memory=md.drive_states(robot, q))
        tau = tau + (seed == 3) * noise * rng.normal(size=tau.shape) * np.sqrt(
            np.mean(tau**2, axis=0)
        )
        made.append(md.Recording(t, q, tau, dq, ddq, robot.joint_names))
    return made[0], made[1]


@cache
def found(travel: float | None, friction: str | tuple[str, ...] = "auto") -> md.Estimate:
    return md.identify(
        md.load("ur10e").with_drives(True), logs(travel)[0], friction=friction, consistent=False
    )


def test_presliding_that_is_there_is_found() -> None:
    estimate, (_, test) = found(0.004), logs(0.004)
    assert estimate.record["friction"] == [*PLAIN, "presliding"]
    np.testing.assert_allclose(estimate.record["presliding_travel"], 0.004, rtol=0.35)
    off = {
        name: estimate.values[name] - SIZES[name[:2]]
        for name in estimate.names
        if name[:2] in ("Fp", "Fc", "Fv")
    }
    std = dict(zip(estimate.names, estimate.std))
    z = np.array([off[name] / std[name] for name in off])
    assert len(z) == 18
    assert np.sqrt(np.mean(z**2)) < 2.0
    error = md.validate(estimate, test).relative_error
    assert error < 0.3 * md.validate(found(0.004, PLAIN), test).relative_error
    assert error < 0.01


def test_presliding_that_is_not_there_is_not_chosen() -> None:
    estimate, (_, test) = found(None), logs(None)
    assert "presliding" not in estimate.record["friction"]
    tried = [row for row in estimate.selection if row.candidate == "presliding"]
    assert tried
    assert not any(row.is_taken for row in tried)
    plain = md.validate(found(None, PLAIN), test).relative_error
    assert md.validate(estimate, test).relative_error <= 1.005 * plain


def test_presliding_over_less_than_a_filter_hides_is_not_looked_for() -> None:
    """The low-pass of the torque spreads a hard reversal over some travel, which is no
    presliding.
    """
    robot = planted(None, 0.0)
    t = np.arange(0.0, 16.0, 0.002)
    q, dq, ddq = md.trajectory.fourier(robot, seed=3, speed=1.2)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau += 0.01 * np.random.default_rng(0).normal(size=tau.shape) * np.sqrt(np.mean(tau**2, axis=0))
    log = md.Recording(t, q, tau, joint_names=robot.joint_names)
    estimate = md.identify(md.load("ur10e").with_drives(True), log, consistent=False)
    assert "presliding" not in estimate.record["friction"]


def test_a_log_on_disk_gives_the_same_estimate(tmp_path) -> None:
    log, test = logs(0.004)
    log.save(tmp_path / "log.parquet")
    lazy = md.read_recording(tmp_path / "log.parquet", planted(None), lazy=True, use_ddq=True)
    described = md.load("ur10e").with_drives(True)
    estimate = md.identify(described, lazy, friction="auto", consistent=False)
    assert estimate.record["friction"] == found(0.004).record["friction"]
    np.testing.assert_allclose(estimate.beta, found(0.004).beta, rtol=1e-6, atol=1e-8)
    test.save(tmp_path / "test.parquet")
    on_disk = md.read_recording(tmp_path / "test.parquet", planted(None), lazy=True, use_ddq=True)
    np.testing.assert_allclose(
        estimate.predict(on_disk), estimate.predict(test), rtol=1e-9, atol=1e-9
    )


def test_an_estimate_is_saved_and_predicts_alike(tmp_path) -> None:
    estimate, (_, test) = found(0.004), logs(0.004)
    estimate.save(tmp_path / "estimate.json")
    again = md.load_estimate(tmp_path / "estimate.json")
    np.testing.assert_array_equal(again.predict(test), estimate.predict(test))
    # a consistent one predicts by its robot; a piece of a run that knows its states goes on with
    # them
    consistent = replace(estimate, consistent=True)
    np.testing.assert_allclose(
        consistent.predict(test), estimate.predict(test), rtol=1e-6, atol=1e-6
    )
    with_states = remembering(estimate.robot, test)
    np.testing.assert_array_equal(estimate.predict(with_states[900:]), estimate.predict(test)[900:])
    assert (
        np.abs(estimate.predict(test[900:]) - estimate.predict(test)[900:]).max() > 0.1
    )  # it begins anew


def test_named_presliding_keeps_a_given_travel() -> None:
    described = md.load("ur10e").with_drives(True, presliding_travel=0.004)
    estimate = md.identify(
        described, logs(0.004)[0], friction=(*PLAIN, "presliding"), consistent=False
    )
    assert {joint.drive.presliding_travel for joint in estimate.robot.joints} == {0.004}
    assert sum(name.startswith("Fp") for name in estimate.names) == 6


def test_methods_that_cannot_remember_say_so() -> None:
    described = md.load("ur10e").with_drives(True)
    with pytest.raises(Unsupported, match="presliding"):
        md.identify(described, logs(0.004)[0], "momentum", friction=(*PLAIN, "presliding"))
    estimate = md.identify(described, logs(0.004)[0], "momentum", consistent=False)
    assert "presliding" not in estimate.record["friction"]
    parallel = md.identify(described, logs(0.004)[0], "parallel", consistent=False)
    assert "presliding" in parallel.record["friction"]


def test_a_payload_is_found_by_a_model_with_presliding() -> None:
    robot = planted(0.004)
    load = md.Payload(
        0.0, {"mass": 2.0, "com": (0.02, 0.01, 0.1), "inertia": np.diag([0.01, 0.01, 0.01])}
    )
    t = np.linspace(0.0, 12.0, 1500)
    q, dq, ddq = md.trajectory.fourier(robot, seed=8, speed=1.5)(t)
    tau = md.inverse_dynamics(load.on(robot), q, dq, ddq, memory=md.drive_states(robot, q))
    tau += 0.01 * np.random.default_rng(0).normal(size=tau.shape) * np.sqrt(np.mean(tau**2, axis=0))
    found_load = md.identify_payload(
        found(0.004), md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    )
    assert abs(found_load.ten[9] - 2.0) < 0.05


def test_simulation_carries_the_state_along() -> None:
    robot = md.load("scara").with_drives(True, ("viscous", "presliding"), presliding_travel=0.02)
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        values[column.index] = {"Ia": 0.05, "Fv": 0.2, "Fp": 0.6}.get(
            column.symbol, values[column.index]
        )
    robot = robot.with_parameters(np.nan_to_num(values))
    path = md.trajectory.fourier(robot, seed=2, speed=0.5)
    law = md.control.computed_torque(robot, bandwidth=10.0)
    run = md.simulate(robot, law, path, 2.0, dt=1e-3)
    q, dq = run.telemetry["q_true"], run.telemetry["dq_true"]
    along = md.inverse_dynamics(robot, q, dq, run.ddq, memory=md.drive_states(robot, q))
    np.testing.assert_allclose(along, run.tau, rtol=1e-6, atol=1e-6)
    batch = md.simulate_batch(robot, law, path, 2.0, q0=np.stack([q[0], q[0]]), dt=1e-3)
    np.testing.assert_allclose(batch[1].telemetry["q_true"], q, atol=1e-9)
    with pytest.raises(Unsupported, match="presliding"):
        md.simulate(robot, law, path, 0.1, plant="regressor")


@needs_gcc
def test_c_code_takes_the_state_and_carries_it_on(tmp_path) -> None:
    robot = planted(0.004)
    md.save(robot, tmp_path / "model.c")
    command = ["gcc", *STRICT, "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    q, dq, ddq = motion(robot, 80)
    states, now = md.drive_states(robot, q), np.zeros(6)
    wanted = md.inverse_dynamics(robot, q, dq, ddq, memory=states)

    def pointers(*arrays: np.ndarray) -> list[ctypes._Pointer[ctypes.c_double]]:
        return [array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in arrays]

    for row in range(len(q)):
        if row:
            library.ur10e_drive_states(*pointers(q[row - 1].copy(), q[row].copy(), now))
        np.testing.assert_allclose(now, states[row], atol=1e-12)
        tau = np.zeros(6)
        library.ur10e_inverse_dynamics(
            *pointers(q[row].copy(), dq[row].copy(), ddq[row].copy(), now, tau)
        )
        np.testing.assert_allclose(tau, wanted[row], rtol=1e-9, atol=1e-9)


@needs_gcc
def test_c_code_holds_its_state_where_a_position_cannot_be_true(tmp_path) -> None:
    """One NaN would stay in the states of drives for ever."""
    robot = planted(0.004)
    md.save(robot, tmp_path / "model.c")
    for flags in ([], ["-O3", "-ffast-math"]):
        command = ["gcc", *STRICT, *flags, "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        step = ctypes.CDLL(str(tmp_path / "model.so")).ur10e_drive_states
        q = motion(robot, 4)[0]
        for value, flag in ((np.nan, 17), (np.inf, 17), (1e200, 18)):
            bad, now = q[1].copy(), np.full(6, 0.3)
            bad[2] = value
            for before, after in ((q[0], bad), (bad, q[2])):
                given = [array.copy().ctypes.data_as(ctypes.c_void_p) for array in (before, after)]
                assert step(*given, now.ctypes.data_as(ctypes.c_void_p)) == flag
                assert np.all(now == 0.3)
        now[:] = np.nan  # a state that is lost begins anew
        given = [array.copy().ctypes.data_as(ctypes.c_void_p) for array in (q[0], q[1])]
        assert step(*given, now.ctypes.data_as(ctypes.c_void_p)) == 0
        assert np.all(np.abs(now) <= 1.0)
        (tmp_path / "model.so").rename(tmp_path / "other.so")
