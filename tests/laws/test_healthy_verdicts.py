"""Healthy logs are not called ill: light wrists, constant torques, unloaded joints, tiny noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.identification.diagnose.torque_scales import torque_scales


def wrist_log(
    seed: int, extra: float, name: str = "ur10e"
) -> tuple[md.Robot, md.Recording, md.Recording]:
    """Return a robot and two runs; a cable adds `extra` N m at the last joint."""
    robot = md.load(name)
    truth = robot.with_drives(rotor_inertia=True, friction=("viscous", "coulomb", "offset"))
    values = np.where(np.isnan(truth.parameters), 0.2, truth.parameters)
    truth = truth.with_parameters(values)
    rng = np.random.default_rng(seed)
    runs = []
    for number in (1, 2):
        t = np.arange(2000) / 200
        q, dq, ddq = md.trajectory.fourier(robot, seed=10 * seed + number)(t)
        tau = md.inverse_dynamics(truth, q, dq, ddq)
        tau = tau + 0.01 * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
        tau[:, -1] += extra * np.sqrt(2) * np.sin(3.1 * q[:, -1] + 1.7 * q[:, -2])
        runs.append(md.Recording(t, q, tau, joint_names=robot.joint_names))
    return robot, runs[0], runs[1]


def test_a_small_residual_of_a_light_wrist_is_not_red() -> None:
    robot, fitted, other = wrist_log(1, 0.4)
    estimate = md.identify(robot, fitted)
    found = md.validate(estimate, other)
    entry = found.per_joint[robot.joint_names[-1]]
    assert entry["systematic_error"] > md.Limits().joint_error_poor  # of its own little torque
    assert entry["systematic_rmse"] == pytest.approx(0.4, rel=0.3)
    verdict = estimate.verdict(found)
    assert not [rule for rule in verdict.failed if rule.joint]
    rigorous = estimate.verdict(found, {"small": 0.0, "small_torque": 0.0})
    assert robot.joint_names[-1] in {rule.joint for rule in rigorous.failed}
    large = md.validate(estimate, wrist_log(1, 30.0)[2])  # more than the drive's share
    assert robot.joint_names[-1] in {rule.joint for rule in estimate.verdict(large).failed}


def test_a_joint_that_carries_no_weight_has_no_torque_scale() -> None:
    """Cables and springs set the scale there, not the bodies of the file."""
    for seed in range(count(4, 20)):
        for name in ("panda", "ur10e"):
            robot, log, _ = wrist_log(seed, 0.0, name)
            cable = 6.0 * np.sin(2 * log.q[:, -3:] + seed)
            log = replace(log, tau=log.tau + np.pad(cable, ((0, 0), (robot.n - 3, 0))))
            scales = torque_scales(robot, md.prepare(robot, log), robot.parameters)
            assert not [scale for scale in scales if scale.wrong]
            amperes = replace(log, tau=log.tau / 12)
            scales = torque_scales(robot, md.prepare(robot, amperes), robot.parameters)
            assert sum(scale.wrong for scale in scales) >= 2  # those that carry weight


def test_a_nearly_constant_torque_is_not_saturated() -> None:
    robot = md.load("two_link")
    rng = np.random.default_rng(0)
    t = np.arange(4000) / 200
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau[:, 1] = 300.0 + np.round(np.sin(2.0 * t) / 4e-3) * 4e-3
    tau[:, 0] += 0.01 * tau[:, 0].std() * rng.normal(size=len(t))
    log = md.Recording(t, q, tau, joint_names=robot.joint_names)
    codes = {notice.code for notice in md.check(robot, log).notices}
    assert "check.saturated" not in codes
    bound = 0.7 * np.abs(tau[:, 0]).max()
    cut = np.column_stack([np.clip(tau[:, 0], -bound, bound), tau[:, 1]])
    found = md.check(robot, replace(log, tau=cut)).notices
    joints = {one.data["joint"] for one in found if one.code == "check.saturated"}
    assert joints == {robot.joint_names[0]}


@pytest.mark.parametrize(("noise", "is_known"), [(1e-4, True), (1.0, False)])
def test_excitation_is_judged_by_the_torque_that_stays_open(noise: float, is_known: bool) -> None:
    """Joint 2 moves nearly as joint 1 does; with little noise that is enough."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    values = np.where(np.isnan(robot.parameters), 0.5, robot.parameters)
    robot, t = robot.with_parameters(values), np.arange(4000) / 200
    w, mixed = np.array([0.8, 1.3]), np.array([[1.0, 1.0], [0.0, 0.003]])
    q, dq, ddq = (
        part @ mixed
        for part in (
            np.sin(np.outer(t, w)),
            np.cos(np.outer(t, w)) * w,
            -np.sin(np.outer(t, w)) * w**2,
        )
    )
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + noise * np.random.default_rng(0).normal(size=tau.shape)
    log = md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    estimate = md.identify(robot, log, friction="own", rotor_inertia=None, prior=False)
    assert estimate.condition > md.Limits().condition
    codes = {notice.code: notice.level for notice in estimate.notices}
    assert ("identify.uneven_excitation" in codes) is is_known
    assert codes.get("identify.poor_excitation", "") == ("" if is_known else "warning")
    rules = {rule.name: rule for rule in estimate.verdict().rules}
    assert rules["condition"].ok is is_known
    if is_known:  # and it is true
        motion = md.trajectory.fourier(robot, seed=3)(t)
        states = md.Recording(t, motion[0], None, *motion[1:], robot.joint_names)
        wanted = md.inverse_dynamics(robot, *motion)
        assert np.linalg.norm(estimate.predict(states) - wanted) < 0.03 * np.linalg.norm(wanted)


def test_weak_means_one_thing(tmp_path: Path) -> None:
    robot, log, _ = wrist_log(2, 0.0)
    noise = 0.1 * np.random.default_rng(0).normal(size=log.q.shape) * log.tau.std(axis=0)
    log = replace(log, tau=log.tau + noise)[:1000]
    found, estimate = md.check(robot, log), md.identify(robot, log)
    assert set(estimate.weak) == {*found.shown("weakly"), *found.shown("not")}
    assert 0 < len(estimate.weak) < int(np.sum(~(estimate.relative_std <= 0.3)))
    page = md.report(estimate, {}, tmp_path / "r.html", code=False).read_text(encoding="utf-8")
    assert f">Weak {len(estimate.weak)}<" in page
    assert page.count('class="chip weak"') == len(estimate.weak)
