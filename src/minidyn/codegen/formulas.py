"""A robot's functions as formulas for people.

`md.formulas` in text, LaTeX, Markdown and Python for sympy. Small robots give closed expressions,
brought to one shape and gathered: the inertia matrix of a planar arm as books print it. Larger ones
give a listing: sines and cosines, quantities of the links as the recursions meet them (angular
velocities, forces, composite bodies), then the entries. Lengths are symbols, with their values
beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.printing.relations import Relation, RelationTerm, is_itself, latex_rows
from minidyn.base.printing.symbols import COS, SIN, LengthPolynomial
from minidyn.codegen.expressions import (
    Expression,
    Line,
    Symbol,
    closed,
    joints_behind,
    latex_name,
    listing,
    minus,
    number,
    product,
    symbol,
    total,
)
from minidyn.codegen.formula_sheet import Entries, Formulas, Meaning
from minidyn.dynamics.formulas import ANGLES, named_lengths, symbolic_function
from minidyn.dynamics.kernel import NEEDED, require_own, require_robot
from minidyn.dynamics.papers.sixteen import sixteen_layout
from minidyn.dynamics.record import WHAT, without_unknowns
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.graph.polynomial import Atom, expand
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import Robot
from minidyn.text import new_name

RELATIONS = "relations"
FORMS = ("auto", "closed", "listing")
PARAMETERS = ("symbols", "nonzero", "own")
_READABLE = 40  # terms of one entry that are still read as a formula
_STEPS = 500  # steps of a recorded function that may become closed formulas without being asked for
_DIGIT = 9  # joints whose numbers have one digit, so that c12 is the cosine of q1 + q2

_QUANTITIES = {
    "w": (r"\omega", "angular velocity of a link"),
    "dw": (r"\dot{\omega}", "its angular acceleration"),
    "v": ("v", "velocity of its origin"),
    "a": ("a", "acceleration of its origin, minus gravity"),
    "f": ("f", "force on it and all it carries"),
    "n": ("n", "moment of these about its origin"),
}
_COMPOSITE = "parameters of a link with all it carries, as one rigid body"


def formulas(
    robot: Robot,
    what: str,
    *,
    base: BaseMap | None = None,
    parameters: str = "symbols",
    form: str = "auto",
    columns: Sequence[str] | None = None,
    link: str | int | None = None,
    digits: int = 6,
) -> Formulas:
    """Return a function of a robot as formulas to be read, typeset or put into sympy.

    Joints are q1, q2, ... in the order of `robot.joint_names`, their speeds dq1, accelerations
    ddq1; s2, c2, c23 are sines and cosines of q2 and of q2 + q3; g is the strength of gravity.
    Lengths have the symbols of the robot's file, others are named a2, d3 (mDH) or x2, y2, z2;
    `values` has their numbers.

    Args:
        robot: The robot.
        what: "inertia_matrix", "coriolis_matrix", "gravity_torque", "inverse_dynamics", "energy",
            "regressor", "base_regressor", "slotine_li_regressor" or any other function that
            `md.compile` takes, or "relations": each base parameter as a combination of standard
            ones.
        base: A base map: the formulas are then in base parameters. "base_regressor" and "relations"
            find one.
        parameters: "symbols", "nonzero" (those that the robot's file says are zero are left out) or
            "own" (numbers).
        form: "closed", "listing" with named intermediate values, or "auto": closed where that can
            be read.
        columns: For regressors, names of the columns that are wanted; None: all.
        link: For kinematics, the link or frame; None: the last link.
        digits: Digits of numbers in text, LaTeX and Markdown.

    Raises:
        Unsupported: For loops that must be solved for, and for closed formulas that are too long to
            be read.

    Example:
        >>> import minidyn as md
        >>> arm = md.Robot.from_mdh("RR", a=[0, 0.5])
        >>> print(md.formulas(arm, "inertia_matrix", base=md.base_parameters(arm)).text().splitlines()[4])
        M11 = ZZR1 + ZZ2 + 2 MX2 a2 c2 - 2 MY2 a2 s2

    Implements: LuMeng1993 eq. (61), corrected, for every robot whose formulas can be written down.
    """  # noqa: E501
    require_robot(robot, "formulas")
    for word, known, kind in (
        (what, (*WHAT, RELATIONS), "function"),
        (form, FORMS, "form of formulas"),
    ):
        if word not in known:
            raise UnknownName(kind, word, known)
    if parameters not in PARAMETERS:
        raise UnknownName("way to write parameters", parameters, PARAMETERS)
    reserved = () if base is None else base.names
    named = named_lengths(robot, reserved, angles=what == RELATIONS)
    if what == RELATIONS:
        return _relations(robot, named, base, digits)
    return _Writer(robot, named, what, base, parameters, columns, link).formulas(form, digits)


# -------------------------------------------------------------------- relations


def _relations(robot: Robot, named: Robot, base: BaseMap | None, digits: int) -> Formulas:
    found = base_parameters(named) if base is None else replace(base, robot=named)
    symbols = {
        name: Symbol(name, latex_name(name))
        for name in (*robot.layout.names, *dict(named.symbols), *found.names)
    }
    values, labels = [], []
    for relation in found.relations():
        label = Symbol(relation.name, latex_name(relation.name))
        if is_itself(relation):
            continue
        labels.append(label)
        values.append(_combination(relation, symbols))
    used = {each.text for value in values for each in value.symbols}
    meanings = [
        *(
            Meaning(symbols[name], "angle, rad" if name.startswith(ANGLES) else "length, m", value)
            for name, value in named.symbols
            if name in used
        ),
        *_parameter_meanings(robot, [name for name in robot.layout.names if name in used], symbols),
    ]
    name = Symbol("beta", r"\beta")
    entries = Entries(name, tuple(labels), (len(labels),), tuple(values))
    return Formulas(
        robot.name,
        RELATIONS,
        "closed",
        (),
        (entries,),
        tuple(meanings),
        digits=digits,
        typeset=tuple(latex_rows(found, digits)),
    )


def _combination(relation: Relation, symbols: dict[str, Symbol]) -> Expression:
    """Return the sum; parameters with the same coefficient, up to sign, stand together in
    brackets.
    """
    groups: dict[Expression, list[tuple[float, Expression]]] = {}
    for term in relation.terms:
        coefficient = _coefficient(term, symbols)
        sign = -1.0 if coefficient.kind == "minus" else 1.0
        size = coefficient.args[0] if sign < 0 else coefficient
        groups.setdefault(size, []).append((sign, symbol(symbols[term.parameter])))
    found = []
    for size, members in groups.items():
        first = members[0][0]
        inner = total([product([number(sign * first), own]) for sign, own in members])
        found.append(product([number(first), inner, size]))
    return total(found)


def _coefficient(term: RelationTerm, symbols: dict[str, Symbol]) -> Expression:
    return number(term.value) if term.polynomial is None else _in_lengths(term.polynomial, symbols)


def _in_lengths(polynomial: LengthPolynomial, symbols: dict[str, Symbol]) -> Expression:
    above = total(
        [
            product([number(x), *(_factor(name, symbols) for name in sorted(names))])
            for x, names in sorted(polynomial.terms, key=lambda pair: pair[0] < 0)
        ]
    )
    if polynomial.divisor is None:
        return above
    below = _in_lengths(polynomial.divisor, symbols)
    if above.kind == "minus":  # the sign stands in front of the fraction
        return minus(Expression("div", (above.args[0], below)))
    return Expression("div", (above, below))


def _factor(name: str, symbols: dict[str, Symbol]) -> Expression:
    """Return a length, or sine or cosine of an angle."""
    for prefix in (COS, SIN):
        if name.startswith(prefix):
            own = symbol(symbols[name.removeprefix(prefix)])
            return Expression(prefix.strip(), (own,))
    return symbol(symbols[name])


def _parameter_meanings(
    robot: Robot, names: Iterable[str], symbols: dict[str, Symbol]
) -> list[Meaning]:
    layout = robot.layout
    columns = [layout.column(name) for name in names]
    owners = [
        robot.link_names[c.joint] if c.is_inertial else robot.joints[c.joint].name for c in columns
    ]
    return [
        _known(symbols[column.name], f"parameter of {owner}", float(robot.parameters[column.index]))
        for column, owner in zip(columns, owners)
    ]


def _known(name: Symbol, words: str, value: float) -> Meaning:
    return Meaning(name, f"{words}, unknown") if math.isnan(value) else Meaning(name, words, value)


# -------------------------------------------------------------------- functions


class _Writer:
    """The names of one request, and the formulas that they make."""

    def __init__(
        self,
        robot: Robot,
        named: Robot,
        what: str,
        base: BaseMap | None,
        parameters: str,
        columns: Sequence[str] | None,
        link: str | int | None,
    ) -> None:
        self.robot, self.named, self.what, self.base = robot, named, what, base
        wanted = WHAT[what]
        of_columns = wanted.columns or wanted.subset
        if columns is not None and (not wanted.subset or base is not None):
            raise MinidynError(f"{what}: columns= chooses columns of a regressor without base=")
        if wanted.columns and base is None:
            self.base = base = base_parameters(robot)
        if base is not None and not (of_columns or wanted.parameters):
            raise MinidynError(f"{what} takes no base=")
        if base is not None and wanted.sixteen:
            raise Unsupported(f"{what}: base maps combine standard parameters; leave out base=")
        require_own(robot, base, what, NEEDED.get(what, "torque"))
        layout = sixteen_layout(robot) if wanted.sixteen else robot.layout
        self.columns: tuple[str, ...] = ()
        if of_columns:
            self.columns = (
                base.names
                if base is not None
                else layout.names
                if columns is None
                else tuple(columns)
            )
        lifted = base is not None and wanted.parameters
        self.parameters = base.names if lifted and base is not None else robot.layout.names
        phi = own = robot.parameters
        if lifted and base is not None:  # NaN where a parameter that takes part is unknown
            own = np.array([row[row != 0.0] @ phi[row != 0.0] for row in base.matrix])
        self.own = dict(zip(self.parameters, own.tolist()))
        values: list[float | None] = [None] * len(self.parameters)
        if parameters == "nonzero":
            values = [0.0 if value == 0.0 else None for value in own]
        elif parameters == "own" and wanted.reads(robot):
            needed = (
                what if wanted.parameters else "gravity_torque"
            )  # of loads that friction grows with
            known = (
                base.values(phi)
                if lifted and base is not None
                else without_unknowns(robot, needed, phi)
            )
            values = list(known.tolist())
        indices = layout.indices(base.kept) if base is not None else None
        if columns is not None:
            indices = layout.indices(columns)
        self.symbolic = symbolic_function(
            named,
            what,
            names=self.parameters,
            values=values,
            columns=indices,
            combine=None if base is None else base.unmixing,
            link=link,
        )
        self.taken = {"Matrix", "symbols", "values"}.union(*self.symbolic.symbols.values())
        self.symbols = {name: Symbol(name, latex_name(name)) for name in self.taken}

    def formulas(self, form: str, digits: int) -> Formulas:
        results = self.symbolic.function.results[:-1]
        names = [self.new(result.name, latex_name(result.name)) for result in results]
        entries = None if form == "listing" else self.closed(form == "closed")
        lines, values, legend = (
            self.listed() if entries is None else (self.angles(entries), entries, [])
        )
        made = tuple(
            Entries(name, tuple(self.labels(name, result.shape)), result.shape, tuple(each))
            for name, result, each in zip(names, results, values)
        )
        return Formulas(
            self.robot.name,
            self.what,
            "listing" if entries is None else "closed",
            tuple(lines),
            made,
            tuple(self.meanings(lines, made)),
            symmetric=self.what == "inertia_matrix",
            digits=digits,
            legend=tuple(legend),
        )

    def new(self, wanted: str, latex: str) -> Symbol:
        """Return a symbol that nothing else has, in LaTeX as given unless its name was taken."""
        own = new_name(wanted, self.taken)
        return Symbol(own, latex if own == wanted else latex_name(own))

    def labels(self, name: Symbol, shape: tuple[int, ...]) -> Iterator[Symbol]:
        """Give the names of a result's scalars: M12, tau1, Y1_ZZ2."""
        if not shape:
            yield name
            return
        places = [[int(k) + 1 for k in place] for place in np.ndindex(shape)]
        if self.columns and shape[-1] == len(self.columns):
            for *row, column in places:
                parameter = self.columns[column - 1]
                text, latex = (
                    [*map(str, row), shown] for shown in (parameter, latex_name(parameter))
                )
                yield Symbol(f"{name.text}{'_'.join(text)}", f"{name.latex}_{{{','.join(latex)}}}")
            return
        plain = [name.text + "".join(map(str, place)) for place in places]
        apart = max(shape) > _DIGIT or not self.taken.isdisjoint(
            plain
        )  # M11 may be the mass of link 11
        for place in places:
            shown, typeset = ((mark if apart else "").join(map(str, place)) for mark in "_,")
            yield Symbol(f"{name.text}{'_' if apart else ''}{shown}", f"{name.latex}_{{{typeset}}}")

    # ---------------------------------------------------------------- closed

    def closed(self, asked: bool) -> list[list[Expression]] | None:
        """Return the entries as closed expressions.

        None where they would be too long and were not asked for.
        """
        function = self.symbolic.function
        live = replace(function, outputs=function.outputs[:-1], results=function.results[:-1])
        if self.robot.n > _DIGIT:
            if asked:
                raise Unsupported(
                    f"closed formulas are for up to {_DIGIT} joints, {self.robot.name!r} has "
                    f"{self.robot.n}"
                )
            return None
        if not asked and len(function.tape) > _STEPS:
            return None
        try:
            expanded = expand(live, self.symbolic.symbols)
        except Unsupported:
            if asked:
                raise
            return None
        if not asked and any(
            len(each.terms) > 8 * _READABLE for result in expanded for each in result
        ):
            return None
        if not asked and any(
            len(each.gathered()) > _READABLE for result in expanded for each in result
        ):
            return None
        return [[closed(each, self.atom) for each in result] for result in expanded]

    def atom(self, atom: Atom) -> Symbol:
        """Return the symbol of an atom: an input, or a sine or cosine such as c12."""
        if not atom.kind:
            return self.symbols[atom.name]
        key = f"{atom.kind} {atom.name}"
        if key not in self.symbols:
            self.symbols[key] = self.new(str(atom), f"{atom.kind}_{{{atom.name}}}")
        return self.symbols[key]

    def angles(self, entries: list[list[Expression]]) -> list[Line]:
        """Return the lines that define the sines and cosines that closed formulas use."""
        used = {each for result in entries for value in result for each in value.symbols}
        lines = []
        for key, own in self.symbols.items():
            kind, _, joints = key.partition(" ")
            if own in used and joints:
                angle = total([symbol(self.symbols[f"q{joint}"]) for joint in joints])
                lines.append(
                    (joints, kind, (own, Expression("cos" if kind == "c" else "sin", (angle,))))
                )
        return [line for *_, line in sorted(lines, key=lambda each: (len(each[0]), each[:2]))]

    # ---------------------------------------------------------------- listing

    def listed(self) -> tuple[list[Line], list[list[Expression]], list[str]]:
        """Return (lines, entries, what the links' quantities are)."""
        function, symbolic = self.symbolic.function, self.symbolic
        inputs = {
            (place, k): self.symbols[name]
            for place, argument in enumerate(function.arguments)
            for k, name in enumerate(symbolic.symbols[argument.name])
        }
        named: dict[int, tuple[Symbol, bool]] = {}
        kinds: dict[int, str] = {}
        for (quantity, link, place), output in zip(symbolic.noted, function.outputs[-1]):
            negative = function.tape[output].op == "neg"
            index = function.tape[output].args[0] if negative else output
            if index not in named and function.tape[index].op not in (
                "const",
                "input",
                "sin",
                "cos",
            ):
                named[index], kinds[index] = (
                    (self.quantity(quantity, link, place), negative),
                    quantity,
                )
        count = iter(range(1, len(function.tape) + 1))

        def other(index: int) -> Symbol:
            step = function.tape[index]
            if step.op in ("sin", "cos"):
                joints = joints_behind(function, index)
                if len(joints) == 1:
                    return self.new(
                        f"{step.op[0]}{joints[0] + 1}", f"{step.op[0]}_{{{joints[0] + 1}}}"
                    )
            number = next(count)
            return self.new(f"t{number}", f"t_{{{number}}}")

        lines, values = listing(function, len(function.results) - 1, inputs, named, other)
        shown = {own for own, _ in lines}
        heard = {kinds[index] for index, (own, _) in named.items() if own in shown}
        legend = [
            f"{quantity}: {words}"
            for quantity, (_, words) in _QUANTITIES.items()
            if quantity in heard
        ]
        if "composite" in heard:
            legend.append(f"XXc, ..., Mc: {_COMPOSITE}")
        return lines, values, legend

    def quantity(self, quantity: str, link: int, place: int) -> Symbol:
        """Return the name of a component of a link's quantity: w3x, XXc3."""
        if quantity == "composite":
            text, latex = (
                f"{STANDARD[place]}c{link + 1}",
                rf"\hat{{\mathrm{{{STANDARD[place]}}}}}_{{{link + 1}}}",
            )
        else:
            text, latex = (
                f"{quantity}{link + 1}{'xyz'[place]}",
                f"{_QUANTITIES[quantity][0]}_{{{link + 1}{'xyz'[place]}}}",
            )
        return self.new(text, latex)

    # ---------------------------------------------------------------- meanings

    def meanings(self, lines: Sequence[Line], results: Sequence[Entries]) -> Iterator[Meaning]:
        """Give the symbols that are used, and what they are."""
        expressions = [value for _, value in lines] + [
            value for result in results for value in result.values
        ]
        used = {each for expression in expressions for each in expression.symbols}
        names = self.symbolic.symbols
        for argument, words in (
            ("q", "position of"),
            ("dq", "speed of"),
            ("ddq", "acceleration of"),
            ("dqr", "reference speed of"),
            ("ddqr", "reference acceleration of"),
            ("tau", "torque or force of"),
        ):
            for name, joint in zip(names.get(argument, ()), self.robot.joint_names):
                if self.symbols[name] in used:
                    yield Meaning(self.symbols[name], f"{words} {joint}")
        lengths = dict(self.named.symbols)
        for name in names["lengths"]:
            if self.symbols[name] in used:
                yield Meaning(self.symbols[name], "length, m", lengths.get(name))
        if self.symbols["g"] in used:
            yield Meaning(
                self.symbols["g"],
                "strength of gravity, m/s²",
                float(np.linalg.norm(self.robot.gravity)),
            )
        shown = [name for name in names["parameters"] if self.symbols[name] in used]
        if self.parameters == self.robot.layout.names:
            yield from _parameter_meanings(self.robot, shown, self.symbols)
        else:
            yield from (
                _known(self.symbols[name], "base parameter", self.own[name]) for name in shown
            )
