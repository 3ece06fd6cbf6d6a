"""MJCF against MuJoCo itself.

Masses, centres, inertias and placements, and everything the format can say.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from random_robots import placements

from hostile_names import HOSTILE
from minidyn.errors import DescriptionError
from minidyn.formats.mjcf.read import read_mjcf
from minidyn.model.parameters import from_body, to_body
from minidyn.model.robot import Robot

RICH = """
<mujoco model="rich">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0.1 0 -9.8"/>
  <default>
    <joint damping="0.5"/>
    <geom density="500"/>
    <default class="light"><geom density="100"/><joint damping="0" armature="0.02"/></default>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <light pos="0 0 3"/>
    <body name="pedestal" pos="0 0 0.5" euler="0 0 90">
      <geom type="box" size="0.1 0.1 0.5"/>
      <body name="arm" pos="0.1 0.2 0.3" euler="10 20 30">
        <joint name="turn" axis="0 0 1" range="-90 120" ref="30" frictionloss="0.3"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0.4 0.1 0"/>
        <geom type="sphere" size="0.1" pos="0.2 0 0" mass="1.5"/>
        <body name="wrist" pos="0.4 0.1 0" quat="0.8 0.6 0 0" childclass="light">
          <joint name="roll" pos="0.05 -0.02 0.1" axis="1 0 0"/>
          <joint name="pitch" axis="0 1 1" pos="0 0.1 0" damping="0.2"/>
          <joint name="reach" type="slide" axis="0 0 -1" range="-0.1 0.2" ref="0.05"/>
          <inertial pos="0.01 0.02 0.03" mass="0.7" diaginertia="0.01 0.02 0.025" axisangle="0 1 0 40"/>
          <geom type="box" size="1 1 1"/>
          <frame pos="0 0 0.1" euler="0 90 0">
            <body name="flange" pos="0 0 0.1">
              <inertial pos="0 0 0.1" mass="0.2" fullinertia="0.002 0.003 0.004 0.0001 0.0002 0.0003"/>
              <body name="finger">
                <joint name="grip" type="slide" axis="0 1 0"/>
                <geom type="ellipsoid" size="0.01 0.02 0.03"/>
              </body>
            </body>
          </frame>
        </body>
      </body>
    </body>
    <body pos="1 0 0">
      <joint axis="0 -1 0"/>
      <geom type="cylinder" size="0.1 0.2"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="turn" gear="50" forcerange="-2 2" forcelimited="true"/>
    <position joint="roll" kp="10" gear="7"/>
  </actuator>
</mujoco>
"""  # noqa: E501


def write(folder: Path, text: str) -> Path:
    path = folder / "robot.xml"
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str) -> Robot:
    return read_mjcf(write(folder, text))


def found(robot: Robot) -> list[tuple[str, dict[str, Any]]]:
    """Code and data of the notices."""
    return [(notice.code, dict(notice.data)) for notice in robot.notices]


def body(
    *joints: str,
    inertial: str = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>',
    inside: str = "",
) -> str:
    return (
        "<mujoco><worldbody><body "
        f'name="a">{"".join(joints)}{inertial}{inside}</body></worldbody></mujoco>'
    )


def against_mujoco(path: Path, robot: Robot, seed: int = 0) -> None:
    """Compare placements at a random position, and mass, centre and inertia of every moving
    body.
    """
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    data.qpos[:] = rng.uniform(-1, 1, model.nq)
    names = [
        model.joint(i).name
        or f"{model.body(model.jnt_bodyid[i]).name or 'body' + str(model.jnt_bodyid[i])}_joint"
        for i in range(model.njnt)
    ]
    q = dict(zip(names, data.qpos))
    assert [joint.name for joint in robot.joints] == names
    mujoco.mj_forward(model, data)
    ours = placements(robot, q)
    weights = np.zeros(model.nbody)
    for index in range(1, model.nbody):
        name = model.body(index).name or f"body{index}"
        assert np.allclose(ours[name][:3, 3], data.xpos[index], atol=1e-12), name
        assert np.allclose(ours[name][:3, :3], data.xmat[index].reshape(3, 3), atol=1e-12), name
        moving = model.body_weldid[index]
        weights[moving] += model.body_mass[index]
    for link in robot.links:
        index = next(
            (i for i in range(model.nbody) if (model.body(i).name or f"body{i}") == link.name), None
        )
        if index is None:
            assert np.all(link.parameters == 0)
            continue
        assert link.mass == pytest.approx(weights[index], rel=1e-12)
        # the same kinetic energy metric: compare the body's spatial inertia in the world
        parts = [i for i in range(model.nbody) if model.body_weldid[i] == index]
        total = np.zeros(10)
        back = np.linalg.inv(ours[link.name])
        for part in parts:
            R = back[:3, :3] @ data.ximat[part].reshape(3, 3)
            com = (back @ [*data.xipos[part], 1])[:3]
            total += from_body(model.body_mass[part], com, (R * model.body_inertia[part]) @ R.T)
        assert np.allclose(link.parameters, total, atol=1e-12), link.name
    assert np.allclose(robot.gravity, model.opt.gravity)


def test_everything_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, RICH)
    robot = read_mjcf(path)
    for seed in range(5):
        against_mujoco(path, robot, seed)
    by_name = {joint.name: joint for joint in robot.joints}
    assert robot.name == "rich"
    assert robot.base_name == "world"
    assert robot.gravity.tolist() == [0.1, 0, -9.8]
    turn, roll, pitch, reach = (by_name[name] for name in ("turn", "roll", "pitch", "reach"))
    assert np.allclose(
        (turn.limits.lower, turn.limits.upper), (-math.pi / 2, math.pi * 2 / 3), atol=1e-15
    )
    assert turn.limits.effort == 100
    assert [joint.kind for joint in robot.joints] == [
        "revolute", "continuous", "continuous", "prismatic", "prismatic", "continuous",
    ]  # fmt: skip
    assert turn.drive.columns == ("Fv", "Fc")
    assert roll.drive.columns == ("Ia",)
    assert pitch.drive.columns == ("Ia", "Fv")
    assert robot.parameters[robot.layout.index("Fc1")] == 0.3
    assert robot.parameters[robot.layout.index("Ia3")] == 0.02
    assert (turn.drive.gear_ratio, roll.drive.gear_ratio) == (
        50,
        1,
    )  # a position servo's gear is no gear ratio
    assert (reach.limits.lower, reach.limits.upper) == (-0.1, 0.2)
    assert robot.link_names == ("arm", "wrist_1", "wrist_2", "wrist", "finger", "body6")
    assert robot.joints[5].name == "body6_joint"
    flange = next(frame for frame in robot.frames if frame.name == "flange")
    assert robot.link_names[flange.link] == "wrist"
    assert robot.notices == ()


def test_exact_digits_of_a_full_inertia(tmp_path: Path) -> None:
    inertial = '<inertial pos="0 0 0" mass="1.1" fullinertia="0.3 0.5 0.7 0.01 0.02 0.03"/>'
    link = read(tmp_path, body("<joint/>", inertial=inertial)).links[0]
    assert link.parameters.tolist() == [0.3, 0.01, 0.02, 0.5, 0.03, 0.7, 0, 0, 0, 1.1]


def test_right_angles_are_exact(tmp_path: Path) -> None:
    text = body("<joint/>").replace(
        '<body name="a">', '<body name="a" quat="0.70711 0.70711 0 0" pos="0 1 0">'
    )
    robot = read(tmp_path, text)
    assert robot.joints[0].placement.tolist() == [
        [1, 0, 0, 0],
        [0, 0, -1, 1],
        [0, 1, 0, 0],
        [0, 0, 0, 1],
    ]


SETTINGS = [
    'boundmass="2"',
    'boundinertia="2"',
    'settotalmass="5"',
    'inertiafromgeom="true"',
    'inertiafromgeom="false"',
    'inertiagrouprange="1 2"',
    'balanceinertia="true"',
    'angle="radian"',
    'autolimits="false"',
    'fusestatic="true"',
    'discardvisual="true"',
]


@pytest.mark.filterwarnings("ignore:.*settotalmass.*:UserWarning")
@pytest.mark.parametrize("setting", SETTINGS)
def test_compiler_settings_are_honoured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    text = f"""<mujoco><compiler {setting}/><worldbody>
      <body name="a"><joint name="j" range="-1 1" limited="true"/>
        <geom size="0.1" group="1"/><geom size="0.2" group="3"/>
        <inertial pos="0 0 0.1" mass="1" diaginertia="1 1 1.5"/>
        <body name="b" pos="0 0 1"><joint name="k" range="-1 1" limited="false"/><geom size="0.3" group="2"/>
        <inertial pos="0 0 0.1" mass="3" diaginertia="3 3 1.5"/>
        <body name="c"><geom size="0.1" group="1"/></body></body>
      </body></worldbody></mujoco>"""  # noqa: E501
    path = write(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    robot = read_mjcf(path)
    assert os.listdir(tmp_path) == ["robot.xml"]  # no log file of MuJoCo's
    if "fusestatic" in setting:  # there MuJoCo drops the fixed body's name; ours is kept
        assert [frame.name for frame in robot.frames] == ["c"]
        path.write_text(text.replace(setting, ""))
    against_mujoco(path, robot)
    assert robot.joints[0].kind == "revolute"
    assert robot.joints[1].kind == "continuous"


def test_includes_and_defaults_in_them(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "arm.xml").write_text(
        '<mujoco><default><joint damping="3"/></default><worldbody><body name="a" euler="0 0 '
        '30"><joint/>'
        '<geom size="0.1"/></body></worldbody></mujoco>'
    )
    path = write(
        tmp_path, '<mujoco><include file="parts/arm.xml"/><option gravity="0 0 -1"/></mujoco>'
    )
    robot = read_mjcf(path)
    against_mujoco(path, robot)
    assert robot.parameters[robot.layout.index("Fv1")] == 3
    (tmp_path / "parts" / "arm.xml").write_text("<!DOCTYPE mujoco>\n<mujoco/>")
    with pytest.raises(DescriptionError, match=r"arm.xml:1: the file declares a DOCTYPE"):
        read_mjcf(path)


# -------------------------------------------------------------------- inertia that is not there


ASSETS = """<asset>
  <mesh name="gone" file="package://nowhere/gone.stl"/> <mesh file="away.obj"/>
  <texture name="t" type="2d" file="missing.png"/><material name="m" texture="t"/>
  <hfield name="h" file="missing.png" size="1 1 1 1"/>
</asset>"""


def test_missing_files_do_not_matter_where_the_inertia_is_given(tmp_path: Path) -> None:
    inside = (
        '<geom type="mesh" mesh="gone" material="m"/><geom type="mesh" mesh="away"/><site '
        'name="s" material="m"/>'
    )
    text = body("<joint name='j'/>", inside=inside).replace(
        "<worldbody>", ASSETS + '<worldbody><geom type="hfield" hfield="h"/>'
    )
    text = text.replace(
        "</mujoco>",
        '<sensor><framepos objtype="site" objname="s"/><jointpos joint="j"/></sensor>'
        '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
        '<actuator><motor tendon="t"/><motor joint="j" gear="3"/></actuator>'
        '<keyframe><key qpos="1"/></keyframe><contact><exclude body1="a" '
        'body2="world"/></contact></mujoco>',
    )
    robot = read(tmp_path, text)
    assert robot.links[0].mass == 1
    assert robot.joints[0].drive.gear_ratio == 3
    assert ("mjcf.tendons", {"count": 1}) in found(robot)


def test_a_body_whose_mesh_is_missing_is_unknown(tmp_path: Path) -> None:
    inside = (
        '<geom type="mesh" mesh="gone"/><geom size="0.1"/><body name="b"><joint/><geom '
        'size="0.2"/></body>'
    )
    robot = read(
        tmp_path,
        body("<joint/>", inertial="", inside=inside).replace("<worldbody>", ASSETS + "<worldbody>"),
    )
    assert np.isnan(robot.links[0].parameters).all()
    assert robot.links[1].mass == pytest.approx(1000 * 4 / 3 * math.pi * 0.2**3)
    assert ("mjcf.lost_mesh", {"body": "a", "mesh": "gone"}) in found(robot)
    # a picture that weighs nothing may be missing
    inside = inside.replace('mesh="gone"', 'mesh="gone" mass="0"')
    robot = read(
        tmp_path,
        body("<joint/>", inertial="", inside=inside).replace("<worldbody>", ASSETS + "<worldbody>"),
    )
    assert robot.links[0].mass == pytest.approx(1000 * 4 / 3 * math.pi * 0.1**3)
    assert robot.notices == ()


def test_a_mesh_that_is_there_counts(tmp_path: Path) -> None:
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    lines = [f"v {x * 0.1} {y * 0.2} {z * 0.3}" for x, y, z in corners]
    faces = [
        "1 2 4",
        "1 4 3",
        "5 8 6",
        "5 7 8",
        "1 5 6",
        "1 6 2",
        "3 4 8",
        "3 8 7",
        "1 3 7",
        "1 7 5",
        "2 6 8",
        "2 8 4",
    ]
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "box.obj").write_text(
        "\n".join([*lines, *(f"f {face}" for face in faces)])
    )
    text = body(
        "<joint name='j'/>", inertial="", inside='<geom type="mesh" mesh="box" pos="0.1 0 0"/>'
    )
    text = text.replace(
        "<worldbody>",
        '<compiler meshdir="meshes"/><asset><mesh file="box.obj"/></asset><worldbody>',
    )
    path = write(tmp_path, text)
    robot = read_mjcf(path)
    against_mujoco(path, robot)
    mass, com, inertia = to_body(robot.links[0].parameters)
    assert mass == pytest.approx(48.0)
    assert np.allclose(com, (0.1, 0, 0), atol=1e-9)
    assert np.allclose(np.diag(inertia), np.array([0.52, 0.4, 0.2]) * 48 / 12, rtol=1e-6)


def test_bodies_without_mass(tmp_path: Path) -> None:
    nothing = read(tmp_path, body("<joint/>", inertial=""))
    assert np.isnan(nothing.links[0].parameters).all()
    assert ("mjcf.no_inertia", {"body": "a"}) in found(nothing)
    zero = read(
        tmp_path, body("<joint/>", inertial='<inertial pos="0 0 0" mass="0" diaginertia="0 0 0"/>')
    )
    assert np.all(zero.links[0].parameters == 0)
    point = read(
        tmp_path, body("<joint/>", inertial='<inertial pos="1 0 0" mass="2" diaginertia="0 0 0"/>')
    )
    assert np.array_equal(point.links[0].parameters, [0, 0, 0, 2, 0, 2, 2, 0, 0, 2])
    odd = read(
        tmp_path, body("<joint/>", inertial='<inertial pos="0 0 0" mass="2" diaginertia="1 1 9"/>')
    )
    assert odd.links[0].realizability.realizable is False
    welded = body(
        "<joint/>",
        inertial="",
        inside='<body name="b" pos="0 0 1"><geom size="0.1" mass="2"/></body>',
    )
    assert read(tmp_path, welded).links[0].mass == 2


def test_geoms_of_other_groups_weigh_nothing(tmp_path: Path) -> None:
    inside = '<geom size="0.1" group="2"/><geom type="mesh" mesh="gone" group="4"/>'
    text = body("<joint/>", inertial="", inside=inside).replace(
        "<worldbody>", ASSETS + "<worldbody>"
    )
    text = text.replace("<mujoco>", '<mujoco><compiler inertiagrouprange="1 3"/>')
    path = write(tmp_path, text)
    robot = read_mjcf(path)
    assert robot.links[0].mass == pytest.approx(1000 * 4 / 3 * math.pi * 0.1**3)
    assert robot.notices == ()
    path.write_text(text.replace('"1 3"', '"3 3"'))
    assert np.isnan(read_mjcf(path).links[0].parameters).all()


def test_a_total_mass_is_not_spread_over_unknown_bodies(tmp_path: Path) -> None:
    text = body("<joint/>", inside='<body name="b"><joint/></body>')
    robot = read(tmp_path, text.replace("<mujoco>", '<mujoco><compiler settotalmass="7"/>'))
    assert robot.links[0].mass == 1
    assert np.isnan(robot.links[1].mass)
    assert ("mjcf.total_mass", {}) in found(robot)


def test_inertia_and_damping_of_actuators_count_with_their_gear(tmp_path: Path) -> None:
    text = body('<joint name="j" armature="0.1" damping="2"/>').replace(
        "</mujoco>",
        '<actuator><motor joint="j" gear="10" armature="0.01" damping="0.5"/></actuator></mujoco>',
    )
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError:
        pytest.skip("this version of MuJoCo has no armature of actuators")
    robot = read(tmp_path, text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert robot.parameters[robot.layout.index("ZZ1")] + robot.parameters[
        robot.layout.index("Ia1")
    ] == pytest.approx(2.1)
    assert robot.parameters[robot.layout.index("Fv1")] == pytest.approx(52)
    data.qvel[0] = 1.0
    mujoco.mj_forward(model, data)
    assert data.qfrc_passive[0] == pytest.approx(-52)


# -------------------------------------------------------------------- constraints


def two(equality: str, names: tuple[str, str] = ("lead", "follow")) -> str:
    return f"""<mujoco><compiler angle="radian"/><worldbody><body name="a"><joint name="{names[0]}" ref="0.2"/>
      <geom size="0.1"/><body name="b"><joint name="{names[1]}" ref="0.7"/><geom size="0.1"/></body></body></worldbody>
      <equality>{equality}</equality></mujoco>"""  # noqa: E501


def test_joint_constraints_make_followers(tmp_path: Path) -> None:
    robot = read(tmp_path, two('<joint joint1="follow" joint2="lead" polycoef="0.1 -2 0 0 0"/>'))
    assert robot.joint_names == ("lead",)
    follows = robot.joints[1].follows
    assert follows is not None
    assert follows.terms == (("lead", -2.0),)
    assert follows.offset == pytest.approx(0.7 + 0.1 + 2 * 0.2)
    held = read(tmp_path, two('<joint joint1="follow" polycoef="0.1 0 0 0 0"/>')).joints[1].follows
    assert held is not None
    assert (held.terms, held.offset) == ((), pytest.approx(0.8))
    assert read(tmp_path, two('<joint joint1="follow" joint2="lead" active="false"/>')).n == 2


@pytest.mark.parametrize("names", [("lead", "follow"), ("hostile 1", "hostile 2")])
def test_polynomial_constraints_make_formulas(tmp_path: Path, names: tuple[str, str]) -> None:
    constraint = f'<joint joint1="{names[1]}" joint2="{names[0]}" polycoef="0.1 -2 0.3 0 -0.5"/>'
    robot = read(tmp_path, two(constraint, names))
    formula = robot.formulas[names[1]]
    x = 0.9 - 0.2
    value = formula.evaluate(dict.fromkeys(formula.variables, 0.9))
    assert value == pytest.approx(0.7 + 0.1 - 2 * x + 0.3 * x**2 - 0.5 * x**4)


def test_other_constraints_and_forces_are_told(tmp_path: Path) -> None:
    text = two(
        '<connect body1="a" body2="b" anchor="0 0 0" name="pin"/><weld body1="a" body2="b"/>'
    )
    text = text.replace("<worldbody>", '<option density="1.2"/><worldbody>').replace(
        'name="a"', 'name="a" gravcomp="1"'
    )
    text = text.replace('name="lead"', 'name="lead" stiffness="3"')
    assert found(read(tmp_path, text)) == [
        ("mjcf.constraint", {"kind": "connect", "between": ["a", "b"]}),
        ("mjcf.constraint", {"kind": "weld", "between": ["a", "b"]}),
        ("mjcf.springs", {"joints": ["lead"]}),
        ("mjcf.gravity_compensation", {"bodies": ["a"]}),
        ("mjcf.fluid", {}),
    ]


def test_gravity_may_be_switched_off(tmp_path: Path) -> None:
    text = body("<joint/>").replace(
        "<worldbody>", '<option><flag gravity="disable"/></option><worldbody>'
    )
    assert read(tmp_path, text).gravity.tolist() == [0, 0, 0]


# -------------------------------------------------------------------- bad files


def test_unknown_words_that_do_not_matter_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(
        '<mujoco><worldbody><body name="b"><joint/><geom size="1"/></body></worldbody></mujoco>'
    )
    plain = RICH.replace("</mujoco>", '<include file="part.xml"/></mujoco>')
    expected = read(tmp_path, plain)
    text = plain.replace("<mujoco ", '<mujoco xmlns:xacro="http://www.ros.org/wiki/xacro" ')
    text = text.replace(
        "<worldbody>",
        '<xacro:property name="x" value="${1}"/><custom_tool version="3"/><worldbody>',
    )
    text = text.replace("<light ", '<light newfangled="1" xacro:if="true" ')
    robot = read(tmp_path, text)
    assert robot == expected
    words = [
        (data["element"], data["attribute"])
        for code, data in found(robot)
        if code == "mjcf.unknown_word"
    ]
    assert {("xacro:property", ""), ("custom_tool", ""), ("light", "newfangled")} <= set(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"robot.xml:1: the file is empty"),
        ("hello", r"robot.xml:1: not well-formed XML"),
        (RICH[: len(RICH) // 2], r"robot.xml:\d+: not well-formed XML"),
        ("<robot/>", r"the root element is <robot>; expected <mujoco>; it looks like a URDF"),
        ("<sdf/>", r"the root element is <sdf>; expected <mujoco>"),
        ("<!DOCTYPE a><mujoco/>", r"robot.xml:1: the file declares a DOCTYPE"),
        ('\n<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><mujoco/>', "DOCTYPE"),
        ("<mujoco/>", "no joint"),
        (body(), "no moving joint"),
        (
            body("<freejoint/>").replace(
                "</worldbody>", '<body><freejoint/><geom size="1"/></body></worldbody>'
            ),
            r"robot.xml:1: joint 'a_joint' is floating; only a free base is supported",
        ),
        (body('\n<joint type="ball"/>'), r"robot.xml:2: body 'a' has a ball joint.*three hinges"),
        (body('<joint axis="0 0 0"/>'), r"robot.xml:1: .*axis too small"),
        (body('\n<joint axis="0 x 0"/>'), r"robot.xml:2: .*bad format in attribute 'axis'"),
        (body("<joint/>").replace('mass="1"', 'mass="abc"'), "bad format in attribute 'mass'"),
        (body("<joint/>").replace('mass="1"', 'mass="${m}"'), "mass"),
        (body('\n<jont name="j"/>'), r"robot.xml:2: .*unrecognized element.*'jont'"),
        (body('\n<joint axs="0 0 1"/>'), r"robot.xml:2: .*unrecognized attribute: 'axs'"),
        (body('<joint name="j"/><joint name="j"/>'), "repeated name 'j'"),
        (
            body("<joint/>").replace('"a"', '"a" pos="nan 0 0"'),
            r"robot.xml:1: pos=\"nan 0 0\" is not a number",
        ),
        ('<mujoco><include file="nowhere.xml"/></mujoco>', "nowhere.xml"),
        (two('<joint joint1="follow" joint2="led"/>'), "unknown element 'led'|'led'"),
    ],
)
def test_bad_files_are_told_by_place_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DescriptionError, match=message) as caught:
        read(tmp_path, text)
    assert "robot.xml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"nowhere.xml: cannot be read"):
        read_mjcf(tmp_path / "nowhere.xml")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive(tmp_path: Path, name: str) -> None:
    from xml.sax.saxutils import quoteattr

    quoted = quoteattr(name)
    robot = read(tmp_path, body(f"<joint name={quoted}/>").replace('"a"', quoted))
    assert robot.joints[0].name == name
    assert robot.link_names == (name,)
