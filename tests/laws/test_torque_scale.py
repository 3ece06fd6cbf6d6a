"""Torques in another unit than the robot's file suggests are found, and those of a file that is not
exact are not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.identification.diagnose.robot_file import mass_notices, scale_notices
from minidyn.identification.diagnose.torque_scales import torque_scales

ROBOTS = ("puma560", "panda", "ur10e")


def robot_and_log(name: str, seed: int, spread: float = 0.15) -> tuple[md.Robot, md.Recording]:
    """Return a robot file and a log of the true robot, whose links, one factor each, are not quite
    the file's.
    """
    file = md.load(name)
    rng = np.random.default_rng(seed)
    true = file.with_drives(True, ("viscous", "coulomb", "offset"))
    values = np.nan_to_num(np.array(true.parameters))
    for part in true.layout.links:
        values[part] *= rng.normal(1.0, spread)
    for columns in true.layout.drives:
        for column in columns:
            values[column.index] = {"Ia": 0.5, "Fv": 2.0, "Fc": 2.0, "Fo": 0.1}[
                column.symbol
            ] * rng.uniform(0.2, 1.0)
    t = np.arange(3000) / 200.0
    q, dq, ddq = md.trajectory.fourier(true, seed=seed)(t)
    tau = md.inverse_dynamics(true, q, dq, ddq, values)
    tau = tau + 0.02 * np.abs(tau).max(axis=0) * rng.normal(size=tau.shape)
    return file, md.Recording(t, q, tau, joint_names=file.joint_names)


def wrong(notices) -> dict[str, md.Notice]:
    return {
        notice.data["joint"]: notice for notice in notices if notice.code == "signals.torque_scale"
    }


def alarms(estimate: md.Estimate) -> set[str]:
    return {
        notice.code
        for notice in estimate.notices
        if notice.code.startswith("signals.") and notice.level == "error"
    }


@pytest.mark.parametrize("name", ROBOTS[: count(2, 3)])
def test_a_file_that_is_not_exact_is_no_alarm(name: str) -> None:
    for seed in range(count(3, 10)):
        file, log = robot_and_log(name, seed)
        data = md.prepare(file, log)
        scales = torque_scales(file, data, file.parameters)
        assert not any(scale.wrong for scale in scales)
        assert sum(scale.known for scale in scales) >= 3
    estimate = md.identify(file, log)
    assert not alarms(estimate)


@pytest.mark.parametrize("name", ROBOTS[: count(2, 3)])
def test_another_unit_is_named(name: str) -> None:
    file, log = robot_and_log(name, 1)
    data = md.prepare(file, log)

    def found(factor) -> dict[str, md.Notice]:
        return wrong(
            scale_notices(file, replace(data, tau=np.asarray(factor) * data.tau), file.parameters)
        )

    known = {
        scale.joint for scale in torque_scales(file, data, file.parameters) if scale.prior < 0.2
    }
    assert len(known) >= 2
    milli = found(1e3)
    assert known <= set(milli)
    assert all("mNm" in notice.data["unit"] for notice in milli.values())
    assert milli[min(known)].data["factor"] == pytest.approx(1e3, rel=0.5)
    assert milli[min(known)].level == "error"
    amperes = found(1 / 12.0)
    assert known <= set(amperes)
    assert "amperes" in amperes[min(known)].data["unit"]
    assert found(0.5)
    assert found(2.0)
    (turned,) = scale_notices(file, replace(data, tau=-data.tau), file.parameters)
    assert (turned.code, turned.data["cause"]) == ("signals.other_cause", "sign")
    joint = file.joint_names.index(min(known))
    gear = np.ones(file.n)
    gear[joint] = 3.0
    assert set(found(gear)) == {min(known)}


def test_half_the_torque_gives_half_the_mass_and_an_alarm(tmp_path) -> None:
    file, log = robot_and_log("puma560", 2, spread=0.05)
    half = replace(log, tau=0.5 * log.tau)
    estimate = md.identify(file, half)
    assert alarms(estimate) == {"signals.torque_scale", "signals.mass"}
    (mass,) = [notice for notice in estimate.notices if notice.code == "signals.mass"]
    assert mass.data["gravity"] == pytest.approx(0.5, abs=0.1)
    assert mass.data["mass"] == pytest.approx(sum(link.mass for link in estimate.robot.links))
    half.save(tmp_path / "half.parquet")
    lazy = md.identify(file, md.read_recording(tmp_path / "half.parquet", file, lazy=True))
    assert alarms(lazy) == alarms(estimate)


def test_nothing_known_is_said() -> None:
    file, log = robot_and_log("puma560", 3)
    for robot, prior in ((file.with_parameters(None), None), (file, False)):
        estimate = md.identify(
            robot, replace(log, tau=1e3 * log.tau), prior=prior, consistent=False, friction=()
        )
        (notice,) = [notice for notice in estimate.notices if notice.code.startswith("signals.")]
        assert notice.code == "signals.nothing_to_compare"
        assert notice.level == "info"
        assert notice.data["joints"] == list(file.joint_names)
    assert mass_notices(file, log, None, file.parameters) == []
    # a file that knows some of its links: joints that move an unknown one cannot be compared
    half = np.array(file.parameters)
    half[file.layout.links[0]] = np.nan
    scales = torque_scales(file, md.prepare(file, log), half)
    assert [scale.known for scale in scales][:2] == [False, True]
