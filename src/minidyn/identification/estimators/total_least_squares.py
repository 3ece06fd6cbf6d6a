"""Total least squares: the regressor is noisy, too, and the states themselves show how much.

Noise in positions, speeds and accelerations makes columns too long, and least squares answers with
parameters that are too small. What the columns along recorded and along smoothed states differ by
is the error E of the columns; its moments S = EᵀE say which columns are uncertain and how (a
constant column is exact: E is zero there). Then beta minimises

    ‖y - W beta‖² / (c + betaᵀ S beta)

with c the noise of the torques: total least squares with a stated error covariance, also where it
is singular.

Drive gains are a problem of the same kind (`gains/gain_problem.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.identification.estimators.block_covariance import block_covariance, block_sums
from minidyn.identification.estimators.linear_system import SystemFit, fit_system
from minidyn.identification.estimators.method import Fold, Method, Options, Solution
from minidyn.identification.estimators.states import as_recorded, best_states, torque_rows
from minidyn.identification.rows.pieces import Pieces
from minidyn.identification.rows.triangles import triangle_of
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording

NOT_TOTAL = info("identify.not_total", "Weighted instead of total least squares was used.")
TOO_NOISY = warning(
    "identify.columns_too_noisy",
    "The states are too noisy for total least squares; weighted least squares was kept.",
    'Prefer "iv" or "didim", or give positions alone.',
)

_MATTERS = 0.2  # share of the misfit that errors of columns explain: less is worth no notice
_AS_GOOD = 0.01  # difference of squares below which two estimates explain torques equally well


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
