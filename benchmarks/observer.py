"""The momentum observer of a panda arm.

False alarms in hours of motion, time until a push is found, time of a step.

    python benchmarks/observer.py [--hours 10] [--pushes 200]

The model is identified from a log of 20 s with torque noise of 0.2 N m. The watched robot has
friction 10 % off, more or less from run to run, and the same noise; it follows motions that were
not fitted under computed torque. Pushes of 15 N act on the flange in random directions at random
moments. Runs by itself.
"""

from __future__ import annotations

import argparse
import re
import shutil
import time
from typing import Any

import numpy as np

import minidyn as md
from timing import c_seconds

NOISE, FORCE, PERIOD = 0.2, 15.0, 1e-3
FRICTION = {"Ia": 0.1, "Fv": 0.5, "Fc": 0.8}
SECONDS = 100.0  # of one watched run


def panda(scale: float = 1.0) -> Any:
    """Return a panda arm with rotors and friction, friction times a factor."""
    robot = md.load("panda").with_drives(True, ("viscous", "coulomb"))
    values = robot.parameters.copy()
    for k, column in enumerate(robot.layout.columns):
        if column.symbol in FRICTION:
            values[k] = FRICTION[column.symbol] * (1.0 if column.symbol == "Ia" else scale)
    return robot.with_parameters(values)


def estimate_of(seconds: float = 20.0) -> Any:
    """Return the model, from a log of positions and torques."""
    robot = panda()
    law = md.control.computed_torque(robot, bandwidth=10)
    log = md.simulate(
        robot, law, md.trajectory.fourier(robot, seed=1), seconds, noise=1e-5, torque_noise=NOISE
    )
    raw = md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names)
    return md.identify(robot, raw, friction=("viscous", "coulomb"))


def false_alarms(observer: Any, hours: float) -> tuple[int, float, np.ndarray]:
    """Return (events, hours, largest residual over threshold of each joint) of motion without
    contact.
    """
    runs, events, worst = max(1, round(3600 * hours / SECONDS)), 0, np.zeros(observer.robot.n)
    rng = np.random.default_rng(2)
    for seed in range(runs):
        robot = panda(0.9 if seed % 2 else 1.1)
        t = np.arange(int(SECONDS / PERIOD)) * PERIOD
        motion = md.trajectory.fourier(
            robot, seed=100 + seed, period=float(rng.uniform(10.0, 25.0))
        )(t)
        tau = md.inverse_dynamics(robot, *motion) + rng.normal(scale=NOISE, size=motion[0].shape)
        seen = observer.watch(
            md.Recording(t, motion[0], tau, motion[1], joint_names=robot.joint_names)
        )
        events += len(seen.events)
        worst = np.maximum(worst, (np.abs(seen.torque) / seen.threshold).max(axis=0))
    return events, runs * SECONDS / 3600, worst


def pushes(observer: Any, count: int) -> np.ndarray:
    """Return seconds until each push is found, infinite where it is not."""
    rng, found = np.random.default_rng(3), []
    laws = {
        scale: (robot, md.control.computed_torque(robot, bandwidth=10))
        for scale in (0.9, 1.1)
        for robot in [panda(scale)]
    }
    for k in range(count):
        robot, law = laws[0.9 if k % 2 else 1.1]
        start = float(np.round(rng.uniform(0.3, 0.6), 3))
        way = rng.normal(size=3)
        push = md.Push(start, 0.2, FORCE * way / np.linalg.norm(way))
        motion = md.trajectory.fourier(robot, seed=1000 + k)
        log = md.simulate(robot, law, motion, 0.85, torque_noise=NOISE, push=push, seed=k)
        seen = observer.watch(log)
        found.append(
            min(
                (event.start - start for event in seen.events if event.end >= start), default=np.inf
            )
        )
    return np.array(found)


def step_times(observer: Any) -> dict[str, float]:
    """Return seconds of one step from compiled C and from Python."""
    n = observer.robot.n
    q, dq, tau = np.random.default_rng(1).normal(size=(3, n))
    state = observer.begin(q, dq, tau)
    samples = [(q + 1e-6 * k, dq + 1e-6 * k, tau + 1e-6 * k) for k in range(200)]
    best = np.inf
    for _ in range(20):
        begin = time.perf_counter()
        for sample in samples:
            state = observer(state, *sample).state
        best = min(best, (time.perf_counter() - begin) / 200)
    times = {"Python": best}
    if shutil.which("gcc"):
        source = observer.source("c")
        name = re.search(r"int (\w+)\(const", source).group(1)  # type: ignore[union-attr]
        variables = (
            f"static double state[{len(state)}], q[{n}], dq[{n}], tau[{n}], torque[{n}], "
            f"level[{n}];"
        )
        step = f"""q[k % {n}] += 1e-9; dq[k % {n}] += 1e-9; tau[k % {n}] += 1e-9;
            call(state, q, dq, tau, {PERIOD}, torque, level, state);"""
        times["C"] = c_seconds(source, {"call": name}, variables, n, step, 1000)
    return times


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--hours", type=float, default=10.0)
    words.add_argument("--pushes", type=int, default=200)
    given = words.parse_args()
    observer = md.control.momentum_observer(estimate_of())
    for name, taken in step_times(observer).items():
        print(f"one step, {name}: {1e6 * taken:.2f} µs")
    found = pushes(observer, given.pushes)
    late = (
        np.percentile(found, [50, 95, 100])
        if np.isfinite(found).all()
        else [np.median(found), np.inf, np.inf]
    )
    within = 100 * float(np.mean(found <= 0.05))
    print(
        f"{FORCE:g} N at the flange, {len(found)} random directions and moments: {within:.1f} % "
        "found within 50 ms"
    )
    print(
        "median {:.1f} ms, 95 % {:.1f} ms, last {:.1f} ms".format(*(1e3 * value for value in late))
    )
    events, hours, worst = false_alarms(observer, given.hours)
    print(
        f"{events} false alarms in {hours:.2f} hours; largest residual over threshold "
        f"{worst.max():.2f}"
    )


if __name__ == "__main__":
    main()
