"""The lifting of base parameters to bodies as a smooth convex problem without units.

Each link is its prior body's ε-th part plus a body U Y Uᵀ(1 - ε), with U Uᵀ a stout body around the
prior one: Y is of order one, Y positive means physically consistent, and neither frames nor units
of the robot enter. With x all the numbers in Y, then the drive terms in their own units (or sums of
them that must be positive, `certificate`),

    minimise ‖D x - t‖² + Σ (x - c)ᵀ Q (x - c) + Σ κ (tr S Y - log det S Y - 4) + Σ κ (u - log
    u - 1)

D holds the data (and a known total mass), Q faint pulls to the prior and its Euclidean distance;
the entropies keep every Y positive and so do those of the drive terms u that cannot be negative. A
geodesic prior adds ½ g ‖log Y₀^-½ Y Y₀^-½‖², which is not convex.

Several problems of one robot, for instance the folds of a cross-validation, stand side by side:
every array has the case as its first axis.

The same form says how far the prior is off, link by link. With r the data's residual under the
prior bodies, in units of the noise, and Kᵢ what errors of link i as large as itself do to it, r has
the covariance s + Σ eᵢ Kᵢ. The eᵢ of the largest evidence (MacKay's steps) are the mean squares of
the errors, as parts of the bodies' own size: what standard deviations are made of. s ≥ 1 is what no
body explains, such as friction at a crawl that the model lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.consistency.certificate import groups
from minidyn.identification.consistency.prior import FAINT, Centre, upper_factor
from minidyn.model.drives import NON_NEGATIVE
from minidyn.model.parameters import from_pseudo_inertia, to_pseudo_inertia
from minidyn.model.robot import Robot

# the part of the prior body that every link keeps: what makes exported links strictly consistent
MARGIN = 1e-4
# entropy, in noise variances, that always keeps a link consistent and a drive term positive
_BARRIER = 1e-4
_MASS = 0.5  # pull of every mass to its prior value: a factor of three costs one noise variance
TOTAL_STD = 0.02  # relative standard deviation of a total mass that is given
_STEEPEST = (
    1e6  # data more precise than this (relative) are as good as exact: beyond it lies rounding
)
_ROUNDING = 1e-15
_INSIDE = 1e-2  # where drive terms start that the prior knows nothing of

_USUAL = 0.3  # of its own size: by how much a prior body is off before any data
_DOUBT = 2.0  # so many numbers of a body would have to be seen to count as much as that
_STEPS = 12

_I, _J = np.triu_indices(4)
# symmetric 4x4 matrices as ten numbers with the same norm: vec(Y) = _BASIS @ y
_BASIS = np.zeros((16, 10))
for _k, (_i, _j) in enumerate(zip(_I, _J)):
    _BASIS[4 * _i + _j, _k] = _BASIS[4 * _j + _i, _k] = 1.0 if _i == _j else np.sqrt(0.5)
_UNITS = np.ascontiguousarray(_BASIS.T.reshape(10, 4, 4))
# entry (kl, ij) of a congruence is W_ik W_jl + W_il W_jk, times a factor
_PRODUCTS = [
    (4 * _I + first[:, None], 4 * _J + second[:, None]) for first, second in ((_I, _J), (_J, _I))
]
_SIZES = np.where(_I == _J, np.sqrt(0.5), 1.0)
_FACTORS = _SIZES[:, None] * _SIZES
_PULL = 0.5 * np.diag(FAINT + np.where(_I == 3, _MASS, 0.0))


def matrices(y: Array) -> Array:
    """Return symmetric matrices (..., 4, 4) of ten numbers each (..., 10)."""
    return np.asarray((y @ _BASIS.T).reshape(*y.shape[:-1], 4, 4))


def tens(Y: Array) -> Array:
    """Return ten numbers (..., 10) of symmetric matrices (..., 4, 4)."""
    return np.asarray(Y.reshape(*Y.shape[:-2], 16) @ _BASIS)


def congruence(W: Array) -> Array:
    """Return C (..., 10, 10) with Cᵀ y the ten numbers of W Y Wᵀ, y those of Y."""
    flat = W.reshape(*W.shape[:-2], 16)
    straight, crossed = (flat[..., first] * flat[..., second] for first, second in _PRODUCTS)
    return np.asarray((straight + crossed) * _FACTORS)


@dataclass(frozen=True)
class Whitened:
    """Problems of one robot side by side.

    c cases, l links, m drive terms, p = 10 l + m unknowns in each.
    """

    D: Array  # data (c, k, p); rows of zeros fill up where a case has fewer
    t: Array  # their right side (c, k)
    Q: Array  # quadratic pull of each link (c, l, 10, 10) to the prior
    q: Array  # the same of the drive terms (c, m)
    centre: Array  # where it pulls to (c, p)
    bodies: Array  # the prior body of each link, as Y (c, l, 4, 4)
    kappa: Array  # entropy weight of each link (c, l)
    S: Array  # the entropies are least at Y = S⁻¹ (c, l, 4, 4)
    positive: NDArray[np.intp]  # places in x of the scalars u that must be positive
    known: NDArray[np.bool_]  # which of them the prior knows
    kappa_positive: Array  # entropy weight of each (c, len(positive))
    offset: Array  # phi = offset + matrix @ x (c, p)
    matrix: Array  # (c, p, p)
    start: Array  # x of the prior (c, p), strictly inside
    # for each case, directions (e, p) and values (e,) that the data fix as good as exactly
    exact: tuple[tuple[Array, Array], ...]
    geodesic: Array | None = (
        None  # weight of the geodesic distance of each link (c, l); None: it has no part
    )

    @property
    def inertial(self) -> int:
        """Number of unknowns that belong to links; those of drives follow."""
        return 10 * int(self.Q.shape[1])

    def phi(self, x: Array) -> Array:
        """Return standard parameters (c, p)."""
        return np.asarray(self.offset + (self.matrix @ x[..., None])[..., 0])

    def bodies_of(self, x: Array) -> Array:
        """Return Y (c, l, 4, 4)."""
        return matrices(x[:, : self.inertial].reshape(len(x), -1, 10))

    def cases(self, which: NDArray[np.intp]) -> Whitened:
        """Return some of the cases."""
        names = [
            "D",
            "t",
            "Q",
            "q",
            "centre",
            "bodies",
            "kappa",
            "S",
            "kappa_positive",
            "offset",
            "matrix",
            "start",
        ]
        names += [] if self.geodesic is None else ["geodesic"]
        return replace(self, **{name: getattr(self, name)[which] for name in names})


def whiten(
    robot: Robot,
    base: BaseMap,
    data: Sequence[tuple[Array, Array, Centre]],
    mass: float | None = None,
    plain: Collection[int] = (),
    known: tuple[Array, Array] | None = None,
) -> Whitened:
    """Return the problems without units, the prior without any weight yet.

    Data are, for each case, R (b, b) in units of the noise, z (b,) and the prior; the total mass,
    kg, may be unknown; further rows (k, p) and values (k,) are `known`, in units of their
    standard deviations. Plain joints, by their indices, have no friction terms that are negative;
    for the others sums count.
    """
    layout = robot.layout
    p, links = len(layout), [part.start for part in layout.links]
    n = 10 * len(links)
    columns = [column for columns in layout.drives for column in columns]
    drives = [column.index for column in columns]
    positive = n + np.flatnonzero([column.symbol in NON_NEGATIVE for column in columns])
    rows, sliding = (
        (np.array(links, dtype=np.intp)[:, None] + np.arange(10)).ravel(),
        groups(robot, plain),
    )
    most = max(len(R) for R, _, _ in data) + (mass is not None)
    most += 0 if known is None else len(known[1])
    parts: list[dict[str, Array]] = []
    exact = []
    for R, z, centre in data:
        U = centre.factors
        matrix, offset = np.zeros((p, p)), np.zeros(p)
        for index, ten in enumerate(
            from_pseudo_inertia(U[:, None] @ _UNITS @ np.swapaxes(U, -1, -2)[:, None])
        ):
            matrix[links[index] : links[index] + 10, 10 * index : 10 * index + 10] = (
                1.0 - MARGIN
            ) * ten.T
        matrix[drives, range(n, p)] = centre.scales[drives]
        of_drives = centre.phi[drives] / centre.scales[drives]
        for group in sliding:
            own, unit = np.searchsorted(drives, group.columns), centre.scales[group.columns[0]]
            matrix[np.ix_(group.columns, n + own)] = np.linalg.inv(group.basis) * unit
            of_drives[own] = group.basis @ centre.phi[group.columns] / unit
        offset[rows] = MARGIN * centre.phi[rows]
        turn = np.linalg.inv(U) @ upper_factor(to_pseudo_inertia(centre.phi[rows].reshape(-1, 10)))
        bodies = turn @ np.swapaxes(turn, -1, -2)
        middle = np.concatenate([tens(bodies).ravel(), of_drives])
        start = middle.copy()
        start[positive] = np.maximum(start[positive], _INSIDE)
        D, t, fixed = _limited(R @ (base.matrix @ matrix), z - R @ (base.matrix @ offset))
        if mass is not None:
            of_mass = np.zeros(p)
            of_mass[np.array(links) + 9] = 1.0 / (TOTAL_STD * mass)
            D, t = (
                np.vstack([D, of_mass @ matrix]),
                np.append(t, 1.0 / TOTAL_STD - of_mass @ offset),
            )
        if known is not None:
            D, t = np.vstack([D, known[0] @ matrix]), np.append(t, known[1] - known[0] @ offset)
        D, t = np.pad(D, ((0, most - len(D)), (0, 0))), np.pad(t, (0, most - len(t)))
        of_prior = {
            "q": 0.5 * centre.faint[drives],
            "centre": middle,
            "bodies": bodies,
            "start": start,
        }
        parts.append(of_prior | {"D": D, "t": t, "offset": offset, "matrix": matrix})
        exact.append(fixed)
    shape = len(data), len(links)
    return Whitened(
        **{name: np.stack([part[name] for part in parts]) for name in parts[0]},
        Q=np.tile(_PULL, (*shape, 1, 1)),
        kappa=np.full(shape, _BARRIER),
        S=np.tile(np.eye(4), (*shape, 1, 1)),
        positive=positive,
        known=data[0][2].known_drives[drives][positive - n],
        kappa_positive=np.full((len(data), len(positive)), _BARRIER),
        exact=tuple(exact),
    )


def one_body(R: Array, z: Array, U: Array, kappa: float) -> Whitened:
    """Return the problem ‖R phi - z‖² of one body's ten parameters, with an entropy that is least
    at U Uᵀ.
    """
    matrix = from_pseudo_inertia(U @ _UNITS @ U.T).T
    D, t, fixed = _limited(R @ matrix, z)
    start = tens(np.eye(4))[None]
    none = np.zeros((1, 0))
    return Whitened(
        D[None],
        t[None],
        np.zeros((1, 1, 10, 10)),
        none,
        start,
        np.eye(4)[None, None],
        np.full((1, 1), kappa),
        np.eye(4)[None, None],
        np.zeros(0, dtype=np.intp),
        np.zeros(0, dtype=bool),
        none,
        np.zeros((1, 10)),
        matrix[None],
        start,
        (fixed,),
    )


def weighted(problem: Whitened, prior_kind: str, weight: float | Array, shares: Array) -> Whitened:
    """Return problems of `whiten` with the distance to the prior in them.

    Its weight, of all cases or of each (c,), is shared (l,) among the links.
    """
    if not np.any(weight):
        return problem
    each = np.broadcast_to(weight, len(problem.t))[:, None]
    pulls, known = each * shares, each * problem.known
    if prior_kind == "euclidean":
        q = problem.q.copy()
        q[:, problem.positive - problem.inertial] += 0.5 * known
        turn = congruence(np.asarray(np.linalg.inv(upper_factor(problem.bodies)), dtype=float))
        firm = 0.5 * pulls[..., None, None] * (turn @ np.swapaxes(turn, -1, -2))
        return replace(problem, Q=problem.Q + firm, q=q)
    eased = replace(problem, kappa_positive=problem.kappa_positive + known)
    return replace(eased, geodesic=pulls) if prior_kind == "geodesic" else entropic(eased, pulls)


def entropic(problem: Whitened, pulls: Array) -> Whitened:
    """Return the problem with the entropic distance of each link, weights (c, l), in place of a
    geodesic one.
    """
    kappa = (
        problem.kappa + pulls
    )  # two entropies with different minima are one with a minimum between
    S = problem.kappa[..., None, None] * problem.S + pulls[..., None, None] * np.linalg.inv(
        problem.bodies
    )
    return replace(problem, kappa=kappa, S=S / kappa[..., None, None], geodesic=None)


def tangent(problem: Whitened, x: Array) -> Whitened:
    """Return a problem with entropies in place of the geodesic distances, of equal slope at x and
    bent more.
    """
    values, turn = relative(problem, x)
    logs = np.log(values)
    bend = 1.0 + np.abs(logs).max(
        axis=-1
    )  # the entropy's curvature over the distance's: at least 1 - log
    pulls = np.asarray(problem.geodesic) * bend
    own = np.swapaxes(turn, -1, -2) * ((1.0 + logs / bend[..., None]) / values)[..., None, :] @ turn
    S = problem.kappa[..., None, None] * problem.S + pulls[..., None, None] * own
    kappa = problem.kappa + pulls
    return replace(problem, kappa=kappa, S=S / kappa[..., None, None], geodesic=None)


def _limited(A: Array, b: Array) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return rows of full rank with the same misfit up to a constant, with a limit on their
    precision.
    """
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > max(A.shape) * np.finfo(float).eps * s.max(initial=0.0)
    values = (U.T @ b)[keep] / s[keep]
    limited = np.minimum(s[keep], _STEEPEST)
    steep = s[keep] > _STEEPEST
    return limited[:, None] * Vt[keep], limited * values, (Vt[keep][steep], values[steep])


def objective(problem: Whitened, x: Array) -> Array:
    """Return the values to be minimised (c,); infinite outside."""
    n, u = problem.inertial, x[:, problem.positive]
    residual = (problem.D @ x[..., None])[..., 0] - problem.t
    off = x - problem.centre
    own = off[:, :n].reshape(len(x), -1, 10)
    Y = problem.bodies_of(x)
    values = np.linalg.eigvalsh(Y)
    inside = np.all(values[..., 0] > _ROUNDING * values[..., -1], axis=-1) & np.all(u > 0, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        entropy = (
            np.einsum("clij,clji->cl", problem.S, Y) - np.linalg.slogdet(problem.S @ Y)[1] - 4.0
        )
        total = (
            np.sum(residual**2, axis=-1)
            + np.einsum("cli,clij,clj->c", own, problem.Q, own)
            + np.sum(problem.q * off[:, n:] ** 2, axis=-1)
            + np.sum(problem.kappa * entropy, axis=-1)
            + np.sum(problem.kappa_positive * (u - np.log(u) - 1.0), axis=-1)
        )
        if problem.geodesic is not None:
            values, _ = relative(problem, x)
            total = total + np.sum(
                0.5 * np.sum(np.log(values) ** 2, axis=-1) * problem.geodesic, axis=-1
            )
    return np.where(inside, total, np.inf)


def relative(problem: Whitened, x: Array) -> tuple[Array, Array]:
    """Return eigenvalues (c, l, 4) of each body as the prior one sees it, and T (c, l, 4, 4).

    T Y Tᵀ has them.
    """
    root = np.linalg.cholesky(problem.bodies)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ problem.bodies_of(x) @ np.swapaxes(inverse, -1, -2))
    return values, np.swapaxes(vectors, -1, -2) @ inverse


@dataclass(frozen=True)
class PriorErrors:
    """By how much bodies are off: squares of parts of their own size."""

    links: Array  # of each (l,)
    usual: float  # of all


def prior_errors(problem: Whitened) -> PriorErrors:
    """Return by how much the bodies are off that the problem, whose first case counts, starts with.

    A link that the data hardly show is as good as the others, and all of them, if nothing is seen,
    are off as priors usually are. Drive terms may be what they like. The prior has no weight in the
    problem.
    """
    n, D, x = problem.inertial, problem.D[0], problem.start[0].copy()
    x[n:] = problem.centre[0, n:]
    columns = np.swapaxes(D[:, :n].reshape(len(D), -1, 10), 0, 1)
    own = columns @ np.swapaxes(congruence(upper_factor(problem.bodies[0])), -1, -2)
    U, s, _ = np.linalg.svd(D[:, n:])
    beside = U[:, np.count_nonzero(s > _ROUNDING * len(D) * s.max(initial=0.0)) :].T
    r, own = beside @ (problem.t[0] - D @ x), beside @ own
    K, white = own @ np.swapaxes(own, -1, -2), np.eye(len(r))
    before = np.full(len(K), _USUAL**2)
    errors, usual, noise = before, _USUAL**2, 1.0
    for _ in range(_STEPS):
        seen = (inverse := np.linalg.inv(noise * white + np.tensordot(errors, K, 1))) @ r
        left = (_DOUBT + noise**2 * float(seen @ seen)) / (
            _DOUBT + noise * float(np.trace(inverse))
        )
        squares = errors**2 * ((K @ seen) @ seen)
        # numbers of each body that the data decide
        shown = errors * np.einsum("ij,lij->l", inverse, K)
        noise = max(1.0, left)
        usual = (_DOUBT * _USUAL**2 + squares.sum()) / (_DOUBT + shown.sum())
        errors = (_DOUBT * usual + squares) / (_DOUBT + shown)
    return PriorErrors(errors, float(usual))
