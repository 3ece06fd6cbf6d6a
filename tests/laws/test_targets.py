"""Every target computes what the recursion itself computes, and no user's text reaches generated
code.
"""

from __future__ import annotations

import ast
import ctypes
import keyword
import re
import shutil
import subprocess

import numpy as np
import pytest
from random_programs import Program, close, samples

from c_compiler import STRICT, needs_gcc
from minidyn.graph.function import (
    Argument,
    Function,
    Instruction,
    Result,
    evaluate,
    fresh_prefix,
    safe_identifier,
)
from minidyn.graph.scalar import Graph, atan2, cos, sign, sin, sqrt
from minidyn.graph.targets.c import c_name, c_source
from minidyn.graph.targets.python import jax_source, python_source
from minidyn.text import safe_comment

HOSTILE = [
    "*/ int injected(void) { return 1; } /*",
    "*\\\n/ int injected;",
    "??/\nint injected;",
    "// \\",
    '"; import os; injected = 1 #',
    '""" injected = 1',
    "\r\nint injected;\n",
    "\x00int injected;",
    "\u2028injected = 1\u2029",
    "\u202e injected \u2066",
    "coding: utf-7",
    "{0} {injected!r} %s %n",
    "é\N{COMBINING ACUTE ACCENT}\U0001f916",
    "\ud800",
    "x" * 10_000,
]
WORDS = """
    double int restrict class template nullptr lambda None yield async match gamma y1 j0 index printf main
    exp sin NAN NULL I M_PI M_PI_2 M_SQRT2 HUGE_VALF linux errno t1 t2 tt1 x each batch np jnp sign_of 1st
    __a a__b _Bool _x E e É é
"""  # noqa: E501
AWKWARD = WORDS.split()


def compile_c(folder, functions, **options):
    """Return the library of all functions, compiled with every warning an error."""
    for function in functions:
        header, source = c_source(function, **options)
        name = c_name(function, options.get("prefix", ""))
        (folder / f"{name}.h").write_text(header, encoding="ascii")
        (folder / f"{name}.c").write_text(source, encoding="ascii")
    command = ["gcc", *STRICT, "-shared", "-fPIC", *map(str, sorted(folder.glob("*.c")))]
    done = subprocess.run(
        [*command, "-o", folder / "all.so", "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:2000]
    return ctypes.CDLL(str(folder / "all.so"))


def call_c(library, function, inputs, prefix=""):
    """Return the results of the C function, sample by sample."""
    routine = getattr(library, c_name(function, prefix))
    routine.restype = None
    batch = len(inputs[0]) if inputs else 1
    results = [np.full((batch, result.size), 7.0) for result in function.results]
    arrays = [np.ascontiguousarray(array, dtype=float) for array in (*inputs, *results)]
    for k in range(batch):
        routine(*[ctypes.c_void_p(array.ctypes.data + k * array.strides[0]) for array in arrays])
    return [
        array.reshape(batch, *r.shape) for array, r in zip(arrays[len(inputs) :], function.results)
    ]


def run_source(text, name):
    """Return the function that a generated module defines."""
    scope = {}
    exec(compile(text, "generated", "exec"), scope)  # noqa: S102
    return scope[name]


@needs_gcc
def test_c_agrees_with_direct_execution(tmp_path):
    programs = [Program(seed) for seed in range(12)]
    functions = [program.record(f"program_{seed}") for seed, program in enumerate(programs)]
    library = compile_c(tmp_path, functions)
    for seed, (program, function) in enumerate(zip(programs, functions)):
        inputs = samples(seed, 6)
        close(call_c(library, function, inputs), program.direct(inputs))


@pytest.mark.parametrize("seed", range(12))
def test_python_agrees_with_direct_execution(seed):
    program, inputs = Program(seed), samples(seed, 6)
    call = run_source(python_source(program.record()), "program")
    expected = program.direct(inputs)
    close(call(*inputs), expected)
    close(call(*[array[2] for array in inputs]), [array[2] for array in expected])
    wide = [array.reshape(2, 3, -1) for array in inputs]
    close(call(*wide), [array.reshape(2, 3, *array.shape[1:]) for array in expected])
    with pytest.raises(ValueError, match="q has shape"):
        call(inputs[0][:, :3], *inputs[1:])


@pytest.fixture
def x64():
    """Switch 64-bit floats on in JAX for one test."""
    jax = pytest.importorskip("jax")
    switch = getattr(jax, "enable_x64", None)
    if switch is None:
        from jax.experimental import enable_x64 as switch
    with switch(True):
        yield jax


@pytest.mark.parametrize("seed", range(3))
def test_jax_agrees_with_direct_execution(seed, x64):
    program, inputs = Program(seed, length=30), samples(seed, 5)
    function, expected = program.record(), program.direct(inputs)
    call = run_source(jax_source(function), "program")
    close(call(*inputs), expected)
    close(x64.jit(call)(*inputs), expected)
    close(x64.vmap(call)(*inputs), expected)
    assert all(array.dtype == np.float64 for array in call(*inputs))


def test_jax_is_right_on_large_batches(x64):
    function, inputs = Program(5).record(), samples(5, 10_000)
    close(
        x64.jit(run_source(jax_source(function), "program"))(*inputs), evaluate(function, *inputs)
    )


def test_jax_differentiates(x64):
    function, inputs = Program(4, length=25, smooth=True).record(), samples(4, 1)
    q, *rest = [array[0] for array in inputs]
    source = run_source(jax_source(function), "program")
    for call in (source, x64.jit(source)):
        gradient = x64.grad(lambda q, call=call: call(q, *rest)[2])(q)
        for k in range(4):
            moved = q.astype(complex)
            moved[k] += 1e-30j
            assert gradient[k] == pytest.approx(
                evaluate(function, moved, *rest)[2].imag / 1e-30, rel=1e-10
            )


def test_jax_keeps_the_precision_it_is_given_and_refuses_wrong_shapes(x64):
    graph = Graph()
    q = graph.inputs("q", 2)
    function = graph.function("f", {"y": [q[0] * 2.5, 1.0]})
    source = run_source(jax_source(function), "f")
    for call in (source, x64.jit(source)):
        assert call(np.zeros((3, 2), np.float32)).dtype == np.float32
        assert call(np.zeros((3, 2), np.int32)).dtype == np.float64
        with pytest.raises(ValueError, match="q has shape"):
            call(np.zeros(3))


def awkward_function():
    """Every corner at once.

    No scalars, one scalar, constants, an unused argument, NaN-keeping operations.
    """
    graph = Graph()
    q, _, _, p = (
        graph.inputs("q", 3),
        graph.inputs("unused", 2),
        graph.inputs("none", 0),
        graph.inputs("t1", 1),
    )
    y = [
        [sign(q[0]), sqrt(q[1]), atan2(q[2], q[0])],
        [-q[0], -0.1, 1e-5 * p[0]],
        [q[2], q[1], q[0]],
    ]
    return graph.function("awkward", {"y": y, "nothing": [], "e": sin(q[0]) - cos(q[0])})


@pytest.mark.filterwarnings("ignore:invalid value")
def test_corners_and_nan_are_the_same_everywhere(tmp_path, x64):
    function = awkward_function()
    values = [0.0, -0.0, 2.5, -1.5, np.nan, np.inf, -np.inf, 1e-290, 1e300]
    rng = np.random.default_rng(0)
    inputs = [
        rng.choice(values, size=(60, 3)),
        np.zeros((60, 2)),
        np.zeros((60, 0)),
        rng.choice(values, size=(60, 1)),
    ]
    expected = evaluate(function, *inputs)
    assert np.isnan(expected[0][np.isnan(inputs[0][:, 0]), 0, 0]).all()
    calls = [
        run_source(python_source(function), "awkward"),
        run_source(jax_source(function), "awkward"),
    ]
    if shutil.which("gcc"):
        library = compile_c(tmp_path, [function])
        calls.append(lambda *arrays: call_c(library, function, arrays))
    for call in calls:
        for actual, wanted in zip(call(*inputs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-14)


@needs_gcc
def test_c_takes_overlapping_arrays(tmp_path):
    graph = Graph()
    a, b = graph.inputs("q", 2)
    function = graph.function("swap", {"y": [b, a]})
    array = np.array([1.0, 2.0])
    address = ctypes.c_void_p(array.ctypes.data)
    compile_c(tmp_path, [function]).swap(address, address)
    np.testing.assert_array_equal(array, [2.0, 1.0])


@needs_gcc
def test_constants_keep_every_bit(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**63, size=200, dtype=np.uint64)
    values = bits.view(np.float64)
    values = np.concatenate(
        [values[np.isfinite(values)], [5e-324, 2.2e-308, 1.7976931348623157e308, 0.1, 1 / 3]]
    )
    values = np.concatenate([values, -values])
    graph = Graph()
    graph.inputs("q", 1)
    function = graph.function("constants", {"y": values.tolist()})
    (actual,) = call_c(compile_c(tmp_path, [function]), function, [np.zeros((1, 1))])
    assert (actual[0].view(np.uint64) == values.view(np.uint64)).all()
    python = run_source(python_source(function), "constants")([0.0])
    assert (python.view(np.uint64) == values.view(np.uint64)).all()


@needs_gcc
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_header_serves_cpp(tmp_path):
    function = Program(0).record("kernel")
    compile_c(tmp_path, [function], prefix="robot_")
    (tmp_path / "user.cpp").write_text(
        '#include "robot_kernel.h"\n#include "robot_kernel.h"\n'
        "int main() { double q[9] = {}; robot_kernel(q, q, q, q, q, q); return 0; }\n"
    )
    command = [
        "g++",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "user.cpp",
        "./all.so",
        "-o",
        "user",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_head_states_comments_and_counts():
    function = Program(1).record()
    counts = function.counts
    for text in (
        *c_source(function, comments=["UR5 abc123"]),
        python_source(function, comments=["UR5 abc123"]),
    ):
        assert "UR5 abc123" in text
        assert f"{counts['mul']} mul, {counts['add']} add, {counts['div']} div" in text
        assert function.fingerprint in text


@needs_gcc
def test_hostile_names_and_comments_stay_harmless(tmp_path):
    functions = []
    for text in HOSTILE + AWKWARD:
        graph = Graph()
        q, p = graph.inputs(text, 2), graph.inputs(text, 1, uniform=True)
        results = {text: sin(q[0]) * p[0] + sign(q[1]), text + "_": [q[0]]}
        functions.append(graph.function(text, results))
        names = [each.name for each in (*functions[-1].arguments, *functions[-1].results)]
        assert len(set(names)) == 4
    for number, function in enumerate(functions):
        prefix = f"{HOSTILE[number % len(HOSTILE)][:20]} {number} "
        folder = tmp_path / str(number)
        header, source = c_source(function, prefix=prefix, comments=HOSTILE)
        python = python_source(function, comments=HOSTILE)
        assert (header + source + python + jax_source(function, comments=HOSTILE)).isascii()
        body = ast.parse(python).body
        assert [type(part).__name__ for part in body] == ["Expr", "Import", "FunctionDef"]
        if number in (0, 1, 2, 6, len(HOSTILE) + 3):
            folder.mkdir()
            library = compile_c(folder, [function], prefix=prefix, comments=HOSTILE)
            inputs = [np.array([[0.3, -0.4]]), np.array([[2.0]])]
            expected = evaluate(function, *inputs)
            close(call_c(library, function, inputs, prefix), expected)
            close(run_source(python, body[-1].name)(*inputs), expected)
            for path in folder.glob("*.[ch]"):
                command = ["gcc", "-fpreprocessed", "-E", "-P", path]
                code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                assert "void" in code
                assert not re.search(r"injected(?!_)", re.sub(r"\b\w*injected\w+", "", code))


@needs_gcc
def test_functions_made_by_hand_are_printed_safely_too(tmp_path):
    hostile = HOSTILE[0]
    tape = (
        Instruction("input", (), (0, 0)),
        Instruction("input", (), (1, 0)),
        Instruction("sub", (0, 1)),
    )
    arguments = (Argument(hostile, 1), Argument(hostile, 1))
    function = Function(hostile, arguments, (Result(hostile, ()),), tape, ((2,),))
    inputs = [np.array([[5.0]]), np.array([[3.0]])]
    (result,) = call_c(compile_c(tmp_path, [function]), function, inputs)
    assert result.tolist() == [2.0]
    assert run_source(python_source(function), c_name(function))(*inputs).tolist() == [2.0]


@needs_gcc
def test_library_names_do_not_clash_with_the_compiler(tmp_path):
    functions = []
    for text in AWKWARD:
        graph = Graph()
        x = graph.inputs(text, 2)
        functions.append(graph.function(text, {text: sin(x[0]) + cos(x[1]), text + " f": 1.0}))
    names = {}
    for function in functions:
        names.setdefault(c_name(function), function)
    library = compile_c(tmp_path, names.values())
    for function in names.values():
        result, _ = call_c(library, function, [np.array([[0.5, 1.0]])])
        assert result[0] == pytest.approx(np.sin(0.5) + np.cos(1.0))


def test_identifiers_are_safe_unique_and_stable():
    taken = []
    for text in (HOSTILE + AWKWARD) * 3 + ["", "_", "___", "9", "ß", "関節", "a-b", "a b"]:
        name = safe_identifier(text, taken)
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name)
        assert "__" not in name
        assert not keyword.iskeyword(name)
        assert name not in taken
        assert safe_identifier(name) == name
        taken.append(name)
    assert safe_identifier("shoulder_pan_joint") == "shoulder_pan_joint"
    assert safe_identifier("shoulder pan") == "shoulder_pan"
    assert safe_identifier("Gelenk ä") == "Gelenk_a"
    assert safe_identifier("_joint") == "joint"
    assert safe_identifier("double") == "double_"
    assert safe_identifier("M_SQRT1_2") == "M_SQRT1_2_"  # a macro unless the compiler is strict
    assert safe_identifier("q", ["q", "q_v2"]) == "q_v3"
    assert fresh_prefix("t", ["t1", "tt22", "tau"]) == "ttt"


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_are_one_harmless_line(text):
    line = safe_comment(text)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert line.isascii()
    assert not set("*\\?") & set(line)
    assert len(line) < 2_500
    assert safe_comment("UR5 / panda.urdf (v1.2)") == "UR5 / panda.urdf (v1.2)"
