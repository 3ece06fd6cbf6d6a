"""Results of a study: one folder a step, whole or absent, with a record of where it came from.

A step's key is a hash of everything that decides its result: its settings, the contents of its
input files, the keys of the steps before it and the code of minidyn. A folder whose record has the
same key, and whose files are as they were written, is up to date.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from minidyn import __version__
from minidyn.errors import DescriptionError
from minidyn.files import new_folder, recorded_files
from minidyn.recording.read.places import content_hash

PROVENANCE = "provenance.json"
"""Name of the record in every step's folder."""

_LIBRARIES = ("numpy", "scipy", "llvmlite", "pyarrow", "rosbags", "mujoco")


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a study file while it is run, or say that another process does.

    A process that ends lets go of it. On systems and network folders without locks it is run all
    the same: steps are put in place whole, the last counts.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    if not path.is_file():  # whoever reads it says what is wrong
        yield
        return
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = (
                f"{path}: another process runs this study; wait until it is through, or copy the "
                "file elsewhere"
            )
            raise DescriptionError(text) from None
        except OSError:
            pass
        yield


def key_of(content: Mapping[str, Any]) -> str:
    """Return the hash of plain values, whatever their order."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_hash() -> str:
    """Return the hash of minidyn's own source: results of other code are other results."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of everything that may change a result."""
    found = {
        "minidyn": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def recorded(folder: Path, key: str) -> dict[str, Any] | None:
    """Return a step's record where it is up to date: same key, every file as it was written.

    Else None.
    """
    try:
        record: dict[str, Any] = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
        same = record["key"] == key and all(
            content_hash(folder / name) == old for name, old in record["results"].items()
        )
        return record if same else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DescriptionError):
        return None


def refuse_others(folder: Path) -> None:
    """Refuse to replace a folder that holds files which no step wrote: inputs, notes of a user."""
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    others = sorted(there - set(recorded_files(folder, PROVENANCE)))
    if others:
        what = (
            f"holds files but no {PROVENANCE}, so no step made it"
            if PROVENANCE not in there
            else (f"holds {others[0]}, which no step made, and is replaced as a whole")
        )
        raise DescriptionError(f"{folder}: {what}; move it away or choose another output")


def work_of(output: Path) -> Path:
    """Return where steps keep work, below the results of a study, each under its key.

    It goes when a step is whole.
    """
    return output / ".work"


def write_step(
    folder: Path, key: str, facts: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any]]
) -> dict[str, Any]:
    """Run a step into a new folder beside the old one, add the record, then put it in place.

    Return the record. `facts` are for the record: settings, inputs, seed. `make` writes files into
    the folder it is given and returns a summary. A folder that holds files which no step wrote is
    refused.
    """
    refuse_others(folder)
    begin = datetime.now(UTC)
    with new_folder(folder, replace=True) as fresh:
        summary = dict(make(fresh))
        files = [path for path in sorted(fresh.rglob("*")) if path.is_file()]
        record = {
            "minidyn": "provenance",
            "key": key,
            **facts,
            "date": begin.isoformat(timespec="seconds"),
            "seconds": round((datetime.now(UTC) - begin).total_seconds(), 3),
            "versions": dict(versions()),
            "summary": summary,
            "results": {path.relative_to(fresh).as_posix(): content_hash(path) for path in files},
        }
        (fresh / PROVENANCE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record
