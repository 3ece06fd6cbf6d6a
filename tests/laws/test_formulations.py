"""All formulations give the same inertia matrix, from whatever minimal set, though all else is
unknown.
"""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import special_chain

import minidyn as md
from conftest import count
from minidyn.base import minimal_functions
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.virtual_links import carrier_of, rigid_chain
from minidyn.dynamics import functions
from minidyn.dynamics.mdh_chain import stands
from minidyn.dynamics.papers.chain import chain_at, composite_bodies, composite_moments
from minidyn.dynamics.papers.composite import Constants, inertia_constants_of
from minidyn.dynamics.papers.formulations import FORMULATIONS, formulation_meeting, joint_wrench
from minidyn.dynamics.papers.minimal import record_minimal
from minidyn.dynamics.papers.table_vii import (
    Combinations,
    composites_of_set,
    set_formulation_1,
    set_formulation_2,
)
from minidyn.errors import MinidynError, NotEquivalent, UnknownName, Unsupported
from minidyn.graph.function import evaluate
from minidyn.model.mdh_rows import mdh_rows
from minidyn.model.robot import Robot
from minidyn.papers.operation_count import operation_count
from robot_cases import random_chain, random_state, relative_error


def _ten(robot: Robot) -> list[list[float]]:
    return [[float(x) for x in robot.parameters[part]] for part in robot.layout.links]


def _moments_of_inertia(J: list[float]) -> list[float]:
    xx, yy, zz = J[3] + J[5] - J[0], J[0] + J[5] - J[3], J[0] + J[3] - J[5]
    return [0.5 * xx, -J[1], -J[2], 0.5 * yy, -J[4], 0.5 * zz]


@pytest.mark.parametrize("seed", range(count(20, 1000)))
def test_formulations_agree_with_the_standard_matrix(seed: int) -> None:
    robot = special_chain(seed)
    q = random_state(robot, np.random.default_rng(seed))[0]
    expected = functions.inertia_matrix(robot, q)
    chain = chain_at(mdh_rows(robot), [float(x) for x in q])
    bodies = composite_bodies(chain, _ten(robot))
    by_moments = composite_moments(
        chain, [[*_moments_of_inertia(ten[:6]), *ten[6:]] for ten in _ten(robot)]
    )
    for build in FORMULATIONS.values():
        assert relative_error(build(chain, bodies), expected) < 1e-12
        assert relative_error(build(chain, by_moments), expected) < 1e-12
    rng = np.random.default_rng(seed)
    levels = [int(rng.integers(2 * i + 1)) for i in range(robot.n)]
    assert relative_error(formulation_meeting(chain, bodies, levels), expected) < 1e-12


@pytest.mark.parametrize("seed", range(count(10, 200)))
def test_formulation_1_is_the_spatial_form(seed: int) -> None:
    """LinFang1999 eq. (12)-(17)."""
    robot = special_chain(seed)
    q = random_state(robot, np.random.default_rng(seed))[0]
    chain = chain_at(mdh_rows(robot), [float(x) for x in q])
    bodies = composite_bodies(chain, _ten(robot))
    n = robot.n
    D = np.zeros((n, n))
    axes = [
        np.array([0, 0, 1, 0, 0, 0] if joint.turning else [0, 0, 0, 0, 0, 1], dtype=float)
        for joint in chain
    ]
    for i in range(n):
        XX, XY, XZ, YY, YZ, ZZ = bodies[i].J
        J = np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]])
        K = np.block(
            [[J, _cross(bodies[i].c)], [_cross(bodies[i].c).T, bodies[i].mass * np.eye(3)]]
        )
        wrench = K @ axes[i]
        force, moment = joint_wrench(chain[i], bodies[i])
        np.testing.assert_allclose(wrench, [*moment, *force], atol=1e-12)
        for j in range(i, -1, -1):
            D[i, j] = D[j, i] = axes[j] @ wrench
            R = np.array([chain[j].turned_in(list(unit)) for unit in np.eye(3)]).T
            X = np.block([[R, _cross(chain[j].offset) @ R], [np.zeros((3, 3)), R]])
            wrench = X @ wrench
    assert relative_error(FORMULATIONS[1](chain, bodies), D) < 1e-12


def _cross(v: object) -> np.ndarray:
    x, y, z = np.asarray(v, dtype=float)
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


@pytest.mark.parametrize("seed", range(count(40, 4000)))
def test_table_vii_needs_the_minimal_set_alone(seed: int) -> None:
    """Constants outside the set are NaN: what is never read cannot spoil the result."""
    robot = special_chain(seed)
    structure = mlc_base(robot, "1999", "torque").structure
    assert structure is not None
    n = robot.n
    roles = structure.roles
    r = next((i for i, role in enumerate(roles) if role.turning), n)
    s = next((i for i, role in enumerate(roles) if role.s == role.number), n)
    constants = inertia_constants_of(stands(robot), _ten(robot))
    chain_constants = [_in_the_set(robot, i, constants[i], r, s) for i in range(n)]
    q = random_state(robot, np.random.default_rng(seed))[0]
    chain = chain_at(mdh_rows(robot), [float(x) for x in q])
    made = composites_of_set(chain, chain_constants, r, s)
    # rounding is that of the whole bodies, not of what remains of them
    size = (
        np.abs(robot.parameters).max()
        * (1 + max(abs(row.a) + abs(row.d) for row in mdh_rows(robot))) ** 2
        / 1e3
    )
    expected = functions.inertia_matrix(robot, q)
    for build in (set_formulation_1, set_formulation_2):
        assert np.abs(
            np.array(build(chain, chain_constants, made, r, s)) - expected
        ).max() < 1e-12 * max(size, np.abs(expected).max())


@pytest.mark.parametrize("seed", range(count(20, 1000)))
def test_the_set_as_printed_gives_the_matrix(seed: int) -> None:
    """From the values of the closed-form set, drives included, in a batch."""
    robot = special_chain(seed + 50)
    if seed % 2:
        robot = robot.with_drives(rotor_inertia=True)
        extra = [0.5 if np.isnan(value) else value for value in robot.parameters]
        robot = robot.with_parameters(extra)
    q = random_state(robot, np.random.default_rng(seed), 3)[0]
    expected = functions.inertia_matrix(robot, q)
    beta = mlc_base(robot).values()
    size = np.abs(robot.parameters).max()
    size *= (1 + max(abs(row.a) + abs(row.d) for row in mdh_rows(robot))) ** 2 / 1e3
    for formulation in (1, 2):
        found = md.papers.inertia_matrix_of_set(robot, q, beta, formulation=formulation)
        assert np.abs(found - expected).max() < 1e-12 * max(size, np.abs(expected).max())


def test_counts_of_the_set_are_between_those_of_the_paper_and_the_programs() -> None:
    for name in ("puma560", "stanford", "rx90"):
        robot = md.load(name)
        for formulation in (1, 2):
            own = sum(md.papers.count_of_set(robot, formulation))
            assert own < sum(operation_count(robot, formulation=formulation, counting="paper"))
            assert own >= sum(operation_count(robot, formulation=formulation))
    with pytest.raises(UnknownName, match="formulation"):
        md.papers.count_of_set(robot, 3)
    with pytest.raises(Unsupported, match="Table VII"):
        md.papers.count_of_set(md.load("hpr"))


def _in_the_set(robot: Robot, i: int, c: Constants, r: int, s: int) -> Combinations:
    structure = mlc_base(robot, "1999", "torque").structure
    assert structure is not None
    role = structure.roles[i]
    kx, ky, kz = c.k
    if robot.joints[i].turns:
        if i >= s:
            return Combinations(k=[kx, ky], U=(c.U[0] - c.U[3], c.U[1], c.U[2], c.U[4]), U33=c.U[5])
        return Combinations(k=[kx, ky] if role.delta else [0.0, 0.0], U33=c.U[5])
    if i > s:
        return Combinations(mass=c.mass, k=[kx, ky, kz])
    if i < r:
        return Combinations(mass=c.mass)
    chain = chain_at(mdh_rows(robot), [0.0] * robot.n)
    u = composites_of_set(
        chain, [Combinations(0.0, [0.0] * 3, (0.0,) * 4, 0.0, (0.0, 0.0))] * robot.n, r, s
    ).axis[i]
    assert u is not None
    kappa = -u[1] * kx + u[0] * ky, -u[2] * (u[0] * kx + u[1] * ky) + (1 - u[2] ** 2) * kz
    return Combinations(mass=c.mass, kappa=kappa if role.sigma else (0.0, 0.0))


@pytest.mark.parametrize("seed", range(count(20, 1000)))
def test_virtual_links_give_all_dynamics(seed: int) -> None:
    robot = special_chain(seed, 8 if count(0, 1) else 6)
    chain = rigid_chain(robot)
    assert chain is not None
    rng = np.random.default_rng(seed)
    q, dq, ddq = random_state(robot, rng, 3)
    still = np.zeros_like(q)
    bias = functions.inverse_dynamics(robot, q, dq, still) - functions.gravity_torque(robot, q)
    wanted = {
        "inertia_matrix": ((q,), functions.inertia_matrix(robot, q)),
        "inverse_dynamics": ((q, dq, ddq), functions.inverse_dynamics(robot, q, dq, ddq)),
        "gravity_torque": ((q,), functions.gravity_torque(robot, q)),
        "velocity_torque": ((q, dq), bias),
        "coriolis_matrix": ((q, dq), functions.coriolis_matrix(robot, q, dq)),
    }
    size = max(float(np.abs(expected).max()) for _, expected in wanted.values())
    for what, (arrays, expected) in wanted.items():
        for_ = "inertia" if what in ("inertia_matrix", "coriolis_matrix") else "torque"
        for moments in (False, True) if for_ == "inertia" else (True,):
            carrier = carrier_of(chain[0], for_, moments)
            values = carrier.matrix @ carrier.base.values(robot.parameters)
            for composed in (False, True):
                function = record_minimal(carrier.virtual, what, composed=composed)
                error = np.abs(evaluate(function, *arrays, values) - expected).max()
                assert error < 1e-12 * max(size, 1.0), (what, moments, composed)


@pytest.mark.parametrize("seed", range(count(4, 60)))
def test_public_functions_take_any_map(seed: int) -> None:
    robot = special_chain(seed + 5000, 5)
    maps = [
        md.base_parameters(robot, method="mlc", version="1992"),
        md.base_parameters(robot, method="mlc"),
        md.base_parameters(robot),
    ]
    rng = np.random.default_rng(seed)
    q, dq, ddq = random_state(robot, rng, 3)
    for base in maps:
        beta = base.values()
        unknown = robot.with_parameters(np.full(len(robot.layout), np.nan))
        given = {"base": base, "beta": beta}
        M = minimal_functions.inertia_matrix(unknown, q, **given)
        assert relative_error(M, functions.inertia_matrix(robot, q)) < 1e-10
        tau = functions.inverse_dynamics(robot, q, dq, ddq)
        assert (
            relative_error(minimal_functions.inverse_dynamics(unknown, q, dq, ddq, **given), tau)
            < 1e-10
        )
        g = functions.gravity_torque(robot, q)
        assert (
            np.abs(minimal_functions.gravity_torque(unknown, q, **given) - g).max()
            < 1e-10 * np.abs(tau).max()
        )
        C = functions.coriolis_matrix(robot, q, dq)
        assert (
            np.abs(minimal_functions.coriolis_matrix(unknown, q, dq, **given) - C).max()
            < 1e-10 * np.abs(tau).max()
        )


def test_drives_other_frames_and_trees() -> None:
    from robot_cases import random_robot

    for seed in range(count(8, 100)):
        rng = np.random.default_rng(seed)
        robot = random_robot(rng, 4, branches=seed % 4 == 3, loads=seed % 2, special=seed % 2 == 0)
        base = md.base_parameters(robot)
        q, dq, ddq = random_state(robot, rng, 3)
        M = minimal_functions.inertia_matrix(robot, q, base=base, beta=base.values())
        assert relative_error(M, functions.inertia_matrix(robot, q)) < 1e-9
        tau = minimal_functions.inverse_dynamics(robot, q, dq, ddq, base=base)
        assert relative_error(tau, functions.inverse_dynamics(robot, q, dq, ddq)) < 1e-9


def test_each_formulation_through_the_public_door() -> None:
    robot = random_chain(3, "RRPRR")
    q = random_state(robot, np.random.default_rng(0), 2)[0]
    expected = functions.inertia_matrix(robot, q)
    for number in (1, 2, 3, 4, 5, 6, None):
        base = md.base_parameters(robot, method="mlc")
        M = minimal_functions.inertia_matrix(robot, q, base=base, formulation=number)
        assert relative_error(M, expected) < 1e-12
    assert (
        relative_error(minimal_functions.inertia_matrix(robot, q, formulation=2), expected) < 1e-12
    )
    assert relative_error(minimal_functions.inertia_matrix(robot, q), expected) < 1e-15


def test_misuse_is_explained() -> None:
    robot = random_chain(3, "RRR")
    q = np.zeros(3)
    base = md.base_parameters(robot, method="mlc")
    with pytest.raises(UnknownName, match="formulation"):
        minimal_functions.inertia_matrix(robot, q, base=base, formulation=7)
    with pytest.raises(MinidynError, match="base="):
        minimal_functions.inertia_matrix(robot, q, beta=[1.0])
    with pytest.raises(MinidynError, match="shape"):
        minimal_functions.inverse_dynamics(robot, q, q, q, base=base, beta=[1.0])
    with pytest.raises(MinidynError, match="not built like"):
        minimal_functions.inverse_dynamics(random_chain(4, "RRR"), q, q, q, base=base)
    static = md.base_parameters(robot, "mlc", "gravity")
    with pytest.raises(NotEquivalent, match="does not determine"):
        minimal_functions.inverse_dynamics(robot, q, q, q, base=static)
    tree = Robot.from_mdh("RRR", [0.0, 1.0, 1.0], [0.0, 0.3, 0.3], parent=[0, 1, 1])
    with pytest.raises(Unsupported, match="serial"):
        operation_count(tree, formulation=2)
    assert all(x > 0 for x in operation_count(tree))


def test_the_chain_is_made_once_for_a_structure() -> None:
    robot = md.load("ur10e")
    heavier = robot.with_parameters(2.0 * robot.parameters)
    assert rigid_chain(robot) is rigid_chain(heavier)
    base, q = md.base_parameters(robot), np.linspace(-1.0, 1.0, robot.n)
    single, double = (md.inertia_matrix(one, q, base=base) for one in (robot, heavier))
    np.testing.assert_allclose(double, 2.0 * single, rtol=1e-12)
