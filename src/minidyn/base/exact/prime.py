"""Integers modulo primes as a number system: the recursions of `minidyn.dynamics` run on them unchanged.

Every scalar holds one residue for each prime and sample. Small whole numbers stay plain integers, so that 0 and 1 fold
as they do in the expression graph. A point (c, s) of the circle c² + s² = 1 is kept as z = c + i s, which is an element
of the field because -1 has a square root i there: angles add where points multiply. The rational half-angle form
c = (1 - t²)/(1 + t²), s = 2t/(1 + t²) is the same circle, z = (1 + i t)/(1 - i t).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNITS = 720
"""The circle of each prime has exact points at all multiples of 1/720 turn, half a degree."""

PRIMES = (2147482801, 2147482081, 2147480641, 2147478481, 2147476321, 2147475601)
"""The largest primes below 2**31 that are 1 modulo 720: products fit in 64 bits, half degrees are exact."""

Words = NDArray[np.uint64]


def exact_fraction(value: float) -> Fraction:
    """Return the rational number that a decimal is: 0.1 is 1/10.

    Fifteen digits are read, as many as a double keeps of a decimal, so that 0.1 + 0.2 is 3/10; what is a simple
    fraction to that precision is taken as that fraction, so that 0.333333333333333 is 1/3.
    """
    decimal = Fraction(f"{float(value):.15g}")
    simple = decimal.limit_denominator(1000)
    return simple if abs(simple - decimal) <= abs(decimal) * Fraction(2, 10**15) else decimal


class Field:
    """Residues modulo several primes at once, and where their random numbers come from.

    Args:
        primes: The moduli (k of them).
        samples: How many points are evaluated side by side.
        rng: Source of randomness.
    """

    def __init__(self, primes: tuple[int, ...], samples: int, rng: np.random.Generator) -> None:
        self.primes = primes
        self.samples = samples
        self.modulus: Words = np.array(primes, dtype=np.uint64)[:, None]
        self._rng = rng
        self._constants: dict[Fraction, Residues] = {}
        self._unit = [_root_of_unity(p) for p in primes]
        self._half = self.constant(Fraction(1, 2))
        quarter = UNITS // 4
        self._over_2i = self._array([pow(2 * pow(w, quarter, p), -1, p) for w, p in zip(self._unit, primes)])

    def number(self, value: float | int) -> Any:
        """Return a constant: a plain integer where it is small and whole, residues (k, 1) elsewhere."""
        if isinstance(value, int):
            return value
        if value == int(value) and abs(value) < 4:
            return int(value)
        return self.constant(exact_fraction(value))

    def lift(self, value: float | int) -> Residues:
        """Return the residues (k, 1) of a plain number."""
        return self.constant(Fraction(value) if isinstance(value, int) else exact_fraction(value))

    def constant(self, value: Fraction) -> Residues:
        """Return the residues (k, 1) of a rational number."""
        found = self._constants.get(value)
        if found is None:
            a, b = value.numerator, value.denominator
            found = self._constants[value] = self._array([a * pow(b, -1, p) % p for p in self.primes])
        return found

    def random(self, constant: bool = False) -> Residues:
        """Return random residues, never 0: one for each sample, or a single one for all."""
        size = (len(self.primes), 1 if constant else self.samples)
        return Residues(self._rng.integers(1, self.modulus, size=size, dtype=np.uint64), self)

    def signs(self) -> Residues:
        """Return random +1 and -1, the same for every prime."""
        plus = self._rng.integers(0, 2, size=(1, self.samples), dtype=np.uint64)
        return Residues(np.where(plus == 1, np.uint64(1), self.modulus - np.uint64(1)), self)

    def unit_point(self, units: int) -> Residues:
        """Return the point z at `units` half degrees."""
        return self._array([pow(w, units % UNITS, p) for w, p in zip(self._unit, self.primes)])

    def cos_sin(self, z: Residues) -> tuple[Residues, Residues]:
        """Return c = (z + 1/z)/2 and s = (z - 1/z)/(2i) of a point z."""
        back = z.power(-1)
        return (z + back) * self._half, (z - back) * self._over_2i

    def _array(self, residues: list[int]) -> Residues:
        return Residues(np.array(residues, dtype=np.uint64)[:, None], self)


class Residues:
    """An array of residues (k, samples) or (k, 1) with + - * and division by small integers."""

    __slots__ = ("field", "value")

    def __init__(self, value: Words, field: Field) -> None:
        self.value = value
        self.field = field

    def __add__(self, other: Any) -> Any:
        if other.__class__ is not Residues:
            if other == 0:
                return self
            other = self.field.lift(other)
        return Residues((self.value + other.value) % self.field.modulus, self.field)

    __radd__ = __add__

    def __neg__(self) -> Residues:
        return Residues((self.field.modulus - self.value) % self.field.modulus, self.field)

    def __sub__(self, other: Any) -> Any:
        if other.__class__ is not Residues:
            if other == 0:
                return self
            other = self.field.lift(other)
        modulus = self.field.modulus
        return Residues((self.value + (modulus - other.value)) % modulus, self.field)

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
        return Residues(self.value * other.value % self.field.modulus, self.field)

    __rmul__ = __mul__

    def power(self, exponent: int) -> Residues:
        """Return the residues to a whole power, negative ones included."""
        if exponent < 0:
            primes = [int(p) - 1 + exponent for p in self.field.primes]
            parts = [_power(row, e, p) for row, e, p in zip(self.value, primes, self.field.primes)]
        else:
            parts = [_power(row, exponent, p) for row, p in zip(self.value, self.field.primes)]
        return Residues(np.array(parts), self.field)


def _power(base: Words, exponent: int, p: int) -> Words:
    modulus = np.uint64(p)
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def _root_of_unity(p: int) -> int:
    """Return an element of order UNITS modulo p."""
    for g in range(2, 1000):
        root = pow(g, (p - 1) // UNITS, p)
        if all(pow(root, UNITS // prime, p) != 1 for prime in (2, 3, 5)):
            return root
    raise AssertionError(f"{p} is not a prime of the list")
