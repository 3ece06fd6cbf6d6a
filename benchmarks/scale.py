"""How identification scales over processes, and that memory stays flat.

The figures of docs/clusters.md.

    python benchmarks/scale.py workers --hours 2 --workers 1,2       # logs in files, read by so many processes; phases
    python benchmarks/scale.py rates --hours 1                       # one process: seconds an hour of log, bytes read
    python benchmarks/scale.py files --files 10000 --workers 2       # memory of the driver with many small files
    python benchmarks/scale.py soak --samples 1e9 --workers 2        # samples made on the fly, as if from files
    python benchmarks/scale.py tasks                                 # what one task of an executor costs

Each prints one line of JSON. Logs are those of `long_log.py`, a 7-joint arm at 1 kHz, in files of a
quarter of an hour: an hour of different ones, longer logs are links to them. A first identification
in a pool starts and compiles; the second is measured. Processor seconds of the driver and of its
workers are told apart: (driver + workers) / (driver + workers / n) is what n processors can bring
at the most, as if all of them waited while the driver works. `limits` is what the machine brings:
the tasks of an hour by processes that share nothing but its memory. `phases` says when no task ran,
and of each pass how long workers were idle (`watched.py`).
"""  # noqa: E501

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from long_log import _ENCODER, _NOISE, RATE, robot_of_log
from watched import Watched, at_once, machine, phases

OWN: dict[str, Any] = {"friction": "own", "rotor_inertia": None, "consistent": False}
_FILE = 900  # s of one file
_KINDS = 4  # contents of files: more names have the same
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


def written(kinds: Sequence[Path]) -> None:
    """Write logs, each another."""
    for number, kind in enumerate(kinds):
        made(_FILE, number).save(kind)


def elsewhere(function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns in a process of its own: its memory is not the driver's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


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
    """Return the seconds that an identification takes, of files with their opening, and the
    estimate.
    """
    import minidyn as md

    start = time.perf_counter()
    if executor is None and isinstance(log, list):
        log = md.read_recording(log, robot_of_log(), lazy=True)
    found = md.identify(robot_of_log(), log, executor=executor, **OWN)
    return time.perf_counter() - start, found


def of_workers(log: Sequence[Path], count: int) -> dict[str, Any]:
    """Return time, processor time and memory with so many worker processes, and where the time
    went.
    """
    from minidyn.recording.engine import Workers

    with Workers(count) as pool:
        cold, _ = timed(log[: max(4, count)], pool)  # starts the processes and compiles
        before, own = dict(pool.map(processor_of, range(8 * count))), time.process_time()
        watched, begin = Watched(pool), time.monotonic()
        warm, found = timed(log, watched)
        end, driver = time.monotonic(), time.process_time() - own
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
        "phases": phases(watched.spans, begin, end, count),
    }


def limits(log: Sequence[Path], counts: Sequence[int]) -> dict[str, Any]:
    """Return how many times one process so many do.

    Each with the tasks of a log to itself and without a driver.
    """
    from minidyn.recording.engine import Here

    watched = Watched(Here(), holding=True)
    timed(log, watched)
    found = {count: at_once(watched.tasks, count) for count in sorted({1, *counts})}
    return {
        str(count): {"times_one": round(count * found[1][0] / wall, 2), "seconds": round(wall, 2)}
        | {"processor_seconds_a_process": round(own, 2)}
        for count, (wall, own) in found.items()
    }


def workers(
    hours: float, counts: Sequence[int], ending: str, minutes: float, alone: bool
) -> dict[str, Any]:
    """Measure logs in files.

    An hour of different ones, which has as many names as the log has hours. Where all runs would
    take longer than some minutes the log is shorter.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        kinds = [Path(folder) / f"kind{number}.{ending}" for number in range(_KINDS)]
        elsewhere(written, kinds)
        about = {"machine": machine(), "limits": elsewhere(limits, kinds, counts)}
        share = sum(1.0 / count for count in counts) + (1.0 if alone else 0.0)
        hour = float(about["limits"]["1"]["seconds"]) / (_KINDS * _FILE / 3600)
        most = (60 * minutes - (time.monotonic() - start) - 10 * len(counts)) / (1.2 * hour * share)
        count = max(_KINDS, round(min(hours, most) * 3600 / _FILE))
        files = [Path(folder) / f"{number:05d}.{ending}" for number in range(count)]
        for number, file in enumerate(files):
            os.link(kinds[number % _KINDS], file)
        runs = [of_workers(files, count) for count in counts]
        about["limits_after"] = elsewhere(
            limits, kinds, counts
        )  # whether the machine was the same all the time
        about |= {"this_process": _alone(files)} if alone else {}
        size = sum(file.stat().st_size for file in files)
    return {
        "hours": len(files) * _FILE / 3600,
        "files": len(files),
        "bytes": size,
        "times_first_run": {
            run["workers"]: round(runs[0]["seconds"] / run["seconds"], 2) for run in runs
        },
        **about,
        "runs": runs,
    }


def _alone(files: Sequence[Path]) -> dict[str, Any]:
    """Measure the same in this process, without workers."""
    timed(list(files[:_KINDS]), None)
    begun = time.process_time()
    seconds, found = timed(list(files), None)
    spent = time.process_time() - begun
    return {
        "seconds": round(seconds, 2),
        "processor_seconds": round(spent, 2),
        "beta": fingerprint(found),
    }


def rates(hours: float) -> dict[str, Any]:
    """Return what one process needs for an hour of log in Parquet.

    Reading, and all in; and the bytes it reads.
    """
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
        extra = {
            f"camera[{k}]": one.q[:, k % one.n] for k in range(16)
        }  # columns that nobody asks for
        table = pa.table({**one._columns(), **extra})
        parquet.write_table(table, path, row_group_size=1 << 18)
        samples = len(one)
        del one, table
        log = md.read_recording(path, robot, lazy=True)
        about = parquet.ParquetFile(path).metadata
        columns = [
            about.row_group(g).column(c)
            for g in range(about.num_row_groups)
            for c in range(about.num_columns)
        ]
        needed = sum(
            c.total_compressed_size for c in columns if not c.path_in_schema.startswith("camera")
        )
        before = _read_bytes()
        reading, _ = spent(lambda: sum(len(tile) for tile in log.tiles()))
        found |= {"hours": hours, "file_bytes": path.stat().st_size, "needed_bytes": needed}
        found |= {
            "bytes_read": _read_bytes() - before,
            "numbers_bytes": 8 * samples * (1 + 2 * log.n),
        }
        found["reading_seconds"] = round(reading, 2)
        found["reading_megabytes_a_second"] = round(needed / reading / 1e6)
        timed([path], None)
        found["all_in_seconds_an_hour"] = round(spent(lambda: timed([path], None))[0] / hours, 2)
        base = md.base_parameters(robot)
        for name, times in (
            ("reduction_nanoseconds_a_sample", 1),
            ("task_reduction_nanoseconds_a_sample", 4),
        ):
            data = _prepared(times)  # a minute of log in five stretches, and as much as a task
            assemble(robot, base, data)
            best = min(spent(partial(assemble, robot, base, data))[0] for _ in range(20))
            found[name] = round(best / len(data) * 1e9)
    return found


def _prepared(times: int) -> Any:
    """Return the block of prepared samples, so many times in a row."""
    import minidyn as md

    t, signals = np.arange(times * _BLOCK) / RATE, ("q", "tau", "dq", "ddq")
    values = (np.concatenate([getattr(_block(), name)] * times) for name in signals)
    return md.Recording(t, *values, joint_names=robot_of_log().joint_names)


def _read_bytes() -> int:
    """Return the bytes that this process has asked the system for."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def many_files(count: int, workers: int) -> dict[str, Any]:
    """Return the memory of a driver with so many files, of two seconds each.

    Few contents, many names.
    """
    from minidyn.recording.engine import Workers

    with tempfile.TemporaryDirectory() as folder, Workers(workers) as pool:
        whole, kinds = (
            made(32.0, 0),
            [Path(folder) / f"kind{number}.parquet" for number in range(16)],
        )
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
            yield md.Recording(
                t,
                block.q[part],
                block.tau[part],
                block.dq[part],
                block.ddq[part],
                block.joint_names,
            )
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
            parts = tuple((Repeated(), 0, int(b - a)) for a, b in itertools.pairwise(ends))[
                : round(part * every)
            ]
            log = LazyRecording(names, ("q", "dq", "ddq", "tau"), (), parts)
            seconds, estimate = timed(log, pool)
            peaks = dict(pool.map(peak_of, range(8 * count)))
            found.append(
                {
                    "samples": estimate.samples,
                    "seconds": round(seconds, 1),
                    "driver_megabytes": round(peak()),
                }
                | {"worker_megabytes": round(max(peaks.values()))}
            )
    return {"workers": count, "runs": found}


def nothing(number: int) -> int:
    """Do nothing: what is left is what a task costs."""
    return number


def tasks() -> dict[str, float]:
    """Return the milliseconds that a task costs in a pool of processes and in Dask, and how long it
    should be.
    """
    from minidyn.recording.engine import executor_of

    found = {}
    for name, options in (("processes", {"workers": 2}), ("dask", {"dask": "local"})):
        with executor_of(**options) as executor:  # type: ignore[arg-type]
            assert executor is not None
            list(executor.map(nothing, range(50)))
            start, begun = time.perf_counter(), time.process_time()
            list(executor.map(nothing, range(1000)))
            cost = (time.perf_counter() - start) / 1000
            own = (time.process_time() - begun) / 1000
            found[f"{name}_processor_milliseconds_here"] = round(1000 * own, 3)
            found[f"{name}_milliseconds"] = round(1000 * cost, 3)
            found[f"{name}_samples_for_two_percent"] = round(_PASSES * cost / 0.02 / _SAMPLE)
            found[f"{name}_samples_for_two_percent_of_processor_time"] = round(
                _PASSES * own / 0.02 / _SAMPLE
            )
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
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="of all runs of `workers`; the log is shortened"
    )
    parser.add_argument("--alone", action="store_true", help="measure `workers` without any, too")
    given = parser.parse_args()
    counts = [int(word) for word in given.workers.split(",")]
    if given.what == "workers":
        print(json.dumps(workers(given.hours, counts, given.ending, given.minutes, given.alone)))
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
