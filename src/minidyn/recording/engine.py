"""Who reads the chunks of a recording: workers of any executor, with retries.

Results come in the order of the chunks. An executor is what `concurrent.futures` calls so: a
process pool, `dask.distributed.Client(...).get_executor()`, those of Ray and MPI. Tasks travel
there as a function and a chunk (paths, rows, settings), and small results travel back; clusters,
where each task costs milliseconds, get two chunks a task where there are many. A worker that dies,
and a file that cannot be read, is tried again; what fails again stops the work or is left out.
Files are opened by workers, too, some at a time.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar

from minidyn.arrays import one_processor
from minidyn.errors import MinidynError, UnknownName, WorkerFailed, WrongArgument, optional
from minidyn.notices import Notice
from minidyn.recording.lazy import LEFT_OUT, ON_ERROR, AnyRecording, LazyRecording
from minidyn.recording.recording import LOST
from minidyn.recording.sketch import Sketch, collecting

T = TypeVar("T")

DASK = ("local",)

# tasks that are handed to the executor before their turn: more workers than that have none to do
_AHEAD = 128
_ALONE = 32  # chunks that are tasks of their own; clusters get those after them two at a time
_CLUSTERS = ("distributed", "ray", "mpi4py")
_TRIES = 3
_POLL = 1.0  # s between two looks whether a cluster still answers
_OPENED = 256  # tasks, about, in which many files are opened


class Stretch(Protocol):
    """What a task is about: a chunk of a recording, or files to open."""

    def __len__(self) -> int: ...

    @property
    def files(self) -> tuple[str, ...]:
        """Where it comes from, for messages."""
        ...


@dataclass(frozen=True)
class Files:
    """Some files of many, to open."""

    paths: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def files(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(map(str, self.paths))


S = TypeVar("S", bound=Stretch)


@dataclass(frozen=True)
class _Failure:
    """An error of minidyn in another process: a sentence travels, whatever the error holds."""

    text: str


_Answer = tuple[Any, Sketch | None]


class Task:
    """A function to run on chunks, one after the other; schedulers show its name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = str(getattr(getattr(function, "func", function), "__name__", "task")).strip(
            "_"
        )

    def __call__(
        self, chunks: Sequence[tuple[Stretch, int]], empty: Sketch | None
    ) -> list[_Answer]:
        """Return what the function makes of each chunk, given with its first row, and a sketch of
        what was read.
        """
        return [
            self._of(chunk, row, None if empty is None else empty.like()) for chunk, row in chunks
        ]

    def _of(self, chunk: Stretch, row: int, made: Sketch | None) -> _Answer:
        try:
            with one_processor(), collecting(made):
                return self.function(chunk, row, None), made
        except MinidynError as error:
            return _Failure(str(error)), None


@dataclass(frozen=True)
class Engine:
    """An executor, and what to do where it fails.

    Attributes:
        executor: Runs the tasks.
        on_error: "stop" or "skip".
        keep: Folder in which what was prepared stays; None: it goes with the driver.
        notices: What was left out so far.
    """

    executor: Executor
    on_error: str = "stop"
    keep: Path | None = None
    notices: list[Notice] = field(default_factory=list)

    def map(
        self,
        function: Callable[..., T],
        chunks: Iterable[LazyRecording],
        empty: Sketch | None,
        left_out: bool,
    ) -> Iterator[tuple[T, int, Sketch | None]]:
        """Yield (result, samples, sketch of what was read) of each chunk, in their order."""
        for found, chunk, part in self.tried(function, chunks, empty):
            if not isinstance(found, _Failure):
                yield found, len(chunk), part
            elif left_out:
                self.leave_out(found, chunk)
            else:
                raise WorkerFailed(
                    found.text, [file for file in chunk.files if file in found.text] or chunk.files
                )

    def tried(
        self, function: Callable[..., T], chunks: Iterable[S], empty: Sketch | None = None
    ) -> Iterator[tuple[T | _Failure, S, Sketch | None]]:
        """Yield (result or failure, chunk, sketch) of each chunk.

        The caller decides what a failure means.
        """
        task, waiting = Task(function), deque[_Waiting]()
        rest, most = self._tasks(chunks), 1 if isinstance(self.executor, Here) else _AHEAD
        try:
            while True:
                while len(waiting) < most and (some := next(rest, None)) is not None:
                    waiting.append(_Waiting(self, task, some, empty))
                if not waiting:
                    return
                first = waiting.popleft()
                for (chunk, _), (found, part) in zip(first.chunks, first.result()):
                    yield found, chunk, part
        finally:  # an interrupt does not wait for what nobody will read
            for one in waiting:
                one.future.cancel()

    def _tasks(self, chunks: Iterable[S]) -> Iterator[list[tuple[S, int]]]:
        """Yield the chunks of each task, with their first rows."""
        row, held, far = 0, list[tuple[S, int]](), _module(self.executor) in _CLUSTERS
        for number, chunk in enumerate(chunks):
            held.append((chunk, row))
            row += len(chunk)
            if len(held) == (2 if far and number >= _ALONE else 1):
                yield held
                held = []
        if held:
            yield held

    def leave_out(self, failure: _Failure, chunk: Stretch) -> None:
        """Note a chunk that cannot be read, or raise where that stops the work."""
        if self.on_error == "stop":
            raise WorkerFailed(
                f"{failure.text}; on_error='skip' (--on-error skip) leaves such files out"
            )
        files = ", ".join(chunk.files)
        text = f"{files}: {len(chunk)} samples are left out ({failure.text})"
        self.notices.append(LEFT_OUT(text, files=files, samples=len(chunk)))


class _Waiting:
    """A task under way, submitted again where it fails."""

    def __init__(
        self, engine: Engine, task: Task, chunks: Sequence[tuple[Any, int]], empty: Sketch | None
    ) -> None:
        self.engine, self.task, self.chunks, self.empty = engine, task, chunks, empty
        self.future: Future[Any] = self._submitted()

    def _submitted(self) -> Future[Any]:
        try:
            return self.engine.executor.submit(self.task, self.chunks, self.empty)
        except BrokenExecutor as error:
            raise WorkerFailed(
                f"the executor is broken ({error or type(error).__name__}); make a new one, or "
                "give workers=N, whose processes are replaced"
            ) from None
        except RuntimeError as error:  # what a client says that lost its scheduler
            if _module(self.engine.executor) not in _CLUSTERS:
                raise
            raise WorkerFailed(_gone(self.engine, error)) from None

    def result(self) -> list[_Answer]:
        """Return what came of each chunk: a failure after several tries."""
        for left in reversed(range(_TRIES)):
            answers: list[_Answer]
            try:
                self._wait()
                answers = self.future.result()
            except CancelledError as error:  # nobody here cancels what is waited for
                raise WorkerFailed(_gone(self.engine, error)) from None
            except Exception as error:
                if not _of_worker(error):
                    raise
                answers = [(_Failure(_died(error, chunk)), None) for chunk, _ in self.chunks]
            if not left or not any(isinstance(found, _Failure) for found, _ in answers):
                break
            self.future = self._submitted()
        return answers

    def _wait(self) -> None:
        """Wait until the task is done.

        A result that a Dask scheduler was sending when it was killed never comes. Its client tries
        to connect again for a while (the client's `timeout`), and is closed then.
        """
        client = getattr(self.engine.executor, "_client", None)
        while not wait([self.future], _POLL if client is not None else None).done:
            if getattr(client, "status", "") == "closed":
                raise CancelledError("the client is closed")


def _gone(engine: Engine, error: Exception) -> str:
    """Say that whoever hands out tasks no longer answers, and where the work goes on."""
    who = "the Dask scheduler" if _module(engine.executor) in _CLUSTERS else "the executor"
    kept = (
        f"the same call resumes from {engine.keep}"
        if engine.keep is not None
        else "with keep=FOLDER (--keep FOLDER) the same call resumes instead of starting again"
    )
    return f"{who} no longer answers ({type(error).__name__}): start it again; {kept}"


def _died(error: Exception, chunk: Stretch) -> str:
    files = ", ".join(chunk.files) or "samples in memory"
    what = f"{type(error).__name__}: {error}".rstrip(": ").replace("\n", " ")[:200]
    return f"{files}: a worker failed while it read {len(chunk)} samples ({what}), {_TRIES} times"


def _of_worker(error: Exception) -> bool:
    """Whether an error is one of the machine that ran a task, not of the task.

    It may go better elsewhere.
    """
    return (
        isinstance(error, OSError | BrokenExecutor | EOFError | MemoryError)
        or _module(error) in _CLUSTERS
    )


def _module(value: object) -> str:
    return type(value).__module__.partition(".")[0]


class Here(Executor):
    """This process, for what is done in tasks alone."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function at once."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workers(Executor):
    """Processes of this machine; those that die are replaced."""

    def __init__(self, workers: int) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise WrongArgument(f"workers: expected a whole number from 1, got {workers!r}")
        self._workers, self._lock = workers, Lock()
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(
            self._workers, mp_context=spawn, initializer=_end_with_the_driver
        )

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in one of the processes."""
        with self._lock:
            try:
                return self._pool.submit(fn, *args, **kwargs)
            except BrokenExecutor:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = self._new()
                return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _end_with_the_driver() -> None:
    """Have this process end when the one that started it does.

    A driver that is killed cannot end its workers.
    """
    driver = multiprocessing.parent_process()
    if driver is not None:
        Thread(target=_end_after, args=(driver,), name="end with the driver", daemon=True).start()


def _end_after(driver: Any) -> None:
    driver.join()
    os._exit(1)  # at once: what this process waits for never comes


def engine_of(executor: Executor, on_error: str = "stop") -> Engine:
    """Return an engine, or raise where what is given is no executor."""
    if on_error not in ON_ERROR:
        raise UnknownName("on_error", on_error, ON_ERROR)
    if not callable(getattr(executor, "submit", None)):
        raise WrongArgument(
            "executor: expected one of concurrent.futures, such as ProcessPoolExecutor(8) or "
            f"Dask's Client(...).get_executor(), got a value of type {type(executor).__name__}"
        )
    return Engine(executor, on_error)


def led_by(
    recording: AnyRecording,
    executor: Executor | None,
    on_error: str = "stop",
    keep: str | os.PathLike[str] | None = None,
    **reading: Any,
) -> AnyRecording:
    """Return a recording that an executor's workers read.

    One in memory stays as it is: it has been read.
    """
    engine = engine_of(Here() if executor is None else executor, on_error)
    engine = engine if keep is None else replace(engine, keep=Path(keep).absolute())
    if not isinstance(recording, LazyRecording):
        return recording
    lost, gone = LOST.get(), dict[str, int]()
    for run, begin, end in recording.parts if lost else ():
        for file in lost.keys() & set(run.files):
            gone[file] = gone.get(file, 0) + end - begin
    parts = tuple(part for part in recording.parts if not gone.keys() & set(part[0].files))
    if not parts:
        raise WorkerFailed(next(iter(lost.values()), "the recording has no samples"))
    told = tuple(
        LEFT_OUT(f"{file}: {count} samples are left out ({lost[file]})", files=file, samples=count)
        for file, count in gone.items()
    )
    return replace(recording, engine=engine, parts=parts, notices=recording.notices + told)


def of_each(
    executor: Executor, function: Callable[[Any], T], paths: Sequence[Any]
) -> list[T | None]:
    """Return what a function makes of each file, by workers.

    None where that failed: who asked tries it itself.
    """
    size = max(1, len(paths) // _OPENED)
    groups = [Files(tuple(paths[begin : begin + size])) for begin in range(0, len(paths), size)]
    made: list[T | None] = []
    for found, group, _ in engine_of(executor).tried(partial(_of_files, function), groups):
        made += [None] * len(group) if isinstance(found, _Failure) else found
    return made


def _of_files(
    function: Callable[[Any], T], group: Files, row: int, progress: object
) -> list[T | None]:
    return [_of_file(function, path) for path in group.paths]


def _of_file(function: Callable[[Any], T], path: Any) -> T | None:
    try:
        return function(path)
    except MinidynError:
        return None


@contextmanager
def executor_of(
    workers: int | None = None, scheduler: str | None = None, dask: str | None = None
) -> Iterator[Executor | None]:
    """Give the executor that a command line asks for: processes, a Dask cluster at an address, or
    one of its own.
    """
    given = [
        name
        for name, value in (("workers", workers), ("scheduler", scheduler), ("dask", dask))
        if value
    ]
    if len(given) > 1:
        raise MinidynError(f"--{given[0]} and --{given[1]}: give one of them")
    if workers is not None:
        with Workers(workers) as pool:
            yield pool
        return
    if dask is not None and dask not in DASK:
        raise UnknownName("dask", dask, DASK)
    if scheduler is None and dask is None:
        yield None
        return
    distributed = optional("distributed")
    try:
        client = (
            distributed.Client(scheduler) if scheduler else distributed.Client(threads_per_worker=1)
        )
    except (OSError, ValueError, TypeError) as error:
        raise MinidynError(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error})"
        ) from None
    with client:
        yield client.get_executor()
