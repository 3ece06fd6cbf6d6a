"""The demo is the product: the whole job, told step by step, whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli import demo_story
from minidyn.app.cli.main import main
from minidyn.identification.export import file_name


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and what was told."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    result = CliRunner().invoke(main, ["-q", "demo", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.stdout


def test_the_story_is_told_to_its_end(done: tuple[Path, str]) -> None:
    folder, told = done
    steps = [line.split()[0] for line in told.splitlines() if "/10 " in line]
    assert steps == [f"{k}/10" for k in range(1, 11)]
    assert "33 combinations" in told
    assert "Link 1 as printed in the paper is not physically consistent" in " ".join(told.split())
    assert str(folder / "report.html") in told.replace("\n", "")
    assert "minidyn identify robot.urdf" in told


def test_what_it_writes_is_what_it_says(done: tuple[Path, str]) -> None:
    folder, _ = done
    estimate = md.load_estimate(folder / "estimate.json")
    assert len(estimate.beta) == 55
    assert estimate.certificate.consistent
    other = md.read_recording(folder / "logs" / "other.csv", estimate.robot)
    test = md.validate(estimate, other)
    assert test.relative_error < 0.05
    assert (
        f"{100 * test.relative_error:.1f}".replace(".0", "") in (folder / "report.html").read_text()
    )
    prepared = md.prepare(estimate.robot, other)
    for name in (file_name(one, estimate.robot.name) for one in ("toml", "urdf", "mjcf")):
        again = md.load(folder / "model" / name)
        tau = md.inverse_dynamics(
            again, prepared.q, np.asarray(prepared.dq), np.asarray(prepared.ddq)
        )
        assert np.allclose(tau, estimate.predict(prepared), rtol=1e-6, atol=1e-6), name
    assert {"model.c", "model.h"} <= {path.name for path in (folder / "model").iterdir()}


def test_the_report_holds_every_part(done: tuple[Path, str]) -> None:
    text = (done[0] / "report.html").read_text()
    assert len(text.encode()) < 3_000_000
    for key in [
        "summary",
        "notices",
        "torque",
        "residuals",
        "robot",
        "base",
        "plan",
        "excitation",
        "parameters",
        "consistency",
        "code",
        "control",
        "record",
    ]:
        assert f'<section id="{key}"' in text, key
    assert "Ready to use" in text


def test_nothing_is_left_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(story: object, folder: Path) -> dict[str, object]:
        (folder / "half.txt").write_text("half")
        raise md.MinidynError("on purpose")

    monkeypatch.setattr(demo_story, "_job", broken)
    result = CliRunner().invoke(main, ["demo", "--output", str(tmp_path / "a" / "out")])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_story, "_job", lambda story, folder: {"condition": 3.0})
    result = CliRunner().invoke(main, ["demo", "--output", str(tmp_path / "out"), "--json"])
    assert json.loads(result.stdout)["condition"] == 3.0


def test_a_file_in_the_way_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    result = CliRunner().invoke(main, ["demo", "--output", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "out" in result.stderr
    assert (tmp_path / "out").read_text() == "mine"
