"""Modified Denavit-Hartenberg tables of robots.

Every joint turns about, or slides along, z of its link's frame and through its origin. `mdh_rows`
reads the table of a robot described that way; `minidyn.model.mdh_frames` gives every other tree of
rotational and translational joints such frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minidyn.errors import Unsupported
from minidyn.model.free_base import require_fixed_base
from minidyn.model.joint import Joint

if TYPE_CHECKING:
    from minidyn.model.robot import Robot


@dataclass(frozen=True, slots=True)
class MdhRow:
    """One row: T = Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d), q added to theta or d.

    Attributes:
        parent: Index of the parent link, -1 for the base.
        turning: Whether q adds to theta (else to d).
        gamma: About the parent's z, rad: 0 but for branches and the first joint.
        b: Along the parent's z, m: 0 but for branches and the first joint.
        alpha: The papers' β, rad.
        a: The papers' b, m.
        theta: Constant part, rad.
        d: Constant part, m.
    """

    parent: int
    turning: bool
    gamma: float
    b: float
    alpha: float
    a: float
    theta: float
    d: float


def mdh_rows(robot: Robot) -> tuple[MdhRow, ...]:
    """Return the robot's modified Denavit-Hartenberg table.

    Raises:
        Unsupported: A joint does not stand that way; `to_mdh` makes a robot whose joints do.
    """
    require_fixed_base(robot, "mdh_rows")
    rows = []
    for joint in robot.joints:
        row = row_of(joint)
        if row is None:
            raise Unsupported(
                f"joint {joint.name!r} of robot {robot.name!r} is not described by a modified "
                "Denavit-Hartenberg row; robot.mdh().robot gives the robot such "
                "frames"
            )
        rows.append(row)
    return tuple(rows)


def is_mdh(robot: Robot) -> bool:
    """Say whether every joint is described by a modified Denavit-Hartenberg row."""
    return all(row_of(joint) is not None for joint in robot.joints)


def check_open(robot: Robot, what: str) -> None:
    """Refuse robots with loops or joints that follow others, naming the method that covers them."""
    require_fixed_base(robot, what)
    if robot.loops:
        raise Unsupported(
            f"{what}: robot {robot.name!r} has a closed loop ({robot.loops[0].name!r}); "
            'composite bodies need an open chain or tree: use method="exact"'
        )
    for joint in robot.joints:
        if joint.follows is not None:
            raise Unsupported(
                f"{what}: joint {joint.name!r} of robot {robot.name!r} follows other joints; "
                'composite bodies need independent joints: use method="exact"'
            )


def along_z(joint: Joint) -> bool:
    """Say whether a joint moves along or about z of its link's frame."""
    return (
        joint.kind not in ("fixed", "floating")
        and joint.motion[1] == "z"
        and joint.direction == 1
        and not joint.after
    )


def row_of(joint: Joint) -> MdhRow | None:
    """Read z steps, x steps, z steps; None where the joint is given another way."""
    if not along_z(joint):
        return None
    groups: list[dict[str, float]] = [
        {"rz": 0.0, "tz": 0.0},
        {"rx": 0.0, "tx": 0.0},
        {"rz": 0.0, "tz": 0.0},
    ]
    place = 0 if any(step.kind[1] == "x" for step in joint.before) else 2
    for step in joint.before:
        while place < 3 and step.kind not in groups[place]:
            place += 1
        if place == 3:
            return None
        groups[place][step.kind] += step.value
    return MdhRow(
        joint.parent, joint.turns, *(value for group in groups for value in group.values())
    )
