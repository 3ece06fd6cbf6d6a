"""Motions as files: each opens with a warning and, read back, is the motion that was designed."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn.excitation.robot_files import FORMATS, WAY_TO_FIRST_POINT, save_motion
from minidyn.simulation.trajectory import quintic

HOME = np.array([0.0, -1.2, 1.0, -1.0, -1.5, 0.2])


@pytest.fixture(scope="module")
def motion():
    return md.excite("ur5e", 4.0, friction=(), rotor_inertia=False, noise=1.0, time_limit=2)


def read_csv(path):
    lines = path.read_text().splitlines()
    warning = [line for line in lines if line.startswith("#")]
    rows = list(csv.reader(lines[len(warning) :]))
    values = np.array(rows[1:], dtype=float)
    n = (len(rows[0]) - 1) // 3
    return (
        " ".join(warning),
        [name.partition(".")[2] for name in rows[0][1 : 1 + n]],
        values[:, 0],
        values[:, 1 : 1 + n],
    )


def read_parquet(path):
    from pyarrow import parquet

    table = parquet.read_table(path)
    names = [name[2:] for name in table.column_names if name.startswith("q.")]
    q = np.column_stack([table[f"q.{name}"].to_numpy() for name in names])
    return table.schema.metadata[b"warning"].decode(), names, table["t"].to_numpy(), q


def read_ros2(path):
    import yaml

    text = path.read_text()
    content = yaml.safe_load(text)
    points = content["points"]
    t = [p["time_from_start"]["sec"] + 1e-9 * p["time_from_start"]["nanosec"] for p in points]
    assert all(
        len(p["velocities"]) == len(p["accelerations"]) == len(content["joint_names"])
        for p in points
    )
    return (
        text[: text.index("joint_names")],
        content["joint_names"],
        np.array(t),
        np.array([p["positions"] for p in points]),
    )


def read_mcap(path):
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    with AnyReader([path], default_typestore=get_typestore(Stores.LATEST)) as reader:
        found = {c.topic: reader.deserialize(raw, c.msgtype) for c, _, raw in reader.messages()}
    trajectory = found["/joint_trajectory"]
    t = [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in trajectory.points]
    return (
        found["/warning"].data,
        trajectory.joint_names,
        np.array(t),
        np.array([p.positions for p in trajectory.points]),
    )


def read_urscript(path):
    text = path.read_text()
    steps = re.findall(r"^  servoj\(\[([^\]]+)\], t=([0-9.e-]+),", text, re.MULTILINE)
    q = np.array([[float(x) for x in numbers.split(",")] for numbers, _ in steps])
    t = float(steps[0][1]) * np.arange(len(q))
    assert (
        re.search(r"^  movej\(\[([^\]]+)\]", text, re.MULTILINE).group(1) == steps[0][0]
    )  # it begins where it shall
    assert text.rstrip().endswith("minidyn_motion()")
    return text[: text.index("def ")], list(md.load("ur5e").joint_names), t, q


READERS = {
    "csv": read_csv,
    "parquet": read_parquet,
    "ros2": read_ros2,
    "mcap": read_mcap,
    "urscript": read_urscript,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("speed", [1.0, 0.1])
def test_a_file_read_back_is_the_motion(motion, tmp_path, name, speed) -> None:
    rate = 125 if speed == 1 else 25
    path = motion.save(tmp_path / f"motion{FORMATS[name][0]}", speed=speed, rate=float(rate))
    warning, names, t, q = READERS[name](path)
    for word in ("WARNING", "emergency stop", "10 % speed", "NOT checked: collisions", "torque"):
        assert word in warning
    assert list(names) == list(motion.robot.joint_names)
    assert t[0] == 0.0
    assert t[-1] == pytest.approx(4.0 / speed, abs=1e-5)
    np.testing.assert_allclose(q, motion.trajectory(t * speed)[0], atol=1e-6)
    np.testing.assert_allclose(np.diff(t), 1 / rate, rtol=1e-3)


def read_krl(path):
    text = path.read_text()
    block = text[text.index("PTP_SPLINE") : text.index("ENDSPLINE")]
    rows = re.findall(r"SPTP \{(.*?)\}", block)
    q = np.radians([[float(word.split()[1]) for word in row.split(", ")] for row in rows])
    assert [word.split()[0] for word in rows[0].split(", ")] == [f"A{k}" for k in range(1, 7)]
    whole = float(re.search(r"TIME_BLOCK END = ([0-9.]+)", block).group(1))
    shares = np.array([float(one) for one in re.findall(r"TIME_BLOCK PART = ([0-9.]+)", block)])
    assert shares.sum() == pytest.approx(100.0, abs=1e-3)
    assert f"PTP {{{rows[0]}}}" in text[: text.index("PTP_SPLINE")]  # it goes there slowly first
    assert text[: text.index("PTP_SPLINE")].index("BAS(#VEL_PTP, 5)") < text.index(
        f"PTP {{{rows[0]}}}"
    )
    assert all(
        line.startswith(";")
        for line in text.splitlines()[1 : text.splitlines().index("DEF minidyn_motion()")]
    )
    return text[: text.index("DEF ")], np.r_[0.0, np.cumsum(shares) / 100 * whole], q


def read_rapid(path):
    text = path.read_text()
    moves = re.findall(
        r"MoveAbsJ \[\[(.*?)\],\[.*?\]\]\\NoEOffs, (v50|v1000\\T:=([0-9.]+)), (fine|z5), tool0;",
        text,
    )
    q = np.radians([[float(word) for word in move[0].split(",")] for move in moves])
    assert moves[0][1] == "v50"
    assert moves[-1][3] == "fine"
    assert text.splitlines()[0] == "MODULE minidyn_motion"
    assert text.rstrip().endswith("ENDMODULE")
    return (
        text[: text.index("PROC ")],
        np.r_[0.0, np.cumsum([float(move[2]) for move in moves[1:]])],
        q,
    )


@pytest.mark.parametrize(("name", "reader"), [("krl", read_krl), ("rapid", read_rapid)])
@pytest.mark.parametrize("speed", [1.0, 0.1])
def test_waypoints_are_points_of_the_motion(motion, tmp_path, name, reader, speed) -> None:
    head, t, q = reader(motion.save(tmp_path / f"motion{FORMATS[name][0]}", speed=speed))
    for word in (
        "WARNING",
        "emergency stop",
        "10 % speed",
        "NOT checked",
        "Between waypoints",
        "Signs and zeros",
    ):
        assert word in head
    assert t[-1] == pytest.approx(4.0 / speed, abs=2e-3)
    assert 0.1 < np.diff(t)[:-1].max() < 0.25
    np.testing.assert_allclose(q, motion.trajectory(t * speed)[0], atol=2e-4 * speed + 1e-6)


def test_the_program_for_franka_follows_the_motion(tmp_path, monkeypatch) -> None:
    """Run against a robot made of nothing.

    It goes slowly to the start, then commands are the motion at 1 kHz.
    """
    import runpy
    import sys
    from types import ModuleType, SimpleNamespace

    made = md.excite("panda", 3.0, friction=(), rotor_inertia=False, noise=1.0, time_limit=3)
    path = made.save(tmp_path / "motion.py")
    assert path.read_text().startswith("# WARNING")
    commands: list[list] = []
    pose = made.trajectory(0.0)[0] + 0.3

    class Control:
        def readOnce(self):
            return SimpleNamespace(q=pose, q_d=pose), SimpleNamespace(to_sec=lambda: 1e-3)

        def writeOnce(self, command):
            commands[-1].append(command.q)

    class Robot:
        def __init__(self, address):
            assert address == "robot.local"

        def start_joint_position_control(self, mode):
            commands.append([])
            return Control()

        def read_once(self):
            return SimpleNamespace(q=pose)

    fake = ModuleType("pylibfranka")
    fake.Robot, fake.ControllerMode = Robot, SimpleNamespace(JointImpedance=1)
    fake.JointPositions = lambda q: SimpleNamespace(q=q, motion_finished=False)
    monkeypatch.setitem(sys.modules, "pylibfranka", fake)
    monkeypatch.setattr(sys, "argv", ["motion.py", "robot.local"])
    monkeypatch.setattr("builtins.input", lambda words: "no")
    with pytest.raises(SystemExit):
        runpy.run_path(str(path), run_name="__main__")
    assert not commands
    monkeypatch.setattr("builtins.input", lambda words: "yes")
    runpy.run_path(str(path), run_name="__main__")
    slow, run = (np.array(part) for part in commands)
    np.testing.assert_allclose(slow[-1], made.trajectory(0.0)[0], atol=1e-9)
    assert np.abs(np.diff(slow, axis=0)).max() / 1e-3 < 0.2  # rad/s
    t = np.minimum(1e-3 * np.arange(1, len(run) + 1), 3.0)
    np.testing.assert_allclose(run, made.trajectory(t)[0], atol=1e-6)


def test_a_ramp_leads_from_home_to_the_start_and_back(motion, tmp_path) -> None:
    _, _, t, q = read_csv(motion.save(tmp_path / "motion.csv", home=HOME))
    np.testing.assert_allclose(q[[0, -1]], [HOME, HOME], atol=1e-9)
    start = motion.trajectory(0.0)[0]
    begin = int(np.argmin(np.abs(q - start).max(axis=1)))
    ramp = t[begin]
    np.testing.assert_allclose(
        q[: begin + 1], quintic(HOME, start, ramp)(t[: begin + 1])[0], atol=1e-6
    )
    inside = (t >= ramp) & (t <= ramp + 4.0)
    np.testing.assert_allclose(q[inside], motion.trajectory(t[inside] - ramp)[0], atol=1e-6)
    speed = np.abs(np.diff(q, axis=0) / np.diff(t)[:, None])
    limits = np.array([motion.robot.joints[k].limits.velocity for k in motion.robot.independent])
    assert np.all(speed[:begin] <= 0.2 * limits + 1e-6)
    with pytest.raises(md.MinidynError, match="elbow_joint"):
        motion.save(tmp_path / "motion.csv", home=[0, 0, 9, 0, 0, 0])


def test_what_cannot_be_written_is_refused(motion, tmp_path) -> None:
    with pytest.raises(md.MinidynError, match="kuka"):
        motion.save(tmp_path / "motion.src", "kuka")
    with pytest.raises(md.MinidynError, match="7 rotational joints"):
        motion.save(tmp_path / "motion.py")
    with pytest.raises(md.MinidynError, match="ending"):
        motion.save(tmp_path / "motion.txt")
    with pytest.raises(md.MinidynError, match="speed"):
        motion.save(tmp_path / "motion.csv", speed=1.5)
    with pytest.raises(md.MinidynError, match="home"):
        motion.save(tmp_path / "motion.csv", home=[0.0])
    other = md.excite("two_link", 4.0, time_limit=0.5)
    for ending in (".script", ".src", ".mod"):
        with pytest.raises(md.MinidynError, match="6 rotational joints"):
            other.save(tmp_path / f"motion{ending}")
    wrong = md.excite("panda", 4.0, start=[0, 0, 0, 1, 0, 1, 0], friction=(), time_limit=1)
    with pytest.raises(md.MinidynError, match="limits"):
        wrong.save(tmp_path / "motion.csv")
    assert not list(tmp_path.iterdir())


def test_hostile_names_stay_names(tmp_path) -> None:
    from dataclasses import replace

    names = iter(["a\nend\nmovej([0,0,0,0,0,0])", 'x", {y: [', "#,comma"])
    robot = md.load("puma4")
    robot = replace(
        robot.with_joints(lambda joint: replace(joint, name=next(names, "last"))),
        name="evil\nstop()",
    )
    made = md.excite(robot, 3.0, friction=(), rotor_inertia=False, time_limit=0.5)
    for name, reader in READERS.items():
        if name != "urscript":
            warning, found, t, _ = reader(made.save(tmp_path / f"motion{FORMATS[name][0]}"))
            assert "WARNING" in warning
            if name != "csv":  # line breaks in headings are quoted there
                assert list(found) == list(robot.joint_names)
            assert math.isclose(t[-1], 3.0)
    assert "\nstop()" not in (tmp_path / "motion.csv").read_text()


def test_the_shell_and_a_study_write_the_same_motion(tmp_path, monkeypatch) -> None:
    import json

    from click.testing import CliRunner

    from minidyn.app.cli.main import main

    words = [
        "excite",
        "two_link",
        "--duration",
        "4",
        "--limit",
        "velocity=0.8",
        "--limit",
        "upper.joint2=1.0",
    ]
    words += [
        "--friction",
        "viscous",
        "--no-rotor-inertia",
        "--harmonics",
        "4",
        "--format",
        "ros2",
        "--json",
    ]
    result = CliRunner().invoke(main, [*words, "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["files"] == [
        "motion-slow.csv",
        "motion-slow.yaml",
        "motion.csv",
        "motion.json",
        "motion.yaml",
        "preview.html",
        "result.json",
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == told["files"]
    made = md.excite(
        "two_link",
        4.0,
        limits={"velocity": 0.8, "upper": {"joint2": 1.0}},
        friction=("viscous",),
        rotor_inertia=False,
        harmonics=4,
    )
    _, _, t, q = read_csv(tmp_path / "out" / "motion.csv")
    np.testing.assert_allclose(q, made.trajectory(t)[0], atol=1e-6)
    (tmp_path / "study.toml").write_text(
        """
[robot]
file = "two_link"
[[excite]]
name = "first"
duration = 4
limits = { velocity = 0.8, upper = { joint2 = 1.0 } }
friction = ["viscous"]
rotor_inertia = false
harmonics = 4
formats = ["ros2"]
"""
    )
    assert md.run_study(tmp_path / "study.toml")["excite-first"].state == "done"
    _, _, t, q = read_csv(tmp_path / "study" / "excite-first" / "motion.csv")
    np.testing.assert_allclose(q, made.trajectory(t)[0], atol=1e-6)
    for words, named in (
        (["--format", "urscript"], "6 rotational joints"),
        (["--home", "0,0,0"], "2 finite positions"),
    ):  # before the search
        monkeypatch.setattr("minidyn.excitation.excite.best_of_tries", None)
        wrong = CliRunner().invoke(
            main, ["excite", "two_link", "--duration", "4", *words, "--output", str(tmp_path / "x")]
        )
        assert wrong.exit_code == 2, wrong.output
        assert named in wrong.output
    wrong = CliRunner().invoke(
        main, ["excite", "two_link", "--duration", "4", "--limit", "velocity"]
    )
    assert wrong.exit_code == 2
    assert "velocity=1.0" in wrong.output


@pytest.mark.parametrize("kind", [*WAY_TO_FIRST_POINT, "csv"])
def test_programs_say_first_that_their_way_to_the_first_point_is_not_checked(
    kind: str, tmp_path: Path
) -> None:
    """Programs that drive there themselves; other files need a robot that stands there."""
    robot = md.load("panda" if kind == "franka" else "ur10e")
    motion = md.trajectory.fourier(robot, seed=1, period=4.0)
    for home in (None, np.clip(motion(0.0)[0], -1.0, 1.0) if kind == "csv" else motion(0.0)[0]):
        target = tmp_path / f"motion{FORMATS[kind][0]}"
        save_motion(robot, motion, 1.0, target, kind, ["position"], [], 1.0, home, 100.0)
        lines = target.read_bytes().decode().splitlines()
        first = next(number for number, line in enumerate(lines) if "WARNING" in line)
        head = " ".join(line.strip("#;! ") for line in lines[first : first + 5])
        if kind == "csv":
            assert "drives" not in head
            assert "must stand at the first point" in head  # of the ramp, where there is one
            continue
        assert "It first drives from wherever the robot stands" in head
        assert "THIS WAY WAS NOT CHECKED" in head
        assert "must stand" not in "".join(lines)
        code = [line for line in lines if line.strip()[:1] not in ("#", ";", "!")]
        if kind != "krl":  # the others say it again when they are started
            assert any("NOT CHECKED" in line.upper() for line in code)
