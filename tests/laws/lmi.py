"""The consistent fit as a semidefinite program: cvxpy states it, Clarabel solves it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.identification.consistency.whitened import Whitened, matrices, tens

Array = NDArray[np.float64]
_STEEPEST = 1e5  # rows steeper than this only cost Clarabel digits
_INSIDE = 1e-9


def solve_lmi(problem: Whitened) -> Array | None:
    """Return x (1, p) of a whitened problem of one case, strictly inside.

    None where Clarabel gives up.
    """
    import cvxpy

    cp: Any = cvxpy
    assert problem.geodesic is None
    n = problem.inertial
    D, t, centre = problem.D[0], problem.t[0], problem.centre[0]
    ease = np.minimum(1.0, _STEEPEST / np.maximum(np.linalg.norm(D, axis=1), 1e-300))
    x = cp.Variable(D.shape[1])
    cost = cp.sum_squares((ease[:, None] * D) @ x - ease * t)
    basis = np.stack([matrices(unit).ravel() for unit in np.eye(10)], axis=1)
    for index in range(n // 10):
        own = slice(10 * index, 10 * index + 10)
        y = x[own]
        root = np.linalg.cholesky(problem.Q[0, index] + 1e-300 * np.eye(10)).T
        cost = cost + cp.sum_squares(root @ (y - centre[own]))
        Y = cp.reshape(basis @ y, (4, 4), order="C")
        cost = cost + float(problem.kappa[0, index]) * (
            tens(problem.S[0, index]) @ y - cp.log_det(Y)
        )
    cost = cost + cp.sum_squares(cp.multiply(np.sqrt(problem.q[0]), x[n:] - centre[n:]))
    if len(problem.positive):
        u = x[problem.positive]
        cost = cost + problem.kappa_positive[0] @ u - problem.kappa_positive[0] @ cp.log(u)
    program = cp.Problem(cp.Minimize(cost))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": the tests judge that
        try:
            program.solve(solver=cp.CLARABEL, max_iter=200)
        except cp.error.SolverError:
            return None
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return None
    return _inside(problem, np.asarray(x.value, dtype=float)[None])


def _inside(problem: Whitened, x: Array) -> Array:
    """Move a point that rounding put on or beyond the boundary back inside."""
    x = x.copy()
    x[:, problem.positive] = np.maximum(x[:, problem.positive], _INSIDE)
    values, vectors = np.linalg.eigh(problem.bodies_of(x))
    raised = (vectors * np.maximum(values, _INSIDE)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    x[:, : problem.inertial] = tens(raised).reshape(1, -1)
    return x
