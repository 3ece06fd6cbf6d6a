"""The verdict: a rule for each thing that can be wrong, none for noise."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, UnknownName
from minidyn.identification.diagnose.residuals import Residuals
from minidyn.notices import CONSEQUENCES, LEVELS, Notice, error
from report_cases import small_estimate, small_runs

ASKS = error("test.asks", "A notice that asks for action.")


@cache
def _tested() -> md.Validation:
    return md.validate(small_estimate(), small_runs()[1])


def _failed(verdict: md.Verdict) -> set[tuple[str, str]]:
    return {(rule.name, rule.joint) for rule in verdict.failed}


def _changed(**joint: Any) -> md.Validation:
    """Return the validation with other figures of joint2."""
    found = _tested()
    entry = found.per_joint["joint2"]
    torque = entry["rmse"] / entry["relative_error"]
    made = {**entry, **joint}
    made["rmse"] = torque * made["relative_error"]
    made["systematic_rmse"] = torque * made["systematic_error"]
    return replace(found, per_joint={**found.per_joint, "joint2": made})


def test_a_good_model_passes_every_rule() -> None:
    verdict = small_estimate().verdict(_tested())
    assert verdict.ok
    assert verdict.level == "good"
    assert not verdict.failed
    names = {rule.name for rule in verdict.rules}
    assert names >= {
        "consistent",
        "condition",
        "tested",
        "error",
        "prior",
        "joint_error",
        "joint_raw",
        "joint_systematic",
        "notice",
    }
    assert {rule.joint for rule in verdict.rules if rule.name == "joint_error"} == {
        "joint1",
        "joint2",
    }


def test_friction_terms_that_act_alike_are_no_poor_motion() -> None:
    robot = md.load("two_link").with_drives(
        True, ("viscous", "coulomb", "sqrt", "stribeck", "cubic")
    )
    drives = {"Ia": 0.1, "Fv": 0.8, "Fc": 1.0, "Fr": 0.1, "Fs": 0.1, "Fk": 0.01}
    values = [
        drives.get(column.symbol, value)
        for column, value in zip(robot.layout.columns, robot.parameters)
    ]
    robot, t = robot.with_parameters(values), np.arange(4000) / 200
    w = np.array([0.8, 1.3])

    def found(apart: Any) -> md.Estimate:
        """Return what is found where joint 2 moves as joint 1 does, and by `apart` otherwise."""
        mixed = np.eye(2) if apart is None else np.array([[1.0, 1.0], [0.0, apart]])
        q, dq, ddq = (
            np.sin(np.outer(t, w)) @ mixed,
            np.cos(np.outer(t, w)) * w @ mixed,
            -np.sin(np.outer(t, w)) * w**2,
        )
        ddq = ddq @ mixed
        noise = 0.05 * np.random.default_rng(0).normal(size=q.shape)
        run = md.Recording(
            t, q, md.inverse_dynamics(robot, q, dq, ddq) + noise, dq, ddq, robot.joint_names
        )
        return md.identify(robot, run, friction="own", rotor_inertia=None)

    alike, poor = found(None), found(0.001)
    assert alike.condition > 200
    (notice,) = [
        notice for notice in alike.notices if notice.code == "identify.friction_terms_alike"
    ]
    assert notice.level == "info"
    assert notice.data["condition"] < 100
    assert {robot.layout.column(name).is_friction for name in notice.data["parameters"]} == {True}
    (rule,) = [rule for rule in alike.verdict(_tested()).rules if rule.name == "condition"]
    assert rule.level == "good"
    assert "identify.poor_excitation" in {notice.code for notice in poor.notices}
    (rule,) = [rule for rule in poor.verdict(_tested()).rules if rule.name == "condition"]
    assert rule.level == "caution"


def test_one_bad_joint_is_enough() -> None:
    estimate = small_estimate()
    verdict = estimate.verdict(_changed(systematic_error=0.25, systematic_share=0.2))
    assert _failed(verdict) == {("joint_error", "joint2")}
    assert verdict.level == "caution"
    assert estimate.verdict(_changed(systematic_error=0.6, systematic_share=0.2)).level == "bad"
    mostly = estimate.verdict(_changed(systematic_error=0.15, systematic_share=0.9))
    assert _failed(mostly) == {("joint_systematic", "joint2")}
    assert estimate.verdict(
        _changed(systematic_error=0.02, systematic_share=1.0)
    ).ok  # small: no noise, nothing else
    assert estimate.verdict(
        _changed(systematic_error=0.25, systematic_share=0.2), {"joint_error": 0.3}
    ).ok


def test_a_fast_disturbance_is_not_green() -> None:
    """Errors above the cut-off count as noise of a joint.

    Nobody can say that they are, so there is a wide bound.
    """
    estimate = small_estimate()
    rules = {
        rule.name: rule
        for rule in estimate.verdict(_changed(relative_error=0.68)).rules
        if rule.joint == "joint2"
    }
    assert {name for name, rule in rules.items() if not rule.ok} == {"joint_raw"}
    assert (rules["joint_raw"].level, rules["joint_raw"].value) == ("caution", 0.68)
    assert estimate.verdict(
        _changed(relative_error=0.3)
    ).ok  # a lightly loaded joint with white noise
    assert estimate.verdict(_changed(relative_error=0.68), {"joint_raw": 0.7}).ok


def test_untested_models_and_notices_that_ask_are_never_good() -> None:
    estimate = small_estimate()
    assert ("tested", "") in _failed(estimate.verdict())
    asked = replace(_tested(), notices=(ASKS("a sensor is loose", joint="joint2"),))
    assert _failed(estimate.verdict(asked)) == {("notice", "joint2")}
    told = replace(estimate, notices=(*estimate.notices, ASKS("look at it")))
    assert _failed(told.verdict(_tested())) == {("notice", "")}
    assert not estimate.verdict(replace(_tested(), overlap=0.4)).ok


@pytest.mark.parametrize("level", LEVELS)
def test_one_table_leads_from_a_notice_to_colour_word_and_exit_code(
    level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = CONSEQUENCES[level]
    said = Notice("test.said", level, "a sensor is loose")
    estimate = replace(small_estimate(), notices=(*small_estimate().notices, said))
    verdict = estimate.verdict(_tested())
    assert (verdict.level, verdict.headline) == (row.grade, row.model)
    assert verdict.ok is (row.exit_code == 0)
    page = md.report(estimate, _tested(), tmp_path / "r.html", code=False).read_text()
    assert f'class="verdict {row.grade}"' in page
    style = page.split("<style>")[1].split("</style>")[0]
    red, green, blue = (
        int(re.findall(rf"--{row.grade}: #(\w{{6}})", style)[0][k : k + 2], 16) for k in (0, 2, 4)
    )
    shades = {"red": red > 2 * green, "amber": red > green > 2 * blue, "green": green > 2 * red}
    assert [name for name, is_shade in shades.items() if is_shade] == [row.colour]
    monkeypatch.chdir(tmp_path)
    small_runs()[1].save("other.csv")
    estimate.save("estimate.json")
    words = ["-q", "validate", "estimate.json", "other.csv", "--require", "pass"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == row.exit_code, result.output
    assert f"verdict: {row.model}" in result.stdout


def test_a_check_follows_the_same_table() -> None:
    robot, log = small_estimate().base.robot, small_runs()[0]
    found = md.check(robot, log)
    for level, row in CONSEQUENCES.items():
        said = replace(found, notices=(Notice("test.said", level, "a sensor is loose"),))
        assert (said.level, said.headline) == (row.grade, row.log)
        assert said.ok is (row.exit_code == 0)


def test_names_of_files_are_whole() -> None:
    name = "2024-05-17_robot-cell-3_excitation_run_no_12.csv"
    for overlap in (None, 0.0, 1.0):
        verdict = small_estimate().verdict({name: replace(_tested(), overlap=overlap)})
        (rule,) = [rule for rule in verdict.rules if rule.name == "fitted_data"]
        assert name in rule.text


def test_fitted_data_are_no_test() -> None:
    verdict = small_estimate().verdict({"again": replace(_tested(), overlap=1.0)})
    assert {name for name, _ in _failed(verdict)} == {"fitted_data", "tested"}
    both = small_estimate().verdict(
        {"again": replace(_tested(), overlap=0.3), "new": replace(_tested(), overlap=0.0)}
    )
    assert {name for name, _ in _failed(both)} == {"fitted_data"}
    assert "30 %" in both.failed[0].text


def test_cross_validation_gets_a_verdict() -> None:
    robot, (fit, _) = small_estimate().base.robot, small_runs()
    crossed = md.cross_validate(robot, fit, folds=2, friction="own", rotor_inertia=None)
    verdict = small_estimate().verdict(crossed)
    assert verdict.ok
    assert any(rule.name == "joint_systematic" for rule in verdict.rules)


def test_json_holds_every_rule_and_limit() -> None:
    found = json.loads(json.dumps(small_estimate().verdict(_tested()).to_json(), allow_nan=False))
    assert found["ok"] is True
    assert all(
        {"name", "ok", "level", "value", "limit", "joint", "text"} == set(rule)
        for rule in found["rules"]
    )
    assert found["limits"]["joint_error"] == md.Limits().joint_error


def test_limits_are_checked() -> None:
    with pytest.raises(UnknownName):
        md.Limits.of({"eror": 0.1})
    with pytest.raises(DescriptionError):
        md.Limits(error=-0.1)


@pytest.mark.parametrize("low_passed", [False, True])
def test_noise_is_not_called_systematic(low_passed: bool) -> None:
    """Measurement noise, however large, shows no systematic error.

    What is planted under it is found.
    """
    rng = np.random.default_rng(0)
    alarms, found = 0, []
    for _ in range(100):
        count = 1000
        t = np.arange(count) / 100
        noise = rng.normal(size=(count, 1))
        if low_passed:  # ten samples a period of the cut-off, as prepared torque is
            from scipy.signal import butter, sosfiltfilt

            noise = sosfiltfilt(butter(4, 0.2, output="sos"), noise, axis=0)
            noise /= noise.std()
        torque = 0.1 * np.sin(t)[:, None] + noise  # a wrist whose torque drowns in noise
        for planted in (0.0, 1.0):
            sums = Residuals(1)
            sums.add(noise + planted * np.sin(2 * t)[:, None], torque)
            error, share = sums.systematic(6 if low_passed else 1)
            if planted:
                found.append(float(error[0]))
            else:
                alarms += bool(
                    error[0] > md.Limits().joint_error or share[0] > md.Limits().systematic_share
                )
    assert alarms < 5
    assert (
        (0.5 if low_passed else 0.8) < np.sqrt(2) * np.median(found) < 1.0
    )  # what is surely systematic


@pytest.mark.parametrize("noise", [0.002, 0.02, 0.1])
@pytest.mark.parametrize("name", ["puma4", "ur10e"])
def test_healthy_logs_break_no_rule_of_a_joint(name: str, noise: float) -> None:
    """Friction, rotors and noise of every size; the last joints carry hardly any torque."""
    robot = md.load(name)
    truth = robot.with_drives(rotor_inertia=True, friction=("viscous", "coulomb", "offset"))
    truth = truth.with_parameters(np.where(np.isnan(truth.parameters), 0.2, truth.parameters))
    rng = np.random.default_rng(5)
    runs = []
    for seed in (1, 2):
        t = np.arange(2000) / 200
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
        tau = md.inverse_dynamics(truth, q, dq, ddq)
        tau = tau + noise * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
        runs.append(
            md.Recording(t, q + 1e-5 * rng.normal(size=q.shape), tau, joint_names=robot.joint_names)
        )
    estimate = md.identify(robot, runs[0])
    verdict = estimate.verdict(md.validate(estimate, runs[1]))
    assert not [rule for rule in verdict.failed if rule.joint]
    tau = np.asarray(runs[1].tau).copy()
    tau[:, 1] *= 1.5  # the gain of one drive is wrong
    wrong = md.Recording(runs[1].t, runs[1].q, tau, joint_names=robot.joint_names)
    bad = estimate.verdict(md.validate(estimate, wrong))
    assert {rule.joint for rule in bad.failed if rule.name == "joint_error"} == {
        robot.joint_names[1]
    }
