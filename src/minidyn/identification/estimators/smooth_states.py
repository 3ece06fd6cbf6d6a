"""The motion behind a recording: positions, speeds and accelerations with most of their noise taken away.

A robot moves slowly compared with the noise of its encoders: what lies above the band of the motion is noise. How much
to take away is asked of the torques (:mod:`minidyn.identification.estimators.choose_states`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.identification.estimators.linear_system import signals_of
from minidyn.recording.prepare.signals import choose_cutoff, derivatives, lowpass, power_spectrum
from minidyn.recording.recording import Recording


@dataclass(frozen=True)
class States:
    """Positions, speeds and accelerations at the samples of a recording.

    Attributes:
        q: (N, n).
        dq: (N, n).
        ddq: (N, n).
        usable: (N,) False where a filter's start or a simulation's spoils them.
        origin: Where they come from, in words.
        cutoff: Of the low-pass, Hz; infinite where there was none.
    """

    q: Array
    dq: Array
    ddq: Array
    usable: NDArray[np.bool_]
    origin: str
    cutoff: float = math.inf


def as_recorded(recording: Recording) -> States:
    """Return the states as they are in the recording."""
    q, dq, ddq = signals_of(recording, "q", "dq", "ddq")
    return States(q, dq, ddq, np.ones(len(q), dtype=bool), "as recorded")


def motion_band(recording: Recording) -> tuple[float, float]:
    """Return the band of the motion and the lowest sample rate, Hz; a band of zero where nothing moves.

    Preparation knows the band from the raw positions. Once noise has been filtered its spectrum no longer tells it from
    motion; so a reference, which has none, is asked next, and at last the band that holds 99 % of the power of speeds.
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
    band = choose_cutoff(positions, rates).motion
    return (band if exact else min(band, _most_power(positions, rates))), min(rates)


def _most_power(positions: Sequence[Array], rates: Sequence[float]) -> float:
    """Return the frequency below which 99 % of the power of the speeds lies, largest of the moving joints, Hz."""
    highest = 0.0
    for q, rate in zip(positions, rates):
        f, power = power_spectrum(q, rate, min(len(q), 1 << 13))
        share = np.cumsum(f[:, None] ** 2 * power, axis=0)
        for joint in np.flatnonzero(share[-1] > 0.0025 * share[-1].max()):
            highest = max(highest, float(f[int(np.searchsorted(share[:, joint], 0.99 * share[-1, joint]))]))
    return highest


def smoothed(recording: Recording, cutoff: float) -> States:
    """Return the recorded positions after a zero-phase low-pass, with their derivatives, run by run.

    Where the recording has its reference (telemetry "q_d"), only the deviation from it is filtered.
    """
    found: list[tuple[Array, Array, Array, NDArray[np.bool_]]] = []
    reference = recording.telemetry.get("q_d")
    for run in recording.runs:
        wanted = run.telemetry["q_d"] if reference is not None and reference.shape == recording.q.shape else None
        found.append(_smooth_run(run.t, run.q, wanted, cutoff))
    q, dq, ddq = (np.concatenate([part[k] for part in found]) for k in range(3))
    usable = np.concatenate([part[3] for part in found])
    return States(q, dq, ddq, usable, f"recorded positions below {cutoff:.3g} Hz", cutoff)


def _smooth_run(
    t: Array, q: Array, reference: Array | None, cutoff: float
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    usable = np.zeros(len(t), dtype=bool)
    if len(t) < 20:
        return q, np.zeros_like(q), np.zeros_like(q), usable
    rate = (len(t) - 1) / float(t[-1] - t[0])
    even = np.linspace(t[0], t[-1], len(t))
    uneven = bool(np.abs(t - even).max() > 1e-3 / rate)
    wanted = np.zeros_like(q) if reference is None else reference
    values = q - wanted
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
