"""Where the time of an identification by workers goes.

Its tasks one by one, and what the machine itself allows. `Watched` is an executor that stands
before another and notes when each task began and ended, and on which processor time. `phases` sums
that up: what is not covered by a task is the driver's, while everybody waits. `at_once` runs the
same tasks in processes that know nothing of one another, without a driver: what is lost there is
the memory's, or that of threads which share a core, and no program of this kind gets it back.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Span:
    """One task as it went; seconds of the machine's clock, which all processes share."""

    name: str
    begin: float
    end: float
    processor: float
    system: float  # of which so many were the system's, not the program's


class Clocked:
    """A task that says when it ran."""

    def __init__(self, task: Callable[..., Any]) -> None:
        self.task = task
        self.__name__ = getattr(task, "__name__", "task")

    def __call__(self, *args: Any) -> tuple[Any, Span]:
        """Return what the task makes, and its times."""
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        found = self.task(*args)
        after = resource.getrusage(resource.RUSAGE_SELF)
        system = after.ru_stime - before.ru_stime
        return found, Span(
            self.__name__,
            begin,
            time.monotonic(),
            after.ru_utime - before.ru_utime + system,
            system,
        )


@dataclass
class Watched(Executor):
    """An executor that notes what another one does; with `holding` it holds the tasks, too."""

    executor: Executor
    holding: bool = False
    spans: list[Span] = field(default_factory=list)
    tasks: list[tuple[Callable[..., Any], tuple[Any, ...]]] = field(default_factory=list)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a task on."""
        if self.holding:
            self.tasks.append((fn, args))
        outer: Future[Any] = Future()

        def done(inner: Future[Any]) -> None:
            if inner.cancelled() or not outer.set_running_or_notify_cancel():
                outer.cancel()
            elif (error := inner.exception()) is not None:
                outer.set_exception(error)
            else:
                found, span = inner.result()
                self.spans.append(span)
                outer.set_result(found)

        self.executor.submit(Clocked(fn), *args, **kwargs).add_done_callback(done)
        return outer


def phases(spans: Sequence[Span], begin: float, end: float, workers: int) -> dict[str, Any]:
    """Return what was done from `begin` to `end`.

    Seconds in which no task ran, and for each pass its own. Of a pass: tasks, seconds from its
    first to its last, processor seconds, and how many seconds of one worker were idle meanwhile,
    `tail` of them after the last task had begun.
    """
    made, ordered = [], sorted(spans, key=lambda span: span.begin)
    for name, group in groupby(ordered, key=lambda span: span.name):
        own = list(group)
        first, last, final = own[0].begin, max(span.end for span in own), own[-1].begin
        worked = sum(span.end - span.begin for span in own)
        tail = workers * (last - final) - sum(
            max(0.0, span.end - max(span.begin, final)) for span in own
        )
        made.append(
            {
                "pass": name,
                "at": round(first - begin, 2),
                "tasks": len(own),
                "seconds": round(last - first, 2),
            }
            | {"processor": round(sum(span.processor for span in own), 2)}
            | {"system": round(sum(span.system for span in own), 2)}
            | {"idle": round(workers * (last - first) - worked, 2), "tail": round(tail, 2)}
        )
    covered, reached = 0.0, begin
    for span in ordered:
        covered += max(0.0, span.end - max(span.begin, reached))
        reached = max(reached, span.end)
    return {
        "driver_alone": round(end - begin - covered, 2),
        "task_processor": round(sum(span.processor for span in spans), 2),
        "passes": made,
    }


def _all_tasks(path: str, shift: int, count: int, barrier: Any, results: Any) -> None:
    """Run tasks, those from a place on first.

    The first of each kind before, so that everything is compiled.
    """
    tasks = pickle.loads(Path(path).read_bytes())  # noqa: S301 - written below
    for task, args in {task.__name__: (task, args) for task, args in tasks}.values():
        task(*args)
    at = shift * len(tasks) // count
    barrier.wait()
    begin, begun = time.monotonic(), time.process_time()
    for task, args in tasks[at:] + tasks[:at]:
        task(*args)
    results.put((time.monotonic() - begin, time.process_time() - begun))


def at_once(
    tasks: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]], count: int
) -> tuple[float, float]:
    """Return seconds and processor seconds that all tasks take a process, so many of them at the
    same time.
    """
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(count), context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks"
        path.write_bytes(pickle.dumps(list(tasks)))
        crowd = [
            context.Process(target=_all_tasks, args=(str(path), shift, count, barrier, results))
            for shift in range(count)
        ]
        for one in crowd:
            one.start()
        found = [results.get(timeout=300) for _ in crowd]
        for one in crowd:
            one.join()
    return sum(wall for wall, _ in found) / count, sum(own for _, own in found) / count


def machine() -> dict[str, Any]:
    """Return what this machine is: processors, cores and threads, how much of them may be used, and
    its load.
    """
    told: dict[str, set[str]] = {}
    package = ""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    for line in text.splitlines():
        name, _, value = (word.strip() for word in line.partition(":"))
        package = value if name == "physical id" else package
        told.setdefault(name, set()).add(f"{package}/{value}" if name == "core id" else value)
    quota = Path("/sys/fs/cgroup/cpu.max")
    about = {"processor": sorted(told.get("model name", {"unknown"})), "processors": os.cpu_count()}
    about |= {
        "cores": len(told.get("core id", ())),
        "threads_a_package": sorted(told.get("siblings", ())),
    }
    about |= {
        "usable": len(os.sched_getaffinity(0)),
        "quota": quota.read_text().strip() if quota.exists() else "",
    }
    return about | {"load": [round(value, 2) for value in os.getloadavg()]}
