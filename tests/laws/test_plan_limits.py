"""Plans of one joint at a time keep the limits that designed motions keep, and are written by the
same writer.
"""

import json
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner
from test_motion_files import READERS

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.excitation.motion import Eased
from minidyn.excitation.one_joint_plan import Plan
from minidyn.simulation.trajectory import Fourier
from robot_cases import random_chain
from shape_cases import shaped_arm

POST = {
    "kind": "capsule",
    "name": "post",
    "from": [0.5, 0.6, 0],
    "to": [0.5, 0.6, 1],
    "radius": 0.05,
}
TABLE = {"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 1]}


@cache
def bare_plan() -> Plan:
    return md.one_joint_plan("scara", friction=(), rotor_inertia=False)


@pytest.mark.parametrize("seed", range(count(5, 100)))
def test_a_motion_is_taken_up_from_rest_and_its_bounds_hold(seed) -> None:
    rng = np.random.default_rng(seed)
    series = Fourier(rng.normal(size=2), *rng.normal(size=(2, 3, 2)), float(rng.uniform(1, 5)))
    motion = Eased(series, int(rng.integers(1, 4)), float(rng.uniform(0.5, 3)))
    q, dq, ddq = motion(np.array([-1.0, 0.0, motion.duration, motion.duration + 1]))
    np.testing.assert_allclose(q[0], q[1])
    np.testing.assert_allclose(q[2], q[3])
    np.testing.assert_allclose(dq, 0, atol=1e-12)
    np.testing.assert_allclose(ddq, 0, atol=1e-10)
    h = 1e-4
    t = np.arange(0.0, motion.duration, h)
    parts = motion.derivatives(t)
    kinks = np.array(
        [0.0, motion.ramp, motion.duration - motion.ramp, motion.duration]
    )  # the fourth one jumps there
    smooth = np.abs(t[:, None] - kinks).min(axis=1) > 2 * h
    for order in range(4):
        slope, size = np.gradient(parts[order], h, axis=0), np.abs(parts[order + 1]).max()
        np.testing.assert_allclose(slope[smooth], parts[order + 1][smooth], atol=2e-5 * size)
    for part, most in zip(parts, motion.highest()):
        assert np.all(np.abs(part).max(axis=0) <= most)
    steady = (t > motion.ramp) & (t < motion.ramp + motion.periods * series.period)
    np.testing.assert_allclose(parts[0][steady], series(t[steady] - motion.ramp)[0], atol=1e-9)


def checked(plan, robot, limits, share=0.8) -> None:
    """Every step at 1 kHz against the file's limits and Newton-Euler torques."""
    joints = [robot.joints[k] for k in robot.independent]
    for step in plan.steps:
        motion = step.motion(2)
        t = np.arange(0.0, motion.duration, 1e-3)
        q, dq, ddq = motion(t)
        assert np.all(q >= [joint.limits.lower for joint in joints])
        assert np.all(q <= [joint.limits.upper for joint in joints])
        assert np.all(np.abs(dq) <= [joint.limits.velocity for joint in joints])
        assert np.all(np.abs(ddq) <= limits.get("acceleration", np.inf))
        effort = np.minimum([joint.limits.effort for joint in joints], limits.get("effort", np.inf))
        tau = md.inverse_dynamics(plan.robot, q, dq, ddq, np.nan_to_num(plan.robot.parameters))
        assert np.all(np.abs(tau) <= share * effort * (1 + 1e-9))


@pytest.mark.parametrize("name", ["scara", "ur10e"][: count(1, 2)])
def test_steps_keep_all_limits(name) -> None:
    robot = md.load(name)
    free = md.one_joint_plan(robot, friction=(), rotor_inertia=False)
    used = 0.8 * np.array([robot.joints[k].limits.effort for k in robot.independent])
    used *= list(free.margins["torque"].values())
    places = np.array([step.place for step in free.steps])
    weight = np.abs(md.gravity_torque(free.robot, places)).max(axis=0)
    narrow = {"effort": 1.1 * weight / 0.8 + 0.4 * used, "acceleration": 1.0}
    plan = md.one_joint_plan(robot, friction=(), rotor_inertia=False, limits=narrow)
    assert plan.feasible
    assert max(plan.margins["torque"].values()) <= 1
    checked(plan, robot, narrow)
    with pytest.raises(AssertionError):
        checked(free, robot, narrow)  # the limits bind


@pytest.mark.parametrize("seed", range(count(2, 40)))
def test_steps_of_random_chains_keep_a_narrow_effort(seed) -> None:
    robot = random_chain(seed, "RRPR"[seed % 2 :])
    q = np.random.default_rng(seed).uniform(-2, 2, (200, robot.n))
    weight = np.abs(md.gravity_torque(robot, q)).max(axis=0)
    limits = {"effort": 1.2 * weight + 1.0}
    plan = md.one_joint_plan(robot, friction=(), rotor_inertia=False, limits=limits)
    if plan.feasible:
        checked(plan, robot, limits)
    else:
        assert "plan.infeasible" in [notice.code for notice in plan.notices]


@pytest.mark.long
def test_steps_keep_their_distance(tmp_path) -> None:
    arm = md.load(shaped_arm(tmp_path))
    words = {"friction": (), "rotor_inertia": False, "obstacles": [POST, TABLE]}
    plan = md.one_joint_plan(arm, **words)
    assert plan.feasible
    assert min(plan.margins["distance"].values()) >= 0.02
    careless = md.one_joint_plan(arm, friction=(), rotor_inertia=False, clearance=0.0)
    nearest = []
    for made in (plan, careless):
        motions = [step.motion() for step in made.steps]
        q = np.concatenate([motion(np.arange(0.0, motion.duration, 1e-3))[0] for motion in motions])
        nearest.append(plan.clearance.distances(q).min())
    assert nearest[0] >= 0.02
    assert nearest[1] < 0.02
    page = plan.preview(tmp_path / "preview.html").read_text()
    assert "one joint at a time" in page


def test_what_cannot_be_kept_is_said_and_not_written(tmp_path) -> None:
    plan = md.one_joint_plan("scara", friction=(), rotor_inertia=False, limits={"effort": 0.01})
    assert not plan.feasible
    told = next(notice for notice in plan.notices if notice.code == "plan.infeasible")
    assert told.data["limit"] == "torque"
    with pytest.raises(md.MinidynError, match="limits"):
        plan.save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["csv", "ros2"])
def test_files_of_steps_read_back_are_the_steps(tmp_path, name) -> None:
    plan = bare_plan()
    for speed in (1.0, 0.1):
        paths = plan.save(tmp_path, name, periods=2, speed=speed, rate=10.0)
        assert len(paths) == len(plan.steps)
        for step, path in zip(plan.steps, paths):
            warning, names, t, q = READERS[name](path)
            for word in ("WARNING", "emergency stop", "NOT checked"):
                assert word in warning
            assert list(names) == list(plan.robot.joint_names)
            motion = step.motion(2)
            assert t[-1] == pytest.approx(motion.duration / speed, abs=1e-5)
            np.testing.assert_allclose(q, motion(t * speed)[0], atol=1e-6)
    with pytest.raises(md.MinidynError, match="kuka"):
        plan.save(tmp_path, "kuka")
    with pytest.raises(md.MinidynError, match="periods"):
        plan.save(tmp_path, periods=0)


def test_the_shell_writes_the_same_steps(tmp_path) -> None:
    words = [
        "plan",
        "scara",
        "--friction",
        "none",
        "--no-rotor-inertia",
        "--limit",
        "acceleration=2",
        "--json",
    ]
    result = CliRunner().invoke(
        main, [*words, "--output", str(tmp_path / "out"), "--home", "0,0,-0.1,0"]
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert {"plan.json", "preview.html", "result.json", "step-1.csv", "step-1-slow.csv"} <= set(
        told["files"]
    )
    plan = md.one_joint_plan("scara", friction=(), rotor_inertia=False, limits={"acceleration": 2})
    _, _, t, q = READERS["csv"](tmp_path / "out" / "step-1.csv")
    np.testing.assert_allclose(q[[0, -1]], [[0, 0, -0.1, 0]] * 2, atol=1e-9)
    assert t[-1] > plan.steps[0].motion(3).duration
    assert CliRunner().invoke(main, ["plan", "two_link", "--format", "csv"]).exit_code == 2
