"""Joints that give way.

Stiffness found in simulated logs, and what the term brings on logs of real robots.

    python benchmarks/flexibility.py [--seeds 10] [--real] [--figure]

Robots are two masses a joint on springs with some damping (two_masses.py), motion up to 3 Hz,
torque noise of 0.5 %. Errors are those on another run, against its exact torque; z is (found - true
compliance) / standard deviation, over all joints and seeds. With --real the logs of
real_logs.py are fitted and tested as there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md
from two_masses import driven, log_of, planted_stiffness

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "flexibility.svg"
CASES = (
    ("scara", "motor", 20.0),
    ("scara", "link", 20.0),
    ("scara", "rigid", 0.0),
    ("puma4", "motor", 20.0),
)
"""Robot, side of the encoders, frequency at which links swing, Hz."""


def case(name: str, side: str, frequency: float, seed: int) -> dict[str, Any]:
    """Return compliances over true ones, standard deviations and errors without and with the
    term.
    """
    robot = driven(seed, name)
    k = planted_stiffness(robot, frequency or 20.0, np.random.default_rng(seed))
    log, test = log_of(robot, k if frequency else None, side, seed)
    options: dict[str, Any] = {
        "friction": "own",
        "rotor_inertia": None,
        "sign_width": 0.05,
        "consistent": False,
    }
    encoder = "motor" if side == "rigid" else side
    models = [
        md.identify(robot, log, flexibility=flexibility, **options)
        for flexibility in (None, encoder)
    ]
    errors = [
        float(np.linalg.norm(one.predict(test) - test.tau) / np.linalg.norm(test.tau))
        for one in models
    ]
    found = models[1].flexibility
    assert found is not None
    true = 1.0 / k if frequency else 0.0 * k
    return {
        "z": (found.compliance - true) / found.std,
        "share": found.compliance * k,
        "std": found.std * k,
        "errors": errors,
    }


def real() -> None:
    """Print what the term brings on logs of real robots."""
    import real_logs
    import real_robots

    print("| log | encoders | other part | gain in held-out stretches, nats | stiffness shown |")
    print("|---|---|---:|---:|---|")
    for pair in real_robots.pairs():
        if pair.name.startswith("KR300"):
            continue
        for encoder in (None, "motor", "link"):
            estimate = md.identify(pair.robot, pair.fitted, flexibility=encoder)
            test = real_logs.as_fitted(estimate, pair.test, {})
            error = md.validate(estimate, test).relative_error
            bent = estimate.flexibility
            gain = "" if bent is None else f"{estimate.record['flexibility']['gain']:+.3f}"
            sure = [] if bent is None else np.flatnonzero(bent.compliance > 2 * bent.std)
            words = ", ".join(
                f"{pair.robot.joint_names[j]} {bent.stiffness[j]:.2g} ± {bent.stiffness_std[j]:.1g}"
                for j in sure
            )
            print(
                f"| {pair.name} | {encoder or 'stiff'} | {100 * error:.2f} % | {gain} | {words} |"
            )


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw compliances over true ones with their deviations, and errors with the term over those
    without.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    share, std = (np.concatenate([row[key] for row in rows]) for key in ("share", "std"))
    order = np.argsort(std)
    left.axhline(1.0, color="#888888", linewidth=0.8)
    left.errorbar(
        np.arange(len(order)), share[order], 1.96 * std[order], fmt="o", markersize=3, linewidth=0.8
    )
    left.set(
        xlabel="joints of all robots, the best known first",
        ylabel="compliance over the true one",
        ylim=(-0.2, 2.2),
    )
    errors = 100 * np.array([row["errors"] for row in rows])
    ends = [0.8 * errors.min(), 1.2 * errors.max()]
    right.plot(ends, ends, color="#888888", linewidth=0.8)
    right.plot(errors[:, 0], errors[:, 1], "o", markersize=4)
    right.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="error of the rigid model, %"
    )
    right.set_ylabel("error with joints that give way, %")
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--figure", action="store_true", help="draw docs/figures/flexibility.svg")
    given = parser.parse_args()
    if given.real:
        real()
        return
    print(
        "| robot | encoders | error, rigid | error with the term | z, rms | abs(z) < 1.96 | std "
        "of c, median |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    drawn = []
    for name, side, frequency in CASES:
        rows = [case(name, side, frequency, seed) for seed in range(given.seeds)]
        drawn += rows if side == "motor" else []
        z, std = (np.concatenate([row[key] for row in rows]) for key in ("z", "std"))
        errors = 100 * np.median([row["errors"] for row in rows], axis=0)
        words = (
            f"| {name} | {side} | {errors[0]:.2f} % | {errors[1]:.2f} % | "
            f"{np.sqrt(np.mean(z**2)):.2f} "
        )
        print(
            f"{words}| {100 * np.mean(np.abs(z) < 1.96):.0f} % | {100 * np.median(std):.0f} % |",
            flush=True,
        )
    if given.figure:
        draw(drawn)


if __name__ == "__main__":
    main()
