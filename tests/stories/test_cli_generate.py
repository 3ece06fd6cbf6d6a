"""`minidyn generate` and `minidyn count` from the outside.

Files, formats, wrong requests, hostile names.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from c_compiler import STRICT, needs_gcc
from minidyn.app.cli.main import main
from minidyn.dynamics.record import WHAT


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@needs_gcc
def test_generated_c_computes_what_the_library_computes(tmp_path: Path) -> None:
    result = run("generate", "ur10e", "inverse_dynamics", "--output", tmp_path / "new" / "folder")
    assert result.exit_code == 0, result.output
    paths = [Path(line) for line in result.stdout.splitlines()]
    assert [path.name for path in paths] == ["ur10e_inverse_dynamics.h", "ur10e_inverse_dynamics.c"]
    assert re.search(r"\d+ mul, \d+ add", result.stderr)
    subprocess.run(
        ["gcc", *STRICT, "-shared", "-fPIC", paths[1], "-o", tmp_path / "it.so", "-lm"], check=True
    )
    state = np.random.default_rng(1).normal(size=(3, 6))
    tau = np.zeros(6)
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in (*state, tau)]
    ctypes.CDLL(str(tmp_path / "it.so")).ur10e_inverse_dynamics(*pointers)
    np.testing.assert_allclose(tau, md.inverse_dynamics(md.load("ur10e"), *state), rtol=1e-11)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("python", "scara_regressor.py"),
        ("jax", "scara_regressor_jax.py"),
        ("llvm", "scara_regressor.ll"),
    ],
)
def test_other_targets(target: str, name: str, tmp_path: Path) -> None:
    result = run("generate", "scara", "regressor", "--target", target, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    path = tmp_path / name
    assert result.stdout == f"{path}\n"
    assert list(tmp_path.iterdir()) == [path]  # nothing temporary stays
    text = path.read_text(encoding="ascii")
    assert text == run_again(target, tmp_path, path)
    if target == "python":
        scope: dict[str, object] = {}
        exec(text, scope)  # noqa: S102
        state = np.random.default_rng(2).normal(size=(3, md.load("scara").n))
        np.testing.assert_allclose(
            scope["regressor"](*state), md.regressor(md.load("scara"), *state), atol=1e-12
        )


def run_again(target: str, folder: Path, path: Path) -> str:
    """Overwrite the file and return what it holds."""
    path.write_text(path.read_text(encoding="ascii") + "old")
    assert (
        run("generate", "scara", "regressor", "--target", target, "--output", folder).exit_code == 0
    )
    return path.read_text(encoding="ascii")


def test_parameters_as_an_argument(tmp_path: Path) -> None:
    assert (
        run("generate", "hpr", "inertia_matrix", "--output", tmp_path).exit_code == 2
    )  # hpr has no values
    result = run(
        "generate", "hpr", "inertia_matrix", "--parameters", "argument", "--output", tmp_path
    )
    assert result.exit_code == 0, result.output
    size = len(md.load("hpr").layout)
    assert f"const double parameters[{size}]" in (tmp_path / "hpr_inertia_matrix.h").read_text()


def test_links_get_files_of_their_own(tmp_path: Path) -> None:
    for link in ("link2", "link3"):
        result = run("generate", "puma560", "jacobian", "--link", link, "--output", tmp_path)
        assert result.exit_code == 0, result.output
        assert (tmp_path / f"puma560_jacobian_{link}.c").exists()


def test_base_regressor(tmp_path: Path) -> None:
    result = run("generate", "puma560", "base_regressor", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Y (6, 40)" in (tmp_path / "puma560_base_regressor.c").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("generate", "panda", "inverse_dynamic"), "inverse_dynamics"),
        (("generate", "pand", "inverse_dynamics"), "panda"),
        (("generate", "panda", "inverse_dynamics", "--target", "fortran"), "fortran"),
        (("generate", "panda", "inverse_dynamics", "--link", "link1"), "--link"),
        (("generate", "panda", "jacobian", "--link", "lnk1"), "lnk1"),
        (("generate", "panda", "inertia_matrix", "--parameters", "mine"), "mine"),
        (("generate", "panda", "inertia_matrix", "--output", __file__), "expected a folder"),
        (("count", "panda", "nothing"), "nothing"),
        (("count", "hpr", "inertia_matrix"), "unknown (NaN)"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_counts_of_one_function() -> None:
    data = json.loads(run("count", "panda", "inertia_matrix", "--json").stdout)
    assert data == {"inertia_matrix": md.compile(md.load("panda"), "inertia_matrix").counts}
    text = run("count", "panda", "inertia_matrix").stdout
    assert re.search(
        rf"inertia_matrix\s+{data['inertia_matrix']['mul']}\s+{data['inertia_matrix']['add']}\s+0\s+6",
        text,
    )


def test_counts_of_all_functions() -> None:
    result = run("count", "two_link", "--json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)) == set(WHAT)
    unknown = run("count", "hpr")
    assert unknown.exit_code == 0, unknown.output
    assert re.search(r"inertia_matrix\s+-\s+-", unknown.stdout)
    assert "--parameters argument" in unknown.stderr
    known = run("count", "hpr", "--parameters", "argument")
    assert not re.search(r"inertia_matrix\s+-", known.stdout)
    assert known.stderr == ""


@pytest.mark.parametrize(
    "name", ["../../escaped", '*/ system("x") /*', "a\nb\x1b[31m", "関節 🦾", "x" * 3000, "con"]
)
def test_hostile_names_neither_escape_the_folder_nor_reach_the_terminal(
    name: str, tmp_path: Path
) -> None:
    robot = md.load("two_link")
    joints = tuple(replace(joint, name=f"{name}{k}") for k, joint in enumerate(robot.joints))
    path = tmp_path / "robot.toml"
    md.save(replace(robot, name=name, joints=joints), path)
    folder = tmp_path / "out"
    for target in ("c", "python"):
        result = run("generate", path, "inertia_matrix", "--target", target, "--output", folder)
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
    assert all(
        re.fullmatch(r"[A-Za-z]\w*_inertia_matrix\.(c|h|py)", made.name)
        for made in folder.iterdir()
    )
    assert len(list(folder.iterdir())) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "robot.toml"]
