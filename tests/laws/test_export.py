"""What is exported predicts as the estimate does, in every format, and other programs understand
it.
"""

import ctypes
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from random_robots import random_tree, rich_robot

import minidyn as md
import robot_cases
from c_compiler import STRICT, needs_gcc
from conftest import count
from export_cases import ALL, close, driven, estimate_of, filled, predicted, states
from minidyn.codegen.files import function_for
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.dynamics.sources import source_name
from minidyn.errors import DescriptionError, UnknownName, UnknownParameters, Unsupported
from minidyn.files import new_folder
from minidyn.formats.mjcf.update import update_mjcf
from minidyn.formats.side_file import side_path
from minidyn.formats.urdf.update import inertial_numbers
from minidyn.identification.consistency.certificate import certify
from minidyn.identification.estimate import VERSION, load_estimate
from minidyn.identification.export import describable, file_name, nearest_consistent
from minidyn.model.drives import TERMS
from minidyn.model.joint import Limits

INSTANT = [
    name for name, term in TERMS.items() if not term.memory
]  # test_presliding.py has the others


def torque(robot: md.Robot, like: md.Robot, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the torques of a robot whose joints may be in another order."""
    order = [robot.joint_names.index(name) for name in like.joint_names]
    turned = [np.empty_like(part) for part in motion]
    for part, other in zip(motion, turned):
        other[:, order] = part
    return inverse_dynamics(robot, *turned)[:, order]


def compiled(folder: Path, robot: md.Robot, what: str = "inverse_dynamics"):
    library = folder / "model.so"
    if not library.exists():
        words = [
            "gcc",
            *STRICT,
            "-shared",
            "-fPIC",
            str(folder / "model.c"),
            "-o",
            str(library),
            "-lm",
        ]
        subprocess.run(words, check=True)
    return getattr(ctypes.CDLL(str(library)), source_name(robot, function_for(robot, what)))


def called(function, motion: tuple[np.ndarray, ...], size: int) -> np.ndarray:
    found = np.zeros((len(motion[0]), size))
    for row, out in enumerate(found):
        arrays = [np.ascontiguousarray(part[row]) for part in motion] + [out]
        function(*(array.ctypes.data_as(ctypes.c_void_p) for array in arrays))
    return found


CASES = ["ur10e", "scara", "hpr", *(f"random{seed}" for seed in range(count(2, 30)))]


@needs_gcc
@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_format_predicts_as_the_estimate(name, consistent, tmp_path) -> None:
    rng = np.random.default_rng(len(name) + consistent)
    if name.startswith("random"):
        robot = random_tree(np.random.default_rng(int(name[6:])))
        terms = [str(term) for term in rng.choice(INSTANT, size=3, replace=False)]
        robot = filled(
            robot.with_drives(rotor_inertia=True, friction=(*ALL, *terms), sign_width=0.1), rng
        )
    else:
        robot = driven(name, rng)
    estimate = estimate_of(robot, rng, consistent)
    exported = estimate.export(tmp_path / "out")
    assert all(file.is_file() for file in exported.files)
    assert {file.name for file in exported.files} == {
        file.name for file in (tmp_path / "out").iterdir()
    }
    motion = states(robot, rng)
    wanted = predicted(estimate, motion)
    formats = [one for one in ("toml", "urdf", "mjcf") if (name, one) != ("hpr", "mjcf")]
    assert ("mjcf" in left_out(exported)) == (name == "hpr")
    for file in formats:
        written = tmp_path / "out" / file_name(file, robot.name)
        close(torque(md.load(written), robot, motion), wanted)
    if name != "hpr":
        mujoco.MjModel.from_xml_path(str(tmp_path / "out" / file_name("mjcf", robot.name)))
        assert ("export.nearest" in codes(exported)) == (not consistent)
    close(called(compiled(tmp_path / "out", estimate.robot), motion, robot.n), wanted)


@needs_gcc
def test_c_model_has_all_functions(tmp_path) -> None:
    robot = driven("rx90", np.random.default_rng(0))
    estimate_of(robot, np.random.default_rng(0)).export(tmp_path / "model.c")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.c", "model.h"]
    motion = states(robot, np.random.default_rng(1))
    q, dq, ddq = motion
    M = called(compiled(tmp_path, robot, "inertia_matrix"), (q,), 36).reshape(-1, 6, 6)
    close(M, md.inertia_matrix(robot, q))
    close(called(compiled(tmp_path, robot, "gravity_torque"), (q,), 6), md.gravity_torque(robot, q))
    tau = inverse_dynamics(robot, *motion)
    close(called(compiled(tmp_path, robot, "forward_dynamics"), (q, dq, tau), 6), ddq)
    close(
        called(compiled(tmp_path, robot, "coriolis_matrix"), (q, dq), 36),
        md.coriolis_matrix(robot, q, dq).reshape(-1, 36),
    )
    assert "gcc -std=c99" in (tmp_path / "model.h").read_text()
    (tmp_path / "other").mkdir()
    md.save(robot, tmp_path / "other" / "model.c")
    for name in ("model.c", "model.h"):
        assert (tmp_path / "other" / name).read_text() == (tmp_path / name).read_text()
    with pytest.raises(UnknownParameters):
        md.save(robot.with_parameters(None), tmp_path / "other" / "unknown.c")


@needs_gcc
def test_c_files_have_the_name_that_was_asked_for(tmp_path) -> None:
    robot = driven("scara", np.random.default_rng(0))
    md.save(robot, tmp_path / "my-arm.v2.c")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["my-arm.v2.c", "my-arm.v2.h"]
    subprocess.run(["gcc", "-std=c99", "-Werror", "-c", "my-arm.v2.c"], cwd=tmp_path, check=True)
    for name in ('a"; int x; ".c', "-o.c", "arm 2.c"):
        with pytest.raises(DescriptionError, match="choose another"):
            md.save(robot, tmp_path / name)


def mujoco_torque(path: Path, like: md.Robot, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return MuJoCo's own inverse dynamics; dry friction is a constraint there and is left out."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS | mujoco.mjtDisableBit.mjDSBL_LIMIT
    )
    data = mujoco.MjData(model)
    places = [model.joint(name).dofadr[0] for name in like.joint_names]
    found = np.empty_like(motion[0])
    for row in range(len(found)):
        for array, part in zip((data.qpos, data.qvel, data.qacc), motion):
            array[places] = part[row]
        mujoco.mj_inverse(model, data)
        found[row] = data.qfrc_inverse[places]
    return found


@pytest.mark.parametrize("name", ["panda", "scara", "puma560"])
def test_mujoco_itself_simulates_the_same_robot(name, tmp_path) -> None:
    """Armature, damping, a coupled drive and a spring reach MuJoCo, not only our own reader."""
    rng = np.random.default_rng(4)
    first, second = md.load(name).joint_names[-2:]
    robot = md.load(name).with_drives(True, ("viscous", "spring"), coupling={second: {first: -0.4}})
    robot = filled(robot, rng)
    md.save(robot, tmp_path / "arm.xml")
    motion = states(robot, rng)
    close(mujoco_torque(tmp_path / "arm.xml", robot, motion), inverse_dynamics(robot, *motion))
    back = md.load(tmp_path / "arm.xml")
    close(inverse_dynamics(back, *motion), inverse_dynamics(robot, *motion))
    assert back.joints[-1].drive == robot.joints[-1].drive
    assert not any(
        code.startswith("mjcf.") for code in codes(back)
    )  # the side file says what tendons and springs mean


MJCF = """<mujoco model="arm"><!-- a comment that stays -->
  <compiler angle="degree" inertiafromgeom="true" meshdir="meshes" balanceinertia="true"/>
  <default><joint damping="0.5" armature="0.01"/><default class="big"><joint frictionloss="2"/></default></default>
  <asset><mesh file="tet.obj"/></asset>
  <worldbody>
    <body name="base" pos="0 0 0.1">
      <body name="upper" pos="0 0 0.2" euler="90 0 0">
        <joint name="j1" axis="0 1 0" range="-90 90"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0 0 0.4" rgba="1 0 0 1"/>
        <body name="tool" pos="0 0 0.3"><geom type="sphere" size="0.03"/></body>
        <body pos="0 0 0.4">
          <joint axis="0 1 0" class="big" pos="0 0.1 0"/>
          <inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.01"></inertial>
          <geom type="mesh" mesh="tet"/>
          <frame euler="10 0 0"><body name="slider"><joint name="s" type="slide"/><geom size=".1"/></body></frame>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="j1" gear="50"/></actuator>
</mujoco>
"""  # noqa: E501
TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


@pytest.mark.parametrize("where", ["same", "other"])
def test_an_existing_mjcf_keeps_its_geometry(where, tmp_path) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "tet.obj").write_text(TETRAHEDRON)
    source = tmp_path / "arm.xml"
    source.write_text(MJCF)
    rng = np.random.default_rng(0)
    robot = filled(
        md.load(source).with_drives(rotor_inertia=True, friction=ALL, sign_width=0.1), rng
    )
    folder = tmp_path / where
    exported = estimate_of(robot, rng).export(folder)
    # the random bodies are lighter than the tool that one of them holds
    assert set(codes(exported)) == {"export.cannot_say", "robot.divided_rigid"}
    target = folder / "arm.xml"
    if where == "same":
        target = tmp_path / "new.xml"
        update_mjcf(robot, source, target)
    motion = states(robot, rng)
    close(torque(md.load(target), robot, motion), inverse_dynamics(robot, *motion))
    model = mujoco.MjModel.from_xml_path(str(target))
    assert model.nmesh == 1
    assert model.ngeom == 4
    text = target.read_text()
    assert "a comment that stays" in text
    assert 'rgba="1 0 0 1"' in text
    plain = robot.with_drives(friction="viscous")
    robot_without = plain.with_parameters(
        [robot.parameters[robot.layout.index(name)] for name in plain.parameter_names]
    )
    model.actuator_gear[:] = 1
    found = mujoco.MjData(model)
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS | mujoco.mjtDisableBit.mjDSBL_LIMIT
    )
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for q, dq, ddq in zip(*motion):
        found.qpos[:], found.qvel[:], found.qacc[:] = q, dq, ddq
        mujoco.mj_inverse(model, found)
        wanted = inverse_dynamics(robot_without, q, dq, ddq)
        np.testing.assert_allclose(found.qfrc_inverse, wanted, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize("inside", [True, False])
def test_bodies_in_included_files_are_not_written_into(inside, tmp_path) -> None:
    body = '<body name="one"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".1 0 0"/></body>'
    (tmp_path / "part.xml").write_text(
        f"<mujoco>{body if inside else f'<worldbody>{body}</worldbody>'}</mujoco>"
    )
    include = '<include file="part.xml"/>'
    (tmp_path / "arm.xml").write_text(
        f"<mujoco>{f'<worldbody>{include}</worldbody>' if inside else include}</mujoco>"
    )
    rng = np.random.default_rng(0)
    robot = filled(md.load(tmp_path / "arm.xml"), rng)
    with pytest.raises(DescriptionError, match="cannot be written there"):
        md.update_mjcf(robot, tmp_path / "arm.xml", tmp_path / "new.xml")
    exported = estimate_of(robot, rng).export(tmp_path / "out", "mjcf")
    assert exported.notices[0].code == "export.written_anew"
    motion = states(robot, rng)
    close(
        torque(md.load(tmp_path / "out" / file_name("mjcf", robot.name)), robot, motion),
        inverse_dynamics(robot, *motion),
    )


def test_a_folder_that_does_not_exist_is_named(tmp_path) -> None:
    with pytest.raises(DescriptionError, match=r"nowhere/arm\.xml: cannot be written"):
        md.save(driven("two_link", np.random.default_rng(0)), tmp_path / "nowhere" / "arm.xml")


URDF = """<?xml version="1.0"?>
<robot name="arm"> <!-- kept -->
  <link name="base"><visual><geometry><mesh filename="meshes/a.stl"/></geometry></visual></link>
  <link name="one">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="j1" type="revolute">
    <parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="10" velocity="2"/>
  </joint>
  <link name="two">
    <visual><geometry><mesh filename="package://arm/b.dae"/></geometry></visual>
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="j2" type="continuous">
    <origin xyz="0.3 0 0" rpy="1.5707963267948966 0 0"/>
    <parent link="one"/>
    <child link="two"/>
    <axis xyz="0 0 1"/>
    <dynamics damping="0.1"/>
  </joint>
</robot>
"""


@pytest.mark.parametrize("consistent", [True, False])
def test_an_existing_urdf_keeps_everything_else(consistent, tmp_path) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "a.stl").write_bytes(b"solid")
    source = tmp_path / "arm.urdf"
    source.write_text(URDF)
    rng = np.random.default_rng(2)
    robot = md.load(source).with_drives(
        rotor_inertia=True, friction=ALL, coupling={"j2": {"j1": 0.3}}, sign_width=0.2
    )
    estimate = estimate_of(filled(robot, rng), rng, consistent)
    exported = estimate.export(tmp_path / "deep" / "out", ["urdf"])
    target = tmp_path / "deep" / "out" / "arm.urdf"
    assert exported.files == (target, side_path(target))
    text = target.read_text()
    assert 'filename="../../meshes/a.stl"' in text
    assert (target.parent / "../../meshes/a.stl").is_file()
    assert 'filename="package://arm/b.dae"' in text
    assert "<!-- kept -->" in text
    motion = states(robot, rng)
    close(inverse_dynamics(md.load(target), *motion), predicted(estimate, motion))
    if consistent:
        assert md.load(target).fingerprint == estimate.robot.fingerprint


def test_the_looks_of_a_urdf_reach_the_mjcf(tmp_path) -> None:
    """Shapes and meshes are carried over, weigh and touch nothing.

    A mesh that MuJoCo refuses costs no export.
    """
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "b.obj").write_text(TETRAHEDRON)
    box = (
        '<visual><origin xyz="0 0 1" rpy="0 0 0.5"/><geometry><box size="2 4 '
        '6"/></geometry></visual>'
    )
    text = URDF.replace('<link name="one">', f'<link name="one">{box}')
    text = text.replace("meshes/a.stl", "meshes/lost.stl").replace(
        "package://arm/b.dae", "meshes/b.obj"
    )
    source = tmp_path / "arm.urdf"
    source.write_text(text)
    rng = np.random.default_rng(0)
    estimate = estimate_of(filled(md.load(source), rng), rng)
    exported = estimate.export(tmp_path / "deep" / "out", "mjcf")
    assert exported.notices[0].code == "mjcf.lost_meshes"
    assert list(exported.notices[0].data["meshes"]) == ["meshes/lost.stl"]
    target = tmp_path / "deep" / "out" / "arm.xml"
    model = mujoco.MjModel.from_xml_path(str(target))
    assert model.ngeom == 2
    assert model.nmesh == 1
    np.testing.assert_allclose(
        model.geom_size[model.geom_type == mujoco.mjtGeom.mjGEOM_BOX], [[1, 2, 3]]
    )
    assert not model.geom_contype.any()
    motion = states(estimate.robot, rng)
    close(
        mujoco_torque(target, estimate.robot, motion),
        inverse_dynamics(without_drives(estimate.robot), *motion),
    )
    (tmp_path / "meshes" / "c.stl").write_text("no mesh at all")
    source.write_text(text.replace("b.obj", "c.stl"))
    exported = estimate.export(tmp_path / "again", "mjcf")
    assert "mjcf.no_pictures" in codes(exported)
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "again" / "arm.xml")).ngeom == 0


def codes(value: Any) -> list[str]:
    return [notice.code for notice in value.notices]


def left_out(exported: Any) -> list[str]:
    """Formats that could not be written."""
    return [
        notice.data["format"] for notice in exported.notices if notice.code == "export.left_out"
    ]


def without_drives(robot: md.Robot) -> md.Robot:
    """Return the robot without the terms that MuJoCo's inverse dynamics leaves out here.

    Dry friction and offsets.
    """
    values = robot.parameters.copy()
    for columns in robot.layout.drives:
        for column in columns:
            if column.symbol in ("Fc", "Fo"):
                values[column.index] = 0.0
    return robot.with_parameters(values)


@pytest.mark.parametrize("ending", ["urdf", "xml"])
def test_a_robot_that_left_its_file_behind_is_written_anew(ending, tmp_path) -> None:
    """A load that was added, another gravity.

    The file it came from cannot say it, the export still predicts.
    """
    rng = np.random.default_rng(3)
    source = tmp_path / f"arm.{ending}"
    md.save(driven("puma4", rng), source)
    robot = md.load(source).with_load(None, robot_cases.random_body(rng, away=0.1, heaviest=2.0))
    robot = robot.with_gravity((0, 1, -9.7))
    estimate = estimate_of(robot, rng)
    exported = estimate.export(tmp_path / "out")
    motion = states(robot, rng)
    for file in (file_name(one, robot.name) for one in ("toml", "urdf", "mjcf")):
        close(torque(md.load(tmp_path / "out" / file), robot, motion), predicted(estimate, motion))
    assert "export.written_anew" in codes(exported)


def test_a_file_that_minidyn_wrote_is_updated(tmp_path) -> None:
    """What its element of our own said before is not mixed with what the side file says now."""
    rng = np.random.default_rng(4)
    robot = driven("rx90", rng)
    md.save(robot, tmp_path / "arm.urdf")
    estimate = estimate_of(filled(md.load(tmp_path / "arm.urdf"), rng), rng)
    assert set(codes(estimate.export(tmp_path / "out"))) <= {"export.cannot_say"}
    back = md.load(tmp_path / "out" / "rx90.urdf")
    np.testing.assert_array_equal(back.parameters, estimate.parameters)


def test_what_is_edited_later_counts(tmp_path) -> None:
    """The description comes first.

    Damping and mass changed by hand are read, what only the side file says stays.
    """
    robot = driven("two_link", np.random.default_rng(0))
    path = tmp_path / "arm.xml"
    md.save(robot, path)
    text = path.read_text()
    old = f'damping="{float(robot.parameters[robot.layout.index("Fv1")])!r}"'
    assert old in text
    path.write_text(text.replace(old, 'damping="7.5"').replace('mass="', 'mass="1', 1))
    back = md.load(path)
    assert back.parameters[back.layout.index("Fv1")] == 7.5
    assert back.links[0].mass != robot.links[0].mass
    np.testing.assert_array_equal(back.links[1].parameters, robot.links[1].parameters)
    for name in ("Fo1", "Ia2", "Fc2"):
        assert (
            back.parameters[back.layout.index(name)] == robot.parameters[robot.layout.index(name)]
        )
    edited = next(notice for notice in back.notices if notice.code == "side_file.edited")
    assert dict(edited.data) == {"joint": robot.joints[0].name, "values": ["viscous"]}


def test_side_files_do_not_outlive_their_robot(tmp_path) -> None:
    robot = driven("two_link", np.random.default_rng(0))
    for name in ("arm.xml", "arm.urdf"):
        md.save(robot, tmp_path / "arm.xml")
        side = side_path(tmp_path / name)
        side.write_text(side_path(tmp_path / "arm.xml").read_text())
        bare = filled(
            md.load("two_link").with_drives(rotor_inertia=False, friction=()),
            np.random.default_rng(1),
        )
        md.save(bare, tmp_path / name)
        back = md.load(tmp_path / name)
        assert not any(back.layout.drives)
        np.testing.assert_allclose(back.parameters, bare.parameters, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace('"joint1"', '"joint9"'),
            r"arm\.xml\.minidyn\.toml:\d+: .*no joint 'joint9'",
        ),
        (
            lambda text: text.replace("offset = ", "ofset = ", 1),
            r"arm\.xml\.minidyn\.toml:\d+: .*unknown key 'ofset'",
        ),
        (lambda text: text + "\n[[joint", r"arm\.xml\.minidyn\.toml:\d+: not valid TOML"),
    ],
)
def test_a_broken_side_file_is_named(change, message, tmp_path) -> None:
    md.save(driven("two_link", np.random.default_rng(0)), tmp_path / "arm.xml")
    side = side_path(tmp_path / "arm.xml")
    side.write_text(change(side.read_text()))
    with pytest.raises(DescriptionError, match=message):
        md.load(tmp_path / "arm.xml")
    with pytest.raises(DescriptionError, match=r"a side file, .*load 'arm\.xml' instead"):
        md.load(side)


def test_mjcf_refuses_what_it_cannot_hold(tmp_path) -> None:
    rng = np.random.default_rng(0)
    robot = driven("two_link", rng)
    path = tmp_path / "arm.xml"
    values = robot.parameters.copy()
    values[robot.layout.index("M1")] = -1.0
    with pytest.raises(DescriptionError, match="link 'link1': no body has these parameters"):
        md.save(robot.with_parameters(values), path)
    values[robot.layout.index("M1")] = np.nan
    with pytest.raises(UnknownParameters, match="M1 unknown"):
        md.save(robot.with_parameters(values), path)
    with pytest.raises(Unsupported, match="loops"):
        md.save(driven("hpr", rng), path)
    estimate = estimate_of(robot, rng)
    with pytest.raises(UnknownName, match="format"):
        estimate.export(tmp_path / "out", ["sdf"])
    with pytest.raises(DescriptionError, match=r"ends with '\.yaml'"):
        estimate.export(tmp_path / "arm.yaml")
    with pytest.raises(DescriptionError, match="no such file"):
        estimate.export(tmp_path / "out", source=tmp_path / "nothing.urdf")
    assert not list(tmp_path.iterdir())


def test_massless_and_flat_links_load_in_mujoco(tmp_path) -> None:
    """Links without mass (a body with two joints) and sheets, which lie on the edge of what is
    possible.
    """
    rng = np.random.default_rng(0)
    robot = driven("puma4", rng)
    values = robot.parameters.copy()
    joints = [
        replace(joint, limits=Limits(0.5, 0.5, 1.0, 0.0)) for joint in robot.joints
    ]  # placeholders, too
    robot = replace(robot, joints=tuple(joints))
    values[robot.layout.links[1]] = 0.0
    values[robot.layout.links[2]] = [1, 0, 0, 2, 0, 3, 0, 0, 0, 4.0]  # ZZ = XX + YY
    robot = robot.with_parameters(values)
    md.save(robot, tmp_path / "arm.xml")
    mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml"))
    np.testing.assert_array_equal(md.load(tmp_path / "arm.xml").parameters, robot.parameters)
    text = (tmp_path / "arm.xml").read_text()
    (tmp_path / "arm.xml").write_text(text.replace('mass="1e-14"', 'mass="0.5"'))
    back = md.load(tmp_path / "arm.xml")
    assert back.links[1].mass == 0.5
    assert [n.data["values"] for n in back.notices if n.code == "side_file.edited"] == [["inertia"]]


def test_hostile_names_stay_text(tmp_path) -> None:
    from hostile_names import HOSTILE

    rng = np.random.default_rng(0)
    for name in HOSTILE[: count(6, 1000)]:
        if any(
            ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 or ord(letter) > 0xFFFD
            for letter in name
        ):
            continue
        robot = driven("two_link", rng)
        robot = replace(robot, joints=(robot.joints[0], replace(robot.joints[1], name=name)))
        md.save(robot, tmp_path / "arm.xml")
        back = md.load(tmp_path / "arm.xml")
        assert back.joint_names == robot.joint_names
        assert (
            back.parameters[back.layout.index("Fo2")] == robot.parameters[robot.layout.index("Fo2")]
        )


# -------------------------------------------------------------------- files, whole or not at all


def write(target: Path, files: dict[str, str], obsolete=(), fail: bool = False) -> None:
    with new_folder(target, obsolete) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)
        if fail:
            raise RuntimeError("in the middle")


def test_a_folder_is_written_whole_or_not_at_all(tmp_path) -> None:
    target = tmp_path / "a" / "b"
    with pytest.raises(RuntimeError, match="in the middle"):
        write(target, {"one": "1"}, fail=True)
    assert not list(tmp_path.iterdir())
    write(target, {"one": "old", "two": "old"})
    (target / "mine").write_text("kept")
    (target / "inner").mkdir()
    for name in ("a", "inner"):  # what was put in place before the folder was met is undone
        with pytest.raises(DescriptionError, match="a folder, where a file"):
            write(target, {name: "new", "inner": "new", "one": "new"}, ["two"])
    assert {file.name: file.read_text() for file in target.iterdir() if file.is_file()} == {
        "one": "old", "two": "old", "mine": "kept",
    }  # fmt: skip
    write(target, {"one": "new"}, ["two", "never"])
    assert {file.name: file.read_text() for file in target.iterdir() if file.is_file()} == {
        "one": "new",
        "mine": "kept",
    }
    assert [file.name for file in target.parent.iterdir()] == ["b"]
    for path in (target / "one", target / "one" / "deeper"):
        with pytest.raises(DescriptionError, match="a file; expected a folder"):
            write(path, {"x": "y"})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_named(tmp_path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DescriptionError, match="cannot be written"):
        write(tmp_path / "out", {"x": "y"})


# -------------------------------------------------------------------- estimates and certificates


@pytest.mark.parametrize("base_method", ["exact", "qr", "mlc"])
@pytest.mark.parametrize("consistent", [True, False])
def test_estimates_come_back_bit_by_bit(base_method, consistent, tmp_path) -> None:
    rng = np.random.default_rng(5)
    robot = driven("puma560", rng)
    estimate = estimate_of(robot, rng, consistent)
    object.__setattr__(
        estimate, "base", md.base_parameters(robot.with_parameters(None), method=base_method)
    )
    if estimate.base.rank != len(estimate.beta):
        pytest.fail("the base maps of one robot have one rank")
    path = tmp_path / "estimate.json"
    estimate.save(path)
    back = load_estimate(path)
    for name in ("beta", "covariance", "sigma", "parameters", "std"):
        np.testing.assert_array_equal(getattr(back, name), getattr(estimate, name))
    for name in ("method", "consistent", "condition", "samples", "notices", "record", "names"):
        assert getattr(back, name) == getattr(estimate, name), name
    assert back.robot == estimate.robot
    assert back.base.robot == estimate.base.robot
    assert back.base.fingerprint == estimate.base.fingerprint
    assert back.base.structure == estimate.base.structure
    motion = states(robot, rng)
    np.testing.assert_array_equal(predicted(back, motion), predicted(estimate, motion))
    back.save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()
    json.loads(path.read_text(), parse_constant=pytest.fail)  # NaN and Infinity are no JSON


def test_a_name_that_one_format_cannot_hold_leaves_the_others(tmp_path) -> None:
    rng = np.random.default_rng(8)
    robot = driven("two_link", rng)
    for name, lost in (("$(id)", ["URDF"]), ("a\x01b", ["URDF", "MJCF"])):
        joints = (replace(robot.joints[0], name=name), *robot.joints[1:])
        exported = estimate_of(replace(robot, joints=joints), rng).export(tmp_path / str(len(lost)))
        assert left_out(exported) == [word.lower() for word in lost]
        there = sorted(file.name for file in (tmp_path / str(len(lost))).iterdir())
        assert there == sorted(file.name for file in exported.files)
        assert {"two_link.toml", "model.c"} <= set(there)
        assert "two_link.urdf" not in there


def test_broken_estimates_are_refused_by_name(tmp_path) -> None:
    """Whatever is changed in the file, there is either an estimate or one clear error."""
    rng = np.random.default_rng(6)
    estimate_of(driven("two_link", rng), rng).save(tmp_path / "good.json")
    text = (tmp_path / "good.json").read_text()
    path = tmp_path / "bad.json"
    told = []
    for _ in range(count(60, 2000)):
        place, length = int(rng.integers(len(text))), int(rng.integers(0, 30))
        word = str(rng.choice(["null", "-1", "[]", "{}", '"x"', "true", "1e400", "", "NaN"]))
        path.write_text(text[:place] + word + text[place + length :])
        try:
            load_estimate(path)
        except DescriptionError as error:
            told.append(str(error))
    assert len(told) > 30
    assert all(str(path) in message for message in told)
    for wrong in ("[" * 100_000, json.dumps(json.loads(text) | {"samples": "Infinity"})):
        path.write_text(wrong)
        with pytest.raises(DescriptionError, match="not a whole estimate"):
            load_estimate(path)
    good = json.loads(text)
    variances = np.array(good["covariance"], dtype=float)
    wrongs = {"consistent": ["no", 1, None], "sigma": [[-1.0, 1.0]], "samples": [-3]}
    bound = np.sqrt(np.outer(np.diag(variances), np.diag(variances)))
    lopsided, correlated = (
        np.diag(np.diag(variances)) + np.triu(0.5 * bound, 1),
        2 * bound - np.diag(np.diag(bound)),
    )
    wrongs |= {"beta": [["NaN", *good["beta"][1:]]]}
    for name, values in wrongs.items():
        for value in values:
            path.write_text(json.dumps(good | {name: value}))
            with pytest.raises(DescriptionError, match=f"not a whole estimate .*{name}"):
                load_estimate(path)
    for spoiled in (-variances, lopsided, correlated):  # the model is not lost for that
        path.write_text(json.dumps(good | {"covariance": spoiled.tolist()}))
        back = load_estimate(path)
        assert np.isinf(back.std).all()
        assert back.notices[-1].code == "estimate.no_covariance"
    size = range(len(variances))
    opened = [
        ["Infinity" if i == j else 0.0 for j in size] for i in size
    ]  # nothing is known: no fault
    path.write_text(json.dumps(good | {"covariance": opened}))
    assert np.isinf(load_estimate(path).std).all()
    other = estimate_of(driven("puma4", rng), rng)
    other.save(tmp_path / "other.json")
    content = json.loads(text) | {
        "robot": json.loads((tmp_path / "other.json").read_text())["robot"]
    }
    path.write_text(json.dumps(content))
    with pytest.raises(DescriptionError, match="not that of its base parameters"):
        load_estimate(path)


def test_files_of_other_versions(tmp_path) -> None:
    """Those of the version before are read; a newer one is refused with what to do.

    tests/data/estimate_version_2.json was written, at commit 33f2c23, by:

        robot = md.load("two_link").with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
        robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
        t = np.linspace(0, 5, 300)
        q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.01 *
        np.random.default_rng(0).normal(size=q.shape) estimate = md.identify(robot, md.Recording(t,
        q, tau, dq, ddq, robot.joint_names)) estimate.save("tests/data/estimate_version_2.json")
    """
    old = Path(__file__).parents[1] / "data" / "estimate_version_2.json"
    content = json.loads(old.read_text())
    assert content["version"] == 2
    estimate = load_estimate(old)
    assert estimate.beta.tolist() == content["beta"]
    assert [str(notice) for notice in estimate.notices] == content["notices"]
    assert estimate.certificate.consistent
    estimate.save(tmp_path / "new.json")
    new = json.loads((tmp_path / "new.json").read_text())
    assert new["version"] == VERSION > 2
    assert load_estimate(tmp_path / "new.json").values == estimate.values
    for version, word in (
        (VERSION + 1, "a newer minidyn wrote it"),
        (1, "identify again"),
        ("x", "identify again"),
    ):
        (tmp_path / "other.json").write_text(json.dumps(new | {"version": version}))
        with pytest.raises(DescriptionError, match=f"format version {version}; .*: {word}"):
            load_estimate(tmp_path / "other.json")


def test_loading_an_estimate_is_quick(tmp_path) -> None:
    robot = driven("panda", np.random.default_rng(0))
    estimate_of(robot, np.random.default_rng(0)).save(tmp_path / "estimate.json")
    begin = time.process_time()
    load_estimate(tmp_path / "estimate.json")
    assert time.process_time() - begin < 0.5


def test_possible_and_describable_models() -> None:
    rng = np.random.default_rng(7)
    robot = driven("puma560", rng)
    wrong = estimate_of(robot, rng, consistent=False)
    assert not wrong.certificate.consistent
    assert certify(nearest_consistent(wrong)).consistent
    again = describable(wrong)
    np.testing.assert_allclose(
        wrong.base.matrix @ again.parameters, wrong.beta, rtol=1e-12, atol=1e-12
    )
    assert any(inertial_numbers(link.parameters) is None for link in wrong.robot.links)
    assert all(inertial_numbers(link.parameters) is not None for link in again.links)
    right = estimate_of(robot, rng)
    assert describable(right) is right.robot
    near = nearest_consistent(right)  # a possible estimate is its own nearest model
    assert np.abs((right.base.matrix @ near.parameters - right.beta) / right.std).max() < 1e-3


def test_certificate_says_what_is_proved() -> None:
    rng = np.random.default_rng(1)
    robot = driven("panda", rng)
    certificate = estimate_of(robot, rng).certificate
    assert certificate.consistent
    assert certificate.everywhere
    rotors = [robot.parameters[robot.layout.index(f"Ia{k}")] for k in range(1, 8)]
    assert certificate.bound == pytest.approx(min(rotors))
    for q in rng.uniform(-3, 3, (50, 7)):
        assert np.linalg.eigvalsh(md.inertia_matrix(robot, q))[0] >= certificate.bound
    assert certificate.total_mass == pytest.approx(sum(link.mass for link in robot.links))
    assert certificate.prior_mass == pytest.approx(certificate.total_mass)
    for part, value in zip(robot.layout.links, certificate.pseudo_inertias):
        ten = robot.parameters[part]
        tensor = np.array(
            [[ten[0], ten[1], ten[2]], [ten[1], ten[3], ten[4]], [ten[2], ten[4], ten[5]]]
        )
        pseudo = np.zeros((4, 4))
        pseudo[:3, :3] = 0.5 * np.trace(tensor) * np.eye(3) - tensor
        pseudo[:3, 3] = pseudo[3, :3] = ten[6:9]
        pseudo[3, 3] = ten[9]
        assert value == pytest.approx(np.linalg.eigvalsh(pseudo)[0])
    table = certificate.table()
    assert "every position" in table
    assert all(name in table for name in (*robot.link_names, "Ia7", "Fc1", "total mass"))
    values = robot.parameters.copy()
    values[robot.layout.index("Ia3")] = -5.0
    wrong = certify(robot, values)
    assert not wrong.everywhere
    assert np.isnan(wrong.bound)
    assert "not proved" in wrong.statement


def test_rich_robots_come_back_through_mjcf(tmp_path) -> None:
    """Gravity, placements of the base, loads and frames, for robots whose numbers MuJoCo
    accepts.
    """
    rng = np.random.default_rng(0)
    for seed in range(count(3, 30)):
        robot = rich_robot(np.random.default_rng(seed))
        robot = replace(robot, joints=tuple(replace(joint, follows=None) for joint in robot.joints))
        robot = filled(robot, rng)
        md.save(robot, tmp_path / "arm.xml")
        mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml"))
        motion = states(robot, rng)
        close(
            torque(md.load(tmp_path / "arm.xml"), robot, motion), inverse_dynamics(robot, *motion)
        )
