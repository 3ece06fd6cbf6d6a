"""One joint at a time with noisy encoders.

Are stated errors true, and are they smaller than with all joints moving? Campaigns are simulated
with noise on positions and torques. Each is identified from runs in which one joint moves
(`md.one_joint_plan`) and from one run of as many samples in which all move
(`md.trajectory.fourier`), by the same door, `md.identify`, without prior or friction. Printed for
each noise of the encoders: the share of constants within two standard deviations of the truth, the
root mean square of error over standard deviation, the median ratio of the standard deviations over
all constants, and the error of the torques on another motion.

    python benchmarks/one_joint_coverage.py --campaigns 200 --json coverage.json
    python benchmarks/one_joint_coverage.py --campaigns 20 --levels 1e-3 --also tls iv
    python benchmarks/one_joint_coverage.py --read coverage.json --figure
    docs/figures/one-joint-errors.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md

LEVELS = (0.0, 1e-5, 1e-4, 1e-3)  # rad or m
STEP, PERIODS = 0.02, 3  # s
TORQUE_NOISE = 0.01  # of the root mean square of each joint's torque while all move
OPTIONS: dict[str, Any] = {
    "friction": (),
    "rotor_inertia": False,
    "consistent": False,
    "prior": False,
}


def motions(robot: md.Robot) -> dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Return times, positions and torques of the runs of both ways, as many samples in all."""
    made: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {"one-joint": [], "wls": []}
    total = 0.0
    for step in md.one_joint_plan(
        robot, friction=OPTIONS["friction"], rotor_inertia=OPTIONS["rotor_inertia"]
    ).steps:
        t = np.arange(0.0, PERIODS * step.trajectory.period, STEP)
        made["one-joint"].append((t, *_motion(robot, step.trajectory, t)))
        total += PERIODS * step.trajectory.period
    t = np.arange(0.0, total, STEP)
    made["wls"].append((t, *_motion(robot, md.trajectory.fourier(robot, seed=3), t)))
    return made


def _motion(
    robot: md.Robot, trajectory: md.Trajectory, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    q, dq, ddq = trajectory(t)
    return q, md.inverse_dynamics(robot, q, dq, ddq)


def campaigns(
    robot: md.Robot, level: float, count: int, also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the figures of so many campaigns with noise of this size on all positions.

    Methods of `also` are tried on the runs in which all joints move.
    """
    quiet = motions(robot)
    quiet |= dict.fromkeys(also, quiet["wls"])
    base = md.base_parameters(robot)
    true = base.values()
    q, dq, ddq = md.trajectory.fourier(robot, seed=8)(np.linspace(0.0, 10.0, 500))
    Y = md.base_regressor(robot, q, dq, ddq, base=base)
    torque = np.sqrt(np.mean((Y @ true) ** 2, axis=0))
    noise = TORQUE_NOISE * np.sqrt(np.mean(quiet["wls"][0][2] ** 2, axis=0))
    scores: dict[str, list[np.ndarray]] = {method: [] for method in quiet}
    stds: dict[str, list[np.ndarray]] = {method: [] for method in quiet}
    errors: dict[str, list[float]] = {method: [] for method in quiet}
    for number in range(count):
        rng = np.random.default_rng(number)
        for method, runs in quiet.items():
            logs = [
                md.Recording(
                    t,
                    q + level * rng.normal(size=q.shape),
                    tau + noise * rng.normal(size=q.shape),
                    joint_names=robot.joint_names,
                )
                for t, q, tau in runs
            ]
            found = md.identify(robot, md.concatenate(logs), method, **OPTIONS)
            beta, covariance = found.in_base(base)
            std = np.sqrt(np.diag(covariance))
            scores[method].append((beta - true) / std)
            stds[method].append(std)
            errors[method].append(float(np.sqrt(np.mean((Y @ (beta - true) / torque) ** 2))))
    result: dict[str, Any] = {"noise": level, "campaigns": count, "constants": base.rank}
    for method in quiet:
        score = np.array(scores[method])
        result[method] = {
            "samples": sum(len(t) for t, _, _ in quiet[method]),
            "within_2": float(np.mean(np.abs(score) < 2.0)),
            "least_within_2": float(np.mean(np.abs(score) < 2.0, axis=0).min()),
            "rms_score": float(np.sqrt(np.mean(score**2))),
            "rms_bias": float(np.sqrt(np.mean(score.mean(axis=0) ** 2))),
            "torque_error": float(np.sqrt(np.mean(np.square(errors[method])))),
        }
    ratio = np.mean(stds["one-joint"], axis=0) / np.mean(stds["wls"], axis=0)
    real = [
        np.sqrt(np.mean((np.array(scores[m]) * np.array(stds[m])) ** 2, axis=0))
        for m in ("one-joint", "wls")
    ]
    result["std_ratio"] = float(np.median(ratio))
    result["error_ratio"] = float(np.median(real[0] / real[1]))
    return result


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| encoder noise | within 2 std, one joint | worst constant | all joints | torque error, "
        "one joint | all joints | error of a constant, one joint / all |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        one, every = row["one-joint"], row["wls"]
        shares = [
            f"{100 * value:.1f} %"
            for value in (one["within_2"], one["least_within_2"], every["within_2"])
        ]
        errors = [f"{100 * value:.3g} %" for value in (one["torque_error"], every["torque_error"])]
        lines.append(
            f"| {row['noise']:g} | {' | '.join(shares)} | {' | '.join(errors)} | "
            f"{row['error_ratio']:.2f} |"
        )
    for row in rows:
        others = {
            method: part["torque_error"] for method, part in row.items() if isinstance(part, dict)
        }
        if len(others) > 2:
            told = ", ".join(f"{method} {100 * error:.3g} %" for method, error in others.items())
            lines += ["", f"torque errors at {row['noise']:g}: {told}"]
    return "\n".join(lines)


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw coverage and torque errors over the noise of the encoders."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "minidyn"
    from matplotlib import pyplot as plt

    places = np.arange(len(rows))
    drawn, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.0), layout="constrained")
    for method, label, shift in (
        ("one-joint", "one joint at a time", -0.2),
        ("wls", "all joints at once", 0.2),
    ):
        left.bar(places + shift, [100 * row[method]["within_2"] for row in rows], 0.36, label=label)
        right.bar(
            places + shift, [100 * row[method]["torque_error"] for row in rows], 0.36, label=label
        )
    left.axhline(95.45, color="black", linewidth=0.8, linestyle="--")
    left.set(ylim=(50, 100), ylabel="constants within 2 std, %", title="Stated errors")
    right.set(yscale="log", ylabel="error of the torques on another motion, %", title="True errors")
    for axis in (left, right):
        axis.set_xticks(places, [f"{row['noise']:g}" for row in rows])
        axis.set_xlabel("noise of positions, rad or m")
        axis.spines[["top", "right"]].set_visible(False)
    left.legend(loc="lower left", fontsize=8)
    drawn.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run the campaigns, or read those of an earlier run, and print or draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robot", default="stanford")
    parser.add_argument("--campaigns", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--levels", type=float, nargs="+", default=LEVELS, help="noise of positions, rad or m"
    )
    parser.add_argument(
        "--read", type=Path, nargs="+", help="figures of earlier runs instead of new campaigns"
    )
    parser.add_argument("--figure", type=Path)
    parser.add_argument(
        "--also", nargs="+", default=(), metavar="METHOD", help="more methods while all joints move"
    )
    given = parser.parse_args()
    if given.read:
        rows = [row for path in given.read for row in json.loads(path.read_text())]
    else:
        rows = [
            campaigns(md.load(given.robot), level, given.campaigns, tuple(given.also))
            for level in given.levels
        ]
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    if given.figure:
        figure(rows, given.figure)


if __name__ == "__main__":
    main()
