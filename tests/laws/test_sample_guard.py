"""A sample that cannot be true holds what runs beside the robot; it is reported, and it ends.

NaN, Inf, 1e200, stuck and lost samples: in steps, along logs, in the online estimator and in C.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import count
from minidyn.control import SampleStatus
from minidyn.control.sample_guard import sample_guard

PERIOD = 1e-3
WORST = (np.nan, np.inf, -np.inf, 1e200)
MAIN = """
#include <stdio.h>
#include <stdlib.h>
@SOURCE@
/* reads samples [q, dq, tau, elapsed], writes [status, torque, threshold] */
int main(void)
{
    double in[@IN@], out[@OUT@] = {0};
    double *state = calloc(@SIZE@, sizeof(double)); /* on the heap, no byte more */
    double held[2] = {0};
    @BEGIN@
    (void)held;
    while (fread(in, sizeof(double), @IN@, stdin) == @IN@) {
        out[0] = @CALL@;
        fwrite(out, sizeof(double), @OUT@, stdout);
    }
    free(state);
    return 0;
}
"""


def arm() -> Any:
    """A planar arm with friction."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    drives = {"Ia": 0.05, "Fv": 0.3, "Fc": 0.4}
    return robot.with_parameters(
        [drives.get(c.symbol, v) for c, v in zip(robot.layout.columns, robot.parameters)]
    )


def motion(seconds: float, push: float = 0.0, seed: int = 3) -> tuple[Any, Any, Any]:
    """q, dq and tau of the arm; in the last 0.2 s something pushes joint 1."""
    t = np.arange(round(seconds / PERIOD)) * PERIOD
    q, dq, ddq = md.trajectory.fourier(arm(), seed=seed, speed=1.0)(t)
    tau = md.inverse_dynamics(arm(), q, dq, ddq)
    tau = 0.5 * (tau + np.vstack([tau[1:], tau[-1:]]))
    tau[t > seconds - 0.2, 0] -= push
    return q, dq, tau


def steps(observer: Any, q: Any, dq: Any, tau: Any, elapsed: Any = None) -> tuple[Any, ...]:
    """Torques, thresholds and status of stepping through samples."""
    state = np.zeros(observer.state_size)
    results = []
    for k in range(len(q)):
        given = () if elapsed is None else (elapsed[k],)
        state, *rest = observer(state, q[k], dq[k], tau[k], *given)
        results.append(rest)
    return tuple(np.array(part) for part in zip(*results))


@pytest.fixture(scope="module")
def observer() -> Any:
    return md.control.momentum_observer(arm(), threshold=1.0)


@pytest.mark.parametrize("signal", range(3))
@pytest.mark.parametrize("value", WORST)
def test_one_bad_sample_is_over_after_two(observer: Any, value: float, signal: int) -> None:
    """The residual is held, the fault is reported, and a push after it shows as without it."""
    clean = motion(0.6, push=30.0)
    bad = [part.copy() for part in clean]
    bad[signal][100, 1] = value
    torque, _, status = steps(observer, *bad)
    expected = steps(observer, *clean)[0]
    cause = SampleStatus.OUT_OF_RANGE if value == 1e200 else SampleStatus.NOT_FINITE
    assert status[100] == cause | SampleStatus.HELD
    assert status[101] == SampleStatus.HELD
    assert not status[102:].any()
    assert np.all(torque[100:102] == torque[99])
    assert np.abs(torque[-1, 0]) > 20.0
    assert np.abs(torque - expected).max() < 0.05
    log = md.Recording(
        np.arange(600) * PERIOD, bad[0], bad[2], bad[1], joint_names=observer.robot.joint_names
    )
    watched = observer.watch(log)
    assert watched.held == 1
    assert [event.joints[0] for event in watched.events] == ["joint1"]
    assert [notice.code for notice in watched.notices] == ["watch.samples_held"]
    assert not watched.pauses


def faulty(
    seed: int, samples: int = 700, push: float = 30.0, is_stuck: bool = True
) -> tuple[Any, ...]:
    """A motion with faults of all kinds: q, dq, tau and the times between samples."""
    rng = np.random.default_rng(seed)
    q, dq, tau = (part[:samples] for part in motion(samples * PERIOD, push=push, seed=seed))
    parts = [part.copy() for part in (q, dq, tau)]
    elapsed = np.full(samples, PERIOD)
    for _ in range(rng.integers(1, 8)):
        part, joint = parts[rng.integers(3)], rng.integers(2)
        begin = rng.integers(samples)
        end = begin + int(rng.choice([1, 2, 30, 120, 300]))
        kind = rng.integers(6)
        if kind < 4:
            part[begin:end, joint] = WORST[kind]
        elif kind == 4 and is_stuck:
            part[begin:end, joint] = part[begin, joint]
        else:
            elapsed[begin] = rng.choice([3 * PERIOD, 0.1, np.nan, 0.0, np.inf])
    return *parts, elapsed


@pytest.mark.parametrize("seed", range(count(12, 400)))
def test_steps_are_what_watch_computes_with_faults(observer: Any, seed: int) -> None:
    q, dq, tau, elapsed = faulty(seed)
    elapsed[0] = PERIOD
    torque, threshold, status = steps(observer, q, dq, tau, elapsed)
    assert np.isfinite(torque).all()
    sample = observer.guard.sample(q, dq, tau)
    np.testing.assert_array_equal(observer.guard.along(sample, elapsed)[0], status)
    along = observer._along(q, dq, tau, elapsed)
    np.testing.assert_allclose(along[0], torque, rtol=1e-9, atol=1e-9)
    watching = (status & SampleStatus.NOT_WATCHING) == 0
    np.testing.assert_allclose(along[1][watching], threshold[watching], rtol=1e-12)
    assert np.all(threshold[~watching] == -1.0)


def test_batches_are_steps_side_by_side(observer: Any) -> None:
    runs = [faulty(seed, 300) for seed in range(5)]
    q, dq, tau, elapsed = (np.stack(parts, axis=1) for parts in zip(*runs))
    state = np.zeros((5, observer.state_size))
    for k in range(300):
        state, torque, threshold, status = observer(state, q[k], dq[k], tau[k], elapsed[k])
    for run, parts in enumerate(runs):
        alone = steps(observer, *parts)
        np.testing.assert_allclose(torque[run], alone[0][-1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(threshold[run], alone[1][-1], rtol=1e-12)
        assert status[run] == alone[2][-1]


def test_nobody_watches_is_an_alarm_of_its_own(observer: Any) -> None:
    """After the watchdog's time, and until samples can be used again; any torque passes -1."""
    q, dq, tau = motion(0.6)
    tau[200:300] = np.nan
    torque, threshold, status = steps(observer, q, dq, tau)
    alarm = (status & SampleStatus.NOT_WATCHING) > 0
    assert not alarm[:249].any()
    assert alarm[249:301].all()
    assert not alarm[301:].any()
    assert np.all(np.abs(torque[alarm]) > threshold[alarm])
    names = observer.robot.joint_names
    watched = observer.watch(md.Recording(np.arange(600) * PERIOD, q, tau, dq, joint_names=names))
    (pause,) = watched.pauses
    assert (round(pause.start, 3), round(pause.end, 3)) == (0.249, 0.3)
    assert pause.causes == ("a value is not finite",)
    assert not watched.events
    assert not watched.is_silent
    assert "watch.not_watching" in [notice.code for notice in watched.notices]
    assert watched.to_json()["not_watching"][0]["causes"]
    never = steps(observer, q + np.nan, dq, tau)
    assert (never[2][60:] & SampleStatus.NOT_WATCHING).all()  # from the first sample on
    assert np.all(np.abs(never[0][60:]) > never[1][60:])


@pytest.mark.parametrize("signal", range(3))
def test_a_stuck_signal_is_noticed_while_the_joint_moves(observer: Any, signal: int) -> None:
    parts = [part.copy() for part in motion(1.5)]
    parts[signal][300:1300, 1] = parts[signal][300, 1]
    status = steps(observer, *parts)[2]
    stuck = np.flatnonzero(status & SampleStatus.STUCK)
    assert 500 < stuck[0] < 800
    assert not status[1310:].any()
    assert not steps(observer, *motion(1.5))[2][1:].any()


def test_a_robot_that_stands_still_is_not_stuck(observer: Any) -> None:
    """Encoders and commands repeat themselves at rest; speeds have noise."""
    rng = np.random.default_rng(0)
    q = np.tile([0.3, -0.2], (2000, 1))
    for dq in (np.zeros_like(q), 0.01 * rng.normal(size=q.shape)):
        assert not steps(observer, q, dq, np.tile([3.0, 1.0], (2000, 1)))[2][1:].any()


def test_lost_samples_show_in_the_time_and_in_positions(observer: Any) -> None:
    """Where 20 samples are lost the residual would jump by the momentum of that time."""
    q, dq, tau = motion(0.6)
    kept = np.delete(np.arange(600), np.arange(300, 320))
    elapsed = np.diff(kept, prepend=-1) * PERIOD
    torque, _, status = steps(observer, q[kept], dq[kept], tau[kept], elapsed)
    assert status[300] == SampleStatus.GAP | SampleStatus.HELD
    clean = steps(observer, q, dq, tau)[0][kept]
    assert np.abs(torque - clean).max() < 0.05
    jump = q.copy()
    jump[300:] += 1.0
    assert steps(observer, jump, dq, tau)[2][300] == SampleStatus.GAP | SampleStatus.HELD
    names = observer.robot.joint_names
    log = md.Recording(kept * PERIOD, q[kept], tau[kept], dq[kept], joint_names=names)
    watched = observer.watch(log)
    assert np.flatnonzero(watched.status & SampleStatus.GAP).tolist() == [300]


def test_bounds_are_the_limits_with_a_margin_or_the_users() -> None:
    robot = md.load("panda")
    limits = [robot.joints[index].limits for index in robot.independent]
    guard = sample_guard(robot, PERIOD)
    n = robot.n
    np.testing.assert_allclose(guard.upper[n : 2 * n], [2 * each.velocity for each in limits])
    np.testing.assert_allclose(guard.upper[2 * n :], [3 * each.effort for each in limits])
    assert np.all(guard.lower[:n] < [each.lower for each in limits])
    wide = sample_guard(robot, PERIOD, bounds={"torque": 7.0, "upper": 50.0, "lower": -50.0})
    assert np.all(wide.upper[2 * n :] == 7.0)
    assert np.all(wide.upper[:n] == 50.0)
    with pytest.raises(md.MinidynError, match="bounds"):
        sample_guard(robot, PERIOD, bounds={"tau": 7.0})
    with pytest.raises(md.MinidynError, match="torque"):
        sample_guard(robot, PERIOD, bounds={"torque": np.nan})
    with pytest.raises(md.MinidynError, match="speed"):
        sample_guard(robot, PERIOD, bounds={"speed": 0.0})
    with pytest.raises(md.MinidynError, match="lower"):
        sample_guard(robot, PERIOD, bounds={"lower": 3.0, "upper": 1.0})
    with pytest.raises(md.MinidynError, match="watchdog"):
        sample_guard(robot, PERIOD, watchdog=0.0)


@pytest.mark.parametrize("seed", range(count(4, 100)))
def test_the_online_estimator_is_that_of_the_samples_it_used(seed: int) -> None:
    """Bad samples leave no trace: the parameters are those of the clean rows alone."""
    run = faulty(seed, 1500, push=0.0, is_stuck=False)
    running = md.online(arm(), sigma=0.1, prior=False, gain=20.0)
    assert running.add(*run) & SampleStatus.HELD
    assert running.held > 0
    assert running.samples == 1500
    clean = md.online(arm(), sigma=0.1, prior=False, gain=20.0)
    assert clean.add(*motion(1.5, seed=seed)) == SampleStatus.HELD  # the first sample begins
    assert clean.held == 0
    np.testing.assert_allclose(running.beta, clean.beta, atol=1e-3)


def test_the_online_estimator_says_when_it_does_not_watch() -> None:
    q, dq, tau = motion(1.0)
    running = md.online(arm(), sigma=0.1)
    running.add(q[:500], dq[:500], tau[:500])
    assert running.watching
    before = running.beta
    running.add(q[500:700], dq[500:700] * np.nan, tau[500:700])
    assert not running.watching
    assert not running.changed
    np.testing.assert_allclose(running.beta, before, rtol=1e-9)
    running.add(q[700:], dq[700:], tau[700:])
    assert running.watching


def run_c(
    folder: Path, source: str, call: str, samples: Any, out: int, *flags: str, begin: str = ""
) -> Any:
    """What a program in C answers to samples (N, k)."""
    size = re.findall(r"int \w+\(const double state.(\d+)", source)
    values = {"SOURCE": source, "IN": samples.shape[1], "OUT": out, "CALL": call, "BEGIN": begin}
    values["SIZE"] = size[0] if size else 1
    text = re.sub("@([A-Z]+)@", lambda found: str(values[found[1]]), MAIN)
    (folder / "main.c").write_text(text)
    command = ["gcc", *STRICT, *flags, str(folder / "main.c"), "-o", str(folder / "main"), "-lm"]
    subprocess.run(command, check=True)
    ran = subprocess.run(
        [str(folder / "main")], input=samples.tobytes(), capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    return np.array(struct.unpack(f"{len(samples) * out}d", ran.stdout)).reshape(-1, out)


def has_sanitizers(folder: Path) -> bool:
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = ["gcc", *SANITIZED, str(folder / "empty.c"), "-o", str(folder / "empty")]
    return shutil.which("gcc") is not None and subprocess.run(command, check=False).returncode == 0


SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@needs_gcc
@pytest.mark.parametrize("flags", [SANITIZED, ["-O3", "-ffast-math"]], ids=["sanitized", "fast"])
def test_c_does_what_the_steps_do_with_faults(observer: Any, flags: Any, tmp_path: Path) -> None:
    """Also where the compiler is told that all numbers are finite."""
    if flags is SANITIZED and not has_sanitizers(tmp_path):
        pytest.skip("gcc has no sanitizers here")
    runs = [faulty(seed) for seed in range(count(6, 100))]
    call = "two_link_observer_step(state, in, in + 2, in + 4, in[6], out + 1, out + 3, state)"
    for run in runs:
        expected = steps(observer, *run)
        samples = np.column_stack(run)
        answer = run_c(tmp_path, observer.source(), call, samples, 5, *flags)
        np.testing.assert_array_equal(answer[:, 0].astype(int), expected[2])
        np.testing.assert_allclose(answer[:, 1:3], expected[0], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(answer[:, 3:], expected[1], rtol=1e-9)


@needs_gcc
def test_factors_in_c_are_those_of_the_samples_that_were_used(tmp_path: Path) -> None:
    flags = SANITIZED if has_sanitizers(tmp_path) else []
    run = faulty(5)
    running = md.online(arm(), sigma=0.1, memory=0.5)
    running.add(*run)
    factors = running.triangles.factors
    size = sum(factor.shape[1] ** 2 for factor in factors)
    forget = repr(float(np.exp(-0.5 * PERIOD / 0.5)))
    call = "two_link_online_step(state, in, in + 2, in + 4, in[6], state)"
    call += f"; two_link_online_step_update(state, {forget}, out + 1)"
    found = run_c(tmp_path, running.source(), call, np.column_stack(run), size + 1, *flags)[-1, 1:]
    begin = 0
    for factor in factors:
        own = found[begin : begin + factor.shape[1] ** 2].reshape(factor.shape[1], -1)
        begin += own.size
        expected = factor.T @ factor
        np.testing.assert_allclose(own.T @ own, expected, rtol=1e-7, atol=1e-9 * expected.max())


LAWS = {
    "slotine_li": {"bandwidth": 5.0, "gain": 20.0, "adaptation": 1e-2},
    "composite": {"bandwidth": 5.0, "gain": 20.0, "adaptation": 1e-2, "composite": 1.0},
    "modified_slotine_li": {"bandwidth": 5.0, "adaptation": 1e-2},
    "craig": {"bandwidth": 5.0, "adaptation": 1e-6},
    "computed_torque": {"bandwidth": 5.0},
    "pd_gravity": {"bandwidth": 5.0, "gain": 20.0},
}


def law_of(name: str) -> Any:
    factory = getattr(md.control, "slotine_li" if name == "composite" else name)
    return factory(arm(), **LAWS[name])


def signals_of(law: Any, seed: int, samples: int = 150) -> Any:
    """Measurements and references (N, m, 2) with faults in some samples."""
    rng = np.random.default_rng(seed)
    signals = 0.5 * rng.normal(size=(samples, 5 + law.needs_acceleration, 2))
    for sample in rng.integers(samples, size=20):
        value = rng.choice([*WORST, -1e7])
        signals[sample : sample + rng.integers(1, 3), rng.integers(signals.shape[1]), 0] = value
    return signals


def answers(law: Any, signals: Any) -> tuple[Any, ...]:
    """States, torques and status of stepping through samples."""
    state, results = law.start, []
    for q, dq, *rest in signals:
        ddq = rest[0] if law.needs_acceleration else None
        measurement = md.control.Measurement(0.0, q, dq, ddq)
        state, torque, telemetry = law(state, measurement, tuple(rest[-3:]))
        results.append((state, torque, telemetry["status"]))
    return tuple(np.array(part) for part in zip(*results))


@pytest.mark.parametrize("name", LAWS)
def test_a_controller_holds_its_estimate_and_gives_a_torque(name: str) -> None:
    """Without a measurement the model's torque along the reference, without a reference the torque
    that holds the robot, without both none.
    """
    law = law_of(name)
    signals = signals_of(law, 1)
    state, torque, status = answers(law, signals)
    assert np.isfinite(torque).all()
    assert np.isfinite(state).all()
    bad = ~(np.abs(signals) <= 1e6).all(axis=(1, 2))
    np.testing.assert_array_equal(status > 0, bad)
    before = np.concatenate([[law.start], state[:-1]])
    np.testing.assert_array_equal(state[bad], before[bad])
    measured = signals.shape[1] - 3
    lost = ~(np.abs(signals[:, :measured]) <= 1e6).all(axis=(1, 2))
    wanted = ~(np.abs(signals[:, measured:]) <= 1e6).all(axis=(1, 2))
    assert not torque[lost & wanted].any()
    for k in np.flatnonzero(lost & ~wanted):
        reference = signals[k, measured:]
        exact = md.control.Measurement(0.0, *reference[:2], reference[2])
        expected = law(before[k], exact, tuple(reference))[1]
        np.testing.assert_allclose(torque[k], expected, rtol=1e-12)


@needs_gcc
@pytest.mark.parametrize("name", LAWS)
def test_controllers_in_c_do_the_same(name: str, tmp_path: Path) -> None:
    law = law_of(name)
    signals = signals_of(law, 2)
    state, torque, status = answers(law, signals)
    size, inputs = state.shape[1], signals.shape[1]
    rows = [f"in + {2 * k}" for k in range(inputs)]
    given = [*(["out + 1"] if size else []), *rows, f"out + {size + 1}"]
    call = f"two_link_control_step({', '.join([*given, *(['out + 1'] if size else []), 'held'])})"
    values = "".join(f"out[{k + 1}] = {value!r}; " for k, value in enumerate(law.start.tolist()))
    flags = SANITIZED if has_sanitizers(tmp_path) else []
    samples, length = signals.reshape(len(signals), -1), 1 + size + 2
    out = run_c(tmp_path, law.source(), call, samples, length, *flags, begin=values)
    np.testing.assert_array_equal(out[:, 0].astype(int) & 31, status)
    np.testing.assert_allclose(out[:, 1 : 1 + size], state, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(out[:, 1 + size :], torque, rtol=1e-7, atol=1e-7)


@needs_gcc
def test_a_controller_in_c_raises_an_alarm_without_samples(tmp_path: Path) -> None:
    law = law_of("computed_torque")
    signals = np.zeros((200, 10))
    signals[50:120, 1] = np.nan
    call = "two_link_control_step(in, in + 2, in + 4, in + 6, in + 8, out + 1, held)"
    out = run_c(tmp_path, law.source(), call, signals, 3)
    alarm = np.flatnonzero(out[:, 0].astype(int) & SampleStatus.NOT_WATCHING)
    assert (alarm[0], alarm[-1]) == (99, 119)
