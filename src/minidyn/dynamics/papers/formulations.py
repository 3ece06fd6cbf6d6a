"""The inertia matrix from composite bodies.

The five formulations of LinFang1999, and a sixth that meets half-way. All take the same composite
bodies (first moments and inertia about the local origins) and differ in where the force of one
joint meets the axis of another: in the frame of the lower joint (1 and 5), of the upper joint (2
and 3), of the last link (4), or in a frame between them that is chosen for each column (6, in
`formulation_meeting`). They give the same matrix; which is cheapest depends on the robot.

In formulation 6 the wrench of the upper joint and the twist of the lower one meet in a frame
between them. Handing a wrench down one joint costs 20 multiplications, comparing a wrench with a
twist costs 6. So each column's wrench goes down only so far, and the lower joints' unit twists,
which all columns share, come up to meet it. Half frames count: frame i is level 2i, the middle
frame before it level 2i - 1 (joints from 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from minidyn.dynamics.papers.chain import ChainJoint, Pair
from minidyn.dynamics.papers.composite import Composite
from minidyn.dynamics.vectors import Scalar, Vector, add, combined, cross, dot, scale, subtract


def formulation_2(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> list[list[Scalar]]:
    """Return the inertia matrix from u_j and _j^i s in frame i.

    Implements: LinFang1999 eq. (20), Table II.
    """
    return _carried_outwards(chain, bodies, crossed=False)


def formulation_3(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> list[list[Scalar]]:
    """Return the inertia matrix from u_j and _j^i ŝ = u_j x _j^i s in frame i (Renaud).

    Implements: LinFang1999 eq. (21), Table III.
    Differs: Signs and terms of the table as corrected in ERRATA C.
    """
    return _carried_outwards(chain, bodies, crossed=True)


def _carried_outwards(
    chain: Sequence[ChainJoint], bodies: Sequence[Composite], crossed: bool
) -> list[list[Scalar]]:
    """Formulations 2 and 3: s is _j^i s, or `crossed` _j^i ŝ."""
    M = _square(len(chain), bodies)
    zero = 0 * bodies[0].mass
    for j, lower in enumerate(chain):
        u, s = [zero, zero, zero + 1], [zero] * 3
        M[j][j] = bodies[j].J[5] if lower.turning else bodies[j].mass
        for i in range(j + 1, len(chain)):
            upper, body = chain[i], bodies[i]
            J13, J23, J33, cx, cy = body.J[2], body.J[4], body.J[5], body.c[0], body.c[1]
            reached = upper.turned_out(
                add(s, cross(u, [upper.a, zero, zero]) if crossed else [upper.a, zero, zero])
            )
            u = upper.turned_out(u)
            s = add(reached, cross(u, [zero, zero, upper.d]) if crossed else [zero, zero, upper.d])
            if not lower.turning:
                value = u[1] * cx - u[0] * cy if upper.turning else body.mass * u[2]
            elif upper.turning and crossed:
                value = u[0] * J13 + u[1] * J23 + u[2] * J33 + (cx * s[1] - cy * s[0])
            elif upper.turning:
                value = (
                    u[0] * (J13 - cx * s[2])
                    + u[1] * (J23 - cy * s[2])
                    + u[2] * (J33 + (cx * s[0] + cy * s[1]))
                )
            elif crossed:
                value = body.mass * s[2] + (u[0] * cy - u[1] * cx)
            else:
                value = u[0] * (body.mass * s[1] + cy) - u[1] * (body.mass * s[0] + cx)
            M[i][j] = M[j][i] = value
    return M


def formulation_meeting(
    chain: Sequence[ChainJoint], bodies: Sequence[Composite], levels: Sequence[int]
) -> Matrix:
    """Return the inertia matrix, the wrench of joint i going down to a level from 0 to 2i of its
    own.

    Differs: Not in LinFang1999. With levels 0 it is formulation 1, with levels 2i close to
    formulation 3.
    """
    n = len(chain)
    zero = 0 * bodies[0].mass
    M = [[zero] * n for _ in range(n)]
    twists = [_rising(chain, j, max(levels), zero) for j in range(n)]
    for i in range(n):
        stop = min(levels[i], 2 * i)
        falling = _falling(chain, i, stop, joint_wrench(chain[i], bodies[i]))
        for j in range(i + 1):
            if 2 * j >= stop:
                value = read_axis(chain[j], falling[2 * j])
            else:
                (f, t), (w, v) = falling[stop], twists[j][stop]
                value = dot(w, t) + dot(v, f)
            M[i][j] = M[j][i] = value
    return M


def _falling(chain: Sequence[ChainJoint], i: int, stop: int, wrench: Pair) -> dict[int, Pair]:
    """Return the wrench of joint i at every level from its own down to `stop`."""
    found = {2 * i: wrench}
    for level in range(2 * i - 1, stop - 1, -1):
        if level % 2:
            wrench = chain[(level + 1) // 2].wrench_to_middle(wrench)
        else:
            wrench = chain[level // 2 + 1].wrench_from_middle(wrench)
        found[level] = wrench
    return found


def _rising(chain: Sequence[ChainJoint], j: int, top: int, zero: Scalar) -> dict[int, Pair]:
    """Return the unit twist of joint j at every level from its own up to `top`."""
    z, nothing = [zero, zero, zero + 1], [zero, zero, zero]
    twist: Pair = (z, nothing) if chain[j].turning else (nothing, z)
    found = {2 * j: twist}
    for level in range(2 * j + 1, top + 1):
        joint = chain[(level + 1) // 2]
        twist = joint.twist_to_middle(twist) if level % 2 else joint.twist_from_middle(twist)
        found[level] = twist
    return found


Matrix: TypeAlias = list[list[Scalar]]
Formulation: TypeAlias = Callable[[Sequence[ChainJoint], Sequence[Composite]], Matrix]


def joint_wrench(joint: ChainJoint, body: Composite) -> Pair:
    """Return (force, moment) that a composite body needs at unit acceleration of its own joint.

    No operations.

    Implements: LinFang1999 eq. (7)-(8).
    """
    zero = 0 * body.mass
    cx, cy = body.c[0], body.c[1]
    if joint.turning:
        return [-cy, cx, zero], [body.J[2], body.J[4], body.J[5]]
    return [zero, zero, body.mass], [cy, -cx, zero]


def read_axis(joint: ChainJoint, wrench: Pair) -> Scalar:
    """Return what a wrench in a joint's own frame asks of the joint.

    Moment about z, or force along z.
    """
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
    units = [[one, zero, zero], [zero, one, zero], [zero, zero, one]]
    axes[n - 1] = units
    steps: list[Vector] = [
        [zero] * 3 for _ in range(n)
    ]  # from the origin of frame i to that of frame i+1
    for i in reversed(range(n - 1)):
        after = chain[i + 1]
        # R of joint i+1 has rows; its transpose gives frame i's axes in frame i+1
        columns = [after.turned_out(unit) for unit in units]
        axes[i] = [combined(axes[i + 1], column) for column in columns]
        steps[i] = add(scale(after.a, axes[i][0]), scale(after.d, axes[i + 1][2]))
    M = _square(n, bodies)
    for i in range(n):
        f, t = (combined(axes[i], v) for v in joint_wrench(chain[i], bodies[i]))
        M[i][i] = read_axis(chain[i], joint_wrench(chain[i], bodies[i]))
        for j in reversed(range(i)):
            t = add(t, cross(steps[j], f))
            M[i][j] = M[j][i] = dot(axes[j][2], t if chain[j].turning else f)
    return M


def formulation_5(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> Matrix:
    """Return the inertia matrix.

    As formulation 1, from first moments about the origin of the frame before. The form of Kawasaki
    et al. for the Khalil/Mayeda set, where h = R ĉ + m̂ s takes the place of ĉ.

    Implements: LinFang1999 eq. (B3), (B5)-(B11), Table V.
    Differs: The cross product with s is for rotational joints only, and D uses the kind of joint j
    (ERRATA C).
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


def _square(n: int, bodies: Sequence[Composite]) -> Matrix:
    return [[0 * bodies[0].mass] * n for _ in range(n)]


FORMULATIONS: dict[int, Formulation] = dict(
    enumerate((formulation_1, formulation_2, formulation_3, formulation_4, formulation_5), 1)
)
"""The formulations of LinFang1999, by their number in the paper."""
