"""URDF: what is read, what is refused and how it is told, round trips without loss, edits that
touch only numbers.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_robots import (
    looped_robot,
    placements,
    random_body,
    random_positions,
    random_tree,
    rich_robot,
)

from hostile_names import HOSTILE
from minidyn import load, robots, save
from minidyn.errors import DescriptionError, LoopError
from minidyn.formats.urdf.read import read_parts, read_urdf
from minidyn.formats.urdf.update import update_urdf
from minidyn.formats.xml_file import read_xml
from minidyn.model.parameters import from_body, realizability, transform
from minidyn.model.robot import Robot

ANNEX = Path(__file__).parent.parent / "golden" / "annex"

COUNT = 200 if os.environ.get("MINIDYN_TEST_LONG") else 25

ARM = """<?xml version="1.0"?>
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="unused" value="${1 + 1}"/>
  <material name="grey"><color rgba="${grey} 1"/></material>
  <link name="base"><visual><geometry><mesh filename="package://nowhere/base.stl"/></geometry></visual></link>
  <link name="upper">
    <inertial>
      <origin xyz="0.1 0.2 0.3" rpy="0 0 1.5707963"/>
      <mass value="2"/>
      <inertia ixx="0.3" ixy="0.01" ixz="0.02" iyy="0.4" iyz="0.03" izz="0.5"/>
    </inertial>
  </link>
  <link name="lower"/>
  <link name="finger"/>
  <link name="tool">
    <inertial>
      <mass value="1"/> <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
    </inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 1" rpy="1.57079 0 0"/>
    <parent link="base"/><child link="upper"/>
    <axis xyz="0 0 -2"/>
    <limit lower="-1" upper="2" velocity="3" effort="40"/>
    <dynamics damping="0.7" friction="0"/>
    <unknown_tag/>
  </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/><child link="lower"/>
    <dynamics damping="0" friction="0.2"/>
    <limit velocity="0" effort="10"/>
  </joint>
  <joint name="grip" type="prismatic">
    <parent link="lower"/><child link="finger"/><axis xyz="1 1 0"/>
    <limit velocity="1" effort="1"/>
    <mimic joint="elbow" multiplier="-0.5" offset="0.25"/>
  </joint>
  <joint name="mount" type="fixed">
    <origin xyz="0 0.5 0"/><parent link="upper"/><child link="tool"/>
  </joint>
  <transmission name="t1">
    <joint name="shoulder"/><actuator name="m1"><mechanicalReduction>100</mechanicalReduction></actuator>
  </transmission>
  <transmission name="t2">
    <joint name="elbow"><mechanicalReduction>-50</mechanicalReduction></joint><actuator name="m2"/>
  </transmission>
  <gazebo><joint name="elbow" type="nonsense"/><link name="upper"/></gazebo>
</robot>
"""  # noqa: E501


def read(tmp_path: Path, text: str | bytes) -> Robot:
    path = tmp_path / "robot.urdf"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_urdf(path)


def test_everything_a_file_can_say(tmp_path: Path) -> None:
    robot = read(tmp_path, ARM)
    assert robot.name == "arm"
    assert robot.base_name == "base"
    assert robot.joint_names == ("shoulder", "elbow")
    assert [joint.kind for joint in robot.joints] == ["revolute", "continuous", "prismatic"]
    shoulder, elbow, grip = robot.joints
    assert shoulder.axis.tolist() == [0, 0, -1]
    assert shoulder.placement.tolist() == [[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 1], [0, 0, 0, 1]]
    assert (shoulder.limits.lower, shoulder.limits.upper) == (-1, 2)
    assert (shoulder.limits.velocity, shoulder.limits.effort) == (3, 40)
    assert shoulder.drive.gear_ratio == 100
    assert shoulder.drive.columns == ("Fv",)
    assert robot.parameters[robot.layout.index("Fv1")] == 0.7
    assert elbow.axis.tolist() == [1, 0, 0]
    assert elbow.drive.columns == ("Fc",)
    assert elbow.drive.gear_ratio == -50
    assert elbow.limits.velocity == np.inf
    assert elbow.limits.effort == 10
    assert grip.limits.lower == -np.inf
    assert np.allclose(grip.axis, [0.5**0.5, 0.5**0.5, 0], atol=1e-15)
    assert grip.follows is not None
    assert (grip.follows.terms, grip.follows.offset) == ((("elbow", -0.5),), 0.25)
    # the upper link and the tool that is fixed to it, with the inertial frame turned by a right
    # angle
    turned = np.array([[0.4, -0.01, -0.03], [-0.01, 0.3, 0.02], [-0.03, 0.02, 0.5]])
    tool = transform(
        from_body(1, (0, 0, 0), 0.1 * np.eye(3)),
        [[1, 0, 0, 0], [0, 1, 0, 0.5], [0, 0, 1, 0], [0, 0, 0, 1]],
    )
    assert np.allclose(
        robot.links[0].parameters, from_body(2, (0.1, 0.2, 0.3), turned) + tool, atol=1e-15
    )
    assert robot.links[0].frames == ("tool",)
    assert np.isnan(robot.links[1].parameters).all()
    notices = {notice.code: notice for notice in robot.notices}
    assert set(notices) == {"urdf.xacro", "robot.snapped_angle", "urdf.no_limit"}
    snapped = notices["robot.snapped_angle"].data
    assert re.search(r"robot.urdf:\d+: joint 'shoulder'$", snapped["where"])
    assert (snapped["angle"], snapped["degrees"]) == (1.57079, 90)
    assert dict(notices["urdf.no_limit"].data) == {
        "joint": "elbow",
        "limit": "velocity",
        "value": 0.0,
    }


def test_a_continuous_joint_has_no_range(tmp_path: Path) -> None:
    robot = read(
        tmp_path, ARM.replace('<limit velocity="0"', '<limit lower="-1" upper="1" velocity="0"')
    )
    assert (robot.joints[1].limits.lower, robot.joints[1].limits.upper) == (-np.inf, np.inf)


def edited(old: str, new: str) -> str:
    assert old in ARM
    return ARM.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"robot.urdf:1: the file is empty"),
        (b"\x7fELF\x00\x01\x02", r"robot.urdf:1: not"),
        (b"\xff\xfe\xfa" * 100, r"robot.urdf:1: not"),
        ("just words", r"robot.urdf:1: not"),
        (ARM[: len(ARM) // 2], r"robot.urdf:\d+: not well-formed XML"),
        (ARM.replace("</robot>", ""), r"robot.urdf:\d+: not well-formed XML \(Premature end"),
        ("<mujoco/>", r"root element is <mujoco>; expected <robot>"),
        ("<!DOCTYPE robot>\n" + ARM[22:], r"robot.urdf:1: the file declares a DOCTYPE"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><robot name="&a;"/>', "DOCTYPE"),
        ('<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot name="a"/>'.encode("utf-16"), "DOCTYPE"),
        ('<robot name="&a;"/>', "not well-formed"),
        ("<a>" * 5000, "not well-formed"),
        ("<robot name='a'/>", "no link"),
        (
            edited('type="continuous"', 'type="floating"'),
            r"robot.urdf:\d+: joint 'elbow' is floating; only a free base is supported",
        ),
        (
            edited('type="continuous"', 'type="planar"'),
            r"robot.urdf:\d+: joint 'elbow' is planar; replace it by two prismatic",
        ),
        (
            edited('type="continuous"', 'type="contnuous"'),
            "unknown type 'contnuous'; did you mean 'continuous'",
        ),
        (
            edited('<mass value="2"/>', ""),
            r"robot.urdf:7: the <inertial> of link 'upper' has no <mass>",
        ),
        (
            edited('<mass value="2"/>', '<mass val="2"/>'),
            r":9: <mass> lacks the attribute 'value'; did you mean 'val'",
        ),
        (
            edited('<mass value="2"/>', '<mass value="abc"/>'),
            r":9: <mass value='abc'>: expected a finite number",
        ),
        (
            edited('<mass value="2"/>', '<mass value="nan"/>'),
            r":9: .*expected a finite number, got 'nan'",
        ),
        (edited('<mass value="2"/>', '<mass value="1e999"/>'), r":9: .*too large"),
        (
            edited('<mass value="2"/>', '<mass value="1_0"/>'),
            r":9: .*expected a finite number, got '1_0'",
        ),
        (edited('<mass value="2"/>', '<mass value="${m}"/>'), r":9: .*run xacro"),
        (edited('izz="0.5"', ""), r":10: <inertia> lacks the attribute 'izz'"),
        (edited('xyz="0.1 0.2 0.3"', 'xyz="0.1 0.2"'), r":8: .*has 2 numbers; expected 3"),
        (
            edited('xyz="0 0 -2"', 'xyz="0 0 0"'),
            r":\d+: joint 'shoulder': the axis has length zero",
        ),
        (edited('lower="-1"', 'lower="3"'), r"joint 'shoulder' has lower=3 above upper=2"),
        (edited('<parent link="base"/>', ""), r"joint 'shoulder' has no <parent"),
        (
            edited('<parent link="base"/>', '<parent link="basis"/>'),
            "unknown parent link 'basis'; did you mean 'base'",
        ),
        (edited('<parent link="base"/>', '<parent link="lower"/>'), "cycle"),
        (
            edited('<link name="lower"/>', '<link name="upper"/>'),
            r":\d+: a second link called 'upper'",
        ),
        (
            edited('name="elbow" type="continuous"', 'name="grip" type="continuous"'),
            "a second joint called 'grip'",
        ),
        (edited('<link name="lower"/>', '<link name=""/>'), "a link without a name"),
        (edited('<link name="lower"/>', '<link nome="x"/>'), r"<link> lacks the attribute 'name'"),
        (
            edited('mimic joint="elbow"', 'mimic joint="elbo"'),
            "follows an unknown joint 'elbo'; did you mean 'elbow'",
        ),
        (edited('mimic joint="elbow"', 'mimic joint="grip"'), "ring"),
        (edited(">100<", ">0<"), "mechanicalReduction of 0"),
        (edited(">100<", ">many<"), "expected a finite number, got 'many'"),
        (
            '<robot xmlns:xacro="x/xacro"><xacro:arm/></robot>',
            r"no link.*\(the file holds xacro elements, line 1; run xacro",
        ),
    ],
)
def test_bad_files_are_told_by_place_and_remedy(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(DescriptionError, match=message) as caught:
        read(tmp_path, text)
    assert "robot.urdf" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"nowhere.urdf: cannot be read"):
        read_urdf(tmp_path / "nowhere.urdf")
    with pytest.raises(DescriptionError, match="cannot be read"):
        read_urdf(tmp_path)


def test_a_doctype_in_a_comment_and_undeclared_prefixes_do_no_harm(tmp_path: Path) -> None:
    text = ARM.replace(' xmlns:xacro="http://www.ros.org/wiki/xacro"', "").replace(
        "?>", "?><!-- <!DOCTYPE x> -->", 1
    )
    assert read(tmp_path, text) == read(tmp_path, ARM)


def test_other_encodings(tmp_path: Path) -> None:
    text = ARM.replace("elbow", "ellbögen")
    robot = read(tmp_path, text)
    assert robot.joint_names == ("shoulder", "ellbögen")
    for encoding in ("iso-8859-1", "utf-16", "utf-8-sig"):
        declared = encoding.replace("-sig", "")
        again = text.replace('version="1.0"', f'version="1.0" encoding="{declared}"')
        assert read(tmp_path, again.encode(encoding)) == robot


# -------------------------------------------------------------------- writing


@pytest.mark.parametrize("make", [random_tree, rich_robot])
def test_round_trip_loses_nothing(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "robot.urdf"
    for seed in range(COUNT):
        robot = make(np.random.default_rng(seed))
        save(robot, path)
        again = load(path)
        assert again == robot, seed
        assert [notice.code for notice in again.notices] == ["side_file.used"]
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "robot.urdf",
            "robot.urdf.minidyn.toml",
        ]


def test_round_trip_of_loops_and_formulas(tmp_path: Path) -> None:
    path = tmp_path / "loop.urdf"
    robot = looped_robot()
    save(robot, path)
    again = load(path)
    assert again == robot
    assert again.n == 1
    assert again.loops == robot.loops
    path.write_text(path.read_text().replace('<origin xyz="0.8 0 0"', '<origin xyz="1.8 0 0"'))
    with pytest.raises(LoopError, match=r"loop.urdf.minidyn.toml:\d+"):
        load(path)


@pytest.mark.parametrize("name", robots())
def test_round_trip_of_the_built_in_robots(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.urdf"
    robot = load(name)
    save(robot, path)
    assert load(path) == robot


def test_a_robot_that_urdf_can_hold_needs_no_side_file(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    text = ARM.replace(
        '<limit velocity="1" effort="1"/>', '<limit lower="0" upper="1" velocity="1" effort="1"/>'
    )
    text = text.replace('type="continuous"', 'type="revolute"').replace(
        '<limit velocity="0" effort="10"/>',
        '<limit lower="-1" upper="1" velocity="2" effort="10"/>',
    )
    robot = read(tmp_path, text)
    robot = robot.with_parameters(
        np.where(np.isnan(robot.parameters), 0.0, np.round(robot.parameters * 4) / 4)
    )
    save(robot, path)
    plain = path.read_text()
    save(read_urdf(path), path)
    assert path.read_text() == plain
    assert [p.name for p in tmp_path.iterdir()] == ["robot.urdf"]


def test_the_written_file_without_its_side_file_moves_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        robot = rich_robot(rng)
        save(robot, path)
        plain = read_urdf(path)
        q = random_positions(robot, rng)
        ours, theirs = placements(robot, q), placements(plain, q)
        assert set(ours) <= set(theirs)
        # turns that together are nearly a right angle are taken as one, which a notice tells
        told = [notice.data for notice in plain.notices if notice.code == "robot.snapped_angle"]
        off = sum(abs(data["angle"] - np.radians(data["degrees"])) for data in told)
        assert off <= 1e-4 * len(told)
        reach = max(np.linalg.norm(T[:3, 3]) for T in ours.values())
        for name, T in ours.items():
            assert np.abs(T - theirs[name]).max() <= (1e-13 + off) * (1.0 + 2.0 * reach), (
                seed,
                name,
            )


def test_what_was_edited_in_a_written_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    robot = rich_robot(np.random.default_rng(3))
    save(robot, path)
    text = path.read_text()
    path.write_text(re.sub(r'<mass value="[^"]*"/>', '<mass value="7"/>', text, count=1))
    first = next(
        i for i, link in enumerate(robot.links) if np.isfinite(link.parameters).all() and link.mass
    )
    heavier = load(path)
    assert heavier.links[first].mass == pytest.approx(7, abs=1e-12)
    assert heavier.symbols == robot.symbols  # the geometry is as it was
    assert [
        dict(notice.data) for notice in heavier.notices if notice.code == "side_file.edited"
    ] == [{"joint": robot.joints[first].name, "values": ["inertia"]}]
    others = [i for i in range(len(robot.links)) if i != first]
    assert all(
        np.array_equal(heavier.links[i].parameters, robot.links[i].parameters, equal_nan=True)
        for i in others
    )

    path.write_text(text.replace('<origin xyz="0.4 0 -0.8"', '<origin xyz="0.5 0 -0.8"'))
    moved = load(path)
    assert moved.joints[0].placement[0, 3] == 0.5
    assert moved.symbols == ()
    assert "side_file.geometry_edited" in [notice.code for notice in moved.notices]
    assert moved.gravity.tolist() == robot.gravity.tolist()


@pytest.mark.parametrize("name", ["rich3", "rich16", "looped", "driven"])
def test_files_of_older_versions_are_read(name: str, tmp_path: Path) -> None:
    """What URDF cannot say stood in a <minidyn> element then.

    A TOML file of the same day gives the same robot.
    """
    path = tmp_path / "old.urdf"
    shutil.copy(ANNEX / f"{name}.urdf", path)
    robot, old = load(ANNEX / f"{name}.toml"), load(path)
    # inertias about the centre of mass are turned into those about the origin: processors differ in
    # the last digit
    np.testing.assert_allclose(old.parameters, robot.parameters, rtol=1e-14, atol=1e-15)
    assert old == robot.with_parameters(old.parameters)
    save(old, path)
    assert "<minidyn>" not in path.read_text()
    assert load(path) == old


def test_what_was_edited_in_a_file_of_an_older_version_counts(tmp_path: Path) -> None:
    path = tmp_path / "old.urdf"
    text, robot = (ANNEX / "rich3.urdf").read_text(), load(ANNEX / "rich3.toml")
    path.write_text(re.sub(r'<mass value="[^"]*"/>', '<mass value="7"/>', text, count=1))
    first = next(
        i for i, link in enumerate(robot.links) if np.isfinite(link.parameters).all() and link.mass
    )
    heavier = load(path)
    assert heavier.links[first].mass == pytest.approx(7, abs=1e-12)
    assert heavier.symbols == robot.symbols
    path.write_text(text.replace('<origin xyz="0.4 0 -0.8"', '<origin xyz="0.5 0 -0.8"'))
    moved = load(path)
    assert moved.joints[0].placement[0, 3] == 0.5
    assert moved.symbols == ()
    assert [notice.code for notice in moved.notices] == ["urdf.geometry_edited"]
    assert moved.gravity.tolist() == robot.gravity.tolist()


@pytest.mark.parametrize(
    "annex",
    [
        "",
        "[]",
        "{",
        '{"version": 2}',
        '{"version": 1, "gravity": 3}',
        '{"version": 1, "joints": [1]}',
    ],
)
def test_a_damaged_annex_is_told(tmp_path: Path, annex: str) -> None:
    with pytest.raises(
        DescriptionError, match=r"robot.urdf:\d+: the <minidyn> element cannot be understood"
    ):
        read(tmp_path, ARM.replace("</robot>", f"<minidyn>{annex}</minidyn></robot>"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive(tmp_path: Path, name: str) -> None:
    path = tmp_path / "robot.urdf"
    robot = random_tree(np.random.default_rng(0))
    joints = (robot.joints[0], replace(robot.joints[1], name=name), *robot.joints[2:])
    frames = (replace(robot.frames[0], name=name + "'"), *robot.frames[1:])
    robot = replace(
        robot, name=name, joints=joints, link_names=(name, *robot.link_names[1:]), frames=frames
    )
    save(robot, path)
    assert load(path) == robot


@pytest.mark.parametrize("name", ["nul\x00", "bell\x07", "${prefix}arm", "", "\ud800"])
def test_names_that_urdf_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    robot = random_tree(np.random.default_rng(0))
    path = tmp_path / "robot.urdf"
    with pytest.raises(DescriptionError, match="name"):
        save(replace(robot, link_names=(name, *robot.link_names[1:])), path)
    assert not path.exists()


def test_writing_where_one_cannot(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="cannot be written"):
        save(looped_robot(), tmp_path / "no" / "folder.urdf")


# -------------------------------------------------------------------- updating

KEEP = ARM.replace(
    'name="lower"/>', "name='lower' /> <!-- <inertial> in a comment & more -->"
).replace('<mass value="2"/>', "<mass  value = '2'  ></mass>")


def new_parameters(robot: Robot, rng: np.random.Generator) -> Robot:
    values = robot.parameters.copy()
    for part in robot.layout.links:
        values[part] = random_body(rng) + random_body(rng)
    return robot.with_parameters(values)


def masked(text: str) -> str:
    """Return the text with the numbers of inertial elements hidden."""

    def hide(match: re.Match[str]) -> str:
        return re.sub(r"""(value|xyz|i[xyz]{2})(\s*=\s*)(["'])[^"']*\3""", r"\1\2\3#\3", match[0])

    return re.sub(r"<inertial>.*?</inertial>", hide, text, flags=re.DOTALL)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_update_changes_only_numbers(tmp_path: Path, newline: str, encoding: str) -> None:
    source, path = tmp_path / "robot.urdf", tmp_path / "new.urdf"
    text = KEEP.replace('version="1.0"', f'version="1.0" encoding="{encoding}"').replace(
        "grey", "grün"
    )
    source.write_bytes(text.replace("\n", newline).encode(encoding))
    robot = new_parameters(read_urdf(source), np.random.default_rng(1))
    update_urdf(robot, source, path)
    again = read_urdf(path)
    assert np.allclose(again.parameters, robot.parameters, rtol=0, atol=1e-13)
    old, new = (p.read_bytes().decode(encoding) for p in (source, path))
    assert new.count("\n") == new.count(newline)
    # two links without <inertial> got one, indented like the rest; they are taken out again
    block = re.compile(
        r"""(<link name=['"](?:lower|finger)['"])>(\r?\n {4}<inertial>\r?\n {6}<origin xyz="[^"]*" rpy="0 0 0"/>"""  # noqa: E501
        r"""\r?\n {6}<mass value="[^"]*"/>\r?\n {6}<inertia [^>]*/>\r?\n {4}</inertial>)\r?\n  </link>"""  # noqa: E501
    )
    assert len(block.findall(new)) == 2
    restored = block.sub(lambda match: match[1] + ("/>" if "finger" in match[1] else " />"), new)
    # the tool does not fit into its body now: it changed, too, with a centre of mass of its own
    restored = re.sub(
        r'\r?\n *<origin xyz="[^"]*" rpy="0 0 0"/>(?=\r?\n *<mass value="[^"]*"/> <i)', "", restored
    )
    changed = [
        line for line in difflib.ndiff(old.splitlines(), restored.splitlines()) if line[0] == "-"
    ]
    assert (
        len(changed) == 4
    )  # origin, mass and inertia of one link, mass and inertia on one line of the tool
    assert masked(restored) == masked(old)


def test_update_with_the_same_parameters_is_the_same_file(tmp_path: Path) -> None:
    source = tmp_path / "robot.urdf"
    source.write_text(KEEP)
    update_urdf(read_urdf(source), source, source)
    assert source.read_text() == KEEP


def test_update_leaves_unknown_links_and_merged_ones_alone(tmp_path: Path) -> None:
    source, path = tmp_path / "robot.urdf", tmp_path / "new.urdf"
    source.write_text(KEEP)
    robot = read_urdf(source)
    values = robot.parameters.copy()
    values[robot.layout.links[0]] += random_body(
        np.random.default_rng(0)
    )  # heavier: the tool keeps its numbers
    update_urdf(robot.with_parameters(values), source, path)
    text = path.read_text()
    assert '<mass value="1"/> <inertia ixx="0.1" ixy="0"' in text
    assert text.count("<inertial>") == KEEP.count("<inertial>")
    assert np.allclose(read_urdf(path).parameters, values, rtol=0, atol=1e-13, equal_nan=True)

    values[robot.layout.links[0]] = from_body(
        0.2, (0, 0, 0.1), 0.01 * np.eye(3)
    )  # lighter than the tool alone
    [notice] = update_urdf(robot.with_parameters(values), source, path)
    assert notice.code == "robot.divided_rigid"
    assert "negative mass" in notice.data["reason"]
    parts = {part.name: part.parameters for part in read_parts(read_xml(path, "robot")).links}
    assert all(realizability(parts[name]).realizable for name in ("upper", "tool"))
    assert notice.data["masses"] == {"tool": (1.0, pytest.approx(parts["tool"][9]))}
    assert np.allclose(read_urdf(path).parameters, values, rtol=0, atol=1e-13, equal_nan=True)


def test_update_uses_the_merged_link_that_has_the_inertia(tmp_path: Path) -> None:
    text = re.sub(r"    <inertial>.*?</inertial>\n", "", ARM, count=1, flags=re.DOTALL)
    source = tmp_path / "robot.urdf"
    source.write_text(text)
    robot = read_urdf(source)
    values = robot.parameters.copy()
    values[robot.layout.links[0]] = random_body(np.random.default_rng(0))
    update_urdf(robot.with_parameters(values), source, source)
    assert source.read_text().count("<inertial>") == 1
    assert '<origin xyz="' in source.read_text().split('<link name="tool">')[1].split("<mass")[0]
    assert np.allclose(read_urdf(source).parameters, values, rtol=0, atol=1e-13, equal_nan=True)


def test_update_of_a_written_file(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        robot = rich_robot(rng)
        save(robot, path)
        better = new_parameters(robot, rng)
        update_urdf(better, path, path)
        again = load(path)
        assert np.allclose(
            again.parameters, better.parameters, rtol=0, atol=1e-12, equal_nan=True
        ), seed
        assert again.structure_fingerprint == robot.structure_fingerprint
        assert again.symbols == robot.symbols


def test_update_refuses_another_robots_file(tmp_path: Path) -> None:
    source = tmp_path / "robot.urdf"
    source.write_text(ARM)
    robot = new_parameters(read_urdf(source), np.random.default_rng(0))
    source.write_text(ARM.replace('"upper"', '"uper"'))
    with pytest.raises(DescriptionError, match=r"has no moving link 'upper'.*did you mean 'uper'"):
        update_urdf(robot, source, source)
    source.write_text(ARM.replace('xyz="0 0 1"', 'xyz="0 0 1.1"'))
    with pytest.raises(DescriptionError, match="frame of link 'upper' is not the one"):
        update_urdf(robot, source, source)
    values = robot.parameters.copy()
    values[robot.layout.links[1]] = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    source.write_text(ARM)
    with pytest.raises(DescriptionError, match="mass 0 with first moments"):
        update_urdf(robot.with_parameters(values), source, source)
    assert source.read_text() == ARM
