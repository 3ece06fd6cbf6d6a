"""Parquet files as tables: only the columns and the row groups that are asked for are read."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from minidyn.arrays import may_thread
from minidyn.errors import DescriptionError, MinidynError, optional
from minidyn.notices import Notice
from minidyn.recording.read.tables import (
    WIDEST,
    Columns,
    LogTable,
    check_unpacked,
    numbers,
    own_notes,
)
from minidyn.recording.recording import SKETCH
from minidyn.recording.sketch import Sketch

# bytes of a column held while it is read: otherwise all of it, and row groups have a million rows
_BUFFER = 1 << 18

_MOST_ALIKE = 1000  # values that are remembered
_ALIKE: dict[bytes, Any] = {}
T = TypeVar("T")


def alike(value: T) -> T:
    """Return a plain value that is not changed, or one equal to it that is there.

    Thousands of logs are alike.
    """
    if len(_ALIKE) > _MOST_ALIKE:
        _ALIKE.clear()
    found: T = _ALIKE.setdefault(pickle.dumps(value), value)
    return found


class ParquetTable(LogTable):
    """A Parquet file as a table.

    List columns (one list per sample) are several columns NAME[0], NAME[1], ...
    """

    def __init__(self, path: Path) -> None:
        parquet = optional("pyarrow.parquet")

        self.path = path
        with (
            _readable(path),
            path.open("rb") as stream,
            parquet.ParquetFile(
                path if isinstance(path, Path) else stream, pre_buffer=False
            ) as file,
        ):
            schema, self._rows = file.schema_arrow, file.metadata.num_rows
            groups = [
                file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)
            ]
            sizes = _column_bytes(stream)
            lists = [field.name for field in schema if _is_list(field.type)]
            first = (
                next(file.iter_batches(1, columns=lists), None) if lists and self._rows else None
            )
        if len(set(schema.names)) < len(schema.names):
            twice = next(name for name, number in Counter(schema.names).items() if number > 1)
            raise DescriptionError(
                f"{path}: two columns are called {twice!r}; names of columns must differ"
            )
        self._source: dict[str, tuple[str, int]] = {}
        for field in schema:
            if _is_list(field.type):
                width = len(first.column(field.name)[0]) if first is not None else 0
                width *= width <= WIDEST
                self._source |= {f"{field.name}[{k}]": (field.name, k) for k in range(width)}
            elif _is_number(field.type):
                self._source[field.name] = (field.name, -1)
        self.names, self._groups = tuple(self._source), tuple(accumulate(groups))
        metadata = schema.metadata or {}
        with own_notes(path):
            self.notices = tuple(
                map(Notice.from_json, json.loads(metadata.get(b"minidyn.notices", b"[]")))
            )
            self.prepared = bool(json.loads(metadata.get(b"minidyn.prepared", b"false")))
            self.sketch = Sketch.from_json(
                json.loads(metadata.get(f"minidyn.{SKETCH}".encode(), b"null"))
            )
        self._recognise()
        self._columns, self._sizes = alike(tuple(sizes)), tuple(sizes.values())
        for name in ("names", "joint_names", "_source", "notices"):
            setattr(self, name, alike(getattr(self, name)))
        if not self._rows:
            raise DescriptionError(f"{path}: no samples; the table has no rows")

    def batches(
        self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[Columns]:
        """Yield the columns; only the row groups that are asked for are read."""
        parquet = optional("pyarrow.parquet")

        stop = min(end, self._rows)
        wanted = list(dict.fromkeys(self._source[name][0] for name in names))
        with (
            _readable(self.path),
            parquet.ParquetFile(_source(self.path), pre_buffer=False, buffer_size=_BUFFER) as file,
        ):
            groups, row, skipped = [], 0, 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if row + rows <= begin:
                    skipped += rows
                elif row < stop:
                    groups.append(group)
                row += rows
            row = skipped
            threads, size = may_thread(), min(samples, 1 << 20)
            for batch in file.iter_batches(
                size, row_groups=groups, columns=wanted, use_threads=threads
            ):
                low, high = max(begin - row, 0), min(stop - row, batch.num_rows)
                row += batch.num_rows
                if low < high:
                    yield self._part(batch.slice(low, high - low), names)
                if row >= stop:  # the rest of the row group stays packed
                    return

    def size_of(self, names: Sequence[str]) -> tuple[int, int]:
        """Return the bytes of these columns, packed as they are, and of all."""
        wanted = {self._source[name][0] for name in names}
        sizes = zip(self._columns, self._sizes)
        return sum(size for name, size in sizes if name in wanted), sum(self._sizes)

    def whole(self, names: Sequence[str]) -> Columns:
        """Return the columns in memory.

        Repeated values take no room in a file, so their number is checked first.
        """
        check_unpacked(self.path, 8 * self._rows * len(names), "read it with lazy=True")
        return super().whole(names)

    def cuts(self) -> Sequence[int]:
        """Return where row groups begin."""
        return self._groups[:-1]

    def _part(self, batch: Any, names: Sequence[str]) -> Columns:
        part: Columns = {}
        for name in names:
            column, index = self._source[name]
            values = batch.column(column)
            if index >= 0:
                values = optional("pyarrow.compute").list_element(values, index)
            part[name] = numbers(values)
        return part


def _column_bytes(stream: Any) -> dict[str, int]:
    """Return the packed bytes of each column of a file that Arrow has opened.

    Arrow's objects of column chunks end the process where a statistic in the file is broken, and so
    does its writer of metadata where orders of columns are, so neither is asked.
    """
    stream.seek(-8, os.SEEK_END)
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(-8 - size, os.SEEK_END)
    found: dict[str, int] = {}
    try:
        for group in _Footer(stream.read(size)).value(_STRUCT, _SIZES).get(4, ()):
            for chunk in group.get(1, ()):
                column = chunk.get(3, {})
                path = b".".join(column.get(3, ())).decode(errors="replace")
                name = path.removesuffix(".list.element").removesuffix(".list.item")
                found[name] = found.get(name, 0) + column.get(7, 0)
    except (LookupError, TypeError, AttributeError, RecursionError):
        raise OSError("its footer is broken") from None
    return found


_STRUCT = 12
_SIZES: dict[int, Any] = {
    4: {1: {3: {3: {}, 7: {}}}}
}  # row groups: columns: metadata: path in the schema, packed bytes


class _Footer:
    """Some fields of a Parquet file's metadata, by their numbers in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def value(self, kind: int, wanted: dict[int, Any] | None) -> Any:
        """Return what comes next: structures as dicts of the wanted fields.

        None: it is passed over.
        """
        data = self._data
        if kind == _STRUCT:
            found: dict[int, Any] = {}
            field = 0
            while head := data[self._at]:
                self._at += 1
                field = field + (head >> 4) if head >> 4 else self._number() >> 1
                inner = None if wanted is None else wanted.get(field)
                value = self.value(head & 15, inner)
                if inner is not None:
                    found[field] = value
            self._at += 1
            return found
        if kind <= 2:  # in a structure; nothing follows
            return kind == 1
        if 4 <= kind <= 6:
            number = self._number()
            return (number >> 1) ^ -(number & 1)
        if kind == 8:
            size = self._number()
            self._at += size
            return data[self._at - size : self._at]
        if kind in (9, 10):  # lists and sets
            head = data[self._at]
            self._at += 1
            count = head >> 4 if head < 0xF0 else self._number()
            if head & 15 <= 3:  # a byte each
                self._at += count
                return []
            return [self.value(head & 15, wanted) for _ in range(count)]
        if kind == 11:  # a map
            count = self._number()
            kinds = data[self._at] if count else 0
            self._at += count > 0
            return [self.value(of, None) for _ in range(count) for of in (kinds >> 4, kinds & 15)]
        self._at += {3: 1, 7: 8, 13: 16}[kind]
        return None

    def _number(self) -> int:
        data, at = self._data, self._at
        value, shift = data[at] & 127, 0
        while data[at] >= 128:
            at, shift = at + 1, shift + 7
            value |= (data[at] & 127) << shift
        self._at = at + 1
        return value


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file where Arrow, or the file system of an address, cannot read it."""
    try:
        yield
    except MinidynError:
        raise
    except (optional("pyarrow").ArrowException, OSError, UnicodeError) as error:
        raise DescriptionError(f"{path}: not a whole Parquet file ({error})") from None
    except Exception as error:
        if isinstance(path, Path):
            raise
        what = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
        raise DescriptionError(f"{path}: cannot be read ({what})") from None


def _source(path: Path) -> Any:
    """Return what Arrow opens: a path of this machine, or a remote file."""
    return path if isinstance(path, Path) else path.open("rb")


def _is_list(kind: Any) -> bool:
    pa = optional("pyarrow")
    is_list = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return bool(is_list and _is_number(kind.value_type))


def _is_number(kind: Any) -> bool:
    pa = optional("pyarrow")
    number = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return bool(
        number
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_decimal(kind)
    )
