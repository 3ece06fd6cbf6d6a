"""Even stretches of a run, and what preparation does to one.

Positions are unwrapped, times judged (`times.py`), gaps cut, short holes bridged, periods averaged;
then spikes are bridged, positions and torques filtered, speeds and accelerations taken from
positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import concatenate
from minidyn.recording.prepare.preparation import Preparation
from minidyn.recording.prepare.signals import (
    Band,
    FitCutoff,
    acceleration_noise,
    derivatives,
    lowpass,
    position_bands,
    spikes,
)
from minidyn.recording.prepare.times import UNWRAPPED, even_times, spread, timed, unwrapped
from minidyn.recording.recording import LARGEST, SIGNALS, Recording, each_array

_LOST = "Samples were lost while recording; check the logger if there are many."
GAPS = info("prepare.gaps", "The recording was cut where its times have gaps.", _LOST)
HOLES = info(
    "prepare.holes", "The recording was cut where many values in a row are not numbers.", _LOST
)
HOLES_BRIDGED = info("prepare.holes_bridged", "Short holes were bridged by straight lines.", _LOST)
NOT_ONE_WHOLE = warning(
    "prepare.no_whole_sample", "A run has not one sample without NaN; it was left out.", _LOST
)
COPIES = info(
    "prepare.copies", "Samples that repeat time and values of the one before were left out."
)
AVERAGED = info("prepare.averaged", "The periods of a periodic motion were averaged into one.")
CUTOFF = info("prepare.cutoff", "The cut-off of the low-pass that positions and torques passed.")

DEFAULT_CUTOFF_HZ = 10.0
"""Of one cut-off for all logs the best on other recordings of real robots (docs/real-logs.md)."""
MIN_CUTOFF_HZ = 2.5
"""The lowest that noise asks for: arms move up to about half a hertz."""
MAX_NOISE = 0.05
"""Noise over size of the accelerations, median of joints, beyond which a lower cut-off is taken."""
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

_HOLE = 5  # longest hole in samples that is bridged
# s: gaps of so long, and of so many samples as a hole, are interpolated where the rest is, too
_BRIDGE = 0.02
GAP = 2.5
"""Steps: a longer one is a gap."""

SHORTEST = 20
"""Samples: a shorter stretch is left out."""
_ROUNDING = 1e-6  # a rate computed from times misses a whole number by less


@dataclass(frozen=True)
class Processing:
    """Everything that decides what preparation does to a sample."""

    cutoff: float  # Hz; 0: not known yet
    order: int
    decimate: int | None
    differentiate: bool
    trim: bool
    outliers: float  # robust standard deviations; 0: spikes are kept
    period: float | None
    rate: float | None
    resample: float | None
    time: str

    @classmethod
    def of(cls, asked: Preparation) -> Processing:
        """Return what is asked for."""
        values = {one.name: getattr(asked, one.name) for one in fields(cls)}
        return cls(
            **values | {"cutoff": asked.cutoff or 0.0, "outliers": float(asked.outliers or 0)}
        )

    def every(self, rate: float) -> int:
        """Return how many samples become one: at least ten remain per period of the cut-off."""
        if self.decimate is not None:
            return self.decimate
        return max(1, int(rate / (10 * self.cutoff) + _ROUNDING))

    def margin(self, rate: float) -> int:
        """Return the samples at either end that the filter's start spoils.

        One period of the cut-off.
        """
        return max(8, math.ceil(rate / self.cutoff - _ROUNDING))


@dataclass(frozen=True)
class Segment:
    """Samples at one rate without holes."""

    t: Array  # times (N,), s, as logged (or of the new samples)
    rate: float  # samples per second
    q: Array  # positions (N, n)
    dq: Array | None  # measured speeds (N, n)
    tau: Array | None  # measured torques (N, n)
    bridged: NDArray[np.bool_]  # samples (N,) that were not measured
    telemetry: Mapping[str, Array]  # further signals
    periodic: bool = False  # whether it is exactly one period
    tau_std: Array | None = None  # spread of the torque over averaged periods (N, n)


def even_stretches(run: Recording, wish: Processing, notices: list[Notice]) -> list[Segment]:
    """Return the even stretches of one run, resampled where its samples are truly uneven."""
    if len(run) < 2:
        return [_segment(run, 1.0)] if len(run) else []
    q, turned = unwrapped(run.q)
    if turned:
        run = replace(run, q=q)
        names = [run.joint_names[joint] for joint in turned]
        text = f"positions of {', '.join(names)} jump by 2π: they are unwrapped"
        notices.append(UNWRAPPED(text, joints=names))
    if wish.rate is not None:
        run = each_array(run, np.asarray, t=run.t[0] + np.arange(len(run)) / float(wish.rate))
        if wish.resample is None:
            return _bridged(run, float(wish.rate), notices)
    run = _without_copies(spread(run, wish.time, notices), notices)
    if len(run) < 2:
        return [_segment(run, 1.0)]
    run, rate = timed(run, wish.time if wish.rate is None else "stamps", wish.resample, notices)
    steps = np.diff(run.t)
    step = float(np.median(steps))
    gap = GAP * step if rate is None else max(GAP * step, min(_BRIDGE, (_HOLE + 1.5) * step))
    cuts = (np.flatnonzero(steps > gap) + 1).tolist()
    if cuts:
        text = f"{len(cuts)} gaps in time: the run is cut there, nothing is filtered across them"
        notices.append(GAPS(text, count=len(cuts)))
    made: list[Segment] = []
    for begin, end in zip((0, *cuts), (*cuts, len(run))):
        piece = run[begin:end]
        if rate is not None:
            made += _bridged(_resampled(piece, rate), rate, notices)
        else:
            length = float(piece.t[-1] - piece.t[0])
            if length == 0:  # a clock that stands still shows one sample
                piece = piece[:1]
            rate_here = (len(piece) - 1) / length if len(piece) > 2 else 1 / step
            made += _bridged(piece, rate_here, notices)
    return made


def _without_copies(run: Recording, notices: list[Notice]) -> Recording:
    """Leave out samples that repeat both time and values of the one before."""
    at = np.flatnonzero(np.diff(run.t) == 0) + 1  # few: of them alone positions are looked at
    copies = at[np.all(run.q[at] - run.q[at - 1] == 0, axis=1)]
    if not len(copies):
        return run
    notices.append(
        COPIES(f"{len(copies)} samples repeat the one before and are left out", count=len(copies))
    )
    return each_array(
        run, lambda array: np.delete(array, copies, axis=0), t=np.delete(run.t, copies)
    )


def _segment(run: Recording, rate: float) -> Segment:
    return Segment(
        run.t, rate, run.q, run.dq, run.tau, np.zeros(len(run), dtype=bool), run.telemetry
    )


def _bridged(run: Recording, rate: float, notices: list[Notice]) -> list[Segment]:
    """Return the stretches between long holes of values that are no numbers.

    Short holes are filled by lines. A rate that no logger has is refused.
    """
    if not rate <= LARGEST["rate"]:
        raise DescriptionError(
            f"t: {rate:.3g} samples a second, more than any logger takes; correct the times or "
            "their unit (time_unit=, --time-unit), or give rate=HZ (--rate)"
        )
    looked = (
        np.isfinite(values.sum()) or np.isfinite(values).all(axis=1)
        for values in _measured(run).values()
    )
    whole = np.all(np.broadcast_arrays(*looked), axis=0)  # a sum is quick
    if whole.all():
        return [_segment(run, rate)]
    if not whole.any():
        notices.append(NOT_ONE_WHOLE("a run without one whole sample is left out"))
        return []
    edges = np.flatnonzero(np.diff(np.concatenate([[True], whole, [True]])))
    holes = list(zip(edges[::2].tolist(), edges[1::2].tolist()))
    long = [
        (low, high) for low, high in holes if high - low > _HOLE or low == 0 or high == len(whole)
    ]
    short = len(holes) - len(long)
    if short:
        text = f"{short} holes of up to {_HOLE} samples that are no numbers are bridged by lines"
        notices.append(HOLES_BRIDGED(text, count=short))
    if long:
        text = (
            f"{len(long)} holes of values that are no numbers cut the run; nothing is filtered "
            "across them"
        )
        notices.append(HOLES(text, count=len(long)))
    bounds = [0, *(edge for hole in long for edge in hole), len(whole)]
    made = []
    for low, high in zip(bounds[::2], bounds[1::2]):
        if low < high:
            part = run[low:high]
            filled = {
                name: _on_lines(values, np.isfinite(values))
                for name, values in _measured(part).items()
            }
            made.append(replace(_segment(part, rate), bridged=~whole[low:high], **filled))
    return made


def _measured(part: Recording | Segment) -> dict[str, Any]:
    """Return those of q, dq and tau that there are."""
    return {
        name: getattr(part, name) for name in ("q", "dq", "tau") if getattr(part, name) is not None
    }


def _on_lines(values: Array, good: NDArray[np.bool_]) -> Any:
    """Return the values (N, n) with those that are not good replaced by the line between their
    neighbours.
    """
    made, rows = values.copy(), np.arange(len(values))
    for joint in np.flatnonzero(~good.all(axis=0)):
        here = good[:, joint]
        made[~here, joint] = np.interp(rows[~here], rows[here], values[here, joint])
    return made


def _resampled(run: Recording, rate: float) -> Recording:
    """Return the run at even times: positions by a cubic spline, the rest by lines."""
    from scipy.interpolate import CubicSpline  # rarely needed, and slow to import

    keep = np.concatenate([[True], np.diff(run.t) > 0]) & np.all(np.isfinite(run.q), axis=1)
    run = each_array(run, lambda array: array[keep], t=run.t[keep])
    if len(run) < 4:
        return run
    t = even_times(run, rate)

    def lines(values: Array) -> Array:
        flat = values.reshape(len(values), -1)
        made = np.column_stack([np.interp(t, run.t, column) for column in flat.T])
        return made.reshape(len(t), *values.shape[1:])

    made: dict[str, Any] = {"tau": None} | {
        name: lines(values) for name, values in _measured(run).items()
    }
    made["q"] = CubicSpline(run.t, run.q)(t)
    telemetry = {name: lines(values) for name, values in run.telemetry.items()}
    return Recording(t, **made, joint_names=run.joint_names, telemetry=telemetry)


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

    folded = {name: fold(values) for name, values in _measured(part).items()}
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
    cutoff = wish.cutoff or min(_quiet_cutoff(parts), MAX_CUTOFF_SHARE * slowest)
    given = bool(wish.cutoff) and not isinstance(wish.cutoff, FitCutoff)
    whose = "as given" if given else "as for the fit" if wish.cutoff else "the default"
    if not wish.cutoff and cutoff < DEFAULT_CUTOFF_HZ:
        whose = "lower than the default because positions are noisy"
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
    return replace(wish, cutoff=cutoff), band


def _quiet_cutoff(parts: Sequence[Segment]) -> float:
    """Return the default cut-off, Hz, lower by factors of √2 as long as accelerations are noisy."""
    longest = max(len(part.q) for part in parts)
    long = [part for part in parts if 4 * len(part.q) >= longest]  # short pieces show their ends
    cutoff = DEFAULT_CUTOFF_HZ
    while cutoff > 1.01 * MIN_CUTOFF_HZ:
        noise = np.concatenate([acceleration_noise(part.q, part.rate, cutoff) for part in long])
        if not len(noise) or not np.median(noise) > MAX_NOISE:
            return cutoff
        cutoff /= math.sqrt(2.0)
    return MIN_CUTOFF_HZ


def process(part: Segment, settings: Processing, rows: slice = slice(None)) -> dict[str, Array]:
    """Return t, q, dq, ddq, tau, tau_raw and the marks of bridged samples, of the wanted rows of
    the segment.
    """
    q, marked = _clean(part.q, settings)
    marked |= part.bridged
    filtered = lowpass(q, part.rate, settings.cutoff, settings.order, part.periodic)
    if settings.differentiate:
        first, second = derivatives(filtered, 1 / part.rate, part.periodic, rows)
    else:
        if part.dq is None:
            raise MinidynError("differentiate=False uses measured speeds; the recording has none")
        speeds, wrong = _clean(part.dq, settings)
        marked |= wrong
        smooth = lowpass(speeds, part.rate, settings.cutoff, settings.order, part.periodic)
        first, second = smooth[rows], derivatives(smooth, 1 / part.rate, part.periodic, rows)[0]
    made = {"t": part.t[rows], "q": filtered[rows], "dq": first, "ddq": second}
    if part.tau is not None:
        tau, wrong = _clean(part.tau, settings)
        marked |= wrong
        made["tau"] = lowpass(tau, part.rate, settings.cutoff, settings.order, part.periodic)[rows]
        made["tau_raw"] = part.tau[rows]
    if part.tau_std is not None:
        made["tau_std"] = part.tau_std[rows]
    made["outlier"] = marked[rows].astype(float)
    kept = {
        name: values[rows]
        for name, values in part.telemetry.items()
        if name not in made or name == "tau_raw"
    }
    return made | kept


def _clean(values: Array, settings: Processing) -> tuple[Array, NDArray[np.bool_]]:
    """Return the values with spikes replaced by the line between their neighbours, and where they
    were (N,).
    """
    found = (
        spikes(values, settings.outliers)
        if settings.outliers
        else np.zeros(values.shape, dtype=bool)
    )
    return _on_lines(values, ~found) if found.any() else values, np.asarray(found.any(axis=1))


def recording_of(arrays: Mapping[str, Array], joint_names: Sequence[str], **more: Any) -> Recording:
    """Return arrays as `process` makes them as a recording; what is no signal becomes telemetry."""
    rest: dict[str, Any] = dict(arrays)
    signals = {name: rest.pop(name, None) for name in ("t", *SIGNALS)}
    return Recording(**signals, joint_names=joint_names, telemetry=rest, prepared=True, **more)


def facts(
    settings: Processing, band: Band, parts: Sequence[Segment], used: int, logged: float
) -> dict[str, object]:
    """Return what was done, as numbers; `logged` is the rate of the log, samples per second."""
    return {
        "cutoff": float(settings.cutoff),
        "order": settings.order,
        "rate": parts[0].rate,
        "logged_rate": logged,
        "decimate": settings.every(parts[0].rate),
        "motion_band": band.motion,
        "noise_frequency": band.noise,
        "position_noise": tuple(band.floor.tolist()),
        "samples": used,
        "differentiated": settings.differentiate,
        "time": settings.time,
        **{name: getattr(settings, name) for name in ("trim", "outliers", "period", "resample")},
    }


def late(
    arrays: Mapping[str, Array], delay: float, periodic: bool = False
) -> tuple[dict[str, Array], int, int]:
    """Return what was prepared of a run with its torques moved back by a delay, s, and between
    which samples they are.

    Filtered torques are smooth between samples. What a measured torque differs from them by is
    noise, which is not interpolated: that would make it smaller, and the model look better.
    """
    from scipy.interpolate import CubicSpline  # rarely needed, and slow to import

    t, tau = arrays["t"], arrays["tau"]
    if not np.all(np.diff(t) > 0):
        raise DescriptionError(
            "a delay cannot be removed: samples have equal times (the time column lacks digits)"
        )
    noise = arrays.get("tau_raw", tau) - tau
    if periodic:
        step = (t[-1] - t[0]) / (len(t) - 1)
        long = np.concatenate([tau, tau, tau])
        moved = CubicSpline(t[0] + step * np.arange(-len(t), 2 * len(t)), long)(t + delay)
        shift = round(delay / step)
        made = {**arrays, "tau": moved}
        return (
            made
            | ({"tau_raw": moved + np.roll(noise, -shift, axis=0)} if "tau_raw" in arrays else {}),
            0,
            len(t),
        )
    inside = np.flatnonzero((t + delay >= t[0]) & (t + delay <= t[-1]))
    if not len(inside):
        return dict(arrays), 0, 0
    begin, end = int(inside[0]), int(inside[-1]) + 1
    moved = tau.copy()
    moved[begin:end] = CubicSpline(t, tau)(t[begin:end] + delay)
    made = {**arrays, "tau": moved}
    if "tau_raw" in arrays:
        near = np.clip(
            np.searchsorted(t, t + delay - 0.5 * float(np.median(np.diff(t)))), 0, len(t) - 1
        )
        made["tau_raw"] = moved + noise[near]
    return made, begin, end


def moved_torques(data: Recording, delay: float) -> Recording:
    """Return a prepared recording with its torques moved back by a delay, s.

    Ends without a torque are left out.
    """
    runs = []
    for run in data.runs:
        arrays = {"t": run.t, "tau": np.asarray(run.tau)}
        arrays |= {"tau_raw": run.telemetry["tau_raw"]} if "tau_raw" in run.telemetry else {}
        made, begin, end = late(arrays, delay)
        more = {name: made[name] for name in ("tau_raw",) if name in made}
        if end - begin >= SHORTEST:
            runs.append(
                replace(run, tau=made["tau"], telemetry={**run.telemetry, **more})[begin:end]
            )
    whole = runs[0] if len(runs) == 1 else concatenate(runs) if runs else data[:0]
    return replace(whole, info={**data.info, "delay": delay}, notices=data.notices)
