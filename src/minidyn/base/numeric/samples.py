"""Observation matrices of the three models at random states, in units of the robot's own making.

Lengths are measured in the robot's length scale L and times in sqrt(L / |gravity|), so that
inertial, velocity and gravity terms are of one size and a robot described in millimetres or grams
gives the same matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from minidyn.arrays import Array
from minidyn.base.rows import MODELS, Arithmetic
from minidyn.dynamics.tree import REAL, Coordinates, Numbers, Row, coordinates, place
from minidyn.errors import LoopError
from minidyn.model.drives import BY_SYMBOL, INERTIAS
from minidyn.model.joint import typical_length
from minidyn.model.robot import Robot

_HELD = 20240301  # seed of the general position of joints that are held
_TURNS = 10.0
_NEAR = 0.5  # rad or m: how far from home joints go that move a loop which must be solved for


@dataclass(frozen=True)
class Units:
    """The robot's own scales: what one unit of each parameter and each row is in SI."""

    length: float  # L, m
    time: float  # T, s
    parameters: (
        Array  # (p,) SI value of one unit of each standard parameter, for a unit of mass of 1 kg
    )
    rows: Array  # (n,) SI value of one unit of each joint's torque or force
    speeds: Array  # (n,) SI value of one unit of each joint's position times 1/T


def units_of(robot: Robot) -> Units:
    """Return the robot's scales.

    L is the root mean square of its lengths that are not zero, T = sqrt(L / |g|).
    """
    L = typical_length(robot.joints)
    g = math.hypot(*robot.gravity.tolist())
    T = math.sqrt(L / g) if g > 0.0 else 1.0
    torque = np.array([L**2 / T**2 if joint.turns else L / T**2 for joint in robot.joints])
    parameters = np.empty(len(robot.layout))
    body = np.array([L**2] * 6 + [L] * 3 + [1.0])
    for part in robot.layout.links:
        parameters[part] = body
    for column in (column for columns in robot.layout.drives for column in columns):
        turns = robot.joints[column.joint].turns
        if column.symbol in INERTIAS:
            value = L**2 if turns else 1.0
        else:
            term, travel = BY_SYMBOL[column.symbol], 1.0 if turns else L
            unit = travel if term.kind == "position" else (travel / T) ** term.speed_power
            balancer = (
                robot.joints[column.joint].drive.balancer if term.kind == "balancer" else None
            )
            unit = balancer.size(column.symbol) if balancer is not None else unit
            value = 1.0 if term.kind == "load" else torque[column.joint] / unit
        parameters[column.index] = value
    active = list(robot.independent)
    speeds = np.array([1.0 if robot.joints[k].turns else L for k in active]) / T
    rows = torque[active]
    if robot.free_base:  # linear before angular
        rows = np.concatenate([[L / T**2] * 3, [L**2 / T**2] * 3, rows])
        speeds = np.concatenate([[L / T] * 3, [1.0 / T] * 3, speeds])
    return Units(L, T, parameters, rows, speeds)


@dataclass(frozen=True)
class JointStates:
    """Random states of the independent joints, SI units, each (e, n).

    With a free base q is (e, n + 1): position and quaternion come first.
    """

    q: Array
    dq: Array
    ddq: Array


def random_states(
    robot: Robot,
    units: Units,
    count: int,
    rng: np.random.Generator | int | tuple[int, ...],
    moving: Sequence[int] | None = None,
    stretch: float = 1.0,
) -> JointStates:
    """Return states over the full turn of revolute joints and over ±2 L of prismatic ones, by a
    generator or a seed.

    Joints that do not move (places in q; None: all do) stand at one general position, the same for
    every seed. The others go `stretch` times as far.
    """
    n = robot.n
    turns = np.array(
        [False, False, False, True, True, True] * robot.free_base
        + [robot.joints[k].turns for k in robot.independent],
        dtype=bool,
    )
    reach = np.where(turns, math.pi, 2.0 * units.length)
    drawn = (
        _drawn(rng, count, n)
        if isinstance(rng, np.random.Generator)
        else _remembered(rng, count, n)
    )
    q = drawn[0] * (stretch * reach)
    dq, ddq = drawn[1] * units.speeds, drawn[2] * (units.speeds / units.time)
    if moving is not None and len(moving) < n:
        still = np.setdiff1d(np.arange(n), moving)
        q[:, still] = (_remembered(_HELD, 1, n)[0] * reach)[0, still]
        dq[:, still] = ddq[:, still] = 0.0
    if robot.free_base:
        q = np.concatenate([q[:, :3], _quaternions(q[:, 3:6]), q[:, 6:]], axis=1)
    return JointStates(_in_reach(robot, q), dq, ddq)


def _quaternions(angles: Array) -> Array:
    """Return the quaternions (e, 4), x, y, z, w, of turns about x, then the new y and z (e, 3)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles.T / 2), np.sin(angles.T / 2)
    return np.stack(
        [
            sx * cy * cz + cx * sy * sz,
            cx * sy * cz - sx * cy * sz,
            cx * cy * sz + sx * sy * cz,
            cx * cy * cz - sx * sy * sz,
        ],
        axis=1,
    )


def stretch_of(robot: Robot) -> float:
    """Return how many times as far joints should go to show what moves.

    Followers that turn slowly need several turns of their leaders.
    """
    slow = not robot.implicit_loops and any(joint.follows for joint in robot.joints)
    return _TURNS if slow else 1.0


def _drawn(rng: np.random.Generator, count: int, n: int) -> tuple[Array, Array, Array]:
    q = rng.uniform(-1.0, 1.0, size=(count, n))
    # uniform without the middle: no factor of a term is small by chance
    dq, ddq = (
        rng.choice((-1.0, 1.0), size=(count, n)) * rng.uniform(0.3, 1.5, size=(count, n))
        for _ in range(2)
    )
    return q, dq, ddq


@lru_cache(maxsize=16)
def _remembered(seed: int | tuple[int, ...], count: int, n: int) -> tuple[Array, Array, Array]:
    """Return the numbers of a fresh generator.

    Making one takes as long as many small factorisations.
    """
    return _drawn(np.random.default_rng(seed), count, n)


def _in_reach(robot: Robot, q: Array) -> Array:
    """Draw positions (e, n) towards where the loops are known to close, and until they close
    everywhere.

    Only joints that move a loop are drawn in. Far from home a loop that is solved for may have
    passed a position where its branches meet and be on another one, which is another mechanism.
    """
    if not robot.implicit_loops and not robot.formulas:
        return q
    from minidyn.model.loops import loop_jacobian, solve_loops

    home = {name: value for loop in robot.loops for name, value in loop.home}
    joints = [robot.joints[k] for k in robot.independent]
    centre = np.array(
        [home.get(j.name, min(max(0.0, j.limits.lower), j.limits.upper)) for j in joints]
    )
    tied = np.ones(robot.n, dtype=bool)
    first = 1.0
    if robot.implicit_loops:
        passive = [
            robot.joint_index(name) for loop in robot.implicit_loops for name in loop.passive
        ]
        G, _ = loop_jacobian(robot, solve_loops(robot, centre + 0.01 * (q[:4] - centre)))
        tied = np.any(np.abs(G[:, passive]) > 1e-9, axis=(0, 1))
        first = _NEAR / max(float(np.abs(q - centre)[:, tied].max(initial=0.0)), _NEAR)
    for share in (first, first / 2, first / 5, first / 10, first / 20):
        near: Array = np.where(tied, centre + share * (q - centre), q)
        try:
            if np.all(np.isfinite(solve_loops(robot, near))):
                return near
        except LoopError:
            continue
    near = np.where(tied, centre + first / 50 * (q - centre), q)
    solve_loops(robot, near)  # says what does not close, and by how much
    return near


def model_rows(
    robot: Robot,
    model: str,
    states: JointStates,
    numbers: Numbers = REAL,
    lead: tuple[int, ...] = (),
) -> Array:
    """Return rows of a model at given states, SI units.

    (..., e, n, p), or (..., e, 1, p) where the robot has one row. They are not yet differences, and
    columns of friction are zero where it takes no part. Where `numbers` gives lengths as arrays
    (..., 1), the rows of all of them are computed at once; `lead` are the leading axes that they
    add.

    Implements: Gautier1991 eq. (5), (8), (10).
    """
    wanted = MODELS[model]
    dq = states.dq if wanted.speeds else np.zeros_like(states.dq)
    if not wanted.accelerations:
        states = replace(states, ddq=np.zeros_like(states.ddq))
    if robot.implicit_loops or (robot.formulas and numbers is REAL):
        from minidyn.dynamics.functions import (
            energy_regressor,
            regressor,
        )  # compiled: these robots alone need it

        if not wanted.weight:
            robot = replace(robot, gravity=np.zeros(3))
        if wanted.each_joint:
            Y = regressor(robot, states.q, dq, states.ddq)
        else:
            Y = energy_regressor(robot, states.q, dq)[..., None, :]
        if not wanted.friction:
            Y[..., [column.index for column in robot.layout.columns if column.is_friction]] = 0.0
        return Y
    if robot.formulas:
        c = _by_formulas(robot, replace(states, dq=dq))
    else:
        c = coordinates(robot, list(states.q.T), list(dq.T), list(states.ddq.T))
    tree = place(robot, c.q, numbers)
    return wanted.rows(robot, tree, c, Arithmetic((*lead, len(dq))), None)


def _by_formulas(robot: Robot, states: JointStates) -> Coordinates:
    """Return the coordinates of all joints as arrays, formulas included, which `coordinates`
    records on graphs only.
    """
    from minidyn.model.loops import loop_jacobian, solve_loops

    q = solve_loops(robot, states.q)
    G, drift = loop_jacobian(robot, q, states.dq)
    dq, ddq = (np.einsum("eij,ej->ei", G, rates) for rates in (states.dq, states.ddq))
    rows: list[Row] = [
        {k: G[:, joint, k] for k in range(robot.n) if G[:, joint, k].any()}
        for joint in range(len(robot.joints))
    ]
    return Coordinates(list(q.T), list(dq.T), list((ddq + drift).T), rows, robot.n)


def unitless_rows(
    robot: Robot,
    model: str,
    states: JointStates,
    units: Units,
    observed: Sequence[int] | None = None,
    numbers: Numbers = REAL,
    lead: tuple[int, ...] = (),
) -> Array:
    """Return rows of a model (..., e, observed joints or 1, p) in the robot's own units.

    Where only differences count, they are those between two states that follow each other.
    """
    kind = MODELS[model]
    length, time = kind.unit
    unit = (
        (units.rows[:, None] if kind.each_joint else np.ones((1, 1)))
        * units.length**length
        * units.time**time
    )
    rows = model_rows(robot, model, states, numbers, lead) * (units.parameters / unit)
    if kind.differences:
        rows = rows[..., 0::2, :, :] - rows[..., 1::2, :, :]
    return rows[..., list(observed), :] if kind.each_joint and observed is not None else rows


@dataclass(frozen=True)
class Observation:
    """An observation matrix without units."""

    W: Array  # (r, p), rows and columns in the robot's own units
    units: Units
    spread: float = (
        1.0  # longest to shortest column before their units were chosen by their lengths
    )


def observe(
    robot: Robot,
    model: str,
    seed: int,
    moving: Sequence[int] | None = None,
    observed: Sequence[int] | None = None,
) -> Observation:
    """Return the observation matrix of a model at enough random states.

    Rows are those of joints that move, or that are observed, where these are named.

    Torque rows are stacked sample by sample; energy rows are differences between two states,
    because the height from which potential energy is counted is arbitrary and would add one
    parameter that no motion shows. There are half as many rows again as columns and some more.

    Implements: Gautier1991 eq. (6), (9), (11), (12).
    """
    units = units_of(robot)
    kind = MODELS[model]
    rows = moving if observed is None else observed
    count = max(
        16,
        math.ceil(
            (3 * len(robot.layout) // 2 + 16) / kind.rows_of(robot.n if rows is None else len(rows))
        ),
    )
    count *= 2 if kind.differences else 1
    states = random_states(robot, units, count, seed, moving, stretch_of(robot))
    if (
        kind.differences
    ):  # where the base stands is of no effect, but its height would blur energy differences
        robot = replace(robot, base=tuple(step for step in robot.base if step.is_turn))
    return Observation(
        unitless_rows(robot, model, states, units, rows).reshape(-1, len(robot.layout)), units
    )
