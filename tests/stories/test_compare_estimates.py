"""Two estimates side by side: what differs is found, on one page, in Python and in the shell."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from chromium import Browser, find_chromium
from conftest import OWN
from minidyn.app.cli.main import main
from report_cases import hostile_estimate, small_estimate, small_runs


def changed(name: str, by: float) -> md.Estimate:
    """The small estimate with one standard parameter moved, in its robot and in its base
    parameters.
    """
    estimate = small_estimate()
    values = estimate.robot.parameters.copy()
    values[estimate.robot.layout.index(name)] += by
    robot = estimate.robot.with_parameters(values)
    return replace(estimate, robot=robot, beta=estimate.base.values(values))


def test_an_estimate_does_not_differ_from_itself() -> None:
    both = md.compare_estimates(small_estimate(), small_estimate())
    assert both.different == ()
    assert both.relative_difference == 0.0
    assert [pair.name for pair in both.pairs] == list(small_estimate().names)
    assert all(pair.first == pair.second for pair in both.pairs)
    assert both.only == ((), ())


def test_what_was_changed_is_found() -> None:
    both = md.compare_estimates(small_estimate(), changed("Fv2", 3.0))
    assert [pair.name for pair in both.different] == ["Fv2"]
    pair = both.different[0]
    assert pair.second[0] - pair.first[0] == pytest.approx(3.0 + (small_estimate().robot.parameters[
        small_estimate().robot.layout.index("Fv2")] - pair.first[0]), abs=1e-9)  # fmt: skip
    assert both.difference["joint2"] > 0.05 > 1e-12 > both.difference["joint1"]
    assert "Fv2" in both.table()
    assert "standard deviations apart" in both._repr_html_()
    told = json.loads(json.dumps(both.to_json(), allow_nan=False))
    assert told["different"] == ["Fv2"]
    assert set(told["parameters"]) == set(small_estimate().names)


def test_other_friction_terms_are_compared_as_far_as_they_are_the_same() -> None:
    fit, _ = small_runs()
    bare = md.identify(md.load("two_link").with_drives(True, ("viscous",)), fit, **OWN)
    both = md.compare_estimates(small_estimate(), bare)
    assert both.only == (("Fc1", "Fc2"), ())
    values = {pair.name: pair for pair in both.pairs}
    assert np.isnan(values["Fc1"].second[0])
    assert values["Fv1"].second[0] == pytest.approx(bare.values["Fv1"])


def test_combinations_that_are_not_the_same_are_not_said_to_be_missing() -> None:
    """Without rotor inertias the second estimate combines other parameters under some of the first
    one's names.
    """
    fit, _ = small_runs()
    bare = md.identify("two_link", fit, friction=(), rotor_inertia=False)
    both = md.compare_estimates(small_estimate(), bare)
    mixed = set(both.only[0]) & set(both.only[1])
    assert mixed
    *missing, last = both.not_comparable
    assert all(name in last for name in mixed)
    assert not any(
        name in sentence.split(": ")[1].split(", ") for name in mixed for sentence in missing
    )
    assert md.compare_estimates(small_estimate(), small_estimate()).not_comparable == ()


def test_other_robots_are_refused() -> None:
    with pytest.raises(md.MinidynError, match="3 joints; expected two of one robot"):
        md.compare_estimates(small_estimate(), hostile_estimate()[0])
    with pytest.raises(md.MinidynError, match="expected an estimate"):
        md.compare_estimates(small_estimate(), small_runs()[0])


def test_the_verb(tmp_path: Path) -> None:
    for day, estimate in (("monday", small_estimate()), ("friday", changed("Fv2", 3.0))):
        (tmp_path / day).mkdir()
        estimate.save(tmp_path / day / "estimate.json")
    files = [str(tmp_path / day / "estimate.json") for day in ("monday", "friday")]
    page = tmp_path / "both.html"
    result = CliRunner().invoke(main, ["compare-estimates", *files, "--output", str(page)])
    assert result.exit_code == 0, result.output
    assert "Fv2" in result.output
    assert "monday" in result.output
    assert str(page) in result.output
    text = page.read_text()
    assert "monday" in text
    assert "http" not in text.replace("http-equiv", "")
    result = CliRunner().invoke(main, ["compare-estimates", *files, "--json"])
    assert json.loads(result.stdout)["different"] == ["Fv2"]
    result = CliRunner().invoke(
        main, ["compare-estimates", *files, "--output", str(tmp_path / "both.pdf")]
    )
    assert result.exit_code == 2
    assert ".html" in result.output


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium found; .ci/run installs one")
def test_the_page_runs_in_a_browser(tmp_path: Path) -> None:
    estimate = hostile_estimate()[0]
    values = 1.1 * estimate.robot.parameters
    other = replace(
        estimate, robot=estimate.robot.with_parameters(values), beta=estimate.base.values(values)
    )
    page = md.compare_estimates(estimate, other).report(tmp_path / "c.html")
    with Browser(tmp_path / "profile") as browser:
        for width, dark in ((1280, False), (1280, True), (390, False)):
            browser.open(page, width, dark=dark)
            assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert browser.evaluate("[document.images.length, document.scripts.length]") == [0, 2]
            assert browser.complaints() == []
