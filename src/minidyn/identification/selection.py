"""The table of decisions: every candidate that was tried, its gain, and whether it was taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minidyn.display import DisplayTable
from minidyn.identification.score import Gain

if TYPE_CHECKING:
    from pandas import DataFrame

FORCED, FORBIDDEN = "forced", "forbidden"


@dataclass(frozen=True)
class Decision:
    """One candidate.

    Attributes:
        candidate: What was tried: a term ("load"), "cutoff=10 Hz", "gravity direction", ...
        joints: The joints whose model it changes; empty: the whole robot.
        gain: Mean gain in log density of held-out blocks, nats a sample, summed over joints; None
            where no score was asked.
        standard_error: Of that gain.
        is_taken: Whether the model has it.
        reason: Why, where the rule did not decide: "forced", "forbidden", or a short sentence.
    """

    candidate: str
    joints: tuple[str, ...] = ()
    gain: float | None = None
    standard_error: float | None = None
    is_taken: bool = False
    reason: str = ""

    @classmethod
    def of(
        cls, candidate: str, joints: Iterable[str], gain: Gain, is_taken: bool, reason: str = ""
    ) -> Decision:
        """Return the row of a candidate with its score."""
        return cls(candidate, tuple(joints), gain.mean, gain.standard_error, is_taken, reason)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "candidate": self.candidate,
            "joints": list(self.joints),
            "gain": self.gain,
            "standard_error": self.standard_error,
            "taken": self.is_taken,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Decision:
        """Return what `to_json` wrote."""
        return cls(
            candidate=str(values["candidate"]),
            joints=tuple(values.get("joints", ())),
            gain=values.get("gain"),
            standard_error=values.get("standard_error"),
            is_taken=bool(values.get("taken")),
            reason=str(values.get("reason", "")),
        )


@dataclass(frozen=True)
class Selection:
    """Everything that identification tried, in order.

    Attributes:
        rows: One decision a candidate.
    """

    rows: tuple[Decision, ...] = field(default=())

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def taken(self) -> tuple[Decision, ...]:
        """The decisions that are in the model."""
        return tuple(row for row in self.rows if row.is_taken)

    def __add__(self, others: Selection | Sequence[Decision]) -> Selection:
        return Selection((*self.rows, *others))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        return [row.to_json() for row in self.rows]

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, Any]]) -> Selection:
        """Return what `to_json` wrote."""
        return cls(tuple(Decision.from_json(row) for row in rows))

    def table(self) -> DisplayTable:
        """Return the table, a row a candidate: gain with its standard error, taken or not."""
        columns: dict[str, list[Any]] = {
            "candidate": [row.candidate for row in self.rows],
            "joints": [", ".join(row.joints) or "all" for row in self.rows],
            "gain, nats": [row.gain for row in self.rows],
            "standard error": [row.standard_error for row in self.rows],
            "taken": [row.is_taken for row in self.rows],
            "reason": [row.reason for row in self.rows],
        }
        return DisplayTable("Decisions", columns)

    def to_pandas(self) -> DataFrame:
        """Return the table as a pandas DataFrame."""
        return self.table().to_pandas()
