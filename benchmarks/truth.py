"""How true are models of default settings? Simulated robots, of which everything is known, answer.

    python benchmarks/truth.py [--robots 12] [--cases 1] [--effect NAME ...] [--jobs 2] [--json
    FILE] [--docs]
    python benchmarks/truth.py --robots 4 --effect presliding none   # a small look

A case is a robot, an effect that is planted (truth_effects.py), and numbers drawn with its seed:
masses that differ from the file, drives, motion, rate, encoder, noise. One run is logged, written
to a file, read and identified; another run of the same robot tests the model, at its exact
positions, speeds and accelerations: errors are those of the model, not of a filter. Contestants are
the default, plain weighted least squares as many write it for themselves, the default with one
thing switched off, and FIGAROH with --figaroh where it is installed. The best is the best of a
case.

Two errors, ||torque - prediction|| / ||torque||: against the torque as it is measured (with its
noise, as a log shows it), and against the exact one. Coverage: the share of rigid and rotor base
parameters within 1.96 stated standard deviations of the truth. With --docs table and figures of
docs/truth.md are written. With --json every finished case is kept with the commit it was measured
with, and is not run again: a run may be stopped and gone on with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt
from threadpoolctl import threadpool_limits

import minidyn as md
from alarm_logs import Array, Log, motion_log, true_robot
from plain import weighted
from truth_effects import EFFECTS, along, planted

DOCS = Path(__file__).parents[1] / "docs" / "truth.md"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "truth.svg"
_BEGIN, _END = "<!-- truth: begin -->\n", "<!-- truth: end -->"
ROBOTS = (
    *("ur10e", "scara", "panda", "puma4", "two_link", "ur10", "iiwa14", "z1", "two_arm"),
    *("xarm7", "ur5e", "gen3", "so101"),
)
"""Built-in robots whose links are bodies that can exist: real ones are."""
PLAIN = ("viscous", "coulomb", "offset")
CUTOFF = 10.0  # Hz, of the filter that people write for themselves
NEAR, WORSE = 1.03, 1.05
"""The default should be within NEAR of the best, and not worse than WORSE times plain least
squares.
"""


@dataclass(frozen=True)
class Case:
    """A logged run, and another run to test with: exact states, exact and measured torque."""

    log: Log
    test: md.Recording
    exact: Array
    options: dict[str, Any]  # of md.identify: what a user of this robot would say


@dataclass(frozen=True)
class Found:
    """What a contestant predicts for the test run, and its base parameters with standard
    deviations.
    """

    predicted: Array
    base: md.BaseMap | None = None
    beta: Array | None = None
    std: Array | None = None


def case_of(name: str, effect_name: str, seed: int) -> Case:
    """Return a case: the same seed draws the same robot, motion and sensors for every effect."""
    effect = EFFECTS[effect_name]
    rng, drawn = (
        np.random.default_rng(seed),
        np.random.default_rng(seed + 1),
    )  # of the robot; of the effect
    file = md.load(name)
    true = true_robot(file, rng)
    slow = float(rng.choice([1.0, 2.0]))
    usual = {"period": 10.0 * slow, "speed": 2.0 / slow}
    seconds = effect.seconds or 10.0 * slow
    motions = [
        md.trajectory.fourier(
            file, seed=seed + k, **(usual | (effect.shown or {} if k == 0 else {}))
        )
        for k in (0, 999)
    ]
    motions = motions if effect.motion is None else [effect.motion(motion) for motion in motions]
    torque = planted(effect, true, drawn, motions[0], seconds)
    more = [None if torque is None else along(torque, motion) for motion in motions]
    more[1] = None if effect.fitted_alone else more[1]
    log = motion_log(file, true, seed, rng, motions[0], seconds, rates=effect.rates, more=more[0])
    other = true if effect.later is None else effect.later(true, drawn)
    t = np.arange(int(10.0 * slow * 250)) / 250.0
    states = motions[1](t)
    exact = md.inverse_dynamics(other, *states) + (0.0 if more[1] is None else more[1](t))
    measured = exact + log.noise * rng.normal(size=exact.shape)
    log = log if effect.log is None else effect.log(log, drawn)
    told = file if effect.file is None else effect.file(file, drawn)
    log = Log(told, *(getattr(log, name) for name in list(Log.__dataclass_fields__)[1:]))
    test = md.Recording(t, states[0], measured, states[1], states[2], file.joint_names)
    return Case(log, test, np.asarray(exact), {})


def ours(**options: Any) -> Callable[[Case, Path], Found]:
    """Return a contestant: md.identify with options."""

    def fit(case: Case, folder: Path) -> Found:
        recording = md.read_recording(case.log.save(folder / "log.npz"), case.log.file)
        estimate = md.identify(case.log.file, recording, **(case.options | options))
        return Found(estimate.predict(case.test), estimate.base, estimate.beta, estimate.std)

    return fit


def plain(case: Case, folder: Path) -> Found:
    """Weighted least squares by hand.

    Even times, zero-phase Butterworth, differences, each joint by its noise.
    """
    log = case.log
    model = log.file.with_drives(True, PLAIN)
    base = md.base_parameters(model)
    order = np.argsort(log.t, kind="stable")
    step = float(log.t[order[-1]] - log.t[order[0]]) / (len(log.t) - 1)
    t = log.t[order[0]] + step * np.arange(len(log.t))
    sos = butter(4, min(CUTOFF, 0.35 / step), fs=1 / step, output="sos")
    q, tau = (
        sosfiltfilt(
            sos, np.column_stack([np.interp(t, log.t[order], x) for x in signal[order].T]), axis=0
        )
        for signal in (log.q, log.tau)
    )
    dq = np.gradient(q, step, axis=0)
    ddq = np.gradient(dq, step, axis=0)
    ends = round(0.2 / step)
    inside = slice(ends, len(t) - ends)
    Y, tau = md.base_regressor(model, q[inside], dq[inside], ddq[inside], base=base), tau[inside]
    beta, R = weighted(Y, tau)
    test = case.test
    predicted = (
        md.base_regressor(model, test.q, np.asarray(test.dq), np.asarray(test.ddq), base=base)
        @ beta
    )
    return Found(predicted, base, beta, np.sqrt(np.diag(np.linalg.pinv(R.T @ R))))


def figaroh(case: Case, folder: Path) -> Found:
    """FIGAROH's weighted least squares with the same cut-off.

    Accelerations of the test run are from its speeds.
    """
    import peer_figaroh

    path = folder / "robot.urdf"
    md.save(case.log.file, path)
    log, test, names = case.log, case.test, case.log.file.joint_names
    fitted = md.Recording(log.t, log.q, log.tau, joint_names=names)
    t = np.arange(test.t[0], test.t[-1], float(np.median(np.diff(log.t))))  # it knows one rate
    signals = [CubicSpline(test.t, values)(t) for values in (test.q, test.tau, test.dq)]
    tau = peer_figaroh.run(
        path,
        log.file,
        fitted,
        md.Recording(t, *signals, joint_names=names),
        CUTOFF,
        "fit",
        wls=True,
    )
    return Found(np.column_stack([np.interp(test.t, t, column) for column in tau[0].T]))


CONTESTANTS: dict[str, Callable[[Case, Path], Found]] = {
    "default": ours(),
    "plain": plain,
    "no prior": ours(prior=False),
    "least squares": ours(consistent=False),
    "plain friction": ours(friction=PLAIN),
}
"""By name; the default first."""

OTHERS: dict[str, Callable[[Case, Path], Found]] = {
    "figaroh": figaroh,
    "sharp": ours(method="parallel", sign_width=0.0),
    "flexible": ours(flexibility="motor"),
}
"""Contestants that take part where they are asked for: --figaroh, --sharp, --flexible."""


def coverage(found: Found, true: md.Robot) -> float:
    """Return the share of rigid and rotor base parameters within 1.96 standard deviations of the
    truth.
    """
    if found.base is None or found.beta is None or found.std is None:
        return float("nan")
    robot = found.base.robot
    phi = [
        true.parameters[true.layout.index(name)] if name in true.layout else 0.0
        for name in robot.parameter_names
    ]
    columns = [robot.layout.column(name) for name in found.base.kept]
    known = np.array(
        [column.is_rigid or column.symbol == "Ia" for column in columns]
    ) & np.isfinite(found.std)
    off = np.abs(found.beta - found.base.values(phi))
    return float(np.mean(off[known] <= 1.96 * found.std[known])) if known.any() else float("nan")


def work(task: tuple[str, str, int, tuple[str, ...]]) -> dict[str, Any]:
    """Do one case: errors (measured, exact) and coverage of each contestant.

    Infinite where it refused the log.
    """
    warnings.simplefilter("ignore")
    robot, effect, seed, contestants = task
    case = case_of(robot, effect, seed)
    row: dict[str, Any] = {
        "robot": robot,
        "effect": effect,
        "seed": seed,
        "rate": 1 / float(np.median(np.diff(case.log.t))),
    }
    row |= {"errors": {}, "coverage": {}, "seconds": {}, "refused": {}}
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        for name in contestants:
            begin = time.process_time()
            try:
                found = (CONTESTANTS | OTHERS)[name](case, Path(folder))
                errors = [
                    float(np.linalg.norm(tau - found.predicted) / np.linalg.norm(tau))
                    for tau in (np.asarray(case.test.tau), case.exact)
                ]
                row["coverage"][name] = coverage(found, case.log.true)
            except (md.MinidynError, RuntimeError, ArithmeticError, np.linalg.LinAlgError) as error:
                errors = [float("inf"), float("inf")]
                row["refused"][name] = str(error)[:200]
            row["errors"][name] = errors
            row["seconds"][name] = time.process_time() - begin
    return row


def commit() -> str:
    """Return the commit whose code runs; with a + where files of src differ from it."""

    def git(*words: str) -> str:
        told = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        return told.stdout.strip()

    return git("log", "-1", "--format=%h", "--", "../src") + (
        "+" if git("status", "--porcelain", "../src") else ""
    )


def measure(
    tasks: Sequence[tuple[str, str, int, tuple[str, ...]]], jobs: int, path: Path | None = None
) -> list[dict[str, Any]]:
    """Return a row for each case; print it, and keep what there is in a file, as it comes."""
    rows, code = list[dict[str, Any]](), commit()
    known = json.loads(path.read_text()) if path is not None and path.exists() else []
    done = {(row["robot"], row["effect"], row["seed"]): row for row in known}
    left = [
        task
        for task in tasks
        if not set(task[3]) <= set(done.get(task[:3], {"errors": ()})["errors"])
    ]
    rows += [done[task[:3]] for task in tasks if task not in left]
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(work, left):
            rows.append(row | {"code": code})
            errors = "  ".join(
                f"{100 * both[0]:6.2f} ({100 * both[1]:5.2f})" for both in row["errors"].values()
            )
            print(
                f"{row['effect']:12} {row['robot']:9} {row['rate']:5.0f} Hz  {errors}", flush=True
            )
            if path is not None:
                path.write_text(json.dumps(rows, indent=1))
    return rows


def judged(rows: Sequence[dict[str, Any]], kind: int = 0) -> dict[str, Any]:
    """Return what rows of an effect come to, by measured (0) or exact (1) torque."""
    default = np.array([row["errors"]["default"][kind] for row in rows])
    by_hand = np.array([row["errors"]["plain"][kind] for row in rows])
    best = np.array([min(both[kind] for both in row["errors"].values()) for row in rows])
    covered = {
        name: float(np.nanmean([row["coverage"].get(name, np.nan) for row in rows]))
        for name in ("default", "plain")
        if any(name in row["coverage"] for row in rows)
    }
    medians = {"default": np.median(default), "plain": np.median(by_hand), "best": np.median(best)}
    other = [row["errors"]["figaroh"][kind] for row in rows if "figaroh" in row["errors"]]
    medians["figaroh"] = np.median(other) if other else np.nan
    return {
        "cases": len(rows),
        **{name: float(value) for name, value in medians.items()},
        "near": float(np.mean(default <= NEAR * best)),
        "worse": float(np.mean(default > WORSE * by_hand)),
        "coverage": covered,
    }


def table(rows: Sequence[dict[str, Any]], kind: int = 0) -> str:
    """Return the table by measured (0) or exact (1) torque: one line an effect, and one of all."""
    covers = kind == 0
    shown = ["default", "plain", "figaroh", "best"]
    if not any("figaroh" in row["errors"] for row in rows):
        shown.remove("figaroh")
    lines = [
        (
            f"| planted | cases | {' | '.join(shown)} | default within 3 % of the best | worse "
            "than plain by 5 % |"
        )
        + (" coverage, default | plain |" if covers else ""),
        "|---|" + "---:|" * (len(shown) + (5 if covers else 3)),
    ]
    names = list(dict.fromkeys(row["effect"] for row in rows))
    for name in [*names, *(["all"] if len(names) > 1 else [])]:
        own = [row for row in rows if name in (row["effect"], "all")]
        found = judged(own, kind)
        cells = [str(found["cases"]), *(f"{100 * found[key]:.2f} %" for key in shown)]
        cells += [f"{100 * found[key]:.0f} %" for key in ("near", "worse")]
        if covers:
            cells += [
                f"{100 * found['coverage'].get(key, np.nan):.0f} %" for key in ("default", "plain")
            ]
        words = "**all**" if name == "all" else f"{name}: {EFFECTS[name].words}"
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_docs(rows: Sequence[dict[str, Any]]) -> None:
    """Write the table and the figure of docs/truth.md."""
    text = DOCS.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    robots = len({row["robot"] for row in rows})
    codes = ", ".join(dict.fromkeys(row.get("code", "unknown") for row in rows))
    words = [
        (
            f"{robots} robots, {len(rows)} cases, code of commit {codes}; medians of each "
            "effect's cases."
        )
    ]
    words += ["", "By measured torque:"]
    words += ["", table(rows), "", "By exact torque:", "", table(rows, 1), ""]
    DOCS.write_text(
        head + "\n".join([_BEGIN, *words]) + _END + rest.partition(_END)[2], encoding="utf-8"
    )
    draw(rows)


def draw(rows: Sequence[dict[str, Any]]) -> None:
    """Draw a panel an effect.

    The default's exact error over that of plain least squares, a point a case.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["effect"] for row in rows))
    across = 5
    figure = Figure(figsize=(11, 2.3 * -(-len(names) // across) + 0.4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(-(-len(names) // across), across, squeeze=False)).ravel()
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    for panel, name in zip(panels, names):
        own = [row["errors"] for row in rows if row["effect"] == name]
        shown = np.clip(
            [[100 * both[key][1] for key in ("plain", "default")] for both in own], 0.05, 300.0
        )
        best = np.clip([100 * min(one[1] for one in both.values()) for both in own], 0.05, 300.0)
        ends = [0.8 * float(min(shown.min(), best.min())), 1.25 * float(shown.max())]
        panel.fill_between(ends, ends, [ends[1]] * 2, color="#d62728", alpha=0.08, linewidth=0)
        panel.plot(shown[:, 0], best, "_", color="#888888", markersize=8)
        panel.plot(shown[:, 0], shown[:, 1], "o", color="#1f77b4", markersize=4)
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        panel.set_title(name, fontsize=9)
        panel.tick_params(labelsize=7, which="both")
    figure.supxlabel("error of plain weighted least squares, %", fontsize=9)
    figure.supylabel("error of the default (points), of the best (dashes), %", fontsize=9)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", nargs="+", default=["12"], help="names, or how many")
    parser.add_argument("--cases", type=int, default=1, help="of each robot and effect")
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument(
        "--effect", nargs="+", default=list(EFFECTS), choices=list(EFFECTS), metavar="NAME"
    )
    parser.add_argument(
        "--quick", action="store_true", help="default and plain least squares alone"
    )
    parser.add_argument(
        "--figaroh", action="store_true", help="FIGAROH, too, where it is installed"
    )
    parser.add_argument(
        "--sharp", action="store_true", help="friction that reverses at once, columns filtered, too"
    )
    parser.add_argument("--flexible", action="store_true", help="joints that give way, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--docs", action="store_true", help="write docs/truth.md and its figure")
    parser.add_argument(
        "--json",
        type=Path,
        help="keep the rows and go on there; with --read they are read, not measured",
    )
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    begin = time.monotonic()
    names = given.robots
    robots = ROBOTS[: int(names[0])] if len(names) == 1 and names[0].isdigit() else names
    contestants = tuple(CONTESTANTS)[: 2 if given.quick else None]
    if given.figaroh and find_spec("figaroh") is None:
        print("FIGAROH is not installed and is left out")
    elif given.figaroh:
        contestants += ("figaroh",)
    contestants += tuple(name for name in ("sharp", "flexible") if getattr(given, name))
    if unknown := set(robots) - set(ROBOTS):
        parser.error(
            f"no such robot here: {', '.join(sorted(unknown))}; known: {', '.join(ROBOTS)}"
        )
    seeds = [given.first + 100 * k for k in range(given.cases)]
    tasks = [
        (robot, effect, seed + ROBOTS.index(robot), contestants)
        for robot in robots
        for effect in given.effect
        for seed in seeds
    ]
    if not given.read:
        print(f"error, % (against exact torque): {', '.join(contestants)}")
    rows = (
        json.loads(given.json.read_text()) if given.read else measure(tasks, given.jobs, given.json)
    )
    print(f"\nby measured torque\n{table(rows)}\n\nby exact torque\n{table(rows, 1)}")
    for name in [*CONTESTANTS, *OTHERS]:
        own = [row["seconds"][name] for row in rows if name in row["seconds"]]
        if own:
            wins = sum(
                row["errors"][name][0] <= min(e[0] for e in row["errors"].values()) for row in rows
            )
            print(
                f"{name}: best in {wins} of {len(rows)} cases, {np.median(own):.1f} s of "
                "processor time a case"
            )
    print(f"{time.monotonic() - begin:.0f} s")
    if given.docs:
        write_docs(rows)


if __name__ == "__main__":
    main()
