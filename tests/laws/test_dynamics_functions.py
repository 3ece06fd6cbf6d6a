"""The public functions at their edges: shapes, dtypes, NaN, unknown parameters.

Robots to check by hand.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import minidyn as md
from minidyn.dynamics.kernel import EAGER_SAMPLES
from minidyn.errors import ShapeError, UnknownName, UnknownParameters
from minidyn.model.drives import Drive
from minidyn.model.robot import Robot
from robot_cases import random_chain, random_robot, random_state, relative_error

FUNCTIONS = {
    "inverse_dynamics": 3,
    "gravity_torque": 1,
    "coriolis_matrix": 2,
    "inertia_matrix": 1,
    "forward_dynamics": 3,
    "regressor": 3,
    "energy": 2,
    "energy_regressor": 2,
    "forward_kinematics": 1,
    "jacobian": 1,
}
WITH_PARAMETERS = [
    what
    for what in FUNCTIONS
    if what
    in [
        "inverse_dynamics",
        "gravity_torque",
        "coriolis_matrix",
        "inertia_matrix",
        "forward_dynamics",
        "energy",
    ]
]


@pytest.fixture(scope="module")
def robot() -> Robot:
    return random_robot(np.random.default_rng(3), 5, followers=True, loads=1)


def call(robot: Robot, what: str, state: tuple[np.ndarray, ...], **options: object) -> np.ndarray:
    result = getattr(md, what)(robot, *state[: FUNCTIONS[what]], **options)
    return np.stack(result) if isinstance(result, tuple) else result


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize("what", FUNCTIONS)
def test_batches_of_any_leading_shape_equal_single_samples(robot: Robot, what: str) -> None:
    state = random_state(robot, np.random.default_rng(1), 2, 3)
    together = call(robot, what, state)
    many = call(
        robot, what, tuple(np.tile(part, (EAGER_SAMPLES, 1, 1, 1)) for part in state)
    )  # machine code
    lead = 1 if what == "energy" else 0
    for i, j in np.ndindex(2, 3):
        one = call(robot, what, tuple(part[i, j] for part in state))
        place = (slice(None),) * lead
        assert relative_error(together[(*place, i, j)], one) < 1e-13
        assert relative_error(many[(*place, 7, i, j)], one) < 1e-12


@pytest.mark.parametrize("what", [what for what in FUNCTIONS if FUNCTIONS[what] > 1])
@pytest.mark.parametrize("size", [3, 3 * EAGER_SAMPLES])
def test_leading_shapes_broadcast(robot: Robot, what: str, size: int) -> None:
    q, dq, ddq = random_state(robot, np.random.default_rng(2), size)
    fixed = (q, dq[0], ddq[0])
    spread = (q, np.broadcast_to(dq[0], dq.shape), np.broadcast_to(ddq[0], dq.shape))
    assert relative_error(call(robot, what, fixed), call(robot, what, spread)) < 1e-13


@pytest.mark.parametrize("what", FUNCTIONS)
@pytest.mark.parametrize("size", [4, 3 * EAGER_SAMPLES])
def test_layouts_dtypes_and_lists(robot: Robot, what: str, size: int) -> None:
    state = tuple(np.round(part) for part in random_state(robot, np.random.default_rng(4), size))
    expected = call(robot, what, state)
    for kind in (
        np.asfortranarray,
        lambda a: a.astype(int),
        lambda a: a.astype(np.float32),
        lambda a: a.tolist(),
    ):
        assert (
            relative_error(call(robot, what, tuple(kind(part) for part in state)), expected) < 1e-12
        )
    strided = tuple(np.repeat(part, 2, axis=0)[::2] for part in state)
    assert relative_error(call(robot, what, strided), expected) < 1e-12
    empty = call(robot, what, tuple(part[:0] for part in state))
    assert empty.shape == ((2, 0) if what == "energy" else (0, *expected.shape[1:]))


@pytest.mark.parametrize("what", FUNCTIONS)
@pytest.mark.parametrize("size", [4, 3 * EAGER_SAMPLES])
def test_out_is_written_and_returned(robot: Robot, what: str, size: int) -> None:
    state = random_state(robot, np.random.default_rng(5), size)
    expected = call(robot, what, state)
    if what == "energy":
        out = (np.full(size, np.nan), np.full(size, np.nan))
        md.energy(robot, *state[:2], out=out)
        assert relative_error(np.stack(out), expected) < 1e-12
        return
    out = np.full(expected.shape, np.nan)
    assert getattr(md, what)(robot, *state[: FUNCTIONS[what]], out=out) is out
    assert relative_error(out, expected) < 1e-12
    with pytest.raises(ShapeError, match="out"):
        getattr(md, what)(robot, *state[: FUNCTIONS[what]], out=np.zeros(3))


@pytest.mark.parametrize("what", FUNCTIONS)
@pytest.mark.parametrize("size", [6, 3 * EAGER_SAMPLES])
def test_nan_and_infinity_spoil_their_own_sample_alone(robot: Robot, what: str, size: int) -> None:
    state = random_state(robot, np.random.default_rng(6), size)
    clean = call(robot, what, state)
    for bad in (np.nan, np.inf):
        spoilt = tuple(part.copy() for part in state)
        for part in spoilt:
            part[2] = bad
        result = call(robot, what, spoilt)
        if what == "energy":
            result, good = result.T, clean.T
        else:
            good = clean
        others = np.arange(size) != 2
        assert relative_error(result[others], good[others]) < 1e-12
        assert np.isnan(result[2]).any()
        if np.isnan(bad):  # the sign of an infinite speed is known
            changing = np.ptp(good, axis=0) > 0  # what does not depend on the state may stay
            assert np.isnan(result[2][changing]).all()


@pytest.mark.parametrize("what", FUNCTIONS)
def test_wrong_shapes_and_dtypes_are_told(robot: Robot, what: str) -> None:
    function, number = getattr(md, what), FUNCTIONS[what]
    good = [np.zeros(robot.n)] * number
    for size in (robot.n - 1, robot.n + 1):
        for at in range(number):
            bad = list(good)
            bad[at] = np.zeros(size)
            for repeat in (1, 2 * EAGER_SAMPLES):
                bad[at] = np.zeros((repeat, size))
                with pytest.raises(ShapeError, match=rf"\.\.\., {robot.n}\)"):
                    function(robot, *bad)
    for wrong in (np.zeros(robot.n, dtype=complex), np.array(["x"] * robot.n), np.float64(1.0)):
        with pytest.raises(ShapeError):
            function(robot, wrong, *good[1:])
    if number > 1:
        with pytest.raises(ShapeError, match="broadcast"):
            function(robot, np.zeros((3, robot.n)), *[np.zeros((2, robot.n))] * (number - 1))


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("what", WITH_PARAMETERS)
@pytest.mark.parametrize("size", [2, 3 * EAGER_SAMPLES])
def test_parameters_given_in_the_call(robot: Robot, what: str, size: int) -> None:
    state = random_state(robot, np.random.default_rng(7), size)
    other = robot.parameters * np.random.default_rng(8).uniform(0.9, 1.1, len(robot.parameters))
    expected = call(robot.with_parameters(other), what, state)
    tolerance = 1e-10 if what == "forward_dynamics" else 1e-12
    assert relative_error(call(robot, what, state, parameters=other), expected) < tolerance
    with pytest.raises(ShapeError, match="parameters"):
        call(robot, what, state, parameters=other[:-1])
    with pytest.raises(ShapeError, match="real numbers"):
        call(robot, what, state, parameters=other + 1j)
    other[0] = np.inf
    with pytest.raises(md.MinidynError, match="XX1 is infinite"):
        call(robot, what, state, parameters=other)


@pytest.mark.parametrize("what", FUNCTIONS)
def test_unknown_parameters_are_named_where_they_matter(what: str) -> None:
    arm = random_chain(5, "RRP")
    state = random_state(arm, np.random.default_rng(9))
    values = arm.parameters.copy()
    values[arm.layout.index("MX2")] = np.nan
    unknown = arm.with_parameters(values)
    if what not in WITH_PARAMETERS:
        assert np.isfinite(call(unknown, what, state)).all()
        return
    with pytest.raises(UnknownParameters, match="MX2"):
        call(unknown, what, state)
    with pytest.raises(UnknownParameters, match="MX2"):
        call(arm, what, state, parameters=values)


def test_unknown_parameters_do_no_harm_where_they_do_not_matter() -> None:
    arm = random_chain(6, "RRR", friction=("viscous",), rotor_inertia=True)
    q, dq, ddq = random_state(arm, np.random.default_rng(10))
    values = arm.parameters.copy()
    for name in ("XX1", "YY1", "XY1", "M1", "MZ1"):  # a first link that turns about one axis
        values[arm.layout.index(name)] = np.nan
    unknown = arm.with_parameters(values)
    assert (
        relative_error(
            md.inverse_dynamics(unknown, q, dq, ddq), md.inverse_dynamics(arm, q, dq, ddq)
        )
        < 1e-13
    )
    assert relative_error(md.inertia_matrix(arm, q, values), md.inertia_matrix(arm, q)) < 1e-13
    values[arm.layout.index("Ia2")] = values[arm.layout.index("Fv3")] = np.nan
    assert relative_error(md.gravity_torque(arm, q, values), md.gravity_torque(arm, q)) < 1e-13
    with pytest.raises(UnknownParameters, match="Ia2"):
        md.inertia_matrix(arm, q, values)
    with pytest.raises(UnknownParameters, match="Ia2, Fv3"):
        md.inverse_dynamics(arm, q, dq, ddq, values)


def test_unknown_links_are_told() -> None:
    arm = random_chain(6, "RR")
    with pytest.raises(UnknownName, match="link2"):
        md.forward_kinematics(arm, np.zeros(2), "lnk2")
    with pytest.raises(UnknownName):
        md.jacobian(arm, np.zeros(2), 2)
    assert np.array_equal(md.forward_kinematics(arm, np.zeros(2), "base"), np.eye(4))
    assert not md.jacobian(arm, np.zeros(2), "base").any()


def test_kinematics_of_merged_frames(robot: Robot) -> None:
    q, dq, _ = random_state(robot, np.random.default_rng(11))
    assert robot.frames
    for frame in robot.frames:
        T = md.forward_kinematics(robot, q, frame.name)
        carrier = md.forward_kinematics(robot, q, frame.link)
        assert relative_error(T, carrier @ frame.placement) < 1e-13
        step = 1e-6
        ahead, behind = (
            md.forward_kinematics(robot, q + h * dq, frame.name)[:3, 3] for h in (step, -step)
        )
        assert (
            relative_error(
                (ahead - behind) / (2 * step), md.jacobian(robot, q, frame.name)[3:] @ dq
            )
            < 1e-7
        )


# ---------------------------------------------------------------- by hand


def test_a_pendulum() -> None:
    m, length, ia, fv, fc, fo = 2.0, 0.7, 0.3, 0.4, 0.5, 0.6
    body = {"mass": m, "com": (length, 0, 0), "Ia": ia, "Fv": fv, "Fc": fc, "Fo": fo}
    pendulum = Robot.from_mdh("R", alpha=[math.pi / 2], parameters=[body])
    q, dq, ddq = np.array([0.3]), np.array([-1.2]), np.array([2.0])
    inertia = m * length**2 + ia
    weight = m * 9.81 * length * math.cos(0.3)
    assert md.inertia_matrix(pendulum, q) == pytest.approx(np.array([[inertia]]))
    assert md.gravity_torque(pendulum, q) == pytest.approx(weight)
    assert md.coriolis_matrix(pendulum, q, dq) == pytest.approx(0.0)
    expected = inertia * 2.0 + weight + fv * -1.2 - fc + fo
    assert md.inverse_dynamics(pendulum, q, dq, ddq) == pytest.approx(expected)
    kinetic, potential = md.energy(pendulum, q, dq)
    assert kinetic == pytest.approx(0.5 * inertia * 1.2**2)
    assert potential == pytest.approx(m * 9.81 * length * math.sin(0.3))


def test_coulomb_friction_is_zero_at_rest() -> None:
    pendulum = Robot.from_mdh("R", parameters=[{"mass": 1.0, "Fc": 2.0}])
    rest = np.zeros(1)
    assert md.inverse_dynamics(pendulum, rest, rest, rest) == 0.0
    assert md.inverse_dynamics(pendulum, rest, np.array([-1e-9]), rest) == pytest.approx(-2.0)


def test_sliding_joints_alone_have_constant_inertia_and_no_coriolis() -> None:
    gantry = random_robot(np.random.default_rng(12), 4, kinds="P")
    q, dq, _ = random_state(gantry, np.random.default_rng(12), 8)
    M = md.inertia_matrix(gantry, q)
    assert np.ptp(M, axis=0).max() == 0.0
    assert not md.coriolis_matrix(gantry, q, dq).any()


def test_branches_do_not_feel_each_other_directly() -> None:
    bodies = [{"mass": 1.0, "com": (0.1 * k, 0.2, 0.3), "inertia": np.eye(3)} for k in range(5)]
    tree = Robot.from_mdh(
        "RRRRR", alpha=[0.3] * 5, a=[0.5] * 5, parent=[0, 1, 2, 1, 4], parameters=bodies
    )
    M = md.inertia_matrix(tree, np.full(5, 0.4))
    assert not M[np.ix_([1, 2], [3, 4])].any()
    assert np.count_nonzero(M) == 25 - 8


def test_a_coupled_drive_turns_with_both_joints_and_loads_both() -> None:
    arm = random_chain(13, "RR", rotor_inertia=True, friction=("viscous", "coulomb"))
    ratio = -0.5
    joints = (
        arm.joints[0],
        replace(arm.joints[1], drive=replace(arm.joints[1].drive, coupling=(("joint1", ratio),))),
    )
    coupled = replace(arm, joints=joints)
    bare = arm.with_drives(rotor_inertia=False, friction=())
    q, dq, ddq = random_state(arm, np.random.default_rng(14))
    ia, fv, fc = (
        [arm.parameters[arm.layout.index(f"{symbol}{k}")] for k in (1, 2)]
        for symbol in ("Ia", "Fv", "Fc")
    )
    v, dv = dq[1] + ratio * dq[0], ddq[1] + ratio * ddq[0]
    load = ia[1] * dv + fv[1] * v + fc[1] * np.sign(v)
    own = ia[0] * ddq[0] + fv[0] * dq[0] + fc[0] * np.sign(dq[0])
    expected = md.inverse_dynamics(bare, q, dq, ddq) + np.array([own + ratio * load, load])
    assert relative_error(md.inverse_dynamics(coupled, q, dq, ddq), expected) < 1e-13
    extra = np.array([[ia[0] + ratio**2 * ia[1], ratio * ia[1]], [ratio * ia[1], ia[1]]])
    assert relative_error(md.inertia_matrix(coupled, q), md.inertia_matrix(bare, q) + extra) < 1e-13


def test_a_drive_without_terms_changes_nothing() -> None:
    arm = random_chain(15, "RR")
    geared = replace(
        arm, joints=tuple(replace(joint, drive=Drive(gear_ratio=50.0)) for joint in arm.joints)
    )
    state = random_state(arm, np.random.default_rng(15))
    assert np.array_equal(md.inverse_dynamics(geared, *state), md.inverse_dynamics(arm, *state))


def test_coulomb_friction_turns_round_over_its_width() -> None:
    robot = md.load("two_link").with_drives(friction="coulomb", sign_width=0.2)
    q, dq = np.zeros((3, 2)), np.array([[0.2, 0.0], [-0.2, 50.0], [0.0, -1e-3]])
    Y = md.regressor(robot, q, dq, np.zeros((3, 2)))
    columns = [robot.parameter_names.index(name) for name in ("Fc1", "Fc2")]
    expected = dq / np.sqrt(dq**2 + 0.04)
    np.testing.assert_allclose(Y[:, [0, 1], columns], expected, rtol=1e-14)
    with pytest.raises(md.MinidynError, match="sign_width"):
        robot.with_drives(sign_width=-1.0)
