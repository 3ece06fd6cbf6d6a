"""Friction that differs from the model's, tracked slowly while nothing touches the robot.

The friction torque of a joint has a part that follows the sign of its speed and a part that grows
with the speed, f = f_c + f_v. The true one is (1 + a) f_c + (1 + b) f_v: a gear is cold, or a seal
has worn. A Kalman filter for (a, b) of each joint takes what the balance of momentum leaves over a
period as its measurement,

    -d = a f_c + b f_v + noise + error of the model,

so that only what follows the speed moves it: a contact that is steady while the joint reverses
does not. Its steps are bounded, so that a push moves it little; once it has settled, it rests while
a joint passes its threshold. What it does not know yet of friction is part of the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import NamedTuple

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.vectors import Scalar
from minidyn.graph.scalar import sign, sqrt

START_ERROR = 0.6
"""Share by which either part of friction may be off at the start: three standard deviations."""
DRIFT = 0.3
"""Share by which friction drifts in an hour: one standard deviation."""
SETTLING = 60.0
"""Seconds of motion after which friction is known: from then on contacts stop the filter."""
RATES = (0.05, 0.002)
"""Largest change of a share, 1/s: while it settles, and after that."""
MIN_ERROR = 0.05
"""Least share of friction in a threshold: no gear changes in exactly these two parts."""
CORRELATION = 1.0
"""Seconds after which the model's error is another one: poses change meanwhile."""
PAUSE = 1.0
"""Seconds after a contact in which the filter still rests."""
STANDSTILL = 3.0
"""Times the speed of standstill below which a joint shows nothing of its friction."""

_SPREAD = 3.0  # standard deviations of a share that count in a threshold
_JOINT = 5  # numbers of a joint: a, b, and what three entries of its covariance have lost


class Tracked(NamedTuple):
    """Recorded arithmetic of one period.

    Attributes:
        correction: What friction is more than the model's (n), at the shares of before.
        bound: Of what is not known of friction (n).
    """

    correction: list[Scalar]
    bound: list[Scalar]


@dataclass(frozen=True, eq=False)
class FrictionTracking:
    """What the filter of each joint knows beforehand, and the arithmetic of its step.

    Attributes:
        level: Friction (n,) of a joint that begins to move, N m or N.
        noise: Standard deviation (n,) of the residual that noise causes, N m or N.
        model_error: Standard deviation (n,) of the model's torque but for friction, N m or N.
        gain: Of the residual (n,), 1/s.
        friction_error: Share of friction in thresholds at the start.
        standstill: Speed below which the direction of friction is not known, rad/s or m/s.
        period: Of the samples, s.
    """

    level: Array
    noise: Array
    model_error: Array
    gain: Array
    friction_error: float
    standstill: float
    period: float

    @property
    def variance(self) -> Array:
        """Variance (n,) of what a period leaves, but for friction, as if it were white.

        Behind the residual's lag white noise of variance v has v share / (2 - share); the model's
        error is the same for about `CORRELATION` seconds.
        """
        share = -np.expm1(-self.gain * self.period)
        lasting = 2.0 * CORRELATION / self.period
        variance = self.noise**2 * (2.0 - share) / share + self.model_error**2 * lasting
        return np.asarray(np.maximum(variance, 1e-300))

    @property
    def size(self) -> int:
        """Length of the state: five numbers a joint, seconds of rest, seconds of motion."""
        return _JOINT * len(self.level) + 2

    def parts(self, dq: list[Scalar], friction: list[Scalar]) -> list[tuple[Scalar, Scalar]]:
        """Record the two parts of each joint's friction: what follows the sign, and the rest."""
        parts: list[tuple[Scalar, Scalar]] = []
        for level, v, f in zip(self.level.tolist(), dq, friction):
            steady = level * (v / sqrt(v * v + self.standstill**2))
            parts.append((steady, f - steady))
        return parts

    def tracked(self, state: list[Scalar], parts: list[tuple[Scalar, Scalar]]) -> Tracked:
        """Record what friction is more than the model's, and the bound of what is not known.

        Where the direction of friction is not known the margins have all of the model's level; the
        share by which it differs is added here.
        """
        start = (START_ERROR / _SPREAD) ** 2
        correction, bound = [], []
        for j, (steady, growing) in enumerate(parts):
            a, b, lost_a, lost_b, _ = state[_JOINT * j : _JOINT * (j + 1)]
            off_a, off_b = self._share(start - lost_a), self._share(start - lost_b)
            correction.append(a * steady + b * growing)
            hidden = float(self.level[j]) - _size(steady)
            bound.append(off_a * _size(steady) + off_b * _size(growing) + (a + off_a) * hidden)
        return Tracked(correction, bound)

    def _share(self, variance: Scalar) -> Scalar:
        """Record the share of friction that counts in a threshold, for a variance of the filter."""
        least = min(MIN_ERROR, self.friction_error)
        spread = _SPREAD * sqrt(_largest(variance, 0.0))
        return _least(_largest(spread, least), self.friction_error)

    def step(
        self,
        state: list[Scalar],
        dq: list[Scalar],
        parts: list[tuple[Scalar, Scalar]],
        missing_torque: list[Scalar],
        passes: list[Scalar],
    ) -> list[Scalar]:
        """Record the next state.

        Args:
            state: Of the filter.
            dq: Speeds (n).
            parts: Of friction (n).
            missing_torque: Torque that the corrected model lacks in the balance of the period (n).
            passes: One where a joint passes its threshold, else zero (n).
        """
        n, length, variance = len(dq), self.period, self.variance.tolist()
        rest, motion = state[_JOINT * n :]
        still = [0.5 * (1.0 - sign(_size(v) - STANDSTILL * self.standstill)) for v in dq]
        contact = 1.0 - reduce(mul, (1.0 - over for over in passes))
        settled = 0.5 * (1.0 + sign(motion - (SETTLING - 0.5 * length)))
        resting = settled * (1.0 - (1.0 - contact) * (1.0 - sign(rest)))
        rate = length * (RATES[0] + settled * (RATES[1] - RATES[0]))
        moved: list[Scalar] = []
        for j in range(n):
            learns = (1.0 - still[j]) * (1.0 - resting)
            own = state[_JOINT * j : _JOINT * (j + 1)]
            moved += self._joint(own, parts[j], missing_torque[j], (learns, rate, variance[j]))
        moved.append(contact * PAUSE + (1.0 - contact) * _largest(rest - length, 0.0))
        moves = 1.0 - reduce(mul, still)
        moved.append(_least(motion + moves * length, SETTLING))
        return moved

    def _joint(
        self,
        state: list[Scalar],
        part: tuple[Scalar, Scalar],
        missing_torque: Scalar,
        how: tuple[Scalar, Scalar, float],
    ) -> list[Scalar]:
        """Record the Kalman step of one joint; the covariance is kept as what it has lost."""
        a, b, *lost = state
        learns, rate, variance = how
        start = (START_ERROR / _SPREAD) ** 2
        p, q, r = start - lost[0], start - lost[1], -lost[2]
        steady, growing = part
        to_a, to_b = p * steady + r * growing, r * steady + q * growing
        size = steady * to_a + growing * to_b + variance
        gain_a, gain_b = learns * to_a / size, learns * to_b / size
        # steps beyond the rate are shortened, and so is what they teach
        longest = _largest(_size(gain_a * missing_torque), _size(gain_b * missing_torque))
        share = rate / _largest(longest, rate)
        drift = DRIFT**2 / 3600.0 * self.period
        fading = 1.0 - drift / start  # keeps what was lost from falling below nothing
        return [
            a + share * gain_a * missing_torque,
            b + share * gain_b * missing_torque,
            fading * (lost[0] + share * gain_a * to_a),
            fading * (lost[1] + share * gain_b * to_b),
            fading * (lost[2] + share * gain_a * to_b),
        ]


def _size(x: Scalar) -> Scalar:
    return x * sign(x)


def _largest(x: Scalar, y: Scalar) -> Scalar:
    return 0.5 * (x + y + _size(x - y))


def _least(x: Scalar, y: Scalar) -> Scalar:
    return 0.5 * (x + y - _size(x - y))
