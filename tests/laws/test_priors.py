"""A prior never harms much.

A sample of benchmarks/priors.py, and what is said of values that no robot has.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import LONG, OWN
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.consistency.prior import _drive_scales

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from priors import PRIORS, Case, case, described, errors, log, truth

# those that went wrong: 32 and 3.9 times the error; 3.7 and 2.3 times with files of other links
CASES = range(243) if LONG else (5, 12, 19, 26, 556, 565)


def test_a_prior_does_not_harm() -> None:
    found = np.array([errors(case(number))[:2] for number in CASES])
    ratios = found[:, 0] / found[:, 1]
    assert np.mean(ratios > 1.05) <= 0.015, f"worse than without a prior: {ratios[ratios > 1.05]}"
    assert ratios.max() < 1.15
    assert np.median(ratios) <= 1.0
    assert ratios.min() < 0.7  # and a good one helps


def test_a_mean_of_two_fits_is_between_them_and_not_surer_than_it_may_be() -> None:
    """Each has the part that the other's variance has.

    Deviations hold for errors that go together in any way.
    """
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    true = np.nan_to_num(robot.parameters, nan=0.3)
    base, rng = md.base_parameters(robot), np.random.default_rng(0)
    R = np.triu(rng.normal(size=(base.rank, base.rank))) + 20 * np.eye(base.rank)
    z, of_data, rows = (
        R @ base.matrix @ true + rng.normal(size=base.rank),
        np.linalg.inv(R.T @ R),
        np.eye(base.rank),
    )
    options = {"covariance": of_data, "rows": rows}
    prior = {"prior": 1.3 * true, "weight": 50.0, **options}
    bare, held = (
        make_consistent(robot, base, R, z, **options),
        make_consistent(robot, base, R, z, **prior),
    )
    both = make_consistent(robot, base, R, z, beside=bare, **prior)
    assert both.part == pytest.approx(bare.variance / (bare.variance + held.variance), abs=1e-6)
    assert 0.5 < both.part < 1
    np.testing.assert_allclose(
        both.phi, both.part * held.phi + (1 - both.part) * bare.phi, rtol=1e-9, atol=1e-12
    )
    assert not both.certificate.reasons()
    for cross in (-1.0, 0.0, 1.0):  # errors of the two: opposite, independent, alike
        L, M = (np.linalg.cholesky(fit.covariance) for fit in (held, bare))
        a, b = both.part, 1 - both.part
        mean = a**2 * held.covariance + b**2 * bare.covariance + a * b * cross * (L @ M.T + M @ L.T)
        assert np.linalg.eigvalsh(both.covariance - mean)[0] > -1e-9 * np.trace(mean)


def told(kind: str, motion: str = "short") -> tuple[list[md.Notice], md.Estimate, md.Robot]:
    """Identify a case through the front door; return its notices on the prior."""
    one = replace(Case(0, "2", motion, kind, 0.05, stribeck=False))
    true = truth(one)
    robot = true.with_parameters(described(one, true))
    estimate = md.identify(robot, log(one, true), **OWN)
    return (
        [notice for notice in estimate.notices if notice.code == "prior.implausible"],
        estimate,
        true,
    )


@pytest.mark.parametrize(("kind", "what"), [("massless wrist", "massless"), ("points", "points")])
def test_links_that_no_link_is_like_are_named(kind: str, what: str) -> None:
    [notice], estimate, _ = told(kind)
    names = estimate.robot.link_names
    assert set(notice.data[what]) == set(
        names[len(names) // 2 :] if kind == "massless wrist" else names
    )
    assert set(notice.data["links"]) >= set(notice.data[what])


def test_links_of_zeros_are_named() -> None:
    one = Case(0, "2", "short", "5 %", 0.05, stribeck=False)
    true, given = truth(one), described(one, truth(one))
    given[true.layout.links[3]] = 0.0
    estimate = md.identify(true.with_parameters(given), log(one, true), **OWN)
    [notice] = [notice for notice in estimate.notices if notice.code == "prior.implausible"]
    assert notice.data["links"] == notice.data["zeros"] == [true.link_names[3]]
    assert estimate.record["prior_weight"] > 0  # the others are used


def test_a_robot_of_points_may_be_one() -> None:
    robot = md.load("puma4").with_drives(sign_width=0.05)
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.3))
    t = np.linspace(0, 10, 500)
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.01 * np.random.default_rng(0).normal(
        size=q.shape
    )
    estimate = md.identify(robot, md.Recording(t, q, tau, dq, ddq, robot.joint_names), **OWN)
    assert "prior.implausible" not in [notice.code for notice in estimate.notices]


def test_centres_in_the_origins_and_masses_off_by_a_factor_are_said() -> None:
    [notice], estimate, _ = told("zero centres", "rich")
    assert set(notice.data["centres"]) == set(estimate.robot.link_names)
    assert estimate.record["prior_weight"] == 0.0
    [notice], _, true = told("too light")
    given = sum(
        described(Case(0, "2", "short", "too light", 0.05, False), true)[part][9]
        for part in true.layout.links
    )
    masses = sum(true.parameters[part][9] for part in true.layout.links)
    assert given / masses / 2 < notice.data["mass_factor"] < 2 * given / masses


def test_good_values_are_used_without_a_word() -> None:
    for kind in PRIORS[:2]:
        notices, estimate, _ = told(kind)
        assert notices == []
        assert estimate.record["prior_weight"] > 0
        assert len(estimate.record["prior_shares"]) == len(estimate.robot.links)
    assert (
        0.5 < told("5 %", "rich")[1].record["prior_part"] < 1.0
    )  # the fit without it has a part, too,
    assert told("5 %", "weak")[1].record["prior_part"] == 1.0  # but where the log says little


def test_a_slide_is_slow_because_it_is_short_and_does_not_crawl() -> None:
    """Friction of a joint that crawls is pulled towards nothing.

    A SCARA's slide had twice the error for it.
    """
    robot = md.load("scara").with_drives(True, ("viscous", "coulomb"))
    _, pulls = _drive_scales(
        robot, np.nan_to_num(robot.parameters), (np.ones(4), np.array([0.5, 0.03, 0.03, 0.5]))
    )
    turns, crawls, slides, spins = (
        pulls[[column.index for column in columns]] for columns in robot.layout.drives
    )
    assert np.all(crawls > 10 * slides)  # 0.03 rad/s and 0.03 m/s
    assert np.all(slides < 10 * turns)
    np.testing.assert_array_equal(turns, spins)
