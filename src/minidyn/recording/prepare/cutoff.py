"""The cut-off of the low-pass: 10 Hz, lower where accelerations are noisy, or that of the fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minidyn.errors import ShapeError
from minidyn.notices import Notice, info
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.preparation import Processing
from minidyn.recording.prepare.segments import Segment
from minidyn.recording.prepare.spectra import Band, position_bands
from minidyn.recording.prepare.speeds import MAX_NOISE, chosen_speeds, noise_of
from minidyn.recording.prepare.times import HEAD, logged_rate

CUTOFF = info("prepare.cutoff", "The cut-off of the low-pass that positions and torques passed.")

DEFAULT_CUTOFF_HZ = 10.0
"""Of one cut-off for all logs the best on other recordings of real robots (docs/real-logs.md)."""
MIN_CUTOFF_HZ = 2.5
"""The lowest that noise asks for: arms move up to about half a hertz."""
MAX_CUTOFF_SHARE = 0.35
"""Of the sample rate: above it the stencils of derivatives are not exact."""
MIN_BANDS = 4.0
"""Cut-off over the core of the motion: below it the low-pass bends the motion."""
ADVISED_BANDS = 6.0
"""The same where a cut-off is advised: nothing of the motion is bent (1e-6)."""
FAST_MOTION = info(
    "prepare.fast_motion",
    "The motion is fast for the low-pass, which bends it.",
    "Compare the error on another log with --cutoff {cutoff:.2g} in the shell, cutoff={cutoff:.2g} "
    "in Python.",
)


class FitCutoff(float):
    """A cut-off that nobody gave: that of an earlier preparation."""


def settled(
    parts: Sequence[Segment], wish: Processing, notices: list[Notice]
) -> tuple[Processing, Band]:
    """Return the settings with a cut-off, the default where none is given, and the bands of the
    positions.
    """
    band = position_bands([part.q for part in parts], [part.rate for part in parts])
    slowest = min(part.rate for part in parts)
    if wish.cutoff >= 0.49 * slowest:
        raise ShapeError(
            f"cutoff: {wish.cutoff:.4g} Hz is not below half the sample rate, {slowest:.6g} Hz"
        )
    highest = min(DEFAULT_CUTOFF_HZ, MAX_CUTOFF_SHARE * slowest)
    settings = chosen_speeds(parts, replace(wish, cutoff=wish.cutoff or highest), notices)
    ways = {True, settings.differentiate}  # logged speeds never ask for a lower one than positions
    cutoff = wish.cutoff or max(_quiet_cutoff(parts, highest, way) for way in ways)
    given = bool(wish.cutoff) and not isinstance(wish.cutoff, FitCutoff)
    whose = "as given" if given else "as for the fit" if wish.cutoff else "the default"
    if not wish.cutoff and cutoff < highest:
        whose = "lower than the default because accelerations are noisy"
    text = (
        f"low-pass at {cutoff:.4g} Hz, {whose} (motion up to {band.motion:.3g} Hz; "
        f"order {wish.order}, zero phase)"
    )
    data = {"cutoff": float(cutoff), "given": given, "order": wish.order, "motion": band.motion}
    notices.append(CUTOFF(text, **data))
    advised = min(ADVISED_BANDS * band.core, MAX_CUTOFF_SHARE * slowest)
    if not wish.cutoff and MIN_BANDS * band.core > cutoff and advised > cutoff:
        text = f"the joints move up to {band.core:.2g} Hz, the low-pass has {cutoff:.3g} Hz"
        notices.append(FAST_MOTION(text, cutoff=advised, motion=band.core))
    return replace(settings, cutoff=cutoff), band


def _quiet_cutoff(parts: Sequence[Segment], highest: float, differentiate: bool | None) -> float:
    """Return the highest cut-off, Hz, in steps of √2, at which accelerations are not noisy."""
    cutoff = DEFAULT_CUTOFF_HZ
    while cutoff > 1.01 * MIN_CUTOFF_HZ and noise_of(parts, cutoff, differentiate) > MAX_NOISE:
        cutoff /= math.sqrt(2.0)
    return min(cutoff, highest)


def as_fitted(recording: AnyRecording, preparation: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of an earlier preparation for another recording of the same sample rate.

    Its cut-off, and where its speeds come from; nothing for a recording of another rate.
    """
    options: dict[str, Any] = {}
    if preparation:
        differentiate = preparation.get("differentiated", True) or "dq" not in recording.signals
        options["differentiate"] = bool(differentiate)
    cutoff = float(preparation.get("cutoff") or 0.0)
    rate = float(preparation.get("logged_rate") or preparation.get("rate") or 0.0)
    head = next(recording.tiles(HEAD), None) if cutoff else None
    if head is not None and rate and abs(logged_rate(head) / rate - 1) < 0.1:
        options["cutoff"] = FitCutoff(cutoff)
    return options
