"""The body nearest to an uncertain set of ten parameters; where data are silent it is a compact one.

A pseudo-inertia U₀ U Uᵀ U₀ᵀ with log-Cholesky parameters of U is possible whatever they are. U₀ is a ball of ordinary
density with the mass and the centre that the data show, and the entropy of U Uᵀ pulls faintly to it.
"""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.consistency.log_cholesky import from_log_cholesky
from minidyn.identification.consistency.prior import upper_factor
from minidyn.model.inertia import from_body, from_pseudo_inertia, to_pseudo_inertia

_DENSITY = 1500.0  # kg/m³: between plastics and aluminium
_REACH = 0.3  # m: where a load's centre is believed to be, as standard deviation about the frame's origin
_FAINT = 0.05  # weight of the entropy, in noise variances
_OFF = ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))


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
    """Return the possible body (10,) nearest to `ten` in the metric of its covariance (10, 10)."""
    from scipy.optimize import least_squares

    compact = compact_body(ten, covariance)
    U0 = upper_factor(to_pseudo_inertia(compact))
    deviation = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    root = (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T / deviation
    faint = np.sqrt(_FAINT)

    def body(theta: Array) -> tuple[Array, Array, Array, Array]:
        U, dU = from_log_cholesky(theta)
        turned, slopes = U0 @ U, U0 @ dU
        dP = slopes @ turned.T
        phi = from_pseudo_inertia(turned @ turned.T)
        return phi, from_pseudo_inertia(dP + np.swapaxes(dP, -1, -2)).T, U, dU

    def residual(theta: Array) -> Array:
        phi, _, U, _ = body(theta)
        logs = 2.0 * np.append(theta[0] + theta[1:4], theta[0])
        entropy = np.sign(logs) * np.sqrt(np.maximum(np.expm1(logs) - logs, 0.0))
        return np.concatenate([root @ (phi - ten), faint * entropy, faint * np.array([U[p] for p in _OFF])])

    def jacobian(theta: Array) -> Array:
        _, slope, _, dU = body(theta)
        logs = 2.0 * np.append(theta[0] + theta[1:4], theta[0])
        safe = np.where(np.abs(logs) < 1e-6, 1.0, logs)
        grown = np.expm1(safe)
        derivative = np.where(np.abs(logs) < 1e-6, np.sqrt(0.5), 0.5 * grown / (np.sqrt(grown - safe) * np.sign(safe)))
        entropy = np.zeros((4, 10))
        entropy[:, 0] = 2.0 * derivative
        entropy[np.arange(3), 1 + np.arange(3)] = 2.0 * derivative[:3]
        off = np.stack([dU[:, i, j] for i, j in _OFF])
        return np.vstack([root @ slope, faint * entropy, faint * off])

    found = least_squares(residual, np.zeros(10), jacobian, method="trf", x_scale="jac", max_nfev=300)
    return body(found.x)[0]
