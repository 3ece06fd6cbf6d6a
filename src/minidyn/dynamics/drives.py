"""What drives add to the dynamics.

Inertia, friction and springs, each a column that is linear in its parameter. The speed of drive j,
reduced to the joint side, is v = dq_j + Σ c_k dq_k with the coupling c of the robot's file; its
torque acts on joint j and, through c, on the coupled joints. Springs, counterbalances and a joint's
own terms act on the joint alone. The terms are listed in `minidyn.model.drives`.

Friction that grows with the load grows with what a drive carries, a function of the motion and of
the robot's own parameters (`loads.py`).

Presliding is a state z of the drive: after a reversal friction does not turn round at once but
builds up with travel, dz = (1 - s z) dp / travel with p the position of the drive and s the sign of
its motion (Dahl 1968). It depends on the path alone, not on time, so that along a monotonous piece
it is known exactly. Functions of one instant that are not given it take that of steady sliding, z =
s(v).

Breakaway is another state w: a rest raises friction, over REST_TIME, and motion lets it decay,
dw = -w |dp| / travel.

`all_columns` puts them beside the columns of the links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.dynamics.newton_euler import rigid_regressor
from minidyn.dynamics.papers.sixteen import sixteen_layout, sixteen_links
from minidyn.dynamics.tree import REAL, Coordinates, chosen_columns, coordinates, place
from minidyn.dynamics.vectors import Scalar, weighted_sum
from minidyn.errors import DescriptionError, MinidynError, Unsupported
from minidyn.graph import scalar
from minidyn.model.balancer import Balancer
from minidyn.model.drives import (
    BREAKAWAY,
    BY_SYMBOL,
    INERTIAS,
    MEMORY,
    POSITION_TERMS,
    REST_TIME,
    RIPPLE_ORDER,
    ROTOR,
    STRIBECK_SPEED,
    TERMS,
    Drive,
    Motion,
    Odd,
)
from minidyn.model.parameters import Column
from minidyn.model.robot import Robot


@dataclass(frozen=True)
class DriveColumn:
    """One drive term."""

    index: int  # its place among the standard parameters
    symbol: str  # "Ia", "Fv", "Fc", ..., see `minidyn.model.drives`
    value: Scalar  # its torque for a parameter of 1, on the axis it acts on
    ratios: dict[int, float]  # {joint index: share of that torque the joint feels}


_CONSERVATIVE = {
    TERMS[name].symbol for name in POSITION_TERMS if name != "load"
}  # springs are no friction
_SHOWN = 1e-6  # of the largest singular value: directions below show nothing
_BEHIND: dict[str, frozenset[int]] = {}
_STILL = 1e-9  # rad/s or m/s: a drive at rest has no sign
# A Butterworth filter of fourth order, forwards and backwards, makes a step of time over T about
# this of it, with n² = t² + (0.23 T)² for a cut-off 1 / T: t/n (1 + (0.23 T / n)² (1.13 - 1.4 (0.23
# T / n)²)); least squares.
_SPREAD, _OVER = 0.23, (1.13, -1.4)
_OPERATIONS: dict[str, Callable[..., Scalar]] = {"sqrt": scalar.sqrt, "atan2": scalar.atan2}


class Shapes:
    """The functions of speed and position that are no polynomials, on floats, NumPy arrays and
    graph nodes.

    Other number systems override them. Loads are what each joint's drive carries; None: not known.
    States are those of `memory_columns`; None: not known, steady sliding.
    """

    def __init__(
        self,
        robot: Robot,
        q: Sequence[Scalar],
        loads: Sequence[Scalar] | None = None,
        states: Sequence[Scalar] | None = None,
    ) -> None:
        self._drives = [joint.drive for joint in robot.joints]
        self._names = [joint.name for joint in robot.joints]
        self._ratios = [drive_ratios(robot, joint) for joint in range(len(robot.joints))]
        self._q = q
        self._loads = loads
        own = [] if states is None else memory_columns(robot)
        self._states = {
            (column.symbol, column.joint): state for column, state in zip(own, states or ())
        }

    def drive(self, joint: int) -> Drive:
        """The drive of a joint."""
        return self._drives[joint]

    def with_drive(self, joint: int, drive: Drive, state: Scalar | None = None) -> Shapes:
        """Return the same with another drive of one joint, and what it remembers."""
        made = copy(self)
        made._drives = [*self._drives[:joint], drive, *self._drives[joint + 1 :]]
        made._states = {} if state is None else {(s, joint): state for s in MEMORY}
        return made

    def sign(self, joint: int, speed: Scalar, change: Scalar, own: bool) -> Scalar:
        """The sign of the speed of the drive or of the joint itself.

        It reverses smoothly over the smoothing width. The torque of a fit has passed a low-pass
        without delay: about a reversal with this change of the speed, its acceleration, a sign is
        spread over a share of the cut-off's period, and overshoots.
        """
        drive = self._drives[joint]
        size = self._size(joint, speed, change)
        if size is None:
            return scalar.sign(speed)
        if not drive.cutoff:
            return speed / size
        spread = change * (_SPREAD / drive.cutoff)
        less = 1.0 / (size * size)
        part, slow = (spread * spread) * less, 1.0 - (speed * speed) * less
        return speed / size * (1.0 + part * (_OVER[0] + _OVER[1] * slow))

    def odd(
        self,
        symbol: str,
        joint: int,
        speed: Scalar,
        change: Scalar,
        function: Odd,
        speeds: Sequence[float],
    ) -> Scalar:
        """A column that is no polynomial in v and s(v).

        With a smoothing width w the size |v| is √(v² + w²).
        """
        sign, size = self.sign(joint, speed, change, False), self._size(joint, speed, change)
        return function(speed, sign, speed * sign if size is None else size, _OPERATIONS)

    def _size(self, joint: int, speed: Scalar, change: Scalar) -> Scalar | None:
        """The size of a speed, smoothed; None where friction reverses at once."""
        drive = self._drives[joint]
        if not drive.cutoff:
            return (
                None
                if drive.sign_width == 0.0
                else scalar.sqrt(speed * speed + drive.sign_width**2)
            )
        spread = change * (_SPREAD / drive.cutoff)
        return scalar.sqrt(speed * speed + spread * spread + (drive.sign_width**2 + _STILL**2))

    def state(self, symbol: str, joint: int, speed: Scalar, change: Scalar) -> Scalar:
        """What the drive remembers.

        Where it is not given, that of steady sliding: its sign, and no breakaway.
        """
        known = self._states.get((symbol, joint))
        steady = 0.0 if symbol == BREAKAWAY else self.sign(joint, speed, change, False)
        return steady if known is None else known

    def angle(self, joint: int) -> Scalar:
        """The position itself: rad or m."""
        return self._q[joint]

    def cos_sin(self, joint: int) -> tuple[Scalar, Scalar]:
        """Cosine and sine of the position."""
        return scalar.cos_sin(self._q[joint])

    def wave(self, joint: int, harmonic: int, speed: Scalar) -> tuple[Scalar, Scalar]:
        """Cosine and sine of the ripple of a joint's gear at a multiple of its order.

        The torque of a fit has passed a low-pass without delay: waves, whose frequency is k N |v| /
        (2 pi), are seen as large as it lets them through (a Butterworth filter of fourth order,
        forwards and backwards).
        """
        drive = self._drives[joint]
        order = harmonic * (drive.ripple_order or RIPPLE_ORDER)
        position = weighted_sum(
            self._ratios[joint].values(), [self._q[k] for k in self._ratios[joint]]
        )
        cosine, sine = scalar.cos_sin(order * position)
        if not drive.cutoff:
            return cosine, sine
        u = speed * (order / (2.0 * math.pi * drive.cutoff))
        fourth = (u * u) * (u * u)
        seen = 1.0 / (1.0 + fourth * fourth)
        return seen * cosine, seen * sine

    def balance(self, symbol: str, joint: int) -> Scalar:
        """What the joint's balancer loads it with for a constant of 1."""
        cosine, sine = self.cos_sin(joint)
        return self._balancer(joint).column(symbol, cosine, sine, scalar.sqrt)

    def _balancer(self, joint: int) -> Balancer:
        found = self._drives[joint].balancer
        if found is None:
            raise DescriptionError(
                f"joint {self._names[joint]!r} has terms of a balancer but none: Balancer.on(robot)"
            )
        return found

    def load(self, joint: int) -> Scalar:
        """Size of what the joint's drive carries, N m or N."""
        if self._loads is None:
            raise Unsupported(
                f"joint {self._names[joint]!r} has friction that grows with the load, which this "
                "function does not know; leave the term out: robot.with_drives(friction=...)"
            )
        load = self._loads[joint]
        return load * scalar.sign(load)


def drive_columns(
    robot: Robot, dq: Sequence[Scalar], ddq: Sequence[Scalar], shapes: Shapes | None
) -> list[DriveColumn]:
    """Return all drive columns for speeds and accelerations of all joints.

    Without shapes the inertias alone.
    """
    found = []
    for joint, columns in enumerate(robot.layout.drives):
        if not columns:
            continue
        ratios = drive_ratios(robot, joint)
        speed, change = (
            weighted_sum(ratios.values(), [rates[k] for k in ratios]) for rates in (dq, ddq)
        )
        for column in columns:
            symbol = column.symbol
            term = BY_SYMBOL.get(symbol)
            if term is None:  # the rotor's inertia
                value = change
            elif term.value is None:
                value = ddq[joint]
            elif shapes is None:
                continue
            else:
                fall = robot.joints[joint].drive.stribeck_speed or STRIBECK_SPEED
                value = term.value(
                    Motion(symbol, joint, speed, dq[joint], change, ddq[joint], fall, shapes)
                )
            found.append(
                DriveColumn(
                    column.index, symbol, value, {joint: 1.0} if term and term.own else ratios
                )
            )
    return found


def term_torque(
    robot: Robot, joint: int, term: str, rates: tuple[Sequence[Scalar], ...], shapes: Shapes
) -> tuple[Scalar, dict[int, float]]:
    """Return the torque of a term of a joint's drive for a parameter of 1, and where it acts.

    Args:
        robot: The robot; `shapes` may have another drive of the joint (`Shapes.with_drive`).
        joint: Index of the joint.
        term: Name of the term.
        rates: Speeds and accelerations of all joints.
        shapes: What is no polynomial.
    """
    known, ratios, (dq, ddq) = TERMS[term], drive_ratios(robot, joint), rates
    if known.value is None:
        return ddq[joint], {joint: 1.0}
    speed, change = (weighted_sum(ratios.values(), [part[k] for k in ratios]) for part in rates)
    fall = shapes.drive(joint).stribeck_speed or STRIBECK_SPEED
    motion = Motion(known.symbol, joint, speed, dq[joint], change, ddq[joint], fall, shapes)
    return known.value(motion), {joint: 1.0} if known.own else ratios


def memory_columns(robot: Robot) -> list[Column]:
    """Return the drive columns that are states, in the order of their states."""
    return [
        column for columns in robot.layout.drives for column in columns if column.symbol in MEMORY
    ]


def drive_paths(robot: Robot, q: Array, joints: Sequence[int]) -> Array:
    """Return the positions (N, k) of the drives of some joints along positions (N, n), rad or m."""
    still = [0.0] * robot.n
    return _of_drives(
        robot,
        coordinates(robot, list(np.asarray(q, dtype=float).T), still, still).q,
        joints,
        len(q),
    )


def drive_rates(robot: Robot, dq: Array, ddq: Array) -> tuple[Array, Array]:
    """Return speeds and accelerations (N, joints) of all joints' drives from those of the joints
    (N, n).
    """
    c = coordinates(robot, [np.zeros(len(dq))] * robot.n, list(dq.T), list(ddq.T))
    every = range(len(robot.joints))
    return _of_drives(robot, c.dq, every, len(dq)), _of_drives(robot, c.ddq, every, len(dq))


def _of_drives(robot: Robot, every: Sequence[Scalar], joints: Sequence[int], samples: int) -> Array:
    found = [
        sum(ratio * every[k] for k, ratio in drive_ratios(robot, joint).items()) for joint in joints
    ]
    return (
        np.stack([np.broadcast_to(one, samples) for one in found], axis=1)
        if found
        else np.zeros((samples, 0))
    )


def presliding(path: Array, travel: float, start: float = 0.0) -> Array:
    """Return the state z (N,) along positions (N,) of a drive, from `start` at the first one.

    dz = (1 - s z) dp / travel with s the sign of dp: along a monotonous piece, s - z falls with
    exp(-|p| / travel).
    """
    steps = np.diff(path)
    moves = np.flatnonzero(steps)
    if not len(moves):
        return np.full(len(path), start)
    signs = np.sign(steps)
    signs[: moves[0]] = signs[moves[0]]
    held = np.maximum.accumulate(np.where(steps != 0.0, np.arange(len(steps)), 0))
    signs = (
        signs[held] if not steps.all() else signs
    )  # a drive that rests goes on as it went before
    return approached(signs, path / travel, start)


def approached(goals: Array, way: Array, start: float) -> Array:
    """Return a state (N,) that goes to goals (N-1,), each over its part of a way (N,).

    To 1/e of the rest in 1.
    """
    ends = [0, *(np.flatnonzero(np.diff(goals)) + 1).tolist(), len(way) - 1]
    lengths = np.exp(-np.abs(np.diff(way[ends]))).tolist()
    begins, now = [], start
    for goal, kept in zip(goals[ends[:-1]].tolist(), lengths):
        begins.append(now)
        now = goal - (goal - now) * kept
    counts = np.diff(ends)
    before, since = np.repeat(begins, counts), np.repeat(way[ends[:-1]], counts)
    return np.append(start, goals - (goals - before) * np.exp(-np.abs(way[1:] - since)))


def breakaway(
    path: Array, steps: Array, travel: float, rest_speed: float, start: float = 0.0
) -> Array:
    """Return the state w (N,) along positions (N,) of a drive, `steps` (N-1,) seconds apart, which
    rests if slower.
    """
    length = np.abs(np.diff(path))
    rests = length < rest_speed * steps
    way = np.append(0.0, np.cumsum(np.where(rests, steps / REST_TIME, length / travel)))
    return (
        approached(rests.astype(float), way, start) if len(path) > 1 else np.full(len(path), start)
    )


def drive_states(
    robot: Robot,
    q: Array,
    before: tuple[Array, Array] | None = None,
    *,
    step: ArrayLike | None = None,
) -> Array:
    """Return the states (N, m) of all memory columns along positions (N, n) of one run.

    Before it they are zero, or (position (n,), states (m,)) of the sample before are given.
    Breakaway depends on how long a drive rests, and needs the time `step` between samples, s: one,
    or one for each pair of them.
    """
    columns = memory_columns(robot)
    positions = q if before is None else np.concatenate([before[0][None], q])
    start = np.zeros(len(columns)) if before is None else before[1]
    paths = drive_paths(robot, positions, [column.joint for column in columns])
    found = np.empty((len(positions), len(columns)))
    for k, column in enumerate(columns):
        joint = robot.joints[column.joint]
        travel = joint.drive.travel(column.symbol)
        if column.symbol != BREAKAWAY:
            found[:, k] = presliding(paths[:, k], travel, float(start[k]))
            continue
        if step is None:
            raise MinidynError(
                "drive_states: breakaway friction depends on how long drives rest; give step=, s"
            )
        seconds = np.broadcast_to(np.asarray(step, dtype=float), len(positions) - 1)
        found[:, k] = breakaway(paths[:, k], seconds, travel, joint.rest_speed, float(start[k]))
    return found if before is None else found[1:]


def drive_ratios(robot: Robot, joint: int) -> dict[int, float]:
    """Return {joint index: how much that joint turns the drive of `joint`}."""
    ratios = {joint: 1.0}
    for name, coefficient in robot.joints[joint].drive.coupling:
        other = robot.joint_index(name)
        ratios[other] = ratios.get(other, 0.0) + coefficient
    return ratios


def friction_columns(robot: Robot) -> list[int]:
    """Return the places of the parameters that oppose motion.

    Friction without springs and counterbalances.
    """
    return [
        c.index for c in robot.layout.columns if c.is_friction and c.symbol not in _CONSERVATIVE
    ]


def rotor_inertia_matrix(robot: Robot, phi: Sequence[Scalar]) -> list[list[Scalar]]:
    """Return what drives add to the inertia matrix of all joints.

    Σ_j Ia_j c_j c_jᵀ, and Ja_j on the diagonal.
    """
    still = [0.0] * robot.all_rates
    M: list[list[Scalar]] = [[0.0] * len(still) for _ in still]
    for column in drive_columns(robot, still, still, None):
        for i, ci in column.ratios.items():
            for k, ck in column.ratios.items():
                M[i][k] = M[i][k] + (ci * ck) * phi[column.index]
    return M


def has_load(robot: Robot) -> bool:
    """Whether a drive of the robot has friction that grows with its load."""
    return any("load" in joint.drive.friction for joint in robot.joints)


def behind_gears(robot: Robot) -> frozenset[int]:
    """Return the places of the inertias of drives that count as load.

    All but rotors that motion tells from links. A rotor whose column is a combination of others, as
    that of the first joint is, counts with the links: so loads follow from base parameters alone.
    Where loops are solved for, all count.
    """
    key = robot.structure_fingerprint
    if key not in _BEHIND:
        inertias = [column for column in robot.layout.columns if column.symbol in INERTIAS]
        before = [c.index for c in inertias if c.symbol == ROTOR and c.joint in robot.independent]
        told = set() if robot.implicit_loops else _separate(robot, before)
        _BEHIND[key] = frozenset(column.index for column in inertias) - told
    return _BEHIND[key]


def _separate(robot: Robot, wanted: Sequence[int]) -> set[int]:
    """Return which inertial columns are no combination of the others, from their values at random
    states.
    """
    every = [
        column.index
        for column in robot.layout.columns
        if column.is_inertial or column.symbol in INERTIAS
    ]
    samples = -(-3 * len(every) // robot.n)
    c = coordinates(
        robot,
        *(list(part.T) for part in np.random.default_rng(0).normal(size=(3, samples, robot.n))),
    )
    blocks = rigid_regressor(place(robot, c.q, REAL), c.dq, c.ddq)
    rows = chosen_columns(
        c, all_columns(robot, blocks, drive_columns(robot, c.dq, c.ddq, None)), every, None
    )
    Y = np.concatenate(
        [np.stack([np.broadcast_to(value, samples) for value in row], axis=1) for row in rows]
    )
    Y = Y[np.isfinite(Y).all(axis=1)]  # formulas of joints may have no value at a random state
    sizes = np.linalg.norm(Y, axis=0)
    if not sizes.any():
        return set()
    _, values, V = np.linalg.svd(Y[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    # a column that others combine to has a part in directions that show nothing
    hidden = np.zeros(len(every))
    hidden[sizes > 0] = np.linalg.norm(V[values < _SHOWN * values[0]], axis=0)
    return {
        k
        for k, size, part in zip(every, sizes, hidden)
        if k in wanted and size > 0 and part < _SHOWN
    }


def with_inertias(
    robot: Robot, c: Coordinates, torque: Sequence[Scalar], phi: Sequence[Scalar]
) -> list[Scalar]:
    """Return the torque of all joints that links need with that of the inertias of drives behind
    gears added.
    """
    found, behind = list(torque), behind_gears(robot)
    for column in drive_columns(robot, c.dq, c.ddq, None):
        if column.index in behind:
            for joint, ratio in column.ratios.items():
                found[joint] = found[joint] + ratio * (phi[column.index] * column.value)
    return found


def on_drives(robot: Robot, torque: Sequence[Scalar]) -> list[Scalar]:
    """Return what drives feel of the torques of joints.

    C⁻ᵀ times these where several joints turn a drive.
    """
    C = coupling_matrix(robot)
    if np.array_equal(C, np.eye(len(C))):
        return list(torque)
    return [weighted_sum(row.tolist(), torque) for row in np.linalg.inv(C).T]


def coupling_matrix(robot: Robot) -> Array:
    """Return how far joints turn drives (joints, joints)."""
    C = np.eye(len(robot.joints))
    for joint in range(len(C)):
        for other, ratio in drive_ratios(robot, joint).items():
            C[joint, other] = ratio
    return C


def some_parameters(robot: Robot) -> Array:
    """Return the robot's parameters (p,) with arbitrary numbers for unknown ones, and for first
    moments of zero.

    For questions on the structure of the model, to which it does not matter how large a load is;
    but a link that its file balances on the axis is to load the drive, as the real one does.
    """
    values = np.array(robot.parameters)
    for part in robot.layout.links:
        moments = values[part][6:9]  # a view: MX, MY, MZ
        moments[moments == 0.0] = np.nan
    arbitrary = np.random.default_rng(0).uniform(0.5, 1.5, len(values))
    return np.where(np.isnan(values), arbitrary, values)


Block = Mapping[int, Sequence[Scalar]]
"""Of one link: {joint: entries of its parameters}."""


def all_columns(
    robot: Robot, blocks: Sequence[Block], drives: Iterable[DriveColumn], sixteen: bool = False
) -> list[list[Scalar]]:
    """Return the regressor of all joints, a row for each and a column for each parameter, from the
    links' blocks.
    """
    layout = sixteen_layout(robot) if sixteen else robot.layout
    parts = sixteen_links(layout) if sixteen else layout.links
    every: list[list[Scalar]] = [[0.0] * len(layout) for _ in range(robot.all_rates)]
    for part, block in zip(parts, blocks):
        for joint, entries in block.items():
            every[joint][part] = entries
    for column in drives:
        place = layout.index(robot.layout.names[column.index])
        for joint, ratio in column.ratios.items():
            every[joint][place] = ratio * column.value
    return every
