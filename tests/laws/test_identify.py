"""md.identify: weights, robustness, weak recordings, refusals.

test_identification_contract.py holds all methods.
"""

import numpy as np
import pytest

import minidyn as md
from conftest import OWN
from minidyn.identification.consistency.certificate import certify
from minidyn.identification.diagnose.advice import advise
from minidyn.identification.estimate import load_estimate
from minidyn.identification.identify import identify
from minidyn.identification.rows.triangles import assemble
from minidyn.identification.validate import validate
from minidyn.model.drives import PLAIN
from minidyn.notices import most_serious_first
from minidyn.recording.prepare.lowpass import lowpass


def truth(name: str, seed: int = 0) -> md.Robot:
    robot = md.load(name).with_drives(friction=("viscous", "coulomb", "offset"))
    rng = np.random.default_rng(seed)
    return robot.with_parameters(
        np.where(
            np.isnan(robot.parameters),
            rng.uniform(0.2, 0.8, len(robot.parameters)),
            robot.parameters,
        )
    )


def motion(robot: md.Robot, samples: int = 3000, seed: int = 0) -> md.Recording:
    t = np.linspace(0, 20, samples)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=3.0)(t)
    return md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, ddq, robot.joint_names)


def with_noise(recording: md.Recording, noise: np.ndarray) -> md.Recording:
    return md.Recording(
        recording.t,
        recording.q,
        recording.tau + noise,
        recording.dq,
        recording.ddq,
        recording.joint_names,
    )


@pytest.mark.parametrize("name", ["scara", "ur10e"])
def test_exact_without_noise(name) -> None:
    robot = truth(name)
    estimate = identify(robot.with_parameters(None), motion(robot), consistent=False, **OWN)
    np.testing.assert_allclose(
        estimate.beta, estimate.base.values(robot.parameters), rtol=1e-6, atol=1e-7
    )
    other = motion(robot, seed=9)
    np.testing.assert_allclose(
        estimate.predict(other), other.tau, atol=1e-5 * np.abs(other.tau).max()
    )


def test_weights_help_and_outliers_are_resisted() -> None:
    robot = truth("puma4")
    clean = motion(robot)
    rng = np.random.default_rng(0)
    uneven = with_noise(clean, rng.normal(size=clean.q.shape) * [0.02, 5.0, 0.02, 0.02])
    errors = {}
    for method in ("ols", "wls"):  # links 3 and 4 are seen by quiet joints, too
        estimate = identify(robot, uneven, method, consistent=False, **OWN)
        target = estimate.base.values(robot.parameters)
        far = [k for k, name in enumerate(estimate.names) if name[-1] in "34" and name[0] != "F"]
        errors[method] = np.linalg.norm((estimate.beta - target)[far])
    assert errors["wls"] < 0.2 * errors["ols"]
    hit = np.where(rng.random(clean.q.shape) < 0.02, 40.0, 0.0) + 0.1 * rng.normal(
        size=clean.q.shape
    )
    for method in ("wls", "irls"):
        errors[method] = np.linalg.norm(
            identify(robot, with_noise(clean, hit), method, consistent=False, **OWN).beta - target
        )
    assert errors["irls"] < 0.5 * errors["wls"]


def test_reduction_is_the_whole_matrix() -> None:
    robot = truth("puma4")
    recording = with_noise(motion(robot, 2500), np.random.default_rng(0).normal(size=(2500, 4)))
    base = md.base_parameters(robot)
    problem = assemble(robot, base, recording)
    W = md.base_regressor(robot, recording.q, recording.dq, recording.ddq, base=base).reshape(
        -1, base.rank
    )
    direct, rest, _, _ = np.linalg.lstsq(W, recording.tau.ravel(), rcond=None)
    R, z, remainder = problem.weighted(np.ones(4))
    np.testing.assert_allclose(np.linalg.solve(R, z), direct, rtol=1e-8)
    assert remainder == pytest.approx(rest[0], rel=1e-9)
    residual = recording.tau - (W @ direct).reshape(-1, 4)
    np.testing.assert_allclose(problem.squares(direct), np.sum(residual**2, axis=0), rtol=1e-9)
    pair = assemble(robot, base, recording, threads=2)
    np.testing.assert_allclose(pair.squares(direct), problem.squares(direct), rtol=1e-9)


def test_weak_motion_is_named() -> None:
    robot = truth("puma4")
    t = np.linspace(0, 10, 2000)
    still = np.zeros((2000, 4))
    with pytest.raises(md.MinidynError, match="no joint moves"):
        identify(robot, md.Recording(t, still, still, still, still), **OWN)
    with pytest.raises(md.MinidynError, match="does not excite"):
        identify(robot, md.Recording(t, still, still, still, still), force=True, **OWN)
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    small = [part * [1, 1, 1, 1e-3] for part in (q, dq, ddq)]
    noise = np.random.default_rng(0).normal(size=(2000, 4))
    estimate = identify(
        robot,
        md.Recording(t, small[0], md.inverse_dynamics(robot, *small) + noise, *small[1:]),
        consistent=False,
        **OWN,
    )
    assert "identify.weakly_determined" in {notice.code for notice in estimate.notices}


@pytest.mark.parametrize("still", [1, 3])
def test_the_motion_that_would_help_is_named(still: int) -> None:
    """Of a joint that crawls nothing is known.

    The advice is to move it, and with that motion the model is better.
    """
    robot = truth("puma4")
    t = np.linspace(0, 10, 1500)
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    slow = [part * np.where(np.arange(4) == still, 1e-2, 1.0) for part in (q, dq, ddq)]
    rng = np.random.default_rng(0)
    torque = md.inverse_dynamics(robot, *slow) + 0.3 * rng.normal(size=q.shape)
    log = md.Recording(t, slow[0], torque, slow[1], slow[2], robot.joint_names)
    base = md.base_parameters(robot)
    R, _, _ = assemble(robot, base, log).weighted(np.full(4, 0.3))
    advice = advise(robot, base, R, np.full(4, 0.3))
    assert still in advice.joints
    assert advice.after < 0.2 * advice.before
    estimate = identify(robot, log, consistent=False, sign_width=0.0, **OWN)
    [helpful] = [notice for notice in estimate.notices if notice.code == "identify.helpful_motion"]
    assert robot.joint_names[still] in helpful.data["joints"]


def test_curves_of_friction_ask_for_no_other_motion() -> None:
    """A slow joint leaves cubic friction at high speeds open.

    The advice is that of the model without such terms.
    """
    t = np.linspace(0, 10, 1500)
    found = []
    for terms in (PLAIN, (*PLAIN, "sqrt", "cubic")):
        robot = md.load("scara").with_drives(True, terms)
        q, dq, ddq = (
            part * [1.0, 1.0, 0.1, 1.0] for part in md.trajectory.fourier(robot, seed=0)(t)
        )
        base = md.base_parameters(robot)
        log = md.Recording(t, q, 0 * q, dq, ddq, robot.joint_names)
        found.append(
            advise(robot, base, assemble(robot, base, log).weighted(np.ones(4))[0], np.ones(4))
        )
    plain, curved = found
    assert curved.before == pytest.approx(plain.before, rel=1e-6)
    assert (curved.names, curved.motion) == (plain.names, plain.motion)


def weak_log(
    robot: md.Robot, seconds: float, rate: float, seed: int, still: tuple[int, ...]
) -> md.Recording:
    """Return a raw log of a short motion in which some joints crawl.

    Encoder steps, torque noise with a memory.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(0, seconds, 1 / rate)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
    share = np.where(np.isin(np.arange(robot.n), still), 1e-2, 1.0)
    q, dq, ddq = q[0] + share * (q - q[0]), share * dq, share * ddq
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + 0.03 * np.maximum(tau.std(axis=0), 0.05 * tau.std()) * rng.normal(size=tau.shape)
    return md.Recording(t, np.round(q / 2e-5) * 2e-5, tau, joint_names=robot.joint_names)


@pytest.mark.parametrize(
    ("name", "rate", "seconds", "still"),
    [("ur10e", 125, 4.0, (0, 1)), ("panda", 50, 4.0, (1, 4)), ("ur10e", 500, 10.0, ())],
)
def test_a_prior_carries_weak_recordings(
    name: str, rate: float, seconds: float, still: tuple[int, ...]
) -> None:
    """A drawing that errs by a third, one link unknown.

    Not worse than plain least squares, far better if weak.
    """
    robot = md.load(name).with_drives(True, ("viscous", "coulomb", "offset"), 0.02)
    values, rng = robot.parameters.copy(), np.random.default_rng(1)
    size = {"Ia": 0.3, "Fv": 2.0, "Fc": 3.0, "Fo": 0.3}
    for columns in robot.layout.drives:
        for column in columns:
            values[column.index] = size[column.symbol] * 0.7**column.joint * rng.uniform(0.5, 1.5)
    robot = robot.with_parameters(values)
    believed = values.copy()
    for part in robot.layout.links:
        believed[part] *= rng.uniform(0.7, 1.3)
    believed[robot.layout.links[2]] = np.nan
    believed[[column.index for columns in robot.layout.drives for column in columns]] = np.nan
    prior = robot.with_parameters(believed)
    log = weak_log(robot, seconds, rate, 0, still)
    other = motion(robot, 1000, seed=5)
    possible = identify(prior, log, sign_width=0.02, **OWN)
    assert certify(possible.robot).consistent
    error = validate(possible, other).relative_error
    plain = validate(
        identify(prior, log, consistent=False, sign_width=0.02, **OWN), other
    ).relative_error
    assert error < 1.1 * plain
    if still:
        assert error < 0.1 * plain
        assert error < 0.5


def test_what_no_sample_shows_follows_the_prior_and_is_told() -> None:
    robot = truth("puma4")
    t = np.linspace(0, 10, 1000)
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    held = [part * [1, 1, 1, 0] for part in (q, dq, ddq)]
    log = md.Recording(
        t, held[0], md.inverse_dynamics(robot, *held), held[1], held[2], robot.joint_names
    )
    with pytest.raises(md.MinidynError, match=r"does not (excite|determine)"):
        identify(robot, log, consistent=False, **OWN)
    with pytest.raises(md.MinidynError, match=r"does not (excite|determine)"):
        identify(robot.with_parameters(None), log, **OWN)
    estimate = identify(robot, log, sign_width=0.0, **OWN)
    assert "consistency.open" in [notice.code for notice in most_serious_first(estimate.notices)]
    open_ = np.isinf(estimate.std)
    assert open_.any()
    assert not open_.all()
    other = motion(robot, 500, seed=3)
    assert validate(estimate, other).relative_error < 0.05  # the prior is right here
    few = identify(robot, with_noise(motion(robot, 3000)[:25], 0.1), sign_width=0.0, **OWN)
    assert certify(few.robot).consistent


def test_refusals(tmp_path) -> None:
    robot = truth("puma4")
    good = motion(robot, 500)
    bad = good.tau.copy()
    bad[77, 2] = np.nan
    cases = [
        (lambda: identify(robot, good, "wsl", **OWN), "did you mean 'wls'"),
        (lambda: identify(robot, good[:10], **OWN), "too few"),
        (lambda: identify(robot, md.Recording(good.t, good.q, None), **OWN), "measured torques"),
        (
            lambda: identify(
                robot, md.Recording(good.t, good.q, bad, good.dq, good.ddq, good.joint_names), **OWN
            ),
            "joint3.*not a number at t",
        ),
        (
            lambda: identify(
                robot,
                md.Recording(
                    good.t,
                    good.q,
                    good.tau,
                    good.dq,
                    good.ddq,
                    ["joint1", "joint2", "joint3", "jiont4"],
                ),
                **OWN,
            ),
            "did you mean 'joint4'",
        ),
        (lambda: identify(md.load("panda"), good, **OWN), "robot 'panda' has 7"),
        (lambda: load_estimate(tmp_path / "no.json"), "no such file"),
    ]
    for request, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            request()


def test_estimates_survive_files(tmp_path) -> None:
    robot = truth("puma4")
    recording = with_noise(motion(robot), 0.1 * np.random.default_rng(0).normal(size=(3000, 4)))
    estimate = identify(robot, recording, consistent=False, **OWN)
    estimate.save(tmp_path / "estimate.json")
    back = load_estimate(tmp_path / "estimate.json")
    np.testing.assert_array_equal(back.beta, estimate.beta)
    np.testing.assert_array_equal(back.covariance, estimate.covariance)
    assert back.robot.joint_names == robot.joint_names
    np.testing.assert_allclose(back.predict(recording), estimate.predict(recording))
    assert "| ZZR1 |" in estimate.table()
    (tmp_path / "estimate.json").write_text((tmp_path / "estimate.json").read_text()[:500])
    with pytest.raises(md.MinidynError, match="not a whole estimate"):
        load_estimate(tmp_path / "estimate.json")


def test_consistent_models_are_possible_and_predict() -> None:
    robot = truth("ur10e")
    recording = with_noise(motion(robot, 2000), np.random.default_rng(0).normal(size=(2000, 6)))
    estimate = identify(robot.with_parameters(None), recording, prior=False, **OWN)
    assert estimate.consistent
    for link in estimate.robot.links:
        assert link.realizability.realizable
        assert link.realizability.smallest_eigenvalue > 0
    other = motion(robot, 1000, seed=5)
    assert validate(estimate, other).relative_error < 0.05
    np.testing.assert_allclose(
        md.inverse_dynamics(estimate.robot, other.q, other.dq, other.ddq), estimate.predict(other)
    )


def test_friction_that_turns_round_slowly_is_found() -> None:
    """Coulomb friction over a width of speeds.

    The width is chosen from the data, and a hard sign fits worse.
    """
    robot = truth("puma4").with_drives(sign_width=0.15)
    recording = with_noise(motion(robot), 0.05 * np.random.default_rng(0).normal(size=(3000, 4)))
    hard = robot.with_drives(sign_width=0.0)
    chosen = identify(hard, recording, consistent=False, **OWN)
    width = np.array(chosen.record["sign_width"])
    assert np.all((width > 0.02) & (width < 0.6))
    other = motion(robot, seed=4)
    stiff = identify(hard, recording, consistent=False, sign_width=0.0, **OWN)
    assert validate(chosen, other).rmse < 0.7 * validate(stiff, other).rmse
    kept = identify(robot, recording, consistent=False, **OWN)
    assert "sign_width" not in kept.record
    assert validate(kept, other).rmse < validate(chosen, other).rmse


def test_filtering_alike_removes_what_a_filtered_torque_spoils() -> None:
    """A torque sensor with a low-pass at 4 Hz blunts friction and inertia.

    Filtered alike, both sides are the same.
    """
    robot = truth("puma4")
    clean = motion(robot, 4000)
    assert clean.tau is not None
    rng = np.random.default_rng(0)
    blunt = lowpass(clean.tau + 0.05 * rng.normal(size=clean.tau.shape), 200.0, 4.0)
    log = md.Recording(clean.t, clean.q, blunt, clean.dq, clean.ddq, clean.joint_names)[200:-200]
    true = md.base_parameters(robot).values(robot.parameters)
    errors = {}
    for method in ("wls", "parallel"):
        estimate = identify(robot, log, method, consistent=False, sign_width=0.0, **OWN)
        errors[method] = np.linalg.norm(estimate.beta - true) / np.linalg.norm(true)
    assert errors["parallel"] < 0.2 * errors["wls"]


@pytest.mark.parametrize("consistent", [True, False])
def test_predictions_follow_the_columns_of_the_recording(consistent: bool) -> None:
    robot = md.load("ur10e")
    t = np.arange(0, 5.0, 0.01)
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    names = np.array(robot.joint_names)
    estimate = md.identify(
        robot, md.Recording(t, q, tau, dq, ddq, robot.joint_names), consistent=consistent, **OWN
    )
    turned = np.random.default_rng(0).permutation(6)
    signals = [signal[:, turned] for signal in (q, tau, dq, ddq)]
    shuffled = md.Recording(t, *signals, joint_names=names[turned].tolist())
    np.testing.assert_allclose(
        estimate.predict(shuffled), tau[:, turned], atol=1e-6 * np.abs(tau).max()
    )
    raw = md.Recording(t, q[:, turned], tau[:, turned], joint_names=names[turned].tolist())
    predicted = estimate.predict(raw)
    assert predicted.shape == tau.shape
    inner = slice(50, -50)  # the ends suffer from the low-pass
    assert np.linalg.norm((predicted - tau[:, turned])[inner]) < 0.01 * np.linalg.norm(tau[inner])


def test_torques_that_are_zero_are_no_measurement() -> None:
    robot = md.load("two_link")
    t = np.arange(2000) / 200
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    with pytest.raises(md.MinidynError, match="zero throughout"):
        md.identify(robot, md.Recording(t, q, np.zeros_like(q), dq, ddq, robot.joint_names), **OWN)


def test_defaults_identify_rotors_and_choose_friction() -> None:
    """What the documents promise.

    Rotor inertia and friction="auto", unless base= says which terms there are.
    """
    robot = md.load("puma4")
    log = motion(truth("puma4"), 1200)
    untold = identify("puma4", log, consistent=False)
    told = identify(robot, log, "wls", friction="auto", rotor_inertia=True, consistent=False)
    np.testing.assert_array_equal(untold.beta, told.beta)
    assert {"Ia3", "Fv1", "Fc2"} <= set(untold.robot.parameter_names)
    base = md.base_parameters(robot.with_drives(True, ("viscous",)))
    mapped = identify(robot, log, base=base, consistent=False)
    assert mapped.robot.parameter_names == base.robot.parameter_names
    with pytest.raises(md.MinidynError, match="base: its parameters"):
        identify(robot, log, base=base, friction=("coulomb",), consistent=False)
    with pytest.warns(DeprecationWarning, match='friction="own"'):
        old = identify(robot, log, friction=None, rotor_inertia=None, consistent=False)
    assert old.robot.parameter_names == robot.parameter_names
    with pytest.raises(TypeError):
        identify(robot, log, "wls", base)  # type: ignore[misc]


def test_a_prior_may_be_a_robot_its_name_or_numbers() -> None:
    robot = md.load("puma4")
    log = motion(robot, 1200)
    weak = with_noise(log, np.random.default_rng(0).normal(size=log.q.shape))
    wrong = robot.with_parameters(0.5 * robot.parameters)
    drives = {"friction": (), "rotor_inertia": False}
    found = [
        identify(wrong, weak, prior=prior, **drives) for prior in (robot, "puma4", robot.parameters)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].parameters, other.parameters)
    with pytest.raises(md.MinidynError, match="prior: panda: its joints"):
        identify(wrong, weak, prior="panda", **drives)
