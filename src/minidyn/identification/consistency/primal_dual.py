"""The whitened problem by primal-dual steps.

How a fit that ends at the boundary of consistent bodies is found in few. Newton's steps on a
barrier crawl towards an active boundary: each can at most halve the distance. Here every body Y has
a multiplier Z beside it, with Z Y = κ at the minimum, and both move (Nesterov-Todd scaling: one G
with Gᵀ Z G = G⁻¹ Y G⁻ᵀ = diag(d)). A first trial step says how far the products may fall at once
and what it leaves out to second order (Mehrotra); the true step follows from the same
factorisation. Plain Newton steps prove the minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from minidyn.arrays import Array, covariance_root, of_roots
from minidyn.identification.consistency.whitened import (
    Whitened,
    congruence,
    entropic,
    matrices,
    objective,
    relative,
    tangent,
    tens,
)

_STAY = 0.95  # share of the way to the boundary that a step may go
_NEAR = 0.1  # from here on Newton's steps converge by themselves
_INWARDS = 0.1  # of the way to the prior
_WARM, _COLD, _FADE = (
    12,
    80,
    40,
)  # most steps from a similar problem's solution, from the prior, and of each fading
_LEAST = 1e-10  # entropy over misfit: less is lost in rounding where no body can have the data
_FADING = (
    1e-2,
    1e-4,
    1e-6,
    1e-8,
    _LEAST,
)  # the same, one after the other, where a direct way is too long
_NEWTON, _ROUNDS = 60, 30
# noise variances: the entropy that holds a fit off the border where its spread is looked at
_OFF = 1.0
# curvature of a geodesic distance, over that of the entropy, where it has less or bends the other
# way
_FLATTEST = 0.1


@dataclass(frozen=True)
class Pair:
    """Points and their multipliers."""

    x: Array  # the points (c, p), strictly inside
    Z: Array  # a factor F (c, l, 4, 4) of each body's multiplier Z = F Fᵀ, positive definite
    s: Array  # multiplier of each scalar that must be positive (c, len(positive)), positive

    def cases(self, which: NDArray[np.intp]) -> Pair:
        """Return some of the cases."""
        return Pair(self.x[which], self.Z[which], self.s[which])


@dataclass(frozen=True)
class Solved:
    """Minima of whitened problems."""

    x: Array  # the points (c, p)
    pair: Pair  # from where a similar problem may start; its point is that of the entropic problem
    steps: int  # number of steps taken
    converged: bool  # whether all cases did


def solve(problem: Whitened, start: Pair | None = None, tolerance: float = 1e-10) -> Solved:
    """Return the minima.

    A start at another part of the boundary can hold the steps up: then the prior is the start. A
    geodesic distance is replaced by the entropic one at first, and where Newton's steps then crawl
    along the boundary by the entropy that has the same slope and bends more. The tolerance is that
    of the objective, in noise variances.
    """
    if problem.geodesic is None:
        return _entropic(problem, start, tolerance)
    found = _entropic(entropic(problem, problem.geodesic), start, tolerance)
    x, pair, steps = found.x, found.pair, found.steps
    for _ in range(_ROUNDS):
        x, more, converged = _newton(problem, x, tolerance, 15)
        steps += more
        if converged:
            break
        eased = _entropic(tangent(problem, x), pair, tolerance)
        steps += eased.steps
        better = objective(problem, eased.x) < objective(problem, x)
        x = np.where(better[:, None], eased.x, x)
    return Solved(x, pair, steps, converged)


def _entropic(problem: Whitened, start: Pair | None, tolerance: float) -> Solved:
    x, steps, todo = problem.start.copy(), 0, np.arange(len(problem.t))
    ways = ((_at_prior(problem), _COLD, (_LEAST,)), (_at_prior(problem), _FADE, _FADING))
    for begin, limit, fading in (
        ways if start is None else ((_inwards(problem, start), _WARM, (_LEAST,)), *ways)
    ):
        part, pair = problem.cases(todo), begin.cases(todo)
        for least in fading:
            pair, more, left = _followed(part, pair, limit, least)
            steps += more
        x[todo], todo = pair.x, todo[left]
        if not len(todo):
            break
    problem = _eased(problem, x, _LEAST)
    x = np.where(np.isfinite(objective(problem, x))[:, None], x, problem.start)
    x, more, converged = _newton(problem, x, tolerance, _NEWTON)
    inverse = np.linalg.inv(np.linalg.cholesky(problem.bodies_of(x)))
    Z = np.sqrt(problem.kappa)[..., None, None] * np.swapaxes(inverse, -1, -2)
    return Solved(
        x, Pair(x, Z, problem.kappa_positive / x[:, problem.positive]), steps + more, converged
    )


def _followed(
    problem: Whitened, pair: Pair, limit: int, least: float
) -> tuple[Pair, int, NDArray[np.intp]]:
    """Return the pair after at most so many steps, their number, and the cases that are not near
    the minimum yet.
    """
    x, Z, s = pair.x.copy(), pair.Z.copy(), pair.s.copy()
    todo, part = np.arange(len(x)), problem
    steps = 0
    while steps < limit:
        try:
            now, far = _step(_eased(part, x[todo], least), Pair(x[todo], Z[todo], s[todo]))
            steps += 1
        except np.linalg.LinAlgError:  # a body so near the boundary that rounding puts it beyond
            break
        x[todo], Z[todo], s[todo] = now.x, now.Z, now.s
        if np.any(far <= _NEAR):
            todo = todo[far > _NEAR]
            if not len(todo):
                break
            part = problem.cases(todo)
    return Pair(x, Z, s), steps, todo


def _eased(problem: Whitened, x: Array, least: float) -> Whitened:
    """Return the problem with entropies of at least this part of the misfit."""
    misfit = np.sum(((problem.D @ x[..., None])[..., 0] - problem.t) ** 2, axis=-1, keepdims=True)
    if not np.any(least * misfit > problem.kappa.min(initial=np.inf)):
        return problem
    kappa, scalars = (
        np.maximum(own, least * misfit) for own in (problem.kappa, problem.kappa_positive)
    )
    return replace(problem, kappa=kappa, kappa_positive=scalars)


def _at_prior(problem: Whitened) -> Pair:
    """Return the prior, with multipliers that balance the pull of the data on it."""
    residual = (problem.D @ problem.start[..., None])[..., 0] - problem.t
    strength = np.maximum(np.sum(residual**2, axis=-1, keepdims=True), 1.0)
    kappa, scalar = (
        np.maximum(problem.kappa, strength),
        np.maximum(problem.kappa_positive, 1e-2 * strength),
    )
    root = np.swapaxes(np.linalg.inv(np.linalg.cholesky(problem.bodies)), -1, -2)
    return Pair(
        problem.start,
        np.sqrt(kappa)[..., None, None] * root,
        scalar / problem.start[:, problem.positive],
    )


def _inwards(problem: Whitened, pair: Pair) -> Pair:
    """Return a pair a little towards the prior, off the boundary that the next minimum may not
    touch.
    """
    x = pair.x + _INWARDS * (problem.start - pair.x)
    Y, u = problem.bodies_of(x), x[:, problem.positive]
    Z = pair.Z @ np.swapaxes(pair.Z, -1, -2)
    product = np.einsum("clij,clji->cl", Y, Z) / 4
    Z = Z + np.maximum(_INWARDS * product, problem.kappa)[..., None, None] * np.linalg.inv(Y)
    return Pair(
        x,
        np.linalg.cholesky(Z),
        pair.s + np.maximum(_INWARDS * u * pair.s, problem.kappa_positive) / u,
    )


def _factored(
    problem: Whitened, turn: Array, diagonal: Array, more: Array | None = None
) -> Callable[[Array, Array], Array]:
    """Return (rho, g) -> -(DᵀD + B)⁻¹ (Dᵀ rho + g), B the curvature of all but the data, of drives
    a diagonal (c, m).

    The entropies of a link are ½‖v‖² for y = turnᵀ v, turn (c, l, 10, 10); `more` (c, l, 10, 10)
    bends it further. In coordinates in which B is the identity neither a precise datum nor a body
    at the boundary costs the others their digits.
    """
    c, links = turn.shape[:2]
    n = 10 * links
    bend = turn @ (problem.Q if more is None else problem.Q + more) @ np.swapaxes(turn, -1, -2)
    K = np.linalg.solve(np.linalg.cholesky(0.5 * np.eye(10) + bend), turn)
    root = 1.0 / np.sqrt(diagonal)
    M = np.empty_like(problem.D)
    by_link = np.swapaxes(problem.D[..., :n].reshape(c, -1, links, 10), 1, 2)
    M[..., :n] = np.swapaxes(by_link @ np.swapaxes(K, -1, -2), 1, 2).reshape(c, -1, n)
    M[..., n:] = problem.D[..., n:] * root[:, None]
    H = np.swapaxes(M, -1, -2) @ M
    H.reshape(c, -1)[:, :: H.shape[1] + 1] += 1.0
    factors = [dpotrf(own.T, lower=1, clean=0, overwrite_a=1)[0] for own in H]

    def step(rho: Array, g: Array) -> Array:
        v = np.swapaxes(M, -1, -2) @ rho[..., None]
        v[:, :n] += (K @ g[:, :n].reshape(c, links, 10, 1)).reshape(c, n, 1)
        v[:, n:, 0] += g[:, n:] * root
        v = np.array([dpotrs(factor, own, lower=1)[0] for factor, own in zip(factors, v)])
        inertial = (np.swapaxes(K, -1, -2) @ v[:, :n].reshape(c, links, 10, 1)).reshape(c, n)
        return -np.concatenate([inertial, v[:, n:, 0] * root], axis=1)

    return step


def _pull(problem: Whitened, x: Array) -> tuple[Array, Array]:
    """Return the data's residual (c, k) and half the slope (c, p) of all that is not data, but for
    the logarithms.
    """
    n, off = problem.inertial, x - problem.centre
    g = np.empty_like(x)
    S = 0.5 * tens(problem.kappa[..., None, None] * problem.S)
    g[:, :n] = ((problem.Q @ off[:, :n].reshape(*S.shape, 1))[..., 0] + S).reshape(len(x), n)
    g[:, n:] = problem.q * off[:, n:]
    g[:, problem.positive] += 0.5 * problem.kappa_positive
    return (problem.D @ x[..., None])[..., 0] - problem.t, g


def _step(problem: Whitened, pair: Pair) -> tuple[Pair, Array]:
    """Return the next pair, and how far the last one was (c,).

    Step over size, and product Z Y over κ.
    """
    x, s, n, c = pair.x, pair.s, problem.inertial, len(pair.x)
    kappa, scalar, u = problem.kappa, problem.kappa_positive, x[:, problem.positive]
    L = np.linalg.cholesky(problem.bodies_of(x))
    factor = np.swapaxes(pair.Z, -1, -2)
    U, d, Vt = np.linalg.svd(factor @ L)
    root = 1.0 / np.sqrt(d)
    G = L @ np.swapaxes(Vt, -1, -2) * root[..., None, :]
    inverse = np.swapaxes(U * root[..., None, :], -1, -2) @ factor
    across, D = np.swapaxes(inverse, -1, -2), d[..., None] * np.eye(4)
    diagonal = problem.q.copy()
    diagonal[:, problem.positive - n] += 0.5 * s / u
    solved = _factored(problem, congruence(G), diagonal)
    rho, pull = _pull(problem, x)
    scale = root[..., :, None] * root[..., None, :]

    def move(wanted: Array, product: Array) -> tuple[Array, ...]:
        """Return changes dx, dY, dZ, du, ds for sums Y + Z and products s u, and steps that keep x,
        Z and s inside.
        """
        g = pull.copy()
        g[:, :n] -= 0.5 * tens(across @ wanted @ inverse).reshape(c, n)
        g[:, problem.positive] -= 0.5 * product / u
        dx = solved(rho, g)
        dY = inverse @ matrices(dx[:, :n].reshape(c, -1, 10)) @ across
        dZ, du = wanted - D - dY, dx[:, problem.positive]
        ds = (product - s * du) / u - s
        of_Y, of_Z = np.linalg.eigvalsh(scale * np.stack([dY, dZ]))[..., 0]
        forward = np.minimum(of_Y.min(axis=-1, initial=0.0), np.min(du / u, axis=-1, initial=0.0))
        return dx, dY, dZ, du, ds, _reach(forward), _reach(of_Z), _reach(ds / s)

    now, product = np.mean(d**2, axis=-1), u * s
    _, dY, dZ, du, ds, forward, back, back_s = move(
        (kappa[..., None] / d)[..., None] * np.eye(4), scalar
    )
    together = np.minimum(back.min(axis=-1, initial=1.0), back_s.min(axis=-1, initial=1.0))
    first, second = forward[:, None, None, None], together[:, None, None, None]
    trial = np.einsum("clij,clji->cl", D + first * dY, D + second * dZ) / 4
    trial_s = (u + forward[:, None] * du) * (s + together[:, None] * ds)
    left, before = (
        np.sum(np.maximum(a - kappa, 0.0), axis=-1) + np.sum(np.maximum(b - scalar, 0.0), axis=-1)
        for a, b in ((trial, trial_s), (now, product))
    )
    fall = (np.minimum(left, before) / np.maximum(before, 1e-300))[:, None] ** 2
    target, target_s = np.maximum(kappa, fall * now), np.maximum(scalar, fall * product)
    bent = first * second * (dY @ dZ + dZ @ dY) / (d[..., :, None] + d[..., None, :])
    limit = (
        0.5 * target / d.max(axis=-1) / np.maximum(np.abs(bent).sum(axis=-1).max(axis=-1), 1e-300)
    )
    bent = np.minimum(limit, 1.0)[..., None, None] * bent
    bent_s = np.clip((forward * together)[:, None] * du * ds, -target_s, 0.5 * target_s)
    dx, dY, dZ, du, ds, forward, back, back_s = move(
        (target[..., None] / d)[..., None] * np.eye(4) - bent, target_s - bent_s
    )
    far = [
        np.abs(d**2 / kappa[..., None] - 1.0).max(axis=(1, 2), initial=0.0),
        np.abs(product / scalar - 1.0).max(axis=-1, initial=0.0),
        np.abs(scale * dY).max(axis=(1, 2, 3), initial=0.0),
        np.abs(du / u).max(axis=-1, initial=0.0),
    ]
    Z = across @ np.linalg.cholesky(D + back[..., None, None] * dZ)
    return Pair(x + forward[:, None] * dx, Z, s + back_s * ds), np.max(far, axis=0)


def _reach(shares: Array) -> Array:
    """Return the step lengths that keep what changes by these shares inside."""
    return np.where(shares > -_STAY, 1.0, _STAY / np.maximum(-shares, _STAY))


def _newton(problem: Whitened, x: Array, tolerance: float, limit: int) -> tuple[Array, int, bool]:
    """Return (x, steps, whether all cases converged) by damped Newton steps from points strictly
    inside.
    """
    n, value = problem.inertial, objective(problem, x)
    for step in range(1, limit + 1):
        u = x[:, problem.positive]
        L = np.asarray(np.linalg.cholesky(problem.bodies_of(x)), dtype=float)
        inverse, bend = np.linalg.inv(L), None
        diagonal = problem.q.copy()
        diagonal[:, problem.positive - n] += 0.5 * problem.kappa_positive / u**2
        rho, g = _pull(problem, x)
        slope = -problem.kappa[..., None, None] * (np.swapaxes(inverse, -1, -2) @ inverse)
        if problem.geodesic is not None:
            of_geodesic, bend = _geodesic(problem, x)
            slope = slope + of_geodesic
        g[:, :n] += 0.5 * tens(slope).reshape(len(x), n)
        g[:, problem.positive] -= 0.5 * problem.kappa_positive / u
        dx = _factored(
            problem, congruence(L) / np.sqrt(problem.kappa)[..., None, None], diagonal, bend
        )(rho, g)
        decrease = -np.sum((problem.D @ dx[..., None])[..., 0] * rho, axis=-1) - np.sum(
            dx * g, axis=-1
        )
        done = decrease <= tolerance * np.maximum(1.0, 1e-3 * np.abs(value))
        length = np.ones(len(x))
        for _ in range(60):
            trial = x + length[:, None] * dx
            found = objective(problem, trial)
            short = ~(done | (found < value - 0.1 * length * decrease))
            if not short.any():
                break
            length[short] *= 0.5
        better = found <= value
        x, value = np.where(better[:, None], trial, x), np.where(better, found, value)
        if done.all():
            return x, step, True
        if short.any():
            return x, step, bool(np.all(decrease < 1e-4))
    return x, limit, False


def spread(
    plain: Whitened,
    problem: Whitened,
    found: Solved,
    A: Array,
    score: Array,
    own_score: Array,
    errors: Array,
) -> tuple[Array, Array]:
    """Return the covariance (b, b) of A x, x the minimum of the one case, mean squares of its
    error; and the log's own.

    Noise of the data moves the slope at x with a covariance whose root is `score` (p, k); that of
    `own_score` (p, k) is not the same in other logs. Bodies of the prior, which `plain` is without,
    are off by `errors` (l + 1,), squares of parts of their own size, those of rotors last. With H
    all curvature at x, B that of the prior and S the spread of its bodies,

        cov x = H⁻¹ (score scoreᵀ + B S B + all other curvature) H⁻¹,

    and with `own_score` alone it is what another log, fitted alike, has of its own. Each is a sum
    of squares of roots, so that rounding makes no variance negative.

    At the border of consistent bodies a fit has no slope to speak of, and the truth may lie inside:
    curvature is taken where a logarithm of one noise variance holds x off the border, and the way
    there is added. For one unknown that must be positive this is the mean square of a truncated
    normal distribution.
    """
    kappa = np.maximum(problem.kappa, _OFF)
    S = (problem.kappa / kappa)[
        ..., None, None
    ] * problem.S  # off the border, but not nearer to the prior
    eased = replace(
        problem, kappa=kappa, S=S, kappa_positive=np.maximum(problem.kappa_positive, _OFF)
    )
    off = solve(eased, found.pair, tolerance=1e-6).x
    B, firm = _curvature(eased, off), _curvature(problem, off) - _curvature(plain, off)
    pull = B - firm
    turns = congruence(np.linalg.cholesky(eased.bodies_of(off))[0])
    for link, (turn, error) in enumerate(zip(turns, errors)):
        part = slice(10 * link, 10 * link + 10)
        pull[part, part] += error * firm[part, part] @ turn.T @ turn @ firm[part, part]
    known = problem.positive
    pull[known, known] += errors[-1] * (firm[known, known] * off[0, known]) ** 2
    H = problem.D[0].T @ problem.D[0] + B
    scale = 1.0 / np.sqrt(np.diag(H))
    response = scale[:, None] * np.linalg.solve(scale[:, None] * H * scale, scale[:, None] * A.T)
    way = A @ (off - found.x)[0]
    of_noise, of_log, of_prior = (
        response.T @ root for root in (score, own_score, covariance_root(pull))
    )
    return of_roots(of_noise, of_prior, way[:, None]), of_roots(of_log)


def _curvature(problem: Whitened, x: Array) -> Array:
    """Return half the curvature (p, p) of all that is not data, in the one case.

    The precision that it adds.
    """
    n = problem.inertial
    C = congruence(np.linalg.inv(np.linalg.cholesky(problem.bodies_of(x))))
    own = problem.Q + 0.5 * problem.kappa[..., None, None] * (C @ np.swapaxes(C, -1, -2))
    if problem.geodesic is not None:
        own = own + _geodesic(problem, x)[1]
    found = np.zeros((x.shape[1], x.shape[1]))
    for link, block in enumerate(own[0]):
        found[10 * link : 10 * link + 10, 10 * link : 10 * link + 10] = block
    found[range(n, len(found)), range(n, len(found))] = problem.q[0]
    found[problem.positive, problem.positive] += (
        0.5 * problem.kappa_positive / x[:, problem.positive] ** 2
    )[0]
    return found


def _geodesic(problem: Whitened, x: Array) -> tuple[Array, Array]:
    """Return slope (c, l, 4, 4) and half the curvature (c, l, 10, 10) of the geodesic distances.

    Never concave.
    """
    values, turn = relative(problem, x)
    logs, weight = np.log(values), np.asarray(problem.geodesic)[..., None, None]
    slope = weight * (np.swapaxes(turn, -1, -2) * (logs / values)[..., None, :]) @ turn
    apart = values[..., :, None] - values[..., None, :]
    ratio = (logs / values)[..., :, None] - (logs / values)[..., None, :]
    product = values[..., :, None] * values[..., None, :]
    same = np.abs(apart) < 1e-6 * np.sqrt(product)
    mean = 0.5 * (logs[..., :, None] + logs[..., None, :])
    bend = np.where(same, (1.0 - mean) / product, ratio / np.where(same, 1.0, apart))
    bend = np.maximum(bend, _FLATTEST / product)[..., *np.triu_indices(4)]
    C = congruence(turn)
    return slope, 0.5 * weight * (C * bend[..., None, :]) @ np.swapaxes(C, -1, -2)
