"""Robots from URDF files.

Links with their inertia, joints, limits, mimic joints, dynamics and transmissions. Only what
dynamics needs is read. Visuals, collisions, meshes, sensors and simulator settings are never looked
at, so missing meshes and package:// addresses do not matter.

Older versions of minidyn wrote what URDF cannot say into one <minidyn> element, as JSON; it is
still read. Each entry bears a digest of the URDF text it refines and counts only while that text is
unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, MinidynError, require_known
from minidyn.formats.side_file import digest
from minidyn.formats.xml_file import Element, origin_steps, read_xml
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble, motion_along
from minidyn.model.drives import FRICTION, ROTOR, Drive
from minidyn.model.geometry import Step, Steps, matrix_of
from minidyn.model.joint import Limits
from minidyn.model.loops import check_loops
from minidyn.model.parameters import from_body, ten_parameters, tensor
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning

EDITED = warning(
    "urdf.geometry_edited",
    "The joints of a URDF with a <minidyn> element were edited after minidyn wrote it: they are "
    "read as they stand, without geometry symbols and with loads merged into their links.",
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
    except (
        MinidynError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        RecursionError,
    ) as error:
        raise DescriptionError(
            f"{element.where}: the <minidyn> element cannot be understood "
            f"({type(error).__name__}: {error}); remove it, or save the robot again"
        ) from None


def _restored(
    root: Element, parts: Parts, annex: Mapping[str, Any], source: str, where: str
) -> Robot:
    tree: Mapping[str, Any] = annex.get("tree", {})
    placed = [
        (joint.text("name"), joint.text("type"), _digest(joint, _TREE))
        for joint in root.children("joint")
    ]
    if tree and tree["of"] != digest(repr(placed).encode()):
        parts.notices.append(
            EDITED(f"{where}: the joints were edited after minidyn wrote the file")
        )
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
            if (
                "link" in exact
            ):  # an axis that does not pass through the link's origin took two joints
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
        links.append(
            link if ten is None else replace(link, parameters=ten_parameters(ten, link.name))
        )
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
        leaders = (
            None
            if follows["formula"]
            else {str(name): float(ratio) for name, ratio in follows["terms"]}
        )
        text, passive = str(follows["formula"]), bool(follows["passive"])
        joint = replace(
            joint, leaders=leaders, offset=float(follows["offset"]), formula=text, passive=passive
        )
    friction = _fresh(entry, "friction", element, ("dynamics",))
    terms = (
        dict(joint.drive_values)
        if friction is None
        else {str(key): float(v) for key, v in friction.items()}
    )
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
    """Return a short hash of the children of these names.

    Their attributes and those of what they contain.
    """
    parts = [_canonical(child) for tag in tags for child in element.children(tag)]
    return digest(repr(parts).encode())


def _canonical(element: Element) -> tuple[Any, ...]:
    return (
        element.tag,
        sorted(element.attributes.items()),
        [_canonical(child) for child in element.children()],
    )


XACRO = warning(
    "urdf.xacro",
    "The URDF still holds elements of xacro; they are ignored.",
    "If links are missing, run xacro on the file first and load what it writes.",
)
NO_LIMIT = info(
    "urdf.no_limit",
    "A speed or effort limit of 0 or below is a common placeholder; it is taken as not given.",
    "Write the true {limit} limit of joint {joint!r} into the URDF: plans and checks of logs use "
    "it.",
)
UNKNOWN_TRANSMISSION = warning(
    "urdf.unknown_transmission",
    "A transmission names a joint that the URDF does not have; it is ignored.",
    "Correct the name {joint!r} in the transmission if its gear ratio is to count.",
)

DYNAMICS = {"damping": "Fv", "friction": "Fc"}
"""Attributes of <dynamics>, and the drive term that each is."""

_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def read_urdf(path: Path, text: str | None = None) -> Robot:
    """Return the robot a URDF file describes, its root link fixed to the world.

    The text is given where it is not that of the file: expanded by xacro.
    A side file is not looked at. Damping and friction of <dynamics> become the columns Fv and Fc (a
    zero adds none), <mimic> a follower, a transmission's reduction the gear ratio. A moving body
    none of whose links has an <inertial> is unknown.
    """
    root = read_xml(path, "robot", text)
    try:
        parts = read_parts(root)
        annex = root.child("minidyn")
        if annex is not None:
            return restored(root, annex, parts, str(path))
        return assemble(
            parts.name, parts.links, parts.joints, notices=parts.notices, source=str(path)
        )
    except DescriptionError as error:
        xacro = _first_xacro(root)
        if xacro is None or "xacro" in str(error):
            raise
        raise DescriptionError(
            f"{error} (the file holds xacro elements, line {xacro.line}; run xacro on it first)"
        ) from None


def read_parts(root: Element) -> Parts:
    """Return the links and joints of a <robot> element, before they are put together."""
    notices: list[Notice] = []
    xacro = _first_xacro(root)
    if xacro is not None:
        notices.append(XACRO(f"{xacro.where}: xacro elements are ignored", line=xacro.line))
    ratios = _reductions(root)
    links = [
        LooseLink(link.text("name"), link.where, _inertial(link, notices))
        for link in root.children("link")
    ]
    joints = [_joint(element, ratios, notices) for element in root.children("joint")]
    known = {joint.name for joint in joints}
    for transmission in root.children("transmission"):
        for element in (
            joint for joint in transmission.children("joint") if joint.text("name") not in known
        ):
            text = (
                f"{element.where}: a transmission of the unknown joint {element.text('name')!r} "
                "is ignored"
            )
            notices.append(UNKNOWN_TRANSMISSION(text, joint=element.text("name")))
    return Parts(root.text("name", "") or root.path.stem, links, joints, notices)


def _first_xacro(root: Element) -> Element | None:
    return next((child for child in root.children() if child.is_xacro), None)


def _inertial(holder: Element, notices: list[Notice]) -> Array | None:
    """Return the ten parameters in the link's frame.

    The file gives the inertia in a frame of its own.
    """
    link, element = holder.text("name"), holder.child("inertial")
    if element is None:
        return None
    mass, inertia = element.child("mass"), element.child("inertia")
    if mass is None or inertia is None:
        lacking = "mass" if mass is None else "inertia"
        raise DescriptionError(
            f"{element.where}: the <inertial> of link {link!r} has no <{lacking}>; both are needed"
        )
    own = tensor([inertia.number(entry) for entry in _ENTRIES])
    T = matrix_of(origin_steps(element, f"inertial frame of link {link!r}", notices))
    return from_body(mass.number("value"), T[:3, 3], T[:3, :3] @ own @ T[:3, :3].T)


def _joint(element: Element, ratios: Mapping[str, float], notices: list[Notice]) -> LooseJoint:
    name = element.text("name")
    where = f"{element.where}: joint {name!r}"
    kind = element.text("type")
    if kind == "planar":
        raise DescriptionError(
            f"{where} is planar; replace it by two prismatic joints and a revolute one"
        )
    kinds = ("revolute", "continuous", "prismatic", "fixed", "floating")
    require_known([kind], kinds, f"{where} has the unknown type")
    before = origin_steps(element, f"joint {name!r}", notices)
    parent, child = _end(element, "parent", where), _end(element, "child", where)
    if kind in ("fixed", "floating"):
        return LooseJoint(name, element.where, kind, parent, child, before)
    axis = element.child("axis")
    direction = (1.0, 0.0, 0.0) if axis is None else axis.vector("xyz")
    turn, motion, sign, back = motion_along(
        kind, direction, (axis or element).where + f": joint {name!r}", notices
    )
    mimic, dynamics = element.child("mimic"), element.child("dynamics")
    friction = (
        {symbol: dynamics.number(key, 0.0) for key, symbol in DYNAMICS.items()} if dynamics else {}
    )
    about, placed = (
        (name, element.where, kind, parent, child),
        ((*before, *turn), motion, sign, back),
    )
    return LooseJoint(
        *about,
        *placed,
        limits=_limits(element, name, kind, notices),
        leaders={mimic.text("joint"): mimic.number("multiplier", 1.0)} if mimic else None,
        offset=mimic.number("offset", 0.0) if mimic else 0.0,
        drive_values={symbol: value for symbol, value in friction.items() if value != 0.0},
        drive=Drive(gear_ratio=ratios.get(name, 1.0)),
    )


def _end(joint: Element, tag: str, where: str) -> str:
    element = joint.child(tag)
    if element is None:
        raise DescriptionError(f"{where} has no <{tag} link=...>")
    return element.text("link")


def _limits(joint: Element, name: str, kind: str, notices: list[Notice]) -> Limits:
    """Return the limits.

    A speed or effort of 0 (a common placeholder) and a range that is not given are none.
    """
    limit = joint.child("limit")
    if limit is None:
        return Limits()
    most = {}
    for key in ("velocity", "effort"):
        most[key] = limit.number(key, math.inf)
        if most[key] <= 0:
            text = (
                f"{limit.where}: joint {name!r} has the {key} limit {most[key]:g}, taken as not "
                "given"
            )
            notices.append(NO_LIMIT(text, joint=name, limit=key, value=most[key]))
            most[key] = math.inf
    lower, upper = -math.inf, math.inf
    if kind != "continuous" and {"lower", "upper"} & limit.attributes.keys():
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if lower > upper:
            raise DescriptionError(
                f"{limit.where}: joint {name!r} has lower={lower:g} above upper={upper:g}; "
                "expected lower <= upper"
            )
    return Limits(lower, upper, most["velocity"], most["effort"])


def _reductions(robot: Element) -> dict[str, float]:
    """Return {joint: gear ratio} of the transmissions.

    The reduction stands with the actuator or the joint.
    """
    ratios: dict[str, float] = {}
    for transmission in robot.children("transmission"):
        joints = [joint.text("name") for joint in transmission.children("joint")]
        places = [transmission, *transmission.children("actuator"), *transmission.children("joint")]
        found = [element for place in places for element in place.children("mechanicalReduction")]
        if len(joints) != 1 or not found or not found[0].content():
            continue  # differentials couple several joints in a way URDF does not fix
        ratio = found[0].parse_number(found[0].content(), found[0].content())
        if ratio == 0:
            raise DescriptionError(
                f"{found[0].where}: a mechanicalReduction of 0; expected motor turns per joint turn"
            )
        ratios[joints[0]] = ratio
    return ratios
