"""The consistent fit without a semidefinite solver: Levenberg-Marquardt on log-Cholesky parameters.

A pseudo-inertia is U Uᵀ with U = e^α [[e^d1, s12, s13, t1], [0, e^d2, s23, t2], [0, 0, e^d3, t3], [0, 0, 0, 1]]: any
ten numbers α, d, s, t are a possible body, so nothing has to be constrained. The entropy of U Uᵀ is a sum of squares in
these numbers, which makes the whole problem one of least squares. Rotor inertias and friction terms are exponentials.

The parametrisation is that of Rucker and Wensing (2022), "Smooth parameterization of rigid-body inertia", with one
difference: it is taken in the coordinates in which the believed body is the identity.
"""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.consistency.whitened import BASIS, Whitened, fading, objective, symmetric

_S = ((0, 1), (1, 2), (0, 2))  # places of s12, s23, s13
_OFF = np.array([(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)])
_FARTHEST = 12.0  # logarithms stay within this: beyond it a body is a point or a planet


def from_log_cholesky(theta: Array) -> tuple[Array, Array]:
    """Return U (..., 4, 4) and its derivatives (..., 10, 4, 4) at theta = α d1 d2 d3 s12 s23 s13 t1 t2 t3."""
    size = np.exp(theta[..., 0])
    U = np.zeros((*theta.shape[:-1], 4, 4))
    dU = np.zeros((*theta.shape[:-1], 10, 4, 4))
    for k in range(3):
        U[..., k, k] = dU[..., 1 + k, k, k] = size * np.exp(theta[..., 1 + k])
        U[..., k, 3] = size * theta[..., 7 + k]
        dU[..., 7 + k, k, 3] = size
    for k, (i, j) in enumerate(_S):
        U[..., i, j] = size * theta[..., 4 + k]
        dU[..., 4 + k, i, j] = size
    U[..., 3, 3] = size
    dU[..., 0, :, :] = U
    return U, dU


def to_log_cholesky(P: Array) -> Array:
    """Return theta (..., 10) of positive definite matrices (..., 4, 4)."""
    U = np.linalg.cholesky(P[..., ::-1, ::-1])[..., ::-1, ::-1]
    size = U[..., 3, 3]
    theta = np.empty((*P.shape[:-2], 10))
    theta[..., 0] = np.log(size)
    for k in range(3):
        theta[..., 1 + k] = np.log(U[..., k, k] / size)
        theta[..., 7 + k] = U[..., k, 3] / size
    for k, (i, j) in enumerate(_S):
        theta[..., 4 + k] = U[..., i, j] / size
    return theta


def solve_log_cholesky(problem: Whitened, limit: int = 400) -> tuple[Array, int]:
    """Return (x, iterations) of the whitened problem, from the belief, with entropies that fade to its own.

    At the boundary, where U loses rank, a body depends on U by its square and Gauss-Newton steps crawl: there the
    data's pull outwards, the multiplier of a constraint nobody has to write down, is added as the curvature it is.
    """
    start = problem.start
    v = start.copy()
    v[: 10 * problem.links] = to_log_cholesky(symmetric(problem, start)).ravel()
    v[problem.positive] = np.log(start[problem.positive])
    steps = 0
    for eased in fading(problem):
        v, count = _descend(eased, v, 10 if eased is not problem else limit - steps)
        steps += count
    point = _linearised(problem, v)[2]
    return (point if np.isfinite(objective(problem, point)) else start), steps


def _descend(problem: Whitened, v: Array, limit: int) -> tuple[Array, int]:
    """Return log-Cholesky parameters after at most `limit` Levenberg-Marquardt steps, and their number."""
    bounded = np.zeros(len(v), dtype=bool)
    bounded[: 10 * problem.links] = np.tile(np.arange(10) < 4, problem.links)
    bounded[problem.positive] = True
    residual, J, _, curvature = _linearised(problem, v)
    value = float(residual @ residual)
    damping, quiet, count = 1e-3, 0, 0
    while count < limit and quiet < 3 and damping < 1e12:
        count += 1
        scale = np.maximum(np.linalg.norm(J, axis=0), 1e-6)
        q, r = np.linalg.qr(np.vstack([J, curvature, np.diag(np.sqrt(damping) * scale)]))
        dv = -np.linalg.solve(r, q[: len(J)].T @ residual)
        trial = v + np.where(bounded, np.clip(dv, -3.0, 3.0), dv)  # one step changes no scale by more than e³
        trial[bounded] = np.clip(trial[bounded], -_FARTHEST, _FARTHEST)
        new = _linearised(problem, trial)
        found = float(new[0] @ new[0])
        if found < value:
            quiet = quiet + 1 if value - found < 1e-8 * max(1.0, 1e-3 * value) else 0
            v, (residual, J, _, curvature), value = trial, new, found
            damping = max(damping / 5.0, 1e-12)
        else:
            damping *= 4.0
    return v, count


def _linearised(problem: Whitened, v: Array) -> tuple[Array, Array, Array, Array]:
    """Return residuals, their Jacobian, x, and rows of curvature; the residuals' sum of squares is the objective."""
    links, p = problem.links, len(v)
    U, dU = from_log_cholesky(v[: 10 * links].reshape(-1, 10))
    dY = dU @ np.swapaxes(U, -1, -2)[:, None]
    dY = dY + np.swapaxes(dY, -1, -2)
    x, slope = v.copy(), np.eye(p)
    x[: 10 * links] = ((U @ np.swapaxes(U, -1, -2)).reshape(-1, 16) @ BASIS).ravel()
    for index in range(links):
        own = slice(10 * index, 10 * index + 10)
        slope[own, own] = (dY[index].reshape(10, 16) @ BASIS).T
    x[problem.positive] = np.exp(v[problem.positive])
    slope[problem.positive, problem.positive] = x[problem.positive]
    residual = [problem.A @ x - problem.b]
    pull = 2.0 * problem.A.T @ residual[0]
    pulls, directions = np.linalg.eigh((pull[: 10 * links].reshape(-1, 10) @ BASIS.T).reshape(-1, 4, 4))
    roots = np.sqrt(np.maximum(pulls, 0.0))[..., None] * np.swapaxes(directions, -1, -2)
    curvature = np.zeros((16 * links + len(problem.positive), p))
    J = [problem.A @ slope]
    for index in range(links):
        root = np.sqrt(problem.kappa[index])
        block = np.zeros((10, p))
        own = slice(10 * index, 10 * index + 10)
        alpha, d = v[10 * index], v[10 * index + 1 : 10 * index + 4]
        W = problem.tilt[index]
        logs = np.append(alpha + d, alpha) + np.log(np.diag(W))
        value, derivative = _root_of_entropy(2.0 * logs)
        block[:4, 10 * index] = 2.0 * root * derivative
        block[np.arange(3), 10 * index + 1 + np.arange(3)] = 2.0 * root * derivative[:3]
        block[4:, own] = root * (W @ dU[index])[:, _OFF[:, 0], _OFF[:, 1]].T
        residual.append(root * np.concatenate([value, (W @ U[index])[_OFF[:, 0], _OFF[:, 1]]]))
        J.append(block)
        curvature[16 * index : 16 * index + 16, own] = (roots[index] @ dU[index]).reshape(10, 16).T
    outward = np.maximum(0.5 * pull[problem.positive] * x[problem.positive], 0.0)
    curvature[16 * links + np.arange(len(outward)), problem.positive] = np.sqrt(outward)
    value, derivative = _root_of_entropy(v[problem.positive])
    root = np.sqrt(problem.kappa_positive)
    block = np.zeros((len(root), p))
    block[np.arange(len(root)), problem.positive] = root * derivative
    return np.concatenate([*residual, root * value]), np.vstack([*J, block]), x, curvature


def _root_of_entropy(u: Array) -> tuple[Array, Array]:
    """Return sign(u) sqrt(e^u - u - 1) and its derivative: smooth, rising, and the square is the entropy."""
    near = np.abs(u) < 1e-3
    safe = np.where(near, 1.0, u)
    value = np.sign(safe) * np.sqrt(np.expm1(safe) - safe)
    derivative = 0.5 * np.expm1(safe) / value
    root = np.sqrt(0.5)
    return (
        np.where(near, root * u * (1.0 + u / 6.0 + u * u / 36.0), value),
        np.where(near, root * (1.0 + u / 3.0 + u * u / 12.0), derivative),
    )
