"""What is made of the inertia matrix M: the Coriolis matrix and forward dynamics.

C from Christoffel symbols, so that Ṁ - 2C is skew-symmetric:

    C_ij = Σ_k ½(∂M_ij/∂q_k + ∂M_ik/∂q_j - ∂M_jk/∂q_i) dq_k

Forward dynamics by M factored as Lᵀ D L from the tips to the base. Working from the last joint to the first keeps the
zeros of a branched robot's matrix (Featherstone's L T D L), and recorded on a graph it costs no bookkeeping.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.vectors import Scalar
from minidyn.errors import NotRealizable
from minidyn.graph.derivative import derivatives
from minidyn.graph.node import Node


def christoffel_matrix(M: Sequence[Sequence[Scalar]], q: Sequence[Node], dq: Sequence[Scalar]) -> list[list[Scalar]]:
    """Return C with C_ij = Σ_k ½(∂M_ij/∂q_k + ∂M_ik/∂q_j - ∂M_jk/∂q_i) dq_k, recorded from M's own expressions.

    C = ½(Ṁ + P - Pᵀ) with P_ij = Σ_k ∂M_ik/∂q_j dq_k: the sums over k are taken once.

    Implements: Lin1994 eq. (7) with its erratum; LuMeng1993, the matrix C of the example, corrected.
    """
    n = len(q)
    places = [(i, j) for i in range(n) for j in range(i + 1)]
    rates = dict(zip(places, derivatives([M[i][j] for i, j in places], q)))

    def rate(i: int, j: int, k: int) -> Scalar:
        return rates[max(i, j), min(i, j)][k]

    P = [[sum(rate(i, k, j) * dq[k] for k in range(n)) for j in range(n)] for i in range(n)]
    C: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for i, j in places:
        half_rate = 0.5 * sum(rate(i, j, k) * dq[k] for k in range(n))
        half_skew = 0.5 * (P[i][j] - P[j][i])
        C[i][j] = half_rate + half_skew
        C[j][i] = half_rate - half_skew
    return C


def solve_symmetric(
    M: Sequence[Sequence[Scalar]], b: Sequence[Scalar], names: Sequence[str] | None = None
) -> list[Scalar]:
    """Return x with M x = b for a symmetric positive definite M, without square roots.

    Names are of the joints its rows belong to, for the message if M turns out to be singular in every configuration.
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
