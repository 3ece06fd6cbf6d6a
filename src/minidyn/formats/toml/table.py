"""Tables of a TOML robot file that know their lines.

Every complaint names file, line, what was found and expected. `tomllib` gives values without
places. A small scanner over the text finds the line of each table header and key, so that an error
about a value can say where it stands.

Quantities and placements are read from such tables: "90 deg", "pi/2", "2*D3", mDH rows, xyz and
rpy, lists of steps.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, near_names
from minidyn.files import read_bytes
from minidyn.model.assemble import motion_along
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.formula import FUNCTIONS, Formula
from minidyn.model.geometry import Step, Steps, snapped_step, tidy_steps
from minidyn.model.joint import Joint
from minidyn.model.mdh import mdh_steps
from minidyn.notices import Notice

_HEADER = re.compile(r"\s*\[\[?([^\[\]#]+)\]\]?")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*(?:\.[^=]*)?=""")
_MOST_DOTS = 100
_DOTTED = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{_MOST_DOTS}}}""")
_TOKEN = re.compile(
    r"""\"{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|\#.*|[][{}]"""
)  # what may hide or hold a line's end
_CLOSED = {'"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""'), "'''": re.compile(r".*?'''")}


def term_keys() -> dict[str, str]:
    """Return the keys of drive terms by symbol, those from outside the package, too."""
    return {ROTOR: "rotor_inertia"} | {symbol: term for term, symbol in FRICTION.items()}


def read_tables(path: Path) -> Table:
    """Return the file's top table."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DescriptionError(
            f"{path}: not UTF-8 text (byte {error.start}); expected TOML text"
        ) from None
    return parse_tables(text, str(path))


def parse_tables(text: str, file: str) -> Table:
    """Return the top table of a TOML text; `file` is for messages."""
    return Table(parse_toml(text, file), file, 1, "the file", _Lines(text))


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Return the values of a TOML text; `file` is for messages."""
    if found := _DOTTED.search(text):  # tomllib needs memory with the square of the dots
        line = text.count("\n", 0, found.start()) + 1
        raise DescriptionError(f"{file}:{line}: a key of more than {_MOST_DOTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DescriptionError(f"{file}{_place(str(error), text)}") from None
    except RecursionError:
        raise DescriptionError(f"{file}: nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise DescriptionError(f"{file}: not valid TOML: {error}") from None


def _place(message: str, text: str) -> str:
    """Turn tomllib's '... (at line 3, column 5)' into ':3: not valid TOML: ...'."""
    found = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if not found:
        return f": not valid TOML: {message}"
    reason = message[: found.start()]
    if found.group(1):
        return f":{found.group(1)}: not valid TOML (column {found.group(2)}): {reason}"
    return f":{text.count(chr(10)) + 1}: not valid TOML (the file ends too early): {reason}"


class _Lines:
    """Where headers and keys stand.

    {table: [line of each header]}, and the keys below each header.
    """

    def __init__(self, text: str) -> None:
        self.headers: dict[str, list[int]] = {}
        self.keys: dict[int, dict[str, int]] = {
            1: {}
        }  # header line -> key -> line; the top table has line 1
        header = 1
        for number, line in _outer_lines(text):
            found = _HEADER.match(line)
            if found:
                name = ".".join(part.strip(" \t\"'") for part in found.group(1).split("."))
                self.headers.setdefault(name, []).append(number)
                header = number
                self.keys.setdefault(header, {})
            elif key := _KEY.match(line):
                self.keys[header].setdefault(key.group(1).strip("\"'"), number)


def _outer_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of the lines that do not begin inside a multi-line string, array or
    inline table.
    """
    depth, quote = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        outer = depth == 0 and not quote
        if outer:
            yield number, line
        header = _HEADER.match(line) if outer else None
        position = header.end() if header else 0
        while True:
            if quote:
                end = _CLOSED[quote].match(line, position)
                if end is None:
                    break
                position, quote = end.end(), ""
            token = _TOKEN.search(line, position)
            if token is None or token[0].startswith("#"):
                break
            position = token.end()
            quote = token[0] if token[0] in _CLOSED else ""
            depth += (token[0] in "[{") - (token[0] in "]}")


@dataclass(frozen=True)
class Table:
    """One table of the file; what is not taken from it is an error."""

    data: Mapping[str, Any]
    file: str
    line: int  # line of its header
    label: str  # what it describes, for messages: "joint 'elbow'"
    lines: _Lines

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"

    def where_key(self, key: str) -> str:
        """File and line of a key, or of the table where the key stands in one line with it."""
        return f"{self.file}:{self._line_of(key)}"

    def _line_of(self, key: str) -> int:
        headers = self.lines.headers.get(key, []) if self.line == 1 else []
        return headers[0] if headers else self.lines.keys.get(self.line, {}).get(key, self.line)

    def place(self, key: str) -> str:
        """File, line, element and key: how messages about a value begin."""
        return f"{self.where_key(key)}: {self.label}, {key}"

    def error(self, key: str, text: str) -> DescriptionError:
        """Return the error to raise about a key's value."""
        return DescriptionError(f"{self.place(key)}: {text}")

    def __contains__(self, key: object) -> bool:
        return key in self.data

    def any(self, keys: Iterable[str]) -> list[str]:
        """Return those of the keys that are given."""
        return [key for key in keys if key in self.data]

    def raw(self, key: str, default: Any = None) -> Any:
        """Return a value as it is."""
        return self.data.get(key, default)

    def _given(self, key: str, default: Any, expected: str) -> Any:
        value = self.raw(key, default)
        if value is None:
            raise DescriptionError(
                f"{self.where}: {self.label} has no {key!r}; expected {expected}"
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; without a default it is required."""
        value = self._given(key, default, "a text in quotes")
        if not isinstance(value, str):
            raise self.error(key, f"expected a text in quotes, found {value!r}")
        return value

    def choice(self, key: str, known: Iterable[str], default: str) -> str:
        """Return a text that is one of several."""
        value, names = self.text(key, default), list(known)
        if value not in names:
            expected = f"expected one of {', '.join(map(repr, names))}{near_names(value, names)}"
            raise self.error(key, f"found {value!r}, {expected}")
        return value

    def number(self, key: str, default: float | None = None, unknown: bool = False) -> float:
        """Return a finite number; NaN only where `unknown` allows it."""
        return self._number(key, self._given(key, default, "a number"), unknown)

    def _number(self, key: str, value: Any, unknown: bool) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"expected a number, found {value!r}")
        number = as_float(value)
        if not (math.isfinite(number) or (unknown and math.isnan(number))):
            raise self.error(
                key,
                f"expected a finite number{' or nan (unknown)' if unknown else ''}, found {number}",
            )
        return number

    def numbers(
        self, key: str, count: int, default: Iterable[float] | None = None, unknown: bool = False
    ) -> Array:
        """Return an array of so many numbers."""
        value = self._given(key, default, f"{count} numbers")
        if not isinstance(value, list | tuple):
            raise self.error(key, f"expected a list of {count} numbers, found {value!r}")
        if len(value) != count:
            raise self.error(key, f"expected {count} numbers, found {len(value)}: {value!r}")
        return np.array([self._number(key, entry, unknown) for entry in value])

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty where the key is not given."""
        value = self.raw(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self.error(key, f"expected a list of texts in quotes, found {value!r}")
        return tuple(value)

    def table(self, key: str) -> Table | None:
        """Return an inner table ([key] or key = { ... }), None where it is not given."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table such as {{ ... }}, found {value!r}")
        label = (
            f"[{key}]" if self.line == 1 and self.label == "the file" else f"{self.label}, {key}"
        )
        return Table(value, self.file, self._line_of(key), label, self.lines)

    def tables(self, key: str) -> list[Table]:
        """Return the tables [[key]], in the order of the file."""
        value = self.raw(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.error(key, f"expected tables [[{key}]], found {value!r}")
        headers = self.lines.headers.get(key, [])
        if len(headers) != len(value):
            headers = [self.lines.keys[1].get(key, 1)] * len(value)
        names = [entry.get("name") for entry in value]
        labels = [
            f"{key} {name!r}" if isinstance(name, str) else f"{key} {k}"
            for k, name in enumerate(names, 1)
        ]
        placed = zip(value, headers, labels)
        return [Table(entry, self.file, line, label, self.lines) for entry, line, label in placed]

    def finish(self, known: Iterable[str]) -> None:
        """Raise for the first key that is none of the known ones, with near names."""
        names = list(known)
        for key in (key for key in self.data if key not in names):
            text = f"{self.label} has an unknown key {key!r}{near_names(key, names)}"
            raise DescriptionError(f"{self.where_key(key)}: {text}")


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


def as_float(value: float) -> float:
    """Return a number; a whole one beyond what floating point holds as infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def quantity(value: Any, place: str, symbols: Symbols, turn: bool) -> Quantity:
    """Return the value of a number or text: 0.5, "90 deg", "-pi/2", "D3", "2*D3".

    Degrees only where it is a `turn`.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = as_float(value)
        if not math.isfinite(number):
            raise DescriptionError(f"{place}: expected a finite number, found {number}")
        return number, None
    example = '1.57, "90 deg", "pi/2"' if turn else "0.5"
    if not isinstance(value, str) or not value.strip():
        raise DescriptionError(
            f'{place}: expected {example} or a symbol such as "2*D3", found {value!r}'
        )
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
        raise DescriptionError(
            f"{place}: found {value!r}, expected a number or one symbol times a number"
        )
    terms, constant = linear
    if not terms:
        # multiples of 90 degrees exactly as everywhere else in the program
        turned = (
            constant / 90.0 * (math.pi / 2) if constant % 90.0 == 0.0 else math.radians(constant)
        )
        number = turned if degrees else constant
        if not math.isfinite(number):
            raise DescriptionError(f"{place}: expected a finite number, found {value!r}")
        return number, None
    [(symbol, factor)] = terms.items()
    return factor * symbols[symbol], (symbol, factor)


def joint_placement(
    table: Table, kind: str, symbols: Symbols, notices: list[Notice]
) -> tuple[Steps, str, int, Steps]:
    """Return (before, motion, direction, after) of a [[joint]].

    An mDH row, xyz rpy axis, or steps.
    """
    mdh, explicit = table.any(MDH), table.any(("xyz", "rpy", "axis"))
    steps = table.any(("before", "motion", "after"))
    given = [keys for keys in (mdh, explicit, steps) if keys]
    if len(given) > 1:
        raise table.error(
            given[1][0],
            f"mixed with {given[0][0]!r}; a joint is placed by alpha, a, theta, d (gamma, b), or "
            "by xyz, rpy, axis, or by before, motion, after",
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
        if kind in ("fixed", "floating"):
            if "axis" in table:
                raise table.error("axis", f"a {kind} joint has no axis")
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
    for key, kinds, order in (
        ("xyz", ("tx", "ty", "tz"), (0, 1, 2)),
        ("rpy", ("rx", "ry", "rz"), (2, 1, 0)),
    ):
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
            raise table.error(
                key, f'found the step {text!r}, expected for example "rx 90 deg" or "tz 0.3"'
            )
        made.append(_step(kind, value, table.place(key), symbols, notices))
    return tidy_steps(made)


def _step(kind: str, value: Any, place: str, symbols: Symbols, notices: list[Notice]) -> Step:
    number, symbol = quantity(value, place, symbols, kind[0] == "r")
    return snapped_step(kind, number, place, notices, *(symbol or ()))


def mdh_slots(joint: Joint) -> list[tuple[str, Step]] | None:
    """Return the mDH row of a joint, [(key, step), ...] in the order of MDH.

    None where it is not one.
    """
    slides = joint.kind == "prismatic"
    if joint.after or joint.direction != 1 or joint.motion != ("tz" if slides else "rz"):
        return None
    last = [("rz", "theta"), ("tz", "d")]
    slots = [
        ("rz", "gamma"),
        ("tz", "b"),
        ("rx", "alpha"),
        ("tx", "a"),
        *(last if slides else last[::-1]),
    ]
    found: dict[str, Step] = {}
    for step in reversed(
        joint.before
    ):  # from the end, so that a lone turn about z is theta, not gamma
        while slots and slots[-1][0] != step.kind:
            slots.pop()
        if not slots:
            return None
        found[slots.pop()[1]] = step
    return [(key, found[key]) for key in MDH if key in found]
