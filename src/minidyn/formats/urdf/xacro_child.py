"""What expands a .xacro file, in a process of its own: the package xacro with less power.

Xacro evaluates Python expressions of the file. As it is, a lambda in them reaches all of Python, so
that a file from a stranger could run anything. Here expressions are arithmetic, comparisons, calls
and items alone: names with a leading underscore, functions and types of one's own are refused,
environment variables are not read, and only files of the packages involved are. The parent
(`minidyn.formats.urdf.xacro`) ends the process where it takes too long.
"""

from __future__ import annotations

import ast
import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_REFUSED_NODES = (ast.Lambda, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_REFUSED_NAMES = ("type", "vars", "format", "format_map")  # ways to attributes by their text
_ANCESTORS = 6  # folders above a file in which a package is looked for


def main() -> None:
    """Expand what standard input names, and print a JSON object: text, or error."""
    wanted = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr  # xacro prints messages
    try:
        answer = {"text": expand(Path(wanted["path"]), wanted["args"], wanted["packages"])}
    except Exception as error:  # whatever a file does, the parent reports it
        answer = {"error": f"{error}" or type(error).__name__}
    json.dump(answer, out)


def expand(path: Path, args: Mapping[str, str], packages: Mapping[str, str]) -> str:
    """Return the URDF of a .xacro file."""
    xacro: Any = importlib.import_module("xacro")
    substitution: Any = importlib.import_module("xacro.substitution_args")
    places = _Places(path, {name: Path(folder) for name, folder in packages.items()})
    _limit(xacro, substitution, places)
    os.chdir(path.parent)
    document = xacro.process_file(str(path), mappings=dict(args))
    return str(document.toprettyxml(indent="  "))


class _Places:
    """Folders of packages, and which files may be read: those below them."""

    def __init__(self, path: Path, packages: dict[str, Path]) -> None:
        self._path, self._packages = path.resolve(), packages
        above = [*self._path.parents][:_ANCESTORS]
        own = next((folder for folder in above if (folder / "package.xml").is_file()), None)
        self._roots = [own or self._path.parent, *packages.values()]

    def find(self, name: str) -> str:
        """Return the folder of a package: given, around the file, or of a ROS environment."""
        if not name or name != Path(name).name:
            raise ValueError(f"{name!r} is no name of a package")
        found = self._packages.get(name) or next(filter(Path.is_dir, self._candidates(name)), None)
        if found is None:
            raise ValueError(
                f"package {name!r} is not found around the file, nor in AMENT_PREFIX_PATH or "
                "ROS_PACKAGE_PATH"
            )
        self._packages[name] = found
        self._roots.append(found)
        return str(found)

    def _candidates(self, name: str) -> list[Path]:
        above = [*self._path.parents][:_ANCESTORS]
        around = [folder if folder.name == name else folder / name for folder in above]
        prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        sources = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        return [
            *around,
            *(Path(prefix) / "share" / name for prefix in prefixes if prefix),
            *(Path(source) / name for source in sources if source),
        ]

    def require(self, file: str) -> str:
        """Return a file's path; raise where it is outside of the packages."""
        resolved = Path(file).resolve()
        if not any(resolved.is_relative_to(root.resolve()) for root in self._roots):
            raise ValueError(f"{file}: outside of the packages of the file; it is not read")
        return file


def _limit(xacro: Any, substitution: Any, places: _Places) -> None:
    """Put narrower functions in the place of xacro's own."""
    absolute: Callable[[str], str] = xacro.abs_filename_spec
    parse: Callable[..., Any] = xacro.parse

    def parsed(given: Any, filename: str | None = None) -> Any:
        text = Path(xacro.root_dir or ".", str(filename)).read_text(
            encoding="utf-8", errors="replace"
        )
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ValueError(f"{filename}: a DOCTYPE, which could declare entities, is refused")
        return parse(given, filename)

    def no_environment(name: str) -> str:
        raise ValueError(f"$(env {name}): environment variables are not read")

    def evaluated(expression: str, context: dict[str, Any]) -> str:
        arguments = context.get("arg", {})
        values = {name: value for name, value in vars(math).items() if name[0] != "_"}
        values |= {"true": True, "false": False, "find": places.find}
        values |= {name: substitution.convert_value(v, "auto") for name, v in arguments.items()}
        values["arg"] = lambda name: substitution.convert_value(arguments[name], "auto")
        values["dirname"] = lambda: str(Path(context["filename"]).parent)
        values |= {"str": str, "int": int, "float": float, "list": list, "dict": dict, "map": map}
        return str(safe_eval(expression, values))

    xacro.abs_filename_spec = lambda name: places.require(absolute(name))
    xacro.parse = parsed
    xacro.safe_eval = safe_eval
    substitution._eval = evaluated
    substitution._eval_env = no_environment
    substitution._eval_optenv = lambda name, default="": default
    substitution._eval_find = places.find


def safe_eval(expression: str, names: dict[str, Any], local: Any = None) -> Any:
    """Return the value of an expression that can do arithmetic, comparisons, calls and items."""
    tree = ast.parse(expression.strip(), "<expression>", "eval")
    for node in ast.walk(tree):
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        if isinstance(node, _REFUSED_NODES) or (
            isinstance(name, str) and (name.startswith("_") or name in _REFUSED_NAMES)
        ):
            raise ValueError(f"the expression {expression.strip()!r} is refused")
    names.update(__builtins__={})
    return eval(compile(tree, "<expression>", "eval"), names, local)  # noqa: S307 - checked above


if __name__ == "__main__":
    main()
