"""A recorded function seen as sums of terms: what passes on sums and on factors work with.

Additions on a tape stand in the order in which a recursion happened to make them. Here every value that is needed as
one number (a *root*: an operand of a product or of a sine, or a result) is the sum of *atoms*, which are the steps that
are not sums, each with a whole coefficient. What depends on uniform arguments alone is one atom, whatever its size, for
it costs nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

from minidyn.graph.derivative import OPERATIONS, close_graph, open_inputs
from minidyn.graph.function import Function
from minidyn.graph.scalar import Scalar

_SUMS = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}


class Forms:
    """The sums of a function; with `whole`, those that are used several times stay whole, as atoms."""

    def __init__(self, function: Function, whole: bool = False) -> None:
        self.function = function
        self.uniform = function.uniform_steps  # tape indices of what is computed once per call
        tape = function.tape
        often = Counter(index for step in tape for index in step.args)
        often.update(index for result in function.outputs for index in result)
        self.form: list[dict[int, int]] = []  # {atom: coefficient} of each step; uniform ones are atoms of their own
        for index, step in enumerate(tape):
            if index in self.uniform or step.op not in _SUMS:
                self.form.append({index: 1})
                continue
            found: dict[int, int] = {}
            for operand, sign_of in zip(step.args, _SUMS[step.op]):
                kept = whole and often[operand] > 1 and tape[operand].op in ("add", "sub")
                part = {operand: 1} if kept else self.form[operand]
                for atom, coefficient in part.items():
                    found[atom] = found.get(atom, 0) + sign_of * coefficient
            self.form.append({atom: coefficient for atom, coefficient in found.items() if coefficient})
        self.roots = self._find_roots()  # what is needed as a number, in order; sums that stay whole are among them
        self.uses = Counter(atom for root in self.roots for atom in self.form[root])  # in how many roots an atom is

    def is_sum(self, index: int) -> bool:
        """Say whether a step is an addition or a change of sign."""
        return self.function.tape[index].op in _SUMS

    def _find_roots(self) -> list[int]:
        roots: set[int] = set()
        seen: set[int] = set()
        waiting = [index for result in self.function.outputs for index in result]
        while waiting:
            root = waiting.pop()
            if root in roots:
                continue
            roots.add(root)
            for atom in self.form[root]:
                if atom in seen or atom in self.uniform:
                    continue
                seen.add(atom)
                if self.is_sum(atom):  # a sum that stays whole
                    waiting.append(atom)
                else:
                    waiting.extend(arg for arg in self.function.tape[atom].args if arg not in self.uniform)
        return sorted(roots)


class Replay:
    """A fresh graph into which the roots of a function are written one after the other."""

    def __init__(self, forms: Forms) -> None:
        function = forms.function
        self.forms = forms
        self.graph, self._columns = open_inputs(function)
        self.value: dict[int, Scalar] = {}
        for index in sorted(forms.uniform):
            self.value[index] = self._step(index)

    def atom(self, index: int) -> Scalar:
        """Return the value of an atom; its operands are roots that stand already."""
        if index in self.forms.uniform or self.forms.is_sum(index):
            return self.value[index]
        return self._step(index)

    def finish(self) -> Function:
        """Return the function once every root has its value."""
        function = self.forms.function
        return close_graph(self.graph, function, [[self.value[index] for index in each] for each in function.outputs])

    def _step(self, index: int) -> Scalar:
        step = self.forms.function.tape[index]
        if step.op == "const":
            return step.value
        if step.op == "input":
            argument, element = cast(tuple[int, int], step.value)
            return self._columns[argument][element]
        return OPERATIONS[step.op](*[self.value[operand] for operand in step.args])


def signed_sum(terms: list[tuple[int, Scalar]]) -> Scalar:
    """Return the sum of coefficient times value, left to right; 0 for no terms."""
    total: Scalar = None
    for coefficient, value in terms:
        term = value if coefficient == 1 else -value if coefficient == -1 else value * float(coefficient)
        total = term if total is None else total + term
    return 0.0 if total is None else total
