"""Closed-form rules first, QR on what they leave.

The same answer as the exact method, everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from base_robots import looped_arm, rescaled, special_robot
from random_robots import looped_robot, random_tree, rich_robot

import minidyn as md
from conftest import count
from minidyn.base.base_map import BaseMap
from minidyn.errors import LoopError, MinidynError
from minidyn.model.geometry import Step
from minidyn.model.robot import Robot
from mlc_cases import any_frames, chain_of_seed, tree_of_seed

# Gautier's d0 by its old name
GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "gautier.json").read_text()
)
MODELS = ("torque", "zero_speed", "energy")
COVERED = "base.rule_covers"


def require_same(robot: Robot, where: str = "", **question: Any) -> BaseMap:
    """Require the choice and the numbers of the exact method; return the map."""
    found, exact = (
        md.base_parameters(robot, method, **question) for method in ("rules+qr", "exact")
    )
    where = f"{robot.name} {where} {question}: {found}"
    assert found.kept == exact.kept, where
    assert found.regrouped == exact.regrouped, where
    assert found.eliminated == exact.eliminated, where
    size = float(np.abs(exact.K).max(initial=1.0))
    # a zero here may be the rounding of one there, never an entry
    assert np.all(np.abs(exact.K[found.K == 0.0]) < 1e-14 * size), where
    assert np.all(found.K[exact.K == 0.0] == 0.0), where
    np.testing.assert_allclose(found.K, exact.K, rtol=1e-9, atol=1e-11 * size, err_msg=where)
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", md.robots())
def test_built_in_robots(name: str, model: str) -> None:
    robot = md.load(name)
    base = require_same(robot, model=model)
    assert base.method == "rules+qr"
    assert (base.notices[-1].code == COVERED) == (
        not robot.loops and not any(joint.follows for joint in robot.joints)
    )
    assert base.gap > 1e8


@pytest.mark.parametrize("model", MODELS)
def test_puma_of_the_paper(model: str) -> None:
    golden = GOLDEN["gautier_puma"]
    robot = md.load("puma560")
    base = md.base_parameters(robot, "rules+qr", model)
    assert (len(base.eliminated), len(base.regrouped), base.rank, len(base.unchanged)) == (
        11,
        15,
        40,
        23,
    )
    assert list(base.kept) == golden["base"]
    np.testing.assert_allclose(
        base.values(), [golden["XB1"][name] for name in base.kept], rtol=0, atol=1e-12
    )
    assert str(base.relations()[1]) == "XXR2 = XX2 - YY2 - D3² (M3 + M4 + M5 + M6)"


def test_hpr_as_tree_and_closed() -> None:
    hpr = md.load("hpr")
    tree = require_same(hpr.open_loops())
    assert tree.rank == GOLDEN["hpr"]["result_B"]["tree_b"] == 47
    for model in MODELS:
        closed = require_same(hpr, model=model)
        assert closed.rank == GOLDEN["hpr"]["result_B"]["closed_b"] == 35
        assert closed.notices[-1].code == "base.rule_and_qr"
        assert dict(closed.notices[-1].data) == {
            "asked": 77,
            "settled": 27,
            "left": 50,
            "because": ["loops"],
        }


@pytest.mark.parametrize("case", [special_robot, any_frames, chain_of_seed, tree_of_seed])
@pytest.mark.parametrize("block", range(4))
def test_random_chains_and_trees(case: Callable[[int], Robot], block: int) -> None:
    for seed in range(block, count(32, 1200), 4):
        base = require_same(case(seed), f"seed {seed}", model=MODELS[seed % 3])
        assert base.notices[-1].code == COVERED


@pytest.mark.parametrize("seed", range(count(12, 400)))
def test_drives(seed: int) -> None:
    require_same(
        (chain_of_seed if seed % 2 else tree_of_seed)(seed, drives=True),
        model=MODELS[seed // 2 % 3],
    )


@pytest.mark.parametrize("seed", range(count(6, 150)))
def test_loops(seed: int) -> None:
    given, solved = looped_arm(seed), looped_arm(seed, solved=True)
    for model in MODELS:
        base = require_same(given, f"seed {seed}", model=model)
        assert base.gap > 1e3
    assert md.base_parameters(solved, "rules+qr").kept == md.base_parameters(given).kept


@pytest.mark.parametrize("seed", range(count(4, 60)))
def test_followers_and_coupled_drives(seed: int) -> None:
    assert (
        "followers"
        in require_same(random_tree(np.random.default_rng(seed))).notices[-1].data["because"]
    )
    require_same(rich_robot(np.random.default_rng(seed)), f"seed {seed}")


def test_a_loop_that_is_solved_and_a_formula() -> None:
    assert require_same(looped_robot()).rank == 5


def test_orders_and_columns() -> None:
    puma, hpr = md.load("puma560"), md.load("hpr")
    require_same(puma, order=("YY2", "M6"))
    for robot in (puma, hpr):
        require_same(robot, order=lambda column: -column.index)
        wrist = [name for name in robot.layout.names if name[-1] in "56"]
        require_same(robot, columns=wrist)
        require_same(robot, columns=wrist, order=lambda column: -column.index)
    none = md.base_parameters(puma, "rules+qr", columns=("XX1", "M1"))
    assert (none.rank, len(none.eliminated)) == (0, 66)


def test_some_joints() -> None:
    puma = md.load("puma560")
    found, exact = (
        md.base_parameters(puma, m, joints=("joint2", "joint3")) for m in ("rules+qr", "exact")
    )
    assert (found.kept, found.regrouped, found.joints) == (
        exact.kept,
        exact.regrouped,
        exact.joints,
    )
    assert "held joints" in found.notices[-1].data["because"]


@pytest.mark.parametrize("name", ["panda", "puma560"])
def test_units_play_no_part(name: str) -> None:
    robot = md.load(name)
    base = md.base_parameters(robot, "rules+qr")
    for length in (1e3, 1e-3):
        other = md.base_parameters(rescaled(robot, length), "rules+qr")
        assert (other.kept, other.regrouped) == (base.kept, base.regrouped)


def test_the_numeric_part_takes_the_papers_scaling() -> None:
    base = md.base_parameters(md.load("two_link"), "rules+qr", scaling="paper")
    assert base.notices[0].code == "base.row_scaling"
    with pytest.raises(MinidynError, match="takes no option 'version'; its options: scaling"):
        md.base_parameters(md.load("two_link"), "rules+qr", version="1999")


def test_a_loop_that_does_not_close() -> None:
    robot = looped_robot()
    torn = replace(robot, loops=(replace(robot.loops[0], steps_b=(Step("tx", 5.0),)),))
    with pytest.raises(LoopError):
        md.base_parameters(torn, "rules+qr")
