"""Essential parameters: what chance could make goes, what matters stays, and the loss is what is
stated.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from test_payload import motion, truth

import minidyn as md
from conftest import OWN, count
from minidyn.notices import most_serious_first


@cache
def ur10e() -> tuple[md.Recording, md.Estimate]:
    robot = truth("ur10e")
    run = motion(robot, 5)
    return run, full(robot, run)


def full(robot: md.Robot, run: md.Recording) -> md.Estimate:
    return md.identify(
        robot.with_parameters(None), run, prior=False, consistent=False, sign_width=0.0, **OWN
    )


@pytest.mark.parametrize("name", ["panda", "ur10e"][: count(1, 2)])
def test_what_chance_could_make_goes_and_what_matters_stays(name: str) -> None:
    robot = truth(name)
    gone, zeros = 0, 0
    for seed in range(count(1, 12)):
        run = motion(robot, 20 + seed, memory=0.8)
        estimate = full(robot, run)
        true = estimate.base.values(robot.parameters)
        reduced = md.essential(estimate, run)
        removed = [estimate.names.index(step) for step in reduced.removed]
        assert np.all(np.abs(true[removed]) < 5 * estimate.std[removed])
        nothing = np.flatnonzero(np.abs(true) < 0.1 * estimate.std)
        gone, zeros = gone + len(set(nothing) & set(removed)), zeros + len(nothing)
        assert len(reduced.names) + len(reduced.removed) == estimate.base.rank
        assert np.all(reduced.estimate.beta[removed] == 0)
        other = motion(robot, 90 + seed)
        before, after = (
            md.validate(one, other).relative_error for one in (estimate, reduced.estimate)
        )
        assert after < 1.03 * before
        np.testing.assert_allclose(reduced.predict(other), reduced.estimate.predict(other))
    assert zeros >= 4
    assert gone > 0.75 * zeros  # at a level of 5 % chance keeps some


def test_level_and_loss_end_the_elimination() -> None:
    run, estimate = ur10e()
    strict, usual = md.essential(estimate, run, level=0.5), md.essential(estimate, run)
    bold = md.essential(estimate, run, level=0.0, loss=0.05)
    assert len(strict.removed) < len(usual.removed) < len(bold.removed)
    assert strict.removed == usual.removed[: len(strict.removed)]
    assert all(step.p_value >= 0.05 and step.p_value_all >= 0.05 for step in usual.steps)
    assert "differs from zero" in usual.stopped
    assert bold.loss <= 0.05
    assert "validation error would grow" in bold.stopped
    assert bold.validation_error == usual.validation_error
    assert usual.table().count("\n") == len(usual.steps) + 2
    assert f"| {usual.removed[0]} |" in usual.table()
    assert "essential.removed" in [
        notice.code for notice in most_serious_first(usual.estimate.notices)
    ]


def test_samples_that_repeat_each_other_count_once() -> None:
    """With a long memory a test that takes rows for independent would keep what chance made."""
    robot = truth("ur10e")
    kept = {}
    for memory in (0.0, 0.95):
        run = motion(robot, 7, memory=memory)
        estimate = full(robot, run)
        true = estimate.base.values(robot.parameters)
        reduced = md.essential(estimate, run, loss=np.inf)
        nothing = [name for name, value in zip(estimate.names, true) if abs(value) < 1e-6]
        kept[memory] = np.mean([name in reduced.names for name in nothing])
    assert kept[0.0] < 0.3
    assert kept[0.95] < 0.3


def test_refusals() -> None:
    run, estimate = ur10e()
    cases = [
        (lambda: md.essential(estimate, run, level=1.0), "probability"),
        (lambda: md.essential(estimate, run, loss=-1.0), "not negative"),
        (lambda: md.essential(estimate, run[:50]), "too few"),
        (lambda: md.essential(estimate, md.Recording(run.t, run.q, None)), "torques"),
    ]
    for request, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            request()
