"""URDF from .xacro files, by the package xacro in a process of its own.

What the process may do is limited in `minidyn.formats.urdf.xacro_child`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minidyn.errors import DescriptionError, optional
from minidyn.formats.urdf.read import read_urdf
from minidyn.model.robot import Robot
from minidyn.text import plain

SECONDS = 60.0
"""After which a file that expands without end is given up."""

_LARGEST = 1 << 26  # size: characters of a URDF
_CHILD = "from minidyn.formats.urdf.xacro_child import main; main()"


def read_xacro(
    path: Path,
    arguments: Mapping[str, Any] | None = None,
    packages: Mapping[str, str] | None = None,
) -> Robot:
    """Return the robot of a .xacro file.

    Args:
        path: The file.
        arguments: Values of its <xacro:arg>s.
        packages: Folders of ROS packages by name, beside those around the file and of the ROS
            environment.
    """
    return read_urdf(path, expanded(path, arguments, packages))


def expanded(
    path: Path,
    arguments: Mapping[str, Any] | None = None,
    packages: Mapping[str, str] | None = None,
) -> str:
    """Return the URDF text of a .xacro file; for what the arguments are see `read_xacro`."""
    if importlib.util.find_spec("xacro") is None:
        optional("xacro")  # says what is missing
    wanted = {
        "path": str(path.absolute()),
        "args": {str(name): _text(value) for name, value in (arguments or {}).items()},
        "packages": dict(packages or {}),
    }
    paths = os.pathsep.join(part for part in sys.path if part)
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", _CHILD],
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DescriptionError(
            f"{path}: xacro did not end within {SECONDS:g} s; is a macro calling itself?"
        ) from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"error": f"the process ended with {done.returncode}"}
    text = answer.get("text")
    if not isinstance(text, str):
        reason = " ".join(plain(answer.get("error", "no text"), keep="").split())[:300]
        raise DescriptionError(
            f"{path}: xacro cannot expand it ({reason}); arguments are given by xacro_args= "
            "(--xacro-arg NAME=VALUE)"
        )
    if len(text) > _LARGEST:
        raise DescriptionError(f"{path}: expands to {len(text)} characters; expected a robot")
    return text


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
