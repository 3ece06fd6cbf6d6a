"""What a URDF or MJCF file cannot say: kept in a TOML file beside it, which `md.load` finds.

`arm.urdf` has `arm.urdf.minidyn.toml`, `arm.xml` has `arm.xml.minidyn.toml`, in the words of our
own robot files. Where only drives, gravity or last digits are missing, it names joints and gives
their drives whole (rotor inertia, friction terms, coupling, smoothing widths) and their links'
parameters with all digits. Where URDF cannot say how the robot is built (geometry symbols, loads,
loops, formulas), it holds the whole robot and, as `tree`, a digest of how the URDF placed its
joints. The robot file beside it comes first: what was edited there after the side file was written
counts. That shows in `holds`, the values it had then. A robot file that has not changed by a byte
since (`digest`) is not read at all where the side file holds the whole robot.

Both files are replaced one after the other, and a process may end between. So the new side file is
written first under the name it has for this moment (`NEXT`), with the fingerprint of the robot file
that it belongs to (`of`). It counts as soon as that robot file is in its place, and not before.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, LoopError, near_names, require_known
from minidyn.files import trial_file, write_atomically
from minidyn.formats.toml.read import read_drive, read_limits, robot_of
from minidyn.formats.toml.table import Table, parse_tables, read_tables, term_keys
from minidyn.formats.toml.write import drive_text, limits_text, listed_numbers, quoted, toml_text
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.geometry import SNAPPED_ANGLE, SNAPPED_AXIS
from minidyn.model.joint import Follow, Joint
from minidyn.model.parameters import STANDARD, Layout, transform
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning

SIDE = ".minidyn.toml"
"""How the name of a side file ends."""

NEXT = ".next"
"""How the name of a side file ends until its robot file is in place."""

USED = info(
    "side_file.used", "A side file adds what the robot file cannot say: drives, loops, all digits."
)
EDITED = warning(
    "side_file.edited",
    "Values in the robot file were edited after its side file was written; the robot file counts.",
    "Save the robot again if both files are to agree.",
)
GEOMETRY_EDITED = warning(
    "side_file.geometry_edited",
    "The joints of the robot file were edited after its side file was written: they are read as "
    "they stand, without geometry symbols and with loads merged into their links.",
    "Check the robot with `minidyn show`, then save it again or remove the side file.",
)

_SAME = 1e-9  # relative: numbers that went through text and a change of convention
_FAITHFUL = 1e-6  # relative: a robot file that differs by more does not say what it should
_WHOLE = ("beside", "of", "tree", "digest")
_JOINT = ("name", "drive", "velocity", "parameters", "holds")


def side_path(path: Path) -> Path:
    """Return where the side file of a robot file stands."""
    return path.with_name(path.name + SIDE)


def write_with_side_file(
    robot: Robot,
    described: Robot,
    path: Path,
    data: bytes,
    read: Callable[[Path], Robot],
    *,
    whole: bool = False,
) -> None:
    """Write a robot file, `data`, and beside it what it cannot say of a robot.

    `robot` is what `md.load` is to give back, `described` what the file itself is to say: its
    links' parameters are compared with what it does say. `read` is its reader, side files left
    aside. With `whole` the side file may hold the whole robot, where nothing less gives it back.
    """
    with trial_file(path, data) as trial:
        try:
            plain = read(trial)
        except DescriptionError as error:
            raise DescriptionError(str(error).replace(str(trial), str(path))) from None
    there = {joint.name for joint in plain.joints}
    for index, joint in enumerate(described.joints):
        if joint.kind == "fixed" or _loaded(described, index):
            continue
        if joint.name not in there:
            raise DescriptionError(f"{path}: would lose joint {joint.name!r}")
        ten, held = (
            described.parameters[described.layout.links[index]],
            _said(plain, described, index),
        )
        if not (np.isnan(ten).any() or np.isnan(held).all() or close(held, ten, _FAITHFUL)):
            raise DescriptionError(
                f"{path}: would not hold the parameters of link {described.link_names[index]!r}"
            )
    text, beside = _side_text(robot, plain, data, path.name, whole), side_path(path)
    if text or beside.exists():
        write_atomically(_next(path), (text or f"of = {quoted(digest(data))}\n").encode())
    write_atomically(path, data)
    if text:
        write_atomically(beside, text.encode())
    for obsolete in (() if text else (beside,)) + (_next(path),):
        try:
            obsolete.unlink(missing_ok=True)
        except OSError as error:
            raise DescriptionError(
                f"{obsolete}: cannot be removed ({error.strerror or error})"
            ) from None


def _next(path: Path) -> Path:
    """Return the name of a side file until its robot file is in place."""
    return path.with_name(path.name + SIDE + NEXT)


def _side_text(robot: Robot, plain: Robot, data: bytes, name: str, whole: bool) -> str:
    """Return the text of a side file, "" where the robot file of these bytes, which gives `plain`,
    says it all.
    """
    places = {joint.name: index for index, joint in enumerate(plain.joints)}
    moving = [
        (index, joint.name) for index, joint in enumerate(robot.joints) if joint.kind != "fixed"
    ]
    shared = [(index, places[joint]) for index, joint in moving if joint in places]
    entries = [
        (robot.joints[index].name, _entry(robot, index, plain, place)) for index, place in shared
    ]
    blocks = [
        "\n".join(["", "[[joint]]", f"name = {quoted(joint)}", *lines])
        for joint, lines in entries
        if lines
    ]
    gravity = (
        []
        if np.allclose(robot.gravity, plain.gravity, rtol=0, atol=1e-12)
        else robot.gravity.tolist()
    )
    head = [
        "# What the robot file beside this one cannot say. Keep both together: md.load reads both.",
        (
            "# Rotor inertia, friction and coupling of each drive, joint side, SI units; "
            "parameters: the link's ten."
        ),
        (
            "# holds: what the robot file itself said when this was written; where it says "
            "something else now, it counts."
        ),
        f"beside = {quoted(name)}",
        f"of = {quoted(digest(data))}",
    ]
    few = (
        "\n".join([*head, *([f"gravity = {listed_numbers(gravity)}"] if gravity else []), *blocks])
        + "\n"
    )
    if not whole or _combined(plain, parse_tables(few, name + SIDE), name) == robot:
        return few if blocks or gravity else ""
    holds = {
        robot.joints[index].name: _all_held(robot, index, plain, place) for index, place in shared
    }
    head.append(f"tree = {quoted(_tree(plain))}")
    if not plain.notices:
        head.append(f"digest = {quoted(digest(data))}")
    return toml_text(robot, head=head, holds=holds)


def _entry(robot: Robot, index: int, plain: Robot, place: int) -> list[str]:
    joint, other = robot.joints[index], plain.joints[place]
    lines, holds = [], []
    mine, theirs = robot.drive_terms(index), plain.drive_terms(place)
    same = all(close(theirs.get(symbol, math.nan), value) for symbol, value in mine.items())
    if (
        not same
        or set(theirs) - set(mine)
        or joint.drive != replace(other.drive, gear_ratio=joint.drive.gear_ratio)
    ):
        lines.append(f"drive = {drive_text(robot, index)}")
        holds += _held_terms(theirs)
    if joint.limits.velocity != other.limits.velocity and math.isfinite(joint.limits.velocity):
        lines.append(f"velocity = {joint.limits.velocity!r}")
    ten, held = (
        robot.parameters[robot.layout.links[index]],
        plain.parameters[plain.layout.links[place]],
    )
    if not _loaded(robot, index) and not np.array_equal(ten, held, equal_nan=True):
        lines.append(f"parameters = {listed_numbers(ten)} # {' '.join(STANDARD)}")
        holds.append(f"parameters = {listed_numbers(held)}")
    return [*lines, f"holds = {{ {', '.join(holds)} }}"] if holds else lines


def _all_held(robot: Robot, index: int, plain: Robot, place: int) -> str:
    """Return what the robot file says of a joint whose robot stands in the side file whole."""
    holds = _held_terms(plain.drive_terms(place))
    if robot.joints[index].limits != plain.joints[place].limits:
        holds.append(f"limits = {limits_text(plain.joints[place].limits)}")
    ten, held = robot.parameters[robot.layout.links[index]], _said(plain, robot, index)
    if not np.array_equal(ten, held, equal_nan=True):
        holds.append(f"parameters = {listed_numbers(held)}")
    return f"{{ {', '.join(holds)} }}"


def _held_terms(terms: Mapping[str, float]) -> list[str]:
    return [f"{term_keys()[symbol]} = {value!r}" for symbol, value in terms.items()]


def _loaded(robot: Robot, index: int) -> bool:
    """Whether a link carries a load of its own columns: a file adds both up."""
    return any(load.kind == "fixed" and load.parent == index for load in robot.joints)


def _said(plain: Robot, robot: Robot, index: int) -> Array:
    """Return what a file says of a robot's link, loads included, in the link's own frame.

    Where an axis does not pass through the link's origin, the file has a helper link at the axis
    and ours is a frame.
    """
    place, name = plain.joint_index(robot.joints[index].name), robot.link_names[index]
    ten = plain.parameters[plain.layout.links[place]]
    found = [
        frame.placement for frame in plain.frames if frame.name == name and frame.link == place
    ]
    return transform(ten, np.linalg.inv(found[0])) if found else ten


def _tree(robot: Robot) -> str:
    """Return a digest of all that places and moves the links, to 1e-9."""

    def rounded(values: Array) -> object:
        return (np.round(values, 9) + 0.0).tolist()

    names = (*robot.link_names, robot.base_name)  # -1 is the base
    parts: list[object] = [robot.base_name, rounded(robot.base_placement)]
    for joint, link in zip(robot.joints, robot.link_names):
        parts.append(
            (
                joint.name,
                joint.kind,
                names[joint.parent],
                link,
                rounded(joint.placement),
                rounded(joint.axis),
            )
        )
    parts += sorted(
        (frame.name, names[frame.link], repr(rounded(frame.placement))) for frame in robot.frames
    )
    return digest(repr(parts).encode())


def digest(data: bytes) -> str:
    """Return a short hash."""
    return hashlib.sha256(data).hexdigest()[:12]


@dataclass
class _Part:
    """A joint, its drive terms and its link's ten parameters, as they are put together."""

    joint: Joint
    terms: dict[str, float]
    ten: Array


def read_with_side_file(path: Path, read: Callable[[Path], Robot]) -> Robot:
    """Return the robot of a robot file, with what its side file adds.

    `read` leaves side files aside.
    """
    beside, late = side_path(path), _next(path)
    if not path.is_file() or not (beside.is_file() or late.is_file()):
        return read(path)
    now = digest(path.read_bytes())
    if late.is_file() and read_tables(late).text("of", "") == now:
        beside = late  # a process ended after the robot file was in place
    if not beside.is_file():
        return read(path)
    top = read_tables(beside)
    if set(top.data) == {"of"}:  # the robot file says it all
        return read(path)
    if top.text("digest", "") != now:
        return _combined(read(path), top, path.name)
    return replace(
        robot_of(top, beside, also=_WHOLE), source=str(path), notices=(_used(path.name),)
    )


def _used(name: str) -> Notice:
    return USED(f"{name}{SIDE} adds what {name} cannot say", file=name + SIDE)


def _combined(plain: Robot, top: Table, name: str) -> Robot:
    notices: list[Notice] = []
    tables = {table.text("name"): table for table in top.tables("joint")}
    names = [joint.name for joint in plain.joints]
    few, same_tree = "tree" not in top, False
    if few:
        top.finish(("beside", "of", "gravity", "joint"))
        robot = replace(plain, gravity=top.numbers("gravity", 3, plain.gravity.tolist()))
    else:
        whole = robot_of(top, Path(top.file), also=_WHOLE)
        same_tree = top.text("tree") == _tree(plain)
        robot = (
            replace(whole, source=plain.source)
            if same_tree
            else _as_it_stands(plain, whole, top, name, notices)
        )
    parts = [
        _Part(joint, robot.drive_terms(index), robot.parameters[robot.layout.links[index]])
        for index, joint in enumerate(robot.joints)
    ]
    for index, part in enumerate(parts):
        table = tables.pop(part.joint.name, None)
        if table is None or part.joint.kind == "fixed":
            continue
        if few:
            table.finish(_JOINT)
            _put_in(table, part, names)
        edited = _take_edits(table, part, plain, robot, index, few=few, same_tree=same_tree)
        if edited:
            text = f"joint {part.joint.name!r}: {', '.join(edited)} edited since, taken from {name}"
            notices.append(EDITED(text, joint=part.joint.name, values=edited))
    for joint, table in tables.items() if few else ():
        raise table.error(
            "name", f"{name} has no joint {joint!r}{near_names(joint, names)}; remove this table"
        )
    layout = Layout.of(part.joint.drive for part in parts)
    values = layout.vector((part.ten for part in parts), (part.terms for part in parts))
    snapped = (
        (SNAPPED_ANGLE.code, SNAPPED_AXIS.code) if same_tree else ()
    )  # the side file has angles as they were
    kept = [
        notice
        for notice in plain.notices
        if notice.code not in snapped and not _resolved(notice, parts)
    ]
    joints = tuple(part.joint for part in parts)
    return replace(robot, joints=joints, parameters=values, notices=(*kept, _used(name), *notices))


def _as_it_stands(
    plain: Robot, whole: Robot, top: Table, name: str, notices: list[Notice]
) -> Robot:
    """Return the robot file's own robot with the drives and gravity of a side file written before
    it was edited.
    """
    if whole.loops:
        raise LoopError(
            f"{top.where}: the joints of {name} were edited since this was written, and the robot "
            "has loops; describe it in a TOML file, or remove the side file"
        )
    notices.append(
        GEOMETRY_EDITED(
            f"{name}: the joints were edited after its side file was written", file=name
        )
    )
    known = {joint.name: index for index, joint in enumerate(whole.joints)}
    joints, values = [], []
    for index, joint in enumerate(plain.joints):
        holder, place = (whole, known[joint.name]) if joint.name in known else (plain, index)
        other = holder.joints[place]
        joints.append(
            replace(joint, drive=other.drive, follows=_follows(other.follows, joint.follows))
        )
        values += [
            *plain.parameters[plain.layout.links[index]],
            *holder.drive_terms(place).values(),
        ]
    return replace(
        plain,
        name=whole.name,
        gravity=whole.gravity,
        joints=tuple(joints),
        parameters=np.array(values),
    )


def _put_in(table: Table, part: _Part, joints: Sequence[str]) -> None:
    """Take what a side file of few words says of a joint."""
    if "drive" in table:
        part.terms, drive = read_drive(table)
        others = (name for name, _ in drive.coupling)
        require_known(others, joints, f"{table.place('drive')}: coupled to an unknown joint")
        part.joint = replace(part.joint, drive=drive)
    if "velocity" in table and math.isinf(part.joint.limits.velocity):
        limits = replace(part.joint.limits, velocity=table.number("velocity"))
        part.joint = replace(part.joint, limits=limits)
    if "parameters" in table:
        part.ten = table.numbers("parameters", 10, unknown=True)


def _take_edits(
    table: Table, part: _Part, plain: Robot, robot: Robot, index: int, *, few: bool, same_tree: bool
) -> list[str]:
    """Take what a robot file says of a joint where it is not what it said then.

    Return what that is.
    """
    holds = table.table("holds")
    place = plain.joint_index(part.joint.name)
    there, now = plain.joints[place], plain.drive_terms(place)
    edited = []
    if not few or "drive" in table:
        for symbol, term in term_keys().items():
            held = holds.number(term, 0.0, unknown=True) if holds else 0.0
            value = now.get(symbol, 0.0)
            if value != held and not close(value, held):
                edited.append(term)
                part.terms[symbol] = value
    friction, gear = (
        tuple(term for term, symbol in FRICTION.items() if symbol in part.terms),
        there.drive.gear_ratio,
    )
    drive = replace(
        part.joint.drive, rotor_inertia=ROTOR in part.terms, friction=friction, gear_ratio=gear
    )
    part.joint = replace(part.joint, drive=drive)
    if same_tree:
        limits = (
            read_limits(holds, part.joint.kind)
            if holds and "limits" in holds
            else part.joint.limits
        )
        follows = _follows(part.joint.follows, there.follows)
        if there.limits != limits:
            edited.append("limits")
            part.joint = replace(part.joint, limits=there.limits)
        if follows != part.joint.follows:
            edited.append("mimic")
            part.joint = replace(part.joint, follows=follows)
    if same_tree or "parameters" in table:
        said = _said(plain, robot, index)
        held_ten = (
            holds.numbers("parameters", 10, part.ten.tolist(), unknown=True) if holds else part.ten
        )
        if not close(said, held_ten):
            edited.append("inertia")
            part.ten = part.ten + (said - held_ten) if _loaded(robot, index) else said
    return edited


def _follows(exact: Follow | None, now: Follow | None) -> Follow | None:
    """Return how a joint follows others.

    URDF holds one leader alone, so that nothing there means nothing else.
    """
    sayable = exact is not None and len(exact.terms) == 1 and not exact.passive
    return now if now is not None or sayable else exact


def _resolved(notice: Notice, parts: Sequence[_Part]) -> bool:
    """Whether a reader's notice that something is left out is no longer true.

    The side file says it.
    """
    if notice.code == "mjcf.tendons":
        return bool(notice.data["count"] == sum(bool(part.joint.drive.coupling) for part in parts))
    springs = [part.joint.name for part in parts if "Ks" in part.terms]
    return bool(notice.code == "mjcf.springs" and notice.data["joints"] == springs)


def close(found: ArrayLike, held: ArrayLike, tolerance: float = _SAME) -> bool:
    """Whether two values, or two sets of ten, differ by rounding alone."""
    a, b = (
        np.atleast_1d(np.asarray(found, dtype=float)),
        np.atleast_1d(np.asarray(held, dtype=float)),
    )
    if np.array_equal(a, b, equal_nan=True):
        return True
    gap, size = (
        np.abs(a - b).max(),
        max(np.abs(b).max(), 1e-6),
    )  # massless links get 1e-14 kg in MJCF
    return bool(np.isfinite(gap) and gap <= tolerance * size)
