"""Named passes on recorded functions, and the driver that looks for the cheapest sequence of them.

A pass takes a function and returns another that computes the same, up to rounding. Passes never ask for values of
arguments: what they save is saved for every parameter vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from minidyn.errors import UnknownName
from minidyn.graph.function import Function
from minidyn.graph.pass_factors import defer_constants, factor_sums
from minidyn.graph.pass_sums import gather_sums, share_sums

__all__ = ["PASSES", "Pass", "apply_passes", "cheapest", "cost", "optimise"]

Pass: TypeAlias = Callable[[Function], Function]

PASSES: dict[str, Pass] = {
    "defer_constants": defer_constants,
    "gather_sums": gather_sums,
    "share_sums": share_sums,
    "factor_sums": factor_sums,
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
    work = counts["mul"] + counts["add"] + counts["div"]
    return work, counts["mul"], len(function.tape)


def cheapest(functions: list[Function]) -> Function:
    """Return the function with the least cost; the first of equals."""
    return min(functions, key=cost)


def apply_passes(function: Function, names: tuple[str, ...]) -> Function:
    """Return the function after the named passes, in order.

    Raises:
        UnknownName: With near names, for a pass that does not exist.
    """
    for name in names:
        if name not in PASSES:
            raise UnknownName("pass", name, PASSES)
        function = PASSES[name](function)
    return function


def optimise(function: Function) -> Function:
    """Return the cheapest function that sequences of passes make of this one; itself where none helps.

    Each round tries every sequence on the best so far and goes on while one helps. Nothing is drawn by chance: the same
    function gives the same result everywhere.
    """
    best = function
    for _ in range(_ROUNDS):
        found = cheapest([best, *(apply_passes(best, names) for names in _SEQUENCES)])
        if cost(found) >= cost(best):
            return best
        best = found
    return best
