"""Recordings to files and back: NumPy archives, Parquet and CSV.

An archive (.npz) has the keys t, q, tau, dq, ddq, joint_names, starts, notices and telemetry.NAME. A table (.parquet,
.csv) has the columns t, run, then q.JOINT, dq.JOINT, ddq.JOINT, tau.JOINT and telemetry.NAME.K; Parquet also keeps the
notices.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.recording.recording import Recording

_SIGNALS = ("q", "dq", "ddq", "tau")
_ENDINGS = (".npz", ".parquet", ".csv")


def write_recording(recording: Recording, path: Path) -> None:
    """Write a recording whole or not at all."""
    suffix = path.suffix.lower()
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, **_archive(recording))
    elif suffix in (".parquet", ".csv"):
        import pyarrow as pa

        table = pa.table(_columns(recording), metadata={"minidyn.notices": json.dumps(recording.notices)})
        if suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(table, buffer)
        else:
            from pyarrow import parquet

            parquet.write_table(table, buffer)
    else:
        raise DescriptionError(f"{path}: the name ends with {suffix!r}; a recording is saved as {', '.join(_ENDINGS)}")
    write_atomically(path, buffer.getvalue())


def read_own_recording(path: Path) -> Recording:
    """Read a file that `Recording.save` wrote.

    Raises:
        DescriptionError: The file is missing, broken, or not one of ours.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise DescriptionError(f"{path}: no such file")
    if suffix == ".npz":
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return _from_archive({key: archive[key] for key in archive.files}, path)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            if isinstance(error, DescriptionError):
                raise
            raise DescriptionError(f"{path}: not a whole NumPy archive ({error})") from None
    if suffix not in (".parquet", ".csv"):
        raise DescriptionError(f"{path}: the name ends with {suffix!r}; expected one of {', '.join(_ENDINGS)}")
    import pyarrow as pa

    try:
        if suffix == ".csv":
            from pyarrow import csv

            table = csv.read_csv(path)
        else:
            from pyarrow import parquet

            table = parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DescriptionError(f"{path}: cannot be read ({error})") from None
    notices = json.loads((table.schema.metadata or {}).get(b"minidyn.notices", b"[]"))
    return _from_columns({name: table[name].to_numpy() for name in table.column_names}, path, notices)


def _archive(recording: Recording) -> dict[str, Any]:
    content: dict[str, Any] = {"t": recording.t, "joint_names": np.array(recording.joint_names)}
    content |= {name: getattr(recording, name) for name in _SIGNALS if getattr(recording, name) is not None}
    content |= {f"telemetry.{name}": array for name, array in recording.telemetry.items()}
    content["starts"] = np.array(recording.starts, dtype=int)
    content["notices"] = np.array(recording.notices, dtype=str)
    return content


def _columns(recording: Recording) -> dict[str, Array]:
    run = np.zeros(len(recording), dtype=int)
    run[list(recording.starts[1:])] = 1
    columns: dict[str, Any] = {"t": recording.t, "run": np.cumsum(run)}
    for signal in _SIGNALS:
        array = getattr(recording, signal)
        if array is not None:
            columns |= {f"{signal}.{name}": array[:, k] for k, name in enumerate(recording.joint_names)}
    for name, array in recording.telemetry.items():
        flat = array.reshape(len(array), -1)
        columns |= {f"telemetry.{name}.{k}": flat[:, k] for k in range(flat.shape[1])}
    return columns


def _from_archive(content: dict[str, Any], path: Path) -> Recording:
    for key in ("t", "q"):
        if key not in content:
            raise DescriptionError(f"{path}: no key {key!r}; found {', '.join(sorted(content)[:8])}")
    names = content.get("joint_names")
    return Recording(
        content["t"],
        content["q"],
        content.get("tau"),
        dq=content.get("dq"),
        ddq=content.get("ddq"),
        joint_names=None if names is None else [str(name) for name in names],
        starts=[int(start) for start in content.get("starts", (0,))],
        telemetry={key[10:]: value for key, value in content.items() if key.startswith("telemetry.")},
        notices=[str(notice) for notice in content.get("notices", ())],
    )


def _from_columns(columns: dict[str, Any], path: Path, notices: list[str]) -> Recording:
    names = [name[2:] for name in columns if name.startswith("q.")]
    if "t" not in columns or not names:
        raise DescriptionError(f"{path}: expected columns t and q.JOINT; found {', '.join(list(columns)[:8])}")
    signals: dict[str, Any] = {}
    for signal in _SIGNALS:
        present = [f"{signal}.{name}" for name in names if f"{signal}.{name}" in columns]
        if present and len(present) != len(names):
            raise DescriptionError(f"{path}: {signal} has columns for {len(present)} of {len(names)} joints")
        signals[signal] = np.stack([columns[name] for name in present], axis=1) if present else None
    telemetry: dict[str, list[Any]] = {}
    for name, values in columns.items():
        if name.startswith("telemetry."):
            telemetry.setdefault(name[10:].rpartition(".")[0], []).append(values)
    run = columns.get("run", np.zeros(len(columns["t"])))
    starts = [0, *(np.flatnonzero(np.diff(run)) + 1).tolist()]
    return Recording(
        columns["t"],
        **signals,
        joint_names=names,
        starts=starts,
        telemetry={name: np.stack(parts, axis=1) for name, parts in telemetry.items()},
        notices=notices,
    )
