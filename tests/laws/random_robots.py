"""Random robots with everything a robot can have.

Branches, oblique axes, frames, drives, followers, loads, loops.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import robot_cases
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble, motion_along
from minidyn.model.drives import Drive
from minidyn.model.geometry import Step, Steps, matrix_of
from minidyn.model.joint import Limits
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot

Array = NDArray[np.float64]


def random_steps(rng: np.random.Generator) -> Steps:
    """Return a placement of up to four steps, right angles among them."""
    kinds = rng.choice(["rx", "ry", "rz", "tx", "ty", "tz"], size=rng.integers(0, 5))
    return tuple(
        Step(str(kind), float(rng.choice([math.pi / 2, -math.pi / 2, math.pi, rng.normal()])))
        if kind[0] == "r"
        else Step(str(kind), float(rng.normal()))
        for kind in kinds
    )


def random_body(rng: np.random.Generator) -> Array:
    """Return the ten parameters of a real body."""
    return robot_cases.random_body(rng, away=0.1, heaviest=2.0)


def random_tree(rng: np.random.Generator, joints: int = 6, fixed: int = 2) -> Robot:
    """Return a random tree with drives, limits, a mimic joint and links that fixed joints merge."""
    links = [LooseLink("base", "test")]
    loose: list[LooseJoint] = []
    for index in range(joints + fixed):
        parent = links[int(rng.integers(max(0, len(links) - 3), len(links)))].name
        still = index >= joints
        kind = "fixed" if still else str(rng.choice(["revolute", "continuous", "prismatic"]))
        child = f"frame {index}" if still else f"link{index}"
        links.append(
            LooseLink(child, "test", random_body(rng) if not still or rng.random() < 0.5 else None)
        )
        before = random_steps(rng)
        if still:
            loose.append(LooseJoint(f"hold{index}", "test", kind, parent, child, before))
            continue
        axis = (
            np.eye(3)[rng.integers(3)] * rng.choice([-1, 1])
            if rng.random() < 0.6
            else rng.normal(size=3)
        )
        turn, motion, sign, back = motion_along(kind, axis, "test")
        drive = {
            key: float(rng.uniform(0.1, 1))
            for key in ("Ia", "Fv", "Fc", "Fo")
            if rng.random() < 0.4
        }
        lower = float(rng.uniform(-3, 0))
        limits = (
            Limits(lower, lower + 2.0, 3.0, 50.0)
            if rng.random() < 0.5 and kind != "continuous"
            else Limits()
        )
        follows = {"joint0": 0.5} if index == joints - 1 and joints > 2 else None
        loose.append(
            LooseJoint(
                f"joint{index}",
                "test",
                kind,
                parent,
                child,
                (*before, *turn),
                motion,
                sign,
                back,
                limits=limits,
                leaders=follows,
                offset=0.1 if follows else 0.0,
                drive_values=drive,
                drive=Drive(gear_ratio=float(rng.choice([1.0, 100.0]))),
            )
        )
    order = rng.permutation(len(loose))
    return assemble(f"random {rng.integers(1000)}", links, [loose[i] for i in order])


def rich_robot(rng: np.random.Generator) -> Robot:
    """Return a robot with all that no other format holds.

    Gravity, base, symbols, loads, loops, formulas, unknowns.
    """
    robot = random_tree(rng)
    joints = list(robot.joints)
    joints[0] = replace(joints[0], before=(Step("tx", 0.4, "a2"), Step("tz", -0.8, "a2", -2.0)))
    turning = next((i for i, joint in enumerate(joints) if joint.turns and i > 0), 0)
    joints[turning] = replace(
        joints[turning], after=(Step("tx", 0.3), Step("rz", 0.7), Step("ty", 0.2))
    )
    names = [joint.name for joint in joints]
    joints[2] = replace(joints[2], drive=replace(joints[2].drive, coupling=((names[1], -0.25),)))
    values = robot.parameters.copy()
    values[robot.layout.links[1]] = np.nan
    values[robot.layout.links[2].start + 3] = np.nan
    values[robot.layout.links[3]] = [1, 0, 0, 1, 0, 1, 0.5, 0, 0, 0]  # first moment without mass
    robot = replace(
        robot,
        joints=tuple(joints),
        parameters=values,
        gravity=np.array([0.0, 9.81, 0.1]),
        base=(Step("rx", math.pi / 2), Step("tz", 0.3)),
        symbols=(("a2", 0.4),),
    )
    return robot.with_load(matrix_of(random_steps(rng)), random_body(rng)).with_load(
        None, None, name="second"
    )


def looped_robot() -> Robot:
    """Return a four-bar linkage whose loop must be solved, and one joint given by a formula."""
    links = [
        LooseLink(name, "test", from_body(1.0, (0.1, 0, 0), 0.01 * np.eye(3))) for name in "abcde"
    ]
    joints = [
        LooseJoint("crank", "test", "revolute", "a", "b"),
        LooseJoint("coupler", "test", "revolute", "b", "c", (Step("tx", 0.3),), passive=True),
        LooseJoint("rocker", "test", "revolute", "a", "d", (Step("tx", 0.8),), passive=True),
        LooseJoint("lever", "test", "revolute", "b", "e", formula="0.5*sin(crank) + 0.1"),
    ]
    ends = (Step("tx", 0.7),), (Step("tx", 0.5),)
    loop = LooseLoop(
        "bar", "test", "c", ends[0], "d", ends[1], "point", ("coupler", "rocker"), (0.8, 1.9)
    )
    return assemble("four-bar", links, joints, loops=[loop])


def placements(robot: Robot, q: dict[str, float]) -> dict[str, Array]:
    """Return every link's and frame's placement in the world (4, 4), joints by name."""
    world = [robot.base_placement]
    found = {robot.base_name: robot.base_placement}
    for joint, link in zip(robot.joints, robot.link_names):
        world.append(world[joint.parent + 1] @ joint.placement_at(q.get(joint.name, 0.0)))
        found[link] = world[-1]
    for frame in robot.frames:
        found[frame.name] = world[frame.link + 1] @ frame.placement
    return found


def random_positions(robot: Robot, rng: np.random.Generator) -> dict[str, float]:
    """Return a value for every joint, followers included (linear ones only)."""
    q = {name: float(rng.uniform(-1, 1)) for name in robot.joint_names}
    for joint in robot.joints:
        if joint.follows is not None:
            q[joint.name] = joint.follows.offset + sum(
                ratio * q[name] for name, ratio in joint.follows.terms
            )
    return q


__all__ = [
    "looped_robot",
    "placements",
    "random_body",
    "random_positions",
    "random_steps",
    "random_tree",
    "rich_robot",
]
