"""What the studio's page asks for: the study's state, actions, pictures, and the long work.

A desk lives in a worker process. All that it knows is in the study's folder: the study file,
its results, and below `.studio` the names of files, the last check and the signals of logs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.app.check import check
from minidyn.app.compare_estimates import compare_estimates
from minidyn.app.job import Job, Log
from minidyn.app.studio.document import Actions, text_of
from minidyn.app.studio.phases import Phases
from minidyn.app.studio.pyramid import Pyramid, Single, write_pyramid
from minidyn.app.studio.robot_view import base_data, placements, robot_data
from minidyn.app.study.file import Study, read_study
from minidyn.app.study.run import context_of, run_study
from minidyn.app.study.store import key_of
from minidyn.arrays import plain_values
from minidyn.display import listening
from minidyn.errors import DescriptionError, MinidynError
from minidyn.excitation.robot_files import FORMATS as MOTIONS
from minidyn.excitation.target import PURPOSES
from minidyn.files import new_folder, read_bytes, write_atomically
from minidyn.formats.load import describe, load, robots
from minidyn.identification.estimate import load_estimate
from minidyn.identification.estimators.method import DESCRIPTIONS
from minidyn.identification.export import TARGETS
from minidyn.identification.selection import Decision
from minidyn.identification.settings import Settings, descriptions
from minidyn.model.drives import TERMS
from minidyn.model.robot import Robot
from minidyn.notices import notices_json
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.read.mapping import SECONDS, UNITS, SignalMap
from minidyn.recording.read.places import content_hash
from minidyn.recording.read.read import read_columns
from minidyn.recording.ready import in_robot_order, prepare, with_logged_joints
from minidyn.recording.recording import Recording

STUDY = "study.toml"
"""The study file in a studio's folder."""
NOTES = ".studio"
"""Folder below it for what can be made again: signals, the last check, names of files."""
CHECK_PAGE = "check.html"
COMPARISON_PAGE, ESTIMATE = "comparison.html", "estimate.json"
_MARKS = 200  # size: single wild values that are marked on a time line

Progress = Callable[..., None]


class Desk:
    """The work of one study folder."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self.notes = folder / NOTES
        self.notes.mkdir(parents=True, exist_ok=True)
        self._progress = progress
        self._actions = Actions(folder / STUDY)
        self._hashes: dict[tuple[str, int, int], str] = {}
        self._robots: dict[str, Robot] = {}
        self._pyramids: dict[str, Pyramid] = {}

    # ------------------------------------------------------------ state and actions

    def on_state(self) -> dict[str, Any]:
        """Return all that the page shows but pictures."""
        tables = self._actions.tables
        study = self._study
        fit = self._logs_of("identify")
        checked = self._note("check")
        key = self._check_key(fit) if fit else ""
        state = {
            "folder": str(self.folder.resolve()),
            "study": text_of(tables),
            "tables": tables,
            "files": self._note("files"),
            "check": checked if checked.get("key") == key else None,
            "checked_before": bool(checked),
            "kept": (self.notes / ESTIMATE).is_file(),
            "compared": os.path.getmtime(page)
            if (page := self.notes / COMPARISON_PAGE).is_file()
            else 0.0,
            "views": {log.name: self._view_note(log) for log in self._all_logs()},
            "unread": [log.name for log in self._all_logs() if not self._view_note(log)],
            "results": [] if study is None else self._results(),
        }
        state["locked"] = self._locks(state)
        return dict(plain_values(state, finite=True))

    def on_choices(self) -> dict[str, Any]:
        """Return what menus and forms offer, with the defaults of the library."""
        defaults = Settings().to_json()
        meanings = descriptions()
        return {
            "robots": [{"name": name, "about": describe(name)} for name in robots()],
            "settings": [
                {"name": name, "about": meanings[name], "default": defaults[name]}
                for name in meanings
            ],
            "methods": dict(DESCRIPTIONS),
            "terms": list(TERMS),
            "targets": dict(TARGETS),
            "units": sorted(UNITS),
            "time_units": list(SECONDS),
            "purposes": list(PURPOSES),
            "motion_formats": [name for name in MOTIONS if name != "csv"],
        }

    def on_act(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Do one action of the page and return the new state."""
        self._actions.act(name, given)
        self.__dict__.pop("_study", None)
        return self.on_state()

    def on_reload(self) -> dict[str, Any]:
        """Return the state after another process has written results."""
        self._pyramids.clear()
        return self.on_state()

    def on_add(self, file: str, name: str) -> dict[str, Any]:
        """Take a file that was uploaded: remember what its owner calls it."""
        files = {**self._note("files"), file: name}
        self._write_note("files", files)
        return files

    def _locks(self, state: Mapping[str, Any]) -> dict[str, str]:
        """Return why each stage is locked; "": it is not."""
        tables, checked = state["tables"], state["check"]
        robot = "" if "robot" in tables else "Choose a robot first."
        logs = robot or ("" if "log" in tables else "Add a log first.")
        forced = tables.get("identify", {}).get("force") is True
        run = logs
        if not run and checked is None:
            again = " again: inputs have changed since" if state["checked_before"] else ""
            run = f"Check the logs{again}."
        elif not run and checked["level"] == "bad" and not forced:
            run = "The check found errors. Correct them, or fit although the check failed."
        done = {one["name"]: one["state"] for one in state["results"]}
        judged = logs or (
            "" if done.get("identify") == "unchanged" else "Run identification first."
        )
        return {
            "robot": "",
            "logs": robot,
            "motion": robot,
            "identify": logs,
            "run": run,
            "judge": judged,
            "use": judged,
        }

    def _results(self) -> list[dict[str, Any]]:
        """Return each step of the study, whether its result is good, and its figures."""
        try:
            made = run_study(self.folder / STUDY, dry=True)
        except MinidynError as error:
            return [{"name": "study", "state": "error", "text": str(error)}]
        return [
            {
                "name": step.name,
                "state": step.state,
                "summary": dict(step.summary),
                "files": sorted(
                    one.relative_to(step.folder).as_posix()
                    for one in step.folder.rglob("*")
                    if one.is_file()
                )
                if step.state == "unchanged"
                else [],
            }
            for step in made.steps
        ]

    # ------------------------------------------------------------ robot

    def on_robot(self, log: str = "") -> dict[str, Any]:
        """Return the robot, or the one of a log: joints that it does not have are locked."""
        return robot_data(self._robot(log), self._unlocked)

    def on_base(self) -> dict[str, Any]:
        """Return what base parameters say of each link."""
        return base_data(self._robot())

    def on_pose(self, q: Sequence[float]) -> tuple[dict[str, Any], bytes]:
        """Return where base and links are."""
        found = placements(self._robot(), q)
        return {"shape": found.shape}, found.tobytes()

    def _robot(self, log: str = "") -> Robot:
        robot_table = self._actions.tables.get("robot", {})
        missing = self._view_of(log).get("locked", []) if log else []
        key = json.dumps([robot_table, missing])
        if key not in self._robots:
            options = {k: v for k, v in robot_table.items() if k not in ("file", "coupling")}
            robot = load(self._actions.robot_path, **options)
            self._robots = {**self._robots, key: robot.locked(missing) if missing else robot}
        return self._robots[key]

    @property
    def _unlocked(self) -> Robot:
        return load(self._actions.robot_path)

    # ------------------------------------------------------------ logs

    def on_columns(self, file: str) -> dict[str, Any]:
        """Return the columns of a log, and what each joint's signals are read from."""
        robot = self._robot()
        given = SignalMap.of(self._actions.tables.get("mapping", {}))
        found = read_columns(self.folder / file, robot, given)
        return dict(plain_values({**vars(found), "joints": robot.joint_names}))

    def on_signals(
        self, log: str, begin: float, end: float, groups: int, columns: Sequence[int]
    ) -> tuple[dict[str, Any], bytes]:
        """Return a stretch of signals: times, smallest, largest values, where lines break."""
        part = self._pyramid(log).stretch(begin, end, groups, columns)
        origin = float(part.t[0]) if len(part.t) else 0.0
        arrays = [(part.t - origin).astype(np.float32), part.low, part.high]
        data = b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
        facts = {"rows": len(part.t), "origin": origin, "size": part.size}
        return facts, data + np.ascontiguousarray(part.gap).astype(np.uint8).tobytes()

    def on_frames(
        self, log: str, begin: float, end: float, count: int
    ) -> tuple[dict[str, Any], bytes]:
        """Return where the robot is at evenly spaced times of a log."""
        view = self._view_of(log)
        columns = [view["columns"].index(["q", name]) for name in view["joints"]]
        times = np.linspace(begin, end, count)
        q = np.nan_to_num(self._pyramid(log).samples(times, columns))
        found = placements(self._robot(log), q)
        return {"shape": found.shape, "begin": begin, "end": end}, found.tobytes()

    def on_read(self) -> dict[str, Any]:
        """Long work: read every log that was not read as the study says now."""
        wanted = [log for log in self._all_logs() if not self._view_note(log)]
        for number, log in enumerate(wanted):
            self._progress(phase=f"reading {log.name}", done=number, total=len(wanted))
            key = self._view_key(log)
            try:
                facts = self._write_view(log, key)
            except MinidynError as error:
                facts = {"error": self._in_their_words(str(error))}
            self._write_note(f"view-{log.name}", {"key": key, **facts})
        return {"read": [log.name for log in wanted]}

    def _write_view(self, log: Log, key: str) -> dict[str, Any]:
        robot = self._robot()
        raw: AnyRecording = Job(robot, (log,)).fitted
        logged = with_logged_joints(robot, raw)
        raw = in_robot_order(logged, raw)
        tiles = list(raw.tiles())
        names = [(signal, name) for signal in tiles[0].signals for name in raw.joint_names]
        values: Single = np.concatenate(
            [
                np.concatenate([getattr(tile, s) for s in tile.signals], axis=1).astype(np.float32)
                for tile in tiles
            ]
        )
        t = np.concatenate([tile.t for tile in tiles])
        with new_folder(self._signals_folder(key), replace=True) as fresh:
            write_pyramid(fresh, t, values)
        pyramid = Pyramid(self._signals_folder(key))
        return {
            "columns": names,
            "joints": raw.joint_names,
            "locked": sorted(set(robot.joint_names) - set(logged.joint_names)),
            "samples": len(t),
            "seconds": float(pyramid.t[-1]),
            "starts": [float(pyramid.t[k]) for k in raw.starts[1:]][:1000],
            "notices": notices_json(raw.notices),
        }

    def _pyramid(self, log: str) -> Pyramid:
        key = self._view_of(log)["key"]
        if key not in self._pyramids:
            self._pyramids = {key: Pyramid(self._signals_folder(key))}
        return self._pyramids[key]

    def _signals_folder(self, key: str) -> Path:
        return self.notes / f"signals-{key[:24]}"

    def _view_of(self, name: str) -> dict[str, Any]:
        view = next((self._view_note(log) for log in self._all_logs() if log.name == name), {})
        if "columns" not in view:
            raise DescriptionError(f"log {name!r} is not read yet")
        return view

    def _view_note(self, log: Log) -> dict[str, Any]:
        note = self._note(f"view-{log.name}")
        return note if note.get("key") == self._view_key(log) else {}

    def _view_key(self, log: Log) -> str:
        robot = self._robot().structure_fingerprint
        return key_of({"robot": robot, **self._input(log)})

    def _input(self, log: Log) -> dict[str, Any]:
        files = [[path.name, self._hash(path)] for path in log.files]
        return {"files": files, "reading": dict(log.reading), "part": list(log.part)}

    # ------------------------------------------------------------ check and run

    def on_check(self) -> dict[str, Any]:
        """Long work: check the logs that are fitted."""
        logs = self._logs_of("identify")
        study = self._study
        if study is None or not logs:
            raise DescriptionError("no log is chosen to be fitted")
        key = self._check_key(logs)
        self._progress(phase="reading logs", done=0, total=2)
        job = Job(context_of(study).robot, logs)
        data = job.fitted
        self._progress(phase=f"checking {len(data)} samples", done=1, total=2)
        found = check(job.robot, data)
        found.report(self.notes / CHECK_PAGE)
        facts = {
            "key": key,
            "marks": self._marks(job, logs),
            "level": found.level,
            "headline": found.headline,
            "notices": notices_json(found.notices),
            "next": found.next,
            "columns": found.columns,
        }
        facts = dict(plain_values(facts, finite=True))
        self._write_note("check", self._in_their_words(facts))
        return {"level": found.level}

    @staticmethod
    def _marks(job: Job, logs: Sequence[Log]) -> list[dict[str, Any]]:
        """Return when values are bridged by preparation, and are no numbers, for the time line."""
        marks = []
        for log in logs:
            raw = job.recording(log)
            if not isinstance(raw, Recording):
                continue  # one that stays on disk is not read once more
            prepared = prepare(job.robot, raw)
            bridged = prepared.telemetry.get("outlier", np.zeros(0))
            for t in prepared.t[np.flatnonzero(bridged)[:_MARKS]].tolist():
                facts = {"log": log.name, "t": t - float(raw.t[0]), "level": "warning"}
                marks.append({**facts, "text": "spike or hole"})
            for notice in raw.notices:
                if "first" in notice.data and notice.code == "recording.not_numbers":
                    t = float(raw.t[int(notice.data["first"])] - raw.t[0])
                    text = "no number"
                    marks.append({"log": log.name, "t": t, "text": text, "level": notice.level})
        return marks

    def on_run(self, only: Sequence[str]) -> dict[str, Any]:
        """Long work: run steps of the study, those that are up to date apart."""
        state = self.on_state()
        if "identify" in only and state["locked"]["run"]:
            raise DescriptionError(state["locked"]["run"])
        todo = [one["name"] for one in state["results"] if one["state"] == "to do"]
        steps = [name for name in todo if not only or name in only]

        phases = Phases(steps, self._note("seconds"), self._progress)
        decisions: list[dict[str, Any]] = []

        @contextmanager
        def around(name: str) -> Iterator[None]:
            phases.step(name)
            yield

        def heard(what: str, content: object) -> None:
            if what == "phase":
                phases.part(str(content))
            elif isinstance(content, Decision):
                decisions.append(content.to_json())
                self._progress(decisions=plain_values(decisions, finite=True))

        with listening(heard):
            made = run_study(self.folder / STUDY, only=list(only), around=around)
        phases.end()
        self._write_note("seconds", phases.seconds)
        return {"steps": {step.name: step.state for step in made.steps}}

    def on_keep(self) -> dict[str, Any]:
        """Keep the estimate as it is now, to compare later ones with it."""
        study = self._study
        estimate = None if study is None else study.output / "identify" / ESTIMATE
        if estimate is None or not estimate.is_file():
            raise DescriptionError("nothing is identified yet")
        write_atomically(self.notes / ESTIMATE, read_bytes(estimate))
        return self.on_state()

    def on_compare(self) -> dict[str, Any]:
        """Long work: write the page that shows the kept estimate beside that of now."""
        study = self._study
        if study is None or not (self.notes / ESTIMATE).is_file():
            raise DescriptionError("no estimate was kept to compare with")
        self._progress(phase="comparing", done=0, total=1)
        now = load_estimate(study.output / "identify" / ESTIMATE)
        found = compare_estimates(load_estimate(self.notes / ESTIMATE), now, same_day=True)
        found.report(self.notes / COMPARISON_PAGE)
        return {}

    def _check_key(self, logs: Sequence[Log]) -> str:
        table = self._actions.tables.get("robot", {})
        robot = self._robot().fingerprint
        return key_of({"robot": [table, robot], "logs": [self._input(log) for log in logs]})

    # ------------------------------------------------------------ the folder

    @cached_property
    def _study(self) -> Study | None:
        """The study as it stands in the file; None where it has nothing to do yet."""
        tables = self._actions.tables
        return read_study(self.folder / STUDY) if "robot" in tables and "base" in tables else None

    def _all_logs(self) -> list[Log]:
        study = self._study
        logs = [] if study is None else [log for step in study.steps for log in step.logs]
        return list({log.name: log for log in logs if not log.step}.values())

    def _logs_of(self, kind: str) -> tuple[Log, ...]:
        steps = [] if self._study is None else self._study.steps
        return tuple(log for step in steps if step.kind == kind for log in step.logs)

    def _note(self, name: str) -> dict[str, Any]:
        path = self.notes / f"{name}.json"
        if not path.exists():
            return {}
        try:
            found = json.loads(read_bytes(path))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _write_note(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(plain_values(dict(content), finite=True), indent=1)
        write_atomically(self.notes / f"{name}.json", text.encode())

    def _hash(self, path: Path) -> str:
        about = os.stat(path)
        key = (str(path), about.st_size, about.st_mtime_ns)
        if key not in self._hashes:
            self._hashes[key] = content_hash(path)
        return self._hashes[key]

    def _in_their_words(self, value: Any) -> Any:
        """Return plain values with the names that files had before they were uploaded."""
        if isinstance(value, Mapping):
            return {key: self._in_their_words(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._in_their_words(one) for one in value]
        if isinstance(value, str):
            for file, name in self._note("files").items():
                value = value.replace(str(self.folder / file), name)
                value = value.replace(Path(file).name, name)
        return value
