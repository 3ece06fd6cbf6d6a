"""Steps of a study that turn logs into models, and models into files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.app.study.context import Context, estimate_of, finite, recording_of, write, write_json
from minidyn.app.study.file import Log, Step
from minidyn.errors import DescriptionError, UnknownName
from minidyn.formats.load import load
from minidyn.formats.save import save
from minidyn.notices import Notice


def identify(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Identify the robot from logs."""
    from minidyn.identification.consistency.physical import values_for
    from minidyn.identification.identify import identify as run
    from minidyn.recording.lazy import concatenate

    given = dict(step.settings)
    friction = given.pop("friction", "auto")
    rotor_inertia = given.pop("rotor_inertia", True)
    if isinstance(given.get("prior"), str):
        given["prior"] = values_for(
            context.robot, load(context.study.robot_path(given["prior"])), f"prior: {given['prior']}"
        )
    if given.pop("lazy", False):
        if len(step.logs) != 1:
            raise DescriptionError("lazy: expected one log (it may have several files)")
        recording: Any = recording_of(context, context.robot, step.logs[0], lazy=True)
    else:
        recording = concatenate([recording_of(context, context.robot, log) for log in step.logs])
    estimate = run(context.robot, recording, friction=friction, rotor_inertia=rotor_inertia, **given)
    estimate.save(folder / "estimate.json")
    write(folder / "parameters.md", estimate.table() + "\n")
    return {
        "base_parameters": len(estimate.beta),
        "samples": estimate.samples,
        "condition": float(estimate.condition),
        "notices": [*context.told, *estimate.notices],
    }


def validate(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Test the identified model on logs."""
    from minidyn.identification.validate import validate as run

    estimate = estimate_of(context)
    errors: dict[str, Any] = {}
    for log in step.logs:
        found = run(estimate, recording_of(context, estimate.robot, log))
        errors[log.name] = found.to_json()
    write_json(folder / "validation.json", errors)
    return {
        key: {name: entry[key] for name, entry in errors.items()}
        for key in ("relative_error", "filtered_relative_error")
    }


def export(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Write the model, or the robot as it is, for other programs."""
    from minidyn.codegen.files import code_files, function_for
    from minidyn.identification.export import FORMATS
    from minidyn.identification.export import export as run

    formats = step.settings.get("formats")
    notices: tuple[Notice, ...] = ()
    if "identify" in step.after:
        estimate = estimate_of(context)
        robot = estimate.robot
        source = context.study.robot_path(context.study.robot)
        kept = source if Path(source).suffix.lower() in (".urdf", ".xml", ".mjcf") else False
        notices = run(estimate, folder, formats, source=kept).notices
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
                write(folder / name, text)
    return {"files": sorted(path.name for path in folder.iterdir()), "notices": [str(notice) for notice in notices]}


def report(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Write the report."""
    from minidyn.app.report.report import report as run
    from minidyn.recording.lazy import concatenate

    estimate = estimate_of(context)
    fit = concatenate([recording_of(context, estimate.robot, log) for log in _logs_of(context, "identify")])
    held_out = {log.name: recording_of(context, estimate.robot, log) for log in _logs_of(context, "validate")}
    details = {"study": context.study.path.name, "seed": context.study.seed} | {
        f"log {log.name}": ", ".join(file.name for file in log.files) or f"simulated by {log.step}" for log in step.logs
    }
    title = step.settings.get("title", context.study.name)
    target = run(
        estimate,
        held_out,
        folder / "report.html",
        fit=fit,
        title=title,
        details=details,
        code=step.settings.get("code", True),
    )
    return {"files": [target.name]}


def payload(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Find the load that logs carry against the identified model."""
    from minidyn.identification.payload.payload import identify_payload
    from minidyn.recording.lazy import concatenate

    estimate = estimate_of(context)
    recording = concatenate([recording_of(context, estimate.robot, log) for log in step.logs])
    found = identify_payload(estimate, recording, link=step.settings.get("link"))
    std = found.std or {}
    data = {
        "mass": found.mass,
        "com": found.com.tolist(),
        "inertia": found.inertia.tolist(),
        "std": {name: np.asarray(value).tolist() for name, value in std.items()},
        "parameters": found.ten.tolist(),
        "realizable": found.realizable,
    }
    write_json(folder / "payload.json", data)
    return {"mass": float(found.mass), "notices": list(found.notices)}


def compare(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Identify by several methods and test each on the logs of the step validate."""
    from minidyn.identification.compare import compare as run
    from minidyn.recording.lazy import concatenate

    fit, test = (
        concatenate([recording_of(context, context.robot, log) for log in _logs_of(context, kind)])
        for kind in ("identify", "validate")
    )
    options: dict[str, Any] = {"friction": "auto", "rotor_inertia": True} | {
        name: value for name, value in step.settings.items() if name != "methods"
    }
    found = run(context.robot, fit, test, step.settings.get("methods"), **options)
    write(folder / "comparison.md", found.table() + "\n")
    rows = [
        {
            "method": row.method,
            "consistent": row.consistent,
            "validation_error": finite(row.validation_error),
            "fit_error": finite(row.fit_error),
            "realizable": row.realizable,
            "seconds": row.seconds,
            "failure": row.failure,
        }
        for row in found.rows
    ]
    write_json(folder / "comparison.json", rows)
    return {"best": found.best.label, "notices": list(found.notices)}


def _logs_of(context: Context, kind: str) -> tuple[Log, ...]:
    """Return the logs of another step; none where the study does not have it."""
    return tuple(log for step in context.study.steps if step.kind == kind for log in step.logs)
