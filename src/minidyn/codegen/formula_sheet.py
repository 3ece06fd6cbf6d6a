"""What `md.formulas` returns.

Named expressions, and the pages they become in text, LaTeX, Markdown and sympy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minidyn.base.printing.relations import escape_latex
from minidyn.codegen.expressions import ZERO, Expression, Language, Line, Symbol, number
from minidyn.errors import MinidynError, UnknownName
from minidyn.files import write_atomically
from minidyn.text import markdown_cell, plain_number, safe_comment, visible

FORMATS = {"text": ".txt", "latex": ".tex", "markdown": ".md", "sympy": ".py"}
"""What formulas are written in, and the ending of such a file."""
_WIDTH = 110  # characters of a line
_MATRIX = 84  # characters of a row that is printed as part of a matrix


@dataclass(frozen=True)
class Entries:
    """One result: a number, a vector or a matrix of expressions."""

    name: Symbol
    labels: tuple[Symbol, ...]  # of the scalars, row by row
    shape: tuple[int, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Meaning:
    """A symbol of the formulas, what it is, and its value where it has one."""

    symbol: Symbol
    words: str
    value: float | None = None


@dataclass(frozen=True)
class Formulas:
    """Formulas of one function of a robot. `str()` gives them as text; notebooks show them typeset.

    Attributes:
        robot: Name of the robot.
        what: Which function.
        form: "closed": each entry is one expression; "listing": lines of intermediate values come
            first.
        lines: Definitions in the order they are needed: sines and cosines, intermediate values.
        results: What the function returns.
        meanings: The symbols that stand in the formulas.
        symmetric: Whether the result is a symmetric matrix, whose lower half is not repeated.
        digits: Digits of numbers in text, LaTeX and Markdown; sympy has all.
        legend: What names of intermediate values mean.
        typeset: Rows of LaTeX as they are, where the formulas are printed elsewhere, too.
    """

    robot: str
    what: str
    form: str
    lines: tuple[Line, ...]
    results: tuple[Entries, ...]
    meanings: tuple[Meaning, ...]
    symmetric: bool = False
    digits: int = 6
    legend: tuple[str, ...] = field(default=(), repr=False)
    typeset: tuple[str, ...] = field(default=(), repr=False)

    @property
    def values(self) -> dict[str, float]:
        """Values of the symbols that have one, by the symbol's text.

        Lengths, gravity, known parameters.
        """
        return {each.symbol.text: each.value for each in self.meanings if each.value is not None}

    @property
    def entries(self) -> dict[str, str]:
        """The entries as text, by their names: {"M11": "ZZ1 + ZZ2 + ..."}.

        Those that are zero, too.
        """
        write = Language("text", self.digits).write
        return {
            label.text: write(value)
            for each in self.results
            for label, value in zip(each.labels, each.values)
        }

    def __str__(self) -> str:
        return self.text().rstrip()

    def __repr__(self) -> str:
        return (
            f"Formulas({self.what} of {visible(self.robot)!r}: {self.form}, {len(self.lines)} "
            "definitions)"
        )

    def _repr_latex_(self) -> str:
        return f"$$\n{self._display()}\n$$"

    def _repr_markdown_(self) -> str:
        return self.markdown()

    # ---------------------------------------------------------------- formats

    def text(self) -> str:
        """Return plain text: a line for each definition and entry.

        Factors stand side by side, powers are raised.
        """
        language = Language("text", self.digits)
        lines = [f"{self.what} of {visible(self.robot)}", ""]
        for names, expression in self._equations():
            head = " = ".join(name.text for name in names)
            parts = list(_wrapped(language.terms(expression), _WIDTH - len(head) - 3))
            lines += [
                f"{head} = {parts[0]}",
                *(f"{' ' * (len(head) + 1)}{part}" for part in parts[1:]),
            ]
        lines += self._remarks()
        lines += ["", "where"]
        width = max((len(each.symbol.text) for each in self.meanings), default=0)
        for each in self.meanings:
            value = "" if each.value is None else f": {plain_number(each.value, 10)}"
            lines.append(f"  {each.symbol.text:{width}}  {visible(each.words)}{value}")
        return "\n".join(lines) + "\n"

    def latex(self, document: bool = False) -> str:
        r"""Return LaTeX that needs the package amsmath.

        `document` adds what makes it a document of its own.
        """
        lines = [
            r"% needs \usepackage{amsmath}",
            rf"\paragraph{{\texttt{{{escape_latex(self.what)}}} of {escape_latex(self.robot)}}}",
            r"{\allowdisplaybreaks",
            r"\begin{align*}",
            self._aligned(),
            r"\end{align*}}",
            *(escape_latex(remark) for remark in self._remarks() if remark),
            "Here " + "; ".join(self._described(each) for each in self.meanings) + "."
            if self.meanings
            else "",
        ]
        text = "\n".join(line for line in lines if line) + "\n"
        if not document:
            return text
        head = [r"\documentclass{article}", r"\usepackage{amsmath}", r"\begin{document}"]
        return "\n".join([*head, text + r"\end{document}"]) + "\n"

    def markdown(self) -> str:
        """Return Markdown with formulas between double dollars, as GitHub, MkDocs and notebooks
        typeset them.
        """
        lines = [
            f"### {_markdown(self.what)} of {_markdown(self.robot)}",
            "",
            "$$",
            self._display(),
            "$$",
            "",
        ]
        lines += [f"{_markdown(remark)}\n" for remark in self._remarks() if remark]
        lines += ["| symbol | meaning | value |", "|---|---|---:|"]
        for each in self.meanings:
            value = "" if each.value is None else plain_number(each.value, 10)
            lines.append(f"| ${each.symbol.latex}$ | {_markdown(each.words)} | {value} |")
        return "\n".join(lines) + "\n"

    def sympy(self) -> str:
        """Return a Python program that defines the results as sympy matrices, numbers with all
        digits.
        """
        language = Language("sympy")
        names = [each.symbol.text for each in self.meanings]
        lines = [
            f"# {safe_comment(self.what)} of {safe_comment(self.robot)}",
            "from sympy import Matrix, atan2, cos, sign, sin, sqrt, symbols",
            "",
            *(f'{name} = symbols("{name}", real=True)' for name in names),
            "values = {"
            + ", ".join(
                f"{name}: {value!r}" for name, value in self.values.items() if name in names
            )
            + "}",
            "",
            *(f"{own.text} = {language.write(expression)}" for own, expression in self.lines),
        ]
        for result in self.results:
            texts = [language.write(value) for value in result.values]
            if not result.shape:
                lines.append(f"{result.name.text} = {texts[0]}")
                continue
            width = result.shape[1] if len(result.shape) > 1 else 1
            rows = [texts[start : start + width] for start in range(0, len(texts), width)]
            inner = "".join(f"    [{', '.join(row)}],\n" for row in rows)
            lines.append(f"{result.name.text} = Matrix([\n{inner}])")
        return "\n".join(lines) + "\n"

    def to(self, format: str) -> str:
        """Return the formulas in one of FORMATS; LaTeX as a part of a document."""
        if format not in FORMATS:
            raise UnknownName("format", format, FORMATS)
        text: str = getattr(self, format)()
        return text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file whose ending says the format.

        .txt, .tex (a whole document), .md or .py (sympy).
        """
        ending = Path(path).suffix
        format = next((name for name, own in FORMATS.items() if own == ending), None)
        if format is None:
            raise MinidynError(
                f"{path}: the ending says the format; expected one of {', '.join(FORMATS.values())}"
            )
        text = self.latex(document=True) if format == "latex" else self.to(format)
        write_atomically(Path(path), text.encode())

    # ---------------------------------------------------------------- parts

    def _equations(
        self, skip: Sequence[Entries] = ()
    ) -> Iterator[tuple[tuple[Symbol, ...], Expression]]:
        """Give (names of equal value, expression) of all definitions and of the entries that are
        not zero.
        """
        for own, expression in self.lines:
            yield (own,), expression
        for result in self.results:
            if result in skip:
                continue
            n = result.shape[0] if result.shape else 1
            for place, (label, value) in enumerate(zip(result.labels, result.values)):
                row, column = divmod(place, n)
                if (value == ZERO and result.shape) or (self.symmetric and column < row):
                    continue
                same = self.symmetric and column > row
                yield (label, result.labels[column * n + row]) if same else (label,), value

    def _remarks(self) -> list[str]:
        remarks = (
            [f"{'; '.join(self.legend)}; x, y, z in the link's own frame."] if self.legend else []
        )
        if any(value == ZERO for result in self.results if result.shape for value in result.values):
            remarks.append("Entries that are not listed are zero.")
        return [text for remark in remarks for text in ("", remark)]

    def _described(self, each: Meaning) -> str:
        equals = (
            "" if each.value is None else f" = {Language('latex', 10).write(number(each.value))}"
        )
        return f"${each.symbol.latex}{equals}$ {escape_latex(each.words)}"

    def _display(self) -> str:
        return f"\\begin{{aligned}}\n{self._aligned()}\n\\end{{aligned}}"

    def _aligned(self) -> str:
        r"""Return the rows of an aligned environment, `name &= terms \\`.

        Small matrices as a whole.
        """
        if self.typeset:
            return " \\\\\n".join(self.typeset)
        language = Language("latex", self.digits)
        matrices = [
            result for result in self.results if self.form == "closed" and self._is_small(result)
        ]
        rows = []
        for names, expression in self._equations(matrices):
            terms = language.terms(expression)
            lengths = [len(term) for term in Language("text", self.digits).terms(expression)]
            head = " = ".join(name.latex for name in names)
            parts = list(_wrapped(terms, _WIDTH, lengths))
            rows.append(f"{head} &= " + " \\\\\n&\\quad ".join(parts))
        for result in matrices:
            width = result.shape[1]
            cells = [language.write(value) for value in result.values]
            lines = [
                " & ".join(cells[start : start + width]) for start in range(0, len(cells), width)
            ]
            inner = " \\\\\n".join(lines)
            rows.append(f"{result.name.latex} &= \\begin{{bmatrix}}\n{inner}\n\\end{{bmatrix}}")
        return " \\\\\n".join(rows)

    def _is_small(self, result: Entries) -> bool:
        if len(result.shape) != 2 or result.shape[1] > 4:
            return False
        language, width = Language("text", self.digits), result.shape[1]
        texts = [language.write(value) for value in result.values]
        return all(
            sum(map(len, texts[k : k + width])) <= _MATRIX for k in range(0, len(texts), width)
        )


def _wrapped(
    terms: Sequence[str], width: int, lengths: Sequence[int] | None = None
) -> Iterator[str]:
    """Give the terms of a sum in lines of so many characters; `lengths` are how long they look."""
    line: list[str] = []
    size = 0
    for term, length in zip(terms, lengths or [len(term) for term in terms]):
        if line and size + length + 1 > width:
            yield " ".join(line)
            line, size = [], 0
        line.append(term)
        size += length + 1
    yield " ".join(line)


def _markdown(text: str) -> str:
    return markdown_cell(text).replace("$", r"\$").replace("_", r"\_")
