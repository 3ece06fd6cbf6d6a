"""The joint-torque regressor Y(q, dq, ddq) with tau = Y phi, every column included.

The twist that unit speed of joint j gives link i meets the wrench that unit value of each of link i's parameters needs:
ten short dot products per pair, instead of carrying ten wrenches down the chain. `all_columns` and `chosen_columns` go
from these blocks, link by link, to the columns for the independent coordinates.

Motion along a reference is what adaptive control needs instead of measured accelerations. The velocity torques are
quadratic in the speeds. Their symmetric polar form, linear in dq and in a reference speed dq_r alike, is C(q, dq) dq_r
with the Christoffel matrix C, the one that makes Ṁ - 2C skew-symmetric. So every product of two speeds in the
Newton-Euler recursion is replaced by the mean of its two mixed products.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from minidyn.arrays import Array
from minidyn.dynamics.drives import DriveColumn
from minidyn.dynamics.newton_euler import LinkMotion, link_motions, matrix_product, motion_of
from minidyn.dynamics.papers.sixteen import sixteen_layout, sixteen_links
from minidyn.dynamics.tree import Coordinates, Tree
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, scale, weighted_sum
from minidyn.graph.derivative import tangents
from minidyn.graph.node import Node
from minidyn.model.robot import Robot


def reference_motions(
    tree: Tree, dq: Sequence[Scalar], dq_r: Sequence[Scalar], ddq_r: Sequence[Scalar]
) -> list[LinkMotion]:
    """Return link motions whose torques are M ddq_r + C dq_r + g; for loops, ddq_r of all joints includes Ġ dq_r.

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


def link_columns(motion: LinkMotion) -> list[Vector]:
    """Return the moments (about the origin) that unit XX, XY, XZ, YY, YZ, ZZ of a link need."""
    A, dw = motion.A, motion.dw
    yz, zx, xy = motion.ww
    return [
        [dw[0], zx, -xy],
        [-A[2][0], A[2][1], A[0][0] - A[1][1]],
        [A[1][0], A[2][2] - A[0][0], -A[1][2]],
        [-yz, dw[1], xy],
        [A[1][1] - A[2][2], -A[0][1], A[0][2]],
        [yz, -zx, dw[2]],
    ]


def row_of_ten(motion: LinkMotion, moments: list[Vector], u: Vector, v: Vector) -> list[Scalar]:
    """Return the power of unit parameters XX ... M of a link against the twist (u, v) in its frame."""
    A, a = motion.A, motion.a
    return [
        *(dot(u, moment) for moment in moments),
        v[0] * A[0][0] + v[1] * A[1][0] + v[2] * A[2][0] + (u[2] * a[1] - u[1] * a[2]),
        v[0] * A[0][1] + v[1] * A[1][1] + v[2] * A[2][1] + (u[0] * a[2] - u[2] * a[0]),
        v[0] * A[0][2] + v[1] * A[1][2] + v[2] * A[2][2] + (u[1] * a[0] - u[0] * a[1]),
        dot(v, a),
    ]


def twists_on_path(tree: Tree) -> list[dict[int, tuple[Vector, Vector]]]:
    """Return for each link {joint on its path: twist of the link at its origin, in its frame, for unit speed}."""
    found: list[dict[int, tuple[Vector, Vector]]] = []
    for index, move in enumerate(tree.moves):
        own = {}
        if move.parent >= 0:
            own = {joint: move.twist_to_child(*twist) for joint, twist in found[move.parent].items()}
        if not move.fixed:
            own[index] = move.unit_twist
        found.append(own)
    return found


def rigid_regressor(tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar]) -> list[dict[int, list[Scalar]]]:
    """Return for each link {joint: ten entries}: the non-zero blocks of the regressor of all joints.

    Implements: Gautier1991 eq. (8), LuMeng1993 eq. (70)-(85) in ten parameters a link.
    """
    return regressor_blocks(tree, link_motions(tree, dq, ddq))


def regressor_blocks(tree: Tree, motions: Sequence[LinkMotion]) -> list[dict[int, list[Scalar]]]:
    """Return for each link {joint: ten entries} for given motions of the links."""
    blocks = []
    for motion, twists in zip(motions, twists_on_path(tree)):
        moments = link_columns(motion)
        blocks.append({joint: row_of_ten(motion, moments, u, v) for joint, (u, v) in twists.items()})
    return blocks


Block = Mapping[int, Sequence[Scalar]]
"""Of one link: {joint: entries of its parameters}."""


def all_columns(
    robot: Robot, blocks: Sequence[Block], drives: Iterable[DriveColumn], sixteen: bool = False
) -> list[list[Scalar]]:
    """Return the regressor of all joints, a row for each and a column for each parameter, from the links' blocks."""
    layout = sixteen_layout(robot) if sixteen else robot.layout
    parts = sixteen_links(layout) if sixteen else layout.links
    every: list[list[Scalar]] = [[0.0] * len(layout) for _ in robot.joints]
    for part, block in zip(parts, blocks):
        for joint, entries in block.items():
            every[joint][part] = entries
    for column in drives:
        place = layout.index(robot.layout.names[column.index])
        for joint, ratio in column.ratios.items():
            every[joint][place] = ratio * column.value
    return every


def chosen_columns(
    c: Coordinates, every: Sequence[Sequence[Scalar]], columns: Sequence[int] | None, combine: Array | None
) -> list[list[Scalar]]:
    """Return the regressor (n rows) of the independent coordinates from that of all joints.

    Columns are those wanted (None: all), `combine` combinations (wanted, b) of these that are wanted instead.
    """
    chosen = range(len(every[0]) if every else 0) if columns is None else columns
    projected = [c.project([row[k] for row in every]) for k in chosen]
    if combine is not None:
        projected = [
            [weighted_sum(combine[:, new].tolist(), [column[row] for column in projected]) for row in range(c.n)]
            for new in range(combine.shape[1])
        ]
    return [[column[row] for column in projected] for row in range(c.n)]


def drifting(c: Coordinates, q: Sequence[Node], dq: Sequence[Scalar]) -> Coordinates | None:
    """Return the coordinates with dG/dt for G; None where G is constant.

    The momentum of the independent coordinates is Gᵀ times that of all joints: its rate holds dG/dt too.
    """
    if not any(isinstance(value, Node) for row in c.G for value in row.values()):
        return None
    seeds = dict(zip(q, dq))
    return replace(c, G=[{column: tangents([value], seeds)[0] for column, value in row.items()} for row in c.G])
