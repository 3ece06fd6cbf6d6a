"""The figure of docs/actuators.md: positions as commanded, measured and simulated.

Values over true ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minidyn as md
from minidyn.display import COLOURS, save_figure
from minidyn.identification.servo_loop import ServoLoop
from minidyn.recording.recording import COMMAND

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from actuators import CASES, NAMES, NOISE, SPEED, drawn, robot_of, simulated


def main() -> None:
    """Write docs/figures/actuators.svg."""
    case, rng = CASES["leg"], np.random.default_rng(0)
    robot = robot_of(case)
    several = drawn(case, robot.n, 1, rng)
    motion = md.trajectory.fourier(robot, seed=1, period=2.0, speed=SPEED)
    t, u, q = simulated(robot, several, [motion], 1.6, 5e-4)
    measured = q[0] + NOISE * rng.normal(size=q[0].shape)
    log = md.Recording(t, measured, None, joint_names=robot.joint_names, telemetry={COMMAND: u[0]})
    true = {name: value[0] for name, value in several.items()}
    found = md.identify_actuators(robot, log, {"kd": true["kd"]})
    command, first = log.telemetry[COMMAND], 20
    loop = ServoLoop(robot, log.t, command, true["kd"], first=first, held=False)
    loop.parts = 4
    begin = np.append(
        log.q[first], (log.q[first + 2] - log.q[first - 2]) / (log.t[first + 2] - log.t[first - 2])
    )
    theta = np.append(np.concatenate([getattr(found, name) for name in NAMES]), found.delay)
    bare = np.append(np.concatenate([np.full(3, 1e-3), np.zeros(9), found.kp]), 0.0)
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    joint = 1
    axes[0].plot(log.t, command[:, joint], color="#5b5b5b", linewidth=0.8, label="commanded")
    axes[0].plot(log.t, log.q[:, joint], ".", markersize=2, color=COLOURS[0], label="measured")
    for values, style, label in (
        (bare, ":", "simulated without drives"),
        (theta, "-", "simulated, as identified"),
    ):
        made, _ = loop.simulated(values, begin)
        axes[0].plot(
            log.t[first:], made[:, joint], style, color=COLOURS[1], linewidth=1.0, label=label
        )
    axes[0].set_xlabel("time, s")
    axes[0].set_ylabel(f"position of {robot.joint_names[joint]}, rad")
    axes[0].legend(fontsize=7, frameon=False)
    for k, name in enumerate(NAMES):
        for j in range(robot.n):
            value, std = (
                getattr(found, name)[j] / true[name][j],
                found.std[name][j] / abs(true[name][j]),
            )
            place = k + 0.2 * (j - 1)
            axes[1].errorbar(
                place, value, 2 * std, fmt="o", markersize=3, color=COLOURS[j], capsize=2
            )
    axes[1].axhline(1.0, color="#5b5b5b", linewidth=0.8, linestyle=":")
    axes[1].set_xticks(range(len(NAMES)), NAMES)
    axes[1].set_ylabel("found / true, ± 2 deviations")
    save_figure(figure, Path(__file__).with_name("actuators.svg"))


if __name__ == "__main__":
    main()
