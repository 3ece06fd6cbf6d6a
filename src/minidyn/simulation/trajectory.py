"""Trajectories: callables t -> (q, dq, ddq).

Built in: hold, quintic, critically damped, Fourier series, sampled. Anything that takes a time and
returns three arrays (n,) is a trajectory; one that also takes an array of times (N,) and returns
arrays (N, n) is a quick one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import MinidynError, ShapeError
from minidyn.formats.load import RobotLike, as_robot

State = tuple[Array, Array, Array]


class Trajectory(Protocol):
    """Any callable that returns position, speed and acceleration, each (n,), at a time t in s.

    One that also takes times (N,) and returns arrays (N, n) is quicker. `md.trajectory` makes some:
    hold, quintic, critically_damped, fourier, sampled.
    """

    def __call__(self, t: ArrayLike, /) -> State:
        """Return (q, dq, ddq)."""
        ...


def along(trajectory: Trajectory, t: ArrayLike, n: int) -> State:
    """Return a trajectory at times (N,) as three arrays (N, n), whether it takes arrays of times or
    single ones only.

    Raises:
        ShapeError: It does not return three arrays (n,) at a time.
    """
    times = np.asarray(t, dtype=float)
    looked_at = sorted({0, len(times) // 2, len(times) - 1})
    single = {k: _at(trajectory, float(times[k]), n) for k in looked_at}
    try:
        position, speed, acceleration = (
            np.asarray(part, dtype=float) for part in trajectory(times)
        )
    except (TypeError, ValueError, IndexError):
        pass  # it takes one time only: `if t < 1`, or rows of unlike lengths
    else:
        parts = (position, speed, acceleration)
        if all(part.shape == (len(times), n) for part in parts) and all(
            np.allclose(part[k], one, rtol=1e-9, atol=1e-12)
            for k in looked_at
            for part, one in zip(parts, single[k])
        ):
            return parts
    states = [_at(trajectory, float(time), n) for time in times]
    return (
        np.array([x for x, _, _ in states]),
        np.array([v for _, v, _ in states]),
        np.array([a for _, _, a in states]),
    )


def _at(trajectory: Trajectory, t: float, n: int) -> State:
    found = tuple(np.asarray(part, dtype=float) for part in trajectory(t))
    if len(found) != 3 or any(part.shape != (n,) for part in found):
        shapes = ", ".join(str(part.shape) for part in found)
        raise ShapeError(
            f"trajectory: expected (q, dq, ddq), each of shape ({n},), at t = {t:g}; got {shapes}"
        )
    return found[0], found[1], found[2]


def hold(q: ArrayLike) -> Trajectory:
    """Return the trajectory that stays at q (n,)."""
    place = np.array(q, dtype=float)
    if place.ndim != 1:
        raise ShapeError(f"hold: expected q of shape (n,), got {place.shape}")

    def at(t: ArrayLike) -> State:
        still = np.zeros((*np.shape(t), len(place)))
        return still + place, still, still.copy()

    return at


def quintic(start: ArrayLike, end: ArrayLike, duration: float) -> Trajectory:
    """Return the smooth move from start (n,) to end (n,) with zero speed and acceleration at both
    ends.

    Args:
        start: Positions before t = 0.
        end: Positions from t = duration on.
        duration: Seconds.
    """
    a, b = np.array(start, dtype=float), np.array(end, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ShapeError(
            f"quintic: start and end must both have shape (n,), got {a.shape} and {b.shape}"
        )
    if not duration > 0:
        raise MinidynError(f"quintic: duration must be positive, got {duration!r}")

    def at(t: ArrayLike) -> State:
        x = np.clip(np.asarray(t, dtype=float) / duration, 0.0, 1.0)[..., None]
        shape = x**3 * (10 - 15 * x + 6 * x**2)
        speed = 30 * x**2 * (1 - x) ** 2 / duration
        acceleration = 60 * x * (1 - x) * (1 - 2 * x) / duration**2
        return a + (b - a) * shape, (b - a) * speed, (b - a) * acceleration

    return at


def critically_damped(start: ArrayLike, end: ArrayLike, rate: ArrayLike) -> Trajectory:
    """Return the answer of a critically damped second-order servo to a step from start (n,) to end
    (n,) at t = 0.

    It solves ddq + 2 rate dq + rate² (q - end) = 0 with q = start and dq = 0 at t = 0: after 5 /
    rate 96 % of the way is done, and there is no overshoot. The acceleration jumps at t = 0, to
    rate² (end - start).

    Args:
        start: Positions until t = 0.
        end: Positions that are approached.
        rate: One over the damping time constant, 1/s: one for all joints or one for each (n,).

    Implements: Lin1992 eq. (64)-(66).
    """
    a, b, sigma = (
        np.array(start, dtype=float),
        np.array(end, dtype=float),
        np.array(rate, dtype=float),
    )
    if a.ndim != 1 or a.shape != b.shape or sigma.shape not in ((), a.shape):
        raise ShapeError(
            "critically_damped: start and end must have shape (n,), rate be a number or (n,); got "
            f"{a.shape}, {b.shape} and {sigma.shape}"
        )
    if not np.all(sigma > 0):
        raise MinidynError(f"critically_damped: rate must be positive, got {rate!r}")

    def at(t: ArrayLike) -> State:
        time = np.asarray(t, dtype=float)[..., None]
        x = sigma * np.maximum(time, 0.0)
        decay = np.where(time >= 0.0, np.exp(-x), 0.0)
        way = b - a
        return (
            b - way * np.where(time >= 0.0, (1 + x) * decay, 1.0),
            way * sigma * x * decay,
            way * sigma**2 * (1 - x) * decay,
        )

    return at


@dataclass(frozen=True, eq=False)
class Fourier:
    """A periodic trajectory q(t) = centre + Σ_k sine_k sin(k w t) + cosine_k cos(k w t).

    Attributes:
        centre: Mean positions (n,).
        sine: Coefficients (K, n).
        cosine: Coefficients (K, n).
        period: Seconds.
    """

    centre: Array
    sine: Array
    cosine: Array
    period: float

    def __call__(self, t: ArrayLike) -> State:
        """Return (q, dq, ddq), each (..., n), at times t (...)."""
        k = 2 * np.pi / self.period * np.arange(1, len(self.sine) + 1)
        phase = np.asarray(t, dtype=float)[..., None] * k
        s, c = np.sin(phase), np.cos(phase)
        q = self.centre + s @ self.sine + c @ self.cosine
        dq = (k * c) @ self.sine - (k * s) @ self.cosine
        ddq = -(k**2 * s) @ self.sine - (k**2 * c) @ self.cosine
        return q, dq, ddq

    def __repr__(self) -> str:
        return (
            f"Fourier({len(self.centre)} joints, {len(self.sine)} harmonics of a period of "
            f"{self.period:g} s)"
        )


def fourier(
    robot: RobotLike,
    *,
    seed: int = 0,
    harmonics: int = 5,
    period: float = 10.0,
    use: float = 0.9,
    speed: float = 2.0,
) -> Fourier:
    """Return a random periodic trajectory within the robot's joint limits.

    Args:
        robot: The robot, its name or path; joints without limits move within ±π rad or ±0.5 m.
        seed: Of the random coefficients.
        harmonics: Number of multiples of the base frequency.
        period: Seconds.
        use: Share of the range and speed limits that is used.
        speed: Speed limit of joints without one, rad/s or m/s.
    """
    if harmonics < 1 or not period > 0 or not 0 < use <= 1 or not speed > 0:
        raise MinidynError("fourier: expected harmonics >= 1, period > 0, 0 < use <= 1, speed > 0")
    robot = as_robot(robot)
    joints = [robot.joints[index] for index in robot.independent]
    reach = np.array([np.pi if joint.turns else 0.5 for joint in joints])
    lower = np.array([joint.limits.lower for joint in joints])
    upper = np.array([joint.limits.upper for joint in joints])
    bottom = np.where(
        np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2 * reach, -reach)
    )
    top = np.where(
        np.isfinite(upper), upper, np.where(np.isfinite(lower), lower + 2 * reach, reach)
    )
    centre = (bottom + top) / 2
    swing = np.minimum((top - bottom) / 2, reach)
    fastest = np.array([min(joint.limits.velocity, speed) for joint in joints])
    rng = np.random.default_rng(seed)
    weight = (
        1.0 / np.arange(1, harmonics + 1)[:, None]
    )  # slow parts larger: range and speed are both used
    shape = Fourier(
        np.zeros(robot.n),
        weight * rng.normal(size=(harmonics, robot.n)),
        weight * rng.normal(size=(harmonics, robot.n)),
        period,
    )
    q, dq, _ = shape(np.linspace(0, period, 200 * harmonics))
    middle = (q.max(axis=0) + q.min(axis=0)) / 2
    half = (q.max(axis=0) - q.min(axis=0)) / 2
    scale = use * np.minimum(swing / half, fastest / np.abs(dq).max(axis=0))
    return Fourier(centre - scale * middle, scale * shape.sine, scale * shape.cosine, period)


def sampled(t: ArrayLike, q: ArrayLike) -> Trajectory:
    """Return the smooth trajectory (quintic spline) through samples q (N, n) at times t (N,).

    It stops at the ends.
    """
    from scipy.interpolate import make_interp_spline

    times, values = np.asarray(t, dtype=float), np.asarray(q, dtype=float)
    if times.ndim != 1 or values.ndim != 2 or len(times) != len(values):
        raise ShapeError(
            f"sampled: expected t (N,) and q (N, n), got {times.shape} and {values.shape}"
        )
    if len(times) < 6 or not np.all(np.diff(times) > 0):
        raise MinidynError("sampled: expected at least 6 samples at increasing times")
    spline = make_interp_spline(times, values, k=5)
    first, second = spline.derivative(1), spline.derivative(2)

    def at(t: ArrayLike) -> State:
        time = np.asarray(t, dtype=float)
        inside = np.clip(time, times[0], times[-1])
        moving = (inside == time)[..., None]
        return (
            spline(inside),
            np.where(moving, first(inside), 0.0),
            np.where(moving, second(inside), 0.0),
        )

    return at
