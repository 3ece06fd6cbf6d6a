"""Stated uncertainty is true uncertainty.

Raw logs with noise, friction, delay and encoder steps.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

import minidyn as md
from conftest import OWN, count

Array = NDArray[np.float64]
SEEDS = count(6, 40)
RATE, SECONDS = 400.0, 20.0
NOISE = np.array([0.5, 1.5, 0.8, 0.2])  # N m


def robot_with(friction: tuple[str, ...]) -> md.Robot:
    robot = md.load("puma4").with_drives(friction=friction)
    rng = np.random.default_rng(0)
    values = np.where(
        np.isnan(robot.parameters), rng.uniform(0.4, 1.2, len(robot.parameters)), robot.parameters
    )
    return robot.with_parameters(values).with_drives(sign_width=0.05)


def log(
    robot: md.Robot, seed: int, memory: float = 0.0, step: float = 0.0, delay: float = 0.0
) -> md.Recording:
    """Return positions as an encoder reads them, and torques that are noisy and late."""
    t = np.arange(0, SECONDS, 1 / RATE)
    trajectory = md.trajectory.fourier(robot, seed=1, speed=3.0)
    tau = md.inverse_dynamics(robot, *trajectory(t - delay))
    white = np.random.default_rng(seed).normal(size=tau.shape)
    tau = tau + NOISE * lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], white, axis=0)
    q = trajectory(t)[0]
    return md.Recording(
        t, np.round(q / step) * step if step else q, tau, joint_names=robot.joint_names
    )


def scores(robot: md.Robot, settings: dict[str, float], **faults: float) -> Array:
    """Return errors over stated standard deviations (seeds, b)."""
    found = []
    for seed in range(SEEDS):
        estimate = md.identify(
            robot,
            md.prepare(robot, log(robot, seed, **faults), **settings),
            consistent=False,
            **OWN,
        )
        found.append((estimate.beta - estimate.base.values(robot.parameters)) / estimate.std)
    return np.array(found)


@pytest.mark.parametrize(
    ("friction", "faults", "settings"),
    [
        ((), {}, {}),
        ((), {"memory": 0.95}, {}),
        (("viscous", "coulomb", "offset"), {}, {"cutoff": 40.0}),
        (("viscous", "coulomb"), {"step": 1e-4}, {"cutoff": 30.0}),
        (("viscous", "coulomb"), {"delay": 0.006}, {"cutoff": 40.0, "delay": 0.006}),
    ],
    ids=["noise", "slow noise", "friction", "encoder steps", "delay"],
)
def test_intervals_hold_the_truth(
    friction: tuple[str, ...], faults: dict[str, float], settings: dict[str, float]
) -> None:
    found = scores(robot_with(friction), settings, **faults)
    covered = float(np.mean(np.abs(found) < 1.96))
    assert 0.88 < covered < 0.995, f"{100 * covered:.1f} % of 95 % intervals hold the truth"
    assert 0.75 < np.sqrt(np.mean(found**2)) < 1.3


DELAY = "identify.torque_delay"


@pytest.mark.parametrize("delay", [0.006, -0.011, 0.025])
def test_a_delay_is_reported_and_moved_on_request(delay: float) -> None:
    robot = robot_with(("viscous", "coulomb"))
    late, fresh = log(robot, 0, delay=delay), log(robot, 7, delay=delay)
    estimate = md.identify(robot, late, consistent=False, **OWN)
    [notice] = [one for one in estimate.notices if one.code == DELAY]
    assert abs(notice.data["delay"] - delay) < 0.001
    assert "delay" not in estimate.record["preparation"]
    moved = md.identify(robot, md.prepare(robot, late, delay=delay), consistent=False, **OWN)
    assert DELAY not in {one.code for one in moved.notices}
    assert moved.record["preparation"]["delay"] == delay
    best = md.validate(moved, fresh).rmse
    assert best < md.validate(estimate, fresh).rmse  # of which most is noise: it stays as it is
    ready = md.prepare(robot, fresh)
    # moved there, too; thinned samples of raw torques have moved by whole samples
    assert md.validate(moved, ready).rmse == pytest.approx(best, rel=0.06)

    def misfit(model: md.Estimate, shift: float) -> float:
        test = md.prepare(robot, fresh, delay=shift)
        return float(np.sqrt(np.mean((test.tau - model.predict(test)) ** 2)))

    assert misfit(moved, delay) < (0.99 if abs(delay) < 0.01 else 0.96) * misfit(estimate, 0.0)


def test_punctual_torques_stay() -> None:
    robot = robot_with(("viscous", "coulomb"))
    estimate = md.identify(robot, log(robot, 0), consistent=False, **OWN)
    assert DELAY not in {notice.code for notice in estimate.notices}
    assert "delay" not in estimate.record["preparation"]


@pytest.mark.parametrize("known", [False, True], ids=["width chosen", "width given"])
def test_friction_that_turns_at_once_is_within_its_intervals(known: bool) -> None:
    """The low-pass of preparation rounds the edges of friction.

    What that leaves open is part of the uncertainty.
    """
    robot = md.load("ur10e").with_drives(friction=("viscous", "coulomb"), sign_width=1e-3)
    values = robot.parameters.copy()
    for column in (column for columns in robot.layout.drives for column in columns):
        values[column.index] = {"Fv": 2.0, "Fc": 3.0}[column.symbol] * 0.7**column.joint
    sharp = robot.with_parameters(values)
    described = sharp if known else sharp.with_drives(sign_width=0.0)
    t = np.arange(0, 10.0, 1 / 500)
    found = []
    for seed in range(2):
        q, dq, ddq = md.trajectory.fourier(sharp, seed=seed)(t)
        tau = md.inverse_dynamics(sharp, q, dq, ddq)
        tau = tau + 0.01 * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
        estimate = md.identify(
            described,
            md.Recording(t, q, tau, joint_names=sharp.joint_names),
            consistent=False,
            **OWN,
        )
        turning = [name.startswith("F") for name in estimate.names]
        found.append(((estimate.beta - estimate.base.values(values)) / estimate.std)[turning])
    size = float(np.sqrt(np.mean(np.square(found))))
    assert 0.3 < size < 1.5
