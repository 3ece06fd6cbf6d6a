"""Validation says what it measured.

Raw torque, honest denominators, noise told from what is not modelled.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

import minidyn as md
from conftest import OWN, count
from minidyn.app.result_folder import write_result
from minidyn.errors import MinidynError, ShapeError, UnknownName, UnknownParameters
from minidyn.identification.cross_validate import cross_validate
from minidyn.identification.diagnose.residuals import LAGS, Residuals
from minidyn.identification.estimate import Estimate
from minidyn.identification.validate import validate
from minidyn.recording.lazy import LazyRecording


def robot_and_truth() -> tuple[md.Robot, Estimate]:
    """Return an arm and an estimate that is the truth; what the description says is 20 % off."""
    robot = md.load("puma4").with_drives(friction=("viscous", "coulomb", "offset"))
    rng = np.random.default_rng(0)
    robot = robot.with_parameters(
        np.where(
            np.isnan(robot.parameters),
            rng.uniform(0.2, 0.8, len(robot.parameters)),
            robot.parameters,
        )
    )
    described = robot.with_parameters(1.2 * robot.parameters)
    base = md.base_parameters(described)
    beta = base.values(robot.parameters)
    size = len(beta)
    return robot, Estimate(robot, base, beta, np.eye(size), np.ones(robot.n), "wls", True, 1.0, 1)


def motion(
    robot: md.Robot, noise: np.ndarray | float = 0.0, samples: int = 4000, seed: int = 0
) -> md.Recording:
    t = np.arange(samples) * 0.005
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=3.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + noise
    return md.Recording(t, q, tau, dq, ddq, robot.joint_names)


def test_figures_are_those_of_their_definitions() -> None:
    robot, estimate = robot_and_truth()
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(4000, 4)) * [0.1, 0.2, 0.3, 0.4] + [0.0, 0.5, 0.0, -0.5]
    recording = motion(robot, noise)
    found = validate(estimate, recording)
    assert found.relative_error == pytest.approx(
        np.linalg.norm(noise) / np.linalg.norm(recording.tau)
    )
    assert found.rmse == pytest.approx(np.sqrt(np.mean(noise**2)))
    assert found.samples == 4000
    off = md.inverse_dynamics(
        robot.with_parameters(1.2 * robot.parameters), recording.q, recording.dq, recording.ddq
    )
    assert found.prior_relative_error == pytest.approx(
        np.linalg.norm(recording.tau - off) / np.linalg.norm(recording.tau)
    )
    for k, entry in enumerate(found.per_joint.values()):
        assert entry["rmse"] == pytest.approx(np.sqrt(np.mean(noise[:, k] ** 2)))
        assert entry["relative_error"] == pytest.approx(
            np.linalg.norm(noise[:, k]) / np.linalg.norm(recording.tau[:, k])
        )
        assert entry["bias"] == pytest.approx(noise[:, k].mean())
        assert entry["ljung_box"] > 0.001
        assert (
            "filtered_relative_error" not in entry
        )  # the recording came with its speeds: nothing was filtered
    assert all(words.startswith("white") for words in found.whiteness.values())
    assert next(iter(found.per_joint)) in found.table()
    assert found.to_json()["filtered_relative_error"] is None
    json.dumps(found.to_json(), allow_nan=False)


def test_autocorrelations_are_those_of_numpy() -> None:
    """In one piece, in many, and about the mean.

    Pieces of one run follow each other, runs do not.
    """
    rng = np.random.default_rng(0)
    x = np.array([0.0, 3.0]) + lfilter([1], [1, -0.7], rng.normal(size=(3000, 2)), axis=0)
    whole, parts = Residuals(2), Residuals(2)
    whole.add(x, x)
    for piece in np.split(x, [1, 3, 10, 500, 501, 2900]):
        parts.add(piece, piece)
    np.testing.assert_allclose(parts.autocorrelation, whole.autocorrelation, atol=1e-12)
    centred = x - x.mean(axis=0)
    for lag in (1, 5, LAGS):
        expected = np.mean(centred[:-lag] * centred[lag:], axis=0) / np.mean(centred**2, axis=0)
        np.testing.assert_allclose(whole.autocorrelation[lag - 1], expected, atol=1e-10)
    broken = Residuals(1)
    for value in (1.0, -1.0, 1.0, -1.0):
        broken.new_run()
        broken.add(np.array([[value]]), np.array([[value]]))
    assert not broken.autocorrelation.any()
    assert broken.ljung_box[0] == 1.0


def test_white_noise_is_called_white_at_the_stated_rate() -> None:
    """p-values of white noise are uniform; those of coloured noise vanish."""
    rng = np.random.default_rng(2)
    cases = count(400, 4000)
    noise = Residuals(cases)
    x = rng.normal(size=(1500, cases))
    noise.add(x, x)
    for level in (0.01, 0.1, 0.5):
        share = float(np.mean(noise.ljung_box < level))
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / cases) + 0.005
    assert np.mean(noise.outside) == pytest.approx(0.05, abs=0.005)
    coloured = Residuals(cases)
    x = lfilter([1], [1, -0.3], x, axis=0)
    coloured.add(x, x)
    assert coloured.ljung_box.max() < 0.01


def test_what_is_not_modelled_shows() -> None:
    robot, estimate = robot_and_truth()
    recording = motion(robot)
    slow = 0.3 * np.sin(3 * recording.t)[:, None] * [1, 0, 0, 0] + 0.05 * np.random.default_rng(
        0
    ).normal(size=(4000, 4))
    words = list(validate(estimate, motion(robot, slow)).whiteness.values())
    assert "not modelled" in words[0]
    assert all(word.startswith("white") for word in words[1:])


def test_raw_prepared_reordered_and_lazy_recordings_agree(tmp_path) -> None:
    robot, estimate = robot_and_truth()
    rng = np.random.default_rng(3)
    full = motion(robot, 0.3 * rng.normal(size=(4000, 4)))
    raw = md.Recording(full.t, full.q, full.tau, joint_names=robot.joint_names)
    found = validate(estimate, raw)
    ready = md.prepare(robot, raw)
    assert validate(estimate, ready).relative_error == found.relative_error
    assert (
        found.filtered_relative_error < 0.7 * found.relative_error
    )  # white noise does not pass the filter
    lost = np.linalg.norm(ready.telemetry["tau_raw"] - ready.tau) / np.linalg.norm(
        ready.telemetry["tau_raw"]
    )
    assert found.above_cutoff == pytest.approx(lost)
    turned = [2, 0, 3, 1]
    names = [robot.joint_names[k] for k in turned]
    shuffled = md.Recording(raw.t, raw.q[:, turned], raw.tau[:, turned], joint_names=names)
    assert validate(estimate, shuffled).relative_error == pytest.approx(found.relative_error)
    with pytest.raises(UnknownName, match="elbow"):
        validate(
            estimate,
            md.Recording(raw.t, raw.q, raw.tau, joint_names=["elbow", *robot.joint_names[1:]]),
        )
    full.save(tmp_path / "run.parquet")
    lazy = md.read_recording(tmp_path / "run.parquet", robot=robot, lazy=True, use_ddq=True)
    assert isinstance(lazy, LazyRecording)
    on_disk, in_memory = validate(estimate, lazy), validate(estimate, full)
    assert on_disk.relative_error == pytest.approx(in_memory.relative_error, rel=1e-12)
    for name, entry in on_disk.per_joint.items():
        for key, value in entry.items():
            np.testing.assert_allclose(
                value, in_memory.per_joint[name][key], rtol=1e-6, atol=1e-9, equal_nan=True
            )


def cutoff(validation) -> float:
    (found,) = (
        notice.data["cutoff"] for notice in validation.notices if notice.code == "prepare.cutoff"
    )
    return found


def test_raw_recordings_are_prepared_as_for_the_fit(tmp_path) -> None:
    robot, _ = robot_and_truth()
    raw = []
    for seed in (0, 1):
        full = motion(robot, 0.1 * np.random.default_rng(seed).normal(size=(4000, 4)), seed=seed)
        raw.append(md.Recording(full.t, full.q, full.tau, joint_names=robot.joint_names))
    estimate = md.identify(
        robot, md.prepare(robot, raw[0], cutoff=7.25), consistent=False, sign_width=0.0, **OWN
    )
    assert cutoff(validate(estimate, raw[1])) == 7.25
    slower = md.Recording(2 * raw[1].t, raw[1].q, raw[1].tau, joint_names=robot.joint_names)
    assert cutoff(validate(estimate, slower)) != 7.25
    raw[1].save(tmp_path / "run.parquet")
    lazy = md.read_recording(tmp_path / "run.parquet", robot=robot, lazy=True)
    assert cutoff(validate(estimate, lazy)) == 7.25
    late = md.identify(
        robot,
        md.prepare(robot, raw[0], cutoff=7.25, delay=0.02),
        consistent=False,
        sign_width=0.0,
        **OWN,
    )
    errors = [validate(late, log).relative_error for log in (raw[1], lazy)]
    assert errors[1] == pytest.approx(errors[0], rel=1e-12)


def test_long_recordings_on_disk_keep_some_samples(tmp_path, monkeypatch) -> None:
    from minidyn.identification import validate as module

    monkeypatch.setattr(module, "SHOWN", 500)
    robot, estimate = robot_and_truth()
    full = motion(robot, 0.1)
    full.save(tmp_path / "run.parquet")
    found = module.validate(
        estimate, md.read_recording(tmp_path / "run.parquet", robot=robot, lazy=True, use_ddq=True)
    )
    assert len(found.t) == 500
    assert found.measured.shape == found.predicted.shape == (500, 4)
    assert found.samples == 4000
    assert ("validate.thinned_pictures", 8) in {
        (one.code, one.data.get("every")) for one in found.notices
    }


def test_what_cannot_be_validated_is_told() -> None:
    robot, estimate = robot_and_truth()
    full = motion(robot)
    with pytest.raises(MinidynError, match="needs measured torques"):
        validate(estimate, md.Recording(full.t, full.q, None, full.dq, full.ddq, robot.joint_names))
    tau = full.tau.copy()
    tau[10, 2] = np.nan
    with pytest.raises(
        UnknownParameters,
        match=f"tau of joint '{robot.joint_names[2]}' is not a number at t = 0.05",
    ):
        validate(estimate, md.Recording(full.t, full.q, tau, full.dq, full.ddq, robot.joint_names))
    unknown = estimate.base.robot.with_parameters(None)
    blank = Estimate(robot, md.base_parameters(unknown), *vars_of(estimate))
    assert np.isnan(validate(blank, full).prior_relative_error)


def vars_of(estimate: Estimate) -> tuple:
    return (estimate.beta, estimate.covariance, estimate.sigma, "wls", True, 1.0, 1)


# -------------------------------------------------------------------- cross-validation


def test_cross_validation_leaves_out_what_it_tests() -> None:
    """A stretch with a torque of its own is predicted badly.

    The others are not, and no fit of it sees the stretch.
    """
    robot, _ = robot_and_truth()
    noise = 0.05 * np.random.default_rng(0).normal(size=(4000, 4))
    clean = cross_validate(robot, motion(robot, noise), consistent=False, sign_width=0.0, **OWN)
    noise[800:1600] += 3.0
    found = cross_validate(
        robot, motion(robot, noise), folds=5, consistent=False, sign_width=0.0, **OWN
    )
    assert len(found.folds) == len(found.errors) == 5
    assert found.errors.argmax() == 1
    assert found.spans[1] == pytest.approx((4.0, 7.995))
    clean = cross_validate(
        robot,
        motion(robot, 0.05 * np.random.default_rng(0).normal(size=(4000, 4))),
        consistent=False,
        **OWN,
    )
    assert clean.relative_error == pytest.approx(float(np.mean(clean.errors)))
    assert clean.errors.max() < 0.2 * found.errors.max()
    assert clean.rmse == pytest.approx(0.05, rel=0.05)
    assert "mean" in clean.table()
    assert set(clean.per_joint) == set(robot.joint_names)
    biased = [found.per_joint[name]["bias"] for name in robot.joint_names]
    assert all(np.isfinite(biased))


def test_cross_validation_of_raw_and_lazy_recordings(tmp_path) -> None:
    robot, _ = robot_and_truth()
    full = motion(robot, 0.1 * np.random.default_rng(1).normal(size=(4000, 4)))
    raw = md.Recording(full.t, full.q, full.tau, joint_names=robot.joint_names)
    options = {
        "folds": 3,
        "consistent": False,
        "friction": ("viscous", "coulomb", "offset"),
        "sign_width": 0.0,
    }
    options["rotor_inertia"] = None
    assert cross_validate(robot, raw, **options).relative_error < 0.1
    full.save(tmp_path / "run.parquet")
    lazy = md.read_recording(tmp_path / "run.parquet", robot=robot, lazy=True, use_ddq=True)
    on_disk, in_memory = (cross_validate(robot, recording, **options) for recording in (lazy, full))
    np.testing.assert_allclose(on_disk.errors, in_memory.errors, rtol=1e-9)
    assert on_disk.spans[0] == in_memory.spans[0]


def test_cross_validation_names_the_stretch_it_cannot_do_without() -> None:
    robot, _ = robot_and_truth()
    still = motion(robot)
    q, dq, ddq = (
        np.where(np.arange(4000)[:, None] < 800, part, 0) for part in (still.q, still.dq, still.ddq)
    )
    recording = md.Recording(still.t, q, still.tau, dq, ddq, robot.joint_names)
    with pytest.raises(MinidynError, match=r"without stretch 1 of 5 \(t = 0 to 3.995 s\)"):
        cross_validate(robot, recording, consistent=False, sign_width=0.0, **OWN)
    with pytest.raises(ShapeError, match="folds"):
        cross_validate(robot, still, folds=1, **OWN)


def test_foreign_names_are_no_markup_in_tables(tmp_path) -> None:
    robot, _ = robot_and_truth()
    names = ["<script>alert(1)</script>", "a | b", "[x](javascript:y)", "shoulder_pan\nlift"]
    robot = replace(
        robot, joints=tuple(replace(joint, name=name) for joint, name in zip(robot.joints, names))
    )
    estimate = md.identify(robot, motion(robot, 0.1), consistent=False, sign_width=0.0, **OWN)
    write_result(
        estimate, {"<b>log</b>": validate(estimate, motion(robot, 0.1, seed=1))}, tmp_path / "out"
    )
    text = (tmp_path / "out" / "parameters.md").read_text()
    for markup in ("<script", "<b>", "| a | b |", "[x](", "pan\nlift"):
        assert markup not in text
    for shown in ("&lt;script&gt;", "a \\| b", "shoulder_pan\\\\nlift"):
        assert shown in text
