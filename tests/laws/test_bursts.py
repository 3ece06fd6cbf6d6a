"""A moment that makes most of an error is reported with joint, time and share."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import minidyn as md  # noqa: E402
import real_robots  # noqa: E402
from alarm_logs import healthy  # noqa: E402
from minidyn.identification.diagnose.bursts import bursts  # noqa: E402

CODE, SMALL = "signals.burst", "signals.concentrated"


def recording(seed: int) -> tuple[md.Robot, md.Recording]:
    log = healthy(seed, ("scara", "panda", "ur10e"))
    return log.file, md.Recording(log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names)


def hit(log: md.Recording, joint: int, begin: float) -> md.Recording:
    """Return the log with four times a joint's torque more for 0.4 s."""
    tau, t = np.array(log.tau), np.asarray(log.t)
    held = (t >= begin) & (t < begin + 0.4)
    tau[held, joint] += 4.0 * tau[:, joint].std()
    return replace(log, tau=tau)


def reported(notices: tuple[md.Notice, ...]) -> list[md.Notice]:
    return [notice for notice in notices if notice.code == CODE]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fit_and_validation_say_when_and_where(seed: int) -> None:
    robot, log = recording(seed)
    estimate = md.identify(robot, log, auto=False, consistent=False)
    assert not reported(estimate.notices)
    assert not reported(md.validate(estimate, log).notices)
    joint, wrong = seed % robot.n, hit(log, seed % robot.n, 4.0)
    fitted = md.identify(robot, wrong, auto=False, consistent=False)
    for notices in (fitted.notices, md.validate(estimate, wrong).notices):
        first, *_ = reported(notices)
        assert first.data["joint"] == robot.joint_names[joint]
        assert first.data["begin"] == pytest.approx(4.0, abs=0.15)
        assert first.data["end"] == pytest.approx(4.4, abs=0.15)
        assert first.data["share"] > 0.5
        assert "of the squared error lies between" in first.text


def test_a_slow_reversal_is_no_warning() -> None:
    """Friction that reverses sharply in the model and softly in the robot: half a second, small."""
    robot, log = recording(1)
    estimate = md.identify(robot, log, auto=False, consistent=False)
    (notice,) = [notice for notice in estimate.notices if notice.code == SMALL]
    assert (notice.level, notice.data["joint"]) == ("info", "panda_joint3")


def test_shares_and_times_are_those_of_the_residual() -> None:
    t = np.concatenate([np.arange(1000) / 100.0, 50.0 + np.arange(1000) / 100.0])
    residual = np.random.default_rng(0).normal(size=(2000, 2)) * 0.1
    inside = (t >= 52.0) & (t < 52.3)
    residual[inside, 1] = 3.0
    (found,) = bursts(t, residual, (0, 1000))
    share = np.sum(residual[inside, 1] ** 2) / np.sum(residual[:, 1] ** 2)
    assert (found.joint, found.begin, found.end) == (1, 52.0, pytest.approx(52.29))
    assert found.share == pytest.approx(share, rel=0.01)
    assert not bursts(t, np.delete(residual, 1, axis=1), (0, 1000))
    assert not bursts(t[:60], residual[:60])  # a log of half a second
    assert not bursts(t, 0.0 * residual)


@pytest.mark.skipif(
    not real_robots.DATA.is_dir(), reason="the measurements in ../shared/data are not here"
)
def test_real_logs_have_none() -> None:
    for pair in real_robots.pairs():
        estimate = md.identify(pair.robot, pair.fitted, auto=False, consistent=False)
        test = md.validate(estimate, pair.test)
        codes = {notice.code for notice in (*estimate.notices, *test.notices)}
        assert not codes & {CODE, SMALL}, pair.name
