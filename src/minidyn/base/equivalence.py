"""Two sets of base parameters of one robot: the matrix between them, or why there is none."""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import units_of
from minidyn.base.printing.relations import RelationTerm, sum_text
from minidyn.errors import MinidynError, NotEquivalent, ShapeError


def equivalence(base_a: BaseMap, base_b: BaseMap, *, tolerance: float = 1e-9) -> Array:
    """Return the nonsingular matrix T (b, b) with beta_b = T beta_a for all standard parameters.

    Args:
        base_a: A map.
        base_b: Another map of a robot with the same standard parameters.
        tolerance: Largest coefficient that counts as none, in the robot's own units, against the largest term it is
            made of. A file whose axes are parallel to 1e-8 rad only (rounded to single precision once) leaves 1e-6 of
            the accuracy of its maps and needs that here.

    Raises:
        NotEquivalent: One set determines a combination that the other does not; the message names it.
        ShapeError: The maps belong to robots with different parameters.

    Implements: Lin1994 Corollary 6.
    """
    for base in (base_a, base_b):
        if not isinstance(base, BaseMap):
            raise MinidynError(f"equivalence: expected two results of md.base_parameters, got {base!r}")
    if base_a.robot.layout.names != base_b.robot.layout.names:
        raise ShapeError(
            f"equivalence: the maps have different standard parameters ({len(base_a.robot.layout)} of robot "
            f"{base_a.robot.name!r}, {len(base_b.robot.layout)} of robot {base_b.robot.name!r})"
        )
    _require_determined(base_b, base_a, "second", "first", tolerance)
    _require_determined(base_a, base_b, "first", "second", tolerance)
    return _in_terms_of(base_b, base_a)


def _in_terms_of(wanted: BaseMap, given: BaseMap) -> Array:
    """Return T with wanted.matrix = T given.matrix, read off in the columns that `given` keeps.

    There the rows of `given` are the identity, or its mixing matrix where it has one.
    """
    T: Array = wanted.matrix[:, list(given.robot.layout.indices(given.kept))]
    if given.mixing is not None:
        T = np.asarray(np.linalg.solve(given.mixing.T, T.T).T, dtype=float)
    return np.ascontiguousarray(T)


def _require_determined(wanted: BaseMap, given: BaseMap, one: str, other: str, tolerance: float) -> None:
    """Raise where some base parameter of `wanted` is no combination of those of `given`."""
    units = units_of(wanted.robot).parameters
    T = _in_terms_of(wanted, given)
    left = wanted.matrix - T @ given.matrix
    sizes = np.abs(wanted.matrix) + np.abs(T) @ np.abs(given.matrix)
    largest: Array = (sizes * units).max(axis=1, keepdims=True, initial=0.0)
    foreign = np.abs(left) * units > tolerance * largest
    rows = np.flatnonzero(foreign.any(axis=1))
    if len(rows) == 0:
        return
    row = int(rows[np.argmin(foreign[rows].sum(axis=1))])
    entries = [(wanted.robot.layout.names[k], wanted.matrix[row, k]) for k in np.flatnonzero(wanted.matrix[row])]
    shown = sum_text([RelationTerm(name, float(factor)) for name, factor in entries[:8]])
    shown += " + ..." if len(entries) > 8 else ""
    unseen = ", ".join(wanted.robot.layout.names[k] for k in np.flatnonzero(foreign[row])[:6])
    raise NotEquivalent(
        f"the sets are not equivalent: the {one} ({wanted.rank} parameters) determines {shown}, which the "
        f"{other} ({given.rank} parameters) does not: it does not see {unseen} in this combination"
    )
