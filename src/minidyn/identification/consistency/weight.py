"""The prior's weight by cross-validation: as strong as it helps to predict what was not fitted, zero allowed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.identification.consistency.geodesic import follow_geodesic
from minidyn.identification.consistency.primal_dual import Pair, follow
from minidyn.identification.consistency.prior import Seen, centre_of, shares_of
from minidyn.identification.consistency.solve import solve
from minidyn.identification.consistency.whitened import whiten
from minidyn.model.robot import Robot

Fold = tuple[Array, Array, Array, Array, float]
"""R and z of the fitted part, R and z of the held-out part, and what no parameters explain of the latter."""

WEIGHTS = tuple(10.0**k for k in range(6, -3, -1))
_WORSE = 0.02  # of the least misfit: two weights in a row that are worse by more end the search


def choose_weight(
    robot: Robot,
    base: BaseMap,
    folds: Sequence[Fold],
    prior: ArrayLike | None,
    *,
    prior_kind: str = "entropic",
    weights: Sequence[float] = WEIGHTS,
    mass: float | None = None,
    seen: Seen | None = None,
) -> tuple[float, Array]:
    """Return (weight, curve): the weight whose models predict held-out time blocks best, and all that were tried.

    Each fold is followed from the strongest weight to zero, every solution being the start of the next, so that a step
    costs a few Newton steps, about 5 ms. Around the best weight half decades are tried too.

    Args:
        robot: The robot.
        base: Its base parameters.
        folds: (R_train, z_train, R_valid, z_valid, rss_valid_extra) for each block held out, all in noise variances.
        prior: Believed standard parameters (p,), NaN where unknown; None: bodies drawn from the geometry.
        prior_kind: "entropic", "euclidean" or "geodesic".
        weights: Weights to try; zero is always tried.
        mass: Total mass of the moving links, kg, where it is known.
        seen: How large torques and speeds were.

    Returns:
        The weight, and (k, 2): weights in rising order and their held-out misfit, noise variances, summed over folds.
    """
    if not folds:
        raise MinidynError("choose_weight: at least one fold is needed")
    grid = sorted({float(weight) for weight in weights if weight > 0}, reverse=True)
    misfits: dict[float, float] = {}
    with single_thread():
        paths = [_Path(robot, base, fold, prior, prior_kind, mass, seen) for fold in folds]

        def held_out(weight: float) -> None:
            misfits[weight] = sum(path.held_out(weight) for path in paths)

        for weight in grid:
            held_out(weight)
            least = min(misfits.values())
            if all(value > (1 + _WORSE) * least for value in list(misfits.values())[-2:]) and weight < _best(misfits):
                break  # past the minimum: weaker ones are slower and no better
        held_out(0.0)
        best = _best(misfits)
        if best > 0 and len(grid) > 1:
            for near in (best * 10.0**0.5, best * 10.0**-0.5):
                held_out(near)
            best = _best(misfits)
    curve = np.array(sorted(misfits.items()))
    curve.setflags(write=False)
    return best, curve


def _best(misfits: dict[float, float]) -> float:
    """Return the weight of the least misfit; the strongest where several are equal."""
    return min(misfits, key=lambda weight: (misfits[weight], -weight))


class _Path:
    """One fold's models along the weights, each the start of the next."""

    def __init__(
        self,
        robot: Robot,
        base: BaseMap,
        fold: Fold,
        prior: ArrayLike | None,
        prior_kind: str,
        mass: float | None,
        seen: Seen | None,
    ) -> None:
        self.robot, self.base, self.fold, self.kind, self.mass = robot, base, fold, prior_kind, mass
        self.centre = centre_of(robot, base, fold[0], fold[1], prior, mass, seen)
        self.shares = shares_of(self.centre, prior is not None)
        self.pair: Pair | None = None

    def held_out(self, weight: float) -> float:
        """Return the misfit of the held-out part under this weight."""
        R, z, R_valid, z_valid, rest = self.fold
        problem = whiten(self.robot, self.base, R, z, self.centre, self.kind, weight, self.shares, self.mass)
        self.pair, _, converged = follow(problem, self.pair, tolerance=1e-6)
        x = self.pair.x if converged else solve(problem, "auto", [])[0]
        if self.kind == "geodesic" and weight > 0:
            x, *_ = follow_geodesic(problem, x, weight * self.shares)
        beta = self.base.matrix @ problem.phi(x)
        return float(np.sum((R_valid @ beta - z_valid) ** 2)) + float(rest)
