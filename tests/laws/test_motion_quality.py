"""A search that ends in a bad place begins again; a motion far from the best tried says so."""

import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import count
from minidyn.excitation import search
from minidyn.excitation.excite import FAR

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import excitation_cases

AMONG_OBSTACLES = 31  # a case in which single searches end at logdet -114 to 72


@pytest.mark.parametrize("seed", [4, *range(count(0, 4))])
def test_every_seed_finds_a_motion_among_obstacles(tmp_path, seed) -> None:
    asked = excitation_cases.random_case(AMONG_OBSTACLES, tmp_path)
    made = asked.design(seed=seed, criterion="d", time_limit=None)
    assert made.feasible
    assert made.logdet > 69
    assert not [one for one in made.notices if one.code == "excite.poor_motion"]


def test_a_motion_that_shows_nothing_says_so_first(tmp_path, monkeypatch) -> None:
    """Every search ends where a motion keeps its limits at a twentieth of its size alone."""
    finish = search.finish

    def ended_badly(ran: search.Search, bounds, proved, uncertain) -> search.Try:
        found, still = finish(ran, bounds, proved, uncertain), ran.problem.coefficients(ran.still)
        smaller = still + 0.05 * (found.coefficients - still)
        proof, value = proved(ran.problem.family.course(smaller)), ran.problem.value(smaller)
        return search.Try(smaller, proof, value, found.value, 0.05)

    monkeypatch.setattr(search, "finish", ended_badly)
    for name in ("_LEAST_TRIES", "_MOST_TRIES"):
        monkeypatch.setattr(search, name, 1)
    asked = excitation_cases.random_case(AMONG_OBSTACLES, tmp_path)
    made = asked.design(seed=0, criterion="d", time_limit=None)
    assert made.feasible
    assert made.logdet < 0
    (notice,) = [one for one in made.notices if one.code == "excite.poor_motion"]
    assert notice.level == "warning"
    assert notice.data["times"] > FAR
    assert notice.data["size"] == pytest.approx(0.05)
    headline = made.verdict.headline
    assert headline.startswith("The motion is far from the best that was tried")
    assert made.verdict.level != "good"
    page = made.preview(tmp_path / "p.html").read_text()
    assert headline in page[page.index('class="verdict') :][:1000]
    assert "far from the best" in made.save(tmp_path / "m.csv").read_text()[:2000]


@pytest.mark.parametrize("done", [0, 1])
def test_a_search_that_did_not_run_once_says_so_first(tmp_path, monkeypatch, done) -> None:
    """Among obstacles such a motion had logdet -70 where 73 is possible, and a green page."""
    run, ran = search.Search.run, []

    def ended(one: search.Search, rng) -> None:
        ran.append(one)
        if len(ran) > done:
            one.deadline = 0.0
        run(one, rng)

    monkeypatch.setattr(search.Search, "run", ended)
    asked = excitation_cases.random_case(AMONG_OBSTACLES, tmp_path)
    made = asked.design(seed=0, criterion="d", time_limit=None)
    codes = [one.code for one in made.notices]
    assert ("excite.unfinished" in codes) == (done == 0)
    assert ("excite.ended_early" in codes) == (done == 1)
    assert made.feasible
    if done:
        assert made.logdet > 69
    else:
        assert made.logdet < 0
        assert made.verdict.level != "good"
        assert made.verdict.headline.startswith("The search was not finished")
        assert "before it had run once" in made.save(tmp_path / "m.csv").read_text()[:2000]


@pytest.mark.parametrize("seed", range(count(3, 60)))
def test_seeds_agree(tmp_path, seed) -> None:
    """Designs that differ in their seed alone show about the same; the few that do not are counted
    by benchmarks/excitation_cases.py --quality.
    """
    found = excitation_cases.quality(seed, tmp_path)
    known = [value for value in found["logdet"] if value is not None]
    gaps = np.max(known, initial=-np.inf) - np.array(known)
    assert len(known) in (0, excitation_cases.QUALITY_SEEDS)
    assert np.all((gaps < 10) | np.array(found["poor"])[: len(gaps)])
