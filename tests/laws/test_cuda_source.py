"""The CUDA that is printed, compiled as C++ with 32 threads for a warp, computes what machine code computes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from random_programs import Program, close, samples
from random_robots import random_tree

import minidyn as md
from minidyn.errors import MinidynError
from minidyn.graph.function import Function, evaluate
from minidyn.graph.targets.cuda.source import LAYOUTS, TYPES, block_of, cuda_source

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

SHIM = """
#include <math.h>
#include <barrier>
#include <thread>
#include <vector>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
struct Place { unsigned x; };
static thread_local Place threadIdx, blockIdx;
static std::barrier<> warp(32);
static inline void __syncwarp() { warp.arrive_and_wait(); }
"""
RUN = """
extern "C" void run(long long count, unsigned one, md_real **p)
{
    for (unsigned first = 0; first < (count + 31) / 32 * 32; first += 32) {
        std::vector<std::thread> lanes;
        for (unsigned lane = 0; lane < 32; lane++)
            lanes.emplace_back([=] {
                blockIdx.x = first / BLOCK;
                threadIdx.x = first % BLOCK + lane;
                NAME(count, one, POINTERS);
            });
        for (auto &lane : lanes) lane.join();
    }
}
"""


def compiled(folder, function: Function, dtype: str, layout: str):
    """Return the printed kernel as a function of arrays, run by the shim."""
    text = cuda_source(function, dtype=dtype, layout=layout)
    assert text.isascii()
    name = text.split("__launch_bounds__(")[1].split(") ")[1].split("(")[0]
    count = len(function.arguments) + len(function.results)
    run = (
        RUN.replace("NAME", name)
        .replace("BLOCK", str(block_of(function, layout)))
        .replace("POINTERS", ", ".join(f"p[{k}]" for k in range(count)))
    )
    path = folder / f"{function.fingerprint}_{dtype}_{layout}.cpp"
    path.write_text(SHIM + text + run)
    library = path.with_suffix(".so")
    command = ["g++", "-std=c++20", "-O0", "-pthread", "-Wno-unknown-pragmas", "-shared", "-fPIC", str(path)]
    done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    entry = ctypes.CDLL(str(library)).run

    def call(*arrays):
        kind = np.dtype(dtype)
        rows = layout == "rows"
        one = sum(1 << k for k, array in enumerate(arrays) if array.ndim == 1)
        batch = max(len(array) for array in arrays if array.ndim == 2)
        given = [np.ascontiguousarray(array if rows or array.ndim == 1 else array.T, dtype=kind) for array in arrays]
        sizes = [result.size for result in function.results]
        guard = [np.full((batch + 8) * size, 7.5, dtype=kind) for size in sizes]  # nothing is written behind the end
        pointers = (ctypes.c_void_p * (len(given) + len(guard)))(*(a.ctypes.data for a in (*given, *guard)))
        entry(ctypes.c_longlong(batch), ctypes.c_uint(one), pointers)
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
@pytest.mark.parametrize("what", ["inverse_dynamics", "inertia_matrix", "forward_dynamics", "base_regressor"])
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
    kernel = md.compile(robot, "inverse_dynamics", target="cuda", dtype="float32", layout="components")
    assert "typedef float md_real;" in kernel.source("cuda")
    assert "md_step" in kernel.source("cuda")
    with pytest.raises(MinidynError, match=r"minidyn\[cuda\]|no NVIDIA GPU"):
        kernel(*np.zeros((3, robot.n)))
