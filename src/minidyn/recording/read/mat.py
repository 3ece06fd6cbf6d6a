"""MATLAB files: version 5 to 7.2 through SciPy, version 7.3, which is HDF5, through h5py.

Arrays of numbers, alone or in structs, are columns; Simulink's "structure with time" is read by the
labels of its signals. A matrix may have its samples along either side. Objects of MATLAB classes
(table, timeseries) are stored in a form that MATLAB alone reads.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import DescriptionError, optional
from minidyn.recording.read.tables import ArrayTable, check_unpacked

_HDF5 = b"\x89HDF\r\n\x1a\n"
_JOINTS = "joint_names"
_MATRIX, _COMPRESSED = 14, 15  # how variables begin, plain and packed
_NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13))  # types of numbers, INT8 to UINT64
_LETTERS = _NUMBERS | {16, 17, 18}  # and text
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _HANDLE, _OPAQUE = (
    1,
    2,
    3,
    4,
    5,
    16,
    17,
)  # classes of matrices
_DEEPEST = 50  # matrices inside each other
_PIECE = 1 << 16
_Named = tuple[str, NDArray[Any]]


def mat_table(path: Path) -> ArrayTable:
    """Return the arrays of a MATLAB file as a table.

    One whose samples are its columns is turned.
    """
    with path.open("rb") as file:
        head = file.read(512 + len(_HDF5))
    read = _version_7_3 if head.startswith(_HDF5) or head[512:] == _HDF5 else _version_5
    found = dict(read(path))
    joints = next(
        (value for key, value in found.items() if key.rpartition(".")[2] == _JOINTS), np.zeros(0)
    )
    arrays = {
        key: array for key, array in found.items() if array.dtype.kind in "fiub" and array.ndim
    }
    parents = {key.rpartition(".")[0] for key in arrays}
    if len(parents) == 1:  # one struct holds everything: its name says nothing
        arrays = {key.rpartition(".")[2]: array for key, array in arrays.items()}
    sizes = [size for array in arrays.values() for size in array.shape]
    if not sizes:
        raise DescriptionError(
            f"{path}: no arrays of numbers. Tables and timeseries of MATLAB must be saved as "
            "arrays or in a struct: log.t = ...; log.q = ...; save('log.mat', '-struct', 'log')"
        )
    rows = next(
        (max(array.shape) for key, array in arrays.items() if key in ("t", "time")), max(sizes)
    )
    turned = {
        key: array.T if len(array) != rows and array.shape[-1] == rows else array
        for key, array in arrays.items()
    }
    return ArrayTable(
        path, turned, [str(name) for name in joints.ravel()] if joints.dtype.kind in "UO" else ()
    )


def _version_5(path: Path) -> Iterator[_Named]:
    from scipy.io import loadmat  # rarely needed
    from scipy.io.matlab import matfile_version

    try:
        check_unpacked(
            path, _unpacked_size(path), "save it uncompressed: save('log.mat', ..., '-v6')"
        )
        if matfile_version(path)[0] == 1:
            _check_tags(path)
        content = loadmat(path, squeeze_me=True, struct_as_record=True)
    except DescriptionError:
        raise
    except Exception as error:  # SciPy raises whatever its pieces do
        raise DescriptionError(f"{path}: not a whole MATLAB file ({error})") from None
    for key, value in content.items():
        if not key.startswith("__"):
            yield from _in_struct(key, np.asarray(value))


def _parts(file: BinaryIO) -> Iterator[tuple[str, int, int]]:
    """Yield (byte order, kind, end) of the parts of a file, which stands at the body of each."""
    file.seek(126)
    order = "<" if file.read(2) == b"IM" else ">"
    while len(head := file.read(8)) == 8:
        kind, size = struct.unpack(f"{order}2I", head)
        end = file.tell() + size
        yield order, kind, end
        file.seek(end)


def _unpacked_size(path: Path) -> int:
    """Return the bytes of all compressed variables of a file, unpacked piece by piece and thrown
    away.
    """
    total = 0
    with path.open("rb") as file:
        for _, kind, end in _parts(file):
            if kind == _COMPRESSED:
                stream = zlib.decompressobj()
                while not stream.eof and (piece := file.read(min(_PIECE, end - file.tell()))):
                    while piece and not stream.eof:
                        total += len(stream.decompress(piece, _PIECE))
                        piece = stream.unconsumed_tail
    return total


def _check_tags(path: Path) -> None:
    """Raise where a part of a file is not what it says.

    SciPy believes the types of numbers, and crashes.
    """
    with path.open("rb") as file:
        for order, kind, end in _parts(file):
            if kind == _COMPRESSED:
                body = zlib.decompressobj().decompress(file.read(end - file.tell()))
                _Tags(io.BytesIO(body), order, len(body)).matrix()
            else:
                file.seek(-8, io.SEEK_CUR)
                _Tags(file, order, end).matrix()


class _Tags:
    """The parts of one variable, gone through as SciPy does."""

    def __init__(self, file: BinaryIO, order: str, size: int) -> None:
        self._file, self._order, self._size = file, order, size

    def _words(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"{self._order}{count}I", self._file.read(4 * count))

    def _part(self, kinds: frozenset[int]) -> bytes | int:
        """Go past a part of one of these types.

        Return its bytes where they are few, else how many there are.
        """
        (word,) = self._words(1)
        kind, size = word & 0xFFFF if word >> 16 else word, word >> 16
        small = bool(size)
        if not small:
            (size,) = self._words(1)
        if kind not in kinds or (small and size > 4) or self._file.tell() + size > self._size:
            raise ValueError(
                f"a part of type {kind} and {size} bytes, where one of another is expected"
            )
        room = 4 if small else -(-size // 8) * 8
        if room <= 256:
            return self._file.read(room)[:size]
        self._file.seek(room, io.SEEK_CUR)
        return size

    def _integers(self) -> tuple[int, ...]:
        found = self._part(frozenset((5, 6)))
        if not isinstance(found, bytes) or len(found) % 4:
            raise ValueError("too many sides")
        return struct.unpack(f"{self._order}{len(found) // 4}i", found)

    def _length(self) -> int:
        found = self._part(frozenset((1, 2, 16)))
        return len(found) if isinstance(found, bytes) else found

    def matrix(self, depth: int = 0) -> None:
        """Go through a matrix and those in it."""
        kind, size = self._words(2)
        if kind != _MATRIX or depth > _DEEPEST:
            raise ValueError(
                "no matrix where one is expected" if kind != _MATRIX else "nested too deeply"
            )
        if not size:
            return
        _, _, flags, _ = self._words(4)
        what, complex_ = flags & 0xFF, bool(flags >> 11 & 1)
        if what == _OPAQUE:
            for _ in range(3):
                self._length()
            self.matrix(depth + 1)
            return
        sides = self._integers()
        count = math.prod(sides)
        if (
            len(sides) < 2
            or min(sides) < 0
            or (count > self._size and what in (_CELL, _STRUCT, _OBJECT, _CHAR))
        ):
            raise ValueError(f"a matrix of sides {sides}")
        self._length()
        if what in (_STRUCT, _OBJECT):
            if what == _OBJECT:
                self._length()
            width = self._integers()
            if len(width) != 1 or width[0] < 1:
                raise ValueError("a struct without names of fields")
            count *= self._length() // width[0]
        if what in (_CELL, _STRUCT, _OBJECT, _HANDLE):
            for _ in range(1 if what == _HANDLE else count):
                self.matrix(depth + 1)
            return
        for _ in range((2 if what == _SPARSE else 0) + 1 + (complex_ and what != _CHAR)):
            self._part(_LETTERS if what == _CHAR else _NUMBERS)


def _in_struct(key: str, value: NDArray[Any]) -> Iterator[_Named]:
    """Yield the arrays of a variable.

    Itself, or the fields of a struct and of those of an array of structs.
    """
    if value.dtype.names is None:
        yield key, value
        return
    for index, one in enumerate(np.atleast_1d(value)):
        fields = {name: np.asarray(_bare(one[name])) for name in value.dtype.names}
        label = str(fields["label"]) if fields.get("label", np.zeros(0)).dtype.kind == "U" else ""
        if "values" in fields and label:  # a signal of Simulink
            yield f"{key.rpartition('.')[0]}.{label}".lstrip("."), fields["values"]
            continue
        inner = key if value.ndim == 0 else f"{key}{index + 1}"
        for name, field in fields.items():
            yield from _in_struct(f"{inner}.{name}", field)


def _bare(value: Any) -> Any:
    return (
        value.item()
        if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0
        else value
    )


def _version_7_3(path: Path) -> Iterator[_Named]:
    h5py = optional("h5py")
    try:
        with h5py.File(path, "r") as file:
            yield from _in_group(file, "", file)
    except DescriptionError:
        raise
    except (OSError, LookupError, RuntimeError, ValueError, TypeError) as error:  # so does h5py
        what = "nested too deeply" if isinstance(error, RecursionError) else error
        raise DescriptionError(f"{path}: not a whole MATLAB file ({what})") from None


def _in_group(group: Any, key: str, file: Any) -> Iterator[_Named]:
    """Yield the arrays of an HDF5 group; MATLAB writes them with their sides exchanged."""
    for name in group:
        if name.startswith("#") or type(group.get(name, getlink=True)).__name__ == "ExternalLink":
            continue  # what MATLAB keeps for itself; other files
        item = group[name]
        here = f"{key}.{name}".lstrip(".")
        if hasattr(item, "items"):
            yield from _in_group(item, here, file)
        elif not hasattr(item, "nbytes"):  # the name of a type
            continue
        elif name == _JOINTS and item.dtype.kind == "O":
            names = [
                "".join(map(chr, np.ravel(file[reference][()]))) for reference in np.ravel(item[()])
            ]
            yield here, np.array(names)
        elif (
            item.attrs.get("MATLAB_class", b"double") not in (b"char", b"cell")
            and item.dtype.kind in "fiub"
        ):
            if item.external or item.is_virtual:
                raise DescriptionError(
                    f"{file.filename}: the values of {here!r} are in other files; copy them in"
                )
            check_unpacked(
                Path(file.filename),
                item.nbytes,
                "save it uncompressed: save('log.mat', ..., '-v6')",
            )
            yield here, np.squeeze(np.asarray(item[()]).T)
