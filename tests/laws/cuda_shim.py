"""Printed CUDA compiled as C++ and run without a GPU: threads of a block take turns, from barrier to barrier."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

_SHIM = """
#include <math.h>
#include <string.h>
#include <ucontext.h>
#include <functional>
#include <vector>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static
struct Place { unsigned x; };
static Place threadIdx, blockIdx, gridDim;
struct Lane { ucontext_t context; std::vector<char> stack; bool done; };
static std::vector<Lane> lanes;
static ucontext_t outside;
static unsigned waiting, generation, living;
static std::function<void()> entry;

/* Gives the turn to the next thread: when it comes back, every other thread stands at its next barrier. */
static void turn()
{
    const unsigned own = threadIdx.x, count = lanes.size();
    unsigned next = own;
    do next = (next + 1) % count; while (lanes[next].done && next != own);
    if (next == own) { if (lanes[own].done) swapcontext(&lanes[own].context, &outside); return; }
    threadIdx.x = next;
    swapcontext(&lanes[own].context, &lanes[next].context);
    threadIdx.x = own;
}
static void body() { entry(); lanes[threadIdx.x].done = true; living--; turn(); }
static inline void __syncwarp() { turn(); }
static inline void __syncthreads()
{
    const unsigned now = generation;
    if (++waiting == lanes.size()) { waiting = 0; generation++; }
    while (generation == now) turn();
}
static double slots[1024];
static inline double __shfl_sync(unsigned, double value, int lane)
{
    const unsigned own = threadIdx.x;
    slots[own] = value;
    turn();
    const double found = slots[own / 32 * 32 + lane];
    turn();
    return found;
}
static void blocks(unsigned grid, unsigned block, std::function<void()> call)
{
    entry = call;
    gridDim.x = grid;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {
        lanes.assign(block, Lane());
        waiting = generation = 0;
        living = block;
        for (unsigned k = 0; k < block; k++) {
            lanes[k].stack.resize(1 << 18);
            getcontext(&lanes[k].context);
            lanes[k].context.uc_stack.ss_sp = lanes[k].stack.data();
            lanes[k].context.uc_stack.ss_size = lanes[k].stack.size();
            lanes[k].context.uc_link = nullptr;
            makecontext(&lanes[k].context, body, 0);
        }
        threadIdx.x = 0;
        swapcontext(&outside, &lanes[0].context);
    }
}
"""


def run_by_shim(folder: Path, text: str, call: str, optimise: str = "-O0"):
    """Return `run(p)` of the printed text: `call` is C++ that launches kernels by `blocks(grid, block, function)`.

    It finds its arguments in `void **p`.
    """
    assert text.isascii()
    text = text.replace("extern __shared__ md_real md_shared[];", "static md_real md_shared[1 << 15];")
    whole = f'{_SHIM}{text}\nextern "C" void run(void **p)\n{{\n{call}\n}}\n'
    path = folder / f"{hashlib.sha256(whole.encode()).hexdigest()[:16]}.cpp"
    path.write_text(whole)
    library = path.with_suffix(".so")
    command = ["g++", "-std=c++20", optimise, "-Wno-unknown-pragmas", "-shared", "-fPIC", str(path)]
    done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    entry = ctypes.CDLL(str(library)).run

    def run(*arrays) -> None:
        entry((ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays)))

    return run
