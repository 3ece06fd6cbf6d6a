"""Robots to URDF: a file any reader of URDF understands, and from which minidyn gets the same robot back.

Link frames stand at their joints, links that fixed joints had merged come back as links without inertia, and what URDF
cannot hold goes into one <minidyn> element (see :mod:`minidyn.formats.urdf.annex`).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree
from numpy.typing import ArrayLike, NDArray

from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.formats.urdf.annex import TAG, digest, follow_entry, loop_entry, step_entries, tree_digest
from minidyn.formats.urdf.read import read_parts
from minidyn.formats.urdf.update import inertial_numbers
from minidyn.formats.xml_file import Element
from minidyn.model.assemble import LooseJoint
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.geometry import Steps, matrix_of, rpy_of
from minidyn.model.joint import Joint, Limits
from minidyn.model.robot import Robot

UNLIMITED = 1e9
"""Written where a joint has no limit: URDF wants a number."""


def write_urdf(robot: Robot, path: Path) -> None:
    """Write the robot to a new URDF file; an existing file is replaced as a whole.

    Raises:
        DescriptionError: A name that XML or URDF cannot hold.
    """
    write_atomically(path, urdf_text(robot, path))


def urdf_text(robot: Robot, path: Path) -> bytes:
    """Return the URDF text of a robot; `path` is only for messages."""
    names = _Names(robot)
    try:
        root = _tree(robot, names)
        parsed = Element(path, etree.fromstring(etree.tostring(root)))
        annex = _annex(robot, names, parsed)
        if annex:
            element = etree.SubElement(root, TAG)
            element.text = json.dumps({"version": 1, **annex})
    except ValueError as error:  # lxml refuses control characters in names
        if isinstance(error, DescriptionError):
            raise
        raise DescriptionError(f"robot {robot.name!r}: a name cannot be written as XML ({error}); rename it") from None
    etree.indent(root)
    return bytes(etree.tostring(root, xml_declaration=True, encoding="utf-8")) + b"\n"


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
        self._taken = {"link": set(links), "joint": set(joints)}
        self.frame_joint = {frame.name: self._new("joint", frame.name + "_fixed") for frame in robot.frames}
        self.world = self._new("link", "world") if robot.base else ""
        self.world_joint = self._new("joint", "world_fixed") if robot.base else ""
        # an axis that does not pass through the link's origin takes a helper link and a fixed joint
        self.helper: dict[str, tuple[str, str]] = {}
        for joint, link in zip(robot.joints, robot.link_names):
            if joint.turns and _shifts(joint.after):
                self.helper[joint.name] = self._new("link", link + "_axis"), self._new("joint", joint.name + "_fixed")

    def _new(self, kind: str, wanted: str) -> str:
        while wanted in self._taken[kind]:
            wanted += "_"
        self._taken[kind].add(wanted)
        return wanted


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
        _inertial(element, robot.parameters[robot.layout.links[index]])
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
    etree.SubElement(element, "axis", xyz=_text(axis))
    _limit(element, joint)
    follows = joint.follows
    if follows and len(follows.terms) == 1 and not follows.passive:
        leader, ratio = follows.terms[0]
        etree.SubElement(element, "mimic", joint=leader, multiplier=_text([ratio]), offset=_text([follows.offset]))
    terms = {column.symbol: robot.parameters[column.index] for column in robot.layout.drives[index]}
    given = [(key, terms.get(symbol, 0.0)) for key, symbol in (("damping", "Fv"), ("friction", "Fc"))]
    if any(math.isfinite(value) and value != 0.0 for _, value in given):
        dynamics = etree.SubElement(element, "dynamics")
        for key, value in given:
            dynamics.set(key, _text([value if math.isfinite(value) else 0.0]))


def _ends(element: etree._Element, parent: str, child: str, steps: Steps) -> None:
    T = matrix_of(steps)
    etree.SubElement(element, "origin", xyz=_text(T[:3, 3]), rpy=_text(rpy_of(T[:3, :3])))
    etree.SubElement(element, "parent", link=parent)
    etree.SubElement(element, "child", link=child)


def _limit(element: etree._Element, joint: Joint) -> None:
    limits = joint.limits
    if joint.kind == "continuous" and limits == Limits():
        return
    entry = etree.SubElement(element, "limit")
    if joint.kind != "continuous":
        entry.set("lower", _text([max(limits.lower, -UNLIMITED)]))
        entry.set("upper", _text([min(limits.upper, UNLIMITED)]))
    entry.set("effort", _text([min(limits.effort, UNLIMITED)]))
    entry.set("velocity", _text([min(limits.velocity, UNLIMITED)]))


def _transmission(root: etree._Element, joint: Joint) -> None:
    element = etree.SubElement(root, "transmission", name=joint.name + "_transmission")
    etree.SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
    etree.SubElement(element, "joint", name=joint.name)
    actuator = etree.SubElement(element, "actuator", name=joint.name + "_motor")
    etree.SubElement(actuator, "mechanicalReduction").text = _text([joint.drive.gear_ratio])


def _inertial(link: etree._Element, ten: NDArray[np.float64]) -> None:
    numbers = inertial_numbers(ten)
    if numbers is None:
        return
    mass, com, tensor = numbers
    element = etree.SubElement(link, "inertial")
    etree.SubElement(element, "origin", xyz=_text(com), rpy="0 0 0")
    etree.SubElement(element, "mass", value=_text([mass]))
    entries = {f"i{'xyz'[i]}{'xyz'[j]}": _text([tensor[i, j]]) for i in range(3) for j in range(i, 3)}
    etree.SubElement(element, "inertia", entries)


def _text(values: ArrayLike) -> str:
    """Return numbers so that reading them gives the same value."""
    return " ".join(_number(float(value)) for value in np.asarray(values, dtype=float))


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


# -------------------------------------------------------------------- what URDF cannot hold


def _annex(robot: Robot, names: _Names, root: Element) -> dict[str, Any]:
    """Return what a plain reading of the written tree would miss, and nothing else."""
    parts = read_parts(root)
    plain_joints = {joint.name: joint for joint in parts.joints}
    plain_links = {link.name: link.parameters for link in parts.links}
    joint_elements = {joint.text("name"): joint for joint in root.children("joint")}
    link_elements = {link.text("name"): link for link in root.children("link")}

    def link_name(index: int) -> str:
        return robot.base_name if index < 0 else robot.link_names[index]

    annex: dict[str, Any] = {}
    if parts.name != robot.name:
        annex["name"] = robot.name
    if robot.gravity.tolist() != [0.0, 0.0, -9.81]:
        annex["gravity"] = robot.gravity.tolist()
    tree = _exact_tree(robot, names, plain_joints)
    if tree:
        annex["tree"] = {"of": tree_digest(root), **tree}
    joints: dict[str, Any] = {}
    for index, (joint, link) in enumerate(zip(robot.joints, robot.link_names)):
        entry = _differences(robot, index, plain_joints[joint.name], joint_elements[joint.name])
        ten, plain = robot.parameters[robot.layout.links[index]], plain_links[link]
        if not np.array_equal(ten, np.full(10, np.nan) if plain is None else plain, equal_nan=True):
            entry["parameters"] = [digest(link_elements[link], ("inertial",)), ten.tolist()]
        if entry:
            joints[joint.name] = entry
    if joints:
        annex["joints"] = joints
    if robot.loops:
        annex["loops"] = [loop_entry(loop, link_name) for loop in robot.loops]
    return annex


def _exact_tree(robot: Robot, names: _Names, plain: dict[str, LooseJoint]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    exact: dict[str, Any] = {}
    moving = [joint for joint in robot.joints if joint.kind != "fixed"]
    for joint in robot.joints:
        read = plain[joint.name]
        same = (joint.before, joint.motion, joint.direction, joint.after)
        if joint.name in names.helper or same != (read.before, read.motion, read.direction, read.after):
            exact[joint.name] = {
                "before": step_entries(joint.before),
                "motion": joint.motion,
                "direction": joint.direction,
                "after": step_entries(joint.after),
            }
            if joint.name in names.helper:
                exact[joint.name]["link"] = names.helper[joint.name][0]
    for frame in robot.frames:
        if frame.steps != plain[names.frame_joint[frame.name]].before:
            exact[names.frame_joint[frame.name]] = {
                "before": step_entries(frame.steps),
                "motion": "rz",
                "direction": 1,
                "after": [],
            }
    if exact:
        tree["joints"] = exact
    if [joint.parent for joint in moving] != list(range(-1, len(moving) - 1)):
        tree["order"] = [joint.name for joint in moving]
    if len(robot.frames) > 1:
        tree["frames"] = [frame.name for frame in robot.frames]
    if robot.base:
        tree["world"], tree["base"] = names.world, step_entries(robot.base)
    if len(moving) < len(robot.joints):
        tree["loads"] = [link for joint, link in zip(robot.joints, robot.link_names) if joint.kind == "fixed"]
    if robot.symbols:
        tree["symbols"] = [list(pair) for pair in robot.symbols]
    return tree


def _differences(robot: Robot, index: int, plain: LooseJoint, element: Element) -> dict[str, Any]:
    """Return limits, followers and drive terms of a joint that a plain reading would miss."""
    joint = robot.joints[index]
    entry: dict[str, Any] = {}
    limits = joint.limits
    if limits != plain.limits:
        entry["limits"] = [
            digest(element, ("limit",)),
            [limits.lower, limits.upper, limits.velocity, limits.effort],
        ]
    read = None if plain.leaders is None else (tuple(plain.leaders.items()), plain.offset, "", False)
    follows = joint.follows
    if follows and read != (follows.terms, follows.offset, follows.formula, follows.passive):
        entry["follows"] = [digest(element, ("mimic",)), follow_entry(follows)]
    terms = {column.symbol: float(robot.parameters[column.index]) for column in robot.layout.drives[index]}
    for symbol in (ROTOR, FRICTION["offset"]):
        if symbol in terms:
            entry[symbol] = terms.pop(symbol)
    if terms != plain.drive_values:
        entry["friction"] = [digest(element, ("dynamics",)), terms]
    if joint.drive.sign_width:
        entry["sign_width"] = joint.drive.sign_width
    if joint.drive.stribeck_speed:
        entry["stribeck_speed"] = joint.drive.stribeck_speed
    if joint.drive.coupling:
        entry["coupling"] = [list(pair) for pair in joint.drive.coupling]
    return entry
