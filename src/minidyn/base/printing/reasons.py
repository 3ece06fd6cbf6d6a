"""Why a standard parameter has no effect, in a few words, read from how its link moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap


def reason(base: BaseMap, name: str) -> str:
    """Return why parameter `name`, which the map lists as eliminated, takes no part."""
    robot = base.robot
    column = robot.layout.columns[robot.layout.index(name)]
    link = robot.link_names[column.joint]
    if column.is_friction and base.model != "torque":
        return f"friction takes no part in the {base.model} model"
    if base.model == "gravity" and column.symbol not in ("MX", "MY", "MZ", "M"):
        return "the gravity load has no part of it"
    if base.columns is not None and name not in base.columns:
        return "it was not asked about"
    if not column.is_inertial:
        if column.symbol == FRICTION["load"] and column.joint in _moving_joints(robot, base.joints):
            return f"gravity never loads the drive of joint {robot.joints[column.joint].name!r}"
        what = "rotor" if column.symbol == ROTOR else "drive"
        return f"the {what} of joint {robot.joints[column.joint].name!r} does not move"
    moving = _moving_joints(robot, base.joints)
    path = [joint for joint in _path(robot, column.joint) if joint in moving]
    if not path:
        return f"link {link!r} does not move"
    if base.model == "gravity":
        return "gravity does no work on it"
    if column.symbol == "M":
        return f"the origin of link {link!r} does not move"
    if not any(robot.joints[joint].turns for joint in path):
        return f"link {link!r} never turns"
    if column.symbol in ("MX", "MY", "MZ"):
        return f"neither gravity nor an acceleration of the origin of link {link!r} makes it felt at a joint"
    return f"link {link!r} turns about one direction only, and this is not its moment of inertia about it"


def _moving_joints(robot: Robot, joints: tuple[str, ...] | None) -> set[int]:
    """Return the indices of the joints that move when only these independent ones are driven; None: all."""
    names = set(robot.joint_names if joints is None else joints)
    moving = set()
    for index, joint in enumerate(robot.joints):
        if joint.kind == "fixed":
            continue
        follows = joint.follows
        if follows is None:
            driven = joint.name in names or joint.name not in robot.joint_names
        elif follows.formula:
            driven = True
        else:
            driven = any(leader in names for leader, _ in follows.terms)
        if driven:
            moving.add(index)
    return moving


def _path(robot: Robot, link: int) -> list[int]:
    found = []
    while link >= 0:
        found.append(link)
        link = robot.joints[link].parent
    return found
