"""`minidyn identify` and `validate` as people use them, and as things go wrong.

Clear words, nothing half done.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import mujoco
import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from bags import messages, write_bag
from minidyn.app.cli.main import main
from minidyn.app.job import Job
from minidyn.notices import LEVELS

FRICTION = ("viscous", "coulomb", "offset")


def truth() -> md.Robot:
    robot = md.load("two_link").with_drives(rotor_inertia=True, friction=FRICTION)
    return robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))


def motion(samples: int = 2000, seed: int = 0) -> md.Recording:
    robot = truth()
    t = np.arange(samples) * 0.005
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=3.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.05 * np.random.default_rng(seed).normal(
        size=q.shape
    )
    return md.Recording(t, q, tau, dq, joint_names=robot.joint_names)


def changed(recording: md.Recording, **new) -> md.Recording:
    parts = {
        "t": recording.t,
        "q": recording.q,
        "tau": recording.tau,
        "joint_names": recording.joint_names,
    } | new
    return md.Recording(**parts)


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """A folder of good logs, and of the robot as a URDF with a mesh."""
    folder = tmp_path_factory.mktemp("logs")
    motion().save(folder / "run.csv")
    motion(seed=1).save(folder / "other.parquet")
    md.save(truth().with_drives(rotor_inertia=False, friction=()), folder / "robot.urdf")
    text = (folder / "robot.urdf").read_text()
    place = text.index(">", text.index("<link")) + 1
    if text[place - 2] == "/":
        text = text[: place - 2] + ">" + _MESH + "</link>" + text[place:]
    else:
        text = text[:place] + _MESH + text[place:]
    (folder / "arm.urdf").write_text(text)
    shutil.copy(
        folder / "robot.urdf.minidyn.toml", folder / "arm.urdf.minidyn.toml"
    )  # gravity, which URDF cannot say
    (folder / "part.stl").write_text("solid part")
    return folder


_MESH = '<visual><geometry><mesh filename="part.stl"/></geometry></visual>'


def run(*words: object, code: int = 0):
    result = CliRunner().invoke(main, ["-q", *map(str, words)])
    assert result.exit_code == code, result.output + result.stderr
    return result


def refused(*words: object, says: str, output: Path) -> str:
    """Run a command that must fail with one line that says something, leaving nothing behind."""
    before = sorted(path.name for path in output.parent.iterdir())
    result = run(*words, "--output", output, code=2)
    assert result.stdout == ""
    told = result.stderr.strip().splitlines()
    assert len(told) == 1, told
    assert told[0].startswith("error: ")
    for word in says.split("|"):
        assert word in told[0], told[0]
    assert sorted(path.name for path in output.parent.iterdir()) == before
    return told[0]


# -------------------------------------------------------------------- when all goes well


def test_identify_writes_everything_and_validate_reads_it(logs, tmp_path) -> None:
    output = tmp_path / "deep" / "out"
    result = run(
        "identify", logs / "arm.urdf", logs / "run.csv", "--validate", logs / "other.parquet", "--output", output,  # noqa: E501
        "--friction", ",".join(FRICTION), "--pictures", "--json",
    )  # fmt: skip
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert found == json.loads((output / "result.json").read_text())
    assert sorted(found["files"]) == sorted(path.name for path in output.iterdir())
    assert {
        "estimate.json",
        "parameters.md",
        "two_link.toml",
        "two_link.urdf",
        "two_link.xml",
        "model.c",
        "model.h",
    } <= {*found["files"]}
    page = (output / "report.html").read_text()
    assert "other.parquet (test data)" in page
    assert "fitted data" in page
    assert set(found["errors"]) == {"fit", "other.parquet"}
    held_out = found["errors"]["other.parquet"]
    assert held_out["relative_error"] < 0.02
    assert held_out["filtered_relative_error"] < held_out["relative_error"]
    assert held_out["prior_relative_error"] > 0.02  # the description knows no friction
    assert set(held_out["joints"]) == set(truth().joint_names)
    assert found["certificate"]["consistent"]
    assert found["certificate"]["inertia_matrix"]["proved_everywhere"]
    assert found["parameters"]["Fv1"]["value"] == pytest.approx(0.3, abs=0.05)
    assert found["robot_file"] == str(logs / "arm.urdf")
    assert found["logs"] == [str(logs / "run.csv")]
    assert "../../" in (output / "two_link.urdf").read_text()  # the mesh is found from here
    assert (output / "torque_other.png").stat().st_size > 1000
    estimate = md.load_estimate(output / "estimate.json")
    other = md.prepare(truth(), motion(seed=2))
    wanted = estimate.predict(other)
    for name in ("two_link.toml", "two_link.urdf", "two_link.xml"):
        torque = md.inverse_dynamics(md.load(output / name), other.q, other.dq, other.ddq)
        np.testing.assert_allclose(torque, wanted, atol=1e-9 * np.abs(wanted).max())
    mujoco.MjModel.from_xml_path(str(output / "two_link.xml"))
    again = run("validate", output / "estimate.json", logs / "other.parquet", "--json")
    errors = json.loads(again.stdout)["errors"]["other.parquet"]
    assert errors["relative_error"] == pytest.approx(held_out["relative_error"], rel=1e-9)


def test_words_for_people(logs, tmp_path) -> None:
    result = run(
        "identify", "two_link", logs / "run.csv", "--validate", logs / "run.csv", "--output", tmp_path / "out",  # noqa: E501
        "--friction", ",".join(FRICTION), "--folds", 3,
    )  # fmt: skip
    crossed = json.loads((tmp_path / "out" / "result.json").read_text())["cross_validation"]
    assert len(crossed["stretches"]) == 3
    assert crossed["relative_error"] < 0.05
    assert "stretches that were left out" in result.stdout
    for words in (
        "joint1",
        "all joints",
        "physically consistent",
        "every position",
        "total mass",
        "white",
        "low-pass",
    ):
        assert words in result.stdout, result.stdout
    assert "warning: run.csv: fitted data: all of its samples were fitted" in result.stdout
    table = (tmp_path / "out" / "parameters.md").read_text()
    assert "## Certificate" in table
    assert "## Errors: run.csv" in table
    shown = run("validate", tmp_path / "out" / "estimate.json", logs / "other.parquet").stdout
    assert "other.parquet" in shown


def test_a_later_result_replaces_an_earlier_one_and_leaves_the_rest(logs, tmp_path) -> None:
    output = tmp_path / "out"
    words = (
        "identify",
        "two_link",
        logs / "run.csv",
        "--output",
        output,
        "--friction",
        "viscous,coulomb",
    )
    run(*words, "--validate", logs / "other.parquet", "--pictures")
    assert (output / "torque_other.png").exists()
    (output / "notes.txt").write_text("mine")
    run(*words)
    assert not (output / "torque_other.png").exists()
    assert (output / "notes.txt").read_text() == "mine"
    assert sorted(
        json.loads((output / "result.json").read_text())["files"] + ["notes.txt"]
    ) == sorted(path.name for path in output.iterdir())


def test_only_what_is_asked_is_written(logs, tmp_path) -> None:
    words = ("identify", "two_link", logs / "run.csv", "--friction", "viscous")
    result = run(*words, "--output", tmp_path / "few", "--no-report", "--to", "toml")
    names = ["estimate.json", "parameters.md", "result.json", "two_link.toml"]
    assert sorted(path.name for path in (tmp_path / "few").iterdir()) == names
    assert "to read:" not in result.stdout
    whole = run(*words, "--output", tmp_path / "whole")
    assert "report.html" in whole.stdout
    assert not [path for path in (tmp_path / "whole").iterdir() if path.suffix == ".png"]


def test_logs_of_one_name_are_told_apart(logs, tmp_path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        motion(seed=3).save(tmp_path / folder / "fit.csv")
    held_out = [
        word for folder in ("a", "b") for word in ("--validate", tmp_path / folder / "fit.csv")
    ]
    result = run(
        "identify", "two_link", logs / "run.csv", *held_out, "--output", tmp_path / "out", "--friction", "viscous",  # noqa: E501
        "--pictures", "--json",
    )  # fmt: skip
    found = json.loads(result.stdout)
    assert set(found["errors"]) == {
        "fit",
        str(tmp_path / "a" / "fit.csv"),
        str(tmp_path / "b" / "fit.csv"),
    }
    assert len([name for name in found["files"] if name.endswith(".png")]) == 3


def test_the_end_of_a_single_log_can_be_kept_for_the_test(logs, tmp_path) -> None:
    words = (
        "identify",
        logs / "arm.urdf",
        logs / "run.csv",
        "--friction",
        ",".join(FRICTION),
        "--output",
    )
    assert "--hold-out" in run(*words, tmp_path / "all").stdout, (
        "a word to those who test on nothing"
    )
    told = run(*words, tmp_path / "cut", "--hold-out", "0.2502").stdout
    assert "held out" in told
    assert "--hold-out" not in told
    found = json.loads((tmp_path / "cut" / "result.json").read_text())
    assert found["hold_out"] == 0.2502
    assert set(found["errors"]) == {"fit", "held out"}
    log = md.read_recording(logs / "run.csv", logs / "arm.urdf")
    own = md.identify(logs / "arm.urdf", log.part(0.0, 0.7498), friction=FRICTION)
    assert found["samples"] == own.samples  # of 1499.6: the shell and Python divide alike
    assert (len(log.part(0.0, 0.7498)), len(log.part(0.7498))) == (1500, 500)
    error = md.validate(own, log.part(0.7498)).relative_error
    assert found["errors"]["held out"]["relative_error"] == pytest.approx(error, rel=1e-9)
    with pytest.raises(md.MinidynError, match="0 <= begin < end <= 1"):
        log.part(0.7, 0.3)
    lazily = json.loads(
        run(*words, tmp_path / "lazy", "--hold-out", "0.2502", "--lazy", "--json").stdout
    )
    expected = found["errors"]["held out"]["relative_error"]
    assert lazily["errors"]["held out"]["relative_error"] == pytest.approx(expected, rel=0.1)


def test_what_asks_for_action_comes_first(logs, tmp_path) -> None:
    good = motion()
    changed(good, q=np.rad2deg(good.q)).save(tmp_path / "degrees.csv")
    words = (
        "identify",
        logs / "arm.urdf",
        tmp_path / "degrees.csv",
        "--friction",
        "none",
        "--force",
    )
    told = run(*words, "--output", tmp_path / "out")
    lines = told.stdout.splitlines()
    notes = [
        line
        for line in lines
        if line.startswith(("error: ", "warning: ", "info: ")) and "rms of" not in line
    ]
    assert notes[0].startswith("error: ")
    assert "degrees" in notes[0]
    levels = [line.partition(":")[0] for line in notes]
    assert levels == sorted(levels, key=LEVELS.index)
    refusal = run("validate", tmp_path / "out", tmp_path / "degrees.csv", code=2).stderr
    assert "out: a folder; name the estimate in it" in refusal


def test_large_logs_stay_on_disk(logs, tmp_path) -> None:
    words = (
        "identify",
        "two_link",
        logs / "other.parquet",
        "--friction",
        ",".join(FRICTION),
        "--json",
    )
    in_memory = json.loads(run(*words, "--output", tmp_path / "a").stdout)
    on_disk = json.loads(run(*words, "--output", tmp_path / "b", "--lazy").stdout)
    size = (logs / "other.parquet").stat().st_size
    for large, kind in ((size, "Recording"), (size - 1, "LazyRecording")):
        job = Job.of_files("two_link", [str(logs / "other.parquet")], large=large)
        assert type(job.fitted).__name__ == kind
    first, second = (found["errors"]["fit"]["relative_error"] for found in (in_memory, on_disk))
    assert second == pytest.approx(first, rel=0.05)


def test_motors_that_two_joints_turn(tmp_path) -> None:
    """A motor-side log whose mapping couples the joints.

    The drive is coupled, too, and stays so in the exports.
    """
    robot = truth().with_drives(coupling={"joint2": {"joint1": -0.5}})
    t = np.arange(2000) * 0.005
    q, dq, ddq = md.trajectory.fourier(robot, seed=0, speed=3.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    Rq = np.diag([50.0, -40.0]) @ np.array([[1.0, 0.0], [-0.5, 1.0]])
    motors = md.Recording(
        t, q @ Rq.T, np.linalg.solve(Rq.T, tau.T).T, joint_names=robot.joint_names
    )
    motors.save(tmp_path / "motors.csv")
    (tmp_path / "map.toml").write_text("gear_ratio = [50, -40]\ncoupling = [[1, 0], [-0.5, 1]]\n")
    result = run(
        "identify", "two_link", tmp_path / "motors.csv", "--mapping", tmp_path / "map.toml", "--friction",  # noqa: E501
        ",".join(FRICTION), "--output", tmp_path / "out",
    )  # fmt: skip
    assert "info: the drive of joint2 " in result.stdout
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    told = {notice["code"]: notice["data"] for notice in written["notices"]}
    assert told["recording.coupled_drives"] == {"joint": "joint2", "coupling": {"joint1": -0.5}}
    assert written["errors"]["fit"]["relative_error"] < 0.01
    for name in ("two_link.toml", "two_link.urdf", "two_link.xml"):
        assert md.load(tmp_path / "out" / name).joints[1].drive.coupling == (("joint1", -0.5),)


def test_prior_of_another_file(logs, tmp_path) -> None:
    values = truth().parameters * 1.3
    md.save(truth().with_parameters(values), tmp_path / "cad.toml")
    result = run(
        "identify", "two_link", logs / "run.csv", "--prior", tmp_path / "cad.toml", "--output", tmp_path / "out",  # noqa: E501
        "--friction", ",".join(FRICTION), "--json",
    )  # fmt: skip
    found = json.loads(result.stdout)
    assert found["prior"] == str(tmp_path / "cad.toml")
    assert found["record"]["prior_weight"] > 0
    free = run(
        "identify",
        "two_link",
        logs / "run.csv",
        "--prior",
        "none",
        "--output",
        tmp_path / "free",
        "--json",
    )
    assert json.loads(free.stdout)["record"].get("prior_weight", 0) == 0
    assert found["errors"]["fit"]["relative_error"] < 0.02
    refused(
        "identify", "two_link", logs / "run.csv", "--prior", "scara",
        says="scara|its joints|two_link", output=tmp_path / "nothing",
    )  # fmt: skip


# -------------------------------------------------------------------- when the log is wrong


@pytest.mark.parametrize("kind", ["db3", "mcap", "bag"])
def test_truncated_bags(kind, tmp_path) -> None:
    recording = motion(400)
    name = tmp_path / ("whole.bag" if kind == "bag" else "whole")
    rows = messages(recording.t, recording.joint_names, recording.q, recording.dq, recording.tau)
    made = write_bag(name, kind, {"/joint_states": rows})
    file = made if made.is_file() else next(made.glob(f"*.{kind}"))
    cut = tmp_path / f"cut.{kind}"
    cut.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused(
        "identify", "two_link", cut, says=f"cut.{kind}|not a whole bag", output=tmp_path / "out"
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_truncated_tables(kind, tmp_path) -> None:
    motion(800).save(tmp_path / f"whole.{kind}")
    cut = tmp_path / f"cut.{kind}"
    cut.write_bytes((tmp_path / f"whole.{kind}").read_bytes()[:9001])
    told = refused("identify", "two_link", cut, says=f"cut.{kind}", output=tmp_path / "out")
    assert ("line " in told and "cut off" in told) if kind == "csv" else "not a whole" in told


def test_values_that_are_not_numbers(logs, tmp_path) -> None:
    recording = motion()
    tau = recording.tau.copy()
    tau[100:200, 1] = np.nan
    changed(recording, tau=tau).save(tmp_path / "holes.csv")
    result = run(
        "identify",
        "two_link",
        tmp_path / "holes.csv",
        "--output",
        tmp_path / "out",
        "--friction",
        "viscous,coulomb",
    )
    assert (
        "holes.csv: 100 values of tau are not numbers, the first at line 102, joint joint2"
        in result.stdout
    )
    tau[:, 1] = np.nan  # a joint without torque is left out, a log without any is refused
    changed(recording, tau=tau).save(tmp_path / "one.csv")
    result = run("identify", "two_link", tmp_path / "one.csv", "--output", tmp_path / "one")
    assert "warning: the torque of 'joint2' is not measured; it is left out" in result.stdout
    changed(recording, tau=np.full_like(tau, np.nan)).save(tmp_path / "nothing.csv")
    refused(
        "identify", "two_link", tmp_path / "nothing.csv", says="torque", output=tmp_path / "never"
    )


def test_wrong_joint_name(logs, tmp_path) -> None:
    changed(motion(400), joint_names=("joint1", "elbow")).save(tmp_path / "names.csv")
    refused(
        "identify",
        "two_link",
        tmp_path / "names.csv",
        says="names|'joint2'|--mapping",
        output=tmp_path / "out",
    )


@pytest.mark.parametrize("samples", [1, 15])
def test_too_few_samples(samples, tmp_path) -> None:
    motion(samples).save(tmp_path / "short.csv")
    refused(
        "identify",
        "two_link",
        tmp_path / "short.csv",
        says=f"short.csv|{samples} samples",
        output=tmp_path / "out",
    )


def test_no_excitation(tmp_path) -> None:
    recording = motion()
    changed(recording, q=np.full_like(recording.q, 0.3)).save(tmp_path / "still.csv")
    refused(
        "identify", "two_link", tmp_path / "still.csv", "--friction", ",".join(FRICTION),
        says="still.csv|record a motion|no joint moves", output=tmp_path / "out",
    )  # fmt: skip


def test_one_joint_that_does_not_move(tmp_path) -> None:
    recording = motion()
    q = recording.q.copy()
    q[:, 1] = 0.5
    changed(recording, q=q).save(tmp_path / "half.csv")
    robot = truth().with_parameters(None)
    md.save(robot, tmp_path / "blank.toml")
    refused(
        "identify", tmp_path / "blank.toml", tmp_path / "half.csv", "--friction", ",".join(FRICTION),  # noqa: E501
        says="half.csv|never moving: joint2", output=tmp_path / "out",
    )  # fmt: skip


def test_missing_and_empty_logs(logs, tmp_path) -> None:
    (tmp_path / "empty.csv").write_text("")
    refused(
        "identify",
        "two_link",
        tmp_path / "empty.csv",
        says="empty.csv|empty",
        output=tmp_path / "out",
    )
    refused(
        "identify",
        "two_link",
        tmp_path / "missing.csv",
        says="missing.csv|no such file",
        output=tmp_path / "out",
    )
    # the log to validate on is looked at before the long work
    refused(
        "identify", "two_link", logs / "run.csv", "--validate", tmp_path / "missing.csv",
        says="missing.csv|no such file", output=tmp_path / "out",
    )  # fmt: skip
    result = run("validate", tmp_path / "missing.json", logs / "run.csv", code=2)
    assert "missing.json: no such file" in result.stderr
    (tmp_path / "half.json").write_text('{"minidyn": "estimate", "version": 2, "beta": [1')
    result = run("validate", tmp_path / "half.json", logs / "run.csv", code=2)
    assert "half.json: not a whole estimate" in result.stderr
    (tmp_path / "robot.urdf").write_text("<robot/>")
    result = run("validate", tmp_path / "robot.urdf", logs / "run.csv", code=2)
    assert "a robot file" in result.stderr
    assert "estimate.json" in result.stderr


# -------------------------------------------------------------------- when the output is wrong


def test_output_that_is_a_file(logs, tmp_path) -> None:
    (tmp_path / "file").write_text("precious")
    for output in (tmp_path / "file", tmp_path / "file" / "inside"):
        result = run("identify", "two_link", logs / "run.csv", "--output", output, code=2)
        assert f"{tmp_path / 'file'}: a file; expected a folder" in result.stderr
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="no folder here that even root cannot write"
)
def test_unwritable_output(logs) -> None:
    words = ("identify", "two_link", logs / "run.csv", "--friction", "viscous", "--output")
    assert "cannot be written" in run(*words, "/proc/nowhere/out", code=2).stderr


def test_a_failure_while_writing_keeps_the_old_result(logs, tmp_path, monkeypatch) -> None:
    output = tmp_path / "out"
    words = ("identify", "two_link", logs / "run.csv", "--output", output, "--friction", "viscous")
    run(*words)
    old = {path.name: path.read_bytes() for path in output.iterdir()}
    from minidyn.app import result_folder

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(result_folder, "write_page", full)
    result = run(*words, "--method", "ols", code=2)
    assert "No space left" in result.stderr
    assert {path.name: path.read_bytes() for path in output.iterdir()} == old
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


_SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background have it switched off
from minidyn.app import {module} as module
true = module.{name}
def slow(*arguments, **options):
    print("reached", flush=True)
    time.sleep(60)
    return true(*arguments, **options)
module.{name} = slow
from minidyn.app.cli.main import main
main(sys.argv[1:])
"""  # noqa: E501


@pytest.mark.parametrize(
    ("module", "name", "number"),
    [
        ("job", "validate", signal.SIGINT),
        ("result_folder", "write_page", signal.SIGINT),
        pytest.param("result_folder", "write_page", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_keeps_the_old_result(module, name, number, logs, tmp_path) -> None:
    """Interrupted while it computes, and while it writes.

    What was there stays, and nothing else appears.
    """
    output = tmp_path / "out"
    output.mkdir()
    old = '{"minidyn": "old"}'
    (output / "estimate.json").write_text(old)
    command = [
        sys.executable,
        "-c",
        _SLOW.format(module=module, name=name),
        "-q",
        "identify",
        "two_link",
    ]
    command += [
        str(logs / "run.csv"),
        "--output",
        str(output),
        "--friction",
        "viscous",
        "--no-consistent",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reached\n", (
            process.stderr.read() if process.stderr else ""
        )
        if module == "result_folder":  # new files stand aside by now
            assert len(list(tmp_path.iterdir())) == 2
        begin = time.monotonic()
        process.send_signal(number)
        _, told = process.communicate(timeout=20)
    assert time.monotonic() - begin < 15
    assert process.returncode not in (0, 1)
    assert "Traceback" not in told
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert told.strip().splitlines() == [
            "error: interrupted; what was finished is kept, nothing is half written"
        ]
    assert {path.name: path.read_text() for path in output.iterdir()} == {"estimate.json": old}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_progress_is_on_stderr_and_only_there(logs, tmp_path) -> None:
    words = [
        "identify",
        "two_link",
        logs / "run.csv",
        "--json",
        "--output",
        tmp_path / "out",
        "--friction",
        "viscous",
    ]
    result = CliRunner().invoke(main, [str(word) for word in (*words, "--no-consistent")])
    assert result.exit_code == 0, result.stderr
    json.loads(result.stdout)
    assert "identifying two_link from 2000 samples" in result.stderr
    assert "\x1b" not in result.stderr  # a bar is for terminals
