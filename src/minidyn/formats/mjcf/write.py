"""Robots to MJCF: a file that MuJoCo simulates as it stands, and from which minidyn gets the same
torques back.

Bodies stand where links stand, armature, damping and frictionloss hold rotor inertia, viscous and
Coulomb friction, a drive that other joints turn is a fixed tendon, a follower a joint constraint.
What MJCF cannot say (offset and other friction terms, over which speeds friction reverses, which
tendon is a drive) goes into a side file.

How a robot looks is carried from its URDF: boxes, cylinders, spheres and meshes that are there, as
geoms of no mass that touch nothing, in group 2. Where a link is shown by meshes that MuJoCo does
not read, its collision shapes replace them. What collides is left to whoever sets up the
simulation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from minidyn.errors import DescriptionError, UnknownParameters, Unsupported, optional
from minidyn.formats.mjcf.compile import refused_by_mujoco, set_place
from minidyn.formats.mjcf.read import HELD, read_mjcf
from minidyn.formats.side_file import write_with_side_file
from minidyn.formats.urdf.surfaces import mesh_files
from minidyn.formats.xml_file import (
    Element,
    document,
    numbers_text,
    origin_steps,
    read_xml,
    refusing_names,
)
from minidyn.model.geometry import inverse_steps, matrix_of
from minidyn.model.parameters import possible_body, to_mujoco
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info
from minidyn.text import new_name

_MESHES = (".stl", ".obj", ".msh")  # what MuJoCo reads
_SHORTEST = (
    5e-4  # s: steps of a simulation may be so short that a delay still fits into MuJoCo's memory
)
_UNSEEN = {"contype": "0", "conaffinity": "0", "group": "2", "mass": "0"}


@dataclass
class Looks:
    """What is seen of each link, and which files it takes."""

    geoms: dict[str, list[etree._Element]] = field(
        default_factory=dict
    )  # for each link of the URDF, geom elements
    meshes: dict[tuple[str, str], str] = field(
        default_factory=dict
    )  # {(file, scale): name} of the mesh assets
    lost: list[str] = field(
        default_factory=list
    )  # meshes that are not there, or of a kind MuJoCo does not read


def looks_of(urdf: Path, folder: Path) -> Looks:
    """Return what a URDF shows, as MJCF geoms.

    Meshes are named as seen from the folder of the MJCF.
    """
    root = read_xml(urdf, "robot")
    colours = {
        material.text("name", ""): _colour(material) for material in root.children("material")
    }
    looks = Looks()
    for link in root.children("link"):
        lost: list[str] = []
        for kind in ("visual", "collision"):
            made = (
                _placed(shown, looks, urdf, folder, colours, lost) for shown in link.children(kind)
            )
            kept = [geom for geom in made if geom is not None]
            if kept:
                looks.geoms[link.text("name")] = kept
                break
        else:
            looks.lost += lost
    return looks


def _placed(
    shown: Element,
    looks: Looks,
    urdf: Path,
    folder: Path,
    colours: Mapping[str, str],
    lost: list[str],
) -> etree._Element | None:
    """Return the geom of a <visual> or <collision>, None where it cannot be shown."""
    try:
        geom = _geom(shown, looks, urdf, folder, lost)
        if geom is None:
            return None
        set_place(geom, origin_steps(shown, shown.tag))
    except DescriptionError:
        return None  # a picture is not worth a refusal
    material = shown.child("material")
    colour = (
        "" if material is None else _colour(material) or colours.get(material.text("name", ""), "")
    )
    for key, value in (({"rgba": colour} if colour else {}) | _UNSEEN).items():
        geom.set(key, value)
    return geom


def _geom(
    shown: Element, looks: Looks, urdf: Path, folder: Path, lost: list[str]
) -> etree._Element | None:
    shape = shown.child("geometry")
    shape = None if shape is None else next(shape.children(), None)
    if shape is None or shape.tag not in ("box", "sphere", "cylinder", "mesh"):
        return None
    geom = etree.Element("geom", type=shape.tag)
    if shape.tag == "box":
        geom.set("size", numbers_text([0.5 * edge for edge in shape.vector("size")]))
    elif shape.tag == "sphere":
        geom.set("size", numbers_text([shape.number("radius")]))
    elif shape.tag == "cylinder":
        geom.set("size", numbers_text([shape.number("radius"), 0.5 * shape.number("length")]))
    else:
        name = shape.text("filename", "")
        file = next((file for file in mesh_files(name, urdf) if file.is_file()), None)
        if file is None or file.suffix.lower() not in _MESHES:
            lost.append(name)
            return None
        seen = Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
        scale = numbers_text(shape.vector("scale")) if "scale" in shape.attributes else ""
        geom.set("mesh", looks.meshes.setdefault((seen, scale), f"mesh{len(looks.meshes) + 1}"))
    return geom


def _colour(material: Element) -> str:
    colour = material.child("color")
    words = [] if colour is None else colour.text("rgba", "").split()
    try:
        return " ".join(repr(float(word)) for word in words) if len(words) == 4 else ""
    except ValueError:
        return ""


NO_PICTURES = info(
    "mjcf.no_pictures",
    "The MJCF is written without the shapes of the URDF: they cannot be read, or MuJoCo refuses "
    "them.",
)
LOST_MESHES = info(
    "mjcf.lost_meshes",
    "Meshes of the URDF are left out of the MJCF: not found, or of a kind that MuJoCo does not "
    "read.",
    "Put the meshes beside the URDF, or convert them to .stl or .obj.",
)

_OWN = {"Ja": "armature", "Jv": "damping", "Jc": "frictionloss", "Ks": "stiffness"}
"""Terms of the joint itself, whatever turns its drive."""

SAYABLE = (*HELD, *_OWN)
"""Symbols of the drive terms that a new MJCF holds."""


Gains = Mapping[str, tuple[float, float]]
"""{joint: (stiffness, damping)} of position control, N m/rad and N m s/rad, or N/m and N s/m."""


def write_mjcf(
    robot: Robot,
    path: Path,
    *,
    exact: Robot | None = None,
    seen: Path | None = None,
    gains: Gains | None = None,
    delay: float = 0.0,
) -> tuple[Notice, ...]:
    """Write the robot to a new MJCF file, with a side file where MJCF cannot say everything.

    Return notices. Every body must be physically consistent. `exact` is what `md.load` is to give
    back, where that is not `robot` itself; `seen` a URDF of the robot whose pictures are carried
    over. Joints with `gains` get position actuators, with their drive's offset and the delay of
    commands, s (where `knows_delays`), others motors.
    """
    looks, notices, problem = Looks(), [], ""
    try:
        looks = Looks() if seen is None else looks_of(seen, path.parent)
    except DescriptionError as error:
        problem = str(error)
    data = _mjcf_text(robot, looks, gains or {}, delay)
    if lost := list(dict.fromkeys(looks.lost)):
        text = (
            f"{len(lost)} meshes are left out of the MJCF, not found or of a kind that MuJoCo "
            "does not read"
        )
        notices.append(LOST_MESHES(f"{text} ({lost[0]!r})", meshes=lost))
    if looks.geoms and (problem := refused_by_mujoco(data, path)):
        data = _mjcf_text(robot, Looks(), gains or {}, delay)
    if problem:
        notices.append(NO_PICTURES(f"pictures are left out: {problem}", reason=problem))
    write_with_side_file(exact or robot, robot, path, data, read_mjcf)
    return tuple(notices)


def _mjcf_text(robot: Robot, looks: Looks, gains: Gains, delay: float) -> bytes:
    refuse_in_mjcf(robot)
    with refusing_names(robot.name):
        root = etree.Element("mujoco", model=robot.name or "robot")
        root.append(
            etree.Comment(
                " written by minidyn; what MJCF cannot say stands in the side file beside it "
            )
        )
        etree.SubElement(root, "compiler", angle="radian", autolimits="true")
        etree.SubElement(root, "option", gravity=numbers_text(robot.gravity))
        assets = etree.SubElement(root, "asset") if looks.meshes else root
        for (file, scale), name in looks.meshes.items():
            etree.SubElement(
                assets, "mesh", {"name": name, "file": file} | ({"scale": scale} if scale else {})
            )
        made = _bodies(robot, etree.SubElement(root, "worldbody"))
        for link in looks.geoms.keys() & made.keys():
            made[link].extend(looks.geoms[link])
        _tendons(robot, root)
        _followers(robot, root)
        _actuators(robot, root, gains, delay)
    return document(root)


def refuse_in_mjcf(robot: Robot) -> None:
    """Raise for what MJCF cannot hold."""
    if robot.free_base and (robot.base or robot.joints[0].before):
        raise Unsupported(
            f"robot {robot.name!r}: its floating joint {robot.joints[0].name!r} stands at a place "
            "of its own, an MJCF free joint in the world; save it as .toml"
        )
    if robot.loops:
        raise Unsupported(
            f"robot {robot.name!r} has loops, which MJCF does not describe as we do; save it as "
            ".toml"
        )
    for joint in robot.joints:
        if joint.follows and (joint.follows.formula or len(joint.follows.terms) > 1):
            what = "a formula" if joint.follows.formula else "several joints"
            text = "an MJCF joint follows one joint linearly, save the robot as .toml"
            raise Unsupported(f"joint {joint.name!r} follows {what}; {text}")
    unknown = [
        name for name, value in zip(robot.layout.names, robot.parameters) if math.isnan(value)
    ]
    if unknown:
        shown = ", ".join(unknown[:6]) + (" ..." if len(unknown) > 6 else "")
        raise UnknownParameters(
            f"robot {robot.name!r} cannot be written as MJCF: {shown} unknown (NaN)"
        )


def _bodies(robot: Robot, world: etree._Element) -> dict[str, etree._Element]:
    """Make the bodies; return {link or frame: its body}."""
    taken, base = {"world"}, world  # MuJoCo keeps this name for itself
    if robot.base_name != "world" or robot.base:
        base = etree.SubElement(world, "body", name=new_name(robot.base_name, taken))
        set_place(base, robot.base)
    names = [new_name(name, taken) for name in robot.link_names]
    elements: list[etree._Element] = []
    for index, joint in enumerate(robot.joints):
        parent = base if joint.parent < 0 else elements[joint.parent]
        if joint.floats:  # MuJoCo has free joints of bodies in the world alone
            parent = world
        element = etree.SubElement(parent, "body", name=names[index])
        set_place(element, joint.before + joint.after)
        ten = robot.parameters[robot.layout.links[index]]
        moving = joint.kind != "fixed"
        if moving or ten.any():
            mass, com, full = to_mujoco(
                possible_body(ten, robot.link_names[index]) if moving else ten
            )
            values = {
                "pos": numbers_text(com),
                "mass": numbers_text([mass]),
                "fullinertia": numbers_text(full),
            }
            etree.SubElement(element, "inertial", values)
        if moving:
            _joint(element, robot, index)
        elements.append(element)
    made = {robot.base_name: base} | dict(zip(robot.link_names, elements))
    for frame in robot.frames:
        parent, name = base if frame.link < 0 else elements[frame.link], new_name(frame.name, taken)
        made[frame.name] = etree.SubElement(parent, "body", name=name)
        set_place(made[frame.name], frame.steps)
    return made


def _joint(element: etree._Element, robot: Robot, index: int) -> None:
    joint = robot.joints[index]
    if joint.floats:
        etree.SubElement(element, "freejoint", name=joint.name)
        return
    made = etree.SubElement(
        element, "joint", name=joint.name, type="slide" if joint.slides else "hinge"
    )
    made.set("axis", numbers_text(joint.axis))
    if joint.turns:
        made.set("pos", numbers_text(matrix_of(inverse_steps(joint.after))[:3, 3]))
    limits = joint.limits
    if (
        joint.kind != "continuous" and -math.inf < limits.lower < limits.upper < math.inf
    ):  # MuJoCo wants an interval
        made.set("range", numbers_text([limits.lower, limits.upper]))
    if math.isfinite(limits.effort) and limits.effort > 0:
        made.set("actuatorfrcrange", numbers_text([-limits.effort, limits.effort]))
    for attribute, value in _held(
        robot, index, _OWN if joint.drive.coupling else HELD | _OWN
    ).items():
        made.set(attribute, numbers_text([value]))


def _held(robot: Robot, index: int, words: Mapping[str, str]) -> dict[str, float]:
    """Return {attribute: value} of the drive terms that MJCF has words for."""
    found: dict[str, float] = {}
    for symbol, value in robot.drive_terms(index).items():
        if symbol in words and value != 0.0:
            found[words[symbol]] = found.get(words[symbol], 0.0) + value
    return found


def _tendons(robot: Robot, root: etree._Element) -> None:
    """A drive that other joints turn, too, is a tendon over these joints."""
    coupled = [(index, joint) for index, joint in enumerate(robot.joints) if joint.drive.coupling]
    section = etree.SubElement(root, "tendon") if coupled else root
    for index, joint in coupled:
        tendon = etree.SubElement(section, "fixed", name=f"{joint.name}_drive")
        for attribute, value in _held(robot, index, HELD).items():
            tendon.set(attribute, numbers_text([value]))
        ratios = {joint.name: 1.0}
        for name, ratio in joint.drive.coupling:
            ratios[name] = ratios.get(name, 0.0) + ratio
        for name, ratio in ratios.items():
            etree.SubElement(tendon, "joint", joint=name, coef=numbers_text([ratio]))


def _followers(robot: Robot, root: etree._Element) -> None:
    followers = [(joint.name, joint.follows) for joint in robot.joints if joint.follows]
    section = etree.SubElement(root, "equality") if followers else root
    for name, follows in followers:
        leader, ratio = follows.terms[0] if follows.terms else ("", 0.0)
        tie = etree.SubElement(
            section, "joint", {"joint1": name} | ({"joint2": leader} if leader else {})
        )
        tie.set("polycoef", numbers_text([follows.offset, ratio, 0, 0, 0]))


def knows_delays() -> bool:
    """Return whether the MuJoCo that is here lets commands act late."""
    return hasattr(optional("mujoco").MjsActuator, "delay")


def _actuators(robot: Robot, root: etree._Element, gains: Gains, delay: float) -> None:
    section = etree.SubElement(root, "actuator")
    late = {}
    if delay > 0.0 and knows_delays():
        late = {
            "delay": numbers_text([delay]),
            "nsample": str(math.ceil(delay / _SHORTEST) + 2),
            "interp": "linear",
        }
    for index in robot.independent:
        joint = robot.joints[index]
        if joint.name in gains:
            stiffness, damping = gains[joint.name]
            # force = kp u - offset - kp q - kd dq: a position actuator, and a constant
            bias = numbers_text([-robot.drive_terms(index).get("Fo", 0.0), -stiffness, -damping])
            law = {"gainprm": numbers_text([stiffness]), "biastype": "affine", "biasprm": bias}
            etree.SubElement(
                section, "general", {"name": joint.name, "joint": joint.name} | law | late
            )
            continue
        motor = etree.SubElement(section, "motor", name=joint.name, joint=joint.name)
        motor.set("gear", numbers_text([joint.drive.gear_ratio]))
        effort, gear = joint.limits.effort, abs(joint.drive.gear_ratio)
        if math.isfinite(effort) and effort and gear > 0:  # what the motor itself may give
            motor.set("forcerange", numbers_text([-effort / gear, effort / gear]))
