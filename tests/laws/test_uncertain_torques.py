"""Torque limits that hold for the robot as it may be: every robot within the given share keeps
them.
"""

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.excitation.proof import Spread
from robot_cases import random_chain, robot_of_seed


def other_robot(robot, parameters, share, rng, extreme):
    """Parameters at the edge of what the share allows.

    Each link's mass, first moment and tensor moved anywhere.
    """
    made = parameters.copy()
    for part in robot.layout.links:
        own = made[part][:10].copy()
        tensor = rng.normal(size=(3, 3))
        tensor = tensor + tensor.T
        size = np.sqrt(np.sum(np.array([1, 2, 2, 1, 2, 1]) * own[:6] ** 2))
        tensor *= share * size / np.linalg.norm(tensor)
        moment = rng.normal(size=3)
        moment *= share * np.linalg.norm(own[6:9]) / np.linalg.norm(moment)
        if extreme:  # all of it larger
            tensor = moment = 0
            own *= 1 + share * rng.choice([-1, 1])
        else:
            own[:6] += tensor[np.triu_indices(3)]
            own[6:9] += moment
            own[9] *= 1 + share * rng.uniform(-1, 1)
        made[np.arange(len(made))[part][:10]] = own
    for k, column in enumerate(robot.layout.columns):
        if not column.is_inertial:
            made[k] *= 1 + share * rng.choice([-1, 1])
    return made


@pytest.mark.parametrize("seed", range(count(6, 100)))
def test_no_robot_within_the_share_has_a_larger_torque(seed) -> None:
    robot = robot_of_seed(seed)
    if robot.implicit_loops:
        pytest.skip("loops that are solved for")
    rng = np.random.default_rng(seed)
    parameters = np.nan_to_num(robot.parameters, nan=0.3)
    robot = robot.with_parameters(parameters)
    q, dq, ddq = rng.normal(size=(3, 40, robot.n))
    spread = Spread.of(robot, parameters, 0.3)
    beyond = spread.along((q, dq, ddq))
    nominal = md.inverse_dynamics(robot, q, dq, ddq)
    reached = np.zeros_like(beyond)
    for trial in range(40):
        other = other_robot(robot, parameters, 0.3, rng, trial % 2)
        tau = md.inverse_dynamics(robot.with_parameters(other), q, dq, ddq)
        reached = np.maximum(reached, np.abs(tau - nominal))
    assert np.all(reached <= beyond * (1 + 1e-9) + 1e-9)
    worst = md.regressor(
        robot, q, dq, ddq
    )  # the bound is reached: along the regressor's blocks themselves
    for joint in range(robot.n):
        moved = parameters.copy()
        for some, weight in spread.groups:
            row = worst[0, joint, some] * weight
            moved[some] += weight * row / max(np.linalg.norm(row), 1e-300)
        tau = md.inverse_dynamics(robot.with_parameters(moved), q[:1], dq[:1], ddq[:1])[0, joint]
        assert tau - nominal[0, joint] == pytest.approx(beyond[0, joint], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(count(4, 60)))
def test_boxes_enclose_what_is_beyond(seed) -> None:
    rng = np.random.default_rng(seed)
    robot = random_chain(seed, "RRP")
    spread = Spread.of(robot, robot.parameters, 0.2)
    low = rng.normal(size=(3, 1, 3))
    boxes = [(part, part + 0.05) for part in low]
    most = spread.inside(boxes)
    inside = [part + 0.05 * rng.uniform(size=(200, 3)) for part in low]
    assert np.all(spread.along(inside) <= most * (1 + 1e-12))


@pytest.mark.long
def test_a_motion_keeps_its_torques_for_robots_within_the_share() -> None:
    limits = {"effort": [12.0, 60.0, 25.0], "velocity": 2.5}
    robot = random_chain(3, "RRR")
    words = {
        "friction": (),
        "rotor_inertia": False,
        "noise": 1.0,
        "limits": limits,
        "torque_share": 1.0,
    }
    plain, safe = (md.excite(robot, 5.0, uncertainty=share, **words) for share in (0.0, 0.3))
    assert plain.feasible
    assert safe.feasible
    assert safe.criteria["d"] > plain.criteria["d"]  # safety costs
    rng, t = np.random.default_rng(0), np.arange(0.0, 5.0, 1e-3)
    exceeded = {True: 0.0, False: 0.0}
    for trial in range(30):
        other = robot.with_parameters(other_robot(robot, robot.parameters, 0.3, rng, trial % 2))
        for is_safe, motion in ((True, safe), (False, plain)):
            share = np.abs(md.inverse_dynamics(other, *motion.trajectory(t))) / limits["effort"]
            exceeded[is_safe] = max(exceeded[is_safe], float(share.max()))
    assert exceeded[True] <= 1
    assert exceeded[False] > 1
    with pytest.raises(md.MinidynError, match="uncertainty"):
        md.excite(robot, 5.0, uncertainty=1.5)
