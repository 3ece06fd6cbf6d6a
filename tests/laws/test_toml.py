"""TOML robot files.

What they say is what is read, what is saved reads back, and wrong files are told where and why.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn.errors import DescriptionError, LoopError, UnknownName, WrongArgument
from minidyn.formats.toml.table import quantity
from minidyn.model.geometry import Step

DOC = Path(__file__).parents[2] / "docs" / "robot-files.md"

ARM = """\
name = "arm"

[[joint]]
name = "one"

[[joint]]
name = "two"
alpha = "90 deg"
a = 0.3

[[link]]
name = "link1"
mass = 1.0
"""


def example() -> str:
    found = re.search(r"```toml\n(name.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found.group(1)


def written(folder: Path, text: str) -> Path:
    path = folder / "robot.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder: Path, text: str) -> str:
    """The error's message, which must name the file."""
    path = written(folder, text)
    with pytest.raises(DescriptionError) as error:
        md.load(path)
    message = str(error.value)
    assert message.startswith(str(path)), message
    return message.removeprefix(str(path))


# ---------------------------------------------------------------- reading


def test_the_documented_example_says_what_the_page_says(tmp_path: Path) -> None:
    robot = md.load(written(tmp_path, example()))
    assert robot.joint_names == ("turn", "lift", "reach")
    assert robot.link_names == ("link1", "link2", "link3", "box")
    assert robot.base_name == "table"
    assert robot.base_placement[:3, 3] == pytest.approx([0, 0, 0.75])
    assert robot.symbols == (("L1", 0.3), ("L2", 0.25))
    assert robot.joints[2].before == (Step("rx", -math.pi / 2), Step("tz", 0.6, "L1", 2.0))
    assert robot.joints[1].before == (Step("rx", math.pi / 2), Step("rz", math.pi / 2))
    names = robot.parameter_names
    assert [name for name in names if name.startswith(("Ia", "F"))] == [
        "Ia1",
        "Fv1",
        "Fc1",
        "Ia2",
        "Ia3",
    ]
    value = dict(zip(names, robot.parameters))
    assert value["Ia1"] == pytest.approx(2e-5 * 100**2)
    assert value["Fv1"] == 0.8
    assert value["Fc1"] == 1.1
    assert math.isnan(value["Ia3"])
    assert robot.joints[2].drive.coupling == (("lift", 0.01),)
    assert robot.joints[0].limits.lower == pytest.approx(math.radians(-170))
    assert robot.links[0].mass == 3.0
    assert robot.links[0].com == pytest.approx([0, 0.02, -0.05])
    assert robot.links[0].inertia == pytest.approx(np.diag([0.012, 0.012, 0.008]))
    assert value["ZZ2"] == 0.05
    assert math.isnan(value["XX2"])
    assert robot.links[2].frames == ("hand", "tip")
    assert robot.links[2].mass == pytest.approx(0.4)  # the hand's: link3 itself has no table
    assert robot.links[2].com == pytest.approx([0.25 + 0.03, 0, 0])  # the hand points along x
    assert robot.links[3].mass == 0.5
    assert robot.joints[3].placement[:3, 3] == pytest.approx([0.25 + 0.12, 0, 0])


def test_the_documented_loop_is_the_one_of_hpr() -> None:
    found = re.search(r"```toml\n(\[\[loop\]\].*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    path = Path(md.__file__).parent / "model" / "robots" / "hpr.toml"
    wanted = [line.partition(" #")[0] for line in found.group(1).splitlines()]
    assert [line for line in wanted if line not in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("text", "turn", "value", "symbol"),
    [
        (0.5, False, 0.5, None),
        (2, True, 2.0, None),
        ("90 deg", True, math.pi / 2, None),
        ("-270 deg", True, -3 * (math.pi / 2), None),
        ("30deg", True, math.radians(30), None),
        ("-pi/2", True, -math.pi / 2, None),
        ("3*pi/4", True, 3 * math.pi / 4, None),
        ("D3", False, 0.5, ("D3", 1.0)),
        ("-D3", False, -0.5, ("D3", -1.0)),
        ("2*D3", False, 1.0, ("D3", 2.0)),
        ("D3/4", False, 0.125, ("D3", 0.25)),
        ("1e-3", False, 0.001, None),
        ("1e-3*D3", False, 0.0005, ("D3", 1e-3)),
    ],
)
def test_quantities(text: object, turn: bool, value: float, symbol: object) -> None:
    assert quantity(text, "here", {"D3": 0.5}, turn) == (pytest.approx(value), symbol)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "D",
        "D3 + 1",
        "D3*D3",
        "90 deg",
        True,
        None,
        [1],
        float("nan"),
        "import os",
        "1/0",
        "D3.real",
    ],
)
def test_wrong_lengths_are_refused_by_place(text: object) -> None:
    with pytest.raises(DescriptionError, match=r"^here: "):
        quantity(text, "here", {"D3": 0.5}, turn=False)


def test_any_order_of_joints_and_named_parents(tmp_path: Path) -> None:
    text = """
    [[joint]]
    name = "c"
    parent = "B"
    child = "C"
    [[joint]]
    name = "a"
    parent = "root"
    child = "A"
    [[joint]]
    name = "b"
    parent = "A"
    child = "B"
    """
    robot = md.load(written(tmp_path, text))
    assert robot.joint_names == ("a", "b", "c")
    assert robot.base_name == "root"


def test_explicit_placements_and_the_table_agree(tmp_path: Path) -> None:
    table = (
        '[[joint]]\nd = 0.3\n[[joint]]\nalpha = "-90 deg"\na = 0.1\n[[joint]]\n'
        'type = "prismatic"\na = 0.4\nd = 0.2\n'
    )
    explicit = """
    [[joint]]
    xyz = [0, 0, 0.3]
    axis = [0, 0, 2]
    [[joint]]
    xyz = [0.1, 0, 0]
    rpy = [-1.57079, 0, 0]
    [[joint]]
    type = "prismatic"
    xyz = [0.4, 0, 0.2]
    """
    one, two = md.load(written(tmp_path, table)), md.load(written(tmp_path, explicit))
    for a, b in zip(one.joints, two.joints):
        assert (a.placement == b.placement).all()
        assert (a.axis == b.axis).all()
    assert len(two.notices) == 1  # -1.57079 is not quite a right angle
    assert two.notices[0].code == "robot.snapped_angle"
    assert two.notices[0].data["degrees"] == -90


def test_mimic_and_passive_joints_are_not_coordinates(tmp_path: Path) -> None:
    text = """
    [[joint]]
    name = "a"
    [[joint]]
    name = "b"
    mimic = { leader = "a", ratio = 0.5, offset = 0.1 }
    [[joint]]
    name = "c"
    mimic = { leader = "b", ratio = 2 }
    [[joint]]
    name = "d"
    [[joint]]
    name = "e"
    mimic = { formula = "sin(a)" }
    [[loop]]
    functions = { d = "a - 1" }
    """
    robot = md.load(written(tmp_path, text))
    assert robot.joint_names == ("a",)
    assert robot.joints[2].follows is not None
    assert robot.joints[2].follows.terms == (("a", 1.0),)
    assert robot.joints[2].follows.offset == pytest.approx(0.2)
    assert robot.joints[3].follows is not None
    assert robot.joints[3].follows.passive
    assert robot.open_loops().joint_names == ("a", "d")


# ---------------------------------------------------------------- writing


def same(a: md.Robot, b: md.Robot) -> None:
    assert a == b
    assert a.fingerprint == b.fingerprint
    assert a.joints == b.joints  # symbols included
    assert (a.loops, a.frames, a.symbols, a.base) == (b.loops, b.frames, b.symbols, b.base)
    np.testing.assert_array_equal(a.parameters, b.parameters)
    np.testing.assert_array_equal(a.gravity, b.gravity)


@pytest.mark.parametrize("name", md.robots())
def test_built_in_robots_survive_saving(name: str, tmp_path: Path) -> None:
    robot = md.load(name)
    md.save(robot, tmp_path / "robot.toml")
    again = md.load(tmp_path / "robot.toml")
    same(robot, again)
    assert again.source == robot.source
    assert again.notices == robot.notices
    assert [path.name for path in tmp_path.iterdir()] == ["robot.toml"]  # no temporary file is left


def awkward() -> str:
    return """
    name = "awk\\u0007 \\"ward\\" [bold]"
    gravity = [0.1, -0.2, -9.7]
    [base]
    name = "the base"
    xyz = [0.1, 0.2, 0.3]
    rpy = [0.1, "90 deg", -0.3]
    [symbols]
    L = 0.1
    zero = 0.0
    [[joint]]
    name = "a.b c"
    child = "one"
    xyz = ["L", "zero", "-3*L"]
    rpy = [0.3, 0.2, 0.1]
    axis = [1, 2, 3]
    drive = { rotor_inertia = 0.1, viscous = nan, offset = 2.0, gear_ratio = -50.5 }
    [[joint]]
    name = "down"
    child = "two"
    axis = [0, -1, 0]
    type = "prismatic"
    limits = { lower = -0.1, effort = 3 }
    drive = { coulomb = 0.25, coupling = { "a.b c" = -0.5 } }
    [[joint]]
    name = "follower"
    parent = "one"
    child = "three"
    type = "continuous"
    gamma = 0.3
    b = "L"
    theta = 0.2
    mimic = { leaders = { "a.b c" = 0.1, down = -2.5 }, offset = 0.7 }
    [[joint]]
    name = "curved"
    parent = "three"
    child = "four"
    mimic = { formula = "atan2(sin(q2), 2 + cos(down))" }
    [[frame]]
    name = "tool"
    link = "two"
    steps = ["tz L", "ry 45 deg", "tx 0.1"]
    [[link]]
    name = "one"
    XX = 0.1
    M = 3
    [[link]]
    name = "two"
    mass = 0.3
    com = [0.1, 0.2, 0.3]
    inertia = [[0.1, 0.01, 0.02], [0.01, 0.2, 0.03], [0.02, 0.03, 0.3]]
    [[load]]
    name = "gripper"
    link = "tool"
    [[load]]
    name = "part"
    link = "gripper"
    xyz = [0, 0, "L"]
    mass = 1.5
    """


def test_an_awkward_robot_survives_saving(tmp_path: Path) -> None:
    robot = md.load(written(tmp_path, awkward()))
    assert robot.links[4].name == "gripper"
    assert np.isnan(robot.links[4].parameters).all()
    md.save(robot, tmp_path / "again.toml")
    same(robot, md.load(tmp_path / "again.toml"))


def test_random_robots_survive_saving(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for trial in range(60):
        count = int(rng.integers(1, 8))
        letters = "".join(rng.choice(["R", "P"], count))
        angles = rng.choice([0, math.pi / 2, -math.pi / 2, math.pi, 0.3, 1e-5], (3, count))
        lengths = rng.choice([0, 0.25, -1 / 3, 1e-13], (3, count))
        robot = md.Robot.from_mdh(
            letters,
            *(angles[0], lengths[0], lengths[1], angles[1]),
            gravity=rng.normal(size=3),
            parent=[int(rng.integers(0, index + 1)) for index in range(count)],
            gamma=angles[2],
            b=lengths[2],
            rotor_inertia=bool(trial % 2),
            friction=("viscous", "offset") if trial % 3 else (),
        )
        values = rng.normal(size=len(robot.layout))
        values[rng.random(len(values)) < 0.2] = np.nan
        robot = robot.with_parameters(values)
        if trial % 4 == 0:
            robot = robot.with_load(parameters=rng.normal(size=10))
        md.save(robot, tmp_path / "robot.toml")
        same(robot, md.load(tmp_path / "robot.toml"))


def test_saving_says_what_it_cannot_do(tmp_path: Path) -> None:
    robot = md.load("two_link")
    with pytest.raises(DescriptionError, match=r"saved as \.toml, \.urdf, \.xml or \.c"):
        md.save(robot, tmp_path / "robot.yaml")
    with pytest.raises(DescriptionError, match="cannot be written"):
        md.save(robot, tmp_path / "nowhere" / "robot.toml")
    with pytest.raises(DescriptionError, match="a folder"):
        md.save(robot, tmp_path)
    with pytest.raises(WrongArgument, match=r"robot: expected a Robot.* got a value of type int"):
        md.save(3, tmp_path / "robot.toml")  # type: ignore[arg-type]
    with pytest.raises(WrongArgument, match="robot and path seem to be swapped"):
        md.save(tmp_path / "robot.toml", robot)  # type: ignore[arg-type]
    md.save("two_link", tmp_path / "robot.toml")
    assert md.load(tmp_path / "robot.toml") == robot
    with pytest.raises(DescriptionError, match="expected a file's path, got 3"):
        md.save(robot, 3)  # type: ignore[arg-type]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path, "old")
    path.parent.chmod(0o500)
    try:
        try:
            md.save(md.load("two_link"), path)
        except DescriptionError:
            assert path.read_text() == "old"
    finally:
        path.parent.chmod(0o700)
    assert [entry.name for entry in tmp_path.iterdir()] == ["robot.toml"]


# ---------------------------------------------------------------- wrong files

WRONG = {
    "truncated": (ARM[:-4] + "= [1, 2", r":13: not valid TOML"),
    "truncated string": ('name = "arm', r":1: not valid TOML"),
    "no joints": ('name = "arm"', r": no \[\[joint\]\]; a robot needs at least one"),
    "only fixed": ('[[joint]]\ntype = "fixed"', r": no moving joint"),
    "unknown top key": ("gravty = [0, 0, 1]\n" + ARM, r":1: .*unknown key 'gravty'; did you mean 'gravity'\?"),  # noqa: E501
    "unknown joint key": (
        ARM.replace("alpha", "alfa"),
        r":8: joint 'two' has an unknown key 'alfa'; did you mean 'alpha'\?",
    ),
    "unknown link key": (ARM.replace("mass", "mas"), r":13: link 'link1' has an unknown key 'mas'; did you mean"),  # noqa: E501
    "unknown type": (
        ARM.replace("a = 0.3", 'type = "revolut"'),
        r":9: joint 'two', type: found 'revolut', expected one of .*did you mean 'revolute'",
    ),
    "number for a name": (ARM.replace('"two"', "2"), r":7: joint 2, name: expected a text in quotes, found 2"),  # noqa: E501
    "text for a number": (ARM.replace("1.0", '"heavy"'), r":13: link 'link1', mass: expected a number, found 'heavy'"),  # noqa: E501
    "boolean for a number": (ARM.replace("1.0", "true"), r":13: link 'link1', mass: expected a number, found True"),  # noqa: E501
    "nan geometry": (ARM.replace("0.3", "nan"), r":9: joint 'two', a: expected a finite number, found nan"),  # noqa: E501
    "infinite geometry": (ARM.replace("0.3", "inf"), r":9: joint 'two', a: expected a finite number, found inf"),  # noqa: E501
    "unknown symbol": (ARM.replace("0.3", '"D3"'), r":9: joint 'two', a: unknown symbol 'D3' .*there are none"),  # noqa: E501
    "near symbol": (
        "[symbols]\nD33 = 1\n" + ARM.replace('name = "arm"', "").replace("0.3", '"D3"'),
        r":11: joint 'two', a: unknown symbol 'D3' in 'D3'.*did you mean 'D33'\?",
    ),
    "two joints of one name": (
        ARM.replace('"two"', '"one"'),
        r":6: a second joint called 'one' \(the first: .*robot.toml:3\); names must differ",
    ),
    "unknown parent": (
        ARM.replace("a = 0.3", 'parent = "link11"'),
        r":9: joint 'two', parent: unknown link 'link11'; did you mean 'link1'",
    ),
    "parent number": (ARM.replace("a = 0.3", "parent = 7"), r":9: joint 'two', parent: found 7, expected 0 .* to 2"),  # noqa: E501
    "parent kind": (ARM.replace("a = 0.3", "parent = 1.5"), r":9: joint 'two', parent: expected a link's name or a"),  # noqa: E501
    "cycle": (
        '[[joint]]\nparent = "link2"\n[[joint]]\nparent = "link1"\n',
        r": the joints form a cycle: ",
    ),
    "cycle beside a tree": (
        '[[joint]]\n[[joint]]\nparent = 3\n[[joint]]\nparent = 2\n',
        r":2: the joints form a cycle: link3 <- link2 <- link3",
    ),
    "two carriers": (
        '[[joint]]\nchild = "x"\n[[joint]]\nparent = 0\nchild = "x"\n',
        r":3: link 'x' is the child of two joints, 'joint1' and 'joint2'; .* loop",
    ),
    "zero axis": (
        '[[joint]]\nname = "j"\naxis = [0, 0, 0]',
        r":3: joint 'j', axis: the axis has length zero",
    ),
    "axis of two": ('[[joint]]\naxis = [0, 1]', r":2: joint 1, axis: expected 3 numbers, found 2"),
    "xyz of two": ('[[joint]]\nxyz = [0, 1]', r":2: joint 1, xyz: expected 3 values, found \[0, 1\]"),  # noqa: E501
    "mixed placement": ("[[joint]]\nalpha = 0\nxyz = [0, 0, 0]", r":3: joint 1, xyz: mixed with 'alpha'"),  # noqa: E501
    "wrong step": ('[[joint]]\nbefore = ["rw 1"]', r":2: joint 1, before: found the step 'rw 1', expected"),  # noqa: E501
    "wrong motion": ('[[joint]]\nmotion = "tz"', r":2: joint 1, motion: found 'tz', expected rx, ry or rz"),  # noqa: E501
    "gravity of two": ("gravity = [0, 1]\n" + ARM, r":1: the file, gravity: expected 3 numbers, found 2"),  # noqa: E501
    "com of two": (ARM + "com = [0, 1]", r":14: link 'link1', com: expected 3 numbers, found 2"),
    "inertia of five": (ARM + "inertia = [0, 1, 2, 3, 4]", r":14: link 'link1', inertia: expected 6 numbers"),  # noqa: E501
    "inertia not symmetric": (
        ARM + "inertia = [[1, 2, 0], [0, 1, 0], [0, 0, 1]]",
        r":14: link 'link1', inertia: the tensor must be symmetric",
    ),
    "parameters of nine": (
        ARM.replace("mass = 1.0", "parameters = [1, 2, 3, 4, 5, 6, 7, 8, 9]"),
        r":13: link 'link1', parameters: expected 10 numbers, found 9",
    ),
    "two ways": (ARM + "XX = 1", r":14: link 'link1', XX: mixed with 'mass'"),
    "link nobody carries": (ARM.replace("link1", "link9"), r":12: link 'link9', name: no joint carries .*did you mean"),  # noqa: E501
    "a link twice": (ARM + '[[link]]\nname = "link1"', r":15: link 'link1', name: a second link 'link1'"),  # noqa: E501
    "crossed limits": (
        ARM.replace("a = 0.3", "limits = { lower = 1, upper = 0 }"),
        r":9: joint 'two', limits, lower: 1.0 is above the upper limit 0.0",
    ),
    "unknown limit": (
        ARM.replace("a = 0.3", "limits = { uper = 1 }"),
        r":9: joint 'two', limits has an unknown key 'uper'; did you mean 'upper'",
    ),
    "unknown friction": (
        ARM.replace("a = 0.3", "drive = { viscos = 1 }"),
        r":9: joint 'two', drive has an unknown key 'viscos'; did you mean 'viscous'",
    ),
    "unknown coupling": (
        ARM.replace("a = 0.3", "drive = { coupling = { on = 1 } }"),
        r":6: the coupling of joint 'two' names an unknown joint 'on'; did you mean 'one'",
    ),
    "unknown leader": (
        ARM.replace("a = 0.3", 'mimic = { leader = "onne" }'),
        r":6: joint 'two' follows an unknown joint 'onne'; did you mean 'one'",
    ),
    "ring of followers": (
        ARM.replace("a = 0.3", 'mimic = { leader = "two" }'),
        r":6: joints follow each other in a ring: two follows two",
    ),
    "not a table": (ARM.replace("a = 0.3", "limits = 3"), r":9: joint 'two', limits: expected a table such as"),  # noqa: E501
    "joint no table": ("joint = 3", r":1: the file, joint: expected tables \[\[joint\]\], found 3"),
    "frame on nothing": (ARM + '[[frame]]\nname = "f"\nlink = "lnk1"', r":16: frame 'f', link: unknown link 'lnk1';"),  # noqa: E501
    "load on the base": (ARM + '[[load]]\nname = "f"\nlink = "base"', r":16: load 'f', link: a load on the base"),  # noqa: E501
    "load on nothing": (ARM + '[[load]]\nname = "f"\nlink = "lnk1"', r":16: load 'f', link: unknown link 'lnk1';"),  # noqa: E501
    "loop half given": (
        ARM + '[[loop]]\na = { link = "link2" }\npassive = ["two"]',
        r":14: loop 1 has no 'b'; expected two frames that coincide",
    ),
    "loop of unknown joint": (
        ARM + '[[loop]]\na = { link = "link2" }\nb = { link = "base" }\npassive = ["twoo"]',
        r":14: loop 'loop1' names an unknown joint 'twoo'; did you mean 'two'",
    ),
    "loop on unknown link": (
        ARM + '[[loop]]\na = { link = "lnk2" }\nb = { link = "base" }\npassive = ["two"]',
        r":14: loop 'loop1' names an unknown link 'lnk2'; did you mean 'link2'",
    ),
    "function of unknown joint": (ARM + '[[loop]]\nfunctions = { twoo = "one" }', r": a loop gives a function for an"),  # noqa: E501
    "function with unknown name": (
        ARM + '[[loop]]\nfunctions = { two = "onne" }',
        r":6: joint 'two': unknown joint 'onne' in formula 'onne'; did you mean 'one'",
    ),
    "function with code": (
        ARM + "[[loop]]\nfunctions = { two = \"__import__('os')\" }",
        r":6: joint 'two': .* not allowed in a formula",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_told_file_line_found_and_expected(case: str, tmp_path: Path) -> None:
    text, pattern = WRONG[case]
    message = refused(tmp_path, text)
    assert re.match(pattern, message), message


def test_a_loop_that_does_not_close_is_told_with_its_residual(tmp_path: Path) -> None:
    path = Path(md.__file__).parent / "model" / "robots" / "hpr.toml"
    text = path.read_text(encoding="utf-8")
    with pytest.raises(LoopError) as error:
        md.load(written(tmp_path, text.replace("q3 - q4", "q3 + q4")))
    message = str(error.value)
    line = text.splitlines().index("[[loop]]") + 1
    assert message.startswith(
        f"{tmp_path / 'robot.toml'}:{line}: loop 'parallelogram' does not close"
    )
    assert re.search(r"up to [\d.]+ m and 0 rad apart", message)
    assert "'link4' and 'link5'" in message
    assert "'joint2', 'joint5'" in message
    assert "sign" in message


def test_lines_are_found_past_strings_comments_and_arrays(tmp_path: Path) -> None:
    text = (
        'description = """\n[[joint]]\nname = 3\n"""\n'  # 1-4
        "gravity = [ # [[joint]]\n  0,\n  0,\n  -9.81,\n]\n"  # 5-9
        "[[joint]] # first\nname = 'it''s'\n".replace("''", "")
        + "[[ joint ]]\n"  # 10-12
        'alpha\t= 0 # comment\n"name" = 4\n'  # 13, 14
    )
    assert refused(tmp_path, text).startswith(
        ":14: joint 2, name: expected a text in quotes, found 4"
    )


# ---------------------------------------------------------------- load


def test_sources_that_are_no_robot(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownName, match=r"unknown robot 'pum560'; did you mean 'puma560'.*no file 'pum560'"
    ):
        md.load("pum560")
    with pytest.raises(FileNotFoundError, match="no such file"):
        md.load(tmp_path / "missing.toml")
    with pytest.raises(md.MinidynError, match="no such file; did you mean 'panda'"):
        md.load("pandaa.toml")
    with pytest.raises(
        DescriptionError, match="expected a built-in robot's name or a file's path, got 3"
    ):
        md.load(3)  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match="got None"):
        md.load(None)  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match="a folder"):
        md.load(tmp_path)
    for name, content, reason in (
        ("empty.toml", b"", "the file is empty"),
        ("blank.urdf", b" \n\n", "the file is empty"),
        ("binary.toml", b"\x7fELF\0\0\0", "a binary file"),
        ("latin.toml", "name = 'Stäubli'".encode("latin-1"), "not UTF-8"),
        ("robot.yaml", b"a: 1", "ends with '.yaml'; expected one of .toml, .urdf"),
        ("robot.xacro", b"<robot/>", "no link"),
        ("deep.toml", b"a = " + b"[" * 20000, "nested too deeply|not valid TOML"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DescriptionError, match=reason):
            md.load(path)


def test_a_name_that_is_also_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text(ARM)
    with pytest.raises(UnknownName, match="a file 'mine' exists, but its name ends with none of"):
        md.load("mine")
    (tmp_path / "panda").mkdir()
    assert md.load("panda").n == 7  # a built-in name goes first


def test_options_change_gravity_and_drives() -> None:
    plain = md.load("panda")
    assert len(plain.parameter_names) == 70
    changed = md.load(
        "panda", gravity=(0, 9.81, 0), rotor_inertia=True, friction=("coulomb", "viscous")
    )
    assert changed.gravity.tolist() == [0, 9.81, 0]
    assert changed.parameter_names[10:13] == ("Ia1", "Fv1", "Fc1")
    assert len(changed.parameter_names) == 91
    assert len(md.load("puma560", rotor_inertia=False).parameter_names) == 60
    assert md.load("puma560", rotor_inertia=["joint3"]).parameter_names[30] == "Ia3"
    with pytest.raises(UnknownName, match="unknown friction term 'viscos'; did you mean 'viscous'"):
        md.load("panda", friction="viscos")
    with pytest.raises(DescriptionError, match="gravity: expected 3 finite numbers"):
        md.load("panda", gravity=(0, 9.81))
