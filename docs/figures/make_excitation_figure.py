"""The figure of docs/excitation.md.

A designed motion of the panda arm, within its limits, and the predicted errors.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minidyn as md
from minidyn.display import COLOURS, save_figure


def main() -> None:
    """Write docs/figures/excitation.svg."""
    robot = md.load("panda")
    options = {"friction": (), "rotor_inertia": False, "noise": 0.3}
    made = md.excite(robot, 20.0, **options)
    t = np.linspace(0.0, 20.0, 1001)
    q, dq, _ = made.trajectory(t)
    limits = [robot.joints[k].limits for k in robot.independent]
    figure, axes = plt.subplots(3, 1, figsize=(9.0, 7.2), layout="constrained")
    figure.suptitle("A motion of 20 s that shows 43 base parameters of the panda arm", fontsize=11)
    for joint, limit in enumerate(limits):
        middle, half = (limit.upper + limit.lower) / 2, (limit.upper - limit.lower) / 2
        style = {"color": COLOURS[joint], "linewidth": 1.1}
        axes[0].plot(t, (q[:, joint] - middle) / half, label=f"joint {joint + 1}", **style)
        axes[1].plot(t, dq[:, joint] / limit.velocity, **style)
    for axis, name in zip(axes, ("position", "speed")):
        axis.set_ylabel(f"{name} over limit")
        axis.axhline(1.0, color="#5b5b5b", linewidth=0.7, linestyle=":")
        axis.axhline(-1.0, color="#5b5b5b", linewidth=0.7, linestyle=":")
    axes[0].legend(
        ncols=7, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.22), frameon=False
    )
    axes[1].set_xlabel("time, s")
    random = md.trajectory.fourier(robot, seed=1, period=20.0)
    Y = (
        md.base_regressor(robot, *random(np.arange(2000) / 100), base=made.base).reshape(
            -1, made.base.rank
        )
        / 0.3
    )
    before = np.sqrt(np.diag(np.linalg.inv(Y.T @ Y)))
    order = np.argsort(made.std)
    axes[2].semilogy(
        before[order], "o", markersize=3, color="#b4bec8", label="a random motion within the limits"
    )
    axes[2].semilogy(made.std[order], "o", markersize=3, color="#1b62b0", label="the designed one")
    axes[2].set_ylabel("predicted std")
    axes[2].set_xlabel("base parameters")
    axes[2].legend(fontsize=7, frameon=False)
    save_figure(figure, Path(__file__).with_name("excitation.svg"))


if __name__ == "__main__":
    main()
