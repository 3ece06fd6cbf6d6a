"""Where logs live.

Files and folders of this machine, patterns, and whatever fsspec reaches (s3, gs, https, memory).
Parquet is read where it lies, only the parts that are needed; other formats are copied first, into
a folder that is gone when the program ends (where it was killed, when the next one starts).
Credentials come from the environment, as fsspec's file systems read them, and are written nowhere.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from minidyn.errors import DescriptionError, MissingFile, optional
from minidyn.files import beside, refuse_special, sweep, write_atomically
from minidyn.notices import Notice, info

_PATTERN = frozenset("*?[")
WHERE_IT_LIES = (".parquet", ".pq")
"""Endings of files that are read in parts, and that a folder stands for."""
_DATA = re.compile(r"(?:(.*)/)?data/chunk-\d+/[^/]+\.parquet")
_SCRATCH = "minidyn-work"  # begins names of folders below TMPDIR
_MOST_FILES = 10_000  # of a bag
_NOTED = re.compile(r"[0-9a-f]{64}")
_BAGS = ("*.db3", "*.mcap", "*.bag", "metadata.yaml")
_BY_PATTERN = (
    ".csv",
    ".tsv",
    ".npz",
    ".h5",
    ".hdf5",
    ".mat",
)  # logs that a folder does not stand for

OTHER_LOGS = info(
    "recording.other_logs",
    "A folder holds logs of other kinds beside those that were read: a folder is its Parquet "
    "files, or a bag.",
    "To read them give a pattern: '{pattern}'.",
)


def is_remote(path: object) -> bool:
    """Return whether a path is an address."""
    return "://" in str(path)


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pattern of names, and no file that is called so."""
    text = os.fspath(path)
    return not _PATTERN.isdisjoint(text) and (is_remote(text) or not os.path.exists(text))


def data_set_of(path: str) -> str | None:
    """Return the folder of the data set of LeRobot whose data a file holds.

    None where it holds none.
    """
    found = _DATA.fullmatch(path)
    return None if found is None else found[1] or ""


def _without_meta(files: list[str]) -> list[str]:
    """Return files without those that describe data sets of LeRobot, as Parquet, too."""
    sets = {folder for file in files if (folder := data_set_of(file)) is not None}
    meta = {str(PurePosixPath(folder, "meta")) for folder in sets}
    return (
        [file for file in files if meta.isdisjoint(map(str, PurePosixPath(file).parents))]
        if meta
        else files
    )


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a path, a pattern, a folder or an address, in the order of their names.

    A folder is all Parquet files below it (robot=ur10-07/date=2026-11-02/part-0.parquet), a data
    set of LeRobot, or a bag of ROS 2.
    """
    text = os.fspath(path)
    if is_remote(text):
        return _remote_files(text)
    here = Path(text)
    if here.is_dir():
        return _in_folder(here)
    if not is_pattern(text):
        return [here]
    anchor = Path(here.anchor)
    found = sorted(anchor.glob(str(here.relative_to(anchor))) if here.anchor else Path().glob(text))
    if not found:
        raise MissingFile(f"{text}: no file has a name like this")
    return [file for one in found for file in (_in_folder(one) if one.is_dir() else [one])]


def _in_folder(folder: Path) -> list[Path]:
    if folder.suffix == ".zarr" or any(next(folder.glob(pattern), None) for pattern in _BAGS):
        return [folder]
    found = sorted(file for ending in WHERE_IT_LIES for file in folder.rglob(f"*{ending}"))
    return [Path(file) for file in _without_meta([file.as_posix() for file in found])] or [folder]


def other_logs(folder: Path) -> list[Path]:
    """Return the logs below a folder that are read by a pattern alone."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in _BY_PATTERN)


def pattern_of(folder: Path, others: list[Path]) -> str:
    """Return a pattern of other logs in a folder; of CSV files where there are none."""
    return str(others[0].parent / f"*{others[0].suffix}" if others else folder / "*.csv")


def unread(paths: Iterable[str | os.PathLike[str]]) -> tuple[Notice, ...]:
    """Return a notice for each folder among paths that holds logs which are not read."""
    found = []
    for folder in (Path(path) for path in paths if not is_remote(path)):
        if others := other_logs(folder) if folder.is_dir() and folder.suffix != ".zarr" else []:
            names = ", ".join(str(file.relative_to(folder)) for file in others[:3])
            names += f" and {len(others) - 3} more" if len(others) > 3 else ""
            told = {
                "folder": str(folder),
                "count": len(others),
                "pattern": pattern_of(folder, others),
            }
            found.append(OTHER_LOGS(f"{folder}: {names} not read", **told))
    return tuple(found)


def _remote_files(url: str) -> list[Path]:
    system, path = _system(url)
    with _naming(url):
        if is_pattern(url):
            found = sorted(system.glob(path))
        elif PurePosixPath(path).suffix and not url.endswith("/"):
            return [as_place(url)]  # it is asked for when it is opened
        else:
            found = _without_meta(
                sorted(file for file in system.find(path) if file.endswith(WHERE_IT_LIES))
            )
    if not found:
        raise MissingFile(f"{url}: no file there")
    return [as_place(system.unstrip_protocol(file)) for file in found]


def unreached(path: str) -> Path:
    """Return the place of something that was not found: who opens it says so."""
    place: Any = RemoteFile(path) if is_remote(path) else Path(path)
    return place  # type: ignore[no-any-return]


def as_place(path: str | os.PathLike[str]) -> Path:
    """Return a file: of this machine, where it lies in a remote one, or a copy of that."""
    if not is_remote(path):
        return Path(path)
    url = os.fspath(path)
    place: Any = RemoteFile(url) if url.endswith(WHERE_IT_LIES) else fetched(url)
    return place  # type: ignore[no-any-return]


@cache
def _system(url: str) -> tuple[Any, str]:
    fsspec = optional("fsspec")
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise DescriptionError(f"{url}: cannot be read ({error})") from None
    return system, path


class _naming:  # noqa: N801 - a context, read as a word
    """Turn errors of a file system into ones that name the address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise MissingFile(f"{self.url}: no such file") from None
        if isinstance(error, Exception) and not isinstance(error, DescriptionError):
            what = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
            raise DescriptionError(f"{self.url}: cannot be read ({what})") from None


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address, with what readers of tables ask of a path."""

    url: str

    def __str__(self) -> str:
        return self.url

    __fspath__ = __str__

    @property
    def name(self) -> str:
        """Last part of the address."""
        return PurePosixPath(urlsplit(self.url).path).name or self.url

    @property
    def suffix(self) -> str:
        """Ending of the name."""
        return PurePosixPath(self.name).suffix

    def exists(self) -> bool:
        """Return whether it is there."""
        system, path = _system(self.url)
        with _naming(self.url):
            return bool(system.exists(path))

    def is_dir(self) -> bool:
        """Return no: folders are looked up before."""
        return False

    def stat(self) -> Any:
        """Return its size as `st_size`."""
        system, path = _system(self.url)
        with _naming(self.url):
            return SimpleNamespace(st_size=int(system.size(path) or 0))

    def open(self, mode: str = "rb") -> Any:
        """Open it; parts are fetched as they are read."""
        system, path = _system(self.url)
        with _naming(self.url):
            return (
                system.open(path, mode, cache_type="none")
                if _ranged(system)
                else system.open(path, mode)
            )


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder with their names (a ROS 2 bag is
    one).
    """
    digest = hashlib.sha256()
    refuse_special(path, str(path))
    try:
        if path.is_dir():
            found = list(islice(path.rglob("*"), _MOST_FILES + 1))
            if len(found) > _MOST_FILES:
                raise DescriptionError(
                    f"{path}: a folder of more than {_MOST_FILES} files; expected a log, such as "
                    "a bag"
                )
            for file in sorted(found):
                if file.is_file():
                    digest.update(
                        f"{file.relative_to(path).as_posix()}\0{content_hash(file)}\n".encode()
                    )
            return digest.hexdigest()
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read ({error.strerror or error})") from None


def content_of(path: os.PathLike[str], notes: Path) -> str:
    """Return what changes when the contents of a file do.

    Their hash, or what a remote file system says of it. The hash of a file of this machine is noted
    in a folder, under its name, size and times (written, and changed in any way, which nobody can
    set). It is taken again where one of these is another.
    """
    url = str(path)
    if is_remote(url):
        system, place = _system(url)
        with _naming(url):
            return str(system.checksum(place))
    here = Path(path)
    seen = [str(here.absolute())]
    for file in sorted(here.rglob("*")) if here.is_dir() else [here]:
        about = file.stat()
        seen.append(f"{file.name} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}")
    note = notes / f"{hashlib.sha256(repr(seen).encode()).hexdigest()}.file"
    with suppress(OSError, UnicodeError):
        if _NOTED.fullmatch(noted := note.read_text(encoding="utf-8")):
            return noted
    found = content_hash(here)
    write_atomically(note, found.encode())
    return found


def _ranged(system: Any) -> bool:
    """Return whether a file system fetches any part at once.

    Arrow asks for what it needs, and no more is fetched.
    """
    return type(system).__name__ in ("S3FileSystem", "GCSFileSystem")


class Fetched(type(Path())):  # type: ignore[misc] # PosixPath or WindowsPath
    """A copy of a remote file.

    Messages name the address, and another process makes a copy of its own.
    """

    url: str = ""

    def __str__(self) -> str:
        return self.url or str(super().__str__())

    def __fspath__(self) -> str:
        return str(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        return (fetched, (self.url,)) if self.url else super().__reduce__()


def scratch_folder() -> Path:
    """Make a folder below TMPDIR for this process.

    Those of processes that were killed are swept.
    """
    place = Path(tempfile.gettempdir()) / _SCRATCH
    sweep(place)
    made = beside(place, "tmp")
    made.mkdir(mode=0o700)
    return made


@cache
def _copies() -> Path:
    folder = scratch_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fetched(url: str) -> Fetched:
    """Return a copy of a remote file, made where there is none yet."""
    system, path = _system(url)
    local = Fetched(_copies() / f"{zlib.crc32(url.encode()):08x}" / PurePosixPath(path).name)
    with _naming(url):
        if not os.path.exists(os.fspath(local)):
            os.makedirs(os.path.dirname(os.fspath(local)), exist_ok=True)
            system.get(path, os.fspath(local))
    local.url = url
    return local
