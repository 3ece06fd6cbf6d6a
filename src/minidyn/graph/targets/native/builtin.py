"""Kernels as builtin functions: no Python between the caller and the machine code.

Control loops call a kernel with one sample at a time; there the interpreter, not the arithmetic, takes the
time. So a kernel is wrapped into a builtin function whose machine code (:mod:`minidyn.graph.targets.native.dispatch`)
has the interpreter's own fast-call signature and reads NumPy arrays itself.

The layout of an array object is NumPy's stable ABI; it is verified on a real array before a builtin is made,
and on interpreters other than plain 64-bit CPython none is.
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
from minidyn.graph.targets.native.dispatch import DATA, DESCR, DIMS, FLAGS, MOST, ND, PLAIN, dispatch_text
from minidyn.graph.targets.native.host import Code, compile_text

Base = TypeVar("Base")

SINGLE, ROWS = 0, 1
"""Places in the record for the addresses of the code; 0 sends calls of that kind to the general way."""

_FASTCALL_KEYWORDS = 0x80 | 0x2
_RELEASE = 400_000  # tape steps times samples (about 20 µs) from which other threads may run meanwhile
_FUNCTIONS = (
    "PyObject_Vectorcall",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_NoMemory",
    "PyTuple_New",
    "PyTuple_SetItem",
    "Py_IncRef",
    "Py_DecRef",
)
_OUT = sys.intern("out")  # keyword names of calls are interned too: comparing addresses is enough


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache  # must outlive its builtins, whose end cannot be observed; functions have few different names
def _method(name: str) -> _MethodDef:
    return _MethodDef(name.encode(), _dispatcher().addresses["dispatch"], _FASTCALL_KEYWORDS, None)


def make_builtin(
    function: Function, general: Callable[..., Any]
) -> tuple[Callable[..., Any], NDArray[np.int64]] | None:
    """Return a builtin for the function and its record, or None where this interpreter does not allow it.

    The record's words SINGLE and ROWS start as 0: code is compiled when it is first needed, by the general
    call.

    Args:
        function: What the builtin computes.
        general: Called with the same arguments whenever they are not plain arrays.
    """
    arguments, results = function.arguments, function.results
    if len(arguments) > MOST or not 1 <= len(results) <= MOST or not _layout_is_known():
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
    builtin: Callable[..., Any] = new(ctypes.addressof(_method(function.name)), (general, record), None)
    return builtin, record


def called_by(base: type[Base], builtin: Callable[..., Any]) -> type[Base]:
    """Return a subclass of `base` whose instances are called by the builtin itself.

    Special methods are looked up in the class, and a builtin does not bind: calling the instance calls it
    with the same arguments, some 40 ns dearer than calling the builtin and 120 ns cheaper than through a
    method in Python. `base` keeps a `__call__` in Python for documentation and for interpreters without
    builtins.
    """
    body = {"__call__": builtin, "__doc__": base.__doc__, "__module__": base.__module__, "__slots__": ()}
    return type(base.__name__, (base,), body)


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
    probe = np.zeros((5, 3))
    here = id(probe)
    try:
        fits = (
            _word(here + 8) == id(np.ndarray)
            and _word(here + DATA) == probe.__array_interface__["data"][0]
            and ctypes.c_int.from_address(here + ND).value == 2
            and _word(_word(here + DIMS)) == 5
            and _word(_word(here + DIMS) + 8) == 3
            and _word(here + DESCR) == id(np.dtype(np.float64))
            and ctypes.c_int.from_address(here + FLAGS).value & PLAIN == PLAIN
            and _word(id((1, 2, 3)) + 16) == 3
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


@cache
def _dispatcher() -> Code:
    """Compile the builtins' common code, once per process."""
    known = {
        "ndarray": id(np.ndarray),
        "float64": id(np.dtype(np.float64)),
        "None": id(None),
        "out": id(_OUT),
        "PyArray_New": _array_new(),
    }
    for name in _FUNCTIONS:
        known[name] = int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
    return compile_text(dispatch_text(_tuple_items(), known), ("dispatch",))
