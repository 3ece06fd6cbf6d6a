"""A joint whose torque is not measured is named and left out; the rest is as right as ever."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.recording.measured import NOT_MEASURED, UNMEASURED

TERMS = ("viscous", "coulomb", "offset")
CONSTANTS = {"zeros": 0.0, "one value": 2.5, "no numbers": np.nan}


@cache
def arm() -> md.Robot:
    """Return an arm of which all parameters are known."""
    robot = md.load("puma4").with_drives(rotor_inertia=True, friction=TERMS)
    return robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))


@cache
def log(seed: int) -> md.Recording:
    """Return a raw log of a motion that excites all parameters."""
    rng, robot = np.random.default_rng(seed), arm()
    t = np.arange(5000) / 500
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.3 * rng.standard_normal(q.shape)
    noisy = q + 1e-5 * rng.standard_normal(q.shape)
    return md.Recording(t, noisy, tau, joint_names=robot.joint_names)


def without(recording: md.Recording, joint: int, value: float) -> md.Recording:
    """Return a recording with one value throughout a joint's torque."""
    tau = np.array(recording.tau)
    tau[:, joint] = value
    return md.Recording(recording.t, recording.q, tau, joint_names=recording.joint_names)


@cache
def errors(joint: int | None, value: float = 0.0, **options: Any) -> dict[str, float]:
    """Return errors on another log, all torques measured, of a fit that lacks a joint's."""
    fit = log(0) if joint is None else without(log(0), joint, value)
    prior = arm().with_parameters(1.1 * arm().parameters)
    found = md.validate(md.identify(prior, fit, friction=TERMS, **options), log(1))
    return {name: entry["relative_error"] for name, entry in found.per_joint.items()}


@pytest.mark.parametrize("kind", CONSTANTS)
@pytest.mark.parametrize("joint", [0, pytest.param(2, marks=pytest.mark.long)])
def test_other_joints_are_as_right_as_ever(joint: int, kind: str) -> None:
    whole, found = errors(None), errors(joint, CONSTANTS[kind])
    for place, name in enumerate(whole):
        if place != joint:
            assert found[name] == pytest.approx(whole[name], rel=0.02)
    assert found[arm().joint_names[joint]] < 0.5  # the prior says something of what no torque shows


@pytest.mark.parametrize("method", ["ols", "irls", "parallel", "tls", "momentum", "filtered"])
def test_all_methods_but_those_that_need_every_torque(method: str) -> None:
    whole, found = errors(None), errors(2, 0.0, method=method)
    for name in ("joint1", "joint2", "joint4"):
        assert found[name] == pytest.approx(whole[name], rel=0.15)
    for other in ("energy", "iv", "didim"):
        with pytest.raises(md.MinidynError, match="'joint3' are not measured"):
            md.identify(arm(), without(log(0), 2, 0.0), other)


def test_the_estimate_says_which(tmp_path: Path) -> None:
    found = md.identify(arm(), without(log(0), 1, 0.0), friction=TERMS, prior=False)
    assert [one.data["joints"] for one in found.notices if one.code == NOT_MEASURED.code] == [
        ["joint2"]
    ]
    hidden = [found.base.names.index(name) for name in ("Fv2", "Fc2", "Fo2")]
    assert np.isinf(found.sigma).tolist() == [False, True, False, False]
    assert np.all(
        np.isinf(np.diag(found.data_covariance if found.consistent else found.covariance)[hidden])
    )
    assert found.condition < 100
    assert all(found.robot.torques_measured)
    found.save(tmp_path / "estimate.json")
    again = md.load_estimate(tmp_path / "estimate.json")
    assert again.record["preparation"][UNMEASURED] in (["joint2"], ("joint2",))
    test = md.validate(again, without(log(1), 1, 0.0))
    assert np.isnan(test.per_joint["joint2"]["relative_error"])
    (row,) = (line for line in test.table().splitlines() if line.startswith("| joint2 "))
    assert row == "| joint2 | - | - | - | - | - | torque not measured |"
    assert test.relative_error < 0.1
    md.report(again, without(log(1), 1, 0.0), tmp_path / "report.html")


def test_check_names_the_joint() -> None:
    found = md.check(arm(), without(log(0), 1, 0.0))
    assert "joint2" in next(one for one in found.notices if one.code == NOT_MEASURED.code).text
    assert found.level == "caution"
    assert not any(one.code == NOT_MEASURED.code for one in md.check(arm(), log(0)).notices)


@pytest.mark.parametrize("kind", ["missing", "empty", "NaN"])
def test_columns_of_files(tmp_path: Path, kind: str) -> None:
    source, path = log(0), tmp_path / "log.csv"
    names = arm().joint_names
    columns = {"t": source.t} | {f"q.{name}": source.q[:, k] for k, name in enumerate(names)}
    columns |= {f"tau.{name}": np.asarray(source.tau)[:, k] for k, name in enumerate(names)}
    texts = {name: [repr(float(value)) for value in values] for name, values in columns.items()}
    texts["tau.joint2"] = ["" if kind == "empty" else "nan"] * len(source)
    if kind == "missing":
        del texts["tau.joint2"]
    path.write_text("\n".join([",".join(texts), *map(",".join, zip(*texts.values()))]) + "\n")
    for lazy in (False, True):
        recording = md.read_recording(path, arm(), lazy=lazy)
        found = md.identify(arm(), recording, friction=TERMS)
        assert [one.data["joints"] for one in found.notices if one.code == NOT_MEASURED.code] == [
            ["joint2"]
        ]
        assert md.validate(found, log(1)).relative_error < 0.1


def test_torques_that_are_constant_by_nature() -> None:
    """A vertical slide that stands still carries a constant weight."""
    robot = md.load("scara").with_drives(True, TERMS)
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))
    slide = next(k for k, index in enumerate(robot.independent) if robot.joints[index].slides)
    t = np.arange(3000) / 500
    q, dq, ddq = (np.array(part) for part in md.trajectory.fourier(robot, seed=0)(t))
    q[:, slide], dq[:, slide], ddq[:, slide] = 0.1, 0.0, 0.0
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau[:, slide] = tau[0, slide]  # but for rounding
    recording = md.Recording(t, q, tau, joint_names=robot.joint_names)
    assert UNMEASURED not in md.prepare(robot, recording).info


def test_rows_of_torques_that_are_not_measured_are_zero() -> None:
    robot = arm()
    partial = robot.with_measured_torques([True, False, True, True])
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 7, robot.n))
    mask = np.array(partial.torques_measured, dtype=float)
    for function in (md.inverse_dynamics, lambda robot, *motion: md.regressor(robot, *motion)):
        whole, part = function(robot, q, dq, ddq), function(partial, q, dq, ddq)
        np.testing.assert_allclose(part, np.einsum("j,nj...->nj...", mask, whole), atol=1e-12)
    np.testing.assert_array_equal(md.inertia_matrix(partial, q), md.inertia_matrix(robot, q))
    torque = np.ones_like(q)
    expected = md.forward_dynamics(robot, q, dq, torque)
    np.testing.assert_allclose(md.forward_dynamics(partial, q, dq, torque), expected, rtol=1e-9)
    assert partial.with_measured_torques(None) == robot
