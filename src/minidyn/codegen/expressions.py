"""Formulas to be written down.

Sums, products and calls of named symbols, in text, LaTeX and Python for sympy. An expression is a
small tree; `write` puts it down in one of three languages, which differ in how names, numbers,
products, powers and calls look and in nothing else. Expressions come from polynomials (closed
formulas) and from the steps of a recorded function (listings).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from minidyn.base.printing.relations import LATEX, escape_latex
from minidyn.graph.function import Function
from minidyn.graph.polynomial import Atom, Monomial, Polynomial

_POWERS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LATEX_CALLS = {"sign": r"\operatorname{sign}", "atan2": r"\operatorname{atan2}", "sqrt": r"\sqrt"}


@dataclass(frozen=True)
class Symbol:
    """A name: letters, digits and underscores for text and Python, and what LaTeX prints for it."""

    text: str
    latex: str


@dataclass(frozen=True)
class Expression:
    """A node of a formula.

    The kinds: "number" (value), "symbol" (symbol), "sum" and "product" (args), "minus" and "power"
    of one argument (value: the exponent), "div" of two, and calls: "sin", "cos", "sqrt", "sign",
    "atan2".
    """

    kind: str
    args: tuple[Expression, ...] = ()
    value: float = 0.0
    symbol: Symbol | None = None

    @property
    def symbols(self) -> Iterator[Symbol]:
        """All symbols in it, as often as they stand there."""
        if self.symbol is not None:
            yield self.symbol
        for each in self.args:
            yield from each.symbols


def number(value: float) -> Expression:
    """Return a number; a negative one as minus its size."""
    return (
        minus(Expression("number", value=-value))
        if value < 0
        else Expression("number", value=value)
    )


def symbol(name: Symbol) -> Expression:
    """Return a symbol."""
    return Expression("symbol", symbol=name)


def minus(one: Expression) -> Expression:
    """Return its negative; two signs are none, and that of a product or sum stands in front."""
    if one.kind == "minus":
        return one.args[0]
    if one.kind == "sum" and one.args[0].kind == "minus":
        return total([minus(each) for each in one.args])
    return Expression("minus", (one,))


def total(terms: Sequence[Expression]) -> Expression:
    """Return the sum; sums inside are opened, a term and its negative vanish."""
    flat: list[Expression] = []
    for term in terms:
        inner = term.args[0] if term.kind == "minus" else term
        if inner.kind == "sum":
            flat += [minus(each) if term.kind == "minus" else each for each in inner.args]
        elif inner != ZERO:
            flat.append(term)
    for term in flat.copy():
        if term in flat and minus(term) in flat:
            flat.remove(term)
            flat.remove(minus(term))
    return ZERO if not flat else flat[0] if len(flat) == 1 else Expression("sum", tuple(flat))


def product(factors: Sequence[Expression]) -> Expression:
    """Return the product: its sign in front, numbers first, equal factors as powers."""
    negative, coefficient = False, 1.0
    powers: dict[Expression, int] = {}
    waiting = list(factors)
    while waiting:
        factor = waiting.pop(0)
        if factor.kind == "minus":
            negative = not negative
            waiting.insert(0, factor.args[0])
        elif factor.kind == "product":
            waiting = [*factor.args, *waiting]
        elif factor.kind == "number":
            coefficient *= factor.value
        else:
            base, power = (
                (factor.args[0], int(factor.value)) if factor.kind == "power" else (factor, 1)
            )
            powers[base] = powers.get(base, 0) + power
    if coefficient == 0.0:
        return ZERO
    flat = [
        base if power == 1 else Expression("power", (base,), float(power))
        for base, power in powers.items()
    ]
    if coefficient != 1.0 or not flat:
        flat.insert(0, Expression("number", value=coefficient))
    made = flat[0] if len(flat) == 1 else Expression("product", tuple(flat))
    return minus(made) if negative else made


ZERO = Expression("number", value=0.0)


# -------------------------------------------------------------------- from polynomials


def closed(polynomial: Polynomial, name: Callable[[Atom], Symbol]) -> Expression:
    """Return a polynomial as an expression.

    Parameters with the same factor stand together in brackets. Atoms of rank below 1000 are
    parameters, of which each product has at most one.
    """
    terms = polynomial.gathered()
    if all(atom.rank < 4000 for term, _ in terms for atom, _ in term):  # no speeds: constants first
        terms.sort(
            key=lambda item: (
                max((atom.rank // 1000 for atom, _ in item[0]), default=-1),
                _ranks(item[0]),
            )
        )
    groups: dict[tuple[float, Monomial], list[tuple[Monomial, float]]] = {}
    for term, x in terms:
        rest = tuple(pair for pair in term if pair[0].rank >= 1000)
        own = tuple(pair for pair in term if pair[0].rank < 1000)
        key = (float(f"{abs(x):.12g}"), rest) if own and rest else (x, term)
        groups.setdefault(key, []).append((own, x) if own and rest else ((), x))

    def factors(term: Monomial) -> list[Expression]:
        return [factor for atom, power in term for factor in [_atom(atom, name)] * power]

    return total(
        [
            _shared([(x, factors(own)) for own, x in members], factors(rest))
            for (_, rest), members in groups.items()
        ]
    )


def _shared(
    members: Sequence[tuple[float, list[Expression]]], rest: list[Expression]
) -> Expression:
    """Return size (±a ± b) rest, for members ±size a, ±size b."""
    first = members[0][0]
    inner = total([product([number(1.0 if x * first > 0 else -1.0), *own]) for x, own in members])
    return product([number(first), inner, *rest])


def _ranks(term: Monomial) -> list[int]:
    return [atom.rank for atom, power in reversed(term) for _ in range(power)]


def _atom(atom: Atom, name: Callable[[Atom], Symbol]) -> Expression:
    if atom.call is None:
        return symbol(name(atom))
    what, operands = atom.call
    return Expression(what, tuple(closed(operand, name) for operand in operands))


# -------------------------------------------------------------------- from recorded functions

Line = tuple[Symbol, Expression]


def listing(
    function: Function,
    results: int,
    inputs: Mapping[tuple[int, int], Symbol],
    named: Mapping[int, tuple[Symbol, bool]],
    other: Callable[[int], Symbol],
) -> tuple[list[Line], list[list[Expression]]]:
    """Return a recorded function as lines `symbol = expression` and the scalars of its first
    results.

    A step is a line of its own where it has a name (`named`, by its place on the tape), is a sine
    or cosine, or is used more than once; all others stand where they are used. Where the flag
    beside a name is true the step is its negative. `inputs` names arguments' scalars, `other` makes
    further names.
    """
    outputs = function.outputs[:results]
    uses = [0] * len(function.tape)
    for index in {index for indices in outputs for index in indices}:
        uses[index] += 1
    for index in reversed(range(len(uses))):
        if uses[index]:
            for operand in function.tape[index].args:
                uses[operand] += 1
    lines: list[Line] = []
    values: list[Expression] = []
    for index, step in enumerate(function.tape):
        if not uses[index]:
            values.append(ZERO)  # of what is noted and not needed
            continue
        if isinstance(step.value, tuple):
            values.append(symbol(inputs[step.value]))
            continue
        if step.value is not None:
            values.append(number(float(step.value)))
            continue
        made = _step(step.op, [values[operand] for operand in step.args])
        trivial = (made.args[0] if made.kind == "minus" else made).kind in ("symbol", "number")
        if not trivial and (index in named or step.op in ("sin", "cos") or uses[index] > 1):
            own, negative = named[index] if index in named else (other(index), False)
            lines.append((own, minus(made) if negative else made))
            made = minus(symbol(own)) if negative else symbol(own)
        values.append(made)
    return lines, [[values[index] for index in indices] for indices in outputs]


def _step(op: str, operands: Sequence[Expression]) -> Expression:
    if op == "add":
        return total(operands)
    if op == "sub":
        return total([operands[0], minus(operands[1])])
    if op == "mul":
        return product(operands)
    return minus(operands[0]) if op == "neg" else Expression(op, tuple(operands))


# -------------------------------------------------------------------- languages


@dataclass(frozen=True)
class Language:
    """How expressions are written down."""

    name: str  # "text", "latex" or "sympy"
    digits: int = 6  # of numbers; sympy has all

    def write(self, one: Expression) -> str:
        """Return the text of an expression."""
        return self._write(one, 0)

    def terms(self, one: Expression) -> list[str]:
        """Return the terms of a sum, each with its sign, so that it may be broken between them."""
        args = one.args if one.kind == "sum" else (one,)
        texts = [self._write(each, 1) for each in args]
        return [
            texts[0],
            *(f"- {text[1:]}" if text.startswith("-") else f"+ {text}" for text in texts[1:]),
        ]

    def _write(self, one: Expression, level: int) -> str:
        """Return the text.

        Level 0 takes sums, 1 terms of a sum, 2 factors, 3 what may be raised to a power.
        """
        text, own = self._parts(one)
        return text if own >= level else self._bracket(text)

    def _parts(self, one: Expression) -> tuple[str, int]:
        latex, python = self.name == "latex", self.name == "sympy"
        if one.symbol is not None:
            return (one.symbol.latex if latex else one.symbol.text), 3
        if one.kind == "number":
            return self._number(one.value)
        if one.kind == "sum":
            return " ".join(self.terms(one)), 0
        if one.kind == "minus":
            return f"-{self._write(one.args[0], 2 if one.args[0].kind != 'product' else 1)}", 1
        if one.kind == "product":
            space = "*" if python else r" \, " if latex else " "
            return space.join(self._write(each, 2) for each in one.args), 2
        if one.kind == "power":
            base, power = self._write(one.args[0], 3), int(one.value)
            shown = (
                f"**{power}"
                if python
                else f"^{{{power}}}"
                if latex
                else str(power).translate(_POWERS)
            )
            return base + shown, 2
        if one.kind == "div":
            if latex:
                return rf"\frac{{{self.write(one.args[0])}}}{{{self.write(one.args[1])}}}", 2
            return f"{self._write(one.args[0], 3)}/{self._write(one.args[1], 3)}", 1
        inner = ", ".join(self.write(each) for each in one.args)
        if latex and one.kind == "sqrt":
            return rf"\sqrt{{{inner}}}", 3
        if latex:
            return rf"{_LATEX_CALLS.get(one.kind, f'{chr(92)}{one.kind}')}\left({inner}\right)", 2
        return f"{one.kind}({inner})", 3

    def _number(self, value: float) -> tuple[str, int]:
        if self.name == "sympy":
            return (str(int(value)) if value.is_integer() and value < 1e15 else repr(value)), 3
        text = f"{value:.{self.digits}g}"
        if self.name == "latex" and "e" in text:
            digits, _, power = text.partition("e")
            return rf"{digits} \cdot 10^{{{int(power)}}}", 2
        return text, 3

    def _bracket(self, text: str) -> str:
        return rf"\left({text}\right)" if self.name == "latex" else f"({text})"


_RATE = re.compile(r"(d*)q(r?)(\d+)")


def latex_name(name: str) -> str:
    r"""Return a parameter, length or coordinate as LaTeX prints it.

    (U_{1})_{33}, \mathrm{ZZ}_{1}, \dot{q}_{2}.
    """
    if match := _RATE.fullmatch(name):
        dots, reference, index = match.groups()
        letter = ("q", r"\dot{q}", r"\ddot{q}")[min(2, len(dots))]
        return rf"{letter}_{{{'r' if reference else ''}{index}}}"
    if match := re.fullmatch(r"tau(\d*)", name):
        return rf"\tau_{{{match[1]}}}" if match[1] else r"\tau"
    if re.fullmatch(r"[A-Za-z]", name):
        return name
    return (
        LATEX.parameter(name)
        if re.fullmatch(r"[A-Za-z]+\d+|U\d\d(_\d\d)?_\d+|k\d+[xyz]", name)
        else rf"\mathrm{{{escape_latex(name)}}}"
    )


def joints_behind(function: Function, index: int) -> list[int]:
    """Return the elements of q that a step depends on; [] where it depends on anything else too."""
    q = next(place for place, argument in enumerate(function.arguments) if argument.name == "q")
    found: set[int] = set()
    waiting = [index]
    while waiting:
        step = function.tape[waiting.pop()]
        if isinstance(step.value, tuple):
            if step.value[0] != q:
                return []
            found.add(step.value[1])
        waiting += step.args
    return sorted(found)
