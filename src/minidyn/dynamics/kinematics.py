"""Placements and Jacobians of links in the world."""

from __future__ import annotations

from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import (
    Scalar,
    Turn,
    Vector,
    add,
    combined,
    cross,
    subtract,
    to_parent,
    turn_columns,
)


def link_placement(
    tree: Tree, link: int, turns: tuple[Turn, ...] = (), shift: Vector | None = None
) -> list[list[Scalar]]:
    """Return the 4x4 placement in the world of a frame, at these turns and shift on a link (-1: the
    base).
    """
    columns = [to_parent(turns, column) for column in tree.units]
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
    """Return the 6 x (number of joints) Jacobian of a point of a link (-1: the base).

    Angular rows first, world axes. The point is given in the link's frame; None: its origin.
    """
    J: list[list[Scalar]] = [[tree.zero] * len(tree.moves) for _ in range(6)]
    columns = [
        to_parent(tree.base_turns, column) for column in tree.units
    ]  # of the frame reached, world axes
    origin = tree.base_shift
    passed: list[tuple[int, Vector, Vector]] = []  # joint, direction of its axis, a point on it
    for index in reversed(tree.path(link)):
        move = tree.moves[index]
        point = add(origin, combined(columns, move.shift))
        columns = turn_columns(move.turns, columns)
        origin = point if move.lever is None else add(point, combined(columns, move.lever))
        if not move.fixed:
            passed.append((index, combined(columns, move.axis), point))
    end = origin if shift is None else add(origin, combined(columns, shift))
    for index, axis, point in passed:
        turning = tree.moves[index].turning
        column = [*axis, *cross(axis, subtract(end, point))] if turning else [*tree.zeros, *axis]
        for row, value in enumerate(column):
            J[row][index] = value
    return J
