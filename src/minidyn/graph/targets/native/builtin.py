"""Kernels as builtin functions of the interpreter.

No Python between the caller and the machine code. Why: control loops call a kernel with one sample
at a time, and there the interpreter takes the time, not the arithmetic. This file alone knows how
objects of CPython and NumPy lie in memory. It stays because no maintained way takes at most 0.5 µs.
Measured by benchmarks/call_paths.py, inverse dynamics of one sample (Panda), least of 150
interleaved rounds on a busy machine: builtin 0.28 µs; ctypes with bound buffers, checked and copied
through memoryviews, 0.89 (medians: 3.5 times the builtin, which takes 0.19 on a quiet machine);
cffi likewise 1.09; cffi's from_buffer 3.1; ctypes with the arrays' addresses 8.3. Batches of a few
samples would lose more.

How: a kernel is wrapped into a builtin (PyCFunction_NewEx) whose machine code, `@dispatch`, has the
interpreter's own signature METH_FASTCALL | METH_KEYWORDS and reads NumPy arrays itself. It is one
function per process; each builtin carries a record (64-bit words) that says what to expect:

    0  address of `@single`, or 0       3  number of results
    1  address of `@rows`, or 0         4  samples from which the interpreter's lock is released
    2  number of arguments              5  first argument that varies with the sample, or -1
    6  per argument: size, 1 if uniform
    then per result: rank, size, address of its shape (with one free word in front, for the length
    of a batch)

Accepted are exact NumPy arrays, float64, C-contiguous and aligned: all vectors (one sample), or all
matrices of equal length (a batch), uniform arguments always vectors; and `out=` likewise, for
several results a tuple of arrays, where none touches the inputs. Everything else, every mistake
included, goes to the general call in Python with the same arguments.

Without it: `make_builtin` returns None on interpreters other than plain 64-bit CPython, and
wherever a real array does not look as expected (NumPy's stable ABI); every call then takes the
general way. Nothing else depends on this file.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from minidyn.graph.function import Function
from minidyn.graph.targets.native.host import (
    FOOTER,
    Code,
    all_of,
    compile_text,
    joined,
    outside,
    word,
)

Base = TypeVar("Base")

SINGLE, ROWS = 0, 1
"""Places in the record for the addresses of the code.

0 sends calls of that kind to the general way.
"""

_MOST = 16  # more arguments or results than this always take the general call
_DATA, _ND, _DIMS, _DESCR, _FLAGS = 16, 24, 32, 56, 64  # offsets of fields in an array object
_PLAIN = 0x1 | 0x100  # flags of an array that is C-contiguous and aligned
_WRITEABLE = 0x400
_NPY_DOUBLE = 12
_FASTCALL_KEYWORDS = 0x80 | 0x2
_RELEASE = (
    400_000  # tape steps times samples (about 20 µs) from which other threads may run meanwhile
)
_FUNCTIONS = (
    *("PyObject_Vectorcall", "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_NoMemory"),
    *("PyTuple_New", "PyTuple_SetItem", "Py_IncRef", "Py_DecRef"),
)
_OUT = sys.intern("out")  # keyword names of calls are interned too: comparing addresses is enough


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# must outlive its builtins, whose end cannot be observed; functions have few different names
@cache
def _method(name: str) -> _MethodDef:
    return _MethodDef(name.encode(), _dispatcher().addresses["dispatch"], _FASTCALL_KEYWORDS, None)


def make_builtin(
    function: Function, general: Callable[..., Any]
) -> tuple[Callable[..., Any], NDArray[np.int64]] | None:
    """Return a builtin for the function and its record, or None where this interpreter does not
    allow it.

    The record's words SINGLE and ROWS start as 0: code is compiled when first needed, by the
    general call, which takes the same arguments whenever they are not plain arrays.
    """
    arguments, results = function.arguments, function.results
    if len(arguments) > _MOST or not 1 <= len(results) <= _MOST or not _layout_is_known():
        return None
    varying = [index for index, argument in enumerate(arguments) if not argument.uniform]
    limit = -(-_RELEASE // max(1, len(function.tape)))
    words = [0, 0, len(arguments), len(results), limit, varying[0] if varying else -1]
    for argument in arguments:
        words += [argument.size, int(argument.uniform)]
    head = len(words) + 3 * len(results)
    record = np.zeros(head + sum(1 + len(result.shape) for result in results), dtype=np.int64)
    address = record.__array_interface__["data"][0]
    at = head
    for result in results:
        words += [len(result.shape), result.size, address + 8 * (at + 1)]
        record[at + 1 : at + 1 + len(result.shape)] = result.shape
        at += 1 + len(result.shape)
    record[:head] = words
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    builtin: Callable[..., Any] = new(
        ctypes.addressof(_method(function.name)), (general, record), None
    )
    return builtin, record


def called_by(base: type[Base], builtin: Callable[..., Any]) -> type[Base]:
    """Return a subclass of `base` whose instances are called by the builtin itself.

    Special methods are looked up in the class, and a builtin does not bind: calling the instance
    calls it with the same arguments, 40 ns slower than calling the builtin and 120 ns quicker than
    through a method in Python. `base` keeps a `__call__` in Python for documentation and for
    interpreters without builtins.
    """
    body = {
        "__call__": builtin,
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__slots__": (),
    }
    return type(base.__name__, (base,), body)


def _read(address: int) -> int:
    return int(ctypes.c_int64.from_address(address).value)


@cache
def _tuple_items() -> int:
    """Offset of a tuple's first item (it moved between interpreter versions)."""
    probe = (object(), object())
    for offset in range(16, 56, 8):
        if all(_read(id(probe) + offset + 8 * k) == id(item) for k, item in enumerate(probe)):
            return offset
    return 0


@cache
def _layout_is_known() -> bool:
    """Whether objects look as the machine code expects; asked of real objects."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**62 or hasattr(sys, "getobjects"):
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not hasattr(ctypes, "pythonapi"):
        return False
    probe = np.zeros((5, 3))
    here = id(probe)
    try:
        fits = (
            _read(here + 8) == id(np.ndarray)
            and _read(here + _DATA) == probe.__array_interface__["data"][0]
            and ctypes.c_int.from_address(here + _ND).value == 2
            and _read(_read(here + _DIMS)) == 5
            and _read(_read(here + _DIMS) + 8) == 3
            and _read(here + _DESCR) == id(np.dtype(np.float64))
            and ctypes.c_int.from_address(here + _FLAGS).value & _PLAIN == _PLAIN
            and _read(id((1, 2, 3)) + 16) == 3
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
    return _read(get(umath._ARRAY_API, None) + 8 * 93)


@cache
def _dispatcher() -> Code:
    """Compile the builtins' common code, once per process."""
    given = {
        "ndarray": id(np.ndarray),
        "float64": id(np.dtype(np.float64)),
        "None": id(None),
        "out": id(_OUT),
        "tuple": id(tuple),
    }
    given["PyArray_New"] = _array_new()
    for name in _FUNCTIONS:
        given[name] = int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
    return compile_text(_dispatch_text(_tuple_items()), ("dispatch",), given=given)


def _field(name: str, base: str, offset: int, kind: str = "i64") -> str:
    """Load the field of an object at an offset in bytes."""
    return (
        f"  %{name}.p = getelementptr i8, ptr %{base}, i64 {offset}\n"
        f"  %{name} = load {kind}, ptr %{name}.p, align 4"
    )


def _put(value: str, table: str, index: int | str) -> str:
    """Store one of a row of 64-bit words."""
    place = f"%{table}.{str(index).strip('%')}.to"
    return (
        f"  {place} = getelementptr i64, ptr %{table}, i64 {index}\n"
        f"  store {value}, ptr {place}, align 8"
    )


def _when(yes: str, no: str, *conditions: str) -> str:
    """Go to one label where all conditions hold, to the other where one does not."""
    name = f"{yes}.or.{no}"
    return joined([*all_of(name, *conditions), f"  br i1 %{name}, label %{yes}, label %{no}"])


def _dispatch_text(items: int) -> str:
    """Return the module with `@dispatch`.

    `items` is the offset of the first item in a tuple object. From outside come the objects
    `ndarray`, `float64`, `None` and `out` (the interned name), and the functions of the
    interpreter, of NumPy and of the C library that are called.
    """
    return f"""
define internal ptr @data(ptr %a, i64 %rank, i32 %need) noinline #0 {{
{_field("type", "a", 8)}
{outside("ndarray", "i64")}
{_when("fields", "no", "eq i64 %type, %ndarray.at")}
fields:
{_field("nd", "a", _ND, "i32")}
{_field("descr", "a", _DESCR)}
{_field("flags", "a", _FLAGS, "i32")}
  %has = and i32 %flags, %need
  %rank32 = trunc i64 %rank to i32
{outside("float64", "i64")}
{_when("yes", "no", "eq i32 %nd, %rank32", "eq i64 %descr, %float64.at", "eq i32 %has, %need")}
yes:
{_field("data", "a", _DATA, "ptr")}
  ret ptr %data
no:
  ret ptr null
}}

define ptr @dispatch(ptr %self, ptr %args, i64 %nargs, ptr %names) #0 {{
entry:
  %ins = alloca ptr, i64 {_MOST}, align 8
  %bytes = alloca i64, i64 {_MOST}, align 8
  %outs = alloca ptr, i64 {_MOST}, align 8
  %arrays = alloca ptr, i64 {_MOST}, align 8
  %table = alloca i64, i64 {6 * _MOST}, align 8
  %alone = alloca ptr, align 8
{_field("general", "self", items, "ptr")}
{_field("record", "self", items + 8, "ptr")}
{_field("words", "record", _DATA, "ptr")}
{word("count", "words", 2)}
{word("results", "words", 3)}
{word("first", "words", 5)}
  %sizes = getelementptr i64, ptr %words, i64 6
  %twice = shl i64 %count, 1
  %shapes = getelementptr i64, ptr %sizes, i64 %twice
{_when("keywords", "pass", "eq i64 %nargs, %count")}
keywords:  ; none, or out= alone
{_when("mode", "named", "eq ptr %names, null")}
named:
{_field("named.count", "names", 16)}
{_field("name", "names", items)}
{outside("out", "i64")}
{_when("take", "pass", "eq i64 %named.count, 1", "eq i64 %name, %out.at")}
take:
{word("given", "args", "%nargs", "ptr")}
{outside("None")}
  %is.none = icmp eq ptr %given, %None.at
  %given.out = select i1 %is.none, ptr null, ptr %given
  store ptr %given, ptr %alone, align 8
{_when("several", "mode", "ne i64 %results, 1", "ne ptr %given.out, null")}
several:  ; a plain tuple of so many arrays
{_field("given.type", "given", 8)}
{outside("tuple", "i64")}
{_field("given.count", "given", 16)}
  %items = getelementptr i8, ptr %given, i64 {items}
{_when("mode", "pass", "eq i64 %given.type, %tuple.at", "eq i64 %given.count, %results")}
mode:  ; the first argument that varies with the sample says whether this is a batch
  %out = phi ptr [ null, %keywords ], [ %given.out, %take ], [ %given.out, %several ]
  %outs.given = phi ptr [ %alone, %keywords ], [ %alone, %take ], [ %items, %several ]
{_when("look", "ready", "sge i64 %first, 0")}
look:
{word("lead", "args", "%first", "ptr")}
  %matrix = call ptr @data(ptr %lead, i64 2, i32 {_PLAIN})
{_when("ready", "many", "eq ptr %matrix, null")}
many:
{_field("lead.dims", "lead", _DIMS, "ptr")}
  %length = load i64, ptr %lead.dims, align 8
  br label %ready
ready:
  %n = phi i64 [ %length, %many ], [ 1, %mode ], [ 1, %look ]
  %batch = phi i64 [ 1, %many ], [ 0, %mode ], [ 0, %look ]
{word("code", "words", "%batch", "ptr")}
{_when("pass", "check", "eq ptr %code, null")}
check:  ; every argument: a plain array of the right shape
  %k = phi i64 [ 0, %ready ], [ %k.next, %good ]
{_when("make", "argument", "eq i64 %k, %count")}
argument:
{word("arg", "args", "%k", "ptr")}
  %k2 = shl i64 %k, 1
  %size.p = getelementptr i64, ptr %sizes, i64 %k2
  %size = load i64, ptr %size.p, align 8
{word("uniform", "size.p", 1)}
  %is.uniform = icmp ne i64 %uniform, 0
  %extra = select i1 %is.uniform, i64 0, i64 %batch
  %rank = add i64 %extra, 1
  %data = call ptr @data(ptr %arg, i64 %rank, i32 {_PLAIN})
{_when("pass", "fits", "eq ptr %data, null")}
fits:
{_field("dims", "arg", _DIMS, "ptr")}
{word("last", "dims", "%extra")}
  %lead.k = load i64, ptr %dims, align 8
  %has.lead = icmp ne i64 %extra, 0
  %rows.k = select i1 %has.lead, i64 %lead.k, i64 1
  %rows.want = select i1 %has.lead, i64 %n, i64 1
{_when("good", "pass", "eq i64 %last, %size", "eq i64 %rows.k, %rows.want")}
good:
{_put("ptr %data", "ins", "%k")}
  %stride = shl i64 %size, 3
  %all = mul i64 %stride, %rows.k
{_put("i64 %all", "bytes", "%k")}
  %k3 = mul i64 %k, 3
  %word0 = getelementptr i64, ptr %table, i64 %k3
  store ptr %data, ptr %word0, align 8
{_put("i64 %stride", "word0", 1)}
{_put("i64 8", "word0", 2)}
  %k.next = add i64 %k, 1
  br label %check
make:  ; every result: the array given by out= if it fits, or a new one
  %j = phi i64 [ 0, %check ], [ %j.next, %made ]
{_when("compute", "result", "eq i64 %j, %results")}
result:
  %j3 = mul i64 %j, 3
  %rank.p = getelementptr i64, ptr %shapes, i64 %j3
  %rank.own = load i64, ptr %rank.p, align 8
  %rank.out = add i64 %rank.own, %batch
  %rank.32 = trunc i64 %rank.out to i32
{word("width", "rank.p", 1)}
  %row = shl i64 %width, 3
{word("shape.own", "rank.p", 2, "ptr")}
  %back = sub i64 0, %batch
  %shape = getelementptr i64, ptr %shape.own, i64 %back
{_put("i64 %n", "shape.own", -1)}
{_when("given.check", "allocate", "ne ptr %out, null")}
given.check:
{word("target", "outs.given", "%j", "ptr")}
  %given.data = call ptr @data(ptr %target, i64 %rank.out, i32 {_PLAIN | _WRITEABLE})
{_when("pass", "given.shape", "eq ptr %given.data, null")}
given.shape:
{_field("given.dims", "target", _DIMS, "ptr")}
  %given.dims.bytes = shl i64 %rank.out, 3
{outside("memcmp")}
  %unequal = call i32 %memcmp.at(ptr %given.dims, ptr %shape, i64 %given.dims.bytes)
{_when("apart", "pass", "eq i32 %unequal, 0")}
apart:  ; out= must not touch the inputs
  %given.bytes = mul i64 %row, %n
  %given.end = getelementptr i8, ptr %given.data, i64 %given.bytes
  br label %apart.head
apart.head:
  %i = phi i64 [ 0, %apart ], [ %i.next, %apart.body ]
{_when("accept", "apart.body", "eq i64 %i, %count")}
apart.body:
{word("i.begin", "ins", "%i", "ptr")}
{word("i.bytes", "bytes", "%i")}
  %i.end = getelementptr i8, ptr %i.begin, i64 %i.bytes
  %i.next = add i64 %i, 1
{_when("pass", "apart.head", "ult ptr %i.begin, %given.end", "ult ptr %given.data, %i.end")}
accept:  ; its reference is counted when all is done: what comes may still go the general way
  br label %made
allocate:
{outside("PyArray_New")}
{outside("ndarray", to="class")}
  %new = call ptr %PyArray_New.at(ptr %class, i32 %rank.32, ptr %shape, i32 {_NPY_DOUBLE}, \
ptr null, ptr null, i32 0, i32 0, ptr null)
{_when("undo", "made", "eq ptr %new, null")}
made:
  %array = phi ptr [ %target, %accept ], [ %new, %allocate ]
{_put("ptr %array", "arrays", "%j")}
{_field("out.data", "array", _DATA, "ptr")}
{_put("ptr %out.data", "outs", "%j")}
  %place.k = add i64 %count, %j
  %place.3 = mul i64 %place.k, 3
  %out0 = getelementptr i64, ptr %table, i64 %place.3
  store ptr %out.data, ptr %out0, align 8
{_put("i64 %row", "out0", 1)}
{_put("i64 8", "out0", 2)}
  %j.next = add i64 %j, 1
  br label %make
compute:
{_when("rows", "single", "eq i64 %batch, 1")}
single:
  call void %code(ptr %ins, ptr %outs)
  br label %answer
rows:
{word("limit", "words", 4)}
{_when("unlocked", "locked", "sge i64 %n, %limit")}
locked:
  %status1 = call i32 %code(ptr %table, i64 0, i64 %n, i64 %n)
  br label %after.rows
unlocked:
{outside("PyEval_SaveThread")}
  %state = call ptr %PyEval_SaveThread.at()
  %status2 = call i32 %code(ptr %table, i64 0, i64 %n, i64 %n)
{outside("PyEval_RestoreThread")}
  call void %PyEval_RestoreThread.at(ptr %state)
  br label %after.rows
after.rows:
  %status = phi i32 [ %status1, %locked ], [ %status2, %unlocked ]
{_when("answer", "memory", "eq i32 %status, 0")}
memory:
{outside("PyErr_NoMemory")}
  %nothing = call ptr %PyErr_NoMemory.at()
{_when("fail", "undo", "ne ptr %out, null")}
answer:
{_when("hold", "answer.given", "ne ptr %out, null")}
hold:  ; arrays that were given are the caller's, too
  %h = phi i64 [ 0, %answer ], [ %h.next, %hold ]
{word("held", "arrays", "%h", "ptr")}
{outside("Py_IncRef")}
  call void %Py_IncRef.at(ptr %held)
  %h.next = add i64 %h, 1
{_when("answer.given", "hold", "eq i64 %h.next, %results")}
answer.given:  ; one array, or a tuple of them
{_when("return", "pack", "eq i64 %results, 1")}
return:
  %only = load ptr, ptr %arrays, align 8
  ret ptr %only
pack:
{outside("PyTuple_New")}
  %tuple = call ptr %PyTuple_New.at(i64 %results)
{_when("undo", "fill", "eq ptr %tuple, null")}
fill:
  %m = phi i64 [ 0, %pack ], [ %m.next, %fill ]
{word("item", "arrays", "%m", "ptr")}
{outside("PyTuple_SetItem")}
  %set = call i32 %PyTuple_SetItem.at(ptr %tuple, i64 %m, ptr %item)
  %m.next = add i64 %m, 1
{_when("finish", "fill", "eq i64 %m.next, %results")}
finish:
  ret ptr %tuple
undo:  ; an error: give back the arrays made so far
  %left = phi i64 [ %j, %allocate ], [ %results, %pack ], [ %results, %memory ], [ %left.next, %release ]
{_when("fail", "release", "eq i64 %left, 0")}
release:
  %left.next = sub i64 %left, 1
{word("dead", "arrays", "%left.next", "ptr")}
{outside("Py_DecRef")}
  call void %Py_DecRef.at(ptr %dead)
  br label %undo
fail:
  ret ptr null
pass:  ; anything else, mistakes included
{outside("PyObject_Vectorcall")}
  %passed = call ptr %PyObject_Vectorcall.at(ptr %general, ptr %args, i64 %nargs, ptr %names)
  ret ptr %passed
}}
{FOOTER}"""  # noqa: E501
