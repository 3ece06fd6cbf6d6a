"""Composite bodies of a serial chain from the bodies of its links: real ones, or virtual ones of a minimal set.

Two forms: `composite_bodies` carries the inertia tensor as the papers do, `composite_moments` carries second moments
E = ∫ r rᵀ dm, whose shifts need fewer additions: J = trace(E) 1 - E.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.chain import ChainJoint
from minidyn.dynamics.composite import Composite
from minidyn.dynamics.vectors import Scalar

__all__ = ["composite_bodies", "composite_moments", "inertia_of_moments", "moments_of_inertia", "turn_tensor_mdh"]

Tensor = list[Scalar]  # XX XY XZ YY YZ ZZ


def composite_bodies(chain: Sequence[ChainJoint], bodies: Sequence[Sequence[Scalar]]) -> list[Composite]:
    """Return the composite body of every joint: link i with all it carries, about the origin of frame i.

    Args:
        chain: The joints at q.
        bodies: Ten parameters XX ... M of each link.

    Implements: LinFang1999 eq. (3)-(5) recursively, with the tensor turned by eq. (41)-(54).
    """
    found = [Composite(ten[9], list(ten[6:9]), list(ten[:6])) for ten in bodies]
    for index in reversed(range(1, len(chain))):
        joint, body = chain[index], found[index]
        J, c, mass = body.J, body.c, body.mass
        d, a = joint.d, joint.a
        along = 2 * d * c[2] + mass * d * d
        J = [J[0] + along, J[1], J[2] - d * c[0], J[3] + along, J[4] - d * c[1], J[5]]
        J = turn_tensor_mdh(joint, J)
        c = joint.turned_in([c[0], c[1], c[2] + mass * d])
        across = 2 * a * c[0] + mass * a * a
        J = [J[0], J[1] - a * c[1], J[2] - a * c[2], J[3] + across, J[4], J[5] + across]
        found[index - 1] = _joined(found[index - 1], Composite(mass, [c[0] + mass * a, c[1], c[2]], J))
    return found


def composite_moments(chain: Sequence[ChainJoint], bodies: Sequence[Sequence[Scalar]]) -> list[Composite]:
    """Return the composite bodies as `composite_bodies` does, by way of second moments E = ∫ r rᵀ dm.

    Args:
        chain: The joints at q.
        bodies: Exx Exy Exz Eyy Eyz Ezz MX MY MZ M of each link (`moments_of_inertia` makes the first six).

    Differs: LinFang1999 carries inertia tensors. A shift by a along x changes three second moments but four entries of
    the tensor, so that a link costs two additions less.
    """
    found = [Composite(ten[9], list(ten[6:9]), list(ten[:6])) for ten in bodies]
    for index in reversed(range(1, len(chain))):
        joint, body = chain[index], found[index]
        E, c, mass = body.J, body.c, body.mass
        d, a = joint.d, joint.a
        E = [E[0], E[1], E[2] + d * c[0], E[3], E[4] + d * c[1], E[5] + (2 * d * c[2] + mass * d * d)]
        E = turn_tensor_mdh(joint, E)
        c = joint.turned_in([c[0], c[1], c[2] + mass * d])
        E = [E[0] + (2 * a * c[0] + mass * a * a), E[1] + a * c[1], E[2] + a * c[2], E[3], E[4], E[5]]
        found[index - 1] = _joined(found[index - 1], Composite(mass, [c[0] + mass * a, c[1], c[2]], E))
    return [Composite(body.mass, body.c, inertia_of_moments(body.J)) for body in found]


def turn_tensor_mdh(joint: ChainJoint, X: Sequence[Scalar]) -> Tensor:
    """Return R X Rᵀ for the turn of one joint: 18 multiplications and 14 additions in general.

    The turn about z needs one product less than two plain products of matrices because the trace does not change; the
    turn about x likewise.

    Implements: LinFang1999 eq. (41)-(54).
    """
    c, s, cb, sb = joint.c, joint.s, joint.ca, joint.sa
    x11, x12, x13, x22, x23, x33 = X
    A1 = c * (x11 - x22) - s * (2 * x12)
    A2 = c * A1
    A3 = x11 - A2
    A4 = s * A1 + x12
    A5 = s * x13 + c * x23
    A8 = c * x13 - s * x23
    if cb == 0:  # a right angle: the products below would fold only after needless sums
        return [A2 + x22, -(sb * A8), sb * A4, x33, -A5, A3]
    A6 = (A3 - x33) * cb - (2 * sb) * A5
    A7 = cb * A6
    return [A2 + x22, cb * A4 - sb * A8, sb * A4 + cb * A8, A7 + x33, A5 + sb * A6, A3 - A7]


def inertia_of_moments(E: Sequence[Scalar]) -> Tensor:
    """Return the inertia tensor of second moments: trace(E) 1 - E."""
    return [E[3] + E[5], -E[1], -E[2], E[0] + E[5], -E[4], E[0] + E[3]]


def moments_of_inertia(J: Sequence[Scalar]) -> Tensor:
    """Return the second moments of an inertia tensor."""
    half = 0.5
    return [
        half * (J[3] + J[5] - J[0]),
        -J[1],
        -J[2],
        half * (J[0] + J[5] - J[3]),
        -J[4],
        half * (J[0] + J[3] - J[5]),
    ]


def _joined(a: Composite, b: Composite) -> Composite:
    return Composite(a.mass + b.mass, [x + y for x, y in zip(a.c, b.c)], [x + y for x, y in zip(a.J, b.J)])
