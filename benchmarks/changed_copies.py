"""How many changed copies of a fitted log are recognised, and how many other runs taken for one.

    python benchmarks/changed_copies.py [--logs 40] [--others 8]

Healthy simulated logs (alarm_logs.py) are changed in 22 ways, their program is run a second time
with new noise, and the same robot records other motions. The same is asked of the measured logs of
the UR10, the TX40, the KR300 and the Panda (real_robots.py), each whole and against the others.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.signal import butter, sosfiltfilt

import minidyn as md
import real_robots
from alarm_logs import ROBOTS, Log, healthy, motion_log, true_robot
from minidyn.recording.motion_sketch import MotionSketch

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


def plain(log: md.Recording) -> md.Recording:
    """Return times, positions and torques of a measured log."""
    return md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names)


def measured() -> dict[str, list[md.Recording]]:
    """Return measured logs by robot; those of one robot are different motions."""
    _, first, second = real_robots.ur10()
    _, tx40, _ = real_robots.tx40()
    _, kr300 = real_robots.kr300()
    _, panda = real_robots.panda()
    ur10 = plain(first)
    return {
        "UR10": [ur10.part(0.0, 0.7), ur10.part(0.7), plain(second)],
        "TX40": [plain(tx40).part(0.0, 0.5), plain(tx40).part(0.5)],
        "KR300": [plain(log) for log in kr300.values()],
        "Panda": [plain(panda).part(0.0, 0.7), plain(panda).part(0.7)],
    }


def missed(fitted: md.Recording) -> list[str]:
    """Return the changes that hide that a log was fitted."""
    known = MotionSketch.of(fitted)
    assert known is not None
    return [name for name, change in CHANGES.items() if not known.compare(change(fitted)).is_copy]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--others", type=int, default=8)
    given = parser.parse_args()
    begin, hidden, alarms, again, runs_asked = time.monotonic(), Counter[str](), 0, 0, 0
    for seed in range(given.logs):
        fitted, second, others = runs(seed, given.others)
        hidden.update(missed(fitted))
        known = MotionSketch.of(fitted)
        assert known is not None
        alarms += sum(known.compare(other).is_copy for other in (second, *others))
        again += known.compare(second).share > 0.75
        runs_asked += 1 + len(others)
    if given.logs:
        share = 1.0 - hidden.total() / (given.logs * len(CHANGES))
        print(f"simulated: {100 * share:.1f} % of {given.logs * len(CHANGES)} copies found, "
              f"{alarms} of {runs_asked} other runs taken for copies, "
              f"{again} of {given.logs} second runs recognised")  # fmt: skip
        print("  not found:", dict(hidden.most_common()))
    for robot, logs in measured().items():
        pairs = [(a, b) for a in logs for b in logs if a is not b]
        wrong = sum(MotionSketch.of(a).compare(b).is_copy for a, b in pairs)  # type: ignore[union-attr]
        lost = Counter(name for log in logs for name in missed(log))
        total = len(logs) * len(CHANGES)
        print(f"{robot}: {total - lost.total()} of {total} copies found, {wrong} of {len(pairs)} "
              f"other logs taken for copies; not found: {dict(lost)}")  # fmt: skip
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
