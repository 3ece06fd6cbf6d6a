"""Laws of the numeric base parameters.

Methods and models agree, units play no part, doubts are told.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from base_robots import looped_arm, rescaled, special_robot
from random_robots import looped_robot, rich_robot
from threadpoolctl import threadpool_info, threadpool_limits

import minidyn as md
from conftest import count, numeric_base
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric import numeric
from minidyn.base.numeric.rank import rank_of
from minidyn.base.numeric.samples import Observation, model_rows, observe, random_states, units_of
from minidyn.errors import LoopError, UnknownName
from minidyn.model.geometry import Step
from minidyn.model.joint import Loop
from minidyn.model.robot import Robot

# Gautier's d0 by its old name
MODELS = ("torque", "zero_speed", "energy")
BLOCKS = 20


def span_difference(a: BaseMap, b: BaseMap) -> float:
    """Return how far the rows of one map are from the span of the other's, in the robot's own
    units.
    """
    units = units_of(a.robot).parameters
    one, two = (np.linalg.qr((base.matrix * units).T)[0] for base in (a, b))
    return float(np.abs(one - two @ (two.T @ one)).max(initial=0.0))


def torque_error(base: BaseMap, seed: int) -> float:
    """Return the largest error of the base model's rows at new states, relative to the model's
    largest term.
    """
    robot, rng = base.robot, np.random.default_rng(seed)
    states = random_states(robot, units_of(robot), 20, rng)
    rows = model_rows(robot, base.model, states).reshape(-1, len(robot.layout))
    if base.model == "energy":
        rows = rows - rows[0]
    phi = rng.normal(size=len(robot.layout)) * units_of(robot).parameters
    if base.model != "torque":
        phi[[column.index for column in robot.layout.columns if column.is_friction]] = 0.0
    kept = list(robot.layout.indices(base.kept))
    scale = np.abs(rows * phi).max(initial=1e-300)
    return float(np.abs(rows @ phi - rows[:, kept] @ base.values(phi)).max() / scale)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_all_methods_and_models_agree_on_random_robots(block: int) -> None:
    each = count(80, 2000) // BLOCKS
    for seed in range(block * each, (block + 1) * each):
        robot = special_robot(seed)
        for model in MODELS:
            exact = md.base_parameters(robot, "exact", model)
            for method in ("qr", "svd"):
                base = numeric_base(robot, method, model, seed=seed)
                where = f"seed {seed}, {method}, {model}: {base}, exact {exact.rank}"
                assert base.rank == exact.rank, where
                assert base.kept == exact.kept, where
                assert base.regrouped == exact.regrouped, where
                assert base.eliminated == exact.eliminated, where
                assert np.array_equal(base.K == 0.0, exact.K == 0.0), where
                np.testing.assert_allclose(base.K, exact.K, rtol=1e-9, atol=1e-10, err_msg=where)
                assert span_difference(base, exact) < 1e-9, where
                assert torque_error(base, seed) < 1e-11, where
                assert base.gap > 1e3, where
        # rotors and links alone: the three models find the same parameters (Gautier1991)
        rigid = robot.with_drives(friction=())
        found = [numeric_base(rigid, "qr", model) for model in MODELS]
        assert found[0].kept == found[1].kept == found[2].kept, f"seed {seed}"


@pytest.mark.parametrize("seed", range(0, count(60, 600), 3))
def test_units_play_no_part(seed: int) -> None:
    robot = special_robot(seed)
    for length in (1e3, 1e-3):
        other = rescaled(robot, length)
        for method in ("qr", "svd"):
            a, b = numeric_base(robot, method), numeric_base(other, method)
            assert a.kept == b.kept
            assert a.regrouped == b.regrouped
            assert math.isclose(a.gap, b.gap, rel_tol=10.0)  # rounding is all that changes
            ratio = units_of(other).parameters / units_of(robot).parameters
            kept, regrouped = (
                ratio[list(robot.layout.indices(names))] for names in (a.kept, a.regrouped)
            )
            np.testing.assert_allclose(b.K, a.K * kept[:, None] / regrouped, rtol=1e-8, atol=1e-12)
    heavy = robot.with_gravity(
        robot.gravity * 1e4
    )  # another unit of time; masses take no part at all
    assert numeric_base(heavy).kept == numeric_base(robot).kept


def test_lengths_in_millimetres_and_gravity_in_metres() -> None:
    puma = md.load("puma560")
    careless = rescaled(puma, 1e3).with_gravity(puma.gravity)
    for model in MODELS:
        assert numeric_base(careless, "qr", model).kept == numeric_base(puma, "qr", model).kept


def test_other_seeds_other_states_same_answer() -> None:
    puma = md.load("puma560")
    first = numeric_base(puma)
    for seed in range(1, 8):
        other = numeric_base(puma, seed=seed)
        assert other.kept == first.kept
        np.testing.assert_allclose(other.K, first.K, atol=1e-12)
        assert other.gap != first.gap
    assert numeric_base(puma).gap == first.gap


@pytest.mark.parametrize("seed", range(count(4, 30)))
def test_robots_with_everything(seed: int) -> None:
    robot = rich_robot(np.random.default_rng(seed))
    for model in MODELS:
        exact = md.base_parameters(robot, "exact", model)
        for method in ("qr", "svd"):
            base = numeric_base(robot, method, model)
            assert base.kept == exact.kept
            assert torque_error(base, seed) < 1e-11


@pytest.mark.parametrize("method", ["qr", "svd"])
def test_loops_that_are_solved(method: str) -> None:
    robot = looped_robot()
    found = [numeric_base(robot, method, model) for model in MODELS]
    assert [base.rank for base in found] == [5, 5, 5]
    assert max(torque_error(base, 1) for base in found) < 1e-10
    tree = numeric_base(robot.open_loops(), method)
    assert tree.rank > 5


@pytest.mark.parametrize("seed", range(count(8, 150)))
def test_random_loops(seed: int) -> None:
    robot = looped_arm(seed)
    for model in MODELS:
        exact = md.base_parameters(robot, "exact", model)
        assert exact.rank < md.base_parameters(robot.open_loops(), "exact", model).rank
        for method in ("qr", "svd"):
            base = numeric_base(robot, method, model)
            assert base.kept == exact.kept
            np.testing.assert_allclose(base.K, exact.K, rtol=1e-9, atol=1e-10)
            assert torque_error(base, seed) < 1e-11
    solved = numeric_base(looped_arm(seed, solved=True))
    assert solved.kept == md.base_parameters(robot).kept


def test_a_loop_that_cannot_close_is_an_error() -> None:
    robot = looped_robot()
    (loop,) = robot.loops
    assert isinstance(loop, Loop)
    torn = replace(robot, loops=(replace(loop, steps_b=(Step("tx", 5.0),)),))
    with pytest.raises(LoopError):
        numeric_base(torn)


def test_friction_takes_part_in_the_torque_model_only() -> None:
    robot = md.load("two_link").with_drives(friction=("viscous", "coulomb", "offset"))
    assert {"Fv1", "Fc1", "Fo1", "Fv2", "Fc2", "Fo2"} <= set(numeric_base(robot).unchanged)
    for model in ("zero_speed", "energy"):
        base = numeric_base(robot, model=model)
        assert {"Fv1", "Fc1", "Fo1", "Fv2", "Fc2", "Fo2"} <= set(base.eliminated)
        assert [n.code for n in base.notices] == ["base.friction_left_out"]


def test_full_rank_rank_zero_and_nothing_to_regroup() -> None:
    pendulum = Robot.from_mdh("R", alpha=[math.pi / 2])
    for method in ("qr", "svd"):
        full = numeric_base(pendulum, method)
        assert full.kept == ("ZZ1", "MX1", "MY1")
        assert full.regrouped == ()
        assert full.K.shape == (3, 0)
        assert full.gap > 1e3
        only = numeric_base(pendulum, method, columns=("ZZ1", "MX1"))
        assert (only.kept, only.regrouped) == (("ZZ1", "MX1"), ())
        none = numeric_base(pendulum, method, columns=("XX1", "M1"))
        assert none.rank == 0
        assert set(none.eliminated) == set(pendulum.layout.names)
        still = numeric_base(pendulum, method, joints=())
        assert still.rank == 0


def test_the_order_of_preference_decides_what_is_kept() -> None:
    puma = md.load("puma560")
    usual = numeric_base(puma)
    for method in ("qr", "svd"):
        base = numeric_base(puma, method, order=("YY2", "M6"))
        assert {"YY2", "M6"} <= set(base.kept)
        assert base.rank == usual.rank
        assert span_difference(base, usual) < 1e-11
        back = numeric_base(puma, method, order=lambda column: -column.index)
        assert "M6" in back.kept
        assert "ZZ1" not in back.kept
        assert span_difference(back, usual) < 1e-11


def test_some_joints_and_some_columns() -> None:
    puma = md.load("puma560")
    for method in ("qr", "svd"):
        some = numeric_base(puma, method, joints=("joint2", "joint3"))
        exact = md.base_parameters(puma, "exact", joints=("joint2", "joint3"))
        assert some.kept == exact.kept
        assert some.joints == ("joint2", "joint3")
        wrist = [name for name in puma.layout.names if name[-1] in "56"]
        part = numeric_base(puma, method, columns=wrist)
        assert part.kept == md.base_parameters(puma, "exact", columns=wrist).kept
        assert set(part.kept) | set(part.regrouped) <= set(wrist)


@pytest.mark.parametrize("noise", [1e-7, 1e-8, 1e-10, 1e-11, 1e-12, 3e-13])
@pytest.mark.parametrize("method", ["qr", "svd"])
def test_a_doubtful_rank_says_so(
    noise: float, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    puma = md.load("puma560")
    assert not numeric_base(puma, method).notices

    def blurred(*arguments: object) -> Observation:
        found = observe(*arguments)  # type: ignore[arg-type]
        return replace(
            found, W=found.W * (1.0 + noise * np.random.default_rng(5).normal(size=found.W.shape))
        )

    monkeypatch.setattr(numeric, "observe", blurred)
    base = numeric_base(puma, method)
    told = any(
        notice.code in ("base.rank_unclear", "base.choice_unclear") for notice in base.notices
    )
    assert told or (base.rank == 40 and noise < 1e-11)


@pytest.mark.parametrize("seed", range(count(6, 300)))
def test_nearly_special_geometry(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    lengths = 10.0 ** rng.uniform(-4, 0, (2, n))
    robot = Robot.from_mdh(
        "R" * n, alpha=10.0 ** rng.uniform(-3.9, -1, n), a=lengths[0], d=lengths[1]
    )
    exact = md.base_parameters(robot)
    for method in ("qr", "svd"):
        base = numeric_base(robot, method)
        # which parameters lead may differ: floating point passes over columns that hardly show
        assert (base.rank == exact.rank and base.check.relations < 1e-9) or base.notices


def test_paper_scaling_gives_the_same_parameters() -> None:
    for seed in (3, 12):
        robot = special_robot(seed)
        for model in MODELS:
            searched = numeric_base(robot, "qr", model, scaling="paper")
            assert searched.kept == numeric_base(robot, "qr", model, scaling="columns").kept
            assert searched.notices[-1].code == "base.row_scaling"


def test_small_factorisations_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.extend(
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        )
        return rank_of(*arguments, **options)

    monkeypatch.setattr(numeric, "rank_of", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        md.base_parameters(md.load("two_link"), "qr")
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(md.MinidynError, match="seed: expected a whole number"):
        md.base_parameters(md.load("two_link"), seed=seed)  # type: ignore[arg-type]


def test_wrong_requests_name_what_is_near() -> None:
    robot = md.load("two_link")
    for wrong in (
        {"method": "qrp"},
        {"model": "torques"},
        {"scaling": "rows"},
        {"joints": ("joint 1",)},
    ):
        with pytest.raises(UnknownName):
            numeric_base(robot, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="ZZ1"):
        numeric_base(robot, columns=("zz1",))
