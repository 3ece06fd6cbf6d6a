"""Robots to files, C code among them: `md.save`."""

from __future__ import annotations

import os
from pathlib import Path

from minidyn.codegen.c_model import c_model
from minidyn.errors import DescriptionError, WrongArgument
from minidyn.files import write_atomically
from minidyn.formats.load import as_robot
from minidyn.formats.toml.write import toml_text
from minidyn.model.robot import Robot


def save(robot: Robot | str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a robot to a .toml, .urdf, .xml, .mjcf or .c file.

    TOML keeps everything. URDF is for other tools; MuJoCo simulates the MJCF as it stands. What these two cannot say
    goes into a side file NAME.minidyn.toml beside them, which `md.load` finds. All give the same torques when they are
    loaded again. C is the robot's model with its parameters baked in, and a header.

    Each file is either the old one or the whole new one: it is written under another name and then put in place.

    Args:
        robot: The robot, or its built-in name or path.
        path: Where to; the ending chooses the format.

    Raises:
        WrongArgument: The first argument is no robot.
        DescriptionError: Another ending, a folder that does not exist, a robot the format cannot describe, a name that
            C cannot include.
        Unsupported: A robot that the format has no words for.
        UnknownParameters: MJCF or C of a robot whose parameters are unknown.
    """
    if isinstance(path, Robot):
        raise WrongArgument("save: robot and path seem to be swapped; expected save(robot, path)")
    robot = as_robot(robot)
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise DescriptionError(f"save: expected a file's path, got {path!r}")
    target = Path(path)
    suffix = target.suffix.lower()
    if target.is_dir():
        raise DescriptionError(f"{target}: a folder; expected a file's name ending with .toml, .urdf, .xml or .c")
    if suffix == ".toml":
        write_atomically(target, toml_text(robot).encode())
    elif suffix == ".urdf":
        from minidyn.formats.urdf.write import write_urdf

        write_urdf(robot, target)
    elif suffix in (".xml", ".mjcf"):
        from minidyn.formats.mjcf.write import write_mjcf

        write_mjcf(robot, target)
    elif suffix == ".c":
        for name, text in c_model(robot, target.stem)[0].items():
            write_atomically(target.with_name(name), text.encode())
    else:
        raise DescriptionError(f"{target}: the name ends with {suffix!r}; a robot is saved as .toml, .urdf, .xml or .c")
