"""What may be changed about a robot is the same in every verb, in Python and in study files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import VERBS, main
from minidyn.app.study.run import run_study
from minidyn.model.assemble import LooseJoint, LooseLink, assemble
from minidyn.model.geometry import Step
from minidyn.model.joint import Limits
from minidyn.model.parameters import from_body

OPTIONS = {"--gravity", "--mount", "--lock", "--keep-joints"}


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def answer(*words: object) -> dict:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


IN_THE_PAGE = {"studio"}  # its page has them


@pytest.mark.parametrize(
    "verb", [verb for verbs in VERBS.values() for verb in verbs if verb not in IN_THE_PAGE]
)
def test_every_verb_with_a_robot_has_them(verb: str) -> None:
    command = main.get_command(None, verb)
    assert command is not None
    names = {name for one in command.params for name in one.opts}
    takes = any(one.name == "robot" for one in command.params)
    assert takes == bool(OPTIONS & names)
    assert not takes or names >= OPTIONS
    named = any(one.human_readable_name == "ROBOT" for one in command.params)
    assert takes or not (named and isinstance(command, click.Command))


@pytest.mark.parametrize("words", [("0", "-9.81", "0.5"), ("0,-9.81,0.5",)], ids=len)
def test_gravity_in_all_spellings(words: tuple[str, ...]) -> None:
    assert answer("show", "two_link", "--gravity", *words)["gravity"] == [0, -9.81, 0.5]
    assert answer("show", "--gravity", *words, "two_link")["gravity"] == [0, -9.81, 0.5]


def test_mount_in_radians_and_degrees() -> None:
    expected = md.load("two_link", mount=(math.pi, 0, -math.pi / 2)).base_placement
    for words in (("180deg,0,-90deg",), (str(math.pi), "0", str(-math.pi / 2))):
        placement = answer("show", "two_link", "--mount", *words)["base"]["placement"]
        np.testing.assert_allclose(placement, expected, atol=1e-12)
    assert "three numbers" in run("show", "two_link", "--mount", "1,2").stderr
    assert "--robot" in run("convert", "log.csv", "--mount", "1,2,3").stderr


def test_base_parameters_and_code_of_a_mounted_robot(tmp_path: Path) -> None:
    robot = md.load("puma560", gravity=(0, 0, -9.8), mount=(math.pi / 2, 0, 0))
    words = ("puma560", "--gravity", "0,0,-9.8", "--mount", "90deg,0,0")
    assert answer("base", *words)["rank"] == md.base_parameters(robot).rank
    counts = answer("count", *words, "gravity_torque")["gravity_torque"]
    assert counts != answer("count", "puma560", "gravity_torque")["gravity_torque"]


def test_identify_and_study_of_a_mounted_robot(tmp_path: Path) -> None:
    """The log is of a robot on the wall; the shell and a study file say so and agree."""
    file = tmp_path / "robot.toml"
    md.save(md.load("two_link"), file)
    robot = md.load(file, gravity=(0, -9.8, 0), mount=(0, 0, 1.0))
    law = md.control.computed_torque(robot, bandwidth=10.0, period=1e-3)
    for seed, name in ((1, "log"), (2, "other")):
        path = md.trajectory.fourier(robot, seed=seed)
        md.simulate(robot, law, path, 3.0, torque_noise=0.01, seed=seed).save(
            tmp_path / f"{name}.npz"
        )
    words = ("identify", file, tmp_path / "log.npz", "--validate", tmp_path / "other.npz")
    told = ("--gravity", "0,-9.8,0", "--mount", "0,0,1")
    right = answer(*words, *told, "--output", tmp_path / "right")
    assert right["errors"]["other.npz"]["relative_error"] < 0.01
    held = md.load_estimate(tmp_path / "right" / "estimate.json").robot
    np.testing.assert_allclose(held.base_placement, robot.base_placement)
    again = answer("validate", tmp_path / "right" / "estimate.json", tmp_path / "other.npz")
    assert again["errors"]["other.npz"]["relative_error"] < 0.01
    record = json.loads((tmp_path / "right" / "result.json").read_text())
    assert record["robot_changes"] == {"gravity": [0, -9.8, 0], "mount": [0, 0, 1]}
    study = tmp_path / "study.toml"
    logs = ("--log", tmp_path / "log.npz", "--validate", tmp_path / "other.npz")
    answer("run", study, "--init", "--robot", file, *told, *logs)
    assert "mount = [0.0, 0.0, 1.0]" in study.read_text()
    result = run_study(study, only=["identify"])
    np.testing.assert_allclose(result.robot.base_placement, robot.base_placement)
    fitted = md.load_estimate(study.parent / "study-results" / "identify" / "estimate.json")
    np.testing.assert_allclose(fitted.robot.gravity, robot.gravity)
    study.write_text(study.read_text().replace("[0.0, 0.0, 1.0]", "[0.0, 1.0]"))
    with pytest.raises(md.errors.DescriptionError, match="mount"):
        run_study(study)


@pytest.fixture(scope="module")
def gripper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arm with a gripper whose fingers are not logged, and two logs of the arm."""
    folder = tmp_path_factory.mktemp("gripper")
    links = [LooseLink("base", ""), *(LooseLink(name, "", _body(name)) for name in "abcd")]
    along, up = (Step("tx", 0.4),), (Step("rx", math.pi / 2),)
    reach = Limits(0.01, 0.05)
    joints = [
        LooseJoint("shoulder", "", "revolute", "base", "a", up),
        LooseJoint("elbow", "", "revolute", "a", "b", along),
        LooseJoint("finger", "", "prismatic", "b", "c", along, "ty", limits=reach),
        LooseJoint("thumb", "", "prismatic", "b", "d", along, "ty", leaders={"finger": -1.0}),
    ]
    robot = assemble("gripper", links, joints)
    md.save(robot, folder / "robot.urdf")
    held = robot.locked({"finger": 0.03})
    law = md.control.computed_torque(held, bandwidth=10.0, period=1e-3)
    for seed, name in ((1, "log"), (2, "other")):
        path = md.trajectory.fourier(held, seed=seed)
        run = md.simulate(held, law, path, 3.0, torque_noise=0.01, seed=seed)
        run.save(folder / f"{name}.csv")
    return folder


def _body(name: str) -> np.ndarray:
    return from_body(1.0 + ord(name) % 5, (0.2, 0.05, 0.01), 0.02 * np.eye(3))


def test_joints_that_are_not_logged_from_files_to_validation(gripper: Path) -> None:
    """One command; the estimate holds the reduced robot, the notice says where joints were held."""
    file, log, other = (gripper / name for name in ("robot.urdf", "log.csv", "other.csv"))
    words = ("identify", file, log, "--validate", other, "--output")
    found = answer(*words, gripper / "default")
    [notice] = [one for one in found["notices"] if "locked" in one["text"]]
    assert notice["code"] == "recording.not_logged"
    assert notice["data"]["joints"] == {"finger": 0.03}  # the middle of its limits
    assert "finger at 0.03" in notice["text"]
    assert found["errors"]["other.csv"]["relative_error"] < 0.01
    held = md.load_estimate(gripper / "default" / "estimate.json").robot
    assert held.joint_names == ("shoulder", "elbow")
    assert held.locked_joints == {"finger": 0.03}
    assert "--lock finger=0.03" in (gripper / "default" / "report.html").read_text()
    for to in ("gripper.toml", "gripper.xml"):
        assert md.load(gripper / "default" / to).joint_names == held.joint_names
    whole = md.load(gripper / "default" / "gripper.urdf")  # the file of the whole robot
    assert whole.joint_names == md.load(file).joint_names
    again = answer("validate", gripper / "default" / "estimate.json", other)
    assert again["errors"]["other.csv"]["relative_error"] < 0.01
    # told: no warning; the same model, and the file of the whole robot is its prior
    told = answer(*words, gripper / "told", "--lock", "finger=0.03", "--prior", file)
    assert "recording.not_logged" not in {one["code"] for one in told["notices"]}
    assert told["standard_parameters"] == pytest.approx(found["standard_parameters"], rel=1e-6)
    assert json.loads((gripper / "told" / "result.json").read_text())["robot_changes"] == {
        "lock": {"finger": 0.03}
    }
    kept = answer("check", file, log, "--keep-joints", "shoulder", "--keep-joints", "elb*")
    assert kept["joints"]
    assert "no columns" not in run("count", file, "--lock", "finger").output
    assert "NAME=VALUE" in run("count", file, "--lock", "finger=x").stderr


def test_locks_in_python_studies_and_mappings(gripper: Path) -> None:
    robot = md.load(gripper / "robot.urdf", lock={"finger": 0.03})
    fitted = md.identify(robot, gripper / "log.csv", friction=())
    whole = md.identify(gripper / "robot.urdf", gripper / "log.csv", friction=())
    np.testing.assert_allclose(fitted.parameters, whole.parameters, rtol=1e-9, atol=1e-12)
    assert md.validate(whole, gripper / "other.csv").relative_error < 0.01
    # a log that has all joints is one of the robot with locked ones
    log = md.read_recording(gripper / "log.csv", robot)
    every = [np.column_stack([part, np.full(len(log), at)]) for part, at in ((log.q, 0.03),)]
    tau = np.column_stack([log.tau, np.zeros(len(log))])
    full = md.Recording(log.t, every[0], tau, joint_names=("shoulder", "elbow", "finger"))
    same = md.identify(robot, full, friction=())
    np.testing.assert_allclose(same.parameters, fitted.parameters, rtol=1e-3, atol=1e-3)
    # a recording in memory that never saw the finger
    bare = md.Recording(log.t, log.q, log.tau, joint_names=("shoulder", "elbow"))
    plain = md.identify(gripper / "robot.urdf", bare, friction=())
    np.testing.assert_allclose(plain.parameters, fitted.parameters, rtol=1e-3, atol=1e-3)
    [notice] = [one for one in plain.notices if one.code == "recording.not_logged"]
    assert notice.data["joints"] == {"finger": 0.03}
    assert md.validate(plain, bare).relative_error < 0.01
    unnamed = replace(bare, joint_names=("a", "b"))
    with pytest.raises(md.MinidynError, match=r"keep-joints"):
        md.identify(md.load(gripper / "robot.urdf"), unnamed, friction=())
    study = gripper / "study.toml"
    locked = ("--lock", "finger", "--robot", gripper / "robot.urdf")
    answer("run", study, "--init", *locked, "--log", gripper / "log.csv")
    assert "lock = { finger = 0.03 }" in study.read_text()
    assert run_study(study, only=["identify"]).robot.locked_joints == {"finger": 0.03}
    mapped = gripper / "mapped.toml"
    mapped.write_text(
        study.read_text()
        .replace("lock = {", "# {")
        .replace("[mapping]", '[mapping]\nlock = ["finger"]')
    )
    run_study(mapped, only=["identify"])
    estimate = md.load_estimate(gripper / "study-results" / "identify" / "estimate.json")
    assert estimate.robot.locked_joints == {"finger": 0.03}


@pytest.mark.parametrize("degrees", [False, True])
def test_a_locked_joint_that_the_log_has_elsewhere_is_named(degrees: bool, tmp_path: Path) -> None:
    arm = md.load("ur10e")
    t = np.arange(400) / 100
    q = 0.3 * np.sin(np.outer(t, 1.0 + np.arange(6)))
    q[:, 3], q[:, 4] = 0.2, 0.01  # stand still, one of them where it is locked
    columns = {f"q.{name}": column for name, column in zip(arm.joint_names, q.T)}
    path = tmp_path / "log.csv"
    unit = 180 / math.pi if degrees else 1.0
    table = np.column_stack([t, *(unit * column for column in columns.values()), np.cos(q)])
    names = ["t", *columns, *(f"tau.{name}" for name in arm.joint_names)]
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="")
    held = arm.locked(["elbow_joint", "wrist_1_joint", "wrist_2_joint"])
    options = {"units": "deg"} if degrees else {}
    for lazy in (False, True):
        log = md.read_recording(path, held, lazy=lazy, **options)
        named = {one.data["joint"]: one for one in log.notices if "locked" in one.code}
        assert set(named) == {"elbow_joint", "wrist_1_joint"}
        assert named["elbow_joint"].level == "warning"
        assert named["wrist_1_joint"].data["highest"] == pytest.approx(0.2)


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_fleet_whose_logs_lack_a_joint(gripper: Path, in_memory: bool) -> None:
    robot, log = md.load(gripper / "robot.urdf"), gripper / "log.csv"
    names = {"r1": log, "r2": gripper / "other.csv", "r3": log}
    logs = {
        name: replace(md.read_recording(path, robot), notices=()) if in_memory else path
        for name, path in names.items()
    }
    fleet = md.identify_fleet(robot, logs, friction=())
    assert fleet.model.robot.locked_joints == {"finger": 0.03}
    assert [one.code for one in fleet.notices].count("recording.not_logged") == 1


TIAGO = Path(__file__).parents[3] / "shared" / "data" / "tiago"


@pytest.mark.skipif(not TIAGO.is_dir(), reason=f"no measurements at {TIAGO}")
def test_tiago_from_files_to_report(tmp_path: Path) -> None:
    """Eight of its joints are logged, in three files; wheels and head are locked."""
    logs = [TIAGO / f"tiago_{signal}.csv" for signal in ("position", "velocity", "effort")]
    gains = "1,13.6,13.6,-8.7,-8.7,-20.6,-20.6,-20.6"
    amperes = answer("check", TIAGO / "tiago_no_hand.urdf", *logs)["notices"]
    scales = [one for one in amperes if one["code"] == "signals.torque_scale"]
    assert {one["data"]["joint"] for one in scales} == {f"arm_{k}_joint" for k in (2, 3, 4)}
    assert all("scale of the torque of each" in one["data"]["causes"][:30] for one in scales)
    words = ("identify", TIAGO / "tiago_no_hand.urdf", *logs, "--drive-gain", gains)
    found = answer(*words, "--friction", "viscous,coulomb,offset", "--output", tmp_path / "out")
    notices = {one["code"]: one for one in found["notices"]}
    assert set(notices["recording.not_logged"]["data"]["joints"]) == {
        *("wheel_right_joint", "wheel_left_joint", "head_1_joint", "head_2_joint")
    }
    assert (tmp_path / "out" / "report.html").is_file()
    assert len(found["noise"]) == 8
