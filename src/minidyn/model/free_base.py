"""What refuses robots with a free base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minidyn.errors import Unsupported

if TYPE_CHECKING:
    from minidyn.model.robot import Robot


def require_fixed_base(robot: Robot, what: str) -> None:
    """Refuse a robot with a free base where a function does not support one."""
    if robot.free_base:
        raise Unsupported(
            f"{what}: robot {robot.name!r} has a free base, which is not supported here yet; "
            "docs/free-base.md lists what is"
        )
