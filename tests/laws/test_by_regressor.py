"""Accelerations and inertia matrix from the regressor alone are those of the recursions."""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.errors import MinidynError, ShapeError, UnknownParameters
from robot_cases import random_body, relative_error, robot_of_seed


@pytest.mark.parametrize("seed", range(5000, 5000 + count(25, 300)))
def test_accelerations_from_the_regressor_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = robot_of_seed(seed)
    values = rng.uniform(0.1, 1.0, len(robot.layout))
    for part in robot.layout.links:
        values[part] = random_body(rng)
    robot = robot.with_parameters(values)
    q, dq, tau = rng.normal(size=(3, 4, robot.n))
    M = md.inertia_matrix(robot, q)
    condition = float(np.linalg.cond(M).max())
    ddq = md.forward_dynamics(robot, q, dq, tau)
    base = md.base_parameters(robot, "qr", seed=seed)
    sixteen = {"parametrization": "lumeng16", "form": "lagrange"}
    for given in ({}, sixteen, {"base": base, "parameters": base.values()}):
        assert relative_error(md.papers.inertia_matrix_by_regressor(robot, q, **given), M) < 1e-9
        found = md.papers.forward_dynamics_by_regressor(robot, q, dq, tau, **given)
        assert relative_error(found, ddq) < 1e-13 * condition + 1e-9


def test_regressor_route_tells_what_is_wrong() -> None:
    robot = md.load("two_link")
    q = np.zeros(2)
    with pytest.raises(ShapeError, match="parameters: expected shape"):
        md.papers.inertia_matrix_by_regressor(robot, q, np.ones(3))
    with pytest.raises(ShapeError, match=r"tau: expected shape \(..., 2\)"):
        md.papers.forward_dynamics_by_regressor(robot, q, q, np.zeros(3))
    with pytest.raises(MinidynError, match="base= needs parameters="):
        md.papers.inertia_matrix_by_regressor(robot, q, base=md.base_parameters(robot))
    with pytest.raises(MinidynError, match="leave parametrization"):
        md.papers.inertia_matrix_by_regressor(
            robot, q, base=md.base_parameters(robot), form="lagrange"
        )
    with pytest.raises(MinidynError, match="singular at joint 'joint2'"):
        md.papers.forward_dynamics_by_regressor(robot, q, q, q, np.eye(20)[5])  # only ZZ1
    unknown = np.array(robot.parameters)
    unknown[robot.parameter_names.index("M1")] = np.nan  # on the first joint's axis: never felt
    assert np.all(np.isfinite(md.papers.inertia_matrix_by_regressor(robot, q, unknown)))
    unknown[robot.parameter_names.index("MX2")] = np.nan
    with pytest.raises(UnknownParameters, match="MX2"):
        md.papers.inertia_matrix_by_regressor(robot, q, unknown)
