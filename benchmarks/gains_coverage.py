"""Drive gains: how often the stated intervals hold the truth, over simulated pairs of runs.

    python benchmarks/gains_coverage.py 0 200 [LEVEL]

Plants are Pinocchio's. Each pair has its own motions, gains and drives: friction that is not in
the list of terms (Stribeck, powers of the speed, other in each direction, with the position, and
5 % warmer or colder in the second run), torque noise with a memory, encoders of 16 bits. LEVEL
scales noise and friction; 1: friction of 20 to 80 % of the torque, noise of 2 % of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import minidyn as md
from minidyn.arrays import Array
from minidyn.model.parameters import from_body

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "peers")]

MASS = 5.0
LOAD = from_body(MASS, [0.03, -0.02, 0.1], np.diag([0.030, 0.032, 0.016]))
ROBOT, SECONDS, RATE, STEP = "puma4", 20.0, 250.0, 2 * np.pi / 2**16
OPEN = 0.1  # relative deviation from which a gain is called open


def rubbed(rng: np.random.Generator, joints: int):  # type: ignore[no-untyped-def]
    """Return friction of drives (N, n) as a function of q and dq (N, n), in parts of the torque."""
    dry, viscous = rng.uniform(0.2, 0.8, joints), rng.uniform(0.1, 0.5, joints)
    fall, width = rng.uniform(0.1, 0.5, joints), rng.uniform(0.05, 0.3, joints)
    side, wave = rng.uniform(-0.15, 0.15, joints), rng.uniform(0.0, 0.1, joints)
    phase, power = rng.uniform(0.0, 6.0, joints), rng.uniform(0.5, 0.9, joints)

    def friction(q: Array, dq: Array) -> Array:
        sign = np.tanh(dq / 0.01)
        stribeck = 1.0 + fall * np.exp(-np.abs(dq) / width) + side * sign
        sliding = viscous * np.sign(dq) * np.abs(dq) ** power
        return dry * sign * stribeck * (1.0 + wave * np.sin(3.0 * q + phase)) + sliding

    return friction


def pair(seed: int, level: float = 1.0) -> tuple[md.Robot, list[md.Recording], Array]:
    """Return the robot, logs without and with the load, and the true gains (n,)."""
    from pinocchio_model import PinocchioRobot
    from scipy.signal import lfilter

    rng, robot = np.random.default_rng(seed), md.load(ROBOT).with_drives(True, ())
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    gains, friction = rng.uniform(5.0, 15.0, robot.n), rubbed(rng, robot.n)
    t, runs = np.arange(0.0, SECONDS, 1.0 / RATE), []
    for number, plant in enumerate((robot, md.Payload(0.0, LOAD).on(robot))):
        path = md.trajectory.fourier(robot, seed=1000 * seed + number, speed=rng.uniform(0.5, 2.0))
        q, dq, ddq = path(t)
        pinocchio = PinocchioRobot(plant)
        tau = np.array([pinocchio.inverse_dynamics(*state) for state in zip(q, dq, ddq)])
        size = np.sqrt(np.mean(tau**2, axis=0))
        warmth, memory = 1.0 + 0.05 * rng.normal(size=robot.n), rng.uniform(0.5, 0.98)
        white = rng.normal(size=q.shape)
        noise = lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], white, axis=0)
        tau = tau + level * size * (warmth * friction(q, dq) + 0.02 * noise)
        coarse = np.round(q / STEP) * STEP
        runs.append(md.Recording(t, coarse, tau / gains, joint_names=robot.joint_names))
    return robot, runs, gains


def scores(seeds: range, level: float = 1.0) -> tuple[Array, Array, int]:
    """Return errors over stated deviations, relative deviations (k, n), and pairs refused."""
    errors, sizes, refused = [], [], 0
    for seed in seeds:
        robot, runs, gains = pair(seed, level)
        terms = {"friction": ("viscous", "coulomb", "offset"), "rotor_inertia": True}
        try:
            found = md.identify_drive_gains(robot.with_parameters(None), *runs, MASS, **terms)
        except md.MinidynError:
            refused += 1
            continue
        errors.append((found.gains - gains) / found.std)
        sizes.append(found.std / found.gains)
    return np.array(errors), np.array(sizes), refused


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    level = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    z, size, refused = scores(range(first, last), level)
    closed = size < OPEN
    inside = np.abs(z) < 1.96
    print(f"pairs {last - first}, refused {refused}, level {level:g}")
    print(f"95 % intervals that hold the truth: {100 * inside.mean():.1f} % of all gains")
    print(f"  {100 * inside[closed].mean():.1f} % of {closed.sum()} that are not open")
    print(f"root mean square score {np.sqrt(np.mean(z[closed] ** 2)):.2f}")
    print(f"median relative deviation of each joint, %: {np.round(100 * np.median(size, 0), 2)}")


if __name__ == "__main__":
    main()
