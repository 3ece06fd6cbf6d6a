"""Ripple of gears.

Columns against their formulas, and found in torques where it was planted, behind a low-pass.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from conftest import count
from minidyn.model.drives import ALIASES, HARMONICS
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.prepare.waves import standing_wave

Array = NDArray[np.float64]
PLAIN = ("viscous", "coulomb", "offset")


def rippling(seed: int, name: str = "two_link") -> md.Robot:
    """Return a robot with friction and ripple of random orders.

    Its last drive is turned by the joint before, too.
    """
    rng = np.random.default_rng(seed)
    robot = md.load(name)
    before, last = robot.joint_names[-2:]
    orders = rng.uniform(40, 140, len(robot.joints))
    robot = robot.with_drives(
        True,
        (*PLAIN, "ripple"),
        sign_width=0.02,
        coupling={last: {before: 0.5}},
        ripple_order=orders,
    )
    values = np.nan_to_num(robot.parameters.copy())
    sizes = {"Ia": 0.3, "Fv": 2.0, "Fc": 3.0, "Fo": 0.5}
    for column in (column for columns in robot.layout.drives for column in columns):
        values[column.index] = rng.uniform(0.5, 1.5) * sizes.get(column.symbol, 0.6)
    return robot.with_parameters(values)


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_columns_are_those_of_the_formulas(seed: int) -> None:
    robot = rippling(seed, ("two_link", "scara")[seed % 2])
    smooth = robot.with_drives(friction=PLAIN)
    q, dq, ddq = np.random.default_rng(seed).normal(size=(3, 20, robot.n))
    C = np.eye(robot.n)
    C[-1, -2] = 0.5
    p, v = q @ C.T, dq @ C.T
    size = v**2 / np.sqrt(v**2 + 0.02**2)
    torque = np.zeros_like(q)
    for k, joint in enumerate(robot.joints):
        value = {c.symbol: robot.parameters[c.index] for c in robot.layout.drives[k]}
        for harmonic, letters in zip(HARMONICS, ("abcd", "efgh", "ijkl")):
            a, b, c, d = (value[f"W{letter}"] for letter in letters)
            angle = harmonic * joint.drive.ripple_order * p[:, k]
            torque[:, k] += (a + c * size[:, k]) * np.sin(angle) + (b + d * size[:, k]) * np.cos(
                angle
            )
    expected = md.inverse_dynamics(smooth, q, dq, ddq) + torque @ C
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq), expected, atol=1e-10)
    np.testing.assert_allclose(
        md.regressor(robot, q, dq, ddq) @ robot.parameters, expected, atol=1e-10
    )
    np.testing.assert_allclose(md.forward_dynamics(robot, q, dq, expected), ddq, atol=1e-7)
    exact = md.base_parameters(robot)
    assert (
        exact.rank
        == md.base_parameters(smooth).rank + 12 * robot.n
        == md.base_parameters(robot, "qr").rank
    )


def test_files_keep_the_orders(tmp_path: Path) -> None:
    robot = rippling(3)
    md.save(robot, tmp_path / "robot.toml")
    again = md.load(tmp_path / "robot.toml")
    assert [joint.drive for joint in again.joints] == [joint.drive for joint in robot.joints]
    np.testing.assert_array_equal(again.parameters, robot.parameters)


def test_a_wave_stands_out_and_noise_does_not() -> None:
    for seed in range(count(20, 200)):
        rng = np.random.default_rng(seed)
        t = np.arange(2000) / 200
        q = sum(
            rng.uniform(0.2, 0.8) * np.sin(rng.uniform(0.3, 4) * t + rng.uniform(0, 6))
            for _ in range(4)
        )
        slow = lowpass(rng.normal(size=2000), 200.0, 5.0)
        noise = rng.normal(size=2000) + 2.0 * slow
        assert standing_wave(q, noise, 500.0) == 0.0, seed
        order = rng.uniform(20, 200)
        found = standing_wave(q, noise + 2.0 * np.sin(order * q + 1.0), 500.0)
        assert found == pytest.approx(order, abs=0.3 * 2 * np.pi / np.ptp(q)), seed


def log_of(robot: md.Robot, seed: int, seconds: float = 10.0) -> md.Recording:
    rng, t = np.random.default_rng(seed), np.arange(0, seconds, 0.004)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, period=seconds)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + 0.01 * tau.std(axis=0) * rng.normal(size=tau.shape)
    return md.Recording(t, q + 1e-5 * rng.normal(size=q.shape), tau, joint_names=robot.joint_names)


@pytest.mark.parametrize("seed", range(count(1, 10)))
def test_planted_ripple_is_found_behind_a_low_pass(seed: int) -> None:
    robot = rippling(seed)
    orders = [joint.drive.ripple_order for joint in robot.joints]
    described = robot.with_drives(friction=())
    log, new = log_of(robot, seed), log_of(robot, seed + 50)
    estimate = md.identify(described, log)
    np.testing.assert_allclose(estimate.record["ripple_order"], orders, rtol=0.01)
    assert any(row.candidate == "ripple" and row.is_taken for row in estimate.selection)
    assert all(joint.drive.cutoff == 0.0 for joint in estimate.robot.joints)
    plain = md.identify(described, log, friction=PLAIN)
    with_it, without = (md.validate(one, new) for one in (estimate, plain))
    assert with_it.relative_error < 0.5 * without.relative_error
    # torques behind the low-pass are compared with waves that have passed it
    assert with_it.filtered_relative_error < 0.6 * without.filtered_relative_error


def test_robots_without_ripple_get_none() -> None:
    robot = rippling(5)
    smooth = robot.with_drives(friction=PLAIN)
    estimate = md.identify(smooth.with_drives(friction=()), log_of(smooth, 5))
    assert not set(estimate.record["friction"]) & set(ALIASES["ripple"])
    assert "ripple_order" not in estimate.record
