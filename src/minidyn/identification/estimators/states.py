"""The motion behind a recording.

Its states as recorded, or with most of their noise taken away, and which to use. A robot moves
slowly compared with the noise of its encoders: what lies above the band of the motion is noise. How
much to take away is asked of the torques, because they are measured by other sensors. Of the
smoothed states those are best along which the model leaves the least torque within the band of the
motion. Beyond it a controller answers noise with torque, and the robot with acceleration: that
shaking is no sign of a cut-off that is too low.

For the same reason the torque they leave does not judge the states as recorded: noisy accelerations
that show shaking explain much torque, however biased the parameters they lead to. Recorded states
are used where what they have more than smoothed ones is unrelated to the torque they leave
(Durbin-Wu-Hausman), or where they leave hardly any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.identification.diagnose.exogeneity import exogeneity_test
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.rows.base_rows import Samples, signals_of, steady_regressor
from minidyn.identification.rows.pieces import Piece, Pieces
from minidyn.identification.rows.triangles import STRETCHES
from minidyn.model.robot import Robot
from minidyn.recording.prepare.cutoff import MAX_CUTOFF_SHARE
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.prepare.signals import derivatives
from minidyn.recording.prepare.spectra import position_bands, power_spectrum
from minidyn.recording.recording import Recording

# cut-offs that are tried, over the band of the motion
_STEPS = (2.0, 3.0, 4.5, 7.0, 10.0, 15.0, 22.0)
_SAMPLES = 4000  # size: enough to choose
_IN_WINDOW = 16  # size: samples of a window of time over which residuals are averaged
_EXACT = 0.01  # ratio of squared residuals below which recorded states have no noise to speak of
_EQUAL = 1.05  # ratio up to which they are kept unless they are found to be biased

RunStates: TypeAlias = tuple[Array, Array, Array, NDArray[np.bool_]]
"""q, dq and ddq (N, n) of one run, and which are usable (N,)."""

PIECE = 4096
"""Size: samples of a piece of rows, at most: a fifth of a run where that is less."""


@dataclass(frozen=True, kw_only=True)
class States(Samples):
    """Positions, speeds and accelerations at the samples of a recording, with its torques."""

    starts: tuple[int, ...]  # index of the first sample of each run
    usable: NDArray[np.bool_]  # (N,) False where a filter's start or a simulation's spoils them
    origin: str  # where they come from, in words
    cutoff: float = math.inf  # of the low-pass, Hz; infinite where there was none


def as_recorded(recording: Recording) -> States:
    """Return the states as they are in the recording."""
    arrays = signals_of(recording, "q", "dq", "ddq", "tau")
    everywhere = np.ones(len(recording), dtype=bool)
    return States(
        recording.t, *arrays, starts=recording.starts, usable=everywhere, origin="as recorded"
    )


def states_of(
    recording: Recording, runs: Sequence[RunStates], origin: str, cutoff: float = math.inf
) -> States:
    """Return the states that were made run by run.

    Torques are the measured ones, or zeros where there are none, for states that are only looked
    at.
    """
    q, dq, ddq, usable = (np.concatenate(parts) for parts in zip(*runs))
    tau = np.zeros_like(recording.q) if recording.tau is None else signals_of(recording, "tau")[0]
    return States(
        recording.t,
        q,
        dq,
        ddq,
        tau,
        starts=recording.starts,
        usable=usable,
        origin=origin,
        cutoff=cutoff,
    )


def torque_rows(
    robot: Robot, base: BaseMap, states: States, instruments: Samples | None = None
) -> Pieces:
    """Return the rows of torque along states, with the regressor along other states as instruments
    if given.
    """

    def regressor(along: Samples, rows: NDArray[np.intp]) -> Array:
        return steady_regressor(robot, base, *(array[rows] for array in along.motion))

    def pieces() -> Iterator[Piece]:
        for start, end in pairwise([*states.starts, len(states)]):
            length = max(1, min(PIECE, -(-(end - start) // STRETCHES)))
            for begin in range(start, end, length):
                part = slice(begin, min(begin + length, end))
                rows = begin + np.flatnonzero(states.usable[part])
                if len(rows):
                    Z = None if instruments is None else regressor(instruments, rows)
                    yield Piece(
                        regressor(states, rows),
                        states.tau[rows],
                        states.t[rows],
                        begin / len(states),
                        Z,
                    )

    return pieces


def motion_band(recording: Recording) -> tuple[float, float]:
    """Return the band of the motion and the lowest sample rate, Hz.

    A band of zero where nothing moves. Preparation knows the band from the raw positions. Once
    noise has been filtered its spectrum no longer tells it from motion; so a reference, which has
    none, is asked next, and at last the band that holds 99 % of the power of speeds.
    """
    runs = [run for run in recording.runs if len(run) >= 20]
    if not runs:
        raise MinidynError("no run has 20 samples in a row: too few to see how fast the motion is")
    rates = [1.0 / max(float(np.median(np.diff(run.t))), 1e-12) for run in runs]
    known = recording.info.get("motion_band")
    if isinstance(known, float) and known > 0:
        return known, min(rates)
    reference = recording.telemetry.get("q_d")
    exact = reference is not None and reference.shape == recording.q.shape
    positions = [run.telemetry["q_d"] if exact else run.q for run in runs]
    band = position_bands(positions, rates).motion
    return (band if exact else min(band, _most_power(positions, rates))), min(rates)


def cutoff_of(recording: Recording, times: float, share: float) -> float:
    """Return a cut-off, Hz.

    So many times the band of the motion, within this share of the sample rate.
    """
    band, rate = motion_band(recording)
    return min(times * band, share * rate) if band > 0 else share * rate


def _most_power(positions: Sequence[Array], rates: Sequence[float]) -> float:
    """Return the frequency below which 99 % of the power of the speeds lies, largest of the moving
    joints, Hz.
    """
    highest = 0.0
    for q, rate in zip(positions, rates):
        f, power = power_spectrum(q, rate, min(len(q), 1 << 13))
        share = np.cumsum(f[:, None] ** 2 * power, axis=0)
        for joint in np.flatnonzero(share[-1] > 0.0025 * share[-1].max()):
            highest = max(
                highest, float(f[int(np.searchsorted(share[:, joint], 0.99 * share[-1, joint]))])
            )
    return highest


def smoothed(recording: Recording, cutoff: float) -> States:
    """Return the recorded positions after a zero-phase low-pass, with their derivatives, run by
    run.

    Where the recording has its reference (telemetry "q_d"), only the deviation from it is filtered.
    """
    reference = recording.telemetry.get("q_d")
    exact = reference is not None and reference.shape == recording.q.shape
    found = [
        _smooth_run(run.t, run.q, run.telemetry["q_d"] if exact else None, cutoff)
        for run in recording.runs
    ]
    return states_of(recording, found, f"recorded positions below {cutoff:.3g} Hz", cutoff)


def _smooth_run(t: Array, q: Array, reference: Array | None, cutoff: float) -> RunStates:
    usable = np.zeros(len(t), dtype=bool)
    if len(t) < 20:
        return q, np.zeros_like(q), np.zeros_like(q), usable
    rate = (len(t) - 1) / float(t[-1] - t[0])
    even = np.linspace(t[0], t[-1], len(t))
    uneven = bool(np.abs(t - even).max() > 1e-3 / rate)
    values = q if reference is None else q - reference
    if uneven:
        values = _moved(t, values, even)
    low = lowpass(values, rate, min(cutoff, 0.49 * rate))
    states = [low, *derivatives(low, 1.0 / rate)]
    if uneven:
        states = [_moved(even, part, t) for part in states]
    if reference is not None:
        from scipy.interpolate import make_interp_spline

        spline = make_interp_spline(t, reference, k=5)
        states = [part + spline(t, order) for order, part in enumerate(states)]
    margin = max(8, math.ceil(rate / cutoff))
    usable[margin : len(t) - margin] = True
    return states[0], states[1], states[2], usable


def _moved(t: Array, values: Array, to: Array) -> Array:
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(t, values)(to), dtype=float)


def best_states(robot: Robot, base: BaseMap, recording: Recording) -> States:
    """Return the states, as recorded or smoothed, that lead to the least biased base parameters."""
    recorded = as_recorded(recording)
    if len(recording) < 100:
        return recorded
    band, rate = motion_band(recording)
    cutoffs = [step * band for step in _STEPS if 0 < step * band < MAX_CUTOFF_SHARE * rate]
    candidates = [recorded, *(smoothed(recording, cutoff) for cutoff in cutoffs)]
    usable = np.logical_and.reduce([states.usable for states in candidates])
    enough = 4 * base.rank / robot.n
    if not cutoffs or usable.sum() < enough:
        return recorded
    # a quarter of the shortest period keeps the band of the motion; parameters must not outnumber
    # windows
    length = max(1, int(min(rate / (4.0 * band), usable.sum() / enough)))
    rows = _windows(usable, [*recording.starts, len(recording)], length)
    if rows.size < enough:
        return recorded
    errors = _errors(robot, base, candidates, rows)
    best = 1 + int(np.argmin(errors[1:]))
    if errors[0] < _EXACT * errors[best]:
        return recorded
    if errors[0] > _EQUAL * errors[best] or _biased(robot, base, recorded, candidates[best]):
        return candidates[best]
    return recorded


def _windows(usable: NDArray[np.bool_], edges: Sequence[int], length: int) -> NDArray[np.intp]:
    """Return samples (windows, samples of each) of windows of so many samples in a row, thinned to
    what is enough.
    """
    found = []
    for begin, end in pairwise(edges):
        own = np.flatnonzero(usable[begin:end]) + begin
        found.append(
            own[: len(own) // length * length].reshape(-1, length)[:, :: -(-length // _IN_WINDOW)]
        )
    rows = np.concatenate(found)
    return np.asarray(rows[:: max(1, rows.size // _SAMPLES)], dtype=np.intp)


def _errors(
    robot: Robot, base: BaseMap, candidates: Sequence[States], rows: NDArray[np.intp]
) -> list[float]:
    """Return what states leave of the torque, averaged over each window of rows (w, k), joints by
    their residuals.
    """
    residuals: list[Array] = []
    chosen, torque = rows.ravel(), candidates[0].tau[rows.ravel()]
    with single_thread():
        scale = np.maximum(np.sqrt(np.mean(torque**2, axis=0)), 1e-300)
        for _ in range(2):  # the second time, joints are weighed by what the first leaves at best
            residuals = []
            for states in candidates:
                Y = steady_regressor(robot, base, *(array[chosen] for array in states.motion))
                weighted = (Y / scale[:, None]).reshape(-1, base.rank)
                beta, *_ = np.linalg.lstsq(weighted, (torque / scale).ravel(), rcond=None)
                left = (torque - Y @ beta).reshape(*rows.shape, robot.n).mean(axis=1)
                residuals.append(np.mean(left**2, axis=0))
            floor = 1e-18 * np.mean(torque**2, axis=0)
            scale = np.sqrt(np.maximum(np.min(residuals, axis=0), np.maximum(floor, 1e-300)))
    return [float(np.sum(residual / scale**2)) for residual in residuals]


def _biased(robot: Robot, base: BaseMap, recorded: States, smooth: States) -> bool:
    """Say whether least squares along recorded states is measurably biased, with smoothed ones as
    instruments.
    """
    inside = replace(recorded, usable=smooth.usable)
    plain = fit_system(base, torque_rows(robot, base, inside), allow_open=True)
    return exogeneity_test(
        torque_rows(robot, base, inside, smooth), plain.beta, plain.sigma, plain.block
    ).biased
