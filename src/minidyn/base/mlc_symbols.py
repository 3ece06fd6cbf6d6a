"""Polynomials in the robot's lengths and parameters: just enough algebra to write the combinations down in symbols."""

from __future__ import annotations

from collections.abc import Mapping

from minidyn.base.mlc_combinations import combinations
from minidyn.base.mlc_structure import Structure
from minidyn.base.symbols import Polynomial
from minidyn.dynamics.tree import RealNumbers
from minidyn.dynamics.vectors import Scalar
from minidyn.model.geometry import Step
from minidyn.model.robot import Robot

__all__ = ["Poly", "symbolic_rows"]

_Product = tuple[str | int, ...]  # sorted lengths by name, a parameter by its index


class Poly:
    """A sum of number · product; products are tuples of symbols (text) and at most one parameter (its index).

    Only + - * are needed, which is all the recursions use.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[_Product, float]) -> None:
        self.terms = {product: number for product, number in terms.items() if number != 0.0}

    @classmethod
    def of(cls, value: Poly | float) -> Poly:
        """Return a number as a polynomial."""
        return value if isinstance(value, Poly) else cls({(): float(value)})

    def __add__(self, other: Poly | float) -> Poly:
        terms = dict(self.terms)
        for product, number in Poly.of(other).terms.items():
            terms[product] = terms.get(product, 0.0) + number
        return Poly(terms)

    __radd__ = __add__

    def __neg__(self) -> Poly:
        return Poly({product: -number for product, number in self.terms.items()})

    def __sub__(self, other: Poly | float) -> Poly:
        return self + (-Poly.of(other))

    def __rsub__(self, other: Poly | float) -> Poly:
        return Poly.of(other) - self

    def __mul__(self, other: Poly | float) -> Poly:
        terms: dict[_Product, float] = {}
        for one, a in self.terms.items():
            for two, b in Poly.of(other).terms.items():
                product = tuple(sorted((*one, *two), key=str))
                terms[product] = terms.get(product, 0.0) + a * b
        return Poly(terms)

    __rmul__ = __mul__


class _SymbolicLengths(RealNumbers):
    """Lengths that the robot's description names stay symbols; everything else is a number."""

    def length(self, step: Step) -> Scalar:
        """A constant length."""
        return Poly({(step.symbol,): step.factor}) if step.symbol and step.value != 0.0 else step.value


def symbolic_rows(robot: Robot, structure: Structure) -> list[dict[int, Polynomial]]:
    """Return for each combination {place of a standard parameter: its coefficient in geometry symbols}.

    Args:
        robot: In modified Denavit-Hartenberg form.
        structure: Its r, s, δ, σ.
    """
    phi = [Poly({(index,): 1.0}) for index in range(len(robot.layout))]
    rows = []
    for combination in combinations(robot, structure, phi, _SymbolicLengths()):
        row: dict[int, dict[tuple[str, ...], float]] = {}
        for product, number in combination.value.terms.items():
            index = next(factor for factor in product if isinstance(factor, int))
            symbols = tuple(factor for factor in product if isinstance(factor, str))
            if abs(number) > 1e-13:
                row.setdefault(index, {})[symbols] = number
        rows.append(
            {
                index: Polynomial(
                    tuple((n, p) for p, n in sorted(terms.items(), key=lambda item: (len(item[0]), item[0])))
                )
                for index, terms in sorted(row.items())
            }
        )
    return rows
