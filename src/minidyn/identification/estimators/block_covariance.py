"""Covariances that believe the data.

Residuals of neighbouring samples are alike (friction, vibration, filters) or undo each other
(differences of noisy positions), and the textbook covariance is too small, or too large, by the
number of samples that repeat each other. Sums of scores over blocks of time longer than that memory
are independent again, and their spread is what counts: a cluster-robust, or batch-means, estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from minidyn.arrays import Array, rms
from minidyn.errors import MinidynError

_BLOCKS = 30  # at least, or the spread of their sums says little
# changes of the variances below which longer blocks are not worth their scatter
_GROWTH, _SINKING = 1.15, 1.3


def memory_of(residual: Array, starts: Sequence[int] = (0,)) -> Array:
    """Return for each kind of rows how many neighbours repeat each other (kinds,), at least 1.

    The longest run says. The memory is 1 + 2 Σ of the autocorrelation up to where it falls below
    0.05.
    """
    edges = [*starts, len(residual)]
    longest = int(np.argmax(np.diff(edges)))
    part = residual[edges[longest] : edges[longest + 1]]
    if len(part) < 2:
        return np.ones(residual.shape[1])
    lags = len(part) // 4
    centred = np.ascontiguousarray((part - part.mean(axis=0)).T)
    power = np.einsum("ij,ij->i", centred, centred)
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(part))) ** 2
    correlation = np.fft.irfft(spectrum)[:, : lags + 1] / np.where(power > 0, power, 1.0)[:, None]
    before = np.logical_and.accumulate(correlation >= 0.05, axis=1)
    below = np.where(before.all(axis=1), lags, before.sum(axis=1))
    memory = np.ones(residual.shape[1])
    for kind in np.flatnonzero(power > 0):
        memory[kind] = max(1.0, 1.0 + 2.0 * float(np.sum(correlation[kind, 1 : below[kind] + 1])))
    return memory


def grown_noise(
    residual: Array, starts: Sequence[int], spent: float, floor: Array | float
) -> tuple[Array, Array, float]:
    """Return (noise, memory, independent samples of all kinds together) of residuals (N, kinds).

    Noise of each kind (kinds,), at least a floor, is grown by its memory (kinds,) and by the share
    of independent samples that was spent on unknowns: so rows count as independent.
    """
    memory = np.minimum(memory_of(residual, starts), len(residual) / _BLOCKS)
    independent = float(np.sum(len(residual) / memory))
    grown = memory * independent / max(independent - spent, 0.1 * independent)
    noise = np.maximum(rms(residual), floor)
    return noise * np.sqrt(grown), memory, independent


def block_length(residual: Array, t: Array, rows: int) -> tuple[int, float]:
    """Return (rows, seconds) of a block.

    Ten times the memory of the residuals (K, kinds) of the longest stretch. Its times are t (K,);
    all stretches together have so many rows of one kind.
    """
    memory = float(memory_of(residual).max(initial=1.0))
    step = float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    # at least twenty rows; but at least thirty blocks, or the spread of their sums says little
    length = max(1, min(int(max(20, np.ceil(10 * memory))), rows // _BLOCKS))
    return length, length * step


def block_sums(
    scores: Iterable[tuple[Array, bool]], length: int, *, join: bool = True, last: bool = True
) -> Array:
    """Sum scores (K, b) over blocks of `length` rows: (blocks, b).

    Blocks end where a piece does not follow the last. A rest of less than half a block joins the
    block before; without `join` it is a block of its own, but for the last one, which is left out
    where these scores are the `last` of a recording.
    """
    sums: list[Array] = []
    current, filled, begun = np.zeros(0), 0, 0

    def close(last: bool) -> None:
        nonlocal filled, begun
        short = filled < (length + 1) // 2 if join else last and filled <= length // 2
        if filled and not (short and (len(sums) > begun if join else sums)):
            sums.append(current)
        elif filled and join:
            sums[-1] = sums[-1] + current
        filled, begun = 0, len(sums)

    for part, follows in scores:
        if not follows:
            close(False)
        if not len(part):
            continue
        added = np.add.reduceat(part, [0, *range(length - filled, len(part), length)], axis=0)
        if filled:
            added[0] += current
        filled = (filled + len(part)) % length
        sums.extend(added if filled == 0 else added[:-1])
        current = added[-1]
    close(last)
    if not sums:
        raise MinidynError("identification needs samples; filters leave none of the recording")
    return np.stack(sums)


def alike_blocks(spread: Array) -> Array:
    """Return how many blocks carry each parameter in effect (b,), at least 6, of their pulls s on
    it (b, blocks).

    Fourth powers say: 3 (Σ s²)² / Σ s⁴, which is their number for normal sums of equal size.
    """
    squares = spread**2
    alike = 3.0 * squares.sum(axis=1) ** 2 / np.maximum((squares**2).sum(axis=1), 1e-300)
    return np.asarray(np.clip(alike, 6.0, max(spread.shape[1], 6.0)))


def few_blocks(spread: Array) -> Array:
    """Return what standard deviations (b,) are to be multiplied by where few blocks carry a
    parameter.

    Blocks are not alike: those that move most decide a parameter, and what was fitted follows them
    more than others, so that their residuals are too small. Pulls are (b, blocks).
    """
    alike = alike_blocks(spread)
    return np.asarray(np.sqrt(alike / (alike - 3.0)))


def block_covariance(
    bread: Array,
    G: Array,
    white: Array,
    rows: int,
    *,
    inflation: float = 1.0,
    least_white: bool = True,
    longer: bool = True,
) -> tuple[Array, float]:
    """Covariance (b, b) from the spread of block sums G (blocks, b) of scores, where beta moves by
    bread @ score.

    Also return the mean of its variances over those of `white`, the covariance for independent rows
    (b, b). Variances are multiplied by `inflation` and, with `least_white`, never below `white`:
    few blocks may understate them. With `longer`, neighbouring blocks are joined, two by two, as
    long as that lets the variances grow (slow errors may hide in the noise of single samples) or,
    where they may be below `white`, sink. At least thirty blocks are kept, or the spread of their
    sums says little.
    """
    free = max(1, rows - len(bread))
    found: list[tuple[float, Array]] = []
    together = 1
    while not found or (longer and len(G) >= _BLOCKS * together):
        sums = G if together == 1 else np.add.reduceat(G, np.arange(0, len(G), together), axis=0)
        spread = bread @ sums.T
        lost = np.sqrt(inflation * len(sums) / max(1, len(sums) - 1) * rows / free) * few_blocks(
            spread
        )
        clustered = np.outer(lost, lost) * (spread @ spread.T)
        found.append(
            (float(np.mean(np.diag(clustered) / np.maximum(np.diag(white), 1e-300))), clustered)
        )
        together *= 2
    largest, last = max(ratio for ratio, _ in found), found[-1][0]
    settled = (
        _GROWTH * ratio >= largest and (least_white or ratio <= _SINKING * last)
        for ratio, _ in found
    )
    ratio, clustered = next((pair for pair, use in zip(found, settled) if use), found[-1])
    if least_white:
        factor = np.sqrt(np.maximum(np.diag(white) / np.maximum(np.diag(clustered), 1e-300), 1.0))
        clustered, ratio = clustered * np.outer(factor, factor), max(ratio, 1.0)
    return np.asarray(clustered, dtype=float), ratio


def settled(blocks: Array, even: Array, alike: Array) -> Array:
    """Return a covariance (b, b) between those of blocks of time and of even noise, the latter as
    far as chance goes.

    The logarithm of a variance from so many blocks alike (b,) scatters by about sqrt(4 / alike),
    which is twice the variance of independent normal sums: neighbours and what was fitted are in
    it. Ratios of both variances that scatter more, over all constants, show that noise is not even,
    and by as much the blocks count.
    """
    one, other = (np.sqrt(np.maximum(np.diag(P), 1e-300)) for P in (even, blocks))
    ratio = other / one
    scatter = float(np.mean((2.0 * np.log(ratio)) ** 2))
    weight = max(0.0, 1.0 - float(np.mean(4.0 / alike)) / max(scatter, 1e-300))
    std = one * ratio**weight
    shape = (1.0 - weight) * even / np.outer(one, one) + weight * blocks / np.outer(other, other)
    return np.asarray(shape * np.outer(std, std))
