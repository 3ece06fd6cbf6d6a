"""The figure of docs/watching.md.

A push on a panda arm, the external torques that the observer sees, and its event.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minidyn as md
from minidyn.display import COLOURS, save_figure

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import observer as measured


def main() -> None:
    """Write docs/figures/watching.svg."""
    watcher = md.control.momentum_observer(measured.estimate_of())
    robot = measured.panda(1.1)
    force = np.array([0.0, 15.0, 0.0])
    law = md.control.computed_torque(robot, bandwidth=10)
    motion = md.trajectory.fourier(robot, seed=7)
    push = md.Push(2.0, 0.3, force)
    run = md.simulate(robot, law, motion, 4.0, torque_noise=measured.NOISE, push=push)
    seen = watcher.watch(run)
    run, seen = (
        run.thinned(5),
        replace(seen, torque=seen.torque[::5], threshold=seen.threshold[::5]),
    )
    shown = (0, 1, 3)
    figure, axes = plt.subplots(
        len(shown) + 1, 1, figsize=(9.0, 6.4), layout="constrained", sharex=True
    )
    figure.suptitle("15 N at the flange of a panda arm for 0.3 s; friction 10 % off", fontsize=11)
    external = np.where(
        ((run.t >= 2.0) & (run.t < 2.3))[:, None], force @ md.jacobian(robot, run.q)[:, 3:, :], 0.0
    )
    for axis, j in zip(axes, shown):
        level = seen.threshold[:, j]
        axis.fill_between(
            run.t, -level, level, color=COLOURS[0], alpha=0.2, linewidth=0, label="threshold"
        )
        axis.plot(
            run.t,
            external[:, j],
            color="#5b5b5b",
            linewidth=0.9,
            linestyle="--",
            label="true external torque",
        )
        axis.plot(run.t, seen.torque[:, j], color=COLOURS[1], linewidth=0.9, label="observed")
        axis.set_ylabel(f"joint {j + 1}, N m")
        for event in seen.events:
            axis.axvspan(event.start, event.end, color=COLOURS[4], alpha=0.15, linewidth=0)
    axes[0].legend(ncols=3, fontsize=7, frameon=False, loc="upper left")
    least = watcher.least_force(run.q, run.dq)
    for k, name in enumerate("xyz"):
        axes[-1].semilogy(run.t, least[:, k], color=COLOURS[k], linewidth=0.9, label=name)
    axes[-1].set_ylabel("least force, N")
    axes[-1].set_xlabel("time, s")
    axes[-1].legend(ncols=3, fontsize=7, frameon=False)
    save_figure(figure, Path(__file__).with_name("watching.svg"))


if __name__ == "__main__":
    main()
