"""Draw docs/figures/notebook*.png: figures as notebooks show them."""

from __future__ import annotations

from pathlib import Path

import minidyn as md
from minidyn.display import save_figure

HERE = Path(__file__).parent


def main() -> None:
    """Draw a robot, and torques on test data."""
    save_figure(md.load("ur10e").plot(), HERE / "notebook-robot.png")
    robot = md.load("puma4")
    law = md.control.computed_torque(robot, rate=10)
    fit, test = (
        md.simulate(
            robot,
            law,
            md.trajectory.fourier(robot, seed=seed),
            6.0,
            noise=1e-5,
            torque_noise=0.05,
            seed=seed,
        )
        for seed in (1, 2)
    )
    estimate = md.identify(robot, fit, friction=(), rotor_inertia=False)
    save_figure(md.validate(estimate, test).plot(), HERE / "notebook-validation.png")


if __name__ == "__main__":
    main()
