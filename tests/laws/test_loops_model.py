"""Closed loops: solved joints close them, rates and accelerations are their derivatives, wrong
loops are told.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
import robot_cases
from minidyn.errors import DescriptionError, LoopError, ShapeError
from minidyn.model.loops import (
    check_loops,
    loop_jacobian,
    loop_residual,
    solve_loops,
)
from minidyn.model.placements import tree_pose

FOUR_BAR = f"""
[base]
xyz = [0.1, 0.2, 0.3]
rpy = [0.3, -0.2, 0.5]
{robot_cases.FOUR_BAR}"""

SPATIAL = """
[[joint]]
name = "in"
[[joint]]
name = "x"
type = "prismatic"
motion = "tx"
[[joint]]
name = "y"
type = "prismatic"
motion = "ty"
[[joint]]
name = "out"
parent = 0
xyz = [0.2, 0.1, 0]
mimic = { leader = "in", ratio = 1 }
[[joint]]
name = "extra"
parent = "link4"
axis = [1, 2, 3]
[[loop]]
kind = "frame"
a = { link = "link3", rpy = [0, 0.3, 0.2] }
b = { link = "link4", rpy = [0, 0.3, 0.2], xyz = [0.4, 0.1, 0] }
passive = ["x", "y"]
"""


def robot_of(text: str, folder: Path) -> md.Robot:
    path = folder / "robot.toml"
    path.write_text(text)
    return md.load(path)


@pytest.fixture(params=["four bar", "spatial", "hpr", "hpr solved", "formula"])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[md.Robot, np.ndarray]:
    rng = np.random.default_rng(0)
    if request.param == "four bar":
        robot = robot_of(FOUR_BAR, tmp_path)
        return robot, rng.uniform([-3, -3], [3, 3], (20, 2))
    if request.param == "spatial":
        robot = robot_of(SPATIAL, tmp_path)
        return robot, rng.uniform(-3, 3, (20, 2))
    hpr = md.load("hpr")
    q = rng.uniform(-2, 2, (20, 5))
    q[:, 2] = rng.uniform(0.3, 2.8, 20)  # away from the stretched parallelogram
    if request.param == "hpr":
        return hpr, q
    if request.param == "hpr solved":
        return solved_hpr(), q
    text = FOUR_BAR + (
        "[[joint]]\nname = 'bent'\n"
        "mimic = { formula = 'atan2(sin(crank), 2 + cos(crank)) + 0.1*wrist' }\n"
    )
    return robot_of(text, tmp_path), rng.uniform([-3, -3], [3, 3], (20, 2))


def solved_hpr() -> md.Robot:
    """The robot hpr with its passive joints solved for instead of given."""
    robot = md.load("hpr")
    loop = replace(robot.loops[0], start=(-1.0, 8.0), home=(("joint4", 1.2),))
    return replace(
        robot, joints=tuple(replace(j, follows=None) for j in robot.joints), loops=(loop,)
    )


def test_placements_are_products_of_joint_placements() -> None:
    robot = md.load("two_arm")
    q = np.random.default_rng(1).normal(size=(3, 2, 6))
    T = tree_pose(robot, q).links
    assert T.shape == (3, 2, 6, 4, 4)
    for where in np.ndindex(3, 2):
        for index, joint in enumerate(robot.joints):
            above = robot.base_placement if joint.parent < 0 else T[(*where, joint.parent)]
            assert T[(*where, index)] == pytest.approx(
                above @ joint.placement_at(q[(*where, index)]), abs=1e-14
            )
    with pytest.raises(ShapeError, match=r"expected \(..., 6\)"):
        tree_pose(robot, np.zeros(5))


def test_solutions_close_every_loop(closed: tuple[md.Robot, np.ndarray]) -> None:
    robot, q = closed
    q_all = solve_loops(robot, q)
    assert q_all.shape == (len(q), len(robot.joints))
    assert (q_all[:, list(robot.independent)] == q).all()
    for loop in robot.loops:
        metres, radians = loop_residual(robot, loop, q_all)
        assert max(metres.max(), radians.max()) < 1e-10
    assert solve_loops(robot, q[3]) == pytest.approx(
        q_all[3], abs=1e-8
    )  # the same branch alone as in a batch
    assert solve_loops(robot, q.reshape(4, 5, -1)).shape == (4, 5, len(robot.joints))


def test_rates_and_accelerations_are_derivatives(closed: tuple[md.Robot, np.ndarray]) -> None:
    robot, q = closed
    rng = np.random.default_rng(2)
    dq, ddq = rng.normal(size=q.shape), rng.normal(size=q.shape)
    q_all = solve_loops(robot, q)
    G, drift = loop_jacobian(robot, q_all, dq)
    h = 1e-4
    unknown = [
        i
        for i, j in enumerate(robot.joints)
        if j.follows is None and j.name not in robot.joint_names
    ]
    near = q_all[:, unknown] if unknown else None
    path = [solve_loops(robot, q + t * dq + 0.5 * t * t * ddq, near) for t in (-h, 0.0, h)]
    speed = (path[2] - path[0]) / (2 * h)
    acceleration = (path[2] - 2 * path[1] + path[0]) / h**2
    scale = 1 + np.abs(acceleration).max()
    assert np.einsum("nij,nj->ni", G, dq) == pytest.approx(speed, abs=1e-6 * scale)
    assert np.einsum("nij,nj->ni", G, ddq) + drift == pytest.approx(acceleration, abs=1e-5 * scale)


def test_given_and_solved_passive_joints_agree() -> None:
    given, solved = md.load("hpr"), solved_hpr()
    rng = np.random.default_rng(3)
    q, dq = rng.uniform(-1, 1, (10, 5)), rng.normal(size=(10, 5))
    q[:, 2] = rng.uniform(0.5, 2.5, 10)
    for a, b in zip(loop_motion(given, q, dq), loop_motion(solved, q, dq)):
        assert np.angle(np.exp(1j * (a - b))) == pytest.approx(0, abs=1e-9)
    positions, G, _ = loop_motion(given, q, dq)
    assert positions.shape == (10, 7)
    wanted = np.array(
        [[0, 1, -1, 0, 0], [0, 0, -1, 0, 0]]
    )  # Gautier1991: theta2 = theta3 - theta4, theta5 = 3 pi - theta4
    assert (G[:, [1, 4]] == wanted).all()


def loop_motion(robot: md.Robot, q: Any, dq: Any) -> tuple[Any, Any, Any]:
    """Return positions, G and its drift for the coordinates of the opened tree."""
    q_all = solve_loops(robot, q)
    G, drift = loop_jacobian(robot, q_all, dq)
    own = list(robot.open_loops().independent)
    return q_all[..., own], G[..., own, :], drift[..., own]


def test_mimic_joints_are_no_coordinates_of_the_opened_tree(tmp_path: Path) -> None:
    robot = robot_of(SPATIAL, tmp_path)
    tree = robot.open_loops()
    assert robot.joint_names == ("in", "extra")
    assert tree.joint_names == ("in", "x", "y", "extra")
    positions, G, drift = loop_motion(robot, np.zeros(2), np.ones(2))
    assert (positions.shape, G.shape, drift.shape) == ((4,), (4, 2), (4,))


def test_branches_are_kept_and_may_be_chosen(tmp_path: Path) -> None:
    robot = robot_of(FOUR_BAR, tmp_path)
    angles = np.linspace(1.0, 1.0 + 2 * math.pi, 200)
    around = solve_loops(robot, np.stack([angles, 0 * angles], axis=-1))
    assert (
        np.abs(np.diff(around[:, :3], axis=0)).max() < 0.2
    )  # no jump from one branch to the other
    other = solve_loops(robot, [1.0, 0.0], start=[-3.0, -2.0])
    assert loop_residual(robot, robot.loops[0], other)[0] < 1e-10
    assert np.abs(np.exp(1j * other[:3]) - np.exp(1j * around[0, :3])).max() > 0.1


def test_positions_out_of_reach_are_told(tmp_path: Path) -> None:
    text = FOUR_BAR.replace("xyz = [0.5, 0, 0]", "xyz = [0.25, 0, 0]").replace(
        "crank = 1.0", "crank = 0.1"
    )
    robot = robot_of(text, tmp_path)
    with pytest.raises(LoopError, match=r"cannot be closed at q = \[3\. 0\.\].* remain"):
        solve_loops(robot, [3.0, 0.0])
    with pytest.raises(ShapeError, match=r"expected \(..., 2\)"):
        solve_loops(robot, [3.0])


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (
            ("a = 0.8", "a = 8.0"),
            r"loop 'loop1' cannot be closed from its start: [\d.]+ m and 0 rad remain",
        ),
        (
            ('["coupler", "rocker"]', '["coupler", "rocker", "wrist"]'),
            "leaves passive joints free: .* 3, .* 2",
        ),
        (('["coupler", "rocker"]', '["rocker"]'), "cannot be closed|holds back"),
    ],
)
def test_loops_that_cannot_be_solved_are_told(
    change: tuple[str, str], pattern: str, tmp_path: Path
) -> None:
    text = FOUR_BAR.replace(*change)
    assert text != FOUR_BAR
    with pytest.raises(LoopError, match=pattern):
        robot_of(text, tmp_path)


def test_starts_without_a_slope_are_left(tmp_path: Path) -> None:
    text = FOUR_BAR.replace("crank = 1.0, coupler = -0.5, rocker = 2.0", "crank = 0, coupler = 3.0")
    robot = robot_of(text, tmp_path)  # all bars in one line, and the loop open
    assert loop_residual(robot, robot.loops[0], solve_loops(robot, [0.0, 0.0]))[0] < 1e-10


def test_stretched_positions_are_told() -> None:
    robot = solved_hpr()
    flat = replace(robot, loops=(replace(robot.loops[0], start=(0.0, 3 * math.pi), home=()),))
    with pytest.raises(LoopError, match="singular position"):
        check_loops(flat)


def test_a_wrong_sign_is_told_with_metres_and_radians() -> None:
    robot = md.load("hpr")
    joint = robot.joints[1]
    assert joint.follows is not None
    wrong = replace(joint, follows=replace(joint.follows, terms=(("joint3", 1.0), ("joint4", 1.0))))
    robot = replace(robot, joints=(robot.joints[0], wrong, *robot.joints[2:]))
    with pytest.raises(LoopError, match=r"up to 1\.\d+ m and 0 rad apart .* sign of a function"):
        check_loops(robot, {"parallelogram": "file:3"})
    robot = replace(robot, loops=(replace(robot.loops[0], kind="frame"),))
    with pytest.raises(LoopError, match=r"up to 1\.\d+ m and [\d.]+ rad apart"):
        check_loops(robot)


def test_functions_without_a_value_are_told(tmp_path: Path) -> None:
    for formula, pattern in (
        ("acos(2 + 0*crank)", "joint 'coupler': the formula .* has no value"),
        ("acos(3 + cos(crank))", "its functions have no value"),
        ("crank + 1/0", r"'1 / 0' in formula 'crank \+ 1/0' has no finite value"),
        ("crank * acos(2)", r"'acos\(2\)' in formula .* has no finite value"),
    ):
        functions = f"functions = {{ coupler = '{formula}', rocker = 'crank' }}\npassive"
        with pytest.raises(DescriptionError, match=pattern):
            robot_of(FOUR_BAR.replace("passive", functions), tmp_path)
