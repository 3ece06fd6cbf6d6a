"""Robots by their names in the package robot_descriptions, from its cache alone.

A module of that package clones a repository when it is imported. So none is imported here: its text
says which file in which repository it means, and that file is read where it has been fetched
already. Nothing is fetched, no network is used.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minidyn.errors import DescriptionError, UnknownName, optional

PREFIX = "robot_descriptions:"
"""How the name of a robot begins that is surely meant so."""

_PACKAGE = "robot_descriptions"
_NAME = re.compile(r"[a-z0-9_]+_description")
_FILES = ("URDF_PATH", "XACRO_PATH", "MJCF_PATH")  # the first that a module has is the robot


@dataclass(frozen=True)
class Found:
    """A robot's file, and how xacro is to expand it where it is one."""

    path: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)


def is_description(name: str) -> bool:
    """Say whether a name is one of the package's: "panda_description", with or without PREFIX."""
    return name.startswith(PREFIX) or bool(_NAME.fullmatch(name))


def description_names() -> tuple[str, ...]:
    """Return the names of all descriptions that the package knows, () where it is not there."""
    spec = importlib.util.find_spec(_PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = (file.stem for folder in folders for file in Path(folder).glob("*_description.py"))
    return tuple(sorted(name for name in files if not name.startswith("_")))


def find_description(name: str) -> Found:
    """Return the file of a description that has been fetched.

    Raises:
        MissingExtra: The package is not installed.
        UnknownName: It has no description of that name.
        DescriptionError: It has not been fetched yet.
    """
    module = name.removeprefix(PREFIX)
    if importlib.util.find_spec(_PACKAGE) is None:
        optional(_PACKAGE)  # says what is missing
    if module not in description_names():
        raise UnknownName("robot description", module, description_names())
    values = _values(module)
    chosen = next((key for key in _FILES if isinstance(values.get(key), str)), None)
    if chosen is None:
        raise DescriptionError(f"{module}: names no file of a robot ({', '.join(_FILES)})")
    path = Path(values[chosen])
    if not path.is_file():
        fetched = "has not been fetched yet" if not _cache(values) else "its file is not there"
        raise DescriptionError(
            f"robot description {module!r} {fetched} ({path}); fetch it once, with a network: "
            f"robot_descriptions pull {module}"
        )
    arguments = values.get("XACRO_ARGS") if chosen == "XACRO_PATH" else {}
    packages = values.get("XACRO_PACKAGE_PATHS") if chosen == "XACRO_PATH" else {}
    return Found(path, dict(arguments or {}), dict(packages or {}))


def _cache(values: Mapping[str, Any]) -> bool:
    return os.path.isdir(str(values.get("REPOSITORY_PATH")))


def _values(module: str) -> dict[str, Any]:
    """Return what a module's text gives its names, as far as that shows without running it."""
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None  # noqa: S101 - looked at before
    (folder, *_) = spec.submodule_search_locations or [""]
    tree = ast.parse((Path(folder) / f"{module}.py").read_text(encoding="utf-8"))
    values: dict[str, Any] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        given = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(given, ast.expr):
            values[target.id] = _value(given, values)
    return values


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of an expression: texts, names, tables, paths; None for all else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if isinstance(node, ast.Dict):
        pairs = [
            (key and _value(key, values), _value(v, values))
            for key, v in zip(node.keys, node.values)
        ]
        return {str(key): value for key, value in pairs if isinstance(value, str)}
    if not isinstance(node, ast.Call):
        return None
    parts = [_value(part, values) for part in node.args]
    called = ast.unparse(node.func)
    if called == "_clone_to_cache":
        return _repository(parts[0])
    if called.endswith("path.join"):
        return os.path.join(*parts) if all(isinstance(part, str) for part in parts) else None
    return parts[0] if len(parts) == 1 else None  # the file before the package patches it


def _repository(name: Any) -> str | None:
    """Return the folder of a repository in the package's cache."""
    repositories = importlib.import_module(f"{_PACKAGE}._repositories").REPOSITORIES
    if name not in repositories:
        return None
    cache = os.environ.get("ROBOT_DESCRIPTIONS_CACHE", "~/.cache/robot_descriptions")
    path = repositories[name].cache_path
    commit = os.environ.get("ROBOT_DESCRIPTION_COMMIT")
    return os.path.join(os.path.expanduser(cache), f"{path}-{commit}/{path}" if commit else path)
