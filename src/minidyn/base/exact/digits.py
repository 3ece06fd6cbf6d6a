"""Numbers of sixty digits as a number system, for motions that exact arithmetic cannot follow.

A loop that is solved for, or a joint given by a formula with square roots and arc tangents, has no
rational points to compute with. Sixty digits leave a gulf of some forty orders of magnitude between
what is small and what is rounding.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.base.exact.prime import exact_fraction

PRECISION = 60
PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)
_HALF_DEGREE = float(PI) / 360

Objects = NDArray[np.object_]


def sixty_digits() -> AbstractContextManager[decimal.Context]:
    """Return the context in which all computing with Digits must happen."""
    return decimal.localcontext(decimal.Context(prec=PRECISION))


class Digits:
    """Decimals, one for each sample, with + - * /; plain numbers 0 and 1 fold."""

    __slots__ = ("value",)

    def __init__(self, value: Objects) -> None:
        self.value = value

    @classmethod
    def of(cls, values: ArrayLike) -> Digits:
        """Return the doubles' exact values."""
        return cls(
            np.array(
                [Decimal(float(value)) for value in np.atleast_1d(np.asarray(values))], dtype=object
            )
        )

    @classmethod
    def constant(cls, value: float | int | Fraction | Decimal) -> Digits:
        """Return a constant: the rational number that a decimal is."""
        if isinstance(value, float):
            value = exact_fraction(value)
        if isinstance(value, Fraction):
            value = Decimal(value.numerator) / value.denominator
        return cls(np.array([Decimal(value)], dtype=object))

    def __add__(self, other: Any) -> Any:
        if other.__class__ is not Digits:
            if other == 0:
                return self
            other = Digits.constant(other)
        return Digits(self.value + other.value)

    __radd__ = __add__

    def __neg__(self) -> Digits:
        return Digits(-self.value)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if other.__class__ is not Digits:
            if other == 0:
                return 0
            if other == 1:
                return self
            if other == -1:
                return -self
            other = Digits.constant(other)
        return Digits(self.value * other.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        divisor = other if isinstance(other, Digits) else Digits.constant(other)
        return Digits(self.value / divisor.value)

    def __rtruediv__(self, other: Any) -> Any:
        return Digits.constant(other) / self

    def each(self, function: Callable[[Decimal], Decimal]) -> Digits:
        """Apply a function of one decimal."""
        return Digits(np.array([function(value) for value in self.value], dtype=object))

    def floats(self, samples: int) -> NDArray[np.float64]:
        """Return the nearest doubles (samples,)."""
        return np.broadcast_to(self.value.astype(float), (samples,))


def cos_sin(x: Digits) -> tuple[Digits, Digits]:
    """Cosine and sine by their series."""
    pairs = [_cos_sin(value) for value in x.value]
    return tuple(Digits(np.array(part, dtype=object)) for part in zip(*pairs))  # type: ignore[return-value]


def _cos_sin(x: Decimal) -> tuple[Decimal, Decimal]:
    x = x % (2 * PI)
    totals = [Decimal(1), x]
    terms = [Decimal(1), x]
    square, k = -x * x, 1
    while abs(terms[1]) > Decimal(10) ** (-PRECISION - 5) or k < 2:
        terms[0] *= square / ((2 * k - 1) * (2 * k))
        terms[1] *= square / ((2 * k) * (2 * k + 1))
        totals[0] += terms[0]
        totals[1] += terms[1]
        k += 1
    return totals[0], totals[1]


def _atan2(y: Decimal, x: Decimal) -> Decimal:
    angle = Decimal(float(np.arctan2(float(y), float(x))))
    for _ in range(3):  # each step has twice the digits of the one before
        c, s = _cos_sin(angle)
        angle += (y * c - x * s) / (x * c + y * s)
    return angle


def formula_operations() -> dict[str, Callable[..., Any]]:
    """Return what each instruction of a recorded formula is for Digits.

    See `graph.evaluate.run_tape`.
    """

    def one(function: Callable[[Digits], Any]) -> Callable[[Any], Any]:
        return lambda a: function(_lifted(a))

    def two(function: Callable[[Digits, Digits], Any]) -> Callable[[Any, Any], Any]:
        return lambda a, b: function(_lifted(a), _lifted(b))

    return {
        "add": two(lambda a, b: a + b),
        "sub": two(lambda a, b: a - b),
        "mul": two(lambda a, b: a * b),
        "div": two(lambda a, b: a / b),
        "neg": one(lambda a: -a),
        "sqrt": one(lambda a: a.each(Decimal.sqrt)),
        "sin": one(lambda a: cos_sin(a)[1]),
        "cos": one(lambda a: cos_sin(a)[0]),
        "sign": one(lambda a: a.each(lambda v: Decimal(0) if v == 0 else Decimal(1).copy_sign(v))),
        "atan2": two(_arc),
    }


def _arc(y: Digits, x: Digits) -> Digits:
    pairs = zip(*np.broadcast_arrays(y.value, x.value))
    return Digits(np.array([_atan2(a, b) for a, b in pairs], dtype=object))


def _lifted(value: Any) -> Digits:
    """Return a formula's number; whole half degrees, such as pi, are meant exactly."""
    if isinstance(value, Digits):
        return value
    number = float(value)
    units = round(number / _HALF_DEGREE)
    if units and abs(number - units * _HALF_DEGREE) < 1e-14 * abs(number):
        return Digits.constant(units * PI / 360)
    return Digits.constant(number)
