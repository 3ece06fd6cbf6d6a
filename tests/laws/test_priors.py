"""A prior never harms much: a sample of benchmarks/priors.py, and what is said of values that no robot has."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import LONG, OWN
from minidyn.identification.consistency.prior import _drive_scales

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from priors import PRIORS, Case, case, described, errors, log, truth

CASES = range(243) if LONG else (4, 5, 7, 12, 19, 26)  # those that went wrong: 3, 32, 1.9, 3.9 times the error


def test_a_prior_does_not_harm() -> None:
    found = np.array([errors(case(number))[:2] for number in CASES])
    ratios = found[:, 0] / found[:, 1]
    assert np.mean(ratios > 1.05) <= 0.02, f"worse than without a prior: {ratios[ratios > 1.05]}"
    assert ratios.max() < 1.15
    assert np.median(ratios) <= 1.0
    assert ratios.min() < 0.7  # and a good one helps


def told(kind: str, motion: str = "short") -> tuple[list[md.Notice], md.Estimate, md.Robot]:
    """Identify a case through the front door; return its notices on the prior."""
    one = replace(Case(0, "2", motion, kind, 0.05, stribeck=False))
    true = truth(one)
    robot = true.with_parameters(described(one, true))
    estimate = md.identify(robot, log(one, true), **OWN)
    return [notice for notice in estimate.notices if notice.code == "prior.implausible"], estimate, true


@pytest.mark.parametrize(("kind", "what"), [("massless wrist", "massless"), ("points", "points")])
def test_links_that_no_link_is_like_are_named(kind: str, what: str) -> None:
    [notice], estimate, _ = told(kind)
    names = estimate.robot.link_names
    assert set(notice.data[what]) == set(names[len(names) // 2 :] if kind == "massless wrist" else names)
    assert set(notice.data["links"]) >= set(notice.data[what])


def test_links_of_zeros_are_named() -> None:
    one = Case(0, "2", "short", "5 %", 0.05, stribeck=False)
    true, given = truth(one), described(one, truth(one))
    given[true.layout.links[3]] = 0.0
    estimate = md.identify(true.with_parameters(given), log(one, true), **OWN)
    [notice] = [notice for notice in estimate.notices if notice.code == "prior.implausible"]
    assert notice.data["links"] == notice.data["zeros"] == [true.link_names[3]]
    assert estimate.settings["prior_weight"] > 0  # the others are used


def test_a_robot_of_points_may_be_one() -> None:
    robot = md.load("puma4").with_drives(sign_width=0.05)
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.3))
    t = np.linspace(0, 10, 500)
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.01 * np.random.default_rng(0).normal(size=q.shape)
    estimate = md.identify(robot, md.Recording(t, q, tau, dq, ddq, robot.joint_names), **OWN)
    assert "prior.implausible" not in [notice.code for notice in estimate.notices]


def test_centres_in_the_origins_and_masses_off_by_a_factor_are_said() -> None:
    [notice], estimate, _ = told("zero centres", "rich")
    assert set(notice.data["centres"]) == set(estimate.robot.link_names)
    assert estimate.settings["prior_weight"] == 0.0
    [notice], _, true = told("too light")
    given = sum(described(Case(0, "2", "short", "too light", 0.05, False), true)[part][9] for part in true.layout.links)
    masses = sum(true.parameters[part][9] for part in true.layout.links)
    assert given / masses / 2 < notice.data["mass_factor"] < 2 * given / masses


def test_good_values_are_used_without_a_word() -> None:
    for kind in PRIORS[:2]:
        notices, estimate, _ = told(kind)
        assert notices == []
        assert estimate.settings["prior_weight"] > 0
        assert len(estimate.settings["prior_shares"]) == len(estimate.robot.links)


def test_a_slide_is_slow_because_it_is_short_and_does_not_crawl() -> None:
    """Friction of a joint that crawls is pulled towards nothing; a SCARA's slide had twice the error for it."""
    robot = md.load("scara").with_drives(True, ("viscous", "coulomb"))
    _, pulls = _drive_scales(robot, np.nan_to_num(robot.parameters), (np.ones(4), np.array([0.5, 0.03, 0.03, 0.5])))
    turns, crawls, slides, spins = (pulls[[column.index for column in columns]] for columns in robot.layout.drives)
    assert np.all(crawls > 10 * slides)  # 0.03 rad/s and 0.03 m/s
    assert np.all(slides < 10 * turns)
    np.testing.assert_array_equal(turns, spins)
