"""A serial chain in modified Denavit-Hartenberg frames at one configuration, how vectors pass along
it, and its bodies.

Between frame i-1 and frame i lies the *middle frame* i: frame i-1 turned by alpha about x and
shifted by a along x. Frame i is the middle frame turned by theta about z and shifted by d along z.
Passing in two halves is what the papers' counts rest on, and some quantities are best compared
half-way.

A wrench is (force, moment about the frame's origin), a twist is (angular, linear velocity of the
frame's origin).

Composite bodies come from the bodies of links, real ones or virtual ones of a minimal set:
`composite_bodies` carries the inertia tensor as the papers do, `composite_moments` carries second
moments E = ∫ r rᵀ dm, whose shifts need fewer additions: J = trace(E) 1 - E.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from minidyn.dynamics.papers.composite import Composite
from minidyn.dynamics.tree import REAL, Numbers
from minidyn.dynamics.vectors import Scalar, Turn, Vector, plus, to_child, to_parent
from minidyn.errors import Unsupported
from minidyn.model.geometry import Step
from minidyn.model.mdh_rows import MdhRow

Tensor = list[Scalar]  # XX XY XZ YY YZ ZZ
Shift = Callable[[Tensor, Vector, Scalar, Scalar], Tensor]
"""Of a tensor: (tensor, first moment c, length l along an axis, 2 l c + mass l²) -> the tensor
about the new origin.
"""


def composite_bodies(
    chain: Sequence[ChainJoint], bodies: Sequence[Sequence[Scalar]]
) -> list[Composite]:
    """Return the composite body of every joint.

    Link i with all it carries, about the origin of frame i.

    Args:
        chain: The joints at q.
        bodies: Ten parameters XX ... M of each link.

    Implements: LinFang1999 eq. (3)-(5) recursively, with the tensor turned by eq. (41)-(54).
    """

    def along_z(J: Tensor, c: Vector, d: Scalar, along: Scalar) -> Tensor:
        return [J[0] + along, J[1], J[2] - d * c[0], J[3] + along, J[4] - d * c[1], J[5]]

    def along_x(J: Tensor, c: Vector, a: Scalar, across: Scalar) -> Tensor:
        return [J[0], J[1] - a * c[1], J[2] - a * c[2], J[3] + across, J[4], J[5] + across]

    return _composed(chain, bodies, along_z, along_x)


def composite_moments(
    chain: Sequence[ChainJoint], bodies: Sequence[Sequence[Scalar]]
) -> list[Composite]:
    """Return the composite bodies as `composite_bodies` does, from Exx Exy Exz Eyy Eyz Ezz MX MY MZ
    M of each link.

    Differs: LinFang1999 carries inertia tensors. A shift by a along x changes three second moments
    but four entries of the tensor, so that a link costs two additions less.
    """

    def along_z(E: Tensor, c: Vector, d: Scalar, along: Scalar) -> Tensor:
        return [E[0], E[1], E[2] + d * c[0], E[3], E[4] + d * c[1], E[5] + along]

    def along_x(E: Tensor, c: Vector, a: Scalar, across: Scalar) -> Tensor:
        return [E[0] + across, E[1] + a * c[1], E[2] + a * c[2], E[3], E[4], E[5]]

    found = _composed(chain, bodies, along_z, along_x)
    return [replace(body, J=inertia_of_moments(body.J)) for body in found]


def _composed(
    chain: Sequence[ChainJoint], bodies: Sequence[Sequence[Scalar]], along_z: Shift, along_x: Shift
) -> list[Composite]:
    found = [Composite(ten[9], list(ten[6:9]), list(ten[:6])) for ten in bodies]
    for index in reversed(range(1, len(chain))):
        joint, body, parent = chain[index], found[index], found[index - 1]
        c, mass, d, a = body.c, body.mass, joint.d, joint.a
        J = turn_tensor_mdh(joint, along_z(body.J, c, d, 2 * d * c[2] + mass * d * d))
        c = joint.turned_in([c[0], c[1], c[2] + mass * d])
        J = along_x(J, c, a, 2 * a * c[0] + mass * a * a)
        c = [c[0] + mass * a, c[1], c[2]]
        found[index - 1] = Composite(parent.mass + mass, plus(parent.c, c), plus(parent.J, J))
    return found


def turn_tensor_mdh(joint: ChainJoint, X: Sequence[Scalar]) -> Tensor:
    """Return R X Rᵀ for the turn of one joint: 18 multiplications and 14 additions in general.

    The turn about z needs one product less than two plain products of matrices because the trace
    does not change; the turn about x likewise.

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


Pair = tuple[Vector, Vector]


@dataclass(frozen=True, slots=True)
class ChainJoint:
    """One joint of a chain at one configuration, as scalars.

    Attributes:
        turning: True for a rotational joint (the papers' K* = 1), False for a translational one.
        a: Shift along x of the frame before (the papers' b).
        ca: Cosine of alpha (the papers' β).
        sa: Sine of alpha.
        c: Cosine of theta, the joint's angle included.
        s: Sine of theta.
        d: Shift along z, a sliding joint's travel included.
    """

    turning: bool
    a: Scalar
    ca: Scalar
    sa: Scalar
    c: Scalar
    s: Scalar
    d: Scalar

    @property
    def turns(self) -> tuple[Turn, Turn]:
        """The two turns from the frame before to this one."""
        return (0, self.ca, self.sa), (2, self.c, self.s)

    @property
    def offset(self) -> Vector:
        """From the frame before's origin to this one's, in the frame before.

        The papers' s, corrected as ERRATA B.
        """
        return [self.a, -(self.sa * self.d), self.ca * self.d]

    def turned_in(self, v: Vector) -> Vector:
        """Coordinates in the frame before of a vector given in this one (R v)."""
        return to_parent(self.turns, v)

    def turned_out(self, v: Vector) -> Vector:
        """Coordinates in this frame of a vector given in the frame before (Rᵀ v)."""
        return to_child(self.turns, v)

    def wrench_to_middle(self, wrench: Pair) -> Pair:
        """A wrench in this frame, in the middle frame."""
        f, t = wrench
        t = [t[0] - self.d * f[1], t[1] + self.d * f[0], t[2]]
        turn = ((2, self.c, self.s),)
        return to_parent(turn, f), to_parent(turn, t)

    def wrench_from_middle(self, wrench: Pair) -> Pair:
        """A wrench in the middle frame, in the frame before."""
        turn = ((0, self.ca, self.sa),)
        f, t = to_parent(turn, wrench[0]), to_parent(turn, wrench[1])
        return f, [t[0], t[1] - self.a * f[2], t[2] + self.a * f[1]]

    def wrench_in(self, wrench: Pair) -> Pair:
        """A wrench in this frame, in the frame before; 20 multiplications, as LinFang1999 eq.

        (18) arranges them.
        """
        return self.wrench_from_middle(self.wrench_to_middle(wrench))

    def twist_to_middle(self, twist: Pair) -> Pair:
        """A twist in the frame before, in the middle frame."""
        w, v = twist
        v = [v[0], v[1] + self.a * w[2], v[2] - self.a * w[1]]
        turn = ((0, self.ca, self.sa),)
        return to_child(turn, w), to_child(turn, v)

    def twist_from_middle(self, twist: Pair) -> Pair:
        """A twist in the middle frame, in this frame."""
        w, v = twist
        v = [v[0] + self.d * w[1], v[1] - self.d * w[0], v[2]]
        turn = ((2, self.c, self.s),)
        return to_child(turn, w), to_child(turn, v)


def chain_at(
    rows: Sequence[MdhRow], q: Sequence[Scalar], numbers: Numbers = REAL
) -> list[ChainJoint]:
    """Return the joints of a serial chain at coordinates q.

    Raises:
        Unsupported: The rows are those of a tree.
    """
    if not is_serial(rows):
        raise Unsupported(
            "the formulations of the inertia matrix are for serial chains; the robot has "
            "branches: use md.inertia_matrix without formulation="
        )
    joints = []
    for row, value in zip(rows, q):
        ca, sa = numbers.turn(Step("rx", row.alpha))
        a = numbers.length(Step("tx", row.a))
        if row.turning:
            c, s = numbers.joint_turn(value, 1, Step("rz", row.theta) if row.theta else None)
            d = numbers.length(Step("tz", row.d))
        else:
            c, s = numbers.turn(Step("rz", row.theta))
            d = numbers.joint_shift(value, 1)
            d = d + numbers.length(Step("tz", row.d)) if row.d else d
        joints.append(ChainJoint(row.turning, a, ca, sa, c, s, d))
    return joints


def is_serial(rows: Sequence[MdhRow]) -> bool:
    """Say whether each joint stands on the link before it.

    Without the constants that only branches need.
    """
    return all(
        row.parent == index - 1 and (index == 0 or (row.gamma == 0.0 and row.b == 0.0))
        for index, row in enumerate(rows)
    )
