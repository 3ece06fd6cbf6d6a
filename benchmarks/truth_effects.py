"""Effects that truth.py plants into simulated runs: what real logs hold and plain models do not.

An effect may change the robot, the torque, the motion, the log, the robot's file, or the robot of
the test run. Torque that depends on the past is computed along the motion, a thousand times a
second. Sizes that belong to a robot, such as a Stribeck speed, are drawn for the speeds and loads
of its first run and stay what they are in others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import make_interp_spline

import minidyn as md
from alarm_logs import RATES, Array, Log, _samples
from two_masses import planted_stiffness, two_mass_torque

FINE = 1000.0
"""Samples a second along which torques with a memory are computed.

Each rate of a log divides it.
"""

Torque = Callable[[Array, Array], Array]  # of positions and speeds (N, n), FINE samples a second
Motion = Callable[[Array], tuple[Array, Array, Array]]


@dataclass(frozen=True)
class Effect:
    """What is planted; hooks that are None change nothing."""

    words: str
    # more torque on the true robot: of the robot, a random generator, and positions and speeds of
    # its first run
    torque: Callable[[md.Robot, Any, Array, Array], Torque] | None = None
    fitted_alone: bool = False  # whether the test run has none of that torque
    motion: Callable[[Motion], Motion] | None = None  # of both runs
    shown: dict[str, Any] | None = None  # options of the fitted run's fourier motion
    seconds: float = 0.0  # of the fitted run; 0: as healthy logs
    log: Callable[[Log, Any], Log] | None = None  # the fitted run as it is logged
    file: Callable[[md.Robot, Any], md.Robot] | None = None  # what the robot's file says
    later: Callable[[md.Robot, Any], md.Robot] | None = None  # the robot of the test run
    rates: tuple[float, ...] = RATES


def values_of(robot: md.Robot, symbol: str) -> Array:
    """Return a drive parameter of each joint (n,)."""
    return np.array(
        [
            robot.parameters[c.index]
            for own in robot.layout.drives
            for c in own
            if c.symbol == symbol
        ]
    )


def planted(
    effect: Effect, true: md.Robot, rng: Any, motion: Motion, seconds: float
) -> Torque | None:
    """Return the torque that an effect adds to a robot in every run.

    Its first run is the motion.
    """
    return (
        None
        if effect.torque is None
        else effect.torque(true, rng, *motion(np.arange(0.0, seconds, 0.01))[:2])
    )


def along(torque: Torque, motion: Motion) -> Callable[[Array], Array]:
    """Return a torque as a function of evenly spaced times."""

    def at(t: Array) -> Array:
        every = round(FINE * float(t[1] - t[0]))
        q, dq, _ = motion(np.arange(len(t) * every) / FINE)
        return torque(q, dq)[::every]

    return at


def soft_sign(robot: md.Robot, dq: Array) -> Array:
    """Return the sign of speeds (N, n) as the robot's Coulomb friction has it."""
    width = np.array([joint.drive.sign_width for joint in robot.joints])
    return np.asarray(dq / np.sqrt(dq**2 + width**2 + 1e-300))


def rms(values: Array) -> Array:
    """Return the root mean square of each column."""
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))


# torques
def _memory(q: Array, travel: Array) -> Array:
    """Return the state of Dahl's model (N, n), -1 to 1.

    It follows the sign of motion over a travel, rad or m.
    """
    steps = np.diff(q, axis=0, prepend=q[:1])
    sign, decay = np.sign(steps), np.exp(-np.abs(steps) / travel)
    z, found = np.zeros(q.shape[1]), np.empty_like(q)
    for k in range(len(q)):
        z = sign[k] + (z - sign[k]) * decay[k]
        found[k] = z
    return found


def _presliding(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    travel, size = np.exp(rng.uniform(np.log(1e-4), np.log(4e-3), true.n)), values_of(true, "Fc")
    return lambda q, dq: size * (_memory(q, travel) - soft_sign(true, dq))


def _stribeck(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    size, fall = (
        values_of(true, "Fc") * rng.uniform(0.5, 1.0, true.n),
        rng.uniform(0.05, 0.3, true.n) * rms(dq),
    )
    return lambda q, dq: size * np.exp(-((dq / fall) ** 2)) * soft_sign(true, dq)


def _curve(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """Coulomb friction that falls to 60 % and viscous friction that saturates."""
    coulomb, viscous, n = values_of(true, "Fc"), values_of(true, "Fv"), true.n
    fall, bend = rng.uniform(0.1, 0.4, n) * rms(dq), rng.uniform(0.3, 1.0, n) * rms(dq)

    def torque(q: Array, dq: Array) -> Array:
        less = 0.4 * coulomb * (np.exp(-np.abs(dq) / fall) - 1.0) * soft_sign(true, dq)
        return np.asarray(less + viscous * (2.0 * bend * np.tanh(dq / bend) - dq))

    return torque


def _breakaway(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """More friction after a rest, which decays with the travel."""
    size, travel = (
        values_of(true, "Fc") * rng.uniform(0.5, 1.5, true.n),
        rng.uniform(3e-3, 8e-3, true.n),
    )

    def torque(q: Array, dq: Array) -> Array:
        path = np.cumsum(np.abs(np.diff(q, axis=0, prepend=q[:1])), axis=0)
        resting = np.abs(dq) < 1e-9
        rested = np.maximum.accumulate(np.where(resting, path, -np.inf), axis=0)
        return np.asarray(size * np.exp(-(path - rested) / travel) * np.sign(dq) * ~resting)

    return torque


def _ripple(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """Waves at once and twice the gear ratio, larger at higher speeds."""
    ratio, size = (
        rng.integers(30, 161, true.n),
        rng.uniform(0.3, 1.0, true.n) * values_of(true, "Fc"),
    )
    phase, speed = rng.uniform(0, 2 * np.pi, (2, true.n)), rms(dq)

    def torque(q: Array, dq: Array) -> Array:
        waves = np.sin(ratio * q + phase[0]) + 0.5 * np.sin(2 * ratio * q + phase[1])
        return np.asarray(size * (0.5 + 0.5 * np.abs(dq) / speed) * waves)

    return torque


def _gravity(true: md.Robot, q: Array) -> Array:
    bare = true.with_drives(False, ())
    return np.asarray(md.inverse_dynamics(bare, q, 0 * q, 0 * q))


def _load(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    share, links = rng.uniform(0.05, 0.15, true.n), true.with_drives(False, ())

    def torque(q: Array, dq: Array) -> Array:
        carried = md.inverse_dynamics(links, q, dq, np.gradient(dq, 1.0 / FINE, axis=0))
        return np.asarray(share * np.abs(carried) * soft_sign(true, dq))

    return torque


def _weight(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    share = rng.uniform(0.05, 0.15, true.n)
    return lambda q, dq: share * np.abs(_gravity(true, q)) * soft_sign(true, dq)


def _compensator(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """A spring between two points, on the joint that gravity loads most."""
    size, a, b = rng.uniform(0.4, 0.8), 0.15, 0.6
    length = rng.uniform(0.3, 0.44)
    turn = rng.uniform(-0.5, 0.5)
    load = rms(_gravity(true, q)) + 0.02 * rms(md.inverse_dynamics(true, q, dq, 0 * q)).max()
    joint = int(np.argmax(load * np.array([joint.turns for joint in true.joints])))

    def torque(q: Array, dq: Array) -> Array:
        angle = q[:, joint] - turn
        far = np.sqrt(a**2 + b**2 - 2 * a * b * np.cos(angle))
        pull = np.sin(angle) * (1.0 - length / far)
        found = np.zeros_like(q)
        found[:, joint] = -size * load[joint] * pull / 0.3
        return found

    return torque


def _flexible(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """Links on springs behind drives that follow the motion: two masses a joint, integrated."""
    k = planted_stiffness(true, float(rng.uniform(10.0, 20.0)), rng)

    def torque(q: Array, dq: Array) -> Array:
        t = np.arange(len(q)) / FINE
        path = make_interp_spline(t, q, 7)

        def motion(t: Array) -> tuple[Array, Array, Array]:
            return path(t), path(t, 1), path(t, 2)

        rigid = md.inverse_dynamics(true, *motion(t))
        return np.asarray(two_mass_torque(true, k, motion, t, before=0.0) - rigid)

    return torque


def _warming(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """Friction of 5 to 20 % more than in the end, which falls over a tenth of the run to all of
    it.
    """
    viscous, coulomb, share = values_of(true, "Fv"), values_of(true, "Fc"), rng.uniform(0.05, 0.2)
    part = np.exp(rng.uniform(np.log(0.1), 0.0))

    def torque(q: Array, dq: Array) -> Array:
        left = np.exp(-np.arange(len(q)) / (part * len(q)))[:, None] - np.exp(-1.0 / part)
        return np.asarray(
            share
            / (1.0 - np.exp(-1.0 / part))
            * left
            * (viscous * dq + coulomb * soft_sign(true, dq))
        )

    return torque


def _everything(true: md.Robot, rng: Any, q: Array, dq: Array) -> Torque:
    """What an industrial arm has, each smaller than alone."""
    parts = [make(true, rng, q, dq) for make in (_presliding, _stribeck, _ripple, _load)]
    return lambda q, dq: np.asarray(parts[0](q, dq) + 0.4 * sum(part(q, dq) for part in parts[1:]))


# motions
def _with_rests(plain: Motion) -> Motion:
    """A rest of half a second every three seconds: time runs slower, stands, and runs again."""
    period, ramp, rest = 3.0, 0.3, 0.5

    def rate(
        p: Array,
    ) -> tuple[
        Array, Array, Array
    ]:  # of time within a period: its integral, itself, its derivative
        stop = period - rest
        up, down = np.clip(p / ramp, 0, 1), np.clip((stop - p) / ramp, 0, 1)
        inner = np.clip(p - ramp, 0, stop - 2 * ramp)
        total = ramp * (up**3 - up**4 / 2) + inner + ramp * (0.5 - (down**3 - down**4 / 2))
        w = np.where(p < period / 2, 3 * up**2 - 2 * up**3, 3 * down**2 - 2 * down**3)
        slope = np.where(p < period / 2, 6 * (up - up**2), -6 * (down - down**2)) / ramp
        return total, w, slope

    def motion(t: Array) -> tuple[Array, Array, Array]:
        whole, p = np.divmod(t, period)
        total, w, slope = rate(p)
        q, dq, ddq = plain(whole * rate(np.array([period]))[0] + total)
        return q, dq * w[:, None], ddq * w[:, None] ** 2 + dq * slope[:, None]

    return motion


def _quicker(plain: Motion) -> Motion:
    """Three times faster."""

    def motion(t: Array) -> tuple[Array, Array, Array]:
        q, dq, ddq = plain(3.0 * t)
        return q, 3.0 * dq, 9.0 * ddq

    return motion


# logs
def _jitter(log: Log, rng: Any) -> Log:
    """Stamps off by 13 % of a step, 6 % of the positions those of the sample before."""
    step = log.t[1] - log.t[0]
    rows = np.arange(len(log.t))
    late = 1 + np.flatnonzero(rng.random(len(rows) - 1) < 0.06)
    rows[late] -= 1
    t = log.t + 0.13 * step * rng.normal(size=len(rows)).clip(-3.5, 3.5)
    return replace(log, t=t, q=log.q[rows])


def _steps(log: Log, rng: Any) -> Log:
    """Every fifth or sixth sample, at random, with its time."""
    rows = np.cumsum(rng.choice([5, 6], len(log.t) // 6))
    return _samples(log, rows[rows < len(log.t)])


def _held(log: Log, rng: Any) -> Log:
    rows = np.arange(len(log.t)) // 4 * 4
    return _samples(log, rows, t=log.t)


def _delay(log: Log, rng: Any) -> Log:
    delay = float(rng.uniform(0.005, 0.02))
    return replace(
        log, tau=np.column_stack([np.interp(log.t - delay, log.t, column) for column in log.tau.T])
    )


def _dropped(log: Log, rng: Any) -> Log:
    keep = rng.random(len(log.t)) > 0.02
    keep[[0, -1]] = True
    return _samples(log, keep)


def _wrapped(log: Log, rng: Any) -> Log:
    turning = np.array([joint.turns for joint in log.file.joints])
    return replace(log, q=np.where(turning, np.mod(log.q, 2 * np.pi), log.q))


def _coarse(log: Log, rng: Any) -> Log:
    step = float(rng.choice([5e-4, 1e-3, 2e-3]))
    return replace(log, q=np.round(log.q / step) * step, dq=None)


def _noisy(log: Log, rng: Any) -> Log:
    return replace(log, tau=log.tau + 0.15 * rms(log.tau) * rng.normal(size=log.tau.shape))


# files and robots
def _wrong_file(file: md.Robot, rng: Any) -> md.Robot:
    """Each link's mass off by a factor of two or so.

    All of them by another, or two links without mass.
    """
    values, kind = np.array(file.parameters), int(rng.integers(3))
    links = file.layout.links
    factors = (
        np.exp(rng.normal(0.0, 0.7, len(links)))
        if kind == 0
        else np.full(len(links), rng.choice([0.3, 3.0]))
    )
    if kind == 2:
        factors = np.ones(len(links))
        factors[rng.choice(len(links), min(2, len(links)), replace=False)] = 0.0
    for part, factor in zip(links, factors):
        values[part] *= factor
    return file.with_parameters(values)


def _warm(true: md.Robot, rng: Any) -> md.Robot:
    """Friction 30 % less to 30 % more."""
    values = true.parameters.copy()
    for own in true.layout.drives:
        factor = rng.uniform(0.7, 1.3)
        for column in own:
            values[column.index] *= factor if column.symbol in ("Fv", "Fc") else 1.0
    return true.with_parameters(values)


EFFECTS = {
    "none": Effect("nothing: viscous and Coulomb friction, offset, rotor inertia"),
    "noise": Effect("torque noise of 15 %", log=_noisy),
    "fast": Effect("five times faster motion", shown={"period": 2.0, "speed": 3.0}),
    "jitter": Effect(
        "1 kHz, stamps off by 13 % of a step, 6 % repeated positions", log=_jitter, rates=(1000.0,)
    ),
    "steps": Effect("steps of 10 and 12 ms, at random", log=_steps, rates=(500.0,)),
    "held": Effect("logged four times as often as measured", log=_held, rates=(500.0, 1000.0)),
    "dropped": Effect("2 % of the samples lost", log=_dropped),
    "wrapped": Effect("encoders from 0 to 2 pi", log=_wrapped),
    "delay": Effect("torques 5 to 20 ms late", log=_delay),
    "encoder": Effect("encoder steps of 0.5 to 2 mrad", log=_coarse),
    "presliding": Effect(
        "Coulomb friction reverses over a travel of 0.1 to 4 mrad", torque=_presliding
    ),
    "stribeck": Effect("Stribeck friction, half to once the Coulomb friction", torque=_stribeck),
    "curve": Effect("Coulomb friction that falls, viscous friction that saturates", torque=_curve),
    "breakaway": Effect(
        "more friction after rests, over a travel of 3 to 8 mrad",
        torque=_breakaway,
        motion=_with_rests,
    ),
    "ripple": Effect("waves at once and twice a gear ratio of 30 to 160", torque=_ripple),
    "flexible": Effect(
        "joints that give way, links swing at about 10 to 20 Hz; motion three times faster",
        torque=_flexible,
        motion=_quicker,
    ),
    "load": Effect("friction of 5 to 15 % of what drives carry", torque=_load),
    "weight": Effect("friction of 5 to 15 % of what drives carry at rest", torque=_weight),
    "everything": Effect(
        "presliding, and 40 % of Stribeck, ripple and load friction", torque=_everything
    ),
    "drift": Effect("friction 30 % less to more in the test run", later=_warm),
    "warming": Effect(
        "friction falls by 5 to 20 % during the fitted run", torque=_warming, fitted_alone=True
    ),
    "prior": Effect("a robot file that is wrong by factors", file=_wrong_file),
    "weak": Effect(
        "4 s of small, slow motion",
        shown={"period": 8.0, "speed": 0.6, "use": 0.25, "harmonics": 3},
        seconds=4.0,
    ),
    "weak_prior": Effect(
        "both of these",
        file=_wrong_file,
        shown={"period": 8.0, "speed": 0.6, "use": 0.25, "harmonics": 3},
        seconds=4.0,
    ),
    "compensator": Effect("a spring that carries half of the weight", torque=_compensator),
}
"""Effects by name."""
