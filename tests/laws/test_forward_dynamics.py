"""Accelerations from base parameters alone are those of the full model, in fewer operations."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import special_chain

import minidyn as md
from conftest import count
from minidyn.dynamics.kernel import function_of
from minidyn.errors import MinidynError, NotEquivalent, NotRealizable, Unsupported
from robot_cases import random_chain, random_robot, random_state, relative_error

EXACT = 1e-10


@pytest.mark.parametrize("seed", range(count(8, 100)))
def test_chains_by_every_formulation(seed: int) -> None:
    robot = special_chain(seed + 40, 6)
    q, dq, tau = random_state(robot, np.random.default_rng(seed), 4)
    base = md.base_parameters(robot)
    expected = md.forward_dynamics(robot, q, dq, tau)
    for formulation in (None, 1 + seed % 5, 6):
        given = {"base": base, "beta": base.values(), "formulation": formulation}
        found = md.forward_dynamics(robot, q, dq, tau, **given)
        assert relative_error(found, expected) < EXACT, formulation


@pytest.mark.parametrize("seed", range(count(8, 100)))
def test_any_robot_with_drives(seed: int) -> None:
    rng = np.random.default_rng(seed + 7)
    robot = random_robot(rng, 5, branches=seed % 2 == 0, special=seed % 3 == 0)
    q, dq, tau = random_state(robot, rng, 4)
    base = md.base_parameters(robot)
    beta = base.values() * rng.uniform(0.9, 1.1, base.rank)  # an estimate
    expected = md.forward_dynamics(robot, q, dq, tau, base.lift(beta))
    found = md.forward_dynamics(robot, q, dq, tau, base=base, beta=beta)
    assert relative_error(found, expected) < EXACT
    again = md.papers.forward_dynamics_by_regressor(robot, q, dq, tau, beta, base=base)
    assert relative_error(found, again) < 1e-8


def test_the_formulation_alone_reads_a_set_of_its_own() -> None:
    robot = random_chain(4, "RRPR")
    q, dq, tau = random_state(robot, np.random.default_rng(1), 3)
    expected = md.forward_dynamics(robot, q, dq, tau)
    out = np.empty_like(expected)
    assert md.forward_dynamics(robot, q, dq, tau, formulation=3, out=out) is out
    assert relative_error(out, expected) < EXACT
    kernel = md.compile(robot, "forward_dynamics", formulation=2)
    assert relative_error(kernel(q, dq, tau), expected) < EXACT


@pytest.mark.parametrize("name", ["puma560", "panda", "ur10", "scara", "stanford"])
def test_it_takes_no_more_operations_than_the_full_model(name: str) -> None:
    robot = md.load(name)
    base = md.base_parameters(robot)
    minimal = md.compile(robot, "forward_dynamics", base=base, parameters="argument").counts
    full = function_of(robot, "forward_dynamics", parameters="argument").counts
    assert minimal["mul"] + minimal["add"] < full["mul"] + full["add"]
    assert minimal["div"] <= full["div"]
    rest = md.papers.operation_count(robot, "inverse_dynamics")
    whole = md.papers.operation_count(robot, "forward_dynamics")
    assert sum(rest) < sum(whole) < sum(full.values())


def test_misuse_is_explained() -> None:
    robot = random_chain(3, "RRR")
    base = md.base_parameters(robot)
    state = random_state(robot, np.random.default_rng(1))
    with pytest.raises(MinidynError, match="needs base="):
        md.forward_dynamics(robot, *state, beta=base.values())
    with pytest.raises(NotEquivalent, match="does not determine"):
        md.forward_dynamics(robot, *state, base=md.base_parameters(robot, model="gravity"))
    with pytest.raises(Unsupported, match="leave out base"):
        md.forward_dynamics(robot, *state, base=base, memory=np.zeros(0))
    with pytest.raises(MinidynError, match="not of gravity_torque"):
        md.compile(robot, "gravity_torque", base=base, formulation=1)
    still = md.base_parameters(robot)
    with pytest.raises(NotRealizable, match="singular"):
        md.compile(robot, "forward_dynamics", base=still, parameters=np.zeros(still.rank))
