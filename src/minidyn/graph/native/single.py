"""One sample without Python in between: a builtin function whose machine code reads NumPy arrays itself.

Control loops call a kernel with one sample at a time; there the interpreter, not the arithmetic, takes the
time. So one small function with the interpreter's own fast-call signature is compiled per process. It takes
its arguments unboxed, checks that each is an ordinary contiguous float64 vector of the right length, makes
the result arrays through NumPy's C table, and runs the kernel's scalar code. Whatever does not pass the check
(batches, lists, keyword arguments, mistakes) goes to the general Python call with the same arguments.

The layout of an array object is NumPy's stable ABI; it is verified on a real array before the builtin is
offered, and on interpreters other than plain CPython it is not.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from minidyn.graph.native.core import Plan, core_text, fill_text, helper_text, once_text
from minidyn.graph.native.host import Code, compile_text
from minidyn.graph.native.text import FOOTER

__all__ = ["MOST", "make_builtin", "single_text"]

MOST = 16
"""More arguments or results than this always take the general call."""

_DATA, _ND, _DIMS, _DESCR, _FLAGS = 16, 24, 32, 56, 64  # offsets in PyArrayObject
_CONTIGUOUS_ALIGNED = 0x1 | 0x100
_NPY_DOUBLE = 12
_FASTCALL_KEYWORDS = 0x80 | 0x2


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_KEPT: list[Any] = []  # method definitions must outlive their builtins, whose end cannot be observed


def single_text(plan: Plan) -> str:
    """Return the module of `@single(arguments, results)`: one sample, pointers to contiguous arrays."""
    function = plan.function
    lines = ["define void @single(ptr %args, ptr %outs) #0 {"]
    names: list[str] = []
    for table, kind, count in (("args", "a", len(function.arguments)), ("outs", "o", len(function.results))):
        for index in range(count):
            name = f"{kind}{index}"
            lines.append(f"  %{name}.p = getelementptr ptr, ptr %{table}, i64 {index}")
            lines.append(f"  %{name} = load ptr, ptr %{name}.p, align 8")
            names.append(name)
    lines.append(f"  %u = alloca double, i64 {max(1, len(plan.slots))}, align 8")
    call = ", ".join(f"ptr %{name}" for name in [*names, "u"])
    lines += [f"  call void @{part}({call})" for part in ("once", "fill.1", "core.1")]
    entry = "\n".join([*lines, "  ret void", "}", ""])
    return helper_text(plan, 1) + once_text(plan) + fill_text(plan, 1) + core_text(plan, 1) + entry + FOOTER


def make_builtin(
    name: str, sizes: tuple[int, ...], shapes: tuple[tuple[int, ...], ...], general: Callable[..., Any]
) -> tuple[Callable[..., Any], Any] | None:
    """Return the builtin and its record, or None where this interpreter does not allow it.

    Args:
        name: The builtin's name.
        sizes: Length of each argument.
        shapes: Shape of each result.
        general: What is called when the arguments are not plain vectors.

    Returns:
        The builtin and an int64 array. Its first number is the address of `@single`; while it is 0 every call
        is passed on, so that the scalar code is compiled only when it is needed.
    """
    if len(sizes) > MOST or not 1 <= len(shapes) <= MOST or not _layout_is_known():
        return None
    dims = [extent for shape in shapes for extent in shape]
    head = 3 + len(sizes) + 2 * len(shapes)
    words = [0, len(sizes), len(shapes), *sizes]
    record = np.zeros(head + max(1, len(dims)), dtype=np.int64)
    address = record.__array_interface__["data"][0]
    at = head
    for shape in shapes:
        words += [len(shape), address + 8 * at]
        at += len(shape)
    record[: len(words)] = words
    record[head : head + len(dims)] = dims
    method = _MethodDef(name.encode(), _dispatcher().addresses["dispatch"], _FASTCALL_KEYWORDS, None)
    _KEPT.append(method)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    builtin: Callable[..., Any] = new(ctypes.addressof(method), (general, record), None)
    return builtin, record


def _word(address: int) -> int:
    return int(ctypes.c_int64.from_address(address).value)


@cache
def _tuple_items() -> int:
    """Offset of a tuple's first item (it moved between interpreter versions)."""
    first, second = object(), object()
    probe = (first, second)
    for offset in range(16, 56, 8):
        if _word(id(probe) + offset) == id(first) and _word(id(probe) + offset + 8) == id(second):
            return offset
    return 0


@cache
def _layout_is_known() -> bool:
    """Whether objects look as the machine code expects; asked of real objects."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**62 or hasattr(sys, "getobjects"):
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not hasattr(ctypes, "pythonapi"):
        return False
    probe = np.zeros(5)
    here = id(probe)
    try:
        fits = (
            _word(here + 8) == id(np.ndarray)
            and _word(here + _DATA) == probe.__array_interface__["data"][0]
            and ctypes.c_int.from_address(here + _ND).value == 1
            and _word(_word(here + _DIMS)) == 5
            and _word(here + _DESCR) == id(np.dtype(np.float64))
            and ctypes.c_int.from_address(here + _FLAGS).value & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
        )
        return bool(fits and _tuple_items() and _array_new())
    except (AttributeError, ImportError, ValueError):
        return False


@cache
def _array_new() -> int:
    """Address of NumPy's PyArray_New."""
    try:
        umath = import_module("numpy._core._multiarray_umath")
    except ImportError:  # NumPy 1
        umath = import_module("numpy.core._multiarray_umath")
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return _word(get(umath._ARRAY_API, None) + 8 * 93)


def _python(name: str) -> str:
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    return f"inttoptr (i64 {address} to ptr)"


@cache
def _dispatcher() -> Code:
    """Compile the builtins' common code, once per process."""
    return compile_text(_dispatch_text(), ("dispatch",))


def _dispatch_text() -> str:
    array_type, descr = id(np.ndarray), id(np.dtype(np.float64))
    items = _tuple_items()
    return (
        f"""
define ptr @dispatch(ptr %self, ptr %args, i64 %nargs, ptr %keywords) #0 {{
entry:
  %ins = alloca ptr, i64 {MOST}, align 8
  %outs = alloca ptr, i64 {MOST}, align 8
  %arrays = alloca ptr, i64 {MOST}, align 8
  %general.p = getelementptr i8, ptr %self, i64 {items}
  %general = load ptr, ptr %general.p, align 8
  %record.p = getelementptr i8, ptr %self, i64 {items + 8}
  %record = load ptr, ptr %record.p, align 8
  %words.p = getelementptr i8, ptr %record, i64 {_DATA}
  %words = load ptr, ptr %words.p, align 8
  %code = load ptr, ptr %words, align 8
  %count.p = getelementptr i64, ptr %words, i64 1
  %count = load i64, ptr %count.p, align 8
  %results.p = getelementptr i64, ptr %words, i64 2
  %results = load i64, ptr %results.p, align 8
  %sizes = getelementptr i64, ptr %words, i64 3
  %shapes = getelementptr i64, ptr %sizes, i64 %count
  %no.code = icmp eq ptr %code, null
  %named = icmp ne ptr %keywords, null
  %other = icmp ne i64 %nargs, %count
  %no1 = or i1 %no.code, %named
  %no = or i1 %no1, %other
  br i1 %no, label %pass, label %check
check:
  %k = phi i64 [ 0, %entry ], [ %k.next, %good ]
  %checked = icmp eq i64 %k, %count
  br i1 %checked, label %make, label %one
one:
  %arg.p = getelementptr ptr, ptr %args, i64 %k
  %arg = load ptr, ptr %arg.p, align 8
  %type.p = getelementptr i8, ptr %arg, i64 8
  %type = load i64, ptr %type.p, align 8
  %is.array = icmp eq i64 %type, {array_type}
  br i1 %is.array, label %vector, label %pass
vector:
  %nd.p = getelementptr i8, ptr %arg, i64 {_ND}
  %nd = load i32, ptr %nd.p, align 4
  %is.vector = icmp eq i32 %nd, 1
  br i1 %is.vector, label %fields, label %pass
fields:
  %dims.p = getelementptr i8, ptr %arg, i64 {_DIMS}
  %dims = load ptr, ptr %dims.p, align 8
  %length = load i64, ptr %dims, align 8
  %size.p = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.p, align 8
  %descr.p = getelementptr i8, ptr %arg, i64 {_DESCR}
  %descr = load i64, ptr %descr.p, align 8
  %flags.p = getelementptr i8, ptr %arg, i64 {_FLAGS}
  %flags = load i32, ptr %flags.p, align 4
  %flags.kept = and i32 %flags, {_CONTIGUOUS_ALIGNED}
  %ok1 = icmp eq i64 %length, %size
  %ok2 = icmp eq i64 %descr, {descr}
  %ok3 = icmp eq i32 %flags.kept, {_CONTIGUOUS_ALIGNED}
  %ok12 = and i1 %ok1, %ok2
  %ok = and i1 %ok12, %ok3
  br i1 %ok, label %good, label %pass
good:
  %data.p = getelementptr i8, ptr %arg, i64 {_DATA}
  %data = load ptr, ptr %data.p, align 8
  %in.p = getelementptr ptr, ptr %ins, i64 %k
  store ptr %data, ptr %in.p, align 8
  %k.next = add i64 %k, 1
  br label %check
make:
  %j = phi i64 [ 0, %check ], [ %j.next, %made ]
  %all = icmp eq i64 %j, %results
  br i1 %all, label %compute, label %allocate
allocate:
  %j2 = shl i64 %j, 1
  %rank.p = getelementptr i64, ptr %shapes, i64 %j2
  %rank64 = load i64, ptr %rank.p, align 8
  %rank = trunc i64 %rank64 to i32
  %shape.p = getelementptr i64, ptr %rank.p, i64 1
  %shape = load ptr, ptr %shape.p, align 8
  %array = call ptr inttoptr (i64 {_array_new()} to ptr)(ptr inttoptr (i64 {array_type} to ptr), i32 %rank, \
ptr %shape, i32 {_NPY_DOUBLE}, ptr null, ptr null, i32 0, i32 0, ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %undo, label %made
made:
  %array.p = getelementptr ptr, ptr %arrays, i64 %j
  store ptr %array, ptr %array.p, align 8
  %out.p = getelementptr i8, ptr %array, i64 {_DATA}
  %out = load ptr, ptr %out.p, align 8
  %outs.p = getelementptr ptr, ptr %outs, i64 %j
  store ptr %out, ptr %outs.p, align 8
  %j.next = add i64 %j, 1
  br label %make
compute:
  call void %code(ptr %ins, ptr %outs)
  %first = load ptr, ptr %arrays, align 8
  %lone = icmp eq i64 %results, 1
  br i1 %lone, label %return, label %pack
return:
  ret ptr %first
pack:
  %tuple = call ptr {_python("PyTuple_New")}(i64 %results)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %undo, label %fill
fill:
  %m = phi i64 [ 0, %pack ], [ %m.next, %fill ]
  %item.p = getelementptr ptr, ptr %arrays, i64 %m
  %item = load ptr, ptr %item.p, align 8
  %set = call i32 {_python("PyTuple_SetItem")}(ptr %tuple, i64 %m, ptr %item)
  %m.next = add i64 %m, 1
  %packed = icmp eq i64 %m.next, %results
  br i1 %packed, label %finish, label %fill
finish:
  ret ptr %tuple
undo:
  %owned = phi i64 [ %j, %allocate ], [ %results, %pack ]
  br label %drop
drop:
  %left = phi i64 [ %owned, %undo ], [ %left.next, %release ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %fail, label %release
release:
  %left.next = sub i64 %left, 1
  %dead.p = getelementptr ptr, ptr %arrays, i64 %left.next
  %dead = load ptr, ptr %dead.p, align 8
  call void {_python("Py_DecRef")}(ptr %dead)
  br label %drop
fail:
  ret ptr null
pass:
  %passed = call ptr {_python("PyObject_Vectorcall")}(ptr %general, ptr %args, i64 %nargs, ptr %keywords)
  ret ptr %passed
}}
"""
        + FOOTER
    )
