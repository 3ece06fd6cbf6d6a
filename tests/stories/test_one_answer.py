"""One answer to each question.

The same log gives the same numbers through Python, the shell and a study file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.identification.estimate import Estimate
from minidyn.notices import notices_json

MIMIC = """
name = "gripper"
[[joint]]
name = "arm"
alpha = 1.2
[[joint]]
name = "finger"
a = 0.4
[[joint]]
name = "thumb"
parent = "link1"
a = 0.3
alpha = 0.5
mimic = { leader = "finger", ratio = -0.7 }
"""
BODY = """
[[link]]
name = "link{}"
mass = 1.5
com = [0.1, 0.02, 0.03]
inertia = [0.03, 0, 0, 0.04, 0, 0.05]
"""


def two_links(folder: Path) -> md.Robot:
    return md.load("two_link")


def coupled_drive(folder: Path) -> md.Robot:
    robot = md.load("scara").with_drives(True, ("viscous", "coulomb"))
    first, second = robot.joint_names[:2]
    return robot.with_drives(coupling={second: {first: -0.5}})


def mimic(folder: Path) -> md.Robot:
    (folder / "mimic.toml").write_text(MIMIC + "".join(BODY.format(number) for number in (1, 2, 3)))
    return md.load(folder / "mimic.toml")


def simulated(robot: md.Robot, seed: int, samples: int) -> md.Recording:
    """Return a noisy log of the robot with rotors and friction that its file does not know."""
    true = robot.with_drives(True, ("viscous", "coulomb", "offset"))
    true = true.with_parameters(np.where(np.isnan(true.parameters), 0.3, true.parameters))
    t = np.arange(samples) * 0.005
    q, dq, ddq = md.trajectory.fourier(true, seed=seed, speed=2.0)(t)
    tau = md.inverse_dynamics(true, q, dq, ddq)
    tau = tau + 0.02 * np.abs(tau).max(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
    return md.Recording(t, q, tau, joint_names=true.joint_names)


MAPPING = """
gear_ratio = [50, -40]
coupling = [[1, 0], [-0.5, 1]]
"""


def motor_side(log: md.Recording) -> md.Recording:
    """Return what the motors of two joints would log.

    The second turns with the first, too, as MAPPING says.
    """
    Rq = np.diag([50.0, -40.0]) @ np.array([[1.0, 0.0], [-0.5, 1.0]])
    return md.Recording(
        log.t, log.q @ Rq.T, np.linalg.solve(Rq.T, log.tau.T).T, joint_names=log.joint_names
    )


STUDY = """
[robot]
file = "robot.toml"
[identify]
logs = ["log.csv"]
[validate]
logs = ["test.csv"]
"""


def same(first: Estimate, second: Estimate) -> None:
    """Check that two estimates are the same to the last digit."""
    for name in (
        "beta",
        "covariance",
        "sigma",
        "parameters",
        "condition",
        "samples",
        "method",
        "names",
    ):
        one, other = getattr(first, name), getattr(second, name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, name
    assert repr(first.record) == repr(second.record)  # as text: NaN is NaN
    assert [str(notice) for notice in first.notices] == [str(notice) for notice in second.notices]


@pytest.mark.parametrize(
    ("make", "mapping"),
    [(two_links, ""), (coupled_drive, ""), (mimic, ""), (two_links, MAPPING)],
    ids=["two_links", "coupled_drive", "mimic", "coupled_mapping"],
)
def test_python_shell_and_study_give_the_same_numbers(
    make: Any, mapping: str, tmp_path: Path
) -> None:
    md.save(make(tmp_path), tmp_path / "robot.toml")
    robot = md.load(tmp_path / "robot.toml")
    for name, seed, samples in (("log", 1, 2000), ("test", 2, 1200)):
        log = simulated(robot, seed, samples)
        (motor_side(log) if mapping else log).save(tmp_path / f"{name}.csv")
    (tmp_path / "map.toml").write_text(mapping)
    mapped = ["--mapping", str(tmp_path / "map.toml")]

    estimate = md.identify(
        robot, md.read_recording(tmp_path / "log.csv", robot, mapping=tmp_path / "map.toml")
    )
    test = md.read_recording(tmp_path / "test.csv", robot, mapping=tmp_path / "map.toml")
    validation = md.validate(estimate, test).to_json()
    estimate.save(tmp_path / "python.json")
    estimate = md.load_estimate(tmp_path / "python.json")
    assert 0 < validation["relative_error"] < 0.1
    codes = {notice["code"] for notice in notices_json(estimate.notices)}
    assert ("recording.coupled_drives" in codes) == bool(mapping)
    if mapping:
        assert estimate.robot.joints[1].drive.coupling == (("joint1", -0.5),)

    words = ["identify", *(str(tmp_path / name) for name in ("robot.toml", "log.csv"))]
    words += [
        *mapped,
        "--validate",
        str(tmp_path / "test.csv"),
        "--output",
        str(tmp_path / "out"),
        "--json",
    ]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    shell = json.loads(result.stdout)
    same(md.load_estimate(tmp_path / "out" / "estimate.json"), estimate)
    assert shell["errors"]["test.csv"] == json.loads(json.dumps(validation))
    assert [entry["value"] for entry in shell["parameters"].values()] == estimate.beta.tolist()

    (tmp_path / "study.toml").write_text(STUDY + "[mapping]" + mapping)
    study = md.run_study(tmp_path / "study.toml")
    same(md.load_estimate(study["identify"].folder / "estimate.json"), estimate)
    errors = json.loads((study["validate"].folder / "validation.json").read_text())
    assert errors["test.csv"] == json.loads(json.dumps(validation))

    words = [
        "validate",
        str(tmp_path / "python.json"),
        str(tmp_path / "test.csv"),
        "--json",
        *mapped,
    ]
    assert (
        json.loads(CliRunner().invoke(main, words).stdout)["errors"]["test.csv"]
        == shell["errors"]["test.csv"]
    )
