"""The fit of a run with a load.

Unknowns and noise, which changes the data ask for, the baseline's own errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import fdtrc

from minidyn.arrays import Array, rms
from minidyn.identification.estimators.block_covariance import block_sums, grown_noise
from minidyn.identification.payload.columns import ALWAYS, Group, RawColumns, Unknowns
from minidyn.identification.problem import BlockProblem, BlockSolution, Rows
from minidyn.identification.rows.pieces import residuals, scores
from minidyn.identification.sizes import MAX_FITS

MIN_EFFECT = 0.3
"""Torque that only a change explains, over the noise of its joint, from which it is reported."""
MIN_NOISE = 0.02
"""Of a joint's torque: filters and models are no better."""


@dataclass(frozen=True, eq=False)
class LoadFit:
    """Unknowns of a run."""

    unknowns: Unknowns  # that were estimated
    solution: BlockSolution  # in their units, known to be about zero before
    scale: Array  # each joint's noise, grown by its memory and by what the fit took off it (n,)
    memory: Array  # samples that repeat each other, by joint (n,)

    def value(self, block: str) -> Array:
        """Return the unknowns of a block, in units of physics (c,)."""
        return np.asarray(self.unknowns.units[block] * self.solution[block])

    @property
    def sigma(self) -> Array:
        """Noise of each joint (n,)."""
        return np.asarray(self.scale / np.sqrt(self.memory))


def _problem(unknowns: Unknowns, scale: Array) -> BlockProblem:
    """Return the problem of unknowns, each about zero with its unit as deviation."""
    places = unknowns.places
    known = [Rows.known(block, 0.0, np.ones(len(unit))) for block, unit in unknowns.units.items()]
    data = [
        Rows.split(factor[:, :-1] @ turn / noise, factor[:, -1] / noise, places)
        for factor, turn, noise in zip(unknowns.raw.rows.factors, unknowns.whole, scale)
    ]
    return BlockProblem.of(*known, *data)


def fitted(unknowns: Unknowns) -> LoadFit:
    """Return the solution with the noise and the memory that its own residuals have."""
    run, sigma = unknowns.raw.run, unknowns.raw.estimate.sigma
    floor = 1e-9 * rms(np.asarray(run.tau)) + 1e-300
    scale, memory = np.maximum(sigma, floor), np.ones(len(sigma))
    for _ in range(3):
        solution = _problem(unknowns, scale).solved()
        left = residuals(unknowns.pieces, solution.x)
        spent = len(solution.x) - float(np.sum(np.square(solution.inverse)))
        scale, memory, _ = grown_noise(left, run.starts, spent, floor)
    return LoadFit(unknowns, _problem(unknowns, scale).solved(), scale, memory)


def selected(unknowns: Unknowns, level: float) -> tuple[LoadFit, list[Group]]:
    """Add candidate groups as long as one explains more than chance, judged by the noise with all
    of them.
    """
    run, rows, full = unknowns.raw.run, unknowns.raw.rows, fitted(unknowns)
    problem = _problem(unknowns, full.scale)
    free = max(1.0, float(np.sum(len(run) / full.memory)) - len(full.solution.x))
    variance = max(1.0, full.solution.rest / free)
    sigma = np.maximum(full.sigma, MIN_NOISE * rms(np.asarray(run.tau)))
    chosen: list[Group] = []
    active: tuple[str, ...] = ALWAYS
    best = problem.only(*ALWAYS).solved()
    while True:
        before = unknowns.only(*active).squares(best.x)
        clear: list[tuple[float, Group, BlockSolution]] = []  # with what each is worth
        for group in unknowns.candidates:
            if group in chosen:
                continue
            blocks, count = (*active, group.block), len(group.places)
            found = problem.only(*blocks).solved()
            gain = (best.rest - found.rest) / variance
            after = unknowns.only(*blocks).squares(found.x)
            explained = np.maximum(before - after, 0.0) / rows.samples
            chance = float(fdtrc(count, free, gain / count))
            is_relevant = float(np.max(np.sqrt(explained) / sigma)) > MIN_EFFECT
            if is_relevant and chance < level / len(unknowns.candidates):
                clear.append((gain - count * np.log(free), group, found))
        if not clear:
            break
        _, group, best = max(clear, key=lambda one: one[0])
        chosen.append(group)
        active = (*active, group.block)
    return fitted(unknowns.only(*active)), chosen


def largest_share(raw: RawColumns, body: Array, left: Array) -> float:
    """Return the load's root mean square torque over the residual's, at the joint where it is
    largest.
    """
    load, rows = raw.places[0], raw.rows
    felt = np.array([np.linalg.norm(factor[:, load] @ body) for factor in rows.factors])
    return float(np.max(felt / np.sqrt(rows.samples) / np.maximum(left, 1e-300)))


def trusted(found: LoadFit) -> tuple[LoadFit, float]:
    """Return solution and factor (1 or more) by which the baseline's errors exceed its
    covariance.

    A covariance knows noise. A model that is wrong in its structure is off by more on another
    motion: its corrections are then larger than their unit size, and the prior is widened until
    they agree (MacKay's iteration).
    """
    factor = 1.0
    for _ in range(MAX_FITS):
        errors, spread = found.solution["baseline"], found.solution.spread("baseline")
        learned = max(len(errors) - float(np.trace(spread)), 1.0)  # the rest is as before the run
        ratio = np.sqrt(float(np.sum(np.square(errors))) / learned)
        if max(factor * ratio, 1.0) < 1.05 * factor:
            break
        factor *= ratio
        found = fitted(found.unknowns.with_wider_baseline(ratio))
    return found, factor


def covariance_of(found: LoadFit) -> tuple[Array, int]:
    """Return the covariance of all unknowns and the number of blocks it rests on.

    Scores are summed over blocks longer than the memory of the residuals; priors, the baseline's
    covariance among them, add what they are. It is never less than for white residuals of the same
    effective number.
    """
    samples, pieces, x = found.unknowns.raw.rows.samples, found.unknowns.pieces, found.solution.x
    left = residuals(pieces, x)
    length = max(1, min(int(max(20, np.ceil(10 * found.memory.max()))), samples // 30))
    G = block_sums(scores(pieces, x, found.scale), length)
    count, spread, prior = len(G), found.solution.moved_by(G.T), found.solution.covariance
    power = np.mean(left**2, axis=0) * found.memory
    fitted = float(np.mean(found.scale**2 / np.maximum(power, 1e-300)))
    clustered = count / max(1, count - 1) * fitted * spread @ spread.T + prior @ prior.T
    factor = np.sqrt(np.maximum(np.diag(prior) / np.maximum(np.diag(clustered), 1e-300), 1.0))
    return clustered * np.outer(factor, factor), count


def friction_changes(found: LoadFit, covariance: Array, blocks: int, level: float) -> list[Group]:
    """Return the joints whose friction is not the baseline's.

    A Wald test for each, and a size that matters.
    """
    unknowns, friction, changed = found.unknowns, found.solution["friction"], []
    rows = unknowns.raw.rows
    of_friction = found.solution.places["friction"]
    covariance = covariance[of_friction, of_friction]
    for group in unknowns.friction:
        own = list(group.places)
        value, k = friction[own], len(own)
        precision = np.linalg.pinv(covariance[np.ix_(own, own)], hermitian=True)
        statistic = float(value @ precision @ value)
        free = max(1, blocks - k)
        chance = float(fdtrc(k, free, statistic / k * free / max(1, blocks - 1)))
        parts = zip(rows.factors, unknowns.maps["friction"])
        felt = [np.linalg.norm(factor[:, :-1] @ (turn[:, own] @ value)) for factor, turn in parts]
        # root mean square torque of the group, at the joint that feels it most, over that joint's
        # noise
        effect = float(np.max(np.array(felt) / np.sqrt(rows.samples) / found.sigma))
        if chance < level / len(unknowns.friction) and effect > MIN_EFFECT:
            changed.append(group)
    return changed


def described(group: Group, found: LoadFit, covariance: Array) -> dict[str, Any]:
    """Return what is known of a change, as plain data."""
    own, place = list(group.places), found.solution.places[group.block]
    values = found.value(group.block)[own]
    stds = (found.unknowns.units[group.block] * np.sqrt(np.diag(covariance)[place]))[own]
    names = [f"{group.kind} {k + 1}" for k in range(len(own))]
    if group.kind == "friction":
        names = [found.unknowns.raw.friction[k].symbol for k in own]
    known = {"values": dict(zip(names, values.tolist())), "std": dict(zip(names, stds.tolist()))}
    return {"kind": group.kind, "name": group.name, **known}
