"""Robots to files."""

from __future__ import annotations

import os
from pathlib import Path

from minidyn.errors import DescriptionError
from minidyn.model.robot import Robot


def save(robot: Robot, path: str | os.PathLike[str]) -> None:
    """Write a robot to a .toml, .urdf, .xml or .mjcf file.

    TOML keeps everything; URDF, too (in one element of our own what it has no words for). MuJoCo simulates the MJCF as
    it stands; what MJCF cannot say goes into a file NAME.minidyn.toml beside it, which `md.load` finds. All give the
    same torques when they are loaded again.

    The file is either the old one or the whole new one: it is written under another name and then put in place.

    Args:
        robot: The robot.
        path: Where to; the ending chooses the format.

    Raises:
        DescriptionError: Another ending, a folder that does not exist, a robot the format cannot describe.
    """
    if not isinstance(robot, Robot):
        raise DescriptionError(f"save: expected a Robot first, got {type(robot).__name__}")
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise DescriptionError(f"save: expected a file's path, got {path!r}")
    target = Path(path)
    suffix = target.suffix.lower()
    if target.is_dir():
        raise DescriptionError(f"{target}: a folder; expected a file's name ending with .toml, .urdf, .xml or .c")
    if suffix == ".urdf":
        from minidyn.formats.urdf.write import write_urdf

        write_urdf(robot, target)
    elif suffix in (".xml", ".mjcf"):
        from minidyn.formats.mjcf.write import write_mjcf

        write_mjcf(robot, target)
    elif suffix == ".toml":
        from minidyn.files import write_atomically
        from minidyn.formats.toml.write import toml_text

        write_atomically(target, toml_text(robot).encode())
    else:
        raise DescriptionError(f"{target}: the name ends with {suffix!r}; a robot is saved as .toml, .urdf, .xml or .c")
