"""The verdict in the shell, in studies and in JSON; fitted data are never a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import main
from report_cases import small_runs

FRICTION = "viscous,coulomb"
STUDY = """
[robot]
file = "two_link"
[identify]
logs = ["fit.csv"]
friction = ["viscous", "coulomb"]
[validate]
logs = ["{test}"]
[report]
code = false
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fitted log, a renamed and rounded copy of its middle, another log, and the
    estimate.
    """
    made = tmp_path_factory.mktemp("verdict")
    fit, other = small_runs()
    fit.save(made / "fit.csv")
    other.save(made / "other.csv")
    part = fit[400:1600]
    copy = md.Recording(
        part.t - 1.0, part.q.round(5), part.tau.round(4), joint_names=part.joint_names
    )
    copy.save(made / "brand_new.npz")
    result = run(
        "identify", "two_link", made / "fit.csv", "--friction", FRICTION, "--output", made / "out"
    )
    assert result.exit_code == 0, result.output
    return made


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def rules(found: dict[str, Any]) -> dict[str, bool]:
    """Return name: whether every rule of that name is met."""
    met: dict[str, bool] = {}
    for rule in found["verdict"]["rules"]:
        met[rule["name"]] = met.get(rule["name"], True) and rule["ok"]
    return met


def test_identify_without_a_test_does_not_pass() -> None:
    words = ["identify", "two_link", "fit.csv", "--friction", FRICTION, "--output", "again"]
    result = run(*words, "--require", "pass", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert not found["verdict"]["ok"]
    assert rules(found)["tested"] is False
    assert json.loads(Path("again/result.json").read_text())["verdict"] == found["verdict"]
    assert "sketch" not in found["record"]
    assert run(*words).exit_code == 0  # nothing is required
    tested = run(*words, "--validate", "other.csv", "--require", "pass")
    assert tested.exit_code == 0, tested.output
    assert "verdict: Ready to use" in tested.stdout
    crossed = run(*words, "--folds", 2, "--require", "pass")
    assert crossed.exit_code == 0, crossed.output
    held = run(*words, "--hold-out", 0.5, "--require", "pass", "--json")
    assert held.exit_code == 0, held.output
    assert json.loads(held.stdout)["errors"]["held out"]["overlap"] < 0.05


@pytest.mark.parametrize("verb", ["validate", "report"])
def test_a_copy_of_the_fitted_log_is_called_fitted_data(verb: str) -> None:
    words = [
        verb,
        "out/estimate.json",
        "brand_new.npz",
        *(["--output", "r.html"] if verb == "report" else []),
    ]
    result = run(*words, "--require", "pass")
    assert result.exit_code == 3, result.output
    assert "brand_new.npz: fitted data" in result.stdout
    assert "Usable with care" in result.stdout
    found = json.loads(run(*words, "--json").stdout)
    assert rules(found)["fitted_data"] is False
    if verb == "report":
        page = Path("r.html").read_text()
        assert "Usable with care" in page
        assert "Ready to use" not in page
        assert "held out of the fit" not in page
        assert "brand_new.npz (fitted data)" in page
        assert "after good" not in page.split('id="summary"')[1].split("<svg")[1].split("</svg>")[0]
    else:
        assert found["errors"]["brand_new.npz"]["data"] == "fitted data"
    good = run(*[word.replace("brand_new.npz", "other.csv") for word in words], "--require", "pass")
    assert good.exit_code == 0, good.output


@pytest.mark.parametrize(("test", "code"), [("brand_new.npz", 3), ("fit.csv", 3), ("other.csv", 0)])
def test_studies_have_a_verdict(test: str, code: int) -> None:
    study = Path(f"study-{test}.toml")
    study.write_text(STUDY.format(test=test))
    result = run("run", study, "--require", "pass")
    assert result.exit_code == code, result.output
    assert ("(fitted data)" in result.stdout) == bool(code)
    again = run("run", study, "--require", "pass", "--json")  # nothing is run again
    assert again.exit_code == code
    assert json.loads(again.stdout)["verdict"]["ok"] is not bool(code)
    report = Path(study.stem, "report", "report.html").read_text()
    assert ("Ready to use" in report) is not bool(code)


def test_a_study_sets_limits() -> None:
    study = Path("strict.toml")
    study.write_text(STUDY.format(test="other.csv") + "[verdict]\nerror = 0.001\n")
    result = run("run", study, "--require", "pass", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert rules(found)["error"] is False
    assert found["verdict"]["limits"]["error"] == 0.001
    assert "Usable with care" in Path("strict", "report", "report.html").read_text()
    study.write_text(STUDY.format(test="other.csv") + "[verdict]\neror = 0.001\n")
    wrong = run("run", study)
    assert wrong.exit_code == 2
    assert "did you mean 'error'" in wrong.stderr


def test_a_single_bad_joint_is_not_green(tmp_path: Path) -> None:
    _, other = small_runs()
    tau = other.tau.copy()
    tau[:, 1] *= 1.4  # a wrong gain of one drive, hidden behind the large first joint
    md.Recording(other.t, other.q, tau, joint_names=other.joint_names).save(tmp_path / "gain.csv")
    result = run(
        "validate", "out/estimate.json", tmp_path / "gain.csv", "--require", "pass", "--json"
    )
    assert result.exit_code == 3
    bad = {
        rule["joint"] for rule in json.loads(result.stdout)["verdict"]["rules"] if not rule["ok"]
    }
    assert "joint2" in bad
    assert "joint1" not in bad
