"""Motions made of polynomial pieces: splines, and stages that follow each other.

A piece is a polynomial in the seconds since its beginning. What its derivatives cannot exceed is
read from its Bernstein coefficients, between which every polynomial lies. Pieces join with
continuous jerk, so that bounds between samples hold where pieces meet, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen
from minidyn.excitation.motion import ORDERS, STEP, Course, Family
from minidyn.simulation.trajectory import State

_DEGREE = 5  # of splines: the fourth derivative is continuous
_SAME = 4  # control points at each end that are alike: speed, acceleration and jerk are zero there
_RISE = np.array(
    [2.5, -3.0, 1.0]
)  # x⁴, x⁵, x⁶ of the integral of the smooth step: travel while the speed changes
_MOVE = np.array(
    [35.0, -84.0, 70.0, -20.0]
)  # x⁴ ... x⁷ of a step that rests, jerk included, at both ends

FASTEST = (2.1875, 7.5132, 52.5)
"""Largest speed, acceleration and jerk of a move over distance 1 in 1 s."""


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A motion of polynomial pieces from rest to rest; before and after it stands still.

    Attributes:
        breaks: Times (m + 1,) at which pieces begin, and the end, s.
        coefficients: (m, d + 1, n): of the powers 0 ... d of the seconds since a piece began.
    """

    breaks: Array
    coefficients: Array

    @property
    def duration(self) -> float:
        """Seconds."""
        return float(self.breaks[-1])

    @property
    def span(self) -> float:
        """Seconds that show all of it."""
        return self.duration

    def __call__(self, t: ArrayLike) -> State:
        """Return (q, dq, ddq), each (..., n), at times t (...)."""
        time = np.asarray(t, dtype=float)
        inside = np.clip(time, 0.0, self.duration)
        q, dq, ddq = (
            part.reshape(*time.shape, -1) for part in self.derivatives(inside.ravel())[:3]
        )
        moving = (inside == time)[..., None]
        return q, np.where(moving, dq, 0.0), np.where(moving, ddq, 0.0)

    def derivatives(self, t: Array) -> list[Array]:
        """Return position and its first four derivatives, each (N, n), at times t (N,)."""
        piece = np.clip(
            np.searchsorted(self.breaks, t, side="right") - 1, 0, len(self.coefficients) - 1
        )
        x = (t - self.breaks[piece])[:, None]
        found = []
        for part in self._derived:
            values = part[piece, -1]
            for power in range(part.shape[1] - 2, -1, -1):
                values = values * x + part[piece, power]
            found.append(values)
        return found

    @cached_property
    def _derived(self) -> list[Array]:
        """Coefficients of position and its first four derivatives."""
        found = [self.coefficients]
        for _ in range(ORDERS - 1):
            powers = np.arange(1, found[-1].shape[1])[:, None]
            found.append(found[-1][:, 1:] * powers if len(powers) else np.zeros_like(found[-1]))
        return found

    def highest(self) -> Array:
        """Return what position and its derivatives cannot exceed (5, n)."""
        length = np.diff(self.breaks)[:, None]
        made = []
        for part in self._derived:
            degree = part.shape[1] - 1
            unit = part * (length ** np.arange(degree + 1))[:, :, None]
            to_bernstein = [
                [comb(j, i) / comb(degree, i) for i in range(degree + 1)] for j in range(degree + 1)
            ]
            made.append(np.abs(np.einsum("ji,min->mjn", to_bernstein, unit)).max(axis=(0, 1)))
        return np.array(made) * (1 + 1e-12)

    def to_json(self) -> dict[str, Any]:
        """Return the pieces as plain values."""
        return {"breaks": self.breaks, "pieces": self.coefficients}

    def __repr__(self) -> str:
        return (
            f"Piecewise({self.coefficients.shape[2]} joints, {len(self.coefficients)} pieces, "
            f"{self.duration:g} s)"
        )


@dataclass(frozen=True, eq=False)
class Splines(Family):
    """All motions that are B-splines of degree five with evenly spaced knots, as many coefficients
    as a Fourier series.

    Speed, acceleration and jerk are zero at both ends of every period.
    """

    @property
    def _points(self) -> int:
        """Control points of one period."""
        return 2 * self.harmonics - 2 + 2 * _SAME

    @cached_property
    def _knots(self) -> Array:
        inner = np.linspace(0.0, self.duration / self.periods, self._points - _DEGREE + 1)
        return np.concatenate([np.full(_DEGREE, inner[0]), inner, np.full(_DEGREE, inner[-1])])

    @cached_property
    def combinations(self) -> Array:
        """Control points (C, m) of each φ_k.

        One for both ends where their pose is free, and those between.
        """
        free = np.eye(self._points)[:, _SAME:-_SAME]
        if self.start is not None:
            return frozen(free)
        ends = np.zeros((self._points, 1))
        ends[:_SAME] = ends[-_SAME:] = 1.0
        return frozen(np.hstack([ends, free]))

    def _raw(self, t: Array) -> list[Array]:
        """The B-splines (N, C) and their first four derivatives."""
        from scipy.interpolate import BSpline

        period = self.duration / self.periods
        inside = t - period * np.clip(np.floor(t / period), 0, self.periods - 1)
        whole = BSpline(self._knots, np.eye(self._points), _DEGREE)
        return [np.asarray(whole(inside, nu=order)) for order in range(ORDERS)]

    def resting(self, pose: Array) -> Array:
        """Return the coefficients (m, n) of the motion that stays at a pose, or goes straight to
        its end.
        """
        return (
            np.tile(pose - self.beginning, (self.size, 1))
            if self.start is None
            else np.zeros((self.size, self.joints))
        )

    def swinging(self, rng: np.random.Generator) -> Array:
        """Return random coefficients (m, n) about zero."""
        found = rng.normal(size=(self.size, self.joints))
        found[: int(self.start is None)] = 0.0
        return found

    def course(self, coefficients: Array) -> Course:
        """Return the motion of coefficients (m, n) as a proof needs it."""
        return self.motion(coefficients)

    def motion(self, coefficients: Array) -> Piecewise:
        """Return the motion of coefficients (m, n)."""
        period = self.duration / self.periods
        begins = self._knots[_DEGREE : -_DEGREE - 1]
        # Taylor coefficients where each piece begins: derivatives there, from the right
        from scipy.interpolate import BSpline

        points = self.combinations @ coefficients + self.beginning
        spline = BSpline(self._knots, points, _DEGREE)
        one = np.stack(
            [spline(begins, nu=power) / factorial(power) for power in range(_DEGREE + 1)], axis=1
        )
        breaks = np.concatenate([begins + k * period for k in range(self.periods)])
        pieces = np.concatenate([one] * self.periods)
        if np.any(self.shift):
            for power in range(_DEGREE + 1):
                slope = (STEP.deriv(power) if power else STEP)(
                    breaks / self.duration
                ) / self.duration**power
                pieces[:, power] += np.outer(slope / factorial(power), self.shift)
        return Piecewise(frozen(np.append(breaks, self.duration)), frozen(pieces))


def joined(pieces: Sequence[tuple[float, Array]]) -> Piecewise:
    """Return pieces one after the other.

    Each its seconds and coefficients (d + 1, n) of rising powers.
    """
    degree = max(len(part) for _, part in pieces)
    table = np.zeros((len(pieces), degree, pieces[0][1].shape[1]))
    for row, (_, part) in zip(table, pieces):
        row[: len(part)] = part
    breaks = np.concatenate([[0.0], np.cumsum([seconds for seconds, _ in pieces])])
    return Piecewise(frozen(breaks), frozen(table))


def hold(pose: Array, seconds: float) -> tuple[float, Array]:
    """Return a piece that stays at a pose (n,)."""
    return seconds, np.asarray(pose)[None]


def move(here: Array, there: Array, seconds: float) -> tuple[float, Array]:
    """Return a piece from rest to rest; speed, acceleration and jerk are zero at both ends."""
    part = np.zeros((8, len(here)))
    part[0] = here
    part[4:] = np.outer(_MOVE / seconds ** np.arange(4, 8), there - here)
    return seconds, part


def change_speed(here: Array, before: Array, after: Array, seconds: float) -> tuple[float, Array]:
    """Return a piece in which the speed (n,) changes as a smooth step of degree five.

    It covers their mean's way.
    """
    part = np.zeros((7, len(here)))
    part[0], part[1] = here, before
    part[4:] = np.outer(_RISE / seconds ** np.arange(3, 6), after - before)
    return seconds, part


def ahead(piece: tuple[float, Array]) -> Array:
    """Return the position (n,) at the end of a piece."""
    seconds, part = piece
    return np.asarray(seconds ** np.arange(len(part)) @ part)
