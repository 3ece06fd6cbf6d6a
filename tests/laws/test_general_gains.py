"""Controllers as general as LuMeng1993.

Matrix gains, Craig's own, sixteen parameters, loads, filtered regressors.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.integrate import cumulative_simpson, solve_ivp
from scipy.interpolate import CubicSpline

import minidyn as md
from conftest import count
from minidyn import control
from minidyn.app.cli.main import main
from minidyn.control import Controller
from minidyn.model.parameters import from_body
from minidyn.simulation.named_laws import named_law
from robot_cases import robot_of_seed

SEEDS = range(9300, 9300 + count(4, 60))


def positive_matrix(rng: np.random.Generator, size: int, scale: float = 1.0) -> np.ndarray:
    A = rng.normal(size=(size, size))
    return scale * (np.eye(size) + 0.15 * (A @ A.T) / size)


def state_of(robot: md.Robot, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(6, robot.n))


def stepped(law: Controller, q, dq, ddq, *reference) -> tuple[np.ndarray, np.ndarray]:
    state, tau, _ = law(law.start, control.Measurement(0.0, q, dq, ddq), reference)
    return state, tau


# ---------------------------------------------------------------- gains


@pytest.mark.parametrize("kind", ["computed_torque", "slotine_li", "modified_slotine_li", "craig"])
def test_equal_diagonals_are_the_number(kind: str) -> None:
    robot = md.load("puma4")
    states, n = state_of(robot, 1), robot.n
    gains = {"bandwidth": 7.0}
    if kind != "computed_torque":
        gains |= {"adaptation": 0.3}
    if kind == "slotine_li":
        gains |= {"gain": 2.0}
    unknown = {} if kind == "computed_torque" else {"unknown": ["M4", "MX3", "ZZ2"]}
    make = getattr(control, kind)
    plain = stepped(make(robot, **gains, **unknown), *states)
    sizes = {"bandwidth": n, "gain": n, "adaptation": 3}
    forms = [{name: np.full(sizes[name], value) for name, value in gains.items()}]
    if kind != "craig":
        forms.append({name: value * np.eye(sizes[name]) for name, value in gains.items()})
    for form in forms:
        for one, other in zip(stepped(make(robot, **form, **unknown), *states), plain):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_laws_with_matrices_are_the_formulas(seed: int) -> None:
    """Torque and step of the estimate, from the inertia matrix, the Christoffel matrix and the
    regressor.
    """
    robot = robot_of_seed(seed).with_drives(False, ())
    rng = np.random.default_rng(seed)
    q, dq, _, q_d, dq_d, ddq_d = states = state_of(robot, seed)
    names = list(robot.parameter_names[-9:])
    L, K, G = (
        positive_matrix(rng, robot.n, 3.0),
        positive_matrix(rng, robot.n),
        positive_matrix(rng, 9, 0.1),
    )
    e, de = q - q_d, dq - dq_d
    dq_r, ddq_r, s = dq_d - L @ e, ddq_d - L @ de, de + L @ e
    M, C, g = (
        md.inertia_matrix(robot, q),
        md.coriolis_matrix(robot, q, dq),
        md.gravity_torque(robot, q),
    )
    places = robot.layout.indices(names)
    common = {"bandwidth": L, "adaptation": G, "unknown": names}
    scale = 1.0 + np.abs(M).max()

    def check(law: Controller, torque: np.ndarray, Y: np.ndarray) -> None:
        state, tau = stepped(law, *states)
        np.testing.assert_allclose(tau, torque, atol=1e-9 * scale * (1 + np.abs(torque).max()))
        change = G @ Y[:, places].T @ s
        np.testing.assert_allclose(
            (law.start - state) / law.period, change, atol=1e-9 * (1 + np.abs(change).max())
        )

    original = control.slotine_li(robot, gain=K, **common)
    check(
        original,
        M @ ddq_r + C @ dq_r + g - K @ s,
        md.slotine_li_regressor(robot, q, dq, dq_r, ddq_r),
    )
    modified = control.modified_slotine_li(robot, gain=K, **common)
    check(modified, M @ ddq_r + C @ dq + g - K @ s, md.regressor(robot, q, dq, ddq_r))
    own = control.modified_slotine_li(robot, **common)
    check(own, M @ (ddq_r - L @ s) + C @ dq + g, md.regressor(robot, q, dq, ddq_r - L @ s))
    assert own.stability is not None
    rate = M @ L - C
    expected = np.linalg.eigvalsh((rate + rate.T) / 2)[0]
    assert own.stability(robot, own.start, q, dq) == pytest.approx(
        expected, rel=1e-9, abs=1e-9 * scale
    )


def test_craig_with_gains_of_its_own() -> None:
    robot = md.load("two_link")
    q, dq, ddq, q_d, dq_d, ddq_d = states = state_of(robot, 5)
    kp, kv, psi = np.array([30.0, 20.0]), np.array([9.0, 11.0]), np.array([3.0, 4.0])
    law = control.craig(robot, kp=kp, kv=kv, psi=psi, adaptation=0.5, unknown=["ZZ1", "MX2"])
    state, tau = stepped(law, *states)
    demanded = ddq_d - kv * (dq - dq_d) - kp * (q - q_d)
    np.testing.assert_allclose(tau, md.inverse_dynamics(robot, q, dq, demanded), rtol=1e-9)
    Y = md.regressor(robot, q, dq, ddq)[:, robot.layout.indices(["ZZ1", "MX2"])]
    filtered = np.linalg.solve(md.inertia_matrix(robot, q), dq - dq_d + psi * (q - q_d))
    np.testing.assert_allclose(state, law.start - law.period * 0.5 * Y.T @ filtered, rtol=1e-9)


def test_craigs_lyapunov_function_falls_as_its_proof_says() -> None:
    """Its derivative is -Σ (Kp Ψ e² + (Kv - Ψ) de²).

    The difference of values is the integral of that.
    """
    robot = md.load("puma4")
    motion = md.trajectory.fourier(robot, seed=2, period=6.0, speed=1.0)
    kp, kv, psi = (
        np.array([90.0, 100, 110, 80]),
        np.array([20.0, 22, 24, 19]),
        np.array([7.0, 8, 9, 10]),
    )
    law = control.craig(
        robot, kp=kp, kv=kv, psi=psi, adaptation=0.02, unknown=["m4"], initial=0.8, lower=0.1
    )
    q0 = motion(0.0)[0] + 0.02
    run = md.simulate(robot, law, motion, 0.5, dt=5e-4, q0=q0, control="continuous", check=True)
    value = run.telemetry["lyapunov"]
    assert run.notices == ()
    assert np.all(run.telemetry["margin"] > 0)
    e, de = run.telemetry["error"], run.telemetry["dq_true"] - run.telemetry["dq_d"]
    fall = np.sum(kp * psi * e**2 + (kv - psi) * de**2, axis=1)
    lost = np.concatenate([[0.0], np.cumsum((fall[1:] + fall[:-1]) / 2 * 5e-4)])
    np.testing.assert_allclose(value[0] - value, lost, rtol=1e-3, atol=1e-5 * value[0])


def test_an_estimate_that_makes_the_inertia_matrix_indefinite_is_reported() -> None:
    robot = md.load("puma4")
    motion = md.trajectory.fourier(robot, seed=2, period=6.0, speed=1.0)
    law = control.craig(
        robot, bandwidth=5.0, adaptation=1e-9, unknown=["M2", "XX2", "ZZ2"], initial=[2, 0, -9.0]
    )
    assert law.stability is not None
    q, dq, _ = motion(np.array([0.1, 0.2]))
    values = robot.parameters.copy()
    values[list(robot.layout.indices(["M2", "XX2", "ZZ2"]))] = [2, 0, -9.0]
    expected = np.linalg.eigvalsh(md.inertia_matrix(robot, q, values))[:, 0]
    np.testing.assert_allclose(
        law.stability(robot, np.stack([law.start] * 2), q, dq), expected, rtol=1e-9
    )
    run = md.simulate(robot, law, motion, 0.01, dt=1e-3, control="continuous", check=True)
    notice = next(one for one in run.notices if one.code == "simulate.estimated_inertia_indefinite")
    assert notice.data["smallest"] < 0


@pytest.mark.parametrize(
    ("gains", "message"),
    [
        ({"kv": 3.0, "kp": 4.0, "psi": 3.0}, "joint 'joint1': kv = 3 must be greater than psi = 3"),
        ({"kv": 3.0, "kp": 4.0}, "psi is missing"),
        ({"bandwidth": np.eye(3)}, "bandwidth: expected a positive number or 4 of them"),
    ],
)
def test_gains_that_craigs_proof_cannot_use(gains, message) -> None:
    with pytest.raises(md.MinidynError, match=message):
        control.craig(md.load("puma4"), adaptation=1.0, unknown=["M4"], **gains)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[1.0, 2], [2, 1]]), "positive definite"),
        (np.array([[1.0, 0.5], [0, 1]]), "symmetric"),
        (np.eye(3), r"expected a matrix of shape \(2, 2\)"),
    ],
)
def test_matrices_that_are_no_gains(matrix, message) -> None:
    with pytest.raises(md.MinidynError, match=message):
        control.slotine_li(md.load("two_link"), bandwidth=1.0, gain=matrix, adaptation=1.0)


# ---------------------------------------------------------------- unknowns


@pytest.mark.parametrize("seed", SEEDS)
def test_sixteen_names_move_the_torque_as_their_columns_do(seed: int) -> None:
    robot = robot_of_seed(seed)
    sixteen = md.papers.lumeng16(robot)
    names = [f"{symbol}{robot.n}" for symbol in ("m", "mpx", "mpzpz", "mpxpy", "Iyy", "Ixz")]
    names = [name for name in names if name in sixteen.names]
    q, dq, _, q_d, dq_d, ddq_d = state_of(robot, seed)
    rng = np.random.default_rng(seed)
    theta = dict(zip(sixteen.names, sixteen.parameters))
    start = np.array([theta[name] for name in names])
    initial = start + rng.normal(size=len(names))
    make = {"bandwidth": 2.0, "adaptation": 1.0, "unknown": names}
    guessed = control.modified_slotine_li(robot, initial=initial, **make)
    right = control.modified_slotine_li(robot, **make)
    np.testing.assert_allclose(right.start, start)
    seen, reference = control.Measurement(0.0, q, dq), (q_d, dq_d, ddq_d)
    demanded = ddq_d - 4 * (dq - dq_d) - 4 * (q - q_d)
    Y = md.regressor(robot, q, dq, demanded, parametrization="lumeng16")[
        :, [sixteen.names.index(x) for x in names]
    ]
    difference = guessed(guessed.start, seen, reference)[1] - right(right.start, seen, reference)[1]
    scale = 1 + np.abs(Y).max()
    np.testing.assert_allclose(difference, Y @ (initial - start), atol=1e-9 * scale)
    expected = md.inverse_dynamics(robot, q, dq, demanded)
    np.testing.assert_allclose(
        right(right.start, seen, reference)[1], expected, atol=1e-9 * (1 + np.abs(expected).max())
    )


@pytest.mark.parametrize("base", [False, True])
def test_mass_and_centre_of_a_load_are_found(base: bool) -> None:
    """The estimate at the truth gives the loaded robot's torque, and a run comes closer to the
    load's mass.
    """
    robot = md.load("ur10e")
    load = from_body(3.0, [0.05, -0.03, 0.12], np.zeros((3, 3)))
    values = robot.parameters.copy()
    values[robot.layout.links[-1]] += load
    loaded = robot.with_parameters(values)
    found = md.base_parameters(robot) if base else None
    law = control.slotine_li(
        robot, bandwidth=10, gain=30.0, adaptation=0.1, unknown="load", base=found
    )
    assert law.estimated[:4] == ("m_load", "mpx_load", "mpy_load", "mpz_load")
    m, p = 3.0, np.array([0.05, -0.03, 0.12])
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
    truth = np.array([m, *(m * p), *(m * p[i] * p[j] for i, j in pairs)])
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 6))
    _, tau, _ = law(truth, control.Measurement(0.0, q, dq), (q, dq, ddq))
    np.testing.assert_allclose(tau, md.inverse_dynamics(loaded, q, dq, ddq), rtol=1e-9)
    mass, centre = control.load_of(dict(zip(law.estimated, truth)))
    assert mass == pytest.approx(3.0)
    np.testing.assert_allclose(centre, p)
    assert law.lyapunov is not None
    assert law.lyapunov(loaded, truth, q, dq, (q, dq, ddq)) == pytest.approx(0.0, abs=1e-9)


# ---------------------------------------------------------------- composite adaptation


def smooth_path(robot: md.Robot):
    return md.trajectory.fourier(robot, seed=4, period=5.0, speed=1.5)


@pytest.mark.parametrize("kind", ["slotine_li", "modified_slotine_li"])
def test_composite_adaptation_falls_by_the_prediction_error_too(kind: str) -> None:
    """v̇ = -sᵀ(K - ...)s - θ̃ᵀ Y_fᵀ R Y_f θ̃.

    The filtered regressor comes from an integration by SciPy.
    """
    robot = md.load("puma4")
    path, names, a = smooth_path(robot), ["M4", "MX4", "ZZ2"], 2 * np.pi * 3.0
    truth = robot.parameters[list(robot.layout.indices(names))]
    initial = truth + np.array([0.4, -0.2, 0.3])
    G = np.diag([0.2, 0.1, 0.3])
    make = {
        "bandwidth": 15.0,
        "adaptation": G,
        "unknown": names,
        "initial": initial,
        "composite": 4.0,
        "cutoff": 3.0,
    }
    law = getattr(control, kind)(robot, gain=np.full(4, 8.0), **make)
    run = md.simulate(
        robot, law, path, 0.3, dt=2.5e-4, q0=path(0.0)[0] + 0.02, control="continuous", check=True
    )
    q, dq, ddq = (run.telemetry["q_true"], run.telemetry["dq_true"], run.ddq)
    assert ddq is not None
    # Y_f from its definition: the regressor with true accelerations through a / (s + a)
    Y = md.regressor(robot, q, dq, ddq)[..., list(robot.layout.indices(names))]
    between = CubicSpline(run.t, Y.reshape(len(Y), -1))
    rest = np.zeros(Y[0].size)
    solved = solve_ivp(
        lambda t, x: a * (between(t) - x), (0, 0.3), rest, "DOP853", run.t, rtol=1e-10, atol=1e-12
    )
    Y_f = solved.y.T.reshape(Y.shape)
    wrong = run.telemetry["estimate"] - truth
    s = dq - run.telemetry["dq_d"] + 15.0 * run.telemetry["error"]
    fall = 8.0 * np.sum(s**2, axis=1) + 4.0 * np.sum(
        np.einsum("tik,tk->ti", Y_f, wrong) ** 2, axis=1
    )
    if kind == "modified_slotine_li":
        fall -= np.einsum("ti,tij,tj->t", s, md.coriolis_matrix(robot, q, dq), s)
    lost = cumulative_simpson(fall, x=run.t, initial=0.0)
    value = run.telemetry["lyapunov"]
    assert lost[-1] > 0.05 * value[0]
    np.testing.assert_allclose(value[0] - value, lost, rtol=2e-4, atol=1e-5 * value[0])
    assert run.telemetry["estimate"].shape[1] == 3


def test_composite_adaptation_finds_parameters_where_plain_does_not() -> None:
    """From the start on the path, with the same Γ.

    The parameter error falls further with the prediction error.
    """
    robot = md.load("puma4")
    path, names = smooth_path(robot), ["M4", "ZZ3"]
    truth = robot.parameters[list(robot.layout.indices(names))]

    def last(composite: float, mode: str) -> float:
        law = control.slotine_li(
            robot,
            bandwidth=10.0,
            gain=8.0,
            adaptation=0.05,
            unknown=names,
            initial=truth + 0.3,
            composite=composite,
        )
        run = md.simulate(robot, law, path, 1.5, control=mode)
        return float(np.abs(run.telemetry["estimate"][-1] - truth).max())

    for mode in ("continuous", "sampled"):
        assert last(20.0, mode) < 0.3 * last(0.0, mode)


def test_a_moving_start_is_no_error_of_the_prediction() -> None:
    robot = md.load("puma4")
    path = smooth_path(robot)
    law = control.slotine_li(
        robot, bandwidth=10.0, gain=8.0, adaptation=0.5, unknown=["M4"], composite=5.0
    )
    assert np.abs(path(0.0)[1]).max() > 0.01
    run = md.simulate(robot, law, path, 0.2, dt=5e-4, control="continuous")
    np.testing.assert_allclose(
        run.telemetry["estimate"], robot.parameters[robot.layout.index("M4")], atol=1e-6
    )


# ---------------------------------------------------------------- the same words everywhere


def test_the_same_words_in_python_and_in_the_shell(tmp_path) -> None:
    path = str(tmp_path / "run.npz")
    words = [
        "--bandwidth",
        "9,10,11,12",
        "--gain",
        "20,18,22,20",
        "--unknown",
        "m4",
        "--unknown",
        "mpx4",
    ]
    words += ["--composite", "2", "--cutoff", "4", "--model-error", "0.1", "--duration", "0.2"]
    command = [
        "simulate",
        "puma4",
        "--controller",
        "slotine_li",
        *words,
        "--output",
        path,
        "--json",
    ]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    robot = md.load("puma4")
    law = named_law(
        robot,
        "slotine_li",
        bandwidth=[9, 10, 11, 12],
        gain=[20, 18, 22, 20],
        unknown=["m4", "mpx4"],
        composite=2,
        cutoff=4,
        model_error=0.1,
    )
    run = md.simulate(robot, law, md.trajectory.fourier(robot, seed=0), 0.2)
    assert json.loads(result.stdout)["largest_torque"] == np.abs(run.tau).max(axis=0).tolist()
    matrix = [
        "simulate",
        "two_link",
        "--controller",
        "craig",
        "--kp",
        "100",
        "--kv",
        "30,20",
        "--psi",
        "5",
    ]
    assert CliRunner().invoke(main, [*matrix, "--duration", "0.1", "--output", path]).exit_code == 0
    wrong = CliRunner().invoke(main, [*matrix[:5], "--gain", "1;x", "--output", path])
    assert wrong.exit_code == 2
    assert "semicolons" in wrong.output


def test_the_modified_law_has_a_name_of_its_own() -> None:
    robot = md.load("two_link")
    names = [named_law(robot, name).name for name in ("slotine_li", "modified_slotine_li", "craig")]
    assert names == ["slotine_li", "modified_slotine_li", "craig"]


def test_a_study_file_has_the_same_words(tmp_path) -> None:
    """Lists and matrices in a study give the torques that Python gives."""
    text = """
    [robot]
    file = "two_link"

    [[simulate]]
    name = "run"
    controller = "slotine_li"
    duration = 0.2
    bandwidth = [9, 10]
    gain = [[20, 1], [1, 18]]
    unknown = ["m2", "load"]
    composite = 2
    cutoff = 4
    seed = 3
    """
    (tmp_path / "study.toml").write_text(text)
    done = md.run_study(tmp_path / "study.toml")
    assert done is not None
    (log,) = tmp_path.rglob("*.npz")
    found = np.load(log)["tau"]
    robot = md.load("two_link")
    gains = {"bandwidth": [9, 10], "gain": [[20, 1], [1, 18]], "composite": 2, "cutoff": 4}
    law = named_law(robot, "slotine_li", unknown=["m2", "load"], **gains)
    expected = md.simulate(robot, law, md.trajectory.fourier(robot, seed=3), 0.2, seed=3).tau
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    (tmp_path / "study.toml").write_text(text.replace("[9, 10]", '"fast"'))
    with pytest.raises(md.MinidynError, match="a number, one for each joint, or a matrix"):
        md.run_study(tmp_path / "study.toml")
