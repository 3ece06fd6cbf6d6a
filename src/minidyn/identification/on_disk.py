"""Recordings that stay on disk, made ready for identification and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import MinidynError, UnknownName
from minidyn.experiment.lazy import LazyRecording
from minidyn.experiment.prepare import prepare
from minidyn.experiment.recording import Recording
from minidyn.experiment.spool import spooled
from minidyn.identification.samples import Progress
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.identification.estimate import Estimate
    from minidyn.identification.validate import Validation

__all__ = ["STREAMED", "ready_on_disk", "validate_on_disk"]

Array = NDArray[np.float64]
STREAMED = frozenset({"ols", "wls", "irls"})
"""The methods that read a recording piece by piece; others take it into memory."""

_SHOWN = 100_000  # samples of a validation that are kept to be looked at


def ready_on_disk(
    robot: Robot, recording: LazyRecording, method: str, needs_ddq: bool, notices: list[str], progress: Progress | None
) -> LazyRecording | Recording:
    """Return a lazy recording in the robot's joint order with q, dq, ddq and tau.

    A raw one is prepared once, into a temporary file; a method that cannot read piece by piece gets it in memory.
    """
    ordered = in_robot_order(robot, recording)
    if "tau" not in ordered.signals:
        raise MinidynError("identification needs measured torques; the recording has none")
    raw = "dq" not in ordered.signals or ("ddq" not in ordered.signals and needs_ddq)
    if raw:
        ordered = prepare(robot, ordered)
        notices.append("the recording was prepared with default settings; see its own notices")
    notices += list(ordered.notices)
    if method not in STREAMED:
        notices.append(f'method "{method}" reads the whole recording into memory ({len(ordered)} samples)')
        return ordered.load()
    return spooled(ordered, progress) if raw else ordered


def in_robot_order(robot: Robot, recording: LazyRecording) -> LazyRecording:
    """Return the recording with its joints in the robot's order, where its names allow."""
    names = recording.joint_names
    if recording.n != robot.n:
        raise MinidynError(
            f"the recording has {recording.n} joints ({', '.join(names[:8])}), robot {robot.name!r} has {robot.n} "
            f"({', '.join(robot.joint_names[:8])})"
        )
    if names == robot.joint_names or not set(names) & set(robot.joint_names):
        return recording  # names of another kind: taken by position
    wrong = [name for name in names if name not in robot.joint_names]
    if wrong:  # some names fit, so the others are mistakes
        raise UnknownName(f"joint of robot {robot.name!r} in the recording:", wrong[0], robot.joint_names)
    return recording.reordered(robot.joint_names)


def validate_on_disk(estimate: Estimate, recording: LazyRecording) -> Validation:
    """Return the errors of an estimate over all samples of a lazy recording; of the series some samples are kept."""
    from minidyn.identification.validate import Validation

    ordered = in_robot_order(estimate.robot, recording)
    if "tau" not in ordered.signals:
        raise MinidynError("validation needs measured torques; the recording has none")
    if "dq" not in ordered.signals or "ddq" not in ordered.signals:
        ordered = prepare(estimate.robot, ordered)
    n, every = ordered.n, -(-len(ordered) // _SHOWN)
    count, before = 0, np.zeros((0, n))
    power, torque, echo = np.zeros(n), np.zeros(n), np.zeros(n)
    shown: list[tuple[Array, Array, Array]] = []
    for tile in ordered.tiles(1 << 15):
        measured = np.asarray(tile.telemetry.get("tau_raw", tile.tau), dtype=float)
        predicted = estimate.predict(tile)
        residual = measured - predicted
        power += np.einsum("ij,ij->j", residual, residual)
        torque += np.einsum("ij,ij->j", measured, measured)
        chained = np.concatenate([before, residual])
        echo += np.einsum("ij,ij->j", chained[1:], chained[:-1])
        before = residual[-1:]
        kept = slice(-count % every, None, every)
        shown.append((tile.t[kept], measured[kept], predicted[kept]))
        count += len(tile)
    if not count:
        raise MinidynError("validation needs samples; the recording has none")
    per_joint = {
        name: {
            "rmse": float(np.sqrt(power[k] / count)),
            "relative_error": float(np.sqrt(power[k]) / max(float(np.sqrt(torque[k])), 1e-300)),
            "whiteness": float(echo[k] / power[k]) ** 2 if power[k] > 0 else 0.0,
        }
        for k, name in enumerate(ordered.joint_names)
    }
    return Validation(
        float(np.sqrt(power.sum()) / max(float(np.sqrt(torque.sum())), 1e-300)),
        float(np.sqrt(power.sum() / (count * n))),
        per_joint,
        *(np.concatenate(parts) for parts in zip(*shown)),
    )
