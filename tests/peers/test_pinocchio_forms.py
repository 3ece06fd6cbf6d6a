"""Closed form and recursion in sixteen parameters against Pinocchio's regressor, n other than 3."""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.model.parameters import from_lumeng16
from robot_cases import random_state, relative_error, robot_of_seed

pytest.importorskip("pinocchio")

from pinocchio_model import PinocchioRobot

SEEDS = [seed for seed in range(7000, 7700) if robot_of_seed(seed).n not in (1, 3)][
    : count(40, 400)
]


@pytest.mark.parametrize("seed", SEEDS)
def test_forms_agree_with_pinocchio(seed: int) -> None:
    robot = robot_of_seed(seed)
    q, dq, ddq = random_state(robot, np.random.default_rng(seed))
    theirs = PinocchioRobot(robot).regressor(q, dq, ddq)  # (links, n, 10)
    theirs16 = theirs @ from_lumeng16(np.eye(16)).T
    names = md.papers.lumeng16(robot).names
    starts = [names.index(f"m{index + 1}") for index in range(len(robot.joints))]
    for form in ("newton_euler", "lagrange"):
        Y = md.regressor(robot, q, dq, ddq, form=form)
        assert relative_error(np.stack([Y[:, part] for part in robot.layout.links]), theirs) < 1e-12
        Y = md.regressor(robot, q, dq, ddq, parametrization="lumeng16", form=form)
        assert relative_error(np.stack([Y[:, at : at + 16] for at in starts]), theirs16) < 1e-12
