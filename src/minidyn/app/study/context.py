"""What the steps of a study share: the robot, its logs, results of earlier steps, files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.app.study.file import Log, Step, Study
from minidyn.errors import MinidynError
from minidyn.formats.load import load
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.identification.estimate import Estimate


@dataclass(frozen=True)
class Context:
    """What a step may use besides its own settings."""

    study: Study
    robot: Robot
    told: tuple[str, ...] = ()  # what the mappings of the logs say about the robot

    def folder(self, step: str) -> Path:
        """Return the folder of an earlier step's results."""
        return self.study.output / step


Maker = Callable[[Context, Step, Path], Mapping[str, Any]]


def study_robot(study: Study) -> tuple[Robot, tuple[str, ...]]:
    """Return the study's robot, its drives coupled as [robot] or else a log's mapping says; and that in words."""
    from minidyn.recording.read.mapped_drives import with_mapped_coupling
    from minidyn.recording.read.mapping import SignalMap

    robot = load(study.robot_path(study.robot), gravity=study.gravity)
    if study.coupling:
        return robot.with_drives(coupling=study.coupling), ()
    for log in (log for step in study.steps for log in step.logs):
        coupled, told = with_mapped_coupling(robot, SignalMap.of(log.mapping))
        if told:
            return coupled, told
    return robot, ()


def recording_of(context: Context, robot: Robot, log: Log, lazy: bool = False) -> Any:
    """Return a log of the study, cut to its part, prepared as the study says; a lazy one stays on disk."""
    from minidyn.recording.prepare.prepare import prepare
    from minidyn.recording.read.read import read_recording

    files = list(log.files) or [context.folder(log.step) / "recording.parquet"]
    options: dict[str, Any] = {"lazy": lazy, **log.mapping}
    raw: Any = read_recording(files, robot=robot, **options)
    if log.part != (0.0, 1.0):
        raw = raw[round(log.part[0] * len(raw)) : round(log.part[1] * len(raw))]
    return prepare(robot, raw, **context.study.preparation)


def estimate_of(context: Context) -> Estimate:
    """Return what the step identify found."""
    from minidyn.identification.estimate import load_estimate

    return load_estimate(context.folder("identify") / "estimate.json")


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it."""
    return float(value) if np.isfinite(value) else None


def write(path: Path, text: str) -> None:
    """Write a text file into a step's new folder."""
    path.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write plain values into a step's new folder."""
    try:
        write(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
    except ValueError:
        raise MinidynError(f"{path.name}: a value is not a finite number") from None
