"""The inertia matrix, and what is made of it: the Coriolis matrix and forward dynamics.

M by composite bodies: each link with all it carries, seen as one rigid body.

C from Christoffel symbols, so that Ṁ - 2C is skew-symmetric:

    C_ij = Σ_k ½(∂M_ij/∂q_k + ∂M_ik/∂q_j - ∂M_jk/∂q_i) dq_k

Forward dynamics by M factored as Lᵀ D L from the tips to the base. Working from the last joint to the first keeps the
zeros of a branched robot's matrix (Featherstone's L T D L), and recorded on a graph it costs no bookkeeping.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.tree import Move, Tree
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, scale, shift_tensor, tensor_product, turn_tensor
from minidyn.errors import NotRealizable
from minidyn.graph.derivative import derivatives
from minidyn.graph.node import Node


def composite_inertia_matrix(tree: Tree, phi: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Return the inertia matrix of all joints, rigid links only.

    Args:
        tree: Geometry at q.
        phi: Ten parameters XX ... M of each link.

    Implements: LinFang1999 eq. (12)-(17), the composite-body form.
    """
    size = len(tree.moves)
    composite = [list(ten) for ten in phi]
    M: list[list[Scalar]] = [[tree.zero] * size for _ in range(size)]
    for index in reversed(range(size)):
        move = tree.moves[index]
        ten = composite[index]
        if not move.fixed:
            force, moment = _momentum(move, ten)
            link = index
            while link >= 0:
                angular, linear = tree.moves[link].unit_twist
                M[index][link] = M[link][index] = dot(angular, moment) + dot(linear, force)
                if tree.moves[link].parent >= 0:
                    force, moment = tree.moves[link].wrench_to_parent(force, moment)
                link = tree.moves[link].parent
        if move.parent >= 0:
            seen = _seen_from_parent(move, ten)
            composite[move.parent] = [a + b for a, b in zip(composite[move.parent], seen)]
    return M


def _momentum(move: Move, ten: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """Return (linear, angular about the origin) momentum of a body at unit joint speed."""
    u, v = move.unit_twist
    h, mass = list(ten[6:9]), ten[9]
    linear = cross(u, h) if move.turning else scale(mass, v)
    if move.turning and move.lever is not None:
        linear = add(linear, scale(mass, v))
    angular = tensor_product(ten[:6], u) if move.turning else cross(h, v)
    if move.turning and move.lever is not None:
        angular = add(angular, cross(h, v))
    return linear, angular


def _seen_from_parent(move: Move, ten: Sequence[Scalar]) -> list[Scalar]:
    """Return the ten parameters of a body about the parent's origin, in the parent's frame."""
    J, h, mass = list(ten[:6]), list(ten[6:9]), ten[9]
    if move.lever is not None:
        J, h = shift_tensor(J, h, mass, move.lever)
    J, h = shift_tensor(turn_tensor(move.turns, J), move.vector_to_parent(h), mass, move.shift)
    return [*J, *h, mass]


def christoffel_matrix(M: Sequence[Sequence[Scalar]], q: Sequence[Node], dq: Sequence[Scalar]) -> list[list[Scalar]]:
    """Return C with C_ij = Σ_k ½(∂M_ij/∂q_k + ∂M_ik/∂q_j - ∂M_jk/∂q_i) dq_k, recorded from M's own expressions.

    C = ½(Ṁ + P - Pᵀ) with P_ij = Σ_k ∂M_ik/∂q_j dq_k: the sums over k are taken once.

    Implements: Lin1994 eq. (7) with its erratum; LuMeng1993, the matrix C of the example, corrected.
    """
    n = len(q)
    flat = derivatives([M[i][j] for i in range(n) for j in range(i + 1)], q)
    places = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(n) for j in range(i + 1))}

    def rate(i: int, j: int, k: int) -> Scalar:
        return flat[places[max(i, j), min(i, j)]][k]

    P = [[sum(rate(i, k, j) * dq[k] for k in range(n)) for j in range(n)] for i in range(n)]
    C: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            half_rate = 0.5 * sum(rate(i, j, k) * dq[k] for k in range(n))
            half_skew = 0.5 * (P[i][j] - P[j][i])
            C[i][j] = half_rate + half_skew
            C[j][i] = half_rate - half_skew
    return C


def solve_symmetric(
    M: Sequence[Sequence[Scalar]], b: Sequence[Scalar], names: Sequence[str] | None = None
) -> list[Scalar]:
    """Return x with M x = b for a symmetric positive definite M, without square roots.

    Args:
        M: Rows of the matrix.
        b: Right-hand side.
        names: What its rows belong to, for the message if M turns out to be singular in every configuration.
    """
    n = len(b)
    H = [list(row) for row in M]
    x = list(b)
    inverse: list[Scalar] = [0.0] * n
    for k in reversed(range(n)):
        if _is_zero(H[k][k]):
            row = f"joint {names[k]!r}" if names else f"row {k + 1}"
            raise NotRealizable(
                f"{row} moves nothing that has inertia: the inertia matrix is singular; check the masses, centres and "
                "inertias of what it carries, or give its drive a rotor inertia"
            )
        inverse[k] = 1.0 / H[k][k]
        for i in reversed(range(k)):
            if _is_zero(H[k][i]):
                continue
            factor = H[k][i] * inverse[k]
            for j in range(i + 1):
                H[i][j] = H[i][j] - factor * H[k][j]
            x[i] = x[i] - factor * x[k]
            H[k][i] = factor  # row k of L, needed no more as part of M: every i' < i uses its own entry
    for k in range(n):
        x[k] = inverse[k] * x[k]
        for i in range(k):
            if not _is_zero(H[k][i]):
                x[k] = x[k] - H[k][i] * x[i]
    return x


def _is_zero(value: Scalar) -> bool:
    constant = getattr(value, "value", value)
    return isinstance(constant, float | int) and constant == 0
