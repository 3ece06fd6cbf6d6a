"""Encoders whose zero is not that of the robot's file.

A joint that stands at q - o where its encoder says q has the torque Y(q - o, dq, ddq) beta. To
first order an offset o is one more column, minus the slope of the predicted torque over the
position, beside those of the base parameters. What base parameters explain as well is no offset:
that of a first joint about the vertical, or of a last joint, changes parameters alone. Joints are
added one by one, the best first, as long as held-out blocks of time are predicted better by the
rule of all choices.

An offset is reported, never removed: a wrong zero is set in the mapping of the log, not hidden in
a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.data import BLOCKS
from minidyn.identification.diagnose.thresholds import SAMPLES, STDS
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.base_rows import (
    Samples,
    base_functions,
    has_motion,
    steady_regressor,
)
from minidyn.identification.rows.block_products import (
    BlockProducts,
    View,
    chosen_columns,
    solved,
)
from minidyn.identification.score import Gain
from minidyn.identification.sizes import MAX_ROUNDS
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

MIN_OFFSET = math.radians(2.0)  # smaller ones are those of elasticity, cables and lengths
MAX_OFFSET = math.radians(20.0)  # larger ones are no small turn: springs look like them
MIN_SEEN = 0.001  # of a slope's square that base parameters leave: less says nothing of an offset
STEP = 1e-5  # rounding: rad, of the slope of the torque

ENCODER = warning(
    "signals.encoder_offset",
    "The torque shows that the encoder of a joint has another zero than the robot's file.",
    "Check the zero of the encoder. Where the offset is right, take it off as the log is read, by "
    "offset in a mapping file (--mapping), rad, added to logged positions: {mapping}.",
)


def encoder_offset_notices(
    robot: Robot, base: BaseMap, data: AnyRecording, solution: Solution
) -> list[Notice]:
    """Return a notice where torques show offsets of encoders of more than two degrees."""
    if base.rows is not None or base.model == "gravity" or robot.implicit_loops or robot.formulas:
        return []
    if not has_motion(data):
        return []
    size = SAMPLES // BLOCKS
    log = data if isinstance(data, Recording) else data.spread(BLOCKS, size).load()
    log = log.thinned(max(1, -(-len(log) // SAMPLES)))
    if len(log) * robot.n < 4 * base.rank:
        return []
    offsets, stds = _offsets(_Motion(robot, base, Samples.all_of(log)), solution.beta)
    return _notices(robot, offsets, stds)


@dataclass(frozen=True)
class _Motion:
    """Samples of a log, and the base parameters whose torques they are."""

    robot: Robot
    base: BaseMap
    log: Samples

    def products(self, beta: Array, offsets: Array) -> BlockProducts:
        """Return the products of base parameters, small further offsets (n,) and the torque."""
        moved = replace(self.log, q=self.log.q - offsets)
        Y = steady_regressor(self.robot, self.base, *moved.motion)
        slopes = [self._slope(moved, beta, place) for place in range(self.robot.n)]
        rows = np.concatenate([Y, -np.stack(slopes, axis=-1), self.log.tau[..., None]], axis=-1)
        known = self.robot.torques_measured
        return BlockProducts.of(rows[:, joint] for joint, has in enumerate(known) if has)

    def _slope(self, log: Samples, beta: Array, place: int) -> Array:
        """Return the slope of the torque (N, n) over the position of a joint, 0 where it slides."""
        if not self.robot.joints[self.robot.independent[place]].turns:
            return np.zeros_like(log.q)
        functions, step = base_functions(self.robot, self.base), STEP * np.eye(self.robot.n)[place]
        ahead, behind = (
            functions.torque(replace(log, q=log.q + by).motion, beta, few=True)
            for by in (step, -step)
        )
        return np.asarray((ahead - behind) / (2.0 * STEP))

    def view(self, joints: list[int]) -> View:
        """Return the model of base parameters and offsets of these joints."""
        count = self.base.rank
        places = np.array([*range(count), *(count + joint for joint in joints)], dtype=np.intp)
        return chosen_columns(places, count + self.robot.n + 1)


def _offsets(motion: _Motion, beta: Array) -> tuple[Array, Array]:
    """Return the offsets that pay (n,), zero elsewhere, and their standard deviations (n,)."""
    count, offsets = motion.robot.n, np.zeros(motion.robot.n)
    joints: list[int] = []
    table = motion.products(beta, offsets)
    while len(joints) < count:
        view = motion.view(joints)
        noise = table.fitted(view)[1]
        best = _best(table.weighted(noise), motion.base.rank, joints)
        if best is None:
            break
        wider = motion.view([*joints, best])
        values, less_noise = table.fitted(wider)
        gain = Gain.of(table.densities(view, noise), table.densities(wider, less_noise))
        if not gain.is_worth(count):
            break
        joints.append(best)
        for _ in range(MAX_ROUNDS):
            offsets[joints] += values[motion.base.rank :]
            table = motion.products(values[: motion.base.rank], offsets)
            values = table.fitted(wider)[0]
            if np.all(np.abs(values[motion.base.rank :]) < 0.01 * MIN_OFFSET):
                break
    return offsets, _stds(motion, table, joints)


def _best(W: Array, rank: int, joints: list[int]) -> int | None:
    """Return the joint whose offset explains most beside base parameters and offsets of joints.

    None where it is small, or shown by none.
    """
    known = [*range(rank), *(rank + joint for joint in joints)]
    others = [place for place in range(rank, len(W) - 1) if place not in known]
    if not others:
        return None
    tried = []
    for place in others:
        column = np.append(known, place)
        beside = solved(W[np.ix_(column, column)])[1]  # of the slope's square
        if W[place, place] > 0.0 and beside > MIN_SEEN * W[place, place]:
            whole = np.append(column, len(W) - 1)
            values, rest = solved(W[np.ix_(whole, whole)])
            tried.append((float(rest), float(values[-1]), place - rank))
    if not tried:
        return None
    _, offset, joint = min(tried)
    return joint if abs(offset) > MIN_OFFSET else None


def _stds(motion: _Motion, table: BlockProducts, joints: list[int]) -> Array:
    """Return the standard deviations of offsets (n,) from fits without each block."""
    view, found = motion.view(joints), np.zeros(motion.robot.n)
    noise = table.fitted(view)[1]
    values = solved(view.reduced(table.without_each(noise)))[0][:, motion.base.rank :]
    found[joints] = np.sqrt((len(values) - 1) * np.var(values, axis=0))
    return found


def _notices(robot: Robot, offsets: Array, stds: Array) -> list[Notice]:
    sure = np.abs(offsets) > np.maximum(MIN_OFFSET, STDS * stds)
    sure &= np.abs(offsets) < MAX_OFFSET
    places = np.flatnonzero(sure).tolist()
    if not places:
        return []
    names = [robot.joint_names[place] for place in places]
    degrees = [math.degrees(offsets[place]) for place in places]
    words = [
        f"{name} by {degree:.3g}° (± {math.degrees(stds[place]):.2g}°)"
        for name, degree, place in zip(names, degrees, places)
    ]
    mapping = ", ".join(f"{name} = {-offsets[place]:.4g}" for name, place in zip(names, places))
    text = f"the torque says that encoders are off: {', '.join(words)}"
    values = {name: offsets[place] for name, place in zip(names, places)}
    spreads = {name: float(stds[place]) for name, place in zip(names, places)}
    return [ENCODER(text, joints=names, mapping=mapping, offsets=values, stds=spreads)]
