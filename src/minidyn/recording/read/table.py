"""A log as a table: named columns of numbers, handed out in batches so that large files can stay on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.notices import Notice, kind

TIME_ORIGIN = kind("recording.time_origin", "info", "Times count from the first sample, not from the epoch of the log.")
TIME_SORTED = kind(
    "recording.time_sorted",
    "look",
    "Samples were not in the order of their times and were sorted.",
    "Check the logger, or the column of time.",
)

Columns = dict[str, Array]
"""Columns by name, each (N,)."""


class Table(Protocol):
    """Named columns of one log."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that can hold numbers."""
        ...

    @property
    def joint_names(self) -> tuple[str, ...]:
        """What the file calls its joints; () where it does not say."""
        ...

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was found on opening it."""
        ...

    @property
    def own(self) -> bool:
        """Whether names are exact and times seconds: files minidyn wrote, and bags."""
        ...

    def count(self) -> int:
        """Return the number of rows."""
        ...

    def batches(self, names: Sequence[str], samples: int, begin: int, end: int | None) -> Iterator[Columns]:
        """Yield the columns from row `begin` to `end`, at most `samples` rows at a time."""
        ...

    def place(self, row: int) -> str:
        """Return where a row stands in the file, for messages."""
        ...


def read_columns(table: Table, names: Sequence[str], begin: int = 0, end: int | None = None) -> Columns:
    """Return whole columns."""
    parts = list(table.batches(names, 1 << 30, begin, end))
    if not parts:
        raise DescriptionError(f"{table.path}: no samples; the file has no rows")
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in names}


class JoinedTable:
    """Several tables side by side: one run spread over several files. Columns are called FILE:NAME."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tuple(tables)
        stems = [table.path.stem for table in tables]
        labels = [
            stem if stems.count(stem) == 1 else f"{stem}{k}" for k, (stem, table) in enumerate(zip(stems, tables))
        ]
        self._where: Mapping[str, tuple[int, str]] = {
            f"{label}:{name}": (index, name)
            for index, (label, table) in enumerate(zip(labels, tables))
            for name in table.names
        }
        self.path = tables[0].path
        self.names = tuple(self._where)
        self.joint_names = next((table.joint_names for table in tables if table.joint_names), ())
        self.notices = tuple(notice for table in tables for notice in table.notices)
        self.own = False

    def count(self) -> int:
        """Return the number of rows, the same in all tables.

        Raises:
            DescriptionError: The files have different lengths.
        """
        counts = [table.count() for table in self._tables]
        if len(set(counts)) > 1:
            lengths = ", ".join(f"{table.path.name} {count}" for table, count in zip(self._tables, counts))
            raise DescriptionError(
                f"{self.path}: files of one run must have as many rows each; found {lengths}. "
                "Give together=False where they are runs of their own"
            )
        return counts[0]

    def batches(self, names: Sequence[str], samples: int, begin: int, end: int | None) -> Iterator[Columns]:
        """Yield the columns of all tables, at most `samples` rows at a time."""
        self.count()
        used = sorted({self._where[name][0] for name in names})
        streams = []
        for index in used:
            wanted = [self._where[name][1] for name in names if self._where[name][0] == index]
            streams.append(_even(self._tables[index].batches(wanted, samples, begin, end), samples))
        for parts in zip(*streams, strict=True):
            by_table = dict(zip(used, parts))
            yield {name: by_table[self._where[name][0]][self._where[name][1]] for name in names}

    def place(self, row: int) -> str:
        """Return where a row stands in the files."""
        return self._tables[0].place(row)


def _even(parts: Iterator[Columns], samples: int) -> Iterator[Columns]:
    """Yield the same rows in batches of exactly `samples` but the last, so that several streams keep step."""
    held: list[Columns] = []
    rows = 0
    for part in parts:
        held.append(part)
        rows += len(next(iter(part.values())))
        while rows >= samples:
            whole = {name: np.concatenate([piece[name] for piece in held]) for name in part}
            yield {name: values[:samples] for name, values in whole.items()}
            held = [{name: values[samples:] for name, values in whole.items()}]
            rows -= samples
    if rows:
        yield {name: np.concatenate([piece[name] for piece in held]) for name in held[0]}
