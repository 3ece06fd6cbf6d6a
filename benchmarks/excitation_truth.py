"""Are predicted errors true, and what does a second designed run bring?

    python benchmarks/excitation_truth.py [--runs 200]

A motion is designed for a robot with friction; it runs in simulation under a controller, with
noise, many times, and every log is identified. The spread of the estimates over the runs is
compared with the standard deviations that the design predicted. Then: a second motion designed
after the first against the first one run twice.
"""

from __future__ import annotations

import argparse

import numpy as np

import minidyn as md

LIMITS = {"velocity": 1.5, "acceleration": 6.0, "effort": 150.0}
NOISE, RATE = 0.5, 1000.0
OPTIONS = {"friction": ("viscous", "coulomb"), "sign_width": 0.0, "consistent": False}


def robot() -> md.Robot:
    """The robot that makes the logs."""
    found = md.load("puma4").with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
    return found.with_parameters(np.where(np.isnan(found.parameters), 0.3, found.parameters))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    truth = robot()
    words = {"limits": LIMITS, "rate": RATE}
    first = md.excite(truth, 8.0, friction="own", rotor_inertia=None, noise=NOISE, **words)
    second = md.excite(truth, 8.0, after=first, criterion="e", **words)
    print(
        f"{len(first.names)} base parameters, condition {first.condition:.0f}; standard "
        "deviations over the first run's"
    )
    twice = np.sqrt(0.5)
    for label, lowered in (
        ("run twice", np.full(len(first.names), twice)),
        ("second designed", second.std / first.std),
    ):
        worst = lowered[int(np.argmax(first.std))]
        print(f"  {label:16s} of the worst one {worst:.3f}, median {np.median(lowered):.3f}")
    one, two = first.criteria["e"], second.criteria["e"]
    print(
        f"  largest along any direction: {one:.4g}; run twice {one * twice:.4g}, second designed "
        f"{two:.4g}"
    )
    less = 1 - two / one
    print(
        f"  lowered by {less:.3f}, running twice by {1 - twice:.3f}: {less / (1 - twice):.2f} "
        "times more"
    )
    for label, more in (
        ("another start", {"seed": 1}),
        ("a third", {"seed": 2}),
        ("8 harmonics", {"harmonics": 8}),
    ):
        other = md.excite(truth, 8.0, after=first, criterion="e", **words, **more)
        print(f"  {label}: {(1 - other.criteria['e'] / one) / (1 - twice):.2f} times more")
    law = md.control.computed_torque(truth, bandwidth=20)
    estimates = []
    for seed in range(runs):
        run = md.simulate(
            truth, law, first.trajectory, first.duration, torque_noise=NOISE, seed=seed
        )
        log = md.Recording(run.t, run.q, run.tau, run.dq, run.ddq, joint_names=truth.joint_names)
        estimates.append(md.identify(truth, log, **OPTIONS).beta)
        if seed + 1 in (20, 50, 100, runs):
            ratio = np.std(estimates, axis=0, ddof=1) / first.std
            bias = (
                np.abs(np.mean(estimates, axis=0) - first.base.values(truth.parameters)) / first.std
            )
            print(
                f"{seed + 1:4d} runs: spread over predicted {np.sqrt(np.mean(ratio**2)):.3f} "
                f"(root mean square), {ratio.min():.3f} to {ratio.max():.3f}; largest bias "
                f"{bias.max():.2f} standard deviations",
                flush=True,
            )


if __name__ == "__main__":
    main()
