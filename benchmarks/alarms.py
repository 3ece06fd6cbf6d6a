"""How often notices are wrong, and how often they find what they are for.

    python benchmarks/alarms.py [--logs 200] [--faults 20] [--docs] [--keep FILE] [--only CODE ...]

Healthy logs are simulated: several robots whose files are not exact, sharp and soft friction,
encoder steps, noise of speeds and torques, rates from 100 Hz to 1 kHz. Each goes the whole way: it
is written to a file, read, prepared, identified, tested on another run. Every notice of level
"error" or "warning" that comes up is a false alarm. Then a fault is planted into such logs, one
kind for each notice, and the share of logs in which the notice comes up is its detection rate.
Rules of the verdict count as notices, "verdict.NAME". With --docs the table and the figure of
docs/false-alarms.md are written. With --keep every finished log becomes a line of the file, and is
not run again: a run that was stopped goes on. Run it again, with a new file, whenever a default or
a threshold changes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md
from alarm_logs import ARMS, FAULTS, OFF, SMALL, Log, healthy, loaded, motion_log
from minidyn.notices import Notice

DOCS = Path(__file__).parents[1] / "docs" / "false-alarms.md"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "false-alarms.svg"
_BEGIN, _END = "<!-- alarms: begin -->\n", "<!-- alarms: end -->"
Codes = tuple[str, ...]  # codes of notices, or how they begin
METHODS = {
    "iv": "identify.biased",
    "tls": "identify.columns_too_noisy",
}  # and what they alone report
MOST = 0.05
"""False alarms that a notice may give."""

# what follows from names of columns, options, files or sizes, not from measured values: not
# measured here
BY_NAME = {
    "consistency.contradicted": "facts about bodies that the user names",
    "recording.currents": "columns named as currents",
    "recording.no_torques": "no column named as torques",
    "recording.units_converted": "units in names of columns",
    "recording.other_joints": "names of joints",
    "recording.not_logged": "names of joints",
    "recording.locked_moves": "joints that the user locks",
    "recording.signal_missing": "signals of several files",
    "recording.time_unit_guessed": "name of the time column",
    "recording.coupled_drives": "the mapping",
    "recording.arrival_times": "stamps of a bag",
    "recording.other_logs": "files of a folder",
    "recording.other_messages": "names in a bag",
    "recording.partly_missing": "messages of a bag",
    "recording.left_out": "files that cannot be read, with on_error='skip'",
    "recording.no_effort": "columns of a data set",
    "recording.topic_chosen": "topics of a bag",
    "identify.at_rest": "the share of the log that is held still",
    "identify.piecewise": "the length of the log",
    "identify.no_controller": "options",
    "identify.smoothed_instruments": "the controller",
    "identify.unsettled": "the controller",
    "prior.inconsistent": "the robot's file",
    "friction.one_log": "friction for each log was asked for",
    "friction.differs": "several logs, judged together",
    "friction.loads_unsettled": "the solver",
    "payload.gains_trusted": "the mapping: gains without a covariance",
    "payload.other_gains": "the mappings of two logs",
    "prior.little": "bodies of the robot's file against the data (benchmarks/priors.py)",
    "consistency.not_converged": "the solver",
    "consistency.not_certified": "the solver",
    "essential.removed": "asked for",
    "gains.open": "the plan of the runs",
}


def raised(log: Log, stage: str, folder: Path) -> set[str]:
    """Return the codes of notices of level "error" and "warning", and of rules that fail, up to a
    stage.
    """
    path = log.save(folder / "log.npz", ddq=stage == "use_ddq")
    recording = md.read_recording(path, log.file, use_ddq=stage == "use_ddq")
    notices = list(recording.notices)
    if stage == "check":
        return codes(md.check(log.file, recording).notices)
    if stage in ("prepare", "fit", "identify"):
        notices += md.prepare(log.file, recording).notices
    if stage in ("fit", "identify"):
        estimate = md.identify(log.file, recording, **log.options)
        notices += estimate.notices
        if stage == "fit":
            return codes(notices)
        again = motion_log(
            log.file,
            log.true,
            log.seed,
            np.random.default_rng(log.seed),
            md.trajectory.fourier(log.file, seed=10_007),
            10,
        )
        test = md.validate(
            estimate, md.Recording(again.t, again.q, again.tau, joint_names=log.file.joint_names)
        )
        return codes(notices) | {
            f"verdict.{rule.name}" for rule in estimate.verdict(test).rules if not rule.ok
        }
    return codes(notices)


def raised_by_load(baseline: Log, run: Log) -> set[str]:
    """Return codes as `raised` does, of the load in a run against a baseline."""
    base, loaded_run = (
        md.Recording(x.t, x.q, x.tau, joint_names=x.file.joint_names) for x in (baseline, run)
    )
    return codes(md.identify_payload(md.identify(baseline.file, base), loaded_run).notices)


def raised_by_method(log: Log, method: str) -> set[str]:
    """Return codes as `raised` does, of a method whose states may be noisy.

    "noisy" of the options over their size.
    """
    names = log.file.joint_names
    recording = md.Recording(log.t, log.q, log.tau, joint_names=names)
    if "noisy" in log.options:
        ready, rng = md.prepare(log.file, recording), np.random.default_rng(log.seed)
        states = (np.asarray(x) for x in (ready.dq, ready.ddq))
        shaken = [
            x + log.options["noisy"] * x.std(axis=0) * rng.normal(size=x.shape) for x in states
        ]
        recording = md.Recording(ready.t, ready.q, ready.tau, *shaken, names)
    return codes(md.identify(log.file, recording, method, consistent=False).notices)


def codes(notices: Iterable[Notice]) -> set[str]:
    """Return the codes of errors and warnings, and of information that faults are planted for."""
    return {notice.code for notice in notices if notice.level != "info" or notice.code in FAULTS}


def alarms_of(seed: int, folder: Path, only: Codes = ()) -> set[str]:
    """Return every alarm of one healthy log.

    By default settings, with friction switched off, by other methods; with `only` those of a fit
    with a test and of a check that begin so.
    """
    log, small = healthy(seed), healthy(seed, SMALL)
    if only:
        every = raised(log, "identify", folder) | raised(log, "check", folder)
        return {code for code in every if code.startswith(only)}
    off = raised(replace(small, options={"friction": ()}), "fit", folder) & {
        "identify.torque_delay"
    }
    found = raised(log, "identify", folder) | ({OFF} if off else set())
    for method, code in METHODS.items():
        found |= raised_by_method(small, method) & {code}
    rng = np.random.default_rng(seed)
    found |= {code for code in raised(log, "check", folder) if code.startswith("check.")}
    found |= raised(log, "use_ddq", folder) & {"recording.ddq_noisy"}
    arm = healthy(seed, ARMS)
    return found | {
        code for code in raised_by_load(arm, loaded(arm, rng)) if code.startswith("payload.")
    }


def detected(code: str, seed: int, folder: Path) -> bool:
    """Return whether a notice comes up in one log with its fault planted.

    An error that refuses the log counts, too.
    """
    _, stage, robots, plant = FAULTS[code]
    plain = healthy(seed, robots)
    log = plant(plain, np.random.default_rng(seed))
    try:
        if stage == "payload":
            found = raised_by_load(plain, log)
        else:
            found = raised_by_method(log, stage) if stage in METHODS else raised(log, stage, folder)
    except md.MinidynError:
        return True
    return code.partition(",")[0] in found


def _work(only: Codes, task: tuple[str, int]) -> tuple[str, int, list[str]]:
    """Do one log: all alarms of a healthy one (code "") or whether a fault was detected."""
    warnings.simplefilter("ignore")
    code, seed = task
    with tempfile.TemporaryDirectory() as folder:
        if code:
            return code, seed, [code] if detected(code, seed, Path(folder)) else []
        return code, seed, sorted(alarms_of(seed, Path(folder), only))


def measure(
    logs: int, faults: int, jobs: int, only: Codes = (), keep: Path | None = None
) -> dict[str, Any]:
    """Return the counts of false alarms over healthy logs, and of detections over logs with each
    fault.
    """
    tasks = [("", seed) for seed in range(logs)]
    chosen = [code for code in FAULTS if code.startswith(only or "")]
    tasks += [(code, 10_000 + k) for code in chosen for k in range(faults)]
    done: dict[tuple[str, int], list[str]] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text(encoding="utf-8").splitlines():
            code, seed, raised_codes = json.loads(line)
            done[code, seed] = raised_codes
    with ProcessPoolExecutor(jobs) as pool:
        for code, seed, raised_codes in pool.map(
            partial(_work, only), [task for task in tasks if task not in done]
        ):
            done[code, seed] = raised_codes
            if keep is not None:
                with keep.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps([code, seed, raised_codes]) + "\n")
            if not code and raised_codes:
                print(f"healthy log {seed}: {', '.join(raised_codes)}", flush=True)
    alarms = Counter(one for task in tasks if not task[0] for one in done[task])
    found = {
        code: sum(len(done[task]) for task in tasks if task[0] == code) for code, _ in tasks if code
    }
    return {"logs": logs, "faults": faults, "alarms": alarms, "detected": found, "codes": chosen}


def rows(result: dict[str, Any]) -> list[tuple[str, float, float | None, str]]:
    """Return (code, share of false alarms, share of faults detected, fault) of every code that was
    measured.
    """
    listed = sorted({*result["codes"], *result["alarms"]})
    return [
        (
            code,
            result["alarms"].get(code, 0) / max(result["logs"], 1),
            result["detected"][code] / result["faults"] if code in result["detected"] else None,
            FAULTS[code][0] if code in FAULTS else BY_NAME.get(code, ""),
        )
        for code in listed
    ]


def write_docs(result: dict[str, Any]) -> None:
    """Write the table and the figure of docs/false-alarms.md."""
    lines = ["| notice | false alarms | detected | fault planted |", "|---|---|---|---|"]
    measured = [row for row in rows(result) if row[2] is not None or row[0].startswith("verdict.")]
    for code, alarms, found, fault in measured:
        shown = "" if found is None else f"{100 * found:.0f} %"
        lines.append(
            f"| `{code.partition(',')[0]}`{code.partition(',')[1]}{code.partition(',')[2]} | "
            f"{100 * alarms:.1f} % | {shown} | {fault} |"
        )
    text = DOCS.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    table = "\n".join(
        [
            _BEGIN,
            f"{result['logs']} healthy logs; {result['faults']} logs with each fault.",
            "",
            *lines,
            "",
        ]
    )
    DOCS.write_text(head + table + _END + rest.partition(_END)[2], encoding="utf-8")
    draw(measured)


def draw(measured: list[tuple[str, float, float | None, str]]) -> None:
    """Draw both rates of each notice."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.24 * len(measured) + 1.2), layout="constrained")
    axis = figure.subplots()
    places = range(len(measured))
    axis.axvspan(0, 100 * MOST, color="#d62728", alpha=0.12, linewidth=0)
    axis.plot(
        [100 * row[1] for row in measured],
        places,
        "o",
        color="#d62728",
        label="false alarms (healthy logs)",
    )
    seen = [(100 * row[2], place) for place, row in zip(places, measured) if row[2] is not None]
    axis.plot(*zip(*seen), "s", color="#1f77b4", label="detected (fault planted)")
    axis.set_yticks(list(places), [row[0] for row in measured], fontsize=8)
    axis.set_xlabel("share of logs, % (shaded: up to 5 %, where false alarms must lie)")
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.legend(loc="center", fontsize=8)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--only", nargs="+", default=[], help="codes of notices, or how they begin: signals."
    )
    parser.add_argument(
        "--docs", action="store_true", help="write docs/false-alarms.md and its figure"
    )
    parser.add_argument(
        "--keep", type=Path, help="keep finished logs in this file, and do not run them again"
    )
    given = parser.parse_args()
    if given.docs and given.only:
        parser.error("--docs writes the whole table, --only measures a part of it")
    begin = time.monotonic()
    result = measure(given.logs, given.faults, given.jobs, tuple(given.only), given.keep)
    for code, alarms, found, _ in rows(result):
        print(
            f"{code:40} {100 * alarms:6.1f} %   {'-' if found is None else f'{100 * found:.0f} %'}"
        )
    print(f"{time.monotonic() - begin:.0f} s")
    if given.docs:
        write_docs(result)


if __name__ == "__main__":
    main()
