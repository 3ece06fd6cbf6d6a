"""From base parameters to bodies that can exist.

The physically consistent model nearest to the data, with proof. Least squares knows nothing of
physics: noise, and directions the motion hardly shows, give negative masses and inertias. Here full
parameters are found that fit the data as well as any consistent robot can, and where data are
silent lie near the prior. How strong the prior is follows from how far the data show it to be off.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, covariance_root, left_open, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.identification.consistency.certificate import Certificate, driving, proved
from minidyn.identification.consistency.primal_dual import (
    Pair,
    Solved,
    solve,
    spread,
    spread_of_mean,
)
from minidyn.identification.consistency.prior import (
    DISTANCES,
    Prior,
    Seen,
    centres_of,
    everywhere,
    prior_parameters,
    shares_of,
)
from minidyn.identification.consistency.whitened import (
    Whitened,
    objective,
    prior_errors,
    trusted,
    weighted,
    whiten,
)
from minidyn.identification.estimators.held_out import repeated_variance
from minidyn.identification.estimators.method import Fold, Solution
from minidyn.identification.estimators.solve import describe_open
from minidyn.identification.rows.base_rows import typical_sizes
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning

WEIGHTS = tuple(10.0**k for k in range(6, -3, -2))
AROUND = tuple(10.0**k for k in (0.5, 0.0, -0.5))
"""Weights that are shown, times the one that the errors of the prior suggest."""

_ATTEMPTS = 5
# misfit, in noise variances, beyond which the noise is not what keeps data and bodies apart
_ENOUGH = 1e6
# of the least misfit: two weights in a row that are worse by more end the search; no prior is worse
_WORSE = 0.02
_FINEST = 3.2  # between weights around the best: half a decade
# of the torques all over the workspace: a log that leaves less uncertain says nearly all by itself
_KNOWN = 0.2
_GAIN, _SURE = (
    0.08,
    1.7,
)  # of the misfit, and standard errors of it: what a file in doubt must gain on held-out blocks

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
        variance: Sum of squares of the errors of torques that the covariance makes likely; None
            where not asked for.
        part: Of this fit in the result; the rest is of the fit beside it.
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
    variance: float | None = None
    part: float = 1.0

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
    rows: Array | None = None,
    beside: ConsistentFit | None = None,
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
        shares: Part of the weight of each link (links,), or of its mass, centre and inertia (links,
            3); None: all.
        rows: Of the regressor (k, b), for torques whose variance is asked for.
        beside: Another fit to the same data, with its variance: the result is a mean of both, each
            having the part that the variance of the other has in their sum, as the best mean of two
            independent values has.

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
            plain = whiten(robot, base, [(R / root, z / root, centre)], mass, one_sign)
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
        mixed, variance, both = 1.0, None, list[Array]()
        if covariance is not None:
            unknown = ~np.isfinite(np.diag(covariance))
            of_data = covariance, covariance if log_covariance is None else log_covariance
            both = [*_spread(base, plain, problem, found, R / root, of_data)]
            variance = None if rows is None else float(np.sum((rows @ both[0]) * rows))
        if beside is not None and variance and beside.variance:
            mixed = round(
                beside.variance / (variance + beside.variance), 6
            )  # rows may differ in their last digits
            phi = mixed * phi + (1.0 - mixed) * beside.phi
            others = np.asarray(beside.covariance), np.asarray(beside.own_covariance)
            both = [
                spread_of_mean(mixed, variance, beside.variance, *pair)
                for pair in zip(both, others)
            ]
        both = [left_open(one, unknown) for one in both]
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
    return ConsistentFit(
        phi, beta, *costs, certificate, iterations, (*notices, *more), *errors, variance, mixed
    )


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


def _snapped(problem: Whitened, x: Array) -> Array:
    """Return x moved onto what (nearly) noise-free data fix exactly, where that is consistent."""
    directions, values = problem.exact[0]
    if not len(values):
        return x
    moved = x + directions.T @ (values - directions @ x[0])
    return moved if np.isfinite(objective(problem, moved)[0]) else x


def choose_weight(
    robot: Robot,
    base: BaseMap,
    folds: Sequence[Fold],
    prior: Prior,
    *,
    prior_kind: str = "entropic",
    weights: Sequence[float] = WEIGHTS,
    mass: float | None = None,
    seen: Seen | None = None,
) -> tuple[float, Array]:
    """Return (weight, curve).

    The weight whose models predict held-out time blocks best, and all that were tried. All folds
    are followed together from the strongest weight to the weakest, every solution being the start
    of the next. Around the best weight others are tried too, down to half decades.

    Args:
        robot: The robot.
        base: Its base parameters.
        folds: (R_train, z_train, R_test, z_test, rss_test_extra) for each block held out, all in
            noise variances.
        prior: A robot, the path of its file, or standard parameters (p,), NaN where unknown; None
            or False: bodies drawn from the geometry.
        prior_kind: "entropic", "euclidean" or "geodesic".
        weights: Weights to try; zero is always tried.
        mass: Total mass of the moving links, kg, where it is known.
        seen: How large torques and speeds were.

    Returns:
        The weight, and (k, 2): weights in rising order and their held-out misfit, noise variances,
        summed over folds.
    """
    judged = _judged(robot, base, folds, prior, prior_kind, weights, mass, seen)
    return judged.best, judged.curve


@dataclass(frozen=True)
class _Judged:
    """Weights that were tried."""

    misfits: dict[float, Array]  # of each block held out (folds,)
    pairs: dict[float, Pair]  # solutions of all folds

    @property
    def best(self) -> float:
        """The weight of the least misfit; the strongest where several are equal."""
        return min(self.misfits, key=lambda weight: (self.misfits[weight].sum(), -weight))

    @property
    def curve(self) -> Array:
        """Weights in rising order and their misfits (k, 2)."""
        curve = np.array(
            [(weight, misfits.sum()) for weight, misfits in sorted(self.misfits.items())]
        )
        curve.setflags(write=False)
        return curve


def _judged(
    robot: Robot,
    base: BaseMap,
    folds: Sequence[Fold],
    prior: Prior,
    prior_kind: str,
    weights: Sequence[float] = WEIGHTS,
    mass: float | None = None,
    seen: Seen | None = None,
    shares: Array | None = None,
) -> _Judged:
    """Do `choose_weight`; return all that was tried."""
    if not folds:
        raise MinidynError("choose_weight: at least one fold is needed")
    given = _given(robot, prior, prior_kind, mass)
    grid = sorted({float(weight) for weight in weights if weight > 0}, reverse=True)
    centres = centres_of(robot, base, [(R, z) for R, z, *_ in folds], given, mass, seen)
    shares = shares_of(centres[0], given is not None) if shares is None else shares
    tried = _Judged({}, {})
    with single_thread():
        plain = whiten(
            robot, base, [(R, z, centre) for (R, z, *_), centre in zip(folds, centres)], mass
        )

        def hold_out(pair: Pair | None, *weights: float) -> None:
            """Try weights from the same start; they are followed side by side."""
            count = np.tile(np.arange(len(folds)), len(weights))
            each = weighted(plain.cases(count), prior_kind, np.repeat(weights, len(folds)), shares)
            found = solve(each, None if pair is None else pair.cases(count), tolerance=1e-6)
            left = [
                float(np.sum((folds[fold][2] @ beta - folds[fold][3]) ** 2)) + float(folds[fold][4])
                for fold, beta in zip(count, each.phi(found.x) @ base.matrix.T)
            ]
            for weight, part in zip(weights, np.arange(len(count)).reshape(len(weights), -1)):
                tried.misfits[weight], tried.pairs[weight] = (
                    np.array(left)[part],
                    found.pair.cases(part),
                )

        for weight, after in zip(grid, (None, *grid)):
            hold_out(None if after is None else tried.pairs[after], weight)
            sums = [misfits.sum() for misfits in tried.misfits.values()]
            if all(value > (1 + _WORSE) * min(sums) for value in sums[-2:]) and weight < tried.best:
                break  # past the minimum: weaker ones are slower and no better
        hold_out(tried.pairs[min(tried.pairs)] if tried.pairs else None, 0.0)
        apart = max((large / small for large, small in itertools.pairwise(grid)), default=1.0)
        while tried.best > 0 and apart > _FINEST:
            apart, best = math.sqrt(apart), tried.best
            hold_out(tried.pairs[best], best * apart, best / apart)
    return tried


def consistent_model(
    robot: Robot,
    base: BaseMap,
    found: Solution,
    recording: Any,
    known: Array | None,
    prior_kind: str = "entropic",
    chosen: Mapping[str, Any] | None = None,
) -> tuple[ConsistentFit, list[Notice], dict[str, Any]]:
    """Return the consistent model nearest to data and prior, notices and record.

    The prior (p,) is NaN where it is unknown; without one, bodies are drawn from the geometry where
    data are silent. Settings that were chosen for nearly the same data say the prior's weight.
    """
    seen = typical_sizes(recording)
    weight, record, start, shares = 0.0, dict[str, Any](), None, None
    more: tuple[Notice, ...] = ()
    if known is not None:
        noise = repeated_variance(folds := found.folds())
        trust = trusted(
            robot, base, found.R / math.sqrt(noise), found.z / math.sqrt(noise), known, seen
        )
        shares, more, record = (
            trust.shares,
            trust.notices,
            {"prior_kind": prior_kind, "prior_weight": 0.0},
        )
        record["prior_shares"] = shares.tolist()
        use, weight, curve = not trust.doubted, noise * trust.weight, np.zeros((0, 2))
        if chosen is not None and "prior_curve" in chosen:
            use, weight, curve = True, chosen["prior_weight"], np.array(chosen["prior_curve"])
        elif folds and (use or trust.likely):  # a short log may have none to judge by
            weights = (
                [noise * trust.weight * factor for factor in AROUND]
                if trust.weight > 0
                else WEIGHTS
            )
            tried = _judged(
                robot, base, folds, trust.known, prior_kind, weights, seen=seen, shares=shares
            )
            weight, curve = noise * trust.weight if trust.weight > 0 else tried.best, tried.curve
            start = tried.pairs[weight].cases(np.arange(1))
            without = _judged(robot, base, folds, None, prior_kind, (), seen=seen).misfits[0.0]
            judges = (
                weights if trust.doubted and trust.weight > 0 else [weight]
            )  # sure gains hold with less weight
            gains = without - np.array([tried.misfits[one] for one in judges])
            sure = _SURE * math.sqrt(len(without)) * gains.std(axis=1, ddof=int(len(without) > 1))
            least = (
                np.maximum(_GAIN * without.sum(), sure)
                if trust.doubted
                else -_WORSE * without.sum()
            )
            use = trust.weight == 0 or bool(np.all(gains.sum(axis=1) >= least))
        if use:
            known = trust.known
            record |= {"prior_weight": weight}
            record |= {"prior_curve": curve.tolist()} if len(curve) else {}
        else:
            known, weight, start, shares, more = None, 0.0, None, None, trust.left_out
    options: dict[str, Any] = {
        "prior_kind": prior_kind,
        "weight": weight,
        "shares": shares,
        "rss": found.rest,
    }
    options |= {
        "seen": seen,
        "start": start,
        "covariance": found.covariance,
        "log_covariance": found.of_log,
    }
    if weight > 0 and np.isfinite(found.covariance).all():
        rows = everywhere(robot.with_parameters(base.lift(found.beta)), base)
        if np.sum((rows @ found.covariance) * rows) < _KNOWN**2 * np.sum((rows @ found.beta) ** 2):
            # a file has little to give there and may mislead: the fit without it has its part
            bare = options | {"weight": 0.0, "shares": None, "start": None, "rows": rows}
            options |= {
                "rows": rows,
                "beside": make_consistent(robot, base, found.R, found.z, **bare),
            }
    result = make_consistent(robot, base, found.R, found.z, prior=known, **options)
    record |= {"prior_part": result.part} if weight > 0 else {}
    notices = [*more, *result.notices]
    if names := describe_open(found.R, base):
        record["open"] = names
        text = f"the recording does not determine all base parameters: combinations of {names} "
        text += "stay open and follow the prior; their standard deviation is infinite"
        notices.append(OPEN(text, names=names))
    record["misfit_increase"] = result.increase
    return result, notices, record
