"""The comparison: every method has a row, a failure too; errors are those of validate.

The verbs print them.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from test_payload import BODY, motion, truth

import minidyn as md
from conftest import OWN
from minidyn.app.cli.main import main
from minidyn.identification.estimators.methods import ANY_MOTION


@pytest.fixture(scope="module")
def runs() -> tuple[md.Robot, md.Recording, md.Recording]:
    robot = truth("two_link")
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    return robot, motion(robot, 1, samples=800), motion(robot, 2, samples=800)


def test_every_method_has_a_row(runs) -> None:
    robot, fitted, tested = runs
    seen: list[int] = []
    found = md.compare(robot.with_parameters(None), fitted, tested, progress=seen.append, **OWN)
    assert [(row.method, row.consistent) for row in found.rows] == [
        (m, c) for m in ANY_MOTION for c in (False, True)
    ]
    assert seen == list(range(1, 2 * len(ANY_MOTION) + 1))
    for row in found.rows:
        assert not row.failure, f"{row.label}: {row.failure}"
        assert row.seconds > 0
        assert row.validation_error == pytest.approx(
            md.validate(row.estimate, tested).relative_error
        )
        assert row.realizable or not row.consistent
    assert found.table().count("\n") == len(found.rows) + 1
    assert found.best.validation_error <= 1.01 * min(row.validation_error for row in found.rows)
    assert found.best.label in repr(found)


def test_one_log_has_one_friction(runs) -> None:
    found = md.compare(*runs, ["ols", "wls"], consistent=[False], friction_per="log", **OWN)
    assert [notice.code for notice in found.notices].count("friction.one_log") == 1


def test_friction_is_chosen_once_for_all(runs) -> None:
    robot, fitted, tested = runs
    bare = robot.with_drives(friction=())
    found = md.compare(
        bare,
        fitted,
        tested,
        ["ols", "irls"],
        consistent=[False],
        friction="auto",
        rotor_inertia=None,
    )
    terms = {row.estimate.robot.parameter_names for row in found.rows}
    assert len(terms) == 1
    assert {"Fv1", "Fc2"} <= set(terms.pop())
    assert "friction.chosen" in {notice.code for notice in found.notices}
    assert {"stribeck", "load", "presliding"} <= {one["candidate"] for one in found.terms}
    assert all(row.validation_error < 0.05 for row in found.rows)


def test_logs_on_disk_are_compared_too(runs, tmp_path) -> None:
    robot, fitted, tested = runs
    on_disk = []
    for name, log in (("fit", fitted), ("test", tested)):
        log.save(tmp_path / f"{name}.parquet")
        on_disk.append(
            md.read_recording(tmp_path / f"{name}.parquet", robot, lazy=True, use_ddq=True)
        )
    errors = [
        [
            row.validation_error
            for row in md.compare(robot, *logs, ["ols"], consistent=[False], **OWN).rows
        ]
        for logs in (on_disk, (fitted, tested))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


def test_a_test_without_torques_is_refused(runs) -> None:
    robot, fitted, tested = runs
    dead = md.Recording(
        tested.t, tested.q, 0 * tested.tau, tested.dq, tested.ddq, tested.joint_names
    )
    with pytest.raises(md.MinidynError, match="zero throughout"):
        md.compare(robot, fitted, dead, ["ols"], **OWN)


def test_a_failure_is_a_row(runs) -> None:
    robot, fitted, tested = runs
    still = np.zeros_like(fitted.q)
    resting = md.Recording(fitted.t, still, still + 1.0, still, still, fitted.joint_names)
    options = OWN | {"consistent": [False], "force": True}
    found = md.compare(robot.with_parameters(None), resting, tested, ["ols", "wls"], **options)
    assert all(
        row.failure and np.isnan(row.validation_error) and row.estimate is None
        for row in found.rows
    )
    assert found.table().count("failed:") == 2
    assert "all failed" in repr(found)
    with pytest.raises(md.MinidynError, match="every method failed"):
        _ = found.best


def test_refusals(runs) -> None:
    robot, fitted, tested = runs
    cases = [
        (lambda: md.compare(robot, fitted, tested, ["wsl"], **OWN), "did you mean 'wls'"),
        (lambda: md.compare(robot, fitted, tested, [], **OWN), "at least one"),
        (lambda: md.compare(robot, fitted, fitted, **OWN), "no method has seen"),
        (
            lambda: md.compare(robot, fitted, md.Recording(tested.t, tested.q, None), **OWN),
            "torques",
        ),
    ]
    for request, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            request()


def test_verbs(runs, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    robot, fitted, tested = runs
    md.save(robot, tmp_path / "arm.toml")
    fitted.save(tmp_path / "fitted.npz")
    tested.save(tmp_path / "tested.npz")
    words = [
        "compare",
        "arm.toml",
        "fitted.npz",
        "--validate",
        "tested.npz",
        "--methods",
        "ols,wls",
    ]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0, shown.output
    assert "least validation error" in shown.output
    assert "what was tried" in shown.output
    rows = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["rows"]
    assert [row["method"] for row in rows] == ["ols", "ols", "wls", "wls"]
    assert all(0 < row["validation_error"] < 0.2 for row in rows)
    md.save(
        robot.with_drives(False, ()), tmp_path / "bare.toml"
    )  # a vendor's file knows no friction
    words[1] = "bare.toml"
    bare = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["rows"]
    assert [row["validation_error"] for row in bare] == pytest.approx(
        [row["validation_error"] for row in rows], rel=0.2
    )
    words[4] = "fitted.npz"
    seen = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["notices"]
    assert [
        notice["data"]["overlap"] for notice in seen if notice["code"] == "validate.fitted_data"
    ] == [1.0]

    arm = truth("ur10e")
    estimate = md.identify(
        arm.with_parameters(None),
        motion(arm, 3),
        prior=False,
        consistent=False,
        sign_width=0.0,
        **OWN,
    )
    estimate.save(tmp_path / "estimate.json")
    motion(md.Payload(0.0, BODY).on(arm), 4).save(tmp_path / "loaded.npz")
    shown = CliRunner().invoke(main, ["payload", "estimate.json", "loaded.npz"])
    assert shown.exit_code == 0, shown.output
    assert "mass" in shown.output
    content = json.loads(
        CliRunner().invoke(main, ["payload", "estimate.json", "loaded.npz", "--json"]).stdout
    )
    assert content["mass"] == pytest.approx(2.0, rel=0.02)
    assert content["realizable"] is True
