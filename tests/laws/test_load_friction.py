"""Friction that grows with the load.

The loads of the finished model count, and the term never harms unsaid.
"""

from __future__ import annotations

import numpy as np
import pytest
from random_robots import random_tree

import minidyn as md
from conftest import count
from minidyn.identification.friction.loads import Step, relative_error, settle
from minidyn.identification.rows.base_rows import Samples
from minidyn.model.drives import PLAIN

LOADED = (*PLAIN, "load")


def hanging(seed: int, spring: float) -> tuple[md.Robot, md.Recording]:
    """Return an arm as its file has it, and a log of one with load friction and a counterbalance
    that no file names.

    Plain least squares sees the counterbalance as negative gravity, which no consistent body has:
    bounds bind.
    """
    rng = np.random.default_rng(seed)
    described = md.load("puma560").with_drives(True)
    truth = described.with_drives(True, LOADED, sign_width=0.05)
    bare = described.with_drives(False, ())
    poses = rng.uniform(-2, 2, (200, truth.n))
    size = np.sqrt(np.mean(md.gravity_torque(bare, poses) ** 2, axis=0)) + 0.2
    values = truth.parameters.copy()
    for column in truth.layout.columns:
        if not column.is_inertial:
            unit = {"Fc": 0.1, "Fv": 0.1, "Fo": 0.02}.get(column.symbol, 0.0) * size[column.joint]
            values[column.index] = {"Fl": 0.3, "Ia": 0.1}.get(column.symbol, unit) * rng.uniform(
                0.5, 1.5
            )
    t = np.linspace(0, 12, 1500)
    q, dq, ddq = md.trajectory.fourier(truth, seed=seed, speed=1.5)(t)
    tau = md.inverse_dynamics(truth.with_parameters(values), q, dq, ddq)
    gravity = md.gravity_torque(bare, q)[:, 1]
    shape = np.stack([np.sin(q[:, 1]), np.cos(q[:, 1])], axis=1)
    tau[:, 1] -= spring * shape @ np.linalg.lstsq(shape, gravity, rcond=None)[0]
    tau += 0.03 * rng.normal(size=tau.shape) * np.sqrt(np.mean(tau**2, axis=0))
    return described, md.Recording(t, q, tau, dq, ddq, truth.joint_names)


def codes(estimate: md.Estimate) -> set[str]:
    return {notice.code for notice in estimate.notices}


CASES = [
    (0, 1.0, False),
    *(
        (s, k, prior)
        for s in range(count(0, 6))
        for k in (0.0, 1.0, 1.8)
        for prior in (None, False)
    ),
]


@pytest.mark.parametrize(("seed", "spring", "prior"), CASES)
def test_a_consistent_fit_is_not_worse_with_the_term(seed, spring, prior) -> None:
    """These textbook bodies cannot exist, and what bounds cost depends on the other terms."""
    robot, log = hanging(seed, spring)
    without, named = (
        md.identify(robot, log, friction=terms, prior=prior) for terms in (PLAIN, LOADED)
    )
    errors = [md.validate(estimate, log).relative_error for estimate in (without, named)]
    assert errors[1] <= errors[0]
    assert named.certificate.everywhere
    if (seed, spring, prior) == CASES[0]:
        assert errors[1] < 0.85 * errors[0]
    # what the model predicts is what was compared: its own loads
    motion = Samples(log.t, log.q, log.dq, log.ddq, log.tau)
    assert relative_error(named.robot, motion, named.parameters) == pytest.approx(
        errors[1], rel=1e-9
    )


def pendulum() -> tuple[md.Robot, Samples]:
    """A pendulum whose gravity is 10 cos q for a first moment of 1, and a motion of it; Fl of 1."""
    robot = md.Robot.from_mdh("R", alpha=[np.pi / 2], gravity=(0, 0, -10)).with_drives(
        friction=("load",)
    )
    q = np.linspace(-1, 1, 40)[:, None]
    return robot, Samples(q[:, 0], q, np.ones_like(q), 0 * q, np.ones_like(q))


@pytest.mark.parametrize("slope", [-3.0, -1.5, -0.9, 0.0, 0.8])
def test_loads_settle_where_plain_repetition_swings_or_creeps(slope) -> None:
    """A fit whose first moment follows that of its loads with a slope has a fixed point that is
    known.
    """
    robot, motion = pendulum()
    values = np.zeros(11)
    values[10] = 1.0

    def fit(loaded: md.Robot) -> Step[float]:
        found = values.copy()
        found[6] = 2.0 + slope * (float(loaded.parameters[6]) - 2.0)
        return Step(found[6], found, np.array([1.0]))

    start = values.copy()
    start[6] = 1.0
    settled = settle(robot, motion, start, fit)
    assert not settled.doubts
    assert settled.made == pytest.approx(2.0, abs=0.05)


def test_loads_that_never_settle_are_said_and_the_best_fit_counts() -> None:
    robot, motion = pendulum()
    rng = np.random.default_rng(0)
    made: list[np.ndarray] = []

    def fit(loaded: md.Robot) -> Step[int]:
        values = np.zeros(11)
        values[6], values[10] = rng.uniform(0.1, 1.0), -1.63
        made.append(values)
        return Step(len(made) - 1, values, np.array([0.01]))

    settled = settle(robot, motion, np.ones(11), fit)
    (notice,) = settled.doubts
    assert notice.code == "friction.loads_unsettled"
    errors = [relative_error(robot, motion, values) for values in made]
    assert settled.made == int(np.argmin(errors))
    np.testing.assert_allclose(notice.data["errors"], errors)


@pytest.mark.parametrize("name", ["ur10", "ur5e", "puma560"])
def test_links_balanced_on_their_axis_by_the_file_still_have_the_term(name) -> None:
    """Base parameters of a robot whose last link has its centre on the axis failed with the
    term.
    """
    robot = md.load(name).with_drives(True, LOADED)
    assert md.base_parameters(robot).rank == md.base_parameters(robot.with_parameters(None)).rank
    assert not md.base_parameters(robot).notices


@pytest.mark.parametrize("seed", range(count(8, 300)))
def test_accelerations_come_back_with_rotors_of_any_size(seed) -> None:
    """The acceleration stands in the load.

    What inverse dynamics asks for, forward dynamics turns back into it.
    """
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints=int(rng.integers(3, 8))).with_drives(
        True, LOADED, sign_width=0.02
    )
    if robot.n > 2 and seed % 2:
        robot = robot.with_drives(coupling={robot.joint_names[2]: {robot.joint_names[0]: 0.6}})
    q, dq, ddq = rng.normal(size=(3, 50, robot.n))
    sizes = np.diagonal(md.inertia_matrix(robot.with_drives(False, ()), q), axis1=1, axis2=2).mean(
        axis=0
    )
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if column.symbol == "Ia":
            place = (
                robot.independent.index(column.joint) if column.joint in robot.independent else 0
            )
            values[column.index] = sizes[place] * 10 ** rng.uniform(-2, 1.5)
        elif not column.is_inertial:
            values[column.index] = rng.uniform(0.0, 0.9)
    robot = robot.with_parameters(values)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    np.testing.assert_allclose(md.forward_dynamics(robot, q, dq, tau), ddq, atol=1e-7)
    slow = md.papers.forward_dynamics_by_regressor(robot, q[:3], dq[:3], tau[:3])
    np.testing.assert_allclose(slow, ddq[:3], atol=1e-7)


def test_a_drive_that_holds_back_needs_less() -> None:
    """A pendulum by hand.

    Lifting and accelerating costs 1 + Fl of the torque behind the gear, braking 1 - Fl.
    """
    robot, _ = pendulum()
    values = np.zeros(len(robot.parameters))
    values[robot.layout.index("MX1")], values[robot.layout.index("ZZ1")] = 2.0, 3.0
    robot = robot.with_parameters(
        [0.2 if name == "Fl1" else value for name, value in zip(robot.parameter_names, values)]
    )
    for speed, acceleration in ((1.0, 5.0), (1.0, -20.0), (-1.0, 5.0)):
        behind = 3.0 * acceleration + 20.0 * np.cos(0.3)
        expected = behind + 0.2 * abs(behind) * np.sign(speed)
        np.testing.assert_allclose(
            md.inverse_dynamics(robot, [0.3], [speed], [acceleration]), [expected], rtol=1e-12
        )


def test_loads_follow_from_base_parameters_alone() -> None:
    """Parameters that differ in what no motion shows, rotors of the first joints among it, have the
    same torques.
    """
    robot = md.load("ur10e").with_drives(True, LOADED, sign_width=0.02)
    rng = np.random.default_rng(0)
    robot = robot.with_parameters(
        np.where(np.isnan(robot.parameters), rng.uniform(0.1, 0.5), robot.parameters)
    )
    base = md.base_parameters(robot)
    q, dq, ddq = rng.normal(size=(3, 20, robot.n))
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    other = np.asarray(base.lift(base.values(robot.parameters)), dtype=float)
    assert (
        abs(other[robot.layout.index("Ia1")] - robot.parameters[robot.layout.index("Ia1")]) > 0.05
    )
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq, other), tau, atol=1e-9)


def test_files_need_not_tell_rotors() -> None:
    """A log of positions and torques, a file without drives, and load friction that is asked for by
    name.
    """
    rng, described = np.random.default_rng(3), md.load("puma4")
    truth = described.with_drives(True, LOADED, sign_width=0.02)
    sizes = {"Ia": 0.3, "Fv": 1.0, "Fc": 2.0, "Fo": 0.1, "Fl": 0.2}
    values = [
        sizes.get(column.symbol, truth.parameters[column.index]) for column in truth.layout.columns
    ]
    truth = truth.with_parameters(values)
    t = np.arange(0, 20, 0.005)
    q, dq, ddq = md.trajectory.fourier(truth, seed=3)(t)
    tau = md.inverse_dynamics(truth, q, dq, ddq)
    log = md.Recording(t, q + 1e-4 * rng.normal(size=q.shape), tau, joint_names=truth.joint_names)
    robot = described.with_drives(True, LOADED)
    assert np.isnan(robot.parameters).any()
    found = md.identify(robot, log, friction="own")
    shares = [value for name, value in zip(found.names, found.beta) if name.startswith("Fl")]
    np.testing.assert_allclose(shares, 0.2, atol=0.05)


def test_a_gear_that_locks_itself_is_not_simulated() -> None:
    robot = md.load("two_link").with_drives(False, ("load",))
    for value, locks in ((0.99, False), (1.0, True)):
        gear = robot.with_parameters(np.where(np.isnan(robot.parameters), value, robot.parameters))
        if locks:
            with pytest.raises(
                md.MinidynError,
                match=r"joint 'joint1': load friction Fl1 is 1, .* expected less than 1",
            ):
                md.simulate(gear, None, None, 0.01)
        else:
            md.simulate(gear, None, None, 0.01)
