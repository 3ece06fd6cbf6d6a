"""CSV logs: delimiter, header, comments and decimal commas are found.

Text among numbers is reported by line. NumPy reads small files, and all of them where pyarrow is
not installed; pyarrow reads large ones. Both round every number correctly, so that they agree to
the last digit.
"""

from __future__ import annotations

import csv as text_csv
import importlib.util
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, optional
from minidyn.recording.read.tables import WIDEST, Columns, LogTable, numbers
from minidyn.recording.recording import PREPARED, SKETCHED
from minidyn.recording.sketch import Sketch

_NUMBER = re.compile(
    r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?$|[+-]?(nan|inf(inity)?)$", re.IGNORECASE
)
_EMPTY = ("", "na", "n/a", "null", "none", "#n/a", "-nan")
_NOTHING = (*_EMPTY, "nan", "-nan(ind)")
_DELIMITERS = (",", ";", "\t", "|")
_LARGE = 1 << 23  # bytes from which loading pyarrow pays
_LINES = 1 << 15  # read at a time


class CsvTable(LogTable):
    """A CSV file as a table; rows are parsed as they are asked for."""

    def __init__(
        self, path: Path, header: bool | None, delimiter: str | None, arrow: bool | None = None
    ) -> None:
        self.path = path
        top = _first_lines(path)
        comments = 0
        while comments < len(top) and top[comments].lstrip()[:1] in ("#", "%"):
            comments += 1
        heads = [line.strip() for line in top[:comments]]
        self.prepared = PREPARED in heads
        with suppress(ValueError):  # a sketch that is cut off is none
            texts = (line.removeprefix(SKETCHED) for line in heads if line.startswith(SKETCHED))
            self.sketch = Sketch.from_json(json.loads(next(texts, "null")))
        lines = [line for line in top[comments:] if line.strip()]
        if not lines:
            raise DescriptionError(f"{path}: no samples; the file is empty")
        if delimiter is None:
            counts = {mark: min(line.count(mark) for line in lines) for mark in _DELIMITERS}
            delimiter = max(_DELIMITERS, key=lambda mark: counts[mark])
            if not counts[delimiter]:
                delimiter = next((mark for mark in _DELIMITERS if mark in lines[0]), " ")
            spaced = (
                delimiter == "," and len(lines) > 1 and ":" not in lines[1]
            )  # that would be a date and a time
            if spaced and all(
                re.search(r"\d,\d", line) and line.strip().count(" ") for line in lines[1:]
            ):
                delimiter = " "  # decimal commas between spaces
        self._delimiter = delimiter
        self._spaces = delimiter == " "
        plain = delimiter == "," or any("." in line for line in lines[1:])
        self._decimal = (
            "." if plain or not any(re.search(r"\d,\d", line) for line in lines[1:]) else ","
        )
        first = self._split(lines[0])
        named = not all(_NUMBER.match(cell) or cell.lower() in _EMPTY for cell in first)
        has_header = named if header is None else header
        self._skip = comments
        if has_header:
            names = first
            self._skip += 1 + top[comments:].index(lines[0])
        else:
            names = [f"column{k}" for k in range(len(first))]
            said = (
                self._split(top[comments - 1].lstrip(" #%")) if comments and header is None else []
            )
            if len(said) == len(first):
                names = said
        if len(names) > WIDEST:
            raise DescriptionError(
                f"{path}: {len(names)} columns; logs are read up to {WIDEST}, leave out some"
            )
        self.names = _unique(names)
        self.repeated = {new: name for new, name in zip(self.names, names) if name and new != name}
        if has_header:
            self._recognise()
        row = self._split("".join(lines[1:2] if has_header else lines[:1]))
        self._dated = [
            name for name, cell in zip(self.names, row) if re.match(r"\d{4}-\d\d-\d\d[ T]", cell)
        ]
        self._rows = -1
        if arrow is None:
            arrow = path.stat().st_size > _LARGE and importlib.util.find_spec("pyarrow") is not None
        self._parts = self._arrow if arrow and not self._spaces else self._numpy

    def _split(self, line: str) -> list[str]:
        if self._spaces:
            return line.split()
        try:
            return [
                cell.strip()
                for cell in next(text_csv.reader([line], delimiter=self._delimiter), [])
            ]
        except text_csv.Error as error:
            raise DescriptionError(
                f"{self.path}: line {line[:40]!r}...: not a row of cells ({error})"
            ) from None

    def count(self) -> int:
        """Return the number of rows; the file is read once for it."""
        if self._rows < 0:
            self._rows = sum(
                len(part[self.names[0]]) for part in self.batches(self.names[:1], 1 << 16)
            )
        return self._rows

    def place(self, row: int) -> str:
        """Return the line of a row (blank lines are not counted)."""
        return f"line {row + self._skip + 1}"

    def batches(
        self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[Columns]:
        """Yield the columns as floats, NaN where a cell is empty.

        An error names the line that is no row of numbers.
        """
        row = 0
        for part in self._parts(names, samples):
            rows = len(part[names[0]])
            low, high = max(begin - row, 0), min(end - row, rows)
            for start in range(low, high, samples):
                yield {name: part[name][start : min(start + samples, high)] for name in names}
            row += rows
            if row >= end:
                return

    def _arrow(self, names: Sequence[str], samples: int) -> Iterator[Columns]:
        pa, csv = optional("pyarrow"), optional("pyarrow.csv")
        cells = {
            name: pa.timestamp("ns") if name in self._dated else pa.float64() for name in names
        }
        empty = [
            *_EMPTY,
            "NaN",
            "nan",
            "NAN",
            "NA",
            "N/A",
            "NULL",
            "None",
            "-NaN",
            "-nan(ind)",
            "#N/A",
        ]
        block = 1 << 20 if samples < 1 << 20 else 1 << 24
        reading = csv.ReadOptions(
            column_names=list(self.names), skip_rows=self._skip, block_size=block
        )
        parsing = csv.ParseOptions(delimiter=self._delimiter)
        converting = csv.ConvertOptions(
            column_types=cells,
            include_columns=list(names),
            null_values=empty,
            strings_can_be_null=True,
            decimal_point=self._decimal,
        )
        try:
            with csv.open_csv(self.path, reading, parsing, converting) as reader:
                for batch in reader:
                    yield {name: numbers(batch.column(name)) for name in names}
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                raise DescriptionError(
                    f"{self.path}: no samples; the file has a header only"
                ) from None
            self._blame(names, error)

    def _numpy(self, names: Sequence[str], samples: int) -> Iterator[Columns]:
        wanted = [self.names.index(name) for name in names]
        row, empty = 0, True
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                for lines in iter(lambda: list(islice(file, _LINES)), []):
                    block = [line for line in lines[max(self._skip - row, 0) :] if line.strip()]
                    row += len(lines)
                    if block:
                        empty = False
                        yield dict(zip(names, self._block(block, wanted)))
        except ValueError as error:  # also where bytes are no text
            self._blame(names, error)
        if empty:
            raise DescriptionError(f"{self.path}: no samples; the file has a header only")

    def _block(self, lines: list[str], wanted: Sequence[int]) -> list[Array]:
        """Return columns of some lines; a ValueError where a line is no row of numbers."""
        if self._decimal == ",":
            lines = [line.replace(",", ".") for line in lines]
        mark, width = None if self._spaces else self._delimiter, len(self.names)
        quick = self._spaces or '"' not in "".join(lines)  # a cell in quotes may hold the delimiter
        marks = (
            map(len, map(str.split, lines))
            if mark is None
            else (line.count(mark) + 1 for line in lines)
        )
        if quick and any(cells != width for cells in marks):
            raise ValueError("lines of different lengths")
        made: dict[int, Array] = {}
        numeric = [k for k in wanted if self.names[k] not in self._dated]
        if numeric and quick:
            with suppress(ValueError):  # cells that are empty, or no numbers
                values = np.loadtxt(lines, delimiter=mark, usecols=numeric, ndmin=2, comments=None)
                made = dict(zip(numeric, np.ascontiguousarray(values.T)))
        if len(made) < len(wanted):
            table = [self._split(line.strip("\r\n")) for line in lines]
            if any(len(row) != width for row in table):
                raise ValueError("lines of different lengths")
            for k in wanted:
                if k not in made:
                    made[k] = np.array([self._value(row[k], self.names[k]) for row in table])
        return [made[k] for k in wanted]

    def _value(self, cell: str, name: str) -> float:
        if cell.lower() in _NOTHING:
            return math.nan
        if name in self._dated:  # nanoseconds since 1970, as pyarrow gives them
            return float(
                np.datetime64(cell.replace(" ", "T").removesuffix("Z"), "ns").astype(np.int64)
            )
        if not _NUMBER.match(cell):
            raise ValueError(f"no number: {cell!r}")
        return float(cell)

    def _blame(self, names: Sequence[str], error: Exception) -> NoReturn:
        """Raise for the first line that is not a row of numbers."""
        wanted = [self.names.index(name) for name in names]
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for number, line in enumerate(file, start=1):
                if number <= self._skip or not line.strip():
                    continue
                cells = self._split(line.strip("\r\n"))
                if len(cells) != len(self.names):
                    raise DescriptionError(
                        f"{self.path}: line {number} has {len(cells)} cells, expected "
                        f"{len(self.names)}; the file may be cut off"
                    )
                for column in wanted:
                    if not _NUMBER.match(cells[column]) and cells[column].lower() not in _EMPTY:
                        raise DescriptionError(
                            f"{self.path}: line {number}, column {self.names[column]!r}: expected "
                            f"a number, found {cells[column][:40]!r}"
                        )
        raise DescriptionError(f"{self.path}: cannot be read ({error})") from None


def _first_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            data = file.read(1 << 16)
            if PREPARED.encode() in data[:100]:  # a sketch may follow, one long line
                data += file.read(1 << 20)
            more = bool(file.read(1))
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read ({error.strerror or error})") from None
    if b"\0" in data:
        raise DescriptionError(f"{path}: not a text file (zero bytes found)")
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    if more and len(lines) > 1:
        lines.pop()
    return lines[:40]


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, numbered where the file repeats or leaves out one.

    q, q_, q__, q_3, q_4, ...
    """
    made: dict[str, None] = {}
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        first = new = name or f"column{index}"
        while new in made:
            seen[first] += 1
            new = first + ("_" * seen[first] if seen[first] < 3 else f"_{seen[first]}")
        made[new] = None
    return tuple(made)
