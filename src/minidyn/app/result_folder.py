"""Results as files and as plain values.

The folder of an identification, and what `--json` and study files write.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minidyn.app.job import FIT, left_out
from minidyn.app.rehearse import Rehearsal
from minidyn.app.report.facts import Facts, Places, changes_line, options_line
from minidyn.app.report.report import write_page
from minidyn.arrays import plain_values
from minidyn.display import save_figure
from minidyn.errors import MissingExtra
from minidyn.excitation.excitation import Excitation
from minidyn.excitation.one_joint_plan import Plan
from minidyn.excitation.robot_files import FORMATS as MOTIONS
from minidyn.excitation.robot_files import SLOW
from minidyn.files import (
    AnyPath,
    check_folder,
    check_outputs,
    new_folder,
    recorded_files,
    write_atomically,
)
from minidyn.formats.side_file import SIDE
from minidyn.identification.compare import Comparison
from minidyn.identification.cross_validate import CrossValidation
from minidyn.identification.estimate import Estimate
from minidyn.identification.export import FORMATS, file_name
from minidyn.identification.gains.drive_gains import DriveGains
from minidyn.identification.validate import Validation
from minidyn.identification.verdict import judge
from minidyn.notices import Notice, info, notices_json
from minidyn.recording.recording import without_sketch
from minidyn.simulation.payload import Payload
from minidyn.text import markdown_cell

REPORT = "report.html"
SUMMARY = "result.json"
"""What a folder of results holds, and the names of its files."""


NO_PICTURES = info(
    "result.no_pictures",
    "PNG pictures of the torques (--pictures) are left out, because matplotlib is not installed; "
    "the report has its own.",
)


def check_result(path: AnyPath, inputs: Iterable[AnyPath | None], robot_name: str) -> Path:
    """Return a folder that results of a robot of this name may be written into.

    They replace no input and no file that minidyn did not write. Asked before long work.
    """
    folder = check_folder(path)
    models = [file_name(name, robot_name) for name in FORMATS]
    sides = (name + SIDE for name in models)
    names = (
        SUMMARY,
        REPORT,
        "estimate.json",
        "parameters.md",
        "model.h",
        *models,
        *sides,
    )
    read = list(inputs)
    check_outputs((folder / name for name in names), read)
    check_outputs(
        [folder], (source for source in read if source is not None and Path(source).is_dir())
    )
    return folder


@dataclass(frozen=True)
class Wanted:
    """What a folder of results shall hold, apart from the estimate, its tables and the record."""

    formats: tuple[str, ...] = ()  # as `estimate.export` takes them; none: its default
    report: bool = True  # whether the HTML report is written
    pictures: bool = False  # whether a PNG of the torques is drawn for each validation


def write_result(
    estimate: Estimate,
    validations: Mapping[str, Validation],
    path: str | os.PathLike[str],
    record: Mapping[str, Any] | None = None,
    cross_validation: CrossValidation | None = None,
    inputs: Iterable[AnyPath | None] = (),
    wanted: Wanted = Wanted(),
) -> dict[str, Any]:
    """Write a folder of results, whole or not at all.

    Files of an earlier result there are replaced, others stay. estimate.json, parameters.md
    (parameters, errors, certificate), and what is `wanted`: report.html, the model as TOML, URDF
    and MJCF with the robot's name, model.c and model.h, a picture of the torques for each
    validation ("fit": of the fitted data). result.json has the names of all, with what `record`
    adds (names of logs and robot). Returns what result.json holds.

    `inputs` are files that were read and are never replaced.
    """
    summary: dict[str, Any] = {}
    earlier = [name for name in recorded_files(Path(path), SUMMARY) if Path(name).name == name]
    with new_folder(path, earlier, inputs=inputs, ours=True) as folder:
        estimate.save(folder / "estimate.json")
        tests = (run for name, run in validations.items() if name != FIT)
        made = estimate.export(folder, wanted.formats or None, test=next(tests, None))
        exported = [*made.notices]
        write_atomically(folder / "parameters.md", result_tables(estimate, validations).encode())
        if wanted.pictures:
            exported += _draw(validations, folder)
        if wanted.report:
            facts = _facts(estimate, validations, Path(path), record or {}, cross_validation)
            write_page(facts, folder / REPORT)
        files = sorted([*(file.name for file in folder.iterdir()), SUMMARY])
        found = result_summary(estimate, validations, cross_validation)
        summary = plain_values(
            {**(record or {}), **found, "export_notices": notices_json(exported), "files": files},
            finite=True,
        )
        write_atomically(folder / SUMMARY, json.dumps(summary, indent=1, allow_nan=False).encode())
    return summary


def motion_files(
    made: Excitation | Plan, folder: Path, formats: Iterable[str] = (), home: Any = None
) -> list[str]:
    """Write a designed motion or a plan into a folder, and return the names.

    JSON, preview.html, tables, other formats. Files for the robot have twins at 10 % of the speed;
    they are not written where limits are not kept.
    """
    if isinstance(made, Excitation) and len(made.runs) > 1:
        for number, one in enumerate(made.runs, start=1):
            part = folder / f"run-{number}"
            part.mkdir()
            motion_files(one, part, formats, home)
        return sorted(
            file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
        )
    name = "plan" if isinstance(made, Plan) else "motion"
    write_atomically(
        folder / f"{name}.json", json.dumps(made.to_json(), indent=1, allow_nan=False).encode()
    )
    made.preview(folder / "preview.html")
    for form in dict.fromkeys(("csv", *formats)) if made.feasible else ():
        for speed, end in ((1.0, ""), (SLOW, "-slow")):
            if isinstance(made, Plan):
                made.save(folder, form, home=home, speed=speed)
            else:
                made.save(folder / f"motion{end}{MOTIONS[form][0]}", form, home=home, speed=speed)
    return sorted(file.name for file in folder.iterdir())


def write_motion(
    made: Excitation | Plan,
    path: AnyPath,
    formats: Iterable[str] = (),
    home: Any = None,
    inputs: Iterable[AnyPath | None] = (),
    rehearsal: Rehearsal | None = None,
) -> dict[str, Any]:
    """Write a folder with a designed motion or a plan, and its rehearsal, whole or not at all.

    Returns what its result.json holds.
    """
    earlier = [name for name in recorded_files(Path(path), SUMMARY) if Path(name).name == name]
    with new_folder(path, earlier, inputs=inputs, ours=True) as folder:
        files = [*motion_files(made, folder, formats, home), SUMMARY]
        summary = made.to_json()
        if rehearsal is not None:
            files.append(rehearsal.report(folder / "rehearsal.html").name)
            summary["rehearsal"] = rehearsal.to_json()
        summary["files"] = sorted(files)
        write_atomically(folder / SUMMARY, json.dumps(summary, indent=1, allow_nan=False).encode())
    return summary


def _facts(
    estimate: Estimate,
    validations: Mapping[str, Validation],
    folder: Path,
    record: Mapping[str, Any],
    cross_validation: CrossValidation | None,
) -> Facts:
    """Return what the report of a folder is about.

    The speed of generated code, the slow part, is left out.
    """
    tests = {name: run for name, run in validations.items() if name != FIT}
    reading = options_line(record.get("reading", {}))
    places = Places(
        str(record.get("robot_file", "")),
        tuple(record.get("logs", ())),
        str(folder),
        reading=reading,
        changes=changes_line(estimate.robot, record.get("robot_changes")),
    )
    details = {
        name.replace("_", " "): value
        for name, value in record.items()
        if isinstance(value, str | float | list)
    }
    fit = validations.get(FIT)
    return Facts(estimate, tests, fit, cross_validation, details=details, code=False, places=places)


def result_summary(
    estimate: Estimate,
    validations: Mapping[str, Validation],
    cross_validation: CrossValidation | None = None,
) -> dict[str, Any]:
    """Return an identification as plain values.

    Parameters, errors, certificate, verdict, notices.
    """
    tests = {name: run for name, run in validations.items() if name != FIT}
    verdict = judge(estimate, tests, fit=validations.get(FIT), cross_validation=cross_validation)
    values = zip(
        estimate.names, estimate.beta, estimate.std, estimate.relative_std, estimate.data_shares
    )
    found = {
        "robot": estimate.robot.name,
        "method": estimate.method,
        "consistent": estimate.consistent,
        "samples": estimate.samples,
        "condition": estimate.condition,
        "base_parameters": len(estimate.beta),
        "parameters": {
            name: {"value": value, "std": std, "relative_std": relative, "data_share": share}
            for name, value, std, relative, share in values
        },
        "standard_parameters": dict(zip(estimate.robot.parameter_names, estimate.parameters)),
        "noise": dict(zip(estimate.robot.joint_names, estimate.sigma)),
        "errors": {name: validation.to_json() for name, validation in validations.items()},
        "certificate": estimate.certificate.to_json(),
        "verdict": verdict.to_json(),
        "settings": estimate.settings and estimate.settings.to_json(),
        "record": without_sketch(estimate.record),
        "notices": notices_json([*estimate.notices, *left_out(validations)]),
    }
    return dict(plain_values(found, finite=True))


def payload_data(found: Payload) -> dict[str, Any]:
    """Return an identified load as plain values."""
    data = {"mass": found.mass, "com": found.com, "inertia": found.inertia, "std": found.std or {}}
    data |= {
        "parameters": found.ten,
        "realizable": found.realizable,
        "changes": found.settings.get("changes", []),
    }
    return dict(plain_values(data | {"notices": notices_json(found.notices)}, finite=True))


def gains_data(found: DriveGains) -> dict[str, Any]:
    """Return drive gains by joint, their covariance and the load as plain values."""
    each = zip(found.robot.joint_names, found.gains, found.std)
    gains = {name: {"gain": gain, "std": std} for name, gain, std in each}
    data = {
        "gains": gains,
        "covariance": found.covariance,
        "mass": found.payload.mass,
        "com": found.payload.com,
    }
    return dict(plain_values(data | {"notices": notices_json(found.notices)}, finite=True))


def comparison_data(found: Comparison) -> list[dict[str, Any]]:
    """Return the rows of a comparison as plain values."""
    keys = ("method", "consistent", "validation_error", "fit_error", "realizable", "seconds")
    rows = [
        {key: getattr(row, key) for key in keys}
        | {"notices": notices_json(row.notices), "failure": row.failure or None}
        for row in found.rows
    ]
    return list(plain_values(rows, finite=True))


def result_tables(estimate: Estimate, validations: Mapping[str, Validation]) -> str:
    """Return parameters, errors, certificate and notices as Markdown."""
    parts = ["# Identified model", "## Base parameters", estimate.table()]
    if estimate.flexibility is not None:
        parts += [f"## Joints that give way, encoders on the {estimate.flexibility.encoder}'s side"]
        parts += [estimate.flexibility.table()]
    for name, validation in validations.items():
        label = "" if validation.overlap is None else f" ({validation.data})"
        parts += [f"## Errors: {markdown_cell(name)}{label}", validation.table()]
    parts += ["## Certificate", estimate.certificate.table()]
    if estimate.notices:
        parts += [
            "## Notices",
            "\n".join(f"- {markdown_cell(str(notice))}" for notice in estimate.notices),
        ]
    return "\n\n".join(parts) + "\n"


def _draw(validations: Mapping[str, Validation], folder: Path) -> list[Notice]:
    """Draw the torques of each validation; return the notice where that cannot be."""
    try:
        for name, picture in zip(validations, _pictures(validations)):
            save_figure(validations[name].plot(name), folder / picture)
    except MissingExtra as error:
        return [NO_PICTURES(f"no PNG pictures: {error}")]
    return []


def _pictures(names: Iterable[str]) -> list[str]:
    """Return a file name for the picture of each validation.

    Letters and digits alone, each once.
    """
    made: list[str] = []
    for name in names:
        stem = Path(name).stem if "." in name else name
        word = (
            "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in stem)[
                :40
            ]
            or "log"
        )
        numbered = itertools.chain([word], (f"{word}_{number}" for number in itertools.count(2)))
        made.append(next(name for each in numbered if (name := f"torque_{each}.png") not in made))
    return made
