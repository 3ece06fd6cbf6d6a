"""The command line.

Robots are listed and shown, errors are one line, foreign text cannot play tricks.
"""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "minidyn", *arguments],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )


def test_robots_are_listed() -> None:
    done = run("robots")
    assert done.returncode == 0
    assert done.stderr == ""
    for name in md.robots():
        assert f"  {name} " in done.stdout
    rows = json.loads(run("robots", "--json").stdout)
    assert [row["name"] for row in rows] == list(md.robots())
    assert {row["name"]: row["parameters"] for row in rows}["hpr"] == 77


WIDE = {
    "gen3": 139,
    "panda_hand": 130,
    "so101": 142,
    "ur5e": 127,
    "z1": 130,
}  # robots with long names or many digits


@pytest.mark.parametrize("name", md.robots())
def test_every_robot_is_shown(name: str) -> None:
    done = run("show", name)
    assert (done.returncode, done.stderr) == (0, "")
    robot = md.load(name)
    for word in (name, *robot.link_names, *(joint.name for joint in robot.joints)):
        assert word in done.stdout
    assert "\x1b" not in done.stdout  # colours only on terminals
    assert max(map(len, done.stdout.splitlines())) <= WIDE.get(
        name, 124
    )  # ten numbers and a name, none broken


def test_show_tells_what_matters() -> None:
    text = run("show", "puma560").stdout
    for word in (
        "D3 = 0.5",
        "Ia2 = 4.5",
        "Table III",
        "triangle inequality",
        "Modified Denavit-Hartenberg",
        "-9.81",
    ):
        assert word in text
    text = run("show", "hpr").stdout
    for word in ("parallelogram", "joint3 - joint4", "assumed", "all unknown"):
        assert word in text
    text = run("show", "panda").stdout
    assert "2.8973" in text
    assert "Limits" in text


def no_constants(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", md.robots())
def test_json_holds_everything(name: str) -> None:
    data = no_constants(run("show", name, "--json").stdout)
    robot = md.load(name)
    assert data["n"] == robot.n
    assert tuple(data["joint_names"]) == robot.joint_names
    assert tuple(data["parameters"]) == robot.parameter_names
    values = [None if math.isnan(value) else value for value in robot.parameters]
    assert list(data["parameters"].values()) == values
    assert [link["realizable"] for link in data["links"]] == [
        link.realizability.realizable for link in robot.links
    ]
    assert [joint["placement"] for joint in data["joints"]] == [
        joint.placement.tolist() for joint in robot.joints
    ]
    assert len(data["loops"]) == len(robot.loops)


def test_version_help_and_verbs() -> None:
    assert run("--version").stdout.strip() == f"minidyn, version {md.__version__}"
    assert "show" in run("--help").stdout
    assert "--json" in run("show", "--help").stdout


def test_errors_are_one_line_and_code_2(tmp_path: Path) -> None:
    done = run("show", "pandaa")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error: unknown robot 'pandaa'; did you mean 'panda' or 'panda_hand'? (and there is "
        "no file 'pandaa')\n"
    )
    path = tmp_path / "robot.toml"
    path.write_text("[[joint]]\nalfa = 3\n")
    done = run("show", str(path))
    assert done.returncode == 2
    assert (
        done.stderr
        == f"error: {path}:2: joint 1 has an unknown key 'alfa'; did you mean 'alpha'?\n"
    )
    assert run("show").returncode == 2
    assert run("shw", "panda").returncode == 2


def test_foreign_text_plays_no_tricks(tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text(
        'name = "[red]x[/red] \\u001b[31mred\\u0007"\nnotices = ["[link=http://x]y\\u202e\\n"]\n'
        '[[joint]]\nname = "[/bold]\\u0000"\nchild = "a\\nb[blink]"\n',
        encoding="utf-8",
    )
    done = run("show", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(done.stdout)
    assert "[red]x[/red] \\x1b[31mred\\x07" in done.stdout
    assert "[link=http://x]y\\u202e\\n" in done.stdout
    assert "a\\nb[blink]" in done.stdout
    assert (
        no_constants(run("show", str(path), "--json").stdout)["name"]
        == "[red]x[/red] \x1b[31mred\x07"
    )
    path.write_text(
        '[[joint]]\nname = "\\u001b]0;title\\u0007"\n[[joint]]\nname = "\\u001b]0;title\\u0007"\n'
    )
    done = run("show", str(path))
    assert done.returncode == 2
    assert not {"\x1b", "\x07"} & set(done.stderr)


def test_numbers_are_not_broken_over_lines(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bodies = 1e-3 * rng.normal(size=(3, 10))
    robot = md.Robot.from_mdh("RRR", parameters=bodies.ravel(), name="tiny")
    robot = dataclasses.replace(
        robot, link_names=tuple(f"a_link_with_a_long_name_{k}" for k in range(3))
    )
    path = tmp_path / "tiny.toml"
    md.save(robot, path)
    shown = run("show", str(path)).stdout
    for value, name in zip(bodies, robot.link_names):
        row = next(
            line for line in shown.splitlines() if line.split()[1:2] == [name] and "." in line
        )
        assert row.split()[2:] == [f"{number:.4g}" for number in value]
