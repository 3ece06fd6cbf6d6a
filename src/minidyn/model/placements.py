"""Where the links of a tree stand and how they move, in floating point, for loops.

Dynamics has its own compiled recursions; these are for closing loops: plain NumPy over a batch of
positions of all joints, mimic and passive ones included.

How far loops are open: the difference of two frames, its Jacobian, and its acceleration at constant
rates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import ShapeError
from minidyn.model.geometry import Steps, matrix_of
from minidyn.model.joint import Loop

if TYPE_CHECKING:
    from minidyn.model.robot import Robot


def loop_residual(robot: Robot, loop: Loop, q_all: ArrayLike) -> tuple[Array, Array]:
    """Return the distance of a loop's origins (...), m, and the angle between its frames (...), rad
    (0 for a point).
    """
    difference = loop_difference(tree_pose(robot, q_all), loop)
    turned = (
        np.linalg.norm(difference[..., 3:], axis=-1)
        if loop.kind == "frame"
        else np.zeros(difference.shape[:-1])
    )
    return np.linalg.norm(difference[..., :3], axis=-1), turned


def loop_difference(pose: TreePose, loop: Loop) -> Array:
    """Return frame b seen from frame a, world axes.

    (..., 3) for a point, (..., 6) with the turn for a frame.
    """
    A, B = pose.frame(loop.link_a, loop.steps_a), pose.frame(loop.link_b, loop.steps_b)
    shift = B[..., :3, 3] - A[..., :3, 3]
    if loop.kind == "point":
        return shift
    return np.concatenate(
        [shift, _rotation_vector(B[..., :3, :3] @ np.swapaxes(A[..., :3, :3], -1, -2))], axis=-1
    )


def _rotation_vector(R: Array) -> Array:
    """Return axis times angle (..., 3) of rotation matrices (..., 3, 3)."""
    twist = 0.5 * np.stack(
        [R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]],
        axis=-1,
    )
    sine = np.linalg.norm(twist, axis=-1)
    cosine = 0.5 * (np.trace(R, axis1=-2, axis2=-1) - 1.0)
    angle = np.arctan2(sine, cosine)
    with np.errstate(invalid="ignore", divide="ignore"):
        small = twist * np.where(sine > 1e-9, angle / sine, 1.0)[..., None]
    # near half a turn the axis is the column of R + 1 with the largest diagonal entry
    half = (sine <= 1e-9) & (cosine < 0.0)
    if not half.any():
        return small
    columns = R + np.eye(3)
    largest = np.argmax(np.diagonal(columns, axis1=-2, axis2=-1), axis=-1)
    axis = np.take_along_axis(columns, largest[..., None, None], axis=-1)[..., 0]
    norm = np.maximum(np.linalg.norm(axis, axis=-1, keepdims=True), 1e-300)
    return np.where(half[..., None], np.pi * axis / norm, small)


def constraint(robot: Robot, pose: TreePose) -> tuple[Array, Array]:
    """Return the differences of all loops to solve (..., m) and their Jacobian (..., m, joints)."""
    values = np.concatenate([loop_difference(pose, loop) for loop in robot.implicit_loops], axis=-1)
    return values, np.concatenate(_relative(pose, pose.jacobian), axis=-2)


def bias(pose: TreePose, rates: Array) -> Array:
    """Return J̇ dq_all (..., m): the frames' relative acceleration at constant joint rates."""
    return np.concatenate(
        _relative(pose, lambda link, point: pose.acceleration(link, point, rates)), axis=-1
    )


def _relative(pose: TreePose, motion: Callable[[int, Array], tuple[Array, Array]]) -> list[Array]:
    """Return (linear, angular) motion of frame b less that of frame a, of each loop to solve.

    Linear for a point.
    """
    found = []
    for loop in pose.robot.implicit_loops:
        of_a = motion(loop.link_a, pose.frame(loop.link_a, loop.steps_a)[..., :3, 3])
        of_b = motion(loop.link_b, pose.frame(loop.link_b, loop.steps_b)[..., :3, 3])
        found += [b - a for a, b in zip(of_a, of_b)][: 2 if loop.kind == "frame" else 1]
    return found


@dataclass(frozen=True)
class TreePose:
    """A tree at certain joint positions; everything in the world frame."""

    robot: Robot
    links: Array  # placements of the link frames (..., joints, 4, 4)
    axes: Array  # directions of the joint axes (..., joints, 3), positive sense
    points: Array  # a point on each axis, fixed to the parent (..., joints, 3), m

    def frame(self, link: int, steps: Steps) -> Array:
        """Return the placement of a frame on a link (..., 4, 4); -1 is the base."""
        local = matrix_of(steps)
        if link >= 0:
            return np.asarray(self.links[..., link, :, :] @ local)
        return np.broadcast_to(self.robot.base_placement @ local, (*self.links.shape[:-3], 4, 4))

    def jacobian(self, link: int, point: Array) -> tuple[Array, Array]:
        """Return (linear, angular) velocity of a point of a link per joint rate.

        (..., 3, joints) each.
        """
        linear = np.zeros((*point.shape[:-1], 3, len(self.robot.joints)))
        angular = np.zeros_like(linear)
        for index in joints_to(self.robot, link):
            joint, axis = self.robot.joints[index], self.axes[..., index, :]
            if joint.slides:
                linear[..., index] = axis
            elif joint.turns:
                angular[..., index] = axis
                linear[..., index] = np.cross(axis, point - self.points[..., index, :])
        return linear, angular

    def acceleration(self, link: int, point: Array, rates: Array) -> tuple[Array, Array]:
        """Return (linear, angular) acceleration of a point of a link at constant joint rates.

        (..., 3) each.
        """
        omega = alpha = linear = np.zeros(
            point.shape
        )  # linear: of the body's point that is at `here` now
        here = np.broadcast_to(self.robot.base_placement[:3, 3], point.shape)

        def moved(target: Array) -> Array:
            arm = target - here
            return linear + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm))

        for index in joints_to(self.robot, link):
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
    """Return the tree at positions of all its joints (..., joints), rad or m.

    Fixed loads take any value.
    """
    q = np.asarray(q_all, dtype=float)
    count = len(robot.joints)
    if q.ndim == 0 or q.shape[-1] != count:
        raise ShapeError(
            f"q_all: got shape {q.shape}, expected (..., {count}), one value for each joint"
        )
    links = np.empty((*q.shape, 4, 4))
    axes, points = np.empty((*q.shape, 3)), np.empty((*q.shape, 3))
    base = robot.base_placement
    for index, joint in enumerate(robot.joints):
        parent = base if joint.parent < 0 else links[..., joint.parent, :, :]
        before = parent @ matrix_of(joint.before)
        axes[..., index, :] = joint.direction * before[..., :3, "xyz".index(joint.motion[1])]
        points[..., index, :] = before[..., :3, 3]
        moved = (
            before
            if joint.kind == "fixed"
            else before @ _motion(joint.motion, joint.direction * q[..., index])
        )
        links[..., index, :, :] = moved @ matrix_of(joint.after)
    return TreePose(robot, links, axes, points)


def _motion(motion: str, value: Array) -> Array:
    """Return the elementary motions (..., 4, 4)."""
    T = np.tile(np.eye(4), (*value.shape, 1, 1))
    axis = "xyz".index(motion[1])
    if motion[0] == "t":
        T[..., axis, 3] = value
        return T
    i, j = (axis + 1) % 3, (axis + 2) % 3
    T[..., i, i] = T[..., j, j] = np.cos(value)
    T[..., j, i] = np.sin(value)
    T[..., i, j] = -T[..., j, i]
    return T


def joints_to(robot: Robot, link: int) -> Sequence[int]:
    """Return the joints from the base to a link."""
    return [] if link < 0 else [*joints_to(robot, robot.joints[link].parent), link]
