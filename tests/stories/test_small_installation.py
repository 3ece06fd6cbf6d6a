"""`pip install minidyn` alone.

Computing, and identifying from CSV and NPZ, needs none of the extras. The libraries of the extras
are hidden in a process of its own, as if they were not installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from minidyn.errors import _EXTRAS
from minidyn.recording.read.csv import CsvTable
from minidyn.recording.read.tables import Columns, stacked

ROOT = Path(__file__).parents[2]
HIDE = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted([*_EXTRAS, "jax", "pinocchio", "cvxpy"])!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
import minidyn as md
from click.testing import CliRunner
from minidyn.app.cli.main import main

def run(*words, code=0):
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output + result.stderr
    return result.stdout if code == 0 else result.stderr
"""


def alone(tmp_path: Path, script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDE + script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_whole_job_from_csv_and_npz(tmp_path: Path) -> None:
    script = """
run("example", "ur10")
robot = md.load("ur10")
log = md.read_recording("ur10/log.csv", robot)
log.save("log.npz"), log.save("again.csv")
assert (md.read_recording("log.npz", robot).q == log.q).all()
assert (md.read_recording("again.csv", robot).tau == log.tau).all()
shown = run("identify", "ur10", "log.npz", "--hold-out", "0.3", "--output", "out", "--pictures")
assert 'pip install "minidyn[plot]"' in shown and 'pip install "minidyn[mujoco]"' in shown, shown
run("validate", "out/estimate.json", "again.csv")
run("report", "out/estimate.json", "again.csv")
run("show", "out/ur10.urdf"), run("base", "out/ur10.toml")
run("generate", "out/ur10.toml", "inverse_dynamics", "--target", "c", "--output", "code")
run("simulate", "two_link", "--duration", "0.5")
run("run", "study.toml", "--init", "--robot", "two_link")
assert not {name for name in sys.modules if name.partition(".")[0] in ("pyarrow", "mujoco", "rosbags", "matplotlib")}
"""  # noqa: E501
    alone(tmp_path, script)
    out = {path.name for path in (tmp_path / "out").iterdir()}
    assert {
        "estimate.json",
        "report.html",
        "ur10.toml",
        "ur10.urdf",
        "model.c",
        "result.json",
    } <= out
    assert "ur10.xml" not in out


@pytest.mark.long
def test_a_study_runs(tmp_path: Path) -> None:
    alone(tmp_path, 'run("run", "s.toml", "--init", "--robot", "two_link"); run("run", "s.toml")')
    assert (tmp_path / "s-results" / "report" / "report.html").exists()


def test_what_is_missing_is_named_with_its_command(tmp_path: Path) -> None:
    for name in ("log.parquet", "log.db3", "robot.xml"):
        (tmp_path / name).write_text("<mujoco/>")
    script = """
run("example", "ur10")
log = md.read_recording("ur10/log.csv", "ur10")
for extra, call in {
    "parquet": lambda: md.read_recording("log.parquet", "ur10"),
    "ros": lambda: md.read_recording("log.db3", "ur10"),
    "mujoco": lambda: md.load("robot.xml"),
    "plot": log.plot,
    "pandas": log.to_pandas,
}.items():
    try:
        call()
    except ImportError as error:
        print(error)
        assert f'pip install "minidyn[{extra}]"' in str(error), (extra, error)
    else:
        raise AssertionError(extra)
try:
    log.save("new.parquet")
except ImportError as error:
    assert 'minidyn[parquet]' in str(error)
assert 'minidyn[parquet]' in run("identify", "ur10", "log.parquet", code=2)
"""
    told = alone(tmp_path, script).splitlines()
    assert len(told) == 5


def test_every_extra_that_errors_name_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for library, (extra, _) in _EXTRAS.items():
        needed = project["optional-dependencies"][extra]
        assert any(line.replace("-", "_").startswith(library) for line in needed)
        if extra not in ("cuda", "dask"):  # what needs a GPU or a cluster is asked for by name
            assert extra in project["optional-dependencies"]["all"][0]
        assert not any(re.match(rf"{library}\b", line) for line in project["dependencies"])


# ---------------------------------------------------------------------- CSV by NumPy and by pyarrow


def columns(path: Path, arrow: bool) -> Columns:
    table = CsvTable(path, None, None, arrow=arrow)
    return stacked(list(table.batches(table.names, 1 << 20)))


ODD = {
    "plain": "t,a\n0,1.5\n1,-2e-3\n",
    "windows": "t,a\r\n0,1.5\r\n1,2\r\n",
    "empty cells": "t,a\n0,\n1,2\n2,NaN\n3,n/a\n4,-nan(ind)\n",
    "blank lines": "t,a\n\n0,1\n\n1,2\n",
    "semicolon, comma": "t;a\n0,5;1,25\n1,5;-2\n",
    "quotes": '"t","a"\n"0","1.5"\n1,"2"\n',
    "quoted name": '"t","a, b"\n0,1\n1,2\n',
    "dates": "time,a\n2024-01-02 03:04:05.006,1\n2024-01-02 03:04:05.016,2\n",
    "comments": "# a log\nt,a\n0,1\n1,2\n",
    "infinite": "t,a\n0,inf\n1,-inf\n",
    "tabs": "t\ta\n0\t1\n1\t2\n",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_both_readers_agree(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode())
    ours, arrows = columns(path, False), columns(path, True)
    assert ours.keys() == arrows.keys()
    for name, values in arrows.items():
        np.testing.assert_array_equal(ours[name], values)


def test_both_readers_agree_to_the_last_digit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=20_000), 10.0 ** rng.uniform(-300, 300, 20_000)])
    texts = [f"{value!r},{value:.7g},{value:.25e}" for value in values.tolist()]
    path = tmp_path / "log.csv"
    path.write_text("a,b,c\n" + "\n".join(texts) + "\n")
    ours, arrows = columns(path, False), columns(path, True)
    np.testing.assert_array_equal(ours["a"], values)
    for name in "abc":
        np.testing.assert_array_equal(ours[name], arrows[name])


@pytest.mark.parametrize("arrow", [False, True])
def test_what_is_wrong_is_named_by_both(tmp_path: Path, arrow: bool) -> None:
    path = tmp_path / "log.csv"
    for text, says in (
        ("t,a\n0,1\n1,x\n", "line 3, column 'a'"),
        ("t,a\n0,1\n1\n", "line 3 has 1 cells"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=says):
            columns(path, arrow)
    path.write_text("t,a\n")
    if not arrow:
        with pytest.raises(ValueError, match="header only"):
            columns(path, arrow)


def test_the_lock_file_is_that_of_pyproject() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted: dict[str, str] = {}
    todo = [*extras["dependencies"], "minidyn[dev]"]
    while todo:
        name, several, low = re.match(
            r"([\w-]+)(?:\[([\w,]+)\])?(?:>=([\w.]+))?", todo.pop()
        ).groups()  # type: ignore[union-attr]
        if name == "minidyn":
            todo += [
                one
                for extra in several.split(",")
                for one in extras["optional-dependencies"][extra]
            ]
        else:
            wanted[name.lower()] = max(low or "0", wanted.get(name.lower(), "0"), key=_version)
    locked = dict(
        re.findall(
            r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE
        )
    )
    for name, low in wanted.items():
        assert name in locked, (
            f"{name} is not in requirements-dev.lock; CONTRIBUTING.md says how to make it again"
        )
        assert _version(locked[name]) >= _version(low), name
    peers = {re.match(r"[\w-]+", one)[0] for one in extras["optional-dependencies"]["peers"]}  # type: ignore[index]
    assert not peers & set(locked)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
