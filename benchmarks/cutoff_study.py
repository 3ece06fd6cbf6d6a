"""Is the default cut-off of `md.prepare` a good one? Simulated robots, of which everything is known, answer.

    python benchmarks/cutoff_study.py

Each line is one robot, rate and encoder. It is identified with the default cut-off and with multiples of it; errors are
those of the torque on another, exact, motion. No real log takes part.
"""

from __future__ import annotations

import numpy as np

import minidyn as md

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
CASES = (  # robot, samples a second, seconds, encoder step, period of the motion, torque noise over torque
    ("ur10e", 125, 10, 2e-5, 10.0, 0.03),
    ("ur10e", 500, 10, 2e-5, 10.0, 0.10),
    ("ur10e", 1000, 10, 3e-3, 10.0, 0.03),
    ("panda", 50, 10, 2e-5, 10.0, 0.03),
    ("panda", 1000, 10, 1e-4, 10.0, 0.03),
    ("panda", 200, 20, 1e-4, 5.0, 0.03),
    ("ur10e", 5000, 6, 2e-5, 4.0, 0.03),
    ("panda", 1000, 6, 2e-5, 1.0, 0.03),
)


def simulated_robot(name: str, seed: int) -> md.Robot:
    """Return a robot with rotors and friction that turns round over 0.03 rad/s."""
    robot = md.load(name).with_drives(True, ("viscous", "coulomb", "offset"), 0.03)
    rng = np.random.default_rng(seed)
    size = {"Ia": 0.3, "Fv": 2.0, "Fc": 4.0, "Fo": 0.5}
    values = robot.parameters.copy()
    for columns in robot.layout.drives:
        for column in columns:
            values[column.index] = size[column.symbol] * 0.7**column.joint * rng.uniform(0.5, 1.5)
    return robot.with_parameters(values)


def simulated_log(
    robot: md.Robot, rate: float, seconds: float, step: float, period: float, noise: float, seed: int
) -> md.Recording:
    """Return q as an encoder sees it, and noisy torques."""
    t = np.arange(0, seconds, 1 / rate)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, period=period)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
    return md.Recording(t, np.round(q / step) * step if step else q, tau, joint_names=robot.joint_names)


def errors_of(case: tuple[str, float, float, float, float, float], seed: int) -> tuple[float, dict[float, float]]:
    """Return (default cut-off, {factor: relative error of the torque on another motion})."""
    name, rate, seconds, step, period, noise = case
    robot = simulated_robot(name, seed)
    log = simulated_log(robot, rate, seconds, step, period, noise, seed)
    t = np.arange(0, period, 0.005)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed + 1000, period=period)(t)
    exact = md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), dq, ddq, robot.joint_names)
    default = float(md.prepare(robot, log).info["cutoff"])  # type: ignore[arg-type]
    found = {}
    for factor in FACTORS:
        if default * factor < 0.4 * rate:
            ready = md.prepare(robot, log, cutoff=default * factor)
            hard = robot.with_drives(sign_width=0.0)
            estimate = md.identify(hard, ready, friction="own", rotor_inertia=None, consistent=False)
            found[factor] = md.validate(estimate, exact).relative_error
    return default, found


def main() -> None:
    """Print the table."""
    print("| robot | rate | encoder step | cut-off | " + " | ".join(f"{factor:g} x" for factor in FACTORS) + " |")
    print("|---" * (4 + len(FACTORS)) + "|")
    for case in CASES:
        for seed in range(2):
            default, found = errors_of(case, seed)
            cells = " | ".join(f"{100 * found[f]:.2f} %" if f in found else "-" for f in FACTORS)
            print(f"| {case[0]} | {case[1]} Hz | {case[3]:g} rad | {default:.1f} Hz | {cells} |", flush=True)


if __name__ == "__main__":
    main()
