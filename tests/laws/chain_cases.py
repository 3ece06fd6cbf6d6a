"""Random serial chains with everything special that geometry can be, for laws about composite
bodies.
"""

from __future__ import annotations

import math

import numpy as np

from minidyn.model.robot import Robot
from robot_cases import random_body

GRAVITIES = ((0.0, 0.0, -9.81), (0.0, 0.0, 0.0), (1.0, -3.0, 2.0), (9.81, 0.0, 0.0))


def special_chain(seed: int, longest: int = 8) -> Robot:
    """Return a chain of 1 to `longest` joints.

    R/P mixes, parallel, antiparallel, perpendicular, intersecting axes.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, longest + 1))
    style = rng.integers(5)
    letters = {0: "R", 1: "RP", 2: "RRRP", 3: "RPP", 4: "P" if rng.random() < 0.3 else "RP"}[
        int(style)
    ]
    joints = "".join(rng.choice(list(letters), n))
    if rng.random() < 0.3:
        joints = "P" + joints[1:]
    right = [0.0, 0.0, math.pi / 2, -math.pi / 2, math.pi]
    alpha = np.where(rng.random(n) < 0.75, rng.choice(right, n), rng.normal(size=n))
    lead = int(rng.integers(0, n + 1))  # a run of parallel axes at the beginning
    alpha[1:lead] = rng.choice([0.0, 0.0, math.pi], max(lead - 1, 0))
    a = np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))
    d = np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))
    theta = rng.choice([0.0, math.pi / 2, 0.3], n)
    gravity = GRAVITIES[int(rng.integers(len(GRAVITIES)))]
    robot = Robot.from_mdh(joints, alpha, a, d, theta, gravity=gravity, name=f"chain {seed}")
    values = np.concatenate([random_body(rng) for _ in range(n)])
    return robot.with_parameters(values)
