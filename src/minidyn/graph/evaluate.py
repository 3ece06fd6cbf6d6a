"""The tape run step by step on arrays: slow, obvious, and what every other target is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.errors import ShapeError
from minidyn.graph.function import Function

_BLOCK = 16_000_000  # values of all steps and samples that are kept at a time: 128 MB


def evaluate(function: Function, *inputs: ArrayLike) -> Any:
    """Run a recorded function on NumPy arrays.

    Args:
        function: The recorded function.
        *inputs: One array (..., size) per argument; leading axes broadcast.

    Returns:
        An array (..., *shape), or a tuple of them where the function has several results.
    """
    arrays = [np.asarray(array) for array in inputs]
    arrays = [array.astype(np.result_type(array, np.float64), copy=False) for array in arrays]
    batch = batch_shape(function, [array.shape for array in arrays])
    columns = [[array[..., k] for k in range(array.shape[-1])] for array in arrays]
    with np.errstate(all="ignore"):  # NaN and infinity pass through, as in every other target
        scalars = run_tape(function, columns, operations(np))
    results = []
    for result, values in zip(function.results, scalars):
        array = np.empty((*batch, result.size), dtype=np.result_type(np.float64, *arrays))
        for k, value in enumerate(values):
            array[..., k] = value
        results.append(array.reshape(batch + result.shape))
    return results[0] if len(results) == 1 else tuple(results)


def evaluate_in_blocks(function: Function, *inputs: ArrayLike) -> Any:
    """As `evaluate`, a block of samples at a time: values between the steps of a large function fill memory."""
    arrays = [np.asarray(array, dtype=np.float64) for array in inputs]
    batch = batch_shape(function, [array.shape for array in arrays])
    count = math.prod(batch)
    block = max(1, _BLOCK // max(1, len(function.tape)))
    if count <= block:
        return evaluate(function, *arrays)
    rows = [
        array if argument.uniform else np.broadcast_to(array, (*batch, argument.size)).reshape(count, argument.size)
        for argument, array in zip(function.arguments, arrays)
    ]
    results = [np.empty((count, *result.shape)) for result in function.results]
    for begin in range(0, count, block):
        part = slice(begin, begin + block)
        found = evaluate(function, *(a if arg.uniform else a[part] for arg, a in zip(function.arguments, rows)))
        for result, values in zip(results, found if isinstance(found, tuple) else (found,)):
            result[part] = values
    shaped = tuple(r.reshape(batch + described.shape) for r, described in zip(results, function.results))
    return shaped[0] if len(shaped) == 1 else shaped


def operations(numpy: Any) -> dict[str, Callable[..., Any]]:
    """Return the array operation of each instruction, from NumPy or a module that speaks like it."""
    return {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: numpy.divide(a, b),
        "neg": lambda a: -a,
        "sqrt": numpy.sqrt,
        "sin": numpy.sin,
        "cos": numpy.cos,
        "sign": numpy.sign,
        "atan2": numpy.arctan2,
    }


def run_tape(function: Function, columns: list[list[Any]], table: Mapping[str, Callable[..., Any]]) -> list[list[Any]]:
    """Return the scalars of each result, from the scalars of each argument and one callable per operation.

    Scalars may be anything the callables take: arrays, traced values, nodes.
    """
    values: list[Any] = []
    for step in function.tape:
        if step.op == "const":
            values.append(step.value)
        elif step.op == "input":
            argument, element = cast(tuple[int, int], step.value)
            values.append(columns[argument][element])
        else:
            values.append(table[step.op](*[values[index] for index in step.args]))
    return [[values[index] for index in indices] for indices in function.outputs]


def batch_shape(function: Function, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common leading shape of inputs; raise ShapeError where one does not fit."""
    if len(shapes) != len(function.arguments):
        names = ", ".join(argument.name for argument in function.arguments)
        raise ShapeError(f"{function.name} takes {len(function.arguments)} arrays ({names}), got {len(shapes)}")
    for argument, shape in zip(function.arguments, shapes):
        if not shape or shape[-1] != argument.size:
            raise ShapeError(f"{function.name}: {argument.name} has shape {shape}, expected (..., {argument.size})")
    try:
        return np.broadcast_shapes(*[shape[:-1] for shape in shapes])
    except ValueError:
        text = ", ".join(f"{a.name} {shape}" for a, shape in zip(function.arguments, shapes))
        raise ShapeError(f"{function.name}: leading axes do not broadcast: {text}") from None
