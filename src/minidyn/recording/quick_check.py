"""What makes a fit meaningless, found in a moment: identification asks before anything else is computed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, act
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import in_robot_order

BEYOND = act(
    "check.beyond_limits",
    "Every joint is far beyond its limits: positions are in another unit, on the motor side, or of another robot.",
    "Say the unit (--units deg, units='deg'; under [mapping] of a study), or write a mapping file with gear ratios "
    "and columns.",
)
NO_TORQUE = act(
    "check.no_torque",
    "The measured torques are zero throughout.",
    "Name the right columns of the log: tau=... in Python, or in a mapping file.",
)
NO_MOTION = act(
    "check.no_motion",
    "No joint moves: a robot at rest shows neither inertia nor friction.",
    "Name the right columns of positions, or record a motion.",
)

FAR = 1.5
"""Positions beyond so many times a joint's reach are in another unit, or on the other side of the gears."""
_TURNS = 4 * math.pi  # rad
_DEGREES = 180 / math.pi
_TILE = 1 << 16  # samples that are looked at at once


class Meaningless(MinidynError):
    """A recording from which no meaningful model can be fitted; `notices` say why.

    Attributes:
        notices: What was found.
    """

    def __init__(self, notices: Iterable[Notice]) -> None:
        self.notices = tuple(notices)
        reasons = " ".join(f"{notice.text}. {notice.advice}" for notice in self.notices)
        super().__init__(f"a fit would be meaningless: {reasons} To go on all the same: anyway=True (--anyway).")


def reach_of(robot: Robot) -> Array:
    """Return how far each independent joint may go from zero (n,), rad or m.

    Where its file does not say: two turns, for robots of several joints (a single one may spin), and any distance.
    """

    def reach(joint: Joint) -> float:
        lower, upper = joint.limits.lower, joint.limits.upper
        if math.isfinite(lower) and math.isfinite(upper) and upper > lower:
            return max(abs(lower), abs(upper))
        return _TURNS if joint.turns and robot.n > 1 else math.inf

    return np.array([reach(robot.joints[index]) for index in robot.independent])


def require_meaning(robot: Robot, recording: AnyRecording, anyway: bool) -> list[Notice]:
    """Raise where a fit to a recording is meaningless; with `anyway` return the notices instead."""
    found = meaningless(robot, in_robot_order(robot, recording))
    if found and not anyway:
        raise Meaningless(found)
    return found


def meaningless(robot: Robot, recording: AnyRecording) -> list[Notice]:
    """Return what makes a fit to a recording, in the robot's joint order, meaningless; nothing where it may be tried.

    Recordings on disk are read only until motion and torques were seen.
    """
    lowest, highest = np.full(robot.n, np.inf), np.full(robot.n, -np.inf)
    torque = "tau" not in recording.signals  # those that need one say so themselves
    seen = 0
    for tile in recording.tiles(_TILE):
        seen += len(tile)
        q = np.where(np.isfinite(tile.q), tile.q, np.nan)
        lowest, highest = (np.fmin(lowest, np.fmin.reduce(q)), np.fmax(highest, np.fmax.reduce(q)))
        torque = torque or (tile.tau is not None and bool(np.any(np.nan_to_num(tile.tau))))
        if torque and np.any(highest > lowest):
            break
    if seen < 2:  # too few, which is said elsewhere
        return []
    found = []
    if not np.any(highest > lowest):
        found.append(NO_MOTION("no joint moves"))
    if not torque:
        found.append(NO_TORQUE("the measured torques are zero throughout"))
    return found + _beyond(robot, np.fmax(np.abs(lowest), np.abs(highest)))


def _beyond(robot: Robot, largest: Array) -> list[Notice]:
    """Return a notice where each joint with limits, and at least one has them, is far beyond them."""
    reach = reach_of(robot)
    known = np.isfinite(reach) & np.isfinite(largest)
    if not known.any() or not np.all(largest[known] > FAR * reach[known]):
        return []
    worst = int(np.argmax(np.where(known, largest / reach, 0.0)))
    name, joint = robot.joint_names[worst], robot.joints[robot.independent[worst]]
    degrees = joint.turns and np.all(largest[known] < 1.1 * _DEGREES * reach[known])
    count, limits = int(known.sum()), joint.limits
    usual = "its limit is" if math.isfinite(limits.lower + limits.upper) else "a joint without limits stays within"
    every = f"all {count} joints are far beyond their range" if count > 1 else "far beyond the range"
    unit = "rad" if joint.turns else "m"
    text = (
        f"{every}: joint {name!r} reaches {largest[worst]:.4g}, {usual} {reach[worst]:.4g} "
        f"{unit}{' (degrees?)' if degrees else ''}"
    )
    guess = "deg" if degrees else ""
    return [BEYOND(text, joint=name, largest=float(largest[worst]), limit=float(reach[worst]), unit=guess)]
