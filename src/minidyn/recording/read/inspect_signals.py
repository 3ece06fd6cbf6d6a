"""What is wrong with a log: times out of order or uneven, gaps, NaN, impossible units.

Found, not mended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.model.robot import Robot
from minidyn.notices import Kind, Notice, error, info, warning
from minidyn.recording.prepare.times import JITTER
from minidyn.recording.read.tables import TIME_SORTED
from minidyn.recording.recording import KNOWN_TORQUE, Recording

TIME_RESTARTS = info(
    "recording.time_restarts", "Time begins anew within a file; a new run begins there."
)
TIME_STANDS = error(
    "recording.time_stands_still",
    "All samples have the same time.",
    "Name the right column of time, or give the rate.",
)
REPEATED = warning(
    "recording.repeated_times",
    "Samples have the time of the sample before them.",
    "Where the logger wrote samples twice they are left out by preparation; else give the rate.",
)
ODD_RATE = warning(
    "recording.odd_rate",
    "By its times a log has less than one sample a second, or more than 100,000.",
    "The time column may be in another unit: time_unit='us' (--time-unit us) or rate=HZ (--rate "
    "HZ) says so.",
)
GAPS = info(
    "recording.gaps",
    "Times have gaps: samples were lost while recording.",
    "Check the logger if there are many.",
)
NOT_NUMBERS = info(
    "recording.not_numbers",
    "Some values are not numbers (empty cells, NaN).",
    "Preparation bridges short holes and cuts runs at long ones. Check the logger if there are "
    "many.",
)
STILL = warning(
    "recording.still",
    "Joints never move in this file.",
    "A joint at rest shows neither its inertia nor its friction: move it.",
)
HELD = warning(
    "recording.held",
    "Positions repeat while the robot moves: it is logged faster than it is measured.",
    "Preparation keeps the first sample of each value. Log at the rate of the measurement.",
)
_UNITS = (
    "Check the units and signs of the log: --units q=deg,dq=deg,tau=mNm (units=... in Python) "
    "says units, a mapping file which column is what."
)
DDQ_NOISY = error(
    "recording.ddq_noisy",
    "The accelerations that are used as they are have much noise: masses and inertias come out "
    "wrong.",
    "Leave out --use-ddq (use_ddq=True): accelerations are then computed from filtered positions.",
)
RANGE = error(
    "recording.range",
    "Positions are far beyond the joint's range: a wrong unit, or motor side.",
    _UNITS,
)
LIMITS = warning(
    "recording.limits", "Positions leave the joint's limits: a wrong offset or sign.", _UNITS
)
TORQUE_RANGE = error("recording.torque_range", "Torques are far beyond the joint's limit.", _UNITS)
SPEEDS = error(
    "recording.speeds", "Measured speeds are not those at which the positions change.", _UNITS
)

_Found = tuple[Kind, str, dict[str, Any]]
"""A kind of notice on one joint, its sentence and its data."""

_BURSTS = 0.05  # gaps, of all steps: more are no pauses
_NOISY = 0.1  # of an acceleration's size that may be noise
_WINDOW = (
    0.05  # s over which speeds are compared: noise of single samples is averaged, motion is not
)
_DEGREES = 180 / math.pi
_RATIOS = {"degrees": _DEGREES, "millimetres": 1000.0}


def runs_of(
    times: Array, run: Array | None, name: str
) -> tuple[list[int], NDArray[np.intp] | None, list[Notice]]:
    """Return where runs begin, the order of the samples (None: as they are), and notices.

    Time that falls back to its beginning starts a run; samples that are merely out of order are
    sorted.
    """
    starts = [0] if run is None else [0, *(np.flatnonzero(np.diff(run)) + 1).tolist()]
    notices = []
    restarts = [
        int(row) + 1
        for row in np.flatnonzero(np.diff(times) < 0)
        if int(row) + 1 not in starts and _restarts(times, starts, int(row) + 1)
    ]
    if restarts:
        text = f"{name}: time begins anew {len(restarts)} times; each time a new run begins"
        notices.append(TIME_RESTARTS(text, file=name, count=len(restarts)))
        starts = sorted({*starts, *restarts})
    order = np.arange(len(times))
    moved = 0
    for begin, end in zip(starts, (*starts[1:], len(times))):
        back = int(np.sum(np.diff(times[begin:end]) < 0))
        if back:
            moved += back
            order[begin:end] = begin + np.argsort(times[begin:end], kind="stable")
    if moved:
        text = f"{name}: time runs backwards {moved} times; these samples are sorted by time"
        notices.append(TIME_SORTED(text, file=name, count=moved))
    return starts, order if moved else None, notices


def _restarts(times: Array, starts: Sequence[int], row: int) -> bool:
    begin = max(start for start in starts if start < row)
    return bool(times[row] <= times[begin] + 0.1 * (times[row - 1] - times[begin]))


class StepCheck:
    """Counts irregular steps of time while a log is read, batch by batch.

    Gaps and jitter are measured against the median step of the first batch.
    """

    def __init__(self) -> None:
        self._last = np.zeros(0)  # the time before, none where a run begins
        self._step = 0.0
        self._steps = self._repeated = self._gaps = 0
        self._longest, self._where = 0.0, 0.0
        self._sum = self._squares = self._late = 0.0

    def add(self, times: Array) -> None:
        """Take the next times (N,) of the same run, s."""
        times = np.concatenate([self._last, times])
        self._last = times[-1:]
        steps = np.diff(times)
        if not len(steps):
            return
        if not self._step:
            self._step = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 0.0
        gaps = steps > 2.5 * self._step
        self._repeated += int(np.sum(steps == 0))
        self._gaps += int(gaps.sum())
        self._late += float(steps[gaps].sum())
        if steps.max() > self._longest:
            self._longest, self._where = float(steps.max()), float(times[int(np.argmax(steps))])
        regular = steps[~gaps]
        self._steps += len(regular)
        self._sum += float(regular.sum())
        self._squares += float(((regular - self._step) ** 2).sum())

    def new_run(self) -> None:
        """Forget the last time: the next one begins a run."""
        self._last = np.zeros(0)

    def notices(self, name: str) -> list[Notice]:
        """Return what was found, the file's name before it."""
        if not self._steps or not self._step:
            return [TIME_STANDS(f"{name}: time stands still", file=name)] if self._repeated else []
        found = []
        if (
            self._step > 100
            or (self._step > 1 and self._steps >= 1000)
            or self._step < 1e-5 * (1 - 1e-6)
        ):
            text = (
                f"{name}: {1 / self._step:.3g} samples a second (a step is {self._step:.3g} s), "
                "by its time column"
            )
            found.append(ODD_RATE(text, file=name, rate=1 / self._step))
        if self._repeated:
            text = f"{name}: {self._repeated} of {self._steps} samples repeat the time before them"
            found.append(REPEATED(text, file=name, count=self._repeated, of=self._steps))
        if self._gaps > _BURSTS * self._steps:
            size, mean = (
                self._steps / self._gaps + 1,
                (self._sum + self._late) / (self._steps + self._gaps),
            )
            text = (
                f"{name}: times come in bursts of {size:.2g} samples (step {self._step:.4g} s, "
                f"mean {mean:.4g} s)"
            )
            return [*found, JITTER(text, file=name, share=1.0, median=self._step, mean=mean)]
        if self._gaps:
            text = (
                f"{name}: {self._gaps} gaps in time, the longest {self._longest:.4g} s after t = "
                f"{self._where:.6g} s (step {self._step:.4g} s)"
            )
            found.append(
                GAPS(text, file=name, count=self._gaps, longest=self._longest, after=self._where)
            )
        mean = self._sum / self._steps
        spread = math.sqrt(self._squares / self._steps)
        if spread > 0.02 * self._step:
            text = (
                f"{name}: time steps vary by {100 * spread / self._step:.3g} % (median "
                f"{self._step:.6g} s, mean {mean:.6g} s)"
            )
            found.append(
                JITTER(text, file=name, share=spread / self._step, median=self._step, mean=mean)
            )
        return found


def inspect_values(
    recording: Recording, robot: Robot | None, place: Callable[[int], str], name: str
) -> list[Notice]:
    """Return notices on one file's values.

    Not finite, joints that stand still or are held, units, signs. The robot's limits distinguish
    degrees from radians; `place` says where a sample stands in the file called `name`.
    """
    found: list[Notice] = []
    known = {name: values for name, values in recording.telemetry.items() if name == KNOWN_TORQUE}
    for signal, values in {
        **{name: getattr(recording, name) for name in recording.signals},
        **known,
    }.items():
        bad = ~np.isfinite(values)
        if signal == "tau":  # a torque that is nowhere a number is not measured, which is said then
            bad &= ~bad.all(axis=0)
        if bad.any():
            row, column = (int(k) for k in np.argwhere(bad)[0])
            count, joint = int(bad.sum()), recording.joint_names[column]
            text = (
                f"{name}: {count} values of {signal} are not numbers, the first at {place(row)}, "
                f"joint {joint}; they are kept"
            )
            found.append(
                NOT_NUMBERS(text, file=name, signal=signal, count=count, first=row, joint=joint)
            )
    if len(recording) < 2:
        return found
    found += [*_still(recording, name), *_noisy_accelerations(recording, name)]
    for index, joint in enumerate(recording.joint_names):
        about = {"file": name, "joint": joint}
        for made, text, data in (*_ranges(recording, robot, index), *_speed_unit(recording, index)):
            found.append(made(f"{name}: joint {joint}: {text}", **about, **data))
    return found


def _noisy_accelerations(recording: Recording, name: str) -> list[Notice]:
    """Third differences hardly see a motion, and see noise of single samples 4.5 times as large as
    it is.
    """
    if recording.ddq is None or recording.prepared or len(recording) < 20:
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        noise = (
            1.4826 * np.nanmedian(np.abs(np.diff(recording.ddq, 3, axis=0)), axis=0) / math.sqrt(20)
        )
        share = noise / np.sqrt(np.nanmean(recording.ddq**2, axis=0))
    noisy = [joint for joint, one in zip(recording.joint_names, share) if one > _NOISY]
    if not noisy:
        return []
    worst = float(np.nanmax(share))
    text = (
        f"{name}: accelerations of {', '.join(noisy)} are noisy: up to {100 * worst:.0f} % of "
        "them is noise"
    )
    return [DDQ_NOISY(text, file=name, joints=noisy, share=worst)]


def _still(recording: Recording, name: str) -> list[Notice]:
    q = recording.q
    with np.errstate(invalid="ignore", over="ignore"):
        moves = np.nanmax(q, axis=0, initial=-np.inf) > np.nanmin(q, axis=0, initial=np.inf)
        steps = np.diff(q, axis=0)
    found = []
    still = [joint for joint, moving in zip(recording.joint_names, moves) if not moving]
    if still:
        what = f"never moving: {', '.join(still)}" if moves.any() else "no joint moves"
        found.append(STILL(f"{name}: {what}", file=name, joints=still))
    busy = np.flatnonzero(np.abs(steps).max(axis=1) > 0)
    if len(busy) > 20:
        held = np.all(steps[busy[0] : busy[-1]] == 0, axis=1).mean()
        if held > 0.3:
            text = (
                f"{name}: positions repeat in {100 * held:.0f} % of the moving samples: logged "
                "faster than measured"
            )
            found.append(HELD(text, file=name, share=float(held)))
    return found


def _ranges(recording: Recording, robot: Robot | None, index: int) -> list[_Found]:
    q = recording.q[:, index]
    q = q[np.isfinite(q)]
    if not len(q):
        return []
    largest = float(np.abs(q).max())
    if robot is None:
        text = f"positions reach {largest:.4g}: degrees or motor side? (units, gear_ratio)"
        return [(RANGE, text, {"largest": largest})] if largest > 4 * math.pi else []
    joint = robot.joints[robot.joint_index(recording.joint_names[index])]
    found: list[_Found] = []
    lower, upper = joint.limits.lower, joint.limits.upper
    finite = math.isfinite(lower) and math.isfinite(upper) and upper > lower
    reach = max(abs(lower), abs(upper)) if finite else 4 * math.pi if joint.turns else math.inf
    if largest > 1.5 * reach:
        unit, word, own = ("millimetres", "mm", "m") if joint.slides else ("degrees", "deg", "rad")
        guess = f"{unit} (units={word!r}) or " if largest <= 1.1 * reach * _RATIOS[unit] else ""
        guess += "motor side (gear_ratio)?"
        text = f"positions reach {largest:.4g}, the limit is {reach:.4g} {own}: {guess}"
        found.append((RANGE, text, {"largest": largest, "limit": reach}))
    elif finite and (q.max() > upper + 0.02 * reach or q.min() < lower - 0.02 * reach):
        least, most = float(q.min()), float(q.max())
        text = (
            f"positions {least:.4g} ... {most:.4g} leave the limits {lower:.4g} ... {upper:.4g}: "
            "offset or sign?"
        )
        found.append((LIMITS, text, {"least": least, "most": most, "lower": lower, "upper": upper}))
    if recording.tau is not None and math.isfinite(joint.limits.effort) and joint.limits.effort > 0:
        torque = recording.tau[:, index]
        highest = float(np.abs(torque[np.isfinite(torque)]).max(initial=0.0))
        if highest > 3 * joint.limits.effort:
            text = (
                f"torques reach {highest:.4g}, the limit is {joint.limits.effort:.4g}: wrong unit "
                "or gain?"
            )
            found.append((TORQUE_RANGE, text, {"largest": highest, "limit": joint.limits.effort}))
    return found


def _mean_speeds(recording: Recording, index: int) -> tuple[Array, Array]:
    """Return a joint's mean speeds over short windows.

    From positions, and from measured speeds (K,) each.
    """
    t, q, dq = recording.t, recording.q[:, index], recording.dq
    assert dq is not None  # noqa: S101 - the caller looked
    steps = np.diff(t)
    step = float(np.median(steps))
    width = max(1, min(round(_WINDOW / step) if step > 0 else 1, len(t) // 40))
    moves = 0.5 * (dq[1:, index] + dq[:-1, index]) * steps
    moved = np.concatenate([[0.0], np.cumsum(np.nan_to_num(moves))])
    bad = (steps > 2.5 * step) | ~np.isfinite(moves)  # gaps and holes; and runs
    bad[[start - 1 for start in recording.starts[1:]]] = True
    count = np.concatenate([[0], np.cumsum(bad)])
    first, last = np.arange(0, len(t) - width, width), np.arange(width, len(t), width)
    with np.errstate(invalid="ignore", divide="ignore"):
        span = t[last] - t[first]
        rate, speed = (q[last] - q[first]) / span, (moved[last] - moved[first]) / span
    use = (span > 0) & (count[last] == count[first]) & np.isfinite(rate) & np.isfinite(speed)
    return rate[use], speed[use]


def _speed_unit(recording: Recording, index: int) -> list[_Found]:
    """Compare measured speeds with changes of positions over short windows.

    Their ratio shows wrong units and signs. Noise of either side makes a ratio of least squares too
    small or too large: the true one lies between the two.
    """
    if recording.dq is None or len(recording) < 20:
        return []
    rate, speed = _mean_speeds(recording, index)
    if len(rate) < 20:
        return []
    power, other, inner = float(rate @ rate), float(speed @ speed), float(rate @ speed)
    if power == 0 or other == 0:
        return []
    if abs(inner) < 0.7 * math.sqrt(power * other):
        text = "measured speeds do not follow the positions (wrong columns or order?)"
        return [(SPEEDS, text, {})] if power > 1e-6 else []
    ratio = inner / power
    if ratio < 0:
        return [
            (
                SPEEDS,
                "measured speeds have the opposite sign of the positions' change",
                {"ratio": ratio},
            )
        ]
    if ratio < 1.2 and other / inner > 0.8:
        return []
    ratio = math.sqrt(other / power)
    for unit, factor in _RATIOS.items():
        if abs(ratio / factor - 1) < 0.1 or abs(ratio * factor - 1) < 0.1:
            side = "speeds" if ratio > 1 else "positions"
            text = f"measured speeds are {ratio:.4g} times the positions' change: {side} in {unit}?"
            return [(SPEEDS, text, {"ratio": ratio, "signal": side, "unit": unit})]
    text = f"measured speeds are {ratio:.4g} times the positions' change: units or time differ"
    return [(SPEEDS, text, {"ratio": ratio})]
