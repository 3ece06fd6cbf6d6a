"""Whether a motion keeps its limits at all times, not at samples alone.

Positions and their derivatives: between two samples a function leaves the chord by at most h²/8
times its largest second derivative, and the coefficients bound that. Torques: the motion of a short
time lies in a box, and the recorded torque function is evaluated on boxes
(`minidyn.graph.interval`); where the result is not within the limits the time is halved. Coulomb
friction that reverses inside is then covered, too. Distances: they cannot change faster than the
joints can carry the farthest point of the robot; where that is too much for the clearance the time
is halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.record import record
from minidyn.excitation.bounds import KINDS, Bounds
from minidyn.excitation.clearance import Clearance
from minidyn.excitation.motion import Course
from minidyn.graph.function import Function, evaluate_in_blocks
from minidyn.graph.interval import enclose
from minidyn.model.robot import Robot

_STEP = 1e-3  # s, of the samples
_FEWEST = 2000  # samples
_FIRST = 0.02  # s, of the boxes to begin with
_HALVINGS = 14
_MANY = 50_000  # open boxes: more are not halved
_ROUNDING = 1e-9  # shares above one by less are rounding
_BLOCK = 4096  # boxes at a time
_CRITICAL = 0.97  # share of an effort limit from which a time is critical
_CLOSE = 0.005  # m beyond the clearance up to which a time is critical


@dataclass(frozen=True)
class Worst:
    """Where a motion comes nearest to a limit, or exceeds it most.

    Limit, joint, time and share of it.
    """

    limit: str
    joint: str
    time: float
    share: float


@dataclass(frozen=True, eq=False)
class Proof:
    """What is known about a motion and its limits.

    Attributes:
        shares: {kind: largest share of the limit (joints,)}; above one where it is exceeded.
        worst: The largest of all.
        holds: Whether all limits are kept at all times.
        distances: Least distance of each pair that must stay apart, m.
        critical: Times at which a torque or a distance is nearest to its limit, s.
    """

    shares: dict[str, Array]
    worst: Worst
    holds: bool
    distances: dict[str, float] = field(default_factory=dict)
    critical: Array = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class Spread:
    """How far torques may be from those of the model, because the robot's parameters are known
    within a share only.

    Mass, first moment (a vector) and inertia (a tensor) of every link, each in any direction, and
    every drive term are within the share of their sizes. The largest torque of all such robots is
    that of the model and the share times the norms of the regressor's blocks: torques are linear in
    the parameters.
    """

    regressor: Function  # of the standard parameters, from q, dq, ddq
    joints: int
    groups: tuple[
        tuple[NDArray[np.int_], Array], ...
    ]  # columns of each block, and what they are multiplied with

    @classmethod
    def of(cls, robot: Robot, parameters: Array, share: float) -> Spread:
        """Return the spread of a robot whose parameters (p,) are known within a share."""
        twice = np.array([1, 2, 2, 1, 2, 1])  # how often an entry of the tensor stands in it
        groups = []
        for part in robot.layout.links:
            own = np.arange(len(parameters))[part][:10]
            for some, count in ((own[:6], twice), (own[6:9], np.ones(3)), (own[9:], np.ones(1))):
                size = np.sqrt(np.sum(count * parameters[some] ** 2))
                groups.append((some, share * size / np.sqrt(count)))
        for k, column in enumerate(robot.layout.columns):
            if not column.is_inertial:
                groups.append((np.array([k]), np.array([share * abs(parameters[k])])))
        function = record(robot.with_parameters(parameters), "regressor")
        return cls(function, robot.n, tuple(group for group in groups if np.any(group[1] > 0)))

    def beyond(self, Y: Array) -> Array:
        """Return how far torques (N, n) may be from the model's, of sizes of the regressor (N, n,
        p).
        """
        return np.asarray(
            sum(np.linalg.norm(Y[..., some] * weight, axis=-1) for some, weight in self.groups)
        )

    def along(self, motion: Sequence[Array]) -> Array:
        """Return the same along a motion q, dq, ddq (N, n) each."""
        parts = []
        for begin in range(0, len(motion[0]), _BLOCK):
            part = (one[begin : begin + _BLOCK] for one in motion)
            parts.append(self.beyond(np.asarray(evaluate_in_blocks(self.regressor, *part))))
        return np.concatenate(parts)

    def inside(self, boxes: Sequence[tuple[Array, Array]]) -> Array:
        """Return the same for all motions inside boxes of q, dq and ddq."""
        low, high = enclose(self.regressor, boxes)[0]
        return self.beyond(np.maximum(np.abs(low), np.abs(high)).reshape(len(low), self.joints, -1))


def prove(
    course: Course,
    bounds: Bounds,
    torque: Function | None,
    robot_joints: int,
    clearance: Clearance | None = None,
    spread: Spread | None = None,
) -> Proof:
    """Return how much of each limit a motion uses at most.

    `torque` is the recorded function of q, dq, ddq; None: torques are not limited. With a `spread`
    limits of torques hold for all robots that it describes.
    """
    count = max(_FEWEST, int(np.ceil(course.span / _STEP))) + 1
    t = np.linspace(0.0, course.span, count)
    h = float(t[1] - t[0])
    motion = course.derivatives(t)
    highest = course.highest() @ np.abs(bounds.follow).T
    shares, worst = {}, Worst("position", bounds.joints[0], 0.0, 0.0)
    critical = [np.zeros(0)]
    for order in bounds.active:
        kind = KINDS[order]
        extra = (
            h * h / 8 * highest[order + 2]
            if order + 2 < len(highest)
            else h / 2 * highest[order + 1]
        )
        used = (np.abs(bounds.centred(motion[order], order)) + extra) / bounds.reach[kind]
        shares[kind] = used.max(axis=0)
        worst = _larger(worst, kind, bounds.joints, t, used)
    if torque is not None and np.isfinite(bounds.effort).any():
        tau = np.abs(np.asarray(evaluate_in_blocks(torque, *motion[:3])))
        used = (tau if spread is None else tau + spread.along(motion[:3])) / bounds.effort
        shares["torque"] = used.max(axis=0)
        names = bounds.joints[:robot_joints]
        critical.append(_peaks(t, used, _CRITICAL))
        worst = _larger(worst, "torque", names, t, used)
        if worst.share <= 1.0 + _ROUNDING:
            exceeded = _boxes(course, bounds, torque, spread)
            if exceeded is not None:
                joint, time, share = exceeded
                shares["torque"][joint] = max(shares["torque"][joint], share)
                worst = Worst("torque", names[joint], time, share)
    distances = {}
    if clearance is not None:
        apart = clearance.distances(motion[0])
        distances = dict(zip(clearance.names, apart.min(axis=0).tolist()))
        room = apart - clearance.needed
        critical.append(_peaks(t, -room, -_CLOSE))
        sample, pair = (int(k) for k in np.unravel_index(int(np.argmin(room)), room.shape))
        found = pair, float(t[sample]), float(apart[sample, pair])
        if found[2] >= clearance.needed[pair]:
            found = _too_near(course, clearance) or found
        least = float(clearance.needed[found[0]])
        # a share above one where the distance is below the clearance
        share = 1.0 + (least - found[2]) / max(least, 1e-3)
        if found[2] < least and share > worst.share:
            worst = Worst("distance", clearance.names[found[0]], found[1], share)
    holds = worst.share <= 1.0 + _ROUNDING
    return Proof(shares, worst, holds, distances, np.unique(np.concatenate(critical)))


def margins_of(bounds: Bounds, proofs: Sequence[Proof]) -> dict[str, dict[str, float]]:
    """Return the largest share of each limit by joint, and the least distances, of motions that all
    keep the same.
    """
    found: dict[str, dict[str, float]] = {}
    for kind in proofs[0].shares if proofs else ():
        largest = np.max([proof.shares[kind] for proof in proofs], axis=0)
        found[kind] = dict(zip(bounds.joints, largest.tolist()))
    if proofs and proofs[0].distances:
        found["distance"] = {
            name: min(one.distances[name] for one in proofs) for name in proofs[0].distances
        }
    return found


def _larger(worst: Worst, kind: str, names: tuple[str, ...], t: Array, used: Array) -> Worst:
    sample, joint = (int(k) for k in np.unravel_index(int(np.argmax(used)), used.shape))
    share = float(used[sample, joint])
    return Worst(kind, names[joint], float(t[sample]), share) if share > worst.share else worst


def _peaks(t: Array, values: Array, least: float) -> Array:
    """Times at which a column of values (N, k) has a local maximum above a bound."""
    inner = values[1:-1]
    peaks = (inner >= values[:-2]) & (inner > values[2:]) & (inner > least)
    return np.asarray(t[1:-1][peaks.any(axis=1)])


def _too_near(course: Course, clearance: Clearance) -> tuple[int, float, float] | None:
    """Return (pair, time, distance) that may be below the clearance however short the time.

    None: none is.
    """
    highest = course.highest()
    width = min(_FIRST, course.span / 50) / 2
    middle = np.arange(width / 2, course.span, width)
    for _ in range(_HALVINGS):
        q, dq = course.derivatives(middle)[:2]
        half = 0.5001 * width
        apart = (
            clearance.distances(q)
            - (half * np.abs(dq) + half**2 / 2 * highest[2]) @ clearance.reach.T
        )
        room = apart - clearance.needed
        open_ = room.min(axis=1) < 0.0
        if not open_.any():
            return None
        found, nearest, rooms = middle[open_], apart[open_], room[open_]
        if len(found) > _MANY:
            break
        middle = np.sort(np.concatenate([found - width / 4, found + width / 4]))
        width /= 2
    sample, pair = (int(k) for k in np.unravel_index(int(np.argmin(rooms)), rooms.shape))
    return pair, float(found[sample]), float(nearest[sample, pair])


def _boxes(
    course: Course, bounds: Bounds, torque: Function, spread: Spread | None
) -> tuple[int, float, float] | None:
    """Return (joint, time, share) of a torque that may exceed its limit however short the time.

    None: none does.
    """
    highest = course.highest()
    width = min(_FIRST, course.span / 50)
    middle = np.arange(width / 2, course.span, width)
    for _ in range(_HALVINGS):
        left = []
        for begin in range(0, len(middle), _BLOCK):
            t = middle[begin : begin + _BLOCK]
            motion = course.derivatives(t)
            half = (
                0.5001 * width
            )  # neighbouring boxes overlap by a little: no time falls between them
            boxes = []
            for order in range(3):
                room = half * np.abs(motion[order + 1]) + half**2 / 2 * highest[order + 2]
                boxes.append((motion[order] - room, motion[order] + room))
            low, high = enclose(torque, boxes)[0]
            largest = np.maximum(np.abs(low), np.abs(high))
            share = (largest if spread is None else largest + spread.inside(boxes)) / bounds.effort
            open_ = np.flatnonzero(~(share.max(axis=1) <= 1.0))
            if len(open_):
                left.append((t[open_], share[open_]))
        if not left:
            return None
        found, shares = np.concatenate([t for t, _ in left]), np.concatenate([s for _, s in left])
        if len(found) > _MANY:
            break
        middle = np.sort(np.concatenate([found - width / 4, found + width / 4]))
        width /= 2
    sample, joint = (int(k) for k in np.unravel_index(int(np.argmax(shares)), shares.shape))
    return joint, float(found[sample]), float(shares[sample, joint])
