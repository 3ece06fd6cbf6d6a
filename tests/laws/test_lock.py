"""Locked joints: torques and places of what is left are those of the whole robot at rest there."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_robots import random_body, random_steps, random_tree

import minidyn as md
from conftest import count
from minidyn.errors import DescriptionError, UnknownName, Unsupported
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble
from minidyn.model.geometry import Step, matrix_of
from minidyn.model.joint import Follow
from minidyn.model.parameters import from_body


def same_torques(full: md.Robot, reduced: md.Robot, seed: int = 0) -> None:
    """Torques, and places of links and frames, agree where the locked joints rest."""
    at, rng = reduced.locked_joints, np.random.default_rng(seed)
    left = [full.joint_names.index(name) for name in reduced.joint_names]
    assert set(reduced.joint_names) | set(at) == set(full.joint_names)
    q, dq, ddq = (np.zeros((4, full.n)) for _ in range(3))
    for state in (q, dq, ddq):
        state[:, left] = 0.4 * rng.normal(size=(4, len(left)))
    q[:, [full.joint_names.index(name) for name in at]] = list(at.values())
    expected = md.inverse_dynamics(full, q, dq, ddq)[:, left]
    few = (state[:, left] for state in (q, dq, ddq))
    tau = md.inverse_dynamics(reduced, *few)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-9 * scale)
    names = [*full.link_names, *(frame.name for frame in full.frames)]
    for name in names:
        reduced.find_frame(name)  # every name is there still
        T, was = (
            md.forward_kinematics(one, part, link=name)
            for one, part in ((reduced, q[:, left]), (full, q))
        )
        np.testing.assert_allclose(T, was, rtol=0, atol=1e-9)


def rich_tree(rng: np.random.Generator) -> md.Robot:
    """A random tree with a mimic joint, a load, coupled drives and joints' own terms."""
    robot = random_tree(rng, joints=7)
    follows = Follow((("joint0", -1.5), ("joint1", 0.5)), 0.2)
    joints = [replace(joint, follows=follows) if joint.follows else joint for joint in robot.joints]
    robot = replace(robot, joints=tuple(joints), gravity=rng.normal(size=3))
    coupled = {"joint3": {"joint2": 0.5}, "joint4": {"joint2": -0.25, "joint3": 1.0}}
    terms = ("viscous", "coulomb", "offset", "spring", "own")
    robot = robot.with_drives(True, terms, sign_width=0.1, coupling=coupled)
    values = robot.parameters.copy()
    for part in robot.layout.drives:
        for column in part:
            values[column.index] = rng.uniform(0.1, 1.0)
    robot = robot.with_parameters(values)
    carrier = robot.link_names[int(rng.integers(len(robot.link_names)))]
    return robot.with_load(matrix_of(random_steps(rng)), random_body(rng), link=carrier)


@pytest.mark.parametrize("seed", range(count(8, 300)))
def test_torques_of_random_trees(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    full = rich_tree(rng)
    number = int(rng.integers(1, full.n - 1))
    names = rng.choice(full.joint_names, size=number, replace=False).tolist()
    if set(names) & {"joint3", "joint4"}:  # their drives are turned by these
        names = sorted({*names, "joint2", *(("joint3",) if "joint4" in names else ())})
    names = sorted(names)[: full.n - 1]
    at = {name: float(rng.normal()) for name in names}
    reduced = full.locked(at)
    assert reduced.locked_joints == at
    same_torques(full, reduced, seed)
    # one after the other is the same; files keep it
    first, *others = names
    twice = full.locked({first: at[first]}).locked({name: at[name] for name in others})
    same_torques(full, twice)
    md.save(reduced, tmp_path / "robot.toml")
    again = md.load(tmp_path / "robot.toml")
    assert again.locked_joints == at
    same_torques(full, again, seed)


def test_zero_the_middle_of_limits_and_patterns() -> None:
    arm = md.load("ur10e")
    assert arm.reduced("shoulder_*").n == 2
    assert arm.reduced(["shoulder_*", "elbow_joint"]).joint_names == arm.joint_names[:3]
    joints = list(arm.joints)
    joints[2] = replace(joints[2], limits=replace(joints[2].limits, lower=0.5, upper=1.5))
    joints[3] = replace(joints[3], limits=replace(joints[3].limits, lower=0.2, upper=math.inf))
    given = replace(arm, joints=tuple(joints)).locked({"elbow_joint": None, "wrist_*": None})
    assert given.locked_joints == {
        "elbow_joint": 1.0,
        "wrist_1_joint": 0.2,
        "wrist_2_joint": 0.0,
        "wrist_3_joint": 0.0,
    }
    [notice] = [one for one in given.notices if one.code == "robot.locked"]
    assert "elbow_joint at 1, wrist_1_joint at 0.2" in notice.text
    told = md.load("ur10e", lock={"elbow_joint": 0.3}, keep_joints="shoulder_*")
    assert told.locked_joints == dict.fromkeys(arm.joint_names[2:], 0.0) | {"elbow_joint": 0.3}
    assert arm.locked({}) is arm


def test_a_position_beyond_the_limits_is_a_warning() -> None:
    """As 90 where 90 degrees are meant."""
    arm = md.load("ur10e", lock={"wrist_3_joint": 90, "wrist_2_joint": 1.5})
    [notice] = [one for one in arm.notices if one.level == "warning"]
    assert notice.code == "robot.locked_beyond_limits"
    assert notice.data == {"joint": "wrist_3_joint", "position": 90.0}
    assert "deg" in notice.advice


def test_what_cannot_be_locked_is_named() -> None:
    arm = md.load("ur10e")
    with pytest.raises(UnknownName, match="did you mean 'elbow_joint'"):
        arm.locked(["elbow_joins"])
    with pytest.raises(UnknownName, match="gripper"):
        arm.reduced(keep=["gripper*"])
    with pytest.raises(DescriptionError, match=r"elbow_joint.*expected a position"):
        arm.locked({"elbow_joint": math.nan})
    with pytest.raises(DescriptionError, match="no joint is left"):
        arm.locked("*")
    tree = rich_tree(np.random.default_rng(3))
    with pytest.raises(DescriptionError, match=r"'joint6' follows.*'joint0'"):
        tree.locked("joint6")
    with pytest.raises(Unsupported, match=r"'joint3'.*turned by 'joint2'"):
        tree.locked("joint3")


def test_a_load_on_what_is_fixed_becomes_a_frame() -> None:
    arm = md.load("two_link")
    loaded = arm.with_load(np.eye(4), {"mass": 1.0}, link=arm.link_names[0], name="box")
    reduced = loaded.locked({arm.joint_names[0]: 0.3})
    assert reduced.n == 1
    assert reduced.find_frame("box")[0] == -1
    same_torques(loaded, reduced)


def four_bars(closed: bool = True) -> md.Robot:
    """An arm on a crank of a four-bar linkage; a lever follows a formula of two joints."""
    names = "abcdefg"
    body = [from_body(1.0 + k, (0.1, 0.02 * k, 0.03), 0.01 * np.eye(3)) for k in range(7)]
    links = [LooseLink(name, "test", ten) for name, ten in zip(names, body)]
    along = (Step("tx", 0.3),)
    joints = [
        LooseJoint("turn", "test", "revolute", "a", "g", (Step("rx", 1.0),)),
        LooseJoint("crank", "test", "revolute", "g", "b"),
        LooseJoint("coupler", "test", "revolute", "b", "c", along, passive=True),
        LooseJoint("rocker", "test", "revolute", "g", "d", (Step("tx", 0.8),), passive=True),
        LooseJoint("tip", "test", "prismatic", "d", "f", along, motion="tz"),
        LooseJoint("lever", "test", "revolute", "f", "e", formula="0.5*sin(crank)*q5 - turn**2"),
    ]
    ends = (Step("tx", 0.7),), (Step("tx", 0.5),)
    loop = LooseLoop(
        "bar", "test", "c", ends[0], "d", ends[1], "point", ("coupler", "rocker"), (0.8, 1.9)
    )
    return assemble("four-bar", links, joints, loops=[loop] if closed else [])


LOCKS = [{"turn": -0.4}, {"crank": 0.3}, {"tip": -0.1}]
LOCKS += [{"turn": 0.3, "tip": 0.2}, {"crank": -0.2, "tip": 1.0}]


@pytest.mark.parametrize("at", LOCKS, ids=str)
def test_loops_and_formulas(at: dict[str, float], tmp_path: Path) -> None:
    full = four_bars()
    reduced = full.locked(at)
    same_torques(full, reduced)
    assert len(reduced.loops) == (0 if "crank" in at else 1)
    md.save(reduced, tmp_path / "robot.toml")
    same_torques(full, md.load(tmp_path / "robot.toml"))


@pytest.mark.parametrize("name", ["hpr", "panda", "puma560"])
def test_built_in_robots(name: str) -> None:
    full = md.load(name)
    if not full.parameters_known:
        rng = np.random.default_rng(0)
        full = full.with_parameters(rng.normal(size=len(full.layout)))
    for joint in full.joint_names:
        same_torques(full, full.locked({joint: 0.25}))
