"""Which solver takes the way to the minimum; Newton's steps give the last digits."""

from __future__ import annotations

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.identification.consistency.primal_dual import follow
from minidyn.identification.consistency.whitened import Whitened, newton, objective, path

SOLVERS = ("auto", "newton", "lmi", "log_cholesky")


def solve(problem: Whitened, solver: str, notices: list[str]) -> tuple[Array, str, int, bool]:
    """Return (x, solver that was used, iterations, converged); what went wrong on the way is added to `notices`.

    "auto" takes primal-dual Newton steps, which need no other package and a tenth of the time; where these fail
    the semidefinite solver, and where that fails log-Cholesky descent.
    """
    from minidyn.identification.consistency.log_cholesky import solve_log_cholesky

    if solver in ("auto", "newton"):
        pair, iterations, converged = follow(problem)
        if converged or solver == "newton":
            return pair.x, "newton", iterations, converged
    if solver != "log_cholesky":
        try:
            from minidyn.identification.consistency.lmi import solve_lmi

            x, iterations = solve_lmi(problem)
            x, steps, converged = newton(problem, x)
            if converged:
                return x, "lmi", iterations + steps, True
            notices.append("the semidefinite solver stopped early; log-Cholesky descent was used instead")
        except (MinidynError, ImportError) as error:
            notices.append(f"the semidefinite solver failed ({error}); log-Cholesky descent was used instead")
    x, iterations = solve_log_cholesky(problem)
    x, steps, converged = newton(problem, x)
    iterations += steps
    if not converged:
        other, steps, converged = path(problem)
        iterations += steps
        if objective(problem, other) < objective(problem, x):
            x = other
    return x, "log_cholesky", iterations, converged
