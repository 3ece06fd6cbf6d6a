"""Code of the minimal model: printed, it has exactly the counted operations.

It computes what the full model does.
"""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from chain_cases import special_chain

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import count
from minidyn.arrays import Array
from minidyn.base.minimal_functions import program_for
from minidyn.codegen.files import TARGETS, code_files, function_for
from minidyn.dynamics import functions
from minidyn.dynamics.papers.minimal import MINIMAL_WHAT
from minidyn.dynamics.record import WHAT
from minidyn.errors import MinidynError, NotEquivalent, UnknownName, Unsupported
from minidyn.graph.targets.text import split_uniform
from minidyn.papers import operation_count
from robot_cases import random_chain, random_robot, random_state, relative_error

FUNCTIONS = [what for what in MINIMAL_WHAT if what in WHAT]
NUMBERS = {"RX-90": ("rx90", {"inertia_matrix": (112, 92), "inverse_dynamics": (229, 215)})}


def operations_in(text: str, function: str) -> tuple[int, int]:
    """Multiplications and additions in the text of one C function.

    Nothing else may stand there but sines, cosines and divisions, which count as multiplications.
    """
    body = re.search(rf"^void {function}\([^)]*\)\n\{{\n(.*?)^\}}$", text, re.MULTILINE | re.DOTALL)
    assert body is not None, function
    mul = add = 0
    for line in body[1].splitlines():
        if line.startswith("    (void)"):
            continue
        target, _, expression = line.strip().rstrip(";").partition(" = ")
        assert target.startswith("const double ") or target.endswith("]"), line
        for node in ast.walk(ast.parse(expression, mode="eval")):
            if isinstance(node, ast.BinOp):
                assert isinstance(node.op, ast.Mult | ast.Add | ast.Sub | ast.Div), line
                mul, add = (
                    mul + isinstance(node.op, ast.Mult | ast.Div),
                    add + isinstance(node.op, ast.Add | ast.Sub),
                )
            elif isinstance(node, ast.Call):
                assert ast.unparse(node.func) in ("sin", "cos"), line
    return mul, add


@pytest.mark.parametrize("what", ["inertia_matrix", "inverse_dynamics"])
def test_the_text_of_the_c_file_has_the_counted_operations(what: str) -> None:
    name, expected = NUMBERS["RX-90"]
    robot = md.load(name)
    texts = code_files(robot, function_for(robot, what, base=True), "c")
    assert operations_in(texts[f"{name}_{what}.c"], f"{name}_{what}_prepared") == expected[what]
    kernel = md.compile(robot, what, base=md.base_parameters(robot), parameters="argument")
    assert operations_in(kernel.source("c"), f"{name}_{what}_prepared") == expected[what]
    first = str(md.base_parameters(robot).relations()[0]).replace("²", "^2")
    assert f"beta[0]: {first}\n" in texts[f"{name}_{what}.h"]


@pytest.mark.parametrize("seed", range(count(3, 60)))
def test_printed_is_counted_on_random_chains(seed: int) -> None:
    robot = special_chain(seed + 900, 4)
    wanted = [(what, None) for what in FUNCTIONS] + [
        (what, number) for what in ("inertia_matrix", "forward_dynamics") for number in range(1, 7)
    ]
    for what, number in wanted:
        kernel = md.compile(
            robot, what, base=md.base_parameters(robot), parameters="argument", formulation=number
        )
        parts = split_uniform(kernel.function)
        name = f"chain_{seed + 900}_{what}" + ("_prepared" if parts else "")
        assert operations_in(kernel.source("c"), name) == operation_count(robot, what, number), (
            what,
            number,
        )


def test_a_tree_is_counted_as_it_is_printed() -> None:
    robot = random_robot(
        np.random.default_rng(2), 4, drives=False, branches=True, special=True, name="tree"
    )
    base = md.base_parameters(robot)
    for what in FUNCTIONS:
        function = program_for(robot, what, base, None, "argument")
        counts = function.counts
        assert (counts["mul"] + counts["div"], counts["add"]) == operation_count(robot, what)


def call_c(
    folder: Path, texts: dict[str, str], names: list[str], sizes: list[int], inputs: list[Array]
) -> Array:
    """Compile C files with every warning an error.

    Call one function after another, each on the result before it.
    """
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii")
    command = [
        "gcc",
        *STRICT,
        "-shared",
        "-fPIC",
        *(str(folder / n) for n in texts if n.endswith(".c")),
    ]
    subprocess.run([*command, "-o", str(folder / "code.so"), "-lm"], check=True)
    library = ctypes.CDLL(str(folder / "code.so"))
    handed: list[Array] = []
    for name, size in zip(names, sizes):
        result = np.empty(size)
        last = name == names[-1]
        given = [*(inputs[:-1] if last else []), *(handed or inputs[-1:]), result]
        getattr(library, name)(
            *[array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in given]
        )
        handed = [result]
    return handed[0]


def state_of(what: str, state: tuple[Array, Array, Array]) -> list[Array]:
    return [
        np.ascontiguousarray(state[min(("q", "dq", "ddq", "tau").index(name), 2)])
        for name in WHAT[what].arguments
    ]


@needs_gcc
@pytest.mark.parametrize("seed", range(count(3, 80)))
def test_generated_c_is_the_full_model(seed: int, tmp_path: Path) -> None:
    """Drives, frames of files and mixed joints.

    The parts called by hand and the whole give the same.
    """
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, 3, branches=seed % 4 == 3, special=seed % 2 == 0, name="arm")
    state = random_state(robot, rng)
    for what in FUNCTIONS:
        base = md.base_parameters(robot)
        try:
            function = function_for(robot, what, base=True)
        except NotEquivalent:  # a weight that never changes is one with a drive's offset
            both = np.concatenate([base.matrix, md.base_parameters(robot, model="gravity").matrix])
            assert (what, np.linalg.matrix_rank(both) > base.rank) == ("gravity_torque", True)
            continue
        texts, size = code_files(robot, function, "c"), function.results[0].size
        inputs = [*state_of(what, state), base.values()]
        expected = getattr(functions, what)(robot, *inputs[:-1])
        scale = (
            np.abs(functions.inverse_dynamics(robot, *state)).max()
            if "torque" in what
            else np.abs(expected).max()
        )
        folder = tmp_path / what
        folder.mkdir()
        found = call_c(folder, texts, [f"arm_{what}"], [size], inputs)
        assert np.abs(found.reshape(expected.shape) - expected).max() <= 1e-9 * scale, what
        parts = split_uniform(function)
        if parts:
            names = [f"arm_{what}_prepare", f"arm_{what}_prepared"]
            found = call_c(folder, texts, names, [parts[0].results[0].size, size], inputs)
            assert np.abs(found.reshape(expected.shape) - expected).max() <= 1e-9 * scale, what


@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target: str) -> None:
    robot = random_chain(5, "RRPR", name="arm")
    base = md.base_parameters(robot)
    q = random_state(robot, np.random.default_rng(1), 3)[0]
    for number in (None, 3):
        texts = code_files(
            robot, function_for(robot, "inertia_matrix", formulation=number, base=True), target
        )
        assert texts
        assert all(texts.values())
        if target in ("python", "jax"):
            scope: dict[str, object] = {}
            exec(next(iter(texts.values())), scope)  # noqa: S102 (our own text)
            compute = scope["inertia_matrix"]
            M = np.asarray(compute(q, base.values()))  # type: ignore[operator]
            single = (
                1e-4 if target == "jax" else 1e-12
            )  # JAX computes in float32 unless told otherwise
            assert relative_error(M, functions.inertia_matrix(robot, q)) < single


def test_values_baked_in_cost_no_more() -> None:
    robot = random_chain(7, "RPR", name="arm")
    base = md.base_parameters(robot)
    state = random_state(robot, np.random.default_rng(3), 4)
    for what in FUNCTIONS:
        inputs, free = (
            state_of(what, state),
            md.compile(robot, what, base=base, parameters="argument"),
        )
        beta = 1.5 * base.values()
        baked, own = (
            md.compile(robot, what, base=base, parameters=beta),
            md.compile(robot, what, base=base),
        )
        assert baked.arguments == WHAT[what].arguments
        assert free.arguments == (*WHAT[what].arguments, "beta")
        assert baked.counts["mul"] + baked.counts["add"] <= free.counts["mul"] + free.counts["add"]
        scale = max(1.0, float(np.abs(functions.inverse_dynamics(robot, *state)).max()))
        assert np.abs(baked(*inputs) - free(*inputs, beta)).max() < 1e-11 * scale
        assert np.abs(own(*inputs) - getattr(functions, what)(robot, *inputs)).max() < 1e-11 * scale


def test_misuse_is_explained() -> None:
    robot = random_chain(3, "RRR")
    base = md.base_parameters(robot)
    with pytest.raises(MinidynError, match="not of inverse_dynamics"):
        md.compile(robot, "inverse_dynamics", base=base, formulation=2)
    with pytest.raises(UnknownName, match="formulation"):
        md.compile(robot, "inertia_matrix", base=base, formulation=9)
    with pytest.raises(MinidynError, match="give base="):
        md.compile(robot, "inertia_matrix", formulation=2, parameters="argument")
    with pytest.raises(MinidynError, match="shape"):
        md.compile(robot, "inertia_matrix", base=base, parameters=[1.0])
    with pytest.raises(MinidynError, match="not built like"):
        md.compile(random_chain(4, "RRR"), "inertia_matrix", base=base)
    with pytest.raises(Unsupported, match="--base is for"):
        function_for(robot, "jacobian", base=True)
    assert (
        relative_error(
            md.compile(robot, "inertia_matrix", formulation=2)([0, 0, 0]),
            md.inertia_matrix(robot, [0, 0, 0]),
        )
        < 1e-12
    )
