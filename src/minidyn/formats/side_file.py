"""What a URDF or MJCF file cannot say: kept in a TOML file beside it, which `md.load` finds.

`arm.urdf` has `arm.urdf.minidyn.toml`, `arm.xml` has `arm.xml.minidyn.toml`. It names joints of the description and
gives their drives whole (rotor inertia, friction terms, coupling, how sharply friction turns round) and their links'
parameters with all digits. The description comes first: what it says itself counts where it was edited after the side
file was written, which shows in `holds`, the values it had then.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, NotWritten, near_names
from minidyn.files import write_atomically
from minidyn.formats.load import SIDE
from minidyn.formats.toml.read import read_drive
from minidyn.formats.toml.table import Table, read_tables
from minidyn.formats.toml.write import drive_text, listed_numbers, quoted
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.inertia import STANDARD
from minidyn.model.joint import Joint
from minidyn.model.parameters import Layout
from minidyn.model.robot import Robot

_SAME = 1e-9  # relative: numbers that went through text and a change of convention
_FAITHFUL = 1e-6  # relative: a description that differs by more does not say what it should
_JOINT = ("name", "drive", "velocity", "parameters", "holds")
_TERMS = {ROTOR: "rotor_inertia"} | {symbol: term for term, symbol in FRICTION.items()}


def side_path(path: Path) -> Path:
    """Return where the side file of a description stands."""
    return path.with_name(path.name + SIDE)


def remove_side_file(path: Path) -> None:
    """Remove a side file that a description does not need any more: it would be read with it."""
    try:
        side_path(path).unlink(missing_ok=True)
    except OSError as error:
        raise DescriptionError(f"{side_path(path)}: cannot be removed ({error.strerror or error})") from None


def write_with_side_file(
    robot: Robot, described: Robot, path: Path, data: bytes, read: Callable[[Path], Robot]
) -> None:
    """Write a description, and beside it what it cannot say of a robot.

    Args:
        robot: What `md.load` is to give back.
        described: What the description itself is to say; its links' parameters are compared with what it does say.
        path: The description's file.
        data: Its text.
        read: Its reader, side files left aside.

    Raises:
        DescriptionError: The text does not say what it should, or a file cannot be written.
    """
    # a reader needs the name's ending and the folder, where included files and meshes are found
    trial = path.with_name(f".{os.getpid()}.{secrets.token_hex(4)}{path.suffix}")
    try:
        write_atomically(trial, data)
        plain = read(trial)
    except DescriptionError as error:
        kind = NotWritten if isinstance(error, NotWritten) else DescriptionError
        raise kind(str(error).replace(str(trial), str(path))) from None
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)
    links = {joint.name: index for index, joint in enumerate(plain.joints)}
    for index, joint in enumerate(described.joints):
        if joint.kind == "fixed" or any(load.kind == "fixed" and load.parent == index for load in described.joints):
            continue
        if joint.name not in links:
            raise DescriptionError(f"{path}: would lose joint {joint.name!r}")
        ten = described.parameters[described.layout.links[index]]
        held = plain.parameters[plain.layout.links[links[joint.name]]]
        if not np.isnan(ten).any() and not _close(held, ten, _FAITHFUL):
            raise DescriptionError(f"{path}: would not hold the parameters of link {described.link_names[index]!r}")
    text = side_text(robot, plain, path.name)
    if text:  # first: where it is new and the description old, the description counts
        write_atomically(side_path(path), text.encode())
    write_atomically(path, data)
    if not text:
        remove_side_file(path)


def side_text(robot: Robot, plain: Robot, name: str) -> str:
    """Return the text of a side file, "" where the description says it all.

    Args:
        robot: What is to be read back.
        plain: What the description gives alone, with joints and links of the same names.
        name: The description's file name.
    """
    blocks = []
    for index, joint in enumerate(robot.joints):
        there = [other.name for other in plain.joints]
        if joint.kind == "fixed" or joint.name not in there:
            continue
        entry = _entry(robot, index, plain, there.index(joint.name))
        if entry:
            blocks.append("\n".join(["", "[[joint]]", f"name = {quoted(joint.name)}", *entry]))
    gravity = [] if np.allclose(robot.gravity, plain.gravity, rtol=0, atol=1e-12) else robot.gravity.tolist()
    if not blocks and not gravity:
        return ""
    head = [
        "# What the robot description beside this file cannot say. Keep both together: md.load reads both.",
        "# Rotor inertia, friction and coupling of each drive, joint side, SI units; parameters: the link's ten.",
        "# holds: what the description itself said when this was written; where it says something else now, it counts.",
        f"beside = {quoted(name)}",
        *([f"gravity = {listed_numbers(gravity)}"] if gravity else []),
    ]
    return "\n".join([*head, *blocks]) + "\n"


def _entry(robot: Robot, index: int, plain: Robot, place: int) -> list[str]:
    joint, other = robot.joints[index], plain.joints[place]
    lines, holds = [], []
    mine, theirs = _terms(robot, index), _terms(plain, place)
    same = all(_close(theirs.get(symbol, math.nan), value) for symbol, value in mine.items())
    if not same or set(theirs) - set(mine) or joint.drive != replace(other.drive, gear_ratio=joint.drive.gear_ratio):
        lines.append(f"drive = {drive_text(robot, index)}")
        holds += [f"{_TERMS[symbol]} = {value!r}" for symbol, value in theirs.items()]
    if joint.limits.velocity != other.limits.velocity and math.isfinite(joint.limits.velocity):
        lines.append(f"velocity = {joint.limits.velocity!r}")
    ten, held = robot.parameters[robot.layout.links[index]], plain.parameters[plain.layout.links[place]]
    carries = any(load.kind == "fixed" and load.parent == index for load in robot.joints)
    if not carries and not np.array_equal(ten, held, equal_nan=True):
        lines.append(f"parameters = {listed_numbers(ten)} # {' '.join(STANDARD)}")
        holds.append(f"parameters = {listed_numbers(held)}")
    return [*lines, f"holds = {{ {', '.join(holds)} }}"] if holds else lines


def _terms(robot: Robot, index: int) -> dict[str, float]:
    return {column.symbol: float(robot.parameters[column.index]) for column in robot.layout.drives[index]}


# -------------------------------------------------------------------- reading


@dataclass
class _Merged:
    """A joint's drive and its link's ten parameters, as they are put together."""

    joint: Joint
    ten: Array
    terms: dict[str, float]


def with_side_file(robot: Robot, path: Path) -> Robot:
    """Return the robot of a description with what its side file adds; the same robot where there is none.

    Raises:
        DescriptionError: The side file is wrong, with file and line.
    """
    beside = side_path(path)
    if not beside.is_file():
        return robot
    top = read_tables(beside)
    top.finish(("beside", "gravity", "joint"))
    top.text("beside", path.name)
    gravity = top.numbers("gravity", 3, robot.gravity.tolist())
    merged = [
        _Merged(joint, robot.parameters[robot.layout.links[index]], _terms(robot, index))
        for index, joint in enumerate(robot.joints)
    ]
    names = [joint.name for joint in robot.joints]
    notices: list[str] = []
    for table in top.tables("joint", "joint"):
        table.finish(_JOINT)
        name = table.text("name")
        if name not in names:
            raise table.error("name", f"{path.name} has no joint {name!r}{near_names(name, names)}; remove this table")
        _merge(table, merged[names.index(name)], names, notices)
    layout = Layout.of(entry.joint.drive for entry in merged)
    values = np.empty(len(layout))
    for entry, part, columns in zip(merged, layout.links, layout.drives):
        values[part] = entry.ten
        for column in columns:
            values[column.index] = entry.terms[column.symbol]
    joints = tuple(entry.joint for entry in merged)
    told = [f"{beside.name} adds what {path.name} cannot say (drives, all digits)", *notices]
    kept = [notice for notice in robot.notices if not _resolved(notice, merged)]
    return replace(robot, joints=joints, parameters=values, gravity=gravity, notices=(*kept, *told))


def _resolved(notice: str, merged: Sequence[_Merged]) -> bool:
    """Whether a reader's notice that something is left out is no longer true: the side file says it."""
    coupled = sum(bool(entry.joint.drive.coupling) for entry in merged)
    springs = [repr(entry.joint.name) for entry in merged if "Ks" in entry.terms]
    return notice in (
        f"{coupled} tendons are left out",
        f"joint springs are left out (stiffness of {', '.join(springs)})",
    )


def _merge(table: Table, entry: _Merged, joints: Iterable[str], notices: list[str]) -> None:
    joint = entry.joint
    holds = table.table("holds")
    if "drive" in table:
        terms, drive = read_drive(table)
        for name, _ in drive.coupling:
            if name not in joints:
                raise table.error("drive", f"coupled to an unknown joint {name!r}{near_names(name, joints)}")
        edited = []
        for symbol in (*_TERMS,):
            held = holds.number(_TERMS[symbol], 0.0, unknown=True) if holds else 0.0
            if not _close(entry.terms.get(symbol, 0.0), held):
                edited.append(_TERMS[symbol])
                terms[symbol] = entry.terms.get(symbol, 0.0)
        if edited:
            notices.append(f"joint {joint.name!r}: {', '.join(edited)} edited since, taken from the description")
        entry.terms = terms
        drive = replace(
            drive,
            rotor_inertia=ROTOR in terms,
            friction=tuple(term for term, symbol in FRICTION.items() if symbol in terms),
            gear_ratio=joint.drive.gear_ratio,
        )
        entry.joint = joint = replace(joint, drive=drive)
    if "velocity" in table and math.isinf(joint.limits.velocity):
        entry.joint = replace(joint, limits=replace(joint.limits, velocity=table.number("velocity")))
    if "parameters" in table:
        exact = table.numbers("parameters", 10, unknown=True)
        held_ten = holds.numbers("parameters", 10, exact.tolist(), unknown=True) if holds else exact
        if _close(entry.ten, held_ten):
            entry.ten = exact
        else:
            notices.append(f"link of joint {joint.name!r}: its inertia was edited since, taken from the description")


def _close(found: ArrayLike, held: ArrayLike, tolerance: float = _SAME) -> bool:
    """Whether two values, or two sets of ten, differ by rounding alone."""
    a, b = np.atleast_1d(np.asarray(found, dtype=float)), np.atleast_1d(np.asarray(held, dtype=float))
    if np.array_equal(a, b, equal_nan=True):
        return True
    gap, size = np.abs(a - b).max(), max(np.abs(b).max(), 1e-6)  # massless links get 1e-14 kg in MJCF
    return bool(np.isfinite(gap) and gap <= tolerance * size)
