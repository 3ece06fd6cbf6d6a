"""Logs of any format written as Parquet in folders by robot and log.

The form that is read fastest, and in parts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from minidyn.errors import DescriptionError, UnknownName, optional
from minidyn.files import new_folder
from minidyn.formats.load import RobotLike, as_robot
from minidyn.model.robot import Robot
from minidyn.notices import Notice, notices_json
from minidyn.recording.lazy import ON_ERROR
from minidyn.recording.read.places import content_hash
from minidyn.recording.read.read import log_files, read_recording, tried
from minidyn.recording.recording import Recording

if TYPE_CHECKING:
    from concurrent.futures import Executor

# rows that can be read without those before: a window of the filter and what overlaps is few of
# them
_GROUP = 1 << 16

_Written = tuple[Path, tuple[Notice, ...]]


class Converted(list[Path]):
    """The files that were written, and what to know of them."""

    def __init__(self, files: Iterable[Path], notices: tuple[Notice, ...]) -> None:
        super().__init__(files)
        self.notices = notices


def convert(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    robot: RobotLike | None = None,
    *,
    name: str | None = None,
    executor: Executor | None = None,
    on_error: str = "stop",
    **reading: Any,
) -> Converted:
    """Write logs as Parquet.

    OUTPUT/robot=NAME/log=STEM/part-0.parquet, in SI units, joint side, one file a log. Logs are
    read and written piece by piece. The metadata of each file hold the robot's name, the options
    that it was read with, what was noticed, and the log's path and SHA-256, and its time of writing
    is the log's. What was written from the same log before is replaced, whole or not at all;
    another log of the same name gets a name of its own.

    Args:
        paths: Logs: files, patterns, folders, addresses.
        output: Folder to write into.
        robot: Whose logs they are, as for :func:`minidyn.read_recording`.
        name: Of this robot among others of its type, for the folder; None: the robot's name,
            "unknown" without one.
        executor: Any of concurrent.futures, whose workers convert a log each; they must see
            `output` at the same path.
        on_error: "stop", or "skip": logs that cannot be read are left out, and a notice names them.
        **reading: Options of :func:`minidyn.read_recording`.

    Returns:
        The files that were written, a list, with `notices`: logs without torques, and what was
        found while reading.
    """
    if on_error not in ON_ERROR:
        raise UnknownName("on_error", on_error, ON_ERROR)
    known = None if robot is None else as_robot(robot)
    files = log_files(paths, on_error)
    folder = Path(output) / f"robot={quote(name or (known.name if known else 'unknown'), safe='')}"
    pairs: dict[Path, Path] = {}  # file to write: log
    for file in files:
        stem = Path(file.name).stem
        while (
            target := folder / f"log={quote(stem, safe='')}" / "part-0.parquet"
        ) in pairs or _of_another(target, file):
            stem += "_"
        pairs[target] = file
    work, task = list(pairs.items()), partial(_write, known, reading)
    made: list[_Written | None] = [None] * len(work)
    if executor is not None:
        from minidyn.recording.engine import of_each  # only where it is asked for

        made = of_each(executor, task, work)
    notices: list[Notice] = []
    written = tried(files, lambda k: made[k] or task(work[k]), on_error, notices)
    told = (notice for _, some in written for notice in some)
    return Converted([target for target, _ in written], tuple(dict.fromkeys((*notices, *told))))


def _of_another(target: Path, file: Path) -> bool:
    """Say whether a file is there that was not written from this log."""
    if not os.path.exists(target):  # nor does it where one may not look: who writes there says so
        return False
    if isinstance(file, Path) and target.samefile(file):
        raise DescriptionError(f"{file}: would be replaced by itself; give another --output")
    try:
        source = json.loads(
            optional("pyarrow.parquet").read_schema(target).metadata[b"minidyn.source"]
        )
        return bool(source["path"] != _place(file))
    except (OSError, ValueError, LookupError, TypeError):
        return True


def _place(file: Path) -> str:
    return os.path.abspath(file) if isinstance(file, Path) else str(file)


def _write(robot: Robot | None, reading: Mapping[str, Any], work: tuple[Path, Path]) -> _Written:
    """Write one log, given behind its file; return what to know of it."""
    target, file = work
    pa, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    log = read_recording(file, robot, lazy=True, **reading)
    about = {
        "minidyn.notices": json.dumps(notices_json(log.notices)),
        "minidyn.prepared": json.dumps(log.prepared),
        "minidyn.robot": json.dumps(None if robot is None else robot.name),
        "minidyn.source": json.dumps(
            {"path": _place(file), "sha256": None if file.is_dir() else content_hash(file)}
        ),
        "minidyn.reading": json.dumps(dict(reading), default=str),
    }
    with new_folder(target.parent) as scratch:
        writer = None
        with ExitStack() as stack:
            for number, run in enumerate(log.runs):
                for tile in run.tiles(_GROUP):
                    table = pa.table(
                        {**_columns(tile), "run": pa.array([number] * len(tile), pa.int32())}
                    )
                    if writer is None:
                        schema = table.schema.with_metadata(about)
                        writer = stack.enter_context(
                            parquet.ParquetWriter(scratch / target.name, schema, compression="lz4")
                        )
                    writer.write_table(table.cast(writer.schema), row_group_size=_GROUP)
        if writer is None:
            raise DescriptionError(f"{file}: no samples to write")
        if isinstance(file, Path):  # its date is the day of the log where nothing else tells it
            os.utime(scratch / target.name, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    return target, log.notices


def _columns(tile: Recording) -> dict[str, Any]:
    return {name: values for name, values in tile._columns().items() if name != "run"}
