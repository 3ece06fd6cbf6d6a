"""Changed copies of the fitted log are fitted data; a second run and other runs are not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.recording.motion_sketch import MotionSketch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from alarm_logs import ROBOTS
from changed_copies import CHANGES, measured, runs

UR10 = Path(__file__).parents[3] / "shared" / "data" / "ur10_exciting"


def test_changed_copies_are_found_and_other_runs_are_not() -> None:
    found, alarms, again = list[bool](), list[bool](), list[bool]()
    for seed in range(count(3, 40)):
        fitted, second, others = runs(seed, count(4, 8))
        known = MotionSketch.of(fitted)
        assert known is not None
        for change in CHANGES.values():
            overlap = known.compare(change(fitted))
            found.append(overlap.is_copy and overlap.share > 0.3)
        alarms += [known.compare(other).is_copy for other in (second, *others)]
        again.append(known.compare(second).share > 0.75)
    assert len(CHANGES) >= 20
    assert np.mean(found) >= 0.95
    assert np.mean(alarms) <= 0.01
    assert np.mean(again) >= 0.95


@pytest.mark.skipif(not UR10.is_dir(), reason="the log of a UR10 is not there")
def test_copies_of_a_measured_log_whose_torques_are_smooth() -> None:
    robot = md.load(UR10 / "ur10.urdf")
    log = md.read_recording(UR10 / "ur10_exciting_trajectory.db3", robot)
    fitted = md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names).part(0.0, 0.7)
    known = MotionSketch.of(fitted)
    assert known is not None
    found = [known.compare(change(fitted)).is_copy for change in CHANGES.values()]
    assert np.mean(found) >= 0.8  # noise of 1 % hides that of such torques
    assert not known.compare(log.part(0.7)).is_copy


@pytest.mark.skipif(not UR10.is_dir(), reason="measured logs are not there")
@pytest.mark.parametrize(
    "change", ["resampled to 97 Hz", "low-passed at 20 Hz", "torques low-passed at 10 Hz"]
)
def test_copies_of_fast_measured_logs(change: str) -> None:
    """5 kHz (TX40) and 250 Hz (KR300): what a filter leaves of the noise shows in long pieces."""
    logs = measured()
    for robot in ("TX40", "KR300"):
        fitted, other = logs[robot][:2]
        known = MotionSketch.of(fitted)
        assert known is not None
        assert known.compare(CHANGES[change](fitted)).is_copy
        assert not known.compare(CHANGES[change](other)).is_copy


@pytest.mark.skipif(not UR10.is_dir(), reason="measured logs are not there")
def test_copies_of_a_short_measured_log() -> None:
    """218 samples hold more than one piece, so that one cut off at its beginning is found."""
    _, fitted = measured()["Panda"]
    known = MotionSketch.of(fitted)
    assert known is not None
    assert known.compare(CHANGES["resampled by half a step"](fitted)).is_copy


@pytest.mark.parametrize("change", ["resampled to 230 Hz", "1 % noise", "positions times 1.02"])
def test_the_verdict_calls_them_fitted_data(change: str, tmp_path: Path) -> None:
    fitted, second, (other,) = runs(1, 1)
    file = md.load(ROBOTS[1])
    md.identify(file, fitted).save(tmp_path / "estimate.json")
    estimate = md.load_estimate(tmp_path / "estimate.json")
    copy = md.validate(estimate, CHANGES[change](fitted))
    assert copy.overlap == pytest.approx(1.0, abs=0.2)
    assert not {rule.name: rule for rule in estimate.verdict(copy).rules}["fitted_data"].ok
    assert (md.check(file, CHANGES[change](fitted), fit=estimate).overlap or 0.0) > 0.8
    again = md.validate(estimate, second)
    assert again.overlap == 0.0
    (notice,) = [one for one in again.notices if one.code == "validate.same_motion"]
    assert (notice.level, notice.data["share"]) == ("info", pytest.approx(1.0, abs=0.2))
    new = md.validate(estimate, other)
    assert new.overlap == 0.0
    assert "validate.same_motion" not in {one.code for one in new.notices}
    assert {rule.name: rule for rule in estimate.verdict(new).rules}["fitted_data"].ok


def test_a_sketch_is_bounded_and_survives_a_file() -> None:
    fitted, _, _ = runs(0, 0)
    long = md.concatenate([replace(fitted, t=fitted.t + 100.0 * k) for k in range(5)])
    one, many = MotionSketch.of(fitted), MotionSketch.of(long)
    assert one is not None
    assert many is not None
    assert one.q.shape == many.q.shape
    again = MotionSketch.from_json(one.to_json())
    assert again is not None
    np.testing.assert_allclose(again.q, one.q, rtol=1e-6)
    assert MotionSketch.from_json({"shape": [1, 2]}) is None
    joined = MotionSketch.joined([one, many])
    assert joined is not None
    assert joined.q.shape == one.q.shape
