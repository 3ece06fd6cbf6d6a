"""Passes on sums: addends that are known once per call meet, and parts that several sums have in common are shared.

Addition is taken to be associative: results agree to rounding, not bit by bit.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from typing import TypeAlias

from minidyn.graph.function import Function
from minidyn.graph.linear_forms import Forms, Replay, signed_sum
from minidyn.graph.node import Node
from minidyn.graph.scalar import Scalar

__all__ = ["gather_sums", "share_sums"]

_Key: TypeAlias = tuple[str, float, int]  # kind of term, its number, its multiple
_Pair: TypeAlias = tuple[_Key, _Key, int]  # two terms and the sign between them


def gather_sums(function: Function) -> Function:
    """Return the function with sums gathered: uniform addends of one sum become one, shared parts are found.

    Sums that are used several times stay whole, so that the number of additions cannot grow.
    """
    return _rewrite_sums(function, whole=True)


def share_sums(function: Function) -> Function:
    """Return the function with all sums taken apart and common parts shared anew, the most frequent pair first.

    Finds what `gather_sums` cannot see behind sums that are used several times; may also lose, so that a driver has to
    compare.
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
            [(sign, terms.value(key, pairs)) for key, sign in sorted(sums[root].items(), key=terms.order)]
        )
    return replay.finish()


class _Terms:
    """The terms of all sums, numbered in order of appearance."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.rank: dict[_Key, int] = {}
        self._value: dict[_Key, Scalar] = {}

    def order(self, item: tuple[_Key, int]) -> int:
        """Rank of a term, for sorting."""
        return self.rank[item[0]]

    def register(self, key: _Key) -> _Key:
        """Number a term that is new."""
        self.rank.setdefault(key, len(self.rank))
        return key

    def read(self, root: int) -> dict[_Key, int]:
        """Return {term: ±1}; a multiple of an atom is a term of its own, uniform atoms are added up."""
        forms = self.replay.forms
        found: dict[_Key, int] = {}
        constant: list[tuple[int, Scalar]] = []
        for atom, coefficient in forms.form[root].items():
            if atom in forms.uniform:
                constant.append((coefficient, self.replay.value[atom]))
            else:
                found[self.register(("atom", atom, abs(coefficient)))] = 1 if coefficient > 0 else -1
        total = signed_sum(constant)
        negative = total.negative if isinstance(total, Node) and total.value is None else float(_number(total)) < 0
        if negative:
            total = -total
        if isinstance(total, Node) and total.value is None:
            key: _Key = ("uniform", total.id, 1)
        else:
            key = ("number", _number(total), 1)
            if key[1] == 0.0:
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
    """Replace in `sums` the pair of terms that most sums have, again and again; return the pairs."""
    where: dict[_Pair, set[int]] = defaultdict(set)
    waiting: list[tuple[int, int, int, int, _Pair]] = []  # a heap; entries whose number of sums has changed are stale

    def note(pair: _Pair) -> None:
        if len(where[pair]) > 1:
            a, b, sign = pair
            heappush(waiting, (-len(where[pair]), terms.rank[a], terms.rank[b], -sign, pair))

    def pairs_of(root: int) -> list[_Pair]:
        items = sorted(sums[root].items(), key=terms.order)
        return [(a, b, sign_a * sign_b) for i, (a, sign_a) in enumerate(items) for b, sign_b in items[i + 1 :]]

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
