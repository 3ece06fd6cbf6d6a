"""What a case study is made of: tables of printed beside computed values, figures, and remarks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minidyn.arrays import Array
from minidyn.recording.recording import Recording

AGREES, ERRATUM, DIFFERS = "agrees", "erratum", "differs"
_ABOUT = 0.2  # "about 0.35 s" is read as within a fifth
_NUMBER = re.compile(r"^[+-]?\d+(?:\.(\d*))?(?:[eE]([+-]?\d+))?$")


@dataclass(frozen=True)
class Entry:
    """One printed value and the computed one."""

    name: str
    printed: str  # as printed: "4.3850", "< 0.3", "about 0.35", or words
    found: float | str
    erratum: str = ""  # what is wrong with the print, "" where nothing is known to be

    @property
    def verdict(self) -> str:
        """AGREES to all printed digits, ERRATUM where it does not and the print is known to be
        wrong, or DIFFERS.
        """
        return AGREES if self._agrees else ERRATUM if self.erratum else DIFFERS

    @property
    def _agrees(self) -> bool:
        if isinstance(self.found, str):
            return self.found == self.printed
        if self.printed.startswith("< "):
            return self.found < float(self.printed[2:])
        if self.printed.startswith("about "):
            return abs(self.found / float(self.printed[6:]) - 1.0) <= _ABOUT
        return abs(self.found - float(self.printed)) <= 0.5000001 * self._unit

    @property
    def _unit(self) -> float:
        """The unit of the last printed digit."""
        match = _NUMBER.match(self.printed)
        if match is None:
            raise ValueError(f"{self.name}: {self.printed!r} is no printed number")
        return float(10.0 ** (int(match[2] or 0) - len(match[1] or "")))

    @property
    def shown(self) -> str:
        """The computed value with two digits more than printed."""
        if isinstance(self.found, str):
            return self.found
        match = _NUMBER.match(self.printed)
        if match is None or match[2]:
            return f"{self.found:.4g}"
        places = len(match[1] or "")
        text = f"{self.found:.{places + 2 if places else 0}f}"
        return text.lstrip("-") if not text.strip("-0.") else text


@dataclass(frozen=True)
class Table:
    """A table of a paper."""

    title: str
    source: str  # where it is printed: "Table II"
    entries: tuple[Entry, ...]
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """A line of a figure."""

    name: str
    x: Array
    y: Array


@dataclass(frozen=True)
class Figure:
    """A figure: of the paper, computed again, or of what its tables say."""

    key: str  # of its file in the documentation
    title: str
    source: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log: bool = False  # whether the vertical axis is logarithmic


@dataclass(frozen=True)
class Study:
    """A case study that has been run."""

    key: str  # "lin-1992"
    paper: str  # the paper's title, authors and year
    about: str  # what is done, in one or two sentences
    settings: Mapping[str, Any]  # what it was run with
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    remarks: tuple[str, ...] = ()
    recordings: Mapping[str, Recording] = field(default_factory=dict)  # to keep, by name
    numbers: Mapping[str, Any] = field(default_factory=dict)  # for programs, by name

    @property
    def verdicts(self) -> dict[str, int]:
        """How many entries agree, are errata, differ."""
        found = Counter(entry.verdict for table in self.tables for entry in table.entries)
        return {verdict: found[verdict] for verdict in (AGREES, ERRATUM, DIFFERS)}

    def to_json(self) -> dict[str, Any]:
        """Return plain values: settings, verdicts, and every entry that does not agree."""
        others = [
            {
                "table": table.source,
                "name": entry.name,
                "printed": entry.printed,
                "found": entry.found,
            }
            | {"verdict": entry.verdict, "erratum": entry.erratum}
            for table in self.tables
            for entry in table.entries
            if entry.verdict != AGREES
        ]
        return {
            "settings": dict(self.settings),
            "verdicts": self.verdicts,
            "others": others,
            **self.numbers,
        }
