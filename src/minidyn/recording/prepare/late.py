"""Torques moved in time, where they are late against positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.recording.lazy import concatenate
from minidyn.recording.prepare.segments import SHORTEST
from minidyn.recording.recording import Recording


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
    noise, begin, end = arrays.get("tau_raw", tau) - tau, 0, len(t)
    if periodic:
        step = (t[-1] - t[0]) / (len(t) - 1)
        long = t[0] + step * np.arange(-len(t), 2 * len(t))
        moved = CubicSpline(long, np.concatenate([tau, tau, tau]))(t + delay)
        noise = np.roll(noise, -round(delay / step), axis=0)
    else:
        inside = np.flatnonzero((t + delay >= t[0]) & (t + delay <= t[-1]))
        if not len(inside):
            return dict(arrays), 0, 0
        begin, end = int(inside[0]), int(inside[-1]) + 1
        moved = tau.copy()
        moved[begin:end] = CubicSpline(t, tau)(t[begin:end] + delay)
        near = np.searchsorted(t, t + delay - 0.5 * float(np.median(np.diff(t))))
        noise = noise[np.clip(near, 0, len(t) - 1)]
    raw = {"tau_raw": moved + noise} if "tau_raw" in arrays else {}
    return {**arrays, "tau": moved, **raw}, begin, end


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
