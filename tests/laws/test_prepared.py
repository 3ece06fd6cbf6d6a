"""Accelerations of files are not trusted, and a recording knows whether it was prepared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.recording.ready import ready

ENDINGS = ("npz", "parquet", "csv")


def logged(robot: md.Robot, seed: int, samples: int = 4000) -> md.Recording:
    """Return what a careless logger writes.

    Speeds and accelerations are differences of noisy positions.
    """
    t = np.arange(samples) / 500.0
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
    rng = np.random.default_rng(seed)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + 0.01 * np.abs(tau).max(axis=0) * rng.normal(size=q.shape)
    q = q + 2e-5 * rng.normal(size=q.shape)
    speeds = np.gradient(q, t, axis=0)
    return md.Recording(t, q, tau, speeds, np.gradient(speeds, t, axis=0), robot.joint_names)


@pytest.fixture(scope="module")
def robot() -> md.Robot:
    return md.load("puma4")


@pytest.mark.parametrize("ending", ENDINGS)
def test_accelerations_of_a_file_are_not_used_unless_asked(robot, tmp_path, ending) -> None:
    log, path = logged(robot, 0), tmp_path / f"log.{ending}"
    log.save(path)
    plain = replace(log, dq=None, ddq=None)
    for lazy in (False, True):
        read = md.read_recording(path, robot, lazy=lazy)
        assert read.signals == ("q", "dq", "tau")
        assert not read.prepared
        (told,) = [notice for notice in read.notices if notice.code == "recording.ddq_not_used"]
        assert told.data["file"] == path.name
        assert "use_ddq" in told.advice
        asked = md.read_recording(path, robot, lazy=lazy, use_ddq=True)
        assert asked.signals == ("q", "dq", "ddq", "tau")
        assert "recording.ddq_not_used" not in {notice.code for notice in asked.notices}
        np.testing.assert_allclose(ready(robot, asked, purpose="a test").load().ddq, log.ddq)
    found = md.identify(robot, path, friction=())
    np.testing.assert_allclose(found.beta, md.identify(robot, plain, friction=()).beta)
    assert md.validate(found, replace(logged(robot, 1), dq=None, ddq=None)).relative_error < 0.03
    assert md.validate(found, path).relative_error == md.validate(found, plain).relative_error


def test_named_columns_of_accelerations_are_not_asked_for(robot, tmp_path) -> None:
    """A mapping says which column is what, not that differences of noise are to be used."""
    logged(robot, 0).save(tmp_path / "log.csv")
    named = {"q": "q.*", "tau": "tau.*", "ddq": "ddq.*"}
    assert md.read_recording(tmp_path / "log.csv", robot, **named).ddq is None
    assert md.read_recording(tmp_path / "log.csv", robot, **named, use_ddq=True).ddq is not None
    (tmp_path / "map.toml").write_text("use_ddq = true\n")
    assert (
        md.read_recording(tmp_path / "log.csv", robot, mapping=tmp_path / "map.toml").ddq
        is not None
    )
    with pytest.raises(md.MinidynError, match="use_ddq: expected true or false"):
        md.read_recording(tmp_path / "log.csv", robot, use_ddq="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_minidyn_prepared_stays_prepared_in_files(robot, tmp_path, ending) -> None:
    raw = replace(logged(robot, 0), dq=None, ddq=None)
    made, path = md.prepare(robot, raw), tmp_path / f"log.{ending}"
    assert made.prepared
    assert not raw.prepared
    made.save(path)
    for lazy in (False, True):
        read = md.read_recording(path, robot, lazy=lazy)
        assert read.prepared
        assert read.load().prepared
        assert next(read.tiles()).prepared
        np.testing.assert_array_equal(read.load().ddq, made.ddq)
        assert ready(robot, read, purpose="a test").load().starts == made.starts
        np.testing.assert_array_equal(ready(robot, read, purpose="a test").load().q, made.q)
    again = tmp_path / f"again.{ending}"
    md.read_recording(path, robot).save(again)
    assert md.read_recording(again, robot).prepared
    np.testing.assert_allclose(
        md.identify(robot, again).beta, md.identify(robot, made).beta, rtol=1e-9
    )


def test_parts_and_sums_of_prepared_recordings(robot, tmp_path) -> None:
    raw = replace(logged(robot, 0), dq=None, ddq=None)
    raw.save(tmp_path / "raw.parquet")
    lazy = md.prepare(robot, md.read_recording(tmp_path / "raw.parquet", robot, lazy=True))
    made = md.prepare(robot, raw)
    for one in (
        lazy,
        lazy[:100],
        lazy.reordered(robot.joint_names[::-1]),
        lazy.load(),
        ready(robot, raw, purpose="x"),
    ):
        assert one.prepared
    assert made[:100].prepared
    assert made.runs[0].prepared
    assert md.concatenate([made, made]).prepared
    assert md.concatenate([lazy, made]).prepared
    assert not md.concatenate([made, raw]).prepared
    assert ready(robot, lazy, purpose="a test").prepared  # kept in a temporary file
    assert "prepared" in repr(made)
    assert "prepared" not in repr(raw)


def test_methods_without_accelerations_filter_raw_logs_too(robot) -> None:
    log = replace(logged(robot, 0), ddq=None)
    made = ready(robot, log, purpose="a test", ddq=False)
    assert made.prepared
    np.testing.assert_array_equal(made.dq, md.prepare(robot, log).dq)
    kept = replace(made, ddq=None)  # prepared: its speeds are those of filtered positions
    assert ready(robot, kept, purpose="a test", ddq=False) is kept
    built = logged(robot, 0)  # built with dq and ddq: used as they are
    assert ready(robot, built, purpose="a test") is built


def test_shell_and_study_ask_for_accelerations(robot, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    logged(robot, 0).save("fit.csv")
    logged(robot, 1).save("test.csv")
    run = lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)  # noqa: E731
    common = (
        "identify",
        "puma4",
        "fit.csv",
        "--validate",
        "test.csv",
        "--friction",
        "none",
        "--json",
    )
    errors = {}
    for name, more in {"plain": (), "used": ("--use-ddq",)}.items():
        done = run(*common, "--output", name, *more)
        assert done.exit_code == 0, done.output
        errors[name] = json.loads(done.stdout)["errors"]["test.csv"]["relative_error"]
    assert errors["plain"] < 0.03
    assert errors["used"] > 5 * errors["plain"]
    Path("study.toml").write_text(
        '[robot]\nfile = "puma4"\n[mapping]\nuse_ddq = true\n[identify]\nlogs = ["fit.csv"]\n'
        "friction = []\n"
        '[validate]\nlogs = ["test.csv"]\n'
    )
    assert run("run", "study.toml").exit_code == 0
    found = json.loads(Path("study/validate/validation.json").read_text())
    assert found["test.csv"]["relative_error"] == pytest.approx(errors["used"], rel=1e-9)


def test_logs_to_practise_with_have_no_accelerations(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        main, ["simulate", "two_link", "--duration", "1", "--output", "run.npz"]
    )
    assert done.exit_code == 0, done.output
    with np.load("run.npz") as archive:
        assert "ddq" not in archive.files
        assert "dq" in archive.files
