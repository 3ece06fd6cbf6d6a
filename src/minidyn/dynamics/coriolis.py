"""The Coriolis matrix from Christoffel symbols, so that Ṁ - 2C is skew-symmetric."""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.vectors import Scalar
from minidyn.graph.derivative import derivatives
from minidyn.graph.node import Node


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

    def total(terms: list[Scalar]) -> Scalar:
        value: Scalar = 0.0
        for term in terms:
            value = value + term
        return value

    P = [[total([rate(i, k, j) * dq[k] for k in range(n)]) for j in range(n)] for i in range(n)]
    C: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            half_rate = 0.5 * total([rate(i, j, k) * dq[k] for k in range(n)])
            half_skew = 0.5 * (P[i][j] - P[j][i])
            C[i][j] = half_rate + half_skew
            C[j][i] = half_rate - half_skew
    return C
