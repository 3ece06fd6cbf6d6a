"""The inertia matrix from composite bodies: the five formulations of LinFang1999, and a sixth that meets half-way.

All take the same composite bodies (first moments and inertia about the local origins) and differ in where the force
of one joint meets the axis of another: in the frame of the lower joint (1 and 5), of the upper joint (2 and 3), of the
last link (4), or in a frame between them that is chosen for each column (6, in `formulation_meeting`). They give the
same matrix; which is cheapest depends on the robot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from minidyn.dynamics.chain import ChainJoint, Pair
from minidyn.dynamics.composite import Composite
from minidyn.dynamics.formulation_pivot import formulation_2, formulation_3
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, scale, subtract
from minidyn.errors import UnknownName

__all__ = ["FORMULATIONS", "Matrix", "formulation", "formulation_1", "formulation_4", "formulation_5", "joint_wrench"]

Matrix: TypeAlias = list[list[Scalar]]
Formulation: TypeAlias = Callable[[Sequence[ChainJoint], Sequence[Composite]], Matrix]


def joint_wrench(joint: ChainJoint, body: Composite) -> Pair:
    """Return (force, moment) that a composite body needs at unit acceleration of its own joint; no operations.

    Implements: LinFang1999 eq. (7)-(8).
    """
    zero = 0 * body.mass
    cx, cy = body.c[0], body.c[1]
    if joint.turning:
        return [-cy, cx, zero], [body.J[2], body.J[4], body.J[5]]
    return [zero, zero, body.mass], [cy, -cx, zero]


def read_axis(joint: ChainJoint, wrench: Pair) -> Scalar:
    """Return what a wrench in a joint's own frame asks of the joint: moment about z, or force along z."""
    return wrench[1][2] if joint.turning else wrench[0][2]


def formulation_1(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> Matrix:
    """Return the inertia matrix: wrenches handed down from frame to frame.

    Implements: LinFang1999 eq. (7)-(11), Table I.
    """
    M = _square(len(chain), bodies)
    for i in range(len(chain)):
        wrench = joint_wrench(chain[i], bodies[i])
        for j in range(i, -1, -1):
            M[i][j] = M[j][i] = read_axis(chain[j], wrench)
            wrench = chain[j].wrench_in(wrench)
    return M


def formulation_4(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> Matrix:
    """Return the inertia matrix: everything in the frame of the last link.

    Implements: LinFang1999 Table IV, with forces from joint 1 on (ERRATA C).
    """
    n = len(chain)
    one = 0 * bodies[0].mass + 1
    zero = one - one
    # rows of the turn from frame i to frame n, as columns x, y, z of frame i seen in frame n
    axes: list[list[Vector]] = [[] for _ in range(n)]
    axes[n - 1] = [[one, zero, zero], [zero, one, zero], [zero, zero, one]]
    steps: list[Vector] = [[zero] * 3 for _ in range(n)]  # from the origin of frame i to that of frame i+1
    for i in reversed(range(n - 1)):
        after = chain[i + 1]
        x, y, z = axes[i + 1]
        # R of joint i+1 has rows; its transpose gives frame i's axes in frame i+1
        columns = [after.turned_out(unit) for unit in ([one, zero, zero], [zero, one, zero], [zero, zero, one])]
        axes[i] = [_combine(column, (x, y, z)) for column in columns]
        steps[i] = add(scale(after.a, axes[i][0]), scale(after.d, z))
    M = _square(n, bodies)
    for i in range(n):
        f, t = (_combine(v, axes[i]) for v in joint_wrench(chain[i], bodies[i]))
        M[i][i] = read_axis(chain[i], joint_wrench(chain[i], bodies[i]))
        for j in reversed(range(i)):
            t = add(t, cross(steps[j], f))
            M[i][j] = M[j][i] = dot(axes[j][2], t if chain[j].turning else f)
    return M


def formulation_5(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> Matrix:
    """Return the inertia matrix: as formulation 1, from first moments about the origin of the frame before.

    The form of Kawasaki et al. for the Khalil/Mayeda set, where h = R ĉ + m̂ s takes the place of ĉ.

    Implements: LinFang1999 eq. (B3), (B5)-(B11), Table V.
    Differs: The cross product with s is for rotational joints only, and D uses the kind of joint j (ERRATA C).
    """
    M = _square(len(chain), bodies)
    zero = 0 * bodies[0].mass
    for i in range(len(chain)):
        joint, body = chain[i], bodies[i]
        M[i][i] = body.J[5] if joint.turning else body.mass
        if i == 0:
            continue
        u = [zero, -joint.sa, joint.ca]
        s = joint.offset
        h = add(joint.turned_in(body.c), scale(body.mass, s))
        if joint.turning:
            f = cross(u, subtract(h, scale(body.mass, s)))
            t = add(joint.turned_in([body.J[2], body.J[4], body.J[5]]), cross(s, f))
        else:
            f = scale(body.mass, u)
            t = cross(h, u)
        for j in range(i - 1, -1, -1):
            M[i][j] = M[j][i] = read_axis(chain[j], (f, t))
            f, t = chain[j].wrench_in((f, t))
    return M


def _combine(v: Vector, axes: Sequence[Vector]) -> Vector:
    """Return v[0] x + v[1] y + v[2] z."""
    return [v[0] * axes[0][k] + v[1] * axes[1][k] + v[2] * axes[2][k] for k in range(3)]


def _square(n: int, bodies: Sequence[Composite]) -> Matrix:
    return [[0 * bodies[0].mass] * n for _ in range(n)]


FORMULATIONS: dict[int, Formulation] = {
    1: formulation_1,
    2: formulation_2,
    3: formulation_3,
    4: formulation_4,
    5: formulation_5,
}
"""The formulations of LinFang1999, by their number in the paper."""


def formulation(number: int) -> Formulation:
    """Return a formulation by its number.

    Raises:
        UnknownName: There is none of that number.
    """
    if isinstance(number, bool) or number not in FORMULATIONS:
        raise UnknownName("formulation", str(number), [str(key) for key in FORMULATIONS])
    return FORMULATIONS[number]
