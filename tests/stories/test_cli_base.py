"""`minidyn base` from the outside: every format, wrong requests, hostile names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.model.geometry import Step, inverse_steps


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["base", *arguments])


def test_table() -> None:
    result = run("puma560")
    assert result.exit_code == 0, result.output
    assert "66 = 40 base + 15 regrouped + 11 without effect" in result.output
    assert "XX2 - YY2 - D3² (M3 + M4 + M5 + M6)" in result.output
    assert "5.01856" in result.output
    assert "no effect: M1 (the origin of link 'link1' does not move)" in result.output


@pytest.mark.parametrize("method", ["exact", "qr", "svd", "rules+qr"])
@pytest.mark.parametrize("model", ["torque", "gravity", "inertia", "energy"])
def test_json(method: str, model: str) -> None:
    result = run("puma560", "--method", method, "--model", model, "--json")
    data = json.loads(result.output)
    assert data["rank"] == {"gravity": 10, "inertia": 38}.get(model, 40)
    assert (data["method"], data["model"]) == (method, model)
    if model == "gravity":
        assert data["relations"][0]["name"] == "MXR2"
        return
    first = data["relations"][0]
    assert first["name"] == "ZZR1"
    assert first["terms"][4] == {
        "parameter": "MZ3",
        "coefficient": "2 R3",
        "value": pytest.approx(0.4),
    }
    assert data["values"][0] == pytest.approx(5.01856)
    assert (
        result.output
        == run("puma560", "--method", method, "--model", model, "--format", "json").output
    )


def test_markdown_and_latex_are_what_the_library_gives() -> None:
    base = md.base_parameters(md.load("two_link"))
    assert run("two_link", "--format", "markdown").output == base.to_markdown()
    assert run("two_link", "--format", "latex").output == base.to_latex()


def test_questions_of_structure() -> None:
    without = json.loads(run("puma560", "--gravity", "0", "0", "0", "--json").output)
    assert without["rank"] == 38
    some = json.loads(run("puma560", "--joint", "joint2", "--joint", "joint3", "--json").output)
    assert some["joints"] == ["joint2", "joint3"]
    assert 0 < some["rank"] < 40
    searched = json.loads(run("two_link", "--method", "qr", "--scaling", "paper", "--json").output)
    assert searched["notices"][0]["code"] == "base.row_scaling"


def test_the_rule_and_its_options() -> None:
    found = json.loads(
        run(
            "puma560", "--method", "mlc", "--version", "1992", "--model", "gravity", "--json"
        ).output
    )
    assert (found["model"], found["structure"]["version"]) == ("gravity", "1992")
    assert "k2x" in found["names"]
    assert all(name in run("--help").output for name in ("exact", "qr", "svd", "mlc", "rules+qr"))


def test_the_old_name_of_the_model() -> None:
    with pytest.warns(DeprecationWarning, match="for_ is named model"):
        found = json.loads(run("puma560", "--method", "mlc", "--for", "gravity", "--json").output)
    assert found["model"] == "gravity"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("puma560", "--method", "qrr"), "did you mean 'qr'"),
        (("puma560", "--model", "power"), "unknown model 'power'"),
        (("puma560", "--joint", "joint9"), "did you mean"),
        (("puma560", "--method", "qr", "--scaling", "rows"), "unknown scaling 'rows'"),
        (("puma560", "--version", "1999"), "takes no option 'version'"),
        (("puma560", "--method", "mlc", "--model", "weight"), "unknown model 'weight'"),
        (("no such robot",), "no such robot"),
    ],
)
def test_wrong_requests_are_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert len(result.output.splitlines()) == 1


def test_robot_with_unknown_parameters_and_hostile_names(tmp_path: Path) -> None:
    robot = md.load("two_link").with_parameters(None)
    hostile = "[red]x[/red]\x1b[2J|<b>$\\"
    joints = (replace(robot.joints[0], name=hostile), *robot.joints[1:])
    path = tmp_path / "robot.toml"
    md.save(replace(robot, name=hostile, joints=joints, link_names=(hostile + "l", "b")), path)
    for form in ("table", "markdown", "latex", "json"):
        result = run(str(path), "--format", form)
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
    assert "value" not in run(str(path)).output.splitlines()[2]
    assert json.loads(run(str(path), "--json").output)["values"] is None
    assert "[red]x[/red]" in run(str(path)).output  # shown, not obeyed


def test_a_file_with_rounded_numbers(tmp_path: Path) -> None:
    """Relations, counts, code and plans are of the arm that the rounded file means."""
    file = tmp_path / "arm.urdf"
    arm = md.Robot.from_mdh("RRR", [0, 0, 0], [0, 0.41, 0.3])
    inertial = [1e-2, 0, 0, 1e-2, 0, 1e-2, 0.1, 0, 0, 1.0] * 3
    turn = (Step("rz", 0.3), Step("ry", 0.7), Step("rx", 1.1))
    first, *others = arm.joints
    back = inverse_steps(turn)
    others = [replace(each, before=(*back, *each.before), after=turn) for each in others]
    arm = replace(arm, joints=(replace(first, after=turn), *others), name="arm")
    md.save(arm.with_parameters(inertial), file)
    exact = file.read_text()
    file.write_text(re.sub(r"-?\d+\.\d{7,}", lambda number: f"{float(number[0]):.6f}", exact))
    for beside in tmp_path.glob("*.toml"):
        beside.unlink()

    def shown(*arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    text = shown("base", str(file))
    assert "30 = 7 base" in text
    assert "check at random states: relations hold to" in text
    data = json.loads(shown("base", str(file), "--json"))
    assert data["check"]["relations"] <= 1e-9 < data["check"]["geometry"] < 1e-4
    meant, written = (
        json.loads(shown("count", str(file), "inverse_dynamics", "--base", "--json", *options))
        for options in ((), ("--tolerance", "0"))
    )
    assert meant["inverse_dynamics"]["mul"] < written["inverse_dynamics"]["mul"]
    folder = ["--output", str(tmp_path)]
    shown("generate", str(file), "inverse_dynamics", "--base", *folder)
    shown("generate", str(file), "inverse_dynamics", "--base", "--tolerance", "0", *folder)
    plan = json.loads(shown("plan", str(file), "--friction", "none", "--json"))
    assert plan
