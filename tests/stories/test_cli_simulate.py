"""Simulation and case study as a user runs them."""

import json

import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main


def run(*arguments: str):
    return CliRunner().invoke(main, list(arguments))


def test_simulate_writes_a_recording_and_a_picture(tmp_path) -> None:
    path = tmp_path / "run.npz"
    result = run("simulate", "two_link", "--controller", "slotine_li", "--model-error", "0.3", "--duration", "0.5",  # noqa: E501
                 "--output", str(path), "--plot", "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["samples"] == 501 == len(md.read_recording(path))
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "controller", ["computed_torque", "pd_gravity", "modified_slotine_li", "craig"]
)
def test_every_law_runs(tmp_path, controller) -> None:
    path = tmp_path / "run.npz"
    result = run(
        "simulate",
        "puma4",
        "--controller",
        controller,
        "--unknown",
        "MX4",
        "--duration",
        "0.2",
        "--output",
        str(path),
    )
    assert result.exit_code == 0, result.output
    assert "joint4" in result.stdout
    assert path.exists()


def test_a_joint_that_does_not_follow_is_named(tmp_path) -> None:
    robot = md.load("two_link", friction=("coulomb",))
    values = [
        value if name != "Fc2" else 100.0
        for name, value in zip(robot.parameter_names, robot.parameters)
    ]
    md.save(robot.with_parameters([0.0 if name == "Fc1" else v for name, v in zip(robot.parameter_names, values)]),  # noqa: E501
            tmp_path / "stuck.toml")  # fmt: skip
    command = ("--duration", "1", "--output", str(tmp_path / "run.npz"), "--json")
    stuck = json.loads(
        run("simulate", str(tmp_path / "stuck.toml"), "--controller", "pd_gravity", *command).stdout
    )
    lost = [
        notice for notice in stuck["notices"] if notice["code"] == "simulate.joints_left_behind"
    ]
    assert [notice["data"]["joints"] for notice in lost] == [["joint2"]]
    free = json.loads(run("simulate", "two_link", *command).stdout)
    assert "simulate.joints_left_behind" not in [notice["code"] for notice in free["notices"]]


@pytest.mark.long
def test_case_study(tmp_path) -> None:
    result = run("casestudy", "lu-meng", "--output", str(tmp_path / "out"), "--json")
    assert result.exit_code == 0, result.output
    outcome = json.loads(result.stdout)
    assert outcome["modified_slotine_li"]["t5"] == pytest.approx(
        0.27825, abs=3e-4
    )  # golden/lu_meng.json, metrics
    assert outcome["craig"]["tm5"] == pytest.approx(0.27675, abs=3e-4)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "craig.npz", "craig.png", "lu-meng.html", "modified_slotine_li.npz", "modified_slotine_li.png"]  # fmt: skip  # noqa: E501


def test_wrong_requests_say_what_to_do(tmp_path) -> None:
    for arguments, words in (
        (["simulate", "panda", "--controller", "slotin_li"], "did you mean 'slotine_li'"),
        (["simulate", "panda", "--output", "run.txt"], "ending with .npz, .parquet or .csv"),
        (["casestudy", "lumeng"], "lu-meng"),
        (["simulate", "rx90"], "unknown"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert words in result.stderr
