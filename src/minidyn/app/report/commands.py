"""Commands for the reader's own files, each with a button that copies it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from minidyn.app.report.facts import Facts, Places
from minidyn.display import Html, tag
from minidyn.formats.load import robots
from minidyn.identification.estimate import Estimate
from minidyn.text import visible

_ROBOT = "robot.toml"


def places_of(estimate: Estimate, path: str | Path | None = None, logs: tuple[str, ...] = ()) -> Places:
    """Return where the files of an estimate are: its own, where it was read from one, and its robot's."""
    described = estimate.base.robot
    known = described.name if described.name in robots() else ""
    robot = described.source if os.path.isfile(described.source) else known  # false for any text
    folder = "" if path is None or not (Path(path).parent / _ROBOT).is_file() else str(Path(path).parent)
    return Places(robot, logs, folder, "" if path is None else str(path))


def identify_command(facts: Facts, *options: str) -> str:
    """Return how to identify again with other options."""
    return _line("identify", facts.places.robot or "ROBOT", *(facts.places.logs or ("LOG",)), *options)


def report_command(facts: Facts) -> str:
    """Return how to test the model on another log."""
    estimate = facts.places.estimate or _inside(facts, "estimate.json") or "estimate.json"
    return _line("report", estimate, "other-log.csv", "--output", "report.html")


def generate_command(facts: Facts) -> str:
    """Return how to write C code; from Python where no file of the robot is known."""
    robot = _inside(facts, _ROBOT)
    if not robot:
        return 'estimate.export("model")'
    return _line("generate", robot, "inverse_dynamics", "--target", "c", "--output", "code")


def command_line(text: str) -> Html:
    """Return a command with a button that copies it, where scripts run."""
    button = tag("button", "Copy", type="button", class_="copy screen-only", hidden=True, aria_label=f"Copy: {text}")
    return tag("span", tag("code", text), button, class_="command")


def _inside(facts: Facts, name: str) -> str:
    return str(Path(facts.places.folder) / name) if facts.places.folder else ""


def _line(*words: str) -> str:
    return visible(shlex.join(["minidyn", *words]))
