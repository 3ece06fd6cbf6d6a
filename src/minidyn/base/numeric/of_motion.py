"""Base parameters that one given motion shows.

The observation matrix holds the rows along that motion alone, so that the set is smaller than the
robot's own where the motion leaves directions open, and its condition number says how well the rest
is separated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minidyn.arrays import frozen, real_array
from minidyn.base.base_map import BaseMap, Question
from minidyn.base.check import checked
from minidyn.base.numeric.numeric import decide
from minidyn.base.numeric.samples import JointStates, Observation, unitless_rows, units_of
from minidyn.errors import DescriptionError, ShapeError
from minidyn.model.canonical import as_understood
from minidyn.model.robot import Robot
from minidyn.notices import Notice

_MOST_SAMPLES = 4000  # size: of a long motion so many, evenly
_KEPT_STATES = 12  # size: with which the map is checked later


def states_of(robot: Robot, motion: Any) -> JointStates:
    """Return the states of a motion, at most a few thousand of them, evenly.

    A motion is (q, dq, ddq), (N, n) each, or what has them as attributes.
    """
    names = ("q", "dq", "ddq")
    if isinstance(motion, tuple | list):
        parts = list(motion)
    else:
        parts = [getattr(motion, name, None) for name in names]
    if len(parts) != 3 or any(part is None for part in parts):
        raise DescriptionError(
            "motion: expected positions, speeds and accelerations (q, dq, ddq), or a recording "
            "that has them: md.prepare(robot, recording) makes them of a raw one"
        )
    arrays = [real_array(part, f"motion, {name}") for part, name in zip(parts, names)]
    for array, name in zip(arrays, names):
        if array.ndim != 2 or array.shape[1] != robot.n or array.shape != arrays[0].shape:
            raise ShapeError(f"motion, {name}: expected shape (N, {robot.n}), got {array.shape}")
    order = getattr(motion, "joint_names", None)
    if order and set(order) == set(robot.joint_names):
        places = [list(order).index(name) for name in robot.joint_names]
        arrays = [array[:, places] for array in arrays]
    good = np.flatnonzero(np.all(np.isfinite(np.hstack(arrays)), axis=1))
    if not len(good):
        raise DescriptionError("motion: no sample has numbers for all joints")
    some = good[np.unique(np.linspace(0, len(good) - 1, _MOST_SAMPLES).astype(int))]
    return JointStates(*(array[some] for array in arrays))


def motion_base(question: Question, states: JointStates, method: str, tolerance: float) -> BaseMap:
    """Return the base parameters that a motion shows, with the condition number of their columns.

    Geometry that is special within the tolerance counts as exactly so, as everywhere.
    """
    robot = question.robot
    units = units_of(robot)
    understood = as_understood(robot, tolerance)
    rows = unitless_rows(understood, question.model, states, units, question.observed)
    W = rows.reshape(-1, rows.shape[-1])
    notices: list[Notice] = []
    kept, regrouped, K, found = decide(Observation(W, units), question.asked, method, notices)
    one = W[:, kept] / np.linalg.norm(W[:, kept], axis=0)
    few = np.unique(np.linspace(0, len(states.q) - 1, _KEPT_STATES).astype(int))
    base = question.answer(method, kept, regrouped, K, found.gap, notices)
    return checked(
        replace(
            base,
            condition=float(np.linalg.cond(one)) if kept else 1.0,
            motion=frozen(np.stack([states.q[few], states.dq[few], states.ddq[few]])),
            tolerance=float(tolerance),
        )
    )
