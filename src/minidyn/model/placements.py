"""Where the links of a tree stand and how they move, in floating point, for loops.

Dynamics has its own compiled recursions; these are for closing loops: plain NumPy over a batch of positions of all
joints, mimic and passive ones included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.errors import ShapeError
from minidyn.model.geometry import Steps, matrix_of
from minidyn.model.robot import Robot

__all__ = ["TreePose", "link_placements", "tree_pose"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TreePose:
    """A tree at certain joint positions; everything in the world frame.

    Attributes:
        robot: The robot.
        links: Placements of the link frames (..., joints, 4, 4).
        axes: Directions of the joint axes (..., joints, 3), positive sense.
        points: A point on each axis, fixed to the parent (..., joints, 3), m.
    """

    robot: Robot
    links: Array
    axes: Array
    points: Array

    def frame(self, link: int, steps: Steps) -> Array:
        """Return the placement of a frame on a link (..., 4, 4); -1 is the base."""
        local = matrix_of(steps)
        if link >= 0:
            return np.asarray(self.links[..., link, :, :] @ local)
        batch = self.links.shape[:-3]
        return np.broadcast_to(self.robot.base_placement @ local, (*batch, 4, 4))

    def jacobian(self, link: int, point: Array) -> tuple[Array, Array]:
        """Return (linear, angular) velocity of a point of a link per joint rate: (..., 3, joints) each."""
        linear = np.zeros((*point.shape[:-1], 3, len(self.robot.joints)))
        angular = np.zeros_like(linear)
        for index in _path(self.robot, link):
            joint, axis = self.robot.joints[index], self.axes[..., index, :]
            if joint.slides:
                linear[..., index] = axis
            elif joint.turns:
                angular[..., index] = axis
                linear[..., index] = np.cross(axis, point - self.points[..., index, :])
        return linear, angular

    def acceleration(self, link: int, point: Array, rates: Array) -> tuple[Array, Array]:
        """Return (linear, angular) acceleration of a point of a link at constant joint rates: (..., 3) each.

        Args:
            link: Index of the link, -1 for the base.
            point: The point, world frame (..., 3), m.
            rates: Speeds of all joints (..., joints).
        """
        omega = np.zeros(point.shape)
        alpha = np.zeros(point.shape)
        linear = np.zeros(point.shape)  # of the body's point that is at `here` now
        here = np.broadcast_to(self.robot.base_placement[:3, 3], point.shape)

        def moved(target: Array) -> Array:
            arm = target - here
            return linear + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm))

        for index in _path(self.robot, link):
            joint, pivot = self.robot.joints[index], self.points[..., index, :]
            linear, here = moved(pivot), pivot
            rate = self.axes[..., index, :] * rates[..., index, None]
            if joint.slides:
                linear = linear + 2.0 * np.cross(omega, rate)
            elif joint.turns:
                alpha = alpha + np.cross(omega, rate)
                omega = omega + rate
        return moved(point), alpha


def tree_pose(robot: Robot, q_all: ArrayLike) -> TreePose:
    """Return the tree at positions of all its joints (..., joints), rad or m; fixed loads take any value."""
    q = np.asarray(q_all, dtype=float)
    count = len(robot.joints)
    if q.ndim == 0 or q.shape[-1] != count:
        raise ShapeError(f"q_all: got shape {q.shape}, expected (..., {count}), one value for each joint")
    batch = q.shape[:-1]
    links = np.empty((*batch, count, 4, 4))
    axes = np.empty((*batch, count, 3))
    points = np.empty((*batch, count, 3))
    base = robot.base_placement
    for index, joint in enumerate(robot.joints):
        parent = base if joint.parent < 0 else links[..., joint.parent, :, :]
        before = parent @ matrix_of(joint.before)
        column = "xyz".index(joint.motion[1])
        axes[..., index, :] = joint.direction * before[..., :3, column]
        points[..., index, :] = before[..., :3, 3]
        moved = before if joint.kind == "fixed" else before @ _motion(joint.motion, joint.direction * q[..., index])
        links[..., index, :, :] = moved @ matrix_of(joint.after)
    return TreePose(robot, links, axes, points)


def link_placements(robot: Robot, q_all: ArrayLike) -> Array:
    """Return the placements of all links in the world (..., joints, 4, 4).

    Args:
        robot: The robot.
        q_all: Positions of all joints, mimic and passive included (..., joints).
    """
    return tree_pose(robot, q_all).links


def _motion(motion: str, value: Array) -> Array:
    """Return the elementary motions (..., 4, 4)."""
    T = np.zeros((*value.shape, 4, 4))
    T[...] = np.eye(4)
    axis = "xyz".index(motion[1])
    if motion[0] == "t":
        T[..., axis, 3] = value
        return T
    i, j = (axis + 1) % 3, (axis + 2) % 3
    T[..., i, i] = T[..., j, j] = np.cos(value)
    T[..., j, i] = np.sin(value)
    T[..., i, j] = -T[..., j, i]
    return T


def _path(robot: Robot, link: int) -> Sequence[int]:
    """Return the joints from the base to a link."""
    path: list[int] = []
    while link >= 0:
        path.insert(0, link)
        link = robot.joints[link].parent
    return path
