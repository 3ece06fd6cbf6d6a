"""Reduction of recordings to triangles, next to generated C with NumPy's QR.

And an hour of a 7-joint arm from disk. Times are processor time, contestants taking turns in one
process, the least of each: other programs on the machine cannot change them much. Before anything
is timed, both pipelines' triangles are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limits import limits, machine
from long_log import TERMS

GOAL_NS, GOAL_SECONDS, GOAL_MEGABYTES = 300.0, 15.0, 500.0
_TILE = 1024


def measure(quick: bool = False) -> dict[str, Any]:
    """Return everything measured, as plain numbers."""
    seconds = 2.0 if quick else 12.0
    found: dict[str, Any] = {"machine": machine(), "rate": limits(0.3)["flops"], "robots": {}}
    for name in ("ur10e", "panda"):
        found["robots"][name] = _reduction(
            name, 60_000 if quick else 200_000, seconds, found["rate"]
        )
    found["log"] = _long_log(300.0 if quick else 3600.0)
    return found


def least_cpu(work: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the least processor time in seconds of one call of each.

    All in turns, threads they start included.
    """
    least = dict.fromkeys(work, float("inf"))
    end = time.perf_counter() + seconds
    for turn in range(1000):
        for name, call in work.items():
            start = time.process_time()
            call()
            least[name] = min(least[name], time.process_time() - start)
        if turn >= 2 and time.perf_counter() > end:
            break
    return least


def _log(name: str, samples: int) -> tuple[Any, Any]:
    import minidyn as md

    robot = md.load(name).with_drives(rotor_inertia=True, friction=TERMS)
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.5, robot.parameters))
    t = np.arange(samples) / 1000
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    noise = 0.5 * np.random.default_rng(0).standard_normal(q.shape)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + noise
    return robot, md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names)


def _reduction(name: str, samples: int, seconds: float, rate: float) -> dict[str, Any]:
    import minidyn as md
    from minidyn.arrays import single_thread
    from minidyn.graph.targets.native.kernel import compile_function
    from minidyn.identification.estimators.least_squares import covariance_of, fit
    from minidyn.identification.rows.base_rows import base_functions
    from minidyn.identification.rows.triangles import assemble, metric_of

    robot, log = _log(name, samples)
    base = md.base_parameters(robot)
    functions = base_functions(robot, base)
    rows, columns = functions.rows, functions.columns
    arrays = [log.q, log.dq, log.ddq, log.tau]
    piece = [array[:32768] for array in arrays]
    metrics = []
    for values, size in zip(rows.rows([array[::16].copy() for array in piece]), rows.sizes):
        factor = np.eye(size)
        own = metric_of(values[:, : np.flatnonzero(values.any(axis=0))[-1] + 1])
        if own is not None:
            factor[: len(own), : len(own)] = own
        metrics.append(factor)
    nothing: list[Any] = [None] * robot.n
    every = range(robot.n)
    found = fit(robot, base, log, "wls")
    native = compile_function(rows.function)
    work: dict[str, Callable[[], object]] = {
        "products": lambda: rows.grams(piece, nothing, every),
        "divided": lambda: rows.grams(piece, metrics, every),
        "pass": lambda: assemble(robot, base, log),
        "covariance": lambda: covariance_of(found, log),
        "numpy": lambda: _by_numpy(lambda *part: native(*part), arrays, columns),
    }
    counts = {"products": 32768, "divided": 32768}
    with tempfile.TemporaryDirectory() as folder:
        generated = _generated(rows.function, Path(folder))
        if generated is not None:
            work["generated"] = lambda: _by_numpy(generated, arrays, columns)
        with single_thread():
            for other in work.keys() & {"numpy", "generated"}:
                factors = work[other]()
                for mine, theirs in zip(found.problem.factors, factors):  # type: ignore[call-overload]
                    np.testing.assert_allclose(
                        mine.T @ mine, theirs.T @ theirs, atol=1e-9 * np.abs(theirs).max() ** 2
                    )
            least = least_cpu(work, seconds)
    flops = sum(2 * (len(own) + 1) ** 2 for own in columns)
    return {
        "base_parameters": base.rank,
        "columns": [len(own) for own in columns],
        "householder_flops": flops,
        "householder_limit": 1e9 * flops / rate,
        "products_limit": 0.5e9 * flops / rate,
        "ns": {key: 1e9 * value / counts.get(key, samples) for key, value in least.items()},
    }


def _by_numpy(rows: Callable[..., Any], arrays: list[Any], columns: Any) -> list[Any]:
    """Reduce as a pipeline without the kernel does.

    Rows of a tile, stacked on the triangle, NumPy's QR.
    """
    factors = [np.zeros((0, len(own) + 1)) for own in columns]
    for begin in range(0, len(arrays[0]), _TILE):
        blocks = rows(*(array[begin : begin + _TILE] for array in arrays))
        for joint, own in enumerate(columns):
            stacked = np.concatenate([factors[joint], blocks[joint][:, : len(own) + 1]])
            factors[joint] = np.linalg.qr(stacked, mode="r")
    return factors


def _generated(function: Any, folder: Path) -> Callable[..., Any] | None:
    """Return the rows computed by generated C, compiled by gcc -O3 -march=native, in a loop.

    None without gcc.
    """
    import ctypes
    import shutil

    from minidyn.graph.targets.c import c_name, c_source

    if shutil.which("gcc") is None:
        return None
    header, text = c_source(function)
    name = c_name(function)
    (folder / f"{name}.h").write_text(header)
    (folder / f"{name}.c").write_text(text)
    takes = [f"in[{k}] + i * {argument.size}" for k, argument in enumerate(function.arguments)]
    takes += [f"out[{k}] + i * {result.size}" for k, result in enumerate(function.results)]
    driver = f"""#include "{name}.h"
void loop(const double **in, double **out, long count)
{{
    for (long i = 0; i < count; i++) {name}({", ".join(takes)});
}}
"""
    (folder / "loop.c").write_text(driver)
    library = folder / "rows.so"
    sources = [str(folder / f"{name}.c"), str(folder / "loop.c")]
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-shared", "-fPIC", *sources, "-lm", "-o", str(library)],
        check=True,
    )
    loop = ctypes.CDLL(str(library)).loop
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    sizes = [result.size for result in function.results]

    def rows(*arrays: Any) -> list[Any]:
        out = [np.empty((len(arrays[0]), size)) for size in sizes]
        tables = [
            (ctypes.c_void_p * len(a))(*(array.ctypes.data for array in a)) for a in (arrays, out)
        ]
        loop(*tables, len(arrays[0]))
        return out

    return rows


def _long_log(seconds: float) -> dict[str, Any]:
    script = str(Path(__file__).with_name("long_log.py"))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        subprocess.run(
            [sys.executable, script, "make", path, str(seconds)], check=True, env=environment
        )
        size = Path(path).stat().st_size / 2**20
        best: dict[str, Any] = {}
        for _ in range(2):
            load = os.getloadavg()[0]
            done = subprocess.run(
                [sys.executable, script, "identify", path],
                check=True,
                env=environment,
                capture_output=True,
                text=True,
            )
            found = {
                **json.loads(done.stdout),
                "load": load,
                "file_megabytes": size,
                "recorded_seconds": seconds,
            }
            if not best or found["seconds"] < best["seconds"]:
                best = found
    return best


def tables(found: Mapping[str, Any]) -> str:
    """Return what was measured as Markdown."""
    here, lines = found["machine"], []
    lines.append(
        f"{here['processor']}, {here['cores']} cores, {here['width']} doubles a vector, load "
        f"{here['load']}; one core at most {found['rate'] / 1e9:.1f} GFLOP/s.\n"
    )
    robots = found["robots"]
    lines.append("Processor time of one core, ns per sample:\n")
    heads = [f"{name}, {row['base_parameters']} parameters" for name, row in robots.items()]
    lines.append(f"| | {' | '.join(heads)} |")
    lines.append("|---|" + "---:|" * len(robots))

    def line(text: str, cell: Callable[[Any], str]) -> None:
        lines.append(f"| {text} | {' | '.join(cell(row) for row in robots.values())} |")

    line("columns of each joint", lambda row: " ".join(map(str, row["columns"])))
    line(
        "limit of Householder's QR by its operations", lambda row: f"{row['householder_limit']:.0f}"
    )
    line("limit of products of columns", lambda row: f"{row['products_limit']:.0f}")
    line("rows and products, compiled", lambda row: f"{row['ns']['products']:.0f}")
    line(
        "rows, division by a triangle and products, compiled",
        lambda row: f"{row['ns']['divided']:.0f}",
    )
    line("whole pass over a recording: `assemble`", lambda row: f"**{row['ns']['pass']:.0f}**")
    line("whole pass of the covariance", lambda row: f"{row['ns']['covariance']:.0f}")
    line("our compiled rows with NumPy's QR", lambda row: f"{row['ns']['numpy']:.0f}")
    if all("generated" in row["ns"] for row in robots.values()):
        line(
            "rows by generated C (gcc -O3) with NumPy's QR",
            lambda row: f"{row['ns']['generated']:.0f}",
        )
        line(
            "ratio of that to the whole pass",
            lambda row: f"{row['ns']['generated'] / row['ns']['pass']:.1f}x",
        )
    reached = robots["ur10e"]["ns"]["pass"]
    lines.append(
        f"\n6-joint arm at most {GOAL_NS:.0f} ns a sample and core: {_met(reached <= GOAL_NS)}, "
        f"{reached:.0f}.\n"
    )
    log = found["log"]
    lines.append(
        f"{log['recorded_seconds'] / 60:.0f} minutes at 1 kHz of a 7-joint arm with friction and "
        f"rotor inertia, one Parquet file ({log['file_megabytes']:.0f} MB), `md.identify` of the "
        "lazy recording from start to end, prior and consistency included, in a process of its "
        "own:\n"
    )
    lines.append(
        "| samples | used after preparation | wall, s | processor, s | peak memory, MB | load |"
    )
    lines.append("|---:|---:|---:|---:|---:|---:|")
    lines.append(
        f"| {log['samples']} | {log['used']} | {log['seconds']:.1f} | "
        f"{log['processor_seconds']:.1f} | {log['peak_megabytes']:.0f} | {log['load']:.1f} |"
    )
    if log["recorded_seconds"] >= 3600:
        small, quick = log["peak_megabytes"] <= GOAL_MEGABYTES, log["seconds"] <= GOAL_SECONDS
        lines.append(f"\nUnder {GOAL_MEGABYTES:.0f} MB: {_met(small)}.")
        judged = (
            _met(quick)
            if quick or log["load"] < 1.5
            else f"not judged, {log['load']:.0f} others wanted them"
        )
        lines.append(f"Under {GOAL_SECONDS:.0f} s on 2 quiet cores: {judged}.")
    return "\n".join(lines)


def _met(goal: bool) -> str:
    return "met" if goal else "MISSED"
