"""minidyn: true dynamic models of robot arms.

The public names stand in `__init__.pyi`. Importing this module does nothing but read that list:
each name is fetched from where it lives when it is first used, so that importing is quick and heavy
libraries load only where they are needed.
"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_LINE = re.compile(r"^from (\S+) import (\w+) as (\w+)$", re.MULTILINE)
_STUB = (
    Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8").partition("# modules\n")
)

_WHERE = {name: f"{module}:{attribute}" for module, attribute, name in _LINE.findall(_STUB[0])}
"""Where each public name lives: module and attribute."""

_MODULES = {name: f"{package}.{module}" for package, module, name in _LINE.findall(_STUB[2])}
"""Modules that are part of the public face: md.control.slotine_li, md.trajectory.fourier."""

_MOVED = {
    "lumeng16": "papers.lumeng16",
    "Lumeng16": "papers.Lumeng16",
    "inertia_constants": "papers.inertia_constants",
    "InertiaConstants": "papers.InertiaConstants",
    "forward_dynamics_by_regressor": "papers.forward_dynamics_by_regressor",
    "inertia_matrix_by_regressor": "papers.inertia_matrix_by_regressor",
    "operation_count": "papers.operation_count",
}
"""Names of before and where they are now; they still work, with a warning."""


__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _MOVED:
        module, attribute = _MOVED[name].split(".")
        text = f"minidyn.{name} is now minidyn.{_MOVED[name]}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(__getattr__(module), attribute)
    if name not in _WHERE:
        raise AttributeError(f"module 'minidyn' has no attribute {name!r}")
    module, attribute = _WHERE[name].split(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *_WHERE, *_MODULES})
