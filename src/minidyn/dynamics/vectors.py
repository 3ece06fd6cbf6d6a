"""Vectors, turns and tensors over scalars of any kind.

Floats, arrays, graph nodes, integers modulo a prime. A vector is a list of three scalars, a
symmetric tensor the list XX XY XZ YY YZ ZZ. A turn about coordinate axis k by an angle of cosine c
and sine s is (k, c, s). Only + - * are used, so that every number system can follow.

What is made of the inertia matrix M: the Coriolis matrix C from Christoffel symbols, so that Ṁ - 2C
is skew-symmetric, and forward dynamics by M factored as Lᵀ D L from the tips to the base. Working
from the last joint to the first keeps the zeros of a branched robot's matrix (Featherstone's L T D
L), and recorded on a graph it costs no bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minidyn.errors import NotRealizable
from minidyn.graph.derivative import derivatives
from minidyn.graph.node import Node

Scalar = Any
Vector = list[Scalar]
Turn = tuple[int, Scalar, Scalar]

_NEXT = ((1, 2), (2, 0), (0, 1))
# places in XX XY XZ YY YZ ZZ of (ii, ij, jj, ki, kj) for a turn about k in the plane (i, j)
_PLANE = ((3, 4, 5, 1, 2), (5, 2, 0, 4, 1), (0, 1, 3, 2, 4))


def add(a: Vector, b: Vector) -> Vector:
    """A + b."""
    return [a[0] + b[0], a[1] + b[1], a[2] + b[2]]


def subtract(a: Vector, b: Vector) -> Vector:
    """A - b."""
    return [a[0] - b[0], a[1] - b[1], a[2] - b[2]]


def scale(factor: Scalar, a: Vector) -> Vector:
    """Factor · a."""
    return [factor * a[0], factor * a[1], factor * a[2]]


def dot(a: Vector, b: Vector) -> Scalar:
    """A · b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def plus(a: Sequence[Scalar], b: Sequence[Scalar]) -> list[Scalar]:
    """A + b for lists of any length."""
    return [x + y for x, y in zip(a, b)]


def combined(columns: Sequence[Vector], v: Vector) -> Vector:
    """The vector whose coordinates along the columns are v."""
    return [dot([column[row] for column in columns], v) for row in range(3)]


def cross(a: Vector, b: Vector) -> Vector:
    """A × b."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def weighted_sum(weights: Iterable[float], values: Iterable[Scalar]) -> Scalar:
    """Σ weight · value, where weights of 0 leave their value out and weights of 1 cost nothing."""
    total: Scalar = None
    for weight, value in zip(weights, values):
        if weight != 0.0:
            term = value if weight == 1.0 else weight * value
            total = term if total is None else total + term
    return 0.0 if total is None else total


def tensor_product(J: Sequence[Scalar], v: Vector) -> Vector:
    """J v for a symmetric tensor J = [XX XY XZ YY YZ ZZ]."""
    return [
        J[0] * v[0] + J[1] * v[1] + J[2] * v[2],
        J[1] * v[0] + J[3] * v[1] + J[4] * v[2],
        J[2] * v[0] + J[4] * v[1] + J[5] * v[2],
    ]


def to_parent(turns: Sequence[Turn], v: Vector) -> Vector:
    """Coordinates in the parent's frame of a vector given in the child's."""
    v = list(v)
    for k, c, s in reversed(turns):
        i, j = _NEXT[k]
        v[i], v[j] = c * v[i] - s * v[j], s * v[i] + c * v[j]
    return v


def to_child(turns: Sequence[Turn], v: Vector) -> Vector:
    """Coordinates in the child's frame of a vector given in the parent's."""
    v = list(v)
    for k, c, s in turns:
        i, j = _NEXT[k]
        v[i], v[j] = c * v[i] + s * v[j], c * v[j] - s * v[i]
    return v


def turn_columns(turns: Sequence[Turn], columns: Sequence[Vector]) -> list[Vector]:
    """Columns of A R, for the columns of a matrix A: the axes of a frame turned in itself."""
    turned = [list(column) for column in columns]
    for k, c, s in turns:
        i, j = _NEXT[k]
        first, second = turned[i], turned[j]
        turned[i] = [c * a + s * b for a, b in zip(first, second)]
        turned[j] = [c * b - s * a for a, b in zip(first, second)]
    return turned


def turn_tensor(turns: Sequence[Turn], J: Sequence[Scalar]) -> list[Scalar]:
    """R J Rᵀ: a symmetric tensor given in the child's frame, in the parent's.

    8 multiplications a turn.
    """
    tensor = list(J)
    for k, c, s in reversed(turns):
        ii, ij, jj, ki, kj = _PLANE[k]
        t = s * (tensor[ii] - tensor[jj]) + (c + c) * tensor[ij]
        st = s * t
        tensor[ii], tensor[jj], tensor[ij] = tensor[ii] - st, tensor[jj] + st, c * t - tensor[ij]
        tensor[ki], tensor[kj] = c * tensor[ki] - s * tensor[kj], s * tensor[ki] + c * tensor[kj]
    return tensor


def shift_tensor(
    J: Sequence[Scalar], h: Vector, mass: Scalar, p: Vector
) -> tuple[list[Scalar], Vector]:
    """Return inertia and first moments of a body about a point -p.

    J + (p·(h + h'))1 - p hᵀ - h' pᵀ, h' = h + m p.
    """
    moved = add(h, scale(mass, p))
    x, y, z = (p[i] * (h[i] + moved[i]) for i in range(3))
    return [
        J[0] + (y + z),
        J[1] - (p[0] * h[1] + moved[0] * p[1]),
        J[2] - (p[0] * h[2] + moved[0] * p[2]),
        J[3] + (x + z),
        J[4] - (p[1] * h[2] + moved[1] * p[2]),
        J[5] + (x + y),
    ], moved


def christoffel_matrix(
    M: Sequence[Sequence[Scalar]], q: Sequence[Node], dq: Sequence[Scalar]
) -> list[list[Scalar]]:
    """Return C with C_ij = Σ_k ½(∂M_ij/∂q_k + ∂M_ik/∂q_j - ∂M_jk/∂q_i) dq_k, recorded from M's own
    expressions.

    C = ½(Ṁ + P - Pᵀ) with P_ij = Σ_k ∂M_ik/∂q_j dq_k: the sums over k are taken once.

    Implements: Lin1994 eq. (7) with its erratum; LuMeng1993, the matrix C of the example,
    corrected.
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

    Names are of the joints its rows belong to, for the message if M turns out to be singular in
    every configuration.
    """
    n = len(b)
    H = [list(row) for row in M]
    x = list(b)
    inverse: list[Scalar] = [0.0] * n
    for k in reversed(range(n)):
        if _is_zero(H[k][k]):
            row = f"joint {names[k]!r}" if names else f"row {k + 1}"
            raise NotRealizable(
                f"{row} moves nothing that has inertia: the inertia matrix is singular; check the "
                "masses, centres and inertias of what it carries, or give its drive a rotor "
                "inertia"
            )
        inverse[k] = 1.0 / H[k][k]
        for i in reversed(range(k)):
            if _is_zero(H[k][i]):
                continue
            factor = H[k][i] * inverse[k]
            for j in range(i + 1):
                H[i][j] = H[i][j] - factor * H[k][j]
            x[i] = x[i] - factor * x[k]
            H[k][i] = (
                factor  # row k of L, needed no more as part of M: every i' < i uses its own entry
            )
    for k in range(n):
        x[k] = inverse[k] * x[k]
        for i in range(k):
            if not _is_zero(H[k][i]):
                x[k] = x[k] - H[k][i] * x[i]
    return x


def _is_zero(value: Scalar) -> bool:
    constant = getattr(value, "value", value)
    return isinstance(constant, float | int) and constant == 0
