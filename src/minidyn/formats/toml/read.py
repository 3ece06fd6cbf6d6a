"""Robots from TOML files: our own format, written by people; docs/robot-files.md describes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, UnknownName, require_known
from minidyn.formats.toml.table import (
    MDH,
    PLACE,
    Table,
    joint_placement,
    parse_tables,
    placement,
    quantity,
    read_tables,
    term_keys,
)
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble
from minidyn.model.balancer import LENGTHS, Balancer
from minidyn.model.drives import FRICTION, ROTOR, Drive
from minidyn.model.geometry import Steps
from minidyn.model.joint import Limits
from minidyn.model.parameters import STANDARD, from_body, symmetric, tensor
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

NOTE = warning("robot.note", "A remark that the robot's TOML file gives under `notices`.")

_ABOUT = ("name", "description", "source", "notices", "gravity", "locked")
_TOP = (*_ABOUT, "base", "symbols", "joint", "link", "frame", "load", "loop")
_STEPPED = ("before", "motion", "after")
_JOINT = (
    "name",
    "type",
    "parent",
    "child",
    "limits",
    "mimic",
    "drive",
    *MDH,
    "xyz",
    "rpy",
    "axis",
    *_STEPPED,
)
_LIMITS = ("lower", "upper", "velocity", "effort")
_MIMIC = ("leader", "ratio", "offset", "leaders", "formula")
_SIZES = ("sign_width", "stribeck_speed", "presliding_travel", "ripple_order", "breakaway_travel")
_DRIVE = ("motor_inertia", "gear_ratio", "coupling", *_SIZES, "balancer")
_BODY = ("mass", "com", "inertia")
_INERTIAL = (*_BODY, "parameters", *STANDARD)
_LOOP = ("name", "kind", "a", "b", "passive", "start", "functions")
_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating")


class _Reader:
    """What the parts of one file share: its symbols, and the notices collected on the way."""

    def __init__(self, top: Table, also: Sequence[str] = ()) -> None:
        self.top = top
        self.also = also
        self.notices = _notices(top)
        self.symbols: dict[str, float] = {}
        table = top.table("symbols") or replace(top, data={})
        for name, value in table.data.items():
            place = f"{table.where_key(name)}: symbol {name!r}"
            if not name.isidentifier() or name == "pi":
                raise DescriptionError(
                    f"{place}: not a usable name; expected letters, digits and _, for example D3"
                )
            self.symbols[name] = quantity(value, place, self.symbols, turn=True)[0]

    def joints(self, passive: Mapping[str, str]) -> list[LooseJoint]:
        tables = self.top.tables("joint")
        if not tables:
            raise DescriptionError(f"{self.top.file}: no [[joint]]; a robot needs at least one")
        children = [table.text("child", f"link{index + 1}") for index, table in enumerate(tables)]
        base = self.base_name(tables, children)
        known = [base, *children]
        made = []
        for index, table in enumerate(tables):
            table.finish((*_JOINT, *self.also))
            kind = table.choice("type", _KINDS, "revolute")
            name = table.text("name", f"joint{index + 1}")
            more = self.follow(table)
            if name in passive:
                if more:
                    raise table.error("mimic", "a loop gives this joint as a function already")
                more = {"formula": passive[name], "passive": True}
            more["drive_values"], more["drive"] = read_drive(table)
            parent = self.parent(table, index, known)
            placed = joint_placement(table, kind, self.symbols, self.notices)
            more["limits"] = read_limits(table, kind, self.symbols)
            made.append(
                LooseJoint(name, table.where, kind, parent, children[index], *placed, **more)
            )
        names = [joint.name for joint in made]
        require_known(
            passive, names, f"{self.top.file}: a loop gives a function for an unknown joint"
        )
        return made

    def base_name(self, tables: Sequence[Table], children: Sequence[str]) -> str:
        """As [base] gives it; "base" where a joint stands on number 0.

        Else the first parent that is no child.
        """
        base = self.top.table("base")
        if base is not None and "name" in base:
            return base.text("name")
        parents = [table.raw("parent", index) for index, table in enumerate(tables)]
        foreign = [
            parent for parent in parents if isinstance(parent, str) and parent not in children
        ]
        return "base" if 0 in parents or not foreign else foreign[0]

    def parent(self, table: Table, index: int, known: Sequence[str]) -> str:
        """A link's name, or the number of a joint whose link it is (0: the base).

        Default: the joint before.
        """
        value = table.raw("parent", index)
        if isinstance(value, str):
            require_known([value], known, f"{table.place('parent')}: unknown link")
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            expected = "expected a link's name or a joint's number from 0 (the base) on"
            raise table.error("parent", f"{expected}, found {value!r}")
        if not 0 <= value < len(known):
            raise table.error("parent", f"found {value}, expected 0 (the base) to {len(known) - 1}")
        return known[value]

    def follow(self, table: Table) -> dict[str, Any]:
        """What a joint follows, as arguments of LooseJoint."""
        inner = table.table("mimic")
        if inner is None:
            return {}
        inner.finish(_MIMIC)
        ways = inner.any(("leader", "leaders", "formula"))
        if len(ways) != 1:
            raise table.error(
                "mimic", 'expected one of leader = "...", leaders = { ... } and formula = "..."'
            )
        if ways == ["formula"]:
            if extra := inner.any(("ratio", "offset")):
                raise inner.error(extra[0], "a formula says it all")
            return {"formula": inner.text("formula")}
        offset = self.position(inner, "offset")
        if ways == ["leader"]:
            return {"leaders": {inner.text("leader"): inner.number("ratio", 1.0)}, "offset": offset}
        if "ratio" in inner:
            raise inner.error(
                "ratio", "with several leaders each has its own ratio: leaders = { joint1 = 0.5 }"
            )
        several = inner.table("leaders")
        return {
            "leaders": {key: several.number(key) for key in several.data} if several else {},
            "offset": offset,
        }

    def links(self, joints: Sequence[LooseJoint], frames: Sequence[LooseJoint]) -> list[LooseLink]:
        known: dict[str, str] = {}
        for joint in (*joints, *frames):
            known.setdefault(joint.parent, joint.where)
            known.setdefault(joint.child, joint.where)
        inertials: dict[str, LooseLink] = {}
        for table in self.top.tables("link"):
            table.finish(("name", *_INERTIAL))
            name = table.text("name")
            require_known([name], known, f"{table.place('name')}: no joint carries a link")
            if name in inertials:
                raise table.error(
                    "name", f"a second link {name!r} (the first: {inertials[name].where})"
                )
            inertials[name] = LooseLink(name, table.where, self.inertial(table))
        return [inertials.get(name) or LooseLink(name, where) for name, where in known.items()]

    def inertial(self, table: Table) -> Array | None:
        """Ten parameters: mass, com, inertia about it; or by name, the others unknown.

        Or all ten.
        """
        body, named, flat = table.any(_BODY), table.any(STANDARD), table.any(("parameters",))
        given = [keys for keys in (body, named, flat) if keys]
        if not given:
            return None
        if len(given) > 1:
            text = (
                f"mixed with {given[0][0]!r}; give mass, com, inertia, or XX ... M, or parameters"
            )
            raise table.error(given[1][0], text)
        if flat:
            return table.numbers("parameters", 10, unknown=True)
        if named:
            return np.array([table.number(key, math.nan, unknown=True) for key in STANDARD])
        return from_body(table.number("mass"), table.numbers("com", 3, (0.0,) * 3), _tensor(table))

    def frames(self, joints: Sequence[LooseJoint]) -> list[LooseJoint]:
        made: list[LooseJoint] = []
        tables = self.top.tables("frame")
        known = {link for joint in joints for link in (joint.parent, joint.child)}
        known |= {table.text("name") for table in tables}
        for table in tables:
            table.finish(("name", "link", *PLACE))
            name, link = table.text("name"), table.text("link")
            require_known([link], sorted(known), f"{table.place('link')}: unknown link")
            made.append(
                LooseJoint(
                    f"{name} (frame)", table.where, "fixed", link, name, before=self.place(table)
                )
            )
        return made

    def with_loads(self, robot: Robot) -> Robot:
        """Add rigid loads that keep their own ten columns, numbered after the joints."""
        for table in self.top.tables("load"):
            table.finish(("name", "link", *PLACE, *_INERTIAL))
            name = table.text("name")
            try:
                link, inner = robot.find_frame(table.text("link"))
            except UnknownName as error:
                raise table.error("link", str(error)) from None
            if link < 0:
                raise table.error("link", "a load on the base does not move; name a moving link")
            robot = robot.with_fixed(name, link, (*inner, *self.place(table)), self.inertial(table))
        return robot

    def place(self, table: Table) -> Steps:
        return placement(table, self.symbols, self.notices)

    def functions(self) -> dict[str, str]:
        """{passive joint: formula} of all loops."""
        found: dict[str, str] = {}
        for table in self.top.tables("loop"):
            table.finish(_LOOP)
            inner = table.table("functions") or replace(table, data={})
            for name in inner.data:
                if name in found:
                    raise inner.error(name, "two loops give this joint as a function")
                found[name] = inner.text(name)
        return found

    def loops(self) -> list[LooseLoop]:
        made = []
        for index, table in enumerate(self.top.tables("loop")):
            name = table.text("name", f"loop{index + 1}")
            kind = table.choice("kind", ("point", "frame"), "point")
            functions, starts = table.table("functions"), table.table("start")
            passive = table.texts("passive") or tuple(functions.data if functions else ())
            values = {key: self.position(starts, key) for key in starts.data} if starts else {}
            ends = [table.table("a"), table.table("b")]
            if ends == [None, None] and functions:
                continue  # functions alone: nothing to close
            if not passive:
                text = f'{table.label} moves no joint; name them: passive = ["joint5", ...]'
                raise DescriptionError(f"{table.where}: {text}")
            sides = [self.end(table, key, end) for key, end in zip("ab", ends)]
            start = tuple(values.get(key, 0.0) for key in passive)
            home = tuple((key, value) for key, value in values.items() if key not in passive)
            made.append(
                LooseLoop(name, table.where, *sides[0], *sides[1], kind, passive, start, home)
            )
        return made

    def position(self, table: Table, key: str) -> float:
        return quantity(table.raw(key, 0.0), table.place(key), self.symbols, turn=True)[0]

    def end(self, table: Table, key: str, end: Table | None) -> tuple[str, Steps]:
        if end is None:
            raise DescriptionError(
                f"{table.where}: {table.label} has no {key!r}; expected two frames that coincide, "
                "such as "
                f'{key} = {{ link = "link4", xyz = [0.25, 0, 0] }}'
            )
        end.finish(("link", *PLACE))
        return end.text("link"), self.place(end)


def read_limits(table: Table, kind: str, symbols: Mapping[str, float] | None = None) -> Limits:
    """Return the limits of a joint's table."""
    inner = table.table("limits")
    if inner is None:
        return Limits()
    inner.finish(_LIMITS)
    turn = kind != "prismatic"
    found = {
        key: quantity(inner.raw(key), inner.place(key), symbols or {}, turn)[0]
        for key in inner.data
    }
    if found.get("lower", -math.inf) > found.get("upper", math.inf):
        raise inner.error("lower", f"{found['lower']} is above the upper limit {found['upper']}")
    return Limits(**found)


def read_drive(table: Table) -> tuple[dict[str, float], Drive]:
    """Return ({column: value} of the table's `drive`, and the drive they make)."""
    inner = table.table("drive")
    if inner is None:
        return {}, Drive()
    inner.finish((*term_keys().values(), *_DRIVE))
    ratio = inner.number("gear_ratio", 1.0)
    terms = tuple(term for term in FRICTION if term in inner)
    values = {
        symbol: inner.number(key, unknown=True)
        for symbol, key in term_keys().items()
        if key in inner
    }
    if "motor_inertia" in inner:
        if "rotor_inertia" in inner:
            raise inner.error(
                "motor_inertia", "mixed with 'rotor_inertia' (joint side); give one of the two"
            )
        values = {ROTOR: inner.number("motor_inertia", unknown=True) * ratio**2} | values
    coupling = inner.table("coupling")
    found = tuple((key, coupling.number(key)) for key in coupling.data) if coupling else ()
    width, fall, travel, order, decay = (inner.number(key, 0.0) for key in _SIZES)
    if width < 0:
        raise inner.error(
            "sign_width", "is negative; expected a speed, 0 for a sign that changes at once"
        )
    if fall < 0:
        raise inner.error(
            "stribeck_speed",
            "is negative; expected the speed at which the term has fallen to a half",
        )
    if travel < 0:
        raise inner.error(
            "presliding_travel", "is negative; expected the travel over which presliding builds up"
        )
    if order < 0:
        raise inner.error(
            "ripple_order", "is negative; expected the number of waves in a turn of the joint"
        )
    if decay < 0:
        raise inner.error(
            "breakaway_travel",
            "is negative; expected the travel over which breakaway friction decays",
        )
    sizes = width, fall, travel, order
    made = Drive(ROTOR in values, terms, ratio, found, *sizes, breakaway_travel=decay)
    if (points := inner.table("balancer")) is not None:
        made = made.balanced(_balancer(points))
        values = {
            **{FRICTION[term]: math.nan for term in made.friction if term not in terms},
            **values,
        }
    return values, made


def _balancer(table: Table) -> Balancer:
    """Return the balancer of a drive's table."""
    table.finish(("fixed", "moving", *LENGTHS))
    fixed, moving = (table.numbers(key, 2).tolist() for key in ("fixed", "moving"))
    try:
        return Balancer(
            "", fixed, moving, **{key: table.number(key) for key in LENGTHS if key in table}
        )
    except DescriptionError as error:
        raise table.error("fixed", str(error).removeprefix("balancer: ")) from None


def read_toml(path: Path) -> Robot:
    """Return the robot of a TOML file."""
    return robot_of(read_tables(path), path)


def robot_from_text(text: str) -> Robot:
    """Return the robot of a TOML text; its `source` is what the text says."""
    path = Path("robot.toml")
    robot = robot_of(parse_tables(text, "its robot, line"), path)
    return replace(robot, source="") if robot.source == str(path) else robot


def robot_of(top: Table, path: Path, also: Sequence[str] = ()) -> Robot:
    """Return the robot that a file's top table describes.

    With `also`, further keys, its joints may have `holds`.
    """
    top.finish((*_TOP, *also))
    reader = _Reader(top, ("holds",) if also else ())
    base = top.table("base")
    if base is not None:
        base.finish(("name", *PLACE))
    joints = reader.joints(reader.functions())
    frames = reader.frames(joints)
    loops = reader.loops()
    robot = assemble(
        top.text("name", path.stem),
        reader.links(joints, frames),
        [*joints, *frames],
        gravity=top.numbers("gravity", 3, (0.0, 0.0, -9.81)),
        base=reader.place(base) if base is not None else (),
        loops=loops,
        symbols=reader.symbols.items(),
        notices=reader.notices,
        source=str(path),
    )
    top.text("description", "")
    robot = replace(
        reader.with_loads(robot), source=top.text("source", str(path)), locks=_locks(top)
    )
    if robot.loops:
        from minidyn.model.loops import check_loops

        check_loops(robot, {loop.name: loop.where for loop in loops})
    return robot


def _locks(top: Table) -> tuple[tuple[str, float], ...]:
    """Return the joints of the robot's own file that are locked, and where."""
    table = top.table("locked")
    return () if table is None else tuple((name, table.number(name)) for name in table.data)


def _notices(top: Table) -> list[Notice]:
    """Return the remarks of a file: texts, or whole notices as `md.save` writes them."""
    given = top.raw("notices", [])
    if not isinstance(given, list) or not all(isinstance(entry, str | dict) for entry in given):
        raise top.error("notices", f"expected a list of texts in quotes, found {given!r}")
    try:
        return [
            NOTE(entry) if isinstance(entry, str) else Notice.from_json(entry) for entry in given
        ]
    except (DescriptionError, KeyError, TypeError, ValueError) as error:
        raise top.error("notices", f"cannot be understood ({error})") from None


def _tensor(table: Table) -> Array:
    value = table.raw("inertia", [0.0] * 6)
    if (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(row, list) and len(row) == 3 for row in value)
    ):
        rows = [replace(table, data={"inertia": row}).numbers("inertia", 3) for row in value]
        return symmetric(np.array(rows), table.place("inertia"))
    if not isinstance(value, list) or len(value) != 6:
        raise table.error(
            "inertia", f"expected 6 numbers xx, xy, xz, yy, yz, zz or a 3x3 table, found {value!r}"
        )
    return tensor(table.numbers("inertia", 6, value))
