"""A day of logs through identification, watching and the report, one after the other.

Nothing may grow.

    python tools/soak.py                     # 24 hours of motion in logs of ten minutes
    python tools/soak.py --hours 1 --each 2  # one hour in logs of two minutes

Each round another motion is logged, saved, read, identified, watched by a momentum observer,
converted and reported, as a service would do that runs for months. After a warm-up memory, open
files and threads must stay as they are, and nothing may be left in the folder of temporary files.
The warm-up lasts until the cache of compiled functions is full (256 of them, some 45 rounds) and
was renewed once: the first functions in it are small ones. What is held is printed; exit code 1
where something grew.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import minidyn as md
from minidyn.graph.targets.native.kernel import COMPILED

ROBOT = "two_link"
RATE = 100.0  # Hz
# times the rounds until the cache of compiled functions is full: by then all of it was renewed
WARM = 2.2
LEAST = 9  # rounds after that
GROWTH = (
    12.0  # MB between the medians of the first and the last third of them: what an allocator keeps
)


@dataclass(frozen=True)
class Used:
    """What the process holds after a round."""

    memory: float  # MB
    files: int
    threads: int
    temporary: int
    compiled: int  # functions in the cache


def used(temporary: Path) -> Used:
    """Return what this process holds now."""
    gc.collect()
    resident = (
        int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    )
    return Used(
        resident,
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(os.listdir(temporary)),
        len(COMPILED),
    )


def rounds(folder: Path, count: int, seconds: float) -> Iterator[Used]:
    """Do the whole job `count` times on logs of so many seconds; yield what is held after each."""
    robot = md.load(ROBOT).with_drives(friction=("viscous", "coulomb"))
    values = {"Fv": 0.5, "Fc": 0.5}
    robot = robot.with_parameters(
        [values.get(n[:2], v) for n, v in zip(robot.parameter_names, robot.parameters)]
    )
    temporary = folder / "temporary"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    try:
        for number in range(count):
            rng = np.random.default_rng(number)
            t = np.arange(0.0, seconds, 1 / RATE)
            q, dq, ddq = md.trajectory.fourier(robot, seed=number)(t)
            tau = md.inverse_dynamics(robot, q, dq, ddq)
            tau += 0.02 * np.abs(tau).max(axis=0) * rng.normal(size=tau.shape)
            name = folder / f"log{number % 3}.{('npz', 'csv', 'parquet')[number % 3]}"
            md.Recording(t, q, tau, joint_names=robot.joint_names).save(name)
            log = md.read_recording(name, robot)
            estimate = md.identify(robot, log, friction="own", rotor_inertia=None)
            estimate.save(folder / "estimate.json")
            md.control.momentum_observer(md.load_estimate(folder / "estimate.json")).watch(log)
            md.report(estimate, log, folder / "report.html")
            md.convert(name, folder / "lake", robot)
            yield used(temporary)
    finally:
        tempfile.tempdir = None


def grown(found: list[Used]) -> list[str]:
    """Return what grew after the warm-up; nothing where all is flat."""
    compiled = [one.compiled for one in found]
    after = found[int(WARM * (1 + compiled.index(max(compiled)))) :]
    if len(after) < LEAST:
        return [f"{len(after)} rounds after the warm-up are too few"]
    third = len(after) // 3
    early, late = after[:third], after[-third:]
    more = float(np.median([one.memory for one in late]) - np.median([one.memory for one in early]))
    bad = [f"memory grew by {more:.1f} MB"] if more > GROWTH else []
    for what in ("files", "threads", "temporary"):
        few, many = (max(getattr(one, what) for one in part) for part in (early, late))
        bad += [f"{what}: {few} became {many}"] if many > few else []
    return bad


def main() -> int:
    """Run, print what was held, and say what grew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--each", type=float, default=10.0, help="minutes a log")
    given = parser.parse_args()
    count, found = max(1, round(60 * given.hours / given.each)), []
    with tempfile.TemporaryDirectory() as folder:
        for number, one in enumerate(rounds(Path(folder), count, 60 * given.each), 1):
            found.append(one)
            if number in (1, count) or number % max(1, count // 12) == 0:
                hours = number * given.each / 60
                held = (
                    f"{one.files} files, {one.threads} threads, {one.compiled} compiled functions"
                )
                print(f"{hours:5.1f} h: {one.memory:.0f} MB, {held}", flush=True)
    bad = grown(found)
    print("; ".join(bad) or f"flat: {count} logs, {count * given.each / 60:.1f} h of motion")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
