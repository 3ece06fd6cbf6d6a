"""Notices: what a reader of a result should know, each with a code, a level, and what to do about it.

A kind of notice is declared once, in the module that knows the fact; calling it makes a notice::

    GAPS = look("recording.gaps", "The log has gaps; it was cut there.", "Record again without gaps.")
    notices.append(GAPS(f"{count} gaps, the longest {longest:.1f} s", count=count, longest=longest))

`docs/notices.md` is made from all kinds by `docs/make_notices.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from minidyn.errors import DescriptionError

Level = Literal["act", "look", "info"]

LEVELS: tuple[Level, ...] = ("act", "look", "info")
"""Most serious first: do something before you use this; know it; information."""

KINDS: dict[str, Kind] = {}
"""Every kind that was declared so far, by its code."""


@dataclass(frozen=True)
class Notice:
    """One fact about a result.

    Attributes:
        code: Which kind it is, for programs: "recording.gaps". docs/notices.md lists all of them.
        level: "act" (do something before you use this), "look" (know it) or "info".
        text: The fact, one sentence for people.
        advice: What to do about it; "" where there is nothing to do.
        data: The numbers and names in the sentence, plain values.
    """

    code: str
    level: Level
    text: str
    advice: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", MappingProxyType(dict(self.data)))

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return Notice, (self.code, self.level, self.text, self.advice, dict(self.data))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "data": dict(self.data)}

    @classmethod
    def from_json(cls, value: object) -> Notice:
        """Return the notice of plain values; a text, as older files hold them, has the code "unsorted"."""
        if isinstance(value, str):
            return cls("unsorted", "look", value)
        if not isinstance(value, Mapping) or value.get("level") not in LEVELS:
            raise DescriptionError(f"a notice: expected code, level, text, advice and data, got {value!r}")
        return cls(str(value["code"]), value["level"], str(value["text"]), str(value["advice"]), dict(value["data"]))


@dataclass(frozen=True)
class Kind:
    """A kind of notice: call it with the sentence and its data."""

    code: str  # stage and fact, "recording.gaps"
    level: Level
    meaning: str  # what it means, for docs/notices.md
    advice: str = ""  # what to do about it; `{name}` stands for the notice's data of that name

    def __call__(self, text: str, **data: Any) -> Notice:
        """Return a notice of this kind."""
        advice = self.advice.format_map(data) if data else self.advice
        return Notice(self.code, self.level, text, advice, data)


def _kind(level: Level, code: str, meaning: str, advice: str = "") -> Kind:
    if code in KINDS:
        raise ValueError(f"the kind of notice {code!r} is declared twice")
    made = KINDS[code] = Kind(code, level, meaning, advice)
    return made


act, look, info = partial(_kind, "act"), partial(_kind, "look"), partial(_kind, "info")
"""Declare a kind of notice of a level by its code, meaning and advice; each code is declared once."""


def notices_json(notices: Iterable[Notice]) -> list[dict[str, Any]]:
    """Return notices as plain values, most serious first."""
    return [notice.to_json() for notice in most_serious_first(notices)]


def worth_telling(notices: Iterable[Notice]) -> list[Notice]:
    """Return the notices that a reader must know of, most serious first: all but plain information."""
    return [notice for notice in most_serious_first(notices) if notice.level != "info"]


def about_robot_file(notices: Iterable[Notice]) -> list[Notice]:
    """Return what reading a robot file left out or assumed: no plain information, no remarks of the file's author."""
    stages = ("robot", "urdf", "mjcf", "side_file")
    told = (notice for notice in worth_telling(notices) if notice.code != "robot.note")
    return [notice for notice in told if notice.code.partition(".")[0] in stages]


def most_serious_first(notices: Iterable[Notice]) -> list[Notice]:
    """Return notices ordered by level, each once; those of one level keep their order."""
    return sorted(dict.fromkeys(notices), key=lambda notice: LEVELS.index(notice.level))
