"""Every form of the regressor is the same regressor.

What adaptive control and filtering rest on holds exactly.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.dynamics.formulas import regressor_polynomials
from minidyn.dynamics.functions import call
from minidyn.dynamics.kernel import Chosen, function_of
from minidyn.dynamics.papers.lagrangian import link_lagrangians
from minidyn.dynamics.papers.sixteen import SIXTEEN
from minidyn.dynamics.tree import place
from minidyn.errors import MinidynError, ShapeError, UnknownName, Unsupported
from minidyn.graph.derivative import jvp
from minidyn.graph.function import evaluate
from minidyn.model.parameters import to_lumeng16
from minidyn.model.robot import Robot
from robot_cases import (
    FOUR_BAR,
    random_body,
    random_chain,
    random_state,
    relative_error,
    robot_of_seed,
)

PRECISE = 1e-12
FORMS = list(itertools.product(("standard", "lumeng16"), ("newton_euler", "lagrange")))
# three joints hide transposition errors: 3 x 3 blocks fit either way
SEEDS = [seed for seed in range(5000, 5700) if robot_of_seed(seed).n not in (1, 3)][
    : count(40, 400)
]

FORMULA = """
[[joint]]
name = "crank"
alpha = 0.4
[[joint]]
name = "wrist"
alpha = "90 deg"
a = 0.7
[[joint]]
name = "bent"
a = 0.3
mimic = { formula = "atan2(sin(crank), 2 + cos(crank)) + 0.1*wrist" }
"""


@cache
def robot_at(seed: int) -> Robot:
    return robot_of_seed(seed)


def bodied(robot: Robot, seed: int = 0) -> Robot:
    """The robot with real bodies and drive terms where it has none."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.1, 1.0, len(robot.layout))
    for part in robot.layout.links:
        values[part] = random_body(rng)
    return robot.with_parameters(values)


def following(text: str, folder: Path) -> Robot:
    path = folder / "robot.toml"
    path.write_text(text)
    return bodied(
        md.load(path).with_drives(rotor_inertia=True, friction=("viscous", "coulomb", "offset"))
    )


def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", matrix, vector)


# ---------------------------------------------------------------- four forms, one regressor


@pytest.mark.parametrize("seed", SEEDS)
def test_all_forms_are_the_standard_regressor_through_the_parameter_map(seed: int) -> None:
    robot = robot_at(seed)
    state = random_state(robot, np.random.default_rng(seed), 3)
    Y = md.regressor(robot, *state)
    L = md.papers.lumeng16(robot).matrix
    for parametrization, form in FORMS:
        other = md.regressor(robot, *state, parametrization=parametrization, form=form)
        assert relative_error(other, Y if parametrization == "standard" else Y @ L) < PRECISE, (
            parametrization,
            form,
        )


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_sixteen_parameters_make_the_torque(seed: int) -> None:
    robot = robot_at(seed)
    state = random_state(robot, np.random.default_rng(seed), 3)
    theta = md.papers.lumeng16(robot)
    Y = md.regressor(robot, *state, parametrization="lumeng16")
    tau = md.inverse_dynamics(robot, *state)
    assert relative_error(Y @ theta.parameters, tau) < PRECISE
    assert relative_error(theta.matrix @ theta.parameters, robot.parameters) < PRECISE
    for index, part in enumerate(robot.layout.links):
        at = theta.names.index(f"m{index + 1}")
        assert theta.names[at : at + 16] == tuple(f"{symbol}{index + 1}" for symbol in SIXTEEN)
        np.testing.assert_allclose(
            theta.parameters[at : at + 16], to_lumeng16(robot.parameters[part]), atol=1e-12
        )
        assert np.linalg.matrix_rank(theta.matrix[part, at : at + 16]) == 10


def test_closed_form_on_arrays_needs_no_graph() -> None:
    robot = random_chain(3, "RPRR")
    q, dq, ddq = random_state(robot, np.random.default_rng(1), 6)
    links = link_lagrangians(place(robot, list(q.T)), list(dq.T), list(ddq.T))
    Y = md.regressor(robot, q, dq, ddq, parametrization="lumeng16")
    for index, link in enumerate(links):
        for joint in link.rest:
            row = np.stack(
                [np.broadcast_to(a + b, 6) for a, b in zip(link.rate[joint], link.rest[joint])],
                axis=-1,
            )
            assert relative_error(row, Y[:, joint, 16 * index : 16 * index + 16]) < PRECISE


def test_load_is_one_more_link() -> None:
    robot = random_chain(5, "RRPR")
    body = random_body(np.random.default_rng(2))
    placement = np.eye(4)
    placement[:3, 3] = 0.1, -0.2, 0.3
    loaded = robot.with_load(placement, body)
    state = random_state(robot, np.random.default_rng(3), 4)
    for form in ("newton_euler", "lagrange"):
        Y = md.regressor(loaded, *state, parametrization="lumeng16", form=form)
        assert Y.shape == (4, 4, 5 * 16)
        more = md.inverse_dynamics(loaded, *state) - md.inverse_dynamics(robot, *state)
        assert relative_error(Y[..., 64:] @ to_lumeng16(body), more) < PRECISE
        assert (
            relative_error(Y[..., :64], md.regressor(robot, *state, parametrization="lumeng16"))
            < PRECISE
        )


def test_loops_that_are_solved_for_take_part(tmp_path: Path) -> None:
    robot = following(FOUR_BAR, tmp_path)
    state = random_state(robot, np.random.default_rng(5), 4)
    Y = md.regressor(robot, *state)
    assert relative_error(Y @ robot.parameters, md.inverse_dynamics(robot, *state)) < PRECISE
    L = md.papers.lumeng16(robot.open_loops()).matrix
    for parametrization, form in FORMS:
        other = md.regressor(robot, *state, parametrization=parametrization, form=form)
        assert relative_error(other, Y if parametrization == "standard" else Y @ L) < PRECISE
    some = md.regressor(robot, *state, columns=["Ia2", "ZZ1"])
    assert relative_error(some, Y[..., list(robot.layout.indices(["Ia2", "ZZ1"]))]) < PRECISE


# ---------------------------------------------------------------- columns by name


def test_columns_by_name_in_the_order_asked_for() -> None:
    robot = md.load("stanford").with_drives(friction=("viscous",))
    state = random_state(robot, np.random.default_rng(0), 3)
    for parametrization, wanted in (
        ("standard", ["M6", "Fv1", "XX2"]),
        ("lumeng16", ["mpxpy3", "Fv6", "m1"]),
    ):
        names = (
            robot.parameter_names
            if parametrization == "standard"
            else md.papers.lumeng16(robot).names
        )
        for form in ("newton_euler", "lagrange"):
            every = md.regressor(robot, *state, parametrization=parametrization, form=form)
            some = md.regressor(
                robot, *state, parametrization=parametrization, form=form, columns=wanted
            )
            assert (
                relative_error(some, every[..., [names.index(name) for name in wanted]]) < PRECISE
            )


def test_point_masses_and_principal_axes_drop_columns() -> None:
    """Section III-B: a point mass has no inertia columns, a body with its centre on an axis has six
    parameters.
    """
    robot = random_chain(1, "RRPRR")
    values = robot.parameters.copy()
    point, on_x, on_z = (robot.layout.links[index] for index in (2, 3, 4))
    moments = np.array([0.01, 0.02, 0.025])
    for part, com, inertia in (
        (point, np.array([0.1, 0.2, 0.3]), 0.0 * moments),
        (on_x, np.array([0.4, 0.0, 0.0]), moments),
        (on_z, np.array([0.0, 0.0, -0.3]), moments),
    ):
        mass = 1.7
        tensor = np.diag(inertia) + mass * (com @ com * np.eye(3) - np.outer(com, com))
        values[part] = [*tensor[np.triu_indices(3)], *(mass * com), mass]
    robot = robot.with_parameters(values)
    theta = md.papers.lumeng16(robot)
    needed = {k: [name[:-1] for name in theta.needed if name[-1] == str(k)] for k in (3, 4, 5)}
    assert needed[3] == list(SIXTEEN[:10])
    assert needed[4] == ["m", "mpx", "mpxpx", "Ixx", "Iyy", "Izz"]
    assert needed[5] == ["m", "mpz", "mpzpz", "Ixx", "Iyy", "Izz"]
    state = random_state(robot, np.random.default_rng(0), 5)
    chosen = theta.parameters[[theta.names.index(name) for name in theta.needed]]
    for form, what in (
        ("newton_euler", "lumeng16_regressor"),
        ("lagrange", "lumeng16_lagrange_regressor"),
    ):
        Y = md.regressor(robot, *state, parametrization="lumeng16", form=form, columns=theta.needed)
        assert relative_error(Y @ chosen, md.inverse_dynamics(robot, *state)) < PRECISE
        few = function_of(robot, what, base=Chosen(theta.needed))
        assert few.counts["mul"] < function_of(robot, what).counts["mul"]


def test_unknown_values_keep_their_columns() -> None:
    robot = md.load("puma4")
    assert "Ixx4" not in md.papers.lumeng16(robot).needed
    ignorant = robot.with_parameters(None)
    assert "Ixx4" in md.papers.lumeng16(ignorant).needed
    assert "Ixx1" not in md.papers.lumeng16(ignorant).needed  # the first link turns about z alone
    assert np.isnan(md.papers.lumeng16(ignorant).parameters).all()


def test_split_into_known_and_unknown() -> None:
    robot = md.load("puma4")
    state = random_state(robot, np.random.default_rng(0), 3)
    Y = md.regressor(robot, *state)
    known, unknown = md.split_regressor(robot, Y, unknown=["M4", "MX4", "ZZ3"])
    assert known.shape == (3, 4, 37)
    np.testing.assert_array_equal(unknown, Y[..., list(robot.layout.indices(["M4", "MX4", "ZZ3"]))])
    values = md.split_regressor(robot, robot.parameters, unknown=["M4", "MX4", "ZZ3"])
    assert (
        relative_error(known @ values[0] + unknown @ values[1], md.inverse_dynamics(robot, *state))
        < PRECISE
    )
    base = md.base_parameters(robot)
    Yb = md.base_regressor(robot, *state, base=base)
    by_name = md.split_regressor(robot, Yb, unknown=base.names[3:5], base=base)
    by_leader = md.split_regressor(robot, Yb, unknown=base.kept[3:5], base=base)
    for one, two, places in zip(by_name, by_leader, ([*range(3), *range(5, base.rank)], [3, 4])):
        np.testing.assert_array_equal(one, Yb[..., places])
        np.testing.assert_array_equal(one, two)
    Y16 = md.regressor(robot, *state, parametrization="lumeng16")
    _, m4 = md.split_regressor(robot, Y16, unknown="m4", parametrization="lumeng16")
    np.testing.assert_array_equal(m4[..., 0], Y16[..., 48])


def test_wrong_names_and_shapes_are_told() -> None:
    robot = md.load("puma4")
    q = np.zeros(4)
    Y = md.regressor(robot, q, q, q)
    with pytest.raises(UnknownName, match=r"parametrization 'lumeng'.*'lumeng16'"):
        md.regressor(robot, q, q, q, parametrization="lumeng")
    with pytest.raises(UnknownName, match=r"'lagrangian'.*'lagrange'"):
        md.regressor(robot, q, q, q, form="lagrangian")
    with pytest.raises(UnknownName, match="'ZZ9'"):
        md.regressor(robot, q, q, q, columns=["ZZ9"])
    with pytest.raises(UnknownName, match=r"'m4'.*'M4'"):
        md.split_regressor(robot, Y, unknown=["m4"])
    with pytest.raises(MinidynError, match="'M4' is named twice"):
        md.split_regressor(robot, Y, unknown=["M4", "M4"])
    with pytest.raises(ShapeError, match="expected 40 columns"):
        md.split_regressor(robot, Y[:, :-1], unknown=["M4"])
    with pytest.raises(UnknownName, match="'sixteen'"):
        md.split_regressor(robot, Y, unknown=["M4"], parametrization="sixteen")


# ---------------------------------------------------------------- along a reference


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_slotine_li_regressor_is_the_model_along_the_reference(seed: int) -> None:
    robot = robot_at(seed)
    q, dq, dqr = random_state(robot, np.random.default_rng(seed), 4)
    ddqr = np.random.default_rng(seed + 1).normal(size=q.shape)
    Y = md.slotine_li_regressor(robot, q, dq, dqr, ddqr)
    still = 0.0 * q
    weight = md.gravity_torque(robot, q)
    friction = (
        md.inverse_dynamics(robot, q, dqr, still)
        - times(md.coriolis_matrix(robot, q, dqr), dqr)
        - weight
    )
    expected = times(md.inertia_matrix(robot, q), ddqr) + times(
        md.coriolis_matrix(robot, q, dq), dqr
    )
    assert relative_error(Y @ robot.parameters, expected + weight + friction) < 1e-11
    assert (
        relative_error(
            md.slotine_li_regressor(robot, q, dq, dq, ddqr), md.regressor(robot, q, dq, ddqr)
        )
        < PRECISE
    )
    base = md.base_parameters(robot)
    Yb = md.slotine_li_regressor(robot, q, dq, dqr, ddqr, base=base)
    assert relative_error(Yb @ (base.matrix @ robot.parameters), Y @ robot.parameters) < 1e-10


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_slotine_li_regressor_has_the_skew_property(seed: int) -> None:
    """dq_rᵀ (Ṁ - 2C) dq_r = 0 for every parameter column by itself, along any motion."""
    robot = robot_at(seed).with_gravity([0, 0, 0]).with_drives(friction=())
    q, dq, dqr = random_state(robot, np.random.default_rng(seed), 3)
    C_dqr = md.slotine_li_regressor(robot, q, dq, dqr, 0.0 * q)
    inertia = function_of(
        robot, "slotine_li_regressor"
    )  # with ddqr alone it is M ddqr, column by column
    zero = 0.0 * q
    rate = evaluate(jvp(inertia, ["q"]), q, zero, zero, dqr, dq)
    mixed = np.einsum("ki,kip->kp", dqr, rate - 2 * C_dqr)
    assert relative_error(mixed, 0.0 * mixed, scale=max(np.abs(rate).max(), 1e-3)) < PRECISE


@pytest.mark.parametrize("text", [FORMULA, FOUR_BAR])
def test_slotine_li_regressor_where_joints_follow_others(text: str, tmp_path: Path) -> None:
    robot = following(text, tmp_path).with_drives(friction=())
    rng = np.random.default_rng(0)
    q, dq, dqr = random_state(robot, rng, 4)
    ddqr = rng.normal(size=q.shape)

    def torque(speed: np.ndarray) -> np.ndarray:
        return md.inverse_dynamics(robot, q, speed, 0.0 * q)

    # the symmetric polar form of the velocity torques is C(q, dq) dq_r with the Christoffel C
    mixed = 0.25 * (torque(dq + dqr) - torque(dq - dqr))
    expected = times(md.inertia_matrix(robot, q), ddqr) + mixed + md.gravity_torque(robot, q)
    Y = md.slotine_li_regressor(robot, q, dq, dqr, ddqr)
    assert relative_error(Y @ robot.parameters, expected) < 1e-11


def test_slotine_li_regressor_writes_where_it_is_told() -> None:
    robot = md.load("panda")
    q, dq, ddq = random_state(robot, np.random.default_rng(0), 5)
    out = np.full((5, robot.n, len(robot.layout)), np.nan)
    assert md.slotine_li_regressor(robot, q, dq, ddq, q, out=out) is out
    kernel = md.compile(robot, "slotine_li_regressor")
    assert kernel.arguments == ("q", "dq", "dqr", "ddqr")
    assert relative_error(kernel(q, dq, ddq, q), out) < PRECISE


# ---------------------------------------------------------------- momentum


def check_momentum(robot: Robot, seed: int) -> None:
    """W φ = M dq; Y = dW/dt + Ŷ with an exact derivative, and Ŷ is free of accelerations by
    construction.
    """
    q, dq, ddq = random_state(robot, np.random.default_rng(seed), 3)
    function = function_of(robot, "momentum_regressor")
    W, rest = evaluate(function, q, dq)
    momentum = times(md.inertia_matrix(robot, q), dq)
    assert relative_error(W @ robot.parameters, momentum) < PRECISE
    rate, _ = evaluate(jvp(function, ["q", "dq"]), q, dq, dq, ddq)
    assert relative_error(rate + rest, md.regressor(robot, q, dq, ddq)) < 1e-11


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_regressor_is_the_rate_of_momentum_and_a_rest(seed: int) -> None:
    check_momentum(robot_at(seed), seed)


def test_momentum_where_joints_follow_formulas(tmp_path: Path) -> None:
    check_momentum(following(FORMULA, tmp_path), 1)


def test_momentum_of_loops_that_are_solved_for(tmp_path: Path) -> None:
    robot = following(FOUR_BAR, tmp_path)
    q, dq, ddq = random_state(robot, np.random.default_rng(0), 3)
    step = 1e-4

    def momentum(s: float) -> np.ndarray:
        at = q + s * dq + 0.5 * s * s * ddq, dq + s * ddq
        return call(robot, "momentum_regressor", at, None, None)[0]

    W, rest = call(robot, "momentum_regressor", (q, dq), None, None)
    assert relative_error(W @ robot.parameters, times(md.inertia_matrix(robot, q), dq)) < PRECISE
    rate = (8 * (momentum(step) - momentum(-step)) - (momentum(2 * step) - momentum(-2 * step))) / (
        12 * step
    )
    assert relative_error(rate + rest, md.regressor(robot, q, dq, ddq)) < 1e-8


# ---------------------------------------------------------------- formulas


@pytest.mark.parametrize("joints", ["RR", "RP", "PR", "PRR"])
def test_formulas_of_both_forms_are_the_same_and_right(joints: str) -> None:
    robot = random_chain(len(joints) + 3, joints, friction=("viscous",))
    q, dq, ddq = random_state(robot, np.random.default_rng(0))
    values = {"g": 9.81}
    for k in range(robot.n):
        values |= {f"q{k + 1}": q[k], f"dq{k + 1}": dq[k], f"ddq{k + 1}": ddq[k]}
        values |= {f"s{k + 1}": np.sin(q[k]), f"c{k + 1}": np.cos(q[k])}
    for parametrization in ("standard", "lumeng16"):
        one, two = (
            regressor_polynomials(robot, parametrization=parametrization, form=f)
            for f in ("newton_euler", "lagrange")
        )
        Y = md.regressor(robot, q, dq, ddq, parametrization=parametrization)
        for row in range(robot.n):
            for a, b, number in zip(one[row], two[row], Y[row]):
                assert a.equals(b)
                assert a.value(values) == pytest.approx(number, abs=1e-9)
                assert b.value(values) == pytest.approx(number, abs=1e-9)


def test_formulas_too_long_to_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="1000 terms"):
        regressor_polynomials(random_chain(2, "RRRRRRR"), columns=["M7"])
    with pytest.raises(Unsupported, match="loops"):
        regressor_polynomials(following(FOUR_BAR, tmp_path))


def test_a_map_by_position_still_works_and_warns() -> None:
    robot = md.load("two_link")
    base = md.base_parameters(robot)
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 5, robot.n))
    with pytest.warns(
        DeprecationWarning, match=r"md.base_regressor\(robot, q, dq, ddq, base=base\)"
    ):
        Y = md.base_regressor(robot, base, q, dq, ddq)  # type: ignore[arg-type]
    assert np.array_equal(Y, md.base_regressor(robot, q, dq, ddq, base=base))
    with pytest.warns(DeprecationWarning, match="slotine_li_regressor"):
        Y = md.slotine_li_regressor(robot, q, dq, dq, ddq, base)
    assert np.array_equal(Y, md.slotine_li_regressor(robot, q, dq, dq, ddq, base=base))
    with pytest.raises(TypeError, match="too many arguments"):
        md.base_regressor(robot, q, dq, ddq, ddq, base=base)
    with pytest.raises(md.MinidynError, match="base_regressor needs base="):
        md.base_regressor(robot, q, dq, ddq)
