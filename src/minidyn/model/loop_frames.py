"""How far loops are open: the difference of two frames, its Jacobian, and its acceleration at constant rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.model.joint import Loop
from minidyn.model.placements import TreePose, tree_pose
from minidyn.model.robot import Robot

__all__ = ["bias", "constraint", "loop_residual"]

Array = NDArray[np.float64]


def loop_residual(robot: Robot, loop: Loop, q_all: ArrayLike) -> tuple[Array, Array]:
    """Return how far a loop is open at positions of all joints (..., joints).

    Returns:
        Distance of the two origins (...), m, and angle between the two frames (...), rad (0 for a point).
    """
    difference = _difference(tree_pose(robot, q_all), loop)
    turned = np.linalg.norm(difference[..., 3:], axis=-1) if loop.kind == "frame" else np.zeros(difference.shape[:-1])
    return np.linalg.norm(difference[..., :3], axis=-1), turned


def _difference(pose: TreePose, loop: Loop) -> Array:
    """Frame b seen from frame a, world axes: (..., 3) for a point, (..., 6) with the turn for a frame."""
    A, B = pose.frame(loop.link_a, loop.steps_a), pose.frame(loop.link_b, loop.steps_b)
    shift = B[..., :3, 3] - A[..., :3, 3]
    if loop.kind == "point":
        return shift
    return np.concatenate([shift, _rotation_vector(B[..., :3, :3] @ np.swapaxes(A[..., :3, :3], -1, -2))], axis=-1)


def _rotation_vector(R: Array) -> Array:
    """Return axis times angle (..., 3) of rotation matrices (..., 3, 3)."""
    twist = 0.5 * np.stack(
        [R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], axis=-1
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
    values, rows = [], []
    for loop in robot.implicit_loops:
        A, B = pose.frame(loop.link_a, loop.steps_a), pose.frame(loop.link_b, loop.steps_b)
        of_a, of_b = pose.jacobian(loop.link_a, A[..., :3, 3]), pose.jacobian(loop.link_b, B[..., :3, 3])
        values.append(_difference(pose, loop))
        rows.append(of_b[0] - of_a[0])
        if loop.kind == "frame":
            rows.append(of_b[1] - of_a[1])
    return np.concatenate(values, axis=-1), np.concatenate(rows, axis=-2)


def bias(robot: Robot, pose: TreePose, rates: Array) -> Array:
    """Return J̇ dq_all (..., m): the frames' relative acceleration at constant joint rates."""
    parts = []
    for loop in robot.implicit_loops:
        A, B = pose.frame(loop.link_a, loop.steps_a), pose.frame(loop.link_b, loop.steps_b)
        of_a = pose.acceleration(loop.link_a, A[..., :3, 3], rates)
        of_b = pose.acceleration(loop.link_b, B[..., :3, 3], rates)
        parts.append(of_b[0] - of_a[0])
        if loop.kind == "frame":
            parts.append(of_b[1] - of_a[1])
    return np.concatenate(parts, axis=-1)
