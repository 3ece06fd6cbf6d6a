"""Functions to functions: a tape replayed into a fresh graph, as it is or differentiated.

Replaying alone simplifies and shares again, because nodes do so as they are made.

Derivatives are recorded as more nodes of the same graph. In forward mode each core passes on, for
every direction in which it changes at all, the node of its rate of change. Directions in which it
does not change are not stored, so that the derivative of a long chain with respect to one joint
costs only what that joint moves. One reciprocal serves all directions. In reverse mode (`vjp`) each
core passes the weight of its own value on to its operands, so that the gradient of one number costs
a few times the function, whatever the number of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import UnknownName
from minidyn.graph.function import ARITHMETIC, Function, run_tape
from minidyn.graph.node import Node
from minidyn.graph.scalar import Graph, Scalar, atan2, cos, reachable, sign, sin, sqrt

OPERATIONS: dict[str, Callable[..., Scalar]] = ARITHMETIC | {
    function.__name__: function for function in (sqrt, sin, cos, sign, atan2)
}
"""Each operation on scalars."""


def open_inputs(function: Function) -> tuple[Graph, list[list[Scalar]]]:
    """Return a fresh graph with the arguments of a function, and their scalars."""
    graph = Graph()
    return graph, [
        list(graph.inputs(each.name, each.size, uniform=each.uniform))
        for each in function.arguments
    ]


def close_graph(graph: Graph, function: Function, outputs: Iterable[Sequence[Scalar]]) -> Function:
    """Return the function with the name and the results of `function` that has these scalars as
    outputs.
    """
    results = {
        result.name: shaped(values, result.shape)
        for result, values in zip(function.results, outputs)
    }
    return graph.function(function.name, results)


def _open_graph(function: Function) -> tuple[Graph, list[list[Scalar]], list[list[Scalar]]]:
    """Return a fresh graph with the function in it.

    The scalars of its arguments and of its results.
    """
    graph, columns = open_inputs(function)
    return graph, columns, run_tape(function, columns, OPERATIONS)


def shaped(values: Sequence[Scalar], shape: tuple[int, ...]) -> NDArray[np.object_]:
    """Return scalars as an object array of a shape, as Graph.function takes it."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def jacobian(function: Function, wrt: str) -> Function:
    """Return the function of the same arguments that gives all derivatives with respect to the
    argument `wrt`.

    For each result ``y`` of shape s it has a result ``dy_dWRT`` of shape s + (size of the
    argument,). The derivative of a sign is 0.
    """
    at = _argument(function, wrt)
    graph, columns, outputs = _open_graph(function)
    size = len(columns[at])
    results = {}
    rates = derivatives(list(chain.from_iterable(outputs)), columns[at])
    for result, rows in zip(function.results, _split(rates, outputs)):
        flat = [entry for row in rows for entry in row]
        results[f"d{result.name}_d{wrt}"] = shaped(flat, (*result.shape, size))
    return graph.function(f"{function.name}_d{wrt}", results)


def jvp(function: Function, seeds: Sequence[str]) -> Function:
    """Return the function of directional derivatives (Jacobian times vector) without forming the
    Jacobian.

    Its arguments are followed by one argument ``X_tangent`` for each X in `seeds`, the names of
    those that move; each result ``y`` becomes ``y_tangent``.
    """
    places = [_argument(function, name) for name in seeds]
    graph, columns, outputs = _open_graph(function)
    moving: dict[Node, Scalar] = {}
    for name, at in zip(seeds, places):
        uniform = function.arguments[at].uniform
        moving.update(
            zip(columns[at], graph.inputs(f"{name}_tangent", len(columns[at]), uniform=uniform))
        )
    rates = _split(tangents(list(chain.from_iterable(outputs)), moving), outputs)
    results = {
        f"{r.name}_tangent": shaped(rate, r.shape) for r, rate in zip(function.results, rates)
    }
    return graph.function(f"{function.name}_tangent", results)


def vjp(function: Function, wrt: Sequence[str]) -> Function:
    """Return the gradient of a weighted sum of all results (vector times Jacobian), in reverse
    mode.

    Its arguments are followed by one argument ``Y_weight`` for each result Y, the weights of its
    scalars; its results are ``WRT_gradient`` for each argument in `wrt`. The derivative of a sign
    is 0.
    """
    places = [_argument(function, name) for name in wrt]
    graph, columns, outputs = _open_graph(function)
    weights = [graph.inputs(f"{result.name}_weight", result.size) for result in function.results]
    flat = list(zip(chain.from_iterable(outputs), chain.from_iterable(weights)))
    found = _backward(graph, flat, [node for at in places for node in columns[at]])
    split = _split(found, [columns[at] for at in places])
    results = {f"{name}_gradient": shaped(part, (len(part),)) for name, part in zip(wrt, split)}
    return graph.function(f"{function.name}_gradient", results)


def tangents(nodes: Sequence[Scalar], seeds: Mapping[Node, Scalar]) -> list[Scalar]:
    """Return the rate of change of each node (of one graph, or a number) when the seeds move at
    given rates.

    With ``{q: dq}`` as seeds this is the time derivative of expressions in q. A seed need not be an
    input: what it was made from is then held still.
    """
    rates = _forward(nodes, {node: {0: rate} for node, rate in seeds.items()})
    return [rate.get(0, 0.0) for rate in rates]


def derivatives(nodes: Sequence[Scalar], wrt: Sequence[Node]) -> list[list[Scalar]]:
    """Return each node's derivatives with respect to each node of `wrt`, recorded in the same
    graph.
    """
    rates = _forward(nodes, {node: {column: 1.0} for column, node in enumerate(wrt)})
    return [[rate.get(column, 0.0) for column in range(len(wrt))] for rate in rates]


def _argument(function: Function, name: str) -> int:
    names = [argument.name for argument in function.arguments]
    if name not in names:
        raise UnknownName(f"argument of {function.name}", name, names)
    return names.index(name)


def _split(flat: list[Scalar], like: list[list[Scalar]]) -> list[list[Scalar]]:
    each = iter(flat)
    return [list(islice(each, len(block))) for block in like]


Rates = dict[int, Scalar]  # direction -> rate of change; absent where there is none


def _forward(nodes: Sequence[Scalar], seeds: Mapping[Node, Rates]) -> list[Rates]:
    outputs = [node for node in nodes if isinstance(node, Node)]
    if not outputs:
        return [{} for _ in nodes]
    graph = outputs[0].graph
    known: dict[int, Rates] = {}
    for seed, rates in seeds.items():
        known[seed.id] = {k: -rate if seed.negative else rate for k, rate in rates.items()}
    for index in reachable(graph.nodes, outputs):
        if index not in known:
            known[index] = _core_rates(graph, graph.nodes[index], known)
    return [_signed(node, known) if isinstance(node, Node) else {} for node in nodes]


def _signed(node: Node, known: Mapping[int, Rates]) -> Rates:
    rates = known[node.id]
    return {k: -rate for k, rate in rates.items()} if node.negative else rates


def _core_rates(graph: Graph, node: Node, known: Mapping[int, Rates]) -> Rates:
    """Apply the rule of one operation."""
    op = node.op
    if op in ("const", "input", "sign"):
        return {}
    if op in ("sqrt", "atan2"):
        first, *rest = node.operands
        da = _signed(first, known)
        if op == "sqrt":
            return _times(da, 0.5 / node) if da else {}
        db = _signed(rest[0], known)
        if not da and not db:
            return {}
        inverse = 1.0 / (first * first + rest[0] * rest[0])
        return _sum(_times(da, rest[0] * inverse), _times(db, -first * inverse))
    a = graph.nodes[node.a]
    da = known.get(a.id, {})
    if op == "shift":
        return da
    if op == "scale":
        return _times(da, node.b)
    if op == "sin":
        return _times(da, cos(a)) if da else {}
    if op == "cos":
        return _times(da, -sin(a)) if da else {}
    b = graph.nodes[int(node.b)]
    db = known.get(b.id, {})
    if op == "add":
        return _sum(da, db)
    if op == "sub":
        return _sum(da, _times(db, -1.0))
    if op == "mul":
        return _sum(_times(da, b), _times(db, a))
    if not da and not db:
        return {}
    inverse = 1.0 / b
    return _times(_sum(da, _times(db, -node)), inverse)


def _backward(
    graph: Graph, outputs: Sequence[tuple[Scalar, Scalar]], wrt: Sequence[Scalar]
) -> list[Scalar]:
    """Return the derivative of the sum of (output times weight) with respect to each input."""
    gained: dict[int, Scalar] = {}

    def give(node: Node, weight: Scalar) -> None:
        weight = -weight if node.negative else weight
        gained[node.id] = gained[node.id] + weight if node.id in gained else weight

    ends = [(node, weight) for node, weight in outputs if isinstance(node, Node)]
    inputs = [node for node in wrt if isinstance(node, Node)]
    live = (
        _depending(graph, reachable(graph.nodes, [node for node, _ in ends]), inputs)
        if ends
        else []
    )
    for node, weight in ends:
        give(node, weight)
    for index in reversed(live):
        if index in gained:
            _give_back(graph, graph.nodes[index], gained[index], give)
    return [gained.get(node.id, 0.0) if isinstance(node, Node) else 0.0 for node in wrt]


def _depending(graph: Graph, cores: Sequence[int], inputs: Sequence[Node]) -> list[int]:
    """Return those cores, in their order, that depend on the inputs.

    Nothing is passed back to the others.
    """
    moved = {node.id for node in inputs}
    found = []
    for index in cores:
        if any(operand.id in moved for operand in _operands(graph, graph.nodes[index])):
            moved.add(index)
            found.append(index)
    return found


def _operands(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The nodes that a core is made from."""
    if node.op in ("const", "input"):
        return ()
    if node.op in ("sign", "sqrt", "atan2"):
        return tuple(node.operands)
    first = graph.nodes[node.a]
    return (
        (first,)
        if node.op in ("shift", "scale", "sin", "cos")
        else (first, graph.nodes[int(node.b)])
    )


def _give_back(
    graph: Graph, node: Node, weight: Scalar, give: Callable[[Node, Scalar], None]
) -> None:
    """Apply the rule of one operation backwards: each operand gains its share of the weight."""
    operands = _operands(graph, node)
    a, b = operands[0], operands[-1]
    if node.op == "sign":
        return
    if node.op == "sqrt":
        give(a, weight * (0.5 / node))
    elif node.op == "atan2":
        scaled = weight / (a * a + b * b)
        give(a, scaled * b)
        give(b, -(scaled * a))
    elif node.op == "shift":
        give(a, weight)
    elif node.op == "scale":
        give(a, weight * node.b)
    elif node.op == "sin":
        give(a, weight * cos(a))
    elif node.op == "cos":
        give(a, -(weight * sin(a)))
    elif node.op == "mul":
        give(a, weight * b)
        give(b, weight * a)
    elif node.op == "div":
        shared = weight / b
        give(a, shared)
        give(b, -(shared * node))
    else:
        give(a, weight)
        give(b, weight if node.op == "add" else -weight)


def _times(rates: Rates, factor: Scalar) -> Rates:
    return {k: rate * factor for k, rate in rates.items()}


def _sum(first: Rates, second: Rates) -> Rates:
    total = dict(first)
    for k, rate in second.items():
        total[k] = total[k] + rate if k in total else rate
    return total
