"""Estimators beyond least squares: what each promises, on data whose truth is known."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.signal import lfilter
from scipy.stats import binom

import minidyn as md
from conftest import OWN, count
from minidyn.control.controller import Controller
from minidyn.errors import MinidynError
from minidyn.identification.consistency.certificate import certify
from minidyn.identification.diagnose.exogeneity import exogeneity_test
from minidyn.identification.estimators import least_squares
from minidyn.identification.estimators.closed_loop import settled, simulated
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.method import Options, Solution
from minidyn.identification.estimators.methods import ANY_MOTION, METHODS
from minidyn.identification.estimators.states import best_states, motion_band, smoothed
from minidyn.identification.estimators.total_least_squares import smallest_ratio
from minidyn.identification.rows.pieces import Piece
from minidyn.recording.lazy import HeldRun, LazyRecording

BEYOND = [name for name in ANY_MOTION if name not in ("ols", "wls", "irls")]
STEP = 2e-3


@cache
def truth(name: str = "puma4") -> md.Robot:
    robot = md.load(name).with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
    unknown = np.random.default_rng(0).uniform(0.2, 0.8, len(robot.parameters))
    return robot.with_parameters(np.where(np.isnan(robot.parameters), unknown, robot.parameters))


@cache
def base_of(name: str = "puma4") -> md.BaseMap:
    return md.base_parameters(truth(name))


@cache
def loop(name: str = "puma4") -> Controller:
    """A controller whose model is a tenth wrong.

    The robot does not follow its reference exactly.
    """
    return md.control.computed_torque(
        truth(name).with_parameters(0.9 * truth(name).parameters), bandwidth=15.0, period=STEP
    )


@cache
def clean_run(name: str = "puma4", seconds: float = 6.0) -> md.Recording:
    trajectory = md.trajectory.fourier(truth(name), seed=1, period=4.0, speed=2.5)
    return md.simulate(truth(name), loop(name), trajectory, seconds, dt=STEP)


def noisy(seed: int, noise: float = 1e-4, torque: float = 0.2) -> md.Recording:
    """Positions and torques as encoders and current sensors give them, with the reference
    beside.
    """
    run, rng = clean_run(), np.random.default_rng(seed)
    q = run.q + noise * rng.normal(size=run.q.shape)
    tau = run.tau + torque * rng.normal(size=run.q.shape)
    return md.Recording(
        run.t, q, tau, joint_names=run.joint_names, telemetry={"q_d": run.telemetry["q_d"]}
    )


def exact_states(name: str, seed: int, memory: float = 0.0) -> md.Recording:
    """True states; noise in the torques alone, white or with a memory."""
    t = np.linspace(0, 16, 2400)
    q, dq, ddq = md.trajectory.fourier(truth(name), seed=0, speed=3.0)(t)
    noise = lfilter([1.0], [1.0, -memory], np.random.default_rng(seed).normal(size=q.shape), axis=0)
    return md.Recording(
        t, q, md.inverse_dynamics(truth(name), q, dq, ddq) + noise, dq, ddq, truth(name).joint_names
    )


def solution(method: str, recording: md.Recording, name: str = "puma4", **options) -> Solution:
    return METHODS[method].solve(
        truth(name).with_parameters(None), base_of(name), recording, Options(**options)
    )


def torque_error(beta: np.ndarray) -> float:
    """Relative error of the torque on another motion."""
    robot, base = truth(), base_of()
    states = md.trajectory.fourier(robot, seed=9, period=4.0, speed=2.5)(np.linspace(0, 4, 400))
    tau = md.inverse_dynamics(robot, *states)
    return float(
        np.linalg.norm(md.base_regressor(robot, *states, base=base) @ beta - tau)
        / np.linalg.norm(tau)
    )


# ---- noisy states: who is biased, and who says so


@pytest.fixture(scope="module")
def badly_filtered() -> dict[str, list[Solution]]:
    found: dict[str, list[Solution]] = {
        name: [] for name in ("wls", "tls", "iv", "didim", "iv, loop", "didim, loop")
    }
    for seed in range(count(2, 20)):
        recording = md.prepare(
            truth(), noisy(seed), cutoff=40.0
        )  # a cut-off that lets much noise through
        for name in found:
            method, _, loop_known = name.partition(", ")
            found[name].append(
                solution(method, recording, controller=loop() if loop_known else None)
            )
    return found


def test_instruments_and_simulation_take_the_bias_away(badly_filtered) -> None:
    bias = {
        name: torque_error(np.mean([one.beta for one in runs], axis=0))
        for name, runs in badly_filtered.items()
    }
    single = {
        name: max(torque_error(one.beta) for one in runs) for name, runs in badly_filtered.items()
    }
    assert bias["wls"] > 0.01
    for name in ("tls", "iv", "didim", "iv, loop"):
        assert bias[name] < 0.25 * bias["wls"], name
        assert single[name] < 0.4 * bias["wls"], name
    assert bias["didim, loop"] < 0.1 * bias["wls"]


def test_exogeneity_is_rejected_where_states_are_noisy(badly_filtered) -> None:
    for name in ("iv", "iv, loop"):
        for one in badly_filtered[name]:
            assert one.record["exogeneity"]["p_value"] < 0.01
            [told] = [notice for notice in one.notices if notice.code == "identify.biased"]
            assert (str(told), told.data["p_value"]) == tuple(
                one.record["exogeneity"][key] for key in ("verdict", "p_value")
            )


def test_covariance_of_the_simulated_loop_is_calibrated(badly_filtered) -> None:
    target = base_of().values(truth().parameters)
    scores = [
        (one.beta - target) / np.sqrt(np.diag(one.covariance))
        for one in badly_filtered["didim, loop"]
    ]
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.35


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_exogeneity_keeps_its_level(memory) -> None:
    """Exact states: a test at 5 % rejects in 5 % of the cases, and half of the p values are below a
    half.
    """
    seeds = count(25, 400)
    found = [
        solution("iv", exact_states("two_link", seed, memory), "two_link") for seed in range(seeds)
    ]
    p = np.array([one.record["exogeneity"]["p_value"] for one in found])
    for level in (0.05, 0.1, 0.2, 0.5):
        low, high = binom.interval(0.998, seeds, level)
        assert low <= np.sum(p < level) <= high


def test_exogeneity_keeps_its_level_with_a_simulated_loop() -> None:
    run, base = clean_run("two_link", 4.0), base_of("two_link")
    robot, seeds, p = truth("two_link").with_parameters(None), count(4, 150), []
    for seed in range(seeds):
        tau = run.tau + 0.3 * np.random.default_rng(seed).normal(size=run.tau.shape)
        reference = {"q_d": run.telemetry["q_d"]}
        recording = md.Recording(
            run.t, run.q, tau, run.dq, run.ddq, run.joint_names, telemetry=reference
        )
        found = METHODS["iv"].solve(robot, base, recording, Options(controller=loop("two_link")))
        p.append(found.record["exogeneity"]["p_value"])
    for level in (0.05, 0.1, 0.2, 0.5):
        low, high = binom.interval(0.998, seeds, level)
        assert low <= np.sum(np.array(p) < level) <= high


def test_nothing_to_test_without_noise() -> None:
    exact = clean_run()
    recording = md.Recording(exact.t, exact.q, exact.tau, exact.dq, exact.ddq, exact.joint_names)
    assert solution("iv", recording).record["exogeneity"]["p_value"] > 0.05
    rows = Piece(np.ones((50, 2, 1)), np.ones((50, 2)), np.arange(50.0), 0.0, np.ones((50, 2, 1)))
    same = exogeneity_test(lambda: [rows], np.ones(1), np.ones(2), 5)
    assert same.p_value == 1.0
    assert "not biased" in same.verdict


# ---- the simulated loop


def test_simulation_repeats_the_run() -> None:
    run = clean_run()
    simulation = simulated(truth(), loop(), run)
    states = simulation.states(run)
    assert 0 < states.usable.mean() < 1
    for name, tolerance in (("q", 1e-5), ("dq", 3e-4)):
        difference = getattr(states, name) - run.telemetry[f"{name}_true"]
        assert np.abs(difference[states.usable]).max() < tolerance
        assert np.abs(difference[len(difference) // 2 :]).max() < 1e-9
    between = md.Recording(
        run.t[7::3] + 0.7e-3, run.q[7::3], None, telemetry={"q_d": run.telemetry["q_d"][7::3]}
    )
    shifted = simulated(truth(), loop(), between).states(
        between
    )  # samples off the controller's clock
    assert np.abs(shifted.q - between.q)[len(between) // 2 :].max() < 0.01


def test_didim_is_exact_where_the_loop_is_known() -> None:
    run = clean_run()
    raw = md.Recording(
        run.t, run.q, run.tau, joint_names=run.joint_names, telemetry={"q_d": run.telemetry["q_d"]}
    )
    recording = md.prepare(truth(), raw, cutoff=30.0)
    errors = {
        loop_known: torque_error(
            solution("didim", recording, controller=loop() if loop_known else None).beta
        )
        for loop_known in (False, True)
    }
    assert errors[True] < 1e-3
    # along smoothed states the columns do not see the torque's filter where friction turns round
    assert errors[True] < 0.3 * errors[False]


def test_a_model_that_cannot_be_simulated_is_replaced() -> None:
    from minidyn.identification.estimators.closed_loop import _model_of

    run = clean_run()
    recording = md.Recording(run.t, run.q, run.tau, run.dq, run.ddq, run.joint_names)
    found = fit_system(base_of(), lambda: [next(iter(_rows(recording)))])
    wrong = -found.beta
    broken = replace(found, beta=wrong)
    model = _model_of(truth().with_parameters(None), base_of(), broken, run.q)
    assert np.linalg.eigvalsh(md.inertia_matrix(model, run.q[::500])).min() > 0


def _rows(recording: md.Recording) -> list[Piece]:
    W = md.base_regressor(truth(), recording.q, recording.dq, recording.ddq, base=base_of())
    return [Piece(W, np.asarray(recording.tau), recording.t, 0.0)]


def test_a_loop_that_answers_too_strongly_settles_by_shorter_steps() -> None:
    """Each fit overshoots by half: full steps would swing apart."""
    run = clean_run()
    start = fit_system(
        base_of(), lambda: _rows(md.Recording(run.t, run.q, run.tau, run.dq, run.ddq))
    )
    target = start.beta + 3 * np.sqrt(np.diag(start.covariance))
    end = settled(
        start,
        lambda tried: tried,
        lambda tried: replace(tried, beta=target - 1.5 * (tried.beta - target)),
    )
    np.testing.assert_allclose(end.found.beta, target, rtol=1e-6, atol=1e-6)
    assert not end.notices


def test_clear_refusals() -> None:
    run = clean_run()
    bare = md.Recording(run.t, run.q, run.tau, run.dq, run.ddq, run.joint_names)
    for method in ("iv", "didim"):
        with pytest.raises(MinidynError, match="q_d"):
            solution(method, bare, controller=loop())
        with pytest.raises(MinidynError, match="joints"):
            solution(method, run, controller=loop("two_link"))
    on_disk = LazyRecording(bare.joint_names, bare.signals, (), ((HeldRun(bare), 0, len(bare)),))
    for method in ("tls", "iv", "didim", "parallel"):  # a recording on disk is read into memory
        np.testing.assert_array_equal(solution(method, on_disk).beta, solution(method, bare).beta)
    spoiled = run.tau.copy()
    spoiled[5, 2] = np.nan
    broken = md.Recording(run.t, run.q, spoiled, run.dq, run.ddq, run.joint_names)
    for method in BEYOND:
        with pytest.raises(MinidynError, match=r"tau of joint .* is not a number at t = 0.01"):
            solution(method, broken)


# ---- states


def test_torques_choose_how_much_noise_is_taken_away() -> None:
    clean = clean_run()
    recorded = md.Recording(clean.t, clean.q, clean.tau, clean.dq, clean.ddq, clean.joint_names)
    assert best_states(truth(), base_of(), recorded).cutoff == np.inf  # nothing is gained
    recording = md.prepare(truth(), noisy(0), cutoff=60.0, decimate=1)
    states = best_states(truth(), base_of(), recording)
    band, _ = motion_band(recording)
    assert 2 * band <= states.cutoff <= 7 * band
    kept = np.searchsorted(clean.t, recording.t - 1e-9)
    true = clean.telemetry["dq_true"][kept]
    inside = states.usable
    assert np.std((states.dq - true)[inside]) < 0.5 * np.std((recording.dq - true)[inside])


def test_uneven_times_are_smoothed_too() -> None:
    rng = np.random.default_rng(0)
    t = np.sort(np.linspace(0, 8, 2000) + rng.uniform(-1e-3, 1e-3, 2000))
    q = np.stack([np.sin(2 * t), np.cos(3 * t)], axis=1)
    states = smoothed(md.Recording(t, q, None), 10.0)
    assert np.abs(states.dq[states.usable, 0] - 2 * np.cos(2 * t[states.usable])).max() < 1e-3


# ---- total least squares


def test_total_least_squares_is_the_last_singular_vector() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 5))
    v, ratio = smallest_ratio(np.linalg.qr(A, mode="r"), np.eye(5))
    _, s, Vt = np.linalg.svd(A)
    assert ratio == pytest.approx(s[-1] ** 2)
    np.testing.assert_allclose(np.abs(v / np.linalg.norm(v)), np.abs(Vt[-1]), rtol=1e-8)


def test_exact_columns_are_fitted_as_by_least_squares() -> None:
    """Mixed least squares and total least squares.

    The columns without error are eliminated first.
    """
    rng = np.random.default_rng(1)
    A = np.column_stack([np.ones(300), rng.normal(size=(300, 4))])
    v, _ = smallest_ratio(np.linalg.qr(A, mode="r"), block_diag(0.0, np.eye(4)))
    R = np.linalg.qr(A, mode="r")
    _, _, Vt = np.linalg.svd(R[1:, 1:])
    first = -R[0, 1:] @ Vt[-1] / R[0, 0]
    expected = np.append(first, Vt[-1])
    np.testing.assert_allclose(v / v[-1], expected / expected[-1], rtol=1e-8)


def test_total_least_squares_is_weighted_least_squares_without_noise_of_states() -> None:
    run = clean_run()
    recording = md.Recording(run.t, run.q, noisy(0).tau, run.dq, run.ddq, run.joint_names)
    total, plain = solution("tls", recording), solution("wls", recording)
    deviation = np.sqrt(np.diag(plain.covariance))
    assert np.abs((total.beta - plain.beta) / deviation).max() < 0.3


# ---- linear systems


def test_instruments_solve_their_equations_and_covariance_is_textbook() -> None:
    rng = np.random.default_rng(0)
    base = base_of("two_link")
    size, rows, sigma = base.rank, 6000, np.array([0.5, 2.0])
    beta = rng.normal(size=size)
    Z = rng.normal(size=(rows, 2, size))
    W = Z + 0.3 * rng.normal(size=Z.shape)
    y = W @ beta + sigma * rng.normal(size=(rows, 2))
    t = 1e-3 * np.arange(rows)
    parts = [slice(k, k + 1000) for k in range(0, rows, 1000)]

    def pieces():
        return [Piece(W[part], y[part], t[part], part.start / rows, Z[part]) for part in parts]

    found = fit_system(base, pieces)
    weighted = Z / found.sigma[:, None] ** 2
    moments = np.einsum("kij,kim->jm", weighted, W)
    np.testing.assert_allclose(
        found.beta, np.linalg.solve(moments, np.einsum("kij,ki->j", weighted, y)), rtol=1e-9
    )
    np.testing.assert_allclose(found.sigma, sigma, rtol=0.05)
    inverse = np.linalg.inv(moments)
    expected = inverse @ np.einsum("kij,kim->jm", weighted, Z) @ inverse.T
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(expected), rtol=0.5)
    assert np.mean(np.diag(found.covariance) / np.diag(expected)) == pytest.approx(1.0, abs=0.2)
    np.testing.assert_allclose(found.R @ found.beta, found.z, atol=1e-8 * np.abs(found.z).max())
    assert len(found.folds()) == 5
    for R, z, *_ in found.folds():
        assert np.abs(np.linalg.solve(R, z) - beta).max() < 0.2


def test_slow_errors_are_found_below_fast_noise() -> None:
    """A slow error that hides in the noise of single samples: longer blocks must find it."""
    rng = np.random.default_rng(0)
    base, rows, scores = base_of("two_link"), 6000, []
    for _ in range(6):
        W = lfilter([0.02], [1.0, -0.98], rng.normal(size=(rows, 2, base.rank)), axis=0) * 7
        slow = lfilter([0.02], [1.0, -0.98], rng.normal(size=(rows, 2)), axis=0) * 7
        y = W @ np.ones(base.rank) + 0.3 * slow + rng.normal(size=(rows, 2))
        found = fit_system(base, lambda W=W, y=y: [Piece(W, y, 1e-3 * np.arange(rows), 0.0)])
        scores.append((found.beta - 1.0) / np.sqrt(np.diag(found.covariance)))
    assert np.sqrt(np.mean(np.square(scores))) < 1.5


# ---- without accelerations


@pytest.mark.parametrize(
    "method", sorted(name for name, method in METHODS.items() if not method.needs_acceleration)
)
def test_accelerations_are_not_read(method) -> None:
    recording = exact_states("two_link", 3)
    without = md.Recording(
        recording.t, recording.q, recording.tau, recording.dq, None, recording.joint_names
    )
    robot = truth("two_link").with_parameters(None)
    first, second = (
        md.identify(
            robot, replace(part, prepared=True), method, consistent=False, sign_width=0.0, **OWN
        )
        for part in (recording, without)
    )
    np.testing.assert_array_equal(first.beta, second.beta)
    assert np.all(np.isfinite(second.sigma))
    rows = first.record["rows"]
    samples = len(recording)
    assert rows > 2 * samples if method == "filtered" else rows < samples


def test_energy_sees_least() -> None:
    spread = {
        name: np.trace(solution(name, exact_states("puma4", 0)).covariance)
        for name in ("momentum", "energy")
    }
    assert spread["energy"] > 4 * spread["momentum"]


@pytest.mark.parametrize("points", [4, 6, 8])
def test_more_points_are_a_higher_order(points) -> None:
    robot = md.load("two_link").with_parameters(np.random.default_rng(0).uniform(0.2, 1.0, 20))
    errors = []
    for step in (0.02, 0.01):
        t = np.arange(0, 2, step)
        q, dq, ddq = md.trajectory.fourier(robot, seed=1, period=2.0)(t)
        recording = md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq)
        Y, tau = md.filtered_regressor(robot, recording, cutoff=3.0, form="momentum", points=points)
        errors.append(np.abs(Y @ robot.parameters - tau).max())
    assert errors[0] / errors[1] > 0.6 * 2**points


# ---- all of them


@pytest.mark.parametrize("method", BEYOND)
def test_the_possible_model_follows(method) -> None:
    """Every method feeds the search for a possible robot, with a prior and its weight, too."""
    robot = truth("two_link")
    estimate = md.identify(robot, exact_states("two_link", 1), method, **OWN)
    assert estimate.consistent
    assert certify(estimate.robot).consistent
    assert "prior_weight" in estimate.record
    assert np.linalg.norm(
        estimate.beta - estimate.base.values(robot.parameters)
    ) < 0.2 * np.linalg.norm(estimate.beta)


@pytest.mark.parametrize("method", BEYOND)
def test_what_no_sample_shows_may_stay_open(method) -> None:
    still = exact_states("two_link", 0)
    q, dq, ddq = (getattr(still, name) * [1.0, 0.0] for name in ("q", "dq", "ddq"))
    tau = md.inverse_dynamics(truth("two_link"), q, dq, ddq)
    recording = md.Recording(still.t, q, tau, dq, ddq, still.joint_names)
    with pytest.raises(MinidynError):
        solution(method, recording, "two_link")
    found = solution(method, recording, "two_link", allow_open=True)
    assert np.isinf(np.diag(found.covariance)).any()
    assert np.isfinite(found.beta).all()


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_robust_weights_are_those_of_hubers_loss(seed: int) -> None:
    """What robust weights settle at has no slope in Huber's loss; least squares have."""
    robot, base, run = truth(), base_of(), exact_states("puma4", seed)
    rng = np.random.default_rng(seed)
    hit = rng.random(run.tau.shape) < 0.1
    run = replace(run, tau=run.tau + hit * 8.0 * rng.normal(size=run.tau.shape))
    Y = md.regressor(robot, run.q, run.dq, run.ddq, columns=base.kept)
    assert base.mixing is None

    def slope(found: least_squares.Fit, sigma: np.ndarray) -> float:
        """The slope of the loss, as a step of parameters in their standard deviations."""
        residual = run.tau - Y @ found.beta
        psi = np.clip(residual / sigma, -1.345, 1.345) / sigma
        return float(np.abs(np.linalg.solve(found.R.T, np.einsum("tj,tjb->b", psi, Y))).max())

    wls, irls = (least_squares.fit(robot, base, run, method) for method in ("wls", "irls"))
    sigma = irls.weight.before.sigma
    assert slope(irls, sigma) < 2 * least_squares._SETTLED
    assert slope(wls, sigma) > 0.5
