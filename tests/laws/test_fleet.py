"""A fleet: what robots share, against dense least squares; its test, against Student's; who is found, and when."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import minidyn as md
from minidyn.base.base_parameters import base_parameters
from minidyn.identification.fleet import deviations
from minidyn.identification.fleet.deviations import Cause, Comparison, Deviation, FleetFit, compared, trend
from minidyn.identification.fleet.members import Logs, Member, open_logs, reduced
from minidyn.identification.friction.shared import Joined, Split
from minidyn.model.parameters import from_body

TERMS = ("viscous", "coulomb", "offset")
SIZES = {"Ia": 0.3, "Fv": 2.0, "Fc": 1.5, "Fo": 0.5}
SAMPLES = 400


@cache
def type_of(name: str = "two_link") -> md.Robot:
    robot = md.load(name).with_drives(True, TERMS, sign_width=0.05)
    values = np.nan_to_num(robot.parameters)
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = SIZES[column.symbol]
    return robot.with_parameters(values)


@cache
def motion(seed: int) -> tuple[np.ndarray, ...]:
    t = np.linspace(0, 8, SAMPLES)
    signals = md.trajectory.fourier(type_of(), seed=seed, speed=1.5)(t)
    return t, *signals, md.regressor(type_of(), *signals)


def log_of(
    rng: np.random.Generator, seed: int, scale: float = 1.0, mass: float = 0.0, day: float = 0.0
) -> md.Recording:
    """Return a log: friction that differs by 4 %, at joint 2 by a factor, and perhaps a load at the end."""
    robot, (t, q, dq, ddq, Y) = type_of(), motion(seed)
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if column.symbol in ("Fv", "Fc"):
            values[column.index] *= (1 + 0.04 * rng.normal()) * (scale if column.joint == 1 else 1.0) * (1 + day)
    values[robot.layout.links[-1]] += from_body(mass, (0.8, 0.0, 0.0), 0.002 * mass * np.eye(3))
    tau = (1 + 0.01 * rng.normal(size=2)) * (Y @ values)
    tau += 0.02 * rng.normal(size=tau.shape) * np.sqrt(np.mean(tau**2, axis=0))
    return md.Recording(t, q, tau, dq, ddq, robot.joint_names)


@cache
def members() -> tuple[Member, ...]:
    rng, base = np.random.default_rng(1), base_parameters(type_of())
    return tuple(reduced(type_of(), base, Logs(f"r{k}", (("", log_of(rng, k % 3)),))) for k in range(4))


def rows_of(member: Member, number: int, base: md.BaseMap) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all samples in units of the noise, from the regressor itself: (N, n, b), (N, n)."""
    rng = np.random.default_rng(1)
    logs = [log_of(rng, k % 3) for k in range(4)]
    _, q, dq, ddq, _ = motion(number % 3)
    B = md.base_regressor(type_of(), q, dq, ddq, base=base)
    return B / member.scale[:, None], np.asarray(logs[number].tau) / member.scale


def dense(base: md.BaseMap, split: Split, beta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(gain columns, base columns, right side) of each member, sample by sample."""
    made, shared = [], np.zeros(base.rank)
    shared[list(split.shared)] = beta[list(split.shared)]
    for number, member in enumerate(members()):
        B, y = rows_of(member, number, base)
        G = np.zeros((*y.shape, 2))
        G[:, [0, 1], [0, 1]] = B @ shared
        made.append((G.reshape(-1, 2), B.reshape(-1, base.rank), y.ravel()))
    return made


def test_merged_triangles_are_one_large_least_squares_problem() -> None:
    base, split = base_parameters(type_of()), Split.of(base_parameters(type_of()))
    beta = base.matrix @ type_of().parameters * 1.02
    spread, gains = np.full(len(split.own), 0.1), np.array([0.01, 0.02])
    parts = [deviations._part(m, deviations._extended(m, split, beta), gains) for m in members()]
    R, z, _ = Joined(split, [(part.R, part.z) for part in parts], spread, np.zeros(4)).form
    m, b = len(split.own), base.rank
    rows, right = [], []
    for k, (G, X, y) in enumerate(dense(base, split, beta)):  # unknowns: beta, then friction and gains of each
        place, whole = b + k * (m + 2), np.zeros((len(y) + m + 2, b + 4 * (m + 2)))
        whole[: len(y), list(split.shared)] = X[:, split.shared]
        whole[: len(y), place : place + m] = X[:, split.own]
        whole[: len(y), place + m : place + m + 2] = G
        whole[len(y) : len(y) + m, place : place + m] = np.diag(1 / spread)
        whole[len(y) : len(y) + m, list(split.own)] = -np.diag(1 / spread)
        whole[len(y) + m :, place + m : place + m + 2] = np.diag(1 / gains)
        rows.append(whole)
        right.append(np.concatenate([y, np.zeros(m + 2)]))
    X, y = np.vstack(rows), np.concatenate(right)
    scale = np.linalg.norm(X, axis=0)
    best = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
    np.testing.assert_allclose(np.linalg.solve(R, z), best[:b], rtol=1e-9, atol=1e-10)
    information = np.linalg.inv(X.T @ X)[:b, :b]
    np.testing.assert_allclose(np.linalg.inv(R.T @ R), information, rtol=1e-7, atol=1e-12)


def test_a_cause_is_generalised_least_squares() -> None:
    """Against the marginal covariance 1 + Σ s² c cᵀ of all samples' rows, the tested columns apart."""
    base = base_parameters(type_of())
    split = Split.of(base)
    beta = base.matrix @ type_of().parameters * 1.02
    spread, gains = np.linspace(0.05, 0.2, len(split.own)), np.array([0.01, 0.02])
    forms = [(np.eye(base.rank), np.zeros(base.rank))]
    fit = FleetFit(base, split, beta, Joined(split, forms, spread, np.zeros(1)), spread, gains, ())
    made = Comparison(fit, members(), np.ones(4, dtype=bool))
    assert [cause.kind for cause in made.causes] == ["friction", "offset"] * 2 + ["gain"] * 2 + ["load"]
    G, X, y = dense(base, split, beta)[2]
    bodies = deviations._bodies(base, None) @ made.directions
    every = np.column_stack([X[:, split.own], G, X @ bodies])
    for place, cause in enumerate(made.causes):
        others = [k for k in range(len(spread) + 2) if k not in cause.places]
        V = np.eye(len(y)) + (every[:, others] * made.natural[others]) @ every[:, others].T
        C, known = every[:, cause.places], np.linalg.solve(V, y - X @ beta)
        spread_of = np.linalg.inv(C.T @ np.linalg.solve(V, C))
        row = cause.row[list(cause.places)]
        np.testing.assert_allclose(made.x[place, 2], row @ spread_of @ C.T @ known, rtol=1e-5)
        natural = float(cause.row**2 @ made.natural)
        np.testing.assert_allclose(made.V[place, 2] - natural, row @ spread_of @ row, rtol=1e-5)
    # a level of 20 % is 20 % more of all friction parameters
    own = [k for k, joint in enumerate(split.joints) if joint == 1]
    friction = np.where(np.isin(range(len(spread)), own), 0.2 * beta[list(split.own)], 0.0)
    np.testing.assert_allclose(made.levels @ friction, [0.0, 0.2], atol=1e-12)


def test_one_robot_against_the_others_is_students_test() -> None:
    rng, made = np.random.default_rng(3), Comparison.__new__(Comparison)
    made.causes = (Cause("gain", 0, (0,), np.ones(1)), Cause("load", -1, (1,), np.ones(1)))
    made.x, made.V, made.counts = rng.normal(size=(2, 7)), np.full((2, 7), 0.3), np.ones(7, dtype=bool)
    made._compare()
    for place in range(2):
        for number in range(7):
            others = np.delete(made.x[place], number)
            t = (made.x[place, number] - others.mean()) / (others.std(ddof=1) * np.sqrt(1 + 1 / 6))
            assert made.chances()[number, place] == pytest.approx(2 * stats.t.sf(abs(t), 5), rel=1e-9)


def fleet_of(count: int, seed: int, **options: object) -> md.Fleet:
    rng = np.random.default_rng(seed)
    logs = {f"arm{k}": log_of(rng, k % 3, 1.35 if k == 2 else 1.0, 1.0 if k == 5 else 0.0) for k in range(count)}
    return md.identify_fleet(type_of(), logs, friction=TERMS, sign_width=0.05, **options)  # type: ignore[arg-type]


def test_faults_are_found_and_named(tmp_path: Path) -> None:
    fleet = fleet_of(9, 0, consistent=False)
    found = {one.name: one.deviations for one in fleet.to_look_at}
    assert {"arm2", "arm5"} <= set(found)
    assert len(found) <= 4
    friction, load = found["arm2"][0], found["arm5"][0]
    assert (friction.kind, friction.joint) == ("friction", "joint2")
    assert friction.value == pytest.approx(0.35, abs=0.12)
    assert load.kind == "load"
    assert load.value == pytest.approx(1.0, abs=0.25)
    assert {notice.data["robot"] for notice in fleet.notices if notice.code == "fleet.differs"} == set(found)
    assert fleet.deviations[0] in (friction, load)
    assert "| arm5 |" in fleet.table()
    # links are those of all robots, deviations are true ones; the one with the load does not count
    truth = fleet.model.base.matrix @ type_of().parameters
    rigid = np.array([not name.startswith("F") for name in fleet.model.names])
    assert np.sqrt(np.mean(((fleet.model.beta - truth) / fleet.model.std)[rigid] ** 2)) < 2.0
    own = fleet.estimate("arm2").beta / fleet.model.beta
    assert own[fleet.model.names.index("Fc2")] > 1.15
    fleet.save(tmp_path / "fleet.json")
    assert "arm5" in (tmp_path / "fleet.json").read_text()


def test_whoever_reads_the_bits_are_the_same_and_robots_that_fail_are_named(tmp_path: Path) -> None:
    rng, logs = np.random.default_rng(2), dict[str, object]()
    for k in range(4):
        logs[f"arm{k}"] = tmp_path / f"arm{k}.parquet"
        log = log_of(rng, k % 3)
        md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names).save(tmp_path / f"arm{k}.parquet")
    (tmp_path / "arm1.parquet").write_bytes(b"PAR1 broken")
    options = {"friction": TERMS, "sign_width": 0.05, "consistent": False}
    with pytest.raises(md.MinidynError, match="arm1"):
        md.identify_fleet("two_link", logs, **options)
    alone = md.identify_fleet("two_link", logs, on_error="skip", **options)
    assert list(alone.left_out) == ["arm1"]
    assert list(alone.robots) == ["arm0", "arm2", "arm3"]
    with ThreadPoolExecutor(2) as pool:
        led = md.identify_fleet("two_link", logs, pool, on_error="skip", **options)
    np.testing.assert_array_equal(led.model.beta, alone.model.beta)
    np.testing.assert_array_equal(led.model.covariance, alone.model.covariance)
    assert [one.p for one in led.robots.values()] == [one.p for one in alone.robots.values()]
    made, _, chances = compared(base_parameters(type_of()), members()[:2], 0.05)
    assert np.isnan(chances).all()
    assert np.isnan([one.p for one in made.tests(0)]).all()


def test_friction_that_rises_from_day_to_day() -> None:
    rng = np.random.default_rng(4)
    rising = {f"2026-11-0{day}": log_of(np.random.default_rng(9), 0, day=0.05 * day) for day in range(1, 7)}
    logs = {"old": rising} | {f"arm{k}": log_of(rng, k % 3) for k in range(3)}
    fleet = md.identify_fleet(type_of(), logs, friction=TERMS, sign_width=0.05, consistent=False)
    old = fleet.robots["old"]
    assert old.dates == tuple(rising)
    assert old.friction.shape == (6, 2)
    np.testing.assert_allclose(old.slope, 0.05, atol=0.02)
    assert "fleet.changes" in [notice.code for notice in fleet.notices]
    assert np.isnan(fleet.robots["arm0"].slope).all()
    x = np.array([0, 1, 2, 3, 5.0])
    y = rng.normal(size=(5, 1))
    slope, std, p = trend([datetime.date(2026, 1, 1 + int(day)) for day in x], y)
    known = stats.linregress(x, y[:, 0])
    np.testing.assert_allclose([slope[0], std[0], p[0]], [known.slope, known.stderr, known.pvalue], rtol=1e-9)


def test_dates_of_logs(tmp_path: Path) -> None:
    log = replace(log_of(np.random.default_rng(0), 0), dq=None, ddq=None)
    places = {"date=2026-11-02/part-0.parquet": "2026-11-02", "run_20261103.parquet": "2026-11-03"}
    for name in places:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        log.save(tmp_path / name)
    found = open_logs("arm", [tmp_path / name for name in places], type_of())
    assert [date for date, _ in found.dated] == list(places.values())
    epoch = replace(log, t=log.t + 1793000000.0)
    epoch.save(tmp_path / "epoch.csv")
    assert open_logs("arm", tmp_path / "epoch.csv", type_of()).dated[0][0] == "2026-10-26"
    with pytest.raises(md.MinidynError, match="2026-11-32"):
        open_logs("arm", {"2026-11-32": log}, type_of())


def test_words() -> None:
    assert Deviation("a", "friction", "elbow", 0.213, 0.01, 1e-4).text == "friction of joint 'elbow' +21 %"
    assert Deviation("a", "load", "", 1.04, 0.01, 1e-4).text == "load at the flange 1 kg"
