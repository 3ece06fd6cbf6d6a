"""Simulation: conservation, order of the integrator, what stands between robot and controller.

Recordings.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import minidyn as md
from minidyn import control
from minidyn.errors import MinidynError
from minidyn.recording.lazy import concatenate
from minidyn.recording.recording import Recording
from minidyn.simulation.simulate import simulate, simulate_batch
from minidyn.simulation.trajectory import critically_damped, fourier, hold, quintic, sampled


@pytest.mark.parametrize("name", ["two_link", "panda", "stanford", "two_arm"])
def test_free_motion_keeps_energy(name) -> None:
    robot = md.load(name)
    start = 0.3 + 0.2 * np.arange(robot.n) / robot.n
    recording = simulate(robot, None, None, 0.5, dt=2.5e-4, q0=start)
    kinetic, potential = md.energy(
        robot, recording.telemetry["q_true"], recording.telemetry["dq_true"]
    )
    total = kinetic + potential
    assert kinetic.max() > 0.1
    assert np.abs(total - total[0]).max() < 1e-8 * max(1.0, kinetic.max())


def test_integrator_is_of_fourth_order_and_agrees_with_the_adaptive_one() -> None:
    robot = md.load("puma4")
    start = np.array([0.1, -0.5, 0.4, 0.8])

    def end(dt, solver="rk4"):
        return simulate(robot, None, None, 0.4, dt=dt, q0=start, solver=solver).telemetry["q_true"][
            -1
        ]

    truth = end(4e-3, "adaptive")
    coarse, fine = np.abs(end(4e-3) - truth).max(), np.abs(end(2e-3) - truth).max()
    assert 10 < coarse / fine < 24


def test_what_stands_between_robot_and_controller() -> None:
    robot = md.load("panda")
    law = control.computed_torque(robot, bandwidth=10)
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
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    law = control.computed_torque(md.load("ur10e"), bandwidth=10)
    run = simulate(robot, law, fourier(robot, seed=2, speed=1.0), 0.3)
    tau = md.inverse_dynamics(robot, run.telemetry["q_true"], run.telemetry["dq_true"], run.ddq)
    np.testing.assert_allclose(tau, run.tau, atol=1e-8)


def test_trajectories_differentiate_themselves_and_keep_limits() -> None:
    robot = md.load("panda")
    h = 1e-5
    for trajectory in (
        fourier(robot, seed=5),
        quintic(np.zeros(7), np.ones(7), 2.0),
        critically_damped(np.zeros(7), np.ones(7), 3.0),
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


def test_critically_damped_step_solves_its_differential_equation() -> None:
    """Against an integration of ddq = rate² (end - q) - 2 rate dq from rest.

    (64)-(66) of Lin1992 at its instants.
    """
    rng = np.random.default_rng(4)
    start, end, rate = rng.normal(size=3), rng.normal(size=3), np.array([0.7, 3.0, 10.0])
    trajectory = md.trajectory.critically_damped(start, end, rate)

    def change(_: float, state: np.ndarray) -> np.ndarray:
        q, dq = state.reshape(2, 3)
        return np.concatenate([dq, rate**2 * (end - q) - 2 * rate * dq])

    t = np.linspace(0.0, 4.0, 41)
    solved = solve_ivp(
        change, (0.0, 4.0), np.concatenate([start, np.zeros(3)]), t_eval=t, rtol=1e-11, atol=1e-12
    )
    q, dq, ddq = trajectory(t)
    np.testing.assert_allclose(np.hstack([q, dq]), solved.y.T, atol=1e-8)
    np.testing.assert_allclose(ddq, [change(0.0, state)[3:] for state in solved.y.T], atol=1e-6)
    before = trajectory(-0.5)
    np.testing.assert_array_equal(before, [start, np.zeros(3), np.zeros(3)])
    q, dq, ddq = md.trajectory.critically_damped([0.7], [0.7 + np.pi / 6], 10.0)(
        np.array([0.2, 0.3, 0.4])
    )
    decay = np.exp([-2.0, -3.0, -4.0])
    np.testing.assert_allclose(q[:, 0], np.pi / 6 * (1 - np.array([3.0, 4.0, 5.0]) * decay) + 0.7)
    np.testing.assert_allclose(dq[:, 0], np.pi / 6 * np.array([20.0, 30.0, 40.0]) * decay)
    np.testing.assert_allclose(ddq[:, 0], np.pi / 6 * np.array([-100.0, -200.0, -300.0]) * decay)
    for wrong in (
        ([0.0], [0.0, 1.0], 1.0),
        ([0.0], [1.0], 0.0),
        ([0.0, 1.0], [1.0, 0.0], [1.0, 2.0, 3.0]),
    ):
        with pytest.raises(md.MinidynError, match="critically_damped"):
            md.trajectory.critically_damped(*wrong)


@pytest.mark.parametrize("name", md.robots())
def test_random_trajectories_move_every_joint_within_its_limits(name) -> None:
    robot = md.load(name)
    q, dq, _ = fourier(robot, seed=1)(np.linspace(0, 10, 2000))
    limits = [robot.joints[index].limits for index in robot.independent]
    reach = [
        min(0.1, 0.5 * (limit.upper - limit.lower)) for limit in limits
    ]  # a finger has 4 cm in all
    assert np.all(np.ptp(q, axis=0) > reach)
    assert np.all(q >= [limit.lower for limit in limits])
    assert np.all(q <= [limit.upper for limit in limits])
    assert np.all(np.abs(dq) <= 2.0)


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
    law = control.computed_torque(robot, bandwidth=5)
    for options, words in (
        ({"dt": -1.0}, "dt must be positive"),
        ({"control": "sometimes"}, "unknown control"),
        ({"q0": [0, 0, 0]}, "q0: expected shape"),
        ({"delay": 1.5e-3}, "whole number of steps"),
        ({"dt": 3e-4}, "no multiple of dt"),
    ):
        with pytest.raises(md.MinidynError, match=words):
            simulate(robot, law, None, 0.1, **options)


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
def test_recordings_survive_files(tmp_path, ending) -> None:
    robot = md.load("two_link")
    law = control.modified_slotine_li(robot, bandwidth=5, adaptation=1.0, unknown=["ZZ2"])
    run = simulate(robot, law, fourier(robot, seed=1), 0.05)
    both = concatenate([run, run[:7]])
    path = tmp_path / f"run.{ending}"
    both.save(path)
    back = md.read_recording(path, use_ddq=True)
    assert back.joint_names == both.joint_names
    assert back.starts == both.starts
    for name in ("t", "q", "dq", "ddq", "tau"):
        np.testing.assert_array_equal(getattr(back, name), getattr(both, name))
    for name, array in both.telemetry.items():
        np.testing.assert_array_equal(back.telemetry[name], array)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    if ending != "csv":
        with pytest.raises(md.MinidynError, match=r"run\."):
            md.read_recording(path)
    with pytest.raises(md.MinidynError, match="saved as"):
        both.save(tmp_path / "run.txt")


def test_a_batch_is_its_runs_and_mujoco_agrees() -> None:
    robot = md.load("two_arm")
    law = control.slotine_li(robot, bandwidth=5, gain=0.5, adaptation=0.01)
    trajectory = fourier(robot, seed=4, speed=1.0)
    starts = trajectory(0.0)[0] + 0.05 * np.random.default_rng(0).normal(size=(3, robot.n))
    batch = simulate_batch(robot, law, trajectory, 0.1, q0=starts, estimates=True)
    for start, run in zip(starts, batch):
        alone = simulate(robot, law, trajectory, 0.1, q0=start)
        np.testing.assert_allclose(run.q, alone.q, atol=1e-11)
        np.testing.assert_allclose(
            run.telemetry["estimate"], alone.telemetry["estimate"], atol=1e-11
        )
    other = simulate(robot, law, trajectory, 0.1, q0=starts[0], plant="mujoco")
    np.testing.assert_allclose(other.q, batch[0].q, atol=1e-9)


def test_mujoco_plant_has_drives_and_refuses_what_it_lacks() -> None:
    robot = md.load("puma560").with_drives(friction=("viscous",))
    robot = robot.with_parameters(
        np.nan_to_num(md.load("ur10e").with_drives(True, "viscous").parameters, nan=0.4)
    )
    q0 = np.full(6, 0.3)
    ours, theirs = (
        simulate(robot, None, None, 0.2, q0=q0, plant=plant) for plant in ("minidyn", "mujoco")
    )
    np.testing.assert_allclose(ours.q, theirs.q, atol=1e-8)
    with pytest.raises(md.MinidynError, match="leader"):
        simulate(md.load("hpr").with_parameters(np.ones(77)), None, None, 0.1, plant="mujoco")


def test_the_regressor_is_a_plant_of_its_own() -> None:
    robot = md.load("puma4")
    law = control.computed_torque(robot, bandwidth=5)
    motion = md.trajectory.fourier(robot, seed=2)
    runs = [
        simulate(robot, law, motion, 0.1, q0=motion(0.0)[0] + 0.1, plant=plant)
        for plant in ("minidyn", "regressor")
    ]
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-11)
    with pytest.raises(md.MinidynError, match="did you mean 'regressor'"):
        simulate(robot, law, motion, 0.1, plant="regresor")


def test_any_callable_is_a_trajectory() -> None:
    robot = md.load("two_link")
    law = control.computed_torque(robot, bandwidth=10)

    def plain(t):
        if t < 0.05:
            return [0.1, 0.2], [0.0, 0.0], [0.0, 0.0]
        return (
            np.array([0.1 * np.cos(t - 0.05), 0.2]),
            np.array([-0.1 * np.sin(t - 0.05), 0]),
            np.zeros(2),
        )

    def transposed(
        t,
    ):  # rows of joints where times are given, as a formula written for one time makes them
        return (
            np.array([0.1 * np.cos(t), 0.2 + 0 * t]),
            np.array([-0.1 * np.sin(t), 0 * t]),
            np.array([0 * t, 0 * t]),
        )

    for trajectory in (plain, transposed):
        for duration in (0.001, 0.1):  # two samples of two joints fit either way
            run = simulate(robot, law, trajectory, duration, check=True)
            expected = [trajectory(float(t))[0] for t in run.t]
            np.testing.assert_allclose(run.telemetry["q_d"], expected)
    with pytest.raises(md.MinidynError, match="each of shape"):
        simulate(
            robot,
            law,
            lambda t: (np.zeros(2), np.zeros(2), np.zeros(3)),
            0.1,
            q0=[0, 0],
            dq0=[0, 0],
        )


def test_what_cannot_be_meant_is_refused() -> None:
    robot = md.load("puma4")
    law, motion = control.computed_torque(robot, bandwidth=5), hold(np.zeros(4))
    for wrong, told in (
        ({"noise": -1.0}, "noise: expected a number from 0 on"),
        ({"resolution": np.nan}, "resolution: expected"),
        ({"torque_limit": -1.0}, "torque_limit: expected a positive number"),
        ({"torque_limit": [1.0, 2.0]}, "torque_limit: expected a positive number or 4 of them"),
        ({"payload": md.Payload(0.0, [1.0, 2.0])}, "load"),
    ):
        with pytest.raises(md.MinidynError, match=told):
            simulate(robot, law, motion, 0.01, **wrong)
    assert len(simulate("puma4", law, motion, 0.01)) == 11
    for arguments in (
        (law, robot, motion),
        (robot, "computed_torque", motion),
        (robot, law, "hold"),
    ):
        with pytest.raises(md.MinidynError, match=r"(simulate|robot): expected a"):
            simulate(*arguments, 0.01)
    body = {"mass": 0.5, "com": [0.2, 0, 0]}
    ten = md.Payload(0.0, [0, 0, 0, 0.02, 0, 0.02, 0.1, 0, 0, 0.5]).on(robot)
    np.testing.assert_allclose(
        md.Payload(0.0, body).on(robot).parameters, ten.parameters, atol=1e-15
    )


def test_torque_noise_of_each_joint() -> None:
    robot = md.load("scara")
    law, path = (
        md.control.computed_torque(robot, bandwidth=10),
        md.trajectory.fourier(robot, seed=1),
    )
    clean, noisy = (
        md.simulate(robot, law, path, 1.0, torque_noise=one) for one in (0.0, [0.5, 0.0, 0.1, 2.0])
    )
    np.testing.assert_allclose((noisy.tau - clean.tau).std(axis=0), [0.5, 0.0, 0.1, 2.0], rtol=0.1)
    for wrong in (-1.0, [0.1, 0.1], [0.1, 0.1, 0.1, np.nan]):
        with pytest.raises(md.MinidynError, match="torque_noise: expected"):
            md.simulate(robot, law, path, 0.1, torque_noise=wrong)


@pytest.mark.parametrize(("adaptation", "start"), [(30.0, [0.1, 0.0]), (3e4, [3.0, -0.02])])
def test_craig_that_loses_definiteness_says_so(adaptation: float, start: list[float]) -> None:
    robot = md.load("two_link")
    law = control.craig(
        robot, bandwidth=4.0, adaptation=adaptation, unknown=["M2", "ZZ2"], initial=start
    )
    with pytest.raises(MinidynError, match="estimated inertia matrix lost its definiteness at t ="):
        simulate(robot, law, fourier(robot, seed=2, speed=3.0), 2.0, dt=1e-3)
