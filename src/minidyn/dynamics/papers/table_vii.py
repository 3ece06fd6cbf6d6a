"""First moments and inertia of composite bodies, and the inertia matrix, from minimal linear
combinations alone.

The paper's own way: where a value outside the set would be needed (before joint s, where everything
turns about one direction), other quantities are computed that need only what is in the set. Nothing
else is read, so that all else may be unknown. Joints are numbered from 0; r is the first rotational
joint, s the first one after it that is not parallel to it (n where there is none).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from minidyn.dynamics.papers.chain import ChainJoint, Pair, turn_tensor_mdh
from minidyn.dynamics.papers.formulations import Matrix, read_axis
from minidyn.dynamics.vectors import Scalar, Vector, cross, dot, plus, to_child
from minidyn.errors import MinidynError

T = TypeVar("T")

_NO_KAPPA = "κ of this joint was asked for, which is not between r and s"
_NO_U = "U of this joint was asked for, which is not beyond s"


@dataclass(frozen=True, slots=True)
class Combinations:
    """What the minimal set holds of one composite body; the rest is None and never read.

    Attributes:
        mass: m̂, for every translational joint.
        k: (kx, ky) of a rotational joint from r on (zeros where δ = 0), (kx, ky, kz) of a
            translational one after s.
        U: U11 - U22, U12, U13, U23 of a rotational joint from s on.
        U33: For every rotational joint.
        kappa: κ1, κ2 of a translational joint between r and s (zeros where σ = 0).
    """

    mass: Scalar = None
    k: Vector | None = None
    U: tuple[Scalar, Scalar, Scalar, Scalar] | None = None
    U33: Scalar = None
    kappa: tuple[Scalar, Scalar] | None = None


@dataclass(frozen=True, slots=True)
class Composites:
    """What the formulations need of composite bodies; None where a joint does not need it.

    Attributes:
        c: First moments: x and y (rotational from r on), all (translational from s on).
        column: Third column of the inertia, rotational joints from s on.
        J33: Its last entry, rotational joints from r on.
        moment: Moment about joint r's direction at unit acceleration of the joint, r <= i < s.
        axis: Joint r's direction in frame i, r <= i < s: constant.
    """

    c: list[Vector | None]
    column: list[Vector | None]
    J33: list[Scalar]
    moment: list[Scalar]
    axis: list[Vector | None]


def composites_of_set(
    chain: Sequence[ChainJoint], found: Sequence[Combinations], r: int, s: int
) -> Composites:
    """Return what the formulations need, from the set alone.

    Implements: LinFang1999 eq. (22)-(26), (29), (34)-(55), Table VII.
    Differs: (40) as corrected in ERRATA C.
    """
    n = len(chain)
    made = Composites([None] * n, [None] * n, [None] * n, [None] * n, _axes(chain, r, s))
    if r >= n:
        return made
    varying: list[Vector] = [[0.0, 0.0, 0.0] for _ in range(n)]
    V: list[Scalar] = [0.0] * 6
    if s < n:
        _set_beyond_s(made, found[n - 1], chain[n - 1], n - 1, varying[n - 1], V)
    Y33: Scalar = 0.0
    across: Scalar
    for i in range(n - 2, s - 2, -1):
        child = chain[i + 1]
        varying[i] = _varying_moment(child, found[i + 1], made.c[i + 1], varying[i + 1])
        X = _to_turn(child, found[i + 1], made, i + 1, varying[i + 1], V)
        if i >= s:
            Y, b, lv = turn_tensor_mdh(child, X), child.a, varying[i]
            across = 2 * b * lv[0]
            V = [Y[0], Y[1] - b * lv[1], Y[2] - b * lv[2], Y[3] + across, Y[4], Y[5] + across]
            _set_beyond_s(made, found[i], chain[i], i, varying[i], V)
        else:
            Y33 = _quadratic(X, child.turned_out(_known(made.axis[i])))
    inner: Scalar = 0.0  # (V_i)33 about joint r's direction
    for i in range(min(s, n) - 1, r - 1, -1):
        child_axis = made.axis[i + 1] if i + 1 < min(s, n) else None
        if child_axis is not None:
            child = chain[i + 1]
            varying[i] = _varying_moment(child, found[i + 1], made.c[i + 1], varying[i + 1])
            Y33 = (
                made.J33[i + 1]
                if child.turning
                else inner + _sliding(child, found[i + 1], child_axis, varying[i + 1])
            )
        across = 0.0
        u, lv = _known(made.axis[i]), varying[i]
        if i + 1 < n:
            b = chain[i + 1].a
            if chain[i].turning:
                across = 2 * b * lv[0]
            else:
                across = (
                    2 * b * ((1 - u[0] * u[0]) * lv[0] - u[0] * u[1] * lv[1] - u[0] * u[2] * lv[2])
                )
        inner = Y33 + across
        if chain[i].turning:
            made.c[i] = plus(_known(found[i].k)[:2], lv)
            made.J33[i] = found[i].U33 + inner
            made.moment[i] = u[2] * made.J33[i]
        else:
            kappa = _known(found[i].kappa, _NO_KAPPA)
            made.moment[i] = kappa[0] - u[1] * lv[0] + u[0] * lv[1]
    return made


def set_formulation_1(
    chain: Sequence[ChainJoint], found: Sequence[Combinations], made: Composites, r: int, s: int
) -> Matrix:
    """Return the inertia matrix by formulation 1, before s with moments about joint r's direction
    only.

    Implements: LinFang1999 eq. (7)-(11), (29)-(31).
    Differs: (31) as corrected in ERRATA C.
    """
    n = len(chain)
    M: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        if i >= s:
            wrench = _own_wrench(chain, found, made, i)
            for j in range(i, -1, -1):
                M[i][j] = M[j][i] = read_axis(chain[j], wrench)
                wrench = chain[j].wrench_in(wrench)
            continue
        f = _own_force(chain, found, made, i)
        moment = made.moment[i]
        for j in range(i, -1, -1):
            if j < i:
                f = chain[j + 1].turned_in(f)
                if j >= r:
                    moment = moment + dot(_known(made.axis[j]), cross(chain[j + 1].offset, f))
            M[i][j] = M[j][i] = _known(made.axis[j])[2] * moment if chain[j].turning else f[2]
        M[i][i] = made.J33[i] if chain[i].turning else found[i].mass
    return M


def set_formulation_2(
    chain: Sequence[ChainJoint], found: Sequence[Combinations], made: Composites, r: int, s: int
) -> Matrix:
    """Return the inertia matrix by formulation 2, before s by its modified form.

    Implements: LinFang1999 eq. (20), (32).
    """
    n = len(chain)
    M: Matrix = [[0.0] * n for _ in range(n)]
    for j in range(n):
        u: Vector = [0.0, 0.0, 1.0]
        p: Vector = [0.0, 0.0, 0.0]  # from the origin of frame j to that of frame i
        M[j][j] = made.J33[j] if chain[j].turning else found[j].mass
        for i in range(j + 1, n):
            upper = chain[i]
            u = upper.turned_out(u)
            p = upper.turned_out([p[0] + upper.a, p[1], p[2]])
            p = [p[0], p[1], p[2] + upper.d]
            M[i][j] = M[j][i] = _entry(chain, found, made, (j, i, s), u, p)
    return M


def _entry(
    chain: Sequence[ChainJoint],
    found: Sequence[Combinations],
    made: Composites,
    where: tuple[int, int, int],
    u: Vector,
    p: Vector,
) -> Scalar:
    j, i, s = where
    if chain[i].turning:
        c = _known(made.c[i])
        if not chain[j].turning:
            return u[1] * c[0] - u[0] * c[1]
        if i < s:
            return u[2] * (made.J33[i] + (c[0] * p[0] + c[1] * p[1]))
        J = _known(made.column[i])
        across = J[2] + (c[0] * p[0] + c[1] * p[1])
        return u[0] * (J[0] - c[0] * p[2]) + u[1] * (J[1] - c[1] * p[2]) + u[2] * across
    mass = found[i].mass
    if not chain[j].turning:
        return mass * u[2]
    if i < s:
        return (
            u[0] * (mass * p[1]) - u[1] * (mass * p[0]) + _known(made.axis[j])[2] * made.moment[i]
        )
    c = _known(made.c[i])
    return u[0] * (mass * p[1] + c[1]) - u[1] * (mass * p[0] + c[0])


def _axes(chain: Sequence[ChainJoint], r: int, s: int) -> list[Vector | None]:
    """Direction of joint r in the frames before s.

    Only constant turns matter, and rotational joints see ±z.
    """
    axes: list[Vector | None] = [None] * len(chain)
    u: Vector = [0.0, 0.0, 1.0]
    for i in range(r, min(s, len(chain))):
        joint = chain[i]
        if i > r:
            u = to_child(((0, joint.ca, joint.sa),), u)
            u = (
                [0.0, 0.0, 1.0 if u[2] > 0 else -1.0]
                if joint.turning
                else to_child(((2, joint.c, joint.s),), u)
            )
        axes[i] = u
    return axes


def _set_beyond_s(
    made: Composites, own: Combinations, joint: ChainJoint, i: int, lv: Vector, V: Sequence[Scalar]
) -> None:
    """Add the constants to the varying parts of a body from s on."""
    k = _known(own.k)
    made.c[i] = plus(k[:2], lv) if joint.turning else plus(k, lv)
    if joint.turning:
        _, _, U13, U23 = _known(own.U, _NO_U)
        made.column[i] = [U13 + V[2], U23 + V[4], own.U33 + V[5]]
        made.J33[i] = own.U33 + V[5]


def _varying_moment(child: ChainJoint, own: Combinations, c: Vector | None, lv: Vector) -> Vector:
    """Eq. (24): the first moment that a child hands on, without its constants."""
    if child.turning:
        first = _known(c)
        return child.turned_in([first[0], first[1], lv[2]])
    return child.turned_in([lv[0], lv[1], lv[2] + own.mass * child.d])


def _to_turn(
    child: ChainJoint, own: Combinations, made: Composites, i: int, lv: Vector, V: Sequence[Scalar]
) -> list[Scalar]:
    """The tensor X of eq. (34) and (35), to be turned into the frame before."""
    c, d = _known(made.c[i]), child.d
    if child.turning:
        U1122, U12, _, _ = _known(own.U, _NO_U)
        J = _known(made.column[i])
        along = 2 * d * lv[2]
        return [
            V[0] + U1122 + along,
            V[1] + U12,
            J[0] - d * c[0],
            V[3] + along,
            J[1] - d * c[1],
            J[2],
        ]
    along = d * (own.mass * d + 2 * c[2])
    return [V[0] + along, V[1], V[2] - d * c[0], V[3] + along, V[4] - d * c[1], V[5]]


def _quadratic(X: Sequence[Scalar], u: Vector) -> Scalar:
    """Eq. (55): uᵀ X u."""
    return (
        u[0] * (u[0] * X[0] + 2 * u[1] * X[1])
        + u[1] * u[1] * X[3]
        + 2 * u[2] * (u[0] * X[2] + u[1] * X[4])
        + u[2] * u[2] * X[5]
    )


def _sliding(child: ChainJoint, own: Combinations, u: Vector, lv: Vector) -> Scalar:
    """What a translational child between r and s adds in eq. (40)."""
    kappa2 = _known(own.kappa, _NO_KAPPA)[1]
    own_part = (1 - u[2] * u[2]) * (own.mass * child.d + 2 * lv[2])
    return child.d * (2 * kappa2 + own_part - 2 * u[2] * u[0] * lv[0] - 2 * u[2] * u[1] * lv[1])


def _own_force(
    chain: Sequence[ChainJoint], found: Sequence[Combinations], made: Composites, i: int
) -> Vector:
    if chain[i].turning:
        c = _known(made.c[i])
        return [-c[1], c[0], 0.0]
    return [0.0, 0.0, found[i].mass]


def _own_wrench(
    chain: Sequence[ChainJoint], found: Sequence[Combinations], made: Composites, i: int
) -> Pair:
    force = _own_force(chain, found, made, i)
    if chain[i].turning:
        return force, _known(made.column[i])
    c = _known(made.c[i])
    return force, [c[1], -c[0], 0.0]


def _known(value: T | None, what: str = "a quantity outside the minimal set was asked for") -> T:
    if value is None:
        raise MinidynError(what)
    return value
