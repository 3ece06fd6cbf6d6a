"""Kinetic and potential energy, and the energy regressor.

Energy is linear in the same standard parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, scale, to_child


def kinetic_columns(tree: Tree, dq: Sequence[Scalar]) -> list[list[Scalar]]:
    """Return for each link the kinetic energy of unit XX ... M.

    Implements: Gautier1991 eq. (10).
    """
    half = tree.one * 0.5 if isinstance(tree.one, float) else tree.one / 2
    columns = []
    found: list[tuple[Vector, Vector]] = []
    for index, (move, speed) in enumerate(zip(tree.moves, dq)):
        w, v = tree.zeros, tree.zeros
        if tree.axes is not None and move.parent < 0:
            v, w = tree.root_vectors(dq)
        if move.parent >= 0:
            w, v = move.twist_to_child(*found[move.parent])
        if not move.fixed:
            angular, linear = move.unit_twist
            w = add(w, scale(speed, angular)) if move.turning else w
            v = add(v, scale(speed, linear)) if not move.turning or move.lever is not None else v
        found.append((w, v))
        tree.note("w", index, w)
        tree.note("v", index, v)
        first = cross(v, w)
        columns.append(
            [
                half * (w[0] * w[0]),
                w[0] * w[1],
                w[0] * w[2],
                half * (w[1] * w[1]),
                w[1] * w[2],
                half * (w[2] * w[2]),
                *first,
                half * dot(v, v),
            ]
        )
    return columns


def potential_columns(tree: Tree) -> list[list[Scalar]]:
    """Return for each link the potential energy of unit XX ...

    M; zero where the mass is at the world's origin.
    """
    columns = []
    base_height = tree.zero - dot(tree.to_world(tree.gravity), tree.base_shift)
    down: list[Vector] = []
    height: list[Scalar] = []
    for move in tree.moves:
        g = tree.gravity if move.parent < 0 else down[move.parent]
        h = base_height if move.parent < 0 else height[move.parent]
        own = to_child(move.turns, g)
        h = h - dot(g, move.shift)
        if move.lever is not None:
            h = h - dot(own, move.lever)
        down.append(own)
        height.append(h)
        columns.append([tree.zero] * 6 + [tree.zero - component for component in own] + [h])
    return columns
