"""When samples were taken.

Stamps that are true, stamps that only jitter, samples read twice, held or lost. Each effect is
planted into an exact motion, so that true speeds, accelerations and torques are known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.app.job import Job, Log
from minidyn.errors import DescriptionError, UnknownName
from minidyn.identification.diagnose.robot_file import mass_notices
from minidyn.notices import Notice
from minidyn.recording.prepare.times import TIMES

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

ROBOTS = ("ur10e", "scara", "panda")
Planted = tuple[np.ndarray, np.ndarray]  # stamps (N,), and the times the samples are of (N,)
Plant = Callable[[float, int, np.random.Generator], Planted]


def _clean(rate: float, size: int, rng: np.random.Generator) -> Planted:
    return np.arange(size) / rate, np.arange(size) / rate


def _jitter(rate: float, size: int, rng: np.random.Generator) -> Planted:
    """Samples are even; stamps wander by 13 % of a step."""
    even = np.arange(size) / rate
    return even + 0.13 / np.sqrt(2) * rng.normal(size=size).clip(-4, 4) / rate, even


def _true_steps(rate: float, size: int, rng: np.random.Generator) -> Planted:
    """Steps are truly 10 or 12 ms at 100 Hz."""
    t = np.cumsum(np.where(rng.random(size) < 0.35, 1.2, 1.0)) / rate
    return t, t


def _polled(rate: float, size: int, rng: np.random.Generator) -> Planted:
    """The logger's clock jitters by 13 % and runs 0.02 % slow.

    It reads 6 % of the samples twice, misses as many.
    """
    stamps = 1.0002 * np.arange(size) + 0.3 + 0.13 / np.sqrt(2) * rng.normal(size=size).clip(-4, 4)
    return stamps / rate, np.maximum.accumulate(np.floor(stamps)) / rate


def _bursts(rate: float, size: int, rng: np.random.Generator) -> Planted:
    """Samples are even and arrive five at a time, now and then late.

    The logger stamps them as they come.
    """
    even, rows = np.arange(size) / rate, np.arange(size)
    late = np.repeat(rng.uniform(0.0, 1.0, size // 5 + 1), 5)[:size]
    return (rows // 5 * 5 + late + 0.005 * (rows % 5)) / rate, even


def _dropped(rate: float, size: int, rng: np.random.Generator) -> Planted:
    t = np.flatnonzero(rng.random(size) > 0.02) / rate
    return t, t


def _held(rate: float, size: int, rng: np.random.Generator) -> Planted:
    """Logged four times faster than measured."""
    rows = np.arange(size)
    return rows / rate, (rows // 4 * 4) / rate


def _log(
    name: str, plant: Plant, rate: float, seed: int, size: int = 10_000, speeds: bool = False
) -> md.Recording:
    """Return a log with encoder steps, friction and noise.

    Telemetry has the truth at the times of the samples.
    """
    robot, rng = md.load(name), np.random.default_rng(seed)
    stamps, t = plant(rate, min(size, int(20 * rate)), rng)
    values, row = np.unique(
        t, return_inverse=True
    )  # a sample that is read twice has its noise twice
    q, dq, _, tau = _truth(robot, seed, values)
    measured = np.round((q + 1e-5 * rng.normal(size=q.shape)) / 2e-5) * 2e-5
    torque = (tau + 0.01 * np.abs(tau).max(axis=0) * rng.normal(size=q.shape))[row]
    extra = {"dq_true": dq[row], "tau_true": tau[row]}
    seen = dq[row] if speeds else None
    return md.Recording(
        stamps, measured[row], torque, dq=seen, joint_names=robot.joint_names, telemetry=extra
    )


def _truth(robot: md.Robot, seed: int, t: np.ndarray) -> tuple[np.ndarray, ...]:
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=1.0, period=10.0)(t)
    exact = md.inverse_dynamics(robot, q, dq, ddq)
    size = np.abs(exact).max(axis=0) + 1.0
    return q, dq, ddq, exact + 0.1 * size * dq + 0.05 * size * np.tanh(dq / 0.02)


def _codes(recording: md.Recording) -> dict[str, Notice]:
    return {notice.code: notice for notice in recording.notices}


def _speed_error(ready: md.Recording) -> float:
    true = ready.telemetry["dq_true"]
    return float(np.linalg.norm(ready.dq - true) / np.linalg.norm(true))


DECISIONS = {
    "clean": (_clean, None),
    "jitter": (_jitter, "prepare.taken_as_even"),
    "true steps": (_true_steps, "prepare.resampled"),
    "dropped": (_dropped, "prepare.resampled"),
    "held": (_held, "prepare.held_left_out"),
    "polled": (_polled, "prepare.counted"),
    "bursts": (_bursts, "prepare.bursts"),
}
CODES = {code for _, code in DECISIONS.values() if code}


@pytest.mark.parametrize("effect", DECISIONS)
@pytest.mark.parametrize("rate", [100, 1000])
@pytest.mark.parametrize("seed", range(count(2, 12)))
def test_decisions_are_right(effect: str, rate: float, seed: int) -> None:
    name = ROBOTS[seed % len(ROBOTS)]
    plant, code = DECISIONS[effect]
    if effect == "polled" and rate < 1000:
        pytest.skip("at 100 Hz the phase of such clocks stays where it is for the whole log")
    raw = _log(name, plant, rate, seed)
    ready = md.prepare(name, raw)
    assert CODES & set(_codes(ready)) == ({code} if code else set())
    clean = md.prepare(name, _log(name, _clean, rate, seed))
    assert _speed_error(ready) < max(1.6 * _speed_error(clean), 3e-3)
    if effect in ("jitter", "true steps", "dropped"):
        wrong = md.prepare(
            name, raw, time="stamps" if effect == "jitter" else "even", cutoff=clean.info["cutoff"]
        )
        right = md.prepare(name, raw, cutoff=clean.info["cutoff"])
        if rate == 100:
            assert _speed_error(wrong) > 2 * _speed_error(right)
        ask = md.prepare(
            name, raw, time="even" if effect == "jitter" else "stamps", cutoff=clean.info["cutoff"]
        )
        np.testing.assert_array_equal(ask.dq, right.dq)


@pytest.mark.parametrize("effect", ["held", "true steps", "dropped", "polled"][: count(2, 4)])
def test_models_are_right_by_default(effect: str, tmp_path: Path) -> None:
    """From a file, without a word: the error on another motion is what a clean log gives."""
    found = {}
    for kind in ("clean", effect):
        raw = _log("scara", DECISIONS[kind][0], 1000, 3)
        raw.save(tmp_path / "log.csv")
        estimate = md.identify("scara", tmp_path / "log.csv", prior=False)
        q, dq, ddq, tau = _truth(md.load("scara"), 77, np.arange(1000) / 100)
        names = estimate.robot.joint_names
        predicted = estimate.predict(
            md.Recording(np.arange(1000) / 100, q, tau, dq=dq, ddq=ddq, joint_names=names)
        )
        found[kind] = float(np.linalg.norm(predicted - tau) / np.linalg.norm(tau))
    assert found[effect] < max(1.5 * found["clean"], 0.015)


def test_lazy_logs_get_the_same(tmp_path: Path) -> None:
    for effect, (plant, _) in DECISIONS.items():
        raw = _log("scara", plant, 1000, 3, size=6000)
        raw.save(tmp_path / "log.parquet")
        lazy = md.read_recording(tmp_path / "log.parquet", lazy=True)
        made, whole = md.prepare("scara", lazy, cutoff=15.0), md.prepare("scara", raw, cutoff=15.0)
        assert CODES & {notice.code for notice in made.notices} == CODES & set(_codes(whole)), (
            effect
        )
        inside = np.isin(np.round(whole.t, 6), np.round(made.load().t, 6))
        assert inside.mean() > 0.95, effect


def test_quiet_logs_raise_nothing() -> None:
    """Slow motion of a coarse encoder repeats positions rightly, and so does a robot that
    stands.
    """
    t = np.arange(20_000) / 1000
    q = np.round(0.02 * np.sin(0.5 * t)[:, None] * [1.0, 0.6] / 1e-4) * 1e-4
    slow = md.Recording(t, q, np.zeros_like(q))
    assert not CODES & set(_codes(md.prepare("two_link", slow)))
    move = np.where((t > 5) & (t < 15), 0.5 * (1 - np.cos(0.2 * np.pi * (t - 5))), 0.0)[:, None] * [
        1.0,
        -0.7,
    ]
    rests = md.Recording(t, np.round(move / 1e-5) * 1e-5, np.zeros_like(q))
    assert not CODES & set(_codes(md.prepare("two_link", rests)))
    held = np.arange(len(t)) // 4 * 4
    codes = _codes(md.prepare("two_link", md.Recording(t, rests.q[held], np.zeros_like(q))))
    assert codes["prepare.held_left_out"].data["hold"] == 4
    assert codes["prepare.held_left_out"].data["samples"] == pytest.approx(5000, rel=0.02)


@pytest.mark.parametrize("side", ["joint", "motor", "built", "lazy"])
@pytest.mark.parametrize("unit", ["rad", "deg"])
def test_wrapped_encoders_are_unwrapped(side: str, unit: str, tmp_path: Path) -> None:
    t = np.arange(4000) / 500
    q = 2.6 + np.array([1.2, -0.9]) * np.sin(t)[:, None] + [0.0, 0.3]
    ratio = 50.0 if side == "motor" else 1.0
    wrapped = (ratio * q + np.pi) % (2 * np.pi) - np.pi
    if side == "built":
        recording = md.Recording(t, wrapped, np.zeros_like(q))
    else:
        table = np.column_stack([t, np.rad2deg(wrapped) if unit == "deg" else wrapped, 0 * q])
        np.savetxt(
            tmp_path / "log.csv",
            table,
            delimiter=",",
            header="t,q1,q2,tau1,tau2",
            comments="",
            fmt="%.12g",
        )
        options = {"units": unit} | ({"gear_ratio": ratio} if side == "motor" else {})
        recording = md.read_recording(tmp_path / "log.csv", lazy=side == "lazy", **options)
    ready = md.prepare("two_link", recording, trim=False, decimate=1, cutoff=30.0)
    found = ready.load()
    assert "recording.unwrapped" in {notice.code for notice in ready.notices}
    off = found.q - q[np.searchsorted(t, found.t - 1e-9)]
    turns = np.rint(off[0] * ratio / (2 * np.pi))
    inner = slice(100, -100)
    np.testing.assert_allclose(
        off[inner], np.broadcast_to(2 * np.pi * turns / ratio, off[inner].shape), atol=1e-4
    )
    true = np.array([1.2, -0.9]) * np.cos(found.t)[:, None]
    np.testing.assert_allclose(found.dq[inner], true[inner], atol=1e-3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_unwrapped_positions_lie_within_the_limits(sign: float, tmp_path: Path) -> None:
    """Whatever turn a log begins in; a joint that does not jump is turned back as well, and nothing
    is wrong.
    """
    robot = md.load("panda")
    t = (
        np.concatenate([np.arange(2000), np.arange(700)]) / 250
    )  # the second run begins in another turn
    q = md.trajectory.fourier(robot, seed=3)(t)[0]
    q[:, 2] = -sign * (1.5 + 0.8 * q[:, 2])  # never zero: a whole turn off without a jump
    offset = np.linspace(-0.4, 0.5, 7)
    wrapped = np.mod(sign * (q - offset), 2 * np.pi)
    table, names = (
        np.column_stack([t, wrapped, 0 * q]),
        [f"{s}{k}" for s in ("q", "tau") for k in range(1, 8)],
    )
    np.savetxt(
        tmp_path / "log.csv",
        table,
        delimiter=",",
        header=",".join(["t", *names]),
        comments="",
        fmt="%.12g",
    )
    found = md.read_recording(tmp_path / "log.csv", robot, sign=sign, offset=offset)
    np.testing.assert_allclose(found.q, q, atol=1e-9)
    assert not [notice.code for notice in found.notices if notice.level == "error"]
    told = _codes(found)["recording.unwrapped"]
    assert robot.joint_names[2] in told.data["turned"]
    assert robot.joint_names[2] not in told.data["joints"]
    # where nothing jumps, positions beyond the limits are no matter of turns
    table[:, 1:8] = q + 7.0
    np.savetxt(
        tmp_path / "log.csv", table, delimiter=",", header=",".join(["t", *names]), comments=""
    )
    assert "recording.unwrapped" not in _codes(md.read_recording(tmp_path / "log.csv", robot))


@pytest.mark.parametrize("effect", ["plain", "held", "dropped"])
def test_motors_that_turn_far_between_samples_are_unwrapped(effect: str, tmp_path: Path) -> None:
    """With a gear of 100 motors turn by up to a radian in a sample.

    Their angles wrap again and again.
    """
    t = np.arange(4000) / 250
    q = np.array([1.2, -0.9]) * np.sin(2 * t)[:, None] * [1.0, 0.6]
    rows = np.flatnonzero(np.arange(len(t)) % 97 != 5) if effect == "dropped" else np.arange(len(t))
    rows = rows // 2 * 2 if effect == "held" else rows
    wrapped = ((100 * q + np.pi) % (2 * np.pi) - np.pi)[rows]
    true, table = (
        q[rows],
        np.column_stack([t[rows] if effect == "dropped" else t, wrapped, 0 * wrapped]),
    )
    np.savetxt(
        tmp_path / "log.csv",
        table,
        delimiter=",",
        header="t,q1,q2,tau1,tau2",
        comments="",
        fmt="%.12g",
    )
    found = md.read_recording(tmp_path / "log.csv", gear_ratio=100.0)
    np.testing.assert_allclose(found.q, true, atol=1e-9)
    with pytest.raises(DescriptionError, match=r"log\.csv: motor angles jump by 2π; lazy=False"):
        md.read_recording(tmp_path / "log.csv", gear_ratio=100.0, lazy=True)


def test_jumps_that_are_no_turns_stay() -> None:
    t = np.arange(2000) / 500
    q = np.column_stack([np.sin(t), np.cos(t)])
    q[1000:, 0] += 4.5
    recording = md.Recording(t, q, np.zeros_like(q))
    assert "recording.unwrapped" not in _codes(md.prepare("two_link", recording))
    q[:, 0] = 3000 * np.sin(t)  # a slide in mm: fast, and no turns
    assert "recording.unwrapped" not in _codes(md.prepare("two_link", recording))


@pytest.mark.parametrize("lazy", [False, True])
def test_samples_that_arrive_in_bursts(lazy: bool, tmp_path: Path) -> None:
    """They are even, unless positions say that the gaps are pauses.

    Who insists on stamps is told what to do.
    """
    log = _log("scara", _bursts, 500, 1, size=3000)
    log.save(tmp_path / "log.csv")
    raw = md.read_recording(tmp_path / "log.csv", "scara", lazy=lazy)
    assert "bursts of 5 samples" in _codes(raw)["recording.uneven_times"].text
    for time in ("auto", "even"):
        made = md.prepare("scara", raw, time=time)
        assert made.info["logged_rate"] == pytest.approx(500, rel=1e-3)
        assert made.info["rate"] == pytest.approx(500, rel=1e-3)
        assert "bursts of 5 samples" in _codes(made)["prepare.bursts"].text
    with pytest.raises(DescriptionError, match=r"rate=HZ \(--rate HZ\) or time='even'"):
        md.prepare("scara", raw, time="stamps")
    same = md.Recording(
        np.arange(3000) // 5 / 100, log.q, log.tau
    )  # five samples have the same stamp
    assert md.prepare("scara", same).info["rate"] == pytest.approx(500)
    rows = np.arange(3000)
    t = (
        rows + rows // 200 * 400
    ) / 500  # 200 samples, and a pause twice as long in which the robot moves on
    q = _truth(md.load("scara"), 1, t)[0]
    assert "prepare.bursts" not in _codes(md.prepare("scara", md.Recording(t, q, np.zeros_like(q))))


@pytest.mark.parametrize("effect", ["jitter", "true steps"])
def test_times_are_decided_before_resampling(effect: str) -> None:
    """What positions, or the user, say of the stamps holds for the new samples."""
    raw = _log("scara", DECISIONS[effect][0], 100, 0, size=1500)
    best = _speed_error(md.prepare("scara", raw, cutoff=10.0))
    right, wrong = ("even", "stamps") if effect == "jitter" else ("stamps", "even")
    found = {
        time: _speed_error(md.prepare("scara", raw, 10.0, resample=200, time=time))
        for time in TIMES
    }
    assert found["auto"] == found[right] < 1.5 * best < 0.7 * found[wrong]


def test_a_rate_contradicts_stamps() -> None:
    raw = _log("scara", _clean, 100, 0, size=1000)
    with pytest.raises(
        md.MinidynError, match=r"rate=\.\.\. says that samples are even, time='stamps'"
    ):
        md.prepare("scara", raw, rate=100, time="stamps")
    with pytest.raises(
        md.MinidynError, match=r"log\.csv: a rate \(--rate\) says that samples are even"
    ):
        Job(
            md.load("scara"),
            (Log("fit", (Path("log.csv"),), {"rate": 100}),),
            settings=md.Settings(time="stamps"),
        )
    assert md.prepare("scara", raw, rate=50, resample=100, decimate=1).info["rate"] == 100


def test_options_of_time() -> None:
    raw = _log("scara", _jitter, 100, 0, size=1000)
    with pytest.raises(UnknownName, match="evn"):
        md.prepare("scara", raw, time="evn")
    assert md.prepare("scara", raw, rate=100).info["rate"] == 100
    asked = md.prepare("scara", raw, resample=150)
    assert asked.info["rate"] == 150
    assert "prepare.resampled" in _codes(asked)
    made = _codes(asked)["prepare.kept"].text
    assert made.startswith(f"{len(asked)} samples at even times were made of {len(raw)}")
    assert "of 1000 samples are kept" in _codes(md.prepare("scara", raw))["prepare.kept"].text
    kept = md.identify("scara", md.prepare("scara", raw, time="stamps"), prior=False, friction=())
    assert kept.record["preparation"]["time"] == "stamps"


@pytest.mark.parametrize("lazy", [False, True])
def test_a_choice_of_times_is_not_advised_to_who_made_it(lazy: bool, tmp_path: Path) -> None:
    _log("scara", _jitter, 100, 0, size=1000).save(tmp_path / "log.csv")
    raw = md.read_recording(tmp_path / "log.csv", "scara", lazy=lazy)
    assert "--time stamps" in _codes(raw)["recording.uneven_times"].advice
    for time, words in (
        ("stamps", "the stamps are used, as asked"),
        ("even", "samples are taken as even, as asked"),
    ):
        made = md.prepare("scara", raw, time=time)
        found = _codes(made)["recording.uneven_times"]
        assert found.text.endswith(words)
        assert not found.advice
        assert ("prepare.resampled" in _codes(made)) == (time == "stamps")  # also of a log on disk


def test_a_mass_far_from_the_file_is_an_alarm() -> None:
    """Where accelerations are wrong, the first link of an arm may weigh ten times as much.

    Gravity does not show it.
    """
    robot = md.load("ur10e")
    log = md.prepare(robot, _log("ur10e", _clean, 100, 0))
    heavy = robot.parameters.copy()
    heavy[robot.layout.links[0].start + 9] += 200.0
    [told] = mass_notices(robot, log, robot.parameters, heavy)
    assert told.level == "error"
    assert told.data["gravity"] == pytest.approx(1.0)
    assert not mass_notices(robot, log, robot.parameters, robot.parameters)
    # inertia alone: the upper arm, about the axis of the joint that carries it
    stout = robot.parameters.copy()
    stout[robot.layout.links[1].start + 5] += 50.0
    [told] = mass_notices(robot, log, robot.parameters, stout)
    assert told.data["inertia"] > 3.0
    # no prior: by the size of the robot alone
    assert not mass_notices(robot, log, None, heavy)
    assert mass_notices(robot, log, None, 100.0 * robot.parameters)[0].data["mass"] > 2000


def test_a_file_that_no_body_fits_is_no_measure_of_masses() -> None:
    """The Puma's links cannot exist as its file has them.

    Bodies that can are heavier, and nothing is wrong.
    """
    robot = md.load("puma560")
    log = md.prepare(robot, _log("puma560", _clean, 100, 0))
    heavy = robot.parameters.copy()
    for part in robot.layout.links[:2]:  # gravity does not show the mass of the first; centres stay
        heavy[part.start + 9] += 12.0
    assert not mass_notices(robot, log, robot.parameters, heavy)
