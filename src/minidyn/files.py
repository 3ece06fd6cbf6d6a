"""Files: written whole or not at all, what was there stays until all that is new is ready.

Inputs are never replaced, and neither is a file that minidyn did not write: `check_outputs`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minidyn.errors import DescriptionError, NotWritten

AnyPath = str | os.PathLike[str]

LARGEST = "MINIDYN_LARGEST_ROBOT_FILE"
"""Environment variable: the largest robot file in bytes."""
_LARGEST = 64_000_000


def read_bytes(path: Path) -> bytes:
    """Return a robot file's bytes, or say which file could not be read and why.

    Refused are files beyond 64 MB (`LARGEST` sets another limit), and pipes, devices and the like,
    which may never end.
    """
    refuse_special(path, str(path))
    most = os.environ.get(LARGEST, "")
    limit = int(most) if most.isdecimal() else _LARGEST
    try:
        if (size := path.stat().st_size) > limit:
            text = (
                f"{path}: {size} bytes; robot files are read up to {limit}, set {LARGEST} for "
                "larger ones"
            )
            raise DescriptionError(text)
        return path.read_bytes()
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read ({error.strerror or error})") from None


def refuse_special(path: Path, shown: str) -> None:
    """Refuse a pipe, a device and whatever else is neither a file nor a folder.

    `shown` is how a message names it.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # whoever opens it says what is wrong
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise DescriptionError(
            f"{shown}: neither a file nor a folder (a pipe, a device); expected a regular file"
        )


def require_name(path: AnyPath) -> None:
    """Refuse what no file can be called: a NUL, or surrogates that stand for no bytes."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise NotWritten(f"{os.fspath(path)!a}: no file can have this name; choose another")


@contextmanager
def _told(path: AnyPath) -> Iterator[None]:
    """Say which file or folder could not be written and why."""
    require_name(path)
    try:
        yield
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written ({error.strerror or error})") from None


def _require_short(path: AnyPath) -> None:
    """Refuse a name that is too long for the system; asked before long work."""
    with _told(path), suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.lstat(path)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name beside it, then put it in place.

    An existing file keeps its mode.
    """
    with _told(path):
        target = Path(os.path.realpath(path))  # a link stays a link
        sweep(target)
        temporary = beside(target, "tmp")
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def beside(target: Path, ending: str) -> Path:
    """Return a new hidden name beside a file or folder, which says whose it is: process, machine,
    then chance.
    """
    return target.with_name(
        f".{target.name}.{os.getpid()}.{_machine()}{os.urandom(4).hex()}.{ending}"
    )


def _machine() -> str:
    """Return four letters that tell machines apart.

    Folders on a network are shared, numbers of processes are not.
    """
    import platform  # slow to import
    import zlib

    return f"{zlib.crc32(platform.node().encode()) & 0xFFFF:04x}"


_LEFT = re.compile(r"\.(\d+)\.([0-9a-f]{4})[0-9a-f]{8}\.(?:new|old|tmp)")
"""How names of what is not yet, or no longer, in its place end."""


def sweep(target: Path) -> None:
    """Take away what killed runs left beside a file or folder.

    What was moved away and not replaced comes back.
    """
    with suppress(OSError):
        for name in os.listdir(target.parent):
            found = _LEFT.search(name) if name.startswith(".") else None
            if found is None or not name.lstrip(".").startswith(f"{target.name}."):
                continue
            if found[2] != _machine() or _is_alive(int(found[1])):
                continue
            path = target.parent / name
            if name.endswith(".old") and not target.exists():
                path.rename(target)
            elif path.is_dir() and not path.is_symlink():
                import shutil

                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _is_alive(process: int) -> bool:
    if process == os.getpid() or os.name == "nt":  # there a signal of 0 ends the process
        return True
    with suppress(PermissionError, OverflowError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True


@contextmanager
def trial_file(path: Path, data: bytes) -> Iterator[Path]:
    """Give a file with these bytes for a moment, of the same ending and in the same folder as
    `path`.

    Readers need both: the ending says the format, and meshes and included files are found from the
    folder.
    """
    require_name(path)
    trial = beside(path, f"tmp{path.suffix}")
    try:
        with _told(path):
            trial.write_bytes(data)
        yield trial
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)


RECORDS = {"result.json": "files", "provenance.json": "results", "minidyn.json": "files"}
"""Files in which a folder says what minidyn wrote into it, and the key of the list of names."""

# what files that minidyn writes hold near their beginning or end, by the ending of their names
_MARKS = {
    ".html": rb'name="generator" content="minidyn ',
    ".json": rb'"minidyn": "',
    ".npz": rb"(?s)joint_names\.npy.*starts\.npy",
    ".parquet": rb"minidyn\.notices",
    ".csv": rb'^(#[^\n]*\n)*"?t"?,"?run"?,"?q\.',
    ".png": rb"Software\0minidyn",
    ".ll": rb"^; Function\(",
    ".toml": rb"^# minidyn: drive gains",
}
_CODE = rb"(generated|written) by minidyn"
_NEAR = 1 << 16  # bytes at both ends of a file that are looked at


def recorded_files(folder: Path, *records: str) -> list[str]:
    """Return the files that a folder's records (all, or some) say minidyn wrote there.

    Names below it, nothing else.
    """
    found: list[str] = []
    for record in records or RECORDS:
        with suppress(OSError, ValueError, KeyError, TypeError):
            names = [
                *json.loads((folder / record).read_text(encoding="utf-8"))[RECORDS[record]],
                record,
            ]
            found += [name for name in names if isinstance(name, str) and _is_below(name)]
    return list(dict.fromkeys(found))


def _is_below(name: str) -> bool:
    path = Path(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _is_ours(path: Path) -> bool:
    """Whether minidyn wrote a file.

    The record of a folder above says so, or what the file holds.
    """
    for folder in (path.parent, path.parent.parent):
        if path.relative_to(folder).as_posix() in recorded_files(folder):
            return True
    mark = _MARKS.get(
        path.suffix.lower(), _CODE if path.suffix.lower() in (".c", ".h", ".py") else None
    )
    if mark is None or not path.is_file():
        return False
    with path.open("rb") as stream:
        head = stream.read(_NEAR)
        stream.seek(max(0, path.stat().st_size - _NEAR))
        return re.search(mark, head) is not None or re.search(mark, stream.read()) is not None


def check_outputs(
    paths: Iterable[AnyPath], inputs: Iterable[AnyPath | None] = (), *, ours: bool = True
) -> None:
    """Refuse outputs that would replace an input, or a file that minidyn did not write.

    Asked before long work.

    Args:
        paths: Files, or folders, that are to be written.
        inputs: Files that are read; None and names of what does not exist are passed over.
        ours: Whether files that exist must have been written by minidyn.
    """
    sources = [Path(source) for source in inputs if source is not None and os.path.exists(source)]
    for path in map(Path, paths):
        _require_short(path)
        if not os.path.exists(path):  # also where nobody may look
            continue
        for source in sources:
            if path.samefile(source):
                raise NotWritten(
                    f"{path}: an input, which would be replaced; choose another output"
                )
        if ours and path.is_file() and not _is_ours(path.absolute()):
            raise NotWritten(
                f"{path}: exists, and minidyn did not write it, so it is not replaced; choose "
                "another output or move it away"
            )


def check_folder(path: AnyPath) -> Path:
    """Return the path of a folder that can be written, made or not; asked before long work."""
    _require_short(path)
    target = Path(path)
    place = target.absolute()
    while not os.path.exists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise DescriptionError(
            f"{place}: a file; expected a folder to write into, choose another name"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise DescriptionError(
            f"{target}: cannot be written (no permission in {place}); choose another folder"
        )
    return target


def made_folder(path: AnyPath) -> Path:
    """Return a folder that can be written, made where it is not there."""
    target = check_folder(path)
    with _told(path):
        target.mkdir(parents=True, exist_ok=True)
    return target


@contextmanager
def new_folder(
    path: AnyPath,
    obsolete: Iterable[str] = (),
    *,
    replace: bool = False,
    inputs: Iterable[AnyPath | None] = (),
    ours: bool = False,
) -> Iterator[Path]:
    """Give an empty folder to write into.

    At the end its files take their place in `path`, all of them or none. Files of other names stay,
    but for `obsolete` ones; with `replace` the new folder takes the place of the old. An error, an
    interruption, a full disk or a power cut leaves what was there before: files are written to disk
    first, then the whole folder changes place with the old one at once (`_swap`). Only where that
    cannot be, since the process works in the folder, or the folder holds more than a thousand other
    files, files are put in place one by one, undone if one fails. What killed runs left behind is
    swept at the next start. Files that are `inputs`, or with `ours` those that minidyn did not
    write, are not replaced: an error.
    """
    target = check_folder(path).absolute()
    missing = [
        folder for folder in (target.parent, *target.parent.parents) if not os.path.exists(folder)
    ]
    sweep(target)
    scratch = beside(
        target, "new"
    )  # beside the target, so that relative names of other files mean the same in both
    with _told(path):
        scratch.mkdir(parents=True)
    done = False
    try:
        with _told(path):
            with _ended_orderly():
                yield scratch
            made = [
                target / file.relative_to(scratch) for file in scratch.rglob("*") if file.is_file()
            ]
            check_outputs([*made, *(target / name for name in obsolete)], inputs, ours=ours)
            with _uninterrupted():
                _put_in_place(scratch, target, obsolete, replace)
                done = True
    finally:
        import shutil  # with tempfile it brings compressors that reading never needs

        shutil.rmtree(scratch, ignore_errors=True)
        for folder in [] if done else missing:
            with suppress(OSError):
                folder.rmdir()


def _put_in_place(scratch: Path, target: Path, obsolete: Iterable[str], replace: bool) -> None:
    new = sorted(file.relative_to(scratch) for file in scratch.rglob("*") if file.is_file())
    gone = {Path(name) for name in obsolete} - set(new)
    if _LEFT.search(target.name):  # inside a folder that is being made itself
        _one_by_one(scratch, target, new, gone)
        return
    _to_disk(scratch)
    if not target.exists():
        scratch.rename(target)
    elif replace or _takes_along(target, scratch, {*new, *gone}):
        scratch.chmod(stat.S_IMODE(target.stat().st_mode))
        _swap(scratch, target)
    else:
        _one_by_one(scratch, target, new, gone)
    _to_disk(target.parent, inner=False)


_OTHERS = 1000  # most files of other names that a folder which is replaced may hold


def _takes_along(target: Path, scratch: Path, ours: set[Path]) -> bool:
    """Give the new folder the other files of the old one, as links to the same.

    False where that cannot be done. Also where this process works in the folder or below it: it
    would stay in the old one.
    """
    if (
        os.path.ismount(target)
        or target.is_symlink()
        or Path.cwd().resolve().is_relative_to(target.resolve())
    ):
        return False
    others = [
        path.relative_to(target)
        for path in itertools.islice(target.rglob("*"), _OTHERS + len(ours) + 1)
    ]
    if len(others) > _OTHERS + len(ours):
        return False
    for name in others:
        old = target / name
        if old.is_dir() and not old.is_symlink():
            if name in ours:
                raise DescriptionError(f"{old}: a folder, where a file is to be written")
            (scratch / name).mkdir(parents=True, exist_ok=True)
        elif name not in ours:
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(old, scratch / name, follow_symlinks=False)
            except (OSError, NotImplementedError):  # a file system without links
                return False
    return True


def _swap(new: Path, old: Path) -> None:
    """Let two folders change places: at once where the system can, else by way of a third name.

    A process that ends between the two moves of the second way leaves the old folder under a hidden
    name, from which `sweep` brings it back.
    """
    import ctypes  # only here

    names = os.fsencode(new), os.fsencode(old)
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            done = library.renamex_np(*names, 2)
        else:
            here = -100  # names count from the current folder
            done = library.renameat2(here, names[0], here, names[1], 2)
        if done == 0:
            return
    aside = beside(old, "old")
    old.rename(aside)
    try:
        new.rename(old)
    except BaseException:
        aside.rename(old)
        raise
    aside.rename(new)


def _to_disk(path: Path, *, inner: bool = True) -> None:
    """Wait until a folder, and with `inner` all that is in it, is on the disk and outlives a power
    cut.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows opens no folders
    for each in [*(path.rglob("*") if inner else ()), path]:
        if each.is_symlink():
            continue
        with suppress(OSError):  # some network file systems cannot
            number = os.open(each, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


def _one_by_one(scratch: Path, target: Path, new: Iterable[Path], gone: Iterable[Path]) -> None:
    """Put files in place one by one; what was done is undone where one fails."""
    from tempfile import TemporaryDirectory  # slow to import

    undo: list[tuple[Path, Path | None]] = []  # (place, what stood there)
    with TemporaryDirectory(prefix=f".{target.name}.", suffix=".old", dir=target.parent) as kept:
        try:
            for name in (*new, *gone):
                place, aside = target / name, Path(kept) / str(len(undo))
                if place.is_dir():
                    raise DescriptionError(f"{place}: a folder, where a file is to be written")
                there = place.exists() or place.is_symlink()
                if name in gone and not there:
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                if there:
                    place.rename(aside)
                undo.append((place, aside if there else None))
                if name not in gone:
                    (scratch / name).rename(place)
        except BaseException:
            for place, old in reversed(undo):
                place.unlink(missing_ok=True)
                if old is not None:
                    old.rename(place)
            raise


@contextmanager
def _ended_orderly() -> Iterator[None]:
    """Let a request to end (SIGTERM) leave by the way of errors, so that nothing half written stays
    behind.
    """

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    plain = main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if plain:
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if plain:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back interruptions (Ctrl-C, a request to end) until the block is done."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # signals reach the main thread alone
        yield
        return
    waiting: list[tuple[int, Any]] = []
    old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in old:
        signal.signal(number, lambda *arguments: waiting.append(arguments))
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        for arguments in waiting:
            signal.raise_signal(arguments[0])
