"""Changed copies of the fitted log are fitted data; a second run and other runs are not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

import minidyn as md
from conftest import count
from minidyn.recording.motion_sketch import MotionSketch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from alarm_logs import ROBOTS, Log, healthy, motion_log, true_robot

UR10 = Path(__file__).parents[3] / "shared" / "data" / "ur10_exciting"

Array = np.ndarray
Change = Callable[[md.Recording], md.Recording]


def step(log: md.Recording) -> float:
    return float(np.median(np.diff(log.t)))


def at(log: md.Recording, times: Array) -> md.Recording:
    """Return a log resampled at other times."""
    q, tau = (
        np.stack([np.interp(times, log.t, column) for column in np.asarray(signal).T], axis=1)
        for signal in (log.q, log.tau)
    )
    return md.Recording(times, q, tau, joint_names=log.joint_names)


def at_rate(rate: float) -> Change:
    return lambda log: at(log, np.arange(log.t[0], log.t[-1], 1 / rate))


def half_step(log: md.Recording) -> md.Recording:
    return at(log, log.t[:-1] + step(log) / 2)


def low_passed(frequency: float, *signals: str) -> Change:
    def change(log: md.Recording) -> md.Recording:
        share = min(2 * frequency * step(log), 0.9)
        sos = butter(2, share, output="sos")
        return replace(
            log, **{name: sosfiltfilt(sos, getattr(log, name), axis=0) for name in signals}
        )

    return change


def noisy(size: float, *signals: str) -> Change:
    def change(log: md.Recording) -> md.Recording:
        rng = np.random.default_rng(5)
        values = {name: np.asarray(getattr(log, name)) for name in signals}
        return replace(
            log,
            **{
                name: x + size * x.std(axis=0) * rng.normal(size=x.shape)
                for name, x in values.items()
            },
        )

    return change


def scaled(name: str, factor: float) -> Change:
    return lambda log: replace(log, **{name: factor * np.asarray(getattr(log, name))})


def offset(size: float) -> Change:
    return lambda log: replace(log, q=log.q + size * (np.arange(log.n) == 1))


def middle(log: md.Recording) -> md.Recording:
    part = log[len(log) // 4 : 3 * len(log) // 4]
    return replace(part, t=part.t - 3.3)


def mean_of_three(log: md.Recording) -> md.Recording:
    columns = [np.convolve(column, np.ones(3) / 3, "same") for column in np.asarray(log.tau).T]
    return replace(log, tau=np.stack(columns, axis=1))


CHANGES: dict[str, Change] = {
    "resampled by half a step": half_step,
    "resampled to 230 Hz": at_rate(230.0),
    "resampled to 97 Hz": at_rate(97.0),
    "every second sample": lambda log: log[::2],
    "later, to 180 Hz": lambda log: at_rate(180.0)(replace(log, t=log.t + 100.0)),
    "0.1 % noise": noisy(1e-3, "q", "tau"),
    "1 % noise": noisy(1e-2, "q", "tau"),
    "1 % noise of the torques": noisy(1e-2, "tau"),
    "0.1 % noise of the positions": noisy(1e-3, "q"),
    "half a step and 0.1 % noise": lambda log: noisy(1e-3, "q", "tau")(half_step(log)),
    "low-passed at 40 Hz": low_passed(40.0, "q", "tau"),
    "low-passed at 20 Hz": low_passed(20.0, "q", "tau"),
    "torques low-passed at 10 Hz": low_passed(10.0, "tau"),
    "means of three torques": mean_of_three,
    "torques times 1.002": scaled("tau", 1.002),
    "torques times 1.02": scaled("tau", 1.02),
    "positions times 1.002": scaled("q", 1.002),
    "positions times 1.02": scaled("q", 1.02),
    "an offset of 0.1 of one joint": offset(0.1),
    "an offset of 1 of one joint": offset(1.0),
    "torques with an offset": lambda log: replace(log, tau=np.asarray(log.tau) + 0.5),
    "a part, with other times": middle,
}


def recorded(log: Log) -> md.Recording:
    return md.Recording(log.t, log.q, log.tau, joint_names=log.file.joint_names)


def runs(seed: int, others: int) -> tuple[md.Recording, md.Recording, list[md.Recording]]:
    """Return a healthy log, its program run a second time, and other motions of the same robot."""
    fitted, rng = healthy(seed), np.random.default_rng(seed)
    file = md.load(ROBOTS[seed % len(ROBOTS)])
    true, slow = true_robot(file, rng), float(rng.choice([1.0, 2.0]))

    def run(number: int) -> md.Recording:
        motion = md.trajectory.fourier(
            file, seed=seed + 1000 * number, period=10.0 * slow, speed=2.0 / slow
        )
        noise = np.random.default_rng(seed + 777 + number)
        return recorded(motion_log(file, true, seed, noise, motion, 10.0 * slow, fitted))

    return recorded(fitted), run(0), [run(1 + k) for k in range(others)]


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
