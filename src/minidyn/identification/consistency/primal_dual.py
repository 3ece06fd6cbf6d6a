"""The whitened problem by primal-dual steps: how a fit that ends at the boundary of possible bodies is found in few.

Newton's steps on a barrier crawl towards an active boundary: each can at most halve the distance. Here every body Y has
a multiplier Z beside it, with Z Y = κ at the minimum, and both move (Nesterov-Todd scaling). Neither a small κ nor
another κ than that of the start costs more than a few steps, so that neighbouring problems are solved one after the
other from the same pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from minidyn.arrays import Array
from minidyn.identification.consistency.whitened import BASIS, Whitened, newton, symmetric

_REDUCTION = 0.1  # of the product Z Y in one step, from a far start
_STAY = 0.98  # share of the way to the boundary that a step may go
_NEAR = 1e-2  # from here on Newton's steps converge by themselves
_INWARDS = 0.1  # of the way to the belief
_WARM, _COLD = 30, 80  # most steps from a similar problem's solution, and from the belief


@dataclass(frozen=True)
class Pair:
    """A point and its multipliers.

    Attributes:
        x: The point (p,), strictly inside.
        Z: Multiplier of each body (links, 4, 4), positive definite.
        s: Multiplier of each scalar that must be positive (len(positive),), positive.
    """

    x: Array
    Z: Array
    s: Array


def start_of(problem: Whitened) -> Pair:
    """Return the belief, with multipliers that balance the pull of the data on it."""
    residual = problem.A @ problem.start - problem.b
    strength = max(float(residual @ residual), 1.0)
    kappa = np.maximum(problem.kappa, strength)
    scalar = np.maximum(problem.kappa_positive, 1e-2 * strength)
    inverse = np.linalg.inv(symmetric(problem, problem.start))
    return Pair(problem.start, kappa[:, None, None] * inverse, scalar / problem.start[problem.positive])


def follow(problem: Whitened, pair: Pair | None = None, tolerance: float = 1e-10) -> tuple[Pair, int, bool]:
    """Return (pair at the minimum, steps, whether it converged).

    The last steps are plain Newton steps, which prove the minimum. A start at another part of the boundary can hold
    the steps up: then the belief is the start.

    Args:
        problem: What to minimise.
        pair: The solution of a similar problem; None: the belief.
        tolerance: Of the objective, in noise variances.
    """
    A = np.asarray(np.linalg.qr(np.column_stack([problem.A, problem.b]), mode="r"))
    steps = 0
    for begin, limit in ((pair and _inwards(problem, pair), _WARM), (start_of(problem), _COLD)):
        if begin is None:
            continue
        now, far = begin, np.inf
        while far > _NEAR and limit:
            now, far = _step(problem, A, now)
            steps, limit = steps + 1, limit - 1
        if far <= _NEAR:
            break
    x, more, converged = newton(problem, now.x, 30, tolerance)
    multipliers = problem.kappa[:, None, None] * np.linalg.inv(symmetric(problem, x))
    return Pair(x, multipliers, problem.kappa_positive / x[problem.positive]), steps + more, converged


def _inwards(problem: Whitened, pair: Pair) -> Pair:
    """Return a pair a little towards the belief, off the boundary that the next minimum may not touch."""
    x = pair.x + _INWARDS * (problem.start - pair.x)
    Y, u = symmetric(problem, x), x[problem.positive]
    product = np.einsum("kij,kji->k", Y, pair.Z) / 4
    more = np.maximum(_INWARDS * product, problem.kappa)[:, None, None] * np.linalg.inv(Y)
    return Pair(x, pair.Z + more, pair.s + np.maximum(_INWARDS * u * pair.s, problem.kappa_positive) / u)


def _step(problem: Whitened, A: Array, pair: Pair) -> tuple[Pair, float]:
    """Return the next pair, and how far the last one was: step over size, and product Z Y over κ."""
    links, p = problem.links, len(pair.x)
    bodies = slice(0, 10 * links)
    L = np.linalg.cholesky(symmetric(problem, pair.x))
    _, d, Vt = np.linalg.svd(np.swapaxes(np.linalg.cholesky(pair.Z), -1, -2) @ L)
    G = L @ np.swapaxes(Vt, -1, -2) / np.sqrt(d)[:, None, :]  # Gᵀ Z G = G⁻¹ Y G⁻ᵀ = diag(d)
    inverse = np.linalg.inv(G)
    u, s = pair.x[problem.positive], pair.s
    now = d**2
    kappa = np.maximum(problem.kappa, _REDUCTION * now.mean(axis=-1))
    scalar = np.maximum(problem.kappa_positive, _REDUCTION * u * s)
    # rows whose squares are the curvature of the entropies along (Y, Z), and their right side
    turned = inverse[:, None] @ BASIS.T.reshape(1, 10, 4, 4) @ np.swapaxes(inverse, -1, -2)[:, None]
    blocks = np.swapaxes(turned.reshape(links, 10, 16) @ BASIS, -1, -2)
    WG = problem.tilt @ G
    pull = problem.kappa[:, None, None] * (np.swapaxes(WG, -1, -2) @ WG)
    pull -= (kappa[:, None] / d)[..., None] * np.eye(4)
    c = pull.reshape(links, 16) @ BASIS
    count = len(u)
    rows = np.zeros((len(A) + 10 * links + count, p + 1))
    rows[: len(A), :p] = A[:, :p]
    rows[: len(A), p] = A[:, p] - A[:, :p] @ pair.x
    top = len(A)
    for index in range(links):
        own = slice(10 * index, 10 * index + 10)
        rows[top + 10 * index : top + 10 * index + 10, own] = np.sqrt(0.5) * blocks[index]
    rows[top : top + 10 * links, p] = -np.sqrt(0.5) * c.ravel()
    ratio = np.sqrt(0.5 * s / u)
    rows[top + 10 * links + np.arange(count), problem.positive] = ratio
    rows[top + 10 * links :, p] = -0.5 * (problem.kappa_positive - scalar / u) / ratio
    R = np.asarray(np.linalg.qr(rows, mode="r"))
    dx = solve_triangular(R[:p, :p], R[:p, p])
    dY = inverse @ (dx[bodies].reshape(-1, 10) @ BASIS.T).reshape(-1, 4, 4) @ np.swapaxes(inverse, -1, -2)
    dZ = (kappa[:, None] / d - d)[..., None] * np.eye(4) - dY
    du = dx[problem.positive]
    ds = scalar / u - s - s / u * du
    root = 1.0 / np.sqrt(d)
    scaled = root[:, :, None] * root[:, None, :]
    forward = _reach(np.linalg.eigvalsh(scaled * dY).min(initial=0.0), np.min(du / u, initial=0.0))
    back = _reach(np.linalg.eigvalsh(scaled * dZ).min(initial=0.0), np.min(ds / s, initial=0.0))
    Z = pair.Z + back * np.swapaxes(inverse, -1, -2) @ dZ @ inverse
    far = max(
        float(np.abs(now / problem.kappa[:, None] - 1.0).max(initial=0.0)),
        float(np.abs(u * s / problem.kappa_positive - 1.0).max(initial=0.0)),
        float(np.abs(scaled * dY).max(initial=0.0)),
        float(np.abs(du / u).max(initial=0.0)),
    )
    return Pair(pair.x + forward * dx, (Z + np.swapaxes(Z, -1, -2)) / 2, s + back * ds), far


def _reach(*lowest: float) -> float:
    """Return the step length that keeps what shrinks by these shares inside."""
    worst = -min(lowest)
    return 1.0 if worst < _STAY else _STAY / worst
