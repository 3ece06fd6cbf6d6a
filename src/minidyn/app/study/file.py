"""Study files: a whole job as TOML, read and checked before anything runs.

See docs/study-files.md for the format. Every complaint names the file, the line, the key and what
was expected. Relative paths are relative to the study file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minidyn.app.job import Log
from minidyn.app.study import schema
from minidyn.app.study.schema import SEVERAL, STEPS
from minidyn.errors import DescriptionError, MinidynError, near_names, reading
from minidyn.excitation.bounds import read_limits
from minidyn.formats.descriptions import is_description
from minidyn.formats.load import robots
from minidyn.formats.toml.table import Table, read_tables
from minidyn.identification.verdict import Limits
from minidyn.recording.read.mapping import SignalMap, mapping_of, with_own_mapping

RECORDING = "recording.npz"
"""What a step that simulates writes."""


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    name: str  # of the step and its folder: "identify", "simulate-fit"
    kind: str  # which function of study/steps.py does it
    settings: Mapping[str, Any]  # what the file says, as plain values
    logs: tuple[Log, ...]  # recordings it reads
    after: tuple[str, ...]  # steps whose results it reads
    where: str  # file, line and table, for messages


@dataclass(frozen=True)
class Study:
    """A study file, read and checked."""

    path: Path
    name: str
    output: Path  # folder of the results
    seed: int  # of everything random
    robot: str  # built-in name of the robot, or its file as the study names it
    changes: Mapping[str, Any]  # options of `md.load` that the file gives
    coupling: Mapping[
        str, Mapping[str, float]
    ]  # {joint: {other joint that turns its drive, too: coefficient}}
    mapping: Mapping[str, Any]  # options of `md.read_recording` that hold for all logs
    preparation: Mapping[str, Any]  # options of `md.prepare`
    limits: Limits  # of the verdict
    steps: tuple[Step, ...]  # what to do, in order
    engine: Mapping[str, Any]  # who reads logs: options of `executor_of`; none: this process

    def robot_path(self, name: str) -> str:
        """Return a built-in name as it is, a file as one relative to the study file."""
        file = self.path.parent / name
        is_name = name in robots() or (is_description(name) and not file.exists())
        return name if is_name else str(file)


def read_study(path: str | Path) -> Study:
    """Read and check a study file; an error names file and line."""
    source = Path(path)
    with reading(source):
        return _study(source)


def _study(source: Path) -> Study:
    if source.is_dir():
        raise DescriptionError(f"{source}: a folder; expected a study file such as study.toml")
    top, folder = read_tables(source), source.parent
    top.finish(["study", "robot", "mapping", "preparation", "verdict", "log", *STEPS])
    study = _values(top.table("study"), schema.STUDY)
    robot = _values(top.table("robot"), schema.ROBOT)
    if "file" not in robot:
        raise DescriptionError(
            f'{source}: no robot; expected a table [robot] with file = "robot.urdf" (or a name)'
        )
    mapping = _values(top.table("mapping"), schema.MAPPING)
    inner, seed = study.get("output", source.stem), study.get("seed", 0)
    if Path(inner).is_absolute() or ".." in Path(os.path.normpath(inner)).parts:
        what = (
            f"expected a folder below that of the study file, found {inner!r}; put the study file "
            "where it may write"
        )
        raise top.table("study").error("output", what)  # type: ignore[union-attr]
    output = folder / inner
    logs: dict[str, Log] = {}
    for table in top.tables("log"):
        name = _name(table, logs, "log")
        logs[name] = _measured(table, name, folder, mapping)
    for table in top.tables("simulate"):
        name = _name(table, logs, "simulate")
        logs[name] = Log(name, (output / f"simulate-{name}" / RECORDING,), step=f"simulate-{name}")
    steps: list[Step] = []
    for kind in STEPS:
        one = top.table(kind) if kind not in SEVERAL else None
        for number, table in enumerate(
            top.tables(kind) if kind in SEVERAL else [one] if one else []
        ):
            named = (*table.texts("logs"), *table.texts("loaded"))
            used = [_log(table, entry, folder, logs, mapping) for entry in named]
            steps.append(_step(top, table, kind, used, steps, seed + number))
    if not steps:
        raise DescriptionError(
            f"{source}: nothing to do; expected at least one of [{'], ['.join(STEPS)}]"
        )
    changes = {key: robot[key] for key in robot if key not in ("file", "coupling")}
    preparation = _values(top.table("preparation"), schema.PREPARATION)
    limits = Limits(**_values(top.table("verdict"), schema.VERDICT))
    about = (source, study.get("name", source.stem), output, seed, robot["file"])
    engine = {key: study[key] for key in schema.ENGINE if key in study}
    return Study(
        *about,
        changes,
        robot.get("coupling", {}),
        mapping,
        preparation,
        limits,
        tuple(steps),
        engine,
    )


def _values(table: Table | None, keys: Mapping[str, schema.Check]) -> dict[str, Any]:
    if table is None:
        return {}
    table.finish(keys)
    return {key: keys[key](table, key) for key in table.data}


def _require(table: Table, kind: str) -> None:
    for key in schema.REQUIRED.get(kind, ()):
        if key not in table:
            raise DescriptionError(f"{table.where}: {table.label} has no {key!r}")


def _name(table: Table, taken: Mapping[str, Log], kind: str) -> str:
    """Return the name of a table that names a folder, too."""
    _require(table, kind)
    name = table.text("name")
    if (
        not name
        or not name.isascii()
        or not all(character.isalnum() or character in "-_" for character in name)
    ):
        raise table.error(
            "name", f"expected letters, digits, - and _ (it names a folder), found {name!r}"
        )
    if name in taken:
        raise table.error("name", f"{name!r} is the name of another log")
    return name


def _measured(table: Table, name: str, folder: Path, mapping: Mapping[str, Any]) -> Log:
    values = _values(table, schema.LOG)
    if "mapping" in values:
        values = _of_file(table, "mapping", folder / values.pop("mapping")) | values
    files = tuple(folder / file for file in values.pop("files"))
    for file in files:
        if not file.exists():
            raise table.error("files", f"no such file: {file}")
    begin, end = values.pop("part", (0.0, 1.0))
    own = {**mapping, **{key: value for key, value in values.items() if key != "name"}}
    _check_mapping(own, table.where)
    return Log(name, files, own, (float(begin), float(end)))


def _of_file(table: Table, key: str, file: Path) -> dict[str, Any]:
    """Return the options of a mapping file that a table names."""
    try:
        return mapping_of(file)
    except MinidynError as error:
        raise table.error(key, str(error)) from None


def _check_mapping(mapping: Mapping[str, Any], where: str) -> None:
    try:
        SignalMap.of(mapping)
    except MinidynError as error:
        raise DescriptionError(f"{where}: {error}") from None


def _step(
    top: Table, table: Table, kind: str, used: Sequence[Log], before: Sequence[Step], seed: int
) -> Step:
    """Return a step: its settings checked, what it needs there."""
    _require(table, kind)
    settings = {
        name: value for name, value in _values(table, STEPS[kind]).items() if name != "logs"
    }
    for needed in schema.NEEDS.get(kind, ()):
        if needed not in top:
            text = f"{table.label} needs the step [{needed}], which the file does not have"
            raise DescriptionError(f"{table.where}: {text}")
    if kind in ("compare", "report"):  # they show the logs that were fitted and those that were not
        used = [
            log for step in before if step.kind in ("identify", "validate") for log in step.logs
        ]
    if kind == "export":  # what a format cannot say is weighed on the logs that were not fitted
        used = [log for step in before if step.kind == "validate" for log in step.logs]
    if kind in ("simulate", "excite"):
        settings = {"seed": seed, **settings}
    if "limits" in settings:  # contents of files count, not their names
        given = settings["limits"]
        settings["limits"] = [
            read_limits(Path(table.file).parent / one) if isinstance(one, str) else one
            for one in (given if isinstance(given, list) else [given])
        ]
    name = kind
    if kind in SEVERAL:
        name = f"{kind}-{_name(table, {}, kind)}"
        settings.pop("name")
        if any(step.name == name for step in before):
            raise table.error("name", f"there are two steps {name!r}")
    after = {log.step for log in used if log.step}
    if schema.READS.get(kind) in top:
        after.add(schema.READS[kind])
    for one in settings.get("after", ()):
        if one != "identify" and not (Path(table.file).parent / one).is_file():
            raise table.error(
                "after", f"expected 'identify' or the file of an estimate, found {one!r}"
            )
        if one == "identify" and one not in top:
            raise table.error("after", "the file has no step [identify]")
        after |= {"identify"} & {one}
    return Step(
        name, kind, settings, tuple(used), tuple(sorted(after)), f"{table.where}: {table.label}"
    )


def _log(
    table: Table, entry: str, folder: Path, logs: Mapping[str, Log], mapping: Mapping[str, Any]
) -> Log:
    if entry in logs:
        return logs[entry]
    entry, named = with_own_mapping(entry)
    file = folder / entry
    if named is not None:
        mapping = {**mapping, **_of_file(table, "logs", folder / named)}
    if not file.exists():
        near = near_names(entry, logs) if logs else ""
        raise table.error(
            "logs", f"{entry!r} is neither a file beside the study file nor the name of a log{near}"
        )
    _check_mapping(mapping, table.where)
    return Log(entry, (file,), dict(mapping))
