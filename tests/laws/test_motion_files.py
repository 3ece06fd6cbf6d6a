"""Motions as files: each opens with a warning and, read back, is the motion that was designed."""

import csv
import math
import re

import numpy as np
import pytest

import minidyn as md
from minidyn.excitation.robot_files import FORMATS
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
    assert all(len(p["velocities"]) == len(p["accelerations"]) == len(content["joint_names"]) for p in points)
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
    assert re.search(r"^  movej\(\[([^\]]+)\]", text, re.MULTILINE).group(1) == steps[0][0]  # it begins where it shall
    assert text.rstrip().endswith("minidyn_motion()")
    return text[: text.index("def ")], list(md.load("ur5e").joint_names), t, q


READERS = {"csv": read_csv, "parquet": read_parquet, "ros2": read_ros2, "mcap": read_mcap, "urscript": read_urscript}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("speed", [1.0, 0.1])
def test_a_file_read_back_is_the_motion(motion, tmp_path, name, speed) -> None:
    path = motion.save(tmp_path / f"motion{FORMATS[name][0]}", speed=speed)
    warning, names, t, q = READERS[name](path)
    for word in ("WARNING", "emergency stop", "10 % speed", "NOT checked: collisions", "torque"):
        assert word in warning
    assert list(names) == list(motion.robot.joint_names)
    assert t[0] == 0.0
    assert t[-1] == pytest.approx(4.0 / speed, abs=1e-5)
    np.testing.assert_allclose(q, motion.trajectory(t * speed)[0], atol=1e-6)
    np.testing.assert_allclose(np.diff(t), 1 / 125, rtol=1e-3)


def test_a_ramp_leads_from_home_to_the_start_and_back(motion, tmp_path) -> None:
    _, _, t, q = read_csv(motion.save(tmp_path / "motion.csv", home=HOME))
    np.testing.assert_allclose(q[[0, -1]], [HOME, HOME], atol=1e-9)
    start = motion.trajectory(0.0)[0]
    begin = int(np.argmin(np.abs(q - start).max(axis=1)))
    ramp = t[begin]
    np.testing.assert_allclose(q[: begin + 1], quintic(HOME, start, ramp)(t[: begin + 1])[0], atol=1e-6)
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
    with pytest.raises(md.MinidynError, match="ending"):
        motion.save(tmp_path / "motion.txt")
    with pytest.raises(md.MinidynError, match="speed"):
        motion.save(tmp_path / "motion.csv", speed=1.5)
    with pytest.raises(md.MinidynError, match="home"):
        motion.save(tmp_path / "motion.csv", home=[0.0])
    other = md.excite("two_link", 4.0, time_limit=0.5)
    with pytest.raises(md.MinidynError, match="six rotational joints"):
        other.save(tmp_path / "motion.script")
    wrong = md.excite("panda", 4.0, start=[0, 0, 0, 1, 0, 1, 0], friction=(), time_limit=1)
    with pytest.raises(md.MinidynError, match="limits"):
        wrong.save(tmp_path / "motion.csv")
    assert not list(tmp_path.iterdir())


def test_hostile_names_stay_names(tmp_path) -> None:
    from dataclasses import replace

    names = iter(["a\nend\nmovej([0,0,0,0,0,0])", 'x", {y: [', "#,comma"])
    robot = md.load("puma4")
    robot = replace(robot.with_joints(lambda joint: replace(joint, name=next(names, "last"))), name="evil\nstop()")
    made = md.excite(robot, 3.0, friction=(), rotor_inertia=False, time_limit=0.5)
    for name, reader in READERS.items():
        if name != "urscript":
            warning, found, t, _ = reader(made.save(tmp_path / f"motion{FORMATS[name][0]}"))
            assert "WARNING" in warning
            if name != "csv":  # line breaks in headings are quoted there
                assert list(found) == list(robot.joint_names)
            assert math.isclose(t[-1], 3.0)
    assert "\nstop()" not in (tmp_path / "motion.csv").read_text()


def test_the_shell_and_a_study_write_the_same_motion(tmp_path) -> None:
    import json

    from click.testing import CliRunner

    from minidyn.app.cli.main import main

    words = ["excite", "two_link", "--duration", "4", "--limit", "velocity=0.8", "--limit", "upper.joint2=1.0"]
    words += ["--friction", "viscous", "--no-rotor-inertia", "--harmonics", "4", "--format", "ros2", "--json"]
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
    wrong = CliRunner().invoke(main, ["excite", "two_link", "--duration", "4", "--limit", "velocity"])
    assert wrong.exit_code == 2
    assert "velocity=1.0" in wrong.output
