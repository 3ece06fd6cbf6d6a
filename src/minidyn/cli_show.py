"""What `minidyn robots` and `minidyn show` print."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from minidyn.cli_text import console, number, print_table, safe, table
from minidyn.model.geometry import Step
from minidyn.model.inertia import STANDARD
from minidyn.model.joint import Joint, Limits, Loop
from minidyn.model.load import describe, load, robots
from minidyn.model.load.toml_place import MDH, mdh_slots
from minidyn.model.load.toml_write import linear_text
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from rich.table import Table
    from rich.tree import Tree

__all__ = ["show_robot", "show_robots"]


def show_robots(as_json: bool) -> None:
    """Print the built-in robots, one a line."""
    found = [load(name) for name in robots()]
    if as_json:
        rows = [
            {
                "name": robot.name,
                "joints": _letters(robot),
                "n": robot.n,
                "parameters": len(robot.layout),
                "parameters_known": robot.parameters is not None,
                "description": describe(robot.name),
                "source": robot.source,
            }
            for robot in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    made = table("Built-in robots", "name", "joints", "n", "parameters", "what it is", right=(2, 3))
    for robot in found:
        count = f"{len(robot.layout)}{'' if robot.parameters is not None else ' (unknown)'}"
        made.add_row(safe(robot.name), _letters(robot), str(robot.n), count, safe(describe(robot.name)))
    print_table(made)


def show_robot(source: str, as_json: bool) -> None:
    """Print one robot: the parts that it has."""
    robot = load(source)
    if as_json:
        from minidyn.cli_json import robot_data

        click.echo(json.dumps(robot_data(robot), indent=2, allow_nan=False))
        return
    out = console()
    out.print(f"[bold]{safe(robot.name)}[/bold]: {_letters(robot)}, n = {robot.n}, {len(robot.layout)} parameters")
    if robot.source:
        out.print(f"source: {safe(robot.source)}")
    gravity = ", ".join(number(value) for value in robot.gravity)
    out.print(f"gravity: ({gravity}) m/s²")
    if robot.base:
        out.print(f"base placed by: {_steps_text(robot.base)}")
    if robot.symbols:
        out.print("symbols: " + ", ".join(f"{safe(name)} = {number(value)}" for name, value in robot.symbols))
    out.print()
    out.print(_tree(robot))
    out.print()
    for part in _parts(robot):
        print_table(part)
    if robot.parameters is None:
        out.print("parameters: all unknown")
    for notice in robot.notices:
        out.print(f"[yellow]notice:[/yellow] {safe(notice)}")


def _parts(robot: Robot) -> Iterable[Table]:
    yield _geometry(robot)
    if any(joint.limits != Limits() for joint in robot.joints):
        yield _limits(robot)
    if any(joint.drive.columns or joint.drive.coupling or joint.drive.gear_ratio != 1.0 for joint in robot.joints):
        yield _drives(robot)
    if robot.parameters is not None:
        yield _parameters(robot)
        yield _realizability(robot)
    if robot.loops:
        yield _loops(robot)


def _letters(robot: Robot) -> str:
    return "".join("P" if joint.slides else "F" if joint.kind == "fixed" else "R" for joint in robot.joints)


def _tree(robot: Robot) -> Tree:
    from rich.tree import Tree

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
        return number(value)
    factor = {1.0: "", -1.0: "-"}.get(step.factor, f"{step.factor:g} ")
    return f"{factor}{safe(step.symbol)} = {number(value)}"


def _steps_text(steps: Iterable[Step]) -> str:
    return " ".join(f"{step.kind.upper()[0]}{step.kind[1]}({_cell(step)})" for step in steps)


def _limits(robot: Robot) -> Table:
    made = table(
        "Limits (rad or m, per s; N m or N)", "", "joint", "lower", "upper", "velocity", "effort", right=(0, 2, 3, 4, 5)
    )
    for index, joint in enumerate(robot.joints):
        limits = joint.limits
        values = (limits.lower, limits.upper, limits.velocity, limits.effort)
        made.add_row(str(index + 1), safe(joint.name), *(number(value) for value in values))
    return made


def _drives(robot: Robot) -> Table:
    made = table("Drives (joint side)", "", "joint", "terms", "gear ratio", "coupled with", right=(0, 3))
    for index, joint in enumerate(robot.joints):
        terms = (f"{column.name} = {number(robot.values[column.index])}" for column in robot.layout.drives[index])
        coupled = (f"{number(value)} {safe(name)}" for name, value in joint.drive.coupling)
        made.add_row(
            str(index + 1), safe(joint.name), ", ".join(terms), number(joint.drive.gear_ratio), " + ".join(coupled)
        )
    return made


def _parameters(robot: Robot) -> Table:
    made = table(
        "Standard parameters in the link frame, inertia about its origin (kg m², kg m, kg)",
        "", "link", *STANDARD, right=(0, *range(2, 12)),
    )  # fmt: skip
    for index, link in enumerate(robot.links):
        made.add_row(str(index + 1), safe(link.name), *(number(value, 4) for value in link.parameters))
    return made


def _realizability(robot: Robot) -> Table:
    made = table(
        "Can a rigid body have these parameters?", "", "link", "", "smallest eigenvalue", "why not", right=(0, 3)
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
    name = robot.base_name if link < 0 else robot.link_names[link]
    return f"{safe(name)} {_steps_text(steps)}".strip()


def _passive(robot: Robot, loop: Loop) -> str:
    parts = []
    for name, start in zip(loop.passive, loop.start):
        joint = robot.joints[robot.joint_index(name)]
        parts.append(safe(name) + (_follow(joint).replace(", passive", "") or f" (solved from {number(start)})"))
    return "; ".join(parts)
