"""Arrays: the one type of numbers, numbers that people give or keep as JSON, and linear algebra on
one thread.

The BLAS behind NumPy starts threads for matrices of a few thousand entries, where handing out the
work costs more than doing it; on a busy machine hundreds of times more. Loops over small
factorisations run inside `single_thread`, and so does every door of identification as a whole.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.notices import Notice

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]


_LIMITED = [0]  # contexts that are open, of all threads together
_LOCK = threading.Lock()
_HELD: list[AbstractContextManager[object]] = []


@contextmanager
def single_thread() -> Iterator[None]:
    """Return a context, also of use as a decorator, in which BLAS uses one thread.

    Inside another it costs nothing.
    """
    with _LOCK:
        _LIMITED[0] += 1
        if _LIMITED[0] == 1:
            _HELD.append(_blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            _LIMITED[0] -= 1
            if _LIMITED[0] == 0:
                _HELD.pop().__exit__(None, None, None)


@contextmanager
def solvable() -> Iterator[None]:
    """Return a context, also of use as a decorator, for problems made of measured numbers.

    Where no algorithm converges on them, an error says what that means.
    """
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise MinidynError(
            f"no solution can be computed from the values of the log ({error}): columns are too "
            "large, too small or alike; minidyn check names columns that are odd"
        ) from error


_ALONE = ContextVar("alone", default=False)


@contextmanager
def one_processor() -> Iterator[None]:
    """Return a context for a task among others: BLAS, and who reads files, use one thread."""
    token = _ALONE.set(True)
    try:
        with single_thread():
            yield
    finally:
        _ALONE.reset(token)


def may_thread() -> bool:
    """Whether threads may be started beside this one: not in a task."""
    return not _ALONE.get()


@cache
def _blas(with_scipy: bool) -> ThreadpoolController:
    """The loaded BLAS libraries: SciPy brings its own.

    Looking for them takes longer than a small factorisation.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def refuse_beyond_memory(numbers: float, what: str, advice: str) -> None:
    """Refuse what takes more than the memory of this machine, before it is allocated.

    `what` begins the message.
    """
    try:
        most = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # systems that do not say
        most = 2.0**36
    if not 8 * numbers <= most:
        raise MinidynError(
            f"{what}: needs {8e-9 * numbers:.3g} GB, this machine has {1e-9 * most:.3g} GB; "
            f"{advice}"
        )


def unmasked(values: Any, where: str) -> Any:
    """Return values as they are; refuse a masked array that hides some.

    A plain array would show them.
    """
    masked = sys.modules.get("numpy.ma")  # nobody has one where it was never imported
    if masked is not None and masked.is_masked(values):
        raise ShapeError(
            f"{where}: a masked array with hidden entries; give them values, with .filled(...)"
        )
    return values


def real_array(values: object, where: str) -> NDArray[np.float64]:
    """Return values as a float64 array.

    Refuse texts, complex numbers, None and lists of unequal lengths.
    """
    values = unmasked(values, where)
    try:
        array = np.asarray(values)
    except ValueError:  # nested lists of unequal lengths
        raise DescriptionError(f"{where}: expected numbers, got {values!r}") from None
    if array.dtype.kind not in "fiub":
        kind = "real numbers" if array.dtype.kind == "c" else "numbers"
        raise DescriptionError(f"{where}: expected {kind}, got {values!r}")
    return array.astype(float, copy=False)


def plain_values(value: Any, *, finite: bool = False) -> Any:
    """Return dicts, lists, texts, numbers and None alone: what JSON gives back as it was.

    Arrays and notices count as lists and dicts, anything else becomes text; with `finite`, what is
    not finite None.
    """
    kind = type(value)
    if kind is float:  # nearly always
        return None if finite and not math.isfinite(value) else value
    if kind is int or kind is str:
        return value
    if isinstance(value, Notice):
        value = value.to_json()
    if isinstance(value, Mapping):
        return {str(key): plain_values(entry, finite=finite) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_values(entry, finite=finite) for entry in value]
    if finite and isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def frozen(values: ArrayLike) -> Array:
    """Return a copy as an array that cannot be written to."""
    array = np.array(values, dtype=float)
    array.setflags(write=False)
    return array


def measured(name: str, values: ArrayLike) -> Array:
    """Return an array that nobody can change: the same one where that is so already, else a copy.

    What is hidden in a masked array is missing: NaN, but times may not be.
    """
    if isinstance(values, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        values = unmasked(values, name) if name == "t" else values.astype(float).filled(np.nan)  # type: ignore[union-attr]
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ShapeError(f"{name}: expected an array of numbers") from None
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if isinstance(owner, np.ndarray) or not array.flags.c_contiguous:
        array = np.array(array)
    array.setflags(write=False)
    return array


def given_away(array: Array) -> Array:
    """Return an array that its maker writes to no more, marked so: a recording need not copy it."""
    array.setflags(write=False)
    return array


def side_by_side(columns: Sequence[Array]) -> Array:
    """Return columns as one new array (N, k).

    Those that lie side by side already are copied all at once.
    """
    first, width = columns[0], len(columns)
    begins = range(first.ctypes.data, first.ctypes.data + 8 * width, 8)
    if all(
        one.dtype == float and one.strides == (8 * width,) and one.ctypes.data == at
        for one, at in zip(columns, begins)
    ):
        return np.lib.stride_tricks.as_strided(first, (len(first), width), (8 * width, 8)).copy()
    return np.column_stack(columns)


def read_only_again(self: object, state: Mapping[str, Any]) -> None:
    """Serve a frozen value as `__setstate__`.

    The arrays of copies, also in other processes, are read-only again.
    """
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(self, name, value)


def known_product(matrix: Array, values: Array) -> Array:
    """Return matrix @ values, NaN only where a value that enters is unknown (NaN)."""
    unknown = np.isnan(values)
    return np.where((matrix != 0.0) @ unknown, np.nan, matrix @ np.where(unknown, 0.0, values))


def carried(change: Array, covariance: Array) -> Array:
    """Return change C changeᵀ (..., m, m) of a covariance C (b, b) in which what is not determined
    is infinite.

    What depends on that is not determined either: infinite variance, correlated with nothing.
    """
    if np.array_equal(change, np.eye(len(covariance))):
        return covariance  # to the bit
    still_open = ~np.isfinite(np.diag(covariance))
    root = change @ covariance_root(covariance)
    made = np.asarray(root @ np.swapaxes(root, -1, -2))
    if not still_open.any():
        return made
    sizes = np.abs(change)
    lost = np.any(sizes[..., still_open] > 1e-12 * np.max(sizes, axis=-1, keepdims=True), axis=-1)
    made[lost[..., None] | lost[..., None, :]] = 0.0
    places = np.arange(made.shape[-1])
    made[..., places, places] = np.where(lost, np.inf, made[..., places, places])
    return made


def rms(values: ArrayLike, axis: int = 0) -> Any:
    """Return root mean squares along an axis."""
    return np.sqrt(np.mean(np.square(values), axis=axis))


def symmetric(matrix: ArrayLike) -> Array:
    """Return the symmetric part of a matrix (b, b): bit by bit the same one if it is symmetric."""
    values = np.asarray(matrix, dtype=float)
    return np.where(values == values.T, values, 0.5 * (values + values.T))


def covariance_root(covariance: Array, least: float = 0.0) -> Array:
    """Return L (b, b) with L Lᵀ a covariance (b, b), so that what L enters stays a covariance.

    Eigenvalues are those of the correlations, so that units do not matter; rounding makes the
    smallest ones negative, and they become `least` times the largest. What is not determined
    (infinite variance) has a row of zeros.
    """
    variances = np.diag(covariance)
    known = np.isfinite(variances) & (variances > 0)
    deviations = np.sqrt(np.where(known, variances, 0.0))
    unit = np.where(known, deviations, 1.0)
    correlations = np.where(known & known[:, None], covariance, 0.0) / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(symmetric(correlations))
    floor = least * values.max(initial=0.0)
    return np.asarray(deviations[:, None] * vectors * np.sqrt(np.maximum(values, floor)))


def of_roots(*roots: Array) -> Array:
    """Return the sum of L Lᵀ over roots L (b, k): a covariance (b, b), exactly symmetric."""
    root = np.ascontiguousarray(np.hstack(roots))
    return np.asarray(root @ root.T)


def left_open(covariance: Array, is_open: NDArray[np.bool_]) -> Array:
    """Return a covariance (b, b) in which parameters (b,) are not determined: infinite variance,
    correlated with nothing.
    """
    made = np.where(is_open | is_open[:, None], 0.0, covariance)
    made[is_open, is_open] = np.inf
    return made


_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def strict_json(value: Any) -> bytes:
    """Return JSON that every reader takes.

    Numbers that are not finite are the texts NaN, Infinity, -Infinity.
    """

    def word(leaf: Any) -> Any:
        if not isinstance(leaf, float) or math.isfinite(leaf):
            return leaf
        return "NaN" if math.isnan(leaf) else "Infinity" if leaf > 0 else "-Infinity"

    return json.dumps(_each(plain_values(value), word), indent=1, allow_nan=False).encode()


def with_numbers(value: Any) -> Any:
    """Return what was read from JSON with the texts NaN, Infinity and -Infinity as numbers
    again.
    """
    return _each(value, lambda leaf: _WORDS.get(leaf, leaf) if isinstance(leaf, str) else leaf)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _each(entry, change) for key, entry in value.items()}
    return [_each(entry, change) for entry in value] if isinstance(value, list) else change(value)
