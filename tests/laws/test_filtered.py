"""Torque is the rate of momentum and a rest.

Filtered, momentum, energy and power forms hold on recordings.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.identification.estimators.acceleration_free import FORMS, integral, low_pass
from minidyn.model.robot import Robot
from robot_cases import relative_error, robot_of_seed

CUTOFF = 20 / (2 * math.pi)  # a pole of 20 1/s
SEEDS = range(8000, 8000 + count(8, 80))


def motion(t: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w, size, phase = rng.uniform(2, 6, n), rng.uniform(0.3, 1.0, n), rng.uniform(0, 6, n)
    angle = w * t[:, None] + phase
    return size * np.sin(angle), size * w * np.cos(angle), -size * w * w * np.sin(angle)


def recorded(robot: Robot, t: np.ndarray, seed: int = 0) -> md.Recording:
    q, dq, ddq = motion(t, robot.n, seed)
    return md.Recording(
        t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, joint_names=robot.joint_names
    )


def smooth(robot: Robot) -> Robot:
    """Without Coulomb friction, whose torque jumps."""
    terms = ("viscous", "offset")
    values = dict(zip(robot.layout.names, robot.parameters))
    other = robot.with_drives(friction=terms)
    return other.with_parameters([values.get(name, 0.4) for name in other.layout.names])


def error(robot: Robot, dt: float, form: str, base: md.BaseMap | None = None) -> float:
    recording = recorded(robot, np.arange(0.0, 1.0 + dt / 2, dt))
    Y, tau = md.filtered_regressor(robot, recording, CUTOFF, base, form=form)
    beta = robot.parameters if base is None else base.matrix @ robot.parameters
    return relative_error(Y @ beta, tau)


# ---------------------------------------------------------------- integrals and filters


@pytest.mark.parametrize("z", [1e-6, 0.02, 1.0, 3.9, 4.1, 60.0])
def test_cubics_pass_exactly(z: float) -> None:
    """∫ is exact; so is the filter's answer to t³, whose closed form is a polynomial and a decaying
    exponential.
    """
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 1, 40))
    t -= t[0]
    rate = z / np.diff(t).mean()
    np.testing.assert_allclose(integral(t, t**3), t**4 / 4, atol=1e-14)
    expected = t**3 - 3 * t**2 / rate + 6 * t / rate**2 + 6 * np.expm1(-rate * t) / rate**3
    small = rate * t[-1] < 1e-2  # there the closed form cancels
    if small:
        expected = rate * t**4 / 4 - rate**2 * t**5 / 20
    np.testing.assert_allclose(
        low_pass(t, t**3, rate), expected, rtol=1e-6 if small else 1e-9, atol=1e-13
    )


def test_filter_of_a_sine_is_of_fourth_order() -> None:
    found = []
    for dt in (0.02, 0.01, 0.005):
        t = np.arange(0, 2 + dt / 2, dt)
        a, w = 20.0, 9.0
        exact = (a * a * np.sin(w * t) - a * w * np.cos(w * t) + a * w * np.exp(-a * t)) / (
            a * a + w * w
        )
        found.append(np.abs(low_pass(t, np.sin(w * t), a) - exact).max())
    assert found[0] / found[1] == pytest.approx(16, rel=0.15)
    assert found[1] / found[2] == pytest.approx(16, rel=0.1)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_few_samples(length: int) -> None:
    t = np.arange(length, dtype=float)
    np.testing.assert_allclose(low_pass(t, np.ones(length), 0.5), 1 - np.exp(-0.5 * t), atol=1e-15)
    np.testing.assert_allclose(integral(t, np.ones((length, 2)))[:, 1], t, atol=1e-15)


# ---------------------------------------------------------------- the identity


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", SEEDS)
def test_identity_holds_with_fourth_order(seed: int, form: str) -> None:
    robot = smooth(robot_of_seed(seed))
    coarse, fine = error(robot, 0.005, form), error(robot, 0.0025, form)
    assert fine < 2e-5
    assert (
        coarse / fine > 13 or fine < 1e-12
    )  # 8 were third order; a robot may be integrated exactly


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["puma4", "two_link", "stanford", "rx90"])
def test_base_parameters_serve_as_well(name: str, form: str) -> None:
    robot = md.load(name)
    if np.isnan(robot.parameters).any():
        rng = np.random.default_rng(0)
        robot = robot.with_parameters(rng.uniform(0.1, 1.0, len(robot.layout)))
    base = md.base_parameters(robot)
    assert error(robot, 0.005, form, base) < 1e-5
    mlc = md.base_parameters(md.load("puma560"), method="mlc")
    other = mlc.robot.with_parameters(
        np.random.default_rng(1).uniform(0.1, 1.0, len(mlc.robot.layout))
    )
    assert error(other, 0.005, form, mlc) < 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_coulomb_friction_costs_no_order(form: str) -> None:
    """Its column jumps, but the torque jumps with it and passes through the same operation."""
    robot = md.load("two_link").with_drives(
        rotor_inertia=True, friction=("viscous", "coulomb", "offset")
    )
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.3))
    speeds = recorded(robot, np.arange(0.0, 1.005, 0.01)).dq
    assert speeds.min() < 0 < speeds.max()
    coarse, fine = error(robot, 0.01, form), error(robot, 0.005, form)
    assert coarse / fine == pytest.approx(16, rel=0.2)


def test_uneven_times() -> None:
    robot = md.load("puma4")
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.0005, 0.004, 400))
    for form in FORMS:
        Y, tau = md.filtered_regressor(robot, recorded(robot, t), CUTOFF, form=form)
        assert relative_error(Y @ robot.parameters, tau) < 1e-6


def test_shapes_and_start() -> None:
    robot = md.load("puma4")
    recording = recorded(robot, np.arange(0, 1.0005, 0.001))
    shapes = {
        "filtered": (1001, 4),
        "power": (1001, 1),
        "momentum": (20, 4),
        "energy": (20, 1),
    }  # windows of 0.05 s
    for form, shape in shapes.items():
        Y, tau = md.filtered_regressor(robot, recording, CUTOFF, form=form)
        assert Y.shape == (*shape, 40)
        assert tau.shape == shape
        if form in ("filtered", "power"):
            np.testing.assert_allclose(Y[0], 0.0, atol=1e-12)
            assert not tau[0].any()


def test_windows_cover_the_recording_once() -> None:
    """Summed over all windows, momentum is what the torque's integral is from end to end."""
    robot = md.load("puma4")
    recording = recorded(robot, np.arange(0, 1.0005, 0.001))
    _, impulse = md.filtered_regressor(robot, recording, CUTOFF, form="momentum")
    total = integral(recording.t, recording.tau)[-1]
    np.testing.assert_allclose(impulse.sum(axis=0), total, rtol=1e-12)


def test_runs_are_kept_apart() -> None:
    robot = md.load("puma4")
    first, second = (recorded(robot, np.arange(0, 0.3, 0.002), seed) for seed in (1, 2))
    whole = md.concatenate([first, second])
    for form in FORMS:
        Y, tau = md.filtered_regressor(robot, whole, CUTOFF, form=form)
        parts = [md.filtered_regressor(robot, part, CUTOFF, form=form) for part in (first, second)]
        np.testing.assert_allclose(
            Y, np.concatenate([part[0] for part in parts]), rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(
            tau, np.concatenate([part[1] for part in parts]), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("form", FORMS)
def test_parameters_are_found_without_accelerations(form: str) -> None:
    robot = md.load("two_link").with_drives(friction=("viscous",))
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.7))
    base = md.base_parameters(robot)
    recording = recorded(robot, np.arange(0, 8, 0.002))
    Y, tau = md.filtered_regressor(robot, recording, CUTOFF, base, form=form)
    beta = np.linalg.lstsq(Y.reshape(-1, base.rank), tau.ravel(), rcond=None)[0]
    assert relative_error(beta, base.matrix @ robot.parameters) < 1e-5


def test_joints_go_by_name() -> None:
    robot = md.load("puma4")
    straight = recorded(robot, np.arange(0, 0.3, 0.002))
    turned = md.Recording(
        straight.t,
        straight.q[:, ::-1],
        straight.tau[:, ::-1],
        straight.dq[:, ::-1],
        joint_names=straight.joint_names[::-1],
    )
    for one, two in zip(*(md.filtered_regressor(robot, r, CUTOFF) for r in (straight, turned))):
        np.testing.assert_array_equal(one, two)


def test_what_is_missing_is_told() -> None:
    robot = md.load("puma4")
    recording = recorded(robot, np.arange(0, 0.1, 0.002))
    t, q, tau, dq = recording.t, recording.q, recording.tau, recording.dq
    with pytest.raises(MinidynError, match=r"no dq.*speeds can be had"):
        md.filtered_regressor(robot, md.Recording(t, q, tau), CUTOFF)
    with pytest.raises(MinidynError, match="no tau"):
        md.filtered_regressor(robot, md.Recording(t, q, None, dq), CUTOFF)
    with pytest.raises(ShapeError, match="has 4 joints, robot 'panda' has"):
        md.filtered_regressor(md.load("panda"), recording, CUTOFF)
    named = md.Recording(t, q, tau, dq, joint_names=["joint1", "joint2", "joint3", "elbow"])
    with pytest.raises(UnknownName, match="'elbow'"):
        md.filtered_regressor(robot, named, CUTOFF)
    for cutoff in (0.0, -1.0, math.nan, math.inf, "10"):
        with pytest.raises(MinidynError, match="cutoff must be a positive number"):
            md.filtered_regressor(robot, recording, cutoff)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match=r"'impulse'.*filtered"):
        md.filtered_regressor(robot, recording, CUTOFF, form="impulse")
    twice = t.copy()
    twice[5] = twice[4]
    with pytest.raises(MinidynError, match="samples 4 and 5 have the same time"):
        md.filtered_regressor(robot, md.Recording(twice, q, tau, dq), CUTOFF)
    with pytest.raises(MinidynError, match="empty"):
        md.filtered_regressor(robot, recording[:0], CUTOFF)
