"""A serial chain in modified Denavit-Hartenberg frames at one configuration, and how vectors pass along it.

Between frame i-1 and frame i lies the *middle frame* i: frame i-1 turned by alpha about x and shifted by a along x.
Frame i is the middle frame turned by theta about z and shifted by d along z. Passing in two halves is what the papers'
counts rest on, and some quantities are best compared half-way.

A wrench is (force, moment about the frame's origin), a twist is (angular, linear velocity of the frame's origin).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minidyn.dynamics.mdh_chain import MdhRow
from minidyn.dynamics.tree import REAL, Numbers
from minidyn.dynamics.vectors import Scalar, Turn, Vector, to_child, to_parent
from minidyn.errors import Unsupported
from minidyn.model.geometry import Step

__all__ = ["ChainJoint", "chain_at", "generic_rows", "is_serial"]

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
        """From the frame before's origin to this one's, in the frame before: the papers' s, corrected as ERRATA B."""
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
        """A wrench in this frame, in the frame before; 20 multiplications, as LinFang1999 eq. (18) arranges them."""
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


def chain_at(rows: Sequence[MdhRow], q: Sequence[Scalar], numbers: Numbers = REAL) -> list[ChainJoint]:
    """Return the joints of a serial chain at coordinates q.

    Raises:
        Unsupported: The rows are those of a tree.
    """
    if not is_serial(rows):
        raise Unsupported(
            "the formulations of the inertia matrix are for serial chains; the robot has branches: use "
            "md.inertia_matrix without formulation="
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
    """Say whether each joint stands on the link before it, without the constants that only branches need."""
    return all(
        row.parent == index - 1 and (index == 0 or (row.gamma == 0.0 and row.b == 0.0))
        for index, row in enumerate(rows)
    )


def generic_rows(rows: Sequence[MdhRow]) -> list[MdhRow]:
    """Return rows of the same joints with general alpha, a and d, so that no geometry folds away.

    The first row stays on the base: its alpha, a and d say where the base frame is, not how the arm is built.
    """
    found = [replace(rows[0], gamma=0.0, b=0.0, alpha=0.0, a=0.0, theta=0.0, d=0.0)]
    for index, row in enumerate(rows[1:], 1):
        alpha, a, d = 0.5 + 0.07 * index, 0.3 + 0.011 * index, 0.2 + 0.013 * index
        theta = 0.0 if row.turning else 0.4 + 0.03 * index
        found.append(replace(row, gamma=0.0, b=0.0, alpha=alpha, a=a, theta=theta, d=d if row.turning else 0.0))
    return found
