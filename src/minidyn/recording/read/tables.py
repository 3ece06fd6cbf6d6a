"""Logs as tables: named columns of numbers, handed out in batches so that large files can stay on
disk.

Here: what a table is, NumPy archives, HDF5 and Zarr, and several tables side by side.
"""

from __future__ import annotations

import json
import math
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, optional
from minidyn.notices import Notice, info
from minidyn.recording.lazy import CHUNK
from minidyn.recording.recording import SKETCH
from minidyn.recording.sketch import Sketch

_ABOUT = (
    "joint_names",
    "notices",
    "starts",
    "prepared",
    SKETCH,
)  # keys of an archive that are no samples

TIME_ORIGIN = info(
    "recording.time_origin", "Times count from the first sample, not from the epoch of the log."
)
TIME_SORTED = info(
    "recording.time_sorted",
    "Samples were not in the order of their times and were sorted.",
    "Check the logger, or the column of time.",
)

WIDEST = 10_000
"""Most columns of a log; arrays of more (pictures) are no signals of joints."""
_UNPACKED = (
    100,
    100_000_000,
)  # times the size of a file, and bytes beside: how much it may hold unpacked


def check_unpacked(path: Path, size: int, advice: str) -> None:
    """Refuse a packed file of few bytes that holds gigabytes, before they are allocated.

    `advice` says what to do.
    """
    times, beside = _UNPACKED
    if size > times * path.stat().st_size + beside:
        raise DescriptionError(
            f"{path}: holds {size / 1e6:.0f} MB unpacked, more than {times} times the file and "
            f"{beside // 10**6} MB beside; {advice}"
        )


Columns = dict[str, Array]
"""Columns by name, each (N,)."""


class LogTable(ABC):
    """Named columns of one log."""

    path: Path
    names: tuple[str, ...]  # of the columns that can hold numbers
    joint_names: tuple[str, ...] = ()  # what the file calls its joints; () where it does not say
    notices: tuple[Notice, ...] = ()  # what was found on opening it
    prepared: bool = False  # whether it says that minidyn prepared what it holds
    sketch: Sketch | None = None  # of what was logged, where it holds what minidyn prepared of that
    own: bool = False  # whether names are exact and times seconds: files minidyn wrote, and bags
    # of a file without columns: what each column was there, and by further keys what else is to be
    # shown (a topic)
    labels: Mapping[str, str] = MappingProxyType({})
    repeated: Mapping[str, str] = MappingProxyType(
        {}
    )  # columns whose names the file has before: that name
    row: str = "row"  # what messages call one
    _rows: int

    def count(self) -> int:
        """Return the number of rows."""
        return self._rows

    def _recognise(self) -> None:
        """See from the columns whether minidyn wrote the table.

        Then names of joints are what follows "q." exactly.
        """
        self.joint_names = tuple(
            name.removeprefix("q.") for name in self.names if name.startswith("q.")
        )
        self.own = "t" in self.names and bool(self.joint_names)
        self.joint_names *= self.own

    @abstractmethod
    def batches(
        self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[Columns]:
        """Yield the columns from row `begin` to `end`, at most `samples` rows at a time."""

    def whole(self, names: Sequence[str]) -> Columns:
        """Return the columns in memory."""
        parts = list(self.batches(names, 1 << 30))
        if not parts:  # whatever its head says
            raise DescriptionError(f"{self.path}: no samples; the table has no rows")
        return stacked(parts)

    def size_of(self, names: Sequence[str]) -> tuple[int, int]:
        """Return the bytes that are read for some columns, and those of all.

        Zeros where that is not known.
        """
        return 0, 0

    def cuts(self) -> Sequence[int]:
        """Return rows, rising, from which a part can be read without reading what is before.

        None where it is text.
        """
        return ()

    def place(self, row: int) -> str:
        """Return where a row, counted from 0, stands in the file, for messages."""
        return f"{self.row} {row}"


_BROKEN = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RuntimeError)


@contextmanager
def own_notes(path: Path) -> Iterator[None]:
    """Say so where what minidyn wrote beside the samples of a file was changed."""
    try:
        yield
    except _BROKEN as error:
        what = f"{type(error).__name__}: {str(error)[:80]}"
        raise DescriptionError(
            f"{path}: what minidyn noted in it (names, notices, starts) is broken ({what})"
        ) from None


class ArrayTable(LogTable):
    """Named arrays as a table: an array (N, k) is k columns."""

    row = "sample"

    def __init__(
        self, path: Path, arrays: Mapping[str, Any], joint_names: Sequence[str] = ()
    ) -> None:
        self.path, self._arrays, self.joint_names = path, dict(arrays), tuple(joint_names)
        lengths = [len(array) for array in self._arrays.values() if array.ndim]
        if not lengths or not max(lengths):
            raise DescriptionError(
                f"{path}: no samples; it holds {', '.join(self._arrays) or 'nothing'}"
            )
        main = next(
            (key for key in ("t", "time", "q") if key in self._arrays and self._arrays[key].ndim),
            None,
        )
        self._rows = len(self._arrays[main]) if main else max(set(lengths), key=lengths.count)
        self._source: dict[str, tuple[str, int]] = {}
        for key, array in self._arrays.items():
            if not array.ndim or len(array) != self._rows or array.dtype.kind not in "fiub":
                continue
            width = math.prod(array.shape[1:])
            if width > WIDEST:
                continue
            labels = [f"{key}.{joint}" for joint in self.joint_names]
            if width != len(labels) or "telemetry" in key:
                labels = [f"{key}[{k}]" for k in range(width)]
            self._source |= {
                label: (key, k) for k, label in enumerate([key] if array.ndim == 1 else labels)
            }
        self.names = tuple(self._source)

    def batches(
        self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[Columns]:
        """Yield the columns."""
        stop = min(end, self._rows)
        for low in range(begin, stop, samples):
            part: Columns = {}
            cut: dict[str, Any] = {}
            for name in names:
                key, index = self._source[name]
                if key not in cut:
                    array = self._arrays[key][low : min(low + samples, stop)]
                    cut[key] = np.asarray(array, dtype=float).reshape(len(array), -1)
                part[name] = cut[key][:, index]
            yield part

    def cuts(self) -> Sequence[int]:
        """Return rows that are a chunk apart: it is read in place."""
        return range(CHUNK, self._rows, CHUNK)


_BROKEN_ARCHIVE: tuple[type[Exception], ...] = (
    *_BROKEN,
    OSError,
    EOFError,
    SyntaxError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass
class _Packed:
    """A compressed array of an archive.

    Its shape is known, its values are read when they are asked for.
    """

    path: Path
    member: zipfile.ZipInfo
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    begin: int  # of the values in the member

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, part: Any) -> NDArray[Any]:
        found: NDArray[Any] = self._values[part]
        return found

    @cached_property
    def _values(self) -> NDArray[Any]:
        check_unpacked(self.path, self.member.file_size, "save it without compression: np.savez")
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
                stream.read(self.begin)
                values = np.frombuffer(stream.read(), dtype=self.dtype)
            return values.reshape(self.shape, order="F" if self.fortran else "C")
        except _BROKEN_ARCHIVE as error:
            raise DescriptionError(f"{self.path}: not a whole NumPy archive ({error})") from None


class NpzTable(ArrayTable):
    """A NumPy archive as a table. Uncompressed arrays are read where they lie on disk."""

    def __reduce__(self) -> tuple[Any, ...]:
        return NpzTable, (self.path,)  # another process opens the file

    def __init__(self, path: Path) -> None:
        try:
            arrays = _members(path)
            small = {key: arrays.pop(key)[()] for key in _ABOUT if key in arrays}
        except DescriptionError:
            raise
        except _BROKEN_ARCHIVE as error:
            raise DescriptionError(f"{path}: not a whole NumPy archive ({error})") from None
        with own_notes(path):
            joints = [str(name) for name in small.get("joint_names", ())]
            self.notices = tuple(_notice(str(text)) for text in small.get("notices", ()))
            self.prepared = bool(np.all(small.get("prepared", False)))
            self.sketch = Sketch.from_json(json.loads(str(small.get(SKETCH, "null"))))
            starts = small.get("starts", np.zeros(1, dtype=int)).astype(int)
        super().__init__(path, arrays, joints)
        if starts.ndim == 1 and len(starts) > 1:
            if starts.min() < 0 or starts.max() >= self._rows:
                raise DescriptionError(
                    f"{path}: starts: expected indices below {self._rows}, found {starts.max()}"
                )
            run = np.zeros(self._rows)
            run[starts[1:]] = 1
            self._arrays["run"] = np.cumsum(run)
            self._source["run"] = ("run", 0)
        self.names = tuple(self._source)
        self.own = "t" in self._source and any(key == "q" for key, _ in self._source.values())


_NAMES = "joint_names"


class StoredTable(ArrayTable):
    """The arrays of an HDF5 file or a Zarr store as a table, read in place, a slice at a time.

    Arrays of one group are the columns: t (N,), q (N, n), tau (N, n); "joint_names", a data set or
    an attribute, names the joints.
    """

    def __init__(self, path: Path) -> None:
        arrays, joints = dict[str, Any](), list[str]()
        for name, value in _zarr(path) if path.suffix.lower() == ".zarr" else _hdf5(path):
            if name.rpartition(".")[2] == _NAMES:
                names = np.asarray(value[...]).ravel().tolist()
                joints = [one.decode() if isinstance(one, bytes) else str(one) for one in names]
            elif value.ndim and value.dtype.kind in "fiub":
                arrays[name] = value
        if (
            len({name.rpartition(".")[0] for name in arrays}) == 1
        ):  # one group holds everything: its name says nothing
            arrays = {name.rpartition(".")[2]: value for name, value in arrays.items()}
        super().__init__(path, arrays, joints)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredTable, (self.path,)  # another process opens the file


def _hdf5(path: Path) -> Iterator[tuple[str, Any]]:
    h5py = optional("h5py")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DescriptionError(f"{path}: not a whole HDF5 file ({error})") from None
    found: list[tuple[str, Any]] = []
    file.visititems(
        lambda name, value: found.append((name, value)) if isinstance(value, h5py.Dataset) else None
    )
    if _NAMES in file.attrs:
        found.append((_NAMES, np.asarray(file.attrs[_NAMES])))
    return ((name.replace("/", "."), value) for name, value in found)


class _Sized:
    """An array of Zarr that knows its length."""

    def __init__(self, array: Any) -> None:
        self.array, self.ndim, self.shape, self.dtype = array, array.ndim, array.shape, array.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, part: Any) -> Any:
        return self.array[part]


def _zarr(path: Path) -> Iterator[tuple[str, Any]]:
    zarr = optional("zarr")
    try:
        group = zarr.open_group(str(path), mode="r")
        members = group.members(max_depth=None)
        found: list[tuple[str, Any]] = [
            (name, _Sized(value)) for name, value in members if hasattr(value, "dtype")
        ]
    except (OSError, ValueError, KeyError) as error:
        raise DescriptionError(
            f"{path}: not a Zarr store ({type(error).__name__}: {error})"
        ) from None
    if _NAMES in group.attrs:
        found.append((_NAMES, np.asarray(group.attrs[_NAMES])))
    return ((name.replace("/", "."), value) for name, value in found)


class JoinedTable(LogTable):
    """Several tables side by side: one run spread over several files.

    Columns are called FILE:NAME.
    """

    def __init__(self, tables: Sequence[LogTable]) -> None:
        self._tables = tuple(tables)
        stems = [table.path.stem for table in tables]
        self._where: dict[str, tuple[int, str]] = {}
        for k, (stem, table) in enumerate(zip(stems, tables)):
            label = stem if stems.count(stem) == 1 else f"{stem}{k}"
            self._where |= {f"{label}:{name}": (k, name) for name in table.names}
        self.path = tables[0].path
        self.names = tuple(self._where)
        self.joint_names = next((table.joint_names for table in tables if table.joint_names), ())
        self.notices = tuple(notice for table in tables for notice in table.notices)
        self.prepared = all(table.prepared for table in tables)

    def count(self) -> int:
        """Return the number of rows; files of different lengths are refused."""
        counts = [table.count() for table in self._tables]
        if len(set(counts)) > 1:
            lengths = ", ".join(
                f"{table.path.name} {count}" for table, count in zip(self._tables, counts)
            )
            raise DescriptionError(
                f"{self.path}: files of one run must have as many rows each; found {lengths}. "
                "Give together=False where they are runs of their own"
            )
        return counts[0]

    def batches(
        self, names: Sequence[str], samples: int, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[Columns]:
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
    """Yield the same rows in batches of exactly `samples` but the last, so that several streams
    keep step.
    """
    held: list[Columns] = []
    rows = 0
    for part in parts:
        held.append(part)
        rows += len(next(iter(part.values())))
        while rows >= samples:
            whole = stacked(held)
            yield {name: values[:samples] for name, values in whole.items()}
            held = [{name: values[samples:] for name, values in whole.items()}]
            rows -= samples
    if rows:
        yield stacked(held)


def stacked(parts: Sequence[Columns]) -> Columns:
    """Return batches of the same columns as one."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _notice(text: str) -> Notice:
    """Return a notice of an archive; older ones hold plain sentences."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return Notice.from_json(value if isinstance(value, dict) else text)


def _members(path: Path) -> dict[str, Any]:
    """Return the arrays of an archive.

    Mapped from disk where stored plain, read when asked for where compressed.
    """
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for info in archive.infolist():
            key = info.filename.removesuffix(".npy")
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, fortran, dtype = read(member)
                header = member.tell()
                if dtype.hasobject:
                    raise ValueError(f"array {key!r} holds Python objects")
                if header + math.prod(shape) * dtype.itemsize != info.file_size:
                    raise ValueError(f"array {key!r} is not as long as its shape {shape} says")
                if info.compress_type != zipfile.ZIP_STORED or not info.file_size - header:
                    arrays[key] = _Packed(path, info, shape, fortran, dtype, header)
                    continue
            file.seek(info.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            offset = info.header_offset + 30 + name + extra + header
            arrays[key] = np.memmap(
                path,
                dtype=dtype,
                mode="r",
                offset=offset,
                shape=shape,
                order="F" if fortran else "C",
            )
    return arrays


def numbers(values: Any) -> Array:
    """Return an Arrow column as floats.

    Dates and durations in nanoseconds, NaN where there is nothing.
    """
    pa = optional("pyarrow")
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("ns")).cast(pa.int64())
    elif pa.types.is_duration(values.type):
        values = values.cast(pa.duration("ns")).cast(pa.int64())
    elif pa.types.is_decimal(values.type) or pa.types.is_boolean(values.type):
        values = values.cast(pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=float)
