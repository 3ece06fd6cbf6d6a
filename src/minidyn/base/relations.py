"""Every base parameter as a formula of standard ones, in text, Markdown, LaTeX and JSON; and the map in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.base.formatting import ASCII, LATEX, UNICODE, Alphabet, Weighted, coefficient_text, escape_latex, sum_text
from minidyn.base.symbols import Polynomial, rule_entries, symbolic_entries
from minidyn.blas import single_thread
from minidyn.graph.names import markdown_cell

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap

__all__ = ["Relation", "Term", "explain", "relations", "relations_json", "to_latex", "to_markdown"]


@dataclass(frozen=True)
class Term:
    """One standard parameter in a relation.

    Attributes:
        parameter: Its name.
        value: Its coefficient as a number, SI units.
        polynomial: The coefficient in geometry symbols; None where it is a plain number.
    """

    parameter: str
    value: float
    polynomial: Polynomial | None = None

    @property
    def coefficient(self) -> str:
        """The coefficient as text, with symbols where it has them."""
        return coefficient_text(_weighted(self))


@dataclass(frozen=True)
class Relation:
    """A base parameter: name = sum of coefficient · standard parameter. `str()` gives the formula.

    Attributes:
        name: Name of the base parameter, "ZZR1".
        terms: In storage order of the parameters.
    """

    name: str
    terms: tuple[Term, ...]

    def formula(self, alphabet: Alphabet = UNICODE) -> str:
        """Return the right-hand side."""
        return sum_text([_weighted(term) for term in self.terms], alphabet)

    def ascii(self) -> str:
        """Return the whole relation with ASCII characters only: D3^2 for D3²."""
        return f"{self.name} = {self.formula(ASCII)}"

    def __str__(self) -> str:
        return f"{self.name} = {self.formula()}"


def relations(base: BaseMap) -> tuple[Relation, ...]:
    """Return the relations of a map, one for each base parameter, in the order of `base.names`.

    Coefficients are written with the lengths the robot's description names, where they are polynomials in them on a
    chain or tree; others are numbers.

    Implements: Gautier1991 Table V.
    """
    if base.rows is not None:
        return _relations_of_rule(base)
    with single_thread():
        symbolic = symbolic_entries(base)
    layout = base.robot.layout
    found = []
    for row, (name, kept) in enumerate(zip(base.names, base.kept)):
        # a polynomial that happens to be zero for these lengths belongs to the formula all the same
        shown = {int(column) for column in np.flatnonzero(base.K[row])} | {k for r, k in symbolic if r == row}
        terms = [
            Term(base.regrouped[column], float(base.K[row, column]), symbolic.get((row, column))) for column in shown
        ]
        # the leading parameter stays in front of those that join it
        rest = sorted(terms, key=lambda term: layout.index(term.parameter))
        found.append(Relation(name, (Term(kept, 1.0), *rest)))
    return tuple(found)


def _relations_of_rule(base: BaseMap) -> tuple[Relation, ...]:
    """Return the relations of a map whose rows a closed-form rule gave."""
    names, symbolic = base.robot.layout.names, rule_entries(base)
    return tuple(
        Relation(
            label,
            tuple(
                Term(names[column], float(values[column]), symbolic.get((row, int(column))))
                for column in np.flatnonzero(values)
            ),
        )
        for row, (label, values) in enumerate(zip(base.names, base.matrix))
    )


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
        for relation in relations(base)
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
    for number, relation in enumerate(relations(base), 1):
        lines.append(f"| {number} | {_markdown(relation.name)} | {_markdown(relation.formula())} |")
    if base.structure is not None:
        lines += ["", *(f"- {_markdown(line)}" for line in base.structure.describe().splitlines())]
    for title, names in (("Regrouped", base.regrouped), ("Without effect", base.eliminated)):
        if names:
            lines += ["", f"{title}: {', '.join(names)}."]
    lines += [text for notice in base.notices for text in ("", f"Note: {_markdown(notice)}.")]
    return "\n".join(lines) + "\n"


def to_latex(base: BaseMap) -> str:
    r"""Return the relations as LaTeX that may break over pages; needs only the package amsmath."""
    lines = [
        r"% needs \usepackage{amsmath}",
        rf"\paragraph{{Base parameters of {escape_latex(base.robot.name)}}}",
        f"{_counts(base)} ({base.model} model, method {base.method}).",
    ]
    found = relations(base)
    if found:
        rows = [f"{LATEX.parameter(relation.name)} &= {relation.formula(LATEX)}" for relation in found]
        lines += [r"{\allowdisplaybreaks", r"\begin{align*}", " \\\\\n".join(rows), r"\end{align*}}"]
    for title, names in (("Regrouped", base.regrouped), ("Without effect", base.eliminated)):
        if names:
            lines.append(f"{title}: " + ", ".join(f"${LATEX.parameter(name)}$" for name in names) + ".")
            lines.append("")
    lines += [f"Note: {escape_latex(notice)}." for notice in base.notices]
    return "\n".join(lines).rstrip() + "\n"


def explain(base: BaseMap) -> str:
    """Return the map in plain words: what can be known by itself, what only in combination, what has no effect."""
    statuses = base.statuses
    alone = list(base.unchanged)
    lines = [_counts(base) + "."]
    if alone:
        lines.append(f"Separately identifiable ({len(alone)}): {', '.join(alone)}.")
    together = [relation for relation in relations(base) if len(relation.terms) > 1]
    if together:
        lines.append(f"Only in these combinations ({len(together)}):")
        lines += [f"  {relation}" for relation in together]
    reasons: dict[str, list[str]] = {}
    for name in base.eliminated:
        reasons.setdefault(statuses[name].partition(": ")[2], []).append(name)
    if reasons:
        lines.append(f"Without effect ({len(base.eliminated)}):")
        lines += [f"  {', '.join(names)}: {why}" for why, names in reasons.items()]
    if base.structure is not None:
        lines += base.structure.describe().splitlines()
    if base.gap < math.inf:
        lines.append(f"The smallest value that was kept is {base.gap:.1e} times the largest that was dropped.")
    lines += [f"Note: {notice}." for notice in base.notices]
    return "\n".join(lines)


def _counts(base: BaseMap) -> str:
    return (
        f"{len(base.robot.layout)} standard parameters = {base.rank} base + {len(base.regrouped)} regrouped + "
        f"{len(base.eliminated)} without effect"
    )


def _weighted(term: Term) -> Weighted:
    return Weighted(term.parameter, term.value, term.polynomial)


def _markdown(text: str) -> str:
    """Return foreign text as Markdown that shows it as it is, on one line, wherever it stands."""
    return "".join("\\" + c if c in "_#~" else c for c in markdown_cell(text))
