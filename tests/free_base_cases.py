"""Robots with a free base, random and made up, and states of theirs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import minidyn as md
from minidyn.model.assemble import LooseJoint, LooseLink, assemble
from minidyn.model.geometry import Step
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot

Array = NDArray[np.float64]

SLIDES_AND_TURNS = ("tx", "ty", "tz", "rz", "ry", "rx")


def carried_body(legs: int, joints: int) -> Robot:
    """Return a body on three slides and three turns without mass between, and legs on it."""
    rng = np.random.default_rng(legs)

    def body(name: str) -> LooseLink:
        return LooseLink(name, "", from_body(rng.uniform(1, 2), rng.normal(size=3), np.eye(3)))

    def place() -> tuple[Step, ...]:
        kinds = ("tx", "ty", "tz", "rz", "rx")
        return tuple(Step(kind, float(value)) for kind, value in zip(kinds, rng.normal(size=5)))

    chain = ["world", *(f"between{k}" for k in range(5)), "body"]
    links = [LooseLink(name, "", np.zeros(10)) for name in chain[:-1]] + [body("body")]
    made = [
        LooseJoint(
            motion, "", "prismatic" if motion[0] == "t" else "continuous", *ends, motion=motion
        )
        for motion, *ends in zip(SLIDES_AND_TURNS, chain, chain[1:])
    ]
    for leg in range(legs):
        parent = "body"
        for k in range(joints):
            name = f"leg{leg}_{k}"
            links.append(body(name))
            made.append(LooseJoint(f"j{name}", "", "continuous", parent, name, place()))
            parent = name
    return assemble("carried", links, made)


def walker(seed: int, drives: bool = True) -> Robot:
    """Return a random tree of turns and slides behind a free base, its axes and frames oblique."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7))

    def body(name: str) -> LooseLink:
        a = rng.normal(size=(3, 3))
        inertia = a @ a.T + np.trace(a @ a.T) * np.eye(3)
        return LooseLink(name, "", from_body(rng.uniform(1, 2), rng.normal(size=3), inertia))

    def place() -> tuple[Step, ...]:
        kinds = rng.permutation(["tx", "ty", "tz", "rz", "ry", "rx"])[: rng.integers(1, 6)]
        angles = (0.3, np.pi / 2, -np.pi / 2, 1.1)
        return tuple(
            Step(str(k), float(rng.choice(angles) if k[0] == "r" else rng.normal())) for k in kinds
        )

    links = [body("trunk")]
    joints = []
    for k in range(count):
        slides = rng.random() < 0.3
        parent = links[int(rng.integers(0, len(links)))].name
        links.append(body(f"link{k}"))
        motion = ("t" if slides else "r") + "xyz"[int(rng.integers(0, 3))]
        turned = tuple(step for step in place() if step.kind[0] == "r")
        joints.append(
            LooseJoint(
                f"joint{k}",
                "",
                "prismatic" if slides else "continuous",
                parent,
                f"link{k}",
                place(),
                motion,
                int(rng.choice((-1, 1))),
                turned if rng.random() < 0.4 else (),
                drive_values={"Ia": 0.1, "Fv": 0.2} if drives and rng.random() < 0.5 else {},
            )
        )
    return assemble(f"walker{seed}", links, joints).with_free_base()


def some_state(robot: Robot, count: int, seed: int = 0) -> tuple[Array, ...]:
    """Return q (count, nq) with unit quaternions, dq and ddq (count, n)."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(count, robot.nq))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    return q, *rng.normal(size=(2, count, robot.n))


def quadruped(seed: int = 0) -> Robot:
    """Return a trunk with four legs of three joints, bodies of random inertia."""
    rng = np.random.default_rng(seed)

    def body(name: str, mass: float, com: tuple[float, ...], size: float) -> LooseLink:
        a = np.eye(3) + 0.2 * rng.normal(size=(3, 3))
        spread = mass * size**2 * (a @ a.T)  # second moments
        return LooseLink(name, "", from_body(mass, com, np.trace(spread) * np.eye(3) - spread))

    links, joints = [body("trunk", 9.0, (0.02, 0.0, 0.03), 0.2)], []
    for leg, (x, y) in {
        "fl": (0.2, 0.1),
        "fr": (0.2, -0.1),
        "hl": (-0.2, 0.1),
        "hr": (-0.2, -0.1),
    }.items():
        side = np.sign(y)
        parts = (
            ("hip", "rx", (x, y, 0.0), 0.7, (0.0, 0.0, 0.0), 0.05),
            ("thigh", "ry", (0.0, 0.08 * side, 0.0), 1.0, (0.0, 0.01 * side, -0.03), 0.08),
            ("shank", "ry", (0.0, 0.0, -0.2), 0.3, (0.0, 0.0, -0.1), 0.07),
        )
        parent = "trunk"
        for part, motion, at, mass, com, size in parts:
            name = f"{leg}_{part}"
            links.append(body(name, mass, com, size))
            place = tuple(Step("t" + k, float(v)) for k, v in zip("xyz", at) if v)
            joints.append(
                LooseJoint(f"{name}_joint", "", "continuous", parent, name, place, motion)
            )
            parent = name
    return assemble("quadruped", links, joints).with_free_base()


def smooth_motion(robot: Robot, seed: int, samples: int = 800) -> md.Recording:
    """Return a smooth motion of base and joints, with true torques."""
    rng, dt = np.random.default_rng(seed), 0.01
    t = dt * np.arange(samples)
    rates = 2 * np.pi * rng.uniform(0.2, 0.8, size=(robot.n, 3))
    sizes, phases = rng.normal(size=(robot.n, 3)), rng.uniform(0, 2 * np.pi, size=(robot.n, 3))
    angle = rates * t[:, None, None] + phases
    dq, ddq = (sizes * np.sin(angle)).sum(-1), (sizes * rates * np.cos(angle)).sum(-1)
    q = np.zeros((samples, robot.nq))
    q[0, 6] = 1.0
    for k in range(samples - 1):
        q[k + 1] = md.integrate(robot, q[k], dt * (dq[k] + dq[k + 1]) / 2)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    return md.Recording(t, q, tau, dq, ddq, robot.joint_names)
