"""From base parameters to bodies that can exist: the nearest possible model to the data, with proof.

Least squares knows nothing of physics: noise, and directions the motion hardly shows, give negative masses and
inertias. Here full parameters are found that fit the data as well as any possible robot can, and where data are silent
lie near what is believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.identification.consistency.certificate import Certificate, certify
from minidyn.identification.consistency.geodesic import follow_geodesic, geodesic_distance
from minidyn.identification.consistency.prior import Centre, Seen, centre_of, shares_of
from minidyn.identification.consistency.solve import SOLVERS, solve
from minidyn.identification.consistency.whitened import Whitened, objective, whiten
from minidyn.model.robot import Robot

PRIOR_KINDS = ("entropic", "euclidean", "geodesic")
_COSTLY = 0.05  # torque error, relative to the torque, that consistency may add before a notice asks why
_COSTLY_RESIDUAL = 0.1  # growth of the residual's root mean square, likewise
_ATTEMPTS = 3
_ENOUGH = 1e6  # misfit, in noise variances, beyond which the noise is not what keeps data and bodies apart


@dataclass(frozen=True, eq=False)
class ConsistentFit:
    """A physically possible model and what it costs.

    Attributes:
        phi: Standard parameters (p,), every link strictly realizable.
        beta: Base parameters (b,) of phi.
        misfit: ‖R beta - z‖² of the result, in noise variances.
        misfit_before: The same at its minimum over all beta, possible or not.
        prior_distance: Distance from the believed parameters, without its weight.
        weight: Weight of that distance.
        certificate: The numbers that prove the model possible.
        solver: What found it: "newton", "lmi" or "log_cholesky".
        iterations: Iterations of that solver and of the Newton steps after it.
        notices: What a reader should know.
    """

    phi: Array
    beta: Array
    misfit: float
    misfit_before: float
    prior_distance: float
    weight: float
    certificate: Certificate
    solver: str
    iterations: int
    notices: tuple[str, ...]

    @property
    def increase(self) -> float:
        """What consistency and prior add to the data misfit, in noise variances."""
        return self.misfit - self.misfit_before

    def __repr__(self) -> str:
        return (
            f"ConsistentFit({len(self.phi)} parameters, misfit + {self.increase:.3g} noise variances, prior weight "
            f"{self.weight:g}, {self.solver}, {self.iterations} iterations)"
        )


def make_consistent(
    robot: Robot,
    base: BaseMap,
    R: ArrayLike,
    z: ArrayLike,
    *,
    prior: ArrayLike | None = None,
    prior_kind: str = "entropic",
    weight: float = 0.0,
    solver: str = "auto",
    mass: float | None = None,
    rss: float | None = None,
    seen: Seen | None = None,
) -> ConsistentFit:
    """Return the possible standard parameters phi that minimise ‖R beta(phi) - z‖² + weight · D(phi, prior).

    Every link gets a positive pseudo-inertia (with a margin), rotor inertias and viscous and Coulomb friction are not
    negative. Whatever the data leave open is pulled, so faintly that data of any use win, to the prior or to bodies
    drawn from the geometry; masses a little more firmly, so that they stay sane.

    Args:
        robot: The robot; its own parameter values are not read.
        base: Its base parameters: beta = base.matrix @ phi.
        R: (b, b) triangle of the data in units of their noise: one unit of misfit is one noise variance.
        z: Right side (b,).
        prior: Believed standard parameters (p,), NaN where unknown: a link counts as known where all ten are.
        prior_kind: "entropic" (log-det divergence), "euclidean" (in the metric of the prior's inertia) or "geodesic"
            (affine-invariant, of links; rotor inertias stay entropic).
        weight: Of the prior's distance, in noise variances; 0: only what data leave open follows the prior. Without a
            prior it holds for the bodies drawn from the geometry.
        solver: "newton" (primal-dual steps), "lmi" (cvxpy and Clarabel), "log_cholesky" (descent in
            numbers that need no constraint), "auto": the first that converges.
        mass: Total mass of the moving links, kg, where it is known (to about 2 %).
        rss: Sum of squares that no beta explains, in noise variances; makes the notice on costs more exact.
        seen: How large torques and speeds were: joints that crawl have their drive terms held more firmly.

    Raises:
        ShapeError: Arrays do not fit together.
        MinidynError: Data, weight or mass are not finite or negative.
        UnknownName: No such solver or kind of prior.
    """
    R, z = _checked(robot, base, R, z)
    for kind, name, known in (("prior kind", prior_kind, PRIOR_KINDS), ("solver", solver, SOLVERS)):
        if name not in known:
            raise UnknownName(kind, name, known)
    if not (math.isfinite(weight) and weight >= 0):
        raise MinidynError(f"weight: expected a number that is not negative, got {weight!r}")
    if mass is not None and not (math.isfinite(mass) and mass > 0):
        raise MinidynError(f"mass: expected a positive number of kilograms, got {mass!r}")
    centre = centre_of(robot, base, R, z, prior, mass, seen)
    shares = shares_of(centre, prior is not None)
    factor, iterations = 1.0, 0
    for _ in range(_ATTEMPTS):
        root = math.sqrt(factor)
        problem = whiten(robot, base, R / root, z / root, centre, prior_kind, weight / factor, shares, mass)
        notices = list(centre.notices)
        with single_thread():
            x, used, steps, converged = solve(problem, solver, notices)
            if prior_kind == "geodesic" and weight > 0:
                x, more, converged = follow_geodesic(problem, x, weight / factor * shares)
                steps += more
        iterations += steps
        phi = problem.phi(_snapped(problem, x))
        beta = base.matrix @ phi
        misfit = float(np.sum((R @ beta - z) ** 2))
        if misfit < _ENOUGH * factor or (converged and not len(problem.exact[1])):
            break
        # (nearly) exact data that no body can have: as noisy data they give the same answer, with digits to spare
        factor = misfit / (1e-1 * _ENOUGH)
    if not converged:
        notices.append("the consistent fit did not converge fully: the result is possible but may not be the nearest")
    best, *_ = np.linalg.lstsq(R, z, rcond=None)
    before = min(float(np.sum((R @ best - z) ** 2)), misfit)
    certificate = certify(robot, phi)
    if not certificate.consistent:
        notices.append("the result could not be certified: " + "; ".join(certificate.reasons()))
    notices += _cost(misfit - before, float(z @ z), rss, base.rank)
    phi.setflags(write=False)
    beta.setflags(write=False)
    distance = _distance(robot, phi, centre, prior_kind, shares == 1.0)
    return ConsistentFit(
        phi, beta, misfit, before, distance, float(weight), certificate, used, iterations, tuple(notices)
    )


def _checked(robot: Robot, base: BaseMap, R: ArrayLike, z: ArrayLike) -> tuple[Array, Array]:
    triangle, right = np.asarray(R, dtype=float), np.asarray(z, dtype=float)
    if base.matrix.shape[1] != len(robot.layout):
        raise ShapeError(f"base: made for {base.matrix.shape[1]} parameters, robot has {len(robot.layout)}")
    if triangle.ndim != 2 or triangle.shape[1] != base.rank:
        raise ShapeError(f"R: expected shape ({base.rank}, {base.rank}), got {triangle.shape}")
    if right.shape != (len(triangle),):
        raise ShapeError(f"z: expected shape ({len(triangle)},), got {right.shape}")
    if not (np.isfinite(triangle).all() and np.isfinite(right).all()):
        raise MinidynError("R and z must be finite: the recording has NaN or infinite samples")
    return triangle, right


def _snapped(problem: Whitened, x: Array) -> Array:
    """Return x moved onto what (nearly) noise-free data fix exactly, where that is possible."""
    directions, values = problem.exact
    if not len(values):
        return x
    moved = x + directions.T @ (values - directions @ x)
    return moved if np.isfinite(objective(problem, moved)) else x


def _distance(robot: Robot, phi: Array, centre: Centre, kind: str, concerned: NDArray[np.bool_]) -> float:
    from minidyn.identification.consistency.prior import entropic_distance, euclidean_distance

    links = [part for part, use in zip(robot.layout.links, concerned) if use]
    if not links:
        return 0.0
    bodies, believed = (np.array([values[part] for part in links]) for values in (phi, centre.phi))
    measures = {"entropic": entropic_distance, "euclidean": euclidean_distance, "geodesic": geodesic_distance}
    return float(np.sum(measures[kind](bodies, believed)))


def _cost(increase: float, size: float, rss: float | None, rank: int) -> list[str]:
    if rss is not None and rss > 0:
        share = math.sqrt(1.0 + increase / rss) - 1.0
        costly = share > _COSTLY_RESIDUAL
        text = f"{100 * share:.3g} % more residual"
    else:
        share = math.sqrt(increase / size) if size > 0 else 0.0
        costly = share > _COSTLY and increase > 4 * rank
        text = f"{100 * share:.3g} % of fit (torque error that it adds, relative to the torque)"
    if not costly:
        return []
    return [f"consistency costs {text}: the model structure, signs or units may be wrong, or the prior weighs too much"]
