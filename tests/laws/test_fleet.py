"""A fleet: what robots share, against dense least squares; its test, against Student's.

Who is found, and when.
"""

from __future__ import annotations

import datetime
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import minidyn as md
from conftest import count
from minidyn.identification.fleet import deviations
from minidyn.identification.fleet.chances import Together, others, trend
from minidyn.identification.fleet.deviations import Comparison, Deviation, FleetFit, compared
from minidyn.identification.fleet.logs import Logs, open_logs
from minidyn.identification.fleet.members import Member, reduced
from minidyn.identification.friction.shared import Joined, Split

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fleet import TERMS, base_of, log_of, type_of

TWO = "two joints"


@cache
def logs() -> tuple[md.Recording, ...]:
    rng = np.random.default_rng(1)
    return tuple(log_of(TWO, rng, motions=2) for _ in range(4))


@cache
def members() -> tuple[Member, ...]:
    return tuple(
        reduced(type_of(TWO), base_of(TWO), Logs(f"r{k}", (("", log),)))
        for k, log in enumerate(few())
    )


def few() -> list[md.Recording]:
    """Logs of so few samples that matrices of all of them are small."""
    return [log.thinned(4) for log in logs()]


def rows_of(member: Member, log: md.Recording, base: md.BaseMap) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all samples in units of the noise, from the regressor itself: (N, n, b), (N, n)."""
    B = md.base_regressor(type_of(TWO), log.q, log.dq, log.ddq, base=base)
    return B / member.scale[:, None], np.asarray(log.tau) / member.scale


def dense(
    base: md.BaseMap, split: Split, beta: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(gain columns, base columns, right side) of each member, sample by sample."""
    made, shared = [], np.zeros(base.rank)
    shared[list(split.shared)] = beta[list(split.shared)]
    for member, log in zip(members(), few()):
        B, y = rows_of(member, log, base)
        G = np.zeros((*y.shape, 2))
        G[:, [0, 1], [0, 1]] = B @ shared
        made.append((G.reshape(-1, 2), B.reshape(-1, base.rank), y.ravel()))
    return made


def test_merged_triangles_are_one_large_least_squares_problem() -> None:
    base, split = base_of(TWO), Split.of(base_of(TWO))
    beta = base.matrix @ type_of(TWO).parameters * 1.02
    spread, gains = np.full(len(split.own), 0.1), np.array([0.01, 0.02])
    parts = [deviations._part(m, deviations._extended(m, split, beta), gains) for m in members()]
    R, z, _ = Joined(split, [(part.R, part.z) for part in parts], spread, np.zeros(4)).form
    m, b = len(split.own), base.rank
    rows, right = [], []
    for k, (G, X, y) in enumerate(
        dense(base, split, beta)
    ):  # unknowns: beta, then friction and gains of each
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
    """Against the marginal covariance 1 + Σ s² c cᵀ of all samples' rows, the tested columns
    apart.
    """
    base = base_of(TWO)
    split = Split.of(base)
    beta = base.matrix @ type_of(TWO).parameters * 1.02
    spread, gains = np.linspace(0.05, 0.2, len(split.own)), np.array([0.01, 0.02])
    forms = [(np.eye(base.rank), np.zeros(base.rank))]
    fit = FleetFit(base, split, beta, Joined(split, forms, spread, np.zeros(1)), spread, gains, ())
    made = Comparison(fit, members(), np.ones(4, dtype=bool))
    assert [cause.kind for cause in made.causes] == ["friction", "offset"] * 2 + ["gain"] * 2 + [
        "load"
    ]
    G, X, y = dense(base, split, beta)[2]
    bodies = deviations._bodies(base, None) @ made.directions
    every, weights = np.column_stack([X[:, split.own], G, X @ bodies]), []
    for place, cause in enumerate(made.causes):
        others = [k for k in range(len(spread) + 2) if k not in cause.places]
        V = np.eye(len(y)) + (every[:, others] * made.natural[others]) @ every[:, others].T
        C, known = every[:, cause.places], np.linalg.solve(V, y - X @ beta)
        spread_of = np.linalg.inv(C.T @ np.linalg.solve(V, C))
        row = cause.row[list(cause.places)]
        weights.append(row @ spread_of @ np.linalg.solve(V, C).T)
        np.testing.assert_allclose(made.x[place, 2], row @ spread_of @ C.T @ known, rtol=1e-5)
        natural = float(cause.row**2 @ made.natural)
        np.testing.assert_allclose(made.V[place, 2] - natural, row @ spread_of @ row, rtol=1e-5)
    # values of one member are as correlated as their weights of the samples say
    whole = np.eye(len(y)) + (every * made.natural) @ every.T
    sizes = np.array(weights) @ whole @ np.array(weights).T
    made.counts = np.arange(4) == 2
    known = sizes / np.sqrt(np.outer(np.diag(sizes), np.diag(sizes)))
    np.testing.assert_allclose(made._correlation(), known, atol=1e-5)
    # a level of 20 % is 20 % more of all friction parameters
    own = [k for k, joint in enumerate(split.joints) if joint == 1]
    friction = np.where(np.isin(range(len(spread)), own), 0.2 * beta[list(split.own)], 0.0)
    np.testing.assert_allclose(made.levels @ friction, [0.0, 0.2], atol=1e-12)


def test_one_robot_against_the_others_is_students_test() -> None:
    rng, counts = np.random.default_rng(3), np.ones(7, dtype=bool)
    x, V = rng.normal(size=(2, 7)), np.full((2, 7), 0.3)

    def chances(
        kinds: tuple[str, ...], V: np.ndarray, scale: tuple[float, float] = (1.0, 1.0)
    ) -> np.ndarray:
        return others(x, V, counts, kinds, np.array(scale)).chance(slice(None), slice(None), x, V)

    for place in range(2):
        for number in range(7):
            rest = np.delete(x[place], number)
            t = (x[place, number] - rest.mean()) / (rest.std(ddof=1) * np.sqrt(1 + 1 / 6))
            found = chances(("gain", "load"), V)[place, number]
            assert found == pytest.approx(2 * stats.t.sf(abs(t), 5), rel=1e-9)
    # joints of one kind are joined by their scatter: what variances a fit gives them all does not
    # count
    alike = ("gain", "gain")
    first = chances(alike, V)
    assert not np.allclose(first, chances(("gain", "load"), V))
    np.testing.assert_allclose(chances(alike, V * np.array([[9.0], [0.2]])), first, rtol=1e-9)
    x[1] *= 5.0
    np.testing.assert_allclose(chances(alike, V, (1.0, 5.0)), first, rtol=1e-9)


def test_chances_of_one_robot_together() -> None:
    """Of independent tests Šidák's, of the same test twice its own, between them what simulated
    fleets show.
    """
    some = np.array([1e-6, 0.004, 0.02, 0.3])
    for free in (2, 40):
        apart = Together(np.eye(3), ("friction", "gain", "load"), free)
        np.testing.assert_allclose(apart.chance(some), -np.expm1(3 * np.log1p(-some)), rtol=0.12)
        assert apart.chance(np.array([apart.each(0.05)]))[0] == pytest.approx(0.05, rel=0.01)
        same = Together(np.ones((2, 2)), ("friction", "gain"), free)
        np.testing.assert_allclose(same.chance(some), some, rtol=0.2)
    rng, kinds, size = np.random.default_rng(5), ("friction", "friction", "gain", "gain", "load"), 5
    root = np.linalg.cholesky(0.6 * np.eye(5) + 0.4)
    together, alarms = Together(root @ root.T, kinds, size - 2), []
    for _ in range(count(800, 8000)):
        x, V = root @ rng.normal(size=(5, size)), np.ones((5, size))
        found = others(x, V, np.ones(size, dtype=bool), kinds, np.ones(5))
        alarms.append(
            together.chance(found.chance(slice(None), slice(None), x, V).min(axis=0)) < 0.05
        )
    assert np.mean(alarms) == pytest.approx(0.05, abs=0.01)


def fleet_of(count: int, seed: int, **options: object) -> md.Fleet:
    rng, faults = np.random.default_rng(seed), {2: ("friction", 1, 0.4), 5: ("load", -1, 1.0)}
    logs = {f"arm{k}": log_of(TWO, rng, faults.get(k), motions=2) for k in range(count)}
    return md.identify_fleet(type_of(TWO), logs, friction=TERMS, sign_width=0.05, **options)  # type: ignore[arg-type]


def test_faults_are_found_named_and_kept(tmp_path: Path) -> None:
    fleet = fleet_of(9, 0, consistent=False)
    found = {one.name: one.deviations for one in fleet.to_look_at}
    assert {"arm2", "arm5"} <= set(found)
    assert len(found) <= 4
    friction, load = found["arm2"][0], found["arm5"][0]
    assert (friction.kind, friction.joint) == ("friction", "joint2")
    assert friction.value == pytest.approx(0.4, abs=0.12)
    assert len(found["arm2"]) == 1  # nothing else, beside it
    assert load.kind == "load"
    assert load.value == pytest.approx(1.0, abs=0.25)
    assert {
        notice.data["robot"] for notice in fleet.notices if notice.code == "fleet.differs"
    } == set(found)
    assert fleet.deviations[0] in (friction, load)
    assert "| arm5 |" in fleet.table()
    # links are those of all robots, deviations are true ones; the one with the load does not count
    truth = fleet.model.base.matrix @ type_of(TWO).parameters
    rigid = np.array([not name.startswith("F") for name in fleet.model.names])
    assert np.sqrt(np.mean(((fleet.model.beta - truth) / fleet.model.std)[rigid] ** 2)) < 2.0
    own = fleet.estimate("arm2").beta / fleet.model.beta
    assert own[fleet.model.names.index("Fc2")] > 1.15
    assert [
        len([one for one in fleet.estimate(name).notices if one.code == "fleet.carries"])
        for name in found
    ] == [int(parts[0].kind == "load") for parts in found.values()]
    # saved and read again, every number is the same
    again = md.load_fleet(fleet.save(tmp_path / "out"))
    assert again.to_json() == fleet.to_json()
    np.testing.assert_equal(vars(again.robots["arm5"]), vars(fleet.robots["arm5"]))
    np.testing.assert_array_equal(again.estimate("arm2").beta, fleet.estimate("arm2").beta)
    assert again.table() == fleet.table()
    content = (tmp_path / "out" / "fleet.json").read_text()
    for broken in (
        content.replace('"slope"', '"slopes"'),
        content[:400],
        "[]",
        content.replace('"arm5"', "5", 1)[:-9],
    ):
        (tmp_path / "out" / "fleet.json").write_text(broken)
        with pytest.raises(md.MinidynError, match=r"fleet\.json"):
            md.load_fleet(tmp_path / "out")


def test_a_load_is_not_taken_for_friction_of_all() -> None:
    """One of the robots that are asked for friction carries 1 kg.

    A width of all was 0.38 rad/s, not 0.05.
    """
    rng, kind = np.random.default_rng(3), type_of(TWO).with_drives(sign_width=0.0)
    robots = {f"arm{k}": log_of(TWO, rng, motions=2) for k in range(5)}
    loaded = robots | {"arm9": log_of(TWO, rng, ("load", -1, 1.0), motions=2)}
    found = [
        md.identify_fleet(kind, given, consistent=False).model.robot for given in (robots, loaded)
    ]
    widths, other = ([joint.drive.sign_width for joint in robot.joints] for robot in found)
    assert widths == other
    np.testing.assert_allclose(widths, 0.05, atol=0.02)


def test_one_robot_is_no_fleet() -> None:
    with pytest.raises(md.MinidynError, match="two at least"):
        md.identify_fleet(type_of(TWO), {"arm0": logs()[0]})


def test_a_check_that_failed_stops_a_fleet_unless_forced() -> None:
    """The error names `force`, which a fleet takes as `md.identify` does."""
    far = {f"r{k}": md.Recording(log.t, 60 * log.q, log.tau) for k, log in enumerate(few())}
    options = {"friction": ("viscous", "coulomb"), "consistent": False}
    with pytest.raises(md.MinidynError, match=r"robot 'r0': .*meaningless.*force=True"):
        md.identify_fleet(type_of(TWO), far, **options)
    fleet = md.identify_fleet(type_of(TWO), far, force=True, **options)
    assert len(fleet.robots) == 4
    assert any(notice.code == "check.beyond_limits" for notice in fleet.notices)


def test_times_of_raw_logs_are_taken_as_asked() -> None:
    log = logs()[0]
    jitter = 0.1 * np.median(np.diff(log.t)) * np.random.default_rng(0).uniform(-1, 1, len(log))
    raw = Logs(
        "r0", (("", md.Recording(log.t + jitter, log.q, log.tau, joint_names=log.joint_names)),)
    )
    for times, told in (("stamps", True), ("even", False)):
        found = reduced(type_of(TWO), base_of(TWO), raw, "stop", {"time": times})
        assert ("prepare.resampled" in [notice.code for notice in found.notices]) == told
    with pytest.raises(md.MinidynError, match="evn"):
        md.identify_fleet(type_of(TWO), {"a": log, "b": log}, times="evn")


OPTIONS = {"friction": TERMS, "sign_width": 0.05, "consistent": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    for k, log in enumerate(logs()):
        md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names).save(
            folder / f"arm{k}.parquet"
        )
    return {f"arm{k}": folder / f"arm{k}.parquet" for k in range(4)}


def assert_equal(one: md.Fleet, two: md.Fleet) -> None:
    np.testing.assert_array_equal(one.model.beta, two.model.beta)
    np.testing.assert_array_equal(one.model.covariance, two.model.covariance)
    assert one.to_json() == two.to_json()


def test_robots_that_fail_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes(files["arm1"].read_bytes()[:3000])
    logs = files | {"arm1": tmp_path / "cut.parquet"}
    with pytest.raises(md.MinidynError, match="arm1"):
        md.identify_fleet("two_link", logs, **OPTIONS)
    alone = md.identify_fleet("two_link", logs, on_error="skip", **OPTIONS)
    assert list(alone.left_out) == ["arm1"]
    assert list(alone.robots) == ["arm0", "arm2", "arm3"]
    with ThreadPoolExecutor(2) as pool:
        assert_equal(alone, md.identify_fleet("two_link", logs, pool, on_error="skip", **OPTIONS))
        with pytest.raises(md.MinidynError, match="arm1"):
            md.identify_fleet("two_link", logs, pool, **OPTIONS)
    made, _, chances = compared(base_of(TWO), members()[:2], 0.05)
    assert np.isnan(chances).all()
    assert np.isnan([one.p for one in made.tests(0)]).all()


def test_of_a_robot_only_the_file_is_left_out(files: dict[str, Path], tmp_path: Path) -> None:
    """Cut off, gone, broken in the middle; with workers the same bits.

    Where it stops, nothing is taken from keep.
    """
    cut, broken = tmp_path / "cut.parquet", tmp_path / "broken.parquet"
    cut.write_bytes(files["arm1"].read_bytes()[:3000])
    whole = files["arm1"].read_bytes()
    broken.write_bytes(
        whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :]
    )  # its end can be read
    logs = files | {
        "arm1": [files["arm1"], cut, tmp_path / "gone.csv"],
        "arm2": [broken, files["arm2"]],
    }
    keep = {"keep": tmp_path / "keep"}
    found = md.identify_fleet("two_link", logs, on_error="skip", **OPTIONS, **keep)
    assert not found.left_out
    lost = {notice.data["files"] for notice in found.notices if notice.code == "recording.left_out"}
    assert lost == {str(cut), str(tmp_path / "gone.csv"), str(broken)}
    good = md.identify_fleet("two_link", files, **OPTIONS)
    np.testing.assert_array_equal(found.model.beta, good.model.beta)
    assert found.robots["arm2"].dates == good.robots["arm2"].dates
    with ThreadPoolExecutor(2) as pool:
        assert_equal(found, md.identify_fleet("two_link", logs, pool, on_error="skip", **OPTIONS))
    with pytest.raises(md.MinidynError, match=r"robot 'arm1'.*cut\.parquet"):
        md.identify_fleet("two_link", logs, **OPTIONS, **keep)


def test_a_fleet_that_was_killed_goes_on(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, read, deadly = reduced, [], 2

    def counted(
        robot: md.Robot, base: md.BaseMap, logs: Logs, on_error: str, *more: None
    ) -> Member:
        if len(read) == deadly:
            raise KeyboardInterrupt
        read.append(logs.name)
        return made(robot, base, logs, on_error)

    monkeypatch.setattr("minidyn.identification.fleet.members.reduced", counted)
    with pytest.raises(KeyboardInterrupt):
        md.identify_fleet("two_link", files, keep=tmp_path, **OPTIONS)
    deadly = -1
    whole = md.identify_fleet("two_link", files, keep=tmp_path, **OPTIONS)
    assert read == ["arm0", "arm1", "arm2", "arm3"]
    read.clear()
    first, second = sorted(tmp_path.glob("*.npz"))[:2]
    first.write_bytes(second.read_bytes()[:1000])  # broken, or cut off
    os.utime(files["arm3"], ns=(1, 1))
    again = md.identify_fleet("two_link", files, keep=tmp_path, **OPTIONS)
    assert 1 <= len(read) <= 2
    assert "arm3" in read
    assert_equal(replaced(whole), replaced(again))


def replaced(fleet: md.Fleet) -> md.Fleet:
    """The fleet without dates: those of files change with them."""
    return replace(
        fleet, robots={name: replace(one, dates=("",)) for name, one in fleet.robots.items()}
    )


def test_friction_that_rises_from_day_to_day() -> None:
    rng = np.random.default_rng(4)
    rising = {
        f"2026-11-0{day}": log_of(TWO, np.random.default_rng(9), motions=2, friction=1 + 0.05 * day)
        for day in range(1, 7)
    }
    logs = {"old": rising} | {f"arm{k}": log_of(TWO, rng, motions=2) for k in range(3)}
    fleet = md.identify_fleet(type_of(TWO), logs, friction=TERMS, sign_width=0.05, consistent=False)
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
    np.testing.assert_allclose(
        [slope[0], std[0], p[0]], [known.slope, known.stderr, known.pvalue], rtol=1e-9
    )


def test_dates_of_logs(tmp_path: Path) -> None:
    log = replace(logs()[0], dq=None, ddq=None)
    places = {"date=2026-11-02/part-0.parquet": "2026-11-02", "run_20261103.parquet": "2026-11-03"}
    for name in places:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        log.save(tmp_path / name)
    found = open_logs("arm", [tmp_path / name for name in places], type_of(TWO))
    assert [date for date, _ in found.dated] == list(places.values())
    epoch = replace(log, t=log.t + 1793000000.0)
    epoch.save(tmp_path / "epoch.csv")
    assert open_logs("arm", tmp_path / "epoch.csv", type_of(TWO)).dated[0][0] == "2026-10-26"
    with pytest.raises(md.MinidynError, match="2026-11-32"):
        open_logs("arm", {"2026-11-32": log}, type_of(TWO))


def test_words() -> None:
    assert (
        Deviation("a", "friction", "elbow", 0.213, 0.01, 1e-4).text
        == "friction of joint 'elbow' +21 %"
    )
    assert (
        Deviation("a", "offset", "rail", -0.213, 0.01, 1e-4, "N").text
        == "offset of joint 'rail' -0.21 N"
    )
    assert Deviation("a", "load", "", 1.04, 0.01, 1e-4).text == "load at the flange 1 kg"


def test_logs_of_a_robot_may_lie_at_addresses(files: dict[str, Path]) -> None:
    """Several files of one robot: `file://` lost a slash."""
    two = [files[name] for name in ("arm0", "arm1")]
    here, there = (
        open_logs("a", paths, type_of(TWO)) for paths in (two, [file.as_uri() for file in two])
    )
    assert [len(log) for _, log in there.dated] == [len(log) for _, log in here.dated]
