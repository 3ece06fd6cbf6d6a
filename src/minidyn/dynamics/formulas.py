"""A robot's functions recorded on symbols.

Lengths, gravity and parameters by name, to be read instead of computed. `symbolic_function` records
any function of a robot so; `named_lengths` gives every length of a robot a symbol. What is made of
the recording for people stands in `minidyn.codegen.formulas`; polynomials of a regressor, to
compare exactly, are here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.kernel import regressor_form, require_robot
from minidyn.dynamics.papers.sixteen import sixteen_layout
from minidyn.dynamics.record import WHAT, build, lifted, require_formulas
from minidyn.dynamics.tree import NamedLengths
from minidyn.dynamics.vectors import Scalar
from minidyn.graph.function import Function, safe_identifier
from minidyn.graph.node import Node
from minidyn.graph.polynomial import Polynomial, expand
from minidyn.graph.scalar import Graph
from minidyn.model.geometry import Step, Steps, is_right
from minidyn.model.robot import Robot
from minidyn.text import new_name

_MDH = re.compile(
    r"(rz)?(tz)?(rx)?(tx)?(rz|tz)*"
)  # the order of an mDH row: gamma b alpha a theta d
ANGLES = ("alpha", "theta", "gamma")
"""Letters of angles that have symbols."""
NOTED = "noted"
"""Name of the result that holds what the recursions noted on their way."""


@dataclass(frozen=True)
class Symbolic:
    """A function recorded on symbols."""

    function: Function  # its results, and one more (NOTED) with the links' quantities
    symbols: dict[str, list[str]]  # for each argument the names of its scalars
    noted: list[tuple[str, int, int]]  # of each scalar of NOTED: quantity, link, place in it


class _Symbols(NamedLengths):
    """Lengths and the strength of gravity are symbols; what recursions note is kept."""

    def __init__(self, lengths: dict[str, Node], g: Node, strength: float) -> None:
        super().__init__(lengths)
        self._g, self._strength = g, strength
        self.heard: list[tuple[str, int, int, Node]] = []

    def gravity(self, component: float) -> Scalar:
        return component / self._strength * self._g if self._strength else component

    def note(self, quantity: str, link: int, values: Sequence[Scalar]) -> None:
        nodes = [
            (place, value)
            for place, value in enumerate(values)
            if isinstance(value, Node) and value.value is None
        ]
        self.heard += [(quantity, link, place, value) for place, value in nodes]


def symbolic_function(
    robot: Robot,
    what: str,
    *,
    names: Sequence[str] = (),
    values: Sequence[float | None] = (),
    columns: Sequence[int] | None = None,
    combine: Array | None = None,
    link: str | int | None = None,
) -> Symbolic:
    """Record a robot's function with symbols for its lengths (those that have one), gravity and
    parameters.

    Args:
        robot: The robot.
        what: One of its functions (`record.WHAT`).
        names: Names of the parameters: standard ones, or base parameters where `columns` are given.
        values: The number of each, None: a symbol.
        columns: The kept standard columns of base parameters.
        combine: How kept columns are combined, see `record`.
        link: For kinematics, the link or frame.

    Raises:
        Unsupported: For a robot with loops that must be solved for.
    """
    require_formulas(
        robot,
        "its formulas are not known: give formulas of the active joints in the robot's file, or "
        "take robot.open_loops()",
    )
    graph = Graph()
    wanted = WHAT[what]
    symbols: dict[str, list[str]] = {
        "parameters": []
    }  # the first group: the others' ranks count on it
    phi: list[Scalar] = []
    if wanted.reads(robot):
        shown = [name for name, value in zip(names, values) if value is None]
        nodes = dict(zip(shown, graph.inputs("parameters", len(shown))))
        symbols["parameters"] = shown
        phi = [nodes[name] if value is None else value for name, value in zip(names, values)]
        if columns is not None and wanted.parameters:
            phi = lifted(robot, columns, combine, phi)
    steps = [step for joint in robot.joints for step in (*joint.before, *joint.after)] + list(
        robot.base
    )
    used = {step.symbol for step in steps if not step.is_turn}
    lengths = [name for name, _ in robot.symbols if name in used] or sorted(used - {""})
    symbols |= {"lengths": lengths, "g": ["g"]}
    numbers = _Symbols(
        dict(zip(lengths, graph.inputs("lengths", len(lengths)))),
        graph.inputs("g", 1)[0],
        float(np.linalg.norm(robot.gravity)),
    )
    inputs = {name: graph.inputs(name, robot.n) for name in wanted.arguments}
    symbols |= {name: [f"{name}{k + 1}" for k in range(robot.n)] for name in inputs}
    parameters = wanted.columns or wanted.subset
    result = build(
        robot,
        what,
        inputs,
        phi,
        columns if parameters else None,
        combine if parameters else None,
        link,
        numbers,
    )
    results = dict(result) if isinstance(result, dict) else {wanted.result: result}
    function = graph.function(what, results | {NOTED: [node for *_, node in numbers.heard]})
    return Symbolic(
        function, symbols, [(quantity, link, place) for quantity, link, place, _ in numbers.heard]
    )


def named_lengths(
    robot: Robot, reserved: Iterable[str] = (), angles: bool = False, safe_names: bool = True
) -> Robot:
    """Return the robot with a symbol for every length.

    a2, d3 of an mDH row, x2, y2, z2 of another placement. Symbols that the robot's file gives stay,
    where they can be written down anywhere; others become safe names, unlike those `reserved` and
    all that formulas use. With `angles`, angles of mDH rows that are not right have symbols, too:
    alpha2, theta3, gamma4. Without `safe_names` the file's symbols stay as they are.
    """
    taken = {
        "g",
        "Matrix",
        "symbols",
        "values",
        "sign",
        *reserved,
        *robot.layout.names,
        *sixteen_layout(robot).names,
    }
    taken |= {
        f"{letter}{k + 1}"
        for letter in ("q", "dq", "ddq", "dqr", "ddqr", "tau", "s", "c")
        for k in range(99)
    }
    safe = {name: name for name, _ in robot.symbols}
    if safe_names:
        safe = {name: new_name(safe_identifier(name), taken) for name in safe}
    taken |= set(safe)
    values = {safe[name]: value for name, value in robot.symbols}

    def named(steps: Steps, letters: Sequence[str], number: int) -> Steps:
        made = []
        for step, letter in zip(steps, letters):
            if step.is_turn and (not angles or letter not in ANGLES or is_right(step.value)):
                made.append(step)
                continue
            symbol, factor = step.symbol, step.factor
            if symbol and symbol not in safe:  # a name without an entry in the file's table
                safe[symbol] = new_name(safe_identifier(symbol), taken) if safe_names else symbol
                values[safe[symbol]] = step.value / factor if factor else 0.0
            if not symbol:
                while f"{letter}{number}" in taken:
                    letter += letter[-1]
                symbol, factor = new_name(f"{letter}{number}", taken), 1.0
                safe[symbol], values[symbol] = symbol, step.value
            made.append(Step(step.kind, step.value, safe[symbol], factor))
        return tuple(made)

    rows = ["".join(step.kind for step in joint.before) for joint in robot.joints]
    mdh = all(_MDH.fullmatch(row) for row in rows) and not any(
        joint.after for joint in robot.joints
    )
    joints = tuple(
        replace(
            joint,
            before=named(
                joint.before, _letters(joint.before) if mdh else _along(joint.before, "xyz"), number
            ),
            after=named(joint.after, _along(joint.after, "uvw"), number),
        )
        for number, joint in enumerate(robot.joints, 1)
    )
    base = named(robot.base, _along(robot.base, "xyz"), 0)
    loops = tuple(
        replace(
            loop,
            steps_a=named(
                loop.steps_a, [f"a{letter}" for letter in _along(loop.steps_a, "xyz")], number
            ),
            steps_b=named(
                loop.steps_b, [f"b{letter}" for letter in _along(loop.steps_b, "xyz")], number
            ),
        )
        for number, loop in enumerate(robot.loops, 1)
    )
    return replace(robot, joints=joints, base=base, loops=loops, symbols=tuple(values.items()))


def _along(steps: Steps, letters: str) -> list[str]:
    return [letters[step.axis] for step in steps]


def _letters(steps: Steps) -> list[str]:
    """Return a and d of an mDH row for shifts along x and z, alpha and theta for turns.

    b and gamma for those along z before those of x.
    """
    x = next((place for place, step in enumerate(steps) if step.axis == 0), 0)
    along = [
        "a" if step.axis == 0 else "b" if place < x else "d" for place, step in enumerate(steps)
    ]
    turns = {"a": "alpha", "b": "gamma", "d": "theta"}
    return [turns[letter] if step.is_turn else letter for step, letter in zip(steps, along)]


def regressor_polynomials(
    robot: Robot,
    *,
    parametrization: str = "standard",
    form: str = "newton_euler",
    columns: Sequence[str] | None = None,
) -> list[list[Polynomial]]:
    """Return the regressor as polynomials in its lengths, angles, speeds and accelerations.

    A row for each joint. `str` writes one, as in "l1² ddq1 + l1 g c1": s1, c1 and c12 are sines and
    cosines of q1 and of q1 + q2, g is the strength of gravity, lengths have the symbols of the
    robot's file. They are brought to one shape, so that those of both forms can be compared exactly
    (`equals`).

    Args:
        robot: The robot.
        parametrization: "standard" or "lumeng16".
        form: "newton_euler" or "lagrange".
        columns: Names of the columns that are wanted; None: all.

    Raises:
        Unsupported: For a robot with loops that must be solved for, or whose formulas are too long
            to be read.
    """
    what = regressor_form(parametrization, form)
    layout = sixteen_layout(robot) if WHAT[what].sixteen else robot.layout
    chosen = None if columns is None else layout.indices(columns)
    found = symbolic_function(
        robot, what, names=robot.layout.names, values=[None] * len(robot.layout), columns=chosen
    )
    flat = expand(replace(found.function, outputs=found.function.outputs[:1]), found.symbols)[0]
    width = len(flat) // robot.n
    return [flat[row * width : (row + 1) * width] for row in range(robot.n)]


def regressor_formulas(
    robot: Robot,
    *,
    parametrization: str = "standard",
    form: str = "newton_euler",
    columns: Sequence[str] | None = None,
) -> list[list[Polynomial]]:
    """Deprecated: use `md.formulas(robot, "regressor")`.

    The regressor as polynomials, a row for each joint.

    Args:
        robot: The robot.
        parametrization: "standard" or "lumeng16".
        form: "newton_euler" or "lagrange".
        columns: Names of the columns that are wanted; None: all.

    Raises:
        Unsupported: For a robot with loops that must be solved for, or whose formulas are too long
            to be read.
    """
    require_robot(robot, "regressor_formulas")
    warnings.warn(
        'md.regressor_formulas is now md.formulas(robot, "regressor")',
        DeprecationWarning,
        stacklevel=2,
    )
    return regressor_polynomials(robot, parametrization=parametrization, form=form, columns=columns)
