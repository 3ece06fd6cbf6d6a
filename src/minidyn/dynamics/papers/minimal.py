"""Dynamics of a serial chain from a minimal set alone, recorded.

The set's values are the function's last argument. A minimal set has far fewer values than the links
have parameters. `VirtualLinks` says which parameters of *virtual* links carry them, all others
being exactly zero; zeros fold away as the recursions are recorded. Any minimal set can be carried:
the values are a linear map of it.

Inverse dynamics of a serial chain on second moments: the Newton-Euler recursion with fewer
operations.

A point r fixed to a link accelerates by a + A r, A = [ω̇×] + [ω×][ω×]. With E = ∫ r rᵀ dm and h = ∫
r dm

    force  = m a + A h,        moment = the axial vector of A E - (A E)ᵀ, plus h × a.

Three things are saved against the usual form:

* E_zz of a link behind a rotational joint can be put to zero in any minimal set, and then the
  moment needs thirteen products instead of fourteen or more, and no differences of moments of
  inertia;
* A z does not change with the joint's own speed, for the joint turns about z. So the third column
  of A is the parent's A z turned, which saves the terms with the joint's speed, a square and their
  sums;
* joints with parallel axes in a row turn what reaches the first of them by the sum of their angles,
  where that is cheaper (`composed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from minidyn.dynamics.newton_euler import LinkMotion, motion_of
from minidyn.dynamics.papers.chain import (
    ChainJoint,
    Pair,
    chain_at,
    composite_bodies,
    composite_moments,
)
from minidyn.dynamics.papers.formulations import FORMULATIONS, formulation_meeting
from minidyn.dynamics.vectors import (
    Scalar,
    Vector,
    add,
    christoffel_matrix,
    cross,
    dot,
    to_child,
    to_parent,
)
from minidyn.graph.function import Function
from minidyn.graph.passes import cost, optimise
from minidyn.graph.scalar import Graph
from minidyn.model.mdh_rows import MdhRow


@dataclass(frozen=True, slots=True)
class _Run:
    """Parallel joints in a row.

    What reached the first of them, and the sum of their angles since.
    """

    first: int  # index of the first joint
    w: Vector  # ω before the first joint turned it, in its middle frame
    column: Vector  # A z likewise
    c: Scalar  # cosine of the sum of angles
    s: Scalar  # sine of the sum of angles


def torques_of_moments(
    chain: Sequence[ChainJoint],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    bodies: Sequence[Sequence[Scalar]],
    base_acceleration: Vector,
    composed: bool = False,
) -> list[Scalar]:
    """Return the torque or force of every joint, rigid links only.

    Bodies are Exx Exy Exz Eyy Eyz Ezz MX MY MZ M of each link. The base's acceleration is that
    minus gravity, in the frame before the first joint.

    Implements: LuMeng1993 eq. (66)-(71).
    Differs: A E for J ω̇ + ω × J ω, and the third column of A from the parent, as the module says.
    """
    zero = 0 * bodies[0][9]
    nothing = [zero, zero, zero]
    motion = LinkMotion(
        nothing, nothing, [nothing, nothing, nothing], list(base_acceleration), nothing
    )
    wrenches: list[Pair] = []
    runs: list[_Run] = []
    for index, (joint, speed, acceleration, body) in enumerate(zip(chain, dq, ddq, bodies)):
        if joint.turning:
            motion, run = _turned(
                index, chain, motion, speed, acceleration, runs[-1] if runs else None, composed
            )
        else:
            motion, run = (
                _slid(joint, motion, speed, acceleration),
                _Run(index + 1, nothing, nothing, zero, zero),
            )
        runs.append(run)
        wrenches.append(_wrench(motion, body))
    return _handed_down(chain, wrenches, runs, composed)


def _turned(
    index: int,
    chain: Sequence[ChainJoint],
    parent: LinkMotion,
    speed: Scalar,
    acceleration: Scalar,
    before: _Run | None,
    composed: bool,
) -> tuple[LinkMotion, _Run]:
    joint = chain[index]
    w_middle, column, a, dw_z = _reaching(joint, parent)
    run = _Run(index, w_middle, column, joint.c, joint.s)
    if composed and before is not None and _continues(chain, index):
        c = before.c * joint.c - before.s * joint.s
        s = before.s * joint.c + before.c * joint.s
        run = _Run(before.first, before.w, before.column, c, s)
    turn = ((2, run.c, run.s),)
    w = to_child(turn, run.w)
    w = [w[0], w[1], w_middle[2] + speed]
    xz, yz, zz = to_child(turn, run.column)
    dw_z = dw_z + acceleration
    xy, y2, z2 = w[0] * w[1], w[1] * w[1], w[2] * w[2]
    zx, zy = w[0] * w[2], w[1] * w[2]
    dw = [zy - yz, xz - zx, dw_z]
    A = [
        [-(y2 + z2), xy - dw_z, xz],
        [xy + dw_z, zz + (y2 - z2), yz],
        [zx - dw[1], zy + dw[0], zz],
    ]
    return LinkMotion(w, dw, A, to_child(((2, joint.c, joint.s),), a), [zy, zx, xy]), run


def _slid(joint: ChainJoint, parent: LinkMotion, speed: Scalar, acceleration: Scalar) -> LinkMotion:
    _, _, a, _ = _reaching(joint, parent)
    w, dw = joint.turned_out(parent.w), joint.turned_out(parent.dw)
    a = to_child(((2, joint.c, joint.s),), a)
    twice = speed * 2
    a = [a[0] + w[1] * twice, a[1] - w[0] * twice, a[2] + acceleration]
    products = [w[1] * w[2], w[2] * w[0], w[0] * w[1]]
    if all(
        isinstance(x, float) and x in (0.0, 1.0, -1.0)
        for x in (joint.ca, joint.sa, joint.c, joint.s)
    ):
        half = [joint.turned_out(row) for row in parent.A]  # Rᵀ A R: right angles only move entries
        columns = [joint.turned_out([half[r][k] for r in range(3)]) for k in range(3)]
        return LinkMotion(w, dw, [[columns[k][r] for k in range(3)] for r in range(3)], a, products)
    squares = [w[0] * w[0], w[1] * w[1], w[2] * w[2]]
    return motion_of(w, dw, a, products, squares)


def _reaching(joint: ChainJoint, parent: LinkMotion) -> tuple[Vector, Vector, Vector, Scalar]:
    """Return ω, A z and the acceleration of the joint's origin in the middle frame, and ω̇ along
    z.
    """
    A, turn = parent.A, ((0, joint.ca, joint.sa),)
    column = to_child(turn, [row[2] * joint.ca - row[1] * joint.sa for row in A])
    a = to_child(turn, [parent.a[k] + joint.a * A[k][0] for k in range(3)])
    a = [a[k] + joint.d * column[k] for k in range(3)]
    return to_child(turn, parent.w), column, a, joint.ca * parent.dw[2] - joint.sa * parent.dw[1]


def _wrench(motion: LinkMotion, body: Sequence[Scalar]) -> Pair:
    """Return (force, moment about the origin) that move a link."""
    A, a = motion.A, motion.a
    Exx, Exy, Exz, Eyy, Eyz, Ezz, hx, hy, hz, mass = body
    h = [hx, hy, hz]
    force = [dot(row, h) + mass * component for row, component in zip(A, a)]
    moment = [
        A[2][0] * Exy + A[2][1] * Eyy - A[1][0] * Exz + (A[2][2] - A[1][1]) * Eyz - A[1][2] * Ezz,
        (A[0][0] - A[2][2]) * Exz + A[0][1] * Eyz - A[2][0] * Exx - A[2][1] * Exy + A[0][2] * Ezz,
        A[1][0] * Exx - A[0][1] * Eyy + (A[1][1] - A[0][0]) * Exy + A[1][2] * Exz - A[0][2] * Eyz,
    ]
    return force, add(moment, cross(h, a))


def _handed_down(
    chain: Sequence[ChainJoint], wrenches: Sequence[Pair], runs: Sequence[_Run], composed: bool
) -> list[Scalar]:
    zero = 0 * wrenches[0][0][0]
    tau: list[Scalar] = [zero] * len(chain)
    f: Vector = [zero] * 3
    t: Vector = [zero] * 3
    middle: Pair | None = None  # total of a run of parallel joints in the first one's middle frame
    for index in reversed(range(len(chain))):
        joint = chain[index]
        last = not (composed and index + 1 < len(chain) and _continues(chain, index + 1))
        own = wrenches[index]
        f, t = add(f, own[0]), add(t, own[1])
        tau[index] = t[2] if joint.turning else f[2]
        inside = (
            composed
            and joint.turning
            and runs[index].first <= index
            and (not last or runs[index].first < index)
        )
        if inside:
            seen = _in_middle(chain, runs, index, (f, t) if last else own)
            middle = (
                seen
                if last or middle is None
                else (add(middle[0], seen[0]), add(middle[1], seen[1]))
            )
        if inside and runs[index].first == index and middle is not None:
            f, t = joint.wrench_from_middle(middle)
            middle = None
        else:
            f, t = joint.wrench_in((f, t))
    return tau


def _in_middle(chain: Sequence[ChainJoint], runs: Sequence[_Run], index: int, wrench: Pair) -> Pair:
    """A wrench in a frame of a run of parallel joints, in the middle frame of the first of them."""
    run = runs[index]
    turn = ((2, run.c, run.s),)
    f, t = to_parent(turn, wrench[0]), to_parent(turn, wrench[1])
    reach: Vector = [0 * f[0], 0 * f[0], chain[run.first].d]
    for k in range(run.first + 1, index + 1):
        before = runs[k - 1]
        reach = [
            reach[0] + chain[k].a * before.c,
            reach[1] + chain[k].a * before.s,
            reach[2] + chain[k].d,
        ]
    return f, add(t, cross(reach, f))


def _continues(chain: Sequence[ChainJoint], index: int) -> bool:
    """Say whether a rotational joint's axis is parallel to that of the rotational joint before
    it.
    """
    joint = chain[index]
    parallel = isinstance(joint.sa, float) and joint.sa == 0.0 and joint.ca == 1.0
    return index > 0 and joint.turning and chain[index - 1].turning and parallel


MEETING = 6
"""Number of the formulation that meets half-way; 1 to 5 are the paper's."""

MINIMAL_WHAT = (
    "inertia_matrix",
    "inverse_dynamics",
    "gravity_torque",
    "coriolis_matrix",
    "velocity_torque",
    "forward_dynamics",
)
"""Functions that can be recorded from a minimal set."""

BIAS = "bias_torque"
"""Torques without accelerations, gravity included: the part of forward dynamics beside the inertia
matrix.
"""

Levels: TypeAlias = tuple[int, ...]

_SHORT = 7  # chains up to this length try three starts, longer ones a single one


@dataclass(frozen=True)
class VirtualLinks:
    """A serial chain whose links have only those parameters that carry a minimal set."""

    rows: tuple[MdhRow, ...]
    # for each value, (link, place): place in XX XY XZ YY YZ ZZ MX MY MZ M, or with `moments` in Exx
    # Exy Exz Eyy Eyz Ezz MX MY MZ M
    places: tuple[tuple[int, int], ...]
    base_acceleration: tuple[
        float, float, float
    ]  # of the base minus gravity, in the frame before the first joint
    # whether places are those of second moments E = ∫ r rᵀ dm instead of the inertia tensor
    moments: bool

    def bodies(self, values: Sequence[Scalar]) -> list[list[Scalar]]:
        """Ten parameters of each virtual link, exact zeros but for the values."""
        found: list[list[Scalar]] = [[0.0] * 10 for _ in self.rows]
        for (link, place), value in zip(self.places, values):
            found[link][place] = value
        return found


def motion_inputs(
    graph: Graph, what: str, n: int
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Return q, dq, ddq as inputs of a function of MINIMAL_WHAT.

    Zeros for what it does not take.
    """
    q, still = list(graph.inputs("q", n)), [0.0] * n
    dq = still if what in ("inertia_matrix", "gravity_torque") else list(graph.inputs("dq", n))
    return q, dq, list(graph.inputs("ddq", n)) if what == "inverse_dynamics" else still


def record_minimal(
    virtual: VirtualLinks,
    what: str,
    number: int = 1,
    levels: Sequence[int] | None = None,
    composed: bool = False,
) -> Function:
    """Return a function of q (and dq, ddq where it needs them) and of the virtual values, which are
    uniform.

    The links are by inertia tensors for formulations 1 to 5, by second moments for all else. Levels
    say for formulation 6 where columns meet the axes; None: at the base, as formulation 1. With
    `composed`, for inverse dynamics, parallel joints in a row turn by the sum of their angles.
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
    """Return the inertia matrix by formulation 6 with the levels that make it cheapest, and those
    levels.

    Levels are found by descent, one column at a time, from up to three starts: the same on every
    machine. Graph passes finish the best three.
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
                choices = [
                    (*levels[:column], level, *levels[column + 1 :])
                    for level in range(2 * column + 1)
                ]
                levels = min(choices, key=lambda choice: (cost(made(choice)), choice))

    n = len(virtual.rows)
    starts = [tuple(range(n)), (0,) * n, tuple(max(0, 2 * i - 1) for i in range(n))]
    for start in starts if n <= _SHORT else starts[:1]:
        descended(start)
    ranked = sorted(found, key=lambda levels: (cost(found[levels]), levels))
    finished = {levels: optimise(found[levels]) for levels in ranked[:3]}
    chosen = min(finished, key=lambda levels: (cost(finished[levels]), levels))
    return finished[chosen], chosen
