"""How base parameters grow with the robot: time and memory of every method for 6 to 60 joints.

Two arms in detail. Each case runs in a process of its own, so that its peak of memory is its own;
the time is that of `md.base_parameters` after import, the least of a few calls, and of
`base.relations()` with all lengths named.

The arms are measured warm: everything imported, some calls made before, but every call with another
robot, whose lengths differ by up to one per cent, so that nothing of the robot can be remembered.
Processor time on one thread, in turns with Pinocchio's regressor and SciPy's QR where Pinocchio is
installed.
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
from functools import partial
from importlib.util import find_spec
from typing import Any

METHODS = ("exact", "qr", "svd")
SIZES = (6, 7, 12, 20, 30, 45, 60)
ARMS = ("ur10e", "panda")
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


def arm(name: str, calls: int) -> dict[str, Any]:
    """Measure one built-in arm in this process: (least, median) processor time of each way, ms."""
    import numpy as np

    import minidyn as md

    ways: dict[str, Any] = {
        method: partial(md.base_parameters, method=method) for method in METHODS
    }
    robot = md.load(name)
    if find_spec("pinocchio"):
        from peer_base_parameters import by_pinocchio
        from peers import pinocchio_model

        model = pinocchio_model(robot)
        ways["pinocchio"] = lambda _: by_pinocchio(model)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(calls + 5):
        other = _varied(robot, np.random.default_rng(seed))
        for way, call in ways.items():
            start = time.process_time()
            call(other)
            seconds[way].append(time.process_time() - start)
    times = {
        way: (1e3 * min(values[5:]), 1e3 * float(np.median(values[5:])))
        for way, values in seconds.items()
    }
    return {"arm": name, "ms": times}


def _varied(robot: Any, rng: Any) -> Any:
    """Return the robot with lengths that differ by up to one per cent, in tenths of millimetres."""

    def changed(step: Any) -> Any:
        if step.is_turn:
            return step
        return replace(
            step, value=round(step.value * (1 + 0.01 * rng.uniform()), 4), symbol="", factor=1.0
        )

    joints = tuple(
        replace(joint, before=tuple(map(changed, joint.before))) for joint in robot.joints
    )
    return replace(robot, joints=joints, symbols=())


def _in_process(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    found: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    )
    return found


def measure(quick: bool = False) -> list[dict[str, Any]]:
    """Return all cases, and the arms at the end."""
    found = []
    for shape in ("chain", "tree"):
        for n in (6, 7, 12, 30) if quick else SIZES:
            for method in METHODS:
                calls = 1 if quick or n > 30 else 3
                found.append(_in_process(n, shape, method, calls))
    return [*found, *(_in_process("arm", name, 30 if quick else 200) for name in ARMS)]


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
            if m.get("shape") == shape:
                lines.append(
                    f"| {m['n']} | {m['parameters']} | {m['method']} | {m['rank']} | "
                    f"{m['first_s']:.3f} | {m['seconds']:.3f} | {m['relations_s']:.3f} | "
                    f"{m['peak_MB']:.0f} |"
                )
        lines.append("")
    arms = [m for m in measured if "arm" in m]
    ways = list(arms[0]["ms"]) if arms else []
    lines += [
        "Arms, warm, processor time in ms (least, median), every call with other lengths:",
        "",
        f"| arm | {' | '.join(ways)} |",
        "|---|" + "---:|" * len(ways),
        *(
            f"| {m['arm']} | "
            + " | ".join("{:.2f}, {:.2f}".format(*m["ms"][way]) for way in ways)
            + " |"
            for m in arms
        ),
        "",
    ]
    for goal, (n, shape, seconds, memory) in GOALS.items():
        for m in measured:
            if (m.get("n"), m.get("shape"), m.get("method")) == (n, shape, "exact"):
                met = m["first_s"] < seconds and (memory is None or m["peak_MB"] < memory)
                limit = f"{seconds} s" + ("" if memory is None else f" and {memory:.0f} MB")
                lines.append(
                    f"{goal}, exact, first call under {limit}: {'met' if met else 'NOT met'}."
                )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "arm":
        print(json.dumps(arm(sys.argv[2], int(sys.argv[3]))))
        sys.exit()
    print(json.dumps(case(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))))
