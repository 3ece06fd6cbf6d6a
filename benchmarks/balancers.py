"""What a balancer costs a model that does not know it.

Simulated logs with one on joint 2, fitted without and with it.

    python benchmarks/balancers.py [ROBOT ...]

A spring and a gas cylinder as large as half of the largest gravity torque of joint 2 are planted.
Positions have 2e-5 rad of noise, torques 0.3 N m; `md.identify` runs with its defaults, and the
error is that on another run.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import minidyn as md

SIZES = {"Ia": 0.3, "Fv": 3.0, "Fc": 4.0, "Fo": 0.4}


def planted(name: str, gas: bool) -> tuple[md.Robot, md.Balancer]:
    """Return a robot with drives, and its balancer with the constants that are to be found."""
    robot, rng = (
        md.load(name).with_drives(True, ("viscous", "coulomb", "offset")),
        np.random.default_rng(0),
    )
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = (
                SIZES[column.symbol] * (1.0 if column.joint < 3 else 0.1) * rng.uniform(0.7, 1.3)
            )
    robot = robot.with_parameters(values)
    weight = np.abs(md.gravity_torque(robot, rng.uniform(-1, 1, (200, robot.n)))[:, 1]).max()
    points = md.Balancer(robot.joint_names[1], (0.0, 0.20), (0.12, 0.12))
    if gas:
        return robot, replace(
            points, gas_length=0.5, length=0.2, exponent=1.4, gas=0.5 * weight / 0.15
        )
    return robot, replace(points, rate=0.25 * weight / 0.034, force=0.5 * weight / 0.15)


def recorded(robot: md.Robot, seed: int) -> md.Recording:
    """Return a log of positions and torques in closed loop."""
    law = md.control.computed_torque(robot, bandwidth=10, period=2e-3)
    path = md.trajectory.fourier(robot, seed=seed, speed=1.5)
    run = md.simulate(robot, law, path, 8.0, dt=2e-3, noise=2e-5, torque_noise=0.3, seed=seed)
    return md.Recording(run.t, run.q, run.tau, joint_names=run.joint_names)


def main() -> None:
    """Print a table."""
    print(
        "| robot | balancer | error without it | error with it | constant | found |\n"
        "|---|---|---:|---:|---:|---:|"
    )
    for name in sys.argv[1:] or ("ur10e", "iiwa14", "xarm7", "puma560"):
        for gas in (False, True):
            robot, balancer = planted(name, gas)
            fit, test = (recorded(balancer.on(robot), seed) for seed in (1, 2))
            bare, errors = md.load(name), []
            for model in (bare, replace(balancer, rate=None, force=None, gas=None).on(bare)):
                estimate = md.identify(model, fit)
                errors.append(f"{100 * md.validate(estimate, test).relative_error:.1f} %")
            symbol, truth = ("Gb2", balancer.gas) if gas else ("Pb2", balancer.force)
            value = (
                f"{estimate.values[symbol]:.0f} ± "
                f"{estimate.std[estimate.names.index(symbol)]:.0f} N"
            )
            kind = "gas cylinder" if gas else "spring"
            print(
                f"| {name} | {kind} | {' | '.join(errors)} | {truth:.0f} N | {value} |", flush=True
            )


if __name__ == "__main__":
    main()
