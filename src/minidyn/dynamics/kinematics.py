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
    moves = link >= 0
    while link >= 0:
        move = tree.moves[link]
        if move.lever is not None:
            origin = add(origin, move.lever)
        origin = add(move.vector_to_parent(origin), move.shift)
        columns = [move.vector_to_parent(column) for column in columns]
        link = move.parent
    if moves or tree.axes is None:
        origin = add(tree.to_world(origin), tree.base_shift)
        columns = [tree.to_world(column) for column in columns]
    rows = [[columns[0][i], columns[1][i], columns[2][i], origin[i]] for i in range(3)]
    return [*rows, [tree.zero, tree.zero, tree.zero, tree.one]]


def link_jacobian(tree: Tree, link: int, shift: Vector | None = None) -> list[list[Scalar]]:
    """Return the 6 x (number of joints) Jacobian of a point of a link (-1: the base).

    Angular rows first, world axes. The point is given in the link's frame; None: its origin.
    """
    size = len(tree.moves) + len(tree.root_rows)
    J: list[list[Scalar]] = [[tree.zero] * size for _ in range(6)]
    root = columns = [tree.to_world(column) for column in tree.units]  # of the frame reached
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
    if link >= 0:
        reach = subtract(end, tree.base_shift)
        linear = [[*tree.zeros, *axis] for axis in root]
        angular = [[*axis, *cross(axis, reach)] for axis in root]
        for index, column in zip(tree.root_rows, (*linear, *angular)):
            for row, value in enumerate(column):
                J[row][index] = value
    return J
