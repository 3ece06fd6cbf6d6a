"""Whole periods of a periodic motion, averaged into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import ShapeError
from minidyn.notices import Notice, info
from minidyn.recording.prepare.segments import Segment, measured

AVERAGED = info("prepare.averaged", "The periods of a periodic motion were averaged into one.")


def averaged(part: Segment, period: float, notices: list[Notice]) -> Segment:
    """Return one period, the mean of all whole ones.

    Where there are three or more the first is left to settle.
    """
    samples = period * part.rate
    size = round(samples)
    if size < 20 or abs(samples - size) > 0.02:
        raise ShapeError(
            f"period: {period:.6g} s is {samples:.4f} samples; a whole number from 20 is needed"
        )
    count = len(part.q) // size
    if count < 2:
        raise ShapeError(
            f"period: {period:.6g} s; the run holds {len(part.q) / samples:.2f} periods, 2 are "
            "needed"
        )
    first = 1 if count > 2 else 0
    rows = slice(first * size, count * size)

    def fold(values: NDArray[Any]) -> NDArray[Any]:
        return values[rows].reshape(count - first, size, *values.shape[1:])

    folded = {name: fold(values) for name, values in measured(part).items()}
    mean = {name: values.mean(axis=0) for name, values in folded.items()}
    spread = np.sqrt(np.mean((folded["q"] - mean["q"]) ** 2, axis=(0, 1)))
    if np.any(spread > 0.05 * np.ptp(mean["q"], axis=0).max()):
        raise ShapeError(
            f"period: the motion does not repeat every {period:.6g} s (spread {spread.max():.3g})"
        )
    text = f"{count - first} periods of {period:.6g} s are averaged" + (
        "; the first is left out" * first
    )
    notices.append(AVERAGED(text, count=count - first, period=period))
    spread_of_tau = folded["tau"].std(axis=0, ddof=1) if "tau" in folded else None
    bridged = np.asarray(fold(part.bridged).any(axis=0))
    t = part.t[first * size : (first + 1) * size]
    return replace(
        part, **mean, t=t, bridged=bridged, telemetry={}, periodic=True, tau_std=spread_of_tau
    )
