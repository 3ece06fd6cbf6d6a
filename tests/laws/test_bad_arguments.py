"""What is wrong with an argument is said with its name.

What comes out of a copy is as frozen as the original.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.errors import WrongArgument
from minidyn.formats.load import as_robot

URDF = """<robot name="r"><link name="base"/><link name="arm"><inertial><origin xyz="0 0 0.1" rpy="0 0 0"/>
<mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>{more}
<joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint></robot>"""  # noqa: E501


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"joints": None}, "joints: expected one letter a joint"),
        ({"joints": 3}, "joints: expected one letter a joint"),
        ({"joints": "R", "gravity": "down"}, "gravity: expected (real )?numbers, got 'down'"),
        ({"joints": "R", "gravity": (1j, 0, 0)}, "gravity: expected (real )?numbers"),
        (
            {"joints": "R", "parameters": np.ones(10) * 1j},
            "parameters .*: expected (real )?numbers",
        ),
        ({"joints": "R", "alpha": ["x"]}, "alpha .*: expected (real )?numbers"),
        ({"joints": "RR", "parent": 0}, "parent: expected one number for each joint, got 0"),
        (
            {"joints": "R", "rotor_inertia": "yes"},
            "rotor_inertia: expected True or False, got 'yes'",
        ),
        ({"joints": "R", "name": 5}, "name of a robot: expected a text, got 5"),
    ],
)
def test_tables(given: dict[str, Any], message: str) -> None:
    with pytest.raises(md.MinidynError, match=message):
        md.Robot.from_mdh(**given)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("with_gravity", {"gravity": "down"}, "gravity: expected (real )?numbers"),
        ("with_gravity", {"gravity": None}, "gravity: expected (real )?numbers"),
        ("with_parameters", {"parameters": "heavy"}, "parameters: expected (real )?numbers"),
        (
            "with_parameters",
            {"parameters": np.ones(20) * 1j},
            "parameters: expected (real )?numbers",
        ),
        ("with_parameters", {"parameters": [[1.0, 2.0], [3.0]]}, "parameters: expected numbers"),
        (
            "with_drives",
            {"rotor_inertia": 3},
            "rotor_inertia: expected True, False or names of joints, got 3",
        ),
        ("with_load", {"parameters": "heavy"}, "load 'load', parameters: expected (real )?numbers"),
        ("with_load", {"placement": "there"}, "placement of 'load': expected (real )?numbers"),
        ("with_load", {"name": 5}, "name of a load: expected a text, got 5"),
    ],
)
def test_variations(method: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(md.MinidynError, match=message):
        getattr(md.load("two_link"), method)(**arguments)


@pytest.mark.parametrize("name", ["panda", "hpr"])
def test_copies_are_frozen_too(name: str) -> None:
    robot = md.load(name).with_load(parameters={"mass": 1.0})
    for other in (copy.copy(robot), copy.deepcopy(robot), pickle.loads(pickle.dumps(robot))):
        assert other == robot
        assert other.notices == robot.notices
        assert other.source == robot.source
        for array in (other.parameters, other.gravity, other.links[0].parameters):
            assert not array.flags.writeable


def test_numbers_of_a_file_without_turns_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(URDF.format(more=""))
    robot = md.load(path)
    assert robot.parameters[5] == 0.1  # not 0.10000000000000003
    assert robot.notices == ()


def test_a_link_that_no_joint_holds_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(URDF.format(more='\n<link name="forgotten"/>'))
    robot = md.load(path)
    assert robot.base_name == "base"
    (notice,) = robot.notices
    assert (notice.code, dict(notice.data)) == ("robot.loose_link", {"link": "forgotten"})
    assert str(notice).startswith(f"{path}:3: ")


def test_a_robot_is_given_by_value_name_or_path(tmp_path: Path) -> None:
    robot = md.load("two_link")
    md.save(robot, tmp_path / "arm.toml")
    assert as_robot(robot) is robot
    for given in ("two_link", tmp_path / "arm.toml", str(tmp_path / "arm.toml")):
        assert as_robot(given) == robot


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "model: expected a Robot, a built-in robot's name or a robot file's path, got None"),
        (3.0, "model: expected .*, got a value of type float"),
        (
            md.Recording([0.0, 1.0], np.zeros((2, 1)), np.ones((2, 1))),
            "model and recording seem to be swapped",
        ),
    ],
)
def test_what_is_no_robot_is_named(value: object, message: str) -> None:
    with pytest.raises(WrongArgument, match=message) as caught:
        as_robot(value, argument="model")
    assert isinstance(caught.value, TypeError)


def test_a_log_where_the_robot_belongs(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("t,q1\n")
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text("rosbag2_bagfile_information:\n")
    with pytest.raises(md.MinidynError, match="robot and recording seem to be swapped"):
        md.identify(tmp_path / "bag", "two_link")
    with pytest.raises(md.MinidynError, match="robot and recording seem to be swapped"):
        as_robot(log)
    with pytest.raises(md.MinidynError, match="two_link"):
        as_robot("two_lnk")
