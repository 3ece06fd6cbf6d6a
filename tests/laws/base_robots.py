"""Random robots with the special geometry that decides base parameters.

Parallel, crossing and coinciding axes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from minidyn.formats.load import load
from minidyn.model.geometry import Step
from minidyn.model.robot import Robot

_ANGLES = (0.0, 0.0, math.pi / 2, -math.pi / 2, math.pi, math.pi / 4, math.pi / 3, 2 * math.pi / 3)
_GRAVITIES = (
    (0, 0, -9.81),
    (0, 0, -9.81),
    (0, -9.81, 0),
    (9.81, 0, 0),
    (3.1, -4.2, -8.3),
    (0, 0, 0),
)


def special_robot(seed: int, size: int | None = None) -> Robot:
    """Return the robot of a seed.

    1 to 8 joints, chain or tree, all kinds of gravity, drives in some.

    Args:
        seed: Which robot.
        size: Number of joints; None: by chance.
    """
    rng = np.random.default_rng((seed, 4))
    n = int(rng.integers(1, 9)) if size is None else size
    kind = rng.choice(["R", "P", "mixed"], p=[0.45, 0.1, 0.45])
    joints = "".join(
        rng.choice(["R", "P"], p=[0.65, 0.35]) if kind == "mixed" else str(kind) for _ in range(n)
    )
    free = float(rng.uniform(-1.5, 1.5))  # one oblique angle, its opposite and its supplement recur
    angles = (*_ANGLES, free, -free, math.pi - free)
    tree = n > 2 and rng.random() < 0.3
    special = rng.random() < 0.8

    def lengths() -> list[float]:
        zero = rng.random(n) < (0.5 if special else 0.0)
        return [
            0.0 if gone else float(value)
            for gone, value in zip(zero, rng.uniform(0.05, 0.8, n).round(3))
        ]

    robot = Robot.from_mdh(
        joints,
        alpha=[float(rng.choice(angles)) for _ in range(n)] if special else rng.uniform(-3, 3, n),
        a=lengths(),
        d=lengths(),
        theta=[float(rng.choice(angles)) if letter == "P" else 0.0 for letter in joints],
        gravity=_GRAVITIES[int(rng.integers(len(_GRAVITIES)))],
        rotor_inertia=bool(rng.random() < 0.5),
        friction=("viscous", "coulomb", "offset") if rng.random() < 0.3 else (),
        parent=[int(rng.integers(max(0, k - 3), k + 1)) for k in range(n)] if tree else None,
        name=f"special {seed}",
    )
    return robot.with_parameters(rng.normal(size=len(robot.layout)))


def looped_arm(seed: int, solved: bool = False) -> Robot:
    """Return an arm with a parallelogram of random lengths: the topology of the built-in `hpr`.

    Args:
        seed: Which one.
        solved: Leave the passive joints to be solved for, instead of giving them as functions.
    """
    rng = np.random.default_rng((seed, 5))
    robot = load("hpr")
    first, second, wrist = (float(x) for x in rng.uniform(0.1, 0.8, 3).round(3))
    lean = Step("rx", float(rng.choice([math.pi / 2, math.pi / 2, 0.0, 0.7])))
    before = {
        1: (lean,),
        2: (lean,),
        3: (Step("tx", first),),
        4: (Step("tx", second),),
        5: (
            Step("rx", float(rng.choice(_ANGLES))),
            Step("tx", wrist),
            Step("tz", float(rng.choice([0.0, 0.2]))),
        ),
        6: (Step("rx", float(rng.choice(_ANGLES))), Step("tx", float(rng.choice([0.0, 0.3])))),
    }
    joints = tuple(
        replace(joint, before=before.get(k, joint.before)) for k, joint in enumerate(robot.joints)
    )
    (loop,) = robot.loops
    loop = replace(
        loop, steps_a=(Step("tx", second),), steps_b=(Step("tx", -first),), start=(-1.0, 2.0)
    )
    if solved:
        joints = tuple(
            replace(j, follows=None) if j.follows and j.follows.passive else j for j in joints
        )
        loop = replace(
            loop, home=(("joint3", 0.0), ("joint4", 1.0)), start=(-1.0, 3 * math.pi - 1.0)
        )
    gravity = np.array(_GRAVITIES[int(rng.integers(len(_GRAVITIES)))], dtype=float)
    robot = replace(robot, joints=joints, loops=(loop,), gravity=gravity)
    drives = [joint.name for joint in robot.joints if rng.random() < 0.7]
    return robot.with_drives(rotor_inertia=drives, friction="viscous" if rng.random() < 0.3 else ())


def rescaled(robot: Robot, length: float) -> Robot:
    """Return the robot with lengths in another unit: metres times `length`; gravity follows."""

    def steps(old: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(
            step if step.is_turn else replace(step, value=step.value * length) for step in old
        )

    joints = tuple(
        replace(joint, before=steps(joint.before), after=steps(joint.after))
        for joint in robot.joints
    )
    symbols = tuple((name, value * length) for name, value in robot.symbols)
    return replace(robot, joints=joints, gravity=robot.gravity * length, symbols=symbols)
