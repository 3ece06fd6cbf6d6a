"""The number of base parameters is a property of axes and gravity.

Frames, digits and methods do not change it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from base_robots import special_robot
from turned_robots import HOW, as_urdf, turned

import minidyn as md
from conftest import count
from minidyn.base.base_map import Question
from minidyn.base.exact.by_twin import _confirmed
from minidyn.base.exact.exact import observed_rows
from minidyn.errors import MinidynError
from minidyn.model.canonical import ROUNDING, canonical
from minidyn.model.geometry import Step, inverse_steps, matrix_of, steps_from_matrix
from minidyn.model.robot import Robot
from robot_cases import robot_of_seed

SNAPPED = ["base.snapped_geometry", "base.geometry_understood"]
DOWN = (0.0, 0.0, -9.81)


def require_same_torque(robot: Robot, base: md.BaseMap, seed: int, tolerance: float = 1e-9) -> None:
    """Kept columns times base values must be the torque, on random values of every standard
    parameter.
    """
    rng = np.random.default_rng((seed, 8))
    phi = rng.normal(size=len(robot.layout))
    q, dq, ddq = rng.uniform(-3.0, 3.0, (3, 8, robot.n))
    Y = md.regressor(robot, q, dq, ddq)
    kept = Y[..., list(robot.layout.indices(base.kept))]
    size = max(1.0, np.abs(Y @ phi).max(), np.abs(kept * base.values(phi)).max(initial=0.0))
    assert np.abs(Y @ phi - kept @ base.values(phi)).max() <= tolerance * size, seed


CASES = [(special_robot, seed) for seed in range(count(8, 600))] + [
    (robot_of_seed, seed) for seed in range(count(4, 300))
]


@pytest.mark.parametrize("how", HOW)
def test_turned_frames_do_not_change_the_answer(how: str) -> None:
    for make, seed in CASES:
        robot = make(seed)
        other = turned(robot, np.random.default_rng((seed, 9)), how)
        base, found = md.base_parameters(robot), md.base_parameters(other)
        assert (found.rank, found.notices) == (base.rank, base.notices), (make.__name__, seed)
        require_same_torque(other, found, seed)


def test_the_twin_is_the_same_mechanism() -> None:
    for make, seed in CASES:
        rng = np.random.default_rng((seed, 10))
        robot = turned(make(seed), rng)
        found = canonical(robot, ROUNDING)
        assert found.relations == ()
        q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 4, robot.n))
        Y, twin, own = (
            md.regressor(r, q, dq, ddq) for r in (robot, found.twin, found.in_own_frames())
        )
        np.testing.assert_allclose(own, Y, atol=1e-10 * np.abs(Y).max())
        np.testing.assert_allclose(twin @ found.T, Y, atol=1e-10 * np.abs(Y).max())


def test_six_digits_do_not_change_the_number() -> None:
    snapped = 0
    for seed in range(count(10, 1500)):
        robot = special_robot(seed)
        rounded = as_urdf(robot, np.random.default_rng((seed, 11)))
        base = md.base_parameters(rounded)
        assert base.rank == md.base_parameters(robot).rank, seed
        known = {"base.snapped_geometry", "base.geometry_understood"}
        assert {notice.code for notice in base.notices} <= known, seed
        for notice in base.notices:
            if notice.code != "base.snapped_geometry":
                continue
            assert notice.data["rank"] == base.rank != notice.data["rank_as_written"]
            snapped += 1
        # the relations are those of the geometry that is meant: the rounding of the file is what is
        # left
        require_same_torque(rounded, base, seed, 1e-3)
    assert snapped


@pytest.mark.parametrize("method", ["qr", "svd", "mlc", "rules+qr"])
def test_other_methods_give_the_same_number(method: str) -> None:
    for seed in range(count(5, 300)):
        robot = special_robot(seed)
        rounded = as_urdf(robot, np.random.default_rng((seed, 11)))
        base = md.base_parameters(rounded, method)
        unclear = any(notice.code == "base.rank_unclear" for notice in base.notices)
        assert base.rank == md.base_parameters(robot).rank or unclear, seed


def test_singular_values_where_rounding_makes_v22_singular() -> None:
    """As written this robot has relations so close to others that V22 cannot be solved with; R1
    can.
    """
    robot = special_robot(139)
    base = md.base_parameters(as_urdf(robot, np.random.default_rng((139, 11))), "svd")
    assert base.rank == md.base_parameters(robot).rank


@pytest.mark.parametrize("model", ["gravity", "inertia", "energy"])
def test_other_models_and_held_joints_in_turned_frames(model: str) -> None:
    for seed in range(count(4, 200)):
        robot = special_robot(seed).with_drives(friction=())
        other = turned(robot, np.random.default_rng((seed, 12)))
        assert (
            md.base_parameters(other, model=model).rank
            == md.base_parameters(robot, model=model).rank
        ), seed
        some = robot.joint_names[::2]
        held, base = (md.base_parameters(r, joints=some) for r in (other, robot))
        assert held.rank == base.rank, seed


def test_columns_and_order_in_turned_frames() -> None:
    robot = turned(md.load("puma560", rotor_inertia=False), np.random.default_rng(3))
    base = md.base_parameters(robot)
    assert base.rank == md.base_parameters(md.load("puma560", rotor_inertia=False)).rank
    wanted = md.base_parameters(robot, order=("ZZ6", "MZ6"))
    assert {"ZZ6", "MZ6"} <= set(wanted.kept)
    assert wanted.rank == base.rank
    md.equivalence(base, wanted)
    last = [name for name in robot.layout.names if name.endswith("6")]
    some = md.base_parameters(robot, columns=last)
    assert some.rank == np.linalg.matrix_rank(
        base.matrix[:, list(robot.layout.indices(last))], tol=1e-9
    )


# ---------------------------------------------------------------- known answers


def test_planar_arm_in_turned_frames() -> None:
    robot = Robot.from_mdh("RR", [0, 0], [0, 0.4], gravity=DOWN)
    turn = (Step("rz", 0.3), Step("ry", 0.2), Step("rx", 0.1))
    first, second = robot.joints
    seen = steps_from_matrix(matrix_of((*inverse_steps(turn), *second.before)), "test")
    hidden = replace(
        robot, joints=(replace(first, after=turn), replace(second, before=seen, after=turn))
    )
    for method in ("exact", "qr", "svd", "mlc", "rules+qr"):
        assert md.base_parameters(hidden, method).rank == 4
    require_same_torque(hidden, md.base_parameters(hidden), 0)


def test_rounding_of_gravity_is_no_geometry() -> None:
    robot = md.load("puma560")
    base = md.base_parameters(replace(robot, gravity=np.array([0.0, 1.2e-15, -9.81])))
    assert base.rank == 40
    assert base.notices == ()
    assert base.kept == md.base_parameters(robot).kept
    require_same_torque(base.robot, base, 0)


def tilted(angle: float) -> Robot:
    """Return a planar 3R whose second axis leans by an angle."""
    robot = Robot.from_mdh("RRR", [0, 0, 0], [0, 0.4, 0.3], gravity=DOWN)
    first, second, third = robot.joints
    second = replace(second, before=(Step("rx", angle), *second.before))
    return replace(robot, joints=(first, second, third))


@pytest.mark.parametrize("method", ["exact", "qr", "svd", "mlc", "rules+qr"])
def test_nearly_parallel_axes_are_said(method: str) -> None:
    for angle in (1e-7, 1e-6, 9e-6):
        base = md.base_parameters(tilted(angle), method)
        notice = next(n for n in base.notices if n.code == "base.snapped_geometry")
        assert base.rank == notice.data["rank"] == 7
        as_written = md.base_parameters(tilted(angle), method, tolerance=0).rank
        # floating point alone cannot tell the smallest of them
        assert 7 < as_written <= 15 if method in ("qr", "svd", "rules+qr") else as_written == 15
        assert notice.data["rank_as_written"] == as_written
        ((one, two, kind, off, unit),) = notice.data["relations"]
        assert (one, two, kind, unit) == ("joint1", "joint2", "parallel", "rad")
        assert math.isclose(off, angle, rel_tol=1e-6)
        assert "joint1" in notice.text
    for angle in (1.1e-5, 1.1e-4, 9e-4):
        base = md.base_parameters(tilted(angle), method)
        notice = next(n for n in base.notices if n.code == "base.nearly_special")
        assert (base.rank, notice.data["rank"], notice.data["rank_if_special"]) == (15, 15, 7)
        assert md.base_parameters(tilted(angle), method, tolerance=notice.data["needed"]).rank == 7
    assert all(
        n.code != "base.nearly_special" for n in md.base_parameters(tilted(0.01), method).notices
    )


def test_a_number_as_written_that_floating_point_does_not_see() -> None:
    robot = special_robot(833)
    base = md.base_parameters(as_urdf(robot, np.random.default_rng((833, 11))))
    notice, understood = base.notices
    assert notice.code == "base.snapped_geometry"
    assert understood.code == "base.geometry_understood"
    assert base.rank == md.base_parameters(robot).rank < notice.data["rank_as_written"]


def test_nearly_parallel_axes_with_a_normal_far_away() -> None:
    """Frames on the common normal would be kilometres away and cost the digits of everything
    near.
    """
    robot = as_urdf(special_robot(1424), np.random.default_rng((1424, 11)))
    base = md.base_parameters(robot)
    assert (base.rank, [n.code for n in base.notices]) == (42, SNAPPED)
    require_same_torque(canonical(robot, 1e-5).in_own_frames(), base, 1424)
    for seed in range(count(8, 400)):
        rng = np.random.default_rng((seed, 13))
        robot = special_robot(seed)
        joints = list(robot.joints)
        lean = (Step("rx", 10.0 ** rng.uniform(-6, -3)), Step("ry", 10.0 ** rng.uniform(-6, -3)))
        which = int(rng.integers(len(joints)))
        joints[which] = replace(joints[which], before=(*lean, *joints[which].before))
        other = turned(replace(robot, joints=tuple(joints)), rng)
        found = canonical(other, ROUNDING)
        assert np.abs(found.frames[:, :3, 3]).max() < 1e3, seed
        base = md.base_parameters(other, tolerance=0.0)
        assert not {"base.counts_differ", "base.wrong_relations"} & {
            n.code for n in base.notices
        }, seed


def test_counts_that_agree_are_never_said_to_differ() -> None:
    robot = turned(md.load("puma560", rotor_inertia=False), np.random.default_rng(4))
    question = Question.of(robot)
    good = md.base_parameters(robot)
    wrong = replace(good, K=good.K * (1.0 + 1e-6))
    units, W = observed_rows(question, 0, many=True)
    base = _confirmed(wrong, question, canonical(robot, ROUNDING), 0, W, units)
    assert base.notices == ()
    assert base.rank == good.rank
    require_same_torque(robot, base, 4)  # refined


def test_gravity_nearly_along_the_axis() -> None:
    robot = Robot.from_mdh("R", [0], gravity=(0.0, 9.81e-6, -9.81))
    base = md.base_parameters(robot)
    assert (base.rank, [n.code for n in base.notices]) == (1, SNAPPED)
    assert base.notices[0].data["relations"][0][0] == "gravity"
    assert md.base_parameters(robot, tolerance=0.0).rank == 3


def test_short_lengths_stay() -> None:
    """A wrist offset of 0.2 mm in an arm of 0.4 m is geometry; one of 0.1 µm is rounding."""
    ranks = []
    for offset in (0.0, 1e-7, 2e-4):
        robot = Robot.from_mdh("RRR", [0, math.pi / 2, 0], [0, 0.4, offset], gravity=DOWN)
        ranks.append(md.base_parameters(robot).rank)
    assert ranks[0] == ranks[1] <= ranks[2]


def test_tolerance_is_checked() -> None:
    for wrong in (-1.0, 1.0, "small"):
        with pytest.raises(MinidynError, match="tolerance"):
            md.base_parameters("puma560", tolerance=wrong)  # type: ignore[arg-type]
