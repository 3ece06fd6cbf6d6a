"""What to record next.

The report's command runs as it stands there, its prediction is true, studies know `after`.
"""

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.app.report.facts import std_after
from report_cases import small_estimate


@pytest.fixture(scope="module")
def estimate(tmp_path_factory) -> Path:
    """An estimate from a poor log: the second joint hardly moves."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    rng, t = np.random.default_rng(0), np.arange(0.0, 6.0, 0.01)
    q, dq, ddq = md.trajectory.fourier(robot, seed=1, period=6.0)(t)
    scale = np.array([1.0, 0.02])
    q, dq, ddq = q * scale, dq * scale, ddq * scale
    values = np.nan_to_num(robot.parameters, nan=0.1)
    tau = md.inverse_dynamics(robot, q, dq, ddq, values) + 0.05 * rng.normal(size=q.shape)
    run = md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names)
    found = md.identify(
        robot.with_parameters(values), run, friction="own", rotor_inertia=None, consistent=False
    )
    path = tmp_path_factory.mktemp("estimate of mine") / "estimate.json"
    found.save(path)
    return path


def test_the_command_of_the_report_runs(estimate, tmp_path, monkeypatch) -> None:
    text = md.report(estimate, tmp_path / "report.html", code=False).read_text()
    commands = [
        html.unescape(one) for one in re.findall(r"<code>(minidyn excite .*?)</code>", text)
    ]
    assert len(set(commands)) == 1  # in the section, and in the summary where parameters are weak
    words = shlex.split(commands[0])
    assert words[words.index("--after") + 1] == str(estimate)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [*words[1:], "--time-limit", "1"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "next-motion" / "motion.csv").is_file()


def test_errors_shrink_as_a_log_of_that_motion_makes_them(estimate) -> None:
    """Against the rows of such a log at its own rate, weighted and solved without scaling."""
    known = md.load_estimate(estimate)
    after = std_after(known.robot, known.base, known.covariance, known.sigma, 20.0)
    assert np.all(after < known.std)
    assert np.max(known.std / after) > 3
    t, found = np.arange(0.0, 20.0, 0.01), []
    for seed in range(5):
        motion = md.trajectory.fourier(known.base.robot, seed=seed, period=10.0, speed=1.0)(t)
        Y = md.base_regressor(known.robot, *motion, base=known.base)
        F = np.linalg.inv(known.covariance) + np.einsum("nji,njk,j->ik", Y, Y, known.sigma**-2.0)
        found.append((np.linalg.slogdet(F)[1], np.sqrt(np.diag(np.linalg.inv(F)))))
    np.testing.assert_allclose(after, max(found, key=lambda one: one[0])[1], rtol=0.02)
    longer = std_after(known.robot, known.base, known.covariance, known.sigma, 200.0)
    assert np.all(longer < after)
    assert (
        std_after(
            known.robot, known.base, np.full_like(known.covariance, np.inf), known.sigma, 20.0
        )
        is None
    )


def test_a_good_log_asks_for_nothing_in_the_summary(tmp_path) -> None:
    text = md.report(small_estimate(), tmp_path / "report.html", code=False).read_text()
    summary = text[text.index('id="summary"') : text.index('id="links"')]
    assert ("minidyn excite" in summary) == bool(small_estimate().weak)
    assert "What to record next" in text


STUDY = """[robot]
file = "two_link"
[[simulate]]
name = "fit"
duration = 3.0
[identify]
logs = ["fit"]
[[excite]]
name = "next"
duration = 4.0
time_limit = 1.0
after = ["identify"]
"""


def test_a_study_designs_the_next_motion(tmp_path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    result = md.run_study(file)
    assert [step.name for step in result.steps] == ["simulate-fit", "identify", "excite-next"]
    found = md.load_estimate(result["identify"].folder / "estimate.json")
    designed = (result["excite-next"].folder / "motion.json").read_text()
    assert all(f'"{name}"' in designed for name in found.names)  # its own drive terms
    assert [step.name for step in md.run_study(file, only=["excite-next"], dry=True).steps][
        -1
    ] == "excite-next"
    kept = tmp_path / "kept.json"
    found.save(kept)
    file.write_text(STUDY.replace('after = ["identify"]', 'after = ["kept.json"]'))
    assert md.run_study(file)["excite-next"].state == "done"
    assert md.run_study(file)["excite-next"].state == "unchanged"
    kept.write_text(kept.read_text() + "\n")  # another file, another motion
    assert md.run_study(file, dry=True)["excite-next"].state == "to do"
    for wrong in ('after = ["none.json"]', 'after = ["validate"]'):
        file.write_text(STUDY.replace('after = ["identify"]', wrong))
        with pytest.raises(md.MinidynError, match="after"):
            md.run_study(file)
    file.write_text(STUDY.replace('[identify]\nlogs = ["fit"]\n', ""))
    with pytest.raises(md.MinidynError, match="identify"):
        md.run_study(file)


def test_shell_and_study_design_several_runs_and_motions_for_a_purpose(tmp_path) -> None:
    words = [
        "--friction",
        "viscous",
        "--no-rotor-inertia",
        "--noise",
        "1",
        "--harmonics",
        "3",
        "--json",
    ]
    call = [
        "excite",
        "two_link",
        "--duration",
        "3",
        "--runs",
        "2",
        "--output",
        str(tmp_path / "both"),
        *words,
    ]
    result = CliRunner().invoke(main, call)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert {
        f"run-{k}/{name}" for k in (1, 2) for name in ("motion.csv", "motion.json", "preview.html")
    } <= set(told["files"])
    file = tmp_path / "study.toml"
    steps = {
        "both": "duration = 3.0\nruns = 2\n",
        "load": 'duration = 3.0\npurpose = "payload"\npayload = { mass = 0.5 }\nfamily = "bspline"\n',  # noqa: E501
    }
    less = {"load": "time_limit = 0.3"}
    each = 'friction = ["viscous"]\nrotor_inertia = false\nnoise = 1.0\nharmonics = 3'
    text = "".join(
        f'[[excite]]\nname = "{name}"\n{rest}{less.get(name, each)}\n'
        for name, rest in steps.items()
    )
    file.write_text(f'[robot]\nfile = "two_link"\n{text}')
    study = md.run_study(file)
    for number in (1, 2):
        same = [
            folder / f"run-{number}" / "motion.json"
            for folder in (study["excite-both"].folder, tmp_path / "both")
        ]
        first, second = (json.loads(path.read_text())["motion"] for path in same)
        assert first == second
    load = json.loads((study["excite-load"].folder / "motion.json").read_text())
    assert load["purpose"] == "payload"
    assert load["settings"]["family"] == "bspline"
    assert (study["excite-load"].folder / "motion.csv").is_file()
