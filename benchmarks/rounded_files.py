"""Base parameters of files whose frames are turned freely and whose numbers are rounded.

    python benchmarks/rounded_files.py --robots 3000 --jobs 16

The robots are those of tests/laws/test_rounded_files.py: chains and trees with joints of all kinds,
every gravity, 5 to 12 digits. Each is answered by every method, what the answers say is counted
again with torques of random parameters, and the number is compared with that of the robot before
its frames were turned and its numbers rounded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "laws"), str(ROOT / "tests")]

from test_rounded_files import (  # noqa: E402
    METHODS,
    SUMS,
    is_unclear,
    mechanism,
    rounded,
    torque_error,
)

import minidyn as md  # noqa: E402
from minidyn.base.base_map import BaseMap  # noqa: E402
from minidyn.base.check import MAX_GEOMETRY_ERROR, MAX_RELATION_ERROR  # noqa: E402
from minidyn.model.canonical import as_understood  # noqa: E402
from minidyn.model.robot import Robot  # noqa: E402


def answers(seed: int) -> tuple[Counter[str], list[str]]:
    """Return what the answers of all methods for one robot come to, and lines on what is wrong."""
    robot, found, lines = rounded(seed), Counter[str](), list[str]()
    exact: BaseMap | None = None
    for method in METHODS:
        try:
            base = md.base_parameters(robot, method)
        except md.MinidynError as error:
            found[f"{method}: {type(error).__name__}"] += 1
            continue
        exact = exact or base
        outcome = _outcome(robot, base, exact, seed)
        found[f"{method}: {outcome}"] += 1
        if outcome not in ("right", "says that the rank is unclear"):
            lines.append(f"{seed} {method} {base.rank} {base.check}: {outcome}")
    if exact is not None:
        outcome = _dynamics(robot, exact, seed)
        found[f"inverse_dynamics(base=): {outcome}"] += 1
        if outcome != "right":
            lines.append(f"{seed} {exact.check}: {outcome}")
        outcome = _number(exact, seed)
        found[f"number of the robot before rounding: {outcome}"] += 1
        if outcome != "the same":
            lines.append(f"{seed} {exact.rank}: number {outcome}")
    return found, lines


def _number(base: BaseMap, seed: int) -> str:
    meant = md.base_parameters(mechanism(seed)).rank
    if base.rank == meant:
        return "the same"
    special = [n.data for n in base.notices if n.code == "base.nearly_special"]
    is_named = [data["rank_if_special"] for data in special] == [meant]
    return "named in a notice" if is_named else "ANOTHER"


def _outcome(robot: Robot, base: BaseMap, exact: BaseMap, seed: int) -> str:
    codes = {notice.code for notice in base.notices}
    if base.check.relations > MAX_RELATION_ERROR:
        return "says that relations are wrong"
    if is_unclear(base):
        return "says that the rank is unclear"
    if torque_error(as_understood(robot), base, seed) > SUMS * MAX_RELATION_ERROR:
        return "WRONG without a notice"
    if base.check.geometry > MAX_GEOMETRY_ERROR and "base.geometry_differs" not in codes:
        return "WRONG without a warning"
    return "right" if base.rank == exact.rank or is_unclear(exact) else "ANOTHER number than exact"


def _dynamics(robot: Robot, base: BaseMap, seed: int) -> str:
    known = robot.with_parameters(np.random.default_rng((seed, 9)).normal(size=len(robot.layout)))
    motion = np.random.default_rng((seed, 10)).uniform(-2.0, 2.0, (3, 6, robot.n))
    tau = md.inverse_dynamics(known, *motion)
    try:
        found = md.inverse_dynamics(known, *motion, base=base)
    except md.MinidynError as refusal:
        return f"refused: {type(refusal).__name__}"
    size = max(float(np.abs(tau).max()), 1e-9)
    understood = md.inverse_dynamics(as_understood(known), *motion)
    right = np.abs(found - understood).max() <= SUMS * MAX_RELATION_ERROR * size
    near = np.abs(found - tau).max() <= MAX_GEOMETRY_ERROR * size
    return "right" if right and near else "WRONG" if not right else "far from the file"


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    settings = parser.parse_args()
    total = Counter[str]()
    seeds = range(settings.first, settings.first + settings.robots)
    with ProcessPoolExecutor(settings.jobs) as pool:
        for found, lines in pool.map(answers, seeds, chunksize=8):
            total += found
            for line in lines:
                print(line, flush=True)
    for outcome, number in sorted(total.items()):
        print(f"{number:6d}  {outcome}")


if __name__ == "__main__":
    main()
