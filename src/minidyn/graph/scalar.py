"""The recorder: scalars that, instead of computing, note what would be computed.

A recursion written over scalars with ``+ - * /`` and the functions below runs unchanged on floats,
on NumPy arrays (one value per sample) and on the nodes of a :class:`Graph`. Fed with nodes it
leaves a straight-line program, simplified by the rules of :mod:`minidyn.graph.node`.

From nodes to the instructions of the program dead code is dropped and signs are absorbed. A node is
plus or minus a core. On the tape a sign costs an instruction only where nobody can absorb it: a sum
becomes a difference, a difference is reversed, a constant factor changes sign, a product passes the
wish on to a factor. What remains (mostly results that are minus a product) is negated once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from minidyn.errors import ShapeError
from minidyn.graph.function import Argument, Function, Instruction, Result, safe_identifier
from minidyn.graph.node import Node, as_float, not_finite, other_graph

Scalar: TypeAlias = Any
"""What a recursion computes with: a float, a NumPy array with one value per sample, or a Node."""

Key: TypeAlias = tuple[
    str, int, float
]  # operation, first operand, second operand (scale and shift: a number)


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
        """Add an argument of `size` scalars and return them.

        `uniform` where one value serves a whole batch.
        """
        name = safe_identifier(name, [argument.name for argument in self.arguments])
        index = len(self.arguments)
        self.arguments.append(Argument(name, size, uniform))
        return [self.core("input", index, element) for element in range(size)]

    def constant(self, value: float) -> Node:
        """Return the node of a number.

        It must be finite, for folding an infinity or a NaN would hide it.
        """
        value = float(value)  # -0.0 finds 0.0, to which it is equal
        if value - value != 0.0:
            raise not_finite(value)
        node = self._table.get(("const", -1, value))
        if node is None:
            node = self.core("const", -1, value)
            node.value = value
        return node

    def function(self, name: str, results: Mapping[str, Any]) -> Function:
        """Return the program that computes `results` and nothing else, of all arguments of this
        graph, used or not.

        Each result is a scalar, nested sequences of scalars or an object array; scalars are nodes
        of this graph or numbers. The nesting is the shape. Names are made safe identifiers.
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
        every = [node for flat in scalars for node in flat]
        live = reachable(self.nodes, every)
        wanted = _wanted_signs(self.nodes, live, every)
        writer = _Writer()
        for index in live:
            writer.write(self.nodes[index], wanted[index])
        outputs = tuple(tuple(writer.signed(node) for node in flat) for flat in scalars)
        return Function(
            safe_identifier(name), tuple(self.arguments), tuple(shapes), tuple(writer.tape), outputs
        )

    def core(self, op: str, a: int, b: float, operands: tuple[Node, ...] = ()) -> Node:
        """Make and register a new core.

        For the rules in this file: everyone else uses operators.
        """
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
        """Return the core of an operation that does not pass signs on (b is a where there is one
        operand).
        """
        key = 2 * a.id + a.negative, 2 * b.id + b.negative
        return self._table.get((op, *key)) or self.core(
            op, *key, operands=(a, b) if op == "atan2" else (a,)
        )

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
            raise ShapeError(
                f"result {label!r}: expected scalars or nested lists of them, got {value!r}"
            )
        shapes = [self._flatten(label, row, flat) for row in value]
        if any(shape != shapes[0] for shape in shapes):
            raise ShapeError(f"result {label!r}: rows differ in shape: {sorted(set(shapes))}")
        inner = shapes[0] if shapes else (value.shape[1:] if isinstance(value, np.ndarray) else ())
        return len(shapes), *inner


def _known(x: Scalar, on_arrays: Any, on_numbers: Any) -> Scalar:
    """Return a function's value of a number, of an array, or of a constant node.

    None of any other node.
    """
    if x.__class__ is not Node:
        return float(on_arrays(x)) if isinstance(x, float | int) else on_arrays(x)
    return None if x.value is None else x.graph.constant(on_numbers(x.value))


def sin(x: Scalar) -> Scalar:
    """Sine."""
    known = _known(x, np.sin, math.sin)
    if known is not None:
        return known
    core = x.graph.find("sin", x.id, -1)
    return -core if x.negative else core


def cos(x: Scalar) -> Scalar:
    """Cosine."""
    known = _known(x, np.cos, math.cos)
    return x.graph.find("cos", x.id, -1) if known is None else known


def cos_sin(x: Scalar) -> tuple[Scalar, Scalar]:
    """Cosine and sine of one angle."""
    return cos(x), sin(x)


def sqrt(x: Scalar) -> Scalar:
    """Square root."""
    known = _known(x, np.sqrt, math.sqrt)
    return x.graph.find_signed("sqrt", x, x) if known is None else known


def sign(x: Scalar) -> Scalar:
    """-1, 0 or +1; NaN stays NaN."""
    known = _known(x, np.sign, np.sign)
    if known is not None:
        return known
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


_TURNS = frozenset(("sub", "scale", "shift"))  # cores whose sign can be chosen at no cost
_ONE = frozenset(("sin", "cos", "sign", "scale", "shift"))  # one unsigned operand
_TWO = frozenset(("add", "sub", "mul", "div"))  # two unsigned operands


def reachable(nodes: Sequence[Node], outputs: Sequence[Node]) -> list[int]:
    """Return the numbers of the cores that `outputs` depend on, themselves included, in order of
    creation.
    """
    alive = bytearray(len(nodes))
    for node in outputs:
        alive[node.id] = 1
    for index in range(len(nodes) - 1, -1, -1):
        if alive[index]:
            node = nodes[index]
            if node.op in _TWO:
                alive[node.a] = alive[int(node.b)] = 1
            elif node.op in _ONE:
                alive[node.a] = 1
            else:
                for operand in node.operands:
                    alive[operand.id] = 1
    return [index for index, flag in enumerate(alive) if flag]


def _wanted_signs(
    nodes: Sequence[Node], live: Sequence[int], outputs: Sequence[Node]
) -> dict[int, int]:
    """Return for each live core the sign its users insist on: -1, +1, or 0 where any will do.

    Sums and products take either sign of an operand. Results, roots and angles need the one they
    were given; where all of them need the negative, the wish goes down to an operand that can turn
    its sign for nothing.
    """
    plus: set[int] = set()
    minus: set[int] = set()
    for node in outputs:
        (minus if node.negative else plus).add(node.id)
    wanted: dict[int, int] = {}
    for index in reversed(live):
        node = nodes[index]
        wanted[index] = want = 1 if index in plus else -1 if index in minus else 0
        for operand in node.operands:
            (minus if operand.negative else plus).add(operand.id)
        if want < 0:
            if node.op in ("mul", "div"):
                second = nodes[int(node.b)]
                minus.add(second.id if second.op in _TURNS else node.a)
            elif node.op in ("add", "sin", "sign"):
                minus.add(node.a)
    return wanted


class _Writer:
    """The tape so far, and where and with what sign each core stands on it."""

    def __init__(self) -> None:
        self.tape: list[Instruction] = []
        self.place: dict[int, tuple[int, int]] = {}  # core number -> (tape index, sign)
        self.numbers: dict[float, int] = {}  # constants written
        self.negated: dict[int, int] = {}  # tape index -> index of its negative

    def put(self, op: str, *args: int) -> int:
        self.tape.append(Instruction(op, args))
        return len(self.tape) - 1

    def number(self, value: float) -> int:
        index = self.numbers.get(value)
        if index is None:
            index = self.numbers[value] = len(self.tape)
            self.tape.append(Instruction("const", (), value))
        return index

    def signed(self, node: Node) -> int:
        """Return the index of a node with its own sign, negated here where it stands with the
        other.
        """
        if node.value is not None:
            return self.number(node.value)
        index, sign = self.place[node.id]
        if (sign < 0) == node.negative:
            return index
        if index not in self.negated:
            self.negated[index] = self.put("neg", index)
        return self.negated[index]

    def write(self, node: Node, want: int) -> None:
        """Write one core, with the wanted sign if that is free."""
        op = node.op
        if op == "const":
            return  # written where it is used
        if op == "input":
            self.tape.append(Instruction("input", (), (node.a, int(node.b))))
            self.place[node.id] = len(self.tape) - 1, 1
        elif op in _TWO:
            self.place[node.id] = self._two(op, node, want)
        elif op in _ONE:
            self.place[node.id] = self._one(op, node, want)
        else:
            self.place[node.id] = (
                self.put(op, *[self.signed(operand) for operand in node.operands]),
                1,
            )

    def _two(self, op: str, node: Node, want: int) -> tuple[int, int]:
        nodes = node.graph.nodes  # a quotient may have constants among its operands
        (a, sign_a), (b, sign_b) = (
            self.place.get(k) or (self.number(nodes[k].b), 1) for k in (node.a, int(node.b))
        )
        if op in ("mul", "div"):
            return self.put(op, a, b), sign_a * sign_b
        if op == "sub":
            sign_b = -sign_b
        if sign_a == sign_b:
            return self.put("add", a, b), sign_a
        if sign_a < 0:
            a, b = b, a
        return (self.put("sub", b, a), -1) if want < 0 else (self.put("sub", a, b), 1)

    def _one(self, op: str, node: Node, want: int) -> tuple[int, int]:
        a, sign = self.place[node.a]
        if op == "scale":
            want = want or sign
            return self.put("mul", self.number(node.b * sign * want), a), want
        if op == "shift":
            if want < 0:  # -(z + k), with z or -z at hand
                return self._offset(a, -node.b, -sign), -1
            return self._offset(a, node.b, sign), 1
        return self.put(op, a), 1 if op == "cos" else sign

    def _offset(self, a: int, number: float, sign: int) -> int:
        """Write number + sign * a."""
        if sign < 0:
            return self.put("sub", self.number(number), a)
        return (
            self.put("add", a, self.number(number))
            if number > 0
            else self.put("sub", a, self.number(-number))
        )
