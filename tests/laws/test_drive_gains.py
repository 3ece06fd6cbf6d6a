"""Drive gains from currents of two runs, one with a load that was weighed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter
from test_payload import motion, truth

import minidyn as md
from conftest import OWN, count
from minidyn.app.result_folder import gains_data
from minidyn.model.parameters import from_body
from minidyn.recording.read.mapping import COUPLED

LOAD = from_body(5.0, [0.03, -0.02, 0.1], np.diag([0.030, 0.032, 0.016]))


def currents(run: md.Recording, gains: np.ndarray) -> md.Recording:
    return md.Recording(run.t, run.q, run.tau / gains, run.dq, run.ddq, run.joint_names)


@pytest.mark.parametrize("name", ["panda", "ur10e"][: count(1, 2)])
def test_gains_are_found_with_honest_uncertainty(name: str) -> None:
    robot = truth(name)
    loaded = md.Payload(0.0, LOAD).on(robot)
    scores = []
    for seed in range(count(2, 12)):
        gains = np.random.default_rng(seed).uniform(5, 15, robot.n)
        bare, heavy = (
            currents(motion(one, 2 * seed + k), gains) for k, one in enumerate((robot, loaded))
        )
        found = md.identify_drive_gains(robot.with_parameters(None), bare, heavy, 5.0)
        np.testing.assert_allclose(found.gains, gains, rtol=0.04)
        scores.append((found.gains - gains) / found.std)
        np.testing.assert_allclose(found.payload.com, [0.03, -0.02, 0.1], atol=0.005)
        assert found.notices == ()
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.5
    # what follows knows nothing of currents
    estimate = md.identify(
        robot.with_parameters(None), found.apply(bare), prior=False, consistent=False, **OWN
    )
    assert md.validate(estimate, motion(robot, 77)).relative_error < 0.1
    assert found.table().count("\n") == robot.n + 1


@pytest.mark.parametrize(
    ("width", "memory", "noise"), [(0.0, 0.0, 2e-5), (0.05, 0.9, 1e-4)][: count(1, 2)]
)
def test_intervals_of_raw_logs_hold_the_truth(width: float, memory: float, noise: float) -> None:
    """Logs of positions and currents alone.

    Friction with edges that the low-pass rounds, noise that remembers.
    """
    robot = truth("scara").with_drives(sign_width=width)
    both, t = (robot, md.Payload(0.0, LOAD).on(robot)), np.arange(0, 15, 1 / 250)
    gains, scores = np.random.default_rng(1).uniform(5, 15, robot.n), []
    for seed in range(count(16, 60)):
        runs = []
        for k, one in enumerate(both):
            rng = np.random.default_rng(2 * seed + k)
            q, dq, ddq = md.trajectory.fourier(robot, seed=2 * seed + k, speed=2.0)(t)
            white = lfilter(
                [np.sqrt(1 - memory**2)], [1, -memory], rng.normal(size=q.shape), axis=0
            )
            tau = md.inverse_dynamics(one, q, dq, ddq) + np.linspace(0.5, 0.1, robot.n) * white
            runs.append(md.Recording(t, q + noise * rng.normal(size=q.shape), tau / gains))
        found = md.identify_drive_gains(robot.with_parameters(None), *runs, 5.0)
        scores.append((found.gains - gains) / found.std)
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.25
    assert np.mean(np.abs(scores) < 1.96) > 0.88


def test_a_planar_arm_feels_little_of_the_load() -> None:
    """Parameters of the load without any torque do not keep the others from being found."""
    robot = truth("two_link")
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    gains, scores = np.array([2.0, 15.0]), []
    for seed in range(count(4, 16)):
        both = (robot, md.Payload(0.0, LOAD).on(robot))
        bare, heavy = (currents(motion(one, 2 * seed + k), gains) for k, one in enumerate(both))
        found = md.identify_drive_gains(robot.with_parameters(None), bare, heavy, 5.0)
        scores.append((found.gains - gains) / found.std)
    assert 0.5 < np.sqrt(np.mean(np.square(scores))) < 1.7


def test_noise_does_not_shrink_gains_as_plain_least_squares_does() -> None:
    """Noise of a third of the signal.

    Gains by least squares on k i = Y beta are too small, these are not.
    """
    robot = truth("two_link")
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    gains = np.array([8.0, 12.0])
    body = from_body(4.0, [0.1, 0.0, 0.0], 0.02 * np.eye(3))
    ratios, plain = [], []
    for seed in range(count(4, 16)):
        rng = np.random.default_rng(seed)
        runs = []
        for k, one in enumerate((robot, md.Payload(0.0, body).on(robot))):
            run = currents(motion(one, 10 * seed + k, samples=4000), gains)
            noise = 0.33 * run.tau.std(axis=0) * rng.normal(size=run.tau.shape)
            runs.append(
                md.Recording(run.t, run.q, run.tau + noise, run.dq, run.ddq, run.joint_names)
            )
        found = md.identify_drive_gains(
            robot, *runs, 4.0, com=[0.1, 0.0, 0.0], inertia=0.02 * np.eye(3)
        )
        ratios.append(found.gains / gains)
        plain.append(_least_squares(robot, *runs, body) / gains)
    assert np.abs(np.mean(ratios, axis=0) - 1.0).max() < 0.05
    assert np.mean(plain, axis=0).max() < 0.97


def _least_squares(
    robot: md.Robot, bare: md.Recording, heavy: md.Recording, body: np.ndarray
) -> np.ndarray:
    base = md.base_parameters(robot)
    rows, right = [], []
    for run, load in ((bare, np.zeros(10)), (heavy, body)):
        Y = md.base_regressor(robot, run.q, run.dq, run.ddq, base=base)
        ten = [column.name for column in robot.layout.columns[robot.layout.links[-1]]]
        L = md.regressor(robot, run.q, run.dq, run.ddq, columns=ten) @ load
        for joint in range(robot.n):
            own = np.zeros((len(run), robot.n))
            own[:, joint] = run.tau[:, joint]
            rows.append(np.hstack([own, -Y[:, joint]]))
            right.append(L[:, joint])
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0][: robot.n]


def test_a_gain_that_no_motion_shows_is_named() -> None:
    robot = truth("ur10e")
    on_axis = md.Payload(0.0, from_body(5.0, [0.0, 0.0, 0.1], 0.02 * np.eye(3))).on(robot)
    gains = np.full(6, 10.0)
    bare, heavy = (
        currents(motion(one, k, speed=0.2), gains) for k, one in enumerate((robot, on_axis))
    )
    found = md.identify_drive_gains(robot, bare, heavy, 5.0)
    (notice,) = found.notices
    assert notice.code == "gains.open"
    assert "wrist_3_joint" in notice.data["joints"]
    assert "shoulder_lift_joint" not in notice.data["joints"]
    assert found.std[5] > 0.1 * found.gains[5]
    assert found.std[1] < 0.03 * found.gains[1]


def test_gains_that_nothing_fixes_are_refused() -> None:
    """A second run without the load, the same log twice and swapped logs gave gains of 1e8 after
    minutes.
    """
    robot = truth("scara")
    gains = np.full(4, 10.0)
    bare, again, heavy = (
        currents(motion(one, k), gains)
        for k, one in enumerate((robot, robot, md.Payload(0.0, LOAD).on(robot)))
    )
    exact = [
        replace(run, tau=md.inverse_dynamics(robot, run.q, run.dq, run.ddq))
        for run in (bare, again)
    ]
    for first, second, words in (
        (bare, again, "does not show the load"),
        (bare, bare, "does not show the load"),
        (heavy, bare, "swapped"),
        (*exact, "does not show the load"),
    ):
        with pytest.raises(md.MinidynError, match=words):
            md.identify_drive_gains(robot.with_parameters(None), first, second, 5.0)


def test_a_robot_without_friction_gets_the_usual_terms() -> None:
    """With rotor inertias alone gains were off by up to 32 standard deviations."""
    robot = truth("scara")
    gains = np.array([8.0, 12.0, 9.0, 10.0])
    runs = [
        currents(motion(one, k), gains)
        for k, one in enumerate((robot, md.Payload(0.0, LOAD).on(robot)))
    ]
    plain = robot.with_drives(False, ()).with_parameters(None)
    found = md.identify_drive_gains(plain, *runs, 5.0)  # without friction: 4e7 and 2e25
    assert [notice.code for notice in found.notices] == ["gains.drive_terms"]
    assert np.all(np.abs(found.gains - gains) < 4 * found.std)
    own = md.identify_drive_gains(
        plain, *runs, 5.0, friction=("viscous", "coulomb", "offset"), rotor_inertia=True
    )
    np.testing.assert_allclose(own.gains, found.gains, rtol=1e-9)
    rotors = md.identify_drive_gains(plain.with_drives(True, ()), *runs, 5.0)
    np.testing.assert_allclose(rotors.gains, found.gains, rtol=1e-9)
    assert [notice.code for notice in rotors.notices] == ["gains.drive_terms"]
    with pytest.raises(md.MinidynError):  # said aloud: none
        md.identify_drive_gains(plain, *runs, 5.0, friction=())
    with pytest.raises(md.MinidynError, match="auto"):
        md.identify_drive_gains(plain, *runs, 5.0, friction="auto")


def test_torques_that_need_no_gains_are_named() -> None:
    robot = truth("scara")
    runs = [motion(robot, 1), motion(md.Payload(0.0, LOAD).on(robot), 2)]
    found = md.identify_drive_gains(robot.with_parameters(None), *runs, 5.0)
    assert [notice.code for notice in found.notices] == ["gains.are_one"]
    with pytest.raises(md.MinidynError, match="hold torques"):  # gains of what gains have made
        md.identify_drive_gains(robot.with_parameters(None), *map(found.apply, runs), 5.0)


def test_a_file_of_gains_makes_torques_and_carries_their_errors(tmp_path: Path) -> None:
    """Saved gains are a mapping.

    Torques are those of `apply`, and the covariance stays with the recording.
    """
    robot = truth("scara")
    gains = np.array([8.0, 12.0, 9.0, 10.0])
    runs = [
        currents(motion(one, k), gains)
        for k, one in enumerate((robot, md.Payload(0.0, LOAD).on(robot)))
    ]
    found = md.identify_drive_gains(robot.with_parameters(None), *runs, 5.0)
    names = ["t", *(f"q{k}" for k in range(1, 5)), *(f"current_{k}" for k in range(1, 5))]
    table = np.column_stack([runs[0].t, runs[0].q, runs[0].tau])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=",".join(names), comments="")
    (tmp_path / "mine.toml").write_text('tau = "current_*"\n[units]\nq = "rad"\n')
    for given in (None, tmp_path / "mine.toml"):
        found.save(tmp_path / "gains.toml", given)
        log = md.read_recording(tmp_path / "log.csv", robot, mapping=tmp_path / "gains.toml")
        np.testing.assert_allclose(log.tau, found.apply(runs[0]).tau, rtol=1e-9)
        (said,) = (notice for notice in log.notices if notice.code == "gains.applied")
        (applied,) = (
            notice for notice in found.apply(runs[0]).notices if notice.code == "gains.applied"
        )
        assert said.data["joints"] == applied.data["joints"] == list(robot.joint_names)
        np.testing.assert_allclose(said.data["covariance"], applied.data["covariance"], rtol=1e-9)
    assert "gains.applied" in [
        one.code for one in md.identify(robot, log, consistent=False, **OWN).notices
    ]
    with pytest.raises(md.MinidynError, match="toml"):
        found.save(tmp_path / "gains.json")
    for covariance in (np.eye(3), np.diag([1.0, 1.0, 1.0, -1.0])):
        with pytest.raises(md.MinidynError, match="drive_gain_covariance"):
            md.read_recording(
                tmp_path / "log.csv", robot, drive_gain=gains, drive_gain_covariance=covariance
            )
    assert set(gains_data(found)["gains"]) == set(robot.joint_names)


def test_refusals() -> None:
    robot = truth("ur10e")
    run = motion(robot, 0, samples=300)
    cases = [
        (lambda: md.identify_drive_gains(robot, run, run, 0.0), "positive number of kilograms"),
        (lambda: md.identify_drive_gains(robot, run, run, 1.0, inertia=np.eye(3)), "give com"),
        (lambda: md.identify_drive_gains(robot, run, run, 1.0, com=[0, 0]), "com: expected"),
        (
            lambda: md.identify_drive_gains(robot, md.Recording(run.t, run.q, None), run, 1.0),
            "torques",
        ),
        (lambda: md.identify_drive_gains(robot, run, run, 1.0, link=robot.base_name), "base"),
    ]
    for request, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            request()


def test_doors_take_paths(tmp_path: Path) -> None:
    """Estimates, robots and logs by value or by path give the same numbers.

    Anything else is named.
    """
    robot = truth("scara")
    runs = [motion(robot, 1), motion(md.Payload(0.0, LOAD).on(robot), 2)]
    runs = [replace(run, dq=None, ddq=None) for run in runs]  # as logs are
    logs = [tmp_path / name for name in ("bare.npz", "loaded.npz")]
    for run, path in zip(runs, logs):
        run.save(path)
    md.save(robot, tmp_path / "arm.toml")
    by_value = md.identify_drive_gains(robot, *runs, 5.0)
    assert np.array_equal(
        by_value.gains, md.identify_drive_gains(tmp_path / "arm.toml", *logs, 5.0).gains
    )
    estimate = md.identify(robot, runs[0], consistent=False, prior=False, **OWN)
    estimate.save(tmp_path / "estimate.json")
    doors = (
        lambda *given: md.identify_payload(*given).parameters,
        lambda *given: md.essential(*given).estimate.beta,
        lambda *given: md.validate(*given).relative_error,
    )
    for door in doors:
        assert np.array_equal(
            door(estimate, runs[1]), door(tmp_path / "estimate.json", str(logs[1]))
        )
        with pytest.raises(
            md.MinidynError, match="expected an estimate or its path first, got Recording"
        ):
            door(runs[1], estimate)


def test_a_mapping_that_couples_drives_counts_for_gains(tmp_path: Path) -> None:
    """Where the log says that joint 1 turns motor 2, its rotor and friction do so too."""
    plain = truth("scara")
    robot = plain.with_drives(coupling={"joint2": {"joint1": -0.5}})
    runs = [motion(robot, 1), motion(md.Payload(0.0, LOAD).on(robot), 2)]
    said = COUPLED("joint1 turns motor 2", joint="joint2", coupling={"joint1": -0.5})
    blank = plain.with_parameters(None)
    assert not any(joint.drive.coupling for joint in blank.joints)
    found = md.identify_drive_gains(blank, *(replace(run, notices=(said,)) for run in runs), 5.0)
    assert found.robot.joints[1].drive.coupling
    assert np.array_equal(
        found.gains, md.identify_drive_gains(robot.with_parameters(None), *runs, 5.0).gains
    )
