"""Files with turned frames and rounded numbers, as CAD programs write them.

There is one decision about which axes are special. Base parameters by any method, dynamics on them
and plans for one joint at a time are of the robot that it gives; the file differs from it by its
digits alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from base_robots import special_robot
from turned_robots import as_urdf, turned

import minidyn as md
from conftest import count
from minidyn.base.base_map import BaseMap
from minidyn.base.check import MAX_GEOMETRY_ERROR, MAX_RELATION_ERROR, checked
from minidyn.codegen.files import function_for
from minidyn.errors import Unsupported
from minidyn.excitation.one_joint_plan import Experiment
from minidyn.model.canonical import as_understood
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.robot import Robot
from robot_cases import robot_of_seed

METHODS = ("exact", "qr", "svd", "mlc", "rules+qr")
UNCLEAR = {
    "base.rank_unclear",
    "base.choice_unclear",
    "base.counts_differ",
    "base.wrong_relations",
}
SUMS = 10.0  # a torque is the sum of many columns, each right to the check's bound
ROBOTS = count(12, 3000)


def mechanism(seed: int) -> Robot:
    """Return the robot of a seed as it is meant: chains and trees, joints of all kinds, every
    gravity.
    """
    return special_robot(seed) if seed % 3 else robot_of_seed(seed)


@cache
def rounded(seed: int) -> Robot:
    """Return the robot of a seed as a file has it: 5 to 12 digits."""
    rng = np.random.default_rng((seed, 77))
    digits = int(rng.integers(5, 13))
    robot = mechanism(seed)
    return as_urdf(turned(robot, rng) if seed % 2 else robot, rng, digits)


@cache
def answer(seed: int, method: str = "exact") -> BaseMap:
    """Return the base parameters of the robot of a seed."""
    return md.base_parameters(rounded(seed), method)


def torque_error(robot: Robot, base: BaseMap, seed: int) -> float:
    """Return the largest difference of torques of random standard parameters from those of their
    base parameters, as a share.
    """
    rng = np.random.default_rng((seed, 8))
    phi = rng.normal(size=len(robot.layout))
    Y = md.regressor(robot, *rng.uniform(-3.0, 3.0, (3, 8, robot.n)))
    tau = Y @ phi
    return float(np.abs(tau - Y @ base.lift(base.values(phi))).max() / max(np.abs(tau).max(), 1e-9))


def is_unclear(base: BaseMap) -> bool:
    """Say whether a notice says that the answer is not clear."""
    return bool(UNCLEAR & {notice.code for notice in base.notices})


@pytest.mark.parametrize("method", METHODS)
def test_relations_hold_on_the_robot_as_understood(method: str) -> None:
    unclear = 0
    for seed in range(ROBOTS):
        robot = rounded(seed)
        try:
            base = answer(seed, method)
        except Unsupported:
            assert method == "mlc", seed
            continue
        codes = {notice.code for notice in base.notices}
        if is_unclear(base):
            unclear += 1
            continue
        assert base.check.relations <= MAX_RELATION_ERROR, (seed, base.check)
        assert "base.wrong_relations" not in codes, seed
        assert torque_error(as_understood(robot), base, seed) <= SUMS * MAX_RELATION_ERROR, seed
        assert base.check.geometry <= MAX_GEOMETRY_ERROR or "base.geometry_differs" in codes, seed
    assert unclear <= (0.001 if method == "exact" else 0.02) * ROBOTS + (method != "exact")


def test_floating_point_counts_as_exact_arithmetic_does() -> None:
    compared, differ = 0, []
    for seed in range(ROBOTS):
        exact = answer(seed)
        for method in ("qr", "svd", "rules+qr"):
            base = answer(seed, method)
            if not is_unclear(base) and not is_unclear(exact):
                compared += 1
                if base.rank != exact.rank:
                    differ.append((seed, method))
    assert compared > 2 * ROBOTS
    assert not differ


def test_turning_frames_and_rounding_leave_the_number_as_it_is() -> None:
    """Five digits can be too few: then a notice names the number of the exact geometry."""
    named = 0
    for seed in range(ROBOTS):
        base, meant = answer(seed), md.base_parameters(mechanism(seed)).rank
        if base.rank != meant:
            special = [n.data for n in base.notices if n.code == "base.nearly_special"]
            assert [data["rank_if_special"] for data in special] == [meant], seed
            named += 1
    assert named <= 0.01 * ROBOTS


def test_dynamics_on_base_parameters_are_those_of_the_file() -> None:
    for seed in range(0, ROBOTS, 3):
        robot = rounded(seed)
        base = answer(seed)
        phi = np.random.default_rng((seed, 9)).normal(size=len(robot.layout))
        motion = np.random.default_rng((seed, 10)).uniform(-2.0, 2.0, (3, 6, robot.n))
        known = robot.with_parameters(phi)
        tau = md.inverse_dynamics(known, *motion)
        size = max(float(np.abs(tau).max()), 1e-9)
        found = md.inverse_dynamics(known, *motion, base=base)
        understood = md.inverse_dynamics(as_understood(known), *motion)
        assert np.abs(found - understood).max() <= SUMS * MAX_RELATION_ERROR * size, seed
        assert np.abs(found - tau).max() <= MAX_GEOMETRY_ERROR * size, seed


def test_modified_frames_are_of_the_robot_as_understood() -> None:
    """No third tolerance: a change of frames changes no torque."""
    changed_some = 0
    for seed in range(ROBOTS):
        robot = rounded(seed)
        try:
            changed, T = to_mdh(robot)
        except Unsupported:
            continue
        motion = np.random.default_rng((seed, 11)).uniform(-2.0, 2.0, (3, 6, robot.n))
        Y = md.regressor(as_understood(robot), *motion)
        np.testing.assert_allclose(
            md.regressor(changed, *motion) @ T, Y, atol=1e-11 * np.abs(Y).max(), err_msg=str(seed)
        )
        changed_some += 1
    assert changed_some > ROBOTS // 3


def run_of(robot: Robot, step: Experiment) -> md.Recording:
    """Return the run of a step, without noise."""
    t = step.trajectory.period * (np.arange(40) + 0.3) / 40
    q, dq, ddq = step.trajectory(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    return md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names)


def test_plans_for_one_joint_at_a_time() -> None:
    """Runs without noise give the torque of the file, or the plan says why there is none."""
    planned = reasons = 0
    for seed in range(count(12, 300)):
        robot = rounded(seed).with_drives(friction=(), rotor_inertia=False)
        robot = robot.with_parameters(
            np.random.default_rng((seed, 12)).normal(size=len(robot.layout))
        )
        try:
            plan = md.one_joint_plan(robot, friction=(), rotor_inertia=None)
        except Unsupported:
            reasons += 1
            continue
        estimate = md.identify_one_joint(robot, [run_of(robot, step) for step in plan.steps])
        motion = np.random.default_rng((seed, 13)).uniform(-1.0, 1.0, (3, 6, robot.n))
        tau = md.inverse_dynamics(robot, *motion)
        model = md.inverse_dynamics(robot, *motion, base=estimate.base, beta=estimate.beta)
        assert np.abs(model - tau).max() <= 1e-3 * np.abs(tau).max(), seed
        planned += 1
    assert planned > reasons / 3


@pytest.mark.parametrize("digits", [6, 8, 11])
def test_axes_that_meet_in_one_point_beyond_a_coaxial_joint_still_do(digits: int) -> None:
    """Joints 2 and 3 share an axis, on which joints 1 and 4 meet."""
    spherical = robot_of_seed(1914)
    robot = as_urdf(spherical, np.random.default_rng(3), digits)
    for method in ("exact", "qr", "svd", "rules+qr"):
        assert md.base_parameters(robot, method).rank == md.base_parameters(spherical).rank


@pytest.mark.parametrize("seed", [481, 492, 565, 610])
def test_columns_of_rounding_errors_lead_nothing(seed: int) -> None:
    """A parameter whose column is there by the rounding of the file alone is not kept for others:
    coefficients stay of the size of lengths.
    """
    rng = np.random.default_rng((seed, 78))
    robot = as_urdf(special_robot(seed), rng, int(rng.integers(7, 13)))
    for method in METHODS:
        base = md.base_parameters(robot, method)
        assert np.abs(base.K).max() < 1e6, method
        assert base.check.relations <= MAX_RELATION_ERROR, method


# ---------------------------------------------------------------- known answers


def planar_arm(digits: int | None = 6) -> Robot:
    """Return a planar 3R arm with a length of 0.41 m, its frames turned freely."""
    arm = Robot.from_mdh("RRR", [0, 0, 0], [0, 0.41, 0.3], gravity=(0.0, -9.81, 0.0))
    arm = arm.with_parameters(np.random.default_rng(2).normal(size=len(arm.layout)))
    return as_urdf(arm, np.random.default_rng(0), digits)


@pytest.mark.parametrize("method", METHODS)
def test_a_planar_arm_keeps_its_length(method: str) -> None:
    robot = planar_arm()
    base = md.base_parameters(robot, method)
    assert base.rank == 9
    # the mass of link 2 acts at joint 2: on the first moment of link 1 with the length of link 1
    first = list(robot.layout.indices(("MX1", "MY1", "MZ1")))
    column = base.lift(base.matrix[:, robot.layout.index("M2")])[first]
    moment = np.linalg.norm(column - (column @ robot.joints[0].axis) * robot.joints[0].axis)
    assert moment == pytest.approx(0.41, abs=1e-5)
    assert torque_error(robot, base, 0) <= 1e-4


def test_the_default_map_serves_dynamics_counts_and_code() -> None:
    robot = planar_arm()
    base = md.base_parameters(robot)
    motion = np.random.default_rng(1).uniform(-2.0, 2.0, (3, 6, 3))
    tau = md.inverse_dynamics(robot, *motion)
    found = md.inverse_dynamics(robot, *motion, base=base)
    np.testing.assert_allclose(found, tau, atol=1e-4 * np.abs(tau).max())
    for what in ("inertia_matrix", "inverse_dynamics"):
        counts = [sum(md.papers.operation_count(arm, what)) for arm in (robot, planar_arm(None))]
        assert counts[0] <= counts[1] + 8  # digits move the zeros of the joints, no more


REACHED: dict[str, Callable[[Robot, float], int]] = {
    **{
        f"base parameters by {method}": lambda robot, tolerance, method=method: (
            md.base_parameters(robot, method, tolerance=tolerance).rank
        )
        for method in METHODS
    },
    "counts": lambda robot, tolerance: sum(
        md.papers.operation_count(robot, "inverse_dynamics", tolerance=tolerance)
    ),
    "composite bodies": lambda robot, tolerance: sum(
        int(np.count_nonzero(body.l))
        for body in md.papers.composite_bodies_at(robot, np.ones(3), tolerance=tolerance)
    ),
    "plans": lambda robot, tolerance: (
        md.one_joint_plan(robot, friction=(), rotor_inertia=False, tolerance=tolerance).base.rank
    ),
    "code": lambda robot, tolerance: len(
        function_for(robot, "inverse_dynamics", base=True, tolerance=tolerance).tape
    ),
}


def test_the_tolerance_reaches_everything() -> None:
    robot = planar_arm()
    written = md.base_parameters(robot, tolerance=0.0)
    assert written.rank > 9
    motion = np.random.default_rng(1).uniform(-2.0, 2.0, (3, 6, 3))
    tau = md.inverse_dynamics(robot, *motion)
    found = md.inverse_dynamics(robot, *motion, base=written)
    np.testing.assert_allclose(found, tau, atol=1e-9 * np.abs(tau).max())
    for what in REACHED:
        understood, as_written = (REACHED[what](robot, tolerance) for tolerance in (1e-5, 0.0))
        assert understood < as_written, what
    with pytest.raises(Unsupported, match="nearly parallel"):
        md.papers.operation_count(robot, formulation=2, tolerance=0.0)


def test_a_wrong_answer_is_an_error_and_a_rough_file_a_warning() -> None:
    good = md.base_parameters(planar_arm())
    wrong = checked(replace(good, K=good.K * (1.0 + 1e-6), notices=()))
    assert next((n.code, n.level) for n in wrong.notices) == ("base.wrong_relations", "error")
    assert wrong.check.relations > MAX_RELATION_ERROR
    rough = md.base_parameters(as_urdf(planar_arm(), np.random.default_rng(0), 2), tolerance=0.09)
    assert "base.geometry_differs" in {n.code for n in rough.notices if n.level == "warning"}
    usual = {n.code: n.level for n in good.notices}
    assert usual["base.geometry_understood"] == "info"
