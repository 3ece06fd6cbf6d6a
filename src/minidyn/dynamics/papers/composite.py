"""Composite bodies: what of their mass, first moment and inertia is constant, and what varies with
the joints.

Composite body i is link i with everything it carries. Its first moment and inertia about the origin
of frame i, in frame i, are a constant part and a part that varies: ĉ = k + l, Ĵ = U + V. The
constants m̂, k, U are linear in the standard parameters, and the varying parts are made of only some
of them: that is where the minimal linear combinations come from.

Everything is written over scalars. Fed with floats it gives values, fed with the rows of an
identity matrix as parameters it gives the linear maps from standard parameters, fed with graph
nodes or symbols it gives formulas. Trees are covered: a link composes all its children. The
geometry comes as `Stand`s (see :mod:`minidyn.dynamics.mdh_chain`): z is the joint's axis through
the link's origin, which is all that is needed; modified Denavit-Hartenberg frames are the special
case with the fewest constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minidyn.dynamics.vectors import Scalar, Turn, Vector, add, plus, scale, to_parent, turn_tensor
from minidyn.errors import UnknownName

VERSIONS = ("1992", "1999")
"""Lin1992 and Lin1994 pass U33 of a turning child on to the constant part, LinFang1999 to the
varying part.
"""

Tensor = list[Scalar]  # XX XY XZ YY YZ ZZ


@dataclass(frozen=True, slots=True)
class Stand:
    """How a joint stands on its parent link: constants only.

    Its axis is z of the link's frame, through its origin.
    """

    parent: int  # index of the parent link, -1 for the base
    turning: bool  # true where the joint turns about z, False where it slides along z
    # constant turns from the parent's frame: all of them where it slides, those before theta where
    # it turns
    turns: tuple[Turn, ...]
    # from the parent's origin, in the parent's frame, constant: all of it where it turns; where it
    # slides, all but d along z, which belongs to the varying part even where it is constant
    shift: Vector


@dataclass(frozen=True, slots=True)
class Pose:
    """A joint at one configuration: what its motion adds to its stand."""

    turns: tuple[Turn, ...]  # all from the parent's frame, theta + q included
    slide: Scalar  # d + q along z where the joint slides; 0 where it turns


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of a composite body: mass m̂, first moment k (3), inertia U (XX XY XZ YY YZ ZZ)."""

    mass: Scalar
    k: Vector
    U: Tensor


@dataclass(frozen=True, slots=True)
class Varying:
    """Varying parts of a composite body: first moment l (3), inertia V (XX XY XZ YY YZ ZZ)."""

    l: Vector  # noqa: E741 (the papers' letter)
    V: Tensor


@dataclass(frozen=True, slots=True)
class Composite:
    """A composite body.

    Mass m̂, first moment ĉ (3), inertia Ĵ about the frame's origin (XX XY XZ YY YZ ZZ).
    """

    mass: Scalar
    c: Vector
    J: Tensor


def moment_product(a: Vector, b: Vector) -> Tensor:
    """Return -[a×][b×] - [b×][a×] = 2(a·b) 1 - a bᵀ - b aᵀ.

    What shifting a first moment b by a adds to an inertia.
    """
    xx, yy, zz = a[0] * b[0], a[1] * b[1], a[2] * b[2]
    return [
        2 * (yy + zz),
        -(a[0] * b[1] + a[1] * b[0]),
        -(a[0] * b[2] + a[2] * b[0]),
        2 * (xx + zz),
        -(a[1] * b[2] + a[2] * b[1]),
        2 * (xx + yy),
    ]


def inertia_constants_of(
    stands: Sequence[Stand], phi: Sequence[Sequence[Scalar]], version: str = "1999"
) -> list[Constants]:
    """Return m̂, k, U of every composite body.

    A turning child passes on what its own turning cannot change: its mass on its axis, its first
    moment along the axis, and of its inertia what is the same for every angle. A sliding child
    passes on everything but what its slide d (with its constant part) changes.

    Joints come parents first, with ten parameters XX XY XZ YY YZ ZZ MX MY MZ M of each link.

    Implements: Lin1992 eq. (18)-(28), Lin1994 eq. (21), (23), (25), LinFang1999 eq. (C1)-(C3).
    Differs: Children are summed, so that trees are covered, and a frame need not be modified
    Denavit-Hartenberg.
    """
    if version not in VERSIONS:
        raise UnknownName("version", version, VERSIONS)
    found = [Constants(ten[9], list(ten[6:9]), list(ten[:6])) for ten in phi]
    for child in reversed(range(len(stands))):
        stand, c = stands[child], found[child]
        if stand.parent < 0:
            continue
        parent = found[stand.parent]
        k, U = c.k, c.U
        zero = 0 * c.mass
        if stand.turning:
            k = [zero, zero, k[2]]
            U = [U[3], zero, zero, U[3], zero, U[5] if version == "1992" else zero]
        turned = to_parent(stand.turns, k)
        moved = plus(turn_tensor(stand.turns, U), _shifted(stand.shift, turned, c.mass))
        found[stand.parent] = Constants(
            parent.mass + c.mass,
            add(parent.k, add(scale(c.mass, stand.shift), turned)),
            plus(parent.U, moved),
        )
    return found


def varying_parts(
    stands: Sequence[Stand],
    poses: Sequence[Pose],
    constants: Sequence[Constants],
    version: str = "1999",
) -> list[Varying]:
    """Return l, V of every composite body at one configuration.

    Of a turning child's constants only kx, ky, U11 - U22, U12, U13, U23 are read (and U33 in
    version 1999), of a sliding child's only m̂ and k: the others may be anything. The constants must
    be of the same version.

    Implements: Lin1994 eq. (22), (24), (26), LinFang1999 eq. (24)-(26), (34)-(35), corrected as in
    ERRATA B.

    Differs: Children are summed, so that trees are covered.
    """
    zero = 0 * constants[0].mass
    found = [Varying([zero] * 3, [zero] * 6) for _ in stands]
    for child in reversed(range(len(stands))):
        stand, pose, c, v = stands[child], poses[child], constants[child], found[child]
        if stand.parent < 0:
            continue
        turns = pose.turns
        if stand.turning:
            U = c.U
            own = [U[0] - U[3], U[1], U[2], zero, U[4], zero if version == "1992" else U[5]]
            l = to_parent(turns, [c.k[0] + v.l[0], c.k[1] + v.l[1], v.l[2]])  # noqa: E741
            V = turn_tensor(turns, plus(v.V, own))
        else:
            slide = to_parent(turns, [zero, zero, pose.slide])
            l = add(to_parent(turns, v.l), scale(c.mass, slide))  # noqa: E741
            V = plus(
                turn_tensor(turns, v.V), _shifted(slide, to_parent(turns, add(c.k, v.l)), c.mass)
            )
        V = plus(V, moment_product(stand.shift, l))
        parent = found[stand.parent]
        found[stand.parent] = Varying(add(parent.l, l), plus(parent.V, V))
    return found


def _shifted(s: Vector, first: Vector, mass: Scalar) -> Tensor:
    """What a shift by s adds to the inertia of a body with this first moment and mass."""
    xx, yy, zz = s[0] * s[0], s[1] * s[1], s[2] * s[2]
    square = [
        yy + zz,
        -(s[0] * s[1]),
        -(s[0] * s[2]),
        xx + zz,
        -(s[1] * s[2]),
        xx + yy,
    ]  # -[s×][s×]
    return plus(moment_product(s, first), [mass * x for x in square])
