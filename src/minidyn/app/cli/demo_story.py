"""The whole job on the built-in Stanford arm, step by step, told on the terminal."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.app.cli.text import console, progress
from minidyn.app.job import Job
from minidyn.app.report.report import report
from minidyn.arrays import Array, strict_json
from minidyn.base.base_parameters import base_parameters
from minidyn.codegen.files import save
from minidyn.control import computed_torque
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.excitation.one_joint_plan import Plan, one_joint_plan
from minidyn.files import check_folder, check_outputs, new_folder, write_atomically
from minidyn.formats.load import load
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.one_joint import identify_one_joint
from minidyn.identification.settings import Settings
from minidyn.identification.validate import Validation
from minidyn.model.joint import Limits
from minidyn.model.robot import Robot
from minidyn.notices import most_serious_first
from minidyn.recording.recording import Recording
from minidyn.simulation.case_study import lu_meng_case
from minidyn.simulation.simulate import simulate
from minidyn.simulation.trajectory import fourier
from minidyn.text import plain

# what the simulated robot has and its data sheet does not say: rotor inertias and friction, joint 1
# to 6, SI units
_DRIVES = {
    "Ia": (0.95, 2.0, 0.8, 0.11, 0.11, 0.02),
    "Fv": (3.5, 3.0, 12.0, 0.5, 0.4, 0.2),
    "Fc": (1.25, 1.5, 4.0, 0.3, 0.25, 0.15),
    "Fo": (0.15, -0.2, 0.5, 0.025, -0.02, 0.01),
}
_REACH = (2.0, 1.2, 0.25, 2.5, 1.5, 2.5)  # rad or m, either way; the paper prints no limits
_SPEED = (2.0, 1.5, 0.8, 2.5, 2.5, 2.5)
_NOISE = 0.01  # of each joint's largest torque
_STEP = 4e-3  # s
_STEPS = 10


def run_demo(output: str, quiet: bool) -> tuple[dict[str, Any], Path, float]:
    """Do the whole job; return its figures, the folder and the seconds it took."""
    target = check_folder(output)
    check_outputs(target / name for name in ("robot-before.toml", "estimate.json", "report.html"))
    begin = time.monotonic()
    with new_folder(target, ours=True) as folder:
        facts = _job(_Story(quiet), folder)
        files = sorted(
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        )
        write_atomically(folder / "minidyn.json", strict_json({"minidyn": "demo", "files": files}))
    seconds = round(time.monotonic() - begin, 1)
    if not quiet:
        _farewell(target, seconds)
    return facts, target, seconds


def _job(story: _Story, folder: Path) -> dict[str, Any]:
    """Do the whole job; return its figures."""
    before, true = _robots(story)
    plan, found = _one_joint_at_a_time(story, true)
    _logs(story, true, folder / "logs")
    save(before, folder / "robot-before.toml")
    fit, other = ([str(folder / "logs" / name)] for name in ("fit.csv", "other.csv"))
    # the file names the terms, so that they can be compared with the truth
    settings = Settings(friction="own")
    job = Job.of_files(str(folder / "robot-before.toml"), fit, other, settings=settings)
    estimate, test = _identification(story, job, true)
    with story.step("Export") as say:
        estimate.save(folder / "estimate.json")
        written = estimate.export(folder / "model")
        names = [path.name for path in written.files]
        say(f"For simulators and controllers, in model/: {', '.join(names)}.")
        for text in map(str, written.notices):
            say(plain(text[:1].upper() + text[1:]) + ".")
    with story.step("Adaptive control of an arm with an unknown load") as say:
        study = lu_meng_case()
        mass = float(study.slotine_li.telemetry["estimate"][-1, 0])
        say(
            f"The controller starts with 0.5 kg where {study.robot.links[-1].mass:.3g} kg are; "
            f"after {study.slotine_li.t[-1]:g} s its estimate is {mass:.3f} kg."
        )
    with story.step("The report") as say:
        page = report(
            estimate,
            {"the other log": test},
            folder / "report.html",
            fit=job.fitted,
            plan=plan,
            one_joint=found,
            case_study=study,
            title="Dynamic model of the Stanford arm",
            details={"command": "minidyn demo", "data": "simulated, noise and friction included"},
        )
        say(
            f"One HTML file of {page.stat().st_size / 1e6:.1f} MB that loads nothing: for "
            "screens, phones and paper."
        )
    return {
        "base_parameters": len(estimate.beta),
        "plan_steps": len(plan.steps),
        "relative_error": test.relative_error,
        "condition": estimate.condition,
        "consistent": estimate.certificate.consistent,
        "exports": names,
        "report": page.name,
    }


class _Story:
    """Reports the steps on the terminal: a heading with the time it took, and what came of it."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.number = 0
        if not quiet:
            console().print(
                "[bold]minidyn[/bold]: from a robot's geometry to a model you can trust\n"
            )

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """Report a step; the block gets a function that says a sentence."""
        self.number += 1
        heading = f"{self.number:2}/{_STEPS} {title}"
        said: list[str] = []
        begin = time.monotonic()
        with progress(heading) if self.quiet else console().status(heading):
            yield said.append
        took = f"[dim]{time.monotonic() - begin:.1f} s[/dim]"
        if not self.quiet:
            console().print(
                f"[bold cyan]{self.number:2}/{_STEPS}[/bold cyan] [bold]{title}[/bold] {took}"
            )
        for sentence in () if self.quiet else said:
            console().print(
                textwrap.indent(textwrap.fill(sentence, 92), "      "), markup=False, soft_wrap=True
            )


def _robots(story: _Story) -> tuple[Robot, Robot]:
    """Return the arm as its data sheet has it, and the arm that replaces a real one."""
    with story.step("The robot and its base parameters") as say:
        robot = load("stanford")
        limits = (Limits(-reach, reach, speed) for reach, speed in zip(_REACH, _SPEED))
        arm = replace(
            robot,
            joints=tuple(replace(joint, limits=one) for joint, one in zip(robot.joints, limits)),
        )
        arm = arm.with_drives(True, ("viscous", "coulomb", "offset"))
        true, sheet = arm.parameters.copy(), arm.parameters.copy()
        for symbol, values in _DRIVES.items():
            true[list(arm.layout.indices([f"{symbol}{joint + 1}" for joint in range(arm.n)]))] = (
                values
            )
        rng = np.random.default_rng(1)
        for part in arm.layout.links:
            sheet[part] *= rng.uniform(0.8, 1.2)
        say(
            f"Stanford arm, {robot.n} joints. Of {len(robot.layout)} masses and inertias, "
            f"{base_parameters(robot).rank} combinations act on the torques; with rotor inertia "
            f"and friction {base_parameters(arm).rank} of {len(arm.layout)}. Found exactly: no "
            "tolerance decides."
        )
    return arm.with_parameters(sheet), arm.with_parameters(true)


def _one_joint_at_a_time(story: _Story, true: Robot) -> tuple[Plan, Estimate]:
    with story.step("A plan: one joint at a time") as say:
        plan = one_joint_plan(true, friction="own", rotor_inertia=None)
        say(
            f"{len(plan.steps)} safe runs, in which one joint moves, show all {plan.base.rank} "
            f"constants, condition numbers up to {plan.condition:.0f}."
        )
    with story.step("The plan carried out") as say:
        runs = []
        rng = np.random.default_rng(2)
        for step in plan.steps:
            t = np.arange(0.0, step.trajectory.period, _STEP)
            q, dq, ddq = step.trajectory(t)
            tau = _noisy(inverse_dynamics(true, q, dq, ddq), rng)
            runs.append(Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=true.joint_names))
        found = identify_one_joint(true, runs)
        off = np.abs(found.beta - found.base.values()) / found.std
        say(
            f"{len(found.beta)} constants from {len(runs)} short runs; {int(np.sum(off < 2))} lie "
            "within two standard deviations of the truth, which a simulation knows."
        )
    return plan, found


def _logs(story: _Story, true: Robot, folder: Path) -> None:
    with story.step("Two logs of the simulated robot, noisy and with friction") as say:
        law = computed_torque(true, bandwidth=20.0)
        samples = []
        folder.mkdir()
        for seed, duration, name in ((4, 20.0, "fit"), (11, 10.0, "other")):
            motion = fourier(true, seed=seed, period=10.0, harmonics=5)
            run = simulate(
                true, law, motion, duration, dt=_STEP, noise=5e-6, seed=seed, control="continuous"
            )
            tau = _noisy(np.asarray(run.tau), np.random.default_rng(seed))
            Recording(run.t, run.q, tau, joint_names=run.joint_names).save(folder / f"{name}.csv")
            samples.append(len(run))
        say(
            f"{samples[0]} and {samples[1]} samples of positions and torques, {1 / _STEP:.0f} a "
            f"second, noise {100 * _NOISE:g} % of each joint's largest torque. The second log is "
            "test data: it is not fitted."
        )


def _noisy(tau: Array, rng: np.random.Generator) -> Array:
    return np.asarray(tau + _NOISE * np.abs(tau).max(axis=0) * rng.normal(size=tau.shape))


def _identification(story: _Story, job: Job, true: Robot) -> tuple[Estimate, Validation]:
    with story.step("Identification from the first log") as say:
        estimate = job.identify()
        inside = np.abs(estimate.beta - estimate.base.values(true.parameters)) < 2 * estimate.std
        say(
            f"{len(estimate.beta)} base parameters at once, condition number "
            f"{estimate.condition:.0f} (good: below 200); {int(inside.sum())} lie within two "
            "standard deviations of the truth."
        )
    with story.step("Physical consistency") as say:
        certificate = estimate.certificate
        word = "are" if certificate.consistent else "are not all"
        say(
            f"The links {word} physically consistent: smallest eigenvalue "
            f"{certificate.smallest:.2g} (1/3 is a ball, 0 a sheet or rod)."
        )
        if any(
            notice.code == "prior.inconsistent" for notice in most_serious_first(estimate.notices)
        ):
            say(
                "Link 1 as printed in the paper is not physically consistent: its moments of "
                "inertia break the triangle inequality. The nearest consistent body replaces it "
                "as the prior; the one combination that joint 1 can show is identified like all "
                "others."
            )
    with story.step("Validation on the other log") as say:
        (test,) = job.validate(estimate).values()
        say(
            f"The model predicts torques it has never seen to {100 * test.relative_error:.1f} % "
            "of the measured ones, noise included; the data sheet's values reach "
            f"{100 * test.prior_relative_error:.0f} %."
        )
    return estimate, test


def _farewell(target: Path, seconds: float) -> None:
    where, called = plain(shlex.quote(str(target))), Path(sys.argv[0])
    program = plain(shlex.quote(str(called))) if called.stem == "minidyn" else "python -m minidyn"
    program = (
        "minidyn" if shutil.which("minidyn") else program
    )  # not where a virtual environment is not active
    text = f"""
[bold]Done in {seconds:.0f} s.[/bold] Look at:
  {where}/report.html  the whole story: open it in a browser
  {where}/model        the identified robot: TOML, URDF, MJCF, C
  {where}/logs         the logs, to try again with other settings

[bold]With your own robot[/bold] (URDF, MJCF or TOML; logs as CSV, Parquet, NPZ or ROS bags):
  {program} show robot.urdf   # is it read as you mean it?
  {program} plan robot.urdf   # safe experiments: one joint moves at a time
  {program} identify robot.urdf log.csv --validate other.csv --output out
  {program} report out/estimate.json other.csv --fit log.csv --output report.html

[bold]With these logs[/bold], without friction in the model, and see the report complain:
  {program} identify {where}/robot-before.toml {where}/logs/fit.csv --friction none --output {where}/again
  {program} report {where}/again/estimate.json {where}/logs/other.csv --output {where}/again.html"""  # noqa: E501
    for line in text.splitlines():
        console().print(line, markup=line.startswith("[bold]"), soft_wrap=True)
