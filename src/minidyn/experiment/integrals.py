"""Integrals and first-order filters of sampled signals, of fourth order in the sampling step or higher.

Between two samples a signal is taken for the cubic through the four nearest ones (or for the polynomial through more),
and what is done with it (integrated, or passed through a low-pass a / (s + a)) is exact for that polynomial. Times need
not be evenly spaced.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import MinidynError

__all__ = ["integral", "low_pass"]

Array = NDArray[np.float64]
POINTS = 4
_BLOCK = 128
_FAST = 4.0  # a filter that forgets within a quarter of a step
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def low_pass(t: Array, u: Array, rate: float, start: Array | float = 0.0, points: int = POINTS) -> Array:
    """Return x (N, ...) with dx/dt = rate (u - x), x = start at the first sample.

    Args:
        t: Times (N,), increasing.
        u: Signal (N, ...).
        rate: Pole a of the filter, 1/s.
        start: Initial value.
        points: Samples that each polynomial goes through, an even number.
    """
    x = np.empty_like(u)
    if not len(u):
        return x
    x[0] = start
    z = rate * np.diff(t)
    steps = _weighted(u, *_weights(t, _filter_moments(z, points)))
    for k, decay in enumerate(np.exp(-z)):
        x[k + 1] = decay * x[k] + steps[k]
    return x


def integral(t: Array, u: Array, points: int = POINTS) -> Array:
    """Return the integral (N, ...) of a signal u (N, ...) from the first sample on; `points` as for `low_pass`."""
    total = np.zeros_like(u)
    moments = np.diff(t)[:, None] / np.arange(1, points + 1)
    np.cumsum(_weighted(u, *_weights(t, moments)), axis=0, out=total[1:])
    return total


def _filter_moments(z: Array, points: int) -> Array:
    """Return ∫ z exp(-z (1 - s)) s^p ds over [0, 1] for p = 0 ... points - 1: (intervals, points)."""
    powers = np.arange(points)
    s = 0.5 * (_NODES + 1)
    small = 0.5 * (z[:, None] * np.exp(-z[:, None] * (1 - s)) * _WEIGHTS) @ s[:, None] ** powers
    # for a fast filter the recursion m_p = 1 - p / z m_(p-1) is accurate, where quadrature is not
    large = np.empty_like(small)
    fast = np.maximum(z, _FAST)
    large[:, 0] = -np.expm1(-fast)
    for p in powers[1:]:
        large[:, p] = 1 - p / fast * large[:, p - 1]
    return np.where(z[:, None] < _FAST, small, large)


def _weights(t: Array, moments: Array) -> tuple[NDArray[np.intp], Array]:
    """Return (first sample (intervals,), weights (intervals, points)) that give each interval's moments of a signal.

    The weights w of samples at s_j, in units of the interval from its beginning, satisfy Σ w_j s_j^p = moment p.
    """
    steps = np.diff(t)
    if not np.all(steps > 0):
        at = int(np.argmax(~(steps > 0)))
        raise MinidynError(f"t: samples {at} and {at + 1} have the same time ({t[at]:.6g} s); remove one of them")
    points = min(moments.shape[1], len(t))
    first = np.clip(np.arange(len(steps)) - (points // 2 - 1), 0, len(t) - points)
    s = (t[first[:, None] + np.arange(points)] - t[:-1, None]) / steps[:, None]
    powers = s[:, None, :] ** np.arange(points)[:, None]
    return first, np.linalg.solve(powers, moments[:, :points, None])[..., 0]


def _weighted(u: Array, first: NDArray[np.intp], weights: Array) -> Array:
    """Return Σ_j weights[:, j] u[first + j]: (intervals, ...).

    All intervals but the outermost start a fixed number of samples before their own, so that slices serve; blocks stay
    in the cache.
    """
    flat = u.reshape(len(u), -1)
    total = np.empty((len(first), flat.shape[1]))
    before = max(0, weights.shape[1] // 2 - 1)
    inner = np.flatnonzero(first == np.arange(len(first)) - before)
    begin, end = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (0, 0)
    for start in range(begin, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        sums = total[start:stop]
        np.multiply(weights[start:stop, :1], flat[start - before : stop - before], out=sums)
        for j in range(1, weights.shape[1]):
            sums += weights[start:stop, j, None] * flat[start - before + j : stop - before + j]
    for k in (*range(begin), *range(end, len(first))):
        total[k] = weights[k] @ flat[first[k] : first[k] + weights.shape[1]]
    return total.reshape(len(first), *u.shape[1:])
