"""The figure of docs/online.md: the mass of a load that a panda arm picks up, over time."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minidyn as md
from minidyn.display import COLOURS, save_figure

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from observer import NOISE, estimate_of, panda
from online import MASS


def main() -> None:
    """Write docs/figures/online.svg."""
    estimate, robot = estimate_of(), panda(1.1)
    body = {"mass": MASS, "com": [0.02, 0.01, 0.1], "inertia": np.diag([0.004, 0.004, 0.002])}
    law = md.control.computed_torque(robot, bandwidth=10)
    motion = md.trajectory.fourier(robot, seed=5)
    run = md.simulate(robot, law, motion, 3.0, torque_noise=NOISE, payload=md.Payload(1.0, body))
    running, times, found = md.online(estimate), [], []
    for begin in range(0, len(run), 50):
        part = slice(begin, begin + 50)
        running.add(run.q[part], run.dq[part], run.tau[part])
        change = running.change
        if change is not None:
            times.append(run.t[part][-1])
            load = change.load
            found.append(
                (load.settings["unconstrained"][9], load.std["mass"], *load.com, *load.std["com"])
            )
    t, values = np.array(times), np.array(found)
    figure, axes = plt.subplots(2, 1, figsize=(9.0, 4.8), layout="constrained", sharex=True)
    figure.suptitle(
        f"{MASS:g} kg picked up after 1 s by a panda arm; friction 10 % off", fontsize=11
    )
    low, high = (values[:, 0] + k * values[:, 1] for k in (-2, 2))
    axes[0].fill_between(
        t, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label="two standard deviations"
    )
    axes[0].plot(t, values[:, 0], color=COLOURS[0], label="mass found")
    axes[0].axhline(MASS, color="#5b5b5b", linestyle="--", linewidth=0.9, label="true")
    axes[0].axvline(1.0, color=COLOURS[4], linewidth=0.9)
    axes[0].set_ylim(MASS - 0.4, MASS + 0.4)
    axes[0].set_ylabel("mass, kg")
    axes[0].legend(ncols=3, fontsize=7, frameon=False)
    for k, name in enumerate("xyz"):
        low, high = (values[:, 2 + k] + s * values[:, 5 + k] for s in (-2, 2))
        axes[1].fill_between(t, low, high, color=COLOURS[k], alpha=0.15, linewidth=0)
        axes[1].plot(t, values[:, 2 + k], color=COLOURS[k], label=name)
        axes[1].axhline(body["com"][k], color=COLOURS[k], linestyle="--", linewidth=0.8)
    axes[1].set_ylim(-0.1, 0.25)
    axes[1].set_ylabel("centre of mass, m")
    axes[1].set_xlabel("time, s")
    axes[1].set_xlim(0.9, 3.0)
    axes[1].legend(ncols=3, fontsize=7, frameon=False)
    save_figure(figure, Path(__file__).with_name("online.svg"))


if __name__ == "__main__":
    main()
