"""Functions of robots on a GPU: nanoseconds a sample, bytes a second, beside a plain copy and other libraries.

    python benchmarks/gpu.py [--bytes 8e9] [--json FILE]

Device-resident: times between two events on the stream, median of several runs after a warm-up. Needs `minidyn[cuda]`
and CuPy, which times and holds the arrays.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import cupy as cp
import numpy as np

import minidyn as md

ROBOTS = ("ur10e", "panda")
FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "inertia_matrix", "base_regressor")


def seconds(call, *arrays, runs: int = 9, **options) -> float:
    call(*arrays, **options)
    found = []
    for _ in range(runs):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        call(*arrays, **options)
        end.record()
        end.synchronize()
        found.append(cp.cuda.get_elapsed_time(begin, end) * 1e-3)
    return statistics.median(found)


def copy_bandwidth() -> float:
    a = cp.zeros(1 << 28)
    b = cp.empty_like(a)
    return 2 * a.nbytes / seconds(cp.copyto, b, a)


def jax_seconds(robot, what: str, base, arrays) -> float:
    import jax

    jax.config.update("jax_enable_x64", True)
    scope: dict = {}
    exec(md.compile(robot, what, base=base).source("jax"), scope)  # noqa: S102
    function = jax.jit(scope[what])
    given = [jax.dlpack.from_dlpack(a) for a in arrays]
    function(*given).block_until_ready()
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        function(*given).block_until_ready()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def gradients() -> None:
    """Print what the gradient with respect to all arguments costs, in times of the function."""
    from minidyn.graph.derivative import vjp
    from minidyn.graph.targets.cuda.kernel import CudaFunction

    print(
        "\n| robot | function | ns a sample | gradient, ns | ratio | operations, ratio |\n|---|---|---:|---:|---:|---:|"
    )
    for robot_name in ROBOTS:
        for what in FUNCTIONS[:3]:
            function = md.compile(md.load(robot_name), what).function
            back = vjp(function, [argument.name for argument in function.arguments])
            times, operations = [], []
            for each in (function, back):
                sizes = [a.size for a in each.arguments]
                count = int(6e9 / 8 / (sum(sizes) + sum(r.size for r in each.results))) // 1024 * 1024
                arrays = [cp.random.standard_normal((size, count)) for size in sizes]
                kernel = CudaFunction(each, layout="components")
                out = kernel(*arrays)
                times.append(seconds(kernel, *arrays, out=out) / count * 1e9)
                operations.append(each.counts["mul"] + each.counts["add"])
                del arrays, out
                cp.get_default_memory_pool().free_all_blocks()
            ratios = f"{times[1] / times[0]:.2f} | {operations[1] / operations[0]:.2f}"
            print(f"| {robot_name} | {what} | {times[0]:.4f} | {times[1]:.4f} | {ratios} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=float, default=8e9, help="size of all arrays of a call")
    parser.add_argument("--json")
    parser.add_argument("--jax", action="store_true", help="also time the JAX target")
    options = parser.parse_args()
    copy = copy_bandwidth()
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}: a copy moves {copy / 1e12:.2f} TB/s (read and written)\n")
    print("| robot | function | layout | compile s | again s | ns a sample | billion a second | share of the copy |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    rows = []
    for robot_name in ROBOTS:
        robot = md.load(robot_name)
        for what in FUNCTIONS:
            base = md.base_parameters(robot) if what == "base_regressor" else None
            native = md.compile(robot, what, base=base)
            rng = np.random.default_rng(0)
            size = 8 * sum(a.size for a in (*native.function.arguments, *native.function.results))
            count = int(options.bytes / size) // 1024 * 1024  # components then begin where whole sectors begin
            host = [rng.normal(size=(1000, a.size)) for a in native.function.arguments]
            expected = native(*host)
            for layout in ("components", "rows"):
                kernel = md.compile(robot, what, base=base, target="cuda", layout=layout)
                first = kernel.cuda.compile()
                again = md.compile(robot, what, base=base, target="cuda", layout=layout).cuda.compile()
                arrays = [cp.asarray(np.resize(a, (count, a.shape[1]))) for a in host]
                if layout == "components":
                    arrays = [cp.ascontiguousarray(a.T) for a in arrays]
                out = kernel(*arrays)
                check = cp.moveaxis(out, -1, 0)[:1000] if layout == "components" else out[:1000]
                error = float(np.abs(check.get() - expected).max() / np.abs(expected).max())
                assert error < 1e-12, error
                took = seconds(kernel, *arrays, out=out) / count
                row = {"robot": robot_name, "what": what, "layout": layout, "compile": first, "again": again}
                row |= {"ns": took * 1e9, "share": size / took / copy}
                rows.append(row)
                print(
                    f"| {robot_name} | {what} | {layout} | {first:.2f} | {again:.3f} | {took * 1e9:.4f} | "
                    f"{1e-9 / took:.2f} | {100 * size / took / copy:.0f} % |",
                    flush=True,
                )
                if options.jax and layout == "rows":
                    other = jax_seconds(robot, what, base, arrays) / count
                    print(f"| {robot_name} | {what} | JAX | | | {other * 1e9:.4f} | {1e-9 / other:.2f} | |", flush=True)
                del arrays, out, check
                cp.get_default_memory_pool().free_all_blocks()
    gradients()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"gpu": name, "copy": copy, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
