"""An encoder whose zero is wrong is reported with its value, and nothing else is."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import minidyn as md  # noqa: E402
import real_robots  # noqa: E402
from alarm_logs import healthy, motion_log, true_robot  # noqa: E402
from conftest import count  # noqa: E402

CODE = "signals.encoder_offset"
CASES = [("puma4", 2), ("panda", 1), ("panda", 3), ("ur10e", 3), ("ur10", 3)]
"""Robots, and joints whose torques show an offset: others change parameters alone, or hardly any
torque.
"""
needs_data = pytest.mark.skipif(
    not real_robots.DATA.is_dir(), reason="the measurements in ../shared/data are not here"
)


def logged(name: str, seed: int, offsets: dict[int, float]) -> tuple[md.Robot, md.Recording]:
    """Return a robot's file and a log whose encoders are off by these angles, degrees."""
    file, rng = md.load(name), np.random.default_rng(seed)
    motion = md.trajectory.fourier(file, seed=seed, period=10.0, speed=2.0)
    log = motion_log(file, true_robot(file, rng), seed, rng, motion, 10.0)
    q = log.q + np.radians([offsets.get(joint, 0.0) for joint in range(file.n)])
    return file, md.Recording(log.t, q, log.tau, log.dq, joint_names=file.joint_names)


def reported(robot: md.Robot, log: md.Recording, **options: object) -> list[md.Notice]:
    estimate = md.identify(robot, log, **options)  # type: ignore[arg-type]
    assert "identify.gravity_direction" not in {notice.code for notice in estimate.notices}
    return [notice for notice in estimate.notices if notice.code == CODE]


@pytest.mark.parametrize("seed", range(count(1, 4)))
def test_an_offset_is_reported_with_its_value(seed: int) -> None:
    """Logs with 5 % of noise in the torque hide one of twenty."""
    found = 0
    for name, joint in CASES:
        offset = float(np.random.default_rng(seed).choice([-10.0, -6.0, 6.0, 10.0]))
        robot, log = logged(name, 50 + seed, {joint: offset})
        for notice in reported(robot, log, auto=False, consistent=False):
            ((which, value),) = notice.data["offsets"].items()
            std = math.degrees(notice.data["stds"][which])
            assert which == robot.joint_names[joint]
            assert abs(math.degrees(value) - offset) < max(0.5, 3.0 * std)
            assert f"{which} = {-value:.4g}" in notice.advice
            found += 1
    assert found >= len(CASES) - 1


def test_two_offsets_are_reported() -> None:
    robot, log = logged("panda", 3, {1: 5.0, 3: -7.0})
    (notice,) = reported(robot, log, auto=False, consistent=False)
    assert notice.data["joints"] == [robot.joint_names[1], robot.joint_names[3]]
    values = np.degrees(list(notice.data["offsets"].values()))
    np.testing.assert_allclose(values, [5.0, -7.0], atol=1.0)


def test_the_mapping_that_is_advised_takes_the_offset_off() -> None:
    robot, log = logged("panda", 4, {3: 8.0})
    (notice,) = reported(robot, log, auto=False, consistent=False)
    (value,) = notice.data["offsets"].values()
    right = replace(log, q=log.q - value * (np.arange(robot.n) == 3))
    assert not reported(robot, right, auto=False, consistent=False)


@pytest.mark.parametrize("joint", [0, 6])
def test_what_changes_parameters_alone_is_no_offset(joint: int) -> None:
    """The first joint turns about the vertical; the last one turns its link's parameters."""
    robot, log = logged("panda", 5, {joint: 10.0})
    assert not reported(robot, log, auto=False, consistent=False)


@pytest.mark.parametrize("seed", range(30))
def test_healthy_logs_have_none(seed: int) -> None:
    log = healthy(seed)
    made = md.Recording(log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names)
    assert not reported(log.file, made, auto=False, consistent=False)


@needs_data
def test_real_logs_have_none_and_a_planted_one_is_reported() -> None:
    for group in real_robots.groups():
        for log in (*group.logs.values(), *group.others.values()):
            assert not reported(group.robot, log, auto=False, consistent=False), group.name
    robot, log = real_robots.panda()
    turned = replace(log, q=log.q + np.radians(4.0) * (np.arange(robot.n) == 1))
    (notice,) = reported(robot, turned)
    (value,) = notice.data["offsets"].values()
    assert math.degrees(value) == pytest.approx(4.0, abs=1.0)
