"""The inertia matrix from minimal linear combinations as LinFang1999 prints them.

`md.inertia_matrix(robot, q, base=...)` is the cheaper way, by virtual links. This one follows Table
VII line by line, corrected: first moments and inertia of composite bodies from the set, then
formulation 1 or 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.virtual_links import rigid_chain
from minidyn.dynamics.papers.chain import chain_at
from minidyn.dynamics.papers.table_vii import (
    Combinations,
    composites_of_set,
    set_formulation_1,
    set_formulation_2,
)
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import ShapeError, UnknownName, Unsupported
from minidyn.graph.function import Function, evaluate
from minidyn.graph.scalar import Graph
from minidyn.model.drives import ROTOR
from minidyn.model.geometry import TOLERANCE
from minidyn.model.mdh_rows import mdh_rows
from minidyn.model.robot import Robot

SET_FORMULATIONS = {1: set_formulation_1, 2: set_formulation_2}
"""Formulations that are written down for the set alone."""


def inertia_matrix_of_set(
    robot: Robot,
    q: ArrayLike,
    beta: ArrayLike | None = None,
    *,
    formulation: int = 1,
    tolerance: float = TOLERANCE,
) -> Array:
    """Return the inertia matrix (..., n, n) by LinFang1999's Table VII, rotors included.

    Args:
        robot: A serial chain.
        q: Positions (..., n).
        beta: Values (b,) of `md.base_parameters(robot, "mlc")`; None: the robot's own.
        formulation: 1 or 2.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Example:
        base = md.base_parameters(robot, "mlc")
        M = md.papers.inertia_matrix_of_set(robot, q, base.values())

    Raises:
        Unsupported: The robot is not an open serial chain.

    Implements: LinFang1999 Table VII with (7)-(11) or (20), from (22)-(26), (29)-(32), (34)-(55).
    """
    base = mlc_base(robot, tolerance=tolerance)
    values = base.values() if beta is None else np.asarray(beta, dtype=float)
    if values.shape != (base.rank,):
        raise ShapeError(f"beta: expected shape ({base.rank},), got {values.shape}")
    return np.asarray(evaluate(_program(robot, base, formulation), np.asarray(q, float), values))


def count_of_set(
    robot: Robot, formulation: int = 1, tolerance: float = TOLERANCE
) -> tuple[int, int]:
    """Return (multiplications, additions) of `inertia_matrix_of_set`, drives left out.

    Zeros of the robot's own geometry are folded; no pass rewrites the formulas. `operation_count`
    with `counting="paper"` adds up the lines of the table for general geometry.

    Args:
        robot: A serial chain.
        formulation: 1 or 2.
        tolerance: Axes that are special within this are exactly so.

    Implements: LinFang1999 Table VII in the robot's own geometry.
    """
    chain = rigid_chain(robot, tolerance)
    if chain is None:
        raise _no_chain(robot)
    rigid = chain[0]
    counts = _program(rigid, mlc_base(rigid, tolerance=0.0), formulation).counts
    return counts["mul"], counts["add"]


def _no_chain(robot: Robot) -> Unsupported:
    return Unsupported(f"Table VII: robot {robot.name!r} is not an open serial chain")


def _program(robot: Robot, base: BaseMap, formulation: int) -> Function:
    """Return the algorithm recorded: a function of q and of the set's values."""
    build = SET_FORMULATIONS.get(formulation)
    if build is None:
        raise UnknownName("formulation", str(formulation), [str(k) for k in SET_FORMULATIONS])
    chain = rigid_chain(robot, base.tolerance)
    if chain is None or base.structure is None:
        raise _no_chain(robot)
    graph = Graph()
    q = graph.inputs("q", robot.n)
    beta = dict(zip(base.names, graph.inputs("beta", base.rank, uniform=True)))
    rows = mdh_rows(chain[0])
    roles, n = base.structure.roles, len(rows)
    r = next((k for k, role in enumerate(roles) if role.turning), n)
    s = next((k for k, role in enumerate(roles) if role.s == role.number), n)
    found = [_combinations(beta, role.number) for role in roles]
    joints = chain_at(rows, list(q))
    M = build(joints, found, composites_of_set(joints, found, r, s), r, s)
    for k, role in enumerate(roles):
        M[k][k] = M[k][k] + beta.get(f"{ROTOR}{role.number}", 0.0)
    return graph.function("inertia_matrix", {"M": M})


def _combinations(beta: dict[str, Scalar], n: int) -> Combinations:
    """Return what the set holds of one joint; zeros for what has no effect."""

    def value(*names: str) -> Scalar:
        return next((beta[name] for name in names if name in beta), 0.0)

    return Combinations(
        mass=value(f"m{n}"),
        k=[value(f"k{n}{axis}") for axis in "xyz"],
        U=(
            value(f"U11_22_{n}"),
            value(f"U12_{n}"),
            value(f"U13_{n}", f"U13h_{n}"),  # with k = 0 they are the same
            value(f"U23_{n}", f"U23h_{n}"),
        ),
        U33=value(f"U33_{n}"),
        kappa=(value(f"kappa1_{n}"), value(f"kappa2_{n}")),
    )
