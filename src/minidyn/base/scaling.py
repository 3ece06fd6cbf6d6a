"""The paper's row-wise scaling: states at which the entries of a row are of like size.

A row computed to full relative accuracy has errors in proportion to its entries, so that a matrix whose entries are of
one size has the smallest errors for its size. The paper minimises the scaling S = max |W_ij| / min |W_ij| of one row at
a time, from as many random starts as rows are wanted. Here all rows are improved side by side by small random steps
that are kept where they help: S has no useful derivative and an acceptable value is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from minidyn.base.samples import Observation, States, Units, model_rows, random_states, units_of
from minidyn.model.robot import Robot

__all__ = ["Search", "scaled_rows", "scaling_of"]

Array = NDArray[np.float64]

_CUTOFF = 1e-13  # entries this small against the largest are zeros of the structure
_ROUNDS = 400
_FARTHEST = 4.0  # speeds and accelerations stay within this many of the robot's own units


@dataclass(frozen=True)
class Search:
    """Outcome of a search.

    Attributes:
        observation: Matrix of the rows found.
        before: Scaling S of the random rows the search began with.
        after: Scaling S of the rows found.
        notice: Both, and what they did to the gap, in words.
    """

    observation: Observation
    before: float
    after: float
    notice: str


def scaling_of(W: Array) -> float:
    """Return S = max |W_ij| / min |W_ij| over the entries that are not zero; 1.0 where there are none."""
    sizes = np.abs(W)
    sizes = sizes[sizes > _CUTOFF * sizes.max(initial=0.0)]
    return float(sizes.max() / sizes.min()) if sizes.size else 1.0


def scaled_rows(
    robot: Robot, model: str, rng: np.random.Generator, moving: Sequence[int] | None, asked: NDArray[np.bool_]
) -> Search:
    """Search states whose rows are well scaled; one state (two for a difference of energy) for each block of rows.

    Args:
        robot: The robot.
        model: One of `question.MODELS`.
        rng: Where chance comes from.
        moving: Places in q of the joints that move; None: all.
        asked: (p,) the columns that count.

    Implements: Gautier1991, section "Scaling of W".
    Differs: random descent on S alone for all rows at once, instead of Powell's method on λ1 ||W|| + λ2 S.
    """
    from minidyn.base.numeric import rank_of

    units = units_of(robot)
    rows = list(range(robot.n)) if moving is None else list(moving)
    blocks_of, width = _model_blocks(robot, model, units, rows)
    count = 2 * int(np.count_nonzero(asked)) // (1 if model == "energy" else max(1, len(rows))) + 8
    start = random_states(robot, units, count * width, rng, moving)
    x = _to_vector(start, units, count)
    blocks = blocks_of(_to_states(x, units, robot.n))
    first = Observation(blocks.reshape(-1, blocks.shape[-1]).copy(), units)
    counted = (np.abs(blocks).max(axis=0) > _CUTOFF * np.abs(blocks).max(initial=0.0)) & asked
    may_move = np.tile(np.isin(np.arange(robot.n), rows), 3)
    free = np.tile(may_move, width)
    turning = np.array([robot.joints[k].turns for k in robot.independent])
    limit = np.tile(np.concatenate([np.where(turning, np.inf, 2.0), np.full(2 * robot.n, _FARTHEST)]), width)
    best = _log_scaling(blocks, counted)
    for step in range(_ROUNDS):
        size = 10.0 ** (0.3 - 2.3 * step / _ROUNDS)
        some = rng.random(x.shape) < rng.choice((0.1, 0.3, 1.0))
        trial = np.clip(x + size * rng.normal(size=x.shape) * (some & free), -limit, limit)
        trial_blocks = blocks_of(_to_states(trial, units, robot.n))
        value = _log_scaling(trial_blocks, counted)
        better = value < best
        x[better], best[better], blocks[better] = trial[better], value[better], trial_blocks[better]
    last = Observation(blocks.reshape(-1, blocks.shape[-1]), units)
    gaps = [rank_of(observation, asked, "qr", equal_columns=False).gap for observation in (first, last)]
    before, after = (scaling_of(observation.W[:, asked]) for observation in (first, last))
    notice = (
        f"row-wise scaling search over {len(last.W)} rows: S = max/min of the entries went from {before:.1e} to "
        f"{after:.1e}, the gap from {gaps[0]:.1e} to {gaps[1]:.1e}"
    )
    return Search(last, before, after, notice)


def _model_blocks(robot: Robot, model: str, units: Units, rows: Sequence[int]) -> tuple[Callable[[States], Array], int]:
    """Return (states -> blocks of rows (count, rows, p) without units, states in a block)."""
    grounded = replace(robot, base=tuple(step for step in robot.base if step.is_turn))

    def torque(states: States) -> Array:
        blocks = model_rows(grounded, model, states) * units.parameters / units.rows[:, None]
        return np.asarray(blocks[:, list(rows)])

    def energy(states: States) -> Array:
        h = model_rows(grounded, model, states) * units.parameters / (units.length / units.time) ** 2
        return np.asarray((h[0::2] - h[1::2])[:, None])

    return (energy, 2) if model == "energy" else (torque, 1)


def _log_scaling(blocks: Array, counted: NDArray[np.bool_]) -> Array:
    """Return log10 S of each block over the entries that count; no entry may vanish."""
    sizes = np.abs(blocks[:, counted])
    if not sizes.size:
        return np.zeros(len(blocks))
    tiny = np.finfo(float).tiny
    return np.asarray(np.log10(sizes.max(axis=1) + tiny) - np.log10(sizes.min(axis=1) + tiny))


def _to_vector(states: States, units: Units, count: int) -> Array:
    """Return the states of each block as one row (count, width * 3 n), without units."""
    q = states.q / (units.speeds * units.time)
    stacked = np.concatenate([q, states.dq / units.speeds, states.ddq / (units.speeds / units.time)], axis=1)
    return stacked.reshape(count, -1)


def _to_states(x: Array, units: Units, n: int) -> States:
    stacked = x.reshape(-1, 3 * n)
    q, dq, ddq = stacked[:, :n], stacked[:, n : 2 * n], stacked[:, 2 * n :]
    return States(q * (units.speeds * units.time), dq * units.speeds, ddq * (units.speeds / units.time))
