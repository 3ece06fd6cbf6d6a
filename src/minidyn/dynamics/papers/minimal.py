"""Dynamics of a serial chain from a minimal set alone, recorded: the set's values are the function's last argument.

A minimal set has far fewer values than the links have parameters. `VirtualLinks` says which parameters of *virtual*
links carry them, all others being exactly zero; zeros fold away as the recursions are recorded. Any minimal set can be
carried: the values are a linear map of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from minidyn.dynamics.mdh_chain import MdhRow
from minidyn.dynamics.papers.chain import chain_at, composite_bodies, composite_moments
from minidyn.dynamics.papers.formulations import FORMULATIONS, formulation_meeting
from minidyn.dynamics.papers.moments import torques_of_moments
from minidyn.dynamics.vectors import Scalar, Vector, christoffel_matrix
from minidyn.graph.function import Function
from minidyn.graph.passes import cost, optimise
from minidyn.graph.scalar import Graph

MEETING = 6
"""Number of the formulation that meets half-way; 1 to 5 are the paper's."""

MINIMAL_WHAT = ("inertia_matrix", "inverse_dynamics", "gravity_torque", "coriolis_matrix", "velocity_torque")
"""Functions that can be recorded from a minimal set."""

Levels: TypeAlias = tuple[int, ...]

_SHORT = 7  # chains up to this length try three starts, longer ones a single one


@dataclass(frozen=True)
class VirtualLinks:
    """A serial chain whose links have only those parameters that carry a minimal set."""

    rows: tuple[MdhRow, ...]
    # for each value, (link, place): place in XX XY XZ YY YZ ZZ MX MY MZ M, or with `moments` in Exx Exy Exz Eyy Eyz
    # Ezz MX MY MZ M
    places: tuple[tuple[int, int], ...]
    base_acceleration: tuple[float, float, float]  # of the base minus gravity, in the frame before the first joint
    moments: bool  # whether places are those of second moments E = ∫ r rᵀ dm instead of the inertia tensor

    def bodies(self, values: Sequence[Scalar]) -> list[list[Scalar]]:
        """Ten parameters of each virtual link, exact zeros but for the values."""
        found: list[list[Scalar]] = [[0.0] * 10 for _ in self.rows]
        for (link, place), value in zip(self.places, values):
            found[link][place] = value
        return found


def motion_inputs(graph: Graph, what: str, n: int) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Return q, dq, ddq as inputs of a function of MINIMAL_WHAT; zeros for what it does not take."""
    q, still = list(graph.inputs("q", n)), [0.0] * n
    dq = still if what in ("inertia_matrix", "gravity_torque") else list(graph.inputs("dq", n))
    return q, dq, list(graph.inputs("ddq", n)) if what == "inverse_dynamics" else still


def record_minimal(
    virtual: VirtualLinks, what: str, number: int = 1, levels: Sequence[int] | None = None, composed: bool = False
) -> Function:
    """Return a function of q (and dq, ddq where it needs them) and of the virtual values, which are uniform.

    The links are by inertia tensors for formulations 1 to 5, by second moments for all else. Levels say for formulation
    6 where columns meet the axes; None: at the base, as formulation 1. With `composed`, for inverse dynamics, parallel
    joints in a row turn by the sum of their angles.
    """
    graph = Graph()
    n = len(virtual.rows)
    q, dq, ddq = motion_inputs(graph, what, n)
    bodies = virtual.bodies(list(graph.inputs("values", len(virtual.places), uniform=True)))
    chain = chain_at(virtual.rows, q)
    if what in ("inertia_matrix", "coriolis_matrix"):
        composite = (composite_moments if virtual.moments else composite_bodies)(chain, bodies)
        if number == MEETING:
            M = formulation_meeting(chain, composite, levels or [0] * n)
        else:
            M = FORMULATIONS[number](chain, composite)
        if what == "inertia_matrix":
            return graph.function(what, {"M": M})
        return graph.function(what, {"C": christoffel_matrix(M, q, dq)})
    base: Vector = list(virtual.base_acceleration) if what != "velocity_torque" else [0.0] * 3
    return graph.function(what, {"tau": torques_of_moments(chain, dq, ddq, bodies, base, composed)})


def cheapest_inertia_matrix(virtual: VirtualLinks) -> tuple[Function, Levels]:
    """Return the inertia matrix by formulation 6 with the levels that make it cheapest, and those levels.

    Levels are found by descent, one column at a time, from up to three starts: the same on every machine. Graph passes
    finish the best three.
    """
    found: dict[Levels, Function] = {}

    def made(levels: Levels) -> Function:
        if levels not in found:
            found[levels] = record_minimal(virtual, "inertia_matrix", MEETING, levels)
        return found[levels]

    def descended(levels: Levels) -> None:
        made(levels)
        before: Levels | None = None
        while levels != before:
            before = levels
            for column in range(1, len(levels)):
                choices = [(*levels[:column], level, *levels[column + 1 :]) for level in range(2 * column + 1)]
                levels = min(choices, key=lambda choice: (cost(made(choice)), choice))

    n = len(virtual.rows)
    starts = [tuple(range(n)), (0,) * n, tuple(max(0, 2 * i - 1) for i in range(n))]
    for start in starts if n <= _SHORT else starts[:1]:
        descended(start)
    ranked = sorted(found, key=lambda levels: (cost(found[levels]), levels))
    finished = {levels: optimise(found[levels]) for levels in ranked[:3]}
    chosen = min(finished, key=lambda levels: (cost(finished[levels]), levels))
    return finished[chosen], chosen
