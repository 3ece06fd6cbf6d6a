"""The figure of docs/free-base.md: a quadruped thrown into the air, and the error of the step."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minidyn as md
from minidyn.display import COLOURS, save_figure
from minidyn.formats.toml.read import robot_from_text

TRUNK = """
[[joint]]
name = "root"
type = "floating"
child = "trunk"
[[link]]
name = "trunk"
mass = 6.0
inertia = [0.02, 0, 0, 0.08, 0, 0.09]
"""
LEG = """
[[joint]]
name = "{0}_hip"
parent = "trunk"
child = "{0}_thigh"
xyz = [{1}, {2}, 0]
axis = [0, 1, 0]
[[joint]]
name = "{0}_knee"
parent = "{0}_thigh"
child = "{0}_shank"
xyz = [0, 0, -0.2]
axis = [0, 1, 0]
[[link]]
name = "{0}_thigh"
mass = 0.8
com = [0, 0, -0.08]
inertia = [0.004, 0, 0, 0.004, 0, 0.001]
[[link]]
name = "{0}_shank"
mass = 0.3
com = [0, 0, -0.1]
inertia = [0.001, 0, 0, 0.001, 0, 0.0001]
"""


def quadruped() -> md.Robot:
    """Return a trunk with four legs of two joints."""
    feet = {"fl": (0.2, 0.1), "fr": (0.2, -0.1), "hl": (-0.2, 0.1), "hr": (-0.2, -0.1)}
    return robot_from_text(TRUNK + "".join(LEG.format(name, *at) for name, at in feet.items()))


def main() -> None:
    """Write docs/figures/free-base.svg."""
    robot = quadruped()
    q0 = np.array([0, 0, 1, 0, 0, 0, 1, *np.tile([0.6, -1.2], 4)])
    dq0 = np.array([0.5, 0, 3.0, 0.3, 2.0, 1.0, *np.tile([3.0, -6.0], 4)])
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    log = md.simulate(robot, None, None, 0.6, dt=1e-3, q0=q0, dq0=dq0)
    mass = sum(link.mass for link in robot.links)
    first = np.einsum("eij,ej->ei", md.centroidal_momentum_matrix(robot, log.q), log.dq)
    rise = np.concatenate([[0.0], np.cumsum((first[1:, 2] + first[:-1, 2]) / 2 * 1e-3)]) / mass
    axes[0].plot(log.t, log.q[:, 2] - 1.0, color=COLOURS[0], label="origin of the trunk")
    axes[0].plot(log.t, rise, color=COLOURS[1], label="centre of mass")
    axes[0].set_xlabel("time, s")
    axes[0].set_ylabel("height gained, m")
    axes[0].legend(fontsize=7, frameon=False)
    steps = np.array([8e-3, 4e-3, 2e-3, 1e-3])
    drift = []
    for dt in steps.tolist():
        log = md.simulate(robot, None, None, 0.4, dt=dt, q0=q0, dq0=dq0)
        energy = sum(md.energy(robot, log.q, log.dq))
        drift.append(np.abs(energy - energy[0]).max() / np.abs(energy[0]))
    axes[1].loglog(steps, drift, "o-", color=COLOURS[0], label="drift of the energy")
    axes[1].loglog(
        steps,
        drift[-1] * (steps / steps[-1]) ** 4,
        ":",
        color="#5b5b5b",
        label="fourth order",
    )
    axes[1].set_xlabel("step, s")
    axes[1].set_ylabel("share of the energy")
    axes[1].legend(fontsize=7, frameon=False)
    save_figure(figure, Path(__file__).parent / "free-base.svg")


if __name__ == "__main__":
    main()
