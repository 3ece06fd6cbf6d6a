"""The door for arrays: what users pass becomes addresses and strides, or an error that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import ShapeError
from minidyn.graph.function import Argument, Result

_FLOAT64 = np.dtype(np.float64)


def take_argument(value: Any, argument: Argument, owner: str) -> Array:
    """Return the value as a float64 array of shape batch + (size,), or (size,) for a uniform argument.

    Raises:
        ShapeError: If its dtype is not real, or its shape does not fit.
    """
    if type(value) is np.ndarray and value.dtype is _FLOAT64:
        array: Array = value
    else:
        array = _converted(value, argument, owner)
    shape = array.shape
    if not shape or shape[-1] != argument.size or (argument.uniform and len(shape) != 1):
        expected = f"({argument.size},)" if argument.uniform else f"(..., {argument.size})"
        hint = "; it serves the whole batch, so it has no batch axes" if argument.uniform else ""
        raise ShapeError(f"{owner}: {argument.name} has shape {shape}, expected {expected}{hint}")
    return array


def _converted(value: Any, argument: Argument, owner: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:  # nested lists of unequal lengths
        raise ShapeError(f"{owner}: {argument.name} is not an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ShapeError(
            f"{owner}: {argument.name} has dtype {array.dtype}, expected real numbers (float64); convert it first"
        )
    return array.astype(np.float64, copy=False)


def batch_shape(arrays: list[Array], arguments: tuple[Argument, ...], owner: str) -> tuple[int, ...]:
    """Return the common leading shape of the arguments that vary with the sample.

    Raises:
        ShapeError: If they do not broadcast against each other.
    """
    leading = [array.shape[:-1] for array, argument in zip(arrays, arguments) if not argument.uniform]
    first = leading[0] if leading else ()
    if all(shape == first for shape in leading):
        return first
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        given = ", ".join(
            f"{argument.name} {array.shape}" for array, argument in zip(arrays, arguments) if not argument.uniform
        )
        raise ShapeError(f"{owner}: the leading shapes do not broadcast against each other: {given}") from None


def flat_rows(array: Array, batch: tuple[int, ...], count: int) -> Array:
    """Return a (count, size) view of an argument, or a copy where no view exists."""
    if array.shape[:-1] != batch:
        if array.ndim == 1:
            return np.broadcast_to(array, (count, array.shape[0]))
        array = np.broadcast_to(array, (*batch, array.shape[-1]))
    if array.ndim == 2:
        return array
    return array.reshape(count, array.shape[-1])


def check_out(out: Any, results: tuple[Result, ...], batch: tuple[int, ...], owner: str) -> list[Array]:
    """Return the arrays given to be written, one per result.

    Raises:
        ShapeError: If their number, type, dtype or shape is not exactly the results'.
    """
    given = list(out) if isinstance(out, tuple | list) else [out]
    if len(given) != len(results):
        raise ShapeError(f"{owner}: out holds {len(given)} array(s), expected a tuple of {len(results)}")
    for array, result in zip(given, results):
        expected = (*batch, *result.shape)
        if not isinstance(array, np.ndarray):
            raise ShapeError(f"{owner}: out for {result.name} is {type(array).__name__}, expected a float64 array")
        if array.dtype != _FLOAT64 or array.shape != expected:
            raise ShapeError(
                f"{owner}: out for {result.name} is {array.dtype} of shape {array.shape}, expected float64 {expected}"
            )
        if not array.flags.writeable:
            raise ShapeError(f"{owner}: out for {result.name} is read-only; pass an array that can be written")
    return given
