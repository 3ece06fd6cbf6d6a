"""What torques show of their own scale: one joint against the others, nothing of a common one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from test_torque_scale import robot_and_log

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main

UR10 = Path(__file__).parents[3] / "shared" / "data" / "ur10_exciting"
ROBOTS = ("panda", "ur10e", "puma560")


def with_gain(log: md.Recording, factor: float) -> md.Recording:
    gains = np.where(np.arange(log.n) == 1, factor, 1.0)
    return replace(log, tau=np.asarray(log.tau) * gains)


def contradictions(robot: md.Robot, log: md.Recording) -> list[md.Notice]:
    estimate = md.identify(robot, log, prior=False, consistent=False)
    found = [notice for notice in estimate.notices if notice.code == "signals.joint_scale"]
    reds = [rule.text for rule in estimate.verdict().rules if rule.level == "bad"]
    assert any("signals.joint_scale" in text for text in reds) is bool(found)
    return found


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("name", ROBOTS[: count(2, 3)])
def test_one_gain_contradicts_the_others_without_a_prior(name: str, factor: float) -> None:
    for seed in range(1, 1 + count(1, 8)):
        robot, log = robot_and_log(name, seed)
        robot = robot.with_parameters(None)  # nothing is known
        found = contradictions(robot, with_gain(log, factor))
        assert len(found) == (factor != 1.0)
        for notice in found:
            assert notice.data["joints"] == [robot.joint_names[1]]
            assert notice.data["factor"] == pytest.approx(factor, rel=0.1)
            assert notice.level == "error"


def test_of_two_joints_either_may_be_wrong() -> None:
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    t = np.arange(3000) / 200
    motion = md.trajectory.fourier(robot, seed=1)(t)
    tau = md.inverse_dynamics(robot, *motion)
    tau = tau + 0.01 * np.random.default_rng(0).normal(size=tau.shape) * tau.std(axis=0)
    log = md.Recording(t, motion[0], tau, joint_names=robot.joint_names)
    (found,) = contradictions(robot, with_gain(log, 0.7))
    assert set(found.data["joints"]) == set(robot.joint_names)


@pytest.mark.skipif(not UR10.is_dir(), reason="the log of a UR10 is not there")
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
def test_a_measured_log(factor: float) -> None:
    robot = md.load(UR10 / "ur10.urdf")
    log = md.read_recording(UR10 / "ur10_exciting_trajectory.db3", robot)
    found = [
        notice.data
        for notice in md.check(robot, with_gain(log, factor)).notices
        if notice.code == "signals.joint_scale"
    ]
    assert len(found) == (factor != 1.0)
    for data in found:
        assert data["joints"] == [robot.joint_names[1]]
        assert data["factor"] == pytest.approx(factor, rel=0.1)


def test_the_verdict_says_what_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    robot, log = robot_and_log("ur10e", 1, 0.05)
    known = md.identify(robot, log)
    (words,) = known.verdict().verified
    (notice,) = [one for one in known.notices if one.code == "signals.scale_checked"]
    assert 0.05 <= notice.data["within"] <= 0.5
    assert f"was checked to within ±{100 * notice.data['within']:.0f} % against the robot" in words
    assert robot.joint_names[1] in notice.data["joints"]
    assert robot.joint_names[-1] in notice.data["others"]
    unknown = md.identify(robot, log, prior=False, consistent=False)
    assert unknown.verdict().verified == (
        "the scale of the torques was not checked: no known masses",
    )
    page = md.report(unknown, {}, "r.html", code=False).read_text(encoding="utf-8")
    assert "The scale of the torques was not checked: no known masses." in page
    assert unknown.verdict().to_json()["verified"] == list(unknown.verdict().verified)
    known.save("estimate.json")
    log.save("log.csv")
    shown = CliRunner().invoke(main, ["-q", "validate", "estimate.json", "log.csv"]).stdout
    assert words in shown


def test_a_check_that_is_coarse_says_so() -> None:
    """Half the mass of the file again: the scale is known, though not within 50 %."""
    robot, log = robot_and_log("ur10e", 1, 0.05)
    coarse = md.identify(robot, replace(log, tau=1.4 * np.asarray(log.tau)))
    (notice,) = [one for one in coarse.notices if one.code == "signals.scale_checked"]
    assert 0.5 < notice.data["within"] < 1.0
    (words,) = coarse.verdict().verified
    assert f"was checked to within ±{100 * notice.data['within']:.0f} % against" in words


def test_torques_that_are_computed_from_the_file_are_suspected() -> None:
    for name in ROBOTS[: count(2, 3)]:
        robot = md.load(name).with_drives(False, ())
        t = np.arange(2000) / 200
        motion = md.trajectory.fourier(robot, seed=1)(t)
        tau = md.inverse_dynamics(robot, *motion)
        for noise, friction, is_suspected in (
            (0.0, 0.0, True),
            (0.01, 0.0, False),
            (0.0, 0.02, False),
        ):
            size = tau.std(axis=0)
            more = noise * np.random.default_rng(0).normal(size=tau.shape) + friction * np.sign(
                motion[1]
            )
            log = md.Recording(t, motion[0], tau + more * size, joint_names=robot.joint_names)
            codes = {notice.code for notice in md.check(robot, log).notices}
            assert ("signals.computed" in codes) is is_suspected, (name, noise, friction)
