"""The geodesic prior: distance between bodies along the shortest path through bodies that can exist.

½ ‖log P₀^-½ P P₀^-½‖² is the affine-invariant distance of pseudo-inertias (Lee and Park 2018; Lee, Wensing and Park
2020), up to the factor that makes it agree with the entropic and the Euclidean one near the prior. It depends on no
frame and no unit, and a body half as heavy is as far as one twice as heavy. It is not convex in the parameters, and no
semidefinite program states it. So it is replaced, again and again, by the entropy that has the same slope where the
last solution was and bends more: each such problem is convex, and each solution is better than the last.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.identification.consistency.prior import upper_factor
from minidyn.identification.consistency.solve import solve
from minidyn.identification.consistency.whitened import Whitened, newton, objective, symmetric
from minidyn.model.inertia import to_pseudo_inertia

_LIMIT = 200
_ENOUGH = 1e-9  # relative fall of the objective that ends the iteration


def geodesic_distance(phi: ArrayLike, prior: ArrayLike) -> Array:
    """Return ½ ‖log P₀^-½ P P₀^-½‖² of bodies (..., 10) from prior ones; infinite for impossible bodies."""
    inverse = np.linalg.inv(upper_factor(to_pseudo_inertia(prior)))
    values = np.linalg.eigvalsh(inverse @ to_pseudo_inertia(phi) @ np.swapaxes(inverse, -1, -2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.all(values > 0, axis=-1), 0.5 * np.sum(np.log(values) ** 2, axis=-1), np.inf)


def follow_geodesic(problem: Whitened, x: Array, pulls: Array) -> tuple[Array, int, bool]:
    """Return (x, steps, converged) of a problem whose links are held by the geodesic in place of the entropic distance.

    Args:
        problem: With the entropic distance, weighted by `pulls`.
        x: Its solution, where to start.
        pulls: Weight of the distance for each link (links,).
    """
    believed = upper_factor(symmetric(problem, problem.start))
    inverse = np.asarray(np.linalg.inv(believed), dtype=float)
    barrier = problem.kappa - pulls  # what always keeps a link possible
    held = np.flatnonzero(pulls > 0)
    if not len(held):
        return x, 0, True
    value, count = _objective(problem, x, inverse, barrier, pulls), 0
    for _ in range(_LIMIT):
        kappa, tilt = problem.kappa.copy(), problem.tilt.copy()
        values, vectors = _relative(problem, x, inverse)
        for index in held:
            logs = np.log(values[index])
            bend = 1.0 + float(np.abs(logs).max())  # the entropy's curvature over the distance's: at least 1 - log
            turn = vectors[index].T @ inverse[index]
            S = (turn.T * ((1.0 + logs / bend) / values[index])) @ turn
            kappa[index] = barrier[index] + pulls[index] * bend
            S = (barrier[index] * np.eye(4) + pulls[index] * bend * S) / kappa[index]
            tilt[index] = np.linalg.cholesky(S).T
        eased = replace(problem, kappa=kappa, tilt=tilt)
        trial, steps, converged = newton(eased, x, tolerance=1e-9)
        if not converged:
            trial, _, steps, converged = solve(eased, "auto", [])
        count += steps
        found = _objective(problem, trial, inverse, barrier, pulls)
        while found > value and not np.allclose(trial, x, rtol=0, atol=1e-14):  # bends were compared at x, not beyond
            trial = 0.5 * (trial + x)
            found = _objective(problem, trial, inverse, barrier, pulls)
        if found >= value:
            return x, count, True
        fallen, x, value = value - found, trial, found
        if fallen < _ENOUGH * max(1.0, abs(value)):
            return x, count, True
    return x, count, False


def _relative(problem: Whitened, x: Array, inverse: Array) -> tuple[Array, Array]:
    """Return eigenvalues (links, 4) and eigenvectors of each body as the believed one sees it."""
    values, vectors = np.linalg.eigh(inverse @ symmetric(problem, x) @ np.swapaxes(inverse, -1, -2))
    return values, vectors


def _objective(problem: Whitened, x: Array, inverse: Array, barrier: Array, pulls: Array) -> float:
    plain = replace(problem, kappa=np.maximum(barrier, 0.0), tilt=np.tile(np.eye(4), (problem.links, 1, 1)))
    entropic = objective(plain, x)
    if not np.isfinite(entropic):
        return np.inf
    values, _ = _relative(problem, x, inverse)
    return entropic + float(pulls @ (0.5 * np.sum(np.log(values) ** 2, axis=-1)))
