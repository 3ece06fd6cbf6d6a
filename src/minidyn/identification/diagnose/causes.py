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
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.functions import torques_of_links
from minidyn.identification.diagnose.thresholds import FACTOR, LARGE, MOST
from minidyn.identification.diagnose.torque_scales import ComparedLog, drive_spans, without
from minidyn.model.robot import Robot

SAMPLES = 300  # size: samples on which each cause is tried
OFFSETS = 24  # size: angles of a turn that are tried

Motion = tuple[Array, Array, Array]
"""Positions, speeds and accelerations (N, n)."""


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
        return self.is_large and self.explained >= MOST and self.open <= LARGE


class _Comparison:
    """Torques of the file's bodies against measured ones, without rotors and friction."""

    def __init__(self, robot: Robot, log: ComparedLog, known: Array) -> None:
        self.robot, self.known = robot, known
        rows = slice(None, None, max(1, len(log.tau) // SAMPLES))
        q, dq, ddq = (signal[rows] for signal in log.motion)
        self.motion, self.tau = (q, dq, ddq), log.tau[rows]
        file = self.file(self.motion)
        self.drives = drive_spans(log.drives[rows])
        sizes = np.linalg.norm(self.alone(file), axis=0)
        self.counts = sizes > LARGE * sizes.max(initial=0.0)
        self.open = self.compare(file)

    def file(self, motion: Motion, gravity: Any = None) -> Array:
        """Return the torques of the file's bodies (N, n)."""
        return torques_of_links(self.robot, motion, self.known, gravity)

    def alone(self, torques: Array, drives: list[Array] | None = None) -> Array:
        """Return torques (N, n) without what rotors and friction can explain."""
        spans = self.drives if drives is None else drives
        return np.stack([without(span, column) for span, column in zip(spans, torques.T)], axis=1)

    def scaled(self, torques: Array) -> Array:
        """Return torques of joints that count (N, joints) in units of the measured ones."""
        measured = self.alone(self.tau)[:, self.counts]
        size = np.maximum(np.linalg.norm(measured, axis=0), 1e-300)
        return np.asarray(self.alone(torques)[:, self.counts] / size)

    def factors(self, rest: Array, *parts: Array) -> Array:
        """Return by what parts of the torque are to be multiplied (parts,), beside the rest."""
        columns = np.stack([self.scaled(part).ravel() for part in parts], axis=1)
        left = self.scaled(self.tau - rest).ravel()
        return np.asarray(np.linalg.lstsq(columns, left, rcond=1e-6)[0])

    def compare(
        self, file: Array, tau: Array | None = None, drives: list[Array] | None = None
    ) -> float:
        """Return the share of the squared torque that stays open, mean over joints that count."""
        measured = self.alone(self.tau if tau is None else tau, drives)
        residual = measured - self.alone(file, drives)
        size = np.maximum(np.sum(measured**2, axis=0), 1e-300)
        return float(np.mean((np.sum(residual**2, axis=0) / size)[self.counts]))

    def cause(self, kind: str, text: str, file: Array, is_large: bool = True) -> Cause:
        """Return a cause with which the torques of the file would be these (N, n)."""
        return self.judged(kind, text, self.compare(file), is_large)

    def judged(self, kind: str, text: str, open_: float, is_large: bool = True) -> Cause:
        """Return a cause that leaves this share open."""
        return Cause(kind, text, max(0.0, 1.0 - open_ / self.open), open_, is_large)


def likely_causes(
    robot: Robot,
    log: ComparedLog,
    known: Array,
    contradicts: bool = False,
    is_scaled: bool = False,
) -> list[Cause]:
    """Return why torques are not those of the file, what explains them best first.

    Empty where they are, as far as a file that is not exact can say.

    Args:
        robot: The robot.
        log: What is compared.
        known: Parameters of the file (p,).
        contradicts: The torques of a joint contradict the file.
        is_scaled: Those of several joints are the file's times a factor.
    """
    comparison = _Comparison(robot, log, known)
    if not comparison.counts.any() or not (contradicts or comparison.open > LARGE):
        return []
    causes = [cause for trial in TRIALS for cause in trial(comparison)]
    if not any(cause.convinces for cause in causes):
        each = _scales_of_each(comparison)
        causes += [each] if is_scaled or each.convinces else []
    ordered = sorted(causes, key=lambda cause: cause.open)
    best: dict[str, Cause] = {}
    for cause in ordered:
        best.setdefault(cause.kind, cause)
    return list(best.values())


def _is_another(factor: float) -> bool:
    """Say whether a factor of torques is more than a file that is not exact makes."""
    return abs(math.log(factor)) > math.log(FACTOR)


def _scales(log: _Comparison) -> Iterator[Cause]:
    file = log.file(log.motion)
    common, factors = float(log.factors(0.0 * file, file)[0]), _of_each(log, file)
    if common > 0:
        text = f"scale of the torque ({common:.3g} times)"
        yield log.cause("scale", text, common * file, _is_another(common))
    for place, factor in zip(np.flatnonzero(log.counts).tolist(), factors.tolist()):
        if factor > 0:
            scaled = file * np.where(np.arange(log.robot.n) == place, factor, 1.0)
            text = f"scale of the torque of {log.robot.joint_names[place]} ({factor:.3g} times)"
            yield log.cause("scale", text, scaled, _is_another(factor))


def _of_each(log: _Comparison, file: Array) -> Array:
    """Return measured torques over those of the file for each joint that counts."""
    model, measured = log.scaled(file), log.scaled(log.tau)
    power = np.maximum(np.sum(model**2, axis=0), 1e-300)
    return np.asarray(np.sum(model * measured, axis=0) / power)


def _scales_of_each(log: _Comparison) -> Cause:
    """Return the cause that drive gains, or gear ratios and signs, are wrong joint by joint."""
    file = log.file(log.motion)
    factors = _of_each(log, file)
    file[:, log.counts] *= factors
    text = f"scale of the torque of each joint ({factors.min():.3g} to {factors.max():.3g} times)"
    return log.cause("scale", text, file)


def _times(log: _Comparison) -> Iterator[Cause]:
    q, dq, ddq = log.motion
    still = log.file((q, 0 * dq, 0 * ddq))
    moved = log.file(log.motion) - still
    square = float(log.factors(still, moved)[0])
    if square > 0:
        text = f"scale of the time (times are {math.sqrt(square):.3g} times what they should be)"
        yield log.cause("time", text, still + square * moved, _is_another(square))


def _offsets(log: _Comparison) -> Iterator[Cause]:
    q, dq, ddq = log.motion
    for place, index in enumerate(log.robot.independent):
        if not log.robot.joints[index].turns:
            continue

        def open_with(delta: float, place: int = place) -> float:
            moved = q + np.where(np.arange(log.robot.n) == place, delta, 0.0)
            return log.compare(log.file((moved, dq, ddq)))

        step = 2 * math.pi / OFFSETS
        first = min((step * k for k in range(-(OFFSETS // 2), OFFSETS // 2)), key=open_with)
        from scipy.optimize import minimize_scalar  # slow to import

        found = minimize_scalar(
            open_with, bounds=(first - step, first + step), method="bounded",
            options={"xatol": 1e-3, "maxiter": 16},
        )  # fmt: skip
        name = log.robot.joint_names[place]
        text = f"offset of the encoder of {name} ({math.degrees(-found.x):.3g}°)"
        yield log.judged("offset", text, float(found.fun), abs(float(found.x)) > LARGE)


def _gravity(log: _Comparison) -> Iterator[Cause]:
    q, dq, ddq = log.motion
    strength = float(np.linalg.norm(log.robot.gravity))
    if not strength > 0:
        return
    free = log.file(log.motion, (0.0, 0.0, 0.0))
    pulls = [log.file((q, 0 * dq, 0 * ddq), tuple(axis)) for axis in np.eye(3).tolist()]
    factors = log.factors(free, *pulls)
    size = float(np.linalg.norm(factors))
    if size > 0:
        way = factors / size
        file = free + sum(float(strength * x) * pull for x, pull in zip(way, pulls))
        cosine = float(way @ np.array(log.robot.gravity)) / strength
        angle = math.acos(max(-1.0, min(1.0, cosine)))
        shown = ", ".join(f"{strength * x:.2g}" for x in way)
        text = f"direction of gravity ({math.degrees(angle):.2g}° off: {shown} m/s²)"
        yield log.cause("gravity", text, file, angle > LARGE)


def _swapped(log: _Comparison) -> Iterator[Cause]:
    file, names = log.file(log.motion), log.robot.joint_names
    for first, second in combinations(range(log.robot.n), 2):
        order = list(range(log.robot.n))
        order[first], order[second] = second, first
        pair, tau = f"{names[first]} and {names[second]}", log.tau[:, order]
        yield log.judged("swapped", f"swapped torques of {pair}", log.compare(file, tau))
        q, dq, ddq = (signal[:, order] for signal in log.motion)
        open_ = log.compare(log.file((q, dq, ddq)), tau, [log.drives[k] for k in order])
        yield log.judged("swapped", f"swapped joints {pair}", open_)


def _signs(log: _Comparison) -> Iterator[Cause]:
    file, names = log.file(log.motion), log.robot.joint_names
    yield log.cause("sign", "sign of all torques", -file)
    for place in range(log.robot.n):
        sign = np.where(np.arange(log.robot.n) == place, -1.0, 1.0)
        yield log.cause("sign", f"sign of the torque of {names[place]}", sign * file)
        q, dq, ddq = (sign * signal for signal in log.motion)
        turned = log.file((q, dq, ddq))
        words = f"direction of {names[place]}, positions and torques"
        yield log.cause("sign", words, sign * turned)
        yield log.cause("sign", f"sign of the positions of {names[place]}", turned)


TRIALS: tuple[Callable[[_Comparison], Iterator[Cause]], ...] = (
    _scales, _times, _offsets, _gravity, _swapped, _signs,
)  # fmt: skip
"""All causes that are tried."""
