"""Machine code kept on disk between processes.

One file for each compiled text, in the user's cache folder: `$XDG_CACHE_HOME/minidyn`, else
`~/.cache/minidyn` (macOS: `~/Library/Caches/minidyn`; Windows: `minidyn/cache` in `LOCALAPPDATA`).
`MINIDYN_CACHE=0` switches it off, `MINIDYN_CACHE=/a/folder` puts it there. A file's name is a hash
of all that decides its content, so nothing is ever out of date: what a new version of minidyn or of
LLVM, or another processor, does not ask for any more is the first to go when the folder is full.

Machine code is run, so a file counts only where:

- folder and file belong to the user of this process, nobody else may write them, and nobody else
  may look into the folder (mode 0700); neither is a link. This keeps other users of the machine
  from planting code. A folder that does not fit is not used and not changed; kernels are then
  compiled in each process, without a notice at every call, and `minidyn cache` says why.
- its digest (SHA-256 over name and content) is right. This notices damage: a truncated or
  overwritten file, a bad disk, a file under another's name. It is no signature: who may write as
  the user may write a right digest too, but could as well change the user's programs.

What does not count is compiled anew and replaced. Files are renamed into place whole, so processes
may read and write at the same time. No error of the file system reaches the caller: a folder that
is full or read-only only costs time.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minidyn.files import beside

VARIABLE = "MINIDYN_CACHE"
"""Environment variable: 0 for no cache, or the folder."""

MAX_BYTES = 256 << 20
"""Size of the folder from which the files used longest ago go, until three quarters are left."""

_MAGIC = b"minidyn machine code 1\n"
_ENDING = ".kernel"
_DAY = 86400.0  # s; a file's time of last use is kept to a day
_HOUR = 3600.0  # s; what an interrupted process has not renamed goes after that


def folder() -> Path | None:
    """Return the folder that machine code is kept in, there or not; None where it is switched
    off.
    """
    given = os.environ.get(VARIABLE, "")
    if given.lower() in ("0", "off", "no", "false"):
        return None
    if given:
        return Path(given).absolute()
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(caches):  # a relative one does not count, says the standard
        return Path(caches) / "minidyn"
    if os.name == "nt":
        local = os.environ.get("LOCALAPPDATA", "")
        return Path(local) / "minidyn" / "cache" if local else None
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return None
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path(home) / caches / "minidyn"


def refusal(path: Path) -> str:
    """Return why a folder is not used; empty where it is, or is not there yet."""
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    if not stat.S_ISDIR(state.st_mode):
        return "it is not a folder (a link does not count)"
    if not _is_mine(state.st_uid):
        return "it belongs to another user"
    if os.name != "nt" and state.st_mode & 0o077:
        return f"others may open it (mode {state.st_mode & 0o777:o}): chmod 700"
    return ""


def _is_mine(owner: int) -> bool:
    return not hasattr(os, "geteuid") or owner == os.geteuid()


@cache
def code_version() -> str:
    """Return the hash of the source that makes and loads machine code, and of minidyn's version.

    Empty where that cannot be read: then nothing is kept.
    """
    digest = hashlib.sha256()
    here, graph, package = (Path(__file__).parents[k] for k in (0, 2, 3))
    try:
        files = [package / "__init__.py", *sorted(graph.glob("*.py")), *sorted(here.glob("*.py"))]
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest() if files else ""


def name_of(*parts: str) -> str:
    """Return the name of the file for what these words say, of this version of the code."""
    text = "\0".join([code_version(), *parts])
    return hashlib.sha256(text.encode()).hexdigest() + _ENDING


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + data).digest()


def _usable() -> Path | None:
    path = folder()
    return None if path is None or not code_version() or refusal(path) else path


def read(name: str) -> bytes | None:
    """Return what was written under a name; None where nothing whole and the user's own is."""
    path = _usable()
    if path is None:
        return None
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path / name, flags | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
            state = os.fstat(stream.fileno())
            mode = state.st_mode
            if not stat.S_ISREG(mode) or not _is_mine(state.st_uid) or state.st_size > MAX_BYTES:
                return None
            if os.name != "nt" and mode & 0o022:
                return None
            content = stream.read()
    except OSError:
        return None
    head = len(_MAGIC) + hashlib.sha256().digest_size
    data = content[head:]
    if content[:head] != _MAGIC + _digest(name, data):
        return None
    _note_use(path / name, state)
    return data


def _note_use(path: Path, state: os.stat_result) -> None:
    """Say that a file is in use, at most once a day: the time of its last change."""
    import time

    if time.time() - state.st_mtime > _DAY:
        with suppress(OSError):
            os.utime(path)


def write(name: str, data: bytes) -> None:
    """Keep bytes under a name; where that cannot be, nothing happens.

    A file that a power cut leaves incomplete is noticed when it is read, so none is forced to disk.
    """
    path = _usable()
    if path is None:
        return
    content = _MAGIC + _digest(name, data) + data
    with suppress(OSError):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
            if refusal(path):
                return
        temporary = beside(path / name, "tmp")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with open(os.open(temporary, flags, 0o600), "wb") as stream:
                stream.write(content)
            os.replace(temporary, path / name)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        _bound(path, len(content))


_SIZES: dict[Path, int] = {}  # what is in a folder as this process has last counted, bytes


def _bound(path: Path, more: int) -> None:
    """Count what was written; where the folder has become too large, the oldest files go."""
    if path in _SIZES:
        _SIZES[path] += more
    else:
        _SIZES[path] = usage(path).size
    if _SIZES[path] <= MAX_BYTES:
        return
    files = sorted(_files(path), key=lambda file: file.used)
    size = sum(file.size for file in files)
    for file in files:
        if size <= MAX_BYTES * 3 // 4:
            break
        with suppress(OSError):
            os.unlink(file.path)
            size -= file.size
    _SIZES[path] = size


@dataclass(frozen=True)
class _File:
    path: str
    size: int  # bytes
    used: float  # s since the epoch


def _files(path: Path) -> Iterator[_File]:
    """List the files of the cache; names that killed processes left go when they are old."""
    import time

    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            with suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(state.st_mode):
                    continue
                if entry.name.endswith(_ENDING):
                    yield _File(entry.path, state.st_size, state.st_mtime)
                elif _is_left_over(entry.name) and time.time() - state.st_mtime > _HOUR:
                    os.unlink(entry.path)


def _is_left_over(name: str) -> bool:
    return name.startswith(".") and f"{_ENDING}." in name and name.endswith(".tmp")


@dataclass(frozen=True)
class Usage:
    """What is kept in a folder."""

    files: int
    size: int  # bytes


def usage(path: Path) -> Usage:
    """Return how many files are kept in a folder, and their size in bytes."""
    sizes = [file.size for file in _files(path)]
    return Usage(len(sizes), sum(sizes))


def clear(path: Path) -> Usage:
    """Take the files of the cache, and nothing else, out of a folder; return what went."""
    gone = []
    for file in list(_files(path)):
        with suppress(FileNotFoundError):  # another process was quicker
            os.unlink(file.path)
            gone.append(file.size)
    _SIZES.pop(path, None)
    return Usage(len(gone), sum(gone))
