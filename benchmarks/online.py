"""Online estimation of a panda arm.

Time of a sample, distance from the batch solution, loads that are picked up.

    python benchmarks/online.py [--runs 40]

The model is that of benchmarks/observer.py; friction of the watched robot is 10 % more or less.
Runs by itself.
"""

from __future__ import annotations

import argparse
import re
import shutil
import time
from typing import Any

import numpy as np

import minidyn as md
from observer import NOISE, estimate_of, panda
from timing import c_seconds

MASS = 1.5
PERIOD = 1e-3


def motion_of(robot: Any, seconds: float, seed: int) -> tuple[np.ndarray, ...]:
    """Return times, positions, speeds and noisy torques; each torque is the mean of its period."""
    t = np.arange(round(seconds / PERIOD)) * PERIOD
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = 0.5 * (tau + np.vstack([tau[1:], tau[-1:]])) + np.random.default_rng(seed).normal(
        scale=NOISE, size=q.shape
    )
    return t, q, dq, tau


def python_time(running: Any) -> float:
    """Return seconds of one sample from Python, the least over blocks of 256."""
    _, *signals = motion_of(panda(), 6.0, 5)
    running.add(*(signal[:256] for signal in signals))
    best = np.inf
    for k in range(256, 5888, 256):
        begin = time.perf_counter()
        running.add(*(signal[k : k + 256] for signal in signals))
        best = min(best, (time.perf_counter() - begin) / 256)
    return best


def c_time(running: Any) -> float | None:
    """Return seconds of one step and update from compiled C; None where there is no gcc."""
    if shutil.which("gcc") is None:
        return None
    source, n = running.source(), running.model.robot.n
    found = re.search(r"int (\w+)\(const double state.(\d+)", source)
    assert found is not None
    name, size = found.groups()
    variables = f"static double state[{size}], q[{n}], dq[{n}], tau[{n}], factors[100000];"
    step = f"""for (int j = 0; j < {n}; j++) {{ q[j] += 1e-3 * dq[j]; dq[j] = 0.5 * sin(0.01 * (k + 37 * j)); }}
            call(state, q, dq, tau, {PERIOD}, state);
            update(state, 1.0, factors);"""  # noqa: E501
    functions = {"call": name, "update": f"{name}_update"}
    return c_seconds(source, functions, variables, n, step, 40)


def from_batch(estimate: Any) -> float:
    """Return the largest distance from least squares of all rows at once, over the largest
    parameter.
    """
    running = md.online(estimate, prior=False)
    _, *signals = motion_of(panda(), 4.0, 6)
    running.add(*signals)
    rows = running._recent()[0]
    blocks, sides = [], []
    for joint, (part, columns) in enumerate(zip(running._parts, running._columns)):
        X = np.zeros((len(rows), len(estimate.beta)))
        X[:, list(columns)] = rows[:, part]
        blocks.append(X / running._scale[joint])
        sides.append(rows[:, running._entries + joint] / running._scale[joint])
    X, y = np.concatenate(blocks), np.concatenate(sides)
    size = np.linalg.norm(X, axis=0)
    batch = np.linalg.lstsq(X / size, y, rcond=None)[0] / size
    return float(np.abs(running.beta - batch).max() / np.abs(batch).max())


def loads(estimate: Any, runs: int) -> dict[float, tuple[float, float, float, float]]:
    """Return by seconds since the pick-up.

    Share found, median error and deviation of the mass, share within 2 std.
    """
    held = {"mass": MASS, "com": [0.02, 0.01, 0.1], "inertia": np.diag([0.004, 0.004, 0.002])}
    after = (0.25, 0.5, 1.0)
    found: dict[float, list[tuple[float, float]]] = {seconds: [] for seconds in after}
    for seed in range(runs):
        robot = panda(0.9 if seed % 2 else 1.1)
        law = md.control.computed_torque(robot, bandwidth=10)
        motion, load = md.trajectory.fourier(robot, seed=2000 + seed), md.Payload(0.5, held)
        log = md.simulate(robot, law, motion, 1.5, torque_noise=NOISE, payload=load, seed=seed)
        running = md.online(estimate)
        done = 0
        for seconds in after:
            until = round((0.5 + seconds) / PERIOD)
            running.add(log.q[done:until], log.dq[done:until], log.tau[done:until])
            done = until
            change = running.change
            if change is not None:
                load_now = change.load
                found[seconds].append(
                    (load_now.settings["unconstrained"][9] - MASS, load_now.std["mass"])
                )
    table = {}
    for seconds, pairs in found.items():
        error, std = np.array(pairs).T if pairs else np.full((2, 1), np.nan)
        within = float(np.mean(np.abs(error) <= 2 * std))
        table[seconds] = (
            len(pairs) / runs,
            float(np.median(np.abs(error))),
            float(np.median(std)),
            within,
        )
    return table


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=40)
    given = words.parse_args()
    estimate = estimate_of()
    running = md.online(estimate)
    print(
        f"one sample, Python: {1e6 * python_time(running):.1f} µs; {len(estimate.beta)} base "
        "parameters"
    )
    taken = c_time(running)
    if taken is not None:
        print(f"one sample, C (gcc -O3): {1e6 * taken:.1f} µs")
    print(f"distance from the batch solution: {from_batch(estimate):.1e} of the largest parameter")
    for seconds, (share, error, std, within) in loads(estimate, given.runs).items():
        print(
            f"{seconds:g} s after {MASS:g} kg were picked up: noticed in {100 * share:.0f} % of "
            f"runs, mass off by {1e3 * error:.0f} g, deviation {1e3 * std:.0f} g (medians), "
            f"{100 * within:.0f} % within two deviations"
        )


if __name__ == "__main__":
    main()
