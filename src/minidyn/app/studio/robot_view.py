"""What the page shows of a robot: its scene, joints, poses, and what its motion can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import plain_values
from minidyn.base.base_parameters import base_parameters
from minidyn.formats.load import looks_of
from minidyn.model.joint import torque_unit
from minidyn.model.loops import solve_loops
from minidyn.model.parameters import STANDARD
from minidyn.model.picture import moving_scene, scene_of, up_frame
from minidyn.model.placements import tree_pose
from minidyn.model.robot import Robot
from minidyn.notices import notices_json

TRIANGLES = 12_000
"""Of all meshes together: what a browser without a graphics processor still draws."""


def joints_of(robot: Robot, unlocked: Robot) -> list[dict[str, Any]]:
    """Return one row for each joint that moves or is locked."""
    rows = []
    for index in unlocked.independent:
        joint = unlocked.joints[index]
        limits = joint.limits
        rows.append(
            {
                "name": joint.name,
                "kind": joint.kind,
                "slides": joint.slides,
                "lower": limits.lower,
                "upper": limits.upper,
                "velocity": limits.velocity,
                "effort": limits.effort,
                "unit": torque_unit(joint),
                "locked": robot.locked_joints.get(joint.name),
            }
        )
    return rows


def scene_data(robot: Robot) -> dict[str, Any]:
    """Return points in the frames of the links that carry them, and what connects them."""
    still = np.zeros((1, robot.n))
    looks = looks_of(robot, TRIANGLES)
    if robot.implicit_loops:
        scene, frames = scene_of(robot, still[0], looks), None
        local = np.array(scene.points)
        carriers = np.zeros(len(local), dtype=int)
    else:
        scene, frames = moving_scene(robot, still, looks)
        local, carriers = np.array(scene.points), np.array(scene.carriers) + 1
    frames = np.eye(4)[None, None, :3] if frames is None else frames
    places = np.einsum("kij,kj->ki", frames[0, carriers, :, :3], local) + frames[0, carriers, :, 3]
    middle = (places.min(axis=0) + places.max(axis=0)) / 2
    reach = float(np.linalg.norm(places - middle, axis=1).max())
    return {
        "points": local.round(5).ravel(),
        "carriers": carriers,
        "shapes": [[one.kind, one.body, list(one.points)] for one in scene.front_last],
        "anchors": [
            [robot.joints[index].name, scene.anchors[index]] for index in robot.independent
        ],
        "bodies": [robot.base_name, *robot.link_names],
        "gravity": list(up_frame(robot).T @ robot.gravity),
        "middle": middle,
        "radius": max(reach, 1e-6),
        "moves": not robot.implicit_loops,
    }


def placements(robot: Robot, q: ArrayLike) -> NDArray[np.float32]:
    """Return where base and links are (N, 1 + links, 3, 4) at positions (N, n), gravity down."""
    positions = np.atleast_2d(np.asarray(q, dtype=float))
    if robot.implicit_loops:
        return np.tile(np.eye(4, dtype=np.float32)[:3], (len(positions), 1, 1, 1))
    links = tree_pose(robot, solve_loops(robot, positions)).links
    base = np.broadcast_to(robot.base_placement, (len(links), 1, 4, 4))
    stacked = np.concatenate([base, links], axis=1)[:, :, :3]
    return np.asarray(np.einsum("ji,nbjk->nbik", up_frame(robot), stacked), dtype=np.float32)


def robot_data(robot: Robot, unlocked: Robot) -> dict[str, Any]:
    """Return everything about a robot that is quick to find."""
    data = {
        "name": robot.name,
        "n": robot.n,
        "joint_names": robot.joint_names,
        "joints": joints_of(robot, unlocked),
        "gravity": robot.gravity,
        "scene": scene_data(robot),
        "notices": notices_json(robot.notices),
    }
    return dict(plain_values(data, finite=True))


def base_data(robot: Robot) -> dict[str, Any]:
    """Return what becomes of the standard parameters of each link, and the relations."""
    base = base_parameters(robot)
    statuses = base.statuses
    links: dict[str, dict[str, list[str]]] = {}
    for column in robot.layout.columns:
        if column.symbol in STANDARD:
            word, _, why = statuses[column.name].partition(": ")
            words = f"{column.name} ({why})" if why else column.name
            entry = links.setdefault(robot.link_name(column.joint), {})
            entry.setdefault(word, []).append(words)
    return {
        "rank": base.rank,
        "links": links,
        "relations": {one.name: str(one) for one in base.relations()},
        "level": {name: _level(entry) for name, entry in links.items()},
    }


def _level(entry: Mapping[str, list[str]]) -> str:
    """Return the best that a link's parameters come to: what its colour says."""
    return next(
        (word for word in ("identifiable", "in combination") if entry.get(word)), "no effect"
    )
