"""Control and simulation of a 6-joint arm.

One step from C and from Python, a closed loop, many of them at once. The C is what
`controller.source("c")` prints, compiled with gcc -O2 and called in a loop whose estimate changes
from call to call; the least of several runs counts.
"""

from __future__ import annotations

import re
import shutil
import time
from typing import Any

import numpy as np

from timing import c_result, race

ROBOT = "ur10e"
GOALS = {"C": 1e-6, "Python": 10e-6, "simulation": 1.0}

MAIN = """
#include <stdio.h>
#include <time.h>
{source}
static double state[4096], other[4096], {inputs}, torque[64];
int main(void)
{{
    const long calls = {calls};
    double least = 1e9, sum = 0;
    const double start[] = {{{start}}};
    for (int k = 0; k < {count}; k++) state[k] = start[k];
{fill}
    for (int run = 0; run < 9; run++) {{
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (long k = 0; k < calls; k++) {{
            q[k % {n}] += 1e-9;
            {call}
            sum += torque[k % {n}];
        }}
        clock_gettime(CLOCK_MONOTONIC, &b);
        double taken = ((b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec)) / calls;
        if (taken < least) least = taken;
    }}
    printf("%.6g %.6g\\n", least, sum + other[0]);
    return 0;
}}
"""


def controllers() -> dict[str, Any]:
    """Return the laws that are measured, by what they are called in the table."""
    import minidyn as md

    robot = md.load(ROBOT)
    gain = 20 * np.diagonal(md.inertia_matrix(robot, np.full(robot.n, 0.3)))
    base = md.base_parameters(robot)
    load = {"load": md.control.point_mass(robot, [0, 0, 0.1])}
    common = {"rate": 10.0, "adaptation": 1e-4}
    return {
        "Slotine-Li, all 60 parameters": md.control.slotine_li(robot, gain=gain, **common),
        "Slotine-Li, 36 base parameters": md.control.slotine_li(
            robot, gain=gain, base=base, **common
        ),
        "Slotine-Li, one load": md.control.slotine_li(robot, gain=gain, unknown=load, **common),
        "Slotine-Li, consistent": md.control.slotine_li(
            robot, gain=gain, consistent=True, **common
        ),
        "modified Slotine-Li, all 60": md.control.modified_slotine_li(robot, **common),
        "Craig, one load": md.control.craig(robot, unknown=load, lower=0.0, **common),
        "computed torque": md.control.computed_torque(robot, bandwidth=10),
        "PD with gravity": md.control.pd_gravity(robot, gain=10 * gain, bandwidth=10),
    }


def c_step(law: Any, calls: int) -> float | None:
    """Return seconds of one step from compiled C; None where there is no gcc."""
    if shutil.which("gcc") is None:
        return None
    source = law.source("c")
    found = re.search(r"int (\w+)\((const[^)]*)\);", source)
    assert found is not None
    name, arguments = found.groups()
    sizes = {word: int(size) for word, size in re.findall(r"double (\w+)\[(\d+)\]", arguments)}
    given = [word for word in sizes if word not in ("estimate", "tau", "next_estimate", "held")]
    rng = np.random.default_rng(0)
    fill = "\n".join(
        f"    {word}[{k}] = {rng.normal():.17g};" for word in given for k in range(sizes[word])
    )
    adapts = "estimate" in sizes
    call = (
        f"{name}({'state, ' if adapts else ''}{', '.join(given)}, "
        f"torque{', other' if adapts else ''}, held);"
    )
    if adapts:  # a step that depends on the one before, as in a real loop, without running away
        call += (
            f" for (int j = 0; j < {sizes['estimate']}; j++) state[j] = start[j] + 1e-12 * "
            "other[j];"
        )
    text = MAIN.format(
        source=source,
        inputs=", ".join([*(f"{word}[{sizes[word]}]" for word in given), "held[2]"]),
        calls=calls,
        start=", ".join(repr(float(value)) for value in law.start) or "0",
        count=len(law.start),
        fill=fill,
        n=sizes["q"],
        call=call,
    )
    return c_result(text)


def measure(quick: bool = False) -> dict[str, Any]:
    """Return all times in seconds."""
    import minidyn as md

    laws = controllers()
    robot = md.load(ROBOT)
    q, dq, q_d, dq_d, ddq_d = np.random.default_rng(1).normal(size=(5, robot.n))
    seen, reference = md.control.Measurement(0.0, q, dq, ddq_d), (q_d, dq_d, ddq_d)

    def repeated(law: Any) -> Any:
        def call() -> None:
            for _ in range(100):
                law(law.start, seen, reference)

        return call

    python = race({name: repeated(law) for name, law in laws.items()}, 2.0 if quick else 8.0)
    steps = {
        name: {"C": c_step(law, 20_000 if quick else 100_000), "Python": python[name] / 100}
        for name, law in laws.items()
    }
    motion = md.trajectory.fourier(robot, seed=1)
    start = motion(0.0)[0] + 0.05
    law = laws["Slotine-Li, all 60 parameters"]
    md.simulate(robot, law, motion, 0.01, q0=start)
    taken = []
    for _ in range(2 if quick else 4):
        begin = time.perf_counter()
        run = md.simulate(robot, law, motion, 10.0, q0=start)
        taken.append(time.perf_counter() - begin)
    batches = []
    for threads in (1, 2):
        count, duration = (64, 1.0) if quick else (1000, 2.0)
        positions = start + 0.01 * np.random.default_rng(2).normal(size=(count, robot.n))
        begin = time.perf_counter()
        md.simulate_batch(robot, law, motion, duration, q0=positions, threads=threads)
        seconds = time.perf_counter() - begin
        # time grows with the simulated time: runs of 10 s in a second
        batches.append(
            {"runs": count, "threads": threads, "runs_per_s": count * duration / 10.0 / seconds}
        )
    return {
        "steps": steps,
        "simulation_s": min(taken),
        "last_error": float(np.abs(run.telemetry["error"][-1]).max()),
        "batches": batches,
    }


def tables(measured: dict[str, Any]) -> str:
    """Return the times as Markdown, and whether the goals are met."""
    lines = ["| one control step, UR10e | generated C, µs | from Python, µs |", "|---|---:|---:|"]
    for name, step in measured["steps"].items():
        from_c = "-" if step["C"] is None else f"{1e6 * step['C']:.2f}"
        lines.append(f"| {name} | {from_c} | {1e6 * step['Python']:.1f} |")
    lines += [
        "",
        (
            "10 s of closed loop at 1 kHz, Slotine-Li on all parameters: "
            f"{measured['simulation_s']:.2f} s."
        ),
    ]
    for batch in measured["batches"]:
        lines.append(
            f"Batches of {batch['runs']} such runs, {batch['threads']} "
            f"thread{'s' if batch['threads'] > 1 else ''}: {batch['runs_per_s']:.0f} runs of 10 s "
            "in a second."
        )
    lines.append("")
    for kind in ("C", "Python"):
        worst = max(
            (step[kind] for step in measured["steps"].values() if step[kind] is not None),
            default=None,
        )
        if worst is not None:
            met = (
                "met by every law"
                if worst < GOALS[kind]
                else f"NOT met by every law (worst {1e6 * worst:.2f} µs)"
            )
            lines.append(f"A step under {1e6 * GOALS[kind]:.0f} µs from {kind}: {met}.")
    met = "met" if measured["simulation_s"] < GOALS["simulation"] else "NOT met"
    lines.append(f"10 s at 1 kHz under {GOALS['simulation']:.0f} s: {met}.")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables(measure(quick=True)))
