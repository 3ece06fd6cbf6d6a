"""Constant rotations given by three angles, rewritten where they hide right angles.

A file may give a frame by roll, pitch and yaw although one of its axes is exactly perpendicular to one of its
parent's. Three angles that stand for themselves in exact arithmetic would lose that. With an entry R_ij = 0 the
rotation is a turn about axis i, a right angle and a turn about axis j, and there the right angle is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from minidyn.model.geometry import AXES, Step, Steps, inverse_steps, matrix_of
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot

ZERO = 1e-9
_RIGHT = math.pi / 2


def with_right_angles(robot: Robot) -> Robot:
    """Return the same robot with hidden right angles of its constant placements written out."""
    joints = tuple(_joint(joint) for joint in robot.joints)
    base = _steps(robot.base)
    same = base == robot.base and joints == robot.joints
    return robot if same else replace(robot, joints=joints, base=base)


def _joint(joint: Joint) -> Joint:
    # turns that `after` takes back belong together with it and are left as they are
    own = len(joint.after)
    shared = own if own and joint.before[-own:] == inverse_steps(joint.after) else 0
    split = len(joint.before) - shared
    before = (*_steps(joint.before[:split]), *joint.before[split:])
    after = joint.after if shared else _steps(joint.after)
    return joint if (before, after) == (joint.before, joint.after) else replace(joint, before=before, after=after)


def _steps(steps: Sequence[Step]) -> Steps:
    found: list[Step] = []
    for turning, group in groupby(steps, key=lambda step: step.is_turn):
        run = tuple(group)
        found += _run(run) if turning and _oblique(run) > 2 else run
    return tuple(found)


def _run(run: Steps) -> Steps:
    """Return successive turns as two turns and a right angle where their product allows it, else unchanged."""
    R = matrix_of(run)[:3, :3]
    best = run
    for i, j in zip(*np.nonzero(np.abs(R) < ZERO)):
        found = _through_right_angle(R, int(i), int(j))
        if _oblique(found) < _oblique(best):
            best = found
    return best


def _through_right_angle(R: NDArray[np.float64], i: int, j: int) -> Steps:
    """Return R = T_i(a) C T_j(b) for a rotation with R_ij = 0; C takes axis j to the one after i by right angles."""
    k, m = (i + 1) % 3, (i + 2) % 3
    first = Step("r" + AXES[i], _snapped(math.atan2(R[m, j], R[k, j])))
    middle: Steps = ()
    if j == i:  # C takes axis i to axis k by a turn about m
        middle = (Step("r" + AXES[m], _RIGHT),)
    elif j == m:  # ... and axis m to axis k by a turn back about i
        middle = (Step("r" + AXES[i], -_RIGHT),)
    rest = matrix_of((first, *middle))[:3, :3].T @ R
    p, q = (j + 1) % 3, (j + 2) % 3
    return (first, *middle, Step("r" + AXES[j], _snapped(math.atan2(rest[q, p], rest[p, p]))))


def _snapped(angle: float) -> float:
    nearest = round(angle / _RIGHT) * _RIGHT
    return nearest if abs(angle - nearest) < ZERO else angle


def _oblique(run: Sequence[Step]) -> int:
    """Number of turns that are no multiples of a right angle."""
    return sum(_snapped(step.value) != round(step.value / _RIGHT) * _RIGHT for step in run)
