"""Sums over residuals that say how good a model is: collected piece by piece, so that memory does
not grow.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import chdtrc, chdtri

from minidyn.arrays import Array
from minidyn.identification.diagnose.thresholds import LEVEL
from minidyn.identification.score import MIN_STANDARD_ERRORS

LAGS = 20  # size: autocorrelations of a joint's residual


class Residuals:
    """What is known of the residuals of each joint, samples added in order."""

    def __init__(self, joints: int) -> None:
        self.samples = 0
        self.squares = np.zeros(joints)
        self.torque_squares = np.zeros(joints)
        self.largest = np.zeros(joints)  # torque, sign apart
        self.sums = np.zeros(joints)
        self._products = np.zeros((LAGS, joints))  # of samples k + 1 apart
        self._ends = np.zeros((LAGS, joints))  # sums of both samples of each pair
        self._pairs = np.zeros(LAGS)
        self._head = np.zeros((0, joints))  # first samples
        self._tail = np.zeros((0, joints))
        self._whole = True  # whether all samples follow each other

    def new_run(self) -> None:
        """Say that the next sample does not follow the last one."""
        self._whole = self._whole and not self.samples
        self._tail = self._tail[:0]

    def add(self, residual: Array, torque: Array) -> None:
        """Add samples (N, n) that follow the last ones."""
        part = Residuals(residual.shape[1])
        part.samples = len(residual)
        part.squares, part.torque_squares = np.sum(residual**2, axis=0), np.sum(torque**2, axis=0)
        part.largest = np.abs(torque).max(axis=0, initial=0.0)
        part.sums = np.sum(residual, axis=0)
        for lag in range(1, min(LAGS, len(residual) - 1) + 1):
            part._pair(lag, residual[:-lag], residual[lag:])
        part._head, part._tail = residual[:LAGS], residual[-LAGS:]
        self.join(part)

    def _pair(self, lag: int, early: Array, late: Array) -> None:
        """Add pairs of samples (N, n) that are so many samples apart."""
        self._products[lag - 1] += np.sum(early * late, axis=0)
        self._ends[lag - 1] += np.sum(early, axis=0) + np.sum(late, axis=0)
        self._pairs[lag - 1] += len(early)

    def join(self, later: Residuals) -> None:
        """Add samples that follow the last ones and were collected elsewhere."""
        names = ("samples", "squares", "torque_squares", "sums", "_products", "_ends", "_pairs")
        for name in names:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.largest = np.maximum(self.largest, later.largest)
        joined, count = np.concatenate([self._tail, later._head]), len(self._tail)
        for lag in range(1, LAGS + 1):  # pairs of a sample here and one there
            first = max(0, count - lag)
            early = joined[first : max(first, min(count, len(joined) - lag))]
            self._pair(lag, early, joined[first + lag : first + lag + len(early)])
        if self._whole and len(self._head) < LAGS:
            self._head = np.concatenate([self._head, later._head])[:LAGS]
        short = later._whole and later.samples < LAGS
        self._tail = joined[-LAGS:] if short else later._tail
        self._whole = self._whole and later._whole

    @property
    def rmse(self) -> Array:
        """Root of the mean squared residual of each joint (n,)."""
        return np.sqrt(self.squares / max(self.samples, 1))

    @property
    def relative(self) -> Array:
        """‖residual‖ / ‖torque‖ of each joint (n,); NaN where the torque is zero throughout."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(
                self.torque_squares > 0, np.sqrt(self.squares / self.torque_squares), np.nan
            )

    @property
    def overall(self) -> float:
        """‖residual‖ / ‖torque‖ over all joints."""
        total = float(self.torque_squares.sum())
        return math.sqrt(float(self.squares.sum()) / total) if total > 0 else math.nan

    @property
    def bias(self) -> Array:
        """Mean residual of each joint (n,)."""
        return np.asarray(self.sums / max(self.samples, 1), dtype=float)

    @property
    def autocorrelation(self) -> Array:
        """Of each joint's residual about its mean, one row a lag (LAGS, n)."""
        variance = self.squares / max(self.samples, 1) - self.bias**2
        pairs = np.maximum(self._pairs, 1)[:, None]
        covariance = (self._products - self.bias * self._ends) / pairs + self.bias**2
        covariance[self._pairs == 0] = 0.0
        return np.where(
            variance > 1e-24 * (self.squares + 1e-300),
            covariance / np.maximum(variance, 1e-300),
            0.0,
        )

    def systematic(self, lag: int = 1) -> tuple[Array, Array]:
        """Return (error, share) of what is systematic in each joint's residual, not noise (n,)
        each.

        A residual is a systematic part s, slow against the sample rate, plus white noise. Samples
        `lag` apart share s but no noise, so that their covariance is the power of s about its mean;
        the mean is systematic, too. What is not slow but regular, such as a ripple, shows in how
        well the last 20 samples predict the next. Of all three two standard errors of white noise
        are taken off: what is certainly systematic, 0 where there is noise alone. `error` is the
        root of this power over that of the torque, `share` is it over the power of the residual;
        `lag` is 1 for raw torque, and half a period of the cut-off where the torque was low-passed,
        since that noise is slow, too.
        """
        count = max(self.samples, 1)
        power, bias = self.squares / count, self.bias**2
        variance = np.maximum(power - bias, 0.0)
        lag = min(max(lag, 1), LAGS)
        band = MIN_STANDARD_ERRORS / math.sqrt(max(self._pairs[lag - 1] / lag, 1))
        shared = np.maximum(self.autocorrelation[lag - 1] - band, 0.0)
        if lag == 1:
            shared = np.maximum(shared, self._predictable)
        least_bias = MIN_STANDARD_ERRORS**2 * lag * variance / count
        found = shared * variance + np.maximum(bias - least_bias, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(
                self.torque_squares > 0, np.sqrt(found * count / self.torque_squares), np.nan
            )
            share = np.where(power > 0, np.minimum(found / power, 1.0), 0.0)
        return error, share

    @property
    def _predictable(self) -> Array:
        """Share of each joint's variance that the last samples predict (n,), above what they do of
        white noise.
        """
        lags = int(np.sum(self._pairs > 0))
        if lags == 0:
            return np.zeros(len(self.sums))
        known = self.autocorrelation[:lags]
        shares = np.zeros(known.shape[1])
        for joint, column in enumerate(known.T):
            matrix = toeplitz(np.append(1.0, column[:-1])) + 1e-6 * np.eye(lags)
            shares[joint] = column @ np.linalg.lstsq(matrix, column, rcond=None)[0]
        return np.clip(shares - chdtri(lags, LEVEL) / max(self.samples, 1), 0.0, 1.0)

    @property
    def outside(self) -> Array:
        """Share of the autocorrelations of each joint that white noise would hardly show (n,)."""
        band = MIN_STANDARD_ERRORS / np.sqrt(np.maximum(self._pairs, 1))[:, None]
        return np.asarray(np.mean(np.abs(self.autocorrelation) > band, axis=0), dtype=float)

    @property
    def ljung_box(self) -> Array:
        """Probability (n,) that white noise shows autocorrelations at least as large (test of Ljung
        and Box, 1978).
        """
        lags = int(np.sum(self._pairs > 0))
        if lags == 0:
            return np.ones(len(self.sums))
        weights = (self.samples + 2) * self.samples / np.maximum(self._pairs, 1)
        statistic = np.sum(weights[:lags, None] * self.autocorrelation[:lags] ** 2, axis=0)
        return np.asarray(chdtrc(lags, statistic), dtype=float)


def whiteness_words(probability: float, predictable: float) -> str:
    """Return in words what the Ljung-Box test and the share of power that the sample before
    predicts say.
    """
    if math.isnan(probability):
        return "torque not measured"
    if probability >= LEVEL:
        return "white: only noise is left"
    shown = f"autocorrelated (lag 1: {math.sqrt(predictable):.2g})"
    return (
        f"nearly white: {shown}"
        if predictable < LEVEL
        else f"not white: {shown}, something is not modelled"
    )
