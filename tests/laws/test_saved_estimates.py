"""Estimates: every one that is saved loads, and its covariances are those of numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_static_poses import held

import minidyn as md
from conftest import count
from minidyn.recording.lazy import concatenate
from robot_cases import random_robot

SAVED = Path(__file__).parents[1] / "data"
COVARIANCES = ("covariance", "data_covariance", "log_covariance")


def robot_of(seed: int) -> md.Robot:
    """Return a robot of chance: branches, mimic joints (grippers), loads, drives."""
    rng = np.random.default_rng(seed)
    return random_robot(
        rng,
        joints=int(rng.integers(1, 7)),
        kinds=str(rng.choice(["mixed", "R"])),
        special=bool(rng.random() < 0.5),
        branches=bool(rng.random() < 0.5),
        followers=bool(rng.random() < 0.5),
        loads=int(rng.integers(0, 2)),
        gravity=str(rng.choice(["down", "oblique", "across"])),
    )


def motion(robot: md.Robot, seed: int, samples: int, moves: np.ndarray, noise: float):  # type: ignore[no-untyped-def]
    """Return a log in which some joints move in three sines."""
    rng, t = np.random.default_rng(seed), np.arange(samples) / 100
    w, a = rng.uniform(1, 6, (3, robot.n)), moves * rng.uniform(0.1, 0.6, (3, robot.n))
    angle = t[:, None, None] * w
    q = np.sum(a * np.sin(angle), axis=1)
    dq, ddq = np.sum(a * w * np.cos(angle), axis=1), -np.sum(a * w**2 * np.sin(angle), axis=1)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + noise * np.maximum(np.abs(tau).max(axis=0), 0.1) * rng.normal(size=q.shape)
    return md.Recording(t, q, tau, dq, ddq, joint_names=robot.joint_names)


def fit(seed: int) -> md.Estimate | None:
    """Return a fit of chance: short and poorly excited logs, one or two, many methods.

    None where the log is refused.
    """
    robot, rng = robot_of(seed), np.random.default_rng(10_000 + seed)
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.3))
    moves = (rng.random(robot.n) < rng.choice([0.3, 0.6, 1.0])).astype(float)
    moves[rng.integers(robot.n)] = 1.0
    samples, noise = int(rng.choice([40, 80, 200])), float(rng.choice([1e-6, 1e-3, 2e-2]))
    per_log = seed % 4 == 0
    logs = [motion(robot, 10 * seed + k, samples, moves, noise) for k in range(1 + per_log)]
    methods = ["wls", "ols", "irls", "parallel", "iv", "energy", "momentum"]
    try:
        return md.identify(
            robot,
            concatenate(logs) if per_log else logs[0],
            "wls" if per_log else str(rng.choice(methods)),
            friction=[(), ("viscous", "coulomb"), ("viscous", "coulomb", "offset")][seed % 3],
            friction_per="log" if per_log else None,
            prior=[robot, None, False][int(rng.integers(3))],
            force=True,
        )
    except md.MinidynError:
        return None


def check(estimate: md.Estimate) -> None:
    """Covariances are symmetric to the bit and have no negative eigenvalue; open is infinite."""
    for name in COVARIANCES:
        matrix = getattr(estimate, name)
        if matrix is None:
            continue
        known = np.isfinite(np.diag(matrix))
        inner = matrix[np.ix_(known, known)]
        assert np.array_equal(inner, inner.T), name
        assert np.all(np.diag(matrix) >= 0), name
        unit = np.sqrt(np.maximum(np.diag(inner), 1e-300))
        values = np.linalg.eigvalsh(inner / np.outer(unit, unit))
        assert values.min(initial=0.0) > -1e-9, name
        assert np.isposinf(np.diag(matrix)[~known]).all(), name


def fit_of_little(seed: int) -> md.Estimate | None:
    """Return a fit of chance to a log of one joint that moves, or of poses; None where refused."""
    robot, rng = robot_of(seed), np.random.default_rng(20_000 + seed)
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.3))
    noise = float(rng.choice([1e-6, 1e-3, 2e-2]))
    if seed % 3:
        moves = np.eye(robot.n)[rng.integers(robot.n)]
        log = motion(robot, seed, int(rng.choice([40, 80, 200])), moves, noise)
    else:
        log = held(robot, int(rng.choice([8, 20, 60])), seed, noise, known=True)
    prior = [robot, None, False][int(rng.integers(3))]
    friction = ((), ("viscous", "coulomb", "offset"))[seed % 2]
    try:
        return md.identify(robot, log, friction=friction, prior=prior, force=True)
    except md.MinidynError:
        return None


def test_logs_that_show_little_leave_no_negative_variance() -> None:
    """Of 657 such fits 47 had variances down to -9e10, and deviations that are not numbers."""
    consistent = opened = 0
    for seed in range(count(30, 600)):
        estimate = fit_of_little(seed)
        if estimate is None:
            continue
        check(estimate)
        consistent += estimate.consistent
        if np.isinf(estimate.std).any():
            opened += 1
            assert "consistency.open" in {notice.code for notice in estimate.notices}, seed
    assert consistent > count(8, 200)
    assert opened


def test_every_estimate_that_is_saved_loads(tmp_path: Path) -> None:
    """Random robots, grippers, loads, friction of each log, motions that show little."""
    fitted = 0
    for seed in range(count(24, 700)):
        estimate = fit(seed)
        if estimate is None:
            continue
        fitted += 1
        check(estimate)
        estimate.save(tmp_path / "estimate.json")
        back = md.load_estimate(tmp_path / "estimate.json")
        for name in ("beta", "sigma", *COVARIANCES):
            np.testing.assert_array_equal(getattr(back, name), getattr(estimate, name))
        assert back.notices == estimate.notices
    assert fitted > count(12, 300)


@pytest.mark.parametrize("path", sorted(SAVED.glob("estimate_version_*.json")), ids=str)
def test_estimates_of_earlier_versions_load(path: Path) -> None:
    """Whatever rounding made of their covariances.

    Version 4 was written at commit 1730409 by `fit`, and by fits of a two-joint arm with a load,
    with friction of each log, and one joint at a time with three samples for three constants.
    That version refused four of these six files.
    """
    estimate = md.load_estimate(path)
    check(estimate)
    said = {notice.code for notice in estimate.notices}
    spoiled = "negative_variances" in path.name or "poorly_excited" in path.name
    assert ("estimate.no_covariance" in said) == (spoiled or "one_joint" in path.name)
    assert np.isfinite(estimate.beta).all()
    t = np.arange(50) / 100
    q = 0.3 * np.sin(np.outer(t, np.arange(1, estimate.robot.n + 1)))
    log = md.Recording(t, q, None, q, q, joint_names=estimate.robot.joint_names)
    assert np.isfinite(estimate.predict(log)).all()


def test_a_joint_without_a_sample_over_has_open_deviations(tmp_path: Path) -> None:
    """Three samples for three constants: deviations were NaN, and the file could not be read."""
    robot = md.load("two_link").with_drives(False, ())
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    runs = [
        motion(robot, k, samples, np.eye(2)[k], 1e-2)[::step]
        for k, (samples, step) in enumerate(((90, 30), (300, 10)))
    ]
    estimate = md.identify_one_joint(robot, runs)
    check(estimate)
    assert np.isinf(estimate.std[:3]).all()
    assert np.isfinite(estimate.std[3:]).all()
    (notice,) = (one for one in estimate.notices if one.code == "one_joint.no_sample_over")
    assert notice.data["joints"] == ["joint1"]
    estimate.save(tmp_path / "estimate.json")
    assert np.array_equal(md.load_estimate(tmp_path / "estimate.json").std, estimate.std)


def test_roots_keep_covariances_positive() -> None:
    """Sizes of 1e-9 and 1e9 beside each other, rounding and open parameters."""
    from minidyn.arrays import covariance_root, left_open, of_roots

    rng = np.random.default_rng(0)
    for _ in range(50):
        size = 10.0 ** rng.uniform(-9, 9, 6)
        half = rng.normal(size=(6, int(rng.integers(1, 7))))
        whole = of_roots(size[:, None] * half)
        assert np.array_equal(whole, whole.T)
        root = covariance_root(whole)
        np.testing.assert_allclose(of_roots(root) / np.outer(size, size), half @ half.T, atol=1e-12)
        is_open = rng.random(6) < 0.3
        opened = covariance_root(left_open(whole, is_open))
        assert not opened[is_open].any()
