"""A log before any fit.

What `md.check` and `minidyn check` find, what identification stops at, and the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from chromium import CUT, Browser, find_chromium
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, MinidynError
from minidyn.identification.diagnose.meaningless import Meaningless, meaningless
from minidyn.model.joint import Limits
from report_cases import HOSTILE_NAME, hostile_estimate, small_estimate

LIMITS = Limits(-2.5, 2.5, 4.0, 200.0)


@cache
def arm() -> md.Robot:
    """An arm of two joints with limits, friction and rotors."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    robot = robot.with_joints(lambda joint: replace(joint, limits=LIMITS))
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = {"Ia": 0.1, "Fv": 2.0, "Fc": 4.0}[column.symbol]
    return robot.with_parameters(values)


def log(seed: int = 1, seconds: float = 10.0) -> md.Recording:
    """A healthy log: positions and noisy torques, as a logger writes them."""
    t = np.arange(0.0, seconds, 0.005)
    q, dq, ddq = md.trajectory.fourier(arm(), seed=seed, period=5.0)(t)
    tau = md.inverse_dynamics(arm(), q, dq, ddq)
    tau = tau + 0.01 * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
    return md.Recording(t, q, tau, joint_names=arm().joint_names)


def codes(found: md.Check, *levels: str) -> set[str]:
    return {
        notice.code for notice in found.notices if notice.level in (levels or ("error", "warning"))
    }


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, arguments)])


def test_a_healthy_log_is_ready_and_shows_everything() -> None:
    found = md.check(arm(), log())
    assert found.ok
    assert found.level == "good"
    assert not codes(found, "error")
    estimate = md.identify(arm(), log(), forbid_terms="cutoff")  # a check keeps 10 Hz
    assert set(found.excitation) == set(estimate.names)
    assert found.condition == pytest.approx(estimate.condition)
    assert len(found.shown("well")) > 0.8 * len(found.excitation)
    assert not found.shown("not")
    # a check makes no model consistent, and keeps 10 Hz
    plain = md.identify(arm(), log(), consistent=False, forbid_terms="cutoff")
    for joint, sigma in zip(found.joints, plain.sigma):
        assert joint.noise == pytest.approx(sigma, rel=1e-4)  # robust weights settle to that
        assert joint.reversals > 5
        assert joint.standstill < 0.2
        assert joint.saturated == 0.0  # the largest torque alone is no bound
        assert 0.1 < joint.used <= 1.0
        assert not joint.beyond
    assert [(run.samples, round(run.rate)) for run in found.runs] == [(2000, 200)]


def test_recordings_on_disk_give_the_same_facts(tmp_path: Path) -> None:
    log().save(tmp_path / "log.parquet")
    lazy = md.read_recording(tmp_path / "log.parquet", arm(), lazy=True)
    here, there = md.check(arm(), log()), md.check(arm(), lazy)
    assert there.level == here.level
    for one, other in zip(here.joints, there.joints):
        assert (one.least, one.most, one.torque) == (other.least, other.most, other.torque)
        assert one.saturated == other.saturated
    assert set(there.excitation) == set(here.excitation)
    there.report(tmp_path / "check.html")  # without the signals, which stay on disk
    assert 'id="signals"' not in (tmp_path / "check.html").read_text()


def test_planted_faults_are_found() -> None:
    """Saturation, a joint that only goes one way or rests, speeds beyond the limit, positions
    beyond the limits.
    """
    healthy = log()
    bound = 0.6 * np.abs(healthy.tau).max(axis=0)
    clipped = md.check(arm(), replace(healthy, tau=np.clip(healthy.tau, -bound, bound)))
    assert "check.saturated" in codes(clipped)
    assert {one.data["joint"] for one in clipped.notices if one.code == "check.saturated"} == set(
        arm().joint_names
    )
    t = healthy.t
    one_way = healthy.q.copy()
    one_way[:, 1] = np.linspace(-1.0, 1.0, len(t)) + 0.02 * t
    assert "check.few_reversals" in codes(md.check(arm(), replace(healthy, q=one_way)))
    resting = healthy.q.copy()
    resting[200:, 1] = resting[200, 1]
    assert {"check.rests"} <= codes(md.check(arm(), replace(healthy, q=resting)))
    fast = arm().with_joints(lambda joint: replace(joint, limits=replace(LIMITS, velocity=0.2)))
    assert "check.speed_limit" in codes(md.check(fast, healthy))
    two = md.concatenate(
        [healthy, md.Recording(3 * t, healthy.q, healthy.tau, joint_names=healthy.joint_names)]
    )
    assert "check.rates_differ" in codes(md.check(arm(), two))


def test_poor_excitation_asks_for_care_as_in_the_verdict_on_a_model() -> None:
    """Joint 2 moves nearly as joint 1 does: a fit is possible, and not good."""
    t = log().t
    both = 0.2 * np.sin(1.3 * t)
    near = np.column_stack([both, both + 0.004 * np.sin(0.8 * t)])
    dq, ddq = (
        np.gradient(np.gradient(near, t, axis=0), t, axis=0) if k else np.gradient(near, t, axis=0)
        for k in (0, 1)
    )
    tau = md.inverse_dynamics(arm(), near, dq, ddq) + 0.05 * np.random.default_rng(0).normal(
        size=near.shape
    )
    found = md.check(arm(), md.Recording(t, near, tau, joint_names=arm().joint_names))
    assert not codes(found, "error")
    assert "identify.poor_excitation" in codes(found, "warning")
    assert found.level == "caution"
    assert not found.ok


def test_torques_in_another_unit_are_found() -> None:
    healthy = md.check(arm(), log())
    assert all(0.8 < joint.scale < 1.25 for joint in healthy.joints)
    found = md.check(arm(), replace(log(), tau=0.1 * log().tau))
    assert not found.ok
    assert "signals.torque_scale" in codes(found, "error")
    assert all(joint.scale == pytest.approx(0.1, rel=0.3) for joint in found.joints)


def test_data_that_are_fitted_are_recognised(tmp_path: Path) -> None:
    fitted, other = log(1), log(2)
    assert md.check(arm(), fitted).overlap is None
    assert md.check(arm(), other, fit=fitted).overlap == 0.0
    cut = md.check(arm(), fitted[300:1500], fit=fitted)
    assert cut.overlap == pytest.approx(1.0, abs=0.02)
    assert not cut.ok
    assert "validate.fitted_data" in codes(cut, "warning")
    estimate = md.identify(arm(), fitted)
    estimate.save(tmp_path / "estimate.json")
    half = md.concatenate([fitted[:1000], other[:1000]])
    for fit in (estimate, tmp_path / "estimate.json"):
        assert md.check(arm(), half, fit=fit).overlap == pytest.approx(0.5, abs=0.1)
    md.save(arm(), tmp_path / "robot.toml")
    fitted.save(tmp_path / "log.parquet")
    for fit in ("log.parquet", "estimate.json"):
        arguments = (
            "check",
            tmp_path / "robot.toml",
            tmp_path / "log.parquet",
            "--lazy",
            "--fit",
            tmp_path / fit,
        )
        assert json.loads(run(*arguments, "--json").stdout)["overlap"] == pytest.approx(1.0)
    assert "100 % of this log is in the fitted data" in run(*arguments).stdout


def test_a_log_without_torques_or_too_short_is_not_to_be_fitted() -> None:
    found = md.check(arm(), replace(log(), tau=None))
    assert not found.ok
    assert "check.not_fitted" in codes(found, "error")
    assert found.joints[0].used > 0.1
    assert not md.check(arm(), log()[:5]).ok


def test_a_coarse_sensor_is_not_called_saturated() -> None:
    healthy = log()
    step = np.abs(healthy.tau).max(axis=0) / 20
    coarse = replace(healthy, tau=np.round(healthy.tau / step) * step)
    assert "check.saturated" not in codes(md.check(arm(), coarse))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda made: replace(made, q=np.degrees(made.q)), "check.beyond_limits"),
        (lambda made: replace(made, tau=0.0 * made.tau), "check.no_torque"),
        (lambda made: replace(made, q=0.0 * made.q + 0.3), "check.no_motion"),
    ],
)
def test_identification_stops_at_what_makes_a_fit_meaningless(
    change, code: str, tmp_path: Path
) -> None:
    made = change(log())
    assert [notice.code for notice in meaningless(arm(), made)] == [code]
    with pytest.raises(Meaningless, match="force=True") as caught:
        md.identify(arm(), made)
    assert [notice.code for notice in caught.value.notices] == [code]
    for function in (md.cross_validate, lambda robot, data: md.compare(robot, data, log(2))):
        with pytest.raises(Meaningless):
            function(arm(), made)
    found = md.check(arm(), made)
    assert not found.ok
    assert found.excitation == {}
    assert code in codes(found, "error")
    md.save(arm(), tmp_path / "robot.toml")
    made.save(tmp_path / "log.csv")
    arguments = (tmp_path / "robot.toml", tmp_path / "log.csv")
    stopped = run("identify", *arguments, "--output", tmp_path / "out")
    assert stopped.exit_code == 2
    assert "--force" in stopped.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "study.toml").write_text(
        '[robot]\nfile = "robot.toml"\n[identify]\nlogs = ["log.csv"]\n'
    )
    with pytest.raises(MinidynError, match="meaningless"):
        md.run_study(tmp_path / "study.toml")


def test_force_goes_on(tmp_path: Path) -> None:
    made = replace(log(), q=np.degrees(log().q))
    estimate = md.identify(arm(), made, force=True, friction="own")
    assert "check.beyond_limits" in [notice.code for notice in estimate.notices]
    md.save(arm(), tmp_path / "robot.toml")
    made.save(tmp_path / "log.csv")
    done = run(
        "identify", tmp_path / "robot.toml", tmp_path / "log.csv", "--force", "--friction", "own",
        "--output", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    log(2).save(tmp_path / "test.csv")
    files = (tmp_path / "robot.toml", tmp_path / "log.csv", "--validate", tmp_path / "test.csv")
    arguments = (*files, "--friction", "own")
    assert run("compare", *arguments).exit_code == 2
    compared = run("compare", *arguments, "--methods", "ols", "--force")
    assert compared.exit_code == 0, compared.stderr
    text = (
        '[robot]\nfile = "robot.toml"\n[identify]\nlogs = ["log.csv"]\nforce = true\n'
        'friction = "own"\n'
    )
    (tmp_path / "study.toml").write_text(text)
    assert md.run_study(tmp_path / "study.toml")["identify"].state == "done"


def test_the_old_names_of_force_are_understood(tmp_path: Path) -> None:
    made = replace(log(), q=np.degrees(log().q))
    md.identify(arm(), made, anyway=True, friction="own")
    md.cross_validate(arm(), made, folds=2, anyway=True, friction="own")
    md.compare(arm(), made, log(2), methods=["ols"], anyway=True, friction="own")
    md.save(arm(), tmp_path / "robot.toml")
    made.save(tmp_path / "log.csv")
    files = tmp_path / "robot.toml", tmp_path / "log.csv"
    words = ("--anyway", "--friction", "own", "--output", tmp_path / "out")
    assert run("identify", *files, *words).exit_code == 0
    study = tmp_path / "study.toml"
    study.write_text(
        '[robot]\nfile = "robot.toml"\n[identify]\nlogs = ["log.csv"]\nanyway = true\n'
        'friction = "own"\n'
    )
    assert run("run", study).exit_code == 0
    assert md.run_study(study)["identify"].state == "unchanged"
    assert run("run", study, "--rerun").exit_code == 0
    assert "done" in run("run", study, "--rerun").stdout
    renamed = run("run", study, "--force")
    assert renamed.exit_code == 2
    assert "--rerun" in renamed.stderr


def test_one_joint_in_range_is_enough_to_try_and_limits_that_are_not_known_stop_nothing() -> None:
    q = log().q.copy()
    q[:, 0] = np.degrees(q[:, 0])
    assert meaningless(arm(), replace(log(), q=q)) == []
    free = arm().with_joints(lambda joint: replace(joint, limits=Limits()))
    assert meaningless(free, replace(log(), q=3 * log().q)) == []


def test_the_command_prints_columns_joints_excitation_and_verdict(tmp_path: Path) -> None:
    md.save(arm(), tmp_path / "robot.toml")
    made = log()
    header = "time_s,q1,q2,torque1,torque2"
    table = np.column_stack([made.t, made.q, made.tau])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=header, comments="")
    arguments = ("check", tmp_path / "robot.toml", tmp_path / "log.csv")
    found = run(*arguments, "--output", tmp_path / "check.html")
    assert found.exit_code == 0, found.stderr
    for words in (
        "torque1, torque2",
        "time_s (s)",
        "200 per second",
        "reversals",
        "verdict: Ready to be fitted",
    ):
        assert words in found.stdout
    assert (tmp_path / "check.html").is_file()
    data = json.loads(run(*arguments, "--json").stdout)
    assert data["ok"] is True
    assert data["columns"]["log.csv"] == {
        "q": ["q1", "q2"],
        "tau": ["torque1", "torque2"],
        "time": ["time_s (s)"],
    }
    assert {joint["name"] for joint in data["joints"]} == set(arm().joint_names)
    assert all(
        entry["shown"] in ("well", "fairly", "weakly", "not")
        for entry in data["excitation"].values()
    )
    # an input is not replaced, and neither is a page of the user
    assert run(*arguments, "--output", tmp_path / "log.csv").exit_code == 2
    (tmp_path / "own.html").write_text("<html>mine</html>")
    assert run(*arguments, "--output", tmp_path / "own.html").exit_code == 2
    assert run(*arguments, "--require", "pass").exit_code == 0
    made = replace(made, tau=0.1 * made.tau)
    made.save(tmp_path / "amperes.csv")
    found = run("check", tmp_path / "robot.toml", tmp_path / "amperes.csv", "--require", "pass")
    assert found.exit_code == 3
    assert "verdict: Not to be fitted yet" in found.stdout


def test_results_are_shown_in_notebooks_and_as_tables() -> None:
    found = md.check(arm(), log())
    assert repr(found).startswith("Check(ready to be fitted; 2000 samples")
    assert "reversals" in found._repr_html_()
    assert found.table().count("\n") == 1 + arm().n
    with pytest.raises(DescriptionError, match=r"\.html"):
        found.report("check.pdf")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if find_chromium() is None:
        pytest.skip("no Chromium found; .ci/run installs one")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_the_page_runs_and_draws_without_a_complaint(
    browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    page = md.check(arm(), log()).report(tmp_path / "check.html")
    browser.open(page, width, 900, dark)
    assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "the page scrolls sideways"
    )
    assert browser.complaints() == []
    drawn = browser.evaluate(
        "[...document.querySelectorAll('svg')].map(s => [s.getAttribute('aria-label'), "
        "s.getBoundingClientRect().width,"
        "s.querySelectorAll('path,rect').length, /NaN|undefined|Infinity/.test(s.outerHTML)])"
    )
    assert len(drawn) == 4
    for label, wide, marks, broken in drawn:
        assert label
        assert wide > 200, label
        assert marks > 0, label
        assert not broken, label
    assert browser.evaluate(CUT) == []
    # the first picture is on the first screen
    assert browser.evaluate("document.querySelector('svg').getBoundingClientRect().top") < 900


def test_labels_of_joints_without_limits_fit_into_the_picture(
    browser: Browser, tmp_path: Path
) -> None:
    free = arm().with_joints(lambda joint: replace(joint, limits=Limits()))
    browser.open(md.check(free, log()).report(tmp_path / "check.html"))
    assert browser.evaluate("document.querySelectorAll('figure.ranges svg text').length") == 4
    assert browser.evaluate(CUT) == []


def test_hostile_names_stay_text_on_the_page(browser: Browser, tmp_path: Path) -> None:
    estimate, run_, _ = hostile_estimate()
    browser.open(md.check(estimate.robot, run_).report(tmp_path / "check.html"))
    assert browser.complaints() == []
    assert browser.evaluate("document.images.length") == 0
    assert HOSTILE_NAME[:20] in browser.evaluate("document.body.textContent")


@pytest.mark.parametrize("verb", ["identify", "compare", "check", "validate", "payload", "report"])
def test_wrong_units_and_missing_logs_are_found_before_anything_is_read(
    verb: str, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text("t,q1\n0,0\n")
    model, second = "two_link", ("--validate",) if verb in ("identify", "compare") else ()
    if verb in ("validate", "payload", "report"):
        small_estimate().save(tmp_path / "estimate.json")
        model = str(tmp_path / "estimate.json")
    for words, told in (
        (("log.csv", *second, "log.csv", "--units", "q=degg"), "degg"),
        (("log.csv", *second, "gone.csv"), "gone.csv"),
    ):
        paths = [str(tmp_path / word) if word.endswith(".csv") else word for word in words]
        result = CliRunner().invoke(main, [verb, model, *paths])
        assert result.exit_code == 2
        assert told in result.stderr
        assert "reading" not in result.stderr
