"""Drive terms against their formulas in plain NumPy.

In every function and target, in files, among base parameters.
"""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_robots import random_tree

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import OWN, count
from minidyn.dynamics.sources import source_name
from minidyn.errors import DescriptionError, UnknownName, UnknownParameters, Unsupported
from minidyn.identification.select import seen_through
from minidyn.identification.terms.catalogue import EFFECTS
from minidyn.model.drives import BOUNDED, FRICTION, NON_NEGATIVE, RIPPLE, TERMS, Term
from minidyn.recording.prepare.lowpass import lowpass

PLAIN = ("viscous", "coulomb", "offset")
EVERY = tuple(term for term in TERMS if not term.startswith(("ripple2", "ripple4")))
"""Multiples of a ripple's order are in test_ripple.py."""


def driven_tree(seed: int, width: float = 0.05, terms: tuple[str, ...] = EVERY) -> md.Robot:
    """Return a random tree with every term on every joint, two drives coupled, all values known."""
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints=5, fixed=1)
    names = [joint.name for joint in robot.joints if joint.kind != "fixed"]
    robot = robot.with_drives(
        True,
        terms,
        sign_width=width * rng.uniform(0.5, 1.5, len(robot.joints)),
        coupling={names[2]: {names[1]: 0.5}, names[3]: {names[2]: -1.0}},
        stribeck_speed=rng.uniform(0.2, 0.4, len(robot.joints)),
        ripple_order=rng.uniform(20, 40, len(robot.joints)),
    )
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = rng.uniform(0.2, 1.0)
    return robot.with_parameters(values)


def states(robot: md.Robot, samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, 7)).normal(size=(3, samples, robot.n))


def all_joints(robot: md.Robot, q: np.ndarray, offset: bool) -> np.ndarray:
    """Positions (offset) or rates of all joints (N, joints), followers included."""
    found = np.zeros((len(q), len(robot.joints)))
    for index, joint in enumerate(robot.joints):
        if joint.name in robot.joint_names:
            found[:, index] = q[:, robot.joint_names.index(joint.name)]
        elif joint.follows is not None:
            found[:, index] = joint.follows.offset if offset else 0.0
            for name, ratio in joint.follows.terms:
                found[:, index] += ratio * q[:, robot.joint_names.index(name)]
    return found


def coupling(robot: md.Robot) -> np.ndarray:
    """How far joints turn drives (joints, joints)."""
    C, indices = np.eye(len(robot.joints)), {joint.name: k for k, joint in enumerate(robot.joints)}
    for k, joint in enumerate(robot.joints):
        for name, ratio in joint.drive.coupling:
            C[k, indices[name]] += ratio
    return C


def drive_loads(robot: md.Robot, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
    """What each joint carries.

    Independent ones what the robot needs but for rotors that can be told from links. Followers, and
    all joints where a follower has part in a coupling, what hangs on them at rest.
    """
    indices = {joint.name: k for k, joint in enumerate(robot.joints)}
    follow = {joint.name for joint in robot.joints if joint.follows is not None}
    turned = [{joint.name, *(name for name, _ in joint.drive.coupling)} for joint in robot.joints]
    found, bare = np.zeros((len(q), len(robot.joints))), robot.with_drives(False, ())
    if follow:
        free = replace(bare, joints=tuple(replace(joint, follows=None) for joint in bare.joints))
        alone = md.gravity_torque(
            free, all_joints(robot, q, True)[:, [indices[name] for name in free.joint_names]]
        )
        for name in follow:
            found[:, indices[name]] = alone[:, free.joint_names.index(name)]
    if any(len(names) > 1 and names & follow for names in turned):
        carried = md.gravity_torque(bare, q)
    else:
        own = [
            column
            for column in robot.layout.columns
            if column.is_inertial or column.symbol in ("Ia", "Ja")
        ]
        Y = md.regressor(robot, *np.random.default_rng(5).normal(size=(3, 3 * len(own), robot.n)))
        Y = Y[..., [column.index for column in own]].reshape(-1, len(own))
        Y = Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-300)
        values, rank = robot.parameters.copy(), np.linalg.matrix_rank(Y, 1e-8)
        for k, column in enumerate(own):
            if column.symbol == "Ia" and robot.joints[column.joint].name not in follow:
                told = np.linalg.matrix_rank(np.delete(Y, k, axis=1), 1e-8) < rank
                values[column.index] *= not told
        inertial = np.isin(np.arange(len(values)), [column.index for column in own])
        carried = md.regressor(robot, q, dq, ddq) @ np.where(inertial, values, 0.0)
    for k, name in enumerate(robot.joint_names):
        found[:, indices[name]] = carried[:, k]
    return found


def plain_drive_torque(
    robot: md.Robot, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray
) -> np.ndarray:
    """The torque of all drives by the formulas of `minidyn.model.drives`, in NumPy alone."""
    count = len(robot.joints)
    Q, V, A = (
        all_joints(robot, q, True),
        all_joints(robot, dq, False),
        all_joints(robot, ddq, False),
    )
    G = all_joints(robot, np.eye(robot.n), False).T
    C = coupling(robot)
    load = np.abs(drive_loads(robot, q, dq, ddq) @ np.linalg.inv(C))
    v, a = V @ C.T, A @ C.T
    on_drive, on_joint = np.zeros((len(q), count)), np.zeros((len(q), count))
    for k, joint in enumerate(robot.joints):
        w, fall = joint.drive.sign_width, joint.drive.stribeck_speed

        def s(x: np.ndarray, w: float = w) -> np.ndarray:
            return np.sign(x) if w == 0.0 else x / np.sqrt(x**2 + w**2)

        x = v[:, k]
        value = {c.symbol: robot.parameters[c.index] for c in robot.layout.drives[k]}
        shapes = {
            "Ia": a[:, k],
            "Fv": x,
            "Fc": s(x),
            "Fo": np.ones_like(x),
            "Fs": s(x) / (1 + (x / (fall or 1)) ** 2),
            "Fr": s(x) * (x**2 + w**2) ** 0.25,
            "Fq": x * x * s(x),
            "Fk": x**3,
            "Fa": x * s(x),
            "Fl": load[:, k] * s(x),
            "Fx": x / np.sqrt(x**2 + 0.2**2),
            "Fy": x / np.sqrt(x**2 + 0.8**2),
            "Wa": np.sin(joint.drive.ripple_order * (Q @ C.T)[:, k]),
            "Wb": np.cos(joint.drive.ripple_order * (Q @ C.T)[:, k]),
            "Wc": x * s(x) * np.sin(joint.drive.ripple_order * (Q @ C.T)[:, k]),
            "Wd": x * s(x) * np.cos(joint.drive.ripple_order * (Q @ C.T)[:, k]),
            "Fp": s(x),  # steady sliding: test_presliding.py has the state
            "Fb": 0.0 * x,  # likewise: test_breakaway.py
        }
        own_shapes = {
            "Ks": Q[:, k],
            "Bs": np.sin(Q[:, k]),
            "Bc": np.cos(Q[:, k]),
            "Ja": A[:, k],
            "Jv": V[:, k],
            "Jc": s(V[:, k]),
        }
        for symbol, number in value.items():
            if symbol in shapes:
                on_drive[:, k] += number * shapes[symbol]
            else:
                on_joint[:, k] += number * own_shapes[symbol]
    return (on_drive @ C + on_joint) @ G


@pytest.mark.parametrize("seed", range(count(4, 40)))
@pytest.mark.parametrize("width", [0.05, 0.0])
def test_every_function_has_the_terms_of_the_formulas(seed, width) -> None:
    robot = driven_tree(seed, width)
    q, dq, ddq = states(robot, 12, seed)
    bare = robot.with_drives(False, ())
    expected = md.inverse_dynamics(bare, q, dq, ddq) + plain_drive_torque(robot, q, dq, ddq)
    size = np.abs(expected).max()
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq), expected, atol=1e-11 * size)
    np.testing.assert_allclose(
        md.inverse_dynamics(robot, q, dq, ddq, robot.parameters), expected, atol=1e-11 * size
    )
    Y = md.regressor(robot, q, dq, ddq)
    np.testing.assert_allclose(Y @ robot.parameters, expected, atol=1e-11 * size)
    Y_lagrange = md.regressor(robot, q, dq, ddq, form="lagrange")
    np.testing.assert_allclose(Y_lagrange, Y, atol=1e-10 * np.abs(Y).max())
    reference = md.slotine_li_regressor(robot, q, dq, dq, ddq)
    np.testing.assert_allclose(reference @ robot.parameters, expected, atol=1e-10 * size)
    found = md.forward_dynamics(robot, q, dq, expected)
    np.testing.assert_allclose(found, ddq, atol=1e-7 * np.abs(ddq).max())
    compiled = md.compile(robot, "inverse_dynamics")(q, dq, ddq)
    np.testing.assert_allclose(compiled, expected, atol=1e-11 * size)


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_own_inertia_moves_with_the_joint(seed) -> None:
    robot = driven_tree(seed)
    q, dq, _ = states(robot, 3, seed)
    dq *= 0.0  # friction that grows with the load would grow with the acceleration
    M = md.inertia_matrix(robot, q)
    bias = md.inverse_dynamics(robot, q, dq, 0 * q)
    for k in range(robot.n):
        unit = np.broadcast_to(np.eye(robot.n)[k], q.shape)
        np.testing.assert_allclose(
            M[:, k], md.inverse_dynamics(robot, q, dq, unit) - bias, atol=1e-10 * np.abs(M).max()
        )


def test_momentum_and_energy_balance_with_every_term() -> None:
    robot = driven_tree(3)
    q, dq, _ = states(robot, 5)
    W, rest = md.compile(robot, "momentum_regressor")(q, dq)
    np.testing.assert_allclose(
        W @ robot.parameters, np.einsum("kij,kj->ki", md.inertia_matrix(robot, q), dq), atol=1e-9
    )
    # drive terms other than inertias are forces: they stand in the rest as in the torque at no
    # acceleration
    friction = [c.index for c in robot.layout.columns if c.is_friction and c.symbol != "Fl"]
    Y = md.regressor(robot, q, dq, 0 * dq)
    np.testing.assert_allclose(rest[..., friction], Y[..., friction], atol=1e-12)
    # loads are those at rest: what accelerations add is not known
    weight = np.abs(drive_loads(robot, q, 0 * dq, 0 * dq) @ np.linalg.inv(coupling(robot)))
    for column in robot.layout.columns:
        if column.symbol == "Fl":
            sign = rest[..., robot.layout.index(f"Fc{column.joint + 1}")]
            np.testing.assert_allclose(
                rest[..., column.index], weight[:, [column.joint]] * sign, atol=1e-9
            )


@needs_gcc
def test_generated_code(tmp_path) -> None:
    robot = driven_tree(1)
    q, dq, ddq = states(robot, 3)
    expected = md.inverse_dynamics(robot, q, dq, ddq)
    kernel = md.compile(robot, "inverse_dynamics")
    scope: dict[str, object] = {}
    exec(kernel.source("python"), scope)  # noqa: S102
    np.testing.assert_allclose(
        scope["inverse_dynamics"](q, dq, ddq), expected, rtol=1e-9, atol=1e-12
    )
    (tmp_path / "f.c").write_text(kernel.source("c"), encoding="utf-8")
    subprocess.run(
        ["gcc", *STRICT, "-shared", "-fPIC", "f.c", "-o", "f.so", "-lm"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    run = getattr(library, source_name(robot, kernel.function))
    for row in range(len(q)):
        out = np.zeros(robot.n)
        arrays = [np.ascontiguousarray(a[row]) for a in (q, dq, ddq)]
        run(*(a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (*arrays, out)))
        np.testing.assert_allclose(out, expected[row], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(count(3, 30)))
def test_files_keep_every_term(seed, tmp_path) -> None:
    robot = driven_tree(seed)
    md.save(robot, tmp_path / "robot.toml")
    again = md.load(tmp_path / "robot.toml")
    assert again.parameter_names == robot.parameter_names
    assert again.structure_fingerprint == robot.structure_fingerprint
    np.testing.assert_array_equal(again.parameters, robot.parameters)
    md.save(robot, tmp_path / "robot.urdf")
    q, dq, ddq = states(robot, 4)
    np.testing.assert_allclose(
        md.inverse_dynamics(md.load(tmp_path / "robot.urdf"), q, dq, ddq),
        md.inverse_dynamics(robot, q, dq, ddq),
        atol=1e-9,
    )


def test_values_of_the_drive_table(tmp_path) -> None:
    text = (
        '[[joint]]\ntype = "prismatic"\n'
        "drive = { viscous = 2.0, sqrt = 0.5, stribeck_speed = 0.3, %s }\n"
        "[[link]]\nname = 'link1'\nmass = 1.0\n"
    )
    path = tmp_path / "slide.toml"
    path.write_text(text % "stribeck = 1.5")
    robot = md.load(path)
    assert robot.parameter_names[10:] == ("Fv1", "Fs1", "Fr1")
    assert robot.joints[0].drive.stribeck_speed == 0.3
    tau = md.inverse_dynamics(robot, [0.0], [0.04], [0.0]) - md.gravity_torque(robot, [0.0])
    np.testing.assert_allclose(
        tau, 2.0 * 0.04 + 0.5 * 0.2 + 1.5 / (1 + (0.04 / 0.3) ** 2), rtol=1e-12
    )
    for wrong, what in (("own_viscous = 1.0", "coupling"), ("counterbalance_sin = 1.0", "angle")):
        path.write_text(text % wrong)
        with pytest.raises(DescriptionError, match=what):
            md.load(path)
    path.write_text(text % "stribek = 1.0")
    with pytest.raises(DescriptionError, match="stribeck"):
        md.load(path)


def test_terms_by_name() -> None:
    robot = md.load("ur10e")
    assert robot.with_drives(friction="counterbalance").joints[0].drive.friction == (
        "counterbalance_sin",
        "counterbalance_cos",
    )
    assert robot.with_drives(friction="own").joints[5].drive.friction == ()
    names = robot.joint_names
    coupled = robot.with_drives(friction="own", coupling={names[5]: {names[4]: 1.0}})
    assert coupled.parameter_names[-3:] == ("Ja6", "Jv6", "Jc6")
    assert [name for name in coupled.parameter_names if name[0] == "J"] == ["Ja6", "Jv6", "Jc6"]
    with pytest.raises(UnknownName, match="sqrt"):
        robot.with_drives(friction="sqr")
    signed = {"Fo", "Fa", "Ks", "Bs", "Bc", "Kb", "Pb", "Gb", *RIPPLE}
    assert set(FRICTION.values()) - NON_NEGATIVE == signed
    assert all(isinstance(term, Term) and term.column and term.unit for term in TERMS.values())


def test_dissipative_terms_take_power() -> None:
    """What is called non-negative takes power out of the motion in every state."""
    robot = driven_tree(2)
    q, dq, _ = states(robot, 200)
    Y = md.regressor(robot, q, dq, 0 * dq)
    power = np.einsum("ki,kip->kp", dq, Y)
    for column in robot.layout.columns:
        if column.is_friction and column.symbol in NON_NEGATIVE:
            assert power[:, column.index].min() >= -1e-12, column.name
        elif column.is_friction:
            assert power[:, column.index].min() < 0, column.name


@pytest.mark.parametrize("seed", range(count(3, 30)))
@pytest.mark.parametrize(
    "apart", [("curve_low", "curve_high"), ("stribeck", "sqrt", "quadratic", "cubic")]
)
def test_base_parameters_by_every_method(seed, apart) -> None:
    """Exact, numeric and sixty-digit ranks agree, and the base model has the torques.

    All smooth functions of one speed at once are too alike for double precision: some are left
    apart.
    """
    robot = driven_tree(seed, width=0.0, terms=tuple(term for term in EVERY if term not in apart))
    exact = md.base_parameters(robot)
    assert exact.rank == md.base_parameters(robot, method="qr").rank
    assert exact.rank == md.base_parameters(robot, method="svd").rank
    q, dq, ddq = states(robot, 20, seed)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    predicted = md.base_regressor(robot, q, dq, ddq, base=exact) @ exact.values(robot.parameters)
    np.testing.assert_allclose(predicted, tau, atol=1e-7 * np.abs(tau).max())


def test_what_terms_share() -> None:
    """Counts by hand: a counterbalance is a first moment, and what accelerates loads its drive."""
    pendulum = md.Robot.from_mdh("R", alpha=[np.pi / 2], gravity=(0, 0, -9.81))
    assert md.base_parameters(pendulum).rank == 3  # ZZ, MX, MY
    assert md.base_parameters(pendulum.with_drives(friction="counterbalance")).rank == 3
    assert md.base_parameters(pendulum.with_drives(friction="spring")).rank == 4
    assert md.base_parameters(pendulum.with_drives(friction=("coulomb", "load"))).rank == 5
    upright = md.Robot.from_mdh("R", gravity=(0, 0, -9.81))
    assert md.base_parameters(upright).rank == 1
    assert md.base_parameters(upright.with_drives(friction="counterbalance")).rank == 3
    assert md.base_parameters(upright.with_drives(friction=("coulomb", "load"))).kept == (
        "ZZ1",
        "Fc1",
        "Fl1",
    )
    lift = md.Robot.from_mdh("P", gravity=(0, 0, -9.81)).with_drives(friction=("coulomb", "load"))
    assert md.base_parameters(lift).kept == ("M1", "Fc1", "Fl1")
    for method in ("mlc", "rules+qr"):
        robot = md.load("puma4").with_drives(friction=(*PLAIN, "stribeck", "sqrt", "asymmetric"))
        assert md.base_parameters(robot, method=method).rank == md.base_parameters(robot).rank
    robot = md.load("puma4").with_drives(friction=(*PLAIN, "counterbalance", "load"))
    assert md.base_parameters(robot, method="rules+qr").rank == md.base_parameters(robot).rank
    with pytest.raises(Unsupported, match="exact"):
        md.base_parameters(robot, method="mlc")


def test_a_wrist_of_sixty_one() -> None:
    """Joint 6's drive turns with joint 5 too.

    With its own inertia and friction 61 parameters show, as published.
    """
    robot = md.load("ur10e").with_drives(True, PLAIN)
    names = robot.joint_names
    assert md.base_parameters(robot).rank == 58
    coupled = robot.with_drives(coupling={names[5]: {names[4]: 1.0}})
    assert md.base_parameters(coupled).rank == 58
    assert md.base_parameters(coupled.with_drives(friction=(*PLAIN, "own"))).rank == 61


def test_loads_follow_the_parameters() -> None:
    robot = md.load("ur10e").with_drives(friction=("load",))
    values = robot.parameters.copy()
    friction = [column.index for column in robot.layout.columns if column.symbol == "Fl"]
    values[friction] = 0.1
    robot = robot.with_parameters(values)
    q, dq, _ = states(robot, 5)
    light, heavy = (
        md.inverse_dynamics(robot, q, dq, 0 * q, factor * values) for factor in (1.0, 2.0)
    )
    bare = robot.with_drives(friction=())
    rigid = md.inverse_dynamics(bare, q, dq, 0 * q)
    np.testing.assert_allclose(heavy - 2 * rigid, 4 * (light - rigid), atol=1e-9)
    np.testing.assert_allclose(light - rigid, 0.1 * np.abs(rigid) * np.sign(dq), atol=1e-9)
    as_argument = md.compile(robot, "regressor", parameters="argument")(q, dq, 0 * q, values)
    np.testing.assert_allclose(as_argument, md.regressor(robot, q, dq, 0 * q), atol=1e-12)
    with pytest.raises(UnknownParameters, match="regressor of robot"):
        md.regressor(robot.with_parameters(None), q, dq, 0 * q)


def test_what_cannot_be_meant() -> None:
    robot = md.load("ur10e")
    with pytest.raises(Exception, match="stribeck_speed: expected a speed"):
        robot.with_drives(stribeck_speed=-1.0)


def rubbing(
    terms: tuple[str, ...], sizes: dict[str, float], name: str = "ur10e", **options: object
) -> md.Robot:
    """Return a built-in robot with these terms, each of one size on all joints."""
    robot = md.load(name).with_drives(True, terms, **options)
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = sizes.get(column.symbol, 0.5)
    return robot.with_parameters(values)


def log(
    robot: md.Robot, seed: int, noise: float = 0.0, samples: int = 3000, speed: float = 1.5
) -> md.Recording:
    t = np.linspace(0, 24, samples)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=speed)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + noise * np.random.default_rng(seed).normal(size=tau.shape) * np.sqrt(
        np.mean(tau**2, axis=0)
    )
    return md.Recording(t, q, tau, dq, ddq, robot.joint_names)


@pytest.mark.parametrize(
    "terms",
    [
        ("load",),
        ("sqrt", "asymmetric"),
        ("stribeck",),
        ("spring", "quadratic", "cubic"),
        ("curve",),
    ],
)
def test_values_of_terms_are_found(terms) -> None:
    """From exact torques, with the terms and widths named, parameters and torques come back."""
    truth = rubbing((*PLAIN, *terms), {"Fl": 0.1, "Ia": 0.3}, sign_width=0.05, stribeck_speed=0.2)
    unknown = truth.with_parameters(None)
    estimate = md.identify(unknown, log(truth, 1), prior=False, consistent=False, **OWN)
    other = log(truth, 2)
    assert md.validate(estimate, other).relative_error < (2e-3 if "load" in terms else 1e-6)
    for name, value in zip(estimate.names, estimate.beta):
        if name in truth.parameter_names and name[:2] in FRICTION.values():
            np.testing.assert_allclose(
                value, truth.parameters[truth.layout.index(name)], rtol=0.02, atol=5e-3
            )


def test_terms_are_chosen_where_they_are_and_not_elsewhere() -> None:
    plain = rubbing(PLAIN, {"Fc": 4.0, "Fv": 3.0, "Fo": 0.3, "Ia": 0.3}, sign_width=0.05)
    rich = rubbing(
        (*PLAIN, "load"), {"Fc": 4.0, "Fv": 3.0, "Fo": 0.3, "Fl": 0.15, "Ia": 0.3}, sign_width=0.05
    )
    described = md.load("ur10e").with_drives(True)
    for truth, added in ((plain, ()), (rich, ("load",))):
        estimate = md.identify(described, log(truth, 3, noise=0.02), friction="auto")
        assert tuple(estimate.record["friction"]) == (*PLAIN, *added)
        assert "friction.chosen" in {notice.code for notice in estimate.notices}
        rows = [row for row in estimate.selection if row.candidate in EFFECTS]
        assert {"load", "stribeck", "presliding"} <= {row.candidate for row in rows}
        assert {row.candidate for row in rows if row.is_taken} == set(added)
        assert all(row.gain is not None and row.standard_error is not None for row in rows)
        assert estimate.certificate.everywhere
        validation = md.validate(estimate, log(truth, 4))
        assert validation.relative_error < 0.02


@pytest.mark.parametrize("term", ["load", "ripple1"])
def test_the_right_terms_by_name_are_as_good_as_chosen_ones(term) -> None:
    """Widths are chosen with the friction of the load, and waves of gears do not ask for another
    low-pass.
    """
    orders = {"ripple_order": [60, 70, 80, 90, 100, 110]} if term == "ripple1" else {}
    truth, t = md.load("ur10e").with_drives(True, (*PLAIN, term), **orders), np.arange(6000) / 250
    sizes = {"Ia": 0.3, "Fv": 4.0, "Fc": 4.0, "Fo": 0.4, "Fl": 0.1, "Wa": 2.0, "Wb": 1.0}
    values = np.array(truth.parameters)
    for column in truth.layout.columns:
        if column.symbol in FRICTION.values() or column.symbol == "Ia":
            values[column.index] = sizes.get(column.symbol, 0.4) * 0.75**column.joint
    q, dq, ddq = md.trajectory.fourier(truth, seed=1)(t)
    tau = md.inverse_dynamics(truth := truth.with_parameters(values), q, dq, ddq)
    noisy = tau + 0.01 * np.random.default_rng(51).normal(size=tau.shape) * np.sqrt(
        np.mean(tau**2, axis=0)
    )
    raw = md.Recording(t, np.round(q / 2e-5) * 2e-5, noisy, joint_names=truth.joint_names)
    robot, exact = md.load("ur10e").with_drives(True, **orders), log(truth, 4, speed=1.0)
    found = [
        md.identify(robot, raw, friction=terms, consistent=False)
        for terms in ("auto", (*PLAIN, term))
    ]
    chosen, named = (
        float(np.sqrt(np.mean((exact.tau - one.predict(exact)) ** 2))) for one in found
    )
    # where both are within 0.05 % of the torque, which is smaller is chance
    assert named < max(1.1 * chosen, 5e-4 * float(np.sqrt(np.mean(exact.tau**2))))


def test_friction_that_falls_during_a_log_is_taken_off() -> None:
    """Grease that warms up.

    The model has the friction of the log's end, and predicts a warm robot.
    """
    truth = rubbing(
        PLAIN, {"Fc": 4.0, "Fv": 3.0, "Fo": 0.3, "Ia": 0.3}, "two_link", sign_width=0.05
    )
    rigid = truth.with_drives(False, ())
    warm = log(truth, 3, noise=0.02)
    left = (np.exp(-warm.t / 8.0) - np.exp(-3.0)) / (1.0 - np.exp(-3.0))
    signals = warm.q, warm.dq, warm.ddq
    friction = (
        md.inverse_dynamics(truth, *signals)
        - md.inverse_dynamics(rigid, *signals)
        - 0.3
        - 0.3 * warm.ddq
    )
    cold = replace(warm, tau=warm.tau + 0.15 * left[:, None] * friction)
    described = md.load("two_link").with_drives(True)
    estimate = md.identify(described, cold)
    assert estimate.record["warming"]["share"] == pytest.approx(0.15, abs=0.03)
    assert estimate.record["warming"]["time"] == pytest.approx(
        7.2
    )  # the nearest of those that are tried
    assert any(notice.code == "friction.warming" for notice in estimate.notices)
    for symbol, true in (("Fc", 4.0), ("Fv", 3.0)):
        for joint in (1, 2):
            assert estimate.parameters[
                estimate.robot.layout.index(f"{symbol}{joint}")
            ] == pytest.approx(true, rel=0.03)
    mean = md.identify(
        described, cold, friction=PLAIN
    )  # terms that are named are fitted to the log as it is
    assert "warming" not in mean.record
    exact = log(truth, 4)
    assert (
        md.validate(estimate, exact).relative_error < 0.4 * md.validate(mean, exact).relative_error
    )
    assert "warming" not in md.identify(described, warm).record


@pytest.mark.parametrize("seed", range(count(3, 30)))
def test_reversals_are_seen_through_the_low_pass_of_the_torque(seed) -> None:
    """Columns from each sample's own speed and acceleration, against columns that have passed the
    filter itself.
    """
    rng = np.random.default_rng(seed)
    cutoff, t = rng.uniform(8.0, 40.0), np.arange(0, 4, 1e-3)
    q, dq, ddq = md.trajectory.fourier(md.load("scara"), seed=seed, period=4.0)(t)
    width = rng.choice([0.0, 0.05]) * np.abs(ddq).mean(axis=0) / cutoff
    whole = md.load("scara").with_drives(False, "coulomb", sign_width=width).with_parameters(None)
    names = [name for name in whole.parameter_names if name.startswith("Fc")]
    sharp, soft = (
        md.regressor(robot, q, dq, ddq, columns=names)[500:-500]
        for robot in (whole, seen_through(whole, cutoff))
    )
    filtered = lowpass(md.regressor(whole, q, dq, ddq, columns=names), 1e3, cutoff)[500:-500]
    assert np.linalg.norm(soft - filtered) < 0.4 * np.linalg.norm(sharp - filtered)
    assert seen_through(seen_through(whole, cutoff), 0.0) == whole


def test_friction_that_reverses_at_once_is_found_behind_a_low_pass() -> None:
    """The model has the friction of the robot, not that of its filtered torques.

    It predicts slower motions, too.
    """
    truth = md.load("scara").with_drives(True, PLAIN)
    values = truth.parameters.copy()
    for column in truth.layout.columns:
        values[column.index] = {"Ia": 0.1, "Fv": 0.5, "Fc": 1.5, "Fo": 0.2}.get(
            column.symbol, values[column.index]
        )
    truth, t = truth.with_parameters(values), np.arange(0, 10, 0.01)
    q, dq, ddq = md.trajectory.fourier(truth, seed=1, period=4.0, speed=2.0)(t)
    rng = np.random.default_rng(0)
    tau = md.inverse_dynamics(truth, q, dq, ddq)
    tau += 0.01 * tau.std(axis=0) * rng.normal(size=tau.shape)
    raw = md.Recording(t, q + 1e-5 * rng.normal(size=q.shape), tau, joint_names=truth.joint_names)
    estimate = md.identify(md.load("scara"), raw)
    assert tuple(estimate.record["friction"]) == PLAIN
    slow = md.trajectory.fourier(truth, seed=2, period=20.0)(t)
    exact = md.inverse_dynamics(truth, *slow)
    predicted = estimate.predict(md.Recording(t, slow[0], exact, *slow[1:], truth.joint_names))
    assert np.linalg.norm(predicted - exact) < 0.01 * np.linalg.norm(exact)


def bent(robot: md.Robot, log: md.Recording) -> md.Recording:
    """Return a log with friction that levels off with the speed, as lubricated gears have it and no
    term does.
    """
    curve = 6.0 * np.sign(log.dq) * (1.0 - np.exp(-np.abs(log.dq) / 0.4))
    return replace(log, tau=log.tau + curve)


def test_a_free_curve_follows_friction_that_levels_off_and_extrapolates() -> None:
    plain = rubbing(PLAIN, {"Fc": 4.0, "Fv": 1.5, "Fo": 0.3, "Ia": 0.3}, sign_width=0.05)
    bare = md.load("ur10e").with_drives(True)
    slow = bent(plain, log(plain, 3, noise=0.01))
    fast = bent(plain, log(plain, 4, speed=4.0))
    estimate = md.identify(bare, slow, friction="auto", force_terms="curve")
    assert {"curve_low", "curve_high"} <= set(estimate.record["friction"])
    assert estimate.certificate.consistent
    named = md.identify(bare, slow, friction=PLAIN)
    errors = [md.validate(model, fast).relative_error for model in (estimate, named)]
    assert (
        errors[0] < 0.5 * errors[1]
    )  # at speeds nearly three times as high as any that was fitted


def test_friction_that_nobody_asked_for_is_told() -> None:
    truth = rubbing(PLAIN, {"Fc": 4.0, "Fv": 3.0, "Fo": 0.3, "Ia": 0.3}, sign_width=0.05)
    bare = md.load("ur10e").with_drives(True)
    estimate = md.identify(bare, log(truth, 3, noise=0.02), consistent=False, **OWN)
    assert "friction.missing" in {notice.code for notice in estimate.notices}
    named = md.identify(
        truth.with_parameters(None), log(truth, 3, noise=0.02), consistent=False, **OWN
    )
    assert "friction.missing" not in {notice.code for notice in named.notices}
    asked = md.identify(bare, log(truth, 3, noise=0.02), friction=(), consistent=False)
    assert "friction.missing" not in {notice.code for notice in asked.notices}


def test_a_recording_on_disk_gives_the_same_choice(tmp_path) -> None:
    truth = rubbing(
        (*PLAIN, "load"), {"Fc": 4.0, "Fv": 3.0, "Fo": 0.3, "Fl": 0.15, "Ia": 0.3}, sign_width=0.05
    )
    bare = md.load("ur10e").with_drives(True)
    recording = log(truth, 3, noise=0.02)
    recording.save(tmp_path / "log.parquet")
    lazy = md.read_recording(tmp_path / "log.parquet", bare, lazy=True, use_ddq=True)
    one, two = (
        md.identify(bare, some, friction="auto", consistent=False) for some in (recording, lazy)
    )
    assert one.record["friction"] == two.record["friction"] == [*PLAIN, "load"]
    np.testing.assert_allclose(one.beta, two.beta, rtol=1e-6, atol=1e-8)


def test_a_prior_of_the_plain_robot_serves_chosen_terms() -> None:
    truth = rubbing(
        (*PLAIN, "load"), {"Fc": 4.0, "Fv": 3.0, "Fo": 0.3, "Fl": 0.15, "Ia": 0.3}, sign_width=0.05
    )
    bare = md.load("ur10e").with_drives(True)
    estimate = md.identify(bare, log(truth, 3, noise=0.02), friction="auto", prior=bare.parameters)
    assert estimate.certificate.everywhere
    with pytest.raises(md.MinidynError, match="leave base out"):
        md.identify(bare, log(truth, 3), friction="auto", base=md.base_parameters(bare))


def test_the_page_lists_every_term() -> None:
    page = (Path(__file__).parents[2] / "docs" / "friction.md").read_text(encoding="utf-8")
    for name, term in TERMS.items():
        column = term.column.replace("|", "\\|")
        sign = "sum ≥ 0" if term.symbol in BOUNDED else "≥ 0" if term.non_negative else "any"
        assert f"| `{name}` | {term.symbol} | {column} | {term.unit} | {sign} |" in page
