"""A robot seen as a modified Denavit-Hartenberg chain or tree.

Its table, its constants, and how any robot gets there. The closed-form rules of the Lin papers ask
that every joint turns about, or slides along, z of its link's frame and through its origin.
`mdh_rows` reads the table of a robot described that way; `to_mdh` gives every other tree of
rotational and translational joints such frames, with the linear map of the standard parameters that
goes with the change of frames. Joint coordinates stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minidyn.dynamics.papers.composite import Pose, Stand
from minidyn.dynamics.tree import REAL, Numbers, constant_placement
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import Unsupported
from minidyn.model.geometry import Step
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot, require_fixed_base


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
        row = _row(joint)
        if row is None:
            raise Unsupported(
                f"joint {joint.name!r} of robot {robot.name!r} is not described by a modified "
                "Denavit-Hartenberg row; minidyn.dynamics.mdh_frames.to_mdh gives the robot such "
                "frames"
            )
        rows.append(row)
    return tuple(rows)


def is_mdh(robot: Robot) -> bool:
    """Say whether every joint is described by a modified Denavit-Hartenberg row."""
    return all(_row(joint) is not None for joint in robot.joints)


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


def stands(robot: Robot, numbers: Numbers = REAL) -> list[Stand]:
    """Return how the joints stand on their parents, in a number system.

    Axes must be z of the links' frames.
    """
    found = []
    for joint in robot.joints:
        _check_z(joint, robot)
        turns, shift = constant_placement(_constant_steps(joint), numbers)
        found.append(Stand(joint.parent, joint.turns, turns, shift))
    return found


def poses(robot: Robot, q: Sequence[Scalar]) -> list[Pose]:
    """Return where the joints are at coordinates q of all joints."""
    found = []
    for joint, value in zip(robot.joints, q):
        _check_z(joint, robot)
        constant = _constant_steps(joint)
        offset = joint.before[-1] if len(constant) < len(joint.before) else None
        turns, _ = constant_placement(constant, REAL)
        if joint.turns:
            found.append(Pose((*turns, (2, *REAL.joint_turn(value, 1, offset))), 0.0))
        else:
            found.append(Pose(turns, value if offset is None else value + offset.value))
    return found


def _constant_steps(joint: Joint) -> tuple[Step, ...]:
    """The steps before the joint's own variable.

    Its constant part (theta or d) belongs to the variable.
    """
    if joint.before and joint.before[-1].kind == joint.motion:
        return joint.before[:-1]
    return joint.before


def _along_z(joint: Joint) -> bool:
    return (
        joint.kind not in ("fixed", "floating")
        and joint.motion[1] == "z"
        and joint.direction == 1
        and not joint.after
    )


def _check_z(joint: Joint, robot: Robot) -> None:
    if not _along_z(joint):
        raise Unsupported(
            f"joint {joint.name!r} of robot {robot.name!r}: its axis is not z of its link's frame; "
            "minidyn.dynamics.mdh_frames.to_mdh gives the robot frames where it is"
        )


def _row(joint: Joint) -> MdhRow | None:
    """Read z steps, x steps, z steps; None where the joint is given another way."""
    if not _along_z(joint):
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
