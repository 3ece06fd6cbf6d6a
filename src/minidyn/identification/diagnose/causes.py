"""Why a log disagrees with the robot's file: causes, each tried alone, the best first.

With each cause undone, the torque of the file's bodies is compared with the measured one; what
rotors and friction can explain (acceleration, speed, its sign, a constant) is left out of both. The
share of the squared residual that goes away, each joint weighted by its own torque, says how well
a cause explains the log:

    scale of the torque       tau = s · file, s > 0, of all joints or of one; of each joint its own
                              where no other cause convinces
    scale of the time         speeds are k, accelerations k² times what they are
    offset of an encoder      q + δ of one joint
    direction of gravity      another direction of the same strength
    swapped joints            the torques of two joints, or all signals of two
    sign                      torques of all joints, of one, or the whole direction of one
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize_scalar

from minidyn.arrays import Array
from minidyn.dynamics.functions import torques_of_links
from minidyn.model.robot import Robot

_SAMPLES = 300  # that are looked at
_OFFSETS = 24  # of a turn that are tried
_LIGHT = 0.03  # of the largest torque of the file: joints that carry less do not count
_AGREES = 0.04  # share of the squared torque that stays open: the file is not exact
_EXPLAINS = 0.6  # of the squared residual that a cause must take away
_LEFT = 0.12  # of the squared torque that may stay open with it
_LEAST = {"scale": math.log(1.3), "time": math.log(1.15), "offset": 0.1, "gravity": 0.1}

_Motion: TypeAlias = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Cause:
    """One cause, tried alone.

    Attributes:
        kind: "scale", "time", "offset", "gravity", "swapped" or "sign".
        text: In words, with its value.
        explained: Share of the squared residual that goes away with it.
        open: Share of the squared torque that stays open with it.
        is_large: Whether its value is more than a file that is not exact makes.
    """

    kind: str
    text: str
    explained: float
    open: float
    is_large: bool = True

    @property
    def convinces(self) -> bool:
        """Whether it explains nearly all that a file which is not exact leaves."""
        return self.is_large and self.explained >= _EXPLAINS and self.open <= _LEFT


class _Comparison:
    """Torques of the file's bodies against measured ones, without rotors and friction."""

    def __init__(self, robot: Robot, motion: _Motion, tau: Array, known: Array) -> None:
        self.robot, self.motion, self.tau, self.known = robot, motion, tau, known
        file = self.file(motion)
        self.drives = _drive_spans(motion)
        alone = self.alone(file)
        sizes = np.linalg.norm(alone, axis=0)
        self.counts = sizes > _LIGHT * sizes.max(initial=0.0)
        self.open = self.compare(file)

    def file(self, motion: _Motion, gravity: Any = None) -> Array:
        """Return the torques of the file's bodies (N, n)."""
        return torques_of_links(self.robot, motion, self.known, gravity)

    def alone(self, torques: Array, drives: list[Array] | None = None) -> Array:
        """Return torques (N, n) without what rotors and friction can explain."""
        spans = self.drives if drives is None else drives
        return np.stack(
            [column - U @ (U.T @ column) for column, U in zip(torques.T, spans)], axis=1
        )

    def scaled(self, torques: Array) -> tuple[Array, Array]:
        """Return torques and measured ones (N, joints), in units of the measured ones."""
        measured = self.alone(self.tau)[:, self.counts]
        size = np.maximum(np.linalg.norm(measured, axis=0), 1e-300)
        return self.alone(torques)[:, self.counts] / size, measured / size

    def compare(
        self, file: Array, tau: Array | None = None, drives: list[Array] | None = None
    ) -> float:
        """Return the share of the squared torque that stays open, mean over joints that count."""
        measured = self.alone(self.tau if tau is None else tau, drives)
        residual = measured - self.alone(file, drives)
        size = np.maximum(np.sum(measured**2, axis=0), 1e-300)
        return float(np.mean((np.sum(residual**2, axis=0) / size)[self.counts]))


def _drive_spans(motion: _Motion) -> list[Array]:
    """Return an orthonormal basis of what the drive of each joint can explain (N, 4)."""
    _, dq, ddq = motion
    spans = []
    for speed, acceleration in zip(dq.T, ddq.T):
        columns = [acceleration, speed, np.sign(speed), np.ones(len(speed))]
        U, s, _ = np.linalg.svd(np.stack(columns, axis=1), full_matrices=False)
        spans.append(U[:, s > 1e-9 * s.max(initial=1e-300)])
    return spans


def likely_causes(
    robot: Robot,
    motion: _Motion,
    tau: Array,
    known: Array,
    *,
    differs: bool = False,
    scaled: bool = False,
) -> list[Cause]:
    """Return why torques (N, n) are not those of the file, what explains them best first.

    Empty where they are, as far as a file that is not exact can say.

    Args:
        robot: The robot.
        motion: Positions, speeds and accelerations (N, n).
        tau: Measured torques (N, n).
        known: Parameters of the file (p,).
        differs: It is known that the torques of a joint differ.
        scaled: It is known that those of several joints are scaled ones of the file.
    """
    rows = slice(None, None, max(1, len(tau) // _SAMPLES))
    q, dq, ddq = (signal[rows] for signal in motion)
    log = _Comparison(robot, (q, dq, ddq), tau[rows], known)
    if not log.counts.any() or not (differs or log.open > _AGREES):
        return []
    tried: list[Callable[[_Comparison], Iterator[Cause]]] = [
        _scales, _times, _offsets, _gravity, _swapped, _signs,
    ]  # fmt: skip
    causes = [cause for trial in tried for cause in trial(log)]
    if not any(cause.convinces for cause in causes):
        each = _scales_of_each(log)
        causes += [each] if scaled or each.convinces else []
    best: dict[str, Cause] = {}
    for cause in causes:
        if cause.kind not in best or cause.open < best[cause.kind].open:
            best[cause.kind] = cause
    return sorted(best.values(), key=lambda cause: cause.open)


def _cause(log: _Comparison, kind: str, text: str, open_: float, size: float = math.inf) -> Cause:
    explained = max(0.0, 1.0 - open_ / log.open)
    return Cause(kind, text, explained, open_, size > _LEAST.get(kind, 0.0))


def _scales(log: _Comparison) -> Iterator[Cause]:
    file, tau = log.file(log.motion), log.tau
    model, measured, factors = _factors(log, file)
    common = float(np.sum(model * measured) / max(float(np.sum(model**2)), 1e-300))
    if common > 0:
        text = f"scale of the torque ({common:.3g} times)"
        yield _cause(log, "scale", text, log.compare(common * file), abs(math.log(common)))
    places = np.flatnonzero(log.counts)
    for place, factor in zip(places.tolist(), factors.tolist()):
        if factor > 0:
            made = file.copy()
            made[:, place] *= factor
            text = f"scale of the torque of {log.robot.joint_names[place]} ({factor:.3g} times)"
            yield _cause(log, "scale", text, log.compare(made, tau), abs(math.log(factor)))


def _factors(log: _Comparison, file: Array) -> tuple[Array, Array, Array]:
    """Return torques and measured ones of joints that count, and the ratio of each joint's."""
    model, measured = log.scaled(file)
    factors = np.sum(model * measured, axis=0) / np.maximum(np.sum(model**2, axis=0), 1e-300)
    return model, measured, factors


def _scales_of_each(log: _Comparison) -> Cause:
    """Return the cause that drive gains, or gear ratios and signs, are wrong joint by joint."""
    file = log.file(log.motion)
    factors = _factors(log, file)[2]
    file[:, log.counts] *= factors
    text = f"scale of the torque of each joint ({factors.min():.3g} to {factors.max():.3g} times)"
    return _cause(log, "scale", text, log.compare(file))


def _times(log: _Comparison) -> Iterator[Cause]:
    q, dq, ddq = log.motion
    still = log.file((q, 0 * dq, 0 * ddq))
    moved = log.file(log.motion) - still
    (rest, _), (pull, measured) = log.scaled(still), log.scaled(moved)
    square = float(np.sum(pull * (measured - rest)) / max(float(np.sum(pull**2)), 1e-300))
    if square > 0:
        factor = math.sqrt(square)
        text = f"scale of the time (times are {factor:.3g} times what they should be)"
        open_ = log.compare(still + square * moved)
        yield _cause(log, "time", text, open_, abs(math.log(factor)))


def _offsets(log: _Comparison) -> Iterator[Cause]:
    q, dq, ddq = log.motion
    for place, index in enumerate(log.robot.independent):
        if not log.robot.joints[index].turns:
            continue

        def open_with(delta: float, place: int = place) -> float:
            moved = q.copy()
            moved[:, place] += delta
            return log.compare(log.file((moved, dq, ddq)))

        step = 2 * math.pi / _OFFSETS
        tried = [step * k for k in range(-(_OFFSETS // 2), _OFFSETS // 2)]
        first = min(tried, key=open_with)
        found = minimize_scalar(
            open_with, bounds=(first - step, first + step), method="bounded",
            options={"xatol": 1e-3, "maxiter": 16},
        )  # fmt: skip
        name = log.robot.joint_names[place]
        text = f"offset of the encoder of {name} ({math.degrees(-found.x):.3g}°)"
        yield _cause(log, "offset", text, float(found.fun), abs(float(found.x)))


def _gravity(log: _Comparison) -> Iterator[Cause]:
    q, dq, ddq = log.motion
    strength = float(np.linalg.norm(log.robot.gravity))
    if not strength > 0:
        return
    free = log.file(log.motion, (0.0, 0.0, 0.0))
    axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    pulls = [log.file((q, 0 * dq, 0 * ddq), axis) for axis in axes]
    rest, measured = log.scaled(free)
    columns = np.stack([log.scaled(pull)[0].ravel() for pull in pulls], axis=1)
    found = np.linalg.lstsq(columns, (measured - rest).ravel(), rcond=1e-6)[0]
    size = float(np.linalg.norm(found))
    if size > 0:
        way = found / size
        made = free + sum(float(strength * x) * pull for x, pull in zip(way, pulls))
        cosine = float(way @ np.array(log.robot.gravity)) / strength
        angle = math.acos(max(-1.0, min(1.0, cosine)))
        shown = ", ".join(f"{strength * x:.2g}" for x in way)
        text = f"direction of gravity ({math.degrees(angle):.2g}° off: {shown} m/s²)"
        yield _cause(log, "gravity", text, log.compare(made), angle)


def _swapped(log: _Comparison) -> Iterator[Cause]:
    file, names = log.file(log.motion), log.robot.joint_names
    for first, second in combinations(range(log.robot.n), 2):
        order = list(range(log.robot.n))
        order[first], order[second] = second, first
        pair = f"{names[first]} and {names[second]}"
        yield _cause(log, "swapped", f"swapped torques of {pair}", _with(log, file, order))
        q, dq, ddq = (signal[:, order] for signal in log.motion)
        open_ = log.compare(log.file((q, dq, ddq)), log.tau[:, order], _drive_spans((q, dq, ddq)))
        yield _cause(log, "swapped", f"swapped joints {pair}", open_)


def _with(log: _Comparison, file: Array, order: list[int]) -> float:
    return log.compare(file, log.tau[:, order])


def _signs(log: _Comparison) -> Iterator[Cause]:
    file, names = log.file(log.motion), log.robot.joint_names
    yield _cause(log, "sign", "sign of all torques", log.compare(-file))
    for place in range(log.robot.n):
        sign = np.where(np.arange(log.robot.n) == place, -1.0, 1.0)
        words = f"sign of the torque of {names[place]}"
        yield _cause(log, "sign", words, log.compare(sign * file))
        q, dq, ddq = (sign * signal for signal in log.motion)
        words = f"direction of {names[place]}, positions and torques"
        yield _cause(log, "sign", words, log.compare(sign * log.file((q, dq, ddq))))
        words = f"sign of the positions of {names[place]}"
        yield _cause(log, "sign", words, log.compare(log.file((q, dq, ddq))))
