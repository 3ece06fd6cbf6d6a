"""The lifting of base parameters to bodies as one smooth convex problem without units, and Newton's method for it.

Each link is its believed body's ε-th part plus a body U Y Uᵀ(1 - ε), with U Uᵀ a stout body around the believed one:
Y is of order one, Y positive means possible, and neither frames nor units of the robot enter. Everything quadratic
(data, faint beliefs, Euclidean distance) is a row of A x = b; the rest are entropies κ (tr S Y - log det S Y - 4),
which also keep Y positive, and the same for the drive terms that cannot be negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.consistency.prior import Centre, upper_factor
from minidyn.model.drives import NON_NEGATIVE
from minidyn.model.inertia import from_pseudo_inertia, to_pseudo_inertia
from minidyn.model.robot import Robot

MARGIN = 1e-4  # the part of the believed body that every link keeps: what makes exported links strictly possible
_BARRIER = 1e-4  # entropy (units: noise variances) that always keeps a link possible
_FAINT = 0.02  # pull of every link to its believed body: a deviation of ten bodies costs one noise variance
_MASS = 0.5  # pull of every mass to its believed value: a factor of three costs one noise variance
_DRIVE_BARRIER = 1e-4
_TOTAL = 0.02  # relative standard deviation of a total mass that is given
_STEEPEST = 1e6  # data more precise than this (relative) are as good as exact: beyond it lies rounding

_PAIRS = [(i, j) for i in range(4) for j in range(i, 4)]
# symmetric 4x4 matrices as ten numbers with the same norm: vec(Y) = BASIS @ y
BASIS = np.zeros((16, 10))
for _k, (_i, _j) in enumerate(_PAIRS):
    BASIS[4 * _i + _j, _k] = BASIS[4 * _j + _i, _k] = 1.0 if _i == _j else np.sqrt(0.5)
BASIS.setflags(write=False)
_MASS_PLACE = _PAIRS.index((3, 3))


@dataclass(frozen=True)
class Whitened:
    """Minimise ‖A x - b‖² + Σ κ_i (tr S_i Y_i - log det S_i Y_i - 4) + Σ κ_j (u_j - log u_j - 1).

    Attributes:
        A: Rows (r, p) of everything quadratic.
        b: Right side (r,).
        data: The first rows of A are the data; this many.
        links: Number of links: Y_i is x[10 i : 10 i + 10].
        kappa: Entropy weight of each link (links,).
        tilt: Upper triangular W (links, 4, 4) with S = Wᵀ W: the entropies are least at Y = S⁻¹.
        positive: Places in x of the scalars u_j that must be positive.
        kappa_positive: Entropy weight of each (len(positive),).
        offset: phi = offset + matrix @ x (p,).
        matrix: (p, p).
        start: x of the belief (p,), strictly inside.
        exact: Directions (e, p) and values (e,) that the data fix as good as exactly.
    """

    A: Array
    b: Array
    data: int
    links: int
    kappa: Array
    tilt: Array
    positive: NDArray[np.intp]
    kappa_positive: Array
    offset: Array
    matrix: Array
    start: Array
    exact: tuple[Array, Array]

    def phi(self, x: Array) -> Array:
        """Return standard parameters (p,)."""
        return np.asarray(self.offset + self.matrix @ x)


def symmetric(problem: Whitened, x: Array) -> Array:
    """Return Y (links, 4, 4)."""
    return np.asarray((x[: 10 * problem.links].reshape(-1, 10) @ BASIS.T).reshape(-1, 4, 4))


def whiten(
    robot: Robot,
    base: BaseMap,
    R: Array,
    z: Array,
    centre: Centre,
    prior_kind: str,
    weight: float,
    shares: Array,
    mass: float | None,
) -> Whitened:
    """Return the problem without units.

    Args:
        robot: The robot.
        base: Its base parameters.
        R: (b, b) data in units of their noise.
        z: (b,) right side.
        centre: The belief.
        prior_kind: "entropic" or "euclidean"; "geodesic" stands for the first, for `follow_geodesic` to go on from.
        weight: Weight of the distance to the belief.
        shares: (links,) of that weight for each link.
        mass: Total mass, kg; None: unknown.
    """
    layout = robot.layout
    p, n = len(layout), len(layout.links)
    matrix, offset, start = np.zeros((p, p)), np.zeros(p), np.zeros(p)
    believed_bodies = np.empty((n, 4, 4))
    for index, part in enumerate(layout.links):
        U = centre.factors[index]
        bodies = from_pseudo_inertia(U @ BASIS.T.reshape(10, 4, 4) @ U.T)
        own = slice(10 * index, 10 * index + 10)
        matrix[part, own] = (1.0 - MARGIN) * bodies.T
        offset[part] = MARGIN * centre.phi[part]
        turn = np.linalg.inv(U) @ upper_factor(to_pseudo_inertia(centre.phi[part]))
        believed_bodies[index] = turn @ turn.T
        start[own] = BASIS.T @ believed_bodies[index].ravel()
    rows: list[Array] = []
    right: list[float] = []
    positive, kappa_positive = [], []
    place = 10 * n
    for column in (column for columns in layout.drives for column in columns):
        scale = centre.scales[column.index]
        believed = centre.phi[column.index] / scale
        matrix[column.index, place] = scale
        euclidean = centre.faint[column.index]
        if column.symbol in NON_NEGATIVE:
            pulled = weight if centre.known_drives[column.index] else 0.0
            positive.append(place)
            kappa_positive.append(_DRIVE_BARRIER + (pulled if prior_kind != "euclidean" else 0.0))
            euclidean += pulled if prior_kind == "euclidean" else 0.0
            start[place] = max(believed, 1e-2)
        else:
            start[place] = believed
        rows.append(np.sqrt(0.5 * euclidean) * np.eye(p)[place])
        right.append(float(np.sqrt(0.5 * euclidean) * believed))
        place += 1
    kappa, tilt = np.full(n, _BARRIER), np.tile(np.eye(4), (n, 1, 1))
    pull = np.full(10, _FAINT)
    pull[_MASS_PLACE] += _MASS
    for index in range(n):
        own = slice(10 * index, 10 * index + 10)
        block = np.zeros((10, p))
        block[:, own] = np.diag(np.sqrt(0.5 * pull))
        rows.extend(block)
        right.extend(block[:, own] @ start[own])
        pulled = weight * float(shares[index])
        if pulled == 0:
            continue
        inverse = np.linalg.inv(believed_bodies[index])
        if prior_kind != "euclidean":  # two entropies with different minima are one with a minimum between
            S = (_BARRIER * np.eye(4) + pulled * inverse) / (_BARRIER + pulled)
            kappa[index], tilt[index] = _BARRIER + pulled, np.linalg.cholesky(S).T
        else:
            W = np.linalg.cholesky(inverse).T
            block = np.zeros((10, p))
            block[:, own] = np.sqrt(0.5 * pulled) * (BASIS.T @ np.kron(W, W) @ BASIS)
            rows.extend(block)
            right.extend(block[:, own] @ start[own])
    if mass is not None:
        of_mass = np.zeros(p)
        of_mass[[part.start + 9 for part in layout.links]] = 1.0 / (_TOTAL * mass)
        rows.append(of_mass @ matrix)
        right.append(float((mass - np.sum([offset[part][9] for part in layout.links])) / (_TOTAL * mass)))
    data, target, exact = _reduced(R @ (base.matrix @ matrix), z - R @ (base.matrix @ offset))
    return Whitened(
        np.vstack([data, *rows]) if rows else data,
        np.concatenate([target, right]),
        len(data),
        n,
        kappa,
        tilt,
        np.array(positive, dtype=np.intp),
        np.array(kappa_positive),
        offset,
        matrix,
        start,
        exact,
    )


def _reduced(A: Array, b: Array) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return rows of full rank with the same misfit up to a constant, with a limit on their precision."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > max(A.shape) * np.finfo(float).eps * s.max(initial=0.0)
    values = (U.T @ b)[keep] / s[keep]
    limited = np.minimum(s[keep], _STEEPEST)
    steep = s[keep] > _STEEPEST
    return limited[:, None] * Vt[keep], limited * values, (Vt[keep][steep], values[steep])


def objective(problem: Whitened, x: Array) -> float:
    """Return the value to be minimised; infinite outside."""
    residual = problem.A @ x - problem.b
    total = float(residual @ residual)
    u = x[problem.positive]
    if np.any(u <= 0):
        return np.inf
    try:
        factor = np.linalg.cholesky(symmetric(problem, x))
    except np.linalg.LinAlgError:
        return np.inf
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    size = np.diagonal(problem.tilt, axis1=-2, axis2=-1)
    entropy = ((problem.tilt @ factor) ** 2).sum(axis=(-2, -1)) - 2.0 * np.log(diagonal * size).sum(axis=-1) - 4.0
    return total + float(problem.kappa @ entropy + problem.kappa_positive @ (u - np.log(u) - 1.0))


def newton(problem: Whitened, x: Array, limit: int = 100, tolerance: float = 1e-10) -> tuple[Array, int, bool]:
    """Return (x, steps, whether it converged) by damped Newton steps from a point strictly inside.

    A step is the least-squares solution of the rows of A together with the square root of the entropies' Hessian, so
    that data a million times more precise than the belief do not drown it.
    """
    value = objective(problem, x)
    for step in range(1, limit + 1):
        C, c = _entropy_rows(problem, x)
        matrix = np.vstack([problem.A, C])
        right = np.concatenate([problem.b - problem.A @ x, -c])
        q, r = np.linalg.qr(matrix)
        dx = np.linalg.solve(r, q.T @ right)
        decrease = float(np.sum((q.T @ right) ** 2))  # of the quadratic model, in noise variances
        if decrease <= tolerance * max(1.0, 1e-3 * abs(value)):
            return x + dx if objective(problem, x + dx) <= value else x, step, True
        length = 1.0
        for _ in range(60):
            trial = x + length * dx
            found = objective(problem, trial)
            if found < value - 0.1 * length * decrease:
                break
            length *= 0.5
        else:
            return x, step, decrease < 1e-4
        x, value = trial, found
    return x, limit, False


def fading(problem: Whitened) -> Iterator[Whitened]:
    """Yield the problem with entropies from those that hold the belief against all data down to its own, by decades."""
    residual = problem.A @ problem.start - problem.b
    strength = max(float(residual @ residual), 1.0)
    while strength > _BARRIER:
        yield replace(
            problem,
            kappa=np.maximum(problem.kappa, strength),
            kappa_positive=np.maximum(problem.kappa_positive, 1e-2 * strength),
        )
        strength *= 0.1
    yield problem


def path(problem: Whitened) -> tuple[Array, int, bool]:
    """Return (x, steps, converged) by Newton steps along the fading entropies, from the belief."""
    x, steps, converged = problem.start, 0, False
    for eased in fading(problem):
        tolerance = 1e-10 if eased is problem else 1e-3 * float(eased.kappa.min())
        x, count, converged = newton(eased, x, 100 if eased is problem else 30, tolerance)
        steps += count
    return x, steps, converged


def _entropy_rows(problem: Whitened, x: Array) -> tuple[Array, Array]:
    """Return (C, c) with ‖C dx + c‖² the entropies to second order, up to a constant."""
    Y = symmetric(problem, x)
    L = np.linalg.cholesky(Y)
    inverse = np.linalg.inv(L)
    links, p = problem.links, len(x)
    turned = inverse[:, None] @ BASIS.T.reshape(1, 10, 4, 4) @ np.swapaxes(inverse, -1, -2)[:, None]
    blocks = np.swapaxes(turned.reshape(links, 10, 16) @ BASIS, -1, -2)
    WL = problem.tilt @ L
    right = (np.swapaxes(WL, -1, -2) @ WL - np.eye(4)).reshape(links, 16) @ BASIS
    root = np.sqrt(0.5 * problem.kappa)
    count = len(problem.positive)
    C, c = np.zeros((10 * links + count, p)), np.zeros(10 * links + count)
    for index in range(links):
        own = slice(10 * index, 10 * index + 10)
        C[own, own] = root[index] * blocks[index]
        c[own] = root[index] * right[index]
    u, root = x[problem.positive], np.sqrt(0.5 * problem.kappa_positive)
    C[10 * links + np.arange(count), problem.positive] = root / u
    c[10 * links :] = root * (u - 1.0)
    return C, c
