"""Do stated errors hold between runs?

Several logs of one simulated robot answer, with effects that the model lacks.

    python benchmarks/between_runs.py [--robots two_link scara ur10e] [--effect ripple presliding
    drift] [--cases 2]

A case is a robot, an effect (truth_effects.py) and a seed. Three runs of other motions, the last
one at half the speed, are logged and identified one by one, with default settings and with plain
friction terms, which leave the effect out of the model. Asked is whether two estimates differ by
what is stated (`md.compare_estimates`, share within 1.96), also if nothing were common (difference
over the root of both variances), whether the truth lies within 1.96 deviations, and whether 95 % of
the torques of the other runs, as measured and low-passed, lie within the interval that
`Estimate.predict_std` gives; where friction drifts, also that of a model of two of the runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import minidyn as md
from alarm_logs import Array, Log, motion_log, true_robot
from minidyn.recording.lazy import concatenate
from minidyn.recording.ready import ready
from truth_effects import EFFECTS, along, planted

DOCS = Path(__file__).parents[1] / "docs" / "estimators.md"
_BEGIN, _END = "<!-- between: begin -->\n", "<!-- between: end -->"
PACES = (1.0, 1.0, 0.5)
"""Speeds of the runs, over that of the first."""
PLAIN = ("viscous", "coulomb", "offset")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain friction": {"friction": PLAIN},
    "least squares": {"friction": PLAIN, "consistent": False},
}


def logs_of(name: str, effect_name: str, seed: int, paces: tuple[float, ...] = PACES) -> list[Log]:
    """Return runs of one robot: motions differ, and friction where it drifts."""
    effect = EFFECTS[effect_name]
    rng, drawn = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    file = md.load(name)
    true = true_robot(file, rng)
    slow = float(rng.choice([1.0, 2.0]))
    torque, logs = None, list[Log]()
    for run, pace in enumerate(paces):
        motion = md.trajectory.fourier(
            file, seed=seed + 1000 * run, period=10.0 * slow, speed=2.0 * pace / slow
        )
        motion = motion if effect.motion is None else effect.motion(motion)
        torque = planted(effect, true, drawn, motion, 10.0 * slow) if run == 0 else torque
        more = None if torque is None else along(torque, motion)
        own = true if effect.later is None else effect.later(true, drawn)
        like = logs[0] if logs else None
        logs.append(
            motion_log(
                file, own, seed, rng, motion, 10.0 * slow, like, rates=effect.rates, more=more
            )
        )
    return logs


def rigid(estimate: md.Estimate) -> list[int]:
    """Return the places of base parameters of links and rotors."""
    columns = [estimate.base.robot.layout.column(name) for name in estimate.base.kept]
    return [k for k, column in enumerate(columns) if column.is_rigid or column.symbol == "Ia"]


def within(log: Log, estimate: md.Estimate, drift: float | None) -> tuple[float, float]:
    """Return the share of a run's torques, measured and low-passed ones, within 1.96 deviations of
    the prediction, with a drift as `Estimate.predict_std` has it.
    """
    raw = md.Recording(log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names)
    preparation = estimate.record.get("preparation")
    run = ready(estimate.robot, raw, purpose="validation", preparation=preparation, in_memory=True)
    shares = []
    for low_passed, tau in ((False, run.telemetry["tau_raw"]), (True, np.asarray(run.tau))):
        off = np.abs(tau - estimate.predict(run, low_passed=low_passed))
        std = estimate.predict_std(run, drift, low_passed=low_passed)
        shares.append(float(np.mean(off <= 1.96 * std)))
    return shares[0], shares[1]


def work(task: tuple[str, str, int]) -> dict[str, Any]:
    """Do one case: z values and covered torques of each setting."""
    warnings.simplefilter("ignore")
    name, effect, seed = task
    logs = logs_of(name, effect, seed)
    drift = 0.0 if EFFECTS[effect].later is None else None  # runs of one day, or of several
    row: dict[str, Any] = {
        "robot": name,
        "effect": effect,
        "seed": seed,
        "between": {},
        "truth": {},
        "torque": {},
    }
    row |= {"seconds": {}, "whole": {}, "shares": {}, "filtered": {}}
    with threadpool_limits(1):
        for setting, options in SETTINGS.items():
            begin = time.process_time()
            found = []
            for log in logs:
                raw = md.Recording(log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names)
                found.append(md.identify(log.file, raw, **options))
            row["seconds"][setting] = (time.process_time() - begin) / len(logs)
            between: list[float] = []
            whole: list[float] = []
            off: list[float] = []
            covered: list[tuple[float, float]] = []
            shares: list[float] = []
            for k, estimate in enumerate(found):
                model = estimate.base.robot
                true = logs[k].true
                known = dict(zip(true.parameter_names, true.parameters))
                phi = [known.get(name, 0.0) for name in model.parameter_names]
                own = rigid(estimate)
                z = (estimate.beta - estimate.base.values(phi)) / estimate.std
                off += z[own].tolist()
                shares += estimate.data_shares[own].tolist()
            for one, other in itertools.combinations(found, 2):
                own, pairs = rigid(one), md.compare_estimates(one, other).pairs
                between += [pairs[k].apart for k in own]
                for (value, std), (other_value, other_std) in (
                    (pairs[k].first, pairs[k].second) for k in own
                ):
                    whole.append((value - other_value) / float(np.hypot(std, other_std)))
            for k, estimate in enumerate(found):
                for other_log in (log for j, log in enumerate(logs) if j != k):
                    covered.append(within(other_log, estimate, drift))
            row["between"][setting], row["truth"][setting] = between, off
            row["torque"][setting], row["filtered"][setting] = map(list, zip(*covered))
            row["whole"][setting], row["shares"][setting] = whole, shares
        row["logs"] = of_two_logs(logs) if EFFECTS[effect].later is not None else []
    return row


def of_two_logs(logs: list[Log]) -> list[tuple[float, float]]:
    """Return the part of each run's torques within the interval of a model of the others, friction
    of each its own.
    """
    covered = []
    raw = [
        md.Recording(log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names)
        for log in logs
    ]
    for left_out, log in enumerate(logs):
        fitted = concatenate([one for k, one in enumerate(raw) if k != left_out])
        estimate = md.identify(log.file, fitted, friction_per="log")
        covered.append(within(log, estimate, None))
    return covered


def share(values: Any, limit: float = 1.96) -> float:
    """Return the share of finite z values within a limit."""
    z: Array = np.abs(np.array(values, dtype=float))
    return float(np.mean(z[np.isfinite(z)] <= limit))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table: a line an effect and setting."""
    lines = [
        (
            "| planted | setting | runs | rms of z | nothing common | rms of z | truth | torques "
            "| low-passed |"
        )
    ]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    names = list(dict.fromkeys(row["effect"] for row in rows))
    for name, setting in itertools.product(
        [*names, *(["all"] if len(names) > 1 else [])], SETTINGS
    ):
        own = [row for row in rows if name in (row["effect"], "all")]
        keys = ("between", "whole", "truth", "torque", "filtered")
        z, whole, off, *torques = (
            [value for row in own for value in row[key][setting]] for key in keys
        )
        sizes = [float(np.sqrt(np.nanmean(np.square(values)))) for values in (z, whole)]
        shares = (
            f"{100 * share(z):.1f} % | {sizes[0]:.2f} | {100 * share(whole):.1f} % | "
            f"{sizes[1]:.2f} | "
        )
        cells = ["-" if name == "all" else f"{100 * np.mean(torque):.1f} %" for torque in torques]
        shares += f"{100 * share(off):.1f} % | {' | '.join(cells)}"
        lines.append(f"| {name} | {setting} | {shares} |")
        more = [value for row in own for value in row.get("logs", [])]
        if more and name != "all" and setting == list(SETTINGS)[-1]:
            cells = [f"{100 * part:.1f} %" for part in np.mean(more, axis=0)]
            lines.append(
                f'| {name} | two logs, friction_per="log" | - | - | - | - | - | '
                f"{' | '.join(cells)} |"
            )
    return "\n".join(lines)


def write_docs(rows: list[dict[str, Any]]) -> None:
    """Write the table of docs/estimators.md."""
    text = DOCS.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    robots = len({row["robot"] for row in rows})
    words = (
        '"Runs" is the share of the parameters of links and rotors that are less than 1.96 '
        "deviations apart in two\n"
        'runs (`md.compare_estimates`), "nothing common" the same were all errors of both '
        'independent, "truth" the\n'
        'share within 1.96 of the truth, "torques" the share of another run\'s measured torques '
        "within 1.96 of\n"
        '`estimate.predict_std`, "low-passed" that of its low-passed ones: of another day where '
        "friction drifts, else\n"
        "of the same one (`drift=0.0`). Default settings know presliding and\n"
        f"Stribeck friction; least squares with plain friction terms does not. {robots} robots, "
        f"{len(rows)} cases:\n\n"
        f"{table(rows)}\n"
    )
    DOCS.write_text(f"{head}{_BEGIN}{words}{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", nargs="+", default=["two_link", "scara", "puma4", "ur10e"])
    parser.add_argument(
        "--effect",
        nargs="+",
        default=["none", "ripple", "presliding", "drift"],
        choices=list(EFFECTS),
    )
    parser.add_argument("--cases", type=int, default=2, help="of each robot and effect")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), help="some of them only")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--docs", action="store_true", help="write the table of docs/estimators.md")
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="of each robot and effect, instead of --cases"
    )
    parser.add_argument(
        "--json", type=Path, help="keep the rows; with --read they are read, not measured"
    )
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    cases = itertools.product(
        given.effect, enumerate(given.robots), given.seeds or range(given.cases)
    )
    tasks = [
        (robot, effect, k if given.seeds else 100 * k + 7 * n) for effect, (n, robot), k in cases
    ]
    if given.settings:
        for name in SETTINGS.keys() - set(given.settings):
            del SETTINGS[name]
    rows = json.loads(given.json.read_text()) if given.read else []
    with ProcessPoolExecutor(given.jobs) as pool:
        for row in pool.map(work, [] if given.read else tasks):
            rows.append(row)
            shares = [
                [share(row["between"][s]), share(row["truth"][s]), np.mean(row["torque"][s])]
                for s in SETTINGS
            ]
            words = "  ".join(" ".join(f"{100 * part:5.1f}" for part in parts) for parts in shares)
            print(
                f"{row['effect']:12} {row['robot']:9} {sum(row['seconds'].values()):4.1f} s  "
                f"{words}",
                flush=True,
            )
            if given.json and not given.read:
                given.json.write_text(json.dumps(rows))
    print(table(rows))
    if given.docs:
        write_docs(rows)


if __name__ == "__main__":
    main()
