"""Logs of a fleet: whose they are, and of which day; opened where they are read."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby, takewhile
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard, cast
from urllib.parse import unquote

from minidyn.errors import DescriptionError
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.recording.lazy import AnyRecording, concatenate
from minidyn.recording.read.places import WHERE_IT_LIES, data_set_of, is_pattern, is_remote, unread
from minidyn.recording.read.read import READERS, Paths, are_one_run, log_files, tried
from minidyn.recording.read.tables import TIME_ORIGIN
from minidyn.recording.ready import as_recording

_DATE = re.compile(  # and the time of the day, if there is one
    r"(?<!\d)(\d{4})[-_]?(\d{2})[-_]?(\d{2})(?:[ T_-]\d{2}[-_:.h]?\d{2}(?:[-_:.m]?\d{2})?Z?)?(?!\d)"
)
_HIVE = re.compile(r"(?:^|/)date=([^/]+)/")
_ROBOT = re.compile(r"(?:^|/)robot=([^/]+)/")
MAX_FILES = 50  # size: files that may be one run side by side
_BESIDE = " _-."  # what stands between a date and the rest of a name


@dataclass(frozen=True)
class Logs:
    """The logs of one robot.

    (date, recording), dates as 2026-11-02, "" where they are not known.
    """

    name: str
    dated: tuple[tuple[str, AnyRecording], ...]
    notices: tuple[Notice, ...] = ()  # of files that are left out


def files_by_robot(
    paths: Paths, on_error: str = "stop"
) -> tuple[dict[str, list[Path]], tuple[Notice, ...]]:
    """Return the logs of each robot among paths, by one rule whether folders, patterns, files or
    addresses are given.

    With them comes a notice for each folder that holds logs which are not read.

    A robot is named by a folder robot=NAME above its log. Without one, by the first name below the
    folder that all paths have in common: that of a folder, or of a file without its ending. Dates
    in names are days and no part of them; where nothing else is left the next name counts, at last
    that of the common folder. A data set of LeRobot is one log, named by its folder.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    parts = zip(*(_folder_of(path) for path in given))
    common = [some[0] for some in takewhile(lambda some: len(set(some)) == 1, parts)]
    logs = {path: _logs_below(path, on_error) for path in given}
    found: dict[str, dict[Path, None]] = {}  # a file may be given twice
    for file in chain.from_iterable(logs.values()):
        text = _whole(file)
        log, hive = data_set_of(text) or text, _ROBOT.search(text)
        below = log.split("/")[len(common) :]
        if below and log == text:
            below[-1] = PurePosixPath(below[-1]).stem
        names = (_without_dates(part) for part in (*below, *common[-1:]) if "=" not in part)
        name = unquote(hive.group(1)) if hive else next(filter(None, names), log)
        found.setdefault(name, {})[file] = None
    if len(found) == 1:
        raise DescriptionError(
            f"{'/'.join(common)}: all logs are of one robot, {next(iter(found))!r}; a fleet has "
            "two at least. Give each robot a folder of its own in one folder, or one named "
            "robot=NAME; a data set of LeRobot is one robot"
        )
    told = unread(
        path for path, files in logs.items() if any(file.suffix in WHERE_IT_LIES for file in files)
    )
    return {name: list(files) for name, files in found.items()}, told


def _whole(path: str | os.PathLike[str]) -> str:
    """Return an absolute path, or an address, with slashes.

    An address with two behind its protocol.
    """
    text = str(path)
    return (
        re.sub(":/+", "://", text, count=1)
        if is_remote(text)
        else os.path.abspath(text).replace(os.sep, "/")
    )


def _folder_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the parts of the folder that a path means.

    Itself, that of a file, or what a pattern leaves open below.
    """
    text = _whole(path).rstrip("/")
    log = data_set_of(text) or text
    parts = log.split("/")
    if is_pattern(path):
        return parts[: next((k for k, part in enumerate(parts) if is_pattern(part)), len(parts))]
    here = Path(text)
    is_folder = (
        PurePosixPath(text).suffix not in READERS
        if is_remote(text)
        else here.is_dir() and not _is_log(here)
    )
    return parts if is_folder and log == text else parts[:-1]


def _is_log(path: Path) -> bool:
    """Return whether a file or folder is one log.

    By its ending, or as a data set of LeRobot or a bag of ROS 2.
    """
    if path.is_dir() and path.suffix != ".zarr":
        return any((path / mark).exists() for mark in ("meta/info.json", "metadata.yaml"))
    return path.suffix.lower() in READERS


def _logs_below(path: str | os.PathLike[str], on_error: str) -> list[Path]:
    """Return the logs of a path; of folders without Parquet files those of every kind."""
    made: list[Path] = []
    for root in log_files(path, on_error):
        found = {} if root.is_dir() and not _is_log(root) else {root: None}
        for file in () if found else sorted(root.rglob("*")):
            if _is_log(file) and found.keys().isdisjoint(file.parents):
                found[file] = None
        if not found:
            raise DescriptionError(f"{root}: no logs below this folder")
        made += found
    return made


def _without_dates(name: str) -> str:
    """Return a name without the dates in it."""
    for found in reversed(list(_DATE.finditer(name))):
        with suppress(DescriptionError):  # digits that are no date
            _day("", found.group(0))
            rest = name[: found.start()].rstrip(_BESIDE), name[found.end() :].lstrip(_BESIDE)
            name = "_".join(filter(None, rest))
    return name


def are_paths(value: object) -> TypeGuard[Paths]:
    """Return whether something is a path, or several."""
    paths = [value] if isinstance(value, str | os.PathLike) else value
    return isinstance(paths, list | tuple) and all(
        isinstance(path, str | os.PathLike) for path in paths
    )


def open_logs(name: str, value: Any, robot: Robot, on_error: str = "stop", **options: Any) -> Logs:
    """Return the logs of a robot: a recording, paths, or {date: any of these}; files stay on disk.

    With on_error "skip" files that cannot be read are left out, as long as there are others.
    """
    given: list[tuple[str | None, Any]] = [(None, value)]  # None: the log says its day
    if isinstance(value, Mapping):
        given = [(_day(name, str(date)), log) for date, log in value.items()]
    elif are_paths(value):
        files = log_files(value, on_error)
        together = len(files) < MAX_FILES and are_one_run(
            cast(Any, files), robot, options, on_error
        )
        given = [(None, files)] if together else [(None, [file]) for file in files]
    if not given:
        raise DescriptionError(f"robot {name!r}: no log")
    if on_error == "skip":
        from minidyn.recording.engine import Here  # only where it is asked for

        options |= {"executor": Here(), "on_error": on_error}

    def day(number: int) -> tuple[str, AnyRecording]:
        date, log = given[number]
        opened = as_recording(log, robot, **({"lazy": True, **options} if are_paths(log) else {}))
        if date is None:
            date = (
                _date_of(log[0], opened.notices)
                if isinstance(log, list)
                else _recorded(opened.notices)
            )
        return date, opened

    notices: list[Notice] = []
    labels = [
        log[0] if isinstance(log, list) else log if are_paths(log) else f"robot {name!r}"
        for _, log in given
    ]
    days = tried(labels, day, on_error, notices)
    if are_paths(value):
        days = list(_together(sorted(days, key=lambda one: one[0])))
    return Logs(name, tuple(days), tuple(notices))


def _together(days: Iterable[tuple[str, AnyRecording]]) -> Iterator[tuple[str, AnyRecording]]:
    """Yield the logs of each day as one where they have the same signals."""
    for (date, _), group in groupby(days, key=lambda day: (day[0], tuple(sorted(day[1].signals)))):
        yield date, concatenate([log for _, log in group])


def _day(name: str, text: str) -> str:
    found = _DATE.search(text)
    try:
        return datetime.date(*map(int, found.groups())).isoformat() if found else ""
    except ValueError:
        raise DescriptionError(
            f"robot {name!r}: {text!r} is no date; expected one like 2026-11-02"
        ) from None


def _date_of(file: Path, notices: Iterable[Notice]) -> str:
    """Return the day of a log.

    Of a folder date=..., its name or its folder's, its times, or the file itself.
    """
    text = str(file).replace(os.sep, "/")
    log = data_set_of(text) or text  # of LeRobot: the name of a data set, not of its parts
    above, _, name = log.rpartition("/")
    for found in (_HIVE.search(text), _DATE.search(name), _DATE.search(above.rpartition("/")[2])):
        with suppress(DescriptionError):  # digits that are no date
            if found is not None and (day := _day("", found.group(0))):
                return day
    known = _recorded(notices)
    if known or is_remote(text):
        return known
    return datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC).date().isoformat()


def _recorded(notices: Iterable[Notice]) -> str:
    """Return the day on which times of a log begin, where they count from 1970.

    "" where they do not.
    """
    for notice in notices:
        if notice.code == TIME_ORIGIN.code:
            return (
                datetime.datetime.fromtimestamp(float(notice.data["origin"]), datetime.UTC)
                .date()
                .isoformat()
            )
    return ""
