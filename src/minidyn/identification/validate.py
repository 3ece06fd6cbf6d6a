"""How far a model can be trusted: its errors on motion it was not fitted to, against raw measured torque."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import MinidynError
from minidyn.experiment.lazy import LazyRecording
from minidyn.experiment.recording import Recording
from minidyn.identification.estimate import Estimate

__all__ = ["Validation", "validate"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Validation:
    """Errors of a model on a recording.

    Attributes:
        relative_error: ‖tau - prediction‖ / ‖tau‖ over all joints and samples, raw measured torque.
        rmse: Root of the mean squared error over all joints and samples, N m or N.
        per_joint: {joint: {"rmse", "relative_error", "whiteness"}}; whiteness is the share of residual power that the
            previous sample predicts (0: white noise).
        t: Times (N,).
        measured: Raw measured torques (N, n).
        predicted: The model's torques (N, n).
    """

    relative_error: float
    rmse: float
    per_joint: dict[str, dict[str, float]]
    t: Array
    measured: Array
    predicted: Array

    @property
    def residual(self) -> Array:
        """Measured minus predicted (N, n)."""
        return np.asarray(self.measured - self.predicted, dtype=float)

    def __repr__(self) -> str:
        return f"Validation(relative error {100 * self.relative_error:.3g} %, rmse {self.rmse:.4g})"


def validate(estimate: Estimate, recording: Recording | LazyRecording) -> Validation:
    """Return the errors of an estimate on a recording, raw or prepared.

    A raw recording is prepared as for identification, but for its torque, which stays as measured. A lazy one is read
    piece by piece: errors are those of all samples, the series are thinned to at most 100,000.
    """
    if isinstance(recording, LazyRecording):
        from minidyn.identification.on_disk import validate_on_disk

        return validate_on_disk(estimate, recording)
    if recording.tau is None:
        raise MinidynError("validation needs measured torques; the recording has none")
    prepared = recording
    if recording.dq is None or recording.ddq is None:
        from minidyn.experiment.prepare import prepare

        prepared = prepare(estimate.robot, recording)
    measured = np.asarray(prepared.telemetry.get("tau_raw", prepared.tau), dtype=float)
    predicted = estimate.predict(prepared)
    residual = measured - predicted
    per_joint = {}
    for name, series, torque in zip(prepared.joint_names, residual.T, measured.T):
        power = float(series @ series)
        per_joint[name] = {
            "rmse": float(np.sqrt(np.mean(series**2))),
            "relative_error": float(np.linalg.norm(series) / max(float(np.linalg.norm(torque)), 1e-300)),
            "whiteness": float((series[1:] @ series[:-1]) / power) ** 2 if power > 0 else 0.0,
        }
    return Validation(
        float(np.linalg.norm(residual) / max(float(np.linalg.norm(measured)), 1e-300)),
        float(np.sqrt(np.mean(residual**2))),
        per_joint,
        np.asarray(prepared.t),
        measured,
        predicted,
    )
