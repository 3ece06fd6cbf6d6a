"""Where the rigid part is held while terms are chosen: bodies that can exist, with a wide spread.

The bodies are those of the prior, or drawn from the geometry. In the metric of its pseudo-inertia P
= U Uᵀ a body deviates by U E Uᵀ with E Gaussian: masses and inertias by the same share, whatever
their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import regressor
from minidyn.identification.consistency.prior import Prior, centres_of, prior_parameters
from minidyn.identification.data import Data
from minidyn.identification.held_out import Anchor
from minidyn.identification.rows.triangles import triangle_of
from minidyn.model.drives import ROTOR
from minidyn.model.parameters import from_pseudo_inertia, to_pseudo_inertia
from minidyn.model.robot import Robot

SPREAD = 0.5
"""Standard deviation of bodies over the anchor's: files err by a third, drawn bodies by more."""

ROTOR_SPREAD = 3.0
"""Standard deviation of rotor inertias over the inertia that they move: hardly a limit."""

_UNKNOWN_TERMS = ("load", "presliding", "breakaway")  # before a model and its states are known
_ROUNDS = 3  # of weights and noise in agreement
_OPEN = 1e-10  # rounding: of the largest singular value, below which a direction is open


def anchor_of(
    robot: Robot, base: BaseMap, data: Data, prior: Prior, owners: Sequence[Robot] = ()
) -> tuple[Anchor, Array]:
    """Return the anchor of a robot's rigid part, and the noise (n,) that plain rows leave."""
    R, z, noise_std = _triangle(robot, base, data)
    (centre,) = centres_of(robot, base, [(R, z)], prior_parameters(robot, prior, owners))
    places = [base.kept.index(name) for name in data.rigid]
    mapped = base.matrix if base.mixing is None else np.linalg.solve(base.mixing, base.matrix)
    rows = np.asarray(mapped)[places]
    roots = []
    for part in robot.layout.links:
        factor = np.linalg.cholesky(to_pseudo_inertia(centre.phi[part]))
        for a in range(4):
            for b in range(a, 4):
                change = np.zeros((4, 4))
                change[a, b] = change[b, a] = 1.0 if a == b else np.sqrt(0.5)
                body = from_pseudo_inertia(factor @ change @ factor.T)
                roots.append(SPREAD * (rows[:, part] @ body))
    for columns in robot.layout.drives:
        for column in columns:
            if column.is_rigid:
                spread = ROTOR_SPREAD if column.symbol == ROTOR else 1.0 / _OPEN
                roots.append(spread * centre.scales[column.index] * rows[:, column.index])
    root = np.array(roots).T
    covariance = root @ root.T
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    scaled = covariance / np.outer(size, size) + 1e-9 * np.eye(len(size))
    precision = np.linalg.inv(scaled) / np.outer(size, size)
    return Anchor(rows @ centre.phi, 0.5 * (precision + precision.T)), noise_std


def _triangle(robot: Robot, base: BaseMap, data: Data) -> tuple[Array, Array, Array]:
    """Return least squares of the starting terms: R (b, b), z (b,) in units of the noise (n,)."""
    m = data.motion
    plain = robot.with_joints(lambda j: replace(j, drive=j.drive.without(*_UNKNOWN_TERMS)))
    known = [k for k, name in enumerate(base.kept) if name in plain.layout]
    Y = np.zeros((*m.tau.shape, len(base.kept)))
    Y[..., known] = regressor(plain, m.q, m.dq, m.ddq, columns=[base.kept[k] for k in known])
    if base.mixing is not None:
        Y = Y @ np.linalg.inv(base.mixing)
    # of each row once: rounds weigh small triangles
    factors = [
        triangle_of(np.concatenate([Y[:, row], m.tau[:, [row]]], axis=1))
        for row in range(Y.shape[1])
    ]
    noise_std = np.ones(Y.shape[1])
    for _ in range(_ROUNDS):
        factor = triangle_of(np.concatenate([f / std for f, std in zip(factors, noise_std)]))
        R, z = factor[:-1, :-1], factor[:-1, -1]
        beta = np.linalg.lstsq(R, z, rcond=_OPEN)[0]
        noise_std = np.maximum(
            np.std(m.tau - Y @ beta, axis=0), 1e-9 * np.std(m.tau, axis=0) + 1e-12
        )
    return R, z, noise_std
