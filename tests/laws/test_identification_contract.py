"""One contract for every method.

Exact without noise, blind to order and units, calibrated, repeatable, possible.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

import minidyn as md
from conftest import OWN, count
from minidyn.identification.consistency.certificate import certify
from minidyn.identification.estimators.methods import ANY_MOTION

Array = NDArray[np.float64]
EVERY = ANY_MOTION  # one joint at a time: tests/laws/test_one_joint.py
NOISE = np.array([0.3, 1.0, 0.5, 0.1])  # N m


def truth(name: str = "puma4", seed: int = 0) -> md.Robot:
    robot = md.load(name).with_drives(friction=("viscous", "coulomb", "offset"))
    rng = np.random.default_rng(seed)
    return robot.with_parameters(
        np.where(
            np.isnan(robot.parameters),
            rng.uniform(0.2, 0.8, len(robot.parameters)),
            robot.parameters,
        )
    )


ROBOT = truth()


def motion(robot: md.Robot = ROBOT, samples: int = 3000, seed: int = 0) -> md.Recording:
    t = np.linspace(0, 20, samples)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=3.0)(t)
    return md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, ddq, robot.joint_names)


def noisy(
    recording: md.Recording, seed: int, memory: float = 0.0, size: Array = NOISE
) -> md.Recording:
    white = np.random.default_rng(seed).normal(size=recording.q.shape)
    noise = size * lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], white, axis=0)
    return md.Recording(
        recording.t,
        recording.q,
        recording.tau + noise,
        recording.dq,
        recording.ddq,
        recording.joint_names,
    )


def fitted(recording: md.Recording, method: str, robot: md.Robot = ROBOT) -> md.Estimate:
    """Return the plain estimate.

    Friction turns round at once, so that nothing but the method decides.
    """
    return md.identify(robot, recording, method, consistent=False, sign_width=0.0, **OWN)


@pytest.mark.parametrize("method", EVERY)
def test_exact_without_noise(method: str) -> None:
    clean = motion()
    estimate = fitted(clean, method)
    true = estimate.base.values(ROBOT.parameters)
    np.testing.assert_allclose(estimate.beta, true, rtol=1e-6, atol=1e-6 * np.abs(true).max())
    other = motion(seed=9)
    assert md.validate(estimate, other).relative_error < 1e-5


@pytest.mark.parametrize("method", EVERY)
def test_order_of_runs_and_joints_does_not_matter(method: str) -> None:
    one, two = noisy(motion(samples=800), 1), noisy(motion(samples=700, seed=1), 2)
    first = fitted(md.concatenate([one, two]), method)
    second = fitted(md.concatenate([two, one]), method)
    np.testing.assert_allclose(
        first.beta, second.beta, rtol=1e-6, atol=1e-6 * np.abs(first.beta).max()
    )
    turned = [2, 0, 3, 1]
    signals = (one.q, one.tau, one.dq, one.ddq)
    q, tau, dq, ddq = (values[:, turned] for values in signals if values is not None)
    shuffled = md.Recording(one.t, q, tau, dq, ddq, [one.joint_names[k] for k in turned])
    np.testing.assert_allclose(fitted(shuffled, method).beta, fitted(one, method).beta, rtol=1e-9)


@pytest.mark.parametrize("method", EVERY)
def test_units_of_the_file_do_not_matter(method: str, tmp_path: Path) -> None:
    """The same log in degrees and milliseconds, mapped, gives the same parameters."""
    log = noisy(motion(samples=800), 3)
    names = log.joint_names
    for name, angle, time in (("si", 1.0, 1.0), ("other", 180 / np.pi, 1e3)):
        table = np.column_stack([time * log.t, angle * log.q, angle * log.dq, log.tau])
        head = ["t", *(f"{kind}_{joint}" for kind in ("q", "dq", "tau") for joint in names)]
        np.savetxt(
            tmp_path / f"{name}.csv",
            table,
            delimiter=",",
            header=",".join(head),
            comments="",
            fmt="%.17g",
        )
    si = md.read_recording(tmp_path / "si.csv", ROBOT)
    other = md.read_recording(tmp_path / "other.csv", ROBOT, units="deg", time_unit="ms")
    np.testing.assert_allclose(other.q, si.q, rtol=1e-12, atol=1e-12)
    found = [fitted(recording, method).beta for recording in (si, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-7 * np.abs(found[0]).max())


@pytest.mark.parametrize("method", EVERY)
def test_the_same_twice(method: str) -> None:
    robot = truth("two_link")
    log = noisy(motion(robot, samples=600), 4, size=NOISE[:2])
    first, second = (md.identify(robot, log, method, sign_width=0.0, **OWN) for _ in range(2))
    np.testing.assert_array_equal(first.beta, second.beta)
    np.testing.assert_array_equal(first.parameters, second.parameters)
    np.testing.assert_array_equal(first.covariance, second.covariance)
    assert first.notices == second.notices


@pytest.mark.parametrize("method", EVERY)
def test_consistent_models_can_exist(method: str) -> None:
    """Little and noisy data.

    Whatever the method says, the model is a robot, and predicts as its links do.
    """
    robot = truth("scara")
    log = noisy(motion(robot, samples=400), 5, size=5 * NOISE[: robot.n])
    prior = robot.with_parameters(robot.parameters * 1.4)
    estimate = md.identify(prior, log, method, sign_width=0.0, **OWN)
    assert estimate.consistent
    assert certify(estimate.robot).consistent
    np.testing.assert_allclose(
        estimate.beta, estimate.base.values(estimate.parameters), rtol=1e-9, atol=1e-9
    )
    assert log.dq is not None
    assert log.ddq is not None
    np.testing.assert_allclose(
        md.inverse_dynamics(estimate.robot, log.q, log.dq, log.ddq),
        estimate.predict(log),
        atol=1e-9,
    )


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("memory", [0.9, 0.0][: count(1, 2)])
def test_stated_errors_are_true_ones(method: str, memory: float) -> None:
    """Over seeds and parameters.

    Errors over standard deviations have unit size and 95 % intervals hold the truth.
    """
    clean = motion(samples=3000)
    scores = []
    for seed in range(count(4, 40)):
        estimate = fitted(noisy(clean, seed, memory), method)
        scores.append((estimate.beta - estimate.base.values(ROBOT.parameters)) / estimate.std)
    size = float(np.sqrt(np.mean(np.square(scores))))
    assert 0.8 < size < 1.25
    assert 0.88 < float(np.mean(np.abs(scores) < 1.96)) < 0.99
