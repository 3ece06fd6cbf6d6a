"""Robots from files: one reader for each format, chosen by the file's name.

Built-in robots by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from minidyn.errors import (
    DescriptionError,
    MissingExtra,
    MissingFile,
    UnknownName,
    WrongArgument,
    near_names,
    reading,
)
from minidyn.files import read_bytes
from minidyn.formats.descriptions import find_description, is_description
from minidyn.formats.side_file import SIDE, read_with_side_file
from minidyn.formats.toml.read import read_toml
from minidyn.formats.urdf.surfaces import surfaces_of
from minidyn.formats.xml_file import root_element
from minidyn.model.lock import LockLike
from minidyn.model.picture import Surfaces
from minidyn.model.robot import Robot, require_fixed_base

SUFFIXES = (".toml", ".urdf", ".xacro", ".xml", ".mjcf")
"""File names that are understood."""

_LOGS = (".csv", ".npz", ".mat", ".parquet", ".bag", ".mcap", ".db3", ".h5", ".hdf5", ".zarr")
"""How names of recordings end: for swapped arguments."""

_OTHERS = {
    "Recording": "recording",
    "Estimate": "estimate",
    "BaseMap": "base map",
    "Validation": "validation",
}
"""Values of later stages, which this one does not import, by what their class names contain.

For swapped arguments.
"""

BUILTIN = Path(__file__).parent.parent / "model" / "robots"
"""Folder of the built-in robots' files."""


@cache
def robots() -> tuple[str, ...]:
    """Return the names of the built-in robots, in alphabetical order."""
    return tuple(sorted(path.stem for path in BUILTIN.glob("*.toml")))


def describe(name: str) -> str:
    """Return the line that describes a built-in robot."""
    import tomllib

    if name not in robots():
        raise UnknownName("robot", name, robots())
    return str(
        tomllib.loads((BUILTIN / f"{name}.toml").read_text(encoding="utf-8")).get("description", "")
    )


def load(
    source: str | os.PathLike[str],
    *,
    gravity: ArrayLike | None = None,
    mount: ArrayLike | None = None,
    lock: LockLike | None = None,
    keep_joints: Iterable[str] | str | None = None,
    rotor_inertia: bool | Iterable[str] | None = None,
    friction: Iterable[str] | str | None = None,
    free_base: bool = False,
    xacro_args: Mapping[str, Any] | None = None,
) -> Robot:
    """Return a robot by its built-in name, or from a file: TOML, URDF, xacro or MJCF.

    A built-in name goes before a file of the same name; write ./name for the file.

    Args:
        source: A name from :func:`robots`, or the path of a .toml, .urdf, .xacro, .xml or .mjcf
            file; or the name of a description that the package robot_descriptions has fetched:
            "panda_description", "robot_descriptions:ur10_description".
        gravity: Acceleration of gravity in the world frame (3,), m/s²; None: what the file says.
        mount: Roll, pitch and yaw by which the base is turned in the world (3,), rad: see
            :meth:`Robot.mounted`.
        lock: Joints that do not move, {joint: position}: see :meth:`Robot.locked`.
        keep_joints: Names or patterns of the joints that move, the others are locked: see
            :meth:`Robot.reduced`.
        rotor_inertia: Which joints have the column Ia: all (True), none (False), the named ones;
            None: as in the file.
        friction: Drive terms of every joint, such as "viscous", "coulomb" (docs/friction.md); None:
            as in the file.
        free_base: The robot's base moves freely in the world: see :meth:`Robot.with_free_base`. A
            file with a floating joint says so itself.
        xacro_args: Values of the arguments of a .xacro file, {"ur_type": "ur10e"}. Its expressions
            are limited (docs/urdf-and-mjcf.md).

    Raises:
        DescriptionError: The file is wrong, with file and line.
        UnknownName: There is no built-in robot of that name, with near names.
    """
    with reading(source):
        robot = _read(source, xacro_args)
    if free_base:
        robot = robot.with_free_base()
    if gravity is not None:
        robot = robot.with_gravity(gravity)
    if mount is not None:
        robot = robot.mounted(mount)
    if lock is not None:
        robot = robot.locked(lock)
    if keep_joints is not None:
        robot = robot.reduced(keep_joints)
    if rotor_inertia is not None or friction is not None:
        robot = robot.with_drives(rotor_inertia=rotor_inertia, friction=friction)
    return robot


RobotLike: TypeAlias = Robot | str | os.PathLike[str]
"""A robot, the name of a built-in one, or the path of a robot file: what :func:`as_robot` takes."""


def as_robot(value: object, *, argument: str = "robot", free_base: bool = False) -> Robot:
    """Return a robot as it is, or loaded from a built-in name or a file's path.

    What every door function does first. Messages call it `argument`, as the caller does; swapped
    arguments are named. A robot with a free base is refused unless the caller supports it.
    """
    robot = _as_robot(value, argument)
    if not free_base:
        require_fixed_base(robot, argument)
    return robot


def _as_robot(value: object, argument: str) -> Robot:
    if isinstance(value, Robot):
        return value
    if isinstance(value, str | os.PathLike):
        try:
            return load(value)
        except DescriptionError as error:
            if (
                str(value).lower().endswith(_LOGS) or (Path(value) / "metadata.yaml").exists()
            ):  # the last: a bag
                raise DescriptionError(
                    f"{argument}: {error}; robot and recording seem to be swapped"
                ) from None
            raise
    name = type(value).__name__
    other = next((what for part, what in _OTHERS.items() if part in name), "")
    hint = f"; {argument} and {other} seem to be swapped" if other else ""
    raise WrongArgument(
        f"{argument}: expected a Robot, a built-in robot's name or a robot file's path, got "
        f"{'None' if value is None else f'a value of type {name}'}{hint}"
    )


def _read(source: object, xacro_args: Mapping[str, Any] | None) -> Robot:
    if not isinstance(source, str | os.PathLike):
        raise DescriptionError(
            f"load: expected a built-in robot's name or a file's path, got {source!r}; names: "
            f"{', '.join(robots())}"
        )
    if isinstance(source, str) and source in robots():
        return read_toml(BUILTIN / f"{source}.toml")
    name = os.fspath(source)
    if not isinstance(name, str):
        raise DescriptionError(f"load: expected a path as text, got {name!r}")
    if not name or "\0" in name:
        raise DescriptionError(
            f"load: {name!r} is neither a built-in robot's name nor a file's path"
        )
    path = Path(name)
    if name.endswith(SIDE):
        advice = f"load {path.name.removesuffix(SIDE)!r} instead"
        raise DescriptionError(f"{path}: a side file, read with the robot beside it; {advice}")
    suffix = path.suffix.lower()
    given = dict(xacro_args or {})
    packages: Mapping[str, str] = {}
    if isinstance(source, str) and is_description(name) and not path.exists():
        described = find_description(name)
        path, packages = described.path, described.packages
        given = {**described.arguments, **given}
        suffix = path.suffix.lower()
    if given and suffix != ".xacro":
        raise DescriptionError(f"xacro_args: {path} is no .xacro file; leave them out")
    if not suffix and isinstance(source, str) and not re.search(r"[/\\]", name):
        raise _unknown(name, path)
    _require_text(path, suffix)
    if suffix == ".toml":
        return read_toml(path)
    if suffix == ".xacro":
        from minidyn.formats.urdf.xacro import read_xacro

        return read_xacro(path, given, packages)
    if suffix == ".urdf" or (suffix == ".xml" and root_element(path) == "robot"):
        from minidyn.formats.urdf.read import read_urdf

        return read_with_side_file(path, read_urdf)
    from minidyn.formats.mjcf.read import read_mjcf

    return read_with_side_file(path, read_mjcf)


def _unknown(name: str, path: Path) -> UnknownName:
    error, tail = UnknownName("robot", name, robots()), f"and there is no file {name!r}"
    if path.exists():
        tail = f"a file {name!r} exists, but its name ends with none of {', '.join(SUFFIXES)}"
    if path.is_dir():
        tail = f"{name!r} is a folder here; name a file in it"
    error.args = (f"{error} ({tail})",)
    return error


def _require_text(path: Path, suffix: str) -> None:
    """Raise where the path is not a readable, non-empty text file of a known kind."""
    if path.is_dir():
        raise DescriptionError(f"{path}: a folder; expected a file ({', '.join(SUFFIXES)})")
    if not path.exists():
        hint = near_names(path.stem, robots()) if path.parent == Path() else ""
        raise MissingFile(f"{path}: no such file{hint}")
    if suffix not in SUFFIXES:
        raise DescriptionError(
            f"{path}: the name ends with {suffix!r}; expected one of {', '.join(SUFFIXES)}"
        )
    head = read_bytes(path)
    if not head.strip():
        raise DescriptionError(f"{path}: the file is empty; expected a robot")
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DescriptionError(f"{path}: a binary file; expected text ({suffix})")


def looks_of(robot: Robot, most: int) -> Surfaces:
    """Return at most so many triangles by the names of links and frames.

    {}: the file is not there or shows nothing.
    """
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
