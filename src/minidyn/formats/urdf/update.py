"""Parameters back into an existing URDF.

Inertial numbers change (friction, too, where asked), all else stays as it is. A moving body may be
several links that fixed joints hold together, while a robot knows only their sum. One link of the
body carries the change: the moving joint's own link if it has an <inertial>, else the first merged
link that has one, else the joint's own link gets one. The others keep their numbers and the carrier
gets the rest; where that rest is not a body (a negative mass, say), all are changed by the least.
What joints that are locked in the robot carry is divided in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, near_names
from minidyn.files import write_atomically
from minidyn.formats.load import as_robot
from minidyn.formats.side_file import close, read_with_side_file, side_path, write_with_side_file
from minidyn.formats.urdf.read import DYNAMICS, read_parts, read_urdf
from minidyn.formats.xml_file import (
    Edit,
    Element,
    XmlText,
    element_text,
    numbers_text,
    origin_steps,
)
from minidyn.model.division import divide
from minidyn.model.geometry import matrix_of
from minidyn.model.lock import (
    DIVIDED_RIGID,
    divided_notice,
    locked_notice,
    unlocked,
    with_locked,
)
from minidyn.model.parameters import to_body, transform
from minidyn.model.robot import Robot
from minidyn.notices import Notice

_SAME = 1e-12  # relative: parameters that differ by rounding alone leave the text as it is
_FRAME = 1e-6  # link frames that differ by more are other frames


def update_urdf(
    robot: Robot | str | os.PathLike[str],
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    drives: bool = False,
) -> tuple[Notice, ...]:
    """Write the robot's inertial parameters into the text of a URDF file.

    Links whose parameters did not change, and those with unknown ones, keep their text. Joints that
    are locked in the robot stay joints of the file: what they carry keeps the file's numbers, and
    the link that carries it gets the rest. Loads that the file does not have are left out. The
    frame in which a link's inertia is written stays the one the file has. Meshes that stand beside
    the file are named as seen from where the result goes.

    Args:
        robot: Parameters, for a robot that was read from this file (its links and frames must be
            the file's); or the name or path of one.
        source: The existing URDF.
        path: Where the result goes; may be `source` itself.
        drives: Also write viscous and Coulomb friction into `<dynamics>`, and what URDF cannot say
            (rotor inertia, offset and further friction, coupling) into a file NAME.minidyn.toml
            beside it, which `md.load` finds.

    Returns:
        A notice for each body whose parts could not keep what the file says of them.

    Raises:
        DescriptionError: The file is another robot's, or parameters that URDF cannot hold.
    """
    robot, source, path = as_robot(robot), Path(source), Path(path)
    text = XmlText(source, "robot")
    old = read_with_side_file(source, read_urdf)
    own = {link.name: link.parameters for link in read_parts(text.root).links}
    links = {link.text("name"): link for link in text.root.children("link")}
    robot, notices = with_locked_parts(robot, old, source)
    edits: list[Edit] = []
    for link, ten in changed_links(robot, old, own, source, notices):
        edits += _link_edits(text, links[link], ten)
    edits += text.moved(source, path, "filename", ("mesh", "texture"))
    if drives:
        edits += _dynamics_edits(text, robot)
    elif not side_path(source).is_file():
        write_atomically(path, text.edited(edits))
        return tuple(notices)
    else:
        robot = _with_inertia_of(robot, old)
    whole = side_path(source).is_file() and set(robot.link_names) <= set(old.link_names)
    write_with_side_file(robot, robot, path, text.edited(edits), read_urdf, whole=whole)
    return tuple(notices)


def _with_inertia_of(robot: Robot, old: Robot) -> Robot:
    """Return the file's own robot with the inertia of another."""
    values = old.parameters.copy()
    for name, part in zip(robot.link_names, robot.layout.links):
        if name in old.link_names and not np.isnan(robot.parameters[part]).any():
            values[old.layout.links[old.link_names.index(name)]] = robot.parameters[part]
    return old.with_parameters(values)


def inertial_numbers(ten: Array) -> tuple[float, Array, Array] | None:
    """Return (mass, com, inertia about it) as an <inertial> holds them; None where it cannot."""
    if not np.isfinite(ten).all():
        return None
    mass, com, tensor = to_body(ten)
    return (mass, com, tensor) if np.isfinite(com).all() and np.isfinite(tensor).all() else None


def inertial_attributes(ten: Array, axes: Array | None = None) -> dict[str, dict[str, str]] | None:
    """Return {element in an <inertial>: its attributes}, in axes (3, 3) of the link.

    None where it cannot hold them.
    """
    numbers = inertial_numbers(ten)
    if numbers is None:
        return None
    mass, com, about_com = numbers
    tensor = about_com if axes is None else axes.T @ about_com @ axes
    return {
        "origin": {"xyz": numbers_text(com), "rpy": "0 0 0"},
        "mass": {"value": numbers_text([mass])},
        "inertia": {
            f"i{'xyz'[i]}{'xyz'[j]}": numbers_text([tensor[i, j]])
            for i in range(3)
            for j in range(i, 3)
        },
    }


def with_locked_parts(robot: Robot, old: Robot, source: Path) -> tuple[Robot, list[Notice]]:
    """Return the robot with the joints of its file that are locked in it, and notices of that."""
    at = {name: position for name, position in robot.locks if name in old.joint_names}
    if not at:
        return robot, []
    _require_same_frames(robot, with_locked(old, at, locked_notice(at)), source)
    whole, notices = unlocked(robot, old)
    return whole, list(notices)


def _require_same_frames(robot: Robot, old: Robot, source: Path) -> None:
    """Raise where the moving links of a robot are not those of the file's robot."""
    for index, name in enumerate(robot.link_names):
        if name not in old.link_names and robot.joints[index].kind == "fixed":
            continue
        if name not in old.link_names:
            raise DescriptionError(
                f"{source}: has no moving link {name!r} (robot "
                f"{robot.name!r}){near_names(name, old.link_names)}"
            )
        mine, theirs = robot.joints[index], old.joints[old.link_names.index(name)]
        parents = [
            made.link_names[joint.parent] if joint.parent >= 0 else ""
            for made, joint in ((robot, mine), (old, theirs))
        ]
        if parents[0] != parents[1] or np.abs(mine.placement - theirs.placement).max() > _FRAME:
            raise DescriptionError(
                f"{source}: the frame of link {name!r} is not the one of robot {robot.name!r}; "
                "parameters can only be written into the file the robot was loaded from"
            )


def changed_links(
    robot: Robot,
    old: Robot,
    own: Mapping[str, Array | None],
    source: Path,
    notices: list[Notice],
    *,
    every: bool = False,
) -> Iterator[tuple[str, Array]]:
    """Yield (link, its ten parameters in its own frame) for the links of a file whose text must
    change.

    `old` is the robot that the file gives, `own` what it gives each link, those that fixed joints
    hold included. Links with unknown parameters stay as they are; with `every` also those that did
    not change are yielded. `notices` gets one for each body whose parts are changed by the least.
    """
    _require_same_frames(robot, old, source)
    for index, name in enumerate(robot.link_names):
        if name not in old.link_names:
            continue
        position = old.link_names.index(name)
        new = robot.parameters[robot.layout.links[index]]
        if not np.isnan(new).any() and (
            every or not close(old.parameters[old.layout.links[position]], new, _SAME)
        ):
            yield from _shares(new, old, position, own, notices)


def _shares(
    total: Array,
    robot: Robot,
    index: int,
    own: Mapping[str, Array | None],
    notices: list[Notice],
) -> list[tuple[str, Array]]:
    """Return (link, its ten parameters in its own frame) for the links of a body whose text must
    change.
    """
    name = robot.link_names[index]
    parts = [(name, np.eye(4), own[name])] if own.get(name) is not None else []
    parts += [
        (frame.name, frame.placement, own[frame.name])
        for frame in robot.frames
        if frame.link == index and own.get(frame.name) is not None
    ]
    parts = parts or [(name, np.eye(4), np.zeros(10))]
    placed = [transform(ten, T) for _, T, ten in parts if ten is not None]
    made = divide(total, placed)
    if made.reason:
        names = [part for part, _, _ in parts]
        notices.append(divided_notice(DIVIDED_RIGID, names, placed, made))
    changed = zip(parts, made.bodies) if made.reason else [(parts[0], made.bodies[0])]
    return [
        (part, ten if part == name else transform(ten, np.linalg.inv(T)))
        for (part, T, _), ten in changed
    ]


def _link_edits(text: XmlText, link: Element, ten: Array) -> list[Edit]:
    """Return the changes that give a link these parameters."""
    inertial = link.child("inertial")
    steps = () if inertial is None else origin_steps(inertial, "inertial")
    parts = inertial_attributes(ten, matrix_of(steps)[:3, :3])
    if parts is None:
        raise DescriptionError(
            f"{link.where}: link {link.text('name')!r} has mass 0 with first moments, which a "
            "URDF cannot hold"
        )
    if inertial is None:
        inner = [(2, element_text(tag, attributes)) for tag, attributes in parts.items()]
        return [text.with_first_child(link, [(1, "<inertial>"), *inner, (1, "</inertial>")])]
    there = {child.tag: child for child in inertial.children() if child.tag in parts}
    edits = [text.changed(there[tag], parts[tag]) for tag in ("mass", "inertia")]
    if "origin" in there:
        edits.append(text.changed(there["origin"], {"xyz": parts["origin"]["xyz"]}))
    elif parts["origin"]["xyz"] != "0 0 0":
        mass = there["mass"]
        edits.append(
            Edit(
                mass.start,
                mass.start,
                element_text("origin", parts["origin"]) + text.new_line(mass),
            )
        )
    return edits


def _dynamics_edits(text: XmlText, robot: Robot) -> Iterator[Edit]:
    """Yield the changes that give joints their friction.

    Terms that URDF has no words for are left to the side file.
    """
    tags = {tag.text("name"): tag for tag in text.root.children("joint")}
    for index, joint in enumerate(robot.joints):
        tag = tags.get(joint.name)
        if joint.kind == "fixed" or tag is None:
            continue
        terms = robot.drive_terms(index)
        if joint.drive.coupling or not np.isfinite(list(terms.values())).all():
            terms = {}  # a drive that other joints turn is not friction of this joint alone
        numbers = {key: numbers_text([terms.get(symbol, 0.0)]) for key, symbol in DYNAMICS.items()}
        old = tag.child("dynamics")
        if old is not None:
            yield text.changed(old, numbers)
        elif any(value != "0" for value in numbers.values()) and tag.inner:
            at = text.end(tag.inner[-1])
            yield Edit(at, at, text.new_line(tag.inner[-1]) + element_text("dynamics", numbers))
