"""Joints that give way.

Torques against two masses on a spring, and stiffness found in logs where it was planted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import UnknownName, Unsupported
from minidyn.identification.estimate import load_estimate
from minidyn.identification.flexibility import Flexibility

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from two_masses import driven, log_of, parts_of, planted_stiffness, two_mass_torque

Array = NDArray[np.float64]


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_links_on_springs_behind_encoders_of_links(seed: int) -> None:
    # the link's motion is given, so that the drive's follows without integration: nothing is left
    # out but what other friction than viscous does
    robot = driven(seed, ("two_link", "scara", "puma4")[seed % 3], coupled=True)
    values = np.array(robot.parameters)
    values[[c.index for own in robot.layout.drives for c in own if c.symbol in ("Fc", "Fo")]] = 0.0
    robot = robot.with_parameters(values)
    links, drives = parts_of(robot)
    C = np.eye(robot.n)
    C[-1, -2] = 0.5
    k = planted_stiffness(robot, 12.0, np.random.default_rng(seed))
    t = np.arange(3000) / 1000.0
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, period=4.0)(t)
    load = md.inverse_dynamics(robot, q, dq, ddq, links)
    spring = make_interp_spline(t, load @ np.linalg.inv(C) / k, 5)
    moved = [one + spring(t, order) @ np.linalg.inv(C).T for order, one in enumerate((q, dq, ddq))]
    truth = load + md.inverse_dynamics(robot, *moved, drives)
    added = truth - md.inverse_dynamics(robot, q, dq, ddq)
    found = Flexibility(robot, "link", 1.0 / k, 0.0 / k)
    log = md.Recording(t, q, truth, dq, ddq, robot.joint_names)
    np.testing.assert_allclose(found.torque(log), added, atol=1e-8 * np.abs(truth).max())
    np.testing.assert_allclose(
        found.columns(log) @ (1.0 / k), added, atol=1e-6 * np.abs(added).max()
    )


@pytest.mark.parametrize("seed", range(count(1, 12)))
def test_links_on_springs_behind_encoders_of_motors(seed: int) -> None:
    robot = driven(seed, ("two_link", "scara", "puma4")[seed % 3])
    k = planted_stiffness(robot, 25.0, np.random.default_rng(seed))
    t, motion = np.arange(1000) / 500.0, md.trajectory.fourier(robot, seed=seed, period=3.0)
    truth = two_mass_torque(robot, k, motion, t)
    q, dq, ddq = motion(t)
    rigid = md.inverse_dynamics(robot, q, dq, ddq)
    log = md.Recording(t, q, truth, dq, ddq, robot.joint_names)
    found = Flexibility(robot, "motor", 1.0 / k, 0.0 / k)
    inside = slice(20, -20)
    left, added = (truth - rigid - found.torque(log))[inside], (truth - rigid)[inside]
    # what is left is the damping of the springs, which lets links swing out
    assert np.linalg.norm(left) < 0.1 * np.linalg.norm(added)
    stiff = Flexibility(robot, "motor", 0.0 / k, 0.0 / k)
    assert not stiff.torque(log).any()
    few = 1e-3 / k
    slopes = stiff.columns(log) @ few
    np.testing.assert_allclose(
        slopes,
        Flexibility(robot, "motor", few, 0.0 / k).torque(log),
        atol=2e-3 * np.abs(slopes).max(),
    )


@pytest.mark.parametrize("side", ["motor", "link"])
@pytest.mark.parametrize("seed", range(count(1, 10)))
def test_stiffness_is_found_and_the_error_falls(seed: int, side: str, tmp_path: Path) -> None:
    robot = driven(seed, "scara")
    k = planted_stiffness(robot, 20.0, np.random.default_rng(seed))
    log, test = log_of(robot, k, side, seed)
    options = {"friction": "own", "rotor_inertia": None, "sign_width": 0.05, "consistent": False}
    plain = md.identify(robot, log, **options)
    found = md.identify(robot, log, flexibility=side, **options)
    assert plain.flexibility is None
    assert found.flexibility is not None
    z = (found.flexibility.compliance - 1.0 / k) / found.flexibility.std
    assert np.sqrt(np.mean(z**2)) < 2.6, z
    assert np.all(found.flexibility.std < 0.7 / k)
    assert found.record["flexibility"]["gain"] > 0.1
    errors = [float(np.linalg.norm(one.predict(test) - test.tau)) for one in (plain, found)]
    assert errors[1] < (0.6 if side == "motor" else 0.9) * errors[0]
    assert any(notice.code == "flexibility.found" for notice in found.notices)
    found.save(tmp_path / "estimate.json")
    np.testing.assert_array_equal(
        load_estimate(tmp_path / "estimate.json").predict(test), found.predict(test)
    )
    assert any(
        notice.code == "export.flexibility"
        for notice in found.export(tmp_path / "robot.toml").notices
    )


@pytest.mark.parametrize("seed", range(count(1, 10)))
def test_joints_of_a_rigid_robot_are_stiff(seed: int) -> None:
    robot = driven(seed)
    log, test = log_of(robot, None, "motor", seed)
    options = {"friction": "own", "rotor_inertia": None, "sign_width": 0.05, "flexibility": "motor"}
    compared = md.compare(robot, log, test, "wls", consistent=(True,), **options)
    found = compared.rows[0].estimate
    assert found is not None
    assert found.flexibility is not None
    assert np.all(found.flexibility.compliance < 3.5 * found.flexibility.std)
    assert any(notice.code == "flexibility.not_shown" for notice in compared.notices)
    assert np.linalg.norm(found.predict(test) - test.tau) < 0.01 * np.linalg.norm(test.tau)


@pytest.mark.long
def test_from_the_shell_to_files_and_back(tmp_path: Path) -> None:
    robot = driven(5)
    k = planted_stiffness(robot, 20.0, np.random.default_rng(5))
    log, test = log_of(robot, k, "motor", 5)
    md.save(robot, tmp_path / "robot.toml")
    log.save(tmp_path / "log.csv")
    files = [str(tmp_path / name) for name in ("robot.toml", "log.csv")]
    words = [
        "--flexibility",
        "motor",
        "--friction",
        "own",
        "--no-consistent",
        "--output",
        str(tmp_path / "out"),
        "--json",
    ]
    told = CliRunner().invoke(main, ["identify", *files, *words])
    assert told.exit_code == 0, told.output
    found = load_estimate(tmp_path / "out" / "estimate.json")
    assert found.flexibility is not None
    assert found.flexibility.compliance.all()
    rigid = md.base_regressor(
        found.robot, test.q, np.asarray(test.dq), np.asarray(test.ddq), base=found.base
    )
    expected = rigid @ found.beta + found.flexibility.torque(test)
    np.testing.assert_allclose(found.predict(test), expected, atol=1e-9)
    assert "Joints that give way" in (tmp_path / "out" / "report.html").read_text()
    assert "stiffness" in (tmp_path / "out" / "parameters.md").read_text()


def moving(robot: md.Robot) -> md.Recording:
    t = np.arange(400) / 100.0
    q, dq, ddq = md.trajectory.fourier(robot, seed=1, period=4.0)(t)
    return md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, ddq, robot.joint_names)


def test_what_cannot_be_is_refused() -> None:
    robot = driven(1)
    log, _ = log_of(robot, None, "motor", 1)
    with pytest.raises(UnknownName, match="flexibility"):
        md.identify(robot, log, flexibility="gear")
    for more in ({"method": "energy"}, {"friction_per": "log"}):
        with pytest.raises(Unsupported, match="flexibility"):
            md.identify(robot, log, flexibility="motor", **more)
    still = md.Recording(
        log.t, np.repeat(log.q[::600], 600, axis=0), log.tau, joint_names=robot.joint_names
    )
    with pytest.raises(Unsupported, match="at rest"):
        md.identify(robot, still, flexibility="motor")
    follows = md.load("panda_hand")
    with pytest.raises(Unsupported, match="follow"):
        md.identify(follows, moving(follows), flexibility="motor")
