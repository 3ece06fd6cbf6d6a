"""Identification without accelerations: from filtered torque, from momentum, or from energy.

Accelerations are what differentiation spoils most. Torque is the rate of a momentum that q and dq
give, plus a rest that they give, too; after a low-pass, or integrated over windows, q, dq and tau
are all that is needed. The energy balance gives one row a window instead of n: less to compute, and
less to see.

With the momentum W θ and the energy h θ, tau = dW/dt θ + Ŷ θ and dqᵀ tau = dh/dt θ + friction
power. Integrating over windows, or passing both sides through one low-pass a / (s + a), leaves
relations that are exact in θ:

    window:    W(end) - W(begin) + ∫ Ŷ dt = ∫ tau dt
    filter:    a (W - W_f) + Ŷ_f          = tau_f

Integrals and filters are of fourth order in the sampling step or higher: between two samples a
signal is taken for the cubic through the four nearest ones (or the polynomial through more), and
what is done with it is exact for that polynomial. Times need not be evenly spaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import call, energy_regressor
from minidyn.dynamics.kernel import BaseColumns, require_own
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import PIECE, cutoff_of
from minidyn.identification.rows.base_rows import signals_of, steady_regressor
from minidyn.identification.rows.pieces import Piece
from minidyn.identification.rows.triangles import STRETCHES
from minidyn.model.robot import Robot, require_fixed_base
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

POINTS = 4  # formula: samples of a polynomial, a cubic
_BLOCK = 128  # size: intervals that stay in the cache
_FAST = 4.0  # formula: above it, quadrature loses digits where the recursion does not
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # formula: exact to rounding below _FAST


def low_pass(
    t: Array, u: Array, rate: float, start: Array | float = 0.0, points: int = POINTS
) -> Array:
    """Return x (N, ...) with dx/dt = rate (u - x), x = start at the first sample, for a signal u
    (N, ...) at times t.

    Each polynomial goes through so many points, an even number of samples.
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
    """Return the integral (N, ...) of a signal u (N, ...) from the first sample on; `points` as for
    `low_pass`.
    """
    total = np.zeros_like(u)
    moments = np.diff(t)[:, None] / np.arange(1, points + 1)
    np.cumsum(_weighted(u, *_weights(t, moments)), axis=0, out=total[1:])
    return total


def _filter_moments(z: Array, points: int) -> Array:
    """Return ∫ z exp(-z (1 - s)) s^p ds over [0, 1] for p = 0 ...

    points - 1: (intervals, points).
    """
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
    """Return (first sample (intervals,), weights (intervals, points)) that give each interval's
    moments of a signal.

    The weights w of samples at s_j, in units of the interval from its beginning, satisfy Σ w_j
    s_j^p = moment p.
    """
    steps = np.diff(t)
    if not np.all(steps > 0):
        at = int(np.argmax(~(steps > 0)))
        raise MinidynError(
            f"t: samples {at} and {at + 1} have the same time ({t[at]:.6g} s); remove one of them"
        )
    points = min(moments.shape[1], len(t))
    first = np.clip(np.arange(len(steps)) - (points // 2 - 1), 0, len(t) - points)
    s = (t[first[:, None] + np.arange(points)] - t[:-1, None]) / steps[:, None]
    powers = s[:, None, :] ** np.arange(points)[:, None]
    return first, np.linalg.solve(powers, moments[:, :points, None])[..., 0]


def _weighted(u: Array, first: NDArray[np.intp], weights: Array) -> Array:
    """Return Σ_j weights[:, j] u[first + j]: (intervals, ...).

    All intervals but the outermost start a fixed number of samples before their own, so that slices
    serve; blocks stay in the cache.
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


Parts = tuple[Array, Array, Array]

FORMS = ("filtered", "momentum", "energy", "power")
"""Which balance is used.

"filtered" and "momentum" that of momentum, "power" and "energy" that of energy; the first of each
pair passes it through a low-pass, the second integrates it over windows."""


def filtered_regressor(
    robot: Robot,
    recording: Recording,
    cutoff: float,
    base: BaseColumns | None = None,
    *,
    form: str = "filtered",
    points: int = POINTS,
) -> tuple[Array, Array]:
    """Return (Y_f, tau_f) of a recording with Y_f @ parameters = tau_f, without accelerations.

    The signals between samples are taken for cubics, so that the error of that relation is of
    fourth order in the sampling step (with more `points`, of a higher one). Coulomb friction, which
    jumps where a joint reverses, does not spoil it: its column and the torque pass through the same
    operation. Runs are kept apart: each starts its own filter, and no window reaches over their
    ends.

    Args:
        robot: The robot.
        recording: Motion with q, dq and tau.
        cutoff: Of the low-pass, Hz: the pole is a = 2π cutoff. Windows are 1 / a long, or one
            sample where that is longer.
        base: Base-parameter map: columns of the base parameters; None: of the standard ones.
        form: "filtered" (n rows a sample), "power" (one row a sample), "momentum" (n rows a window)
            or "energy" (one row a window).
        points: Samples that the polynomials between samples go through, 4, 6 or 8: the order of the
            error.

    Returns:
        Y_f (K, rows, p) and tau_f (K, rows): N m of filtered torque, N m s of momentum, J of energy
        or W of power.

    Implements: LuMeng1993 eq. (47)-(48), remark 2, with the initial values of ERRATA F; Gautier1991
    eq. (9)-(12) for energy.
    """
    require_fixed_base(robot, "filtered_regressor")
    if form not in FORMS:
        raise UnknownName("form of the filtered regressor", form, FORMS)
    if not (isinstance(cutoff, int | float | np.floating) and 0 < cutoff < math.inf):
        raise MinidynError(
            f"filtered_regressor: cutoff must be a positive number of Hz, got {cutoff!r}"
        )
    if not isinstance(recording, Recording):
        raise MinidynError(
            f"filtered_regressor: expected a Recording, got {type(recording).__name__}"
        )
    if points not in (4, 6, 8):
        raise MinidynError(f"filtered_regressor: points must be 4, 6 or 8, got {points!r}")
    require_own(robot, base, "filtered_regressor")
    rate = 2 * math.pi * float(cutoff)
    q, dq, tau = _signals(robot, recording)
    balance = _momentum_balance if form in ("filtered", "momentum") else _energy_balance
    reduce: Callable[[Array, Parts, float, int], tuple[Array, Array]]
    reduce = _filter if form in ("filtered", "power") else _windows
    found = []
    for begin, end in zip(recording.starts, (*recording.starts[1:], len(recording))):
        part = slice(begin, end)
        found.append(
            reduce(
                recording.t[part], balance(robot, q[part], dq[part], tau[part], base), rate, points
            )
        )
    if not found:
        raise MinidynError("filtered_regressor: the recording is empty")
    return np.concatenate([Y for Y, _ in found]), np.concatenate([right for _, right in found])


def _momentum_balance(
    robot: Robot, q: Array, dq: Array, tau: Array, base: BaseColumns | None
) -> Parts:
    W, rest = call(robot, "momentum_regressor", (q, dq), None, None, base)
    return W, rest, tau


def _energy_balance(
    robot: Robot, q: Array, dq: Array, tau: Array, base: BaseColumns | None
) -> Parts:
    h = energy_regressor(robot, q, dq)
    lost = np.zeros_like(h)
    friction = [column.index for column in robot.layout.columns if column.is_friction]
    if friction:
        _, rest = call(robot, "momentum_regressor", (q, dq), None, None)
        lost[:, friction] = np.einsum("ki,kip->kp", dq, rest[:, :, friction])
    if base is not None:
        kept = list(robot.layout.indices(base.kept))
        h, lost = h[:, kept], lost[:, kept]
        if base.unmixing is not None:
            h, lost = h @ base.unmixing, lost @ base.unmixing
    return h[:, None], lost[:, None], np.einsum("ki,ki->k", dq, tau)[:, None]


def _filter(t: Array, parts: Parts, rate: float, points: int) -> tuple[Array, Array]:
    stored, rest, right = parts
    # one filter serves both: rest_f - a stored_f is the filtered rest - a stored, from -a stored(0)
    # on
    scaled = rate * stored
    Y = low_pass(t, rest - scaled, rate, -scaled[0], points)
    Y += scaled
    return Y, low_pass(t, right, rate, points=points)


def _windows(t: Array, parts: Parts, rate: float, points: int) -> tuple[Array, Array]:
    stored, rest, right = parts
    ends = _window_ends(t, 1.0 / rate)
    Y = np.diff(stored[ends], axis=0)
    Y += np.diff(integral(t, rest, points)[ends], axis=0)
    return Y, np.diff(integral(t, right, points)[ends], axis=0)


def _window_ends(t: Array, length: float) -> list[int]:
    """Return the samples where windows meet.

    Each the first that is at least `length` after the one before.
    """
    ends = [0]
    while True:
        # a step that is `length` but for rounding is enough
        following = int(np.searchsorted(t, t[ends[-1]] + length * (1 - 1e-9)))
        following = max(following, ends[-1] + 1)
        if following >= len(t):
            return ends
        ends.append(following)


def _signals(robot: Robot, recording: Recording) -> tuple[Array, Array, Array]:
    """Return q, dq, tau in the robot's order of joints."""
    if recording.n != robot.n:
        raise ShapeError(
            f"the recording has {recording.n} joints, robot {robot.name!r} has {robot.n}"
        )
    missing = [name for name in ("dq", "tau") if getattr(recording, name) is None]
    if recording.dq is None or recording.tau is None:
        raise MinidynError(
            (
                "filtered_regressor needs q, dq and tau; the recording has no "
                f"{' and no '.join(missing)}"
            )
            + (
                "; speeds can be had from positions by a low-pass derivative"
                if "dq" in missing
                else ""
            )
        )
    numbered = tuple(f"joint{index + 1}" for index in range(recording.n))  # names that nobody gave
    order = list(range(robot.n))
    if recording.joint_names not in (robot.joint_names, numbered):
        for name in recording.joint_names:
            if name not in robot.joint_names:
                raise UnknownName(
                    f"joint of robot {robot.name!r} in the recording:", name, robot.joint_names
                )
        order = [recording.joint_names.index(name) for name in robot.joint_names]
    return recording.q[:, order], recording.dq[:, order], recording.tau[:, order]


# formula: of a polynomial; exact data give exact parameters even at 150 samples a second
_POINTS = 8
_TIMES_BAND = 6.0  # cut-off over the band of the motion: windows are short enough to see all of it


def acceleration_free(
    form: str, robot: Robot, base: BaseMap, recording: AnyRecording, options: Options
) -> Solution:
    """Estimate base parameters by one of the forms "filtered", "momentum", "energy" of
    `filtered_regressor`.
    """
    seen = (
        recording if isinstance(recording, Recording) else next(iter(recording.tiles(16 * PIECE)))
    )
    cutoff = cutoff_of(seen, _TIMES_BAND, 0.1)
    found = fit_system(
        base, partial(_pieces, form, robot, base, recording, cutoff), options.allow_open
    )
    record = {"filter_cutoff": cutoff, "rows": found.rows * len(found.sigma)}
    made = found.solution((), record, options, len(recording))
    return replace(made, sigma=_torque_noise(robot, base, recording, found.beta))


def _stretches(recording: AnyRecording) -> Iterator[tuple[Recording, float]]:
    """Pieces of runs, and where in the recording (0 to 1) each begins.

    Neighbours share the sample between them.
    """
    if not isinstance(recording, Recording):
        done, total = 0, len(recording)
        for piece in recording.tiles(PIECE):
            yield piece, min(done / total, 1.0)
            done += len(piece)
        return
    for run, start in zip(recording.runs, recording.starts):
        parts = max(-(-len(run) // PIECE), min(STRETCHES, len(run) // 200), 1)
        for begin, end in pairwise(np.linspace(0, len(run) - 1, parts + 1).astype(int).tolist()):
            yield run[begin : end + 1], (start + begin) / len(recording)


def _pieces(
    form: str, robot: Robot, base: BaseMap, recording: AnyRecording, cutoff: float
) -> Iterator[Piece]:
    """Rows stretch by stretch.

    Filters start anew with exact initial values, so that nothing is lost by cutting.
    """
    for part, place in _stretches(recording):
        q, dq, tau = signals_of(part, "q", "dq", "tau")
        named = Recording(part.t, q, tau, dq, joint_names=robot.joint_names)
        W, y = filtered_regressor(robot, named, cutoff, base, form=form, points=_POINTS)
        yield Piece(W, y, np.linspace(part.t[0], part.t[-1], len(y)), place)


def _torque_noise(robot: Robot, base: BaseMap, recording: AnyRecording, beta: Array) -> Array:
    """Standard deviation of each joint's torque error, with accelerations from the speeds where
    none are recorded.
    """
    squares, samples = np.zeros(robot.n), 0
    for part, _ in _stretches(recording):
        q, dq, tau = signals_of(part, "q", "dq", "tau")
        if part.ddq is not None:
            ddq = part.ddq
        else:
            ddq = np.gradient(dq, part.t, axis=0) if len(part) > 1 else np.zeros_like(q)
        residual = tau - steady_regressor(robot, base, q, dq, ddq) @ beta
        squares += np.sum(residual**2, axis=0)
        samples += len(part)
    noise = np.sqrt(squares / max(1, samples))
    return np.asarray(np.where(noise > 0, noise, 1.0), dtype=float)


# size: samples beyond which filters that start anew with each piece do less harm than memory
_LONG = 1_000_000

FILTERED, MOMENTUM, ENERGY = (
    Method(
        form,
        partial(acceleration_free, form),
        needs_acceleration=False,
        streams_from=_LONG,
        needs_all_torques=form == "energy",
    )
    for form in ("filtered", "momentum", "energy")
)
