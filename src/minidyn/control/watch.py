"""What passes for a contact.

Thresholds of external torques, and the events of a log where one was passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.control.sample_status import Codes, SampleStatus
from minidyn.display import MEASURED, MODEL, PRIOR, DisplayTable, new_figure
from minidyn.dynamics.functions import jacobian
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import ShapeError
from minidyn.graph.scalar import sign, sqrt
from minidyn.model.joint import torque_unit
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, warning
from minidyn.text import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_WATCHING = error(
    "watch.not_watching",
    "For longer than the watchdog's time no sample could be used: a contact then was not seen.",
    "Check the sensors and the connection. Where samples are healthy but beyond the bounds from "
    "the robot file's limits, set `bounds`.",
)
HELD = warning(
    "watch.samples_held",
    "Samples were not used: a value was not finite or beyond its bound, a signal repeated itself "
    "while the joint moved, or samples were missing. The residual was held meanwhile.",
    "Single ones do no harm. Many point to a loose cable, a lost connection or a broken sensor.",
)

FRICTION = warning(
    "watch.friction",
    "A torque that passed its threshold follows the sign of the joint's speed, as friction does: "
    "friction has changed since the model was identified.",
    "Let the robot warm up, or identify its friction again. A push that reverses with the joint "
    "would look the same.",
)

NOISY_SPEEDS = warning(
    "watch.noisy_speeds",
    "Speeds are noisier than the thresholds allow for: noise alone passes them.",
    "Give speed_noise={speed_noise}, in the shell --speed-noise; or take speeds that are filtered.",
)

AROUND = 5.0
"""Seconds before and after an event in which its cause is looked for."""
FOLLOWS = 0.8
"""Share of a torque that follows the sign of speed, from which it is friction."""
BOTH_WAYS = 0.2
"""Least share of the torque in one direction of motion over that in the other."""

_CAUSES = (
    SampleStatus.NOT_FINITE | SampleStatus.OUT_OF_RANGE | SampleStatus.STUCK | SampleStatus.GAP
)
_SINGULAR = 1e-3  # share of the largest singular value: directions below it are not felt


@dataclass(frozen=True)
class Margins:
    """What the residual may be without a contact, each (n,), N m or N.

    Attributes:
        noise: From noise: a level that it passes as rarely as was asked.
        rest: From the uncertainty of parameters at rest.
        moving: What motion adds to it at the speed limits, growing with the square of the speed.
        level: Friction of a joint that is about to move: at rest any value between ± this one.
        speed: Speed limits of the joints, rad/s or m/s.
        friction_error: Share by which friction may differ from the model's.
        standstill: Speed below which the direction of friction is not known, rad/s or m/s.
    """

    noise: Array
    rest: Array
    moving: Array
    level: Array
    speed: Array
    friction_error: float
    standstill: float

    def bound(self, dq: list[Scalar], friction: list[Scalar]) -> list[Scalar]:
        """Record the largest error (n) of the model's torque in a motion with speeds dq and
        friction torques.
        """
        motion = sum(
            ((v * (1.0 / float(top))) * (v * (1.0 / float(top))) for v, top in zip(dq, self.speed)),
            0.0,
        )
        found = []
        for j, (v, f) in enumerate(zip(dq, friction)):
            error = float(self.rest[j]) + float(self.moving[j]) * motion
            found.append(error + self.friction_error * (f * sign(f)) + self.hidden(v, j))
        return found

    def hidden(self, speed: Scalar, joint: int) -> Scalar:
        """Record what friction of a joint, whose direction is not known, may hide at a speed."""
        moves = sign(speed) * (
            speed / sqrt(speed * speed + self.standstill**2)
        )  # as the smoothed sign of friction
        return float(self.level[joint]) * (1.0 - moves)


@dataclass(frozen=True)
class Event:
    """A contact: from the first sample in which a joint passes its threshold to the last.

    Attributes:
        start: Time of the first sample, s.
        end: Time of the last one, s.
        joints: Names of the joints that passed their thresholds, the first to do so first.
        ratio: Largest external torque over threshold.
        torque: External torques (n,) when that was, N m or N, joint side.
        at: Index of that sample in the log.
        kind: "contact", or "friction": the torque follows the sign of the joint's speed, before and
            after it reverses.
    """

    start: float
    end: float
    joints: tuple[str, ...]
    ratio: float
    torque: tuple[float, ...]
    at: int
    kind: Literal["contact", "friction"] = "contact"


@dataclass(frozen=True)
class Pause:
    """A time in which nobody watched: no sample could be used.

    Attributes:
        start: Time of the first sample of the alarm, s.
        end: Time of the last one, s.
        causes: Why, in words of :class:`SampleStatus`.
    """

    start: float
    end: float
    causes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Watch:
    """External torques along a log.

    Attributes:
        robot: The model.
        t: Times (N,), s.
        q: Positions (N, n).
        torque: External torques (N, n), N m or N.
        threshold: What passes for none (N, n).
        status: Flags (N,) of :class:`SampleStatus`; 0: the sample was used.
        events: Where a joint passed its threshold.
        pauses: Where nobody watched for longer than the watchdog's time: an alarm, too.
        friction: By how much friction differs from the model's at the end (n, 2), as shares: of the
            part that follows the sign of the speed, and of the part that grows with it.
        speed_noise: Standard deviation (n,) of the speeds, where thresholds do not allow for it;
            else empty.
    """

    robot: Robot
    t: Array
    q: Array
    torque: Array
    threshold: Array
    status: Codes
    events: tuple[Event, ...] = ()
    pauses: tuple[Pause, ...] = ()
    friction: Array = field(default_factory=lambda: np.zeros((0, 2)))
    speed_noise: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def held(self) -> int:
        """Samples with a fault; the one after each is not used either."""
        return int(np.count_nonzero(self.status & _CAUSES))

    @property
    def is_silent(self) -> bool:
        """Whether there is no alarm: no contact, and no pause in which none could be seen."""
        return not self.events and not self.pauses

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Samples that could not be used, and pauses of watching."""
        return (*self._of_friction(), *self._of_speeds(), *self._of_samples())

    def _of_speeds(self) -> list[Notice]:
        """Return that speeds are too noisy for the thresholds."""
        if not len(self.speed_noise):
            return []
        noise = [float(f"{value:.2g}") for value in self.speed_noise]
        text = f"speeds have noise of up to {max(noise):.2g} rad/s or m/s, which thresholds lack"
        return [NOISY_SPEEDS(text, speed_noise=noise)]

    def _of_friction(self) -> list[Notice]:
        """Return what friction has changed, where that passed a threshold."""
        names = [name for event in self.events if event.kind == "friction" for name in event.joints]
        if not names:
            return []
        joints = list(dict.fromkeys(names))
        text = f"friction has changed at {', '.join(joints)}: the torque follows the sign of speed"
        return [FRICTION(text, joints=joints)]

    def _of_samples(self) -> list[Notice]:
        """Return which samples were not used, and where nobody watched."""
        if not self.held:
            return []
        causes = ", ".join(SampleStatus(int(np.bitwise_or.reduce(self.status))).causes())
        share = f"{self.held} of {len(self.status)} samples"
        found = [HELD(f"{share} were not used: {causes}", samples=self.held, causes=causes)]
        if self.pauses:
            longest = max(pause.end - pause.start for pause in self.pauses)
            text = (
                f"nobody watched {len(self.pauses)} times, {longest:.3g} s at the longest, from "
                f"t = {self.pauses[0].start:.4g} s: {', '.join(self.pauses[0].causes)}"
            )
            found.append(NOT_WATCHING(text, pauses=len(self.pauses), longest=longest))
        return found

    @property
    def least_force(self) -> Array:
        """Least forces (3,) at the last link along world x, y, z that some joint shows, N.

        The median over the log.
        """
        some = slice(None, None, max(1, len(self.q) // 2000))
        return np.asarray(
            np.median(least_forces(self.robot, self.q[some], self.threshold[some]), axis=0)
        )

    def force(self, event: Event, link: str | None = None) -> Array:
        """Return the force (3,) at a link's origin that explains an event best, N, world axes."""
        return np.asarray(wrench_of(self.robot, self.q[event.at], event.torque, link)[3:])

    @property
    def seconds(self) -> float:
        """Length of the log, pauses between its runs included."""
        return float(self.t[-1] - self.t[0]) if len(self.t) else 0.0

    def to_json(self, link: str | None = None) -> dict[str, Any]:
        """Return events with the forces at a link (None: the last one), and thresholds, as plain
        values.
        """
        events = [
            asdict(event) | {"force": self.force(event, link).tolist()} for event in self.events
        ]
        median, largest = np.median(self.threshold, axis=0), np.abs(self.torque).max(axis=0)
        return {
            "events": events,
            "not_watching": [asdict(pause) for pause in self.pauses],
            "held": self.held,
            "seconds": self.seconds,
            "threshold": dict(zip(self.robot.joint_names, median.tolist())),
            "friction": dict(zip(self.robot.joint_names, self.friction.tolist())),
            "largest": dict(zip(self.robot.joint_names, largest.tolist())),
            "least_force": [
                force if np.isfinite(force) else None for force in self.least_force.tolist()
            ],
        }

    def _repr_html_(self) -> str:
        columns: dict[str, list[Any]] = {
            "from, s": [event.start for event in self.events],
            "to, s": [event.end for event in self.events],
            "joints": [", ".join(event.joints) for event in self.events],
            "cause": [event.kind for event in self.events],
            "torque / threshold": [event.ratio for event in self.events],
        }
        return DisplayTable(repr(self), columns).to_html()

    def plot(self) -> Figure:
        """Return a matplotlib figure.

        External torque of each joint within its thresholds, events and pauses shaded.
        """
        n = self.torque.shape[1]
        figure, axes = new_figure(repr(self), n, 0.9 * n + 0.8)
        for j, (axis, name) in enumerate(zip(axes, self.robot.joint_names)):
            axis.fill_between(
                self.t,
                -self.threshold[:, j],
                self.threshold[:, j],
                color=MODEL,
                alpha=0.2,
                linewidth=0,
            )
            axis.plot(self.t, self.torque[:, j], color=MEASURED, linewidth=0.8)
            for pause in self.pauses:
                axis.axvspan(pause.start, pause.end, color=MEASURED, alpha=0.4, linewidth=0)
            for event in self.events:
                axis.axvspan(event.start, event.end, color=PRIOR, alpha=0.2, linewidth=0)
            axis.set_ylabel(
                f"{short(name, 14)}\n{torque_unit(self.robot.joints[self.robot.independent[j]])}",
                fontsize=7,
            )
        axes[-1].set_xlabel("time, s")
        return figure

    def __repr__(self) -> str:
        pauses = f", {len(self.pauses)} pauses of watching" * bool(self.pauses)
        text = f"{len(self.events)} events{pauses} in {self.seconds:.4g} s"
        return f"Watch({text} of {self.robot.name!r})"


def wrench_of(robot: Robot, q: ArrayLike, torque: ArrayLike, link: str | None = None) -> Array:
    """Return the smallest wrench (..., 6) at a link's origin that explains torques (..., n) best.

    Jᵀ F = torque.
    """
    transposed = np.swapaxes(jacobian(robot, q, link), -1, -2)
    felt = np.asarray(torque, dtype=float)[..., None]
    return np.asarray((np.linalg.pinv(transposed, rcond=_SINGULAR) @ felt)[..., 0], dtype=float)


def least_forces(
    robot: Robot,
    q: ArrayLike,
    threshold: Array,
    link: str | None = None,
    directions: ArrayLike | None = None,
) -> Array:
    """Return the least forces (..., d), N, along directions (d, 3) at a link's origin that pass a
    threshold (..., n).

    Directions are unit vectors in world axes, None: x, y and z. Infinite where no joint feels the
    force.
    """
    ways = np.eye(3) if directions is None else np.asarray(directions, dtype=float)
    if ways.ndim != 2 or ways.shape[1] != 3:
        raise ShapeError(f"directions: expected shape (d, 3), got {ways.shape}")
    felt = np.abs(np.einsum("dk,...kj->...dj", ways, jacobian(robot, q, link)[..., 3:, :]))
    with np.errstate(divide="ignore"):
        return np.asarray((threshold[..., None, :] / felt).min(axis=-1))


def events_of(watch: Watch, dq: Array, cuts: Sequence[int], apart: float) -> tuple[Event, ...]:
    """Return the events of a log with speeds dq (N, n) that is cut into runs.

    Those closer than `apart` seconds are one.
    """
    t, names = watch.t, watch.robot.joint_names
    ratio = np.abs(watch.torque) / watch.threshold
    worst = ratio.max(axis=1, initial=0.0)
    found: list[Event] = []
    for begin, end in pairwise(cuts):
        over = np.flatnonzero(worst[begin:end] > 1.0) + begin
        if not len(over):
            continue
        for part in np.split(over, np.flatnonzero(np.diff(t[over]) > apart) + 1):
            first, last = int(part[0]), int(part[-1])
            span = ratio[first : last + 1]
            joints = np.flatnonzero(span.max(axis=0) > 1.0)
            order = joints[
                np.argsort([int(np.argmax(span[:, j] > 1.0)) for j in joints], kind="stable")
            ]
            at = first + int(np.argmax(worst[first : last + 1]))
            ends, seen = (float(t[first]), float(t[last])), tuple(names[j] for j in order)
            torque = tuple(watch.torque[at].tolist())
            kind = _cause(watch, dq, (begin, end), (first, last), joints.tolist())
            found.append(Event(*ends, seen, float(worst[at]), torque, at, kind))
    return tuple(found)


def _cause(
    watch: Watch, dq: Array, run: tuple[int, int], event: tuple[int, int], joints: Sequence[int]
) -> Literal["contact", "friction"]:
    """Return what passed the thresholds of some joints.

    Friction, where the torque of each of these joints has the sign of its speed, or the opposite
    one, for nearly all of the seconds about the event, and the joint moves both ways there; else a
    contact, which is the safe side.
    """
    begin = max(run[0], int(np.searchsorted(watch.t, watch.t[event[0]] - AROUND)))
    end = min(run[1], int(np.searchsorted(watch.t, watch.t[event[1]] + AROUND)) + 1)
    for j in joints:
        torque, speed = watch.torque[begin:end, j], dq[begin:end, j]
        size = np.abs(torque)
        way = np.sign(speed)
        along = [float(size[way == side].sum()) for side in (1.0, -1.0)]
        share = abs(float((torque * way).sum())) / max(float(size.sum()), 1e-300)
        if share < FOLLOWS or min(along) < BOTH_WAYS * max(along):
            return "contact"
    return "friction"


def pauses_of(watch: Watch, cuts: Sequence[int]) -> tuple[Pause, ...]:
    """Return the times of a log, cut into runs, in which nobody watched."""
    alarm = (watch.status & SampleStatus.NOT_WATCHING).astype(bool)
    found = []
    for begin, end in pairwise(cuts):
        ends = np.flatnonzero(np.diff(np.concatenate([[0], alarm[begin:end], [0]])))
        for first, stop in ends.reshape(-1, 2) + begin:
            quiet = np.flatnonzero(watch.status[begin:first] == 0)
            since = begin + int(quiet[-1]) + 1 if len(quiet) else begin
            flags = int(np.bitwise_or.reduce(watch.status[since:stop]))
            causes = tuple(SampleStatus(flags).causes())
            found.append(Pause(float(watch.t[first]), float(watch.t[stop - 1]), causes))
    return tuple(found)


def passage_level(n: int, gain: Array, rate: float) -> Array:
    """Return the levels (n,), in standard deviations, that n lags of normal noise pass so often an
    hour together.

    A process with correlation exp(-K t) passes ±z with the rate 2 K z φ(z) for large z, φ the
    normal density.
    """
    found = np.full(n, 4.0)
    for _ in range(50):  # z = √(2 ln(c z)) contracts for large z
        found = np.sqrt(
            2.0
            * np.log(
                np.maximum(2.0 * n * 3600.0 * gain * found / (rate * np.sqrt(2 * np.pi)), np.e)
            )
        )
    return np.asarray(found)
