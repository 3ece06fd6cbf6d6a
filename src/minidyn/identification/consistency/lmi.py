"""The consistent fit as a semidefinite program: cvxpy states it, Clarabel solves it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.identification.consistency.whitened import BASIS, Whitened, symmetric

_STEEPEST = 1e5  # rows steeper than this only cost the solver digits; Newton steps restore them afterwards
_INSIDE = 1e-9


def solve_lmi(problem: Whitened) -> tuple[Array, int]:
    """Return (x, iterations) of the whitened problem, x strictly inside.

    Raises:
        MinidynError: The solver ended without a usable solution; the message gives its status.
    """
    import cvxpy

    cp: Any = cvxpy  # its functions carry no types

    sizes = np.linalg.norm(problem.A, axis=1)
    ease = np.minimum(1.0, _STEEPEST / np.maximum(sizes, 1e-300))
    x = cp.Variable(problem.A.shape[1])
    cost = cp.sum_squares((ease[:, None] * problem.A) @ x - ease * problem.b)
    for index in range(problem.links):
        y = x[10 * index : 10 * index + 10]
        Y = cp.reshape(BASIS @ y, (4, 4), order="C")
        kappa = float(problem.kappa[index])
        S = problem.tilt[index].T @ problem.tilt[index]
        cost = cost + kappa * ((BASIS.T @ S.ravel()) @ y - cp.log_det(Y))
    if len(problem.positive):
        u = x[problem.positive]
        cost = cost + problem.kappa_positive @ u - problem.kappa_positive @ cp.log(u)
    program = cp.Problem(cp.Minimize(cost))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": judged below, and refined by the caller
            program.solve(solver=cp.CLARABEL, max_iter=200)
    except cp.error.SolverError:
        raise MinidynError("Clarabel ended without a solution") from None
    if x.value is None or program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise MinidynError(f"Clarabel ended with status {program.status!r}")
    iterations = program.solver_stats.num_iters if program.solver_stats is not None else 0
    return _inside(problem, np.asarray(x.value, dtype=float)), int(iterations or 0)


def _inside(problem: Whitened, x: Array) -> Array:
    """Move a point that rounding put on or beyond the boundary back inside."""
    x = x.copy()
    x[problem.positive] = np.maximum(x[problem.positive], _INSIDE)
    Y = symmetric(problem, x)
    values, vectors = np.linalg.eigh(Y)
    if np.any(values <= _INSIDE):
        raised = (vectors * np.maximum(values, _INSIDE)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
        x[: 10 * problem.links] = (raised.reshape(-1, 16) @ BASIS).ravel()
    return x
