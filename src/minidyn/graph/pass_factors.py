"""Passes on factors: a b + a c becomes a (b + c), and constant factors wait until they meet another constant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from minidyn.graph.evaluate import run_tape
from minidyn.graph.function import Function
from minidyn.graph.linear_forms import Forms, Replay, signed_sum
from minidyn.graph.node import Node
from minidyn.graph.rebuild import shaped
from minidyn.graph.scalar import Graph, Scalar, atan2, cos, sign, sin, sqrt

__all__ = ["defer_constants", "factor_sums"]


def factor_sums(function: Function) -> Function:
    """Return the function with common factors taken out of sums, the most frequent factor of a sum first.

    Only products that nobody else uses are taken apart, so that each factoring saves a multiplication.
    """
    forms = Forms(function, whole=True)
    replay = Replay(forms)
    tape = function.tape
    for root in forms.roots:
        plain = dict(forms.form[root])
        products: list[tuple[int, int]] = []  # (atom, coefficient)
        for atom in forms.form[root]:
            if atom not in forms.uniform and tape[atom].op == "mul" and forms.uses[atom] == 1 and atom != root:
                products.append((atom, plain.pop(atom)))
        terms: list[tuple[int, Scalar]] = []
        while products:
            often = Counter(operand for atom, _ in products for operand in set(tape[atom].args))
            factor = max(often, key=lambda operand: (often[operand], operand))
            if often[factor] < 2:
                break
            group = [item for item in products if factor in tape[item[0]].args]
            products = [item for item in products if factor not in tape[item[0]].args]
            others = [(coefficient, replay.value[_other(tape[atom].args, factor)]) for atom, coefficient in group]
            terms.append((1, replay.value[factor] * signed_sum(others)))
        plain.update(products)
        left = [(coefficient, replay.atom(atom)) for atom, coefficient in sorted(plain.items())]
        replay.value[root] = signed_sum([*left, *terms])
    return replay.finish()


def defer_constants(function: Function) -> Function:
    """Return the function with constant factors carried along until they are needed.

    A constant turn k1 y + k2 z becomes k1 (y + (k2/k1) z). Where the sum meets the next constant, k1 joins it and one
    multiplication is saved; where it does not, k1 is multiplied at last and nothing is lost.
    """
    graph = Graph()
    columns: list[list[Scalar]] = [
        [
            _Scaled(1.0, node, argument.uniform)
            for node in graph.inputs(argument.name, argument.size, uniform=argument.uniform)
        ]
        for argument in function.arguments
    ]
    table: dict[str, Callable[..., Scalar]] = {
        "add": lambda a, b: _add(_lift(a), _lift(b), 1.0),
        "sub": lambda a, b: _add(_lift(a), _lift(b), -1.0),
        "neg": lambda a: _Scaled(-_lift(a).factor, _lift(a).core, _lift(a).uniform),
        "mul": lambda a, b: _multiply(_lift(a), _lift(b)),
        "div": lambda a, b: _plain(_lift(a).value / _lift(b).value, a, b),
        "sqrt": lambda a: _plain(sqrt(_lift(a).value), a),
        "sin": lambda a: _plain(sin(_lift(a).value), a),
        "cos": lambda a: _plain(cos(_lift(a).value), a),
        "sign": lambda a: _plain(sign(_lift(a).value), a),
        "atan2": lambda a, b: _plain(atan2(_lift(a).value, _lift(b).value), a, b),
    }
    outputs = run_tape(function, columns, table)
    results = {
        result.name: shaped([_lift(value).value for value in values], result.shape)
        for result, values in zip(function.results, outputs)
    }
    return graph.function(function.name, results)


class _Scaled:
    """A value that waits to be multiplied: factor times core."""

    __slots__ = ("core", "factor", "uniform")

    def __init__(self, factor: float, core: Scalar, uniform: bool) -> None:
        self.factor = factor
        self.core = core
        self.uniform = uniform

    @property
    def value(self) -> Scalar:
        return self.core * self.factor


def _lift(x: Scalar) -> _Scaled:
    return x if isinstance(x, _Scaled) else _Scaled(1.0, x, True)


def _plain(value: Scalar, *operands: Scalar) -> _Scaled:
    return _Scaled(1.0, value, all(_lift(operand).uniform for operand in operands))


def _add(a: _Scaled, b: _Scaled, sign: float) -> _Scaled:
    if a.uniform and b.uniform:
        return _Scaled(1.0, a.value + b.value * sign, True)
    if a.uniform:  # dividing what is known once per call costs nothing
        return _Scaled(b.factor, a.core * (a.factor / b.factor) + b.core * sign, False)
    if b.uniform:
        return _Scaled(a.factor, a.core + b.core * (sign * b.factor / a.factor), False)
    if abs(a.factor) == 1.0 or abs(b.factor) == 1.0:
        return _Scaled(1.0, a.value + b.value * sign, False)
    return _Scaled(a.factor, a.core + b.core * (sign * b.factor / a.factor), False)


def _multiply(a: _Scaled, b: _Scaled) -> _Scaled:
    for x, y in ((a, b), (b, a)):
        number = x.core.value if isinstance(x.core, Node) else x.core
        if x.uniform and number is not None:
            factor = x.factor * float(number) * y.factor
            if factor == 0.0 or factor - factor != 0.0:
                return _Scaled(1.0, a.value * b.value, a.uniform and b.uniform)
            if y.uniform:
                return _Scaled(1.0, y.core * factor, True)
            return _Scaled(factor, y.core, False)
    return _Scaled(1.0, a.value * b.value, a.uniform and b.uniform)


def _other(operands: tuple[int, ...], factor: int) -> int:
    first, second = operands
    return second if first == factor else first
