"""The CUDA that is printed, compiled as C++ and run without a GPU, computes what machine code
computes.
"""

from __future__ import annotations

import numpy as np
import pytest
from cuda_shim import needs_compiler, run_by_shim
from random_programs import Program, close, samples
from random_robots import random_tree

import minidyn as md
from minidyn.errors import MinidynError
from minidyn.graph.function import Function, evaluate
from minidyn.graph.targets.cuda.source import LAYOUTS, TYPES, block_of, cuda_source
from minidyn.graph.targets.text import split_uniform


def compiled(folder, function: Function, dtype: str, layout: str):
    """Return the printed kernel as a function of arrays, run by the shim."""
    text = cuda_source(function, dtype=dtype, layout=layout)
    name = (
        text.rsplit("__launch_bounds__(", 1)[1].split(") ")[1].split("(")[0]
    )  # of all parts the last
    block = block_of(function, layout)
    pointers = ", ".join(
        f"(md_real *)p[{k + 2}]" for k in range(len(function.arguments) + len(function.results))
    )
    launch = f"""
    const long long count = *(long long *)p[0];
    const unsigned one = *(unsigned *)p[1];
    blocks((count + {block - 1}) / {block}, {block}, [=] {{ {name}(count, one, {pointers}); }});
    """
    entry = run_by_shim(folder, text, launch)

    def call(*arrays):
        kind = np.dtype(dtype)
        rows = layout == "rows"
        one = sum(1 << k for k, array in enumerate(arrays) if array.ndim == 1)
        batch = max(len(array) for array in arrays if array.ndim == 2)
        given = [
            np.ascontiguousarray(array if rows or array.ndim == 1 else array.T, dtype=kind)
            for array in arrays
        ]
        sizes = [result.size for result in function.results]
        guard = [
            np.full((batch + 8) * size, 7.5, dtype=kind) for size in sizes
        ]  # nothing is written behind the end
        entry(np.array([batch], dtype=np.int64), np.array([one], dtype=np.uint32), *given, *guard)
        found = []
        for size, result, flat in zip(sizes, function.results, guard):
            assert np.all(flat[batch * size :] == 7.5)
            values = flat[: batch * size]
            values = values.reshape(batch, size) if rows else values.reshape(size, batch).T
            found.append(values.reshape(batch, *result.shape))
        return tuple(found)

    return call


@needs_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_printed_cuda_computes_random_programs(tmp_path, dtype, layout) -> None:
    for seed in range(2):
        function = Program(seed, smooth=dtype == "float32").record()
        arrays = samples(seed, 70)
        found = compiled(tmp_path, function, dtype, layout)(*arrays)
        close(found, evaluate(function, *arrays), 1e-12 if dtype == "float64" else 1e-4)


@needs_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "what", ["inverse_dynamics", "inertia_matrix", "forward_dynamics", "base_regressor"]
)
def test_printed_cuda_computes_random_robots(tmp_path, what, layout) -> None:
    rng = np.random.default_rng(5)
    for seed in (1, 2):
        robot = random_tree(np.random.default_rng(seed), joints=4)
        base = md.base_parameters(robot) if what == "base_regressor" else None
        kernel = md.compile(robot, what, base=base)
        call = compiled(tmp_path, kernel.function, "float64", layout)
        arrays = [rng.normal(size=(45, argument.size)) for argument in kernel.function.arguments]
        expected = kernel(*arrays)
        (found,) = call(*arrays)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@needs_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_are_one_for_all_or_one_a_sample(tmp_path, layout) -> None:
    robot = md.load("scara")
    kernel = md.compile(robot, "inverse_dynamics", parameters="argument")
    call = compiled(tmp_path, kernel.function, "float64", layout)
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, 40, robot.n))
    own = np.asarray(robot.parameters)
    many = own * rng.uniform(0.5, 2.0, size=(40, len(own)))
    (found,) = call(q, dq, ddq, own)
    np.testing.assert_allclose(found, md.inverse_dynamics(robot, q, dq, ddq), atol=1e-12 * 100)
    (found,) = call(q, dq, ddq, many)
    each = [md.inverse_dynamics(robot, q[k], dq[k], ddq[k], many[k]) for k in range(40)]
    np.testing.assert_allclose(found, each, atol=1e-12 * 100)


@needs_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_depends_on_parameters_alone_is_a_kernel_of_its_own(tmp_path, layout) -> None:
    """NAME_prepare for one sample and NAME_prepared for all give what NAME gives."""
    kernel = md.compile(md.load("scara"), "inertia_matrix", parameters="argument")
    function, (prepare, prepared) = kernel.function, split_uniform(kernel.function)
    text = cuda_source(function, layout=layout)
    for name in ("inertia_matrix_prepare", "inertia_matrix_prepared", "inertia_matrix"):
        assert f") {name}(" in text
    assert "_prepare(" not in cuda_source(function, layout=layout, split=False)
    blocks = [block_of(part, layout) for part in (prepare, prepared)]
    call = f"""
    md_real *q = (md_real *)p[0], *phi = (md_real *)p[1], *handed = (md_real *)p[2], *M = (md_real *)p[3];
    blocks(1, {blocks[0]}, [=] {{ inertia_matrix_prepare(1, 0, phi, handed); }});
    blocks((90 + {blocks[1] - 1}) / {blocks[1]}, {blocks[1]}, [=] {{ inertia_matrix_prepared(90, 2, q, handed, M); }});
    """  # noqa: E501
    robot, rng = kernel.robot, np.random.default_rng(0)
    q, phi, n = rng.normal(size=(90, robot.n)), np.asarray(robot.parameters), robot.n
    found, handed = np.full(90 * n * n, np.nan), np.full(prepare.results[0].size, np.nan)
    given = np.ascontiguousarray(q if layout == "rows" else q.T)
    run_by_shim(tmp_path, text, call)(given, phi, handed, found)
    M = found.reshape(90, n, n) if layout == "rows" else np.moveaxis(found.reshape(n, n, 90), -1, 0)
    expected = kernel(q, phi)
    np.testing.assert_allclose(M, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_symmetric_results_may_be_packed() -> None:
    for name in ("scara", "ur10e"):
        robot = md.load(name)
        q = np.random.default_rng(0).normal(size=(20, robot.n))
        rows, columns = np.triu_indices(robot.n)
        kernel = md.compile(robot, "inertia_matrix", packed=True)
        np.testing.assert_allclose(
            kernel(q), md.inertia_matrix(robot, q)[:, rows, columns], atol=1e-12
        )
        base = md.base_parameters(robot)
        small = md.compile(robot, "inertia_matrix", base=base, parameters="argument", packed=True)
        np.testing.assert_allclose(small(q, base.values(robot.parameters)), kernel(q), atol=1e-10)
    with pytest.raises(MinidynError, match="symmetric"):
        md.compile(robot, "coriolis_matrix", packed=True)


def test_cuda_asks_for_what_is_there() -> None:
    robot = md.load("scara")
    with pytest.raises(MinidynError, match="native, cuda"):
        md.compile(robot, "inverse_dynamics", target="vulkan")
    with pytest.raises(MinidynError, match="float64"):
        md.compile(robot, "inverse_dynamics", target="cuda", dtype="float16")
    with pytest.raises(MinidynError, match="components"):
        md.compile(robot, "inverse_dynamics", target="cuda", layout="columns")
    with pytest.raises(MinidynError, match="dtype and layout"):
        md.compile(robot, "inverse_dynamics", dtype="float32")
    kernel = md.compile(
        robot, "inverse_dynamics", target="cuda", dtype="float32", layout="components"
    )
    assert "typedef float md_real;" in kernel.source("cuda")
    assert "md_step" in kernel.source("cuda")
    with pytest.raises(MinidynError, match=r"minidyn\[cuda\]|no NVIDIA GPU"):
        kernel(*np.zeros((3, robot.n)))
