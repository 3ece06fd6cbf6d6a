"""Nodes of the expression graph and the rules by which they simplify themselves as they are made.

Robots are full of exact zeros and ones, so simplification is the heart of recording.
Equal nodes are one object:

* constants fold; adding 0 and multiplying by 0 or ±1 cost nothing; constant factors and offsets in
  a row merge;
* a sign is not an operation: every node is plus or minus one *core*, and signs travel outwards, so
  that a-b and b-a, or (-a)*b and a*b, are one core;
* operands of commutative operations stand in the order of their creation.

Nodes are numbered as they are made. Nothing depends on addresses or hash seeds: the same recording
gives the same program in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.errors import MinidynError, UnknownParameters

if TYPE_CHECKING:
    from minidyn.graph.scalar import Graph


_Method = Callable[["Node", Any], "Node"]
_REAL = (float, int, np.floating, np.integer)


def as_float(value: Any) -> float | None:
    """Return a Python float for any real number.

    None for all else (an array then works on its elements).
    """
    if value.__class__ is float:
        return value
    zero_dimensional = (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "fiu"
    )
    return float(value) if zero_dimensional or isinstance(value, _REAL) else None


def not_finite(value: float) -> UnknownParameters:
    """Return the error for a constant that is infinite or not a number."""
    return UnknownParameters(
        f"a constant of the recorded function is {value}; expected a finite number: give the "
        "unknown value, or record it as an argument"
    )


def other_graph() -> MinidynError:
    """Return the error for operands of different graphs."""
    return MinidynError(
        "scalars of two graphs meet in one operation; record a function in one graph"
    )


def _negate(x: Node) -> Node:
    """Return -x: the same core with the other sign, at no cost."""
    if x.value is not None:
        return x.graph.constant(-x.value)
    node = Node.__new__(Node)
    node.graph = x.graph
    node.id = x.id
    node.op = x.op
    node.a = x.a
    node.b = x.b
    node.value = None
    node.negative = not x.negative
    node.factor = -x.factor
    node.base = x.base
    node.operands = x.operands
    node.minus = x
    x.minus = node
    return node


def _add(x: Node, y: Node) -> Node:
    if x.value is not None:
        return _shift(y, x.value)
    if y.value is not None:
        return _shift(x, y.value)
    graph = x.graph
    if graph is not y.graph:
        raise other_graph()
    if x.base == y.base:  # c1 x + c2 x, and x - x
        return _scale(graph.nodes[x.base], x.factor + y.factor)
    i, j = x.id, y.id
    if i > j:
        i, j = j, i
        x, y = y, x
    core = graph.find("add" if x.negative is y.negative else "sub", i, j)
    return core.minus or _negate(core) if x.negative else core


def _shift(x: Node, number: float) -> Node:
    """Return x + number; the core is z + k with k of either sign."""
    if x.value is not None:
        return x.graph.constant(x.value + number)
    graph = x.graph
    k = -number if x.negative else number
    z = x.id
    if x.op == "shift":
        k += x.b
        z = x.a
    if k == 0.0:
        core = graph.nodes[z]
    elif k - k != 0.0:
        raise not_finite(number)
    else:
        core = graph.find("shift", z, k)
    return core.minus or _negate(core) if x.negative else core


def _multiply(x: Node, y: Node) -> Node:
    if x.value is not None:
        return _scale(y, x.value)
    if y.value is not None:
        return _scale(x, y.value)
    graph = x.graph
    if graph is not y.graph:
        raise other_graph()
    i, j = x.id, y.id
    core = graph.find("mul", i, j) if i <= j else graph.find("mul", j, i)
    return core if x.negative is y.negative else core.minus or _negate(core)


def _scale(x: Node, number: float) -> Node:
    """Return number * x; the core is k z with k positive."""
    if number == 1.0:
        return x
    if number == -1.0:
        return x.minus or _negate(x)
    graph = x.graph
    if number == 0.0:
        return graph.zero
    if x.value is not None:
        return graph.constant(x.value * number)
    if number - number != 0.0:
        raise not_finite(number)
    k, z = number * x.factor, x.base
    if (
        k == 0.0 or k - k != 0.0
    ):  # the product of two constants left the range of floats: keep them apart
        k, z = -number if x.negative else number, x.id
    size = abs(k)
    if size == 1.0:
        core = graph.nodes[z]
    else:
        core = graph.find("scale", z, size)
        core.factor, core.base = size, z
    return core if k > 0.0 else core.minus or _negate(core)


def _divide(x: Node, y: Node) -> Node:
    graph = x.graph
    if graph is not y.graph:
        raise other_graph()
    if y.value is not None:
        if x.value is not None:
            return graph.constant(x.value / y.value)
        inverse = 1.0 / y.value
        if inverse - inverse == 0.0:
            return _scale(x, inverse)
    elif x.value is None and x.base == y.base:
        return graph.constant(x.factor / y.factor)
    if x.value == 0.0:
        return graph.zero
    negative = x.negative is not y.negative
    if x.value is not None and x.value < 0.0:
        x, negative = graph.constant(-x.value), not negative
    core = graph.find("div", x.id, y.id)
    return core.minus or _negate(core) if negative else core


def _operator(
    with_node: Callable[[Node, Node], Node], with_number: Callable[[Node, float], Node]
) -> _Method:
    def method(self: Node, other: Any) -> Node:
        if other.__class__ is Node:
            return with_node(self, other)
        number = as_float(other)
        return NotImplemented if number is None else with_number(self, number)

    return method


class Node:
    """One scalar of a recorded function: a core of the graph, or its negative.

    Besides the tape's operations there are ``scale`` (positive constant times core) and ``shift``
    (core plus constant), which keep constants out of the way of sharing.
    """

    __slots__ = (
        "a",
        "b",
        "base",
        "factor",
        "graph",
        "id",
        "minus",
        "negative",
        "op",
        "operands",
        "value",
    )

    graph: Graph
    id: int  # number of the core
    op: str  # operation of the core
    a: int  # first operand (core number)
    b: float  # second operand (core number), or the number of a scale or shift
    value: float | None  # of a constant
    negative: bool  # whether it is the negative of the core
    factor: float  # this node is `factor` times the core `base`; ±1 times itself, but for a scale
    base: int
    operands: tuple[Node, ...]  # of sqrt and atan2, where they have signs
    minus: Node | None  # the negative of this node once someone asked for it

    __add__ = __radd__ = _operator(_add, _shift)
    __sub__ = _operator(
        lambda x, y: _add(x, y.minus or _negate(y)), lambda x, number: _shift(x, -number)
    )
    __rsub__ = _operator(
        lambda x, y: y - x, lambda x, number: _shift(x.minus or _negate(x), number)
    )
    __mul__ = __rmul__ = _operator(_multiply, _scale)
    __truediv__ = _operator(_divide, lambda x, number: _divide(x, x.graph.constant(number)))
    __rtruediv__ = _operator(
        lambda x, y: y / x, lambda x, number: _divide(x.graph.constant(number), x)
    )

    def __neg__(self) -> Node:
        return self.minus or _negate(self)

    def __pos__(self) -> Node:
        return self

    def __repr__(self) -> str:
        if self.value is not None:
            return f"Node({self.value!r})"
        return f"Node({'-' if self.negative else ''}{self.op}#{self.id})"
