"""Even stretches of a run, and what preparation does to one.

Positions are unwrapped, times judged (`times.py`), gaps cut and short holes bridged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.notices import Notice, info, warning
from minidyn.recording.prepare.preparation import Processing
from minidyn.recording.prepare.times import GAP, even_times, spread, timed
from minidyn.recording.prepare.unwrap import UNWRAPPED, unwrapped
from minidyn.recording.recording import LARGEST, Recording, each_array

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

MAX_HOLE = 5  # samples: a longer hole cuts the run
SHORTEST = 20
"""Size: samples; a shorter stretch is left out."""


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
    gap = step * (GAP if rate is None else MAX_HOLE + 1.5)  # interpolated as the rest is
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
        for values in measured(run).values()
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
        (low, high)
        for low, high in holes
        if high - low > MAX_HOLE or low == 0 or high == len(whole)
    ]
    short = len(holes) - len(long)
    if short:
        text = f"{short} holes of up to {MAX_HOLE} samples that are no numbers are bridged by lines"
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
                name: on_lines(values, np.isfinite(values))
                for name, values in measured(part).items()
            }
            made.append(replace(_segment(part, rate), bridged=~whole[low:high], **filled))
    return made


def measured(part: Recording | Segment) -> dict[str, Any]:
    """Return those of q, dq and tau that there are."""
    return {
        name: getattr(part, name) for name in ("q", "dq", "tau") if getattr(part, name) is not None
    }


def on_lines(values: Array, good: NDArray[np.bool_]) -> Any:
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
        name: lines(values) for name, values in measured(run).items()
    }
    made["q"] = CubicSpline(run.t, run.q)(t)
    telemetry = {name: lines(values) for name, values in run.telemetry.items()}
    return Recording(t, **made, joint_names=run.joint_names, telemetry=telemetry)
