"""Recordings in many short runs: files of a few seconds, or a log with hundreds of gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minidyn as md

ROBOT = md.load("two_link")
RATE, SAMPLES = 200.0, 300  # of a run, Hz
FRICTION = ("viscous", "coulomb")


def run(seed: int, samples: int = SAMPLES) -> md.Recording:
    """Return a run of sines with other phases than any other, as an encoder logs it."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / RATE
    omega = 2 * np.pi * np.array([0.5, 1.1, 1.9])
    phase, size = rng.uniform(0, 2 * np.pi, (2, 3)), rng.uniform(0.1, 0.4, (2, 3))
    angle = omega * t[:, None, None] + phase
    q, dq = np.sum(size * np.sin(angle), -1), np.sum(size * omega * np.cos(angle), -1)
    ddq = -np.sum(size * omega**2 * np.sin(angle), -1)
    tau = md.inverse_dynamics(ROBOT, q, dq, ddq) + rng.normal(0.0, 0.05, q.shape)
    return md.Recording(t, q + rng.normal(0.0, 1e-3, q.shape), tau, joint_names=ROBOT.joint_names)


def assert_near_truth(estimate: md.Estimate, relative: float = 0.1) -> None:
    """Torques of the model are those of the robot on a run that it did not see."""
    seen = run(10**6)
    motion = md.prepare(ROBOT, seen, cutoff=10.0)
    true = md.inverse_dynamics(ROBOT, motion.q, motion.dq, motion.ddq)
    error = md.inverse_dynamics(estimate.robot, motion.q, motion.dq, motion.ddq) - true
    assert np.linalg.norm(error) < relative * np.linalg.norm(true)


def files(folder: Path, count: int) -> list[Path]:
    """Return paths of logs of one run each."""
    paths = [folder / f"{number:04}.npz" for number in range(count)]
    for number, path in enumerate(paths):
        run(number).save(path)
    return paths


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
def test_many_files_in_memory_and_on_disk(count: int, tmp_path: Path) -> None:
    paths = files(tmp_path, count)
    for lazy in (False, True):
        recording = md.read_recording(paths, ROBOT, lazy=lazy)
        assert len(recording.runs) == count
        estimate = md.identify(ROBOT, recording, friction=FRICTION)
        assert_near_truth(estimate)
        assert np.all(np.isfinite(md.validate(estimate, recording).rmse))


def test_a_log_with_666_gaps() -> None:
    whole = run(0, 100 * 667)
    kept = np.arange(len(whole)) % 100 < 90  # packets of ten samples are lost
    signals = {"q": whole.q[kept], "tau": whole.tau[kept]}
    log = md.Recording(whole.t[kept], **signals, joint_names=ROBOT.joint_names)
    assert_near_truth(md.identify(ROBOT, log, friction=FRICTION))


def test_slices_of_runs_keep_their_starts() -> None:
    sizes = [3, 1, 4, 1, 5]
    whole = md.concatenate([run(number, size) for number, size in enumerate(sizes)])
    for begin in range(15):
        for end in range(begin + 1, 15):
            for step in (1, 2, 3, 7):
                rows = np.arange(14)[begin:end:step]
                number = np.searchsorted(whole.starts, rows, side="right")
                new = np.flatnonzero(np.diff(number, prepend=-1))
                expected = tuple(new.tolist()) or (0,) * bool(len(rows))
                assert whole[begin:end:step].starts == expected


@pytest.mark.parametrize("value", [1e13, -1e200, np.inf])
@pytest.mark.parametrize("samples", [1, SAMPLES])
def test_values_of_no_robot_count_as_lost(value: float, samples: int) -> None:
    """A few are bridged; a torque that has no others is not measured."""
    log = md.concatenate([run(number) for number in range(5)])
    tau = np.array(log.tau)
    tau[40 : 40 + samples, 1] = value
    odd = md.Recording(log.t, log.q, tau, joint_names=ROBOT.joint_names, starts=log.starts)
    assert_near_truth(md.identify(ROBOT, odd, friction=FRICTION))
    tau[:, 1] = value
    every = md.Recording(log.t, log.q, tau, joint_names=ROBOT.joint_names, starts=log.starts)
    found = md.identify(ROBOT, every, friction=FRICTION)
    assert list(found.record["preparation"]["unmeasured"]) == ["joint2"]
