"""What preparation does to an even stretch.

Spikes are bridged, positions and torques filtered, speeds and accelerations taken from positions,
or from logged speeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.prepare.preparation import Processing
from minidyn.recording.prepare.segments import Segment, on_lines
from minidyn.recording.prepare.signals import derivatives, spikes
from minidyn.recording.prepare.spectra import Band
from minidyn.recording.recording import SIGNALS, Recording


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
    return on_lines(values, ~found) if found.any() else values, np.asarray(found.any(axis=1))


def recording_of(arrays: Mapping[str, Array], joint_names: Sequence[str], **more: Any) -> Recording:
    """Return arrays as `process` makes them as a recording; what is no signal becomes telemetry."""
    rest: dict[str, Any] = dict(arrays)
    signals = {name: rest.pop(name, None) for name in ("t", *SIGNALS)}
    return Recording(**signals, joint_names=joint_names, telemetry=rest, prepared=True, **more)


def cutoff_period(info: Mapping[str, object]) -> float:
    """Return the samples of a period of the cut-off that a recording passed; 0: it is not known."""
    cutoff, rate, every = (info.get(key) for key in ("cutoff", "rate", "decimate"))
    if not (isinstance(cutoff, float) and isinstance(rate, float) and isinstance(every, int)):
        return 0.0
    return rate / every / cutoff


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
        "position_noise": tuple(band.floor.tolist()),
        "samples": used,
        "differentiated": settings.differentiate is not False,
        "time": settings.time,
        **{name: getattr(settings, name) for name in ("trim", "outliers", "period", "resample")},
    }
