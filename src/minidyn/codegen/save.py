"""Robots to files, C code among them: `md.save`."""

from __future__ import annotations

import os
from pathlib import Path

from minidyn.codegen.c_model import c_model
from minidyn.files import write_atomically
from minidyn.formats.save import save as save_description
from minidyn.model.robot import Robot


def save(robot: Robot, path: str | os.PathLike[str]) -> None:
    """Write a robot to a .toml, .urdf, .xml, .mjcf or .c file.

    TOML keeps everything; URDF, too (in one element of our own what it has no words for). MuJoCo simulates the MJCF as
    it stands; what MJCF cannot say goes into a file NAME.minidyn.toml beside it, which `md.load` finds. All of these
    give the same torques when they are loaded again. C is the robot's model with its parameters baked in, and a header.

    Each file is either the old one or the whole new one: it is written under another name and then put in place.

    Args:
        robot: The robot.
        path: Where to; the ending chooses the format.

    Raises:
        DescriptionError: Another ending, a folder that does not exist, a robot the format cannot describe, a name that
            C cannot include.
        Unsupported: A robot that the format has no words for.
        UnknownParameters: MJCF or C of a robot whose parameters are unknown.
    """
    named = isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str)
    if not isinstance(robot, Robot) or not named or Path(path).suffix.lower() != ".c" or Path(path).is_dir():
        save_description(robot, path)
        return
    target = Path(path)
    texts, _ = c_model(robot, target.stem)
    for name, text in texts.items():
        write_atomically(target.with_name(name), text.encode())
