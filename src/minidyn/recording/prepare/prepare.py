"""From a raw log to q, dq, ddq and tau that a model can be fitted to: `prepare`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, ShapeError, Unsupported
from minidyn.model.robot import Robot
from minidyn.notices import Notice, kind
from minidyn.recording.lazy import AnyRecording, LazyRecording, concatenate
from minidyn.recording.prepare.on_disk import prepare_on_disk
from minidyn.recording.prepare.segments import (
    KEPT,
    SHORTEST,
    Segment,
    Settings,
    averaged,
    facts,
    process,
    segments,
    settled,
)
from minidyn.recording.prepare.signals import moving_part
from minidyn.recording.recording import Recording

DELAY = kind("prepare.delay", "info", "Torques were moved in time by the given delay.")
TOO_SHORT = kind(
    "prepare.too_short",
    "look",
    "Pieces of the recording are too short to be filtered and were left out.",
    "Record longer runs, or check why the log is in pieces.",
)
SPIKES = kind(
    "prepare.spikes",
    "look",
    "Single wild values, and short holes, were replaced by the line between their neighbours.",
    "Many of them point to a loose cable or a broken sensor.",
)

_Kind = TypeVar("_Kind", bound=AnyRecording)
_SPIKE = 12.0


def prepare(
    robot: Robot,
    recording: _Kind,
    cutoff: float | None = None,
    *,
    order: int = 4,
    decimate: int | None = None,
    differentiate: bool = True,
    trim: bool = True,
    outliers: float | bool | None = None,
    period: float | None = None,
    rate: float | None = None,
    resample: float | None = None,
    delay: float = 0.0,
) -> _Kind:
    """Return a recording with q, dq and ddq filtered and differentiated without delay, and tau filtered alike.

    Run by run: spikes and short holes are bridged, gaps cut a run in two, positions and torques pass the same
    zero-phase low-pass, speeds and accelerations are differences of the filtered positions, the ends that the filter
    spoils and standstill before and after the motion are cut off, and the rest is thinned to ten samples per period of
    the cut-off. What was done stands in `notices`, and as numbers in `info`.

    Args:
        robot: Whose recording it is.
        recording: As read; a lazy one stays on disk and is prepared tile by tile (its standstill is kept).
        cutoff: Of the low-pass, Hz; None: from the spectra, see `choose_cutoff`.
        order: Of the Butterworth filter, which passes twice.
        decimate: Keep every so many samples; None: as many as the cut-off allows; 1: all.
        differentiate: True: dq and ddq from q. False: the measured dq is filtered, and ddq is its derivative.
        trim: Cut off spoiled ends and standstill; False keeps every sample.
        outliers: Spikes stand out by so many robust standard deviations; None: 12; False: they are kept.
        period: Of a periodic motion, s: whole periods are averaged into one.
        rate: Samples per second, where times jitter but samples do not.
        resample: Interpolate to so many samples per second, where samples are truly uneven.
        delay: Seconds that torques are late against positions (`md.identify` tells where they seem so): they are moved
            back; negative: early.

    Returns:
        A recording; telemetry "tau_raw" is the measured torque at the same instants, "outlier" marks bridged samples
        (N,), and with `period` "tau_std" is the spread of the torque over the periods.

    Raises:
        DescriptionError: Times are too uneven, or no run is long enough.
        ShapeError: An option that makes no sense.
    """
    if recording.n != robot.n:
        raise ShapeError(f"the recording has {recording.n} joints, robot {robot.name!r} has {robot.n}")
    for name, value in (("cutoff", cutoff), ("period", period), ("rate", rate), ("resample", resample)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ShapeError(f"{name}: expected a number above 0, got {value!r}")
    if decimate is not None and (not isinstance(decimate, int) or decimate < 1):
        raise ShapeError(f"decimate: expected a whole number from 1, got {decimate!r}")
    if not isinstance(order, int) or not 1 <= order <= 10:
        raise ShapeError(f"order: expected 1 to 10, got {order!r}")
    if not (isinstance(delay, int | float) and math.isfinite(delay)):
        raise ShapeError(f"delay: expected a number of seconds, got {delay!r}")
    strength = _SPIKE if outliers is None or outliers is True else float(outliers)
    wish = Settings(cutoff or 0.0, order, decimate, differentiate, trim, strength, period, rate, resample)
    if isinstance(recording, LazyRecording):
        if delay:
            raise Unsupported("delay= needs the whole recording: prepare(robot, recording.load(), delay=...)")
        return cast(_Kind, prepare_on_disk(recording, wish))
    return cast(_Kind, _in_memory(_without_delay(recording, delay), wish, float(delay)))


def _in_memory(recording: Recording, wish: Settings, delay: float) -> Recording:
    notices = [DELAY(f"torques are moved by {1e3 * delay:.4g} ms, as given", delay=delay)] if delay else []
    parts = [part for run in recording.runs for part in segments(run, wish, notices)]
    whole = [part for part in parts if len(part.q) >= SHORTEST]
    if len(whole) < len(parts):
        lost = sum(len(part.q) for part in parts) - sum(len(part.q) for part in whole)
        text = f"{len(parts) - len(whole)} pieces shorter than {SHORTEST} samples are left out ({lost} samples)"
        notices.append(TOO_SHORT(text, count=len(parts) - len(whole), samples=lost))
    if not whole:
        raise DescriptionError(f"no run has {SHORTEST} samples in a row; {len(recording)} samples in all")
    if wish.period is not None:
        whole = [averaged(part, wish.period, notices) for part in whole]
    settings, band = settled(whole, wish, notices)
    made, marked, dropped = [], 0, 0
    for part in whole:
        arrays = process(part, settings)
        begin, end = _kept(arrays["dq"], part, settings)
        if end - begin < SHORTEST:
            dropped += 1
            continue
        keep = slice(begin, end, settings.every(part.rate))
        marked += int(arrays["outlier"].sum())
        made.append({name: values[keep] for name, values in arrays.items()})
    if dropped:
        text = f"{dropped} pieces are too short for a filter of {settings.cutoff:.4g} Hz and are left out"
        notices.append(TOO_SHORT(text, count=dropped, cutoff=settings.cutoff))
    if not made:
        raise DescriptionError(
            f"no run is longer than the ends that a filter of {settings.cutoff:.4g} Hz spoils; give a higher cutoff or "
            "trim=False"
        )
    used = sum(len(arrays["t"]) for arrays in made)
    step = settings.every(whole[0].rate)
    every = f", one in {step}" if step > 1 else ""
    notices.append(
        KEPT(f"{used} of {len(recording)} samples are kept{every}", samples=used, of=len(recording), step=step)
    )
    if marked:
        text = f"{marked} samples were spikes or holes and are bridged (telemetry outlier)"
        notices.append(SPIKES(text, count=marked))
    info = facts(settings, band, whole, used) | ({"delay": delay} if delay else {})
    return _joined(made, recording, (*recording.notices, *notices), info)


def _kept(dq: Array, part: Segment, settings: Settings) -> tuple[int, int]:
    if not settings.trim or part.periodic:
        return 0, len(dq)
    margin = settings.margin(part.rate)
    begin, end = moving_part(dq, part.rate)
    return max(begin, margin), min(end, len(dq) - margin)


def _joined(
    made: Sequence[dict[str, Array]], recording: Recording, notices: Sequence[Notice], info: dict[str, object]
) -> Recording:
    starts = np.cumsum([0, *(len(arrays["t"]) for arrays in made[:-1])]).tolist()
    whole = {name: np.concatenate([arrays[name] for arrays in made]) for name in made[0]}
    return Recording(
        whole.pop("t"),
        whole.pop("q"),
        whole.pop("tau", None),
        dq=whole.pop("dq"),
        ddq=whole.pop("ddq"),
        joint_names=recording.joint_names,
        starts=starts,
        telemetry=whole,
        notices=tuple(dict.fromkeys(notices)),
        info=info,
    )


def _without_delay(recording: Recording, delay: float) -> Recording:
    """Return the recording with each torque moved to the time it belongs to.

    Args:
        recording: With torques.
        delay: Seconds that torques are late against positions; negative: early. Between samples lines are drawn;
            samples at the ends whose torque was not logged are left out.
    """
    if recording.tau is None or delay == 0:
        return recording
    runs = []
    for run in recording.runs:
        there = run.t + delay
        inside = np.flatnonzero((there >= run.t[0]) & (there <= run.t[-1]))
        if not len(inside):
            continue
        part = run[int(inside[0]) : int(inside[-1]) + 1]
        assert run.tau is not None  # noqa: S101 - every run has what the recording has
        tau = np.column_stack([np.interp(there[inside], run.t, column) for column in run.tau.T])
        runs.append(replace(part, tau=tau))
    return concatenate(runs) if runs else recording[:0]
