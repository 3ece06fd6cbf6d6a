"""The one score and the one rule of every automatic decision.

Score: the log density that a model predicts for blocks of time that it was not fitted to, each row
with its joint's noise, with heavy tails, in nats a sample. Rule: a candidate replaces a simpler one
where the mean gain over the blocks is large enough to matter and larger than its uncertainty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array

MIN_GAIN = 0.01
"""Nats a sample and joint: one percent of the error. Less is not worth a term, however sure."""

MIN_STANDARD_ERRORS = 2.0
"""Of the mean gain over blocks. On real logs of ten robots the errors on other recordings are
smallest, and nearly the same, between 1.5 and 2.
"""


@dataclass(frozen=True)
class Gain:
    """How much better a candidate predicts held-out blocks of time than a simpler model.

    Attributes:
        mean: Mean over the blocks of the gain in log density, nats a sample, summed over joints.
        standard_error: Of that mean, from how much the blocks differ.
    """

    mean: float
    standard_error: float

    @classmethod
    def of(cls, before: ArrayLike, after: ArrayLike) -> Gain:
        """Return the gain from the log densities of the same blocks (blocks,) before and after.

        Example:
            >>> Gain.of([1.0, 1.2, 0.9, 1.1], [1.5, 1.8, 1.3, 1.6]).mean
            0.5
        """
        gains = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
        if gains.ndim != 1 or len(gains) < 2:
            raise ValueError(f"gains: expected those of two blocks or more, got {gains.shape}")
        return cls(float(np.mean(gains)), float(np.std(gains, ddof=1) / math.sqrt(len(gains))))

    def is_worth(self, joints: int) -> bool:
        """Return whether a candidate that changes so many joints is taken."""
        return self.mean >= max(MIN_GAIN * joints, MIN_STANDARD_ERRORS * self.standard_error)


def block_scores(squares: ArrayLike, rows: int) -> Array:
    """Return the score of each block from its mean squared error in noise variances (blocks,).

    The log density, nats a sample and summed over rows, of errors whose scale may differ from block
    to block (heavy tails). Near the noise it changes as that of a normal distribution; a block in
    which something else happened does not outvote all others.

    Args:
        squares: Summed over the rows.
        rows: How many there are.
    """
    return np.asarray(-rows * np.log1p(np.asarray(squares, dtype=float) / rows))


def log_density(squares: ArrayLike, samples: ArrayLike, noise_std: ArrayLike) -> Array:
    """Return the mean normal log density of a sample in each block (blocks,), summed over joints.

    For the direction of gravity, which must not be decided by a few good moments.

    Args:
        squares: Sums of squared errors on each block (blocks, n).
        samples: Number of samples in each block (blocks,).
        noise_std: Standard deviation of each joint's noise (n,), or of each block's fit
            (blocks, n).
    """
    std, count = np.asarray(noise_std, dtype=float), np.asarray(samples, dtype=float)
    errors = np.asarray(squares, dtype=float) / count[:, None] / std**2
    return np.asarray(np.sum(-0.5 * errors - np.log(std) - 0.5 * math.log(2.0 * math.pi), axis=1))
