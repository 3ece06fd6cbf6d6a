"""The body nearest to an uncertain set of ten parameters; where data are silent it is a compact one."""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.consistency.primal_dual import solve
from minidyn.identification.consistency.prior import upper_factor
from minidyn.identification.consistency.whitened import one_body
from minidyn.model.inertia import from_body, to_pseudo_inertia

_DENSITY = 1500.0  # kg/m³: between plastics and aluminium
_REACH = 0.3  # m: where a load's centre is expected, as standard deviation about the frame's origin
_FAINT = 0.05  # weight of the entropy, in noise variances


def compact_body(ten: Array, covariance: Array) -> Array:
    """Return a ball (10,) of the mass and the centre that uncertain parameters show, as far as they show them."""
    spread = float(np.sqrt(covariance[9, 9]))
    mass = max(float(ten[9]), 0.5 * spread, 1e-6)
    prior = np.eye(3) / (mass * _REACH) ** 2
    precision = np.linalg.inv(covariance[6:9, 6:9])
    centre = np.linalg.solve(precision + prior, precision @ ten[6:9]) / mass
    radius = (3.0 * mass / (4.0 * np.pi * _DENSITY)) ** (1.0 / 3.0)
    return from_body(mass, centre, 0.4 * mass * radius**2 * np.eye(3))


def nearest_body(ten: Array, covariance: Array) -> Array:
    """Return the physically consistent body (10,) nearest to `ten` in the metric of its covariance (10, 10).

    A faint entropy pulls to a ball of ordinary density with the mass and the centre that the data show.
    """
    deviation = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    root = (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T / deviation
    problem = one_body(root, root @ ten, upper_factor(to_pseudo_inertia(compact_body(ten, covariance))), _FAINT)
    return np.asarray(problem.phi(solve(problem).x)[0])
