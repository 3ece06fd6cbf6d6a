"""The direction of gravity is found where the robot file's is wrong, and left where it is right."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import minidyn as md  # noqa: E402
import real_robots  # noqa: E402
from alarm_logs import Log, healthy, motion_log, true_robot  # noqa: E402
from conftest import count  # noqa: E402
from minidyn.identification.settings import Settings  # noqa: E402
from minidyn.identification.terms.gravity_direction import (  # noqa: E402
    Mounting,
    mounted_as_logged,
)

GRAVITY = "identify.gravity_direction"
MOUNTS = {
    "wall": (math.pi / 2, 0.0, 0.0),
    "other wall": (0.0, math.pi / 2, 0.0),
    "ceiling": (math.pi, 0.0, 0.0),
    "incline": (0.5, 0.3, 0.0),
}
SHOWN = ("puma4", "panda", "ur10e", "ur10", "two_arm")
"""Robots that show every direction of gravity."""
needs_data = pytest.mark.skipif(
    not real_robots.DATA.is_dir(), reason="the measurements in ../shared/data are not here"
)


def recording(log: Log) -> md.Recording:
    return md.Recording(log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names)


def mounting(robot: md.Robot, log: md.Recording, **options: object) -> Mounting:
    data = log if log.prepared else md.prepare(robot, log)
    return mounted_as_logged(robot, data, Settings(**options))  # type: ignore[arg-type]


def felt(robot: md.Robot) -> np.ndarray:
    """Return gravity in the base's frame."""
    return np.asarray(robot.base_placement[:3, :3].T @ robot.gravity)


def angle(one: np.ndarray, other: np.ndarray) -> float:
    """Return the angle between two vectors, degrees."""
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    return math.degrees(math.acos(np.clip(cosine, -1.0, 1.0)))


def simulated(name: str, seed: int, mount: tuple[float, float, float]) -> Log:
    """Return a log of a robot that is mounted in another way than its file says."""
    file, rng = md.load(name), np.random.default_rng(seed)
    true = true_robot(file, rng).mounted(mount)
    motion = md.trajectory.fourier(file, seed=seed, period=10.0, speed=2.0)
    return motion_log(file, true, seed, rng, motion, 10.0)


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("seed", range(count(2, 10)))
def test_direction_and_sign_are_found(name: str, mount: str, seed: int) -> None:
    log = simulated(name, 100 + seed, MOUNTS[mount])
    found = mounting(log.file, recording(log))
    assert angle(felt(found.robot), felt(log.true)) < 1.0
    (decision,), (notice,) = found.decisions, found.notices
    assert decision.is_taken
    assert decision.gain is not None
    assert notice.code == GRAVITY
    told = np.array([float(part) for part in notice.data["gravity"].split(",")])
    assert angle(felt(log.file.with_gravity(told)), felt(log.true)) < 1.0
    turned = [math.radians(float(part[:-3])) for part in notice.data["mount"].split(",")]
    assert angle(felt(log.file.mounted(turned)), felt(log.true)) < 1.0


@pytest.mark.parametrize("seed", range(30))
def test_healthy_logs_keep_the_direction_of_the_file(seed: int) -> None:
    log = healthy(seed)
    found = mounting(log.file, recording(log))
    assert found.robot is log.file or found.robot == log.file
    assert not found.notices
    assert not any(row.is_taken for row in found.decisions)


def real_logs() -> Iterator[tuple[md.Robot, md.Recording]]:
    for group in real_robots.groups():
        for log in (*group.logs.values(), *group.others.values()):
            yield group.robot, log
    robot, first, second = real_robots.ur10()
    yield from ((robot, log) for log in (first, first.part(0.0, 0.7), second))
    robot, log = real_robots.panda()
    yield robot, log
    robot, *logs = real_robots.tiago()
    yield from ((robot, log) for log in logs)
    robot, log, _ = real_robots.tx40()
    yield from ((robot, part) for part in (log, log[:25_000]))


@needs_data
def test_real_logs_keep_the_direction_of_the_file() -> None:
    for robot, log in real_logs():
        found = mounting(robot, log)
        assert not found.notices, f"{robot.name}, {len(log)} samples: {found.notices[0]}"


@needs_data
@pytest.mark.parametrize("mount", ["wall", "other wall", "ceiling"])
def test_real_robots_are_turned_back(mount: str) -> None:
    """The sign of the TIAGo's gravity is that of bodies: its arm alone does not show it."""
    ur10, first, second = real_robots.ur10()
    panda, log = real_robots.panda()
    tx40, other, _ = real_robots.tx40()
    cases = [(ur10, first), (ur10, second), (panda, log), (tx40, other)]
    tiago, *logs = real_robots.tiago()
    cases += [(tiago, one) for one in logs] if mount != "ceiling" else [(tiago, logs[1])]
    for robot, one in cases:
        found = mounting(robot.mounted(MOUNTS[mount]), one)
        assert angle(felt(found.robot), felt(robot)) < 1.0, robot.name


@needs_data
def test_a_turned_file_gives_the_same_model() -> None:
    robot, log, _ = real_robots.ur10()
    fitted, test = log.part(0.0, 0.7), log.part(0.7)
    turned = robot.mounted((0.0, math.pi / 2, 0.0))
    right, found = (md.identify(one, fitted) for one in (robot, turned))
    errors = [md.validate(one, test).relative_error for one in (right, found)]
    assert errors[1] == pytest.approx(errors[0], rel=0.02)
    assert angle(felt(found.robot), felt(robot)) < 1.0
    assert [one.code for one in found.notices if one.level != "info"] == [
        *[one.code for one in right.notices if one.level != "info"],
        GRAVITY,
    ]


@pytest.mark.parametrize("name", ["scara", "two_link"])
def test_gravity_that_cannot_be_seen_is_left(name: str) -> None:
    """A robot whose axes are vertical, its file upside down: no torque shows it."""
    log = healthy({"scara": 1, "two_link": 0}[name])
    file = log.file if name == "scara" else log.file.with_gravity((0.0, 0.0, -9.81))
    rng = np.random.default_rng(3)
    true = true_robot(file, rng)
    motion = md.trajectory.fourier(file, seed=3)
    made = recording(motion_log(file, true, 3, rng, motion, 10.0))
    for one in (file, file.mounted((math.pi, 0.0, 0.0))):
        assert not mounting(one, made).notices
    assert not mounting(file.with_gravity((0.0, 0.0, 0.0)), made).decisions


def test_it_can_be_forced_and_forbidden(tmp_path: Path) -> None:
    log = simulated("puma4", 7, MOUNTS["wall"])
    made = recording(log)
    assert not mounting(log.file, made, forbid_terms="gravity_direction").decisions
    assert not mounting(log.file, made, auto=False).decisions
    estimate = md.identify(log.file, made, auto=False, force_terms="gravity_direction")
    (row,) = (one for one in estimate.selection if one.candidate == "gravity_direction")
    assert row.is_taken
    assert (row.candidate, row.reason) == ("gravity_direction", "forced")
    assert GRAVITY in {notice.code for notice in estimate.notices}
    estimate.save(tmp_path / "estimate.json")
    again = md.load_estimate(tmp_path / "estimate.json")
    assert again.selection.rows == estimate.selection.rows
    assert angle(felt(again.robot), felt(log.true)) < 1.0
    assert md.validate(again, made).relative_error < 0.1
    right = mounting(log.file.mounted(MOUNTS["wall"]), made, force_terms="gravity_direction")
    assert not right.notices  # its direction is the file's


def test_parts_by_gravity_add_up_to_the_regressor() -> None:
    from minidyn.dynamics.functions import regressor, regressors_by_gravity

    rng = np.random.default_rng(0)
    for name in ("ur10", "stanford", "two_arm"):
        robot = md.load(name).with_drives(True, ("viscous", "coulomb", "offset"), sign_width=0.01)
        robot = robot.with_gravity((0.3, -4.0, 8.0)).mounted((0.2, 1.0, -0.4))
        q, dq, ddq = rng.normal(size=(3, 7, robot.n))
        Y, pulls, places = regressors_by_gravity(robot, q, dq, ddq)
        Y[..., places] += np.einsum("k,ksjc->sjc", felt(robot), pulls)
        np.testing.assert_allclose(Y, regressor(robot, q, dq, ddq), rtol=0, atol=1e-11)
