"""md.identify: weights, robustness, weak recordings, refusals. test_identification_contract.py holds all methods."""

import numpy as np
import pytest

import minidyn as md
from minidyn.identification.estimate import load_estimate
from minidyn.identification.identify import identify
from minidyn.identification.problem import assemble
from minidyn.identification.validate import validate


def truth(name: str, seed: int = 0) -> md.Robot:
    robot = md.load(name).with_drives(friction=("viscous", "coulomb", "offset"))
    rng = np.random.default_rng(seed)
    return robot.with_parameters(
        np.where(np.isnan(robot.values), rng.uniform(0.2, 0.8, len(robot.values)), robot.values)
    )


def motion(robot: md.Robot, samples: int = 3000, seed: int = 0) -> md.Recording:
    t = np.linspace(0, 20, samples)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=3.0)(t)
    return md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, ddq, robot.joint_names)


def with_noise(recording: md.Recording, noise: np.ndarray) -> md.Recording:
    return md.Recording(
        recording.t, recording.q, recording.tau + noise, recording.dq, recording.ddq, recording.joint_names
    )


@pytest.mark.parametrize("name", ["scara", "ur10e"])
def test_exact_without_noise(name) -> None:
    robot = truth(name)
    estimate = identify(robot.with_parameters(None), motion(robot), consistent=False)
    np.testing.assert_allclose(estimate.beta, estimate.base.values(robot.values), rtol=1e-6, atol=1e-7)
    other = motion(robot, seed=9)
    np.testing.assert_allclose(estimate.predict(other), other.tau, atol=1e-5 * np.abs(other.tau).max())


def test_weights_help_and_outliers_are_resisted() -> None:
    robot = truth("puma4")
    clean = motion(robot)
    rng = np.random.default_rng(0)
    uneven = with_noise(clean, rng.normal(size=clean.q.shape) * [0.02, 5.0, 0.02, 0.02])
    errors = {}
    for method in ("ols", "wls"):  # links 3 and 4 are seen by quiet joints, too
        estimate = identify(robot, uneven, method, consistent=False)
        target = estimate.base.values(robot.values)
        far = [k for k, name in enumerate(estimate.names) if name[-1] in "34" and name[0] != "F"]
        errors[method] = np.linalg.norm((estimate.beta - target)[far])
    assert errors["wls"] < 0.2 * errors["ols"]
    hit = np.where(rng.random(clean.q.shape) < 0.02, 40.0, 0.0) + 0.1 * rng.normal(size=clean.q.shape)
    for method in ("wls", "irls"):
        errors[method] = np.linalg.norm(identify(robot, with_noise(clean, hit), method, consistent=False).beta - target)
    assert errors["irls"] < 0.5 * errors["wls"]


def test_reduction_is_the_whole_matrix() -> None:
    robot = truth("puma4")
    recording = with_noise(motion(robot, 2500), np.random.default_rng(0).normal(size=(2500, 4)))
    base = md.base_parameters(robot)
    problem = assemble(robot, base, recording)
    W = md.base_regressor(robot, base, recording.q, recording.dq, recording.ddq).reshape(-1, base.rank)
    direct, rest, _, _ = np.linalg.lstsq(W, recording.tau.ravel(), rcond=None)
    R, z, remainder = problem.weighted(np.ones(4))
    np.testing.assert_allclose(np.linalg.solve(R, z), direct, rtol=1e-8)
    assert remainder == pytest.approx(rest[0], rel=1e-9)
    residual = recording.tau - (W @ direct).reshape(-1, 4)
    np.testing.assert_allclose(problem.residual_squares(direct), np.sum(residual**2, axis=0), rtol=1e-9)
    pair = assemble(robot, base, recording, threads=2)
    np.testing.assert_allclose(pair.residual_squares(direct), problem.residual_squares(direct), rtol=1e-9)


def test_weak_motion_is_named() -> None:
    robot = truth("puma4")
    t = np.linspace(0, 10, 2000)
    still = np.zeros((2000, 4))
    with pytest.raises(md.MinidynError, match="does not excite"):
        identify(robot, md.Recording(t, still, still, still, still))
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    small = [part * [1, 1, 1, 1e-3] for part in (q, dq, ddq)]
    noise = np.random.default_rng(0).normal(size=(2000, 4))
    estimate = identify(
        robot, md.Recording(t, small[0], md.inverse_dynamics(robot, *small) + noise, *small[1:]), consistent=False
    )
    assert any("weakly determined" in notice for notice in estimate.notices)


def test_refusals(tmp_path) -> None:
    robot = truth("puma4")
    good = motion(robot, 500)
    bad = good.tau.copy()
    bad[77, 2] = np.nan
    cases = [
        (lambda: identify(robot, good, "wsl"), "did you mean 'wls'"),
        (lambda: identify(robot, good[:10]), "too few"),
        (lambda: identify(robot, md.Recording(good.t, good.q, None)), "measured torques"),
        (
            lambda: identify(robot, md.Recording(good.t, good.q, bad, good.dq, good.ddq, good.joint_names)),
            "joint3.*not a number at t",
        ),
        (
            lambda: identify(
                robot,
                md.Recording(good.t, good.q, good.tau, good.dq, good.ddq, ["joint1", "joint2", "joint3", "jiont4"]),
            ),
            "did you mean 'joint4'",
        ),
        (lambda: identify(md.load("panda"), good), "robot 'panda' has 7"),
        (lambda: load_estimate(tmp_path / "no.json"), "no such file"),
    ]
    for request, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            request()


def test_estimates_survive_files(tmp_path) -> None:
    robot = truth("puma4")
    recording = with_noise(motion(robot), 0.1 * np.random.default_rng(0).normal(size=(3000, 4)))
    estimate = identify(robot, recording, consistent=False)
    estimate.save(tmp_path / "estimate.json")
    back = load_estimate(tmp_path / "estimate.json")
    np.testing.assert_array_equal(back.beta, estimate.beta)
    np.testing.assert_array_equal(back.covariance, estimate.covariance)
    assert back.robot.joint_names == robot.joint_names
    np.testing.assert_allclose(back.predict(recording), estimate.predict(recording))
    assert "| ZZR1 |" in estimate.table()
    (tmp_path / "estimate.json").write_text((tmp_path / "estimate.json").read_text()[:500])
    with pytest.raises(md.MinidynError, match="not a whole estimate"):
        load_estimate(tmp_path / "estimate.json")


def test_consistent_models_are_possible_and_predict() -> None:
    robot = truth("ur10e")
    recording = with_noise(motion(robot, 2000), np.random.default_rng(0).normal(size=(2000, 6)))
    estimate = identify(robot.with_parameters(None), recording, prior=False)
    assert estimate.consistent
    for link in estimate.robot.links:
        assert link.realizability.realizable
        assert link.realizability.smallest_eigenvalue > 0
    other = motion(robot, 1000, seed=5)
    assert validate(estimate, other).relative_error < 0.05
    np.testing.assert_allclose(
        md.inverse_dynamics(estimate.robot, other.q, other.dq, other.ddq), estimate.predict(other)
    )


def test_friction_that_turns_round_slowly_is_found() -> None:
    """Coulomb friction over a width of speeds: the width is chosen from the data, and a hard sign fits worse."""
    robot = truth("puma4").with_drives(sign_width=0.15)
    recording = with_noise(motion(robot), 0.05 * np.random.default_rng(0).normal(size=(3000, 4)))
    hard = robot.with_drives(sign_width=0.0)
    chosen = identify(hard, recording, consistent=False)
    width = np.array(chosen.settings["sign_width"])
    assert np.all((width > 0.02) & (width < 0.6))
    other = motion(robot, seed=4)
    stiff = identify(hard, recording, consistent=False, sign_width=0.0)
    assert validate(chosen, other).rmse < 0.7 * validate(stiff, other).rmse
    kept = identify(robot, recording, consistent=False)
    assert "sign_width" not in kept.settings
    assert validate(kept, other).rmse < validate(chosen, other).rmse
