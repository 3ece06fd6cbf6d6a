"""Friction of its own for each log.

Links are shared, deviations and predictions hold how much friction varies.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import LONG, count
from minidyn.app.cli.main import main
from minidyn.errors import UnknownName
from minidyn.identification.friction.per_log import FrictionOfLogs, logs_of, temperature_of
from minidyn.identification.friction.shared import Joined, Split, pooled_spread
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
            values[column.index] = (
                SIZES[column.symbol] * rng.uniform(0.7, 1.3) * (1.0 if column.joint < 3 else 0.3)
            )
    return robot.with_parameters(values)


def log_of(
    truth: md.Robot, seed: int, drift: float, noise: float = 0.03, samples: int = 800
) -> md.Recording:
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


def relative(logs: list[md.Recording], exact: list[md.Recording]) -> float:
    """Return the noise of logs as `md.validate` states errors."""
    tau, true = (np.concatenate([np.asarray(log.tau) for log in some]) for some in (logs, exact))
    return float(np.linalg.norm(tau - true) / np.linalg.norm(tau))


@pytest.mark.parametrize("consistent", [True, False])
def test_links_are_shared_and_friction_is_that_of_each_log(consistent) -> None:
    """What depends on the drifts of a few logs (errors in deviations, shares of intervals) is a
    mean over seeds.
    """
    rigid_scores, friction_scores, inside = [], [], []
    for seed in range(count(2, 12)):
        truth = truth_of(np.random.default_rng(seed))
        logs = [log_of(truth, 100 * seed + k, 0.2) for k in range(5)]
        exact = [log_of(truth, 100 * seed + k, 0.2, noise=0.0) for k in range(5)]
        whole = concatenate(logs)
        options = {"friction": PLAIN, "consistent": consistent, "prior": False}
        one = md.identify(described(), whole, **options)
        each = md.identify(described(), whole, friction_per="log", **options)
        # the fit reaches the noise, which one friction does not
        noise = relative(logs, exact)
        assert md.validate(one, whole).relative_error > 1.1 * noise
        fitted = md.validate(each, whole)
        assert fitted.relative_error < 1.01 * noise
        assert notice(fitted, "validate.friction_of").data["mean"] == 0
        # one of the fitted logs has the friction of that log
        part = md.validate(each, logs[3])
        assert part.relative_error < 1.01 * relative(logs[3:4], exact[3:4])
        # errors of links are true ones, and smaller than with one friction
        rigid = np.array([not name.startswith("F") for name in each.names])
        off = [(estimate.beta - true_beta(estimate, truth)) / each.std for estimate in (one, each)]
        assert np.linalg.norm(off[1][rigid]) < np.linalg.norm(off[0][rigid])
        rigid_scores.append(off[1][rigid])
        friction_scores.append(off[1][~rigid])
        # a new log has the mean friction, and predictions hold that it is another
        new = [log_of(truth, 100 * seed + 50 + k, 0.2) for k in range(5)]
        assert notice(md.validate(each, new[0]), "validate.friction_of").data["mean"] == 1
        inside += [
            np.mean(np.abs(run.tau - each.predict(run)) < 1.96 * each.predict_std(run))
            for run in new
        ]
    low, high = (0.85, 1.2) if LONG else (0.6, 1.5)
    for scores in (rigid_scores, friction_scores):
        assert low < np.sqrt(np.mean(np.square(scores))) < high
    assert 0.93 < np.mean(inside) < 0.98


@pytest.mark.parametrize("together", [False, True], ids=["each by itself", "of a joint together"])
@pytest.mark.parametrize("logs", [2, 3, 5])
def test_few_logs_foretell_how_far_the_next_one_is_off(logs, together) -> None:
    """Friction of each joint drifts by 17 %, Coulomb and viscous friction together or not; no
    noise.
    """
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    base, rng, inside = md.base_parameters(robot), np.random.default_rng(logs), []
    columns = [column for column in map(robot.layout.column, base.kept) if column.is_friction]
    size = np.array([SIZES[column.symbol] for column in columns])
    names, kinds = tuple(column.name for column in columns), [column.symbol for column in columns]
    own, joints = (
        [base.kept.index(name) for name in names],
        np.array([column.joint for column in columns]),
    )
    speeds = np.array([-1.5, -0.7, -0.2, 0.2, 0.7, 1.5])
    Y = np.array([np.sign(speeds) if kind == "Fc" else speeds for kind in kinds]).T
    for _ in range(count(100, 1000)):
        drift = (
            rng.normal(size=(logs + 1, robot.n))[:, joints]
            if together
            else rng.normal(size=(logs + 1, len(names)))
        )
        *values, new = size * (1.0 + 0.17 * drift)
        spread = pooled_spread(
            np.array(values), np.full((logs, len(names)), 1e-12), np.zeros(logs), kinds, size
        )
        found = FrictionOfLogs(names, np.array(values), spread, ()).covariance(base)[
            np.ix_(own, own)
        ]
        found = found + np.diag(spread**2 / logs)  # as the covariance of the mean has it
        for joint in range(robot.n):
            part = joints == joint
            off = Y[:, part] @ (new - np.mean(values, axis=0))[part]
            inside.append(
                np.abs(off)
                < 1.96 * np.sqrt(np.diag(Y[:, part] @ found[np.ix_(part, part)] @ Y[:, part].T))
            )
    assert 0.92 < np.mean(inside) < 0.985


def test_without_drift_nothing_is_lost() -> None:
    truth = truth_of(np.random.default_rng(1))
    whole = concatenate([log_of(truth, k, 0.0) for k in range(4)])
    one, each = (
        md.identify(
            described(), whole, friction=PLAIN, prior=False, consistent=False, friction_per=per
        )
        for per in (None, "log")
    )
    assert np.abs((each.beta - one.beta) / one.std).max() < 1.0
    assert np.median(each.std / one.std) < 1.2
    assert max(notice(each, "friction.per_log").data["spread"]) < 0.05


@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_friction_that_differs_between_logs_is_told(drift) -> None:
    truth = truth_of(np.random.default_rng(3))
    logs = concatenate([log_of(truth, seed, drift, noise=0.01) for seed in (1, 2, 3)])
    told = {
        one.code for one in md.identify(described(), logs, friction=PLAIN, consistent=False).notices
    }
    assert ("friction.differs" in told) == bool(drift)
    each = md.identify(described(), logs, friction=PLAIN, friction_per="log", consistent=False)
    assert "friction.differs" not in {one.code for one in each.notices}


@pytest.mark.parametrize("line", [False, True])
def test_the_joint_problem_is_a_mixed_model(line) -> None:
    """Against generalised least squares with the marginal covariance 1 + F S² Fᵀ of each log's
    rows.
    """
    rng = np.random.default_rng(0)
    offsets = np.array([-3.0, 1.0, 0.0, 2.0]) if line else np.zeros(4)
    own, shared, spread = (1, 3), (0, 2, 4), np.array([0.3, 2.0])
    split = Split(("Fv1", "Fc1"), ("Fv", "Fc"), (0, 0), own, shared)
    forms = [(rng.normal(size=(7, 5)), rng.normal(size=7)) for _ in range(4)]
    joint = Joined(split, forms, spread, offsets)
    R, z, rest = joint.form
    size = 7 if line else 5  # base parameters, and the slopes of friction over the temperature
    normal, right, squares = np.zeros((size, size)), np.zeros(size), 0.0
    for (X, y), warmth in zip(forms, offsets):
        V = np.eye(7) + X[:, own] @ np.diag(spread**2) @ X[:, own].T
        X = np.column_stack([X, warmth * X[:, own]])[:, :size]
        normal += X.T @ np.linalg.solve(V, X)
        right += X.T @ np.linalg.solve(V, y)
        squares += y @ np.linalg.solve(V, y)
    best = np.linalg.solve(normal, right)
    beta, slope = best[:5], best[5:] if line else np.zeros(2)
    np.testing.assert_allclose(np.linalg.solve(R, z), beta, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(R.T @ R), np.linalg.inv(normal)[:5, :5], rtol=1e-8)
    np.testing.assert_allclose(rest, squares - best @ right, rtol=1e-8)
    covariances = [np.linalg.inv(X.T @ X) for X, _ in forms]  # as white noise gives them
    np.testing.assert_allclose(
        joint.covariance(covariances), np.linalg.inv(normal)[:5, :5], rtol=1e-8
    )
    np.testing.assert_allclose(joint.slope(beta), slope, rtol=1e-8, atol=1e-12)
    a, B = joint.friction()
    for (X, y), constant, change, warmth in zip(forms, a, B, offsets):
        V = np.eye(7) + X[:, own] @ np.diag(spread**2) @ X[:, own].T
        left = np.linalg.solve(V, y - X @ beta - warmth * X[:, own] @ slope)
        friction = beta[list(own)] + warmth * slope + np.diag(spread**2) @ X[:, own].T @ left
        np.testing.assert_allclose(constant + change @ beta, friction, rtol=1e-8)


def warm_log(truth: md.Robot, seed: int, warmth: float) -> md.Recording:
    """Return a log with friction that falls by 1.5 % a kelvin, and its temperature."""
    values = truth.parameters.copy()
    for column in truth.layout.columns:
        if column.symbol in ("Fv", "Fc"):
            values[column.index] *= 1.0 - 0.015 * (warmth - 30.0)
    log = log_of(truth.with_parameters(values), seed, 0.01)
    return replace(log, telemetry={"temperature": np.full((len(log), 1), warmth)})


def test_friction_follows_the_temperature(tmp_path: Path) -> None:
    truth = truth_of(np.random.default_rng(3))
    whole = concatenate([warm_log(truth, k, 15.0 + 6.0 * k) for k in range(6)])
    estimate = md.identify(described(), whole, friction=PLAIN, friction_per="log", prior=False)
    assert notice(estimate, "friction.per_log").data["temperature"] == pytest.approx(30.0)
    new = warm_log(truth, 20, 50.0)
    known, unknown = md.validate(estimate, new), md.validate(estimate, replace(new, telemetry={}))
    assert notice(known, "validate.friction_of").data["by_temperature"] == 1
    assert notice(unknown, "validate.friction_of").data["by_temperature"] == 0
    assert known.relative_error < 0.035 < 1.5 * known.relative_error < unknown.relative_error
    estimate.save(tmp_path / "estimate.json")
    again = md.load_estimate(tmp_path / "estimate.json").at_temperature(50.0)
    np.testing.assert_allclose(again.predict(new), known.predicted, rtol=1e-9, atol=1e-9)
    inside = np.abs(new.tau - again.predict(new)) < 1.96 * again.predict_std(new)
    assert 0.9 < np.mean(inside) < 0.99
    with pytest.raises(md.MinidynError, match="friction_per"):
        md.identify(described(), new, friction=PLAIN, consistent=False).at_temperature(20.0)


@pytest.mark.parametrize(
    "columns",
    [
        ["Temperature"],
        ["Temp [C]"],
        ["motor_temp_1", "motor_temp_2"],
        ["temperature_1 (°C)", "temp_limit"],
    ],
)
def test_columns_of_temperatures_are_read(columns: list[str], tmp_path: Path) -> None:
    log = log_of(truth_of(np.random.default_rng(0)), 1, 0.0, samples=50)
    names = [f"{signal}_{name}" for signal in ("q", "tau") for name in log.joint_names]
    values = [
        np.full(50, 90.0 if "limit" in column else 31.5 + place)
        for place, column in enumerate(columns)
    ]
    header = ",".join(["time", *names, *columns])
    table = np.column_stack([log.t, log.q, log.tau, *values])
    np.savetxt(
        tmp_path / "log.csv", table, delimiter=",", header=header, comments="", encoding="utf-8"
    )
    read = md.read_recording(tmp_path / "log.csv", described())
    drives = [value for value, column in zip(values, columns) if "limit" not in column]
    np.testing.assert_allclose(read.telemetry["temperature"], np.column_stack(drives))
    assert temperature_of(read) == pytest.approx(np.mean(drives))


def test_what_a_log_is() -> None:
    truth = truth_of(np.random.default_rng(0))
    log = log_of(truth, 1, 0.0, samples=200)
    later = [
        md.Recording(log.t + shift, log.q, log.tau, log.dq, log.ddq, log.joint_names)
        for shift in (9.0, 1000.0)
    ]
    assert [len(one) for one in logs_of(log)] == [200]
    assert [len(one) for one in logs_of(concatenate([log, later[0]]))] == [
        400
    ]  # a break of a second
    assert [len(one) for one in logs_of(concatenate([log, later[0], later[1]]))] == [400, 200]
    assert [len(one) for one in logs_of(concatenate([log, log]))] == [200, 200]  # time begins anew
    estimate = md.identify(
        described(), log_of(truth, 1, 0.0), friction=PLAIN, friction_per="log", consistent=False
    )
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
    arguments = [
        "two_link",
        *names,
        "--friction-per",
        "log",
        "--friction",
        ",".join(PLAIN),
        "--json",
    ]
    target = tmp_path / "out"
    result = CliRunner().invoke(main, ["identify", *arguments, "--output", str(target)])
    assert result.exit_code in (0, 1), result.output
    summary = json.loads(result.stdout)
    estimate = md.load_estimate(target / "estimate.json")
    assert len(estimate.record["friction_logs"]["values"]) == 3
    same = md.identify("two_link", names, friction=PLAIN, friction_per="log")
    np.testing.assert_allclose(same.beta, estimate.beta, rtol=1e-9)
    error = md.validate(estimate, names[1]).relative_error
    assert error == pytest.approx(md.validate(same, names[1]).relative_error, rel=1e-9)
    assert summary["verdict"]
