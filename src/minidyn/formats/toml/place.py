"""Quantities and placements in TOML robot files: "90 deg", "pi/2", "2*D3", mDH rows, xyz and rpy, lists of steps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from minidyn.errors import DescriptionError, near_names
from minidyn.formats.toml.table import Table
from minidyn.model.assemble import motion_along
from minidyn.model.formula import FUNCTIONS, Formula
from minidyn.model.geometry import Step, Steps, snapped_step, tidy_steps
from minidyn.model.joint import Joint
from minidyn.model.mdh import mdh_steps
from minidyn.notices import Notice

MDH = ("gamma", "b", "alpha", "a", "theta", "d")
"""Keys of a modified Denavit-Hartenberg row."""

PLACE = ("xyz", "rpy", "steps")
"""Keys of a placement: a shift and turns, or elementary steps."""

_TURNS = ("gamma", "alpha", "theta")
_STEP_KINDS = ("rx", "ry", "rz", "tx", "ty", "tz")
_DEGREES = re.compile(r"(.+?)\s*(?:deg|°)")
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")

Quantity = tuple[float, tuple[str, float] | None]
"""A value (rad or m) and, where it was given by a symbol, (symbol, factor)."""

Symbols = Mapping[str, float]


def quantity(value: Any, place: str, symbols: Symbols, turn: bool) -> Quantity:
    """Return the value of a number or text: 0.5, "90 deg", "-pi/2", "D3", "2*D3"; degrees only where it is a `turn`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise DescriptionError(f"{place}: expected a finite number, found {value!r}")
        return float(value), None
    example = '1.57, "90 deg", "pi/2"' if turn else "0.5"
    if not isinstance(value, str) or not value.strip():
        raise DescriptionError(f'{place}: expected {example} or a symbol such as "2*D3", found {value!r}')
    text = value.strip()
    degrees = _DEGREES.fullmatch(text)
    if degrees and not turn:
        raise DescriptionError(f"{place}: found the angle {value!r}, expected a length in metres")
    if degrees:
        text = degrees.group(1)
    for name in () if degrees else _NAME.findall(text):
        if name not in symbols and name not in ("pi", *FUNCTIONS):
            expected = f"expected {example} or a name from [symbols]{near_names(name, symbols)}"
            raise DescriptionError(f"{place}: unknown symbol {name!r} in {value!r}; {expected}")
    linear = Formula(text, place, {name: name for name in symbols}).linear()
    if linear is None or len(linear[0]) > 1 or (linear[0] and (linear[1] != 0.0 or degrees)):
        raise DescriptionError(f"{place}: found {value!r}, expected a number or one symbol times a number")
    terms, constant = linear
    if not terms:
        # multiples of 90 degrees exactly as everywhere else in the program
        turned = constant / 90.0 * (math.pi / 2) if constant % 90.0 == 0.0 else math.radians(constant)
        number = turned if degrees else constant
        if not math.isfinite(number):
            raise DescriptionError(f"{place}: expected a finite number, found {value!r}")
        return number, None
    [(symbol, factor)] = terms.items()
    return factor * symbols[symbol], (symbol, factor)


def joint_placement(table: Table, kind: str, symbols: Symbols, notices: list[Notice]) -> tuple[Steps, str, int, Steps]:
    """Return (before, motion, direction, after) of a [[joint]]: an mDH row, xyz rpy axis, or steps."""
    mdh, explicit = table.any(MDH), table.any(("xyz", "rpy", "axis"))
    steps = table.any(("before", "motion", "after"))
    given = [keys for keys in (mdh, explicit, steps) if keys]
    if len(given) > 1:
        raise table.error(
            given[1][0],
            f"mixed with {given[0][0]!r}; a joint is placed by alpha, a, theta, d (gamma, b), or by xyz, rpy, axis, "
            "or by before, motion, after",
        )
    letter = "t" if kind == "prismatic" else "r"
    if steps:
        before, after = (_steps(table, key, symbols, notices) for key in ("before", "after"))
        given_motion = table.text("motion", letter + "z")
        motion = given_motion.removeprefix("-")
        if motion not in _STEP_KINDS or (kind != "fixed" and motion[0] != letter):
            expected = f"expected {letter}x, {letter}y or {letter}z, with a minus for the other way"
            raise table.error("motion", f"found {motion!r}, {expected}")
        return before, motion, 1 if motion == given_motion else -1, after
    if explicit:
        before = _xyz_rpy(table, symbols, notices)
        if kind == "fixed":
            if "axis" in table:
                raise table.error("axis", "a fixed joint has no axis")
            return before, "rz", 1, ()
        axis = table.numbers("axis", 3, (0.0, 0.0, 1.0))
        turn, motion, direction, after = motion_along(kind, axis, table.place("axis"), notices)
        return (*before, *turn), motion, direction, after
    found = {key: quantity(table.raw(key), table.place(key), symbols, key in _TURNS) for key in mdh}
    row = {key: value for key, (value, _) in found.items()}
    named = {key: symbol for key, (_, symbol) in found.items() if symbol}
    before = mdh_steps(kind, row, f"{table.where}: {table.label}", notices, named)
    return before, letter + "z", 1, ()


def placement(table: Table, symbols: Symbols, notices: list[Notice]) -> Steps:
    """Return the placement a table gives by xyz and rpy, or by steps; none is the identity."""
    if "steps" in table:
        if other := table.any(("xyz", "rpy")):
            raise table.error(other[0], "mixed with 'steps'; give one or the other")
        return _steps(table, "steps", symbols, notices)
    return _xyz_rpy(table, symbols, notices)


def _xyz_rpy(table: Table, symbols: Symbols, notices: list[Notice]) -> Steps:
    """Shift xyz, then Rz(yaw) Ry(pitch) Rx(roll), as in URDF."""
    made = []
    for key, kinds, order in (("xyz", ("tx", "ty", "tz"), (0, 1, 2)), ("rpy", ("rx", "ry", "rz"), (2, 1, 0))):
        values = table.raw(key, [0.0] * 3)
        if not isinstance(values, list | tuple) or len(values) != 3:
            raise table.error(key, f"expected 3 values, found {values!r}")
        made += [_step(kinds[i], values[i], table.place(key), symbols, notices) for i in order]
    return tidy_steps(made)


def _steps(table: Table, key: str, symbols: Symbols, notices: list[Notice]) -> Steps:
    """Read ["tz 0.3", "rx 90 deg", "tx D3"]."""
    made = []
    for text in table.texts(key):
        kind, _, value = text.strip().partition(" ")
        if kind not in _STEP_KINDS or not value.strip():
            raise table.error(key, f'found the step {text!r}, expected for example "rx 90 deg" or "tz 0.3"')
        made.append(_step(kind, value, table.place(key), symbols, notices))
    return tidy_steps(made)


def _step(kind: str, value: Any, place: str, symbols: Symbols, notices: list[Notice]) -> Step:
    number, symbol = quantity(value, place, symbols, kind[0] == "r")
    return snapped_step(kind, number, place, notices, *(symbol or ()))


def mdh_slots(joint: Joint) -> list[tuple[str, Step]] | None:
    """Return the mDH row of a joint, [(key, step), ...] in the order of MDH, None where it is not one."""
    slides = joint.kind == "prismatic"
    if joint.after or joint.direction != 1 or joint.motion != ("tz" if slides else "rz"):
        return None
    last = [("rz", "theta"), ("tz", "d")]
    slots = [("rz", "gamma"), ("tz", "b"), ("rx", "alpha"), ("tx", "a"), *(last if slides else last[::-1])]
    found: dict[str, Step] = {}
    for step in reversed(joint.before):  # from the end, so that a lone turn about z is theta, not gamma
        while slots and slots[-1][0] != step.kind:
            slots.pop()
        if not slots:
            return None
        found[slots.pop()[1]] = step
    return [(key, found[key]) for key in MDH if key in found]
