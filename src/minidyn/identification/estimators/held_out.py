"""How well stretches of a log are predicted from the others, and what other motions may show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.days import MODEL_ERROR
from minidyn.identification.estimators import solve
from minidyn.identification.estimators.method import Fold, Solution
from minidyn.identification.rows.triangles import Triangles, joined, parts_of

_UNSEEN = 0.6  # power of the variance between stretches that blocks within them have not seen


def folds_of(triangles: Triangles, scale: Array) -> list[Fold]:
    """Return training and validation forms for stretches of time, weighted by the scale of each
    kind of rows.
    """
    made: list[Fold] = []
    for held, part in enumerate(triangles.stretches):
        others = [stretch for number, stretch in enumerate(triangles.stretches) if number != held]
        if not others:
            continue
        size = triangles.unknowns
        R, z, _ = solve.form_of(joined(others).together(scale), size)
        F = part.together(scale)
        if F.shape[1] > size + 1:  # instruments do not judge
            made.append((R, z, F[:size, size : 2 * size], F[:size, 2 * size], 0.0))
        else:
            made.append((R, z, *parts_of(F)))
    return made


def repeated_variance(folds: Sequence[Fold]) -> float:
    """Return the noise variance that stretches of time show when they predict each other, at
    least 1.

    What the model lacks is the same within a stretch and another in the next: beside that, noise is
    small.
    """
    found = expected = 0.0
    for R, z, R_test, z_test, _ in folds:
        inverse, _ = solve.pseudo_inverse(R)
        found += float(np.sum((R_test @ (inverse @ z) - z_test) ** 2))
        expected += len(z_test) + float(np.sum((R_test @ inverse) ** 2))
    return max(1.0, found / expected) if expected > 0 else 1.0


def with_model_error(found: Solution, lacks: tuple[Array, Array] | None = None) -> Solution:
    """Return a solution whose covariance holds what the model lacks.

    What another run of the robot would show. Sums over blocks hold errors that last as long as a
    block. What friction lacks goes on with the motion: it pulls the parameters of this run one way
    and those of the next another, and one run has one of each. But its stretches differ, too. By
    how much they predict each other worse than noise explains is `repeated_variance`, a part of
    which blocks have seen already. The root of it is left over for presliding, Stribeck friction
    and ripple that a model lacks, and next to nothing for models that lack nothing
    (benchmarks/between_runs.py). Where it is known what the model lacks, by how much that pulls
    parameters (b,) and what part of their variances (b,) is left without it, the square of the pull
    is added instead: mean squares of an error are its variance and the square of its bias. Blocks
    have seen it, and it does not count twice. Motions decide how large it is, so it is the log's
    own.
    """
    known = lacks is not None and bool(np.any(lacks[0]))
    factor = 1.0 if known else repeated_variance(found.folds()) ** _UNSEEN
    covariance = found.covariance * factor
    if lacks is not None and known:
        left = np.sqrt(lacks[1])
        covariance = covariance * np.outer(left, left) + np.outer(lacks[0], lacks[0])
    return replace(found, covariance=covariance, record={**found.record, "model_error": factor})


def model_error(found: Solution, beta: Array, held_out: Array) -> dict[str, Any]:
    """Return, as a setting, by how much each base parameter may be off in another motion (b,).

    Torques of stretches that were not fitted have more variance than residuals, `held_out` (n,)
    times as much: what the model lacks, which every motion excites differently. A parameter with
    the columns y_j, one a joint, may be off by as much as makes that excess e_j² of the torques
    alone, once in the log:

        1 / Σ_j mean(y_j²) / e_j²

    is its variance. It is zero where stretches are predicted as well as noise lets them.
    """
    parts = found.stretches
    if not parts or len(parts[0].factors) != len(held_out):
        return {}
    noise = found.sigma if found.left is None else found.left(beta)
    information, samples = np.zeros(len(beta)), sum(part.samples for part in parts)
    with np.errstate(divide="ignore", invalid="ignore"):  # no excess: all is known
        weight = 1.0 / ((held_out - 1.0) * noise**2 * samples)
        for part in parts:
            for own, factor, each in zip(part.columns, part.factors, weight):
                squares = np.sum(factor[:, -len(own) - 1 : -1] ** 2, axis=0)
                information[list(own)] += np.nan_to_num(squares * each, posinf=np.inf)
        return {MODEL_ERROR: np.where(information > 0, 1.0 / np.sqrt(information), 0.0)}


def held_out_variance(found: Solution, beta: Array, covariance: Array) -> Array:
    """Return the variance (n,) of torques of stretches that are predicted from the others, over
    that of residuals.

    At least 1, and 1 where it is not known. The model handed over has base parameters beta (b,) of
    a covariance (b, b). What it knows beyond the data, by a prior and by bounds, is the information
    Q that the data lack for that. A stretch with the information A and the score g is left out of
    the whole, H, by a Newton step: beta moves by -(H - A)⁻¹ g and is uncertain by (H - A)⁻¹. What
    the stretch misses by then, less that uncertainty, is the error of predictions. By chance it
    scatters by c noise variances, where others say little about the stretch: it counts by 1 / (1 +
    c²), as if nothing but the size of the noise were known of it before.
    """
    folds, parts, root = (
        found.folds(),
        found.stretches,
        np.sqrt(float(found.record.get("model_error", 1.0))),
    )
    noise = found.sigma**2 if found.left is None else found.left(beta) ** 2
    if len(parts) < 2 or len(folds) != len(parts) or len(parts[0].factors) != len(noise):
        return np.ones(len(noise))
    R, scale = solve.unit_columns(found.R / root)
    known = np.isfinite(np.diag(covariance))
    P = np.where(known[:, None] & known, covariance, 0.0) * np.outer(scale, scale)
    values, vectors = np.linalg.eigh(_inverse(P) - R.T @ R)
    Q = (vectors * np.maximum(values, 0.0)) @ vectors.T
    excess = np.zeros(len(noise))
    for part, (R_others, _, R_own, z_own, _) in zip(parts, folds):
        others, unit = R_others / (root * scale), part.samples * noise
        uncertain = _inverse(others.T @ others + Q) / np.outer(scale, scale)
        moved = beta - uncertain @ (R_own.T @ (z_own - R_own @ beta)) / root**2
        rows = [factor[:, -len(own) - 1 : -1] for own, factor in zip(part.columns, part.factors)]
        errors = [X @ uncertain[np.ix_(own, own)] @ X.T for own, X in zip(part.columns, rows)]
        expected = np.array([np.trace(error) for error in errors]) / unit
        chance = np.array([np.linalg.norm(error) for error in errors]) * np.sqrt(2.0) / unit
        excess += (part.squares(moved) / unit - expected - 1.0) / (1.0 + chance**2)
    return np.maximum(1.0 + excess / len(parts), 1.0)


def _inverse(matrix: Array) -> Array:
    """Return the inverse (b, b) of a matrix that may leave directions open, which stay at zero."""
    return np.asarray(np.linalg.pinv(matrix, rcond=solve.ROUNDING, hermitian=True), dtype=float)
