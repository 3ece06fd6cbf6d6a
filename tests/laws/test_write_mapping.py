"""Mappings: one for each log, and one that is written to be edited."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, MissingFile
from minidyn.recording.read.mapping import with_own_mapping
from minidyn.recording.read.starter import mapping_text, write_mapping


def motion(seed: int = 0, samples: int = 400) -> md.Recording:
    robot = md.load("two_link")
    t = 0.01 * np.arange(samples)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
    return md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, None, robot.joint_names)


def table(path: Path, columns: dict[str, Any]) -> Path:
    np.savetxt(
        path, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns),
        comments="",
    )  # fmt: skip
    return path


def in_degrees(path: Path, log: md.Recording) -> Path:
    """Write a log as another controller does: degrees, other names and order, milliseconds."""
    columns = {"stamp": 1000 * log.t}
    for k in (1, 0):
        columns[f"axis{k}"] = np.degrees(log.q[:, k])
        columns[f"load{k}"] = 1000 * np.asarray(log.tau)[:, k]
    return table(path, columns)


MAP = """time = "stamp"
time_unit = "ms"
q = ["axis0", "axis1"]
tau = ["load0", "load1"]
joints = ["joint1", "joint2"]
units = { q = "deg", tau = "Nmm" }
"""


def test_each_log_has_its_own_mapping(tmp_path: Path) -> None:
    one, two = motion(0), motion(1)
    one.save(tmp_path / "a.csv")
    in_degrees(tmp_path / "b.csv", two)
    (tmp_path / "map.toml").write_text(MAP)
    files = [str(tmp_path / "a.csv"), f"{tmp_path / 'b.csv'}:{tmp_path / 'map.toml'}"]
    for lazy in (False, True):
        both = md.read_recording(files, "two_link", lazy=lazy, dq=False).load()
        assert both.starts == (0, 400)
        np.testing.assert_allclose(both.q, np.vstack([one.q, two.q]), atol=1e-6)
        np.testing.assert_allclose(both.tau, np.vstack([one.tau, two.tau]), atol=1e-5)
    with pytest.raises(MissingFile, match=r"no\.toml"):
        md.read_recording([files[0] + ":no.toml"], "two_link")


def test_a_drive_letter_is_no_mapping() -> None:
    assert with_own_mapping("C:map.toml") == ("C:map.toml", None)
    assert with_own_mapping(r"C:\a.csv:m.toml") == (r"C:\a.csv", "m.toml")
    assert with_own_mapping("s3://bucket/a.csv:m.toml") == ("s3://bucket/a.csv", "m.toml")
    assert with_own_mapping("a:b.csv") == ("a:b.csv", None)


def test_the_shell_and_study_files(tmp_path: Path) -> None:
    motion(0).save(tmp_path / "a.csv")
    in_degrees(tmp_path / "b.csv", motion(1))
    in_degrees(tmp_path / "c.csv", motion(2))
    (tmp_path / "map.toml").write_text(MAP)
    mapped = [f"{tmp_path / name}:{tmp_path / 'map.toml'}" for name in ("b.csv", "c.csv")]
    fast = ("--friction", "none", "--no-rotor-inertia", "--no-auto")
    words = ["identify", "two_link", str(tmp_path / "a.csv"), mapped[0], "--validate", mapped[1]]
    done = CliRunner().invoke(main, [*words, *fast, "--output", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert 700 < found["samples"] <= 800
    assert found["errors"]["c.csv"]["relative_error"] < 0.05
    (tmp_path / "study.toml").write_text(
        '[robot]\nfile = "two_link"\n[[log]]\nname = "mapped"\nfiles = ["b.csv"]\n'
        'mapping = "map.toml"\n[identify]\nlogs = ["a.csv", "mapped", "c.csv:map.toml"]\n'
        "friction = []\nrotor_inertia = false\nauto = false\n"
    )
    md.run_study(tmp_path / "study.toml")
    estimate = md.load_estimate(tmp_path / "study" / "identify" / "estimate.json")
    assert 1100 < estimate.samples <= 1200


@pytest.mark.parametrize("kind", ["plain", "degrees", "named"])
def test_what_is_written_reads_the_same(tmp_path: Path, kind: str) -> None:
    log = motion()
    if kind == "plain":
        log.save(tmp_path / "log.csv")
    elif kind == "degrees":
        columns = {"time_ms": 1000 * log.t}
        columns |= {f"joint{k + 1}_position_deg": np.degrees(log.q[:, k]) for k in range(2)}
        columns |= {f"joint{k + 1}_effort": np.asarray(log.tau)[:, k] for k in range(2)}
        table(tmp_path / "log.csv", columns | {"battery": np.ones(len(log))})
    else:
        table(
            tmp_path / "log.csv",
            {"t": log.t, "tau_joint2": np.asarray(log.tau)[:, 1], "q_joint2": log.q[:, 1]}
            | {"q_joint1": log.q[:, 0], "tau_joint1": np.asarray(log.tau)[:, 0]},
        )
    assert write_mapping(tmp_path / "log.csv", tmp_path / "map.toml", "two_link")
    plain = md.read_recording(tmp_path / "log.csv", "two_link")
    mapped = md.read_recording(tmp_path / "log.csv", "two_link", mapping=tmp_path / "map.toml")
    for name in ("t", "q", "dq", "tau"):
        assert np.array_equal(getattr(plain, name), getattr(mapped, name)), name
    assert plain.joint_names == mapped.joint_names
    text = (tmp_path / "map.toml").read_text()
    assert ("battery" in text) == (kind == "degrees")
    assert "# sign = [1, 1]" in text


def test_columns_that_nobody_understands_are_listed(tmp_path: Path) -> None:
    log = motion()
    table(tmp_path / "log.csv", {"zeit": log.t, "alpha": log.q[:, 0], "beta": log.q[:, 1]})
    text, is_understood = mapping_text(tmp_path / "log.csv", "two_link")
    assert not is_understood
    assert tomllib.loads(text) == {"joints": ["joint1", "joint2"]}
    for name in ("zeit", "alpha", "beta", "Not understood"):
        assert name in text


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    log = motion()
    log.save(tmp_path / "log.csv")
    path = tmp_path / "map.toml"
    path.write_text("mine")
    with pytest.raises(DescriptionError, match="exists already"):
        write_mapping(tmp_path / "log.csv", path, "two_link")
    words = ["check", "two_link", str(tmp_path / "log.csv"), "--write-mapping", str(path)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert path.read_text() == "mine"
    done = CliRunner().invoke(main, [*words, "--force"])
    assert done.exit_code == 0, done.output
    assert tomllib.loads(path.read_text())["joints"] == ["joint1", "joint2"]


@pytest.mark.parametrize("seed", range(count(6, 200)))
def test_hostile_names_of_columns_stay_text(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = list("ab\"'\\#=[]{}\t é\u202e\x07$`")
    log = motion(samples=30)
    name = "".join(rng.choice(letters, size=8).tolist()).replace(",", "")
    lines = [f't,q1,q2,"{name.replace(chr(34), chr(34) * 2)}"']
    lines += [f"{t},{a},{b},0" for t, (a, b) in zip(log.t, log.q)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text, _ = mapping_text(tmp_path / "log.csv", "two_link")
    read = tomllib.loads(text)
    assert set(read) <= {"time", "time_unit", "joints", "q", "dq", "tau"}
    assert "\u202e" not in text
