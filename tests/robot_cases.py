"""Random robots that hold everything dynamics must survive, and the states to try them in.

Seeded: the same seed gives the same robot on every machine. Geometry is generic or special
(parallel, perpendicular and intersecting axes, right angles, zero offsets), because simplifications
strike at the special ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from minidyn.model.assemble import LooseJoint, LooseLink, assemble, motion_along
from minidyn.model.drives import Drive
from minidyn.model.geometry import Step, Steps, matrix_of
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot

__all__ = [
    "FOUR_BAR",
    "all_joint_map",
    "formula_robot",
    "random_body",
    "random_chain",
    "random_placement",
    "random_robot",
    "random_state",
    "relative_error",
    "robot_of_seed",
]

Array = NDArray[np.float64]
GRAVITIES = ("down", "across", "oblique", "zero", "up")

FOUR_BAR = """
[[joint]]
name = "crank"
alpha = 0.4
[[joint]]
name = "coupler"
a = 0.3
[[joint]]
name = "rocker"
parent = 0
alpha = 0.4
a = 0.8
[[joint]]
name = "wrist"
parent = "link2"
alpha = "90 deg"
a = 0.7
[[loop]]
kind = "point"
a = { link = "link2", xyz = [0.7, 0, 0] }
b = { link = "link3", xyz = [0.5, 0, 0] }
passive = ["coupler", "rocker"]
start = { crank = 1.0, coupler = -0.5, rocker = 2.0 }
"""
"""A linkage whose loop must be solved for, as a robot file; its wrist is outside the loop."""


def robot_of_seed(seed: int) -> Robot:
    """Return the robot of a seed.

    Size, geometry, joints, branches, drives, followers all drawn from it.
    """
    rng = np.random.default_rng(seed)
    return random_robot(
        rng,
        joints=int(rng.integers(1, 9)),
        kinds=str(rng.choice(["mixed", "mixed", "R", "P"], p=[0.4, 0.3, 0.25, 0.05])),
        special=bool(rng.random() < 0.5),
        branches=bool(rng.random() < 0.6),
        followers=bool(rng.random() < 0.4),
        loads=int(rng.integers(0, 2)),
        gravity=str(rng.choice(GRAVITIES)),
        name=f"random {seed}",
    )


def random_robot(
    rng: np.random.Generator,
    joints: int = 6,
    *,
    kinds: str = "mixed",
    special: bool = False,
    branches: bool = True,
    followers: bool = False,
    drives: bool = True,
    frames: bool = True,
    anchors: bool = True,
    loads: int = 0,
    gravity: str = "oblique",
    name: str = "random",
) -> Robot:
    """Return a random robot.

    Args:
        rng: Where chance comes from.
        joints: Moving joints, followers included.
        kinds: "R", "P" or "mixed".
        special: Right angles, coordinate axes and zero offsets instead of generic geometry.
        branches: Whether links may carry several joints.
        followers: Whether some joints follow others, some of those followers themselves.
        drives: Rotor inertia, gears, friction and coupling on some joints.
        frames: Links merged by fixed joints, on moving links and on the base, with mass of their
            own.
        anchors: Link frames away from the joints that carry them (`after` steps).
        loads: Rigid loads with columns of their own.
        gravity: One of GRAVITIES.
        name: Its name.
    """
    links = [LooseLink("base", "test")]
    loose: list[LooseJoint] = []
    moving: list[str] = []
    for index in range(joints):
        parent = (
            links[int(rng.integers(len(links)))].name
            if branches and rng.random() < 0.4
            else links[-1].name
        )
        kind = {"R": "revolute", "P": "prismatic"}.get(kinds) or str(
            rng.choice(["revolute", "continuous", "prismatic"])
        )
        made = _joint(rng, f"joint{index}", kind, parent, f"link{index}", special, anchors)
        if drives and moving and rng.random() < 0.3:
            made = replace(
                made, drive=Drive(coupling=((str(rng.choice(moving)), float(rng.normal())),))
            )
        if drives:
            values, gear = _drive_values(rng), float(rng.choice([1.0, 101.0]))
            made = replace(made, drive_values=values, drive=replace(made.drive, gear_ratio=gear))
        if followers and index and rng.random() < 0.4:
            leader = moving[0] if rng.random() < 0.5 else str(rng.choice(moving))
            made = replace(made, leaders={leader: float(rng.normal())}, offset=float(rng.normal()))
        loose.append(made)
        moving.append(made.name)
        links.append(LooseLink(made.child, "test", random_body(rng)))
        if frames and rng.random() < 0.3:
            frame = LooseLink(
                f"frame{index}", "test", random_body(rng) if rng.random() < 0.7 else None
            )
            carrier = str(rng.choice(["base", made.child]))
            loose.append(
                LooseJoint(
                    f"hold{index}",
                    "test",
                    "fixed",
                    carrier,
                    frame.name,
                    random_placement(rng, special),
                )
            )
            links.append(frame)
    base = random_placement(rng, special) if rng.random() < 0.5 else ()
    robot = assemble(name, links, loose, gravity=_gravity(rng, gravity), base=base)
    for number in range(loads):
        carrier = robot.link_names[int(rng.integers(len(robot.link_names)))]
        placement = matrix_of(random_placement(rng, special))
        robot = robot.with_load(placement, random_body(rng), link=carrier, name=f"load{number}")
    return robot


def random_chain(seed: int, joints: str = "RRRRRR", **options: object) -> Robot:
    """Return a serial arm of given joints from a random mDH table, with bodies.

    Options go to `from_mdh`.
    """
    rng = np.random.default_rng(seed)
    n = len(joints)
    right = rng.random(n) < 0.7
    alpha = np.where(
        right, rng.choice([0.0, math.pi / 2, -math.pi / 2, math.pi], n), rng.normal(size=n)
    )
    a = np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))
    d = np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))
    theta = rng.choice([0.0, math.pi / 2, 0.3], n)
    robot = Robot.from_mdh(joints, alpha, a, d, theta, **options)  # type: ignore[arg-type]
    values = rng.uniform(0.1, 1.0, len(robot.layout))
    for part in robot.layout.links:
        values[part] = random_body(rng)
    return robot.with_parameters(values)


def formula_robot() -> Robot:
    """Return a robot whose third joint follows the first two by a formula with every function a
    formula may have.
    """
    rng = np.random.default_rng(7)
    formula = (
        "0.5*sin(one) + sqrt(1.5 + two*two)*cos(two) - atan2(one, 2 + two*two) + "
        "0.1*acos(sin(one)/2)"
    )
    links = [
        LooseLink("base", "test"),
        *(LooseLink(name, "test", random_body(rng)) for name in ("a", "b", "c", "d")),
    ]
    joints = [
        LooseJoint("one", "test", "revolute", "base", "a", (Step("rx", 0.4),)),
        LooseJoint("two", "test", "prismatic", "a", "b", (Step("ry", 0.7), Step("tx", 0.2)), "ty"),
        LooseJoint(
            "three",
            "test",
            "revolute",
            "b",
            "c",
            (Step("rz", 0.3), Step("tz", 0.5)),
            "rx",
            formula=formula,
        ),
        LooseJoint(
            "four",
            "test",
            "revolute",
            "c",
            "d",
            (Step("tx", 0.3),),
            drive_values={"Ia": 0.2, "Fc": 0.3},
        ),
    ]
    return assemble("formula", links, joints)


def random_body(rng: np.random.Generator, away: float = 0.2, heaviest: float = 1.5) -> Array:
    """Return the ten parameters of a real body: a handful of point masses.

    Args:
        rng: Where chance comes from.
        away: How far from the origin its middle is, m.
        heaviest: Largest mass of a point, kg.
    """
    points = rng.normal(size=(5, 3)) * 0.2 + rng.normal(size=3) * away
    masses = rng.uniform(0.1, heaviest, size=5)
    com = masses @ points / masses.sum()
    arms = points - com
    inertia = sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms))
    return from_body(float(masses.sum()), com, inertia)


def random_placement(rng: np.random.Generator, special: bool = False) -> Steps:
    """Return a placement of up to five steps.

    Special ones turn by right angles and often do not shift.
    """
    kinds = rng.choice(
        ["rx", "ry", "rz", "tx", "ty", "tz"], size=int(rng.integers(0, 4 if special else 6))
    )
    right = [math.pi / 2, -math.pi / 2, math.pi]
    return tuple(
        Step(
            str(kind),
            float(rng.choice(right) if special and kind[0] == "r" else 0.6 * rng.normal()),
        )
        for kind in kinds
    )


def random_state(robot: Robot, rng: np.random.Generator, *batch: int) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq of shape (*batch, n)."""
    shape = (*batch, robot.n)
    return rng.uniform(-3, 3, shape), rng.normal(size=shape), rng.normal(size=shape)


def all_joint_map(robot: Robot) -> tuple[Array, Array]:
    """Return (G, offset) with q_all = G q + offset for all of `robot.joints`.

    Linear followers only.
    """
    G = np.zeros((len(robot.joints), robot.n))
    offset = np.zeros(len(robot.joints))
    for index, joint in enumerate(robot.joints):
        if index in robot.independent:
            G[index, robot.independent.index(index)] = 1.0
        elif joint.follows is not None:
            offset[index] = joint.follows.offset
            for leader, ratio in joint.follows.terms:
                G[index, robot.joint_names.index(leader)] += ratio
    return G, offset


def relative_error(value: object, expected: object, scale: float = 1e-3) -> float:
    """Return the largest error of an array relative to its largest entry, or to `scale` where that
    is larger.
    """
    difference = np.abs(np.asarray(value, dtype=float) - np.asarray(expected, dtype=float))
    if difference.size == 0:
        return 0.0
    error = float(difference.max()) / max(
        float(np.abs(np.asarray(expected, dtype=float)).max()), scale
    )
    return math.inf if math.isnan(error) else error


def _joint(
    rng: np.random.Generator,
    name: str,
    kind: str,
    parent: str,
    child: str,
    special: bool,
    anchors: bool,
) -> LooseJoint:
    oblique = not special and rng.random() < 0.4
    axis = rng.normal(size=3) if oblique else np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
    turn, motion, sign, back = motion_along(kind, axis, "test")
    before = (*random_placement(rng, special), *turn)
    if rng.random() < 0.2:  # an offset of the joint's own coordinate, which recording joins to q
        before = (*before, Step(motion, math.pi / 2 if special else float(rng.normal())))
    after = random_placement(rng, special) if anchors and rng.random() < 0.3 else ()
    return LooseJoint(name, "test", kind, parent, child, before, motion, sign, (*back, *after))


def _drive_values(rng: np.random.Generator) -> dict[str, float]:
    return {
        symbol: float(rng.uniform(0.1, 1.0))
        for symbol in ("Ia", "Fv", "Fc", "Fo")
        if rng.random() < 0.4
    }


def _gravity(rng: np.random.Generator, mode: str) -> Array:
    directions = {
        "down": (0, 0, -9.81),
        "up": (0, 0, 3.7),
        "across": (9.81, 0, 0),
        "zero": (0, 0, 0),
    }
    return (
        np.array(directions[mode], dtype=float) if mode in directions else 5.0 * rng.normal(size=3)
    )
