"""Parallel filtering: the columns of the regressor pass the same low-pass as the torque, then both are thinned.

A torque that was filtered, by a sensor or by preparation, no longer equals the regressor at the same instants: friction
that reverses has lost its edges, and the columns have not. Filtered alike, by a low-pass below whatever filter was
there before, both sides of tau = Y beta are the same again, and noise above the motion is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import cutoff_of
from minidyn.identification.rows.base_rows import signals_of, steady_regressor
from minidyn.identification.rows.pieces import Piece
from minidyn.identification.rows.triangles import STRETCHES
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.signals import lowpass
from minidyn.recording.recording import Recording

_TIMES_BAND = 4.0  # the cut-off over the band of the motion
_PER_PERIOD = 5  # samples of a period of the cut-off that are kept
_ORDER = 4


def parallel(robot: Robot, base: BaseMap, recording: AnyRecording, options: Options) -> Solution:
    """Estimate base parameters by weighted least squares on regressor and torque after one low-pass."""
    whole = recording.load()
    cutoff = cutoff_of(whole, _TIMES_BAND, 0.2)
    found = fit_system(base, partial(_pieces, robot, base, whole, cutoff), options.allow_open)
    settings = {"parallel_cutoff": cutoff, "rows": found.rows * robot.n}
    return found.solution((), settings, options, len(whole))


def _pieces(robot: Robot, base: BaseMap, recording: Recording, cutoff: float) -> Iterator[Piece]:
    """Rows run by run: filtered whole, the ends that the filter spoils cut off, thinned, then cut into stretches."""
    for run, start in zip(recording.runs, recording.starts):
        q, dq, ddq, tau = signals_of(run, "q", "dq", "ddq", "tau")
        rate = 1.0 / max(float(np.median(np.diff(run.t))), 1e-12) if len(run) > 1 else 1.0
        spoiled = int(np.ceil(rate / cutoff))
        if len(run) < 3 * spoiled + 10:
            continue
        W = lowpass(steady_regressor(robot, base, q, dq, ddq), rate, cutoff, _ORDER)
        keep = np.arange(spoiled, len(run) - spoiled, max(1, int(rate / (_PER_PERIOD * cutoff))))
        y = lowpass(tau, rate, cutoff, _ORDER)
        for rows in np.array_split(keep, STRETCHES):
            if len(rows):
                yield Piece(W[rows], y[rows], run.t[rows], (start + int(rows[0])) / len(recording))


PARALLEL = Method("parallel", parallel, filters_columns=True)
