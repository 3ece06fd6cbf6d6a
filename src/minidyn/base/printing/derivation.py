"""The derivation of a minimal set, joint by joint from the last link to the first, with symbols.

At each joint: mass m̂, first moment k and inertia U of what is constant in the composite body, the
rule's decision with its reason, and the combinations that it adds. At the end the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.closed_form.structure import Role
from minidyn.base.printing.relations import ASCII, LATEX, UNICODE, Alphabet, RelationTerm, sum_text
from minidyn.base.printing.symbols import constants_in_symbols
from minidyn.dynamics.formulas import named_lengths
from minidyn.model.geometry import TOLERANCE
from minidyn.text import markdown_cell, visible

if TYPE_CHECKING:
    from minidyn.model.robot import Robot

_U = ("U11", "U12", "U13", "U22", "U23", "U33")
_TURNING = (
    "it turns: of link {n} it hands down m̂, kz along its axis, and U22 twice across the axis "
    "(what its turning cannot change)"
)
_SLIDING = "it slides: it hands down everything but what the slide d changes"


@dataclass(frozen=True)
class Step:
    """One joint of a derivation.

    Attributes:
        number: Of the joint, from 1.
        reason: What the joint does, and what the rule says, as sentences.
        constants: (name, sum) of m̂, kx ... and U11 ... that are not zero.
        adds: (name, sum) of the combinations that it adds to the set.
    """

    number: int
    reason: tuple[str, ...]
    constants: tuple[tuple[str, tuple[RelationTerm, ...]], ...]
    adds: tuple[tuple[str, tuple[RelationTerm, ...]], ...]


@dataclass(frozen=True)
class Derivation:
    """How the minimal set of a robot follows. `str()` gives text.

    Attributes:
        robot: Name of the robot.
        steps: Joints from the last to the first.
        rank: Number of combinations.
        legend: Values of the symbols.
    """

    robot: str
    steps: tuple[Step, ...]
    rank: int
    legend: tuple[tuple[str, float], ...]

    def text(self, alphabet: Alphabet = UNICODE) -> str:
        """Return the derivation as text."""
        lines = [f"Minimal linear combinations of {visible(self.robot)}, from the last joint"]
        for step in self.steps:
            lines += ["", f"Joint {step.number}: {'. '.join(step.reason)}."]
            lines += [f"  {name} = {sum_text(terms, alphabet)}" for name, terms in step.constants]
            lines += [f"  + {name} = {sum_text(terms, alphabet)}" for name, terms in step.adds]
        count = sum(len(step.adds) for step in self.steps)
        lines += ["", f"The set has {count} combinations."]
        if self.legend:
            lines.append(", ".join(f"{visible(name)} = {value:.6g}" for name, value in self.legend))
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """Return the derivation as Markdown with formulas between dollars."""
        lines = [f"## Minimal linear combinations of {markdown_cell(self.robot)}"]
        for step in self.steps:
            lines += ["", f"### Joint {step.number}", "", f"{'. '.join(step.reason)}.", ""]
            lines += [f"$$\n\\begin{{aligned}}\n{_rows(step)}\n\\end{{aligned}}\n$$"]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        r"""Return the derivation as LaTeX that needs amsmath."""
        lines = [r"% needs \usepackage{amsmath}"]
        for step in self.steps:
            reason = ". ".join(step.reason)
            for letter, command in _LETTERS.items():
                reason = reason.replace(letter, command)
            lines += [rf"\paragraph{{Joint {step.number}}} {reason}.", r"{\allowdisplaybreaks"]
            lines += [r"\begin{align*}", _rows(step), r"\end{align*}}"]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()


_LETTERS = {"m̂": r"$\hat{m}$", "δ": r"$\delta$", "σ": r"$\sigma$", "κ": r"$\kappa$"}


def _rows(step: Step) -> str:
    rows = [f"{_latex_name(name)} &= {sum_text(terms, LATEX)}" for name, terms in step.constants]
    rows += [
        rf"\text{{adds }} {LATEX.parameter(name)} &= {sum_text(terms, LATEX)}"
        for name, terms in step.adds
    ]
    return " \\\\\n".join(rows)


def _latex_name(name: str) -> str:
    head, _, number = name.partition("_")
    return rf"\hat{{m}}_{{{number}}}" if head == "m̂" else f"({head[0]}_{{{number}}})_{{{head[1:]}}}"


def derivation(robot: Robot, tolerance: float = TOLERANCE) -> Derivation:
    """Return how the minimal set of a chain or tree follows, joint by joint, with symbols.

    Args:
        robot: A chain or tree of rotational and translational joints; other frames than modified
            Denavit-Hartenberg ones are changed first.
        tolerance: Axes that are special within this are exactly so.

    Example:
        print(derivation(md.load("scara")))

    Raises:
        Unsupported: Loops, or joints that follow others.

    Implements: Lin1994 eq. (21), (23), (25), Theorem 5 step by step.
    """
    changed = robot.mdh(tolerance).robot
    named = named_lengths(changed, angles=True)
    base = mlc_base(named, tolerance=tolerance)
    names = named.layout.names
    relations = {relation.name: relation.terms for relation in base.relations()}
    constants = constants_in_symbols(named)
    steps = []
    roles = base.structure.roles if base.structure is not None else ()
    for role, own in reversed(list(zip(roles, constants))):
        labels = [f"m̂_{role.number}", *(f"k{x}_{role.number}" for x in "xyz")]
        labels += [f"{u}_{role.number}" for u in _U]
        shown = [
            (
                label,
                tuple(RelationTerm(names[k], value, entry) for k, (value, entry) in row.items()),
            )
            for label, row in zip(labels, own)
            if row
        ]
        mine = [(name, terms) for name, terms in relations.items() if _number(name) == role.number]
        steps.append(Step(role.number, _reason(role), tuple(shown), tuple(mine)))
    return Derivation(robot.name, tuple(steps), base.rank, tuple(named.symbols))


def _number(name: str) -> int:
    digits = name.rpartition("_")[2] if "_" in name else name.strip("kxyzmIaFvcoKsu")
    return int("".join(c for c in digits if c.isdigit()))


def _reason(role: Role) -> tuple[str, ...]:
    said = [(_TURNING if role.turning else _SLIDING).format(n=role.number)]
    place = f"r = {role.r or 'none'}, s = {role.s or 'none'} on its path"
    if role.turning and role.s is not None:
        said.append(f"{place}: all of U11 - U22, U12, U13, U23, U33, kx, ky count")
    elif role.turning:
        said.append(f"{place}: U33 counts, and kx, ky where δ = 1; δ = {role.delta}, {role.reason}")
    elif role.sigma is not None:
        said.append(f"{place}: m̂ counts, and κ where σ = 1; σ = {role.sigma}, {role.reason}")
    else:
        said.append(f"{place}: m̂ counts" + (", and kx, ky, kz" if role.s is not None else ""))
    return tuple(said)


FORMATS: Sequence[str] = ("text", "ascii", "markdown", "latex")
"""How a derivation is written."""


def written(found: Derivation, style: str) -> str:
    """Return a derivation in one of FORMATS."""
    if style in ("text", "ascii"):
        return found.text(UNICODE if style == "text" else ASCII)
    return found.markdown() if style == "markdown" else found.latex()
