"""Hostile names of robots and joints through every writer that keeps them.

What is read back is what was given. Writers of code, LaTeX, HTML and programs for robots have tests
of their own beside their other laws.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from hostile_names import HOSTILE
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, Unforeseen
from minidyn.files import new_folder

NAMES = [
    *HOSTILE,
    *(
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "=cmd|' /C calc'!A0",
        "\ufeffmark",
    ),  # cells of a table that a program computes
    *(
        "../../etc/passwd",
        "a/b",
        "a\\b",
        "CON",
        "nul.txt",
        "~",
        "-rf",
        "$(id)",
        "`id`",
        "; rm x",
        "|",
        "*",
        "?",
    ),
    *(
        "J1",
        "j1",
        "J1 ",
        "x" * 300,
        "\u202egnp.exe",
        "q.joint1",
        "tau",
        "run",
        "t",
        "time",
        "joint1_",
        "telemetry.a.0",
    ),
    *(
        '"""',
        "'''",
        "#",
        "[table]",
        "a = 1",
        "{joint}",
        "%n",
        "\\u0041",
        "<b>",
        "a|b",
        "${x}",
        "</script>",
        "nan",
        "1.5",
        "0",
    ),
]


def hostile(name: str) -> md.Robot:
    robot = md.load("two_link")
    names = iter((name, "other"))
    return replace(robot.with_joints(lambda joint: replace(joint, name=next(names))), name=name)


def log(robot: md.Robot) -> md.Recording:
    t = np.arange(60) / 50
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    return md.Recording(
        t, q, 2 * q, 0.5 * q, q, joint_names=robot.joint_names, telemetry={robot.name: t}
    )


@pytest.mark.parametrize("name", NAMES[:: count(2, 1)])
def test_recordings_keep_names(tmp_path: Path, name: str) -> None:
    robot = hostile(name)
    recording = log(robot)
    for ending in (".npz", ".parquet", ".csv"):
        path = tmp_path / f"log{ending}"
        if ending == ".csv" and name.splitlines() != [name]:
            with pytest.raises(md.MinidynError, match="cannot hold the name"):
                recording.save(path)
            return
        recording.save(path)
        for reader in (robot, None):
            back = md.read_recording(path, reader)
            if reader is not None or ending == ".npz":
                assert back.joint_names == robot.joint_names, ending
            np.testing.assert_array_equal(back.q, recording.q)
            np.testing.assert_array_equal(back.tau, recording.tau)
    with (tmp_path / "log.csv").open(newline="", encoding="utf-8") as file:
        head = next(csv.reader(file))
    assert head[2] == f"q.{name}"
    assert not [
        cell for cell in head if cell[:1] in "=+-@"
    ]  # a program that opens the table computes nothing


@pytest.mark.parametrize("name", NAMES)
def test_robots_keep_names(tmp_path: Path, name: str) -> None:
    robot = hostile(name)
    md.save(robot, tmp_path / "robot.toml")
    assert md.load(tmp_path / "robot.toml") == robot
    tomllib.loads((tmp_path / "robot.toml").read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["robot.toml"]


def test_estimates_keep_names(tmp_path: Path) -> None:
    plain = md.load("two_link")
    estimate = md.identify(plain, log(plain), friction=[], rotor_inertia=False, consistent=False)
    for number, name in enumerate(NAMES[:: count(6, 1)]):
        robot = hostile(name)
        given = replace(estimate, robot=robot, base=replace(estimate.base, robot=robot))
        given.save(tmp_path / "estimate.json")
        back = md.load_estimate(tmp_path / "estimate.json")
        assert back.robot == robot
        assert back.robot.joint_names == robot.joint_names
        json.loads((tmp_path / "estimate.json").read_text(encoding="utf-8"))
        lines = given.table().splitlines()
        assert len(lines) == 2 + len(estimate.beta)
        assert {line.count("|") for line in lines} == {6}
        if number % 10 == 0:
            assert f"<b>{name}" not in given._repr_html_()


IMPOSSIBLE = pytest.mark.parametrize(
    "name", ["a\0b", "a\ud800", "x" * 300], ids=["NUL", "surrogate", "long"]
)


@IMPOSSIBLE
def test_outputs_of_impossible_names_are_refused(tmp_path: Path, name: str) -> None:
    robot = md.load("two_link")
    t = np.arange(1000) / 200.0
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    log = md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq))
    options = {"friction": (), "rotor_inertia": False, "consistent": False}
    found = md.identify(robot, log, **options)
    log.save(tmp_path / "log.parquet")
    there = set(tmp_path.iterdir())

    def keep(path: str) -> None:
        on_disk = md.read_recording(tmp_path / "log.parquet", robot, lazy=True)
        md.identify(robot, on_disk, keep=path, **options)

    writers: list[tuple[str, Callable[[str], object]]] = [
        (".toml", lambda path: md.save(robot, path)),
        (".urdf", lambda path: md.save(robot, path)),
        (".npz", log.save),
        (".csv", log.save),
        (".html", lambda path: md.check(robot, log).report(path)),
        (".html", lambda path: md.report(found, log, path)),
        (".json", found.save),
        (".urdf", found.export),
        ("", found.export),
        ("", keep),
        ("", lambda path: new_folder(path).__enter__()),
    ]
    for ending, write in writers:
        with pytest.raises(DescriptionError) as caught:
            write(f"{tmp_path}/{name}{ending}")
        assert not isinstance(caught.value, Unforeseen)
    assert set(tmp_path.iterdir()) == there


@IMPOSSIBLE
@pytest.mark.parametrize(
    "words",
    [
        ["generate", "two_link", "inverse_dynamics", "--output"],
        ["excite", "two_link", "--duration", "3", "--output"],
        ["casestudy", "lin-1992", "--output"],
        ["demo", "--output"],
    ],
    ids=lambda words: words[0],
)
def test_the_shell_refuses_impossible_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(main, [*words, name])
    assert told.exit_code == 2, told.output
    assert "error: " in told.output
    assert not list(tmp_path.iterdir())
