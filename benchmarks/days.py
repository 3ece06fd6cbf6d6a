"""By how much a robot's friction varies between days, and whether intervals hold it.

    python benchmarks/days.py [--simulated 6] [--docs]

One log cannot show what another day changes, so `estimate.predict_std` takes friction to vary by a
share of itself. Each recording of a day is identified alone and predicts those of the other days:
three runs of a KR300, two days of a UR10 (its first log in two halves), and simulated robots whose
friction is 30 % less to 30 % more in each log, evenly, 17 % standard deviation. For a grid of
shares, the raw samples within 1.96 deviations are counted; the share that gives 95 % over the pairs
of a robot is what its days ask for. Each robot is then judged with the share of the other real
ones. z is the difference of base parameters over the root of the sum of their variances, which hold
`estimate.day_covariance`. --docs writes the table of docs/estimators.md.
"""

from __future__ import annotations

import argparse
import itertools
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import minidyn as md
from minidyn.identification.days import DAY_SPREAD
from real_logs import as_fitted, fit
from real_robots import Array, Group
from stability import groups_of, z_of

DOCS = Path(__file__).parents[1] / "docs" / "estimators.md"
SHARES = np.linspace(0.0, 0.5, 51)
NOMINAL, WIDTH = 0.95, 1.96  # of samples within so many deviations
PLANTED = 0.3 / np.sqrt(3.0)  # standard deviation of simulated drift
FACTORS = (0.5, 1.0, 1.5, 2.0, 3.0)  # friction that varies by more or less than is assumed


def of_days(one: md.Estimate, other: md.Estimate, log: md.Recording) -> dict[str, Any]:
    """Return the samples of another day within intervals, for each share, and z of both models."""
    run = as_fitted(one, log, {})
    off = np.abs(run.telemetry["tau_raw"] - one.predict(run))
    least, most = (one.predict_std(run, share) ** 2 for share in (0.0, 1.0))
    within = [float(np.mean(off**2 <= WIDTH**2 * (least + s**2 * (most - least)))) for s in SHARES]
    z = [z_of(one, other, same_day=False, friction=friction) for friction in (False, True)]
    return {"within": within, "default": covered(off, one.predict_std(run)), "z": z}


def covered(off: Array, std: Array) -> float:
    """Return the share of samples within the interval."""
    return float(np.mean(off <= WIDTH * std))


def measure(group: Group) -> list[dict[str, Any]]:
    """Return the figures of all pairs of days of a group."""
    logs = group.logs | group.others
    pairs = [
        pair for pair in itertools.permutations(logs, 2) if group.days and not group.same_day(*pair)
    ]
    models = {name: fit(group.robot, logs[name], {}) for name in sorted(set(sum(pairs, ())))}
    return [of_days(models[one], models[other], logs[other]) for one, other in pairs]


def asked(pairs: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of friction by which it must vary for 95 % of the samples of these pairs."""
    within = np.mean([pair["within"] for pair in pairs], axis=0)
    return float(np.interp(NOMINAL, np.maximum.accumulate(within), SHARES))


def robot_row(name: str, pairs: Sequence[Mapping[str, Any]], share: float) -> str:
    """Return the line of a robot, judged with a share."""
    within = np.array([pair["within"] for pair in pairs])
    with_share = np.array([np.interp(share, SHARES, curve) for curve in within])
    z = np.sqrt(np.mean(np.square([pair["z"] for pair in pairs]), axis=0))
    spans = (within[:, 0], with_share, np.array([pair["default"] for pair in pairs]))
    shown = [f"{100 * one.mean():.0f} % ({100 * one.min():.0f} to {100 * one.max():.0f})"
             for one in spans]  # fmt: skip
    return (
        f"| {name} | {len(pairs)} | {shown[0]} | {100 * asked(pairs):.0f} % | {100 * share:.0f} % "
        f"| {shown[1]} | {shown[2]} | {z[0]:.2f} | {z[1]:.2f} |"
    )


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the tables: robots, and friction that varies by more or less than is assumed."""
    real = {name: pairs for name, pairs in found.items() if "simulated" not in name}
    drift = [pair for name, pairs in found.items() if name not in real for pair in pairs]
    lines = [
        "| robot | pairs | within, same day assumed | share that gives 95 % | share of the other "
        f"robots | within, with that | within, default ({100 * DAY_SPREAD:.0f} %) | z, links and "
        "rotors | z, friction |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, pairs in real.items():
        others = [asked(other) for key, other in real.items() if key != name]
        lines.append(robot_row(name, pairs, float(np.mean(others))))
    if drift:
        of_all = float(np.mean([asked(pairs) for pairs in real.values()]))
        lines.append(robot_row("simulated, 17 %", drift, of_all))
        within = np.mean([pair["within"] for pair in drift], axis=0)
        cells = [f"{100 * np.interp(PLANTED / factor, SHARES, within):.0f} %" for factor in FACTORS]
        lines += [
            "",
            f"| friction varies by, over what is assumed | {' | '.join(map(str, FACTORS))} |",
            "|---|" + "---:|" * len(FACTORS),
            f"| samples within, simulated | {' | '.join(cells)} |",
        ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulated", type=int, default=6, help="robots that are simulated")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/estimators.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    with threadpool_limits(1):
        for group in groups_of(given.simulated):
            if group.days:
                found[group.name.removesuffix(", halves")] = measure(group)
                print(f"{group.name}: done", flush=True)
    print(text := table(found))
    if given.docs:
        begin, end = "<!-- days: begin -->", "<!-- days: end -->"
        page = DOCS.read_text(encoding="utf-8")
        page, count = re.subn(f"{begin}.*?{end}", f"{begin}\n\n{text}\n\n{end}", page, flags=re.S)
        if count != 1:
            raise SystemExit(f"{DOCS}: expected one pair of marks {begin} ... {end}")
        DOCS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
