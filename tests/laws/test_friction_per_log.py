"""Friction of its own for each log: links are shared, deviations and predictions hold how much friction varies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import UnknownName
from minidyn.identification.friction.per_log import _Joint, _Split, logs_of
from minidyn.model.drives import PLAIN
from minidyn.recording.lazy import concatenate

SIZES = {"Fc": 4.0, "Fv": 5.0, "Fo": 0.3, "Ia": 0.3}


def described() -> md.Robot:
    return md.load("ur5e").with_drives(True)


def truth_of(rng: np.random.Generator) -> md.Robot:
    robot = described().with_drives(True, PLAIN, sign_width=0.05)
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = SIZES[column.symbol] * rng.uniform(0.7, 1.3) * (1.0 if column.joint < 3 else 0.3)
    return robot.with_parameters(values)


def log_of(truth: md.Robot, seed: int, drift: float, noise: float = 0.03, samples: int = 800) -> md.Recording:
    """Return a log in which each friction parameter is off by a share of its own."""
    rng = np.random.default_rng((seed, 5))
    values = truth.parameters.copy()
    for column in truth.layout.columns:
        if column.is_friction:
            values[column.index] *= 1.0 + drift * rng.normal()
    t = np.linspace(0, 8, samples)
    q, dq, ddq = md.trajectory.fourier(truth, seed=seed, speed=1.5)(t)
    tau = md.inverse_dynamics(truth.with_parameters(values), q, dq, ddq)
    tau += noise * rng.normal(size=tau.shape) * np.sqrt(np.mean(tau**2, axis=0))
    return md.Recording(t, q, tau, dq, ddq, truth.joint_names)


def notice(found: object, code: str) -> md.Notice:
    (one,) = (each for each in found.notices if each.code == code)  # type: ignore[attr-defined]
    return one


def true_beta(estimate: md.Estimate, truth: md.Robot) -> np.ndarray:
    order = [truth.layout.index(name) for name in estimate.robot.parameter_names]
    return np.asarray(estimate.base.matrix @ truth.parameters[order])


@pytest.mark.parametrize("seed", range(count(1, 6)))
@pytest.mark.parametrize("consistent", [True, False])
def test_links_are_shared_and_friction_is_that_of_each_log(seed, consistent) -> None:
    truth = truth_of(np.random.default_rng(seed))
    logs = [log_of(truth, 100 * seed + k, 0.2) for k in range(5)]
    whole = concatenate(logs)
    options = {"friction": PLAIN, "consistent": consistent, "prior": False}
    one = md.identify(described(), whole, **options)
    each = md.identify(described(), whole, friction_per="log", **options)
    # the fit reaches the noise, which one friction does not
    assert md.validate(one, whole).relative_error > 0.033
    fitted = md.validate(each, whole)
    assert fitted.relative_error < 0.031
    assert notice(fitted, "validate.friction_of").data["mean"] == 0
    # a part of one fitted log has the friction of that log, also as a file
    part = md.validate(each, logs[3])
    assert part.relative_error < 0.031
    # errors of links are true ones, and smaller than with one friction
    rigid = np.array([not name.startswith("F") for name in each.names])
    off = [estimate.beta - true_beta(estimate, truth) for estimate in (one, each)]
    assert np.sqrt(np.mean((off[1] / each.std)[rigid] ** 2)) < 1.6
    assert np.linalg.norm((off[1] / each.std)[rigid]) < np.linalg.norm((off[0] / each.std)[rigid])
    assert np.sqrt(np.mean((off[1] / each.std)[~rigid] ** 2)) < 1.8
    # a new log has the mean friction, and predictions hold that it is another
    new = [log_of(truth, 100 * seed + 50 + k, 0.2) for k in range(5)]
    assert notice(md.validate(each, new[0]), "validate.friction_of").data["mean"] == 1
    inside = [
        np.mean([np.mean(np.abs(run.tau - model.predict(run)) < 1.96 * model.predict_std(run)) for run in new])
        for model in (one, each)
    ]
    assert inside[1] > max(0.9, inside[0])
    assert inside[1] < 0.985


def test_without_drift_nothing_is_lost() -> None:
    truth = truth_of(np.random.default_rng(1))
    whole = concatenate([log_of(truth, k, 0.0) for k in range(4)])
    one, each = (
        md.identify(described(), whole, friction=PLAIN, prior=False, consistent=False, friction_per=per)
        for per in (None, "log")
    )
    assert np.abs((each.beta - one.beta) / one.std).max() < 1.0
    assert np.median(each.std / one.std) < 1.2
    assert max(notice(each, "friction.per_log").data["spread"]) < 0.05


def test_the_joint_problem_is_a_mixed_model() -> None:
    """Against generalised least squares with the marginal covariance 1 + F S² Fᵀ of each log's rows."""
    rng = np.random.default_rng(0)
    own, shared, spread = (1, 3), (0, 2, 4), np.array([0.3, 2.0])
    split = _Split(("Fv1", "Fc1"), ("Fv", "Fc"), (0, 0), own, shared)
    forms = [(rng.normal(size=(7, 5)), rng.normal(size=7)) for _ in range(4)]
    joint = _Joint(split, forms, spread)
    R, z, rest = joint.form
    normal, right, squares = np.zeros((5, 5)), np.zeros(5), 0.0
    for X, y in forms:
        V = np.eye(7) + X[:, own] @ np.diag(spread**2) @ X[:, own].T
        normal += X.T @ np.linalg.solve(V, X)
        right += X.T @ np.linalg.solve(V, y)
        squares += y @ np.linalg.solve(V, y)
    beta = np.linalg.solve(normal, right)
    np.testing.assert_allclose(np.linalg.solve(R, z), beta, rtol=1e-9)
    np.testing.assert_allclose(R.T @ R, normal, rtol=1e-9)
    np.testing.assert_allclose(rest, squares - beta @ right, rtol=1e-8)
    covariances = [np.linalg.inv(X.T @ X) for X, _ in forms]  # as white noise gives them
    np.testing.assert_allclose(joint.covariance(covariances), np.linalg.inv(normal), rtol=1e-8)
    a, B = joint.friction()
    for (X, y), constant, slope in zip(forms, a, B):
        V = np.eye(7) + X[:, own] @ np.diag(spread**2) @ X[:, own].T
        best = beta[list(own)] + np.diag(spread**2) @ X[:, own].T @ np.linalg.solve(V, y - X @ beta)
        np.testing.assert_allclose(constant + slope @ beta, best, rtol=1e-8)


def test_what_a_log_is() -> None:
    truth = truth_of(np.random.default_rng(0))
    log = log_of(truth, 1, 0.0, samples=200)
    later = [md.Recording(log.t + shift, log.q, log.tau, log.dq, log.ddq, log.joint_names) for shift in (9.0, 1000.0)]
    assert [len(one) for one in logs_of(log)] == [200]
    assert [len(one) for one in logs_of(concatenate([log, later[0]]))] == [400]  # a break of a second
    assert [len(one) for one in logs_of(concatenate([log, later[0], later[1]]))] == [400, 200]
    assert [len(one) for one in logs_of(concatenate([log, log]))] == [200, 200]  # time begins anew
    estimate = md.identify(described(), log_of(truth, 1, 0.0), friction=PLAIN, friction_per="log", consistent=False)
    assert notice(estimate, "friction.one_log").data["logs"] == 1
    with pytest.raises(UnknownName, match="friction_per"):
        md.identify(described(), log, friction_per="hour")


def test_files_and_the_shell_keep_it(tmp_path: Path) -> None:
    robot = md.load("two_link").with_drives(True, PLAIN, sign_width=0.05)
    values = np.nan_to_num(robot.parameters.copy())
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = SIZES[column.symbol]
    truth = robot.with_parameters(values)
    names = []
    for k in range(3):
        log = log_of(truth, k, 0.3, samples=1600)
        names.append(str(tmp_path / f"log{k}.csv"))
        md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names).save(names[-1])
    arguments = ["two_link", *names, "--friction-per", "log", "--friction", ",".join(PLAIN), "--json"]
    target = tmp_path / "out"
    result = CliRunner().invoke(main, ["identify", *arguments, "--output", str(target)])
    assert result.exit_code in (0, 1), result.output
    summary = json.loads(result.stdout)
    estimate = md.load_estimate(target / "estimate.json")
    assert len(estimate.settings["friction_logs"]["values"]) == 3
    same = md.identify("two_link", names, friction=PLAIN, friction_per="log")
    np.testing.assert_allclose(same.beta, estimate.beta, rtol=1e-9)
    error = md.validate(estimate, names[1]).relative_error
    assert error == pytest.approx(md.validate(same, names[1]).relative_error, rel=1e-9)
    assert summary["verdict"]
