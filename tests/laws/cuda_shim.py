"""Printed CUDA compiled as C++ and run without a GPU.

Threads of a block take turns, from barrier to barrier.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

# plain C headers: those of C++ take longer to compile than most kernels
_SHIM = """
#include <math.h>
#include <stdlib.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static
struct Place { unsigned x; };
static Place threadIdx, blockIdx, gridDim;
struct Lane { ucontext_t context; bool done; };
static Lane lanes[128];
static ucontext_t outside;
static unsigned count_of_lanes, waiting, generation;
static void (*entry)(void *);
static void *given;

/* Gives the turn to the next thread: when it comes back, every other thread stands at its next barrier. */
static void turn()
{
    const unsigned own = threadIdx.x;
    unsigned next = own;
    do next = (next + 1) % count_of_lanes; while (lanes[next].done && next != own);
    if (next == own) { if (lanes[own].done) swapcontext(&lanes[own].context, &outside); return; }
    threadIdx.x = next;
    swapcontext(&lanes[own].context, &lanes[next].context);
    threadIdx.x = own;
}
static void body() { entry(given); lanes[threadIdx.x].done = true; turn(); }
static inline void __syncwarp() { turn(); }
static inline void __syncthreads()
{
    const unsigned now = generation;
    if (++waiting == count_of_lanes) { waiting = 0; generation++; }
    while (generation == now) turn();
}
static double slots[128];
static inline double __shfl_sync(unsigned, double value, int lane)
{
    const unsigned own = threadIdx.x;
    slots[own] = value;
    turn();
    const double found = slots[own / 32 * 32 + lane];
    turn();
    return found;
}
template <class Call> static void blocks(unsigned grid, unsigned block, Call call)
{
    const size_t room = 1 << 18;
    char *const stacks = (char *)malloc(block * room);
    entry = [](void *p) { (*(Call *)p)(); };
    given = &call;
    gridDim.x = grid;
    count_of_lanes = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {
        waiting = generation = 0;
        for (unsigned k = 0; k < block; k++) {
            lanes[k].done = false;
            getcontext(&lanes[k].context);
            lanes[k].context.uc_stack.ss_sp = stacks + k * room;
            lanes[k].context.uc_stack.ss_size = room;
            lanes[k].context.uc_link = nullptr;
            makecontext(&lanes[k].context, body, 0);
        }
        threadIdx.x = 0;
        swapcontext(&outside, &lanes[0].context);
    }
    free(stacks);
}
"""  # noqa: E501


def run_by_shim(folder: Path, text: str, call: str):
    """Return `run(p)` of the printed text.

    `call` is C++ that launches kernels by `blocks(grid, block, function)`. It finds its arguments
    in `void **p`.
    """
    assert text.isascii()
    text = text.replace(
        "extern __shared__ md_real md_shared[];", "static md_real md_shared[1 << 15];"
    )
    whole = f'{_SHIM}{text}\nextern "C" void run(void **p)\n{{\n{call}\n}}\n'
    path = folder / f"{hashlib.sha256(whole.encode()).hexdigest()[:16]}.cpp"
    path.write_text(whole)
    library = path.with_suffix(".so")
    command = ["g++", "-std=c++17", "-O0", "-Wno-unknown-pragmas", "-shared", "-fPIC", str(path)]
    done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    entry = ctypes.CDLL(str(library)).run

    def run(*arrays) -> None:
        entry((ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays)))

    return run
