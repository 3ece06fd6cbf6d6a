"""The fit of a run with a load.

Unknowns and noise, which changes the data ask for, the baseline's own errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import fdtrc

from minidyn.arrays import Array
from minidyn.identification.estimators.solve import block_sums, memory_of
from minidyn.identification.payload.columns import Group, RawColumns, Unknowns
from minidyn.identification.rows.pieces import Pieces, pieces_of, residuals, scores, stacked
from minidyn.identification.rows.triangles import Triangles
from minidyn.recording.recording import Recording

# torque that only a change explains, over the noise of its joint, from which it is taken for one
_RELEVANT = 0.3
# of a joint's torque: noise counts as at least so large, for filters and models are no better
_SMALL = 0.02
# torque of changed friction, which is always estimated, over the noise, from which it is worth a
# word
_NOTABLE = 0.2
_WIDENINGS = 8


@dataclass(frozen=True)
class LoadFit:
    """Unknowns of a run."""

    x: Array  # all unknowns (u,), zero where not estimated
    active: tuple[int, ...]  # places of the ones that were
    R: Array  # triangular factor on the active ones, prior included
    scale: Array  # each joint's noise, grown by its memory and by what the fit took off it (n,)
    memory: Array  # samples that repeat each other, by joint (n,)
    rest: float  # what is left, in noise variances, prior included


def _system(unknowns: Unknowns, rows: Triangles, scale: Array) -> list[Array]:
    """Return rows [X | y] of all unknowns, in units of the noise, one block for each joint."""
    return [
        np.column_stack([factor[:, :-1] @ turn, factor[:, -1]]) / noise
        for factor, turn, noise in zip(rows.factors, unknowns.maps, scale)
    ]


def _solve(system: list[Array], active: tuple[int, ...], size: int) -> tuple[Array, Array, float]:
    """Return (x (u,), R, rest) with a prior of unit size about zero for every active unknown."""
    count = len(active)
    chosen = [part[:, [*active, size]] for part in system]
    R, z, rest = stacked([np.column_stack([np.eye(count), np.zeros(count)]), *chosen])
    x = np.zeros(size)
    x[list(active)] = solve_triangular(R, z)
    return x, R, rest


def fitted(
    raw: RawColumns, unknowns: Unknowns, rows: Triangles, run: Recording, active: tuple[int, ...]
) -> LoadFit:
    """Return the solution with the noise and the memory that its own residuals have."""
    size = len(unknowns.units)
    floor = 1e-9 * np.sqrt(np.mean(np.square(run.tau), axis=0)) + 1e-300  # type: ignore[arg-type]
    scale, memory = np.maximum(raw.estimate.sigma, floor), np.ones(len(rows.factors))
    for _ in range(3):
        system = _system(unknowns, rows, scale)
        x, R, rest = _solve(system, active, size)
        left = residuals(_pieces(raw, unknowns, run), x)
        memory = np.minimum(memory_of(left, run.starts), len(run) / 30)
        # residuals are too small by the share of independent samples that was spent on unknowns
        inverse = solve_triangular(R, np.eye(len(active)))
        spent = len(active) - float(np.sum(np.square(inverse)))
        independent = float(np.sum(len(run) / memory))
        grown = memory * independent / max(independent - spent, 0.1 * independent)
        scale = np.maximum(np.sqrt(np.mean(left**2, axis=0)), floor) * np.sqrt(grown)
    x, R, rest = _solve(_system(unknowns, rows, scale), active, size)
    return LoadFit(x, active, R, scale, memory, rest)


def _pieces(raw: RawColumns, unknowns: Unknowns, run: Recording) -> Pieces:
    def mapped(piece: Recording) -> tuple[Array, Array]:
        X, y = raw(piece)
        return unknowns.of(X), y

    return pieces_of(run, mapped)


def selected(
    raw: RawColumns, unknowns: Unknowns, rows: Triangles, run: Recording, level: float
) -> tuple[LoadFit, list[Group]]:
    """Add candidate groups as long as one explains more than chance, judged by the noise with all
    of them.
    """
    size = len(unknowns.units)
    load, others = unknowns.always[-10:], unknowns.always[:-10]
    every = tuple(k for group in unknowns.candidates for k in group.columns)
    full = fitted(raw, unknowns, rows, run, (*others, *every, *load))
    system = _system(unknowns, rows, full.scale)
    free = max(1.0, float(np.sum(len(run) / full.memory)) - len(full.active))
    variance = max(1.0, full.rest / free)
    sigma = full.scale / np.sqrt(full.memory)
    sigma = np.maximum(sigma, _SMALL * np.sqrt(np.mean(np.square(run.tau), axis=0)))  # type: ignore[arg-type]
    chosen: list[Group] = []
    active = unknowns.always
    x, _, rest = _solve(system, active, size)
    while len(chosen) < len(unknowns.candidates):
        best: tuple[float, Group, float, Array] | None = (
            None  # what explains most for its number of unknowns
        )
        before = squares(unknowns, rows, x)
        for group in unknowns.candidates:
            if group in chosen:
                continue
            found, _, left = _solve(system, (*active[:-10], *group.columns, *load), size)
            gain = (rest - left) / len(group.columns) / variance
            chance = float(fdtrc(len(group.columns), free, gain))
            explained = np.maximum(before - squares(unknowns, rows, found), 0.0) / rows.samples
            effect = float(np.max(np.sqrt(explained) / sigma))
            worth = (rest - left) / variance - len(group.columns) * np.log(free)
            clear = chance < level / len(unknowns.candidates) and effect > _RELEVANT
            if clear and (best is None or worth > best[0]):
                best = worth, group, left, found
        if best is None:
            break
        chosen.append(best[1])
        active, rest, x = (*active[:-10], *best[1].columns, *load), best[2], best[3]
    return fitted(raw, unknowns, rows, run, active), chosen


def largest_share(raw: RawColumns, rows: Triangles, body: Array, left: Array) -> float:
    """Return the load's root mean square torque over the residual's, at the joint where it is
    largest.
    """
    load = raw.places[0]
    felt = np.array([np.linalg.norm(factor[:, load] @ body) for factor in rows.factors]) / np.sqrt(
        rows.samples
    )
    return float(np.max(felt / np.maximum(left, 1e-300)))


def trusted(
    raw: RawColumns, unknowns: Unknowns, rows: Triangles, run: Recording, found: LoadFit
) -> tuple[Unknowns, LoadFit, float]:
    """Return unknowns, solution and factor (1 or more) by which the baseline's errors exceed its
    covariance.

    A covariance knows noise. A model that is wrong in its structure is off by more on another
    motion: its corrections are then larger than their unit size, and the prior is widened until
    they agree (MacKay's iteration).
    """
    places = [found.active.index(k) for k in unknowns.baseline]
    factor = 1.0
    for _ in range(_WIDENINGS):
        inverse = solve_triangular(found.R, np.eye(len(found.active)))
        spread = float(np.sum(np.square(inverse[places])))  # of the corrections, after the run
        learned = max(len(places) - spread, 1.0)
        ratio = np.sqrt(float(np.sum(np.square(found.x[list(unknowns.baseline)]))) / learned)
        if max(factor * ratio, 1.0) < 1.05 * factor:
            break
        factor *= ratio
        unknowns = unknowns.with_wider_baseline(ratio)
        found = fitted(raw, unknowns, rows, run, found.active)
    return unknowns, found, factor


def squares(unknowns: Unknowns, rows: Triangles, x: Array) -> Array:
    """For each joint, the sum of squared residual torques (n,)."""
    return np.array(
        [
            float(np.sum((factor @ np.append(turn @ x, -1.0)) ** 2))
            for factor, turn in zip(rows.factors, unknowns.maps)
        ]
    )


def covariance_of(
    raw: RawColumns, unknowns: Unknowns, found: LoadFit, run: Recording
) -> tuple[Array, int]:
    """Return the covariance of the active unknowns and the number of blocks it rests on.

    Scores are summed over blocks longer than the memory of the residuals; priors, the baseline's
    covariance among them, add what they are. It is never less than for white residuals of the same
    effective number.
    """
    length = max(1, min(int(max(20, np.ceil(10 * found.memory.max()))), len(run) // 30))
    G = block_sums(scores(_pieces(raw, unknowns, run), found.x, found.scale), length)[
        :, list(found.active)
    ]
    count = len(G)
    inverse = np.asarray(solve_triangular(found.R, np.eye(len(found.active))), dtype=float)
    spread = inverse @ (inverse.T @ G.T)
    prior = inverse @ inverse.T
    left = np.sqrt(np.mean(np.square(residuals(_pieces(raw, unknowns, run), found.x)), axis=0))
    fitted = float(np.mean(found.scale**2 / np.maximum(left**2 * found.memory, 1e-300)))
    clustered = count / max(1, count - 1) * fitted * spread @ spread.T + prior @ prior.T
    factor = np.sqrt(np.maximum(np.diag(prior) / np.maximum(np.diag(clustered), 1e-300), 1.0))
    return clustered * np.outer(factor, factor), count


def friction_changes(
    unknowns: Unknowns,
    found: LoadFit,
    covariance: Array,
    blocks: int,
    rows: Triangles,
    level: float,
) -> list[Group]:
    """Return the joints whose friction is not the baseline's.

    A Wald test for each, and a size that matters.
    """
    sigma = found.scale / np.sqrt(found.memory)
    changed = []
    for group in unknowns.friction:
        places = [found.active.index(k) for k in group.columns]
        value = found.x[list(group.columns)]
        statistic = float(
            value @ np.linalg.pinv(covariance[np.ix_(places, places)], hermitian=True) @ value
        )
        k = len(places)
        free = max(1, blocks - k)
        chance = float(fdtrc(k, free, statistic / k * free / max(1, blocks - 1)))
        own = list(group.columns)
        parts = zip(rows.factors, unknowns.maps)
        felt = [
            np.linalg.norm(factor[:, :-1] @ (turn[:, own] @ found.x[own])) for factor, turn in parts
        ]
        # root mean square torque of the group, at the joint that feels it most, over that joint's
        # noise
        effect = float(np.max(np.array(felt) / np.sqrt(rows.samples) / sigma))
        if chance < level / len(unknowns.friction) and effect > _NOTABLE:
            changed.append(group)
    return changed


def described(
    group: Group, raw: RawColumns, unknowns: Unknowns, found: LoadFit, covariance: Array
) -> dict[str, Any]:
    """Return what is known of a change, as plain data."""
    own, places = list(group.columns), [found.active.index(k) for k in group.columns]
    values, stds = unknowns.units[own] * np.array(
        [found.x[own], np.sqrt(np.diag(covariance)[places])]
    )
    names = [f"{group.kind} {k + 1}" for k in range(len(places))]
    if group.kind == "friction":
        names = [raw.friction[k].symbol for k in group.columns]  # friction unknowns come first
    known = {"values": dict(zip(names, values.tolist())), "std": dict(zip(names, stds.tolist()))}
    return {"kind": group.kind, "name": group.name, **known}
