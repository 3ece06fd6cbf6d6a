"""Scales of the prior on real logs: errors on recordings that were not fitted.

    python benchmarks/prior_scales.py

The prior is that of the robot file, held at one scale for all links, with plain friction terms and
a low-pass of 10 Hz. Errors are over those of the same fit without a prior. The last column is what
is chosen by the score of held-out blocks. Logs are those of real_robots.py whose files have
inertias.
"""

from __future__ import annotations

import warnings

import numpy as np
from threadpoolctl import threadpool_limits

import minidyn as md
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.consistency.scale import SCALES, PriorTrial, Scale, choose_scale
from minidyn.identification.estimators.least_squares import WLS
from minidyn.identification.estimators.method import Options
from minidyn.identification.rows.base_rows import typical_sizes
from minidyn.model.drives import PLAIN
from real_robots import Array, Pair, groups, pairs

TRIED = (Scale("3 %", 0.03), *SCALES, Scale("100 %", 1.0), Scale("300 %", 3.0))
CHOSEN = "best score"
COLUMNS = [*(scale.name for scale in TRIED), CHOSEN]


def logs() -> list[Pair]:
    """Return the pairs whose robot file has inertias, and halves of logs tested on each other."""
    found = [pair for pair in pairs() if "KR300" not in pair.name]
    for group in groups():
        if group.name == "KR300":
            continue
        for name, log in group.logs.items():
            others = {**group.logs, **group.others}
            found += [
                Pair(f"{group.name}: {name} -> {other}", group.robot, log, test)
                for other, test in others.items()
                if other != name
            ]
    return found


def ratios(pair: Pair) -> dict[str, tuple[float, float]]:
    """Return for each column the error over that without prior, and the total mass, kg."""
    model = pair.robot.with_drives(True, PLAIN)
    base = md.base_parameters(model)
    data, test = (
        md.prepare(model, log, cutoff=10.0, delay=0.0) for log in (pair.fitted, pair.test)
    )
    every = max(1, len(test) // 3000)
    states = (np.asarray(values)[::every] for values in (test.q, test.dq, test.ddq))
    rows = md.base_regressor(model, *states, base=base).reshape(-1, base.rank)
    tau = np.asarray(test.telemetry.get("tau_raw", test.tau))[::every].ravel()
    solution, seen = WLS.solve(model, base, data, Options(allow_open=True)), typical_sizes(data)

    def fitted(**options: object) -> tuple[float, Array]:
        fit = make_consistent(model, base, solution.R, solution.z, seen=seen, **options)
        return float(np.linalg.norm(rows @ fit.beta - tau)), fit.phi

    trial = PriorTrial(
        model, base, (solution.R, solution.z), solution.folds(), model.parameters, seen=seen
    )
    without, _ = fitted()
    found = {}
    for name, prior in zip(COLUMNS, [*map(trial.at, TRIED), choose_scale(trial)], strict=True):
        error, phi = fitted(prior=prior.parameters, weight=prior.weight, shares=prior.shares)
        mass = float(sum(phi[part][9] for part in model.layout.links))
        found[name] = error / without, mass
    return found


def main() -> None:
    """Print a row for each pair, then means."""
    warnings.simplefilter("ignore")
    print(f"| fit -> test | {' | '.join(COLUMNS)} | mass, kg |")
    print("|---|" + "---:|" * (len(COLUMNS) + 1))
    every = []
    with threadpool_limits(1):
        for pair in logs():
            row = ratios(pair)
            every.append([ratio for ratio, _ in row.values()])
            cells = " | ".join(f"{ratio:.2f}" for ratio, _ in row.values())
            print(f"| {pair.name} | {cells} | {row[CHOSEN][1]:.1f} |", flush=True)
    means, worst = np.exp(np.mean(np.log(every), axis=0)), np.max(every, axis=0)
    print(f"| geometric mean | {' | '.join(f'{value:.3f}' for value in means)} | |")
    print(f"| worst | {' | '.join(f'{value:.2f}' for value in worst)} | |")


if __name__ == "__main__":
    main()
