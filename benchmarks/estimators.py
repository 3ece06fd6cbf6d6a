"""The estimators on simulated closed-loop runs with noisy encoders, and the level of the exogeneity
test.

    python benchmarks/estimators.py            prints the tables (about four minutes)
    python benchmarks/estimators.py --docs     and writes them into docs/estimators.md
    python benchmarks/estimators.py --quick    three runs a case

A PUMA arm of four joints with rotors, viscous and Coulomb friction follows a Fourier series for 10
s under computed torque whose model is a tenth wrong. Positions have noise of 1e-4 rad, torques of
0.2 N m (1 to 7 % of a joint's), at 1 kHz; the controller sees noise, too. Friction is known to turn
round at once. Errors are those of the torque on another motion, without noise; bias is the error of
the mean over the runs: what averaging more of them would leave.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.signal import lfilter

import minidyn as md

PAGE = Path(__file__).parents[1] / "docs" / "estimators.md"
CONTESTANTS = (
    "wls",
    "tls",
    "iv",
    "didim",
    "iv, loop known",
    "didim, loop known",
    "filtered",
    "momentum",
    "energy",
)
CASES = {
    "well filtered": None,
    "badly filtered": 40.0,
}  # the low-pass of md.prepare, Hz; None: its own choice
NOISE = 1e-4


def true_robot(name: str) -> md.Robot:
    """The robot with rotors and friction."""
    robot = md.load(name).with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
    drawn = np.random.default_rng(0).uniform(0.2, 0.8, len(robot.parameters))
    return robot.with_parameters(np.where(np.isnan(robot.parameters), drawn, robot.parameters))


def bias_tables(runs: int) -> str:
    """Return a table for each case."""
    robot = true_robot("puma4")
    loop = md.control.computed_torque(robot.with_parameters(0.9 * robot.parameters), bandwidth=15.0)
    trajectory = md.trajectory.fourier(robot, seed=1, period=5.0, speed=2.5)
    other = md.trajectory.fourier(robot, seed=9, period=5.0, speed=2.5)(np.linspace(0, 5, 500))
    tau = md.inverse_dynamics(robot, *other)
    base = md.base_parameters(robot)
    Y, true = md.base_regressor(robot, *other, base=base), base.values(robot.parameters)

    def error(beta: np.ndarray) -> float:
        return float(100 * np.linalg.norm(Y @ (beta - true)) / np.linalg.norm(tau))

    found: dict[tuple[str, str], list[tuple[md.Estimate, float]]] = {}
    for seed in range(runs):
        run = md.simulate(
            robot,
            loop,
            trajectory,
            10.0,
            noise=NOISE,
            velocity_noise=20 * NOISE,
            torque_noise=0.2,
            seed=seed,
        )
        raw = md.Recording(
            run.t,
            run.q,
            run.tau,
            joint_names=run.joint_names,
            telemetry={"q_d": run.telemetry["q_d"]},
        )
        for case, cutoff in CASES.items():
            recording = md.prepare(robot, raw, cutoff)
            for name in CONTESTANTS:
                method, _, known = name.partition(", ")
                begin = time.thread_time()
                estimate = md.identify(
                    robot.with_parameters(None),
                    recording,
                    method,
                    base=base,
                    consistent=False,
                    sign_width=0.0,  # the truth; how it is chosen from data is another matter
                    controller=loop if known else None,
                )
                found.setdefault((case, name), []).append((estimate, time.thread_time() - begin))
    text = []
    for case, cutoff in CASES.items():
        low = (
            "the cut-off that `md.prepare` chooses"
            if cutoff is None
            else f"a cut-off of {cutoff:g} Hz"
        )
        text.append(f"**{case.capitalize()}**, {low}, {runs} runs:\n")
        text.append(
            "| method | bias | error of one run | errors over std | exogeneity rejected | CPU |"
        )
        text.append("|---|---:|---:|---:|---:|---:|")
        for name in CONTESTANTS:
            made = found[case, name]
            bias = error(np.mean([estimate.beta for estimate, _ in made], axis=0))
            single = float(np.median([error(estimate.beta) for estimate, _ in made]))
            size = float(np.sqrt(np.mean([((one.beta - true) / one.std) ** 2 for one, _ in made])))
            p = [
                estimate.record["exogeneity"]["p_value"]
                for estimate, _ in made
                if "exogeneity" in estimate.record
            ]
            rejected = f"{100 * np.mean(np.array(p) < 0.05):.0f} %" if p else ""
            seconds = float(np.median([seconds for _, seconds in made]))
            text.append(
                f"| {name} | {bias:.2f} % | {single:.2f} % | {size:.1f} | {rejected} | "
                f"{seconds:.2f} s |"
            )
        text.append("")
    return "\n".join(text)


def level_table(runs: int) -> str:
    """Return how often the exogeneity test rejects where states are exact."""
    text = [
        "| robot | torque noise | runs | rejected at 5 % | at 20 % |",
        "|---|---|---:|---:|---:|",
    ]
    for name in ("two_link", "puma4"):
        robot = true_robot(name)
        base = md.base_parameters(robot)
        t = np.linspace(0, 20, 3000)
        q, dq, ddq = md.trajectory.fourier(robot, seed=0, speed=3.0)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq)
        for memory, kind in ((0.0, "white"), (0.9, "memory of 20 samples")):
            p = []
            for seed in range(runs):
                noise = lfilter(
                    [1.0], [1.0, -memory], np.random.default_rng(seed).normal(size=q.shape), axis=0
                )
                recording = md.Recording(t, q, tau + noise, dq, ddq, robot.joint_names)
                estimate = md.identify(
                    robot, recording, "iv", base=base, consistent=False, sign_width=0.0
                )
                p.append(estimate.record["exogeneity"]["p_value"])
            shares = [f"{100 * np.mean(np.array(p) < level):.1f} %" for level in (0.05, 0.2)]
            text.append(f"| {name} | {kind} | {runs} | {shares[0]} | {shares[1]} |")
    return "\n".join(text) + "\n"


def main() -> None:
    """Print the tables; with --docs write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the tables into docs/estimators.md"
    )
    parser.add_argument("--quick", action="store_true", help="three runs a case")
    options = parser.parse_args()
    tables = {
        "bias": bias_tables(3 if options.quick else 12),
        "level": level_table(10 if options.quick else 250),
    }
    for name, table in tables.items():
        print(table)
        if options.docs:
            page = PAGE.read_text(encoding="utf-8")
            begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
            before, rest = page.split(begin)
            PAGE.write_text(f"{before}{begin}\n{table}{end}{rest.split(end)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
