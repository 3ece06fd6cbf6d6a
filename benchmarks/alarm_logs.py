"""Simulated logs for alarms.py and truth.py.

Healthy ones, and faults that are planted into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import minidyn as md

Array = NDArray[np.float64]

ROBOTS = (
    "two_link",
    "scara",
    "puma4",
    "panda",
    "ur10e",
    "ur10",
    "two_arm",
)  # whose links are bodies that can exist
LIMITED = ("scara", "panda", "ur10e")  # with limits of positions and torques
SMALL = ("two_link", "scara", "puma4")
ARMS = ("panda", "ur10e", "ur10")  # with links that gravity pulls
RATES = (100.0, 125.0, 250.0, 500.0, 1000.0)
# the same notice where friction is there, but not in the model
OFF = "identify.torque_delay, friction off"


@dataclass(frozen=True)
class Log:
    """A robot's file, the true robot, and what was measured."""

    file: md.Robot
    true: md.Robot
    t: Array
    q: Array
    dq: Array | None
    tau: Array
    seed: int
    options: dict[str, Any]  # of md.identify
    ddq: Array  # written to files where it is asked for
    noise: Array  # of the torques (n,)
    step: float  # of the encoders

    def save(self, path: Path, *, ddq: bool = False) -> Path:
        """Write what was measured to an NPZ file; return its path."""
        signals = {"time_s": self.t, "position": self.q, "effort": self.tau}
        signals |= {} if self.dq is None else {"velocity": self.dq}
        np.savez(path, **signals, **({"acceleration": self.ddq} if ddq else {}))
        return path


def true_robot(file: md.Robot, rng: np.random.Generator) -> md.Robot:
    """Return a robot that its file knows about to 10 %, with drives that the file does not know."""
    width = float(rng.choice([0.0, 0.005, 0.02]))
    true = file.with_drives(True, ("viscous", "coulomb", "offset"), sign_width=width)
    values = np.nan_to_num(np.array(true.parameters))
    for part in true.layout.links:
        values[part] *= rng.normal(1.0, 0.1)
    t = np.linspace(0.0, 10.0, 200)
    motion = md.trajectory.fourier(file, seed=0)(t)
    load = np.sqrt(np.mean(md.inverse_dynamics(file, *motion) ** 2, axis=0))
    speed = np.sqrt(np.mean(motion[1] ** 2, axis=0))
    inertia = np.diagonal(md.inertia_matrix(file, motion[0]), axis1=-2, axis2=-1).mean(axis=0)
    load = np.maximum(load, 0.05 * load.max())
    sizes = {"Ia": 0.3 * np.maximum(inertia, 0.02 * inertia.max()), "Fv": 0.1 * load / speed}
    sizes |= {"Fc": 0.15 * load, "Fo": 0.02 * load}
    for joint, columns in enumerate(true.layout.drives):
        for column in columns:
            values[column.index] = sizes[column.symbol][joint] * rng.uniform(0.3, 1.5)
    return true.with_parameters(values)


def healthy(seed: int, robots: Iterable[str] = ROBOTS, *, true: md.Robot | None = None) -> Log:
    """Return a log in which nothing is wrong; another run of `true` where that is given."""
    rng = np.random.default_rng(seed)
    names = tuple(robots)
    file = md.load(names[seed % len(names)])
    made = true_robot(file, rng)
    slow = float(rng.choice([1.0, 2.0]))
    motion = md.trajectory.fourier(file, seed=seed, period=10.0 * slow, speed=2.0 / slow)
    return motion_log(file, true or made, seed, rng, motion, 10.0 * slow)


def motion_log(
    file: md.Robot,
    true: md.Robot,
    seed: int,
    rng: Any,
    motion: Any,
    duration: float,
    like: Log | None = None,
    *,
    rates: Sequence[float] = RATES,
    more: Callable[[Array], Array] | None = None,
) -> Log:
    """Return what is logged of a motion.

    Encoders with steps, noisy torques, speeds that are measured or not. Sensors are those of
    another log, or drawn. More torque (N, n), a function of the times, may act on the robot.
    """
    rate = float(rng.choice(rates)) if like is None else float(round(1 / (like.t[1] - like.t[0])))
    t = np.arange(int(duration * rate)) / rate
    q, dq, ddq = motion(t)
    tau = md.inverse_dynamics(true, q, dq, ddq) + (0.0 if more is None else more(t))
    size = np.sqrt(np.mean(tau**2, axis=0))
    noise = rng.choice([0.005, 0.02, 0.05]) * size if like is None else like.noise
    tau = tau + noise * rng.normal(size=tau.shape)
    step = float(rng.choice([2e-6, 1e-5, 1e-4])) if like is None else like.step
    q = np.round((q + step * rng.normal(size=q.shape)) / step) * step
    shaken = rng.choice([0.0, 0.02, 0.1, 0.3]) * np.sqrt(np.mean(dq**2, axis=0))
    speeds = dq + shaken * rng.normal(size=q.shape) if rng.random() < 0.7 else None
    ddq = ddq + 0.02 * ddq.std(axis=0) * rng.normal(size=q.shape)
    return Log(file, true, t, q, speeds, tau, seed, {}, ddq, noise, step)


# faults: each changes a healthy log
def _samples(log: Log, keep: Any, **more: Any) -> Log:
    dq = None if log.dq is None else log.dq[keep]
    kept = {
        "t": log.t[keep],
        "q": log.q[keep],
        "dq": dq,
        "tau": log.tau[keep],
        "ddq": log.ddq[keep],
    }
    return replace(log, **(kept | more))


def _restarts(log: Log, rng: Any) -> Log:
    half = len(log.t) // 2
    return replace(log, t=np.concatenate([log.t[:half], log.t[: len(log.t) - half]]))


def _gap(log: Log, rng: Any) -> Log:
    begin = int(rng.uniform(0.2, 0.8) * len(log.t))
    keep = np.ones(len(log.t), dtype=bool)
    keep[begin : begin + int(rng.integers(4, 60))] = False
    return _samples(log, keep)


def _repeated(log: Log, rng: Any) -> Log:
    t = log.t.copy()
    rows = rng.integers(1, len(t), len(t) // 100)
    t[rows] = t[rows - 1]
    return replace(log, t=t)


def _swapped(log: Log, rng: Any) -> Log:
    order = np.arange(len(log.t))
    for row in rng.integers(1, len(order) - 1, 5):
        order[[row, row + 1]] = order[[row + 1, row]]
    return _samples(log, order)


def _holes(length: int) -> Callable[[Log, Any], Log]:
    def plant(log: Log, rng: Any) -> Log:
        tau = log.tau.copy()
        begin = int(rng.uniform(0.2, 0.8) * len(tau))
        tau[begin : begin + length, rng.integers(tau.shape[1])] = np.nan
        return replace(log, tau=tau)

    return plant


def _lost(log: Log, rng: Any) -> Log:
    """A gap of a second, and torques that are no numbers after it."""
    after = np.arange(len(log.t)) > rng.uniform(0.3, 0.8) * len(log.t)
    return replace(log, t=log.t + after, tau=np.where(after[:, None], np.nan, log.tau))


def _held(log: Log, rng: Any) -> Log:
    every = int(rng.integers(2, 6))
    rows = np.arange(len(log.t)) // every * every
    return replace(log, q=log.q[rows], dq=None)


def _spikes(log: Log, rng: Any) -> Log:
    q = log.q.copy()
    for row in rng.integers(10, len(q) - 10, 3):
        q[row, rng.integers(q.shape[1])] += rng.choice([-1, 1]) * rng.uniform(0.1, 1.0)
    return replace(log, q=q)


def _one_joint(values: Array, change: Callable[[Array], Array], rng: Any) -> Array:
    made = np.array(values)
    joint = int(rng.integers(values.shape[1]))
    made[:, joint] = change(made[:, joint])
    return made


def _speeds(log: Log, rng: Any) -> Log:
    dq = np.gradient(log.q, log.t, axis=0) if log.dq is None else log.dq
    factor = float(rng.choice([-1.0, 180 / np.pi, 0.5, 2.0]))
    return replace(log, dq=_one_joint(dq, lambda x: factor * x, rng))


def _beyond(log: Log, rng: Any) -> Log:
    joint = log.file.joints[0]
    reach = max(abs(joint.limits.lower), abs(joint.limits.upper))
    q = log.q.copy()
    q[:, 0] += joint.limits.upper - q[:, 0].max() + 0.1 * reach
    return replace(log, q=q)


def _late(log: Log, rng: Any) -> Log:
    delay = float(rng.uniform(0.01, 0.04)) * float(rng.choice([-1.0, 1.0]))
    tau = np.column_stack([np.interp(log.t - delay, log.t, column) for column in log.tau.T])
    return replace(log, tau=tau)


def _small_motion(log: Log, rng: Any) -> Log:
    """All joints together, a few degrees, one frequency."""
    middle = log.q.mean(axis=0)

    def motion(t: Array) -> tuple[Array, Array, Array]:
        phase, rate = 2 * np.pi * 0.3 * t[:, None], 2 * np.pi * 0.3
        return (
            middle + 0.1 * np.sin(phase) + 0 * middle,
            0.1 * rate * np.cos(phase) + 0 * middle,
            -0.1 * rate**2 * np.sin(phase) + 0 * middle,
        )

    return motion_log(log.file, log.true, log.seed, rng, motion, 10.0)


def _resting(log: Log, rng: Any) -> Log:
    """The first joints alone move."""
    plain = md.trajectory.fourier(log.file, seed=log.seed)
    moving = np.arange(log.file.n) < 1

    def motion(t: Array) -> tuple[Array, Array, Array]:
        q, dq, ddq = plain(t)
        return np.where(moving, q, q[0]), dq * moving, ddq * moving

    return motion_log(log.file, log.true, log.seed, rng, motion, 10.0)


def _torque(factor: float) -> Callable[[Log, Any], Log]:
    return lambda log, rng: replace(log, tau=factor * log.tau)


def _noisy(size: float) -> Callable[[Log, Any], Log]:
    return lambda log, rng: replace(log, options={"noisy": size})


def _of_another_time(log: Log, rng: Any) -> Log:
    return replace(log, tau=np.roll(log.tau, len(log.tau) // 3, axis=0))


def _wave(log: Log, rng: Any) -> Log:
    wave = 0.25 * np.sin(2 * np.pi * rng.uniform(2.5, 5.0) * log.t)[:, None]
    return replace(log, tau=log.tau + wave * np.sqrt(2.0) * np.std(log.tau, axis=0))


def _cut_off(log: Log, rng: Any) -> Log:
    """One joint's torque is cut off at two thirds of its largest value."""
    return replace(
        log,
        tau=_one_joint(
            log.tau, lambda x: np.clip(x, *(2 / 3 * np.abs(x).max() * np.array([-1, 1]))), rng
        ),
    )


def _one_way(log: Log, rng: Any) -> Log:
    """One joint goes one way, slowly."""
    plain, moving = md.trajectory.fourier(log.file, seed=log.seed), int(rng.integers(log.file.n))
    way = np.arange(log.file.n) == moving

    def motion(t: Array) -> tuple[Array, Array, Array]:
        q, dq, ddq = plain(t)
        line = q[0] + 0.05 * (t[:, None] + 1.0)
        return np.where(way, line, q), np.where(way, 0.05, dq), np.where(way, 0.0, ddq)

    return motion_log(log.file, log.true, log.seed, rng, motion, 10.0)


def _waits(log: Log, rng: Any) -> Log:
    """One joint moves in the first tenth of the log alone."""
    plain, still = (
        md.trajectory.fourier(log.file, seed=log.seed),
        np.arange(log.file.n) == rng.integers(log.file.n),
    )

    def motion(t: Array) -> tuple[Array, Array, Array]:
        q, dq, ddq = plain(t)
        moves, turn = t[:, None] < 1.0, 2 * np.pi * t[:, None]
        one = q[0] + 0.1 * moves * (1 - np.cos(turn)) ** 2
        rate = 0.1 * moves * 4 * np.pi * (1 - np.cos(turn)) * np.sin(turn)
        grows = 0.1 * moves * 8 * np.pi**2 * (np.sin(turn) ** 2 + (1 - np.cos(turn)) * np.cos(turn))
        return np.where(still, one, q), np.where(still, rate, dq), np.where(still, grows, ddq)

    return motion_log(log.file, log.true, log.seed, rng, motion, 10.0)


def _two_rates(log: Log, rng: Any) -> Log:
    """The second half with a fifth of the samples, times that begin anew."""
    half = len(log.t) // 2
    keep = np.concatenate([np.arange(half), np.arange(half, len(log.t), 5)])
    t = log.t[keep]
    return _samples(log, keep, t=np.where(np.arange(len(keep)) < half, t, t - log.t[half]))


def _differences(log: Log, rng: Any) -> Log:
    """Accelerations are differences of measured speeds with 10 % noise."""
    dq = np.gradient(log.q, log.t, axis=0)
    dq = dq + 0.1 * dq.std(axis=0) * rng.normal(size=dq.shape)
    return replace(log, dq=dq, ddq=np.gradient(dq, log.t, axis=0))


def loaded(
    log: Log,
    rng: Any,
    *,
    share: float = 0.08,
    true: md.Robot | None = None,
    seconds: float = 10.0,
    slow: float = 1.0,
) -> Log:
    """Return another run of a robot by the same sensors, with a load of a share of its mass on the
    last link.
    """
    robot = log.true if true is None else true
    mass = share * float(sum(log.file.parameters[part][9] for part in log.file.layout.links))
    box = {
        "mass": mass,
        "com": rng.uniform(-0.1, 0.1, 3),
        "inertia": 0.4 * mass * 0.2**2 * np.eye(3),
    }
    motion = md.trajectory.fourier(
        log.file, seed=20_000 + log.seed, period=10.0 * slow, speed=1.0 / slow
    )
    carried = md.Payload(0.0, box).on(robot) if mass else robot
    return motion_log(log.file, carried, log.seed, rng, motion, seconds, log)


def _changed(change: Callable[[md.Robot, Any], md.Robot]) -> Callable[[Log, Any], Log]:
    return lambda log, rng: loaded(log, rng, true=change(log.true, rng))


def _warmer(robot: md.Robot, rng: Any) -> md.Robot:
    values = robot.parameters.copy()
    for columns in robot.layout.drives[:3]:
        for column in columns:
            values[column.index] *= 0.5 if column.symbol in ("Fv", "Fc") else 1.0
    return robot.with_parameters(values)


def _tilted(robot: md.Robot, rng: Any) -> md.Robot:
    angle = np.radians(3.0)
    size = float(np.linalg.norm(robot.gravity))
    return replace(robot, gravity=tuple(size * np.array([np.sin(angle), 0.0, -np.cos(angle)])))


def _mounted(robot: md.Robot, rng: Any) -> md.Robot:
    """Something of a tenth of the robot's mass was screwed to the upper arm."""
    total = float(sum(robot.parameters[part][9] for part in robot.layout.links))
    box = {"mass": 0.1 * total, "com": [0.2, 0.1, 0.1], "inertia": 0.001 * total * np.eye(3)}
    return md.Payload(0.0, box, None, robot.link_names[1]).on(robot)


def _scaled_joint(log: Log, rng: Any) -> Log:
    run = loaded(log, rng)
    return replace(run, tau=run.tau * np.where(np.arange(log.file.n) == 1, 1.15, 1.0))


def _touched(log: Log, rng: Any) -> Log:
    """Something rubs and knocks: torques of another source, a fifth of each joint's own."""
    run = loaded(log, rng)
    wave = np.sin(
        2 * np.pi * np.array([1.7]) * run.t[:, None] + rng.uniform(0, 6, run.tau.shape[1])
    )
    return replace(run, tau=run.tau + 0.3 * run.tau.std(axis=0) * np.sign(wave))


def _load(**how: float) -> Callable[[Log, Any], Log]:
    return lambda log, rng: loaded(log, rng, **how)


def _late_without_friction(log: Log, rng: Any) -> Log:
    return replace(_late(log, rng), options={"friction": ()})


def _on_a_wall(log: Log, rng: Any) -> Log:
    """A robot on a wall, whose file stands upright."""
    turn = (np.pi / 2, 0.0, 0.0) if rng.random() < 0.5 else (0.0, np.pi / 2, 0.0)
    return healthy(log.seed, ARMS, true=log.true.mounted(turn))


def _turned_encoder(log: Log, rng: Any) -> Log:
    """The encoder of the fourth joint is 5 to 12° off."""
    offset = np.radians(rng.uniform(5.0, 12.0)) * rng.choice([-1.0, 1.0])
    return replace(log, q=log.q + offset * (np.arange(log.file.n) == 3))


def _hit(log: Log, rng: Any) -> Log:
    """One joint is held for 0.4 s: four times its torque more."""
    begin = rng.uniform(0.3, 0.7) * log.t[-1]
    held = (log.t >= begin) & (log.t < begin + 0.4)
    joint = np.arange(log.file.n) == rng.integers(log.file.n)
    return replace(log, tau=log.tau + np.outer(held, 4.0 * joint * log.tau.std(axis=0)))


def _of_another_robot(log: Log, rng: Any) -> Log:
    """Return the motion of a log with the torques that a PUMA 560 needs for it."""
    states = log.q, np.gradient(log.q, log.t, axis=0), log.ddq
    tau = md.inverse_dynamics(true_robot(md.load("puma560"), rng), *states)
    return replace(log, tau=tau + log.noise * rng.normal(size=tau.shape))


def _computed_from_file(log: Log, rng: Any) -> Log:
    """Torques of the robot's file along a motion, rounded to six digits."""
    motion = md.trajectory.fourier(log.file, seed=log.seed)(log.t)
    file = log.file.with_drives(False, ())
    return replace(log, q=motion[0], dq=None, tau=md.inverse_dynamics(file, *motion).round(6))


FAULTS: dict[str, tuple[str, str, tuple[str, ...], Callable[[Log, Any], Log]]] = {
    "recording.time_restarts": ("time begins anew in the middle", "read", ROBOTS, _restarts),
    "recording.time_stands_still": (
        "all times equal",
        "read",
        ROBOTS,
        lambda log, rng: replace(log, t=0 * log.t),
    ),
    "recording.repeated_times": (
        "1 % of the samples with the time before",
        "read",
        ROBOTS,
        _repeated,
    ),
    "recording.time_sorted": ("five pairs of samples swapped", "read", ROBOTS, _swapped),
    "recording.gaps": ("4 to 60 samples lost", "read", ROBOTS, _gap),
    "recording.uneven_times": (
        "times jitter by 5 % of a step",
        "read",
        ROBOTS,
        lambda log, rng: replace(
            log, t=log.t + 0.05 * (log.t[1] - log.t[0]) * rng.normal(size=len(log.t)).clip(-5, 5)
        ),
    ),
    "recording.odd_rate": (
        "microseconds in a column of seconds",
        "read",
        ROBOTS,
        lambda log, rng: replace(log, t=1e6 * log.t),
    ),
    "recording.torque_not_measured": (
        "the torque of the last joint is zero throughout",
        "prepare",
        ROBOTS,
        lambda log, rng: replace(
            log, tau=np.column_stack([log.tau[:, :-1], np.zeros((len(log.t), 1))])
        ),
    ),
    "recording.not_numbers": ("three values lost", "read", ROBOTS, _holes(3)),
    "recording.still": (
        "a joint that does not move",
        "read",
        ROBOTS,
        lambda log, rng: replace(log, q=_one_joint(log.q, lambda x: 0 * x, rng), dq=None),
    ),
    "recording.held": ("positions held for 2 to 5 samples", "read", ROBOTS, _held),
    "recording.range": (
        "positions in degrees",
        "read",
        (*ARMS, "two_link"),
        lambda log, rng: replace(log, q=np.rad2deg(log.q), dq=None),
    ),
    "recording.limits": ("an offset beyond the limits", "read", LIMITED, _beyond),
    "recording.torque_range": ("torques in mNm", "read", LIMITED, _torque(1e3)),
    "recording.speeds": ("a speed with another unit, factor or sign", "read", ROBOTS, _speeds),
    "prepare.gaps": ("4 to 60 samples lost", "prepare", ROBOTS, _gap),
    "prepare.holes": ("20 values lost in a row", "prepare", ROBOTS, _holes(20)),
    "prepare.holes_bridged": ("three values lost", "prepare", ROBOTS, _holes(3)),
    "prepare.too_short": (
        "a piece of 10 samples apart",
        "prepare",
        ROBOTS,
        lambda log, rng: replace(log, t=log.t + (log.t > log.t[-11])),
    ),
    "prepare.no_whole_sample": ("torques lost from a gap on", "prepare", ROBOTS, _lost),
    "prepare.spikes": ("three wild positions", "prepare", ROBOTS, _spikes),
    "friction.too_few_samples": (
        "half a second",
        "identify",
        ("ur10e", "panda"),
        lambda log, rng: _samples(log, slice(0, 60)),
    ),
    "friction.missing": (
        "a robot file without friction terms, friction own",
        "identify",
        ROBOTS,
        lambda log, rng: replace(log, options={"friction": "own"}),
    ),
    "identify.poor_excitation": (
        "all joints swing together by 6°",
        "identify",
        ROBOTS,
        _small_motion,
    ),
    "identify.helpful_motion": (
        "all joints swing together by 6°",
        "identify",
        ROBOTS,
        _small_motion,
    ),
    "identify.gravity_direction": ("the robot on a wall", "identify", ARMS, _on_a_wall),
    "identify.torque_delay": ("torques 10 to 40 ms late or early", "check", ROBOTS, _late),
    "consistency.open": (
        "only the first joint moves",
        "identify",
        ("scara", "panda", "ur10e"),
        _resting,
    ),
    "consistency.costs": ("torques of the opposite sign", "identify", ROBOTS, _torque(-1.0)),
    "identify.biased": ("noisy speeds and accelerations (30 %)", "iv", SMALL, _noisy(0.3)),
    "identify.columns_too_noisy": (
        "noisy speeds and accelerations (100 %)",
        "tls",
        SMALL,
        _noisy(1.0),
    ),
    OFF: ("torques 10 to 40 ms late, friction off", "fit", SMALL, _late_without_friction),
    "recording.ddq_noisy": (
        "accelerations by differences of noisy speeds",
        "use_ddq",
        ROBOTS,
        _differences,
    ),
    "check.not_fitted": (
        "eight samples",
        "check",
        ROBOTS,
        lambda log, rng: _samples(log, slice(0, 8)),
    ),
    "check.not_shown": (
        "a joint that does not move",
        "check",
        ROBOTS,
        lambda log, rng: replace(
            log, q=np.where(np.arange(log.file.n) > 0, log.q, log.q[0]), dq=None
        ),
    ),
    "check.not_explained": ("torques of another time", "check", ROBOTS, _of_another_time),
    "check.little_explained": (
        "a wave of a quarter of the torque, 2.5 to 5 Hz",
        "check",
        ROBOTS,
        _wave,
    ),
    "check.beyond_limits": (
        "positions in degrees",
        "check",
        ("panda", "ur10e"),
        lambda log, rng: replace(log, q=np.rad2deg(log.q), dq=None),
    ),
    "check.no_torque": (
        "torques of zero",
        "check",
        ROBOTS,
        lambda log, rng: replace(log, tau=0 * log.tau),
    ),
    "check.no_motion": (
        "positions that do not change",
        "check",
        ROBOTS,
        lambda log, rng: replace(log, q=0 * log.q + log.q[0], dq=None),
    ),
    "check.saturated": ("one torque cut off at 2/3 of its largest", "check", ROBOTS, _cut_off),
    "check.few_reversals": ("one joint goes one way", "check", ROBOTS, _one_way),
    "check.rests": ("one joint stands for nine tenths of the log", "check", ROBOTS, _waits),
    "check.speed_limit": (
        "times a tenth of what they are",
        "check",
        ("panda", "ur10e"),
        lambda log, rng: replace(log, t=0.1 * log.t, dq=None),
    ),
    "check.rates_differ": (
        "half of the log with a fifth of the samples",
        "check",
        ROBOTS,
        _two_rates,
    ),
    "payload.friction_changed": (
        "half the friction of three joints",
        "payload",
        ARMS,
        _changed(_warmer),
    ),
    "payload.torque_scale_changed": (
        "one joint's torque 15 % larger",
        "payload",
        ARMS,
        _scaled_joint,
    ),
    "payload.gravity_turned": ("base tilted by 3°", "payload", ARMS, _changed(_tilted)),
    "payload.link_changed": (
        "a tenth of the robot's mass on the upper arm",
        "payload",
        ARMS,
        _changed(_mounted),
    ),
    "payload.noisy": ("torques of another source, 30 %", "payload", ARMS, _touched),
    "payload.negative": ("no load, baseline with one", "payload", ARMS, _load(share=-0.08)),
    "payload.none": ("no load", "payload", ARMS, _load(share=0.0)),
    "payload.below_residual": (
        "a load of 0.05 % of the robot's mass",
        "payload",
        ARMS,
        _load(share=0.0005),
    ),
    "payload.loose_mass": (
        "a load of 1 %, one second",
        "payload",
        ARMS,
        _load(share=0.01, seconds=1.0),
    ),
    "payload.loose_centre": (
        "a load of 1 %, one second",
        "payload",
        ARMS,
        _load(share=0.01, seconds=1.0),
    ),
    "payload.loose_inertia": ("a tenth of the speed", "payload", ARMS, _load(slow=10.0)),
    "signals.torque_scale": ("amperes (1/12)", "identify", ARMS, _torque(1 / 12)),
    "signals.computed": (
        "torques computed from the robot's file",
        "identify",
        ARMS,
        _computed_from_file,
    ),
    "signals.joint_scale": (
        "one joint's torque 30 % larger",
        "identify",
        ("puma4", "panda", "ur10e"),
        lambda log, rng: replace(log, tau=log.tau * np.where(np.arange(log.file.n) == 1, 1.3, 1.0)),
    ),
    "signals.encoder_offset": (
        "the fourth encoder 5 to 12° off",
        "identify",
        ARMS,
        _turned_encoder,
    ),
    "signals.burst": ("four times a joint's torque more for 0.4 s", "identify", ROBOTS, _hit),
    "signals.other_cause": (
        "times twice what they are",
        "identify",
        ARMS,
        lambda log, rng: replace(log, t=2.0 * log.t, dq=None),
    ),
    "signals.unlike_file": (
        "torques of another robot",
        "identify",
        ("ur10e", "ur10"),
        _of_another_robot,
    ),
    "signals.mass": ("half the torque", "identify", ARMS, _torque(0.5)),
}
"""For each notice: the fault, up to where a log must go, robots, and how it is planted."""
