"""Preparation: derivatives are right where the truth is known, whatever the rate.

What was done is stated.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn import control
from minidyn.errors import DescriptionError, ShapeError, Unsupported
from minidyn.notices import Notice
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.prepare.signals import derivatives, moving_part, noise_gain, spikes
from minidyn.recording.prepare.spectra import acceleration_noise, position_bands
from minidyn.recording.ready import ready

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROBOT = md.load("ur10e")
TRUE = md.trajectory.fourier(ROBOT, seed=1, period=10.0, harmonics=5, speed=1.5)


def log(
    rate: float,
    duration: float = 20.0,
    noise: float = 0.0,
    resolution: float = 0.0,
    still: float = 0.0,
    seed=0,
):
    """Return a recording of the trajectory, standstill before and after, and its torques without
    friction.
    """
    t = np.arange(round((duration + 2 * still) * rate)) / rate
    s = np.clip((t - still) / duration, 0, 1)
    bend = s**3 * (10 - 15 * s + 6 * s**2) * duration  # starts and stops smoothly
    speed = 30 * s**2 * (1 - s) ** 2
    change = 60 * s * (1 - s) * (1 - 2 * s) / duration
    q, dq, ddq = TRUE(bend)
    ddq = ddq * speed[:, None] ** 2 + dq * change[:, None]
    dq = dq * speed[:, None]
    tau = md.inverse_dynamics(ROBOT, q, dq, ddq)
    measured = q + noise * np.random.default_rng(seed).normal(size=q.shape)
    if resolution:
        measured = np.round(measured / resolution) * resolution
    extra = {"dq_true": dq, "ddq_true": ddq}
    return md.Recording(t, measured, tau, joint_names=ROBOT.joint_names, telemetry=extra)


def by_code(recording: md.Recording) -> dict[str, Notice]:
    return {notice.code: notice for notice in recording.notices}


def errors(ready: md.Recording) -> tuple[float, float]:
    """Return the relative errors of dq and ddq."""
    made = []
    for name in ("dq", "ddq"):
        true = ready.telemetry[f"{name}_true"]
        made.append(float(np.linalg.norm(getattr(ready, name) - true) / np.linalg.norm(true)))
    return made[0], made[1]


@pytest.mark.parametrize("rate", [50, 125, 1000, 5000])
@pytest.mark.parametrize(("noise", "resolution"), [(0, 0), (1e-4, 0), (1e-3, 0), (0, 1e-4)])
def test_derivatives_meet_the_truth_at_every_rate(
    rate: float, noise: float, resolution: float
) -> None:
    """The error is that of white noise which passes the filter; encoder steps are such noise."""
    ready = md.prepare(ROBOT, log(rate, noise=noise, resolution=resolution))
    variance = noise**2 + resolution**2 / 12
    gain = noise_gain(ready.info["rate"], ready.info["cutoff"], ready.info["order"])
    for place, name in ((1, "dq"), (2, "ddq")):
        true = ready.telemetry[f"{name}_true"]
        error = np.sqrt(np.mean((getattr(ready, name) - true) ** 2))
        bend = 1e-6 * np.sqrt(np.mean(true**2))  # of the motion, by the filter
        assert error < 1.2 * np.sqrt(variance * gain[place, place]) + bend
    assert len(ready) > 15 * ready.info["cutoff"]  # enough samples remain


def test_simulated_encoder_under_control() -> None:
    law = control.computed_torque(ROBOT, bandwidth=10)
    run = md.simulate(ROBOT, law, TRUE, 6.0, dt=1e-3, resolution=2e-5, torque_noise=0.5, seed=2)
    raw = md.Recording(run.t, run.q, run.tau, joint_names=run.joint_names, telemetry=run.telemetry)
    ready = md.prepare(ROBOT, raw)
    error = ready.dq - ready.telemetry["dq_true"]
    assert np.linalg.norm(error) / np.linalg.norm(ready.dq) < 2e-3
    model = md.inverse_dynamics(ROBOT, ready.q, ready.dq, ready.ddq)
    noisy = np.linalg.norm(ready.telemetry["tau_raw"] - model)
    assert np.linalg.norm(ready.tau - model) < 0.5 * noisy  # the same filter on both sides
    assert noisy / np.sqrt(ready.q.size) == pytest.approx(
        0.5, rel=0.1
    )  # raw torques are as measured


def test_the_same_filter_on_torque_and_motion() -> None:
    raw = log(500)
    ready = md.prepare(ROBOT, raw, cutoff=20, decimate=1)
    model = md.inverse_dynamics(ROBOT, ready.q, ready.dq, ready.ddq)
    assert np.linalg.norm(ready.tau - model) / np.linalg.norm(model) < 1e-4
    rows = np.searchsorted(raw.t, ready.t)
    np.testing.assert_array_equal(ready.telemetry["tau_raw"], raw.tau[rows])
    np.testing.assert_array_equal(ready.telemetry["dq_true"], raw.telemetry["dq_true"][rows])


def test_bands_of_motion_and_noise() -> None:
    t = np.arange(10000) / 1000
    rng = np.random.default_rng(0)

    def band(frequency, noise=1e-7):
        q = np.sin(2 * np.pi * frequency * t)[:, None] + noise * rng.normal(size=(10000, 1))
        return position_bands([q], [1000.0])

    assert 4.9 < band(5.0).motion < 5.6
    assert 0.8e-2 < band(5.0, noise=1e-2).floor[0] < 1.2e-2


@pytest.mark.parametrize(
    ("rate", "noise", "cutoff"),
    [
        (1000, 1e-5, 10.0),
        (100, 1e-5, 10.0),
        (50, 0.0, 10.0),
        (20, 0.0, 7.0),  # 0.35 of the sample rate
        (50, 5e-4, 5.0),
        (50, 3e-2, 2.5),
    ],
)
def test_the_default_cutoff(rate: int, noise: float, cutoff: float) -> None:
    """10 Hz, lower where positions are noisy or samples few."""
    ready = md.prepare(ROBOT, log(rate, noise=noise))
    assert ready.info["cutoff"] == pytest.approx(cutoff, rel=1e-6)
    stated = by_code(ready)["prepare.cutoff"].data
    assert (stated["cutoff"], stated["given"]) == (ready.info["cutoff"], False)


@pytest.mark.parametrize("cutoff", [10.0, 5.0])
def test_noise_of_accelerations_is_found(cutoff: float) -> None:
    """Against the noise that is known, filtered alike."""
    noise = 5e-4 * np.random.default_rng(0).normal(size=log(100).q.shape)
    made = md.prepare(ROBOT, log(100), cutoff=cutoff, trim=False, decimate=1)
    silent = acceleration_noise(log(100).q, 100.0, cutoff, 2)
    found = acceleration_noise(log(100).q + noise, 100.0, cutoff, 2)
    low = lowpass(noise, 100.0, cutoff)[100:-100]
    true = derivatives(low, 0.01)[1][8:-8].std(axis=0) / made.ddq[100:-100].std(axis=0)
    np.testing.assert_allclose(found, true, rtol=0.35)
    assert np.all(silent < 0.01)


def test_a_cutoff_that_is_given() -> None:
    given = md.prepare(ROBOT, log(50), cutoff=7.0)
    assert given.info["cutoff"] == 7.0
    stated = by_code(given)["prepare.cutoff"].data
    assert (stated["cutoff"], stated["given"]) == (7.0, True)
    with pytest.raises(ShapeError, match="not below half the sample rate"):
        md.prepare(ROBOT, log(50), cutoff=25.0)


def test_a_cutoff_that_nobody_gave_is_not_called_given() -> None:
    """Another log has that of the fit."""
    first = md.prepare(ROBOT, log(50))
    other = ready(ROBOT, log(50), purpose="validation", preparation=first.info)
    notice = by_code(other)["prepare.cutoff"]
    assert notice.text.startswith(f"low-pass at {first.info['cutoff']:.4g} Hz, as for the fit (")
    assert notice.data["given"] is False


@pytest.mark.parametrize(
    ("rate", "cutoff", "order"), [(50.0, 5.0, 4), (50.0, 17.0, 4), (200.0, 20.0, 2)]
)
def test_what_noise_of_positions_becomes(rate: float, cutoff: float, order: int) -> None:
    """Covariance of the errors of q, dq and ddq, against noise that passes the filter and the
    differences.
    """
    noise = np.random.default_rng(3).normal(size=(40_000, 8))
    low = lowpass(noise, rate, cutoff, order)
    parts = [part[1000:-1000].ravel() for part in (low, *derivatives(low, 1 / rate))]
    gain = noise_gain(rate, cutoff, order)
    unit = np.sqrt(np.diag(gain))
    np.testing.assert_allclose(
        np.cov(parts) / np.outer(unit, unit), gain / np.outer(unit, unit), atol=0.02
    )


@pytest.mark.parametrize("samples", [300, 900, 4000])
def test_noise_of_positions_is_not_understated(samples: int) -> None:
    """White noise on a slow motion, short logs and long.

    Its variance is found to 5 % on average.
    """
    rng = np.random.default_rng(samples)
    slow = np.sin(2 * np.pi * 0.4 * np.arange(samples) / 50.0)[:, None]
    found = [
        position_bands([slow + 1e-3 * rng.normal(size=(samples, 4))], [50.0]).floor
        for _ in range(25)
    ]
    assert np.mean(np.square(found)) == pytest.approx(1e-6, rel=0.05)


def test_stencils_and_filter() -> None:
    t = np.arange(400) / 100
    for frequency, worst in ((2.0, 1e-7), (10.0, 1e-4), (25.0, 0.04)):
        w = 2 * np.pi * frequency
        first, second = derivatives(np.sin(w * t + 0.3)[:, None], 0.01)
        assert np.abs(first[8:-8, 0] / w - np.cos(w * t + 0.3)[8:-8]).max() < worst
        assert np.abs(second[8:-8, 0] / w**2 + np.sin(w * t + 0.3)[8:-8]).max() < worst
    t = np.arange(4000) / 100
    half = lowpass(np.sin(2 * np.pi * 5 * t)[:, None], 100.0, 5.0)
    np.testing.assert_allclose(
        half[500:-500, 0], 0.5 * np.sin(2 * np.pi * 5 * t)[500:-500], atol=1e-6
    )  # no delay


def test_decimation_and_trimming() -> None:
    raw = log(1000, duration=10, still=2.0)
    ready = md.prepare(ROBOT, raw)
    every = ready.info["decimate"]
    assert every == int(1000 / (10 * ready.info["cutoff"]))
    assert every > 1
    np.testing.assert_allclose(np.diff(ready.t), every / 1000)
    assert 1.9 < ready.t[0] < 2.8  # standstill is gone
    assert 11.2 < ready.t[-1] < 12.1
    whole = md.prepare(ROBOT, raw, trim=False, decimate=1)
    assert len(whole) == len(raw)
    assert moving_part(np.zeros((100, 2)), 10.0) == (0, 100)
    assert len(md.prepare(ROBOT, raw, decimate=5, trim=False)) == len(raw) // 5


def test_runs_stay_separate_and_gaps_cut() -> None:
    one = log(200, duration=10)
    ready = md.prepare(ROBOT, md.concatenate([one, one]))
    alone = md.prepare(ROBOT, one)
    assert len(ready.starts) == 2
    np.testing.assert_array_equal(ready.runs[1].ddq, alone.ddq)
    gap = md.Recording(
        one.t + 3.0 * (one.t > 5),
        one.q,
        one.tau,
        joint_names=one.joint_names,
        telemetry=one.telemetry,
    )
    cut = md.prepare(ROBOT, gap)
    assert len(cut.starts) == 2
    assert by_code(cut)["prepare.gaps"].data["count"] == 1
    assert errors(cut)[1] < 0.01


def test_spikes_and_holes_are_bridged_and_marked() -> None:
    raw = log(250, duration=10, noise=1e-5)
    rng = np.random.default_rng(3)
    rows = np.sort(rng.choice(np.arange(300, 2200, 12), 12, replace=False))
    q, tau = raw.q.copy(), raw.tau.copy()
    q[rows[:4], 1] += 0.05
    tau[rows[4:8], 2] -= 300.0
    tau[rows[8:], 3] = np.nan
    bad = md.Recording(raw.t, q, tau, joint_names=raw.joint_names, telemetry=raw.telemetry)
    clean, ready = md.prepare(ROBOT, raw, decimate=1), md.prepare(ROBOT, bad, decimate=1)
    marked = np.searchsorted(raw.t, ready.t[ready.telemetry["outlier"] > 0])
    np.testing.assert_array_equal(marked, rows)
    assert clean.telemetry["outlier"].sum() == 0
    assert np.abs(ready.ddq - clean.ddq).max() < 0.05 * np.abs(clean.ddq).max()
    assert np.abs(ready.tau - clean.tau).max() < 0.05 * np.abs(clean.tau).max()
    assert (
        ready.telemetry["tau_raw"][np.searchsorted(ready.t, raw.t[rows[4]]), 2] == tau[rows[4], 2]
    )
    kept = md.prepare(ROBOT, bad, decimate=1, outliers=False, cutoff=clean.info["cutoff"])
    assert np.abs(kept.ddq - clean.ddq).max() > 20 * np.abs(ready.ddq - clean.ddq).max()
    q[1000:1100] = np.nan
    split = md.prepare(ROBOT, md.Recording(raw.t, q, raw.tau, joint_names=raw.joint_names))
    assert len(split.starts) == 2
    assert np.all(np.isfinite(split.ddq))


def test_steps_and_sharp_turns_are_no_spikes() -> None:
    t = np.arange(500) / 50
    step = np.where(t > 5, 1.0, 0.0)
    friction = np.sign(np.sin(2 * np.pi * 2 * t)) + 0.01 * np.random.default_rng(0).normal(size=500)
    assert not spikes(np.stack([step, np.sin(2 * np.pi * 3 * t), friction], axis=1), 12.0).any()
    noise = 0.01 * np.random.default_rng(1).normal(size=500)
    for row in (
        *range(1, 8),
        *range(492, 500),
    ):  # a joint that reverses just before the log ends, or after it begins
        assert not spikes(
            (np.where(np.arange(500) < row, 2.0, -3.0) + noise)[:, None], 12.0
        ).any(), row
    for row in (2, 3, 250, 496, 497):
        (found,) = np.flatnonzero(spikes((noise + 5.0 * (np.arange(500) == row))[:, None], 12.0))
        assert found == row


def test_period_average() -> None:
    rate, period = 200, 10.0
    t = np.arange(round(4.5 * period * rate)) / rate
    q, dq, ddq = TRUE(t)
    rng = np.random.default_rng(1)
    tau = md.inverse_dynamics(ROBOT, q, dq, ddq)
    raw = md.Recording(t, q + 1e-4 * rng.normal(size=q.shape), tau + rng.normal(size=q.shape))
    raw = md.Recording(raw.t, raw.q, raw.tau, joint_names=ROBOT.joint_names)
    ready = md.prepare(ROBOT, raw, period=period, decimate=1, cutoff=15.0)
    assert len(ready) == period * rate
    _, _, truth = TRUE(ready.t)
    plain = md.prepare(ROBOT, raw, decimate=1, cutoff=15.0)
    error = np.linalg.norm(ready.ddq - truth) / np.sqrt(len(ready))
    rough = np.linalg.norm(plain.ddq - TRUE(plain.t)[2]) / np.sqrt(len(plain))
    assert error < 0.75 * rough  # three periods: 1/√3
    assert np.mean(ready.telemetry["tau_std"]) == pytest.approx(
        0.886, rel=0.05
    )  # of three normal numbers
    with pytest.raises(ShapeError, match="does not repeat"):
        md.prepare(ROBOT, raw, period=7.0)
    with pytest.raises(ShapeError, match=r"samples; a whole number"):
        md.prepare(ROBOT, raw, period=10.0012)
    with pytest.raises(ShapeError, match="periods, 2 are needed"):
        md.prepare(ROBOT, raw, period=30.0)


def test_uneven_times() -> None:
    raw = log(100, duration=10)
    rng = np.random.default_rng(2)

    def at(shift, like=raw):
        return md.Recording(
            like.t + shift, like.q, like.tau, joint_names=like.joint_names, telemetry=like.telemetry
        )

    slight = md.prepare(ROBOT, at(rng.uniform(0, 2e-4, len(raw))))
    assert by_code(slight)["prepare.taken_as_even"].data["rate"] == pytest.approx(100, rel=1e-3)
    assert errors(slight)[1] < 1e-3
    stamps = at(rng.uniform(0, 8e-3, len(raw)))
    assert by_code(md.prepare(ROBOT, stamps))["prepare.taken_as_even"].data["believed"] < 0.05
    assert errors(md.prepare(ROBOT, stamps))[1] < 1e-3
    assert errors(md.prepare(ROBOT, stamps, rate=100))[1] < 1e-3
    t = np.sort(raw.t + rng.uniform(0, 8e-3, len(raw)))
    s = np.clip(t / 10, 0, 1)
    q = TRUE(s**3 * (10 - 15 * s + 6 * s**2) * 10)[0]  # truly sampled then
    uneven = md.Recording(t, q, raw.tau, joint_names=raw.joint_names)
    ready = md.prepare(ROBOT, uneven, resample=100, decimate=1)
    s = ready.t / 10
    speed = 30 * s**2 * (1 - s) ** 2
    truth = TRUE(s**3 * (10 - 15 * s + 6 * s**2) * 10)[1] * speed[:, None]
    assert np.linalg.norm(ready.dq - truth) / np.linalg.norm(truth) < 1e-3
    assert by_code(ready)["prepare.resampled"].data["rate"] == 100


def with_speeds(raw: md.Recording, speeds: np.ndarray, noise: float = 0.0) -> md.Recording:
    noisy = speeds + noise * np.random.default_rng(5).normal(size=raw.q.shape)
    return replace(raw, dq=noisy)


def test_measured_speeds() -> None:
    raw = log(200, noise=1e-3)
    logged = with_speeds(raw, raw.telemetry["dq_true"], 1e-4)
    differenced = errors(md.prepare(ROBOT, logged, differentiate=True))
    measured = errors(md.prepare(ROBOT, logged, differentiate=False))
    assert measured[0] < 0.5 * differenced[0]
    assert measured[1] < 0.5 * differenced[1]
    assert errors(md.prepare(ROBOT, logged)) == measured
    with pytest.raises(md.MinidynError, match="uses measured speeds"):
        md.prepare(ROBOT, raw, differentiate=False)


@pytest.mark.parametrize("rate", [50, 125, 500])
@pytest.mark.parametrize(
    ("noise", "resolution", "speed_noise", "scale", "samples_late", "is_used"),
    [
        (0.0, 0.0, 0.0, 1.0, 0, False),  # positions are as good
        (2e-3, 0.0, 1e-3, 1.0, 0, True),
        (0.0, 1e-2, 0.0, 1.0, 0, True),  # a coarse encoder
        (2e-3, 0.0, 0.5, 1.0, 0, False),  # speeds are noisier
        (2e-3, 0.0, 1e-3, 1.05, 0, False),  # of another scale
        (2e-3, 0.0, 1e-3, -1.0, 0, False),  # of another sign
        (2e-3, 0.0, 1e-3, 1.0, 2, False),  # late by 40 ms at 50 Hz
    ],
)
def test_logged_speeds_are_used_where_they_are_quieter(
    rate: int,
    noise: float,
    resolution: float,
    speed_noise: float,
    scale: float,
    samples_late: int,
    is_used: bool,
) -> None:
    raw = log(rate, noise=noise, resolution=resolution)
    late = samples_late * rate // 50
    speeds = scale * np.roll(raw.telemetry["dq_true"], late, axis=0)
    logged = with_speeds(raw, speeds, speed_noise)
    made = md.prepare(ROBOT, logged)
    assert made.info["differentiated"] is not is_used
    assert ("prepare.logged_speeds" in by_code(made)) == is_used
    for way in (True, False):
        forced = md.prepare(ROBOT, logged, differentiate=way)
        assert forced.info["differentiated"] is way
        assert "prepare.logged_speeds" not in by_code(forced)
        if is_used and way:
            assert errors(made)[1] < 0.5 * errors(forced)[1]


def test_another_log_takes_speeds_as_the_fit_did() -> None:
    """Also where its own would be chosen otherwise, and from positions where it has no speeds."""
    noisy, quiet = log(200, noise=2e-3), log(200)
    first, other = (with_speeds(raw, raw.telemetry["dq_true"], 1e-3) for raw in (noisy, quiet))
    for one, two in ((first, other), (other, first)):
        fitted = md.prepare(ROBOT, one).info
        made = ready(ROBOT, two, purpose="validation", preparation=fitted)
        assert made.info["differentiated"] is fitted["differentiated"]
    plain = ready(ROBOT, noisy, purpose="validation", preparation=md.prepare(ROBOT, first).info)
    assert plain.info["differentiated"] is True


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_lazy_preparation_is_the_same(ending, tmp_path) -> None:
    raw = md.concatenate(
        [log(500, duration=12, noise=1e-5), log(500, duration=8, noise=1e-5, seed=1)]
    )
    raw.save(tmp_path / f"log.{ending}")
    lazy = md.prepare(
        ROBOT, md.read_recording(tmp_path / f"log.{ending}", ROBOT, lazy=True), cutoff=12.0
    )
    whole = md.prepare(ROBOT, raw, cutoff=12.0)
    tiles = list(lazy.tiles(64))
    assert len(tiles) > 20
    assert sum(len(tile) for tile in tiles) == len(lazy)
    loaded = lazy.load()
    assert len(loaded.starts) == 2
    for mine, theirs, part in zip(whole.runs, loaded.runs, lazy.runs):
        common = np.intersect1d(np.round(mine.t * 500), np.round(theirs.t * 500))
        assert len(common) > 0.9 * len(mine)
        a = np.searchsorted(np.round(mine.t * 500), common)
        small = md.concatenate(list(part.tiles(64)))
        b = np.searchsorted(np.round(small.t * 500), common)
        for name in ("q", "dq", "ddq", "tau"):
            x, y = getattr(mine, name)[a], getattr(small, name)[b]
            assert np.abs(x - y).max() < 1e-5 * np.abs(x).max(), name
    part = lazy[100:200]
    np.testing.assert_allclose(md.concatenate(list(part.tiles(30))).t, loaded.t[100:200])
    with pytest.raises(Unsupported, match="need the whole recording"):
        md.prepare(ROBOT, md.read_recording(tmp_path / f"log.{ending}", lazy=True), period=1.0)


def test_faults() -> None:
    raw = log(100, duration=10)
    with pytest.raises(DescriptionError, match="no run has 20 samples in a row; 10 samples"):
        md.prepare(ROBOT, raw[:10])
    with pytest.raises(DescriptionError, match="no run is longer than the ends"):
        md.prepare(ROBOT, raw[:30], cutoff=5.0)
    with pytest.raises(ShapeError, match="the recording has 6 joints, robot 'panda' has 7"):
        md.prepare(md.load("panda"), raw)
    for options in ({"cutoff": -1.0}, {"decimate": 0}, {"order": 0}, {"rate": float("nan")}):
        with pytest.raises(ShapeError, match=next(iter(options))):
            md.prepare(ROBOT, raw, **options)
