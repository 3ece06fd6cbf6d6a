"""What a call of one sample costs from Python, by every way that is maintained and by the builtin
that minidyn makes.

    python benchmarks/call_paths.py [rounds]

Each way computes inverse dynamics of one sample: check three vectors, read or copy them, compute,
return a new vector. All run the same machine code. Figures are medians of processor time of
interleaved rounds, and the least of each, which is what a quiet machine gives; ratios are of
medians, over the builtin.

- kernel: `md.compile(robot, "inverse_dynamics")(q, dq,
  ddq)`, the builtin of minidyn.graph.targets.native.builtin.
- function: `md.inverse_dynamics(robot, q, dq, ddq)`, which finds the kernel first.
- ctypes, bound: the quickest found. Vectors are copied into buffers of the kernel's own through
  memoryviews, which check type, shape and format on the way; machine code that knows these buffers
  is called without arguments (each one costs 0.1 µs more); the result is copied out. Buffers come
  from a list, so that threads do not share them.
- ctypes, addresses: no copies; checks in Python, addresses by `__array_interface__`.
- cffi, bound: as ctypes, bound, by a function pointer of cffi (ABI mode: no compiler is needed).
- cffi, from_buffer: no copies; checks in Python, addresses by `ffi.from_buffer`.
- the call alone: a call of the bound code of ctypes, without copies and checks.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import minidyn as md
from minidyn.graph.function import Function
from minidyn.graph.targets.native.core import Plan, core_text, fill_text, helper_text, once_text
from minidyn.graph.targets.native.host import FOOTER, Code, compile_text

CALLS = 1000  # in one round of one way
LIMIT = 0.5  # µs: at most this, and the builtin goes

Call = Callable[..., Any]


class Bound:
    """A function compiled for buffers of its own: `entry` computes from `inputs` to `output`."""

    def __init__(self, function: Function) -> None:
        plan = Plan(function)
        self.inputs = [np.zeros(argument.size) for argument in function.arguments]
        self.output = np.zeros(function.results[0].shape)
        self.work = np.zeros(max(1, len(plan.slots)))
        places = ", ".join(
            f"ptr inttoptr (i64 {array.ctypes.data} to ptr)"
            for array in (*self.inputs, self.output, self.work)
        )
        calls = "".join(f"  call void @{part}({places})\n" for part in ("once", "fill.1", "core.1"))
        text = helper_text(plan, 1) + once_text(plan) + fill_text(plan, 1) + core_text(plan, 1)
        self.code: Code = compile_text(
            text + f"define void @entry() #0 {{\n{calls}  ret void\n}}\n{FOOTER}", ("entry",)
        )
        self.address = self.code.addresses["entry"]
        self.places = [memoryview(array) for array in self.inputs]


def with_buffers(bound: list[Bound], entries: list[Call]) -> Call:
    """Return a call that takes a set of buffers from a list for as long as it runs."""
    free = [(*b.places, entry, b.output.copy) for b, entry in zip(bound, entries)]

    def call(q: Any, dq: Any, ddq: Any) -> Any:
        own = free.pop()
        try:
            first, second, third, entry, result = own
            first[:] = q
            second[:] = dq
            third[:] = ddq
            entry()
            return result()
        finally:
            free.append(own)

    return call


def with_addresses(n: int, run: Callable[[Any, Any, Any, Any], Any]) -> Call:
    """Return a call that checks in Python and hands the arrays on."""
    shape, real, array = (n,), np.dtype(np.float64), np.ndarray

    def call(q: Any, dq: Any, ddq: Any) -> Any:
        for value in (q, dq, ddq):
            if type(value) is not array or value.dtype is not real or value.shape != shape:
                raise TypeError("the general way")
            if not value.flags.c_contiguous:
                raise TypeError("the general way")
        out = np.empty(n)
        run(q, dq, ddq, out)
        return out

    return call


def ways(robot: md.Robot, arrays: list[Any]) -> tuple[dict[str, Call], list[Any]]:
    """Return all ways by name, and what must stay alive while they are used."""
    kernel = md.compile(robot, "inverse_dynamics")
    kernel(*arrays)
    bound = [Bound(kernel.function) for _ in range(2)]
    for place, values in zip(bound[0].inputs, arrays):  # for the call alone
        place[:] = values
    no_arguments = ctypes.PYFUNCTYPE(None)
    entries = [no_arguments(b.address) for b in bound]
    single = kernel._native.single_code.addresses["single"]
    two = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(single)
    table_type = ctypes.c_void_p * 4

    def by_interface(*arrays: Any) -> None:
        table = table_type(*[array.__array_interface__["data"][0] for array in arrays])
        place = ctypes.addressof(table)
        two(place, place + 24)

    found: dict[str, Call] = {
        "kernel": kernel,
        "function": lambda q, dq, ddq: md.inverse_dynamics(robot, q, dq, ddq),
        "ctypes, bound": with_buffers(bound, entries),
        "ctypes, addresses": with_addresses(robot.n, by_interface),
    }
    try:
        import cffi
    except ImportError:
        print("cffi is not installed: its ways are left out")
    else:
        ffi = cffi.FFI()
        pointers = [ffi.cast("void(*)()", b.address) for b in bound]
        of_table = ffi.cast("void(*)(void **, void **)", single)
        take = ffi.from_buffer

        def by_buffer(q: Any, dq: Any, ddq: Any, out: Any) -> None:
            table = ffi.new("void *[4]", [take(q), take(dq), take(ddq), take(out)])
            of_table(table, table + 3)

        found["cffi, bound"] = with_buffers(bound, pointers)
        found["cffi, from_buffer"] = with_addresses(robot.n, by_buffer)
    found["the call alone"] = lambda q, dq, ddq, entry=entries[0], result=bound[0].output: (
        entry() or result
    )
    return found, [kernel, bound]


def measure(
    calls: dict[str, Call], arrays: list[Any], rounds: int
) -> dict[str, tuple[float, float]]:
    """Return the median and the least processor time of one call by each way, µs."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time_ns()
            for _ in range(CALLS):
                call(*arrays)
            times[name].append((time.process_time_ns() - start) / CALLS / 1000.0)
    return {name: (statistics.median(values), min(values)) for name, values in times.items()}


def main() -> None:
    """Print the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 101
    for name in ("ur10e", "panda"):
        robot = md.load(name)
        arrays = list(np.random.default_rng(0).normal(size=(3, robot.n)))
        calls, alive = ways(robot, arrays)
        expected = calls["kernel"](*arrays)
        for _ in range(60):  # the first calls of a function run on NumPy
            calls["function"](*arrays)
        for way, call in calls.items():
            if not np.array_equal(call(*arrays), expected):
                raise AssertionError(f"{way} computes something else")
        found = measure(calls, arrays, rounds)
        print(f"\n{name}, inverse dynamics of one sample")
        for way, (median, least) in found.items():
            ratio = median / found["kernel"][0]
            print(
                f"  {way:20s} median {median:6.3f} µs, least {least:6.3f} µs, {ratio:5.2f} x kernel"
            )
        others = {
            way: least for way, (_, least) in found.items() if way.startswith(("ctypes", "cffi"))
        }
        best = min(others, key=lambda way: others[way])
        verdict = "at most" if others[best] <= LIMIT else "more than"
        print(
            f"  the quickest maintained way ({best}) takes {others[best]:.2f} µs at best: "
            f"{verdict} {LIMIT} µs"
        )
        del alive


if __name__ == "__main__":
    main()
