"""Actuator values from encoders alone: exact gradients, true values within their deviations, files and the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import UnknownName
from minidyn.identification.actuators import _Problem
from minidyn.recording.recording import COMMAND

TRUE = {"Ia": 0.1, "Fv": 0.2, "Fc": 0.4, "Fo": 0.1}
KP, KD, LATE, NOISE = 60.0, 3.0, 0.004, 2e-4


def servo(name: str = "two_link") -> Any:
    """A robot with drives, whose links are known."""
    robot = md.load(name).with_drives(True, ("viscous", "coulomb", "offset"))
    return robot.with_parameters([TRUE.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)])


def recorded(robot: Any, seed: int, seconds: float = 2.0) -> Any:
    """Positions of a servo arm and its commands, which act late, 200 a second."""
    motion = md.trajectory.fourier(robot, seed=seed, period=2.0, speed=3.0)

    def late(t: Any) -> Any:
        return motion(np.maximum(np.asarray(t) - LATE, 0.0))

    law = md.Controller("PD", robot, torque=lambda _, q, dq, goal: (KP * (goal[0] - q) - KD * dq, {}))
    log = md.simulate(robot, law, late, seconds, noise=NOISE, seed=seed, control="continuous").thinned(5)
    commands = motion(log.t)[0]
    return md.Recording(log.t, log.q, None, joint_names=log.joint_names, telemetry={COMMAND: commands})


def test_the_gradient_is_that_of_finite_differences() -> None:
    robot = servo("scara").with_drives(False, ())
    log = recorded(servo("scara"), 1, 0.3)
    problem = _Problem(robot, log, {"kd": np.full(robot.n, KD)}, None, 0.05)
    theta = np.concatenate([np.full(robot.n, v) for v in (0.02, 0.05, 0.08, 0.02, KP)] + [[0.0043]])
    first = np.concatenate([log.q[0], np.full(robot.n, 0.1)])
    _, S = problem.simulated(theta, first)
    both = np.concatenate([theta, first])
    for k in range(len(both)):
        h = 1e-6 * max(abs(both[k]), 0.1) if k != len(theta) - 1 else 1e-7
        ends = [both + s * h * np.eye(len(both))[k] for s in (1, -1)]
        ahead, behind = (problem.simulated(end[: len(theta)], end[len(theta) :])[0] for end in ends)
        expected = (ahead - behind) / (2 * h)
        np.testing.assert_allclose(S[:, :, k], expected, atol=2e-5 * np.abs(expected).max() + 1e-9)


def test_values_are_true_within_their_deviations() -> None:
    robot = servo()
    apart = []
    for seed in range(count(2, 100)):
        found = md.identify_actuators(robot, recorded(robot, seed + 1), {"kd": KD})
        true = {"armature": 0.02, "viscous": 0.05, "coulomb": 0.08, "bias": 0.02, "kp": KP}
        for name, value in true.items():
            apart += ((getattr(found, name) - value) / found.std[name]).tolist()
        apart.append((found.delay - LATE) / found.std["delay"])
        assert found.error.max() < 1.2 * NOISE
        np.testing.assert_allclose(found.armature, 0.02, rtol=0.1)
        np.testing.assert_allclose(found.coulomb, 0.08, rtol=0.1)
    assert np.mean(np.abs(apart) <= 2) > 0.85
    assert np.abs(apart).max() < 5


def test_known_gains_and_delay_are_kept_and_the_robot_gets_its_drives(tmp_path: Path) -> None:
    robot = servo()
    log = recorded(robot, 3, 1.5)
    found = md.identify_actuators(robot, log, {"kp": KP, "kd": [KD, KD]}, command_delay=LATE)
    assert found.delay == LATE
    assert not found.std["kp"].any()
    made = found.on()
    assert made.drive_terms(0).keys() == servo().drive_terms(0).keys()
    np.testing.assert_allclose(made.parameters, robot.parameters, atol=0.01)
    names = ",".join(["t", *(f"q_{n}" for n in robot.joint_names), *(f"cmd_{n}" for n in robot.joint_names)])
    table = np.column_stack([log.t, log.q, log.telemetry[COMMAND]])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=names, comments="")
    md.save(robot, tmp_path / "robot.toml")
    words = ["actuators", str(tmp_path / "robot.toml"), str(tmp_path / "log.csv"), "--command", "cmd_*"]
    words += [
        "--kp",
        "20",
        "--kd",
        "0.6",
        "--command-delay",
        "0.004",
        "--output",
        str(tmp_path / "made.toml"),
        "--json",
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    joints = json.loads(done.stdout)["joints"]
    assert joints[robot.joint_names[0]]["armature"] == pytest.approx(found.armature[0], rel=1e-4)
    np.testing.assert_allclose(md.load(tmp_path / "made.toml").parameters, made.parameters, rtol=1e-4)


def test_what_it_refuses() -> None:
    robot = servo()
    log = recorded(robot, 1, 0.6)
    bare = md.Recording(log.t, log.q, None, joint_names=log.joint_names)
    with pytest.raises(md.MinidynError, match="commands"):
        md.identify_actuators(robot, bare)
    with pytest.raises(UnknownName):
        md.identify_actuators(robot, log, {"ki": 1.0})
    with pytest.raises(md.MinidynError, match="too few"):
        md.identify_actuators(robot, log[:50])
