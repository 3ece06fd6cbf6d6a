"""Links that a robot's file says are massless are known where they are asked to be."""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from minidyn.model.assemble import LooseJoint, LooseLink, assemble
from minidyn.model.geometry import Step
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot

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


@pytest.mark.parametrize(
    ("legs", "joints", "counted", "known"), [(1, 1, 27, 17), (1, 3, 41, 31), (4, 3, 104, 94)]
)
def test_massless_links_between_joints_are_known_where_asked(
    legs: int, joints: int, counted: int, known: int
) -> None:
    robot = carried_body(legs, joints)
    assert md.base_parameters(robot).rank == counted
    base = md.base_parameters(robot, massless_known=True)
    assert base.rank == known == md.base_parameters(robot, "qr", massless_known=True).rank
    assert not base.lacks("torque")
    q, dq, ddq = np.random.default_rng(1).normal(size=(3, 5, robot.n))
    tau = md.base_regressor(robot, q, dq, ddq, base=base) @ base.values()
    np.testing.assert_allclose(tau, md.inverse_dynamics(robot, q, dq, ddq), atol=1e-9)


def test_robots_without_massless_links_are_counted_as_before() -> None:
    assert md.base_parameters("ur10", massless_known=True).columns is None
    with pytest.raises(md.MinidynError, match="massless_known"):
        md.base_parameters(np.eye(3), massless_known=True)
