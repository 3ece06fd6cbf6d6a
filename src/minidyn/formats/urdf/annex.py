"""URDFs that older versions of minidyn wrote: what URDF cannot say stands in one <minidyn> element, as JSON.

Such files are still read; new ones have a side file (:mod:`minidyn.formats.side_file`). Each entry bears a digest of
the URDF text it refines and counts only while that text is unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minidyn.errors import DescriptionError, MinidynError
from minidyn.formats.side_file import digest
from minidyn.formats.xml_file import Element
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.geometry import Step, Steps
from minidyn.model.joint import Limits
from minidyn.model.loops import check_loops
from minidyn.model.parameters import ten_parameters
from minidyn.model.robot import Robot
from minidyn.notices import Notice, act

EDITED = act(
    "urdf.geometry_edited",
    "The joints of a URDF with a <minidyn> element were edited after minidyn wrote it: they are read as they stand, "
    "without geometry symbols and with loads merged into their links.",
    "Check the robot with `minidyn show`, then save it again.",
)
_TREE = ("origin", "axis", "parent", "child")


@dataclass
class Parts:
    """Links and joints as a file gives them, before they are put together."""

    name: str
    links: list[LooseLink]
    joints: list[LooseJoint]
    notices: list[Notice]


def restored(root: Element, element: Element, parts: Parts, source: str) -> Robot:
    """Return the robot of a URDF's parts and of its <minidyn> element."""
    try:
        annex = json.loads(element.words)
        if not isinstance(annex, dict) or annex.get("version") != 1:
            raise ValueError("expected a JSON object with version 1")
        robot = _restored(root, parts, annex, source, element.where)
        if robot.loops:
            check_loops(robot, {loop.name: element.where for loop in robot.loops})
        return robot
    except DescriptionError:
        raise
    except (MinidynError, KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise DescriptionError(
            f"{element.where}: the <minidyn> element cannot be understood ({type(error).__name__}: {error}); "
            "remove it, or save the robot again"
        ) from None


def _restored(root: Element, parts: Parts, annex: Mapping[str, Any], source: str, where: str) -> Robot:
    tree: Mapping[str, Any] = annex.get("tree", {})
    placed = [(joint.text("name"), joint.text("type"), _digest(joint, _TREE)) for joint in root.children("joint")]
    if tree and tree["of"] != digest(repr(placed).encode()):
        parts.notices.append(EDITED(f"{where}: the joints were edited after minidyn wrote the file"))
        tree = {}
    base: Steps = ()
    dropped: set[str] = set()  # links and joints that only URDF needed
    if "world" in tree:
        fixed = next(joint for joint in parts.joints if joint.parent == tree["world"])
        dropped |= {fixed.parent, fixed.name}
        base = _steps(tree["base"])
    joints = []
    for joint in parts.joints:
        exact = tree.get("joints", {}).get(joint.name)
        if exact is not None:
            holder = next((other for other in parts.joints if other.parent == joint.child), joint)
            if "link" in exact:  # an axis that does not pass through the link's origin took two joints
                dropped |= {joint.child, holder.name}
                joint = replace(joint, child=holder.child)
            motion, direction = str(exact["motion"]), 1 if exact["direction"] > 0 else -1
            before, after = _steps(exact["before"]), _steps(exact["after"])
            joint = replace(joint, before=before, motion=motion, direction=direction, after=after)
        joints.append(_detailed(joint, annex.get("joints", {}).get(joint.name, {}), root))
    rank = {str(name): k for k, name in enumerate(tree.get("order", ()))}
    frames = {str(name): len(rank) + k for k, name in enumerate(tree.get("frames", ()))}
    joints = [joint for joint in joints if joint.name not in dropped]
    joints.sort(key=lambda joint: rank.get(joint.name, frames.get(joint.child, len(rank))))
    entries = {joint.child: annex.get("joints", {}).get(joint.name, {}) for joint in joints}
    inertials = {link.text("name"): link for link in root.children("link")}
    links = []
    for link in parts.links:
        ten = _fresh(entries.get(link.name, {}), "parameters", inertials[link.name], ("inertial",))
        links.append(link if ten is None else replace(link, parameters=ten_parameters(ten, link.name)))
    loads = {str(name) for name in tree.get("loads", ())}
    robot = assemble(
        str(annex.get("name", parts.name)),
        [link for link in links if link.name not in dropped | loads],
        [joint for joint in joints if joint.child not in loads],
        gravity=[float(value) for value in annex.get("gravity", (0.0, 0.0, -9.81))],
        base=base,
        loops=[_loop(entry, where) for entry in annex.get("loops", ())],
        symbols=[(str(name), float(value)) for name, value in tree.get("symbols", ())],
        notices=parts.notices,
        source=source,
    )
    for joint in (joint for joint in joints if joint.child in loads):
        index, inner = robot.find_frame(joint.parent)
        own = next(link.parameters for link in links if link.name == joint.child)
        robot = robot.with_fixed(joint.child, index, (*inner, *joint.before), own)
    return robot


def _detailed(joint: LooseJoint, entry: Mapping[str, Any], root: Element) -> LooseJoint:
    """Return a joint with its limits, what it follows and its drive."""
    element = next(child for child in root.children("joint") if child.text("name") == joint.name)
    limits = _fresh(entry, "limits", element, ("limit",))
    if limits is not None:
        joint = replace(joint, limits=Limits(*map(float, limits)))
    follows = _fresh(entry, "follows", element, ("mimic",))
    if follows is not None:
        leaders = None if follows["formula"] else {str(name): float(ratio) for name, ratio in follows["terms"]}
        text, passive = str(follows["formula"]), bool(follows["passive"])
        joint = replace(joint, leaders=leaders, offset=float(follows["offset"]), formula=text, passive=passive)
    friction = _fresh(entry, "friction", element, ("dynamics",))
    terms = dict(joint.drive_values) if friction is None else {str(key): float(v) for key, v in friction.items()}
    terms |= {key: float(entry[key]) for key in (ROTOR, FRICTION["offset"]) if key in entry}
    coupling = tuple((str(name), float(value)) for name, value in entry.get("coupling", ()))
    width, speed = float(entry.get("sign_width", 0.0)), float(entry.get("stribeck_speed", 0.0))
    drive = replace(joint.drive, coupling=coupling, sign_width=width, stribeck_speed=speed)
    return replace(joint, drive_values=terms, drive=drive)


def _loop(entry: Mapping[str, Any], where: str) -> LooseLoop:
    if entry["kind"] not in ("point", "frame"):
        raise ValueError(f"unknown kind of loop {entry['kind']!r}")
    (link_a, steps_a), (link_b, steps_b) = entry["a"], entry["b"]
    passive, start = tuple(map(str, entry["passive"])), tuple(map(float, entry["start"]))
    ends = (str(link_a), _steps(steps_a), str(link_b), _steps(steps_b))
    return LooseLoop(str(entry["name"]), where, *ends, entry["kind"], passive, start)


def _steps(entries: Sequence[Sequence[Any]]) -> Steps:
    return tuple(Step(str(kind), float(value), *named) for kind, value, *named in entries)


def _fresh(entry: Mapping[str, Any], key: str, element: Element, tags: Iterable[str]) -> Any:
    """Return what the annex says, None where it says nothing or the URDF text was edited since."""
    of, value = entry.get(key, ("", None))
    return value if of == _digest(element, tags) else None


def _digest(element: Element, tags: Iterable[str]) -> str:
    """Return a short hash of the children of these names: their attributes and those of what they contain."""
    parts = [_canonical(child) for tag in tags for child in element.children(tag)]
    return digest(repr(parts).encode())


def _canonical(element: Element) -> tuple[Any, ...]:
    return element.tag, sorted(element.attributes.items()), [_canonical(child) for child in element.children()]
