"""Loads against a baseline.

Right mass with other friction, honest uncertainty, what else has changed is named.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.signal import lfilter

import minidyn as md
from conftest import OWN, count
from minidyn.identification.payload.payload import nearest_body
from minidyn.model.parameters import from_body, realizability
from minidyn.recording.read.mapping import gains_applied

UR10 = (
    Path(md.__file__).parent / "app" / "examples" / "ur10" / "log.csv"
)  # measured; it ships with the package
BODY = from_body(2.0, [0.03, -0.02, 0.1], np.diag([0.010, 0.012, 0.006]))
_FRICTION = {"Fv": 2.0, "Fc": 3.0, "Fo": 0.4}


def truth(name: str, friction: float = 1.0) -> md.Robot:
    """A robot with friction, viscous and Coulomb parts multiplied as temperature does."""
    robot = md.load(name).with_drives(friction=("viscous", "coulomb", "offset"))
    values, rng = robot.parameters.copy(), np.random.default_rng(0)
    for column in robot.layout.columns:
        if not column.is_inertial:
            size = (
                _FRICTION[column.symbol]
                * rng.uniform(0.5, 1.5)
                * (1.0 if column.joint < 3 else 0.2)
            )
            values[column.index] = size * (friction if column.symbol != "Fo" else 1.0)
    return robot.with_parameters(values)


def motion(
    robot: md.Robot, seed: int, memory: float = 0.5, speed: float = 2.0, samples: int = 2000
) -> md.Recording:
    """Measured torques with noise that remembers."""
    t = np.linspace(0, 20, samples)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=speed)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    white = np.random.default_rng(seed).normal(size=tau.shape)
    noise = lfilter([np.sqrt(1 - memory**2)], [1, -memory], white, axis=0) * np.linspace(
        0.5, 0.1, robot.n
    )
    return md.Recording(t, q, tau + noise, dq, ddq, robot.joint_names)


def baseline(robot: md.Robot, seed: int = 100, **options) -> md.Estimate:
    blank = robot.with_parameters(None)
    return md.identify(
        blank, motion(robot, seed, **options), prior=False, consistent=False, sign_width=0.0, **OWN
    )


@pytest.mark.parametrize("name", ["ur10e", "panda"][: count(1, 2)])
def test_mass_within_two_percent_whatever_the_temperature(name: str) -> None:
    estimate = baseline(truth(name))
    for seed in range(count(1, 10)):
        for friction in (0.8, 1.2):
            payload = md.identify_payload(
                estimate, motion(md.Payload(0.0, BODY).on(truth(name, friction)), 200 + seed)
            )
            assert payload.mass == pytest.approx(2.0, rel=0.02)
            np.testing.assert_allclose(payload.com, [0.03, -0.02, 0.1], atol=0.006)
            assert payload.realizable
            assert np.linalg.eigvalsh(payload.inertia).min() > 0
            assert {"friction"} == {entry["kind"] for entry in payload.settings["changes"]}
            assert "payload.friction_changed" in [notice.code for notice in payload.notices]


def test_closed_loop_with_raw_signals() -> None:
    """A simulated loop: the payload is found from q and tau alone, prepared as any log."""
    cold, warm = (geared(truth("ur10e", friction)) for friction in (1.0, 1.2))
    law = md.control.computed_torque(cold, bandwidth=8)
    runs = []
    for true, seed in ((cold, 1), (md.Payload(0.0, BODY).on(warm), 2)):
        path = md.trajectory.fourier(cold, seed=seed, speed=1.5)
        run = md.simulate(true, law, path, 10.0, noise=2e-5, torque_noise=0.5, seed=seed)
        runs.append(md.Recording(run.t, run.q, run.tau, joint_names=run.joint_names))
    estimate = md.identify(
        cold.with_parameters(None), runs[0], prior=False, consistent=False, **OWN
    )
    payload = md.identify_payload(estimate, runs[1])
    assert payload.mass == pytest.approx(2.0, rel=0.02)


def test_noise_free_logs_show_no_changes_that_filters_make() -> None:
    """Without noise what the low-pass rounds off is all that is left.

    Small torque, but nothing else explains it.
    """
    cold, warm = (geared(truth("panda", friction)) for friction in (1.0, 1.3))
    law = md.control.computed_torque(cold.with_drives(friction=()), bandwidth=10, period=2e-3)
    ready = []
    for true, seed in ((cold, 1), (md.Payload(0.0, BODY).on(warm), 2)):
        run = md.simulate(
            true, law, md.trajectory.fourier(cold, seed=seed, speed=2.0), 8.0, dt=2e-3
        )
        ready.append(
            md.prepare(cold, md.Recording(run.t, run.q, run.tau, joint_names=run.joint_names))
        )
    payload = md.identify_payload(
        md.identify(cold.with_parameters(None), ready[0], **OWN), ready[1]
    )
    assert {"friction"} >= {entry["kind"] for entry in payload.settings["changes"]}
    assert payload.mass == pytest.approx(2.0, rel=0.005)


def geared(robot: md.Robot) -> md.Robot:
    """The robot with rotors behind gears, and friction that turns round over a range of speeds."""
    made = robot.with_drives(rotor_inertia=True, sign_width=0.05)
    rotors = np.array([column.symbol == "Ia" for column in made.layout.columns])
    return made.with_parameters(np.where(rotors, 0.3, made.parameters))


def test_uncertainty_is_honest() -> None:
    """Errors over standard deviations have about unit size, the baseline's share included."""
    robot, scores = truth("ur10e"), []
    for seed in range(count(5, 30)):
        payload = md.identify_payload(
            baseline(robot, 300 + seed, samples=1500),
            motion(md.Payload(0.0, BODY).on(robot), 400 + seed, samples=1500),
        )
        found = np.array(payload.settings["unconstrained"])
        scores.append((found - BODY) / np.sqrt(np.diag(payload.covariance)))
        assert payload.settings["changes"] == []
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.4


@pytest.mark.parametrize("shared", [0.05, 0.0], ids=["one scale", "each its own"])
def test_errors_of_drive_gains_are_in_the_errors_of_the_load(shared: float) -> None:
    """Gains off by 5 %: masses were off by 14 stated deviations (one scale) or 4 (each its own)."""
    robot = truth("ur10e")
    held, n = md.Payload(0.0, BODY).on(robot), robot.n
    covariance = shared**2 * np.ones((n, n)) + (0.01 if shared else 0.05) ** 2 * np.eye(n)
    scores = []
    for seed in range(count(4, 24)):
        off = 1.0 + np.random.default_rng(seed).multivariate_normal(np.zeros(n), covariance)
        said = gains_applied(robot.joint_names, np.ones(n), covariance)
        runs = [motion(one, k + seed, samples=1000) for one, k in ((robot, 300), (held, 400))]
        bare, loaded = (replace(run, tau=run.tau * off, notices=(said,)) for run in runs)
        estimate = md.identify(
            robot.with_parameters(None), bare, prior=False, consistent=False, sign_width=0.0, **OWN
        )
        payload = md.identify_payload(estimate, loaded)
        scores.append((payload.settings["unconstrained"][9] - 2.0) / payload.std["mass"])
        (scale,) = (notice for notice in payload.notices if notice.code == "payload.torque_scale")
        assert scale.data["gains"] == pytest.approx(
            np.hypot(shared, (0.01 if shared else 0.05) / np.sqrt(n)), rel=1e-6
        )
        assert payload.std["mass"] > 0.75 * 2.0 * scale.data["gains"]
    assert 0.3 < np.sqrt(np.mean(np.square(scores))) < 1.8


def test_what_a_load_rests_on_is_said() -> None:
    robot = truth("scara")
    run, loaded = motion(robot, 1), motion(md.Payload(0.0, BODY).on(robot), 2)
    given = replace(loaded, notices=(gains_applied(robot.joint_names, np.full(4, 2.0)),))
    codes = []
    for bare, heavy in ((run, loaded), (replace(run, notices=given.notices), given), (run, given)):
        estimate = md.identify(
            robot.with_parameters(None), bare, prior=False, consistent=False, **OWN
        )
        notices = md.identify_payload(estimate, heavy).notices
        codes.append(
            {one.code for one in notices}
            & {f"payload.{w}" for w in ("torque_scale", "gains_trusted", "other_gains")}
        )
    assert codes == [
        {"payload.torque_scale"},
        {"payload.gains_trusted"},
        {"payload.gains_trusted", "payload.other_gains"},
    ]


def test_gains_and_load_together_are_the_joint_solution() -> None:
    """Gains from a weighed load, then another load with their errors as unknowns.

    Near the likeliest of all three runs. It is a little less certain, because friction may have
    changed with the other load.
    """
    robot = truth("ur10e")
    gains = np.linspace(12.0, 7.0, 6)
    weighed = from_body(5.0, [0.03, -0.02, 0.1], np.diag([0.030, 0.032, 0.016]))
    loaded = (md.Payload(0.0, body).on(robot) for body in (weighed, BODY))
    runs = [motion(one, 20 + k, samples=600) for k, one in enumerate((robot, *loaded))]
    runs = [replace(run, tau=run.tau / gains) for run in runs]
    blank = robot.with_parameters(None)
    found = md.identify_drive_gains(blank, *runs[:2], 5.0)
    estimate = md.identify(
        blank, found.apply(runs[0]), prior=False, consistent=False, sign_width=0.0, **OWN
    )
    payload = md.identify_payload(estimate, found.apply(runs[2]))
    mass, spread = _all_at_once(blank, runs, 5.0)
    assert payload.settings["unconstrained"][9] == pytest.approx(mass, abs=1.5 * spread)
    assert 0.8 * spread < payload.std["mass"] < 2.5 * spread
    assert abs(mass - 2.0) < 4 * spread


def _all_at_once(robot: md.Robot, runs: list[md.Recording], mass: float) -> tuple[float, float]:
    """Return the second load's mass and its deviation by one nonlinear least squares over three
    runs of currents.
    """
    base = md.base_parameters(robot)
    ten = [column.name for column in robot.layout.columns[robot.layout.links[-1]]]
    Y = [md.base_regressor(robot, run.q, run.dq, run.ddq, base=base) for run in runs]
    L = [md.regressor(robot, run.q, run.dq, run.ddq, columns=ten) for run in runs[1:]]
    n, b, noise = robot.n, base.rank, np.linspace(0.5, 0.1, robot.n) / 10.0

    def left(x: np.ndarray) -> np.ndarray:
        k, beta, loads = (
            x[:n],
            x[n : n + b],
            [np.append(x[n + b : n + b + 9], mass), x[n + b + 9 :]],
        )
        torques = [Y[0] @ beta, *(Y[i + 1] @ beta + L[i] @ loads[i] for i in (0, 1))]
        parts = [((run.tau - tau / k) / noise).ravel() for run, tau in zip(runs, torques)]
        return np.concatenate(
            [*parts, 1e-2 * x[n + b : n + b + 9], 1e-2 * x[n + b + 9 :]]
        )  # what no joint feels

    start = np.concatenate([np.full(n, 10.0), np.ones(b), np.zeros(9), np.zeros(9), [1.0]])
    found = least_squares(left, start, x_scale="jac")
    covariance = np.linalg.pinv(found.jac.T @ found.jac, hermitian=True)
    memory = 3.0  # of noise that remembers by 0.5
    return float(found.x[-1]), float(np.sqrt(memory * covariance[-1, -1]))


@pytest.mark.parametrize("name", ["panda", "ur10e"][: count(1, 2)])
def test_changes_of_the_baseline_are_named(name: str) -> None:
    robot = truth(name)
    estimate, loaded = baseline(robot), md.Payload(0.0, BODY).on(robot)
    run = motion(loaded, 500)
    scaled = run.tau.copy()
    scaled[:, 2] *= 1.05
    joint = robot.joint_names[2]
    stronger = md.identify_payload(
        estimate, md.Recording(run.t, run.q, scaled, run.dq, run.ddq, run.joint_names)
    )
    (found,) = [entry for entry in stronger.settings["changes"] if entry["kind"] == "torque scale"]
    assert found["name"] == joint
    assert next(iter(found["values"].values())) == pytest.approx(0.05, abs=0.01)
    (scale,) = (
        notice for notice in stronger.notices if notice.code == "payload.torque_scale_changed"
    )
    assert scale.data["joint"] == joint
    assert stronger.mass == pytest.approx(2.0, rel=0.02)

    tilted = loaded.with_gravity([9.81 * np.sin(0.05), 0.0, -9.81 * np.cos(0.05)])
    turned = md.identify_payload(estimate, motion(tilted, 501)).notices
    assert "payload.gravity_turned" in [notice.code for notice in turned]

    values = loaded.parameters.copy()
    values[robot.layout.links[2]] += from_body(1.5, [0.1, 0.0, 0.05], 0.01 * np.eye(3))
    mounted = md.identify_payload(estimate, motion(loaded.with_parameters(values), 502))
    changed = [
        notice.data["link"] for notice in mounted.notices if notice.code == "payload.link_changed"
    ]
    assert robot.link_names[2] in changed
    assert mounted.mass == pytest.approx(2.0, rel=0.03)

    plain = md.identify_payload(estimate, run)
    assert not any(notice.code.endswith(("_changed", "_turned")) for notice in plain.notices)


def test_no_load_less_load_and_slow_motion() -> None:
    robot = truth("panda")
    loaded = md.Payload(0.0, BODY).on(robot)
    estimate = baseline(robot)
    none = md.identify_payload(estimate, motion(robot, 600))
    assert none.notices[0].code == "payload.none"
    assert none.realizable
    assert abs(none.mass) < 3 * none.std["mass"]

    less = md.identify_payload(baseline(loaded), motion(robot, 601))
    assert less.mass == pytest.approx(-2.0, rel=0.02)
    assert not less.realizable
    assert less.notices[0].code == "payload.negative"

    slow = md.identify_payload(estimate, motion(loaded, 602, speed=0.2))
    assert slow.mass == pytest.approx(2.0, abs=4 * slow.std["mass"])
    assert "payload.loose_inertia" in [notice.code for notice in slow.notices]
    radius = np.cbrt(3 * slow.mass / (4 * np.pi * 1500.0))
    assert (
        0.1 < np.trace(slow.inertia) / (1.2 * slow.mass * radius**2) < 10
    )  # compact: like a ball of its mass


def test_frames_tables_and_simulation() -> None:
    """A load in a frame of its own is the same load; what is identified can be simulated."""
    robot = truth("ur10e")
    placement = np.eye(4)
    placement[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    placement[:3, 3] = [0.0, 0.1, 0.05]
    given = md.Payload(0.0, BODY, placement)
    assert given.std is None
    assert given.mass == pytest.approx(2.0)
    heavier = given.on(robot)
    assert heavier.links[-1].mass == pytest.approx(robot.links[-1].mass + 2.0)
    other = robot.with_load(placement, BODY)
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 5, 6))
    np.testing.assert_allclose(
        md.inverse_dynamics(heavier, q, dq, ddq), md.inverse_dynamics(other, q, dq, ddq), atol=1e-9
    )
    estimate = baseline(robot)
    on_forearm = md.Payload(0.0, BODY, None, robot.link_names[2]).on(robot)
    found = md.identify_payload(estimate, motion(on_forearm, 700), link=robot.link_names[2])
    assert found.mass == pytest.approx(2.0, rel=0.05)
    assert found.link == robot.link_names[2]
    np.testing.assert_allclose(found.on(robot).parameters, on_forearm.parameters, atol=0.3)
    assert found.table().count("\n") == 11
    assert "±" in repr(found)
    short = md.simulate(robot, None, None, 0.05, payload=found)
    assert len(short) == 51


def test_nearest_body_is_possible_and_near() -> None:
    rng = np.random.default_rng(0)
    for _ in range(count(20, 200)):
        spread = 0.1 * rng.normal(size=(10, 10)) * np.abs(BODY + 1e-2)[:, None]
        covariance = spread @ spread.T
        noisy = BODY + spread @ rng.normal(size=10)
        body = nearest_body(noisy, covariance)
        assert realizability(body).realizable
        distance = float((body - noisy) @ np.linalg.solve(covariance, body - noisy))
        truth_distance = float((BODY - noisy) @ np.linalg.solve(covariance, BODY - noisy))
        assert (
            distance < truth_distance + 1.0
        )  # the true body is possible too: none nearer is passed over


def test_refusals() -> None:
    robot = truth("ur10e")
    estimate = baseline(robot)
    run = motion(robot, 1)
    cases = [
        (lambda: md.identify_payload(estimate, md.Recording(run.t, run.q, None)), "torques"),
        (lambda: md.identify_payload(estimate, run[:20]), "too few"),
        (lambda: md.identify_payload(estimate, run, link="wrist"), "link"),
        (lambda: md.identify_payload(estimate, run, link=robot.base_name), "base"),
        (lambda: md.identify_payload(estimate, run, level=2.0), "probability"),
    ]
    for request, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            request()


def test_what_the_baseline_left_open_does_not_become_a_load() -> None:
    """A baseline whose recording did not move one joint.

    The load is found all the same, from the others.
    """
    robot = truth("ur10e")
    run = motion(robot, 800)
    held = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    q, dq, ddq = (np.asarray(part) * held for part in (run.q, run.dq, run.ddq))
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.2 * np.random.default_rng(0).normal(
        size=q.shape
    )
    estimate = md.identify(robot, md.Recording(run.t, q, tau, dq, ddq, run.joint_names), **OWN)
    assert not np.isfinite(estimate.std).all()
    payload = md.identify_payload(estimate, motion(md.Payload(0.0, BODY).on(robot), 801))
    assert payload.mass == pytest.approx(2.0, abs=max(0.04, 4 * payload.std["mass"]))
    assert np.isfinite(payload.covariance).all()


def test_real_friction_looks_like_a_small_load_and_a_notice_says_so() -> None:
    """A real log without a load: what is found is small.

    A load added to its torques is found on top of it.
    """
    robot = md.load("ur10")
    log = md.read_recording(UR10, robot=robot)
    half = len(log) // 2
    estimate = md.identify(
        robot, log[:half], friction=("viscous", "coulomb", "offset"), rotor_inertia=True
    )
    run = md.prepare(robot, log[half:])
    nothing = md.identify_payload(estimate, run)
    assert 0.1 < nothing.mass < 0.25
    assert "payload.below_residual" in [notice.code for notice in nothing.notices]
    alone = np.zeros(len(robot.parameters))
    alone[robot.layout.links[-1]] = BODY
    more = md.inverse_dynamics(robot.with_parameters(alone), run.q, run.dq, run.ddq)
    held = md.identify_payload(
        estimate, md.Recording(run.t, run.q, run.tau + more, run.dq, run.ddq, run.joint_names)
    )
    assert held.mass - nothing.mass == pytest.approx(2.0, abs=0.06)
    assert "payload.below_residual" not in [notice.code for notice in held.notices]


def test_friction_that_grows_with_the_load_grows_with_this_one() -> None:
    """Without it the load's own share of friction went into Coulomb friction, inertia and the
    load.
    """
    robot = md.load("puma4").with_drives(False, ("viscous", "coulomb", "load"), sign_width=0.02)
    values = {"Fv": 0.5, "Fc": 0.5, "Fl": 0.25}
    robot = robot.with_parameters(
        [values.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)]
    )
    rng, t = np.random.default_rng(0), np.linspace(0, 8, 800)

    def log(true: md.Robot, seed: int) -> md.Recording:
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=1.5)(t)
        tau = md.inverse_dynamics(true, q, dq, ddq)
        return md.Recording(
            t, q, tau + 0.1 * rng.normal(size=tau.shape), dq, ddq, robot.joint_names
        )

    baseline = md.identify(
        robot, log(robot, 1), prior=False, consistent=False, friction="own", rotor_inertia=None
    )
    load = md.Payload(0.0, {"mass": 3.0, "com": [0.03, -0.02, 0.1], "inertia": 0.01 * np.eye(3)})
    found = md.identify_payload(baseline, log(load.on(robot), 2))
    assert {notice.code for notice in found.notices} <= {
        "payload.torque_scale",
        "payload.loose_inertia",
    }
    assert found.std["mass"] < 0.03
    assert found.mass == pytest.approx(3.0, abs=3 * found.std["mass"])
    np.testing.assert_array_less(np.abs(found.com - load.com), 3.5 * found.std["com"])
