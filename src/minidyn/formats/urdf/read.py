"""Robots from URDF files: links with their inertia, joints, limits, mimic joints, dynamics and transmissions.

Only what dynamics needs is read. Visuals, collisions, meshes, sensors and simulator settings are never looked at, so
missing meshes and package:// addresses do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, require_known
from minidyn.formats.urdf.annex import Parts, restored
from minidyn.formats.xml_file import Element, origin_steps, read_xml
from minidyn.model.assemble import LooseJoint, LooseLink, assemble, motion_along
from minidyn.model.drives import Drive
from minidyn.model.geometry import matrix_of
from minidyn.model.joint import Limits
from minidyn.model.parameters import from_body, tensor
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, look

XACRO = look(
    "urdf.xacro",
    "The URDF still holds elements of xacro; they are ignored.",
    "If links are missing, run xacro on the file first and load what it writes.",
)
NO_LIMIT = info(
    "urdf.no_limit",
    "A speed or effort limit of 0 or below is a common placeholder; it is taken as not given.",
    "Write the true {limit} limit of joint {joint!r} into the URDF: plans and checks of logs use it.",
)
UNKNOWN_TRANSMISSION = look(
    "urdf.unknown_transmission",
    "A transmission names a joint that the URDF does not have; it is ignored.",
    "Correct the name {joint!r} in the transmission if its gear ratio is to count.",
)

DYNAMICS = {"damping": "Fv", "friction": "Fc"}
"""Attributes of <dynamics>, and the drive term that each is."""

_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def read_urdf(path: Path) -> Robot:
    """Return the robot a URDF file describes, its root link fixed to the world; a side file is not looked at.

    Damping and friction of <dynamics> become the columns Fv and Fc (a zero adds none), <mimic> a follower, a
    transmission's reduction the gear ratio. A moving body none of whose links has an <inertial> is unknown.
    """
    root = read_xml(path, "robot")
    try:
        parts = read_parts(root)
        annex = root.child("minidyn")
        if annex is not None:
            return restored(root, annex, parts, str(path))
        return assemble(parts.name, parts.links, parts.joints, notices=parts.notices, source=str(path))
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
    links = [LooseLink(link.text("name"), link.where, _inertial(link, notices)) for link in root.children("link")]
    joints = [_joint(element, ratios, notices) for element in root.children("joint")]
    known = {joint.name for joint in joints}
    for transmission in root.children("transmission"):
        for element in (joint for joint in transmission.children("joint") if joint.text("name") not in known):
            text = f"{element.where}: a transmission of the unknown joint {element.text('name')!r} is ignored"
            notices.append(UNKNOWN_TRANSMISSION(text, joint=element.text("name")))
    return Parts(root.text("name", "") or root.path.stem, links, joints, notices)


def _first_xacro(root: Element) -> Element | None:
    return next((child for child in root.children() if child.is_xacro), None)


def _inertial(holder: Element, notices: list[Notice]) -> Array | None:
    """Return the ten parameters in the link's frame: the file gives the inertia in a frame of its own."""
    link, element = holder.text("name"), holder.child("inertial")
    if element is None:
        return None
    mass, inertia = element.child("mass"), element.child("inertia")
    if mass is None or inertia is None:
        lacking = "mass" if mass is None else "inertia"
        raise DescriptionError(f"{element.where}: the <inertial> of link {link!r} has no <{lacking}>; both are needed")
    own = tensor([inertia.number(entry) for entry in _ENTRIES])
    T = matrix_of(origin_steps(element, f"inertial frame of link {link!r}", notices))
    return from_body(mass.number("value"), T[:3, 3], T[:3, :3] @ own @ T[:3, :3].T)


def _joint(element: Element, ratios: Mapping[str, float], notices: list[Notice]) -> LooseJoint:
    name = element.text("name")
    where = f"{element.where}: joint {name!r}"
    kind = element.text("type")
    if kind in ("floating", "planar"):
        raise DescriptionError(
            f"{where} is {kind}; only a fixed base and joints with one axis are understood. For a robot on a fixed "
            "base make it fixed; for a moving base replace it by prismatic and revolute joints in a row"
        )
    require_known([kind], ("revolute", "continuous", "prismatic", "fixed"), f"{where} has the unknown type")
    before = origin_steps(element, f"joint {name!r}", notices)
    parent, child = _end(element, "parent", where), _end(element, "child", where)
    if kind == "fixed":
        return LooseJoint(name, element.where, kind, parent, child, before)
    axis = element.child("axis")
    direction = (1.0, 0.0, 0.0) if axis is None else axis.vector("xyz")
    turn, motion, sign, back = motion_along(kind, direction, (axis or element).where + f": joint {name!r}", notices)
    mimic, dynamics = element.child("mimic"), element.child("dynamics")
    friction = {symbol: dynamics.number(key, 0.0) for key, symbol in DYNAMICS.items()} if dynamics else {}
    about, placed = (name, element.where, kind, parent, child), ((*before, *turn), motion, sign, back)
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
    """Return the limits; a speed or effort of 0 (a common placeholder) and a range that is not given are none."""
    limit = joint.child("limit")
    if limit is None:
        return Limits()
    most = {}
    for key in ("velocity", "effort"):
        most[key] = limit.number(key, math.inf)
        if most[key] <= 0:
            text = f"{limit.where}: joint {name!r} has the {key} limit {most[key]:g}, taken as not given"
            notices.append(NO_LIMIT(text, joint=name, limit=key, value=most[key]))
            most[key] = math.inf
    lower, upper = -math.inf, math.inf
    if kind != "continuous" and {"lower", "upper"} & limit.attributes.keys():
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if lower > upper:
            raise DescriptionError(
                f"{limit.where}: joint {name!r} has lower={lower:g} above upper={upper:g}; expected lower <= upper"
            )
    return Limits(lower, upper, most["velocity"], most["effort"])


def _reductions(robot: Element) -> dict[str, float]:
    """Return {joint: gear ratio} of the transmissions; the reduction stands with the actuator or the joint."""
    ratios: dict[str, float] = {}
    for transmission in robot.children("transmission"):
        joints = [joint.text("name") for joint in transmission.children("joint")]
        places = [transmission, *transmission.children("actuator"), *transmission.children("joint")]
        found = [element for place in places for element in place.children("mechanicalReduction")]
        if len(joints) != 1 or not found or not found[0].content():
            continue  # differentials couple several joints in a way URDF does not fix
        ratio = found[0].parse_number(found[0].content(), found[0].content())
        if ratio == 0:
            raise DescriptionError(f"{found[0].where}: a mechanicalReduction of 0; expected motor turns per joint turn")
        ratios[joints[0]] = ratio
    return ratios
