"""Base parameters in sixty digits.

The same as exact arithmetic where both can be had, and right for solved loops.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import turned_robots
from base_robots import special_robot
from random_robots import looped_robot

import minidyn as md
from conftest import count
from minidyn.base.base_map import Question
from minidyn.base.exact.digits import PI, Digits, cos_sin, formula_operations, sixty_digits
from minidyn.base.exact.precise import METHOD, precise_base
from minidyn.errors import LoopError, Unsupported
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble
from minidyn.model.geometry import Step, inverse_steps
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot

# Gautier's d0 by its old name
MODELS = ("torque", "zero_speed", "energy")


def require_same(a: md.BaseMap, b: md.BaseMap, where: object = "") -> None:
    assert a.kept == b.kept, where
    assert a.eliminated == b.eliminated, where
    np.testing.assert_allclose(a.K, b.K, rtol=1e-9, atol=1e-10, err_msg=str(where))


@pytest.mark.parametrize("model", MODELS)
def test_sixty_digits_and_exact_arithmetic_agree(model: str) -> None:
    for seed in range(count(12, 300)):
        robot = special_robot(seed)
        require_same(
            precise_base(Question.of(robot, model)), md.base_parameters(robot, model=model), seed
        )
    robot = md.load("hpr")
    require_same(precise_base(Question.of(robot, model)), md.base_parameters(robot, model=model))


def implicit_hpr() -> Robot:
    """The hpr with its parallelogram to be solved for instead of given by functions."""
    robot = md.load("hpr")
    joints = tuple(
        replace(joint, follows=None) if joint.follows and joint.follows.passive else joint
        for joint in robot.joints
    )
    q3, q4 = 0.5, 1.4  # where the parallelogram is not folded
    loop = replace(
        robot.loops[0], start=(q3 - q4, np.pi - q4), home=(("joint3", q3), ("joint4", q4))
    )
    return replace(robot, joints=joints, loops=(loop,))


@pytest.mark.parametrize("model", MODELS)
def test_a_solved_parallelogram_is_the_given_one(model: str) -> None:
    """Solved or given, the closed hpr has the same 35 base parameters (in order and factors)."""
    base = md.base_parameters(implicit_hpr(), model=model)
    assert base.method == METHOD
    assert base.rank == 35
    assert base.gap > 1e25
    assert [notice.code for notice in base.notices] == ["base.sixty_digits"]
    require_same(base, md.base_parameters(md.load("hpr"), model=model))


@pytest.mark.parametrize("model", MODELS)
def test_a_four_bar_linkage_and_a_formula(model: str) -> None:
    robot = looped_robot().with_gravity((1.0, -9.0, 2.0))
    base = md.base_parameters(robot, model=model)
    assert base.gap > 1e25
    for method in ("qr", "svd"):
        assert md.base_parameters(robot, method, model=model).kept == base.kept
    q = np.random.default_rng(1).uniform(-0.3, 0.3, (6, 1))
    dq, ddq = np.random.default_rng(2).normal(size=(2, 6, 1))
    phi = np.random.default_rng(3).normal(size=len(robot.layout))
    Y = md.regressor(robot, q, dq, ddq)
    kept = Y[..., list(robot.layout.indices(base.kept))]
    np.testing.assert_allclose(kept @ base.values(phi), Y @ phi, atol=1e-8 * np.abs(Y @ phi).max())


def slider_crank(kind: str, formula: bool) -> Robot:
    """A crank, a rod and a block that slides.

    The rod's angle and the block's travel follow the crank.
    """
    links = [
        LooseLink(name, "test", from_body(1.0, (0.1, 0.02, 0), 0.01 * np.eye(3))) for name in "abcd"
    ]
    r, length = 0.3, 0.9
    rod = travel = ""
    if formula:
        rod = f"asin(-{r}*sin(crank)/{length}) - crank"
        travel = f"{r}*cos(crank) + sqrt({length}*{length} - {r}*{r}*sin(crank)*sin(crank))"
    joints = [
        LooseJoint("crank", "test", "revolute", "a", "b"),
        LooseJoint(
            "rod",
            "test",
            "revolute",
            "b",
            "c",
            (Step("tx", r),),
            passive=True,
            formula=rod if formula else "",
        ),
        LooseJoint(
            "block",
            "test",
            "prismatic",
            "a",
            "d",
            motion="tx",
            passive=True,
            formula=travel if formula else "",
        ),
    ]
    steps = (Step("tx", length),)
    loop = LooseLoop("slide", "test", "c", steps, "d", (), kind, ("rod", "block"), (0.0, 1.2))
    return assemble("slider-crank", links, joints, gravity=(0.5, -9.0, 0.3), loops=[loop])


@pytest.mark.parametrize("model", MODELS)
def test_a_slider_crank_by_formula_and_solved(model: str) -> None:
    given, solved = slider_crank("point", True), slider_crank("point", False)
    a, b = (md.base_parameters(robot, model=model) for robot in (given, solved))
    require_same(a, b)
    assert min(a.gap, b.gap) > 1e25
    assert 0 < a.rank < len(given.layout)


def test_a_loop_of_frames() -> None:
    """Three turning joints that carry a frame back to itself about one axis: all turn together."""
    links = [
        LooseLink(name, "test", from_body(1.0, (0.1, 0.02, 0.05), 0.01 * np.eye(3)))
        for name in "abc"
    ]
    joints = [
        LooseJoint("one", "test", "revolute", "a", "b", (Step("rx", 0.4),)),
        LooseJoint("two", "test", "revolute", "a", "c", (Step("rx", 0.4),), passive=True),
    ]
    loop = LooseLoop("glued", "test", "b", (), "c", (), "frame", ("two",), (0.1,))
    robot = assemble("glued", links, joints, gravity=(0.5, -9.0, 0.3), loops=[loop])
    base = md.base_parameters(robot)
    assert base.kept == ("ZZ1", "MX1", "MY1")
    assert {"ZZ2", "MX2", "MY2"} == set(base.regrouped)
    np.testing.assert_array_equal(base.K, np.eye(3))


def test_a_loop_that_does_not_close_is_an_error_before_any_rank() -> None:
    robot = md.load("hpr")
    loop = replace(robot.loops[0], steps_b=(Step("tx", 0.6),))
    for method in ("exact", "qr", "svd"):
        with pytest.raises(LoopError, match=r"m and .* rad"):
            md.base_parameters(replace(robot, loops=(loop,)), method)


def test_decimals() -> None:
    with sixty_digits():
        x = Digits.of([0.3, -2.0])
        c, s = cos_sin(x)
        for one, value in zip((c * c + s * s).value, (0.3, -2.0)):
            assert abs(one - 1) < Decimal("1e-57")
            assert isinstance(value, float)
        np.testing.assert_allclose(c.floats(2), np.cos([0.3, -2.0]), rtol=1e-15)
        atan2 = formula_operations()["atan2"]
        back = atan2(s, c) - x
        assert max(abs(value) for value in back.value) < Decimal("1e-57")
        half = formula_operations()["mul"](0.5, np.pi)
        assert abs(half.value[0] - PI / 2) < Decimal("1e-57")
        assert (1 - x * 0).__class__ is int
        assert (2 / x).value[1] == -1


def test_hard_relations_are_solved_in_sixty_digits() -> None:
    """The reverse order keeps columns that are hard to tell apart.

    K is correct to the last digits all the same.
    """
    for seed in (206, 243, *range(count(0, 100))):
        question = Question.of(special_robot(seed), order=lambda column: -column.index)
        exact = md.base_parameters(question.robot, order=question.order)
        precise = precise_base(question)
        assert exact.kept == precise.kept
        np.testing.assert_allclose(
            exact.K, precise.K, rtol=1e-10, atol=1e-12 * np.abs(precise.K).max(initial=1.0)
        )


# ------------------------------------------------ frames that close a loop to double precision only


def turned_with_loops(robot: Robot, seed: int) -> Robot:
    """The same mechanism with link frames turned freely and written as xyz and rpy, ends of loops
    included.
    """
    rng = np.random.default_rng(seed)
    changes = [turned_robots._change(joint, rng, "freely") for joint in robot.joints]
    other = turned_robots.turned(robot, np.random.default_rng(seed))

    def seen(link: int, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return (
            steps if link < 0 else turned_robots._written((*inverse_steps(changes[link]), *steps))
        )

    loops = tuple(
        replace(
            loop, steps_a=seen(loop.link_a, loop.steps_a), steps_b=seen(loop.link_b, loop.steps_b)
        )
        for loop in robot.loops
    )
    return replace(other, loops=loops)


def test_turned_frames_of_a_solved_loop_do_not_change_the_number() -> None:
    """Sixty digits cannot close such a loop; QR answers, and says so."""
    robot = implicit_hpr()
    for seed in range(count(2, 30)):
        other = turned_with_loops(robot, seed)
        base = md.base_parameters(other)
        assert base.rank == 35, seed
        assert [notice.code for notice in base.notices] == ["base.double_precision_only"]
        assert base.method == "qr"
        rng = np.random.default_rng((seed, 5))
        phi = rng.normal(size=len(other.layout))
        q = np.array([0.0, 0.5, 1.4, 0.0, 0.0]) + rng.uniform(-0.1, 0.1, (6, 5))
        dq, ddq = rng.uniform(-1.0, 1.0, (2, 6, 5))
        Y = md.regressor(other, q, dq, ddq)
        kept = Y[..., list(other.layout.indices(base.kept))]
        np.testing.assert_allclose(
            kept @ base.values(phi), Y @ phi, atol=1e-8 * np.abs(Y @ phi).max()
        )


def test_a_tolerance_is_refused_where_it_cannot_act() -> None:
    robot = implicit_hpr()
    for method in ("exact", "qr"):
        with pytest.raises(Unsupported, match="tolerance"):
            md.base_parameters(robot, method, tolerance=1e-3)
    assert md.base_parameters(robot, "qr", tolerance=0.0).rank == 35
