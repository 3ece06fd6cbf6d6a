"""Springs and gas cylinders between given points.

Torque from their energy, the same everywhere, found from logs.
"""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import count
from minidyn.codegen.files import source_name
from minidyn.model.drives import ALIASES, TERMS

SYMBOLS = {TERMS[name].symbol for name in ALIASES["balancer"]}


def drawn(seed: int, joint: str, gas: bool) -> md.Balancer:
    rng = np.random.default_rng(seed)
    fixed, moving = rng.uniform(-0.3, 0.3, (2, 2))
    offset = float(rng.choice([0.0, 0.05]))
    if not gas:
        return md.Balancer(
            joint, fixed, moving, offset, rate=rng.uniform(1e3, 1e4), force=rng.uniform(-500, 500)
        )
    sign, exponent = float(rng.choice([-1.0, 1.0])), float(rng.choice([1.0, 1.4, 0.7, 2.3]))
    length = 0.0 if sign < 0 else 0.5
    return md.Balancer(
        joint, fixed, moving, offset, sign * 1.2, length, exponent, gas=rng.uniform(200, 900)
    )


def length_of(balancer: md.Balancer, q: np.ndarray) -> np.ndarray:
    """Distance of the two points, one of them turned by q."""
    (x, y), (u, v) = balancer.fixed, balancer.moving
    ends = np.stack([u * np.cos(q) - v * np.sin(q) - x, u * np.sin(q) + v * np.cos(q) - y])
    return np.sqrt(np.sum(ends**2, axis=0) + balancer.offset**2)


def torque_of(balancer: md.Balancer, q: np.ndarray) -> np.ndarray:
    """Tension times the slope of the length, by differences."""
    length, step = length_of(balancer, q), 1e-5
    slope = (length_of(balancer, q + step) - length_of(balancer, q - step)) / (2 * step)
    if balancer.gas_length:
        left = balancer.gas_length + balancer.length - length
        return balancer.gas * (balancer.gas_length / left) ** balancer.exponent * slope
    return (balancer.rate * length + balancer.force) * slope


@pytest.mark.parametrize("seed", range(count(6, 60)))
def test_torque_is_tension_times_slope_of_the_length(seed: int) -> None:
    """Values, regressor and forward dynamics of robots with turning joints of every direction."""
    rng = np.random.default_rng(seed)
    plain = md.load(str(rng.choice(["ur10e", "panda", "puma560", "stanford"])))
    turning = [joint.name for joint in plain.joints if joint.turns]
    balancer = drawn(seed, str(rng.choice(turning)), gas=bool(seed % 2))
    robot = balancer.on(plain)
    joint = plain.joint_names.index(balancer.joint)
    q, dq, ddq = rng.normal(size=(3, 20, robot.n))
    expected = np.zeros_like(q)
    expected[:, joint] = torque_of(balancer, q[:, joint])
    size = np.abs(expected).max() + 1e-3
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    np.testing.assert_allclose(
        tau - md.inverse_dynamics(plain, q, dq, ddq), expected, atol=1e-6 * size
    )
    np.testing.assert_allclose(
        md.regressor(robot, q, dq, ddq) @ robot.parameters, tau, atol=1e-8 * np.abs(tau).max()
    )
    np.testing.assert_allclose(md.forward_dynamics(robot, q, dq, tau), ddq, atol=1e-6)


@pytest.mark.parametrize("seed", range(count(3, 30)))
def test_base_parameters_are_counted_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = md.load(str(rng.choice(["two_link", "ur10e", "puma560", "scara"])))
    turning = [joint.name for joint in robot.joints if joint.turns]
    for k, name in enumerate(rng.choice(turning, 2, replace=False)):
        robot = drawn(seed + k, str(name), gas=bool((seed + k) % 2)).on(robot)
    assert md.base_parameters(robot).rank == md.base_parameters(robot, "qr").rank
    assert (
        md.base_parameters(robot, "qr").rank
        > md.base_parameters(robot.with_drives(False, ()), "qr").rank
    )


def test_files_keep_it(tmp_path: Path) -> None:
    robot = drawn(1, "elbow_joint", True).on(
        drawn(0, "shoulder_lift_joint", False).on(md.load("ur10e"))
    )
    q = np.random.default_rng(0).normal(size=(5, 6))
    for ending in ("toml", "urdf", "xml"):
        md.save(robot, tmp_path / f"arm.{ending}")
        again = md.load(tmp_path / f"arm.{ending}")
        np.testing.assert_allclose(
            md.inverse_dynamics(again, q, q, q),
            md.inverse_dynamics(robot, q, q, q),
            rtol=1e-9,
            atol=1e-6,
        )
    text = (tmp_path / "arm.toml").read_text()
    unknown = replace(drawn(0, "shoulder_lift_joint", False), rate=None, force=None).on(
        md.load("ur10e")
    )
    md.save(unknown, tmp_path / "blank.toml")
    assert np.isnan(md.load(tmp_path / "blank.toml").parameters).sum() == 2
    (tmp_path / "wrong.toml").write_text(text.replace("moving = [", "moving = [1.0, "))
    with pytest.raises(md.MinidynError, match="moving"):
        md.load(tmp_path / "wrong.toml")


@needs_gcc
def test_generated_c(tmp_path: Path) -> None:
    robot = drawn(1, "elbow_joint", True).on(
        drawn(0, "shoulder_lift_joint", False).on(md.load("ur10e"))
    )
    kernel = md.compile(robot, "inverse_dynamics")
    (tmp_path / "f.c").write_text(kernel.source("c"), encoding="utf-8")
    command = ["gcc", *STRICT, "-shared", "-fPIC", "f.c", "-o", "f.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    run = getattr(ctypes.CDLL(str(tmp_path / "f.so")), source_name(robot, kernel.function))
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 4, 6))
    expected = md.inverse_dynamics(robot, q, dq, ddq)
    for row in range(len(q)):
        out = np.zeros(6)
        arrays = (q[row].copy(), dq[row].copy(), ddq[row].copy(), out)
        run(*(a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in arrays))
        np.testing.assert_allclose(out, expected[row], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "gas"),
    [
        ("ur10e", True),
        ("ur10e", False),
        *((name, gas) for name in ("iiwa14", "xarm7") for gas in (False, True)),
    ][: count(1, 6)],
)
def test_constants_are_found_from_a_log(name: str, gas: bool) -> None:
    """A balancer as large as half of gravity.

    Without its term the error is several times as large.
    """
    plain = md.load(name).with_drives(True, ("viscous", "coulomb", "offset"))
    values = {"Ia": 0.3, "Fv": 2.0, "Fc": 3.0, "Fo": 0.2}
    plain = plain.with_parameters(
        [values.get(n[:2], v) for n, v in zip(plain.parameter_names, plain.parameters)]
    )
    weight = np.abs(
        md.gravity_torque(plain, np.random.default_rng(0).uniform(-1, 1, (200, plain.n)))[:, 1]
    ).max()
    law = {"gas_length": 0.5, "length": 0.2, "exponent": 1.4} if gas else {}
    known = {"gas": 3.0 * weight} if gas else {"rate": 7.0 * weight, "force": 3.0 * weight}
    points = md.Balancer(plain.joint_names[1], (0.0, 0.20), (0.12, 0.12), **law)
    true, runs = replace(points, **known).on(plain), []
    for seed in (1, 2):
        t = np.arange(0, 8, 0.004)
        q, dq, ddq = md.trajectory.fourier(plain, seed=seed, speed=1.5)(t)
        noise = 0.2 * np.random.default_rng(seed).normal(size=q.shape)
        runs.append(
            md.Recording(
                t, q, md.inverse_dynamics(true, q, dq, ddq) + noise, dq, ddq, plain.joint_names
            )
        )
    errors = []
    for model in (md.load(name), points.on(md.load(name))):
        estimate = md.identify(model, runs[0], friction=("viscous", "coulomb", "offset"))
        errors.append(md.validate(estimate, runs[1]).relative_error)
    assert errors[1] < 0.5 * errors[0]
    found = [k for k, one in enumerate(estimate.names) if one in ("Pb2", "Gb2")]
    truth = known["gas" if gas else "force"]
    assert estimate.beta[found[0]] == pytest.approx(
        truth, abs=max(5 * estimate.std[found[0]], 0.02 * truth)
    )


def test_it_stays_whatever_friction_is_asked_for(tmp_path: Path) -> None:
    robot = replace(drawn(0, "joint2", False), rate=None, force=None).on(md.load("two_link"))
    own = {column.name for column in robot.layout.columns if column.symbol in SYMBOLS}
    assert own == {"Kb2", "Pb2"}
    assert own <= set(robot.with_drives(True, ("viscous",)).parameter_names)
    assert own <= set(robot.with_drives(friction=()).parameter_names)
    assert not own & set(robot.with_drives(False, ()).parameter_names)
    assert not SYMBOLS & {
        column.symbol
        for column in md.load("two_link").with_drives(friction="balancer").layout.columns
    }
    again = drawn(1, "joint2", True).on(robot)  # another one in its place
    assert [column.name for column in again.layout.columns if column.symbol in SYMBOLS] == ["Gb2"]


def test_refusals() -> None:
    for words, request in (
        ("no joint 'wrist'", lambda: md.Balancer("wrist", (0, 1), (1, 0)).on(md.load("two_link"))),
        ("no joint 'joint3'", lambda: md.Balancer("joint3", (0, 1), (1, 0)).on(md.load("scara"))),
        ("fixed", lambda: md.Balancer("joint1", (0, 0), (1, 0))),
        ("moving", lambda: md.Balancer("joint1", (0, 1), (1, 0, 0))),
        ("exponent", lambda: md.Balancer("joint1", (0, 1), (1, 0), exponent=9.0)),
        (
            "no gas is left",
            lambda: md.Balancer("joint1", (0, 1), (1, 0), gas_length=1.0, length=0.5),
        ),
        ("gas_length", lambda: md.Balancer("joint1", (0, 1), (1, 0), gas=5.0)),
        ("spring", lambda: md.Balancer("joint1", (0, 1), (1, 0), gas_length=3.0, rate=5.0)),
    ):
        with pytest.raises(md.MinidynError, match=words):
            request()
