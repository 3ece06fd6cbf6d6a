"""Rows of torque along states: base regressors as columns, measured torques as right side."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import base_regressor
from minidyn.errors import Unsupported
from minidyn.identification.estimators.linear_system import FOLDS, Piece, Pieces, signals_of
from minidyn.identification.estimators.smooth_states import States
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

_PIECE = 4096


def in_memory(recording: object, method: str) -> Recording:
    """Return the recording, or say that it must be read first."""
    if not isinstance(recording, Recording):
        raise Unsupported(f"method {method!r} needs the whole recording: md.identify(robot, recording.load(), ...)")
    return recording


def torque_rows(
    robot: Robot, base: BaseMap, recording: Recording, states: States, instruments: States | None = None
) -> Pieces:
    """Return the rows of torque along states, with the regressor along other states as instruments if given."""
    return partial(_pieces, robot, base, recording, states, instruments)


def _pieces(
    robot: Robot, base: BaseMap, recording: Recording, states: States, instruments: States | None
) -> Iterator[Piece]:
    (tau,) = signals_of(recording, "tau")
    total = len(recording)
    for start, end in zip(recording.starts, (*recording.starts[1:], total)):
        length = max(1, min(_PIECE, -(-(end - start) // FOLDS)))
        for begin in range(start, end, length):
            rows = np.arange(begin, min(begin + length, end))
            rows = rows[states.usable[rows]]
            if not len(rows):
                continue
            W = base_regressor(robot, states.q[rows], states.dq[rows], states.ddq[rows], base=base)
            Z = None
            if instruments is not None:
                Z = base_regressor(robot, instruments.q[rows], instruments.dq[rows], instruments.ddq[rows], base=base)
            yield Piece(W, tau[rows], recording.t[rows], begin / total, Z)
