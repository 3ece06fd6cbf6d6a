"""Torques that were logged late, or early, brought to the instants of the positions."""

from __future__ import annotations

import numpy as np

from minidyn.experiment.recording import Recording, concatenate

__all__ = ["without_delay"]


def without_delay(recording: Recording, delay: float) -> Recording:
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
        runs.append(
            Recording(
                part.t, part.q, tau, part.dq, part.ddq, part.joint_names, telemetry=part.telemetry, notices=part.notices
            )
        )
    return concatenate(runs) if runs else recording[:0]
