"""What is wrong with a log: uneven times, gaps, numbers that are none, units that cannot be. Found, not mended."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from minidyn.arrays import Array
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

_DEGREES = 180 / math.pi
_RATIOS = {"degrees": _DEGREES, "millimetres": 1000.0}


class StepCheck:
    """Counts irregular steps of time while a log is read, batch by batch.

    Gaps and jitter are measured against the median step of the first batch.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._step = 0.0
        self._steps = self._repeated = self._gaps = 0
        self._longest, self._where = 0.0, 0.0
        self._sum = self._squares = 0.0

    def add(self, times: Array) -> None:
        """Take the next times (N,) of the same run, s."""
        if self._last is not None:
            times = np.concatenate([[self._last], times])
        if not len(times):
            return
        self._last = float(times[-1])
        steps = np.diff(times)
        if not len(steps):
            return
        if not self._step:
            self._step = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 0.0
        gaps = steps > 2.5 * self._step
        self._repeated += int(np.sum(steps == 0))
        self._gaps += int(gaps.sum())
        if steps.max() > self._longest:
            self._longest, self._where = float(steps.max()), float(times[int(np.argmax(steps))])
        regular = steps[~gaps]
        self._steps += len(regular)
        self._sum += float(regular.sum())
        self._squares += float(((regular - self._step) ** 2).sum())

    def new_run(self) -> None:
        """Forget the last time: the next one begins a run."""
        self._last = None

    def notices(self, name: str) -> list[str]:
        """Return what was found, the file's name before it."""
        if not self._steps or not self._step:
            return [f"{name}: time stands still"] if self._repeated else []
        found = []
        if self._repeated:
            found.append(f"{name}: {self._repeated} of {self._steps} samples repeat the time before them")
        if self._gaps:
            found.append(
                f"{name}: {self._gaps} gaps in time, the longest {self._longest:.4g} s after t = {self._where:.6g} s "
                f"(step {self._step:.4g} s)"
            )
        mean = self._sum / self._steps
        spread = math.sqrt(self._squares / self._steps)
        if spread > 0.02 * self._step:
            found.append(
                f"{name}: time steps vary by {100 * spread / self._step:.3g} % (median {self._step:.6g} s, mean "
                f"{mean:.6g} s); nothing is resampled"
            )
        return found


def inspect_values(recording: Recording, robot: Robot | None, place: Callable[[int], str], name: str) -> list[str]:
    """Return notices on one file's values: not finite, joints that stand still or are held, units, signs.

    Args:
        recording: What was read, in the units it is believed to be in.
        robot: Its limits, where known, tell degrees from radians.
        place: Where a sample stands in the file.
        name: The file's name.
    """
    found: list[str] = []
    for signal in ("q", "dq", "ddq", "tau"):
        values = getattr(recording, signal)
        if values is None:
            continue
        bad = ~np.isfinite(values)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            found.append(
                f"{name}: {int(bad.sum())} values of {signal} are not numbers, the first at {place(int(row))}, joint "
                f"{recording.joint_names[column]}; they are kept"
            )
    if len(recording) < 2:
        return found
    found += _still(recording, name)
    for index, joint in enumerate(recording.joint_names):
        found += [f"{name}: joint {joint}: {text}" for text in _ranges(recording, robot, index)]
        text = _speed_unit(recording, index)
        if text:
            found.append(f"{name}: joint {joint}: {text}")
    return found


def _still(recording: Recording, name: str) -> list[str]:
    q = recording.q
    with np.errstate(invalid="ignore"):
        moves = np.nanmax(q, axis=0, initial=-np.inf) > np.nanmin(q, axis=0, initial=np.inf)
    found = []
    if not moves.any():
        return [f"{name}: no joint moves"]
    if not moves.all():
        still = ", ".join(joint for joint, moving in zip(recording.joint_names, moves) if not moving)
        found.append(f"{name}: never moving: {still}")
    same = np.all(np.diff(q, axis=0) == 0, axis=1)
    speed = np.abs(np.diff(q, axis=0)).max(axis=1)
    busy = speed > 0
    if busy.sum() > 20:
        first, last = np.flatnonzero(busy)[[0, -1]]
        held = same[first:last].mean()
        if held > 0.3:
            found.append(
                f"{name}: positions repeat in {100 * held:.0f} % of the moving samples: logged faster than measured"
            )
    return found


def _ranges(recording: Recording, robot: Robot | None, index: int) -> list[str]:
    q = recording.q[:, index]
    q = q[np.isfinite(q)]
    if not len(q):
        return []
    largest = float(np.abs(q).max())
    if robot is None:
        if largest > 4 * math.pi:
            return [f"positions reach {largest:.4g}: degrees or motor side? (units, gear_ratio)"]
        return []
    joint = robot.joints[robot.joint_index(recording.joint_names[index])]
    found = []
    lower, upper = joint.limits.lower, joint.limits.upper
    finite = math.isfinite(lower) and math.isfinite(upper) and upper > lower
    reach = max(abs(lower), abs(upper)) if finite else 4 * math.pi if joint.turns else math.inf
    unit = "millimetres" if joint.slides else "degrees"
    if largest > 1.5 * reach:
        fits = largest <= 1.1 * reach * _RATIOS[unit]
        word = "mm" if joint.slides else "deg"
        guess = f"{unit} (units={word!r}) or motor side (gear_ratio)?" if fits else "motor side (gear_ratio)?"
        found.append(
            f"positions reach {largest:.4g}, the limit is {reach:.4g} {'m' if joint.slides else 'rad'}: {guess}"
        )
    elif finite and (q.max() > upper + 0.02 * reach or q.min() < lower - 0.02 * reach):
        found.append(
            f"positions {q.min():.4g} ... {q.max():.4g} leave the limits {lower:.4g} ... {upper:.4g}: offset or sign?"
        )
    if recording.tau is not None and math.isfinite(joint.limits.effort) and joint.limits.effort > 0:
        torque = recording.tau[:, index]
        torque = torque[np.isfinite(torque)]
        if len(torque) and np.abs(torque).max() > 3 * joint.limits.effort:
            found.append(
                f"torques reach {np.abs(torque).max():.4g}, the limit is {joint.limits.effort:.4g}: wrong unit or gain?"
            )
    return found


def _speed_unit(recording: Recording, index: int) -> str:
    """Compare measured speeds with differences of positions: their ratio tells units and signs apart."""
    if recording.dq is None or len(recording) < 20:
        return ""
    steps = np.diff(recording.t)
    change = np.diff(recording.q[:, index])
    speed = 0.5 * (recording.dq[1:, index] + recording.dq[:-1, index])
    use = (steps > 0) & np.isfinite(change) & np.isfinite(speed)
    use[[start - 1 for start in recording.starts[1:]]] = False
    if use.sum() < 20:
        return ""
    rate = change[use] / steps[use]
    power = float(rate @ rate)
    other = float(speed[use] @ speed[use])
    if power == 0 or other == 0:
        return ""
    inner = float(rate @ speed[use])
    if abs(inner) < 0.7 * math.sqrt(power * other):
        return "measured speeds do not follow the positions (wrong columns or order?)" if power > 1e-6 else ""
    ratio = inner / power
    if ratio < 0:
        return "measured speeds have the opposite sign of the positions' change"
    if abs(ratio - 1) < 0.2:
        return ""
    for unit, factor in _RATIOS.items():
        if abs(ratio / factor - 1) < 0.1 or abs(ratio * factor - 1) < 0.1:
            side = "speeds" if ratio > 1 else "positions"
            return f"measured speeds are {ratio:.4g} times the positions' change: {side} in {unit}?"
    return f"measured speeds are {ratio:.4g} times the positions' change: units or time differ"
