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
from numpy.typing import NDArray

from minidyn.arrays import Array
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

WELL, FAIR = 0.1, 0.3
"""Relative standard deviations up to which a parameter is shown well, and up to which it is shown
fairly.
"""
HEADINGS = (
    "joint", "position", "limits", "speed", "torque", "scale", "noise", "reversals", "standstill", "saturated",  # noqa: E501
)  # fmt: skip
"""Of the table of joints."""
_TILE = 1 << 16
_EQUAL = 1e-6  # of the largest torque: values so near to it are cut off there
_DISTINCT = 200  # values of a coarse sensor: equal ones are no sign of saturation
_VARIES = 0.2  # of the largest torque: one that varies by less is nearly constant
_BOUND = 0.98  # of the effort limit
_SATURATED = 0.005  # share of samples at the bound that is worth a word
_SLOW = 0.02  # of the largest speed: slower is standstill
_RESTING = 0.8  # share of standstill that is worth a word
_REVERSALS = 2  # that are too few
_TOO_FAST = 1.5  # times the speed limit


@dataclass(frozen=True)
class JointFacts:
    """What a log holds of one joint; SI units, N m or N, joint side. NaN: not known."""

    name: str
    unit: str  # rad or m
    least: float  # position
    most: float
    lower: float  # limits of the robot's file
    upper: float
    speed: float  # largest
    speed_limit: float
    torque: float  # largest
    torque_rms: float
    effort: float  # limit
    reversals: int
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
    return "well" if relative <= WELL else "fairly" if relative <= FAIR else "weakly"


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

    effort: Array  # limits
    least: Array
    most: Array
    torque: Array  # largest, sign apart
    low: Array  # torque, with its sign
    high: Array
    at_bound: Array  # samples near the largest torque
    at_limit: Array  # samples near the limit
    squares: Array
    samples: int = 0
    coarse: NDArray[np.bool_] | None = None  # whether the first samples have few values of torque

    @classmethod
    def of(cls, effort: Array) -> _Ranges:
        n = len(effort)
        none = np.zeros(n)  # nothing is changed in place
        up, down = np.full(n, np.inf), np.full(n, -np.inf)
        return cls(effort, up, down, none, up, down, none, none, none)

    def add(self, tile: Recording) -> None:
        q = np.where(np.isfinite(tile.q), tile.q, np.nan)
        self.least, self.most = (
            np.fmin(self.least, np.fmin.reduce(q)),
            np.fmax(self.most, np.fmax.reduce(q)),
        )
        if tile.tau is not None:
            tau = np.abs(np.nan_to_num(tile.tau))
            if self.coarse is None:
                self.coarse = np.array(
                    [len(np.unique(column)) < min(_DISTINCT, len(tile) / 4) for column in tau.T]
                )
            self._larger(tau.max(axis=0, initial=0.0))
            signed = np.nan_to_num(tile.tau)
            self.low = np.minimum(self.low, signed.min(axis=0, initial=np.inf))
            self.high = np.maximum(self.high, signed.max(axis=0, initial=-np.inf))
            near = (tau >= self.torque * (1 - _EQUAL)) & (self.torque > 0)
            self.at_bound = self.at_bound + np.sum(near, axis=0)
            self.at_limit = self.at_limit + np.sum(tau >= _BOUND * self.effort, axis=0)
            self.squares = self.squares + np.sum(tau**2, axis=0)
        self.samples += len(tile)

    def _larger(self, highest: Array) -> None:
        """Begin to count anew where a larger torque was found."""
        self.at_bound = np.where(highest > self.torque * (1 + _EQUAL), 0.0, self.at_bound)
        self.torque = np.maximum(self.torque, highest)

    def join(self, after: _Ranges) -> None:
        """Add what other samples hold, those that come next."""
        self.least, self.most = np.fmin(self.least, after.least), np.fmax(self.most, after.most)
        self.low, self.high = np.minimum(self.low, after.low), np.maximum(self.high, after.high)
        before = self.torque
        self._larger(after.torque)
        self.at_bound = self.at_bound + np.where(
            before > after.torque * (1 + _EQUAL), 0.0, after.at_bound
        )
        self.at_limit, self.squares = self.at_limit + after.at_limit, self.squares + after.squares
        self.coarse = after.coarse if self.coarse is None else self.coarse
        self.samples += after.samples


def _looked_at(
    effort: Array, chunk: AnyRecording, row: int, progress: object
) -> tuple[_Ranges, list[_Stretch]]:
    """Return what a chunk that begins at a row of the log holds, and its parts of runs."""
    ranges, stretches = _Ranges.of(effort), list[_Stretch]()
    runs: Sequence[AnyRecording] = chunk.runs
    for run in runs:
        first, last, step, samples = math.nan, math.nan, math.nan, 0
        for tile in run.tiles(_TILE):
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
    n, starts = robot.n, raw.starts
    ranges = _Ranges.of(
        np.array([robot.joints[index].limits.effort for index in robot.independent])
    )
    parts: list[list[_Stretch]] = [[] for _ in starts]
    for found_there, stretches in raw.each(partial(_looked_at, ranges.effort), left_out=True):
        ranges.join(found_there)
        for stretch in stretches:
            parts[bisect_right(starts, stretch.row) - 1].append(stretch)
    runs = [
        RunFacts(sum(part.samples for part in own), own[-1].last - own[0].first, 1.0 / own[0].step)
        for own in parts
        if own
    ]
    coarse = np.zeros(n, dtype=bool) if ranges.coarse is None else ranges.coarse
    even = ~(ranges.high - ranges.low > _VARIES * ranges.torque)  # equal values are no bound there
    at_bound = np.where(
        coarse | even | (ranges.at_bound < 2), 0.0, ranges.at_bound
    )  # some sample is the largest
    share = np.maximum(at_bound, ranges.at_limit) / max(ranges.samples, 1)
    least, most, torque, squares, samples = (
        ranges.least,
        ranges.most,
        ranges.torque,
        ranges.squares,
        ranges.samples,
    )
    speed, still, reversals = _motion(prepared, n)
    found = []
    for k, index in enumerate(robot.independent):
        joint = robot.joints[index]
        found.append(
            JointFacts(
                name=joint.name,
                unit="rad" if joint.turns else "m",
                least=float(least[k]),
                most=float(most[k]),
                lower=joint.limits.lower,
                upper=joint.limits.upper,
                speed=float(speed[k]),
                speed_limit=joint.limits.velocity,
                torque=float(torque[k]) if "tau" in raw.signals else math.nan,
                torque_rms=float(np.sqrt(squares[k] / max(samples, 1)))
                if "tau" in raw.signals
                else math.nan,
                effort=joint.limits.effort,
                reversals=int(reversals[k]),
                standstill=float(still[k]),
                saturated=float(share[k]),
            )
        )
    return found, runs


def _motion(recording: AnyRecording | None, n: int) -> tuple[Array, Array, Array]:
    """Return largest speed, share of standstill and number of reversals of each joint.

    Each (n,).
    """
    if recording is None or "dq" not in recording.signals:
        return np.full(n, np.nan), np.full(n, np.nan), np.zeros(n)
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
    return speed, slow / max(samples, 1), reversals


def _fastest(chunk: AnyRecording, row: int, progress: object) -> Array:
    """Return the largest speed of each joint (n,)."""
    speeds = [np.abs(np.asarray(tile.dq)).max(axis=0, initial=0.0) for tile in chunk.tiles(_TILE)]
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
        for tile in run.tiles(_TILE):
            moving = np.abs(np.asarray(tile.dq)) > _SLOW * speed
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
        if one.saturated > _SATURATED:
            text = (
                f"joint {name!r}: its torque is at {one.torque:.4g} in {100 * one.saturated:.2g} "
                "% of the samples"
            )
            found.append(SATURATED(text, joint=name, torque=one.torque, share=one.saturated))
        if one.speed > 0 and one.reversals < _REVERSALS:
            found.append(
                FEW_REVERSALS(
                    f"joint {name!r} reverses {one.reversals} times",
                    joint=name,
                    count=one.reversals,
                )
            )
        if one.speed > 0 and one.standstill > _RESTING:
            text = f"joint {name!r} stands still for {100 * one.standstill:.0f} % of the log"
            found.append(RESTS(text, joint=name, share=one.standstill))
        if one.speed > _TOO_FAST * one.speed_limit:
            text = (
                f"joint {name!r}: speeds reach {one.speed:.4g}, the limit is "
                f"{one.speed_limit:.4g} {one.unit}/s"
            )
            found.append(SPEED_LIMIT(text, joint=name, speed=one.speed, limit=one.speed_limit))
    rates = [run.rate for run in runs if math.isfinite(run.rate)]
    if rates and max(rates) > 1.5 * min(rates):
        text = f"runs have between {min(rates):.4g} and {max(rates):.4g} samples per second"
        found.append(UNEVEN_RUNS(text, slowest=min(rates), fastest=max(rates)))
    return found
