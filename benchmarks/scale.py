"""How identification scales over processes, and that memory stays flat: the figures of docs/clusters.md.

    python benchmarks/scale.py workers --hours 2 --workers 1,2       # logs in files, read by so many processes
    python benchmarks/scale.py rates --hours 1                       # one process: seconds an hour of log, bytes read
    python benchmarks/scale.py files --files 10000 --workers 2       # memory of the driver with many small files
    python benchmarks/scale.py soak --samples 1e9 --workers 2        # samples made on the fly, as if from files
    python benchmarks/scale.py tasks                                 # what one task of an executor costs

Each prints one line of JSON. Logs are those of `long_log.py`, a 7-joint arm at 1 kHz, in files of a quarter of an hour.
The first identification in a pool starts and compiles; the second is measured. Processor seconds of the driver and of
its workers are told apart: (driver + workers) / (driver + workers / n) is what n processors can bring at the most, as
if all of them waited while the driver works.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from long_log import _ENCODER, _NOISE, RATE, robot_of_log

OWN: dict[str, Any] = {"friction": "own", "rotor_inertia": None, "consistent": False}
_FILE = 900  # s of one file
_BLOCK = 1 << 16  # samples that a made-up run repeats
_SAMPLE = 8.0 / 3600 / 1000  # s of processor time for a sample of a raw log, all in
_PASSES = 4  # tasks for each chunk: prepared, thinned, reduced, its scores summed


def fingerprint(found: Any) -> str:
    """A hash of all values and deviations, to the last bit."""
    return hashlib.sha256(found.beta.tobytes() + found.covariance.tobytes()).hexdigest()[:32]


def made(seconds: float, seed: int) -> Any:
    """Return a raw log of the arm in memory."""
    import minidyn as md

    robot, rng = robot_of_log(), np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    q, dq, ddq = md.trajectory.fourier(robot, seed=3)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + _NOISE * rng.standard_normal(q.shape)
    return md.Recording(t, _ENCODER * np.round(q / _ENCODER), tau, joint_names=robot.joint_names)


def peak() -> float:
    """Return this process' peak memory, MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_of(number: int) -> tuple[int, float]:
    """Return a worker and its peak memory."""
    time.sleep(0.05)
    return os.getpid(), peak()


def processor_of(number: int) -> tuple[int, float]:
    """Return a worker and its processor seconds."""
    time.sleep(0.05)
    return os.getpid(), time.process_time()


def timed(log: Any, executor: Executor | None) -> tuple[float, Any]:
    """Return the seconds that an identification takes, of files with their opening, and the estimate."""
    import minidyn as md

    start = time.perf_counter()
    if executor is None and isinstance(log, list):
        log = md.read_recording(log, robot_of_log(), lazy=True)
    found = md.identify(robot_of_log(), log, executor=executor, **OWN)
    return time.perf_counter() - start, found


def of_workers(log: Any, count: int) -> dict[str, Any]:
    """Return time, processor time and memory with so many worker processes."""
    from minidyn.recording.engine import Workers

    with Workers(count) as pool:
        cold, _ = timed(log, pool)
        before, own = dict(pool.map(processor_of, range(8 * count))), time.process_time()
        warm, found = timed(log, pool)
        driver = time.process_time() - own
        after = dict(pool.map(processor_of, range(8 * count)))
        peaks = dict(pool.map(peak_of, range(8 * count)))
    work = sum(after[worker] - before.get(worker, 0.0) for worker in after)
    return {
        "workers": count,
        "first_seconds": round(cold, 2),
        "seconds": round(warm, 2),
        "driver_processor_seconds": round(driver, 2),
        "worker_processor_seconds": round(work, 2),
        "at_most": {n: round((driver + work) / (driver + work / n), 2) for n in (2, 16)},
        "worker_megabytes": round(max(peaks.values())),
        "driver_megabytes": round(peak()),
        "beta": fingerprint(found),
    }


def workers(hours: float, counts: Sequence[int], ending: str) -> dict[str, Any]:
    """Measure logs in files."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number in range(max(1, round(hours * 3600 / _FILE))):
            files.append(Path(folder) / f"{number:04d}.{ending}")
            made(_FILE, number % 4).save(files[-1])
        size = sum(file.stat().st_size for file in files)
        alone = timed(files, None)[0]
        begun = time.process_time()
        second, found = timed(files, None)
        spent = time.process_time() - begun
        runs = [of_workers(files, count) for count in counts]
    return {
        "hours": len(files) * _FILE / 3600,
        "files": len(files),
        "bytes": size,
        "this_process": {"first_seconds": round(alone, 2), "seconds": round(second, 2)}
        | {"processor_seconds": round(spent, 2), "beta": fingerprint(found)},
        "runs": runs,
    }


def rates(hours: float) -> dict[str, Any]:
    """Return what one process needs for an hour of log in Parquet: reading, and all in; and the bytes it reads."""
    import pyarrow as pa
    from pyarrow import parquet

    import minidyn as md
    from minidyn.identification.rows.triangles import assemble

    def spent(act: Any) -> tuple[float, Any]:
        begun = time.process_time()
        found = act()
        return time.process_time() - begun, found

    robot, found = robot_of_log(), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        one = made(hours * 3600, 0)
        extra = {f"camera[{k}]": one.q[:, k % one.n] for k in range(16)}  # columns that nobody asks for
        table = pa.table({**one._columns(), **extra})
        parquet.write_table(table, path, row_group_size=1 << 18)
        samples = len(one)
        del one, table
        log = md.read_recording(path, robot, lazy=True)
        about = parquet.ParquetFile(path).metadata
        columns = [about.row_group(g).column(c) for g in range(about.num_row_groups) for c in range(about.num_columns)]
        needed = sum(c.total_compressed_size for c in columns if not c.path_in_schema.startswith("camera"))
        before = _read_bytes()
        reading, _ = spent(lambda: sum(len(tile) for tile in log.tiles()))
        found |= {"hours": hours, "file_bytes": path.stat().st_size, "needed_bytes": needed}
        found |= {"bytes_read": _read_bytes() - before, "numbers_bytes": 8 * samples * (1 + 2 * log.n)}
        found["reading_seconds"] = round(reading, 2)
        found["reading_megabytes_a_second"] = round(needed / reading / 1e6)
        timed([path], None)
        found["all_in_seconds_an_hour"] = round(spent(lambda: timed([path], None))[0] / hours, 2)
        data = md.Recording(*(getattr(_block(), name) for name in ("t", "q", "tau", "dq", "ddq")), robot.joint_names)
        base = md.base_parameters(robot)
        assemble(robot, base, data)
        found["reduction_nanoseconds_a_sample"] = round(
            min(spent(lambda: assemble(robot, base, data))[0] for _ in range(5)) / len(data) * 1e9
        )
    return found


def _read_bytes() -> int:
    """Return the bytes that this process has asked the system for."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def many_files(count: int, workers: int) -> dict[str, Any]:
    """Return the memory of a driver with so many files, of two seconds each; few contents, many names."""
    from minidyn.recording.engine import Workers

    with tempfile.TemporaryDirectory() as folder, Workers(workers) as pool:
        whole, kinds = made(32.0, 0), [Path(folder) / f"kind{number}.parquet" for number in range(16)]
        for number, kind in enumerate(kinds):
            whole[2000 * number : 2000 * (number + 1)].save(kind)
        files = [Path(folder) / f"{number:06d}.parquet" for number in range(count)]
        for number, file in enumerate(files):
            os.link(kinds[number % 16], file)
        timed(files[:64], pool)
        before, begun = peak(), time.process_time()
        seconds, found = timed(files, pool)
        spent = time.process_time() - begun
    return {
        "files": count,
        "workers": workers,
        "samples": found.samples,
        "seconds": round(seconds, 1),
        "driver_processor_seconds": round(spent, 2),
        "driver_megabytes_64_files": round(before),
        "driver_megabytes": round(peak()),
    }


@cache
def _block() -> Any:
    """Return prepared samples that a made-up run repeats."""
    import minidyn as md

    robot, rng = robot_of_log(), np.random.default_rng(0)
    t = np.arange(_BLOCK) / RATE
    q, dq, ddq = md.trajectory.fourier(robot, seed=3)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + _NOISE * rng.standard_normal(q.shape)
    return md.Recording(t, q, tau, dq, ddq, joint_names=robot.joint_names)


@dataclass(frozen=True)
class Repeated:
    """A run that pretends to be a file: the same samples again and again, times going on."""

    files: tuple[str, ...] = ("made.up",)

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Any]:
        """Yield samples from `begin` to `end`."""
        import minidyn as md

        row, block = begin, _block()
        while row < end:
            low = row % _BLOCK
            count = min(samples, end - row, _BLOCK - low)
            part = slice(low, low + count)
            t = (row + np.arange(count)) / RATE
            yield md.Recording(t, block.q[part], block.tau[part], block.dq[part], block.ddq[part], block.joint_names)
            row += count

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return where chunks may begin."""
        first = begin - begin % _BLOCK + _BLOCK
        return range(first, end, 4 * _BLOCK)

    def narrowed(self, begin: int, end: int) -> tuple[Repeated, int, int]:
        """Return the run."""
        return self, begin, end


def soak(samples: int, count: int) -> dict[str, Any]:
    """Identify from made-up samples; memory must not grow with them."""
    from minidyn.recording.engine import Workers
    from minidyn.recording.lazy import LazyRecording

    names, every = robot_of_log().joint_names, 200
    ends = np.linspace(0, samples, every + 1).astype(int)
    found = []
    with Workers(count) as pool:
        for part in (0.1, 1.0):
            parts = tuple((Repeated(), 0, int(b - a)) for a, b in itertools.pairwise(ends))[: round(part * every)]
            log = LazyRecording(names, ("q", "dq", "ddq", "tau"), (), parts)
            seconds, estimate = timed(log, pool)
            peaks = dict(pool.map(peak_of, range(8 * count)))
            found.append(
                {"samples": estimate.samples, "seconds": round(seconds, 1), "driver_megabytes": round(peak())}
                | {"worker_megabytes": round(max(peaks.values()))}
            )
    return {"workers": count, "runs": found}


def nothing(number: int) -> int:
    """Do nothing: what is left is what a task costs."""
    return number


def tasks() -> dict[str, float]:
    """Return the milliseconds that a task costs in a pool of processes and in Dask."""
    from minidyn.recording.engine import executor_of

    found = {}
    for name, options in (("processes", {"workers": 2}), ("dask", {"dask": "local"})):
        with executor_of(**options) as executor:  # type: ignore[arg-type]
            assert executor is not None
            list(executor.map(nothing, range(50)))
            start, begun = time.perf_counter(), time.process_time()
            list(executor.map(nothing, range(1000)))
            cost = (time.perf_counter() - start) / 1000
            found[f"{name}_processor_milliseconds_here"] = round(time.process_time() - begun, 3)
            found[f"{name}_milliseconds"] = round(1000 * cost, 3)
            found[f"{name}_samples_for_two_percent"] = round(_PASSES * cost / 0.02 / _SAMPLE)
    return found


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["workers", "rates", "files", "soak", "tasks"])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--samples", type=float, default=1e9)
    parser.add_argument("--ending", default="parquet")
    given = parser.parse_args()
    counts = [int(word) for word in given.workers.split(",")]
    if given.what == "workers":
        print(json.dumps(workers(given.hours, counts, given.ending)))
    elif given.what == "rates":
        print(json.dumps(rates(given.hours)))
    elif given.what == "files":
        print(json.dumps(many_files(given.files, counts[-1])))
    elif given.what == "soak":
        print(json.dumps(soak(int(given.samples), counts[-1])))
    else:
        print(json.dumps(tasks()))


if __name__ == "__main__":
    main()
