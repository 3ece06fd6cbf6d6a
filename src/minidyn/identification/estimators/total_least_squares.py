"""Total least squares: the regressor is noisy, too, and the states themselves show how much.

Noise in positions, speeds and accelerations makes columns too long, and least squares answers with
parameters that are too small. What the columns along recorded and along smoothed states differ by
is the error E of the columns; its moments S = EᵀE say which columns are uncertain and how (a
constant column is exact: E is zero there). Then beta minimises

    ‖y - W beta‖² / (c + betaᵀ S beta)

with c the noise of the torques: total least squares with a stated error covariance, also where it
is singular.

Drive gains are a problem of the same kind: k_j i_j = Y_j beta has its noise in the column of the
gain. There the model predicts the currents, i_j = (Y_j beta + Y_j^L phi_L) / k_j + noise, the form
for noise of any size in each joint, and the likeliest solution for normal noise (`GainProblem`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from minidyn.arrays import Array, of_roots, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.identification.estimators.linear_system import SystemFit, fit_system
from minidyn.identification.estimators.method import Fold, Method, Options, Solution
from minidyn.identification.estimators.solve import block_covariance, block_length, block_sums
from minidyn.identification.estimators.states import as_recorded, best_states, torque_rows
from minidyn.identification.rows.pieces import Piece, Pieces
from minidyn.identification.rows.triangles import Triangles, triangle_of
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording

NOT_TOTAL = info("identify.not_total", "Weighted instead of total least squares was used.")
TOO_NOISY = warning(
    "identify.columns_too_noisy",
    "The states are too noisy for total least squares; weighted least squares was kept.",
    'Prefer "iv" or "didim", or give positions alone.',
)

_MATTERS = (
    0.2  # share of the misfit that errors of columns must explain before they are worth a word
)
# two estimates whose squares left over differ by a smaller share explain the torques equally well
_AS_GOOD = 0.01


def total_least_squares(
    robot: Robot, base: BaseMap, recording: AnyRecording, options: Options
) -> Solution:
    """Estimate base parameters by total least squares with the column errors that the states
    show.
    """
    whole = recording.load()
    recorded, smooth = as_recorded(whole), best_states(robot, base, whole)
    pieces = torque_rows(robot, base, recorded)
    found = fit_system(base, pieces, options.allow_open)
    notices, share = tuple[Notice, ...](), 0.0
    with single_thread():
        both = torque_rows(robot, base, replace(recorded, usable=smooth.usable), smooth)
        L = _column_errors(both, found)
        L *= np.sqrt(len(whole) / max(1, int(smooth.usable.sum())))
        T = np.zeros((base.rank + 1, base.rank + 1))
        T[:-1, :-1], T[:-1, -1], T[-1, -1] = found.R, found.z, np.sqrt(found.rest)
        if not np.isfinite(found.covariance).all():
            text = (
                "the motion leaves parameters open: weighted instead of total least squares was "
                "used"
            )
            notices = (NOT_TOTAL(text, reason="open"),)
        elif not np.any(L) or not found.rest > 1e-12 * float(found.z @ found.z):
            text = "the states show no noise: total least squares is weighted least squares here"
            notices = (NOT_TOTAL(text, reason="no noise"),)
        else:
            refined, share = _refined(pieces, found, T, L)
            # where errors are as large as columns the correction is worth nothing; smoothed states
            # have little noise
            corrected, plain = _left(both, refined), _left(both, found)
            if corrected < plain:
                found = refined
            elif share < _MATTERS or corrected < (1.0 + _AS_GOOD) * plain:
                text = (
                    f"errors of the columns explain {100 * share:.1g} % of the misfit: weighted "
                    "least squares was kept, which is as good"
                )
                notices = (NOT_TOTAL(text, reason="small errors"),)
            else:
                text = (
                    "errors of the columns are too large for total least squares: it would "
                    f"explain torques along smoothed states ({smooth.origin}) worse than weighted "
                    "least squares, which was kept"
                )
                notices = (TOO_NOISY(text, states=smooth.origin),)
    record = {"state_cutoff": smooth.cutoff, "column_error_share": share}
    return found.solution(notices, record, options, len(whole))


def smallest_ratio(T: Array, L: Array) -> tuple[Array, float]:
    """Return (v (k,), ratio) with the least ratio ‖T v‖² / ‖L v‖², T (k, k) triangular and regular,
    L (m, k) any.

    Directions that L maps to zero are free of error: they are fitted as by least squares.
    """
    K = np.asarray(solve_triangular(T, L.T, trans="T"), dtype=float).T
    _, s, Vt = np.linalg.svd(K, full_matrices=False)
    return np.asarray(solve_triangular(T, Vt[0]), dtype=float), float(1.0 / s[0] ** 2)


def _column_errors(pieces: Pieces, found: SystemFit) -> Array:
    """Triangle (b, b) of the columns' errors, weighted and counted as the rows of the fit."""
    size = len(found.beta)
    L = np.zeros((0, size))
    for piece in pieces():
        rows = ((piece.W - piece.instruments) / found.sigma[:, None]).reshape(-1, size)
        L = triangle_of(np.concatenate([L, rows]))
    return np.asarray(L / np.sqrt(found.memory), dtype=float)


def _left(pieces: Pieces, found: SystemFit) -> float:
    """Return the weighted squares of the torque that an estimate leaves along the smoothed
    states.
    """
    return sum(
        float(np.sum(((piece.y - piece.instruments @ found.beta) / found.sigma) ** 2))
        for piece in pieces()
    )


def _refined(pieces: Pieces, found: SystemFit, T: Array, L: Array) -> tuple[SystemFit, float]:
    """Return the total-least-squares solution, and the share of the misfit that errors of columns
    explain.
    """
    beta, rest = found.beta, found.rest
    for _ in range(20):
        # what the columns' errors do not explain of the misfit is noise of the torques
        share = min(float(np.sum((L @ beta) ** 2)) / rest, 0.999)
        C = np.zeros((len(L) + 1, len(T)))
        C[:-1, :-1], C[-1, -1] = L, np.sqrt((1.0 - share) * rest)
        v, ratio = smallest_ratio(T, C)
        moved = -v[:-1] / v[-1]
        change = float(np.abs(found.R @ (moved - beta)).max())
        beta = moved
        if change < 1e-6:
            break
    R = _deflated(found.R, L, ratio)
    size = len(beta)
    Sb = L.T @ (L @ beta) * found.memory
    scale = rest * found.memory * (1.0 - share) + float(beta @ Sb)

    def corrected() -> Iterator[tuple[Array, bool]]:
        for piece in pieces():
            residual = piece.y - piece.W @ beta
            scaled = np.sum((residual / found.sigma) ** 2, axis=1)
            own = np.einsum("kij,ki->kj", piece.W, residual / found.sigma**2)
            yield own + scaled[:, None] * Sb / scale, not piece.first

    inverse = np.asarray(solve_triangular(R, np.eye(size)), dtype=float) / np.sqrt(found.memory)
    bread, rows = inverse @ inverse.T, found.rows * len(found.sigma)
    covariance, _ = block_covariance(bread, block_sums(corrected(), found.block), bread, rows)

    def folds() -> list[Fold]:
        return [_corrected(fold, L, ratio) for fold in found.folds()]

    return replace(found, beta=beta, covariance=covariance, R=R, z=R @ beta, folds=folds), share


def _deflated(R: Array, L: Array, ratio: float) -> Array:
    """Return the triangle of RᵀR - ratio LᵀL, what is left of the columns without their errors."""
    K = np.asarray(solve_triangular(R, L.T, trans="T"), dtype=float).T
    s, V = np.linalg.eigh(np.eye(len(R)) - ratio * K.T @ K)
    kept = np.sqrt(
        np.maximum(s, 1e-6)
    )  # positive but for rounding: the ratio is the least there is
    return triangle_of(kept[:, None] * (V.T @ R))


def _corrected(fold: Fold, L: Array, ratio: float) -> Fold:
    """Return a fold whose training part has the errors of its columns taken out, as the whole
    has.
    """
    R, z, R_held, z_held, rest = fold
    clean = _deflated(R, L, 0.8 * ratio)
    moments = np.asarray(solve_triangular(clean, R.T @ z, trans="T"), dtype=float)
    return clean, moments, R_held, z_held, rest


TLS = Method("tls", total_least_squares)


_STEPS = 100  # of the search: it takes about 20 where the load is seen
_PRIOR = 10.0  # how far, times its first guess, a gain may be: a prior that any data overrule
_GUESSED = 0.1  # of a joint's current: its noise at first, beside which the spare rows stand
_SPARE = 0.3  # of a joint's current: likely size of friction that the terms lack
_CELLS = 12  # of each joint's range, in two directions
_BLOCKS = 60  # of time, about: more take longer and say no more


@dataclass(frozen=True)
class GainProblem:
    """Unknowns x: inverse gains (n,), base parameters (b,), and what is open of the load (u,)."""

    rows: Triangles  # [Y | Y^L | current] of each joint, both runs
    rank: int  # number of base parameters
    known: Array  # known parameters of the load (10,)
    open_directions: Array  # (10, u)
    # joints of the last base parameters, friction of one run alone, which is likely small
    spare: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def load(self, x: Array) -> Array:
        """Return the ten parameters of the load."""
        return np.asarray(
            self.known + self.open_directions @ x[len(self.rows.factors) + self.rank :]
        )

    def torque_parameters(self, x: Array) -> Array:
        """Return base parameters and the load's, which give torques."""
        n = len(self.rows.factors)
        return np.concatenate([x[n : n + self.rank], self.load(x)])

    def rows_squares(self, x: Array) -> Array:
        """For each joint, the sum of squared residual currents (n,)."""
        theta = self.torque_parameters(x)
        return np.array(
            [
                float(np.sum((factor @ np.append(-x[joint] * theta, 1.0)) ** 2))
                for joint, factor in enumerate(self.rows.factors)
            ]
        )

    def pivot(self, x: Array, scale: Array) -> int:
        """Return the joint whose current shows the load best, for inverse gains (n,) or x, and
        noise (n,).
        """
        n = len(self.rows.factors)
        load = self.load(x) if len(x) > n else self.known
        felt = [np.linalg.norm(factor[:, self.rank : -1] @ load) for factor in self.rows.factors]
        return int(np.argmax(np.array(felt) * x[:n] / scale))

    def share(self, x: Array) -> float:
        """Return the load's share of the current, at the joint where it is largest."""
        load, shares = self.load(x), []
        for inverse_gain, factor in zip(x, self.rows.factors):
            whole = float(np.linalg.norm(factor[:, -1]))
            felt = inverse_gain * float(np.linalg.norm(factor[:, self.rank : -1] @ load))
            shares.append(felt / whole if whole > 0 else 0.0)
        return max(shares)

    def first_guess(self) -> tuple[Array, float]:
        """Return x near the solution, and how many standard deviations the load is away from none.

        Least squares for i_p = ... and 0 = k_j / k_p i_j - ...: ratios of gains too small by the
        noise, but near, and linear: no start decides. Standard deviations are those of white
        residuals.
        """
        n, b, u = len(self.rows.factors), self.rank, self.open_directions.shape[1]
        size = np.array(
            [max(float(np.linalg.norm(factor[:, -1])), 1e-300) for factor in self.rows.factors]
        )
        p = self.pivot(np.ones(n), size)
        blocks, right = [], []
        for joint, factor in enumerate(self.rows.factors):
            block = np.zeros((len(factor), n + b + u))
            block[:, joint] = -factor[:, -1] / size[joint]  # times k_j / k_p
            block[:, p] = factor[:, b:-1] @ self.known / size[joint]  # times 1 / k_p
            block[:, n : n + b] = factor[:, :b] / size[joint]
            block[:, n + b :] = factor[:, b:-1] @ self.open_directions / size[joint]
            blocks.append(block)
            right.append(factor[:, -1] / size[p] * (joint == p))
        spare_rows = np.zeros((len(self.spare), n + b + u))
        places = np.arange(len(self.spare))
        spare_rows[places, n + b - len(places) + places] = _GUESSED / _SPARE / size[self.spare]
        blocks.append(spare_rows)
        right.append(np.zeros(len(places)))
        A, z = np.vstack(blocks), np.concatenate(right)
        norms = np.linalg.norm(A, axis=0)
        shown = norms > 1e-9 * norms.max(
            initial=0.0
        )  # a planar arm feels few of the load's parameters
        norms = np.where(shown, norms, 1.0)
        inverse = np.linalg.pinv(A * shown / norms, rcond=1e-9)
        y = np.where(shown, inverse @ z / norms, 0.0)
        left = float(np.linalg.norm(z - A @ y)) / np.sqrt(n * self.rows.samples)
        deviation = left * float(np.linalg.norm(inverse[p])) / norms[p]
        scale = y[p] if y[p] > 0 else 1.0
        ratios = np.where(np.arange(n) == p, 1.0, y[:n])
        ratios = np.where(ratios > 1e-3, ratios, float(np.median(ratios[ratios > 0])))
        x = np.concatenate([scale / ratios, y[n : n + b] / scale, y[n + b :] / scale])
        return x, float(y[p] / max(deviation, 1e-300))

    def system(self, x: Array, scale: Array, prior: Array) -> tuple[Array, Array]:
        """Return residuals and their Jacobian, in units of the noise, priors last."""
        n, b = len(self.rows.factors), self.rank
        theta = self.torque_parameters(x)
        values, slopes = [], []
        for joint, factor in enumerate(self.rows.factors):
            block = np.zeros((len(factor), len(x)))
            block[:, joint] = -factor[:, :-1] @ theta
            block[:, n : n + b] = -x[joint] * factor[:, :b]
            block[:, n + b :] = -x[joint] * factor[:, b:-1] @ self.open_directions
            values.append((factor[:, -1] - x[joint] * factor[:, :-1] @ theta) / scale[joint])
            slopes.append(block / scale[joint])
        gain_rows = np.zeros((n, len(x)))
        gain_rows[:, :n] = np.diag(1.0 / (_PRIOR * prior))
        load_rows = np.zeros((len(x) - n - b, len(x)))
        load_rows[:, n + b :] = np.eye(len(x) - n - b)
        values += [(x[:n] - prior) / (_PRIOR * prior), x[n + b :]]
        first = n + b - len(self.spare)
        sizes = _SPARE * self._sizes[self.spare]
        rows, extra = np.arange(len(sizes)), x[first : n + b]
        spare_rows = np.zeros((len(sizes), len(x)))
        spare_rows[rows, first + rows] = x[self.spare] / sizes
        spare_rows[rows, self.spare] = extra / sizes
        values.append(extra * x[self.spare] / sizes)
        return np.concatenate(values), np.vstack([*slopes, gain_rows, load_rows, spare_rows])

    @cached_property
    def _sizes(self) -> Array:
        """Root mean square of each joint's current (n,)."""
        norms = [float(np.linalg.norm(factor[:, -1])) for factor in self.rows.factors]
        sizes = np.array(norms) / np.sqrt(self.rows.samples)
        return np.asarray(np.maximum(sizes, 1e-300), dtype=float)

    def left(self, x: Array, piece: Piece) -> Array:
        """Return measured minus predicted currents (K, n)."""
        return np.asarray(
            piece.y - x[: len(self.rows.factors)] * (piece.W @ self.torque_parameters(x))
        )

    def slopes(self, x: Array, W: Array) -> Array:
        """Return what predicted currents change by with x (K, n, unknowns)."""
        n = len(self.rows.factors)
        gains = np.eye(n) * (W @ self.torque_parameters(x))[..., None]
        scaled = x[:n, None] * W
        load = scaled[..., self.rank :] @ self.open_directions
        return np.concatenate([gains, scaled[..., : self.rank], load], axis=2)

    def solve(self, x: Array, scale: Array) -> Array:
        """Return the likeliest x, inverse gains positive.

        The unknowns of the search are ratios of gains, base parameters in currents of one joint,
        and that joint's inverse gain: a load that is not seen makes the last one small and leaves
        the others as they are. In x itself gains and base parameters would grow together without
        end.
        """
        from scipy.optimize import least_squares  # heavy, and estimators do without

        n, b = len(self.rows.factors), self.rank
        p, prior = self.pivot(x, scale), np.abs(x[:n])
        lower = np.where(np.arange(len(x)) < n, 0.0, -np.inf)
        lower[p] = 1e-9 * prior[p]

        def of_search(y: Array) -> Array:
            turned = y.copy()
            turned[:n] *= y[p]
            turned[p] = y[p]
            turned[n : n + b] /= y[p]
            return turned

        def value(y: Array) -> Array:
            return self.system(of_search(y), scale, prior)[0]

        def slope(y: Array) -> Array:
            J = self.system(of_search(y), scale, prior)[1]
            others = np.delete(np.arange(n), p)
            J[:, p] += J[:, others] @ y[others] - J[:, n : n + b] @ y[n : n + b] / y[p] ** 2
            J[:, others] *= y[p]
            J[:, n : n + b] /= y[p]
            return J

        start = x.copy()
        start[:n] /= x[p]
        start[p] = x[p]
        start[n : n + b] *= x[p]
        found = least_squares(
            value,
            start,
            slope,
            bounds=(lower, np.inf),
            x_scale="jac",
            ftol=1e-10,
            xtol=1e-12,
            gtol=1e-12,
            max_nfev=_STEPS,
        )
        return of_search(np.asarray(found.x, dtype=float))

    def covariance(self, x: Array, scale: Array) -> Array:
        """Return the covariance of x for currents with this noise (n,)."""
        _, J = self.system(x, scale, np.abs(x[: len(self.rows.factors)]))
        norms = np.linalg.norm(J, axis=0)
        norms = np.where(norms > 0, norms, 1.0)  # what no sample shows has no slope
        inverse = np.linalg.pinv(J / norms, rcond=1e-13)
        return np.asarray(inverse @ inverse.T / np.outer(norms, norms))


def covariance_of_blocks(
    problem: GainProblem,
    x: Array,
    sigma: Array,
    pieces: Sequence[Pieces],
    states: Sequence[Pieces],
) -> Array:
    """Return the covariance of x by leaving out one cell of states after the other, at least that
    by blocks of time and that of white residuals.

    What a model lacks is a function of the state and comes again with it: blocks of time, which
    see all states, do not show it. So residuals of a joint count together by its position and the
    direction of its speed, over both runs; `states` are positions and speeds (N, n, 2) of the rows
    of `pieces`. Blocks of time are longer than the memory of the residuals and hold all joints,
    which errors of positions reach at once. Parts that decide a parameter pull it towards their own
    errors: what the others say without them shows that, the spread of residuals does not.
    """
    white = problem.covariance(x, sigma)
    unit = np.sqrt(np.diag(white))
    unit = np.where(unit > 0, unit, 1.0)
    parts = (_by_time(problem, x, sigma, pieces), _by_state(problem, x, sigma, pieces, states))
    by_time, by_state = (_without_each(white / np.outer(unit, unit), unit, part) for part in parts)
    largest = np.maximum(np.diag(white), np.diag(by_time))
    factor = np.sqrt(np.maximum(largest / np.maximum(np.diag(by_state), 1e-300), 1.0))
    return np.asarray(by_state * np.outer(factor, factor))


_Part = tuple[Array, Array]
"""Slopes J (rows, unknowns) and what is left (rows,), in units of the noise."""


def _without_each(scaled: Array, unit: Array, parts: Iterator[list[_Part]]) -> Array:
    """Return the covariance (unknowns, unknowns) by what x moves without each part."""
    moved, identity = list[Array](), np.eye(len(unit))
    for part in parts:
        information = sum((J.T @ J for J, _ in part), np.zeros_like(scaled)) * np.outer(unit, unit)
        pull = scaled @ (sum((J.T @ left for J, left in part), np.zeros(len(unit))) * unit)
        moved.append(np.linalg.solve(identity - scaled @ information, pull) * unit)
    return of_roots(np.array(moved).T * np.sqrt((len(moved) - 1) / len(moved)))


def _by_time(
    problem: GainProblem, x: Array, sigma: Array, pieces: Sequence[Pieces]
) -> Iterator[list[_Part]]:
    """Yield blocks of time, all joints together."""
    longest = max((piece for own in pieces for piece in own()), key=lambda piece: len(piece.t))
    length, _ = block_length(problem.left(x, longest), longest.t, problem.rows.samples)
    length = max(length, problem.rows.samples // _BLOCKS)
    for piece in (piece for own in pieces for piece in own()):
        left = problem.left(x, piece) / sigma
        for rows in np.array_split(np.arange(len(left)), max(1, round(len(left) / length))):
            J = problem.slopes(x, piece.W[rows]) / sigma[:, None]
            yield [(J.reshape(-1, len(x)), left[rows].ravel())]


def _by_state(
    problem: GainProblem,
    x: Array,
    sigma: Array,
    pieces: Sequence[Pieces],
    states: Sequence[Pieces],
) -> Iterator[list[_Part]]:
    """Yield the rows of each joint by its position and the direction of its speed."""
    q = np.concatenate([piece.W[..., 0] for own in states for piece in own()])
    low, width = q.min(axis=0), np.maximum(np.ptp(q, axis=0), 1e-300) / _CELLS
    cells: dict[tuple[int, int], list[_Part]] = {}
    for own, places in zip(pieces, states):
        for piece, place in zip(own(), places()):
            left = problem.left(x, piece) / sigma
            slopes = problem.slopes(x, piece.W) / sigma[:, None]
            at = np.minimum((place.W[..., 0] - low) // width, _CELLS - 1).astype(int)
            at = 2 * at + (place.W[..., 1] > 0)
            for joint in range(len(sigma)):
                for cell in np.unique(at[:, joint]).tolist():
                    rows = at[:, joint] == cell
                    part = slopes[rows, joint], left[rows, joint]
                    cells.setdefault((joint, cell), []).append(part)
    yield from cells.values()
