"""Robots to URDF: a file any reader of URDF understands, and from which minidyn gets the same robot
back.

Link frames stand at their joints, links that fixed joints had merged come back as links without
inertia, and what URDF cannot hold goes into a side file (see :mod:`minidyn.formats.side_file`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from lxml import etree

from minidyn.errors import DescriptionError
from minidyn.formats.side_file import write_with_side_file
from minidyn.formats.urdf.read import DYNAMICS, read_urdf
from minidyn.formats.urdf.update import inertial_attributes
from minidyn.formats.xml_file import document, numbers_text, refusing_names
from minidyn.model.geometry import Steps, matrix_of, rpy_of
from minidyn.model.joint import Joint, Limits
from minidyn.model.robot import Robot
from minidyn.text import new_name

UNLIMITED = 1e9
"""Written where a joint has no limit: URDF wants a number."""


def write_urdf(robot: Robot, path: Path) -> None:
    """Write the robot to a new URDF file, with a side file where URDF cannot say everything."""
    _check_names(robot)
    with refusing_names(robot.name):
        data = document(_tree(robot))
    write_with_side_file(robot, robot, path, data, read_urdf, whole=True)


def _check_names(robot: Robot) -> None:
    links = [robot.base_name, *robot.link_names, *(frame.name for frame in robot.frames)]
    for kind, names in (("link", links), ("joint", [joint.name for joint in robot.joints])):
        for index, name in enumerate(names):
            if not name:
                raise DescriptionError(
                    f"robot {robot.name!r}: a {kind} without a name cannot be written to URDF"
                )
            if "${" in name or "$(" in name:
                raise DescriptionError(
                    f"{kind} {name!r}: URDF tools take this as an expression of xacro; rename it"
                )
            if name in names[:index]:
                raise DescriptionError(
                    f"two links or frames are called {name!r}; URDF needs different names"
                )


def _tree(robot: Robot) -> etree._Element:
    root = etree.Element("robot", name=robot.name)
    links = {robot.base_name, *robot.link_names, *(frame.name for frame in robot.frames)}
    joints = {
        joint.name for joint in robot.joints
    }  # fixed joints and helper links get names that are not taken

    def fixed(name: str, parent: str, child: str, steps: Steps) -> None:
        _ends(etree.SubElement(root, "joint", name=name, type="fixed"), parent, child, steps)

    if robot.base:
        world = new_name("world", links)
        etree.SubElement(root, "link", name=world)
    etree.SubElement(root, "link", name=robot.base_name)
    if robot.base:
        fixed(new_name("world_fixed", joints), world, robot.base_name, robot.base)
    for index, (joint, link) in enumerate(zip(robot.joints, robot.link_names)):
        element = etree.SubElement(root, "link", name=link)
        parts = inertial_attributes(robot.parameters[robot.layout.links[index]])
        if parts is not None:
            inertial = etree.SubElement(element, "inertial")
            inertial.extend(etree.Element(tag, attributes) for tag, attributes in parts.items())
        parent = robot.link_name(joint.parent)
        if joint.kind == "fixed":
            fixed(joint.name, parent, link, joint.before)
        elif joint.floats:
            floating = etree.SubElement(root, "joint", name=joint.name, type=joint.kind)
            _ends(floating, parent, link, joint.before)
        elif joint.turns and any(not step.is_turn for step in joint.after):
            # an axis that does not pass through the link's origin takes a helper link and a fixed
            # joint
            helper = new_name(link + "_axis", links)
            etree.SubElement(root, "link", name=helper)
            _moving(root, robot, index, parent, helper, ())
            fixed(new_name(joint.name + "_fixed", joints), helper, link, joint.after)
        else:
            _moving(root, robot, index, parent, link, joint.after)
    for frame in robot.frames:
        etree.SubElement(root, "link", name=frame.name)
        fixed(
            new_name(frame.name + "_fixed", joints),
            robot.link_name(frame.link),
            frame.name,
            frame.steps,
        )
    for joint in robot.joints:
        if joint.drive.gear_ratio != 1.0:
            _transmission(root, joint)
    return root


def _moving(
    root: etree._Element, robot: Robot, index: int, parent: str, child: str, after: Steps
) -> None:
    joint = robot.joints[index]
    element = etree.SubElement(root, "joint", name=joint.name, type=joint.kind)
    _ends(element, parent, child, (*joint.before, *after))
    etree.SubElement(element, "axis", xyz=numbers_text(replace(joint, after=after).axis))
    _limit(element, joint)
    follows = joint.follows
    if follows and len(follows.terms) == 1 and not follows.passive:
        leader, ratio = follows.terms[0]
        etree.SubElement(
            element,
            "mimic",
            joint=leader,
            multiplier=numbers_text([ratio]),
            offset=numbers_text([follows.offset]),
        )
    terms = robot.drive_terms(index)
    given = {key: terms.get(symbol, 0.0) for key, symbol in DYNAMICS.items()}
    given = {key: value if math.isfinite(value) else 0.0 for key, value in given.items()}
    if any(given.values()):
        etree.SubElement(
            element, "dynamics", {key: numbers_text([value]) for key, value in given.items()}
        )


def _ends(element: etree._Element, parent: str, child: str, steps: Steps) -> None:
    T = matrix_of(steps)
    etree.SubElement(
        element, "origin", xyz=numbers_text(T[:3, 3]), rpy=numbers_text(rpy_of(T[:3, :3]))
    )
    etree.SubElement(element, "parent", link=parent)
    etree.SubElement(element, "child", link=child)


def _limit(element: etree._Element, joint: Joint) -> None:
    limits = joint.limits
    if joint.kind == "continuous" and limits == Limits():
        return
    given = {"effort": min(limits.effort, UNLIMITED), "velocity": min(limits.velocity, UNLIMITED)}
    if joint.kind != "continuous":
        given = {
            "lower": max(limits.lower, -UNLIMITED),
            "upper": min(limits.upper, UNLIMITED),
        } | given
    etree.SubElement(element, "limit", {key: numbers_text([value]) for key, value in given.items()})


def _transmission(root: etree._Element, joint: Joint) -> None:
    element = etree.SubElement(root, "transmission", name=joint.name + "_transmission")
    etree.SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
    etree.SubElement(element, "joint", name=joint.name)
    actuator = etree.SubElement(element, "actuator", name=joint.name + "_motor")
    etree.SubElement(actuator, "mechanicalReduction").text = numbers_text([joint.drive.gear_ratio])
