"""minidyn: true dynamic models of robot arms.

The public names, in the order of the pipeline. Importing this module does nothing else; heavy parts are imported
where they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minidyn.errors import MinidynError as MinidynError
    from minidyn.model.robot import Robot as Robot

__version__ = "0.1.0"

_WHERE = {
    "MinidynError": "minidyn.errors",
    "Robot": "minidyn.model.robot",
    "load": "minidyn.model.load",
    "robots": "minidyn.model.load",
    "save": "minidyn.model.save",
}
"""Where each public name lives."""

__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'minidyn' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
