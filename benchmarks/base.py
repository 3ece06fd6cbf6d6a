"""How base parameters grow with the robot: time and memory of every method for 6 to 60 joints.

Each case runs in a process of its own, so that its peak of memory is its own; the time is that of
`md.base_parameters` after import, the least of a few calls, and of `base.relations()` with all lengths named.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

METHODS = ("exact", "qr", "svd")
SIZES = (6, 7, 12, 20, 30, 45, 60)
GOALS = {"7-joint chain": (7, "chain", 0.3, None), "30-joint tree": (30, "tree", 5.0, 500.0)}


def robot_of(n: int, shape: str) -> Any:
    """Return a chain or a binary tree of n rotational joints at right angles, all lengths named."""
    import numpy as np

    from minidyn.model.geometry import Step
    from minidyn.model.robot import Robot

    rng = np.random.default_rng(n)
    robot = Robot.from_mdh(
        "R" * n,
        alpha=rng.choice([0.0, math.pi / 2, -math.pi / 2], n, p=[0.2, 0.4, 0.4]),
        a=rng.choice([0.0, 0.1, 0.25], n),
        d=rng.choice([0.0, 0.1, 0.3], n),
        rotor_inertia=True,
        parent=None if shape == "chain" else [(k + 1) // 2 for k in range(n)],
    )
    symbols: list[tuple[str, float]] = []

    def name(step: Step) -> Step:
        if step.is_turn or step.value == 0.0:
            return step
        symbols.append((f"L{len(symbols) + 1}", step.value))
        return replace(step, symbol=symbols[-1][0], factor=1.0)

    joints = tuple(replace(joint, before=tuple(map(name, joint.before))) for joint in robot.joints)
    return replace(robot, joints=joints, symbols=tuple(symbols))


def case(n: int, shape: str, method: str, calls: int) -> dict[str, Any]:
    """Measure one case in this process."""
    import minidyn as md

    robot = robot_of(n, shape)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = math.inf
    least = math.inf
    for _ in range(calls):
        start = time.perf_counter()
        base = md.base_parameters(robot, method)
        least = min(least, time.perf_counter() - start)
        first = least if first == math.inf else first
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    base.relations()
    relations = time.perf_counter() - start
    return {
        "n": n,
        "shape": shape,
        "method": method,
        "parameters": len(robot.layout),
        "rank": base.rank,
        "gap": base.gap if math.isfinite(base.gap) else None,
        "notices": [str(notice) for notice in base.notices],
        "first_s": first,
        "seconds": least,
        "relations_s": relations,
        "peak_MB": after / 1024,
        "grown_MB": (after - before) / 1024,
    }


def measure(quick: bool = False) -> list[dict[str, Any]]:
    """Return all cases."""
    found = []
    for shape in ("chain", "tree"):
        for n in (6, 7, 12, 30) if quick else SIZES:
            for method in METHODS:
                calls = 1 if quick or n > 30 else 3
                command = [sys.executable, __file__, str(n), shape, method, str(calls)]
                environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
                done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
                found.append(json.loads(done.stdout))
    return found


def tables(measured: list[dict[str, Any]]) -> str:
    """Return the cases as Markdown, and whether the goals are met."""
    lines = []
    for shape in ("chain", "tree"):
        lines += [
            f"{shape.capitalize()}s of rotational joints with rotor inertias, all lengths named:",
            "",
            "| n | p | method | base | first call, s | later, s | relations, s | peak, MB |",
            "|---:|---:|---|---:|---:|---:|---:|---:|",
        ]
        for m in measured:
            if m["shape"] == shape:
                lines.append(
                    f"| {m['n']} | {m['parameters']} | {m['method']} | {m['rank']} | {m['first_s']:.3f} | "
                    f"{m['seconds']:.3f} | {m['relations_s']:.3f} | {m['peak_MB']:.0f} |"
                )
        lines.append("")
    for goal, (n, shape, seconds, memory) in GOALS.items():
        for m in measured:
            if (m["n"], m["shape"], m["method"]) == (n, shape, "exact"):
                met = m["first_s"] < seconds and (memory is None or m["peak_MB"] < memory)
                limit = f"{seconds} s" + ("" if memory is None else f" and {memory:.0f} MB")
                lines.append(f"{goal}, exact, first call under {limit}: {'met' if met else 'NOT met'}.")
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(case(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))))
