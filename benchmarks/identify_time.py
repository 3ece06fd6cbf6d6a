"""Processor time of `md.identify` on the log of a real UR10.

The first call of a process, and calls after it.

    python benchmarks/identify_time.py

The log is read from ../shared/data beside the project; the first 70 % of it are identified. Each
first call runs in a process of its own, reading and imports of the log apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2] / "shared" / "data" / "ur10_exciting"
PLAIN = ("viscous", "coulomb", "offset")
SETTINGS: dict[str, tuple[str, ...] | str] = {
    "friction chosen (auto)": "auto",
    "viscous, coulomb, offset": PLAIN,
}


def measure(friction: tuple[str, ...] | str, repeats: int) -> list[float]:
    """Return the processor seconds of each call, threads included, the first one first."""
    import minidyn as md

    robot = md.load(DATA / "ur10.urdf")
    recording = md.read_recording(DATA / "ur10_exciting_trajectory.db3", robot=robot)
    recording, seconds = recording.part(0.0, 0.7), []
    for _ in range(repeats):
        begin = time.process_time()
        md.identify(robot, recording, friction=friction, rotor_inertia=True)
        seconds.append(time.process_time() - begin)
    return seconds


def main() -> None:
    """Print a table."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(SETTINGS[sys.argv[1]], 8)))
        return
    if not DATA.is_dir():
        raise SystemExit(f"the measurements are not here: {DATA}")
    print("| friction | first call, s | later calls (median), s |\n|---|---:|---:|")
    for name in SETTINGS:
        command = [sys.executable, __file__, name]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            for _ in range(3)
        ]
        first = float(np.median([run[0] for run in runs]))
        later = float(np.median([seconds for run in runs for seconds in run[1:]]))
        print(f"| {name} | {first:.2f} | {later:.2f} |")


if __name__ == "__main__":
    main()
