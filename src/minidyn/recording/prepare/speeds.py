"""Whether speeds are those that were logged, or those of positions.

Both pass the same low-pass. Logged speeds may come from a filter of the drive: they must agree with
those of positions in scale and time. What is left of the difference is noise of one or the other:
with accelerations a of positions and b of logged speeds, whose noise is independent,

    noise of a: <a, a - b>,    noise of b: <b, b - a>.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minidyn.notices import Notice, info
from minidyn.recording.prepare.preparation import Processing
from minidyn.recording.prepare.process import process
from minidyn.recording.prepare.segments import Segment
from minidyn.recording.prepare.spectra import MIN_MOTION, SHORT, acceleration_noise

MAX_NOISE = 0.05
"""Of the accelerations, median of joints: what makes them noisier is not used as it is."""
MAX_SPEED_ERROR = 0.02
"""Of the speeds, by scale and lag: logged ones that are off by more are another signal."""
MAX_NOISE_SHARE = 0.5
"""Of the noise of positions that logged speeds may have to be clearly quieter."""

LOGGED_SPEEDS = info(
    "prepare.logged_speeds",
    "Logged speeds are used, and accelerations are their differences: positions are noisier.",
    "`differentiate` of md.prepare, or in a settings or study file, decides instead.",
)


def chosen_speeds(
    parts: Sequence[Segment], settings: Processing, notices: list[Notice]
) -> Processing:
    """Return settings that say where speeds come from: as asked, or as the data show.

    Logged speeds are taken where positions make accelerations noisy and they do so clearly less.
    """
    if settings.differentiate is not None:
        return settings
    of_positions = replace(settings, differentiate=True)
    if any(part.dq is None for part in parts) or not noise_of(parts, settings.cutoff) > MAX_NOISE:
        return of_positions
    error, noise, speed_noise = _compared(parts, settings)
    if not (error < MAX_SPEED_ERROR and speed_noise < MAX_NOISE_SHARE * noise):
        return of_positions
    text = (
        f"logged speeds are used: their accelerations have {100 * speed_noise:.2g} % noise, those "
        f"of positions {100 * noise:.2g} %"
    )
    data = {"error": error, "noise": speed_noise, "position_noise": noise}
    notices.append(LOGGED_SPEEDS(text, **data))
    return replace(settings, differentiate=False)


def noise_of(parts: Sequence[Segment], cutoff: float, differentiate: bool | None = True) -> float:
    """Return the noise of accelerations below a cut-off, Hz, over their size, median of joints.

    Of positions or, `differentiate=False`, of logged speeds; short parts show their ends.
    """
    longest = max(len(part.q) for part in parts)
    noise = [
        acceleration_noise(part.q, part.rate, cutoff, 2)
        if differentiate or part.dq is None
        else acceleration_noise(part.dq, part.rate, cutoff, 1)
        for part in parts
        if len(part.q) >= SHORT * longest
    ]
    every = np.concatenate(noise)
    return float(np.median(every)) if len(every) else 0.0


def _compared(parts: Sequence[Segment], settings: Processing) -> tuple[float, float, float]:
    """Return by how much logged speeds are off, the largest of moving joints over the speeds, and
    the noise of accelerations of positions and of logged speeds, medians over the accelerations.
    """
    sums = np.zeros((6, parts[0].q.shape[1]))
    for part in parts:
        margin, alone = settings.margin(part.rate), replace(part, tau=None, telemetry={})
        rows = slice(margin, max(margin, len(part.q) - margin))
        positions, logged = (
            process(alone, replace(settings, differentiate=way), rows) for way in (True, False)
        )
        v, a, b = logged["dq"], positions["ddq"], logged["ddq"]
        off = positions["dq"] - v
        pairs = (v, v), (b, b), (off, v), (off, b), (a, a - b), (b, b - a)
        sums += [np.sum(one * other, axis=0) for one, other in pairs]
    moves = (sums[0] > MIN_MOTION**2 * sums[0].max()) & (sums[1] > 0)
    if not moves.any():
        return math.inf, 0.0, 0.0
    power, change, scale, lag, *noise = sums[:, moves]
    error = math.sqrt(np.max((scale**2 / power + lag**2 / change) / power))
    medians = np.median(np.sqrt(np.maximum(noise, 0.0) / change), axis=1)
    return error, float(medians[0]), float(medians[1])
