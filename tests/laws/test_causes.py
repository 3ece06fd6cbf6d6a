"""Why a log is not that of the robot's file: the planted cause leads the list, and is red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_torque_scale import robot_and_log

import minidyn as md
from conftest import count
from minidyn.identification.diagnose.causes import likely_causes
from minidyn.identification.diagnose.robot_file import scale_notices
from minidyn.identification.diagnose.torque_scales import compared

ROBOTS = ("panda", "puma560", "ur10e")
Plant = Callable[[md.Recording], md.Recording]


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Plant:
    return lambda log: replace(log, **{name: change(getattr(log, name))})


def swapped(q: np.ndarray) -> np.ndarray:
    return q[:, [0, 2, 1, *range(3, q.shape[1])]]


def turned(q: np.ndarray) -> np.ndarray:
    return q * np.where(np.arange(q.shape[1]) == 1, -1.0, 1.0)


def moved(q: np.ndarray) -> np.ndarray:
    return q + np.where(np.arange(q.shape[1]) == 1, 0.5, 0.0)


def gains_of_each(tau: np.ndarray) -> np.ndarray:
    """Return currents of drives with gains and directions of their own."""
    joints = np.arange(tau.shape[1])
    return tau / np.where(joints % 3 == 1, 20.6, np.where(joints % 2, -8.7, 13.6))


PLANTED: dict[str, tuple[str, str, Plant]] = {
    "amperes": ("scale", "scale of the torque (0.0", changed("tau", lambda x: x / 12)),
    "amperes of each": ("scale", "scale of the torque", changed("tau", gains_of_each)),
    "inch pounds": ("scale", "scale of the torque (", changed("tau", lambda x: 8.851 * x)),
    "time doubled": ("time", "scale of the time (", changed("t", lambda x: 2.0 * x)),
    "time halved": ("time", "scale of the time (", changed("t", lambda x: 0.5 * x)),
    "offset": ("offset", "offset of the encoder of J1 (", changed("q", moved)),
    "swapped torques": ("swapped", "swapped torques of J1 and J2", changed("tau", swapped)),
    "swapped joints": ("swapped", "swapped joints J1 and J2", lambda x: replace(x, q=swapped(x.q), tau=swapped(x.tau))),  # noqa: E501
    "sign of one": ("sign", "sign of the torque of J1", changed("tau", turned)),
    "sign of all": ("sign", "sign of all torques", changed("tau", lambda x: -x)),
}  # fmt: skip


def found(file: md.Robot, log: md.Recording) -> list[md.Notice]:
    notices = scale_notices(file, md.prepare(file, log), file.parameters)
    return [notice for notice in notices if notice.level == "error"]


@pytest.mark.parametrize("planted", PLANTED)
def test_the_planted_cause_leads(planted: str) -> None:
    kind, words, plant = PLANTED[planted]
    for seed in range(1, 1 + count(1, 6)):
        for name in ROBOTS[: count(2, 3)]:
            file, healthy = robot_and_log(name, seed, 0.1)
            notices = found(file, plant(healthy))
            assert notices, (name, seed)
            codes = {notice.code for notice in notices}
            codes_of = {"scale": "signals.torque_scale"}
            assert codes == {codes_of.get(kind, "signals.other_cause")}
            shown = words.replace("J1", file.joint_names[1]).replace("J2", file.joint_names[2])
            assert str(notices[0].data["causes"]).startswith(shown), notices[0].data["causes"]
            assert shown in notices[0].advice


@pytest.mark.parametrize("way", [(0.0, 0.0, 9.81), (6.94, 0.0, -6.94)])
def test_gravity_of_another_direction_leads(way: tuple[float, float, float]) -> None:
    """The robot hangs from the ceiling, or on a wall, and its file does not say so."""
    for name in ROBOTS[: count(2, 3)]:
        file, _ = robot_and_log(name, 1, 0.05)
        truth = replace(file.with_drives(True, ("viscous", "coulomb")), gravity=np.array(way))
        truth = truth.with_parameters(np.nan_to_num(truth.parameters, nan=0.5))
        t = np.arange(3000) / 200
        motion = md.trajectory.fourier(truth, seed=1)(t)
        tau = md.inverse_dynamics(truth, *motion)
        notices = found(file, md.Recording(t, motion[0], tau, joint_names=file.joint_names))
        assert [notice.data.get("cause") for notice in notices] == ["gravity"]
        assert notices[0].data["causes"].startswith("direction of gravity")


def test_files_that_are_not_exact_have_no_other_cause() -> None:
    for seed in range(count(3, 40)):
        for name in (*ROBOTS, "two_link")[: count(4, 4)]:
            file, log = robot_and_log(name, seed, 0.15)
            data = compared(file, md.prepare(file, log), file.parameters)
            assert data is not None
            causes = likely_causes(file, data, file.parameters)
            assert not causes or causes[0].kind == "scale" or not causes[0].convinces


def of_another_robot(log: md.Recording) -> md.Recording:
    """Return the motion of a log with the torques that another arm needs for it."""
    other = md.load("panda").locked("panda_joint7")
    dq = np.gradient(log.q, log.t, axis=0)
    tau = md.inverse_dynamics(other, log.q, dq, np.gradient(dq, log.t, axis=0))
    noise = 0.02 * np.random.default_rng(0).normal(size=tau.shape)
    return replace(log, tau=tau + noise * np.abs(tau).max(axis=0))


PLANTED_RED = {name: PLANTED[name][2] for name in ("amperes", "time doubled", "offset")}
PLANTED_RED["torque of another robot"] = of_another_robot


@pytest.mark.parametrize("planted", PLANTED_RED)
def test_such_logs_are_red_before_and_after_the_fit(planted: str) -> None:
    file, healthy = robot_and_log("puma560", 1, 0.1)
    log = PLANTED_RED[planted](healthy)
    checked = md.check(file, log)
    assert checked.level == "bad"
    if planted == "torque of another robot":
        assert "signals.unlike_file" in {notice.code for notice in checked.notices}
    estimate = md.identify(file, log)
    verdict = estimate.verdict(md.validate(estimate, log[1500:]))
    assert (verdict.level, verdict.headline) == ("bad", "Not to be used yet")
    assert md.check(file, healthy).level != "bad"


@pytest.mark.parametrize(
    ("name", "code"), [("panda", "check.not_explained"), ("ur10e", "check.little_explained")]
)
def test_swapped_torques_are_named_where_no_mass_is_known(name: str, code: str) -> None:
    """Nothing contradicts them but the fit itself, which leaves much of the torques."""
    known, healthy = robot_and_log(name, 1, 0.1)
    file = known.with_parameters(np.full(len(known.parameters), np.nan))
    checked = md.check(file, PLANTED["swapped torques"][2](healthy))
    (notice,) = [one for one in checked.notices if one.code.endswith("_explained")]
    assert notice.code == code
    assert not checked.ok
    assert notice.data["joint"] in known.joint_names[1:3]
    codes = {one.code for one in md.check(file, healthy).notices}
    assert not codes & {"check.not_explained", "check.little_explained"}
