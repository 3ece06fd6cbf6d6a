"""Formulas as text: one way to put a sum together, three alphabets (Unicode, ASCII, LaTeX) to write it in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from minidyn.base.symbols import Monomial, Polynomial

__all__ = ["ASCII", "LATEX", "UNICODE", "Alphabet", "Weighted", "coefficient_text", "escape_latex", "sum_text"]

_NAME = re.compile(r"([A-Za-z]+)([0-9]+)\Z")
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
}


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is: specials escaped, accents dropped, other characters by code point."""
    found = []
    for character in text:
        if character in _SPECIAL:
            found.append(_SPECIAL[character])
        elif " " <= character <= "~":
            found.append(character)
        else:
            plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
            ok = plain and all(" " <= c <= "~" and c not in _SPECIAL for c in plain)
            found.append(plain if ok else f"U+{ord(character):04X}")
    return "".join(found)


@dataclass(frozen=True)
class Alphabet:
    """How names, powers and products are written.

    Attributes:
        name: "unicode", "ascii" or "latex".
        space: Between the factors of a product.
    """

    name: str
    space: str

    def parameter(self, name: str) -> str:
        """A standard or base parameter: ZZR1."""
        return self._indexed(name, r"\mathrm") if self.name == "latex" else name

    def symbol(self, name: str, power: int = 1) -> str:
        """A power of a geometry symbol: D3²."""
        if self.name == "latex":
            return self._indexed(name, r"\mathit") + (f"^{{{power}}}" if power > 1 else "")
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
        if power == 1:
            return shown
        return f"{shown}²" if self.name == "unicode" and power == 2 else f"{shown}^{power}"

    def number(self, value: float) -> str:
        """A number of ten digits, without its sign."""
        text = f"{abs(value):.10g}"
        if self.name == "latex" and "e" in text:
            digits, _, power = text.partition("e")
            return rf"{digits} \cdot 10^{{{int(power)}}}"
        return text

    def bracket(self, text: str) -> str:
        """The text in parentheses."""
        return rf"\left({text}\right)" if self.name == "latex" else f"({text})"

    def _indexed(self, name: str, font: str) -> str:
        match = _NAME.match(name)
        if match is None:
            return rf"\text{{{escape_latex(name)}}}"
        letters, index = match.groups()
        return f"{letters if len(letters) == 1 else f'{font}{{{letters}}}'}_{{{index}}}"


UNICODE = Alphabet("unicode", " ")
ASCII = Alphabet("ascii", " ")
LATEX = Alphabet("latex", r"\,")


@dataclass(frozen=True)
class _Factor:
    """A coefficient ready to print: sign, text without it, whether it needs parentheses before another factor."""

    sign: int
    text: str
    is_sum: bool = False


@dataclass(frozen=True)
class Weighted:
    """A parameter and its coefficient: a number, or a polynomial where it is known."""

    parameter: str
    value: float
    polynomial: Polynomial | None = None


def coefficient_text(term: Weighted, alphabet: Alphabet = UNICODE) -> str:
    """Return the coefficient as text: "1", "-0.25", "2 R3", "D3² + R3²"."""
    factor = _factor(term, alphabet)
    if factor.sign > 0:
        return factor.text
    return f"-{alphabet.bracket(factor.text)}" if factor.is_sum else f"-{factor.text}"


def sum_text(terms: Sequence[Weighted], alphabet: Alphabet = UNICODE) -> str:
    """Return the sum of the terms; parameters with equal coefficients (up to sign) share one."""
    groups: dict[str, list[tuple[_Factor, str]]] = {}
    for term in terms:
        factor = _factor(term, alphabet)
        key = factor.text if factor.text != "1" else f"1 {term.parameter}"
        groups.setdefault(key, []).append((factor, alphabet.parameter(term.parameter)))
    text = ""
    for members in groups.values():
        factor = members[0][0]
        inner = _signed([(other.sign * factor.sign, name) for other, name in members])
        body = inner if len(members) == 1 else alphabet.bracket(inner)
        if factor.text != "1":
            front = alphabet.bracket(factor.text) if factor.is_sum else factor.text
            body = f"{front}{body}" if factor.is_sum and len(members) > 1 else f"{front}{alphabet.space}{body}"
        text = _join(text, factor.sign, body)
    return text or "0"


def _factor(term: Weighted, alphabet: Alphabet) -> _Factor:
    if term.polynomial is None:
        return _Factor(-1 if term.value < 0 else 1, alphabet.number(term.value))
    terms = [(number, product) for number, product in term.polynomial.terms if alphabet.number(number) != "0"]
    if not terms:
        return _Factor(1, "0")
    ordered = sorted(terms, key=lambda pair: (pair[0] < 0, -len(pair[1]), sorted(pair[1])))
    sign = -1 if ordered[0][0] < 0 else 1  # all are negative
    return _Factor(
        sign,
        _signed([(sign if number > 0 else -sign, _product(number, p, alphabet)) for number, p in ordered]),
        len(terms) > 1,
    )


def _product(number: float, product: Monomial, alphabet: Alphabet) -> str:
    powers = {name: product.count(name) for name in sorted(product)}
    factors = [alphabet.symbol(name, power) for name, power in powers.items()]
    digits = alphabet.number(number)
    return alphabet.space.join(factors if digits == "1" and factors else [digits, *factors])


def _signed(parts: Sequence[tuple[int, str]]) -> str:
    text = ""
    for sign, part in parts:
        text = _join(text, sign, part)
    return text


def _join(text: str, sign: int, part: str) -> str:
    if not text:
        return part if sign > 0 else f"-{part}"
    return f"{text} + {part}" if sign > 0 else f"{text} - {part}"
