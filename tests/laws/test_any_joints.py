"""Identification of robots of one to eight joints, about and along any axis.

A motor bench (one joint with a vertical axis) shows nothing of its link but one inertia.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.model.assemble import LooseJoint, LooseLink, assemble, motion_along
from minidyn.model.geometry import Step
from robot_cases import random_body

AXES = ((0.0, 0.0, 1.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.6, 0.0, 0.8))
BENCH = """<robot name="bench"><link name="base"/><link name="disc"><inertial>
<origin xyz="{centre}"/><mass value="2"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.02"/></inertial></link>
<joint name="motor" type="continuous"><parent link="base"/><child link="disc"/>
<axis xyz="{axis}"/></joint></robot>"""


def chain(rng: np.random.Generator, n: int, axis: tuple[float, ...] | None) -> md.Robot:
    """Return a serial chain; None: axes of chance."""
    links, loose = [LooseLink("base", "test")], []
    for k in range(n):
        direction = np.array(AXES[int(rng.integers(len(AXES)))] if axis is None else axis)
        kind = str(rng.choice(["revolute", "continuous", "prismatic"]))
        turn, motion, sign, _ = motion_along(kind, direction, "test")
        shift = Step("tx", float(rng.normal())), Step("tz", float(rng.normal()))
        before = (*(shift if k else ()), *turn)
        place = (f"joint{k}", "test", kind, links[-1].name, f"link{k}", before, motion, sign)
        loose.append(LooseJoint(*place))
        links.append(LooseLink(f"link{k}", "test", random_body(rng)))
    robot = assemble("chain", links, loose).with_drives(True, ("viscous", "coulomb"))
    return robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.3))


def log_of(robot: md.Robot, seed: int, samples: int) -> md.Recording:
    """Return a raw log of all joints moving."""
    rng, t = np.random.default_rng(seed), np.arange(samples) / 100
    w, a = rng.uniform(1, 6, (3, robot.n)), rng.uniform(0.1, 0.6, (3, robot.n))
    angle = t[:, None, None] * w
    q = np.sum(a * np.sin(angle), axis=1)
    dq, ddq = np.sum(a * w * np.cos(angle), axis=1), -np.sum(a * w**2 * np.sin(angle), axis=1)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + 0.01 * np.maximum(np.abs(tau).max(axis=0), 0.1) * rng.normal(size=q.shape)
    return md.Recording(t, q, tau, joint_names=robot.joint_names)


@pytest.mark.parametrize("n", range(1, 9))
def test_robots_of_any_number_of_joints_are_identified(n: int) -> None:
    for seed in range(count(8 if n == 1 else 1, 60)):
        rng = np.random.default_rng([n, seed])
        vertical = AXES[0] if seed % 2 == 0 else None
        robot = chain(rng, n, vertical)
        log = log_of(robot, seed, 600)
        estimate = md.identify(
            robot,
            log,
            str(rng.choice(["wls", "ols", "irls", "parallel", "tls", "filtered", "momentum"])),
            friction=[(), ("viscous", "coulomb"), "own"][int(rng.integers(3))],
            prior=[None, False, robot][int(rng.integers(3))],
            rotor_inertia=[True, False, None][int(rng.integers(3))],
        )
        assert estimate.consistent
        assert not np.isnan(estimate.std).any()
        estimate.verdict(md.validate(estimate, log))


@pytest.mark.parametrize("axis", ["0 0 1", "0 0 -1", "1 0 0"])
@pytest.mark.parametrize("centre", ["0 0 0", "0.1 0 0"])
def test_a_motor_bench_is_identified(axis: str, centre: str, tmp_path: Path) -> None:
    """The commonest test of friction: one motor, a disc, sines; the file knows no friction."""
    (tmp_path / "bench.urdf").write_text(BENCH.format(axis=axis, centre=centre))
    file = md.load(tmp_path / "bench.urdf")
    true = file.with_drives(True, ("viscous", "coulomb"))
    true = true.with_parameters(np.nan_to_num(true.parameters, nan=0.2))
    log = log_of(true, 1, 2000)
    for friction, prior, rotor in (
        (("viscous", "coulomb"), None, True),
        (("viscous", "coulomb"), False, False),
        ("auto", None, True),
    ):
        estimate = md.identify(file, log, friction=friction, prior=prior, rotor_inertia=rotor)
        assert md.validate(estimate, log_of(true, 2, 2000)).relative_error < 0.05


def test_a_mass_that_no_torque_shows_is_not_judged(tmp_path: Path) -> None:
    """A vertical axis shows one inertia, here 2.5 times the file's: nothing is known of masses."""
    (tmp_path / "bench.urdf").write_text(BENCH.format(axis="0 0 1", centre="0.05 0 0.01"))
    file = md.load(tmp_path / "bench.urdf")
    true = file.with_drives(True, ("viscous", "coulomb"))
    true = true.with_parameters(
        [
            {"Ia1": 0.03}.get(name, value)
            for name, value in zip(true.parameter_names, np.nan_to_num(true.parameters, nan=0.3))
        ]
    )
    for rotor in (True, False):
        estimate = md.identify(file, log_of(true, 1, 4000), rotor_inertia=rotor)
        assert "signals.mass" not in {notice.code for notice in estimate.notices}
        assert estimate.verdict(md.validate(estimate, log_of(true, 2, 2000))).ok


def test_a_log_too_short_to_judge_a_prior_by_is_fitted() -> None:
    """No block of time is left to hold out: the prior's weight is what its errors suggest."""
    robot = chain(np.random.default_rng(60), 1, AXES[0])
    estimate = md.identify(
        robot, log_of(robot, 3, 300), "filtered", friction=("viscous", "coulomb"), prior=robot
    )
    assert estimate.consistent
    assert estimate.prior_curve is None or len(estimate.prior_curve)
