"""Studies: whole jobs described by a file, run step by step, resumed where they stopped."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from minidyn import __version__
from minidyn.app.job import Log
from minidyn.app.study.file import Step, Study, read_study
from minidyn.app.study.steps import MAKERS, Context
from minidyn.app.study.store import (
    code_hash,
    held,
    key_of,
    recorded,
    refuse_others,
    work_of,
    write_step,
)
from minidyn.errors import DescriptionError, MinidynError, UnknownName
from minidyn.formats.load import load
from minidyn.model.robot import Robot
from minidyn.notices import notices_json
from minidyn.recording.engine import executor_of
from minidyn.recording.read.mapping import mapped_coupling
from minidyn.recording.read.places import content_hash
from minidyn.recording.ready import with_mapped_coupling


@dataclass(frozen=True)
class StepResult:
    """What became of a step.

    Attributes:
        name: Of the step.
        state: "done", "unchanged" where an earlier run's result is still good, or "to do" where
            nothing was run.
        seconds: That it took now.
        folder: Where its results are.
        summary: Figures of the result.
    """

    name: str
    state: str
    seconds: float
    folder: Path
    summary: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"StepResult({self.name!r}, {self.state}, {str(self.folder)!r})"


@dataclass(frozen=True)
class StudyResult:
    """What became of a study.

    Attributes:
        study: The study as it was read.
        steps: Results in the order they were made.
        robot: The robot; its notices say what of its file is left out.
    """

    study: Study
    steps: tuple[StepResult, ...]
    robot: Robot

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        """The verdict on the identified model as plain values.

        None where nothing was identified.
        """
        return next(
            (step.summary["verdict"] for step in reversed(self.steps) if "verdict" in step.summary),
            None,
        )

    def __getitem__(self, name: str) -> StepResult:
        steps = {step.name: step for step in self.steps}
        if name not in steps:
            raise UnknownName("step", name, steps)
        return steps[name]

    def __repr__(self) -> str:
        states = ", ".join(f"{step.name} {step.state}" for step in self.steps)
        verdict = "" if self.verdict is None else f"; {self.verdict['headline'].lower()}"
        return f"StudyResult({self.study.name!r}: {states}{verdict})"


def run_study(
    path: str | Path,
    *,
    only: Sequence[str] = (),
    rerun: bool = False,
    dry: bool = False,
    around: Callable[[str], AbstractContextManager[Any]] | None = None,
) -> StudyResult:
    """Run a study file; steps whose inputs have not changed since the last run are skipped.

    Each step's results lie in a folder of its own, written whole or not at all, beside
    `provenance.json`: settings, seed, versions, date, and hashes of inputs and results. Whatever
    stops the run, finished steps stay, and so does what the step under way had prepared of large
    logs.

    Args:
        path: The study file, see docs/study-files.md.
        only: Steps to run, with those they need; none: all.
        rerun: Run steps again although nothing has changed.
        dry: Run nothing; report what there is to do.
        around: Given the name of a step that is about to run, returns a context to run it in (a
            progress bar).

    Raises:
        DescriptionError: The file is wrong, or a step fails; with file and line.
    """
    with held(Path(path)):
        return _run(path, only, rerun, dry, around)


def _run(
    path: str | Path,
    only: Sequence[str],
    rerun: bool,
    dry: bool,
    around: Callable[[str], AbstractContextManager[Any]] | None,
) -> StudyResult:
    study = read_study(path)
    steps = _chosen(study, only)
    context = context_of(study)
    for step in () if dry else steps:  # before the first of them runs
        refuse_others(study.output / step.name)
    with executor_of(**({} if dry else study.engine)) as executor:
        return _results(replace(context, executor=executor), steps, rerun, dry, around)


def _results(
    context: Context,
    steps: Sequence[Step],
    rerun: bool,
    dry: bool,
    around: Callable[[str], AbstractContextManager[Any]] | None,
) -> StudyResult:
    study, keys = context.study, dict[str, str]()
    results = []
    for step in steps:
        facts = _facts(context, step, keys)
        keys[step.name] = key = key_of(facts)
        folder = study.output / step.name
        record = None if rerun else recorded(folder, key)
        begin, state = time.perf_counter(), "unchanged"
        if record is None and dry:
            state, record = "to do", {"summary": {}}
        elif record is None:
            state = "done"
            try:
                with nullcontext() if around is None else around(step.name):
                    own = replace(context, keep=work_of(study.output) / key)
                    record = write_step(folder, key, facts, partial(MAKERS[step.kind], own, step))
                shutil.rmtree(work_of(study.output), ignore_errors=True)
            except MinidynError as error:
                raise DescriptionError(f"{step.where}: {error}") from None
        summary = dict(record["summary"])
        if (
            step.kind == "identify" and state != "to do"
        ):  # a matter of the other steps, so not of the record
            untested = context.job(context.robot, test=context.logs("validate")).not_tested()
            summary["notices"] = [*summary["notices"], *notices_json(untested)]
            if not untested:
                summary.pop("verdict")  # that of the step that tests it counts
        results.append(StepResult(step.name, state, time.perf_counter() - begin, folder, summary))
    return StudyResult(study, tuple(results), context.robot)


def context_of(study: Study) -> Context:
    """Return the robot of a study, changed and coupled as the study says, and what steps share."""
    robot = load(study.robot_path(study.robot), **study.changes)
    if study.coupling:
        robot = robot.with_drives(coupling=study.coupling)
    logs = [log for step in study.steps for log in step.logs]
    notices = next(
        filter(None, (mapped_coupling(log.mapping, robot.joint_names) for log in logs)), []
    )
    return Context(study, robot, with_mapped_coupling(robot, notices, robot.joint_names))


def _chosen(study: Study, only: Sequence[str]) -> list[Step]:
    names = {step.name: step for step in study.steps}
    wanted: set[str] = set()

    def want(name: str) -> None:
        if name not in names:
            raise UnknownName(f"step of {study.path.name}", name, names)
        if name not in wanted:
            wanted.add(name)
            for earlier in names[name].after:
                want(earlier)

    for name in only or names:
        want(name)
    return [step for step in study.steps if step.name in wanted]


def _facts(context: Context, step: Step, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that decides a step's result."""
    study = context.study
    prior, path = step.settings.get("prior"), Path(study.robot_path(study.robot))
    other = {"prior": load(study.robot_path(prior)).fingerprint} if isinstance(prior, str) else {}
    if path.is_file():  # exports copy from it what the fingerprint does not know, such as meshes
        other["sha256"] = content_hash(path)
    known = {
        one: content_hash(study.path.parent / one)
        for one in step.settings.get("after", ())
        if one != "identify"
    }
    return {
        "step": step.name,
        "version": __version__,
        "code": code_hash(),
        "robot": {"source": study.robot, "fingerprint": context.coupled.fingerprint} | other,
        "settings": dict(step.settings),
        "seed": study.seed,
        "preparation": dict(study.preparation) if step.logs else {},
        "limits": asdict(study.limits) if step.kind in ("identify", "validate", "report") else {},
        "inputs": {log.name: _input(study, log) for log in step.logs},
        "after": {name: keys[name] for name in step.after} | known,
    }


def _input(study: Study, log: Log) -> dict[str, Any]:
    """Return what a log is: its files, by name and content, and how they are read."""
    folder = study.path.parent
    measured = () if log.step else log.files  # what a step simulates, that step's key says
    files = [
        {"file": Path(os.path.relpath(file, folder)).as_posix(), "sha256": content_hash(file)}
        for file in measured
    ]
    return {"files": files, "mapping": dict(log.reading), "part": list(log.part)}
