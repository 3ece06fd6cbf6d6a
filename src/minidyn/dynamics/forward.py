"""Forward dynamics: the inertia matrix factored as Lᵀ D L from the tips to the base.

Working from the last joint to the first keeps the zeros of a branched robot's matrix (Featherstone's L T D L), and
recorded on a graph it costs no bookkeeping.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.vectors import Scalar
from minidyn.errors import NotRealizable


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
