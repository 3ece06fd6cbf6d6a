"""Where the numbers of an identified link come from: from the data, or from the prior.

Torques show base parameters only; what lies beside them keeps the value of the prior. With a prior
spread S of the standard parameters φ and the covariance C with which the data alone give β = B φ,
the data shrink the spread to

    V = S - S Bᵀ (B S Bᵀ + C)⁻¹ B S

and the data's share of a quantity y(φ) is 1 - (g V gᵀ) / (g S gᵀ), g the derivative of y: 1 where
the data decide alone, 0 where they say nothing. Links and base parameters are judged alike. S is
that of the affine-invariant metric of pseudo-inertias (Lee, Wensing and Park 2020): each body may
be off by its own size, which depends on no frame and no unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.export import Identified
from minidyn.identification.sizes import ROUNDING
from minidyn.model.parameters import from_pseudo_inertia, to_body, to_pseudo_inertia

STEP = 1e-6  # rounding: step of a derivative, relative
MAX_STD = 1e6  # rounding: of a base parameter over its size: beyond it is not determined


@dataclass(frozen=True)
class LinkOrigin:
    """A link before and after identification, and the data's share of each quantity (0 … 1; NaN:
    not known).
    """

    name: str
    before: tuple[
        float, Array, Array
    ]  # mass, kg; centre of mass (3,), m; principal inertias (3,), kg m²
    after: tuple[float, Array, Array]
    shares: tuple[float, float, float]  # of mass, centre of mass, inertias


def link_origins(estimate: Identified) -> tuple[LinkOrigin, ...]:
    """Return for each link of an estimate its values before and after and the data's share of
    them.
    """
    robot, described = estimate.robot, estimate.base.robot
    spreads, found = _spreads(estimate), []
    for name, part in zip(robot.link_names, robot.layout.links):
        shares = [float("nan")] * 3
        if spreads is not None:
            own = [whole[part, part] for whole in spreads]
            slopes = (_derivative(quantity, robot.parameters[part]) for quantity in _QUANTITIES)
            shares = [_share(slope, *own) for slope in slopes]
        values = (_values(described.parameters[part]), _values(robot.parameters[part]))
        found.append(LinkOrigin(name, *values, (shares[0], shares[1], shares[2])))
    return tuple(found)


def data_shares(estimate: Identified) -> Array:
    """Return the data's share of each base parameter (b,), 0 … 1, the rest is the prior's.

    NaN: not known.
    """
    spreads = _spreads(estimate)
    if spreads is None:
        return np.full(len(estimate.beta), np.nan)
    return np.array([_share(row[None], *spreads) for row in estimate.base.matrix])


def _spreads(estimate: Identified) -> tuple[Array, Array] | None:
    """Return S and V (p, p) each; None where a parameter is unknown."""
    spread = _prior_spread(estimate)
    left = None if spread is None else _left(estimate, spread)
    return None if spread is None or left is None else (spread, left)


def principal_inertias(phi: Array) -> Array:
    """Return the principal moments of inertia (3,) about the centre of mass, rising, kg m².

    NaN where not known.
    """
    inertia = to_body(phi)[2]
    return np.asarray(
        np.linalg.eigvalsh(inertia) if np.isfinite(inertia).all() else np.full(3, np.nan)
    )


def _values(phi: Array) -> tuple[float, Array, Array]:
    mass, com, _ = to_body(phi)
    return mass, com, principal_inertias(phi)


_QUANTITIES: tuple[Callable[[Array], Array], ...] = (
    lambda phi: phi[9:],
    lambda phi: to_body(phi)[1],
    lambda phi: to_body(phi)[2][np.triu_indices(3)],
)
"""Formula: of mass, centre and inertia, which is smooth where principal inertias are equal."""


def _prior_spread(estimate: Identified) -> Array | None:
    """S (p, p): of each link its own size, of each drive term its value.

    None where a parameter is unknown.
    """
    robot = estimate.robot
    size = np.zeros((len(robot.parameters),) * 2)
    for part in robot.layout.links:
        pseudo = to_pseudo_inertia(robot.parameters[part])
        if not np.isfinite(pseudo).all():
            return None
        values, vectors = np.linalg.eigh(pseudo)
        root = vectors * np.sqrt(np.maximum(values, ROUNDING * max(float(values[-1]), 1e-12)))
        # δP = L E Lᵀ with E the unit symmetric matrices: of length one in the metric
        directions = []
        for i, j in zip(*np.triu_indices(4)):
            unit = np.zeros((4, 4))
            unit[i, j] = unit[j, i] = 1.0 if i == j else np.sqrt(0.5)
            directions.append(from_pseudo_inertia(root @ unit @ root.T))
        stacked = np.array(directions)
        size[part, part] = stacked.T @ stacked
    drives = [column.index for columns in robot.layout.drives for column in columns]
    size[drives, drives] = robot.parameters[drives] ** 2 + 1e-12
    return size if np.isfinite(size).all() else None


def _left(estimate: Identified, spread: Array) -> Array | None:
    """V (p, p): what is left of the spread after the data."""
    B = estimate.base.matrix
    scale = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", B, spread, B), 1e-30))
    std = np.sqrt(np.diag(estimate.of_data)) / scale
    seen = np.isfinite(std) & (std < MAX_STD)
    if not seen.any():
        return spread
    rows = B[seen] / scale[seen, None]
    noise = estimate.of_data[np.ix_(seen, seen)] / np.outer(scale[seen], scale[seen])
    gain = rows @ spread
    try:
        return np.asarray(spread - gain.T @ np.linalg.solve(gain @ rows.T + noise, gain))
    except np.linalg.LinAlgError:
        return None


def _derivative(quantity: Callable[[Array], Array], phi: Array) -> Array:
    steps = STEP * np.maximum(np.abs(phi), 1e-3 * np.abs(phi).max())
    return np.stack(
        [(quantity(phi + h) - quantity(phi - h)) / (2 * h.sum()) for h in np.diag(steps)], axis=-1
    )


def _share(g: Array, spread: Array, left: Array) -> float:
    whole = float(np.trace(g @ spread @ g.T))
    return (
        float(np.clip(1.0 - np.trace(g @ left @ g.T) / whole, 0.0, 1.0))
        if whole > 0
        else float("nan")
    )
