"""Identification without accelerations: from filtered torque, from momentum, or from energy.

Accelerations are what differentiation spoils most. Torque is the rate of a momentum that q and dq give, plus a rest
that they give, too; after a low-pass, or integrated over windows, q, dq and tau are all that is needed. The energy
balance gives one row a window instead of n: less to compute, and less to see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import PIECE, cutoff_of
from minidyn.identification.rows.base_rows import signals_of, steady_regressor
from minidyn.identification.rows.filtered import filtered_regressor
from minidyn.identification.rows.pieces import Piece
from minidyn.identification.rows.triangles import STRETCHES
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

_POINTS = 8  # of the polynomials between samples: exact data give exact parameters even at 150 samples a second
_TIMES_BAND = 6.0  # the cut-off over the band of the motion: windows short enough to see all of it


def acceleration_free(form: str, robot: Robot, base: BaseMap, recording: AnyRecording, options: Options) -> Solution:
    """Estimate base parameters by one of the forms "filtered", "momentum", "energy" of `filtered_regressor`."""
    seen = recording if isinstance(recording, Recording) else next(iter(recording.tiles(16 * PIECE)))
    cutoff = cutoff_of(seen, _TIMES_BAND, 0.1)
    found = fit_system(base, partial(_pieces, form, robot, base, recording, cutoff), options.allow_open)
    settings = {"filter_cutoff": cutoff, "rows": found.rows * len(found.sigma)}
    made = found.solution((), settings, options, len(recording))
    return replace(made, sigma=_torque_noise(robot, base, recording, found.beta))


def _stretches(recording: AnyRecording) -> Iterator[tuple[Recording, float]]:
    """Pieces of runs, and where in the recording (0 to 1) each begins; neighbours share the sample between them."""
    if not isinstance(recording, Recording):
        done, total = 0, len(recording)
        for piece in recording.tiles(PIECE):
            yield piece, min(done / total, 1.0)
            done += len(piece)
        return
    for run, start in zip(recording.runs, recording.starts):
        parts = max(-(-len(run) // PIECE), min(STRETCHES, len(run) // 200), 1)
        for begin, end in pairwise(np.linspace(0, len(run) - 1, parts + 1).astype(int).tolist()):
            yield run[begin : end + 1], (start + begin) / len(recording)


def _pieces(form: str, robot: Robot, base: BaseMap, recording: AnyRecording, cutoff: float) -> Iterator[Piece]:
    """Rows stretch by stretch: filters start anew with exact initial values, so that nothing is lost by cutting."""
    for part, place in _stretches(recording):
        q, dq, tau = signals_of(part, "q", "dq", "tau")
        named = Recording(part.t, q, tau, dq, joint_names=robot.joint_names)
        W, y = filtered_regressor(robot, named, cutoff, base, form=form, points=_POINTS)
        yield Piece(W, y, np.linspace(part.t[0], part.t[-1], len(y)), place)


def _torque_noise(robot: Robot, base: BaseMap, recording: AnyRecording, beta: Array) -> Array:
    """Standard deviation of each joint's torque error, with accelerations from the speeds where none are recorded."""
    squares, samples = np.zeros(robot.n), 0
    for part, _ in _stretches(recording):
        q, dq, tau = signals_of(part, "q", "dq", "tau")
        if part.ddq is not None:
            ddq = part.ddq
        else:
            ddq = np.gradient(dq, part.t, axis=0) if len(part) > 1 else np.zeros_like(q)
        residual = tau - steady_regressor(robot, base, q, dq, ddq) @ beta
        squares += np.sum(residual**2, axis=0)
        samples += len(part)
    return np.asarray(np.sqrt(squares / max(1, samples)), dtype=float)


_LONG = 1_000_000  # samples beyond which filters that start anew with each piece do less harm than memory

FILTERED, MOMENTUM, ENERGY = (
    Method(form, partial(acceleration_free, form), needs_acceleration=False, streams_from=_LONG)
    for form in ("filtered", "momentum", "energy")
)
