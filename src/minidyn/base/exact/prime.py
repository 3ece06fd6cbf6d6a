"""Integers modulo primes as a number system, and elimination over them: no rounding, no tolerance.

Every scalar holds one residue for each prime and sample. Small whole numbers stay plain integers,
so that 0 and 1 fold as they do in the expression graph. Residues are doubles between -p/2 and p/2
with p < 2²⁶: up to eight products add up exactly before a remainder must be taken, so that matrix
products and vector instructions do the work.

A point (c, s) of the circle c² + s² = 1 is kept as z = c + i s, which is an element of the field
because -1 has a square root i there: angles add where points multiply. The rational half-angle form
c = (1 - t²)/(1 + t²), s = 2t/(1 + t²) is the same circle, z = (1 + i t)/(1 - i t).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

from minidyn.arrays import Array

UNITS = 720
"""The circle of each prime has exact points at all multiples of 1/720 turn, half a degree."""

PRIMES = (
    67102561,
    67091041,
    67090321,
    67086001,
    67081681,
    67078801,
    67073761,
    67071601,
    67069441,
    67068721,
)
"""The largest primes below 2**26 that are 1 modulo 720.

Eight products fit in a double, half degrees are exact.
"""

_ROOM = 7  # products that may be added to a residue before a remainder is taken


@lru_cache(maxsize=4096)
def exact_fraction(value: float) -> Fraction:
    """Return the rational number that a decimal is: 0.1 is 1/10.

    Fifteen digits are read, as many as a double keeps of a decimal, so that 0.1 + 0.2 is 3/10; what
    is a simple fraction to that precision is taken as that fraction, so that 0.333333333333333 is
    1/3.
    """
    decimal = Fraction(f"{float(value):.15g}")
    simple = decimal.limit_denominator(1000)
    return simple if abs(simple - decimal) <= abs(decimal) * Fraction(2, 10**15) else decimal


class Field:
    """Residues modulo k primes at once for points side by side, and where their random numbers come
    from.
    """

    def __init__(self, primes: tuple[int, ...], samples: int, rng: np.random.Generator) -> None:
        self.primes = primes
        self.samples = samples
        self._moduli = [
            np.array(primes, dtype=float).reshape(-1, *(1,) * axes) for axes in range(7)
        ]
        self._inverses = [1.0 / modulus for modulus in self._moduli]
        self._rng = rng
        self._constants: dict[Fraction, Residues] = {}
        self._unit = [_root_of_unity(p) for p in primes]
        self._half = self.constant(Fraction(1, 2))
        quarter = UNITS // 4
        self._over_2i = self._array(
            [pow(2 * pow(w, quarter, p), -1, p) for w, p in zip(self._unit, primes)]
        )

    def reduced(self, values: Array) -> Array:
        """Return remainders between -p/2 and p/2 of whole numbers up to 2**53.

        The first axis counts primes.
        """
        axes = values.ndim - 1
        quotient = values * self._inverses[axes]
        np.rint(quotient, out=quotient)
        quotient *= self._moduli[axes]
        np.subtract(values, quotient, out=quotient)
        return quotient

    def number(self, value: float | int) -> Any:
        """Return a constant.

        A plain integer where it is small and whole, residues (k, 1) elsewhere.
        """
        if isinstance(value, int):
            return value
        if value == int(value) and abs(value) < 4:
            return int(value)
        return self.constant(exact_fraction(value))

    def lift(self, value: float | int) -> Residues:
        """Return the residues (k, 1) of a plain number."""
        return self.constant(Fraction(value) if isinstance(value, int) else exact_fraction(value))

    def raw(self, value: Any) -> Any:
        """Return the array behind a scalar; plain integers stay."""
        if isinstance(value, int):
            return value
        return value.value if isinstance(value, Residues) else self.lift(value).value

    def constant(self, value: Fraction) -> Residues:
        """Return the residues (k, 1) of a rational number."""
        found = self._constants.get(value)
        if found is None:
            a, b = value.numerator, value.denominator
            found = self._constants[value] = self._array(
                [a * pow(b, -1, p) % p for p in self.primes]
            )
        return found

    def random(self, constant: bool = False) -> Residues:
        """Return random residues, never 0: one for each sample, or a single one for all."""
        return self.randoms(1, constant)[0]

    def randoms(self, count: int, constant: bool = False) -> list[Residues]:
        """Return several random residues."""
        size = (len(self.primes), count, 1 if constant else self.samples)
        drawn = self._rng.integers(1, np.array(self.primes)[:, None, None], size=size).astype(float)
        return [Residues(part, self) for part in np.moveaxis(self.reduced(drawn), 1, 0)]

    def points(self, count: int, constant: bool = False) -> list[Point]:
        """Return several random points of the circle."""
        drawn = self.randoms(count, constant)
        if not drawn:
            return []
        backs = Residues(np.concatenate([z.value for z in drawn], axis=1), self).inverse()
        parts = np.split(backs.value, count, axis=1)
        return [Point(z, Residues(back, self)) for z, back in zip(drawn, parts)]

    def inverses(self, residues: list[float]) -> Array:
        """Return 1 / x modulo each prime (k, 1), between -p/2 and p/2, of numbers that are
        not 0.
        """
        found = [pow(int(x), -1, p) for x, p in zip(residues, self.primes)]
        return np.array(
            [[x - p if 2 * x > p else x] for x, p in zip(found, self.primes)], dtype=float
        )

    def signs(self) -> Residues:
        """Return random +1 and -1, the same for every prime."""
        signs = self._rng.choice((-1.0, 1.0), size=(1, self.samples))
        return Residues(np.repeat(signs, len(self.primes), axis=0), self)

    def unit_point(self, units: int) -> Point:
        """Return the point at `units` half degrees."""
        there, back = (
            [pow(w, k % UNITS, p) for w, p in zip(self._unit, self.primes)] for k in (units, -units)
        )
        return Point(self._array(there), self._array(back))

    def cos_sin(self, point: Point) -> tuple[Residues, Residues]:
        """Return c = (z + 1/z)/2 and s = (z - 1/z)/(2i) of a point z."""
        z, back = point.z.value, point.back.value
        return (
            Residues(self.reduced((z + back) * self._half.value), self),
            Residues(self.reduced((z - back) * self._over_2i.value), self),
        )

    def _array(self, residues: list[int]) -> Residues:
        return Residues(self.reduced(np.array(residues, dtype=float)[:, None]), self)


class Residues:
    """An array of residues (k, samples) or (k, 1) with + - * and division by small integers."""

    __slots__ = ("field", "value")

    def __init__(self, value: Array, field: Field) -> None:
        self.value = value
        self.field = field

    def __add__(self, other: Any) -> Any:
        if other.__class__ is not Residues:
            if other == 0:
                return self
            other = self.field.lift(other)
        return Residues(self.field.reduced(self.value + other.value), self.field)

    __radd__ = __add__

    def __neg__(self) -> Residues:
        return Residues(-self.value, self.field)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if other.__class__ is not Residues:
            if other == 0:
                return 0
            if other == 1:
                return self
            if other == -1:
                return -self
            other = self.field.lift(other)
        return Residues(self.field.reduced(self.value * other.value), self.field)

    __rmul__ = __mul__

    def power(self, exponent: int) -> Residues:
        """Return the residues to a whole power from 1 on."""
        result: Residues | None = None
        base = self
        while exponent:
            if exponent & 1:
                result = base if result is None else result * base
            base, exponent = base * base, exponent >> 1
        return self.field.lift(1) if result is None else result

    def inverse(self) -> Residues:
        """Return 1 / x of residues; 0 for 0.

        Products of pairs are inverted, and give back what each alone is.
        """
        reduced, zero = self.field.reduced, self.value == 0
        values, pairs = self.value + zero, []
        while values.shape[1] > 1:
            if values.shape[1] % 2:
                values = np.concatenate([values, np.ones((len(values), 1))], axis=1)
            pairs.append(values.reshape(len(values), 2, -1))
            values = reduced(pairs[-1][:, 0] * pairs[-1][:, 1])
        found = self.field.inverses(values[:, 0].tolist())
        for pair in reversed(pairs):
            found = found[:, : pair.shape[2]]
            found = reduced(pair[:, ::-1] * found[:, None]).reshape(len(found), -1)
        return Residues(np.where(zero, 0.0, found[:, : zero.shape[1]]), self.field)


@dataclass(frozen=True, slots=True)
class Point:
    """A point z of the circle and 1 / z, its mirror image: angles add where points multiply."""

    z: Residues
    back: Residues

    def __mul__(self, other: Point) -> Point:
        return Point(self.z * other.z, self.back * other.back)

    def turned(self, times: int) -> Point:
        """The point at a multiple of the angle."""
        if times == 1:
            return self
        z, back = (self.z, self.back) if times >= 0 else (self.back, self.z)
        return Point(z.power(abs(times)), back.power(abs(times)))


@cache
def _root_of_unity(p: int) -> int:
    """Return an element of order UNITS modulo p."""
    for g in range(2, 1000):
        root = pow(g, (p - 1) // UNITS, p)
        if all(pow(root, UNITS // prime, p) != 1 for prime in (2, 3, 5)):
            return root
    raise AssertionError(f"{p} is not a prime of the list")


@dataclass(frozen=True)
class Echelon:
    """Reduced row echelon form of a matrix modulo several primes."""

    pivots: list[int]  # columns that do not depend on those before them, ascending
    others: list[int]  # the remaining columns, ascending
    K: Array  # (primes, pivots, others) with column[others] = column[pivots] K modulo each prime
    field: Field

    def explains(self, rows: Array) -> bool:
        """Whether further rows (primes, r, columns) obey the relations found.

        Then they add nothing to the rank.
        """
        left = rows[:, :, self.others]
        for k in range(0, len(self.pivots), _ROOM):
            some = slice(k, k + _ROOM)
            left = self.field.reduced(left - rows[:, :, self.pivots[some]] @ self.K[:, some])
        return not left.any()


def echelon(matrix: Array, field: Field) -> Echelon | None:
    """Return the reduced row echelon form of a matrix (primes, rows, columns) of residues.

    None: primes disagree. Columns are taken from left to right, so that each dependent column is
    expressed by columns before it: the choice that a QR factorisation without pivoting makes. Rows
    that are zero in a column are left alone, which are many where joints do not feel the links
    before them. Remainders are taken of the column and row at hand; of all the rest only every
    seventh time.

    Implements: Gautier1991 eq. (13), (17), choice of columns, over a finite field.
    """
    A = matrix.copy()
    rows, columns = A.shape[1:]
    pivots: list[int] = []
    others: list[int] = []
    added = np.zeros(rows, dtype=int)  # products since the last remainder
    for column in range(columns):
        rank = len(pivots)
        here = field.reduced(A[:, rank:, column])
        touched = np.asarray(here.any(axis=0)).nonzero()[0]
        if not len(touched):
            others.append(column)
            continue
        first = rank + int(touched[0])
        leading = here[:, touched[0]].tolist()
        if 0.0 in leading:
            return None
        row = field.reduced(field.reduced(A[:, first, column:]) * field.inverses(leading))
        if first != rank:
            A[:, first], added[first] = A[:, rank], added[rank]
        A[:, rank, column:] = row
        pivots.append(column)
        touched = touched[1:]  # what was in the first row's place is zero here
        if not len(touched):
            continue
        last = int(touched[-1]) + 1
        some = slice(int(touched[0]), last) if 3 * len(touched) > last else touched
        below = (
            slice(rank + int(touched[0]), rank + last)
            if isinstance(some, slice)
            else rank + touched
        )
        A[:, below, column:] -= here[:, some, None] * row[:, None, :]
        added[below] += 1
        full = (added >= _ROOM).nonzero()[0]
        if len(full):
            A[:, full, column:] = field.reduced(A[:, full, column:])
            added[full] = 0
    K = field.reduced(A[:, : len(pivots), others])
    U = field.reduced(A[:, : len(pivots), pivots])
    for end in range(len(pivots), 0, -_ROOM):  # as many rows at a time as products fit
        start = max(0, end - _ROOM)
        for k in range(end - 1, start, -1):
            K[:, start:k] = field.reduced(K[:, start:k] - U[:, start:k, k, None] * K[:, k, None, :])
        K[:, :start] = field.reduced(K[:, :start] - U[:, :start, start:end] @ K[:, start:end])
    return Echelon(pivots, others, K, field)


def chinese_remainder(residues: list[int], primes: tuple[int, ...]) -> tuple[int, int]:
    """Return (x, modulus) with x = residues[i] modulo primes[i]."""
    modulus, units = _remainder_units(primes)
    return sum(residue * unit for residue, unit in zip(residues, units)) % modulus, modulus


@lru_cache(maxsize=64)
def _remainder_units(primes: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return the product of primes, and for each the number that is 1 modulo it and 0 modulo the
    others.
    """
    modulus = math.prod(primes)
    return modulus, tuple(modulus // p * pow(modulus // p, -1, p) for p in primes)


def rational(x: int, modulus: int, slack: int = 1 << 20) -> tuple[int, int] | None:
    """Return the fraction (a, b) with a = b x modulo `modulus` that is simple enough to be no
    accident, else None.

    A random residue passes with a probability of about 1/slack.

    Implements: Wang's rational reconstruction by the Euclidean algorithm.
    """
    a0, a1, b0, b1 = modulus, x % modulus, 0, 1
    best: tuple[int, int] | None = None
    limit = modulus // slack
    while a1:
        if abs(a1 * b1) <= limit and (best is None or abs(a1 * b1) < abs(best[0] * best[1])):
            best = (a1, b1)
        quotient = a0 // a1
        a0, a1, b0, b1 = a1, a0 - quotient * a1, b1, b0 - quotient * b1
    if x % modulus == 0:
        return 0, 1
    if best is None:
        return None
    return best if best[1] > 0 else (-best[0], -best[1])
