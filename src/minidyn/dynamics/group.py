"""Positions of a robot with a free base on their group: how far a motion leads.

A base that keeps its velocity in its own frame moves along a screw. What it turns multiplies the
quaternion, so that it stays a unit one; joints add.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.dynamics.kernel import require_robot
from minidyn.errors import ShapeError
from minidyn.model.robot import Robot

MAX_NORM_ERROR = 1e-3
"""Of the squared norm of a quaternion: what four digits leave. Functions divide by it."""

_SMALL = 1e-2  # rad: below this angle series are used, exact to the last digit


def integrate(robot: Robot, q: ArrayLike, step: ArrayLike) -> Array:
    """Return the positions (..., nq) that rates lead to: q + step on the group.

    A base that keeps its velocity in its own frame turns and travels along a screw. Of a fixed base
    it is q + step.

    Args:
        robot: The robot.
        q: Positions (..., nq): rad or m; of a free base its position, m, and its unit quaternion
            x, y, z, w come first.
        step: Rates times a duration (..., n), as dq * dt: of a free base the linear and angular
            velocity in its own frame come first.

    Example:
        >>> import numpy as np
        >>> import minidyn as md
        >>> robot = md.load("two_link", free_base=True)
        >>> q = np.array([0, 0, 0, 0, 0, 0, 1, 0.1, 0.2])
        >>> step = np.array([1, 0, 0, 0, 0, np.pi / 2, 0, 0])
        >>> md.integrate(robot, q, step).round(3).tolist()
        [0.637, 0.637, 0.0, 0.0, 0.0, 0.707, 0.707, 0.1, 0.2]
    """
    require_robot(robot, "integrate", free_base=True)
    start, change = np.asarray(q, dtype=float), np.asarray(step, dtype=float)
    for name, array, size in (("q", start, robot.nq), ("step", change, robot.n)):
        if array.shape[-1:] != (size,):
            raise ShapeError(f"integrate: {name}: expected shape (..., {size}), got {array.shape}")
    if not robot.free_base:
        return np.asarray(start + change)
    start, change = (
        np.broadcast_to(x, (*np.broadcast_shapes(start.shape[:-1], change.shape[:-1]), x.shape[-1]))
        for x in (start, change)
    )
    quaternion = start[..., 3:7] / np.linalg.norm(start[..., 3:7], axis=-1, keepdims=True)
    travel, turn = change[..., :3], change[..., 3:6]
    half_sine, one_minus, rest, half_cosine = _series(np.linalg.norm(turn, axis=-1))
    across = np.cross(turn, travel)
    moved = travel + one_minus * across + rest * np.cross(turn, across)
    turned = _product(quaternion, np.concatenate([half_sine * turn, half_cosine], axis=-1))
    turned = turned / np.linalg.norm(turned, axis=-1, keepdims=True)
    place = start[..., :3] + rotated(quaternion, moved)
    return np.concatenate([place, turned, start[..., 7:] + change[..., 6:]], axis=-1)


def check_quaternions(robot: Robot, what: str, q: ArrayLike) -> None:
    """Refuse positions (..., nq) of a robot with a free base without unit quaternions."""
    positions = np.asarray(q, dtype=float)
    if positions.shape[-1:] != (robot.nq,):
        raise ShapeError(
            f"{what}: q: expected shape (..., {robot.nq}), got {positions.shape}: position of the "
            f"base (3), its quaternion x, y, z, w (4) and {robot.nq - 7} joints"
        )
    squares = np.sum(positions[..., 3:7] ** 2, axis=-1)
    wrong = np.argwhere(np.abs(squares - 1.0) > MAX_NORM_ERROR)
    if len(wrong):
        place = tuple(int(k) for k in wrong[0])
        where = f" (sample {', '.join(map(str, place))})" if place else ""
        raise ShapeError(
            f"{what}: q[3:7]{where} is {positions[place][3:7]}, of norm "
            f"{math.sqrt(squares[place]):.4g}; expected a unit quaternion in the order x, y, z, w"
        )


def rotated(quaternion: Array, v: Array) -> Array:
    """Return vectors (..., 3) of a frame with this unit quaternion (..., 4), in the world."""
    axis, w = quaternion[..., :3], quaternion[..., 3:]
    t = 2.0 * np.cross(axis, v)
    return np.asarray(v + w * t + np.cross(axis, t))


def _series(angle: Array) -> tuple[Array, Array, Array, Array]:
    """Return sin(a/2)/a, (1 - cos a)/a², (a - sin a)/a³ and cos(a/2), each (..., 1)."""
    a = angle[..., None]
    x = a * a
    large = np.where(a < _SMALL, 1.0, a)
    return (
        np.where(a < _SMALL, 0.5 - x / 48 + x * x / 3840, np.sin(large / 2) / large),
        np.where(a < _SMALL, 0.5 - x / 24 + x * x / 720, (1 - np.cos(large)) / large**2),
        np.where(a < _SMALL, 1 / 6 - x / 120 + x * x / 5040, (large - np.sin(large)) / large**3),
        np.cos(a / 2),
    )


def _product(one: Array, two: Array) -> Array:
    """Return the product of quaternions (..., 4): x, y, z, w."""
    v, w, u, s = one[..., :3], one[..., 3:], two[..., :3], two[..., 3:]
    vector = w * u + s * v + np.cross(v, u)
    return np.concatenate([vector, w * s - np.sum(v * u, axis=-1, keepdims=True)], axis=-1)
