"""What a rank rests on, for every method and robot.

And base parameters of regressors without a robot.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from base_robots import special_robot
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.base import base as base_verb
from minidyn.errors import (
    MinidynError,
    NotEquivalent,
    ShapeError,
    UnknownName,
    UnknownParameters,
    Unsupported,
)
from minidyn.model.robot import Robot


def rows_of(robot: Robot, seed: int = 0) -> np.ndarray:
    q, dq, ddq = np.random.default_rng((seed, 30)).uniform(
        -3.0, 3.0, (3, 3 * len(robot.layout), robot.n)
    )
    return md.regressor(robot, q, dq, ddq).reshape(-1, len(robot.layout))


# ---------------------------------------------------------------- evidence


@pytest.mark.parametrize("method", ["exact", "qr", "mlc"])
def test_evidence_says_what_numpy_says(method: str) -> None:
    for seed in range(count(8, 200)):
        robot = special_robot(seed)
        base = md.base_parameters(robot, method)
        found = base.evidence(seed=3)
        assert (found.rank, found.clear) == (base.rank, True), seed
        assert int(np.count_nonzero(found.singular > found.threshold)) == base.rank
        assert {*found.columns} == {*base.kept, *base.regrouped}
        assert {*found.zero} == {*base.eliminated}
        # the rows of V2 of the whole matrix, from another sample and another library call
        W = rows_of(robot, seed)[:, list(robot.layout.indices(found.columns))]
        W = W / np.linalg.norm(W, axis=0)
        values, Vt = np.linalg.svd(np.linalg.qr(W, mode="r"))[1:]
        null = Vt[base.rank :]
        assert values[base.rank - 1] > 1e6 * (
            values[base.rank] if base.rank < len(values) else 1e-16
        )
        alone = [
            name for name, column in zip(found.columns, null.T) if np.linalg.norm(column) < 1e-8
        ]
        assert [name for name, row in zip(found.columns, found.V2) if not np.any(row)] == alone, (
            seed
        )
        exact = md.base_parameters(robot)
        assert [
            name for name, value in zip(found.columns, found.R) if value > found.threshold
        ] == list(exact.kept)
        assert sorted(found.pivots) == sorted(found.columns)


def test_evidence_of_loops_held_joints_models_and_columns() -> None:
    for base in (
        md.base_parameters("hpr"),
        md.base_parameters("hpr", "rules+qr", "energy"),
        md.base_parameters("puma560", joints=("joint3", "joint2")),
        md.base_parameters("puma560", columns=("ZZ1", "Ia1", "M6", "XX1")),
        md.base_parameters("puma560", model="gravity"),
        md.base_parameters(md.load("panda"), model="inertia"),
    ):
        found = base.evidence()
        assert found.rank == base.rank, base
        assert found.gap > 1e6
        assert {*found.columns} == {*base.kept, *base.regrouped}


def test_nearly_special_geometry_shows_as_short_columns() -> None:
    """Columns are scaled, but their lengths are kept: some are of the size of the angle."""
    leaning = Robot.from_mdh("RRR", alpha=[0, 2e-4, 0], a=[0, 0.4, 0.3])
    found = md.base_parameters(leaning, tolerance=1e-3).evidence()
    assert (found.base.rank, found.rank, found.clear) == (7, 15, False)
    short = {name for name, length in zip(found.columns, found.lengths) if length < 1e-3}
    assert short
    assert short.isdisjoint(found.base.kept)


def test_evidence_as_table_figure_and_json() -> None:
    found = md.base_parameters("puma560").evidence()
    assert len(found.to_pandas()) == 55
    assert "σ_i" in found._repr_html_()
    assert "gap" in repr(found)
    data = json.loads(json.dumps(found.to_json()))
    assert len(data["T"]) == len(data["R"]) == len(data["V2N"]) == 55
    assert np.array(data["V2"]).shape == (55, 15)
    above, below = found.plot().axes
    assert len(above.lines) >= 3
    assert len(below.get_xticks()) == 55


# ---------------------------------------------------------------- regressors of one's own


@pytest.mark.parametrize("method", ["exact", "qr", "svd"])
def test_rows_of_a_robot_give_the_robots_base_parameters(method: str) -> None:
    for seed in range(count(8, 200)):
        robot = special_robot(seed)
        base = md.base_parameters(robot)
        own = md.base_parameters(rows_of(robot, seed), method, names=robot.layout.names)
        assert own.method == ("qr" if method == "exact" else method)
        assert (own.kept, own.regrouped, own.eliminated) == (
            base.kept,
            base.regrouped,
            base.eliminated,
        ), seed
        np.testing.assert_allclose(
            own.K, base.K, atol=1e-7 * max(1.0, np.abs(base.K).max(initial=0.0))
        )
        assert own.names == base.names


def leaning_robot(seed: int) -> Robot:
    """Axes that lean by 3e-5 to 3e-2 rad: columns of the size of the angle or of its square."""
    rng = np.random.default_rng((seed, 77))
    n, kinds = int(rng.integers(2, 6)), np.array(["R", "P"])
    joints = "".join(rng.choice(kinds, p=[0.7, 0.3], size=n))
    lean = 10.0 ** rng.uniform(-4.5, -1.5)
    alpha = rng.choice([0.0, lean, np.pi / 2, np.pi / 2 + lean, 0.7 * lean], size=n)
    return Robot.from_mdh(
        joints, alpha=alpha, a=rng.choice([0.0, 0.3, 0.5], size=n), d=rng.choice([0.0, 0.2], size=n)
    )


def test_rounding_of_long_columns_is_no_parameter_of_short_ones() -> None:
    """Rows alone do not say why a column is short.

    The count is the exact one, or said to be unclear, which is rare.
    """
    wrong = 0
    seeds = range(count(14, 400))
    for seed in seeds:
        robot = leaning_robot(seed)
        exact = md.base_parameters(robot, tolerance=0.0)
        for method in ("qr", "svd"):
            own = md.base_parameters(rows_of(robot, seed), method, names=robot.layout.names)
            if own.kept != exact.kept:
                assert "base.rank_unclear" in [notice.code for notice in own.notices], (
                    seed,
                    method,
                )
                wrong += 1
    assert wrong <= max(
        2, 0.04 * len(seeds)
    )  # of twice as many; the sample has one robot that rows do not tell


def test_a_function_is_called_until_its_rows_suffice() -> None:
    robot = md.load("puma560")
    calls: list[int] = []

    def rows(rng: np.random.Generator) -> np.ndarray:
        calls.append(1)
        return md.regressor(robot, *rng.uniform(-3.0, 3.0, (3, 6)))

    own = md.base_parameters(rows, names=robot.layout.names)
    assert own.kept == md.base_parameters(robot).kept
    assert 66 < 6 * len(calls) < 200
    assert md.base_parameters(rows, names=robot.layout.names, seed=1).kept == own.kept


def test_known_relations_come_back_whatever_the_units() -> None:
    """Columns made of others by known factors, in units that differ by twelve orders of
    magnitude.
    """
    for seed in range(count(30, 1000)):
        rng = np.random.default_rng(seed)
        free, tied, rows = rng.integers(1, 8), rng.integers(0, 6), 60
        units = 10.0 ** rng.uniform(-6.0, 6.0, free + tied)
        A = rng.normal(size=(rows, free))
        K = rng.choice([0.0, 1.0, -2.0, 0.5], size=(free, tied))
        W = np.concatenate([A, A @ K], axis=1) * units
        base = md.base_parameters(W)
        assert base.rank == free, seed
        dead = ~K.any(axis=0)
        assert list(base.eliminated) == [f"p{free + k + 1}" for k in np.flatnonzero(dead)]
        wanted = (K * units[free:] / units[:free, None])[:, ~dead]
        np.testing.assert_array_equal(base.K == 0.0, wanted == 0.0)
        np.testing.assert_allclose(base.K, wanted, rtol=1e-9)
        x = rng.normal(size=free + tied)
        np.testing.assert_allclose(
            W[:, :free] @ base.values(x), W @ x, rtol=1e-9, atol=1e-9 * np.abs(W).max()
        )
        assert base.evidence().rank == free


def test_what_a_map_of_rows_can_do() -> None:
    A = np.random.default_rng(0).normal(size=(40, 3))
    W = np.stack([A[:, 0], A[:, 1], A[:, 0] + 2.0 * A[:, 1], 0.0 * A[:, 0], A[:, 2]], axis=1)
    base = md.base_parameters(W)
    assert [str(relation) for relation in base.relations()] == [
        "pR1 = p1 + p3",
        "pR2 = p2 + 2 p3",
        "p5 = p5",
    ]
    assert base.unchanged == ("p5",)
    assert base.statuses["p4"] == "no effect: its column is zero"
    named = md.base_parameters(W, names=["a b", "c", "d", "e", "$f<b>"])
    assert named.names == ("a bR", "cR", "$f<b>")
    assert "<b>" not in named._repr_html_().replace("<b>BaseMap", "")
    assert md.base_parameters(W, order=("p3",)).kept == ("p1", "p3", "p5")
    assert md.base_parameters(W, columns=("p1", "p2", "p3")).rank == 2
    assert md.equivalence(base, "p1 + p3; p2 + 2 p3; p5").equivalent
    assert json.loads(json.dumps(base.to_json()))["rank"] == 3
    assert base.to_markdown()
    assert base.to_latex()
    assert base.plot()
    assert base.to_pandas()["unit"].tolist() == ["", "", ""]
    np.testing.assert_allclose(
        base.values(base.lift([1.0, 2.0, 3.0], [0.3, 0.4][:1])), [1.0, 2.0, 3.0]
    )
    (notice,) = md.base_parameters(W[:2]).notices
    assert notice.code == "base.few_rows"


def test_what_needs_a_robot_is_refused() -> None:
    robot = md.load("puma560")
    base = md.base_parameters(rows_of(robot), names=robot.layout.names)
    zero = np.zeros(6)
    for call in (
        lambda: md.base_regressor(robot, zero, zero, zero, base=base),
        lambda: md.compile(robot, "inertia_matrix", base=base),
        lambda: md.inertia_matrix(robot, zero, base=base),
        lambda: md.gravity_torque(robot, zero, base=base),
        lambda: md.coriolis_matrix(robot, zero, zero, base=base),
        lambda: md.inverse_dynamics(robot, zero, zero, zero, base=base),
    ):
        with pytest.raises(NotEquivalent, match="regressor of your own, not of a robot"):
            call()
    for call in (
        lambda: md.base_parameters(rows_of(robot), model="energy"),
        lambda: md.base_parameters(rows_of(robot), joints=("joint1",)),
        lambda: md.base_parameters(rows_of(robot), tolerance=0.0),
        lambda: md.base_parameters(rows_of(robot), "mlc"),
        lambda: md.base_parameters(rows_of(robot), "magic"),
        lambda: md.base_parameters(robot, names=("a",)),
        lambda: md.base_parameters(rows_of(robot), names=["a"] * 66),
    ):
        with pytest.raises(MinidynError):
            call()
    with pytest.raises(Unsupported, match="needs a robot"):
        _ = base.robot.gravity
    with pytest.raises(UnknownParameters):
        base.values()
    with pytest.raises(UnknownName):
        md.base_parameters(rows_of(robot), columns=("p99",))
    for wrong in ([["a"]], np.zeros((0, 3)), np.full((3, 3), np.nan), [], lambda rng: "text"):
        with pytest.raises(ShapeError):
            md.base_parameters(wrong)
    with pytest.raises(ShapeError, match="names"):
        md.base_parameters(rows_of(robot), names=("a",))


# ---------------------------------------------------------------- the paper's criterion of scaling


@pytest.mark.parametrize("scaling", [(0.1, 1.0), "1,1"])
def test_weights_of_the_scaling_search(scaling: str | tuple[float, float]) -> None:
    robot = md.load("puma560")
    base = md.base_parameters(robot, "qr", scaling=scaling)
    assert base.kept == md.base_parameters(robot).kept
    (notice,) = base.notices
    assert notice.data["scaling_after"] < notice.data["scaling_before"]


def test_weights_that_are_none_are_refused() -> None:
    for wrong in ("rows", "1,2,3", "1,x", (0.0, 0.0), (-1.0, 1.0), (1.0,), (np.nan, 1.0)):
        with pytest.raises(MinidynError):
            md.base_parameters("puma560", "qr", scaling=wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------- in the shell


def test_evidence_in_the_shell(tmp_path: Path) -> None:
    run = CliRunner()
    drawn = tmp_path / "gap.svg"
    found = run.invoke(base_verb, ["scara", "--evidence", "--json", "--plot", str(drawn)])
    assert found.exit_code == 0, found.output
    data = json.loads(found.output)
    evidence = md.base_parameters("scara").evidence()
    np.testing.assert_allclose(
        data["evidence"]["T"][: evidence.rank], evidence.T[: evidence.rank], rtol=1e-9
    )
    assert data["evidence"]["rank"] == data["rank"] == evidence.rank
    assert "svg" in drawn.read_text()
    shown = run.invoke(base_verb, ["scara", "--evidence"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in evidence.columns)
    wrong = run.invoke(base_verb, ["scara", "--plot", str(tmp_path / "gap.xyz")])
    assert isinstance(wrong.exception, MinidynError)
