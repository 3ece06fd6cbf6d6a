"""Sixteen parameters a link.

Mass, centre of mass and inertia about the centre of mass, as they enter the dynamics. Masses and
lengths that a person knows (m, px, Ixx about the centre of mass) are not linear in the dynamics;
sixteen products of them are. They have rank 10: the standard parameters are a linear map of them,
and this file holds that map, their names, and the Newton-Euler recursion that carries their columns
from the tips to the base.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.newton_euler import LinkMotion, link_motions
from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, subtract
from minidyn.model.parameters import Column, Layout, from_lumeng16, to_body
from minidyn.model.robot import Robot

SIXTEEN = (
    *("m", "mpx", "mpy", "mpz"),
    *("mpxpx", "mpypy", "mpzpz", "mpxpy", "mpxpz", "mpypz"),
    *("Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz"),
)
"""Symbols in the paper's order; Ixx ... are about the centre of mass, Ixy = +∫xy dm."""

_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
# place among the sixteen, and sign, of XX XY XZ YY YZ ZZ MX MY MZ M for a body whose centre is at
# the origin
_STANDARD = (
    (10, 1),
    (13, -1),
    (14, -1),
    (11, 1),
    (15, -1),
    (12, 1),
    (1, 1),
    (2, 1),
    (3, 1),
    (0, 1),
)
_ROUNDING = 1e-12


def sixteen_layout(robot: Robot) -> Layout:
    """Return the named columns.

    "m1", "mpx1", ..., "Iyz1", then the drive terms of joint 1, then link 2 ...
    """
    columns: list[Column] = []
    for joint, drives in enumerate(robot.layout.drives):
        for symbol in (*SIXTEEN, *(column.symbol for column in drives)):
            columns.append(Column(symbol, joint, len(columns)))
    return Layout(tuple(columns))


def sixteen_links(layout: Layout) -> tuple[slice, ...]:
    """Return for each link where its sixteen parameters stand."""
    starts = [column.index for column in layout.columns if column.symbol == SIXTEEN[0]]
    return tuple(slice(start, start + len(SIXTEEN)) for start in starts)


def sixteen_map(robot: Robot) -> Array:
    """Return L (p, P) with standard parameters = L @ sixteen parameters.

    Regressors go Y16 = Y L.
    """
    layout = sixteen_layout(robot)
    L = np.zeros((len(robot.layout), len(layout)))
    for own, other in zip(robot.layout.links, sixteen_links(layout)):
        L[own, other] = from_lumeng16(np.eye(len(SIXTEEN))).T
    for column in robot.layout.columns:
        if not column.is_inertial:
            L[column.index, layout.index(column.name)] = 1.0
    return L


def sixteen_parameters(robot: Robot, values: Array) -> Array:
    """Return the sixteen parameters of each link, and the drive terms, of standard parameters (p,).

    NaN stands where a value is unknown. What cancels to rounding when inertia is moved to the
    centre of mass is an exact zero, so that a point mass is seen as one.
    """
    layout = sixteen_layout(robot)
    theta = np.full(len(layout), np.nan)
    for own, other in zip(robot.layout.links, sixteen_links(layout)):
        theta[other] = _sixteen(values[own])
    for column in robot.layout.columns:
        if not column.is_inertial:
            theta[layout.index(column.name)] = values[column.index]
    return theta


def sixteen_regressor(
    tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar]
) -> list[dict[int, list[Scalar]]]:
    """Return for each link {joint: sixteen entries} by the iterative algorithm.

    Columns of unit-parameter wrenches start at each link, are carried inward joint by joint and
    give, at every joint they pass, an entry of its row: the moment about a rotational joint's axis,
    the force along a translational one's.

    Implements: LuMeng1993 eq. (66)-(85), (100)-(116), corrected as in ERRATA F ((71), (104),
    (111)).

    Differs: trees, frames away from their joints and any axis; the columns of each link are
    carried by themselves, which is (82) and (84) without their zero blocks.
    """
    blocks = []
    for index, motion in enumerate(link_motions(tree, dq, ddq)):
        wrenches = _wrench_columns(tree, motion)
        block: dict[int, list[Scalar]] = {}
        for joint in tree.path(index):
            move = tree.moves[joint]
            if not move.fixed:
                angular, linear = move.unit_twist
                block[joint] = [
                    dot(angular, moment) + dot(linear, force) for force, moment in wrenches
                ]
            if move.parent >= 0:
                wrenches = [move.wrench_to_parent(force, moment) for force, moment in wrenches]
        blocks.append(block)
    return blocks


def standard_entries(sixteen: Sequence[Scalar]) -> list[Scalar]:
    """Return the ten entries XX ...

    M among sixteen of a row: unit Ixx, with the centre at the origin, is unit XX.
    """
    return [sixteen[place] if sign > 0 else -sixteen[place] for place, sign in _STANDARD]


def _wrench_columns(tree: Tree, motion: LinkMotion) -> list[tuple[Vector, Vector]]:
    """Return (force, moment about the origin) that unit value of each of the sixteen needs.

    A, Φ and E.
    """
    zeros, units, A, a = tree.zeros, tree.units, motion.A, motion.a
    columns = [[row[k] for row in A] for k in range(3)]
    found = [(a, zeros)]
    for k in range(3):  # m p x a and the columns of H
        found.append((columns[k], cross(units[k], a)))
    for i, j in _PAIRS:  # p x H p, one product of coordinates at a time
        moment = cross(units[i], columns[j])
        found.append((zeros, moment if i == j else add(moment, cross(units[j], columns[i]))))
    for i, j in _PAIRS:  # B(dw) + w x B(w)
        spinning = cross(motion.w, _unit_tensor(i, j, motion.w, zeros))
        found.append((zeros, add(_unit_tensor(i, j, motion.dw, zeros), spinning)))
    return found


def _unit_tensor(i: int, j: int, d: Vector, zeros: Vector) -> Vector:
    """Return the column of B(d): the tensor of unit Iij times d; off the diagonal it holds -1."""
    column = list(zeros)
    if i == j:
        column[i] = d[i]
        return column
    column[i], column[j] = d[j], d[i]
    return subtract(zeros, column)


def _sixteen(ten: Array) -> Array:
    """Return the sixteen parameters of a link, NaN where they rest on an unknown value."""
    if not np.isnan(ten).any():
        mass, p, inertia = to_body(ten)
        scale = np.abs(ten[:6]).max() + mass * float(p @ p)
    else:
        mass = float(ten[9])
        p = ten[6:9] / mass if mass else np.full(3, np.nan)
        about_origin = np.array(
            [[ten[0], ten[1], ten[2]], [ten[1], ten[3], ten[4]], [ten[2], ten[4], ten[5]]]
        )
        inertia = about_origin - mass * (p @ p * np.eye(3) - np.outer(p, p))
        scale = 0.0
    inertia = np.where(np.abs(inertia) <= _ROUNDING * scale, 0.0, inertia)
    second = [mass * p[i] * p[j] for i, j in _PAIRS]
    third = [inertia[i, j] if i == j else 0.0 - inertia[i, j] for i, j in _PAIRS]
    return np.concatenate([[mass], ten[6:9], second, third])
