"""The study file that the studio writes: one table or key for each action of the page."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from minidyn.app.study.file import read_study
from minidyn.app.study.schema import STEPS
from minidyn.app.study.start import write_starter
from minidyn.errors import DescriptionError, MinidynError, UnknownName
from minidyn.files import read_bytes, trial_file, write_atomically
from minidyn.formats.load import load, robots
from minidyn.formats.toml.table import parse_toml
from minidyn.formats.toml.write import toml_value
from minidyn.identification.settings import descriptions
from minidyn.recording.prepare.preparation import Preparation

Tables = dict[str, Any]

HEAD = (
    "# Written by minidyn studio; `minidyn run study.toml` does the same work to the same bits.\n"
)
EXAMPLES = Path(__file__).parent.parent / "examples"
"""Where the package keeps measured logs: a folder for each, named as the built-in robot."""
_LOG_TABLES = ("log", "identify", "validate", "report")  # that go with logs
_ORDER = ("study", "robot", "mapping", "preparation", "verdict", "log", *STEPS)
_PREPARATION = frozenset(one.name for one in fields(Preparation))


def read_tables(path: Path) -> Tables:
    """Return the tables of a study file; none where there is no file."""
    if not path.exists():
        return {}
    try:
        return parse_toml(read_bytes(path).decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path}: not a TOML file ({error})") from None


def text_of(tables: Mapping[str, Any]) -> str:
    """Return tables as the text of a study file."""
    names = [*(name for name in _ORDER if name in tables), *(set(tables) - set(_ORDER))]
    parts = [HEAD]
    for name in names:
        content = tables[name]
        several = content if isinstance(content, list) else [content]
        mark = f"[[{name}]]" if isinstance(content, list) else f"[{name}]"
        for table in several:
            lines = [f"{key} = {toml_value(value)}\n" for key, value in table.items()]
            parts.append("".join([f"\n{mark}\n", *lines]))
    return "".join(parts)


def write_tables(path: Path, tables: Mapping[str, Any]) -> None:
    """Write a study file whose tables are right; else an error, and the old file stays."""
    data = text_of(tables).encode()
    if "robot" in tables and any(step in tables for step in STEPS):
        with trial_file(path, data) as trial:
            try:
                read_study(trial)
            except MinidynError as error:
                raise DescriptionError(str(error).replace(str(trial), path.name)) from None
    write_atomically(path, data)


class Actions:
    """What the page may do to a study file: `name` is done by the method on_`name`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables = read_tables(path)

    def act(self, name: str, given: Mapping[str, Any]) -> None:
        """Do one action; where its result is no right study file, nothing has changed."""
        known = sorted(one.removeprefix("on_") for one in dir(self) if one.startswith("on_"))
        if name not in known:
            raise UnknownName("action", name, known)
        before = tomllib.loads(text_of(self.tables))
        action: Callable[..., None] = getattr(self, f"on_{name}")
        try:
            action(**given)
            write_tables(self.path, self.tables)
        except TypeError as error:
            self.tables = before
            raise DescriptionError(f"action {name}: {error}") from None
        except BaseException:
            self.tables = before
            raise

    def on_robot(self, file: str) -> None:
        """Choose the robot; what was said of another one is forgotten."""
        load(file if file in robots() else str(self.path.parent / file))
        study = {"name": self.path.parent.resolve().name, "output": "results", "seed": 0}
        self.tables = {"study": study, **self.tables, "robot": {"file": file}}
        self.tables.setdefault("base", {})
        self.tables.pop("mapping", None)

    def on_example(self) -> None:
        """Take the robot and the measured log that come with the package."""
        target = self.path.parent / "files" / "ur10-log.csv"
        target.parent.mkdir(exist_ok=True)
        write_atomically(target, read_bytes(EXAMPLES / "ur10" / "log.csv"))
        self.on_robot("ur10")
        self.on_logs([f"files/{target.name}"], [])

    def on_robot_option(self, name: str, value: Any) -> None:
        """Set gravity, mounting or locked joints; None: as in the robot's file."""
        robot = {**self.tables.get("robot", {}), name: value}
        if value is None or value == {}:
            robot.pop(name)
        options = {key: one for key, one in robot.items() if key not in ("file", "coupling")}
        load(self.robot_path, **options)
        self.tables["robot"] = robot

    def on_logs(self, fit: Sequence[str], test: Sequence[str]) -> None:
        """Say which files are fitted and which test the model; none: the last part of a log."""
        for name in _LOG_TABLES[:1] if fit else (*_LOG_TABLES, "export", "mapping"):
            self.tables.pop(name, None)
        if not fit:
            return
        folder = self.path.parent
        robot = {**self.tables["robot"]}
        file = robot.pop("file")
        robot.pop("coupling", None)
        starter = folder / ".studio" / f"starter{self.path.suffix}"
        starter.unlink(missing_ok=True)
        mapping = str(self.path) if self.tables.get("mapping") else None
        fitted, tested = ([str(folder / one) for one in some] for some in (fit, test))
        source = file if file in robots() else str(folder / file)
        try:
            write_starter(starter, source, fitted, tested, mapping, robot)
            made = read_tables(starter)
        finally:
            starter.unlink(missing_ok=True)
        for log in made["log"]:
            log["files"] = [_seen_from(folder, starter.parent, one) for one in log["files"]]
        self.tables["log"] = made["log"]
        for name in _LOG_TABLES[1:]:
            self.tables.setdefault(name, made[name])

    def on_mapping(self, **values: Any) -> None:
        """Say how columns are read; None: as guessed."""
        for name, value in values.items():
            self._set("mapping", name, value)

    def on_setting(self, name: str, value: Any) -> None:
        """Set an option of identification; None: its default."""
        if name not in descriptions() and name != "force":
            raise UnknownName("setting", name, descriptions())
        self._set("preparation" if name in _PREPARATION else "identify", name, value)

    def on_export(self, to: Sequence[str]) -> None:
        """Say for which programs the model is written; none: no export."""
        self.tables["export"] = {"to": list(to)}
        if not to:
            del self.tables["export"]

    def on_motion(self, **given: Any) -> None:
        """Design a motion to record; nothing given: none."""
        self.tables["excite"] = [{"name": "motion", **given}]
        if not given:
            del self.tables["excite"]

    @property
    def robot_path(self) -> str:
        """The robot's built-in name or file."""
        file = self.tables.get("robot", {}).get("file", "")
        if not file:
            raise DescriptionError("no robot is chosen yet")
        return str(file if file in robots() else self.path.parent / file)

    def _set(self, table: str, name: str, value: Any) -> None:
        content = {**self.tables.get(table, {}), name: value}
        if value is None:
            del content[name]
        self.tables[table] = content
        if not content and table in ("mapping", "preparation"):
            del self.tables[table]


def _seen_from(folder: Path, base: Path, file: str) -> str:
    """Return a path that is relative to `base` as one relative to `folder`."""
    return Path(os.path.relpath(base / file, folder)).as_posix()
