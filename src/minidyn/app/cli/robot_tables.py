"""A robot as tables for people, and as plain values for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple
from typing import Any

from rich.tree import Tree

from minidyn.app.cli.text import console, print_json, print_notices, print_table, safe
from minidyn.arrays import Array
from minidyn.formats.toml.table import MDH, mdh_slots
from minidyn.formats.toml.write import linear_text
from minidyn.model.geometry import Step, Steps
from minidyn.model.joint import Joint, Limits, Link
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import LETTERS, Robot
from minidyn.notices import notices_json
from minidyn.text import plain_number

_Part = tuple[str, Iterable[str], Iterable[Iterable[str]], Iterable[int]]
"""Title, columns, rows and columns of numbers of a table."""


def robot_data(robot: Robot) -> dict[str, Any]:
    """Return everything that describes a robot.

    `plain_values` makes null of unknown and unlimited values.
    """
    return {
        "name": robot.name,
        "source": robot.source,
        "notices": notices_json(robot.notices),
        "fingerprint": robot.fingerprint,
        "n": robot.n,
        "joint_names": robot.joint_names,
        "gravity": robot.gravity,
        "base": {"name": robot.base_name, "placement": robot.base_placement},
        "symbols": dict(robot.symbols),
        "joints": [_joint(robot, index, joint) for index, joint in enumerate(robot.joints)],
        "links": [_link(link) for link in robot.links],
        "frames": [
            {"name": frame.name, "link": robot.link_name(frame.link), "placement": frame.placement}
            for frame in robot.frames
        ],
        "loops": [
            {
                "name": loop.name,
                "kind": loop.kind,
                "a": {"link": robot.link_name(loop.link_a), "steps": _steps(loop.steps_a)},
                "b": {"link": robot.link_name(loop.link_b), "steps": _steps(loop.steps_b)},
                "passive": loop.passive,
                "start": loop.start,
                "home": dict(loop.home),
            }
            for loop in robot.loops
        ],
        "parameters": dict(zip(robot.parameter_names, robot.parameters)),
    }


def _joint(robot: Robot, index: int, joint: Joint) -> dict[str, Any]:
    row, follows, drive = mdh_slots(joint), joint.follows, joint.drive
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": robot.link_name(joint.parent),
        "child": robot.link_names[index],
        "independent": joint.name in robot.joint_names,
        "placement": joint.placement,
        "axis": None if joint.kind == "fixed" else joint.axis,
        "mdh": None
        if row is None or joint.kind == "fixed"
        else {key: step.value for key, step in row},
        "steps": {
            "before": _steps(joint.before),
            "motion": joint.motion,
            "direction": joint.direction,
        }
        | {"after": _steps(joint.after)},
        "limits": asdict(joint.limits),
        "follows": follows
        and asdict(follows) | {"terms": dict(follows.terms), "formula": follows.formula or None},
        "drive": {
            "terms": robot.drive_terms(index),
            "gear_ratio": drive.gear_ratio,
            "sign_width": drive.sign_width,
        }
        | {"coupling": dict(drive.coupling)},
    }


def _link(link: Link) -> dict[str, Any]:
    values = {key: getattr(link, key) for key in ("mass", "com", "inertia", "pseudo_inertia")}
    return {
        "name": link.name,
        "joint": link.joint,
        "merged": link.frames,
        **values,
        **asdict(link.realizability),
    }


def _steps(steps: Steps) -> list[dict[str, Any]]:
    return [
        {"kind": step.kind, "value": step.value}
        | ({"symbol": step.symbol, "factor": step.factor} if step.symbol else {})
        for step in steps
    ]


def print_robot(robot: Robot) -> None:
    """Print all tables of a robot."""
    out = console()
    out.print(
        f"[bold]{safe(robot.name)}[/bold]: {letters(robot)}, n = {robot.n}, {len(robot.layout)} "
        "parameters"
    )
    if robot.source:
        out.print(f"source: {safe(robot.source)}")
    gravity = ", ".join(plain_number(value) for value in robot.gravity)
    out.print(f"gravity: ({gravity}) m/s²")
    if robot.base:
        out.print(f"base placed by: {_steps_text(robot.base)}")
    if robot.symbols:
        out.print(
            "symbols: "
            + ", ".join(f"{safe(name)} = {plain_number(value)}" for name, value in robot.symbols)
        )
    out.print()
    out.print(_tree(robot))
    out.print()
    for part in _parts(robot):
        print_table(*part)
    if not robot.parameters_known:
        out.print("parameters: all unknown")
    print_notices(robot.notices)


def _parts(robot: Robot) -> Iterator[_Part]:
    joints = [
        (str(number), safe(joint.name), joint) for number, joint in enumerate(robot.joints, 1)
    ]
    links = [(str(number), safe(link.name), link) for number, link in enumerate(robot.links, 1)]
    yield _geometry(robot)
    if any(joint.limits != Limits() for joint in robot.joints):
        values = (
            (number, name, *map(plain_number, astuple(joint.limits)))
            for number, name, joint in joints
        )
        columns = ["", "joint", "lower", "upper", "velocity", "effort"]
        yield "Limits (rad or m, per s; N m or N)", columns, values, (0, 2, 3, 4, 5)
    if any(
        joint.drive.columns or joint.drive.coupling or joint.drive.gear_ratio != 1.0
        for joint in robot.joints
    ):
        drives = ((number, name, *_drive(robot, joint)) for number, name, joint in joints)
        yield (
            "Drives (joint side)",
            ["", "joint", "terms", "gear ratio", "coupled with"],
            drives,
            (0, 3),
        )
    if robot.parameters_known:
        title = "Standard parameters in the link frame, inertia about its origin (kg m², kg m, kg)"
        tens = (
            (number, name, *(plain_number(value, 4) for value in link.parameters))
            for number, name, link in links
        )
        yield title, ["", "link", *STANDARD], tens, (0, *range(2, 12))
        found = ((number, name, *_realizable(link)) for number, name, link in links)
        columns = ["", "link", "", "smallest eigenvalue", "why not"]
        yield "Are these parameters physically consistent?", columns, found, (0, 3)
    if robot.loops:
        loops = []
        for loop in robot.loops:
            ends = ((loop.link_a, loop.steps_a), (loop.link_b, loop.steps_b))
            frames = (
                f"{safe(robot.link_name(link))} {_steps_text(steps)}".strip()
                for link, steps in ends
            )
            passive = (
                _passive(robot, name, start) for name, start in zip(loop.passive, loop.start)
            )
            loops.append((safe(loop.name), loop.kind, *frames, "; ".join(passive)))
        yield "Loops", ("loop", "kind", "frame a", "frame b", "passive joints"), loops, ()


def letters(robot: Robot) -> str:
    """Return a letter for each joint: R, P, or F for fixed loads."""
    return "".join(LETTERS.get(joint.kind, "R") for joint in robot.joints)


def _tree(robot: Robot) -> Tree:
    root = Tree(safe(robot.base_name))
    branches: dict[int, Tree] = {-1: root}
    for index, joint in enumerate(robot.joints):
        role = "load" if joint.kind == "fixed" else joint.kind
        text = (
            f"{safe(robot.link_names[index])}  [dim]({index + 1}: {safe(joint.name)}, "
            f"{role}{_follow(joint)})[/dim]"
        )
        branches[index] = branches[joint.parent].add(text)
    for frame in robot.frames:
        branches[frame.link].add(f"{safe(frame.name)}  [dim](fixed)[/dim]")
    return root


def _follow(joint: Joint) -> str:
    follows = joint.follows
    if follows is None:
        return ""
    word = "passive" if follows.passive else "follows"
    return f", {word}: {safe(linear_text(follows, {name: name for name, _ in follows.terms}))}"


def _geometry(robot: Robot) -> _Part:
    rows = [mdh_slots(joint) for joint in robot.joints]
    lines: list[tuple[str, ...]] = []
    if any(row is None for row in rows):
        for number, joint in enumerate(robot.joints, 1):
            motion = (
                ""
                if joint.kind in ("fixed", "floating")
                else ("-" if joint.direction < 0 else "") + joint.motion
            )
            steps = (_steps_text(joint.before), motion, _steps_text(joint.after))
            lines.append((str(number), safe(joint.name), *steps))
        return (
            "Placements (joint on its parent link)",
            ("", "joint", "before", "motion", "after"),
            lines,
            (),
        )
    branched = any(joint.parent != index - 1 for index, joint in enumerate(robot.joints))
    keys = [key for key in MDH if branched or key not in ("gamma", "b")]
    for number, (joint, row) in enumerate(zip(robot.joints, rows), 1):
        cells = {key: _cell(step) for key, step in row or ()}
        variable = {"prismatic": "d", "fixed": ""}.get(joint.kind, "theta")
        if variable:
            cells[variable] = f"q{number}" + (f" + {cells[variable]}" if variable in cells else "")
        lines.append(
            (
                str(number),
                safe(joint.name),
                str(joint.parent + 1),
                *(cells.get(key, "0") for key in keys),
            )
        )
    title = "Modified Denavit-Hartenberg table (degrees, m)"
    return title, ("", "joint", "parent", *keys), lines, (0, *range(2, 9))


def _cell(step: Step) -> str:
    value = math.degrees(step.value) if step.is_turn else step.value
    if not step.symbol:
        return plain_number(value)
    factor = {1.0: "", -1.0: "-"}.get(step.factor, f"{step.factor:g} ")
    return f"{factor}{safe(step.symbol)} = {plain_number(value)}"


def _steps_text(steps: Steps) -> str:
    return " ".join(f"{step.kind.capitalize()}({_cell(step)})" for step in steps)


def _drive(robot: Robot, joint: Joint) -> tuple[str, str, str]:
    columns = robot.layout.drives[robot.joint_index(joint.name)]
    terms = (
        f"{column.name} = {plain_number(robot.parameters[column.index])}" for column in columns
    )
    coupled = (f"{plain_number(value)} {safe(name)}" for name, value in joint.drive.coupling)
    return ", ".join(terms), plain_number(joint.drive.gear_ratio), " + ".join(coupled)


def _realizable(link: Link) -> tuple[str, str, str]:
    found = link.realizability
    value = "" if math.isnan(found.smallest_eigenvalue) else f"{found.smallest_eigenvalue:.3g}"
    word = {True: "[green]yes[/green]", False: "[red]no[/red]", None: "unknown"}[found.realizable]
    return word, value, safe(found.reason)


def _passive(robot: Robot, name: str, start: float) -> str:
    follow = _follow(robot.joints[robot.joint_index(name)]).replace(", passive", "")
    return safe(name) + (follow or f" (solved from {plain_number(start)})")


def print_mdh(robot: Robot, as_json: bool) -> None:
    """Print the modified Denavit-Hartenberg table of a robot, and where its frames are."""
    table = robot.mdh()
    if as_json:
        print_json(table.to_json())
        return
    rows = [
        [plain_number(cell) if isinstance(cell, float) else safe(str(cell)) for cell in row]
        for row in zip(*table.columns.values())
    ]
    title = f"{safe(robot.name)}: modified Denavit-Hartenberg table (rad, m)"
    print_table(title, table.columns, rows, right=range(3, len(table.columns)))
    frames = [
        (safe(name), " ".join(map(plain_number, T[:3, 3])), *_axes_of(T))
        for name, T in zip(table.robot.link_names, table.frames)
    ]
    columns = ("link", "origin, m", "x", "y", "z")
    print_table("Its frames, seen from the file's frame of each link", columns, frames)


def _axes_of(T: Array) -> list[str]:
    """Return x, y and z of a frame as text."""
    return [" ".join(plain_number(float(value) + 0.0, 4) for value in T[:3, k]) for k in range(3)]
