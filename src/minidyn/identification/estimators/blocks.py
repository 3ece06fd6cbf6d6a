"""Covariances that believe the data: scores are summed over blocks of time, and the sums' spread is what counts.

Residuals of neighbouring samples are alike (friction, vibration, filters) or undo each other (differences of noisy
positions). Sums over blocks longer than that memory are independent again: a cluster-robust, or batch-means, estimate.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minidyn.arrays import Array

_BLOCKS = 30
_GROWTH, _SINKING = 1.15, 1.3  # changes of the variances below which longer blocks are not worth their scatter


def block_length(residual: Array, t: Array, rows: int) -> tuple[int, float]:
    """Return (rows, seconds) of a block: ten times the memory of the residuals.

    Args:
        residual: Of one stretch of time, the longest there is (K, kinds).
        t: Its times (K,).
        rows: Of all stretches, of one kind.
    """
    memory = 1.0
    for series in residual.T:
        centred = series - series.mean()
        power = float(centred @ centred)
        if power <= 0:
            continue
        lags = len(series) // 4
        spectrum = np.abs(np.fft.rfft(centred, 2 * len(centred))) ** 2
        correlation = np.fft.irfft(spectrum)[: lags + 1] / power
        below = np.flatnonzero(correlation < 0.05)
        until = int(below[0]) if len(below) else lags
        memory = max(memory, 1.0 + 2.0 * float(np.sum(correlation[1 : until + 1])))
    step = float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    # at least twenty rows; but at least thirty blocks, or the spread of their sums says little
    length = max(1, min(int(max(20, np.ceil(10 * memory))), rows // _BLOCKS))
    return length, length * step


def block_sums(scores: Iterable[Array], length: int) -> Array:
    """Sum scores (K, b) of each piece over blocks of `length` rows: (blocks, b). Blocks end with their piece."""
    sums = []
    for part in scores:
        begins = np.arange(0, len(part), length)
        if len(begins) > 1 and len(part) - begins[-1] < (length + 1) // 2:
            begins = begins[:-1]  # a short rest joins the block before
        if len(begins):
            sums.append(np.add.reduceat(part, begins, axis=0))
    return np.concatenate(sums)


def few_blocks(spread: Array) -> Array:
    """Return what standard deviations (b,) are to be multiplied by where few blocks carry a parameter.

    Blocks are not alike: those that move most decide a parameter, and what was fitted follows them more than others, so
    that their residuals are too small. Fourth powers tell how many blocks there are in effect: 3 (Σ s²)² / Σ s⁴ for
    normal sums of equal size.

    Args:
        spread: Pull of each block on each parameter (b, blocks).
    """
    squares = spread**2
    alike = 3.0 * squares.sum(axis=1) ** 2 / np.maximum((squares**2).sum(axis=1), 1e-300)
    alike = np.clip(alike, 6.0, max(spread.shape[1], 6.0))
    return np.asarray(np.sqrt(alike / (alike - 3.0)))


def block_covariance(bread: Array, G: Array, white: Array, rows: int, least_white: bool = True) -> tuple[Array, float]:
    """Covariance (b, b) from the spread of block sums G (blocks, b) of scores, where beta moves by bread @ score.

    Neighbouring blocks are joined, two by two, as long as that lets the variances grow (slow errors may hide in the
    noise of single samples) or, where they may be below `white`, sink. At least thirty blocks are kept, or the spread
    of their sums says little.

    Args:
        bread: (b, b).
        G: Block sums.
        white: What the covariance would be for independent rows (b, b).
        rows: Number of rows.
        least_white: Never return variances below `white`: few blocks may understate them.

    Returns:
        The covariance, and the mean of its variances over those of `white`.
    """
    free = max(1, rows - len(bread))
    found: list[tuple[float, Array]] = []
    joined = 1
    while not found or len(G) >= _BLOCKS * joined:
        sums = np.add.reduceat(G, np.arange(0, len(G), joined), axis=0)
        spread = bread @ sums.T
        lost = few_blocks(spread)
        clustered = np.outer(lost, lost) * (len(sums) / max(1, len(sums) - 1) * rows / free * spread @ spread.T)
        found.append((float(np.mean(np.diag(clustered) / np.maximum(np.diag(white), 1e-300))), clustered))
        joined *= 2
    largest, last = max(ratio for ratio, _ in found), found[-1][0]
    settled = (_GROWTH * ratio >= largest and (least_white or ratio <= _SINKING * last) for ratio, _ in found)
    ratio, clustered = next((pair for pair, use in zip(found, settled) if use), found[-1])
    if least_white:
        factor = np.sqrt(np.maximum(np.diag(white) / np.maximum(np.diag(clustered), 1e-300), 1.0))
        clustered, ratio = clustered * np.outer(factor, factor), max(ratio, 1.0)
    return np.asarray(clustered, dtype=float), ratio
