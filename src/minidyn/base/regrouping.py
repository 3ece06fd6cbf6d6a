"""The regrouping matrix K from its known structure: exact zeros, exact rationals, and the rest by least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from minidyn.base.question import Question
from minidyn.base.rank import chinese_remainder, rational
from minidyn.base.samples import model_rows, random_states, units_of

__all__ = ["regrouping_matrix"]

RESIDUAL = 1e-9
"""Relations must hold to this, relative to the size of the columns, at random states in floating point."""

_TURNS = 10.0

Array = NDArray[np.float64]


def regrouping_matrix(
    question: Question,
    kept: Sequence[int],
    regrouped: Sequence[int],
    residues: NDArray[np.uint64],
    primes: tuple[int, ...],
    seed: int = 0,
) -> tuple[Array, tuple[str, ...]]:
    """Return K (b, d) with column[regrouped] = column[kept] K, and notices.

    An entry that is zero modulo every prime is zero. One that is the same simple fraction modulo all of them, such as
    29/100, is that fraction. The others depend on constant angles and are solved for in floating point, column by
    column on the few kept columns that the structure leaves, and everything is tested at random states.

    Args:
        question: What was asked.
        kept: Places of the kept columns.
        regrouped: Places of the regrouped columns.
        residues: K modulo each prime (primes, b, d).
        primes: The primes.
        seed: Of the random states.

    Implements: Gautier1991 eq. (17).
    """
    shape = (len(kept), len(regrouped))
    if 0 in shape:
        return np.zeros(shape), ()
    nonzero: NDArray[np.bool_] = np.asarray(residues.any(axis=0))
    K, known = _rationals(residues, nonzero, primes)
    units, W = _observe(question, seed)
    one, two = W[:, kept], W[:, regrouped]
    scale = units[list(kept)][:, None] / units[list(regrouped)]  # K in SI over K of the matrix W
    size = np.linalg.norm(two, axis=0) + np.finfo(float).tiny
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.linalg.norm(two - one @ (K / scale), axis=0) / size
    notices: list[str] = []
    for k in np.flatnonzero(~((apart < RESIDUAL) & known.all(axis=0))):
        free = np.flatnonzero(nonzero[:, k] & ~known[:, k])
        solved, left = _solve(one, two[:, k], K[:, k] / scale[:, k], free)
        if left > RESIDUAL * size[k]:  # a fraction that was an accident: solve for all entries
            solved, left = _solve(one, two[:, k], K[:, k] / scale[:, k], np.flatnonzero(nonzero[:, k]))
        K[:, k] = solved * scale[:, k]
        apart[k] = left / size[k]
    if apart.max() > RESIDUAL:
        worst = question.robot.layout.names[regrouped[int(np.argmax(apart))]]
        notices.append(
            f"the relations hold in floating point only to {apart.max():.1e} (worst for {worst}): lengths of very "
            "different size, or geometry that is nearly but not exactly special"
        )
    return K, tuple(notices)


def _rationals(
    residues: NDArray[np.uint64], nonzero: NDArray[np.bool_], primes: tuple[int, ...]
) -> tuple[Array, NDArray[np.bool_]]:
    """Return K where its entries are simple fractions, and which entries are known (zeros included)."""
    K = np.zeros(nonzero.shape)
    known = ~nonzero
    seen: dict[tuple[int, ...], float | None] = {}
    for i, j in zip(*np.nonzero(nonzero)):
        key = tuple(int(r) for r in residues[:, i, j])
        if key not in seen:
            fraction = rational(*chinese_remainder(list(key), primes))
            seen[key] = None if fraction is None else fraction[0] / fraction[1]
        value = seen[key]
        if value is not None:
            K[i, j], known[i, j] = value, True
    return K, known


def _observe(question: Question, seed: int) -> tuple[Array, Array]:
    """Return the robot's own units of each parameter (p,) and rows of the model in them, (rows, p)."""
    robot = question.robot
    units = units_of(robot)
    rng = np.random.default_rng((seed, 1))
    rows = 2 * len(robot.layout) + 16
    per_sample = 1 if question.model == "energy" else max(len(question.moving), 1)
    states = random_states(robot, units, math.ceil(rows / per_sample), rng, question.moving)
    if not robot.implicit_loops and any(joint.follows for joint in robot.joints):
        # followers that turn slowly need several turns of their leaders to show what they are
        states = replace(states, q=states.q * _TURNS)
    W = model_rows(robot, question.model, states)
    if question.model == "energy":
        W = (W[1:] - W[:1]) / (units.length / units.time) ** 2
    else:
        W = (W / units.rows[:, None])[:, list(question.moving)]
    return units.parameters, (W * units.parameters).reshape(-1, W.shape[-1])


def _solve(one: Array, target: Array, start: Array, free: NDArray[np.intp]) -> tuple[Array, float]:
    """Solve one x = target for the entries `free` of x, the others as in `start`; also return what is left over."""
    x = start.copy()
    x[free] = 0.0
    length = np.linalg.norm(one[:, free], axis=0)
    for _ in range(2):  # the second pass solves for what rounding left of the first
        x[free] += np.linalg.lstsq(one[:, free] / length, target - one @ x, rcond=None)[0] / length
    return x, float(np.linalg.norm(target - one @ x))
