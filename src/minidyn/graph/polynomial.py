"""Recorded functions as formulas.

Every scalar expanded to a polynomial in its inputs and their sines and cosines. With s² replaced by
1 - c² the polynomial is unique: two recordings of one quantity give the same one, whatever route
they took. Made for small robots, to read and to compare; long functions are better read as source
text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from minidyn.errors import Unsupported
from minidyn.graph.function import ARITHMETIC, Function, run_tape

_MOST = 1000  # terms of one polynomial
_ROUNDING = 1e-13  # of the largest coefficient that was added
_GROUP = 1000  # ranks of one argument
_LAST = 1_000_000
_LONGEST = 120  # terms up to which sums of angles are tried
_SHORT = 6  # terms that need no shortening
_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, order=True, slots=True)
class Atom:
    """A factor that is not expanded further."""

    rank: int  # where it stands in a product
    kind: str  # "" for an input, "c" and "s" for a cosine and a sine
    name: str  # of the input; of an angle, what follows c or s ("1", "12")
    call: tuple[str, tuple[Polynomial, ...]] | None = field(
        default=None, compare=False
    )  # what it is the value of

    def __str__(self) -> str:
        return self.kind + self.name


Monomial = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of number times product of atoms."""

    terms: Mapping[Monomial, float]  # {product: number}, products as sorted pairs of atom and power

    @classmethod
    def of(cls, value: Polynomial | float) -> Polynomial:
        """Return the polynomial of a number; a polynomial is its own."""
        return value if isinstance(value, Polynomial) else cls({(): float(value)} if value else {})

    @classmethod
    def atom(cls, atom: Atom) -> Polynomial:
        """Return the polynomial of one atom."""
        return cls({((atom, 1),): 1.0})

    def __add__(self, other: Polynomial | float) -> Polynomial:
        return _sum([*self.terms.items(), *Polynomial.of(other).terms.items()])

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial({product: -number for product, number in self.terms.items()})

    def __sub__(self, other: Polynomial | float) -> Polynomial:
        return self + -Polynomial.of(other)

    def __rsub__(self, other: Polynomial | float) -> Polynomial:
        return -self + other

    def __mul__(self, other: Polynomial | float) -> Polynomial:
        pairs = []
        for a, x in self.terms.items():
            for b, y in Polynomial.of(other).terms.items():
                pairs += [(product, x * y * sign) for product, sign in _product(a, b)]
        return _sum(pairs)

    __rmul__ = __mul__

    def __truediv__(self, other: Polynomial | float) -> Polynomial:
        number = Polynomial.of(other).number
        return self * (_call("div", 1.0, other) if number is None else 1.0 / number)

    def __rtruediv__(self, other: float) -> Polynomial:
        return Polynomial.of(other) / self

    @property
    def number(self) -> float | None:
        """The number it is; None where it depends on an atom."""
        return self.terms.get((), 0.0) if set(self.terms) <= {()} else None

    def value(self, values: Mapping[str, float]) -> float:
        """Return its value for values of the atoms, by their text."""
        return sum(
            x * math.prod(values[str(a)] ** power for a, power in p) for p, x in self.terms.items()
        )

    def equals(self, other: Polynomial | float) -> bool:
        """Whether the difference vanishes but for rounding."""
        one, two = self, Polynomial.of(other)
        size = max((abs(x) for x in (*one.terms.values(), *two.terms.values())), default=0.0)
        return all(abs(x) <= 1e-11 * size for x in (one - two).terms.values())

    def gathered(self) -> list[tuple[Monomial, float]]:
        """Return (product, number) in the order they are read, with angles gathered.

        c1 c2 - s1 s2 is c12.
        """
        best = _gather(dict(self.terms))
        while (shorter := _shorter(self, len(best))) is not None:
            self, best = shorter, _gather(dict(shorter.terms))
        return sorted(best.items(), key=_order)

    def __str__(self) -> str:
        """Write it with angles gathered: c1 c2 - s1 s2 is c12."""
        text = ""
        for product, number in self.gathered():
            factors = [
                str(a) if power == 1 else f"{a}{str(power).translate(_DIGITS)}"
                for a, power in product
            ]
            size = f"{abs(number):.6g}"
            part = " ".join(factors if size == "1" and factors else [size, *factors])
            sign = "-" if number < 0 else "+"
            text = f"{text} {sign} {part}" if text else (part if number > 0 else f"-{part}")
        return text or "0"


def expand(function: Function, symbols: Mapping[str, Sequence[str]]) -> list[list[Polynomial]]:
    """Return for each result of a function its scalars as polynomials.

    `symbols` has for each argument the names of its scalars, in the order in which they shall stand
    in products. The sine of a scalar whose name is a letter and a number ("q1") is s and the number
    ("s1").
    """
    ranks = {name: _GROUP * place for place, name in enumerate(symbols)}
    columns = [
        [
            Polynomial.atom(Atom(ranks[argument.name] + k, "", name))
            for k, name in enumerate(symbols[argument.name])
        ]
        for argument in function.arguments
    ]
    results = run_tape(function, columns, _TABLE)
    return [[Polynomial.of(value) for value in values] for values in results]


def _call(name: str, *operands: Polynomial | float) -> Polynomial:
    values = tuple(Polynomial.of(operand) for operand in operands)
    text = f"1/({values[1]})" if name == "div" else f"{name}({', '.join(map(str, values))})"
    return Polynomial.atom(Atom(_LAST, "", text, (name, values)))


def _cos_sin(angle: Polynomial) -> tuple[Polynomial | float, Polynomial | float] | None:
    """Return cosine and sine of a sum of angles and a constant, by the addition theorem.

    None for other sums.
    """
    c: Polynomial | float = math.cos(angle.terms.get((), 0.0))
    s: Polynomial | float = math.sin(angle.terms.get((), 0.0))
    for product, number in angle.terms.items():
        if not product:
            continue
        ((atom, power), *more) = product
        if more or power != 1 or abs(number) != 1.0 or atom.kind or not atom.name[1:].isdigit():
            return None
        cosine = Polynomial.atom(Atom(atom.rank, "c", atom.name[1:]))
        sine = number * Polynomial.atom(Atom(atom.rank, "s", atom.name[1:]))
        c, s = c * cosine - s * sine, s * cosine + c * sine
    return c, s


def _trigonometric(name: str, angle: Polynomial | float) -> Polynomial | float:
    found = _cos_sin(Polynomial.of(angle))
    return _call(name, angle) if found is None else found[name == "sin"]


_TABLE: dict[str, Callable[..., Any]] = {
    **ARITHMETIC,
    **{name: partial(_call, name) for name in ("sqrt", "sign", "atan2")},
    **{name: partial(_trigonometric, name) for name in ("sin", "cos")},
}


def _product(a: Monomial, b: Monomial) -> list[tuple[Monomial, float]]:
    """Return the product of two products; even powers of a sine become those of its cosine."""
    powers = _times(dict(a), dict(b))
    found = [(powers, 1.0)]
    for atom, power in powers.items():
        if atom.kind == "s" and power > 1:
            cosine = Atom(atom.rank, "c", atom.name)
            for _ in range(power // 2):
                found = [
                    (_times(term, {atom: -2} | ({cosine: 2} if sign < 0 else {})), sign * number)
                    for term, number in found
                    for sign in (1.0, -1.0)
                ]
    return [(_sorted(term), number) for term, number in found]


def _times(a: Mapping[Atom, int], b: Mapping[Atom, int]) -> dict[Atom, int]:
    powers = dict(a)
    for atom, power in b.items():
        powers[atom] = powers.get(atom, 0) + power
    return powers


def _sorted(powers: Mapping[Atom, int]) -> Monomial:
    return tuple(sorted((atom, power) for atom, power in powers.items() if power))


def _sum(pairs: Sequence[tuple[Monomial, float]]) -> Polynomial:
    total: dict[Monomial, float] = {}
    size: dict[Monomial, float] = {}
    for product, number in pairs:
        total[product] = total.get(product, 0.0) + number
        size[product] = max(size.get(product, 0.0), abs(number))
    kept = {product: x for product, x in total.items() if abs(x) > _ROUNDING * size[product]}
    if len(kept) > _MOST:
        raise Unsupported(
            f"a formula of more than {_MOST} terms is not for reading; print the kernel's source "
            "instead"
        )
    return Polynomial(kept)


def _order(item: tuple[Monomial, float]) -> tuple[Any, ...]:
    """Accelerations before speeds before what is left, each by number."""
    ranks = [atom.rank for atom, power in reversed(item[0]) for _ in range(power)]
    return -(ranks[0] // _GROUP) if ranks else 1, ranks


def _gather(terms: dict[Monomial, float]) -> dict[Monomial, float]:
    """Gather angles as long as there is anything to gather.

    k (c1 c2 - s1 s2) is k c12, k - k c2² is k s2².
    """
    found: dict[Monomial, float] | None = terms
    while found is not None:
        terms, found = found, _gathered_once(found)
    return terms


def _gathered_once(terms: dict[Monomial, float]) -> dict[Monomial, float] | None:
    for product, number in terms.items():
        angles = [(atom, power) for atom, power in product if atom.kind]
        for i, (a, power) in enumerate(angles):
            if a.kind != "c":
                continue
            if power >= 2:  # with the same product without c²
                partner = _sorted(_times(dict(product), {a: -2}))
                if _close(terms.get(partner), -number):
                    joined = _sorted(_times(dict(partner), {_turned(a): 2}))
                    return _joined(terms, (product, partner), joined, -number)
            for b, _ in angles[i + 1 :]:
                if a.rank == b.rank or not set(a.name).isdisjoint(b.name):
                    continue
                # c1 c2 with -s1 s2, or c1 s2 with s1 c2
                partner = _sorted(
                    _times(dict(product), {a: -1, b: -1, _turned(a): 1, _turned(b): 1})
                )
                if _close(terms.get(partner), -number if b.kind == "c" else number):
                    joint = Atom(a.rank, b.kind, a.name + b.name)
                    joined = _sorted(_times(dict(product), {a: -1, b: -1, joint: 1}))
                    return _joined(terms, (product, partner), joined, number)
    return None


def _shorter(polynomial: Polynomial, size: int) -> Polynomial | None:
    """Return it with a sum of angles for one of them, q3 = q23 - q2, where that takes fewer terms.

    Else None. On parallel axes sums are the angles that count: what the third link turns by about
    the second axis is q2 + q3.
    """
    if len(polynomial.terms) > _LONGEST or size < _SHORT:
        return None
    degrees: dict[
        Atom, int
    ] = {}  # the highest of each angle's cosine and sine together; lone ones are gathered anyhow
    for product in polynomial.terms:
        own: dict[Atom, int] = {}
        for atom, power in product:
            if atom.kind:
                cosine = replace(atom, kind="c")
                own[cosine] = own.get(cosine, 0) + power
        degrees |= {atom: max(power, degrees.get(atom, 0)) for atom, power in own.items()}
    for a in sorted(degrees):
        for b in sorted(atom for atom, power in degrees.items() if power > 1):
            if a.rank < b.rank and set(a.name).isdisjoint(b.name):
                found = _substituted(polynomial, a, b)
                if len(_gather(dict(found.terms))) < size:
                    return found
    return None


def _substituted(polynomial: Polynomial, a: Atom, b: Atom) -> Polynomial:
    both = Atom(b.rank, "c", a.name + b.name)
    c, s, ca, sa = (Polynomial.atom(each) for each in (both, _turned(both), a, _turned(a)))
    values = {b: c * ca + s * sa, _turned(b): s * ca - c * sa}
    total = Polynomial({})
    for product, number in polynomial.terms.items():
        term = Polynomial({tuple(pair for pair in product if pair[0] not in values): number})
        for atom, power in product:
            for _ in range(power if atom in values else 0):
                term = term * values[atom]
        total = total + term
    return total


def _close(one: float | None, two: float) -> bool:
    return one is not None and abs(one - two) <= 1e-12 * abs(two)


def _joined(
    terms: Mapping[Monomial, float],
    gone: tuple[Monomial, Monomial],
    joined: Monomial,
    number: float,
) -> dict[Monomial, float]:
    rest = {product: x for product, x in terms.items() if product not in gone}
    rest[joined] = rest.get(joined, 0.0) + number
    return {product: x for product, x in rest.items() if x}


def _turned(atom: Atom) -> Atom:
    return Atom(atom.rank, "s" if atom.kind == "c" else "c", atom.name)
