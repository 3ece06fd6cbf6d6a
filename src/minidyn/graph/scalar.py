"""The recorder: scalars that, instead of computing, note what would be computed.

A recursion written over scalars with ``+ - * /`` and the functions below runs unchanged on floats, on NumPy
arrays (one value per sample) and on the nodes of a :class:`Graph`. Fed with nodes it leaves a straight-line
program, simplified by the rules of :mod:`minidyn.graph.node`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from minidyn.errors import ShapeError
from minidyn.graph.function import Argument, Function, Result
from minidyn.graph.names import safe_identifier
from minidyn.graph.node import Node, as_float, not_finite, other_graph
from minidyn.graph.tape import build_tape

Scalar: TypeAlias = Any
"""What a recursion computes with: a float, a NumPy array with one value per sample, or a Node."""

Key: TypeAlias = tuple[str, int, float]  # operation, first operand, second operand (scale and shift: a number)


class Graph:
    """The nodes of one recording.

    Example:
        >>> graph = Graph()
        >>> q = graph.inputs("q", 2)
        >>> f = graph.function("f", {"y": [sin(q[0]) * 1.0 + 0.0 * q[1]]})
        >>> [step.op for step in f.tape]
        ['input', 'sin']
    """

    def __init__(self) -> None:
        self.arguments: list[Argument] = []
        self.nodes: list[Node] = []  # cores, by number
        self._table: dict[Key, Node] = {}
        self.zero = self.constant(0.0)

    def inputs(self, name: str, size: int, *, uniform: bool = False) -> list[Node]:
        """Add an argument and return its scalars.

        Args:
            name: Its name; made a safe identifier, unique in the function.
            size: Number of scalars.
            uniform: True where one value serves a whole batch, as parameters do.
        """
        name = safe_identifier(name, [argument.name for argument in self.arguments])
        index = len(self.arguments)
        self.arguments.append(Argument(name, size, uniform))
        return [self.core("input", index, element) for element in range(size)]

    def constant(self, value: float) -> Node:
        """Return the node of a number; it must be finite, for folding an infinity or a NaN would hide it."""
        value = float(value)  # -0.0 finds 0.0, to which it is equal
        if value - value != 0.0:
            raise not_finite(value)
        node = self._table.get(("const", -1, value))
        if node is None:
            node = self.core("const", -1, value)
            node.value = value
        return node

    def function(self, name: str, results: Mapping[str, Any]) -> Function:
        """Return the program that computes `results` and nothing else.

        Args:
            name: Name of the function; made a safe identifier.
            results: For each result a scalar, nested sequences of scalars or an object array; scalars are
                nodes of this graph or numbers. The nesting is the shape.

        Returns:
            The function of all arguments of this graph, in the order of their creation, used or not.
        """
        taken = [argument.name for argument in self.arguments]
        shapes: list[Result] = []
        scalars: list[list[Node]] = []
        for label, value in results.items():
            flat: list[Node] = []
            shape = self._flatten(label, value, flat)
            shapes.append(Result(safe_identifier(label, taken), shape))
            taken.append(shapes[-1].name)
            scalars.append(flat)
        tape, outputs = build_tape(self.nodes, scalars)
        return Function(safe_identifier(name), tuple(self.arguments), tuple(shapes), tape, outputs)

    def core(self, op: str, a: int, b: float, operands: tuple[Node, ...] = ()) -> Node:
        """Make and register a new core. For the rules in this file: everyone else uses operators."""
        node = Node.__new__(Node)
        node.graph = self
        node.id = node.base = len(self.nodes)
        node.op = op
        node.a = a
        node.b = b
        node.value = None
        node.negative = False
        node.factor = 1.0
        node.operands = operands
        node.minus = None
        self.nodes.append(node)
        self._table[op, a, b] = node
        return node

    def find(self, op: str, a: int, b: float) -> Node:
        """Return the core of this operation and operands, made if it is new."""
        return self._table.get((op, a, b)) or self.core(op, a, b)

    def find_signed(self, op: str, a: Node, b: Node) -> Node:
        """Return the core of an operation that does not pass signs on (b is a where there is one operand)."""
        key = 2 * a.id + a.negative, 2 * b.id + b.negative
        return self._table.get((op, *key)) or self.core(op, *key, operands=(a, b) if op == "atan2" else (a,))

    def _flatten(self, label: str, value: Any, flat: list[Node]) -> tuple[int, ...]:
        if value.__class__ is Node:
            if value.graph is not self:
                raise other_graph()
            flat.append(value)
            return ()
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return self._flatten(label, value[()], flat)
        number = as_float(value)
        if number is not None:
            flat.append(self.constant(number))
            return ()
        if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
            raise ShapeError(f"result {label!r}: expected scalars or nested lists of them, got {value!r}")
        shapes = [self._flatten(label, row, flat) for row in value]
        if any(shape != shapes[0] for shape in shapes):
            raise ShapeError(f"result {label!r}: rows differ in shape: {sorted(set(shapes))}")
        inner = shapes[0] if shapes else (value.shape[1:] if isinstance(value, np.ndarray) else ())
        return len(shapes), *inner


def sin(x: Scalar) -> Scalar:
    """Sine."""
    if x.__class__ is not Node:
        return float(np.sin(x)) if isinstance(x, float | int) else np.sin(x)
    if x.value is not None:
        return x.graph.constant(math.sin(x.value))
    core = x.graph.find("sin", x.id, -1)
    return -core if x.negative else core


def cos(x: Scalar) -> Scalar:
    """Cosine."""
    if x.__class__ is not Node:
        return float(np.cos(x)) if isinstance(x, float | int) else np.cos(x)
    if x.value is not None:
        return x.graph.constant(math.cos(x.value))
    return x.graph.find("cos", x.id, -1)


def cos_sin(x: Scalar) -> tuple[Scalar, Scalar]:
    """Cosine and sine of one angle."""
    return cos(x), sin(x)


def sqrt(x: Scalar) -> Scalar:
    """Square root."""
    if x.__class__ is not Node:
        return float(np.sqrt(x)) if isinstance(x, float | int) else np.sqrt(x)
    if x.value is not None:
        return x.graph.constant(math.sqrt(x.value))
    return x.graph.find_signed("sqrt", x, x)


def sign(x: Scalar) -> Scalar:
    """-1, 0 or +1; NaN stays NaN."""
    if x.__class__ is not Node:
        return float(np.sign(x)) if isinstance(x, float | int) else np.sign(x)
    if x.value is not None:
        return x.graph.constant(float(np.sign(x.value)))
    core = x.graph.find("sign", x.base, -1)
    return -core if x.negative else core


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """Angle of the point (x, y)."""
    if y.__class__ is not Node and x.__class__ is not Node:
        angle = np.arctan2(y, x)
        return float(angle) if isinstance(angle, float) else angle
    graph: Graph = y.graph if y.__class__ is Node else x.graph
    y = y if y.__class__ is Node else graph.constant(y)
    x = x if x.__class__ is Node else graph.constant(x)
    if y.value is not None and x.value is not None:
        return graph.constant(math.atan2(y.value, x.value))
    if graph is not x.graph:
        raise other_graph()
    return graph.find_signed("atan2", y, x)
