"""Closed loops: passive joints from active ones, and whether a loop closes at all.

A loop says that two frames coincide. Its passive joints are either given as functions of the active
ones, and then the frames only check the functions, or they are solved for: with J the Jacobian of
the frames' difference,

    J dq_all = 0,   J ddq_all + J̇ dq_all = 0

determine the passive rates; planar loops make some of these equations redundant, so they are solved
by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import LoopError, ShapeError
from minidyn.graph.derivative import jacobian, jvp
from minidyn.graph.function import Function, evaluate
from minidyn.graph.scalar import Graph
from minidyn.model.placements import bias, constraint, loop_residual, tree_pose

if TYPE_CHECKING:
    from minidyn.model.robot import Robot

CLOSED = 1e-6  # m and rad: a loop that is further open does not close
SOLVED = 1e-10  # m and rad: what Newton's method must reach
_STRIDE = 0.2  # rad or m: largest change of an active joint between two solutions
_LEAP = 0.5  # rad or m: largest change of a passive joint in one iteration
_SAMPLES = 24


@dataclass(frozen=True)
class _Coordinates:
    """All joints as functions of x = (independent joints, joints to solve for)."""

    unknown: tuple[int, ...]  # indices in `joints` of those to solve for
    start: Array  # where Newton's method begins (unknown,)
    position: Function  # the recorded function x -> q_all
    slope: Function  # its Jacobian
    bend: Function  # second derivative along one direction twice


@lru_cache(maxsize=32)
def _coordinates(robot: Robot) -> _Coordinates:
    begin: dict[str, float] = {}
    for loop in robot.implicit_loops:
        for name, value in zip(loop.passive, loop.start):
            if robot.joints[robot.joint_index(name)].follows is None:
                begin.setdefault(name, value)
    unknown = tuple(index for index, joint in enumerate(robot.joints) if joint.name in begin)
    graph = Graph()
    x = graph.inputs("x", robot.n + len(unknown))
    independent = dict(zip(robot.joint_names, x))
    solved = {robot.joints[index].name: node for index, node in zip(unknown, x[robot.n :])}
    rows = []
    for joint in robot.joints:
        follows = joint.follows
        if joint.name in robot.formulas:
            formula, names = robot.formulas[joint.name], robot.formula_names
            try:
                rows.append(
                    formula.evaluate({name: independent[names[name]] for name in formula.variables})
                )
            except (
                ArithmeticError,
                ValueError,
            ) as error:  # a part that is constant, such as sqrt(-1 + 0*q1)
                raise LoopError(
                    f"joint {joint.name!r}: the formula {formula.text!r} has no value ({error})"
                ) from None
        elif follows is not None:
            rows.append(
                sum(
                    (ratio * independent[name] for name, ratio in follows.terms),
                    graph.zero + follows.offset,
                )
            )
        else:
            rows.append(independent.get(joint.name, solved.get(joint.name, graph.zero)))
    position = graph.function("position", {"y": rows})
    start = np.array([begin[robot.joints[index].name] for index in unknown])
    return _Coordinates(
        unknown, start, position, jacobian(position, "x"), jvp(jvp(position, ["x"]), ["x"])
    )


# ---------------------------------------------------------------- solving


def solve_loops(robot: Robot, q: ArrayLike, start: ArrayLike | None = None) -> Array:
    """Return the positions of all joints (..., joints) for positions of the independent ones (...,
    n).

    Passive joints that are not given as functions are solved for by damped Newton iterations,
    followed in small strides from the position the loop's start holds at, so that a motion stays on
    one branch of the solution; from positions of the joints to solve for (..., unknown) near the
    solution, such as those of the sample before, without strides. Without loops the followers alone
    are filled in.
    """
    positions = np.asarray(q, dtype=float)
    if positions.ndim == 0 or positions.shape[-1] != robot.n:
        raise ShapeError(f"q: got shape {positions.shape}, expected (..., {robot.n})")
    coordinates = _coordinates(robot)
    if not coordinates.unknown:
        return np.asarray(evaluate(coordinates.position, positions))
    flat = positions.reshape(-1, robot.n)
    if start is not None:
        near = np.broadcast_to(
            np.asarray(start, dtype=float), (*positions.shape[:-1], len(coordinates.unknown))
        )
        solution, left = _newton(robot, flat, near.reshape(len(flat), -1))
    else:
        solution, left = _follow(robot, flat)
    if not np.all(left <= SOLVED):
        worst = int(np.argmax(np.where(np.isfinite(left), left, np.inf)))
        raise LoopError(
            f"robot {robot.name!r}: {_names(robot)} cannot be closed at q = "
            f"{np.array2string(flat[worst], precision=6)}"
            f": {left[worst]:.3g} (m, rad) remain; the position is out of reach, or give a start "
            "nearer to it"
        )
    q_all = np.asarray(evaluate(coordinates.position, np.concatenate([flat, solution], axis=-1)))
    return q_all.reshape(*positions.shape[:-1], len(robot.joints))


def _reference(robot: Robot) -> Array:
    """Return the independent positions at which the loops' start holds (n,).

    Where the loops do not say: 0, or the nearest position the limits allow.
    """
    said = {name: value for loop in robot.implicit_loops for name, value in loop.home}
    joints = [robot.joints[index] for index in robot.independent]
    return np.array(
        [said.get(j.name, min(max(0.0, j.limits.lower), j.limits.upper)) for j in joints]
    )


@lru_cache(maxsize=32)
def _home(robot: Robot) -> tuple[Array, float]:
    """Return the solution at the reference (unknown,), and its residual.

    Where the start itself leads nowhere (a stretched position has no slope), starts around it are
    tried.
    """
    start, origin = _coordinates(robot).start, _reference(robot)
    u, left = _newton(robot, origin[None], start[None])
    if left[0] > SOLVED:
        spread = (
            np.random.default_rng(0).normal(size=(48, len(start)))
            * np.linspace(0.05, 1.5, 48)[:, None]
        )
        u, left = _newton(robot, np.repeat(origin[None], 48, axis=0), start + spread)
    solved = np.flatnonzero(left <= SOLVED)
    best = int(solved[0]) if len(solved) else int(np.argmin(left))
    return u[best], float(left[best])


def _follow(robot: Robot, q: Array) -> tuple[Array, Array]:
    """Solve for q (N, n) in strides from the reference.

    Where that fails, straight from the start.
    """
    coordinates, origin = _coordinates(robot), _reference(robot)
    begin = np.broadcast_to(coordinates.start, (len(q), len(coordinates.start)))
    home, home_left = _home(robot)
    if home_left > SOLVED:
        return _newton(robot, q, begin)
    strides = (
        max(1, math.ceil(np.max(np.abs(q - origin), initial=0.0) / _STRIDE))
        if np.isfinite(q).all()
        else 1
    )
    solution, previous = (np.repeat(at[None], len(q), axis=0) for at in (home, origin))
    left = np.zeros(len(q))
    for stride in range(1, strides + 1):
        here = origin + (q - origin) * (stride / strides)
        reduced = _reduced(robot, np.concatenate([previous, solution], axis=-1))
        across = -np.linalg.pinv(reduced[..., robot.n :], rcond=1e-9) @ reduced[..., : robot.n]
        guess = solution + np.einsum("nij,nj->ni", across, here - previous)
        solution, left = _newton(robot, here, guess)
        previous = here
    failed = left > SOLVED
    if failed.any():
        again, again_left = _newton(robot, q[failed], begin[failed])
        better = again_left < left[failed]
        rows = np.flatnonzero(failed)[better]
        solution[rows], left[rows] = again[better], again_left[better]
    return solution, left


def _newton(robot: Robot, q: Array, guess: Array) -> tuple[Array, Array]:
    """Return (unknown positions, largest residual of each sample) from guesses, batch (N, ...)."""
    coordinates = _coordinates(robot)
    u = np.array(guess, dtype=float)

    def at(q_part: Array, u_part: Array) -> tuple[Array, Array]:
        q_all = evaluate(coordinates.position, np.concatenate([q_part, u_part], axis=-1))
        value, J = constraint(robot, tree_pose(robot, q_all))
        return value, J[..., list(coordinates.unknown)]

    value, J = at(q, u)
    size = np.linalg.norm(value, axis=-1)
    active = np.isfinite(size)
    for _ in range(60):
        active &= size > 1e-14
        rows = np.flatnonzero(active)
        if len(rows) == 0:
            break
        step = -np.einsum("nij,nj->ni", np.linalg.pinv(J[rows], rcond=1e-9), value[rows])
        step *= np.minimum(1.0, _LEAP / np.maximum(np.abs(step).max(axis=-1), 1e-300))[:, None]
        improved = np.zeros(len(rows), dtype=bool)
        for _ in range(8):
            left = np.flatnonzero(~improved)
            if len(left) == 0:
                break
            where = rows[left]
            trial = u[where] + step[left]
            trial_value, trial_J = at(q[where], trial)
            trial_size = np.linalg.norm(trial_value, axis=-1)
            better = trial_size < size[where]
            for held, new in ((u, trial), (value, trial_value), (J, trial_J), (size, trial_size)):
                held[where[better]] = new[better]
            improved[left[better]] = True
            step[left[~better]] *= 0.5
        active[rows[~improved]] = False  # as near as rounding allows, or stuck
    return u, np.where(np.isfinite(size), size, np.inf)


def _reduced(robot: Robot, x: Array) -> Array:
    """Return the Jacobian of the loops' differences over independent and unknown joints (..., m,
    n + unknown).
    """
    coordinates = _coordinates(robot)
    _, J = constraint(robot, tree_pose(robot, evaluate(coordinates.position, x)))
    return np.asarray(J @ np.asarray(evaluate(coordinates.slope, x)))


# ---------------------------------------------------------------- rates and accelerations


def loop_jacobian(
    robot: Robot, q_all: ArrayLike, dq: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Return G (..., joints, n) with dq_all = G dq, and Ġ dq (..., joints): ddq_all = G ddq + Ġ dq.

    Without dq it is 0.

    Implements: Gautier1991, closed loops: q̈_p = G q̈_a + Ġ q̇_a.
    """
    every = np.asarray(q_all, dtype=float)
    coordinates, n = _coordinates(robot), robot.n
    x = every[..., [*robot.independent, *coordinates.unknown]]
    slope = np.asarray(evaluate(coordinates.slope, x))
    speed = np.zeros((*every.shape[:-1], n)) if dq is None else np.asarray(dq, dtype=float)
    if not coordinates.unknown:
        return slope, np.asarray(evaluate(coordinates.bend, x, speed, speed))
    pose = tree_pose(robot, every)
    _, J = constraint(robot, pose)
    active, passive = slope[..., :n], slope[..., n:]
    inverse = np.linalg.pinv(J @ passive, rcond=1e-9)
    G = active - passive @ (inverse @ (J @ active))
    rates = np.einsum("...ij,...j->...i", G, speed)
    x_rates = rates[..., [*robot.independent, *coordinates.unknown]]
    bend = np.asarray(evaluate(coordinates.bend, x, x_rates, x_rates))
    lack = np.einsum("...ij,...j->...i", J, bend) + bias(pose, rates)
    return G, bend - np.einsum("...ij,...jk,...k->...i", passive, inverse, lack)


# ---------------------------------------------------------------- checking


def check_loops(robot: Robot, places: Mapping[str, str] | None = None) -> None:
    """Raise where a loop does not close, with the residual in metres and radians.

    `places`: each loop's file and line. Functions are tested at random positions within the limits;
    loops to solve for must be solvable from their start and determine their passive joints there.
    """
    where = {
        loop.name: f"{(places or {}).get(loop.name, '')}: ".removeprefix(": ")
        for loop in robot.loops
    }
    if robot.implicit_loops:
        _check_solvable(robot, where)
    explicit = [loop for loop in robot.loops if loop not in robot.implicit_loops]
    if not explicit:
        return
    q = _random_positions(robot)
    try:
        q_all = solve_loops(robot, q)
    except LoopError:  # out of reach somewhere: the reference will do
        q_all = solve_loops(robot, _reference(robot)[None])
    for loop in explicit:
        apart, turned = loop_residual(robot, loop, q_all)
        known = np.isfinite(apart)
        if not known.any():
            raise LoopError(
                f"{where[loop.name]}loop {loop.name!r}: its functions have no value (NaN) anywhere"
            )
        metres, radians = float(apart[known].max()), float(turned[known].max())
        if max(metres, radians) > CLOSED:
            ends = " and ".join(repr(robot.link_name(link)) for link in (loop.link_a, loop.link_b))
            raise LoopError(
                f"{where[loop.name]}loop {loop.name!r} does not close: its {loop.kind}s on {ends} "
                f"are up to {metres:.3g} m and {radians:.3g} rad apart (expected below "
                f"{CLOSED:g}), passive joints {', '.join(map(repr, loop.passive))}; is the sign "
                "of a function wrong, or a length?"
            )


def _check_solvable(robot: Robot, where: Mapping[str, str]) -> None:
    coordinates, origin = _coordinates(robot), _reference(robot)
    prefix = where[robot.implicit_loops[0].name]
    home, left = _home(robot)
    x = np.concatenate([origin, home])[None]
    if left > CLOSED:
        q_all = evaluate(coordinates.position, x)
        open_by = [loop_residual(robot, loop, q_all) for loop in robot.implicit_loops]
        metres, radians = (max(float(part[i][0]) for part in open_by) for i in (0, 1))
        raise LoopError(
            f"{prefix}{_names(robot)} cannot be closed from its start: {metres:.3g} m and "
            f"{radians:.3g} rad remain at q = {np.array2string(origin, precision=6)}; give start "
            "values nearer to a solution, or check the lengths"
        )
    reduced = _reduced(robot, x)[0]
    names = ", ".join(repr(robot.joints[index].name) for index in coordinates.unknown)
    size = max(float(np.abs(reduced).max()), 1e-300)
    rank = int(np.linalg.matrix_rank(reduced[:, robot.n :], tol=1e-5 * size))
    if rank < len(coordinates.unknown):
        raise LoopError(
            f"{prefix}{_names(robot)} leaves passive joints free: {names} are "
            f"{len(coordinates.unknown)}, the loop determines {rank}; name fewer passive joints, "
            "or start away from a singular position"
        )
    full = int(np.linalg.matrix_rank(reduced, tol=1e-5 * size))
    if full > rank:
        raise LoopError(
            f"{prefix}{_names(robot)} holds back {full - rank} of the independent joints; name "
            f"more passive joints (now {names})"
        )


def _random_positions(robot: Robot) -> Array:
    """Return positions of the independent joints within their limits (samples, n).

    The same every time.
    """
    reach = [robot.joints[index] for index in robot.independent]
    span = [1.0 if joint.slides else math.pi for joint in reach]
    lower = np.array(
        [max(joint.limits.lower, min(-s, joint.limits.upper - s)) for joint, s in zip(reach, span)]
    )
    upper = np.array(
        [min(joint.limits.upper, max(s, joint.limits.lower + s)) for joint, s in zip(reach, span)]
    )
    return np.asarray(
        lower + (upper - lower) * np.random.default_rng(0).random((_SAMPLES, robot.n))
    )


def _names(robot: Robot) -> str:
    names = ", ".join(repr(loop.name) for loop in robot.implicit_loops)
    return f"loop {names}" if len(robot.implicit_loops) == 1 else f"loops {names}"
