"""A robot with a free base is identified from the six rows of its base, and from joint torques."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from conftest import count
from free_base_cases import smooth_motion, walker
from minidyn.identification.estimate import load_estimate
from minidyn.model.robot import Robot

Array = NDArray[np.float64]
NOISE = 0.2  # N and N m


def noisy(log: md.Recording, seed: int, base_alone: bool) -> md.Recording:
    """Return the log with noise on torques, those of joints lost with `base_alone`."""
    assert log.tau is not None
    tau = log.tau + NOISE * np.random.default_rng(seed).normal(size=log.tau.shape)
    if base_alone:
        tau[:, 6:] = np.nan
    return md.Recording(log.t, log.q, tau, log.dq, log.ddq, log.joint_names)


def masses(robot: Robot) -> float:
    return float(sum(link.mass for link in robot.links))


@pytest.mark.parametrize("base_alone", [True, False])
def test_deviations_are_true_and_base_rows_show_all_links(base_alone: bool) -> None:
    """Of estimates that data alone make: 90 to 97 % of true values lie within 1.96 deviations."""
    inside, total = 0, 0
    for seed in range(count(3, 40)):
        robot = walker(seed, drives=False)
        log = noisy(smooth_motion(robot, seed), seed, base_alone)
        est = md.identify(robot, log, "wls", friction=(), rotor_inertia=False, consistent=False)
        base = est.base
        assert base.rank == md.base_parameters(robot).rank  # nothing is open
        true = base.values(robot.parameters)
        inside += int(np.sum(np.abs(est.beta - true) < 1.96 * est.std))
        total += base.rank
        assert est.sigma[:6] == pytest.approx(NOISE, rel=0.15)
        assert np.isinf(est.sigma[6:]).all() == base_alone
        assert base.values(est.parameters) == pytest.approx(est.beta, abs=1e-9 * np.abs(true).max())
    assert 0.9 < inside / total < 0.97


@pytest.mark.parametrize("base_alone", [True, False])
def test_a_consistent_model_predicts_another_motion(base_alone: bool, tmp_path: Path) -> None:
    robot = walker(12, drives=False)
    rough = robot.with_parameters(1.2 * robot.parameters)
    est = md.identify(
        rough, noisy(smooth_motion(robot, 1), 1, base_alone), friction=(), rotor_inertia=False
    )
    test = smooth_motion(robot, 2)
    assert test.tau is not None
    assert est.certificate.consistent
    assert masses(est.robot) == pytest.approx(masses(robot), rel=0.01)
    error = est.predict(test) - test.tau
    assert np.linalg.norm(error) < 0.01 * np.linalg.norm(test.tau)  # all rows, measured or not
    assert test.tau is not None
    measured = noisy(test, 5, base_alone)
    assert measured.tau is not None
    ratio = ((measured.tau - est.predict(test)) / est.predict_std(measured))[:, :6]
    assert np.std(ratio) == pytest.approx(1.0, abs=0.05)
    assert np.isinf(est.predict_std(measured)[:, 6:]).all() == base_alone
    est.save(tmp_path / "model.json")
    saved = load_estimate(tmp_path / "model.json")
    assert np.array_equal(saved.beta, est.beta)
    assert np.array_equal(saved.predict_std(measured), est.predict_std(measured))
    md.save(est.robot, tmp_path / "model.urdf")
    again = md.load(tmp_path / "model.urdf")
    assert again.parameters == pytest.approx(est.parameters, rel=1e-12, abs=1e-15)
    codes = [notice.code for notice in est.notices]
    assert ("identify.base_rows_alone" in codes) == base_alone
    for door in (lambda: md.validate(est, test), lambda: est.export(tmp_path / "out")):
        with pytest.raises(md.MinidynError, match="free base"):
            door()


def test_torques_of_joints_show_drives_as_well() -> None:
    robot = walker(8, drives=False)
    robot = robot.with_drives(rotor_inertia=True, friction=["viscous"])
    values = robot.parameters.copy()
    values[np.isnan(values)] = 0.3
    robot = robot.with_parameters(values)
    log = noisy(smooth_motion(robot, 3), 3, False)
    est = md.identify(robot, log, "wls", friction=["viscous"], prior=False)
    places = [column.index for columns in robot.layout.drives for column in columns]
    assert est.parameters[places] == pytest.approx(0.3, abs=0.05)
    plain = md.identify(robot, log, "wls")
    assert "identify.plain_terms" in [notice.code for notice in plain.notices]


def test_logs_that_cannot_be_used_say_why() -> None:
    robot = walker(4, drives=False)
    log = smooth_motion(robot, 1, 200)
    arrays = {"q": log.q, "tau": log.tau, "dq": log.dq, "ddq": log.ddq}

    def identify(names: tuple[str, ...] | None = None, **changes: Array | None) -> None:
        given = arrays | changes
        md.identify(
            robot,
            md.Recording(
                log.t, given["q"], given["tau"], given["dq"], given["ddq"], names or log.joint_names
            ),
            friction=(),
        )

    assert log.tau is not None
    lost, some, turned = log.tau.copy(), log.tau.copy(), log.q.copy()
    lost[:, 2], some[3, -1] = np.nan, np.nan
    turned[:, 3:7] *= 1.1
    with pytest.raises(md.MinidynError, match=r"give a Recording .* with q, dq and ddq"):
        identify(ddq=None)
    with pytest.raises(md.MinidynError, match="first six columns of tau must be numbers"):
        identify(tau=lost)
    with pytest.raises(md.MinidynError, match="some torques of joint"):
        identify(tau=some)
    with pytest.raises(md.MinidynError, match="all wrenches and torques are zero"):
        identify(tau=0 * log.tau)
    with pytest.raises(md.MinidynError, match="unit quaternion"):
        identify(q=turned)
    with pytest.raises(md.MinidynError, match=r"expected .* positions"):
        identify(
            (
                *(f"other.{name.partition('.')[2]}" for name in log.joint_names[:6]),
                *log.joint_names[6:],
            )
        )
    with pytest.raises(md.MinidynError, match="free base"):
        md.identify(robot, log, "parallel")
    with pytest.raises(md.MinidynError, match="not supported yet: cutoff"):
        md.identify(robot, log, friction=(), cutoff=10.0)
    with pytest.raises(md.MinidynError, match="not supported yet: known_torque"):
        md.identify(robot, log, known_torque=lambda q, dq: 0.0 * dq)
