"""Tools behind a force sensor.

Errors and coverage in simulated logs of a UR10e, static poses and motion.

    python benchmarks/tool.py [--runs 100]

Bodies, mountings and biases are drawn anew in each run; forces have noise of 0.3 N, moments of 0.01
N m. Runs by itself.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

import minidyn as md
from minidyn.dynamics.functions import frame_motion
from minidyn.identification.tool import wrench_columns
from minidyn.model.parameters import from_body

NOISE = np.array([0.3] * 3 + [0.01] * 3)


def drawn(rng: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ten parameters, mounting and bias of a sensor with a tool of 0.5 to 3 kg."""
    mass = rng.uniform(0.5, 3.0)
    size = rng.uniform(0.03, 0.08, 3)
    inertia = mass / 5.0 * np.diag(np.sum(size**2) - size**2)
    axes = Rotation.random(random_state=rng).as_matrix()
    body = from_body(
        mass, rng.uniform(-0.05, 0.05, 3) + np.array([0.0, 0.0, 0.08]), axes @ inertia @ axes.T
    )
    return (
        body,
        Rotation.random(random_state=rng).as_matrix(),
        rng.normal(size=6) * [5, 5, 5, 0.5, 0.5, 0.5],
    )


def log_of(robot: Any, rng: Any, poses: int, seconds: float, truth: tuple[Any, Any, Any]) -> Any:
    """Return a log of poses, or of a motion where there are none."""
    body, turn, bias = truth
    if poses:
        t, q = np.arange(float(poses)), rng.uniform(-2.5, 2.5, (poses, robot.n))
        dq = ddq = np.zeros_like(q)
    else:
        t = np.arange(int(seconds * 250)) / 250
        q, dq, ddq = md.trajectory.fourier(robot, seed=int(rng.integers(1 << 30)))(t)
    log = md.Recording(t, q, None, dq, ddq, robot.joint_names)
    motion = [
        part @ turn for part in frame_motion(robot, log.q, log.dq, log.ddq, None, np.zeros(3))
    ]
    w = bias - wrench_columns(*motion) @ body + NOISE * rng.normal(size=(len(t), 6))
    return md.Recording(t, q, None, dq, ddq, robot.joint_names, telemetry={"wrench": w})


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=100)
    runs = words.parse_args().runs
    robot = md.load("ur10e")
    print("| log | mass | centre | mounting | inertia | within 2 deviations |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, poses, seconds in (
        ("12 poses", 12, 0.0),
        ("24 poses", 24, 0.0),
        ("10 s of motion", 0, 10.0),
    ):
        mass, centre, turned, inertia, inside = [], [], [], [], []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            truth = drawn(rng)
            found = md.identify_tool(log_of(robot, rng, poses, seconds, truth), robot)
            true = md.Payload(0.0, truth[0])
            mass.append(abs(found.mass / true.mass - 1))
            centre.append(np.linalg.norm(found.com - true.com))
            turn = Rotation.from_matrix(found.mounting.T @ truth[1]).as_rotvec()
            turned.append(np.degrees(np.linalg.norm(turn)))
            inertia.append(
                np.abs(found.load.inertia - true.inertia).max() / np.abs(true.inertia).max()
            )
            ten, std = (
                np.array(found.settings["unconstrained"]),
                np.sqrt(np.diag(found.load.covariance)),
            )
            apart = [
                *((ten - truth[0]) / std)[6:],
                *((found.bias - truth[2]) / found.bias_std),
                *(turn / found.mounting_std),
            ]
            inside += [abs(value) <= 2 for value in apart]
        shown = f"{100 * np.median(mass):.2f} %, 95 % below {100 * np.quantile(mass, 0.95):.2f} %"
        place = f"{1e3 * np.median(centre):.2f} mm, below {1e3 * np.quantile(centre, 0.95):.2f} mm"
        bodies = "-" if poses else f"{100 * np.median(inertia):.1f} %"
        print(
            f"| {name} | {shown} | {place} | {np.median(turned):.2f}° | {bodies} | "
            f"{100 * np.mean(inside):.1f} % |"
        )


if __name__ == "__main__":
    main()
