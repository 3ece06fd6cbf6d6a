"""Formulations 2 and 3: axes and positions of the lower joints carried outwards into the frame of the upper one."""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.chain import ChainJoint
from minidyn.dynamics.composite import Composite
from minidyn.dynamics.vectors import Scalar, Vector, add, cross

__all__ = ["formulation_2", "formulation_3"]


def formulation_2(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> list[list[Scalar]]:
    """Return the inertia matrix from u_j and _j^i s in frame i.

    Implements: LinFang1999 eq. (20), Table II.
    """
    M = _square(len(chain), bodies)
    for j, lower in enumerate(chain):
        u, s = _start(bodies)
        M[j][j] = bodies[j].J[5] if lower.turning else bodies[j].mass
        for i in range(j + 1, len(chain)):
            upper, body = chain[i], bodies[i]
            u = upper.turned_out(u)
            s = upper.turned_out([s[0] + upper.a, s[1], s[2]])
            s = [s[0], s[1], s[2] + upper.d]
            cx, cy = body.c[0], body.c[1]
            if lower.turning and upper.turning:
                J13, J23, J33 = body.J[2], body.J[4], body.J[5]
                value = u[0] * (J13 - cx * s[2]) + u[1] * (J23 - cy * s[2]) + u[2] * (J33 + (cx * s[0] + cy * s[1]))
            elif upper.turning:
                value = u[1] * cx - u[0] * cy
            elif lower.turning:
                value = u[0] * (body.mass * s[1] + cy) - u[1] * (body.mass * s[0] + cx)
            else:
                value = body.mass * u[2]
            M[i][j] = M[j][i] = value
    return M


def formulation_3(chain: Sequence[ChainJoint], bodies: Sequence[Composite]) -> list[list[Scalar]]:
    """Return the inertia matrix from u_j and _j^i ŝ = u_j x _j^i s in frame i (Renaud).

    Implements: LinFang1999 eq. (21), Table III.
    Differs: Signs and terms of the table as corrected in ERRATA C.
    """
    M = _square(len(chain), bodies)
    zero = 0 * bodies[0].mass
    for j, lower in enumerate(chain):
        u, _ = _start(bodies)
        S: Vector = [zero] * 3
        M[j][j] = bodies[j].J[5] if lower.turning else bodies[j].mass
        for i in range(j + 1, len(chain)):
            upper, body = chain[i], bodies[i]
            S = upper.turned_out(add(S, cross(u, [upper.a, zero, zero])))
            u = upper.turned_out(u)
            S = add(S, cross(u, [zero, zero, upper.d]))
            cx, cy = body.c[0], body.c[1]
            if lower.turning and upper.turning:
                J13, J23, J33 = body.J[2], body.J[4], body.J[5]
                value = u[0] * J13 + u[1] * J23 + u[2] * J33 + (cx * S[1] - cy * S[0])
            elif upper.turning:
                value = u[1] * cx - u[0] * cy
            elif lower.turning:
                value = body.mass * S[2] + (u[0] * cy - u[1] * cx)
            else:
                value = body.mass * u[2]
            M[i][j] = M[j][i] = value
    return M


def _start(bodies: Sequence[Composite]) -> tuple[Vector, Vector]:
    zero = 0 * bodies[0].mass
    return [zero, zero, zero + 1], [zero, zero, zero]


def _square(n: int, bodies: Sequence[Composite]) -> list[list[Scalar]]:
    return [[0 * bodies[0].mass] * n for _ in range(n)]
