"""Links that a robot's file says are massless are known where they are asked to be."""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from free_base_cases import carried_body


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
