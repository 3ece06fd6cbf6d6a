"""The steps of a study: each writes files into a folder and returns a summary of plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.app.job import Job, Log, fitted_data, left_out
from minidyn.app.report.facts import Facts, Places, changes_line
from minidyn.app.report.report import write_page
from minidyn.app.result_folder import (
    REPORT,
    comparison_data,
    gains_data,
    motion_files,
    payload_data,
    result_tables,
)
from minidyn.app.study.file import RECORDING, Step, Study
from minidyn.app.study.schema import RUNNING
from minidyn.arrays import plain_values
from minidyn.base.base_parameters import base_parameters
from minidyn.base.printing.relations import relations_json
from minidyn.codegen.files import code_files, function_for, save
from minidyn.errors import ShapeError, UnknownName
from minidyn.excitation.excite import excite
from minidyn.excitation.one_joint_plan import one_joint_plan
from minidyn.excitation.robot_files import check_files
from minidyn.identification.estimate import Estimate, load_estimate
from minidyn.identification.export import file_name
from minidyn.identification.settings import Settings
from minidyn.identification.verdict import judge
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.robot import Robot
from minidyn.notices import Notice, notices_json
from minidyn.simulation.named_laws import simulated
from minidyn.simulation.payload import Payload

if TYPE_CHECKING:
    from concurrent.futures import Executor

_SYMBOLS = {**FRICTION, "rotor_inertia": ROTOR}
_READABLE = ("toml", "urdf", "mjcf")  # formats of a robot that is not identified


@dataclass(frozen=True)
class Context:
    """What a step may use besides its own settings."""

    study: Study
    robot: Robot
    coupled: Robot  # with drives coupled as the mapping of a log says, for steps that read no log
    executor: Executor | None = None  # whose workers read logs
    keep: Path | None = None  # where a step keeps work that goes on if it is killed

    def logs(self, kind: str) -> tuple[Log, ...]:
        """Return the logs of another step; none where the study does not have it."""
        return tuple(log for step in self.study.steps if step.kind == kind for log in step.logs)

    def job(
        self, robot: Robot, fit: tuple[Log, ...] = (), test: tuple[Log, ...] = (), **settings: Any
    ) -> Job:
        """Return the job of a step."""
        lazy = settings.pop("lazy", None)
        if isinstance(settings.get("prior"), str):
            settings["prior"] = self.study.robot_path(settings["prior"])
        engine: dict[str, Any] = (
            {"on_error": settings.pop("on_error")} if "on_error" in settings else {}
        )
        if self.executor is not None:
            engine, lazy = {**engine, "executor": self.executor}, True if lazy is None else lazy
        running = {name: settings.pop(name) for name in RUNNING if name in settings}
        asked = Settings.from_json({**self.study.preparation, **settings})
        return Job(robot, fit, test, asked, running, lazy, engine=engine, keep=self.keep)

    def places(self, kind: str, robot: Robot) -> Places:
        """Return where the files of the identification are, for commands in reports."""
        logs = tuple(str(file) for log in self.logs(kind) for file in log.files)
        estimate = str(self.study.output / kind / "estimate.json")
        exported = self.study.output / "export"
        folder = str(exported) if any(step.kind == "export" for step in self.study.steps) else ""
        common = self.study.mapping and all(
            log.reading == self.study.mapping for log in self.logs(kind)
        )
        reading = ("--mapping", str(self.study.path)) if common else ()
        changes = changes_line(robot, self.study.changes)
        file = self.study.robot_path(self.study.robot)
        return Places(file, logs, folder, estimate, reading, changes)

    @property
    def estimate(self) -> Estimate:
        """What the step identify found."""
        return load_estimate(self.study.output / "identify" / "estimate.json")


Maker = Callable[[Context, Step, Path], Mapping[str, Any]]


def _simulate(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Simulate a log of the robot, with drives and parameters of its own."""
    given = dict(step.settings)
    if "payload" in given:
        given["payload"] = Payload(
            0.0, {"inertia": np.zeros((3, 3)), "com": np.zeros(3), **given["payload"]}
        )
    truth = _truth(context.coupled, given, context.study.seed)  # the same robot in every run
    recording, _ = simulated(truth, **given)
    recording.save(folder / RECORDING)
    save(truth, folder / "truth.toml")
    return {"samples": len(recording), "notices": notices_json(recording.notices)}


def _truth(robot: Robot, given: dict[str, Any], seed: int) -> Robot:
    """Return the robot that is simulated.

    Friction, rotor inertia and other parameters as the step says.
    """
    friction = given.pop("friction", {})
    rotor = {"rotor_inertia": given.pop("rotor_inertia")} if "rotor_inertia" in given else {}
    spread = given.pop("parameter_spread", 0.0)
    if friction or rotor:
        robot = robot.with_drives(True if rotor else None, tuple(friction) or None)
    values = np.array(robot.parameters)
    if spread:
        # one factor a link keeps every link's inertia physically consistent
        factors = np.random.default_rng(seed).normal(1.0, spread, len(robot.links)).clip(0.1)
        for block, factor in zip(robot.layout.links, factors):
            values[block] *= factor
    driven = [joint for joint in range(len(robot.joints)) if robot.layout.drives[joint]]
    for term, value in {**friction, **rotor}.items():
        each = np.asarray(value, dtype=float)
        if each.ndim and len(each) not in (robot.n, len(driven)):
            raise ShapeError(
                f"{term}: expected one number, or one for each of {robot.n} joints, got {len(each)}"
            )
        if each.ndim and len(each) < len(
            driven
        ):  # joints that follow another have no drive of their own
            known = dict(zip(robot.independent, each))
            each = np.array([known.get(joint, 0.0) for joint in driven])
        for joint, number in zip(driven, np.broadcast_to(each, len(driven))):
            for column in robot.layout.drives[joint]:
                if column.symbol == _SYMBOLS[term]:
                    values[column.index] = number
    return robot.with_parameters(values)


def _base(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Find the base parameters."""
    found = base_parameters(context.coupled, **step.settings)
    _write(folder / "base.md", found.to_markdown())
    _write_json(folder / "base.json", found.to_json() | {"relations": relations_json(found)})
    notices = notices_json(found.notices)
    return {
        "base_parameters": found.rank,
        "parameters": len(context.robot.layout),
        "notices": notices,
    }


def _excite(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Design a motion to record."""
    given = dict(step.settings)
    formats, home = given.pop("formats", ()), given.pop("home", None)
    check_files(context.coupled, formats, home)
    folders = {"identify": context.study.output / "identify" / "estimate.json"}
    known = [
        load_estimate(folders.get(one, context.study.path.parent / one))
        for one in given.pop("after", ())
    ]
    made = excite(context.coupled, given.pop("duration"), after=known or None, **given)
    files = motion_files(made, folder, formats, home)
    about = {"feasible": made.feasible, "condition": made.condition, "logdet": made.logdet}
    return dict(
        plain_values({**about, "files": files, "notices": notices_json(made.notices)}, finite=True)
    )


def _plan(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Plan experiments in which one joint moves at a time."""
    given = dict(step.settings)
    formats, home = given.pop("formats", ()), given.pop("home", None)
    check_files(context.coupled, formats, home)
    made = one_joint_plan(context.coupled, **given)
    files = motion_files(made, folder, formats, home)
    return {"steps": len(made.steps), "files": files, "notices": notices_json(made.notices)}


def _identify(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Identify the robot from logs."""
    job = context.job(context.robot, step.logs, **step.settings)
    estimate = job.identify()
    estimate.save(folder / "estimate.json")
    _write(folder / "parameters.md", result_tables(estimate, {}))
    about: dict[str, Any] = {"limits": context.study.limits}
    about["places"] = context.places("identify", estimate.robot)
    facts = Facts(estimate, {}, job.validate_fit(estimate), code=False, **about)
    write_page(facts, folder / REPORT, f"{context.study.name}: fitted data")
    return {
        "base_parameters": len(estimate.beta),
        "samples": estimate.samples,
        "condition": float(estimate.condition),
        "verdict": facts.verdict.to_json(),
        "notices": notices_json(estimate.notices),
    }


def _validate(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Test the identified model on logs."""
    estimate = context.estimate
    job = context.job(estimate.robot, context.logs("identify"), step.logs)
    runs = job.validate(estimate)
    verdict = judge(estimate, runs, fit=job.validate_fit(estimate), limits=context.study.limits)
    errors = {name: found.to_json() for name, found in runs.items()}
    _write_json(folder / "validation.json", errors)
    summary: dict[str, Any] = {
        key: {name: entry[key] for name, entry in errors.items()}
        for key in ("relative_error", "filtered_relative_error", "data")
    }
    return summary | {
        "verdict": verdict.to_json(),
        "notices": notices_json([*left_out(runs), *fitted_data(runs)]),
    }


def _export(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Write the model, or the robot as it is, for other programs."""
    to = step.settings.get("to", step.settings.get("formats"))
    notices: tuple[Notice, ...] = ()
    if "identify" in step.after:
        estimate = context.estimate
        robot = estimate.robot
        source = Path(context.study.robot_path(context.study.robot))
        kept = source if source.suffix.lower() in (".urdf", ".xml", ".mjcf") else False
        job = context.job(estimate.robot, context.logs("identify"), step.logs)
        test = next(iter(job.validate(estimate).values()), None) if step.logs else None
        notices = estimate.export(folder, to, source=kept, test=test).notices
    else:
        robot = context.coupled
        for name in to or ("toml", "urdf"):
            if name not in _READABLE:
                raise UnknownName("format of a robot that is not identified", name, _READABLE)
            save(robot, folder / file_name(name, robot.name))
    for what in step.settings.get("code", ()):
        function = function_for(robot, what)
        for target in step.settings.get("targets", ("c",)):
            for name, text in code_files(robot, function, target).items():
                _write(folder / name, text)
    return {
        "files": sorted(path.name for path in folder.iterdir()),
        "notices": notices_json(notices),
    }


def _report(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Write the report."""
    estimate = context.estimate
    job = context.job(estimate.robot, context.logs("identify"), context.logs("validate"))
    details = {"study": context.study.path.name, "seed": context.study.seed} | {
        f"log {log.name}": f"simulated by {log.step}"
        if log.step
        else ", ".join(file.name for file in log.files)
        for log in step.logs
    }
    found, fitted = job.validate(estimate), job.validate_fit(estimate)
    code = step.settings.get("code", True)
    places = context.places("identify", estimate.robot)
    facts = Facts(
        estimate,
        found,
        fitted,
        details=details,
        code=code,
        places=places,
        limits=context.study.limits,
    )
    write_page(facts, folder / REPORT, step.settings.get("title", context.study.name))
    return {"files": [REPORT]}


def _payload(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Find the load that logs carry against the identified model."""
    estimate = context.estimate
    found = payload_data(
        context.job(estimate.robot, step.logs).payload(estimate, step.settings.get("link"))
    )
    _write_json(folder / "payload.json", found)
    return {"mass": found["mass"], "notices": found["notices"]}


def _gains(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Find drive gains from currents of logs without and with a load that was weighed."""
    from minidyn.identification.gains.drive_gains import (
        identify_drive_gains,
    )  # scipy.stats takes a second

    wanted = dict(step.settings)
    force = wanted.pop("force", False)
    empty = len(step.logs) - len(wanted.pop("loaded"))
    logs = [replace(log, reading={**log.reading, "currents_as_torque": True}) for log in step.logs]
    job = context.job(context.robot)
    runs = [job.recording(*some, lazy=False) for some in (logs[:empty], logs[empty:])]
    found = identify_drive_gains(context.robot, runs[0], runs[1], wanted.pop("mass"), **wanted)
    found.save(folder / "gains.toml", force=force)
    data = gains_data(found)
    _write_json(folder / "gains.json", data)
    return {"gains": found.gains.tolist(), "notices": data["notices"]}


def _compare(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Identify by several methods and test each on the logs of the step validate."""
    settings = {key: value for key, value in step.settings.items() if key != "methods"}
    job = context.job(context.robot, context.logs("identify"), context.logs("validate"), **settings)
    found = job.compare(step.settings.get("methods"))
    _write(folder / "comparison.md", found.table() + "\n")
    _write_json(folder / "comparison.json", comparison_data(found))
    return {"best": found.best.label, "notices": notices_json(found.notices)}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, data: Any) -> None:
    _write(path, json.dumps(data, indent=1, allow_nan=False) + "\n")


_MAKERS = (
    _simulate,
    _excite,
    _base,
    _plan,
    _gains,
    _identify,
    _validate,
    _payload,
    _compare,
    _export,
    _report,
)
MAKERS: dict[str, Maker] = {maker.__name__[1:]: maker for maker in _MAKERS}
"""The function of each kind of step."""
