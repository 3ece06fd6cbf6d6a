"""Composite bodies at a configuration, and the sets of inertia matrix and gravity, against other
algorithms.
"""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import special_chain

import minidyn as md
from conftest import count
from minidyn.arrays import Array
from minidyn.errors import ShapeError, Unsupported
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.placements import tree_pose
from minidyn.model.robot import Robot
from robot_cases import formula_robot, random_robot


def robots(seed: int) -> Robot:
    """A chain with special geometry, or a tree in frames of its own, without drives."""
    if seed % 2:
        return special_chain(seed, 6)
    rng = np.random.default_rng(seed)
    return random_robot(rng, 5, drives=False, special=seed % 4 == 0, branches=seed % 3 > 0)


def pseudo_inertia(ten: Array) -> Array:
    """(4, 4): second moments, first moments and mass. A change of frame is T P Tᵀ."""
    XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = ten
    half = (XX + YY + ZZ) / 2
    P = np.array(
        [
            [half - XX, -XY, -XZ, MX],
            [-XY, half - YY, -YZ, MY],
            [-XZ, -YZ, half - ZZ, MZ],
            [MX, MY, MZ, M],
        ]
    )
    return np.asarray(P)


def composites_by_summing(robot: Robot, q: Array) -> list[tuple[float, Array, Array]]:
    """Mass, first moment and inertia of every subtree, summed link by link through poses in
    space.
    """
    pose = tree_pose(robot, q)
    found = []
    for index in range(len(robot.joints)):
        total = np.zeros((4, 4))
        for other, part in enumerate(robot.layout.links):
            ancestor = other
            while ancestor > index:
                ancestor = robot.joints[ancestor].parent
            if ancestor == index:
                T = np.linalg.inv(pose.links[index]) @ pose.links[other]
                total += T @ pseudo_inertia(robot.parameters[part]) @ T.T
        E = total[:3, :3]
        found.append((total[3, 3], total[:3, 3], np.trace(E) * np.eye(3) - E))
    return found


@pytest.mark.parametrize("seed", range(count(30, 600)))
def test_composite_bodies_are_sums_over_links(seed: int) -> None:
    robot = robots(seed)
    changed, T = to_mdh(robot)
    there = changed.with_parameters(T @ robot.parameters)
    q = np.random.default_rng(seed).uniform(-2, 2, (2, robot.n))
    for version in ("1992", "1999"):
        bodies = md.papers.composite_bodies_at(robot, q, version)
        constants = md.papers.inertia_constants(robot, version)
        for row in range(2):
            expected = composites_by_summing(there, q[row])
            assert len(expected) == len(bodies)
            scale = 1.0 + max(float(np.abs(J).max()) for _, _, J in expected)
            for body, fixed, (mass, c, J) in zip(bodies, constants, expected):
                assert abs(body.mass - mass) < 1e-11 * scale
                assert np.abs(body.c[row] - c).max() < 1e-11 * scale
                assert np.abs(body.J[row] - J).max() < 1e-11 * scale
                assert np.abs(body.c[row] - body.l[row] - fixed.k).max() < 1e-11 * scale
                assert np.abs(body.J[row] - body.V[row] - fixed.U).max() < 1e-11 * scale
    tips = set(range(len(changed.joints))) - {joint.parent for joint in changed.joints}
    assert all(not bodies[k].l.any() and not bodies[k].V.any() for k in tips)


def test_misuse_is_explained() -> None:
    with pytest.raises(ShapeError, match="expected shape"):
        md.papers.composite_bodies_at(special_chain(1), [0.0] * 20)
    with pytest.raises(Unsupported):
        md.papers.composite_bodies_at(formula_robot(), np.zeros(formula_robot().n))


@pytest.mark.parametrize("seed", range(count(24, 500)))
def test_the_sets_of_inertia_matrix_and_gravity_make_up_that_of_torques(seed: int) -> None:
    """Lin1994 Theorem 2: w_I = [rest; 0] + [P1; P2] w_S, and rest with w_S is a set of torques."""
    robot = robots(seed)
    for version in ("1992", "1999"):
        parts = md.papers.inertia_and_gravity(robot, version)
        w_I, w_S = parts.inertia.matrix, parts.gravity.matrix
        size = 1.0 + float(np.abs(w_I).max(initial=0.0))
        assert sorted((*parts.first, *parts.second)) == list(range(len(w_I)))
        assert (
            np.abs(w_I[list(parts.first)] - parts.rest - parts.P1 @ w_S).max(initial=0.0)
            < 1e-9 * size
        )
        assert np.abs(w_I[list(parts.second)] - parts.P2 @ w_S).max(initial=0.0) < 1e-9 * size
        exact = md.base_parameters(
            robot
        )  # another algorithm, which knows nothing of composite bodies
        assert len(parts.rest) + parts.gravity.rank == exact.rank
        if exact.rank:
            assert md.equivalence(
                exact, np.concatenate([parts.rest, w_S]), tolerance=1e-8
            ).equivalent
        assert parts.inertia.rank == md.base_parameters(robot, "qr", model="inertia").rank
        assert parts.gravity.rank == md.base_parameters(robot, "qr", model="gravity").rank


def test_p1_of_axes_that_meet_in_a_point() -> None:
    """A wrist: the inertia matrix alone shows U13 only about the point where the axes meet.

    Gravity shows k.
    """
    right = np.pi / 2
    robot = Robot.from_mdh("RRR", [0.0, right, -right], d=[0.0, 0.0, 0.4], gravity=[1.0, 2.0, -9.0])
    parts = md.papers.inertia_and_gravity(robot)
    names = [parts.inertia.names[k] for k in parts.first]
    assert {"U13h_3", "U23h_3"} <= set(names)
    row, column = names.index("U13h_3"), parts.gravity.names.index("k3x")
    assert parts.P1[row, column] == pytest.approx(-0.4)
    assert parts.rest_names[row] == "U13_3"
    assert np.count_nonzero(parts.P1[row]) == 1
    frame = parts.to_pandas()
    assert len(frame) == parts.inertia.rank


def test_what_both_need_is_in_p2() -> None:
    parts = md.papers.inertia_and_gravity(md.load("puma560"))
    assert [parts.inertia.names[k] for k in parts.second] == [
        name for name in parts.inertia.names if name in parts.gravity.names
    ]
    assert np.array_equal(np.abs(parts.P2).sum(axis=1), np.ones(len(parts.second)))
