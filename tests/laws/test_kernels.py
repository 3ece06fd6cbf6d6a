"""Compiled and printed functions of robots.

Every target agrees with every other, and no name escapes into code.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import count
from minidyn.dynamics.record import WHAT
from minidyn.dynamics.sources import TARGETS, c_files, source_name
from minidyn.errors import MinidynError, ShapeError, UnknownName, UnknownParameters, Unsupported
from minidyn.graph.function import evaluate
from minidyn.model.robot import Robot
from robot_cases import formula_robot, random_chain, random_robot, relative_error

HOSTILE = [
    '*/ int injected; /* "; system("x") //',
    "line\nint injected;\r\nbreak",
    '"; system("x"); injected = 1 #',
    '""" injected',
    "../../../tmp/injected",
    "ünïcödé 関節 🦾 \u2028injected\u202e",
    "??/\ninjected \\",
    '#include "injected.h"',
    "__import__('os').system('injected')",
    "%s%n{0}{injected}",
    "\x00\x1b[31minjected",
    "x" * 5000,
]


@dataclass(frozen=True)
class Base:
    """Stands for a base-parameter map: only the names of kept columns are read."""

    kept: tuple[str, ...]
    unmixing: None = None


@cache
def robots() -> dict[str, Robot]:
    return {
        "tree": random_robot(np.random.default_rng(21), 5, followers=True, loads=1, name="tree"),
        "chain": random_chain(22, "RRPR", rotor_inertia=True, friction=("viscous", "coulomb")),
        "one": random_chain(23, "P"),
        "formula": formula_robot(),
    }


def options(robot: Robot, what: str) -> dict[str, object]:
    return {"base": Base(robot.parameter_names[5:9])} if WHAT[what].columns else {}


def state(robot: Robot, what: str, *batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(24)
    return [rng.uniform(-2.0, 2.0, (*batch, robot.n)) for _ in WHAT[what].arguments]


def flat(result: object, at: int | None = None) -> np.ndarray:
    """Return all results of a function (of one sample of a batch) as one vector."""
    parts = result if isinstance(result, tuple) else (result,)
    return np.concatenate([np.ravel(part if at is None else part[at]) for part in parts])


CASES = [
    (name, what, parameters)
    for name in ("tree", "chain", "one", "formula")
    for what in WHAT
    for parameters in (None, "argument")
]


@pytest.mark.parametrize(
    ("name", "what", "parameters"), CASES[:: count(3, 1)]
)  # of every function two robots at least
def test_machine_code_equals_the_reference(name: str, what: str, parameters: str | None) -> None:
    robot = robots()[name]
    kernel = md.compile(robot, what, parameters=parameters, **options(robot, what))
    batch = state(robot, what, 37)
    extra = [robot.parameters] if "parameters" in kernel.arguments else []
    assert bool(extra) == (parameters == "argument" and WHAT[what].parameters)
    expected = evaluate(kernel.function, *batch, *extra)
    assert relative_error(flat(kernel(*batch, *extra)), flat(expected)) < 1e-12
    assert relative_error(flat(kernel(*batch, *extra, threads=2)), flat(expected)) < 1e-12
    assert (
        relative_error(flat(kernel(*[part[5] for part in batch], *extra)), flat(expected, 5))
        < 1e-12
    )


@needs_gcc
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *(("tree", "argument"), ("one", "argument"), ("chain", None), ("formula", None)),
        *(("tree", None), ("one", None), ("chain", "argument"), ("formula", "argument")),
    ][: count(2, 8)],
)
def test_c_compiles_without_a_warning_and_equals_the_reference(
    name: str, parameters: str | None, tmp_path: Path
) -> None:
    robot = robots()[name]
    kernels = {
        what: md.compile(robot, what, parameters=parameters, **options(robot, what))
        for what in WHAT
    }
    files = []
    for what, kernel in kernels.items():
        files.append(tmp_path / f"{what}.c")
        files[-1].write_text(kernel.source("c"), encoding="ascii")
    subprocess.run(
        ["gcc", *STRICT, "-shared", "-fPIC", *files, "-o", tmp_path / "all.so", "-lm"], check=True
    )
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for what, kernel in kernels.items():
        inputs = state(robot, what) + (
            [robot.parameters] if "parameters" in kernel.arguments else []
        )
        results = [np.full(max(1, result.size), np.nan) for result in kernel.function.results]
        arrays = [np.ascontiguousarray(array) for array in (*inputs, *results)]
        pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in arrays]
        getattr(library, source_name(robot, kernel.function))(*pointers)
        expected = flat(evaluate(kernel.function, *inputs))
        assert relative_error(np.concatenate(arrays[len(inputs) :]), expected) < 1e-12


@needs_gcc
def test_the_pair_of_c_files_compiles_too(tmp_path: Path) -> None:
    robot = robots()["chain"]
    for what in ("inverse_dynamics", "inertia_matrix"):
        for name, text in c_files(robot, md.compile(robot, what).function).items():
            (tmp_path / name).write_text(text, encoding="ascii")
    sources = sorted(tmp_path.glob("*.c"))
    assert [path.stem for path in sources] == ["robot_inertia_matrix", "robot_inverse_dynamics"]
    main = tmp_path / "main.c"
    main.write_text(
        '#include "robot_inertia_matrix.h"\n#include "robot_inverse_dynamics.h"\n'
        "int main(void){return 0;}\n"
    )
    subprocess.run(["gcc", *STRICT, *sources, main, "-o", tmp_path / "main", "-lm"], check=True)


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for name, what, own in CASES if own is None]
)
def test_python_source_equals_the_reference(name: str, what: str) -> None:
    robot = robots()[name]
    kernel = md.compile(robot, what, **options(robot, what))
    scope: dict[str, object] = {}
    exec(kernel.source("python"), scope)  # noqa: S102
    inputs = state(robot, what, 3)
    assert (
        relative_error(flat(scope[what](*inputs)), flat(evaluate(kernel.function, *inputs))) < 1e-12
    )


@pytest.mark.parametrize("what", WHAT)
def test_jax_source_equals_the_reference(what: str) -> None:
    jax = pytest.importorskip("jax")
    robot = robots()["chain"]
    kernel = md.compile(robot, what, **options(robot, what))
    scope: dict[str, object] = {}
    exec(kernel.source("jax"), scope)  # noqa: S102
    inputs = state(robot, what, 3)
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        result = flat(scope[what](*inputs))
    finally:
        jax.config.update("jax_enable_x64", before)
    assert relative_error(result, flat(evaluate(kernel.function, *inputs))) < 1e-12


# ---------------------------------------------------------------- the kernel itself


def test_a_kernel_says_what_it_is() -> None:
    robot = robots()["chain"]
    kernel = md.compile(robot, "forward_dynamics", parameters="argument")
    assert kernel.arguments == ("q", "dq", "tau", "parameters")
    assert {"mul", "add", "div", "sincos"} <= set(kernel.counts)
    assert kernel.counts["sincos"] == 2  # the angle about the vertical first axis does not matter
    assert 1 <= kernel.counts["div"] <= 4  # none for a pivot that parameters alone determine
    assert "forward_dynamics" in repr(kernel)
    for target in TARGETS:
        assert "forward_dynamics" in kernel.source(target) or target == "llvm"
    assert "define" in kernel.source("llvm")
    assert robot.fingerprint in kernel.source("c")
    assert f"{kernel.counts['mul']} mul" in kernel.source("c")


def test_counts_of_a_pendulum() -> None:
    pendulum = Robot.from_mdh(
        "R", alpha=[np.pi / 2], parameters=[{"mass": 2.0, "com": (0.7, 0, 0)}]
    )
    counts = md.compile(pendulum, "inverse_dynamics").counts  # ZZ ddq + MX g cos q
    assert (counts["mul"], counts["add"], counts["div"], counts["sincos"]) == (2, 1, 0, 1)


def test_parameters_given_as_an_array_are_baked_in() -> None:
    robot = robots()["chain"]
    other = 2.0 * robot.parameters
    inputs = state(robot, "inverse_dynamics")
    kernel = md.compile(robot, "inverse_dynamics", parameters=other)
    assert relative_error(kernel(*inputs), 2.0 * md.inverse_dynamics(robot, *inputs)) < 1e-12


def test_equal_requests_share_code() -> None:
    robot = robots()["chain"]
    again = random_chain(22, "RRPR", rotor_inertia=True, friction=("viscous", "coulomb"))
    first, second = (md.compile(each, "inertia_matrix") for each in (robot, again))
    assert first.function is second.function
    assert first._native is second._native


def test_the_function_does_not_depend_on_names() -> None:
    robot = robots()["chain"]
    renamed = replace(robot, name="other", link_names=tuple("abcd"))
    assert (
        md.compile(robot, "inertia_matrix").function
        is md.compile(renamed, "inertia_matrix").function
    )


def test_the_same_text_in_every_process() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); import numpy as np; from robot_cases import "
        "random_robot\n"
        "from minidyn import compile\n"
        "robot = random_robot(np.random.default_rng(21), 5, followers=True, loads=1, name='tree')\n"
        "print(compile(robot, 'regressor').source('c') + compile(robot, "
        "'coriolis_matrix').source('llvm'))\n"
    )
    root = Path(__file__).parents[2]
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    robot = robots()["tree"]
    here = md.compile(robot, "regressor").source("c") + md.compile(robot, "coriolis_matrix").source(
        "llvm"
    )
    assert texts == {here.encode() + b"\n"}


def test_llvm_text_stands_alone() -> None:
    import llvmlite.binding as llvm

    for what in ("inverse_dynamics", "regressor"):
        text = md.compile(robots()["tree"], what).source("llvm")
        assert "inttoptr (" not in text  # an address of this process
        module = llvm.parse_assembly(text)
        module.verify()
        assert {function.name for function in module.functions if function.is_declaration} <= {
            "sin",
            "cos",
            "atan2",
            "malloc",
            "free",
            "memcpy",  # of the C library, as the others
            *(f.name for f in module.functions if f.name.startswith("llvm.")),
        }


def test_what_is_wrong_is_told() -> None:
    robot = robots()["chain"]
    with pytest.raises(UnknownName, match="inverse_dynamics"):
        md.compile(robot, "inverse_dynamic")
    with pytest.raises(UnknownName):
        md.compile(robot, 3)
    with pytest.raises(UnknownName, match="argument"):
        md.compile(robot, "inertia_matrix", parameters="arguments")
    with pytest.raises(ShapeError, match="parameters"):
        md.compile(robot, "inertia_matrix", parameters=[1.0])
    with pytest.raises(MinidynError, match="infinite"):
        md.compile(robot, "inertia_matrix", parameters=np.full(len(robot.layout), np.inf))
    with pytest.raises(UnknownParameters, match="ZZ1"):
        md.compile(robot.with_parameters(None), "inertia_matrix")
    with pytest.raises(MinidynError, match="base"):
        md.compile(robot, "base_regressor")
    for threads in (0, -1, 1.5, True, "2"):
        with pytest.raises(MinidynError, match="threads"):
            md.compile(robot, "inertia_matrix", threads=threads)
    with pytest.raises(UnknownName, match="python"):
        md.compile(robot, "inertia_matrix").source("pyton")
    with pytest.raises(UnknownName):
        md.compile(robot, "jacobian", link="nothing")
    with pytest.raises(TypeError, match="q"):
        md.compile(robot, "inertia_matrix")()
    with pytest.raises(ShapeError, match="q"):
        md.compile(robot, "inertia_matrix")(np.zeros(5))


def test_threads_give_the_same_result() -> None:
    robot = robots()["chain"]
    batch = state(robot, "regressor", 20_000)
    one = md.compile(robot, "regressor")(*batch)
    assert np.array_equal(md.compile(robot, "regressor", threads=2)(*batch), one)


def test_kernels_of_frames() -> None:
    robot = robots()["tree"]
    q = state(robot, "jacobian", 4)[0]
    for frame in robot.frames:
        kernel = md.compile(robot, "jacobian", link=frame.name)
        assert relative_error(kernel(q), md.jacobian(robot, q, frame.name)) < 1e-13


def test_loops_that_must_be_solved_cannot_be_compiled() -> None:
    from random_robots import looped_robot

    with pytest.raises(Unsupported, match="open_loops"):
        md.compile(looped_robot(), "inertia_matrix")


# ---------------------------------------------------------------- names from strangers


def hostile_robot(name: str) -> Robot:
    robot = random_chain(25, "RP", friction=("coulomb",))
    joints = tuple(
        replace(joint, name=f"{name}{k}" if k else name) for k, joint in enumerate(robot.joints)
    )
    links = tuple(f"{name} link{k}" for k in range(2))
    return replace(robot, name=name, joints=joints, link_names=links, base_name=f"{name} base")


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_comments(name: str, tmp_path: Path) -> None:
    kernel = md.compile(hostile_robot(name), "inverse_dynamics")
    for target in ("c", "h", "python", "jax"):
        text = kernel.source(target)
        assert text.isascii()
        assert text.isprintable() or set(text) - set(map(chr, range(32, 127))) == {"\n"}
        assert max(map(len, text.splitlines())) < 400
    c = without_comments(kernel.source("c"))
    code = re.sub(
        r"\b[A-Za-z_]\w*", "", c
    )  # a robot's name may be part of an identifier, nothing else
    assert "injected" not in code
    assert "system(" not in c
    assert re.findall(r"#include.*", c) == ["#include <math.h>"]
    python = "\n".join(line.split("#")[0] for line in kernel.source("python").splitlines())
    assert "injected" not in python
    scope: dict[str, object] = {}
    exec(kernel.source("python"), scope)  # noqa: S102
    assert "injected" not in scope
    for file in c_files(kernel.robot, kernel.function):
        assert re.fullmatch(r"[A-Za-z]\w{0,62}\.[ch]", file)
        assert "inverse_dynamics" in file


@needs_gcc
def test_code_of_hostile_robots_compiles(tmp_path: Path) -> None:
    files = []
    for number, name in enumerate(HOSTILE):
        kernel = md.compile(hostile_robot(name), "inverse_dynamics")
        files.append(tmp_path / f"{number}.c")
        files[-1].write_text(kernel.source("c"), encoding="ascii")
    subprocess.run(["gcc", *STRICT, "-c", *files], check=True, cwd=tmp_path)
    symbols = subprocess.run(
        ["nm", *tmp_path.glob("*.o")], check=True, capture_output=True, text=True
    ).stdout
    assert " injected\n" not in symbols
    assert " system\n" not in symbols
