"""Parameters of a robot with locked joints back into the whole file: torques with the joints locked
are the model's, all else stays, and parts that do not fit change by the least.
"""

from __future__ import annotations

import re
from pathlib import Path

import cvxpy
import numpy as np
import pytest
from random_robots import random_body, random_tree
from test_lock import rich_tree, same_torques

import minidyn as md
from conftest import count
from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.model.division import divide
from minidyn.model.lock import unlocked
from minidyn.model.parameters import (
    from_body,
    from_pseudo_inertia,
    realizability,
    to_pseudo_inertia,
)

HAND = """<?xml version="1.0"?>
<robot name="arm">  <!-- the whole robot -->
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 0.2"/><mass value="4"/>
    <inertia ixx="0.08" ixy="0" ixz="0" iyy="0.08" iyz="0" izz="0.02"/></inertial></link>
  <link name="wrist"><inertial><origin xyz="0 0 0.1"/><mass value="2"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>
  <link name="palm"><!-- held by a fixed joint --><inertial><mass value="0.5"/>
    <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial>
    <visual><geometry><mesh filename="meshes/palm.stl" scale="1 1 1"/></geometry></visual></link>
  <link name="left"><inertial><origin xyz="0 0 0.03"/><mass value="0.1"/>
    <inertia ixx="0.0001" ixy="0" ixz="0" iyy="0.0001" iyz="0" izz="0.00004"/></inertial>
    <visual><geometry><mesh filename="meshes/finger.stl"/></geometry></visual></link>
  <link name="right"><inertial><origin xyz="0 0 0.03"/><mass value="0.1"/>
    <inertia ixx="0.0001" ixy="0" ixz="0" iyy="0.0001" iyz="0" izz="0.00004"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="3" effort="90"/></joint>
  <joint name="elbow" type="revolute"><origin xyz="0 0 0.5"/><parent link="upper"/>
    <child link="wrist"/><axis xyz="0 1 0"/><dynamics damping="0.5" friction="0.2"/></joint>
  <joint name="palm_fixed" type="fixed"><origin xyz="0 0 0.2" rpy="0 0 0.4"/>
    <parent link="wrist"/><child link="palm"/></joint>
  <joint name="grip" type="prismatic"><origin xyz="0 0.01 0.05"/><parent link="palm"/>
    <child link="left"/><axis xyz="0 1 0"/><limit lower="0" upper="0.04" effort="20"/>
    <dynamics damping="7" friction="3"/></joint>
  <joint name="grip_mirror" type="prismatic"><origin xyz="0 -0.01 0.05"/><parent link="palm"/>
    <child link="right"/><axis xyz="0 -1 0"/><mimic joint="grip"/></joint>
  <gazebo reference="left"><material>Gazebo/Grey</material></gazebo>
</robot>
"""


def changed(robot: md.Robot, rng: np.random.Generator, share: float = 0.1) -> md.Robot:
    """Return a robot with bodies a little heavier, and other drives."""
    values = robot.parameters.copy()
    for part in robot.layout.links:
        values[part] += share * random_body(rng)
    for part in robot.layout.drives:
        for column in part:
            values[column.index] = rng.uniform(0.1, 1.0)
    return robot.with_parameters(values)


@pytest.mark.parametrize("seed", range(count(6, 200)))
def test_the_whole_robot_locked_again_is_the_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    full = rich_tree(rng)
    names = {"joint2", "joint3", "joint4"} if seed % 2 else {full.joint_names[0]}
    at = {name: float(rng.normal()) for name in names}
    model = changed(full.locked(at), rng, share=(0.1, 1.0, -0.02)[seed % 3])
    whole, notices = unlocked(model, full)
    assert whole.joint_names == full.joint_names
    again = whole.locked(at)
    q, dq, ddq = rng.normal(size=(3, 5, model.n))
    wanted = md.inverse_dynamics(model, q, dq, ddq)
    found = md.inverse_dynamics(again, q, dq, ddq)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    if not notices:  # locked bodies are as they were
        for name in names:
            link = full.joint_index(name)
            assert np.array_equal(whole.links[link].parameters, full.links[link].parameters)
        same_torques(whole, again, seed)


def test_a_hand_stays_in_its_urdf(tmp_path: Path) -> None:
    source, target = tmp_path / "arm.urdf", tmp_path / "new" / "arm.urdf"
    source.write_text(HAND)
    target.parent.mkdir()
    full = md.load(source)
    model = full.locked({"grip": 0.02}).with_drives(rotor_inertia=True, friction=("viscous",))
    model = changed(model, np.random.default_rng(0))
    assert md.update_urdf(model, source, target, drives=True) == ()
    again = md.load(target, lock={"grip": 0.02})
    motion = np.random.default_rng(1).normal(size=(3, 5, 2))
    wanted = md.inverse_dynamics(model, *motion)
    found = md.inverse_dynamics(again, *motion)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    # inertia of two links and friction of two joints changed, all else did not
    text = target.read_text()
    hidden = [
        re.sub(r'(?<=[ <])(mass value|i..|xyz|damping|friction)="[^"]*"', "", one)
        for one in (HAND, text.replace('"../meshes', '"meshes'))
    ]
    assert len(set(map(len, hidden))) == 2  # <dynamics> of the shoulder is new
    new = '<dynamics damping="" friction="0"/>'
    for name in ("palm", "left", "right"):
        block = re.compile(rf'<link name="{name}">.*?</link>', re.DOTALL)
        assert block.findall(text.replace('"../meshes', '"meshes')) == block.findall(HAND), new
    for kept in ("the whole robot", "held by a fixed joint", "Gazebo/Grey", "<mimic", '="7"'):
        assert kept in text


def test_parts_that_do_not_fit_change_by_the_least(tmp_path: Path) -> None:
    source, target = tmp_path / "arm.urdf", tmp_path / "new.urdf"
    source.write_text(HAND)
    model = md.load(source, lock="grip")
    values = model.parameters.copy()  # a wrist lighter than hand and fingers
    values[model.layout.links[1]] = from_body(0.6, (0, 0, 0.15), 0.002 * np.eye(3))
    model = model.with_parameters(values)
    notices = md.update_urdf(model, source, target)
    [notice] = [one for one in notices if one.code == "robot.divided"]
    assert set(notice.data["masses"]) == {"left", "right"}
    assert 0.0 < notice.data["change"] < 1.0
    again = md.load(target, lock="grip")
    assert np.allclose(again.parameters, values, rtol=0, atol=1e-12, equal_nan=True)
    whole = md.load(target)
    for link in whole.links:
        assert realizability(link.parameters).realizable
    left, right = (whole.links[whole.joint_index(name)] for name in ("grip", "grip_mirror"))
    assert left.parameters[9] == pytest.approx(right.parameters[9], rel=1e-6)  # both alike


def test_another_robots_file_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "arm.urdf"
    source.write_text(HAND)
    model = md.load(source, lock="grip")
    source.write_text(HAND.replace('xyz="0 0 0.5"', 'xyz="0 0 0.6"'))
    with pytest.raises(DescriptionError, match="frame of link 'wrist' is not the one"):
        md.update_urdf(model, source, tmp_path / "new.urdf")
    assert not (tmp_path / "new.urdf").exists()


def test_a_hand_stays_in_its_mjcf(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    source, target = tmp_path / "arm.xml", tmp_path / "new.xml"
    source.write_text(
        """<mujoco model="arm"><!-- kept --><worldbody><body name="upper">
  <joint name="shoulder" axis="0 1 0" damping="0.3"/>
  <inertial pos="0 0 .2" mass="4" diaginertia=".08 .08 .02"/>
  <body name="palm" pos="0 0 .4"><inertial pos="0 0 0" mass=".5" diaginertia=".001 .001 .001"/>
    <body name="left"><joint name="grip" type="slide" axis="0 1 0" range="0 .04" limited="true"/>
      <inertial pos="0 0 .03" mass=".1" diaginertia="1e-4 1e-4 4e-5"/></body></body>
</body></worldbody></mujoco>"""
    )
    model = changed(md.load(source, lock={"grip": 0.03}), np.random.default_rng(0))
    assert md.update_mjcf(model, source, target) == ()
    assert md.load(target).joint_names == ("shoulder", "grip")
    again = md.load(target, lock={"grip": 0.03})
    motion = np.random.default_rng(1).normal(size=(3, 5, 1))
    wanted = md.inverse_dynamics(model, *motion)
    found = md.inverse_dynamics(again, *motion)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    text = target.read_text()
    assert 'pos="0 0 .03" mass=".1" diaginertia="1e-4 1e-4 4e-5"' in text
    assert "<!-- kept -->" in text


def least_by_cvxpy(total: Array, bodies: list[Array], floor: Array) -> float:
    """Return the least Σ ‖W^(-1/2) (P - W) W^(-1/2)‖² by a solver of cones."""
    objective, parts = 0, []
    for number, body in enumerate(bodies):
        W = to_pseudo_inertia(body)
        root = np.linalg.cholesky(W + (floor if number == 0 else 0.0))
        inverse = np.linalg.inv(root)
        X = cvxpy.Variable((4, 4), symmetric=True)
        parts.append((root @ X @ root.T, X))
        objective += cvxpy.sum_squares(X - inverse @ W @ inverse.T)
    limits = [X >> 0.05 * np.eye(4) for _, X in parts]
    limits.append(sum(part for part, _ in parts) == to_pseudo_inertia(total))
    problem = cvxpy.Problem(cvxpy.Minimize(objective), limits)
    problem.solve(solver="CLARABEL")
    return float(problem.value)


@pytest.mark.parametrize("seed", range(count(4, 60)))
def test_the_least_change_is_the_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    total = random_body(rng)
    J = to_pseudo_inertia(total)
    root, bodies = np.linalg.cholesky(J), []
    for share in (0.2, 0.8, 0.7):
        axes, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        inner = (axes * (share * rng.uniform(0.3, 1.7, 4))) @ axes.T
        bodies.append(from_pseudo_inertia(root @ inner @ root.T))
    made = divide(total, bodies)
    assert made.reason
    np.testing.assert_allclose(sum(made.bodies), total, rtol=0, atol=1e-12 * np.abs(total).max())
    value = 0.0
    for number, (old, new) in enumerate(zip(bodies, made.bodies)):
        assert realizability(new).realizable
        W = to_pseudo_inertia(old)
        inverse = np.linalg.inv(np.linalg.cholesky(W + (0.01 * J if number == 0 else 0.0)))
        value += float(np.sum((inverse @ (to_pseudo_inertia(new) - W) @ inverse.T) ** 2))
    assert value == pytest.approx(least_by_cvxpy(total, bodies, 0.01 * J), rel=1e-5)


def test_a_total_that_is_no_body_gives_the_carrier_the_rest() -> None:
    rng = np.random.default_rng(0)
    other = random_body(rng)
    total = np.array([1.0, 0, 0, 1, 0, -1, 0, 0, 0, 1])
    made = divide(total, [random_body(rng), other])
    assert made.reason == ""
    assert np.array_equal(made.bodies[1], other)
    assert np.allclose(made.bodies[0] + other, total, rtol=0, atol=1e-15)


def test_locks_of_a_tree_without_a_file_of_that_name() -> None:
    """A file without the locked joints, as of an arm without its hand, gets the whole body."""
    full = random_tree(np.random.default_rng(0))
    name = full.joint_names[-1]
    model = full.locked({name: 0.3})
    whole, notices = unlocked(model, model)
    assert notices == ()
    assert whole == model
