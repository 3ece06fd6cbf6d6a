"""Plain least squares: what many write for themselves.

A zero-phase Butterworth low-pass of 10 Hz, central differences, viscous and Coulomb friction,
offset and rotor inertia, each joint weighted by its own noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

import minidyn as md
from minidyn.model.drives import PLAIN

Array = NDArray[np.float64]
CUTOFF = 10.0  # Hz
ENDS = 0.1  # s at either end of a run, which the filter spoils: one period of the cut-off
OPEN = 1e-10  # of the largest singular value: below, a direction counts as zero
ROUNDS = 3  # of weighting


def weighted(Y: Array, tau: Array) -> tuple[Array, Array]:
    """Return least squares on columns (N, n, b) and torques (N, n): values (b,) and the triangle
    of the weighted columns (b, b).
    """
    sigma = np.ones(tau.shape[1])
    for _ in range(ROUNDS):
        W, y = (Y / sigma[:, None]).reshape(-1, Y.shape[2]), (tau / sigma).ravel()
        R = np.linalg.qr(np.column_stack([W, y]), mode="r")
        beta = np.linalg.lstsq(R[:-1, :-1], R[:-1, -1], rcond=OPEN)[0]
        sigma = np.std(tau - Y @ beta, axis=0) + 1e-12
    return np.asarray(beta), R[:-1, :-1]


@dataclass(frozen=True)
class PlainModel:
    """Base parameters by plain least squares."""

    robot: md.Robot
    base: md.BaseMap
    beta: Array
    cutoff: float

    @classmethod
    def fit(
        cls,
        robot: md.Robot,
        recording: md.Recording,
        friction: tuple[str, ...] = PLAIN,
        cutoff: float = CUTOFF,
    ) -> PlainModel:
        """Return the model of a recording; its runs are filtered one by one."""
        model = robot.with_drives(True, friction)
        base = md.base_parameters(model)
        columns, torques = [], []
        for run in recording.runs:
            _, states, tau = _filtered(run, cutoff)
            columns.append(md.base_regressor(model, *states, base=base))
            torques.append(tau)
        beta, _ = weighted(np.concatenate(columns), np.concatenate(torques))
        return cls(model, base, beta, cutoff)

    def predict(self, recording: md.Recording) -> tuple[Array, Array]:
        """Return times (M,) and torques (M, n) of a run, its ends left out."""
        t, states, _ = _filtered(recording, self.cutoff)
        return t, md.base_regressor(self.robot, *states, base=self.base) @ self.beta


def _filtered(run: md.Recording, cutoff: float) -> tuple[Array, tuple[Array, Array, Array], Array]:
    step = float(run.t[-1] - run.t[0]) / (len(run) - 1)
    sections = butter(4, min(cutoff, 0.35 / step), fs=1 / step, output="sos")
    q, tau = (sosfiltfilt(sections, values, axis=0) for values in (run.q, run.tau))
    dq = np.gradient(q, step, axis=0)
    ddq = np.gradient(dq, step, axis=0)
    inside = slice(round(ENDS / step), len(run) - round(ENDS / step))
    return run.t[inside], (q[inside], dq[inside], ddq[inside]), tau[inside]
