"""By how much torques scatter about a model: those of the fitted log, and by noise of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.functions import inertias_of_links, torques_by_parts
from minidyn.dynamics.record import STATES
from minidyn.identification.rows.base_rows import remembering
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.signals import noise_gain
from minidyn.recording.recording import SIGNALS, Recording

SCATTER = "torque_std"
"""Setting of an estimate.

Standard deviations (n,) of "measured" and of "low_passed" torques about its model.
"""

_POSITIONS = 50  # size: positions at which inertias are looked at
# size: samples, enough to see how torques scatter; of logs on disk, in so many stretches
_LOOKED_AT, _STRETCHES = 20_000, 8


def noise_torque(robot: Robot, recording: AnyRecording, q: Array, parameters: Array) -> Array:
    """Return the torque (n,), N m or N, that noise of positions makes of the robot's links by the
    accelerations.

    Root mean squares, at some of the positions q (N, n), for parameters (p,), NaN where unknown;
    zeros where it is not known how the recording was prepared.
    """
    about: Any = recording.info
    known = ("differentiated", "position_noise", "logged_rate", "cutoff", "order")
    if not all(about.get(name) for name in known):
        return np.zeros(robot.n)
    gain = noise_gain(about["logged_rate"], about["cutoff"], about["order"])[2, 2]
    M = inertias_of_links(robot, q[:: -(-len(q) // _POSITIONS)], np.nan_to_num(parameters))
    return np.asarray(np.sqrt(np.mean(M**2 @ (gain * np.square(about["position_noise"])), axis=0)))


def torque_scatter(
    recording: AnyRecording,
    low: Robot,
    whole: Robot,
    sigma: Array,
    spent: int,
    drifts: bool = False,
    held_out: Array | float = 1.0,
) -> dict[str, Any]:
    """Return, as a setting, by how much torques of the fitted recording scatter about the model
    (n,), N m or N.

    A measured torque has what the low-pass of the preparation takes off: noise, and sharp friction
    and ripple, which the model has, too, as far as it knows them. So both residuals are looked at:
    measured torque less that of the model (`whole`), and low-passed torque less that of the model
    seen through the low-pass (`low`); so many parameters are `spent` on them, and spikes do not
    count. Both variances grow by what `held_out` stretches of the fit have over residuals, which is
    slow, so that the low-pass takes nothing off it. Where friction drifts between logs, the
    residual with the friction of each is `sigma`, and what both residuals with the mean differ by
    is added to it. Of logs on disk, measured torques are not kept: what the low-pass takes off some
    stretches (`torque_noise`) is added, less what the model has of it.
    Nothing is known, {}, where torques came low-passed.
    """
    about: Any = recording.info
    above = about.get("torque_noise")
    some = recording
    if not isinstance(some, Recording):
        some = some.spread(_STRETCHES, _LOOKED_AT // _STRETCHES).load()
    known = remembering(whole, some).thinned(max(1, len(some) // _LOOKED_AT))
    raw = known.telemetry.get("tau_raw", None if "cutoff" in about else known.tau)
    if known.ddq is None or (raw is None and above is None):
        return {}
    good = np.flatnonzero(known.telemetry.get("outlier", np.zeros(len(known))) == 0.0)
    q, dq, ddq, tau = (np.asarray(getattr(known, name))[good] for name in SIGNALS)
    states = known.telemetry.get(STATES)
    states = None if states is None else states[good]
    model, shown = torques_by_parts((whole, low), q, dq, ddq, states)

    def squares(values: Array) -> Array:
        return np.asarray(np.mean(values**2, axis=0))

    if raw is None:
        more = np.maximum(np.square(above) - squares(model - shown), 0.0)
        return {
            SCATTER: {
                "measured": np.sqrt(held_out * sigma**2 + more),
                "low_passed": np.sqrt(held_out) * sigma,
            }
        }
    free = len(recording) / max(1.0, len(recording) - spent / len(sigma))
    measured, smooth = free * squares(raw[good] - model), free * squares(tau - shown)
    if drifts:
        measured, smooth = np.maximum(sigma**2 + measured - smooth, 0.0), sigma**2
    measured, smooth = measured + (held_out - 1.0) * smooth, held_out * smooth
    measured = measured + squares(
        known.telemetry.get("tau_std", np.zeros_like(tau))
    )  # over periods that were averaged
    return {SCATTER: {"measured": np.sqrt(measured), "low_passed": np.sqrt(smooth)}}
