"""Actuator values from encoders alone.

Exact gradients, true values within their deviations, files and the shell.
"""

from __future__ import annotations

import json
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import UnknownName
from minidyn.formats.mjcf.write import knows_delays
from minidyn.identification.export import file_name
from minidyn.identification.servo_loop import ServoLoop
from minidyn.recording.recording import COMMAND

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from actuators import simulated

TRUE = {"armature": 0.1, "viscous": 0.2, "coulomb": 0.4, "bias": 0.1, "kp": 60.0}
SYMBOLS = {"Ia": 0.1, "Fv": 0.2, "Fc": 0.4, "Fo": 0.1}
KP, KD, LATE, NOISE = 60.0, 3.0, 0.0043, 3e-4


def servo() -> Any:
    """A robot with drives, whose links are known."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb", "offset"))
    return robot.with_parameters(
        [SYMBOLS.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)]
    )


@cache
def recorded(seed: int) -> Any:
    """Positions of a servo arm and its commands, which act late, 200 a second, by small steps of
    another simulator.
    """
    robot = servo().with_drives(False, ())
    motion = md.trajectory.fourier(robot, seed=seed, period=2.0, speed=3.0)
    true = {name: np.full((1, 2), value) for name, value in (TRUE | {"kd": KD}).items()} | {
        "delay": np.array([LATE])
    }
    t, command, q = simulated(robot, true, [motion], 1.2, 5e-4)
    noise = NOISE * np.random.default_rng(seed).normal(size=q[0].shape)
    return md.Recording(t, q[0] + noise, None, telemetry={COMMAND: command[0], "q_true": q[0]})


def test_the_loop_moves_as_that_of_small_steps() -> None:
    log = recorded(1)
    loop = ServoLoop(
        servo().with_drives(False, ()),
        log.t,
        log.telemetry[COMMAND],
        np.full(2, KD),
        first=0,
        held=False,
    )
    theta = np.append(np.repeat(list(TRUE.values()), 2), LATE)
    true = log.telemetry["q_true"]
    assert np.sum(np.diff(np.sign(np.diff(true, axis=0)), axis=0) != 0) > 3  # friction reverses
    made, _ = loop.simulated(theta, np.concatenate([true[0], np.zeros(2)]))
    np.testing.assert_allclose(made, true, atol=0.1 * NOISE)


@pytest.mark.parametrize("held", [False, True])
def test_the_gradient_is_that_of_finite_differences(held: bool) -> None:
    t = np.arange(50) / 200
    command = np.stack([0.06 * np.sin(30 * t), 0.05 * np.cos(23 * t)], axis=1)
    robot = servo().with_drives(False, ()).with_gravity([0.0, 0.0, 0.0])
    loop = ServoLoop(robot, t, command, np.full(2, KD), first=2, held=held)
    theta = np.array([0.5, 0.2, 40.0, 20.0, 20.0, 10.0, 1.0, -2.0, 2000.0, 900.0, LATE])
    loop.parts, both = 2, np.append(theta, [0.01, 0.05, 0.5, -0.2])
    q, S = loop.simulated(both[:11], both[11:])
    still = np.diff(q, axis=0) == 0.0
    assert (np.diff(still.astype(int), axis=0) != 0).sum() >= 2  # joints stop, stick and break away
    rng = np.random.default_rng(0)
    for _ in range(count(3, 30)):
        along = rng.normal(size=len(both)) * np.maximum(np.abs(both), 0.01)
        ends = [both + h * along for h in (1e-7, -1e-7)]
        ahead, behind = (loop.simulated(end[:11], end[11:])[0] for end in ends)
        expected = (ahead - behind) / 2e-7
        np.testing.assert_allclose(S @ along, expected, atol=1e-5 * np.abs(expected).max())


def test_values_are_true_within_their_deviations() -> None:
    robot, apart, off = servo(), [], []
    for seed in range(1, 1 + count(1, 100)):
        log = recorded(seed)
        found = md.identify_actuators(robot, log, {"kd": KD})
        steps = np.diff(log.telemetry["q_true"][20:], axis=0)  # the first 0.1 s only give commands
        one_way = np.all(steps > 0, axis=0) | np.all(steps < 0, axis=0)
        joints = [robot.joint_names[j] for j in np.flatnonzero(one_way)]
        unknown = [f"{what} of {joint}" for what in ("coulomb", "bias") for joint in joints]
        assert [notice.code for notice in found.notices] == (["actuators.loose"] if unknown else [])
        assert [name for notice in found.notices for name in notice.data["names"]] == unknown
        for name, value in TRUE.items():
            known = ~one_way if name in ("coulomb", "bias") else np.ones(2, dtype=bool)
            np.testing.assert_array_equal(np.isfinite(found.std[name]), known)
            apart += ((getattr(found, name) - value) / found.std[name])[known].tolist()
        apart.append((found.delay - LATE) / found.std["delay"])
        assert found.error.max() < 1.2 * NOISE
        off.append(np.abs(found.armature / TRUE["armature"] - 1.0))
    many = len(apart) > 100
    # 1.2 s are short: some motions hardly accelerate a joint, and their deviations say so
    assert np.median(off) < (0.04 if many else 0.1)
    assert np.mean(np.abs(apart) <= 2) >= (0.94 if many else 0.8)
    assert not many or 0.92 < np.sqrt(np.mean(np.square(apart))) < 1.08
    assert np.abs(apart).max() < 5


def test_a_joint_that_never_reverses_does_not_tell_its_friction_from_its_bias() -> None:
    log = recorded(70)
    assert np.all(np.diff(log.telemetry["q_true"][:, 0]) < 0)
    found = md.identify_actuators(servo(), log, {"kd": KD})
    assert found.notices[0].data["names"] == ["coulomb of joint1", "bias of joint1"]
    assert found.error[0] < 1.1 * NOISE
    assert (
        abs(found.bias[0] + found.coulomb[0]) < 1e-3
    )  # both as small as what is seen, their difference, allows
    seen = TRUE["bias"] - TRUE["coulomb"]
    assert found.bias[0] - found.coulomb[0] == pytest.approx(seen, abs=0.25)
    assert found.to_json()["joints"]["joint1"]["std"]["bias"] is None
    assert np.isfinite(found.std["coulomb"][1])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """What the shell writes, and what Python finds."""
    folder, robot, log = tmp_path_factory.mktemp("actuators"), servo(), recorded(1)
    names = ",".join(
        ["t", *(f"q_{n}" for n in robot.joint_names), *(f"cmd_{n}" for n in robot.joint_names)]
    )
    table = np.column_stack([log.t, log.q, log.telemetry[COMMAND]])
    np.savetxt(folder / "log.csv", table, delimiter=",", header=names, comments="")
    md.save(robot, folder / "robot.toml")
    words = (
        f"actuators {folder}/robot.toml {folder}/log.csv --command cmd_* --kp 60 --kd 3 "
        "--command-delay 0.0043"
    )
    done = CliRunner().invoke(main, [*words.split(), "--output", str(folder / "made"), "--json"])
    assert done.exit_code == 0, done.output
    return folder / "made", json.loads(done.stdout)


def test_known_gains_and_delay_are_kept_and_the_robot_gets_its_drives(
    files: tuple[Path, Any],
) -> None:
    folder, told = files
    assert told["delay"] == LATE
    joints = list(told["joints"].values())
    assert [joint["kp"] for joint in joints] == [KP, KP]
    assert not any(joint["std"]["kp"] for joint in joints)
    assert {Path(file).name for file in told["files"]} >= {
        file_name("toml", servo().name),
        file_name("mujoco", servo().name),
        "isaac_lab.py",
    }
    missing = {note["data"]["target"]: set(note["data"]["missing"]) for note in told["notices"]}
    missing.pop("mujoco", None)  # an old one has no delays
    assert missing == {"toml": {"gains", "delay"}, "isaac": {"offset"}}
    made = md.load(folder / file_name("toml", servo().name))
    assert made.drive_terms(0).keys() == servo().drive_terms(0).keys()
    np.testing.assert_allclose(made.parameters, servo().parameters, atol=0.02)


def test_mujoco_and_isaac_lab_read_them(
    files: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mujoco = pytest.importorskip("mujoco")
    folder, told = files
    values = {name: np.array([joint[name] for joint in told["joints"].values()]) for name in TRUE}
    model = mujoco.MjModel.from_xml_path(str(folder / file_name("mujoco", servo().name)))
    for field, name in (
        ("armature", "armature"),
        ("damping", "viscous"),
        ("frictionloss", "coulomb"),
    ):
        np.testing.assert_allclose(getattr(model, f"dof_{field}").ravel(), values[name], rtol=1e-9)
    if knows_delays():
        np.testing.assert_allclose(model.actuator_delay, LATE)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = [0.3, -0.2], [0.5, 1.0]
    mujoco.mj_forward(model, data)  # commands have not arrived: they are zero
    np.testing.assert_allclose(
        data.actuator_force, -KP * data.qpos - KD * data.qvel - values["bias"], rtol=1e-9
    )
    fake = types.ModuleType("isaaclab.actuators")
    fake.ImplicitActuatorCfg = fake.DelayedPDActuatorCfg = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isaaclab", types.ModuleType("isaaclab"))
    monkeypatch.setitem(sys.modules, "isaaclab.actuators", fake)
    space: dict[str, Any] = {}
    exec(compile((folder / "isaac_lab.py").read_text(), "isaac_lab.py", "exec"), space)  # noqa: S102
    for made in (space["ACTUATORS"]["identified"], space["delayed"](0.001)["identified"]):
        assert list(made["stiffness"].values()) == [KP, KP]
        np.testing.assert_allclose(list(made["armature"].values()), values["armature"], rtol=1e-9)
    assert space["delayed"](0.001)["identified"]["min_delay"] == 4


def test_what_it_refuses(tmp_path: Path) -> None:
    robot, log = servo(), recorded(1)
    bare = md.Recording(log.t, log.q, None, joint_names=log.joint_names)
    with pytest.raises(md.MinidynError, match="commands"):
        md.identify_actuators(robot, bare)
    with pytest.raises(UnknownName):
        md.identify_actuators(robot, log, {"ki": 1.0})
    with pytest.raises(md.MinidynError, match="too few"):
        md.identify_actuators(robot, log[:50])
