"""The closed-form rule behind a free base: how many base parameters, without any case.

A free base turns and accelerates every link every way. So all ten parameters of the base count; of
a link on a rotational joint seven, its YY, MZ and M (axis z) being felt as if fixed to its parent;
of a link on a sliding joint four, its tensor being felt as its parent's. No geometry is special,
and a rotor is separated from its link, which the base moves, too.
"""

from __future__ import annotations

import numpy as np

from minidyn.base.closed_form.combinations import Combination
from minidyn.dynamics.newton_euler import regrouped
from minidyn.errors import Unsupported
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import Robot


def behind_free_base(robot: Robot, for_: str) -> list[Combination]:
    """Return the minimal linear combinations of a robot with a free base, link by link.

    Parameters are those of the bodies that links make with what is handed down to them, in frames
    on the joints: XXR2 is XX2 - YY2 and what link 3 hands down. Values are rows (p,).

    Implements: Gautier1991 eq. (19)-(21), with a base that moves.
    """
    if robot.loops or any(joint.follows is not None for joint in robot.joints):
        raise Unsupported(
            f"minimal linear combinations: robot {robot.name!r} has a free base and joints that "
            'follow others, which the rule does not cover: use method="exact"'
        )
    if for_ == "gravity":
        raise Unsupported(
            "minimal linear combinations: with a free base the rule is for torque and inertia; for "
            'gravity use method="exact"'
        )
    layout, size = robot.layout, len(robot.layout)
    _, bodies = regrouped(robot, [list(np.eye(size)[part]) for part in layout.links])
    found = []
    moving = [index for index, joint in enumerate(robot.joints) if joint.kind != "fixed"]
    for place, index in enumerate(moving):
        for symbol, row in zip(STANDARD, bodies[index]):
            if np.any(row):
                alone = np.count_nonzero(row) == 1
                name = f"{symbol}{'' if alone else 'R'}{index + 1}"
                unit = 2 if symbol in STANDARD[:6] else len(symbol) - 1
                found.append(Combination(name, place, unit, (symbol,), row))
        for column in layout.drives[index]:
            if for_ == "torque" or not column.is_friction:
                row = np.eye(size)[column.index]
                found.append(Combination(column.name, place, -1, (column.symbol,), row))
    return found
