"""`minidyn example`: the measured log that ships with the package, its source and its licence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main

BAG = (
    Path(__file__).parents[3] / "shared" / "data" / "ur10_exciting" / "ur10_exciting_trajectory.db3"
)


def example(folder: Path, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["example", "ur10", "--output", str(folder), "--json"])
    assert result.exit_code == code, result.output
    return str(result.stdout if code == 0 else result.stderr)


def test_log_robot_source_and_licence_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "ur10"
    files = json.loads(example(folder))["files"]
    assert sorted(Path(file).name for file in files) == [
        "LICENSE",
        "README.md",
        "log.csv",
        "robot.toml",
    ]
    assert all(Path(file).exists() for file in files)
    assert "BSD 3-Clause" in (folder / "LICENSE").read_text()
    assert "Automatic Control Group" in (folder / "README.md").read_text()
    assert sum(Path(file).stat().st_size for file in files) < 700_000
    robot = md.load(folder / "robot.toml")
    assert robot.joint_names == md.load("ur10").joint_names
    recording = md.read_recording(folder / "log.csv", robot)
    assert (len(recording), recording.joint_names) == (3441, robot.joint_names)
    assert {notice.level for notice in recording.notices} == {"info"}  # nothing in it is odd
    estimate = md.identify(robot, recording[:2409])
    assert md.validate(estimate, recording[2409:]).relative_error < 0.045


def test_what_is_there_and_different_is_not_replaced(tmp_path: Path) -> None:
    example(tmp_path)
    example(tmp_path)  # the same files may stay
    (tmp_path / "robot.toml").write_text("mine")
    assert "another file" in example(tmp_path, code=2)
    assert (tmp_path / "robot.toml").read_text() == "mine"


@pytest.mark.skipif(not BAG.exists(), reason="the original bag is not here")
def test_it_is_the_original_but_for_rounding(tmp_path: Path) -> None:
    example(tmp_path)
    log, bag = md.read_recording(tmp_path / "log.csv", "ur10"), md.read_recording(BAG, "ur10")
    for name, step in (("t", 1e-3), ("q", 1e-7), ("dq", 1e-5), ("tau", 1e-3)):
        np.testing.assert_allclose(getattr(log, name), getattr(bag, name), rtol=0, atol=0.51 * step)
