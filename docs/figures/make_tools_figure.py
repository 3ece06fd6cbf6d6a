"""The figure of docs/tools.md.

Errors of mass and centre over the number of poses, and what is stated of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minidyn as md
from minidyn.display import COLOURS, save_figure

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from tool import drawn, log_of


def main() -> None:
    """Write docs/figures/tools.svg."""
    robot = md.load("ur10e")
    numbers, runs = (8, 12, 18, 27, 40), 20
    mass, centre = np.zeros((2, len(numbers), runs)), np.zeros((2, len(numbers), runs))
    for row, poses in enumerate(numbers):
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            truth = drawn(rng)
            found = md.identify_tool(log_of(robot, rng, poses, 0.0, truth), robot)
            true = md.Payload(0.0, truth[0])
            mass[:, row, seed] = (
                100 * abs(found.mass - true.mass) / true.mass,
                100 * found.std["mass"] / true.mass,
            )
            error = np.sqrt(np.mean((found.com - true.com) ** 2))
            centre[:, row, seed] = 1e3 * error, 1e3 * np.sqrt(np.mean(found.std["com"] ** 2))
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    for axis, values, name, goal in (
        (axes[0], mass, "mass, %", 1.0),
        (axes[1], centre, "centre of mass, mm", 2.0),
    ):
        for row, poses in enumerate(numbers):
            label = "errors" if row == 0 else None
            axis.plot(
                np.full(runs, poses),
                values[0, row],
                "o",
                markersize=3,
                color=COLOURS[0],
                alpha=0.4,
                label=label,
            )
        axis.plot(
            numbers,
            np.sqrt(np.mean(values[0] ** 2, axis=1)),
            color=COLOURS[0],
            label="root mean square",
        )
        axis.plot(
            numbers,
            np.sqrt(np.mean(values[1] ** 2, axis=1)),
            "--",
            color=COLOURS[1],
            label="stated deviation",
        )
        axis.axhline(goal, color="#5b5b5b", linewidth=0.8, linestyle=":")
        axis.set_xlabel("poses")
        axis.set_ylabel(name)
        axis.set_ylim(0.0, None)
    axes[0].legend(fontsize=7, frameon=False)
    save_figure(figure, Path(__file__).with_name("tools.svg"))


if __name__ == "__main__":
    main()
