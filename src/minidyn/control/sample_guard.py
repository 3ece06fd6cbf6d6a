"""Which samples a program that runs beside the robot may use.

A value that is no number, or that no robot can have, would stay in the state of an observer or an
adaptive law for ever, and a comparison with it is always false: nothing would be seen any more. So
each sample is checked first. One that fails holds the state, is reported and counted; where no
sample could be used for some time, "not watching" is an alarm by itself.

The generated C does the same (:mod:`minidyn.control.guarded_source`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.control.controller import positive
from minidyn.control.sample_status import Codes, Flags, SampleStatus
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph, sign
from minidyn.graph.targets.native.kernel import NativeFunction, compile_function
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot

POSITION_MARGIN = 0.5
"""Share of a joint's range by which a position may lie outside of it."""
LEAST_POSITION_MARGIN = {True: 0.5, False: 0.1}
"""Least margin of positions, of joints that turn (rad) and slide (m)."""
SPEED_FACTOR = 2.0
"""Times the speed limit that a speed may be."""
TORQUE_FACTOR = 3.0
"""Times the effort limit that a torque may be."""
MAX_POSITION = {True: 1e6, False: 1e3}
"""Largest position of joints without limits, rad and m."""
MAX_SPEED = {True: 100.0, False: 20.0}
"""Largest speed of joints without limits, rad/s and m/s."""
MAX_TORQUE = 1e5
"""Largest torque of joints without limits, N m or N."""
STUCK_TRAVEL = 0.01
"""Travel, rad or m, that a position and a speed which repeats must disagree by."""
STUCK_TORQUE_TRAVEL = 0.1
"""Travel, rad or m, in which the torque of a joint must change by its last digit."""
GAP = 0.5
"""Share of a period that the time between two samples may be off."""
NEVER = 1e300
"""A bound that no value passes, and seconds that never end."""

NOT_BEGUN, INTERRUPTED, RUNNING = 0.0, 1.0, 2.0
"""Phases: no sample yet; the last sample cannot be gone on from; it can."""


@dataclass(frozen=True, eq=False)
class SampleGuard:
    """What is checked of each sample [q, dq, tau] before it is used.

    Attributes:
        lower: Least values (3n,) of positions, speeds and torques.
        upper: Largest values (3n,).
        effort: Effort limits (n,), N m or N, infinite where there are none: a torque there may
            repeat itself.
        period: Of the samples, s.
        frozen: Seconds that a signal may repeat itself while the joint moves.
        watchdog: Seconds without a usable sample after which "not watching" is an alarm.
        standstill: Error of a speed, rad/s or m/s, that is no sign of a signal which is stuck.
    """

    lower: Array
    upper: Array
    effort: Array
    period: float
    frozen: float
    watchdog: float
    standstill: float

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.effort)

    @property
    def size(self) -> int:
        """Length of the memory.

        Last sample, how often each value was repeated, what moved meanwhile (3n each), phase,
        periods without a usable sample, samples held in all.
        """
        return 9 * self.n + 3

    @cached_property
    def limit(self) -> float:
        """Periods without a usable sample after which nobody watches."""
        return max(1.0, self.watchdog / self.period)

    @cached_property
    def jump(self) -> Array:
        """Farthest (n,) that a joint gets in a period, rad or m."""
        return np.asarray(self.upper[self.n : 2 * self.n] * self.period + STUCK_TRAVEL)

    @cached_property
    def travel(self) -> Array:
        """Travel (3n,) beyond which a value must have changed, rad or m."""
        return np.repeat([STUCK_TRAVEL, STUCK_TRAVEL, STUCK_TORQUE_TRAVEL], self.n)

    def sample(self, q: ArrayLike, dq: ArrayLike, tau: ArrayLike) -> Array:
        """Return [q, dq, tau] (..., 3n)."""
        parts = [np.asarray(part, dtype=float) for part in (q, dq, tau)]
        if any(part.shape[-1:] != (self.n,) for part in parts):
            shapes = [part.shape for part in parts]
            raise ShapeError(f"expected q, dq and tau of shape (..., {self.n}), got {shapes}")
        if parts[0].ndim > 1 or parts[1].ndim > 1 or parts[2].ndim > 1:
            parts = list(np.broadcast_arrays(*parts))
        return np.concatenate(parts, axis=-1)

    def possible(self, sample: Array) -> tuple[Flags, Flags]:
        """Return whether samples (..., 3n) are finite, and whether they are within their bounds."""
        inside = ((sample >= self.lower) & (sample <= self.upper)).all(axis=-1)
        return np.asarray(np.isfinite(sample).all(axis=-1)), np.asarray(inside)

    def check(
        self,
        memory: Array,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        elapsed: ArrayLike | None = None,
        computes: ArrayLike = True,
    ) -> tuple[Codes, Array, Flags]:
        """Return (status (...), next memory (..., size), whether the sample is used (...)).

        Elapsed is the time since the sample before, s; None: one period. `computes` is whether what
        is computed of the sample is finite.
        """
        sound = np.asarray(computes)
        if elapsed is None and sound.all():  # nearly always: one call of machine code
            suspect, following = self._quick(memory, q, dq, tau)
            if not suspect.any():
                return np.zeros(suspect.shape, dtype=np.int64), following, sound | True
        sample = self.sample(q, dq, tau)
        m, period = 3 * self.n, self.period
        finite, inside = self.possible(sample)
        finite = finite & (sound | ~inside)  # what is beyond its bound may overflow
        last, phase = memory[..., :m], memory[..., 3 * m]
        passed = np.asarray(1.0 if elapsed is None else np.asarray(elapsed, dtype=float) / period)
        sane, begun = finite & inside, phase > NOT_BEGUN
        with np.errstate(all="ignore"):
            repeats = (sample == last) & begun[..., None]
            same = np.where(repeats, memory[..., m : 2 * m] + 1.0, 0.0)
            added, step = self._moved(sample, last)
            travel = np.where(repeats, memory[..., 2 * m : 3 * m] + added, 0.0)
            stuck = sane & self._is_stuck(sample, same, travel)
            gap = ~(np.abs(passed - 1.0) <= GAP)
            gap |= (phase == RUNNING) & (step > self.jump).any(axis=-1)
        gap = gap & sane & ~stuck & begun
        based = sane & ~stuck
        status = _flags(finite, inside, stuck, gap)
        kept = np.concatenate([sample, same, travel], axis=-1)
        kept = np.where(sane[..., None], kept, memory[..., : 3 * m])
        following = np.where(based, RUNNING, np.where(begun, INTERRUPTED, NOT_BEGUN))
        used = based & ~gap & (phase == RUNNING)
        begins = based & ~begun
        return self._counted(
            status, used, begins, passed, np.concatenate([kept, following[..., None]], -1), memory
        )

    @cached_property
    def _quick(self) -> NativeFunction:
        return compile_function(self.program())

    def program(self) -> Function:
        """Return (memory, q, dq, tau) -> (suspect, next_memory), recorded.

        `suspect` is zero where the sample is used without a question, and then next_memory holds;
        else it is positive or NaN.
        """
        graph, n, m = Graph(), self.n, 3 * self.n
        memory = graph.inputs("memory", self.size)
        q, dq, tau = (graph.inputs(name, n) for name in ("q", "dq", "tau"))
        phase, unused, held = memory[3 * m :]
        suspect: Scalar = (phase - RUNNING) * (phase - RUNNING) + unused * unused
        sample, steps = [*q, *dq, *tau], [q[j] - memory[j] for j in range(n)]
        ways = [self.period * speed for speed in dq]
        added = [*ways, *(a - b for a, b in zip(steps, ways)), *(x * sign(x) for x in steps)]
        bounds = zip(sample, self.lower.tolist(), self.upper.tolist())
        suspect += sum(2.0 - sign(x - low) - sign(high - x) for x, low, high in bounds)
        suspect += sum(
            1.0 - sign(far - step * sign(step)) for step, far in zip(steps, self.jump.tolist())
        )
        same, travel = [], []
        for k, (value, more) in enumerate(zip(sample, added)):
            change = sign(value - memory[k])
            repeats = 1.0 - change * change
            same.append((memory[m + k] + 1.0) * repeats)
            travel.append((memory[2 * m + k] + more) * repeats)
            suspect += 1.0 - sign(self.frozen - self.period * same[-1])
        following = [*sample, *same, *travel, phase, unused, held]
        return graph.function("quick_check", {"suspect": suspect, "next_memory": following})

    def _counted(
        self, status: Codes, used: Flags, begins: Flags, passed: Array, kept: Array, memory: Array
    ) -> tuple[Codes, Array, Flags]:
        """Return what `check` does, with the samples that were held counted."""
        grown = memory[..., -2] + np.where(used, -1.0, np.where(begins, 0.0, _lost(passed)))
        unused = np.clip(grown, 0.0, self.limit)
        status = status | np.where(used, 0, SampleStatus.HELD)
        status = status | np.where(unused < self.limit, 0, SampleStatus.NOT_WATCHING)
        held = memory[..., -1] + np.where(used | begins, 0.0, 1.0)
        counts = np.stack(np.broadcast_arrays(unused, held), axis=-1)
        return status, np.concatenate([kept, counts], axis=-1), used

    def _moved(self, sample: Array, last: Array) -> tuple[Array, Array]:
        """Return what shows that each value (..., 3n) had to change, and the steps (..., n).

        Of a position: the way that its speed says; of a speed: the way that it does not say; of a
        torque: the way of the joint.
        """
        n = self.n
        step = sample[..., :n] - last[..., :n]
        way = self.period * sample[..., n : 2 * n]
        size = np.abs(step)
        return np.concatenate([way, step - way, size], axis=-1), size

    def _is_stuck(self, sample: Array, same: Array, travel: Array) -> Flags:
        """Return whether some value of samples (..., 3n) repeats itself and should not."""
        seconds = same * self.period
        stuck = (seconds > self.frozen) & (np.abs(travel) > self.travel + self.standstill * seconds)
        stuck[..., 2 * self.n :] &= np.abs(sample[..., 2 * self.n :]) < self.effort
        return np.asarray(stuck.any(axis=-1))

    def along(self, sample: Array, elapsed: Array) -> tuple[Codes, Flags, int]:
        """Return what checking samples (N, 3n) of one run, one after the other, gives.

        Status (N,), whether each sample is used (N,), and the first one that is one at all.
        Elapsed (N,) are the times since the sample before, s; the first counts as one period.
        """
        finite, inside = self.possible(sample)
        sane = finite & inside
        stuck, jumps = np.zeros(len(sample), dtype=bool), np.zeros(len(sample), dtype=bool)
        stuck[sane], jumps[sane] = self._repeats(sample[sane])
        based = sane & ~stuck
        first = int(np.argmax(based)) if based.any() else len(sample)
        running = np.concatenate([[False], based[:-1]])
        passed = np.concatenate([[1.0], elapsed[1:] / self.period])
        gap = ~(np.abs(passed - 1.0) <= GAP) | (jumps & running)
        gap &= based & (np.arange(len(sample)) > first)
        used = based & ~gap & running
        status = _flags(finite, inside, stuck, gap) | np.where(used, 0, SampleStatus.HELD)
        begins = np.arange(len(sample)) == first
        change = np.where(used, -1.0, np.where(begins, 0.0, _lost(passed)))
        unused = _within(change, used, self.limit)
        status |= np.where(unused < self.limit, 0, SampleStatus.NOT_WATCHING)
        return status, used, first

    def _repeats(self, sample: Array) -> tuple[Flags, Flags]:
        """Return whether possible samples (N, 3n) are stuck, and whether they jump."""
        step = np.abs(np.diff(sample[:, : self.n], axis=0))
        first = np.zeros(min(1, len(sample)), dtype=bool)
        jumps = np.concatenate([first, (step > self.jump).any(axis=1)])
        equal = np.concatenate(
            [np.zeros((len(first), 3 * self.n), bool), sample[1:] == sample[:-1]]
        )
        if not equal.any():
            return np.zeros(len(sample), dtype=bool), jumps
        added = np.zeros(sample.shape)
        added[1:] = self._moved(sample[1:], sample[:-1])[0]
        places = np.arange(len(sample))[:, None]
        changed = np.maximum.accumulate(np.where(equal, 0, places), axis=0)
        ways = np.cumsum(added, axis=0)
        travel = ways - np.take_along_axis(ways, changed, axis=0)
        return self._is_stuck(sample, (places - changed).astype(float), travel), jumps


def _flags(finite: Flags, inside: Flags, stuck: Flags, gap: Flags) -> Codes:
    """Return the causes of each sample as numbers."""
    status = np.where(finite, np.where(inside, 0, SampleStatus.OUT_OF_RANGE), 0)
    status = status | np.where(finite, 0, SampleStatus.NOT_FINITE)
    status = status | np.where(stuck, SampleStatus.STUCK, 0)
    return np.asarray(status | np.where(gap, SampleStatus.GAP, 0))


def _lost(passed: Array) -> Array:
    """Return how many periods go by with a sample that is held: one where the time is unknown."""
    return np.where(np.isfinite(passed) & (passed > 1.0), passed, 1.0)


def _within(change: Array, used: Flags, limit: float) -> Array:
    """Return a sum of changes that stays between zero and a limit, sample by sample (N,)."""
    sums, level, begin = np.zeros(len(change)), 0.0, 0
    for _, group in groupby(used.tolist()):
        end = begin + sum(1 for _ in group)
        sums[begin:end] = np.clip(level + np.cumsum(change[begin:end]), 0.0, limit)
        level, begin = float(sums[end - 1]), end
    return sums


def sample_guard(
    robot: Robot,
    period: float,
    *,
    bounds: Mapping[str, ArrayLike] | None = None,
    frozen: float = 0.2,
    watchdog: float = 0.05,
    standstill: float = 0.02,
) -> SampleGuard:
    """Return what is checked of each sample of a robot.

    Args:
        robot: Whose limits give the bounds: positions half a range outside of theirs, twice the
            speed limit, three times the effort limit. Where there are none: 1e6 rad and 1 km, 100
            rad/s and 20 m/s, 1e5 N m and N.
        period: Of the samples, s.
        bounds: Other bounds, each a number or one for each joint: "lower" and "upper" of positions,
            "speed", "torque".
        frozen: Seconds that a signal may repeat itself to the last digit while the joint moves;
            infinite: for ever.
        watchdog: Seconds without a usable sample after which "not watching" is an alarm.
        standstill: Error of a speed, rad/s or m/s, that is no sign of a signal which is stuck.
    """
    joints = [robot.joints[index] for index in robot.independent]
    chosen = {
        "lower": [_range_of(joint)[0] for joint in joints],
        "upper": [_range_of(joint)[1] for joint in joints],
        "speed": [
            _limit(joint.limits.velocity, SPEED_FACTOR, MAX_SPEED[joint.turns]) for joint in joints
        ],
        "torque": [_limit(joint.limits.effort, TORQUE_FACTOR, MAX_TORQUE) for joint in joints],
    }
    values = {name: np.asarray(value, dtype=float) for name, value in chosen.items()}
    for name, given in (bounds or {}).items():
        if name not in values:
            raise UnknownName("bounds", name, tuple(values))
        values[name] = _bound(name, given, robot.n)
    if np.any(values["lower"] >= values["upper"]):
        raise MinidynError("bounds: lower must be below upper at each joint")
    for name in ("speed", "torque"):
        if np.any(values[name] <= 0.0):
            raise MinidynError(f"bounds: {name} must be positive")
    lasting = NEVER if frozen == np.inf else positive("frozen", frozen)
    effort = np.array([_limit(joint.limits.effort, 0.98, NEVER) for joint in joints])
    lower = np.concatenate([values["lower"], -values["speed"], -values["torque"]])
    upper = np.concatenate([values["upper"], values["speed"], values["torque"]])
    return SampleGuard(
        lower, upper, effort, period, lasting, positive("watchdog", watchdog), standstill
    )


def _bound(name: str, given: ArrayLike, count: int) -> Array:
    bound = np.asarray(given, dtype=float)
    if bound.shape not in ((), (count,)) or np.isnan(bound).any():
        raise MinidynError(f"bounds: {name}: expected a number or {count} of them, got {given!r}")
    return np.asarray(np.clip(np.broadcast_to(bound, (count,)), -NEVER, NEVER))


def _limit(limit: float, factor: float, otherwise: float) -> float:
    """Return a limit times a factor; zero in a robot file is a limit that is not known."""
    return factor * limit if 0.0 < limit < np.inf else otherwise


def _range_of(joint: Joint) -> tuple[float, float]:
    """Return the positions between which a joint's are possible."""
    lower, upper, far = joint.limits.lower, joint.limits.upper, MAX_POSITION[joint.turns]
    width = upper - lower
    margin = max(POSITION_MARGIN * width, LEAST_POSITION_MARGIN[joint.turns]) if width > 0 else far
    return max(lower - margin, -far), min(upper + margin, far)
