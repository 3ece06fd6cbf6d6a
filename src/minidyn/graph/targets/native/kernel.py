"""A function compiled for this machine, callable with arrays.

What users pass becomes addresses and strides, or an error that says what is wrong. One sample: the
same steps on plain numbers; a block of width one is an ordinary contiguous array. A batch may be
split over a few threads: machine code runs without the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import warnings
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from minidyn.arrays import Array, unmasked
from minidyn.errors import ShapeError
from minidyn.graph.function import Argument, Function, Result, batch_shape, evaluate_in_blocks
from minidyn.graph.targets.native.builtin import ROWS, SINGLE, called_by, make_builtin
from minidyn.graph.targets.native.core import Plan, plan_text
from minidyn.graph.targets.native.host import (
    FOOTER,
    Code,
    compile_text,
    has_compiler,
    host,
    loads,
    slow_notices,
)
from minidyn.graph.targets.native.rows import copy_text, rows_text

_FLOAT64 = np.dtype(np.float64)


def take_argument(value: Any, argument: Argument, owner: str) -> Array:
    """Return the value as a float64 array of shape batch + (size,), or (size,) for a uniform
    argument.
    """
    plain = type(value) is np.ndarray and value.dtype is _FLOAT64
    array: Array = value if plain else _converted(value, argument, owner)
    shape = array.shape
    if not shape or shape[-1] != argument.size or (argument.uniform and len(shape) != 1):
        expected = f"({argument.size},)" if argument.uniform else f"(..., {argument.size})"
        hint = "; it serves the whole batch, so it has no batch axes" if argument.uniform else ""
        raise ShapeError(f"{owner}: {argument.name} has shape {shape}, expected {expected}{hint}")
    return array


def _converted(value: Any, argument: Argument, owner: str) -> Array:
    value = unmasked(value, f"{owner}: {argument.name}")
    try:
        array = np.asarray(value)
    except ValueError as error:  # nested lists of unequal lengths
        raise ShapeError(f"{owner}: {argument.name} is not an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ShapeError(
            f"{owner}: {argument.name} has dtype {array.dtype}, expected real numbers (float64); "
            "convert it first"
        )
    return array.astype(np.float64, copy=False)


def flat_rows(array: Array, batch: tuple[int, ...], count: int) -> Array:
    """Return a (count, size) view of an argument, or a copy where no view exists."""
    if array.shape[:-1] != batch:
        if array.ndim == 1:
            return np.broadcast_to(array, (count, array.shape[0]))
        array = np.broadcast_to(array, (*batch, array.shape[-1]))
    return array if array.ndim == 2 else array.reshape(count, array.shape[-1])


def check_out(
    out: Any, results: tuple[Result, ...], batch: tuple[int, ...], owner: str
) -> list[Array]:
    """Return the arrays given to be written, one per result.

    Number, dtype and shape must be exactly the results'.
    """
    given = list(out) if isinstance(out, tuple | list) else [out]
    if len(given) != len(results):
        raise ShapeError(
            f"{owner}: out holds {len(given)} array(s), expected a tuple of {len(results)}"
        )
    for array, result in zip(given, results):
        expected = (*batch, *result.shape)
        if not isinstance(array, np.ndarray):
            raise ShapeError(
                f"{owner}: out for {result.name} is {type(array).__name__}, expected a float64 "
                "array"
            )
        if array.dtype != _FLOAT64 or array.shape != expected:
            raise ShapeError(
                f"{owner}: out for {result.name} is {array.dtype} of shape {array.shape}, "
                f"expected float64 {expected}"
            )
        if not array.flags.writeable:
            raise ShapeError(
                f"{owner}: out for {result.name} is read-only; pass an array that can be written"
            )
    return given


def single_text(plan: Plan) -> str:
    """Return the module of `@single(arguments, results)`, which takes tables of pointers to
    arrays.
    """
    ins, outs = ([f"ptr {name}" for name in names] for names in plan.names)
    lines = [
        "define void @single(ptr %args, ptr %outs) #0 {",
        *loads("args", ins),
        *loads("outs", outs),
    ]
    lines.append(f"  %u = alloca double, i64 {max(1, len(plan.slots))}, align 8")
    lines += [f"  call void @{part}({plan.call})" for part in ("once", "fill.1", "core.1")]
    return plan_text(plan, 1) + "\n".join([*lines, "  ret void", "}", ""]) + FOOTER


_MOST = 64


class _Pool:
    """Threads that wait for work, started when first needed and then kept.

    Made of locks and queues of the interpreter itself: an interruption (Ctrl-C) inside those that
    are written in Python, which an executor uses, can leave one locked for ever.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock, self._started, self._wanted = threading.Lock(), 0, 0

    def begin(self, job: Callable[[], None], count: int) -> int:
        """Let up to `count` threads do a job; return how many will."""
        with self._lock:
            self._wanted += count
            with suppress(RuntimeError):  # no more threads to be had
                while self._started < min(self._wanted, _MOST):
                    start_new_thread(self._serve, ())
                    self._started += 1
            count = min(count, self._started)
        for _ in range(count):
            self._jobs.put(job)
        return count

    def end(self, count: int) -> None:
        """Say that so many are no longer wanted."""
        with self._lock:
            self._wanted -= count

    def _serve(self) -> None:
        while True:
            self._jobs.get()()


_POOL: dict[int, _Pool] = {}  # by process: threads do not survive a fork


def run_split(
    work: Callable[[int, int], None], count: int, threads: int, pieces: int, grain: int
) -> None:
    """Call `work(begin, end)` over 0..count in `pieces`, each a multiple of `grain` but the last.

    Whoever is free takes the next piece, so a core that is also busy elsewhere does not hold up the
    rest. The calling thread works too. Where it is interrupted, others finish the piece that they
    are at: `work` must keep alive what it writes to.
    """
    size = -(-count // (pieces * grain)) * grain
    begins = iter(range(0, count, size))  # taking the next one is atomic
    done: SimpleQueue[BaseException | None] = SimpleQueue()

    def take() -> None:
        for begin in begins:
            work(begin, min(count, begin + size))

    def help_out() -> None:
        try:
            take()
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)

    pool = _POOL.get(os.getpid())
    if pool is None:
        _POOL.clear()
        pool = _POOL.setdefault(os.getpid(), _Pool())
    wanted = min(threads, _MOST, pieces) - 1
    try:
        helpers = pool.begin(help_out, wanted)
        take()
        failed = [error for error in (done.get() for _ in range(helpers)) if error is not None]
    except BaseException:
        for _ in begins:  # nobody begins another piece
            pass
        raise
    finally:
        pool.end(wanted)
    if failed:
        raise failed[0]


K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dictionary that forgets its oldest entry when full.

    A study over thousands of robots must not fill memory.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        while len(self) >= self.most:
            self.pop(next(iter(self)), None)
        super().__setitem__(key, value)


COMPILED: Recent[tuple[str, int], NativeFunction] = Recent(256)
"""By fingerprint and width, the one used longest ago first; each takes one to a few MB."""

_LOCK = threading.Lock()
_WORTH_SPLITTING = 2_000_000  # tape steps times samples a piece must have: about 0.1 ms of work

_ROWS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int64] * 3)
_SINGLE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def compile_function(function: Function, *, width: int | None = None) -> NativeFunction:
    """Return the function compiled for this machine.

    The same function is compiled once while it is in use. `width` samples are computed side by
    side, 1, 2, 4 or 8; None takes what the machine's vector registers hold. Where there is no
    compiler, what is returned runs on NumPy.
    """
    lanes = host().width if width is None else width
    if lanes not in (1, 2, 4, 8):
        raise ValueError(f"width is {width!r}, expected 1, 2, 4, 8 or None")
    key = function.fingerprint, lanes
    with _LOCK:
        native = COMPILED.pop(key, None) or _kind()(function, lanes)
        COMPILED[key] = native  # what is forgotten for it stays with whoever holds it
    return native


@cache
def _kind() -> type[NativeFunction]:
    """Return what functions become here; where that is not machine code, it is said once."""
    for notice in slow_notices():
        warnings.warn(f"{notice}. {notice.advice}", RuntimeWarning, stacklevel=3)
    return NativeFunction if has_compiler() else EvaluatedFunction


def is_compiled(function: Function) -> bool:
    """Whether machine code for the function is in memory: calling it costs no compilation."""
    native = COMPILED.get((function.fingerprint, host().width))
    return native is not None and not {"code", "single_code"}.isdisjoint(vars(native))


class NativeFunction:
    """A compiled function, `width` samples side by side.

    Calling it computes a batch or one sample. The call is a builtin: contiguous float64 arrays,
    vectors or matrices of equal length, go straight to machine code; everything else takes the same
    call in Python, `general`. `fast` is the builtin itself: as `native(...)`, for any arguments, 40
    ns quicker.
    """

    fast: Callable[..., Any]

    def __init__(self, function: Function, width: int) -> None:
        self.function, self.width, self._plan = function, width, Plan(function)
        self._descriptor = ctypes.c_int64 * (3 * (len(function.arguments) + len(function.results)))
        made = make_builtin(function, self.general)
        self._record = None if made is None else made[1]
        self.fast = self.general if made is None else made[0]
        if made is not None:
            self.__class__ = called_by(NativeFunction, self.fast)

    def __repr__(self) -> str:
        return f"NativeFunction({self.function!r}, width {self.width})"

    def __call__(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        """Return an array of shape batch + result shape for a batch of samples, or one.

        A tuple for several results. Arrays, one per argument, have shape batch + (size,), a uniform
        one (size,); leading shapes broadcast against each other, any real dtype and memory layout
        will do. `out` is written instead of new arrays: float64 of exactly the result's shape, any
        strides; it may overlap the inputs. A large batch is split over `threads`; None: one.
        """
        return self.general(*arrays, out=out, threads=threads)

    @cached_property
    def llvm_ir(self) -> str:
        """The LLVM text of the vector code."""
        plan, width = self._plan, self.width
        head = (
            f"; {self.function!r}, {width} samples side by side, fingerprint "
            f"{self.function.fingerprint}\n"
        )
        return (
            head + plan_text(plan, width) + copy_text(plan, width) + rows_text(plan, width) + FOOTER
        )

    @cached_property
    def code(self) -> Code:
        """The vector code in memory.

        Entry "rows" (see :mod:`minidyn.graph.targets.native.rows`).
        """
        key = f"rows {self.width} {self.function.digest}"
        return compile_text(lambda: self.llvm_ir, ("rows",), key=key)

    @cached_property
    def single_code(self) -> Code:
        """The scalar code in memory: entry "single"."""
        key = f"single {self.function.digest}"
        return compile_text(lambda: single_text(self._plan), ("single",), key=key)

    @cached_property
    def splits_from(self) -> int:
        """Samples from which a batch is split over threads; fewer are computed sooner by one."""
        return -(-2 * _WORTH_SPLITTING // max(1, len(self.function.tape)))

    @cached_property
    def _rows(self) -> Callable[..., int]:
        return _ROWS(self._known_to_builtin(ROWS, self.code.addresses["rows"]))

    @cached_property
    def _single(self) -> Callable[..., None]:
        return _SINGLE(self._known_to_builtin(SINGLE, self.single_code.addresses["single"]))

    def _known_to_builtin(self, place: int, address: int) -> int:
        if self._record is not None:  # from now on the builtin does it without asking
            self._record[place] = address
        return address

    def general(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        """As a call, in Python: takes every argument a call may have."""
        function = self.function
        name, arguments, results = function.name, function.arguments, function.results
        if len(arrays) != len(arguments):
            wanted = ", ".join(argument.name for argument in arguments)
            raise TypeError(
                f"{name}: got {len(arrays)} array(s), expected {len(arguments)}: {wanted}"
            )
        if threads is None:
            threads = 1
        elif not isinstance(threads, int | np.integer) or threads < 1:
            raise ValueError(f"{name}: threads is {threads!r}, expected a positive integer")
        taken = [take_argument(value, argument, name) for value, argument in zip(arrays, arguments)]
        batch = batch_shape(function, [array.shape for array in taken])
        if out is None:
            targets: list[Array] = [np.empty((*batch, *result.shape)) for result in results]
        else:
            targets = check_out(out, results, batch, name)
            taken = [
                array.copy()
                if any(np.may_share_memory(array, target) for target in targets)
                else array
                for array in taken
            ]
        count = math.prod(batch)
        if count:
            self._fill(taken, targets, batch, count, int(threads))
        return tuple(targets) if isinstance(out, list | tuple) or len(targets) != 1 else targets[0]

    def _fill(
        self,
        taken: list[Array],
        targets: list[Array],
        batch: tuple[int, ...],
        count: int,
        threads: int,
    ) -> None:
        """Compute into `targets`, through copies where an array has no two-stride view."""
        places = [
            target.reshape(count, result.size)
            for target, result in zip(targets, self.function.results)
        ]
        rows = [
            np.ascontiguousarray(array) if argument.uniform else flat_rows(array, batch, count)
            for array, argument in zip(taken, self.function.arguments)
        ]
        if batch == ():
            self._run_single(rows, places)
        else:
            self._run_rows(rows, places, count, threads)
        for target, flat in zip(targets, places):
            if flat.size and not np.may_share_memory(flat, target):
                target[...] = flat.reshape(target.shape)

    def _run_single(self, rows: list[Array], places: list[Array]) -> None:
        """One sample: scalar code, which wants contiguous aligned arrays."""
        ins = [np.require(array, np.float64, ["C", "A"]) for array in rows]
        outs = [np.require(place, np.float64, ["C", "A", "W"]) for place in places]
        addresses = [array.__array_interface__["data"][0] for array in (*ins, *outs)]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        self._single(ctypes.addressof(table), ctypes.addressof(table) + 8 * len(ins))
        for place, array in zip(places, outs):
            if array is not place:
                place[...] = array

    def _run_rows(self, rows: list[Array], places: list[Array], count: int, threads: int) -> None:
        words: list[int] = []
        for array in (*rows, *places):
            words += (array.__array_interface__["data"][0], array.strides[0], array.strides[-1])
        descriptor = self._descriptor(*words)
        steps = count * len(self.function.tape)

        def work(
            begin: int, end: int, alive: object = (rows, places)
        ) -> None:  # also where the caller is interrupted
            if self._rows(descriptor, begin, end, count):
                raise MemoryError(
                    f"{self.function.name}: no memory for the work space of one block"
                )

        if threads > 1 and count >= self.splits_from:
            run_split(work, count, threads, min(8 * threads, steps // _WORTH_SPLITTING), self.width)
        else:
            work(0, count)


class EvaluatedFunction(NativeFunction):
    """What replaces a compiled function where llvmlite is not installed.

    The program run step by step on NumPy.
    """

    def __init__(self, function: Function, width: int) -> None:
        self.function, self.width, self._plan = function, width, Plan(function)
        self.fast = self.general

    def __repr__(self) -> str:
        return f"EvaluatedFunction({self.function!r})"

    def _fill(
        self,
        taken: list[Array],
        targets: list[Array],
        batch: tuple[int, ...],
        count: int,
        threads: int,
    ) -> None:
        found = evaluate_in_blocks(self.function, *taken)
        for target, values in zip(targets, found if isinstance(found, tuple) else (found,)):
            target[...] = values
