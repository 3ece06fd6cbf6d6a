"""Designed motions checked again, at 1 kHz and by Pinocchio.

No limit is exceeded, on many random robots.
"""

from dataclasses import replace

import numpy as np
import pytest
from pinocchio_model import PinocchioRobot

import minidyn as md
from conftest import count
from minidyn.model.joint import Limits
from robot_cases import all_joint_map, robot_of_seed


def random_problem(seed):
    """A robot with random limits and what is asked of `md.excite`."""
    rng = np.random.default_rng(seed)
    robot = next(r for r in map(robot_of_seed, range(7 * seed, 10**6)) if r.n <= 4)
    gravity = np.abs(md.gravity_torque(robot, rng.uniform(-1, 1, (50, robot.n)))).max(axis=0)
    efforts = iter(gravity * rng.uniform(0.8, 4.0, robot.n) + rng.uniform(0.5, 20.0, robot.n))

    def change(joint):
        lower = float(rng.uniform(-2.5, 0.5))
        upper = lower + float(rng.uniform(0.3, 4.0))
        own = joint.name in robot.joint_names
        if rng.random() < 0.15 or not own:
            lower, upper = -np.inf, np.inf
        return replace(
            joint,
            limits=Limits(
                lower, upper, float(rng.uniform(0.3, 3.0)), float(next(efforts)) if own else np.inf
            ),
        )

    robot = robot.with_joints(change)
    options = {
        "criterion": str(rng.choice(["d", "a", "e", "condition", "predict"])),
        "torque_share": float(rng.uniform(0.5, 1.0)),
        "harmonics": int(rng.integers(3, 6)),
        "periods": int(rng.integers(1, 3)),
        "seed": seed,
        "friction": "own",
        "rotor_inertia": None,
    }
    if rng.random() < 0.5:
        options["limits"] = {
            "acceleration": float(rng.uniform(1, 8)),
            "jerk": float(rng.uniform(10, 80)),
        }
    if rng.random() < 0.5:
        options["start"] = [float(rng.uniform(-0.5, 0.5)) for _ in range(robot.n)]
        if rng.random() < 0.5:
            options["end"] = [float(rng.uniform(-0.5, 0.5)) for _ in range(robot.n)]
    return robot, float(rng.uniform(2.0, 6.0)), options


@pytest.mark.parametrize("seed", range(count(4, 1000)))
def test_no_limit_is_exceeded_at_1_khz(seed) -> None:
    robot, duration, options = random_problem(seed)
    made = md.excite(robot, duration, time_limit=3, **options)
    if not made.feasible:
        (notice,) = [n for n in made.notices if n.code == "excite.infeasible"]
        assert notice.data["share"] > 1.0
        assert notice.data["limit"]
        assert notice.data["joint"]
        return
    t = np.arange(0.0, duration, 1e-3)
    q, dq, ddq = made.trajectory(t)
    G, offset = all_joint_map(robot)
    accuracy = 1e-6
    for index, joint in enumerate(robot.joints):
        if joint.kind == "fixed":
            continue
        position = q @ G[index] + offset[index]
        assert position.min() >= joint.limits.lower - accuracy
        assert position.max() <= joint.limits.upper + accuracy
        assert np.abs(dq @ G[index]).max() <= joint.limits.velocity + accuracy
    if "limits" in options:
        assert np.abs(ddq).max() <= options["limits"]["acceleration"] + accuracy
        assert np.abs(np.diff(ddq, axis=0)).max() / 1e-3 <= options["limits"]["jerk"] * (1 + 1e-3)
    peer = PinocchioRobot(robot)
    torque = np.array([peer.inverse_dynamics(*state) for state in zip(q, dq, ddq)])
    efforts = np.array([robot.joints[k].limits.effort for k in robot.independent])
    assert np.all(np.abs(torque).max(axis=0) <= options["torque_share"] * efforts * (1 + accuracy))
    first, last = made.trajectory([0.0, duration])[1:]
    assert np.abs(first).max() < 1e-9
    assert np.abs(last).max() < 1e-9
    if "start" in options:
        np.testing.assert_allclose(q[0], options["start"], atol=1e-9)
        np.testing.assert_allclose(
            made.trajectory(duration)[0], options.get("end", options["start"]), atol=1e-9
        )
