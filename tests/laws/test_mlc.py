"""The closed-form rule gives as many combinations as the exact method, and the same ones, on every
chain and tree.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from random_robots import looped_robot

import minidyn as md
from conftest import count
from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.closed_form.structure import structure_of
from minidyn.base.numeric.samples import JointStates, model_rows, units_of
from minidyn.base.printing.symbols import symbolic_rows
from minidyn.dynamics.mdh_chain import poses, stands
from minidyn.dynamics.papers.composite import (
    Composite,
    Constants,
    inertia_constants_of,
    moment_product,
    varying_parts,
)
from minidyn.dynamics.vectors import add, plus
from minidyn.errors import UnknownName, Unsupported
from minidyn.model.geometry import Step
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.mdh_rows import mdh_rows
from minidyn.model.placements import tree_pose
from minidyn.model.robot import Robot
from mlc_cases import any_frames, chain_of_seed, tree_of_seed
from robot_cases import random_state

Array = NDArray[np.float64]
VERSIONS = ("1992", "1999")
BLOCK = 10  # random robots in one test case


def blocks(sample: int, full: int) -> pytest.MarkDecorator:
    """Parametrize over blocks of seeds."""
    return pytest.mark.parametrize("block", range(-(-count(sample, full) // BLOCK)))


def seeds(block: int) -> range:
    return range(block * BLOCK, (block + 1) * BLOCK)


def require_same(robot: Robot, by_rule: BaseMap, other: BaseMap) -> None:
    """Require equal size and equal span (Lin1994 Corollary 6), both ways."""
    assert by_rule.rank == other.rank, (
        f"{robot.name}: rule {by_rule.rank}, {other.method} {other.rank}"
    )
    if by_rule.rank:
        there, back = md.equivalence(by_rule, other), md.equivalence(other, by_rule)
        units = units_of(robot).parameters
        error = (there @ back - np.eye(other.rank)) @ other.matrix * units
        assert np.abs(error).max() < 1e-7 * max(1.0, float(np.abs(other.matrix * units).max())), (
            robot.name
        )


# ---------------------------------------------------------------- size and span


@blocks(150, 5000)
def test_chains(block: int) -> None:
    for seed in seeds(block):
        robot = chain_of_seed(seed)
        require_same(robot, md.base_parameters(robot, method="mlc"), md.base_parameters(robot))


@blocks(60, 2000)
def test_trees(block: int) -> None:
    for seed in seeds(block):
        robot = tree_of_seed(seed)
        require_same(robot, mlc_base(robot, VERSIONS[seed % 2]), md.base_parameters(robot))


@blocks(80, 2000)
def test_rotors_and_friction(block: int) -> None:
    for seed in seeds(block):
        robot = (chain_of_seed if seed % 2 else tree_of_seed)(seed, drives=True)
        require_same(robot, mlc_base(robot, VERSIONS[seed // 2 % 2]), md.base_parameters(robot))


@blocks(50, 1000)
def test_any_frames(block: int) -> None:
    for seed in seeds(block):
        robot = any_frames(seed)
        base = mlc_base(robot, VERSIONS[seed % 2])
        require_same(robot, base, md.base_parameters(robot))
        q, dq, ddq = random_state(robot, np.random.default_rng(seed), 3)
        tau = md.inverse_dynamics(robot, q, dq, ddq)
        Y = md.base_regressor(robot, q, dq, ddq, base=base)
        assert np.abs(Y @ base.values() - tau).max(initial=0.0) < 1e-9 * max(
            1.0, float(np.abs(tau).max())
        )


@blocks(30, 300)
def test_numeric_method(block: int) -> None:
    for seed in seeds(block):
        robot = chain_of_seed(seed)
        other = md.base_parameters(robot, method="svd")
        if other.gap > 1e5:
            require_same(robot, mlc_base(robot), other)


@blocks(60, 2000)
def test_inertia_matrix_alone(block: int) -> None:
    for seed in seeds(block):
        robot = (chain_of_seed if seed % 2 else tree_of_seed)(seed, drives=seed % 3 == 0)
        friction = {column.name for column in robot.layout.columns if column.is_friction}
        rest = [name for name in robot.layout.names if name not in friction]
        weightless = replace(robot, gravity=np.zeros(3))
        found = mlc_base(robot, for_="inertia")
        require_same(robot, found, md.base_parameters(weightless, columns=rest))
        assert friction <= set(found.eliminated)


@blocks(60, 2000)
def test_gravity_load_alone(block: int) -> None:
    for seed in seeds(block):
        robot = (chain_of_seed if seed % 2 else tree_of_seed)(seed)
        base = mlc_base(robot, for_="gravity")
        rng = np.random.default_rng(seed)
        q = rng.uniform(-3, 3, (3 * len(robot.layout) // robot.n + 10, robot.n))
        still = np.zeros_like(q)
        W = model_rows(robot, "torque", JointStates(q, still, still)).reshape(-1, len(robot.layout))
        W *= units_of(robot).parameters
        _, values, V = np.linalg.svd(W, full_matrices=False)
        rank = int(np.sum(values > 1e-9 * max(float(values[0]), 1.0)))
        assert base.rank == rank, robot.name
        rows = base.matrix * units_of(robot).parameters
        outside = rows - rows @ V[:rank].T @ V[:rank]
        assert np.abs(outside).max(initial=0.0) < 1e-7, robot.name


# ---------------------------------------------------------------- the theorems


@blocks(60, 1000)
def test_torque_set_spans_both_others(block: int) -> None:
    """Lin1994 Theorem 2.

    What determines torque is what determines the gravity load or the inertia matrix.
    """
    for seed in seeds(block):
        robot = (chain_of_seed if seed % 2 else tree_of_seed)(seed)
        units = units_of(robot).parameters
        torque, gravity, inertia = (
            mlc_base(robot, for_=what).matrix * units for what in ("torque", "gravity", "inertia")
        )
        both = np.vstack([gravity, inertia])
        rank = len(torque)
        for rows in (both, np.vstack([both, torque])):
            values = np.linalg.svd(rows, compute_uv=False)
            assert int(np.sum(values > 1e-9 * values.max(initial=1.0))) == rank, robot.name


@blocks(80, 2000)
def test_constants_outside_the_set_are_not_needed(block: int) -> None:
    """Lin1994 Theorems 1 and 3.

    With them put to zero, inertia matrix and gravity load stay what they are.
    """
    for seed in seeds(block):
        robot = (chain_of_seed if seed % 2 else tree_of_seed)(seed)
        version = VERSIONS[seed // 2 % 2]
        q = np.random.default_rng(seed).uniform(-3, 3, robot.n)
        constants = inertia_constants_of(stands(robot), _ten(robot), version)
        reduced = _reduced(robot, mlc_base(robot, version))
        for c in (constants, reduced):
            varying = varying_parts(stands(robot), poses(robot, list(q)), c, version)
            bodies = [Composite(b.mass, add(b.k, v.l), plus(b.U, v.V)) for b, v in zip(c, varying)]
            M, tau = _inertia_and_gravity(robot, q, bodies)
            expected = md.inertia_matrix(robot, q)
            scale = 1.0 + float(np.abs(expected).max())
            assert np.abs(M - expected).max() < 1e-11 * scale, robot.name
            weight = md.gravity_torque(robot, q)
            assert np.abs(tau - weight).max() < 1e-11 * (1.0 + float(np.abs(weight).max())), (
                robot.name
            )


def _ten(robot: Robot) -> list[list[float]]:
    return [[float(x) for x in robot.parameters[part]] for part in robot.layout.links]


def _reduced(robot: Robot, base: BaseMap) -> list[Constants]:
    """Return constants that have the values of the set, and 0 for all that is not in it."""
    value = {name: float(x) for name, x in zip(base.names, base.values())}
    pose = tree_pose(robot, np.full(len(robot.joints), 0.3))
    assert base.structure is not None
    found = []
    for index, role in enumerate(base.structure.roles):
        n = role.number

        def at(name: str) -> float:
            return value.get(name, 0.0)

        k = [at(f"k{n}x"), at(f"k{n}y"), at(f"k{n}z")]
        if role.sigma:
            u = (
                pose.links[index, :3, :3].T @ pose.axes[(role.r or 0) - 1]
            )  # ERRATA G: a virtual k from κ
            v1, v2 = (
                np.array([-u[1], u[0], 0.0]),
                np.array([-u[2] * u[0], -u[2] * u[1], 1 - u[2] ** 2]),
            )
            k = list((at(f"kappa1_{n}") * v1 + at(f"kappa2_{n}") * v2) / (1 - u[2] ** 2))
        mark = "h_" if role.centre is not None else "_"
        U = [
            at(f"U11_22_{n}"),
            at(f"U12_{n}"),
            at(f"U13{mark}{n}"),
            0.0,
            at(f"U23{mark}{n}"),
            at(f"U33_{n}"),
        ]
        found.append(Constants(at(f"m{n}"), k, U))
    return found


def _inertia_and_gravity(robot: Robot, q: Array, bodies: list[Composite]) -> tuple[Array, Array]:
    """Inertia matrix and gravity load from composite bodies alone, Lin1994 eq. (16)-(18)."""
    pose = tree_pose(robot, q)
    n = robot.n
    M, tau = np.zeros((n, n)), np.zeros(n)
    for i, body in enumerate(bodies):
        R, origin = pose.links[i, :3, :3], pose.links[i, :3, 3]
        first, last = np.array(body.c), np.array([body.J[2], body.J[4], body.J[5]])
        g = R.T @ robot.gravity
        z = np.array([0.0, 0.0, 1.0])
        force = np.cross(z, first) if robot.joints[i].turns else body.mass * z
        moment = last if robot.joints[i].turns else np.cross(first, z)
        tau[i] = -np.cross(first, g)[2] if robot.joints[i].turns else -body.mass * g[2]
        m = i
        while m >= 0:
            u = R.T @ pose.axes[m]
            s = R.T @ (origin - pose.links[m, :3, 3])
            M[m, i] = M[i, m] = (
                u @ (moment + np.cross(s, force)) if robot.joints[m].turns else u @ force
            )
            m = robot.joints[m].parent
    return M, tau


@blocks(40, 500)
def test_both_versions_are_equivalent(block: int) -> None:
    for seed in seeds(block):
        robot = tree_of_seed(seed)
        require_same(robot, mlc_base(robot, "1992"), mlc_base(robot, "1999"))


@blocks(40, 1000)
def test_sigma_in_closed_form(block: int) -> None:
    """ERRATA A: σ of Theorem 4 is 0 exactly where the joint is across gravity in a general
    position.
    """
    for seed in seeds(block):
        robot = (chain_of_seed if seed % 2 else tree_of_seed)(seed)
        structure = structure_of(robot, "gravity")
        pose = tree_pose(robot, np.random.default_rng(seed).uniform(0.3, 1.3, robot.n))
        for role, axis in zip(structure.roles, pose.axes):
            if not role.turning:
                assert role.sigma == int(abs(axis @ robot.gravity) > 1e-7), f"{robot.name}: {role}"


# ---------------------------------------------------------------- small cases

VERTICAL, ZERO = (0.0, 0.0, -9.81), (0.0, 0.0, 0.0)
RIGHT = np.pi / 2
SMALL = {
    "PR, P not parallel to a vertical R": ("PR", [0.3, -0.3], [0, 0], [0, 0], VERTICAL, 4),
    "RR vertical, parallel with offset": ("RR", [0, 0], [0, 0.3], [0, 0], VERTICAL, 4),
    "RR vertical, antiparallel with offset": ("RR", [0, np.pi], [0, 0.3], [0, 0], VERTICAL, 4),
    "RR vertical, coaxial": ("RR", [0, 0], [0, 0], [0, 0.2], VERTICAL, 2),
    "RP, P parallel to a vertical R": ("RP", [0, 0], [0, 0.2], [0, 0], VERTICAL, 2),
    "RP, P oblique to a vertical R": ("RP", [0, 0.4], [0, 0.2], [0, 0], VERTICAL, 4),
    "no gravity, two intersecting R": ("RR", [0, RIGHT], [0, 0], [0, 0.3], ZERO, 6),
    "no gravity, spherical 3R": ("RRR", [0, RIGHT, -RIGHT], [0, 0, 0], [0, 0, 0.2], ZERO, 11),
    "all P": ("PPP", [0, RIGHT, RIGHT], [0, 0, 0], [0, 0, 0], VERTICAL, 3),
    "one R across gravity": ("R", [RIGHT], [0], [0], VERTICAL, 3),
    "one R along gravity": ("R", [0], [0], [0], VERTICAL, 1),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_cases(name: str) -> None:
    kinds, alpha, a, d, gravity, size = SMALL[name]
    robot = Robot.from_mdh(kinds, alpha, a, d, gravity=gravity)
    assert (
        mlc_base(robot).rank
        == mlc_base(robot, "1992").rank
        == md.base_parameters(robot).rank
        == size
    )


def test_rotor_of_a_vertical_lift_hides_the_mass() -> None:
    """A vertical lift with rotor and constant friction.

    Mass plus rotor, and offset plus weight, and no more.
    """
    robot = Robot.from_mdh("P", rotor_inertia=True, friction="offset")
    base = mlc_base(robot)
    assert [str(relation) for relation in base.relations()] == [
        "m1 = M1 + Ia1",
        "Fo1 = 9.81 M1 + Fo1",
    ]
    assert mlc_base(Robot.from_mdh("P", rotor_inertia=True)).names == ("m1", "Ia1")
    assert mlc_base(Robot.from_mdh("P", [RIGHT], rotor_inertia=True)).names == ("m1",)


# ---------------------------------------------------------------- what the user sees


def test_puma() -> None:
    base = md.base_parameters(md.load("puma560"), method="mlc")
    assert base.rank == 40
    assert len(base.eliminated) == 11
    assert base.kept == md.base_parameters(md.load("puma560")).kept
    relations = {relation.name: relation.formula() for relation in base.relations()}
    assert (
        relations["U33_1"]
        == "ZZ1 + Ia1 + YY2 + YY3 + 2 R3 MZ3 + (D3² + R3²) M3 + (D3² + D4² + R3²)(M4 + M5 + M6)"
    )
    assert relations["k2x"] == "MX2 + D3 (M3 + M4 + M5 + M6)"


@pytest.mark.parametrize("seed", range(30))
def test_symbols_have_the_values_of_the_map(seed: int) -> None:
    robot = chain_of_seed(seed)
    values: dict[str, float] = {}
    joints = []
    for number, joint in enumerate(robot.joints, 1):
        steps = []
        for step in joint.before:
            name = f"{step.kind}{number}"
            if not step.is_turn:
                values[name] = step.value
                step = Step(step.kind, step.value, name, 1.0)
            steps.append(step)
        joints.append(replace(joint, before=tuple(steps)))
    named = replace(robot, joints=tuple(joints), symbols=tuple(values.items()))
    base = mlc_base(named)
    assert base.structure is not None
    matrix = np.zeros_like(base.matrix)
    for row, entries in enumerate(symbolic_rows(named, base.structure)):
        for column, polynomial in entries.items():
            matrix[row, column] = polynomial.value(values)
    np.testing.assert_allclose(matrix, base.matrix, atol=1e-12)


def test_structure_speaks() -> None:
    robot = Robot.from_mdh(
        "RPRRP", [0, RIGHT, -RIGHT, RIGHT, 0], [0, 0, 0.2, 0, 0.1], gravity=VERTICAL
    )
    structure = mlc_base(robot).structure
    assert structure is not None
    assert (structure.r, structure.s) == (1, 4)
    assert structure.delta == {1: 0, 3: 1}
    assert structure.sigma == {2: 1}
    assert structure.reasons["delta_3"] == "joint 2 slides across the axis of joint 1"
    text = structure.describe()
    for part in (
        "r = 1: joint 1 is the first",
        "s = 4: joint 4",
        "delta_1 = 0",
        "sigma_2 = 1: joint 2 slides not parallel",
    ):
        assert part in text


def test_lift_values_and_unknowns() -> None:
    robot = tree_of_seed(4)
    base = mlc_base(robot)
    beta = base.values()
    rest = np.random.default_rng(0).normal(size=len(base.regrouped))
    for full in (base.lift(beta), base.lift(beta, rest), base.minimum_norm()):
        np.testing.assert_allclose(base.values(full), beta, atol=1e-9)
    unknown = robot.parameters.copy()
    unknown[list(robot.layout.indices(base.eliminated))] = np.nan
    np.testing.assert_allclose(base.values(unknown), beta)


def test_units_play_no_part() -> None:
    for seed in range(10):
        robot = any_frames(seed)
        small = replace(
            robot,
            joints=tuple(
                replace(joint, before=_scaled(joint.before), after=_scaled(joint.after))
                for joint in robot.joints
            ),
            gravity=robot.gravity * 1000.0,
        )
        one, other = mlc_base(robot), mlc_base(small)
        assert (one.names, one.kept, one.eliminated) == (other.names, other.kept, other.eliminated)


def _scaled(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(
        step if step.is_turn else replace(step, value=step.value * 1000.0) for step in steps
    )


@pytest.mark.parametrize("seed", range(40))
def test_other_frames_same_torque(seed: int) -> None:
    robot = any_frames(seed)
    changed, T = to_mdh(robot)
    rows = mdh_rows(changed)
    seen: set[int] = set()
    for row in rows:
        if row.parent >= 0 and row.parent not in seen:
            assert row.gamma == row.b == 0.0  # a chain needs four numbers a joint
        seen.add(row.parent)
    q, dq, ddq = random_state(robot, np.random.default_rng(seed), 4)
    tau = md.regressor(robot, q, dq, ddq) @ robot.parameters
    other = md.regressor(changed, q, dq, ddq) @ (T @ robot.parameters)
    assert np.abs(tau - other).max() < 1e-9 * max(1.0, float(np.abs(tau).max()))


def test_unsupported_robots_name_the_method() -> None:
    joints = list(Robot.from_mdh("RR", rotor_inertia=True).joints)
    joints[1] = replace(joints[1], drive=replace(joints[1].drive, coupling=(("joint1", 0.5),)))
    coupled = replace(Robot.from_mdh("RR", rotor_inertia=True), joints=tuple(joints))
    for robot in (looped_robot(), coupled):
        with pytest.raises(Unsupported, match='method="exact"'):
            md.base_parameters(robot, method="mlc")
    with pytest.raises(Unsupported, match='method="exact"'):
        md.base_parameters(chain_of_seed(0), method="mlc", model="energy")
    with pytest.raises(UnknownName):
        md.base_parameters(chain_of_seed(0), method="mlc", version="2000")
    with pytest.raises(UnknownName):
        md.papers.inertia_constants(chain_of_seed(0), version="2000")


def test_moment_product_is_the_cross_product_form() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=3), rng.normal(size=3)

    def cross(v: Array) -> Array:
        return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])

    full = -cross(a) @ cross(b) - cross(b) @ cross(a)
    np.testing.assert_allclose(
        moment_product(list(a), list(b)), full[(0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)]
    )
