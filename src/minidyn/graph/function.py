"""A recorded function: a straight-line program over scalars, and the program run step by step on arrays.

The program is what the recorder (:mod:`minidyn.graph.scalar`) produces and what every target reads. It is a frozen
value, so it can be cached, compared and fingerprinted. `evaluate` is slow, obvious, and what every target is compared
with.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.errors import ShapeError


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the function takes: a safe C identifier and the number of scalars per sample.

    `uniform` where one value serves a whole batch (a parameter vector): what depends on it alone is computed once per
    call and not once per sample.
    """

    name: str
    size: int
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One array the function returns: a safe C identifier and the shape per sample (row-major)."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars per sample."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step: an operation on earlier steps, or a constant or an input."""

    op: str  # const, input, add, sub, mul, div, neg, sqrt, sin, cos, sign (-1, 0 or +1; NaN stays NaN) or atan2
    args: tuple[int, ...] = ()  # its operands, by index
    value: float | tuple[int, int] | None = None  # of a constant; (argument index, element index) of an input


@dataclass(frozen=True)
class Function:
    """A straight-line program: instructions in order, each using only earlier ones; no dead code."""

    name: str  # a safe C identifier
    arguments: tuple[Argument, ...]  # in call order
    results: tuple[Result, ...]
    tape: tuple[Instruction, ...]
    outputs: tuple[tuple[int, ...], ...]  # for each result, the tape index of each of its scalars, row-major

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything the function computes (hexadecimal, 16 digits)."""
        text = repr((self.name, self.arguments, self.results, self.tape, self.outputs))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Operations executed for one sample: mul, add (and subtract), div, sqrt, sincos (pairs), other.

        Negations are free (they are signs of the operation that uses them). What depends on uniform arguments
        alone is computed once per call and not counted. A sine and a cosine of one angle are one pair.
        """
        each = [step for index, step in enumerate(self.tape) if index not in self.uniform_steps]
        found = Counter(step.op for step in each)
        return {
            "mul": found["mul"],
            "add": found["add"] + found["sub"],
            "div": found["div"],
            "sqrt": found["sqrt"],
            "sincos": len({step.args[0] for step in each if step.op in ("sin", "cos")}),
            "other": found["sign"] + found["atan2"],
        }

    @cached_property
    def uniform_steps(self) -> frozenset[int]:
        """Tape indices that depend on constants and uniform arguments alone."""
        once: set[int] = set()
        for index, step in enumerate(self.tape):
            value = step.value  # a pair for an input
            if self.arguments[value[0]].uniform if isinstance(value, tuple) else once.issuperset(step.args):
                once.add(index)
        return frozenset(once)

    def __repr__(self) -> str:
        counts = self.counts
        return f"Function({self.name}: {counts['mul']} mul, {counts['add']} add, {len(self.tape)} steps)"


_BLOCK = 16_000_000  # values of all steps and samples that are kept at a time: 128 MB


def evaluate(function: Function, *inputs: ArrayLike) -> Any:
    """Run a recorded function on NumPy arrays, one (..., size) per argument, whose leading axes broadcast.

    Returns an array (..., *shape), or a tuple of them where the function has several results.
    """
    arrays = [np.asarray(array) for array in inputs]
    arrays = [array.astype(np.result_type(array, np.float64), copy=False) for array in arrays]
    batch = batch_shape(function, [array.shape for array in arrays])
    columns = [[array[..., k] for k in range(array.shape[-1])] for array in arrays]
    with np.errstate(all="ignore"):  # NaN and infinity pass through, as in every other target
        scalars = run_tape(function, columns, _ON_ARRAYS)
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


ARITHMETIC: dict[str, Callable[..., Any]] = {op: getattr(operator, op) for op in ("add", "sub", "mul", "neg")}
ARITHMETIC["div"] = operator.truediv
"""The operators among the operations."""

_ON_ARRAYS = ARITHMETIC | {op: getattr(np, op) for op in ("sqrt", "sin", "cos", "sign")}
_ON_ARRAYS |= {"div": np.divide, "atan2": np.arctan2}  # np.divide takes a constant zero, the operator does not


def run_tape(function: Function, columns: list[list[Any]], table: Mapping[str, Callable[..., Any]]) -> list[list[Any]]:
    """Return the scalars of each result, from those of each argument (arrays, nodes) and a callable per operation."""
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
    leading = {shape[:-1] for argument, shape in zip(function.arguments, shapes) if not argument.uniform or shape[:-1]}
    if len(leading) < 2:
        return next(iter(leading), ())
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        text = ", ".join(f"{a.name} {shape}" for a, shape in zip(function.arguments, shapes) if not a.uniform)
        raise ShapeError(f"{function.name}: leading shapes do not broadcast: {text}") from None
