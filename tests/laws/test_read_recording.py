"""Reading logs: every format gives the same recording; names, units and drives are mapped.

Faults are named.
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import minidyn as md
from minidyn.errors import DescriptionError, MissingFile, ShapeError, UnknownName
from minidyn.notices import Notice
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.read.guess import read_name, time_columns
from minidyn.recording.read.parquet import _column_bytes

sys.path.insert(0, str(Path(__file__).parent))
from bags import Trajectory, messages, write_bag

ROBOT = md.load("ur10e")
NAMES = ROBOT.joint_names
T = np.arange(200) / 125
TRUE = md.trajectory.fourier(ROBOT, seed=3, period=1.6, speed=1.0)
Q, DQ, DDQ = TRUE(T)
TAU = np.random.default_rng(0).normal(size=Q.shape)


def table(columns: dict[str, np.ndarray], path: Path, **options) -> Path:
    """Write a CSV with the given columns."""
    delimiter, decimal = options.get("delimiter", ","), options.get("decimal", ".")
    lines = [delimiter.join(columns)] if options.get("header", True) else []
    for row in zip(*columns.values()):
        lines.append(delimiter.join(repr(float(value)).replace(".", decimal) for value in row))
    path.write_text("\n".join(lines) + "\n")
    return path


NOTICE = Notice("test.kept", "error", "a fact", "do this", {"count": 3, "names": ["a", "b"]})


def by_code(recording: md.Recording) -> dict[str, Notice]:
    return {notice.code: notice for notice in recording.notices}


def columns(
    pattern: str = "{}{}", words=("q", "dq", "tau"), names=range(1, 7), time="t"
) -> dict[str, np.ndarray]:
    made = {time: T} if time else {}
    for word, values in zip(words, (Q, DQ, TAU)):
        made |= {pattern.format(word, name): values[:, k] for k, name in enumerate(names)}
    return made


def check(recording: md.Recording) -> None:
    np.testing.assert_allclose(recording.t, T, atol=2e-6)
    np.testing.assert_allclose(recording.q, Q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(recording.dq, DQ, rtol=0, atol=1e-12)
    np.testing.assert_allclose(recording.tau, TAU, rtol=0, atol=1e-12)
    assert recording.joint_names == NAMES


# ------------------------------------------------------------------ formats


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_own_files_come_back_with_runs_and_telemetry(ending, tmp_path) -> None:
    extra = np.arange(400.0).reshape(200, 2)
    run = md.Recording(
        T,
        Q,
        TAU,
        dq=DQ,
        joint_names=NAMES,
        starts=(0, 70),
        telemetry={"x": extra},
        notices=["kept", NOTICE],
    )
    run.save(tmp_path / f"own.{ending}")
    again = md.read_recording(tmp_path / f"own.{ending}", ROBOT)
    check(again)
    assert again.starts == (0, 70)
    np.testing.assert_array_equal(again.telemetry["x"], extra)
    assert again.ddq is None
    assert again.notices == (run.notices if ending != "csv" else ())
    assert run.notices == (Notice.from_json("kept"), NOTICE)


def test_archives_of_old_with_plain_sentences_are_read(tmp_path) -> None:
    np.savez(
        tmp_path / "old.npz",
        t=T,
        q=Q,
        joint_names=np.array(NAMES),
        notices=np.array(["kept", '"quoted"']),
    )
    (first, second, *_) = md.read_recording(tmp_path / "old.npz", ROBOT).notices
    assert (first, second) == (
        Notice("unsorted", "warning", "kept"),
        Notice("unsorted", "warning", '"quoted"'),
    )


@pytest.mark.parametrize("kind", ["db3", "mcap", "bag"])
@pytest.mark.parametrize("bare", [False, True])
def test_bags(kind, bare, tmp_path) -> None:
    order = [3, 1, 0, 5, 4, 2]
    rows = messages(T + 1.7e9, [NAMES[k] for k in order], Q[:, order], DQ[:, order], TAU[:, order])
    path = write_bag(
        tmp_path / f"log{'.bag' if kind == 'bag' else ''}", kind, {"/joint_states": rows}
    )
    if bare and kind != "bag":
        inside = next(path.glob(f"*.{kind}"))
        path = inside.rename(tmp_path / f"bare.{kind}")
    whole = md.read_recording(path, ROBOT)
    check(whole)
    [said] = [notice.data for notice in whole.notices if notice.code == "recording.columns"]
    assert said["tau"] == [f"effort[{name}]" for name in NAMES]  # in the robot's order
    assert (said["topic"], said["time"]) == (["/joint_states"], ["header.stamp"])
    lazy = md.read_recording(path, ROBOT, lazy=True)
    assert [len(tile) for tile in lazy.tiles(150)] == [150, 50]
    check(lazy.load())


def test_bag_with_a_gripper_and_dropped_joints(tmp_path) -> None:
    rows = messages(T, NAMES, Q, DQ, TAU)
    rows[20] = (float(T[20]), NAMES[:5], Q[20, :5], DQ[20, :5], TAU[20, :5])
    gripper = messages(T, ["finger"], Q[:, :1], DQ[:, :1], TAU[:, :1])
    path = write_bag(tmp_path / "log", "db3", {"/gripper": gripper, "/joint_states": rows})
    recording = md.read_recording(path, ROBOT)
    assert len(recording) == 199
    found = by_code(recording)
    assert "recording.gaps" not in found
    assert found["recording.other_messages"].data["count"] == 1
    assert found["recording.other_messages"].data["joints"] == list(NAMES[:5])
    assert found["recording.columns"].data["topic"] == ["/joint_states"]
    assert "recording.topic_chosen" not in found  # no joint of the robot is on the other one
    both = write_bag(tmp_path / "both", "db3", {"/left": rows, "/joint_states": rows})
    chosen = {notice.code: notice for notice in md.read_recording(both, ROBOT).notices}[
        "recording.topic_chosen"
    ]
    assert chosen.data == {"file": "both", "topic": "/joint_states", "others": ["/left"]}
    assert md.read_recording(path, topic="/gripper").joint_names == ("finger",)
    with pytest.raises(UnknownName, match="did you mean '/joint_states'"):
        md.read_recording(path, topic="/joint_state")
    with pytest.raises(DescriptionError, match="no columns for joint"):
        md.read_recording(path, ROBOT, topic="/gripper")


@pytest.mark.parametrize("stamp", [0.0, 1.7e9])
@pytest.mark.parametrize("kind", ["db3", "mcap", "bag"])
def test_points_of_trajectories(kind, stamp, tmp_path) -> None:
    """Samples are the points of JointTrajectory messages, at time_from_start after them."""
    order = [3, 1, 0, 5, 4, 2]
    names = [NAMES[k] for k in order]
    one, other = (
        Trajectory(
            1.7e9 + later,
            names,
            T[rows] - T[rows][0],
            *(part[rows][:, order] for part in (Q, DQ, DDQ, TAU)),
            stamp and stamp + later,
        )
        for later, rows in ((0.0, slice(None)), (100.0, slice(50, 150)))
    )
    ending = ".bag" if kind == "bag" else ""
    path = write_bag(tmp_path / f"one{ending}", kind, {"/points": [one]})
    whole = md.read_recording(path, ROBOT)
    check(whole)
    found = by_code(whole)
    assert found["recording.trajectory_points"].data["topic"] == "/points"
    assert "recording.arrival_times" not in found
    assert found["recording.columns"].data["tau"] == [f"effort[{name}]" for name in NAMES]
    check(md.read_recording(path, ROBOT, lazy=True).load())
    np.testing.assert_array_equal(md.read_recording(path, ROBOT, use_ddq=True).ddq, DDQ)
    # a second message is a second run; a topic of joint states goes first
    path = write_bag(tmp_path / f"two{ending}", kind, {"/points": [one, other]})
    two = md.read_recording(path, ROBOT)
    assert [len(run) for run in two.runs] == [200, 100]
    np.testing.assert_array_equal(two.runs[1].tau, TAU[50:150])
    np.testing.assert_allclose(two.runs[1].t[0] - two.t[0], 100.0, atol=1e-6)
    lazy = md.read_recording(path, ROBOT, lazy=True).load()
    np.testing.assert_array_equal(lazy.q, two.q)
    assert lazy.starts == two.starts
    states = messages(T, NAMES, Q, DQ, TAU)
    path = write_bag(tmp_path / f"both{ending}", kind, {"/a": [other], "/joint_states": states})
    check(md.read_recording(path, ROBOT))
    assert len(md.read_recording(path, ROBOT, topic="/a")) == 100
    without = replace(one, tau=np.zeros((200, 0)))
    path = write_bag(tmp_path / f"plan{ending}", kind, {"/plan": [without]})
    assert "recording.no_torques" in by_code(md.read_recording(path, ROBOT))


@pytest.mark.parametrize("kind", ["db3", "mcap", "bag"])
def test_truncated_bags_are_named(kind, tmp_path) -> None:
    path = write_bag(
        tmp_path / ("log.bag" if kind == "bag" else "log"),
        kind,
        {"/js": messages(T, NAMES, Q, DQ, TAU)},
    )
    file = path if path.is_file() else next(path.glob(f"*.{kind}"))
    data = file.read_bytes()
    for share in (0.3, 0.6, 0.9):
        cut = tmp_path / f"cut.{kind}"
        cut.write_bytes(data[: int(share * len(data))])
        with pytest.raises(DescriptionError, match=f"cut.{kind}: "):
            md.read_recording(cut, ROBOT)


@pytest.mark.parametrize(
    ("pattern", "words", "names", "time"),
    [
        ("{}{}", ("q", "dq", "tau"), range(1, 7), "t"),
        ("{}_{}", ("pos", "vel", "torque"), range(6), "time"),
        ("{}[{}]", ("position", "velocity", "effort"), range(6), "timestamp"),
        ("joint_{1}_{0}", ("pos", "vel", "trq"), range(1, 7), "Time (s)"),
        ("actual_{}_{}", ("q", "qd", "current"), range(6), "timestamp"),
        ("{1}/{0}", ("position", "velocity", "effort"), NAMES, "stamp"),
        ("{}.{}", ("q", "dq", "tau"), [name.upper() for name in NAMES], "t"),
        ("Joint{1}{0}", ("Pos", "Vel", "Torque"), range(1, 7), "time_s"),
        ("{}_J_{}", ("q", "dq", "tau"), range(1, 7), "t"),
        ("axis{1}_Act{0}", ("Pos", "Vel", "Trq"), range(1, 7), "Timestamp"),
        ("Drive_{1}_Main_{0}", ("Pos", "Vel", "Trq"), range(1, 7), "t"),
    ],
)
def test_names_are_guessed_and_shown(pattern, words, names, time, tmp_path) -> None:
    path = table(columns(pattern, words, names, time), tmp_path / "log.csv")
    recording = md.read_recording(path, ROBOT, currents_as_torque="current" in words)
    check(recording)
    if "{}.{}" not in pattern:
        first = pattern.format(words[0], next(iter(names)))
        found = by_code(recording)
        assert found["recording.columns"].data["q"][0] == first
        guessed = found.get("recording.time_unit_guessed")
        assert (
            guessed.data["column"] if guessed else found["recording.time_column"].data["columns"][0]
        ) == time
    assert ("recording.currents" in by_code(recording)) == ("current" in words)


def test_where_torques_are_missing_what_may_be_them_is_named(tmp_path) -> None:
    path = table(columns("{}{}", ("q", "dq", "Iq"), range(1, 7)), tmp_path / "log.csv")
    with pytest.raises(
        DescriptionError, match=r"motor currents \(Iq1, Iq2, Iq3 ... Iq6 .* without a gain"
    ):
        md.read_recording(path, ROBOT)
    check(md.read_recording(path, ROBOT, currents_as_torque=True))
    path = table(columns("{}{}", ("q", "dq", "load"), range(1, 7)), tmp_path / "log.csv")
    told = by_code(md.read_recording(path, ROBOT))["recording.no_torques"]
    assert told.data["columns"][-6:] == [f"load{k}" for k in range(1, 7)]
    assert "load6" in told.text
    with pytest.raises(
        md.MinidynError,
        match=r"none \(log.csv: no torques found among load1, .*--currents-as-torque",
    ):
        md.identify(ROBOT, md.read_recording(path, ROBOT))


def test_a_name_twice_in_the_header_is_told_so(tmp_path) -> None:
    path = table(columns(), tmp_path / "log.csv")
    path.write_text(path.read_text().replace("q3", "q2", 1))
    with pytest.raises(
        DescriptionError,
        match=r"columns 'q2' and 'q2' may both be q of joint 2: .* the same: rename",
    ):
        md.read_recording(path, ROBOT)


@pytest.mark.parametrize("lazy", [False, True])
def test_an_absurd_rate_is_told(lazy: bool, tmp_path) -> None:
    """Microseconds in a column that says seconds."""
    t, q = np.arange(1200) * 4000.0, np.random.default_rng(0).normal(size=(1200, 12))
    names = ",".join(["t_s", *(f"{signal}{k}" for signal in ("q", "tau") for k in range(1, 7))])
    np.savetxt(
        tmp_path / "log.csv", np.column_stack([t, q]), delimiter=",", header=names, comments=""
    )
    told = by_code(md.read_recording(tmp_path / "log.csv", ROBOT, lazy=lazy))["recording.odd_rate"]
    assert told.data["rate"] == pytest.approx(1 / 4000)
    assert "--time-unit" in told.advice
    assert "recording.odd_rate" not in by_code(
        md.read_recording(tmp_path / "log.csv", ROBOT, time_unit="us")
    )


def test_joints_that_are_not_logged_are_locked(tmp_path) -> None:
    made = columns("{1}_{0}", names=NAMES)
    for name in NAMES[1:3]:
        made = {column: values for column, values in made.items() if name not in column}
    path = table(made, tmp_path / "log.csv")
    for lazy in (False, True):
        found = md.read_recording(path, ROBOT, lazy=lazy)
        assert found.joint_names == (NAMES[0], *NAMES[3:])
        notice = by_code(found)["recording.not_logged"]
        assert notice.data["joints"] == dict.fromkeys(NAMES[1:3], 0.0)
        assert f"{NAMES[1]} at 0, {NAMES[2]} at 0" in notice.text
    # positions that are given, in Python and in a mapping file
    told = md.read_recording(path, ROBOT, lock={NAMES[1]: -1.0, NAMES[2]: 1.0})
    assert "recording.not_logged" not in by_code(told)
    assert by_code(told)["robot.locked"].data["joints"] == {NAMES[1]: -1.0, NAMES[2]: 1.0}
    (tmp_path / "map.toml").write_text(f'lock = {{ {NAMES[1]} = -1.0 }}\nkeep_joints = ["wrist_*"]')
    kept = md.read_recording(path, ROBOT, mapping=tmp_path / "map.toml")
    assert kept.joint_names == NAMES[3:]
    reduced = ROBOT.locked({NAMES[1]: -1.0}).reduced("wrist_*")
    assert md.read_recording(path, reduced).joint_names == NAMES[3:]
    assert "recording.other_joints" not in by_code(md.read_recording(path, reduced))
    with pytest.raises(DescriptionError, match="at -1 already"):
        md.read_recording(path, reduced, lock={NAMES[1]: 0.5})


def test_a_joint_under_another_name_is_not_locked(tmp_path) -> None:
    """A misspelt name, numbers, and a log of another robot are errors that say what to do."""
    names = [*NAMES[:5], NAMES[5].replace("wrist", "wirst")]
    path = table(columns("{1}_{0}", names=names), tmp_path / "log.csv")
    with pytest.raises(DescriptionError, match=rf"{NAMES[5]}.*did you mean.*--lock"):
        md.read_recording(path, ROBOT)
    for pattern in ("{}{}", "Drive_{1}_Main_{0}"):
        path = table(columns(pattern, names=range(1, 6)), tmp_path / "log.csv")
        with pytest.raises(DescriptionError, match="--keep-joints"):
            md.read_recording(path, ROBOT)
        kept = md.read_recording(path, ROBOT.locked(NAMES[5]))
        assert kept.joint_names == NAMES[:5]


def test_measured_is_preferred_to_desired(tmp_path) -> None:
    made = columns("{}_{}", ("q_d", "dq_d", "tau_J_d"))
    made = {name: values + (name != "t") for name, values in made.items()}
    made |= columns("{}_{}", ("q", "dq", "tau_J"))
    check(md.read_recording(table(made, tmp_path / "log.csv"), ROBOT))


def test_words_of_names() -> None:
    def read(name, joints=()):
        found = read_name(name, joints)
        return None if found is None else (found.signal, found.joint)

    assert read("joint_10_pos", ["joint_1", "joint_10"]) == ("q", "joint_10")
    assert read("wrist_1_joint_velocity") == ("dq", "wrist_1_joint")
    assert read("qDot3") == ("dq", 3)
    assert read("pos_read_data:Joint_2") == ("q", 2)
    assert read("curr_data:Joint_2") == ("tau", 2)
    assert read("tcp_pos_1") is None
    assert read("q_error_1") is None
    assert read("temperature_3") is None
    assert read("position") is None
    assert time_columns(["header.stamp.sec", "header.stamp.nanosec", "q1"])[0] == (
        "header.stamp.sec",
        "header.stamp.nanosec",
    )
    assert time_columns(["q1", "time_ms"]) == (("time_ms",), "ms")


@pytest.mark.parametrize(
    ("unit", "factor", "start"),
    [("s", 1, 0), ("ms", 1e3, 0), ("us", 1e6, 0), ("ns", 1e9, 0), ("ns", 1e9, 1.7e9)],
)
def test_unit_of_time_from_its_spacing(unit, factor, start, tmp_path) -> None:
    made = columns()
    made["t"] = np.round((T + start) * factor, 6)
    recording = md.read_recording(table(made, tmp_path / "log.csv"), ROBOT)
    np.testing.assert_allclose(recording.t, T, atol=1e-6)
    assert by_code(recording)["recording.time_unit_guessed"].data["unit"] == unit
    slow = md.read_recording(tmp_path / "log.csv", ROBOT, time_unit="s")
    np.testing.assert_allclose(np.diff(slow.t), np.diff(T) * factor, rtol=1e-3)


@pytest.mark.parametrize(
    ("delimiter", "decimal"),
    [(",", "."), (";", "."), (";", ","), ("\t", "."), (" ", "."), ("\t", ",")],
)
def test_dialects_of_csv(delimiter, decimal, tmp_path) -> None:
    check(
        md.read_recording(
            table(columns(), tmp_path / "log.csv", delimiter=delimiter, decimal=decimal), ROBOT
        )
    )


def test_comments_and_no_header(tmp_path) -> None:
    path = table(columns(), tmp_path / "log.csv", header=False)
    plain = path.read_text()
    recording = md.read_recording(
        path, ROBOT, time=0, q="1:7", dq=range(7, 13), tau=list(range(13, 19))
    )
    check(recording)
    path.write_text("# made by a logger\n# " + ",".join(columns()) + "\n" + plain)
    check(md.read_recording(path, ROBOT))
    unnamed = table(columns(), tmp_path / "log2.csv", header=False)
    with pytest.raises(
        DescriptionError, match=r"log2.csv: no columns of positions found; q names them"
    ):
        md.read_recording(unnamed, ROBOT)


def test_parquet_lists_and_archives_of_matrices(tmp_path) -> None:
    lists = {"time": T, "position": list(Q), "velocity": list(DQ), "effort": list(TAU)}
    parquet.write_table(pa.table(lists), tmp_path / "lists.parquet")
    check(md.read_recording(tmp_path / "lists.parquet", ROBOT))
    np.savez(
        tmp_path / "m.npz", time=T, positions=Q, velocities=DQ, torques=TAU, comment=np.array("x")
    )
    check(md.read_recording(tmp_path / "m.npz", ROBOT))
    np.savez_compressed(tmp_path / "c.npz", time=T, a=Q, b=DQ, c=TAU)
    check(md.read_recording(tmp_path / "c.npz", ROBOT, q="a", dq="b", tau="c"))


# ------------------------------------------------------------------ mapping


def test_drives_coupling_units_signs_and_offsets(tmp_path) -> None:
    rng = np.random.default_rng(5)
    ratio, gain = rng.uniform(20, 120, 6) * [1, 1, -1, 1, 1, 1], rng.uniform(0.1, 2, 6)
    coupling = np.eye(6)
    coupling[5, 4] = 0.7
    sign, offset = np.array([1, -1, 1, 1, -1, 1]), rng.normal(size=6)
    Rq = np.diag(ratio) @ coupling
    motor_q = np.rad2deg(((Q - offset) * sign) @ Rq.T)
    motor_dq = np.rad2deg((DQ * sign) @ Rq.T)
    current = 1000 * ((TAU * sign) @ np.linalg.inv(Rq)) / gain  # tau_joint = Rqᵀ tau_motor
    made = {"t": T}
    for word, values in (("pos", motor_q), ("vel", motor_dq), ("current", current)):
        made |= {f"{word}_{k}": values[:, k] for k in range(6)}
    path = table(made, tmp_path / "motor.csv")
    options = {
        "gear_ratio": ratio.tolist(),
        "coupling": coupling.tolist(),
        "sign": sign.tolist(),
        "offset": offset.tolist(),
        "drive_gain": gain.tolist(),
        "units": {"q": "deg", "dq": "deg/s", "tau": "mA"},
    }
    recording = md.read_recording(path, ROBOT, **options)
    np.testing.assert_allclose(recording.q, Q, atol=1e-9)
    np.testing.assert_allclose(recording.dq, DQ, atol=1e-9)
    np.testing.assert_allclose(recording.tau, TAU, atol=1e-9)
    power = np.sum(recording.tau * recording.dq, axis=1)  # the same on both sides
    np.testing.assert_allclose(
        power, np.sum(current * gain / 1000 * np.deg2rad(motor_dq), axis=1), atol=1e-9
    )
    toml = tmp_path / "map.toml"
    toml.write_text(
        "\n".join(f"{key} = {value}" for key, value in options.items() if key != "units")
        + '\n[units]\nq = "deg"\ndq = "deg/s"\ntau = "mA"\n'
    )
    np.testing.assert_array_equal(md.read_recording(path, ROBOT, mapping=toml).tau, recording.tau)
    full = {**options, "coupling": Rq.tolist(), "torque_coupling": Rq.T.tolist()}
    del full["gear_ratio"]
    np.testing.assert_allclose(md.read_recording(path, ROBOT, **full).tau, TAU, atol=1e-9)
    toml.write_text("gear_ratios = [1]\n")
    with pytest.raises(
        UnknownName, match=r"mapping key in map.toml 'gear_ratios'; did you mean 'gear_ratio'"
    ):
        md.read_recording(path, ROBOT, mapping=toml)


def test_motor_side_of_the_torque_alone(tmp_path) -> None:
    path = table(columns(), tmp_path / "log.csv")
    recording = md.read_recording(path, ROBOT, gear_ratio=100, motor_side=["tau"])
    np.testing.assert_allclose(recording.q, Q, atol=1e-12)
    np.testing.assert_allclose(recording.tau, 100 * TAU)


def test_joints_are_renamed_reordered_and_left_out(tmp_path) -> None:
    theirs = ["f", "e", "d", "c", "b", "a"]
    made = columns("{}_{}", ("pos", "vel", "tau"), theirs)
    made |= {"pos_gripper": T, "vel_gripper": T, "tau_gripper": T}
    path = table(made, tmp_path / "log.csv")
    recording = md.read_recording(path, ROBOT, joints=dict(zip(NAMES, theirs)))
    check(recording)
    with pytest.raises(DescriptionError, match=rf"log.csv: no columns for joint '{NAMES[0]}'"):
        md.read_recording(path, ROBOT)
    named = table(columns("{}_{}", names=NAMES), tmp_path / "named.csv")
    text = named.read_text().replace("\n", ",q_gripper,dq_gripper,tau_gripper\n", 1).splitlines()
    named.write_text("\n".join([text[0], *(line + ",0,0,0" for line in text[1:])]))
    extra = md.read_recording(named, ROBOT)
    check(extra)
    assert by_code(extra)["recording.other_joints"].data["joints"] == ["gripper"]
    wrong = table(columns("{}_{}", names=["shoulder_pan_jont", *NAMES[1:]]), tmp_path / "wrong.csv")
    with pytest.raises(
        DescriptionError,
        match=r"no columns for joint 'shoulder_pan_joint'; did you mean 'shoulder_pan_jont'",
    ):
        md.read_recording(wrong, ROBOT)


def test_several_files(tmp_path) -> None:
    first, second = table(columns(), tmp_path / "a.csv"), table(columns(), tmp_path / "b.csv")
    runs = md.read_recording([first, second], ROBOT)
    assert runs.starts == (0, 200)
    check(runs.runs[1])
    plain = {f"Joint_{k + 1}": Q[:, k] for k in range(6)}
    torques = {f"Joint_{k + 1}": TAU[:, k] for k in range(6)}
    q, tau = table(plain, tmp_path / "pos.csv"), table(torques, tmp_path / "torque.csv")
    for together in (None, True):
        spread = md.read_recording([q, tau], ROBOT, rate=125, together=together)
        np.testing.assert_allclose(spread.t, T)
        np.testing.assert_allclose(spread.q, Q)
        np.testing.assert_allclose(spread.tau, TAU)
    assert by_code(spread)["recording.one_run"].data["files"] == ["pos.csv", "torque.csv"]
    renamed = [q.rename(tmp_path / "a1.csv"), tau.rename(tmp_path / "a2.csv")]
    given = md.read_recording(
        renamed, ROBOT, rate=125, together=True, q="a1:Joint_*", tau="a2:Joint_*"
    )
    np.testing.assert_allclose(given.tau, TAU)
    lazy = md.read_recording(
        renamed, ROBOT, lazy=True, rate=125, together=True, q="a1:Joint_*", tau="a2:Joint_*"
    )
    np.testing.assert_allclose(np.concatenate([tile.tau for tile in lazy.tiles(33)]), TAU)
    table({name: values[:150] for name, values in torques.items()}, renamed[1])
    with pytest.raises(DescriptionError, match=r"a1.csv 200, a2.csv 150"):
        md.read_recording(renamed, ROBOT, rate=125, together=True, q="a1:Joint_*", tau="a2:Joint_*")


# ------------------------------------------------------------------ what is odd is reported


def notices(change, tmp_path, **options) -> dict[str, Notice]:
    made = columns()
    change(made)
    return by_code(md.read_recording(table(made, tmp_path / "log.csv"), ROBOT, **options))


def test_noisy_accelerations_that_are_used_are_named(tmp_path) -> None:
    def with_ddq(noise: float) -> dict[str, Notice]:
        ddq = np.gradient(DQ, T, axis=0)
        ddq = ddq + noise * ddq.std(axis=0) * np.random.default_rng(0).normal(size=ddq.shape)
        more = {f"ddq{k + 1}": ddq[:, k] for k in range(6)}
        return notices(lambda made: made.update(more), tmp_path, use_ddq=True)

    assert "recording.ddq_noisy" not in with_ddq(0.02)
    found = with_ddq(0.3)["recording.ddq_noisy"]
    assert found.level == "error"
    assert set(found.data["joints"]) == set(NAMES)
    assert 0.2 < found.data["share"] < 0.5


def test_a_plain_log_has_nothing_odd(tmp_path) -> None:
    assert set(notices(lambda made: None, tmp_path)) == {
        "recording.columns",
        "recording.time_unit_guessed",
    }


def test_times_are_inspected(tmp_path) -> None:
    def repeat(made):
        made["t"] = np.where(np.arange(200) == 50, T[49], T)

    def gap(made):
        made["t"] = T + 0.4 * (T > 0.8)

    def jitter(made):
        made["t"] = T + np.random.default_rng(0).uniform(0, 0.004, 200)

    def anew(made):
        made["t"] = np.where(T < 0.8, T, T - 0.8)

    def swap(made):
        made["t"] = made["t"].copy()
        made["t"][[60, 61]] = made["t"][[61, 60]]

    repeated = notices(repeat, tmp_path)["recording.repeated_times"].data
    assert (repeated["count"], repeated["of"]) == (1, 199)
    found = notices(gap, tmp_path)["recording.gaps"].data
    assert (found["count"], found["longest"], found["after"]) == (
        1,
        pytest.approx(0.408),
        pytest.approx(0.8),
    )
    assert 0.05 < notices(jitter, tmp_path)["recording.uneven_times"].data["share"] < 0.5
    assert notices(anew, tmp_path)["recording.time_restarts"].data["count"] == 1
    assert md.read_recording(tmp_path / "log.csv", ROBOT).starts == (0, 100)
    assert md.read_recording(tmp_path / "log.csv", ROBOT, lazy=True).starts == (0, 100)
    assert notices(swap, tmp_path)["recording.time_sorted"].data["count"] == 1
    with pytest.raises(DescriptionError, match=r"line 63: time runs backwards"):
        md.read_recording(tmp_path / "log.csv", ROBOT, lazy=True)


def test_values_are_inspected_and_kept(tmp_path) -> None:
    def degrees(made):
        made |= {name: np.rad2deg(values) for name, values in made.items() if name.startswith("q")}

    def broken(made):
        made["tau2"] = np.where((T > 0.5) & (T < 0.55), np.nan, made["tau2"])

    def still(made):
        made["q3"], made["dq3"] = np.full(200, 0.5), np.zeros(200)

    def backwards(made):
        made["dq4"] = -made["dq4"]

    def held(made):
        made |= {
            name: np.repeat(values[::2], 2) for name, values in made.items() if name.startswith("q")
        }

    found = notices(degrees, tmp_path)
    assert found["recording.range"].level == "error"
    assert "units='deg'" in str(found["recording.range"])
    assert (found["recording.speeds"].data["signal"], found["recording.speeds"].data["unit"]) == (
        "positions",
        "degrees",
    )
    recording = md.read_recording(tmp_path / "log.csv", ROBOT)
    np.testing.assert_allclose(recording.q, np.rad2deg(Q))  # never converted silently
    np.testing.assert_allclose(
        md.read_recording(tmp_path / "log.csv", ROBOT, units={"q": "deg"}).q, Q
    )
    bad = notices(broken, tmp_path)["recording.not_numbers"]
    row = int(np.argmax(T > 0.5))
    assert (bad.data["signal"], bad.data["first"], bad.data["joint"]) == ("tau", row, NAMES[1])
    assert f"line {row + 2}," in str(bad)
    assert np.isnan(md.read_recording(tmp_path / "log.csv", ROBOT).tau).sum() == np.sum(
        (T > 0.5) & (T < 0.55)
    )
    assert notices(still, tmp_path)["recording.still"].data["joints"] == [NAMES[2]]
    opposite = notices(backwards, tmp_path)["recording.speeds"].data
    assert (opposite["joint"], opposite["ratio"]) == (NAMES[3], pytest.approx(-1.0, abs=0.1))
    assert notices(held, tmp_path)["recording.held"].data["share"] > 0.3


# ------------------------------------------------------------------ faults


def test_faults_name_file_and_line(tmp_path) -> None:
    path = table(columns(), tmp_path / "log.csv")
    good = path.read_text().splitlines()
    with pytest.raises(MissingFile, match=r"nothing.csv: no such file"):
        md.read_recording(tmp_path / "nothing.csv")
    (tmp_path / "a.xyz").write_text("x")
    with pytest.raises(DescriptionError, match=r"ends with '.xyz'"):
        md.read_recording(tmp_path / "a.xyz")
    path.write_text("")
    with pytest.raises(DescriptionError, match=r"log.csv: no samples; the file is empty"):
        md.read_recording(path)
    path.write_text(good[0] + "\n")
    with pytest.raises(DescriptionError, match=r"log.csv: no samples"):
        md.read_recording(path)
    broken = good.copy()
    broken[90] = broken[90].replace(broken[90].split(",")[3], "oops")
    path.write_text("\n".join(broken))
    fault = r"log.csv: line 91, column 'q3': expected a number, found 'oops'"
    with pytest.raises(DescriptionError, match=fault):
        md.read_recording(path, ROBOT)
    lazy = md.read_recording(path, ROBOT, lazy=True)
    with pytest.raises(DescriptionError, match=fault):
        list(lazy.tiles())
    path.write_text("\n".join(good)[:-40])
    with pytest.raises(
        DescriptionError,
        match=r"log.csv: line 201 has \d+ cells, expected 19; the file may be cut off",
    ):
        md.read_recording(path, ROBOT)
    with pytest.raises(
        DescriptionError,
        match=r"no time column among q1, .*; time=COLUMN .* rate=HZ \(--rate\) repl",
    ):
        md.read_recording(table(columns(time=""), tmp_path / "untimed.csv"), ROBOT)
    with pytest.raises(DescriptionError, match="no column 'q_1' for q"):
        md.read_recording(table(columns(), tmp_path / "ok.csv"), ROBOT, q=["q_1"])
    with pytest.raises(UnknownName, match="mapping option 'gearratio'; did you mean 'gear_ratio'"):
        md.read_recording(tmp_path / "ok.csv", ROBOT, gearratio=3)
    with pytest.raises(ShapeError, match=r"sign: expected \+1 or -1"):
        md.read_recording(tmp_path / "ok.csv", ROBOT, sign=2)
    with pytest.raises(ShapeError, match="coupling: expected a finite matrix of shape"):
        md.read_recording(tmp_path / "ok.csv", ROBOT, coupling=np.eye(5))
    with pytest.raises(UnknownName, match="unit 'furlong'"):
        md.read_recording(tmp_path / "ok.csv", ROBOT, units="furlong")
    with pytest.raises(DescriptionError, match="positions of 6 joints, but panda has 7"):
        md.read_recording(tmp_path / "ok.csv", md.load("panda"))


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_cut_off_files_are_named(ending, tmp_path) -> None:
    path = tmp_path / f"cut.{ending}"
    md.Recording(T, Q, TAU, joint_names=NAMES).save(path)
    data = path.read_bytes()
    for share in (0.0, 0.02, 0.5, 0.98):
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(DescriptionError, match=f"cut.{ending}: "):
            md.read_recording(path, ROBOT)


# ------------------------------------------------------------------ lazy


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_lazy_is_the_same_recording(ending, tmp_path) -> None:
    path = tmp_path / f"log.{ending}"
    md.Recording(T, Q, TAU, dq=DQ, joint_names=NAMES, starts=(0, 70)).save(path)
    whole, lazy = md.read_recording(path, ROBOT), md.read_recording(path, ROBOT, lazy=True)
    assert isinstance(lazy, LazyRecording)
    assert (len(lazy), lazy.n, lazy.starts, lazy.joint_names) == (200, 6, (0, 70), NAMES)
    assert lazy.signals == ("q", "dq", "tau")
    sizes = [len(tile) for tile in lazy.tiles(64)]
    assert max(sizes) <= 64
    assert sum(sizes[:2]) == 70  # no tile spans two runs
    assert sum(sizes) == 200
    check(lazy.load())
    assert lazy.load().starts == whole.starts
    part = lazy[50:90]
    assert part.starts == (0, 20)
    np.testing.assert_array_equal(np.concatenate([tile.tau for tile in part.tiles(7)]), TAU[50:90])
    np.testing.assert_array_equal(lazy.runs[1].load().q, Q[70:])


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_lazy_memory_is_flat(ending, tmp_path) -> None:
    path = tmp_path / f"long.{ending}"
    rows = 300_000
    q = np.cumsum(np.random.default_rng(0).normal(size=(rows, 6)), axis=0) * 1e-4
    md.Recording(np.arange(rows) / 1000, q, q, joint_names=NAMES).save(path)
    lazy = md.read_recording(path, lazy=True)
    tracemalloc.start()
    total = sum(float(tile.tau.sum()) for tile in lazy.tiles(4096))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isclose(total, q.sum())
    assert peak < 6e6, peak  # the whole would be 29 MB


@pytest.mark.parametrize(
    ("positions", "speeds", "torques"),
    [
        ("q{} [deg]", "dq{} [deg/s]", "tau{} [Nm]"),
        ("Position {} (deg)", "Velocity {} (deg/s)", "Torque {} (N m)"),
        ("q{}_deg", "dq{}_deg_s", "tau{}_Nm"),
        ("q_deg_{}", "dq_deg_{}", "tau_{}"),
        ("panda_joint{}_pos [°]", "panda_joint{}_vel [°/s]", "panda_joint{}_effort [Nm]"),
    ],
)
def test_units_in_the_names_of_columns_are_read(
    positions: str, speeds: str, torques: str, tmp_path: Path
) -> None:
    robot = md.load("panda")
    t = np.arange(50) / 100
    q, dq, ddq = md.trajectory.fourier(robot, seed=2)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    names = [
        "sec" if "_deg" in positions else "Time [s]",
        *(form.format(k + 1) for form in (positions, speeds, torques) for k in range(7)),
    ]
    file = tmp_path / "log.csv"
    rows = np.column_stack([t, np.rad2deg(q), np.rad2deg(dq), tau])
    np.savetxt(file, rows, delimiter=",", header=",".join(names), comments="", encoding="utf-8")
    for lazy in (False, True):
        read = md.read_recording(file, robot, lazy=lazy)
        converted = [
            notice.data for notice in read.notices if notice.code == "recording.units_converted"
        ]
        assert ("q", ["deg"]) in [(data["signal"], data["units"]) for data in converted]
        held = read.load() if lazy else read
        for found, expected in ((held.q, q), (held.dq, dq), (held.tau, tau)):
            np.testing.assert_allclose(found, expected, atol=1e-9)
    raw = md.read_recording(file, robot, units="rad")
    np.testing.assert_allclose(raw.q, np.rad2deg(q), atol=1e-9)


@pytest.mark.parametrize("rows", [1, 300])
def test_bytes_of_parquet_columns_are_those_that_arrow_counts(tmp_path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"column {k}": np.arange(rows) * 0.1 for k in range(20)}
    table = pa.table(
        columns | {"q": [[0.5, 1.5]] * rows, "on": [True] * rows, "word": ["x"] * rows}
    )
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=17)
    metadata = pq.read_metadata(tmp_path / "log.parquet")
    counted: dict[str, int] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name = column.path_in_schema.partition(".")[0]
            counted[name] = counted.get(name, 0) + column.total_compressed_size
    with (tmp_path / "log.parquet").open("rb") as stream:
        assert _column_bytes(stream) == counted
