"""Named passes on recorded functions, and the driver that looks for the cheapest sequence of them.

A pass takes a function and returns another that computes the same, up to rounding. Passes never ask
for values of arguments: what they save is saved for every parameter vector.

Passes on factors: a b + a c becomes a (b + c), and constant factors wait until they meet another
constant.

Passes on sums: addends that are known once per call meet, and parts that several sums have in
common are shared.

Both see a function as sums of terms. Additions on a tape stand in the order in which a recursion
happened to make them. Here every value that is needed as one number (a *root*: an operand of a
product or of a sine, or a result) is the sum of *atoms*, which are the steps that are not sums,
each with a whole coefficient. What depends on uniform arguments alone is one atom, whatever its
size, for it costs nothing.

Addition is taken to be associative: results agree to rounding, not bit by bit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations
from typing import TypeAlias, cast

from minidyn.errors import UnknownName
from minidyn.graph.derivative import OPERATIONS, close_graph, open_inputs
from minidyn.graph.function import Function, run_tape
from minidyn.graph.node import Node
from minidyn.graph.scalar import Scalar

_SUMS = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}


class Forms:
    """The sums of a function.

    With `whole`, those that are used several times stay whole, as atoms.
    """

    def __init__(self, function: Function, whole: bool = False) -> None:
        self.function = function
        self.uniform = function.uniform_steps  # tape indices of what is computed once per call
        tape = function.tape
        often = Counter(index for step in tape for index in step.args)
        often.update(index for result in function.outputs for index in result)
        self.form: list[
            dict[int, int]
        ] = []  # {atom: coefficient} of each step; uniform ones are atoms of their own
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
            self.form.append(
                {atom: coefficient for atom, coefficient in found.items() if coefficient}
            )
        self.roots = (
            self._find_roots()
        )  # what is needed as a number, in order; sums that stay whole are among them
        self.uses = Counter(
            atom for root in self.roots for atom in self.form[root]
        )  # in how many roots an atom is

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
                    waiting.extend(
                        arg for arg in self.function.tape[atom].args if arg not in self.uniform
                    )
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
        return close_graph(
            self.graph,
            function,
            [[self.value[index] for index in each] for each in function.outputs],
        )

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
        term = (
            value
            if coefficient == 1
            else -value
            if coefficient == -1
            else value * float(coefficient)
        )
        total = term if total is None else total + term
    return 0.0 if total is None else total


def factor_sums(function: Function) -> Function:
    """Return the function with common factors taken out of sums, the most frequent factor of a sum
    first.

    Only products that nobody else uses are taken apart, so that each factoring saves a
    multiplication.
    """
    forms = Forms(function, whole=True)
    replay = Replay(forms)
    tape = function.tape
    for root in forms.roots:
        plain = dict(forms.form[root])
        products: list[tuple[int, int]] = []  # (atom, coefficient)
        for atom in forms.form[root]:
            if (
                atom not in forms.uniform
                and tape[atom].op == "mul"
                and forms.uses[atom] == 1
                and atom != root
            ):
                products.append((atom, plain.pop(atom)))
        terms: list[tuple[int, Scalar]] = []
        while products:
            often = Counter(operand for atom, _ in products for operand in set(tape[atom].args))
            factor = max(often, key=lambda operand: (often[operand], operand))
            if often[factor] < 2:
                break
            group = [item for item in products if factor in tape[item[0]].args]
            products = [item for item in products if factor not in tape[item[0]].args]
            others = []
            for atom, coefficient in group:
                first, second = tape[atom].args
                others.append((coefficient, replay.value[second if first == factor else first]))
            terms.append((1, replay.value[factor] * signed_sum(others)))
        plain.update(products)
        left = [(coefficient, replay.atom(atom)) for atom, coefficient in sorted(plain.items())]
        replay.value[root] = signed_sum([*left, *terms])
    return replay.finish()


def defer_constants(function: Function) -> Function:
    """Return the function with constant factors carried along until they are needed.

    A constant turn k1 y + k2 z becomes k1 (y + (k2/k1) z). Where the sum meets the next constant,
    k1 joins it and one multiplication is saved; where it does not, k1 is multiplied at last and
    nothing is lost.
    """
    graph, inputs = open_inputs(function)
    columns: list[list[Scalar]] = [
        [_Scaled(1.0, node, argument.uniform) for node in nodes]
        for argument, nodes in zip(function.arguments, inputs)
    ]
    table = {op: _on_values(compute) for op, compute in OPERATIONS.items()} | {
        "add": lambda a, b: _add(_lift(a), _lift(b), 1.0),
        "sub": lambda a, b: _add(_lift(a), _lift(b), -1.0),
        "neg": lambda a: _Scaled(-_lift(a).factor, _lift(a).core, _lift(a).uniform),
        "mul": lambda a, b: _multiply(_lift(a), _lift(b)),
    }
    outputs = run_tape(function, columns, table)
    return close_graph(
        graph, function, [[_lift(value).value for value in values] for values in outputs]
    )


@dataclass(slots=True)
class _Scaled:
    """A value that waits to be multiplied: factor times core."""

    factor: float
    core: Scalar
    uniform: bool

    @property
    def value(self) -> Scalar:
        return self.core * self.factor


def _lift(x: Scalar) -> _Scaled:
    return x if isinstance(x, _Scaled) else _Scaled(1.0, x, True)


def _on_values(compute: Callable[..., Scalar]) -> Callable[..., _Scaled]:
    """Return an operation that needs its operands multiplied out."""

    def apply(*operands: Scalar) -> _Scaled:
        lifted = [_lift(operand) for operand in operands]
        return _Scaled(
            1.0, compute(*[each.value for each in lifted]), all(each.uniform for each in lifted)
        )

    return apply


def _add(a: _Scaled, b: _Scaled, sign: float) -> _Scaled:
    plain = not a.uniform and not b.uniform and 1.0 in (abs(a.factor), abs(b.factor))
    if plain or (a.uniform and b.uniform):
        return _Scaled(1.0, a.value + b.value * sign, a.uniform)
    if a.uniform:  # dividing what is known once per call costs nothing
        return _Scaled(b.factor, a.core * (a.factor / b.factor) + b.core * sign, False)
    return _Scaled(a.factor, a.core + b.core * (sign * b.factor / a.factor), False)


def _multiply(a: _Scaled, b: _Scaled) -> _Scaled:
    for x, y in ((a, b), (b, a)):
        number = x.core.value if isinstance(x.core, Node) else x.core
        if x.uniform and number is not None:
            factor = x.factor * float(number) * y.factor
            if factor == 0.0 or factor - factor != 0.0:
                return _Scaled(1.0, a.value * b.value, a.uniform and b.uniform)
            if y.uniform:
                return _Scaled(1.0, y.core * factor, True)
            return _Scaled(factor, y.core, False)
    return _Scaled(1.0, a.value * b.value, a.uniform and b.uniform)


_Key: TypeAlias = tuple[str, float, int]  # kind of term, its number, its multiple
_Pair: TypeAlias = tuple[_Key, _Key, int]  # two terms and the sign between them


def gather_sums(function: Function) -> Function:
    """Return the function with sums gathered.

    Uniform addends of one sum become one, shared parts are found. Sums that are used several times
    stay whole, so that the number of additions cannot grow.
    """
    return _rewrite_sums(function, whole=True)


def share_sums(function: Function) -> Function:
    """Return the function with all sums taken apart and common parts shared anew, the most frequent
    pair first.

    Finds what `gather_sums` cannot see behind sums that are used several times; may also lose: a
    driver compares.
    """
    return _rewrite_sums(function, whole=False)


def _rewrite_sums(function: Function, whole: bool) -> Function:
    forms = Forms(function, whole)
    replay = Replay(forms)
    terms = _Terms(replay)
    # a sum that stays whole is an atom elsewhere; its own form is what its step says
    sums = {root: terms.read(root) for root in forms.roots}
    pairs = _share(sums, terms)
    for root in forms.roots:
        replay.value[root] = signed_sum(
            [(sign, terms.value(key, pairs)) for key, sign in terms.ordered(sums[root])]
        )
    return replay.finish()


class _Terms:
    """The terms of all sums, numbered in order of appearance."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.rank: dict[_Key, int] = {}
        self._value: dict[_Key, Scalar] = {}

    def ordered(self, terms: dict[_Key, int]) -> list[tuple[_Key, int]]:
        """Return a sum's terms, sorted by rank."""
        return sorted(terms.items(), key=lambda item: self.rank[item[0]])

    def register(self, key: _Key) -> _Key:
        """Number a term that is new."""
        self.rank.setdefault(key, len(self.rank))
        return key

    def read(self, root: int) -> dict[_Key, int]:
        """Return {term: ±1}.

        A multiple of an atom is a term of its own, uniform atoms are added up.
        """
        forms = self.replay.forms
        found: dict[_Key, int] = {}
        constant: list[tuple[int, Scalar]] = []
        for atom, coefficient in forms.form[root].items():
            if atom in forms.uniform:
                constant.append((coefficient, self.replay.value[atom]))
            else:
                found[self.register(("atom", atom, abs(coefficient)))] = (
                    1 if coefficient > 0 else -1
                )
        total = signed_sum(constant)
        negative = (
            total.negative
            if isinstance(total, Node) and total.value is None
            else float(_number(total)) < 0
        )
        if negative:
            total = -total
        symbolic = isinstance(total, Node) and total.value is None
        key: _Key = ("uniform", total.id, 1) if symbolic else ("number", _number(total), 1)
        if key == ("number", 0.0, 1):
            return found
        self._value[self.register(key)] = total
        found[key] = -1 if negative else 1
        return found

    def value(self, key: _Key, pairs: dict[_Key, _Pair]) -> Scalar:
        """Return the value of a term; all it depends on stands already."""
        if key not in self._value:
            if key in pairs:
                a, b, sign = pairs[key]
                left, right = self.value(a, pairs), self.value(b, pairs)
                self._value[key] = left + right if sign > 0 else left - right
            else:
                value = self.replay.atom(int(key[1]))
                self._value[key] = value if key[2] == 1 else value * float(key[2])
        return self._value[key]


def _number(total: Scalar) -> float:
    """Return the number that a constant scalar is."""
    value = total.value if isinstance(total, Node) else total
    return 0.0 if value is None else float(value)


def _share(sums: dict[int, dict[_Key, int]], terms: _Terms) -> dict[_Key, _Pair]:
    """Replace in `sums` the pair of terms that most sums have, again and again.

    Return the pairs.
    """
    where: dict[_Pair, set[int]] = defaultdict(set)
    waiting: list[
        tuple[int, int, int, int, _Pair]
    ] = []  # a heap; entries whose number of sums has changed are stale

    def note(pair: _Pair) -> None:
        if len(where[pair]) > 1:
            a, b, sign = pair
            heappush(waiting, (-len(where[pair]), terms.rank[a], terms.rank[b], -sign, pair))

    def pairs_of(root: int) -> list[_Pair]:
        return [
            (a, b, sign_a * sign_b)
            for (a, sign_a), (b, sign_b) in combinations(terms.ordered(sums[root]), 2)
        ]

    for root in sums:
        for pair in pairs_of(root):
            where[pair].add(root)
    for pair in where:
        note(pair)
    made: dict[_Key, _Pair] = {}
    while waiting:
        size, *_, best = heappop(waiting)
        if len(where[best]) != -size:
            continue
        a, b, _ = best
        key = terms.register(("pair", len(made), 1))
        made[key] = best
        for root in sorted(where[best]):
            for pair in pairs_of(root):
                where[pair].discard(root)
                note(pair)
            sign = sums[root].pop(a)
            del sums[root][b]
            sums[root][key] = sign
            for pair in pairs_of(root):
                where[pair].add(root)
                note(pair)
    return made


Pass: TypeAlias = Callable[[Function], Function]

PASSES: dict[str, Pass] = {
    each.__name__: each for each in (defer_constants, gather_sums, share_sums, factor_sums)
}
"""All passes, by name."""

_SEQUENCES = (
    ("gather_sums",),
    ("share_sums",),
    ("defer_constants", "gather_sums"),
    ("defer_constants", "share_sums"),
    ("share_sums", "defer_constants"),
    ("factor_sums", "gather_sums"),
    ("factor_sums", "share_sums"),
)
_ROUNDS = 4


def cost(function: Function) -> tuple[int, int, int]:
    """Return what counts: operations in all, then multiplications, then instructions."""
    counts = function.counts
    return counts["mul"] + counts["add"] + counts["div"], counts["mul"], len(function.tape)


def cheapest(functions: list[Function]) -> Function:
    """Return the function with the least cost; the first of equals."""
    return min(functions, key=cost)


def apply_passes(function: Function, names: tuple[str, ...]) -> Function:
    """Return the function after the named passes, in order."""
    for name in names:
        if name not in PASSES:
            raise UnknownName("pass", name, PASSES)
        function = PASSES[name](function)
    return function


def optimise(function: Function) -> Function:
    """Return the cheapest function that sequences of passes make of this one.

    Itself where none helps. Each round tries every sequence on the best so far and goes on while
    one helps. Nothing is drawn by chance: the same function gives the same result everywhere.
    """
    best = function
    for _ in range(_ROUNDS):
        found = cheapest([best, *(apply_passes(best, names) for names in _SEQUENCES)])
        if cost(found) >= cost(best):
            return best
        best = found
    return best
