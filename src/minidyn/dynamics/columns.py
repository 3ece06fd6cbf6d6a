"""From the blocks of a regressor, link by link, to its columns for the independent coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from minidyn.arrays import Array
from minidyn.dynamics.coordinates import Coordinates
from minidyn.dynamics.drives import DriveColumn
from minidyn.dynamics.papers.sixteen import sixteen_layout, sixteen_links
from minidyn.dynamics.vectors import Scalar
from minidyn.graph.derivative import tangents
from minidyn.graph.node import Node
from minidyn.model.robot import Robot

Block = Mapping[int, Sequence[Scalar]]
"""Of one link: {joint: entries of its parameters}."""


def all_columns(
    robot: Robot, blocks: Sequence[Block], drives: Iterable[DriveColumn], sixteen: bool = False
) -> list[list[Scalar]]:
    """Return the regressor of all joints: a row for each, a column for each parameter.

    Args:
        robot: The robot.
        blocks: For each link {joint: ten entries, or sixteen}.
        drives: Drive columns that take part.
        sixteen: Whether links have sixteen parameters.
    """
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
    """Return the regressor (n rows) of the independent coordinates.

    Args:
        c: The coordinates.
        every: Regressor of all joints.
        columns: Those wanted; None: all.
        combine: Combinations (wanted, b) of these that are wanted instead; None: they themselves.
    """
    chosen = range(len(every[0]) if every else 0) if columns is None else columns
    projected = [c.project([row[k] for row in every]) for k in chosen]
    if combine is not None:
        projected = [
            [_weighted(combine[:, new], [column[row] for column in projected]) for row in range(c.n)]
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


def _weighted(weights: Array, values: Sequence[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for weight, value in zip(weights, values):
        if weight != 0.0:
            total = total + float(weight) * value
    return total
