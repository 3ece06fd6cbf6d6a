"""Functions to functions: a tape replayed into a fresh graph, with or without changes on the way.

This is the frame for named passes. A pass takes a frozen function and returns another; replaying alone
already simplifies and shares again, because nodes do so as they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from minidyn.graph.evaluate import run_tape
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph, Scalar, atan2, cos, sign, sin, sqrt

Rewrite: TypeAlias = Callable[[str, tuple[Scalar, ...]], Scalar | None]
"""Takes an operation and its operands (nodes or numbers); returns what replaces it, or None to leave it."""

_PLAIN: dict[str, Callable[..., Scalar]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "sqrt": sqrt,
    "sin": sin,
    "cos": cos,
    "sign": sign,
    "atan2": atan2,
}


def rebuild(function: Function, rewrite: Rewrite | None = None) -> Function:
    """Return the function replayed through a fresh graph.

    Args:
        function: The function to replay.
        rewrite: Asked for each operation; may build anything from its operands. None replays as it is.

    Returns:
        A function with the same name, arguments and results.
    """
    graph, _, outputs = open_graph(function, rewrite)
    results = {result.name: shaped(values, result.shape) for result, values in zip(function.results, outputs)}
    return graph.function(function.name, results)


def open_graph(
    function: Function, rewrite: Rewrite | None = None
) -> tuple[Graph, list[list[Scalar]], list[list[Scalar]]]:
    """Return a fresh graph with the function in it: the scalars of its arguments and of its results."""
    graph = Graph()
    columns: list[list[Scalar]] = [
        list(graph.inputs(argument.name, argument.size, uniform=argument.uniform)) for argument in function.arguments
    ]
    table = _PLAIN if rewrite is None else {op: _rewritten(op, rewrite) for op in _PLAIN}
    return graph, columns, run_tape(function, columns, table)


def shaped(values: Sequence[Scalar], shape: tuple[int, ...]) -> NDArray[np.object_]:
    """Return scalars as an object array of a shape, as Graph.function takes it."""
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array.reshape(shape)


def _rewritten(op: str, rewrite: Rewrite) -> Callable[..., Scalar]:
    plain = _PLAIN[op]

    def apply(*operands: Scalar) -> Scalar:
        changed = rewrite(op, operands)
        return plain(*operands) if changed is None else changed

    return apply
