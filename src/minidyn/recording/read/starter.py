"""A mapping file to edit: what a log's columns are taken for, written down.

Everything that was guessed stands in it as an option of `SignalOptions`, so that the log is read
the same way with it; what cannot be guessed (signs, offsets, gears, drive gains) stands there as a
comment. Where the columns cannot be understood at all, they are listed beside empty options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.formats.load import RobotLike, as_robot
from minidyn.formats.toml.write import toml_value
from minidyn.model.robot import Robot
from minidyn.recording.read.bind import Binding
from minidyn.recording.read.mapping import SignalMap
from minidyn.recording.read.read import opened, understood
from minidyn.recording.read.tables import LogTable
from minidyn.text import plain

_MOST_COLUMNS = 200  # size: of a log's names that are listed
_WRITTEN = ("time", "time_unit", "rate", "run", "joints", "q", "dq", "ddq", "tau")


def write_mapping(
    log: str | os.PathLike[str],
    path: str | os.PathLike[str],
    robot: RobotLike | None = None,
    *,
    force: bool = False,
    **options: Any,
) -> bool:
    """Write a mapping file for a log: a guess to edit. Return whether columns were understood.

    Args:
        log: The log.
        path: The mapping file; an existing one is an error unless `force`.
        robot: The robot of the log, its name or path.
        force: Replace an existing file.
        **options: Options of :func:`minidyn.read_recording` that are known already.
    """
    target = Path(path)
    if target.exists() and not force:
        raise DescriptionError(
            f"{target}: exists already and is not replaced; choose another name, or --force "
            "(force=True)"
        )
    text, is_understood = mapping_text(log, robot, **options)
    write_atomically(target, text.encode())
    return is_understood


def mapping_text(
    log: str | os.PathLike[str], robot: RobotLike | None = None, **options: Any
) -> tuple[str, bool]:
    """Return a mapping as TOML text, and whether the log's columns were understood."""
    file = Path(log)
    arm = None if robot is None else as_robot(robot)
    given = SignalMap.of(options, options.pop("mapping", None))
    table = opened(file, given, arm)
    about = [
        f"# How {plain(file.name, keep='')} is read{_of(arm)}: a guess to edit. Read it with",
        "# --mapping of minidyn check and minidyn identify, or mapping= of md.read_recording.",
    ]
    try:
        binding, unit = understood(table, given, arm)
    except DescriptionError as error:
        reason = plain(str(error), keep="")
        lines = [*about, f"# Not understood: {reason}", *_listed(table), *_open(arm)]
        return "\n".join(lines) + "\n", False
    asked = {name: value for name, value in vars(given).items() if value is not None}
    asked = {name: value for name, value in asked.items() if name not in _WRITTEN}
    lines = [*about, "", *_time(binding, unit, given), "", *_signals(binding)]
    lines += [f"{name} = {toml_value(value)}" for name, value in asked.items()]
    lines += [*([] if "units" in asked else _units(binding)), "", *_further(binding, asked), ""]
    lines += _listed(table, binding)
    return "\n".join(lines) + "\n", True


def _of(robot: Robot | None) -> str:
    return "" if robot is None else f" for {plain(robot.name, keep='')}"


def _time(binding: Binding, unit: str, given: SignalMap) -> list[str]:
    if not binding.time:
        return [f"rate = {toml_value(float(given.rate))} # samples a second: no column of times"]
    time: Any = binding.time[0] if len(binding.time) == 1 else list(binding.time)
    lines = [f"time = {toml_value(time)}"]
    if len(binding.time) == 1:
        lines.append(f'time_unit = "{unit}" # s, ms, us or ns')
    return [*lines, *([f"run = {toml_value(binding.run)}"] if binding.run else [])]


def _signals(binding: Binding) -> list[str]:
    """Return joints, and the columns of each signal in their order."""
    lines = [
        "# the robot's joints, and below the column of each in the same order",
        f"joints = {toml_value(list(binding.joints))}",
    ]
    for signal in ("q", "dq", "ddq", "tau"):
        columns = binding.signals.get(signal)
        if columns is None:
            lines.append(f"# {signal} = [] # none")
        elif all(columns):
            lines.append(f"{signal} = {toml_value(list(columns))}")
        else:
            lacking = [joint for joint, name in zip(binding.joints, columns) if not name]
            lines.append(f"# {signal}: no column for {', '.join(lacking)}; the others are guessed")
    return lines


def _units(binding: Binding) -> list[str]:
    stated = {
        signal: list(units) if len(set(units)) > 1 else units[0]
        for signal, units in binding.units.items()
        if all(units)
    }
    if stated:
        pairs = ", ".join(f"{signal} = {toml_value(unit)}" for signal, unit in stated.items())
        return [f"units = {{ {pairs} }} # as the names of the columns say"]
    return ['# units = { q = "deg", dq = "deg", tau = "Nmm" } # else rad, m, N m, N']


def _further(binding: Binding, asked: Mapping[str, Any]) -> list[str]:
    one = ", ".join(["1"] * len(binding.joints))
    meanings = {
        "sign": "-1 where a joint counts the other way",
        "offset": "added to q, rad or m",
        "gear_ratio": "motor turns per joint turn, where the log is of motors",
        "drive_gain": "torque per unit of the tau columns, N m/A for currents",
    }
    return [
        f"# {name} = [{one.replace('1', '0.0') if name == 'offset' else one}] # {meaning}"
        for name, meaning in meanings.items()
        if name not in asked
    ]


def _open(robot: Robot | None) -> list[str]:
    """Return the options to fill in where nothing was understood."""
    joints = [] if robot is None else list(robot.joint_names)
    lines = ["", '# time = "TIME COLUMN"', '# time_unit = "s"', "# rate = 1000.0"]
    if joints:
        lines.append(f"joints = {toml_value(joints)}")
    return [*lines, *(f'# {signal} = ["COLUMN", "..."]' for signal in ("q", "dq", "tau"))]


def _listed(table: LogTable, binding: Binding | None = None) -> list[str]:
    used = set() if binding is None else set(binding.columns)
    rest = [plain(name, keep="") for name in table.names if name not in used]
    if not rest:
        return []
    shown = rest[:_MOST_COLUMNS]
    more = [f"# and {len(rest) - len(shown)} more"] if len(rest) > len(shown) else []
    return ["# columns that are not used:", *(f"#   {name}" for name in shown), *more]
