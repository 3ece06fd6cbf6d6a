"""Motions that are linear in their coefficients: Fourier series that begin and end at rest.

    q(t) = start + (end - start) s(t) + Σ_k c_k φ_k(t)

s is the smooth step of degree five; it is absent where the motion ends where it began. The φ_k span
the Fourier series of given harmonics whose speed and acceleration vanish at the ends (and which
vanish there themselves where the pose is given), so that every choice of coefficients is at rest at
both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen
from minidyn.simulation.trajectory import Fourier, State, Trajectory

FAMILIES = ("fourier", "bspline")
"""Motions that a search may choose from."""

ORDERS = 5
"""Position and its derivatives that a family gives.

Position, speed, acceleration, jerk and the one after.
"""

STEP = np.polynomial.Polynomial([0, 0, 0, 10, -15, 6])
"""s(x): from 0 to 1, speed and acceleration zero at both ends."""


class Course(Protocol):
    """A motion as a proof needs it: its derivatives at any time, and what they cannot exceed."""

    @property
    def span(self) -> float:
        """Seconds that show all of it."""
        ...

    def derivatives(self, t: Array) -> list[Array]:
        """Return position, speed, acceleration, jerk and the one after.

        Each (N, n), at times t (N,).
        """
        ...

    def highest(self) -> Array:
        """Return what their sizes cannot exceed (5, n)."""
        ...


class Timed(Protocol):
    """A motion of a given duration that begins and ends at rest, as robots run it."""

    @property
    def duration(self) -> float:
        """Seconds."""
        ...

    def __call__(self, t: ArrayLike) -> State:
        """Return (q, dq, ddq), each (..., n), at times t (...).

        Before and after it stands still.
        """
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the motion as plain values."""
        ...


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
            q = q + self.shift * STEP(x)
            dq = dq + self.shift * STEP.deriv(1)(x) / T
            ddq = ddq + self.shift * STEP.deriv(2)(x) / T**2
        moving = (inside == time)[..., None]
        return q, np.where(moving, dq, 0.0), np.where(moving, ddq, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the coefficients as plain values."""
        series = self.series
        found = {
            "period": series.period,
            "centre": series.centre,
            "sine": series.sine,
            "cosine": series.cosine,
        }
        return {**found, "shift": self.shift}

    def __repr__(self) -> str:
        return (
            f"Motion({len(self.shift)} joints, {len(self.series.sine)} harmonics, "
            f"{self.duration:g} s)"
        )


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

    @property
    def waves(self) -> int:
        """How often its quickest function goes up and down within the span."""
        return self.harmonics * (1 if self.repeats else self.periods)

    @cached_property
    def frequencies(self) -> Array:
        """Angular frequencies (K,), rad/s."""
        return np.asarray(
            2 * np.pi * self.periods / self.duration * np.arange(1.0, self.harmonics + 1)
        )

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
        """Return φ (N, m) and the smooth step s (N,).

        Each with its first four derivatives, at times t (N,).
        """
        x, T = np.asarray(t) / self.duration, self.duration
        steps = [(STEP.deriv(order) if order else STEP)(x) / T**order for order in range(ORDERS)]
        return [part @ self.combinations for part in self._raw(np.asarray(t, dtype=float))], steps

    def _raw(self, t: Array) -> list[Array]:
        """Constant, sines and cosines (N, 1 + 2K) and their first four derivatives."""
        w = self.frequencies
        phase = np.outer(t, w)
        S, C = np.sin(phase), np.cos(phase)
        found = []
        for order in range(ORDERS):
            sine, cosine = [(S, C), (C, -S), (-S, -C), (-C, S)][order % 4]
            constant = np.full((len(t), 1), 1.0 if order == 0 else 0.0)
            found.append(np.hstack([constant, sine * w**order, cosine * w**order]))
        return found

    def course(self, coefficients: Array) -> Course:
        """Return the motion of coefficients (m, n) as a proof needs it."""
        return _Member(self, coefficients)

    def highest(self, coefficients: Array) -> Array:
        """Return what position and its derivatives (5, n) cannot exceed, of coefficients (m, n).

        Sums of sizes.
        """
        raw = np.abs(self.combinations @ coefficients)
        K = self.harmonics
        made = []
        x = np.linspace(0.0, 1.0, 2001)
        for order in range(ORDERS):
            w = self.frequencies[:, None] ** order
            size = (w * np.hypot(raw[1 : 1 + K], raw[1 + K :])).sum(axis=0)
            step = (
                1.01
                * np.abs((STEP.deriv(order) if order else STEP)(x)).max()
                / self.duration**order
            )
            size = size + step * np.abs(self.shift)
            made.append(size + (raw[0] + np.abs(self.beginning) if order == 0 else 0.0))
        return np.array(made)

    def coefficients(self, constant: Array, sine: Array, cosine: Array) -> Array:
        """Return the coefficients (m, n) nearest to a Fourier series.

        Constant (n,), sine and cosine (K, n).
        """
        return np.asarray(
            self.combinations.T @ np.vstack([constant - self.beginning, sine, cosine])
        )

    def resting(self, pose: Array) -> Array:
        """Return the coefficients (m, n) of the motion that stays at a pose, or goes straight to
        its end.
        """
        return self.coefficients(pose, *np.zeros((2, self.harmonics, self.joints)))

    def swinging(self, rng: np.random.Generator) -> Array:
        """Return random coefficients (m, n) about zero."""
        falling = 1.0 / np.arange(1, self.harmonics + 1)[:, None]
        return self.coefficients(
            self.beginning, *(falling * rng.normal(size=(2, self.harmonics, self.joints)))
        )

    def motion(self, coefficients: Array) -> Timed:
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


@dataclass(frozen=True, eq=False)
class _Member:
    """One motion of a family."""

    family: Family
    coefficients: Array

    @property
    def span(self) -> float:
        return self.family.span

    def derivatives(self, t: Array) -> list[Array]:
        phi, step = self.family.functions(t)
        found = [
            phi[k] @ self.coefficients + np.outer(step[k], self.family.shift)
            for k in range(len(phi))
        ]
        found[0] = found[0] + self.family.beginning
        return found

    def highest(self) -> Array:
        return self.family.highest(self.coefficients)


@dataclass(frozen=True, eq=False)
class Eased:
    """A periodic motion that is taken up from rest, runs for whole periods, and comes to rest.

    q(t) = series(s(t)). The path is that of the series. Time s runs from -ramp/2 on; its rate ds/dt
    rises from 0 to 1 in `ramp` seconds as a smooth step of degree five does, and falls in the same
    way at the end, so that jerks stay continuous.

    Attributes:
        series: The periodic motion.
        periods: How many of them run at full rate.
        ramp: Seconds.
    """

    series: Fourier
    periods: int
    ramp: float

    @property
    def duration(self) -> float:
        """Seconds from rest to rest."""
        return self.periods * self.series.period + 2 * self.ramp

    @property
    def span(self) -> float:
        """Seconds that show all of it."""
        return self.duration

    def __call__(self, t: ArrayLike) -> State:
        """Return (q, dq, ddq), each (..., n), at times t (...).

        Before and after it stands still.
        """
        time = np.asarray(t, dtype=float)
        q, dq, ddq = (part.reshape(*time.shape, -1) for part in self.derivatives(time.ravel())[:3])
        return q, dq, ddq

    def derivatives(self, t: Array) -> list[Array]:
        """Return position and its first four derivatives, each (N, n), at times t (N,), by the
        chain rule.
        """
        s0, s1, s2, s3, s4 = (one[:, None] for one in self._time(np.asarray(t, dtype=float)))
        q0, q1, q2, q3, q4 = _of_series(self.series, s0[:, 0])
        return [
            q0,
            q1 * s1,
            q2 * s1**2 + q1 * s2,
            q3 * s1**3 + 3 * q2 * s1 * s2 + q1 * s3,
            q4 * s1**4 + 6 * q3 * s1**2 * s2 + q2 * (3 * s2**2 + 4 * s1 * s3) + q1 * s4,
        ]

    def highest(self) -> Array:
        """Return what position and its derivatives cannot exceed (5, n)."""
        k = 2 * np.pi / self.series.period * np.arange(1, len(self.series.sine) + 1)[:, None]
        size = np.hypot(self.series.sine, self.series.cosine)
        b0, b1, b2, b3, b4 = ((k**order * size).sum(axis=0) for order in range(ORDERS))
        x = np.linspace(0.0, 1.0, 2001)
        s2, s3, s4 = (
            1.01 * np.abs(STEP.deriv(order)(x)).max() / self.ramp**order for order in (1, 2, 3)
        )
        return np.array(
            [
                np.abs(self.series.centre) + b0,
                b1,
                b2 + b1 * s2,
                b3 + 3 * b2 * s2 + b1 * s3,
                b4 + 6 * b3 * s2 + b2 * (3 * s2**2 + 4 * s3) + b1 * s4,
            ]
        )

    def _time(self, t: Array) -> list[Array]:
        """Time s of the series and its derivatives (N,) each."""
        R, full = self.ramp, self.periods * self.series.period
        rise, fall = np.clip(t / R, 0.0, 1.0), np.clip((t - R - full) / R, 0.0, 1.0)
        area = STEP.integ()
        s = R * (area(rise) - 0.5) + np.clip(t - R, 0.0, full) + R * (fall - area(fall))
        found = [s, STEP(rise) - STEP(fall)]
        for order in (1, 2, 3):
            slope = STEP.deriv(order)
            up, down = (np.where((x > 0) & (x < 1), slope(x), 0.0) for x in (rise, fall))
            found.append((up - down) / R**order)
        return found

    def __repr__(self) -> str:
        return f"Eased({self.series!r}, {self.periods} periods, {self.duration:g} s)"


@dataclass(frozen=True, eq=False)
class Pieces:
    """Motions one after the other, each with its own time from zero."""

    pieces: tuple[Trajectory, ...]
    ends: tuple[float, ...]  # times at which they end

    def __call__(self, t: ArrayLike) -> State:
        """Return (q, dq, ddq), each (..., n), at times t (...)."""
        time = np.asarray(t, dtype=float)
        number = np.minimum(
            np.searchsorted(self.ends, time.ravel(), side="left"), len(self.ends) - 1
        )
        starts = np.r_[0.0, self.ends[:-1]]
        rows = [
            np.concatenate(self.pieces[k](one - starts[k]))
            for k, one in zip(number.tolist(), time.ravel().tolist())
        ]
        q, dq, ddq = np.moveaxis(np.reshape(rows, (*time.shape, 3, -1)), -2, 0)
        return q, dq, ddq


def _of_series(series: Fourier, t: Array) -> list[Array]:
    """Positions of a series and their first four derivatives, each (N, n)."""
    w = 2 * np.pi / series.period * np.arange(1, len(series.sine) + 1)
    S, C = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    turns = [(S, C), (C, -S), (-S, -C), (-C, S), (S, C)]
    found = [
        (s * w**order) @ series.sine + (c * w**order) @ series.cosine
        for order, (s, c) in enumerate(turns)
    ]
    found[0] = found[0] + series.centre
    return found
