"""A recorded function: a straight-line program over scalars, and nothing else.

This is what the recorder (:mod:`minidyn.graph.scalar`) produces and what every target reads. It is a frozen value,
so it can be cached, compared and fingerprinted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

ARITY: dict[str, int] = {
    "const": 0,  # value: the number
    "input": 0,  # value: (argument index, element index)
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "neg": 1,
    "sqrt": 1,
    "sin": 1,
    "cos": 1,
    "sign": 1,  # -1, 0 or +1; NaN stays NaN
    "atan2": 2,
}
"""Operations an instruction may have, with the number of operands."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the function takes.

    Attributes:
        name: A safe C identifier.
        size: Number of scalars per sample.
        uniform: True where one value serves a whole batch (a parameter vector), so that what depends on it alone is
            computed once per call and not once per sample.
    """

    name: str
    size: int
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One array the function returns: a safe C identifier and the shape per sample (row-major)."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars per sample."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step: an operation of ARITY on earlier steps (by index), or a constant or an input."""

    op: str
    args: tuple[int, ...] = ()
    value: float | tuple[int, int] | None = None


@dataclass(frozen=True)
class Function:
    """A straight-line program: instructions in order, each using only earlier ones; no dead code.

    Attributes:
        name: A safe C identifier.
        arguments: What the function takes, in call order.
        results: What it returns, in order.
        tape: The instructions.
        outputs: For each result, the tape index of each of its scalars, row-major.
    """

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    tape: tuple[Instruction, ...]
    outputs: tuple[tuple[int, ...], ...]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything the function computes (hexadecimal, 16 digits)."""
        text = repr((self.name, self.arguments, self.results, self.tape, self.outputs))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Operations executed for one sample: mul, add (and subtract), div, sqrt, sincos (pairs), other.

        Negations are free (they are signs of the operation that uses them). What depends on uniform arguments
        alone is computed once per call and not counted. A sine and a cosine of one angle are one pair.
        """
        once = self.uniform_steps
        counts = {"mul": 0, "add": 0, "div": 0, "sqrt": 0, "sincos": 0, "other": 0}
        angles = set()
        for index, step in enumerate(self.tape):
            if index in once:
                continue
            if step.op in ("add", "sub"):
                counts["add"] += 1
            elif step.op in ("mul", "div", "sqrt"):
                counts[step.op] += 1
            elif step.op in ("sin", "cos"):
                angles.add(step.args[0])
            elif step.op in ("sign", "atan2"):
                counts["other"] += 1
        counts["sincos"] = len(angles)
        return counts

    @cached_property
    def uniform_steps(self) -> frozenset[int]:
        """Tape indices that depend on constants and uniform arguments alone."""
        once: set[int] = set()
        for index, step in enumerate(self.tape):
            if isinstance(step.value, tuple):  # an input
                if self.arguments[step.value[0]].uniform:
                    once.add(index)
            elif all(arg in once for arg in step.args):
                once.add(index)
        return frozenset(once)

    def __repr__(self) -> str:
        counts = self.counts
        return f"Function({self.name}: {counts['mul']} mul, {counts['add']} add, {len(self.tape)} steps)"
