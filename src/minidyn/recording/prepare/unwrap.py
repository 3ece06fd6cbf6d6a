"""Positions without jumps of whole turns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minidyn.arrays import Array
from minidyn.notices import info
from minidyn.recording.recording import LARGEST

UNWRAPPED = info(
    "recording.unwrapped",
    "Positions jump by a whole turn, as encoders of one turn do; they were made continuous.",
)

# rad: by so much what is left of a jump by a whole turn may differ from the steps beside it
MAX_REST = 0.5
_ROUNDED = 1e-3  # rounding: rad; by so much a position of one turn may lie beyond it


def continuous(
    q: Array, starts: Sequence[int], bounds: Array
) -> tuple[Array, list[int], list[int]]:
    """Return positions (N, n) of some runs without jumps of 2π, the joints that had some, and those
    that were turned.

    Where one joint jumps, encoders are of one turn, which begins at 0 or -π: a joint that leaves
    its bounds (n, 2), NaN where it has none, is turned back by the whole turns that bring each run
    within them, or nearest to them.
    """
    made = [unwrapped(run) for run in np.split(q, list(starts[1:]))]
    jumping = sorted({joint for _, own in made for joint in own})
    if not jumping:
        return q, [], []
    turned = set[int]()
    runs = [run.copy() for run, _ in made]
    for joint in range(q.shape[1]):
        seen = q[np.isfinite(q[:, joint]), joint]
        of_one_turn = any(
            np.all(abs(seen - middle) <= math.pi + _ROUNDED) for middle in (0.0, math.pi)
        )
        for run in runs if joint in jumping or of_one_turn else ():
            if turns := _turns_within(run[:, joint], *bounds[joint]):
                run[:, joint] += 2 * math.pi * turns
                turned.add(joint)
    return np.concatenate(runs), jumping, sorted(turned)


def _turns_within(q: Array, lower: float, upper: float) -> int:
    """Return by how many turns positions (N,) are to be moved so that they lie within limits.

    The fewest that do it.
    """
    q = q[np.abs(q) <= LARGEST["q"]]
    if not len(q) or not lower < upper:  # unknown limits are NaN
        return 0
    low, high = float(q.min()), float(q.max())
    middle = round((lower + upper - low - high) / (4 * math.pi))

    def beyond(turns: int) -> float:
        shift = 2 * math.pi * turns
        return max(0.0, lower - low - shift, high + shift - upper)

    return min((0, middle - 1, middle, middle + 1), key=lambda turns: (beyond(turns), abs(turns)))


def unwrapped(q: Array) -> tuple[Array, list[int]]:
    """Return positions (N, n) of one run without jumps of 2π, and the joints that had some."""
    turned: list[int] = []
    with np.errstate(over="ignore"):
        steps = np.diff(q, axis=0)
    if len(steps) and -math.pi <= steps.min() and steps.max() <= math.pi:  # nearly always
        return q, turned
    far = np.any(np.abs(steps) > math.pi, axis=0)
    for joint in np.flatnonzero(far):
        good = np.abs(q[:, joint]) <= LARGEST["q"]
        steps = np.diff(q[good, joint])
        jumps = _jumps(steps)
        if jumps.any():
            q = q.copy() if not turned else q
            q[good, joint] -= np.concatenate([[0.0], np.cumsum(jumps)])
            turned.append(int(joint))
    return q, turned


def _jumps(steps: Array) -> Array:
    """Return what of a joint's steps (N,) is whole turns.

    What is left is near its neighbours', and smoother. A motor may turn far between two samples,
    and a position that is held does not tell how far.
    """
    made, moving = np.zeros(len(steps)), np.flatnonzero(steps)
    if not len(moving):
        return made
    steps = steps[moving]
    turns = 2 * math.pi * np.rint(steps / (2 * math.pi))
    rest = steps - turns
    near = np.median(
        np.lib.stride_tricks.sliding_window_view(np.pad(rest, 3, mode="reflect"), 7), axis=1
    )
    turns[np.abs(rest - near) > MAX_REST + np.abs(near)] = 0.0
    here = (turns[1:] != 0) | (turns[:-1] != 0)
    before, after = (float(np.abs(np.diff(one))[here].sum()) for one in (steps, steps - turns))
    made[moving] = turns if after <= 0.5 * before else 0.0
    return made
