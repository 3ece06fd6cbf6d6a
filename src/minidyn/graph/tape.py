"""From the cores of a graph to the instructions of a function: dead code dropped, signs absorbed.

A node is plus or minus a core. On the tape a sign costs an instruction only where nobody can absorb it: a sum
becomes a difference, a difference turns round, a constant factor changes sign, a product passes the wish on
to a factor. What remains (mostly results that are minus a product) is negated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minidyn.graph.function import Instruction

if TYPE_CHECKING:
    from minidyn.graph.node import Node


_TURNS = frozenset(("sub", "scale", "shift"))  # cores whose sign can be chosen at no cost
_ONE = frozenset(("sin", "cos", "sign", "scale", "shift"))  # one unsigned operand
_TWO = frozenset(("add", "sub", "mul", "div"))  # two unsigned operands


def build_tape(
    nodes: Sequence[Node], results: Sequence[Sequence[Node]]
) -> tuple[tuple[Instruction, ...], tuple[tuple[int, ...], ...]]:
    """Return the tape that computes `results` and the tape index of each of their scalars.

    Args:
        nodes: All cores of the graph, by number.
        results: For each result its scalars.
    """
    outputs = [node for result in results for node in result]
    live = reachable(nodes, outputs)
    wanted = _wanted_signs(nodes, live, outputs)
    writer = _Writer()
    for index in live:
        writer.write(nodes[index], wanted[index])
    return_at = [tuple(writer.signed(node) for node in result) for result in results]
    return tuple(writer.tape), tuple(return_at)


def reachable(nodes: Sequence[Node], outputs: Sequence[Node]) -> list[int]:
    """Return the numbers of the cores that `outputs` depend on, themselves included, in order of creation."""
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


def _wanted_signs(nodes: Sequence[Node], live: Sequence[int], outputs: Sequence[Node]) -> dict[int, int]:
    """Return for each live core the sign its users insist on: -1, +1, or 0 where any will do.

    Sums and products take either sign of an operand. Results, roots and angles need the one they were given;
    where all of them need the negative, the wish goes down to an operand that can turn its sign for nothing.
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
        """Return the index of a node with its own sign, negated here where it stands with the other."""
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
            self.place[node.id] = self.put(op, *[self.signed(operand) for operand in node.operands]), 1

    def _two(self, op: str, node: Node, want: int) -> tuple[int, int]:
        if op == "div":  # the only one of the four with constants among its operands
            a, sign_a = self.place.get(node.a) or (self.number(node.graph.nodes[node.a].b), 1)
            b, sign_b = self.place.get(int(node.b)) or (self.number(node.graph.nodes[int(node.b)].b), 1)
            return self.put("div", a, b), sign_a * sign_b
        a, sign_a = self.place[node.a]
        b, sign_b = self.place[int(node.b)]
        if op == "mul":
            return self.put("mul", a, b), sign_a * sign_b
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
        return self.put("add", a, self.number(number)) if number > 0 else self.put("sub", a, self.number(-number))
