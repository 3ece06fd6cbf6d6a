"""Noisy speeds in the loop and in the log: who is biased, and whose simulation holds."""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.control.controller import Controller
from minidyn.identification.estimators.method import Options
from minidyn.identification.estimators.methods import METHODS

STEP = 2e-3


def shaken(name: str, seed: int, noise: float) -> tuple[md.Recording, md.Robot, Controller]:
    """A loop that answers noisy speeds with torque.

    Speeds and accelerations logged with noise, taken as they are.
    """
    robot = md.load(name).with_drives(
        rotor_inertia=True, friction=("viscous", "coulomb"), sign_width=0.02
    )
    unknown = np.random.default_rng(0).uniform(0.2, 0.8, len(robot.parameters))
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), unknown, robot.parameters))
    law = md.control.computed_torque(robot.with_drives(friction=()), bandwidth=15.0, period=STEP)
    run = md.simulate(
        robot,
        law,
        md.trajectory.fourier(robot, seed=seed),
        6.0,
        dt=STEP,
        noise=1e-5,
        velocity_noise=noise,
        torque_noise=0.2,
        seed=seed,
    )
    ddq = run.ddq + 20 * noise * np.random.default_rng(seed).normal(size=run.q.shape)
    reference = {"q_d": run.telemetry["q_d"]}
    return (
        md.Recording(run.t, run.q, run.tau, run.dq, ddq, run.joint_names, telemetry=reference),
        robot,
        law,
    )


@pytest.mark.parametrize("name", ["two_link", "panda", "ur10e"][: count(1, 3)])
def test_noisy_speeds_in_the_loop_and_in_the_log(name: str) -> None:
    """The robot shakes, and recorded accelerations show it.

    They explain most torque, and are believed by nobody.
    """
    methods = ("wls", "tls", "iv", "didim", "iv, loop", "didim, loop")
    found: dict[str, list[np.ndarray]] = {method: [] for method in methods}
    for seed in range(count(1, 5)):
        recording, robot, law = shaken(name, seed, 0.05)
        base = md.base_parameters(robot)
        for method in methods:
            kind, _, known = method.partition(", ")
            options = Options(controller=law if known else None)
            found[method].append(
                METHODS[kind].solve(robot.with_parameters(None), base, recording, options).beta
            )
    states = md.trajectory.fourier(robot, seed=99)(np.linspace(0, 10, 400))
    tau, Y = md.inverse_dynamics(robot, *states), md.base_regressor(robot, *states, base=base)
    bias = {
        k: float(np.linalg.norm(Y @ np.mean(v, axis=0) - tau) / np.linalg.norm(tau))
        for k, v in found.items()
    }
    assert bias["wls"] > 0.02
    assert bias["tls"] <= bias["wls"]
    for method in ("iv", "didim", "iv, loop", "didim, loop"):
        assert bias[method] < 0.5 * bias["wls"], bias


def test_a_loop_that_does_not_hold_the_model_leaves_smoothed_instruments() -> None:
    recording, robot, _ = shaken("two_link", 0, 0.05)
    wild = md.control.computed_torque(
        robot, bandwidth=2e4, period=STEP
    )  # far too stiff for its period
    unknown, base = robot.with_parameters(None), md.base_parameters(robot)
    found = METHODS["iv"].solve(unknown, base, recording, Options(controller=wild))
    assert "identify.smoothed_instruments" in {notice.code for notice in found.notices}
    np.testing.assert_array_equal(
        found.beta, METHODS["iv"].solve(unknown, base, recording, Options()).beta
    )
