"""Parameters back into an existing MJCF.

Inertia and drive numbers change, geometry and all else stays byte for byte. A body's <inertial> is
replaced, or added where geoms gave its inertia; joints get armature, damping and frictionloss.
Compiler settings that would change these numbers again are switched off. Where the result goes to
another folder, the folders of meshes and textures and the names of included files are written as
seen from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.formats.load import as_robot
from minidyn.formats.mjcf.compile import Compiled, compile_mjcf
from minidyn.formats.mjcf.read import HELD, read_mjcf
from minidyn.formats.side_file import write_with_side_file
from minidyn.formats.urdf.update import changed_links, with_locked_parts
from minidyn.formats.xml_file import Edit, Element, XmlText, element_text, numbers_text, path_from
from minidyn.model.parameters import possible_body, to_mujoco
from minidyn.model.robot import Robot
from minidyn.notices import Notice

_ADJUSTS = {"balanceinertia": "false", "boundmass": "0", "boundinertia": "0", "settotalmass": "-1"}


def update_mjcf(
    robot: Robot | str | os.PathLike[str],
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    exact: Robot | None = None,
) -> tuple[Notice, ...]:
    """Write the robot's inertia, rotor inertia and friction into the text of an MJCF file.

    What MJCF cannot say goes into a side file beside the result.

    Args:
        robot: Parameters, for a robot that was read from this file (its links and frames must be
            the file's); or the name or path of one.
        source: The existing MJCF.
        path: Where the result goes; may be `source` itself.
        exact: What `md.load` is to give back, where that is not `robot` itself.

    Returns:
        A notice for each body whose parts could not keep what the file says of them.

    Raises:
        DescriptionError: The file is another robot's, its bodies stand in included files, or
            parameters that MuJoCo refuses.
    """
    robot, source, path = as_robot(robot), Path(source), Path(path)
    compiled, old = compile_mjcf(source), read_mjcf(source)
    text = XmlText(source, "mujoco")
    if not np.allclose(robot.gravity, old.gravity):
        raise DescriptionError(
            f"{source}: gravity is {old.gravity.tolist()}, the robot's {robot.gravity.tolist()}"
        )
    bodies = _bodies(text.root, source)
    there = [compiled.model.body(number).name for number in range(1, compiled.model.nbody)]
    if there != [tag.attributes.get("name", "") for _, tag in bodies[1:]]:
        raise DescriptionError(
            f"{source}: bodies stand in included files; parameters cannot be written there"
        )
    own: dict[str, Array | None] = {name: ten for (name, _), ten in zip(bodies, compiled.bodies)}
    for load in (
        link for link, joint in zip(robot.link_names, robot.joints) if joint.kind == "fixed"
    ):
        raise DescriptionError(f"{source}: has no body for the load {load!r}")
    robot, notices = with_locked_parts(robot, old, source)
    if exact is not None:
        exact, _ = with_locked_parts(exact, old, source)
    tags, edits = dict(bodies), [*_settings(text, source, path)]
    every = bool(_overriding(text))
    for link, ten in changed_links(robot, old, own, source, notices, every=every):
        if link not in tags:
            raise DescriptionError(
                f"{source}: link {link!r} stands between two joints of one body; it has no inertia"
            )
        edits.append(_inertial(text, tags[link], ten, link, moving=link in robot.link_names))
    edits += _drives(text, robot, old, compiled, tags)
    write_with_side_file(exact or robot, robot, path, text.edited(edits), read_mjcf)
    return tuple(notices)


def _bodies(root: Element, source: Path) -> list[tuple[str, Element]]:
    """Return the bodies in MuJoCo's order, the world first, and their tags.

    Names as the reader gives them.
    """
    tags: list[Element] = []

    def walk(tag: Element) -> None:
        for child in tag.children():
            if child.tag in ("attach", "replicate", "include", "composite", "flexcomp"):
                raise DescriptionError(
                    f"{source}: bodies come from <{child.tag}>; parameters cannot be written "
                    "there, save a new file"
                )
            if child.tag == "body":
                tags.append(child)
            if child.tag in ("body", "frame"):
                walk(child)

    for world in root.children("worldbody"):
        walk(world)
    names = [tag.attributes.get("name") or f"body{number}" for number, tag in enumerate(tags, 1)]
    return [("world", root), *zip(names, tags)]


def _own(tag: Element, name: str) -> Iterator[Element]:
    """Elements of a body, those in its <frame>s included."""
    for child in tag.children():
        if child.tag == name:
            yield child
        elif child.tag == "frame":
            yield from _own(child, name)


def _inertial(text: XmlText, body: Element, ten: Array, name: str, moving: bool) -> Edit:
    mass, com, full = to_mujoco(possible_body(ten, name) if moving else ten)
    inertia = {"fullinertia": numbers_text(full)} if full.any() else {"diaginertia": "0 0 0"}
    made = element_text(
        "inertial", {"pos": numbers_text(com), "mass": numbers_text([mass])} | inertia
    )
    old = next(_own(body, "inertial"), None)
    return (
        text.with_first_child(body, [(1, made)])
        if old is None
        else Edit(old.start, text.end(old), made)
    )


def _drives(
    text: XmlText, robot: Robot, old: Robot, compiled: Compiled, tags: Mapping[str, Element]
) -> Iterator[Edit]:
    """Attributes of the joints whose drives changed.

    What actuators add by themselves stays with them.
    """
    found = {}  # where each joint stands: those of one body are a chain that ends with its link
    for body, holder in tags.items():
        link = old.link_names.index(body) if body in old.link_names else -1
        for tag in reversed([*_own(holder, "joint")] if link >= 0 else []):
            found[old.joints[link].name] = tag
            link = old.joints[link].parent
    for index, joint in enumerate(robot.joints):
        place = old.joint_index(joint.name)
        before = old.drive_terms(place)
        after = (
            {} if joint.drive.coupling else robot.drive_terms(index)
        )  # a coupled drive is left to the side file
        values = {}
        for symbol, attribute in HELD.items():
            change = after.get(symbol, 0.0) - before.get(symbol, 0.0)
            if np.isfinite(change) and change != 0.0:
                own = _attribute(compiled.model, joint.name, place, attribute)
                values[attribute] = numbers_text(
                    [after.get(symbol, 0.0) - (before.get(symbol, 0.0) - own)]
                )
        if values:
            if joint.name not in found:
                raise DescriptionError(
                    f"{compiled.path}: joint {joint.name!r} is not found in the text"
                )
            yield text.changed(found[joint.name], values)


def _attribute(model: Any, name: str, index: int, attribute: str) -> float:
    try:
        joint = model.joint(name).id
    except KeyError:  # without a name in the file
        joint = index
    return float(getattr(model, f"dof_{attribute}")[model.jnt_dofadr[joint]])


def _overriding(text: XmlText) -> list[Element]:
    """Compiler elements that put other inertia in the place of the given one."""
    return [
        tag
        for tag in text.root.children("compiler")
        if tag.attributes.get("inertiafromgeom") == "true"
        or any(name in tag.attributes for name in _ADJUSTS)
    ]


def _settings(text: XmlText, source: Path, path: Path) -> Iterator[Edit]:
    compilers = list(text.root.children("compiler"))
    moved = _moved(text, compilers, source, path)
    for number, tag in enumerate(compilers):
        values = {name: value for name, value in _ADJUSTS.items() if name in tag.attributes}
        if tag.attributes.get("inertiafromgeom") == "true":
            values["inertiafromgeom"] = "auto"
        if number == len(compilers) - 1:
            values |= moved
        if values:
            yield text.changed(tag, values)
    if moved and not compilers:
        start = text.stop(text.root)
        yield Edit(start, start, f"{text.newline}  {element_text('compiler', moved)}")
    yield from text.moved(source, path, "file", ("include",))


def _moved(text: XmlText, compilers: list[Element], source: Path, path: Path) -> dict[str, str]:
    """Folders of meshes and textures as seen from where the result goes."""
    uses_files = any(tag.attributes.get("file") and tag.tag != "include" for tag in text.every())
    if source.parent.resolve() == path.parent.resolve() or not uses_files:
        return {}
    given = dict(item for tag in compilers for item in tag.attributes.items())
    folders = {
        name: given.get(name, given.get("assetdir", "")) for name in ("meshdir", "texturedir")
    }
    relative = {name: folder for name, folder in folders.items() if not os.path.isabs(folder)}
    return {name: path_from(path, source.parent / folder) for name, folder in relative.items()}
