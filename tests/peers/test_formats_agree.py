"""One arm written by hand as a table, TOML, URDF and MJCF is one robot, to the eyes of other
libraries as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from conftest import count
from minidyn.formats.urdf.write import write_urdf
from minidyn.model.geometry import matrix_of
from robot_cases import robot_of_seed

Array = NDArray[np.float64]


@dataclass
class Row:
    """One joint and its link: mDH row, then what drives and limits it, then the body."""

    parent: int
    slides: bool
    alpha: float
    a: float
    theta: float
    d: float
    lower: float
    effort: float
    damping: float
    friction: float
    gear: float
    mass: float
    com: Array
    inertia: Array


def random_rows(rng: np.random.Generator, joints: int) -> list[Row]:
    rows = []
    for index in range(joints):
        points = rng.normal(size=(4, 3)) * 0.1
        inertia = sum(r @ r * np.eye(3) - np.outer(r, r) for r in points) * rng.uniform(0.5, 2)
        rows.append(
            Row(
                parent=int(rng.integers(max(0, index - 1), index + 1)),
                slides=bool(rng.random() < 0.3),
                alpha=float(rng.choice([0, 90, -90, 180, 37])),
                a=float(rng.choice([0, 0.5])),
                theta=float(rng.choice([0, 90, -20])),
                d=float(rng.choice([0, -0.25])),
                lower=float(-rng.integers(1, 3)),
                effort=float(rng.integers(10, 100)),
                damping=float(rng.choice([0, 0.5])),
                friction=float(rng.choice([0, 0.25])),
                gear=float(rng.choice([1, 80])),
                mass=float(rng.uniform(0.5, 5)),
                com=rng.normal(size=3) * 0.1,
                inertia=inertia,
            )
        )
    return rows


def words(values: Array | list[float] | tuple[float, ...]) -> str:
    return " ".join(repr(float(value)) for value in values)


def six(inertia: Array) -> list[float]:
    """Return xx xy xz yy yz zz."""
    return [float(inertia[i, j]) for i in range(3) for j in range(i, 3)]


def as_toml(rows: list[Row]) -> str:
    text = ['name = "arm"', "gravity = [0, 0, -9.81]"]
    for index, row in enumerate(rows):
        parent = "base" if row.parent == 0 else f"link{row.parent}"
        terms = [f"gear_ratio = {row.gear!r}"]
        terms += [f"viscous = {row.damping!r}"] if row.damping else []
        terms += [f"coulomb = {row.friction!r}"] if row.friction else []
        text += [
            "[[joint]]",
            f'name = "joint{index + 1}"\nparent = "{parent}"\nchild = "link{index + 1}"',
            f'type = "{"prismatic" if row.slides else "revolute"}"',
            f'alpha = "{row.alpha} deg"\na = {row.a!r}\ntheta = "{row.theta} deg"\nd = {row.d!r}',
            f"limits = {{ lower = {row.lower!r}, upper = 2, effort = {row.effort!r} }}",
            f"drive = {{ {', '.join(terms)} }}",
        ]
    for index, row in enumerate(rows):
        com = ", ".join(map(repr, row.com.tolist()))
        inertia = ", ".join(map(repr, six(row.inertia)))
        text += [
            "[[link]]",
            f'name = "link{index + 1}"\nmass = {row.mass!r}\ncom = [{com}]\ninertia = [{inertia}]',
        ]
    return "\n".join(text) + "\n"


def origin(row: Row) -> tuple[Array, tuple[float, float, float]]:
    """The row's placement as a shift and as roll, pitch, yaw.

    Rx(alpha) Tx(a) Rz(theta) Tz(d) worked out by hand.
    """
    ca, sa = (round(f(math.radians(row.alpha)), 15) for f in (math.cos, math.sin))
    shift = np.array([row.a, -sa * row.d, ca * row.d])
    ct, st = (round(f(math.radians(row.theta)), 15) for f in (math.cos, math.sin))
    R = np.array([[ct, -st, 0], [ca * st, ca * ct, -sa], [sa * st, sa * ct, ca]])
    if abs(R[2, 0]) > 1 - 1e-12:
        return shift, (0.0, -math.copysign(math.pi / 2, R[2, 0]), math.atan2(-R[0, 1], R[1, 1]))
    return shift, (math.atan2(R[2, 1], R[2, 2]), -math.asin(R[2, 0]), math.atan2(R[1, 0], R[0, 0]))


def as_urdf(rows: list[Row]) -> str:
    text = ['<robot name="arm">', '<link name="base"/>']
    for index, row in enumerate(rows):
        entries = " ".join(
            f'{key}="{v!r}"'
            for key, v in zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), six(row.inertia))
        )
        shift, rpy = origin(row)
        parent = "base" if row.parent == 0 else f"link{row.parent}"
        text.append(f"""
          <link name="link{index + 1}"><inertial><origin xyz="{words(row.com)}"/><mass value="{row.mass!r}"/>
            <inertia {entries}/></inertial></link>
          <joint name="joint{index + 1}" type="{"prismatic" if row.slides else "revolute"}">
            <origin xyz="{words(shift)}" rpy="{words(rpy)}"/>
            <parent link="{parent}"/><child link="link{index + 1}"/><axis xyz="0 0 1"/>
            <limit lower="{row.lower}" upper="2" effort="{row.effort}"/>
            <dynamics damping="{row.damping}" friction="{row.friction}"/></joint>
          <transmission name="t{index}"><joint name="joint{index + 1}"/><actuator name="m{index}">
            <mechanicalReduction>{row.gear}</mechanicalReduction></actuator></transmission>""")  # noqa: E501
    return "\n".join([*text, "</robot>"])


def as_mjcf(rows: list[Row]) -> str:
    def body(index: int) -> str:
        row = rows[index]
        shift, rpy = origin(row)
        xx, xy, xz, yy, yz, zz = six(row.inertia)
        inner = "".join(
            body(child) for child in range(len(rows)) if rows[child].parent == index + 1
        )
        return f"""<body name="link{index + 1}" pos="{words(shift)}" euler="{words(rpy)}">
          <joint name="joint{index + 1}" type="{"slide" if row.slides else "hinge"}" axis="0 0 1"
            range="{row.lower} 2" actuatorfrcrange="{-row.effort} {row.effort}"
            damping="{row.damping}" frictionloss="{row.friction}"/>
          <inertial pos="{words(row.com)}" mass="{row.mass!r}" fullinertia="{words([xx, yy, zz, xy, xz, yz])}"/>
          {inner}</body>"""  # noqa: E501

    bodies = "".join(body(child) for child in range(len(rows)) if rows[child].parent == 0)
    motors = "".join(
        f'<motor joint="joint{i + 1}" gear="{row.gear}"/>' for i, row in enumerate(rows)
    )
    return f"""<mujoco model="arm"><compiler angle="radian" eulerseq="XYZ"/><option gravity="0 0 -9.81"/>
      <worldbody>{bodies}</worldbody><actuator>{motors}</actuator></mujoco>"""  # noqa: E501


def from_table(rows: list[Row]) -> md.Robot:
    bodies = []
    for row in rows:
        drive = {key: value for key, value in (("Fv", row.damping), ("Fc", row.friction)) if value}
        bodies.append({"mass": row.mass, "com": row.com, "inertia": row.inertia, **drive})
    return md.Robot.from_mdh(
        ["P" if row.slides else "R" for row in rows],
        alpha=[math.radians(row.alpha) for row in rows],
        a=[row.a for row in rows],
        d=[row.d for row in rows],
        theta=[math.radians(row.theta) for row in rows],
        parent=[row.parent for row in rows],
        parameters=bodies,
        name="arm",
    )


@pytest.mark.parametrize("seed", range(count(12, 100)))
def test_four_descriptions_of_one_arm(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, int(rng.integers(1, 7)))
    # files sort branches first; number the table's joints the same way
    for index in range(1, len(rows)):
        rows[index].parent = (
            index if rows[index].parent not in _ancestors(rows, index) else rows[index].parent
        )
    robots = [from_table(rows)]
    for suffix, write in ((".toml", as_toml), (".urdf", as_urdf), (".xml", as_mjcf)):
        path = tmp_path / f"arm{suffix}"
        path.write_text(write(rows))
        robots.append(md.load(path))
    first = robots[0]
    q, dq, ddq = rng.uniform(-1, 1, size=(3, 4, first.n))
    torque = md.inverse_dynamics(first, q, dq, ddq)
    for robot in robots[1:]:
        assert robot.parameter_names == first.parameter_names
        assert robot.joint_names == first.joint_names
        assert robot.link_names == first.link_names
        assert np.allclose(robot.parameters, first.parameters, rtol=1e-14, atol=1e-15)
        assert [joint.drive.gear_ratio for joint in robot.joints] == [row.gear for row in rows]
        assert [joint.limits.lower for joint in robot.joints] == [row.lower for row in rows]
        assert [joint.limits.effort for joint in robot.joints] == [row.effort for row in rows]
        for ours, theirs in zip(first.joints, robot.joints):
            assert ours.parent == theirs.parent
            for value in (0.0, 0.7):
                assert np.allclose(
                    ours.placement_at(value), theirs.placement_at(value), rtol=0, atol=1e-14
                )
        assert np.allclose(md.inverse_dynamics(robot, q, dq, ddq), torque, rtol=0, atol=1e-11)


def _ancestors(rows: list[Row], index: int) -> set[int]:
    """Numbers (from 1, 0 the base) of the link before joint `index` and of those it hangs on."""
    found, link = {0}, index
    while link > 0:
        found.add(link)
        link = rows[link - 1].parent
    return found


@pytest.mark.parametrize("seed", range(count(8, 60)))
def test_what_we_write_mujoco_and_pinocchio_read_alike(seed: int, tmp_path: Path) -> None:
    pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
    robot = robot_of_seed(seed)
    path = tmp_path / "robot.urdf"
    write_urdf(robot, path)
    assert md.load(path) == robot
    rng = np.random.default_rng(seed)
    q = {joint.name: float(rng.uniform(-1, 1)) for joint in robot.joints}
    world = [robot.base_placement]
    for joint in robot.joints:
        world.append(world[joint.parent + 1] @ joint.placement_at(q[joint.name]))
    ours = dict(zip(robot.link_names, world[1:]))
    ours |= {frame.name: world[frame.link + 1] @ matrix_of(frame.steps) for frame in robot.frames}
    moving = [joint for joint in robot.joints if joint.kind != "fixed"]
    total = sum(link.mass for link in robot.links)

    model = pin.buildModelFromUrdf(str(path))
    configuration = pin.neutral(model)
    for joint in moving:
        peer = model.joints[model.getJointId(joint.name)]
        angle = q[joint.name]
        configuration[peer.idx_q : peer.idx_q + peer.nq] = (
            [angle] if peer.nq == 1 else [math.cos(angle), math.sin(angle)]
        )
    data = model.createData()
    pin.framesForwardKinematics(model, data, configuration)
    for name, T in ours.items():
        assert np.allclose(
            T, data.oMf[model.getFrameId(name, pin.FrameType.BODY)].homogeneous, rtol=0, atol=1e-12
        )
    assert sum(inertia.mass for inertia in model.inertias) == pytest.approx(total, rel=1e-12)
    com = (
        sum(T[:3] @ [*(link.mass * link.com), link.mass] for T, link in zip(world[1:], robot.links))
        / total
    )
    assert np.allclose(pin.centerOfMass(model, data, configuration), com, atol=1e-12)

    spec = mujoco.MjSpec.from_file(str(path))
    spec.compiler.fusestatic = False
    compiled = spec.compile()
    state = mujoco.MjData(compiled)
    for joint in moving:
        state.qpos[compiled.jnt_qposadr[compiled.joint(joint.name).id]] = q[joint.name]
    mujoco.mj_forward(compiled, state)
    for name, T in ours.items():
        assert np.allclose(T[:3, 3], state.body(name).xpos, rtol=0, atol=1e-10), name
    assert compiled.body_mass.sum() == pytest.approx(total, rel=1e-12)
