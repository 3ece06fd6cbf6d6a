"""Robots to TOML files, losing nothing: what is written reads back as an equal robot.

Numbers are written with all their digits and right angles in degrees. A joint that is a modified
Denavit-Hartenberg row is written as one, any other by its steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

import numpy as np

from minidyn.formats.toml.table import mdh_slots, term_keys
from minidyn.model.balancer import LENGTHS
from minidyn.model.drives import Drive
from minidyn.model.geometry import Step, Steps
from minidyn.model.joint import Follow, Joint, Limits, Loop
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import Robot
from minidyn.notices import Notice

_RIGHT = math.pi / 2
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(
    robot: Robot, *, head: Sequence[str] = (), holds: Mapping[str, str] | None = None
) -> str:
    """Return the robot as the text of a TOML file.

    For a side file, `head` are lines above it, its source and notices are left out, and `holds` is
    an inline table by the name of a joint.
    """
    lines = [*head, f"name = {quoted(robot.name)}"]
    if robot.source and not head:
        lines.append(f"source = {quoted(robot.source)}")
    if robot.notices and not head:
        lines.append(f"notices = {_listed(_notice(notice) for notice in robot.notices)}")
    lines.append(f"gravity = {listed_numbers(robot.gravity)}")
    if robot.locks and not head:
        lines.append(f"locked = {_table((name, _number(value)) for name, value in robot.locks)}")
    lines += [
        "",
        "[base]",
        f"name = {quoted(robot.base_name)}",
        *_steps("steps", robot.base, robot),
    ]
    if robot.symbols:
        lines += ["", "[symbols]", *(f"{name} = {_number(value)}" for name, value in robot.symbols)]
    moving = [(index, joint) for index, joint in enumerate(robot.joints) if joint.kind != "fixed"]
    for index, joint in moving:
        held = [f"holds = {holds[joint.name]}"] if holds and joint.name in holds else []
        lines += ["", "[[joint]]", *_joint(index, joint, robot), *held]
    for index, _ in moving:
        ten = robot.links[index].parameters
        if not np.isnan(ten).all():
            lines += ["", "[[link]]", f"name = {quoted(robot.link_names[index])}", _ten(ten)]
    for frame in robot.frames:
        link = quoted(robot.link_name(frame.link))
        lines += ["", "[[frame]]", f"name = {quoted(frame.name)}", f"link = {link}"]
        lines += _steps("steps", frame.steps, robot)
    for index, joint in enumerate(robot.joints):
        if joint.kind == "fixed":
            lines += [
                "",
                "[[load]]",
                f"name = {quoted(joint.name)}",
                f"link = {quoted(robot.link_name(joint.parent))}",
            ]
            lines += [*_steps("steps", joint.before, robot), _ten(robot.links[index].parameters)]
    for loop in robot.loops:
        lines += ["", "[[loop]]", *_loop(loop, robot)]
    in_loops = {name for loop in robot.loops for name in loop.passive}
    alone = [j for j in robot.joints if j.follows and j.follows.passive and j.name not in in_loops]
    if alone:
        lines += ["", "[[loop]] # functions alone", _functions(alone, robot)]
    return "\n".join(lines) + "\n"


def _joint(index: int, joint: Joint, robot: Robot) -> list[str]:
    lines = [
        f"name = {quoted(joint.name)}",
        f"type = {quoted(joint.kind)}",
        f"parent = {quoted(robot.link_name(joint.parent))}",
        f"child = {quoted(robot.link_names[index])}",
    ]
    row = mdh_slots(joint)
    if row is not None:
        lines += [f"{key} = {_quantity(step, robot)}" for key, step in row]
    else:
        sign = "-" if joint.direction < 0 else ""
        lines += _steps("before", joint.before, robot)
        lines += [f'motion = "{sign}{joint.motion}"', *_steps("after", joint.after, robot)]
    if joint.limits != Limits():
        lines.append(f"limits = {limits_text(joint.limits)}")
    if joint.follows is not None and not joint.follows.passive:
        lines.append(f"mimic = {_mimic(joint.follows)}")
    drive = drive_text(robot, index)
    if drive != "{}":
        lines.append(f"drive = {drive}")
    return lines


def limits_text(limits: Limits) -> str:
    """Return limits as an inline table; infinite ones are left out."""
    given = [(field.name, getattr(limits, field.name)) for field in fields(limits)]
    return _table((key, _number(value)) for key, value in given if math.isfinite(value))


def drive_text(robot: Robot, index: int) -> str:
    """Return a joint's drive as an inline table.

    Its terms with their values, gear, coupling, widths.
    """
    pairs = [
        (term_keys()[symbol], _number(value)) for symbol, value in robot.drive_terms(index).items()
    ]
    drive = robot.joints[index].drive
    keys = (
        "gear_ratio",
        "sign_width",
        "stribeck_speed",
        "presliding_travel",
        "ripple_order",
        "breakaway_travel",
    )
    pairs += [
        (key, _number(getattr(drive, key)))
        for key in keys
        if getattr(drive, key) != getattr(Drive(), key)
    ]
    if drive.coupling:
        pairs.append(("coupling", _table((name, _number(value)) for name, value in drive.coupling)))
    if drive.balancer is not None:
        points = [
            (key, _listed(map(_number, getattr(drive.balancer, key))))
            for key in ("fixed", "moving")
        ]
        points += [(key, _number(getattr(drive.balancer, key))) for key in LENGTHS]
        pairs.append(("balancer", _table(points)))
    return _table(pairs)


def _mimic(follows: Follow) -> str:
    if follows.formula:
        return _table([("formula", quoted(follows.formula))])
    pairs = [("leaders", _table((name, _number(ratio)) for name, ratio in follows.terms))]
    if len(follows.terms) == 1:
        [(leader, ratio)] = follows.terms
        pairs = [("leader", quoted(leader)), ("ratio", _number(ratio))]
    return _table([*pairs, ("offset", _number(follows.offset))])


def _loop(loop: Loop, robot: Robot) -> list[str]:
    lines = [f"name = {quoted(loop.name)}", f"kind = {quoted(loop.kind)}"]
    for key, link, steps in (("a", loop.link_a, loop.steps_a), ("b", loop.link_b, loop.steps_b)):
        placed = [("steps", _step_list(steps, robot))] if steps else []
        lines.append(f"{key} = {_table([('link', quoted(robot.link_name(link))), *placed])}")
    lines.append(f"passive = {_listed(quoted(name) for name in loop.passive)}")
    start = [(name, _number(value)) for name, value in (*zip(loop.passive, loop.start), *loop.home)]
    lines.append(f"start = {_table(start)}")
    functions = [joint for joint in robot.joints if joint.follows and joint.name in loop.passive]
    if functions:
        lines.append(_functions(functions, robot))
    return lines


def _functions(joints: Sequence[Joint], robot: Robot) -> str:
    numbers = {joint.name: f"q{index + 1}" for index, joint in enumerate(robot.joints)}
    pairs = (
        (joint.name, quoted(linear_text(joint.follows, numbers)))
        for joint in joints
        if joint.follows
    )
    return f"functions = {_table(pairs)}"


def linear_text(follows: Follow, names: Mapping[str, str]) -> str:
    """Return what a joint follows.

    "q3 - q4" with the given names of its leaders, or the formula as it was given.
    """
    if follows.formula:
        return follows.formula
    parts = [(ratio, names[name]) for name, ratio in follows.terms]
    if follows.offset or not parts:
        parts.append((follows.offset, ""))
    text = ""
    for ratio, name in parts:
        sign = ("-" if ratio < 0 else "") if not text else (" - " if ratio < 0 else " + ")
        size = "" if name and abs(ratio) == 1.0 else repr(abs(ratio)) + ("*" if name else "")
        text += f"{sign}{size}{name}"
    return text


def _ten(values: Iterable[float]) -> str:
    return f"parameters = {listed_numbers(values)} # {' '.join(STANDARD)}"


def _steps(key: str, steps: Steps, robot: Robot) -> list[str]:
    return [f"{key} = {_step_list(steps, robot)}"] if steps else []


def _step_list(steps: Steps, robot: Robot) -> str:
    return _listed(quoted(f"{step.kind} {_quantity(step, robot).strip(chr(34))}") for step in steps)


def _quantity(step: Step, robot: Robot) -> str:
    """Return an angle or length: by its symbol, a right angle in degrees, else all digits."""
    if step.symbol and step.value == step.factor * dict(robot.symbols).get(step.symbol, math.nan):
        if abs(step.factor) == 1.0:
            return f'"{"-" if step.factor < 0 else ""}{step.symbol}"'
        return f'"{step.factor!r}*{step.symbol}"'
    quarters = round(step.value / _RIGHT)
    if step.is_turn and quarters and step.value == quarters * _RIGHT:
        return f'"{quarters * 90} deg"'
    return _number(step.value)


def _notice(notice: Notice) -> str:
    return quoted(str(notice)) if notice.code == "robot.note" else toml_value(notice.to_json())


def toml_value(value: object) -> str:
    """Return a plain value as TOML; None, which TOML lacks, as an empty text."""
    if isinstance(value, Mapping):
        return _table((str(key), toml_value(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return _listed(map(toml_value, value))
    if isinstance(value, bool):
        return str(value).lower()
    return (
        repr(value)
        if isinstance(value, int | float)
        else quoted("" if value is None else str(value))
    )


def _number(value: float) -> str:
    number = float(value)
    return "nan" if math.isnan(number) else repr(number)


def listed_numbers(values: Iterable[float]) -> str:
    """Return a TOML list of numbers with all their digits."""
    return _listed(_number(value) for value in values)


def _listed(parts: Iterable[str]) -> str:
    return f"[{', '.join(parts)}]"


def _table(pairs: Iterable[tuple[str, str]]) -> str:
    inner = ", ".join(
        f"{key if _PLAIN.fullmatch(key) else quoted(key)} = {value}" for key, value in pairs
    )
    return f"{{ {inner} }}" if inner else "{}"


def quoted(text: str) -> str:
    """Return a TOML basic string; control characters are escaped."""

    def escaped(found: re.Match[str]) -> str:
        return "\\" + found[0] if found[0] in '"\\' else f"\\u{ord(found[0]):04x}"

    return f'"{_SPECIAL.sub(escaped, text)}"'
