"""What the steps of a study do: each writes files into a folder and returns a summary of plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.errors import DescriptionError, MinidynError, ShapeError, UnknownName
from minidyn.model.load import load
from minidyn.model.robot import Robot
from minidyn.model.save import save
from minidyn.study_file import Log, Step, Study

if TYPE_CHECKING:
    from minidyn.identification.estimate import Estimate

__all__ = ["MAKERS", "Context", "study_robot"]

_SYMBOLS = {"viscous": "Fv", "coulomb": "Fc", "offset": "Fo", "rotor_inertia": "Ia"}


@dataclass(frozen=True)
class Context:
    """What a step may use besides its own settings."""

    study: Study
    robot: Robot

    def folder(self, step: str) -> Path:
        """Return the folder of an earlier step's results."""
        return self.study.output / step


Maker = Callable[[Context, Step, Path], Mapping[str, Any]]


def study_robot(study: Study) -> Robot:
    """Return the study's robot."""
    robot = load(study.robot_path(study.robot), gravity=study.gravity)
    return robot.with_drives(coupling=study.coupling) if study.coupling else robot


def _simulate(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.experiment.named_laws import named_law
    from minidyn.experiment.simulate import simulate
    from minidyn.experiment.trajectory import fourier

    given = dict(step.settings)
    seed, truth_seed = given.pop("seed"), given.pop("truth_seed")
    dt = given.pop("dt", 1e-3)
    duration = given.pop("duration", 10.0)
    truth = _truth(context.robot, given, truth_seed)
    law = named_law(
        truth,
        given.pop("controller", "computed_torque"),
        rate=given.pop("bandwidth", 10.0),
        model_error=given.pop("model_error", 0.0),
        period=dt,
    )
    recording = simulate(truth, law, fourier(truth, seed=seed), duration, dt=dt, seed=seed, **given)
    recording.save(folder / "recording.parquet")
    save(truth, folder / "truth.toml")
    return {"samples": len(recording), "notices": list(recording.notices)}


def _truth(robot: Robot, given: dict[str, Any], seed: int) -> Robot:
    """Return the robot that is simulated: friction, rotor inertia and other parameters as the step says."""
    terms = {**given.pop("friction", {})}
    rotor = given.pop("rotor_inertia", None)
    spread = given.pop("parameter_spread", 0.0)
    if rotor is not None:
        terms["rotor_inertia"] = rotor
    if terms:
        friction = tuple(term for term in terms if term != "rotor_inertia")
        robot = robot.with_drives(True if rotor is not None else None, friction or None)
    values = np.array(robot.values)
    if spread:
        # one factor a link keeps every link's inertia physically possible
        factors = np.random.default_rng(seed).normal(1.0, spread, len(robot.links)).clip(0.1)
        for block, factor in zip(robot.layout.links, factors):
            values[block] *= factor
    driven = [joint for joint in range(len(robot.joints)) if robot.layout.drives[joint]]
    for term, value in terms.items():
        each = np.asarray(value, dtype=float)
        if each.ndim and len(each) != len(driven):
            raise ShapeError(f"{term}: expected one number, or one for each of {len(driven)} joints, got {len(each)}")
        for joint, number in zip(driven, np.broadcast_to(each, len(driven))):
            for column in robot.layout.drives[joint]:
                if column.symbol == _SYMBOLS[term]:
                    values[column.index] = number
    return robot.with_parameters(values)


def _base(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.base.base_parameters import base_parameters
    from minidyn.base.relations import relations_json

    base = base_parameters(context.robot, **step.settings)
    _write(folder / "base.md", base.to_markdown())
    _write_json(folder / "base.json", base.to_json() | {"relations": relations_json(base)})
    return {"base_parameters": base.rank, "parameters": len(context.robot.layout), "notices": list(base.notices)}


def _plan(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.experiment.one_joint_plan import one_joint_plan

    plan = one_joint_plan(context.robot)
    _write_json(folder / "plan.json", plan.to_json())
    return {"steps": len(plan.steps), "notices": list(plan.notices)}


def recording_of(context: Context, robot: Robot, log: Log, lazy: bool = False) -> Any:
    """Return a log of the study, cut to its part, prepared as the study says; a lazy one stays on disk."""
    from minidyn.experiment.prepare import prepare
    from minidyn.experiment.read import read_recording

    files = list(log.files) or [context.folder(log.step) / "recording.parquet"]
    options: dict[str, Any] = {"lazy": lazy, **log.mapping}
    raw: Any = read_recording(files, robot=robot, **options)
    if log.part != (0.0, 1.0):
        raw = raw[round(log.part[0] * len(raw)) : round(log.part[1] * len(raw))]
    return prepare(robot, raw, **context.study.preparation)


def _identify(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.experiment.recording import concatenate
    from minidyn.identification.identify import identify

    given = dict(step.settings)
    friction = given.pop("friction", "auto")
    rotor_inertia = given.pop("rotor_inertia", True)
    if isinstance(given.get("prior"), str):
        given["prior"] = _believed(context, given["prior"])
    if given.pop("lazy", False):
        if len(step.logs) != 1:
            raise DescriptionError("lazy: expected one log (it may have several files)")
        recording: Any = recording_of(context, context.robot, step.logs[0], lazy=True)
    else:
        recording = concatenate([recording_of(context, context.robot, log) for log in step.logs])
    estimate = identify(context.robot, recording, friction=friction, rotor_inertia=rotor_inertia, **given)
    estimate.save(folder / "estimate.json")
    _write(folder / "parameters.md", estimate.table() + "\n")
    return {
        "base_parameters": len(estimate.beta),
        "samples": estimate.samples,
        "condition": float(estimate.condition),
        "notices": list(estimate.notices),
    }


def _believed(context: Context, name: str) -> Any:
    """Return another description's parameters in the order of the study's robot, NaN where it has none."""
    other, robot = load(context.study.robot_path(name)), context.robot
    if other.joint_names != robot.joint_names:
        raise DescriptionError(
            f"prior: {name} has joints {', '.join(other.joint_names)}; expected {', '.join(robot.joint_names)}"
        )
    known = dict(zip(other.parameter_names, other.values))
    return np.array([known.get(parameter, np.nan) for parameter in robot.parameter_names])


def estimate_of(context: Context) -> Estimate:
    """Return what the step identify found."""
    from minidyn.identification.estimate import load_estimate

    return load_estimate(context.folder("identify") / "estimate.json")


def _validate(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.identification.validate import validate

    estimate = estimate_of(context)
    errors: dict[str, Any] = {}
    for log in step.logs:
        found = validate(estimate, recording_of(context, estimate.robot, log))
        errors[log.name] = found.to_json()
    _write_json(folder / "validation.json", errors)
    return {
        key: {name: entry[key] for name, entry in errors.items()}
        for key in ("relative_error", "filtered_relative_error")
    }


def _export(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.base.code_files import code_files, function_for
    from minidyn.identification.export import FORMATS, export

    formats = step.settings.get("formats")
    notices: tuple[str, ...] = ()
    if "identify" in step.after:
        estimate = estimate_of(context)
        robot = estimate.robot
        source = context.study.robot_path(context.study.robot)
        kept = source if Path(source).suffix.lower() in (".urdf", ".xml", ".mjcf") else False
        notices = export(estimate, folder, formats, source=kept).notices
    else:
        robot = context.robot
        for name in formats or ("toml", "urdf"):
            if name not in ("toml", "urdf", "mjcf"):
                raise UnknownName("format of a robot that is not identified", name, ("toml", "urdf", "mjcf"))
            save(robot, folder / FORMATS[name])
    for what in step.settings.get("code", ()):
        function = function_for(robot, what)
        for target in step.settings.get("targets", ("c",)):
            for name, text in code_files(robot, function, target).items():
                _write(folder / name, text)
    return {"files": sorted(path.name for path in folder.iterdir()), "notices": list(notices)}


def _report(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    from minidyn.experiment.recording import concatenate
    from minidyn.reporting.report import report

    estimate = estimate_of(context)
    steps = {other.kind: other for other in context.study.steps}
    fit = concatenate([recording_of(context, estimate.robot, log) for log in steps["identify"].logs])
    held_out = {
        log.name: recording_of(context, estimate.robot, log)
        for log in (steps["validate"].logs if "validate" in steps else ())
    }
    details = {"study": context.study.path.name, "seed": context.study.seed} | {
        f"log {log.name}": ", ".join(file.name for file in log.files) or f"simulated by {log.step}" for log in step.logs
    }
    title = step.settings.get("title", context.study.name)
    target = report(
        folder / "report.html",
        estimate,
        held_out,
        fit=fit,
        title=title,
        details=details,
        code=step.settings.get("code", True),
    )
    return {"files": [target.name]}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, data: Any) -> None:
    try:
        _write(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
    except ValueError:
        raise MinidynError(f"{path.name}: a value is not a finite number") from None


MAKERS: dict[str, Maker] = {
    "simulate": _simulate,
    "base": _base,
    "plan": _plan,
    "identify": _identify,
    "validate": _validate,
    "export": _export,
    "report": _report,
}
"""The function of each kind of step."""
