"""Motion along a reference: what adaptive control needs instead of measured accelerations.

The velocity torques are quadratic in the speeds. Their symmetric polar form, linear in dq and in a reference speed dq_r
alike, is C(q, dq) dq_r with the Christoffel matrix C, the one that makes Ṁ - 2C skew-symmetric. So every product of two
speeds in the Newton-Euler recursion is replaced by the mean of its two mixed products.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.newton_euler import LinkMotion, matrix_product, motion_of
from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, scale

__all__ = ["reference_motions"]


def reference_motions(
    tree: Tree, dq: Sequence[Scalar], dq_r: Sequence[Scalar], ddq_r: Sequence[Scalar]
) -> list[LinkMotion]:
    """Return link motions whose torques are M ddq_r + C dq_r + g.

    Args:
        tree: Geometry at q.
        dq: Speeds of all joints.
        dq_r: Reference speeds of all joints.
        ddq_r: Reference accelerations of all joints; for loops, with Ġ dq_r included.

    Implements: LuMeng1993 eq. (87), with the Christoffel C of the errata.
    """
    still = (tree.zeros, tree.zeros)
    base = _mixed(still, tree.zeros, [tree.zero - g for g in tree.gravity])
    found: list[LinkMotion] = []
    speeds: list[tuple[Vector, Vector]] = []
    for move, speed, reference, acceleration in zip(tree.moves, dq, dq_r, ddq_r):
        parent = base if move.parent < 0 else found[move.parent]
        w, w_r = (move.vector_to_child(v) for v in (still if move.parent < 0 else speeds[move.parent]))
        dw = move.vector_to_child(parent.dw)
        a = move.vector_to_child(add(parent.a, matrix_product(parent.A, move.shift)))
        if not move.fixed:
            own, own_r, gain = (scale(rate, move.axis) for rate in (speed, reference, acceleration))
            turning = add(cross(w, own_r), cross(w_r, own))
            if move.turning:
                dw = add(add(dw, gain), scale(0.5, turning))
                w, w_r = add(w, own), add(w_r, own_r)
            else:
                a = add(add(a, gain), turning)
        motion = _mixed((w, w_r), dw, a)
        if move.lever is not None:
            motion = _mixed((w, w_r), dw, add(a, matrix_product(motion.A, move.lever)))
        found.append(motion)
        speeds.append((w, w_r))
    return found


def _mixed(speeds: tuple[Vector, Vector], dw: Vector, a: Vector) -> LinkMotion:
    w, v = speeds
    yz = 0.5 * (w[1] * v[2] + v[1] * w[2])
    zx = 0.5 * (w[2] * v[0] + v[2] * w[0])
    xy = 0.5 * (w[0] * v[1] + v[0] * w[1])
    return motion_of(w, dw, a, [yz, zx, xy], [w[0] * v[0], w[1] * v[1], w[2] * v[2]])
