"""Printed formulas of random robots, read again, against Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from conftest import count
from formula_readers import read_latex, read_text, state_values
from robot_cases import random_state, relative_error, robot_of_seed

pytest.importorskip("pinocchio")

from pinocchio_model import PinocchioRobot

PRECISE = 1e-10  # fifteen digits are printed


@pytest.mark.parametrize("seed", range(8000, 8000 + count(6, 150)))
def test_formulas(seed: int) -> None:
    robot = robot_of_seed(seed)
    peer = PinocchioRobot(robot)
    (q, dq, ddq) = random_state(robot, np.random.default_rng(seed))
    weight = float(np.abs(robot.parameters).sum())
    for what, given, wanted in (
        ("inertia_matrix", {"q": q}, peer.inertia_matrix(q)),
        ("gravity_torque", {"q": q}, peer.gravity_torque(q)),
        ("coriolis_matrix", {"q": q, "dq": dq}, peer.coriolis_matrix(q, dq)),
        ("inverse_dynamics", {"q": q, "dq": dq, "ddq": ddq}, peer.inverse_dynamics(q, dq, ddq)),
    ):
        found = md.formulas(robot, what, digits=15)
        for read in (read_text, read_latex):
            (value,) = read(found, found.values | state_values(**given))
            assert relative_error(value, wanted, scale=weight) < PRECISE
