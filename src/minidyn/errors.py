"""The errors minidyn raises: one root, a handful of children that are also standard types.

A message says what is wrong, where by name, what was found and what was expected, and what to do.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast


class MinidynError(Exception):
    """Root of every error minidyn raises on purpose."""


class ShapeError(MinidynError, ValueError):
    """An array has the wrong shape or dtype."""


class WrongArgument(MinidynError, TypeError):
    """An argument of another kind than expected.

    The message names what was expected, what came, swapped arguments.
    """


class DescriptionError(MinidynError, ValueError):
    """A robot description (file, table or argument) is wrong.

    The message names file, line or element.
    """


class MissingFile(DescriptionError, FileNotFoundError):
    """A file that does not exist."""


class NotWritten(DescriptionError):
    """A file that cannot be written: no such folder, no permission, a full disk."""


class Unforeseen(DescriptionError):
    """A file that broke its reader in a way nobody foresaw.

    The message names the file that holds the details.
    """


class LoopError(DescriptionError):
    """A kinematic loop does not close; the message gives the residual in metres and radians."""


class NotEquivalent(MinidynError, ValueError):
    """Two sets of base parameters that do not determine the same things.

    The message names a combination.
    """


class NotRealizable(MinidynError, ValueError):
    """Parameters that no rigid body can have, given to a function that needs a physical model."""


class UnknownParameters(MinidynError, ValueError):
    """A value that is needed is not known (NaN); the message names the parameters."""


class Unsupported(MinidynError, NotImplementedError):
    """The robot or option is outside what this method covers.

    The message names the one to use instead.
    """


class MissingExtra(MinidynError, ImportError):
    """A library that a plain installation leaves out.

    The message says what needs it and the command that adds it.
    """


class WorkerFailed(MinidynError):
    """A task failed again and again: its workers died, or its file cannot be read.

    The message names the file.

    Attributes:
        files: Those that could not be read.
    """

    def __init__(self, message: str, files: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.files = tuple(files)


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn whatever else a reader raises on a broken file into an error of minidyn that names the
    file.
    """
    if "\0" in str(path):
        raise DescriptionError(f"{str(path)!r}: not the path of a file (a character 0 is in it)")
    try:
        yield
    except (MinidynError, MemoryError):
        raise
    except OSError as error:
        place = error.filename or path
        raise DescriptionError(f"{place}: cannot be read ({error.strerror or error})") from None
    except RecursionError:
        raise DescriptionError(f"{path}: cannot be read (nested too deeply)") from None
    except Exception as error:
        what = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
        raise Unforeseen(
            f"{path}: cannot be read; the file is broken in an unforeseen way ({what}); "
            f"{details_of(error)}"
        ) from error


def details_of(error: BaseException) -> str:
    """Write the traceback of an error into a file of its own, and return where it is, with a number
    to refer to.
    """
    import os
    import tempfile
    import traceback
    import zlib

    _sweep_details(tempfile.gettempdir())
    text = "".join(traceback.format_exception(error))
    reference = f"{zlib.crc32(text.encode(errors='replace')):08x}"
    try:
        number, path = tempfile.mkstemp(prefix=f"minidyn-{reference}-", suffix=".log")
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError:
        return f"reference {reference}"
    return f"reference {reference}, details in {path}"


_DETAILS = re.compile(r"minidyn-[0-9a-f]{8}-.*\.log")
_MAX_DETAILS, _MAX_AGE = 20, 14 * 86_400.0  # files with details that are kept, and for how long, s


def _sweep_details(folder: str) -> None:
    """Remove old files of `details_of` from a folder."""
    import os
    import time
    from contextlib import suppress

    with suppress(OSError):
        entries = [entry for entry in os.scandir(folder) if _DETAILS.fullmatch(entry.name)]
        aged = sorted(((entry.stat().st_mtime, entry.path) for entry in entries), reverse=True)
        for number, (written, path) in enumerate(aged, 1):
            if number >= _MAX_DETAILS or written < time.time() - _MAX_AGE:
                with suppress(OSError):  # another user's
                    os.unlink(path)


_EXTRAS = {
    "pyarrow": ("parquet", "Parquet files"),
    "rosbags": ("ros", "ROS bags"),
    "mujoco": ("mujoco", "MJCF files and MuJoCo"),
    "matplotlib": ("plot", "figures and PNG pictures"),
    "pandas": ("pandas", "data frames"),
    "h5py": ("matlab", "MATLAB files of version 7.3"),
    "fsspec": ("remote", "logs at addresses such as s3://"),
    "zarr": ("zarr", "Zarr stores"),
    "distributed": ("dask", "Dask clusters"),
    "xacro": ("descriptions", ".xacro files"),
    "robot_descriptions": ("descriptions", "robot descriptions"),
    "coal": ("collision", "distances of convex hulls"),
    "cuda": ("cuda", "functions on NVIDIA GPUs"),
    "starlette": ("studio", "pages of the studio"),
    "uvicorn": ("studio", "pages of the studio"),
}


def optional(module: str) -> Any:
    """Return a module of a library that only some installations have, by its name.

    "pyarrow", "rosbags.serde".

    Raises:
        MissingExtra: It is not installed; with the command that adds it.
    """
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        extra, what = _EXTRAS[library]
        raise MissingExtra(
            f"{what} need {library}, which is not installed; add it: {adding(extra)}"
        ) from None


def adding(extra: str, home: str = sys.prefix) -> str:
    """Return the command that adds an extra to the environment in a folder.

    Pip's, or uv's for its tools and `uvx`.
    """
    if (Path(home) / "uv-receipt.toml").exists():  # a second install drops the extras of the first
        return f'uv tool install "minidyn[all,{extra}]"'
    if any(part.startswith("archive-v") for part in Path(home).parts):  # in uv's cache
        return f'uvx --from "minidyn[{extra}]" minidyn'
    return f'pip install "minidyn[{extra}]"'


class UnknownName(MinidynError, KeyError):
    """A name that does not exist; the message lists near names."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}{near_names(str(name), known)}")

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


_F = TypeVar("_F", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[_F], _F]:
    """Let a function take keywords by their old names, with a DeprecationWarning.

    `@renamed(rate="bandwidth")`.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            for old, new in names.items():
                if old in given:
                    text = f"{function.__name__}: {old}= is now {new}="
                    warnings.warn(text, DeprecationWarning, stacklevel=2)
                    given[new] = given.pop(old)
            return function(*args, **given)

        return cast(_F, called)

    return decorate


def require_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    """Raise a DescriptionError with near names for the first name that is not known.

    `what` begins the message.
    """
    for name in names:
        if name not in known:
            raise DescriptionError(f"{what} {name!r}{near_names(name, known)}")


def shows_options(record: Any) -> Callable[[_F], _F]:
    """Show each field of a dataclass, with its default, in the signature of a function that takes
    them as `**options`.
    """

    def decorate(function: _F) -> _F:
        known = inspect.signature(function)
        defaults = {one.name: one.default for one in fields(record)}
        own = [
            one.replace(default=defaults.get(one.name, one.default))
            for one in known.parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in defaults.items()
            if name not in known.parameters
        ]
        shown: Any = function
        shown.__signature__ = known.replace(parameters=[*own, *options])
        return function

    return decorate


def require_options(record: Any, names: Iterable[str]) -> None:
    """Raise where a name is no field of a dataclass, with near ones."""
    known = [one.name for one in fields(record)]
    for name in names:
        if name not in known:
            raise WrongArgument(f"unknown option {name!r}{near_names(name, known)}")


def near_names(name: str, known: Iterable[str], limit: int = 8) -> str:
    """Return '; did you mean ...?' or '; known: ...' for an error message."""
    names = list(known)
    lower = {candidate.lower(): candidate for candidate in names}
    near = [
        lower[match] for match in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)
    ]
    if near:
        return "; did you mean " + " or ".join(repr(candidate) for candidate in near) + "?"
    if not names:
        return "; there are none"
    return f"; known: {first_of(names, limit)}"


def first_of(names: Sequence[str], limit: int = 8) -> str:
    """Return the first names for an error message, and how many there are where some are left
    out.
    """
    return ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")
