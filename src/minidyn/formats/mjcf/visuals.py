"""How a robot looks, carried from its URDF into a new MJCF: boxes, cylinders, spheres and meshes that are there.

Only what is seen is carried: geoms of no mass that touch nothing, in group 2. Where a link is shown by meshes that
MuJoCo does not read, its collision shapes replace them. What collides is left to whoever sets up the simulation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from minidyn.errors import DescriptionError
from minidyn.formats.mjcf.compile import set_place
from minidyn.formats.urdf.surfaces import mesh_files
from minidyn.formats.xml_edit import numbers_text
from minidyn.formats.xml_file import Element, origin_steps, read_xml

_MESHES = (".stl", ".obj", ".msh")  # what MuJoCo reads
_UNSEEN = {"contype": "0", "conaffinity": "0", "group": "2", "mass": "0"}


@dataclass
class Looks:
    """What is seen of each link, and which files it takes."""

    geoms: dict[str, list[etree._Element]] = field(default_factory=dict)  # for each link of the URDF, geom elements
    meshes: dict[tuple[str, str], str] = field(default_factory=dict)  # {(file, scale): name} of the mesh assets
    lost: list[str] = field(default_factory=list)  # meshes that are not there, or of a kind MuJoCo does not read


def looks_of(urdf: Path, folder: Path) -> Looks:
    """Return what a URDF shows, as MJCF geoms; meshes are named as seen from the folder of the MJCF."""
    root = read_xml(urdf, "robot")
    colours = {material.text("name", ""): _colour(material) for material in root.children("material")}
    looks = Looks()
    for link in root.children("link"):
        lost: list[str] = []
        for kind in ("visual", "collision"):
            made = (_placed(shown, looks, urdf, folder, colours, lost) for shown in link.children(kind))
            kept = [geom for geom in made if geom is not None]
            if kept:
                looks.geoms[link.text("name")] = kept
                break
        else:
            looks.lost += lost
    return looks


def _placed(
    shown: Element, looks: Looks, urdf: Path, folder: Path, colours: Mapping[str, str], lost: list[str]
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
    colour = "" if material is None else _colour(material) or colours.get(material.text("name", ""), "")
    for key, value in (({"rgba": colour} if colour else {}) | _UNSEEN).items():
        geom.set(key, value)
    return geom


def _geom(shown: Element, looks: Looks, urdf: Path, folder: Path, lost: list[str]) -> etree._Element | None:
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
