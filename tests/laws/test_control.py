"""Controllers: every law on several robots, their promises, and what they refuse."""

import ctypes
import subprocess

import numpy as np
import pytest

import minidyn as md
from c_compiler import STRICT, needs_gcc
from minidyn import control
from minidyn.errors import NotRealizable, UnknownName
from minidyn.model.parameters import from_body, realizability
from minidyn.simulation.payload import Payload
from minidyn.simulation.simulate import simulate
from minidyn.simulation.trajectory import fourier, hold
from robot_cases import FOUR_BAR

ROBOTS = ("puma4", "two_link", "stanford", "panda")


def slow(robot):
    return fourier(robot, seed=3, period=8.0, speed=1.0)


def scaled_gain(robot):
    """A gain that suits each joint: some multiple of its own inertia."""
    q, _, _ = slow(robot)(np.linspace(0, 8, 50))
    return 20 * np.diagonal(md.inertia_matrix(robot, q), axis1=-2, axis2=-1).mean(axis=0)


@pytest.mark.parametrize("name", ROBOTS)
def test_laws_with_a_right_model_keep_to_the_trajectory(name) -> None:
    robot = md.load(name)
    gain = scaled_gain(robot)
    laws = [
        control.computed_torque(robot, bandwidth=20),
        control.slotine_li(robot, bandwidth=10, gain=gain, adaptation=1e-6),
        control.modified_slotine_li(robot, bandwidth=20, adaptation=1e-6),
        control.modified_slotine_li(robot, bandwidth=10, gain=gain, adaptation=1e-6),
        control.slotine_li(
            robot, bandwidth=10, gain=gain, adaptation=1e-6, base=md.base_parameters(robot)
        ),
    ]
    for law in laws:
        recording = simulate(robot, law, slow(robot), 1.0)
        assert np.abs(recording.telemetry["error"]).max() < 5e-3, law


@pytest.mark.parametrize("name", ROBOTS)
def test_wrong_models_are_corrected_by_adaptation(name) -> None:
    """In continuous time, from a model 30 % too light, the error at the end is far below that of a
    fixed model.
    """
    robot = md.load(name)
    wrong = robot.with_parameters(0.7 * robot.parameters)
    gain = scaled_gain(robot)
    trajectory = slow(robot)

    def last_error(law) -> float:
        recording = simulate(robot, law, trajectory, 3.0, dt=2e-3, control="continuous", check=True)
        if "lyapunov" in recording.telemetry:
            value = recording.telemetry["lyapunov"]
            assert np.all(np.diff(value) <= 1e-6 * value[0])
        return float(np.abs(recording.telemetry["error"][-300:]).max())

    adaptation = np.maximum(np.abs(robot.parameters), 1e-3)
    fixed = last_error(control.slotine_li(wrong, bandwidth=10, gain=gain, adaptation=1e-9))
    adaptive = last_error(control.slotine_li(wrong, bandwidth=10, gain=gain, adaptation=adaptation))
    assert adaptive < 0.5 * fixed


def test_pd_with_gravity_holds_a_robot_still() -> None:
    robot = md.load("panda")
    start = np.full(7, 0.4)
    law = control.pd_gravity(robot, gain=50 * np.array([4, 4, 3, 3, 1, 1, 0.2]), bandwidth=20)
    recording = simulate(robot, law, hold(start), 2.0, q0=start + 0.05)
    assert (
        np.abs(recording.telemetry["error"][-1]).max()
        < 1e-2
        < np.abs(recording.telemetry["error"][0]).max()
    )


def test_slotine_li_law_is_the_formula() -> None:
    robot = md.load("stanford")
    rng = np.random.default_rng(0)
    q, dq, q_d, dq_d, ddq_d = rng.normal(size=(5, robot.n))
    theta = rng.normal(size=len(robot.parameter_names))
    K = np.arange(1.0, 7.0)
    law = control.slotine_li(robot, bandwidth=3.0, gain=K, adaptation=0.2, initial=theta)
    state, torque, telemetry = law(law.start, control.Measurement(0.0, q, dq), (q_d, dq_d, ddq_d))
    dq_r, ddq_r = dq_d - 3 * (q - q_d), ddq_d - 3 * (dq - dq_d)
    s = dq - dq_r
    M, C = md.inertia_matrix(robot, q, theta), md.coriolis_matrix(robot, q, dq, theta)
    np.testing.assert_allclose(
        torque, M @ ddq_r + C @ dq_r + md.gravity_torque(robot, q, theta) - K * s, rtol=1e-9
    )
    unit = np.eye(len(theta))
    columns = np.stack(
        [
            md.inertia_matrix(robot, q, e) @ ddq_r
            + md.coriolis_matrix(robot, q, dq, e) @ dq_r
            + md.gravity_torque(robot, q, e)
            for e in unit
        ],
        axis=1,
    )
    np.testing.assert_allclose(state, theta - law.period * 0.2 * columns.T @ s, atol=1e-10)
    np.testing.assert_allclose(telemetry["error"], q - q_d)


def test_craig_law_is_the_formula() -> None:
    robot = md.load("two_link")
    rng = np.random.default_rng(1)
    q, dq, ddq, q_d, dq_d, ddq_d = rng.normal(size=(6, robot.n))
    unknown = ["ZZ1", "MX2", "ZZ2"]
    law = control.craig(robot, bandwidth=4.0, adaptation=0.5, unknown=unknown)
    state, torque, _ = law(law.start, control.Measurement(0.0, q, dq, ddq), (q_d, dq_d, ddq_d))
    demanded = ddq_d - 8 * (dq - dq_d) - 16 * (q - q_d)
    np.testing.assert_allclose(torque, md.inverse_dynamics(robot, q, dq, demanded), rtol=1e-9)
    Y = md.regressor(robot, q, dq, ddq)[:, [robot.parameter_names.index(name) for name in unknown]]
    filtered = np.linalg.solve(md.inertia_matrix(robot, q), (dq - dq_d) + 4 * (q - q_d))
    np.testing.assert_allclose(state, law.start - law.period * 0.5 * Y.T @ filtered, rtol=1e-9)


def test_natural_adaptation_keeps_links_realizable() -> None:
    """With the same large gain the plain gradient leaves the realizable set and the natural one
    does not.
    """
    robot = md.load("ur10e")
    wrong = robot.with_parameters(0.5 * robot.parameters)
    gain = scaled_gain(robot)

    def smallest(consistent: bool, adaptation: float) -> float:
        law = control.slotine_li(
            wrong, bandwidth=10, gain=gain, adaptation=adaptation, consistent=consistent
        )
        recording = simulate(robot, law, slow(robot), 1.0, dt=1e-3, control="continuous")
        estimates = recording.telemetry["estimate"][::20].reshape(-1, robot.n, 10)
        assert np.abs(estimates[-1] - estimates[0]).max() > 1e-3
        return min(
            realizability(ten).smallest_eigenvalue for estimate in estimates for ten in estimate
        )

    assert smallest(True, 0.05) > 0
    assert smallest(False, 1.0) < 0


def test_unknown_load_is_found() -> None:
    """The mass of a load with a known centre, on a robot that carries it as a body of its own."""
    robot = md.load("panda")
    com = [0.0, 0.02, 0.1]
    model = robot.with_load(parameters=np.zeros(10))
    truth = robot.with_load(parameters={"mass": 1.5, "com": com})
    unknown = {"load": control.point_mass(model, com, "load")}
    law = control.modified_slotine_li(
        model, bandwidth=30, adaptation=5.0, unknown=unknown, initial=0.3
    )
    assert law.estimated == ("load",)
    recording = simulate(truth, law, slow(robot), 4.0, dt=2e-3, control="continuous", check=True)
    assert recording.telemetry["estimate"][-1, 0] == pytest.approx(1.5, abs=0.01)
    assert recording.notices == ()


def test_a_payload_picked_up_during_a_run_disturbs_a_fixed_model() -> None:
    robot = md.load("puma4")
    law = control.computed_torque(robot, bandwidth=20)
    load = from_body(0.5, [0.2, 0, 0], np.zeros((3, 3)))
    recording = simulate(robot, law, slow(robot), 2.0, payload=Payload(1.0, load))
    error = np.abs(recording.telemetry["error"]).max(axis=1)
    assert error[:990].max() < 1e-3
    assert error[1100:].max() > 5e-3
    assert Payload(1.0, load).on(robot).links[-1].mass == pytest.approx(robot.links[-1].mass + 0.5)


@needs_gcc
def test_generated_step_is_the_step(tmp_path) -> None:
    robot = md.load("two_link")
    law = control.modified_slotine_li(
        robot,
        bandwidth=5,
        adaptation=2.0,
        unknown=["ZZ1", "MX2"],
        initial=[0.4, 0.2],
        lower=[0.39, -1],
        upper=[1, 0.21],
    )
    (tmp_path / "step.c").write_text(law.source("c"))
    library = tmp_path / "step.so"
    subprocess.run(
        ["gcc", *STRICT, "-shared", "-fPIC", str(tmp_path / "step.c"), "-o", str(library), "-lm"],
        check=True,
    )
    step = ctypes.CDLL(str(library)).two_link_control_step
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(50):
        q, dq, q_d, dq_d, ddq_d = 8 * rng.normal(size=(5, 2))
        state, torque, _ = law(law.start, control.Measurement(0.0, q, dq), (q_d, dq_d, ddq_d))
        tau, moved, held = np.zeros(2), np.zeros(2), np.zeros(2)
        arrays = [law.start, q, dq, q_d, dq_d, ddq_d, tau, moved, held]
        step(*[np.ascontiguousarray(a).ctypes.data_as(ctypes.c_void_p) for a in arrays[:6]],
             *[a.ctypes.data_as(ctypes.c_void_p) for a in arrays[6:]])  # fmt: skip
        np.testing.assert_allclose(tau, torque, rtol=1e-10)
        np.testing.assert_allclose(moved, state, rtol=1e-10)
        hits += int(state[0] == 0.39 or state[1] == 0.21)
    assert hits > 5


def test_refusals() -> None:
    robot = md.load("puma4")
    with pytest.raises(
        md.MinidynError, match="bandwidth: expected a positive number or 4 of them, got -1"
    ):
        control.computed_torque(robot, bandwidth=-1)
    with pytest.raises(md.MinidynError, match="gain"):
        control.slotine_li(robot, bandwidth=1, gain=[1, 2], adaptation=1)
    with pytest.raises(UnknownName, match="unknown parameter 'M44'; did you mean"):
        control.modified_slotine_li(robot, bandwidth=1, adaptation=1, unknown=["M44"])
    law = control.craig(robot, bandwidth=1, adaptation=1, unknown=["M4"])
    with pytest.raises(md.MinidynError, match="reads accelerations"):
        law(law.start, control.Measurement(0.0, np.zeros(4), np.zeros(4)), (np.zeros(4),) * 3)
    with pytest.raises(NotRealizable, match="link"):
        control.slotine_li(robot, bandwidth=1, gain=1, adaptation=1, consistent=True)
    with pytest.raises(md.MinidynError, match="unknown"):
        control.computed_torque(md.load("rx90"), bandwidth=1)


def test_singular_inertia_is_named() -> None:
    """With its mass on joint 4's axis the inertia matrix of puma4 is singular.

    The run says so instead of NaN.
    """
    robot = md.load("puma4")
    values = robot.parameters.copy()
    values[robot.layout.links[-1]] = from_body(1.0, [0, 0, 0], np.zeros((3, 3)))
    singular = robot.with_parameters(values)
    with pytest.raises(md.MinidynError, match=r"joint4.*inertia matrix is singular"):
        simulate(singular, control.computed_torque(robot, bandwidth=10), slow(robot), 0.1)


def test_natural_adaptation_stays_realizable_in_steps_of_any_length() -> None:
    robot = md.load("ur10e")
    settings = {
        "bandwidth": 10,
        "gain": 1.0,
        "adaptation": 50.0,
        "consistent": True,
        "period": 0.05,
    }
    law = control.slotine_li(robot, **settings)
    q, dq, q_d, dq_d, ddq_d = np.random.default_rng(3).normal(size=(5, robot.n))
    _, signals = law.torque(law.start, q, dq, (q_d, dq_d, ddq_d))
    straight = (law.start + law.period * signals["change"]).reshape(-1, 10)
    assert min(realizability(ten).smallest_eigenvalue for ten in straight) < -1.0
    state, _, _ = law(law.start, control.Measurement(0.0, q, dq), (q_d, dq_d, ddq_d))
    for ten in state.reshape(-1, 10):
        report = realizability(ten)
        assert report.smallest_eigenvalue > -1e-12 * np.abs(ten).max()
    # and for short ones it is the same step, to first order
    short = control.slotine_li(robot, **{**settings, "period": 1e-9})
    state, _, _ = short(law.start, control.Measurement(0.0, q, dq), (q_d, dq_d, ddq_d))
    np.testing.assert_allclose((state - law.start) / 1e-9, signals["change"], rtol=1e-3, atol=1e-3)
    uneven = np.ones(60)
    uneven[3] = 2.0
    with pytest.raises(md.MinidynError, match="one and the same adaptation"):
        control.slotine_li(robot, bandwidth=10, gain=1.0, adaptation=uneven, consistent=True)


def test_lyapunov_function_of_natural_adaptation_falls_to_zero_at_the_truth() -> None:
    robot = md.load("ur10e")
    wrong = robot.with_parameters(0.7 * robot.parameters)
    law = control.slotine_li(
        wrong, bandwidth=10, gain=scaled_gain(robot), adaptation=0.05, consistent=True
    )
    recording = simulate(robot, law, slow(robot), 0.5, control="continuous", check=True)
    value = recording.telemetry["lyapunov"]
    assert recording.notices == ()
    assert np.all(np.diff(value) < 1e-9 * value[0])
    assert 0 < value[-1] < value[0]
    assert law.lyapunov is not None
    q, dq, ddq = slow(robot)(0.3)
    assert abs(law.lyapunov(robot, robot.parameters, q, dq, (q, dq, ddq))) < 1e-9 * value[0]


def test_conditions_are_checked_with_the_payload_that_is_there() -> None:
    robot = md.load("puma4")
    load = Payload(0.3, from_body(0.5, [0.2, 0, 0], np.zeros((3, 3))))
    law = control.modified_slotine_li(robot, bandwidth=20, adaptation=1.0, unknown=["M4"])
    recording = simulate(
        robot, law, slow(robot), 0.5, control="continuous", payload=load, check=True
    )
    before = recording.t < 0.3
    q, dq = recording.telemetry["q_true"], recording.telemetry["dq_true"]
    assert law.stability is not None
    np.testing.assert_allclose(
        recording.telemetry["margin"][before], law.stability(robot, law.start, q, dq)[before]
    )
    loaded = law.stability(load.on(robot), law.start, q, dq)
    np.testing.assert_allclose(recording.telemetry["margin"][~before], loaded[~before])
    assert len(recording.telemetry["lyapunov"]) == len(recording.t)


def test_gains_too_strong_for_the_period_name_the_joint() -> None:
    robot = md.load("ur10e")
    law = control.slotine_li(robot, bandwidth=10, gain=20.0, adaptation=1e-6)
    start = slow(robot)(0.0)[0] + 0.02
    with pytest.raises(
        md.MinidynError, match="damps joint 'wrist_3_joint' too strongly for its period"
    ):
        simulate(robot, law, slow(robot), 0.2, q0=start)
    assert (
        simulate(robot, law, slow(robot), 0.005, q0=start, control="continuous", dt=1e-5).notices
        == ()
    )


@pytest.mark.parametrize("name", ["panda", "stanford"])
def test_generated_steps_of_laws_that_do_not_adapt(name) -> None:
    robot = md.load(name)
    q, dq, q_d, dq_d, ddq_d = np.random.default_rng(1).normal(size=(5, robot.n))
    for law in (
        control.computed_torque(robot, bandwidth=7),
        control.pd_gravity(robot, gain=scaled_gain(robot), bandwidth=3),
    ):
        scope: dict = {}
        exec(law.source("python"), scope)  # noqa: S102
        tau = scope["control_step"](q, dq, q_d, dq_d, ddq_d)
        np.testing.assert_allclose(
            tau, law(law.start, control.Measurement(0, q, dq), (q_d, dq_d, ddq_d))[1], rtol=1e-9
        )


def test_maps_of_other_robots_and_names_given_twice_are_refused() -> None:
    robot = md.load("ur10e")
    common = {"bandwidth": 1, "gain": 1, "adaptation": 1}
    q, dq, ddq = np.ones((3, 6))
    for other in (
        md.base_parameters(md.load("rx90")),
        md.base_parameters(robot.with_gravity((0, 0, 0))),
    ):
        for call in (
            lambda base: md.base_regressor(robot, q, dq, ddq, base=base),
            lambda base: md.slotine_li_regressor(robot, q, dq, dq, ddq, base=base),
            lambda base: md.compile(robot, "base_regressor", base=base),
            lambda base: control.slotine_li(robot, base=base, **common),
        ):
            with pytest.raises(md.MinidynError, match="is not built like 'ur10e'"):
                call(other)
    own = md.base_parameters(robot.with_parameters(2 * robot.parameters))
    assert md.base_regressor(robot, q, dq, ddq, base=own).shape == (6, 36)
    with pytest.raises(md.MinidynError, match="'M6' is named twice"):
        control.slotine_li(robot, unknown=["M6", "M6"], **common)
    with pytest.raises(md.MinidynError, match="lower: expected a number or 1 of them"):
        control.slotine_li(robot, unknown=["M6"], lower=[0, 1], **common)
    with pytest.raises(md.MinidynError, match="gain: expected a positive number or 6 of them"):
        control.slotine_li(robot, bandwidth=1, gain="strong", adaptation=1)


@pytest.fixture
def four_bar(tmp_path):
    (tmp_path / "bar.toml").write_text(FOUR_BAR)
    robot = md.load(tmp_path / "bar.toml")
    values = np.zeros(len(robot.layout))
    for part in robot.layout.links:
        values[part] = from_body(1.0, [0.1, 0, 0], 0.2 * np.eye(3))
    return robot.with_parameters(values)


def test_laws_on_loops_that_are_solved(four_bar) -> None:
    q, dq, ddq = np.array([1.0, 0.1]), np.array([0.2, -0.1]), np.zeros(2)
    seen = control.Measurement(0.0, q, dq)
    law = control.computed_torque(four_bar, bandwidth=20)
    np.testing.assert_allclose(
        law([], seen, (q, dq, ddq))[1], md.inverse_dynamics(four_bar, q, dq, ddq)
    )
    with pytest.raises(md.MinidynError, match="no recorded program"):
        law.source("c")
    law = control.pd_gravity(four_bar, gain=100, bandwidth=10)
    np.testing.assert_allclose(law([], seen, (q, dq, ddq))[1], md.gravity_torque(four_bar, q))
    with pytest.raises(md.MinidynError, match="must be solved for"):
        control.slotine_li(four_bar, bandwidth=1, gain=1, adaptation=1)


def test_loops_that_are_solved_can_be_simulated(four_bar) -> None:
    start = np.array([1.0, 0.1])
    free = simulate(four_bar, None, None, 0.05, q0=start, dq0=[0.5, -0.3])
    kinetic, potential = md.energy(four_bar, free.q, free.dq)
    np.testing.assert_allclose(kinetic + potential, kinetic[0] + potential[0], rtol=1e-8)
    law = control.computed_torque(four_bar, bandwidth=40, period=5e-3)
    run = simulate(four_bar, law, hold(start), 0.3, dt=5e-3, q0=start + 0.05)
    assert np.abs(run.telemetry["error"][-1]).max() < 1e-3


def test_maps_that_do_not_determine_the_torques_are_refused() -> None:
    robot = md.load("puma560")
    for options, why in (
        ({"method": "mlc", "model": "gravity"}, "model 'gravity' only"),
        ({"columns": ("ZZ1", "XX2")}, "some parameters only"),
        ({"joints": ("joint2",)}, "joint2 moving alone"),
    ):
        with pytest.raises(md.MinidynError, match=why):
            control.slotine_li(
                robot, bandwidth=1, gain=1, adaptation=1, base=md.base_parameters(robot, **options)
            )
    base = md.base_parameters(robot, model="energy")  # no friction here: it tells as much
    assert (
        len(control.slotine_li(robot, bandwidth=1, gain=1, adaptation=1, base=base).start)
        == base.rank
    )


def test_bandwidth_by_its_old_name() -> None:
    robot = md.load("two_link")
    for make, more in (
        (control.computed_torque, {}),
        (control.pd_gravity, {"gain": 10.0}),
        (control.slotine_li, {"gain": 10.0, "adaptation": 1.0}),
        (control.modified_slotine_li, {"adaptation": 1.0}),
        (control.craig, {"adaptation": 1.0}),
    ):
        with pytest.warns(DeprecationWarning, match=f"{make.__name__}: rate= is now bandwidth="):
            old = make(robot, rate=5, **more)
        assert old.settings == make("two_link", bandwidth=5, **more).settings
        assert old.settings["bandwidth"] == 5
