"""From base parameters to bodies that can exist.

The physically consistent model nearest to the data, with proof. Least squares knows nothing of
physics: noise, and directions the motion hardly shows, give negative masses and inertias. Here full
parameters are found that fit the data as well as any consistent robot can, and where data are
silent lie near the prior. How strong the prior is, held-out blocks of time decide (`scale`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, covariance_root, left_open, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.identification.consistency.certificate import Certificate, driving, proved
from minidyn.identification.consistency.knowledge import Knowledge
from minidyn.identification.consistency.primal_dual import Pair, Solved, solve, spread
from minidyn.identification.consistency.prior import (
    DISTANCES,
    Prior,
    Seen,
    centres_of,
    prior_parameters,
    shares_of,
)
from minidyn.identification.consistency.scale import PriorTrial, choose_scale, earlier_scale
from minidyn.identification.consistency.whitened import (
    Whitened,
    objective,
    prior_errors,
    weighted,
    whiten,
)
from minidyn.identification.estimators.method import Solution
from minidyn.identification.estimators.solve import describe_open
from minidyn.identification.rows.base_rows import typical_sizes
from minidyn.identification.selection import Decision
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning

_ATTEMPTS = 5
_ROUNDS = 12  # size: in which the bounds that bind are found
# misfit, in noise variances, beyond which the noise is not what keeps data and bodies apart
_ENOUGH = 1e6

NOT_CONVERGED = info(
    "consistency.not_converged",
    "The solver ended before the nearest consistent model was proved to be the nearest.",
    "The result is usable; a richer recording makes it sharper.",
)
OPEN = warning(
    "consistency.open",
    "The recording leaves combinations of base parameters open; they follow the prior.",
    "Nothing is known of these combinations but the prior. Record a motion in which more joints "
    "move at once if the robot is to move differently.",
)


@dataclass(frozen=True, eq=False)
class ConsistentFit:
    """A physically consistent model and what it costs.

    Attributes:
        phi: Standard parameters (p,), every link strictly realizable.
        beta: Base parameters (b,) of phi.
        misfit: ‖R beta - z‖² of the result, in noise variances.
        misfit_before: The same at its minimum over all beta, consistent or not.
        prior_distance: Distance from the prior, without its weight.
        weight: Weight of that distance.
        certificate: The numbers that prove the model consistent.
        iterations: Steps of the solver.
        notices: What a reader should know.
        covariance: Of beta (b, b), prior and border included; None where that of the data was not
            given.
        own_covariance: Part of it that the same fit to another log would not share; None likewise.
    """

    phi: Array
    beta: Array
    misfit: float
    misfit_before: float
    prior_distance: float
    weight: float
    certificate: Certificate
    iterations: int
    notices: tuple[Notice, ...]
    covariance: Array | None = None
    own_covariance: Array | None = None

    @property
    def increase(self) -> float:
        """What consistency and prior add to the data misfit, in noise variances."""
        return self.misfit - self.misfit_before

    def __repr__(self) -> str:
        return (
            f"ConsistentFit({len(self.phi)} parameters, misfit + {self.increase:.3g} noise "
            f"variances, prior weight {self.weight:g}, {self.iterations} iterations)"
        )


def make_consistent(
    robot: Robot,
    base: BaseMap,
    R: ArrayLike,
    z: ArrayLike,
    *,
    prior: Prior = None,
    prior_kind: str = "entropic",
    weight: float = 0.0,
    mass: float | None = None,
    rss: float | None = None,
    seen: Seen | None = None,
    start: Pair | None = None,
    covariance: Array | None = None,
    log_covariance: Array | None = None,
    shares: Array | None = None,
    known: tuple[Array, Array] | None = None,
) -> ConsistentFit:
    """Return the consistent standard parameters phi that minimise ‖R beta(phi) - z‖² + weight ·
    D(phi, prior).

    Every link gets a positive pseudo-inertia (with a margin), rotor inertias are not negative,
    friction opposes every motion. Whatever the data leave open is pulled, so faintly that data of
    any use win, to the prior or to bodies drawn from the geometry; masses a little more firmly, so
    that they stay sane.

    Args:
        robot: The robot; its own parameter values are not read.
        base: Its base parameters: beta = base.matrix @ phi.
        R: (b, b) triangle of the data in units of their noise: one unit of misfit is one noise
            variance.
        z: Right side (b,).
        prior: A robot, the path of its file, or standard parameters (p,), NaN where unknown: a link
            counts as known where all ten are. None or False: none.
        prior_kind: "entropic" (log-det divergence), "euclidean" (in the metric of the prior's
            inertia) or "geodesic" (affine-invariant, of links; rotor inertias stay entropic).
        weight: Of the prior's distance, in noise variances; 0: only what data leave open follows
            the prior. Without a prior it holds for the bodies drawn from the geometry.
        mass: Total mass of the moving links, kg, where it is known (to about 2 %).
        rss: Sum of squares that no beta explains, in noise variances; makes the notice on costs
            more exact.
        seen: How large torques and speeds were: joints that crawl have their drive terms held more
            firmly.
        start: The solution of a similar problem, from where fewer steps are left; None: the prior.
        covariance: Of the base parameters as the data alone give them (b, b), infinite where they
            leave one open; then that of the result is computed, too.
        log_covariance: Part of it (b, b) that other logs of the robot do not share; None: all.
        shares: Part of the weight of each link (links,); None: all.
        known: Further rows (k, p) of standard parameters and their values (k,), both over their
            standard deviations: what people know about bodies (`knowledge`).

    Raises:
        ShapeError: Arrays do not fit together.
        MinidynError: Data, weight or mass are not finite or negative.
        UnknownName: No such kind of prior.
    """
    R, z = _checked(robot, base, R, z)
    given = _given(robot, prior, prior_kind, mass)
    if not (math.isfinite(weight) and weight >= 0):
        raise MinidynError(f"weight: expected a number that is not negative, got {weight!r}")
    (centre,) = centres_of(robot, base, [(R, z)], given, mass, seen)
    held = shares_of(centre, given is not None)
    shares = held if shares is None else shares
    factor, iterations, one_sign = 1.0, 0, set[int]()
    with single_thread():
        for _ in range(_ATTEMPTS):
            root = math.sqrt(factor)
            data = [(R / root, z / root, centre)]
            plain = whiten(robot, base, data, mass, one_sign, known)
            problem = weighted(plain, prior_kind, weight / factor, shares)
            found = solve(problem, start)
            iterations += found.steps
            phi = problem.phi(_snapped(problem, found.x))[0]
            misfit = float(np.sum((R @ (base.matrix @ phi) - z) ** 2))
            if (
                joints := set(driving(robot, phi)) - one_sign
            ):  # friction terms of these may not be negative
                one_sign, start = joints if not one_sign else set(range(len(robot.joints))), None
            elif misfit < _ENOUGH * factor or (found.converged and not len(problem.exact[0][1])):
                break
            # (nearly) exact data that no body can have: as noisy data they give the same, with
            # digits to spare
            else:
                factor, start = misfit / (1e-1 * _ENOUGH), None
        both = list[Array]()
        if covariance is not None:
            unknown = ~np.isfinite(np.diag(covariance))
            of_data = covariance, covariance if log_covariance is None else log_covariance
            spreads = _spread(base, plain, problem, found, R / root, of_data)
            both = [left_open(one, unknown) for one in spreads]
    notices = list(centre.notices)
    if not found.converged:
        text = (
            "the consistent fit did not converge fully: the result is consistent but may not be "
            "the nearest"
        )
        notices.append(NOT_CONVERGED(text, iterations=iterations))
    beta, misfit, before, certificate, more = proved(robot, base, R, z, phi, rss)
    parts = [part for part, use in zip(robot.layout.links, held == 1.0) if use]
    bodies = [np.array([of[part] for part in parts]).reshape(-1, 10) for of in (phi, centre.phi)]
    costs = misfit, before, float(np.sum(DISTANCES[prior_kind](*bodies))), float(weight)
    errors = both[0] if both else None, both[1] if both else None
    return ConsistentFit(phi, beta, *costs, certificate, iterations, (*notices, *more), *errors)


def _spread(
    base: BaseMap,
    plain: Whitened,
    problem: Whitened,
    found: Solved,
    R: Array,
    of_data: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Return the covariance (b, b) of a consistent fit to data with the triangle R, and its part
    that another log does not share.

    From the covariance of the data (b, b) and its part. Where parameters are unknown, the
    information RᵀR stands for both.
    """
    A, errors = base.matrix @ problem.matrix[0], prior_errors(plain)
    score, of_log = (
        A.T @ (R.T @ (R @ covariance_root(part))) if np.isfinite(np.diag(part)).all() else A.T @ R.T
        for part in of_data
    )
    return spread(plain, problem, found, A, score, of_log, np.append(errors.links, errors.usual))


def _checked(robot: Robot, base: BaseMap, R: ArrayLike, z: ArrayLike) -> tuple[Array, Array]:
    triangle, right = np.asarray(R, dtype=float), np.asarray(z, dtype=float)
    if base.matrix.shape[1] != len(robot.layout):
        raise ShapeError(
            f"base: made for {base.matrix.shape[1]} parameters, robot has {len(robot.layout)}"
        )
    if triangle.ndim != 2 or triangle.shape[1] != base.rank:
        raise ShapeError(f"R: expected shape ({base.rank}, {base.rank}), got {triangle.shape}")
    if right.shape != (len(triangle),):
        raise ShapeError(f"z: expected shape ({len(triangle)},), got {right.shape}")
    if not (np.isfinite(triangle).all() and np.isfinite(right).all()):
        raise MinidynError("R and z must be finite: the recording has NaN or infinite samples")
    return triangle, right


def _given(robot: Robot, prior: Prior, prior_kind: str, mass: float | None) -> Array | None:
    """Return the prior's parameters (p,) after checks of what belongs to it.

    None where there is none.
    """
    if prior_kind not in DISTANCES:
        raise UnknownName("prior kind", prior_kind, tuple(DISTANCES))
    if mass is not None and not (math.isfinite(mass) and mass > 0):
        raise MinidynError(f"mass: expected a positive number of kilograms, got {mass!r}")
    if prior is None or prior is False:
        return None
    known = prior_parameters(robot, prior)
    return np.full(len(robot.layout), np.nan) if known is None else known


def _with_knowledge(
    fitted: Callable[..., ConsistentFit], knowledge: Knowledge, both: Mapping[str, Any]
) -> ConsistentFit:
    """Return the fit in which what people know holds: bounds join until none is broken."""
    pushes: dict[int, float] = {}
    for number in range(_ROUNDS):
        phi = fitted(known=knowledge.rows(pushes)).phi
        wanted = knowledge.next_pushes(phi, pushes)
        if wanted.keys() == pushes.keys() and not knowledge.broken(phi):
            break
        # where bounds come and go, the last rounds keep all that ever broke
        pushes = wanted if number < _ROUNDS // 2 else {**pushes, **wanted}
    return fitted(known=knowledge.rows(pushes), **both)


def _snapped(problem: Whitened, x: Array) -> Array:
    """Return x moved onto what (nearly) noise-free data fix exactly, where that is consistent."""
    directions, values = problem.exact[0]
    if not len(values):
        return x
    moved = x + directions.T @ (values - directions @ x[0])
    return moved if np.isfinite(objective(problem, moved)[0]) else x


class ConsistentModel(NamedTuple):
    """The consistent model nearest to data and prior."""

    fit: ConsistentFit
    notices: list[Notice]
    record: dict[str, Any]
    decisions: tuple[Decision, ...] = ()  # one for each scale of the prior that was tried


def consistent_model(
    robot: Robot,
    base: BaseMap,
    solution: Solution,
    recording: Any,
    known: Array | None,
    prior_kind: str = "entropic",
    chosen: Mapping[str, Any] | None = None,
    knowledge: Knowledge | None = None,
) -> ConsistentModel:
    """Return the consistent model nearest to data and prior.

    Args:
        robot: The robot.
        base: Its base parameters.
        solution: The fit of the base parameters.
        recording: What it was fitted to.
        known: The prior (p,), NaN where unknown. None: there is none, and bodies are drawn from the
            geometry where data are silent.
        prior_kind: "entropic", "euclidean" or "geodesic".
        chosen: Record of the model of nearly the same data, which has the scale of the prior.
        knowledge: What people know about the bodies.
    """
    seen, record, decisions = typical_sizes(recording), dict[str, Any](), tuple[Decision, ...]()
    scaled: dict[str, Any] = {}
    notices = list[Notice]()
    if known is not None:
        data = solution.R, solution.z
        trial = PriorTrial(robot, base, data, solution.folds(), known, prior_kind, seen)
        is_chosen = chosen is not None and "prior_scale" in chosen
        prior = earlier_scale(trial, chosen or {}) if is_chosen else choose_scale(trial)
        start = None if prior.pair is None else prior.pair.cases(np.arange(1))
        scaled = {"prior": prior.parameters, "weight": prior.weight, "start": start}
        scaled["shares"] = prior.shares
        record, decisions = {"prior_kind": prior_kind, **prior.record}, prior.decisions
        notices += prior.notices
    fitted = partial(
        make_consistent,
        robot,
        base,
        solution.R,
        solution.z,
        prior_kind=prior_kind,
        rss=solution.rest,
        seen=seen,
        **scaled,
    )
    both: dict[str, Any] = {"covariance": solution.covariance, "log_covariance": solution.of_log}
    fit = fitted(**both) if knowledge is None else _with_knowledge(fitted, knowledge, both)
    notices += fit.notices
    if knowledge is not None:
        record["knowledge"] = knowledge.record(fit.phi)
        notices += knowledge.notices(fit.phi)
    if names := describe_open(solution.R, base):
        record["open"] = names
        text = f"the recording does not determine all base parameters: combinations of {names} "
        text += "stay open and follow the prior; their standard deviation is infinite"
        notices.append(OPEN(text, names=names))
    record["misfit_increase"] = fit.increase
    return ConsistentModel(fit, notices, record, decisions)
