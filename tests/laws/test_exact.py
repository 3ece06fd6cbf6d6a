"""Exact base parameters on robots of every kind.

The right count, the right relations, whatever the units.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from base_robots import rescaled, special_robot
from numpy.typing import NDArray

import minidyn as md
from conftest import count
from minidyn.base.exact.angles import AngleBasis, with_right_angles
from minidyn.base.exact.prime import (
    PRIMES,
    UNITS,
    Field,
    chinese_remainder,
    echelon,
    exact_fraction,
    rational,
)
from minidyn.errors import MinidynError, UnknownName
from minidyn.model.geometry import Step, matrix_of, steps_from_matrix
from minidyn.model.joint import Follow
from minidyn.model.robot import Robot
from robot_cases import robot_of_seed

# Gautier's d0 by its old name
Array = NDArray[np.float64]
RIGHT = math.pi / 2
DOWN = (0.0, 0.0, -9.81)


def states(robot: Robot, samples: int, seed: int, turns: float = 1.0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng((seed, 7))
    q = rng.uniform(-math.pi, math.pi, (samples, robot.n)) * turns
    return q, *rng.uniform(-3.0, 3.0, (2, samples, robot.n))


def require_same_torque(robot: Robot, base: md.BaseMap, seed: int) -> None:
    """Base columns times base values must be the torque, on random values of every standard
    parameter.
    """
    phi = np.random.default_rng((seed, 8)).normal(size=len(robot.layout))
    q, dq, ddq = states(robot, 8, seed)
    Y = md.regressor(robot, q, dq, ddq)
    kept = Y[..., list(robot.layout.indices(base.kept))]
    tau, small = Y @ phi, kept @ base.values(phi)
    assert np.abs(tau - small).max() <= 1e-9 * max(
        1.0, np.abs(tau).max(), np.abs(kept * base.values(phi)).max()
    )


def singular_values(robot: Robot, seed: int) -> Array:
    """Singular values of the regressor, columns of one length, straight from its definition."""
    followers = any(joint.follows for joint in robot.joints)
    q, dq, ddq = states(
        robot, max(24, 4 * len(robot.layout) // robot.n), seed, 10.0 if followers else 1.0
    )
    W = md.regressor(robot, q, dq, ddq).reshape(-1, len(robot.layout))
    norms = np.linalg.norm(W, axis=0)
    used = norms > 1e-11 * norms.max()
    return np.linalg.svd(W[:, used] / norms[used], compute_uv=False)


CASES = [(special_robot, seed) for seed in range(count(60, 2000))] + [
    (robot_of_seed, seed) for seed in range(count(25, 600))
]


@pytest.mark.parametrize("part", range(4))
def test_rank_and_torque_on_random_robots(part: int) -> None:
    for make, seed in CASES[part::4]:
        robot = make(seed)
        base = md.base_parameters(robot, seed=seed)
        assert base.notices == (), (make.__name__, seed)
        sigma = singular_values(robot, seed)
        assert int(np.count_nonzero(sigma > 1e-11 * sigma.max(initial=0.0))) == base.rank, (
            make.__name__,
            seed,
        )
        require_same_torque(robot, base, seed)


@pytest.mark.parametrize("part", range(2))
def test_three_models_agree_without_friction(part: int) -> None:
    for seed in range(part, count(20, 400), 2):
        robot = special_robot(seed).with_drives(friction=())
        torque, static, energy = (
            md.base_parameters(robot, model=model) for model in ("torque", "zero_speed", "energy")
        )
        assert torque.kept == static.kept == energy.kept, seed
        assert torque.eliminated == static.eliminated == energy.eliminated, seed
        for other in (static, energy):
            np.testing.assert_allclose(other.K, torque.K, rtol=1e-8, atol=1e-9)
            T = md.equivalence(torque, other)
            np.testing.assert_allclose(T, np.eye(torque.rank), atol=1e-8)


def test_numeric_methods_agree() -> None:
    cases = [(special_robot, seed) for seed in range(count(20, 500))]
    for make, seed in cases + [
        (robot_of_seed, seed) for seed in range(count(14, 300))
    ]:  # followers by fiftieths, too
        robot = make(seed)
        exact = md.base_parameters(robot)
        for method in ("qr", "svd"):
            other = md.base_parameters(robot, method)
            require_same_torque(robot, other, seed)
            if not other.notices:  # base.rank_unclear
                assert other.rank == exact.rank, (make, seed, method)
                md.equivalence(exact, other)


# ---------------------------------------------------------------- cases with known answers


def ranked(
    joints: str,
    alpha: list[float],
    a: list[float] | None = None,
    gravity: object = DOWN,
    **more: object,
) -> int:
    robot = Robot.from_mdh(joints, alpha, a, gravity=gravity, **more)  # type: ignore[arg-type]
    return md.base_parameters(robot).rank


def test_small_cases_of_the_errata() -> None:
    assert ranked("PR", [0.7, -0.7]) == 4  # oblique P before a vertical R
    assert ranked("RR", [0, 0], [0, 0.4]) == 4
    assert ranked("RR", [0, 0]) == 2
    assert ranked("RP", [0, 0]) == 2
    assert ranked("RP", [0, 0.7]) == 4
    zero = (0, 0, 0)
    assert ranked("RR", [0, RIGHT], gravity=zero) == 6
    assert ranked("RRR", [0, RIGHT, -RIGHT], gravity=zero) == 11
    assert ranked("RRR", [0, RIGHT, -RIGHT]) == 15
    assert ranked("P", [0]) == 1
    assert ranked("PPP", [0, RIGHT, RIGHT]) == 3


def test_supplementary_and_opposite_angles_keep_axes_parallel() -> None:
    assert ranked("RR", [0.4, 0.0], [0, 0.3]) == ranked("RR", [0.4, math.pi], [0, 0.3]) == 6
    parallel, crossed = [0, 0.4, -0.4], [0, 0.4, -0.41]
    P = [0.0, 0.3, 0.2]
    assert ranked("RPR", parallel, P) < ranked("RPR", crossed, P)
    for tilt in (0.4, math.radians(45), math.radians(60), math.radians(37.5), 1e-3):
        robot = Robot.from_mdh("RPR", [0, tilt, math.pi - tilt], P, gravity=DOWN)
        assert md.base_parameters(robot).rank == ranked("RPR", parallel, P), tilt


def test_full_rank_nothing_regrouped_and_rank_zero() -> None:
    robot = Robot.from_mdh("RR", [0, RIGHT], [0, 0.3])
    some = md.base_parameters(robot, columns=("ZZ1", "XX2", "XY2"))
    assert (some.rank, some.regrouped, some.K.shape) == (3, (), (3, 0))
    assert len(some.eliminated) == len(robot.layout) - 3
    none = md.base_parameters(robot, columns=("XX1", "M1"))
    assert (none.rank, none.matrix.shape) == (0, (0, 20))
    held = md.base_parameters(robot, joints=())
    assert held.rank == 0
    assert set(held.statuses.values()) == {
        "no effect: link 'link1' does not move",
        "no effect: link 'link2' does not move",
    }
    np.testing.assert_array_equal(held.minimum_norm(np.ones(20)), np.zeros(20))


def test_joints_held_are_bolted() -> None:
    """With joints 2 and 3 alone, the answer is that of the two-joint robot that is left, joint 1 in
    any position.
    """
    puma = md.load("puma560", rotor_inertia=False)
    two = md.base_parameters(puma, joints=("joint2", "joint3"))
    # a planar arm in a vertical plane: ZZ, MX, MY of two links
    assert two.kept == ("ZZ2", "MX2", "MY2", "ZZ3", "MX3", "MY3")
    for method in ("qr", "svd"):
        assert md.base_parameters(puma, method, joints=("joint2", "joint3")).kept == two.kept
    assert "does not move" in two.statuses["XX1"]


def test_gravity_tilt_and_load_change_what_is_seen() -> None:
    puma = md.load("puma560")
    assert md.base_parameters(puma.with_gravity((1, 2, 3))).rank == 42
    tilted = replace(puma, base=tuple(steps_from_matrix(np.diag([1.0, -1.0, -1.0, 1.0]), "base")))
    assert md.base_parameters(tilted).rank == 40
    loaded = md.base_parameters(puma.with_load())
    assert loaded.rank == 40
    assert [name for name in loaded.kept if name.endswith("7")] == []
    known = md.base_parameters(
        puma.with_load(), columns=[f"{s}7" for s in ("XX", "YY", "ZZ", "MX", "MY", "MZ", "M")]
    )
    assert known.rank == 7  # with the arm known, a load on the last link is seen whole


def test_friction_takes_part_in_torque_only() -> None:
    robot = md.load("puma560", friction=("viscous", "coulomb", "offset"))
    assert md.base_parameters(robot).rank == 40 + 18
    for model in ("zero_speed", "energy"):
        base = md.base_parameters(robot, model=model)
        assert base.rank == 40
        assert base.statuses["Fv1"] == f"no effect: friction takes no part in the {model} model"
        assert base.notices[0].code == "base.friction_left_out"


def follower(ratio: float, kinds: str = "RR", friction: object = ()) -> Robot:
    robot = Robot.from_mdh(kinds, [RIGHT, 0], [0, 0.3], rotor_inertia=True, friction=friction)  # type: ignore[arg-type]
    first, second = robot.joints
    return replace(
        robot, joints=(first, replace(second, follows=Follow(((first.name, ratio),), 0.2)))
    )


@pytest.mark.parametrize("ratio", [1.0, -1.0, 2.0, 0.5, -1.5, 1 / 3, 0.7310584, -0.02, 50.5])
@pytest.mark.parametrize("kinds", ["RR", "RP", "PR", "PP"])
def test_followers(kinds: str, ratio: float) -> None:
    robot = follower(ratio, kinds)
    base = md.base_parameters(robot)
    q, dq, ddq = states(robot, 200, 3, 300.0 if abs(ratio) < 1 else 10.0)
    W = md.regressor(robot, q, dq, ddq)[:, 0]
    norms = np.linalg.norm(W, axis=0)
    sigma = np.linalg.svd(
        W[:, norms > 1e-12 * norms.max()] / norms[norms > 1e-12 * norms.max()], compute_uv=False
    )
    assert base.rank == int(np.count_nonzero(sigma > 1e-10))
    require_same_torque(robot, base, 1)


def test_friction_of_a_follower_merges_with_its_leader() -> None:
    base = md.base_parameters(follower(-0.5, friction=("viscous", "coulomb", "offset")))
    columns = {name: dict(zip(base.kept, base.K[:, k])) for k, name in enumerate(base.regrouped)}
    assert columns["Fv2"]["Fv1"] == 0.25
    assert columns["Fc2"]["Fc1"] == 0.5
    assert columns["Fo2"]["Fo1"] == -0.5
    require_same_torque(base.robot, base, 2)


def test_units_do_not_matter() -> None:
    for seed in range(count(15, 200)):
        robot = special_robot(seed)
        base = md.base_parameters(robot)
        for length in (1000.0, 0.001):
            other = md.base_parameters(rescaled(robot, length))
            assert other.kept == base.kept, seed
            assert other.eliminated == base.eliminated, seed
            assert np.array_equal(other.K != 0, base.K != 0), seed


def test_other_orders_of_preference() -> None:
    robot = md.load("puma560")
    base = md.base_parameters(robot)
    wanted = ("YY2", "Ia1", "M6")
    other = md.base_parameters(robot, order=wanted)
    assert set(wanted) <= set(other.kept)
    assert other.rank == base.rank
    md.equivalence(base, other)
    last = md.base_parameters(robot, order=lambda column: -column.index)
    assert "M6" in last.kept
    assert "ZZ1" in last.regrouped
    md.equivalence(last, base)
    require_same_torque(robot, last, 1)


def test_seeds_give_one_answer() -> None:
    robot = special_robot(11, size=6)
    first = md.base_parameters(robot)
    for seed in range(1, 6):
        other = md.base_parameters(robot, seed=seed)
        assert other.kept == first.kept
        np.testing.assert_allclose(other.K, first.K, atol=1e-10)


def test_relations_that_are_fractions_are_exact() -> None:
    base = md.base_parameters(md.load("panda"))
    matrix = dict(zip(base.kept, base.K))
    assert matrix["MX4"][base.regrouped.index("M5")] == -0.0825
    assert np.all((base.K == 0) | (np.abs(base.K) > 1e-6))


def test_wrong_requests() -> None:
    robot = md.load("puma560")
    with pytest.raises(UnknownName, match="exact"):
        md.base_parameters(robot, "exactt")
    with pytest.raises(UnknownName, match="torque"):
        md.base_parameters(robot, model="torques")
    with pytest.raises(UnknownName, match="joint6"):
        md.base_parameters(robot, joints=("joint0",))
    with pytest.raises(UnknownName, match="ZZ6"):
        md.base_parameters(robot, columns=("ZZ0",))
    with pytest.raises(UnknownName, match="ZZ6"):
        md.base_parameters(robot, order=("ZZ0",))
    with pytest.raises(MinidynError, match="scaling"):
        md.base_parameters(robot, scaling="paper")
    with pytest.raises(
        MinidynError,
        match="robot: expected a Robot, a built-in robot's name or a robot file's path",
    ):
        md.base_parameters(3)  # type: ignore[arg-type]
    assert md.base_parameters("puma560").kept == md.base_parameters(robot).kept


# ---------------------------------------------------------------- the arithmetic


def test_primes_have_the_points_they_need() -> None:
    for p in PRIMES:
        assert p < 2**26
        assert p % UNITS == 1
        assert all(pow(a, p - 1, p) == 1 for a in (2, 3, 5, 7, 11, 13))
        assert all(p % k for k in range(2, 8200))


def test_points_of_the_circle() -> None:
    field = Field(PRIMES[:2], 5, np.random.default_rng(0))
    c, s = field.cos_sin(field.points(1)[0])
    assert (c * c + s * s).value.tolist() == [[1] * 5] * 2
    cosine, sine = field.cos_sin(field.unit_point(120))  # 60 degrees
    assert (cosine * 2).value.tolist() == [[1], [1]]
    assert (sine * sine * 4).value.tolist() == [[3], [3]]
    x = field.random()
    assert ((x - 3 + 0.5 * x) - (1.5 * x - 3)).value.any() == 0
    assert (x * x.inverse()).value.tolist() == [[1] * 5] * 2
    assert 0 * x == 0


def test_decimals_are_read_as_fractions() -> None:
    assert exact_fraction(0.1 + 0.2) == exact_fraction(0.3)
    assert exact_fraction(1 / 3).denominator == 3
    assert exact_fraction(0.4318) * 10000 == 4318
    assert exact_fraction(0.123456789012345) != exact_fraction(0.123456789012346)


def test_sums_of_angles_are_found_and_none_are_invented() -> None:
    a, b = 0.3217, 0.7411
    basis = AngleBasis()
    for angle in (
        a,
        b,
        -a,
        math.pi - a,
        RIGHT - b,
        a + b,
        2 * a - b,
        a / 2,
        b / 3 + math.pi / 12,
        math.radians(22.5),
    ):
        found = basis.express(angle)
        value = found.units * 2 * math.pi / UNITS + sum(
            sixths * basis.basis[k] / 6 for k, sixths in found.terms
        )
        assert abs(math.remainder(value - angle, 2 * math.pi)) < 1e-9
    assert basis.basis == [a, b]
    rng = np.random.default_rng(1)
    assert len(AngleBasis(rng.uniform(-3, 3, 40)).basis) == 40
    assert len(AngleBasis([0.3, 0.3 + 1e-7]).basis) == 2


def test_right_angles_hidden_in_roll_pitch_yaw() -> None:
    robot = Robot.from_mdh("RR", [0, 0.3], [0, 0.2])
    hidden = steps_from_matrix(matrix_of((Step("rx", 0.7), Step("rz", 0.4))), "test")  # R_13 = 0
    assert sum(step.is_turn for step in hidden) == 3
    joint = replace(robot.joints[1], before=hidden)
    shown = with_right_angles(replace(robot, joints=(robot.joints[0], joint))).joints[1].before
    np.testing.assert_allclose(matrix_of(shown), matrix_of(hidden), atol=1e-12)
    oblique = [
        math.remainder(step.value, RIGHT)
        for step in shown
        if abs(math.remainder(step.value, RIGHT)) > 1e-9
    ]
    assert sorted(oblique) == pytest.approx([0.4, 0.7])


def test_elimination_modulo_a_prime() -> None:
    rng = np.random.default_rng(2)
    field = Field(PRIMES[:2], 30, rng)
    free = np.stack([column.value for column in field.randoms(4)], axis=-1)
    mixed = field.reduced(free[..., :1] * 3 + free[..., 1:2] * 5)
    matrix = np.concatenate([free[..., :3], mixed, free[..., 3:]], axis=-1)
    form = echelon(matrix[:, :10], field)
    assert form is not None
    assert (form.pivots, form.others) == ([0, 1, 2, 4], [3])
    assert form.K[..., 0].tolist() == [[3, 5, 0, 0]] * 2
    assert form.explains(matrix[:, 10:])
    matrix[0, 17, 3] += 1.0  # one row of one prime that does not obey
    assert not form.explains(matrix[:, 10:])


def test_elimination_of_many_columns_stays_exact() -> None:
    """More products are added up than fit into a double: remainders are taken in time."""
    field = Field(PRIMES[:3], 200, np.random.default_rng(4))
    left, right = (
        np.stack([column.value for column in field.randoms(60)], axis=-1) for _ in range(2)
    )
    product = np.zeros((3, 200, 120))
    for k in range(60):
        product[:, :, :60] = field.reduced(
            product[:, :, :60] + left[:, :, k, None] * right[:, None, k, :]
        )
    product[:, :, 60:] = left[:, :, ::-1]
    form = echelon(product[:, :180], field)
    assert form is not None
    assert form.explains(product[:, 180:])
    assert (form.pivots, form.others) == (list(range(60)), list(range(60, 120)))
    check = np.zeros((3, 200, 60))
    for k in range(60):
        check = field.reduced(check + product[:, :, k, None] * form.K[:, None, k, :])
    assert not field.reduced(check - product[:, :, 60:]).any()


def test_fractions_from_residues() -> None:
    primes = PRIMES[:3]
    for a, b in ((29, 100), (-5, 12), (1, 1), (0, 1), (-12345, 67891)):
        x, modulus = chinese_remainder([a * pow(b, -1, p) % p for p in primes], primes)
        assert rational(x, modulus) == (a, b)
    rng = np.random.default_rng(3)
    accidents = sum(rational(int(x), modulus) is not None for x in (rng.random(2000) * modulus))
    assert accidents <= 2


@pytest.mark.parametrize("size", [30])
def test_a_tree_of_thirty_joints(size: int) -> None:
    rng = np.random.default_rng(5)
    parent = [int(rng.integers(max(0, k - 3), k + 1)) for k in range(size)]
    angles = rng.choice([0.0, RIGHT, -RIGHT, 0.3, -0.3], size)
    robot = Robot.from_mdh(
        "R" * size, angles, rng.uniform(0, 0.5, size).round(3), parent=parent, rotor_inertia=True
    )
    base = md.base_parameters(robot)
    assert base.notices == ()
    phi = rng.normal(size=len(robot.layout))
    q, dq, ddq = states(robot, 4, 5)
    from minidyn.base.numeric.samples import JointStates, model_rows

    Y = model_rows(robot, "torque", JointStates(q, dq, ddq))
    small = Y[..., list(robot.layout.indices(base.kept))] @ base.values(phi)
    np.testing.assert_allclose(small, Y @ phi, rtol=0, atol=1e-8 * np.abs(Y @ phi).max())
