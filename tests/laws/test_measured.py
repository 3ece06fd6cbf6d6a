"""Which torques are measured, and which motion: base parameters, fits, checks and designs agree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from random_robots import random_tree

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, UnknownName, Unsupported
from minidyn.recording.measured import UNMEASURED


def rank_of_rows(robot: md.Robot, places: list[int], seed: int = 0) -> int:
    """Return the numeric rank of the regressor's rows of some joints at random states."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2, 2, size=(3, 40 * len(robot.joints), robot.n))
    Y = md.regressor(robot, q, dq, ddq)[:, places].reshape(-1, len(robot.layout))
    Y = Y[:, np.abs(Y).max(axis=0) > 1e-9]
    return int(np.linalg.matrix_rank(Y / np.linalg.norm(Y, axis=0), tol=1e-9))


def test_a_panda_with_one_torque() -> None:
    robot = md.load("panda")
    assert md.base_parameters(robot).rank == 43
    ranks = [md.base_parameters(robot, measured=[name]).rank for name in robot.joint_names]
    assert ranks[1] == 42
    assert ranks == [rank_of_rows(robot, [k]) for k in range(7)]
    base = md.base_parameters(robot, measured="*2")
    assert base.measured == (robot.joint_names[1],)
    assert "torques of" in base.lacks("torque")
    assert base.check.relations < 1e-12


@pytest.mark.parametrize("seed", range(count(4, 60)))
def test_all_methods_count_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints=5).with_drives(True, ("viscous", "coulomb"))
    some = sorted(rng.choice(robot.n, size=int(rng.integers(1, 3)), replace=False).tolist())
    measured = [robot.joint_names[k] for k in some]
    ranks = {
        method: md.base_parameters(robot, method, measured=measured).rank
        for method in ("exact", "qr", "svd", "rules+qr")
    }
    assert set(ranks.values()) == {ranks["qr"]}, ranks
    everything = md.base_parameters(robot, measured=robot.joint_names)
    assert everything.rank == md.base_parameters(robot).rank


def test_wrong_names_and_models() -> None:
    with pytest.raises(UnknownName, match="measured"):
        md.base_parameters("panda", measured="elbow")
    with pytest.raises(Unsupported, match="energy"):
        md.base_parameters("panda", model="energy", measured="*2")
    with pytest.raises(DescriptionError, match="none of the joints moves"):
        md.base_parameters("panda", measured="*2", joints=["panda_joint1"])
    with pytest.raises(DescriptionError, match="no joint is named"):
        md.base_parameters("panda", measured=[])
    with pytest.raises(DescriptionError, match=r"md\.prepare"):
        md.base_parameters("panda", motion=(1, 2))


def test_the_set_that_a_motion_shows() -> None:
    robot = md.load("puma560")
    t = np.linspace(0, 10, 400)
    q, dq, ddq = (np.array(part) for part in md.trajectory.fourier(robot, seed=1)(t))
    whole = md.base_parameters(robot, motion=(q, dq, ddq))
    assert whole.rank == md.base_parameters(robot).rank
    Y = md.regressor(robot, q, dq, ddq)[..., robot.layout.indices(whole.kept)]
    assert 1.0 < whole.condition < 1e3
    assert Y.shape[-1] == np.linalg.matrix_rank(Y.reshape(-1, whole.rank))
    q[:, 3:], dq[:, 3:], ddq[:, 3:] = 0.0, 0.0, 0.0  # the wrist stands still
    q[:, 0], dq[:, 0], ddq[:, 0] = 0.2, 0.0, 0.0
    still = md.base_parameters(robot, motion=(q, dq, ddq))
    rows = md.regressor(robot, q, dq, ddq).reshape(-1, len(robot.layout))
    sizes = np.linalg.norm(rows, axis=0)
    used = sizes > 1e-9 * sizes.max()
    assert still.rank == np.linalg.matrix_rank(rows[:, used] / sizes[used], tol=1e-9)
    assert still.rank < whole.rank
    assert still.check.relations < 1e-9
    assert "one motion" in still.lacks("torque")
    # torques along the motion follow from the set
    phi = np.random.default_rng(0).normal(size=len(robot.layout))
    beta = still.values(phi)
    tau = rows[:, robot.layout.indices(still.kept)] @ beta
    np.testing.assert_allclose(tau, rows @ phi, atol=1e-9 * np.abs(tau).max())
    recording = md.Recording(t, q, None, dq, ddq, robot.joint_names)
    assert md.base_parameters(robot, motion=recording, measured=robot.joint_names[:2]).rank <= (
        still.rank
    )


@pytest.fixture(scope="module")
def arm() -> md.Robot:
    robot = md.load("puma4").with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
    return robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))


def log(arm: md.Robot, seed: int) -> md.Recording:
    t = np.arange(2500) / 250
    q, dq, ddq = md.trajectory.fourier(arm, seed=seed)(t)
    noise = 0.3 * np.random.default_rng(seed).standard_normal(q.shape)
    tau = md.inverse_dynamics(arm, q, dq, ddq) + noise
    tau[:, 3] = 50.0 * np.sin(7 * t)  # a column that is no torque
    return md.Recording(t, q, tau, dq, joint_names=arm.joint_names)


def test_a_column_that_is_no_torque_is_left_out_by_name(arm: md.Robot) -> None:
    known = list(arm.joint_names[:3])
    options = {"friction": ("viscous", "coulomb"), "auto": False}
    found = md.identify(arm, log(arm, 0), measured=known, **options)
    assert found.settings.measured == tuple(known)
    assert np.isinf(found.sigma).tolist() == [False, False, False, True]
    test = md.validate(found, log(arm, 1))
    assert test.relative_error < 0.05
    assert np.isnan(test.per_joint[arm.joint_names[3]]["relative_error"])
    again = md.Settings.from_toml(found.settings.to_toml())
    assert again.measured == tuple(known)
    with pytest.raises(UnknownName, match="measured"):
        md.identify(arm, log(arm, 0), measured="wheel", **options)
    checked = md.check(arm, log(arm, 0), measured=known)
    assert checked.recording.info[UNMEASURED] == (arm.joint_names[3],)


def test_a_design_is_for_the_torques_that_are_measured(arm: md.Robot) -> None:
    only = arm.joint_names[1]
    options = {"friction": "own", "rotor_inertia": None, "time_limit": 2.0, "harmonics": 3}
    made = md.excite(arm, 5.0, measured=only, limits={"acceleration": 10.0}, **options)
    assert made.base.rank == md.base_parameters(arm, measured=only).rank
    assert np.isfinite(made.std).all()
    assert np.isfinite(made.sigma).tolist() == [False, True, False, False]
    json.dumps(made.to_json(), allow_nan=False)
    # the predicted covariance is that of the rows of this joint alone
    t = (np.arange(2000) + 0.5) * made.duration / 2000
    Y = md.regressor(made.robot, *made.trajectory(t))[
        :, 1, made.robot.layout.indices(made.base.kept)
    ]
    F = made.rate * made.duration / len(t) * Y.T @ Y / made.sigma[1] ** 2
    np.testing.assert_allclose(np.linalg.inv(F), made.covariance, rtol=1e-4)


def test_the_shell(arm: md.Robot, tmp_path: Path) -> None:
    log(arm, 0).save(tmp_path / "log.csv")
    md.save(arm, tmp_path / "arm.toml")

    def run(*words: str) -> dict:
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    files = str(tmp_path / "arm.toml"), str(tmp_path / "log.csv")
    found = run("base", files[0], "--measured", arm.joint_names[1])
    assert found["rank"] == md.base_parameters(arm, measured=arm.joint_names[1]).rank
    assert found["measured"] == [arm.joint_names[1]]
    found = run("base", files[0], "--motion", files[1])
    assert found["condition"] > 1.0
    three = [word for name in arm.joint_names[:3] for word in ("--measured", name)]
    found = run("identify", *files, *three, "--no-auto", "--output", str(tmp_path / "out"))
    assert found["settings"]["measured"] == list(arm.joint_names[:3])
