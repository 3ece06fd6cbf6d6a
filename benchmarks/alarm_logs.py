"""Simulated logs for alarms.py: healthy ones, and faults that are planted into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import minidyn as md

Array = NDArray[np.float64]

ROBOTS = ("two_link", "scara", "puma4", "panda", "ur10e", "ur10", "two_arm")  # whose links are bodies that can exist
LIMITED = ("scara", "panda", "ur10e")  # with limits of positions and torques
SMALL = ("two_link", "scara", "puma4")
ARMS = ("panda", "ur10e", "ur10")  # with links that gravity pulls
RATES = (100.0, 125.0, 250.0, 500.0, 1000.0)
OFF = "identify.torque_delay, friction off"  # the same notice where friction is there, but not in the model


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


def motion_log(file: md.Robot, true: md.Robot, seed: int, rng: Any, motion: Any, duration: float) -> Log:
    """Return what is logged of a motion: encoders with steps, noisy torques, speeds that are measured or not."""
    rate = float(rng.choice(RATES))
    t = np.arange(int(duration * rate)) / rate
    q, dq, ddq = motion(t)
    tau = md.inverse_dynamics(true, q, dq, ddq)
    size = np.sqrt(np.mean(tau**2, axis=0))
    tau = tau + rng.choice([0.005, 0.02, 0.05]) * size * rng.normal(size=tau.shape)
    step = float(rng.choice([2e-6, 1e-5, 1e-4]))
    q = np.round((q + step * rng.normal(size=q.shape)) / step) * step
    noise = rng.choice([0.0, 0.02, 0.1, 0.3]) * np.sqrt(np.mean(dq**2, axis=0))
    speeds = dq + noise * rng.normal(size=q.shape) if rng.random() < 0.7 else None
    return Log(file, true, t, q, speeds, tau, seed, {})


# faults: each changes a healthy log
def _samples(log: Log, keep: Any, **more: Any) -> Log:
    dq = None if log.dq is None else log.dq[keep]
    return replace(log, **({"t": log.t[keep], "q": log.q[keep], "dq": dq, "tau": log.tau[keep]} | more))


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


def _late_without_friction(log: Log, rng: Any) -> Log:
    return replace(_late(log, rng), options={"friction": ()})


FAULTS: dict[str, tuple[str, str, tuple[str, ...], Callable[[Log, Any], Log]]] = {
    "recording.time_restarts": ("time begins anew in the middle", "read", ROBOTS, _restarts),
    "recording.time_stands_still": ("all times equal", "read", ROBOTS, lambda log, rng: replace(log, t=0 * log.t)),
    "recording.repeated_times": ("1 % of the samples with the time before", "read", ROBOTS, _repeated),
    "recording.time_sorted": ("five pairs of samples swapped", "read", ROBOTS, _swapped),
    "recording.gaps": ("4 to 60 samples lost", "read", ROBOTS, _gap),
    "recording.uneven_times": (
        "times jitter by 5 % of a step",
        "read",
        ROBOTS,
        lambda log, rng: replace(log, t=log.t + 0.05 * (log.t[1] - log.t[0]) * rng.normal(size=len(log.t)).clip(-5, 5)),
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
    "identify.poor_excitation": ("all joints swing together by 6°", "identify", ROBOTS, _small_motion),
    "identify.helpful_motion": ("all joints swing together by 6°", "identify", ROBOTS, _small_motion),
    "identify.torque_delay": ("torques 10 to 40 ms late or early", "identify", ROBOTS, _late),
    "consistency.open": ("only the first joint moves", "identify", ("scara", "panda", "ur10e"), _resting),
    "consistency.costs": ("torques of the opposite sign", "identify", ROBOTS, _torque(-1.0)),
    "identify.biased": ("noisy speeds and accelerations (30 %)", "iv", SMALL, _noisy(0.3)),
    "identify.columns_too_noisy": ("noisy speeds and accelerations (100 %)", "tls", SMALL, _noisy(1.0)),
    OFF: ("torques 10 to 40 ms late, friction off", "fit", SMALL, _late_without_friction),
    "signals.torque_scale": ("amperes (1/12)", "identify", ARMS, _torque(1 / 12)),
    "signals.mass": ("half the torque", "identify", ARMS, _torque(0.5)),
}
"""For each notice: the fault, up to where a log must go, robots, and how it is planted."""
