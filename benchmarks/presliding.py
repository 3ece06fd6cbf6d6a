"""Friction planted into simulated logs.

What presliding among the terms gains, and whether it is chosen without need.

    python benchmarks/presliding.py [SEEDS]

A ur10e moves along random Fourier motions at 500 Hz; positions have noise of 10 µrad, torques of 2
%. Friction is made here, in NumPy, not by the package. Default settings, no prior; the error is
that of another motion, torques without noise, with all of the terms of friction="auto" and without
presliding.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import minidyn as md

Array = NDArray[np.float64]
RATE, SECONDS = 500.0, 20.0


def dahl(path: Array, travel: Array) -> Array:
    """Return the states (N, n) of drives along positions (N, n), sample by sample."""
    z = np.zeros_like(path)
    for row in range(1, len(path)):
        step = path[row] - path[row - 1]
        side = np.sign(step)
        z[row] = np.where(
            step == 0, z[row - 1], side - (side - z[row - 1]) * np.exp(-np.abs(step) / travel)
        )
    return z


Friction = Callable[[Array, Array, NDArray[np.float64]], Array]


def plants(rng: np.random.Generator, n: int) -> dict[str, Friction]:
    """Return {effect: (q, dq, size of each joint) -> torque (N, n)}."""
    viscous, coulomb, second = rng.uniform(0.5, 1.5, (3, n))
    travel, width = 10 ** rng.uniform(-3.5, -2.0, n), rng.uniform(0.005, 0.05, n)

    def smooth(dq: Array) -> Array:
        return dq / np.sqrt(dq**2 + width**2)

    return {
        "presliding for Coulomb friction": lambda q, dq, size: (
            size * (viscous * dq + coulomb * dahl(q, travel))
        ),
        "half presliding, half smooth Coulomb friction": lambda q, dq, size: (
            size * (viscous * dq + 0.5 * coulomb * smooth(dq) + 0.5 * second * dahl(q, travel))
        ),
        "Coulomb friction, hard sign": lambda q, dq, size: (
            size * (viscous * dq + coulomb * np.sign(dq))
        ),
        "Coulomb friction, smooth sign": lambda q, dq, size: (
            size * (viscous * dq + coulomb * smooth(dq))
        ),
        "Coulomb and Stribeck friction": lambda q, dq, size: (
            size * (viscous * dq + coulomb * np.sign(dq) * (1 + 0.4 / (1 + (dq / 0.1) ** 2)))
        ),
    }


def logs(
    robot: md.Robot, friction: Friction, rng: np.random.Generator, seed: int
) -> tuple[md.Recording, md.Recording]:
    """Return a log to fit, with noise, and one to test, without noise in its torques."""
    t, made = np.arange(0.0, SECONDS, 1.0 / RATE), []
    size: Array | None = None
    for number in range(2):
        q, dq, ddq = md.trajectory.fourier(robot, seed=10 * seed + number, speed=1.2)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq)
        size = 0.05 * np.sqrt(np.mean(tau**2, axis=0)) + 0.3 if size is None else size
        tau = tau + friction(q, dq, size)
        noise = 0.02 * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
        q = q + 1e-5 * rng.normal(size=q.shape)
        made.append(
            md.Recording(t, q, tau + noise if number == 0 else tau, joint_names=robot.joint_names)
        )
    return made[0], made[1]


def main() -> None:
    """Print the table."""
    described = md.load("ur10e").with_drives(rotor_inertia=True)
    values = described.parameters.copy()
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    names = list(plants(np.random.default_rng(0), described.n))
    print("| planted | without presliding | with it | chosen |\n|---|---:|---:|---|")
    for name in names:
        cells: list[list[str]] = [[], [], []]
        for seed in range(seeds):
            rng = np.random.default_rng([seed, names.index(name)])
            for column in described.layout.columns:
                if column.symbol == "Ia":
                    values[column.index] = rng.uniform(0.1, 0.5)
            robot = described.with_parameters(values).with_drives(friction=())
            fitted, tested = logs(robot, plants(rng, robot.n)[name], rng, seed)
            for place, forbidden in enumerate((("presliding",), ())):
                estimate = md.identify(described, fitted, prior=False, forbid_terms=forbidden)
                cells[place].append(f"{100 * md.validate(estimate, tested).relative_error:.2f} %")
            cells[2].append("yes" if "presliding" in estimate.record["friction"] else "no")
        print(f"| {name} | {' | '.join(', '.join(cell) for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
