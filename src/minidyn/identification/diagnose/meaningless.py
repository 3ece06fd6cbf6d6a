"""What makes a fit meaningless, before it begins: no motion, no torque, every joint beyond its
limits, too few samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import units_of
from minidyn.errors import MinidynError
from minidyn.graph.targets.native.host import slow_notices
from minidyn.identification.diagnose.thresholds import FACTOR, FAR
from minidyn.identification.rows.base_rows import typical_sizes
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.segments import SHORTEST
from minidyn.recording.ready import in_robot_order

BEYOND = error(
    "check.beyond_limits",
    "Every joint is far beyond its limits: positions are in another unit, on the motor side, or "
    "of another robot.",
    "Say the unit (--units deg, units='deg'; under [mapping] of a study), or write a mapping file "
    "(--mapping) with gear ratios and columns.",
)
NO_TORQUE = error(
    "check.no_torque",
    "The measured torques are zero throughout.",
    "Name the right columns of the log: tau=... in Python, in a mapping file (--mapping) in the "
    "shell.",
)
NO_MOTION = error(
    "check.no_motion",
    "No joint moves: a robot at rest shows neither inertia nor friction.",
    "Name the right columns of positions, or record a motion.",
)

MIN_SPEED = 1e-3
"""Over L / T, about 5 mrad/s for an arm: slower than this is standstill."""
UNLIMITED_REACH = 4 * math.pi
"""rad from zero, two turns: a joint of an arm without limits stays within."""


class Meaningless(MinidynError):
    """A recording from which no meaningful model can be fitted; `notices` say why.

    Attributes:
        notices: What was found.
    """

    def __init__(self, notices: Iterable[Notice]) -> None:
        self.notices = tuple(notices)
        reasons = " ".join(f"{notice.text}. {notice.advice}" for notice in self.notices)
        super().__init__(
            f"a fit would be meaningless: {reasons} To fit all the same: force=True (--force)."
        )


def require_meaning(robot: Robot, recording: AnyRecording, force: bool) -> list[Notice]:
    """Raise where a fit to a recording is meaningless; with `force` return the notices instead."""
    found = meaningless(robot, in_robot_order(robot, recording))
    if found and not force:
        raise Meaningless(found)
    return found + slow_notices()


def meaningless(robot: Robot, recording: AnyRecording) -> list[Notice]:
    """Return what makes a fit to a recording, in the robot's joint order, meaningless.

    Nothing where it may be tried. Recordings on disk are read only until motion and torques were
    seen.
    """
    lowest, highest = np.full(robot.n, np.inf), np.full(robot.n, -np.inf)
    has_torque = "tau" not in recording.signals  # those that need one say so themselves
    samples = 0
    for tile in recording.tiles():
        samples += len(tile)
        q = np.where(np.isfinite(tile.q), tile.q, np.nan)
        lowest, highest = np.fmin(lowest, np.fmin.reduce(q)), np.fmax(highest, np.fmax.reduce(q))
        has_torque |= tile.tau is not None and bool(np.any(np.nan_to_num(tile.tau)))
        if has_torque and np.any(highest > lowest):
            break
    if samples < 2:  # too few, which is said elsewhere
        return []
    found = []
    if not np.any(highest > lowest):
        found.append(NO_MOTION("no joint moves"))
    if not has_torque:
        found.append(NO_TORQUE("the measured torques are zero throughout"))
    return found + _beyond_limits(robot, np.fmax(np.abs(lowest), np.abs(highest)))


def _reach_of(robot: Robot) -> Array:
    """Return how far each independent joint may go from zero (n,), rad or m.

    Where its file does not say: two turns, for robots of several joints (a single one may spin),
    and any distance.
    """

    def reach(joint: Joint) -> float:
        lower, upper = joint.limits.lower, joint.limits.upper
        if math.isfinite(lower) and math.isfinite(upper) and upper > lower:
            return max(abs(lower), abs(upper))
        return UNLIMITED_REACH if joint.turns and robot.n > 1 else math.inf

    return np.array([reach(robot.joints[index]) for index in robot.independent])


def _beyond_limits(robot: Robot, largest: Array) -> list[Notice]:
    """Return a notice where each joint with limits, and at least one has them, is far beyond
    them.
    """
    reach = _reach_of(robot)
    known = np.isfinite(reach) & np.isfinite(largest)
    if not known.any() or not np.all(largest[known] > FAR * reach[known]):
        return []
    worst = int(np.argmax(np.where(known, largest / reach, 0.0)))
    name, joint = robot.joint_names[worst], robot.joints[robot.independent[worst]]
    is_degrees = joint.turns and np.all(np.deg2rad(largest[known]) < FACTOR * reach[known])
    count, limits = int(known.sum()), joint.limits
    bound = (
        "its limit is"
        if math.isfinite(limits.lower + limits.upper)
        else "a joint without limits stays within"
    )
    every = (
        f"all {count} joints are far beyond their range" if count > 1 else "far beyond the range"
    )
    unit = "rad" if joint.turns else "m"
    text = (
        f"{every}: joint {name!r} reaches {largest[worst]:.4g}, {bound} {reach[worst]:.4g} "
        f"{unit}{' (degrees?)' if is_degrees else ''}"
    )
    sizes = {"largest": float(largest[worst]), "limit": float(reach[worst])}
    return [BEYOND(text, joint=name, **sizes, unit="deg" if is_degrees else "")]


def _is_moving(robot: Robot, recording: AnyRecording) -> bool:
    """Say whether any joint moves; where speeds are not known it is taken to."""
    sizes = typical_sizes(recording)
    return sizes is None or bool(np.any(~(sizes[1] <= MIN_SPEED * units_of(robot).speeds)))


def has_enough(robot: Robot, base: BaseMap, data: AnyRecording, known: bool) -> bool:
    """Say whether a prior, where one is known, may fill in what the data leave open.

    Refuse data that show nothing.
    """
    filled = known and _is_moving(robot, data)
    if len(data) * robot.n < 2 * base.rank and not (filled and len(data) >= SHORTEST):
        raise MinidynError(
            f"{len(data)} samples of {robot.n} joints are too few for {base.rank} base "
            f"parameters; record at least {2 * base.rank // robot.n + 1}, better a hundred times "
            "as many"
        )
    return filled
