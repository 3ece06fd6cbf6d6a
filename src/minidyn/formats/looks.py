"""What the links of a robot look like, from the file that it was read from."""

from __future__ import annotations

import os
from pathlib import Path

from minidyn.errors import MissingExtra
from minidyn.formats.urdf.surfaces import surfaces_of
from minidyn.model.picture import Surfaces
from minidyn.model.robot import Robot


def looks_of(robot: Robot, most: int) -> Surfaces:
    """Return at most so many triangles by the names of links and frames; {}: the file is not there or shows nothing."""
    source = Path(robot.source)
    ending = source.suffix.lower()
    if ending not in (".urdf", ".xml", ".mjcf") or not os.path.isfile(source):
        return {}
    if ending == ".urdf":
        found = surfaces_of(source, most)
    else:
        try:
            from minidyn.formats.mjcf.surfaces import mjcf_surfaces  # mujoco is an extra
        except MissingExtra:
            return {}
        found = mjcf_surfaces(source, most)
    return {name: (one.points, one.triangles) for name, one in found.items()}
