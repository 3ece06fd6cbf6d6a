"""What a log holds, joint by joint, before any fit.

Ranges against limits, reversals, standstill, saturation, rates. Sums are collected piece by piece,
so that logs on disk are read once and memory does not grow.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.diagnose.thresholds import FACTOR, FAIR, FAR, LARGE, MOST
from minidyn.identification.sizes import FAINT
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

SATURATED = warning(
    "check.saturated",
    "A joint's torque stays at its largest value: the drive, or the sensor, was at its bound.",
    "Record a slower motion of joint {joint!r}, or a smaller load; a torque that was cut off is "
    "wrong data.",
)
FEW_REVERSALS = warning(
    "check.few_reversals",
    "A joint hardly reverses: dry friction cannot be told from gravity and offsets.",
    "Let joint {joint!r} move back and forth several times.",
)
RESTS = warning(
    "check.rests",
    "A joint stands still for most of the log.",
    "Cut the standstill out, or let joint {joint!r} move for most of the time.",
)
SPEED_LIMIT = warning(
    "check.speed_limit",
    "Speeds are beyond the joint's limit: units or times may be wrong.",
    "Check the units of positions and speeds, and the unit of time, of joint {joint!r}.",
)
UNEVEN_RUNS = warning(
    "check.rates_differ",
    "Runs of the log have different sample rates.",
    "Check the unit of time of each file. They can be fitted together where the rates are right.",
)

HEADINGS = (
    "joint", "position", "limits", "speed", "torque", "scale", "noise", "reversals", "standstill", "saturated",  # noqa: E501
)  # fmt: skip
"""Of the table of joints."""
MIN_SATURATED = 0.005
"""Share of samples at the largest torque that is reported."""
MAX_STANDSTILL = 0.02
"""Of a joint's largest speed: slower is standstill."""
MIN_REVERSALS = 2
"""Of a joint: fewer do not separate dry friction from gravity and offsets."""


@dataclass(frozen=True)
class JointFacts:
    """What a log holds of one joint; SI units, N m or N, joint side. NaN: not known."""

    name: str
    unit: str  # rad or m
    lower: float  # limits of the robot's file
    upper: float
    speed_limit: float
    effort: float  # limit
    reversals: int
    least: float  # position
    most: float
    speed: float  # largest
    torque: float  # largest
    torque_rms: float
    standstill: float  # share of samples
    saturated: float  # share of samples
    noise: float = math.nan  # standard deviation of the torque that a first fit does not explain
    scale: float = math.nan  # measured torque over that of the robot's file

    @property
    def used(self) -> float:
        """Share of the joint's range that the log covers; NaN where it has no limits."""
        width = self.upper - self.lower
        return (self.most - self.least) / width if 0 < width < math.inf else math.nan

    @property
    def beyond(self) -> bool:
        """Whether positions leave the limits by more than a fiftieth of the reach."""
        margin = 0.02 * max(abs(self.lower), abs(self.upper))
        return math.isfinite(margin) and (
            self.most > self.upper + margin or self.least < self.lower - margin
        )

    @property
    def noise_share(self) -> float:
        """Noise over the torque's root mean square."""
        return self.noise / self.torque_rms if self.torque_rms > 0 else math.nan


def shown_word(relative: float) -> str:
    """Return how a log shows a parameter of that relative standard deviation.

    Well, fairly, weakly, not.
    """
    if not math.isfinite(relative):
        return "not"
    return "well" if relative <= LARGE else "fairly" if relative <= FAIR else "weakly"


@dataclass(frozen=True)
class RunFacts:
    """One run of a log."""

    samples: int
    seconds: float
    rate: float  # samples per second, from the median step; NaN where there is but one sample


@dataclass(frozen=True)
class _Stretch:
    """Samples of one run, or of a part of it, as they were logged."""

    row: int  # where it begins in the log
    samples: int
    first: float  # times, s
    last: float
    step: float  # median of the first samples; NaN where there is but one


@dataclass
class _Ranges:
    """What samples hold of each joint, as they were logged: each (n,)."""

    least: Array
    most: Array
    torque: Array  # largest, sign apart
    at_bound: Array  # samples near the largest torque
    squares: Array
    samples: int = 0
    next_share: Array | None = None  # of the first samples: at the next largest torque

    @classmethod
    def of(cls, n: int) -> _Ranges:
        none = np.zeros(n)  # nothing is changed in place
        return cls(np.full(n, np.inf), np.full(n, -np.inf), none, none, none)

    def add(self, tile: Recording) -> None:
        q, tau = np.where(np.isfinite(tile.q), tile.q, np.nan), np.zeros(tile.q.shape)
        if tile.tau is not None:
            tau = np.abs(np.nan_to_num(tile.tau))
            if self.next_share is None:
                self.next_share = np.array([_next_share(column) for column in tau.T])
        torque = tau.max(axis=0, initial=0.0)
        near = np.sum((tau >= torque * (1 - FAINT)) & (torque > 0), axis=0)
        squares = np.sum(tau**2, axis=0)
        self.join(_Ranges(np.fmin.reduce(q), np.fmax.reduce(q), torque, near, squares, len(tile)))

    def join(self, after: _Ranges) -> None:
        """Add what other samples hold, those that come next."""
        self.least, self.most = np.fmin(self.least, after.least), np.fmax(self.most, after.most)
        # begin to count anew where a larger torque was found
        at_bound = np.where(after.torque > self.torque * (1 + FAINT), 0.0, self.at_bound)
        is_lower = self.torque > after.torque * (1 + FAINT)
        self.at_bound = at_bound + np.where(is_lower, 0.0, after.at_bound)
        self.torque = np.maximum(self.torque, after.torque)
        self.squares = self.squares + after.squares
        self.next_share = after.next_share if self.next_share is None else self.next_share
        self.samples += after.samples

    @property
    def saturated(self) -> Array:
        """Share of samples at the largest torque (n,); 0 where it is not far beyond the share at
        the next largest one: a coarse sensor, or a torque that hardly varies.
        """
        share = self.at_bound / max(self.samples, 1)
        usual = 1.0 if self.next_share is None else self.next_share
        return np.where(share > FAR * usual, share, 0.0)


def _next_share(torque: Array) -> float:
    """Return the share of samples (N,) at the largest value below the largest one."""
    values, counts = np.unique(torque, return_counts=True)
    below = counts[values < values[-1] * (1 - FAINT)]
    return float(below[-1]) / len(torque) if len(below) else 1.0


def _looked_at(chunk: AnyRecording, row: int, progress: object) -> tuple[_Ranges, list[_Stretch]]:
    """Return what a chunk that begins at a row of the log holds, and its parts of runs."""
    ranges, stretches = _Ranges.of(chunk.n), list[_Stretch]()
    runs: Sequence[AnyRecording] = chunk.runs
    for run in runs:
        first, last, step, samples = math.nan, math.nan, math.nan, 0
        for tile in run.tiles():
            if not samples:
                first = float(tile.t[0])
                steps = np.diff(tile.t)
                step = float(np.median(steps[steps > 0])) if np.any(steps > 0) else math.nan
            samples, last = samples + len(tile), float(tile.t[-1])
            ranges.add(tile)
        stretches.append(_Stretch(row, samples, first, last, step))
        row += len(run)
    return ranges, stretches


def log_facts(
    robot: Robot, raw: AnyRecording, prepared: AnyRecording | None
) -> tuple[list[JointFacts], list[RunFacts]]:
    """Return the facts of each joint, of the log as read and speeds of the prepared one, where
    there is one; of runs.

    Of a run: its length, and the rate of its first samples. Logs on disk are read once, by workers
    if they have some.
    """
    ranges, starts = _Ranges.of(robot.n), raw.starts
    parts: list[list[_Stretch]] = [[] for _ in starts]
    for found_there, stretches in raw.each(_looked_at, left_out=True):
        ranges.join(found_there)
        for stretch in stretches:
            parts[bisect_right(starts, stretch.row) - 1].append(stretch)
    runs = [
        RunFacts(sum(part.samples for part in own), own[-1].last - own[0].first, 1.0 / own[0].step)
        for own in parts
        if own
    ]
    known = 1.0 if "tau" in raw.signals else math.nan
    rms = np.sqrt(ranges.squares / max(ranges.samples, 1))
    measured = {"least": ranges.least, "most": ranges.most, "saturated": ranges.saturated}
    measured |= {"torque": known * ranges.torque, "torque_rms": known * rms}
    moving, reversals = _motion(prepared, robot.n)
    found = []
    for place, index in enumerate(robot.independent):
        joint = robot.joints[index]
        limits, unit = joint.limits, "rad" if joint.turns else "m"
        bounds = limits.lower, limits.upper, limits.velocity, limits.effort
        values = {name: float(values[place]) for name, values in (measured | moving).items()}
        found.append(JointFacts(joint.name, unit, *bounds, int(reversals[place]), **values))
    return found, runs


def _motion(recording: AnyRecording | None, n: int) -> tuple[dict[str, Array], Array]:
    """Return largest speed and share of standstill of each joint (n,), and its reversals (n,)."""
    if recording is None or "dq" not in recording.signals:
        unknown = np.full(n, np.nan)
        return {"speed": unknown, "standstill": unknown}, np.zeros(n)
    speed = np.maximum.reduce([np.zeros(n), *recording.each(_fastest)])
    slow, reversals, samples = np.zeros(n), np.zeros(n), 0
    last, starts = np.zeros(n), recording.starts
    for row, count, resting, turns, first, final in chain.from_iterable(
        recording.each(partial(_reversals, speed))
    ):
        last = np.zeros(n) if row in starts else last
        slow, samples = slow + resting, samples + count
        reversals += turns + (last * first < 0)
        last = np.where(final == 0, last, final)
    return {"speed": speed, "standstill": slow / max(samples, 1)}, reversals


def _fastest(chunk: AnyRecording, row: int, progress: object) -> Array:
    """Return the largest speed of each joint (n,)."""
    speeds = [np.abs(np.asarray(tile.dq)).max(axis=0, initial=0.0) for tile in chunk.tiles()]
    return np.asarray(np.maximum.reduce([np.zeros(chunk.n), *speeds]))


def _reversals(
    speed: Array, chunk: AnyRecording, row: int, progress: object
) -> list[tuple[int, int, Array, Array, Array, Array]]:
    """Return of each part of a run, for each joint (n,) whose largest speed is given.

    Slow samples and reversals. Before them where it begins and how many samples it has, after them
    the way that each joint goes first and last.
    """
    made, runs = [], list[AnyRecording](chunk.runs)
    for run in runs:
        slow, turns, first, last = (np.zeros(chunk.n) for _ in range(4))
        count = 0
        for tile in run.tiles():
            moving = np.abs(np.asarray(tile.dq)) > MAX_STANDSTILL * speed
            slow, count = slow + np.sum(~moving, axis=0), count + len(tile)
            for k in range(chunk.n):
                ways = np.sign(np.asarray(tile.dq)[moving[:, k], k])
                ways = np.concatenate([[last[k]], ways]) if last[k] else ways
                turns[k] += np.sum(np.diff(ways) != 0)
                if len(ways):
                    first[k], last[k] = first[k] or ways[0], ways[-1]
        made.append((row, count, slow, turns, first, last))
        row += len(run)
    return made


def fact_notices(joints: list[JointFacts], runs: list[RunFacts]) -> list[Notice]:
    """Return what is odd about the motion and the torques of a log."""
    found: list[Notice] = []
    for one in joints:
        name = one.name
        if one.saturated > MIN_SATURATED:
            text = (
                f"joint {name!r}: its torque is at {one.torque:.4g} in {100 * one.saturated:.2g} "
                "% of the samples"
            )
            found.append(SATURATED(text, joint=name, torque=one.torque, share=one.saturated))
        if one.speed > 0 and one.reversals < MIN_REVERSALS:
            found.append(
                FEW_REVERSALS(
                    f"joint {name!r} reverses {one.reversals} times",
                    joint=name,
                    count=one.reversals,
                )
            )
        if one.speed > 0 and one.standstill > MOST:
            text = f"joint {name!r} stands still for {100 * one.standstill:.0f} % of the log"
            found.append(RESTS(text, joint=name, share=one.standstill))
        if one.speed > FACTOR * one.speed_limit:
            text = (
                f"joint {name!r}: speeds reach {one.speed:.4g}, the limit is "
                f"{one.speed_limit:.4g} {one.unit}/s"
            )
            found.append(SPEED_LIMIT(text, joint=name, speed=one.speed, limit=one.speed_limit))
    rates = [run.rate for run in runs if math.isfinite(run.rate)]
    if rates and max(rates) > FACTOR * min(rates):
        text = f"runs have between {min(rates):.4g} and {max(rates):.4g} samples per second"
        found.append(UNEVEN_RUNS(text, slowest=min(rates), fastest=max(rates)))
    return found
