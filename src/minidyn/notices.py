"""Notices: what a reader of a result should know.

Each with a code, a level, and what to do about it. A kind of notice is declared once, in the module
that knows the fact; calling it makes a notice::

    GAPS = warning("recording.gaps", "The log has gaps; it was cut there.", "Record again without gaps.")
    notices.append(GAPS(f"{count} gaps, the longest {longest:.1f} s", count=count, longest=longest))

`docs/notices.md` is made from all kinds by `docs/make_notices.py`.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from minidyn.errors import DescriptionError

Level = Literal["error", "warning", "info"]

LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""Most serious first: fix it before you use the result; know it; information."""

Grade = Literal["good", "caution", "bad"]

GRADES: tuple[Grade, ...] = ("good", "caution", "bad")
"""May be used; may be used with care; should not be used."""


@dataclass(frozen=True)
class Consequence:
    """What follows from a level, where it is the most serious one of a result.

    Attributes:
        grade: Of the verdict, for programs.
        colour: Of the report and of the page of a check.
        model: Word of the verdict on a model.
        log: Word of the verdict on a log, before a fit.
        exit_code: Of the shell with `--require pass`.
    """

    grade: Grade
    colour: str
    model: str
    log: str
    exit_code: int


CONSEQUENCES: Mapping[Level, Consequence] = MappingProxyType(
    {
        "error": Consequence("bad", "red", "Not to be used yet", "Not to be fitted yet", 3),
        "warning": Consequence(
            "caution", "amber", "Usable with care", "Can be fitted; read the remarks", 3
        ),
        "info": Consequence("good", "green", "Ready to use", "Ready to be fitted", 0),
    }
)
"""The one table from levels to verdicts: the report, the check and the shell follow it."""

BY_GRADE: Mapping[Grade, Consequence] = MappingProxyType(
    {one.grade: one for one in CONSEQUENCES.values()}
)

_OLD_LEVELS = {"act": "error", "look": "warning"}
"""Words of files that earlier versions wrote."""

KINDS: dict[str, Kind] = {}
"""Every kind that was declared so far, by its code."""


@dataclass(frozen=True)
class Notice:
    """One fact about a result.

    Attributes:
        code: Which kind it is, for programs: "recording.gaps". docs/notices.md lists all of them.
        level: "error" (fix it before you use the result), "warning" (know it) or "info".
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
        """Return the notice of plain values.

        A text, as older files hold them, has the code "unsorted".
        """
        if isinstance(value, str):
            return cls("unsorted", "warning", value)
        level = value.get("level") if isinstance(value, Mapping) else None
        level = _OLD_LEVELS.get(str(level), level)
        if not isinstance(value, Mapping) or level not in LEVELS:
            raise DescriptionError(
                f"a notice: expected code, level, text, advice and data, got {value!r}"
            )
        return cls(
            str(value["code"]), level, str(value["text"]), str(value["advice"]), dict(value["data"])
        )


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


error, warning, info = partial(_kind, "error"), partial(_kind, "warning"), partial(_kind, "info")
"""Declare a kind of notice of a level by its code, meaning and advice.

Each code is declared once.
"""


def grade_of(notices: Iterable[Notice]) -> Grade:
    """Return the grade of a result with these notices: that of the most serious one."""
    return max(
        (CONSEQUENCES[notice.level].grade for notice in notices), key=GRADES.index, default="good"
    )


def notices_json(notices: Iterable[Notice]) -> list[dict[str, Any]]:
    """Return notices as plain values, most serious first."""
    return [notice.to_json() for notice in most_serious_first(notices)]


def worth_telling(notices: Iterable[Notice]) -> list[Notice]:
    """Return the notices that a reader must know of, most serious first.

    All but plain information.
    """
    return [notice for notice in most_serious_first(notices) if notice.level != "info"]


def about_robot_file(notices: Iterable[Notice]) -> list[Notice]:
    """Return what reading a robot file left out or assumed.

    No plain information, no remarks of the file's author.
    """
    stages = ("robot", "urdf", "mjcf", "side_file")
    told = (notice for notice in worth_telling(notices) if notice.code != "robot.note")
    return [notice for notice in told if notice.code.partition(".")[0] in stages]


def most_serious_first(notices: Iterable[Notice]) -> list[Notice]:
    """Return notices ordered by level, each once; those of one level keep their order."""
    return sorted(dict.fromkeys(notices), key=lambda notice: LEVELS.index(notice.level))
