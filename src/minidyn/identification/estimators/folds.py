"""Cross-validation over time blocks: what is held out is a stretch of motion, not scattered samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minidyn.identification.estimators.least_squares import Fit
from minidyn.identification.estimators.method import Fold
from minidyn.identification.rows.problem import STRETCHES, Problem, assemble


def time_folds(found: Fit, recording: Any, memory: float, count: int = STRETCHES) -> list[Fold]:
    """Return training and validation problems for `count` stretches of equal length.

    Args:
        found: The fit whose noise weights the joints.
        recording: What was fitted; it is only read where other stretches are asked for than the fit has made.
        memory: Samples that repeat each other; squares are divided by it.
        count: Number of stretches.
    """
    base = found.problem.base
    if count == STRETCHES:
        stretches: Sequence[Problem] = found.problem.stretches
    else:
        edges = np.linspace(0, len(recording), count + 1).astype(int)
        stretches = [assemble(found.problem.robot, base, recording[int(a) : int(b)]) for a, b in pairwise(edges)]
    pieces = [stretch.weighted(found.sigma * np.sqrt(memory)) for stretch in stretches]
    count = len(pieces)
    folds: list[Fold] = []
    for held in range(count):
        stacked = np.concatenate([np.column_stack([R, z]) for number, (R, z, _) in enumerate(pieces) if number != held])
        factor = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=float)
        size = base.rank
        R, z, rest = pieces[held]
        folds.append((factor[:size, :size], factor[:size, size], R, z, rest))
    return folds
