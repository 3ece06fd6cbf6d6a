"""Random chains and trees for the closed-form rule.

Every special geometry and every direction of gravity it knows. Seeded: the same seed gives the same
robot on every machine.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from minidyn.model.robot import Robot
from robot_cases import random_robot

__all__ = ["any_frames", "chain_of_seed", "tree_of_seed"]

Array = NDArray[np.float64]


def chain_of_seed(seed: int, drives: bool = False) -> Robot:
    """Return a serial chain of 1 to 8 joints from an mDH table."""
    rng = np.random.default_rng([seed, 1])
    return _robot(rng, int(rng.integers(1, 9)), tree=False, drives=drives, name=f"chain {seed}")


def tree_of_seed(seed: int, drives: bool = False) -> Robot:
    """Return a tree of 2 to 9 joints from an mDH table with gamma and b."""
    rng = np.random.default_rng([seed, 2])
    return _robot(rng, int(rng.integers(2, 10)), tree=True, drives=drives, name=f"tree {seed}")


def any_frames(seed: int) -> Robot:
    """Return a tree with any axes, placements, loads, base and single drives."""
    rng = np.random.default_rng([seed, 3])
    robot = random_robot(
        rng,
        joints=int(rng.integers(1, 8)),
        special=bool(rng.random() < 0.7),
        branches=bool(rng.random() < 0.5),
        loads=int(rng.integers(0, 3)),
        gravity=str(rng.choice(["down", "across", "oblique", "zero", "up"])),
        name=f"any frames {seed}",
    )
    return replace(
        robot, joints=tuple(replace(j, drive=replace(j.drive, coupling=())) for j in robot.joints)
    )


def _robot(rng: np.random.Generator, n: int, tree: bool, drives: bool, name: str) -> Robot:
    style = rng.choice(
        ["mixed", "R", "P", "P first", "planar", "wrist"], p=[0.4, 0.2, 0.05, 0.1, 0.15, 0.1]
    )
    odds = {"R": 0.0, "wrist": 0.0, "P": 1.0}.get(str(style), 0.35)
    kinds = ["P" if rng.random() < odds else "R" for _ in range(n)]
    if style == "P first":
        count = min(n, int(rng.integers(1, 4)))
        kinds[:count] = ["P"] * count
    right = [0.0, math.pi, math.pi / 2, -math.pi / 2]
    weights = {"planar": [0.6, 0.2, 0.1, 0.1]}.get(str(style), [0.25, 0.1, 0.35, 0.3])
    generic = 0.0 if style == "planar" and rng.random() < 0.7 else 0.25
    alpha = np.where(
        rng.random(n) < generic,
        rng.choice([0.4, math.pi / 4, -0.4], n),
        rng.choice(right, n, p=weights),
    )
    zero = 1.0 if style == "wrist" else float(rng.choice([0.2, 0.5, 0.8]))
    a = np.where(rng.random(n) < zero, 0.0, rng.choice([0.3, -0.2, 0.45], n))
    d = np.where(rng.random(n) < zero, 0.0, rng.choice([0.25, -0.4, 0.6], n))
    if style == "wrist" and rng.random() < 0.5:
        d[-1], d[0] = 0.3, 0.5  # the frames' origins are away from the point where the axes meet
    theta = np.where(rng.random(n) < 0.7, rng.choice([0.0, math.pi / 2], n), 0.35)
    if rng.random() < 0.6:
        alpha[0] = 0.0
    gravity = {
        0: (0.0, 0.0, -9.81),
        1: (0.0, 0.0, 9.81),
        2: (9.81, 0.0, 0.0),
        3: (3.0, -2.0, -8.0),
        4: (0.0, 0.0, 0.0),
        5: (0.0, -6.0, -8.0),
    }[int(rng.choice(6, p=[0.3, 0.1, 0.15, 0.15, 0.2, 0.1]))]
    options: dict[str, object] = {}
    if tree:
        options["parent"] = [int(rng.integers(max(0, i - 3), i + 1)) for i in range(n)]
        options["gamma"] = np.where(
            rng.random(n) < 0.5, 0.0, rng.choice([math.pi / 2, math.pi, 0.5], n)
        )
        options["b"] = np.where(rng.random(n) < 0.5, 0.0, rng.choice([0.2, -0.35], n))
    if drives:
        options["rotor_inertia"] = True
        options["friction"] = [t for t in ("viscous", "coulomb", "offset") if rng.random() < 0.5]
    robot = Robot.from_mdh(
        "".join(kinds), alpha, a, d, theta, gravity=gravity, name=name, **options
    )  # type: ignore[arg-type]
    return robot.with_parameters(rng.normal(size=len(robot.layout)))
