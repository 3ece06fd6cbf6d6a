"""Simulation: conservation, order of the integrator, what stands between robot and controller; recordings."""

import numpy as np
import pytest

import minidyn as md
from minidyn import control
from minidyn.experiment.recording import Recording, concatenate
from minidyn.experiment.simulate import simulate
from minidyn.experiment.trajectory import fourier, hold, quintic, sampled


@pytest.mark.parametrize("name", ["two_link", "panda", "stanford", "two_arm"])
def test_free_motion_keeps_energy(name) -> None:
    robot = md.load(name)
    start = 0.3 + 0.2 * np.arange(robot.n) / robot.n
    recording = simulate(robot, None, None, 0.5, dt=2.5e-4, q0=start)
    kinetic, potential = md.energy(robot, recording.telemetry["q_true"], recording.telemetry["dq_true"])
    total = kinetic + potential
    assert kinetic.max() > 0.1
    assert np.abs(total - total[0]).max() < 1e-8 * max(1.0, kinetic.max())


def test_integrator_is_of_fourth_order_and_agrees_with_the_adaptive_one() -> None:
    robot = md.load("puma4")
    start = np.array([0.1, -0.5, 0.4, 0.8])

    def end(dt, solver="rk4"):
        return simulate(robot, None, None, 0.4, dt=dt, q0=start, solver=solver).telemetry["q_true"][-1]

    truth = end(4e-3, "adaptive")
    coarse, fine = np.abs(end(4e-3) - truth).max(), np.abs(end(2e-3) - truth).max()
    assert 10 < coarse / fine < 24


def test_what_stands_between_robot_and_controller() -> None:
    robot = md.load("panda")
    law = control.computed_torque(robot, rate=10)
    trajectory = fourier(robot, seed=1, speed=1.0)

    def worst(**options):
        return np.abs(simulate(robot, law, trajectory, 0.5, **options).telemetry["error"]).max()

    perfect = worst()
    assert worst(delay=5e-3) > 2 * perfect
    assert worst(noise=1e-2, velocity_noise=1e-1) > 1.5 * perfect
    assert worst(torque_limit=5.0) > 10 * perfect
    run = simulate(robot, law, trajectory, 0.2, resolution=1e-3, torque_noise=0.5)
    np.testing.assert_allclose(run.q / 1e-3, np.round(run.q / 1e-3), atol=1e-9)
    assert run.joint_names == robot.joint_names
    again = simulate(robot, law, trajectory, 0.2, resolution=1e-3, torque_noise=0.5)
    np.testing.assert_array_equal(run.tau, again.tau)


def test_recorded_accelerations_and_torques_belong_together() -> None:
    robot = md.load("ur10e").with_drives(friction=("viscous", "coulomb"))
    robot = robot.with_parameters(np.nan_to_num(robot.values, nan=0.5))
    law = control.computed_torque(md.load("ur10e"), rate=10)
    run = simulate(robot, law, fourier(robot, seed=2, speed=1.0), 0.3)
    tau = md.inverse_dynamics(robot, run.telemetry["q_true"], run.telemetry["dq_true"], run.ddq)
    np.testing.assert_allclose(tau, run.tau, atol=1e-8)


def test_trajectories_differentiate_themselves_and_keep_limits() -> None:
    robot = md.load("panda")
    h = 1e-5
    for trajectory in (
        fourier(robot, seed=5),
        quintic(np.zeros(7), np.ones(7), 2.0),
        sampled(np.linspace(0, 2, 40), np.sin(np.linspace(0, 2, 40))[:, None] * np.ones(7)),
        hold(np.ones(7)),
    ):
        t = np.linspace(0.1, 1.9, 37)
        q, dq, ddq = trajectory(t)
        before, after = trajectory(t - h), trajectory(t + h)
        np.testing.assert_allclose((after[0] - before[0]) / (2 * h), dq, atol=1e-5)
        np.testing.assert_allclose((after[1] - before[1]) / (2 * h), ddq, atol=1e-4)
        assert trajectory(0.5)[0].shape == (7,)
    q, dq, _ = fourier(robot, seed=5)(np.linspace(0, 10, 3000))
    limits = [joint.limits for joint in robot.joints]
    assert np.all(q > [limit.lower for limit in limits])
    assert np.all(q < [limit.upper for limit in limits])
    assert np.all(np.abs(dq) < [limit.velocity for limit in limits])


def test_recordings_slice_join_and_refuse() -> None:
    t = np.arange(10.0)
    one = Recording(t, np.zeros((10, 2)), np.ones((10, 2)))
    assert len(one) == 10
    assert one[2:7].t[0] == 2
    assert one.joint_names == ("joint1", "joint2")
    both = concatenate([one, one[:4]])
    assert both.starts == (0, 10)
    assert [len(run) for run in both.runs] == [10, 4]
    assert both[8:12].starts == (0, 2)
    assert both[::3].starts == (0, 4)
    assert concatenate([one, Recording(t, np.zeros((10, 2)), None)]).tau is None
    with pytest.raises(ValueError, match="read-only"):
        one.q[0, 0] = 1
    with pytest.raises(md.MinidynError, match="tau: expected shape"):
        Recording(t, np.zeros((10, 2)), np.ones((9, 2)))
    with pytest.raises(md.MinidynError, match="runs backwards at sample 3"):
        Recording([0, 1, 2, 1], np.zeros((4, 1)), None)
    with pytest.raises(md.MinidynError, match="joints"):
        concatenate([one, Recording(t, np.zeros((10, 2)), None, joint_names=["a", "b"])])


def test_refusals() -> None:
    robot = md.load("two_link")
    law = control.computed_torque(robot, rate=5)
    for options, words in (
        ({"dt": -1.0}, "dt must be positive"),
        ({"control": "sometimes"}, "unknown control"),
        ({"q0": [0, 0, 0]}, "q0: expected shape"),
        ({"delay": 1.5e-3}, "whole number of steps"),
        ({"dt": 3e-4}, "no multiple of dt"),
    ):
        with pytest.raises(md.MinidynError, match=words):
            simulate(robot, law, None, 0.1, **options)
