"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from minidyn.errors import NotWritten

__all__ = ["write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name beside it, then put it in place; an existing file keeps its mode.

    Raises:
        NotWritten: The folder does not exist or cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            temporary.write_bytes(data)
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written ({error.strerror or error})") from None
