"""What is behind a force sensor.

Wrenches against virtual work, values within their deviations, files and code.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial.transform import Rotation

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import OWN, count
from minidyn.app.cli.main import main
from minidyn.dynamics.functions import frame_motion
from minidyn.errors import DescriptionError, ShapeError
from minidyn.identification.tool import turned_wrench, wrench_columns
from minidyn.model.parameters import from_body
from robot_cases import random_body, random_state, robot_of_seed

NOISE = np.array([0.3] * 3 + [0.01] * 3)
BIAS = np.array([3.0, -2.0, 8.0, 0.1, 0.2, -0.3])
TURN = Rotation.from_rotvec([0.1, -0.4, 1.2]).as_matrix()
PLACE = np.array([0.0, 0.01, 0.03])
BODY = from_body(1.3, [0.01, -0.02, 0.09], np.diag([0.004, 0.005, 0.002]))


def wrenches(robot: Any, log: Any, rng: Any, sign: float = -1.0, turn: Any = TURN) -> Any:
    motion = [part @ turn for part in frame_motion(robot, log.q, log.dq, log.ddq, None, PLACE)]
    w = sign * wrench_columns(*motion) @ BODY + BIAS
    return w + NOISE * rng.normal(size=w.shape)


def poses(robot: Any, rng: Any, number: int = 24, **how: Any) -> Any:
    q = rng.uniform(-2.0, 2.0, (number, robot.n))
    still = np.zeros_like(q)
    log = md.Recording(np.arange(float(number)), q, None, still, still, robot.joint_names)
    return with_wrench(log, wrenches(robot, log, rng, **how))


def with_wrench(log: Any, w: Any, **more: Any) -> Any:
    signals = (log.t, log.q, log.tau, log.dq, log.ddq, log.joint_names)
    return md.Recording(*signals, telemetry={"wrench": w, **more})


def motion(robot: Any, seed: int, seconds: float = 3.0) -> Any:
    t = np.arange(int(seconds / 4e-3)) * 4e-3
    return md.Recording(
        t, *_with_tau(md.trajectory.fourier(robot, seed=seed)(t)), robot.joint_names
    )


def _with_tau(parts: Any) -> Any:
    q, dq, ddq = parts
    return q, None, dq, ddq


@pytest.mark.parametrize("seed", range(count(5, 300)))
def test_the_wrench_does_the_work_of_the_load(seed: int) -> None:
    """Jᵀ times the wrench is what a load adds to the joint torques, which Newton and Euler's
    recursion gives.
    """
    robot = robot_of_seed(seed + 1)
    rng = np.random.default_rng(seed)
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))
    body = random_body(rng)
    q, dq, ddq = random_state(robot, rng, 4)
    log = md.Recording(np.arange(4.0), q, None, dq, ddq, robot.joint_names)
    f = wrench_columns(*frame_motion(robot, log.q, log.dq, log.ddq, None, np.zeros(3))) @ body
    loaded = md.Payload(0.0, body).on(robot)
    added = md.inverse_dynamics(loaded, q, dq, ddq) - md.inverse_dynamics(robot, q, dq, ddq)
    axes, J = md.forward_kinematics(robot, q)[:, :3, :3], md.jacobian(robot, q)
    force, moment = (np.einsum("kij,kj->ki", axes, part) for part in (f[:, :3], f[:, 3:]))
    work = np.einsum("kij,ki->kj", J, np.concatenate([moment, force], axis=1))
    if any("load" in joint.drive.friction for joint in robot.joints):
        return  # such friction grows with the load, which is no work of it
    np.testing.assert_allclose(work, added, rtol=1e-8, atol=1e-8 * (np.abs(added).max() + 1.0))


def test_derivatives_by_the_mounting_are_finite_differences() -> None:
    rng = np.random.default_rng(0)
    motion = rng.normal(size=(3, 5, 3))
    exact, h = turned_wrench(*motion, BODY), 1e-6
    for k in range(3):
        ahead, behind = (
            wrench_columns(
                *(part @ Rotation.from_rotvec(s * h * np.eye(3)[k]).as_matrix() for part in motion)
            )
            @ BODY
            for s in (1, -1)
        )
        np.testing.assert_allclose(exact[:, :, k], (ahead - behind) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_poses_give_mass_centre_bias_and_mounting(sign: float) -> None:
    """Mass within 1 %, centre within 2 mm, and all within their deviations, over many draws."""
    robot = md.load("ur10e")
    apart, centres, masses = [], [], []
    for seed in range(count(3, 300)):
        rng = np.random.default_rng(seed)
        found = md.identify_tool(poses(robot, rng, sign=sign), robot, position=PLACE)
        assert found.sign == sign
        turn = Rotation.from_matrix(found.mounting.T @ TURN).as_rotvec()
        apart += [*((found.bias - BIAS) / found.bias_std), *(turn / found.mounting_std)]
        apart.append((found.settings["unconstrained"][9] - 1.3) / found.std["mass"])
        masses.append(abs(found.mass / 1.3 - 1))
        centres.append(np.abs(found.com - [0.01, -0.02, 0.09]).max())
        assert found.load.realizable
    assert 0.65 < np.sqrt(np.mean(np.square(apart))) < 1.4
    assert np.quantile(masses, 0.9) < 0.015
    assert np.median(masses) < 0.01
    assert np.quantile(centres, 0.9) < 2e-3


def test_motion_gives_the_inertia_too() -> None:
    robot = md.load("ur10e")
    rng = np.random.default_rng(3)
    log = motion(robot, 1)
    w = wrenches(robot, log, rng)
    for log_with in (
        with_wrench(log, w),
        with_wrench(md.Recording(log.t, log.q, None, joint_names=log.joint_names), w),
    ):
        found = md.identify_tool(log_with, robot, position=PLACE)
        assert abs(found.mass / 1.3 - 1) < 0.01
        assert np.abs(found.com - [0.01, -0.02, 0.09]).max() < 1e-3
        np.testing.assert_allclose(np.diag(found.load.inertia), [0.004, 0.005, 0.002], atol=5e-4)
        ten = np.array(found.settings["unconstrained"])
        assert np.abs((ten - BODY) / np.sqrt(np.diag(found.load.covariance))).max() < 4.5


def test_joint_torques_add_what_they_know() -> None:
    """With an estimate and torques the mass is known better than from the sensor alone, and as
    truly.
    """
    robot = md.load("puma4")
    rng = np.random.default_rng(0)
    fit, run = motion(robot, 1), motion(robot, 2)

    def torques(arm: Any, log: Any) -> Any:
        tau = md.inverse_dynamics(arm, log.q, log.dq, log.ddq)
        return md.Recording(
            log.t, log.q, tau + 0.02 * rng.normal(size=tau.shape), log.dq, log.ddq, log.joint_names
        )

    estimate = md.identify(robot, torques(robot, fit), prior=False, consistent=False, **OWN)
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = TURN, PLACE
    loaded = md.Payload(0.0, BODY, placement).on(robot)
    log = torques(loaded, run)
    log = with_wrench(log, wrenches(robot, log, rng) + 5 * NOISE * rng.normal(size=(len(log), 6)))
    alone = md.identify_tool(log, robot, position=PLACE)
    both = md.identify_tool(log, estimate, position=PLACE)
    assert both.std["mass"] < 0.95 * alone.std["mass"]
    assert abs(both.settings["unconstrained"][9] - 1.3) < 4 * both.std["mass"]


def test_orientations_replace_a_robot_and_a_given_mounting_is_kept() -> None:
    robot = md.load("ur10e")
    log = poses(robot, np.random.default_rng(1))
    axes = md.forward_kinematics(robot, log.q)[:, :3, :3]
    quaternions = Rotation.from_matrix(axes).as_quat()
    known = md.identify_tool(log, robot, position=PLACE)
    bare = md.identify_tool(with_wrench(log, log.telemetry["wrench"], orientation=quaternions))
    assert bare.mass == pytest.approx(
        known.mass, rel=2e-3
    )  # standard gravity against the robot's own
    given = md.identify_tool(log, robot, position=PLACE, mounting=TURN)
    np.testing.assert_array_equal(given.mounting, TURN)
    assert not given.mounting_std.any()
    np.testing.assert_allclose(bare.compensate(with_wrench(log, log.telemetry["wrench"], orientation=quaternions)),  # noqa: E501
                               known.compensate(log), atol=0.1)  # fmt: skip


def test_a_mounting_that_nothing_shows_is_said() -> None:
    robot = md.load("ur10e")
    q = np.zeros((12, 6))
    q[:, 0] = np.linspace(-2, 2, 12)  # turns about the vertical: gravity is the same everywhere
    log = md.Recording(np.arange(12.0), q, None, 0 * q, 0 * q, robot.joint_names)
    log = with_wrench(log, wrenches(robot, log, np.random.default_rng(0), turn=np.eye(3)))
    found = md.identify_tool(log, robot, position=PLACE)
    assert "tool.mounting_open" in [notice.code for notice in found.notices]
    np.testing.assert_array_equal(found.mounting, np.eye(3))


@needs_gcc
def test_compensation_leaves_the_contact_in_python_and_c(tmp_path: Path) -> None:
    robot = md.load("ur10e")
    found = md.identify_tool(poses(robot, np.random.default_rng(1), 60), robot, position=PLACE)
    rng = np.random.default_rng(5)
    log = poses(robot, rng, 5)
    contact = rng.normal(size=(5, 6)) * [10, 10, 10, 1, 1, 1]
    pushed = with_wrench(log, log.telemetry["wrench"] + contact)
    left = found.compensate(pushed)
    assert np.abs((left - contact) / NOISE).max() < 5
    (tmp_path / "tool.c").write_text(found.source())
    command = [
        "gcc",
        *STRICT,
        "-shared",
        "-fPIC",
        str(tmp_path / "tool.c"),
        "-o",
        str(tmp_path / "tool.so"),
        "-lm",
    ]
    subprocess.run(command, check=True)
    out = np.zeros(6)
    arrays = [np.ascontiguousarray(a[0]) for a in (pushed.q, pushed.telemetry["wrench"])] + [out]
    code = ctypes.CDLL(str(tmp_path / "tool.so")).ur10e_compensated_wrench
    code(*[a.ctypes.data_as(ctypes.c_void_p) for a in arrays])
    np.testing.assert_allclose(out, left[0], rtol=1e-12)


def test_columns_of_files_and_the_shell(tmp_path: Path) -> None:
    """CSV with usual names, with columns that are named, and Parquet of our own give the same
    tool.
    """
    robot = md.load("ur10e")
    log = poses(robot, np.random.default_rng(2))
    names = [f"q_{name}" for name in robot.joint_names]
    w = log.telemetry["wrench"]
    for k, six in enumerate(
        (
            ["fx", "fy", "fz", "tx", "ty", "tz"],
            [f"wrench.{a}.{b}" for a in ("force", "torque") for b in "xyz"],
        )
    ):
        table = np.column_stack([log.t, log.q, w])
        np.savetxt(
            tmp_path / f"{k}.csv",
            table,
            delimiter=",",
            header=",".join(["t", *names, *six]),
            comments="",
        )
        read = md.read_recording(tmp_path / f"{k}.csv", robot)
        np.testing.assert_allclose(read.telemetry["wrench"], w)
    np.savetxt(tmp_path / "odd.csv", np.column_stack([log.t, log.q, w]), delimiter=",",
               header=",".join(["t", *names, *"abcdef"]), comments="")  # fmt: skip
    odd = md.read_recording(tmp_path / "odd.csv", robot, wrench=list("abcdef"))
    np.testing.assert_allclose(odd.telemetry["wrench"], w)
    with pytest.raises(DescriptionError, match="six"):
        md.read_recording(tmp_path / "odd.csv", robot, wrench=list("abc"))
    with pytest.raises(md.MinidynError, match="wrench"):
        md.identify_tool(tmp_path / "odd.csv", robot)
    log.save(tmp_path / "own.parquet")
    np.testing.assert_allclose(
        md.read_recording(tmp_path / "own.parquet", robot).telemetry["wrench"], w
    )
    log.save(tmp_path / "own.npz")
    words = [
        "tool",
        "ur10e",
        str(tmp_path / "own.npz"),
        "--position",
        "0,0.01,0.03",
        "--static",
        "--json",
    ]
    done = CliRunner().invoke(main, [*words, "--output", str(tmp_path / "tool.c")])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["mass"] == pytest.approx(1.3, rel=0.02)
    held = md.Recording(
        np.arange(8.0 * len(log)) / 100,
        np.repeat(log.q, 8, axis=0),
        None,
        joint_names=log.joint_names,
    )
    same = md.identify_tool(
        with_wrench(held, np.repeat(w, 8, axis=0)), robot, position=PLACE
    )  # poses that are held
    assert same.mass == pytest.approx(found["mass"], rel=1e-6)
    assert (tmp_path / "tool.c").is_file()


def test_wrenches_of_bags(tmp_path: Path) -> None:
    rosbags = pytest.importorskip("rosbags.typesys")
    from rosbags.rosbag2 import Writer

    store = rosbags.get_typestore(rosbags.Stores.LATEST)
    T = store.types
    t = np.arange(20) * 0.01
    with Writer(tmp_path / "bag", version=9) as writer:
        joints = writer.add_connection(
            "/joint_states", "sensor_msgs/msg/JointState", typestore=store
        )
        sensor = writer.add_connection("/ft", "geometry_msgs/msg/WrenchStamped", typestore=store)
        for k, now in enumerate(t):
            stamp = T["builtin_interfaces/msg/Time"](sec=int(now), nanosec=round(1e9 * (now % 1)))
            head = T["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            values = [np.array([0.1 * k, 0.2]), np.zeros(2), np.zeros(2)]
            state = T["sensor_msgs/msg/JointState"](head, ["joint1", "joint2"], *values)
            writer.write(joints, round(1e9 * now), store.serialize_cdr(state, state.__msgtype__))
            parts = [
                T["geometry_msgs/msg/Vector3"](*(float(k + j) for j in range(a, a + 3)))
                for a in (0, 3)
            ]
            wrench = T["geometry_msgs/msg/WrenchStamped"](
                head, T["geometry_msgs/msg/Wrench"](*parts)
            )
            writer.write(sensor, round(1e9 * now), store.serialize_cdr(wrench, wrench.__msgtype__))
    read = md.read_recording(tmp_path / "bag")
    np.testing.assert_allclose(
        read.telemetry["wrench"], np.arange(20.0)[:, None] + np.arange(6.0), atol=1e-6
    )


def test_what_it_refuses() -> None:
    robot = md.load("ur10e")
    log = poses(robot, np.random.default_rng(0), 4)
    with pytest.raises(md.MinidynError, match="too few"):
        md.identify_tool(log, robot)
    log = poses(robot, np.random.default_rng(0))
    with pytest.raises(ShapeError):
        md.identify_tool(log, robot, mounting=2 * np.eye(3))
    with pytest.raises(ShapeError):
        md.identify_tool(log, robot, position=[0.0])
    with pytest.raises(md.MinidynError, match="orientation"):
        md.identify_tool(log)
    bare = md.Recording(log.t, log.q, None, joint_names=log.joint_names)
    with pytest.raises(md.MinidynError, match="wrench"):
        md.identify_tool(bare, robot)
