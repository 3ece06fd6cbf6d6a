"""`minidyn robots` and `minidyn show`: a robot as tables for people, and as plain values for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import click
from rich.table import Table
from rich.tree import Tree

from minidyn.app.cli.options import json_option, robot_argument
from minidyn.app.cli.text import console, print_json, print_notices, print_table, safe, table
from minidyn.arrays import plain_values
from minidyn.formats.load import describe, load
from minidyn.formats.load import robots as built_in
from minidyn.formats.toml.place import MDH, mdh_slots
from minidyn.formats.toml.write import linear_text
from minidyn.model.geometry import Step
from minidyn.model.inertia import STANDARD
from minidyn.model.joint import Joint, Limits, Link, Loop
from minidyn.model.robot import Robot
from minidyn.notices import notices_json
from minidyn.text import plain_number


def _robot_data(robot: Robot) -> dict[str, Any]:
    """Return everything that describes a robot; `plain_values` makes null of unknown and unlimited values."""
    return {
        "name": robot.name,
        "source": robot.source,
        "notices": notices_json(robot.notices),
        "fingerprint": robot.fingerprint,
        "n": robot.n,
        "joint_names": list(robot.joint_names),
        "gravity": robot.gravity,
        "base": {"name": robot.base_name, "placement": robot.base_placement},
        "symbols": dict(robot.symbols),
        "joints": [_joint(robot, index, joint) for index, joint in enumerate(robot.joints)],
        "links": [_link(link) for link in robot.links],
        "frames": [
            {"name": frame.name, "link": _name(robot, frame.link), "placement": frame.placement}
            for frame in robot.frames
        ],
        "loops": [
            {
                "name": loop.name,
                "kind": loop.kind,
                "a": {"link": _name(robot, loop.link_a), "steps": _steps(loop.steps_a)},
                "b": {"link": _name(robot, loop.link_b), "steps": _steps(loop.steps_b)},
                "passive": list(loop.passive),
                "start": loop.start,
                "home": dict(loop.home),
            }
            for loop in robot.loops
        ],
        "parameters": dict(zip(robot.parameter_names, robot.parameters)),
    }


def _joint(robot: Robot, index: int, joint: Joint) -> dict[str, Any]:
    row = mdh_slots(joint)
    follows = joint.follows
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": _name(robot, joint.parent),
        "child": robot.link_names[index],
        "independent": joint.name in robot.joint_names,
        "placement": joint.placement,
        "axis": None if joint.kind == "fixed" else joint.axis,
        "mdh": None if row is None or joint.kind == "fixed" else {key: step.value for key, step in row},
        "steps": {"before": _steps(joint.before), "motion": joint.motion, "direction": joint.direction}
        | {"after": _steps(joint.after)},
        "limits": {key: getattr(joint.limits, key) for key in ("lower", "upper", "velocity", "effort")},
        "follows": follows
        and {
            "terms": dict(follows.terms),
            "offset": follows.offset,
            "formula": follows.formula or None,
            "passive": follows.passive,
        },
        "drive": {
            "terms": {column.symbol: robot.parameters[column.index] for column in robot.layout.drives[index]},
            "gear_ratio": joint.drive.gear_ratio,
            "sign_width": joint.drive.sign_width,
            "coupling": dict(joint.drive.coupling),
        },
    }


def _link(link: Link) -> dict[str, Any]:
    report = link.realizability
    return {
        "name": link.name,
        "joint": link.joint,
        "merged": list(link.frames),
        "mass": link.mass,
        "com": link.com,
        "inertia": link.inertia,
        "pseudo_inertia": link.pseudo_inertia,
        "realizable": report.realizable,
        "smallest_eigenvalue": report.smallest_eigenvalue,
        "reason": report.reason,
    }


def _steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [
        {"kind": step.kind, "value": step.value}
        | ({"symbol": step.symbol, "factor": step.factor} if step.symbol else {})
        for step in steps
    ]


def _name(robot: Robot, link: int) -> str:
    return robot.base_name if link < 0 else robot.link_names[link]


@click.command()
@json_option
def robots(as_json: bool) -> None:
    """List the built-in robots.

    Example: minidyn robots
    """
    found = [load(name) for name in built_in()]
    if as_json:
        rows = [
            {
                "name": robot.name,
                "joints": _letters(robot),
                "n": robot.n,
                "parameters": len(robot.layout),
                "parameters_known": robot.parameters_known,
                "description": describe(robot.name),
                "source": robot.source,
            }
            for robot in found
        ]
        print_json(rows)
        return
    made = table("Built-in robots", "name", "joints", "n", "parameters", "what it is", right=(2, 3))
    for robot in found:
        count = f"{len(robot.layout)}{'' if robot.parameters_known else ' (unknown)'}"
        made.add_row(safe(robot.name), _letters(robot), str(robot.n), count, safe(describe(robot.name)))
    print_table(made)


@click.command()
@robot_argument
@json_option
def show(robot: str, as_json: bool) -> None:
    """Show a ROBOT: tree, geometry, limits, parameters, physical consistency.

    Example: minidyn show panda
    """
    loaded = load(robot)
    if as_json:
        print_json(plain_values(_robot_data(loaded), finite=True))
    else:
        _print(loaded)


def _print(robot: Robot) -> None:
    out = console()
    out.print(f"[bold]{safe(robot.name)}[/bold]: {_letters(robot)}, n = {robot.n}, {len(robot.layout)} parameters")
    if robot.source:
        out.print(f"source: {safe(robot.source)}")
    gravity = ", ".join(plain_number(value) for value in robot.gravity)
    out.print(f"gravity: ({gravity}) m/s²")
    if robot.base:
        out.print(f"base placed by: {_steps_text(robot.base)}")
    if robot.symbols:
        out.print("symbols: " + ", ".join(f"{safe(name)} = {plain_number(value)}" for name, value in robot.symbols))
    out.print()
    out.print(_tree(robot))
    out.print()
    for part in _parts(robot):
        print_table(part)
    if not robot.parameters_known:
        out.print("parameters: all unknown")
    print_notices(robot.notices)


def _parts(robot: Robot) -> Iterable[Table]:
    yield _geometry(robot)
    if any(joint.limits != Limits() for joint in robot.joints):
        yield _limits(robot)
    if any(joint.drive.columns or joint.drive.coupling or joint.drive.gear_ratio != 1.0 for joint in robot.joints):
        yield _drives(robot)
    if robot.parameters_known:
        yield _parameters(robot)
        yield _realizability(robot)
    if robot.loops:
        yield _loops(robot)


def _letters(robot: Robot) -> str:
    return "".join("P" if joint.slides else "F" if joint.kind == "fixed" else "R" for joint in robot.joints)


def _tree(robot: Robot) -> Tree:
    root = Tree(safe(robot.base_name))
    branches: dict[int, Tree] = {-1: root}
    for index, joint in enumerate(robot.joints):
        role = "load" if joint.kind == "fixed" else joint.kind
        text = f"{safe(robot.link_names[index])}  [dim]({index + 1}: {safe(joint.name)}, {role}{_follow(joint)})[/dim]"
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


def _geometry(robot: Robot) -> Table:
    rows = [mdh_slots(joint) for joint in robot.joints]
    if any(row is None for row in rows):
        made = table("Placements (joint on its parent link)", "", "joint", "before", "motion", "after")
        for index, joint in enumerate(robot.joints):
            motion = "" if joint.kind == "fixed" else ("-" if joint.direction < 0 else "") + joint.motion
            made.add_row(str(index + 1), safe(joint.name), _steps_text(joint.before), motion, _steps_text(joint.after))
        return made
    branched = any(joint.parent != index - 1 for index, joint in enumerate(robot.joints))
    keys = [key for key in MDH if branched or key not in ("gamma", "b")]
    made = table(
        "Modified Denavit-Hartenberg table (degrees, m)", "", "joint", "parent", *keys, right=(0, *range(2, 9))
    )
    for index, (joint, row) in enumerate(zip(robot.joints, rows)):
        cells = {key: _cell(step) for key, step in row or ()}
        variable = {"prismatic": "d", "fixed": ""}.get(joint.kind, "theta")
        if variable:
            cells[variable] = f"q{index + 1}" + (f" + {cells[variable]}" if variable in cells else "")
        made.add_row(str(index + 1), safe(joint.name), str(joint.parent + 1), *(cells.get(key, "0") for key in keys))
    return made


def _cell(step: Step) -> str:
    value = math.degrees(step.value) if step.is_turn else step.value
    if not step.symbol:
        return plain_number(value)
    factor = {1.0: "", -1.0: "-"}.get(step.factor, f"{step.factor:g} ")
    return f"{factor}{safe(step.symbol)} = {plain_number(value)}"


def _steps_text(steps: Iterable[Step]) -> str:
    return " ".join(f"{step.kind.upper()[0]}{step.kind[1]}({_cell(step)})" for step in steps)


def _limits(robot: Robot) -> Table:
    made = table(
        "Limits (rad or m, per s; N m or N)", "", "joint", "lower", "upper", "velocity", "effort", right=(0, 2, 3, 4, 5)
    )
    for index, joint in enumerate(robot.joints):
        limits = joint.limits
        values = (limits.lower, limits.upper, limits.velocity, limits.effort)
        made.add_row(str(index + 1), safe(joint.name), *(plain_number(value) for value in values))
    return made


def _drives(robot: Robot) -> Table:
    made = table("Drives (joint side)", "", "joint", "terms", "gear ratio", "coupled with", right=(0, 3))
    for index, joint in enumerate(robot.joints):
        terms = (
            f"{column.name} = {plain_number(robot.parameters[column.index])}" for column in robot.layout.drives[index]
        )
        coupled = (f"{plain_number(value)} {safe(name)}" for name, value in joint.drive.coupling)
        made.add_row(
            str(index + 1),
            safe(joint.name),
            ", ".join(terms),
            plain_number(joint.drive.gear_ratio),
            " + ".join(coupled),
        )
    return made


def _parameters(robot: Robot) -> Table:
    made = table(
        "Standard parameters in the link frame, inertia about its origin (kg m², kg m, kg)",
        "", "link", *STANDARD, right=(0, *range(2, 12)),
    )  # fmt: skip
    for index, link in enumerate(robot.links):
        made.add_row(str(index + 1), safe(link.name), *(plain_number(value, 4) for value in link.parameters))
    return made


def _realizability(robot: Robot) -> Table:
    made = table(
        "Are these parameters physically consistent?", "", "link", "", "smallest eigenvalue", "why not", right=(0, 3)
    )
    words = {True: "[green]yes[/green]", False: "[red]no[/red]", None: "unknown"}
    for index, link in enumerate(robot.links):
        report = link.realizability
        value = "" if math.isnan(report.smallest_eigenvalue) else f"{report.smallest_eigenvalue:.3g}"
        made.add_row(str(index + 1), safe(link.name), words[report.realizable], value, safe(report.reason))
    return made


def _loops(robot: Robot) -> Table:
    made = table("Loops", "loop", "kind", "frame a", "frame b", "passive joints")
    for loop in robot.loops:
        ends = (_end(robot, loop.link_a, loop.steps_a), _end(robot, loop.link_b, loop.steps_b))
        made.add_row(safe(loop.name), loop.kind, *ends, _passive(robot, loop))
    return made


def _end(robot: Robot, link: int, steps: Iterable[Step]) -> str:
    return f"{safe(_name(robot, link))} {_steps_text(steps)}".strip()


def _passive(robot: Robot, loop: Loop) -> str:
    parts = []
    for name, start in zip(loop.passive, loop.start):
        joint = robot.joints[robot.joint_index(name)]
        parts.append(safe(name) + (_follow(joint).replace(", passive", "") or f" (solved from {plain_number(start)})"))
    return "; ".join(parts)
