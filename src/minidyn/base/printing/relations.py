"""Every base parameter as a formula of standard ones, in text, Markdown, LaTeX and JSON.

And the map in plain words. Formulas as text: one way to put a sum together, three alphabets
(Unicode, ASCII, LaTeX) to write it in.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import single_thread
from minidyn.base.numeric.own_rows import OWN
from minidyn.base.printing.symbols import (
    COS,
    SIN,
    LengthPolynomial,
    Monomial,
    entries_by_rule,
    rule_entries,
    symbolic_entries,
)
from minidyn.dynamics.formulas import ANGLES, named_lengths
from minidyn.text import markdown_cell, visible

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap
    from minidyn.model.robot import Robot


_MOMENT = re.compile(r"U(\d)(\d)(?:_(\d)(\d))?_(\d+)")
_FIRST = re.compile(r"k(\d+)([xyz])")
_WIDTH = 90  # characters of a line of LaTeX as they are read, from which a sum goes on below
_NAME = re.compile(r"([A-Za-z]+)([0-9]+)\Z")
_SPECIAL = {character: f"\\{character}" for character in "{}$&#%_"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
}


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is: specials escaped, accents dropped, other characters
    by code point.
    """
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
    """How names, powers and products are written."""

    name: str  # "unicode", "ascii" or "latex"
    space: str  # between the factors of a product
    digits: int = 10

    def parameter(self, name: str) -> str:
        """A standard or base parameter: ZZR1."""
        if self.name != "latex":
            return name
        if match := _MOMENT.fullmatch(name):
            one, two, three, four, link = match.groups()
            return rf"(U_{{{link}}})_{{{one}{two}{f'-{three}{four}' if three else ''}}}"
        if match := _FIRST.fullmatch(name):
            return rf"(k_{{{match[1]}}})_{{{match[2]}}}"
        return self._indexed(name, r"\mathrm")

    def symbol(self, name: str, power: int = 1) -> str:
        """A power of a geometry symbol: D3²."""
        for prefix in (COS, SIN):
            if name.startswith(prefix):
                return self._of_angle(prefix.strip(), name.removeprefix(prefix), power)
        if self.name == "latex":
            return self._indexed(name, r"\mathit") + (f"^{{{power}}}" if power > 1 else "")
        shown = visible(name)
        if power == 1:
            return shown
        return f"{shown}²" if self.name == "unicode" and power == 2 else f"{shown}^{power}"

    def _of_angle(self, function: str, angle: str, power: int) -> str:
        """A power of a sine or cosine of an angle: sin(alpha3)²."""
        raised = "" if power == 1 else f"^{power}"
        if self.name == "latex":
            letters = angle.rstrip("0123456789")
            shown = rf"\{letters}_{{{angle[len(letters) :]}}}"
            return rf"\{function}{raised}{shown}"
        raised = raised.replace("^2", "²") if self.name == "unicode" else raised
        return f"{function}({visible(angle)}){raised}"

    def number(self, value: float) -> str:
        """A number of ten digits, without its sign."""
        text = f"{abs(value):.{self.digits}g}"
        if self.name == "latex" and "e" in text:
            digits, _, power = text.partition("e")
            return rf"{digits} \cdot 10^{{{int(power)}}}"
        return text

    def signed(self, value: float) -> str:
        """A number of ten digits with its sign."""
        return f"{'-' if value < 0 else ''}{self.number(value)}"

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
class RelationTerm:
    """One standard parameter in a relation.

    Attributes:
        parameter: Its name.
        value: Its coefficient as a number, SI units.
        polynomial: The coefficient in geometry symbols; None where it is a plain number.
    """

    parameter: str
    value: float
    polynomial: LengthPolynomial | None = None

    @property
    def coefficient(self) -> str:
        """The coefficient as text, with symbols where it has them.

        "1", "-0.25", "2 R3", "D3² + R3²".
        """
        sign, text, is_sum = _factor(self, UNICODE)
        if sign > 0:
            return text
        return f"-({text})" if is_sum else f"-{text}"


def sum_text(terms: Sequence[RelationTerm], alphabet: Alphabet = UNICODE) -> str:
    """Return the sum of the terms; parameters with equal coefficients (up to sign) share one."""
    return _signed(_sum_parts(terms, alphabet)) or "0"


def _sum_parts(terms: Sequence[RelationTerm], alphabet: Alphabet) -> list[tuple[int, str]]:
    """Return (sign, text without it) of each part of a sum."""
    groups: dict[str, list[tuple[_Factor, str]]] = {}
    for term in terms:
        factor = _factor(term, alphabet)
        key = factor[1] if factor[1] != "1" else f"1 {term.parameter}"
        groups.setdefault(key, []).append((factor, alphabet.parameter(term.parameter)))
    parts = []
    for members in groups.values():
        sign, text, is_sum = members[0][0]
        inner = _signed([(other[0] * sign, name) for other, name in members])
        body = inner if len(members) == 1 else alphabet.bracket(inner)
        if text != "1":
            front = alphabet.bracket(text) if is_sum else text
            body = (
                f"{front}{body}"
                if is_sum and len(members) > 1
                else f"{front}{alphabet.space}{body}"
            )
        parts.append((sign, body))
    return parts


_Factor = tuple[int, str, bool]
"""A coefficient ready to print.

Sign, text without it, whether it needs parentheses before another factor.
"""


def _factor(term: RelationTerm, alphabet: Alphabet) -> _Factor:
    if term.polynomial is None:
        return -1 if term.value < 0 else 1, alphabet.number(term.value), False
    return _polynomial_factor(term.polynomial, alphabet)


def _polynomial_factor(polynomial: LengthPolynomial, alphabet: Alphabet) -> _Factor:
    if polynomial.divisor is not None:
        sign, above, is_sum = _polynomial_factor(replace(polynomial, divisor=None), alphabet)
        other, below, _ = _polynomial_factor(polynomial.divisor, alphabet)
        if alphabet.name == "latex":
            return sign * other, rf"\frac{{{above}}}{{{below}}}", False
        above = alphabet.bracket(above) if is_sum else above
        below = alphabet.bracket(below) if " " in below else below
        return sign * other, f"{above}/{below}", True
    terms = [
        (number, product) for number, product in polynomial.terms if alphabet.number(number) != "0"
    ]
    if not terms:
        return 1, "0", False
    ordered = sorted(terms, key=lambda pair: (pair[0] < 0, -len(pair[1]), sorted(pair[1])))
    sign = -1 if ordered[0][0] < 0 else 1  # all are negative
    text = _signed(
        [(sign if number > 0 else -sign, _product(number, p, alphabet)) for number, p in ordered]
    )
    return sign, text, len(terms) > 1


def _product(number: float, product: Monomial, alphabet: Alphabet) -> str:
    powers = {name: product.count(name) for name in sorted(product)}
    factors = [alphabet.symbol(name, power) for name, power in powers.items()]
    digits = alphabet.number(number)
    return alphabet.space.join(factors if digits == "1" and factors else [digits, *factors])


def _signed(parts: Sequence[tuple[int, str]]) -> str:
    text = "".join(f" {'+' if sign > 0 else '-'} {part}" for sign, part in parts)
    return f"-{text[3:]}" if text.startswith(" - ") else text[3:]


@dataclass(frozen=True)
class Relation:
    """A base parameter: name = sum of coefficient · standard parameter. `str()` gives the formula.

    Attributes:
        name: Name of the base parameter, "ZZR1".
        terms: In storage order of the parameters.
    """

    name: str
    terms: tuple[RelationTerm, ...]

    def formula(self, alphabet: Alphabet = UNICODE) -> str:
        """Return the right-hand side."""
        return sum_text(self.terms, alphabet)

    def ascii(self) -> str:
        """Return the whole relation with ASCII characters only: D3^2 for D3²."""
        return f"{self.name} = {self.formula(ASCII)}"

    def __str__(self) -> str:
        return f"{self.name} = {self.formula()}"


def _named(base: BaseMap) -> Robot:
    """Return the map's robot with names for lengths and angles; own regressors have none."""
    if base.model == OWN:
        return base.robot
    return named_lengths(base.robot, base.names, angles=True, safe_names=False)


def relations(base: BaseMap) -> tuple[Relation, ...]:
    """Return the relations of a map, one for each base parameter, in the order of `base.names`.

    Coefficients are written with the lengths the robot's file names, where they are polynomials or
    small fractions of them; others are numbers.

    Implements: Gautier1991 Table V, section "Application to Graph-Structured Robots" in symbols.
    """
    given = {name for name, _ in base.robot.symbols}
    base = replace(base, robot=_named(base))
    if base.rows is not None:
        names, of_rule = base.robot.layout.names, rule_entries(base)
        return tuple(
            Relation(
                label,
                tuple(
                    RelationTerm(
                        names[column], float(values[column]), of_rule.get((row, int(column)))
                    )
                    for column in np.flatnonzero(values)
                ),
            )
            for row, (label, values) in enumerate(zip(base.names, base.matrix))
        )
    symbolic = entries_by_rule(base)
    with single_thread():
        fitted = symbolic_entries(base) if _is_open(base, symbolic) else {}
    symbolic |= {
        place: entry
        for place, entry in fitted.items()
        if place not in symbolic and (_is_short(entry) or _names(entry) <= given)
    }
    layout = base.robot.layout
    found = []
    for row, (name, kept) in enumerate(zip(base.names, base.kept)):
        # a polynomial that happens to be zero for these lengths belongs to the formula all the same
        shown = {int(column) for column in np.flatnonzero(base.K[row])} | {
            k for r, k in symbolic if r == row
        }
        terms = [
            RelationTerm(
                base.regrouped[column], float(base.K[row, column]), symbolic.get((row, column))
            )
            for column in shown
        ]
        # the leading parameter stays in front of those that join it
        rest = sorted(terms, key=lambda term: layout.index(term.parameter))
        found.append(Relation(name, (RelationTerm(kept, 1.0), *rest)))
    return tuple(found)


_SHORT = (0.5, 1.0, 2.0, 3.0, 4.0)
"""Factors beside which a symbol is easier to read than a number."""


def _is_open(base: BaseMap, symbolic: dict[tuple[int, int], LengthPolynomial]) -> bool:
    """Say whether entries of a map that are plain numbers may still have symbols."""
    return any((int(r), int(c)) not in symbolic for r, c in np.argwhere(~np.isin(base.K, _PLAIN)))


_PLAIN = (-1.0, 0.0, 1.0)


def _is_short(polynomial: LengthPolynomial) -> bool:
    parts = [polynomial, *([polynomial.divisor] if polynomial.divisor else [])]
    return all(abs(number) in _SHORT for part in parts for number, _ in part.terms)


def _names(polynomial: LengthPolynomial) -> set[str]:
    parts = [polynomial, *([polynomial.divisor] if polynomial.divisor else [])]
    return {name for part in parts for _, product in part.terms for name in product}


def symbols_of(base: BaseMap) -> dict[str, float]:
    """Return the values of the symbols that a map's relations use, in the order of the joints."""
    used = {
        name.removeprefix(COS).removeprefix(SIN)
        for relation in base.relations()
        for term in relation.terms
        if term.polynomial is not None
        for name in _names(term.polynomial)
    }
    named = _named(base)
    return {name: value for name, value in named.symbols if name in used}


def _values(base: BaseMap) -> list[tuple[str, float, str]]:
    """Return (symbol, value, unit) of what relations use."""
    return [
        (name, value, "rad" if name.startswith(ANGLES) else "m")
        for name, value in base.symbols.items()
    ]


def legend_of(base: BaseMap) -> str:
    """Return the values of the symbols that a map's relations use, on one line; "": there are
    none.
    """
    return ", ".join(f"{visible(name)} = {value:.6g} {unit}" for name, value, unit in _values(base))


def map_json(base: BaseMap) -> dict[str, Any]:
    """Return a base map as plain lists, numbers and text for `json.dump`."""
    return {
        "robot": base.robot.name,
        "robot_fingerprint": base.robot.fingerprint,
        "method": base.method,
        "model": base.model,
        "rank": base.rank,
        "names": list(base.names),
        "kept": list(base.kept),
        "regrouped": list(base.regrouped),
        "eliminated": list(base.eliminated),
        "K": base.K.tolist(),
        "gap": base.gap if math.isfinite(base.gap) else None,
        "tolerance": base.tolerance,
        "check": {"relations": base.check.relations, "geometry": base.check.geometry},
        "joints": None if base.joints is None else list(base.joints),
        "columns": None if base.columns is None else list(base.columns),
        "measured": None if base.measured is None else list(base.measured),
        "condition": base.condition if math.isfinite(base.condition) else None,
        "statuses": base.statuses,
        "notices": [notice.to_json() for notice in base.notices],
        "matrix": None if base.rows is None else base.rows.tolist(),
        "structure": None if base.structure is None else base.structure.to_json(),
        "symbols": base.symbols,
    }


def relations_json(base: BaseMap) -> list[dict[str, Any]]:
    """Return the relations as plain values for `json.dump`."""
    return [
        {
            "name": relation.name,
            "formula": relation.formula(),
            "terms": [
                {"parameter": term.parameter, "coefficient": term.coefficient, "value": term.value}
                for term in relation.terms
            ],
        }
        for relation in base.relations()
    ]


def to_markdown(base: BaseMap) -> str:
    """Return the map as Markdown: counts, a table of the relations, what has no effect, notices."""
    lines = [
        f"# Base parameters of {_markdown(base.robot.name)}",
        "",
        f"{_counts(base)} ({base.model} model, method {base.method}).",
        "",
        "| # | base parameter | in standard parameters |",
        "|---:|---|---|",
    ]
    for number, relation in enumerate(base.relations(), 1):
        lines.append(f"| {number} | {_markdown(relation.name)} | {_markdown(relation.formula())} |")
    legend = legend_of(base)
    if legend:
        lines += ["", f"{_markdown(legend)}."]
    if base.structure is not None:
        lines += ["", *(f"- {_markdown(line)}" for line in base.structure.describe().splitlines())]
    for title, names in (("Regrouped", base.regrouped), ("Without effect", base.eliminated)):
        if names:
            lines += ["", f"{title}: {', '.join(names)}."]
    lines += [text for note in _notes(base) for text in ("", f"Note: {_markdown(note)}")]
    return "\n".join(lines) + "\n"


def to_latex(base: BaseMap) -> str:
    r"""Return the relations as LaTeX that may break over pages; needs only the package amsmath."""
    lines = [
        r"% needs \usepackage{amsmath}",
        rf"\paragraph{{Base parameters of {escape_latex(base.robot.name)}}}",
        f"{_counts(base)} ({base.model} model, method {base.method}).",
    ]
    rows = latex_rows(base)
    if rows:
        lines += [
            r"{\allowdisplaybreaks",
            r"\begin{align*}",
            " \\\\\n".join(rows),
            r"\end{align*}}",
        ]
    alone = [relation.name for relation in base.relations() if is_itself(relation)]
    if alone:
        names = ", ".join(f"${LATEX.parameter(name)}$" for name in alone)
        lines += [f"Identified alone: {names}.", ""]
    legend = [
        rf"${LATEX.symbol(name)} = {LATEX.signed(value)}\,\mathrm{{{unit}}}$"
        for name, value, unit in _values(base)
    ]
    if legend:
        lines += [f"With {', '.join(legend)}.", ""]
    for title, group in (("Regrouped", base.regrouped), ("Without effect", base.eliminated)):
        if group:
            lines.append(
                f"{title}: " + ", ".join(f"${LATEX.parameter(name)}$" for name in group) + "."
            )
            lines.append("")
    lines += [f"Note: {escape_latex(note)}" for note in _notes(base)]
    return "\n".join(lines).rstrip() + "\n"


def is_itself(relation: Relation) -> bool:
    """Say whether a base parameter is one standard parameter of the same name."""
    return [term.parameter for term in relation.terms] == [relation.name]


def latex_rows(base: BaseMap, digits: int = 10) -> list[str]:
    r"""Return `name &= sum` of each base parameter that is a combination, for an align
    environment.

    Long sums go on in lines below.
    """
    alphabet = replace(LATEX, digits=digits)
    rows = []
    for relation in base.relations():
        if is_itself(relation):
            continue
        lines, width = [""], 0
        read = _sum_parts(relation.terms, ASCII)
        for (sign, text), (_, plain) in zip(_sum_parts(relation.terms, alphabet), read):
            if width and width + len(plain) > _WIDTH:
                lines.append("")
                width = 0
            mark = "-" if sign < 0 else "+"
            first = not lines[-1] and len(lines) == 1
            lines[-1] += ("-" if sign < 0 else "") + text if first else f" {mark} {text}"
            width += len(plain) + 3
        rows.append(f"{alphabet.parameter(relation.name)} &= " + " \\\\\n&\\quad".join(lines))
    return rows


def without_effect(base: BaseMap) -> dict[str, list[str]]:
    """Return the parameters without effect by the reason why they have none."""
    reasons: dict[str, list[str]] = {}
    for name in base.eliminated:
        reasons.setdefault(base.statuses[name].partition(": ")[2], []).append(name)
    return reasons


def explain(base: BaseMap) -> str:
    """Return the map in plain words.

    What can be known by itself, what only in combination, what has no effect.
    """
    alone = list(base.unchanged)
    lines = [_counts(base) + "."]
    if alone:
        lines.append(f"Separately identifiable ({len(alone)}): {', '.join(alone)}.")
    together = [relation for relation in base.relations() if len(relation.terms) > 1]
    if together:
        lines.append(f"Only in these combinations ({len(together)}):")
        lines += [f"  {relation}" for relation in together]
    reasons = without_effect(base)
    if reasons:
        lines.append(f"Without effect ({len(base.eliminated)}):")
        lines += [f"  {', '.join(names)}: {why}" for why, names in reasons.items()]
    if base.structure is not None:
        lines += base.structure.describe().splitlines()
    if base.gap < math.inf:
        lines.append(
            f"The smallest value that was kept is {base.gap:.1e} times the largest that was "
            "dropped."
        )
    lines += [f"Note: {note}" for note in _notes(base)]
    return "\n".join(lines)


def _counts(base: BaseMap) -> str:
    return (
        f"{len(base.robot.layout)} standard parameters = {base.rank} base + {len(base.regrouped)} "
        f"regrouped + {len(base.eliminated)} without effect"
    )


def _notes(base: BaseMap) -> list[str]:
    return [f"{notice}. {notice.advice}".rstrip() for notice in base.notices]


def _markdown(text: str) -> str:
    """Return foreign text as Markdown that shows it as it is, on one line, wherever it stands."""
    return "".join("\\" + c if c in "_#~" else c for c in markdown_cell(text))
