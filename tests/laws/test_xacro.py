"""Robots from .xacro files and from the package robot_descriptions: what is read, what is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, MissingExtra, UnknownName
from minidyn.formats import descriptions
from minidyn.formats.urdf import xacro as xacro_module
from minidyn.formats.urdf.xacro_child import safe_eval

pytest.importorskip("xacro", reason="xacro (pip install minidyn[descriptions]) is not installed")

ARM = """<?xml version="1.0"?>
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="length" default="0.5"/>
  <xacro:arg name="second" default="true"/>
  <xacro:property name="l" value="$(arg length)"/>
  <xacro:include filename="$(find my_arm)/urdf/link.xacro"/>
  <link name="base"/>
  <xacro:segment name="one" parent="base" mass="${2 * l}"/>
  <xacro:if value="$(arg second)">
    <xacro:segment name="two" parent="one" mass="${l + cos(0)}"/></xacro:if>
</robot>
"""
LINK = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="table" value="${xacro.load_yaml('$(find my_arm)/config/limits.yaml')}"/>
  <xacro:macro name="segment" params="name parent mass">
    <link name="${name}"><inertial><origin xyz="${l / 2} 0 0"/><mass value="${mass}"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="${mass * l**2 / 12 + 0.01}"
        iyz="0" izz="0.1"/></inertial></link>
    <joint name="${name}_joint" type="revolute"><origin xyz="${l} 0 0"/><parent link="${parent}"/>
      <child link="${name}"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" velocity="${table['velocity']}" effort="10"/></joint>
  </xacro:macro>
</robot>
"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    package = tmp_path / "src" / "my_arm"
    for folder in ("urdf", "config"):
        (package / folder).mkdir(parents=True)
    (package / "package.xml").write_text("<package/>")
    (package / "urdf" / "arm.urdf.xacro").write_text(ARM)
    (package / "urdf" / "link.xacro").write_text(LINK)
    (package / "config" / "limits.yaml").write_text("velocity: 2.5\n")
    return package / "urdf" / "arm.urdf.xacro"


def test_macros_includes_and_arguments(arm: Path) -> None:
    robot = md.load(arm)
    assert robot.joint_names == ("one_joint", "two_joint")
    masses = [link.parameters[9] for link in robot.links]
    assert masses == pytest.approx([1.0, 1.5])
    assert robot.joints[0].limits.velocity == 2.5
    assert robot.source == str(arm)
    other = md.load(arm, xacro_args={"length": 0.7, "second": False})
    assert other.n == 1
    assert other.links[0].parameters[9] == pytest.approx(1.4)
    done = CliRunner().invoke(
        main,
        ["show", str(arm), "--xacro-arg", "second=false", "--xacro-arg", "length=0.7", "--json"],
    )
    assert done.exit_code == 0, done.output
    assert "two_joint" not in done.output
    wrong = CliRunner().invoke(main, ["show", str(arm), "--xacro-arg", "second"])
    assert wrong.exit_code == 2
    assert "NAME=VALUE" in wrong.stderr


def test_the_same_as_xacro_itself(arm: Path) -> None:
    """The limits change no result of a plain file."""
    script = (
        "import xacro, xacro.substitution_args as s, sys\n"
        f"s._eval_find = lambda name: {str(arm.parent.parent)!r}\n"
        f"print(xacro.process_file({str(arm)!r}).toprettyxml())"
    )
    plain = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    (arm.parent / "plain.urdf").write_text(plain)
    one, two = md.load(arm), md.load(arm.parent / "plain.urdf")
    assert one.structure_fingerprint == two.structure_fingerprint
    assert np.array_equal(one.parameters, two.parameters)


ATTACKS = [
    "${().__class__}",
    "${(lambda: ().__class__)()}",
    "${[x for x in [1].__class__.__mro__]}",
    "${'{0.__class__}'.format(1)}",
    "${python.type('X', (), {})}",
    "${python.vars()}",
    "${open('/etc/passwd')}",
    "$(eval open('/etc/passwd').read())",
    "$(eval exec('x=1'))",
    "$(env HOME)",
    "$(find ../../etc)",
    "$(find no_such_package)",
    "${xacro.load_yaml('/etc/hostname')}",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_gets_no_power(arm: Path, attack: str, tmp_path: Path) -> None:
    # where any text is welcome, so that nothing but the limits can refuse it
    arm.write_text(ARM.replace("<link ", f'<gazebo reference="{attack}"/><link ', 1))
    with pytest.raises(DescriptionError, match="xacro cannot expand it"):
        md.load(arm)


def test_files_outside_and_entities_are_refused(arm: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.xacro"
    outside.write_text('<robot><link name="secret"/></robot>')
    arm.write_text(ARM.replace("$(find my_arm)/urdf/link.xacro", str(outside)))
    with pytest.raises(DescriptionError, match="outside of the packages"):
        md.load(arm)
    arm.write_text(ARM)
    (arm.parent / "link.xacro").write_text('<!DOCTYPE a [<!ENTITY b "c">]>' + LINK)
    with pytest.raises(DescriptionError, match="DOCTYPE"):
        md.load(arm)


def test_a_macro_without_end_is_given_up(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xacro_module, "SECONDS", 2.0)
    arm.write_text(ARM.replace("${2 * l}", "${9**9**9**9}"))
    with pytest.raises(DescriptionError, match="did not end within 2 s"):
        md.load(arm)


def test_expressions() -> None:
    names = {"a": 2, "table": {"x": [1, 2]}, "str": str}
    assert safe_eval(" a + table['x'][1] if a > 1 else 0 ", dict(names)) == 4
    assert safe_eval("[str(k) for k in table['x']]", dict(names)) == ["1", "2"]
    for text in ("a.__class__", "(lambda: 1)()", "__import__('os')", "(b := 3)"):
        with pytest.raises(ValueError, match="refused"):
            safe_eval(text, dict(names))


def test_arguments_of_other_files_are_refused(tmp_path: Path) -> None:
    md.save("two_link", tmp_path / "arm.urdf")
    with pytest.raises(DescriptionError, match=r"no \.xacro file"):
        md.load(tmp_path / "arm.urdf", xacro_args={"a": 1})


# ------------------------------------------------------------------ robot_descriptions


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: Path) -> Path:
    """A cache of the package, and the package itself with two descriptions."""
    package = tmp_path / "site" / "robot_descriptions"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_repositories.py").write_text(
        "class R:\n    def __init__(self, cache_path): self.cache_path = cache_path\n"
        'REPOSITORIES = {"arms": R("arms"), "more": R("my_more")}\n'
    )
    head = (
        "from os import getenv as _getenv\nfrom os import path as _path\n"
        "from ._cache import clone_to_cache as _clone_to_cache\n"
        'REPOSITORY_PATH: str = _clone_to_cache("{}", commit=_getenv("NO_COMMIT", None))\n'
        'PACKAGE_PATH: str = _path.join(REPOSITORY_PATH, "robots")\n'
    )
    (package / "two_description.py").write_text(
        head.format("arms") + 'URDF_PATH: str = _path.join(PACKAGE_PATH, "two.urdf")\n'
    )
    (package / "more_description.py").write_text(
        head.format("more")
        + 'XACRO_PATH: str = _path.join(PACKAGE_PATH, "arm.urdf.xacro")\n'
        + 'XACRO_ARGS = {"length": "0.9"}\nXACRO_PACKAGE_PATHS = {"my_arm": PACKAGE_PATH}\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in [name for name in sys.modules if name.split(".")[0] == "robot_descriptions"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("ROBOT_DESCRIPTIONS_CACHE", str(tmp_path / "cache"))
    robots = tmp_path / "cache" / "my_more" / "robots"
    (robots / "urdf").mkdir(parents=True)
    (robots / "config").mkdir()
    (robots / "arm.urdf.xacro").write_text(ARM)
    (robots / "urdf" / "link.xacro").write_text(LINK)
    (robots / "config" / "limits.yaml").write_text("velocity: 2.5\n")
    return tmp_path / "cache"


def test_descriptions_that_were_fetched(cache: Path) -> None:
    with pytest.raises(DescriptionError, match=r"'two_description' has not been fetched.*pull two"):
        md.load("two_description")
    (cache / "arms" / "robots").mkdir(parents=True)
    md.save("two_link", cache / "arms" / "robots" / "two.urdf")
    for name in ("two_description", "robot_descriptions:two_description"):
        assert md.load(name, lock="joint2").n == 1
    more = md.load("more_description")
    assert more.links[0].parameters[9] == pytest.approx(1.8)
    assert md.load("more_description", xacro_args={"length": 0.1}).links[0].parameters[9] == (
        pytest.approx(0.2)
    )
    with pytest.raises(UnknownName, match="did you mean 'two_description'"):
        md.load("robot_descriptions:tow_description")
    assert "git" not in sys.modules  # nothing of the package that could fetch was imported


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptions.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "robot_descriptions", None)
    with pytest.raises(MissingExtra, match=r"descriptions"):
        md.load("panda_description")
