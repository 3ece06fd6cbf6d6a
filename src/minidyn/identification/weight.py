"""The prior's weight by cross-validation: as strong as it helps to predict what was not fitted, zero allowed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.base.base_map import BaseMap
from minidyn.blas import single_thread
from minidyn.errors import MinidynError
from minidyn.identification.prior import centre_of
from minidyn.identification.solve import solve
from minidyn.identification.whitened import newton, whiten
from minidyn.model.robot import Robot

__all__ = ["Fold", "choose_weight"]

Array = NDArray[np.float64]
Fold = tuple[Array, Array, Array, Array, float]
"""R and z of the fitted part, R and z of the held-out part, and what no parameters explain of the latter."""

WEIGHTS = tuple(10.0**k for k in range(6, -3, -1))


def choose_weight(
    robot: Robot,
    base: BaseMap,
    folds: Sequence[Fold],
    prior: ArrayLike | None,
    *,
    prior_kind: str = "entropic",
    weights: Sequence[float] = WEIGHTS,
    mass: float | None = None,
) -> tuple[float, Array]:
    """Return (weight, curve): the weight whose models predict held-out time blocks best, and all that were tried.

    Each fold is followed from the strongest weight to zero, every solution being the start of the next, so that a step
    costs a few Newton steps, about 5 ms. Around the best weight half decades are tried too.

    Args:
        robot: The robot.
        base: Its base parameters.
        folds: (R_train, z_train, R_valid, z_valid, rss_valid_extra) for each block held out, all in noise variances.
        prior: Believed standard parameters (p,), NaN where unknown; None: bodies drawn from the geometry.
        prior_kind: "entropic" or "euclidean".
        weights: Weights to try; zero is always tried.
        mass: Total mass of the moving links, kg, where it is known.

    Returns:
        The weight, and (k, 2): weights in rising order and their held-out misfit, noise variances, summed over folds.
    """
    if not folds:
        raise MinidynError("choose_weight: at least one fold is needed")
    grid = sorted({float(weight) for weight in weights if weight > 0}, reverse=True)
    misfits = _held_out(robot, base, folds, prior, prior_kind, [*grid, 0.0], mass)
    best = min(misfits, key=lambda weight: (misfits[weight], -weight))
    if best > 0 and len(grid) > 1:
        near = [best * 10.0**0.5, best * 10.0**-0.5]
        misfits.update(_held_out(robot, base, folds, prior, prior_kind, near, mass))
        best = min(misfits, key=lambda weight: (misfits[weight], -weight))
    curve = np.array(sorted(misfits.items()))
    curve.setflags(write=False)
    return best, curve


def _held_out(
    robot: Robot,
    base: BaseMap,
    folds: Sequence[Fold],
    prior: ArrayLike | None,
    prior_kind: str,
    weights: Sequence[float],
    mass: float | None,
) -> dict[float, float]:
    """Return the held-out misfit of each weight, given in falling order, summed over folds."""
    misfits = dict.fromkeys(weights, 0.0)
    with single_thread():
        for R, z, R_valid, z_valid, rest in folds:
            centre = centre_of(robot, base, R, z, prior, mass)
            concerned = np.ones_like(centre.known_links) if prior is None else centre.known_links
            found: Array | None = None
            for weight in weights:
                problem = whiten(robot, base, R, z, centre, prior_kind, weight, concerned, mass)
                start = problem.start if found is None else found
                x, _, converged = newton(problem, start, tolerance=1e-6)
                if not converged:
                    x, *_ = solve(problem, "auto", [])
                found = x
                beta = base.matrix @ problem.phi(x)
                misfits[weight] += float(np.sum((R_valid @ beta - z_valid) ** 2)) + float(rest)
    return misfits
