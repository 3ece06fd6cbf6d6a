"""A long log of a 7-joint arm, and its identification in a process of its own.

    python benchmarks/long_log.py make FILE SECONDS      write a Parquet file, 1000 samples a second
    python benchmarks/long_log.py identify FILE [METHOD] identify from it; prints one line of JSON: time and memory

The log is an exciting motion of the Panda with friction and rotor inertia: noisy positions (encoder
steps), torques by inverse dynamics with noise. It is written in pieces and never in memory as a
whole.
"""  # noqa: E501

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RATE = 1000.0
TERMS = ("viscous", "coulomb", "offset")
_PIECE = 1 << 18
_ENCODER = 2 * np.pi / 2**20  # rad, one step
_NOISE = 0.2  # N m


def robot_of_log() -> Any:
    """Return the arm, its drives with plausible values."""
    import minidyn as md

    robot = md.load("panda").with_drives(rotor_inertia=True, friction=TERMS)
    values = robot.parameters.copy()
    typical = {"Ia": 0.1, "Fv": 1.0, "Fc": 1.5, "Fo": 0.2}
    for column in robot.layout.columns:
        if column.symbol in typical:
            values[column.index] = typical[column.symbol]
    return robot.with_parameters(values)


def make(path: Path, seconds: float) -> None:
    """Write the log."""
    import pyarrow as pa
    from pyarrow import parquet

    import minidyn as md

    robot = robot_of_log()
    motion = md.trajectory.fourier(robot, seed=3)
    rng = np.random.default_rng(0)
    names = [f"{signal}.{joint}" for signal in ("q", "tau") for joint in robot.joint_names]
    schema = pa.schema([("t", pa.float64()), *((name, pa.float64()) for name in names)])
    with parquet.ParquetWriter(path, schema) as writer:
        for begin in range(0, round(seconds * RATE), _PIECE):
            t = np.arange(begin, min(begin + _PIECE, round(seconds * RATE))) / RATE
            q, dq, ddq = motion(t)
            tau = md.inverse_dynamics(robot, q, dq, ddq) + _NOISE * rng.standard_normal(q.shape)
            columns = [t, *(_ENCODER * np.round(q / _ENCODER)).T, *tau.T]
            writer.write_table(
                pa.table([pa.array(np.ascontiguousarray(c)) for c in columns], schema=schema)
            )


def identify(path: Path, method: str | None = None) -> dict[str, Any]:
    """Identify from the log, left on disk.

    Return seconds, processor seconds, peak memory and the error of the fit.
    """
    import minidyn as md

    start, begun = time.perf_counter(), time.process_time()
    robot = robot_of_log()
    log = md.read_recording(path, robot, lazy=True)
    estimate = md.identify(robot, log, method, friction="own", rotor_inertia=None)
    found = {
        "samples": len(log),
        "used": estimate.samples,
        "base_parameters": len(estimate.beta),
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - begun,
        "peak_megabytes": _peak(),
        "prior_weight": estimate.record.get("prior_weight"),
    }
    truth = estimate.base.values(robot.parameters)
    found["largest_error"] = float(np.max(np.abs(estimate.beta - truth)))
    return found


def _peak() -> float:
    """Return the peak memory of this process; what the system counts for it may be its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        next(
            float(line.split()[1])
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
        / 1024
    )


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        print(json.dumps(identify(Path(sys.argv[2]), *sys.argv[3:])))
