"""Motions that are linear in their coefficients: Fourier series that begin and end at rest.

    q(t) = start + (end - start) s(t) + Σ_k c_k φ_k(t)

s is the smooth step of degree five; it is absent where the motion ends where it began. The φ_k span the Fourier series
of given harmonics whose speed and acceleration vanish at the ends (and which vanish there themselves where the pose is
given), so that every choice of coefficients is at rest at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen
from minidyn.simulation.trajectory import Fourier, State

ORDERS = 5
"""Position and its derivatives that a family gives: position, speed, acceleration, jerk and the one after."""

_STEP = np.polynomial.Polynomial([0, 0, 0, 10, -15, 6])  # s(x): from 0 to 1, speed and acceleration zero at both ends


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion of a given duration that begins and ends at rest; before and after it stands still.

    Attributes:
        series: The periodic part; its centre holds the positions.
        shift: End minus start (n,).
        duration: Seconds.
    """

    series: Fourier
    shift: Array
    duration: float

    def __call__(self, t: ArrayLike) -> State:
        """Return (q, dq, ddq), each (..., n), at times t (...)."""
        time = np.asarray(t, dtype=float)
        inside = np.clip(time, 0.0, self.duration)
        q, dq, ddq = self.series(inside)
        if np.any(self.shift):
            x, T = inside[..., None] / self.duration, self.duration
            q = q + self.shift * _STEP(x)
            dq = dq + self.shift * _STEP.deriv(1)(x) / T
            ddq = ddq + self.shift * _STEP.deriv(2)(x) / T**2
        moving = (inside == time)[..., None]
        return q, np.where(moving, dq, 0.0), np.where(moving, ddq, 0.0)

    def __repr__(self) -> str:
        return f"Motion({len(self.shift)} joints, {len(self.series.sine)} harmonics, {self.duration:g} s)"


@dataclass(frozen=True, eq=False)
class Family:
    """All motions of a duration with given harmonics, from and to given poses.

    Attributes:
        joints: Number of joints n.
        duration: Seconds.
        periods: How often the periodic part repeats.
        harmonics: Multiples of the base frequency.
        start: Pose (n,) at both ends, or at the start; None: free, the same at both ends.
        end: Pose (n,) at the end; None: as at the start.
    """

    joints: int
    duration: float
    periods: int
    harmonics: int
    start: Array | None = None
    end: Array | None = None

    @cached_property
    def shift(self) -> Array:
        """End minus start (n,)."""
        if self.start is None or self.end is None:
            return frozen(np.zeros(self.joints))
        return frozen(self.end - self.start)

    @property
    def repeats(self) -> bool:
        """Whether one period shows the whole motion."""
        return not np.any(self.shift)

    @property
    def span(self) -> float:
        """Seconds of the motion that differ from each other: a period, or all of it."""
        return self.duration / self.periods if self.repeats else self.duration

    @cached_property
    def frequencies(self) -> Array:
        """Angular frequencies (K,), rad/s."""
        return np.asarray(2 * np.pi * self.periods / self.duration * np.arange(1.0, self.harmonics + 1))

    @cached_property
    def combinations(self) -> Array:
        """Orthonormal columns (1 + 2K, m): constant, sines and cosines of each φ_k."""
        w = self.frequencies
        still = np.zeros((2 if self.start is None else 3, 1 + 2 * len(w)))
        still[0, 1 : 1 + len(w)] = w / w[-1]
        still[1, 1 + len(w) :] = (w / w[-1]) ** 2
        if self.start is not None:
            still[2, 0] = 1.0
            still[2, 1 + len(w) :] = 1.0
        return frozen(np.linalg.svd(still)[2][len(still) :].T)

    @property
    def size(self) -> int:
        """Coefficients m of each joint."""
        return int(self.combinations.shape[1])

    @property
    def beginning(self) -> Array:
        """What every motion starts from (n,): the given pose, or zero where it is free."""
        return np.zeros(self.joints) if self.start is None else self.start

    def functions(self, t: Array) -> tuple[list[Array], list[Array]]:
        """Return φ (N, m) and the smooth step s (N,), each with its first four derivatives, at times t (N,)."""
        w = self.frequencies
        phase = np.outer(t, w)
        S, C, T = np.sin(phase), np.cos(phase), self.duration
        found, steps = [], []
        for order in range(ORDERS):
            sine, cosine = [(S, C), (C, -S), (-S, -C), (-C, S)][order % 4]
            constant = np.full((len(t), 1), 1.0 if order == 0 else 0.0)
            found.append(np.hstack([constant, sine * w**order, cosine * w**order]) @ self.combinations)
            steps.append((_STEP.deriv(order) if order else _STEP)(np.asarray(t) / T) / T**order)
        return found, steps

    def bounds(self, coefficients: Array) -> Array:
        """Return what position and its derivatives (5, n) cannot exceed, of coefficients (m, n): sums of sizes."""
        raw = np.abs(self.combinations @ coefficients)
        K = self.harmonics
        made = []
        x = np.linspace(0.0, 1.0, 2001)
        for order in range(ORDERS):
            w = self.frequencies[:, None] ** order
            size = (w * np.hypot(raw[1 : 1 + K], raw[1 + K :])).sum(axis=0)
            step = 1.01 * np.abs((_STEP.deriv(order) if order else _STEP)(x)).max() / self.duration**order
            size = size + step * np.abs(self.shift)
            made.append(size + (raw[0] + np.abs(self.beginning) if order == 0 else 0.0))
        return np.array(made)

    def coefficients(self, constant: Array, sine: Array, cosine: Array) -> Array:
        """Return the coefficients (m, n) nearest to a Fourier series: constant (n,), sine and cosine (K, n)."""
        return np.asarray(self.combinations.T @ np.vstack([constant - self.beginning, sine, cosine]))

    def motion(self, coefficients: Array) -> Motion:
        """Return the motion of coefficients (m, n)."""
        raw = self.combinations @ coefficients
        K = self.harmonics
        series = Fourier(
            frozen(raw[0] + self.beginning),
            frozen(raw[1 : 1 + K]),
            frozen(raw[1 + K :]),
            self.duration / self.periods,
        )
        return Motion(series, self.shift, self.duration)
