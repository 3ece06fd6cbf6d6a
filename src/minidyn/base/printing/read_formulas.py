"""Formulas of parameters as people write them, read back: "ZZR1 = ZZ1 + (D3² + R3²)(M3 + M4) - 0.2 MX3".

Products need no sign. The text is turned into the formulas that robot files know (`minidyn.model.formula`), with named
lengths as numbers; nothing in it is ever executed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, first_of, near_names
from minidyn.model.formula import FUNCTIONS, Formula
from minidyn.text import short

_SIGNS = str.maketrans({"−": "-", "–": "-", "·": "*", "⋅": "*", "×": "*", "[": "(", "]": ")"} | {"²": "^2", "³": "^3"})
_TOKEN = re.compile(r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|.))")
_NAMES = 400  # listed in an error: all of them, but for a robot with very many


def rows_of_text(
    texts: Sequence[str], names: Sequence[str], symbols: Mapping[str, float]
) -> tuple[tuple[str, ...], Array]:
    """Return names and coefficients (m, p) of formulas that are linear in the parameters `names`.

    Each text is one formula or several, line by line; symbols are named lengths and their values.
    """
    lines = [line.strip() for text in texts for line in re.split(r"[\n;]", text) if line.strip()]
    if not lines:
        raise DescriptionError("no formula was given; write for example 'ZZ1 + YY2 + 0.2 MX3'")
    place, known = {name: k for k, name in enumerate(names)}, {name: name for name in names}
    matrix = np.zeros((len(lines), len(names)))
    labels = []
    for row, line in enumerate(lines):
        label, equals, right = line.partition("=")
        labels.append(short(label.strip() if equals else line, 80))
        where = f"formula {row + 1} of the set"
        formula = Formula(_in_full(right if equals else line, line, where, names, symbols), where, known)
        try:
            total = _Sum.of(formula.evaluate({name: _Sum({name: 1.0}) for name in formula.variables}))
        except TypeError:
            total = _Sum({}, math.nan)
        if total.constant != 0.0:
            why = "is not linear in the parameters" if math.isnan(total.constant) else "has a term without a parameter"
            raise DescriptionError(f"{where}, {short(line, 200)!r}, {why}; expected a sum of number times parameter")
        for name, factor in total.factors.items():
            matrix[row, place[name]] = factor
    return tuple(labels), matrix


@dataclass(frozen=True)
class _Sum:
    """A number and a sum of number times parameter. What is not linear is a TypeError at once, however large."""

    factors: Mapping[str, float]
    constant: float = 0.0

    @classmethod
    def of(cls, value: _Sum | float) -> _Sum:
        return value if isinstance(value, _Sum) else cls({}, float(value))

    def __add__(self, other: _Sum | float) -> _Sum:
        other = _Sum.of(other)
        names = {**self.factors, **other.factors}
        total = {name: self.factors.get(name, 0.0) + other.factors.get(name, 0.0) for name in names}
        return _Sum(total, self.constant + other.constant)

    def __mul__(self, other: _Sum | float) -> _Sum:
        other = _Sum.of(other)
        if self.factors and other.factors:
            raise TypeError("a product of parameters")
        number, many = (self.constant, other) if other.factors else (other.constant, self)
        return _Sum({name: factor * number for name, factor in many.factors.items()}, many.constant * number)

    def __truediv__(self, other: _Sum | float) -> _Sum:
        other = _Sum.of(other)
        if other.factors or other.constant == 0.0:
            raise TypeError("divided by a parameter")
        return self * (1.0 / other.constant)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> _Sum:
        return self * -1.0

    def __sub__(self, other: _Sum | float) -> _Sum:
        return self + -_Sum.of(other)

    def __rsub__(self, other: float) -> _Sum:
        return -self + other


def _in_full(text: str, line: str, where: str, names: Sequence[str], symbols: Mapping[str, float]) -> str:
    """Return the formula with every product's sign written and lengths as numbers."""
    known = {*names}
    parts: list[str] = []
    ends = False  # whether what is before can be a factor
    for match in _TOKEN.finditer(text.translate(_SIGNS).strip()):
        part = match.group().strip()
        kind = match.lastgroup
        if kind == "name" and part not in (*FUNCTIONS, "pi") and part not in known and part not in symbols:
            there = f"parameters: {first_of(list(names), _NAMES)}"
            there += f"; lengths: {first_of(list(symbols), _NAMES)}" if symbols else ""
            hint = near_names(part, [*names, *symbols], limit=0).split("; known")[0]
            raise DescriptionError(f"{where}, {short(line, 200)!r}: unknown name {part!r}{hint} ({there})")
        if kind == "sign" and part not in ("+", "-", "*", "/", "(", ")", ",", "^", "**"):
            raise DescriptionError(f"{where}, {short(line, 200)!r}: {part!r} is no part of a formula")
        if ends and (kind != "sign" or part == "("):
            parts.append("*")
        if kind == "name" and part in symbols and part not in known:
            part = f"({symbols[part]!r})"
        elif kind == "number":  # whole numbers stay whole: they may be powers
            part = part.lstrip("0") or "0"
            part = f"0{part}" if part.startswith((".", "e", "E")) else part
        parts.append("**" if part == "^" else part)
        ends = (kind != "sign" and part not in FUNCTIONS) or part == ")"
    return "".join(parts)
