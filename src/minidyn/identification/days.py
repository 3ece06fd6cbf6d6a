"""What another recording of a robot has that one log cannot show.

Friction is another on another day: temperature and wear change all friction of a joint together, by
a share s of it. Its offset is a difference of larger ones and may come out near zero: it varies by
s times the joint's Coulomb friction. With φ_j the friction of joint j without its offset, and e_j
the unit vector of that offset, friction of one day scatters about that of the robot by

    s² Σ_j (φ_j φ_jᵀ + Fc_j² e_j e_jᵀ)

in standard parameters. A model of one day predicts another: both days scatter.
"""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array, of_roots
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import friction_columns
from minidyn.model.drives import FRICTION
from minidyn.model.robot import Robot

# of a joint's friction, standard deviation from day to day, of robots with one known log: 12 % of a
# KR300, 11 % of a UR10 (benchmarks/days.py), times Student's factor for twelve joints, 1.11
DAY_SPREAD = 0.13

MODEL_ERROR = "model_error_std"
"""Setting of an estimate: by how much each base parameter (b,) may be off in another motion."""


def day_covariance(robot: Robot, base: BaseMap, share: float) -> Array:
    """Return the covariance (b, b) of base parameters by which friction of one day scatters.

    Args:
        robot: The model, with its friction.
        base: Its base parameters.
        share: Standard deviation of a joint's friction, as a share of it.
    """
    layout, joints = robot.layout, range(len(robot.joints))
    roots = np.zeros((len(layout.columns), 2 * len(robot.joints)))
    friction = [layout.columns[index] for index in friction_columns(robot)]
    dry = dict.fromkeys(joints, 0.0)
    dry |= {
        column.joint: float(robot.parameters[column.index])
        for column in friction
        if column.symbol == FRICTION["coulomb"]
    }
    for column in friction:
        is_offset = column.symbol == FRICTION["offset"]
        value = dry[column.joint] if is_offset else robot.parameters[column.index]
        roots[column.index, 2 * column.joint + is_offset] = value
    return of_roots(share * np.asarray(base.matrix @ roots))
