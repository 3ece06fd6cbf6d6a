"""Placements and Jacobians of links in the world."""

from __future__ import annotations

from minidyn.dynamics.regressor import twists_on_path
from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import Scalar, Turn, Vector, add, cross, to_parent

__all__ = ["link_jacobian", "link_placement"]


def link_placement(
    tree: Tree, link: int, turns: tuple[Turn, ...] = (), shift: Vector | None = None
) -> list[list[Scalar]]:
    """Return the 4x4 placement in the world of a frame on a link.

    Args:
        tree: Geometry at q.
        link: Index of the link, -1 for the base.
        turns: Of the frame on the link.
        shift: Of the frame on the link.
    """
    columns = [[tree.one if i == k else tree.zero for i in range(3)] for k in range(3)]
    columns = [to_parent(turns, column) for column in columns]
    origin = tree.zeros if shift is None else shift
    while link >= 0:
        move = tree.moves[link]
        if move.lever is not None:
            origin = add(origin, move.lever)
        origin = add(move.vector_to_parent(origin), move.shift)
        columns = [move.vector_to_parent(column) for column in columns]
        link = move.parent
    origin = add(to_parent(tree.base_turns, origin), tree.base_shift)
    columns = [to_parent(tree.base_turns, column) for column in columns]
    rows = [[columns[0][i], columns[1][i], columns[2][i], origin[i]] for i in range(3)]
    return [*rows, [tree.zero, tree.zero, tree.zero, tree.one]]


def link_jacobian(tree: Tree, link: int, shift: Vector | None = None) -> list[list[Scalar]]:
    """Return the 6 x (number of joints) Jacobian of a point of a link: angular rows first, world axes.

    Args:
        tree: Geometry at q.
        link: Index of the link, -1 for the base.
        shift: The point, in the link's frame; None: its origin.
    """
    J: list[list[Scalar]] = [[tree.zero] * len(tree.moves) for _ in range(6)]
    if link < 0:
        return J
    chain = [tree.moves[index] for index in tree.path(link)]
    for joint, (u, v) in twists_on_path(tree)[link].items():
        angular, linear = u, v if shift is None else add(v, cross(u, shift))
        for move in chain:
            angular, linear = move.vector_to_parent(angular), move.vector_to_parent(linear)
        world = [*to_parent(tree.base_turns, angular), *to_parent(tree.base_turns, linear)]
        for row, value in enumerate(world):
            J[row][joint] = value
    return J
