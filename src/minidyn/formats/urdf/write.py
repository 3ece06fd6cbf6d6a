"""Robots to URDF: a file any reader of URDF understands, and from which minidyn gets the same robot back.

Link frames stand at their joints, links that fixed joints had merged come back as links without inertia, and what URDF
cannot hold goes into a side file (see :mod:`minidyn.formats.side_file`).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from lxml import etree

from minidyn.errors import DescriptionError
from minidyn.formats.side_file import write_with_side_file
from minidyn.formats.urdf.read import read_urdf
from minidyn.formats.urdf.update import inertial_attributes
from minidyn.formats.xml_edit import document, new_name, numbers_text, refusing_names
from minidyn.model.geometry import Steps, matrix_of, rpy_of
from minidyn.model.joint import Joint, Limits
from minidyn.model.robot import Robot

UNLIMITED = 1e9
"""Written where a joint has no limit: URDF wants a number."""


def write_urdf(robot: Robot, path: Path) -> None:
    """Write the robot to a new URDF file, with a side file where URDF cannot say everything.

    Raises:
        DescriptionError: A name that XML or URDF cannot hold.
    """
    write_with_side_file(robot, robot, path, _urdf_text(robot), read_urdf, whole=True)


def _urdf_text(robot: Robot) -> bytes:
    names = _Names(robot)
    with refusing_names(robot.name):
        root = _tree(robot, names)
    return document(root)


class _Names:
    """Names that URDF needs and a robot does not have: fixed joints, helper links."""

    def __init__(self, robot: Robot) -> None:
        links = [robot.base_name, *robot.link_names, *(frame.name for frame in robot.frames)]
        joints = [joint.name for joint in robot.joints]
        for kind, names in (("link", links), ("joint", joints)):
            for index, name in enumerate(names):
                if not name:
                    raise DescriptionError(f"robot {robot.name!r}: a {kind} without a name cannot be written to URDF")
                if "${" in name or "$(" in name:
                    raise DescriptionError(
                        f"{kind} {name!r}: URDF tools take this as an expression of xacro; rename it"
                    )
                if name in names[:index]:
                    raise DescriptionError(f"two links or frames are called {name!r}; URDF needs different names")
        taken_links, taken = set(links), set(joints)
        self.frame_joint = {frame.name: new_name(frame.name + "_fixed", taken) for frame in robot.frames}
        self.world = new_name("world", taken_links) if robot.base else ""
        self.world_joint = new_name("world_fixed", taken) if robot.base else ""
        # an axis that does not pass through the link's origin takes a helper link and a fixed joint
        self.helper: dict[str, tuple[str, str]] = {}
        for joint, link in zip(robot.joints, robot.link_names):
            if joint.turns and _shifts(joint.after):
                self.helper[joint.name] = new_name(link + "_axis", taken_links), new_name(joint.name + "_fixed", taken)


def _shifts(steps: Steps) -> bool:
    return any(not step.is_turn for step in steps)


# -------------------------------------------------------------------- the URDF itself


def _tree(robot: Robot, names: _Names) -> etree._Element:
    root = etree.Element("robot", name=robot.name)
    if robot.base:
        etree.SubElement(root, "link", name=names.world)
    etree.SubElement(root, "link", name=robot.base_name)
    if robot.base:
        _fixed(root, names.world_joint, names.world, robot.base_name, robot.base)
    for index, (joint, link) in enumerate(zip(robot.joints, robot.link_names)):
        element = etree.SubElement(root, "link", name=link)
        parts = inertial_attributes(robot.parameters[robot.layout.links[index]])
        if parts is not None:
            inertial = etree.SubElement(element, "inertial")
            inertial.extend(etree.Element(tag, attributes) for tag, attributes in parts.items())
        parent = robot.base_name if joint.parent < 0 else robot.link_names[joint.parent]
        if joint.kind == "fixed":
            _fixed(root, joint.name, parent, link, joint.before)
        elif joint.name in names.helper:
            helper, fixed = names.helper[joint.name]
            etree.SubElement(root, "link", name=helper)
            _moving(root, robot, index, parent, helper, joint.before, ())
            _fixed(root, fixed, helper, link, joint.after)
        else:
            _moving(root, robot, index, parent, link, joint.before, joint.after)
    for frame in robot.frames:
        etree.SubElement(root, "link", name=frame.name)
        carrier = robot.base_name if frame.link < 0 else robot.link_names[frame.link]
        _fixed(root, names.frame_joint[frame.name], carrier, frame.name, frame.steps)
    for joint in robot.joints:
        if joint.drive.gear_ratio != 1.0:
            _transmission(root, joint)
    return root


def _fixed(root: etree._Element, name: str, parent: str, child: str, steps: Steps) -> None:
    _ends(etree.SubElement(root, "joint", name=name, type="fixed"), parent, child, steps)


def _moving(
    root: etree._Element, robot: Robot, index: int, parent: str, child: str, before: Steps, after: Steps
) -> None:
    joint = robot.joints[index]
    element = etree.SubElement(root, "joint", name=joint.name, type=joint.kind)
    _ends(element, parent, child, (*before, *after))
    unit = np.zeros(3)
    unit["xyz".index(joint.motion[1])] = joint.direction
    axis = matrix_of(after)[:3, :3].T @ unit if after else unit
    etree.SubElement(element, "axis", xyz=numbers_text(axis))
    _limit(element, joint)
    follows = joint.follows
    if follows and len(follows.terms) == 1 and not follows.passive:
        leader, ratio = follows.terms[0]
        etree.SubElement(
            element, "mimic", joint=leader, multiplier=numbers_text([ratio]), offset=numbers_text([follows.offset])
        )
    terms = robot.drive_terms(index)
    given = [(key, terms.get(symbol, 0.0)) for key, symbol in (("damping", "Fv"), ("friction", "Fc"))]
    if any(math.isfinite(value) and value != 0.0 for _, value in given):
        dynamics = etree.SubElement(element, "dynamics")
        for key, value in given:
            dynamics.set(key, numbers_text([value if math.isfinite(value) else 0.0]))


def _ends(element: etree._Element, parent: str, child: str, steps: Steps) -> None:
    T = matrix_of(steps)
    etree.SubElement(element, "origin", xyz=numbers_text(T[:3, 3]), rpy=numbers_text(rpy_of(T[:3, :3])))
    etree.SubElement(element, "parent", link=parent)
    etree.SubElement(element, "child", link=child)


def _limit(element: etree._Element, joint: Joint) -> None:
    limits = joint.limits
    if joint.kind == "continuous" and limits == Limits():
        return
    entry = etree.SubElement(element, "limit")
    if joint.kind != "continuous":
        entry.set("lower", numbers_text([max(limits.lower, -UNLIMITED)]))
        entry.set("upper", numbers_text([min(limits.upper, UNLIMITED)]))
    entry.set("effort", numbers_text([min(limits.effort, UNLIMITED)]))
    entry.set("velocity", numbers_text([min(limits.velocity, UNLIMITED)]))


def _transmission(root: etree._Element, joint: Joint) -> None:
    element = etree.SubElement(root, "transmission", name=joint.name + "_transmission")
    etree.SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
    etree.SubElement(element, "joint", name=joint.name)
    actuator = etree.SubElement(element, "actuator", name=joint.name + "_motor")
    etree.SubElement(actuator, "mechanicalReduction").text = numbers_text([joint.drive.gear_ratio])
