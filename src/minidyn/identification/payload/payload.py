"""The load in a run, against a baseline model: mass, centre, inertia, their uncertainty, and what else has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import f as f_distribution

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.solve import block_sums, memory_of
from minidyn.identification.payload.body import nearest_body
from minidyn.identification.payload.columns import Group, RawColumns, Unknowns, raw_columns, unknowns_of
from minidyn.identification.payload.notices import notices_of
from minidyn.identification.rows.pieces import Pieces, pieces_of, reduced, residuals, scores, stacked
from minidyn.identification.rows.triangles import Triangles
from minidyn.recording.ready import ready
from minidyn.recording.recording import Recording
from minidyn.simulation.payload import Payload

_RELEVANT = 0.3  # torque that only a change explains, over the noise of its joint, from which it is taken for one
_SMALL = 0.02  # of a joint's torque: noise counts as at least so large, for filters and models are no better
_NOTABLE = 0.2  # torque of changed friction, which is always estimated, over the noise, from which it is worth a word
_WIDENINGS = 8
_FIRM = -3.0  # standard deviations below which a negative mass is no accident


@dataclass(frozen=True)
class Solution:
    """Unknowns of a run.

    Attributes:
        x: All unknowns (u,), zero where not estimated.
        active: Places of the ones that were.
        R: Triangular factor on the active ones, beliefs included.
        scale: Each joint's noise, grown by its memory and by what the fit took off it (n,).
        memory: Samples that repeat each other, by joint (n,).
        rest: What is left, in noise variances, beliefs included.
    """

    x: Array
    active: tuple[int, ...]
    R: Array
    scale: Array
    memory: Array
    rest: float


def identify_payload(
    estimate: Estimate, recording: Recording, *, link: str | None = None, level: float = 1e-3
) -> Payload:
    """Return the load that a run carries, against a baseline model of the robot without it.

    What the run's torques have more than the baseline is explained by ten parameters of a body fixed to a link,
    together with changed friction (it depends on temperature) and the baseline's own errors within their covariance.
    Whatever else the data clearly ask for, one joint's torque scale, a tilted base, another link that has changed, is
    estimated too and reported. The body is then made possible; where the motion does not show it, it is compact.

    Args:
        estimate: The baseline: `md.identify` of runs without the load.
        recording: The run with it, raw (it is prepared) or prepared.
        link: Link or frame that carries the load, in whose frame it is given; None: the last link.
        level: Probability, all tests together, of reporting a change that is none.

    Returns:
        The load, with `mass`, `com`, `inertia`, their `std`, the covariance of the ten parameters, and notices.

    Raises:
        UnknownName: There is no such link.
        MinidynError: The recording has no torques or too few samples.
    """
    if not 0 < level < 1:
        raise MinidynError(f"level: expected a probability between 0 and 1, got {level!r}")
    notices: list[Any] = []
    raw = raw_columns(estimate, link)
    run = ready(estimate.robot, recording, purpose="identifying a payload", in_memory=True)
    notices += [notice for notice in run.notices if notice not in recording.notices]
    if len(run) < 50:
        raise MinidynError(f"{len(run)} samples are too few for a payload; record some seconds of motion")
    rows = reduced(pieces_of(run, raw))
    unknowns = unknowns_of(raw, rows, np.zeros(10))
    first = _fitted(raw, unknowns, rows, run, unknowns.always)
    unknowns = unknowns_of(raw, rows, (unknowns.units * first.x)[list(unknowns.always[-10:])])
    found, changes = _selected(raw, unknowns, rows, run, level)
    unknowns, found, trust = _trusted(raw, unknowns, rows, run, found)
    covariance, blocks = _covariance(raw, unknowns, found, run)
    ten = unknowns.units[list(found.active[-10:])] * found.x[list(found.active[-10:])]
    unit = unknowns.units[list(found.active[-10:])]
    spread = covariance[-10:, -10:] * np.outer(unit, unit)
    firmly_negative = ten[9] < _FIRM * np.sqrt(spread[9, 9])
    body = ten if firmly_negative else nearest_body(ten, spread)
    left = np.sqrt(_squares(unknowns, rows, found.x) / len(run))
    settings: dict[str, Any] = {
        "samples": len(run),
        "blocks": blocks,
        "sigma": left.tolist(),
        "baseline_sigma": estimate.sigma.tolist(),
        "joints": list(estimate.robot.joint_names),
        "memory": found.memory.tolist(),
        "unconstrained": ten.tolist(),
        "baseline_errors": trust,
        "torque_over_residual": _largest_share(raw, rows, body, left),
        "changes": [],
    }
    changed = [*_friction_changes(unknowns, found, covariance, blocks, rows, level), *changes]
    for group in changed:
        entry = _described(group, raw, unknowns, found, covariance)
        settings["changes"].append(entry)
    payload = Payload(0.0, body, None, link, spread, (), settings)
    return replace(payload, notices=tuple(notices + notices_of(payload, ten, settings)))


def _system(unknowns: Unknowns, rows: Triangles, scale: Array) -> list[Array]:
    """Return rows [X | y] of all unknowns, in units of the noise, one block for each joint."""
    return [
        np.column_stack([factor[:, :-1] @ turn, factor[:, -1]]) / noise
        for factor, turn, noise in zip(rows.factors, unknowns.maps, scale)
    ]


def _solve(system: list[Array], active: tuple[int, ...], size: int) -> tuple[Array, Array, float]:
    """Return (x (u,), R, rest) with a belief of unit size about zero for every active unknown."""
    count = len(active)
    chosen = [part[:, [*active, size]] for part in system]
    R, z, rest = stacked([np.column_stack([np.eye(count), np.zeros(count)]), *chosen])
    x = np.zeros(size)
    x[list(active)] = solve_triangular(R, z)
    return x, R, rest


def _fitted(raw: RawColumns, unknowns: Unknowns, rows: Triangles, run: Recording, active: tuple[int, ...]) -> Solution:
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
    return Solution(x, active, R, scale, memory, rest)


def _pieces(raw: RawColumns, unknowns: Unknowns, run: Recording) -> Pieces:
    def mapped(piece: Recording) -> tuple[Array, Array]:
        X, y = raw(piece)
        return unknowns.of(X), y

    return pieces_of(run, mapped)


def _selected(
    raw: RawColumns, unknowns: Unknowns, rows: Triangles, run: Recording, level: float
) -> tuple[Solution, list[Group]]:
    """Add candidate groups as long as one explains more than chance, judged by the noise with all of them."""
    size = len(unknowns.units)
    load, others = unknowns.always[-10:], unknowns.always[:-10]
    every = tuple(k for group in unknowns.candidates for k in group.columns)
    full = _fitted(raw, unknowns, rows, run, (*others, *every, *load))
    system = _system(unknowns, rows, full.scale)
    free = max(1.0, float(np.sum(len(run) / full.memory)) - len(full.active))
    variance = max(1.0, full.rest / free)
    sigma = full.scale / np.sqrt(full.memory)
    sigma = np.maximum(sigma, _SMALL * np.sqrt(np.mean(np.square(run.tau), axis=0)))  # type: ignore[arg-type]
    chosen: list[Group] = []
    active = unknowns.always
    x, _, rest = _solve(system, active, size)
    while len(chosen) < len(unknowns.candidates):
        best: tuple[float, Group, float, Array] | None = None  # what explains most for its number of unknowns
        before = _squares(unknowns, rows, x)
        for group in unknowns.candidates:
            if group in chosen:
                continue
            found, _, left = _solve(system, (*active[:-10], *group.columns, *load), size)
            gain = (rest - left) / len(group.columns) / variance
            chance = float(f_distribution.sf(gain, len(group.columns), free))
            explained = np.maximum(before - _squares(unknowns, rows, found), 0.0) / rows.samples
            effect = float(np.max(np.sqrt(explained) / sigma))
            worth = (rest - left) / variance - len(group.columns) * np.log(free)
            clear = chance < level / len(unknowns.candidates) and effect > _RELEVANT
            if clear and (best is None or worth > best[0]):
                best = worth, group, left, found
        if best is None:
            break
        chosen.append(best[1])
        active, rest, x = (*active[:-10], *best[1].columns, *load), best[2], best[3]
    return _fitted(raw, unknowns, rows, run, active), chosen


def _largest_share(raw: RawColumns, rows: Triangles, body: Array, left: Array) -> float:
    """Return the load's root mean square torque over the residual's, at the joint where it is largest."""
    load = raw.places[0]
    felt = np.array([np.linalg.norm(factor[:, load] @ body) for factor in rows.factors]) / np.sqrt(rows.samples)
    return float(np.max(felt / np.maximum(left, 1e-300)))


def _trusted(
    raw: RawColumns, unknowns: Unknowns, rows: Triangles, run: Recording, found: Solution
) -> tuple[Unknowns, Solution, float]:
    """Return unknowns, solution and factor (1 or more) by which the baseline's errors exceed its covariance.

    A covariance knows noise. A model that is wrong in its structure is off by more on another motion: its corrections
    are then larger than their believed unit size, and the belief is widened until they agree (MacKay's iteration).
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
        found = _fitted(raw, unknowns, rows, run, found.active)
    return unknowns, found, factor


def _squares(unknowns: Unknowns, rows: Triangles, x: Array) -> Array:
    """For each joint, the sum of squared residual torques (n,)."""
    return np.array(
        [float(np.sum((factor @ np.append(turn @ x, -1.0)) ** 2)) for factor, turn in zip(rows.factors, unknowns.maps)]
    )


def _effect(unknowns: Unknowns, rows: Triangles, x: Array, group: Group, sigma: Array) -> float:
    """Return the root mean square torque of a group, at the joint that feels it most, over that joint's noise."""
    own = list(group.columns)
    felt = [
        np.linalg.norm(factor[:, :-1] @ (turn[:, own] @ x[own])) for factor, turn in zip(rows.factors, unknowns.maps)
    ]
    return float(np.max(np.array(felt) / np.sqrt(rows.samples) / sigma))


def _covariance(raw: RawColumns, unknowns: Unknowns, found: Solution, run: Recording) -> tuple[Array, int]:
    """Return the covariance of the active unknowns and the number of blocks it rests on.

    Scores are summed over blocks longer than the memory of the residuals; beliefs, the baseline's covariance among
    them, add what they are. It is never less than for white residuals of the same effective number.
    """
    length = int(max(20, np.ceil(10 * found.memory.max())))
    length = max(1, min(length, len(run) // 30))
    G = block_sums(scores(_pieces(raw, unknowns, run), found.x, found.scale), length)[:, list(found.active)]
    count = len(G)
    inverse = np.asarray(solve_triangular(found.R, np.eye(len(found.active))), dtype=float)
    spread = inverse @ (inverse.T @ G.T)
    belief = inverse @ inverse.T
    left = np.sqrt(np.mean(np.square(residuals(_pieces(raw, unknowns, run), found.x)), axis=0))
    fitted = float(np.mean(found.scale**2 / np.maximum(left**2 * found.memory, 1e-300)))
    clustered = count / max(1, count - 1) * fitted * spread @ spread.T + belief @ belief.T
    factor = np.sqrt(np.maximum(np.diag(belief) / np.maximum(np.diag(clustered), 1e-300), 1.0))
    return clustered * np.outer(factor, factor), count


def _friction_changes(
    unknowns: Unknowns, found: Solution, covariance: Array, blocks: int, rows: Triangles, level: float
) -> list[Group]:
    """Return the joints whose friction is not the baseline's: a Wald test for each, and a size that matters."""
    sigma = found.scale / np.sqrt(found.memory)
    changed = []
    for group in unknowns.friction:
        places = [found.active.index(k) for k in group.columns]
        value = found.x[list(group.columns)]
        statistic = float(value @ np.linalg.pinv(covariance[np.ix_(places, places)], hermitian=True) @ value)
        k = len(places)
        free = max(1, blocks - k)
        chance = float(f_distribution.sf(statistic / k * free / max(1, blocks - 1), k, free))
        tests = len(unknowns.friction)
        if chance < level / tests and _effect(unknowns, rows, found.x, group, sigma) > _NOTABLE:
            changed.append(group)
    return changed


def _described(group: Group, raw: RawColumns, unknowns: Unknowns, found: Solution, covariance: Array) -> dict[str, Any]:
    """Return what is known of a change, as plain data."""
    places = [found.active.index(k) for k in group.columns]
    values = unknowns.units[list(group.columns)] * found.x[list(group.columns)]
    stds = unknowns.units[list(group.columns)] * np.sqrt(np.diag(covariance)[places])
    names = [f"{group.kind} {k + 1}" for k in range(len(places))]
    if group.kind == "friction":
        names = [raw.friction[k].symbol for k in group.columns]  # friction unknowns come first
    return {
        "kind": group.kind,
        "name": group.name,
        "values": dict(zip(names, values.tolist())),
        "std": dict(zip(names, stds.tolist())),
    }
