"""Every method on simulated closed-loop runs of UR10e and Panda, against the truth that only a
simulation knows.

    python benchmarks/monte_carlo.py            prints the tables (about three minutes)
    python benchmarks/monte_carlo.py --docs     and writes them into docs/comparing-methods.md
    python benchmarks/monte_carlo.py --quick    two runs a case, 4 s each

A case is a way in which logs are not ideal; each is simulated several times with other trajectories
and other noise. Errors are those of the torque on another motion, without noise: ‖Y (beta -
true)‖ / ‖tau‖ where Y and tau are the true regressor and torque. Bias is the same for the mean of
beta over the runs: what averaging more of them would leave.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import minidyn as md
from minidyn.identification.estimators.methods import METHODS

PAGE = Path(__file__).parents[1] / "docs" / "comparing-methods.md"
ROBOTS = {"UR10e": "ur10e", "Panda": "panda"}
STEP = 2e-3  # s, of simulation, control and recording
WIDTH = 0.02  # rad/s over which Coulomb friction turns round
TERMS = ("viscous", "coulomb", "offset")
DRIVES = {
    "Ia": (0.4, 0.1),
    "Fv": (6.0, 1.0),
    "Fc": (5.0, 1.0),
    "Fo": (0.5, 0.1),
    "Fs": (4.0, 0.8),
}  # large joints, wrist
Change = Callable[[md.Recording, np.random.Generator], md.Recording]


def true_robot(name: str, more: tuple[str, ...] = ()) -> md.Robot:
    """The robot with rotors and friction of ordinary size.

    `more` friction terms where the model will lack some.
    """
    robot = md.load(name).with_drives(rotor_inertia=True, friction=(*TERMS, *more))
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = DRIVES[column.symbol][column.joint >= 3]
    return robot.with_parameters(values).with_drives(sign_width=WIDTH)


def raw(run: md.Recording, rng: np.random.Generator) -> md.Recording:
    """What an ordinary log has: positions and torques."""
    return _with(run, run.tau)


def late_torque(run: md.Recording, rng: np.random.Generator) -> md.Recording:
    """Torques that are logged 4 ms later than positions."""
    return _with(run, np.concatenate([run.tau[:1], run.tau[:1], run.tau[:-2]]))


def noisy_speeds(run: md.Recording, rng: np.random.Generator) -> md.Recording:
    """Speeds as a drive estimates them, noisy, and accelerations as their differences.

    Taken as they are.
    """
    ddq = np.gradient(run.dq, run.t, axis=0)
    window = np.ones(11) / 11
    smooth = np.stack([np.convolve(series, window, mode="same") for series in ddq.T], axis=1)
    return _with(run, run.tau, run.dq, smooth)


def _with(
    run: md.Recording, tau: np.ndarray, dq: np.ndarray | None = None, ddq: np.ndarray | None = None
) -> md.Recording:
    reference = {name: run.telemetry[name] for name in ("q_d", "dq_d")}
    return md.Recording(run.t, run.q, tau, dq, ddq, run.joint_names, telemetry=reference)


@dataclass(frozen=True)
class Case:
    """A way in which logs are not ideal.

    Attributes:
        name: Of the case.
        what: In words.
        change: From what was simulated to what is logged.
        noise: Of positions, rad.
        velocity_noise: Of speeds, rad/s.
        delay: Age of measurements in the controller, s.
        more: Friction terms of the true robot that the model lacks.
    """

    name: str
    what: str
    change: Change = raw
    noise: float = 5e-5
    velocity_noise: float = 0.0
    delay: float = 0.0
    more: tuple[str, ...] = ()


CASES = (
    Case(
        "noise",
        "position noise 5e-5 rad, torque noise 2 % of each joint's torque; prepared by "
        "`md.prepare`",
    ),
    Case(
        "noisy speeds",
        "speeds with noise 0.05 rad/s and accelerations differenced from them are taken as they "
        "are",
        noisy_speeds,
        velocity_noise=0.05,
    ),
    Case(
        "late torque",
        "torques logged 4 ms after positions, and measurements 2 ms old in the controller",
        late_torque,
        delay=2e-3,
    ),
    Case(
        "friction mismatch",
        "true friction has a Stribeck peak of 0.8 times the Coulomb friction, which the model "
        "lacks",
        more=("stribeck",),
    ),
)


@dataclass
class Score:
    """What one method did in one case."""

    betas: list[np.ndarray] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failures: int = 0
    bias: float = float("nan")


def simulated(
    robot: md.Robot, case: Case, seed: int, duration: float
) -> tuple[md.Recording, md.control.Controller]:
    """One run of the true robot under a controller that knows its bodies and rotors, but no
    friction.
    """
    frictionless = robot.with_drives(friction=())
    law = md.control.computed_torque(frictionless, bandwidth=25.0, period=STEP)
    path = md.trajectory.fourier(robot, seed=seed, period=duration, speed=2.0)
    reference = md.inverse_dynamics(robot, *path(np.linspace(0, duration, 200)))
    run = md.simulate(
        robot,
        law,
        path,
        duration,
        dt=STEP,
        noise=case.noise,
        velocity_noise=case.velocity_noise,
        delay=case.delay,
        seed=seed,
    )
    rng = np.random.default_rng(1000 + seed)
    tau = run.tau + 0.02 * np.sqrt(np.mean(reference**2, axis=0)) * rng.normal(size=run.tau.shape)
    noisy = md.Recording(
        run.t, run.q, tau, run.dq, run.ddq, run.joint_names, telemetry=dict(run.telemetry)
    )
    return case.change(noisy, rng), law


def study(name: str, case: Case, runs: int, duration: float) -> dict[str, Score]:
    """All methods on all runs of a case."""
    actual = true_robot(name, case.more)
    model = true_robot(name).with_parameters(None)
    base = md.base_parameters(model)
    t = np.linspace(0, 10, 1000)
    q, dq, ddq = md.trajectory.fourier(model, seed=999, speed=2.0)(t)
    tau = md.inverse_dynamics(actual, q, dq, ddq)
    Y = md.base_regressor(model, q, dq, ddq, base=base)
    size = float(np.linalg.norm(tau))
    scores = {method: Score() for method in METHODS}
    for seed in range(runs):
        log, law = simulated(actual, case, seed, duration)
        for method, score in scores.items():
            begin = time.thread_time()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    estimate = md.identify(
                        model,
                        log,
                        method,
                        base=base,
                        consistent=False,
                        sign_width=WIDTH,
                        controller=law,
                    )
            except md.MinidynError:
                score.failures += 1
                continue
            score.seconds.append(time.thread_time() - begin)
            score.betas.append(estimate.beta)
            score.errors.append(float(np.linalg.norm(Y @ estimate.beta - tau)) / size)
    for score in scores.values():
        if score.betas:
            score.bias = float(np.linalg.norm(Y @ np.mean(score.betas, axis=0) - tau)) / size
    return scores


def table(results: dict[str, dict[str, Score]]) -> str:
    """One case: a line for each method, three columns for each robot."""
    heads = " | ".join(f"{robot}: error | bias | s" for robot in results)
    lines = [f"| method | {heads} |", "|---|" + "---:|" * (3 * len(results))]
    for method in METHODS:
        cells = []
        for scores in results.values():
            score = scores[method]
            if not score.errors:
                cells += ["failed", "", ""]
                continue
            note = f" ({score.failures} failed)" if score.failures else ""
            cells += [
                f"{100 * np.median(score.errors):.2f} %{note}",
                f"{100 * score.bias:.2f} %",
                f"{np.median(score.seconds):.2f}",
            ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the tables into docs/comparing-methods.md"
    )
    parser.add_argument("--quick", action="store_true", help="two short runs a case")
    parser.add_argument("--runs", type=int, default=3, help="runs a case")
    options = parser.parse_args()
    runs, duration = (2, 4.0) if options.quick else (options.runs, 8.0)
    begin = time.process_time()
    parts = []
    for case in CASES:
        results = {label: study(name, case, runs, duration) for label, name in ROBOTS.items()}
        parts.append(f"**{case.name}**: {case.what}.\n\n{table(results)}")
        print(parts[-1] + "\n", flush=True)
    settings = (
        f"{runs} runs of {duration:g} s at {1 / STEP:g} Hz for each robot and case; seconds are "
        "of one core, median."
    )
    text = "\n\n".join([settings, *parts])
    print(f"{time.process_time() - begin:.0f} s of one core")
    if options.docs:
        page = PAGE.read_text(encoding="utf-8")
        begin_mark, end_mark = "<!-- monte carlo: begin -->", "<!-- monte carlo: end -->"
        pattern = re.escape(begin_mark) + ".*?" + re.escape(end_mark)
        new = re.sub(pattern, lambda _: f"{begin_mark}\n{text}\n{end_mark}", page, flags=re.DOTALL)
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
