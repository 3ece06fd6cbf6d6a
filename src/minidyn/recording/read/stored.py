"""HDF5 files and Zarr stores: named arrays that are read in place, a slice at a time.

Arrays of one group are the columns: t (N,), q (N, n), tau (N, n), or any names that the reader knows; "joint_names" as
a data set or an attribute names the joints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.errors import DescriptionError, optional
from minidyn.recording.read.tables import ArrayTable

_JOINTS = "joint_names"


class StoredTable(ArrayTable):
    """The arrays of an HDF5 file or a Zarr store as a table."""

    def __init__(self, path: Path) -> None:
        arrays, joints = dict[str, Any](), list[str]()
        for name, value in _zarr(path) if path.suffix.lower() == ".zarr" else _hdf5(path):
            if name.rpartition(".")[2] == _JOINTS:
                names = np.asarray(value[...]).ravel().tolist()
                joints = [one.decode() if isinstance(one, bytes) else str(one) for one in names]
            elif value.ndim and value.dtype.kind in "fiub":
                arrays[name] = value
        if len({name.rpartition(".")[0] for name in arrays}) == 1:  # one group holds everything: its name says nothing
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
    file.visititems(lambda name, value: found.append((name, value)) if isinstance(value, h5py.Dataset) else None)
    if _JOINTS in file.attrs:
        found.append((_JOINTS, np.asarray(file.attrs[_JOINTS])))
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
        found: list[tuple[str, Any]] = [(name, _Sized(value)) for name, value in members if hasattr(value, "dtype")]
    except (OSError, ValueError, KeyError) as error:
        raise DescriptionError(f"{path}: not a Zarr store ({type(error).__name__}: {error})") from None
    if _JOINTS in group.attrs:
        found.append((_JOINTS, np.asarray(group.attrs[_JOINTS])))
    return ((name.replace("/", "."), value) for name, value in found)
