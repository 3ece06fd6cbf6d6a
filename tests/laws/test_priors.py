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
from minidyn.identification.consistency.prior import _drive_scales
from minidyn.identification.consistency.scale import LEAST, SCALES

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from priors import PRIORS, Case, case, described, errors, log, truth

CASES = range(243) if LONG else range(7000, 7090, 10)  # one of each kind of file


def test_a_prior_does_little_harm_and_good_ones_help() -> None:
    """The bounds are those of benchmarks/priors.py; docs/consistency.md says what they mean."""
    found = np.array([errors(case(number))[:2] for number in CASES])
    ratios = found[:, 0] / found[:, 1]
    assert np.exp(np.log(ratios).mean()) < 0.9
    assert np.median(ratios) < 0.95
    assert np.mean(ratios > 1.05) <= 0.2, f"worse than without a prior: {ratios[ratios > 1.05]}"
    assert ratios.min() < 0.5


def identified(kind: str, motion: str = "short") -> tuple[md.Estimate, md.Robot]:
    """Identify a case through the front door; return the estimate and the true robot."""
    one = replace(Case(0, "2", motion, kind, 0.05, stribeck=False))
    true = truth(one)
    robot = true.with_parameters(described(one, true))
    return md.identify(robot, log(one, true), **OWN), true


def mass(robot: md.Robot) -> float:
    return sum(link.mass for link in robot.links)


@pytest.mark.parametrize("kind", PRIORS)
def test_a_prior_is_never_switched_off(kind: str) -> None:
    """Every scale is a row of the table, one is taken, and the least weight is stated."""
    estimate, _ = identified(kind)
    rows = [row for row in estimate.selection if "prior" in row.candidate]
    assert [row.candidate for row in rows[: len(SCALES)]] == [scale.name for scale in SCALES]
    assert sum(row.is_taken for row in rows[: len(SCALES)]) == 1
    assert estimate.record["prior_weight"] >= LEAST.weight
    assert min(estimate.record["prior_shares"]) * estimate.record["prior_weight"] >= LEAST.weight
    is_least = estimate.record["prior_scale"] == LEAST.name
    assert is_least == ("prior.little" in [notice.code for notice in estimate.notices])


def test_masses_follow_a_good_prior() -> None:
    estimate, true = identified("5 %", "weak")
    assert mass(estimate.robot) == pytest.approx(mass(true), rel=0.05)
    assert "prior.little" not in [notice.code for notice in estimate.notices]


def test_a_file_without_masses_hardly_counts() -> None:
    """Every link of it weighs a gram: half of each body comes from the geometry."""
    estimate, true = identified("massless", "rich")
    assert estimate.record["prior_scale"] == LEAST.name
    assert 0.3 < mass(estimate.robot) / mass(true) < 3.0


def test_a_prior_that_is_named_counts_or_is_an_error() -> None:
    one = Case(0, "2", "short", "5 %", 0.05, stribeck=False)
    true = truth(one)
    blank = true.with_parameters(np.full(len(true.parameters), np.nan))
    named = md.identify(blank, log(one, true), prior=true, **OWN)
    assert named.record["prior_weight"] >= LEAST.weight
    with pytest.raises(md.MinidynError, match="cannot count"):
        md.identify(true, log(one, true), prior=blank, **OWN)
    assert "prior_weight" not in md.identify(true, log(one, true), prior=False, **OWN).record


def test_links_of_zeros_are_unknown() -> None:
    one = Case(0, "2", "short", "5 %", 0.05, stribeck=False)
    true, given = truth(one), described(one, truth(one))
    given[true.layout.links[3]] = 0.0
    estimate = md.identify(true.with_parameters(given), log(one, true), **OWN)
    shares = estimate.record["prior_shares"]
    assert shares[3] < min(share for k, share in enumerate(shares) if k != 3)
    assert estimate.robot.links[3].mass > 0


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
